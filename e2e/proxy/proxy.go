// Package proxy stands between a service and a node and answers chosen methods as
// providers, gateways and nodes with other settings do. It passes everything else on,
// WebSockets included.
package proxy

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// Call is one JSON-RPC call, or another HTTP request.
type Call struct {
	Path   string // of the HTTP request
	Method string // of JSON-RPC, else of HTTP
	Params json.RawMessage
}

// Answer is what a rule answers instead of the node.
type Answer struct {
	// Status, unless zero, is the HTTP status of the whole response, which then has
	// nothing but Body.
	Status int
	Header http.Header
	Body   string
	// Result and Error are those of JSON-RPC. Error takes precedence.
	Result json.RawMessage
	Error  *Error
}

// Error is that of a JSON-RPC response.
type Error struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

// Rule decides about the calls of a method. Rules are tried in their order, and the first
// that answers wins.
type Rule struct {
	// Method is a name, or the beginning of names if it ends with an asterisk.
	Method string
	// When, unless nil, says which calls of the method the rule is for.
	When func(Call) bool
	// Delay passes before the rule, or the node, answers.
	Delay time.Duration
	// Answer, unless nil, says what to answer; nil passes the call on.
	Answer func(Call) *Answer
	// Change, unless nil, changes the result that the node gave.
	Change func(Call, json.RawMessage) json.RawMessage
}

// Status answers with an HTTP status, as gateways do.
func Status(method string, status int) Rule {
	return Rule{Method: method, Answer: func(Call) *Answer {
		return &Answer{Status: status, Body: http.StatusText(status) + "\n"}
	}}
}

// Refuse answers with an error of JSON-RPC.
func Refuse(method string, code int, message string) Rule {
	return Rule{Method: method, Answer: func(Call) *Answer { return &Answer{Error: &Error{code, message}} }}
}

// Missing answers as a node does that does not offer the Ethereum method.
func Missing(method string) Rule {
	return Rule{Method: method, Answer: func(c Call) *Answer {
		return &Answer{Error: &Error{-32601, fmt.Sprintf("the method %s does not exist/is not available", c.Method)}}
	}}
}

// Null answers with null.
func Null(method string) Rule { return result(method, "null") }

// Empty answers with an empty list.
func Empty(method string) Rule { return result(method, "[]") }

func result(method, text string) Rule {
	return Rule{Method: method, Answer: func(Call) *Answer { return &Answer{Result: json.RawMessage(text)} }}
}

// Height answers with another height: in hexadecimal for Ethereum methods, and as the
// "height" of an object for all others.
func Height(method string, height uint64) Rule {
	text := fmt.Sprintf(`{"height":"%d"}`, height)
	if strings.Contains(method, "_") {
		text = fmt.Sprintf(`"0x%x"`, height)
	}
	return result(method, text)
}

// Delay lets time pass before the node is asked.
func Delay(method string, d time.Duration) Rule { return Rule{Method: method, Delay: d} }

// Range passes on calls of eth_getLogs for at most n blocks, and refuses all others.
func Range(n uint64) Rule {
	return Rule{Method: "eth_getLogs", Answer: func(c Call) *Answer {
		var params []struct{ FromBlock, ToBlock string }
		if json.Unmarshal(c.Params, &params) == nil && len(params) == 1 {
			from, fromErr := strconv.ParseUint(params[0].FromBlock, 0, 64)
			to, toErr := strconv.ParseUint(params[0].ToBlock, 0, 64)
			if fromErr == nil && toErr == nil && to-from < n {
				return nil
			}
		}
		return &Answer{Error: &Error{-32600, fmt.Sprintf("block range is limited to %d blocks", n)}}
	}}
}

// Public returns the rules of a public provider: no WebSockets, no index, admin, health or
// debug APIs, only what wallets and dApps need of the info and P-Chain APIs, logs of at most 10
// blocks, and 20 calls a second.
func Public() []Rule {
	below := func(prefix string) Rule {
		r := Status("*", http.StatusNotFound)
		r.When = func(c Call) bool { return strings.HasPrefix(c.Path, prefix) }
		return r
	}
	rules := []Rule{Status(http.MethodGet, http.StatusForbidden), Limit("*", 20), below("/ext/index"), below("/ext/admin"), below("/ext/health")}
	for _, method := range []string{"debug_*", "txpool_*", "admin_*"} {
		rules = append(rules, Missing(method))
	}
	for _, method := range []string{
		"platform.getAllValidatorsAt", "platform.getRewardUTXOs", "info.getNodeID", "info.getNodeIP", "info.uptime",
		"index.*", "admin.*", "health.*",
	} {
		rules = append(rules, Status(method, http.StatusForbidden))
	}
	return append(rules, Range(10))
}

// Limit passes perSecond calls on in each second of the clock, and answers the others with
// status 429.
func Limit(method string, perSecond int) Rule {
	var mu sync.Mutex
	var second int64
	var calls int
	return Rule{Method: method, Answer: func(Call) *Answer {
		mu.Lock()
		defer mu.Unlock()
		if now := time.Now().Unix(); now != second {
			second, calls = now, 0
		}
		if calls++; calls <= perSecond {
			return nil
		}
		return &Answer{Status: http.StatusTooManyRequests, Header: http.Header{"Retry-After": {"1"}}, Body: "too many requests\n"}
	}}
}

// First limits a rule to the first n calls that it is for.
func First(n int, r Rule) Rule {
	var mu sync.Mutex
	when := r.When
	r.When = func(c Call) bool {
		if when != nil && !when(c) {
			return false
		}
		mu.Lock()
		defer mu.Unlock()
		n--
		return n >= 0
	}
	return r
}

// Below limits a rule to calls whose first parameter is the number of a block below
// height, in hexadecimal.
func Below(height uint64, r Rule) Rule {
	when := r.When
	r.When = func(c Call) bool {
		var params []json.RawMessage
		var text string
		if json.Unmarshal(c.Params, &params) != nil || len(params) == 0 || json.Unmarshal(params[0], &text) != nil {
			return false
		}
		number, err := strconv.ParseUint(text, 0, 64)
		return err == nil && number < height && (when == nil || when(c))
	}
	return r
}

// Proxy is a running proxy.
type Proxy struct {
	// URL is its base URL.
	URL string

	node    *url.URL
	through *httputil.ReverseProxy

	mu    sync.Mutex
	rules []Rule
	calls map[string]int // by method
}

// Start starts a proxy before the node at a base URL. It ends with the test.
func Start(t testing.TB, node string, rules ...Rule) *Proxy {
	t.Helper()
	target, err := url.Parse(node)
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{node: target, rules: rules, calls: make(map[string]int)}
	p.through = &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Host = target.Host
		},
		ErrorLog: log.New(io.Discard, "", 0), // the client sees the status
	}
	server := httptest.NewServer(p)
	t.Cleanup(server.Close)
	p.URL = server.URL
	return p
}

// Set replaces the rules.
func (p *Proxy) Set(rules ...Rule) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rules = rules
}

// Calls returns the number of calls of a method so far, answered or passed on.
func (p *Proxy) Calls(method string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.calls[method]
}

// Total returns the number of all calls so far.
func (p *Proxy) Total() (sum int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, calls := range p.calls {
		sum += calls
	}
	return sum
}

// request is one call as it is on the wire.
type request struct {
	Version json.RawMessage `json:"jsonrpc,omitempty"`
	ID      json.RawMessage `json:"id,omitempty"`
	Method  string          `json:"method"`
	Params  json.RawMessage `json:"params,omitempty"`
}

type response struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   *Error          `json:"error,omitempty"`
}

// ServeHTTP answers calls of JSON-RPC, alone and in batches, and passes all else on. Another
// request than POST, such as a WebSocket's, is a call of the method GET.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		if answer, _ := p.decide(r.Context(), Call{Path: r.URL.Path, Method: r.Method}); answer != nil {
			write(w, nil, answer)
			return
		}
		p.through.ServeHTTP(w, r)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	pass := func() {
		r.Body = io.NopCloser(bytes.NewReader(body))
		p.through.ServeHTTP(w, r)
	}
	var batch []request
	if json.Unmarshal(body, &batch) == nil {
		p.serveBatch(w, r, batch)
		return
	}
	var one request
	if json.Unmarshal(body, &one) != nil {
		pass()
		return
	}
	call := Call{r.URL.Path, one.Method, one.Params}
	answer, change := p.decide(r.Context(), call)
	switch {
	case answer == nil && change == nil:
		pass()
	case answer == nil:
		reply, failed := p.ask(r, one, change)
		write(w, reply, failed)
	default:
		write(w, one.reply(answer), answer)
	}
}

// serveBatch answers the calls one by one. An HTTP status for one of them is that of the
// whole response.
func (p *Proxy) serveBatch(w http.ResponseWriter, r *http.Request, batch []request) {
	replies := make([]json.RawMessage, 0, len(batch))
	for _, one := range batch {
		answer, change := p.decide(r.Context(), Call{r.URL.Path, one.Method, one.Params})
		var reply json.RawMessage
		if answer == nil {
			reply, answer = p.ask(r, one, change)
		} else {
			reply = one.reply(answer)
		}
		if answer != nil && answer.Status != 0 {
			write(w, nil, answer)
			return
		}
		replies = append(replies, reply)
	}
	all, _ := json.Marshal(replies) // of valid JSON
	write(w, all, nil)
}

// decide returns a rule's answer, or none and the change to make to the node's.
func (p *Proxy) decide(ctx context.Context, c Call) (*Answer, func(json.RawMessage) json.RawMessage) {
	p.mu.Lock()
	p.calls[c.Method]++
	rules := p.rules
	p.mu.Unlock()
	for _, rule := range rules {
		prefix, wild := strings.CutSuffix(rule.Method, "*")
		if rule.Method != c.Method && !(wild && strings.HasPrefix(c.Method, prefix)) || rule.When != nil && !rule.When(c) {
			continue
		}
		select {
		case <-time.After(rule.Delay):
		case <-ctx.Done():
		}
		if rule.Answer != nil {
			if answer := rule.Answer(c); answer != nil {
				return answer, nil
			}
		}
		if rule.Change != nil {
			return nil, func(result json.RawMessage) json.RawMessage { return rule.Change(c, result) }
		}
	}
	return nil, nil
}

// ask asks the node. What is not JSON-RPC becomes an Answer with its status.
func (p *Proxy) ask(r *http.Request, one request, change func(json.RawMessage) json.RawMessage) (json.RawMessage, *Answer) {
	failed := func(err error) (json.RawMessage, *Answer) {
		return nil, &Answer{Status: http.StatusBadGateway, Body: err.Error()}
	}
	body, err := json.Marshal(one)
	if err != nil {
		return failed(err)
	}
	out, err := http.NewRequestWithContext(r.Context(), http.MethodPost, p.node.JoinPath(r.URL.Path).String(), bytes.NewReader(body))
	if err != nil {
		return failed(err)
	}
	out.Header.Set("Content-Type", "application/json")
	in, err := http.DefaultClient.Do(out)
	if err != nil {
		return failed(err)
	}
	defer func() { _ = in.Body.Close() }()
	content, err := io.ReadAll(in.Body)
	if err != nil {
		return failed(err)
	}
	var reply response
	if json.Unmarshal(content, &reply) != nil {
		return nil, &Answer{Status: in.StatusCode, Body: string(content)}
	}
	if change == nil || reply.Error != nil {
		return content, nil
	}
	return one.reply(&Answer{Result: change(reply.Result)}), nil
}

func (one request) reply(a *Answer) json.RawMessage {
	content, _ := json.Marshal(response{"2.0", one.ID, a.Result, a.Error}) // of valid JSON
	return content
}

func write(w http.ResponseWriter, reply json.RawMessage, a *Answer) {
	if a == nil || a.Status == 0 {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(reply)
		return
	}
	for name, values := range a.Header {
		w.Header()[name] = values
	}
	w.WriteHeader(a.Status)
	_, _ = io.WriteString(w, a.Body)
}
