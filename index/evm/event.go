package evm

import (
	"encoding/binary"

	"github.com/holiman/uint256"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/libevm/common"

	"quorate/chain/evm"
)

// Events are told by their first topic, the Keccak-256 of their signature.
var (
	// Transfer(address,address,uint256) of ERC-20 and ERC-721, which differ in
	// whether the last is indexed.
	transferTopic = common.HexToHash("0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef")
	// TransferSingle(address,address,address,uint256,uint256) of ERC-1155.
	transferSingleTopic = common.HexToHash("0xc3d58168c5ae7397731d063d5bbf3d657854427343f4c083240f7aacaa2d0f62")
	// TransferBatch(address,address,address,uint256[],uint256[]) of ERC-1155.
	transferBatchTopic = common.HexToHash("0x4a39dc06d4c0dbc64b70af90fd698a233a518aa5d07e595d983b8c0526c8f7fb")

	// SendCrossChainMessage(bytes32,bytes32,...) of Teleporter (ICM contracts): the
	// message and the blockchain it goes to are indexed.
	sendCrossChainTopic = common.HexToHash("0x2a211ad4a59ab9d003852404f9c57c690704ee755f3c79d2c2812ad32da99df8")
	// ReceiveCrossChainMessage(bytes32,bytes32,address,address,...): the message, the
	// blockchain it comes from and who delivered it are indexed.
	receiveCrossChainTopic = common.HexToHash("0x292ee90bbaf70b5d4936025e09d56ba08f3e421156b6a568cf3c2840d9343e34")

	// SendWarpMessage(address,bytes32,bytes) of the Warp precompile: the sender and
	// the message's ID are indexed.
	sendWarpTopic  = common.HexToHash("0x56600c567728a800c0aa927500f831cb451df66a7af570eb4df4dfbf4674887d")
	warpPrecompile = common.HexToAddress("0x0200000000000000000000000000000000000005")
)

// messageOf is the interchain message that the logs of a transaction tell: the first
// of Teleporter, else the first that was sent without it, whose destination nobody
// knows; nil if there is none.
func messageOf(logs []evm.Log) *InterchainMessage {
	var sent *InterchainMessage
	for i := range logs {
		l := &logs[i]
		if len(l.Topics) < 3 {
			continue
		}
		switch {
		case l.Topics[0] == sendCrossChainTopic, l.Topics[0] == receiveCrossChainTopic && len(l.Topics) == 4:
			return &InterchainMessage{ID: l.Topics[1], Delivered: l.Topics[0] == receiveCrossChainTopic, BlockchainID: ids.ID(l.Topics[2])}
		case sent == nil && l.Topics[0] == sendWarpTopic && l.Address == warpPrecompile:
			sent = &InterchainMessage{ID: l.Topics[2]}
		}
	}
	return sent
}

// appendTransfers appends the transfers that a log tells. One that is not as the
// standards have it tells none.
func appendTransfers(to []evm.Transfer, l *evm.Log) []evm.Transfer {
	if len(l.Topics) == 0 {
		return to
	}
	switch l.Topics[0] {
	case transferTopic:
		t := evm.Transfer{Contract: l.Address, LogIndex: l.Index}
		switch {
		case len(l.Topics) == 3 && len(l.Data) == 32:
			t.Standard = evm.ERC20
			t.Amount.SetBytes(l.Data)
		case len(l.Topics) == 4 && len(l.Data) == 0:
			t.Standard = evm.ERC721
			t.TokenID.SetBytes(l.Topics[3][:])
			t.Amount.SetOne()
		default:
			return to
		}
		if !parties(&t, l.Topics[1:3]) {
			return to
		}
		return append(to, t)
	case transferSingleTopic:
		t := evm.Transfer{Standard: evm.ERC1155, Contract: l.Address, LogIndex: l.Index}
		if len(l.Topics) != 4 || len(l.Data) != 64 || !parties(&t, l.Topics[2:]) {
			return to
		}
		t.TokenID.SetBytes(l.Data[:32])
		t.Amount.SetBytes(l.Data[32:])
		return append(to, t)
	case transferBatchTopic:
		t := evm.Transfer{Standard: evm.ERC1155, Contract: l.Address, LogIndex: l.Index}
		if len(l.Topics) != 4 || !parties(&t, l.Topics[2:]) {
			return to
		}
		tokens, amounts := list(l.Data, 0), list(l.Data, 32)
		if len(tokens) != len(amounts) {
			return to
		}
		for i := 0; i < len(tokens); i += 32 {
			t.Position = uint32(i / 32)
			t.TokenID.SetBytes(tokens[i : i+32])
			t.Amount.SetBytes(amounts[i : i+32])
			to = append(to, t)
		}
	}
	return to
}

// parties reads sender and recipient; false if they are no addresses.
func parties(t *evm.Transfer, topics []common.Hash) bool {
	for i, to := range []*common.Address{&t.From, &t.To} {
		if [12]byte(topics[i][:12]) != [12]byte{} {
			return false
		}
		copy(to[:], topics[i][12:])
	}
	return true
}

// list is the content of an ABI-encoded array of words, whose offset stands at a
// place; nil if it reaches beyond the data, or is empty.
func list(data []byte, at int) []byte {
	offset, ok := word(data, uint64(at))
	if !ok {
		return nil
	}
	n, ok := word(data, offset)
	if !ok || n > uint64(len(data))/32 {
		return nil
	}
	begin := offset + 32
	if n*32 > uint64(len(data))-begin {
		return nil
	}
	return data[begin : begin+n*32]
}

// word is the number at a place, if it is there and below 2^64.
func word(data []byte, at uint64) (uint64, bool) {
	if uint64(len(data)) < 32 || at > uint64(len(data))-32 {
		return 0, false
	}
	var n uint256.Int
	n.SetBytes(data[at : at+24])
	return binary.BigEndian.Uint64(data[at+24:]), n.IsZero()
}
