package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/indexer"
	"github.com/ava-labs/avalanchego/vms/platformvm"
	"github.com/ava-labs/avalanchego/wallet/subnet/primary/common"

	"quorate/e2e/localnet"
)

// The blocks that BenchmarkPChain makes, unless E2E_BLOCKS says otherwise.
const benchmarkBlocks = 300

// grown starts a network whose P-Chain has as many blocks.
func grown(b *testing.B, ctx context.Context, blocks uint64) *localnet.Network {
	b.Helper()
	network := localnet.Start(b)
	p := newPChain(b, ctx, network.Node(0).URL)
	began := time.Now()
	for p.height(ctx) < blocks {
		for range 50 {
			p.nudge(common.WithPollFrequency(2 * time.Millisecond))
		}
	}
	b.Logf("%d blocks made in %s", p.height(ctx), time.Since(began).Round(time.Second))
	return network
}

// cpu returns the processor time that the service has taken.
func (s *service) cpu() time.Duration {
	s.t.Helper()
	return cpuOf(s.t, s.process.Process.Pid)
}

// cpuOf returns the processor time that a process has taken.
func cpuOf(t testing.TB, pid int) time.Duration {
	t.Helper()
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	require.NoError(t, err)
	fields := strings.Fields(string(content[strings.LastIndexByte(string(content), ')')+1:]))
	var ticks int
	for _, field := range fields[11:13] { // utime and stime, in hundredths of a second (proc(5))
		n, err := strconv.Atoi(field)
		require.NoError(t, err)
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

// executing starts a service without nodes from the genesis, and returns how long it says that the blocks took.
func (s *service) executing(height uint64) time.Duration {
	s.t.Helper()
	s.dataDir = s.t.TempDir()
	s.start()
	defer s.stop()
	content, err := os.ReadFile(filepath.Join(s.dataDir, "output.log"))
	require.NoError(s.t, err)
	for line := range strings.Lines(string(content)) {
		var entry struct {
			Msg, Took string
			Height    uint64
		}
		if json.Unmarshal([]byte(line), &entry) == nil && entry.Msg == "downloaded and executed blocks of the P-Chain" && entry.Height == height {
			took, err := time.ParseDuration(entry.Took)
			require.NoError(s.t, err)
			return took
		}
	}
	s.t.Fatalf("the service did not say how long it took:\n%s", s.log())
	return 0
}

func median(of []float64) float64 {
	slices.Sort(of)
	return of[len(of)/2]
}

// BenchmarkPChain compares P-Chain blocks a second of local nodes: downloaded by P2P and executed, and only fetched from a
// node's HTTP API, one by one and as many at a time as it has.
func BenchmarkPChain(b *testing.B) {
	ctx, program := b.Context(), buildService(b)
	network := grown(b, ctx, uint64(wanted(b, "E2E_BLOCKS", benchmarkBlocks)))
	node := network.Node(0).URL
	client := platformvm.NewClient(node)
	height, err := client.GetHeight(ctx)
	require.NoError(b, err)
	peers := startWithoutNodes(b, ctx, program, network)
	peers.stop()
	rates := make(map[string][]float64)
	add := func(name string, took time.Duration) {
		rates[name] = append(rates[name], float64(height)/took.Seconds())
	}
	for b.Loop() {
		add("p2p-executed-blocks/s", peers.executing(height))
		began := time.Now()
		for h := range height {
			_, err := client.GetBlockByHeight(ctx, h+1)
			require.NoError(b, err)
		}
		add("http-one-by-one-blocks/s", time.Since(began))
		began = time.Now()
		index := indexer.NewClient(node + "/ext/index/P/block")
		for at := uint64(0); at < height; {
			containers, err := index.GetContainerRange(ctx, at, indexer.MaxFetchedByRange)
			require.NoError(b, err)
			at += uint64(len(containers))
		}
		add("http-ranges-blocks/s", time.Since(began))
	}
	for name, all := range rates {
		b.Logf("%s: %.0f", name, all)
		b.ReportMetric(median(all), name)
	}
	b.ReportMetric(0, "ns/op")
}

// counter passes connections on to validators and counts the bytes.
type counter struct{ in, out atomic.Int64 }

// to returns the address of a listener for an address.
func (c *counter) to(b *testing.B, address string) string {
	b.Helper()
	l, err := new(net.ListenConfig).Listen(b.Context(), "tcp", "127.0.0.1:0")
	require.NoError(b, err)
	b.Cleanup(func() { _ = l.Close() })
	go func() { // ends with the listener
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			go c.pass(client, address)
		}
	}()
	return l.Addr().String()
}

func (c *counter) pass(client net.Conn, address string) {
	server, err := net.Dial("tcp", address)
	if err != nil {
		_ = client.Close()
		return
	}
	var ends sync.WaitGroup
	forward := func(to, from net.Conn, count *atomic.Int64) {
		ends.Go(func() {
			defer func() { _ = to.Close() }()
			r := bufio.NewReader(from)
			for buffer := make([]byte, 1<<16); ; {
				n, err := r.Read(buffer)
				count.Add(int64(n))
				if _, failed := to.Write(buffer[:n]); failed != nil || err != nil {
					return
				}
			}
		})
	}
	forward(client, server, &c.in)
	forward(server, client, &c.out)
	ends.Wait()
}

// BenchmarkFollowing measures what following costs a service without nodes: bytes by P2P and processor time, while the
// P-Chain stands still and while it has a block a second. Nothing else is asked of the service.
func BenchmarkFollowing(b *testing.B) {
	ctx, program := b.Context(), buildService(b)
	network := localnet.Start(b)
	node := network.Node(0).URL
	c := new(counter)
	s := startWithPeers(b, ctx, program, network, withPeers{address: func(i int) string { return c.to(b, network.StakingAddress(i)) }})
	p := newPChain(b, ctx, node)
	period := time.Minute
	if text := os.Getenv("E2E_PERIOD"); text != "" {
		var err error
		period, err = time.ParseDuration(text)
		require.NoError(b, err)
	}
	for b.Loop() {
		for _, phase := range []struct {
			name   string
			blocks bool
		}{{"idle", false}, {"block-a-second", true}} {
			in, out, cpu, before := c.in.Load(), c.out.Load(), s.cpu(), p.height(ctx)
			began := time.Now()
			for tick := time.NewTicker(time.Second); time.Since(began) < period; {
				<-tick.C
				if phase.blocks {
					p.nudge()
				}
			}
			seconds := time.Since(began).Seconds()
			b.ReportMetric(float64(c.in.Load()-in)/seconds, phase.name+"-in-bytes/s")
			b.ReportMetric(float64(c.out.Load()-out)/seconds, phase.name+"-out-bytes/s")
			b.ReportMetric((s.cpu()-cpu).Seconds()/seconds*3600, phase.name+"-cpu-s/hour")
			b.ReportMetric(float64(p.height(ctx)-before)/seconds, phase.name+"-blocks/s")
		}
	}
	b.ReportMetric(0, "ns/op")
}
