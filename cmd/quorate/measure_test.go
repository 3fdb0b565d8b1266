package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp"

	"quorate/aggregator"
	"quorate/internal/measure"
	"quorate/internal/simnet"
	"quorate/internal/simnet/evmchain"
)

// validatorOf returns a validator's part of a report.
func validatorOf(t *testing.T, r *measure.Report, nodeID ids.NodeID) measure.Validator {
	t.Helper()
	i := slices.IndexFunc(r.Validators, func(v measure.Validator) bool { return v.NodeID == nodeID })
	require.GreaterOrEqual(t, i, 0, "%s is not in the report", nodeID)
	return r.Validators[i]
}

// median returns the median by nearest rank, in ms.
func median(times []time.Duration) float64 {
	slices.Sort(times)
	return float64(times[(len(times)+1)/2-1].Microseconds()) / 1000
}

// measured runs measure against a simulated network and returns the report.
func measured(t *testing.T, n *simnet.Network, code int, flags ...string) *measure.Report {
	t.Helper()
	got, out, errOut := quorate(t, "", append([]string{"measure", "--node", n.NodeURL(), "--allow-private-ips", "--json"}, flags...)...)
	require.Equal(t, code, got, errOut)
	var r measure.Report
	require.NoError(t, json.Unmarshal([]byte(out), &r))
	return &r
}

// TestMeasureMatchesDrawnTimes measures validators whose answer times were drawn, next to
// validators that do not sign.
func TestMeasureMatchesDrawnTimes(t *testing.T) {
	if testing.Short() {
		t.Skip("measures for ten seconds")
	}
	const rounds = 25
	n, err := simnet.Start(simnet.Options{
		Seed: 21, Validators: 12,
		ExplicitWeights: []uint64{10, 11, 12, 13, 14, 15, 16, 17, 4, 5, 6, 7},
		// Slow beside what a busy machine adds, 35 ms here and there.
		Latency: simnet.Latency{Median: 300 * time.Millisecond, P99: 560 * time.Millisecond, Persistent: 0.7},
		EVM:     []simnet.EVM{{Options: evmchain.Options{Txs: 400}}},
	})
	require.NoError(t, err)
	defer n.Close()
	all := n.Validators()
	const honest = 8
	require.NoError(t, all[8].SetBehaviour(simnet.Silent))
	require.NoError(t, all[9].SetBehaviour(simnet.Refusing))
	all[9].SetRefusal(7, "not today,\x1b[2J friend")
	require.NoError(t, all[10].SetBehaviour(simnet.WrongSignature))
	require.NoError(t, all[11].SetBehaviour(simnet.Offline))

	r := measured(t, n, exitOK, "--rounds", "25", "--rate", "4/s", "--timeout", "2s", "--connect", "2s")
	require.Len(t, r.Rounds, rounds)
	require.Zero(t, r.Subnet.RepeatedBlocks)
	require.False(t, r.Interrupted)
	require.Equal(t, n.Blockchain(), r.BlockchainID)
	require.Equal(t, 12, r.Subnet.Validators)
	require.EqualValues(t, 130, r.Subnet.TotalWeight)
	require.EqualValues(t, 123, r.Subnet.ConnectedWeight)

	busy := 0.0 // the most that the machine adds to the median of a validator, in ms
	for _, v := range all[:honest] {
		var drawn []time.Duration
		for _, round := range r.Rounds {
			drawn = append(drawn, n.AnswerTime(v.Index, round.MessageID))
		}
		got := validatorOf(t, r, v.NodeID)
		require.Equal(t, rounds, got.Signed, "validator %d: %+v", v.Index, got)
		require.NotNil(t, got.Times.Median)
		// Never less than was drawn, and not much more, as a busy machine delays some answers.
		require.Greater(t, *got.Times.Median, median(drawn)-1, "validator %d", v.Index)
		require.InEpsilon(t, median(drawn), *got.Times.Median, 0.5, "validator %d", v.Index)
		busy = max(busy, *got.Times.Median-median(drawn))
		require.NotEmpty(t, got.Version)
		t.Logf("validator %d: drawn %.1f ms, measured %.1f ms", v.Index, median(drawn), *got.Times.Median)
	}

	silent := validatorOf(t, r, all[8].NodeID)
	require.Equal(t, rounds, silent.TimedOut)
	require.True(t, silent.Connected)
	require.Nil(t, silent.Times.Median)
	refusing := validatorOf(t, r, all[9].NodeID)
	require.Equal(t, rounds, refusing.Refused)
	require.Equal(t, []measure.Refusal{{Code: 7, Text: "not today, [2J friend", Count: rounds}}, refusing.Refusals)
	lying := validatorOf(t, r, all[10].NodeID)
	require.Equal(t, rounds, lying.Invalid)
	require.Nil(t, lying.Times.Median)
	offline := validatorOf(t, r, all[11].NodeID)
	require.Equal(t, rounds, offline.NotConnected)
	require.False(t, offline.Connected)
	require.Equal(t, aggregator.ReasonNoAddress, offline.Reason) // a node lists and reports connected nodes only
	require.Equal(t, aggregator.ReasonNoAnswer, silent.Reason)
	require.Equal(t, aggregator.ReasonRefused, refusing.Reason)
	require.Equal(t, aggregator.ReasonInvalidSignature, lying.Reason)

	requireDrawnQuorums(t, n, r, honest, busy)
}

// requireDrawnQuorums compares the times to shares of the weight with those that follow from
// the drawn answer times of the first validators, the others not signing. The machine adds
// about busy ms.
func requireDrawnQuorums(t *testing.T, n *simnet.Network, r *measure.Report, honest int, busy float64) {
	t.Helper()
	weights := []uint64{10, 11, 12, 13, 14, 15, 16, 17}
	for _, percent := range []uint64{33, 50, 67, 80, 90} {
		var drawn []time.Duration
		for _, round := range r.Rounds {
			order := make([]int, honest)
			for i := range order {
				order[i] = i
			}
			slices.SortFunc(order, func(a, b int) int {
				return int(n.AnswerTime(a, round.MessageID) - n.AnswerTime(b, round.MessageID))
			})
			var sum uint64
			for _, i := range order {
				if sum += weights[i]; sum*100 >= percent*r.Subnet.TotalWeight {
					drawn = append(drawn, n.AnswerTime(i, round.MessageID))
					break
				}
			}
		}
		q := r.Subnet.Quorum(percent)
		require.Equal(t, len(drawn), q.Reached, "%d%%", percent)
		if percent == 90 { // 108 of 130 can sign
			require.Zero(t, q.Reached)
			require.Nil(t, q.Times.Median)
			continue
		}
		require.Equal(t, len(r.Rounds), q.Reached)
		require.Greater(t, *q.Times.Median, median(drawn)-1, "%d%%", percent)
		require.Less(t, *q.Times.Median, 1.1*median(drawn)+busy, "%d%%", percent)
		t.Logf("%d%%: drawn %.1f ms, measured %.1f ms", percent, median(drawn), *q.Times.Median)
	}
}

// TestMeasureWritesAndCompares runs the command with all its outputs, and interrupts it.
func TestMeasureWritesAndCompares(t *testing.T) {
	n, err := simnet.Start(simnet.Options{Seed: 22, Validators: 4, EVM: []simnet.EVM{{Options: evmchain.Options{Txs: 200}}}})
	require.NoError(t, err)
	defer n.Close()
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	args := []string{"measure", "--node", n.NodeURL(), "--allow-private-ips", "--rounds", "3", "--rate", "20/s", "--settle", "0s"}
	code, out, errOut := quorate(t, "", append(args, "--save", file("a.json"), "--csv", file("a.csv"), "--html", file("a.html"))...)
	require.Zero(t, code, errOut)
	require.Contains(t, out, n.Validators()[0].NodeID.String())
	for _, name := range []string{"a.csv", "a.html"} {
		content, err := os.ReadFile(file(name))
		require.NoError(t, err)
		require.Contains(t, string(content), n.Validators()[0].NodeID.String(), name)
	}
	code, out, errOut = quorate(t, "", append(args, "--json", "--rpc", n.NodeURL()+"/ext/bc/"+n.Blockchain().String()+"/rpc")...)
	require.Zero(t, code, errOut)
	require.NoError(t, os.WriteFile(file("b.json"), []byte(out), 0o600))

	code, out, errOut = quorate(t, "", "measure", "--compare", file("a.json"), file("b.json"))
	require.Zero(t, code, errOut)
	require.Contains(t, out, "CHANGE")
	code, out, errOut = quorate(t, "", "measure", "--compare", "--json", file("a.json"), file("b.json"))
	require.Zero(t, code, errOut)
	require.Contains(t, out, `"quorums"`)

	code, out, errOut = quorate(t, "", append(args, "--chain", ids.ID{1}.String())...)
	require.Equal(t, exitFailed, code)
	require.Empty(t, out)
	require.Contains(t, errOut, "--rpc")

	// Ctrl-C ends the run and prints what was measured.
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	for _, v := range n.Validators() {
		var answered atomic.Int32
		v.SetHook(func(_ *warp.UnsignedMessage, _ []byte, honest simnet.Answer) simnet.Answer {
			if answered.Add(1) == 4 {
				interrupt()
			}
			return honest
		})
	}
	var printed, failed bytes.Buffer
	args[5] = "5000" // rounds
	code = run(ctx, args, strings.NewReader(""), &printed, &failed)
	require.Zero(t, code, &failed)
	require.Regexp(t, `Ended early, after \d+ of 5000 rounds`, printed.String())

	// No validator signs.
	for _, v := range n.Validators() {
		v.SetHook(nil)
		require.NoError(t, v.SetBehaviour(simnet.Refusing))
	}
	args[5] = "2"
	code, out, errOut = quorate(t, "", args...)
	require.Equal(t, exitNegative, code)
	require.Contains(t, out, "2 not accepted yet")
	require.Contains(t, errOut, "no round reached 67%")

	n.SetAPIFault(&simnet.APIFault{Garbage: "nonsense"})
	code, out, errOut = quorate(t, "", args...)
	require.Equal(t, exitFailed, code)
	require.Empty(t, out)
	require.Contains(t, errOut, "node")
}
