package evm

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/ava-labs/avalanchego/ids"

	"quorate/handlers/apierr"
	"quorate/handlers/reply"
)

// Chain is an EVM chain whose record is served. All members are required but
// NativeToken and Metadata.
type Chain struct {
	// ChainID is that of EIP-155, BlockchainID the one on its network.
	ChainID      uint64
	BlockchainID ids.ID
	// Primary says that it is the C-Chain of its network.
	Primary bool
	// NativeToken is what pays for gas. If it has no name and no symbol: AVAX if
	// Primary, else "Native token" with the symbol "NATIVE" and 18 decimals.
	NativeToken NativeToken
	// Progress says how far the record is. It must not block.
	Progress func() reply.Progress

	Record    Record
	Contracts Contracts
	URIs      URIs
	Node      Node
	// Metadata may be nil: then none is indexed.
	Metadata MetadataReader

	name string // BlockchainID as text
}

// NativeToken is the token of a chain that pays for gas. LogoURI and Description may
// be empty.
type NativeToken struct {
	Name, Symbol string
	// Decimals are digits behind the point: the token has ten to their power units.
	Decimals             uint8
	LogoURI, Description string
}

// cChain is what the C-Chain is called in paths.
const cChain = "c-chain"

// Chains finds the chains of all networks by what paths call them. The zero Chains has
// none. It is safe for concurrent use.
type Chains struct {
	mu       sync.RWMutex
	networks map[string]networkChains // by network; guarded by mu; values do not change
}

// networkChains are the chains of one network.
type networkChains struct {
	byName map[string][]*Chain
	served []string // decimal chain IDs
	// starting says that more chains may come.
	starting bool
}

// NewChains returns Chains of one network. Starting says that more may come, so that an
// unknown chain may be known later.
func NewChains(all []Chain, starting bool) (*Chains, error) {
	c := new(Chains)
	return c, c.Set("", all, starting)
}

// Set replaces the chains of a network.
func (c *Chains) Set(network string, all []Chain, starting bool) error {
	n := networkChains{byName: make(map[string][]*Chain), starting: starting}
	for _, chain := range all {
		if chain.BlockchainID == ids.Empty || chain.Progress == nil || chain.Record == nil || chain.Contracts == nil || chain.URIs == nil || chain.Node == nil {
			return fmt.Errorf("EVM chain %d: %w", chain.ChainID, errors.New("its blockchain ID, progress, record and node are required"))
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
			names = append(names, cChain)
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

// Find returns the chain that a path names, by chain ID, blockchain ID or as the C-Chain.
// The error is for the client: several chains may have the name.
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

// unknown returns the error for a name that no chain has. The caller holds mu.
func (c *Chains) unknown(name string) error {
	var served []string
	for _, n := range c.networks {
		if n.starting {
			return apierr.Unavailable(nil, "chainId: %q is not known yet; this instance is starting and waits for the nodes of its networks, try again in a moment", apierr.Excerpt(name))
		}
		served = append(served, n.served...)
	}
	if len(served) == 0 {
		return apierr.NotFound("chainId: this instance indexes no EVM chain")
	}
	slices.Sort(served)
	served = slices.Compact(served)
	const most = 20
	if len(served) > most {
		served = append(served[:most], "...")
	}
	return apierr.NotFound("chainId: %q is no chain that this instance indexes; it indexes %s", apierr.Excerpt(name), strings.Join(served, ", "))
}
