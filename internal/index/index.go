// Package index indexes accepted blocks. One pipeline per blockchain fetches blocks, applies them in order to its
// projections (type Projection), which turn blocks into rows, and commits the rows together with its position. The package
// does not interpret rows and does not know their readers. Accepted blocks are final, so nothing is ever rolled back. A
// block that does not follow its predecessor ends the pipeline.
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
	// ErrUnreadable means that this version cannot decode a block. Fetching it again does not help; upgrade quorate.
	ErrUnreadable = errors.New("block cannot be read")
	// ErrDiscontinuity means that a block does not follow the preceding one: the node serves a different chain than the
	// one that was indexed.
	ErrDiscontinuity = errors.New("block does not follow the one before")
	// ErrPosition means that a position cannot be decoded or does not belong to the list. Readers of all indexes return it.
	ErrPosition = errors.New("not a position in the list")
)

// BlockError is an error that ends a pipeline, with the block that caused it.
type BlockError struct {
	Chain  string
	Height uint64
	Err    error
}

func (e *BlockError) Error() string {
	return fmt.Sprintf("indexing block %d of chain %s: %v", e.Height, e.Chain, e.Err)
}

func (e *BlockError) Unwrap() error { return e.Err }

// RetryError is a temporary error of Projection.Apply. The pipeline reports it in its Status and calls Apply with the same
// block until the result differs.
type RetryError struct {
	// What names the failing work in the status, the log and the metrics.
	What string
	Err  error
}

func (e *RetryError) Error() string { return e.What + ": " + e.Err.Error() }

func (e *RetryError) Unwrap() error { return e.Err }

// Block is an accepted block with the properties that a pipeline needs.
type Block[B any] struct {
	Height       uint64
	ID, ParentID ids.ID
	// Size is the approximate memory of Content in bytes.
	Size int
	// Content is passed to the projections.
	Content B
	// Container is the encoded block; empty if the source is no ContainerSource.
	Container container.Container
}

// Source fetches a chain's accepted blocks. Its methods are called from several goroutines and block until the node
// replies.
type Source[B any] interface {
	// Tip returns the height of the last accepted block. The pipeline retries errors.
	Tip(ctx context.Context) (uint64, error)
	// Fetch returns between one and n accepted blocks from a height on, in order and without gaps. The pipeline retries
	// all errors except ErrUnreadable, which refers to the block at that height.
	Fetch(ctx context.Context, from uint64, n int) ([]Block[B], error)
}

// ContainerSource is a Source whose blocks carry containers, from which it can decode them again.
type ContainerSource[B any] interface {
	Source[B]
	// Again decodes a block from its container.
	Again(ctx context.Context, c container.Container) (Block[B], error)
}

// Noter is a Source with a remark for operators about its blocks, for example about missing parts. Status shows the
// remark.
type Noter interface {
	// Note returns the current remark, or an empty string.
	Note() string
}

// Beginner is a Source that may lack the first blocks of its chain.
type Beginner interface {
	// First returns the height from which on the source has all blocks; 0 if it lacks none. It is called before an
	// index begins. The pipeline retries errors.
	First(ctx context.Context) (uint64, error)
}

// Projection is a projection: it derives one index from a chain's blocks. Its rows depend only on blocks, so writing them
// twice has no effect.
type Projection[B any] interface {
	// Name is part of the name of the projection's cursor in the store. Form describes how an index whose row format
	// changes is rebuilt.
	Name() string
	// Apply adds the rows of a block to a batch. Blocks come one at a time and in order, beginning with the genesis
	// block if the pipeline does. r does not show the rows of batch and may not yet show those of the preceding batch. r
	// repeats a read until the store answers: its errors are permanent errors of the store, or the context's.
	// The batch retains the slices passed to it. If Apply returns a *RetryError, it must leave the batch and the projection
	// unchanged. Any other error ends the pipeline and drops the batch.
	Apply(ctx context.Context, r store.Reader, block B, batch *store.Batch) error
}

// Cursor returns the name of a projection's cursor in the store. The cursor's Next is the first height that is not indexed.
func Cursor(networkID uint32, chain, projection string) string {
	return fmt.Sprintf("index/%d/%s/%s", networkID, chain, projection)
}
