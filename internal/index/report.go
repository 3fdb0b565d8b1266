package index

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"quorate/internal/store"
)

// report is what the process that indexes a chain says about it to the other processes on the store. Heights are in the
// cursors.
type report struct {
	// State is empty unless the index fails.
	State   State     `json:"state,omitempty"`
	Error   string    `json:"error,omitempty"`
	Failing string    `json:"failing,omitempty"`
	Since   time.Time `json:"since,omitzero"`
	// Lacks and Do are those of a MissingError.
	Lacks string `json:"lacks,omitempty"`
	Do    string `json:"do,omitempty"`
	Note  string `json:"note,omitempty"`
	Gaps  uint64 `json:"gaps,omitempty"`
}

func reportOf(s Status) (r report) {
	r.Note, r.Gaps = s.Note, s.Gaps
	if s.Err == nil {
		return r
	}
	r.State, r.Error, r.Failing, r.Since = s.State, s.Err.Error(), s.Failing, s.FailingSince.UTC().Truncate(time.Second)
	if s.FailingSince.IsZero() {
		r.Since = time.Time{}
	}
	var missing *MissingError
	if errors.As(s.Err, &missing) {
		r.Lacks, r.Do = missing.Lacks, missing.Do
	}
	return r
}

// apply adds a report to the status of a process that watches.
func (r *report) apply(s *Status) {
	if s.Note == "" {
		s.Note = r.Note
	}
	s.Gaps = max(s.Gaps, r.Gaps)
	if r.Error == "" {
		return
	}
	s.State, s.Failing, s.FailingSince, s.Err = r.State, r.Failing, r.Since, errors.New(r.Error)
	if r.Lacks != "" {
		s.Err = &MissingError{Lacks: r.Lacks, Do: r.Do}
	}
}

func reportKey(networkID uint32, chain string) store.PK {
	return store.PK{P: fmt.Appendf(nil, "report/%d/%s", networkID, chain)}
}

const (
	// publishEvery is the interval at which a report is published, if it has changed, and read.
	publishEvery = time.Second
	// publishAgain is the interval at which it is published though it has not changed: a process that lost its lease
	// may have written another one.
	publishAgain = time.Minute
)

// Publish reports the failures and notes of a chain's index to the processes on the store that Watch it, until ctx ends.
// Chain is that of the pipeline. Call it in the process that indexes the chain.
func Publish(ctx context.Context, s store.Store, networkID uint32, chain string, status func() Status, log *slog.Logger) {
	var written []byte
	var at time.Time // of the last write
	for failing := false; ; {
		row := []byte(nil)
		if now := reportOf(status()); now != (report{}) {
			row, _ = json.Marshal(now) // strings, numbers and a time
		}
		if time.Since(at) >= publishAgain || string(row) != string(written) {
			batch := store.Batch{NoSync: true}
			if row == nil {
				batch.Delete(store.FamilyMeta, reportKey(networkID, chain))
			} else {
				batch.Put(store.FamilyMeta, reportKey(networkID, chain), row)
			}
			err := s.Commit(ctx, &batch)
			if err == nil {
				at, written = time.Now(), row
			} else if !failing && ctx.Err() == nil {
				log.Warn("other processes do not learn how a chain's index is", slog.String("chain", chain), slog.Any("error", err))
			}
			failing = err != nil
		}
		if wait(ctx, publishEvery) != nil {
			return
		}
	}
}

// readReport returns nil if there is none.
func readReport(ctx context.Context, r store.Reader, networkID uint32, chain string) (*report, error) {
	said := new(report)
	found, err := store.GetMeta(ctx, r, said, reportKey(networkID, chain))
	if err != nil || !found {
		return nil, err
	}
	return said, nil
}
