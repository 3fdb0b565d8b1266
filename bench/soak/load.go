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

// operation is something that is asked for again and again, by so many at a time.
type operation struct {
	name    string
	callers int
	ask     func(ctx context.Context, rng *rand.Rand) error
}

// load keeps the service busy until ctx ends.
func (s *soak) load(ctx context.Context, running *sync.WaitGroup) {
	var signed atomic.Uint64
	for _, o := range []operation{
		{"sign", 4, func(ctx context.Context, _ *rand.Rand) error { return s.sign(ctx, signed.Add(1)) }},
		{"sign again", 1, func(ctx context.Context, rng *rand.Rand) error { return s.sign(ctx, rng.Uint64N(signed.Load()+1)) }},
		{"utxos", 2, s.utxos},
		{"balances", 2, s.balances},
		{"ERC-1155 balances", 1, s.tokens},
		{"EVM transactions", 1, s.latest},
		{"platform.getHeight", 1, s.rpcHeight},
		{"platform.getBlockByHeight", 1, s.rpcBlock("/ext/bc/P", "platform.getBlockByHeight", history.P)},
		{"avm.getBlockByHeight", 1, s.rpcBlock("/ext/bc/X", "avm.getBlockByHeight", history.X)},
		{"index.getContainerByIndex", 1, s.rpcContainer},
		{"eth_blockNumber", 1, s.rpcNumber},
	} {
		for i := range o.callers {
			running.Go(func() {
				rng := rand.New(rand.NewPCG(uint64(i), uint64(len(o.name))))
				for rig.Pause(ctx, rest) {
					before := *s.trouble.Load()
					err := o.ask(ctx, rng)
					if ctx.Err() != nil {
						return // what is cut off at the end is nobody's failure
					}
					s.tally.add(o.name, cmp.Or(before, *s.trouble.Load()), err)
				}
			})
		}
	}
}

// refused is an answer that is none.
type refused struct {
	status int
	code   string // or what it says, where there is none
}

func (r *refused) Error() string { return fmt.Sprintf("%d %s", r.status, r.code) }

// digits are what makes a text one of many.
var digits = regexp.MustCompile(`[0-9]+`)

// kindOf has few values.
func kindOf(err error) string {
	var no *refused
	var timeout interface{ Timeout() bool }
	switch {
	case errors.As(err, &no):
		return fmt.Sprintf("%d %s", no.status, digits.ReplaceAllString(no.code, "N"))
	case errors.As(err, &timeout) && timeout.Timeout():
		return "no answer in time"
	default:
		return "no connection, or it broke off"
	}
}

// ask reads an answer into v, and returns its header.
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
		_ = json.Unmarshal(content, &why) // a status is enough
		return nil, &refused{response.StatusCode, cmp.Or(why.Code, fmt.Sprintf("%.60s", why.Message))}
	}
	if err := json.Unmarshal(content, v); err != nil {
		return nil, wrong("%s: %v: %.300s", path, err, content)
	}
	return response.Header, nil
}

// sign has the message of a number signed, and verifies it against the true validators.
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

// rpc asks as one asks a node.
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
		return &refused{http.StatusOK, fmt.Sprintf("%.60s", answer.Error.Message)}
	}
	if err := json.Unmarshal(answer.Result, result); err != nil {
		return wrong("%s: %v: %.300s", method, err, answer.Result)
	}
	return nil
}

// rpcHeight must be a height that the chain has, and not less than before. One asks at
// a time.
func (s *soak) rpcHeight(ctx context.Context, _ *rand.Rand) error {
	var answer struct{ Height string }
	if err := s.rpc(ctx, "/ext/bc/P", "platform.getHeight", struct{}{}, &answer); err != nil {
		return err
	}
	height, err := strconv.ParseUint(answer.Height, 10, 64)
	if before := s.past.answered.Load(); err != nil || height > s.past.height() || height < before {
		return wrong("height %q, it was %d before and there are %d", answer.Height, before, s.past.height())
	}
	s.past.answered.Store(height)
	return nil
}

// alike asks the service and the node for the same.
func alike[A any](ctx context.Context, s *soak, path, method string, params any) (got, want A, err error) {
	if err = s.rpc(ctx, path, method, params, &got); err != nil {
		return got, want, err
	}
	text, err := s.past.call(path, method, params)
	if err != nil {
		return got, want, err
	}
	return got, want, json.Unmarshal(text, &want)
}

// rpcBlock must be what the node has at that height.
func (s *soak) rpcBlock(path, method string, c history.Chain) func(context.Context, *rand.Rand) error {
	return func(ctx context.Context, rng *rand.Rand) error {
		height := rng.Uint64N(s.past.node.Height(c)-20) + 1 // what is newest may not be recorded
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

// rpcContainer must be what the node has; the times are the service's own.
func (s *soak) rpcContainer(ctx context.Context, rng *rand.Rand) error {
	index := rng.Uint64N(s.past.height() - 20)
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

// rpcNumber is what the node has, through the service.
func (s *soak) rpcNumber(ctx context.Context, _ *rand.Rand) error {
	var text string
	before := s.past.node.Height(history.C)
	err := s.rpc(ctx, "/ext/bc/C/rpc", "eth_blockNumber", []any{}, &text)
	var untrue *wrongError
	switch {
	case errors.As(err, &untrue): // the node's garbage is passed on as it is
		return &refused{http.StatusOK, "garbage"}
	case err != nil:
		return err
	}
	number, err := strconv.ParseUint(text, 0, 64)
	if after := s.past.node.Height(history.C); err != nil || number < before || number > after {
		return wrong("block %q, it was %d and is %d", text, before, after)
	}
	return nil
}

// indexed waits until the chains are indexed: until pages of them are right.
func (s *soak) indexed(ctx context.Context) error {
	var err error
	for until := time.Now().Add(10 * time.Minute); time.Now().Before(until); {
		rng := rand.New(rand.NewPCG(0, 0))
		err = nil
		for _, ask := range []func(context.Context, *rand.Rand) error{s.utxos, s.tokens, s.latest} {
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
