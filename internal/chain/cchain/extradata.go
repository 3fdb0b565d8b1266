package cchain

import (
	"bytes"
	_ "embed" // the hashes of early extra data
	"encoding/binary"
	"fmt"
	"slices"
	"sync"

	"github.com/ava-labs/avalanchego/utils/constants"
	"github.com/ava-labs/libevm/common"
	"github.com/ava-labs/libevm/crypto"
	"github.com/ava-labs/libevm/rlp"
)

// Blocks from before Apricot Phase 1 do not commit to their extra data. Nodes have the hash of each such block's extra data
// compiled in (avalanchego v1.15.0, vms/saevm/cchain, extdata-*.json). These files have the first 12 bytes of each hash;
// TestEarlyExtraData writes them.
var (
	//go:embed extradata/mainnet
	mainnetExtraData []byte
	//go:embed extradata/fuji
	fujiExtraData []byte
)

// earlySum is the number of bytes of a hash in the files.
const earlySum = 12

var earlyExtraData = map[uint32]func() earlyHashes{
	constants.MainnetID: sync.OnceValue(func() earlyHashes { return readEarly(mainnetExtraData) }),
	constants.FujiID:    sync.OnceValue(func() earlyHashes { return readEarly(fujiExtraData) }),
}

// earlyHashes has the beginnings of hashes, by the height at the same index.
type earlyHashes struct {
	heights []uint64
	sums    [][]byte
}

// readEarly reads a file: for each block, in order, the difference of its height to the one before, and the sum.
func readEarly(b []byte) (h earlyHashes) {
	for height := uint64(0); len(b) > 0; {
		delta, n := binary.Uvarint(b)
		height += delta
		h.heights, h.sums = append(h.heights, height), append(h.sums, b[n:n+earlySum])
		b = b[n+earlySum:]
	}
	return h
}

// VerifyExtraData returns an error unless the extra data is that of the block: the header has its hash or, for early blocks of
// mainnet and Fuji, the network is known to have accepted it. Errors wrap ErrBlock.
func (b *Block) VerifyExtraData(networkID uint32) error {
	encoded, err := rlp.EncodeToBytes(b.ExtraData)
	if err != nil {
		return fmt.Errorf("%w: extra data: %w", ErrBlock, err)
	}
	hash := crypto.Keccak256Hash(encoded)
	if b.extraDataHash != (common.Hash{}) {
		if hash != b.extraDataHash {
			return fmt.Errorf("%w: its extra data has the hash %s, and its header names %s", ErrBlock, hash, b.extraDataHash)
		}
		return nil
	}
	var want []byte
	if early, ok := earlyExtraData[networkID]; ok {
		all := early()
		if i, found := slices.BinarySearch(all.heights, b.Height); found {
			want = all.sums[i]
		}
	}
	switch {
	case want == nil && len(b.ExtraData) > 0:
		return fmt.Errorf("%w: it has extra data, although its header has no hash of that", ErrBlock)
	case want != nil && !bytes.HasPrefix(hash[:], want):
		return fmt.Errorf("%w: its extra data has the hash %s, and not the one that the network accepted", ErrBlock, hash)
	}
	return nil
}
