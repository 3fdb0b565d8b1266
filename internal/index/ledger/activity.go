package ledger

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ava-labs/avalanchego/ids"

	"quorate/internal/index/internal/row"
	"quorate/internal/store"
)

// ErrNoActivity means that an older version, which did not index the last activity of addresses, began the index.
var ErrNoActivity = errors.New("the last activity of addresses is not indexed until the index is rebuilt")

// withActivity is the first version of the rows with the last activity of addresses.
const withActivity = 5

// Activity is the creation or the consumption of an output.
type Activity struct {
	// Height is the block's number, 0 for blocks of the time before the chain had blocks. Time is the block's.
	Height uint64
	Time   time.Time
	// TxID is the transaction that created or consumed the output.
	TxID, OutputID ids.ID
	// Consumed reports that the output was consumed, not created.
	Consumed bool
}

// active is the last activity of an address, without what the rows of the output tell.
type active struct {
	height uint64
	// order is the place in the block. The outputs that a transaction creates follow those that it consumes.
	order    uint64
	consumed bool
	outputID ids.ID
}

// consumed returns the activity of the input with an index in its block.
func consumed(height uint64, input uint32, outputID ids.ID) active {
	return active{height: height, order: (2*uint64(input) + 1) << 32, consumed: true, outputID: outputID}
}

// created returns the activity of an output that follows a number of inputs and of outputs in its block.
func created(height uint64, inputs, outputs uint32, outputID ids.ID) active {
	return active{height: height, order: 2*uint64(inputs)<<32 | uint64(outputs), outputID: outputID}
}

// after reports whether a is later than other on the same chain.
func (a *active) after(other *active) bool {
	return a.height > other.height || a.height == other.height && a.order > other.order
}

// later returns the later one; other may be nil.
func (a *active) later(other *active) *active {
	if other == nil || a.after(other) {
		return a
	}
	return other
}

func (a *active) bytes() []byte {
	w := row.New(2 + 2*10 + ids.IDLen)
	w.Number(a.height)
	w.Number(a.order)
	w.Bool(a.consumed)
	w.ID(a.outputID)
	return w.B
}

// parseActive returns nil for a missing row.
func parseActive(v []byte) (*active, error) {
	if v == nil {
		return nil, nil
	}
	r := row.Read(v)
	a := &active{height: r.Number(), order: r.Number(), consumed: r.Bool(), outputID: r.ID()}
	return a, r.End()
}

// The rows of an address on a chain: what the chain's Projection writes, and what the Matcher writes about outputs that the
// chain imported.
var (
	ownActivity      = []byte{0}
	importedActivity = []byte{1}
)

func activityRow(networkID uint32, chainID ids.ID, address ids.ShortID, k []byte) store.PK {
	return store.PK{P: row.Network(networkID, chainID[:], address[:]), K: k}
}

// touch notes the activity of an output's owners. Activities of a block come in their order.
func (b *application) touch(owners []ids.ShortID, a active) {
	for _, address := range owners {
		b.scratch.active[address] = a
	}
}

// activities writes the block's last activity of each address.
func (b *application) activities() {
	for address, a := range b.scratch.active {
		b.batch.Put(store.FamilyActivity, activityRow(b.networkID, b.chainID, address, ownActivity), a.bytes())
	}
}

// importedActivities writes the last activity of the owners of imported outputs.
func (m *Matcher) importedActivities(ctx context.Context, transfers []*atomicTransfer, batch *store.Batch) error {
	last := make(map[string]*active)
	var keys []store.PK
	for _, p := range transfers {
		a := p.active()
		for _, address := range p.output.Addresses {
			pk := activityRow(m.networkID, p.spend.ChainID, address, importedActivity)
			if last[string(pk.P)] == nil {
				keys = append(keys, pk)
			}
			last[string(pk.P)] = a.later(last[string(pk.P)])
		}
	}
	values, err := m.store.Get(ctx, store.FamilyActivity, keys)
	if err != nil {
		return fmt.Errorf("reading the last activity of addresses: %w", err)
	}
	for i, pk := range keys {
		known, err := parseActive(values[i])
		if err != nil {
			return err
		}
		if a := last[string(pk.P)]; a.later(known) == a {
			batch.Put(store.FamilyActivity, pk, a.bytes())
		}
	}
	return nil
}

// active returns the consumption of the output on the chain that imported it.
func (p *atomicTransfer) active() *active {
	a := consumed(p.spend.Height, p.spend.number, p.output.ID)
	return &a
}

// LastActivity returns the last creation or consumption of an output by a transaction of a chain with one of the addresses
// among the owners, regardless of the threshold. It returns nil if there is none. An import counts once the chain that
// exported the output is indexed as far. It returns ErrNoActivity if the index lacks it.
func (r *Index) LastActivity(ctx context.Context, chainID ids.ID, addresses []ids.ShortID) (*Activity, error) {
	s, err := r.view(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = s.Close() }()
	form := Form()
	switch oldest, err := form.Oldest(ctx, s); {
	case err != nil:
		return nil, err
	case 0 < oldest && oldest < withActivity:
		return nil, ErrNoActivity
	}
	if _, err := s.clock(chainID); err != nil {
		return nil, err
	}
	last, err := s.lastActive(ctx, chainID, addresses)
	if err != nil || last == nil {
		return nil, err
	}
	found, err := s.outputs(ctx, []ids.ID{last.outputID})
	if err != nil {
		return nil, err
	}
	o := found[0]
	if o == nil || last.consumed && o.Spent == nil {
		return nil, fmt.Errorf("%w: output %s of the last activity is missing", store.ErrCorrupt, last.outputID)
	}
	s.number(found)
	a := &Activity{Height: o.Height, Time: o.Time, TxID: o.TxID, OutputID: o.ID, Consumed: last.consumed}
	if last.consumed {
		a.Height, a.Time, a.TxID = o.Spent.Height, o.Spent.Time, o.Spent.TxID
	}
	return a, nil
}

// lastActive returns nil if there is no activity.
func (s *snapshot) lastActive(ctx context.Context, chainID ids.ID, addresses []ids.ShortID) (last *active, err error) {
	keys := make([]store.PK, 0, 2*len(addresses))
	for _, address := range addresses {
		keys = append(keys, activityRow(s.networkID, chainID, address, ownActivity), activityRow(s.networkID, chainID, address, importedActivity))
	}
	values, err := s.Get(ctx, store.FamilyActivity, keys)
	if err != nil {
		return nil, fmt.Errorf("reading the last activity of addresses: %w", err)
	}
	for _, v := range values {
		a, err := parseActive(v)
		if err != nil {
			return nil, err
		}
		if a != nil {
			last = a.later(last)
		}
	}
	found, err := store.Scans(ctx, s.View, s.matchedQueries()...)
	if err != nil {
		return nil, fmt.Errorf("reading atomic transfers: %w", err)
	}
	behind, err := s.matched(found)
	if err != nil {
		return nil, err
	}
	return last, s.eachUnmatched(ctx, behind, func(p *atomicTransfer, _ bool) error {
		owns := slices.ContainsFunc(p.output.Addresses, func(a ids.ShortID) bool { return slices.Contains(addresses, a) })
		if p.spend.ChainID == chainID && owns {
			last = p.active().later(last)
		}
		return nil
	})
}
