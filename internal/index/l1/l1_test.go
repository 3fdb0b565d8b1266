package l1_test

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/vms/platformvm/txs"

	"quorate/internal/chain/pchain"
	"quorate/internal/chain/pchain/pchaintest"
	"quorate/internal/index"
	"quorate/internal/index/l1"
	"quorate/internal/store"
)

// apply indexes all blocks of a chain like a pipeline.
func apply(t testing.TB, s store.Store, chain *pchaintest.Chain) {
	t.Helper()
	projection := l1.NewProjection(chain.NetworkID)
	cursor := index.Cursor(chain.NetworkID, index.PChain, projection.Name())
	at, err := store.ReadCursor(t.Context(), s, cursor)
	require.NoError(t, err)
	var batch store.Batch
	for _, b := range chain.Blocks[at.Next:] {
		block, err := pchain.ParseBlock(b.Bare)
		require.NoError(t, err)
		require.NoError(t, projection.Apply(t.Context(), s, block, &batch))
	}
	batch.Move(cursor, at, store.Cursor{Next: chain.Next(), Epoch: at.Epoch})
	require.NoError(t, s.Commit(t.Context(), &batch))
}

func TestRecord(t *testing.T) {
	ctx := t.Context()
	chain := pchaintest.New(5)
	subnet, manager, address := ids.ID{1}, ids.ID{2}, []byte("a manager's address!")
	convert := chain.Convert(subnet, manager, address, 3)
	first, second := pchaintest.Registration(subnet, ids.NodeID{1}, 1000), pchaintest.Registration(subnet, ids.NodeID{2}, 2000)
	register, again := chain.Register(first), chain.Register(second)
	weights := []*txs.Tx{
		chain.SetWeight(first.ValidationID(), 0, 30),
		chain.SetWeight(first.ValidationID(), 1, 0),
		chain.SetWeight(subnet.Append(1), 255, 9),
		chain.SetWeight(subnet.Append(1), 256, 8),
		chain.SetWeight(subnet.Append(1), math.MaxUint64, 0),
	}
	chain.Standard(chain.Transfer(1))
	chain.Standard(chain.Transfer(2), convert)                // height 2
	chain.Standard(register)                                  // 3
	chain.Standard(weights[0], chain.Transfer(3), weights[2]) // 4
	chain.Proposal(chain.Reward(ids.ID{7}), false, again)     // 5, 6
	chain.Standard(weights[3], weights[1])                    // 7
	chain.Standard(weights[4])                                // 8

	s := store.NewMemory()
	defer s.Close()
	record := l1.New(s, 5)
	next, err := record.Height(ctx)
	require.NoError(t, err)
	require.Zero(t, next, "of an empty store")
	apply(t, s, chain)
	// Another network's index in the same store.
	other := pchaintest.New(1)
	other.Standard(other.Convert(ids.ID{8}, manager, address, 1))
	apply(t, s, other)

	next, err = record.Height(ctx)
	require.NoError(t, err)
	require.Equal(t, chain.Next(), next)

	transactions := []struct {
		tx     *txs.Tx
		height uint64
	}{{convert, 2}, {register, 3}, {weights[0], 4}, {weights[2], 4}, {again, 5}, {weights[3], 7}, {weights[1], 7}, {weights[4], 8}}
	var all []*pchain.L1Transaction
	for _, want := range transactions {
		event, err := pchain.L1EventOf(want.tx.Unsigned)
		require.NoError(t, err)
		got, err := record.Transaction(ctx, want.tx.ID())
		require.NoError(t, err)
		block, err := pchain.ParseBlock(chain.Blocks[want.height].Bare)
		require.NoError(t, err)
		require.Equal(t, &pchain.L1Transaction{TxID: want.tx.ID(), Height: want.height, Time: block.Time, Event: event}, got)
		all = append(all, got)
	}

	conversion, err := record.Conversion(ctx, subnet)
	require.NoError(t, err)
	require.Equal(t, all[0], conversion)
	require.Len(t, conversion.Event.(*pchain.Conversion).Validators, 3)
	require.Equal(t, address, conversion.Event.(*pchain.Conversion).ManagerAddress)

	registration := func(i int) *pchain.Registration { return all[i].Event.(*pchain.Registration) }
	change := func(i int) *pchain.L1WeightChange {
		return &pchain.L1WeightChange{TxID: all[i].TxID, WeightChange: *all[i].Event.(*pchain.WeightChange)}
	}
	for name, test := range map[string]struct {
		id   ids.ID
		want *pchain.Validation
	}{
		"registered and removed": {first.ValidationID(), &pchain.Validation{SubnetID: subnet, Registration: registration(1), RegistrationTxID: register.ID(), LatestWeightChange: change(6)}},
		"registered":             {second.ValidationID(), &pchain.Validation{SubnetID: subnet, Registration: registration(4), RegistrationTxID: again.ID()}},
		"converted":              {subnet.Append(0), &pchain.Validation{SubnetID: subnet, RegistrationTxID: convert.ID()}},
		"converted and removed":  {subnet.Append(1), &pchain.Validation{SubnetID: subnet, ConversionIndex: 1, RegistrationTxID: convert.ID(), LatestWeightChange: change(7)}},
		"last of the conversion": {subnet.Append(2), &pchain.Validation{SubnetID: subnet, ConversionIndex: 2, RegistrationTxID: convert.ID()}},
		"never there":            {subnet.Append(3), nil},
		"begins alike":           {forged(second.ValidationID()), nil},
		"of another network":     {ids.ID{8}.Append(0), nil},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := record.Validation(ctx, test.id)
			require.NoError(t, err)
			require.Equal(t, test.want, got)
		})
	}
	for name, nothing := range map[string]func() (*pchain.L1Transaction, error){
		"transaction of another kind":   func() (*pchain.L1Transaction, error) { return record.Transaction(ctx, chain.Transfer(1).ID()) },
		"subnet that was not converted": func() (*pchain.L1Transaction, error) { return record.Conversion(ctx, ids.ID{9}) },
		"subnet of another network":     func() (*pchain.L1Transaction, error) { return record.Conversion(ctx, ids.ID{8}) },
		"transaction that begins alike": func() (*pchain.L1Transaction, error) { return record.Transaction(ctx, forged(convert.ID())) },
		"subnet that begins alike":      func() (*pchain.L1Transaction, error) { return record.Conversion(ctx, forged(subnet)) },
	} {
		got, err := nothing()
		require.NoError(t, err)
		require.Nil(t, got, name)
	}

	for limit := 1; limit < 10; limit++ {
		var read []*pchain.L1Transaction
		for height := uint64(0); ; {
			part, next, err := record.Since(ctx, height, limit)
			require.NoError(t, err)
			if len(part) == 0 {
				require.Equal(t, uint64(9), next)
				break
			}
			require.Greater(t, next, height)
			for _, tx := range part {
				require.Less(t, tx.Height, next, "pages of %d", limit)
			}
			read, height = append(read, part...), next
		}
		require.Equal(t, all, read, "pages of %d", limit)
	}
}

// forged returns an ID that differs in its last byte.
func forged(id ids.ID) ids.ID {
	id[31] ^= 1
	return id
}

// TestEmptyHands indexes a conversion without a manager contract, which the P-Chain allows.
func TestEmptyHands(t *testing.T) {
	chain := pchaintest.New(5)
	chain.Standard(chain.Convert(ids.ID{1}, ids.Empty, nil, 1))
	s := store.NewMemory()
	defer s.Close()
	apply(t, s, chain)
	got, err := l1.New(s, 5).Conversion(t.Context(), ids.ID{1})
	require.NoError(t, err)
	require.Empty(t, got.Event.(*pchain.Conversion).ManagerAddress)
}

func TestUnreadableEvent(t *testing.T) {
	chain := pchaintest.New(5)
	tx := &txs.Tx{Unsigned: &txs.RegisterL1ValidatorTx{Message: []byte("no Warp message")}}
	require.NoError(t, tx.Initialize(txs.Codec))
	block, err := pchain.ParseBlock(chain.Standard(tx).Bare)
	require.NoError(t, err)
	err = l1.NewProjection(5).Apply(t.Context(), nil, block, &store.Batch{})
	require.ErrorContains(t, err, tx.ID().String())
}

var errBroken = errors.New("disk is gone")

type brokenStore struct{ store.Reader }

func (brokenStore) Get(context.Context, store.Family, []store.PK) ([][]byte, error) {
	return nil, errBroken
}

func (brokenStore) Floor(context.Context, store.Family, []byte, []store.Range) ([]store.Row, error) {
	return nil, errBroken
}

func (brokenStore) Scan(context.Context, store.Family, []byte, []byte, []byte, store.Direction, int) ([]store.Row, error) {
	return nil, errBroken
}

// TestNothingIsNotAnError distinguishes a missing row from a failed read.
func TestNothingIsNotAnError(t *testing.T) {
	ctx, record := t.Context(), l1.New(brokenStore{}, 5)
	for name, read := range map[string]func() error{
		"Transaction": func() error { _, err := record.Transaction(ctx, ids.ID{1}); return err },
		"Conversion":  func() error { _, err := record.Conversion(ctx, ids.ID{1}); return err },
		"Validation":  func() error { _, err := record.Validation(ctx, ids.ID{1}); return err },
		"Since":       func() error { _, _, err := record.Since(ctx, 1, 1); return err },
		"Height":      func() error { _, err := record.Height(ctx); return err },
	} {
		require.ErrorIs(t, read(), errBroken, name)
	}
}

// TestDamagedRows damages every byte of every row. Reads must return an error or other data and must not panic.
func TestDamagedRows(t *testing.T) {
	ctx := t.Context()
	chain := pchaintest.New(5)
	m := pchaintest.Registration(ids.ID{1}, ids.NodeID{1}, 1000)
	convert, register, weight := chain.Convert(ids.ID{1}, ids.ID{2}, []byte{3}, 2), chain.Register(m), chain.SetWeight(m.ValidationID(), 1, 2)
	chain.Standard(convert, register, weight)
	s := store.NewMemory()
	defer s.Close()
	apply(t, s, chain)
	record := l1.New(s, 5)
	read := func() (failed bool) {
		for _, err := range []error{
			func() error { _, err := record.Transaction(ctx, convert.ID()); return err }(),
			func() error { _, err := record.Transaction(ctx, register.ID()); return err }(),
			func() error { _, err := record.Transaction(ctx, weight.ID()); return err }(),
			func() error { _, err := record.Conversion(ctx, ids.ID{1}); return err }(),
			func() error { _, err := record.Validation(ctx, m.ValidationID()); return err }(),
			func() error { _, err := record.Validation(ctx, ids.ID{1}.Append(1)); return err }(),
			func() error {
				found, _, err := record.Since(ctx, 0, 10)
				require.NotContains(t, found, (*pchain.L1Transaction)(nil), "readers expect a transaction")
				return err
			}(),
		} {
			if err != nil {
				require.ErrorIs(t, err, store.ErrCorrupt)
				failed = true
			}
		}
		return failed
	}
	require.False(t, read(), "before any damage")
	for _, family := range []store.Family{store.FamilyL1Tx, store.FamilyL1Height, store.FamilyL1Subnet, store.FamilyL1Validation} {
		rows, err := s.Walk(ctx, family, nil, 100)
		require.NoError(t, err)
		require.NotEmpty(t, rows)
		put := func(pk store.PK, v []byte) {
			var batch store.Batch
			batch.Put(family, pk, v)
			require.NoError(t, s.Commit(ctx, &batch))
		}
		for _, row := range rows {
			for i := range row.V {
				put(row.PK, row.V[:i])
				if !read() && family != store.FamilyL1Validation { // the first validator's row is not read above
					t.Errorf("%s: got no error for %d of %d bytes", family, i, len(row.V))
				}
				for _, bit := range []byte{1, 0x80} {
					damaged := append([]byte(nil), row.V...)
					damaged[i] ^= bit
					put(row.PK, damaged)
					read()
				}
			}
			put(row.PK, append(append([]byte(nil), row.V...), 0))
			if !read() && family != store.FamilyL1Validation {
				t.Errorf("%s: got no error for a byte too many", family)
			}
			put(row.PK, row.V)
		}
	}
}

// FuzzRecord passes arbitrary bytes to the readers of all kinds of rows.
func FuzzRecord(f *testing.F) {
	chain := pchaintest.New(5)
	m := pchaintest.Registration(ids.ID{1}, ids.NodeID{1}, 1000)
	chain.Standard(chain.Convert(ids.ID{1}, ids.ID{2}, []byte{3}, 2), chain.Register(m), chain.SetWeight(m.ValidationID(), 1, 2))
	s := store.NewMemory()
	apply(f, s, chain)
	for _, family := range []store.Family{store.FamilyL1Tx, store.FamilyL1Validation} {
		rows, err := s.Walk(f.Context(), family, nil, 100)
		require.NoError(f, err)
		for _, row := range rows {
			f.Add(row.V, uint64(len(row.K)))
		}
	}
	f.Fuzz(func(t *testing.T, v []byte, nonce uint64) {
		ctx, s := t.Context(), store.NewMemory()
		id := ids.ID{9}
		p := append([]byte{0, 0, 0, 5}, id[:]...)
		record := l1.New(s, 5)
		check := func(err error) {
			if err != nil && !errors.Is(err, store.ErrCorrupt) {
				t.Errorf("got %v, want nothing or ErrCorrupt", err)
			}
		}
		var batch store.Batch
		batch.Put(store.FamilyL1Tx, store.PK{P: p}, v)
		batch.Put(store.FamilyL1Validation, store.PK{P: p, K: []byte{0}}, v)
		require.NoError(t, s.Commit(ctx, &batch))
		tx, err := record.Transaction(ctx, id)
		check(err)
		if err == nil && tx.Event == nil {
			t.Error("got a transaction without an event")
		}
		_, err = record.Validation(ctx, id)
		check(err)
		batch.Reset()
		batch.Put(store.FamilyL1Validation, store.PK{P: p, K: binary.BigEndian.AppendUint64([]byte{1}, nonce)}, v)
		require.NoError(t, s.Commit(ctx, &batch))
		got, err := record.Validation(ctx, id)
		check(err)
		if err == nil && got.LatestWeightChange.Nonce != nonce {
			t.Errorf("got nonce %d, want %d", got.LatestWeightChange.Nonce, nonce)
		}
	})
}
