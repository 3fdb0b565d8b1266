package platform

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/ava-labs/avalanchego/ids"

	"quorate/handlers/rpc"
	"quorate/internal/bounded"
	"quorate/internal/node"
)

// current asks upstream nodes for state that the index does not have, once per height of the chain.
type current struct {
	upstream rpc.Upstream
	path     string
	// height changes with every block; it does not block.
	height  func() uint64
	answers *bounded.Cache[string, *answer]
	asking  singleflight.Group
	log     *slog.Logger
}

// answer is the answer of an upstream node.
type answer struct {
	result json.RawMessage
	err    error
	height uint64 // the height before the request
	at     time.Time
}

const (
	// currentBytes is the size of the cache.
	currentBytes = 64 << 20
	// freshFor is how long an answer is valid, even if the chain does not advance: connections change without it, and
	// the node that answered may have been behind.
	freshFor = 5 * time.Second
	// answerTimeout is the timeout of one answer.
	answerTimeout = 30 * time.Second
	// questionNodes is the maximum number of nodes in a question that is cached.
	questionNodes = 64
)

func newCurrent(upstream rpc.Upstream, path string, height func() uint64, log *slog.Logger) *current {
	return &current{
		upstream: upstream, path: path, height: height, log: log,
		answers: bounded.New(bounded.Options[string, *answer]{
			Weight: currentBytes,
			Weigh:  func(k string, a *answer) uint32 { return uint32(len(k)+len(a.result)) + 256 },
		}),
	}
}

// known returns the answer to a question, if it may still be returned.
func (c *current) known(question string) (a *answer, ok bool) {
	a, ok = c.answers.Get(question)
	return a, ok && a.height == c.height() && time.Since(a.at) < freshFor
}

// ask sets the reply to the result that upstream nodes return for method, with a subnet and sorted node IDs as
// parameters.
func (c *current) ask(ctx context.Context, method string, subnetID ids.ID, nodeIDs []ids.NodeID, args any, reply *rpc.Raw) error {
	a, err := c.answer(ctx, method, subnetID, nodeIDs, args)
	if err != nil {
		return err
	}
	reply.JSON = a.result
	return nil
}

func (c *current) answer(ctx context.Context, method string, subnetID ids.ID, nodeIDs []ids.NodeID, args any) (*answer, error) {
	if len(nodeIDs) > questionNodes {
		return nil, rpc.ErrForward
	}
	about := append(make([]byte, 0, 256), method...)
	about = append(about, subnetID[:]...)
	for i := range nodeIDs {
		about = append(about, nodeIDs[i][:]...)
	}
	question := string(about)
	if a, ok := c.known(question); ok {
		return a, a.err
	}
	params, err := json.Marshal(args)
	if err != nil {
		return nil, err
	}
	// The request continues when one of its callers leaves. Requests at different heights do not share an answer: a
	// caller may know the later height.
	shared, done := node.Outlive(context.WithoutCancel(ctx))
	height := c.height()
	coming := c.asking.DoChan(fmt.Sprint(height, question), func() (any, error) {
		defer done()
		if a, ok := c.known(question); ok { // since the caller looked
			return a, a.err
		}
		ctx, cancel := context.WithTimeout(shared, answerTimeout)
		defer cancel()
		a := &answer{height: height, at: time.Now()}
		if a.err = rpc.Ask(ctx, c.upstream, c.path, method, params, &a.result); a.err == nil || errors.As(a.err, new(rpc.RefusalError)) {
			c.answers.Set(question, a)
		}
		return a, a.err
	})
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case r := <-coming:
		if r.Err != nil {
			return nil, rpc.Unanswered(c.log, method, r.Err)
		}
		return r.Val.(*answer), nil //nolint:forcetypeassert // asking returns only this type
	}
}
