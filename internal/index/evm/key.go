package evm

import (
	"encoding/binary"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/libevm/common"

	"quorate/internal/store"
)

// chainKey is the prefix of all partitions of a chain: the network ID and the first bytes of the blockchain ID. The
// head row holds the whole ID, so that two chains with the same prefix are detected before their rows mix.
type chainKey [12]byte

func keyOf(networkID uint32, blockchainID ids.ID) (c chainKey) {
	binary.BigEndian.PutUint32(c[:], networkID)
	copy(c[4:], blockchainID[:])
	return c
}

// partition returns the key of a partition: the chain followed by parts.
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

// rangeBits sets the size of the height ranges that divide a chain's lists: 4,096 heights.
const rangeBits = 12

func uint64Key(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }

// newestKey returns a key that sorts greater numbers first.
func newestKey(n uint64) []byte { return uint64Key(^n) }

// place is a position on a chain. As a key it sorts the newest first. major and minor count either transactions and
// calls, or logs and items of a log's batch.
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

// appendTx appends the place without minor, which is the place of a transaction.
func (p place) appendTx(k []byte) []byte {
	k = binary.BigEndian.AppendUint64(k, ^p.number)
	return binary.BigEndian.AppendUint32(k, ^p.major)
}

// placeOf decodes a key of either size.
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

// Kinds of rows of FamilyEVMDeployment, in this order.
const (
	deploymentTx byte = iota
	deploymentTransfer
	deploymentInternal
)

// deploymentPartition returns the partition of the transaction at a place.
func (c *chainKey) deploymentPartition(p place) []byte {
	b := append(make([]byte, 0, len(c)+txPlaceSize), c[:]...)
	b = binary.BigEndian.AppendUint64(b, p.number)
	return binary.BigEndian.AppendUint32(b, p.major)
}

// tokenKey is a contract and a token ID. It sorts by address and number.
type tokenKey [common.AddressLength + 32]byte

func tokenKeyOf(contract common.Address, id *[32]byte) (k tokenKey) {
	copy(k[:], contract[:])
	copy(k[common.AddressLength:], id[:])
	return k
}

// txPartition returns the partition of a height range's successful or failed transactions.
func (c *chainKey) txPartition(success bool, numbers uint64) []byte {
	b := append(make([]byte, 0, len(c)+9), c[:]...)
	return binary.BigEndian.AppendUint64(append(b, outcome(success)), numbers)
}

// txRanges returns the partition that lists those ranges.
func (c *chainKey) txRanges(success bool) []byte { return c.partition([]byte{outcome(success)}) }

func outcome(success bool) byte {
	if success {
		return 2 // 0 and 1 would be escaped in a partition
	}
	return 3
}

// headRow returns the key of the row that holds the head.
func (c *chainKey) headRow() store.PK { return store.PK{P: c.partition()} }

// blockRow returns the key of a block's row.
func (c *chainKey) blockRow(number uint64) store.PK {
	return store.PK{P: c.partition(uint64Key(number >> rangeBits)), K: uint64Key(number)}
}
