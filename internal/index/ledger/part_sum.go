package ledger

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"quorate/internal/index/internal/row"
	"quorate/internal/store"
)

// partSum sums the events of a partition that count from before a time, or all of them if all is set.
type partSum struct {
	p   []byte
	at  uint64
	all bool
	// into receives the sum.
	into *sums
}

const (
	// sumsAtOnce and sumsRows limit the sums and the events of one exchange.
	sumsAtOnce = 128
	sumsRows   = 8192
	// guessedRows is the number of latest events read together with the checkpoint from a remote store. Most accounts
	// have fewer events since their last checkpoint.
	guessedRows = 2 * checkpointEvery
)

// addSums computes sums in one exchange with a remote store, and a second one for accounts with more events since their
// checkpoint than guessed. It needs further exchanges for more than sumsAtOnce sums. The first exchange also runs the
// queries in more; addSums returns their results.
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

// end returns the upper bound of the event keys.
func (s *partSum) end() []byte {
	if s.all {
		return nil
	}
	return row.Uint64(s.at)
}

// addFound adds the results of the queries: the checkpoint of each sum, and its last n events if n is not 0. It reads
// missing events.
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
