package index

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"quorate/internal/store"
)

// Slots lets an index be rebuilt beside the one that serves. A store has two slots for the rows of some forms: readers
// and writers use the active slot, while a rebuild fills the other one. One commit switches them. Slots is safe for
// concurrent use.
//
// The second slot uses the twins of the forms' families and cursor names that end in secondSlot. Two cursors hold the
// state that all processes on the store share: the number of switches, and the stage of a rebuild. No writer of rows
// moves them.
type Slots struct {
	raw      store.Store
	forms    []Form
	switches atomic.Uint64 // as of the last Refresh
}

const (
	switchCursor  = "slots/switches"
	rebuildCursor = "slots/rebuild"
	// secondSlot sorts before all characters of cursor names.
	secondSlot = "#b"
	// firstSlot ends the keys of FamilyMeta for the first slot once the slots were switched. Programs that do not
	// support slots read the keys without the suffix and refuse the store.
	firstSlot = "#a"
	// refused is added to the version that such programs read.
	refused = 1_000_000
)

// Stage is the stage of a rebuild.
type Stage uint64

// The stages of a rebuild.
const (
	// NoRebuild means that no rebuild was requested or that the last one is finished.
	NoRebuild Stage = iota
	// RebuildAsked means that the other slot is being cleared.
	RebuildAsked
	// RebuildBeside means that the other slot is being filled.
	RebuildBeside
	// RebuildDone means that the slots were switched and the old rows are not yet deleted.
	RebuildDone
)

func (s Stage) String() string {
	switch s {
	case NoRebuild:
		return "none"
	case RebuildAsked:
		return "asked for"
	case RebuildBeside:
		return "building beside the index that serves"
	case RebuildDone:
		return "switched, deleting the old rows"
	}
	return fmt.Sprintf("stage %d", uint64(s))
}

// ErrRebuilding means that a rebuild is in progress.
var ErrRebuilding = errors.New("a rebuild is under way")

// OpenSlots reads which slot of a store is active.
func OpenSlots(ctx context.Context, raw store.Store, forms ...Form) (*Slots, error) {
	s := &Slots{raw: raw, forms: forms}
	return s, s.Refresh(ctx)
}

// Refresh reads which slot is active, because another process may have switched.
func (s *Slots) Refresh(ctx context.Context) error {
	at, err := store.ReadCursor(ctx, s.raw, switchCursor)
	if err == nil {
		s.switches.Store(at.Next)
	}
	return err
}

// Store returns the store that readers and writers must use.
func (s *Slots) Store() store.Store { return store.Redirect(s.raw, s.active) }

// Views returns the viewer that readers must use.
func (s *Slots) Views(v store.Viewer) store.Viewer { return store.RedirectViews(v, s.active) }

func (s *Slots) active() store.Redirection { return slot{s.forms, s.switches.Load()} }

// beside returns the store with the slot that is active after the given number of switches.
func (s *Slots) beside(switches uint64) store.Store {
	return store.Redirect(s.raw, func() store.Redirection { return slot{s.forms, switches} })
}

// slot is the slot that is active after a number of switches.
type slot struct {
	forms    []Form
	switches uint64
}

func (s slot) second() bool { return s.switches%2 == 1 }

// Family implements store.Redirection.
func (s slot) Family(family store.Family) store.Family {
	twin := family.Twin()
	if s.second() && slices.ContainsFunc(s.forms, func(f Form) bool {
		return slices.Contains(f.Families, family) || slices.Contains(f.Families, twin)
	}) {
		return twin
	}
	return family
}

// own reports whether the row by name belongs to the slot.
func (s slot) own(family store.Family, name string) bool {
	return slices.ContainsFunc(s.forms, func(f Form) bool {
		if family == store.FamilyMeta {
			return name == formPrefix+f.Name || strings.HasPrefix(name, formPrefix+f.Name+"/")
		}
		return f.Cursor(name)
	})
}

// suffix returns the suffix of row names in the slot.
func (s slot) suffix(family store.Family) string {
	switch {
	case s.second():
		return secondSlot
	case family == store.FamilyMeta && s.switches > 0:
		return firstSlot
	}
	return ""
}

// Stored implements store.Redirection.
func (s slot) Stored(family store.Family, name string) string {
	if end := s.suffix(family); end != "" && s.own(family, name) {
		return name + end
	}
	return name
}

// Named implements store.Redirection.
func (s slot) Named(family store.Family, stored string) (string, bool) {
	if stored == switchCursor || stored == rebuildCursor {
		return "", false
	}
	name, end := stored, ""
	for _, one := range []string{firstSlot, secondSlot} {
		if cut, ok := strings.CutSuffix(stored, one); ok {
			name, end = cut, one
		}
	}
	if !s.own(family, name) {
		return stored, true
	}
	return name, end == s.suffix(family)
}

// Stage returns the stage of the rebuild.
func (s *Slots) Stage(ctx context.Context) (Stage, error) {
	at, err := store.ReadCursor(ctx, s.raw, rebuildCursor)
	return Stage(at.Next), err
}

// Heights returns the sum of the cursors' heights in the active slot and in the other one. In the other slot, each
// cursor counts at most its height in the active slot.
func (s *Slots) Heights(ctx context.Context, counts func(name string) bool) (active, beside uint64, err error) {
	was := s.switches.Load()
	now, next := slot{s.forms, was}, slot{s.forms, was + 1}
	for row, err := range store.Rows(ctx, s.Store(), store.FamilyCursor) {
		if err != nil {
			return 0, 0, err
		}
		name := string(row.P)
		if !counts(name) || !now.own(store.FamilyCursor, name) {
			continue
		}
		at, err := store.ParseCursor(name, row.V)
		if err != nil {
			return 0, 0, err
		}
		other, err := store.ReadCursor(ctx, s.raw, next.Stored(store.FamilyCursor, name))
		if err != nil {
			return 0, 0, err
		}
		active, beside = active+at.Next, beside+min(other.Next, at.Next)
	}
	return active, beside, nil
}

// Ask requests a rebuild of all forms. It returns ErrRebuilding if one is in progress.
func (s *Slots) Ask(ctx context.Context) error {
	at, err := store.ReadCursor(ctx, s.raw, rebuildCursor)
	switch {
	case err != nil:
		return err
	case Stage(at.Next) != NoRebuild:
		return fmt.Errorf("%w: %s", ErrRebuilding, Stage(at.Next))
	}
	err = s.move(ctx, &store.Batch{}, at, RebuildAsked)
	if errors.Is(err, store.ErrFenced) {
		err = fmt.Errorf("%w: another process was faster", ErrRebuilding)
	}
	return err
}

// AskIfOlder requests a rebuild if rows of an older version still serve.
func (s *Slots) AskIfOlder(ctx context.Context) error {
	all, err := s.Changes(ctx)
	if err != nil || !slices.ContainsFunc(all, func(f FormChange) bool { return 0 < f.From && f.From < f.To }) {
		return err
	}
	if err := s.Ask(ctx); !errors.Is(err, ErrRebuilding) {
		return err
	}
	return nil
}

// FormChange describes the effect of a rebuild on the rows of a form. From is the oldest existing version, 0 if there
// are no rows.
type FormChange struct {
	Name string `json:"name"`
	From int    `json:"from"`
	To   int    `json:"to"`
}

// Changes returns the effect of a rebuild on each form.
func (s *Slots) Changes(ctx context.Context) ([]FormChange, error) {
	all := make([]FormChange, len(s.forms))
	for i := range s.forms {
		from, err := s.forms[i].Oldest(ctx, s.Store())
		if err != nil {
			return nil, err
		}
		all[i] = FormChange{s.forms[i].Name, from, s.forms[i].Version}
	}
	return all, nil
}

// Follow observes switches by other processes until ctx ends.
func (s *Slots) Follow(ctx context.Context, log *slog.Logger) {
	for failing := false; pause(ctx, time.Second) == nil; {
		err := s.Refresh(ctx)
		if err != nil && !failing && ctx.Err() == nil {
			log.Warn("cannot read which rows of the index are active; trying again", slog.Any("error", err))
		}
		failing = err != nil
	}
}

func (s *Slots) move(ctx context.Context, batch *store.Batch, at store.Cursor, to Stage) error {
	batch.Move(rebuildCursor, at, store.Cursor{Next: uint64(to), Epoch: at.Epoch + 1})
	return s.raw.Commit(ctx, batch)
}

// Rebuilder holds the parameters of Slots.Run.
type Rebuilder struct {
	// Build fills a store with the rows of all forms until ctx ends, and then returns nil. It calls attempt whenever it
	// may have caught up, and returns after attempt returns true or an error.
	Build func(ctx context.Context, beside store.Store, attempt Attempt) error
	// Poll is the interval at which Run checks for a requested rebuild; default 1 s.
	Poll time.Duration
	// Grace is how long old rows stay after a switch, for readers that have not observed it; default 1 min.
	Grace time.Duration
	Log   *slog.Logger
}

// Attempt switches the slots if the named cursors are as far in the rebuilt slot as in the active one. It reports
// whether it switched.
type Attempt func(ctx context.Context, names []string) (bool, error)

// Run carries out requested rebuilds until ctx ends, and then returns nil. It resumes interrupted rebuilds. At most one
// process may run it at a time; a process that has lost that right is fenced. Run returns errors of the store and of
// Build.
func (s *Slots) Run(ctx context.Context, r Rebuilder) error {
	if r.Poll <= 0 {
		r.Poll = time.Second
	}
	if r.Grace <= 0 {
		r.Grace = time.Minute
	}
	for ctx.Err() == nil {
		if err := s.step(ctx, &r); err != nil {
			if ctx.Err() == nil {
				return fmt.Errorf("rebuilding the index: %w", err)
			}
		}
	}
	return nil
}

// step carries out the current stage of a rebuild.
func (s *Slots) step(ctx context.Context, r *Rebuilder) error {
	if err := s.Refresh(ctx); err != nil {
		return err
	}
	at, err := store.ReadCursor(ctx, s.raw, rebuildCursor)
	if err != nil {
		return err
	}
	switch Stage(at.Next) {
	case NoRebuild:
		return pause(ctx, r.Poll)
	case RebuildAsked:
		if err := s.clear(ctx, at); err != nil {
			return err
		}
		return s.move(ctx, &store.Batch{}, at, RebuildBeside)
	case RebuildBeside:
		return s.build(ctx, r, at)
	case RebuildDone:
		if err := pause(ctx, r.Grace); err != nil {
			return err
		}
		if err := s.clear(ctx, at); err != nil {
			return err
		}
		r.Log.Info("the rows of the index before the rebuild are deleted")
		return s.move(ctx, &store.Batch{}, at, NoRebuild)
	}
	return fmt.Errorf("%w: a rebuild is at stage %d", ErrNewer, at.Next)
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// clear deletes the rows of the inactive slot.
func (s *Slots) clear(ctx context.Context, at store.Cursor) error {
	other := slot{s.forms, s.switches.Load() + 1}
	var batch store.Batch
	batch.Move(rebuildCursor, at, at)
	for row, err := range store.Rows(ctx, s.beside(other.switches), store.FamilyCursor) {
		if err != nil {
			return err
		}
		if name := string(row.P); other.own(store.FamilyCursor, name) {
			stored := other.Stored(store.FamilyCursor, name)
			c, err := store.ReadCursor(ctx, s.raw, stored)
			if err != nil {
				return err
			}
			// The epoch stays, so that a fenced writer remains fenced.
			batch.Move(stored, c, store.Cursor{Epoch: c.Epoch + 1})
			batch.Delete(store.FamilyIndexed, store.PK{P: []byte(other.Stored(store.FamilyIndexed, name))})
		}
	}
	for i := range s.forms {
		for _, key := range []store.PK{s.forms[i].key(), s.forms[i].sinceKey()} {
			batch.Delete(store.FamilyMeta, store.PK{P: []byte(other.Stored(store.FamilyMeta, string(key.P)))})
		}
	}
	if err := s.raw.Commit(ctx, &batch); err != nil {
		return err
	}
	for _, f := range s.forms {
		for _, family := range f.Families {
			if err := store.ClearGuarded(ctx, s.raw, other.Family(family), rebuildCursor, at); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *Slots) build(ctx context.Context, r *Rebuilder, at store.Cursor) error {
	beside := s.beside(s.switches.Load() + 1)
	if err := Upgrade(ctx, beside, r.Log, s.forms...); err != nil {
		return err
	}
	r.Log.Info("rebuilding the index beside the one that serves")
	return r.Build(ctx, beside, func(ctx context.Context, names []string) (bool, error) { return s.attempt(ctx, r, at, names) })
}

func (s *Slots) attempt(ctx context.Context, r *Rebuilder, at store.Cursor, names []string) (bool, error) {
	var batch store.Batch
	was := s.switches.Load()
	now, next := slot{s.forms, was}, slot{s.forms, was + 1}
	for row, err := range store.Rows(ctx, s.raw, store.FamilyCursor) {
		if err != nil {
			return false, err
		}
		name, ok := now.Named(store.FamilyCursor, string(row.P))
		if !ok || !now.own(store.FamilyCursor, name) {
			continue
		}
		c, err := store.ParseCursor(name, row.V)
		if err != nil {
			return false, err
		}
		if slices.Contains(names, name) {
			rebuilt, err := store.ReadCursor(ctx, s.raw, next.Stored(store.FamilyCursor, name))
			if err != nil {
				return false, err
			}
			if rebuilt.Next < c.Next {
				return false, nil
			}
		}
		// Fence writers of the slot; they restart on the other one.
		batch.Move(string(row.P), c, store.Cursor{Next: c.Next, Epoch: c.Epoch + 1})
	}
	if was == 0 {
		for i := range s.forms {
			batch.Put(store.FamilyMeta, s.forms[i].key(), []byte(strconv.Itoa(refused+s.forms[i].Version)))
		}
	}
	switched, err := store.ReadCursor(ctx, s.raw, switchCursor)
	if err != nil {
		return false, err
	}
	batch.Move(switchCursor, store.Cursor{Next: was, Epoch: switched.Epoch}, store.Cursor{Next: was + 1, Epoch: switched.Epoch + 1})
	err = s.move(ctx, &batch, at, RebuildDone)
	if errors.Is(err, store.ErrFenced) {
		// A block was indexed meanwhile, or another process rebuilds.
		stage, readErr := store.ReadCursor(ctx, s.raw, rebuildCursor)
		if readErr == nil && stage == at {
			return false, nil
		}
	}
	if err != nil {
		return false, err
	}
	s.switches.Store(was + 1)
	r.Log.Info("the rebuilt index serves from now on")
	return true, nil
}
