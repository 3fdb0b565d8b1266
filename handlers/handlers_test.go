package handlers

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/crypto/bls"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp"
	"github.com/ava-labs/libevm/accounts/abi"
	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"quorate/aggregator"
	"quorate/aggregator/evmmessage"
	"quorate/handlers/compat"
	"quorate/handlers/docs/conform"
	"quorate/handlers/networks"
	"quorate/internal/index"
	"quorate/internal/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	fujiPath = "/v1/signatureAggregator/fuji/aggregateSignatures"
	peerPath = "/aggregate-signatures"
)

// fakeSigner records its calls. It signs anything, unless sign says otherwise.
type fakeSigner struct {
	sign            func(context.Context, aggregator.Request) (*aggregator.Result, error)
	signTransaction func(context.Context, ids.ID) (*aggregator.Result, error)
	sent            func(ctx context.Context, chain string, txHash ids.ID) ([]evmmessage.Sent, error)

	mu           sync.Mutex
	calls        []aggregator.Request // guarded by mu
	transactions []ids.ID             // guarded by mu
}

func (s *fakeSigner) Sign(ctx context.Context, req aggregator.Request) (*aggregator.Result, error) {
	s.mu.Lock()
	s.calls = append(s.calls, req)
	s.mu.Unlock()
	if s.sign != nil {
		return s.sign(ctx, req)
	}
	return signed(req), nil
}

func (s *fakeSigner) SignTransaction(ctx context.Context, txID ids.ID) (*aggregator.Result, error) {
	s.mu.Lock()
	s.transactions = append(s.transactions, txID)
	s.mu.Unlock()
	if s.signTransaction != nil {
		return s.signTransaction(ctx, txID)
	}
	m, err := warp.NewUnsignedMessage(5, ids.Empty, txID[:])
	if err != nil {
		return nil, err
	}
	return signed(aggregator.Request{Message: m}), nil
}

func (s *fakeSigner) Sent(ctx context.Context, chain string, txHash ids.ID) ([]evmmessage.Sent, error) {
	if s.sent == nil {
		return nil, &aggregator.Error{Code: evmmessage.CodeUnknownChain, Message: "blockchainId: no chain"}
	}
	return s.sent(ctx, chain, txHash)
}

func (s *fakeSigner) Verify(_ context.Context, req aggregator.VerifyRequest) (*aggregator.Verdict, error) {
	return &aggregator.Verdict{
		Reason: "too little", Weight: 7, TargetWeight: 67, TotalWeight: 100, PChainHeight: req.PChainHeight,
		Signers: []aggregator.Signer{{Index: 2, NodeIDs: []ids.NodeID{{1}}, Weight: 7}},
	}, nil
}

func (s *fakeSigner) requests() []aggregator.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls
}

func signed(req aggregator.Request) *aggregator.Result {
	m, err := warp.NewMessage(req.Message, &warp.BitSetSignature{Signers: []byte{7}, Signature: [bls.SignatureLen]byte{1}})
	if err != nil {
		panic(err)
	}
	return &aggregator.Result{Message: m}
}

func message(t testing.TB, networkID uint32) *warp.UnsignedMessage {
	t.Helper()
	m, err := warp.NewUnsignedMessage(networkID, ids.ID{1, 2, 3}, []byte("payload"))
	require.NoError(t, err)
	return m
}

func hexOf(b []byte) string { return hex.EncodeToString(b) }

func logData(t testing.TB, message []byte) []byte {
	t.Helper()
	kind, err := abi.NewType("bytes", "", nil)
	require.NoError(t, err)
	b, err := abi.Arguments{{Type: kind}}.Pack(message)
	require.NoError(t, err)
	return b
}

func newPublic(t testing.TB, s *fakeSigner, change func(*Options)) *echo.Echo {
	t.Helper()
	o := Options{Networks: networks.Fixed(map[string]Network{"fuji": {NetworkID: 5, Signer: s}})}
	if change != nil {
		change(&o)
	}
	e, err := New(o)
	require.NoError(t, err)
	conform.Watch(t, e)
	return e
}

func post(h http.Handler, path, body string, headers ...string) *httptest.ResponseRecorder {
	return do(h, http.MethodPost, path, body, headers...)
}

func do(h http.Handler, method, path, body string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Host = "127.0.0.1:8080"
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// requireAPIError checks the whole shape of an error body.
func requireAPIError(t testing.TB, w *httptest.ResponseRecorder, status int, parts ...string) map[string]any {
	t.Helper()
	require.Equal(t, status, w.Code, w.Body.String())
	require.Equal(t, "application/json", w.Header().Get("Content-Type"))
	var body map[string]any
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &body), w.Body.String())
	require.EqualValues(t, status, body["statusCode"])
	require.Equal(t, http.StatusText(status), body["error"])
	for _, part := range parts {
		require.Contains(t, body["message"], part)
	}
	require.NotEmpty(t, body["message"])
	require.Less(t, len(body["message"].(string)), 600)
	return body
}

func requirePeerError(t testing.TB, w *httptest.ResponseRecorder, status int, parts ...string) {
	t.Helper()
	require.Equal(t, status, w.Code, w.Body.String())
	require.Equal(t, "application/json", w.Header().Get("Content-Type"))
	var body map[string]any
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &body), w.Body.String())
	for _, part := range parts {
		require.Contains(t, body["error"], part)
	}
	require.NotEmpty(t, body["error"])
	require.NotContains(t, body, "statusCode")
	require.NotContains(t, body, "message")
}

// TestClientMistakes posts wrong requests: each gets a complete 400 that names the
// parameter, and no validator gets a request.
func TestClientMistakes(t *testing.T) {
	m := message(t, 5)
	raw := hexOf(m.Bytes())
	with := func(members string) string { return `{"message":"` + raw + `",` + members + `}` }
	of := func(hexText string) string { return `{"message":"` + hexText + `"}` }
	wrap := logData(t, m.Bytes())
	changed := func(b []byte, f func([]byte)) string {
		b = bytes.Clone(b)
		f(b)
		return of(hexOf(b))
	}
	const subnet = "2JVSBoinj9C2J33VntvzYtVJNZdN2NKiwwKjcumHUWEb5DbBrm"
	tests := []mistake{
		{name: "empty body", body: "", want: "request body is empty"},
		{name: "blank body", body: " \r\n\t", want: "request body is empty"},
		{name: "not JSON", body: "hello", want: "not valid JSON"},
		{name: "form encoded", body: "message=" + raw, want: "not valid JSON"},
		{name: "bare hex", body: raw, want: "not valid JSON"},
		{name: "unfinished", body: `{"message":"00`, want: "not valid JSON"},
		{name: "unclosed", body: `{"message":"` + raw + `"`, want: "not valid JSON"},
		{name: "single quotes", body: `{'message':'00'}`, want: "not valid JSON"},
		{name: "trailing comma", body: `{"message":"` + raw + `",}`, want: "not valid JSON"},
		{name: "comment", body: `{/* x */"message":"` + raw + `"}`, want: "not valid JSON"},
		{name: "byte order mark", body: "\ufeff{}", want: "not valid JSON"},
		{name: "UTF-16", body: "{\x00}\x00", want: "not valid JSON"},
		{name: "null byte", body: "\x00", want: "not valid JSON"},
		{name: "deeply nested", body: `{"message":` + strings.Repeat("[", 50_000) + strings.Repeat("]", 50_000) + `}`, want: "not valid JSON"},
		{name: "NaN", body: with(`"quorumPercentage":NaN`), want: "not valid JSON"},
		{name: "Infinity", body: with(`"pChainHeight":Infinity`), want: "not valid JSON"},
		{name: "hex number", body: with(`"pChainHeight":0x10`), want: "not valid JSON"},
		{name: "leading zero", body: with(`"quorumPercentage":067`), want: "not valid JSON"},
		{name: "leading plus", body: with(`"quorumPercentage":+67`), want: "not valid JSON"},
		{name: "naked point", body: with(`"quorumPercentage":.5`), want: "not valid JSON"},
		{name: "null", body: "null", want: "must be a JSON object"},
		{name: "array", body: "[" + of(raw) + "]", want: "must be a JSON object"},
		{name: "string", body: `"` + raw + `"`, want: "must be a JSON object"},
		{name: "number", body: "67", want: "must be a JSON object"},
		{name: "boolean", body: "true", want: "must be a JSON object"},

		{name: "nothing to sign", body: "{}", want: "message and justification are both empty"},
		{name: "both empty", body: `{"message":"","justification":""}`, want: "message and justification are both empty"},
		{name: "both null", body: `{"message":null,"justification":null}`, want: "message and justification are both empty"},
		{name: "both bare prefixes", body: `{"message":"0x","justification":"0X"}`, want: "message and justification are both empty"},
		{name: "justification alone", body: `{"justification":"0102"}`, want: "message: the Warp message could not be decoded"},
		{name: "justification and empty message", body: `{"message":"","justification":"0x0102"}`, want: "message: the Warp message could not be decoded"},
		{name: "unknown field", body: with(`"colour":1`), want: `unknown field "colour" in the request body (known fields: message, justification, signingSubnetId, quorumPercentage, quorumPercentageBuffer, pChainHeight, verifyingBlockchainId, waitSeconds)`, peerWant: `unknown field "colour" in the request body (known fields: message, justification, signing-subnet-id, `},
		{name: "member twice", body: with(`"message":"` + raw + `"`), want: "message is given twice"},
		{name: "two spellings", body: with(`"quorum_percentage":67,"quorumPercentage":67`), want: "quorum_percentage and quorumPercentage in the request body are the same field; leave one out", peerWant: "quorum_percentage and quorum-percentage in the request body are the same field"},
		{name: "member twice, different", body: with(`"quorumPercentage":1,"quorumPercentage":2`), want: "quorumPercentage is given twice", peerWant: "quorum-percentage is given twice"},
		{name: "member twice, null first", body: with(`"pChainHeight":null,"pChainHeight":2`), want: "pChainHeight is given twice", peerWant: "pchain-height is given twice"},

		{name: "message is a number", body: `{"message":12}`, want: "message must be a string, got a number"},
		{name: "message is an object", body: `{"message":{"hex":"00"}}`, want: "message must be a string, got an object"},
		{name: "message is an array", body: `{"message":[0,0]}`, want: "message must be a string, got an array"},
		{name: "message is a boolean", body: `{"message":false}`, want: "message must be a string, got a boolean"},
		{name: "odd hex", body: of(raw + "0"), want: "message has an odd number of hex digits"},
		{name: "one digit", body: of("0x1"), want: "message has an odd number of hex digits"},
		{name: "not hex", body: of("zz" + raw), want: "message is not hex: byte 1 of the text is 'z'"},
		{name: "not hex after the prefix", body: of("0x0g"), want: "message is not hex: byte 4 of the text is 'g'"},
		{name: "prefix twice", body: of("0x0x" + raw), want: "message is not hex"},
		{name: "space around", body: of(" " + raw), want: "message is not hex"},
		{name: "newline at the end", body: of(raw + `\n`), want: "message is not hex"},
		{name: "other script", body: of("ａ" + raw), want: "message is not hex"},
		{name: "invalid UTF-8", body: of("\xff" + raw), want: "message is not hex"},
		{name: "base64", body: of("AAAAAAUBAgMAAA=="), want: "message is not hex"},
		{name: "too short", body: of("0000"), want: "message could not be decoded as an unsigned Warp message: it has 2 bytes"},
		{name: "codec version 1", body: changed(m.Bytes(), func(b []byte) { b[1] = 1 }), want: "message could not be decoded as an unsigned Warp message: it begins with codec version 1"},
		{name: "text in hex", body: of(strings.Repeat("ab", 100)), want: "message could not be decoded"},
		{name: "cut short", body: of(raw[:len(raw)-2]), want: "message could not be decoded as an unsigned Warp message: its payload should have 7 bytes and has 6"},
		{name: "payload of 4 GiB", body: changed(m.Bytes(), func(b []byte) { copy(b[38:], "\xff\xff\xff\xff") }), want: "message could not be decoded"},
		{name: "log data, other offset", body: changed(wrap, func(b []byte) { b[31] = 64 }), want: "message could not be decoded"},
		{name: "log data of something else", body: of(hexOf(logData(t, []byte("something else")))), want: "message is the data of a log, but what it wraps could not be decoded"},

		{name: "justification is a number", body: with(`"justification":1`), want: "justification must be a string, got a number"},
		{name: "justification odd", body: with(`"justification":"0x123"`), want: "justification has an odd number of hex digits"},
		{name: "justification not hex", body: with(`"justification":"xx"`), want: "justification is not hex"},
		{name: "justification too long", body: with(`"justification":"` + strings.Repeat("00", 65<<10) + `"`), want: "justification has 66560 bytes, at most 65536"},

		{name: "percentage -1", body: with(`"quorumPercentage":-1`), want: "quorumPercentage must be an integer from 0 to 100, got -1", peerWant: "quorum-percentage"},
		{name: "percentage 66.5", body: with(`"quorumPercentage":66.5`), want: "quorumPercentage must be an integer from 0 to 100, got 66.5", peerWant: "quorum-percentage"},
		{name: "percentage 1e-1", body: with(`"quorumPercentage":1e-1`), want: "quorumPercentage", peerWant: "quorum-percentage"},
		{name: "percentage 1e999999999", body: with(`"quorumPercentage":1e999999999`), want: "quorumPercentage", peerWant: "quorum-percentage"},
		{name: "percentage 2^64+67", body: with(`"quorumPercentage":18446744073709551683`), want: "quorumPercentage", peerWant: "quorum-percentage"},
		{name: "percentage as text", body: with(`"quorumPercentage":"67"`), want: "quorumPercentage must be a JSON number from 0 to 100, got a string", peerWant: "quorum-percentage must be a JSON number"},
		{name: "percentage as boolean", body: with(`"quorumPercentage":true`), want: "quorumPercentage must be a JSON number", peerWant: "quorum-percentage"},
		{name: "percentage as array", body: with(`"quorumPercentage":[67]`), want: "quorumPercentage must be a JSON number", peerWant: "quorum-percentage"},
		{name: "buffer -5", body: with(`"quorumPercentageBuffer":-5`), want: "quorumPercentageBuffer", peerWant: "quorum-percentage-buffer"},
		{name: "buffer 0.5", body: with(`"quorumPercentageBuffer":0.5`), want: "quorumPercentageBuffer", peerWant: "quorum-percentage-buffer"},
		{name: "buffer as text", body: with(`"quorumPercentageBuffer":"5"`), want: "quorumPercentageBuffer", peerWant: "quorum-percentage-buffer"},

		{name: "height -1", body: with(`"pChainHeight":-1`), want: "pChainHeight must be an integer from 0 to 18446744073709551615, got -1", peerWant: "pchain-height must be an integer"},
		{name: "height 1.5", body: with(`"pChainHeight":1.5`), want: "pChainHeight", peerWant: "pchain-height"},
		{name: "height 2^64", body: with(`"pChainHeight":18446744073709551616`), want: "pChainHeight", peerWant: "pchain-height"},
		{name: "height 1e400", body: with(`"pChainHeight":1e400`), want: "pChainHeight", peerWant: "pchain-height"},
		{name: "height as text", body: with(`"pChainHeight":"proposed"`), want: "pChainHeight must be a JSON number", peerWant: "pchain-height"},

		{name: "subnet is a number", body: with(`"signingSubnetId":1`), want: "signingSubnetId must be a string, got a number", peerWant: "signing-subnet-id must be a string"},
		{name: "subnet is nonsense", body: with(`"signingSubnetId":"nonsense"`), want: `signingSubnetId: "nonsense" is no subnet ID`, peerWant: "signing-subnet-id"},
		{name: "subnet with a bad checksum", body: with(`"signingSubnetId":"` + subnet[:len(subnet)-1] + `n"`), want: "signingSubnetId", peerWant: "signing-subnet-id"},
		{name: "subnet is a node ID", body: with(`"signingSubnetId":"NodeID-7Xhw2mDxuDS44j42TCB6U5579esbSt3Lg"`), want: "signingSubnetId", peerWant: "signing-subnet-id"},
		{name: "subnet of 31 bytes", body: with(`"signingSubnetId":"0x` + strings.Repeat("00", 31) + `"`), want: "signingSubnetId has 31 bytes of hex", peerWant: "signing-subnet-id has 31 bytes"},
		{name: "subnet of 33 bytes", body: with(`"signingSubnetId":"0x` + strings.Repeat("00", 33) + `"`), want: "signingSubnetId has 33 bytes of hex", peerWant: "signing-subnet-id has 33 bytes"},
		{name: "subnet of odd hex", body: with(`"signingSubnetId":"0x123"`), want: "signingSubnetId has an odd number", peerWant: "signing-subnet-id has an odd number"},
		{name: "subnet not hex", body: with(`"signingSubnetId":"` + strings.Repeat("g", 64) + `"`), want: "signingSubnetId is not hex", peerWant: "signing-subnet-id is not hex"},
		{name: "subnet of 100 kB", body: with(`"signingSubnetId":"` + strings.Repeat("2", 100_000) + `"`), want: "signingSubnetId", peerWant: "signing-subnet-id"},

		{name: "body of 256 KiB and a byte", body: of(strings.Repeat("0", 256<<10+1-len(of("")))), want: "request body is larger than 262144 bytes"},
		{name: "body of 1 MiB", body: of(strings.Repeat("0", 1<<20)), want: "request body is larger than 262144 bytes"},
		{name: "blank body of 16 MiB", body: strings.Repeat(" ", 16<<20), want: "request body is larger than 262144 bytes"},
	}
	requireMistakes(t, tests)
}

// mistake is a wrong body and the error that its client gets.
type mistake struct {
	name, body, want string
	peerWant         string // if the peer's member has another name
}

// requireMistakes posts what is wrong in both forms.
func requireMistakes(t *testing.T, tests []mistake) {
	t.Helper()
	t.Logf("%d rows", len(tests))
	peerSpelling := strings.NewReplacer(
		`"signingSubnetId"`, `"signing-subnet-id"`, `"quorumPercentage"`, `"quorum-percentage"`,
		`"quorumPercentageBuffer"`, `"quorum-percentage-buffer"`, `"pChainHeight"`, `"pchain-height"`)
	var s fakeSigner
	h := newPublic(t, &s, nil)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, path := range []string{fujiPath, strings.Replace(fujiPath, "fuji", "testnet", 1)} {
				want := tt.want
				if path != fujiPath {
					want = strings.Replace(want, "network fuji has", "network testnet has", 1)
				}
				body := requireAPIError(t, post(h, path, tt.body), http.StatusBadRequest, want)
				require.Len(t, body, 3, "want message, statusCode and error alone")
			}
			want := tt.peerWant
			if want == "" {
				want = tt.want
			}
			requirePeerError(t, post(h, peerPath, peerSpelling.Replace(tt.body)), http.StatusBadRequest, want)
		})
	}
	require.Empty(t, s.requests(), "a client's mistake must not reach the signer")
}

func TestSigned(t *testing.T) {
	m := message(t, 5)
	raw := hexOf(m.Bytes())
	want := hexOf(signed(aggregator.Request{Message: m}).Message.Bytes())
	const sdk = "speakeasy-sdk/typescript 0.3.13 2.0.0 1.0.0 @avalanche-sdk/chainkit"
	tests := []struct {
		name, path, body string
		mode             compat.Mode
		headers          []string
		status           int
	}{
		{name: "plain", body: raw, status: 200},
		{name: "prefix", body: "0x" + raw, status: 200},
		{name: "capital prefix and digits", body: "0X" + strings.ToUpper(raw), status: 200},
		{name: "log data", body: "0x" + hexOf(logData(t, m.Bytes())), status: 200},
		{name: "testnet", path: strings.Replace(fujiPath, "fuji", "testnet", 1), body: raw, status: 200},
		{name: "escaped path", path: strings.Replace(fujiPath, "fuji", "%66uji", 1), body: raw, status: 200},
		{name: "other content type", body: raw, headers: []string{"Content-Type", "text/plain"}, status: 200},
		{name: "charset", body: raw, headers: []string{"Content-Type", "application/json; charset=utf-8"}, status: 200},
		{name: "identity encoding", body: raw, headers: []string{"Content-Encoding", "identity"}, status: 200},
		{name: "generated client", body: raw, headers: []string{"User-Agent", sdk}, status: 201},
		{name: "generated client, other case", body: raw, headers: []string{"User-Agent", strings.ToUpper(sdk)}, status: 201},
		{name: "browser that names it", body: raw, headers: []string{"User-Agent", "Mozilla/5.0 speakeasy-sdk/typescript"}, status: 200},
		{name: "generated client, off", mode: compat.Off, body: raw, headers: []string{"User-Agent", sdk}, status: 200},
		{name: "curl, on", mode: compat.On, body: raw, headers: []string{"User-Agent", "curl/8"}, status: 201},
		{name: "both keys", body: raw, headers: []string{"x-data-api-key", "secret-1", "X-Glacier-Api-Key", "secret-2"}, status: 200},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var s fakeSigner
			h := newPublic(t, &s, func(o *Options) { o.ClientCompat = tt.mode })
			path := tt.path
			if path == "" {
				path = fujiPath
			}
			w := post(h, path, `{"message":"`+tt.body+`"}`, tt.headers...)
			require.Equal(t, tt.status, w.Code, w.Body.String())
			require.Equal(t, "application/json", w.Header().Get("Content-Type"))
			require.Equal(t, `{"signedMessage":"`+want+`"}`, w.Body.String())
			require.Len(t, s.requests(), 1)
			require.Equal(t, m.ID(), s.requests()[0].Message.ID())
			require.EqualValues(t, 67, s.requests()[0].QuorumPercentage)

			w = post(h, peerPath, `{"message":"`+tt.body+`"}`, tt.headers...)
			require.Equal(t, 200, w.Code, "the peer's form has one status")
			require.Equal(t, `{"signed-message":"`+want+`"}`, w.Body.String())
		})
	}
}

func TestNetworkOfThePath(t *testing.T) {
	var fuji, own fakeSigner
	h := newPublic(t, &fuji, func(o *Options) {
		o.Networks = networks.Fixed(map[string]Network{"fuji": {NetworkID: 5, Signer: &fuji}, "devnet": {NetworkID: 1337, Signer: &own}})
	})
	path := func(network string) string { return strings.Replace(fujiPath, "fuji", network, 1) }
	body := `{"message":"` + hexOf(message(t, 1337).Bytes()) + `"}`

	requireAPIError(t, post(h, path("mainnet"), body), 404, "network: mainnet is not served here", "devnet, fuji")
	for _, unknown := range []string{"Fuji", "local", "5", "fuji%2F", "..%2ffuji", "%00", strings.Repeat("x", 5000)} {
		requireAPIError(t, post(h, path(unknown), body), 400, "network: ", "use mainnet, fuji or testnet", "devnet, fuji")
	}
	requireAPIError(t, post(h, path("mainnet"), ""), 404, "network")
	require.Empty(t, fuji.requests())
	require.Empty(t, own.requests())

	require.Equal(t, 200, post(h, path("devnet"), body).Code)
	require.Equal(t, 200, post(h, peerPath, body).Code)
	require.Len(t, own.requests(), 2)
	require.Equal(t, 200, post(h, peerPath, `{"message":"`+hexOf(message(t, 5).Bytes())+`"}`).Code)
	require.Len(t, fuji.requests(), 1)
}

func TestAliases(t *testing.T) {
	var s, other fakeSigner
	tests := []struct {
		networks map[string]Network
		want     map[string]int
	}{
		{map[string]Network{"fuji": {NetworkID: 5, Signer: &s}}, map[string]int{"fuji": 200, "testnet": 200, "mainnet": 404, "devnet": 400}},
		{map[string]Network{"testnet": {NetworkID: 5, Signer: &s}}, map[string]int{"fuji": 200, "testnet": 200, "mainnet": 404}},
		{map[string]Network{"mainnet": {NetworkID: 5, Signer: &s}}, map[string]int{"fuji": 404, "testnet": 404, "mainnet": 200}},
		{map[string]Network{"fuji": {NetworkID: 5, Signer: &s}, "testnet": {NetworkID: 6, Signer: &other}}, map[string]int{"fuji": 200, "testnet": 400}},
		{nil, map[string]int{"fuji": 404, "testnet": 404, "mainnet": 404, "devnet": 400}},
	}
	for _, tt := range tests {
		e, err := New(Options{Networks: networks.Fixed(tt.networks)})
		require.NoError(t, err)
		for name, want := range tt.want {
			w := post(e, strings.Replace(fujiPath, "fuji", name, 1), `{"message":"`+hexOf(message(t, 5).Bytes())+`"}`)
			require.Equal(t, want, w.Code, "%v: %s: %s", tt.networks, name, w.Body)
		}
	}
	_, err := New(Options{Networks: networks.Fixed(map[string]Network{"a": {NetworkID: 5, Signer: &s}, "b": {NetworkID: 5, Signer: &s}})})
	require.ErrorContains(t, err, `networks "a" and "b" both have network ID 5`)
	_, err = New(Options{Networks: networks.Fixed(map[string]Network{"a": {NetworkID: 5}})})
	require.ErrorContains(t, err, `network "a" has no signer`)
	_, err = New(Options{ClientCompat: "maybe"})
	require.ErrorContains(t, err, "must be auto, on or off")
}

// TestFailures maps the aggregator's errors to answers.
func TestFailures(t *testing.T) {
	account := &aggregator.Account{SigningSubnetID: ids.ID{9}, PChainHeight: 7, TargetWeight: 67, TotalWeight: 100, SignedWeight: 40, SilentWeight: 60}
	secret := errors.New("dial https://node.example/?token=hunter2: refused")
	fail := func(code aggregator.Code, message string, account *aggregator.Account) error {
		return fmt.Errorf("wrapped: %w", &aggregator.Error{Code: code, Message: message, Account: account, Err: secret})
	}
	tests := []struct {
		name         string
		err          error
		status, peer int
		message      string
		code         string
		outcomes     bool
	}{
		{"unknown subnet", fail(aggregator.CodeUnknownSubnet, "signingSubnetId: no such subnet", nil), 400, 400, "signingSubnetId: no such subnet", "UNKNOWN_SUBNET", false},
		{"unknown subnet, unnamed", fail(aggregator.CodeUnknownSubnet, "no such subnet", nil), 400, 400, "signingSubnetId: no such subnet", "UNKNOWN_SUBNET", false},
		{"unknown source chain", fail(aggregator.CodeUnknownBlockchain, "source blockchain unknown", nil), 400, 400, "message: source blockchain unknown", "UNKNOWN_SOURCE_BLOCKCHAIN", false},
		{"height in the future", fail(aggregator.CodeHeightUnavailable, "pChainHeight: above the tip", nil), 400, 400, "pChainHeight: above the tip", "P_CHAIN_HEIGHT_UNAVAILABLE", false},
		{"no validators", fail(aggregator.CodeNoValidators, "no validator can sign", nil), 500, 500, "no validator can sign", "NO_VALIDATORS", false},
		{"quorum impossible", fail(aggregator.CodeQuorumImpossible, "lower quorumPercentage", account), 500, 500, "lower quorumPercentage", "QUORUM_IMPOSSIBLE", true},
		{"refused", fail(aggregator.CodeRefused, "validators refuse", account), 500, 500, "validators refuse", "REFUSED", true},
		{"not seen", fail(aggregator.CodeNotSeen, "no validator has seen the message", account), 404, 404, "no validator has seen", "MESSAGE_NOT_SEEN", true},
		{"quorum not reached", fail(aggregator.CodeQuorumNotReached, "40 % signed, 67 % needed", account), 500, 500, "40 % signed, 67 % needed", "QUORUM_NOT_REACHED", true},
		{"node unavailable", fail(aggregator.CodeNodeUnavailable, "no node answers", nil), 503, 500, "no node answers", "NODE_UNAVAILABLE", false},
		{"node busy", fail(aggregator.CodeNodeBusy, "too many calls in progress", nil), 503, 500, "too many calls in progress", "NODE_BUSY", false},
		{"node faulty", fail(aggregator.CodeNodeFaulty, "unusable answer", nil), 502, 500, "unusable answer", "NODE_FAULTY", false},
		{"shutdown", fail(aggregator.CodeShutdown, "shutting down", nil), 503, 500, "shutting down", "SHUTTING_DOWN", false},
		{"too many rounds", fail(aggregator.CodeTooManyRounds, "this client has 128 messages signed", nil), 429, 429, "this client has 128 messages signed", "TOO_MANY_ROUNDS", false},
		{"busy", fail(aggregator.CodeBusy, "512 messages are signed at the same time", nil), 503, 500, "512 messages are signed", "BUSY", false},
		{"internal", fail(aggregator.CodeInternal, "aggregate of 3 does not verify", nil), 500, 500, "something went wrong inside the service", "INTERNAL", false},
		{"unknown code", fail("NEW", "new", nil), 500, 500, "something went wrong inside the service", "INTERNAL", false},
		{"untyped", secret, 500, 500, "something went wrong inside the service", "INTERNAL", false},
		{"deadline", fmt.Errorf("waiting: %w", context.DeadlineExceeded), 503, 500, "could not be signed in the time allowed", "", false},
	}
	body := `{"message":"` + hexOf(message(t, 5).Bytes()) + `"}`
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var log bytes.Buffer
			h := newPublic(t, &fakeSigner{sign: func(context.Context, aggregator.Request) (*aggregator.Result, error) { return nil, tt.err }},
				func(o *Options) { o.Log = slog.New(slog.NewTextHandler(&log, nil)) })
			w := post(h, fujiPath, body)
			got := requireAPIError(t, w, tt.status, tt.message)
			if tt.code == "" {
				require.NotContains(t, got, "code")
			} else {
				require.Equal(t, tt.code, got["code"])
			}
			require.Equal(t, tt.outcomes, got["outcomes"] != nil)
			if tt.outcomes {
				outcomes := got["outcomes"].(map[string]any)
				require.Equal(t, "60", outcomes["silentWeight"])
				require.Equal(t, []any{}, outcomes["refusals"], "an empty list is not null")
				require.Equal(t, []any{}, outcomes["silentNodes"], "an empty list is not null")
			}
			require.NotContains(t, w.Body.String(), "hunter2")
			w = post(h, peerPath, body)
			requirePeerError(t, w, tt.peer)
			require.NotContains(t, w.Body.String(), "signingSubnetId:")
			require.NotContains(t, w.Body.String(), "hunter2")
		})
	}
}

// A message that validators have not seen may be sent in a moment: the answer says when to ask again,
// unless the request says to wait.
func TestMessageNotSeen(t *testing.T) {
	var waits []time.Duration
	s := &fakeSigner{sign: func(ctx context.Context, req aggregator.Request) (*aggregator.Result, error) {
		deadline, _ := ctx.Deadline()
		require.GreaterOrEqual(t, time.Until(deadline), req.Wait-time.Second)
		waits = append(waits, req.Wait)
		return nil, &aggregator.Error{Code: aggregator.CodeNotSeen, Message: "no validator has seen the message; waitSeconds waits", RetryAfter: 1200 * time.Millisecond}
	}}
	h := newPublic(t, s, func(o *Options) { o.RequestTimeout = 5 * time.Second })
	text := `"message":"` + hexOf(message(t, 5).Bytes()) + `"`
	w := post(h, fujiPath, `{`+text+`}`)
	requireAPIError(t, w, 404, "no validator has seen the message")
	require.Equal(t, "2", w.Header().Get("Retry-After"))
	w = post(h, peerPath, `{`+text+`,"wait-seconds":40}`)
	requirePeerError(t, w, 404)
	require.Equal(t, "2", w.Header().Get("Retry-After"))
	require.Contains(t, w.Body.String(), "wait-seconds waits")
	post(h, fujiPath, `{`+text+`,"waitSeconds":40}`)
	r := httptest.NewRequest(http.MethodPost, fujiPath, strings.NewReader(`{`+text+`}`))
	r.Header.Set("Accept", "text/event-stream")
	events := httptest.NewRecorder()
	h.ServeHTTP(events, r)
	require.Contains(t, events.Body.String(), "MESSAGE_NOT_SEEN")
	require.Equal(t, []time.Duration{0, 40 * time.Second, 40 * time.Second, 5 * time.Second}, waits)
}

func TestRoutes(t *testing.T) {
	h := newPublic(t, &fakeSigner{}, nil)
	for _, tt := range []struct{ method, path string }{
		{"GET", fujiPath}, {"PUT", fujiPath}, {"DELETE", fujiPath}, {"PATCH", fujiPath}, {"PROPFIND", fujiPath}, {"BREW", fujiPath},
		{"POST", fujiPath + "/"}, {"POST", "/v1"}, {"GET", "/v1/"}, {"GET", "/v1/none"}, {"POST", "/v2/x"}, {"GET", "/"},
		{"POST", "/v1/signatureAggregator//fuji/aggregateSignatures"}, {"GET", "/v1/%2e%2e/x"}, {"GET", "/" + strings.Repeat("x", 10_000)},
	} {
		requireAPIError(t, do(h, tt.method, tt.path, ""), 404, "check the method and the path")
	}
	for _, path := range []string{"/v1/avax/supply", "/v2/icm/summary"} {
		requireAPIError(t, do(h, "GET", path, ""), 404, "there is no GET "+path, "this address does not offer such an operation", "check the method and the path", "/docs/openapi.json")
	}
	w := do(h, "HEAD", fujiPath, "")
	require.Equal(t, 404, w.Code)
	require.Empty(t, w.Body.String())
	w = do(h, "GET", peerPath, "")
	requirePeerError(t, w, 405, "use POST")
	requireAPIError(t, post(h, fujiPath, "\x1f\x8b\x08", "Content-Encoding", "gzip"), 400, `Content-Encoding "gzip"`)
}

func TestColonsAndParameters(t *testing.T) {
	h := newPublic(t, &fakeSigner{}, nil)
	h.GET(`/v1/chains/:chainId/transactions\:listStaking`, func(c echo.Context) error { return c.String(200, c.Param("chainId")) })
	for path, want := range map[string]string{
		"/v1/chains/1/transactions:listStaking":           "1",
		"/v1/chains/1/transactions%3AlistStaking":         "1",
		"/v1/chains/1/transactions%3alistStaking":         "1",
		"/v1/chains/a%2Fb/transactions%3AlistStaking":     "a/b",
		"/v1/chains/a%252Fb/transactions:listStaking":     "a%2Fb",
		"/v1/chains/a%20b%3Ac/transactions%3AlistStaking": "a b:c",
	} {
		w := do(h, "GET", path, "")
		require.Equal(t, 200, w.Code, path)
		require.Equal(t, want, w.Body.String(), path)
	}
	require.Equal(t, 404, do(h, "GET", "/v1/chains/1/transactions%253AlistStaking", "").Code)
}

func TestPanicsStayInside(t *testing.T) {
	var log bytes.Buffer
	h := newPublic(t, &fakeSigner{sign: func(context.Context, aggregator.Request) (*aggregator.Result, error) { panic("secret: hunter2") }},
		func(o *Options) { o.Log = slog.New(slog.NewTextHandler(&log, nil)) })
	body := `{"message":"` + hexOf(message(t, 5).Bytes()) + `"}`
	w := post(h, fujiPath, body, "X-Request-Id", "abc")
	requireAPIError(t, w, 500, "x-request-id")
	require.NotContains(t, w.Body.String(), "hunter2")
	require.NotContains(t, w.Body.String(), ".go")
	require.Contains(t, log.String(), "hunter2")
	require.Contains(t, log.String(), "handlers_test.go", "the log has the stack")
	requirePeerError(t, post(h, peerPath, body), 500)
}

func TestRequestIDs(t *testing.T) {
	h := newPublic(t, &fakeSigner{}, nil)
	id := func(given string) string {
		return post(h, fujiPath, "", "X-Request-Id", given).Header().Get("X-Request-Id")
	}
	require.Equal(t, "abc-123", id("abc-123"))
	for _, bad := range []string{"", "a b", "a\tb", strings.Repeat("a", 129), "é"} {
		require.Regexp(t, "^[0-9a-f]{32}$", id(bad))
	}
	require.NotEqual(t, id(""), id(""))
}

func TestAccessLog(t *testing.T) {
	var log bytes.Buffer
	h := newPublic(t, &fakeSigner{}, func(o *Options) { o.Log = slog.New(slog.NewJSONHandler(&log, nil)) })
	post(h, fujiPath+"?apiKey=hunter2", `{"message":"00"}`, "x-data-api-key", "hunter2", "Authorization", "hunter2", "Cookie", "hunter2", "X-Request-Id", "r1", "User-Agent", "curl/8")
	require.Equal(t, 1, strings.Count(log.String(), "\n"), log.String())
	require.NotContains(t, log.String(), "hunter2")
	var line map[string]any
	require.NoError(t, json.Unmarshal(log.Bytes(), &line))
	require.Equal(t, "INFO", line["level"])
	require.Equal(t, "r1", line["request_id"])
	require.Equal(t, "POST", line["method"])
	require.Equal(t, fujiPath, line["path"])
	require.EqualValues(t, 400, line["status"])
	require.Equal(t, "curl/8", line["user_agent"])
	require.Contains(t, line["message"], "apiKey: the operation has no such parameter")
}

// Each log line about signing has the message, the subnet, the outcome and the duration. Probes are
// not logged.
func TestSigningLog(t *testing.T) {
	var log bytes.Buffer
	subnet := ids.ID{9}
	s := &fakeSigner{sign: func(context.Context, aggregator.Request) (*aggregator.Result, error) {
		return nil, &aggregator.Error{Code: aggregator.CodeRefused, Message: "refused", Account: &aggregator.Account{SigningSubnetID: subnet}}
	}}
	h := newPublic(t, s, func(o *Options) { o.Log = slog.New(slog.NewJSONHandler(&log, nil)) })
	m := message(t, 5)
	text := `{"message":"` + hexOf(m.Bytes()) + `"}`
	check := func(result string) {
		t.Helper()
		for line := range strings.Lines(log.String()) {
			var got map[string]any
			require.NoError(t, json.Unmarshal([]byte(line), &got))
			if got["path"] == fujiPath+":batch" {
				continue // its parts have lines of their own
			}
			require.Equal(t, m.ID().String(), got["message_id"], line)
			require.Equal(t, subnet.String(), got["subnet"], line)
			require.Equal(t, result, got["result"], line)
			require.Positive(t, got["waited"])
		}
		require.NotEmpty(t, log.String())
		log.Reset()
	}
	post(h, fujiPath, text)
	check("REFUSED")
	post(h, peerPath, text)
	check("REFUSED")
	post(h, fujiPath, text, "Accept", "text/event-stream")
	check("REFUSED")
	post(h, fujiPath+":batch", `{"requests":[`+text+`]}`)
	require.Contains(t, log.String(), "REFUSED")
	check("REFUSED")
	s.sign = func(_ context.Context, req aggregator.Request) (*aggregator.Result, error) {
		signed, err := warp.NewMessage(req.Message, &warp.BitSetSignature{})
		return &aggregator.Result{Message: signed, SigningSubnetID: subnet}, err
	}
	post(h, fujiPath, text)
	check("signed")
	do(h, "GET", "/health", "")
	require.Empty(t, log.String())
}

func TestMetrics(t *testing.T) {
	r := prometheus.NewRegistry()
	h := newPublic(t, &fakeSigner{}, func(o *Options) { o.Metrics = r })
	post(h, fujiPath, `{"message":"`+hexOf(message(t, 5).Bytes())+`"}`)
	post(h, strings.Replace(fujiPath, "fuji", "nowhere", 1), "")
	for i := range 100 {
		do(h, "GET", fmt.Sprintf("/v1/made/up/%d", i), "")
	}
	private, err := NewPrivate(PrivateOptions{Gatherer: r})
	require.NoError(t, err)
	text := do(private, "GET", "/metrics", "").Body.String()
	for _, line := range []string{
		`quorate_http_requests_total{route="/v1/signatureAggregator/:network/aggregateSignatures",status="2xx"} 1`,
		`quorate_http_requests_total{route="/v1/signatureAggregator/:network/aggregateSignatures",status="4xx"} 1`,
		`quorate_http_requests_total{route="unmatched",status="4xx"} 100`,
		`quorate_http_request_seconds_count{route="unmatched",status="4xx"} 100`,
		`quorate_http_requests_in_flight 0`,
	} {
		require.Contains(t, text, line+"\n")
	}
	require.Equal(t, 3, strings.Count(text, "quorate_http_requests_total{"), "made-up paths must not make labels")
	require.Panics(t, func() { _, _ = New(Options{Metrics: r}) }, "two surfaces with one registry")
}

func TestCORS(t *testing.T) {
	h := newPublic(t, &fakeSigner{}, nil)
	w := do(h, "OPTIONS", fujiPath, "", "Origin", "https://example.org", "Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "x-glacier-api-key")
	require.Equal(t, 204, w.Code)
	require.Equal(t, "*", w.Header().Get("Access-Control-Allow-Origin"))
	require.Contains(t, w.Header().Get("Access-Control-Allow-Methods"), "POST")
	allowed := strings.ToLower(w.Header().Get("Access-Control-Allow-Headers"))
	for _, header := range []string{"x-data-api-key", "x-glacier-api-key", "content-type", "x-app-component"} {
		require.Contains(t, allowed, header)
	}
	w = post(h, fujiPath, "", "Origin", "https://example.org")
	requireAPIError(t, w, 400)
	require.Equal(t, "*", w.Header().Get("Access-Control-Allow-Origin"), "a browser must be able to read errors, too")

	exposed := strings.Split(strings.ToLower(w.Header().Get("Access-Control-Expose-Headers")), ",")
	for path, item := range conform.Document(t).Paths.Map() {
		for _, operation := range item.Operations() {
			for _, p := range operation.Parameters {
				if p.Value.In == "header" {
					require.Contains(t, allowed, strings.ToLower(p.Value.Name), path)
				}
			}
			for _, response := range operation.Responses.Map() {
				for name := range response.Value.Headers {
					require.Contains(t, exposed, strings.ToLower(name), path)
				}
			}
		}
	}
}

func TestHealth(t *testing.T) {
	fuji, mainnet := error(nil), error(nil)
	all := map[string]Network{
		"fuji":    {NetworkID: 5, Signer: &fakeSigner{}, Ready: func() error { return fuji }},
		"mainnet": {NetworkID: 1, Signer: &fakeSigner{}, Ready: func() error { return mainnet }},
		"devnet":  {NetworkID: 7, Signer: &fakeSigner{}},
	}
	r := prometheus.NewRegistry()
	prometheus.WrapRegistererWith(nil, r).MustRegister(prometheus.NewGauge(prometheus.GaugeOpts{Name: "example_bytes"}))
	private, err := NewPrivate(PrivateOptions{Networks: all, Gatherer: r})
	require.NoError(t, err)
	public, err := New(Options{Networks: networks.Fixed(all)})
	require.NoError(t, err)
	get := func(h http.Handler, path string) (int, string) {
		w := do(h, "GET", path, "")
		return w.Code, strings.TrimSpace(w.Body.String())
	}
	expect := func(h http.Handler, path string, status int, body string) {
		t.Helper()
		gotStatus, gotBody := get(h, path)
		require.Equal(t, status, gotStatus)
		require.Equal(t, body, gotBody)
	}
	expect(private, "/healthz", 200, `{"status":"alive"}`)
	expect(private, "/readyz", 200, `{"ready":true,"networks":{"devnet":{"ready":true},"fuji":{"ready":true},"mainnet":{"ready":true}}}`)
	expect(public, "/health", 200, `{"status":"up","details":{"devnet":{"status":"up"},"fuji":{"status":"up"},"mainnet":{"status":"up"}}}`)
	require.Equal(t, 200, do(public, "HEAD", "/health", "").Code)
	mainnet = errors.New("no peers")
	expect(private, "/healthz", 200, `{"status":"alive"}`)
	expect(private, "/readyz", 503, `{"ready":false,"networks":{"devnet":{"ready":true},"fuji":{"ready":true},"mainnet":{"ready":false,"reason":"no peers"}}}`)
	expect(private, "/readyz/fuji", 200, `{"ready":true,"networks":{"fuji":{"ready":true}}}`)
	expect(private, "/readyz/mainnet", 503, `{"ready":false,"networks":{"mainnet":{"ready":false,"reason":"no peers"}}}`)
	for _, h := range []http.Handler{public, private} {
		expect(h, "/health", 200, `{"status":"up","details":{"devnet":{"status":"up"},"fuji":{"status":"up"},"mainnet":{"status":"down"}}}`)
	}
	one, err := New(Options{Networks: networks.Fixed(map[string]Network{"mainnet": all["mainnet"]})})
	require.NoError(t, err)
	expect(one, "/health", 503, `{"status":"down","details":{"mainnet":{"status":"down"}}}`)
	requireAPIError(t, do(private, "GET", "/readyz/other", ""), 404, `network: "other" is not served here; this instance serves `, "fuji, mainnet")
	requireAPIError(t, do(private, "POST", fujiPath, ""), 404)
	status, body := get(private, "/metrics")
	require.Equal(t, 200, status)
	require.Contains(t, body, "example_bytes 0")
	requireAPIError(t, do(public, "GET", "/metrics", ""), 404)
	requireAPIError(t, do(public, "GET", "/readyz", ""), 404)
}

// FuzzSurface: no body whatever makes a 5xx or an incomplete error.
// TestReadinessTellsWhatIsStalled: a chain that is not indexed any more is no reason
// to sign nothing.
func TestReadinessTellsWhatIsStalled(t *testing.T) {
	away := errors.New("asking for the height: no upstream node is reachable")
	private, err := NewPrivate(PrivateOptions{
		Networks: map[string]Network{"fuji": {NetworkID: 5, Signer: &fakeSigner{}}},
		Index: func() map[string]map[string]index.Status {
			return map[string]map[string]index.Status{"fuji": {
				"P": {State: index.Following, CaughtUp: true}, "evm-7": {State: index.Stalled, CaughtUp: true, Err: away},
				"evm-8": {State: index.Retrying, Err: away}, "X": {State: index.Stopped, Err: errors.New("a block does not fit")},
				"C": {State: index.Waiting, Err: &index.MissingError{Lacks: "block 1 is not available", Do: "resync"}, Failing: "fetching blocks", FailingSince: time.Unix(1_700_000_000, 5)},
			}}
		},
	})
	require.NoError(t, err)
	for _, path := range []string{"/readyz", "/readyz/fuji"} {
		w := do(private, "GET", path, "")
		require.Equal(t, 200, w.Code)
		require.JSONEq(t, `{"ready":true,"networks":{"fuji":{"ready":true,
			"stalled":{"evm-7":"asking for the height: no upstream node is reachable"},"stopped":{"X":"a block does not fit"},
			"retrying":{"evm-8":"asking for the height: no upstream node is reachable"},"waiting":{"C":"block 1 is not available; resync"}}}}`, w.Body.String())
	}
	body := do(private, "GET", "/index", "").Body.String()
	require.Contains(t, body, `"state":"stalled"`)
	require.Contains(t, body, `"error":"block 1 is not available; resync","failing":"fetching blocks","failingSince":"2023-11-14T22:13:20Z","needs":"block 1 is not available; resync"`)
}

// TestReadinessTellsOfLag: neither a chain nor a standby that is behind makes a replica
// unready.
func TestReadinessTellsOfLag(t *testing.T) {
	private, err := NewPrivate(PrivateOptions{
		Networks: map[string]Network{"fuji": {NetworkID: 5, Signer: &fakeSigner{}}},
		Index: func() map[string]map[string]index.Status {
			return map[string]map[string]index.Status{"fuji": {
				"P": {State: index.Following, Next: 10, Tip: 9, TipKnown: true}, "X": {State: index.CatchingUp, Next: 10, Tip: 909, TipKnown: true}, "C": {},
			}}
		},
		Standbys: func() []store.StandbyStats {
			return []store.StandbyStats{
				{Name: "one:5432/q", Lag: 500 * time.Millisecond, Known: true, Used: true},
				{Name: "two:5432/q", Lag: time.Minute, Known: true},
				{Name: "three:5432/q", Err: errors.New("no connection")},
			}
		},
	})
	require.NoError(t, err)
	for _, path := range []string{"/readyz", "/readyz/fuji"} {
		w := do(private, "GET", path, "")
		require.Equal(t, 200, w.Code)
		require.JSONEq(t, `{"ready":true,"networks":{"fuji":{"ready":true,"lag":{"P":0,"X":900}}},"standbys":[
			{"name":"one:5432/q","used":true,"lagSeconds":0.5},{"name":"two:5432/q","used":false,"lagSeconds":60},
			{"name":"three:5432/q","used":false,"lagSeconds":null,"error":"no connection"}]}`, w.Body.String())
	}
}

func FuzzSurface(f *testing.F) {
	for _, seed := range []string{"", "{}", "null", `{"message":"00"}`, `{"message":"` + hexOf(message(f, 5).Bytes()) + `","quorumPercentage":1e1}`,
		`{"message":"` + hexOf(logData(f, message(f, 1).Bytes())) + `"}`} {
		f.Add(seed)
	}
	h := newPublic(f, &fakeSigner{}, nil)
	f.Fuzz(func(t *testing.T, body string) {
		w := post(h, fujiPath, body)
		if w.Code != 200 {
			requireAPIError(t, w, 400)
		}
		w = post(h, peerPath, body)
		if w.Code != 200 {
			requirePeerError(t, w, 400)
		}
	})
}

func ExampleNew() {
	var signer Signer = &fakeSigner{} // an *aggregator.Aggregator in earnest
	surface, err := New(Options{Networks: networks.Fixed(map[string]Network{"fuji": {NetworkID: 5, Signer: signer}})})
	if err != nil {
		fmt.Println(err)
		return
	}
	server := httptest.NewServer(surface)
	defer server.Close()
	response, err := server.Client().Post(server.URL+"/v1/signatureAggregator/fuji/aggregateSignatures", "application/json", strings.NewReader(`{"message": "0x00"}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer response.Body.Close()
	_, _ = io.Copy(printer{}, response.Body)
	// Output: {"message":"message could not be decoded as an unsigned Warp message: it has 1 bytes, the shortest message has 42; send all of it","statusCode":400,"error":"Bad Request"}
}

type printer struct{}

func (printer) Write(p []byte) (int, error) { return fmt.Print(string(p)) }
