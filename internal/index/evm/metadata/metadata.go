// Package metadata fetches the documents that token URIs refer to and caches them in the store. It fetches in the
// background, so that no request waits for a third-party server.
package metadata

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holiman/uint256"
	"golang.org/x/time/rate"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/libevm/common"

	chain "quorate/internal/chain/evm"
	"quorate/internal/index/evm"
	"quorate/internal/store"
)

// Status is the state of a token's metadata, with the Data API's names.
type Status string

// The states.
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

// passing reports whether a later attempt may succeed.
func (s Status) passing() bool { return s == Unreachable || s == Throttled || s == Unknown }

// Metadata is the cached metadata of a token.
type Metadata struct {
	Status Status
	// Updated is the time of the last attempt, zero if there was none.
	Updated time.Time
	Document
}

// Contracts returns contracts and token URIs. *contracts.Book implements it.
type Contracts interface {
	Contracts(ctx context.Context, addresses []common.Address) ([]*evm.Contract, error)
	// LookUp also reports whether the contract has the token.
	LookUp(ctx context.Context, standard chain.Standard, contract common.Address, tokenID *uint256.Int) (uri string, exists bool, err error)
}

// Options configures a Keeper. Contracts, Fetcher, Store, NetworkID and BlockchainID are required.
type Options struct {
	Contracts    Contracts
	Fetcher      *Fetcher
	Store        store.Store
	NetworkID    uint32
	BlockchainID ids.ID
	// Rate is the maximum number of requests per second to one host; 0 means 5.
	Rate float64
	// Log may be nil.
	Log *slog.Logger
}

// Keeper caches the metadata of the tokens of one chain. It is safe for concurrent use.
type Keeper struct {
	contracts Contracts
	fetcher   *Fetcher
	store     store.Store
	partition []byte
	rate      rate.Limit
	log       *slog.Logger
	queue     chan token

	mu      sync.Mutex
	waiting map[token]string           // queued or fetched tokens, with their host once known; guarded by mu
	tokens  map[common.Address]*tokens // by contract; guarded by mu
	hosts   map[string]*host           // guarded by mu
}

type token struct {
	contract common.Address
	id       uint256.Int
}

// tokens counts the waiting and the currently fetched tokens of a contract.
type tokens struct{ waiting, fetched int }

// host is the state of a server of documents. All IPFS gateways together are one host.
type host struct {
	limiter *rate.Limiter
	fetched int // number of documents that it serves at the moment
	queued  int // number of tokens that wait for it
	// failures is the number of consecutive timeouts, for the gateways of failed connections. until is the time before
	// which the host gets no request.
	failures int
	until    time.Time
}

func (h *host) paused() bool { return h != nil && time.Now().Before(h.until) }

// count counts a failure. A success ends the pause. A failure during the pause, of a request from before it, does not
// extend it.
func (h *host) count(failed bool) {
	switch {
	case !failed:
		h.failures, h.until = 0, time.Time{}
	case !h.paused():
		if h.failures++; h.failures >= maxFailures {
			h.until = time.Now().Add(min(firstPause<<min(h.failures-maxFailures, 20), lastPause))
		}
	}
}

// throughGateways returns the name of the host that counts the timeouts of a contract's IPFS documents. They do not count
// against the gateways: any contract can name documents that no gateway finds in time.
func throughGateways(contract common.Address) string { return gatewayHost + contract.Hex() }

const (
	// workers is the number of concurrent fetches.
	workers = 6
	// maxWaiting is the maximum number of waiting tokens. Further tokens are dropped until requested again.
	maxWaiting = 4096
	// maxPerContract and maxPerHost limit the waiting tokens of one contract and of one host, so that a slow host does
	// not fill the queue.
	maxPerContract = 256
	maxPerHost     = 512
	// maxFetched limits the concurrent fetches for one contract, whose tokens may be on many hosts.
	maxFetched = 2
	// maxThroughGateways limits the concurrent fetches through IPFS gateways, so that they leave workers for other
	// hosts. Other hosts serve one document at a time.
	maxThroughGateways = workers / 2
	// maxFailures is the number of consecutive failures after which a host gets no requests, for firstPause at first.
	// The pause doubles up to lastPause.
	maxFailures = 3
	firstPause  = 30 * time.Second
	lastPause   = 30 * time.Minute
	// maxHosts limits the number of cached hosts.
	maxHosts = 1024
	// recheck is the pause before a token whose host is busy is checked again.
	recheck = 20 * time.Millisecond

	// fresh is how long metadata are current.
	fresh = 24 * time.Hour
	// firstRetry is the pause after a temporary failure or a missing token. It doubles with each failure up to fresh.
	firstRetry = 30 * time.Second
)

// New returns a Keeper. It fetches while Run runs.
func New(o Options) *Keeper {
	k := &Keeper{
		contracts: o.Contracts, fetcher: o.Fetcher, store: o.Store, rate: rate.Limit(o.Rate), log: o.Log,
		partition: append(binary.BigEndian.AppendUint32(nil, o.NetworkID), o.BlockchainID[:]...),
		queue:     make(chan token, maxWaiting),
		waiting:   make(map[token]string),
		tokens:    make(map[common.Address]*tokens),
		hosts:     make(map[string]*host),
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

// Metadata returns the cached metadata of each token. It queues missing and old ones for fetching. It returns errors of
// the store.
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

// enqueue adds a token to the queue without waiting. If the queue is full, it drops the token.
func (k *Keeper) enqueue(t token) {
	k.mu.Lock()
	defer k.mu.Unlock()
	of := k.tokens[t.contract]
	if _, there := k.waiting[t]; there || len(k.waiting) >= maxWaiting || of != nil && of.waiting >= maxPerContract {
		return
	}
	if of == nil {
		of = new(tokens)
		k.tokens[t.contract] = of
	}
	of.waiting++
	k.waiting[t] = ""
	k.queue <- t // has capacity for all waiting tokens
}

// forget removes a waiting token.
func (k *Keeper) forget(t token) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if h := k.hosts[k.waiting[t]]; h != nil {
		h.queued--
	}
	delete(k.waiting, t)
	of := k.tokens[t.contract]
	if of.waiting--; of.waiting == 0 {
		delete(k.tokens, t.contract)
	}
}

// Run fetches documents until ctx ends.
func (k *Keeper) Run(ctx context.Context) {
	var working sync.WaitGroup
	for range workers {
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
			// The next request for the token queues it again.
			k.log.Debug("metadata cannot be fetched at the moment", slog.String("contract", t.contract.Hex()), slog.Any("error", err))
		}
		if !again {
			k.forget(t)
			continue
		}
		k.queue <- t // still counted as waiting, so the queue has room
		select {
		case <-ctx.Done():
			return
		case <-time.After(recheck):
		}
	}
}

// update fetches and stores the metadata of a token. again reports that its host is busy. It returns errors of the node
// and of the store.
func (k *Keeper) update(ctx context.Context, t token) (again bool, err error) {
	// Another fetch of the token may have finished since it was queued.
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
	uri = strings.TrimSpace(uri) // some contracts return blanks and newlines around it
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
		switch k.turn(t, name) {
		case later:
			return true, nil
		case never:
			return false, nil
		case now:
		}
		var r result
		fresh, r, err = k.fetch(ctx, uri)
		k.done(t, name, r)
		if err != nil {
			return false, err
		}
	}
	return false, k.keep(ctx, t, fresh)
}

// result is how the host of a document behaved.
type result int

const (
	answered result = iota
	// late means that the document timed out.
	late
	// unconnected means that no IPFS gateway could be connected to.
	unconnected
	// unasked means that no request was sent, because the URI is invalid.
	unasked
)

// fetch fetches a document.
func (k *Keeper) fetch(ctx context.Context, uri string) (m Metadata, r result, err error) {
	b, err := k.fetcher.fetch(ctx, uri)
	if err == nil {
		m.Document, err = parse(b)
	}
	switch {
	case ctx.Err() != nil:
		return m, answered, ctx.Err()
	case err != nil:
		k.log.Debug("no metadata", slog.Any("error", err))
		m.Status = statusOf(err)
		switch {
		case m.Status == InvalidURI:
			r = unasked
		case errors.Is(err, errUnconnected):
			r = unconnected
		case timedOut(err):
			r = late
		}
	default:
		m.Status = Indexed
	}
	return m, r, nil
}

// read returns the stored metadata of a token.
func (k *Keeper) read(ctx context.Context, t token) (kept, error) {
	rows, err := k.store.Get(ctx, store.FamilyEVMMetadata, []store.PK{k.key(t)})
	if err != nil {
		return kept{}, err
	}
	return decode(rows[0])
}

// keep stores a result. A temporary failure does not replace an earlier document.
func (k *Keeper) keep(ctx context.Context, t token, m Metadata) error {
	before, err := k.read(ctx, t)
	if err != nil {
		return err
	}
	row := kept{Metadata: m}
	if m.Status.passing() && before.Status == Indexed {
		row.Metadata = before.Metadata
	}
	if m.Status.passing() || m.Status == MissingToken { // the node may lag behind the index, which has the token
		row.failures = before.failures + 1
	}
	row.Updated = time.Now()
	batch := store.Batch{NoSync: true} // can be fetched again
	batch.Put(store.FamilyEVMMetadata, k.key(t), encode(&row))
	return k.store.Commit(ctx, &batch)
}

// turn says when a token's document may be fetched.
type turn int

const (
	now turn = iota
	later
	// never means not before the next request for the token.
	never
)

// turn reserves the host for a token if possible. A token without a host may be fetched at once.
func (k *Keeper) turn(t token, name string) turn {
	k.mu.Lock()
	defer k.mu.Unlock()
	of := k.tokens[t.contract]
	if name == "" {
		of.fetched++
		return now
	}
	h, limit := k.host(name), 1
	if name == gatewayHost {
		limit = maxThroughGateways
	}
	if h.paused() || name == gatewayHost && k.hosts[throughGateways(t.contract)].paused() {
		return never
	}
	if before := k.waiting[t]; before != name {
		if h.queued >= maxPerHost {
			return never
		}
		if other := k.hosts[before]; other != nil {
			other.queued--
		}
		k.waiting[t] = name
		h.queued++
	}
	if h.fetched >= limit || of.fetched >= maxFetched || !h.limiter.Allow() {
		return later
	}
	h.fetched++
	of.fetched++
	return now
}

// host returns the state of a host. Requires mu.
func (k *Keeper) host(name string) *host {
	if h := k.hosts[name]; h != nil {
		return h
	}
	for _, paused := range []bool{false, true} { // those first without which nothing is forgotten
		for other, idle := range k.hosts {
			if len(k.hosts) < maxHosts {
				break
			}
			if idle.fetched == 0 && idle.queued == 0 && idle.paused() == paused {
				delete(k.hosts, other)
			}
		}
	}
	h := &host{limiter: rate.NewLimiter(k.rate, 1)}
	k.hosts[name] = h
	return h
}

// done releases the host and counts failures.
func (k *Keeper) done(t token, name string, r result) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.tokens[t.contract].fetched--
	h := k.hosts[name]
	if h == nil {
		return
	}
	h.fetched--
	switch {
	case r == unasked:
		return
	case name != gatewayHost:
		h.count(r == late)
		return
	}
	h.count(r == unconnected)
	if contract := throughGateways(t.contract); r == answered {
		delete(k.hosts, contract) // no failures, no pause
	} else if r == late {
		k.host(contract).count(true)
	}
}

// kept is the decoded value of a row.
type kept struct {
	Metadata
	// failures is the number of consecutive temporary failures and missing tokens.
	failures uint64
}

// next returns the time of the next fetch.
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
