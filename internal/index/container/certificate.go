package container

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/ava-labs/avalanchego/staking"
	"github.com/ava-labs/avalanchego/utils/hashing"

	"quorate/internal/chain/envelope"
	"quorate/internal/store"
)

const (
	// knownLen is the length of a certificate's ID: the first 20 bytes of its SHA-256, as long as a node ID.
	knownLen = 20
	// Only certificates of these lengths are stored separately. Smaller ones are not worth a row.
	leastCertificate, mostCertificate = 64, staking.MaxCertificateLen
	// cachedBytes bounds the cache of a Writer. It holds the certificates of some thousand nodes.
	cachedBytes = 4 << 20
	// cachedOverhead is the approximate overhead of a cached certificate.
	cachedOverhead = 100
)

// Writer writes the containers of one chain in order. It stores each proposer certificate once in a row of its own,
// because certificates repeat, and notes where containers without a consensus ID begin (see Chain.Lacks). The rows
// depend only on the containers. A Writer must be discarded when a batch is not committed.
type Writer struct {
	chain Chain
	// known maps written certificates to their IDs.
	known map[string][]byte
	// bytes is the approximate size of known.
	bytes int
	// lacking is set if the last container lacks its consensus ID.
	lacking bool
}

// NewWriter returns the writer of a chain.
func NewWriter(c Chain) *Writer { return &Writer{chain: c, known: make(map[string][]byte)} }

// Resume makes w go on at height, after stored containers.
func (w *Writer) Resume(ctx context.Context, r store.Reader, height uint64) error {
	if height == 0 {
		return nil
	}
	last, err := w.chain.Get(ctx, r, height-1)
	if errors.Is(err, ErrMissing) || errors.Is(err, store.ErrCorrupt) {
		return nil // at most, the row of the next container says again that it lacks its ID
	}
	w.lacking = err == nil && last.Form != Accepted
	return err
}

// Put writes a container. The batch does not retain its bytes.
func (w *Writer) Put(batch *store.Batch, one *Container) {
	lacks := one.Form != Accepted
	if lacks && !w.lacking {
		batch.Add(store.FamilyContainerID, w.chain.lackKey(one.Height), []byte{1})
	}
	w.lacking = lacks
	from, to, ok := envelope.Certificate(one.Bytes)
	if !ok || to-from < leastCertificate || to-from > mostCertificate {
		w.chain.Put(batch, one)
		return
	}
	w.chain.put(batch, one, w.certificate(batch, one.Bytes[from:to]), from, to)
}

// certificate returns a certificate's ID and writes the certificate unless it is cached. Writing it again writes the
// same bytes.
func (w *Writer) certificate(batch *store.Batch, der []byte) []byte {
	if known, ok := w.known[string(der)]; ok {
		return known
	}
	if w.bytes += len(der) + cachedOverhead; w.bytes > cachedBytes {
		clear(w.known)
		w.bytes = len(der) + cachedOverhead
	}
	known := knownBy(der)
	text := string(der)
	w.known[text] = known
	batch.Put(store.FamilyContainerCertificate, w.chain.certificateKey(known), []byte(text))
	return known
}

func knownBy(der []byte) []byte { return hashing.ComputeHash256(der)[:knownLen:knownLen] }

func (c Chain) certificateKey(known []byte) store.PK {
	return store.PK{P: append(c.prefix(), known...)}
}

// join inserts a certificate into a container stored without it. It returns false if the certificate does not fit.
func join(rest, certificate []byte) ([]byte, bool) {
	from := envelope.BeforeCertificate
	if len(rest) < from || uint64(binary.BigEndian.Uint32(rest[from-4:])) != uint64(len(certificate)) {
		return nil, false
	}
	b := make([]byte, 0, len(rest)+len(certificate))
	return append(append(append(b, rest[:from]...), certificate...), rest[from:]...), true
}

// whole returns containers with their certificates. It reads each certificate once.
func (c Chain) whole(ctx context.Context, r store.Reader, found []stored) ([]Container, error) {
	var keys []store.PK
	places := make(map[string]int)
	for i := range found {
		known := found[i].known
		if _, ok := places[string(known)]; !ok && len(known) > 0 {
			places[string(known)] = len(keys)
			keys = append(keys, c.certificateKey(known))
		}
	}
	var certificates [][]byte
	if len(keys) > 0 {
		var err error
		if certificates, err = r.Get(ctx, store.FamilyContainerCertificate, keys); err != nil {
			return nil, fmt.Errorf("reading certificates of containers: %w", err)
		}
		for i, key := range keys {
			if !bytes.HasSuffix(key.P, knownBy(certificates[i])) {
				certificates[i] = nil // damaged or missing
			}
		}
	}
	all := make([]Container, len(found))
	for i := range found {
		var certificate []byte
		if known := found[i].known; len(known) > 0 {
			if certificate = certificates[places[string(known)]]; certificate == nil {
				return nil, corrupt(found[i].Height)
			}
		}
		var err error
		if all[i], err = found[i].whole(certificate); err != nil {
			return nil, err
		}
	}
	return all, nil
}
