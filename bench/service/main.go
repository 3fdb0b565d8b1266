// Command service measures the whole service through HTTP: the program is built
// and run as a user runs it, the simulated validators and the load generator are
// this process, on the same machine.
//
//	go -C bench run ./service warm         repeats of one message over 64 connections
//	go -C bench run ./service duplicates   1,000 identical requests at once
//	go -C bench run ./service flood        a million messages, each another
package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"quorate/bench/rig"
	"quorate/internal/cputime"
	"quorate/internal/simnet"
)

func main() {
	log.SetFlags(0)
	if text := os.Getenv(asFloor); text != "" {
		if err := runFloor(text); err != nil {
			log.Fatal(err)
		}
		return
	}
	validators := flag.Int("validators", 0, "`number` of validators (default: 100, of flood 3)")
	connections := flag.Int("c", 64, "`number` of connections")
	requests := flag.Int("n", 0, "`number` of requests (default: 200000 for warm, 1000 for duplicates, 1000000 for flood)")
	pin := flag.Bool("pin", false, "run the service on processor 0 alone; run this program on another with taskset -c 1")
	memory := flag.String("memory-limit", "512MiB", "the service's memory limit")
	figures := flag.String("json", "", "write what warm measured to this `file`, too, as lines of JSON")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: go -C bench run ./service [flags] warm|duplicates|flood")
		flag.PrintDefaults()
	}
	flag.Parse()
	if *validators == 0 {
		*validators = 100
		if flag.Arg(0) == "flood" {
			*validators = 3
		}
	}
	b := bench{pin: *pin, validators: *validators, connections: *connections, requests: *requests, memory: *memory}
	measures := map[string]func(context.Context) error{"warm": b.warm, "duplicates": b.duplicates, "flood": b.flood}
	measure, ok := measures[flag.Arg(0)]
	if !ok || flag.NArg() != 1 {
		flag.Usage()
		os.Exit(2)
	}
	fmt.Printf("%s/%s, %d processors for service, validators and load, %s\n", runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), runtime.Version())
	if err := rig.Measure(*figures, func(ctx context.Context, told *rig.Log) error {
		b.log = told
		return measure(ctx)
	}); err != nil {
		log.Fatal(err)
	}
}

type bench struct {
	pin                               bool
	validators, connections, requests int
	memory                            string
	log                               *rig.Log
}

func (b *bench) orDefault(n int) int {
	if b.requests > 0 {
		return b.requests
	}
	return n
}

// process is the service.
type process struct {
	base   string
	pid    int
	client *http.Client
	end    func()
	// tolerant counts messages that are not signed rather than to end with them.
	tolerant bool
	failed   atomic.Int64
}

// start builds and runs the service and waits until it is ready.
func (b *bench) start(ctx context.Context, networks map[string]*simnet.Network) (*process, error) {
	dir, err := os.MkdirTemp("", "quorate-bench-")
	if err != nil {
		return nil, err
	}
	binary, err := rig.Build(ctx, dir)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	public, private, err := rig.Addresses()
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	args := []string{binary, "serve", "--listen", public, "--private-listen", private, "--data-dir", filepath.Join(dir, "data"), "--memory-limit", b.memory, "--allow-private-ips", "--log-level", "error"}
	for name, n := range networks {
		args = append(args, "--network", name+"="+n.NodeURL())
	}
	if b.pin {
		args = append([]string{"taskset", "-c", "0"}, args...)
	}
	run, err := rig.Run(filepath.Join(dir, "quorate.log"), args[0], args[1:]...)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	p := &process{base: "http://" + public, pid: run.PID(), client: &http.Client{Transport: &http.Transport{}}, end: func() {
		_ = run.Stop(syscall.SIGINT)
		_ = os.RemoveAll(dir)
	}}
	for until := time.Now().Add(time.Minute); ; {
		response, err := p.client.Get("http://" + private + "/readyz")
		if err == nil {
			_ = response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return p, nil
			}
		}
		if ctx.Err() != nil || time.Now().After(until) {
			err := fmt.Errorf("the service does not become ready:\n%s", run.LogTail())
			p.stop()
			return nil, err
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func (p *process) stop() {
	p.client.CloseIdleConnections()
	p.end()
}

// residentMB is the resident memory of a process.
func residentMB(pid int) int {
	now, _ := rig.Memory(pid)
	return int(now) >> 20
}

func bodyOf(n *simnet.Network, text string) []byte {
	return fmt.Appendf(nil, `{"message":"%x"}`, n.Message([]byte(text)).Bytes())
}

// load sends count requests over the given number of connections, each of which
// has one under way at a time, as fast as they are answered.
func (p *process) load(ctx context.Context, network string, connections, count int, body func(i int) []byte, done func(i int)) (times []time.Duration, err error) {
	times = make([]time.Duration, count)
	var next atomic.Int64
	workers, ctx := errgroup.WithContext(ctx)
	for range connections {
		workers.Go(func() error {
			c, err := p.dial(network)
			if err != nil {
				return err
			}
			defer func() { _ = c.Close() }()
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= count {
					return nil
				}
				start := time.Now()
				err := c.sign(body(i))
				if errors.Is(err, errNotSigned) && p.tolerant {
					p.failed.Add(1)
				} else if err != nil {
					return err
				}
				times[i] = time.Since(start)
				if done != nil {
					done(i + 1)
				}
			}
			return ctx.Err()
		})
	}
	return times, workers.Wait()
}

// connection is an HTTP client that costs next to nothing, so that what is
// measured is the service rather than the load generator.
type connection struct {
	net.Conn
	in            *bufio.Reader
	host, network string
}

func (p *process) dial(network string) (*connection, error) {
	host := strings.TrimPrefix(p.base, "http://")
	conn, err := net.Dial("tcp", host)
	if err != nil {
		return nil, err
	}
	return &connection{Conn: conn, in: bufio.NewReader(conn), host: host, network: network}, nil
}

// errNotSigned is a complete answer that is no signed message.
var errNotSigned = errors.New("not signed")

func (c *connection) sign(body []byte) error {
	if _, err := c.Write(append(requestHead(c.host, c.network, len(body)), body...)); err != nil {
		return err
	}
	length, ok := 0, false
	for n := 0; ; n++ {
		line, err := c.in.ReadSlice('\n')
		if err != nil {
			return fmt.Errorf("reading the answer: %w", err)
		}
		if n == 0 {
			ok = bytes.HasPrefix(line, []byte("HTTP/1.1 200 "))
		}
		if value, found := bytes.CutPrefix(line, []byte("Content-Length: ")); found {
			if length, err = strconv.Atoi(string(bytes.TrimSpace(value))); err != nil {
				return fmt.Errorf("reading the answer: %w", err)
			}
		}
		if len(line) == 2 {
			break
		}
	}
	answer, err := c.in.Peek(min(length, c.in.Size()))
	if err != nil {
		return fmt.Errorf("reading the answer: %w", err)
	}
	if !ok || !bytes.HasPrefix(answer, []byte(`{"signedMessage":"`)) {
		err = fmt.Errorf("%w: %s", errNotSigned, answer)
		_, _ = c.in.Discard(length)
		return err
	}
	_, err = c.in.Discard(length)
	return err
}

// duplicates counts what 1,000 identical requests at once ask of validators.
func (b *bench) duplicates(ctx context.Context) error {
	n, err := simnet.Start(simnet.Options{Seed: 1, Validators: b.validators, Latency: simnet.Latency{Median: 40 * time.Millisecond, P99: 400 * time.Millisecond}})
	if err != nil {
		return err
	}
	defer n.Close()
	p, err := b.start(ctx, map[string]*simnet.Network{"fuji": n})
	if err != nil {
		return err
	}
	defer p.stop()
	count := b.orDefault(1000)
	body := bodyOf(n, "all at once")
	times, err := p.load(ctx, "fuji", count, count, func(int) []byte { return body }, nil)
	if err != nil {
		return err
	}
	fmt.Printf("%d validators, %d identical requests on as many connections: %s\n", b.validators, count, rig.Summarize(times))
	fmt.Printf("%d requests to validators, %d of them repeated: at most one fan-out\n", n.Requests(), n.Repeated())
	if n.Requests() > uint64(b.validators) || n.Repeated() > 0 {
		return errors.New("that is more than one fan-out")
	}
	return nil
}

// flood sends messages of which none is like another, and watches the memory. With
// one validator most of the work is what each message takes at least: a signature
// to make, and the finished message to verify.
func (b *bench) flood(ctx context.Context) error {
	n, err := simnet.Start(simnet.Options{Seed: 1, Validators: b.validators})
	if err != nil {
		return err
	}
	defer n.Close()
	p, err := b.start(ctx, map[string]*simnet.Network{"fuji": n})
	if err != nil {
		return err
	}
	defer p.stop()
	p.tolerant = true
	count := b.orDefault(1_000_000)
	fmt.Printf("%d messages, %d validators, memory limit %s\n", count, b.validators, b.memory)
	start, server, own := time.Now(), rig.CPUTime(p.pid), cputime.Used()
	var greatest atomic.Int64
	step := max(count/20, 1)
	_, err = p.load(ctx, "fuji", b.connections, count, func(i int) []byte { return bodyOf(n, strconv.Itoa(i)) }, func(i int) {
		if i%1000 == 0 {
			resident := int64(residentMB(p.pid))
			greatest.Store(max(greatest.Load(), resident))
		}
		if i%step == 0 {
			fmt.Printf("%8d messages  %6.0f messages/s  %4d MB resident\n", i, float64(i)/time.Since(start).Seconds(), residentMB(p.pid))
		}
	})
	if err != nil {
		return err
	}
	each := func(d time.Duration) float64 { return d.Seconds() * 1e3 / float64(count) }
	fmt.Printf("CPU per message %.2f ms, of validators and load generator %.2f ms\n", each(rig.CPUTime(p.pid)-server), each(cputime.Used()-own))
	fmt.Printf("greatest %d MB, at the end %d MB; %d messages not signed\n", greatest.Load(), residentMB(p.pid), p.failed.Load())
	return nil
}
