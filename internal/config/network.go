package config

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"slices"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/constants"

	"quorate/internal/index/evm"
	"quorate/internal/index/primary"
	"quorate/internal/node"
)

// Network is a network that is served under the name of its key.
type Network struct {
	// Nodes are upstream nodes with their base URLs, best first. One may be node.PeersEndpoint: the P-Chain is then
	// followed over the peer-to-peer network, wherever that stands in the list, and the nodes are compared with it.
	Nodes []Endpoint `yaml:"nodes"`
	// RequestsPerSecond bounds the calls to all upstream nodes of the network together;
	// 0 means no bound.
	RequestsPerSecond int `yaml:"requests_per_second"`
	// MaxHeightAge is how many blocks a P-Chain height that a client names may lie below the
	// current one; 0 means any number. Nil means the default; see HeightAge.
	MaxHeightAge *uint64 `yaml:"max_height_age"`
	// ManualPeers are nodes to connect to besides those that upstream nodes report.
	ManualPeers []ManualPeer `yaml:"manual_peers"`
	// AllowPrivateIPs connects to validators at addresses that are not public.
	AllowPrivateIPs bool `yaml:"allow_private_ips"`
	// AheadRounds is how many messages are signed at a time before anyone asks;
	// 0 turns that off.
	AheadRounds *int `yaml:"ahead_rounds"`
	// Record selects what is indexed: l1 (what signing needs; the default), primary (all but
	// EVM chains) or all.
	Record string `yaml:"record"`
	// IndexFrom is the first P-Chain height that is indexed with Record l1, unless an index
	// exists.
	IndexFrom uint64 `yaml:"index_from"`
	// KeepContainers is what is kept of blocks as nodes gave them: all, needed or none;
	// empty stands for needed where there is a ledger, else none. See primary.Keep.
	KeepContainers primary.Keep `yaml:"keep_containers"`
	// EVMIndexes names the optional indexes of the network's EVM chains that are on.
	EVMIndexes []evm.Optional `yaml:"evm_indexes"`
	// VerifyEVMSenders makes the indexes of EVM chains recover the sender of each transaction from its signature.
	VerifyEVMSenders bool `yaml:"verify_evm_senders"`
	// GenesisFile is what the nodes of a private network were started with.
	GenesisFile string `yaml:"genesis_file"`
	// UpgradeFile has the upgrade times of a private network that is followed over the peer-to-peer network, as its nodes
	// were started with (--upgrade-file); empty stands for the library's.
	UpgradeFile string `yaml:"upgrade_file"`
	// Checkpoint is a file with the state of the P-Chain to begin with, and CheckpointHash its hash in hex. They are used
	// if the network is followed over the peer-to-peer network and has no state.
	Checkpoint     string `yaml:"checkpoint"`
	CheckpointHash string `yaml:"checkpoint_hash"`
	// XChainTimes is a file with the times of X-Chain transactions and vertices from before
	// Cortina; see package times.
	XChainTimes string `yaml:"x_chain_times"`
	// EVM are chains that are recorded, and whose messages are signed before anyone
	// asks, besides the C-Chain.
	EVM []EVM `yaml:"evm"`
	// HealthSubnets are IDs of subnets without whose validators the service is not
	// healthy, besides the primary network.
	HealthSubnets []string `yaml:"health_subnets"`
}

// FollowsPeers reports whether the P-Chain is followed over the peer-to-peer network.
func (n Network) FollowsPeers() bool {
	return slices.ContainsFunc(n.Nodes, func(e Endpoint) bool { return e.URL == node.PeersEndpoint })
}

// OnlyPeers reports whether the network has no upstream node, so that all comes from the peer-to-peer network.
func (n Network) OnlyPeers() bool { return len(n.Nodes) == 1 && n.FollowsPeers() }

// CheckpointID returns CheckpointHash as an ID.
func (n Network) CheckpointID() (id ids.ID, err error) {
	b, err := hex.DecodeString(n.CheckpointHash)
	if err != nil || len(b) != len(id) {
		return id, fmt.Errorf("%q is not the hex of 32 bytes", n.CheckpointHash)
	}
	return ids.ID(b), nil
}

// RecordsLedger reports whether outputs, balances and stakes are indexed.
func (n Network) RecordsLedger() bool { return n.Record == RecordAll || n.Record == RecordPrimary }

// Keep is KeepContainers or its default. What signing needs alone is small, and soon
// fetched again.
func (n Network) Keep() primary.Keep {
	if n.KeepContainers == "" && !n.RecordsLedger() {
		return primary.KeepNone
	}
	return cmp.Or(n.KeepContainers, primary.KeepNeeded)
}

// RecordsEVM reports whether EVM chains are indexed.
func (n Network) RecordsEVM() bool { return n.Record == RecordAll }

// The values of Network.Record. Empty means RecordL1.
const (
	RecordAll     = "all"
	RecordPrimary = "primary"
	RecordL1      = "l1"
)

// EVM is an EVM chain.
type EVM struct {
	// RPC are the nodes with the URLs of its Ethereum API, best first.
	RPC Endpoints `yaml:"rpc"`
	// NativeToken is what pays for gas there; without it answers call it so.
	NativeToken *Token `yaml:"native_token"`
}

// Token is a token that no contract tells of.
type Token struct {
	Name        string `yaml:"name"`
	Symbol      string `yaml:"symbol"`
	Decimals    *uint8 `yaml:"decimals"` // 18 without it
	LogoURI     string `yaml:"logo_uri"`
	Description string `yaml:"description"`
}

// Metadata is about documents that token URIs lead to.
type Metadata struct {
	// IPFSGateways are base URLs; without any, documents of IPFS cannot be reached.
	IPFSGateways []string `yaml:"ipfs_gateways"`
	// AllowPrivate lets token URIs lead to addresses that are not public.
	AllowPrivate bool `yaml:"allow_private"`
}

// Ahead is AheadRounds or its default.
func (n Network) Ahead() int {
	if n.AheadRounds == nil {
		return 2
	}
	return *n.AheadRounds
}

// HeightAge returns MaxHeightAge or its default. An upstream node computes an old validator
// set from all changes since then. A relayer names the height of the current epoch of the
// blockchain that verifies (ACP-181), which stays as it is while that blockchain produces no
// block. The default is about six weeks of blocks of mainnet.
func (n Network) HeightAge() uint64 {
	if n.MaxHeightAge == nil {
		return 500_000
	}
	return *n.MaxHeightAge
}

// HealthSubnetIDs are HealthSubnets' IDs.
func (n Network) HealthSubnetIDs() ([]ids.ID, error) {
	all := make([]ids.ID, len(n.HealthSubnets))
	for i, text := range n.HealthSubnets {
		id, err := ids.FromString(text)
		if err != nil || id == constants.PrimaryNetworkID || slices.Contains(all[:i], id) {
			return nil, fmt.Errorf("%q is not the ID of one more subnet", text)
		}
		all[i] = id
	}
	return all, nil
}
