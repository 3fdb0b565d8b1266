package ledger

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"

	chain "quorate/internal/chain/ledger"
	"quorate/internal/index/internal/row"
	"quorate/internal/store"
)

// TestAmend adds events with times in any order, a few at a time, with checkpoints at some. Each checkpoint and each
// sum must equal the sum of earlier events.
func TestAmend(t *testing.T) {
	for seed := range uint64(30) {
		rng := rand.New(rand.NewPCG(seed, 0))
		s := store.NewMemory()
		p := accountID{1}.partition(seriesSpent)
		all := make(map[string]event)
		due := make(map[uint64]bool)
		before := func(at uint64) (sum sums) {
			for _, e := range all {
				if from, _ := eventTime(e.k); from < at {
					require.NoError(t, sum.addRow(e.v))
				}
			}
			return sum
		}
		for step := range uint64(40) {
			var batch store.Batch
			var events []event
			var times []uint64
			for i := range 1 + rng.Uint64N(6) {
				from := 1 + rng.Uint64N(60)
				var sum sums
				sum[rng.IntN(int(buckets))] = tally{amount: quantity{lo: rng.Uint64()}, count: 1}.minus()
				e := event{k: eventKey(from, step, byte(i)), v: sum.bytes()}
				batch.Put(store.FamilyBalanceEvent, store.PK{P: p, K: e.k}, e.v)
				events = insert(events, e)
				all[string(e.k)] = e
				if rng.IntN(4) == 0 {
					times = append(times, from)
					due[from] = true
				}
			}
			require.NoError(t, amend(t.Context(), s, p, events, times, &batch))
			require.NoError(t, s.Commit(t.Context(), &batch))
			at := rng.Uint64N(70)
			got, err := sumBefore(t.Context(), s, p, row.Uint64(at), nil)
			require.NoError(t, err)
			require.Equal(t, before(at), got, "sum before %d", at)
			// In one read or several, for every guess.
			var then, now, beside sums
			clock := []store.Query{{Family: store.FamilyBalanceEvent, P: p, Limit: 1}}
			guess := []int{0, 1, 3, 50, 1000}[rng.IntN(5)]
			more, err := addSums(t.Context(), s, []partSum{{p: p, at: at, into: &then}, {p: []byte("none"), at: at, into: &then}, {p: p, all: true, into: &now}}, guess, clock)
			require.NoError(t, err)
			require.Equal(t, before(at), then, "sum before %d, %d rows guessed", at, guess)
			require.Equal(t, before(1<<40), now, "sum of all, %d rows guessed", guess)
			require.Len(t, more, 1)
			require.Len(t, more[0], 1)
			// More sums than one exchange reads.
			many := make([]partSum, 2*sumsAtOnce+1)
			for i := range many {
				many[i] = partSum{p: []byte{byte(i), byte(i >> 8), 0}, at: at, into: &beside}
			}
			many[2*sumsAtOnce].p, many[sumsAtOnce].p = p, p
			more, err = addSums(t.Context(), s, many, guess, nil)
			require.NoError(t, err)
			require.Empty(t, more)
			twice := before(at)
			twice.add(&twice)
			require.Equal(t, twice, beside)
		}
		rows, err := s.Scan(t.Context(), store.FamilyBalanceCheckpoint, p, nil, nil, store.Ascending, 1000)
		require.NoError(t, err)
		require.Len(t, rows, len(due))
		for _, one := range rows {
			at, err := eventTime(one.K)
			require.NoError(t, err)
			var got sums
			require.NoError(t, got.addRow(one.V))
			require.Equal(t, before(at), got, "checkpoint at %d", at)
		}
	}
}

// TestSumRow encodes amounts beyond 64 bits of both signs.
func TestSumRow(t *testing.T) {
	for _, amount := range []quantity{{}, {lo: 1}, {hi: -1, lo: ^uint64(0)}, {hi: 1 << 40, lo: 3}, {hi: -1 << 40, lo: 9}, {hi: -1}} {
		for _, count := range []int64{0, 1, -1, 1 << 50} {
			var want, got sums
			want[AtomicMemoryLocked] = tally{amount, count}
			want[UnlockedUnstaked] = want[AtomicMemoryLocked].minus()
			require.NoError(t, got.addRow(want.bytes()))
			require.Equal(t, want, got)
			require.NoError(t, got.addRow(want.bytes()))
			require.Equal(t, want[AtomicMemoryLocked].plus(want[AtomicMemoryLocked]), got[AtomicMemoryLocked])
		}
	}
	require.Equal(t, "-18446744073709551616", quantity{hi: -1}.big().String())
	require.Equal(t, "18446744073709551617", quantity{lo: ^uint64(0)}.plus(quantity{lo: 2}).big().String())
	require.Equal(t, "-1", quantity{lo: 1}.minus().big().String())
}

// TestSpendRow requires that the rows contain what the Matcher needs.
func TestSpendRow(t *testing.T) {
	own := spend{Spend: chain.Spend{TxID: ids.ID{1}, Height: 5, Time: row.Unix(6)}, number: 7, salt: 9}
	arrived := own
	arrived.arrival = true
	got, err := parseSpend(arrived.bytes())
	require.NoError(t, err)
	require.Equal(t, arrived, got)
	got, err = parseSpend(own.bytes())
	require.NoError(t, err)
	require.Equal(t, spend{Spend: own.Spend}, got)
	require.Len(t, arrived.bytes(), len(own.bytes())+1+8)
	_, err = parseSpend(arrived.bytes()[:len(arrived.bytes())-1])
	require.ErrorIs(t, err, store.ErrCorrupt)
}

// FuzzRows reads damaged rows. Every readable row must encode to the same bytes.
func FuzzRows(f *testing.F) {
	var sum sums
	sum[LockedStaked] = tally{quantity{hi: -5, lo: 7}, -3}
	o := &Output{}
	o.Kind, o.Role, o.Amount, o.Threshold = 1, 1, 7, 1
	f.Add(sum.bytes())
	f.Add(o.bytes())
	f.Add((&Staking{Kind: "BaseTx"}).bytes())
	f.Add((&Delegation{Settled: true}).bytes())
	f.Add((&spend{arrival: true, number: 7, salt: 9}).bytes())
	f.Add(new(spend).bytes())
	f.Add((&Position{Key: 1, Pins: []Pin{{Height: 3}}}).Bytes())
	f.Add(movement{arrival: true}.bytes())
	f.Add(o.timeKey())
	f.Fuzz(func(t *testing.T, b []byte) {
		same := func(what string, first []byte, again func([]byte) ([]byte, error)) {
			second, err := again(first)
			require.NoError(t, err, what)
			require.Equal(t, first, second, what)
		}
		output := func(b []byte) ([]byte, error) {
			o, err := parseOutput(o.ID, b)
			if err != nil {
				return nil, err
			}
			return o.bytes(), nil
		}
		if first, err := output(b); err == nil {
			same("output", first, output)
		}
		staking := func(b []byte) ([]byte, error) {
			s, err := parseStaking(o.ID, b)
			if err != nil {
				return nil, err
			}
			return s.bytes(), nil
		}
		if first, err := staking(b); err == nil {
			same("staking", first, staking)
		}
		delegation := func(b []byte) ([]byte, error) {
			d, err := parseDelegation(o.ID, b)
			if err != nil {
				return nil, err
			}
			d.Rewards()
			return d.bytes(), nil
		}
		if first, err := delegation(b); err == nil {
			same("delegation", first, delegation)
		}
		sum := func(b []byte) ([]byte, error) {
			var s sums
			err := s.addRow(b)
			return s.bytes(), err
		}
		if first, err := sum(b); err == nil {
			same("sums", first, sum)
		}
		position := func(b []byte) ([]byte, error) {
			p, err := ParsePosition(b)
			if err != nil {
				return nil, err
			}
			return p.Bytes(), nil
		}
		if first, err := position(b); err == nil {
			same("position", first, position)
		}
		spent := func(b []byte) ([]byte, error) {
			s, err := parseSpend(b)
			return s.bytes(), err
		}
		if first, err := spent(b); err == nil {
			same("spend", first, spent)
		}
		if n, id, err := parseKey(b); err == nil {
			require.Equal(t, b, listKey(n, id))
		}
		_, _ = parseMovement(b)
		_, _ = parseClock(b)
		_, _ = ParseStakingPosition(b)
		_, _ = parseGroup(groupID{}, b)
		_, _ = parseListKey(o.ID, groupID{}, b)
		_ = row.Read(b).Len()
	})
}
