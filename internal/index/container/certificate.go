package container

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"

	"github.com/ava-labs/avalanchego/staking"
	"github.com/ava-labs/avalanchego/utils/hashing"

	"quorate/internal/chain/envelope"
	"quorate/internal/store"
)

const (
	// knownLen is how much of a certificate's SHA-256 it is known by, in bytes: as much
	// as a node is known by.
	knownLen = 20
	// Certificates of other lengths stay where they are. Smaller ones would not be worth
	// a row.
	leastCertificate, mostCertificate = 64, staking.MaxCertificateLen
	// rememberedBytes bounds what a Writer remembers: the certificates of some thousand
	// nodes.
	rememberedBytes = 4 << 20
	// rememberedEach is about what remembering a certificate takes beside its bytes.
	rememberedEach = 100
)

// Writer writes the containers of one chain, one after the other, and certificates of
// those who signed them, which are the same again and again, once: what it writes
// follows from the containers alone. It must not outlive a batch that was not committed.
type Writer struct {
	chain Chain
	// known has what certificates are known by that were written.
	known map[string][]byte
	// bytes is about what that takes.
	bytes int
}

// NewWriter makes the writer of a chain.
func NewWriter(c Chain) *Writer { return &Writer{chain: c, known: make(map[string][]byte)} }

// Put writes a container. The batch does not keep its bytes.
func (w *Writer) Put(batch *store.Batch, one *Container) {
	from, to, ok := envelope.Certificate(one.Bytes)
	if !ok || to-from < leastCertificate || to-from > mostCertificate {
		w.chain.Put(batch, one)
		return
	}
	w.chain.put(batch, one, w.certificate(batch, one.Bytes[from:to]), from, to)
}

// certificate tells what a certificate is known by, and writes it unless it did. One
// that is there already is written again with the same bytes.
func (w *Writer) certificate(batch *store.Batch, der []byte) []byte {
	if known, ok := w.known[string(der)]; ok {
		return known
	}
	if w.bytes += len(der) + rememberedEach; w.bytes > rememberedBytes {
		clear(w.known)
		w.bytes = len(der) + rememberedEach
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

// join puts a certificate back into what was written without it; false if it does not
// belong there.
func join(rest, certificate []byte) ([]byte, bool) {
	from := envelope.BeforeCertificate
	if len(rest) < from || uint64(binary.BigEndian.Uint32(rest[from-4:])) != uint64(len(certificate)) {
		return nil, false
	}
	b := make([]byte, 0, len(rest)+len(certificate))
	return append(append(append(b, rest[:from]...), certificate...), rest[from:]...), true
}

// whole are containers with their certificates, each of which is read once.
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
				certificates[i] = nil // damaged, or not there
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
