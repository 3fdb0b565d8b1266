package cchain

import (
	"encoding/binary"
	"errors"
	"slices"
	"time"

	"github.com/ava-labs/avalanchego/ids"
)

// Part encodes the ID, parent ID, time and extra data of a block: what atomic transactions need of it.
func (b *Block) Part() []byte {
	return append(binary.AppendVarint(slices.Concat(b.ID[:], b.ParentID[:]), b.Time.Unix()), b.ExtraData...)
}

// ParsePart decodes the Part of the block at a height. The result refers to part.
func ParsePart(height uint64, part []byte) (*Block, error) {
	bad := errors.New("the stored part is cut short")
	if len(part) < 2*ids.IDLen {
		return nil, bad
	}
	block := &Block{Height: height, ID: ids.ID(part), ParentID: ids.ID(part[ids.IDLen:])}
	part = part[2*ids.IDLen:]
	seconds, n := binary.Varint(part)
	if n <= 0 {
		return nil, bad
	}
	block.Time, block.ExtraData = time.Unix(seconds, 0).UTC(), part[n:]
	return block, nil
}
