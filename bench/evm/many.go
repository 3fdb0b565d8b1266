package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"quorate/bench/rig"
	"quorate/handlers"
	"quorate/internal/cputime"
	"quorate/internal/simnet"
	"quorate/internal/simnet/evmchain"
)

// manyReady is what the simulated network tells when its chains are made.
type manyReady struct {
	// Network is the base URL of the network's node, EVM that of the chains.
	Network, EVM string
	Chains       []nodeReady
}

// manyOrder asks the simulated network to let chains grow; the answer is what was asked
// of it so far and where the chains are.
type manyOrder struct {
	// Long is how many transactions the first chain grows by, Others how many all others.
	Long, Others int
}

// manyAnswer is explained at manyOrder.
type manyAnswer struct {
	Tips []uint64
	// Heights, Logs and Rest are requests for the tip, for logs, and of other kinds.
	Heights, Logs, Rest uint64
	CPU                 time.Duration
}

// asked counts requests by their kind.
type asked struct{ heights, logs, rest atomic.Uint64 }

func (a *asked) count(body []byte) {
	switch {
	case bytes.Contains(body, []byte(`"eth_getLogs"`)):
		a.logs.Add(1)
	case bytes.HasPrefix(body, []byte("{")) && bytes.Contains(body, []byte(`"eth_blockNumber"`)):
		a.heights.Add(1)
	default:
		a.rest.Add(1)
	}
}

// runMany is a simulated network with many EVM chains until standard input ends.
func runMany(t task) (err error) {
	o := simnet.Options{Seed: t.Seed, Validators: 1, NetworkID: networkID}
	for range t.Chains {
		o.EVM = append(o.EVM, simnet.EVM{Options: evmchain.Options{L1: true, Txs: t.Txs}, Dir: t.Dir})
	}
	network, err := simnet.Start(o)
	if err != nil {
		return err
	}
	defer network.Close()
	ready := manyReady{Network: network.NodeURL()}
	counts, byPath := new(asked), make(map[string]*evmchain.Node)
	for _, n := range network.EVM() {
		id := n.Generator().BlockchainID()
		byPath[id.String()] = n
		ready.Chains = append(ready.Chains, nodeReady{ChainID: n.Generator().ChainID(), BlockchainID: id, Tip: n.Tip(), Txs: n.Txs()})
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	ready.EVM = "http://" + listener.Addr().String()
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/ext/bc/"), "/")
		n := byPath[name]
		if n == nil {
			http.NotFound(w, r)
			return
		}
		if r.Method == http.MethodPost {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				return
			}
			counts.count(body)
			r.Body = io.NopCloser(bytes.NewReader(body))
		}
		n.ServeHTTP(w, r)
	})}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(listener) // until it is closed
	}()
	defer func() {
		_ = server.Close()
		<-served
	}()
	out, in := json.NewEncoder(os.Stdout), json.NewDecoder(os.Stdin)
	if err := out.Encode(ready); err != nil {
		return err
	}
	for {
		var order manyOrder
		if err := in.Decode(&order); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		answer := manyAnswer{Heights: counts.heights.Load(), Logs: counts.logs.Load(), Rest: counts.rest.Load(), CPU: cputime.Used()}
		for i, n := range network.EVM() {
			more := order.Others
			if i == 0 {
				more = order.Long
			}
			if more > 0 {
				if err := n.Grow(context.Background(), more); err != nil {
					return err
				}
			}
			answer.Tips = append(answer.Tips, n.Tip())
		}
		if err := out.Encode(answer); err != nil {
			return err
		}
	}
}

// manyService is the service, a process of its own.
type manyService struct {
	*rig.Process

	public, private string
	client          *http.Client
}

// startMany starts the service on the chains, with files in dir.
func startMany(binary, dir string, from manyReady, memory string) (*manyService, error) {
	s := &manyService{client: &http.Client{Timeout: 30 * time.Second}}
	var err error
	if s.public, s.private, err = rig.Addresses(); err != nil {
		return nil, err
	}
	text := fmt.Appendf(nil, "listen: %s\nprivate_listen: %s\ndata_dir: %s\nmemory_limit: %s\nlog_level: warn\nnetworks:\n  local:\n    nodes: [%s]\n    allow_private_ips: true\n    evm:\n",
		s.public, s.private, filepath.Join(dir, "data"), memory, from.Network)
	for _, c := range from.Chains {
		text = fmt.Appendf(text, "      - rpc: %s/ext/bc/%s/rpc\n", from.EVM, c.BlockchainID)
	}
	config := filepath.Join(dir, "quorate.yaml")
	if err := os.WriteFile(config, text, 0o600); err != nil {
		return nil, err
	}
	if s.Process, err = rig.Run(filepath.Join(dir, "quorate.log"), binary, "serve", "--config", config); err != nil {
		return nil, err
	}
	return s, nil
}

func (s *manyService) stop() {
	_ = s.Stop(syscall.SIGTERM)
	s.client.CloseIdleConnections()
}

// get asks and reads the answer; ok says that it was a success.
func (s *manyService) get(ctx context.Context, url string) (body []byte, ok bool, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+url, nil)
	if err != nil {
		return nil, false, err
	}
	response, err := s.client.Do(request)
	if err != nil {
		return nil, false, err
	}
	defer func() { _ = response.Body.Close() }()
	body, err = io.ReadAll(response.Body)
	return body, response.StatusCode == http.StatusOK, err
}

// heights are the first that are not recorded yet, of the chains that are known.
func (s *manyService) heights(ctx context.Context) (map[uint64]uint64, error) {
	body, ok, err := s.get(ctx, s.private+"/index")
	if err != nil || !ok {
		select {
		case <-s.Exited:
			return nil, fmt.Errorf("the service has ended: %s", s.LogTail())
		default:
		}
		return nil, ctx.Err() // it is only starting
	}
	var status handlers.IndexStatus
	if err := json.Unmarshal(body, &status); err != nil {
		return nil, err
	}
	next := make(map[uint64]uint64)
	for _, chains := range status.Networks {
		for name, c := range chains {
			if id, err := strconv.ParseUint(strings.TrimPrefix(name, "evm-"), 10, 64); err == nil {
				next[id] = c.Next
			}
		}
	}
	return next, nil
}

// state is what the service's process is at the moment.
type processState struct {
	goroutines, files int
	// resident and most are bytes of memory, now and at most so far.
	resident, most float64
}

func (s *manyService) state(ctx context.Context) (p processState, err error) {
	body, ok, err := s.get(ctx, s.private+"/metrics")
	if err != nil || !ok {
		return p, errors.Join(err, errors.New("no metrics"))
	}
	for line := range strings.Lines(string(body)) {
		if text, is := strings.CutPrefix(line, "go_goroutines "); is {
			if p.goroutines, err = strconv.Atoi(strings.TrimSpace(text)); err != nil {
				return p, err
			}
		}
	}
	open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", s.PID()))
	if err != nil {
		return p, err
	}
	p.files = len(open)
	p.resident, p.most = rig.Memory(s.PID())
	return p, nil
}

// pages asks for pages of transactions of the chains, one every 20 ms, until ctx ends.
// Those that a chain has none for yet do not count.
func (s *manyService) pages(ctx context.Context, chains []nodeReady) []time.Duration {
	var all []time.Duration
	var mu sync.Mutex
	var asking sync.WaitGroup
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for free := make(chan struct{}, 16); ; {
		select {
		case <-ctx.Done():
			asking.Wait()
			return all
		case due := <-ticker.C:
			free <- struct{}{}
			asking.Go(func() {
				defer func() { <-free }()
				url := fmt.Sprintf("%s/v1/chains/%d/transactions?pageSize=25", s.public, chains[rand.IntN(len(chains))].ChainID)
				if _, ok, err := s.get(context.WithoutCancel(ctx), url); err == nil && ok {
					mu.Lock()
					all = append(all, time.Since(due))
					mu.Unlock()
				}
			})
		}
	}
}

// many are the figures of one number of chains.
type many struct {
	Chains, Txs int
	// First and Last are when the first and the last chain had all blocks.
	First, Last time.Duration
	// CPU and NodeCPU are processor time of a transaction.
	CPU, NodeCPU time.Duration
	Most         float64 // bytes resident
	Pages        rig.Summary
	// Of a second in which nothing happens, and what there is then.
	IdleCPU                             time.Duration
	IdleHeights, IdleLogs, IdleRest     float64
	IdleGoroutines, IdleFiles, IdleSize float64
	// Current is how long it took until all chains but the first had a block, while the
	// first one caught up; nothing if there is but one.
	Current rig.Summary
}

// measureMany records chains by the service and watches it.
func measureMany(ctx context.Context, t task, binary, memory string, idle time.Duration) (m many, err error) {
	dir, err := os.MkdirTemp(t.Dir, "many-")
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	t.Role, t.Dir = roleMany, dir
	node, err := rig.Start(ctx, taskEnv, t)
	if err != nil {
		return m, err
	}
	defer node.Stop()
	var ready manyReady
	if err := node.Read(&ready); err != nil {
		return m, fmt.Errorf("making the chains: %w", err)
	}
	var before, after manyAnswer
	if err := node.Ask(manyOrder{}, &before); err != nil {
		return m, err
	}
	begun := time.Now()
	s, err := startMany(binary, dir, ready, memory)
	if err != nil {
		return m, err
	}
	defer s.stop()
	reading, stopReading := context.WithCancel(ctx)
	defer stopReading()
	read := make(chan []time.Duration, 1)
	go func() { read <- s.pages(reading, ready.Chains) }() // until reading ends, below
	m.Chains = len(ready.Chains)
	for _, c := range ready.Chains {
		m.Txs += c.Txs
	}
	if err := s.until(ctx, ready, before.Tips, 0, func(i int, took time.Duration) {
		if m.First == 0 {
			m.First = took
		}
	}); err != nil {
		return m, err
	}
	m.Last = time.Since(begun)
	if err := node.Ask(manyOrder{}, &after); err != nil {
		return m, err
	}
	m.CPU, m.NodeCPU = rig.CPUTime(s.PID())/time.Duration(m.Txs), (after.CPU-before.CPU)/time.Duration(m.Txs)
	stopReading()
	if all := <-read; len(all) > 0 {
		m.Pages = rig.Summarize(all)
	}
	if err := m.idle(ctx, node, s, idle); err != nil {
		return m, err
	}
	if m.Chains > 1 {
		if err := m.fairness(ctx, node, s, ready, t.Txs); err != nil {
			return m, err
		}
	}
	state, err := s.state(ctx)
	m.Most = state.most
	return m, err
}

// until waits until the chains from one on have all blocks up to their tips, and tells
// of each when it has.
func (s *manyService) until(ctx context.Context, ready manyReady, tips []uint64, from int, done func(i int, took time.Duration)) error {
	begun, left := time.Now(), make(map[int]bool)
	for i := from; i < len(tips); i++ {
		left[i] = true
	}
	for ticker := time.NewTicker(50 * time.Millisecond); len(left) > 0; {
		select {
		case <-ctx.Done():
			ticker.Stop()
			return ctx.Err()
		case <-ticker.C:
		}
		next, err := s.heights(ctx)
		if err != nil {
			ticker.Stop()
			return err
		}
		for i := range left {
			if next[ready.Chains[i].ChainID] > tips[i] {
				delete(left, i)
				done(i, time.Since(begun))
			}
		}
	}
	return nil
}

// idle measures a while in which nothing happens, after all has come to rest.
func (m *many) idle(ctx context.Context, node *rig.Child, s *manyService, long time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(long): // until nodes are asked as rarely as they ever are
	}
	var before, after manyAnswer
	if err := node.Ask(manyOrder{}, &before); err != nil {
		return err
	}
	begun, spent := time.Now(), rig.CPUTime(s.PID())
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(long):
	}
	spent = rig.CPUTime(s.PID()) - spent
	if err := node.Ask(manyOrder{}, &after); err != nil {
		return err
	}
	seconds := time.Since(begun).Seconds()
	m.IdleCPU = time.Duration(float64(spent) / seconds)
	m.IdleHeights, m.IdleLogs, m.IdleRest = float64(after.Heights-before.Heights)/seconds, float64(after.Logs-before.Logs)/seconds, float64(after.Rest-before.Rest)/seconds
	state, err := s.state(ctx)
	m.IdleGoroutines, m.IdleFiles, m.IdleSize = float64(state.goroutines), float64(state.files), state.resident
	return err
}

// fairness has the first chain grow by ten times what it has at once, and the others by
// a block or two again and again until it has caught up.
func (m *many) fairness(ctx context.Context, node *rig.Child, s *manyService, ready manyReady, txs int) error {
	var grown manyAnswer
	if err := node.Ask(manyOrder{Long: 10 * txs}, &grown); err != nil {
		return err
	}
	var all []time.Duration
	for {
		var tips manyAnswer
		if err := node.Ask(manyOrder{Others: 1}, &tips); err != nil {
			return err
		}
		var last time.Duration
		if err := s.until(ctx, ready, tips.Tips, 1, func(_ int, took time.Duration) { last = took }); err != nil {
			return err
		}
		next, err := s.heights(ctx)
		if err != nil {
			return err
		}
		all = append(all, last)
		if next[ready.Chains[0].ChainID] > grown.Tips[0] {
			m.Current = rig.Summarize(all)
			return nil
		}
	}
}

// runChains measures one chain and then many, with the same number of transactions.
func runChains(ctx context.Context, t task, binary, memory string, idle time.Duration, figures *rig.Log) (err error) {
	dir, err := os.MkdirTemp(t.Dir, "quorate-evm-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if binary == "" {
		if binary, err = rig.Build(ctx, dir); err != nil {
			return err
		}
	}
	fmt.Printf("load %s; the service with memory_limit %s, idle for %s\n\n", rig.Load(), memory, idle)
	fmt.Println("| chains | transactions | /s in all | CPU us each | of the node | first, last caught up s | most resident MB | page p50, p99 ms | idle: CPU ms/s | heights/s | logs/s | other requests/s | goroutines | files | resident MB | current after p50, worst ms |")
	fmt.Println("|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|")
	t.Dir = dir
	for _, chains := range slices.Compact([]int{1, t.Chains}) {
		one := t
		one.Chains, one.Txs = chains, t.Txs*t.Chains/chains
		m, err := measureMany(ctx, one, binary, memory, idle)
		if err != nil {
			return fmt.Errorf("%d chains: %w", chains, err)
		}
		const mega = 1e6
		fmt.Printf("| %d | %d | %.0f | %.1f | %.1f | %.1f, %.1f | %.0f | %.1f, %.1f | %.1f | %.1f | %.1f | %.1f | %.0f | %.0f | %.0f | %.0f, %.0f |\n",
			m.Chains, m.Txs, float64(m.Txs)/m.Last.Seconds(), float64(m.CPU.Nanoseconds())/1e3, float64(m.NodeCPU.Nanoseconds())/1e3,
			m.First.Seconds(), m.Last.Seconds(), m.Most/mega, rig.Milliseconds(m.Pages.P50), rig.Milliseconds(m.Pages.P99),
			rig.Milliseconds(m.IdleCPU), m.IdleHeights, m.IdleLogs, m.IdleRest, m.IdleGoroutines, m.IdleFiles, m.IdleSize/mega,
			rig.Milliseconds(m.Current.P50), rig.Milliseconds(m.Current.Worst))
		if err := figures.Add(map[string]string{"chains": strconv.Itoa(m.Chains), "transactions": strconv.Itoa(m.Txs)}, map[string]float64{
			"per_second": float64(m.Txs) / m.Last.Seconds(), "cpu_us": float64(m.CPU.Nanoseconds()) / 1e3,
			"first_s": m.First.Seconds(), "last_s": m.Last.Seconds(), "most_mb": m.Most / mega,
			"page_p50_ms": rig.Milliseconds(m.Pages.P50), "page_p99_ms": rig.Milliseconds(m.Pages.P99),
			"idle_cpu_ms": rig.Milliseconds(m.IdleCPU), "idle_heights": m.IdleHeights, "idle_logs": m.IdleLogs, "idle_rest": m.IdleRest,
			"idle_goroutines": m.IdleGoroutines, "idle_files": m.IdleFiles, "idle_mb": m.IdleSize / mega,
			"current_p50_ms": rig.Milliseconds(m.Current.P50), "current_worst_ms": rig.Milliseconds(m.Current.Worst),
		}); err != nil {
			return err
		}
	}
	return nil
}
