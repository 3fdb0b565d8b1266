package ledger

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"quorate/internal/index/internal/row"
	"quorate/internal/store"
)

// partSum is the sum of the events of a partition that count from before a time, or,
// if all is set, of all of them.
type partSum struct {
	p   []byte
	at  uint64
	all bool
	// into is what the sum is added to.
	into *sums
}

const (
	// sumsAtOnce is how many sums are read in one exchange at most, and sumsRows how
	// many events.
	sumsAtOnce = 128
	sumsRows   = 8192
	// guessedRows are how many of the last events are read along with the checkpoint of
	// an engine that is elsewhere: most accounts have fewer, and of those that have more
	// one in eight has had no checkpoint for as long. To ask again costs less than rows
	// that nobody needs for all.
	guessedRows = 2 * checkpointEvery
)

// addSums adds sums up in one exchange with an engine that is elsewhere, and a second one
// if there are accounts with more events since their checkpoints than were guessed; in
// more if they are more than sumsAtOnce. With the first of them it does the queries of
// more, and returns what they found.
func addSums(ctx context.Context, r store.Reader, parts []partSum, guess int, more []store.Query) ([][]store.Row, error) {
	var besides [][]store.Row
	for first := true; first || len(parts) > 0; first = false {
		some := parts[:min(len(parts), sumsAtOnce)]
		parts = parts[len(some):]
		n := min(guess, sumsRows/max(1, len(some)))
		queries := slices.Grow(more, 2*len(some))
		for _, s := range some {
			hi := store.After(row.Uint64(s.at))
			if s.all {
				hi = nil
			}
			queries = append(queries, store.Query{Family: store.FamilyBalanceCheckpoint, P: s.p, Hi: hi, Dir: store.Descending, Limit: 1})
			if n > 0 {
				queries = append(queries, store.Query{Family: store.FamilyBalanceEvent, P: s.p, Hi: s.end(), Dir: store.Descending, Limit: n})
			}
		}
		found, err := store.Scans(ctx, r, queries...)
		if err != nil {
			return nil, fmt.Errorf("reading balances: %w", err)
		}
		if first {
			besides, found, more = found[:len(more)], found[len(more):], nil
		}
		if err := addFound(ctx, r, some, n, found); err != nil {
			return nil, fmt.Errorf("reading balances: %w", err)
		}
	}
	return besides, nil
}

// end is the key before which the events are.
func (s *partSum) end() []byte {
	if s.all {
		return nil
	}
	return row.Uint64(s.at)
}

// addFound adds up what was found of sums: the checkpoint of each, and the last n events
// if n is not 0. It reads those that are missing.
func addFound(ctx context.Context, r store.Reader, parts []partSum, n int, found [][]store.Row) error {
	var missing []store.Query
	var into []*sums
	limit := max(16, sumsRows/max(1, len(parts)))
	for _, s := range parts {
		q := store.Query{Family: store.FamilyBalanceEvent, P: s.p, Lo: row.Uint64(0), Hi: s.end(), Limit: limit}
		for _, one := range found[0] {
			if err := s.into.addRow(one.V); err != nil {
				return err
			}
			q.Lo = one.K
		}
		found = found[1:]
		complete := false
		if n > 0 {
			last := found[0]
			found = found[1:]
			complete = len(last) < n
			for _, one := range last {
				if bytes.Compare(one.K, q.Lo) < 0 {
					complete = true
					break
				}
				if err := s.into.addRow(one.V); err != nil {
					return err
				}
				q.Hi = one.K
			}
		}
		if !complete {
			missing, into = append(missing, q), append(into, s.into)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	found, err := store.Scans(ctx, r, missing...)
	if err != nil {
		return err
	}
	for i, rows := range found {
		for _, one := range rows {
			if err := into[i].addRow(one.V); err != nil {
				return err
			}
		}
		if q := missing[i]; len(rows) == q.Limit {
			if err := sumEvents(ctx, r, q.P, store.After(rows[len(rows)-1].K), q.Hi, nil, into[i]); err != nil {
				return err
			}
		}
	}
	return nil
}
