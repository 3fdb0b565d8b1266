package evmchain

import (
	"github.com/holiman/uint256"

	"github.com/ava-labs/libevm/common"
	"github.com/ava-labs/libevm/crypto"

	"quorate/internal/chain/evm"
)

// frame is a call, as callTracer reports it.
type frame struct {
	op       evm.FrameType
	from, to *account
	value    uint256.Int
	input    []byte
	output   []byte
	failure  string // callTracer's error
	reason   string // of a revert
	// used is the gas used, inner calls included, and before what the outer frame had used
	// when this one began. gas is the gas limit: 63/64 of the outer frame's rest unless fixed.
	used, before, gas uint64
	fixed             bool
	depth             int
	last              int // the index of the last inner frame, or its own
	journal, logs     int // lengths when it began
}

// logged is a log.
type logged struct {
	address common.Address
	topics  []common.Hash
	data    []byte
}

// execution is the execution of one transaction. Frames are in the order in which they begin;
// the first is the transaction itself.
type execution struct {
	*state
	frames []frame
	open   []int // indexes of the frames that have not ended
	logs   []logged
	made   []*contract // contracts whose creation began, failed ones included
	moved  []moved     // transfers of tokens
}

// moved is a transfer with the index of its log in the transaction.
type moved struct {
	evm.Transfer
	log int
}

// Approximate gas costs.
const (
	gasTransaction = 21_000
	gasCreation    = 32_000
	gasCall        = 2_600
	gasValue       = 9_000
	gasStore       = 5_000
	gasLog         = 1_125
	gasCodeByte    = 200
	gasDataByte    = 16
)

func (x *execution) reset() {
	x.frames, x.open, x.logs, x.journal = x.frames[:0], x.open[:0], x.logs[:0], x.journal[:0]
	x.made, x.moved = x.made[:0], x.moved[:0]
}

// enter begins a call. It returns false if the value exceeds the balance: the call has then
// failed and ended.
func (x *execution) enter(op evm.FrameType, from, to *account, value *uint256.Int, input []byte) bool {
	f := frame{op: op, from: from, to: to, value: *value, input: input, last: len(x.frames), journal: len(x.journal), logs: len(x.logs), depth: len(x.open)}
	if f.depth > 0 {
		x.burn(gasCall)
		if !value.IsZero() {
			x.burn(gasValue)
		}
		f.before = x.top().used
	}
	x.frames = append(x.frames, f)
	x.open = append(x.open, f.last)
	moves := op == evm.FrameCall || op == evm.FrameCreate || op == evm.FrameCreate2 || op == evm.FrameSelfDestruct
	if moves && !x.move(from, to, value) {
		x.fail("insufficient balance for transfer", nil)
		return false
	}
	return true
}

func (x *execution) top() *frame { return &x.frames[x.open[len(x.open)-1]] }

// burn uses gas.
func (x *execution) burn(gas uint64) { x.top().used += gas }

// exit ends a call successfully.
func (x *execution) exit(output []byte) {
	f := x.top()
	f.output = output
	x.close()
}

// fail ends a call with a failure, which undoes all that it did.
func (x *execution) fail(failure string, output []byte) {
	f := x.top()
	f.failure = failure
	x.undo(f.journal)
	x.logs = x.logs[:f.logs]
	for len(x.moved) > 0 && x.moved[len(x.moved)-1].log >= f.logs {
		x.moved = x.moved[:len(x.moved)-1]
	}
	if failure == reverted {
		f.output, f.reason = output, reasonOf(output)
	}
	x.close()
}

func (x *execution) close() {
	at := x.open[len(x.open)-1]
	x.open = x.open[:len(x.open)-1]
	if len(x.open) == 0 {
		return
	}
	f, around := &x.frames[at], x.top()
	around.used += f.used
	around.last = len(x.frames) - 1
	f.last = len(x.frames) - 1
}

// Failures as the EVM reports them.
const (
	reverted   = "execution reverted"
	outOfGas   = "out of gas"
	codeTooBig = "max code size exceeded"
)

// call makes a call that only transfers value. It returns false if that fails.
func (x *execution) call(from, to *account, value *uint256.Int) bool {
	if !x.enter(evm.FrameCall, from, to, value, nil) {
		return false
	}
	x.exit(nil)
	return true
}

// transferred notes the token transfer that the next log reports; a nil account is the zero
// address.
func (x *execution) transferred(c *contract, from, to *account, position int, id, amount *uint256.Int) {
	x.moved = append(x.moved, moved{log: len(x.logs), Transfer: evm.Transfer{
		Standard: c.standard(), Contract: c.at.address, Position: uint32(position),
		From: addressOf(from), To: addressOf(to), TokenID: *id, Amount: *amount,
	}})
}

// emit adds a log.
func (x *execution) emit(address common.Address, data []byte, topics ...common.Hash) {
	x.burn(gasLog * uint64(len(topics)+1))
	x.logs = append(x.logs, logged{address: address, topics: topics, data: data})
}

// create begins the creation of a contract, with CREATE2 if there is a salt. Without one the
// address follows from the creator's nonce. A creation inside a transaction increases that
// nonce.
func (x *execution) create(from *account, c *contract, value *uint256.Int, salt *common.Hash) bool {
	input := c.initCode()
	op, nonce := evm.FrameCreate, from.nonce
	if len(x.open) > 0 {
		from.nonce++
		x.journal = append(x.journal, change{undo: func() { from.nonce-- }})
	}
	var at *account
	if salt != nil {
		op = evm.FrameCreate2
		at = x.account(crypto.CreateAddress2(from.address, *salt, crypto.Keccak256(input)))
	} else {
		at = x.account(crypto.CreateAddress(from.address, nonce))
	}
	c.at = at
	if len(x.open) > 0 {
		c.maker = from
	}
	if !x.enter(op, from, at, value, input) {
		return false
	}
	x.burn(gasCreation + uint64(len(input))*gasDataByte/4)
	before := at.nonce
	at.code, at.nonce, c.since = c, 1, x.block
	x.made = append(x.made, c)
	x.journal = append(x.journal, change{undo: func() { at.code, at.nonce, c.failed = nil, before, true }})
	return true
}

// created ends a creation successfully.
func (x *execution) created(c *contract) {
	code := c.code()
	x.burn(gasCodeByte * uint64(len(code)))
	x.exit(code)
}

// settle sets the gas limits of the frames of a transaction with a gas limit.
func (x *execution) settle(limit uint64) {
	x.frames[0].gas = limit
	var around []int
	for i := range x.frames {
		f := &x.frames[i]
		around = around[:f.depth]
		if f.depth > 0 && !f.fixed {
			if outer := &x.frames[around[f.depth-1]]; f.op != evm.FrameSelfDestruct {
				left := outer.gas - min(f.before, outer.gas)
				f.gas = max(left-left/64, f.used)
			}
		}
		around = append(around, i)
	}
}
