package node

import (
	"context"
	"errors"
	"fmt"

	"github.com/ava-labs/avalanchego/ids"
)

// ErrNoPast says that none of the nodes has what is asked for of the time before the
// X-Chain had blocks: all that was accepted then, or the very index that another part
// came from.
var ErrNoPast = errors.New("no node has what the X-Chain accepted before it had blocks")

// XChainPast are the last vertex and the last transaction that one and the same node
// accepted before the X-Chain had blocks, and with them how many there were. The
// vertex is the one whose ID is given, which all others come before (avalanchego
// snow/engine/avalanche): so a node that has it has them all, unless it began to keep
// its index late.
//
// Errors are ErrNoPast, ErrUnavailable if that may be otherwise at a node that does
// not answer, or ctx's own.
func (c *Client) XChainPast(ctx context.Context, stopVertexID ids.ID) (vertex, tx Container, err error) {
	err = c.search(ctx, func(call caller) (err error) {
		if vertex, err = lastContainer(ctx, call, XChainVertices); err != nil {
			return err
		}
		if vertex.ID != stopVertexID {
			return fmt.Errorf("its index of vertices ends with %s, and not with %s, which the first block follows", vertex.ID, stopVertexID)
		}
		tx, err = lastContainer(ctx, call, XChainTxs)
		return err
	})
	return vertex, tx, err
}

// ContainersUpTo is Containers of one certain index to which nothing is added any
// more: the one that ends with last. No two nodes accepted vertices and transactions
// in the same order, and none at the same times, so that the end tells them apart.
// Errors are as of XChainPast.
func (c *Client) ContainersUpTo(ctx context.Context, index Index, last Container, start uint64, n int) (found []Container, err error) {
	err = c.search(ctx, func(call caller) error {
		end, err := lastContainer(ctx, call, index)
		if err != nil {
			return err
		}
		if end.ID != last.ID || end.Index != last.Index || !end.Accepted.Equal(last.Accepted) {
			return errors.New("its index is not the one that the record was begun with, whose order is its own")
		}
		found, err = containers(ctx, call, index, start, n)
		return err
	})
	return found, err
}

// search asks one endpoint after the other until one has what f wants.
func (c *Client) search(ctx context.Context, f func(caller) error) error {
	var failures []error
	away := false
	for _, i := range c.order() {
		e := c.endpoints[i]
		var refused *RPCError
		answered := false
		err := f(func(ctx context.Context, path, method string, args, reply any) error {
			err := c.ask(ctx, e, path, method, args, reply)
			answered = err == nil || errors.As(err, &refused)
			return err
		})
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return fmt.Errorf("asking for the X-Chain's past: %w", ctx.Err())
		}
		away = away || !answered
		failures = append(failures, fmt.Errorf("%s: %w", e.name, err))
	}
	kind := ErrNoPast
	if away {
		kind = ErrUnavailable
	}
	return fmt.Errorf("%w: %w", kind, errors.Join(failures...))
}
