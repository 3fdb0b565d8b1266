package node

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math/bits"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/ava-labs/avalanchego/api"
	"github.com/ava-labs/avalanchego/api/info"
	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/constants"
	avajson "github.com/ava-labs/avalanchego/utils/json"
	"github.com/ava-labs/avalanchego/vms/platformvm"
	platformapi "github.com/ava-labs/avalanchego/vms/platformvm/api"
	"github.com/ava-labs/avalanchego/vms/proposervm"
)

const (
	infoPath     = "/ext/info"
	platformPath = "/ext/bc/P"
)

// Peer is a node's ID and its address on the peer-to-peer network.
type Peer struct {
	NodeID ids.NodeID
	Addr   netip.AddrPort
}

// Validator is one entry of a validator set as a node reports it.
type Validator struct {
	// Key is the compressed BLS public key, 48 unchecked bytes; nil if there is none.
	Key     []byte
	Weight  uint64
	NodeIDs []ids.NodeID
}

// ValidatorSet lists validators in no particular order. TotalWeight includes validators
// without a key and inactive L1 validators.
type ValidatorSet struct {
	Validators  []Validator
	TotalWeight uint64
}

// CurrentValidator is a current validator of a subnet.
type CurrentValidator struct {
	NodeID ids.NodeID
	// ValidationID is set for L1 validators only.
	ValidationID ids.ID
	Weight       uint64
	// Balance is what an L1 validator has left for fees, in nAVAX; nil for other
	// validators.
	Balance *uint64
}

// Epoch is a blockchain's current epoch (ACP-181).
type Epoch struct {
	PChainHeight, Number uint64
	StartTime            time.Time
}

// OfGenesis reports whether the epoch is that of a child of the genesis block (avalanchego, vms/proposervm/acp181). A node
// reports it for a chain that has made no block.
func (e Epoch) OfGenesis() bool { return e.Number == 1 && e.PChainHeight == 0 }

type none struct{}

// ownID is the part of a reply to info.getNodeID that Client needs.
type ownID struct {
	NodeID ids.NodeID `json:"nodeID"`
}

// NetworkID returns the ID of the node's network.
func (c *Client) NetworkID(ctx context.Context) (uint32, error) {
	var reply info.GetNetworkIDReply
	err := c.Call(ctx, infoPath, "info.getNetworkID", none{}, &reply)
	return uint32(reply.NetworkID), err
}

// NodeID returns the node's own ID.
func (c *Client) NodeID(ctx context.Context) (ids.NodeID, error) {
	var reply ownID
	err := c.Call(ctx, infoPath, "info.getNodeID", none{}, &reply)
	return reply.NodeID, err
}

// Peers returns the nodes themselves, if they report their address, and their peers, each
// once. It asks every endpoint and fails only if none of them reports a peer.
func (c *Client) Peers(ctx context.Context) ([]Peer, error) {
	found, failures := make([][]Peer, len(c.endpoints)), make([]error, len(c.endpoints))
	var asking sync.WaitGroup
	for i, e := range c.endpoints {
		asking.Go(func() { found[i], failures[i] = c.peersOf(ctx, e) })
	}
	asking.Wait()
	var peers []Peer
	seen := make(map[ids.NodeID]struct{})
	answered := false
	for i := range found {
		answered = answered || failures[i] == nil
		for _, p := range found[i] {
			if _, ok := seen[p.NodeID]; ok || !reachable(p.Addr) {
				continue
			}
			seen[p.NodeID] = struct{}{}
			peers = append(peers, p)
		}
	}
	switch {
	case answered || len(peers) > 0:
		return peers, nil
	case ctx.Err() != nil:
		return nil, fmt.Errorf("info.peers: %w", ctx.Err())
	}
	return nil, conclude("info.peers", failures)
}

// peersOf asks one endpoint: a node's ID and address must come from the same endpoint.
func (c *Client) peersOf(ctx context.Context, e *endpoint) ([]Peer, error) {
	var own []Peer
	var id ownID
	var ip info.GetNodeIPReply
	err := c.ask(ctx, e, infoPath, "info.getNodeID", none{}, &id)
	if err == nil {
		err = c.ask(ctx, e, infoPath, "info.getNodeIP", none{}, &ip)
	}
	var refused *RPCError
	switch {
	case err == nil:
		own = []Peer{{NodeID: id.NodeID, Addr: ip.IP}}
	case !errors.As(err, &refused): // public servers refuse; their peers are enough
		return nil, err
	}
	var reply struct {
		Peers []struct {
			NodeID   ids.NodeID     `json:"nodeID"`
			IP       netip.AddrPort `json:"ip"`
			PublicIP netip.AddrPort `json:"publicIP"`
		} `json:"peers"`
	}
	if err := c.ask(ctx, e, infoPath, "info.peers", none{}, &reply); err != nil {
		return own, err
	}
	for _, p := range reply.Peers {
		addr := p.PublicIP
		if !reachable(addr) {
			addr = p.IP
		}
		own = append(own, Peer{NodeID: p.NodeID, Addr: addr})
	}
	return own, nil
}

func reachable(addr netip.AddrPort) bool {
	return addr.IsValid() && addr.Port() != 0 && !addr.Addr().IsUnspecified()
}

// BlockchainID resolves an alias, for example C.
func (c *Client) BlockchainID(ctx context.Context, alias string) (ids.ID, error) {
	var reply info.GetBlockchainIDReply
	err := c.Call(ctx, infoPath, "info.getBlockchainID", info.GetBlockchainIDArgs{Alias: alias}, &reply)
	return reply.BlockchainID, err
}

// Height returns the height of the last accepted P-Chain block.
func (c *Client) Height(ctx context.Context) (uint64, error) {
	var reply api.GetHeightResponse
	if err := c.Call(ctx, platformPath, "platform.getHeight", none{}, &reply); err != nil {
		return 0, err // a failed reply may be half decoded
	}
	return uint64(reply.Height), nil
}

// ProposedHeight returns the P-Chain height that the node currently proposes.
func (c *Client) ProposedHeight(ctx context.Context) (uint64, error) {
	var reply api.GetHeightResponse
	const method = "platform.getProposedHeight"
	if err := c.Call(ctx, platformPath, method, none{}, &reply); err != nil {
		return 0, err
	}
	if uint64(reply.Height) == platformapi.ProposedHeight {
		// Nodes would take it for the height that they propose, and no later height exceeds it.
		return 0, fmt.Errorf("%s: %w: height %d", method, ErrMalformed, reply.Height)
	}
	return uint64(reply.Height), nil
}

// ValidatorsAt returns the validator set of a subnet at a P-Chain height, one entry for
// each node ID. The set is also empty if there is no such subnet. Height 2^64-1 stands for
// the currently proposed height. From nodes without that method it gets the set with
// AllValidatorsAt, one entry for each key.
func (c *Client) ValidatorsAt(ctx context.Context, subnetID ids.ID, height uint64) (ValidatorSet, error) {
	set, err := c.validatorsAt(ctx, subnetID, height)
	var refusal *RPCError
	if !errors.As(err, &refusal) || !refusal.NotOffered() {
		return set, err
	}
	all, otherErr := c.AllValidatorsAt(ctx, height)
	if otherErr != nil {
		if refusal = nil; errors.As(otherErr, &refusal) && refusal.NotOffered() {
			return ValidatorSet{}, err
		}
		return ValidatorSet{}, otherErr
	}
	return all[subnetID], nil
}

func (c *Client) validatorsAt(ctx context.Context, subnetID ids.ID, height uint64) (ValidatorSet, error) {
	var reply map[ids.NodeID]struct {
		PublicKey *string        `json:"publicKey"`
		Weight    avajson.Uint64 `json:"weight"`
	}
	if err := c.Call(ctx, platformPath, "platform.getValidatorsAt", platformvm.GetValidatorsAtArgs{
		Height:   platformapi.Height(height),
		SubnetID: subnetID,
	}, &reply); err != nil {
		return ValidatorSet{}, err
	}
	var set ValidatorSet
	for nodeID, v := range reply {
		one := Validator{Weight: uint64(v.Weight), NodeIDs: []ids.NodeID{nodeID}}
		if v.PublicKey != nil {
			key, err := parseKey(*v.PublicKey)
			if err != nil {
				return ValidatorSet{}, err
			}
			one.Key = key
		}
		sum, overflow := bits.Add64(set.TotalWeight, one.Weight, 0)
		if overflow != 0 {
			return ValidatorSet{}, fmt.Errorf("%w: the weights of subnet %s at height %d exceed 64 bits", ErrMalformed, subnetID, height)
		}
		set.TotalWeight = sum
		set.Validators = append(set.Validators, one)
	}
	return set, nil
}

// AllValidatorsAt returns the sets of all subnets with a validator at a P-Chain height, one
// entry for each key. It leaves out sets whose weights exceed 64 bits. A set has weight but
// no entry if none of its validators has a key.
func (c *Client) AllValidatorsAt(ctx context.Context, height uint64) (map[ids.ID]ValidatorSet, error) {
	var reply struct {
		ValidatorSets map[ids.ID]struct {
			Validators []struct {
				PublicKey string         `json:"publicKey"`
				Weight    avajson.Uint64 `json:"weight"`
				NodeIDs   []ids.NodeID   `json:"nodeIDs"`
			} `json:"validators"`
			TotalWeight avajson.Uint64 `json:"totalWeight"`
		} `json:"validatorSets"`
	}
	if err := c.Call(ctx, platformPath, "platform.getAllValidatorsAt", platformvm.GetAllValidatorsAtArgs{Height: platformapi.Height(height)}, &reply); err != nil {
		return nil, err
	}
	sets := make(map[ids.ID]ValidatorSet, len(reply.ValidatorSets))
	for subnetID, s := range reply.ValidatorSets {
		set := ValidatorSet{TotalWeight: uint64(s.TotalWeight), Validators: make([]Validator, len(s.Validators))}
		for i, v := range s.Validators {
			key, err := parseKey(v.PublicKey)
			if err != nil {
				return nil, err
			}
			set.Validators[i] = Validator{Key: key, Weight: uint64(v.Weight), NodeIDs: v.NodeIDs}
		}
		sets[subnetID] = set
	}
	return sets, nil
}

func parseKey(text string) ([]byte, error) {
	key, err := hex.DecodeString(strings.TrimPrefix(text, "0x"))
	if err != nil || len(key) != 48 {
		return nil, fmt.Errorf("%w: a BLS public key is not 48 bytes of hex", ErrMalformed)
	}
	return key, nil
}

// CurrentValidators returns the current validators of a subnet.
func (c *Client) CurrentValidators(ctx context.Context, subnetID ids.ID) ([]CurrentValidator, error) {
	var reply struct {
		Validators []struct {
			NodeID       ids.NodeID      `json:"nodeID"`
			Weight       avajson.Uint64  `json:"weight"`
			ValidationID *ids.ID         `json:"validationID"`
			Balance      *avajson.Uint64 `json:"balance"`
		} `json:"validators"`
	}
	if err := c.Call(ctx, platformPath, "platform.getCurrentValidators", platformvm.GetCurrentValidatorsArgs{SubnetID: subnetID}, &reply); err != nil {
		return nil, err
	}
	validators := make([]CurrentValidator, len(reply.Validators))
	for i, v := range reply.Validators {
		validators[i] = CurrentValidator{NodeID: v.NodeID, Weight: uint64(v.Weight), Balance: (*uint64)(v.Balance)}
		if v.ValidationID != nil {
			validators[i].ValidationID = *v.ValidationID
		}
	}
	return validators, nil
}

// ValidatedBy returns the subnet that validates a blockchain.
func (c *Client) ValidatedBy(ctx context.Context, blockchainID ids.ID) (ids.ID, error) {
	var reply platformvm.ValidatedByResponse
	err := c.Call(ctx, platformPath, "platform.validatedBy", platformvm.ValidatedByArgs{BlockchainID: blockchainID}, &reply)
	return reply.SubnetID, err
}

// Subnet returns a subnet. Its ConversionID is not zero for an L1.
func (c *Client) Subnet(ctx context.Context, subnetID ids.ID) (platformvm.GetSubnetResponse, error) {
	var reply platformvm.GetSubnetResponse
	err := c.Call(ctx, platformPath, "platform.getSubnet", platformvm.GetSubnetArgs{SubnetID: subnetID}, &reply)
	return reply, err
}

// CurrentEpoch returns the current epoch of a blockchain that the node runs. The zero ID
// stands for the P-Chain.
func (c *Client) CurrentEpoch(ctx context.Context, blockchainID ids.ID) (Epoch, error) {
	name := "P"
	if blockchainID != constants.PlatformChainID {
		name = blockchainID.String()
	}
	var reply proposervm.GetEpochResponse
	if err := c.Call(ctx, "/ext/bc/"+name+"/proposervm", "proposervm.getCurrentEpoch", none{}, &reply); err != nil {
		return Epoch{}, err
	}
	return Epoch{PChainHeight: uint64(reply.PChainHeight), Number: uint64(reply.Number), StartTime: time.Unix(int64(reply.StartTime), 0)}, nil
}
