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

	"golang.org/x/sync/errgroup"

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
	name     string
	raw      store.Store
	forms    []Form
	switches atomic.Uint64 // as of the last Refresh

	// trouble is what Run noted in the store, nil if nothing, and noted is when; Run owns noted. failures counts
	// failures of Run.
	trouble  atomic.Pointer[Trouble]
	noted    time.Time
	failures atomic.Uint64
}

// The names of the slots of a store.
const (
	// PrimarySlots hold the indexes of the P-, X- and C-Chains.
	PrimarySlots = "primary"
	// EVMSlots hold the indexes of the EVM chains, which are rebuilt from nodes. That takes longer.
	EVMSlots = "evm"
)

const (
	// slotsPrefix begins the names of cursors and the key of FamilyMeta that describe slots.
	slotsPrefix = "slots/"
	// secondSlot sorts before all characters of cursor names.
	secondSlot = "#b"
	// firstSlot ends the keys of FamilyMeta for the first slot once the slots were switched. Programs that do not
	// support slots read the keys without the suffix and refuse the store.
	firstSlot = "#a"
	// refused is added to the version that such programs read.
	refused = 1_000_000
	// switchEpochs is how far a switch raises the epochs of the new slot: more than the takeovers of a cursor until the
	// rows of the old slot are deleted.
	switchEpochs = 1 << 20
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
	// RebuildCancelled means that the other slot is being cleared and the active slot stays.
	RebuildCancelled
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
	case RebuildCancelled:
		return "cancelled, deleting the new rows"
	}
	return fmt.Sprintf("stage %d", uint64(s))
}

var (
	// ErrRebuilding means that a rebuild is in progress.
	ErrRebuilding = errors.New("a rebuild is under way")
	// ErrNoRebuild means that no rebuild can be cancelled.
	ErrNoRebuild = errors.New("no rebuild is under way")
)

// OpenSlots reads which slot of a store is active. Slots with different names share a store if they share no form.
func OpenSlots(ctx context.Context, raw store.Store, name string, forms ...Form) (*Slots, error) {
	s := &Slots{name: name, raw: raw, forms: forms}
	return s, s.Refresh(ctx)
}

// Name returns the name of the slots.
func (s *Slots) Name() string { return s.name }

// own returns the name of a cursor, or the key of a row of FamilyMeta, that describes the slots.
func (s *Slots) own(what string) string {
	if s.name == PrimarySlots {
		return slotsPrefix + what // from when a store had no other slots
	}
	return slotsPrefix + s.name + "/" + what
}

func (s *Slots) switchCursor() string  { return s.own("switches") }
func (s *Slots) rebuildCursor() string { return s.own("rebuild") }

// Refresh reads which slot is active, because another process may have switched.
func (s *Slots) Refresh(ctx context.Context) error {
	at, err := store.ReadCursor(ctx, s.raw, s.switchCursor())
	if err == nil {
		s.switches.Store(at.Next)
	}
	return err
}

// Switches returns how often the slots were switched, as of the last Refresh.
func (s *Slots) Switches() uint64 { return s.switches.Load() }

// Store returns the store that readers and writers must use.
func (s *Slots) Store() store.Store { return s.Over(s.raw) }

// Over returns base with the active slot. Base is the store of other slots in the same store.
func (s *Slots) Over(base store.Store) store.Store { return store.Redirect(base, s.active) }

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
	if strings.HasPrefix(stored, slotsPrefix) {
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
	at, err := store.ReadCursor(ctx, s.raw, s.rebuildCursor())
	return Stage(at.Next), err
}

// Heights returns the sum of the indexed heights of all chains in the active slot and in the other one. In the other
// slot, each cursor counts at most its height in the active slot.
func (s *Slots) Heights(ctx context.Context) (active, beside uint64, err error) {
	next := slot{s.forms, s.switches.Load() + 1}
	heights, err := s.ActiveHeights(ctx)
	if err != nil {
		return 0, 0, err
	}
	for name, height := range heights {
		other, err := store.ReadCursor(ctx, s.raw, next.Stored(store.FamilyCursor, name))
		if err != nil {
			return 0, 0, err
		}
		active, beside = active+height, beside+min(other.Next, height)
	}
	return active, beside, nil
}

// ActiveHeights returns the heights of the cursors that count blocks in the active slot.
func (s *Slots) ActiveHeights(ctx context.Context) (map[string]uint64, error) {
	heights := make(map[string]uint64)
	now := slot{s.forms, s.switches.Load()}
	for row, err := range store.Rows(ctx, s.Store(), store.FamilyCursor) {
		if err != nil {
			return nil, err
		}
		name := string(row.P)
		if !now.own(store.FamilyCursor, name) || !countsBlocks(name) {
			continue
		}
		at, err := store.ParseCursor(name, row.V)
		if err != nil {
			return nil, err
		}
		heights[name] = at.Next
	}
	return heights, nil
}

// Ask requests a rebuild of all forms. It returns ErrRebuilding if one is in progress.
func (s *Slots) Ask(ctx context.Context) error {
	at, err := store.ReadCursor(ctx, s.raw, s.rebuildCursor())
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

// Cancel ends a rebuild before the switch. Run deletes the new rows. It returns ErrNoRebuild if none is in progress.
func (s *Slots) Cancel(ctx context.Context) error {
	at, err := store.ReadCursor(ctx, s.raw, s.rebuildCursor())
	switch stage := Stage(at.Next); {
	case err != nil:
		return err
	case stage != RebuildAsked && stage != RebuildBeside:
		return fmt.Errorf("%w that can be cancelled: stage %q", ErrNoRebuild, stage)
	}
	err = s.move(ctx, &store.Batch{}, at, RebuildCancelled)
	if errors.Is(err, store.ErrFenced) {
		err = fmt.Errorf("%w that can be cancelled: it has reached another stage", ErrNoRebuild)
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
	for failing := false; wait(ctx, time.Second) == nil; {
		err := s.Refresh(ctx)
		if err != nil && !failing && ctx.Err() == nil {
			log.Warn("cannot read which rows of the index are active; trying again", slog.Any("error", err))
		}
		failing = err != nil
	}
}

// UntilSwitch calls run and, once the slots are switched, ends it and returns an error that wraps store.ErrFenced, even
// if run returned nil before. It returns an error of run at once, and nil when ctx ends.
func (s *Slots) UntilSwitch(ctx context.Context, run func(ctx context.Context) error) error {
	before := s.Switches()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return run(ctx) })
	group.Go(func() error {
		for wait(ctx, time.Second) == nil {
			if s.Switches() != before {
				return fmt.Errorf("a rebuilt index serves: %w", store.ErrFenced)
			}
		}
		return nil
	})
	return group.Wait()
}

func (s *Slots) move(ctx context.Context, batch *store.Batch, at store.Cursor, to Stage) error {
	batch.Move(s.rebuildCursor(), at, store.Cursor{Next: uint64(to), Epoch: at.Epoch + 1})
	return s.raw.Commit(ctx, batch)
}

// clear deletes the rows of the inactive slot.
func (s *Slots) clear(ctx context.Context, at store.Cursor) error {
	other := slot{s.forms, s.switches.Load() + 1}
	var batch store.Batch
	batch.Move(s.rebuildCursor(), at, at)
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
		for _, key := range []store.PK{s.forms[i].key(), s.forms[i].sinceKey(), s.forms[i].replacedKey()} {
			batch.Delete(store.FamilyMeta, store.PK{P: []byte(other.Stored(store.FamilyMeta, string(key.P)))})
		}
	}
	if err := s.raw.Commit(ctx, &batch); err != nil {
		return err
	}
	for _, f := range s.forms {
		for _, family := range f.Families {
			if err := store.Clear(ctx, s.raw, other.Family(family), s.rebuildCursor(), at); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *Slots) attempt(ctx context.Context, r *Rebuilder, at store.Cursor, b *besides) (bool, error) {
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
		// Fence writers of both slots; they restart. A process that has not observed the switch may still take over the old
		// slot, and observe the switch later. The epochs of the new slot exceed those that it can have by then.
		rebuilt, err := store.ReadCursor(ctx, s.raw, next.Stored(store.FamilyCursor, name))
		if err != nil {
			return false, err
		}
		switch {
		case slices.Contains(b.names, name):
			if rebuilt.Next < c.Next {
				return false, nil
			}
		case countsBlocks(name) && c.Next > b.before[name]:
			return false, fmt.Errorf("%s is indexed, but not rebuilt: it began after the rebuild, or is not configured here", name)
		}
		batch.Move(string(row.P), c, store.Cursor{Next: c.Next, Epoch: c.Epoch + 1})
		batch.Move(next.Stored(store.FamilyCursor, name), rebuilt, store.Cursor{Next: rebuilt.Next, Epoch: max(c.Epoch, rebuilt.Epoch) + switchEpochs})
	}
	if was == 0 {
		for i := range s.forms {
			batch.Put(store.FamilyMeta, s.forms[i].key(), []byte(strconv.Itoa(refused+s.forms[i].Version)))
		}
	}
	switched, err := store.ReadCursor(ctx, s.raw, s.switchCursor())
	if err != nil {
		return false, err
	}
	batch.Move(s.switchCursor(), store.Cursor{Next: was, Epoch: switched.Epoch}, store.Cursor{Next: was + 1, Epoch: switched.Epoch + 1})
	err = s.move(ctx, &batch, at, RebuildDone)
	if errors.Is(err, store.ErrFenced) {
		// A block was indexed meanwhile, or another process rebuilds.
		stage, readErr := store.ReadCursor(ctx, s.raw, s.rebuildCursor())
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
