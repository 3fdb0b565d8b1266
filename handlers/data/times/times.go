// Package times reads the times of X-Chain transactions and vertices from before Cortina,
// which no node knows, from a file that an operator provides.
//
// The file has one entry of 40 bytes for each transaction or vertex, sorted by ID: the ID
// (32 bytes), then the time in Unix seconds (8 bytes, big endian).
package times

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"sort"
	"time"

	"github.com/ava-labs/avalanchego/ids"
)

const entrySize = ids.IDLen + 8

// ErrFormat reports that a file is not a sorted list of entries.
var ErrFormat = errors.New("want entries of 40 bytes, sorted by ID: the ID, then Unix seconds (8 bytes, big endian)")

// File finds times in an open file. It is safe for concurrent use.
type File struct {
	file    *os.File
	entries int
}

// Open opens the file with that name and checks that its entries are sorted.
func Open(name string) (*File, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	f := &File{file: file}
	if err := f.check(); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", name, err), file.Close())
	}
	return f, nil
}

// check reads the whole file once and counts its entries.
func (f *File) check() error {
	in := bufio.NewReaderSize(f.file, 1<<20)
	var previous, entry [entrySize]byte
	for ; ; f.entries++ {
		switch _, err := io.ReadFull(in, entry[:]); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("entry %d: %w: %w", f.entries, ErrFormat, err)
		case f.entries > 0 && bytes.Compare(previous[:ids.IDLen], entry[:ids.IDLen]) >= 0:
			return fmt.Errorf("entry %d: its ID does not follow the one before: %w", f.entries, ErrFormat)
		case binary.BigEndian.Uint64(entry[ids.IDLen:]) > math.MaxUint32:
			return fmt.Errorf("entry %d: %d s is not a time: %w", f.entries, binary.BigEndian.Uint64(entry[ids.IDLen:]), ErrFormat)
		}
		previous = entry
	}
}

// Time returns the time of the transaction or vertex with that ID; false if the file does
// not have it or cannot be read any more.
func (f *File) Time(id ids.ID) (time.Time, bool) {
	var entry [entrySize]byte
	read := func(i int) bool {
		_, err := f.file.ReadAt(entry[:], int64(i)*entrySize)
		return err == nil
	}
	i := sort.Search(f.entries, func(i int) bool {
		return !read(i) || bytes.Compare(entry[:ids.IDLen], id[:]) >= 0
	})
	if i == f.entries || !read(i) || ids.ID(entry[:ids.IDLen]) != id {
		return time.Time{}, false
	}
	return time.Unix(int64(binary.BigEndian.Uint64(entry[ids.IDLen:])), 0).UTC(), true
}

// Close closes the file.
func (f *File) Close() error { return f.file.Close() }
