package p2p

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/proto/pb/p2p"
)

// TestExchanges sends a node each kind of request. A reply of another kind, to another request or
// about another chain does not count.
func TestExchanges(t *testing.T) {
	id, other := ids.ID{1}, ids.ID{2}
	type result struct {
		got any
		err error
	}
	for name, tc := range map[string]struct {
		ask     func(ctx context.Context, p *partner) (any, error)
		request func(p *partner) uint32 // reads the request and returns its ID
		reply   func(requestID uint32, chainID ids.ID) *p2p.Message
		want    any
	}{
		"frontier": {
			func(ctx context.Context, p *partner) (any, error) { return p.n.AcceptedFrontier(ctx, p.id, testChain) },
			func(p *partner) uint32 {
				return next[*p2p.Message_GetAcceptedFrontier](p).GetAcceptedFrontier.GetRequestId()
			},
			func(requestID uint32, chainID ids.ID) *p2p.Message {
				return &p2p.Message{Message: &p2p.Message_AcceptedFrontier_{AcceptedFrontier_: &p2p.AcceptedFrontier{ChainId: chainID[:], RequestId: requestID, ContainerId: id[:]}}}
			},
			id,
		},
		"accepted": {
			func(ctx context.Context, p *partner) (any, error) {
				return p.n.Accepted(ctx, p.id, testChain, []ids.ID{id})
			},
			func(p *partner) uint32 { return next[*p2p.Message_GetAccepted](p).GetAccepted.GetRequestId() },
			func(requestID uint32, chainID ids.ID) *p2p.Message {
				return &p2p.Message{Message: &p2p.Message_Accepted_{Accepted_: &p2p.Accepted{ChainId: chainID[:], RequestId: requestID, ContainerIds: [][]byte{other[:], id[:], {1}}}}}
			},
			[]ids.ID{id},
		},
		"container": {
			func(ctx context.Context, p *partner) (any, error) { return p.n.Container(ctx, p.id, testChain, id) },
			func(p *partner) uint32 { return next[*p2p.Message_Get](p).Get.GetRequestId() },
			func(requestID uint32, chainID ids.ID) *p2p.Message {
				return &p2p.Message{Message: &p2p.Message_Put{Put: &p2p.Put{ChainId: chainID[:], RequestId: requestID, Container: []byte("block")}}}
			},
			[]byte("block"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, Config{}, func(t *testing.T, p *partner) {
				p.greet(nil)
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				results := make(chan result, 1)
				go func() {
					got, err := tc.ask(ctx, p)
					results <- result{got, err}
				}()
				requestID := tc.request(p)
				p.send(tc.reply(requestID+2, testChain))
				p.send(tc.reply(requestID, ids.ID{9}))
				p.send(&p2p.Message{Message: &p2p.Message_Ancestors_{Ancestors_: &p2p.Ancestors{ChainId: testChain[:], RequestId: requestID}}})
				synctest.Wait()
				require.Empty(t, results)
				p.send(tc.reply(requestID, testChain))
				r := <-results
				require.NoError(t, r.err)
				require.Equal(t, tc.want, r.got)
				p.send(tc.reply(requestID, testChain)) // unasked
				require.True(t, p.n.Connected(p.id))
				require.Zero(t, p.s.credit.Load())
				require.Zero(t, p.n.calls.len())
			})
		})
	}
}

// TestFrontierHasNoCredit requests lists of IDs, which are small. The node's rate limit stays.
func TestFrontierHasNoCredit(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, p *partner) {
		p.greet(nil)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			_, err := p.n.AcceptedFrontier(ctx, p.id, testChain)
			ended <- err
		}()
		next[*p2p.Message_GetAcceptedFrontier](p)
		require.Zero(t, p.s.credit.Load())
		cancel()
		require.ErrorIs(t, <-ended, context.Canceled)
	})
}
