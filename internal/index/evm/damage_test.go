package evm_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	chain "quorate/internal/chain/evm"
	"quorate/internal/index/evm"
	"quorate/internal/store"
)

// TestDamage damages all rows of a family, and reads them.
func TestDamage(t *testing.T) {
	p := newPast(3, pastOptions{blocks: 200})
	made := p.deployments(199)[0].Contract
	tx := p.latest(199, nil)[0].Hash
	long := uint64(100)
	for family, ask := range map[store.Family]func(r *evm.Index) error{
		store.FamilyEVMHead: func(r *evm.Index) error { _, err := r.Tip(t.Context()); return err },
		store.FamilyEVMBlock: func(r *evm.Index) error {
			_, err := r.Balances(t.Context(), evm.BalanceQuery{At: &long, Limit: 1})
			return err
		},
		store.FamilyEVMTx: func(r *evm.Index) error {
			_, err := r.Latest(t.Context(), evm.LatestQuery{Limit: 100})
			return err
		},
		store.FamilyEVMTxHash: func(r *evm.Index) error { _, err := r.Transaction(t.Context(), tx); return err },
		store.FamilyEVMInternal: func(r *evm.Index) error {
			_, err := r.Internals(t.Context(), evm.WalletQuery{Wallet: address(1), Limit: 100})
			return err
		},
		store.FamilyEVMTransfer: func(r *evm.Index) error {
			_, err := r.Transfers(t.Context(), evm.WalletQuery{Wallet: address(1), Limit: 100})
			return err
		},
		store.FamilyEVMBalance: func(r *evm.Index) error {
			_, err := r.Balances(t.Context(), evm.BalanceQuery{Wallet: address(1), Limit: 100})
			return err
		},
		store.FamilyEVMBalanceAt: func(r *evm.Index) error {
			_, err := r.Balances(t.Context(), evm.BalanceQuery{Wallet: address(1), At: &long, Limit: 100})
			return err
		},
		store.FamilyEVMOwner: func(r *evm.Index) error {
			_, err := r.Tokens(t.Context(), evm.TokenQuery{Contract: nft, Standard: chain.ERC721, Limit: 100})
			return err
		},
		store.FamilyEVMDeployer: func(r *evm.Index) error {
			_, err := r.Deployments(t.Context(), evm.DeploymentQuery{Address: address(1), Limit: 100})
			return err
		},
		store.FamilyEVMDeployment: func(r *evm.Index) error { _, err := r.Deployment(t.Context(), made); return err },
		store.FamilyEVMDay:        func(r *evm.Index) error { _, err := r.Days(t.Context(), 0, 100); return err },
		store.FamilyEVMPeriod:     func(r *evm.Index) error { _, err := r.Windows(t.Context(), hosted); return err },
		store.FamilyEVMLastActive: func(r *evm.Index) error { _, err := r.Windows(t.Context(), hosted); return err },
		store.FamilyEVMUntraced: func(r *evm.Index) error {
			first, before := uint64(0), uint64(10)
			_, err := r.Internals(t.Context(), evm.WalletQuery{Wallet: address(1), Start: &first, End: &before, Limit: 100})
			return err
		},
	} {
		p := p
		if family == store.FamilyEVMUntraced {
			p = p.bare(func(n uint64) bool { return n > 20 && n < 50 })
		}
		for what, spoil := range map[string]func(v []byte) []byte{
			"short":          func(v []byte) []byte { return v[:len(v)-1] },
			"long":           func(v []byte) []byte { return append(v, 0xff, 0xff) },
			"empty":          func([]byte) []byte { return nil },
			"of version 200": func(v []byte) []byte { return append([]byte{200}, v[1:]...) },
		} {
			w := newWorld(t, p, store.NewMemory())
			w.advance(len(p.blocks))
			require.NoError(t, ask(w.record), family)
			var batch store.Batch
			for one, err := range store.Rows(t.Context(), w.store, family) {
				require.NoError(t, err)
				if family == store.FamilyEVMPeriod && len(one.K) == 0 {
					continue // short, it is one of an older index
				}
				batch.Put(family, one.PK, spoil(one.V))
			}
			require.Positive(t, batch.Len(), family)
			require.NoError(t, w.store.Commit(t.Context(), &batch))
			require.ErrorIs(t, ask(w.record), store.ErrCorrupt, "%s, %s", family, what)
		}
	}
}

// FuzzDamage reads rows of any content: nothing panics.
func FuzzDamage(f *testing.F) {
	p := newPast(3, pastOptions{blocks: 60})
	w := newWorld(f, p, store.NewMemory())
	w.advance(len(p.blocks))
	for _, family := range store.Families() {
		n := 0
		for one, err := range store.Rows(f.Context(), w.store, family) {
			if n++; err != nil || n > 2 {
				break
			}
			f.Add(one.V)
		}
	}
	f.Fuzz(func(t *testing.T, v []byte) {
		w := newWorld(t, p, store.NewMemory())
		wallet := address(1)
		var batch store.Batch
		require.NoError(t, w.projection.Apply(t.Context(), w.store, p.blocks[0], &batch))
		require.NoError(t, w.store.Commit(t.Context(), &batch))
		batch.Reset()
		place := make([]byte, 16)
		chainKey := append([]byte{0, 0, network >> 8, network & 0xff}, chainID[:8]...)
		in := func(parts ...byte) []byte { return append(append([]byte(nil), chainKey...), parts...) }
		batch.Put(store.FamilyEVMInternal, store.PK{P: in(wallet[:]...), K: place}, v)
		batch.Put(store.FamilyEVMTransfer, store.PK{P: in(wallet[:]...), K: place}, v)
		batch.Put(store.FamilyEVMBalance, store.PK{P: in(wallet[:]...), K: append(multi[:], make([]byte, 32)...)}, v)
		batch.Put(store.FamilyEVMDeployer, store.PK{P: in(wallet[:]...), K: place}, v)
		batch.Put(store.FamilyEVMContract, store.PK{P: in(wallet[:]...), K: place}, v)
		batch.Put(store.FamilyEVMDay, store.PK{P: in(), K: make([]byte, 8)}, v)
		require.NoError(t, w.store.Commit(t.Context(), &batch))
		for _, ask := range []func() error{
			func() error {
				_, err := w.record.Internals(t.Context(), evm.WalletQuery{Wallet: wallet, Limit: 3})
				return err
			},
			func() error {
				_, err := w.record.Transfers(t.Context(), evm.WalletQuery{Wallet: wallet, Limit: 3})
				return err
			},
			func() error {
				_, err := w.record.Balances(t.Context(), evm.BalanceQuery{Wallet: wallet, Limit: 3})
				return err
			},
			func() error {
				_, err := w.record.Deployments(t.Context(), evm.DeploymentQuery{Address: wallet, Limit: 3})
				return err
			},
			func() error { _, err := w.record.Deployment(t.Context(), wallet); return err },
			func() error { _, err := w.record.Days(t.Context(), 0, 3); return err },
		} {
			_ = ask() // an error is as good as any content
		}
	})
}
