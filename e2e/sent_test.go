package e2e

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"
	platformapi "github.com/ava-labs/avalanchego/vms/platformvm/api"
	"github.com/ava-labs/libevm/common"
	"github.com/ava-labs/libevm/crypto"

	"quorate/e2e/localnet"
)

// sendAll returns the init code of a contract that sends messages through the precompile when it is created. It ends
// with end.
func (c *cChain) sendAll(end []byte, contents ...string) []byte {
	c.t.Helper()
	word := func(n int) []byte { return binary.BigEndian.AppendUint16(nil, uint16(n)) }
	var calls [][]byte
	for _, content := range contents {
		packed, err := c.abi.Methods["send"].Inputs.Pack([]byte(content))
		require.NoError(c.t, err)
		calls = append(calls, slices.Concat(crypto.Keccak256([]byte("sendWarpMessage(bytes)"))[:4], packed))
	}
	const each = 9 + 35 // instructions of one call, in bytes
	at := each*len(calls) + len(end)
	var code []byte
	for _, call := range calls {
		code = slices.Concat(code,
			[]byte{0x61}, word(len(call)), []byte{0x61}, word(at), []byte{0x60, 0, 0x39}, // CODECOPY the input to 0
			[]byte{0x60, 0, 0x60, 0, 0x61}, word(len(call)), []byte{0x60, 0, 0x60, 0, 0x73}, warpPrecompile[:], []byte{0x5a, 0xf1}, // CALL
			[]byte{0x50}) // POP
		at += len(call)
	}
	require.Len(c.t, code, each*len(calls))
	return slices.Concat(code, end, slices.Concat(calls...))
}

// sentReply is the answer to a request for the messages of a transaction.
type sentReply struct {
	Messages []struct {
		MessageID     ids.ID `json:"messageId"`
		LogIndex      uint64 `json:"logIndex"`
		SignedMessage string `json:"signedMessage"`
	} `json:"messages"`
	Code    string `json:"code"`
	Message string `json:"message"`
}

func (s *service) sent(ctx context.Context, chain string, hash common.Hash) (status int, r sentReply) {
	s.t.Helper()
	path := "/v1/signatureAggregator/local/blockchains/" + chain + "/transactions/" + hash.Hex() + "/messages?quorumPercentage=80"
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+path, nil)
	require.NoError(s.t, err)
	response, err := http.DefaultClient.Do(request)
	require.NoError(s.t, err)
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(response.Body)
	require.NoError(s.t, err)
	require.NoError(s.t, json.Unmarshal(answer, &r), "%s", answer)
	return response.StatusCode, r
}

// TestMessagesOfEVMTransaction signs both messages of one transaction on a real C-Chain, which accepts them.
func TestMessagesOfEVMTransaction(t *testing.T) {
	t.Parallel()
	ctx, cancel := testContext(t, 9*time.Minute)
	defer cancel()
	program := buildService(t)
	network := localnet.Start(t)
	node := network.Node(0).URL
	chain := newCChain(t, ctx, node)
	s := startService(t, program, node, "--ahead-rounds", "0", "--record", "l1")

	stop, revert := []byte{0}, []byte{0x60, 0, 0x60, 0, 0xfd}
	two := chain.send(ctx, nil, chain.sendAll(stop, "the first", "and the second"), nil)
	failed := chain.send(ctx, nil, chain.sendAll(revert, "never sent"), nil)
	silent := chain.send(ctx, &chain.account, nil, nil)
	receipt := chain.await(ctx, two)
	require.Len(t, receipt.Logs, 2)
	chain.accepted(ctx, failed)
	chain.await(ctx, silent)

	for _, name := range []string{"c-chain", chain.chainID.String()} {
		status, r := s.sent(ctx, name, two)
		require.Equal(t, http.StatusOK, status, r.Message)
		require.Len(t, r.Messages, 2)
		for i, content := range []string{"the first", "and the second"} {
			m := r.Messages[i]
			require.EqualValues(t, receipt.Logs[i].Index, m.LogIndex)
			require.Equal(t, receipt.Logs[i].Topics[2], common.Hash(m.MessageID))
			signed := parseSigned(t, m.SignedMessage)
			requireVerified(t, ctx, node, signed, platformapi.Height(platformapi.ProposedHeight), 80)
			valid, read := chain.read(ctx, signed)
			require.True(t, valid)
			require.Equal(t, content, string(read))
		}
	}
	for _, test := range []struct {
		chain  string
		hash   common.Hash
		status int
		code   string
	}{
		{"c-chain", failed, 400, "TRANSACTION_REVERTED"},
		{"c-chain", silent, 400, "NO_WARP_MESSAGE"},
		{"c-chain", common.Hash{1}, 404, "UNKNOWN_TRANSACTION"},
		{ids.ID{1}.String(), two, 404, "CHAIN_NOT_CONFIGURED"},
	} {
		status, r := s.sent(ctx, test.chain, test.hash)
		require.Equal(t, test.status, status, r.Message)
		require.Equal(t, test.code, r.Code, r.Message)
	}
	network.Stop(0)
	status, r := s.sent(ctx, "c-chain", two)
	require.Equal(t, http.StatusServiceUnavailable, status, r.Message)
	require.Equal(t, "NODE_UNAVAILABLE", r.Code)
}
