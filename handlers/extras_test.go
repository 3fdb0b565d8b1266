package handlers

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"

	"quorate/aggregator"
	"quorate/handlers/access"
	"quorate/handlers/networks"
)

const verifyPath = "/v1/signatureAggregator/fuji/verifySignedMessage"

func TestVerifyingBlockchain(t *testing.T) {
	var s fakeSigner
	h := newPublic(t, &s, nil)
	m := hexOf(message(t, 5).Bytes())
	id := ids.ID{9}
	w := post(h, fujiPath, `{"message":"`+m+`","verifyingBlockchainId":"`+id.String()+`"}`)
	require.Equal(t, http.StatusOK, w.Code, w.Body)
	require.Equal(t, id, *s.requests()[0].VerifyingBlockchainID)
	requireAPIError(t, post(h, fujiPath, `{"message":"`+m+`","verifyingBlockchainId":"`+id.String()+`","pChainHeight":3}`), 400, "verifyingBlockchainId", "pChainHeight")
	requireAPIError(t, post(h, fujiPath, `{"message":"`+m+`","verifyingBlockchainId":"x"}`), 400, "verifyingBlockchainId", "blockchain ID")
	require.Len(t, s.requests(), 1)

	s.sign = func(context.Context, aggregator.Request) (*aggregator.Result, error) {
		return nil, &aggregator.Error{Code: aggregator.CodeUnknownBlockchain, Message: "verifyingBlockchainId: the upstream node runs no such blockchain"}
	}
	w = post(h, fujiPath, `{"message":"`+m+`","verifyingBlockchainId":"`+id.String()+`"}`)
	body := requireAPIError(t, w, 400, "verifyingBlockchainId")
	require.True(t, strings.HasPrefix(body["message"].(string), "verifyingBlockchainId:"))
}

func TestVerifySignedMessage(t *testing.T) {
	h := newPublic(t, new(fakeSigner), nil)
	m := signed(aggregator.Request{Message: message(t, 5)}).Message
	w := post(h, verifyPath, `{"signedMessage":"0x`+hexOf(m.Bytes())+`","pChainHeight":8}`)
	require.Equal(t, http.StatusOK, w.Code, w.Body)
	require.JSONEq(t, `{"valid":false,"reason":"too little","signers":[{"index":2,"nodeIds":["`+ids.NodeID{1}.String()+`"],"weight":"7"}],
		"weight":"7","targetWeight":"67","totalWeight":"100","signingSubnetId":"`+ids.Empty.String()+`","pChainHeight":"8"}`, w.Body.String())
	other := signed(aggregator.Request{Message: message(t, 1)}).Message
	whole := hexOf(m.Bytes())
	for body, parts := range map[string][]string{
		``:                       {"empty"},
		`{}`:                     {"signedMessage"},
		`{"signedMessage":"0"}`:  {"signedMessage", "odd"},
		`{"signedMessage":"00"}`: {"signedMessage", "decoded"},
		`{"signedMessage":"` + hexOf(message(t, 5).Bytes()) + `"}`: {"signedMessage", "aggregateSignatures"},
		`{"signedMessage":"` + whole + `00"}`:                      {"signedMessage"},
		`{"signedMessage":"` + hexOf(other.Bytes()) + `"}`:         {"signedMessage", "network"},
		`{"signedMessage":"` + whole + `","quorumPercentage":101}`: {"quorumPercentage"},
		`{"signedMessage":"` + whole + `","pChainHeight":-1}`:      {"pChainHeight"},
		`{"signedMessage":"` + whole + `","signingSubnetId":"x"}`:  {"signingSubnetId"},
		`{"signedMessage":"` + whole + `","message":"00"}`:         {"message"},
	} {
		requireAPIError(t, post(h, verifyPath, body), 400, parts...)
	}
	requireAPIError(t, post(h, strings.Replace(verifyPath, "fuji", "mainnet", 1), `{}`), 404, "network")
}

// events splits a stream into names and data.
func events(t *testing.T, stream string) (names []string, data []map[string]any) {
	t.Helper()
	for event := range strings.SplitSeq(strings.TrimSpace(stream), "\n\n") {
		name, content, ok := strings.Cut(strings.TrimPrefix(event, "event: "), "\ndata: ")
		require.True(t, ok, "%q", event)
		var d map[string]any
		require.NoError(t, json.Unmarshal([]byte(content), &d))
		names, data = append(names, name), append(data, d)
	}
	return names, data
}

func TestProgressIsStreamed(t *testing.T) {
	m := message(t, 5)
	body := `{"message":"` + hexOf(m.Bytes()) + `"}`
	ask := []string{"Accept", "application/json, text/event-stream"}
	s := fakeSigner{sign: func(_ context.Context, req aggregator.Request) (*aggregator.Result, error) {
		req.Progress(aggregator.Account{SignedWeight: 1})
		return signed(req), nil
	}}
	w := post(newPublic(t, &s, nil), fujiPath, body, ask...)
	require.Equal(t, "text/event-stream", w.Header().Get("Content-Type"))
	names, data := events(t, w.Body.String())
	require.Equal(t, "result", names[len(names)-1])
	require.Equal(t, hexOf(signed(aggregator.Request{Message: m}).Message.Bytes()), data[len(data)-1]["signedMessage"])
	if len(names) > 1 { // the result may overtake it
		require.Equal(t, "progress", names[0])
		require.Equal(t, "1", data[0]["signedWeight"])
		require.Contains(t, data[0], "elapsedMilliseconds")
	}

	s.sign = func(context.Context, aggregator.Request) (*aggregator.Result, error) {
		return nil, &aggregator.Error{Code: aggregator.CodeQuorumNotReached, Message: "too few", Account: &aggregator.Account{TotalWeight: 9}}
	}
	names, data = events(t, post(newPublic(t, &s, nil), fujiPath, body, ask...).Body.String())
	require.Equal(t, []string{"error"}, names)
	require.Equal(t, "QUORUM_NOT_REACHED", data[0]["code"])
	require.InDelta(t, 500, data[0]["statusCode"], 0)
	require.Contains(t, data[0], "outcomes")

	requireAPIError(t, post(newPublic(t, &s, nil), fujiPath, `{}`, ask...), 400, "message")
}

// Proxies must neither hold back the events of a round nor cut its connection.
func TestProgressPassesProxies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := fakeSigner{sign: func(_ context.Context, req aggregator.Request) (*aggregator.Result, error) {
			time.Sleep(50 * time.Second)
			return signed(req), nil
		}}
		h := newPublic(t, &s, func(o *Options) { o.RequestTimeout = time.Minute })
		w := post(h, fujiPath, `{"message":"`+hexOf(message(t, 5).Bytes())+`"}`, "Accept", "text/event-stream")
		require.Equal(t, "no", w.Header().Get("X-Accel-Buffering"))
		events, found := strings.CutPrefix(w.Body.String(), ":\n\n:\n\n:\n\n")
		require.True(t, found, w.Body)
		require.True(t, strings.HasPrefix(events, "event: result\n"), w.Body)
		require.Contains(t, events, `,"summary":{"signers":0,`)
	})
}

func TestBatch(t *testing.T) {
	m := hexOf(message(t, 5).Bytes())
	other := hexOf(message(t, 1).Bytes())
	signer := &fakeSigner{sign: func(_ context.Context, req aggregator.Request) (*aggregator.Result, error) {
		if req.QuorumPercentage == 99 {
			return nil, &aggregator.Error{Code: aggregator.CodeQuorumNotReached, Message: "quorum not reached", Account: &aggregator.Account{TotalWeight: 7}}
		}
		return signed(req), nil
	}}
	h := newPublic(t, signer, nil)
	const path = fujiPath + ":batch"

	w := post(h, path, `{"requests":[{"message":"`+m+`"},{"message":"`+m+`","quorumPercentage":99},{"message":"zz"},{"message":"`+other+`"},7,{"message":"0x`+m+`","quorumPercentage":50}]}`)
	require.Equal(t, http.StatusOK, w.Code, w.Body)
	var answer struct {
		Results []map[string]any `json:"results"`
	}
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &answer))
	require.Len(t, answer.Results, 6)
	want := hexOf(signed(aggregator.Request{Message: message(t, 5)}).Message.Bytes())
	require.Equal(t, map[string]any{"signedMessage": want}, answer.Results[0])
	require.EqualValues(t, 500, answer.Results[1]["statusCode"])
	require.Equal(t, "QUORUM_NOT_REACHED", answer.Results[1]["code"])
	require.Equal(t, "7", answer.Results[1]["outcomes"].(map[string]any)["totalWeight"])
	for i, part := range map[int]string{2: "requests[2]: message is not hex", 3: "requests[3]: message: it belongs to the network with ID 1", 4: "requests[4]: the request body must be a JSON object"} {
		require.EqualValues(t, 400, answer.Results[i]["statusCode"], i)
		require.Contains(t, answer.Results[i]["message"], part)
	}
	require.Equal(t, map[string]any{"signedMessage": want}, answer.Results[5])
	require.Len(t, signer.requests(), 3)

	many := strings.Repeat(`{},`, 100) + `{}`
	for body, part := range map[string]string{
		`{}`:                          "requests is missing",
		`{"requests":null}`:           "requests is missing",
		`{"requests":{}}`:             "requests must be an array of 1 to 100 elements, got an object",
		`{"requests":[]}`:             "requests has 0 elements",
		`{"requests":[` + many + `]}`: "requests has 101 elements",
		`{"requests":[{}],"message":"` + m + `"}`: "unknown field",
		`[]`: "must be a JSON object",
		``:   "empty",
	} {
		requireAPIError(t, post(h, path, body), http.StatusBadRequest, part)
	}
	requireAPIError(t, post(h, "/v1/signatureAggregator/nowhere/aggregateSignatures:batch", `{}`), http.StatusBadRequest, "network")
	require.Equal(t, http.StatusOK, post(h, "/v1/signatureAggregator/fuji/aggregateSignatures%3Abatch", `{"requests":[{"message":"`+m+`"}]}`).Code)
}

// A page that calls the node API can read that it sends too much, and asking whether it may call is free, as on a node.
func TestPagesOfTheNodeAPI(t *testing.T) {
	guard, err := access.New(access.Options{Classes: map[string]access.Class{access.DefaultClass: {PerSecond: 0.001, Burst: 2}}})
	require.NoError(t, err)
	for _, allowed := range []bool{true, false} {
		asked, called := 0, 0
		origins := []string{"https://example.org"}
		h := newPublic(t, new(fakeSigner), func(o *Options) {
			o.Access, o.Origins = guard, origins
			o.Node = http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodOptions {
					asked++
				} else {
					called++
				}
			})
		})
		origin := map[bool]string{true: origins[0], false: "https://example.com"}[allowed]
		for range 4 {
			require.Empty(t, do(h, "OPTIONS", "/ext/info", "", "Origin", origin, "Access-Control-Request-Method", "POST").Header().Get("Ratelimit-Remaining"))
		}
		for range 2 {
			post(h, "/ext/info", "{}", "Origin", origin)
		}
		w := post(h, "/ext/info", "{}", "Origin", origin)
		if !allowed {
			require.Zero(t, asked+called)
			require.Equal(t, http.StatusForbidden, w.Code)
			require.Empty(t, w.Header().Get("Access-Control-Allow-Origin"))
			continue
		}
		require.Equal(t, []int{4, 2}, []int{asked, called})
		require.Equal(t, http.StatusTooManyRequests, do(h, "OPTIONS", "/ext/info", "", "Origin", origin).Code, "no preflight")
		require.Equal(t, http.StatusTooManyRequests, w.Code)
		require.Equal(t, origin, w.Header().Get("Access-Control-Allow-Origin"))
		require.Contains(t, w.Header().Get("Access-Control-Expose-Headers"), "Retry-After")
	}
}

// A batch takes no longer than one request may, however many of its messages remain unsigned,
// and signed ones do not wait for them.
// Each request of a batch counts for the allowance of its client.
func TestBatchCounts(t *testing.T) {
	guard, err := access.New(access.Options{Classes: map[string]access.Class{access.DefaultClass: {PerSecond: 0.001, Burst: 10}}})
	require.NoError(t, err)
	var s fakeSigner
	h, err := New(Options{Networks: networks.Fixed(map[string]Network{"fuji": {NetworkID: 5, Signer: &s}}), Access: guard})
	require.NoError(t, err)
	ask := func(n int) *httptest.ResponseRecorder {
		body := `{"requests":[` + strings.TrimSuffix(strings.Repeat(`{"message":"0x00"},`, n), ",") + `]}`
		r := httptest.NewRequest(http.MethodPost, fujiPath+":batch", strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w
	}
	for _, test := range []struct {
		n, status       int
		remaining, says string
	}{
		{6, 200, "4", `"results"`},
		{5, 429, "0", "more than 0.001 requests a second"}, // itself it is let in, which leaves three
		{3, 200, "0", `"results"`},
		{1, 429, "0", "more than 0.001 requests a second"},
	} {
		w := ask(test.n)
		require.Equal(t, test.status, w.Code, "%d requests: %s", test.n, w.Body)
		require.Contains(t, w.Body.String(), test.says)
		require.Equal(t, test.remaining, w.Header().Get("ratelimit-remaining"), "%d requests", test.n)
		require.Equal(t, test.status == 429, w.Header().Get("retry-after") != "")
	}
	guard, err = access.New(access.Options{Classes: map[string]access.Class{access.DefaultClass: {PerSecond: 0.001, Burst: 10}}})
	require.NoError(t, err)
	h, err = New(Options{Networks: networks.Fixed(map[string]Network{"fuji": {NetworkID: 5, Signer: &s}}), Access: guard})
	require.NoError(t, err)
	w := ask(11)
	requireAPIError(t, w, http.StatusBadRequest, "requests: 11 requests at once are more than the rate limit ever allows; send at most 10 in a batch")
	require.Empty(t, w.Header().Get("retry-after"), "waiting does not help")
	require.Equal(t, "9", w.Header().Get("ratelimit-remaining"), "the refusal counts once")
}

func TestBatchIsBoundedLikeOneRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &fakeSigner{sign: func(ctx context.Context, req aggregator.Request) (*aggregator.Result, error) {
			if req.QuorumPercentage == 50 {
				return signed(req), ctx.Err()
			}
			<-ctx.Done()
			return nil, ctx.Err()
		}}
		h := newPublic(t, s, func(o *Options) { o.RequestTimeout = time.Minute })
		m := hexOf(message(t, 5).Bytes())
		many := strings.Repeat(`{"message":"`+m+`"},`, 99) + `{"message":"` + m + `","quorumPercentage":50}`
		start := time.Now()
		w := post(h, fujiPath+":batch", `{"requests":[`+many+`]}`)
		require.LessOrEqual(t, time.Since(start), time.Minute)
		require.Equal(t, http.StatusOK, w.Code)
		var answer struct {
			Results []map[string]any `json:"results"`
		}
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &answer))
		require.EqualValues(t, 503, answer.Results[0]["statusCode"])
		require.Contains(t, answer.Results[99], "signedMessage")
	})
}

// Operators find a failure inside an answer of status 200 by the request ID; the client does not see
// the cause.
func TestFailuresInsideAnswersAreLogged(t *testing.T) {
	item := `{"message":"` + hexOf(message(t, 5).Bytes()) + `"}`
	signer := &fakeSigner{sign: func(_ context.Context, req aggregator.Request) (*aggregator.Result, error) {
		if req.QuorumPercentage == 99 {
			return nil, errors.New("disk: hunter2")
		}
		return signed(req), nil
	}}
	bad := strings.Replace(item, "}", `,"quorumPercentage":99}`, 1)
	for name, tt := range map[string]struct {
		path, body, accept string
		parts              []string
		more               float64
	}{
		"batch":         {fujiPath + ":batch", `{"requests":[` + item + `,` + bad + `,{"message":"zz"},` + bad + `]}`, "", []string{"requests[1]", "requests[3]"}, 0},
		"a large batch": {fujiPath + ":batch", `{"requests":[` + strings.Repeat(bad+",", 29) + bad + `]}`, "", []string{"requests[0]", "requests[1]", "requests[2]", "requests[3]", "requests[4]", "requests[5]", "requests[6]", "requests[7]", "requests[8]", "requests[9]"}, 20},
		"stream":        {fujiPath, bad, "text/event-stream", []string{"error event"}, 0},
		"all is well":   {fujiPath + ":batch", `{"requests":[` + item + `,{"message":"zz"}]}`, "", nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			h := newPublic(t, signer, func(o *Options) { o.Log = slog.New(slog.NewJSONHandler(&log, nil)) })
			w := post(h, tt.path, tt.body, "X-Request-Id", "r1", "Accept", tt.accept)
			require.Equal(t, http.StatusOK, w.Code)
			require.NotContains(t, w.Body.String(), "hunter2")
			var parts []string
			for line := range strings.Lines(log.String()) {
				var logged map[string]any
				require.NoError(t, json.Unmarshal([]byte(line), &logged))
				require.Equal(t, "r1", logged["request_id"])
				if logged["msg"] == "request" {
					continue
				}
				require.Equal(t, "disk: hunter2", logged["cause"])
				require.EqualValues(t, 500, logged["status"])
				parts = append(parts, logged["part"].(string))
				if len(parts) == len(tt.parts) && tt.more > 0 {
					require.InDelta(t, tt.more, logged["more"], 0)
				} else {
					require.NotContains(t, logged, "more")
				}
			}
			require.Equal(t, tt.parts, parts)
		})
	}
}

// A panic on a goroutine of the handlers must not end the process, as one on the server's does not.
func TestPanicsOfOtherGoroutinesStayInside(t *testing.T) {
	item := `{"message":"` + hexOf(message(t, 5).Bytes()) + `"}`
	for name, ask := range map[string]func(h http.Handler) string{
		"batch": func(h http.Handler) string {
			w := post(h, fujiPath+":batch", `{"requests":[`+item+`,`+item+`]}`)
			requireAPIError(t, w, 500, "x-request-id")
			return w.Body.String()
		},
		"stream": func(h http.Handler) string {
			w := post(h, fujiPath, item, "Accept", "text/event-stream")
			names, data := events(t, w.Body.String())
			require.Equal(t, []string{"error"}, names)
			require.EqualValues(t, 500, data[0]["statusCode"])
			return w.Body.String()
		},
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			signer := &fakeSigner{sign: func(context.Context, aggregator.Request) (*aggregator.Result, error) { panic("secret: hunter2") }}
			body := ask(newPublic(t, signer, func(o *Options) { o.Log = slog.New(slog.NewTextHandler(&log, nil)) }))
			require.NotContains(t, body, "hunter2")
			require.Contains(t, log.String(), "hunter2")
			require.Contains(t, log.String(), "extras_test.go", "the log has the stack of the panic")
		})
	}
}
