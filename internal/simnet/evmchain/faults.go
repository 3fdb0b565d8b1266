package evmchain

import (
	"net"
	"net/http"
)

// TracingFault is a reason for which a node returns no traces.
type TracingFault uint8

const (
	// Traces means that the node returns traces.
	Traces TracingFault = iota
	// NoTracer is a node without the debug API.
	NoTracer
	// TraceCrash is a node whose tracer fails.
	TraceCrash
)

// Faults make a node misbehave. The zero value is a correct node.
type Faults struct {
	Tracing TracingFault
	// First is the first block after the genesis block that the node has: it state-synced.
	First uint64
	// Behind is the number of newest blocks that the node does not know.
	Behind uint64
	// Every limits the faults below to every n-th answer; 0 means all answers.
	Every uint64
	// Truncated cuts answers in half; the HTTP response is complete.
	Truncated bool
	// Reset resets the connection in the middle of an answer.
	Reset bool
	// HalfBatch leaves out every other answer of a batch.
	HalfBatch bool
}

// SetFaults changes the node's faults, from the next call on.
func (n *Node) SetFaults(f Faults) { n.faults.Store(&f) }

// write writes an answer. Truncated and Reset end it in the middle.
func (f *Faults) write(w http.ResponseWriter, answer []byte) {
	if f.Truncated || f.Reset {
		answer = answer[:len(answer)/2]
	}
	_, _ = w.Write(answer)
	if !f.Reset {
		return
	}
	control := http.NewResponseController(w)
	_ = control.Flush()
	conn, _, err := control.Hijack()
	if err != nil {
		panic(http.ErrAbortHandler) // it closes the connection, too
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // closing resets the connection
	}
	_ = conn.Close()
}
