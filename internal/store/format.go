package store

import (
	"context"
	"fmt"
	"strconv"
)

// Format is the version of the layout of keys and rows that this package reads
// and writes. A new family does not change it.
const Format = 1

var formatKey = PK{P: []byte("format")}

// checkFormat returns an error if the store has another format, and marks an empty store. If copies is set, it accepts a
// store whose copy is incomplete.
func checkFormat(ctx context.Context, s Store, copies bool) error {
	if marked, err := readFormat(ctx, s, copies); marked || err != nil {
		return err
	}
	for _, family := range Families() {
		rows, err := s.Walk(ctx, family, nil, 1)
		if err != nil {
			return fmt.Errorf("looking for rows without a format: %w", err)
		}
		if len(rows) == 0 {
			continue
		}
		// Another process may have marked the store meanwhile, and begun to use it.
		if marked, err := readFormat(ctx, s, copies); marked || err != nil {
			return err
		}
		return fmt.Errorf("%w: the store has rows of family %s but no format: %s", ErrFormat, family, formatWayOut)
	}
	var b Batch
	b.Put(FamilyMeta, formatKey, []byte(strconv.Itoa(Format)))
	if err := s.Commit(ctx, &b); err != nil {
		return fmt.Errorf("marking the store's format: %w", err)
	}
	return nil
}

// readFormat reports whether the store is marked. It returns an error if the format is not acceptable.
func readFormat(ctx context.Context, s Store, copies bool) (marked bool, err error) {
	values, err := s.Get(ctx, FamilyMeta, []PK{formatKey})
	if err != nil {
		return false, fmt.Errorf("reading the store's format: %w", err)
	}
	want := strconv.Itoa(Format)
	switch v := values[0]; {
	case v == nil:
		return false, nil
	case string(v) == want, string(v) == unfinished && copies:
		return true, nil
	case string(v) == unfinished:
		return true, fmt.Errorf("%w: a copy into the store is not finished: run quorate store copy again", ErrFormat)
	default:
		return true, fmt.Errorf("%w: the store has format %q, this version supports %s: %s", ErrFormat, v, want, formatWayOut)
	}
}

const formatWayOut = "run the version that wrote it, or choose another data directory or database; " +
	"a fresh store is indexed from the network"
