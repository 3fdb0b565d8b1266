package network

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"

	"golang.org/x/sync/semaphore"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp/payload"

	"quorate/aggregator"
	"quorate/aggregator/evmmessage"
	"quorate/handlers/apierr"
	handler "quorate/handlers/evm"
)

// maxSearches is the number of concurrent searches for messages.
const maxSearches = 4

// sentMessages finds messages on EVM chains, which need not be indexed. It is safe for concurrent use.
type sentMessages struct {
	networkID uint32
	chains    []evmChain
	slots     *semaphore.Weighted

	mu sync.Mutex
	// names holds the names of each chain, by evmChain.name, as far as its node reported them: its blockchain ID and its
	// EVM chain ID in decimal. Guarded by mu.
	names map[string]map[nameKind]string
}

// nameKind is a kind of names of chains.
type nameKind int

const (
	blockchainName nameKind = iota
	chainIDName
)

func newSentMessages(networkID uint32, chains []evmChain) *sentMessages {
	return &sentMessages{networkID: networkID, chains: chains, slots: semaphore.NewWeighted(maxSearches), names: make(map[string]map[nameKind]string)}
}

// find reports whether a message was sent on its chain, or its block was accepted there.
// The error says why that cannot be known.
func (s *sentMessages) find(ctx context.Context, message *warp.UnsignedMessage) (bool, error) {
	if err := s.slots.Acquire(ctx, 1); err != nil {
		return false, err
	}
	defer s.slots.Release(1)
	found, err := s.named(ctx, blockchainName, message.SourceChainID.String())
	switch {
	case len(found) == 0 && err != nil:
		return false, err
	case len(found) == 0:
		return false, fmt.Errorf("no Ethereum API of blockchain %s is configured", message.SourceChainID)
	}
	chain := found[0]
	parsed, err := payload.Parse(message.Payload)
	if hash, ok := parsed.(*payload.Hash); err == nil && ok {
		return chain.client.BlockAccepted(ctx, chain.path, hash.Hash)
	}
	return chain.client.MessageSent(ctx, chain.path, message.ID())
}

// by returns the messages that a transaction sent. chain is a blockchain ID, an EVM chain ID or "c-chain". The error is an
// *aggregator.Error, or wraps ctx's error.
func (s *sentMessages) by(ctx context.Context, chain string, hash ids.ID) ([]evmmessage.Sent, error) {
	c, err := s.chain(ctx, chain)
	if err != nil {
		return nil, err
	}
	name, err := s.nameOf(ctx, c, blockchainName, true)
	if err != nil {
		return nil, aggregator.NodeFailure(ctx, err)
	}
	id, err := ids.FromString(name)
	if err != nil {
		return nil, fmt.Errorf("reading the blockchain ID of %s: %w", c.name, err)
	}
	return evmmessage.Chain{NetworkID: s.networkID, BlockchainID: id, Node: c.client, Path: c.path}.Sent(ctx, hash)
}

// chain returns the chain with a blockchain ID, an EVM chain ID or the name "c-chain". Its errors are those of by.
func (s *sentMessages) chain(ctx context.Context, name string) (evmChain, error) {
	if i := slices.IndexFunc(s.chains, evmChain.cChain); name == handler.CChain && i >= 0 {
		return s.chains[i], nil
	}
	var found []evmChain
	var err error
	if _, notID := ids.FromString(name); notID == nil {
		found, err = s.named(ctx, blockchainName, name)
	} else if id, notNumber := strconv.ParseUint(name, 10, 64); notNumber == nil {
		found, err = s.named(ctx, chainIDName, strconv.FormatUint(id, 10))
	}
	switch one, several := s.same(ctx, found); {
	case one:
		return found[0], nil
	case several:
		return evmChain{}, &aggregator.Error{Code: evmmessage.CodeUnknownChain, Message: fmt.Sprintf("blockchainId: several chains of this network have the EVM chain ID %s; use a blockchain ID", name)}
	case err != nil:
		return evmChain{}, aggregator.NodeFailure(ctx, err)
	}
	return evmChain{}, &aggregator.Error{Code: evmmessage.CodeUnknownChain, Message: fmt.Sprintf("blockchainId: %q is no EVM chain that is configured for this network; give the blockchain ID or the EVM chain ID of one that is, or c-chain; the operator adds chains under networks.NAME.evm", apierr.Excerpt(name))}
}

// same reports whether chains are one blockchain, which may be configured more than once, or several.
func (s *sentMessages) same(ctx context.Context, found []evmChain) (one, several bool) {
	if len(found) < 2 {
		return len(found) == 1, false
	}
	first, err := s.nameOf(ctx, found[0], blockchainName, true)
	for _, c := range found[1:] {
		name, otherErr := s.nameOf(ctx, c, blockchainName, true)
		several = several || err != nil || otherErr != nil || name != first
	}
	return !several, several
}

// named returns the chains with a name. It asks nodes, in parallel, only if no chain is known to have the name. The error
// joins those of the nodes.
func (s *sentMessages) named(ctx context.Context, kind nameKind, name string) (found []evmChain, err error) {
	for _, ask := range []bool{false, true} {
		names, errs := make([]string, len(s.chains)), make([]error, len(s.chains))
		var asking sync.WaitGroup
		for i, c := range s.chains {
			asking.Go(func() { names[i], errs[i] = s.nameOf(ctx, c, kind, ask) })
		}
		asking.Wait()
		for i, c := range s.chains {
			if names[i] == name {
				found = append(found, c)
			}
		}
		if err = errors.Join(errs...); len(found) > 0 {
			break
		}
	}
	return found, err
}

// nameOf returns the name of a chain. If it is not known, nameOf asks the chain's node, or returns nothing unless ask is
// set.
func (s *sentMessages) nameOf(ctx context.Context, c evmChain, kind nameKind, ask bool) (string, error) {
	s.mu.Lock()
	name, ok := s.names[c.name][kind]
	s.mu.Unlock()
	if ok || !ask {
		return name, nil
	}
	var id ids.ID
	var chainID uint64
	var err error
	switch {
	case kind == chainIDName:
		chainID, err = c.client.EVM(c.path).ChainID(ctx)
		name = strconv.FormatUint(chainID, 10)
	case c.cChain():
		id, err = c.client.BlockchainID(ctx, "C")
		name = id.String()
	default:
		id, err = c.client.EVM(c.path).BlockchainID(ctx)
		name = id.String()
	}
	if err == nil && kind == blockchainName && id == ids.Empty {
		err = errors.New("the chain does not report its blockchain ID; use a URL of the form .../ext/bc/BLOCKCHAIN_ID/rpc")
	}
	if err != nil {
		return "", fmt.Errorf("asking for the IDs of %s: %w", c.name, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.names[c.name] == nil {
		s.names[c.name] = make(map[nameKind]string)
	}
	s.names[c.name][kind] = name
	return name, nil
}
