package main

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp"

	"quorate/internal/chain/evm"
	"quorate/internal/simnet"
	"quorate/internal/simnet/evmchain"
)

// picked holds transactions of a chain by what they did.
type picked struct{ sent, silent, reverted *evm.Transaction }

func pick(truth *evmchain.Truth) (p picked) {
	for _, b := range truth.Blocks() {
		for i := range b.Transactions {
			tx := &b.Transactions[i]
			switch {
			case !tx.Success:
				p.reverted = tx
			case slices.ContainsFunc(tx.Logs, func(l evm.Log) bool { return l.Address == evmchain.Warp }):
				p.sent = tx
			default:
				p.silent = tx
			}
		}
	}
	return p
}

// requireSigned fails unless a signed message in hex is the one that tx sent on a chain.
func requireSigned(t *testing.T, chain ids.ID, tx *evm.Transaction, text string) {
	t.Helper()
	raw, err := hex.DecodeString(text)
	require.NoError(t, err)
	signed, err := warp.ParseMessage(raw)
	require.NoError(t, err)
	require.Equal(t, chain, signed.SourceChainID)
	i := slices.IndexFunc(tx.Logs, func(l evm.Log) bool { return l.Address == evmchain.Warp })
	require.Equal(t, tx.Logs[i].Topics[2].Hex(), "0x"+signed.UnsignedMessage.ID().Hex())
	signers, err := signed.Signature.NumSigners()
	require.NoError(t, err)
	require.GreaterOrEqual(t, signers, 3)
}

// TestMessagesOfEVMTransactions signs by transaction on the C-Chain and on a configured chain, neither of which is indexed.
func TestMessagesOfEVMTransactions(t *testing.T) {
	options := func(seed uint64, l1 bool) simnet.EVM {
		return simnet.EVM{Options: evmchain.Options{L1: l1, Txs: 300, Record: true, Seed: seed}}
	}
	n := startSimnet(t, simnet.Options{Seed: 41, Validators: 4, EVM: []simnet.EVM{options(1, false), options(2, true)}})
	c, l1 := n.EVM()[0], n.EVM()[1]
	s := evmService(t, t.TempDir(), n, "--record", "l1")
	defer s.stop(t)
	type reply struct {
		Messages []struct {
			LogIndex      uint64
			MessageID     ids.ID
			SignedMessage string
			Error         map[string]any
		}
		Code string
	}
	messagesOf := func(chain, hash string) (got reply, status int) {
		response, content := ask(t, http.MethodGet, s.base+"/v1/signatureAggregator/fuji/blockchains/"+chain+"/transactions/"+hash+"/messages", "")
		require.NoError(t, json.Unmarshal([]byte(content), &got), content)
		return got, response.StatusCode
	}
	for _, test := range []struct {
		node  *evmchain.Node
		names []string
	}{
		{c, []string{"c-chain", "43112", c.Generator().BlockchainID().String()}},
		{l1, []string{fmt.Sprint(l1.Generator().ChainID()), l1.Generator().BlockchainID().String()}},
	} {
		txs, id := pick(test.node.Generator().Truth()), test.node.Generator().BlockchainID()
		require.NotNil(t, txs.sent)
		require.NotNil(t, txs.reverted)
		for _, name := range test.names {
			got, status := messagesOf(name, txs.sent.Hash.Hex())
			require.Equal(t, http.StatusOK, status, "%s: %v %s", name, got, s.log)
			require.Len(t, got.Messages, 1)
			requireSigned(t, id, txs.sent, got.Messages[0].SignedMessage)
		}
		for hash, want := range map[string]struct {
			status int
			code   string
		}{
			txs.silent.Hash.Hex():           {400, "NO_WARP_MESSAGE"},
			txs.reverted.Hash.Hex():         {400, "TRANSACTION_REVERTED"},
			"0x" + strings.Repeat("09", 32): {404, "UNKNOWN_TRANSACTION"},
		} {
			got, status := messagesOf(test.names[0], hash)
			require.Equal(t, want.status, status)
			require.Equal(t, want.code, got.Code)
		}
		code, out, errOut := quorate(t, "", "sign", "--server", s.base, "--chain", test.names[0], "--quorum", "80", "--tx", txs.sent.Hash.Hex())
		require.Equal(t, exitOK, code, errOut)
		requireSigned(t, id, txs.sent, strings.TrimSpace(out))
		code, out, errOut = quorate(t, "", "sign", "--node", n.NodeURL(), "--allow-private-ips", "--chain", id.String(), "--tx", txs.sent.Hash.Hex(), "--json")
		require.Equal(t, exitOK, code, errOut)
		var printed reply
		require.NoError(t, json.Unmarshal([]byte(out), &printed))
		require.Len(t, printed.Messages, 1)
		requireSigned(t, id, txs.sent, printed.Messages[0].SignedMessage)
	}
	for _, chain := range []string{ids.ID{9}.String(), "1", "nonsense"} {
		got, status := messagesOf(chain, "0x"+ids.ID{9}.Hex())
		require.Equal(t, http.StatusNotFound, status, chain)
		require.Equal(t, "CHAIN_NOT_CONFIGURED", got.Code)
	}

	// A hash in hex that the P-Chain does not know is one of the C-Chain.
	txs := pick(c.Generator().Truth())
	for _, from := range [][]string{{"--server", s.base}, {"--node", n.NodeURL(), "--allow-private-ips"}} {
		code, out, errOut := quorate(t, "", append([]string{"sign", "--tx", txs.sent.Hash.Hex()}, from...)...)
		require.Equal(t, exitOK, code, errOut)
		requireSigned(t, c.Generator().BlockchainID(), txs.sent, strings.TrimSpace(out))
		code, _, errOut = quorate(t, "", append([]string{"sign", "--tx", txs.reverted.Hash.Hex()}, from...)...)
		require.Equal(t, exitUsage, code)
		require.Contains(t, errOut, "was reverted")
	}

	// A node that is behind does not know the transaction; one that is away is no answer.
	c.SetFaults(evmchain.Faults{Behind: c.Tip()})
	got, status := messagesOf("c-chain", txs.sent.Hash.Hex())
	require.Equal(t, http.StatusNotFound, status)
	require.Equal(t, "UNKNOWN_TRANSACTION", got.Code)
	c.SetFaults(evmchain.Faults{Reset: true})
	got, status = messagesOf("c-chain", txs.sent.Hash.Hex())
	require.Equal(t, http.StatusServiceUnavailable, status)
	require.Equal(t, "NODE_UNAVAILABLE", got.Code)
}

// TestSignPrintsEachMessage prints the server's answer for each message of a transaction.
func TestSignPrintsEachMessage(t *testing.T) {
	unsigned, err := warp.NewUnsignedMessage(5, ids.ID{1}, []byte("sent"))
	require.NoError(t, err)
	raw := hex.EncodeToString(unsigned.Bytes())
	signedBy := func(signers byte) string {
		signed, err := warp.NewMessage(unsigned, &warp.BitSetSignature{Signers: []byte{signers}})
		require.NoError(t, err)
		return hex.EncodeToString(signed.Bytes())
	}
	first, third, subnet := signedBy(1), signedBy(3), ids.ID{8}
	hash := "0x" + strings.Repeat("07", 32)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if got, want := r.URL.Path, "/v1/signatureAggregator/fuji/blockchains/43113/transactions/"+hash+"/messages"; got != want {
			t.Errorf("got path %s, want %s", got, want)
		}
		if got, want := r.URL.RawQuery, "pChainHeight=5&quorumPercentage=80&quorumPercentageBuffer=3&signingSubnetId="+subnet.String()+"&waitSeconds=25"; got != want {
			t.Errorf("got query %s, want %s", got, want)
		}
		fmt.Fprintf(w, `{"messages":[
			{"messageId":%q,"logIndex":1,"unsignedMessage":%q,"signedMessage":%q},
			{"messageId":%q,"logIndex":2,"unsignedMessage":%q,"error":{"message":"it says why","statusCode":500,"error":"x","code":"QUORUM_NOT_REACHED"}},
			{"messageId":%q,"logIndex":4,"unsignedMessage":%q,"signedMessage":%q}]}`,
			unsigned.ID(), raw, first, unsigned.ID(), raw, unsigned.ID(), raw, third)
	}))
	defer server.Close()
	args := []string{"sign", "--server", server.URL, "--chain", "43113", "--tx", hash, "--quorum", "80", "--buffer", "3", "--height", "5", "--signing-subnet", subnet.Hex()}
	code, out, errOut := quorate(t, "", args...)
	require.Equal(t, exitNegative, code, errOut)
	require.Equal(t, first+"\n"+third+"\n", out)
	require.Contains(t, errOut, "message 2 of 3")
	require.Contains(t, errOut, "log 2: it says why")
	code, out, _ = quorate(t, "", append(args, "--json")...)
	require.Equal(t, exitNegative, code)
	require.Contains(t, out, `"code":"QUORUM_NOT_REACHED"`)

	for _, args := range [][]string{
		{"--node", "http://127.0.0.1:1", "--chain", "43113", "--tx", ids.ID{7}.String()},
		{"--server", server.URL, "--chain", "43113", "00"},
		{"--server", server.URL, "--quorum", "80", "--tx", ids.ID{7}.String()},
	} {
		code, _, errOut := quorate(t, "", append([]string{"sign"}, args...)...)
		require.Equal(t, exitUsage, code)
		require.Contains(t, errOut, "--chain")
	}
}
