// Package contracts calls contracts of an EVM chain to find out their token standard, name, symbol, decimals and token
// URIs. It caches the results in the store and in memory. The results do not follow from blocks alone, so they are
// stored apart from the index and expire. A failing node never changes a contract's cached standard.
package contracts

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/libevm/common"

	"quorate/internal/bounded"
	chain "quorate/internal/chain/evm"
	"quorate/internal/index/evm"
	"quorate/internal/node"
	"quorate/internal/store"
)

// Node executes calls. *node.EVM implements it.
type Node interface {
	// Calls executes calls after a block; nil means the newest block.
	Calls(ctx context.Context, block *uint64, calls []node.EVMCall) ([]node.EVMReturn, error)
}

// Options configures a Book. Node, Store, NetworkID and BlockchainID are required.
type Options struct {
	Node         Node
	Store        store.Store
	NetworkID    uint32
	BlockchainID ids.ID
	// Chains is the number of chains with a Book in this process. If they are many, each caches less. 0 means one.
	Chains int
}

// Book caches the contracts of one chain. It is safe for concurrent use. Close it after use.
type Book struct {
	node      Node
	store     store.Store
	partition []byte
	contracts *bounded.Cache[common.Address, contract]
	uris      *bounded.Cache[tokenKey, uri]
	// settled has contracts that are no tokens according to Settled.
	settled *bounded.Cache[common.Address, struct{}]
}

// contract is the result for one address.
type contract struct {
	evm.Contract
	exists bool
	asked  time.Time
	// since is the time of the first of the results in a row that the contract follows no standard.
	since time.Time
}

// fresh returns the time after which the contract is called again. One that follows no standard may be a proxy that is
// not initialised yet. The older this result is, the less often it is checked.
func (c *contract) fresh() time.Duration {
	if c.Standard != chain.Unknown {
		return fresh
	}
	return min(max(c.asked.Sub(c.since), unknownFor), fresh)
}

const (
	// fresh is the time after which a result is requested again. If that fails, the old result is used.
	fresh = 24 * time.Hour
	// unknownFor is how long the first result that a contract follows no standard is used.
	unknownFor = 10 * time.Minute
	// absentFor is how long the result "no contract" is cached.
	absentFor = 10 * time.Second
	// mostCached is the number of contracts, and of URIs, cached in memory. roomy is the number of chains that may each
	// cache as many. leastCached is the minimum cache size of each of more chains.
	mostCached  = 20_000
	roomy       = 4
	leastCached = 500
	// weightUnit is the unit, in bytes of memory, of the weight of URIs.
	weightUnit = 256
	// timeout of the node calls for one request's contracts, and saveTimeout of saving those that came before a failure.
	timeout     = 20 * time.Second
	saveTimeout = 2 * time.Second
	// unitsPerURI is the assumed weight of an average URI.
	unitsPerURI = 2
)

// New returns a Book. It sends no request.
func New(o Options) *Book {
	cached := mostCached
	if o.Chains > roomy {
		cached = max(leastCached, mostCached*roomy/o.Chains)
	}
	p := binary.BigEndian.AppendUint32(nil, o.NetworkID)
	b := &Book{node: o.Node, store: o.Store, partition: append(p, o.BlockchainID[:]...)}
	b.contracts = bounded.New(bounded.Options[common.Address, contract]{
		Entries: cached,
		Life: func(c contract) time.Duration {
			if !c.exists {
				return absentFor
			}
			return lifeOf(c.asked, c.fresh())
		},
	})
	b.settled = bounded.New(bounded.Options[common.Address, struct{}]{Entries: cached})
	b.uris = bounded.New(bounded.Options[tokenKey, uri]{
		Weight: uint64(cached) * unitsPerURI,
		Weigh:  func(_ tokenKey, u uri) uint32 { return uint32(1 + len(u.text)/weightUnit) },
		Life:   func(u uri) time.Duration { return lifeOf(u.asked, u.fresh()) },
	})
	return b
}

// Close stops the expiry of cached results. Do not use the Book afterwards.
func (b *Book) Close() {
	b.contracts.Close()
	b.settled.Close()
	b.uris.Close()
}

// lifeOf returns how long a result that is fresh for a time may stay in memory: briefly if it is stale.
func lifeOf(asked time.Time, life time.Duration) time.Duration {
	return max(life-time.Since(asked), absentFor)
}

// Contracts returns the contract at each address, nil where there is none now. It returns errors of package node and of
// the store.
func (b *Book) Contracts(ctx context.Context, addresses []common.Address) ([]*evm.Contract, error) {
	found, note := results(len(addresses))
	return found, b.find(ctx, addresses, note)
}

// results returns room for n results, and a function that sets one.
func results(n int) (found []*evm.Contract, note func(i int, c *contract)) {
	found = make([]*evm.Contract, n)
	return found, func(i int, c *contract) {
		if c.exists {
			found[i] = &c.Contract
		}
	}
}

// Settled is Contracts for contracts that emitted a token transfer. One that follows no standard may be a proxy that was
// called before its first transfer, or by a node that lags. It is nil until a call after the given time has the same result,
// and Settled makes that call. Until then, it calls the contract every 10 seconds at most.
func (b *Book) Settled(ctx context.Context, addresses []common.Address, after time.Time) ([]*evm.Contract, error) {
	outdated := after
	if now := time.Now(); now.Before(after) {
		outdated = now.Add(-absentFor)
	}
	found := make([]*evm.Contract, len(addresses))
	note := func(i int, c *contract) {
		switch _, settled := b.settled.Get(addresses[i]); {
		case !c.exists:
		case c.Standard != chain.Unknown || settled:
			found[i] = &c.Contract
		case !c.asked.Before(after):
			b.settled.Set(addresses[i], struct{}{})
			found[i] = &c.Contract
		}
	}
	var places []int // indexes of addresses to call again
	var ask []common.Address
	if err := b.find(ctx, addresses, func(i int, c *contract) {
		if note(i, c); found[i] == nil && c.exists && c.asked.Before(outdated) {
			places, ask = append(places, i), append(ask, addresses[i])
		}
	}); err != nil || len(ask) == 0 {
		return found, err
	}
	known, err := b.loadContracts(ctx, ask, outdated)
	if err != nil {
		return nil, fmt.Errorf("calling contracts for their standards: %w", err)
	}
	for i, address := range ask {
		c := known[address]
		if c.exists && c.asked.Before(outdated) {
			return nil, fmt.Errorf("calling contract %s for its standard: no answer", address)
		}
		b.contracts.Set(address, c)
		note(places[i], &c)
	}
	return found, nil
}

// find calls f for the contract at each address, with its index.
func (b *Book) find(ctx context.Context, addresses []common.Address, f func(int, *contract)) error {
	places := b.cached(addresses, f)
	if len(places) == 0 {
		return nil
	}
	ask := make([]common.Address, len(places))
	for i, place := range places {
		ask[i] = addresses[place]
	}
	known, err := load(ctx, b.contracts, ask, func(ctx context.Context, addresses []common.Address) (map[common.Address]contract, error) {
		return b.loadContracts(ctx, addresses, time.Time{})
	})
	if err != nil {
		return fmt.Errorf("calling contracts for their standards: %w", err)
	}
	for i, address := range ask {
		c, ok := known[address]
		if !ok {
			return fmt.Errorf("calling contract %s for its standard: no answer", address)
		}
		f(places[i], &c)
	}
	return nil
}

// Cached does the same as Contracts from memory. ok is false unless all results are there.
func (b *Book) Cached(addresses []common.Address) (found []*evm.Contract, ok bool) {
	found, note := results(len(addresses))
	return found, len(b.cached(addresses, note)) == 0
}

// cached calls f for the contracts that are in memory, and returns the indexes of the other addresses.
func (b *Book) cached(addresses []common.Address, f func(int, *contract)) (missing []int) {
	for i, address := range addresses {
		if c, ok := glance(b.contracts, address); ok {
			f(i, &c)
		} else {
			missing = append(missing, i)
		}
	}
	return missing
}

// noted is the number of reads per read that the cache records for its eviction policy. Recording costs a goroutine now
// and then, and one response causes a hundred reads.
const noted = 16

// glance returns the cached value without waiting. It seldom records the read.
func glance[K comparable, V any](cache *bounded.Cache[K, V], k K) (V, bool) {
	if rand.IntN(noted) == 0 {
		return cache.Get(k)
	}
	return cache.Glance(k)
}

// load returns cached values and fetches missing ones. Concurrent callers share a fetch. If the caller that fetches
// cancels, the others continue.
func load[K comparable, V any](ctx context.Context, cache *bounded.Cache[K, V], keys []K, from func(context.Context, []K) (map[K]V, error)) (map[K]V, error) {
	for {
		known, err := cache.Load(ctx, keys, from)
		if err == nil || ctx.Err() != nil || !errors.Is(err, context.Canceled) {
			return known, err
		}
	}
}

func (b *Book) contractKey(address common.Address) store.PK {
	return store.PK{P: append(slices.Clip(b.partition), address[:]...)}
}

// sinceKey returns the key of the row with contract.since, apart from the contract's row because versions without it
// share the store during an update.
func (b *Book) sinceKey(address common.Address) store.PK {
	return store.PK{P: append(slices.Clip(b.partition), address[:]...), K: []byte{1}}
}

// loadContracts reads contracts from the store, and calls the node for missing and stale ones and for those that followed
// no standard before outdated.
func (b *Book) loadContracts(ctx context.Context, addresses []common.Address, outdated time.Time) (map[common.Address]contract, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	keys := make([]store.PK, 2*len(addresses))
	for i, address := range addresses {
		keys[i], keys[len(addresses)+i] = b.contractKey(address), b.sinceKey(address)
	}
	rows, err := b.store.Get(ctx, store.FamilyEVMAsked, keys)
	if err != nil {
		return nil, err
	}
	known := make(map[common.Address]contract, len(addresses))
	var ask []common.Address
	for i := range addresses {
		if rows[i] != nil {
			c, err := decodeContract(addresses[i], rows[i], rows[len(addresses)+i])
			if err != nil {
				return nil, err
			}
			known[addresses[i]] = c // used if the call fails
			if time.Since(c.asked) < c.fresh() && (c.Standard != chain.Unknown || !c.asked.Before(outdated)) {
				continue
			}
		}
		ask = append(ask, addresses[i])
	}
	asked, failure := b.ask(ctx, ask)
	var batch store.Batch
	batch.NoSync = true // can be fetched again
	for i, c := range asked {
		c.since = c.asked
		if before := known[ask[i]]; before.exists && before.Standard == chain.Unknown {
			c.since = before.since
		}
		known[ask[i]] = c
		if c.exists {
			batch.Put(store.FamilyEVMAsked, b.contractKey(ask[i]), encodeContract(&c))
		}
		if c.exists && c.Standard == chain.Unknown {
			batch.Put(store.FamilyEVMAsked, b.sinceKey(ask[i]), encodeSince(&c))
		}
	}
	if failure == nil {
		return known, b.store.Commit(ctx, &batch)
	}
	if batch.Len() > 0 { // so that the next attempt asks for the rest only, however many contracts there are
		saving, saved := context.WithTimeout(context.WithoutCancel(ctx), saveTimeout)
		_ = b.store.Commit(saving, &batch)
		saved()
	}
	for _, address := range addresses {
		if _, ok := known[address]; !ok {
			return nil, failure
		}
	}
	return known, nil // some of them are stale
}
