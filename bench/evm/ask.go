package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"time"

	"github.com/ava-labs/libevm/common"

	"quorate/bench/rig"
)

// asker asks over HTTP, by as little as HTTP takes, and is the server that it asks.
type asker struct {
	surface http.Handler
	address string
	// answers are those of the floor, by path and query: written before anything is
	// asked over HTTP.
	answers map[string]*answer

	mu   sync.Mutex
	idle []*rig.Conn // guarded by mu
}

// answer is one that the service gave.
type answer struct {
	header http.Header
	body   []byte
}

// underFloor begins the paths of what the floor answers.
const underFloor = "/floor"

// ServeHTTP lets the service answer, or the floor.
func (a *asker) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path, ok := strings.CutPrefix(r.RequestURI, underFloor)
	if !ok {
		a.surface.ServeHTTP(w, r)
		return
	}
	one := a.answers[path]
	if one == nil {
		http.NotFound(w, r)
		return
	}
	h := w.Header()
	for key, values := range one.header {
		h[key] = values
	}
	_, _ = w.Write(one.body) // fails only if the client is gone, which sees it
}

// dropped is a response that nobody reads.
type dropped struct {
	header http.Header
	status int
}

func (d *dropped) Header() http.Header         { return d.header }
func (d *dropped) Write(b []byte) (int, error) { return len(b), nil }
func (d *dropped) WriteHeader(status int)      { d.status = status }

// alone asks without a connection.
func (a *asker) alone(ctx context.Context, path string) error {
	w := &dropped{header: make(http.Header)}
	a.surface.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, path, nil))
	if w.status != http.StatusOK {
		return fmt.Errorf("%s: status %d", path, w.status)
	}
	return nil
}

// keep has the answer for the floor, and tells how long it took: nothing is in memory
// of what is asked for the first time.
func (a *asker) keep(path string) (time.Duration, error) {
	w := httptest.NewRecorder()
	begun := time.Now()
	a.surface.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	took := time.Since(begun)
	if w.Code != http.StatusOK {
		return 0, fmt.Errorf("%s: status %d: %.300s", path, w.Code, w.Body)
	}
	a.answers[path] = &answer{w.Header(), w.Body.Bytes()}
	return took, nil
}

func (a *asker) connect() (*rig.Conn, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if last := len(a.idle) - 1; last >= 0 {
		c := a.idle[last]
		a.idle = a.idle[:last]
		return c, nil
	}
	return rig.Dial(a.address)
}

func (a *asker) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, c := range a.idle {
		_ = c.Close()
	}
	a.idle = nil
}

// get asks and drops the answer, which must be a success.
func (a *asker) get(path string) error {
	c, err := a.connect()
	if err != nil {
		return err
	}
	if err := c.Get(path); err != nil {
		_ = c.Close()
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.idle = append(a.idle, c)
	return nil
}

// pathsOf is for how many things an operation is asked.
const pathsOf = 500

// requests are those of the Data API.
func (s *sample) requests(a *asker) (all []operation, err error) {
	const base = "/v1/chains/c-chain"
	rng := rand.New(rand.NewPCG(1, pathsOf))
	add := func(name, path string, from []common.Address) {
		var paths []string
		var first []time.Duration
		for range pathsOf {
			one := base + path
			if from != nil {
				one = fmt.Sprintf(one, pick(rng, from))
			}
			if a.answers[one] == nil {
				took, failed := a.keep(one)
				first, err = append(first, took), errors.Join(err, failed)
			}
			paths = append(paths, one)
		}
		all = append(all, operation{
			name:  "HTTP: " + name,
			first: rig.Summarize(first),
			ask:   func(_ context.Context, rng *rand.Rand) error { return a.get(pick(rng, paths)) },
			floor: func(_ context.Context, rng *rand.Rand) error { return a.get(underFloor + pick(rng, paths)) },
			alone: func(ctx context.Context, rng *rand.Rand) error { return a.alone(ctx, pick(rng, paths)) },
		})
	}
	add("latest transactions", "/transactions?pageSize=100", nil)
	add("internal transactions", "/addresses/%s/transactions:listInternals?pageSize=100", s.wallets)
	add("ERC-1155 transfers", "/addresses/%s/transactions:listErc1155?pageSize=100", s.wallets)
	add("ERC-1155 balances", "/addresses/%s/balances:listErc1155?pageSize=100", s.wallets)
	add("deployment transaction", "/contracts/%s/transactions:getDeployment", s.deployed)
	add("deployments", "/contracts/%s/deployments?pageSize=100", s.deployers)
	add("tokens of a collection", "/nfts/collections/%s/tokens?pageSize=100", s.collections)
	return all, err
}
