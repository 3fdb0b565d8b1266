// Package judge compares what upstream nodes report of the P-Chain with the chain that this process executes: their
// heights, blocks and validator sets. It tells the nodes' client which of them lag or lie. It decides nothing else.
// Without an executed chain, and for other chains, it compares the heights of the nodes with each other, which shows only
// that nodes lag.
package judge

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/constants"

	"quorate/internal/node"
)

// Chain reports the P-Chain; *node.Client implements it.
type Chain interface {
	Height(ctx context.Context) (uint64, error)
	BlockByHeight(ctx context.Context, height uint64) ([]byte, error)
	ValidatorsAt(ctx context.Context, subnetID ids.ID, height uint64) (node.ValidatorSet, error)
}

// Node is an upstream node; *node.Client implements it for one endpoint.
type Node interface {
	Chain
	// NetworkID returns the ID of the node's network.
	NetworkID(ctx context.Context) (uint32, error)
	// Name is the node's URL without secrets, Host its host and port.
	Name() string
	Host() string
	// Judge receives each change of the standing, with what was found.
	Judge(s node.Standing, found string)
}

var _ Node = (*node.Client)(nil)

// Options of a Judge. Chain and Nodes are required.
type Options struct {
	// Chain is the chain's name in log and metrics.
	Chain string
	// NetworkID is that of the network. Without an executed chain, a node of another network lies; 0 if the nodes report none.
	NetworkID uint32
	// Executed is the chain that this process executes; nil without one. Ready returns nil while it is executed to its
	// tip.
	Executed Chain
	Ready    func() error
	Nodes    []Node
	// Subnets returns the subnets whose validators are compared besides the primary network's; may be nil. The caller does
	// not use the slice again.
	Subnets func() []ids.ID
	Log     *slog.Logger
}

const (
	// interval is the time between two comparisons, first that between attempts before the first.
	interval = 10 * time.Second
	first    = time.Second
	// timeout bounds a comparison of one node.
	timeout = 15 * time.Second
	// again is the time after which a difference is looked at again before it counts.
	again = time.Second
	// lagFor is how long a node may lack a block that was executed, or that another node has.
	lagFor = 30 * time.Second
	// aheadFor is how long a node may be at a height that is not executed. It exceeds the time for which the executed tip
	// counts without a confirmation, so the stake has confirmed a lower tip meanwhile.
	aheadFor = 90 * time.Second
	// probation is how long a node that lied must agree until it is asked again.
	probation = 5 * time.Minute
	// subnets is how many subnets are compared at a time besides the primary network.
	subnets = 4
	// maxMarks bounds Judge.marks.
	maxMarks = 64
)

// Judge compares nodes with the executed chain, or with each other. It is safe for concurrent use.
type Judge struct {
	o     Options
	desc  *prometheus.Desc
	marks []mark // only Run uses it
	turn  int    // only Run changes it, between comparisons

	mu    sync.Mutex
	nodes []*judged
}

// mark is a height that the chain reached, with the time at which this was noticed.
type mark struct {
	height uint64
	at     time.Time
}

// judged is what is known of one node. Only the comparison of that node uses its fields, unless they say otherwise.
type judged struct {
	node    Node
	verdict Verdict // guarded by Judge.mu
	// agrees is since when a node that lied agrees; zero if it does not.
	agrees time.Time
	// ahead is the first height that the node reported and that is not executed, with the time.
	ahead mark
	// highest is, without an executed chain, the highest height that the node reported within lagFor, with the time of the
	// last such report: behind one URL may be nodes at several heights.
	highest mark
	// ours reports that the node is of Options.NetworkID. It is asked again after a failure: it may be another node then.
	ours bool
}

// Verdict is what was found about a node.
type Verdict struct {
	// Node is the node's URL without secrets, Host its host and port.
	Node, Host string
	Standing   node.Standing
	// Text says what differs; empty if nothing does.
	Text string
	// Since is when the standing began.
	Since time.Time
}

// New returns a Judge. It asks nothing until Run.
func New(o Options) *Judge {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	j := &Judge{o: o, desc: verdicts(o.Chain)}
	for _, n := range o.Nodes {
		j.nodes = append(j.nodes, &judged{node: n, verdict: Verdict{Node: n.Name(), Host: n.Host(), Since: time.Now()}})
	}
	return j
}

// Verdicts returns what was found about each node.
func (j *Judge) Verdicts() []Verdict {
	j.mu.Lock()
	defer j.mu.Unlock()
	all := make([]Verdict, len(j.nodes))
	for i, n := range j.nodes {
		all[i] = n.verdict
	}
	return all
}

// Run compares the nodes until ctx ends.
func (j *Judge) Run(ctx context.Context) {
	pause := first
	for {
		if j.round(ctx) {
			pause = interval
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

// round compares all nodes once, unless the executed chain is not at its tip.
func (j *Judge) round(ctx context.Context) bool {
	if j.o.Executed == nil {
		j.together(ctx)
		return true
	}
	height, err := j.height(ctx)
	if err != nil {
		// How long a node has been behind the tip or ahead of it is unknown without the tip.
		j.marks = nil
		for _, n := range j.nodes {
			n.ahead = mark{}
		}
		return false
	}
	j.mark(height)
	chosen := j.choose()
	var comparing sync.WaitGroup
	for _, n := range j.nodes {
		comparing.Go(func() {
			limited, cancel := context.WithTimeout(ctx, timeout)
			defer cancel()
			f, err := j.compare(limited, n, height, chosen)
			if ctx.Err() == nil {
				j.conclude(n, f, err)
			}
		})
	}
	comparing.Wait()
	return true
}

// together compares the heights of all nodes. The highest one is the tip, also while its node fails for less than lagFor.
func (j *Judge) together(ctx context.Context) {
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	errs := make([]error, len(j.nodes))
	var asking sync.WaitGroup
	for i, n := range j.nodes {
		asking.Go(func() { errs[i] = j.ask(limited, n) })
	}
	asking.Wait()
	if ctx.Err() != nil {
		return
	}
	var first *judged
	for _, n := range j.nodes {
		if time.Since(n.highest.at) < lagFor && (first == nil || n.highest.height > first.highest.height) {
			first = n
		}
	}
	if first == nil {
		return
	}
	tip := first.highest.height
	// Once the node that was at a greater height no longer answers, the others are compared with each other.
	j.marks = slices.DeleteFunc(j.marks, func(m mark) bool { return m.height > tip })
	j.mark(tip)
	for i, n := range j.nodes {
		f, err := finding{}, errs[i]
		if err == nil {
			f, err = j.beside(limited, n, first)
		}
		j.conclude(n, f, err)
	}
}

// ask updates n.highest. A node of another network lies, and has no height that others are compared with.
func (j *Judge) ask(ctx context.Context, n *judged) error {
	if j.o.NetworkID != 0 && !n.ours {
		id, err := n.node.NetworkID(ctx)
		var refused *node.RPCError
		switch {
		case err == nil && id != j.o.NetworkID:
			n.highest = mark{}
			j.conclude(n, finding{node.Lies, fmt.Sprintf("it is of the network with ID %d, not %d", id, j.o.NetworkID)}, nil)
			return errNothing
		case err != nil && !errors.As(err, &refused): // a provider may not offer the call
			return err
		}
		n.ours = true
	}
	height, err := n.node.Height(ctx)
	n.ours = n.ours && err == nil
	if err == nil && (height >= n.highest.height || time.Since(n.highest.at) >= lagFor) {
		n.highest = mark{height, time.Now()}
	}
	return err
}

// beside compares a node with the one that reported the tip. A node of another network shows nothing.
func (j *Judge) beside(ctx context.Context, n, first *judged) (finding, error) {
	height := n.highest.height
	f := j.lagging(height, first.highest.height, "another node reports")
	if f.standing != node.Lags {
		return f, nil
	}
	own, err := n.node.BlockByHeight(ctx, height)
	if err != nil {
		return f, err
	}
	other, err := first.node.BlockByHeight(ctx, height)
	if err == nil && !bytes.Equal(own, other) {
		err = fmt.Errorf("%w: %s has another block at height %d", errNothing, first.node.Name(), height)
	}
	return f, err
}

// mark notes that the chain is at height.
func (j *Judge) mark(height uint64) {
	if len(j.marks) == 0 || j.marks[len(j.marks)-1].height < height {
		j.marks = append(j.marks, mark{height, time.Now()})
		j.marks = j.marks[max(0, len(j.marks)-maxMarks):]
	}
}

// height returns the height of the executed chain.
func (j *Judge) height(ctx context.Context) (uint64, error) {
	if err := j.o.Ready(); err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return j.o.Executed.Height(ctx)
}

// choose returns the subnets to compare, the primary network first. All others have their turn.
func (j *Judge) choose() []ids.ID {
	chosen := []ids.ID{constants.PrimaryNetworkID}
	if j.o.Subnets == nil {
		return chosen
	}
	all := slices.DeleteFunc(j.o.Subnets(), func(id ids.ID) bool { return id == constants.PrimaryNetworkID })
	for range min(len(all), subnets) {
		chosen = append(chosen, all[j.turn%len(all)])
		j.turn++
	}
	return chosen
}

// finding is the result of one comparison.
type finding struct {
	standing node.Standing
	text     string
}

// errNothing means that a node reported nothing that can be compared.
var errNothing = errors.New("the node reported nothing that can be compared")

// conclude changes the verdict after a comparison. A node that did not answer keeps its verdict.
func (j *Judge) conclude(n *judged, f finding, err error) {
	if err != nil {
		n.agrees = time.Time{}
		j.o.Log.Debug("an upstream node was not compared", slog.String("chain", j.o.Chain), slog.String("node", n.node.Name()), slog.Any("error", err))
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	before := n.verdict.Standing
	switch {
	case f.standing == node.Lies:
		n.agrees = time.Time{}
	case before == node.Lies:
		if n.agrees.IsZero() {
			n.agrees = time.Now()
		}
		if time.Since(n.agrees) < probation {
			return
		}
	}
	n.verdict.Standing, n.verdict.Text = f.standing, f.text
	n.node.Judge(f.standing, f.text)
	if f.standing == before {
		return
	}
	n.verdict.Since = time.Now()
	log, name := j.o.Log.With(slog.String("chain", j.o.Chain)), slog.String("node", n.node.Name())
	switch {
	case f.standing == node.Lies:
		log.Warn("upstream node contradicts the P-Chain that the validators have accepted; it is not asked any more", name, slog.String("found", f.text))
	case f.standing == node.Lags:
		log.Warn("upstream node lags behind; it is asked last", name, slog.String("found", f.text))
	case before != node.Unjudged:
		log.Info("upstream node agrees again", name)
	}
}
