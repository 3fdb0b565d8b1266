package archive_test

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"

	"quorate/internal/chain/genesis"
	"quorate/internal/chain/ledger"
	"quorate/internal/chain/pchain"
	"quorate/internal/chain/xchain"
	"quorate/internal/index"
	"quorate/internal/index/archive"
	"quorate/internal/index/container"
	"quorate/internal/index/lookup"
	"quorate/internal/simnet/history"
	"quorate/internal/store"
)

const (
	network = 12345
	early   = 60
)

// stored is a simulated history with its containers in a store.
type stored struct {
	store   store.Store
	chains  map[history.Chain]*archive.Chain
	blocks  map[history.Chain][]*history.Block
	truth   *history.Truth
	genesis *genesis.Genesis
	early   [][]byte
}

func newStored(t *testing.T) *stored {
	t.Helper()
	g, err := history.New(history.Options{Seed: 7, NetworkID: network, Txs: 900, EarlyTxs: early, Record: true})
	require.NoError(t, err)
	sealer, err := history.NewSealer(g)
	require.NoError(t, err)
	s := &stored{
		store: store.NewMemory(), blocks: make(map[history.Chain][]*history.Block), chains: make(map[history.Chain]*archive.Chain), truth: g.Truth(),
	}
	t.Cleanup(func() { require.NoError(t, s.store.Close()) })
	for g.Txs() < 900 || g.Pending() > 0 {
		b, err := g.Next()
		require.NoError(t, err)
		require.NoError(t, sealer.Seal(b))
		if b.Early {
			for _, tx := range b.Txs {
				s.early = append(s.early, tx.Bytes)
			}
			continue
		}
		s.blocks[b.Chain] = append(s.blocks[b.Chain], b)
	}
	s.genesis, err = genesis.Of(network, s.blocks[history.P][0].ID)
	require.NoError(t, err)
	s.write(t)
	before := func(context.Context) (uint64, error) { return s.before(), nil }
	for _, o := range []archive.Options{
		{Name: index.PChain, Genesis: s.genesis.PTxs}, {Name: index.XChain, ID: g.ChainID(history.X), Genesis: s.genesis.XTxs, Before: before, AVAXAssetID: s.genesis.AVAXAssetID},
	} {
		o.Viewer, o.NetworkID, o.Begun = s.store, network, s.genesis.Time
		c, err := archive.New(o)
		require.NoError(t, err)
		if o.Name == index.PChain {
			s.chains[history.P] = c
		} else {
			s.chains[history.X] = c
		}
	}
	return s
}

// before is the number of containers before the X-Chain's block 0: the genesis, and the early transactions.
func (s *stored) before() uint64 { return 1 + uint64(len(s.early)) }

func (s *stored) write(t *testing.T) {
	t.Helper()
	var batch store.Batch
	x, err := xchain.NewDecoder(s.genesis.XChainID, s.genesis.X)
	require.NoError(t, err)
	onP, onX := lookup.PChain(network), lookup.XChain(network, s.genesis.AVAXAssetID)
	pWriter := container.NewWriter(container.Chain{NetworkID: network, Name: index.PChain})
	xWriter := container.NewWriter(container.Chain{NetworkID: network, Name: index.XChain})
	put := func(w *container.Writer, height uint64, b []byte) {
		w.Put(&batch, &container.Container{Height: height, Form: container.Bare, Bytes: b})
	}
	bytes := func(b *history.Block) []byte {
		if b.Container != nil {
			return b.Container
		}
		return b.Bytes
	}
	for _, b := range s.blocks[history.P] {
		put(pWriter, b.Height, bytes(b))
		parsed, err := pchain.ParseBlock(bytes(b))
		require.NoError(t, err)
		require.NoError(t, onP.Apply(t.Context(), s.store, parsed, &batch))
	}
	for i, b := range s.early {
		put(xWriter, 1+uint64(i), b)
		parsed, err := x.ParseTx(b, uint64(i), xchain.PreCortina{Txs: uint64(len(s.early))})
		require.NoError(t, err)
		require.NoError(t, onX.Apply(t.Context(), s.store, parsed, &batch))
	}
	for _, b := range s.blocks[history.X] {
		put(xWriter, s.before()+b.Height, bytes(b))
		parsed, err := x.ParseBlock(bytes(b))
		require.NoError(t, err)
		parsed.Place = s.before() + b.Height
		require.NoError(t, onX.Apply(t.Context(), s.store, parsed, &batch))
	}
	for name, next := range map[string]int{index.PChain: len(s.blocks[history.P]), index.XChain: int(s.before()) + len(s.blocks[history.X])} {
		batch.Move(index.Cursor(network, name, index.Containers), store.Cursor{}, store.Cursor{Next: uint64(next)})
	}
	require.NoError(t, s.store.Commit(t.Context(), &batch))
}

// Each block, by number and by ID, is the one that the generator made.
func TestBlocks(t *testing.T) {
	s := newStored(t)
	for chain, all := range s.blocks {
		c := s.chains[chain]
		if c == nil {
			continue
		}
		types := make(map[string]bool)
		for _, want := range all {
			got, err := c.Block(t.Context(), want.Height)
			require.NoError(t, err)
			require.Equal(t, []any{want.ID, want.ParentID, want.Time.UTC(), len(want.Bytes)}, []any{got.ID, got.ParentID, got.Time, got.Size}, "%s %d", chain, want.Height)
			var txs []ids.ID
			for _, tx := range want.Txs {
				txs = append(txs, tx.ID)
			}
			if want.Height > 0 {
				require.Equal(t, txs, got.TxIDs, "%s %d", chain, want.Height)
			}
			if want.ContainerID != want.ID && want.Height > 0 {
				require.Equal(t, want.ContainerID, got.Envelope.ID)
			}
			again, err := c.BlockByID(t.Context(), want.ID)
			require.NoError(t, err)
			require.Equal(t, want.Height, again.Number)
			types[got.Type] = true
		}
		if chain == history.P {
			require.Len(t, types, 9, "all types of blocks: %v", types)
		} else {
			require.Len(t, types, 1)
		}
		_, err := c.Block(t.Context(), uint64(len(all)))
		require.ErrorIs(t, err, archive.ErrUnknown)
		_, err = c.BlockByID(t.Context(), ids.GenerateTestID())
		require.ErrorIs(t, err, archive.ErrUnknown)
	}
}

// Lists of blocks in all ranges of time, in pages of different sizes.
func TestBlocksByTime(t *testing.T) {
	s := newStored(t)
	for _, chain := range []history.Chain{history.P, history.X} {
		all, c := s.blocks[chain], s.chains[chain]
		middle, late := all[len(all)/3].Time, all[len(all)*2/3].Time
		for _, q := range []archive.Query{
			{}, {After: middle}, {Before: late}, {After: middle, Before: late}, {After: middle.Add(-time.Second), Before: middle.Add(time.Second)},
			{After: late, Before: middle}, {After: all[len(all)-1].Time}, {Before: all[0].Time},
		} {
			var want, got []uint64
			for _, b := range slices.Backward(all) {
				if (q.After.IsZero() || b.Time.After(q.After)) && (q.Before.IsZero() || b.Time.Before(q.Before)) {
					want = append(want, b.Height)
				}
			}
			q.Tip, q.Limit = uint64(len(all)-1), 1+len(want)/3
			for more := true; more; {
				var page []*archive.Block
				var err error
				page, more, err = c.Blocks(t.Context(), q)
				require.NoError(t, err)
				for _, b := range page {
					got = append(got, b.Number)
				}
				if more {
					q.Below = &page[len(page)-1].Number
				}
			}
			require.Equal(t, want, got, "%s %+v", chain, q)
		}
	}
}

// TestTipBeyondTheStore reads from a store that lags behind the tip, as a standby does. The lists begin with the last block
// that is stored.
func TestTipBeyondTheStore(t *testing.T) {
	s := newStored(t)
	for _, chain := range []history.Chain{history.P, history.X} {
		all, c := s.blocks[chain], s.chains[chain]
		tip := uint64(len(all)) + 2
		page, more, err := c.Blocks(t.Context(), archive.Query{Tip: tip, Limit: 3})
		require.NoError(t, err)
		require.True(t, more)
		require.Len(t, page, 3)
		require.Equal(t, all[len(all)-1].ID, page[0].ID)
		_, err = c.Txs(t.Context(), archive.TxQuery{Tip: tip, Limit: 3})
		require.NoError(t, err)
		_, err = c.Block(t.Context(), tip)
		require.ErrorIs(t, err, archive.ErrUnknown)
	}
}

// cut makes tip the last block of a chain in the store, like in a standby that lags.
func (s *stored) cut(t *testing.T, chain history.Chain, tip uint64) {
	t.Helper()
	name, next := index.PChain, tip+1
	if chain == history.X {
		name, next = index.XChain, s.before()+tip+1
	}
	name = index.Cursor(network, name, index.Containers)
	at, err := store.ReadCursor(t.Context(), s.store, name)
	require.NoError(t, err)
	var batch store.Batch
	batch.Move(name, at, store.Cursor{Next: next})
	require.NoError(t, s.store.Commit(t.Context(), &batch))
}

// TestPagesOfStandbys reads the first page from a whole store, and the others from one that lacks up to three blocks. A
// page without the block of its position is refused; then the whole store is read.
func TestPagesOfStandbys(t *testing.T) {
	s := newStored(t)
	for _, chain := range []history.Chain{history.P, history.X} {
		c, last := s.chains[chain], uint64(len(s.blocks[chain])-1)
		whole, err := c.Txs(t.Context(), archive.TxQuery{Tip: last, Limit: 8})
		require.NoError(t, err)
		var want []ids.ID
		for _, tx := range whole.Txs {
			want = append(want, tx.ID)
		}
		refused := 0
		for lag := range uint64(3) {
			var got []ids.ID
			for q := (archive.TxQuery{Tip: last, Limit: 1}); len(got) < len(want); {
				if q.From != nil {
					s.cut(t, chain, last-1-lag)
				}
				page, err := c.Txs(t.Context(), q)
				s.cut(t, chain, last)
				if errors.Is(err, index.ErrViewBehind) {
					require.Greater(t, q.From.Block, last-1-lag)
					refused++
					page, err = c.Txs(t.Context(), q)
				}
				require.NoError(t, err)
				require.NotNil(t, page.Next)
				for _, tx := range page.Txs {
					got = append(got, tx.ID)
				}
				q.From = page.Next
			}
			require.Equal(t, want, got, "%s without the last %d blocks", chain, 1+lag)
		}
		require.Positive(t, refused)

		s.cut(t, chain, last-1)
		_, _, err = c.Blocks(t.Context(), archive.Query{Tip: last, Limit: 1, Below: &last})
		require.ErrorIs(t, err, index.ErrViewBehind)
		_, err = c.Txs(t.Context(), archive.TxQuery{Tip: last, Limit: 1, Ascending: true, From: &archive.TxPosition{Block: last}})
		require.ErrorIs(t, err, index.ErrViewBehind)
	}
}

// Each transaction consumes and creates the generator's outputs.
func TestTxs(t *testing.T) {
	s := newStored(t)
	type io struct{ consumed, made []ids.ID }
	truth := make(map[ids.ID]*io)
	of := func(id ids.ID) *io {
		if truth[id] == nil {
			truth[id] = new(io)
		}
		return truth[id]
	}
	outputs := slices.SortedFunc(s.truth.Outputs(), func(a, b *history.Output) int { return cmp.Compare(a.Index, b.Index) })
	for _, o := range outputs {
		of(o.TxID).made = append(of(o.TxID).made, o.ID)
		if o.Spent != nil {
			of(o.Spent.TxID).consumed = append(of(o.Spent.TxID).consumed, o.ID)
		}
	}
	kinds := make(map[ledger.Kind]int)
	for _, chain := range []history.Chain{history.P, history.X} {
		c, tip := s.chains[chain], uint64(len(s.blocks[chain])-1)
		for _, b := range s.blocks[chain][1:] {
			for _, want := range b.Txs {
				got, err := c.Tx(t.Context(), want.ID, tip)
				require.NoError(t, err)
				require.Equal(t, []any{want.ID, b.ID, b.Time.UTC()}, []any{got.ID, got.Block.ID, got.Block.Time})
				kinds[got.Kind]++
				if chain == history.P {
					requireMade(t, of(want.ID).made, got)
				}
				var consumed []ids.ID
				for _, in := range got.Consumed {
					consumed = append(consumed, in.OutputID)
				}
				require.ElementsMatch(t, of(want.ID).consumed, consumed, "%s %s", got.Kind, want.ID)
			}
		}
	}
	for _, id := range s.truth.EarlyTxIDs {
		got, err := s.chains[history.X].Tx(t.Context(), id, 0)
		require.NoError(t, err)
		require.Nil(t, got.Block)
		require.Equal(t, id, got.ID)
	}
	for id := range s.genesis.XTxs {
		got, err := s.chains[history.X].Tx(t.Context(), id, 0)
		require.NoError(t, err)
		require.True(t, got.Genesis)
		require.Equal(t, id, got.Asset.ID)
	}
	require.Greater(t, len(kinds), 20, "%v", kinds)
}

// requireMade compares the outputs; the chain adds further ones for rewards and returned balances.
func requireMade(t *testing.T, want []ids.ID, got *archive.Tx) {
	t.Helper()
	for i := range got.Made {
		require.Less(t, i, len(want), got.Kind)
		require.Equal(t, want[i], got.Made[i].ID, "%s %s", got.Kind, got.ID)
	}
	if extra := len(want) - len(got.Made); extra > 0 {
		require.Contains(t, []ledger.Kind{
			"AddValidatorTx", "AddDelegatorTx", "AddPermissionlessValidatorTx", "AddPermissionlessDelegatorTx", ledger.Unknown,
			"SetL1ValidatorWeightTx", "DisableL1ValidatorTx",
		}, got.Kind)
	}
}

// Lists of transactions in both orders, by kind and by time, in pages of different sizes.
//
//test:plain
func TestTxPages(t *testing.T) {
	s := newStored(t)
	for _, chain := range []history.Chain{history.P, history.X} {
		all, c := s.blocks[chain], s.chains[chain]
		tip := uint64(len(all) - 1)
		kind := make(map[ids.ID]ledger.Kind)
		for _, b := range all[1:] {
			for _, tx := range b.Txs {
				read, err := c.Tx(t.Context(), tx.ID, tip)
				require.NoError(t, err)
				kind[tx.ID] = read.Kind
			}
		}
		for _, q := range []archive.TxQuery{
			{Limit: 1}, {Limit: 7}, {Limit: 1000}, {Limit: 3, After: all[len(all)/2].Time}, {Limit: 3, Before: all[len(all)/2].Time},
			{Limit: 2, Kinds: []ledger.Kind{"BaseTx"}}, {Limit: 1, Kinds: []ledger.Kind{"ImportTx", "ExportTx"}}, {Limit: 3, Kinds: []ledger.Kind{"nothing"}},
		} {
			var want []ids.ID
			for _, b := range all[1:] {
				if !q.After.IsZero() && !b.Time.After(q.After) || !q.Before.IsZero() && !b.Time.Before(q.Before) {
					continue
				}
				for _, tx := range b.Txs {
					if len(q.Kinds) == 0 || slices.Contains(q.Kinds, kind[tx.ID]) {
						want = append(want, tx.ID)
					}
				}
			}
			for _, ascending := range []bool{true, false} {
				q.Ascending, q.Tip, q.From = ascending, tip, nil
				var got []ids.ID
				for {
					page, err := c.Txs(t.Context(), q)
					require.NoError(t, err)
					require.LessOrEqual(t, len(page.Txs), q.Limit)
					for _, tx := range page.Txs {
						got = append(got, tx.ID)
					}
					if q.From = page.Next; q.From == nil {
						break
					}
				}
				if !ascending {
					slices.Reverse(got)
				}
				require.Equal(t, want, got, "%s %+v", chain, q)
			}
		}
	}
}

// A proposal shows once the next block decides it.
func TestProposals(t *testing.T) {
	s := newStored(t)
	c := s.chains[history.P]
	seen := 0
	for _, b := range s.blocks[history.P][1:] {
		block, err := c.Block(t.Context(), b.Height)
		require.NoError(t, err)
		if block.Type != "BanffProposalBlock" && block.Type != "ApricotProposalBlock" {
			continue
		}
		seen++
		proposal := b.Txs[len(b.Txs)-1].ID
		_, err = c.Tx(t.Context(), proposal, b.Height)
		require.ErrorIs(t, err, archive.ErrUnknown)
		_, err = c.Tx(t.Context(), proposal, b.Height+1)
		require.NoError(t, err)
		page, err := c.Txs(t.Context(), archive.TxQuery{Tip: b.Height, Limit: 1})
		require.NoError(t, err)
		for _, tx := range page.Txs {
			require.NotEqual(t, proposal, tx.ID)
		}
		s.cut(t, history.P, b.Height) // the tip is of another standby
		page, err = c.Txs(t.Context(), archive.TxQuery{Tip: b.Height + 1, Limit: 1})
		require.NoError(t, err)
		for _, tx := range page.Txs {
			require.NotEqual(t, proposal, tx.ID)
		}
		s.cut(t, history.P, uint64(len(s.blocks[history.P])-1))
	}
	require.Positive(t, seen)
}
