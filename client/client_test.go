package client_test

import (
	"context"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/logging"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp"

	"quorate/client"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// unsignedMessage returns a message of a blockchain.
func unsignedMessage(t testing.TB, source ids.ID, text string) *warp.UnsignedMessage {
	t.Helper()
	m, err := warp.NewUnsignedMessage(5, source, []byte(text))
	require.NoError(t, err)
	return m
}

// signedBy returns a signed message that names signers; its signature is not valid.
func signedBy(t testing.TB, m *warp.UnsignedMessage, signers ...byte) *warp.Message {
	t.Helper()
	signed, err := warp.NewMessage(m, &warp.BitSetSignature{Signers: signers})
	require.NoError(t, err)
	return signed
}

func hexOf(m interface{ Bytes() []byte }) string { return hex.EncodeToString(m.Bytes()) }

// open returns a client of a server, and closes both when the test ends.
func open(t testing.TB, handler http.HandlerFunc, o client.Options) *client.Client {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	o.URL, o.Network = server.URL+"/", "fuji"
	c, err := client.New(o)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

func answer(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// TestRequests checks what the client sends for each operation, and what it returns.
func TestRequests(t *testing.T) {
	m, p := unsignedMessage(t, ids.ID{1}, "sent"), unsignedMessage(t, ids.Empty, "from the P-Chain")
	signed, signedP := signedBy(t, m, 7), signedBy(t, p, 1)
	subnet, chain, txID := ids.ID{2}, ids.ID{3}, ids.ID{0xab, 31: 1}
	options := client.SignOptions{
		SigningSubnetID: &subnet, QuorumPercentage: 80, QuorumPercentageBuffer: 3, VerifyingBlockchainID: &chain, Wait: 1500 * time.Millisecond,
	}
	// logged is the data of the precompile's log: the offset, the length, and the padded message.
	logged := make([]byte, 64, 64+len(m.Bytes())+31)
	logged[31], logged[63] = 32, byte(len(m.Bytes()))
	logged = append(logged, m.Bytes()...)
	logged = append(logged, make([]byte, (32-len(logged)%32)%32)...)
	good := fmt.Sprintf(`{"signedMessage":%q}`, hexOf(signed))
	for name, test := range map[string]struct {
		request, body, answer string
		call                  func(ctx context.Context, c *client.Client) (any, error)
		want                  any
	}{
		"a message": {
			"POST /v1/signatureAggregator/fuji/aggregateSignatures",
			fmt.Sprintf(`{"message":%q,"justification":"0102","signingSubnetId":%q,"quorumPercentage":80,"quorumPercentageBuffer":3,"verifyingBlockchainId":%q,"waitSeconds":2}`,
				hexOf(m), subnet, chain), good,
			func(ctx context.Context, c *client.Client) (any, error) {
				return c.Sign(ctx, client.Request{Message: m.Bytes(), Justification: []byte{1, 2}, SignOptions: options})
			}, signed,
		},
		"the data of a log": {
			"POST /v1/signatureAggregator/fuji/aggregateSignatures", fmt.Sprintf(`{"message":%q}`, hex.EncodeToString(logged)), good,
			func(ctx context.Context, c *client.Client) (any, error) {
				return c.Sign(ctx, client.Request{Message: logged})
			}, signed,
		},
		"the call of icm-services": {
			"POST /v1/signatureAggregator/fuji/aggregateSignatures", fmt.Sprintf(`{"message":%q,"quorumPercentage":67,"pChainHeight":9}`, hexOf(m)), good,
			func(ctx context.Context, c *client.Client) (any, error) {
				return client.Aggregator{Client: c}.CreateSignedMessage(ctx, logging.NoLog{}, m, nil, ids.Empty, 67, 9)
			}, signed,
		},
		"the call of icm-services with a subnet at the proposed height": {
			"POST /v1/signatureAggregator/fuji/aggregateSignatures",
			fmt.Sprintf(`{"message":%q,"justification":"ff","signingSubnetId":%q,"quorumPercentage":67,"quorumPercentageBuffer":5}`, hexOf(m), subnet), good,
			func(ctx context.Context, c *client.Client) (any, error) {
				return client.Aggregator{Client: c, QuorumPercentageBuffer: 5}.CreateSignedMessage(ctx, logging.NoLog{}, m, []byte{0xff}, subnet, 67, math.MaxUint64)
			}, signed,
		},
		"a P-Chain transaction": {
			"GET /v1/signatureAggregator/fuji/aggregateSignatures/" + txID.String(), "", fmt.Sprintf(`{"signedMessage":%q}`, hexOf(signedP)),
			func(ctx context.Context, c *client.Client) (any, error) { return c.SignTransaction(ctx, txID) }, signedP,
		},
		"a message in detail": {
			"POST /v1/signatureAggregator/fuji/aggregateSignatures", fmt.Sprintf(`{"message":%q}`, hexOf(m)), good,
			func(ctx context.Context, c *client.Client) (any, error) {
				return c.SignInDetail(ctx, client.Request{Message: m.Bytes()})
			}, &client.Signed{Message: signed, Summary: &client.Summary{Signers: 2, Weight: 1 << 63, TotalWeight: math.MaxUint64, SigningSubnetID: subnet, PChainHeight: 7, FromCache: true}},
		},
		"an EVM transaction": {
			"GET /v1/signatureAggregator/fuji/blockchains/c-chain/transactions/0x" + txID.Hex() + "/messages?quorumPercentage=80&quorumPercentageBuffer=3&signingSubnetId=" +
				subnet.String() + "&verifyingBlockchainId=" + chain.String() + "&waitSeconds=2", "",
			fmt.Sprintf(`{"messages":[{"messageId":%q,"logIndex":3,"unsignedMessage":%q,"signedMessage":%q}]}`, m.ID(), hexOf(m), hexOf(signed)),
			func(ctx context.Context, c *client.Client) (any, error) {
				return c.SignEVMTransaction(ctx, client.CChain, txID, options)
			}, []client.Sent{{LogIndex: 3, Unsigned: m, Signed: signed}},
		},
		"an EVM transaction of a chain of any name": {
			"GET /v1/signatureAggregator/fuji/blockchains/a%2Fb/transactions/0x" + txID.Hex() + "/messages", "", `{"messages":[]}`,
			func(ctx context.Context, c *client.Client) (any, error) {
				return c.SignEVMTransaction(ctx, "a/b", txID, client.SignOptions{})
			}, []client.Sent{},
		},
		"a batch": {
			"POST /v1/signatureAggregator/fuji/aggregateSignatures:batch", fmt.Sprintf(`{"requests":[{"message":%q},{"message":"00","pChainHeight":4}]}`, hexOf(m)),
			fmt.Sprintf(`{"results":[{"signedMessage":%q},{"message":"requests[1]: no","statusCode":400,"error":"Bad Request"}]}`, hexOf(signed)),
			func(ctx context.Context, c *client.Client) (any, error) {
				return c.SignBatch(ctx, []client.Request{{Message: m.Bytes()}, {Message: []byte{0}, SignOptions: client.SignOptions{PChainHeight: 4}}})
			}, []client.Result{{Message: signed}, {Err: &client.Error{Status: 400, Message: "requests[1]: no"}}},
		},
		"a signed message to verify": {
			"POST /v1/signatureAggregator/fuji/verifySignedMessage", fmt.Sprintf(`{"signedMessage":%q,"quorumPercentage":70,"pChainHeight":4}`, hexOf(signed)),
			fmt.Sprintf(`{"valid":false,"reason":"not enough","signers":[{"index":2,"nodeIds":[%q],"weight":"5"}],"weight":"5","targetWeight":"7","totalWeight":"10","signingSubnetId":%q,"pChainHeight":"4","new":1}`,
				ids.NodeID{4}, subnet),
			func(ctx context.Context, c *client.Client) (any, error) {
				return c.Verify(ctx, client.VerifyRequest{Message: signed, QuorumPercentage: 70, PChainHeight: 4})
			},
			&client.Verdict{
				Reason: "not enough", Signers: []client.Signer{{Index: 2, NodeIDs: []ids.NodeID{{4}}, Weight: 5}},
				Weight: 5, TargetWeight: 7, TotalWeight: 10, SigningSubnetID: subnet, PChainHeight: 4,
			},
		},
		"a signed message to deliver": {
			"POST /v1/signatureAggregator/fuji/verifySignedMessage", fmt.Sprintf(`{"signedMessage":%q,"destinationBlockchainId":%q}`, hexOf(signed), chain),
			fmt.Sprintf(`{"valid":true,"signers":[],"weight":"9","targetWeight":"7","totalWeight":"10","signingSubnetId":%q,"pChainHeight":"4","delivery":{
				"deliverable":false,"code":"EPOCH_BEHIND","detail":"why","remedy":"wait","destinationBlockchainId":%q,
				"epoch":{"number":"2","pChainHeight":"3","startTime":"2026-11-23T03:18:15Z","endTime":"2026-11-23T03:18:45Z"},
				"rules":{"quorumPercentage":67,"requirePrimaryNetworkSigners":true,"source":"PROTOCOL"},
				"validators":{"signingSubnetId":%q,"pChainHeight":"3","signers":1,"weight":"4","targetWeight":"7","totalWeight":"10"},
				"nextEpoch":{"pChainHeight":"4","notBefore":"2026-11-23T03:18:45Z","blocks":1}}}`, subnet, chain, subnet),
			func(ctx context.Context, c *client.Client) (any, error) {
				return c.Verify(ctx, client.VerifyRequest{Message: signed, DestinationBlockchainID: &chain})
			},
			&client.Verdict{
				Valid: true, Signers: []client.Signer{}, Weight: 9, TargetWeight: 7, TotalWeight: 10, SigningSubnetID: subnet, PChainHeight: 4,
				Delivery: &client.Delivery{
					Deliverable: new(bool), Code: client.DeliveryEpochBehind, Detail: "why", Remedy: "wait", DestinationBlockchainID: chain,
					Epoch: &client.Epoch{
						Number: 2, PChainHeight: 3,
						StartTime: time.Date(2026, 11, 23, 3, 18, 15, 0, time.UTC), EndTime: time.Date(2026, 11, 23, 3, 18, 45, 0, time.UTC),
					},
					Rules:      &client.Rules{QuorumPercentage: 67, RequirePrimaryNetworkSigners: true, Source: "PROTOCOL"},
					Validators: &client.DestinationSigners{SigningSubnetID: subnet, PChainHeight: 3, Signers: 1, Weight: 4, TargetWeight: 7, TotalWeight: 10},
					NextEpoch:  &client.NextEpoch{PChainHeight: 4, NotBefore: time.Date(2026, 11, 23, 3, 18, 45, 0, time.UTC), Blocks: 1},
				},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := open(t, func(w http.ResponseWriter, r *http.Request) {
				body, err := io.ReadAll(r.Body)
				if got := r.Method + " " + r.URL.RequestURI(); err != nil || got != test.request || string(body) != test.body {
					t.Errorf("got request\n%s\n%s, want\n%s\n%s", got, body, test.request, test.body)
				}
				if got := r.Header.Get("X-Data-Api-Key"); got != "secret" {
					t.Errorf("got API key %q, want secret", got)
				}
				w.Header().Set("Signing-Summary", `{"signers":2,"weight":"9223372036854775808","totalWeight":"18446744073709551615","signingSubnetId":"`+subnet.String()+`","pChainHeight":"7","fromCache":true}`)
				answer(http.StatusOK, test.answer)(w, r)
			}, client.Options{APIKey: "secret"})
			got, err := test.call(t.Context(), c)
			require.NoError(t, err)
			require.Equal(t, test.want, got)
		})
	}
}

// TestHostileServers checks that no unusable answer passes for a result.
func TestHostileServers(t *testing.T) {
	m, other := unsignedMessage(t, ids.ID{1}, "asked"), unsignedMessage(t, ids.ID{1}, "never asked")
	sign := func(ctx context.Context, c *client.Client) error {
		_, err := c.Sign(ctx, client.Request{Message: m.Bytes()})
		return err
	}
	sent := func(ctx context.Context, c *client.Client) error {
		_, err := c.SignEVMTransaction(ctx, client.CChain, [32]byte{1}, client.SignOptions{})
		return err
	}
	signedMessage := func(text string) http.HandlerFunc { return answer(200, `{"signedMessage":"`+text+`"}`) }
	for name, test := range map[string]struct {
		handler http.HandlerFunc
		call    func(ctx context.Context, c *client.Client) error
		part    string
	}{
		"a page": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			_, _ = io.WriteString(w, "<html>Welcome</html>")
		}, sign, `"text/html"`},
		"truncated JSON":      {answer(200, `{"signedMessage":"0000`), sign, "not the expected JSON"},
		"more after the JSON": {answer(200, `{"signedMessage":""}{}`), sign, "not the expected JSON"},
		"null":                {answer(200, `null`), sign, "cannot be parsed"},
		"not hex":             {signedMessage("zz"), sign, "not hex"},
		"unsigned":            {signedMessage(hexOf(m)), sign, "cannot be parsed"},
		"trailing bytes":      {signedMessage(hexOf(signedBy(t, m, 1)) + "00"), sign, "cannot be parsed"},
		"no signers":          {signedMessage(hexOf(signedBy(t, m))), sign, "no signers"},
		"padded signers":      {signedMessage(hexOf(signedBy(t, m, 0, 1))), sign, "cannot be parsed"},
		"another message":     {signedMessage(hexOf(signedBy(t, other, 1))), sign, "not the one of the request"},
		"another blockchain":  {signedMessage(hexOf(signedBy(t, unsignedMessage(t, ids.ID{2}, "asked"), 1))), sign, "not the one of the request"},
		"an endless answer":   {endless(t), sign, "exceeds"},
		"an endless failure": {func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusInternalServerError)
			endless(t)(w, r)
		}, sign, "exceeds"},
		"a redirect":           {http.RedirectHandler("/elsewhere", http.StatusTemporaryRedirect).ServeHTTP, sign, `redirects to "/elsewhere"`},
		"a gateway's failure":  {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "bad gateway", http.StatusBadGateway) }, sign, "status 502 and no JSON"},
		"no content":           {answer(204, ""), sign, "status 204"},
		"results for others":   {answer(200, `{"results":[]}`), batch(m), "0 results for 1 requests"},
		"a batch's other":      {answer(200, `{"results":[{"signedMessage":"`+hexOf(signedBy(t, other, 1))+`"}]}`), batch(m), "not the one of the request"},
		"not of the P-Chain":   {signedMessage(hexOf(signedBy(t, m, 1))), signTransaction, "not of the P-Chain"},
		"a wrong ID":           {answer(200, sentBody(m, ids.ID{9}, `"signedMessage":"`+hexOf(signedBy(t, m, 1))+`"`)), sent, "has ID"},
		"a signed other":       {answer(200, sentBody(m, m.ID(), `"signedMessage":"`+hexOf(signedBy(t, other, 1))+`"`)), sent, "not the one of the request"},
		"neither of both":      {answer(200, sentBody(m, m.ID(), `"x":1`)), sent, "cannot be parsed"},
		"an unsigned that not": {answer(200, `{"messages":[{"unsignedMessage":"00"}]}`), sent, "unsigned message 0 cannot be parsed"},
		"no outcome":           {answer(200, sentBody(m, m.ID(), `"error":{}`)), outcome, "no reason"},
		"no result":            {answer(200, `{"results":[{}]}`), result, "no reason"},
		"no verdict":           {answer(200, `null`), verify(signedBy(t, m, 1)), "not a verdict"},
		"a verdict's weight":   {answer(200, `{"valid":true,"weight":"-1"}`), verify(signedBy(t, m, 1)), "not the expected JSON"},
	} {
		t.Run(name, func(t *testing.T) {
			requests := 0
			c := open(t, func(w http.ResponseWriter, r *http.Request) {
				requests++
				test.handler(w, r)
			}, client.Options{APIKey: "secret"})
			err := test.call(t.Context(), c)
			require.ErrorIs(t, err, client.ErrBadAnswer)
			require.ErrorContains(t, err, test.part)
			require.Equal(t, 1, requests, "an unusable answer is not asked for again")
		})
	}
}

// endless returns a handler that writes until the client closes the connection.
func endless(t *testing.T) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		written, chunk := 0, strings.Repeat(" ", 1<<20)
		for {
			n, err := io.WriteString(w, chunk)
			if written += n; err != nil {
				return
			}
			if written > 1<<30 {
				t.Errorf("the client has read %d bytes", written)
				return
			}
		}
	}
}

func batch(m *warp.UnsignedMessage) func(context.Context, *client.Client) error {
	return func(ctx context.Context, c *client.Client) error {
		_, err := c.SignBatch(ctx, []client.Request{{Message: m.Bytes()}})
		return err
	}
}

// outcome and result return the error of the only message.
func outcome(ctx context.Context, c *client.Client) error {
	sent, err := c.SignEVMTransaction(ctx, client.CChain, [32]byte{1}, client.SignOptions{})
	if err != nil {
		return err
	}
	return sent[0].Err
}

func result(ctx context.Context, c *client.Client) error {
	results, err := c.SignBatch(ctx, []client.Request{{}})
	if err != nil {
		return err
	}
	return results[0].Err
}

func signTransaction(ctx context.Context, c *client.Client) error {
	_, err := c.SignTransaction(ctx, ids.ID{1})
	return err
}

func verify(m *warp.Message) func(context.Context, *client.Client) error {
	return func(ctx context.Context, c *client.Client) error {
		_, err := c.Verify(ctx, client.VerifyRequest{Message: m})
		return err
	}
}

func sentBody(m *warp.UnsignedMessage, id ids.ID, outcome string) string {
	return fmt.Sprintf(`{"messages":[{"messageId":%q,"logIndex":1,"unsignedMessage":%q,%s}]}`, id, hexOf(m), outcome)
}

// TestRedirectsKeepTheKey checks that no other server gets the request, also with a client that would follow.
func TestRedirectsKeepTheKey(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("the other server got a request with API key %q", r.Header.Get("X-Data-Api-Key"))
	}))
	defer other.Close()
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	given := &http.Client{Transport: transport}
	for _, status := range []int{301, 302, 303, 307, 308} {
		c := open(t, http.RedirectHandler(other.URL, status).ServeHTTP, client.Options{APIKey: "secret", HTTPClient: given})
		_, err := c.SignTransaction(t.Context(), ids.ID{1})
		require.ErrorIs(t, err, client.ErrBadAnswer)
		require.ErrorContains(t, err, other.URL)
	}
	require.Nil(t, given.CheckRedirect, "the caller's client was changed")
}

// TestUntrustedCertificateIsFinal checks that a server without a trusted certificate gets neither a request nor a
// second connection.
func TestUntrustedCertificateIsFinal(t *testing.T) {
	var connections atomic.Int32
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("got a request") }))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}
	server.StartTLS()
	defer server.Close()
	c, err := client.New(client.Options{URL: server.URL, Network: "fuji"})
	require.NoError(t, err)
	defer c.Close()
	_, err = c.SignTransaction(t.Context(), ids.ID{1})
	var untrusted *tls.CertificateVerificationError
	require.ErrorAs(t, err, &untrusted)
	require.EqualValues(t, 1, connections.Load())
}

// TestErrors checks what the client makes of failures of the service.
func TestErrors(t *testing.T) {
	node := ids.NodeID{7}
	for name, test := range map[string]struct {
		status int
		body   string
		want   client.Error
	}{
		"with an account": {500, `{"message":"too few","statusCode":500,"error":"Internal Server Error","code":"QUORUM_NOT_REACHED","outcomes":{
			"signingSubnetId":"11111111111111111111111111111111LpoYY","pChainHeight":12,"targetWeight":"67","totalWeight":"100","signedWeight":"60","disconnectedWeight":"40",
			"refusals":[{"code":5,"message":"no","weight":"1","count":1}],"silentNodes":["` + node.String() + `"],
			"reasons":[{"code":"PRIVATE_ADDRESS","weight":"40","count":2,"nodeIds":["` + node.String() + `"],"detail":"10.0.0.1","remedy":"set allow_private_ips"}],"new":{}}}`,
			client.Error{Code: client.CodeQuorumNotReached, Status: 500, Message: "too few", RequestID: "r1", Outcomes: &client.Account{
				PChainHeight: 12, TargetWeight: 67, TotalWeight: 100, SignedWeight: 60, DisconnectedWeight: 40,
				Refusals: []client.Refusal{{Code: 5, Message: "no", Weight: 1, Count: 1}}, SilentNodes: []ids.NodeID{node},
				Reasons: []client.Reason{{Code: client.ReasonPrivateAddress, Weight: 40, Count: 2, NodeIDs: []ids.NodeID{node}, Detail: "10.0.0.1", Remedy: "set allow_private_ips"}},
			}}},
		"with an empty account": {500, `{"message":"too few","code":"REFUSED","outcomes":{}}`,
			client.Error{Code: client.CodeRefused, Status: 500, Message: "too few", RequestID: "r1", Outcomes: &client.Account{}}},
		"with an account of another form": {404, `{"message":"it says why","code":"MESSAGE_NOT_SEEN","outcomes":{"targetWeight":67}}`,
			client.Error{Code: client.CodeNotSeen, Status: 404, Message: "it says why", RequestID: "r1"}},
		"without a code": {400, `{"message":"signingSubnetId: no","outcomes":null}`,
			client.Error{Status: 400, Message: "signingSubnetId: no", RequestID: "r1"}},
	} {
		t.Run(name, func(t *testing.T) {
			requests := 0
			c := open(t, func(w http.ResponseWriter, r *http.Request) {
				requests++
				w.Header().Set("X-Request-Id", "r1")
				answer(test.status, test.body)(w, r)
			}, client.Options{})
			_, err := c.SignTransaction(t.Context(), ids.ID{1})
			var got *client.Error
			require.ErrorAs(t, err, &got)
			require.Equal(t, test.want, *got)
			require.NotErrorIs(t, err, client.ErrBadAnswer)
			require.NotErrorIs(t, err, &client.Error{Code: client.CodeBusy})
			if test.want.Code != "" {
				require.ErrorIs(t, err, &client.Error{Code: test.want.Code})
				require.ErrorContains(t, err, string(test.want.Code))
			}
			require.Equal(t, 1, requests)
		})
	}
}

// TestErrorsOfOneMessage checks the errors within answers that are successes.
func TestErrorsOfOneMessage(t *testing.T) {
	m := unsignedMessage(t, ids.ID{1}, "sent")
	failure := `{"message":"too few","statusCode":500,"error":"x","code":"QUORUM_NOT_REACHED","outcomes":{"totalWeight":"9"}}`
	c := open(t, func(w http.ResponseWriter, r *http.Request) {
		body := sentBody(m, m.ID(), `"error":`+failure)
		if r.Method == http.MethodPost {
			body = `{"results":[` + failure + `]}`
		}
		answer(200, body)(w, r)
	}, client.Options{})
	results, err := c.SignBatch(t.Context(), []client.Request{{Message: m.Bytes()}})
	require.NoError(t, err)
	sent, err := c.SignEVMTransaction(t.Context(), "43113", [32]byte{1}, client.SignOptions{})
	require.NoError(t, err)
	require.Equal(t, m, sent[0].Unsigned)
	for _, err := range []error{results[0].Err, sent[0].Err} {
		var got *client.Error
		require.ErrorAs(t, err, &got)
		require.Equal(t, client.Error{Code: client.CodeQuorumNotReached, Status: 500, Message: "too few", Outcomes: &client.Account{TotalWeight: 9}}, *got)
	}
}

// TestCodesAreThoseOfTheDocumentation compares the constants with the tables of the documentation.
func TestCodesAreThoseOfTheDocumentation(t *testing.T) {
	for _, test := range []struct {
		file, constant, page, head string
		least                      int
	}{
		{"error.go", " Code = %q\n", "errors.md", "| `code` | meaning |", 25},
		{"reason.go", " ReasonCode = %q\n", "errors.md", "| `code` | validators with that much weight |", 20},
		{"delivery.go", " DeliveryCode = %q\n", "signing.md", "| code | meaning | what to do |", 11},
	} {
		page, err := os.ReadFile("../docs/" + test.page)
		require.NoError(t, err)
		source, err := os.ReadFile(test.file)
		require.NoError(t, err)
		_, table, found := strings.Cut(string(page), test.head)
		require.True(t, found, "docs/%s has no table that begins with %s", test.page, test.head)
		table, _, _ = strings.Cut(table, "\n\n")
		documented := 0
		for line := range strings.Lines(table) {
			cells := strings.Split(line, "|")
			if len(cells) < 2 {
				continue
			}
			for _, code := range regexp.MustCompile("`([A-Z0-9_]+)`").FindAllStringSubmatch(cells[1], -1) {
				documented++
				require.Contains(t, string(source), fmt.Sprintf(test.constant, code[1]))
			}
		}
		require.Greater(t, documented, test.least)
	}
}

// TestNewChecksOptions checks that mistakes show before the first request.
func TestNewChecksOptions(t *testing.T) {
	for _, o := range []client.Options{
		{},
		{URL: "http://127.0.0.1:8080"},
		{URL: "127.0.0.1:8080", Network: "fuji"},
		{URL: "ftp://127.0.0.1", Network: "fuji"},
		{URL: "http://127.0.0.1?x=1", Network: "fuji"},
		{URL: "http://%", Network: "fuji"},
		{URL: "http://127.0.0.1", Network: "fuji", Attempts: -1},
	} {
		_, err := client.New(o)
		require.Error(t, err, "%+v", o)
	}
}

// TestQuorumOfTheAdapter checks what icm-services' aggregator refuses before it asks anyone.
func TestQuorumOfTheAdapter(t *testing.T) {
	c := open(t, func(http.ResponseWriter, *http.Request) { t.Error("got a request") }, client.Options{})
	for _, quorum := range []uint64{0, 101} {
		_, err := client.Aggregator{Client: c}.CreateSignedMessage(t.Context(), logging.NoLog{}, unsignedMessage(t, ids.ID{1}, "x"), nil, ids.Empty, quorum, 0)
		require.ErrorContains(t, err, "quorum percentage")
	}
}

// TestErrorsAreJSON checks that an account can be passed on, as the command does.
func TestErrorsAreJSON(t *testing.T) {
	want := client.Account{PChainHeight: 3, TotalWeight: math.MaxUint64, SilentNodes: []ids.NodeID{{1}}, Reasons: []client.Reason{{Code: "X", Weight: 5}}}
	content, err := json.Marshal(want)
	require.NoError(t, err)
	require.Contains(t, string(content), `"totalWeight":"18446744073709551615"`)
	var got client.Account
	require.NoError(t, json.Unmarshal(content, &got))
	require.Equal(t, want, got)
}
