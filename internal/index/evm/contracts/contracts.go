// Package contracts knows what contracts of an EVM chain say of themselves: which token
// standard they follow, their name, symbol and decimals, and where the metadata of
// their tokens are. It asks a node, and keeps the answers in the store and in memory.
// Unlike the record of the chain, what it keeps does not follow from the chain's blocks
// alone, so that it is kept apart and asked again now and then. A node that is away
// never makes a contract something it is not.
package contracts

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/maypok86/otter/v2"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/libevm/common"

	"quorate/internal/index/evm"
	"quorate/internal/node"
	"quorate/internal/store"
)

// Node executes calls; *node.EVM does.
type Node interface {
	// Calls are made after a block, nil being the newest.
	Calls(ctx context.Context, block *uint64, calls []node.EVMCall) ([]node.EVMReturn, error)
	// HaveCode reports which addresses are contracts now.
	HaveCode(ctx context.Context, addresses []common.Address) ([]bool, error)
}

// Options of a Book. Node, Store, NetworkID and BlockchainID are required.
type Options struct {
	Node         Node
	Store        store.Store
	NetworkID    uint32
	BlockchainID ids.ID
	// Cached is how many contracts, and how many URIs, are kept in memory; 0 means
	// 20,000.
	Cached int
	// Chains is how many chains have a Book in this process: each keeps a part of Cached
	// if they are many. 0 means one.
	Chains int
	// Fresh is how long an answer is believed before it is asked for again; 0 means a
	// day. An older one is better than none.
	Fresh time.Duration
}

// Book knows the contracts of one chain. Safe for concurrent use; to be closed.
type Book struct {
	node      Node
	store     store.Store
	partition []byte
	fresh     time.Duration
	contracts *otter.Cache[common.Address, contract]
	uris      *otter.Cache[tokenKey, uri]
}

// contract is what was found at an address.
type contract struct {
	evm.Contract
	exists bool
	asked  time.Time
}

const (
	// absentFor is how long an address that has no contract is believed to have none.
	absentFor = 10 * time.Second
	// roomy is for how many chains there is room to keep as much as for one, and
	// leastCached what each of more keeps at least.
	roomy       = 4
	leastCached = 500
	// weightUnit is what URIs are counted in, in bytes of memory.
	weightUnit = 256
	// patience bounds the asking of a node about one request's contracts.
	patience = 20 * time.Second
	// unitsPerURI is what an average URI may take of them.
	unitsPerURI = 2
)

// New makes a Book. It asks nothing yet.
func New(o Options) *Book {
	if o.Cached <= 0 {
		o.Cached = 20_000
	}
	if o.Chains > roomy {
		o.Cached = max(min(o.Cached, leastCached), o.Cached*roomy/o.Chains)
	}
	if o.Fresh <= 0 {
		o.Fresh = 24 * time.Hour
	}
	p := binary.BigEndian.AppendUint32(nil, o.NetworkID)
	b := &Book{node: o.Node, store: o.Store, partition: append(p, o.BlockchainID[:]...), fresh: o.Fresh}
	b.contracts = otter.Must(&otter.Options[common.Address, contract]{
		MaximumSize: o.Cached,
		ExpiryCalculator: otter.ExpiryWritingFunc(func(e otter.Entry[common.Address, contract]) time.Duration {
			if !e.Value.exists {
				return absentFor
			}
			return b.believed(e.Value.asked)
		}),
	})
	b.uris = otter.Must(&otter.Options[tokenKey, uri]{
		MaximumWeight: uint64(o.Cached) * unitsPerURI,
		Weigher:       func(_ tokenKey, u uri) uint32 { return uint32(1 + len(u.text)/weightUnit) },
		ExpiryCalculator: otter.ExpiryWritingFunc(func(e otter.Entry[tokenKey, uri]) time.Duration {
			return b.believed(e.Value.asked)
		}),
	})
	return b
}

// Close ends what forgets old answers. The Book is of no use afterwards.
func (b *Book) Close() {
	b.contracts.StopAllGoroutines()
	b.uris.StopAllGoroutines()
}

// believed is how long an answer may stay in memory: a stale one, which is there for
// want of a better one, for a moment.
func (b *Book) believed(asked time.Time) time.Duration {
	return max(b.fresh-time.Since(asked), absentFor)
}

// Contracts are the contracts at addresses, in their order, nil where there is none
// now. Errors are package node's and the store's.
func (b *Book) Contracts(ctx context.Context, addresses []common.Address) ([]*evm.Contract, error) {
	found := make([]*evm.Contract, len(addresses))
	var places []int // of those that are not in memory
	var ask []common.Address
	for i, address := range addresses {
		if c, ok := glance(b.contracts, address); !ok {
			places, ask = append(places, i), append(ask, address)
		} else if c.exists {
			found[i] = &c.Contract
		}
	}
	if len(ask) == 0 {
		return found, nil
	}
	known, err := load(ctx, b.contracts, ask, b.loadContracts)
	if err != nil {
		return nil, fmt.Errorf("asking contracts what they are: %w", err)
	}
	for i, address := range ask {
		c, ok := known[address]
		switch {
		case !ok:
			return nil, fmt.Errorf("asking contract %s what it is: no answer", address)
		case c.exists:
			found[places[i]] = &c.Contract
		}
	}
	return found, nil
}

// noted is how many reads there are for one of which the cache takes note, to decide
// what it may forget: it does so in a goroutine, now and then, and an answer has a
// hundred reads. What is read often is noted often enough.
const noted = 16

// glance looks at what is in memory, and waits for nothing.
func glance[K comparable, V any](cache *otter.Cache[K, V], k K) (V, bool) {
	if rand.IntN(noted) == 0 {
		return cache.GetIfPresent(k)
	}
	e, ok := cache.GetEntryQuietly(k)
	return e.Value, ok
}

// load gets what is known, or asks for it; whoever asks for the same at the same time
// waits for one answer. That another one stopped asking is no reason to fail.
func load[K comparable, V any](ctx context.Context, cache *otter.Cache[K, V], keys []K, from otter.BulkLoaderFunc[K, V]) (map[K]V, error) {
	for {
		known, err := cache.BulkGet(ctx, keys, from)
		if err == nil || ctx.Err() != nil || !errors.Is(err, context.Canceled) {
			return known, err
		}
	}
}

func (b *Book) contractKey(address common.Address) store.PK {
	return store.PK{P: append(slices.Clip(b.partition), address[:]...)}
}

// loadContracts reads contracts from the store, and asks the node for those that are
// not there or were asked long ago.
func (b *Book) loadContracts(ctx context.Context, addresses []common.Address) (map[common.Address]contract, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	keys := make([]store.PK, len(addresses))
	for i, address := range addresses {
		keys[i] = b.contractKey(address)
	}
	rows, err := b.store.Get(ctx, store.FamilyEVMAsked, keys)
	if err != nil {
		return nil, err
	}
	known := make(map[common.Address]contract, len(addresses))
	var ask []common.Address
	stale := 0
	for i, row := range rows {
		c, err := decodeContract(addresses[i], row)
		if row != nil && err != nil {
			return nil, err
		}
		if row != nil {
			known[addresses[i]] = c
		}
		if row == nil || time.Since(c.asked) >= b.fresh {
			ask = append(ask, addresses[i])
			if row != nil {
				stale++
			}
		}
	}
	asked, err := b.ask(ctx, ask)
	if err != nil {
		if stale == len(ask) { // all of them are known, if from long ago
			return known, nil
		}
		return nil, err
	}
	var batch store.Batch
	batch.NoSync = true // it can be asked again
	for i, c := range asked {
		known[ask[i]] = c
		if c.exists {
			batch.Put(store.FamilyEVMAsked, keys[slices.Index(addresses, ask[i])], encodeContract(&c))
		}
	}
	return known, b.store.Commit(ctx, &batch)
}
