package peernode

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/proto/pb/p2p"
	"github.com/ava-labs/avalanchego/vms/platformvm/block"
	proposer "github.com/ava-labs/avalanchego/vms/proposervm/block"

	"quorate/internal/chain/genesis"
)

// busyNetwork counts the requests for blocks that are under way, and the containers that were sent.
type busyNetwork struct {
	*network
	delay time.Duration
	extra map[ids.ID][]byte // containers that all nodes have besides

	counts sync.Mutex
	asking map[ids.NodeID]int
	most   int // requests at a time
	twice  int // requests to a node that had one
	sent   int // containers
}

func newBusyNetwork(r *recording, g *genesis.Genesis) *busyNetwork {
	return &busyNetwork{network: newNetwork(r, g), extra: make(map[ids.ID][]byte), asking: make(map[ids.NodeID]int)}
}

func (n *busyNetwork) begin(nodeID ids.NodeID) (end func(sent int)) {
	n.counts.Lock()
	if n.asking[nodeID]++; n.asking[nodeID] > 1 {
		n.twice++
	}
	n.most = max(n.most, len(n.asking))
	n.counts.Unlock()
	time.Sleep(n.delay)
	return func(sent int) {
		n.counts.Lock()
		defer n.counts.Unlock()
		n.sent += sent
		if n.asking[nodeID]--; n.asking[nodeID] == 0 {
			delete(n.asking, nodeID)
		}
	}
}

func (n *busyNetwork) Container(ctx context.Context, nodeID ids.NodeID, chainID, id ids.ID) ([]byte, error) {
	end := n.begin(nodeID)
	defer end(1)
	if b, ok := n.extra[id]; ok {
		return b, nil
	}
	return n.network.Container(ctx, nodeID, chainID, id)
}

func (n *busyNetwork) Ancestors(ctx context.Context, nodeID ids.NodeID, chainID, id ids.ID, engine p2p.EngineType) ([][]byte, error) {
	end := n.begin(nodeID)
	all, err := n.network.Ancestors(ctx, nodeID, chainID, id, engine)
	end(len(all))
	return all, err
}

// trustedAt returns the containers of heights.
func trustedAt(r *recording, heights ...int) (all []ids.ID) {
	for _, h := range heights {
		all = append(all, open(r.P[h-1]).ID)
	}
	return all
}

// stateHash returns the hash of the state after all blocks, of a service that has that.
func stateHash(t testing.TB, o Options, peers Peers, height int) ids.ID {
	t.Helper()
	node, stop := started(t, o, peers)
	defer stop()
	await(t, node, confirmedAt(height))
	c, _ := exported(t, node, 0)
	return c.Hash
}

// TestTrusted downloads parts of the chain at the same time, each from another node, and executes the same state.
func TestTrusted(t *testing.T) {
	r, g := record(t)
	last := len(r.P)
	var every []int
	for h := range r.P {
		every = append(every, h+1)
	}
	want := stateHash(t, options(r, g, newNetwork(r, g)), newNetwork(r, g), last)
	for name, test := range map[string]struct {
		trusted []int
		most    int // requests at a time
	}{
		"none":       {nil, 1},
		"one":        {[]int{11}, 2},
		"some":       {[]int{28, 7, 14, 21}, 5},
		"neighbours": {[]int{10, 11, 12}, 4},
		"the tip":    {[]int{last}, 1},
		"the first":  {[]int{1}, 2},
		"all":        {every, 5},
		"all twice":  {append(slices.Clone(every), every...), 5},
	} {
		t.Run(name, func(t *testing.T) {
			n := newBusyNetwork(r, g)
			n.delay = 2 * time.Millisecond
			o := options(r, g, n.network)
			o.Trusted = trustedAt(r, test.trusted...)
			require.Equal(t, want, stateHash(t, o, n, last))
			require.LessOrEqual(t, n.most, test.most)
			if test.most > 1 {
				require.Greater(t, n.most, 1, "nodes asked at a time")
			}
			require.Zero(t, n.twice, "a node was asked for several parts at a time")
			require.LessOrEqual(t, n.sent, last+(len(test.trusted)+1)*(n.network.most+1))
		})
	}
}

// TestTrustedAfterCheckpoint does not download what is below the checkpoint.
func TestTrustedAfterCheckpoint(t *testing.T) {
	r, g := record(t)
	n := newBusyNetwork(r, g)
	o := options(r, g, n.network)
	o.Trusted = trustedAt(r, 3, 9, 20, 23, 30)
	o.Checkpoint = checkpointAt(t, r, g, 20)
	want := stateHash(t, options(r, g, n.network), n.network, len(r.P))
	n.sent = 0
	require.Equal(t, want, stateHash(t, o, n, len(r.P)))
	require.LessOrEqual(t, n.sent, len(r.P)-20+3+3*(n.network.most+1))
}

// TestTrustedOfFork names a trusted block that the chain does not have.
func TestTrustedOfFork(t *testing.T) {
	r, g := record(t)
	for _, height := range []int{2, 10, 20, len(r.P) - 7} {
		below, err := block.Parse(block.Codec, open(r.P[height-2]).Block)
		require.NoError(t, err)
		other, err := block.NewBanffStandardBlock(time.Unix(int64(r.StartTime), 0).Add(time.Hour), below.ID(), uint64(height), nil)
		require.NoError(t, err)
		envelope, err := proposer.BuildUnsigned(open(r.P[height-2]).ID, time.Unix(int64(r.StartTime), 0).Add(time.Hour), 0, proposer.Epoch{}, other.Bytes())
		require.NoError(t, err)
		fork := envelope.ID()
		n := newBusyNetwork(r, g)
		n.extra[fork] = envelope.Bytes()
		o := options(r, g, n.network)
		o.Trusted = []ids.ID{fork}
		node, err := New(o)
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		err = node.Run(ctx, n)
		require.Error(t, err, "height %d", height)
		require.Regexp(t, fork.String()+"|"+other.ID().String(), err.Error()) // it may be executed before it is met
		cancel()
		require.Zero(t, node.Status().Confirmed)
	}
}

// TestTrustedIsUnknown names a trusted block that the nodes do not have. The tip is not confirmed meanwhile.
func TestTrustedIsUnknown(t *testing.T) {
	r, g := record(t)
	n := newBusyNetwork(r, g)
	o := options(r, g, n.network)
	unknown := ids.GenerateTestID()
	o.Trusted = append(trustedAt(r, 17), unknown)
	node := run(t, o, n, func(s Status) bool { return s.Height == uint64(len(r.P)) && s.Err != nil })
	require.ErrorContains(t, node.Ready(), "no connected node has block "+unknown.String())
	require.Zero(t, node.Status().Confirmed)
}

// TestDownloads cuts downloads of random parts off at random moments. Two of five nodes are faulty.
func TestDownloads(t *testing.T) {
	r, g := record(t)
	last := len(r.P)
	want := stateHash(t, options(r, g, newNetwork(r, g)), newNetwork(r, g), last)
	for range 12 {
		seed := rand.Uint64()
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 0))
			n := newBusyNetwork(r, g)
			n.network.most = 2 + random.IntN(6)
			n.delay = time.Duration(random.IntN(2)) * time.Millisecond
			o := options(r, g, n.network)
			o.Dir = t.TempDir()
			heights := random.Perm(last)[:random.IntN(last)]
			for i := range heights {
				heights[i]++
			}
			o.Trusted = trustedAt(r, heights...)
			fault := random.IntN(4)
			var requests, until int
			var kill context.CancelFunc
			n.spoil = func(nodeID ids.NodeID, all [][]byte) ([][]byte, error) { // n.mu is held
				if requests++; requests == until {
					kill()
				}
				if slices.Index(n.nodes, nodeID) > 1 || len(all) == 0 {
					return all, nil
				}
				switch fault {
				case 0:
					return nil, errors.New("no answer")
				case 1:
					return [][]byte{{1, 2, 3}}, nil
				case 2:
					return slices.Concat(all[:1], r.P[:1]), nil
				}
				return r.P[3:4], nil
			}
			kills := random.IntN(4)
			for range kills {
				ctx, cancel := context.WithCancel(t.Context())
				n.mu.Lock()
				requests, until, kill = 0, 1+random.IntN(8), cancel
				n.mu.Unlock()
				node, err := New(o)
				require.NoError(t, err)
				ended := make(chan error, 1)
				go func() { ended <- node.Run(ctx, n) }()
				require.Eventually(t, func() bool { return ctx.Err() != nil || confirmedAt(last)(node.Status()) }, time.Minute, time.Millisecond)
				cancel()
				require.NoError(t, <-ended)
			}
			n.mu.Lock()
			until = 0
			n.mu.Unlock()
			require.Equal(t, want, stateHash(t, o, n, last))
			again := (kills + 1) * (len(heights) + 1 + len(n.nodes)*n.network.most) // tops, and what was under way
			require.LessOrEqual(t, n.sent, last+(len(heights)+1)*(n.network.most+1)+again)
			require.Zero(t, n.twice)
			require.False(t, strings.Contains(fmt.Sprint(n.asking), "NodeID"), "requests are left")
		})
	}
}
