package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"quorate/bench/rig"
	"quorate/internal/cputime"
	"quorate/internal/simnet"
)

// warmTurns is how often the service and the floor take turns, so that what else
// the machine does hits both.
const warmTurns = 5

// warm measures repeats of a message that was signed before, and the same requests
// to the floor: a bare net/http handler that answers with the same bytes.
func (b *bench) warm(ctx context.Context) error {
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
	body := bodyOf(n, "again and again")
	first, err := p.load(ctx, "fuji", 1, 1, func(int) []byte { return body }, nil)
	if err != nil {
		return err
	}
	time.Sleep(200 * time.Millisecond) // until what it asked has been counted
	asked := n.Requests()
	answer, err := p.answer(ctx, body)
	if err != nil {
		return err
	}
	floor, err := b.startFloor(answer)
	if err != nil {
		return err
	}
	defer floor.stop()
	fmt.Printf("%d validators; the message's first request took %s\n", b.validators, first[0].Round(10*time.Microsecond))
	subjects := []*repeats{{name: "service", process: p}, {name: "floor (bare net/http handler)", process: floor}}
	count := b.orDefault(200_000) / warmTurns
	for turn := range 1 + warmTurns {
		for _, s := range subjects {
			if turn == 1 {
				*s = repeats{name: s.name, process: s.process} // the first one only warms up
			}
			if err := s.take(ctx, b.connections, count, body); err != nil {
				return err
			}
		}
	}
	for _, s := range subjects {
		s.print(b.connections)
		if err := s.tell(b.log); err != nil {
			return err
		}
	}
	fmt.Printf("validators were asked %d times for it\n", n.Requests()-asked)
	return nil
}

// repeats is what was measured of one server.
type repeats struct {
	name               string
	process            *process
	full, half, alone  []time.Duration
	rates              []float64 // of full, per second
	requests           int       // of full
	serverCPU, loadCPU time.Duration
}

// take measures one turn of count requests at full speed, and fewer at half of it
// and one at a time.
func (r *repeats) take(ctx context.Context, connections, count int, body []byte) error {
	many, err := r.process.newRepeater("fuji", connections, body)
	if err != nil {
		return err
	}
	defer many.close()
	one, err := r.process.newRepeater("fuji", 1, body)
	if err != nil {
		return err
	}
	defer one.close()
	server, own, start := r.process.cpuTime(), cputime.Used(), time.Now()
	times, err := many.run(ctx, count, 0)
	if err != nil {
		return err
	}
	took := time.Since(start)
	r.serverCPU += r.process.cpuTime() - server
	r.loadCPU += cputime.Used() - own
	r.requests += count
	r.full = append(r.full, times...)
	rate := float64(count) / took.Seconds()
	r.rates = append(r.rates, rate)
	if times, err = many.run(ctx, count/2, rate/2); err != nil {
		return err
	}
	r.half = append(r.half, times...)
	if times, err = one.run(ctx, count/20, 0); err != nil {
		return err
	}
	r.alone = append(r.alone, times...)
	return nil
}

func (r *repeats) print(connections int) {
	slices.Sort(r.rates)
	each := func(d time.Duration) float64 { return float64(d.Microseconds()) / float64(r.requests) }
	fmt.Printf("\n%s: %.0f requests/s; CPU per request %.1f µs, of the load generator %.1f µs\n", r.name, r.rates[len(r.rates)/2], each(r.serverCPU), each(r.loadCPU))
	fmt.Printf("  %d connections, as fast as they are answered: %s\n", connections, quantiles(r.full))
	fmt.Printf("  %d connections, half as many requests:        %s\n", connections, quantiles(r.half))
	fmt.Printf("  1 connection:                                 %s\n", quantiles(r.alone))
}

// tell adds what was measured to the figures. The rates are in order.
func (r *repeats) tell(figures *rig.Log) error {
	values := map[string]float64{
		"per_second": r.rates[len(r.rates)/2], "cpu_us": float64(r.serverCPU.Microseconds()) / float64(r.requests),
	}
	for name, times := range map[string][]time.Duration{"full": r.full, "half": r.half, "alone": r.alone} {
		sorted := slices.Sorted(slices.Values(times))
		values[name+"_p50_ms"] = rig.Milliseconds(sorted[len(sorted)/2])
		values[name+"_p99_ms"] = rig.Milliseconds(sorted[len(sorted)*99/100])
	}
	return figures.Add(map[string]string{"server": r.name}, values)
}

// cpuTime is what the process has used so far.
func (p *process) cpuTime() time.Duration {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	_, after, _ := strings.Cut(string(content), ") ")
	fields := strings.Fields(after)
	const utime, stime, tick = 11, 12, time.Second / 100 // proc(5), from the state on
	user, err1 := strconv.Atoi(fields[utime])
	system, err2 := strconv.Atoi(fields[stime])
	if err1 != nil || err2 != nil {
		return 0
	}
	return time.Duration(user+system) * tick
}

// answer is the service's answer to a request, whole.
func (p *process) answer(ctx context.Context, body []byte) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, p.base+"/v1/signatureAggregator/fuji/aggregateSignatures", strings.NewReader(string(body)))
	if err != nil {
		return nil, err
	}
	response, err := p.client.Do(r)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return nil, errors.New(response.Status)
	}
	return io.ReadAll(response.Body)
}

// asFloor makes this program the floor. Standard input has the answer, standard
// output gets the address.
const asFloor = "QUORATE_BENCH_FLOOR"

// startFloor starts it in a process of its own, as the service has one.
func (b *bench) startFloor(answer []byte) (*process, error) {
	binary, err := os.Executable()
	if err != nil {
		return nil, err
	}
	var args []string
	if b.pin {
		binary, args = "taskset", []string{"-c", "0", binary}
	}
	p := &process{client: &http.Client{}, cmd: exec.Command(binary, args...)}
	p.cmd.Env = append(os.Environ(), asFloor+"=1")
	p.cmd.Stderr = os.Stderr
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	in, err := p.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting the floor: %w", err)
	}
	if err = json.NewEncoder(in).Encode(answer); err == nil {
		p.base, err = bufio.NewReader(out).ReadString('\n')
	}
	if err != nil {
		p.stop()
		return nil, fmt.Errorf("starting the floor: %w", err)
	}
	p.base = "http://" + strings.TrimSpace(p.base)
	return p, nil
}

// runFloor serves until it is interrupted.
func runFloor() error {
	var answer []byte
	if err := json.NewDecoder(os.Stdin).Decode(&answer); err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(l.Addr())
	return http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { //nolint:gosec // for a benchmark
		if _, err := io.ReadAll(r.Body); err != nil {
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(answer)
	}))
}
