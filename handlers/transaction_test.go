package handlers

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"

	"quorate/aggregator"
	"quorate/aggregator/l1message"
	"quorate/handlers/compat"
	"quorate/internal/store"
)

func get(h http.Handler, path string, headers ...string) *httptest.ResponseRecorder {
	return do(h, http.MethodGet, path, "", headers...)
}

func TestTransactionHashesAreUnderstood(t *testing.T) {
	txID := ids.ID{0xab, 31: 9}
	digits := hex.EncodeToString(txID[:])
	for name, text := range map[string]string{
		"cb58":            txID.String(),
		"hex":             "0x" + digits,
		"hex in capitals": "0X" + strings.ToUpper(digits),
		"bare hex":        digits,
		"an encoded path": "%30x" + digits,
	} {
		for _, network := range []string{"fuji", "testnet"} {
			t.Run(name+" on "+network, func(t *testing.T) {
				s := &fakeSigner{}
				w := get(newPublic(t, s, nil), "/v1/signatureAggregator/"+network+"/aggregateSignatures/"+text)
				require.Equal(t, http.StatusOK, w.Code, w.Body)
				require.Equal(t, "application/json", w.Header().Get("Content-Type"))
				require.Equal(t, []ids.ID{txID}, s.transactions)
				require.Empty(t, s.calls, "nothing but the transaction is signed")
				var body map[string]string
				require.NoError(t, json.Unmarshal(w.Body.Bytes(), &body))
				require.Len(t, body, 1)
				require.Contains(t, body["signedMessage"], digits)
				require.NotContains(t, body["signedMessage"], "0x")
			})
		}
	}
}

func TestTransactionAnswersOfGeneratedClients(t *testing.T) {
	e := newPublic(t, &fakeSigner{}, func(o *Options) { o.ClientCompat = compat.Auto })
	path := fujiPath + "/" + ids.ID{1}.String()
	require.Equal(t, http.StatusCreated, get(e, path, "User-Agent", "speakeasy-sdk/typescript 1").Code)
	require.Equal(t, http.StatusOK, get(e, path, "User-Agent", "curl/8").Code)
}

func TestMistakesInTransactionRequests(t *testing.T) {
	good := ids.ID{1}.String()
	swapped := good[:len(good)-1] + "z"
	for name, test := range map[string]struct {
		method, path string
		status       int
		parts        []string
	}{
		"nonsense":               {path: fujiPath + "/nonsense", status: 400, parts: []string{"txHash", `"nonsense"`, "base58", "64 hex digits"}},
		"a wrong checksum":       {path: fujiPath + "/" + swapped, status: 400, parts: []string{"txHash", "checksum"}},
		"hex that is too short":  {path: fujiPath + "/0xabcd", status: 400, parts: []string{"txHash", "2 bytes", "32"}},
		"hex that is too long":   {path: fujiPath + "/0x" + strings.Repeat("ab", 33), status: 400, parts: []string{"txHash", "33 bytes"}},
		"an odd digit":           {path: fujiPath + "/0xabc", status: 400, parts: []string{"txHash", "odd"}},
		"no hex":                 {path: fujiPath + "/0x" + strings.Repeat("zz", 32), status: 400, parts: []string{"txHash", "not hex"}},
		"nothing after 0x":       {path: fujiPath + "/0x", status: 400, parts: []string{"txHash", "0 bytes"}},
		"very long text":         {path: fujiPath + "/" + strings.Repeat("2", 5000), status: 400, parts: []string{"txHash", "..."}},
		"blanks":                 {path: fujiPath + "/%20%20", status: 400, parts: []string{"txHash"}},
		"a node ID":              {path: fujiPath + "/NodeID-7Xhw2mDxuDS44j42TCB6U5579esbSt3Lg", status: 400, parts: []string{"txHash"}},
		"no hash":                {path: fujiPath + "/", status: 404},
		"no hash and no slash":   {path: fujiPath, status: 404},
		"more path":              {path: fujiPath + "/" + good + "/more", status: 400, parts: []string{"txHash"}},
		"another method":         {method: http.MethodPost, path: fujiPath + "/" + good, status: 404},
		"no network":             {path: "/v1/signatureAggregator/nowhere/aggregateSignatures/" + good, status: 400, parts: []string{"network"}},
		"a network not served":   {path: "/v1/signatureAggregator/mainnet/aggregateSignatures/" + good, status: 404, parts: []string{"network", "fuji"}},
		"both are wrong":         {path: "/v1/signatureAggregator/nowhere/aggregateSignatures/x", status: 400, parts: []string{"network"}},
		"an unreadable encoding": {path: fujiPath + "/%zz", status: 400},
	} {
		t.Run(name, func(t *testing.T) {
			s := &fakeSigner{}
			method := test.method
			if method == "" {
				method = http.MethodGet
			}
			var w *httptest.ResponseRecorder
			if strings.Contains(test.path, "%zz") { // httptest refuses to make it
				r := httptest.NewRequest(method, fujiPath+"/x", nil)
				r.URL.Path, r.URL.RawPath = fujiPath+"/%zz", fujiPath+"/%zz"
				w = httptest.NewRecorder()
				newPublic(t, s, nil).ServeHTTP(w, r)
			} else {
				w = do(newPublic(t, s, nil), method, test.path, "")
			}
			body := requireAPIError(t, w, test.status, test.parts...)
			require.NotContains(t, body, "outcomes")
			require.Empty(t, s.transactions)
		})
	}
}

func TestRefusalsOfTransactions(t *testing.T) {
	account := &aggregator.Account{TotalWeight: 100}
	for name, test := range map[string]struct {
		err    error
		status int
		code   string
		retry  string
		part   string
	}{
		"unknown":               {err: &aggregator.Error{Code: l1message.CodeUnknownTransaction, Message: "txHash: unknown"}, status: 404, code: "UNKNOWN_TRANSACTION", part: "txHash: unknown"},
		"dropped":               {err: &aggregator.Error{Code: l1message.CodeDropped, Message: "txHash: dropped (why)"}, status: 404, code: "TRANSACTION_DROPPED", part: "(why)"},
		"being decided":         {err: &aggregator.Error{Code: l1message.CodeProcessing, Message: "ask again"}, status: 503, code: "TRANSACTION_PROCESSING", retry: "1", part: "ask again"},
		"on the X-Chain":        {err: &aggregator.Error{Code: l1message.CodeXChain, Message: "txHash: X-Chain"}, status: 400, code: "X_CHAIN_TRANSACTION"},
		"of another kind":       {err: &aggregator.Error{Code: l1message.CodeNoMessage, Message: "no message"}, status: 400, code: "NO_WARP_MESSAGE", part: "txHash: no message"},
		"superseded":            {err: &aggregator.Error{Code: l1message.CodeSuperseded, Message: "by transaction 2x"}, status: 500, code: "SUPERSEDED", part: "by transaction 2x"},
		"registration missing":  {err: &aggregator.Error{Code: l1message.CodeRegistrationNotFound, Message: "not found"}, status: 404, code: "REGISTRATION_NOT_FOUND", part: "txHash: not found"},
		"not indexed yet":       {err: &aggregator.Error{Code: l1message.CodeNotIndexed, Message: "catching up"}, status: 503, code: "NOT_INDEXED"},
		"manager chain unknown": {err: &aggregator.Error{Code: aggregator.CodeUnknownBlockchain, Message: "txHash: the manager"}, status: 400, code: "UNKNOWN_SOURCE_BLOCKCHAIN", part: "txHash: the manager"},
		"refused":               {err: &aggregator.Error{Code: aggregator.CodeRefused, Message: "refused", Account: account}, status: 500, code: "REFUSED"},
		"no quorum":             {err: &aggregator.Error{Code: aggregator.CodeQuorumNotReached, Message: "late", Account: account}, status: 500, code: "QUORUM_NOT_REACHED"},
		"node away":             {err: &aggregator.Error{Code: aggregator.CodeNodeUnavailable, Message: "no node"}, status: 503, code: "NODE_UNAVAILABLE"},
		"node faulty":           {err: &aggregator.Error{Code: aggregator.CodeNodeFaulty, Message: "bad node"}, status: 502, code: "NODE_FAULTY"},
		"out of time":           {err: context.DeadlineExceeded, status: 503},
		"store unavailable":     {err: fmt.Errorf("reading the index: %w: secret", store.ErrUnavailable), status: 503, code: "NOT_INDEXED", retry: "5", part: "the index cannot be read"},
		"a fault of ours":       {err: errors.New("secret: disk"), status: 500, code: "INTERNAL"},
	} {
		t.Run(name, func(t *testing.T) {
			s := &fakeSigner{signTransaction: func(context.Context, ids.ID) (*aggregator.Result, error) { return nil, test.err }}
			w := get(newPublic(t, s, nil), fujiPath+"/"+ids.ID{1}.String())
			body := requireAPIError(t, w, test.status, test.part)
			require.Equal(t, test.retry, w.Header().Get("Retry-After"))
			require.NotContains(t, w.Body.String(), "secret")
			if test.code == "" {
				require.NotContains(t, body, "code")
				return
			}
			require.Equal(t, test.code, body["code"])
			var failed *aggregator.Error
			if errors.As(test.err, &failed) && failed.Account != nil {
				require.Contains(t, body, "outcomes")
			} else {
				require.NotContains(t, body, "outcomes")
			}
		})
	}
}

func TestTransactionRequestsAreBounded(t *testing.T) {
	s := &fakeSigner{signTransaction: func(ctx context.Context, _ ids.ID) (*aggregator.Result, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}}
	w := get(newPublic(t, s, func(o *Options) { o.RequestTimeout = 10 * time.Millisecond }), fujiPath+"/"+ids.ID{1}.String())
	requireAPIError(t, w, http.StatusServiceUnavailable, "time")
}
