// Package chain implements what the services of the X-Chain and the P-Chain share: blocks and transactions from the
// indexed containers, pages of UTXOs from the ledger, and the encodings that a node uses for them.
package chain

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/ava-labs/avalanchego/api"
	"github.com/ava-labs/avalanchego/database"
	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/snow"
	"github.com/ava-labs/avalanchego/utils/formatting"
	"github.com/ava-labs/avalanchego/utils/hashing"
	"github.com/ava-labs/avalanchego/vms/components/avax"
	proposer "github.com/ava-labs/avalanchego/vms/proposervm/block"

	"quorate/handlers/rpc"
	"quorate/internal/bounded"
	"quorate/internal/index"
	"quorate/internal/index/container"
	"quorate/internal/index/ledger"
	"quorate/internal/index/lookup"
	"quorate/internal/store"
)

// Ledger is the index of outputs of one network; *ledger.Index implements it. It must be safe for concurrent use and
// return soon after ctx has ended.
type Ledger interface {
	Owned(ctx context.Context, q ledger.OwnedQuery) ([]ledger.Owned, error)
}

// Options configures a Chain. All fields are required unless stated otherwise.
type Options struct {
	NetworkID uint32
	// ID is the blockchain ID; Name is index.PChain or index.XChain.
	ID   ids.ID
	Name string
	// Aliases maps the aliases of the network's blockchains to IDs. The first alias of this chain prefixes its
	// addresses.
	Aliases ids.AliaserReader
	Store   store.Reader
	Ledger  Ledger
	// Status returns how far the chain is indexed. It does not block.
	Status func() index.Status
	// Before returns how many containers the chain accepted before its block at height 0; nil means none.
	Before func(ctx context.Context) (uint64, error)
	// Genesis holds the genesis transactions, which are in no block, by ID.
	Genesis map[ids.ID][]byte
	// Sources reports for other blockchains whether their exports are indexed. Imports from chains that are not in the
	// map are left to upstream nodes.
	Sources map[ids.ID]func() bool
	// Content encodes blocks and transactions as JSON.
	Content Content
	// Log may be nil.
	Log *slog.Logger
}

// Content decodes the blocks of a chain. It must be safe for concurrent use.
type Content interface {
	// Block returns the JSON of a block without its envelope.
	Block(b []byte) ([]byte, error)
	// Tx returns the i-th transaction of a block without its envelope, and whether the block only proposes it. If
	// early is set, block is the transaction itself.
	Tx(block []byte, i int, early bool) (tx []byte, proposed bool, err error)
	// TxJSON returns the JSON of a transaction; genesis reports that it is part of the genesis.
	TxJSON(tx []byte, genesis bool) ([]byte, error)
}

// Chain answers calls about one chain. It is safe for concurrent use. Its errors are meant for clients. The error is
// rpc.ErrForward if the index does not have what an upstream node may have.
type Chain struct {
	Options
	// Addresses parses and formats addresses as nodes do.
	Addresses avax.AddressManager
	// Context is the context with which avalanchego's types format addresses.
	Context    *snow.Context
	containers container.Chain
	lookup     *lookup.Chain
	ready      *bounded.Cache[cacheKey, answer]
}

// cacheKey identifies an answer: a block by height, or a transaction by ID.
type cacheKey struct {
	tx       bool
	id       ids.ID
	height   uint64
	encoding formatting.Encoding
}

// answer is the answer about the block or transaction with an ID.
type answer struct {
	id   ids.ID
	json []byte
}

// cacheBytes limits the memory for cached answers, in bytes.
const cacheBytes = 32 << 20

// New returns a Chain.
func New(o Options) *Chain {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	c := &Chain{
		Options:    o,
		Context:    &snow.Context{NetworkID: o.NetworkID, ChainID: o.ID, BCLookup: o.Aliases},
		containers: container.Chain{NetworkID: o.NetworkID, Name: o.Name},
		lookup:     lookup.New(o.Store, o.NetworkID, o.Name),
	}
	c.Addresses = avax.NewAddressManager(c.Context)
	c.ready = bounded.New(bounded.Options[cacheKey, answer]{
		Weight: cacheBytes,
		Weigh:  func(_ cacheKey, a answer) uint32 { return uint32(len(a.json)) + 160 },
	})
	return c
}

// Failed logs that the index cannot be read and returns the error that forwards the call to upstream nodes.
func (c *Chain) Failed(ctx context.Context, err error) error {
	if !errors.Is(err, rpc.ErrForward) && ctx.Err() == nil {
		c.Log.Error("the index of a chain cannot be read; asking an upstream node", slog.String("chain", c.Name), slog.Any("error", err))
	}
	return rpc.ErrForward
}

// before returns the number of containers before the block at height 0.
func (c *Chain) before(ctx context.Context) (uint64, error) {
	if c.Before == nil {
		return 0, nil
	}
	n, err := c.Before(ctx)
	if err != nil {
		return 0, c.Failed(ctx, err)
	}
	return n, nil
}

// Height returns the height of the last indexed block.
func (c *Chain) Height(ctx context.Context) (uint64, error) {
	before, err := c.before(ctx)
	if err != nil {
		return 0, err
	}
	next := c.Status().Next
	if next <= before {
		return 0, rpc.ErrForward
	}
	return next - 1 - before, nil
}

// Behind reports whether upstream nodes may have what the index does not have when it is read next.
func (c *Chain) Behind() bool { return behind(c.Status()) }

func behind(s index.Status) bool { return s.State != index.Following || s.Lag() > 0 }

// Block answers getBlock.
func (c *Chain) Block(ctx context.Context, args *api.GetBlockArgs, reply *rpc.Raw) error {
	behind := c.Behind()
	height, err := c.lookup.Block(ctx, args.BlockID)
	var found answer
	switch {
	case err == nil:
		if found, err = c.block(ctx, height, args.Encoding); err != nil {
			return err
		}
	case !errors.Is(err, lookup.ErrUnknown):
		return c.Failed(ctx, err)
	}
	if err != nil || found.id != args.BlockID {
		if behind {
			return rpc.ErrForward
		}
		return fmt.Errorf("couldn't get block with id %s: %w", args.BlockID, database.ErrNotFound)
	}
	reply.JSON = found.json
	return nil
}

// BlockByHeight answers getBlockByHeight.
func (c *Chain) BlockByHeight(ctx context.Context, args *api.GetBlockByHeightArgs, reply *rpc.Raw) error {
	before, err := c.before(ctx)
	if err != nil {
		return err
	}
	height := uint64(args.Height)
	status := c.Status()
	if status.Next <= before || height >= status.Next-before {
		if behind(status) {
			return rpc.ErrForward
		}
		return fmt.Errorf("couldn't get block at height %d: %w", height, database.ErrNotFound)
	}
	found, err := c.block(ctx, before+height, args.Encoding)
	reply.JSON = found.json
	return err
}

// block returns the answer about the block at an indexed height.
func (c *Chain) block(ctx context.Context, height uint64, encoding formatting.Encoding) (answer, error) {
	key := cacheKey{height: height, encoding: encoding}
	if a, ok := c.ready.Get(key); ok {
		return a, nil
	}
	inner, err := c.inner(ctx, height)
	if err != nil {
		return answer{}, err
	}
	a := answer{id: hashing.ComputeHash256Array(inner)}
	if a.json, err = c.answer("block", inner, encoding, c.Content.Block); err != nil {
		return answer{}, c.Failed(ctx, err)
	}
	c.ready.Set(key, a)
	return a, nil
}

// inner returns the container at a height, without its envelope.
func (c *Chain) inner(ctx context.Context, height uint64) ([]byte, error) {
	kept, err := c.containers.Get(ctx, c.Store, height)
	if errors.Is(err, container.ErrMissing) {
		return nil, rpc.ErrForward // not indexed: older than the first container
	}
	if err != nil {
		return nil, c.Failed(ctx, err)
	}
	// As in the node, bytes that parse as an envelope are one.
	if wrapped, err := proposer.ParseWithoutVerification(kept.Bytes); err == nil {
		return wrapped.Block(), nil
	}
	return kept.Bytes, nil
}

// answer returns the reply with b in the field name.
func (c *Chain) answer(name string, b []byte, encoding formatting.Encoding, asJSON func([]byte) ([]byte, error)) ([]byte, error) {
	out := make([]byte, 0, 2*len(b)+64)
	out = append(append(append(out, `{"`...), name...), `":`...)
	if encoding == formatting.JSON {
		content, err := asJSON(b)
		if err != nil {
			return nil, err
		}
		out = append(out, content...)
	} else {
		text, err := formatting.Encode(encoding, b)
		if err != nil {
			return nil, err
		}
		out = append(append(append(out, '"'), text...), '"')
	}
	return append(append(append(out, `,"encoding":"`...), encoding.String()...), `"}`...), nil
}

// Tx answers getTx. The error is database.ErrNotFound if the transaction does not exist.
func (c *Chain) Tx(ctx context.Context, args *api.GetTxArgs, reply *rpc.Raw) (err error) {
	key := cacheKey{tx: true, id: args.TxID, encoding: args.Encoding}
	if a, ok := c.ready.Get(key); ok {
		reply.JSON = a.json
		return nil
	}
	behind := c.Behind()
	tx, genesis, err := c.txBytes(ctx, args.TxID)
	if errors.Is(err, database.ErrNotFound) && behind {
		return rpc.ErrForward
	}
	if err != nil {
		return err
	}
	reply.JSON, err = c.answer("tx", tx, args.Encoding, func(b []byte) ([]byte, error) { return c.Content.TxJSON(b, genesis) })
	if err != nil {
		return c.Failed(ctx, err)
	}
	c.ready.Set(key, answer{args.TxID, reply.JSON})
	return nil
}

// txBytes returns a transaction and whether it is part of the genesis. The error is database.ErrNotFound if it is not
// indexed.
func (c *Chain) txBytes(ctx context.Context, id ids.ID) (tx []byte, genesis bool, err error) {
	if b, ok := c.Genesis[id]; ok {
		return b, true, nil
	}
	found, err := c.Find(ctx, id)
	return found.Bytes, false, err
}

// Tx is an indexed transaction.
type Tx struct {
	Bytes []byte
	// Height is the height of its block's container.
	Height uint64
	// Proposed reports that the next block decides about the transaction.
	Proposed bool
}

// Find returns a transaction by its ID. The error is database.ErrNotFound if the transaction is not indexed, or only
// part of the genesis.
func (c *Chain) Find(ctx context.Context, id ids.ID) (tx Tx, err error) {
	place, err := c.lookup.Tx(ctx, id)
	if errors.Is(err, lookup.ErrUnknown) {
		return Tx{}, database.ErrNotFound
	}
	if err != nil {
		return Tx{}, c.Failed(ctx, err)
	}
	block, err := c.inner(ctx, place.Height)
	if err != nil {
		return Tx{}, err
	}
	before, err := c.before(ctx)
	if err != nil {
		return Tx{}, err
	}
	tx.Height = place.Height
	if tx.Bytes, tx.Proposed, err = c.Content.Tx(block, place.Index, place.Height < before); err != nil {
		return Tx{}, c.Failed(ctx, err)
	}
	if hashing.ComputeHash256Array(tx.Bytes) != id {
		return Tx{}, database.ErrNotFound // an ID with the same prefix
	}
	return tx, nil
}

// At returns the block at a height without its envelope, nil if it is not indexed. The chain must not have vertices
// before its blocks.
func (c *Chain) At(ctx context.Context, height uint64) ([]byte, error) {
	if height >= c.Status().Next {
		return nil, nil
	}
	return c.inner(ctx, height)
}

// Known reports whether a transaction is indexed, or part of the genesis.
func (c *Chain) Known(ctx context.Context, id ids.ID) (bool, error) {
	if _, ok := c.Genesis[id]; ok {
		return true, nil
	}
	_, err := c.Find(ctx, id)
	if errors.Is(err, database.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}
