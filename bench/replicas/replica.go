package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"quorate/bench/rig"
	"quorate/internal/cputime"
	"quorate/internal/index"
	"quorate/internal/simnet"
	"quorate/internal/simnet/history"
	"quorate/internal/store/storetest/pgserver"
)

// bench is what the parts share.
type bench struct {
	options
	node            nodeReady
	root, binary    string
	server, standby *pgserver.Server
	log             *rig.Log

	all  []*replica            // those that run
	asks map[string][]*replica // by where their pages are read from
}

// network is its name in paths.
const network = "fuji"

func historyOf(seed uint64, txs int) history.Options {
	return history.Options{Seed: seed, Txs: txs, BusyEvents: txs}
}

// serveNode is a simulated node with four validators until standard input ends.
func serveNode(t nodeTask) error {
	sim, err := simnet.Start(simnet.Options{
		Seed: t.Seed, Validators: 4, History: &simnet.History{Options: historyOf(t.Seed, t.Txs), Dir: t.Dir},
	})
	if err != nil {
		return err
	}
	defer sim.Close()
	past, out := sim.History(), json.NewEncoder(os.Stdout)
	if err := out.Encode(nodeReady{URL: sim.NodeURL(), Heights: map[string]uint64{
		index.PChain: past.Height(history.P), index.XChain: past.Height(history.X), index.CChain: past.Height(history.C),
	}}); err != nil {
		return err
	}
	return rig.TellSpent(out)
}

// replica is a process of the service.
type replica struct {
	*rig.Process

	name            string
	public, private string
}

// start starts one of those that share the store.
func (b *bench) start(name string, flags ...string) (*replica, error) {
	r := &replica{name: name}
	var err error
	if r.public, r.private, err = rig.Addresses(); err != nil {
		return nil, err
	}
	if r.Process, err = rig.Run(filepath.Join(b.root, name+".log"), b.binary, append([]string{
		"serve", "--listen", r.public, "--private-listen", r.private, "--data-dir", filepath.Join(b.root, name), "--log-level", "warn",
		"--allow-private-ips", "--record", "primary", "--network", network + "=" + b.node.URL, "--store", b.server.URL(),
	}, flags...)...); err != nil {
		return nil, err
	}
	b.all = append(b.all, r)
	return r, nil
}

// stop ends all replicas.
func (b *bench) stop() {
	for _, r := range b.all {
		_ = r.Signal(syscall.SIGINT) // all at a time
	}
	for _, r := range b.all {
		_ = r.Stop(syscall.SIGINT)
	}
}

// add starts one that answers, and waits until it does.
func (b *bench) add(ctx context.Context, i int, from string, flags ...string) error {
	r, err := b.start(fmt.Sprintf("api %d, %s", i+1, from), append([]string{"--role", "api"}, flags...)...)
	if err != nil {
		return err
	}
	if err := r.recorded(ctx, b.node.Heights); err != nil {
		return err
	}
	if from == fromStandby {
		if err := r.await(ctx, r.followed); err != nil {
			return err
		}
	}
	if b.asks == nil {
		b.asks = make(map[string][]*replica)
	}
	b.asks[from] = append(b.asks[from], r)
	return nil
}

func (r *replica) spent() time.Duration { return rig.CPUTime(r.PID()) }

// recorded waits until the replica tells that all is.
func (r *replica) recorded(ctx context.Context, heights map[string]uint64) error {
	return r.await(ctx, func() (bool, error) {
		var said struct {
			Networks map[string]map[string]struct {
				Next  uint64
				State index.State
			}
		}
		if err := get("http://"+r.private+"/index", &said); err != nil {
			return false, err
		}
		for chain, height := range heights {
			if s := said.Networks[network][chain]; s.Next <= height || s.State != index.Following {
				return false, fmt.Errorf("chain %s is %s, %d of %d", chain, s.State, s.Next, height)
			}
		}
		return true, nil
	})
}

// followed says whether the replica reads from the server that follows.
func (r *replica) followed() (bool, error) {
	content, err := ask("http://" + r.private + "/metrics")
	if err != nil {
		return false, err
	}
	for line := range strings.Lines(string(content)) {
		if strings.HasPrefix(line, "quorate_store_standby_used{") && strings.HasSuffix(line, " 1\n") {
			return true, nil
		}
	}
	return false, errors.New("it does not read from the server that follows")
}

// await asks again until something is so, ten minutes at most.
func (r *replica) await(ctx context.Context, so func() (bool, error)) error {
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	limit := time.NewTimer(10 * time.Minute)
	defer limit.Stop()
	for {
		done, err := so()
		if done {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-r.Exited:
			return fmt.Errorf("%s has ended:\n%s", r.name, r.LogTail())
		case <-limit.C:
			return fmt.Errorf("%s does not become ready: %w\n%s", r.name, err, r.LogTail())
		case <-ticker.C:
		}
	}
}

// get reads an answer into v.
func get(url string, v any) error {
	content, err := ask(url)
	if err != nil {
		return err
	}
	return json.Unmarshal(content, v)
}

// ask returns an answer, which must be a success.
func ask(url string) ([]byte, error) {
	client := http.Client{Timeout: 30 * time.Second}
	defer client.CloseIdleConnections()
	response, err := client.Get(url)
	if err != nil {
		return nil, err
	}
	content, err := io.ReadAll(response.Body)
	if err := errors.Join(err, response.Body.Close()); err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s: %.300s", url, response.Status, content)
	}
	return content, nil
}

// spent is the processor time so far: of the replicas that are asked, of both servers, and
// of who asks.
type spent struct{ service, server, standby, load time.Duration }

func (b *bench) spent(asked []*replica) (s spent) {
	for _, r := range asked {
		s.service += r.spent()
	}
	s.server, s.standby, s.load = rig.CPUTime(b.server.PID()), rig.CPUTime(b.standby.PID()), cputime.Used()
	return s
}
