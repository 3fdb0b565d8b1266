package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"regexp"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ava-labs/avalanchego/utils/constants"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp"

	"quorate/aggregator"
	"quorate/bench/rig"
	"quorate/internal/simnet/history"
	canonical "quorate/validators"
)

// operation is a kind of request that a number of clients make again and again.
type operation struct {
	name    string
	clients int
	ask     func(ctx context.Context, rng *rand.Rand) error
}

// load makes requests until ctx ends.
func (s *soak) load(ctx context.Context, running *sync.WaitGroup) {
	var signed atomic.Uint64
	for _, o := range []operation{
		{"sign", 4, func(ctx context.Context, _ *rand.Rand) error { return s.sign(ctx, signed.Add(1)) }},
		{"sign again", 1, func(ctx context.Context, rng *rand.Rand) error { return s.sign(ctx, rng.Uint64N(signed.Load()+1)) }},
		{"P-Chain utxos", 1, s.utxos(history.P)},
		{"X-Chain utxos", 1, s.utxos(history.X)},
		{"C-Chain utxos", 1, s.utxos(history.C)},
		{"P-Chain balances", 1, s.balances(history.P)},
		{"X-Chain balances", 1, s.balances(history.X)},
		{"ERC-1155 balances", 1, s.tokens},
		{"EVM transactions", 1, s.latest},
		{"platform.getHeight", 1, s.rpcHeight},
		{"platform.getBlockByHeight", 1, s.rpcBlock("/ext/bc/P", "platform.getBlockByHeight", history.P)},
		{"avm.getBlockByHeight", 1, s.rpcBlock("/ext/bc/X", "avm.getBlockByHeight", history.X)},
		{"index.getContainerByIndex", 1, s.rpcContainer},
		{"eth_blockNumber", 1, s.rpcNumber},
	} {
		s.tally.expect(o.name)
		for i := range o.clients {
			running.Go(func() {
				rng := rand.New(rand.NewPCG(uint64(i), uint64(len(o.name))))
				for rig.Pause(ctx, rest) {
					before := *s.trouble.Load()
					err := o.ask(ctx, rng)
					if ctx.Err() != nil {
						return // the end cut it off
					}
					s.tally.add(o.name, cmp.Or(before, *s.trouble.Load()), err)
				}
			})
		}
	}
}

// responseError is a response that reports a failure.
type responseError struct {
	status int
	code   string // or the message, if there is no code
}

func (r *responseError) Error() string { return fmt.Sprintf("%d %s", r.status, r.code) }

// digits differ between messages of the same kind.
var digits = regexp.MustCompile(`[0-9]+`)

// tooLate is the kind of failure without a response within the timeout.
const tooLate = "no answer in time"

// kindOf returns the kind of a failure, one of a few.
func kindOf(err error) string {
	var no *responseError
	var timeout interface{ Timeout() bool }
	switch {
	case errors.As(err, &no):
		return fmt.Sprintf("%d %s", no.status, digits.ReplaceAllString(no.code, "N"))
	case errors.As(err, &timeout) && timeout.Timeout():
		return tooLate
	default:
		return "no connection or connection lost"
	}
}

// ask makes a request, decodes the response into v and returns its header.
func (s *soak) ask(ctx context.Context, method, path string, body []byte, v any) (http.Header, error) {
	request, err := http.NewRequestWithContext(ctx, method, "http://"+s.service.Public+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := s.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		var why struct{ Code, Message string }
		_ = json.Unmarshal(content, &why) // the status is enough
		return nil, &responseError{response.StatusCode, cmp.Or(why.Code, fmt.Sprintf("%.60s", why.Message))}
	}
	if err := json.Unmarshal(content, v); err != nil {
		return nil, wrong("%s: %v: %.300s", path, err, content)
	}
	return response.Header, nil
}

// sign requests a signature on the message with a number and verifies it against the true
// validators.
func (s *soak) sign(ctx context.Context, number uint64) error {
	message := s.net.Message(strconv.AppendUint([]byte("soak "), number, 10))
	var answer struct{ SignedMessage string }
	body := fmt.Appendf(nil, `{"message":"%x"}`, message.Bytes())
	if _, err := s.ask(ctx, http.MethodPost, "/v1/signatureAggregator/fuji/aggregateSignatures", body, &answer); err != nil {
		return err
	}
	raw, err := hex.DecodeString(answer.SignedMessage)
	if err != nil {
		return wrong("message %d: %v", number, err)
	}
	signed, err := warp.ParseMessage(raw)
	if err != nil {
		return wrong("message %d: %v", number, err)
	}
	if !bytes.Equal(signed.UnsignedMessage.Bytes(), message.Bytes()) {
		return wrong("message %d: another was signed", number)
	}
	at := s.net.Height() // the validators are the same at all heights
	set := canonical.NewSet(constants.PrimaryNetworkID, at, s.net.Set(constants.PrimaryNetworkID, at))
	if v := aggregator.Judge(signed, set, aggregator.DefaultQuorumPercentage); !v.Valid {
		return wrong("message %d: %s", number, v.Reason)
	}
	return nil
}

// rpc makes a JSON-RPC call of the node APIs.
func (s *soak) rpc(ctx context.Context, path, method string, params, result any) error {
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
	if err != nil {
		return err
	}
	var answer struct {
		Result json.RawMessage
		Error  *struct{ Message string }
	}
	if _, err := s.ask(ctx, http.MethodPost, path, body, &answer); err != nil {
		return err
	}
	if answer.Error != nil {
		return &responseError{http.StatusOK, fmt.Sprintf("%.60s", answer.Error.Message)}
	}
	if err := json.Unmarshal(answer.Result, result); err != nil {
		return wrong("%s: %v: %.300s", method, err, answer.Result)
	}
	return nil
}

// rpcHeight checks that the height exists and is not less than before. One client calls it.
func (s *soak) rpcHeight(ctx context.Context, _ *rand.Rand) error {
	var answer struct{ Height string }
	if err := s.rpc(ctx, "/ext/bc/P", "platform.getHeight", struct{}{}, &answer); err != nil {
		return err
	}
	height, err := strconv.ParseUint(answer.Height, 10, 64)
	if before := s.primary.answered.Load(); err != nil || height > s.primary.height() || height < before {
		return wrong("height %q, it was %d before and there are %d", answer.Height, before, s.primary.height())
	}
	s.primary.answered.Store(height)
	return nil
}

// alike makes the same call to the service and to the node.
func alike[A any](ctx context.Context, s *soak, path, method string, params any) (got, want A, err error) {
	if err = s.rpc(ctx, path, method, params, &got); err != nil {
		return got, want, err
	}
	text, err := s.primary.call(path, method, params)
	if err != nil {
		return got, want, err
	}
	return got, want, json.Unmarshal(text, &want)
}

// rpcBlock compares a block with the node's.
func (s *soak) rpcBlock(path, method string, c history.Chain) func(context.Context, *rand.Rand) error {
	return func(ctx context.Context, rng *rand.Rand) error {
		height := rng.Uint64N(s.primary.node.Height(c)-20) + 1 // the newest may not be indexed yet
		got, want, err := alike[struct{ Block string }](ctx, s, path, method, map[string]any{"height": height, "encoding": "hex"})
		if err != nil {
			return err
		}
		if got.Block != want.Block {
			return wrong("height %d: got %.100s, want %.100s", height, got.Block, want.Block)
		}
		return nil
	}
}

// rpcContainer compares a container with the node's, but not its time.
func (s *soak) rpcContainer(ctx context.Context, rng *rand.Rand) error {
	index := rng.Uint64N(s.primary.height() - 20)
	params := map[string]any{"index": strconv.FormatUint(index, 10), "encoding": "hex"}
	got, want, err := alike[struct{ ID, Bytes string }](ctx, s, "/ext/index/P/block", "index.getContainerByIndex", params)
	if err != nil {
		return err
	}
	if got != want {
		return wrong("container %d: got %s %.100s, want %s %.100s", index, got.ID, got.Bytes, want.ID, want.Bytes)
	}
	return nil
}

// rpcNumber compares a forwarded call with the truth.
func (s *soak) rpcNumber(ctx context.Context, _ *rand.Rand) error {
	var text string
	before, garbage := s.primary.node.Height(history.C), *s.trouble.Load() == nodeGarbage
	err := s.rpc(ctx, "/ext/bc/C/rpc", "eth_blockNumber", []any{}, &text)
	if err := forwarded(err, garbage || *s.trouble.Load() == nodeGarbage); err != nil {
		return err
	}
	number, err := strconv.ParseUint(text, 0, 64)
	if after := s.primary.node.Height(history.C); err != nil || number < before || number > after {
		return wrong("block %q, it was %d and is %d", text, before, after)
	}
	return nil
}

// forwarded returns the error of a forwarded call. While the node answers with garbage, the service forwards that: the
// response is a failure, not wrong.
func forwarded(err error, garbage bool) error {
	if garbage && errors.As(err, new(*wrongError)) {
		return &responseError{http.StatusOK, "garbage"}
	}
	return err
}

// indexed waits until the chains are indexed: until pages of each are right, and the node APIs, whose indexes of a chain
// may be complete later, answer.
func (s *soak) indexed(ctx context.Context) error {
	var err error
	reads := []func(context.Context, *rand.Rand) error{
		s.utxos(history.P), s.utxos(history.X), s.utxos(history.C), s.tokens, s.latest,
		s.rpcHeight, s.rpcBlock("/ext/bc/X", "avm.getBlockByHeight", history.X),
	}
	for until := time.Now().Add(10 * time.Minute); time.Now().Before(until); {
		rng := rand.New(rand.NewPCG(0, 0))
		err = nil
		for _, ask := range reads {
			err = errors.Join(err, ask(ctx, rng))
		}
		if err == nil {
			return nil
		}
		if !rig.Pause(ctx, 500*time.Millisecond) {
			return ctx.Err()
		}
	}
	return fmt.Errorf("the chains are not indexed within ten minutes: %w", err)
}
