package ledger_test

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"

	chain "quorate/internal/chain/ledger"
	"quorate/internal/index/ledger"
)

// isSettled reports whether the end of the stake is indexed.
func (s *stakeTx) isSettled(p progress) bool { return s.settled && p.has(pChain, s.settledHeight) }

// active reports whether the transaction belongs to the list of active ones.
func (s *stakeTx) active(w *world) bool {
	return w.at.has(pChain, s.height) && !s.isSettled(w.at) &&
		s.outputs[0].known(w.at, w.history, 1<<62) > w.clock(w.at, pChain)
}

func (w *world) checkStakings(rng *rand.Rand, more func()) {
	w.t.Helper()
	q := ledger.StakingQuery{Addresses: w.someAddresses(rng), Ascending: rng.IntN(2) == 0, Limit: 1 + rng.IntN(4)}
	if rng.IntN(4) == 0 {
		q.Kinds = []chain.Kind{"AddDelegatorTx", "BaseTx"}
	}
	first, last := w.clock(progress{pChain: 1}, pChain), w.clock(w.at, pChain)
	if rng.IntN(3) == 0 {
		q.After = time.Unix(int64(first+rng.Uint64N(last-first+1)), 0)
	}
	if rng.IntN(3) == 0 {
		q.Before = time.Unix(int64(first+rng.Uint64N(last-first+9)), 0)
	}
	var want []*stakeTx
	for _, s := range w.stakes {
		if w.at.has(pChain, s.height) && (q.After.IsZero() || s.time > uint64(q.After.Unix())) &&
			(q.Before.IsZero() || s.time < uint64(q.Before.Unix())) && (q.Kinds == nil || s.kind == "AddDelegatorTx") &&
			slices.ContainsFunc(q.Addresses, func(a ids.ShortID) bool { return s.involved[a] }) {
			want = append(want, s)
		}
	}
	order := func(a, b *stakeTx) int {
		c := cmp.Or(cmp.Compare(a.time, b.time), cmp.Compare(a.height, b.height), cmp.Compare(a.txID.String(), b.txID.String()))
		if !q.Ascending {
			c = -c
		}
		return c
	}
	slices.SortFunc(want, order)
	for {
		page, err := w.record.ActiveStakings(w.t.Context(), q)
		require.NoError(w.t, err)
		var expected []*stakeTx
		for _, s := range want {
			if s.active(w) {
				expected = append(expected, s)
			}
		}
		require.Equal(w.t, len(expected) > q.Limit, page.Next != nil, "whether there is another page")
		require.Len(w.t, page.Stakings, min(q.Limit, len(expected)))
		for i, got := range page.Stakings {
			s := expected[i]
			require.Equal(w.t, s.txID, got.TxID)
			require.Equal(w.t, s.staker, got.Staker)
			require.Equal(w.t, s.outputs[0].known(w.at, w.history, 1<<62), uint64(got.End.Unix()))
			require.Len(w.t, got.Staking.Consumed, len(got.Consumed))
			for _, o := range got.Consumed {
				require.Equal(w.t, s.txID, o.Spent.TxID)
			}
			stakes := 0
			for _, o := range got.Made {
				require.Equal(w.t, s.txID, o.TxID)
				if o.Role == chain.Stake {
					stakes++
				}
			}
			require.Equal(w.t, len(s.outputs), stakes)
		}
		if page.Next == nil {
			return
		}
		at := slices.Index(want, expected[q.Limit-1])
		want = want[at+1:]
		q.From, err = ledger.ParseStakingPosition(page.Next.Bytes())
		require.NoError(w.t, err)
		more()
	}
}

func (w *world) checkDelegations(rng *rand.Rand, more func()) {
	w.t.Helper()
	q := ledger.DelegationQuery{Ascending: rng.IntN(2) == 0, Limit: 1 + rng.IntN(5)}
	if rng.IntN(2) == 0 {
		q.RewardAddresses = w.addresses[rng.IntN(2):2]
	}
	switch rng.IntN(4) {
	case 0:
		q.NodeIDs = []ids.NodeID{nodeID, {8}}
	case 1:
		q.NodeIDs = []ids.NodeID{{8}}
	}
	q.Status = []ledger.DelegationStatus{"", "pending", "active", "completed"}[rng.IntN(4)]
	q.Current = q.Status == "" && rng.IntN(2) == 0
	status := func(s *stakeTx) ledger.DelegationStatus {
		switch now := w.clock(w.at, pChain); {
		case uint64(s.staker.Start.Unix()) > now:
			return ledger.DelegationPending
		case s.end > now:
			return ledger.DelegationActive
		default:
			return ledger.DelegationCompleted
		}
	}
	var want []*stakeTx
	for _, s := range w.stakes {
		if s.staker.Delegator && w.at.has(pChain, s.height) &&
			(q.NodeIDs == nil || slices.Contains(q.NodeIDs, nodeID)) &&
			(q.RewardAddresses == nil || slices.ContainsFunc(q.RewardAddresses, func(a ids.ShortID) bool { return slices.Contains(s.staker.RewardAddresses, a) })) {
			want = append(want, s)
		}
	}
	slices.SortFunc(want, func(a, b *stakeTx) int {
		c := cmp.Or(a.staker.Start.Compare(b.staker.Start), cmp.Compare(a.txID.String(), b.txID.String()))
		if !q.Ascending {
			c = -c
		}
		return c
	})
	for {
		page, err := w.record.Delegations(w.t.Context(), q)
		require.NoError(w.t, err)
		var expected []*stakeTx
		for _, s := range want {
			if (q.Status == "" || status(s) == q.Status) && (!q.Current || status(s) != ledger.DelegationPending && !s.isSettled(w.at)) {
				expected = append(expected, s)
			}
		}
		require.Equal(w.t, len(expected) > q.Limit, page.Next != nil, "whether there is another page")
		require.Len(w.t, page.Delegations, min(q.Limit, len(expected)))
		for i, got := range page.Delegations {
			s := expected[i]
			expect := ledger.Delegation{
				TxID: s.txID, NodeID: nodeID, Start: s.staker.Start, End: s.staker.End, Height: s.height,
				Weight: s.staker.Weight, RewardAddresses: s.staker.RewardAddresses, Shares: 20_000,
			}
			if s.isSettled(w.at) {
				expect.Settled, expect.Rewarded = true, s.rewarded
				expect.SettledAt = w.blocks[pChain][s.settledHeight].Time
				expect.PotentialReward, expect.Reward, expect.Commission = s.potential, s.reward, s.commission
			}
			require.Equal(w.t, expect, *got)
		}
		if page.Next == nil {
			return
		}
		want = want[slices.Index(want, expected[q.Limit-1])+1:]
		q.After, err = ledger.ParsePosition(page.Next.Bytes())
		require.NoError(w.t, err)
		more()
	}
}
