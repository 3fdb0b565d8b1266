// Package info answers info.* as a node does (avalanchego, package api/info), from
// what the service knows itself.
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

	"github.com/ava-labs/avalanchego/api/info"
	"github.com/ava-labs/avalanchego/genesis"
	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/network/peer"
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

// Options of the methods. All are required.
type Options struct {
	NetworkID uint32
	// Aliases are the names of the blockchains that are served.
	Aliases ids.AliaserReader
	// Bootstrapped reports whether requests for a blockchain can be answered.
	Bootstrapped func(ids.ID) bool

	// NodeID, Proof and Address are who we are among the nodes, and where we claim to
	// be.
	NodeID  ids.NodeID
	Proof   *signer.ProofOfPossession
	Address netip.AddrPort
	// Peers are the nodes that we are connected to.
	Peers func() []p2p.Peer
	// Weights are those of the primary network's validators, without a key included.
	Weights func(context.Context) (Weights, error)

	// Upgrades are the network's (info.upgrades). EVMVersion is the version of what
	// runs the C-Chain.
	Upgrades   func() (json.RawMessage, error)
	EVMVersion func() string
}

// Weights of validators. Unchanged once made.
type Weights struct {
	Of    map[ids.NodeID]uint64
	Total uint64
}

// Public has the methods that everybody may call.
type Public struct{ o Options }

// Operator has all methods, those that are about this node alone included.
type Operator struct{ Public }

// New makes the methods for everybody, and for the operator.
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

// GetNodeVersion answers info.getNodeVersion with what we tell other nodes.
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

// GetTxFee answers info.getTxFee. The fees that are not fixed any more are what they
// were last.
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
				delete(connected, id) // else a request could be answered with a multiple of its size
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
		Benched: []string{}, // we run no chain that could do without a node
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
	sum, rewarding := 100*float64(own), float64(own)
	for _, p := range s.o.Peers() {
		weight := float64(weights.Of[p.NodeID])
		sum += float64(p.ObservedUptime) * weight
		if float64(p.ObservedUptime)/100 >= genesis.GetStakingConfig(s.o.NetworkID).UptimeRequirement {
			rewarding += weight
		}
	}
	reply.WeightedAveragePercentage = avajson.Float64(sum / float64(weights.Total))
	reply.RewardingStakePercentage = avajson.Float64(100 * rewarding / float64(weights.Total))
	return nil
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

// GetVMs answers info.getVMs: what the primary network's chains run on.
func (s *Operator) GetVMs(_ *http.Request, _ *struct{}, reply *info.GetVMsReply) error {
	reply.Fxs = map[ids.ID]string{secp256k1fx.ID: secp256k1fx.Name, nftfx.ID: nftfx.Name, propertyfx.ID: propertyfx.Name}
	reply.VMs = maps.Clone(genesis.VMAliases)
	maps.DeleteFunc(reply.VMs, func(id ids.ID, _ []string) bool { _, fx := reply.Fxs[id]; return fx })
	for id, aliases := range reply.VMs {
		reply.VMs[id] = slices.Clone(aliases)
	}
	return nil
}
