package evmchain

import (
	"context"
	"net"
	"net/http"
	"time"
)

// TracingFault is how a node does not trace.
type TracingFault uint8

const (
	// Traces are given.
	Traces TracingFault = iota
	// NoTracer is a node without the debug API.
	NoTracer
	// StateMissing is a node that has pruned the state that it would need.
	StateMissing
	// TraceTimeout is a node on which an execution took too long.
	TraceTimeout
	// TraceCrash is a node whose tracer fails.
	TraceCrash
)

// Faults make a node misbehave. The zero value is a good one.
type Faults struct {
	Tracing TracingFault
	// First is the first block after the genesis block that the node has: it state-synced.
	First uint64
	// Behind is by how many blocks the node jumps back: it knows nothing of them.
	Behind uint64
	// Every says which answers the following is about: each so-many-th; 0 means all.
	Every uint64
	// Truncated answers end in the middle, in a response that does not.
	Truncated bool
	// Reset breaks the connection off in the middle of an answer.
	Reset bool
	// HalfBatch leaves out every other answer of a batch.
	HalfBatch bool
	// Drip is how long the node rests before each 4 KiB of an answer.
	Drip time.Duration
}

// SetFaults changes how the node misbehaves, from the next call on.
func (n *Node) SetFaults(f Faults) { n.faults.Store(&f) }

// write writes an answer, as well as the node does.
func (f *Faults) write(ctx context.Context, w http.ResponseWriter, answer []byte) {
	if f.Truncated {
		answer = answer[:len(answer)/2]
	}
	if !f.Reset && f.Drip == 0 {
		_, _ = w.Write(answer)
		return
	}
	control := http.NewResponseController(w)
	const piece = 4096
	for sent := 0; sent < len(answer); sent += piece {
		if f.Reset && sent >= len(answer)/2 {
			break
		}
		timer := time.NewTimer(f.Drip)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		if _, err := w.Write(answer[sent:min(sent+piece, len(answer))]); err != nil {
			return // whoever asked is gone
		}
		_ = control.Flush()
	}
	if !f.Reset {
		return
	}
	conn, _, err := control.Hijack()
	if err != nil {
		panic(http.ErrAbortHandler) // breaks it off, too
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // no goodbye
	}
	_ = conn.Close()
}
