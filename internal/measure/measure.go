// Package measure measures how fast the validators of a subnet sign. Each round asks every
// validator for a signature on the hash of a block that its EVM chain has just accepted,
// which validators of EVM chains sign for any accepted block. The package verifies the
// signatures and summarises the answers of each validator and of the subnet. It neither
// aggregates signatures nor retries requests.
package measure

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ava-labs/avalanchego/ids"

	"quorate/p2p"
	"quorate/validators"
)

// Transport carries requests to validators; see p2p.Network.
type Transport interface {
	Connected(nodeID ids.NodeID) bool
	Request(ctx context.Context, chainID ids.ID, nodes []ids.NodeID, request []byte, onAnswer func(p2p.Answer)) (sent []ids.NodeID)
	Peers() []p2p.Peer
	Failure(nodeID ids.NodeID) p2p.Failure
	Tracks(nodeID ids.NodeID, subnetID ids.ID) (tracks, known bool)
}

// Sets resolves validator sets. Height 0 means the proposed height.
type Sets interface {
	Set(ctx context.Context, subnetID ids.ID, height uint64) (*validators.Set, error)
}

// Chain is the EVM chain whose blocks are signed.
type Chain interface {
	// Tip returns the height of the newest accepted block.
	Tip(ctx context.Context) (uint64, error)
	// BlockHash returns the hash of the accepted block at a height.
	BlockHash(ctx context.Context, height uint64) (ids.ID, error)
}

// Limits of the settings.
const (
	// MaxRounds bounds the memory of a run: it takes 4 bytes for each round and node, and
	// about 500 bytes for each round.
	MaxRounds = 10_000
	// MinInterval is the least time between the starts of two rounds.
	MinInterval = 50 * time.Millisecond
	// MaxTimeout is the longest time that validators work on a request (avalanchego,
	// utils/constants, DefaultNetworkMaximumInboundTimeout).
	MaxTimeout = 10 * time.Second
)

// Settings are the parameters of a run.
type Settings struct {
	// Rounds is the number of rounds, 1 to MaxRounds.
	Rounds int
	// Interval is the time between the starts of two rounds, at least MinInterval.
	Interval time.Duration
	// Timeout is how long validators have to answer, up to MaxTimeout.
	Timeout time.Duration
	// Settle is how long a block must be known before validators are asked to sign it, so
	// that they have accepted it, too.
	Settle time.Duration
	// Behind is how many blocks below the newest settled one the signed block is.
	Behind uint64
	// Connect is how long the run waits for connections to all validators.
	Connect time.Duration
}

// Check returns an error that names the first setting that is out of range.
func (s Settings) Check() error {
	switch {
	case s.Rounds < 1 || s.Rounds > MaxRounds:
		return fmt.Errorf("%d rounds: use 1 to %d", s.Rounds, MaxRounds)
	case s.Interval < MinInterval:
		return fmt.Errorf("a round each %s: at most one each %s is allowed", s.Interval, MinInterval)
	case s.Timeout <= 0 || s.Timeout > MaxTimeout:
		return fmt.Errorf("timeout %s: use more than 0 s, up to %s", s.Timeout, MaxTimeout)
	case s.Settle < 0 || s.Connect < 0:
		return errors.New("times cannot be negative")
	}
	return nil
}

// Options of a run. All but Progress are required.
type Options struct {
	Settings
	Transport Transport
	Sets      Sets
	Chain     Chain
	NetworkID uint32
	// BlockchainID is the ID of Chain, SourceSubnetID the subnet that validates it, and
	// SubnetID the one whose validators are asked.
	BlockchainID, SourceSubnetID, SubnetID ids.ID
	// Progress is called after each round, and while the run waits for connections; may be
	// nil.
	Progress func(Progress)
}

// Progress is how far a run is.
type Progress struct {
	// Connected is the number of connected nodes, of Nodes.
	Connected, Nodes int
	// Done is the number of completed rounds, of Rounds.
	Done, Rounds int
	// Last is the round that was completed last; nil before.
	Last *Round
}

const (
	// maxFailures is how many times in a row a round may fail to start.
	maxFailures = 5
	// readTimeout is how long the node may take to report a block and the validators.
	readTimeout = 10 * time.Second
)

// ErrNothing reports that a run ended before its first round was complete.
var ErrNothing = errors.New("no round was completed")

// Run measures until all rounds are complete or ctx ends. If ctx ends, the report covers the
// rounds that were complete, and the error is ErrNothing if there are none. If blocks or
// validators cannot be read any more, Run returns the error, and a report unless no round is
// complete.
func Run(ctx context.Context, o Options) (*Report, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	r := &runner{Options: o, blocks: blocks{chain: o.Chain, behind: o.Behind, settle: o.Settle}, tally: newTally()}
	began := time.Now()
	err := r.run(ctx)
	r.tally.peers(o.Transport.Peers())
	if len(r.tally.rounds) == 0 {
		return nil, errors.Join(ErrNothing, err)
	}
	report := r.tally.report(o)
	report.Began, report.Ended, report.Interrupted = began.UTC(), time.Now().UTC(), len(report.Rounds) < o.Rounds
	return report, err
}

// runner is a run in progress.
type runner struct {
	Options
	blocks blocks
	tally  *tally
	open   []*round // not complete, oldest first
	begun  int
}

func (r *runner) run(ctx context.Context) error {
	if err := r.connect(ctx); err != nil {
		return err
	}
	failures := 0
	for r.begun < r.Rounds && ctx.Err() == nil {
		err := r.begin(ctx)
		switch {
		case err == nil:
			failures = 0
		case ctx.Err() == nil:
			if failures++; failures == maxFailures {
				return fmt.Errorf("giving up after %d failures in a row: %w", failures, err)
			}
		}
		r.await(ctx, time.Now().Add(r.Interval))
	}
	for len(r.open) > 0 && ctx.Err() == nil {
		r.await(ctx, time.Now().Add(r.Timeout))
	}
	return nil
}

// connect waits until all nodes of the subnet are connected, at most for Options.Connect. It
// returns an error if the validators cannot be read.
func (r *runner) connect(ctx context.Context) error {
	reading, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	set, err := r.Sets.Set(reading, r.SubnetID, 0)
	if err != nil {
		return fmt.Errorf("reading the validators of subnet %s: %w", r.SubnetID, err)
	}
	nodes := nodesOf(set)
	if len(nodes) == 0 {
		return fmt.Errorf("subnet %s: no validator has a BLS key and a node; check the subnet ID", r.SubnetID)
	}
	timer := time.NewTimer(r.Connect)
	defer timer.Stop()
	for {
		connected := 0
		for _, nodeID := range nodes {
			if r.Transport.Connected(nodeID) {
				connected++
			}
		}
		r.progress(Progress{Connected: connected, Nodes: len(nodes), Rounds: r.Rounds})
		if connected == len(nodes) {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
			return nil
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func (r *runner) progress(p Progress) {
	if r.Progress != nil {
		r.Progress(p)
	}
}

// begin starts a round.
func (r *runner) begin(ctx context.Context) error {
	reading, cancel := context.WithTimeout(ctx, readTimeout+r.Settle)
	defer cancel()
	b, err := r.blocks.next(reading)
	if err != nil {
		return fmt.Errorf("choosing a block: %w", err)
	}
	set, err := r.Sets.Set(reading, r.SubnetID, 0)
	if err != nil {
		return fmt.Errorf("reading the validators of subnet %s: %w", r.SubnetID, err)
	}
	begun, err := r.ask(ctx, b, set)
	if err != nil {
		return err
	}
	r.begun++
	r.open = append(r.open, begun)
	return nil
}

// await waits until every open round is over or next has come, whichever is first. Then it
// judges the answers and waits for next unless no round is left to begin. Judging takes
// processor time, which would delay answers that arrive meanwhile.
func (r *runner) await(ctx context.Context, next time.Time) {
	timer := time.NewTimer(time.Until(next))
	defer timer.Stop()
	fired := false
	for _, o := range r.open {
		select {
		case <-o.over:
		case <-ctx.Done():
		case <-timer.C:
			fired = true
		}
		if fired {
			break
		}
	}
	r.judge()
	if fired || r.begun == r.Rounds {
		return
	}
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// judge judges the answers of all open rounds and closes the rounds that are over.
func (r *runner) judge() {
	var open []*round
	for _, o := range r.open {
		over, cut := o.state() // before the answers are taken: then none follows
		o.judge()
		switch {
		case !over:
			open = append(open, o)
		case !cut:
			r.complete(o)
		}
	}
	r.open = open
}

func (r *runner) complete(o *round) {
	r.finish(o)
	r.tally.peers(r.Transport.Peers())
	last := r.tally.add(o)
	connected := 0
	for _, m := range o.members {
		if m.outcome != notConnected {
			connected++
		}
	}
	r.progress(Progress{Connected: connected, Nodes: len(o.members), Done: len(r.tally.rounds), Rounds: r.Rounds, Last: last})
}
