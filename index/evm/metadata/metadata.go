// Package metadata fetches what the contracts of tokens say about them elsewhere: the
// documents that token URIs lead to. It keeps what it found in the store, and fetches
// in the background what readers ask for: nobody waits for a stranger's server.
package metadata

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/holiman/uint256"
	"golang.org/x/time/rate"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/libevm/common"

	chain "quorate/chain/evm"
	"quorate/index/evm"
	"quorate/store"
)

// Status says how far the metadata of a token are had, in the Data API's words.
type Status string

// All there are.
const (
	Unknown       Status = "UNKNOWN"
	MissingToken  Status = "MISSING_TOKEN"
	InvalidURI    Status = "INVALID_TOKEN_URI"
	InvalidScheme Status = "INVALID_TOKEN_URI_SCHEME"
	Unreachable   Status = "UNREACHABLE_TOKEN_URI"
	Throttled     Status = "THROTTLED_TOKEN_URI"
	TooLarge      Status = "METADATA_CONTENT_TOO_LARGE"
	Invalid       Status = "INVALID_METADATA"
	InvalidJSON   Status = "INVALID_METADATA_JSON"
	Indexed       Status = "INDEXED"
	Unindexed     Status = "UNINDEXED"
)

// passing reports whether another attempt may soon do better.
func (s Status) passing() bool { return s == Unreachable || s == Throttled || s == Unknown }

// Metadata is what is known of a token's metadata.
type Metadata struct {
	Status Status
	// Updated is when they were last asked for, zero if never.
	Updated time.Time
	Document
}

// Contracts knows contracts and where the metadata of their tokens are;
// *contracts.Book does.
type Contracts interface {
	Contracts(ctx context.Context, addresses []common.Address) ([]*evm.Contract, error)
	// LookUp reports whether the contract knows the token, too.
	LookUp(ctx context.Context, standard chain.Standard, contract common.Address, tokenID *uint256.Int) (uri string, exists bool, err error)
}

// Options of a Keeper. Contracts, Fetcher, Store, NetworkID and BlockchainID are
// required.
type Options struct {
	Contracts    Contracts
	Fetcher      *Fetcher
	Store        store.Store
	NetworkID    uint32
	BlockchainID ids.ID
	// Workers is how many documents are fetched at a time; 0 means 4.
	Workers int
	// Rate is how many documents one host is asked for in a second; 0 means 5.
	Rate float64
	// Log may be nil.
	Log *slog.Logger
}

// Keeper keeps the metadata of the tokens of one chain. Safe for concurrent use.
type Keeper struct {
	contracts Contracts
	fetcher   *Fetcher
	store     store.Store
	partition []byte
	workers   int
	rate      rate.Limit
	log       *slog.Logger
	queue     chan token

	mu      sync.Mutex
	waiting map[token]struct{} // what is queued or fetched; guarded by mu
	hosts   map[string]*host   // guarded by mu
}

type token struct {
	contract common.Address
	id       uint256.Int
}

// host is somebody who is asked for documents.
type host struct {
	limiter *rate.Limiter
	busy    bool // with one document at a time
}

const (
	// maxWaiting is how many tokens may wait; what comes then is left for the next
	// reader to ask for.
	maxWaiting = 4096
	// maxHosts bounds what is remembered of hosts.
	maxHosts = 1024
	// recheck is the pause before a token whose host is busy is looked at again.
	recheck = 20 * time.Millisecond

	// fresh is how long metadata are believed.
	fresh = 24 * time.Hour
	// firstRetry is how long after a failure that may pass the next attempt is; it
	// doubles with each up to fresh.
	firstRetry = 30 * time.Second
)

// New makes a Keeper, which fetches while Run runs.
func New(o Options) *Keeper {
	k := &Keeper{
		contracts: o.Contracts, fetcher: o.Fetcher, store: o.Store, workers: o.Workers, rate: rate.Limit(o.Rate), log: o.Log,
		partition: append(binary.BigEndian.AppendUint32(nil, o.NetworkID), o.BlockchainID[:]...),
		queue:     make(chan token, maxWaiting),
		waiting:   make(map[token]struct{}),
		hosts:     make(map[string]*host),
	}
	if k.workers <= 0 {
		k.workers = 4
	}
	if k.rate <= 0 {
		k.rate = 5
	}
	if k.log == nil {
		k.log = slog.New(slog.DiscardHandler)
	}
	return k
}

func (k *Keeper) key(t token) store.PK {
	id := t.id.Bytes32()
	return store.PK{P: append(slices.Clip(k.partition), t.contract[:]...), K: id[:]}
}

// Metadata are what is kept of tokens, in their order. What is not there, or old, is
// fetched in the background. Errors are the store's.
func (k *Keeper) Metadata(ctx context.Context, tokens []evm.Token) ([]Metadata, error) {
	keys := make([]store.PK, len(tokens))
	for i := range tokens {
		keys[i] = k.key(token{tokens[i].Contract, tokens[i].TokenID})
	}
	rows, err := k.store.Get(ctx, store.FamilyEVMMetadata, keys)
	if err != nil {
		return nil, fmt.Errorf("reading metadata: %w", err)
	}
	all := make([]Metadata, len(tokens))
	for i, row := range rows {
		kept, err := decode(row)
		if err != nil {
			return nil, err
		}
		all[i] = kept.Metadata
		if !time.Now().Before(kept.next()) {
			k.enqueue(token{tokens[i].Contract, tokens[i].TokenID})
		}
	}
	return all, nil
}

// enqueue never waits.
func (k *Keeper) enqueue(t token) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, there := k.waiting[t]; there || len(k.waiting) >= maxWaiting {
		return
	}
	k.waiting[t] = struct{}{}
	k.queue <- t // has room for all that wait
}

// Run fetches until ctx ends.
func (k *Keeper) Run(ctx context.Context) {
	var working sync.WaitGroup
	for range k.workers {
		working.Go(func() { k.work(ctx) })
	}
	working.Wait()
}

func (k *Keeper) work(ctx context.Context) {
	for {
		var t token
		select {
		case <-ctx.Done():
			return
		case t = <-k.queue:
		}
		again, err := k.update(ctx, t)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			// A reader will ask again.
			k.log.Debug("metadata cannot be fetched at the moment", slog.String("contract", t.contract.Hex()), slog.Any("error", err))
		}
		if !again {
			k.mu.Lock()
			delete(k.waiting, t)
			k.mu.Unlock()
			continue
		}
		k.queue <- t // still counted as waiting, so that there is room
		select {
		case <-ctx.Done():
			return
		case <-time.After(recheck):
		}
	}
}

// update fetches and keeps the metadata of a token; again says that it is not its turn
// yet. Errors are about the node and the store.
func (k *Keeper) update(ctx context.Context, t token) (again bool, err error) {
	// Whoever asked for it may have looked right before another fetch was over.
	before, err := k.read(ctx, t)
	if err != nil || time.Now().Before(before.next()) {
		return false, err
	}
	found, err := k.contracts.Contracts(ctx, []common.Address{t.contract})
	if err != nil {
		return false, err
	}
	standard := chain.Unknown
	if found[0] != nil {
		standard = found[0].Standard
	}
	uri, exists, err := k.contracts.LookUp(ctx, standard, t.contract, &t.id)
	if err != nil {
		return false, err
	}
	if standard == chain.ERC1155 {
		uri = forToken(uri, &t.id)
	}
	fresh := Metadata{}
	switch {
	case !exists:
		fresh.Status = MissingToken
	case uri == "":
		fresh.Status = InvalidURI
	default:
		name := k.fetcher.hostOf(uri)
		if !k.turn(name) {
			return true, nil
		}
		fresh, err = k.fetch(ctx, uri)
		k.done(name)
		if err != nil {
			return false, err
		}
	}
	return false, k.keep(ctx, t, fresh)
}

func (k *Keeper) fetch(ctx context.Context, uri string) (m Metadata, err error) {
	b, err := k.fetcher.fetch(ctx, uri)
	if err == nil {
		m.Document, err = parse(b)
	}
	switch {
	case ctx.Err() != nil:
		return m, ctx.Err()
	case err != nil:
		k.log.Debug("no metadata", slog.Any("error", err))
		m.Status = statusOf(err)
	default:
		m.Status = Indexed
	}
	return m, nil
}

// read is what is kept of a token.
func (k *Keeper) read(ctx context.Context, t token) (kept, error) {
	rows, err := k.store.Get(ctx, store.FamilyEVMMetadata, []store.PK{k.key(t)})
	if err != nil {
		return kept{}, err
	}
	return decode(rows[0])
}

// keep writes what was found. A document that was had before outlives failures that
// may pass.
func (k *Keeper) keep(ctx context.Context, t token, m Metadata) error {
	before, err := k.read(ctx, t)
	if err != nil {
		return err
	}
	now := kept{Metadata: m}
	if m.Status.passing() {
		now.failures = before.failures + 1
		if before.Status == Indexed {
			now.Metadata = before.Metadata
		}
	}
	now.Updated = time.Now()
	batch := store.Batch{NoSync: true} // it can be fetched again
	batch.Put(store.FamilyEVMMetadata, k.key(t), encode(&now))
	return k.store.Commit(ctx, &batch)
}

// turn takes a host's turn, false if it has to wait. Nobody waits for no host.
func (k *Keeper) turn(name string) bool {
	if name == "" {
		return true
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	h := k.hosts[name]
	if h == nil {
		for other, idle := range k.hosts {
			if len(k.hosts) < maxHosts {
				break
			}
			if !idle.busy {
				delete(k.hosts, other)
			}
		}
		h = &host{limiter: rate.NewLimiter(k.rate, 1)}
		k.hosts[name] = h
	}
	if h.busy || !h.limiter.Allow() {
		return false
	}
	h.busy = true
	return true
}

func (k *Keeper) done(name string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if h := k.hosts[name]; h != nil {
		h.busy = false
	}
}

// kept is a row's value.
type kept struct {
	Metadata
	// failures is how many attempts in a row failed in a way that may pass.
	failures uint64
}

// next is when to fetch again.
func (k *kept) next() time.Time {
	if k.Updated.IsZero() {
		return time.Time{}
	}
	wait := fresh
	if k.failures > 0 {
		wait = min(firstRetry<<min(k.failures-1, 20), fresh)
	}
	return k.Updated.Add(wait)
}

// errKept says that a row is damaged.
func errKept(why string) error {
	return errors.Join(store.ErrCorrupt, fmt.Errorf("what is kept of a token's metadata: %s", why))
}
