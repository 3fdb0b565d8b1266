package evm

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

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

// Chains are the chains that are served, by what paths call them. Safe for concurrent
// use.
type Chains struct {
	byName map[string][]*Chain
	// served are the decimal chain IDs, sorted.
	served   []string
	starting bool
}

// NewChains makes Chains. Starting says that some are still to come, so that one that
// is not there may be known later.
func NewChains(all []Chain, starting bool) (*Chains, error) {
	c := &Chains{byName: make(map[string][]*Chain), starting: starting}
	for _, chain := range all {
		if chain.BlockchainID == ids.Empty || chain.Progress == nil || chain.Record == nil || chain.Contracts == nil || chain.URIs == nil || chain.Node == nil {
			return nil, fmt.Errorf("EVM chain %d: %w", chain.ChainID, errors.New("its blockchain ID, progress, record and node are required"))
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
			c.byName[name] = append(c.byName[name], &chain)
		}
		c.served = append(c.served, id)
	}
	slices.Sort(c.served)
	c.served = slices.Compact(c.served)
	return c, nil
}

// Find is the chain that a path names, by chain ID, blockchain ID or as the C-Chain.
// The error is the client's: a name may belong to several chains, of different
// networks.
func (c *Chains) Find(name string) (*Chain, error) {
	found := c.byName[name]
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		var blockchainIDs []string
		for _, chain := range found {
			blockchainIDs = append(blockchainIDs, chain.name)
		}
		return nil, apierr.BadRequest("chainId: %s is the name of several chains here; use a blockchain ID: %s", name, strings.Join(blockchainIDs, ", "))
	case c.starting:
		return nil, apierr.Unavailable(nil, "chainId: %q is not known yet; this instance is starting and waits for the nodes of its networks, try again in a moment", apierr.Excerpt(name))
	case len(c.served) == 0:
		return nil, apierr.NotFound("chainId: this instance indexes no EVM chain")
	}
	const most = 20
	shown := c.served
	if len(shown) > most {
		shown = append(slices.Clone(shown[:most]), "...")
	}
	return nil, apierr.NotFound("chainId: %q is no chain that this instance indexes; it indexes %s", apierr.Excerpt(name), strings.Join(shown, ", "))
}
