package peernode

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/database/prefixdb"
	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/proto/pb/p2p"

	"quorate/internal/chain/genesis"
	"quorate/internal/testenv"
)

// slowNetwork is nodes of which the validators are the first ones. Each answers after a time.
type slowNetwork struct {
	*busyNetwork
	refuse func(ctx context.Context, nodeID ids.NodeID, alone bool) error // may be nil
	votes  func() ids.ID                                                  // may be nil; empty if the network's tip is right
	served map[ids.NodeID]int                                             // guarded by counts
}

// newSlowNetwork returns a network with nodes that do not validate besides.
func newSlowNetwork(r *recording, g *genesis.Genesis, others int, delay time.Duration) *slowNetwork {
	n := &slowNetwork{busyNetwork: newBusyNetwork(r, g), served: make(map[ids.NodeID]int)}
	for range others {
		n.nodes = append(n.nodes, ids.GenerateTestNodeID())
	}
	n.accept(len(r.P))
	n.delay = delay
	return n
}

func (n *slowNetwork) AcceptedFrontier(ctx context.Context, nodeID ids.NodeID, chainID ids.ID) (ids.ID, error) {
	if n.votes != nil && n.votes() != ids.Empty {
		return n.votes(), nil
	}
	return n.network.AcceptedFrontier(ctx, nodeID, chainID)
}

func (n *slowNetwork) Accepted(ctx context.Context, nodeID ids.NodeID, chainID ids.ID, of []ids.ID) ([]ids.ID, error) {
	if n.votes != nil && n.votes() != ids.Empty {
		return of, nil
	}
	return n.network.Accepted(ctx, nodeID, chainID, of)
}

func (n *slowNetwork) Container(ctx context.Context, nodeID ids.NodeID, chainID, id ids.ID) ([]byte, error) {
	if n.refuse != nil {
		if err := n.refuse(ctx, nodeID, true); err != nil {
			return nil, err
		}
	}
	return n.busyNetwork.Container(ctx, nodeID, chainID, id)
}

func (n *slowNetwork) Ancestors(ctx context.Context, nodeID ids.NodeID, chainID, id ids.ID, engine p2p.EngineType) ([][]byte, error) {
	if n.refuse != nil {
		if err := n.refuse(ctx, nodeID, false); err != nil {
			return nil, err
		}
	}
	all, err := n.busyNetwork.Ancestors(ctx, nodeID, chainID, id, engine)
	n.counts.Lock()
	defer n.counts.Unlock()
	n.served[nodeID] += len(all)
	return all, err
}

// takes runs a node in simulated time until it has confirmed a height, and returns how long that took.
func takes(t *testing.T, o Options, peers Peers, height int) time.Duration {
	t.Helper()
	node, err := New(o)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	began := time.Now()
	go func() { ended <- node.Run(ctx, peers) }()
	for !confirmedAt(height)(node.Status()) && time.Since(began) < time.Hour {
		time.Sleep(100 * time.Millisecond)
	}
	took, last := time.Since(began), node.Status()
	cancel()
	require.NoError(t, <-ended)
	require.True(t, confirmedAt(height)(last), "%+v", last)
	return took
}

// today lets the simulated time be after that of the blocks.
func today(r *recording) { time.Sleep(time.Until(time.Unix(int64(r.StartTime), 0).AddDate(1, 0, 0))) }

// TestManyNodesAreFaster downloads a chain with one request at a time, and with 16, each to another node.
func TestManyNodesAreFaster(t *testing.T) {
	const blocks, parts = 1600, 32
	r, g := record(t)
	long := &recording{NetworkID: r.NetworkID, StartTime: r.StartTime, P: longChain(t, r, g, blocks)}
	synctest.Test(t, func(t *testing.T) {
		today(r)
		var took [2]time.Duration
		for i := range took {
			n := newSlowNetwork(long, g, 30, holderGrace-time.Millisecond)
			o := options(r, g, n.network)
			o.Beacons = n.nodes[:5]
			if i == 1 {
				for part := range parts {
					o.Trusted = append(o.Trusted, trustedAt(long, part*blocks/parts+1)...)
				}
			}
			took[i] = takes(t, o, n, blocks)
			require.Equal(t, []int{1, maxRequests}[i], n.most, "requests at a time")
			require.Zero(t, n.twice, "a node was asked for several parts at a time")
			if i == 1 {
				require.GreaterOrEqual(t, len(n.served), maxRequests, "nodes that sent blocks")
			}
		}
		t.Logf("one request at a time: %s, 16: %s", took[0], took[1])
		require.Greater(t, took[0], 10*took[1])
	})
}

// TestStalls has a third of the nodes never answer.
func TestStalls(t *testing.T) {
	r, g := record(t)
	synctest.Test(t, func(t *testing.T) {
		today(r)
		n := newSlowNetwork(r, g, 25, 100*time.Millisecond)
		stalling := make(map[ids.NodeID]bool)
		for _, nodeID := range n.nodes[:10] {
			stalling[nodeID] = true
		}
		n.refuse = func(ctx context.Context, nodeID ids.NodeID, _ bool) error {
			if stalling[nodeID] {
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		}
		o := options(r, g, n.network)
		o.Beacons = n.nodes[5:20]
		o.Trusted = trustedAt(r, 5, 10, 15, 20, 25, 30)
		require.Less(t, takes(t, o, n, len(r.P)), 20*containerTimeout) // which nodes are asked is random
	})
}

// TestHoldersDelay has validators vote for new blocks, and some send none, or all send them late. The node follows each of
// them soon, and a validator that is not slower than others does not rest.
func TestHoldersDelay(t *testing.T) {
	r, g := record(t)
	never, late := make([]time.Duration, 5), make([]time.Duration, 5)
	for i := range never {
		late[i] = 3 * time.Second
	}
	never[0], never[1] = time.Hour, time.Hour
	for name, test := range map[string]struct {
		delays []time.Duration // of validators
		blocks int             // at a time
		within time.Duration
		asked  int // validators that are asked for each block, at least
	}{
		"two do not send a block":               {never, 1, pollInterval + 2*holderGrace, 1},
		"two do not send blocks, two at a time": {never, 2, pollInterval + 2*holderGrace, 1},
		"all are slow":                          {late, 1, pollInterval + late[0], 3},
		"all are slow, three blocks at a time":  {late, 3, pollInterval + 3*late[0], 3},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				today(r)
				n := newSlowNetwork(r, g, 0, 0)
				const first = 5
				n.accept(first)
				delayed, asked := false, make(map[ids.NodeID]bool)
				n.refuse = func(ctx context.Context, nodeID ids.NodeID, _ bool) error {
					n.mu.Lock()
					asked[nodeID] = true
					delay := test.delays[slices.Index(n.nodes, nodeID)]
					if !delayed {
						delay = 0
					}
					n.mu.Unlock()
					return testenv.Delay(ctx, delay)
				}
				node, err := New(options(r, g, n.network))
				require.NoError(t, err)
				ctx, cancel := context.WithCancel(context.Background())
				ended := make(chan error, 1)
				go func() { ended <- node.Run(ctx, n) }()
				time.Sleep(2 * pollInterval)
				require.True(t, confirmedAt(first)(node.Status()))
				n.mu.Lock()
				delayed = true
				n.mu.Unlock()
				var longest time.Duration
				for height := first + test.blocks; height <= len(r.P); height += test.blocks {
					n.accept(height)
					n.mu.Lock()
					clear(asked)
					n.mu.Unlock()
					began := time.Now()
					for !confirmedAt(height)(node.Status()) && time.Since(began) < stale {
						time.Sleep(10 * time.Millisecond)
					}
					longest = max(longest, time.Since(began))
					n.mu.Lock()
					require.GreaterOrEqual(t, len(asked), test.asked)
					n.mu.Unlock()
				}
				cancel()
				require.NoError(t, <-ended)
				require.Less(t, longest, test.within+100*time.Millisecond)
			})
		})
	}
}

// TestHoldersLeave has all nodes that voted refuse the blocks below the tip. Others have them.
func TestHoldersLeave(t *testing.T) {
	r, g := record(t)
	synctest.Test(t, func(t *testing.T) {
		today(r)
		n := newSlowNetwork(r, g, 3, time.Millisecond)
		voted := n.nodes[:5]
		n.refuse = func(_ context.Context, nodeID ids.NodeID, alone bool) error {
			for _, one := range voted {
				if one == nodeID && !alone {
					return errors.New("not sent")
				}
			}
			return nil
		}
		o := options(r, g, n.network)
		o.Beacons = voted
		require.Less(t, takes(t, o, n, len(r.P)), rest)
	})
}

// TestTipIsNotServed has the voters name a block that no node has. Later they name one that exists.
func TestTipIsNotServed(t *testing.T) {
	r, g := record(t)
	synctest.Test(t, func(t *testing.T) {
		today(r)
		n := newSlowNetwork(r, g, 0, time.Millisecond)
		began, invented := time.Now(), ids.GenerateTestID()
		n.votes = func() ids.ID {
			if time.Since(began) < 10*time.Second {
				return invented
			}
			return ids.Empty
		}
		took := takes(t, options(r, g, n.network), n, len(r.P))
		require.Greater(t, took, 10*time.Second)
		require.Less(t, took, 10*time.Second+2*rest) // the nodes that did not send it rest
	})
}

// TestLaggingAfterStart has the voters be behind what was executed before. That is confirmed at once.
func TestLaggingAfterStart(t *testing.T) {
	r, g := record(t)
	n := newNetwork(r, g)
	o := options(r, g, n)
	o.Dir = t.TempDir()
	n.accept(30)
	run(t, o, n, confirmedAt(30))
	n.accept(25)
	run(t, o, n, func(s Status) bool {
		require.NoError(t, s.Err)
		return confirmedAt(30)(s)
	})

	// Another time the process ended when all was downloaded and nothing was executed.
	o.Dir = t.TempDir()
	db, err := openDatabase(o.Dir)
	require.NoError(t, err)
	all := make(map[uint64][]byte)
	for i := range 30 {
		all[uint64(i+1)] = open(r.P[i]).Block
	}
	tip := &descent{top: trustedAt(r, 30)[0], wanted: open(r.P[0]).ParentID, height: 30, lowest: 1}
	require.NoError(t, (&spool{"P-Chain", prefixdb.New([]byte("blocks"), db)}).put([]*descent{tip}, all))
	require.NoError(t, db.Close())
	run(t, o, n, func(s Status) bool {
		require.NoError(t, s.Err)
		return confirmedAt(30)(s)
	})
}

// TestTrustedAboveTip has most of the nodes be at an ancestor of a trusted block. It is executed, and not confirmed.
func TestTrustedAboveTip(t *testing.T) {
	r, g := record(t)
	n := newNetwork(r, g)
	n.accept(20, n.nodes[1:]...)
	o := options(r, g, n)
	o.Trusted = trustedAt(r, 26)
	node, _ := started(t, o, n)
	await(t, node, func(s Status) bool {
		return s.Err != nil && strings.Contains(s.Err.Error(), "below block "+o.Trusted[0].String()+" at height 26")
	})
	require.Zero(t, node.Status().Confirmed)
	n.accept(len(r.P))
	await(t, node, confirmedAt(len(r.P)))
}

// TestOldSpool begins with what an earlier version downloaded, which has another form. Nothing of it is used or kept.
func TestOldSpool(t *testing.T) {
	r, g := record(t)
	n := newNetwork(r, g)
	o := options(r, g, n)
	o.Dir = t.TempDir()
	db, err := openDatabase(o.Dir)
	require.NoError(t, err)
	old := prefixdb.New([]byte("blocks"), db)
	require.NoError(t, old.Put([]byte("descent"), make([]byte, 2*ids.IDLen+8)))
	for h := range uint64(50) {
		require.NoError(t, old.Put(blockKey(h), []byte("what is not a block")))
	}
	require.NoError(t, db.Close())
	o.Trusted = trustedAt(r, 10, 20)
	require.Equal(t, stateHash(t, options(r, g, n), n, len(r.P)), stateHash(t, o, n, len(r.P)))
	db, err = openDatabase(o.Dir)
	require.NoError(t, err)
	rows := prefixdb.New([]byte("blocks"), db).NewIterator()
	require.False(t, rows.Next(), "%q", rows.Key())
	require.NoError(t, rows.Error())
	rows.Release()
	require.NoError(t, db.Close())
}

// TestLongDownload has the network grow while a node downloads for longer than the votes count. The node is ready once it
// has executed what the network has then.
func TestLongDownload(t *testing.T) {
	const blocks = 1600
	r, g := record(t)
	long := &recording{NetworkID: r.NetworkID, StartTime: r.StartTime, P: longChain(t, r, g, blocks)}
	synctest.Test(t, func(t *testing.T) {
		today(r)
		n := newSlowNetwork(long, g, 0, 900*time.Millisecond)
		n.accept(blocks / 2)
		time.AfterFunc(5*time.Second, func() { n.accept(blocks) })
		node, err := New(options(r, g, n.network))
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		began := time.Now()
		go func() { ended <- node.Run(ctx, n) }()
		for node.Ready() != nil && time.Since(began) < time.Hour {
			time.Sleep(100 * time.Millisecond)
		}
		took, at := time.Since(began), node.Status()
		cancel()
		require.NoError(t, <-ended)
		require.Greater(t, took, 2*stale, "the download is not long enough for this test")
		require.True(t, confirmedAt(blocks)(at), "ready after %s with %+v", took, at)
	})
}

// TestStatusDuringDownload has nodes connect late, and then not send blocks for a while. The reason ends when the cause
// does.
func TestStatusDuringDownload(t *testing.T) {
	r, g := record(t)
	synctest.Test(t, func(t *testing.T) {
		today(r)
		n := newSlowNetwork(r, g, 0, 900*time.Millisecond)
		n.network.most = 2
		for _, nodeID := range n.nodes {
			n.offline[nodeID] = true
		}
		var refuses atomic.Bool
		n.refuse = func(context.Context, ids.NodeID, bool) error {
			if refuses.Load() {
				return errors.New("not sent")
			}
			return nil
		}
		node, err := New(options(r, g, n.network))
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- node.Run(ctx, n) }()
		var reasons []string
		after := func(d time.Duration) {
			time.Sleep(d)
			reasons = append(reasons, fmt.Sprint(node.Ready()))
		}
		after(3*pollInterval + pollInterval/2)
		n.mu.Lock()
		clear(n.offline)
		n.mu.Unlock()
		after(pollInterval)
		after(3 * time.Second)
		refuses.Store(true)
		after(3 * time.Second)
		refuses.Store(false)
		after(rest + 3*time.Second)
		cancel()
		require.NoError(t, <-ended)
		const behind, downloading = "^the P-Chain is not executed to its tip: it is at height 0", `, and \d+ blocks are not downloaded$`
		for i, want := range []string{
			behind + "; connected to 0% of the weight", behind + ", and the tip is not known$", fmt.Sprint(behind, " of ", len(r.P), downloading),
			behind + "; no connected node has the blocks that are missing", fmt.Sprint(behind, " of ", len(r.P), downloading),
		} {
			require.Regexp(t, want, reasons[i])
		}
	})
}
