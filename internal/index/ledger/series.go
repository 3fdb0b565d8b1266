package ledger

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"slices"

	"quorate/internal/index/internal/row"
	"quorate/internal/store"
)

// The balance of an account is the sum of four series of events. An event counts
// from a time on. Those of the first two say that an output is there or no more;
// those of the others that it changes its bucket, which may lie far ahead.
//
// An output made at t is there from t+1 on, and gone from the second on in which it
// is consumed, but not before it is there: so the balance at t is that of outputs
// made before t and not consumed at t or before.
//
// Accounts on one chain have the first and the third series; those between two
// chains have the second and fourth for what the Matcher writes.
type series byte

const (
	seriesMade    series = iota // and, on one chain, spent
	seriesSpent                 // on another chain
	seriesPhases                // of what is made, and, on one chain, taken back
	seriesUnphase               // taken back for what is spent on another chain
)

func (id accountID) partition(s series) []byte {
	return append(append(make([]byte, 0, len(id)+1), id[:]...), byte(s))
}

// checkpointEvery is how many events lie between two checkpoints on average. Which
// event has one follows from the ID of its block: no count is kept.
const checkpointEvery = 256

// checkpoints reports whether an account that gets n events by a block has a
// checkpoint there; salt is the beginning of the block's ID, which nobody chooses.
func (id accountID) checkpoints(salt uint64, n, every int) bool {
	x := (binary.BigEndian.Uint64(id[:]) ^ salt) * 0x9e3779b97f4a7c15
	return (x^x>>32)%uint64(every) < uint64(n)
}

// eventKey is the time from which an event counts, the height of the block that it
// is from, and more to tell events of one block apart.
func eventKey(from, height uint64, more ...byte) []byte {
	return row.Uint64(from, binary.BigEndian.AppendUint64(nil, height), more)
}

// eventTime is the time from which an event counts.
func eventTime(k []byte) (uint64, error) {
	if len(k) < 8 {
		return 0, fmt.Errorf("%w: event at a key of %d bytes", store.ErrCorrupt, len(k))
	}
	return binary.BigEndian.Uint64(k), nil
}

// event is a row of a series.
type event struct{ k, v []byte }

// addEvents adds up events.
func (s *sums) addEvents(events []event) error {
	for _, e := range events {
		if err := s.addRow(e.v); err != nil {
			return err
		}
	}
	return nil
}

// scanRows is how many rows are read at a time.
const scanRows = 2048

// sumEvents adds the events of a partition with lo <= k < hi to what there is, and
// those of extra, which are sorted by k and may be in the store or not.
func sumEvents(ctx context.Context, r store.Reader, p, lo, hi []byte, extra []event, into *sums) error {
	extra = within(extra, lo, hi)
	for {
		rows, err := r.Scan(ctx, store.FamilyBalanceEvent, p, lo, hi, store.Ascending, scanRows)
		if err != nil {
			return fmt.Errorf("reading what changed a balance: %w", err)
		}
		for _, one := range rows {
			for len(extra) > 0 && bytes.Compare(extra[0].k, one.K) < 0 {
				if err := into.addRow(extra[0].v); err != nil {
					return err
				}
				extra = extra[1:]
			}
			if len(extra) > 0 && bytes.Equal(extra[0].k, one.K) {
				extra = extra[1:]
			}
			if err := into.addRow(one.V); err != nil {
				return fmt.Errorf("reading what changed a balance: %w", err)
			}
		}
		if len(rows) < scanRows {
			break
		}
		lo = store.After(rows[len(rows)-1].K)
	}
	return into.addEvents(extra)
}

// within are the events with lo <= k < hi.
func within(events []event, lo, hi []byte) []event {
	byKey := func(e event, k []byte) int { return bytes.Compare(e.k, k) }
	from, _ := slices.BinarySearchFunc(events, lo, byKey)
	to := len(events)
	if hi != nil {
		to, _ = slices.BinarySearchFunc(events, hi, byKey)
	}
	return events[from:max(from, to)]
}

// checkpoint is the sum of all events of a partition before a key: a time alone, or the
// time and the height of an event.
type checkpoint struct {
	key  []byte
	sums sums
}

// lastCheckpoint returns the newest one at a key or before, or an empty one.
func lastCheckpoint(ctx context.Context, r store.Reader, p, key []byte) (c checkpoint, err error) {
	c.key = row.Uint64(0)
	rows, err := r.Floor(ctx, store.FamilyBalanceCheckpoint, p, []store.Range{{Lo: c.key, Hi: key}})
	if err != nil {
		return c, fmt.Errorf("reading a balance: %w", err)
	}
	if rows[0].V == nil {
		return c, nil
	}
	c.key = rows[0].K
	if err = c.sums.addRow(rows[0].V); err != nil {
		return c, fmt.Errorf("reading a balance: %w", err)
	}
	return c, nil
}

// sumBefore is the sum of all events of a partition before a key.
func sumBefore(ctx context.Context, r store.Reader, p, key []byte, extra []event) (sums, error) {
	c, err := lastCheckpoint(ctx, r, p, key)
	if err != nil {
		return sums{}, err
	}
	err = sumEvents(ctx, r, p, c.key, key, extra, &c.sums)
	return c.sums, err
}
