package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/codec"
	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/vms/avm/fxs"
	xtxs "github.com/ava-labs/avalanchego/vms/avm/txs"
	"github.com/ava-labs/avalanchego/vms/components/avax"
	"github.com/ava-labs/avalanchego/vms/components/verify"
	"github.com/ava-labs/avalanchego/vms/platformvm/stakeable"
	ptxs "github.com/ava-labs/avalanchego/vms/platformvm/txs"
	"github.com/ava-labs/avalanchego/vms/secp256k1fx"

	chain "quorate/internal/chain/ledger"
	"quorate/internal/index/ledger"
	"quorate/internal/store"
)

// made returns the output of a transaction.
func made(txID ids.ID, index uint32, o chain.Output) chain.Output {
	o.TxID, o.Index = txID, index
	o.ID = (&avax.UTXOID{TxID: txID, OutputIndex: index}).InputID()
	return o
}

// apply commits a block of the P-Chain.
func apply(t *testing.T, s store.Store, projection *ledger.Projection, b *chain.Block) {
	t.Helper()
	var batch store.Batch
	require.NoError(t, projection.Apply(t.Context(), s, b, &batch))
	require.NoError(t, s.Commit(t.Context(), &batch))
}

func TestApplyErrors(t *testing.T) {
	s := store.NewMemory()
	at := time.Unix(1000, 0)
	projection := ledger.NewProjection(network, pChain)
	apply(t, s, projection, &chain.Block{Time: at})
	for name, test := range map[string]struct {
		block chain.Block
		want  error
	}{
		"another chain": {chain.Block{ChainID: xChain, Height: 1, Time: at}, ledger.ErrChain},
		"before":        {chain.Block{Height: 1, Time: at.Add(-time.Second)}, ledger.ErrTime},
		"input": {chain.Block{Height: 1, Time: at, Txs: []chain.Tx{{
			Consumed: []chain.Input{{OutputID: ids.ID{1}}},
		}}}, ledger.ErrMissing},
		"settlement": {chain.Block{Height: 1, Time: at, Txs: []chain.Tx{{
			Settled: &chain.Settlement{StakingTxID: ids.ID{1}},
		}}}, ledger.ErrMissing},
		"delegation": {chain.Block{Height: 1, Time: at, Txs: []chain.Tx{{
			Staker: &chain.Staker{Delegator: true, Start: at, End: at.Add(time.Hour)},
		}}}, ledger.ErrMissing},
	} {
		for _, projection := range []*ledger.Projection{projection, ledger.NewProjection(network, pChain)} {
			var batch store.Batch
			require.ErrorIs(t, projection.Apply(t.Context(), s, &test.block, &batch), test.want, name)
		}
	}
}

func TestEmptyRecord(t *testing.T) {
	r := ledger.New(store.NewMemory(), network)
	_, _, err := r.Tip(t.Context(), pChain)
	require.ErrorIs(t, err, ledger.ErrUnknownChain)
	_, _, err = r.Balances(t.Context(), pChain, []ids.ShortID{{1}}, time.Time{})
	require.ErrorIs(t, err, ledger.ErrUnknownChain)
	_, err = r.UTXOs(t.Context(), ledger.OutputQuery{ChainID: pChain, Limit: 1})
	require.ErrorIs(t, err, ledger.ErrUnknownChain)
	_, err = r.ActiveStakings(t.Context(), ledger.StakingQuery{Limit: 1})
	require.ErrorIs(t, err, ledger.ErrUnknownChain)
	_, err = r.Delegations(t.Context(), ledger.DelegationQuery{Limit: 1})
	require.ErrorIs(t, err, ledger.ErrUnknownChain)
	assets, err := r.Assets(t.Context(), []ids.ID{{1}})
	require.NoError(t, err)
	require.Equal(t, []*chain.Asset{nil}, assets)
	outputs, err := r.Outputs(t.Context(), []ids.ID{{1}})
	require.NoError(t, err)
	require.Equal(t, []*ledger.Output{nil}, outputs)
	staking, err := r.Staking(t.Context(), ids.ID{1})
	require.NoError(t, err)
	require.Nil(t, staking)
}

// TestUTXOBytes compares with the library's codecs. Bytes that follow from the other fields are not stored and are
// restored on read.
func TestUTXOBytes(t *testing.T) {
	parser, err := xtxs.NewParser([]fxs.Fx{&secp256k1fx.Fx{}})
	require.NoError(t, err)
	owners := secp256k1fx.OutputOwners{Locktime: 5, Threshold: 2, Addrs: []ids.ShortID{{1}, {2}}}
	transfer := &secp256k1fx.TransferOutput{Amt: 1 << 63, OutputOwners: owners}
	for name, test := range map[string]struct {
		codec codec.Manager
		out   verify.State
		tell  bool // bytes follow from the other fields
	}{
		"P":           {ptxs.Codec, transfer, true},
		"P stakeable": {ptxs.Codec, &stakeable.LockOut{Locktime: 77, TransferableOut: transfer}, true},
		"X":           {parser.Codec(), transfer, true},
		"X mint":      {parser.Codec(), &secp256k1fx.MintOutput{OutputOwners: owners}, false},
	} {
		t.Run(name, func(t *testing.T) {
			utxo := &avax.UTXO{UTXOID: avax.UTXOID{TxID: ids.ID{7}, OutputIndex: 3}, Asset: avax.Asset{ID: avaxID}, Out: test.out}
			want, err := chain.OutputOf(test.codec, utxo, chain.Ordinary, pChain)
			require.NoError(t, err)
			s := store.NewMemory()
			apply(t, s, ledger.NewProjection(network, pChain), &chain.Block{Time: time.Unix(9, 0), Txs: []chain.Tx{{ID: ids.ID{7}, Made: []chain.Output{want}}}})
			got, err := ledger.New(s, network).Outputs(t.Context(), []ids.ID{want.ID})
			require.NoError(t, err)
			require.Equal(t, want, got[0].Output)
			size := 0
			records, err := s.Walk(t.Context(), store.FamilyOutput, nil, 10)
			require.NoError(t, err)
			for _, r := range records {
				size += len(r.V)
			}
			require.Equal(t, test.tell, size < len(want.Bytes)+32, "the row has %d bytes, the UTXO %d", size, len(want.Bytes))
		})
	}
}

// TestManyOwners makes an output with as many owners as fit in a transaction. What is stored grows with the number of owners, not
// with its square.
func TestManyOwners(t *testing.T) {
	const owners = 3_200
	addresses := make([]ids.ShortID, owners)
	for i := range addresses {
		addresses[i] = ids.ShortID{1, byte(i >> 8), byte(i)}
	}
	one := func(n byte, addresses []ids.ShortID) chain.Output {
		o := chain.Output{Kind: chain.Transfer, Role: chain.Ordinary, AssetID: avaxID, Amount: uint64(n), DestinationID: xChain, Threshold: 1, ID: ids.ID{n}, TxID: ids.ID{7}, Addresses: addresses}
		o.Bytes = o.TransferBytes()
		return o
	}
	large, small := one(1, addresses), one(2, addresses[:2])
	block := &chain.Block{ChainID: xChain, Time: time.Unix(9, 0), Txs: []chain.Tx{{ID: ids.ID{7}, Made: []chain.Output{large, small}}}}
	s := store.NewMemory()
	var batch store.Batch
	require.NoError(t, ledger.NewProjection(network, xChain).Apply(t.Context(), s, block, &batch))
	require.Less(t, batch.Bytes(), 1000*owners)
	require.NoError(t, s.Commit(t.Context(), &batch))

	index := ledger.New(s, network)
	for _, of := range []struct {
		address ids.ShortID
		want    []chain.Output
	}{{addresses[0], []chain.Output{large, small}}, {addresses[owners-1], []chain.Output{large}}} {
		owned, err := index.Owned(t.Context(), ledger.OwnedQuery{ChainID: xChain, SourceID: xChain, Address: of.address, Limit: 5})
		require.NoError(t, err)
		page, err := index.UTXOs(t.Context(), ledger.OutputQuery{ChainID: xChain, Addresses: []ids.ShortID{of.address}, Limit: 5})
		require.NoError(t, err)
		require.Len(t, owned, len(of.want))
		require.Len(t, page.Outputs, len(of.want))
		for i, want := range of.want {
			require.Equal(t, ledger.Owned{ID: want.ID, Bytes: want.Bytes}, owned[i])
			require.Contains(t, []ids.ID{page.Outputs[0].ID, page.Outputs[len(page.Outputs)-1].ID}, want.ID)
		}
	}
	_, err := index.Audit(t.Context(), ledger.AuditOptions{Wrong: func(what string) { t.Error(what) }})
	require.NoError(t, err)
}

// TestPagesOfManyOwners reads pages that end early because their outputs have many owners.
func TestPagesOfManyOwners(t *testing.T) {
	addresses := make([]ids.ShortID, 3_200)
	for i := range addresses {
		addresses[i] = ids.ShortID{1, byte(i >> 8), byte(i)}
	}
	tx := chain.Tx{ID: ids.ID{7}}
	for i := range byte(40) {
		tx.Made = append(tx.Made, chain.Output{Kind: chain.Transfer, Role: chain.Ordinary, AssetID: avaxID, Amount: 1, DestinationID: xChain, Threshold: 1, ID: ids.ID{i}, TxID: tx.ID, Addresses: addresses})
	}
	s := store.NewMemory()
	apply(t, s, ledger.NewProjection(network, xChain), &chain.Block{ChainID: xChain, Time: time.Unix(9, 0), Txs: []chain.Tx{tx}})
	q := ledger.OutputQuery{ChainID: xChain, Addresses: addresses[5:6], Limit: 30}
	var sizes []int
	found := make(map[ids.ID]bool)
	for {
		page, err := ledger.New(s, network).UTXOs(t.Context(), q)
		require.NoError(t, err)
		sizes = append(sizes, len(page.Outputs))
		for _, o := range page.Outputs {
			found[o.ID] = true
		}
		if q.After = page.Next; q.After == nil {
			break
		}
	}
	require.Equal(t, []int{16, 16, 8}, sizes)
	require.Len(t, found, 40)
}

// TestSettledLists requires that no row of a settled stake remains in the lists of active ones.
func TestSettledLists(t *testing.T) {
	h := newHistory(5, historyOptions{steps: 400, addresses: 5})
	w := newWorld(t, h, store.NewMemory())
	w.finish()
	open, rows := 0, 0
	for _, s := range h.stakes {
		if !s.settled {
			open += len(s.involved)
		}
	}
	for after := (*store.PK)(nil); ; {
		page, err := w.store.Walk(t.Context(), store.FamilyStakingByAddress, after, 100)
		require.NoError(t, err)
		if rows += len(page); len(page) == 0 {
			break
		}
		after = &page[len(page)-1].PK
	}
	require.NotZero(t, open)
	require.Equal(t, open, rows)
}

func TestDelegationRewards(t *testing.T) {
	for name, test := range map[string]struct {
		d          ledger.Delegation
		gross, net uint64
	}{
		"unknown":             {ledger.Delegation{Shares: 20_000}, 0, 0},
		"to be expected":      {ledger.Delegation{Shares: 20_000, PotentialReward: 1000}, 1000, 980},
		"refused":             {ledger.Delegation{Settled: true, Shares: 20_000, PotentialReward: 1000}, 0, 0},
		"commission with it":  {ledger.Delegation{Settled: true, Rewarded: true, Shares: 20_000, Reward: 980, Commission: 20}, 1000, 980},
		"commission deferred": {ledger.Delegation{Settled: true, Rewarded: true, Shares: 20_000, Reward: 980, PotentialReward: 1001}, 1001, 980},
		"from net":            {ledger.Delegation{Settled: true, Rewarded: true, Shares: 20_000, Reward: 980}, 1000, 980},
		"from net, rounded":   {ledger.Delegation{Settled: true, Rewarded: true, Shares: 333_333, Reward: 7}, 11, 7},
		"all commission":      {ledger.Delegation{Settled: true, Rewarded: true, Shares: 1_000_000, PotentialReward: 1000}, 1000, 0},
		"all, amount unknown": {ledger.Delegation{Settled: true, Rewarded: true, Shares: 1_000_000}, 0, 0},
		"very large":          {ledger.Delegation{Settled: true, Rewarded: true, Shares: 999_999, Reward: 1 << 60}, 1 << 60, 1 << 60},
	} {
		gross, net := test.d.Rewards()
		require.Equal(t, []uint64{test.gross, test.net}, []uint64{gross, net}, name)
	}
}

// away is a store that fails for a while.
type away struct {
	store.Store
	failing atomic.Bool
}

var errAway = errors.New("away")

func (s *away) Scan(ctx context.Context, f store.Family, p, lo, hi []byte, dir store.Direction, limit int) ([]store.Row, error) {
	if s.failing.Load() {
		return nil, errAway
	}
	return s.Store.Scan(ctx, f, p, lo, hi, dir, limit)
}

// TestMatcherRun wakes a matcher, makes its store fail, and lets another matcher take over.
func TestMatcherRun(t *testing.T) {
	h := newHistory(4, historyOptions{steps: 300, addresses: 3, exports: true})
	plain := newWorld(t, h, store.NewMemory())
	plain.finish()
	synctest.Test(t, func(t *testing.T) {
		s := &away{Store: store.NewMemory()}
		w := newWorld(t, h, s)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- w.matcher.Run(ctx) }()
		for !w.done() {
			for _, c := range chains {
				w.advance(c, 20)
				w.matcher.Wake()
			}
			synctest.Wait()
		}
		require.Equal(t, rows(t, plain.store), rows(t, s))
		s.failing.Store(true)
		w.matcher.Wake()
		synctest.Wait()
		begun := time.Now()
		require.ErrorIs(t, w.matcher.Failure().Err, errAway)
		require.Equal(t, begun, w.matcher.Failure().Since)
		time.Sleep(time.Minute)
		require.Equal(t, begun, w.matcher.Failure().Since, "since when, however often it was tried")
		s.failing.Store(false)
		time.Sleep(time.Minute)
		require.Nil(t, w.matcher.Failure())
		cancel()
		require.NoError(t, <-ended)

		// Another matcher takes over. The first one's next commit is rejected.
		go func() { ended <- w.matcher.Run(t.Context()) }()
		synctest.Wait()
		require.NoError(t, ledger.NewMatcher(s, network, nil).Settle(t.Context()))
		again := newWorld(t, h, s)
		again.at = w.at
		b := &chain.Block{ChainID: cChain, Height: uint64(len(h.blocks[cChain])), Time: h.blocks[cChain][len(h.blocks[cChain])-1].Time}
		o := made(ids.ID{1}, 0, chain.Output{
			Kind: chain.Transfer, Role: chain.Exported, AssetID: avaxID, Amount: 5, Threshold: 1,
			Addresses: []ids.ShortID{{1}}, DestinationID: xChain,
		})
		b.Txs = []chain.Tx{{ID: ids.ID{1}, Made: []chain.Output{o}}}
		apply(t, s, again.projections[cChain], b)
		w.matcher.Wake()
		require.ErrorIs(t, <-ended, store.ErrFenced)
	})
}

// TestLimits queries an address with more accounts, and with more unmatched exports, than one query may read.
//
//test:plain
func TestLimits(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a second or two")
	}
	s := store.NewMemory()
	r := ledger.New(s, network)
	owners := []ids.ShortID{{1}}
	query := ledger.OutputQuery{ChainID: xChain, Addresses: owners, Limit: 10}
	block := func(height uint64, n int, output func(i int) chain.Output) *chain.Block {
		b := &chain.Block{ChainID: xChain, Height: height, Time: time.Unix(1000, 0), Txs: []chain.Tx{{ID: ids.ID{byte(height), 1}}}}
		for i := range n {
			o := output(i)
			o.Kind, o.Amount, o.Threshold, o.Addresses = chain.Transfer, 1, 1, owners
			b.Txs[0].Made = append(b.Txs[0].Made, made(b.Txs[0].ID, uint32(i), o))
		}
		return b
	}
	projection := ledger.NewProjection(network, xChain)
	asset := func(i int) chain.Output {
		return chain.Output{Role: chain.Ordinary, AssetID: ids.Empty.Prefix(uint64(i)), DestinationID: xChain}
	}
	apply(t, s, projection, block(0, 20_000, asset))
	balances, _, err := r.Balances(t.Context(), xChain, owners, time.Time{})
	require.NoError(t, err)
	require.Len(t, balances, 20_000)
	page, err := r.UTXOs(t.Context(), query)
	require.NoError(t, err)
	require.Len(t, page.Outputs, 10)
	apply(t, s, projection, block(1, 1, func(int) chain.Output { return asset(20_000) }))
	_, _, err = r.Balances(t.Context(), xChain, owners, time.Time{})
	require.ErrorIs(t, err, ledger.ErrTooMany)
	_, err = r.UTXOs(t.Context(), query)
	require.ErrorIs(t, err, ledger.ErrTooMany)

	owners = []ids.ShortID{{2}}
	apply(t, s, projection, block(2, 100_001, func(int) chain.Output {
		return chain.Output{Role: chain.Exported, AssetID: avaxID, DestinationID: pChain}
	}))
	_, _, err = r.Balances(t.Context(), xChain, owners, time.Time{})
	require.ErrorIs(t, err, ledger.ErrBehind)
	matcher := ledger.NewMatcher(s, network, nil)
	behind, err := matcher.Behind(t.Context())
	require.NoError(t, err)
	require.True(t, behind)
	require.NoError(t, matcher.Settle(t.Context()))
	behind, err = matcher.Behind(t.Context())
	require.NoError(t, err)
	require.False(t, behind)
	balances, _, err = r.Balances(t.Context(), xChain, owners, time.Time{})
	require.NoError(t, err)
	require.Len(t, balances, 1)
	require.Equal(t, int64(100_001), balances[0].Outputs)
}

// TestBeforeTheFirstBlock indexes a chain with transactions from before its blocks.
func TestBeforeTheFirstBlock(t *testing.T) {
	s, at := store.NewMemory(), time.Unix(10_000, 0).UTC()
	alice := ids.ShortID{1}
	projection := ledger.NewProjection(network, xChain)
	const before = 3
	block := func(height uint64, at time.Time, txs ...chain.Tx) *chain.Block {
		return &chain.Block{ChainID: xChain, Height: height, Before: before, ID: ids.ID{byte(height)}, Time: at, Cortina: time.Unix(10_009, 0), Txs: txs}
	}
	pays := func(id byte, consumed ...chain.Output) chain.Tx {
		tx := chain.Tx{ID: ids.ID{id}, Kind: "BaseTx", Made: []chain.Output{made(ids.ID{id}, 0, chain.Output{
			Kind: chain.Transfer, Role: chain.Ordinary, AssetID: avaxID, Amount: uint64(id), Addresses: []ids.ShortID{alice}, Threshold: 1, DestinationID: xChain,
		})}}
		for _, o := range consumed {
			tx.Consumed = append(tx.Consumed, chain.Input{OutputID: o.ID, SourceChainID: xChain, AssetID: avaxID, Amount: o.Amount})
		}
		return tx
	}
	first := pays(1)
	second := pays(2, first.Made[0])
	third := pays(3, second.Made[0])
	record := ledger.New(s, network)
	for _, b := range []*chain.Block{
		block(0, at), block(1, at.Add(9*time.Second), first), block(2, at.Add(9*time.Second), second), block(3, at.Add(9*time.Second)), block(4, at.Add(30*time.Second), third),
	} {
		if b.Height == 2 || b.Height == 4 {
			projection = ledger.NewProjection(network, xChain) // like after a restart
		}
		apply(t, s, projection, b)
		height, _, err := record.Tip(t.Context(), xChain)
		require.NoError(t, err)
		require.Equal(t, b.Height-min(b.Height, before), height, "number of the block at %d", b.Height)
	}
	page, err := record.UTXOs(t.Context(), ledger.OutputQuery{ChainID: xChain, Addresses: []ids.ShortID{alice}, IncludeSpent: true, Ascending: true, Limit: 10})
	require.NoError(t, err)
	got := make(map[uint64][]any)
	for _, o := range page.Outputs {
		got[o.Amount] = []any{o.Height, o.Time}
		if o.Spent != nil {
			got[o.Amount] = append(got[o.Amount], o.Spent.Height, o.Spent.Time)
		}
	}
	none, then, later := uint64(0), at.Add(9*time.Second), at.Add(30*time.Second)
	require.Equal(t, map[uint64][]any{
		1: {none, then, none, then},
		2: {none, then, uint64(1), later},
		3: {uint64(1), later},
	}, got)
	outputs, err := record.Outputs(t.Context(), []ids.ID{second.Made[0].ID})
	require.NoError(t, err)
	require.Equal(t, []uint64{0, 1}, []uint64{outputs[0].Height, outputs[0].Spent.Height})

	var batch store.Batch
	require.ErrorIs(t, ledger.NewProjection(network, xChain).Apply(t.Context(), s, block(5, at), &batch), ledger.ErrTime, "block times must not decrease")
}

// TestBalancesOfBeforeCortinaAreShort indexes an address with thousands of events in the one second that all pre-Cortina
// transactions share. A balance must read few events since the last checkpoint, and each checkpoint must be the sum of
// the events before it.
func TestBalancesOfBeforeCortinaAreShort(t *testing.T) {
	const early = 3000
	s, cortina := store.NewMemory(), time.Unix(20_000, 0).UTC()
	alice := ids.ShortID{1}
	pays := func(n uint64, consumed ...chain.Output) chain.Tx {
		id := ids.Empty.Prefix(n)
		tx := chain.Tx{ID: id, Kind: "BaseTx", Made: []chain.Output{made(id, 0, chain.Output{
			Kind: chain.Transfer, Role: chain.Ordinary, AssetID: avaxID, Amount: n, Addresses: []ids.ShortID{alice}, Threshold: 1, DestinationID: xChain,
		})}}
		for _, o := range consumed {
			tx.Consumed = append(tx.Consumed, chain.Input{OutputID: o.ID, SourceChainID: xChain, AssetID: avaxID, Amount: o.Amount})
		}
		return tx
	}
	projection := ledger.NewProjection(network, xChain)
	block := func(height uint64, at time.Time, txs ...chain.Tx) {
		t.Helper()
		apply(t, s, projection, &chain.Block{ChainID: xChain, Height: height, Before: early + 1, ID: ids.Empty.Prefix(height, 1), Time: at, Cortina: cortina, Txs: txs})
	}
	first := pays(1 << 20)
	block(0, time.Unix(10_000, 0), first)
	sum, count := uint64(1<<20), int64(1)
	var all []chain.Output
	for n := uint64(1); n <= early; n++ {
		var consumed []chain.Output
		switch {
		case n%3 == 0:
			consumed = all[len(all)-1:]
		case n == 1000: // an output of the genesis
			consumed = first.Made
		}
		tx := pays(n, consumed...)
		all = append(all, tx.Made...)
		sum, count = sum+n, count+1
		for _, o := range consumed {
			sum, count = sum-o.Amount, count-1
		}
		block(n, cortina, tx)
	}
	block(early+1, cortina)
	block(early+2, cortina, pays(1<<21, all[0])) // in the same second, in a block
	sum += 1<<21 - all[0].Amount
	balances, _, err := ledger.New(s, network).Balances(t.Context(), xChain, []ids.ShortID{alice}, time.Time{})
	require.NoError(t, err)
	require.Len(t, balances, 1)
	require.Equal(t, []any{fmt.Sprint(sum), count}, []any{balances[0].Amount.String(), balances[0].Outputs})

	var last store.PK
	checkpoints := 0
	for row, err := range store.Rows(t.Context(), s, store.FamilyBalanceCheckpoint) {
		require.NoError(t, err)
		last, checkpoints = row.PK, checkpoints+1
	}
	require.Greater(t, checkpoints, 5)
	since, err := s.Scan(t.Context(), store.FamilyBalanceEvent, last.P, last.K, nil, store.Ascending, early)
	require.NoError(t, err)
	require.Less(t, len(since), early/2, "events since the last checkpoint")
	_, err = ledger.New(s, network).Audit(t.Context(), ledger.AuditOptions{Wrong: func(what string) { t.Error(what) }})
	require.NoError(t, err)
}
