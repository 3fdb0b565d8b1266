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
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/constants"
	"github.com/ava-labs/avalanchego/utils/formatting/address"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp/payload"

	"quorate/bench/rig"
	"quorate/internal/simnet"
	"quorate/internal/simnet/history"
)

// target is the service with a simulated network.
type target struct {
	network *simnet.Network
	nodes   []*slowNode
	service *rig.Service
	owner   string // an address with many outputs

	mu       sync.Mutex
	clients  map[string]*http.Client // by source address; guarded by mu
	statuses map[int]int             // of the attack's requests, by status; guarded by mu
	heights  uint64                  // P-Chain heights that were named so far; guarded by mu
}

// Statuses of requests without a response: the attack ended first, or the connection broke.
const (
	unanswered = -1
	broken     = 0
)

// request is a request to one of the service's addresses.
type request struct {
	from    string // source address
	private bool
	method  string // POST if there is a body, else GET
	path    string
	body    []byte
	headers []string // pairs
	close   bool     // the connection afterwards
}

const (
	signPath = "/v1/signatureAggregator/" + rig.NetworkName + "/aggregateSignatures"
	// honestFrom and attackFrom are source addresses, all of them of this machine.
	honestFrom = "127.0.0.1"
	attackFrom = "127.0.0.2"
	// honestEvery is the time between two honest requests.
	honestEvery = 100 * time.Millisecond
	// timeout of a request.
	timeout = 15 * time.Second
)

// newTarget starts, in a folder of the given name, the network with a history of a number of transactions, and the service.
func newTarget(ctx context.Context, r *rig.Run, name string, a attack, transactions int) (_ *target, err error) {
	t := &target{clients: make(map[string]*http.Client)}
	defer func() {
		if err != nil {
			t.close()
		}
	}()
	past := rig.HistoryOptions(r.Seed, transactions)
	if t.network, err = simnet.Start(simnet.Options{Seed: r.Seed, Validators: 20, History: &simnet.History{Options: past, Dir: r.Dir}}); err != nil {
		return nil, err
	}
	generator, err := history.New(past)
	if err != nil {
		return nil, err
	}
	busy, _ := generator.Busy()
	if t.owner, err = address.FormatBech32(constants.GetHRP(generator.NetworkID()), busy[:]); err != nil {
		return nil, err
	}
	var urls []string
	for range 2 {
		n, err := startNode(t.network.NodeURL())
		if err != nil {
			return nil, err
		}
		t.nodes = append(t.nodes, n)
		urls = append(urls, n.url)
	}
	settings := fmt.Sprintf("networks:\n  %s:\n    nodes: [%s]\n    allow_private_ips: true\n    record: %s\n    ahead_rounds: 0\n",
		rig.NetworkName, strings.Join(urls, ", "), cmp.Or(a.record, "l1"))
	if t.service, err = r.StartService(ctx, name, settings); err != nil {
		return nil, err
	}
	// The first answer to the honest client shows that everything is ready.
	return t, t.service.Await(ctx, func(ctx context.Context) error {
		status, content, err := t.do(ctx, a.honest(t, 0))
		if err != nil {
			return err
		}
		return answered(status, content)
	})
}

// answered returns an error unless a response of the service, to a JSON-RPC call too, is a success.
func answered(status int, content []byte) error {
	var body struct{ Error json.RawMessage }
	err := json.Unmarshal(content, &body)
	if status != http.StatusOK || err != nil || len(body.Error) > 0 && string(body.Error) != "null" {
		return fmt.Errorf("an honest request is answered %d: %.200s", status, content)
	}
	return nil
}

func (t *target) close() {
	if t.service != nil {
		_ = t.service.Stop(syscall.SIGKILL)
	}
	for _, c := range t.clients {
		c.CloseIdleConnections()
	}
	for _, n := range t.nodes {
		n.close()
	}
	if t.network != nil {
		t.network.Close()
	}
}

// client returns the HTTP client of a source address.
func (t *target) client(from string) *http.Client {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.clients[from] == nil {
		t.clients[from] = &http.Client{
			Transport: &http.Transport{DialContext: dialer(from).DialContext, MaxIdleConnsPerHost: 256}, Timeout: timeout,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}
	}
	return t.clients[from]
}

func dialer(from string) *net.Dialer {
	return &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: timeout}
}

// do makes a request and returns the status and the body of the response.
func (t *target) do(ctx context.Context, q request) (status int, content []byte, err error) {
	address, method := t.service.Public, cmp.Or(q.method, http.MethodGet)
	if q.private {
		address = t.service.Private
	}
	if q.method == "" && q.body != nil {
		method = http.MethodPost
	}
	r, err := http.NewRequestWithContext(ctx, method, "http://"+address+q.path, bytes.NewReader(q.body))
	if err != nil {
		return 0, nil, err
	}
	r.Close = q.close
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(q.headers); i += 2 {
		r.Header.Set(q.headers[i], q.headers[i+1])
	}
	response, err := t.client(q.from).Do(r)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = response.Body.Close() }()
	content, err = io.ReadAll(io.LimitReader(response.Body, 16<<20))
	return response.StatusCode, content, err
}

// attack makes a request and counts its status.
func (t *target) attack(ctx context.Context, q request) (status int, content []byte) {
	q.from = cmp.Or(q.from, attackFrom)
	status, content, err := t.do(ctx, q)
	switch {
	case err != nil && ctx.Err() != nil: // the attack is over
		status = unanswered
	case err != nil:
		status = broken
	}
	t.count(status)
	return status, content
}

func (t *target) count(status int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.statuses[status]++
}

// repeat calls one from a number of goroutines until ctx ends.
func repeat(ctx context.Context, number int, one func(ctx context.Context, worker, turn int)) error {
	var all sync.WaitGroup
	for worker := range number {
		all.Go(func() {
			for turn := 0; ctx.Err() == nil; turn++ {
				one(ctx, worker, turn)
			}
		})
	}
	all.Wait()
	return nil
}

// measurement is what one phase showed.
type measurement struct {
	requests, failed int
	responses        int // of the attack's requests
	statuses         string
	calls, most      int64
	cpu              time.Duration
	honest           []time.Duration // of successful requests
}

// during runs an attack for a while, beside honest requests at a fixed rate.
func (t *target) during(ctx context.Context, d time.Duration, a attack, run func(context.Context, *target) error) (m measurement, err error) {
	t.mu.Lock()
	t.statuses = make(map[int]int)
	t.mu.Unlock()
	calls := int64(0)
	for _, n := range t.nodes {
		calls -= n.calls.Load()
		n.most.Store(n.now.Load())
	}
	cpu := t.service.CPU()
	attacking, end := context.WithTimeout(ctx, d)
	defer end()
	attacked := make(chan error, 1)
	go func() { attacked <- run(attacking, t) }() // ends with its context
	var mu sync.Mutex
	var honest sync.WaitGroup
	for n := 1; rig.Pause(attacking, honestEvery); n++ {
		honest.Go(func() {
			begun := time.Now()
			status, content, err := t.do(ctx, a.honest(t, n))
			took := time.Since(begun)
			mu.Lock()
			defer mu.Unlock()
			if err != nil || answered(status, content) != nil {
				m.failed++
				return
			}
			m.honest = append(m.honest, took)
		})
	}
	honest.Wait()
	err = errors.Join(<-attacked, ctx.Err())
	m.cpu = t.service.CPU() - cpu
	for _, n := range t.nodes {
		calls += n.calls.Load()
		m.most += n.most.Load()
	}
	m.calls = calls
	t.mu.Lock()
	defer t.mu.Unlock()
	var texts []string
	for _, status := range slices.Sorted(maps.Keys(t.statuses)) {
		m.requests += t.statuses[status]
		if status > 0 {
			m.responses += t.statuses[status]
		}
		name, ok := map[int]string{unanswered: "unanswered", broken: "broken"}[status]
		if !ok {
			name = strconv.Itoa(status)
		}
		texts = append(texts, fmt.Sprintf("%s: %d", name, t.statuses[status]))
	}
	m.statuses = strings.Join(texts, ", ")
	return m, err
}

// nextHeight returns a P-Chain height that was not named yet.
func (t *target) nextHeight() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.heights++
	return t.heights%(t.network.Height()-1) + 1
}

// unsigned returns an unsigned message in hex.
func (t *target) unsigned(chain ids.ID, content string) string {
	call, err := payload.NewAddressedCall(make([]byte, 20), []byte(content))
	if err != nil {
		panic(err) // a content of a few bytes always encodes
	}
	m, err := warp.NewUnsignedMessage(t.network.NetworkID(), chain, call.Bytes())
	if err != nil {
		panic(err) // likewise
	}
	return hex.EncodeToString(m.Bytes())
}

// signFresh is signAgain over a new connection.
func signFresh(t *target, n int) request {
	q := signAgain(t, n)
	q.close = true
	return q
}

// signAgain is a request for a message that is signed already.
func signAgain(t *target, _ int) request {
	return request{from: honestFrom, path: signPath, body: fmt.Appendf(nil, `{"message":"%s"}`, t.unsigned(t.network.Blockchain(), "honest"))}
}
