package index

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/ava-labs/avalanchego/ids"

	"quorate/internal/chain/xchain"
	"quorate/internal/node"
	"quorate/internal/store"
)

// ErrVerticesMissing means that the store does not have all pre-Cortina vertices of the X-Chain yet. The X-Chain is indexed
// after them.
var ErrVerticesMissing = errors.New("the X-Chain's pre-Cortina vertices are still being fetched from validators")

// errOtherOrder means that an older version, which got vertices from a node instead of validators, indexed the X-Chain.
var errOtherOrder = errors.New("its pre-Cortina transactions are in the order of the node that they came from; index the network again in a new store")

// XChainBegin describes the beginning of the X-Chain's blocks.
type XChainBegin struct {
	// Linear reports that the chain always had blocks. The other fields are then zero.
	Linear bool
	// StopVertexID is the last vertex, which is the parent of the block at height 0.
	StopVertexID ids.ID
	// BlockID and Time are those of the block at height 0.
	BlockID ids.ID
	Time    time.Time
}

// XChainOrigin determines from the block at height 0 how the X-Chain of a network begins. It stores the result, so that
// rebuilding an index needs no node. It is safe for concurrent use.
type XChainOrigin struct {
	node interface {
		XChainBlock(ctx context.Context, height uint64) ([]byte, error)
	}
	decoder   *xchain.Decoder
	store     store.Store
	networkID uint32
	reading   bool
	begin     atomic.Pointer[XChainBegin]
}

// NewXChainOrigin returns an XChainOrigin. It sends no request.
func NewXChainOrigin(n XChainNode, decoder *xchain.Decoder, s store.Store, networkID uint32) *XChainOrigin {
	return &XChainOrigin{node: n, decoder: decoder, store: s, networkID: networkID}
}

// Reading returns an XChainOrigin of the same chain that writes nothing to the store.
func (x *XChainOrigin) Reading() *XChainOrigin {
	return &XChainOrigin{node: x.node, decoder: x.decoder, store: x.store, networkID: x.networkID, reading: true}
}

// Begin returns the beginning of the chain. Errors come from the node or the store.
func (x *XChainOrigin) Begin(ctx context.Context) (XChainBegin, error) {
	if known := x.begin.Load(); known != nil {
		return *known, nil
	}
	key := store.PK{P: []byte(Cursor(x.networkID, XChain, "origin"))}
	old := store.PK{P: []byte(Cursor(x.networkID, XChain, "past"))}
	values, err := x.store.Get(ctx, store.FamilyIndexed, []store.PK{key, old})
	if err != nil {
		return XChainBegin{}, fmt.Errorf("reading how the X-Chain begins: %w", err)
	}
	if len(values[1]) > 1 {
		return XChainBegin{}, fmt.Errorf("the X-Chain in this store: %w", errOtherOrder)
	}
	var begin XChainBegin
	if values[0] != nil {
		begin, err = parseBegin(values[0])
	} else if begin, err = x.ask(ctx); err == nil && !x.reading {
		var batch store.Batch
		batch.Put(store.FamilyIndexed, key, begin.bytes())
		err = x.store.Commit(ctx, &batch)
	}
	if err != nil {
		return XChainBegin{}, fmt.Errorf("finding out how the X-Chain begins: %w", err)
	}
	x.begin.Store(&begin)
	return begin, nil
}

func (x *XChainOrigin) ask(ctx context.Context) (XChainBegin, error) {
	raw, err := x.node.XChainBlock(ctx, 0)
	if err != nil {
		return XChainBegin{}, err
	}
	first, err := x.decoder.ParseBlock(raw)
	if err == nil && first.Height != 0 {
		err = fmt.Errorf("%w: asked for block 0, got %d", node.ErrMalformed, first.Height)
	}
	if err != nil {
		return XChainBegin{}, err
	}
	linear, err := x.decoder.AlwaysLinear(first)
	if linear || err != nil {
		return XChainBegin{Linear: linear}, err
	}
	return XChainBegin{StopVertexID: first.ParentID, BlockID: first.ID, Time: first.Time}, nil
}

const originVersion = 1

// bytes encodes the beginning. If the chain always had blocks, that is only the version.
func (b *XChainBegin) bytes() []byte {
	v := []byte{originVersion}
	if b.Linear {
		return v
	}
	v = append(append(v, b.StopVertexID[:]...), b.BlockID[:]...)
	return binary.BigEndian.AppendUint64(v, uint64(b.Time.Unix()))
}

func parseBegin(v []byte) (XChainBegin, error) {
	var row struct {
		Version     uint8
		Stop, Block ids.ID
		Time        int64
	}
	switch {
	case len(v) == 1 && v[0] == originVersion:
		return XChainBegin{Linear: true}, nil
	case len(v) != binary.Size(row) || v[0] != originVersion:
		return XChainBegin{}, fmt.Errorf("%w: how the X-Chain begins", store.ErrCorrupt)
	}
	if err := binary.Read(bytes.NewReader(v), binary.BigEndian, &row); err != nil {
		return XChainBegin{}, fmt.Errorf("%w: how the X-Chain begins: %w", store.ErrCorrupt, err)
	}
	return XChainBegin{StopVertexID: row.Stop, BlockID: row.Block, Time: time.Unix(row.Time, 0).UTC()}, nil
}
