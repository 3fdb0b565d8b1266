package main

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"os"
	"time"

	"quorate/bench/rig"
	chain "quorate/internal/chain/evm"
	"quorate/internal/cputime"
	"quorate/internal/index"
	"quorate/internal/index/evm"
	"quorate/internal/node"
	"quorate/internal/simnet/evmchain"
	"quorate/internal/store"
)

// networkID is that of the recorded chain.
const networkID = 54321

// runNode is a simulated node until standard input ends. Each line there is answered
// with the processor time so far.
func runNode(t task) (err error) {
	g, err := evmchain.New(evmchain.Options{Seed: t.Seed, Txs: t.Txs, NetworkID: networkID})
	if err != nil {
		return err
	}
	n, err := evmchain.NewNode(g, t.Dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, n.Close()) }()
	if err := n.Grow(context.Background(), t.Txs); err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: n, ReadHeaderTimeout: time.Minute}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(listener) // until it is closed
	}()
	defer func() {
		_ = server.Close()
		<-served
	}()
	out := json.NewEncoder(os.Stdout)
	ready := nodeReady{URL: "http://" + listener.Addr().String(), ChainID: g.ChainID(), BlockchainID: g.BlockchainID(), Tip: n.Tip(), Txs: n.Txs()}
	if err := out.Encode(ready); err != nil {
		return err
	}
	return rig.TellSpent(out)
}

// untraced is a node whose traces nobody asks for.
type untraced struct{ *node.EVM }

func (u untraced) Blocks(ctx context.Context, from uint64, n int, traces bool) ([]node.EVMBlock, error) {
	if traces {
		return nil, node.ErrNoTraces
	}
	return u.EVM.Blocks(ctx, from, n, false)
}

func (t *task) client() (*node.Client, error) {
	return node.New(node.Options{Endpoints: []string{t.Node.URL}, Timeout: 30 * time.Second})
}

// runRecord records into Pebble until all is there.
func runRecord(t task) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	stop, err := rig.Profile(t.Profile)
	if err != nil {
		return err
	}
	defer stop()
	// As the service opens it, with the memory that it takes by default.
	rows, err := store.OpenPebble(ctx, store.PebbleOptions{Dir: t.Dir})
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	client, err := t.client()
	if err != nil {
		return err
	}
	defer client.Close()
	var from index.EVMNode = client.EVM("")
	if t.Role == roleLogs {
		from = untraced{client.EVM("")}
	}
	name := index.EVMChain(t.Node.ChainID)
	done := make(chan struct{})
	pipeline, err := index.New(index.Options[*chain.Block]{
		NetworkID: networkID, Chain: name, Store: rows,
		Source:      index.NewEVMSource(index.EVMOptions{Node: from, Chain: name}),
		Projections: []index.Projection[*chain.Block]{evm.NewProjection(networkID, t.Node.BlockchainID)},
		Committed: func(next uint64) {
			if next == t.Node.Tip+1 {
				close(done)
			}
		},
	})
	if err != nil {
		return err
	}
	begun, spent := time.Now(), cputime.Used()
	ended := make(chan error, 1)
	go func() { ended <- pipeline.Run(ctx) }()
	select {
	case err := <-ended:
		return errors.Join(errors.New("recording ended early"), err)
	case <-done:
	}
	r := recorded{Took: time.Since(begun), CPU: cputime.Used() - spent}
	cancel()
	if err := <-ended; err != nil {
		return err
	}
	rig.Calm(rows)
	if r.Bytes, err = rig.Size(t.Dir); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(r)
}
