package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"

	"quorate/internal/index"
	"quorate/internal/index/ledger"
	"quorate/internal/store"
)

// inTurn opens views of stores in turn, like a service that reads from standbys.
type inTurn struct {
	stores []store.Store
	next   int
}

func (v *inTurn) View(ctx context.Context) (store.View, error) {
	s := v.stores[v.next%len(v.stores)]
	v.next++
	return s.View(ctx)
}

// readPages returns the items of all pages of a list. It repeats a page that is refused because of an older view, and
// returns the number of refusals. page returns no position after the last page.
func readPages[P, T any](t *testing.T, page func(after *P) (items []T, next *P, err error)) (all []T, refused int) {
	t.Helper()
	for after := (*P)(nil); ; {
		items, next, err := page(after)
		if errors.Is(err, index.ErrViewBehind) {
			require.NotNil(t, after, "the first page needs no block")
			refused++
			continue
		}
		require.NoError(t, err)
		all = append(all, items...)
		if next == nil {
			return all, refused
		}
		after = next
	}
}

// TestPagesOfStandbys reads pages in turn from two stores. The second store lacks the last two blocks of each chain. All
// pages together show the state at the first page.
func TestPagesOfStandbys(t *testing.T) {
	h := newHistory(3, historyOptions{steps: 150, addresses: 3, skew: 3})
	ahead, behind := newWorld(t, h, store.NewMemory()), newWorld(t, h, store.NewMemory())
	refused := make(map[string]int)
	for !ahead.done() {
		for _, c := range chains {
			ahead.advance(c, 25)
			behind.advance(c, int(ahead.at[c])-2-int(behind.at[c]))
		}
		require.NoError(t, ahead.matcher.Settle(t.Context()))
		require.NoError(t, behind.matcher.Settle(t.Context()))
		for i, first := range []*world{ahead, behind} {
			views := &inTurn{stores: []store.Store{ahead.store, behind.store}}
			record := ledger.New(views, network)
			for bits := range 8 {
				q := ledger.OutputQuery{
					ChainID: pChain, Addresses: h.addresses, Limit: 1000,
					Ascending: bits&1 > 0, ByAmount: bits&2 > 0, IncludeSpent: bits&4 > 0,
				}
				if i == 1 && !q.IncludeSpent {
					continue // later pages omit outputs that were consumed meanwhile
				}
				whole, err := first.record.UTXOs(t.Context(), q)
				require.NoError(t, err)
				require.Nil(t, whole.Next)
				q.Limit, views.next = 1, i
				got, n := readPages(t, func(after *ledger.Position) ([]ids.ID, *ledger.Position, error) {
					q.After = after
					page, err := record.UTXOs(t.Context(), q)
					if err != nil {
						return nil, nil, err
					}
					return outputIDs(page.Outputs), page.Next, nil
				})
				refused[fmt.Sprint("outputs", i)] += n
				require.Equal(t, outputIDs(whole.Outputs), got, "%+v", q)
			}
		}
		for _, ascending := range []bool{true, false} {
			views := &inTurn{stores: []store.Store{ahead.store, behind.store}}
			record := ledger.New(views, network)
			delegations := ledger.DelegationQuery{Ascending: ascending, Limit: 1000}
			whole, err := ahead.record.Delegations(t.Context(), delegations)
			require.NoError(t, err)
			delegations.Limit = 1
			all, n := readPages(t, func(after *ledger.Position) ([]*ledger.Delegation, *ledger.Position, error) {
				delegations.After = after
				page, err := record.Delegations(t.Context(), delegations)
				if err != nil {
					return nil, nil, err
				}
				return page.Delegations, page.Next, nil
			})
			refused["delegations"] += n
			require.Equal(t, whole.Delegations, all)

			views.next = 0
			stakings := ledger.StakingQuery{Addresses: h.addresses, Ascending: ascending, Limit: 1000}
			active, err := ahead.record.ActiveStakings(t.Context(), stakings)
			require.NoError(t, err)
			stakings.Limit = 1
			txs, n := readPages(t, func(from *ledger.StakingPosition) ([]ids.ID, *ledger.StakingPosition, error) {
				stakings.From = from
				page, err := record.ActiveStakings(t.Context(), stakings)
				if err != nil {
					return nil, nil, err
				}
				return txIDs(page.Stakings), page.Next, nil
			})
			refused["stakings"] += n
			require.Equal(t, txIDs(active.Stakings), txs)
		}
	}
	require.Positive(t, refused["outputs0"])
	require.Zero(t, refused["outputs1"], "a later view has all blocks of the first page")
	require.Positive(t, refused["delegations"])
	require.Positive(t, refused["stakings"])
}

func outputIDs(outputs []*ledger.Output) (all []ids.ID) {
	for _, o := range outputs {
		all = append(all, o.ID)
	}
	return all
}

func txIDs(stakings []ledger.StakingOutputs) (all []ids.ID) {
	for _, s := range stakings {
		all = append(all, s.TxID)
	}
	return all
}
