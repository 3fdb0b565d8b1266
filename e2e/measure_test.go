package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/constants"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp/payload"
	"github.com/ava-labs/libevm/common"
	"github.com/ava-labs/libevm/common/hexutil"

	"quorate/e2e/localnet"
)

// measured is the report of quorate measure, as far as the test reads it.
type measured struct {
	BlockchainID ids.ID `json:"blockchainId"`
	Subnet       struct {
		ID             ids.ID `json:"id"`
		Nodes          int    `json:"nodes"`
		TotalWeight    uint64 `json:"totalWeight,string"`
		RepeatedBlocks int    `json:"repeatedBlocks"`
		Quorums        []struct {
			Percent, Reached int
			Times            struct {
				Median float64 `json:"medianMs"`
			}
		}
	}
	Validators []struct {
		NodeID                             ids.NodeID `json:"nodeId"`
		Rounds, Signed, NotConnected       int
		Invalid, Refused, NotYet, TimedOut int
		Version, Reason                    string
		Connected                          bool
		Times                              struct {
			Median float64 `json:"medianMs"`
		}
	}
	Rounds []struct {
		Height       uint64
		BlockHash    ids.ID `json:"blockHash"`
		MessageID    ids.ID `json:"messageId"`
		SignedWeight uint64 `json:"signedWeight,string"`
	}
}

// measure runs the built command.
func measure(t *testing.T, ctx context.Context, program, node string, flags ...string) (code int, r measured, errOut string) {
	t.Helper()
	cmd := exec.CommandContext(ctx, program, append([]string{"measure", "--node", node, "--allow-private-ips", "--json"}, flags...)...)
	var out, failed bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &failed
	if err := cmd.Run(); err != nil {
		require.IsType(t, new(exec.ExitError), err)
	}
	if out.Len() > 0 {
		require.NoError(t, json.Unmarshal(out.Bytes(), &r), "%s", &out)
	}
	return cmd.ProcessState.ExitCode(), r, failed.String()
}

// TestMeasure measures the validators of a real network, first all five, then with two
// stopped.
func TestMeasure(t *testing.T) {
	t.Parallel()
	ctx, cancel := testContext(t, 9*time.Minute)
	defer cancel()
	program := buildService(t)
	network := localnet.Start(t)
	node := network.Node(0).URL

	code, genesis, errOut := measure(t, ctx, program, node, "--rounds", "2", "--rate", "5/s")
	require.Zero(t, code, errOut)
	require.Equal(t, 1, genesis.Subnet.RepeatedBlocks, "the chain has only its genesis block")
	require.Equal(t, genesis.Subnet.TotalWeight, genesis.Rounds[0].SignedWeight, "the genesis block is signed")

	chain := newCChain(t, ctx, node)
	for i := range 12 {
		chain.await(ctx, chain.sendByAccount(ctx, fmt.Appendf(nil, "block %d", i)))
	}
	const rounds = 10
	code, r, errOut := measure(t, ctx, program, node, "--rounds", "10", "--rate", "5/s")
	require.Zero(t, code, errOut)
	require.Equal(t, constants.PrimaryNetworkID, r.Subnet.ID)
	require.Zero(t, r.Subnet.RepeatedBlocks)
	require.Len(t, r.Validators, localnet.Size)
	for _, v := range r.Validators {
		require.Equal(t, rounds, v.Signed, "%+v", v)
		require.True(t, v.Connected)
		require.Contains(t, v.Version, "1.14.")
		require.Positive(t, v.Times.Median)
		t.Logf("%s: median %.1f ms", v.NodeID, v.Times.Median)
	}
	for _, q := range r.Subnet.Quorums {
		require.Equal(t, rounds, q.Reached, "%d%%", q.Percent)
		require.Positive(t, q.Times.Median)
	}
	require.Len(t, r.Rounds, rounds)
	heights := make(map[uint64]struct{})
	for _, round := range r.Rounds {
		heights[round.Height] = struct{}{}
		var block struct{ Hash common.Hash }
		require.NoError(t, localnet.Call(ctx, node, "/ext/bc/C/rpc", "eth_getBlockByNumber", []any{hexutil.Uint64(round.Height), false}, &block))
		require.EqualValues(t, block.Hash, round.BlockHash)
		hash, err := payload.NewHash(ids.ID(block.Hash))
		require.NoError(t, err)
		m, err := warp.NewUnsignedMessage(localnet.NetworkID, r.BlockchainID, hash.Bytes())
		require.NoError(t, err)
		require.Equal(t, m.ID(), round.MessageID)
		require.Equal(t, r.Subnet.TotalWeight, round.SignedWeight)
	}
	require.Len(t, heights, rounds)

	var stopped [2]struct{ NodeID ids.NodeID }
	for i := range stopped {
		require.NoError(t, localnet.Call(ctx, network.Node(3+i).URL, "/ext/info", "info.getNodeID", map[string]any{}, &stopped[i]))
	}
	network.Stop(3)
	network.Stop(4)
	code, r, errOut = measure(t, ctx, program, node, "--rounds", "3", "--rate", "5/s", "--timeout", "2s", "--connect", "1s")
	require.Equal(t, 3, code, errOut)
	require.Contains(t, errOut, "no round reached 67%")
	require.Equal(t, 3, r.Subnet.Quorums[1].Reached, "60% of the weight signs")
	away := 0
	for _, v := range r.Validators {
		if v.NodeID == stopped[0].NodeID || v.NodeID == stopped[1].NodeID {
			require.Equal(t, 3, v.NotConnected, "%+v", v)
			require.NotEmpty(t, v.Reason)
			away++
		} else {
			require.Equal(t, 3, v.Signed, "%+v", v)
		}
	}
	require.Equal(t, 2, away)
}

// TestMeasureHelicon measures validators whose C-Chain executes blocks after they are
// accepted, as on the public networks.
func TestMeasureHelicon(t *testing.T) {
	node := heliconNode(t)
	t.Parallel()
	ctx, cancel := testContext(t, 9*time.Minute)
	defer cancel()
	program := buildService(t)
	network := localnet.StartWith(t, localnet.Options{Stakers: 3, Program: node, Upgrades: upgradesUntil("helicon")})
	chain := newCChain(t, ctx, network.Node(0).URL)
	for i := range 4 {
		chain.await(ctx, chain.sendByAccount(ctx, fmt.Appendf(nil, "block %d", i)))
	}
	code, r, errOut := measure(t, ctx, program, network.Node(0).URL, "--rounds", "5", "--rate", "5/s")
	require.Zero(t, code, errOut)
	require.Zero(t, r.Subnet.RepeatedBlocks)
	require.Len(t, r.Validators, 3)
	for _, v := range r.Validators {
		require.Equal(t, 5, v.Signed, "%+v", v)
	}
}
