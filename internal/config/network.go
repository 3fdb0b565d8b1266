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
	// Nodes are upstream nodes with their base URLs, best first. If one of them is node.PeersEndpoint, the service follows
	// the P-Chain over the peer-to-peer network and compares the other nodes with it.
	Nodes []Endpoint `yaml:"nodes"`
	// RequestsPerSecond limits the calls to all upstream nodes of the network together;
	// 0 means no limit.
	RequestsPerSecond int `yaml:"requests_per_second"`
	// MaxHeightAge is how many blocks a P-Chain height in a request may lie below the current one; 0 means any number.
	// Nil means the default; see HeightAge.
	MaxHeightAge *uint64 `yaml:"max_height_age"`
	// ManualPeers are nodes to connect to besides those that upstream nodes report.
	ManualPeers []ManualPeer `yaml:"manual_peers"`
	// AllowPrivateIPs connects to validators at addresses that are not public.
	AllowPrivateIPs bool `yaml:"allow_private_ips"`
	// AheadRounds is the number of messages that are signed ahead of requests at the same time; 0 means none, and nil the
	// default.
	AheadRounds *int `yaml:"ahead_rounds"`
	// Record selects what is indexed: l1 (what signing needs; the default), primary (all but
	// EVM chains) or all.
	Record string `yaml:"record"`
	// IndexFrom is the first P-Chain height that is indexed with Record l1, unless an index
	// exists.
	IndexFrom uint64 `yaml:"index_from"`
	// KeepContainers selects the blocks that are stored as nodes sent them: all, needed or none. Empty means needed with a
	// ledger, else none. See primary.Keep.
	KeepContainers primary.Keep `yaml:"keep_containers"`
	// EVMIndexes are the optional indexes of the network's EVM chains.
	EVMIndexes []evm.Optional `yaml:"evm_indexes"`
	// VerifyEVMSenders makes the indexes of EVM chains recover the sender of each transaction from its signature.
	VerifyEVMSenders bool `yaml:"verify_evm_senders"`
	// GenesisFile is the genesis file of a private network, the same as its nodes' --genesis-file.
	GenesisFile string `yaml:"genesis_file"`
	// UpgradeFile is the upgrade file of a private network that is followed over the peer-to-peer network, the same as its
	// nodes' --upgrade-file. Empty means the library's upgrade times.
	UpgradeFile string `yaml:"upgrade_file"`
	// Checkpoint is a file with the state of the P-Chain to begin with, and CheckpointHash its hash in hex. They are used
	// if the network is followed over the peer-to-peer network and has no state.
	Checkpoint     string `yaml:"checkpoint"`
	CheckpointHash string `yaml:"checkpoint_hash"`
	// XChainTimes is a file with the times of X-Chain transactions and vertices from before
	// Cortina; see package times.
	XChainTimes string `yaml:"x_chain_times"`
	// EVM are the EVM chains besides the C-Chain. They are indexed, and their messages are signed ahead of requests.
	EVM []EVM `yaml:"evm"`
	// HealthSubnets are the IDs of the subnets whose validators /ext/health checks, besides the primary network.
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

// Keep returns KeepContainers or its default. Without a ledger the index is small and can be fetched again soon.
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
	// NativeToken is the token that pays for gas; nil if it is unknown.
	NativeToken *Token `yaml:"native_token"`
}

// Token is a token that no contract describes.
type Token struct {
	Name        string `yaml:"name"`
	Symbol      string `yaml:"symbol"`
	Decimals    *uint8 `yaml:"decimals"` // 18 without it
	LogoURI     string `yaml:"logo_uri"`
	Description string `yaml:"description"`
}

// Metadata configures the fetching of the documents that token URIs name.
type Metadata struct {
	// IPFSGateways are base URLs. Without any, documents on IPFS are not fetched.
	IPFSGateways []string `yaml:"ipfs_gateways"`
	// AllowPrivate permits token URIs at addresses that are not public.
	AllowPrivate bool `yaml:"allow_private"`
}

// Ahead returns AheadRounds or its default.
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

// HealthSubnetIDs returns HealthSubnets as IDs.
func (n Network) HealthSubnetIDs() ([]ids.ID, error) {
	all := make([]ids.ID, len(n.HealthSubnets))
	for i, text := range n.HealthSubnets {
		id, err := ids.FromString(text)
		if err != nil || id == constants.PrimaryNetworkID || slices.Contains(all[:i], id) {
			return nil, fmt.Errorf("%q is not a subnet ID, or is listed twice", text)
		}
		all[i] = id
	}
	return all, nil
}
