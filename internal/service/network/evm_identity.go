package network

import (
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"sync"

	"github.com/ava-labs/avalanchego/ids"

	"quorate/internal/store"
)

// evmIdentity identifies an EVM chain. It is stored as JSON, so that what is indexed of a chain is served after a restart
// although its node does not answer.
type evmIdentity struct {
	ChainID      uint64 `json:"chainId"`
	BlockchainID ids.ID `json:"blockchainId"`
}

func (e *evmIndex) identity() evmIdentity {
	return evmIdentity{e.served.ChainID, e.served.BlockchainID}
}

// identityRows returns the keys of the rows with the chain's identity, one for each of its nodes.
func (r *evmIndexes) identityRows(c evmChain) []store.PK {
	if c.cChain() {
		return []store.PK{{P: fmt.Appendf(nil, "network/%d/evm/C", r.networkID)}}
	}
	var rows []store.PK
	for _, url := range c.urls {
		rows = append(rows, store.PK{P: fmt.Appendf(nil, "network/%d/evm/%x", r.networkID, sha256.Sum256([]byte(url)))}) // which may hold an API key
	}
	return rows
}

// storedIdentity returns what the chain's node reported before a restart, and false if that is unknown.
func (r *evmIndexes) storedIdentity(ctx context.Context, c evmChain) (id evmIdentity, known bool, err error) {
	known, err = store.GetMeta(ctx, r.store, &id, r.identityRows(c)...)
	return id, known, err
}

// serveStored serves what is stored of a chain whose node does not answer, and follows the progress of other processes.
// The caller must call end before it indexes the chain. It returns nil if nothing is known of the chain.
func (r *evmIndexes) serveStored(ctx context.Context, c evmChain, why error) (e *evmIndex, end func()) {
	id, known, err := r.storedIdentity(ctx, c)
	if err == nil && !known {
		r.mu.Lock()
		r.absent[c.name] = true
		r.mu.Unlock()
	}
	if err == nil && known {
		e, err = r.enter(c, id)
	}
	if err == nil && e != nil {
		err = r.changed()
	}
	if err != nil {
		r.log.Error("what is stored of an EVM chain cannot be served", slog.String("chain", c.name), slog.Any("error", err))
	}
	if e == nil {
		return nil, func() {}
	}
	r.log.Warn("serving what is stored of an EVM chain until its node answers", slog.String("chain", e.name), slog.Any("error", why))
	ctx, stop := context.WithCancel(ctx)
	var following sync.WaitGroup
	following.Go(func() {
		if err := e.pipeline.Watch(ctx, e.tips); err != nil {
			r.log.Error("the stored index of an EVM chain cannot be read", slog.String("chain", e.name), slog.Any("error", err))
		}
	})
	return e, func() {
		stop()
		following.Wait()
	}
}

// confirm notes that the chain's node has reported its identity, and stores it.
func (r *evmIndexes) confirm(ctx context.Context, c evmChain, e *evmIndex) {
	r.mu.Lock()
	delete(r.waiting, c.name)
	r.mu.Unlock()
	id := e.identity()
	if stored, known, err := r.storedIdentity(ctx, c); err == nil && known && stored == id {
		return
	}
	if err := store.PutMeta(ctx, r.store, id, r.identityRows(c)...); err != nil && ctx.Err() == nil {
		r.log.Warn("the identity of an EVM chain is not stored; after a restart the chain is served once its node answers", slog.String("chain", e.name), slog.Any("error", err))
	}
}
