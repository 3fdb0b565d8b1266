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

// ErrNewer says that a record was written by a newer version of this program.
var ErrNewer = errors.New("record is of a newer version")

// ErrOlder says that a record was written by an older version of this program, and is
// to be made again.
var ErrOlder = errors.New("record is of an older version")

// Form is how the rows of a record look, in all networks that a store knows.
type Form struct {
	// Name is the record's.
	Name string
	// Version begins with 1 and rises whenever rows of the version before cannot be
	// read any more, or are not what would be written now.
	Version int
	// Reads is the oldest version whose rows this program can read, and add rows of its
	// own Version to; 0 means Version alone. Rows of such versions serve until they are
	// rebuilt beside: see Slots.
	Reads int
	// Families are the record's, and nobody else's.
	Families []store.Family
	// Cursor tells whether a cursor, by its name in the store, is the record's.
	Cursor func(name string) bool
}

// CursorOf is a Form.Cursor: it tells whether a cursor is that of a tenant, in any
// network and chain, or one that the tenant shares with others, joined by plus signs.
func CursorOf(tenant string) func(name string) bool {
	return func(name string) bool {
		parts := strings.Split(name, "/")
		last := len(parts) - 1 // chains' names may have slashes
		return last >= 3 && parts[0] == "index" && slices.Contains(strings.Split(parts[last], "+"), tenant)
	}
}

const (
	formPrefix = "form/"
	// clearing follows the version of a record while old rows are being deleted.
	clearing = " clearing"
)

func (f *Form) key() store.PK { return store.PK{P: []byte(formPrefix + f.Name)} }

// sinceKey is the row with the oldest version that the rows of an index may be of, if it
// is not the one of the row of key.
func (f *Form) sinceKey() store.PK { return store.PK{P: []byte(formPrefix + f.Name + "/since")} }

// Oldest returns the oldest version that the rows of f in a store may be of.
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

// noted is what a store says about a form: 0 if nothing.
func (f *Form) noted(ctx context.Context, r store.Reader) (version int, whole bool, err error) {
	values, err := r.Get(ctx, store.FamilyMeta, []store.PK{f.key()})
	if err != nil {
		return 0, false, fmt.Errorf("reading the version of record %s: %w", f.Name, err)
	}
	if values[0] == nil {
		return 0, true, nil
	}
	text, begun := strings.CutSuffix(string(values[0]), clearing)
	if version, err = strconv.Atoi(text); err != nil || version < 1 {
		return 0, false, fmt.Errorf("%w: record %s is of version %q", store.ErrCorrupt, f.Name, values[0])
	}
	return version, !begun, nil
}

// Upgrade sees to it that what a store has of records is of the forms that this
// program knows: an older record is deleted, and made again by whoever records it,
// from the containers that are kept or from nodes. It goes on where it was ended, and
// must be done before anything else uses those records. ErrNewer means that the store
// was used with a newer version of this program; nothing is deleted then.
func Upgrade(ctx context.Context, s store.Store, log *slog.Logger, forms ...Form) error {
	for i := range forms {
		f := &forms[i]
		if version, _, err := f.noted(ctx, s); err != nil {
			return err
		} else if version > f.Version {
			return fmt.Errorf("%w: the store has record %s in version %d, this program knows versions up to %d: run the newer program, or give this one another place for its data",
				ErrNewer, f.Name, version, f.Version)
		}
	}
	for i := range forms {
		if err := forms[i].upgrade(ctx, s, log); err != nil {
			return fmt.Errorf("upgrading record %s: %w", forms[i].Name, err)
		}
	}
	return nil
}

// Check says what Upgrade would have to do, as an error: ErrNewer or ErrOlder.
func Check(ctx context.Context, r store.Reader, forms ...Form) error {
	for i := range forms {
		f := &forms[i]
		version, whole, err := f.noted(ctx, r)
		switch {
		case err != nil:
			return err
		case version > f.Version:
			return fmt.Errorf("%w: record %s is of version %d, this program knows versions up to %d", ErrNewer, f.Name, version, f.Version)
		case version != f.Version || !whole:
			return fmt.Errorf("%w: record %s is of version %d, this program makes version %d of it", ErrOlder, f.Name, version, f.Version)
		}
	}
	return nil
}

func (f *Form) upgrade(ctx context.Context, s store.Store, log *slog.Logger) error {
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
	begun := false
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
		// Whoever still writes the old form is kept from it.
		restart.Move(name, at, store.Cursor{Epoch: at.Epoch + 1})
		restart.Delete(store.FamilyIndexed, store.PK{P: row.P})
	}
	if version == 0 && begun {
		version = 1 // from before versions were noted
	}
	done := strconv.Itoa(f.Version)
	if (version == 0 || version == f.Version) && whole {
		return f.note(ctx, s, &store.Batch{}, done)
	}
	log.Warn("a record is of an older version and is made again", slog.String("record", f.Name),
		slog.Int("version", version), slog.Int("newVersion", f.Version))
	// From here on the older program refuses the store.
	restart.Delete(store.FamilyMeta, f.sinceKey())
	if err := f.note(ctx, s, &restart, done+clearing); err != nil {
		return err
	}
	for _, family := range f.Families {
		if err := store.Clear(ctx, s, family); err != nil {
			return err
		}
	}
	return f.note(ctx, s, &store.Batch{}, done)
}

func (f *Form) note(ctx context.Context, s store.Store, batch *store.Batch, text string) error {
	batch.Put(store.FamilyMeta, f.key(), []byte(text))
	return s.Commit(ctx, batch)
}
