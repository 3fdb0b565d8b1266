package main

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/vms/evm/predicate"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp"
	"github.com/ava-labs/libevm/common"
	"github.com/ava-labs/libevm/common/hexutil"
	"github.com/ava-labs/libevm/core/types"
)

// key pays in the tests.
const key = "56289e99c94b6912bfc12adc093c9b51124f0dc54ac7a766b2bc5ccf558d8027"

// chain stands for the destination. It includes each transaction at the second question for its receipt.
type chain struct {
	t       *testing.T
	status  string // of the receipts
	sent    []*types.Transaction
	pending bool
}

func (c *chain) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var call struct {
		Method string
		Params []json.RawMessage
	}
	if err := json.NewDecoder(r.Body).Decode(&call); err != nil {
		c.t.Error(err)
	}
	result := ""
	switch call.Method {
	case "eth_chainId":
		result = `"0xa869"`
	case "eth_gasPrice":
		result = `"0x64"`
	case "eth_getTransactionCount":
		result = fmt.Sprintf(`"0x%x"`, 5+len(c.sent))
	case "eth_sendRawTransaction":
		var raw hexutil.Bytes
		tx := new(types.Transaction)
		if err := json.Unmarshal(call.Params[0], &raw); err != nil {
			c.t.Error(err)
		} else if err := tx.UnmarshalBinary(raw); err != nil {
			c.t.Error(err)
		}
		c.sent, c.pending = append(c.sent, tx), true
		result = `"` + tx.Hash().Hex() + `"`
	case "eth_getTransactionReceipt":
		if result = "null"; !c.pending {
			result = `{"status":"` + c.status + `"}`
		}
		c.pending = false
	default:
		c.t.Errorf("got a call of %s", call.Method)
	}
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":1,"result":%s}`, result)
}

// TestRelay checks the transactions that deliver the messages of one transaction.
func TestRelay(t *testing.T) {
	var signed []*warp.Message
	var listed []string
	for i := range 2 {
		m, err := warp.NewUnsignedMessage(5, ids.ID{1}, []byte(strings.Repeat("long ", 20*i)))
		require.NoError(t, err)
		s, err := warp.NewMessage(m, &warp.BitSetSignature{Signers: []byte{7}})
		require.NoError(t, err)
		signed = append(signed, s)
		listed = append(listed, fmt.Sprintf(`{"messageId":%q,"logIndex":%d,"unsignedMessage":%q,"signedMessage":%q}`,
			m.ID(), i, hex.EncodeToString(m.Bytes()), hex.EncodeToString(s.Bytes())))
	}
	failed := fmt.Sprintf(`{"messageId":%q,"unsignedMessage":%q,"error":{"message":"too few","statusCode":500,"code":"QUORUM_NOT_REACHED"}}`,
		signed[0].UnsignedMessage.ID(), hex.EncodeToString(signed[0].UnsignedMessage.Bytes()))
	destination, subnet, to := ids.ID{2}, ids.ID{3}, common.Address{4}
	for name, test := range map[string]struct {
		messages, status string
		delivered        int
		want             string // error
	}{
		"both":              {strings.Join(listed, ","), "0x1", 2, ""},
		"one is not signed": {listed[0] + "," + failed, "0x1", 1, "QUORUM_NOT_REACHED"},
		"reverted":          {listed[0] + "," + listed[1], "0x0", 1, "was reverted"},
	} {
		t.Run(name, func(t *testing.T) {
			service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				want := "/v1/signatureAggregator/fuji/blockchains/c-chain/transactions/0x" + strings.Repeat("07", 32) + "/messages?signingSubnetId=" +
					subnet.String() + "&verifyingBlockchainId=" + destination.String()
				if got := r.URL.RequestURI(); got != want {
					t.Errorf("got request %s, want %s", got, want)
				}
				fmt.Fprintf(w, `{"messages":[%s]}`, test.messages)
			}))
			defer service.Close()
			c := &chain{t: t, status: test.status}
			rpc := httptest.NewServer(c)
			defer rpc.Close()
			var out strings.Builder
			err := run(t.Context(), []string{
				"--server", service.URL, "--tx", "0x" + strings.Repeat("07", 32), "--destination", destination.String(), "--signing-subnet", subnet.String(),
				"--rpc", rpc.URL, "--to", to.Hex(), "--data", "0x0102", "--gas", "777",
			}, key, &out)
			if test.want == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, test.want)
			}
			require.Len(t, c.sent, test.delivered)
			for i, tx := range c.sent {
				require.EqualValues(t, 5+i, tx.Nonce())
				require.EqualValues(t, 777, tx.Gas())
				require.Equal(t, &to, tx.To())
				require.Equal(t, []byte{1, 2}, tx.Data())
				require.Len(t, tx.AccessList(), 1)
				require.Equal(t, "0x0200000000000000000000000000000000000005", tx.AccessList()[0].Address.Hex())
				carried, err := predicate.Predicate(tx.AccessList()[0].StorageKeys).Bytes()
				require.NoError(t, err)
				require.Equal(t, signed[i].Bytes(), carried)
				if test.want == "" {
					require.Contains(t, out.String(), signed[i].UnsignedMessage.ID().String()+" "+tx.Hash().Hex()+"\n")
				}
			}
		})
	}
}

// TestMistakes checks that mistakes in the command line show before anything is sent.
func TestMistakes(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("got a request") }))
	defer server.Close()
	good := map[string]string{
		"--server": server.URL, "--rpc": server.URL, "--tx": "0x" + strings.Repeat("07", 32), "--destination": ids.ID{2}.String(), "--to": common.Address{4}.Hex(),
	}
	for flag, value := range map[string]string{
		"--tx": "0x07", "--destination": "x", "--to": "0x12", "--data": "0x123", "--signing-subnet": "x", "--server": "localhost", "--rpc": "", "--nonsense": "1",
	} {
		var args []string
		for name, text := range good {
			if name != flag {
				args = append(args, name, text)
			}
		}
		require.Error(t, run(t.Context(), append(args, flag, value), key, &strings.Builder{}), "%s %s", flag, value)
	}
}
