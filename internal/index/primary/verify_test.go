package primary_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/api"
	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/formatting"
	"github.com/ava-labs/avalanchego/utils/formatting/address"

	"quorate/internal/index"
	"quorate/internal/index/ledger"
	"quorate/internal/index/primary"
	"quorate/internal/node"
	"quorate/internal/simnet/history"
	"quorate/internal/store"
)

// utxos answers getUTXOs like a node from the true history. The bytes come from a correct ledger.
func (n *testNode) utxos(chain string, params json.RawMessage, right *ledger.Index) (any, error) {
	var args api.GetUTXOsArgs
	if err := json.Unmarshal(params, &args); err != nil {
		return nil, err
	}
	_, _, b, err := address.Parse(args.Addresses[0])
	if err != nil {
		return nil, err
	}
	owner, err := ids.ToShortID(b)
	if err != nil {
		return nil, err
	}
	names := map[string]history.Chain{"P": history.P, "X": history.X, "C": history.C}
	on, from := names[chain], names[chain]
	if args.SourceChain != "" {
		from = names[args.SourceChain]
	}
	var known []ids.ID
	for _, o := range n.Generator().Truth().Unspent(on, owner) {
		if o.Chain == from {
			known = append(known, o.ID)
		}
	}
	reply := api.GetUTXOsReply{UTXOs: []string{}, Encoding: formatting.Hex}
	outputs, err := right.Outputs(context.Background(), known)
	if err != nil {
		return nil, err
	}
	_, now, err := right.Tip(context.Background(), ids.Empty)
	if err != nil {
		return nil, err
	}
	for _, o := range outputs {
		if o == nil {
			return nil, errors.New("the correct ledger is incomplete")
		}
		if o.StakedAt(now) {
			continue
		}
		text, err := formatting.Encode(formatting.Hex, o.Bytes)
		if err != nil {
			return nil, err
		}
		reply.UTXOs = append(reply.UTXOs, text)
	}
	return reply, nil
}

// TestVerify finds nothing wrong in a correct store, and then names damaged rows.
//
//test:plain
func TestVerify(t *testing.T) {
	n := newTestNode(t, 4, 1500)
	require.NoError(t, n.Grow(t.Context(), 1500))
	right := store.NewMemory()
	defer right.Close()
	record(t, n, right)
	n.right = ledger.New(right, networkID)
	client, g := connect(t, n.url)

	fill := func(t *testing.T, keep primary.Keep) (store.Store, *primary.Network) {
		s := store.NewMemory()
		t.Cleanup(func() { _ = s.Close() })
		o := options(n.url, client, g, s)
		o.Keep = keep
		chains, err := primary.New(o)
		require.NoError(t, err)
		runUntil(t, n, chains, g, s)
		return s, chains
	}
	verify := func(t *testing.T, chains *primary.Network) (wrong, unchecked []string) {
		wrong, unchecked, err := verifyAll(t, chains, 60)
		require.NoError(t, err)
		return wrong, unchecked
	}
	for _, keep := range []primary.Keep{primary.KeepNone, primary.KeepNeeded, primary.KeepAll} {
		t.Run("right, kept "+string(keep), func(t *testing.T) {
			_, chains := fill(t, keep)
			wrong, unchecked := verify(t, chains)
			require.Empty(t, wrong)
			require.Empty(t, unchecked)
		})
	}

	s, chains := fill(t, primary.KeepAll)
	nth := func(family store.Family, i int) store.Entry {
		for row, err := range store.Rows(t.Context(), s, family) {
			require.NoError(t, err)
			if i--; i < 0 {
				return row
			}
		}
		t.Fatalf("family %s has too few rows", family)
		return store.Entry{}
	}
	for _, test := range []struct {
		family store.Family
		row    int
		lost   bool
		want   string
	}{
		{store.FamilyContainer, 700, false, "block"},
		{store.FamilyContainer, 300, true, "block"},
		{store.FamilyContainerID, 100, true, "not found by its ID"},
		{store.FamilyOutput, 500, false, "output"},
		{store.FamilyOutput, 501, true, "output"},
		{store.FamilyOutput, 502, true, "output"},
		{store.FamilyUnspentByTime, 20, true, "is missing from list utxo_uns_t"},
		{store.FamilyUnspentByAmount, 30, false, "list utxo_uns_a has different data"},
		{store.FamilyBalanceEvent, 77, false, "account"},
		{store.FamilyBalanceEvent, 78, true, "account"},
		{store.FamilyIndexed, 1, false, "ends with"},
	} {
		t.Run(fmt.Sprintf("%s row %d lost %t", test.family, test.row, test.lost), func(t *testing.T) {
			row := nth(test.family, test.row)
			var b, back store.Batch
			if test.lost {
				b.Delete(test.family, row.PK)
			} else {
				v := append([]byte(nil), row.V...)
				at := len(v) / 2
				if test.family == store.FamilyIndexed {
					at = len(v) - 1
				}
				v[at] ^= 1
				b.Put(test.family, row.PK, v)
			}
			require.NoError(t, s.Commit(t.Context(), &b))
			wrong, _ := verify(t, chains)
			require.NotEmpty(t, wrong, "differences found")
			require.Contains(t, strings.Join(wrong, "\n"), test.want)
			back.Put(test.family, row.PK, row.V)
			require.NoError(t, s.Commit(t.Context(), &back))
		})
	}

	// The index is consistent but belongs to another history.
	t.Run("of another history", func(t *testing.T) {
		other := newTestNode(t, 5, 1500)
		require.NoError(t, other.Grow(t.Context(), 1500))
		elsewhere := store.NewMemory()
		defer elsewhere.Close()
		record(t, other, elsewhere)
		o := options(n.url, client, g, elsewhere)
		chains, err := primary.New(o)
		require.NoError(t, err)
		wrong, unchecked := verify(t, chains)
		if len(wrong) == 0 {
			t.Errorf("got nothing wrong, want the node's blocks to differ (unchecked: %q)", unchecked)
		}
	})

	// An index behind the node is not compared with it and reports so.
	t.Run("behind", func(t *testing.T) {
		require.NoError(t, n.Grow(t.Context(), 20))
		wrong, unchecked := verify(t, chains)
		require.Empty(t, wrong)
		require.NotEmpty(t, unchecked)
	})
}

// verifyAll verifies an index and returns what is reported.
func verifyAll(t *testing.T, chains *primary.Network, addresses int) (wrong, unchecked []string, err error) {
	t.Helper()
	verdict, err := chains.Verify(t.Context(), primary.VerifyOptions{Addresses: addresses}, func(v primary.Verification) {
		switch {
		case v.Wrong != "":
			wrong = append(wrong, v.Wrong)
		case v.Unchecked != "":
			unchecked = append(unchecked, v.Unchecked)
			t.Logf("unchecked: %s", v.Unchecked)
		case v.Summary != "":
			t.Logf("summary: %s", v.Summary)
		}
	})
	require.Equal(t, primary.Verdict{Wrong: len(wrong), Unchecked: len(unchecked)}, verdict)
	return wrong, unchecked, err
}

// partial is a store that refuses some scans and lacks some rows.
type partial struct {
	store.Store
	refuse func(family store.Family, p []byte) error
	lacks  func(family store.Family, pk store.PK) bool
}

func (s *partial) Scan(ctx context.Context, family store.Family, p, lo, hi []byte, dir store.Direction, limit int) ([]store.Row, error) {
	if s.refuse != nil {
		if err := s.refuse(family, p); err != nil {
			return nil, err
		}
	}
	return s.Store.Scan(ctx, family, p, lo, hi, dir, limit)
}

func (s *partial) Get(ctx context.Context, family store.Family, keys []store.PK) ([][]byte, error) {
	values, err := s.Store.Get(ctx, family, keys)
	for i := range values {
		if s.lacks != nil && s.lacks(family, keys[i]) {
			values[i] = nil
		}
	}
	return values, err
}

// TestVerifyWithoutAnswers requires that blocks of a store or node that does not answer do not count as damage.
//
//test:plain
func TestVerifyWithoutAnswers(t *testing.T) {
	n := newTestNode(t, 6, 300)
	require.NoError(t, n.Grow(t.Context(), 300))
	s := &partial{Store: store.NewMemory()}
	defer s.Close()
	client, g := connect(t, n.url)
	o := options(n.url, client, g, s)
	o.Keep = primary.KeepAll
	chains, err := primary.New(o)
	require.NoError(t, err)
	runUntil(t, n, chains, g, s)

	for last := range 2 { // then the scan of the comparison with the node
		t.Run(fmt.Sprintf("the store is away after %d scans", last), func(t *testing.T) {
			scans := 0
			s.refuse = func(family store.Family, _ []byte) error {
				if family != store.FamilyContainer {
					return nil
				}
				if scans++; scans > last {
					return store.ErrUnavailable
				}
				return nil
			}
			defer func() { s.refuse = nil }()
			wrong, _, err := verifyAll(t, chains, 0)
			require.ErrorIs(t, err, store.ErrUnavailable)
			require.Empty(t, wrong)
		})
	}

	t.Run("vertices are missing", func(t *testing.T) {
		s.lacks = func(family store.Family, pk store.PK) bool {
			return family == store.FamilyCursor && strings.HasPrefix(string(pk.P), "vertices/")
		}
		defer func() { s.lacks = nil }()
		chains, err := primary.New(o) // has no cached totals
		require.NoError(t, err)
		wrong, unchecked, err := verifyAll(t, chains, 0)
		require.NoError(t, err)
		require.Empty(t, wrong)
		require.Contains(t, strings.Join(unchecked, "\n"), index.ErrVerticesMissing.Error())
	})
}

// TestVerifyStoredBlocksAfterOthers requires that the first stored blocks are read if earlier ones are not stored.
//
//test:plain
func TestVerifyStoredBlocksAfterOthers(t *testing.T) {
	n := newTestNode(t, 8, 400)
	require.NoError(t, n.Grow(t.Context(), 200))
	s := store.NewMemory()
	defer s.Close()
	client, g := connect(t, n.url)
	o := options(n.url, client, g, s)
	for _, o.Keep = range []primary.Keep{primary.KeepNone, primary.KeepAll} {
		chains, err := primary.New(o)
		require.NoError(t, err)
		runUntil(t, n, chains, g, s)
		require.NoError(t, n.Grow(t.Context(), 100))
	}
	chains, err := primary.New(o)
	require.NoError(t, err)
	from, until, err := index.ContainersUntil(t.Context(), s, networkID, index.CChain)
	require.NoError(t, err)
	require.Positive(t, from)
	require.Greater(t, until, from+2)
	wrong, _, err := verifyAll(t, chains, 0)
	require.NoError(t, err)
	require.Empty(t, wrong)

	var b store.Batch
	for row, err := range store.Rows(t.Context(), s, store.FamilyContainer) {
		require.NoError(t, err)
		if strings.HasPrefix(string(row.P[4:]), index.CChain) {
			b.Delete(store.FamilyContainer, row.PK)
			break
		}
	}
	require.NoError(t, s.Commit(t.Context(), &b))
	wrong, _, err = verifyAll(t, chains, 0)
	require.NoError(t, err)
	require.Len(t, wrong, 1)
	require.Contains(t, wrong[0], fmt.Sprintf("C-Chain block %d: cannot read the stored block", from))
}

// fickle is a node whose lists of outputs change.
type fickle struct {
	primary.Node
	change func(chain, source string, owner ids.ShortID, utxos [][]byte) ([][]byte, error)
}

func (f *fickle) UTXOs(ctx context.Context, chain, source, hrp string, owner ids.ShortID) ([][]byte, error) {
	utxos, err := f.Node.UTXOs(ctx, chain, source, hrp, owner)
	if err != nil {
		return nil, err
	}
	return f.change(chain, source, owner, utxos)
}

// TestVerifyAddresses compares addresses with a node whose answers are incomplete.
//
//test:plain
func TestVerifyAddresses(t *testing.T) {
	n := newTestNode(t, 7, 300)
	require.NoError(t, n.Grow(t.Context(), 300))
	s := store.NewMemory()
	defer s.Close()
	client, g := connect(t, n.url)
	answers := &fickle{Node: client}
	o := options(n.url, client, g, s)
	o.Node = answers
	chains, err := primary.New(o)
	require.NoError(t, err)
	runUntil(t, n, chains, g, s)
	n.right = ledger.New(s, networkID)

	const addresses = 10
	for _, test := range []struct {
		name string
		// short reports whether the node's nth list for one address lacks an output.
		short            func(n int) bool
		wrong, unchecked int
	}{
		{"a node that was behind", func(n int) bool { return n == 1 }, 0, 0},
		{"a node that was behind twice", func(n int) bool { return n <= 2 }, 0, 0},
		{"an output that is missing", func(int) bool { return true }, 2, 0}, // output and balance
	} {
		t.Run(test.name, func(t *testing.T) {
			var owner ids.ShortID
			lists := 0
			answers.change = func(chain, source string, of ids.ShortID, utxos [][]byte) ([][]byte, error) {
				if owner == ids.ShortEmpty && len(utxos) > 0 {
					owner = of
				}
				if of != owner || chain != "P" || source != "P" {
					return utxos, nil
				}
				require.NotEmpty(t, utxos)
				if lists++; test.short(lists) {
					return utxos[1:], nil
				}
				return utxos, nil
			}
			wrong, unchecked, err := verifyAll(t, chains, addresses)
			require.NoError(t, err)
			require.Len(t, wrong, test.wrong)
			require.Len(t, unchecked, test.unchecked)
		})
	}

	// An address that cannot be compared leaves the others to compare.
	for name, test := range map[string]struct {
		failure error
		calls   int
	}{
		"too many outputs": {fmt.Errorf("%w: more than 65536 outputs", node.ErrMalformed), 1},
		"refused":          {&node.RPCError{Method: "avm.getUTXOs", Code: -32000, Message: "too many"}, 1},
		"not reached":      {node.ErrUnavailable, 20},
	} {
		t.Run(name, func(t *testing.T) {
			var first ids.ShortID
			asked, calls := make(map[ids.ShortID]bool), 0
			answers.change = func(_, _ string, of ids.ShortID, utxos [][]byte) ([][]byte, error) {
				if len(asked) == 0 {
					first = of
				}
				if asked[of] = true; of == first {
					calls++
					return nil, test.failure
				}
				return utxos, nil
			}
			wrong, unchecked, err := verifyAll(t, chains, addresses)
			require.NoError(t, err)
			require.Empty(t, wrong)
			require.Len(t, unchecked, 1)
			require.Contains(t, unchecked[0], fmt.Sprintf("balances of 1 of %d addresses: address %s: ", addresses, first))
			require.Len(t, asked, addresses)
			require.Equal(t, test.calls, calls)
		})
	}
	t.Run("none can be reached", func(t *testing.T) {
		asked := make(map[ids.ShortID]bool)
		answers.change = func(_, _ string, of ids.ShortID, _ [][]byte) ([][]byte, error) {
			asked[of] = true
			return nil, node.ErrUnavailable
		}
		_, unchecked, err := verifyAll(t, chains, addresses)
		require.NoError(t, err)
		require.Len(t, unchecked, 1)
		require.Contains(t, unchecked[0], fmt.Sprintf("balances of %d of %d addresses: ", addresses, addresses))
		require.Len(t, asked, 3, "the others would take as long")
	})

	t.Run("a difference before an outage", func(t *testing.T) {
		var first ids.ShortID
		lists := 0
		answers.change = func(chain, source string, of ids.ShortID, utxos [][]byte) ([][]byte, error) {
			if first == ids.ShortEmpty && len(utxos) > 0 && chain == "P" && source == "P" {
				first = of
			}
			if of != first || chain != "P" || source != "P" {
				return utxos, nil
			}
			if lists++; lists > 2 {
				return nil, node.ErrUnavailable
			}
			return utxos[1:], nil
		}
		wrong, unchecked, err := verifyAll(t, chains, addresses)
		require.NoError(t, err)
		require.Empty(t, wrong)
		require.Len(t, unchecked, 1)
		require.Contains(t, unchecked[0], "found 2 times instead of 3: ")
	})
}
