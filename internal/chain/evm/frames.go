package evm

import (
	"github.com/ava-labs/libevm/common"
)

// maxDepth exceeds the EVM's limit of 1,024 nested calls.
const maxDepth = 1100

func (d *decoder) readTraces(s *jsonScanner) {
	read := 0
	s.array(func(i int) {
		if i >= len(d.block.Transactions) {
			s.fail("more traces than the %d transactions", len(d.block.Transactions))
			return
		}
		d.readTrace(s, &d.block.Transactions[i])
		read++
	})
	if read != len(d.block.Transactions) {
		s.fail("%d traces for %d transactions", read, len(d.block.Transactions))
	}
}

func (d *decoder) readTrace(s *jsonScanner, tx *Transaction) {
	var result bool
	s.object(func(name []byte) {
		switch string(name) {
		case "txHash":
			d.same(s, "transaction", s.hash(), tx.Hash)
		case "error":
			s.optional(func() { s.fail("transaction %s has no trace: %.40q", tx.Hash, s.text()) })
		case "result":
			if result {
				s.fail("two traces of one transaction")
				return
			}
			result = true
			f := frames{found: make([]Frame, 0, 4)}
			f.read(s, 0)
			tx.Frames = f.conclude(s, tx)
		default:
			s.skip()
		}
	})
	if !result {
		s.fail("transaction %s has no trace", tx.Hash)
	}
}

// frames collects the flattened call frames of a transaction.
type frames struct {
	found []Frame // the top-level frame first
}

// read parses a frame and its nested frames. It reserves the frame's position first, because fields of the frame may
// follow the nested frames.
func (f *frames) read(s *jsonScanner, depth uint16) {
	if depth > maxDepth {
		s.fail("more than %d nested calls", maxDepth)
		return
	}
	at := len(f.found)
	own := Frame{Depth: depth}
	f.found = append(f.found, own)
	var typed, from bool
	s.object(func(name []byte) {
		switch string(name) {
		case "type":
			typed = true
			own.Type = frameType(s.text())
		case "from":
			own.From, from = s.address(), true
		case "to":
			s.optional(func() { own.To = s.address() })
		case "value":
			s.optional(func() { own.Value = s.big() })
		case "gas":
			own.Gas = s.number()
		case "gasUsed":
			own.GasUsed = s.number()
		case "error":
			s.optional(func() { own.Reverted = len(s.text()) > 0 })
		case "calls":
			s.optional(func() { s.array(func(int) { f.read(s, depth+1) }) })
		default:
			s.skip()
		}
	})
	if !typed || !from {
		s.fail("a call frame lacks its type or sender")
	}
	if own.Type == FrameDelegateCall || own.Type == FrameStaticCall {
		own.Value.Clear() // the value belongs to the enclosing call
	}
	f.found[at] = own
	if own.Reverted {
		f.revert(at)
	}
}

func (f *frames) revert(from int) {
	for i := from; i < len(f.found); i++ {
		f.found[i].Reverted = true
	}
}

// conclude removes the top-level frame and checks that it matches tx.
func (f *frames) conclude(s *jsonScanner, tx *Transaction) []Frame {
	if s.err != nil {
		return nil
	}
	if own := f.found[0]; own.From != tx.From || own.To != tx.recipient() && own.To != (common.Address{}) {
		s.fail("the trace of %s describes a call from %s to %s", tx.Hash, own.From, own.To)
		return nil
	}
	if !tx.Success {
		f.revert(0)
	}
	return f.found[1:len(f.found):len(f.found)]
}

func (t *Transaction) recipient() common.Address {
	if t.To != nil {
		return *t.To
	}
	return t.Created
}

func frameType(text []byte) FrameType {
	switch string(text) {
	case "CALL":
		return FrameCall
	case "CALLCODE":
		return FrameCallCode
	case "DELEGATECALL":
		return FrameDelegateCall
	case "STATICCALL":
		return FrameStaticCall
	case "CREATE":
		return FrameCreate
	case "CREATE2":
		return FrameCreate2
	case "SELFDESTRUCT":
		return FrameSelfDestruct
	}
	return FrameUnknown
}
