package index

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"

	"quorate/internal/store"
)

// ErrNewer means that a newer version of this program wrote the index.
var ErrNewer = errors.New("the index is of a newer version")

// ErrOlder means that an older version of this program wrote the index. It must be rebuilt.
var ErrOlder = errors.New("the index is of an older version")

// Form describes the row format of an index in all networks of a store.
type Form struct {
	// Name is the name of the index.
	Name string
	// Version starts at 1. Increase it whenever rows of the preceding version cannot be read or would be written
	// differently.
	Version int
	// Reads is the oldest version whose rows this program can read and extend with rows of Version; 0 means Version
	// alone. Rows of such versions serve until the index is rebuilt beside them: see Slots.
	Reads int
	// Families belong to this index alone.
	Families []store.Family
	// Cursor reports whether the cursor with this name in the store belongs to the index.
	Cursor func(name string) bool
}

// CursorOf returns a Form.Cursor for a projection. It matches the projection's cursors in all networks and chains, including
// cursors of several projections joined by plus signs.
func CursorOf(projection string) func(name string) bool {
	return func(name string) bool {
		parts := strings.Split(name, "/")
		last := len(parts) - 1 // chain names may contain slashes
		return last >= 3 && parts[0] == "index" && slices.Contains(strings.Split(parts[last], "+"), projection)
	}
}

const (
	formPrefix = "form/"
	// clearing is appended to the version of an index while its old rows are being deleted.
	clearing = " clearing"
)

func (f *Form) key() store.PK { return store.PK{P: []byte(formPrefix + f.Name)} }

// sinceKey is the key of the row with the oldest version among the rows of an index, if that version differs from the
// row of key.
func (f *Form) sinceKey() store.PK { return store.PK{P: []byte(formPrefix + f.Name + "/since")} }

// replacedKey is the key of the row that describes deleted rows of an index: their version, and the sum of the heights
// that were indexed.
func (f *Form) replacedKey() store.PK { return store.PK{P: []byte(formPrefix + f.Name + "/replaced")} }

// upgradeCursor is the name of the cursor that a process moves when it begins to delete the rows of an index. A process
// that began earlier can then delete no more.
func (f *Form) upgradeCursor() string { return formPrefix + f.Name }

// countsBlocks reports whether the cursor with this name counts indexed blocks.
func countsBlocks(cursor string) bool {
	return strings.HasPrefix(cursor, "index/") && !strings.Contains(cursor, "/passages")
}

// Replaced describes an index whose rows this program could not read. It was deleted and is rebuilt in place.
type Replaced struct {
	FormChange

	// Percent is the share of the deleted index that is indexed again, below 100.
	Percent int `json:"percent"`
}

// replaced returns nil if no rows were deleted, or if as many blocks are indexed again.
func (f *Form) replaced(ctx context.Context, s store.Store) (*Replaced, error) {
	values, err := s.Get(ctx, store.FamilyMeta, []store.PK{f.replacedKey()})
	if err != nil {
		return nil, fmt.Errorf("reading which rows of index %s were deleted: %w", f.Name, err)
	}
	if values[0] == nil {
		return nil, nil
	}
	r := &Replaced{FormChange: FormChange{Name: f.Name, To: f.Version}}
	var before uint64
	if _, err := fmt.Sscanf(string(values[0]), "%d %d", &r.From, &before); err != nil || before == 0 {
		return nil, fmt.Errorf("%w: deleted rows of index %s are %q", store.ErrCorrupt, f.Name, values[0])
	}
	now := uint64(0)
	for row, err := range store.Rows(ctx, s, store.FamilyCursor) {
		if err != nil {
			return nil, err
		}
		name := string(row.P)
		if !f.Cursor(name) || !countsBlocks(name) {
			continue
		}
		at, err := store.ParseCursor(name, row.V)
		if err != nil {
			return nil, err
		}
		now += at.Next
	}
	if now >= before {
		return nil, nil
	}
	r.Percent = int(100 * now / before)
	return r, nil
}

// Oldest returns the oldest version that rows of f in a store may have.
func (f *Form) Oldest(ctx context.Context, r store.Reader) (int, error) {
	values, err := r.Get(ctx, store.FamilyMeta, []store.PK{f.sinceKey(), f.key()})
	if err != nil {
		return 0, fmt.Errorf("reading the oldest version of index %s: %w", f.Name, err)
	}
	text := string(values[0])
	if values[0] == nil {
		text, _ = strings.CutSuffix(string(values[1]), clearing)
	}
	if text == "" {
		return 0, nil
	}
	version, err := strconv.Atoi(text)
	if err != nil {
		return 0, fmt.Errorf("%w: index %s has rows since version %q", store.ErrCorrupt, f.Name, text)
	}
	return version, nil
}

// noted returns the version of f in a store, or 0 if the store has none.
func (f *Form) noted(ctx context.Context, r store.Reader) (version int, whole bool, err error) {
	values, err := r.Get(ctx, store.FamilyMeta, []store.PK{f.key()})
	if err != nil {
		return 0, false, fmt.Errorf("reading the version of index %s: %w", f.Name, err)
	}
	if values[0] == nil {
		return 0, true, nil
	}
	text, begun := strings.CutSuffix(string(values[0]), clearing)
	if version, err = strconv.Atoi(text); err != nil || version < 1 {
		return 0, false, fmt.Errorf("%w: index %s is of version %q", store.ErrCorrupt, f.Name, values[0])
	}
	return version, !begun, nil
}

// Upgrade deletes the indexes whose version this program cannot read. The pipelines then rebuild them from stored
// containers or from nodes. An interrupted Upgrade resumes at the next call. Call it before using these indexes. It
// returns ErrNewer and deletes nothing if a newer version of this program used the store.
func Upgrade(ctx context.Context, s store.Store, log *slog.Logger, forms ...Form) error {
	if err := CheckNewer(ctx, s, forms...); err != nil {
		return err
	}
	for i := range forms {
		if err := forms[i].upgrade(ctx, s, log); err != nil {
			return fmt.Errorf("upgrading index %s: %w", forms[i].Name, err)
		}
	}
	return nil
}

// CheckNewer returns ErrNewer if a newer version of this program used the store. It may have families that this program
// does not know.
func CheckNewer(ctx context.Context, r store.Reader, forms ...Form) error {
	for i := range forms {
		f := &forms[i]
		if version, _, err := f.noted(ctx, r); err != nil {
			return err
		} else if version > f.Version {
			return fmt.Errorf("%w: the store has index %s in version %d, this program knows versions up to %d: run the newer program, or choose another data directory or database",
				ErrNewer, f.Name, version, f.Version)
		}
	}
	return nil
}

// Check returns ErrNewer or ErrOlder if Upgrade would refuse the store or delete rows.
func Check(ctx context.Context, r store.Reader, forms ...Form) error {
	for i := range forms {
		f := &forms[i]
		version, whole, err := f.noted(ctx, r)
		switch {
		case err != nil:
			return err
		case version > f.Version:
			return fmt.Errorf("%w: index %s is of version %d, this program knows versions up to %d", ErrNewer, f.Name, version, f.Version)
		case version != f.Version || !whole:
			return fmt.Errorf("%w: index %s is of version %d, this program writes version %d", ErrOlder, f.Name, version, f.Version)
		}
	}
	return nil
}

func (f *Form) upgrade(ctx context.Context, s store.Store, log *slog.Logger) error {
	// Read first: if another process upgrades after this, nothing is deleted.
	was, err := store.ReadCursor(ctx, s, f.upgradeCursor())
	if err != nil {
		return err
	}
	version, whole, err := f.noted(ctx, s)
	if err != nil || (version == f.Version && whole) {
		return err
	}
	if whole && f.Reads > 0 && version >= f.Reads {
		var batch store.Batch
		batch.Put(store.FamilyMeta, f.sinceKey(), []byte(strconv.Itoa(version)))
		return f.note(ctx, s, &batch, strconv.Itoa(f.Version))
	}
	var restart store.Batch
	begun, indexed := false, uint64(0)
	for row, err := range store.Rows(ctx, s, store.FamilyCursor) {
		if err != nil {
			return err
		}
		name := string(row.P)
		if !f.Cursor(name) {
			continue
		}
		at, err := store.ReadCursor(ctx, s, name)
		if err != nil {
			return err
		}
		begun = begun || at.Next > 0
		if countsBlocks(name) {
			indexed += at.Next
		}
		// Fence writers of the old version.
		restart.Move(name, at, store.Cursor{Epoch: at.Epoch + 1})
		restart.Delete(store.FamilyIndexed, store.PK{P: row.P})
	}
	if version == 0 && begun {
		version = 1 // from before versions were stored
	}
	done := strconv.Itoa(f.Version)
	if (version == 0 || version == f.Version) && whole {
		return f.note(ctx, s, &store.Batch{}, done)
	}
	log.Warn("this version cannot read the rows of an index: they are deleted, and requests that need them fail until the index is rebuilt from stored blocks and nodes",
		slog.String("index", f.Name), slog.Int("version", version), slog.Int("newVersion", f.Version))
	own := store.Cursor{Epoch: was.Epoch + 1}
	restart.Move(f.upgradeCursor(), was, own)
	// From here on, older programs refuse the store.
	restart.Delete(store.FamilyMeta, f.sinceKey())
	if indexed > 0 {
		restart.Put(store.FamilyMeta, f.replacedKey(), fmt.Appendf(nil, "%d %d", version, indexed))
	}
	if err := f.note(ctx, s, &restart, done+clearing); err != nil {
		return err
	}
	for _, family := range f.Families {
		if err := store.Clear(ctx, s, family, f.upgradeCursor(), own); err != nil {
			return err
		}
	}
	var end store.Batch
	end.Move(f.upgradeCursor(), own, own)
	return f.note(ctx, s, &end, done)
}

func (f *Form) note(ctx context.Context, s store.Store, batch *store.Batch, text string) error {
	batch.Put(store.FamilyMeta, f.key(), []byte(text))
	return s.Commit(ctx, batch)
}
