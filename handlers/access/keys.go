package access

import (
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

var (
	// ErrKeyExists says that a key of that name is in use, or was: names are not
	// used again, so that logs stay unambiguous.
	ErrKeyExists = errors.New("there is a key of that name already; choose another name")
	// ErrNoKey says that no key has that name.
	ErrNoKey = errors.New("there is no key of that name; quorate keys list shows them")
	// ErrKeyName says that a name is not one.
	ErrKeyName = errors.New("a name is 1 to 64 letters, digits, dots, hyphens and underscores")
	// ErrTooManyKeys says that there is no room for another.
	ErrTooManyKeys = fmt.Errorf("there are %d keys, which is the most; in a file, delete the revoked ones that nobody uses any more", maxKeys)
)

const (
	// KeyPrefix begins every key, so that people and secret scanners recognise one.
	KeyPrefix = "qk_"
	// keyBytes is the randomness of a key. With so much of it nobody can guess a key
	// from its hash, so that no slow hash is needed.
	keyBytes = 32
	maxKeys  = 10_000
	// maxKeyFile bounds the key file, in bytes.
	maxKeyFile = 8 << 20
)

// KeyInfo is what is kept of a key: all but the key itself. Values can be compared.
type KeyInfo struct {
	Name string `json:"name"`
	// Class is the rate class whose allowance the key has.
	Class string `json:"class"`
	// Hash is the SHA-256 of the whole key, prefix included, in hex.
	Hash    string    `json:"sha256"`
	Created time.Time `json:"created"`
	// Revoked is zero while the key is good.
	Revoked time.Time `json:"revoked,omitzero"`
}

type keyFile struct {
	Keys []KeyInfo `json:"keys"`
}

// KeyFile is the file in which keys are kept, readable by its owner alone. Any
// process may change it at any time: changes are made under a lock beside it and put
// in place by a rename, so that readers see the old or the new file and never a part.
type KeyFile string

// Add makes a key and returns it. It is shown this once; the file has its hash.
// The errors are ErrKeyExists, ErrKeyName and ErrTooManyKeys, or the file's.
func (f KeyFile) Add(name, class string, now time.Time) (string, error) {
	key, info, err := newKey(name, class, now)
	if err != nil {
		return "", err
	}
	if err := f.change(func(keys []KeyInfo) ([]KeyInfo, error) { return withKey(keys, info) }); err != nil {
		return "", err
	}
	return key, nil
}

// newKey makes a key, and what is kept of it.
func newKey(name, class string, now time.Time) (string, KeyInfo, error) {
	if !validName(name) {
		return "", KeyInfo{}, fmt.Errorf("key name %q: %w", name, ErrKeyName)
	}
	var secret [keyBytes]byte
	_, _ = rand.Read(secret[:]) // never fails, as documented
	key := KeyPrefix + base64.RawURLEncoding.EncodeToString(secret[:])
	digest := sha256.Sum256([]byte(key))
	return key, KeyInfo{Name: name, Class: class, Hash: hex.EncodeToString(digest[:]), Created: now.UTC().Truncate(time.Second)}, nil
}

// withKey adds a key to others.
func withKey(keys []KeyInfo, info KeyInfo) ([]KeyInfo, error) {
	if slices.ContainsFunc(keys, func(k KeyInfo) bool { return k.Name == info.Name }) {
		return nil, fmt.Errorf("key %s: %w", info.Name, ErrKeyExists)
	}
	if len(keys) >= maxKeys {
		return nil, ErrTooManyKeys
	}
	return append(keys, info), nil
}

// withKeys adds those of others whose names are new to keys, and revokes those that others
// have revoked.
func withKeys(keys, others []KeyInfo) (merged []KeyInfo, changed int, err error) {
	for _, other := range others {
		at := slices.IndexFunc(keys, func(k KeyInfo) bool { return k.Name == other.Name })
		switch {
		case at < 0:
			if keys, err = withKey(keys, other); err != nil {
				return nil, 0, err
			}
			changed++
		case keys[at].Hash == other.Hash && keys[at].Revoked.IsZero() && !other.Revoked.IsZero():
			keys[at].Revoked = other.Revoked
			changed++
		}
	}
	return keys, changed, nil
}

// withoutKey revokes one of keys.
func withoutKey(keys []KeyInfo, name string, now time.Time) ([]KeyInfo, error) {
	i := slices.IndexFunc(keys, func(k KeyInfo) bool { return k.Name == name })
	if i < 0 {
		return nil, fmt.Errorf("key %q: %w", name, ErrNoKey)
	}
	if keys[i].Revoked.IsZero() {
		keys[i].Revoked = now.UTC().Truncate(time.Second)
	}
	return keys, nil
}

// Revoke ends a key. It stays in the file, so that who still uses it is told so. To
// revoke a key twice is no error; ErrNoKey says that there is none.
func (f KeyFile) Revoke(name string, now time.Time) error {
	return f.change(func(keys []KeyInfo) ([]KeyInfo, error) { return withoutKey(keys, name, now) })
}

// Import adds those of other keys that the file does not know, and revokes those that are
// revoked there; it tells how many it changed.
func (f KeyFile) Import(others []KeyInfo) (changed int, err error) {
	if len(others) == 0 {
		return 0, nil
	}
	err = f.change(func(keys []KeyInfo) (merged []KeyInfo, err error) {
		merged, changed, err = withKeys(keys, others)
		return merged, err
	})
	return changed, err
}

// List is what is kept of all keys, by name. A file that does not exist has none.
func (f KeyFile) List() ([]KeyInfo, error) {
	file, err := os.Open(string(f))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("opening the key file: %w", err)
	}
	defer func() { _ = file.Close() }() // only read
	return readKeys(file)
}

// readKeys reads and checks a key file.
func readKeys(r io.Reader) ([]KeyInfo, error) {
	content, err := io.ReadAll(io.LimitReader(r, maxKeyFile+1))
	if err != nil {
		return nil, fmt.Errorf("reading the key file: %w", err)
	}
	if len(content) > maxKeyFile {
		return nil, fmt.Errorf("reading the key file: it is larger than %d bytes", maxKeyFile)
	}
	var kept keyFile
	if err := json.Unmarshal(content, &kept); err != nil {
		return nil, fmt.Errorf("reading the key file: %w", err)
	}
	if err := checkKeys(kept.Keys); err != nil {
		return nil, fmt.Errorf("reading the key file: %w", err)
	}
	slices.SortFunc(kept.Keys, func(a, b KeyInfo) int { return cmp.Compare(a.Name, b.Name) })
	return kept.Keys, nil
}

// checkKeys says what is wrong with keys that were kept.
func checkKeys(keys []KeyInfo) error {
	if len(keys) > maxKeys {
		return ErrTooManyKeys
	}
	for _, k := range keys {
		if digest, err := hex.DecodeString(k.Hash); err != nil || len(digest) != sha256.Size || !validName(k.Name) {
			return fmt.Errorf("the entry %q has no valid name and hash", k.Name)
		}
	}
	return nil
}

// change replaces the file by what edit makes of its keys.
func (f KeyFile) change(edit func([]KeyInfo) ([]KeyInfo, error)) (err error) {
	path := string(f)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("making the folder of the key file: %w", err)
	}
	lock, err := os.OpenFile(path+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("locking the key file: %w", err)
	}
	defer func() { _ = lock.Close() }() // which ends the lock, too
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return fmt.Errorf("locking the key file: %w", err)
	}
	keys, err := f.List()
	if err != nil {
		return err
	}
	if keys, err = edit(keys); err != nil {
		return err
	}
	content, err := json.MarshalIndent(keyFile{keys}, "", "  ")
	if err != nil {
		return fmt.Errorf("writing the key file: %w", err)
	}
	draft, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*") // mode 0600
	if err != nil {
		return fmt.Errorf("writing the key file: %w", err)
	}
	defer func() {
		if err != nil {
			_ = os.Remove(draft.Name())
		}
	}()
	_, err = draft.Write(append(content, '\n'))
	if err = errors.Join(err, draft.Sync(), draft.Close()); err != nil {
		return fmt.Errorf("writing the key file: %w", err)
	}
	for _, name := range []string{draft.Name(), lock.Name()} {
		// Whoever runs the service has to be able to read what another, such as root,
		// has written.
		if err = giveTo(name, filepath.Dir(path)); err != nil {
			return fmt.Errorf("writing the key file: %w", err)
		}
	}
	if err = os.Rename(draft.Name(), path); err != nil {
		return fmt.Errorf("writing the key file: %w", err)
	}
	return nil
}

// giveTo makes the owner of a folder that of a file, if it is another's.
func giveTo(file, folder string) error {
	at, err := os.Stat(folder)
	if err != nil {
		return err
	}
	owner, ok := at.Sys().(*syscall.Stat_t)
	if !ok || int(owner.Uid) == os.Geteuid() {
		return nil
	}
	return os.Chown(file, int(owner.Uid), int(owner.Gid))
}

func validName(name string) bool {
	return len(name) > 0 && len(name) <= 64 && strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") == ""
}
