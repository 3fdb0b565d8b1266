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

	"quorate/internal/index/internal/row"
	"quorate/internal/store"
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

func (c Chain) idKey(id ids.ID) store.PK { return store.PK{P: row.ShortID(c.prefix(), id)} }

// wholeIDKey is what idKey was at first.
func (c Chain) wholeIDKey(id ids.ID) store.PK { return store.PK{P: append(c.prefix(), id[:]...)} }

// Flags of a value, above its form.
const (
	flagForm  = 0x0f
	flagOwnID = 0x10 // the ID is not the hash of the bytes, and is given
	flagKept  = 0x20 // it is noted when it came
	// The certificate of who signed it is a row of its own: what that is known by comes
	// before the bytes, which are without it.
	flagCertified = 0x40
)

// Put writes a container. The batch does not keep its bytes.
func (c Chain) Put(batch *store.Batch, one *Container) { c.put(batch, one, nil, 0, 0) }

// put writes a container without the certificate, which is in its bytes between two
// places and known by known; all of it if that is empty.
func (c Chain) put(batch *store.Batch, one *Container, known []byte, from, to int) {
	v := make([]byte, 1, 1+2*binary.MaxVarintLen64+ids.IDLen+len(known)+len(one.Bytes)-(to-from))
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
	if len(known) > 0 {
		v[0] |= flagCertified
		v = append(v, known...)
	}
	v = append(append(v, one.Bytes[:from]...), one.Bytes[to:]...)
	batch.Add(store.FamilyContainer, c.key(one.Height), v)
}

// Size is about what Put adds to a batch, in bytes.
func (one *Container) Size() int { return len(one.Bytes) + 100 }

// stored is a container as it is in its row.
type stored struct {
	Container
	// known is what the certificate is known by that Bytes lack; empty if they are whole.
	known []byte
	// digested says that the ID is the hash of the whole bytes, and not known yet.
	digested bool
}

// whole is the container, whose certificate is given if it lacks one.
func (s *stored) whole(certificate []byte) (Container, error) {
	if len(s.known) > 0 {
		b, ok := join(s.Bytes, certificate)
		if !ok {
			return Container{}, corrupt(s.Height)
		}
		s.Bytes = b
	}
	if s.digested {
		s.ID = hashing.ComputeHash256Array(s.Bytes)
		s.Digest = s.ID
	}
	return s.Container, nil
}

func parse(height uint64, v []byte) (s stored, err error) {
	if len(v) == 0 {
		return stored{}, corrupt(height)
	}
	const flags = flagOwnID | flagKept | flagCertified
	s.Height, s.Form, s.Bytes = height, Form(v[0]&flagForm), v[1:]
	if s.Form == 0 || s.Form > Part || v[0]&^(flagForm|flags) != 0 {
		return stored{}, corrupt(height)
	}
	if v[0]&flagKept != 0 {
		at, n := binary.Varint(s.Bytes)
		if n <= 0 {
			return stored{}, corrupt(height)
		}
		s.Kept, s.Bytes = time.Unix(0, at).UTC(), s.Bytes[n:]
	}
	if s.Form == Accepted {
		at, n := binary.Varint(s.Bytes)
		if n <= 0 {
			return stored{}, corrupt(height)
		}
		s.Time, s.Bytes = time.Unix(0, at).UTC(), s.Bytes[n:]
		if s.digested = v[0]&flagOwnID == 0; !s.digested {
			if len(s.Bytes) < ids.IDLen {
				return stored{}, corrupt(height)
			}
			s.ID, s.Bytes = ids.ID(s.Bytes), s.Bytes[ids.IDLen:]
		}
	}
	if v[0]&flagCertified != 0 {
		if len(s.Bytes) < knownLen {
			return stored{}, corrupt(height)
		}
		s.known, s.Bytes = s.Bytes[:knownLen], s.Bytes[knownLen:]
	}
	return s, nil
}

func corrupt(height uint64) error { return fmt.Errorf("%w: container %d", store.ErrCorrupt, height) }

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
	found := make([]stored, 0, len(rows))
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
	return c.whole(ctx, r, found)
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
	one, err := parse(height, values[0])
	if err != nil {
		return Container{}, err
	}
	all, err := c.whole(ctx, r, []stored{one})
	if err != nil {
		return Container{}, err
	}
	return all[0], nil
}

// ByID returns the container that consensus knows by an ID, or ErrMissing. A key has
// only the beginning of an ID: ByID compares the whole ID with the container's.
func (c Chain) ByID(ctx context.Context, r store.Reader, id ids.ID) (Container, error) {
	values, err := r.Get(ctx, store.FamilyContainerID, []store.PK{c.idKey(id), c.wholeIDKey(id)})
	if err != nil {
		return Container{}, fmt.Errorf("looking for container %s: %w", id, err)
	}
	found := values[0]
	if found == nil {
		found = values[1]
	}
	if found == nil {
		return Container{}, fmt.Errorf("%w: %s", ErrMissing, id)
	}
	height, n := binary.Uvarint(found)
	if n <= 0 {
		return Container{}, fmt.Errorf("%w: place of container %s", store.ErrCorrupt, id)
	}
	one, err := c.Get(ctx, r, height)
	if err == nil && one.ID != id {
		err = fmt.Errorf("%w: %s", ErrMissing, id)
	}
	if err != nil {
		return Container{}, err
	}
	return one, nil
}
