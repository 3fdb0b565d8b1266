// Package signed gives the transactions of a block their bytes. The library's parsers encode each transaction again for
// that, which takes more than a quarter of their time.
package signed

import (
	"encoding/binary"
	"fmt"

	"github.com/ava-labs/avalanchego/codec"
)

// version is the codec's version in the bytes of all transactions of the P- and the X-Chain (avalanchego
// vms/platformvm/txs, vms/avm/txs).
const version = 0

// Transaction is a transaction that the library decoded, of the P- or the X-Chain.
type Transaction interface {
	SetBytes(unsigned, signed []byte)
}

// SetBytes sets the signed bytes of transactions, and so their IDs, but not the unsigned bytes. In encoded, the end of the
// block from which c decoded them, the transactions follow one another.
func SetBytes[T Transaction](c codec.Manager, encoded []byte, transactions []T) error {
	for i, tx := range transactions {
		size := len(encoded)
		if i < len(transactions)-1 {
			withVersion, err := c.Size(version, tx)
			if err != nil {
				return fmt.Errorf("transaction %d of the block: %w", i, err)
			}
			size = withVersion - codec.VersionSize
		}
		if size > len(encoded) {
			return fmt.Errorf("transaction %d of the block has %d bytes of %d", i, size, len(encoded))
		}
		bytes := binary.BigEndian.AppendUint16(make([]byte, 0, codec.VersionSize+size), version)
		tx.SetBytes(nil, append(bytes, encoded[:size]...))
		encoded = encoded[size:]
	}
	return nil
}
