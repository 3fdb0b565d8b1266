// Package container stores the blocks of chains as nodes returned them, so that indexes can be rebuilt without a node.
// It handles positions and bytes; the chains' decoders interpret them. Values are not compressed, because storage
// engines compress many of them together.
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

// ErrMissing means that a container is not stored.
var ErrMissing = errors.New("container is not stored")

// Form is the encoding of a container's bytes.
type Form byte

const (
	// Accepted is what consensus accepted: a block in its proposer envelope, if it has one, or a vertex. ID and Time
	// are set.
	Accepted Form = iota + 1
	// Bare is a block without its envelope, from a node without an index.
	Bare
	// Part is the part of a block that concerns other chains.
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

// Container is a stored block or vertex.
type Container struct {
	// Height is the block height, or the position of a vertex in the order of acceptance.
	Height uint64
	Form   Form
	// ID identifies the container in consensus. Time is when the node accepted it. Both are zero unless Form is
	// Accepted.
	ID   ids.ID
	Time time.Time
	// Kept is when the container was stored, zero if unknown.
	Kept  time.Time
	Bytes []byte
	// Digest is the SHA-256 of Bytes, often equal to ID; zero if unknown.
	Digest ids.ID
}

// Hash returns the SHA-256 of the bytes.
func (one *Container) Hash() ids.ID {
	if one.Digest != ids.Empty {
		return one.Digest
	}
	return hashing.ComputeHash256Array(one.Bytes)
}

// Chain identifies the containers of one chain of one network.
type Chain struct {
	NetworkID uint32
	// Name is one letter: a chain name of package index, or Vertices.
	Name string
}

// Vertices is the name of the X-Chain's pre-Cortina vertices.
const Vertices = "V"

// bucketBits is the binary logarithm of the number of containers in a partition.
const bucketBits = 10

func (c Chain) prefix() []byte {
	return append(binary.BigEndian.AppendUint32(make([]byte, 0, 64), c.NetworkID), c.Name...)
}

func (c Chain) key(height uint64) store.PK {
	p := binary.BigEndian.AppendUint64(c.prefix(), height>>bucketBits)
	return store.PK{P: p, K: binary.BigEndian.AppendUint64(nil, height)}
}

func (c Chain) idKey(id ids.ID) store.PK { return store.PK{P: row.ShortID(c.prefix(), id)} }

// wholeIDKey is the key in stores written before idKey existed.
func (c Chain) wholeIDKey(id ids.ID) store.PK { return store.PK{P: append(c.prefix(), id[:]...)} }

// lackKey is the key of a row that says that containers without a consensus ID begin at height.
func (c Chain) lackKey(height uint64) store.PK {
	return store.PK{P: c.prefix(), K: binary.BigEndian.AppendUint64(nil, height)}
}

// Flags of a value, combined with its form.
const (
	flagForm  = 0x0f
	flagOwnID = 0x10 // the ID is not the hash of the bytes and follows
	flagKept  = 0x20 // the storage time follows
	// The proposer's certificate has its own row. Its ID precedes the bytes, which omit it.
	flagCertified = 0x40
)

// Put writes a container. The batch does not retain its bytes.
func (c Chain) Put(batch *store.Batch, one *Container) { c.put(batch, one, nil, 0, 0) }

// put writes a container without its certificate, which is at bytes [from, to) and has the ID known. If known is empty,
// it writes the whole container.
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

// Size returns the approximate number of bytes that Put adds to a batch.
func (one *Container) Size() int { return len(one.Bytes) + 100 }

// stored is a container as stored in its row.
type stored struct {
	Container
	// known is the ID of the certificate that Bytes omit; empty if Bytes are complete.
	known []byte
	// digested reports that the ID is the hash of the complete bytes and not computed yet.
	digested bool
}

// whole returns the container with the certificate that its bytes omit.
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

// most is the maximum number of containers of one read: those of a partition.
const most = 1 << bucketBits

// Range returns at most n consecutive containers from a height on. It may return fewer, for example at the end of a
// partition. It returns none if there is none at that height.
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

// Get returns the container at a height, or ErrMissing.
func (c Chain) Get(ctx context.Context, r store.Reader, height uint64) (Container, error) {
	all, err := c.All(ctx, r, []uint64{height})
	if err != nil {
		return Container{}, err
	}
	return all[0], nil
}

// All returns the containers at heights, in their order, or ErrMissing.
func (c Chain) All(ctx context.Context, r store.Reader, heights []uint64) ([]Container, error) {
	keys := make([]store.PK, len(heights))
	for i, height := range heights {
		keys[i] = c.key(height)
	}
	values, err := r.Get(ctx, store.FamilyContainer, keys)
	if err != nil {
		return nil, fmt.Errorf("reading containers: %w", err)
	}
	found := make([]stored, len(heights))
	for i, height := range heights {
		if values[i] == nil {
			return nil, fmt.Errorf("%w: %d", ErrMissing, height)
		}
		if found[i], err = parse(height, values[i]); err != nil {
			return nil, err
		}
	}
	return c.whole(ctx, r, found)
}

// ByID returns the container with a consensus ID, or ErrMissing. Keys contain only a prefix of the ID, so ByID compares
// the whole ID.
func (c Chain) ByID(ctx context.Context, r store.Reader, id ids.ID) (Container, error) {
	values, err := r.Get(ctx, store.FamilyContainerID, []store.PK{c.idKey(id), c.wholeIDKey(id)})
	if err != nil {
		return Container{}, fmt.Errorf("reading container %s: %w", id, err)
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
		return Container{}, fmt.Errorf("%w: position of container %s", store.ErrCorrupt, id)
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

// Lacks reports whether a container lacks its consensus ID, from one height until, not including, another. It is also true
// if this is unknown: a store that an earlier version began has no rows about it.
func (c Chain) Lacks(ctx context.Context, r store.Reader, from, until uint64) (bool, error) {
	lo, hi := c.lackKey(from), c.lackKey(until)
	rows, err := r.Scan(ctx, store.FamilyContainerID, lo.P, lo.K, hi.K, store.Ascending, 1)
	if err != nil {
		return false, fmt.Errorf("reading which containers lack their ID: %w", err)
	}
	if len(rows) > 0 {
		return true, nil
	}
	lacks := func(height uint64) (bool, error) {
		one, err := c.Get(ctx, r, height)
		if errors.Is(err, ErrMissing) {
			return false, nil
		}
		return err == nil && one.Form != Accepted, err
	}
	if first, err := lacks(from); err != nil || first {
		return first, err
	}
	genesis, err := lacks(0)
	if err != nil || !genesis {
		return false, err
	}
	// The genesis block has no ID, so that its row shows whether the store has these rows.
	values, err := r.Get(ctx, store.FamilyContainerID, []store.PK{c.lackKey(0)})
	return err == nil && values[0] == nil, err
}
