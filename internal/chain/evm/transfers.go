package evm

import (
	"github.com/holiman/uint256"

	"github.com/ava-labs/libevm/common"
	"github.com/ava-labs/libevm/crypto"
)

// First topics of the logs that this package interprets.
var (
	transferTopic = crypto.Keccak256Hash([]byte("Transfer(address,address,uint256)"))                                                  // ERC-20, ERC-721
	singleTopic   = crypto.Keccak256Hash([]byte("TransferSingle(address,address,address,uint256,uint256)"))                            // ERC-1155
	batchTopic    = crypto.Keccak256Hash([]byte("TransferBatch(address,address,address,uint256[],uint256[])"))                         // ERC-1155
	sentTopic     = crypto.Keccak256Hash([]byte("SendCrossChainMessage(bytes32,bytes32," + teleporterMessage + ",(address,uint256))")) // Teleporter
	receivedTopic = crypto.Keccak256Hash([]byte("ReceiveCrossChainMessage(bytes32,bytes32,address,address," + teleporterMessage + ")"))
)

// teleporterMessage is the ABI type of a Teleporter message (ava-labs/icm-contracts).
const teleporterMessage = "(uint256,address,bytes32,address,uint256,address[],(uint256,address)[],bytes)"

const word = 32

// Transfers returns the token movements that a log describes, or none if the log is of another kind or malformed. It
// does not check that the contract follows the standard: any contract can emit such a log.
func Transfers(l *Log) []Transfer {
	if len(l.Topics) == 0 {
		return nil
	}
	t := Transfer{Contract: l.Address, LogIndex: l.Index}
	switch {
	case l.Topics[0] == transferTopic && len(l.Topics) == 3 && len(l.Data) == word:
		t.Standard = ERC20
		t.Amount.SetBytes(l.Data)
		return one(t, l.Topics[1:])
	case l.Topics[0] == transferTopic && len(l.Topics) == 4 && len(l.Data) == 0:
		t.Standard = ERC721
		t.TokenID.SetBytes(l.Topics[3][:])
		t.Amount.SetOne()
		return one(t, l.Topics[1:])
	case l.Topics[0] == singleTopic && len(l.Topics) == 4 && len(l.Data) == 2*word:
		t.Standard = ERC1155
		t.TokenID.SetBytes(l.Data[:word])
		t.Amount.SetBytes(l.Data[word:])
		return one(t, l.Topics[2:])
	case l.Topics[0] == batchTopic && len(l.Topics) == 4:
		t.Standard = ERC1155
		return batch(t, l.Topics[2:], l.Data)
	}
	return nil
}

// one completes a transfer with its sender and recipient.
func one(t Transfer, parties []common.Hash) []Transfer {
	var ok [2]bool
	t.From, ok[0] = party(parties[0])
	t.To, ok[1] = party(parties[1])
	if !ok[0] || !ok[1] {
		return nil
	}
	return []Transfer{t}
}

// party returns the address in a topic; false if the padding is not zero.
func party(h common.Hash) (common.Address, bool) {
	const padding = common.HashLength - common.AddressLength
	return common.Address(h[padding:]), [padding]byte(h[:padding]) == [padding]byte{}
}

// batch returns the transfers of an ERC-1155 batch, which has two arrays (Solidity ABI).
func batch(t Transfer, parties []common.Hash, data []byte) []Transfer {
	first := one(t, parties)
	tokens, ok := words(data, 0)
	amounts, ok2 := words(data, word)
	if first == nil || !ok || !ok2 || len(tokens) != len(amounts) {
		return nil
	}
	all := make([]Transfer, 0, len(tokens)/word)
	for at := 0; at < len(tokens); at += word {
		t := first[0]
		t.Position = uint32(at / word)
		t.TokenID.SetBytes(tokens[at : at+word])
		t.Amount.SetBytes(amounts[at : at+word])
		all = append(all, t)
	}
	return all
}

// words returns the elements of the array whose offset is stored at head.
func words(data []byte, head int) ([]byte, bool) {
	offset, ok := size(data, head)
	if !ok {
		return nil, false
	}
	n, ok := size(data, offset)
	rest := len(data) - offset - word
	if !ok || n > rest/word {
		return nil, false
	}
	return data[offset+word:][:n*word], true
}

// size returns the word at a position. It returns false if the word is missing or exceeds the data's length.
func size(data []byte, at int) (int, bool) {
	if at > len(data)-word {
		return 0, false
	}
	var n uint256.Int
	n.SetBytes(data[at : at+word])
	if !n.IsUint64() || n.Uint64() > uint64(len(data)) {
		return 0, false
	}
	return int(n.Uint64()), true
}
