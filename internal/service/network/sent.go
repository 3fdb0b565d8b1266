package network

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sync/semaphore"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp/payload"
)

// maxSearches is the number of concurrent searches for messages.
const maxSearches = 4

// sentMessages searches EVM chains for messages. It is safe for concurrent use.
type sentMessages struct {
	chains []evmChain
	slots  *semaphore.Weighted

	mu  sync.Mutex
	ids map[string]ids.ID // blockchain of each chain, by name, once its node reported it; guarded by mu
}

func newSentMessages(chains []evmChain) *sentMessages {
	return &sentMessages{chains: chains, slots: semaphore.NewWeighted(maxSearches), ids: make(map[string]ids.ID)}
}

// find reports whether a message was sent on its chain, or its block was accepted there.
// The error says why that cannot be known.
func (s *sentMessages) find(ctx context.Context, message *warp.UnsignedMessage) (bool, error) {
	if err := s.slots.Acquire(ctx, 1); err != nil {
		return false, err
	}
	defer s.slots.Release(1)
	chain, err := s.chain(ctx, message.SourceChainID)
	if err != nil {
		return false, err
	}
	parsed, err := payload.Parse(message.Payload)
	if hash, ok := parsed.(*payload.Hash); err == nil && ok {
		return chain.client.BlockAccepted(ctx, chain.path, hash.Hash)
	}
	return chain.client.MessageSent(ctx, chain.path, message.ID())
}

// chain returns the API of a blockchain.
func (s *sentMessages) chain(ctx context.Context, id ids.ID) (evmChain, error) {
	var failed error
	for _, c := range s.chains {
		known, err := s.idOf(ctx, c)
		if err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		if known == id {
			return c, nil
		}
	}
	if failed != nil {
		return evmChain{}, failed
	}
	return evmChain{}, fmt.Errorf("no Ethereum API of blockchain %s is configured", id)
}

func (s *sentMessages) idOf(ctx context.Context, c evmChain) (ids.ID, error) {
	s.mu.Lock()
	id, ok := s.ids[c.name]
	s.mu.Unlock()
	if ok {
		return id, nil
	}
	var err error
	if c.cChain() {
		id, err = c.client.BlockchainID(ctx, "C")
	} else {
		id, err = c.client.EVM(c.path).BlockchainID(ctx)
	}
	if err != nil {
		return ids.Empty, fmt.Errorf("asking for the blockchain ID of %s: %w", c.name, err)
	}
	s.mu.Lock()
	s.ids[c.name] = id
	s.mu.Unlock()
	return id, nil
}
