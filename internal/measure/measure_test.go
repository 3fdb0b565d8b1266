package measure

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp"

	"quorate/aggregator"
	"quorate/p2p"
)

// of returns a node's part of a report.
func of(t *testing.T, r *Report, nodeID ids.NodeID) Validator {
	t.Helper()
	i := slices.IndexFunc(r.Validators, func(v Validator) bool { return v.NodeID == nodeID })
	require.GreaterOrEqual(t, i, 0)
	return r.Validators[i]
}

func requireTimes(t *testing.T, got Times, median, p90, p99 float64) {
	t.Helper()
	for _, pair := range []struct {
		want float64
		got  *float64
	}{{median, got.Median}, {p90, got.P90}, {p99, got.P99}} {
		require.NotNil(t, pair.got)
		require.InDelta(t, pair.want, *pair.got, 0.001)
	}
}

// TestRunTimesSignatures checks the times of nodes and of shares of the weight against those
// that the nodes took.
func TestRunTimesSignatures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNetwork(t, 40, 30, 20)
		n.keyless = 10
		var times []time.Duration
		for i := range 100 {
			times = append(times, time.Duration(100-i)*time.Millisecond)
		}
		n.nodes[0].answer = signing(n.nodes[0], times...) // 100 ms, 99 ms, ... 1 ms
		n.nodes[1].answer = signing(n.nodes[1], 200*time.Millisecond)
		n.nodes[2].answer = signing(n.nodes[2], 300*time.Millisecond, 150*time.Millisecond)
		var progress []Progress
		o := n.options(100)
		o.Progress = func(p Progress) { progress = append(progress, p) }
		r, err := Run(t.Context(), o)
		require.NoError(t, err)

		requireTimes(t, of(t, r, n.nodes[0].nodeID).Times, 50, 90, 99)
		requireTimes(t, of(t, r, n.nodes[1].nodeID).Times, 200, 200, 200)
		requireTimes(t, of(t, r, n.nodes[2].nodeID).Times, 150, 300, 300)
		require.EqualValues(t, 100, r.Subnet.TotalWeight)
		require.EqualValues(t, 10, r.Subnet.KeylessWeight)
		require.EqualValues(t, 90, r.Subnet.ConnectedWeight)
		requireTimes(t, r.Subnet.Quorum(33).Times, 50, 90, 99)
		requireTimes(t, r.Subnet.Quorum(50).Times, 150, 200, 200) // nodes 0 and 1, or 0 and 2
		requireTimes(t, r.Subnet.Quorum(67).Times, 200, 200, 200)
		requireTimes(t, r.Subnet.Quorum(80).Times, 200, 300, 300)
		require.Equal(t, 100, r.Subnet.Quorum(90).Reached)
		require.Len(t, r.Subnet.Curve, 20)
		require.Zero(t, r.Subnet.Curve[19].Reached, "keyless weight never signs")

		require.Len(t, r.Rounds, 100)
		for i := 1; i < len(r.Rounds); i++ {
			require.GreaterOrEqual(t, r.Rounds[i].At.Sub(r.Rounds[i-1].At), time.Second)
			require.Greater(t, r.Rounds[i].Height, r.Rounds[i-1].Height)
		}
		require.Equal(t, Progress{Connected: 3, Nodes: 3, Rounds: 100}, progress[0])
		require.Equal(t, 100, progress[len(progress)-1].Done)
		require.Len(t, progress, 101)
	})
}

// TestRunSortsAnswers has a node for each kind of answer that is not a valid signature.
func TestRunSortsAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNetwork(t, slices.Repeat([]uint64{10}, 14)...)
		infinity := make([]byte, 96)
		infinity[0] = 0xc0
		for i, answer := range []p2p.Answer{
			0:  {Bytes: nil},
			1:  {Bytes: []byte{0xff, 0xff, 0xff}},
			2:  response(infinity),
			3:  response(make([]byte, 95)),
			4:  {Bytes: make([]byte, 1<<20)},
			5:  response(sign(n.nodes[5].signer, []byte("another message"))),
			7:  refusal(-3, "throttled"),
			8:  refusal(2, "failed to get block 2oLq: not found"),
			9:  refusal(4, "block not marked as accepted: not found"),
			10: {Err: p2p.ErrDisconnected},
		} {
			n.nodes[i].answer = always(answer)
		}
		// The signature of another validator.
		n.nodes[6].answer = func(_ int, m *warp.UnsignedMessage) (p2p.Answer, time.Duration, bool) {
			return response(sign(n.nodes[13].signer, m.Bytes())), time.Millisecond, true
		}
		n.nodes[11].answer = func(int, *warp.UnsignedMessage) (p2p.Answer, time.Duration, bool) { return p2p.Answer{}, 0, false }
		n.nodes[12].offline = true
		r, err := Run(t.Context(), n.options(4))
		require.NoError(t, err)
		for i, count := range []func(Validator) int{
			7:  func(v Validator) int { return v.Refused },
			8:  func(v Validator) int { return v.NotYet },
			9:  func(v Validator) int { return v.NotYet },
			10: func(v Validator) int { return v.Lost },
			11: func(v Validator) int { return v.TimedOut },
			12: func(v Validator) int { return v.NotConnected },
			13: func(v Validator) int { return v.Signed },
		} {
			v := of(t, r, n.nodes[i].nodeID)
			if i < 7 {
				count = func(v Validator) int { return v.Invalid }
			}
			require.Equal(t, 4, count(v), "node %d: %+v", i, v)
			require.Equal(t, 4, v.Rounds)
			require.Equal(t, i == 13, v.Times.Median != nil)
		}
		require.Equal(t, []Refusal{{-3, "throttled", 4}}, of(t, r, n.nodes[7].nodeID).Refusals)
		away := of(t, r, n.nodes[12].nodeID)
		require.Empty(t, away.Version)
		for i, reason := range []aggregator.Reason{
			6: aggregator.ReasonInvalidSignature, 7: aggregator.ReasonRefused, 8: aggregator.ReasonNotAccepted, 9: aggregator.ReasonNotAccepted,
			10: aggregator.ReasonNotConnected, 11: aggregator.ReasonNoAnswer, 12: aggregator.ReasonUnreachable, 13: "",
		} {
			if i >= 6 {
				require.Equal(t, reason, of(t, r, n.nodes[i].nodeID).Reason, "node %d", i)
			}
		}
		require.Equal(t, "throttled (code -3)", of(t, r, n.nodes[7].nodeID).Detail)
		require.EqualValues(t, 130, r.Subnet.ConnectedWeight)
		require.EqualValues(t, 10, r.Rounds[3].SignedWeight)
		require.Zero(t, r.Subnet.Quorum(33).Reached)
		require.Nil(t, r.Subnet.Quorum(33).Times.Median)
	})
}

// Nodes that do not run the chain drop requests.
func TestSilenceOfNodesWithoutTheChain(t *testing.T) {
	for _, test := range []struct {
		source, asked ids.ID
		want          aggregator.Reason
	}{
		{ids.ID{'s'}, ids.ID{'s'}, aggregator.ReasonNoAnswer},
		{ids.ID{'x'}, ids.ID{'x'}, aggregator.ReasonNotTracked},
		{ids.ID{'x'}, ids.ID{'s'}, aggregator.ReasonWrongSigningSubnet},
	} {
		synctest.Test(t, func(t *testing.T) {
			n := newFakeNetwork(t, 10, 20)
			n.nodes[0].answer = func(int, *warp.UnsignedMessage) (p2p.Answer, time.Duration, bool) { return p2p.Answer{}, 0, false }
			o := n.options(1)
			o.SourceSubnetID, o.SubnetID = test.source, test.asked
			r, err := Run(t.Context(), o)
			require.NoError(t, err)
			require.Equal(t, test.want, of(t, r, n.nodes[0].nodeID).Reason)
			require.Len(t, r.Reasons(), 1)
			require.Contains(t, r.Reasons()[0].String(), test.want.Remedy())
		})
	}
}

// A key that two nodes share counts once, when the faster one has signed.
func TestSharedKeyCountsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNetwork(t, 30, 30, 40)
		n.nodes[1].signer = n.nodes[0].signer
		n.nodes[0].answer = signing(n.nodes[0], 50*time.Millisecond)
		n.nodes[1].answer = signing(n.nodes[1], 20*time.Millisecond)
		n.nodes[2].answer = signing(n.nodes[2], 90*time.Millisecond)
		r, err := Run(t.Context(), n.options(1))
		require.NoError(t, err)
		require.Equal(t, 2, r.Subnet.Validators)
		require.Equal(t, 3, r.Subnet.Nodes)
		requireTimes(t, r.Subnet.Quorum(50).Times, 20, 20, 20)
		requireTimes(t, r.Subnet.Quorum(67).Times, 90, 90, 90)
		require.EqualValues(t, 100, r.Rounds[0].SignedWeight)
		for i, median := range []float64{50, 20} {
			v := of(t, r, n.nodes[i].nodeID)
			requireTimes(t, v.Times, median, median, median)
			require.EqualValues(t, 60, v.Weight)
			require.Equal(t, 2, v.SharedBy)
		}
	})
}

// A validator that joins or leaves counts in the rounds that it was a member in.
func TestSetChangesDuringRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNetwork(t, 10, 10, 10)
		late := n.nodes[2]
		n.nodes = n.nodes[:2]
		gone := n.nodes[0]
		o := n.options(5)
		o.Progress = func(p Progress) {
			switch p.Done {
			case 2:
				n.nodes = append(n.nodes, late)
			case 4:
				n.nodes = n.nodes[1:]
			}
		}
		r, err := Run(t.Context(), o)
		require.NoError(t, err)
		left, joined := of(t, r, gone.nodeID), of(t, r, late.nodeID)
		require.Equal(t, 4, left.Signed)
		require.False(t, left.Member)
		require.Equal(t, 3, joined.Signed)
		require.Equal(t, 3, joined.Rounds)
		require.True(t, joined.Member)
		require.Equal(t, 2, r.Subnet.Validators)
	})
}

func TestInterruptedRunReportsCompleteRounds(t *testing.T) {
	for after, complete := range map[time.Duration]int{
		500 * time.Millisecond:  0, // while the first block settles
		1050 * time.Millisecond: 0, // during the first round
		3500 * time.Millisecond: 3,
	} {
		synctest.Test(t, func(t *testing.T) {
			n := newFakeNetwork(t, 10, 10)
			n.nodes[1].answer = signing(n.nodes[1], 100*time.Millisecond)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			time.AfterFunc(after, cancel)
			r, err := Run(ctx, n.options(50))
			if complete == 0 {
				require.ErrorIs(t, err, ErrNothing)
				require.Nil(t, r)
				return
			}
			require.NoError(t, err)
			require.Len(t, r.Rounds, complete)
			require.True(t, r.Interrupted)
			require.Zero(t, of(t, r, n.nodes[1].nodeID).TimedOut, "the round in progress does not count")
		})
	}
}

func TestRunEndsWhenTheChainFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNetwork(t, 10)
		calls := 0
		failure := errors.New("no chain today")
		n.tip = func() (uint64, error) {
			if calls++; calls == 3 || calls > 6 {
				return 0, failure
			}
			return uint64(calls), nil
		}
		r, err := Run(t.Context(), n.options(50))
		require.ErrorIs(t, err, failure)
		require.Len(t, r.Rounds, 4)
		require.Equal(t, 6+maxFailures, calls)
	})
}

func TestSettingsAreChecked(t *testing.T) {
	good := Settings{Rounds: 1, Interval: time.Second, Timeout: time.Second}
	require.NoError(t, good.Check())
	for part, change := range map[string]func(*Settings){
		"0 rounds":     func(s *Settings) { s.Rounds = 0 },
		"10001 rounds": func(s *Settings) { s.Rounds = MaxRounds + 1 },
		"at most one":  func(s *Settings) { s.Interval = time.Millisecond },
		"timeout 11s":  func(s *Settings) { s.Timeout = 11 * time.Second },
		"negative":     func(s *Settings) { s.Settle = -1 },
	} {
		bad := good
		change(&bad)
		require.ErrorContains(t, bad.Check(), part)
		_, err := Run(t.Context(), Options{Settings: bad})
		require.ErrorContains(t, err, part)
	}
}

// tips is a Chain without hashes.
type tips struct{ tip uint64 }

func (c *tips) Tip(context.Context) (uint64, error) { return c.tip, nil }

func (c *tips) BlockHash(_ context.Context, height uint64) (ids.ID, error) {
	return ids.ID{byte(height)}, nil
}

// TestBlocksAreSettledAndNew checks which block each round gets.
func TestBlocksAreSettledAndNew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		chain := &tips{tip: 500}
		b := blocks{chain: chain, settle: time.Second}
		next := func() uint64 {
			got, err := b.next(t.Context())
			require.NoError(t, err)
			require.False(t, got.repeated)
			return got.height
		}
		began := time.Now()
		require.EqualValues(t, 500, next())
		require.Equal(t, time.Second, time.Since(began), "the first block settles")
		chain.tip = 502
		require.EqualValues(t, 499, next(), "502 is not settled")
		time.Sleep(900 * time.Millisecond)
		chain.tip = 503
		require.EqualValues(t, 498, next())
		time.Sleep(100 * time.Millisecond)
		require.EqualValues(t, 502, next(), "503 is not settled")
		time.Sleep(time.Second)
		require.EqualValues(t, 503, next())
		require.EqualValues(t, 501, next())

		behind := blocks{chain: chain, behind: 10}
		got, err := behind.next(t.Context())
		require.NoError(t, err)
		require.EqualValues(t, 493, got.height)

		young := blocks{chain: &tips{tip: 1}, behind: 3}
		for i := range 3 {
			got, err := young.next(t.Context())
			require.NoError(t, err)
			require.Zero(t, got.height)
			require.Equal(t, i > 0, got.repeated)
		}
		idle := blocks{chain: chain}
		for i := range maxBack + 2 {
			got, err := idle.next(t.Context())
			require.NoError(t, err)
			require.Equal(t, i >= maxBack, got.repeated)
			if i < maxBack {
				require.EqualValues(t, 503-i, got.height)
			} else {
				require.EqualValues(t, 503, got.height)
			}
		}
	})
}

func TestTextOfNodesIsPrintable(t *testing.T) {
	require.Equal(t, "a [2J b", printable("a\x1b[2J\nb"))
	require.Len(t, printable(strings.Repeat("é", 500)), maxText+3)
	require.Equal(t, "ok", printable("\x00ok\u202e"))
}
