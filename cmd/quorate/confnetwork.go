package main

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/constants"

	"quorate/index/primary"
)

// networkConfig is a network that is served under the name of its key.
type networkConfig struct {
	// Nodes are base URLs of upstream nodes, best first.
	Nodes []string `yaml:"nodes"`
	// AllowPrivateIPs connects to validators at addresses that are not public.
	AllowPrivateIPs bool `yaml:"allow_private_ips"`
	// AheadRounds is how many messages are signed at a time before anyone asks;
	// 0 turns that off.
	AheadRounds *int `yaml:"ahead_rounds"`
	// Record is all, primary for all but EVM chains, or l1 for what signing needs alone.
	Record string `yaml:"record"`
	// IndexFrom is the height from which the P-Chain is recorded with Record l1, if
	// nothing of it is yet.
	IndexFrom uint64 `yaml:"index_from"`
	// KeepContainers is what is kept of blocks as nodes gave them: all, needed or none;
	// empty stands for needed where there is a ledger, else none. See primary.Keep.
	KeepContainers primary.Keep `yaml:"keep_containers"`
	// GenesisFile is what the nodes of a private network were started with.
	GenesisFile string `yaml:"genesis_file"`
	// EVM are chains that are recorded, and whose messages are signed before anyone
	// asks, besides the C-Chain.
	EVM []evmConfig `yaml:"evm"`
	// HealthSubnets are IDs of subnets without whose validators the service is not
	// healthy, besides the primary network.
	HealthSubnets []string `yaml:"health_subnets"`
}

// ledger reports whether outputs, balances and stakes are recorded.
func (n networkConfig) ledger() bool { return n.Record != recordL1 }

// keep is KeepContainers or its default. What signing needs alone is small, and soon
// fetched again.
func (n networkConfig) keep() primary.Keep {
	if n.KeepContainers == "" && !n.ledger() {
		return primary.KeepNone
	}
	return cmp.Or(n.KeepContainers, primary.KeepNeeded)
}

// evm reports whether EVM chains are recorded.
func (n networkConfig) evm() bool { return n.Record == recordAll || n.Record == "" }

// What of a network is recorded.
const (
	recordAll     = "all"
	recordPrimary = "primary"
	recordL1      = "l1"
)

// evmConfig is an EVM chain.
type evmConfig struct {
	// RPC is the URL of its Ethereum API.
	RPC string `yaml:"rpc"`
	// NativeToken is what pays for gas there; without it answers call it so.
	NativeToken *tokenConfig `yaml:"native_token"`
}

// tokenConfig is a token that no contract tells of.
type tokenConfig struct {
	Name        string `yaml:"name"`
	Symbol      string `yaml:"symbol"`
	Decimals    *uint8 `yaml:"decimals"` // 18 without it
	LogoURI     string `yaml:"logo_uri"`
	Description string `yaml:"description"`
}

// metadataConfig is about documents that token URIs lead to.
type metadataConfig struct {
	// IPFSGateways are base URLs; without any, documents of IPFS cannot be reached.
	IPFSGateways []string `yaml:"ipfs_gateways"`
	// AllowPrivate lets token URIs lead to addresses that are not public.
	AllowPrivate bool `yaml:"allow_private"`
}

// aheadRounds is AheadRounds or its default.
func (n networkConfig) aheadRounds() int {
	if n.AheadRounds == nil {
		return 2
	}
	return *n.AheadRounds
}

// healthSubnets are HealthSubnets' IDs.
func (n networkConfig) healthSubnets() ([]ids.ID, error) {
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
