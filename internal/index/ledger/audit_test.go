package ledger_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

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
