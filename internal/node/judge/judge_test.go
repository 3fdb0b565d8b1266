package judge

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/constants"

	"quorate/internal/node"
)

// chain is a P-Chain whose blocks and sets follow from their heights. Its fields change between comparisons.
type chain struct {
	mu     sync.Mutex
	height uint64
	err    error
	// block and set, unless nil, replace what follows from the height.
	block func(height uint64) []byte
	set   func(subnetID ids.ID, height uint64) node.ValidatorSet
	// network replaces networkID, unless it is 0; noInfo refuses calls for it.
	network uint32
	noInfo  bool
	// noSets refuses calls for validators.
	noSets bool
	asked  int

	standing node.Standing
}

func (c *chain) change(f func(*chain)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f(c)
}

func (c *chain) Height(context.Context) (uint64, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked++
	return c.height, c.err
}

var errBeyond = errors.New("there is no such block")

func (c *chain) BlockByHeight(_ context.Context, height uint64) ([]byte, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked++
	switch {
	case c.err != nil:
		return nil, c.err
	case height > c.height:
		return nil, errBeyond
	case c.block != nil:
		return c.block(height), nil
	}
	return blockOf(height), nil
}

func (c *chain) ValidatorsAt(_ context.Context, subnetID ids.ID, height uint64) (node.ValidatorSet, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked++
	switch {
	case c.err != nil:
		return node.ValidatorSet{}, c.err
	case c.noSets:
		return node.ValidatorSet{}, &node.RPCError{Method: "platform.getValidatorsAt", Code: 403}
	case height > c.height:
		return node.ValidatorSet{}, errBeyond
	case c.set != nil:
		return c.set(subnetID, height), nil
	}
	return setOf(subnetID, height), nil
}

const networkID = 1337

func (c *chain) NetworkID(context.Context) (uint32, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.err != nil:
		return 0, c.err
	case c.noInfo:
		return 0, &node.RPCError{Method: "info.getNetworkID", Code: 403}
	case c.network != 0:
		return c.network, nil
	}
	return networkID, nil
}

func (c *chain) Name() string { return "http://node:9650" }
func (c *chain) Host() string { return "node:9650" }

func (c *chain) Judge(s node.Standing, _ string) { c.change(func(c *chain) { c.standing = s }) }

func (c *chain) judgedAs() node.Standing {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.standing
}

func (c *chain) calls() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.asked
}

func blockOf(height uint64) []byte { return binary.BigEndian.AppendUint64(nil, height) }

// setOf returns a set that is another one at each height, with two nodes of one key and a validator without a key.
func setOf(subnetID ids.ID, height uint64) node.ValidatorSet {
	a, b := keyOf(1, subnetID), keyOf(2, subnetID)
	return node.ValidatorSet{TotalWeight: 60 + height, Validators: []node.Validator{
		{Key: a, Weight: 10 + height, NodeIDs: []ids.NodeID{{1}}},
		{Key: b, Weight: 20, NodeIDs: []ids.NodeID{{2}}},
		{Key: a, Weight: 5, NodeIDs: []ids.NodeID{{3}}},
		{Weight: 25, NodeIDs: []ids.NodeID{{4}}},
	}}
}

func keyOf(first byte, subnetID ids.ID) []byte {
	return append([]byte{first}, bytes.Repeat(subnetID[:1], 47)...)
}

// bench is a Judge of one node that Run compares in simulated time.
type bench struct {
	*Judge
	executed, node *chain
	behind         atomic.Bool
	log            log
}

// log is a log that is read while it is written.
type log struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *log) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// judging calls f while a Judge runs.
func judging(t *testing.T, f func(b *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &bench{executed: &chain{height: 100}, node: &chain{height: 100}}
		b.Judge = New(Options{
			Chain: "P", Executed: b.executed, Nodes: []Node{b.node}, Subnets: func() []ids.ID { return []ids.ID{{7}, constants.PrimaryNetworkID, {8}} },
			Log: slog.New(slog.NewTextHandler(&b.log, nil)), Ready: func() error {
				if b.behind.Load() {
					return errors.New("behind")
				}
				return nil
			},
		})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); b.Run(ctx) }()
		synctest.Wait()
		f(b)
		cancel()
		<-done
	})
}

// after lets time pass and returns the verdict.
func (b *bench) after(d time.Duration) Verdict {
	time.Sleep(d)
	synctest.Wait()
	return b.Verdicts()[0]
}

func TestHonestNodesAreNotAccused(t *testing.T) {
	for name, behave := range map[string]func(b *bench, second int){
		"in step": func(*bench, int) {},
		"one block ahead, always": func(b *bench, s int) {
			b.executed.change(func(c *chain) { c.height = 100 + uint64(s) })
			b.node.change(func(c *chain) { c.height = 101 + uint64(s) })
		},
		"20 s behind on a fast chain": func(b *bench, s int) {
			b.executed.change(func(c *chain) { c.height = 100 + 5*uint64(s) })
			b.node.change(func(c *chain) { c.height = 100 + 5*uint64(max(0, s-20)) })
		},
		"a minute ahead, as the stake accepts late": func(b *bench, s int) {
			b.executed.change(func(c *chain) { c.height = 100 + uint64(s/60) })
			b.node.change(func(c *chain) { c.height = 101 + uint64(s/60) })
		},
		"only sets by key": func(b *bench, s int) {
			b.node.change(func(c *chain) { c.set = byKeyOnly })
		},
		"without sets, as some providers": func(b *bench, _ int) {
			b.node.change(func(c *chain) { c.noSets = true })
		},
		"glitch": func(b *bench, s int) {
			// One answer in a long time is broken.
			broken := false
			if s == 35 {
				b.node.change(func(c *chain) {
					c.block = func(height uint64) []byte {
						if broken {
							return blockOf(height)
						}
						broken = true
						return []byte("broken")
					}
				})
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			judging(t, func(b *bench) {
				for s := range 400 {
					behave(b, s)
					v := b.after(time.Second)
					require.Equal(t, node.Agrees, v.Standing, "after %d s: %s", s, v.Text)
				}
				require.Empty(t, b.log.String())
			})
		})
	}
}

// byKeyOnly is setOf as a node reports it with one entry for each key.
func byKeyOnly(subnetID ids.ID, height uint64) node.ValidatorSet {
	return node.ValidatorSet{TotalWeight: 60 + height, Validators: []node.Validator{
		{Key: keyOf(2, subnetID), Weight: 20, NodeIDs: []ids.NodeID{{2}}},
		{Key: keyOf(1, subnetID), Weight: 15 + height, NodeIDs: []ids.NodeID{{3}, {1}}},
	}}
}

func TestRestartingNodeLagsAndReturns(t *testing.T) {
	judging(t, func(b *bench) {
		require.Equal(t, node.Agrees, b.after(0).Standing)
		b.node.change(func(c *chain) { c.err = node.ErrUnavailable })
		require.Equal(t, node.Agrees, b.after(time.Minute).Standing, "no answer is no verdict")
		// It executes its blocks again from the beginning, while the chain goes on.
		b.node.change(func(c *chain) { c.err, c.height = nil, 10 })
		b.executed.change(func(c *chain) { c.height = 120 })
		v := b.after(15 * time.Second)
		require.Equal(t, node.Lags, v.Standing, "it lacks what was executed a minute ago")
		require.Contains(t, v.Text, "it is at height 10, 110 blocks behind height 120")
		require.Equal(t, node.Lags, b.node.judgedAs())
		b.node.change(func(c *chain) { c.height = 120 })
		require.Equal(t, node.Agrees, b.after(interval).Standing)
		require.Equal(t, node.Agrees, b.node.judgedAs())
		require.Equal(t, 1, strings.Count(b.log.String(), "lags behind"), &b.log)
		require.Equal(t, 1, strings.Count(b.log.String(), "agrees again"), &b.log)
		require.NotContains(t, b.log.String(), "contradicts")
	})
}

// together runs a Judge of nodes without an executed chain. after lets time pass and returns their standings.
func together(t *testing.T, f func(after func(time.Duration) []node.Standing, lines *log), nodes ...*chain) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		o, lines := Options{Chain: "P", NetworkID: networkID}, new(log)
		for _, n := range nodes {
			o.Nodes = append(o.Nodes, n)
		}
		o.Log = slog.New(slog.NewTextHandler(lines, nil))
		j := New(o)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); j.Run(ctx) }()
		defer func() { cancel(); <-done }()
		f(func(d time.Duration) (all []node.Standing) {
			time.Sleep(d)
			synctest.Wait()
			for _, n := range nodes {
				all = append(all, n.judgedAs())
			}
			return all
		}, lines)
	})
}

func at(height uint64) func(*chain) { return func(c *chain) { c.height, c.err = height, nil } }

func fails(c *chain) { c.err = node.ErrUnavailable }

// Without an executed chain, the nodes show which of them is behind.
func TestNodesThatAreComparedWithEachOther(t *testing.T) {
	const agrees, lags, unjudged = node.Agrees, node.Lags, node.Unjudged
	first, second, third := &chain{height: 100}, &chain{height: 100}, &chain{err: node.ErrUnavailable}
	together(t, func(after func(time.Duration) []node.Standing, lines *log) {
		require.Equal(t, []node.Standing{agrees, agrees, unjudged}, after(time.Second))
		first.change(at(101))
		require.Equal(t, []node.Standing{agrees, agrees, unjudged}, after(lagFor), "the block is new")
		require.Equal(t, []node.Standing{agrees, lags, unjudged}, after(2*interval))
		require.Contains(t, lines.String(), "it is at height 100, 1 blocks behind height 101 that another node reports, for more than ")

		first.change(fails)
		require.Equal(t, []node.Standing{agrees, lags, unjudged}, after(2*interval), "it may be back in a moment")
		require.Equal(t, []node.Standing{agrees, agrees, unjudged}, after(2*interval), "no other node has more")
		first.change(at(149))
		third.change(at(150))
		require.Equal(t, []node.Standing{agrees, agrees, agrees}, after(interval))
		first.change(at(151))
		third.change(at(151))
		require.Equal(t, []node.Standing{agrees, lags, agrees}, after(lagFor+interval))
		second.change(at(151))
		require.Equal(t, []node.Standing{agrees, agrees, agrees}, after(interval))
		for _, n := range []*chain{first, second, third} {
			n.change(fails)
		}
		require.Equal(t, []node.Standing{agrees, agrees, agrees}, after(time.Hour))
		require.NotContains(t, lines.String(), "contradicts")
	}, first, second, third)
}

// A node of another network is not asked, also while no other node answers, and once another node is at its address.
func TestNodeOfAnotherNetwork(t *testing.T) {
	const agrees, lies, unjudged = node.Agrees, node.Lies, node.Unjudged
	first, wrong, provider := &chain{err: node.ErrUnavailable}, &chain{height: 5000, network: 5}, &chain{height: 100, noInfo: true}
	together(t, func(after func(time.Duration) []node.Standing, lines *log) {
		require.Equal(t, []node.Standing{unjudged, lies, agrees}, after(time.Second))
		require.Contains(t, lines.String(), "it is of the network with ID 5, not 1337")
		first.change(at(100))
		provider.change(fails)
		require.Equal(t, []node.Standing{agrees, lies, agrees}, after(interval))
		first.change(fails)
		wrong.change(fails)
		require.Equal(t, []node.Standing{agrees, lies, agrees}, after(time.Minute))
		first.change(func(c *chain) { c.height, c.err, c.network = 5000, nil, 5 })
		wrong.change(func(c *chain) { c.height, c.err, c.network = 100, nil, 0 })
		require.Equal(t, []node.Standing{lies, lies, agrees}, after(2*interval))
		require.Equal(t, []node.Standing{lies, agrees, agrees}, after(probation+interval))
	}, first, wrong, provider)
}

// A node of another network with the same ID is far ahead. The others do not lag behind it.
func TestNodeOfAnotherNetworkBesideOthers(t *testing.T) {
	first, other := &chain{height: 100}, &chain{height: 5000, block: func(height uint64) []byte { return append(blockOf(height), 1) }}
	together(t, func(after func(time.Duration) []node.Standing, lines *log) {
		for minute := range uint64(10) {
			first.change(at(100 + minute))
			other.change(at(5000 + 20*minute))
			require.NotEqual(t, node.Lags, after(time.Minute)[0])
		}
		require.Empty(t, lines.String())
	}, first, other)
}

// Two nodes behind one URL answer in turn, and one of them is stuck. The URL keeps its standing.
func TestBalancerBesideANode(t *testing.T) {
	balancer, single := &chain{height: 100}, &chain{height: 100}
	together(t, func(after func(time.Duration) []node.Standing, lines *log) {
		for round := range uint64(40) {
			height := 100 + round
			single.change(at(height))
			if round%2 == 1 {
				height = 100
			}
			balancer.change(at(height))
			require.Equal(t, []node.Standing{node.Agrees, node.Agrees}, after(interval))
		}
		require.Empty(t, lines.String())
	}, balancer, single)
}

func TestOldTip(t *testing.T) {
	judging(t, func(b *bench) {
		b.executed.change(func(c *chain) { c.height = 101 })
		require.Equal(t, node.Agrees, b.after(lagFor).Standing, "the block is new")
		v := b.after(2*interval + time.Second)
		require.Equal(t, node.Lags, v.Standing)
		require.Contains(t, v.Text, "it is at height 100, 1 blocks behind height 101")
	})
}

func TestLiesAreFound(t *testing.T) {
	for name, test := range map[string]struct {
		lie  func(c *chain)
		says string
	}{
		"block at the tip": {func(c *chain) {
			c.block = func(height uint64) []byte {
				if height == 100 {
					return []byte("forged")
				}
				return blockOf(height)
			}
		}, "its block at height 100 is " + blockID([]byte("forged")).String() + ", the accepted one is " + blockID(blockOf(100)).String()},
		"all blocks below the tip": {func(c *chain) {
			c.block = func(height uint64) []byte {
				if height < 100 {
					return []byte("forged")
				}
				return blockOf(height)
			}
		}, "its block at height "},
		"weight": {func(c *chain) {
			c.set = func(subnetID ids.ID, height uint64) node.ValidatorSet {
				s := setOf(subnetID, height)
				s.Validators[0].Weight++
				s.Validators[1].Weight--
				return s
			}
		}, "validators of subnet 11111111111111111111111111111111LpoYY at height 100 are not the accepted ones: the weight of the key 0x0100000000000000… is 116, not 115"},
		"total weight": {func(c *chain) {
			c.set = func(subnetID ids.ID, height uint64) node.ValidatorSet {
				s := setOf(subnetID, height)
				s.TotalWeight--
				return s
			}
		}, "the total weight is 159, not 160"},
		"key of another subnet": {func(c *chain) {
			c.set = func(subnetID ids.ID, height uint64) node.ValidatorSet {
				s := setOf(subnetID, height)
				if subnetID == (ids.ID{8}) {
					s.Validators[1].Key = bytes.Repeat([]byte{2}, 48)
				}
				return s
			}
		}, ids.ID{8}.String() + " at height 100 are not the accepted ones: the key 0x0202020202020202… is no validator's"},
		"validator without a key": {func(c *chain) {
			c.set = func(subnetID ids.ID, height uint64) node.ValidatorSet {
				s := setOf(subnetID, height)
				s.Validators[1].Key = nil
				return s
			}
		}, "the key 0x0200000000000000… is missing"},
		"nodes": {func(c *chain) {
			c.set = func(subnetID ids.ID, height uint64) node.ValidatorSet {
				s := setOf(subnetID, height)
				s.Validators[1].NodeIDs[0] = ids.NodeID{9}
				return s
			}
		}, "the nodes of the key 0x0200000000000000… are"},
	} {
		t.Run(name, func(t *testing.T) {
			judging(t, func(b *bench) {
				require.Equal(t, node.Agrees, b.after(0).Standing)
				b.node.change(test.lie)
				v := b.after(interval + again)
				require.Equal(t, node.Lies, v.Standing)
				require.Contains(t, v.Text, test.says)
				require.Equal(t, node.Lies, b.node.judgedAs())
				began := v.Since
				require.NoError(t, testutil.CollectAndCompare(b.Judge, strings.NewReader(`
# HELP quorate_upstream_verdict 1 for what a comparison with the executed P-Chain, or else with other nodes, found about the upstream node: it agrees, lags, or lies. All are 0 before the first comparison.
# TYPE quorate_upstream_verdict gauge
quorate_upstream_verdict{chain="P",node="node:9650",verdict="agrees"} 0
quorate_upstream_verdict{chain="P",node="node:9650",verdict="lags"} 0
quorate_upstream_verdict{chain="P",node="node:9650",verdict="lies"} 1
`)))
				// It stays a liar while it does not answer, and until it has agreed for long.
				b.node.change(func(c *chain) { c.err = node.ErrUnavailable })
				require.Equal(t, node.Lies, b.after(2*probation).Standing)
				b.node.change(func(c *chain) { c.err, c.block, c.set = nil, nil, nil })
				require.Equal(t, node.Lies, b.after(probation-interval).Standing)
				b.node.change(test.lie)
				require.Equal(t, node.Lies, b.after(2*interval).Standing)
				b.node.change(func(c *chain) { c.block, c.set = nil, nil })
				v = b.after(probation - interval)
				require.Equal(t, node.Lies, v.Standing, "the time starts over")
				require.Equal(t, began, v.Since)
				v = b.after(3 * interval)
				require.Equal(t, node.Agrees, v.Standing)
				require.Empty(t, v.Text)
				require.Equal(t, 1, strings.Count(b.log.String(), "contradicts the P-Chain"), &b.log)
				require.Equal(t, 1, strings.Count(b.log.String(), "agrees again"), &b.log)
				require.Contains(t, b.log.String(), "http://node:9650")
			})
		})
	}
}

func TestInventedTip(t *testing.T) {
	judging(t, func(b *bench) {
		b.node.change(func(c *chain) { c.height = 200 })
		require.Equal(t, node.Agrees, b.after(aheadFor-interval).Standing)
		v := b.after(2 * interval)
		require.Equal(t, node.Lies, v.Standing)
		require.Equal(t, "it reports height 200, and the validators have accepted none above 100", v.Text)
	})
}

// TestNothingIsJudgedWithoutTheTip: while the executed chain is not at its tip, no node is judged.
func TestNothingIsJudgedWithoutTheTip(t *testing.T) {
	judging(t, func(b *bench) {
		b.behind.Store(true)
		b.node.change(func(c *chain) { c.height = 200 })
		b.after(interval)
		asked := b.node.calls()
		require.Equal(t, node.Agrees, b.after(time.Hour).Standing)
		require.Equal(t, asked, b.node.calls())
		b.executed.change(func(c *chain) { c.height = 150 })
		b.behind.Store(false)
		require.Equal(t, node.Agrees, b.after(aheadFor-interval).Standing, "the time before does not count")
		b.executed.change(func(c *chain) { c.height = 200 })
		require.Equal(t, node.Agrees, b.after(time.Hour).Standing)
		require.Empty(t, b.log.String())
	})
}

func TestFewCalls(t *testing.T) {
	judging(t, func(b *bench) {
		before := b.node.calls()
		b.after(10 * time.Minute)
		require.LessOrEqual(t, b.node.calls()-before, 60*(3+1+subnets))
		require.Greater(t, b.node.calls()-before, 60*3)
	})
}
