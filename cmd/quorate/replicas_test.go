package main

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"quorate/internal/chain/genesis"
	"quorate/internal/chain/pchain"
	"quorate/internal/config"
	"quorate/internal/index"
	"quorate/internal/index/l1"
	"quorate/internal/index/ledger"
	"quorate/internal/index/primary"
	"quorate/internal/node"
	"quorate/internal/simnet"
	"quorate/internal/simnet/history"
	"quorate/internal/store"
	"quorate/internal/store/storetest/pgserver"
)

// killsOfTest is a flag of the test binary: go test ./cmd/quorate -run TestReplicas -v -args -kills 100
var killsOfTest = flag.Int("kills", 10, "how often TestReplicas kills the replica that records")

// nearestRank is the smallest of the sorted values that a share q of them does not exceed.
func nearestRank(sorted []time.Duration, q float64) time.Duration {
	return sorted[max(int(math.Ceil(q*float64(len(sorted)))), 1)-1]
}

// asProgramEnv makes of this test's program the one that is tested.
const asProgramEnv = "TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgramEnv) == "" {
		os.Exit(m.Run())
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	code := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// replica is a process of several on one store.
type replica struct {
	name          string
	base, private string
	args          []string
	child         *exec.Cmd
	log           *lines
}

func newReplica(t *testing.T, name, place string, n *simnet.Network, more ...string) *replica {
	t.Helper()
	listen, private := freeAddress(t), freeAddress(t)
	r := &replica{name: name, base: "http://" + listen, private: "http://" + private, args: append([]string{
		"serve", "--listen", listen, "--private-listen", private, "--data-dir", t.TempDir(), "--store", place,
		"--allow-private-ips", "--record", "primary", "--network", "fuji=" + n.NodeURL(),
	}, more...)}
	r.begin(t)
	t.Cleanup(func() {
		if r.child != nil {
			_ = r.child.Process.Signal(syscall.SIGCONT) // a test that failed may have left it frozen
		}
		r.end(t, syscall.SIGINT)
	})
	return r
}

func (r *replica) begin(t *testing.T) {
	t.Helper()
	r.log = &lines{}
	r.child = exec.Command(os.Args[0], r.args...)
	r.child.Env = append(os.Environ(), asProgramEnv+"=1")
	r.child.Stdout, r.child.Stderr = r.log, r.log
	require.NoError(t, r.child.Start())
}

func (r *replica) await(t *testing.T) {
	t.Helper()
	require.Eventually(t, func() bool {
		status, _ := r.ask(t, r.private+"/readyz")
		return status == http.StatusOK
	}, 5*time.Minute, 50*time.Millisecond, "%s: %s", r.name, r.log)
}

// end ends the process with a signal and waits for it.
func (r *replica) end(t *testing.T, with os.Signal) {
	t.Helper()
	if r.child == nil {
		return
	}
	require.NoError(t, r.child.Process.Signal(with))
	err := r.child.Wait()
	if with == syscall.SIGINT {
		require.NoError(t, err, "%s: %s", r.name, r.log)
	}
	r.child = nil
}

// ask returns status 0 if there is no answer.
func (r *replica) ask(t *testing.T, url string) (status int, body string) {
	t.Helper()
	client := http.Client{Timeout: time.Minute}
	defer client.CloseIdleConnections()
	response, err := client.Get(url)
	if err != nil {
		return 0, err.Error()
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, err.Error()
	}
	return response.StatusCode, string(content)
}

// next is how far the replica says the P-Chain is indexed.
func (r *replica) next(t *testing.T, chain string) (next uint64) {
	t.Helper()
	status, body := r.ask(t, r.private+"/index")
	if status != http.StatusOK {
		return 0
	}
	var said struct {
		Networks map[string]map[string]struct{ Next uint64 }
	}
	require.NoError(t, json.Unmarshal([]byte(body), &said), body)
	return said.Networks["fuji"][chain].Next
}

// holds reports whether the replica has a lease.
func (r *replica) holds(t *testing.T, name string) bool {
	t.Helper()
	status, body := r.ask(t, r.private+"/metrics")
	if status != http.StatusOK {
		return false
	}
	return strings.Contains(body, fmt.Sprintf("quorate_lease_held{lease=%q} 1\n", name))
}

// cutter is a line to a server that can be cut.
type cutter struct {
	net.Listener
	to string

	mu    sync.Mutex
	cut   bool              // guarded by mu
	lines map[net.Conn]bool // guarded by mu
}

func newCutter(t *testing.T, to string) *cutter {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	c := &cutter{Listener: l, to: to, lines: make(map[net.Conn]bool)}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			running.Go(func() { c.pass(client) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		c.set(true)
		running.Wait()
	})
	return c
}

// set cuts all lines, or mends them.
func (c *cutter) set(cut bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cut = cut
	for line := range c.lines {
		if cut {
			_ = line.Close()
		}
	}
}

func (c *cutter) pass(client net.Conn) {
	server, err := net.Dial("tcp", c.to)
	if err != nil {
		_ = client.Close()
		return
	}
	c.mu.Lock()
	c.lines[client], c.lines[server] = true, true
	if c.cut {
		_, _ = client.Close(), server.Close()
	}
	c.mu.Unlock()
	back := make(chan struct{})
	go func() {
		defer close(back)
		_, _ = io.Copy(client, server)
		_ = client.Close()
	}()
	_, _ = io.Copy(server, client)
	_ = server.Close()
	<-back
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.lines, client)
	delete(c.lines, server)
}

// recordedFamilies returns the families whose rows depend on the chains alone, not on the process that indexes
// them or on its time.
func recordedFamilies() []store.Family {
	return slices.DeleteFunc(store.Families(), func(f store.Family) bool {
		return slices.Contains([]store.Family{
			store.FamilyMeta, store.FamilyCursor, store.FamilyOrder, store.FamilyMessage, store.FamilySignature,
			store.FamilySigned, store.FamilySignedKey,
			store.FamilyContainer, // says when it came to be kept
			store.FamilyVertex,    // as does this
		}, f)
	})
}

// contents are a hash of each family's rows.
func contents(t *testing.T, r store.Reader) map[string]string {
	t.Helper()
	all := make(map[string]string)
	for _, f := range recordedFamilies() {
		digest, rows := sha256.New(), 0
		for row, err := range store.Rows(t.Context(), r, f) {
			require.NoError(t, err)
			for _, part := range [][]byte{row.P, row.K, row.V} {
				_, _ = fmt.Fprintf(digest, "%d %x ", len(part), part)
			}
			rows++
		}
		all[f.String()] = fmt.Sprintf("%d rows, %x", rows, digest.Sum(nil)[:8])
	}
	return all
}

// undisturbed records the whole history in one go, in memory.
func undisturbed(t *testing.T, n *simnet.Network, until map[string]uint64) map[string]string {
	t.Helper()
	client, err := node.New(node.Options{Endpoints: []string{n.NodeURL()}})
	require.NoError(t, err)
	defer client.Close()
	first, err := client.BlockByHeight(t.Context(), 0)
	require.NoError(t, err)
	block, err := pchain.ParseBlock(first)
	require.NoError(t, err)
	g, err := genesis.Of(n.NetworkID(), block.ID)
	require.NoError(t, err)
	memory := store.NewMemory()
	chains, err := primary.New(primary.Options{
		NetworkID: n.NetworkID(), Node: client, Peers: history.Peer{Node: n.History()}, Store: memory, Genesis: g, Keep: config.Network{Record: config.RecordPrimary}.Keep(),
		Projections: []index.Projection[*pchain.Block]{l1.NewProjection(n.NetworkID())},
	})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- chains.Run(ctx) }()
	require.Eventually(t, func() bool {
		for chain, want := range until {
			if chains.Status()[chain].Next < want {
				return false
			}
		}
		return true
	}, 5*time.Minute, 50*time.Millisecond, "%+v", chains.Status())
	cancel()
	require.NoError(t, <-ended)
	// Rows that follow from several chains may lag.
	require.NoError(t, ledger.NewMatcher(memory, n.NetworkID(), nil).Settle(t.Context()))
	return contents(t, memory)
}

// TestReplicas has three processes share a store, and kills the one that records, freezes
// it, cuts it off, and restarts the server, while the chains grow.
func TestReplicas(t *testing.T) {
	if testing.Short() {
		t.Skip("kills replicas again and again")
	}
	kills := *killsOfTest
	server := pgserver.Run(t)
	n, err := simnet.Start(simnet.Options{Seed: 31, Validators: 4, History: &simnet.History{
		Options: history.Options{Txs: 2000, Record: true}, Dir: t.TempDir(),
	}})
	require.NoError(t, err)
	defer n.Close()
	place, err := server.Place(t.Context())
	require.NoError(t, err)
	line := newCutter(t, server.Address())
	u, err := url.Parse(place)
	require.NoError(t, err)
	u.Host = line.Addr().String()
	lease := fmt.Sprintf("index/%d", n.NetworkID())

	all := []*replica{newReplica(t, "one", place, n), newReplica(t, "two", place, n), newReplica(t, "three", u.String(), n)}
	for _, r := range all {
		r.await(t)
	}

	// A message that one replica signed is known to the others.
	shared := n.Message([]byte("shared"))
	sharedID := shared.ID()
	reader, err := store.OpenPostgres(t.Context(), store.PostgresOptions{URL: place})
	require.NoError(t, err)
	defer func() { require.NoError(t, reader.Close()) }()
	signed := make([]string, len(all))
	for i, r := range all {
		code, out, errOut := quorate(t, "", "sign", "--server", r.base, "--network", "fuji", fmt.Sprintf("%x", shared.Bytes()))
		require.Zero(t, code, errOut)
		if i == 0 {
			// The archive is written beside the answers, and has messages signed ahead as well.
			require.Eventually(t, func() bool {
				rows, err := reader.Scan(t.Context(), store.FamilyMessage, sharedID[:], nil, nil, store.Ascending, 1)
				return err == nil && len(rows) == 1
			}, 5*time.Minute, 20*time.Millisecond)
		}
		signed[i] = out
		require.Equal(t, signed[0], out)
	}
	require.Zero(t, n.Repeated(), "validators were asked again")

	// other is who records, and is not one of them.
	other := func(without *replica) *replica {
		var found *replica
		require.Eventually(t, func() bool {
			for _, r := range all {
				if r != without && r.child != nil && r.holds(t, lease) {
					found = r
					return true
				}
			}
			return false
		}, 5*time.Minute, 20*time.Millisecond, "no replica indexes")
		return found
	}
	holder := func() *replica { return other(nil) }
	enough := make(chan struct{})
	var growth sync.WaitGroup
	stop := sync.OnceFunc(func() {
		close(enough)
		growth.Wait()
	})
	defer stop()
	growth.Go(func() {
		for {
			if err := n.History().Grow(context.WithoutCancel(t.Context()), 5); err != nil {
				t.Error(err)
				return
			}
			select {
			case <-enough:
				return
			case <-time.After(100 * time.Millisecond):
			}
		}
	})
	// recovered waits until another one records, and one of them tells of more than was
	// indexed when it began to, and returns how long that took.
	recovered := func(without *replica, since time.Time) time.Duration {
		// Requests that were under way then have arrived by now.
		next, at := other(without), uint64(0)
		require.Eventually(t, func() bool {
			at = next.next(t, index.PChain)
			return at > 0
		}, 5*time.Minute, 20*time.Millisecond, "%s", next.log)
		last := all[2]
		if last == without {
			last = all[1]
		}
		require.Eventually(t, func() bool { return last.next(t, index.PChain) > at }, 5*time.Minute, 20*time.Millisecond, "%s", last.log)
		return time.Since(since)
	}

	random := rand.New(rand.NewPCG(7, 7))
	var took []time.Duration
	for range kills {
		r := holder()
		time.Sleep(time.Duration(random.Int64N(int64(time.Second))))
		since := time.Now()
		r.end(t, syscall.SIGKILL)
		took = append(took, recovered(r, since))
		r.begin(t)
	}
	slices.Sort(took)
	if len(took) > 0 {
		at := func(q float64) time.Duration { return nearestRank(took, q).Round(time.Millisecond) }
		t.Logf("indexing continued after %s (median), %s (p99 by nearest rank), %s at most, of %d kills", at(0.5), at(0.99), at(1), len(took))
	}

	// After a freeze longer than the lease's timeout it must not continue.
	r := holder()
	require.NoError(t, r.child.Process.Signal(syscall.SIGSTOP))
	t.Logf("after a freeze: %s", recovered(r, time.Now()).Round(time.Millisecond))
	require.NoError(t, r.child.Process.Signal(syscall.SIGCONT))

	// Cut off from the store.
	all[2].await(t)
	for _, r := range all[:2] {
		r.end(t, syscall.SIGKILL)
	}
	require.Equal(t, all[2].name, holder().name)
	for _, r := range all[:2] {
		r.begin(t)
		r.await(t)
	}
	line.set(true)
	t.Logf("after a cut: %s", recovered(all[2], time.Now()).Round(time.Millisecond))
	line.set(false)

	// The server restarts.
	server.Stop()
	time.Sleep(time.Second)
	require.NoError(t, server.Restart())
	t.Logf("after a restart of the server: %s", recovered(nil, time.Now()).Round(time.Millisecond))

	stop()
	until := map[string]uint64{
		index.PChain: n.History().Height(history.P) + 1, index.XChain: n.History().Height(history.X) + 1, index.CChain: n.History().Height(history.C) + 1,
	}
	for _, r := range all {
		r.await(t)
		for chain, want := range until {
			require.Eventually(t, func() bool { return r.next(t, chain) >= want }, 5*time.Minute, 50*time.Millisecond, "%s, chain %s at %d of %d: %s", r.name, chain, r.next(t, chain), want, r.log)
		}
	}
	s, err := store.OpenPostgres(t.Context(), store.PostgresOptions{URL: place})
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	want := undisturbed(t, n, until)
	// Rows that follow from several chains may take a while.
	require.EventuallyWithT(t, func(c *assert.CollectT) { require.Equal(c, want, contents(t, s)) }, 5*time.Minute, time.Second)

	// All answer alike, and page tokens of one are good with another.
	const path = "/v1/networks/fuji/delegators?pageSize=5"
	pages := func(begin int) (body string) {
		token := ""
		for i := begin; ; i++ {
			r := all[i%len(all)]
			status, page := r.ask(t, r.base+path+"&pageToken="+token)
			require.Equal(t, http.StatusOK, status, page)
			var said struct{ NextPageToken string }
			require.NoError(t, json.Unmarshal([]byte(page), &said))
			body += strings.ReplaceAll(page, said.NextPageToken, "")
			if token = said.NextPageToken; token == "" {
				return body
			}
		}
	}
	first := pages(0)
	require.Equal(t, first, pages(1))
	require.Equal(t, first, pages(2))

	for _, r := range all {
		r.end(t, syscall.SIGINT)
	}
	require.Equal(t, want, contents(t, s))
}

// TestRoles gives each of three processes a part of the work.
func TestRoles(t *testing.T) {
	server := pgserver.Run(t)
	n, err := simnet.Start(simnet.Options{Seed: 32, Validators: 4, History: &simnet.History{
		Options: history.Options{Txs: 300, Record: true}, Dir: t.TempDir(),
	}})
	require.NoError(t, err)
	defer n.Close()
	place, err := server.Place(t.Context())
	require.NoError(t, err)
	// The one that answers waits for the one that makes the records.
	api := newReplica(t, "api", place, n, "--role", "api")
	// One of them had API keys before the store was shared.
	before := t.TempDir()
	code, _, errOut := quorate(t, "", "keys", "add", "before", "--data-dir", before)
	require.Zero(t, code, errOut)
	sign := newReplica(t, "sign", place, n, "--role", "sign", "--data-dir", before)
	ingest := newReplica(t, "ingest", place, n, "--role", "ingest")
	for _, r := range []*replica{ingest, api, sign} {
		r.await(t)
	}
	const subnets = "/v1/networks/fuji/subnets"
	require.Eventually(t, func() bool {
		status, _ := api.ask(t, api.base+subnets)
		return status == http.StatusOK
	}, 5*time.Minute, 50*time.Millisecond, "%s", api.log)
	require.True(t, ingest.holds(t, fmt.Sprintf("index/%d", n.NetworkID())))
	for _, r := range []*replica{sign, ingest} {
		status, body := r.ask(t, r.base+subnets)
		require.Equal(t, http.StatusServiceUnavailable, status, body)
		require.Contains(t, body, "role api or all")
	}
	message := fmt.Sprintf("%x", n.Message([]byte("roles")).Bytes())
	code, _, errOut = quorate(t, "", "sign", "--server", sign.base, "--network", "fuji", message)
	require.Zero(t, code, errOut)
	for _, r := range []*replica{api, ingest} {
		code, _, errOut := quorate(t, "", "sign", "--server", r.base, "--network", "fuji", message)
		require.Equal(t, exitFailed, code)
		require.Contains(t, errOut, "role sign or all")
	}
	// API keys are in the store, for all.
	code, key, errOut := quorate(t, "", "keys", "add", "explorer", "--store", place)
	require.Zero(t, code, errOut)
	with := func(r *replica, key string) int {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.base+subnets, nil)
		require.NoError(t, err)
		request.Header.Set("x-data-api-key", strings.TrimSpace(key))
		response, err := http.DefaultClient.Do(request)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		return response.StatusCode
	}
	// One replica answers the request, and the other says that it is not its role.
	for key, want := range map[string][]int{key: {http.StatusOK, http.StatusServiceUnavailable}, "qk_nobody": {http.StatusUnauthorized, http.StatusUnauthorized}} {
		for i, r := range []*replica{api, sign} {
			require.Eventually(t, func() bool { return with(r, key) == want[i] }, time.Minute, 50*time.Millisecond, "%s: status %d", r.name, with(r, key))
		}
	}
	code, listed, errOut := quorate(t, "", "keys", "list", "--store", place)
	require.Zero(t, code, errOut)
	require.Contains(t, listed, "before")
	require.Contains(t, listed, "explorer")
	code, _, errOut = quorate(t, "", "keys", "revoke", "explorer", "--store", place)
	require.Zero(t, code, errOut)
	for _, r := range []*replica{api, sign} {
		require.Eventually(t, func() bool { return with(r, key) == http.StatusForbidden }, time.Minute, 50*time.Millisecond, "%s: status %d", r.name, with(r, key))
	}
	// Alone, a part of the work is of no use.
	code, _, errOut = quorate(t, "", "serve", "--role", "api", "--data-dir", filepath.Join(t.TempDir(), "x"), "--network", "fuji="+n.NodeURL())
	require.Equal(t, exitUsage, code)
	require.Contains(t, errOut, "store: postgres://")
}
