package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"quorate/bench/rig"
	"quorate/simnet"
	"quorate/simnet/evmchain"
)

const (
	// chainTxs is how many transactions each chain has, and chainPace the time between
	// two of its blocks from then on.
	chainTxs  = 200
	chainPace = 2 * time.Second
	// chainsWatched is how long the service is watched while all chains grow.
	chainsWatched = 20 * time.Second
)

// chains has one EVM chain recorded and followed, and then many, to tell what one more
// takes.
func (b *bench) chains(ctx context.Context) error {
	var before following
	for _, count := range []int{1, b.orDefault(100)} {
		now, err := b.follow(ctx, count)
		if err != nil {
			return fmt.Errorf("%d chains: %w", count, err)
		}
		fmt.Printf("%d EVM chains: recorded after %.1f s; then %.0f MB resident, %.0f files, %.0f goroutines, %.1f ms of the processor a second\n",
			count, now.recorded.Seconds(), now.resident, now.files, now.routines, now.cpu)
		if count > 1 {
			more := float64(count - 1)
			fmt.Printf("for each more, a block every %s: %.2f MB, %.1f files, %.1f goroutines, %.2f ms of the processor a second\n", chainPace,
				(now.resident-before.resident)/more, (now.files-before.files)/more, (now.routines-before.routines)/more, (now.cpu-before.cpu)/more)
		}
		before = now
	}
	return nil
}

// following is what the service takes that follows chains.
type following struct {
	recorded                  time.Duration
	resident, files, routines float64
	cpu                       float64 // ms a second
}

func (b *bench) follow(ctx context.Context, count int) (now following, err error) {
	dir, err := os.MkdirTemp("", "quorate-chains-")
	if err != nil {
		return now, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	o := simnet.Options{Seed: 1, Validators: b.validators}
	for range count {
		o.EVM = append(o.EVM, simnet.EVM{Options: evmchain.Options{L1: true, Txs: chainTxs}, Dir: dir, Pace: chainPace})
	}
	n, err := simnet.Start(o)
	if err != nil {
		return now, err
	}
	defer n.Close()
	config := "networks:\n  fuji:\n    nodes: [" + n.NodeURL() + "]\n    evm:\n"
	for _, one := range n.EVM() {
		config += fmt.Sprintf("      - rpc: %s/ext/bc/%s/rpc\n", n.NodeURL(), one.Generator().BlockchainID())
	}
	file := filepath.Join(dir, "quorate.yaml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		return now, err
	}
	begun := time.Now()
	p, err := b.start(ctx, nil, "--config", file)
	if err != nil {
		return now, err
	}
	defer p.stop()
	for until := begun.Add(10 * time.Minute); ; {
		_, followed, err := p.gauges(ctx)
		if err != nil {
			return now, err
		}
		if followed == count {
			break
		}
		if time.Now().After(until) {
			return now, fmt.Errorf("only %d are followed after ten minutes", followed)
		}
		if !pause(ctx, 200*time.Millisecond) {
			return now, ctx.Err()
		}
	}
	now.recorded = time.Since(begun)
	cpu := p.cpuTime()
	if !pause(ctx, chainsWatched) {
		return now, ctx.Err()
	}
	now.cpu = rig.Milliseconds(p.cpuTime()-cpu) / chainsWatched.Seconds()
	files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.cmd.Process.Pid))
	if err != nil {
		return now, err
	}
	now.resident, now.files = float64(p.residentMB()), float64(len(files))
	now.routines, _, err = p.gauges(ctx)
	return now, err
}

// pause returns false if ctx ended meanwhile.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// gauges are the number of goroutines, and of EVM chains that are recorded to their tip.
func (p *process) gauges(ctx context.Context) (routines float64, followed int, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.private+"/metrics", nil)
	if err != nil {
		return 0, 0, err
	}
	response, err := p.client.Do(request)
	if err != nil {
		return 0, 0, err
	}
	defer func() { _ = response.Body.Close() }()
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		line := lines.Text()
		if value, ok := strings.CutPrefix(line, "go_goroutines "); ok {
			if routines, err = strconv.ParseFloat(value, 64); err != nil {
				return 0, 0, err
			}
		}
		if strings.HasPrefix(line, "quorate_index_state{") && strings.Contains(line, `chain="evm-`) &&
			strings.Contains(line, `state="following"`) && strings.HasSuffix(line, " 1") {
			followed++
		}
	}
	return routines, followed, lines.Err()
}
