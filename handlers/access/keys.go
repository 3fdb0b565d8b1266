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
	// ErrKeyExists reports that an API key has the name, or had it before it was revoked. Names are not reused, so
	// that logs stay unambiguous.
	ErrKeyExists = errors.New("there is a key of that name already; choose another name")
	// ErrNoKey reports that no API key has the name.
	ErrNoKey = errors.New("there is no key of that name; quorate keys list shows them")
	// ErrKeyName reports that the name is invalid.
	ErrKeyName = errors.New("a name is 1 to 64 letters, digits, dots, hyphens and underscores")
	// ErrTooManyKeys reports that the maximum number of API keys is reached.
	ErrTooManyKeys = fmt.Errorf("there are %d keys, which is the most; in a key file, delete revoked ones", maxKeys)
)

const (
	// keyPrefix begins every API key, so that people and secret scanners recognise one.
	keyPrefix = "qk_"
	// keyBytes is the number of random bytes of an API key. They are too many to guess, so a fast hash is sufficient.
	keyBytes = 32
	maxKeys  = 10_000
	// maxKeyFile is the maximum size of the key file, in bytes.
	maxKeyFile = 8 << 20
)

// KeyInfo describes an API key without containing it. Values are comparable.
type KeyInfo struct {
	Name string `json:"name"`
	// Class is the name of the API key's rate class.
	Class string `json:"class"`
	// Hash is the SHA-256 of the whole API key, prefix included, in hex.
	Hash    string    `json:"sha256"`
	Created time.Time `json:"created"`
	// Revoked is zero while the API key is valid.
	Revoked time.Time `json:"revoked,omitzero"`
}

type keyFile struct {
	Keys []KeyInfo `json:"keys"`
}

// KeyFile is the path of the file of API keys, which only its owner can read. Several processes may change it: each
// change holds a lock file and renames a new file over the old one, so that readers see the old file or the new one.
type KeyFile string

// Add creates an API key and returns it. The file stores only its hash. Errors are ErrKeyExists, ErrKeyName,
// ErrTooManyKeys or those of the file.
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

// newKey returns a new API key and its description.
func newKey(name, class string, now time.Time) (string, KeyInfo, error) {
	if !validName(name) {
		return "", KeyInfo{}, fmt.Errorf("key name %q: %w", name, ErrKeyName)
	}
	var secret [keyBytes]byte
	_, _ = rand.Read(secret[:]) // never fails, as documented
	key := keyPrefix + base64.RawURLEncoding.EncodeToString(secret[:])
	digest := sha256.Sum256([]byte(key))
	return key, KeyInfo{Name: name, Class: class, Hash: hex.EncodeToString(digest[:]), Created: now.UTC().Truncate(time.Second)}, nil
}

// withKey returns keys with info added.
func withKey(keys []KeyInfo, info KeyInfo) ([]KeyInfo, error) {
	if slices.ContainsFunc(keys, func(k KeyInfo) bool { return k.Name == info.Name }) {
		return nil, fmt.Errorf("key %s: %w", info.Name, ErrKeyExists)
	}
	if len(keys) >= maxKeys {
		return nil, ErrTooManyKeys
	}
	return append(keys, info), nil
}

// withKeys adds API keys of others whose names are not in keys, and revokes those that are revoked in others.
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

// withoutKey returns keys with the named one revoked.
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

// Revoke revokes an API key. It stays in the file, so that requests with it get 403. Revoking it twice is no error.
// The error is ErrNoKey if there is no such API key.
func (f KeyFile) Revoke(name string, now time.Time) error {
	return f.change(func(keys []KeyInfo) ([]KeyInfo, error) { return withoutKey(keys, name, now) })
}

// Import adds those of others that the file does not have, and revokes those that are revoked in others. It returns
// the number of changes.
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

// List returns the descriptions of all API keys, sorted by name. It returns none if the file does not exist.
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

// readKeys reads and validates a key file.
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

// checkKeys returns an error if the stored descriptions are invalid.
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

// change replaces the file's API keys by the result of edit.
func (f KeyFile) change(edit func([]KeyInfo) ([]KeyInfo, error)) (err error) {
	path := string(f)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("making the folder of the key file: %w", err)
	}
	// The folder may belong to another user, who could link the lock file to a file of this one.
	lock, err := os.OpenFile(path+".lock", os.O_CREATE|os.O_RDWR|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return fmt.Errorf("locking the key file: %w", err)
	}
	defer func() { _ = lock.Close() }() // also releases the lock
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
	for _, file := range []*os.File{draft, lock} {
		// The service may run as another user than the writer of the file.
		err = errors.Join(err, giveTo(file, filepath.Dir(path)))
	}
	if err = errors.Join(err, draft.Sync(), draft.Close()); err != nil {
		return fmt.Errorf("writing the key file: %w", err)
	}
	if err = os.Rename(draft.Name(), path); err != nil {
		return fmt.Errorf("writing the key file: %w", err)
	}
	return nil
}

// giveTo changes the owner of file to that of folder, unless this process has the same user.
func giveTo(file *os.File, folder string) error {
	at, err := os.Stat(folder)
	if err != nil {
		return err
	}
	owner, ok := at.Sys().(*syscall.Stat_t)
	if !ok || int(owner.Uid) == os.Geteuid() {
		return nil
	}
	return file.Chown(int(owner.Uid), int(owner.Gid))
}

func validName(name string) bool {
	return len(name) > 0 && len(name) <= 64 && strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") == ""
}
