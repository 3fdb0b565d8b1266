package node

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/bits"
	"net/netip"
	"strings"
	"time"

	"github.com/ava-labs/avalanchego/api"
	"github.com/ava-labs/avalanchego/api/info"
	"github.com/ava-labs/avalanchego/ids"
	avajson "github.com/ava-labs/avalanchego/utils/json"
	"github.com/ava-labs/avalanchego/vms/platformvm"
	platformapi "github.com/ava-labs/avalanchego/vms/platformvm/api"
	"github.com/ava-labs/avalanchego/vms/proposervm"
)

const (
	infoPath     = "/ext/info"
	platformPath = "/ext/bc/P"
)

// Peer is where a node can be reached on the peer-to-peer network.
type Peer struct {
	NodeID ids.NodeID
	Addr   netip.AddrPort
}

// Validator is one entry of a validator set as a node gives it.
type Validator struct {
	// Key is the compressed BLS public key, 48 bytes, unchecked; nil if it has none.
	Key     []byte
	Weight  uint64
	NodeIDs []ids.NodeID
}

// ValidatorSet lists validators in no particular order. TotalWeight counts
// those without a key, too, and inactive L1 validators.
type ValidatorSet struct {
	Validators  []Validator
	TotalWeight uint64
}

// CurrentValidator is a validator of a subnet now.
type CurrentValidator struct {
	NodeID ids.NodeID
	// ValidationID is set for L1 validators only.
	ValidationID ids.ID
	Weight       uint64
	// Balance is what an L1 validator has left for fees, in nAVAX; nil for others.
	Balance *uint64
}

// Epoch is a blockchain's current epoch (ACP-181).
type Epoch struct {
	PChainHeight, Number uint64
	StartTime            time.Time
}

type none struct{}

// NetworkID is the ID of the network that the node is on.
func (c *Client) NetworkID(ctx context.Context) (uint32, error) {
	var reply info.GetNetworkIDReply
	err := c.Call(ctx, infoPath, "info.getNetworkID", none{}, &reply)
	return uint32(reply.NetworkID), err
}

// Peers lists the node itself and the peers it is connected to.
func (c *Client) Peers(ctx context.Context) ([]Peer, error) {
	var reply struct {
		Peers []struct {
			NodeID   ids.NodeID     `json:"nodeID"`
			IP       netip.AddrPort `json:"ip"`
			PublicIP netip.AddrPort `json:"publicIP"`
		} `json:"peers"`
	}
	if err := c.Call(ctx, infoPath, "info.peers", none{}, &reply); err != nil {
		return nil, err
	}
	var peers []Peer
	for _, p := range reply.Peers {
		addr := p.PublicIP
		if !addr.IsValid() || addr.Port() == 0 || addr.Addr().IsUnspecified() {
			addr = p.IP
		}
		peers = append(peers, Peer{NodeID: p.NodeID, Addr: addr})
	}
	var id info.GetNodeIDReply
	var ip info.GetNodeIPReply
	if err := c.Call(ctx, infoPath, "info.getNodeID", none{}, &id); err != nil {
		return peers, nil //nolint:nilerr // public servers hide it; its peers suffice
	}
	if err := c.Call(ctx, infoPath, "info.getNodeIP", none{}, &ip); err != nil {
		return peers, nil //nolint:nilerr // as above
	}
	return append(peers, Peer{NodeID: id.NodeID, Addr: ip.IP}), nil
}

// BlockchainID resolves an alias such as C.
func (c *Client) BlockchainID(ctx context.Context, alias string) (ids.ID, error) {
	var reply info.GetBlockchainIDReply
	err := c.Call(ctx, infoPath, "info.getBlockchainID", info.GetBlockchainIDArgs{Alias: alias}, &reply)
	return reply.BlockchainID, err
}

// Height is the height of the last accepted P-Chain block.
func (c *Client) Height(ctx context.Context) (uint64, error) {
	var reply api.GetHeightResponse
	err := c.Call(ctx, platformPath, "platform.getHeight", none{}, &reply)
	return uint64(reply.Height), err
}

// ProposedHeight is the P-Chain height that the node currently proposes.
func (c *Client) ProposedHeight(ctx context.Context) (uint64, error) {
	var reply api.GetHeightResponse
	err := c.Call(ctx, platformPath, "platform.getProposedHeight", none{}, &reply)
	return uint64(reply.Height), err
}

// ValidatorsAt is a subnet's validator set at a P-Chain height, an entry per node.
func (c *Client) ValidatorsAt(ctx context.Context, subnetID ids.ID, height uint64) (ValidatorSet, error) {
	var reply struct {
		Validators map[ids.NodeID]struct {
			PublicKey *string        `json:"publicKey"`
			Weight    avajson.Uint64 `json:"weight"`
		} `json:"validators"`
	}
	// The node puts the set at the top of the result; older ones under a name.
	var raw json.RawMessage
	if err := c.Call(ctx, platformPath, "platform.getValidatorsAt", platformvm.GetValidatorsAtArgs{
		Height:   platformapi.Height(height),
		SubnetID: subnetID,
	}, &raw); err != nil {
		return ValidatorSet{}, err
	}
	if err := json.Unmarshal(raw, &reply.Validators); err != nil {
		if err := json.Unmarshal(raw, &reply); err != nil {
			return ValidatorSet{}, fmt.Errorf("%w: validator set: %w", ErrMalformed, err)
		}
	}
	var set ValidatorSet
	for nodeID, v := range reply.Validators {
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

// AllValidatorsAt has the sets of all subnets that have an active validator with
// a key at a P-Chain height, an entry per key.
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

// CurrentValidators lists a subnet's validators now.
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

// ValidatedBy is the subnet that validates a blockchain.
func (c *Client) ValidatedBy(ctx context.Context, blockchainID ids.ID) (ids.ID, error) {
	var reply platformvm.ValidatedByResponse
	err := c.Call(ctx, platformPath, "platform.validatedBy", platformvm.ValidatedByArgs{BlockchainID: blockchainID}, &reply)
	return reply.SubnetID, err
}

// Subnet describes a subnet; ConversionID is not zero for an L1.
func (c *Client) Subnet(ctx context.Context, subnetID ids.ID) (platformvm.GetSubnetResponse, error) {
	var reply platformvm.GetSubnetResponse
	err := c.Call(ctx, platformPath, "platform.getSubnet", platformvm.GetSubnetArgs{SubnetID: subnetID}, &reply)
	return reply, err
}

// CurrentEpoch is the current epoch of a blockchain that the node runs, given by
// ID or alias.
func (c *Client) CurrentEpoch(ctx context.Context, blockchain string) (Epoch, error) {
	var reply proposervm.GetEpochResponse
	if err := c.Call(ctx, "/ext/bc/"+blockchain+"/proposervm", "proposervm.getCurrentEpoch", none{}, &reply); err != nil {
		return Epoch{}, err
	}
	return Epoch{PChainHeight: uint64(reply.PChainHeight), Number: uint64(reply.Number), StartTime: time.Unix(int64(reply.StartTime), 0)}, nil
}
