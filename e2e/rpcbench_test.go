package e2e

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/constants"
	"github.com/ava-labs/avalanchego/utils/formatting/address"
	"github.com/ava-labs/avalanchego/vms/platformvm"
	"github.com/ava-labs/avalanchego/wallet/subnet/primary"

	"quorate/e2e/localnet"
)

// turn is what came of asking one side for a while.
type turn struct {
	took, cpu time.Duration
	answers   []time.Duration
}

// cpuTime is what a process has used so far, user and system.
func cpuTime(t testing.TB, pid int) time.Duration {
	t.Helper()
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	require.NoError(t, err)
	_, after, _ := strings.Cut(string(content), ") ")
	fields := strings.Fields(after)
	var ticks int64
	for _, f := range fields[11:13] {
		n, err := strconv.ParseInt(f, 10, 64)
		require.NoError(t, err)
		ticks += n
	}
	return time.Duration(ticks) * time.Second / 100
}

// asked is a call whose parameters may depend on the number of the request.
type asked struct {
	path, method string
	params       func(number uint32) string
}

// take asks over connections of its own until the time is over.
func take(t testing.TB, ctx context.Context, pid, connections int, span time.Duration, base string, call asked) turn {
	t.Helper()
	var mu sync.Mutex
	var result turn
	var running sync.WaitGroup
	var count atomic.Uint32
	cpu, start := cpuTime(t, pid), time.Now()
	count.Store(uint32(start.UnixNano())) // no turn repeats another one's
	for range connections {
		running.Go(func() {
			answers, err := askUntil(ctx, start.Add(span), base, call, &count)
			if err != nil {
				t.Errorf("%s%s: %s: %v", base, call.path, call.method, err)
			}
			mu.Lock()
			defer mu.Unlock()
			result.answers = append(result.answers, answers...)
		})
	}
	running.Wait()
	result.took, result.cpu = time.Since(start), cpuTime(t, pid)-cpu
	return result
}

// askUntil asks again and again over a connection of its own, and reads the result of the first answer. It costs far less
// than http.Client, whose processor time would be that of most requests. Count counts the requests of all connections.
func askUntil(ctx context.Context, end time.Time, base string, call asked, count *atomic.Uint32) (answers []time.Duration, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, base+call.path, http.NoBody)
	if err != nil {
		return nil, err
	}
	connection, err := new(net.Dialer).DialContext(ctx, "tcp", request.URL.Host)
	if err != nil {
		return nil, err
	}
	defer func() { _ = connection.Close() }()
	var sent []byte
	received := bufio.NewReaderSize(connection, 64<<10)
	for time.Now().Before(end) {
		body := callBody(call.method, call.params(count.Add(1)))
		sent = fmt.Appendf(sent[:0], "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
			call.path, request.URL.Host, len(body), body)
		began := time.Now()
		if _, err := connection.Write(sent); err != nil {
			return answers, err
		}
		response, err := http.ReadResponse(received, request)
		if err != nil {
			return answers, err
		}
		if len(answers) == 0 {
			err = requireResult(response.Body)
		} else {
			err = requireNoError(response.Body)
		}
		_ = response.Body.Close()
		if err != nil {
			return answers, fmt.Errorf("%s: %w", body, err)
		}
		if response.StatusCode != http.StatusOK {
			return answers, errors.New(response.Status)
		}
		answers = append(answers, time.Since(began))
	}
	return answers, nil
}

// requireResult returns an error unless an answer has a result.
func requireResult(answer io.Reader) error {
	content, err := io.ReadAll(answer)
	if err != nil {
		return err
	}
	var reply struct{ Result, Error json.RawMessage }
	if err := json.Unmarshal(content, &reply); err != nil || len(reply.Result) == 0 || string(reply.Result) == "null" {
		return fmt.Errorf("an answer without result: %.300s", content)
	}
	return nil
}

// requireNoError reads an answer. It returns an error if the answer begins as one that failed does, which costs less than to
// parse a long result.
func requireNoError(answer io.Reader) error {
	var head [64]byte
	n, err := io.ReadFull(answer, head[:])
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return err
	}
	if bytes.Contains(head[:n], []byte(`"error":`)) {
		return fmt.Errorf("an answer without result: %s", head[:n])
	}
	_, err = io.Copy(io.Discard, answer)
	return err
}

// side is a node or the service.
type side struct {
	url  string
	pid  int
	turn // all of its turns together
}

func (s *side) rate() float64 { return float64(len(s.answers)) / s.took.Seconds() }

func (s *side) cpuEach() float64 { return s.cpu.Seconds() / float64(len(s.answers)) }

func (s *side) quantile(of int) float64 {
	slices.Sort(s.answers)
	return s.answers[(len(s.answers)-1)*of/100].Seconds()
}

// largeBlocks is the number of P-Chain blocks that are requested with each encoding. Their answers are more than twice the
// service's cache of 32 MiB.
const largeBlocks = 600

// growLarge adds blocks to the P-Chain, each with a transaction of 16 KiB, and returns the height of the first.
func (n *nodeAPI) growLarge(b *testing.B, ctx context.Context) (first uint64) {
	b.Helper()
	genesis := make([]byte, 16<<10)
	p := newPChain(b, ctx, n.node)
	subnet := p.accepted(p.wallet.IssueCreateSubnetTx(p.owner))
	first = p.height(ctx) + 1
	for i := range largeBlocks {
		if i%25 == 0 { // a wallet pays the price at its creation, and the price grows
			p = newPChainWith(b, ctx, n.node, primary.WalletConfig{SubnetIDs: []ids.ID{subnet}})
		}
		_, _ = rand.Read(genesis)
		p.accepted(p.wallet.IssueCreateChainTx(subnet, genesis, constants.XSVMID, nil, "large"))
	}
	require.GreaterOrEqual(b, p.height(ctx), first+largeBlocks-1)
	return first
}

// BenchmarkNodeAPI sends the same calls to a node and to the service, in turns, and reports the ratios of rates, times and
// processor time: for the same call again and again, and for calls with different arguments, to which the service has no
// answers in its caches. See bench/README.md.
func BenchmarkNodeAPI(b *testing.B) {
	ctx, cancel := testContext(b, 15*time.Minute)
	defer cancel()
	n := startNodeAPI(b, ctx, localnet.Options{}, nil)
	owners := strings.Join(n.addresses(b, "X")[len(n.keys)], `","`)
	validators, err := platformvm.NewClient(n.node).GetCurrentValidators(ctx, constants.PrimaryNetworkID, nil)
	require.NoError(b, err)
	containers := uint32(newPChain(b, ctx, n.node).height(ctx))
	run := func(call asked, first string) {
		b.Run(call.method+"/repeated", func(b *testing.B) {
			n.compareRates(b, ctx, asked{call.path, call.method, func(uint32) string { return first }})
		})
		b.Run(call.method+"/varied", func(b *testing.B) { n.compareRates(b, ctx, call) })
	}
	run(asked{"/ext/bc/P", "platform.getCurrentValidators", func(i uint32) string { // all validators, and a node that is none
		var all strings.Builder
		for _, v := range validators {
			all.WriteString(v.NodeID.String() + `","`)
		}
		other := ids.NodeID{1}
		binary.BigEndian.PutUint32(other[1:], i)
		return `{"nodeIDs":["` + all.String() + other.String() + `"]}`
	}}, "{}")
	run(asked{"/ext/bc/X", "avm.getUTXOs", func(i uint32) string { // the same owners, and an address that owns nothing
		unused, err := address.Format("X", constants.GetHRP(localnet.NetworkID), binary.BigEndian.AppendUint32(make([]byte, 16), i))
		if err != nil {
			panic(err) // the human-readable part is valid
		}
		return `{"addresses":["` + owners + `","` + unused + `"],"limit":1024}`
	}}, `{"addresses":["`+owners+`"],"limit":1024}`)
	run(asked{"/ext/index/P/block", "index.getContainerRange", func(i uint32) string {
		return fmt.Sprintf(`{"startIndex":%d,"numToFetch":%d}`, i%containers, 1024-i/containers%512)
	}}, `{"startIndex":0,"numToFetch":1024}`)
	first := n.growLarge(b, ctx)
	n.awaitRecord(b, ctx)
	run(asked{"/ext/bc/P", "platform.getBlockByHeight", func(i uint32) string {
		return fmt.Sprintf(`{"height":%d%s}`, first+uint64(i%largeBlocks), encodings[1+i/largeBlocks%4])
	}}, fmt.Sprintf(`{"height":%d,"encoding":"hex"}`, first))
}

// compareRates asks both sides in turns.
func (n *nodeAPI) compareRates(b *testing.B, ctx context.Context, call asked) {
	b.Helper()
	const (
		connections = 16
		turns       = 6 // of each
		span        = time.Second
	)
	var node, service side
	node.url, node.pid = n.node, n.network.PID(0)
	service.url, service.pid = n.service.url, n.service.process.Process.Pid
	for _, s := range []*side{&node, &service} {
		take(b, ctx, s.pid, connections, span/4, s.url, call)
	}
	for b.Loop() {
		for range turns {
			for _, s := range []*side{&node, &service} {
				t := take(b, ctx, s.pid, connections, span, s.url, call)
				s.took, s.cpu, s.answers = s.took+t.took, s.cpu+t.cpu, append(s.answers, t.answers...)
			}
		}
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(node.rate(), "node-req/s")
	b.ReportMetric(service.rate(), "service-req/s")
	b.ReportMetric(service.rate()/node.rate(), "x-rate")
	b.ReportMetric(service.quantile(50)/node.quantile(50), "x-p50")
	b.ReportMetric(service.quantile(99)/node.quantile(99), "x-p99")
	b.ReportMetric(service.cpuEach()/node.cpuEach(), "x-cpu")
}
