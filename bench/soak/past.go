package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ava-labs/avalanchego/ids"

	"quorate/bench/rig"
	"quorate/internal/simnet/history"
)

// past is what is true of the P- and the X-Chain, while they grow.
type past struct {
	node *history.Node
	// mu is held to grow, and to read the truth.
	mu sync.Mutex
	// recorded is the greatest height of the P-Chain that the Data API said it has,
	// answered what platform.getHeight said.
	recorded, answered atomic.Uint64
}

// grow has the chains go on until ctx ends.
func (p *past) grow(ctx context.Context) error {
	for rig.Pause(ctx, growth) {
		p.mu.Lock()
		err := p.node.Step(ctx, time.Now())
		p.mu.Unlock()
		if err != nil && ctx.Err() == nil {
			return err
		}
	}
	return nil
}

func (p *past) height() uint64 { return p.node.Height(history.P) }

func (p *past) seen() uint64 { return p.recorded.Load() }

// output is one that was made on a chain to stay there: whether it is spent depends on
// that chain alone.
type output struct {
	id, txID, assetID ids.ID
	index             uint32
	amount            uint64
	transfer          bool // of an asset
	time, spentTime   time.Time
	height, spent     uint64 // MaxUint64 while it is unspent
}

// outputs are those that an address can spend by itself, as of now.
func (p *past) outputs(c history.Chain, address ids.ShortID) (all []output) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for o := range p.node.Generator().Truth().Outputs() {
		if o.Chain != c || o.Destination != c || o.Threshold > 1 || !slices.Contains(o.Addresses, address) {
			continue
		}
		one := output{
			id: o.ID, txID: o.TxID, assetID: o.AssetID, index: o.Index, amount: o.Amount,
			transfer: o.Kind == history.Transfer, time: o.Time, height: o.Height, spent: math.MaxUint64,
		}
		if o.Spent != nil {
			one.spent, one.spentTime = o.Spent.Height, o.Spent.Time
		}
		all = append(all, one)
	}
	return all
}

// call is what the node answers.
func (p *past) call(path, method string, params any) (json.RawMessage, error) {
	text, err := json.Marshal(params)
	if err != nil {
		return nil, err
	}
	result, err := p.node.Call(path, method, text)
	if err != nil {
		return nil, fmt.Errorf("the simulated node: %s: %w", method, err)
	}
	ready, ok := result.(*history.Result)
	if !ok {
		return json.Marshal(result)
	}
	var b bytes.Buffer
	_, err = ready.WriteTo(&b)
	return b.Bytes(), err
}
