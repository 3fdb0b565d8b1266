package peernode

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	avagenesis "github.com/ava-labs/avalanchego/genesis"
	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/proto/pb/p2p"
	"github.com/ava-labs/avalanchego/upgrade"
	"github.com/ava-labs/avalanchego/vms/platformvm/block"

	"quorate/internal/chain/envelope"
	"quorate/internal/chain/genesis"
)

// recording is the P- and the X-Chain of real nodes, from the first container on, the X-Chain's block at height 0, and some
// blocks of the C-Chain; see internal/chain.
type recording struct {
	NetworkID uint32
	StartTime uint64
	P, X      [][]byte
	X0        []byte
	C         map[string][]byte
}

func record(t testing.TB) (*recording, *genesis.Genesis) {
	t.Helper()
	f, err := os.Open("../chain/testdata/localnet.json.gz")
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	z, err := gzip.NewReader(f)
	require.NoError(t, err)
	r := new(recording)
	require.NoError(t, json.NewDecoder(z).Decode(r))
	c := *avagenesis.GetConfig(r.NetworkID)
	c.StartTime = r.StartTime
	g, err := genesis.FromConfig(&c)
	require.NoError(t, err)
	return r, g
}

// network is nodes that have blocks of a recording.
type network struct {
	chain      blockchain
	mu         sync.Mutex
	containers [][]byte
	places     map[ids.ID]int
	nodes      []ids.NodeID
	height     map[ids.NodeID]int // how many containers each has accepted
	offline    map[ids.NodeID]bool
	most       int                                          // containers in one answer
	spoil      func(ids.NodeID, [][]byte) ([][]byte, error) // may be nil
	asked      int
}

// open opens a container of the P-Chain.
func open(b []byte) envelope.Envelope { return openContainer(pChain{}, b) }

// newNetwork returns the network of the genesis' validators.
func newNetwork(r *recording, g *genesis.Genesis) *network {
	n := &network{chain: pChain{}, containers: r.P, places: make(map[ids.ID]int), height: make(map[ids.NodeID]int), offline: make(map[ids.NodeID]bool), most: 5}
	for i, b := range r.P {
		n.places[open(b).ID] = i
	}
	for _, tx := range g.Validators {
		n.nodes = append(n.nodes, tx.Unsigned.(interface{ NodeID() ids.NodeID }).NodeID())
	}
	n.accept(len(r.P))
	return n
}

// accept has nodes accept blocks up to a height: all nodes, or those that are named.
func (n *network) accept(height int, nodes ...ids.NodeID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if nodes == nil {
		nodes = n.nodes
	}
	for _, nodeID := range nodes {
		n.height[nodeID] = height
	}
}

func (n *network) ConnectedNodes() []ids.NodeID {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(n.nodes), func(id ids.NodeID) bool { return n.offline[id] })
}

func (n *network) AcceptedFrontier(_ context.Context, nodeID ids.NodeID, _ ids.ID) (ids.ID, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.height[nodeID] == 0 {
		return ids.Empty, errors.New("silent")
	}
	return openContainer(n.chain, n.containers[n.height[nodeID]-1]).ID, nil
}

func (n *network) Accepted(_ context.Context, nodeID ids.NodeID, _ ids.ID, of []ids.ID) (accepted []ids.ID, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, id := range of {
		if place, ok := n.places[id]; ok && place < n.height[nodeID] {
			accepted = append(accepted, id)
		}
	}
	return accepted, nil
}

func (n *network) Container(ctx context.Context, nodeID ids.NodeID, chainID, id ids.ID) ([]byte, error) {
	all, err := n.Ancestors(ctx, nodeID, chainID, id, p2p.EngineType_ENGINE_TYPE_CHAIN)
	if err != nil || len(all) == 0 {
		return nil, err
	}
	return all[0], nil
}

func (n *network) Ancestors(ctx context.Context, nodeID ids.NodeID, _, id ids.ID, _ p2p.EngineType) (all [][]byte, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.asked++
	place, ok := n.places[id]
	if !ok || place >= n.height[nodeID] {
		return nil, errors.New("no answer")
	}
	for ; place >= 0 && len(all) < n.most; place-- {
		all = append(all, n.containers[place])
	}
	if n.spoil != nil {
		if all, err = n.spoil(nodeID, all); err != nil {
			return nil, err
		}
	}
	return all, ctx.Err()
}

// run runs a node until the condition holds.
func run(t testing.TB, o Options, peers Peers, until func(Status) bool) *Node {
	t.Helper()
	n, err := New(o)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- n.Run(ctx, peers) }()
	require.Eventually(t, func() bool { return until(n.Status()) }, time.Minute, time.Millisecond, "%+v", n.Status())
	cancel()
	require.NoError(t, <-ended)
	return n
}

func options(r *recording, g *genesis.Genesis, n *network) Options {
	return Options{Genesis: g, Upgrades: upgrade.GetConfig(r.NetworkID), Beacons: n.nodes}
}

func confirmedAt(height int) func(Status) bool {
	return func(s Status) bool { return s.Height == uint64(height) && !s.Confirmed.IsZero() }
}

// TestFollows executes the blocks of a real network and follows new ones. Each node sends five blocks at a time.
func TestFollows(t *testing.T) {
	r, g := record(t)
	n := newNetwork(r, g)
	n.accept(20)
	grown := false
	run(t, options(r, g, n), n, func(s Status) bool {
		if confirmedAt(20)(s) && !grown {
			grown = true
			n.accept(len(r.P))
		}
		return confirmedAt(len(r.P))(s)
	})
}

// TestResumes cuts the process off during a download, and at each block of the execution.
func TestResumes(t *testing.T) {
	r, g := record(t)
	n := newNetwork(r, g)
	o := options(r, g, n)
	o.Dir = t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	n.spoil = func(_ ids.NodeID, all [][]byte) ([][]byte, error) {
		if n.asked == 3 {
			cancel()
		}
		return all, nil
	}
	node, err := New(o)
	require.NoError(t, err)
	require.NoError(t, node.Run(ctx, n))
	require.Zero(t, node.Status().Height)
	require.Equal(t, 3, n.asked)
	n.spoil = nil
	run(t, o, n, confirmedAt(len(r.P)))
	require.LessOrEqual(t, n.asked, 3+(len(r.P)-11+4)/5+2, "blocks were downloaded again")
}

// TestEndsDuringExecution ends the process at several heights of the execution. What follows is executed once.
func TestEndsDuringExecution(t *testing.T) {
	r, g := record(t)
	n := newNetwork(r, g)
	o := options(r, g, n)
	o.Dir = t.TempDir()
	for height := 1; height < len(r.P); height += 4 {
		node, err := New(o)
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- node.Run(ctx, n) }()
		for node.Status().Height < uint64(height) {
			runtime.Gosched()
		}
		cancel()
		require.NoError(t, <-ended)
	}
	run(t, o, n, confirmedAt(len(r.P)))
}

// TestFaultyNodes has two of five nodes send something else than what is asked for.
func TestFaultyNodes(t *testing.T) {
	r, g := record(t)
	for name, spoil := range map[string]func([][]byte) ([][]byte, error){
		"nothing":            func([][]byte) ([][]byte, error) { return nil, nil },
		"no answer":          func([][]byte) ([][]byte, error) { return nil, errors.New("no answer") },
		"garbage":            func([][]byte) ([][]byte, error) { return [][]byte{{1, 2, 3}, nil}, nil },
		"another block":      func([][]byte) ([][]byte, error) { return r.P[3:4], nil },
		"garbage at the end": func(all [][]byte) ([][]byte, error) { return append(slices.Clone(all[:1]), []byte("x"), nil), nil },
		"a gap": func(all [][]byte) ([][]byte, error) {
			return slices.Delete(slices.Clone(all), min(1, len(all)), min(2, len(all))), nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNetwork(r, g)
			n.spoil = func(nodeID ids.NodeID, all [][]byte) ([][]byte, error) {
				if slices.Index(n.nodes, nodeID) < 2 {
					return spoil(all)
				}
				return all, nil
			}
			run(t, options(r, g, n), n, confirmedAt(len(r.P)))
		})
	}
}

// TestTipNeedsStake has nodes disagree about the tip.
func TestTipNeedsStake(t *testing.T) {
	r, g := record(t)
	n := newNetwork(r, g)
	n.accept(20)
	n.accept(len(r.P), n.nodes[0]) // a fifth of the stake is ahead, or lies
	followed := run(t, options(r, g, n), n, confirmedAt(20))
	require.NoError(t, followed.Ready()) // its answers are right for a while
	require.Positive(t, testutil.ToFloat64(followed.disputed))

	n.accept(len(r.P), n.nodes[1])
	n.accept(0, n.nodes[2:]...) // which says nothing
	run(t, options(r, g, n), n, func(s Status) bool {
		require.Zero(t, s.Height)
		return s.Err != nil && strings.Contains(s.Err.Error(), "at most 40% of the votes are for one block, 80% must be")
	})

	n.accept(len(r.P))
	for _, nodeID := range n.nodes[:3] {
		n.offline[nodeID] = true
	}
	run(t, options(r, g, n), n, func(s Status) bool {
		require.Zero(t, s.Height)
		return s.Err != nil && strings.Contains(s.Err.Error(), "connected to 40% of the weight")
	})
}

// TestMinorityIsBehind has two of five nodes stay at a block that all have accepted. The others go on. That block is not
// confirmed as the tip, and the blocks after it do not have enough stake.
func TestMinorityIsBehind(t *testing.T) {
	r, g := record(t)
	n := newNetwork(r, g)
	n.accept(20, n.nodes[:2]...)
	node := run(t, options(r, g, n), n, func(s Status) bool { return s.Height == 20 && s.Err != nil })
	require.Zero(t, node.Status().Confirmed)
	require.ErrorContains(t, node.Ready(), "most of the votes name a newer block")
}

// mute is a network in which only one peer names its last block. The others say which blocks they have accepted.
type mute struct{ *network }

func (p mute) AcceptedFrontier(ctx context.Context, nodeID ids.NodeID, chainID ids.ID) (ids.ID, error) {
	if nodeID != p.nodes[0] {
		return ids.Empty, errors.New("not in time")
	}
	return p.network.AcceptedFrontier(ctx, nodeID, chainID)
}

// TestOneNamesOldBlock has the only node that names a block name an old one. It is not confirmed as the tip.
func TestOneNamesOldBlock(t *testing.T) {
	r, g := record(t)
	n := newNetwork(r, g)
	n.accept(20, n.nodes[0])
	node := run(t, options(r, g, n), mute{n}, func(s Status) bool { return s.Height == 20 && (s.Err != nil || !s.Confirmed.IsZero()) })
	require.Zero(t, node.Status().Confirmed)
	require.ErrorContains(t, node.Ready(), "or no block")
}

// TestOtherChain has a network whose chain does not have what was executed.
func TestOtherChain(t *testing.T) {
	r, g := record(t)
	n := newNetwork(r, g)
	n.accept(20)
	o := options(r, g, n)
	o.Dir = t.TempDir()
	run(t, o, n, confirmedAt(20))
	for name, height := range map[string]uint64{"the same height": 20, "the next height": 21} {
		other, err := block.NewBanffStandardBlock(time.Now(), ids.ID{1}, height, nil)
		require.NoError(t, err)
		n := newNetwork(&recording{P: [][]byte{other.Bytes()}}, g)
		node, err := New(o)
		require.NoError(t, err)
		require.ErrorIs(t, node.Run(t.Context(), n), errOther, name)
	}
}

// call makes a call to a node, and returns the status and the response.
func call(t testing.TB, n *Node, path, method, params string) (int, string) {
	t.Helper()
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":7,"method":%q,"params":%s}`, method, params)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "p2p://network"+path, strings.NewReader(body))
	require.NoError(t, err)
	request.Header.Set("Content-Type", "application/json")
	response, err := n.RoundTrip(request)
	require.NoError(t, err)
	answer, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return response.StatusCode, strings.TrimSpace(string(answer))
}

// TestAnswers has a node answer calls before, while and after it follows the chain.
func TestAnswers(t *testing.T) {
	r, g := record(t)
	n := newNetwork(r, g)
	node, err := New(options(r, g, n))
	require.NoError(t, err)
	requireBehind := func() {
		t.Helper()
		status, answer := call(t, node, "/ext/bc/P", "platform.getHeight", "{}")
		require.Equal(t, http.StatusServiceUnavailable, status)
		require.Contains(t, answer, "not executed to its tip")
		status, answer = call(t, node, "/ext/info", "info.getNetworkID", "{}")
		require.Equal(t, http.StatusOK, status)
		require.Contains(t, answer, `"networkID":"12345"`)
	}
	requireBehind()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- node.Run(ctx, n) }()
	require.Eventually(t, func() bool { return confirmedAt(len(r.P))(node.Status()) }, time.Minute, time.Millisecond)

	_, answer := call(t, node, "/ext/bc/P", "platform.getHeight", "{}")
	require.JSONEq(t, fmt.Sprintf(`{"jsonrpc":"2.0","id":7,"result":{"height":"%d"}}`, len(r.P)), answer)
	_, answer = call(t, node, "/ext/bc/P", "platform.getTxStatus", fmt.Sprintf(`{"txID":%q}`, g.Validators[0].ID()))
	require.Contains(t, answer, `"status":"Committed"`)
	_, answer = call(t, node, "/ext/bc/P", "platform.getTxStatus", fmt.Sprintf(`{"txID":%q}`, ids.ID{1}))
	require.Contains(t, answer, `"status":"Unknown"`)
	_, answer = call(t, node, "/ext/bc/P", "platform.getCurrentValidators", "{}")
	require.Contains(t, answer, n.nodes[0].String())
	require.NotContains(t, answer, "uptime")
	require.NotContains(t, answer, "connected")
	for _, method := range []string{"platform.issueTx", "platform.getUTXOs", "platform.getBalance", "platform.sampleValidators", "admin.peers"} {
		status, answer := call(t, node, "/ext/bc/P", method, "{}")
		require.Equal(t, http.StatusOK, status)
		require.Contains(t, answer, "rpc: can't find method", method)
	}
	_, answer = call(t, node, "/ext/info", "info.getBlockchainID", `{"alias":"C"}`)
	require.Contains(t, answer, g.CChainID.String())
	_, answer = call(t, node, "/ext/info", "info.getNodeID", `{}`)
	require.Contains(t, answer, "can't find method")
	status, _ := call(t, node, "/ext/bc/C/rpc", "eth_blockNumber", "[]")
	require.Equal(t, http.StatusNotFound, status)
	status, _ = call(t, node, "/ext/index/P/block", "index.getLastAccepted", "{}")
	require.Equal(t, http.StatusNotFound, status)
	status, answer = call(t, node, "/ext/bc/P/proposervm", "proposervm.getCurrentEpoch", "{}")
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, answer, `"pChainHeight"`)

	cancel()
	require.NoError(t, <-ended)
	requireBehind()
}
