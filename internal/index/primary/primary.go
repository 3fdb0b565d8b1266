// Package primary records the P-, X- and C-Chain of one network and checks what is
// recorded of them: a Network runs a pipeline for each. It puts their blocks into the
// terms of the ledger, for tenants that keep rows of those: the same for the P-Chain,
// the X-Chain and the atomic transactions of the C-Chain.
package primary

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"strings"

	"quorate/internal/chain/cchain"
	"quorate/internal/chain/ledger"
	"quorate/internal/chain/pchain"
	"quorate/internal/chain/xchain"
	"quorate/internal/index"
	"quorate/internal/store"
)

// Tenant keeps rows of what blocks do in the ledger's terms.
type Tenant = index.Tenant[*ledger.Block]

// reader puts blocks of a chain into the ledger's terms for tenants, who share a
// cursor.
type reader[B any] struct {
	tenants []Tenant
	read    func(ctx context.Context, r store.Reader, block B, batch *store.Batch) (*ledger.Block, error)
}

// Name implements index.Tenant: that of all tenants, so that another selection of
// them begins anew.
func (r *reader[B]) Name() string {
	names := make([]string, len(r.tenants))
	for i, t := range r.tenants {
		names[i] = t.Name()
	}
	return strings.Join(names, "+")
}

// Apply implements index.Tenant.
func (r *reader[B]) Apply(ctx context.Context, rows store.Reader, block B, batch *store.Batch) error {
	said, err := r.read(ctx, rows, block, batch)
	if err != nil {
		return err
	}
	for _, t := range r.tenants {
		if err := t.Apply(ctx, rows, said, batch); err != nil {
			return fmt.Errorf("%s: %w", t.Name(), err)
		}
	}
	return nil
}

// XChain reads blocks of the X-Chain for tenants.
func XChain(decoder *xchain.Decoder, tenants ...Tenant) index.Tenant[*xchain.Block] {
	return &reader[*xchain.Block]{tenants: tenants, read: func(_ context.Context, _ store.Reader, block *xchain.Block, _ *store.Batch) (*ledger.Block, error) {
		return decoder.Ledger(block)
	}}
}

// CChain reads the atomic transactions of blocks of the C-Chain for tenants.
func CChain(decoder *cchain.Decoder, tenants ...Tenant) index.Tenant[*cchain.Block] {
	return &reader[*cchain.Block]{tenants: tenants, read: func(_ context.Context, _ store.Reader, block *cchain.Block, _ *store.Batch) (*ledger.Block, error) {
		return decoder.Ledger(block)
	}}
}

// PChain reads blocks of the P-Chain for tenants. What a block means depends on
// those before it, so that the decoder's state is stored with the rows.
func PChain(networkID uint32, decoder *pchain.Decoder, tenants ...Tenant) index.Tenant[*pchain.Block] {
	return pChain(networkID, decoder, nil, tenants...)
}

// pChain is PChain for a decoder that asks for rewards through asked, if that is not nil.
func pChain(networkID uint32, decoder *pchain.Decoder, asked *rewards, tenants ...Tenant) index.Tenant[*pchain.Block] {
	p := &platform{partition: binary.BigEndian.AppendUint32(nil, networkID), decoder: decoder, rewards: asked}
	return &reader[*pchain.Block]{tenants: tenants, read: p.read}
}

// platform is the reading of the P-Chain. It serves one pipeline.
type platform struct {
	partition []byte
	decoder   *pchain.Decoder
	rewards   *rewards      // nil if the decoder asks the node itself
	state     *pchain.State // nil before the first block
}

// statePage is how many rows of the state are read at a time.
const statePage = 1024

// askingReward names, in the status, the work of a pipeline that waits for a node.
const askingReward = "asking for a reward"

func (p *platform) read(ctx context.Context, rows store.Reader, block *pchain.Block, batch *store.Batch) (*ledger.Block, error) {
	if p.state == nil {
		if err := p.load(ctx, rows); err != nil {
			return nil, err
		}
	}
	said, err := p.decoder.Ledger(ctx, p.state, block)
	switch {
	case errors.Is(err, pchain.ErrOutOfOrder), errors.Is(err, pchain.ErrTransaction), errors.Is(err, pchain.ErrReward):
		return nil, err
	case err != nil: // the node's, and the state is as it was
		return nil, &index.RetryError{What: askingReward, Err: err}
	}
	if p.rewards != nil {
		p.rewards.take(batch)
	}
	for _, row := range p.state.TakeChanges() {
		pk := store.PK{P: p.partition, K: row.Key}
		if row.Value == nil {
			batch.Delete(store.FamilyPState, pk)
		} else {
			batch.Put(store.FamilyPState, pk, row.Value)
		}
	}
	return said, nil
}

// load reads the state that was kept.
func (p *platform) load(ctx context.Context, rows store.Reader) (err error) {
	var failed error
	p.state, err = pchain.LoadState(p.rows(ctx, rows, &failed))
	if failed != nil {
		p.state, err = nil, failed
	}
	if err != nil {
		return fmt.Errorf("reading the state of the P-Chain: %w", err)
	}
	return nil
}

func (p *platform) rows(ctx context.Context, r store.Reader, failed *error) iter.Seq[pchain.Row] {
	return func(yield func(pchain.Row) bool) {
		var lo []byte
		for {
			page, err := r.Scan(ctx, store.FamilyPState, p.partition, lo, nil, store.Ascending, statePage)
			if err != nil {
				*failed = err
				return
			}
			for _, row := range page {
				if !yield(pchain.Row{Key: row.K, Value: row.V}) {
					return
				}
			}
			if len(page) < statePage {
				return
			}
			lo = store.After(page[len(page)-1].K)
		}
	}
}
