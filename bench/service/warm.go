package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
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
	floor, err := b.startFloor(ctx, answer)
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
	server, own, start := rig.CPUTime(r.process.pid), cputime.Used(), time.Now()
	times, err := many.run(ctx, count, 0)
	if err != nil {
		return err
	}
	took := time.Since(start)
	r.serverCPU += rig.CPUTime(r.process.pid) - server
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
	fmt.Printf("  %d connections, as fast as they are answered: %s\n", connections, rig.Summarize(r.full))
	fmt.Printf("  %d connections, half as many requests:        %s\n", connections, rig.Summarize(r.half))
	fmt.Printf("  1 connection:                                 %s\n", rig.Summarize(r.alone))
}

// tell adds what was measured to the figures. The rates are in order.
func (r *repeats) tell(figures *rig.Log) error {
	values := map[string]float64{
		"per_second": r.rates[len(r.rates)/2], "cpu_us": float64(r.serverCPU.Microseconds()) / float64(r.requests),
	}
	for name, times := range map[string][]time.Duration{"full": r.full, "half": r.half, "alone": r.alone} {
		summary := rig.Summarize(times)
		values[name+"_p50_ms"], values[name+"_p99_ms"] = rig.Milliseconds(summary.P50), rig.Milliseconds(summary.P99)
	}
	return figures.Add(map[string]string{"server": r.name}, values)
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

// asFloor makes this program the floor; its value is the answer.
const asFloor = "QUORATE_BENCH_FLOOR"

// startFloor starts it in a process of its own, as the service has one.
func (b *bench) startFloor(ctx context.Context, answer []byte) (*process, error) {
	processor := ""
	if b.pin {
		processor = "0"
	}
	child, err := rig.StartPinned(ctx, processor, asFloor, answer)
	if err != nil {
		return nil, fmt.Errorf("starting the floor: %w", err)
	}
	var address string
	if err := child.Read(&address); err != nil {
		child.Stop()
		return nil, fmt.Errorf("starting the floor: %w", err)
	}
	return &process{base: "http://" + address, pid: child.PID(), client: &http.Client{}, end: child.Stop}, nil
}

// runFloor serves until standard input ends.
func runFloor(text string) error {
	var answer []byte
	if err := json.Unmarshal([]byte(text), &answer); err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { //nolint:gosec // for a benchmark
		if _, err := io.ReadAll(r.Body); err != nil {
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(answer)
	})}
	go func() { _ = server.Serve(l) }() // until Close
	if err := json.NewEncoder(os.Stdout).Encode(l.Addr().String()); err != nil {
		return err
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	return server.Close()
}
