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

// series is one of the four series of events whose sum is the balance of an account. An event counts from a time on.
// Events of the first two series add or remove an output. Events of the other two move an output to another bucket,
// possibly far in the future.
//
// An output created at t counts from t+1 on. It stops counting at the second in which it is consumed, but not before it
// started. The balance at t thus includes the outputs created before t and not consumed at or before t.
//
// Accounts on one chain use the first and third series. For accounts between two chains the Matcher also writes the
// second and fourth.
type series byte

const (
	seriesMade    series = iota // created outputs, and outputs consumed on the same chain
	seriesSpent                 // outputs consumed on another chain
	seriesPhases                // phases of created outputs, reversed when consumed on the same chain
	seriesUnphase               // phases reversed when consumed on another chain
)

func (id accountID) partition(s series) []byte {
	return append(append(make([]byte, 0, len(id)+1), id[:]...), byte(s))
}

// checkpointEvery is the average number of events between two checkpoints. The block ID decides which event has a
// checkpoint, so no counter is stored.
const checkpointEvery = 256

// checkpoints reports whether an account with n events in a block has a checkpoint there. salt is the beginning of the
// block's ID, which users cannot choose.
func (id accountID) checkpoints(salt uint64, n, every int) bool {
	x := (binary.BigEndian.Uint64(id[:]) ^ salt) * 0x9e3779b97f4a7c15
	return (x^x>>32)%uint64(every) < uint64(n)
}

// eventKey consists of the time from which the event counts, the height of its block, and bytes that distinguish events
// of one block.
func eventKey(from, height uint64, more ...byte) []byte {
	return row.Uint64(from, binary.BigEndian.AppendUint64(nil, height), more)
}

// eventTime returns the time from which an event counts.
func eventTime(k []byte) (uint64, error) {
	if len(k) < 8 {
		return 0, fmt.Errorf("%w: event at a key of %d bytes", store.ErrCorrupt, len(k))
	}
	return binary.BigEndian.Uint64(k), nil
}

// event is a row of a series.
type event struct{ k, v []byte }

// addEvents adds events to the sums.
func (s *sums) addEvents(events []event) error {
	for _, e := range events {
		if err := s.addRow(e.v); err != nil {
			return err
		}
	}
	return nil
}

// scanRows is the number of rows of one read.
const scanRows = 2048

// sumEvents adds the events of a partition with lo <= k < hi to into, including those in extra. The events in extra are
// sorted by k; some may also be in the store.
func sumEvents(ctx context.Context, r store.Reader, p, lo, hi []byte, extra []event, into *sums) error {
	extra = within(extra, lo, hi)
	for {
		rows, err := r.Scan(ctx, store.FamilyBalanceEvent, p, lo, hi, store.Ascending, scanRows)
		if err != nil {
			return fmt.Errorf("reading balance events: %w", err)
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
				return fmt.Errorf("reading balance events: %w", err)
			}
		}
		if len(rows) < scanRows {
			break
		}
		lo = store.After(rows[len(rows)-1].K)
	}
	return into.addEvents(extra)
}

// within returns the events with lo <= k < hi.
func within(events []event, lo, hi []byte) []event {
	byKey := func(e event, k []byte) int { return bytes.Compare(e.k, k) }
	from, _ := slices.BinarySearchFunc(events, lo, byKey)
	to := len(events)
	if hi != nil {
		to, _ = slices.BinarySearchFunc(events, hi, byKey)
	}
	return events[from:max(from, to)]
}

// checkpoint is the sum of all events of a partition before a key. The key is a time, or the time and height of an
// event.
type checkpoint struct {
	key  []byte
	sums sums
}

// lastCheckpoint returns the newest checkpoint at or before a key, or an empty one.
func lastCheckpoint(ctx context.Context, r store.Reader, p, key []byte) (c checkpoint, err error) {
	c.key = row.Uint64(0)
	rows, err := r.Floor(ctx, store.FamilyBalanceCheckpoint, p, []store.Range{{Lo: c.key, Hi: key}})
	if err != nil {
		return c, fmt.Errorf("reading balance checkpoints: %w", err)
	}
	if rows[0].V == nil {
		return c, nil
	}
	c.key = rows[0].K
	if err = c.sums.addRow(rows[0].V); err != nil {
		return c, fmt.Errorf("reading balance checkpoints: %w", err)
	}
	return c, nil
}

// sumBefore returns the sum of all events of a partition before a key.
func sumBefore(ctx context.Context, r store.Reader, p, key []byte, extra []event) (sums, error) {
	c, err := lastCheckpoint(ctx, r, p, key)
	if err != nil {
		return sums{}, err
	}
	err = sumEvents(ctx, r, p, c.key, key, extra, &c.sums)
	return c.sums, err
}
