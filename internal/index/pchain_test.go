package index_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"

	"quorate/internal/chain/pchain"
	"quorate/internal/chain/pchain/pchaintest"
	"quorate/internal/index"
	"quorate/internal/index/l1"
	"quorate/internal/node"
	"quorate/internal/store"
)

// history makes a chain with some of everything in it: about one in ten blocks is
// about L1s.
func history(blocks int) *pchaintest.Chain {
	chain := pchaintest.New(5)
	rng := rand.New(rand.NewPCG(7, 7))
	type validator struct {
		id    ids.ID
		nonce uint64
	}
	var validators []validator
	for i := uint64(0); chain.Next() < uint64(blocks); i++ {
		subnet := ids.ID{'s', byte(i), byte(i >> 8), byte(i >> 16)}
		switch n := rng.IntN(100); {
		case n < 2:
			chain.Standard(chain.Convert(subnet, ids.ID{'m'}, []byte("address"), 3))
			validators = append(validators, validator{id: subnet.Append(1)})
		case n < 5:
			m := pchaintest.Registration(ids.ID{'s'}, ids.NodeID{byte(i), byte(i >> 8), 1}, i)
			chain.Standard(chain.Transfer(i), chain.Register(m))
			validators = append(validators, validator{id: m.ValidationID()})
		case n < 10 && len(validators) > 0:
			v := &validators[rng.IntN(len(validators))]
			chain.Standard(chain.SetWeight(v.id, v.nonce, 1+uint64(rng.IntN(5))))
			v.nonce++
		case n < 12:
			chain.Proposal(chain.Reward(subnet), rng.IntN(2) == 0, chain.Transfer(i))
		default:
			chain.Standard(chain.Transfer(i))
		}
	}
	return chain
}

// pipeline records the P-Chain's L1s from a source.
func pipeline(t testing.TB, from *index.PChainSource, s store.Store) *index.Pipeline[*pchain.Block] {
	t.Helper()
	p, err := index.New(index.Options[*pchain.Block]{
		NetworkID: 5, Chain: index.PChain, Source: from, Store: s, Poll: 10 * time.Millisecond,
		Projections: []index.Projection[*pchain.Block]{l1.NewProjection(5)},
	})
	require.NoError(t, err)
	return p
}

// until runs a pipeline until it has indexed all blocks below next.
func until(t testing.TB, p *index.Pipeline[*pchain.Block], next uint64) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	require.Eventually(t, func() bool { return p.Status().Next >= next }, 2*time.Minute, time.Millisecond, "blocks below %d", next)
	cancel()
	require.NoError(t, <-ended)
}

// dump is the hash of all that a store holds, but for how often the writers of the
// record changed.
func dump(t testing.TB, s store.Store) [32]byte {
	t.Helper()
	name := index.Cursor(5, index.PChain, "l1")
	at, err := store.ReadCursor(t.Context(), s, name)
	require.NoError(t, err)
	var b store.Batch
	b.Move(name, at, store.Cursor{Next: at.Next, Epoch: 1})
	require.NoError(t, s.Commit(t.Context(), &b))
	hash, err := store.DumpHash(t.Context(), s)
	require.NoError(t, err)
	return hash
}

// want is the dump of a store in which a projection indexed a chain, by itself.
func want(t testing.TB, chain *pchaintest.Chain) [32]byte {
	t.Helper()
	s := store.NewMemory()
	defer s.Close()
	projection := l1.NewProjection(5)
	var batch store.Batch
	for _, b := range chain.Blocks {
		block, err := pchain.ParseBlock(b.Bare)
		require.NoError(t, err)
		require.NoError(t, projection.Apply(t.Context(), s, block, &batch))
	}
	name, last := index.Cursor(5, index.PChain, "l1"), chain.Blocks[len(chain.Blocks)-1].ID
	batch.Put(store.FamilyIndexed, store.PK{P: []byte(name)}, append([]byte{1, 0}, last[:]...))
	batch.Move(name, store.Cursor{}, store.Cursor{Next: chain.Next(), Epoch: 1})
	require.NoError(t, s.Commit(t.Context(), &batch))
	return dump(t, s)
}

// TestSources indexes the same chain from every kind of node.
func TestSources(t *testing.T) {
	chain := history(3000)
	wanted := want(t, chain)
	for name, test := range map[string]struct {
		nodes func() []*fakeNode
		check func(t *testing.T, nodes []*fakeNode)
	}{
		"with ranges": {
			func() []*fakeNode { return []*fakeNode{newFakeNode(t, chain, true)} },
			func(t *testing.T, nodes []*fakeNode) {
				require.Equal(t, 1, nodes[0].count("platform.getBlockByHeight"), "the genesis block")
			},
		},
		"one by one": {
			func() []*fakeNode { return []*fakeNode{newFakeNode(t, chain, false)} },
			func(t *testing.T, nodes []*fakeNode) {
				require.Equal(t, 3000, nodes[0].count("platform.getBlockByHeight"))
				require.LessOrEqual(t, nodes[0].count("index.getContainerRange"), 4, "one try by each fetcher")
			},
		},
		"an index that began late": {
			func() []*fakeNode {
				n := newFakeNode(t, chain, true)
				n.missing = 1000
				return []*fakeNode{n}
			},
			func(t *testing.T, nodes []*fakeNode) {
				require.Equal(t, 3000, nodes[0].count("platform.getBlockByHeight"))
			},
		},
		"short ranges": {
			func() []*fakeNode {
				n := newFakeNode(t, chain, true)
				n.most = 100
				return []*fakeNode{n}
			},
			func(t *testing.T, nodes []*fakeNode) {
				if got := nodes[0].count("platform.getBlockByHeight"); got > 300 {
					t.Errorf("got %d blocks one by one, want few: ranges work, if not too long", got)
				}
			},
		},
		"ranges are forbidden": {
			func() []*fakeNode {
				n := newFakeNode(t, chain, true)
				n.forbidden = true
				return []*fakeNode{n}
			},
			func(t *testing.T, nodes []*fakeNode) {
				require.Equal(t, 3000, nodes[0].count("platform.getBlockByHeight"))
				if got := nodes[0].count("index.getContainerRange"); got > 40 {
					t.Errorf("got %d calls for a range, want an end of trying", got)
				}
			},
		},
		"the second of two keeps an index": {
			func() []*fakeNode {
				return []*fakeNode{newFakeNode(t, chain, false), newFakeNode(t, chain, true)}
			},
			func(t *testing.T, nodes []*fakeNode) {
				got := nodes[0].count("platform.getBlockByHeight") + nodes[1].count("platform.getBlockByHeight")
				require.Equal(t, 1, got, "the genesis block")
			},
		},
		"the first of two lags behind": {
			func() []*fakeNode {
				n := newFakeNode(t, chain, true)
				n.accepted = 1500
				n.broken = func() bool { return n.calls["platform.getHeight"] > 3 }
				return []*fakeNode{n, newFakeNode(t, chain, true)}
			},
			func(*testing.T, []*fakeNode) {},
		},
	} {
		t.Run(name, func(t *testing.T) {
			nodes := test.nodes()
			s := store.NewMemory()
			defer s.Close()
			until(t, pipeline(t, source(t, nodes...), s), chain.Next())
			require.Equal(t, wanted, dump(t, s), "dump of the record")
			test.check(t, nodes)
		})
	}
}

// TestFlapping cuts a tenth of all connections while the chain grows.
func TestFlapping(t *testing.T) {
	chain := history(1000)
	wanted := want(t, chain)
	for _, ranges := range []bool{true, false} {
		t.Run(fmt.Sprintf("ranges %t", ranges), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(1, 1))
			n := newFakeNode(t, chain, ranges)
			n.accepted = 1
			n.broken = func() bool {
				n.accepted = min(n.accepted+uint64(rng.IntN(100)), chain.Next())
				return rng.IntN(10) == 0
			}
			s := store.NewMemory()
			defer s.Close()
			until(t, pipeline(t, source(t, n), s), chain.Next())
			require.Equal(t, wanted, dump(t, s))
		})
	}
}

// TestAnotherNetwork is pointed at a node whose chain is not the indexed one.
func TestAnotherNetwork(t *testing.T) {
	s := store.NewMemory()
	defer s.Close()
	chain, other := history(50), pchaintest.New(6)
	for other.Next() < 100 {
		other.Standard()
	}
	until(t, pipeline(t, source(t, newFakeNode(t, chain, true)), s), chain.Next())
	err := pipeline(t, source(t, newFakeNode(t, other, true)), s).Run(t.Context())
	var at *index.BlockError
	require.ErrorAs(t, err, &at)
	require.Equal(t, chain.Next(), at.Height)
	require.ErrorIs(t, err, index.ErrDiscontinuity)
	require.Equal(t, want(t, chain), dump(t, s))
}

// scripted answers as its functions do.
type scripted struct {
	one   func(height uint64) ([]byte, error)
	some  func(start uint64, n int) ([]node.Container, error)
	asked int // for ranges
}

func (*scripted) Height(context.Context) (uint64, error) { return 1000, nil }

func (s *scripted) BlockByHeight(_ context.Context, height uint64) ([]byte, error) {
	return s.one(height)
}

func (s *scripted) BlockRange(_ context.Context, start uint64, n int) ([]node.Container, error) {
	s.asked++
	return s.some(start, n)
}

func TestFetch(t *testing.T) {
	chain := history(300)
	ctx := t.Context()
	one := func(height uint64) ([]byte, error) {
		if height >= 300 {
			return nil, node.ErrBeyondTip
		}
		return chain.Blocks[height].Bare, nil
	}
	some := func(start uint64, n int) ([]node.Container, error) {
		if start >= 299 {
			return nil, node.ErrBeyondTip
		}
		var all []node.Container
		for i := start; i < 299 && i < start+uint64(n); i++ {
			all = append(all, node.Container{Index: i, Bytes: chain.Blocks[i+1].Enveloped})
		}
		return all, nil
	}
	notOffered := func(uint64, int) ([]node.Container, error) {
		return nil, fmt.Errorf("P: %w", &node.RPCError{Code: 404})
	}
	down := func(uint64, int) ([]node.Container, error) { return nil, node.ErrUnavailable }
	heights := func(blocks []index.Block[*pchain.Block]) (all []uint64) {
		for _, b := range blocks {
			require.Equal(t, b.Height, b.Content.Height)
			require.Equal(t, chain.Blocks[b.Height].ID, b.ID)
			all = append(all, b.Height)
		}
		return all
	}
	count := func(from uint64, n int) (all []uint64) {
		for i := range n {
			all = append(all, from+uint64(i))
		}
		return all
	}
	t.Run("ranges", func(t *testing.T) {
		s := index.NewPChainSource(&scripted{one: one, some: some}, nil)
		for _, test := range []struct{ from, n, want int }{{0, 10, 1}, {1, 10, 10}, {7, 1, 1}, {250, 100, 50}, {299, 5, 1}} {
			got, err := s.Fetch(ctx, uint64(test.from), test.n)
			require.NoError(t, err)
			require.Equal(t, count(uint64(test.from), test.want), heights(got))
		}
		_, err := s.Fetch(ctx, 300, 1)
		require.ErrorIs(t, err, node.ErrBeyondTip)
	})
	t.Run("singles", func(t *testing.T) {
		s := index.NewPChainSource(&scripted{one: one, some: notOffered}, nil)
		for _, test := range []struct{ from, n, want int }{{0, 10, 1}, {1, 10, 10}, {1, 200, 64}, {290, 50, 10}} {
			got, err := s.Fetch(ctx, uint64(test.from), test.n)
			require.NoError(t, err)
			require.Equal(t, count(uint64(test.from), test.want), heights(got))
		}
		_, err := s.Fetch(ctx, 300, 10)
		require.ErrorIs(t, err, node.ErrBeyondTip)
	})
	t.Run("an index that began late", func(t *testing.T) {
		// It has the blocks from 250 on: as many places as the chain has blocks there are not.
		late := func(start uint64, n int) ([]node.Container, error) {
			if start >= 50 {
				return nil, node.ErrBeyondTip
			}
			return []node.Container{{Index: start, Bytes: chain.Blocks[250+start].Enveloped}}, nil
		}
		n := &scripted{one: one, some: late}
		s := index.NewPChainSource(n, nil)
		for range 3 {
			got, err := s.Fetch(ctx, 200, 10)
			require.NoError(t, err)
			require.Equal(t, count(200, 10), heights(got))
		}
		require.Equal(t, 1, n.asked, "not each time anew")
		_, err := s.Fetch(ctx, 300, 1)
		require.ErrorIs(t, err, node.ErrBeyondTip)
	})
	t.Run("a method that the node does not offer", func(t *testing.T) {
		lacks := func(uint64) ([]byte, error) {
			return nil, &node.RPCError{Method: "platform.getBlockByHeight", Code: -32601, Message: "the method does not exist"}
		}
		_, err := index.NewPChainSource(&scripted{one: lacks, some: notOffered}, nil).Fetch(ctx, 10, 5)
		var missing *index.MissingError
		require.ErrorAs(t, err, &missing)
		require.Equal(t, "the node does not offer platform.getBlockByHeight", missing.Lacks)
	})
	t.Run("an index that is switched on", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			n := &scripted{one: one, some: notOffered}
			s := index.NewPChainSource(n, nil)
			for range 20 {
				_, err := s.Fetch(t.Context(), 1, 10)
				require.NoError(t, err)
			}
			require.Equal(t, 1, n.asked, "not each time anew")
			n.some = some
			time.Sleep(2 * time.Minute)
			for range 20 {
				_, err := s.Fetch(t.Context(), 1, 10)
				require.NoError(t, err)
			}
			require.Equal(t, 21, n.asked)
		})
	})
	t.Run("a node that is down", func(t *testing.T) {
		away := func(uint64) ([]byte, error) { return nil, node.ErrUnavailable }
		n := &scripted{one: away, some: down}
		s := index.NewPChainSource(n, nil)
		for range 20 {
			_, err := s.Fetch(ctx, 1, 10)
			require.ErrorIs(t, err, node.ErrUnavailable)
		}
		n.one, n.some = one, some
		got, err := s.Fetch(ctx, 1, 200)
		require.NoError(t, err)
		require.Len(t, got, 200, "ranges are not given up because the node was away")
	})
	t.Run("unreadable", func(t *testing.T) {
		bad := func(bytes []byte) []byte { return append([]byte{0, 77}, bytes[2:]...) }
		badOne := func(height uint64) ([]byte, error) {
			b, err := one(height)
			if height == 20 {
				b = bad(b)
			}
			return b, err
		}
		badSome := func(start uint64, n int) ([]node.Container, error) {
			all, err := some(start, n)
			for i := range all {
				if all[i].Index == 19 {
					all[i].Bytes = bad(all[i].Bytes)
				}
			}
			return all, err
		}
		for name, s := range map[string]*index.PChainSource{
			"ranges":  index.NewPChainSource(&scripted{one: badOne, some: badSome}, nil),
			"singles": index.NewPChainSource(&scripted{one: badOne, some: notOffered}, nil),
		} {
			got, err := s.Fetch(ctx, 10, 50)
			require.NoError(t, err, name)
			require.Equal(t, count(10, 10), heights(got), "%s: the blocks before", name)
			_, err = s.Fetch(ctx, 20, 50)
			require.ErrorIs(t, err, index.ErrUnreadable, name)
			require.ErrorIs(t, err, pchain.ErrBlock, name)
		}
	})
	t.Run("the wrong block", func(t *testing.T) {
		shifted := func(height uint64) ([]byte, error) { return one(height + 1) }
		_, err := index.NewPChainSource(&scripted{one: shifted, some: notOffered}, nil).Fetch(ctx, 10, 5)
		require.ErrorIs(t, err, node.ErrMalformed)
	})
	t.Run("cancelled", func(t *testing.T) {
		ctx, cancel := context.WithCancel(ctx)
		cancel()
		n := &scripted{one: one, some: func(uint64, int) ([]node.Container, error) { return nil, ctx.Err() }}
		_, err := index.NewPChainSource(n, nil).Fetch(ctx, 10, 5)
		if !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want context.Canceled", err)
		}
	})
}
