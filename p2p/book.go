package p2p

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/ava-labs/avalanchego/ids"
)

const (
	bookFile = "addresses.json"
	// maxBook bounds the number of entries; the oldest are dropped.
	maxBook = 10_000
	// maxBookBytes bounds how much of the file is read.
	maxBookBytes = 16 << 20
	// maxBookAge is how long a node that was not reached again stays in the book.
	maxBookAge = 30 * 24 * time.Hour
	// bookInterval is the time between two writes.
	bookInterval = 30 * time.Second
)

// book is the address book: it stores the addresses at which nodes were reached, so that a
// restart finds them without peers. It is a cache; losing it costs seconds.
type book struct {
	path string // empty: in memory only

	mu      sync.Mutex
	entries map[ids.NodeID]bookEntry // guarded by mu
	changed bool                     // guarded by mu: differs from the file
}

type bookEntry struct {
	Addr netip.AddrPort `json:"addr"`
	Seen time.Time      `json:"seen"`
}

// openBook reads the address book of dir. It logs a book that cannot be read and starts an
// empty one.
func openBook(dir string, log *slog.Logger) *book {
	b := &book{entries: make(map[ids.NodeID]bookEntry)}
	if dir == "" {
		return b
	}
	b.path = filepath.Join(dir, bookFile)
	entries, err := readBook(b.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		log.Warn("cannot read the address book; starting an empty one and finding peers through the seeds", "path", b.path, "error", err)
	default:
		b.entries = entries
		b.prune(time.Now())
	}
	return b
}

func readBook(path string) (map[ids.NodeID]bookEntry, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // only read
	data, err := io.ReadAll(io.LimitReader(f, maxBookBytes+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxBookBytes {
		return nil, fmt.Errorf("larger than %d bytes", maxBookBytes)
	}
	var entries map[ids.NodeID]bookEntry
	if err := json.Unmarshal(data, &entries); err != nil {
		return nil, err
	}
	if entries == nil {
		return nil, errors.New("holds no object")
	}
	for nodeID, e := range entries {
		if !dialable(e.Addr) {
			delete(entries, nodeID)
		}
	}
	return entries, nil
}

func dialable(addr netip.AddrPort) bool {
	return addr.IsValid() && addr.Port() != 0 && !addr.Addr().IsUnspecified() && !addr.Addr().IsMulticast()
}

// met notes that a node was reached now.
func (b *book) met(a Address) {
	if !dialable(a.Addr) {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.entries[a.NodeID] = bookEntry{Addr: a.Addr, Seen: time.Now()}
	b.changed = true
}

// addresses returns the entries, the one reached last first.
func (b *book) addresses() []Address {
	b.mu.Lock()
	defer b.mu.Unlock()
	list := make([]Address, 0, len(b.entries))
	for _, nodeID := range b.newestFirst() {
		list = append(list, Address{NodeID: nodeID, Addr: b.entries[nodeID].Addr})
	}
	return list
}

// newestFirst sorts the nodes by the time they were last reached. The caller holds b.mu.
func (b *book) newestFirst() []ids.NodeID {
	return slices.SortedFunc(maps.Keys(b.entries), func(x, y ids.NodeID) int {
		return cmp.Or(b.entries[y].Seen.Compare(b.entries[x].Seen), x.Compare(y))
	})
}

// prune drops old and excess entries. The caller holds b.mu, or b is not yet shared.
func (b *book) prune(now time.Time) {
	before := len(b.entries)
	for nodeID, e := range b.entries {
		if now.Sub(e.Seen) > maxBookAge {
			delete(b.entries, nodeID)
		}
	}
	if len(b.entries) > maxBook {
		for _, nodeID := range b.newestFirst()[maxBook:] {
			delete(b.entries, nodeID)
		}
	}
	if len(b.entries) != before {
		b.changed = true
	}
}

// save writes the book if it differs from the file.
func (b *book) save() error {
	b.mu.Lock()
	b.prune(time.Now())
	changed := b.changed && b.path != ""
	b.changed = false
	var data []byte
	var err error
	if changed {
		data, err = json.Marshal(b.entries)
	}
	b.mu.Unlock()
	if !changed {
		return nil
	}
	if err == nil {
		err = replaceFile(b.path, data)
	}
	if err != nil {
		b.mu.Lock()
		b.changed = true
		b.mu.Unlock()
		return fmt.Errorf("writing the address book %s: %w", b.path, err)
	}
	return nil
}

// replaceFile replaces the content of path with data atomically.
func replaceFile(path string, data []byte) error {
	draft := path + ".tmp"
	if err := writeFile(draft, data); err != nil {
		return err
	}
	if err := os.Rename(draft, path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// stillThere notes that nodes are reachable now. This alone does not cause a write.
func (b *book) stillThere(connected func(ids.NodeID) bool) {
	now := time.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	for nodeID, e := range b.entries {
		if connected(nodeID) {
			b.entries[nodeID] = bookEntry{Addr: e.Addr, Seen: now}
		}
	}
}

// keepBook writes the book regularly and when ctx ends.
func (n *Network) keepBook(ctx context.Context) {
	save := func() {
		n.book.stillThere(n.Connected)
		if err := n.book.save(); err != nil {
			n.log.Warn("cannot write the address book", "error", err)
		}
	}
	ticker := time.NewTicker(bookInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			save()
			return
		case <-ticker.C:
			save()
		}
	}
}
