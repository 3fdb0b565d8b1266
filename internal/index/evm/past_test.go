package evm_test

import (
	"encoding/binary"
	"math/rand/v2"

	"github.com/holiman/uint256"

	"github.com/ava-labs/libevm/common"
	"github.com/ava-labs/libevm/crypto"

	chain "quorate/internal/chain/evm"
	"quorate/internal/index/evm"
)

// past is a random history of a chain. It keeps what happened apart from the logs.
type past struct {
	rng       *rand.Rand
	blocks    []*chain.Block
	transfers []evm.TokenTransfer
	// messages are those of transactions, by their hash.
	messages  map[common.Hash]*chain.Message
	wallets   []common.Address
	contracts []common.Address
	created   []common.Address
	log       uint32
	hashes    uint64
}

type pastOptions struct {
	first  uint64
	blocks int
	// quiet is how many blocks have no transactions, of a hundred.
	quiet int
	// untraced says of blocks that their calls are not known.
	untraced func(number uint64) bool
}

// The contracts of a past, and what they are. Some lie, some are none.
var (
	multi, otherMulti, lastMulti = address(0x30), address(0x10), common.HexToAddress("0xffffffffffffffffffffffffffffffffffffffff")
	nft, coin, impostor, unused  = address(0x21), address(0x22), address(0x20), address(0x23)
	standards                    = map[common.Address]chain.Standard{
		multi: chain.ERC1155, otherMulti: chain.ERC1155, lastMulti: chain.ERC1155, nft: chain.ERC721, coin: chain.ERC20, impostor: chain.Unknown,
	}
)

func address(n byte) common.Address { return common.Address{n, 19: n} }

func newPast(seed uint64, o pastOptions) *past {
	p := &past{
		rng: rand.New(rand.NewPCG(seed, 7)), messages: make(map[common.Hash]*chain.Message),
		wallets:   []common.Address{{}, address(1), address(2), address(3), lastMulti},
		contracts: []common.Address{multi, otherMulti, lastMulti, nft, coin, impostor, unused},
	}
	now := uint64(1_700_000_000)
	for i := range o.blocks {
		switch p.rng.IntN(30) {
		case 0:
			now += p.rng.Uint64N(4 * 86_400)
		case 1, 2:
		default:
			now += p.rng.Uint64N(3600)
		}
		b := &chain.Block{Number: o.first + uint64(i), Hash: p.hash(), Time: now, Traced: o.untraced == nil || !o.untraced(o.first+uint64(i))}
		if i > 0 {
			b.ParentHash = p.blocks[i-1].Hash
		}
		switch p.rng.IntN(4) {
		case 0:
			b.Milliseconds = 1000*now + p.rng.Uint64N(1000)
			excess := p.rng.Uint64()
			b.MinDelayExcess = &excess
		case 1:
			b.Milliseconds = p.rng.Uint64() // which contradicts Time
		}
		if p.rng.IntN(3) > 0 {
			b.BaseFee = p.amount()
		}
		p.log = p.rng.Uint32N(3)
		if p.rng.IntN(100) >= o.quiet {
			for range p.rng.IntN(6) {
				p.tx(b)
			}
		}
		p.blocks = append(p.blocks, b)
	}
	return p
}

func (p *past) hash() common.Hash {
	p.hashes++
	return crypto.Keccak256Hash(binary.BigEndian.AppendUint64(nil, p.hashes), []byte{byte(p.rng.Uint32())})
}

func pick[T any](p *past, from []T) T { return from[p.rng.IntN(len(from))] }

// amount is small, great, or anything.
func (p *past) amount() *uint256.Int {
	switch p.rng.IntN(8) {
	case 0:
		return new(uint256.Int).SetAllOne()
	case 1:
		return &uint256.Int{p.rng.Uint64(), p.rng.Uint64(), p.rng.Uint64(), p.rng.Uint64()}
	default:
		return uint256.NewInt(p.rng.Uint64N(6))
	}
}

func (p *past) someone() common.Address {
	if p.rng.IntN(4) == 0 {
		return pick(p, p.contracts)
	}
	return pick(p, p.wallets)
}

// place is where a contract is made: sometimes where there was one before.
func (p *past) place() common.Address {
	if len(p.created) > 0 && p.rng.IntN(3) == 0 {
		return pick(p, p.created)
	}
	a := common.BytesToAddress(p.hash().Bytes())
	p.created = append(p.created, a)
	return a
}

func (p *past) tx(b *chain.Block) {
	tx := chain.Transaction{
		Hash: p.hash(), Type: uint8(p.rng.IntN(4)), Nonce: p.rng.Uint64() >> p.rng.IntN(64), From: p.someone(), Value: *p.amount(),
		GasLimit: p.rng.Uint64() >> p.rng.IntN(64), GasUsed: p.rng.Uint64N(1e6), GasPrice: *p.amount(), Success: p.rng.IntN(5) > 0,
	}
	if tx.Type >= 2 {
		tx.MaxFee, tx.MaxPriorityFee = p.amount(), p.amount()
	}
	if n := p.rng.IntN(9); n > 0 {
		tx.Input = make([]byte, n+60*p.rng.IntN(2))
		for i := range tx.Input {
			tx.Input[i] = byte(p.rng.Uint32())
		}
	}
	switch p.rng.IntN(5) {
	case 0:
		tx.Created = p.place()
	default:
		to := p.someone()
		tx.To = &to
	}
	if b.Traced {
		p.frames(&tx)
	}
	if tx.Success {
		for range p.rng.IntN(5) {
			p.logs(b, &tx)
		}
	}
	b.Transactions = append(b.Transactions, tx)
}

func (p *past) frames(tx *chain.Transaction) {
	for range p.rng.IntN(5) {
		f := chain.Frame{
			Type: chain.FrameType(p.rng.IntN(int(chain.FrameSelfDestruct) + 1)), From: p.someone(), To: p.someone(), Value: *p.amount(),
			Gas: p.rng.Uint64() >> p.rng.IntN(64), GasUsed: p.rng.Uint64N(1e6), Depth: uint16(1 + p.rng.IntN(1024)),
			Reverted: !tx.Success && p.rng.IntN(10) > 0 || p.rng.IntN(5) == 0,
		}
		if f.Creates() {
			switch p.rng.IntN(4) {
			case 0:
				f.To = common.Address{} // it failed early, or so it says
			default:
				f.To = p.place()
			}
			if p.rng.IntN(4) == 0 {
				f.From = tx.From
			}
		}
		tx.Frames = append(tx.Frames, f)
	}
}

var (
	topicTransfer = crypto.Keccak256Hash([]byte("Transfer(address,address,uint256)"))
	topicSingle   = crypto.Keccak256Hash([]byte("TransferSingle(address,address,address,uint256,uint256)"))
	topicBatch    = crypto.Keccak256Hash([]byte("TransferBatch(address,address,address,uint256[],uint256[])"))
	topicWarp     = crypto.Keccak256Hash([]byte("SendWarpMessage(address,bytes32,bytes)"))
	// As the published ABI has them.
	topicSent     = common.HexToHash("0x2a211ad4a59ab9d003852404f9c57c690704ee755f3c79d2c2812ad32da99df8")
	topicReceived = common.HexToHash("0x292ee90bbaf70b5d4936025e09d56ba08f3e421156b6a568cf3c2840d9343e34")
	warp          = common.HexToAddress("0x0200000000000000000000000000000000000005")
)

func topicOf(a common.Address) common.Hash { return common.BytesToHash(a[:]) }

// logs adds a log, and notes what it means.
func (p *past) logs(b *chain.Block, tx *chain.Transaction) {
	l := chain.Log{Index: p.log, Address: pick(p, p.contracts)}
	p.log += 1 + p.rng.Uint32N(2)
	from, to := pick(p, p.wallets), pick(p, p.wallets)
	t := chain.Transfer{Contract: l.Address, LogIndex: l.Index, From: from, To: to}
	note := func() {
		p.transfers = append(p.transfers, evm.TokenTransfer{Block: ref(b), TxHash: tx.Hash, Transfer: t})
	}
	switch p.rng.IntN(12) {
	case 0:
		l.Topics = []common.Hash{topicTransfer, topicOf(from), topicOf(to)}
		t.Standard, t.Amount = chain.ERC20, *p.amount()
		word := t.Amount.Bytes32()
		l.Data = word[:]
		note()
	case 1, 2, 3:
		t.Standard, t.TokenID = chain.ERC721, *p.tokenID()
		t.Amount.SetOne()
		l.Topics = []common.Hash{topicTransfer, topicOf(from), topicOf(to), t.TokenID.Bytes32()}
		note()
	case 4, 5, 6:
		t.Standard, t.TokenID, t.Amount = chain.ERC1155, *p.tokenID(), *p.amount()
		l.Topics = []common.Hash{topicSingle, topicOf(p.someone()), topicOf(from), topicOf(to)}
		id, amount := t.TokenID.Bytes32(), t.Amount.Bytes32()
		l.Data = append(id[:], amount[:]...)
		note()
	case 7, 8:
		l.Topics = []common.Hash{topicBatch, topicOf(p.someone()), topicOf(from), topicOf(to)}
		n := p.rng.IntN(4)
		count := uint256.NewInt(uint64(n)).Bytes32()
		ids, amounts := count[:], append([]byte(nil), count[:]...)
		for i := range n {
			t.Standard, t.Position, t.TokenID, t.Amount = chain.ERC1155, uint32(i), *p.tokenID(), *p.amount()
			id, amount := t.TokenID.Bytes32(), t.Amount.Bytes32()
			ids, amounts = append(ids, id[:]...), append(amounts, amount[:]...)
			note()
		}
		for _, at := range []int{64, 64 + len(ids)} {
			offset := uint256.NewInt(uint64(at)).Bytes32()
			l.Data = append(l.Data, offset[:]...)
		}
		l.Data = append(append(l.Data, ids...), amounts...)
	case 9: // not as it should be
		l.Topics = [][]common.Hash{
			nil, {topicSingle}, {topicBatch, {}, {}, {}}, {topicTransfer, topicOf(from)}, {topicSingle, {}, {1}, {}}, {topicWarp, {}, {}}, {topicSent, {}, {}},
		}[p.rng.IntN(7)]
		l.Data = make([]byte, p.rng.IntN(3)*32)
	case 10:
		l.Address = chain.Teleporter
		l.Topics = []common.Hash{topicSent, p.hash(), p.hash()}
		m := &chain.Message{ID: l.Topics[1], BlockchainID: [32]byte(l.Topics[2])}
		if p.rng.IntN(2) == 0 {
			l.Topics = append([]common.Hash{topicReceived}, append(l.Topics[1:], topicOf(from))...)
			m.Delivered = true
		}
		if was := p.messages[tx.Hash]; was == nil || was.BlockchainID == [32]byte{} {
			p.messages[tx.Hash] = m
		}
	default:
		l.Address = warp
		l.Topics = []common.Hash{topicWarp, topicOf(from), p.hash()}
		if p.messages[tx.Hash] == nil {
			p.messages[tx.Hash] = &chain.Message{ID: l.Topics[2]}
		}
	}
	tx.Logs = append(tx.Logs, l)
}

func (p *past) tokenID() *uint256.Int {
	if p.rng.IntN(10) == 0 {
		return new(uint256.Int).SetAllOne()
	}
	return uint256.NewInt(p.rng.Uint64N(4) << (p.rng.IntN(3) * 20))
}

func ref(b *chain.Block) evm.BlockRef {
	return evm.BlockRef{Number: b.Number, Hash: b.Hash, Time: b.Time, Milliseconds: b.Milliseconds, MinDelayExcess: b.MinDelayExcess, BaseFee: b.BaseFee}
}
