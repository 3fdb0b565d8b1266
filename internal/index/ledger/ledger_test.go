package ledger_test

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"

	chain "quorate/internal/chain/ledger"
	"quorate/internal/index/ledger"
	"quorate/internal/store"
)

// world is a history that is being indexed.
type world struct {
	*history
	t           testing.TB
	store       store.Store
	projections map[ids.ID]*ledger.Projection
	matcher     *ledger.Matcher
	record      *ledger.Index
	at          progress
}

func newWorld(t testing.TB, h *history, s store.Store) *world {
	w := &world{
		history: h, t: t, store: s, projections: make(map[ids.ID]*ledger.Projection), at: make(progress),
		matcher: ledger.NewMatcher(s, network, nil), record: ledger.New(s, network),
	}
	w.matcher.CheckpointEvery(checkpointEvery)
	for _, c := range chains {
		w.projections[c] = testProjection(c)
	}
	return w
}

// checkpointEvery is small enough for short histories to have checkpoints.
const checkpointEvery = 5

func testProjection(c ids.ID) *ledger.Projection {
	t := ledger.NewProjection(network, c)
	t.CheckpointEvery(checkpointEvery)
	return t
}

// advance commits up to n blocks of a chain in one batch.
func (w *world) advance(c ids.ID, n int) {
	w.t.Helper()
	var batch store.Batch
	for range min(n, len(w.blocks[c])-int(w.at[c])) {
		require.NoError(w.t, w.projections[c].Apply(w.t.Context(), w.store, w.blocks[c][w.at[c]], &batch))
		w.at[c]++
	}
	require.NoError(w.t, w.store.Commit(w.t.Context(), &batch))
}

func (w *world) done() bool {
	for _, c := range chains {
		if int(w.at[c]) < len(w.blocks[c]) {
			return false
		}
	}
	return true
}

// some indexes a few more blocks like pipelines.
func (w *world) some(rng *rand.Rand) {
	w.t.Helper()
	switch rng.IntN(8) {
	case 0:
		require.NoError(w.t, w.matcher.Settle(w.t.Context()))
	case 1:
		// A process killed with an uncommitted batch.
		c := chains[rng.IntN(len(chains))]
		var lost store.Batch
		for i := w.at[c]; i < uint64(len(w.blocks[c])) && i < w.at[c]+3; i++ {
			require.NoError(w.t, w.projections[c].Apply(w.t.Context(), w.store, w.blocks[c][i], &lost))
		}
		if rng.IntN(2) == 0 {
			w.projections[c] = testProjection(c)
		}
	default:
		w.advance(chains[rng.IntN(len(chains))], 1+rng.IntN(8))
	}
}

func (w *world) start() {
	for _, c := range chains {
		w.advance(c, 1)
	}
}

func (w *world) finish() {
	w.t.Helper()
	for _, c := range chains {
		w.advance(c, 1<<30)
	}
	require.NoError(w.t, w.matcher.Settle(w.t.Context()))
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

// someAddresses returns a few of the history's addresses, and sometimes one without outputs.
func (w *world) someAddresses(rng *rand.Rand) []ids.ShortID {
	n := 1 + rng.IntN(min(4, len(w.addresses)))
	if rng.IntN(5) == 0 {
		n = len(w.addresses)
	}
	var some []ids.ShortID
	for _, i := range rng.Perm(len(w.addresses))[:n] {
		some = append(some, w.addresses[i])
	}
	if rng.IntN(4) == 0 {
		some = append(some, w.addresses[0], ids.ShortID{255})
	}
	return some
}

func (w *world) checkBalances(rng *rand.Rand) {
	w.t.Helper()
	c := chains[rng.IntN(len(chains))]
	addresses := w.someAddresses(rng)
	var at *uint64
	var when time.Time
	if rng.IntN(3) > 0 {
		first := w.clock(progress{c: 1}, c)
		t := first - 2 + rng.Uint64N(w.clock(w.at, c)-first+10)
		if rng.IntN(2) == 0 { // exactly at an event
			t = uint64(w.blocks[c][rng.Uint64N(w.at[c])].Time.Unix())
		}
		at, when = &t, time.Unix(int64(t), 0)
	}
	got, now, err := w.record.Balances(w.t.Context(), c, addresses, when)
	require.NoError(w.t, err)
	require.Equal(w.t, w.clock(w.at, c), uint64(now.Unix()))
	var lines []string
	for _, b := range got {
		lines = append(lines, balanceLine(b))
	}
	slices.Sort(lines)
	require.Equal(w.t, w.balances(w.at, c, addresses, at), lines, "balances of %v on %s at %v, with %s", addresses, c, when, w.at)
}

func (w *world) someQuery(rng *rand.Rand) ledger.OutputQuery {
	q := ledger.OutputQuery{
		ChainID: chains[rng.IntN(len(chains))], Addresses: w.someAddresses(rng), IncludeSpent: rng.IntN(2) == 0,
		ByAmount: rng.IntN(2) == 0, Ascending: rng.IntN(2) == 0, Limit: 1 + rng.IntN(20),
	}
	if rng.IntN(3) == 0 {
		q.MinAmount = rng.Uint64N(1 << rng.IntN(45))
	}
	switch rng.IntN(6) {
	case 0:
		q.AssetID = goldID
	case 1:
		q.AssetID = avaxID
	}
	return q
}

// checkPages reads all pages of a query while blocks arrive and compares each with the oracle.
func (w *world) checkPages(rng *rand.Rand, more func()) {
	w.t.Helper()
	q := w.someQuery(rng)
	pins := maps.Clone(w.at)
	want := w.list(pins, &q)
	for page := 0; ; page++ {
		got, err := w.record.UTXOs(w.t.Context(), q)
		require.NoError(w.t, err)
		now := w.clock(w.at, q.ChainID)
		var expected []*utxo
		for _, u := range want {
			if len(expected) == q.Limit+1 {
				break
			}
			if q.After != nil && !w.follows(&q, u) {
				continue
			}
			if q.IncludeSpent || u.exists(w.at, nil) {
				expected = append(expected, u)
			}
		}
		require.Equal(w.t, len(expected) > q.Limit, got.Next != nil, "whether there is another page")
		expected = expected[:min(len(expected), q.Limit)]
		require.Len(w.t, got.Outputs, len(expected), "page %d of %+v with %s", page, q, w.at)
		for i, u := range expected {
			w.checkOutput(u, got.Outputs[i], now)
		}
		if got.Next == nil {
			return
		}
		token, err := ledger.ParsePosition(got.Next.Bytes())
		require.NoError(w.t, err)
		require.Equal(w.t, got.Next, token)
		q.After = token
		more()
	}
}

// follows reports whether an output comes after the position of a query.
func (w *world) follows(q *ledger.OutputQuery, u *utxo) bool {
	key := u.time
	if q.ByAmount {
		key = u.listAmount()
	}
	after := key > q.After.Key || key == q.After.Key && u.ID.String() > q.After.ID.String()
	return u.ID != q.After.ID && after == q.Ascending
}

func (w *world) checkOutput(u *utxo, got *ledger.Output, now uint64) {
	w.t.Helper()
	want := ledger.Output{Output: u.Output, ChainID: u.chainID, Height: u.height, Time: time.Unix(int64(u.time), 0).UTC()}
	if e := u.known(w.at, w.history, 1<<62); e != 0 {
		want.StakeStart, want.StakeEnd = time.Unix(int64(u.start), 0).UTC(), time.Unix(int64(e), 0).UTC()
	}
	if u.spent != nil && w.at.has(u.spent.ChainID, u.spent.Height) {
		want.Spent = u.spent
	}
	require.Equal(w.t, want.ID.String(), got.ID.String())
	require.Equal(w.t, want, got.Plain())
	require.Equal(w.t, u.Role == chain.Stake && u.known(w.at, w.history, now) > now, got.StakedAt(time.Unix(int64(now), 0)))
}

// histories are the kinds of histories to test.
var histories = []historyOptions{
	{steps: 400, addresses: 8},
	{steps: 400, addresses: 12, skew: 8},
	{steps: 400, addresses: 3, skew: 3},
	{steps: 400, addresses: 3, skew: 40, exports: true},
	{steps: 1000, addresses: 2, skew: 5, exports: true},
}

// TestOracle compares balances at random times, and pages read while blocks arrive, with the list of all outputs. The
// pipelines of the three chains run in any order.
//
//test:plain
func TestOracle(t *testing.T) {
	engines(t, func(t *testing.T, s store.Store) {
		for seed := range uint64(len(histories)) {
			if seed > 0 && testing.Short() {
				break
			}
			rng := rand.New(rand.NewPCG(seed, 2))
			fresh := s
			if seed > 0 {
				fresh = store.NewMemory()
			}
			w := newWorld(t, newHistory(seed, histories[seed]), fresh)
			w.start()
			for i := 0; !w.done(); i++ {
				w.some(rng)
				w.checkBalances(rng)
				w.checkActivity(rng)
				if i%4 == 0 {
					w.checkPages(rng, func() { w.some(rng) })
					w.checkStakings(rng, func() { w.some(rng) })
					w.checkDelegations(rng, func() { w.some(rng) })
				}
			}
			w.finish()
			for range 200 {
				w.checkBalances(rng)
				w.checkActivity(rng)
				w.checkPages(rng, func() {})
				w.checkStakings(rng, func() {})
				w.checkDelegations(rng, func() {})
			}
		}
	})
}

// TestSupply sums everything that all addresses have at random times.
func TestSupply(t *testing.T) {
	h := newHistory(9, historyOptions{steps: 500, addresses: 10})
	w := newWorld(t, h, store.NewMemory())
	w.finish()
	rng := rand.New(rand.NewPCG(9, 9))
	first, last := w.clock(progress{pChain: 1, xChain: 1, cChain: 1}, cChain)+1, w.clock(w.at, pChain)
	for _, c := range chains {
		last = min(last, w.clock(w.at, c))
	}
	for range 300 {
		at := first + rng.Uint64N(last-first)
		supply, moving := new(big.Int), false
		for _, c := range chains {
			for _, b := range h.blocks[c] {
				if uint64(b.Time.Unix()) > at {
					continue
				}
				moving = moving || uint64(b.Time.Unix()) == at && len(b.Txs) > 0
				for i := range b.Txs {
					tx := &b.Txs[i]
					for _, in := range tx.Consumed {
						supply.Sub(supply, new(big.Int).SetUint64(in.Amount))
					}
					for _, o := range tx.Made {
						if tx.Settled == nil || o.Role != chain.Stake {
							supply.Add(supply, new(big.Int).SetUint64(o.Amount))
						}
					}
				}
			}
		}
		if moving {
			continue // a block's outputs count nowhere in the second of the block
		}
		got := new(big.Int)
		for _, c := range chains {
			balances, _, err := w.record.Balances(t.Context(), c, h.addresses, time.Unix(int64(at), 0))
			require.NoError(t, err)
			for _, b := range balances {
				if !b.NFT && (b.SharedWith == ids.Empty && b.Bucket < ledger.AtomicMemoryUnlocked || b.Export) {
					got.Add(got, b.Amount)
				}
			}
		}
		require.Equal(t, supply.String(), got.String(), "at %d", at)
	}
}

// TestSameRows indexes one history in many orders, which must give the same rows.
//
//test:plain
func TestSameRows(t *testing.T) {
	for i, options := range histories {
		h := newHistory(uint64(i), options)
		plain := newWorld(t, h, store.NewMemory())
		plain.finish()
		require.Zero(t, plain.store.Stats().Replaced, "rows added as new that existed")
		want := rows(t, plain.store)
		engines(t, func(t *testing.T, s store.Store) {
			rng := rand.New(rand.NewPCG(uint64(i), 1))
			for range 3 {
				w := newWorld(t, h, s)
				if rng.IntN(2) == 0 { // one chain long before the others
					w.advance(chains[rng.IntN(3)], 1<<30)
				}
				for !w.done() {
					w.some(rng)
				}
				w.finish()
				require.Equal(t, want, rows(t, s))
				// Index again over existing rows.
				again := newWorld(t, h, s)
				again.finish()
				require.Equal(t, want, rows(t, s), "after indexing again")
				s = store.NewMemory()
			}
		})
	}
}

// rows returns a hash of each family except the writers' epochs.
func rows(t testing.TB, s store.Store) map[string]string {
	all := make(map[string]string)
	for _, f := range store.Families() {
		if f == store.FamilyCursor {
			continue
		}
		n, last := 0, (*store.PK)(nil)
		text := ""
		for {
			page, err := s.Walk(t.Context(), f, last, 1000)
			require.NoError(t, err)
			for _, r := range page {
				text = fmt.Sprintf("%x", sha256.Sum256(fmt.Appendf(nil, "%s %x %x %x", text, r.P, r.K, r.V)))
				n++
			}
			if len(page) == 0 {
				break
			}
			last = &page[len(page)-1].PK
		}
		all[f.String()] = fmt.Sprintf("%d rows %s", n, text)
	}
	return all
}
