package ledger_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"

	"quorate/internal/index/ledger"
	"quorate/internal/store"
)

// TestAudit finds no contradiction in a history, and then every changed, lost or added row.
func TestAudit(t *testing.T) {
	h := newHistory(9, historyOptions{steps: 500, skew: 3, addresses: 4})
	w := newWorld(t, h, store.NewMemory())
	w.finish()
	audit := func() (*ledger.Audit, []string) {
		var wrong []string
		a, err := ledger.New(w.store, network).Audit(t.Context(), ledger.AuditOptions{Addresses: 3, Wrong: func(what string) { wrong = append(wrong, what) }})
		require.NoError(t, err)
		for _, id := range a.Arrived {
			wrong = append(wrong, "arrived "+id.String())
		}
		return a, wrong
	}
	a, wrong := audit()
	require.Empty(t, wrong)
	require.Positive(t, a.Outputs)
	require.Positive(t, a.Accounts)
	require.Len(t, a.Addresses, 3)

	for _, family := range []store.Family{
		store.FamilyOutput, store.FamilyUnspentByTime, store.FamilySpentByTime, store.FamilyUnspentByAmount, store.FamilySpentByAmount,
		store.FamilyAccount, store.FamilyOwners, store.FamilyBalanceEvent, store.FamilyBalanceCheckpoint,
	} {
		var rows []store.Entry
		for one, err := range store.Rows(t.Context(), w.store, family) {
			require.NoError(t, err)
			rows = append(rows, one)
		}
		require.NotEmpty(t, rows, "family %s", family)
		found := make(map[string]int)
		for i := 0; i < len(rows); i += 1 + len(rows)/12 {
			one := rows[i]
			changed := append([]byte(nil), one.V...)
			if len(changed) > 0 {
				changed[len(changed)/2] ^= 1
			}
			for how, tamper := range map[string]func(b *store.Batch){
				"changed": func(b *store.Batch) { b.Put(family, one.PK, changed) },
				"lost":    func(b *store.Batch) { b.Delete(family, one.PK) },
			} {
				if how == "changed" && len(one.V) == 0 || how == "lost" && family == store.FamilyBalanceCheckpoint {
					continue // only makes reads slower
				}
				var b, back store.Batch
				tamper(&b)
				require.NoError(t, w.store.Commit(t.Context(), &b))
				_, wrong := audit()
				if len(wrong) == 0 {
					found["missed "+how]++
					t.Logf("%s: row %x %x %s: not found", family, one.P, one.K, how)
				}
				found[how]++
				back.Put(family, one.PK, one.V)
				require.NoError(t, w.store.Commit(t.Context(), &back))
			}
		}
		t.Logf("%s: %v of %d rows", family, found, len(rows))
		for how, n := range found {
			if strings.HasPrefix(how, "missed") {
				t.Errorf("family %s: %s %d times, want every one found", family, how, n)
			}
		}
	}
	_, wrong = audit()
	require.Empty(t, wrong, "after everything was put back")
}

// TestAuditOfStrayRows adds rows that no output has.
func TestAuditOfStrayRows(t *testing.T) {
	h := newHistory(10, historyOptions{steps: 200, addresses: 4})
	w := newWorld(t, h, store.NewMemory())
	w.finish()
	audit := func() (wrong []string) {
		progress := make(map[string]int)
		_, err := ledger.New(w.store, network).Audit(t.Context(), ledger.AuditOptions{
			Progress: func(what string, _ int) { progress[what]++ },
			Wrong:    func(what string) { wrong = append(wrong, what) },
		})
		require.NoError(t, err)
		require.Positive(t, progress["outputs"])
		require.Positive(t, progress["accounts"])
		return wrong
	}
	require.Empty(t, audit())
	listed := []store.Family{store.FamilyUnspentByTime, store.FamilyUnspentByAmount, store.FamilySpentByTime, store.FamilySpentByAmount}
	for _, family := range append(listed, store.FamilyBalanceEvent, store.FamilyBalanceCheckpoint) {
		for one, err := range store.Rows(t.Context(), w.store, family) {
			require.NoError(t, err)
			stray := bytes.Clone(one.K)
			stray[0] ^= 1 // another time or amount
			for _, pk := range []store.PK{
				{P: one.P, K: stray}, {P: bytes.Repeat([]byte{7}, len(one.P)), K: one.K},
				{P: one.P[:len(one.P)-1], K: one.K}, {P: one.P[:5], K: one.K}, {P: []byte{}, K: one.K}, {P: append(bytes.Clone(one.P), 9), K: one.K},
			} {
				var b, back store.Batch
				b.Put(family, pk, one.V)
				require.NoError(t, w.store.Commit(t.Context(), &b))
				wrong := strings.Join(audit(), "\n")
				require.NotEmpty(t, wrong, "family %s, row %x %x", family, pk.P, pk.K)
				if len(pk.P) != len(one.P) {
					require.Equal(t, fmt.Sprintf("a row of %s has the invalid partition %x", family, pk.P), wrong)
				}
				back.Delete(family, pk)
				require.NoError(t, w.store.Commit(t.Context(), &back))
			}
			break
		}
	}
	require.Empty(t, audit(), "without the rows")
}

// TestAuditOfStrayPairs adds rows that no output has to both lists of an account, so that the lists agree.
func TestAuditOfStrayPairs(t *testing.T) {
	h := newHistory(10, historyOptions{steps: 200, addresses: 4})
	w := newWorld(t, h, store.NewMemory())
	w.finish()
	audit := func() (wrong []string) {
		_, err := ledger.New(w.store, network).Audit(t.Context(), ledger.AuditOptions{Wrong: func(what string) { wrong = append(wrong, what) }})
		require.NoError(t, err)
		return wrong
	}
	for _, lists := range [][2]store.Family{
		{store.FamilyUnspentByTime, store.FamilyUnspentByAmount}, {store.FamilySpentByTime, store.FamilySpentByAmount},
	} {
		var pairs [][2]store.Entry
		for byAmount, err := range store.Rows(t.Context(), w.store, lists[1]) {
			require.NoError(t, err)
			for byTime, err := range store.Rows(t.Context(), w.store, lists[0]) {
				require.NoError(t, err)
				if bytes.Equal(byTime.P, byAmount.P) && bytes.Equal(byTime.K[8:], byAmount.K[8:]) {
					pairs = append(pairs, [2]store.Entry{byTime, byAmount})
				}
			}
		}
		require.NotEmpty(t, pairs)
		for i, pair := range pairs {
			other := pairs[0][0].P // another account
			if bytes.Equal(other, pair[0].P) {
				other = pairs[len(pairs)-1][0].P
			}
			unknown := bytes.Repeat([]byte{7}, len(other))
			for what, stray := range map[string]func(pk store.PK) store.PK{
				"in another account":    func(pk store.PK) store.PK { return store.PK{P: other, K: pk.K} },
				"in an unknown account": func(pk store.PK) store.PK { return store.PK{P: unknown, K: pk.K} },
				"at other keys": func(pk store.PK) store.PK {
					k := bytes.Clone(pk.K)
					k[0] ^= 1 // another time and amount
					return store.PK{P: pk.P, K: k}
				},
				"of an unknown output": func(pk store.PK) store.PK {
					k := bytes.Clone(pk.K)
					k[len(k)-1] ^= 1
					return store.PK{P: pk.P, K: k}
				},
			} {
				var b, back store.Batch
				for n, one := range pair {
					b.Put(lists[n], stray(one.PK), one.V)
					back.Delete(lists[n], stray(one.PK))
				}
				require.NoError(t, w.store.Commit(t.Context(), &b))
				require.NotEmpty(t, audit(), "lists %s, row %x %s", lists, pair[1].K, what)
				require.NoError(t, w.store.Commit(t.Context(), &back))
			}
			if i > 60 {
				break
			}
		}
	}
	require.Empty(t, audit(), "without the rows")
}

// refusing is a store that refuses to list a family in its views.
type refusing struct {
	store.Store
	family store.Family
}

type refusingView struct {
	store.View
	family store.Family
}

func (s *refusing) View(ctx context.Context) (store.View, error) {
	v, err := s.Store.View(ctx)
	return &refusingView{v, s.family}, err
}

func (v *refusingView) Walk(ctx context.Context, family store.Family, after *store.PK, limit int) ([]store.Entry, error) {
	if family == v.family {
		return nil, store.ErrUnavailable
	}
	return v.View.Walk(ctx, family, after, limit)
}

// TestAuditWithoutAnswers requires that rows of a store that does not answer do not count as wrong.
func TestAuditWithoutAnswers(t *testing.T) {
	h := newHistory(11, historyOptions{steps: 100, addresses: 4})
	w := newWorld(t, h, store.NewMemory())
	w.finish()
	for _, family := range []store.Family{store.FamilyOutput, store.FamilyBalanceEvent, store.FamilyBalanceCheckpoint, store.FamilyUnspentByAmount, store.FamilySpentByTime} {
		_, err := ledger.New(&refusing{w.store, family}, network).Audit(t.Context(), ledger.AuditOptions{Wrong: func(what string) { t.Errorf("family %s: %s", family, what) }})
		require.ErrorIs(t, err, store.ErrUnavailable, "family %s", family)
	}
}

// TestAuditOfManyOwners audits groups of many owners as earlier builds stored them: whole for each owner, without a row of
// the group.
func TestAuditOfManyOwners(t *testing.T) {
	h := newHistory(12, historyOptions{steps: 200, addresses: 4})
	w := newWorld(t, h, store.NewMemory())
	w.finish()
	var all []store.Entry
	groups := make(map[string][]byte) // by key
	for one, err := range store.Rows(t.Context(), w.store, store.FamilyOwners) {
		require.NoError(t, err)
		all = append(all, one)
		if len(one.P) == 4+ids.IDLen {
			groups[string(one.K)] = one.V
		}
	}
	require.NotEmpty(t, groups)
	var b store.Batch
	var owner store.PK
	for _, one := range all {
		whole, ok := groups[string(one.K)]
		switch {
		case ok && len(one.P) == 4+ids.IDLen:
			b.Delete(store.FamilyOwners, one.PK)
		case ok:
			b.Put(store.FamilyOwners, one.PK, whole)
			owner = one.PK
		}
	}
	require.NoError(t, w.store.Commit(t.Context(), &b))
	audit := func() (wrong []string) {
		_, err := ledger.New(w.store, network).Audit(t.Context(), ledger.AuditOptions{Wrong: func(what string) { wrong = append(wrong, what) }})
		require.NoError(t, err)
		return wrong
	}
	require.Empty(t, audit())
	var lost store.Batch
	lost.Delete(store.FamilyOwners, owner)
	require.NoError(t, w.store.Commit(t.Context(), &lost))
	require.NotEmpty(t, audit())
}
