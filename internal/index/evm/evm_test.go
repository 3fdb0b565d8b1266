package evm_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/holiman/uint256"
	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/libevm/common"

	chain "quorate/internal/chain/evm"
	"quorate/internal/index"
	"quorate/internal/index/evm"
	"quorate/internal/store"
)

const network = 1337

var chainID = ids.ID{'c', 0, 1, 31: 9}

// classes answer what contracts of a past are.
type classes struct{}

func (classes) Contracts(_ context.Context, addresses []common.Address) ([]*evm.Contract, error) {
	all := make([]*evm.Contract, len(addresses))
	for i, a := range addresses {
		if standard, ok := standards[a]; ok {
			all[i] = &evm.Contract{Address: a, Standard: standard}
		}
	}
	return all, nil
}

func (c classes) Cached(addresses []common.Address) ([]*evm.Contract, bool) {
	all, err := c.Contracts(context.Background(), addresses)
	return all, err == nil
}

// world is a past that is being indexed.
type world struct {
	*past
	t          testing.TB
	store      store.Store
	restarted  func() *evm.Projection
	projection *evm.Projection
	record     *evm.Index
	next       int // of blocks
}

func newWorld(t testing.TB, p *past, s store.Store) *world {
	return &world{past: p, t: t, store: s, restarted: testProjection, projection: testProjection(), record: evm.New(s, network, chainID, classes{})}
}

// of makes the world that of another chain in the same store.
func (w *world) of(networkID uint32, id ids.ID) *world {
	w.restarted = func() *evm.Projection { return newProjection(networkID, id) }
	w.projection, w.record = w.restarted(), evm.New(w.store, networkID, id, classes{})
	return w
}

func testProjection() *evm.Projection { return newProjection(network, chainID) }

func newProjection(networkID uint32, id ids.ID) *evm.Projection {
	t := evm.NewProjection(networkID, id).With(evm.Optionals()...)
	t.ForgetEarly()
	return t
}

func (w *world) done() bool { return w.next == len(w.blocks) }

func (w *world) tip() uint64 { return w.blocks[w.next-1].Number }

// advance commits the next n blocks, if there are so many, in one batch.
func (w *world) advance(n int) {
	w.t.Helper()
	var batch store.Batch
	for range min(n, len(w.blocks)-w.next) {
		require.NoError(w.t, w.projection.Apply(w.t.Context(), w.store, w.blocks[w.next], &batch))
		w.next++
	}
	require.NoError(w.t, w.store.Commit(w.t.Context(), &batch))
}

// some records a few more blocks, as a pipeline might.
func (w *world) some(rng *rand.Rand) {
	w.t.Helper()
	if rng.IntN(6) > 0 {
		w.advance(1 + rng.IntN(6))
		return
	}
	// A process that ended with a batch that it had not committed.
	var lost store.Batch
	for i := w.next; i < min(len(w.blocks), w.next+3); i++ {
		require.NoError(w.t, w.projection.Apply(w.t.Context(), w.store, w.blocks[i], &lost))
	}
	if rng.IntN(2) == 0 {
		w.projection = w.restarted()
	}
}

func engines(t *testing.T, run func(t *testing.T, s store.Store)) {
	t.Run("memory", func(t *testing.T) { run(t, store.NewMemory()) })
	t.Run("pebble", func(t *testing.T) {
		s, err := store.OpenPebble(t.Context(), store.PebbleOptions{Dir: t.TempDir(), MemTableBytes: 1 << 20})
		require.NoError(t, err)
		defer s.Close()
		run(t, s)
	})
}

// all reads a list to its end; between pages more blocks may come.
func all[T any](t testing.TB, between func(), read func(after []byte) (page []T, next []byte, limit int)) (list []T) {
	t.Helper()
	for after := []byte(nil); ; between() {
		page, next, limit := read(after)
		require.LessOrEqual(t, len(page), limit)
		list = append(list, page...)
		if next == nil {
			return list
		}
		require.Len(t, page, limit, "a page that is not the last one is full")
		after = next
	}
}

// bound is sometimes nil.
func (w *world) bound(rng *rand.Rand) *uint64 {
	if rng.IntN(3) == 0 {
		return nil
	}
	first := w.blocks[0].Number
	n := first + rng.Uint64N(w.tip()-first+3)
	switch rng.IntN(8) {
	case 0:
		n = 0
	case 1:
		n = ^uint64(0)
	}
	return &n
}

// check asks one thing, whose pages must be as of the first of them.
func (w *world) check(rng *rand.Rand) {
	t, ctx := w.t, w.t.Context()
	t.Helper()
	tip := w.tip()
	between := func() {
		if rng.IntN(2) == 0 {
			w.some(rng)
		}
	}
	limit := []int{1, 2, 3, 10, 100}[rng.IntN(5)]
	who := append(slices.Clone(w.wallets), w.contracts...)[rng.IntN(len(w.wallets)+len(w.contracts))]
	wallet := evm.WalletQuery{Wallet: who, Start: w.bound(rng), End: w.bound(rng), Limit: limit}
	what := fmt.Sprintf("tip %d, address %s, limit %d", tip, who, limit)
	switch rng.IntN(15) {
	case 0:
		q := evm.LatestQuery{Limit: limit}
		if rng.IntN(3) > 0 {
			success := rng.IntN(2) == 0
			q.Success = &success
		}
		want := w.latest(tip, q.Success)
		got := all(t, between, func(after []byte) ([]evm.Transaction, []byte, int) {
			q.After = after
			p, err := w.record.Latest(ctx, q)
			require.NoError(t, err)
			return p.Transactions, p.Next, limit
		})
		require.Equal(t, want, got, what)
	case 1:
		q := wallet
		want := w.internals(tip, &q)
		got := all(t, between, func(after []byte) ([]evm.Internal, []byte, int) {
			q.After = after
			p, err := w.record.Internals(ctx, q)
			require.NoError(t, err)
			return p.Internals, p.Next, limit
		})
		require.Equal(t, want, got, what)
	case 2:
		q := wallet
		want := w.transfersOf(tip, &q)
		got := all(t, between, func(after []byte) ([]evm.TokenTransfer, []byte, int) {
			q.After = after
			p, err := w.record.Transfers(ctx, q)
			require.NoError(t, err)
			return p.Transfers, p.Next, limit
		})
		require.Equal(t, want, got, what)
	case 3, 4:
		q := evm.BalanceQuery{Wallet: who, Limit: limit}
		at := tip
		if rng.IntN(2) == 0 {
			at = w.blocks[rng.IntN(w.next)].Number
			q.At = &at
		}
		if rng.IntN(3) == 0 {
			c := w.contracts[rng.IntN(len(w.contracts))]
			q.Contract = &c
		}
		want := w.balances(at, &q)
		got := all(t, between, func(after []byte) ([]evm.TokenBalance, []byte, int) {
			q.After = after
			p, err := w.record.Balances(ctx, q)
			require.NoError(t, err)
			require.Equal(t, ref(w.at(at)), p.At, what)
			return p.Balances, p.Next, limit
		})
		require.Equal(t, want, got, "%s, at %d", what, at)
	case 5:
		standard := []chain.Standard{chain.ERC721, chain.ERC1155, chain.ERC20, chain.Unknown}[rng.IntN(4)]
		q := evm.TokenQuery{Contract: w.contracts[rng.IntN(len(w.contracts))], Standard: standard, Limit: limit}
		want := w.tokens(tip, q.Contract, standard)
		got := all(t, func() {}, func(after []byte) ([]evm.Token, []byte, int) {
			q.After = after
			p, err := w.record.Tokens(ctx, q)
			require.NoError(t, err)
			return p.Tokens, p.Next, limit
		})
		require.Equal(t, want, got, what)
		// Single tokens are those of the list.
		for id := range uint64(8) {
			one := *uint256.NewInt(id)
			token, err := w.record.Token(ctx, standard, q.Contract, &one)
			require.NoError(t, err)
			at := slices.IndexFunc(want, func(t evm.Token) bool { return t.TokenID == one })
			require.Equal(t, at >= 0, token != nil, "%s: token %d", what, id)
			if token != nil {
				require.Equal(t, want[at], *token)
			}
		}
	case 6:
		if len(w.created) > 0 && rng.IntN(2) == 0 {
			who = w.created[rng.IntN(len(w.created))]
		}
		q := evm.DeploymentQuery{Address: who, Limit: limit}
		want := w.deploymentsBy(tip, who)
		got := all(t, between, func(after []byte) ([]evm.Deployment, []byte, int) {
			q.After = after
			p, err := w.record.Deployments(ctx, q)
			require.NoError(t, err)
			return p.Deployments, p.Next, limit
		})
		require.Equal(t, want, got, what)
	case 7:
		if len(w.created) > 0 && rng.IntN(10) > 0 {
			who = w.created[rng.IntN(len(w.created))]
		}
		want := w.deployment(tip, who)
		got, err := w.record.Deployment(ctx, who)
		known, knownErr := w.record.Known(ctx, []common.Address{who, multi, {9, 9}})
		require.NoError(t, knownErr)
		require.Equal(t, []bool{w.known(tip, who), w.known(tip, multi), false}, known)
		deployed, deployedErr := w.record.Deployed(ctx, who)
		require.NoError(t, deployedErr)
		if want == nil {
			require.Nil(t, deployed, what)
			require.ErrorIs(t, err, evm.ErrNotDeployed, what)
			return
		}
		all := w.deployments(tip)
		require.Equal(t, all[slices.IndexFunc(all, func(d made) bool { return d.Contract == who })].Deployment, *deployed, what)
		require.NoError(t, err, what)
		if len(got.Transfers) == 0 {
			got.Transfers = nil
		}
		require.Equal(t, want, got, what)
	case 12:
		q := evm.TokenSumQuery{Wallet: who, Limit: limit}
		if rng.IntN(2) == 0 {
			at := w.blocks[rng.IntN(w.next)].Number
			q.At = &at
		}
		if rng.IntN(3) == 0 {
			q.Contracts = []common.Address{coin, pick(w.past, w.contracts), coin}
		}
		w.checkSums(q, between, what)
	case 13:
		q := evm.HoldingQuery{Wallet: who, Limit: limit}
		if rng.IntN(3) == 0 {
			c := pick(w.past, w.contracts)
			q.Contract = &c
		}
		w.checkHoldings(q, what)
	case 9:
		w.checkNative(wallet, between, what)
	case 10:
		w.checkTransfers([]chain.Standard{chain.ERC20, chain.ERC721}[rng.IntN(2)], wallet, between, what)
	case 14:
		wallet.Wallet = pick(w.past, w.contracts)
		w.checkContractTransfers(wallet, between, what)
	case 11:
		w.checkInteractions(evm.InteractionQuery{WalletQuery: wallet, Oldest: rng.IntN(2) == 0}, between, what)
	case 8:
		want := w.days(tip)
		got := all(t, func() {}, func(after []byte) ([]evm.Day, []byte, int) {
			var before int64
			if after != nil {
				_, err := fmt.Sscan(string(after), &before)
				require.NoError(t, err)
			}
			page, err := w.record.Days(ctx, before, limit)
			require.NoError(t, err)
			if len(page) < limit {
				return page, nil, limit
			}
			return page, fmt.Append(nil, page[len(page)-1].Start), limit
		})
		require.Equal(t, want, got, what)
		b := w.blocks[rng.IntN(w.next)]
		for i := range b.Transactions {
			got, err := w.record.Transaction(ctx, b.Transactions[i].Hash)
			require.NoError(t, err)
			want := indexed(b, i, false)
			require.Equal(t, &want, got)
		}
	}
}

// uncached answers what contracts are like a node that is asked each time. It fails if a view of the store is open.
type uncached struct {
	store.Store
	classes
	t     testing.TB
	views int
	asked int
}

func (u *uncached) View(ctx context.Context) (store.View, error) {
	v, err := u.Store.View(ctx)
	u.views++
	return &closing{v, func() { u.views-- }}, err
}

func (u *uncached) Contracts(ctx context.Context, addresses []common.Address) ([]*evm.Contract, error) {
	require.Zero(u.t, u.views, "views are open while a node is asked")
	u.asked++
	return u.classes.Contracts(ctx, addresses)
}

func (*uncached) Cached([]common.Address) ([]*evm.Contract, bool) { return nil, false }

// closing is a view that says when it is closed.
type closing struct {
	store.View
	closed func()
}

func (v *closing) Close() error {
	v.closed()
	return v.View.Close()
}

// TestNoViewWhileNodeIsAsked makes every query while the standard of no contract is in memory.
//
//test:plain
func TestNoViewWhileNodeIsAsked(t *testing.T) {
	for seed := range uint64(3) {
		p := newPast(200+seed, pastOptions{blocks: 60})
		u := &uncached{Store: store.NewMemory(), t: t}
		w, rng := newWorld(t, p, u), rand.New(rand.NewPCG(seed, 4))
		w.record = evm.New(u, network, chainID, u)
		w.advance(30)
		for range 200 {
			w.check(rng)
		}
		for _, who := range slices.Concat(p.contracts, p.created) {
			w.checkContractTransfers(evm.WalletQuery{Wallet: who, Limit: 2}, func() {}, who.String())
		}
		for i := range w.next {
			for j := range w.blocks[i].Transactions {
				_, _, err := w.record.Details(t.Context(), w.blocks[i].Transactions[j].Hash)
				require.NoError(t, err)
			}
		}
		require.Positive(t, u.asked)
		require.Zero(t, u.views)
	}
}

// TestEveryQuery indexes random histories and makes every query at random moments.
//
//test:plain
func TestEveryQuery(t *testing.T) {
	for _, o := range []pastOptions{
		{blocks: 150}, {first: 4090, blocks: 60}, {first: 3, blocks: 13_000, quiet: 99},
	} {
		for seed := range uint64(4) {
			t.Run(fmt.Sprintf("%d/%d", o.blocks, seed), func(t *testing.T) {
				p := newPast(seed, o)
				engines(t, func(t *testing.T, s store.Store) {
					w := newWorld(t, p, s)
					rng := rand.New(rand.NewPCG(seed, 3))
					_, err := w.record.Tip(t.Context())
					require.ErrorIs(t, err, evm.ErrEmpty)
					for !w.done() {
						if o.quiet > 0 {
							w.advance(1500)
						}
						w.advance(1)
						w.some(rng)
						tip, err := w.record.Tip(t.Context())
						require.NoError(t, err)
						require.Equal(t, ref(w.blocks[w.next-1]), tip)
						for range 10 {
							w.check(rng)
						}
					}
					for range 200 {
						w.check(rng)
					}
				})
			})
		}
	}
}

// TestTokensWhileBlocksArrive pages through collections that change: no token is there
// twice, and none that was there all the time is left out.
func TestTokensWhileBlocksArrive(t *testing.T) {
	for seed := range uint64(10) {
		w := newWorld(t, newPast(seed, pastOptions{blocks: 200}), store.NewMemory())
		w.advance(100)
		for _, standard := range []chain.Standard{chain.ERC721, chain.ERC1155} {
			from := w.tip()
			q := evm.TokenQuery{Contract: multi, Standard: standard, Limit: 1}
			got := all(t, func() { w.advance(7) }, func(after []byte) ([]evm.Token, []byte, int) {
				q.After = after
				p, err := w.record.Tokens(t.Context(), q)
				require.NoError(t, err)
				return p.Tokens, p.Next, q.Limit
			})
			seen := make(map[uint256.Int]bool)
			for _, token := range got {
				require.False(t, seen[token.TokenID], "%s is there twice", &token.TokenID)
				seen[token.TokenID] = true
			}
			always := make(map[uint256.Int]int)
			for tip := from; tip <= w.tip(); tip++ {
				for _, token := range w.tokens(tip, multi, standard) {
					always[token.TokenID]++
				}
			}
			for id, n := range always {
				if n == int(w.tip()-from+1) {
					require.True(t, seen[id], "%s was there all the time", &id)
				}
			}
		}
	}
}

func dump(t testing.TB, s store.Store) [32]byte {
	t.Helper()
	h, err := store.DumpHash(t.Context(), s)
	require.NoError(t, err)
	return h
}

// TestRows writes the same rows on both engines, whatever the batches are, and
// when all is indexed again.
//
//test:plain
func TestRows(t *testing.T) {
	for seed := range uint64(8) {
		p := newPast(seed, pastOptions{first: 4000, blocks: 200, untraced: func(n uint64) bool { return n%50 == 7 }})
		plain := newWorld(t, p, store.NewMemory())
		plain.projection = evm.NewProjection(network, chainID).With(evm.Optionals()...) // which remembers everything
		plain.advance(len(p.blocks))
		want := dump(t, plain.store)
		engines(t, func(t *testing.T, s store.Store) {
			rng := rand.New(rand.NewPCG(seed, 5))
			w := newWorld(t, p, s)
			for range 3 {
				for !w.done() {
					w.some(rng)
				}
				require.Equal(t, want, dump(t, s))
				w.next = 0
				if rng.IntN(2) == 0 {
					w.projection = testProjection()
				}
			}
		})
	}
}

// TestReplayIsRead requests balances while a chain is indexed again.
func TestReplayIsRead(t *testing.T) {
	p := newPast(1, pastOptions{blocks: 150})
	w := newWorld(t, p, store.NewMemory())
	w.advance(len(p.blocks))
	for w.next = 0; !w.done(); {
		w.advance(5)
		for _, wallet := range w.wallets {
			q := evm.BalanceQuery{Wallet: wallet, Limit: 1000}
			page, err := w.record.Balances(t.Context(), q)
			require.NoError(t, err)
			require.Equal(t, w.balances(w.tip(), &q), page.Balances, "tip %d", w.tip())
		}
	}
}

// TestChainsApart indexes two chains in one store.
func TestChainsApart(t *testing.T) {
	s := store.NewMemory()
	w := newWorld(t, newPast(1, pastOptions{blocks: 80}), s)
	others := newWorld(t, newPast(2, pastOptions{blocks: 90}), s).of(network+1, chainID)
	third := newWorld(t, newPast(3, pastOptions{blocks: 70}), s).of(network, ids.ID{'d'})
	rng := rand.New(rand.NewPCG(1, 1))
	all := []*world{w, others, third}
	for _, one := range all {
		one.advance(60)
	}
	for range 300 {
		one := all[rng.IntN(len(all))]
		one.advance(1)
		one.check(rng)
	}
}

func TestUntraced(t *testing.T) {
	// Blocks 20 to 29 are untraced, of which some have no transactions.
	p := newPast(1, pastOptions{first: 10, blocks: 40, untraced: func(n uint64) bool { return n >= 20 && n < 30 }})
	first, last := uint64(0), uint64(0)
	for _, b := range p.blocks {
		if !b.Traced && len(b.Transactions) > 0 {
			if first == 0 {
				first = b.Number
			}
			last = b.Number
		}
	}
	require.Greater(t, last, first)
	w := newWorld(t, p, store.NewMemory())
	w.advance(40)
	// One block without traces does not hide the others.
	deployments, err := w.record.Deployments(t.Context(), evm.DeploymentQuery{Address: address(1), Limit: 10})
	require.NoError(t, err)
	require.Equal(t, &evm.Span{From: first, To: last}, deployments.TracesMissing)
	_, err = w.record.Deployment(t.Context(), common.Address{0xee})
	var unknown *evm.NotDeployedError
	require.ErrorAs(t, err, &unknown)
	require.Equal(t, &evm.NotDeployedError{Contract: common.Address{0xee}, First: 10, TracesMissing: &evm.Span{From: first, To: last}}, unknown)
	for name, tt := range map[string]struct {
		untraced func(uint64) bool
		want     error
	}{
		"at first":   {func(n uint64) bool { return n < 30 }, nil},
		"at last":    {func(n uint64) bool { return n >= 30 }, nil},
		"throughout": {func(uint64) bool { return true }, evm.ErrUntraced},
	} {
		w := newWorld(t, newPast(1, pastOptions{first: 10, blocks: 40, untraced: tt.untraced}), store.NewMemory())
		w.advance(40)
		deployments, err := w.record.Deployments(t.Context(), evm.DeploymentQuery{Address: address(1), Limit: 10})
		require.NoError(t, err, name)
		require.NotNil(t, deployments.TracesMissing, name)
		page, err := w.record.Internals(t.Context(), evm.WalletQuery{Wallet: address(1), Limit: 10})
		require.ErrorIs(t, err, tt.want, name)
		of := uint64(20)
		_, err = w.record.Internals(t.Context(), evm.WalletQuery{Wallet: address(1), Limit: 10, Start: &of, End: &of})
		require.ErrorIs(t, err, tt.want, "%s: no block", name)
		if tt.want == nil {
			require.Equal(t, deployments.TracesMissing, page.TracesMissing, name)
		}
		_, err = w.record.Deployment(t.Context(), common.Address{0xee})
		require.ErrorAs(t, err, &unknown, name)
		require.Equal(t, deployments.TracesMissing, unknown.TracesMissing, name)
	}
	n := func(n uint64) *uint64 { return &n }
	for _, c := range []struct {
		start, end *uint64
		want       *evm.Span
	}{
		{nil, nil, &evm.Span{From: first, To: last}},
		{nil, n(first), nil},
		{nil, n(first + 1), &evm.Span{From: first, To: first}},
		{n(last), nil, &evm.Span{From: last, To: last}},
		{n(last + 1), nil, nil},
		{n(first), n(first + 1), &evm.Span{From: first, To: first}},
		{n(first + 1), n(last), &evm.Span{From: first + 1, To: last - 1}},
		{n(last), n(last + 1), &evm.Span{From: last, To: last}},
		{n(last), n(last), nil}, {n(last + 1), n(last), nil}, {n(0), n(0), nil},
	} {
		q := evm.WalletQuery{Wallet: address(1), Start: c.start, End: c.end, Limit: 1000}
		page, err := w.record.Internals(t.Context(), q)
		require.NoError(t, err)
		require.Equal(t, c.want, page.TracesMissing)
		require.Equal(t, p.internals(w.tip(), &q), page.Internals)
	}
	// An empty block has no calls, with or without traces.
	quiet := newPast(1, pastOptions{blocks: 5, quiet: 100, untraced: func(uint64) bool { return true }})
	w = newWorld(t, quiet, store.NewMemory())
	w.advance(5)
	page, err := w.record.Internals(t.Context(), evm.WalletQuery{Limit: 1})
	require.NoError(t, err)
	require.Empty(t, page.Internals)
	days, err := w.record.Days(t.Context(), 0, 10)
	require.NoError(t, err)
	require.Empty(t, days)
}

func TestErrors(t *testing.T) {
	ctx := t.Context()
	p := newPast(1, pastOptions{first: 100, blocks: 30})
	w := newWorld(t, p, store.NewMemory())
	for name, read := range map[string]func() error{
		"latest":      func() error { _, err := w.record.Latest(ctx, evm.LatestQuery{Limit: 1}); return err },
		"internals":   func() error { _, err := w.record.Internals(ctx, evm.WalletQuery{Limit: 1}); return err },
		"transfers":   func() error { _, err := w.record.Transfers(ctx, evm.WalletQuery{Limit: 1}); return err },
		"balances":    func() error { _, err := w.record.Balances(ctx, evm.BalanceQuery{Limit: 1}); return err },
		"deployment":  func() error { _, err := w.record.Deployment(ctx, multi); return err },
		"deployments": func() error { _, err := w.record.Deployments(ctx, evm.DeploymentQuery{Limit: 1}); return err },
		"token": func() error {
			_, err := w.record.Token(ctx, chain.ERC721, nft, new(uint256.Int))
			return err
		},
		"deployed":     func() error { _, err := w.record.Deployed(ctx, multi); return err },
		"tokens":       func() error { _, err := w.record.Tokens(ctx, evm.TokenQuery{Limit: 1}); return err },
		"days":         func() error { _, err := w.record.Days(ctx, 0, 1); return err },
		"known":        func() error { _, err := w.record.Known(ctx, nil); return err },
		"transactions": func() error { _, err := w.record.Transaction(ctx, common.Hash{}); return err },
	} {
		require.ErrorIs(t, read(), evm.ErrEmpty, name)
	}
	w.advance(20)

	for n, want := range map[uint64]error{99: evm.ErrBeforeFirst, 100: nil, 119: nil, 120: evm.ErrBeyondTip, ^uint64(0): evm.ErrBeyondTip} {
		page, err := w.record.Balances(ctx, evm.BalanceQuery{At: &n, Limit: 1})
		require.ErrorIs(t, err, want, "block %d", n)
		if want == nil {
			require.EqualValues(t, 100, page.First)
		}
	}
	for _, after := range [][]byte{{}, {1}, make([]byte, 11), make([]byte, 17), make([]byte, 100)} {
		_, err := w.record.Latest(ctx, evm.LatestQuery{Limit: 1, After: after})
		require.ErrorIs(t, err, index.ErrPosition)
		_, err = w.record.Internals(ctx, evm.WalletQuery{Limit: 1, After: after})
		require.ErrorIs(t, err, index.ErrPosition)
		_, err = w.record.Transfers(ctx, evm.WalletQuery{Limit: 1, After: after})
		require.ErrorIs(t, err, index.ErrPosition)
		_, err = w.record.Balances(ctx, evm.BalanceQuery{Limit: 1, After: after})
		require.ErrorIs(t, err, index.ErrPosition)
		_, err = w.record.Deployments(ctx, evm.DeploymentQuery{Limit: 1, After: after})
		require.ErrorIs(t, err, index.ErrPosition)
		_, err = w.record.Tokens(ctx, evm.TokenQuery{Standard: chain.ERC721, Limit: 1, After: after})
		require.ErrorIs(t, err, index.ErrPosition)
	}
	// Any bytes of the right length are a position, and do no harm.
	for b, want := range map[byte]error{0: index.ErrViewBehind, 0x7f: index.ErrViewBehind, 0xff: nil} { // of block 0
		after := slices.Repeat([]byte{b}, 200)
		_, err := w.record.Latest(ctx, evm.LatestQuery{Limit: 5, After: after[:12]})
		require.ErrorIs(t, err, want)
		_, err = w.record.Transfers(ctx, evm.WalletQuery{Limit: 5, After: after[:16]})
		require.ErrorIs(t, err, want)
		_, err = w.record.Balances(ctx, evm.BalanceQuery{Limit: 5, After: after[:60]})
		require.Error(t, err) // it names a block, which is not indexed
		_, err = w.record.Balances(ctx, evm.BalanceQuery{Limit: 5, After: append([]byte{0, 0, 0, 0, 0, 0, 0, 110}, after[:52]...)})
		require.NoError(t, err)
	}
	at := uint64(110)
	_, err := w.record.Balances(ctx, evm.BalanceQuery{At: &at, Limit: 5, After: append([]byte{0, 0, 0, 0, 0, 0, 0, 111}, make([]byte, 52)...)})
	require.ErrorIs(t, err, index.ErrPosition)
	for _, limit := range []int{0, -1, int(^uint(0) >> 1)} {
		page, err := w.record.Latest(ctx, evm.LatestQuery{Limit: limit})
		require.NoError(t, err)
		require.NotEmpty(t, page.Transactions)
	}
	tx, err := w.record.Transaction(ctx, common.Hash{1})
	require.NoError(t, err)
	require.Nil(t, tx)
	for _, before := range []int64{-1, 1, 86_400} {
		days, err := w.record.Days(ctx, before, 10)
		require.NoError(t, err)
		require.Empty(t, days)
	}

	apply := func(number, time uint64, projection *evm.Projection) error {
		return projection.Apply(ctx, w.store, &chain.Block{Number: number, Time: time}, new(store.Batch))
	}
	now := w.blocks[19].Time
	require.ErrorIs(t, apply(110, now, testProjection()), evm.ErrOrder)
	require.ErrorIs(t, apply(120, now-1, testProjection()), evm.ErrTime)
	require.ErrorIs(t, apply(120, 1<<60, testProjection()), evm.ErrTime)
	require.NoError(t, apply(120, now, testProjection()))
	require.NoError(t, apply(100, 0, testProjection()), "it starts over")
	alike := chainID
	alike[31]++
	require.ErrorIs(t, apply(120, now, evm.NewProjection(network, alike)), evm.ErrChain)
	_, err = evm.New(w.store, network, alike, classes{}).Tip(ctx)
	require.ErrorIs(t, err, evm.ErrChain)

	away := errors.New("node is away")
	record := evm.New(w.store, network, chainID, failing{away})
	_, err = record.Transfers(ctx, evm.WalletQuery{Wallet: address(1), Limit: 5})
	require.ErrorIs(t, err, away)
	_, err = record.Balances(ctx, evm.BalanceQuery{Wallet: address(1), Limit: 5})
	require.ErrorIs(t, err, away)
}

type failing struct{ err error }

func (f failing) Contracts(context.Context, []common.Address) ([]*evm.Contract, error) {
	return nil, f.err
}

func (failing) Cached([]common.Address) ([]*evm.Contract, bool) { return nil, false }

// TestLies has contracts that report impossible tokens.
func TestLies(t *testing.T) {
	var (
		a, b  = address(1), address(2)
		zero  common.Address
		id    = uint256.NewInt(7)
		top   = new(uint256.Int).SetAllOne()
		one   = uint256.NewInt(1)
		index uint32
	)
	p := &past{}
	block := func(transfers ...chain.Transfer) {
		block := &chain.Block{Number: uint64(len(p.blocks)), Hash: common.Hash{byte(len(p.blocks))}, Traced: true}
		tx := chain.Transaction{Success: true, Created: address(200)}
		for _, t := range transfers {
			id, amount := t.TokenID.Bytes32(), t.Amount.Bytes32()
			tx.Logs = append(tx.Logs, chain.Log{
				Index: index, Address: multi, Topics: []common.Hash{topicSingle, {}, topicOf(t.From), topicOf(t.To)}, Data: append(id[:], amount[:]...),
			})
			index++
		}
		block.Transactions = append(block.Transactions, tx)
		p.blocks = append(p.blocks, block)
	}
	move := func(from, to common.Address, amount *uint256.Int) chain.Transfer {
		return chain.Transfer{From: from, To: to, TokenID: *id, Amount: *amount}
	}
	w := newWorld(t, p, store.NewMemory())
	for _, step := range []struct {
		what      string
		transfers []chain.Transfer
		a, b      *uint256.Int
	}{
		{"a gives what it has not got", []chain.Transfer{move(a, b, uint256.NewInt(5))}, nil, uint256.NewInt(5)},
		{"a gets something", []chain.Transfer{move(zero, a, one)}, one, uint256.NewInt(5)},
		{"b is given more than there can be", []chain.Transfer{move(a, b, top)}, nil, top},
		{"a is given all there can be", []chain.Transfer{move(zero, a, top)}, top, top},
		{"b burns all", []chain.Transfer{move(b, zero, top)}, top, nil},
		{"b burns again", []chain.Transfer{move(b, zero, top)}, top, nil},
		{"a gives to itself", []chain.Transfer{move(a, a, one), move(a, a, top)}, top, nil},
		{"there and back in one block", []chain.Transfer{move(a, b, one), move(b, a, one)}, top, nil},
		{"zero address to zero address", []chain.Transfer{move(zero, zero, one)}, top, nil},
		{"a burns more than it has", []chain.Transfer{move(a, zero, one), move(a, zero, top)}, nil, nil},
		{"nothing is moved", []chain.Transfer{move(a, b, new(uint256.Int))}, nil, nil},
	} {
		block(step.transfers...)
		w.advance(1)
		for wallet, want := range map[common.Address]*uint256.Int{a: step.a, b: step.b} {
			page, err := w.record.Balances(t.Context(), evm.BalanceQuery{Wallet: wallet, Limit: 10})
			require.NoError(t, err)
			if want == nil {
				require.Empty(t, page.Balances, step.what)
				continue
			}
			require.Equal(t, []evm.TokenBalance{{Contract: multi, TokenID: *id, Amount: *want}}, page.Balances, step.what)
		}
		page, err := w.record.Tokens(t.Context(), evm.TokenQuery{Contract: multi, Standard: chain.ERC1155, Limit: 10})
		require.NoError(t, err)
		require.Equal(t, step.a != nil || step.b != nil, len(page.Tokens) == 1, step.what)
	}
}
