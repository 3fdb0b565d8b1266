// Package primary indexes the P-, X- and C-Chain of one network and verifies the index. A Network runs a pipeline for
// each chain. It converts blocks to the types of package ledger for its projections.
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

// Projection writes rows of converted blocks.
type Projection = index.Projection[*ledger.Block]

// converter converts the blocks of a chain for projections that share a cursor.
type converter[B any] struct {
	projections []Projection
	read        func(ctx context.Context, r store.Reader, block B, batch *store.Batch) (*ledger.Block, error)
}

// Name implements index.Projection. It combines the names of all projections, so another selection of projections is indexed from
// the beginning.
func (r *converter[B]) Name() string {
	names := make([]string, len(r.projections))
	for i, t := range r.projections {
		names[i] = t.Name()
	}
	return strings.Join(names, "+")
}

// Apply implements index.Projection.
func (r *converter[B]) Apply(ctx context.Context, rows store.Reader, block B, batch *store.Batch) error {
	said, err := r.read(ctx, rows, block, batch)
	if err != nil {
		return err
	}
	for _, t := range r.projections {
		if err := t.Apply(ctx, rows, said, batch); err != nil {
			return fmt.Errorf("%s: %w", t.Name(), err)
		}
	}
	return nil
}

// XChain returns a projection that converts X-Chain blocks for projections.
func XChain(decoder *xchain.Decoder, projections ...Projection) index.Projection[*xchain.Block] {
	return &converter[*xchain.Block]{projections: projections, read: func(_ context.Context, _ store.Reader, block *xchain.Block, _ *store.Batch) (*ledger.Block, error) {
		return decoder.Ledger(block)
	}}
}

// CChain returns a projection that converts the atomic transactions of C-Chain blocks for projections.
func CChain(decoder *cchain.Decoder, projections ...Projection) index.Projection[*cchain.Block] {
	return &converter[*cchain.Block]{projections: projections, read: func(_ context.Context, _ store.Reader, block *cchain.Block, _ *store.Batch) (*ledger.Block, error) {
		return decoder.Ledger(block)
	}}
}

// pChain returns a projection that converts P-Chain blocks for projections. Decoding a block depends on earlier blocks,
// so the decoder's state is stored with the rows. The decoder requests rewards through asked, if asked is not nil.
func pChain(networkID uint32, decoder *pchain.Decoder, asked *rewards, projections ...Projection) index.Projection[*pchain.Block] {
	p := &platform{partition: binary.BigEndian.AppendUint32(nil, networkID), decoder: decoder, rewards: asked}
	return &converter[*pchain.Block]{projections: projections, read: p.read}
}

// platform decodes the P-Chain. It serves one pipeline.
type platform struct {
	partition []byte
	decoder   *pchain.Decoder
	rewards   *rewards      // nil if the decoder requests rewards from the node itself
	state     *pchain.State // nil before the first block
}

// statePage is the number of state rows of one read.
const statePage = 1024

// askingReward is the status of a pipeline that waits for a node's reward outputs.
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
	case err != nil: // the error is the node's, and the state is unchanged
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

// load reads the stored state.
func (p *platform) load(ctx context.Context, rows store.Reader) (err error) {
	var failed error
	p.state, err = pchain.LoadState(p.rows(ctx, rows, &failed))
	if failed != nil {
		p.state, err = nil, failed
	}
	if err != nil {
		return fmt.Errorf("reading the P-Chain decoder state: %w", err)
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
