package evm

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/ava-labs/avalanchego/ids"

	"quorate/handlers/apierr"
	"quorate/handlers/networks"
	"quorate/handlers/reply"
)

// Chain is an EVM chain whose index is served. All fields but NativeToken, Describe and Metadata are required.
type Chain struct {
	// ChainID is the EIP-155 chain ID, BlockchainID the ID on its network.
	ChainID      uint64
	BlockchainID ids.ID
	// Primary reports that the chain is the C-Chain of its network.
	Primary bool
	// NativeToken is the token that pays for gas. Without name and symbol it is AVAX if Primary is set, else "Native
	// token" with the symbol "NATIVE" and 18 decimals.
	NativeToken NativeToken
	// NetworkID is the ID of the chain's network. Only mainnet's chains are no test chains.
	NetworkID uint32
	// Describe returns what the P-Chain's index says of the blockchain, nil if it does not know it. It may be nil.
	Describe func(ctx context.Context) (*Description, error)
	// Progress returns the progress of the index.
	Progress func(ctx context.Context) reply.Progress

	Index     Index
	Contracts Contracts
	URIs      URIs
	Node      Node
	// Metadata may be nil; then no metadata is indexed.
	Metadata MetadataReader

	name string // text of BlockchainID
}

// NativeToken is the token of a chain that pays for gas. LogoURI and Description may be empty.
type NativeToken struct {
	Name, Symbol string
	// Decimals is the number of decimal places of the token's amounts.
	Decimals             uint8
	LogoURI, Description string
}

// CChain is the name of the C-Chain in paths.
const CChain = "c-chain"

// Chains finds the chains of all networks by their names in paths. The zero value has no chains. It is safe for
// concurrent use.
type Chains struct {
	// Aliases are further names of networks, with the names in Set. They must not change.
	Aliases map[string]string

	mu       sync.RWMutex
	networks map[string]networkChains // by network; guarded by mu; values are immutable
}

// networkChains holds the chains of one network.
type networkChains struct {
	byName map[string][]*Chain
	served []string // decimal chain IDs
	// starting reports that more chains may follow.
	starting bool
}

// NewChains returns the Chains of one network. starting reports that more chains may follow, so that an unknown chain
// may become known.
func NewChains(all []Chain, starting bool) (*Chains, error) {
	c := new(Chains)
	return c, c.Set("", all, starting)
}

// Set replaces the chains of a network.
func (c *Chains) Set(network string, all []Chain, starting bool) error {
	n := networkChains{byName: make(map[string][]*Chain), starting: starting}
	for _, chain := range all {
		if chain.BlockchainID == ids.Empty || chain.Progress == nil || chain.Index == nil || chain.Contracts == nil || chain.URIs == nil || chain.Node == nil {
			return fmt.Errorf("EVM chain %d: %w", chain.ChainID, errors.New("its blockchain ID, progress, index, contracts, URIs and node are required"))
		}
		if chain.NativeToken.Name == "" && chain.NativeToken.Symbol == "" {
			t := &chain.NativeToken
			t.Name, t.Symbol, t.Decimals = "Native token", "NATIVE", 18
			if chain.Primary {
				t.Name, t.Symbol = "Avalanche", "AVAX"
			}
		}
		id := strconv.FormatUint(chain.ChainID, 10)
		chain.name = chain.BlockchainID.String()
		names := []string{id, chain.name}
		if chain.Primary {
			names = append(names, CChain)
		}
		for _, name := range names {
			n.byName[name] = append(n.byName[name], &chain)
		}
		n.served = append(n.served, id)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.networks == nil {
		c.networks = make(map[string]networkChains)
	}
	c.networks[network] = n
	return nil
}

// Find returns the chain with a chain ID, a blockchain ID, or the name of the C-Chain. Its error is meant for the
// client. It fails if several chains have the name.
func (c *Chains) Find(name string) (*Chain, error) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	var found []*Chain
	for _, n := range c.networks {
		found = append(found, n.byName[name]...)
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		var blockchainIDs []string
		for _, chain := range found {
			blockchainIDs = append(blockchainIDs, chain.name)
		}
		slices.Sort(blockchainIDs)
		return nil, apierr.BadRequest("chainId: %s is the name of several chains here; use a blockchain ID: %s", name, strings.Join(blockchainIDs, ", "))
	}
	return nil, c.unknown(name)
}

// all returns the chains of a network, or of all networks if network is empty, in the order of their blockchain IDs.
// starting reports that more chains may follow; otherwise there is at least one. The error is meant for the client.
func (c *Chains) all(network string) (chains []*Chain, starting bool, err error) {
	chains, starting, err = c.any(network, "ICM messages of ")
	if err == nil && len(chains) == 0 && !starting {
		err = errNoChain()
	}
	return chains, starting, err
}

// any is all without the error if there are no chains. subject describes in errors what was requested.
func (c *Chains) any(network, subject string) (chains []*Chain, starting bool, err error) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	selected := c.networks
	if network != "" {
		name, one, err := networks.Fixed(c.networks).Also(c.Aliases).Find(network, subject)
		if err != nil {
			return nil, false, err
		}
		selected = map[string]networkChains{name: one}
	}
	byID := make(map[ids.ID]*Chain)
	for _, n := range selected {
		starting = starting || n.starting
		for name, chains := range n.byName {
			for _, chain := range chains {
				if name == chain.name {
					byID[chain.BlockchainID] = chain
				}
			}
		}
	}
	return slices.SortedFunc(maps.Values(byID), func(a, b *Chain) int { return a.BlockchainID.Compare(b.BlockchainID) }), starting, nil
}

func errNoChain() error {
	return apierr.NotFound("chainId: this instance indexes no EVM chain; its operator can set networks.NAME.record to all")
}

// unknown returns the error for a name that no chain has. The caller holds mu.
func (c *Chains) unknown(name string) error {
	var served []string
	for _, n := range c.networks {
		if n.starting {
			return reply.NodeAway(nil, "chainId: %q is not known yet; this instance is starting and waits for the nodes of its networks, try again in a moment", apierr.Excerpt(name))
		}
		served = append(served, n.served...)
	}
	if len(served) == 0 {
		return errNoChain()
	}
	slices.Sort(served)
	served = slices.Compact(served)
	const most = 20
	if len(served) > most {
		served = append(served[:most], "...")
	}
	return apierr.NotFound("chainId: %q is no chain that this instance indexes; it indexes %s", apierr.Excerpt(name), strings.Join(served, ", "))
}
