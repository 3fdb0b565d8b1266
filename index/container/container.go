// Package container keeps what chains' records were read from, block by block, as
// nodes gave it, so that records can be made again without them. It knows places and
// bytes: what they mean is for the chains' decoders to say. Values are not compressed,
// as engines do that better for many of them together than it can be done one by one.
package container

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/hashing"

	"quorate/store"
)

// ErrMissing says that a container is not kept that should be.
var ErrMissing = errors.New("container is not kept")

// Form is what the bytes of a container are.
type Form byte

const (
	// Accepted is what consensus accepted: a block in its proposer envelope, if it was
	// made in one, or a vertex. ID and Time are known.
	Accepted Form = iota + 1
	// Bare is a block without an envelope, from a node without an index.
	Bare
	// Part is what of a block concerns other chains.
	Part
)

func (f Form) String() string {
	switch f {
	case Accepted:
		return "accepted"
	case Bare:
		return "bare"
	case Part:
		return "part"
	}
	return fmt.Sprintf("form %d", byte(f))
}

// Container is one that is kept.
type Container struct {
	// Height is the block's, or a vertex's place in the order of acceptance.
	Height uint64
	Form   Form
	// ID is what consensus knows it by, and Time when the node that was asked accepted
	// it; both are zero but for what is Accepted.
	ID   ids.ID
	Time time.Time
	// Kept is when it came to be kept, zero if that was not noted.
	Kept  time.Time
	Bytes []byte
	// Digest is the SHA-256 of Bytes, which often is the ID; zero if it is not known.
	Digest ids.ID
}

// Hash is the SHA-256 of the bytes.
func (one *Container) Hash() ids.ID {
	if one.Digest != ids.Empty {
		return one.Digest
	}
	return hashing.ComputeHash256Array(one.Bytes)
}

// Chain names whose containers are kept: those of one chain, in one network.
type Chain struct {
	NetworkID uint32
	// Name is one letter: as in package index, and Vertices.
	Name string
}

// Vertices is the name of what the X-Chain accepted before it had blocks.
const Vertices = "V"

// bucketBits is how many containers share a partition, as a power of two.
const bucketBits = 10

func (c Chain) prefix() []byte {
	return append(binary.BigEndian.AppendUint32(make([]byte, 0, 64), c.NetworkID), c.Name...)
}

func (c Chain) key(height uint64) store.PK {
	p := binary.BigEndian.AppendUint64(c.prefix(), height>>bucketBits)
	return store.PK{P: p, K: binary.BigEndian.AppendUint64(nil, height)}
}

func (c Chain) idKey(id ids.ID) store.PK { return store.PK{P: append(c.prefix(), id[:]...)} }

// Flags of a value, above its form.
const (
	flagForm  = 0x0f
	flagOwnID = 0x10 // the ID is not the hash of the bytes, and is given
	flagKept  = 0x20 // it is noted when it came
)

// Put writes a container. The batch does not keep its bytes.
func (c Chain) Put(batch *store.Batch, one *Container) {
	v := make([]byte, 1, 1+2*binary.MaxVarintLen64+ids.IDLen+len(one.Bytes))
	v[0] = byte(one.Form)
	if !one.Kept.IsZero() {
		v[0] |= flagKept
		v = binary.AppendVarint(v, one.Kept.UnixNano())
	}
	if one.Form == Accepted {
		v = binary.AppendVarint(v, one.Time.UnixNano())
		if one.ID != one.Hash() {
			v[0] |= flagOwnID
			v = append(v, one.ID[:]...)
		}
		batch.Add(store.FamilyContainerID, c.idKey(one.ID), binary.AppendUvarint(nil, one.Height))
	}
	batch.Add(store.FamilyContainer, c.key(one.Height), append(v, one.Bytes...))
}

// Size is about what Put adds to a batch, in bytes.
func (one *Container) Size() int { return len(one.Bytes) + 100 }

func parse(height uint64, v []byte) (Container, error) {
	if len(v) == 0 {
		return corrupt(height)
	}
	one := Container{Height: height, Form: Form(v[0] & flagForm), Bytes: v[1:]}
	if one.Form == 0 || one.Form > Part || v[0]&^(flagForm|flagOwnID|flagKept) != 0 {
		return corrupt(height)
	}
	if v[0]&flagKept != 0 {
		at, n := binary.Varint(one.Bytes)
		if n <= 0 {
			return corrupt(height)
		}
		one.Kept, one.Bytes = time.Unix(0, at).UTC(), one.Bytes[n:]
	}
	if one.Form != Accepted {
		return one, nil
	}
	at, n := binary.Varint(one.Bytes)
	if n <= 0 {
		return corrupt(height)
	}
	one.Time, one.Bytes = time.Unix(0, at).UTC(), one.Bytes[n:]
	if v[0]&flagOwnID == 0 {
		one.ID = hashing.ComputeHash256Array(one.Bytes)
		one.Digest = one.ID
		return one, nil
	}
	if len(one.Bytes) < ids.IDLen {
		return corrupt(height)
	}
	one.ID, one.Bytes = ids.ID(one.Bytes), one.Bytes[ids.IDLen:]
	return one, nil
}

func corrupt(height uint64) (Container, error) {
	return Container{}, fmt.Errorf("%w: container %d", store.ErrCorrupt, height)
}

// most is how many containers are read at a time: a partition's.
const most = 1 << bucketBits

// Range returns at most n containers from a height on, without gaps; fewer if there
// are no more, or for those that follow to be read anew. It is empty if there is none
// at that height.
func (c Chain) Range(ctx context.Context, r store.Reader, from uint64, n int) ([]Container, error) {
	at := c.key(from)
	rows, err := r.Scan(ctx, store.FamilyContainer, at.P, at.K, nil, store.Ascending, min(n, most))
	if err != nil {
		return nil, fmt.Errorf("reading containers: %w", err)
	}
	found := make([]Container, 0, len(rows))
	for _, row := range rows {
		if len(row.K) != 8 || binary.BigEndian.Uint64(row.K) != from+uint64(len(found)) {
			break
		}
		one, err := parse(from+uint64(len(found)), row.V)
		if err != nil {
			return nil, err
		}
		found = append(found, one)
	}
	if len(found) == 0 {
		return nil, nil
	}
	return found, nil
}

// Get returns the container of a height, or ErrMissing.
func (c Chain) Get(ctx context.Context, r store.Reader, height uint64) (Container, error) {
	values, err := r.Get(ctx, store.FamilyContainer, []store.PK{c.key(height)})
	if err != nil {
		return Container{}, fmt.Errorf("reading container %d: %w", height, err)
	}
	if values[0] == nil {
		return Container{}, fmt.Errorf("%w: %d", ErrMissing, height)
	}
	return parse(height, values[0])
}

// HeightOf finds a container by the ID that consensus knows it by, or returns
// ErrMissing.
func (c Chain) HeightOf(ctx context.Context, r store.Reader, id ids.ID) (uint64, error) {
	values, err := r.Get(ctx, store.FamilyContainerID, []store.PK{c.idKey(id)})
	if err != nil {
		return 0, fmt.Errorf("looking for container %s: %w", id, err)
	}
	if values[0] == nil {
		return 0, fmt.Errorf("%w: %s", ErrMissing, id)
	}
	height, n := binary.Uvarint(values[0])
	if n <= 0 {
		return 0, fmt.Errorf("%w: place of container %s", store.ErrCorrupt, id)
	}
	return height, nil
}
