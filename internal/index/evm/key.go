package evm

import (
	"encoding/binary"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/libevm/common"

	"quorate/internal/store"
)

// chainKey is what the partitions of a chain begin with: the network ID and the
// beginning of the blockchain's ID. The head row has all of the ID, so that two
// chains that begin alike are told apart before they mix.
type chainKey [12]byte

func keyOf(networkID uint32, blockchainID ids.ID) (c chainKey) {
	binary.BigEndian.PutUint32(c[:], networkID)
	copy(c[4:], blockchainID[:])
	return c
}

// partition begins with the chain and goes on with parts.
func (c *chainKey) partition(parts ...[]byte) []byte {
	n := len(c)
	for _, part := range parts {
		n += len(part)
	}
	p := append(make([]byte, 0, n), c[:]...)
	for _, part := range parts {
		p = append(p, part...)
	}
	return p
}

// rangeBits is such that a range of heights, into which lists of a whole chain are
// divided, has 4,096 of them.
const rangeBits = 12

func uint64Key(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }

// newestKey orders by a number, the greatest first.
func newestKey(n uint64) []byte { return uint64Key(^n) }

// place is where something stands on a chain; as a key it begins with the newest.
// What major and minor count differs: transaction and call inside it, or log and
// item of its batch.
type place struct {
	number       uint64
	major, minor uint32
}

const (
	placeSize   = 16
	txPlaceSize = 12
)

func (p place) appendTo(k []byte) []byte {
	k = binary.BigEndian.AppendUint64(k, ^p.number)
	k = binary.BigEndian.AppendUint32(k, ^p.major)
	return binary.BigEndian.AppendUint32(k, ^p.minor)
}

// appendTx appends the place without minor, that of a transaction.
func (p place) appendTx(k []byte) []byte {
	k = binary.BigEndian.AppendUint64(k, ^p.number)
	return binary.BigEndian.AppendUint32(k, ^p.major)
}

// placeOf reads a key of either size.
func placeOf(k []byte) (p place, ok bool) {
	if len(k) != placeSize && len(k) != txPlaceSize {
		return place{}, false
	}
	p.number, p.major = ^binary.BigEndian.Uint64(k), ^binary.BigEndian.Uint32(k[8:])
	if len(k) == placeSize {
		p.minor = ^binary.BigEndian.Uint32(k[12:])
	}
	return p, true
}

// Parts of FamilyEVMDeployment, in this order.
const (
	deploymentTx byte = iota
	deploymentTransfer
	deploymentInternal
)

// deploymentPartition is that of the transaction at a place.
func (c *chainKey) deploymentPartition(p place) []byte {
	b := append(make([]byte, 0, len(c)+txPlaceSize), c[:]...)
	b = binary.BigEndian.AppendUint64(b, p.number)
	return binary.BigEndian.AppendUint32(b, p.major)
}

// tokenKey is a contract and a token ID: their order is that of addresses and numbers.
type tokenKey [common.AddressLength + 32]byte

func tokenKeyOf(contract common.Address, id *[32]byte) (k tokenKey) {
	copy(k[:], contract[:])
	copy(k[common.AddressLength:], id[:])
	return k
}

// txPartition is the list of transactions of a range of heights that ended alike.
func (c *chainKey) txPartition(success bool, numbers uint64) []byte {
	b := append(make([]byte, 0, len(c)+9), c[:]...)
	return binary.BigEndian.AppendUint64(append(b, outcome(success)), numbers)
}

// txRanges is the list of those ranges.
func (c *chainKey) txRanges(success bool) []byte { return c.partition([]byte{outcome(success)}) }

func outcome(success bool) byte {
	if success {
		return 2 // 0 and 1 take more room as part of a partition
	}
	return 3
}

// headRow is the row that says how far the chain is.
func (c *chainKey) headRow() store.PK { return store.PK{P: c.partition()} }

// blockRow is that of a block.
func (c *chainKey) blockRow(number uint64) store.PK {
	return store.PK{P: c.partition(uint64Key(number >> rangeBits)), K: uint64Key(number)}
}
