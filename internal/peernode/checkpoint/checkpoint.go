// Package checkpoint is the format of checkpoint files. A checkpoint has the state of the P-Chain after a block, as keys
// with values. What is state, and in which order its keys come, the caller decides.
//
// A file is 8 bytes that name the format, and a zstd stream of the content: a Header as JSON, the pairs, and the SHA-256
// of both. Numbers before bytes are their length as unsigned varints. A pair without a key ends the pairs. The hash does
// not depend on the compression, so two programs that write the same header and pairs get the same hash.
package checkpoint

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/ava-labs/avalanchego/ids"
)

// magic begins a file. Its last byte is the version of the format.
var magic = [8]byte{'q', 'u', 'o', 'r', 'a', 't', 'e', 1}

// The bounds of what Reader reads. A block of the P-Chain has at most 2 MiB.
const (
	maxHeader = 4 << 10
	maxKey    = 1 << 10
	maxValue  = 4 << 20
	maxWindow = 16 << 20
)

// Header says what the state is of.
type Header struct {
	NetworkID uint32 `json:"networkID"`
	// Genesis is the SHA-256 of the P-Chain's genesis.
	Genesis ids.ID `json:"genesis"`
	// Height and BlockID are those of the last block whose changes are in the state, without its proposer envelope. Time
	// is the chain's after that block, in UTC.
	Height  uint64    `json:"height"`
	BlockID ids.ID    `json:"blockID"`
	Time    time.Time `json:"time"`
}

// Write writes a checkpoint and returns its hash. pairs calls put for each pair, in an order that only the state
// determines. No key is empty.
func Write(w io.Writer, h Header, pairs func(put func(key, value []byte) error) error) (ids.ID, error) {
	if _, err := w.Write(magic[:]); err != nil {
		return ids.Empty, fmt.Errorf("writing a checkpoint: %w", err)
	}
	// One goroutine and a small window: the service has other work, and readers bound their memory.
	z, err := zstd.NewWriter(w, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(1<<20))
	if err != nil {
		return ids.Empty, fmt.Errorf("writing a checkpoint: %w", err)
	}
	c := &content{out: bufio.NewWriterSize(z, 1<<16), sum: sha256.New()}
	encoded, err := json.Marshal(h)
	if err == nil {
		err = c.put(encoded)
	}
	if err == nil {
		err = pairs(func(key, value []byte) error {
			if len(key) == 0 || len(key) > maxKey || len(value) > maxValue {
				return fmt.Errorf("writing a checkpoint: key of %d bytes with a value of %d bytes", len(key), len(value))
			}
			if err := c.put(key); err != nil {
				return err
			}
			return c.put(value)
		})
	}
	if err == nil {
		err = c.put(nil)
	}
	sum := ids.ID(c.sum.Sum(nil))
	if err == nil {
		if _, err = c.out.Write(sum[:]); err == nil {
			err = c.out.Flush()
		}
	}
	return sum, errors.Join(err, z.Close())
}

// content writes what the hash is of.
type content struct {
	out *bufio.Writer
	sum hash.Hash
}

// put writes bytes after their length.
func (c *content) put(b []byte) error {
	var size [binary.MaxVarintLen64]byte
	for _, part := range [][]byte{size[:binary.PutUvarint(size[:], uint64(len(b)))], b} {
		_, _ = c.sum.Write(part) // never fails
		if _, err := c.out.Write(part); err != nil {
			return fmt.Errorf("writing a checkpoint: %w", err)
		}
	}
	return nil
}

// ErrFile means that a file is not a checkpoint, or not a whole one.
var ErrFile = errors.New("the file is no complete checkpoint; get it again")

// Reader reads a checkpoint. Close it.
type Reader struct {
	Header Header

	in    *zstd.Decoder
	bytes *bufio.Reader
	sum   hash.Hash
	hash  ids.ID
	value bytes.Buffer
	key   bytes.Buffer
}

// NewReader reads the header of a checkpoint.
func NewReader(r io.Reader) (*Reader, error) {
	var begin [len(magic)]byte
	if _, err := io.ReadFull(r, begin[:]); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFile, err)
	}
	if last := len(magic) - 1; !bytes.Equal(begin[:last], magic[:last]) {
		return nil, fmt.Errorf("%w: it does not begin as one", ErrFile)
	} else if begin[last] != magic[last] {
		return nil, fmt.Errorf("the checkpoint has format %d, and this program reads format %d; use the program's other version, or another checkpoint", begin[last], magic[last])
	}
	in, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow))
	if err != nil {
		return nil, fmt.Errorf("reading a checkpoint: %w", err)
	}
	c := &Reader{in: in, bytes: bufio.NewReaderSize(in, 1<<16), sum: sha256.New()}
	if err := c.get(&c.value, maxHeader); err == nil {
		err = json.Unmarshal(c.value.Bytes(), &c.Header)
		if err != nil {
			in.Close()
			return nil, fmt.Errorf("%w: header: %w", ErrFile, err)
		}
	} else {
		in.Close()
		return nil, err
	}
	return c, nil
}

// Close releases what the reader holds. It does not close what it reads from.
func (r *Reader) Close() { r.in.Close() }

// Next returns the next pair, whose bytes are valid until the next call. The error is io.EOF after the last one, if the
// file is complete and has the hash of its content.
func (r *Reader) Next() (key, value []byte, err error) {
	if r.hash != ids.Empty {
		return nil, nil, io.EOF
	}
	if err := r.get(&r.key, maxKey); err != nil {
		return nil, nil, err
	}
	if r.key.Len() == 0 {
		return nil, nil, r.finish()
	}
	if err := r.get(&r.value, maxValue); err != nil {
		return nil, nil, err
	}
	return r.key.Bytes(), r.value.Bytes(), nil
}

// finish checks what follows the pairs. It returns io.EOF if that is right.
func (r *Reader) finish() error {
	var stated ids.ID
	if _, err := io.ReadFull(r.bytes, stated[:]); err != nil {
		return fmt.Errorf("%w: %w", ErrFile, err)
	}
	if sum := ids.ID(r.sum.Sum(nil)); stated != sum {
		return fmt.Errorf("%w: its content has the hash %x, and it states %x", ErrFile, sum[:], stated[:])
	}
	switch _, err := r.bytes.ReadByte(); {
	case err == nil:
		return fmt.Errorf("%w: bytes follow its end", ErrFile)
	case !errors.Is(err, io.EOF):
		return fmt.Errorf("%w: %w", ErrFile, err)
	}
	r.hash = stated
	return io.EOF
}

// Hash returns the hash of the content. It is empty until Next has returned io.EOF.
func (r *Reader) Hash() ids.ID { return r.hash }

// get reads bytes after their length into b.
func (r *Reader) get(b *bytes.Buffer, most uint64) error {
	b.Reset()
	size, err := binary.ReadUvarint(r.bytes)
	if err == nil && size > most {
		err = fmt.Errorf("%d bytes at once", size)
	}
	if err == nil {
		_, err = io.CopyN(b, r.bytes, int64(size))
	}
	if err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return fmt.Errorf("%w: %w", ErrFile, err)
	}
	var encoded [binary.MaxVarintLen64]byte
	_, _ = r.sum.Write(encoded[:binary.PutUvarint(encoded[:], size)]) // never fails
	_, _ = r.sum.Write(b.Bytes())
	return nil
}

// ReadHeader reads the header of a file.
func ReadHeader(file string) (Header, error) {
	f, err := os.Open(file)
	if err != nil {
		return Header{}, fmt.Errorf("opening a checkpoint: %w", err)
	}
	defer func() { _ = f.Close() }() // it was read
	r, err := NewReader(f)
	if err != nil {
		return Header{}, fmt.Errorf("%s: %w", file, err)
	}
	r.Close()
	return r.Header, nil
}
