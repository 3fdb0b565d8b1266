package peernode

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/constants"
	"github.com/ava-labs/avalanchego/utils/hashing"
	"github.com/ava-labs/avalanchego/utils/wrappers"
	proposer "github.com/ava-labs/avalanchego/vms/proposervm/block"

	"quorate/internal/node"
)

// countingPeers counts the requests to the first node: all of them, those that are open, and the most open at a time.
type countingPeers struct {
	*network
	asked, open, most atomic.Int64
}

func (p *countingPeers) AcceptedFrontier(ctx context.Context, nodeID ids.NodeID, chainID ids.ID) (ids.ID, error) {
	if nodeID == p.nodes[0] {
		p.asked.Add(1)
		if open := p.open.Add(1); open > p.most.Load() {
			p.most.Store(open)
		}
		defer p.open.Add(-1)
		time.Sleep(10 * time.Millisecond)
	}
	return p.network.AcceptedFrontier(ctx, nodeID, chainID)
}

// TestEpochsLeaveExchanges makes many calls for an epoch. They share a poll, and leave an exchange to the follower.
func TestEpochsLeaveExchanges(t *testing.T) {
	r, g := record(t)
	peers := &countingPeers{network: newNetwork(r, g)}
	node, err := New(options(r, g, peers.network))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- node.Run(ctx, peers) }()
	require.Eventually(t, func() bool { return confirmedAt(len(r.P))(node.Status()) }, time.Minute, time.Millisecond)
	before := peers.asked.Load()
	var calls sync.WaitGroup
	for range 100 {
		calls.Go(func() {
			_, err := node.epoch(t.Context(), constants.PlatformChainID)
			if err != nil {
				t.Error(err)
			}
		})
	}
	calls.Wait()
	require.LessOrEqual(t, peers.asked.Load()-before, int64(10))
	require.LessOrEqual(t, peers.most.Load(), int64(2))

	// A minority that stays behind does not hold the epoch back.
	time.Sleep(pollInterval)
	peers.accept(20, peers.nodes[:2]...)
	status, answer := call(t, node, "/ext/bc/P/proposervm", "proposervm.getCurrentEpoch", "{}")
	require.Equal(t, http.StatusServiceUnavailable, status, answer)
	require.Contains(t, answer, errNewer.Error())
	cancel()
	require.NoError(t, <-ended)
}

// last looks up the last block of a chain, as Node.epoch does, on a network that is younger than the block.
func (v *voting) last(ctx context.Context, t *tips, chainID ids.ID) (*lastBlock, error) {
	return t.get(ctx, chainID, func(ctx context.Context) (*lastBlock, error) {
		return findLast(ctx, v, chainID, v.weights, time.Unix(2000, 0), newCounter())
	})
}

var servedEpoch = proposer.Epoch{PChainHeight: 3, Number: 2, StartTime: 900}

// enveloped returns a block in a proposer envelope at a P-Chain height.
func enveloped(t testing.TB, pChainHeight uint64) proposer.SignedBlock {
	t.Helper()
	b, err := proposer.BuildUnsigned(ids.ID{'p'}, time.Unix(1000, 0), pChainHeight, servedEpoch, []byte("block"))
	require.NoError(t, err)
	return b
}

// serving returns nodes of equal weight with the same last block, which each of them serves.
func serving(t testing.TB, nodes int) (*voting, proposer.SignedBlock) {
	t.Helper()
	tip := enveloped(t, 5)
	v := newVoting(nodes, tip.ID())
	v.container = func(context.Context, ids.NodeID, ids.ID) ([]byte, error) { return tip.Bytes(), nil }
	return v, tip
}

func requireLast(t testing.TB, last *lastBlock, err error) {
	t.Helper()
	require.NoError(t, err)
	require.Equal(t, &lastBlock{true, 5, servedEpoch, time.Unix(1000, 0)}, last)
}

// TestUnansweredRequestsDoNotDelayEpochs: first one of 32 voters never answers, then the first node that is asked for the
// block does not.
func TestUnansweredRequestsDoNotDelayEpochs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v, tip := serving(t, 31)
		silent := v.add(1, 1, tip.ID())[0]
		v.delay = only(time.Hour, silent)
		began := time.Now()
		last, err := v.last(t.Context(), newTips(), ids.ID{'c'})
		requireLast(t, last, err)
		require.Less(t, time.Since(began), 500*time.Millisecond)

		var first atomic.Bool
		v.delay = nil
		v.container = func(ctx context.Context, _ ids.NodeID, _ ids.ID) ([]byte, error) {
			if first.CompareAndSwap(false, true) {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return tip.Bytes(), nil
		}
		began = time.Now()
		last, err = v.last(t.Context(), newTips(), ids.ID{'c'})
		requireLast(t, last, err)
		require.True(t, first.Load())
		require.Less(t, time.Since(began), 1500*time.Millisecond)
	})
}

// TestChainsDoNotDelayEachOther looks up a chain whose voters never answer, many times, and another one meanwhile. The
// first one's failure is cached.
func TestChainsDoNotDelayEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v, _ := serving(t, 10)
		silent, other := ids.ID{'s'}, ids.ID{'o'}
		var asked atomic.Int64
		v.delay = func(_ ids.NodeID, chainID ids.ID) time.Duration {
			if chainID != silent {
				return 0
			}
			asked.Add(1)
			return time.Hour
		}
		all := newTips()
		var calls sync.WaitGroup
		began := time.Now()
		for range 100 {
			calls.Go(func() {
				_, err := v.last(t.Context(), all, silent)
				if err == nil {
					t.Error("a chain without voters has a last block")
				}
			})
		}
		synctest.Wait()
		last, err := v.last(t.Context(), all, other)
		requireLast(t, last, err)
		require.Less(t, time.Since(began), 500*time.Millisecond)
		calls.Wait()
		require.Equal(t, voteTimeout, time.Since(began))
		require.Equal(t, int64(10), asked.Load(), "requests")
		time.Sleep(pollInterval)
		_, err = v.last(t.Context(), all, silent)
		require.ErrorContains(t, err, "none of 10 nodes reported")
		require.Equal(t, int64(20), asked.Load(), "requests")
	})
}

// TestLookupsAreBounded looks up more chains at a time than maxLookups. The excess lookup fails. A canceled call is
// not cached.
func TestLookupsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v, _ := serving(t, 10)
		all := newTips()
		stuck := func(ctx context.Context) (*lastBlock, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		ctx, cancel := context.WithCancel(t.Context())
		var calls sync.WaitGroup
		for i := range maxLookups {
			calls.Go(func() {
				if _, err := all.get(ctx, ids.ID{byte(i)}, stuck); err == nil {
					t.Error("a lookup that was canceled succeeded")
				}
			})
		}
		synctest.Wait()
		limited, end := context.WithTimeout(t.Context(), time.Second)
		defer end()
		_, err := v.last(limited, all, ids.ID{'o'})
		require.ErrorContains(t, err, "8 lookups for other chains are still running")
		cancel()
		calls.Wait()
		last, err := v.last(t.Context(), all, ids.ID{'o'})
		requireLast(t, last, err)
		last, err = v.last(t.Context(), all, ids.ID{0})
		requireLast(t, last, err)
		for i := range 2 * maxTips {
			last, err = v.last(t.Context(), all, ids.ID{'m', byte(i)})
			requireLast(t, last, err)
			require.LessOrEqual(t, len(all.byChain), maxTips)
		}
	})
}

// TestGenesisDoesNotHideTip has one of 32 voters name the genesis block, which all have accepted. Nodes
// first serve that block, then something else in its place.
func TestGenesisDoesNotHideTip(t *testing.T) {
	genesis := []byte("genesis")
	v, tip := serving(t, 31)
	v.oldest = hashing.ComputeHash256Array(genesis)
	v.add(1, 1, v.oldest)
	for _, sent := range [][]byte{genesis, []byte("something else")} {
		v.container = func(_ context.Context, _ ids.NodeID, id ids.ID) ([]byte, error) {
			if id == tip.ID() {
				return tip.Bytes(), nil
			}
			return sent, nil
		}
		last, err := v.last(t.Context(), newTips(), ids.ID{'c'})
		requireLast(t, last, err)
	}
	v.container = func(_ context.Context, _ ids.NodeID, id ids.ID) ([]byte, error) {
		if id == tip.ID() {
			return []byte("something else"), nil
		}
		return genesis, nil
	}
	_, err := v.last(t.Context(), newTips(), ids.ID{'c'})
	require.ErrorContains(t, err, "did not send block "+tip.ID().String())
}

// TestEnvelopeWithoutSignature has nodes send the last block without its signature, which its ID does not cover. The
// epoch is right.
func TestEnvelopeWithoutSignature(t *testing.T) {
	v, tip := serving(t, 5)
	v.container = func(context.Context, ids.NodeID, ids.ID) ([]byte, error) {
		return tip.Bytes()[:len(tip.Bytes())-wrappers.IntLen], nil
	}
	last, err := v.last(t.Context(), newTips(), ids.ID{'c'})
	requireLast(t, last, err)
}

// TestEpochOfChainWithoutBlocks asks for the epochs of chains whose last block is the genesis block, and of a chain
// that does not exist.
func TestEpochOfChainWithoutBlocks(t *testing.T) {
	n, o, r := newLedgerNetwork(t)
	o.Ledger = false
	n.chains[o.Genesis.XChainID].accept(1)
	follower, _ := started(t, o, n)
	await(t, follower, confirmedAt(len(r.P)))
	client, err := node.New(node.Options{Endpoints: []string{node.PeersEndpoint}, Peers: follower})
	require.NoError(t, err)
	defer client.Close()
	epoch := func(chainID ids.ID) node.Epoch {
		t.Helper()
		e, err := client.CurrentEpoch(t.Context(), chainID)
		require.NoError(t, err)
		return e
	}
	require.Equal(t, node.Epoch{Number: 1, StartTime: time.Unix(1_600_000_000, 0)}, epoch(o.Genesis.CChainID))
	require.Equal(t, node.Epoch{Number: 1, StartTime: time.Unix(o.Genesis.Time.Unix(), 0)}, epoch(o.Genesis.XChainID))

	// validators.Resolver takes a refusal for an unknown blockchain. The client does not repeat the call.
	unknown := ids.GenerateTestID()
	var refused *node.RPCError
	_, err = client.CurrentEpoch(t.Context(), unknown)
	require.ErrorAs(t, err, &refused)
	require.Equal(t, http.StatusNotFound, refused.Code)
	status, answer := call(t, follower, fmt.Sprintf("/ext/bc/%s/proposervm", unknown), "proposervm.getCurrentEpoch", "{}")
	require.Equal(t, http.StatusNotFound, status)
	require.Contains(t, answer, errUnknownBlockchain.Error())
}
