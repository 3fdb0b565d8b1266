// Package info answers info.* as a node does (avalanchego, package api/info), without upstream nodes.
package info

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/ava-labs/avalanchego/api/info"
	"github.com/ava-labs/avalanchego/genesis"
	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/network/peer"
	"github.com/ava-labs/avalanchego/upgrade"
	"github.com/ava-labs/avalanchego/utils/constants"
	avajson "github.com/ava-labs/avalanchego/utils/json"
	"github.com/ava-labs/avalanchego/utils/set"
	"github.com/ava-labs/avalanchego/utils/units"
	"github.com/ava-labs/avalanchego/version"
	"github.com/ava-labs/avalanchego/vms/nftfx"
	"github.com/ava-labs/avalanchego/vms/platformvm/signer"
	"github.com/ava-labs/avalanchego/vms/propertyfx"
	"github.com/ava-labs/avalanchego/vms/secp256k1fx"

	"quorate/p2p"
)

// Options configures the methods. All fields are required.
type Options struct {
	NetworkID uint32
	// Aliases maps the aliases of the served blockchains.
	Aliases ids.AliaserReader
	// Bootstrapped reports whether requests for a blockchain can be answered.
	Bootstrapped func(ids.ID) bool

	// NodeID, Proof and Address identify this service to its peers, and state its own address.
	NodeID  ids.NodeID
	Proof   *signer.ProofOfPossession
	Address netip.AddrPort
	// Peers returns the connected peers.
	Peers func() []p2p.Peer
	// Weights returns the weights of the primary network's validators, including those without a BLS key.
	Weights func(context.Context) (Weights, error)
	// Began returns when this service's current period as a validator of the primary network began. It is called only if
	// Weights has the service.
	Began func(context.Context) (time.Time, error)

	// Upgrades returns the network's upgrades (info.upgrades). EVMVersion is the version of the C-Chain's VM.
	Upgrades   func() (json.RawMessage, error)
	EVMVersion func() string
}

// Weights holds the weights of validators. It is immutable.
type Weights struct {
	Of    map[ids.NodeID]uint64
	Total uint64
}

// Public implements the methods for all clients.
type Public struct{ o Options }

// Operator implements all methods, including those about this node.
type Operator struct{ Public }

// New returns the methods for all clients, and those for the operator.
func New(o Options) (*Public, *Operator) {
	return &Public{o}, &Operator{Public{o}}
}

// GetNetworkID answers info.getNetworkID.
func (s *Public) GetNetworkID(_ *http.Request, _ *struct{}, reply *info.GetNetworkIDReply) error {
	reply.NetworkID = avajson.Uint32(s.o.NetworkID)
	return nil
}

// GetNetworkName answers info.getNetworkName.
func (s *Public) GetNetworkName(_ *http.Request, _ *struct{}, reply *info.GetNetworkNameReply) error {
	reply.NetworkName = constants.NetworkName(s.o.NetworkID)
	return nil
}

// GetBlockchainID answers info.getBlockchainID.
func (s *Public) GetBlockchainID(_ *http.Request, args *info.GetBlockchainIDArgs, reply *info.GetBlockchainIDReply) (err error) {
	reply.BlockchainID, err = s.o.Aliases.Lookup(args.Alias)
	return err
}

var errNoChain = errors.New("argument 'chain' not given")

// IsBootstrapped answers info.isBootstrapped.
func (s *Public) IsBootstrapped(_ *http.Request, args *info.IsBootstrappedArgs, reply *info.IsBootstrappedResponse) error {
	if args.Chain == "" {
		return errNoChain
	}
	id, err := s.o.Aliases.Lookup(args.Chain)
	if err != nil {
		return fmt.Errorf("there is no chain with alias/ID '%s'", args.Chain)
	}
	reply.IsBootstrapped = s.o.Bootstrapped(id)
	return nil
}

// GetNodeVersion answers info.getNodeVersion with the version that the handshake sends.
func (s *Public) GetNodeVersion(_ *http.Request, _ *struct{}, reply *info.GetNodeVersionReply) error {
	ours := version.Current.String()
	*reply = info.GetNodeVersionReply{
		Version:            ours,
		DatabaseVersion:    version.CurrentDatabase,
		RPCProtocolVersion: avajson.Uint32(version.RPCChainVMProtocol),
		GitCommit:          version.GitCommit,
		VMVersions:         map[string]string{"avm": ours, "evm": s.o.EVMVersion(), "platform": ours},
	}
	return nil
}

// GetTxFee answers info.getTxFee. Fees that are now dynamic have their last fixed value.
func (s *Public) GetTxFee(_ *http.Request, _ *struct{}, reply *info.GetTxFeeResponse) error {
	var create, transform avajson.Uint64
	switch s.o.NetworkID {
	case constants.MainnetID:
		create, transform = avajson.Uint64(units.Avax), avajson.Uint64(10*units.Avax)
	case constants.FujiID:
		create, transform = avajson.Uint64(100*units.MilliAvax), avajson.Uint64(units.Avax)
	default:
		create, transform = avajson.Uint64(100*units.MilliAvax), avajson.Uint64(100*units.MilliAvax)
	}
	fees := genesis.GetTxFeeConfig(s.o.NetworkID)
	*reply = info.GetTxFeeResponse{
		TxFee:                 avajson.Uint64(fees.TxFee),
		CreateAssetTxFee:      avajson.Uint64(fees.CreateAssetTxFee),
		CreateSubnetTxFee:     create,
		TransformSubnetTxFee:  transform,
		CreateBlockchainTxFee: create,
		AddSubnetValidatorFee: avajson.Uint64(units.MilliAvax),
		AddSubnetDelegatorFee: avajson.Uint64(units.MilliAvax),
	}
	return nil
}

// Upgrades answers info.upgrades.
func (s *Public) Upgrades(_ *http.Request, _ *struct{}, reply *json.RawMessage) (err error) {
	*reply, err = s.o.Upgrades()
	return err
}

// Peers answers info.peers.
func (s *Public) Peers(_ *http.Request, args *info.PeersArgs, reply *info.PeersReply) error {
	reply.Peers = []info.Peer{}
	if len(args.NodeIDs) == 0 {
		for _, p := range s.o.Peers() {
			reply.Peers = append(reply.Peers, describe(p))
		}
	} else {
		connected := make(map[ids.NodeID]p2p.Peer)
		for _, p := range s.o.Peers() {
			connected[p.NodeID] = p
		}
		for _, id := range args.NodeIDs {
			if p, ok := connected[id]; ok {
				reply.Peers = append(reply.Peers, describe(p))
				delete(connected, id) // each peer once, so that the answer stays smaller than a multiple of the request
			}
		}
	}
	reply.NumPeers = avajson.Uint64(len(reply.Peers))
	return nil
}

func describe(p p2p.Peer) info.Peer {
	return info.Peer{
		Info: peer.Info{
			IP:             p.Addr,
			PublicIP:       p.Claimed,
			ID:             p.NodeID,
			Version:        version.Client + "/" + strings.TrimPrefix(p.Version, "v"),
			UpgradeTime:    uint64(p.UpgradeTime.Unix()),
			LastSent:       p.LastSent,
			LastReceived:   p.LastReceived,
			ObservedUptime: avajson.Uint32(p.ObservedUptime),
			TrackedSubnets: set.Of(p.TrackedSubnets...),
			SupportedACPs:  set.Of(p.SupportedACPs...),
			ObjectedACPs:   set.Of(p.ObjectedACPs...),
		},
		Benched: []string{}, // the service runs no chain that benches validators
	}
}

// Uptime answers info.uptime.
func (s *Public) Uptime(r *http.Request, _ *struct{}, reply *info.UptimeResponse) error {
	weights, err := s.o.Weights(r.Context())
	if err != nil {
		return fmt.Errorf("couldn't get node uptime: %w", err)
	}
	own := weights.Of[s.o.NodeID]
	if own == 0 {
		return errors.New("couldn't get node uptime: node is not a validator")
	}
	required, err := s.uptimeRequirement(r.Context())
	if err != nil {
		return fmt.Errorf("couldn't get node uptime: %w", err)
	}
	sum, rewarding := 100*float64(own), float64(own)
	for _, p := range s.o.Peers() {
		weight := float64(weights.Of[p.NodeID])
		sum += float64(p.ObservedUptime) * weight
		if float64(p.ObservedUptime)/100 >= required {
			rewarding += weight
		}
	}
	reply.WeightedAveragePercentage = avajson.Float64(sum / float64(weights.Total))
	reply.RewardingStakePercentage = avajson.Float64(100 * rewarding / float64(weights.Total))
	return nil
}

// uptimeRequirement returns the part of its current period for which this service must be online to get a reward. ACP-267
// raises it for periods that begin after the activation of Helicon.
func (s *Public) uptimeRequirement(ctx context.Context) (float64, error) {
	began, err := s.o.Began(ctx)
	if err != nil {
		return 0, fmt.Errorf("error while fetching local validator start time %w", err)
	}
	reported, err := s.o.Upgrades()
	if err != nil {
		return 0, err
	}
	upgrades := upgrade.GetConfig(s.o.NetworkID) // for what is not reported
	if err := json.Unmarshal(reported, &upgrades); err != nil {
		return 0, fmt.Errorf("reading the network's upgrades: %w", err)
	}
	if upgrades.IsHeliconActivated(began) {
		return genesis.ACP267UptimeRequirement, nil
	}
	return genesis.GetStakingConfig(s.o.NetworkID).UptimeRequirement, nil
}

// Acps answers info.acps.
func (s *Public) Acps(r *http.Request, _ *struct{}, reply *info.ACPsReply) error {
	weights, err := s.o.Weights(r.Context())
	if err != nil {
		return err
	}
	reply.ACPs = make(map[uint32]*info.ACP)
	about := func(number uint32) *info.ACP {
		if reply.ACPs[number] == nil {
			reply.ACPs[number] = &info.ACP{}
		}
		return reply.ACPs[number]
	}
	for _, p := range s.o.Peers() {
		weight := avajson.Uint64(weights.Of[p.NodeID])
		if weight == 0 {
			continue
		}
		for _, number := range p.SupportedACPs {
			acp := about(number)
			acp.Supporters.Add(p.NodeID)
			acp.SupportWeight += weight
		}
		for _, number := range p.ObjectedACPs {
			acp := about(number)
			acp.Objectors.Add(p.NodeID)
			acp.ObjectWeight += weight
		}
	}
	for number := range constants.CurrentACPs {
		acp := about(number)
		acp.AbstainWeight = avajson.Uint64(weights.Total) - acp.SupportWeight - acp.ObjectWeight
	}
	return nil
}

// GetNodeID answers info.getNodeID.
func (s *Operator) GetNodeID(_ *http.Request, _ *struct{}, reply *info.GetNodeIDReply) error {
	reply.NodeID, reply.NodePOP = s.o.NodeID, s.o.Proof
	return nil
}

// GetNodeIP answers info.getNodeIP.
func (s *Operator) GetNodeIP(_ *http.Request, _ *struct{}, reply *info.GetNodeIPReply) error {
	reply.IP = s.o.Address
	return nil
}

// GetVMs answers info.getVMs: the VMs of the primary network's chains.
func (s *Operator) GetVMs(_ *http.Request, _ *struct{}, reply *info.GetVMsReply) error {
	reply.Fxs = map[ids.ID]string{secp256k1fx.ID: secp256k1fx.Name, nftfx.ID: nftfx.Name, propertyfx.ID: propertyfx.Name}
	reply.VMs = maps.Clone(genesis.VMAliases)
	maps.DeleteFunc(reply.VMs, func(id ids.ID, _ []string) bool { _, fx := reply.Fxs[id]; return fx })
	for id, aliases := range reply.VMs {
		reply.VMs[id] = slices.Clone(aliases)
	}
	return nil
}
