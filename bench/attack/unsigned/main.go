// Command unsigned attacks the service with messages that no validator has seen, and prints what
// that costs the service and the validators.
//
//	go -C bench run ./attack/unsigned
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"time"

	"quorate/bench/rig"
	"quorate/internal/simnet"
)

const (
	watched = 15 * time.Second // how long an attack is watched
	patient = 3 * time.Second  // after which clients of batches disconnect
	batches = 10
	perBody = 100 // messages of a batch
)

func main() {
	validators := flag.Int("validators", 1000, "`number` of validators")
	rig.Main(func(ctx context.Context, r *rig.Run) error { return measure(ctx, r, *validators) })
}

// attack is a number of requests that are sent at the same time.
type attack struct {
	name   string
	path   string
	bodies []string
	leave  time.Duration // when the clients disconnect
}

// attacks returns the attacks on a network.
func attacks(network *rig.Network) ([]attack, error) {
	messages := make([]string, batches*perBody+2)
	for i := range messages {
		m, err := network.Unsigned(fmt.Sprintf("never sent %d", i))
		if err != nil {
			return nil, err
		}
		messages[i] = fmt.Sprintf(`{"message":"%x","waitSeconds":%d`, m.Bytes(), watched/time.Second)
	}
	const path = "/v1/signatureAggregator/" + rig.NetworkName + "/aggregateSignatures"
	large := `,"justification":"` + strings.Repeat("00", 64<<10) + `"}`
	all := []attack{
		{"one message", path, []string{messages[0] + "}"}, watched},
		{"64 KiB of justification", path, []string{messages[1] + large}, watched},
		{fmt.Sprintf("%d batches of %d", batches, perBody), path + ":batch", nil, patient},
	}
	for i := range batches {
		all[2].bodies = append(all[2].bodies, `{"requests":[`+strings.Join(messages[2+i*perBody:2+(i+1)*perBody], "},")+"}]}")
	}
	return all, nil
}

func measure(ctx context.Context, r *rig.Run, validators int) error {
	network, err := rig.StartNetwork(ctx, "1", simnet.Options{
		Seed: r.Seed, Validators: validators, Latency: simnet.Latency{Median: 40 * time.Millisecond, P99: 400 * time.Millisecond}, Faults: simnet.Faults{Refusing: 1},
	})
	if err != nil {
		return err
	}
	defer network.Stop()
	service, err := r.StartService(ctx, "unsigned", network.Settings())
	if err != nil {
		return err
	}
	defer func() { _ = service.Stop(syscall.SIGTERM) }()
	all, err := attacks(network)
	if err != nil {
		return err
	}
	table := r.Table(fmt.Sprintf("Messages that no validator signs, %d validators, watched for %s", validators, watched), []string{"attack"},
		rig.Column{Title: "requests to validators"}, rig.Column{Title: "of them after the clients left"}, rig.Column{Title: "MB to validators", Decimals: 1},
		rig.Column{Title: "CPU s", Decimals: 2}, rig.Column{Title: "CPU s after the clients left", Decimals: 2})
	for _, a := range all {
		row, err := a.run(ctx, service)
		if err != nil {
			return fmt.Errorf("%s: %w", a.name, err)
		}
		if err := table.Add([]string{a.name}, row...); err != nil {
			return err
		}
	}
	return nil
}

// state is what the service has counted so far. Validators count a request when they read it,
// which under load is seconds later.
type state struct {
	requests, sent float64
	cpu            time.Duration
}

func look(ctx context.Context, service *rig.Service) (state, error) {
	metrics, err := service.Metrics(ctx)
	return state{metrics["quorate_p2p_requests_total"], metrics["quorate_p2p_sent_bytes_total"], service.CPU()}, err
}

// run makes the requests and returns the figures of a row.
func (a attack) run(ctx context.Context, service *rig.Service) ([]float64, error) {
	before, err := look(ctx, service)
	if err != nil {
		return nil, err
	}
	begun := time.Now()
	clients, cancel := context.WithTimeout(ctx, a.leave)
	defer cancel()
	var running sync.WaitGroup
	for _, body := range a.bodies {
		running.Go(func() { send(clients, "http://"+service.Public+a.path, body) })
	}
	rig.Pause(ctx, a.leave)
	cancel()
	running.Wait()
	rig.Pause(ctx, 500*time.Millisecond) // answers that are on their way
	left, err := look(ctx, service)
	if err != nil {
		return nil, err
	}
	if !rig.Pause(ctx, watched-time.Since(begun)+time.Second) {
		return nil, ctx.Err()
	}
	after, err := look(ctx, service)
	return []float64{
		after.requests - before.requests, after.requests - left.requests, (after.sent - before.sent) / 1e6,
		(after.cpu - before.cpu).Seconds(), (after.cpu - left.cpu).Seconds(),
	}, err
}

// send makes a request and drops the response, or the failure: clients disconnect.
func send(ctx context.Context, url, body string) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader([]byte(body)))
	if err != nil {
		return
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return
	}
	defer func() { _ = response.Body.Close() }()
	_, _ = io.Copy(io.Discard, response.Body)
}
