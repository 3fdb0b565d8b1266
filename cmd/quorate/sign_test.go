package main

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp"

	"quorate/aggregator"
	"quorate/internal/simnet"
)

// The command prints what a server says of a transaction.
func TestSignTransactionThroughServer(t *testing.T) {
	txID := ids.ID{0xab, 31: 1}
	unsigned, err := warp.NewUnsignedMessage(5, ids.Empty, []byte("from a transaction"))
	require.NoError(t, err)
	signed, err := warp.NewMessage(unsigned, &warp.BitSetSignature{Signers: []byte{7}})
	require.NoError(t, err)
	failure := func(status int, code string) string {
		return fmt.Sprintf(`{"message":"it says why","statusCode":%d,"error":%q,"code":%q}`, status, http.StatusText(status), code)
	}
	for name, test := range map[string]struct {
		status int
		body   string
		code   int
		part   string
	}{
		"signed":     {200, `{"signedMessage":"` + hex.EncodeToString(signed.Bytes()) + `"}`, exitOK, "signed by 3 validators"},
		"unknown":    {404, failure(404, "UNKNOWN_TRANSACTION"), exitNegative, "If it was issued only now, try again"},
		"no message": {400, failure(400, "NO_WARP_MESSAGE"), exitUsage, "it says why"},
		"undecided":  {503, failure(503, "TRANSACTION_PROCESSING"), exitNegative, "Try again in a moment."},
		"no index":   {503, failure(503, "NOT_INDEXED"), exitNegative, "Try again in a moment."},
		"dropped":    {404, failure(404, "TRANSACTION_DROPPED"), exitUsage, "it says why"},
		"node away":  {503, failure(503, "NODE_UNAVAILABLE"), exitFailed, "Try again"},
		"superseded": {500, failure(500, "SUPERSEDED"), exitNegative, "newer transaction"},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				want := "GET /v1/signatureAggregator/fuji/aggregateSignatures/" + txID.String()
				if fallback := "/v1/signatureAggregator/fuji/blockchains/c-chain/transactions/0x" + txID.Hex() + "/messages"; name == "unknown" && r.URL.Path == fallback {
					want = "GET " + fallback
				}
				if got := r.Method + " " + r.URL.Path; got != want {
					t.Errorf("got request %s, want %s", got, want)
				}
				w.WriteHeader(test.status)
				_, _ = w.Write([]byte(test.body))
			}))
			defer server.Close()
			for _, text := range []string{txID.String(), "0x" + hex.EncodeToString(txID[:])} {
				code, out, errOut := quorate(t, "", "sign", "--server", server.URL, "--tx", text)
				require.Equal(t, test.code, code, errOut)
				require.Contains(t, errOut, test.part)
				if test.code == exitOK {
					require.Equal(t, hex.EncodeToString(signed.Bytes()), strings.TrimSpace(out))
				} else {
					require.Empty(t, out)
					require.Contains(t, errOut, "it says why")
				}
			}
		})
	}
}

// TestSignRefusesUnusableAnswers checks that the command prints no message that the server may not have signed.
func TestSignRefusesUnusableAnswers(t *testing.T) {
	message := func(text string) *warp.UnsignedMessage {
		m, err := warp.NewUnsignedMessage(5, ids.ID{1}, []byte(text))
		require.NoError(t, err)
		return m
	}
	other, err := warp.NewMessage(message("never asked"), &warp.BitSetSignature{Signers: []byte{7}})
	require.NoError(t, err)
	for name, test := range map[string]struct {
		status int
		body   string
		part   string
	}{
		"a page":          {200, "<html>", "is not the expected JSON"},
		"a gateway":       {502, "<html>", "quorate: the server answered with status 502 and no JSON"},
		"another message": {200, `{"signedMessage":"` + hex.EncodeToString(other.Bytes()) + `"}`, "is not the one of the request"},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(test.status)
				_, _ = w.Write([]byte(test.body))
			}))
			defer server.Close()
			code, out, errOut := quorate(t, "", "sign", "--server", server.URL, hex.EncodeToString(message("asked").Bytes()))
			require.Equal(t, exitFailed, code, errOut)
			require.Empty(t, out)
			require.Contains(t, errOut, test.part)
			require.Contains(t, errOut, "Check that "+server.URL+" is the public address of a quorate server.")
		})
	}
}

// TestSignNotSeen has a server that waits for a message in vain: this is a negative result, with the reasons, and no mistake
// in the command line.
func TestSignNotSeen(t *testing.T) {
	message, err := warp.NewUnsignedMessage(5, ids.ID{1}, []byte("not sent"))
	require.NoError(t, err)
	var asked struct{ WaitSeconds int }
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = json.NewDecoder(r.Body).Decode(&asked)
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write([]byte(`{"message":"no validator has seen it","statusCode":404,"error":"Not Found","code":"MESSAGE_NOT_SEEN","outcomes":{
			"targetWeight":"67","totalWeight":"100","signedWeight":"0","reasons":[{"code":"NOT_ACCEPTED","weight":"100","count":3,"remedy":"Check that it was sent."}]}}`))
	}))
	defer server.Close()
	for _, timeout := range []string{"0s", "-1s"} {
		code, _, errOut := quorate(t, "", "sign", "--server", server.URL, "--timeout", timeout, hex.EncodeToString(message.Bytes()))
		require.Equal(t, exitUsage, code)
		require.Contains(t, errOut, "--timeout: "+timeout+" is not above 0")
	}
	for timeout, wait := range map[string]int{"30s": 25, "3s": 0, "10m": 60} {
		code, out, errOut := quorate(t, "", "sign", "--server", server.URL, "--timeout", timeout, hex.EncodeToString(message.Bytes()))
		require.Equal(t, exitNegative, code, errOut)
		require.Empty(t, out)
		require.Contains(t, errOut, "no validator has seen it")
		require.Contains(t, errOut, "100.00%  NOT_ACCEPTED")
		require.Contains(t, errOut, "Check that it was sent.")
		require.Equal(t, wait, asked.WaitSeconds)
		asked.WaitSeconds = 0
	}
	code, out, errOut := quorate(t, "", "sign", "--server", server.URL, "--json", hex.EncodeToString(message.Bytes()))
	require.Equal(t, exitNegative, code, errOut)
	var failed struct {
		Error struct {
			Code     string
			Message  string
			Outcomes aggregator.Account
		}
	}
	require.NoError(t, json.Unmarshal([]byte(out), &failed), out)
	require.Equal(t, "MESSAGE_NOT_SEEN", failed.Error.Code)
	require.Equal(t, "no validator has seen it", failed.Error.Message)
	require.Equal(t, uint64(100), failed.Error.Outcomes.TotalWeight)
}

// A hash that the node does not know may be one that it does not know yet, so scripts can tell it from a failure.
func TestSignTransactionThroughNode(t *testing.T) {
	n, err := simnet.Start(simnet.Options{Seed: 8, Validators: 3})
	require.NoError(t, err)
	defer n.Close()
	args := []string{"sign", "--node", n.NodeURL(), "--allow-private-ips", "--tx", ids.ID{1}.String()}
	code, _, errOut := quorate(t, "", args...)
	require.Equal(t, exitNegative, code, errOut)
	require.Contains(t, errOut, "knows transaction "+ids.ID{1}.String())
	require.Contains(t, errOut, "If it was issued only now, try again")

	n.SetAPIFault(&simnet.APIFault{Garbage: "nonsense"})
	code, _, errOut = quorate(t, "", args...)
	require.Equal(t, exitFailed, code, errOut)
	require.Contains(t, errOut, "node")
}

// TestSignSummaries compares what sign prints through a server, from its cache, and from the validators.
func TestSignSummaries(t *testing.T) {
	n, err := simnet.Start(simnet.Options{Seed: 3, Validators: 6})
	require.NoError(t, err)
	defer n.Close()
	dir := t.TempDir()
	s := startService(t, dir, map[string]*simnet.Network{"fuji": n})
	message := hex.EncodeToString(n.Message([]byte("summary")).Bytes())
	duration := regexp.MustCompile(` in [0-9.]+m?s`)
	// All must sign, so that the summaries are the same.
	sign := func(args ...string) (errOut string, asJSON map[string]any) {
		t.Helper()
		args = append(args, "--quorum", "100", message)
		code, out, errOut := quorate(t, "", append([]string{"sign", "--json"}, args...)...)
		require.Zero(t, code, errOut)
		require.NoError(t, json.Unmarshal([]byte(out), &asJSON))
		require.Positive(t, asJSON["seconds"])
		delete(asJSON, "seconds")
		code, _, errOut = quorate(t, "", append([]string{"sign"}, args...)...)
		require.Zero(t, code, errOut)
		return duration.ReplaceAllString(errOut, ""), asJSON
	}
	here, hereJSON := sign("--node", n.NodeURL(), "--allow-private-ips")
	require.Regexp(t, `^signed by 6 validators with 100\.00% of the weight of subnet 1{32}LpoYY at P-Chain height \d+\n$`, here)
	require.Equal(t, false, hereJSON["fromCache"])
	there, thereJSON := sign("--server", s.base)
	require.Equal(t, hereJSON, thereJSON)
	// The second command of sign got the answer to the first.
	require.Equal(t, strings.TrimSuffix(here, "\n")+", from cache\n", there)
	s.stop(t)

	s = startService(t, dir, map[string]*simnet.Network{"fuji": n})
	defer s.stop(t)
	there, thereJSON = sign("--server", s.base)
	require.Contains(t, there, ", from cache", "from the archive")
	hereJSON["fromCache"] = true
	require.Equal(t, hereJSON, thereJSON)
}
