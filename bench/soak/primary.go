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

// primary is the truth about the P-, X- and C-Chain while they grow.
type primary struct {
	node *history.Node
	// mu is held while the chains grow and while the truth is read.
	mu sync.Mutex
	// indexed and answered are the greatest P-Chain heights so far in responses of the Data API
	// and of platform.getHeight.
	indexed, answered atomic.Uint64
}

// grow adds blocks until ctx ends.
func (p *primary) grow(ctx context.Context) error {
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

func (p *primary) height() uint64 { return p.node.Height(history.P) }

// output is an output that was created on the chain where it is spent, which alone decides whether it is, or that the
// C-Chain has exported.
type output struct {
	id, txID, assetID ids.ID
	index             uint32
	amount            uint64
	transfer          bool // of an asset
	time, spentTime   time.Time
	height, spent     uint64 // MaxUint64 while it is unspent, and of the C-Chain
}

// outputs returns the outputs of a chain so far that an address can spend alone. Those of the P- and X-Chain that went to
// other chains are not among them; the C-Chain has only such.
func (p *primary) outputs(c history.Chain, address ids.ShortID) (all []output) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for o := range p.node.Generator().Truth().Outputs() {
		if o.Chain != c || c != history.C && o.Destination != c || o.Threshold > 1 || !slices.Contains(o.Addresses, address) {
			continue
		}
		one := output{
			id: o.ID, txID: o.TxID, assetID: o.AssetID, index: o.Index, amount: o.Amount,
			transfer: o.Kind == history.Transfer, time: o.Time, height: o.Height, spent: math.MaxUint64,
		}
		if o.Spent != nil && c != history.C {
			one.spent, one.spentTime = o.Spent.Height, o.Spent.Time
		}
		all = append(all, one)
	}
	return all
}

// call returns the simulated node's response.
func (p *primary) call(path, method string, params any) (json.RawMessage, error) {
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
