package index

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/ava-labs/avalanchego/ids"

	"quorate/internal/chain/xchain"
	"quorate/internal/index/container"
	"quorate/internal/node"
	"quorate/internal/store"
)

// ErrNoPast says that the X-Chain accepted transactions before it had blocks, which
// no node gives. Without them nothing of the chain can be recorded.
var ErrNoPast error = &MissingError{
	Lacks: "the configured nodes do not have what the X-Chain accepted before it had blocks",
	Do:    "use a node that runs with --index-enabled since its own first start; if the index has begun, the node it began with",
}

// XChainPastNode is what is asked of an upstream node about the time before the
// X-Chain had blocks; *node.Client has it.
type XChainPastNode interface {
	XChainPast(ctx context.Context, stopVertexID ids.ID) (vertex, tx node.Container, err error)
	ContainersUpTo(ctx context.Context, index node.Index, last node.Container, start uint64, n int) ([]node.Container, error)
}

// XChainPast finds out what one network's X-Chain accepted before it had blocks, and
// keeps it in the store before anything follows from it: each node accepted vertices
// and transactions in an order of its own, so that a record has to go on with the
// index that it was begun with. Safe for concurrent use.
type XChainPast struct {
	node      XChainNode
	decoder   *xchain.Decoder
	store     store.Store
	networkID uint32

	// reading keeps it from writing.
	reading bool

	// finding has an element while somebody finds out; others wait, but no longer than
	// they want to.
	finding chan struct{}
	known   atomic.Pointer[past]
}

// NewXChainPast makes one. It asks nothing yet.
func NewXChainPast(n XChainNode, decoder *xchain.Decoder, s store.Store, networkID uint32) *XChainPast {
	return &XChainPast{node: n, decoder: decoder, store: s, networkID: networkID, finding: make(chan struct{}, 1)}
}

// Reading is the same past, of which nothing is written to the store.
func (x *XChainPast) Reading() *XChainPast {
	return &XChainPast{node: x.node, decoder: x.decoder, store: x.store, networkID: x.networkID, reading: true, finding: make(chan struct{}, 1)}
}

// past is what was before the first block.
type past struct {
	// linear says that nothing was.
	linear bool
	// unsaved says that the store has nothing of it.
	unsaved bool
	xchain.Past
	// lastVertex and lastTx end the indexes, without their bytes.
	lastVertex, lastTx node.Container
	// successor is what there is to know if the record goes on with another node's
	// indexes than it was begun with; nil if it does not.
	successor *successor
}

// successor is another node, which has the same in the same order and accepted it at
// other times.
type successor struct {
	// begun is when the node that the record was begun with accepted the last
	// transaction, which tells its order from others.
	begun time.Time
	// from is the first place that comes from the other node, whose times are not
	// before time.
	from uint64
	time time.Time
}

// accepted is when what is at a place was accepted, by the record.
func (p *past) accepted(place uint64, at time.Time) time.Time {
	if s := p.successor; s != nil && place >= s.from && at.Before(s.time) {
		return s.time
	}
	return at
}

// before is how many places come before the block at height 0.
func (p *past) before() uint64 {
	if p.linear {
		return 0
	}
	return p.Txs + 1 // and the genesis
}

// current is what find found; it must have.
func (x *XChainPast) current() *past { return x.known.Load() }

// find returns what is known, or asks. Errors are ErrNoPast, those of the node, or
// those of the store.
func (x *XChainPast) find(ctx context.Context) (*past, error) {
	if p := x.known.Load(); p != nil && !(x.reading && p.unsaved) {
		return p, nil
	}
	select {
	case x.finding <- struct{}{}:
		defer func() { <-x.finding }()
	case <-ctx.Done():
		return nil, fmt.Errorf("finding the X-Chain's past: %w", ctx.Err())
	}
	if p := x.known.Load(); p != nil && !(x.reading && p.unsaved) {
		return p, nil
	}
	p, at, err := x.load(ctx)
	switch {
	case err != nil:
	case p == nil:
		p, err = x.ask(ctx, at)
	case !p.linear && !x.reading:
		p, err = x.another(ctx, p, at)
	}
	if err != nil {
		return nil, fmt.Errorf("finding the X-Chain's past: %w", err)
	}
	x.known.Store(p)
	return p, nil
}

// Before is how many places in the order of all that the chain accepted come before its
// block at height 0. Errors are ErrNoPast, those of the node, or those of the store.
func (x *XChainPast) Before(ctx context.Context) (uint64, error) {
	p, err := x.find(ctx)
	if err != nil {
		return 0, err
	}
	return p.before(), nil
}

// VertexCount is how many vertices the chain accepted. Errors are those of Before.
func (x *XChainPast) VertexCount(ctx context.Context) (uint64, error) {
	p, err := x.find(ctx)
	if err != nil || p.linear {
		return 0, err
	}
	return p.lastVertex.Index + 1, nil
}

// another is the past to go by after a start: the one that is kept or, if no node has that
// any more, another node's, either with the same order or as long as nothing is recorded
// that follows from the kept one. While a pipeline runs it must not change, since what
// is on its way follows from the one that it began with.
func (x *XChainPast) another(ctx context.Context, kept *past, at store.Cursor) (*past, error) {
	begun, err := x.begun(ctx)
	if err != nil {
		return kept, err
	}
	if _, err := x.containers(ctx, node.XChainTxs, kept.lastTx, kept.lastTx.Index, 1); !errors.Is(err, ErrNoPast) {
		return kept, nil // whether it is to be had will be seen
	}
	if begun {
		return x.succeed(ctx, kept, at)
	}
	p, err := x.ask(ctx, at)
	if errors.Is(err, ErrNoPast) {
		return kept, nil // no other node has any either
	}
	return p, err
}

// succeed is the past with another node in the place of the one that is gone, if one has
// the same in the same order: all that is recorded of it is compared with what is kept.
// If not the kept one stays, and its node is waited for.
func (x *XChainPast) succeed(ctx context.Context, kept *past, at store.Cursor) (*past, error) {
	next, err := x.recorded(ctx)
	if err != nil || next == 0 || next >= kept.before() {
		return kept, err // it cannot be told, or nothing is missing
	}
	vertex, tx, err := x.node.XChainPast(ctx, kept.lastVertex.ID)
	if errors.Is(err, node.ErrNoPast) {
		return kept, nil
	}
	if err != nil {
		return nil, err
	}
	if tx.ID != kept.lastTx.ID || tx.Index != kept.lastTx.Index || vertex.Index != kept.lastVertex.Index {
		return kept, nil
	}
	same, last, err := x.same(ctx, tx, next)
	if err != nil || !same {
		return kept, err
	}
	p := *kept
	p.lastVertex, p.lastTx = vertex, tx
	p.successor = &successor{begun: kept.order(), from: next, time: last}
	return x.keep(ctx, &p, at)
}

// recorded is the first place that nothing is recorded of, if all before are kept; 0 if
// that cannot be told, or if vertices are recorded in part, whose order is not kept.
func (x *XChainPast) recorded(ctx context.Context) (next uint64, err error) {
	from, until, err := KeptUntil(ctx, x.store, x.networkID, XChain)
	if err != nil || from > 1 {
		return 0, err
	}
	chain, vertices := Cursor(x.networkID, XChain, ""), fmt.Sprintf("vertices/%d", x.networkID)
	for row, err := range store.Rows(ctx, x.store, store.FamilyCursor) {
		if err != nil {
			return 0, err
		}
		name := string(row.P)
		if name == x.cursor() || name != vertices && !strings.HasPrefix(name, chain) {
			continue
		}
		at, err := store.ReadCursor(ctx, x.store, name)
		if err != nil {
			return 0, err
		}
		if name == vertices && at.Next > 0 || at.Next > until {
			return 0, nil
		}
		next = max(next, at.Next)
	}
	return next, nil
}

// same reports whether the index that ends with a transaction has what is kept before a
// place, each at its place, and when the last of it was accepted.
func (x *XChainPast) same(ctx context.Context, end node.Container, next uint64) (same bool, last time.Time, err error) {
	chain := container.Chain{NetworkID: x.networkID, Name: XChain}
	for place := uint64(1); place < next; {
		there, err := x.containers(ctx, node.XChainTxs, end, place-1, int(min(next-place, node.MaxBlockRange)))
		if errors.Is(err, ErrNoPast) {
			return false, last, nil
		}
		if err != nil {
			return false, last, err
		}
		here, err := chain.Range(ctx, x.store, place, len(there))
		if err != nil || len(here) == 0 {
			return false, last, err
		}
		for i := range here {
			if here[i].ID != there[i].ID {
				return false, last, nil
			}
			last = here[i].Time
		}
		place += uint64(len(here))
	}
	return true, last, nil
}

// order tells the order that the record was begun with from others.
func (p *past) order() time.Time {
	if p.successor != nil {
		return p.successor.begun
	}
	return p.lastTx.Accepted
}

// begun reports whether anything is recorded that depends on a node's order, which the
// genesis, at place 0, does not.
func (x *XChainPast) begun(ctx context.Context) (bool, error) {
	chain, vertices := Cursor(x.networkID, XChain, ""), fmt.Sprintf("vertices/%d", x.networkID)
	for row, err := range store.Rows(ctx, x.store, store.FamilyCursor) {
		if err != nil {
			return false, err
		}
		name := string(row.P)
		least := uint64(1)
		switch {
		case name == x.cursor():
			continue
		case name == vertices:
			least = 0
		case !strings.HasPrefix(name, chain):
			continue
		}
		at, err := store.ReadCursor(ctx, x.store, name)
		if err != nil || at.Next > least {
			return true, err
		}
	}
	return false, nil
}

// ask finds out what nodes have; at is the cursor of what is kept.
func (x *XChainPast) ask(ctx context.Context, at store.Cursor) (*past, error) {
	raw, err := x.node.XChainBlock(ctx, 0)
	if err != nil {
		return nil, err
	}
	first, err := x.decoder.ParseBlock(raw)
	if err == nil && first.Height != 0 {
		err = fmt.Errorf("%w: asked for block 0, got %d", node.ErrMalformed, first.Height)
	}
	if err != nil {
		return nil, err
	}
	linear, err := x.decoder.AlwaysLinear(first)
	if err != nil {
		return nil, err
	}
	if linear {
		return x.keep(ctx, &past{linear: true}, at)
	}
	p := &past{}
	p.lastVertex, p.lastTx, err = x.node.XChainPast(ctx, first.ParentID)
	if errors.Is(err, node.ErrNoPast) {
		err = fmt.Errorf("%w: %w", ErrNoPast, err)
	}
	if err != nil {
		return nil, err
	}
	p.Past = xchain.Past{Txs: p.lastTx.Index + 1, First: first.ID, Time: first.Time}
	return x.keep(ctx, p, at)
}

// keep saves what was found, and returns what is to be gone by.
func (x *XChainPast) keep(ctx context.Context, p *past, at store.Cursor) (*past, error) {
	if x.reading {
		p.unsaved = true
		return p, nil
	}
	err := x.save(ctx, p, at)
	if errors.Is(err, store.ErrFenced) {
		p, _, err = x.load(ctx) // another process was first
	}
	return p, err
}

// Vertices are vertices of before there were blocks, in the order in which the node
// accepted them, from a place on; none, and no error, if the chain always had blocks.
// The last one is a stop vertex. Errors are ErrNoPast or those of the node or the store.
func (x *XChainPast) Vertices(ctx context.Context, start uint64, n int) ([]node.Container, error) {
	p, err := x.find(ctx)
	if err != nil || p.linear {
		return nil, err
	}
	return x.containers(ctx, node.XChainVertices, p.lastVertex, start, n)
}

func (x *XChainPast) containers(ctx context.Context, index node.Index, last node.Container, start uint64, n int) ([]node.Container, error) {
	found, err := x.node.ContainersUpTo(ctx, index, last, start, n)
	if errors.Is(err, node.ErrNoPast) {
		err = fmt.Errorf("%w: %w", ErrNoPast, err)
	}
	return found, err
}

func (x *XChainPast) cursor() string { return Cursor(x.networkID, XChain, "past") }

const (
	pastVersion = 1
	// pastSucceeded has a successor, too.
	pastSucceeded = 2
)

func (x *XChainPast) save(ctx context.Context, p *past, at store.Cursor) error {
	b := []byte{pastVersion} // and nothing more if there was nothing
	if !p.linear {
		b = append(b, p.First[:]...)
		b = binary.BigEndian.AppendUint64(b, uint64(p.Time.Unix()))
		for _, c := range []node.Container{p.lastVertex, p.lastTx} {
			b = append(b, c.ID[:]...)
			b = binary.BigEndian.AppendUint64(b, c.Index)
			b = binary.BigEndian.AppendUint64(b, uint64(c.Accepted.UnixNano()))
		}
		if s := p.successor; s != nil {
			b[0] = pastSucceeded
			b = binary.BigEndian.AppendUint64(b, uint64(s.begun.UnixNano()))
			b = binary.BigEndian.AppendUint64(b, s.from)
			b = binary.BigEndian.AppendUint64(b, uint64(s.time.UnixNano()))
		}
	}
	var batch store.Batch
	batch.Put(store.FamilyIndexed, store.PK{P: []byte(x.cursor())}, b)
	batch.Move(x.cursor(), at, store.Cursor{Next: p.Txs, Epoch: at.Epoch + 1})
	return x.store.Commit(ctx, &batch)
}

// load returns nil if nothing is kept, and the cursor that goes with what is.
func (x *XChainPast) load(ctx context.Context) (*past, store.Cursor, error) {
	// The cursor first: if both change meanwhile, moving it fails.
	at, err := store.ReadCursor(ctx, x.store, x.cursor())
	if err != nil {
		return nil, at, err
	}
	values, err := x.store.Get(ctx, store.FamilyIndexed, []store.PK{{P: []byte(x.cursor())}})
	if err != nil || values[0] == nil {
		return nil, at, err
	}
	p, err := parsePast(values[0])
	return p, at, err
}

func parsePast(v []byte) (*past, error) {
	if len(v) == 1 && v[0] == pastVersion {
		return &past{linear: true}, nil
	}
	var row struct {
		Version uint8
		First   ids.ID
		Time    int64
		Last    [2]struct {
			ID              ids.ID
			Index, Accepted uint64
		}
	}
	r := bytes.NewReader(v)
	var next struct{ Begun, From, Time int64 }
	err := binary.Read(r, binary.BigEndian, &row)
	if err == nil && row.Version == pastSucceeded {
		err = binary.Read(r, binary.BigEndian, &next)
	}
	if err != nil || row.Version != pastVersion && row.Version != pastSucceeded || r.Len() > 0 {
		return nil, fmt.Errorf("%w: the past of the X-Chain", store.ErrCorrupt)
	}
	p := &past{Past: xchain.Past{Txs: row.Last[1].Index + 1, First: row.First, Time: time.Unix(row.Time, 0).UTC()}}
	for i, c := range []*node.Container{&p.lastVertex, &p.lastTx} {
		c.ID, c.Index, c.Accepted = row.Last[i].ID, row.Last[i].Index, time.Unix(0, int64(row.Last[i].Accepted)).UTC()
	}
	if row.Version == pastSucceeded {
		p.successor = &successor{begun: time.Unix(0, next.Begun).UTC(), from: uint64(next.From), time: time.Unix(0, next.Time).UTC()}
	}
	return p, nil
}
