// Package index keeps records of what accepted blocks say: a pipeline per
// blockchain fetches blocks, hands them in order to its tenants, who turn them
// into rows, and commits the rows together with how far they go. It knows neither
// what the rows mean nor who reads them. Accepted blocks are final, so that there
// is nothing to roll back; blocks that do not follow one another end the pipeline.
package index

import (
	"context"
	"errors"
	"fmt"

	"github.com/ava-labs/avalanchego/ids"

	"quorate/internal/index/container"
	"quorate/internal/store"
)

var (
	// ErrUnreadable says that a block is of no kind that this version knows:
	// asking again is of no use, a newer version is needed.
	ErrUnreadable = errors.New("block cannot be read")
	// ErrDiscontinuity says that a block does not follow the one before: the node
	// is on another chain than the one that was recorded.
	ErrDiscontinuity = errors.New("block does not follow the one before")
)

// BlockError ends a pipeline: it says at which block.
type BlockError struct {
	Chain  string
	Height uint64
	Err    error
}

func (e *BlockError) Error() string {
	return fmt.Sprintf("indexing block %d of chain %s: %v", e.Height, e.Chain, e.Err)
}

func (e *BlockError) Unwrap() error { return e.Err }

// RetryError is an error of Tenant.Apply that passes by itself. The pipeline shows it in
// its Status, and calls Apply with the same block until there is another result.
type RetryError struct {
	// What names the work that fails, in the status, the log and the metrics.
	What string
	Err  error
}

func (e *RetryError) Error() string { return e.What + ": " + e.Err.Error() }

func (e *RetryError) Unwrap() error { return e.Err }

// Block is an accepted block, and what a pipeline asks of it.
type Block[B any] struct {
	Height       uint64
	ID, ParentID ids.ID
	// Size is what Content takes in memory, in bytes; an estimate will do.
	Size int
	// Content is what tenants are given.
	Content B
	// Container is what the block was read from; empty if its source is no Keeper.
	Container container.Container
}

// Source is where a chain's accepted blocks come from. Its methods are called from
// several goroutines, and block for as long as a node takes.
type Source[B any] interface {
	// Tip is the height of the last accepted block. An error is retried.
	Tip(ctx context.Context) (uint64, error)
	// Fetch returns the blocks from a height on, in order and without gaps: at
	// least one, at most n, all accepted. An error is retried for ever, unless it is
	// ErrUnreadable, which speaks of the block at that height.
	Fetch(ctx context.Context, from uint64, n int) ([]Block[B], error)
}

// Keeper is a Source whose blocks come with their containers, from which it can read
// them again.
type Keeper[B any] interface {
	Source[B]
	// Again reads a block from its container.
	Again(ctx context.Context, c container.Container) (Block[B], error)
}

// Noter is a Source that may have a remark about the blocks it brings, such as what they
// lack, for people who look at Status.
type Noter interface {
	// Note is the remark as of now, empty if there is none.
	Note() string
}

// Beginner is a Source that may lack the first blocks of its chain.
type Beginner interface {
	// First returns the first height from which on the source has all blocks; 0 if it
	// lacks none. It is called before an index is begun. An error is retried.
	First(ctx context.Context) (uint64, error)
}

// Tenant keeps one record of a chain. All its rows follow from the chain's blocks,
// so that writing them twice makes no difference.
type Tenant[B any] interface {
	// Name is part of the name of the tenant's cursor in the store. How a tenant whose
	// rows change their form begins anew is told at Form.
	Name() string
	// Apply adds what follows from a block to a batch. Blocks come one at a time
	// and in order, the genesis block first if the pipeline begins with it. r does
	// not show the rows of batch yet, nor, for a while, those of the batch before. The
	// batch keeps the slices it is given. A *RetryError must leave the batch and the tenant
	// as they were. Any other error ends the pipeline and drops the batch.
	Apply(ctx context.Context, r store.Reader, block B, batch *store.Batch) error
}

// Cursor is the name of a tenant's cursor in the store: its Next is the height of
// the first block that is not recorded yet.
func Cursor(networkID uint32, chain, tenant string) string {
	return fmt.Sprintf("index/%d/%s/%s", networkID, chain, tenant)
}
