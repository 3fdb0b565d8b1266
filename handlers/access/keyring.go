package access

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"time"

	"quorate/internal/store"
)

// keyring holds the API keys that a running service accepts, from a file or a store. It is safe for concurrent use.
type keyring struct {
	file   KeyFile
	stored *KeyStore // nil if the API keys are in the file
	shared *Shared   // nil if allowances are not shared
	log    *slog.Logger

	mu      sync.Mutex
	classes map[string]Class              // guarded by mu; replaced, never changed
	seen    os.FileInfo                   // guarded by mu; of the file when last read, nil if it did not exist
	at      *store.Cursor                 // guarded by mu; of the store when last read, nil before that
	broken  bool                          // guarded by mu; whether the last read failed
	keys    map[[sha256.Size]byte]*holder // guarded by mu; nil until the first successful read
}

// holder is an API key with its allowance.
type holder struct {
	KeyInfo
	class string // the configured class that applies
	// left is nil if no class is configured.
	left *allowance
}

// look finds an API key; some reports whether there are any API keys, or may be: the file exists and has never been
// readable. look checks the file for changes on each call, so that added and revoked API keys take effect at once. watch
// reads a store.
func (k *keyring) look(key string) (h *holder, some bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.refresh()
	unread := k.keys == nil && k.broken
	return k.keys[sha256.Sum256([]byte(key))], len(k.keys) > 0 || unread
}

// named reports whether there is an API key with a name that is not revoked.
func (k *keyring) named(name string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.refresh()
	for _, h := range k.keys {
		if h.Name == name && h.Revoked.IsZero() {
			return true
		}
	}
	return false
}

// count returns the number of API keys that are not revoked.
func (k *keyring) count() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.refresh()
	n := 0
	for _, h := range k.keys {
		if h.Revoked.IsZero() {
			n++
		}
	}
	return n
}

// refresh reads the file again if it has changed; it needs mu. If the file cannot be read, the API keys stay as they
// were.
func (k *keyring) refresh() {
	if k.file == "" || k.stored != nil {
		return
	}
	info, err := os.Stat(string(k.file))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if k.seen != nil {
			k.log.Warn("the file of API keys is gone; its keys stay valid until the service restarts", slog.String("file", string(k.file)))
			k.seen = nil
		}
		return
	case err != nil:
		k.complain(err)
		return
	case k.seen != nil && os.SameFile(k.seen, info) && k.seen.ModTime().Equal(info.ModTime()) && k.seen.Size() == info.Size():
		return
	}
	file, err := os.Open(string(k.file))
	if err != nil {
		k.complain(err)
		return
	}
	defer func() { _ = file.Close() }() // only read
	// Another rename may have replaced the file since it was opened, so stat the open file.
	if info, err = file.Stat(); err != nil {
		k.complain(err)
		return
	}
	keys, err := readKeys(file)
	if err != nil {
		k.complain(err)
		k.seen = info // so that not every request reads the same content again
		return
	}
	if info.Mode().Perm()&0o077 != 0 {
		k.log.Warn("others can read the file of API keys; set its mode to 0600", slog.String("file", string(k.file)))
	}
	k.adopt(keys)
	k.seen = info
}

// adopt replaces the known API keys by keys; it needs mu.
func (k *keyring) adopt(keys []KeyInfo) {
	known := make(map[[sha256.Size]byte]*holder, len(keys))
	for _, info := range keys {
		var digest [sha256.Size]byte
		_, _ = hex.Decode(digest[:], []byte(info.Hash)) // checked by readKeys
		known[digest] = k.holder(info, k.keys[digest])
	}
	k.keys, k.broken = known, false
	k.log.Info("API keys read", slog.Int("keys", len(keys)))
}

// setClasses replaces the classes.
func (k *keyring) setClasses(classes map[string]Class) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.classes = classes
	for digest, h := range k.keys {
		k.keys[digest] = k.holder(h.KeyInfo, h)
	}
}

// load reads the API keys of the store if they have changed.
func (k *keyring) load(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	at, err := store.ReadCursor(ctx, k.stored.store, keyRows)
	if err != nil {
		return err
	}
	k.mu.Lock()
	same := k.at != nil && *k.at == at
	if same {
		k.broken = false
	}
	k.mu.Unlock()
	if same {
		return nil
	}
	at, keys, err := k.stored.read(ctx) // without the lock, so that requests are not delayed
	if err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.adopt(keys)
	k.at = &at
	return nil
}

// watch calls load repeatedly until ctx ends. If the store does not answer, the API keys stay as they were.
func (k *keyring) watch(ctx context.Context) {
	if k.stored == nil {
		return
	}
	ticker := time.NewTicker(looksEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if err := k.load(ctx); err != nil && ctx.Err() == nil {
			k.mu.Lock()
			k.complain(err)
			k.mu.Unlock()
		}
	}
}

// holder returns the holder of an API key, with what before has used of the same class; before may be nil. It needs mu.
func (k *keyring) holder(info KeyInfo, before *holder) *holder {
	h := &holder{KeyInfo: info, class: info.Class}
	class, ok := k.classes[h.class]
	if !ok {
		if h.class != DefaultClass && h.class != "" {
			k.log.Warn("the rate class of an API key is not configured; the default class applies", slog.String("key", info.Name), slog.String("class", info.Class))
		}
		h.class = DefaultClass
		class, ok = k.classes[DefaultClass]
	}
	if !ok {
		return h
	}
	if before != nil && before.left != nil && before.class == h.class {
		if h.left = before.left; h.left.class != class {
			h.left = newAllowance(class, before.left)
		}
		return h
	}
	h.left = newAllowance(class, nil)
	if k.shared != nil {
		h.left.account = &account{shared: k.shared, key: info.Name}
	}
	return h
}

// complain logs the first error after a successful read; it needs mu.
func (k *keyring) complain(err error) {
	if !k.broken {
		attrs := []any{slog.Any("error", err)}
		if k.stored == nil {
			attrs = append(attrs, slog.String("file", string(k.file)))
		}
		k.log.Error("the API keys cannot be read; those that are known stay valid, and no others are accepted", attrs...)
	}
	k.broken = true
}
