package console

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/labstack/echo/v4"

	"quorate/aggregator"
	"quorate/handlers/apierr"
	"quorate/internal/store"
)

// Failures has the requests of one network that were not signed, numbered from 1 in the order in which they ended.
type Failures interface {
	Ends(ctx context.Context) (store.LogEnds, error)
	// Read returns at most limit failures after a number, and store.ErrTruncated if the next one was removed.
	Read(ctx context.Context, after uint64, limit int) ([]aggregator.Failure, error)
}

// failureView is a request that was not signed, or a gap: Missed failures that are not stored.
type failureView struct {
	Number             uint64              `json:"number"`
	At                 int64               `json:"at"` // in milliseconds since 1970
	Missed             uint64              `json:"missed,omitempty"`
	Elapsed            float64             `json:"elapsed"`
	Origin             string              `json:"origin,omitempty"`
	MessageID          string              `json:"messageId,omitempty"`
	SourceBlockchainID string              `json:"sourceBlockchainId,omitempty"`
	Payload            payloadView         `json:"payload"`
	Size               int                 `json:"size"`
	Code               string              `json:"code,omitempty"`
	Message            string              `json:"message,omitempty"`
	Outcomes           *aggregator.Account `json:"outcomes,omitempty"`
	// UnsignedMessage is in hex; empty if it is long.
	UnsignedMessage string `json:"unsignedMessage,omitempty"`
}

func newFailureView(f *aggregator.Failure) failureView {
	v := failureView{Number: f.Number, Missed: f.Missed}
	if !f.Time.IsZero() {
		v.At = f.Time.UnixMilli()
	}
	if f.Missed > 0 {
		return v
	}
	v.Elapsed, v.Origin, v.MessageID, v.SourceBlockchainID = milliseconds(f.Elapsed), f.Origin.String(), f.MessageID.String(), f.SourceChainID.String()
	v.Size, v.Code, v.Message, v.Outcomes = f.Size, string(f.Code), f.Text, f.Account
	v.Payload = payloadView{Kind: "unknown", Title: "Message of more than 2 KiB", Fields: []fieldView{}}
	if m := f.Unsigned(); m != nil {
		v.Payload, v.UnsignedMessage = newPayloadView(m), hexOf(f.Message)
	}
	return v
}

// failuresView is the answer of /console/api/failures, newest first.
type failuresView struct {
	Oldest uint64 `json:"oldest"`
	Newest uint64 `json:"newest"`
	// Before continues the list; nil at its end.
	Before   *uint64       `json:"before"`
	Failures []failureView `json:"failures"`
}

// listFailures is GET /console/api/failures.
func (c *Console) listFailures(ctx echo.Context) error {
	log := c.failuresOf(c.network(ctx))
	if log == nil {
		return apierr.NotFound("network: the failed requests of %q are not stored here", apierr.Excerpt(c.network(ctx)))
	}
	q, err := newMessageQuery(ctx)
	if err != nil {
		return err
	}
	reading, cancel := context.WithTimeout(ctx.Request().Context(), archiveTimeout)
	defer cancel()
	found, ends, before, err := newest(reading, log, q, func(f *aggregator.Failure) bool {
		return q.id == nil || f.MessageID == *q.id || f.SourceChainID == *q.id || f.Account != nil && f.Account.SigningSubnetID == *q.id
	})
	if err != nil {
		return apierr.Unavailable(err, "the failed requests cannot be read now; try again in a moment")
	}
	v := failuresView{ends.Oldest, ends.Newest, before, make([]failureView, len(found))}
	for i := range found {
		v.Failures[i] = newFailureView(&found[i])
	}
	return send(ctx, v)
}

// failuresOf returns the failures of a network, nil if they are not stored.
func (c *Console) failuresOf(network string) Failures {
	if c.options.Failures == nil {
		return nil
	}
	return c.options.Failures(network)
}

// tally counts the failures of a network by minute. Unlike metrics, it has those of other processes, and those from
// before the start. It is safe for concurrent use.
type tally struct {
	mu     sync.Mutex
	readAt time.Time
	err    error  // of the read at readAt
	log    uint64 // ID of the log that was read
	after  uint64 // number of the last failure that was counted
	// minutes holds counts by minutes since 1970, of a day.
	minutes map[int64]*failed
}

// failed counts requests that were not signed: those of clients by code, and all by the reasons of missing weight.
type failed struct {
	total                uint64
	outcomes, shortfalls map[string]uint64
}

func newFailed() *failed {
	return &failed{outcomes: make(map[string]uint64), shortfalls: make(map[string]uint64)}
}

// notStored is the code of failures that are only counted.
const notStored = "not stored"

func (n *failed) add(f *aggregator.Failure) {
	switch {
	case f.Missed > 0:
		n.total += f.Missed
		n.outcomes[notStored] += f.Missed
		return
	case f.Origin != aggregator.OriginAhead:
		n.total++
		n.outcomes[string(f.Code)]++
	}
	if f.Account != nil {
		for _, r := range f.Account.Reasons {
			n.shortfalls[string(r.Reason)]++
		}
	}
}

const (
	// tallyPage is the number of failures that one read returns, tallyTimeout the time for all of them.
	tallyPage    = 256
	tallyTimeout = 2 * time.Second
)

// read counts the failures since the last call, at most once a second. On an error it continues at the next one.
// Callers wait for each other.
func (t *tally) read(log Failures) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if time.Since(t.readAt) >= time.Second {
		t.err = t.count(log)
		t.readAt = time.Now()
	}
	return t.err
}

// count requires mu.
func (t *tally) count(log Failures) error {
	ctx, cancel := context.WithTimeout(context.Background(), tallyTimeout)
	defer cancel()
	ends, err := log.Ends(ctx)
	if err != nil {
		return err
	}
	if t.minutes == nil || t.log != ends.ID {
		t.log, t.after, t.minutes = ends.ID, 0, make(map[int64]*failed)
	}
	oldest := time.Now().Add(-day).Unix() / 60
	maps.DeleteFunc(t.minutes, func(minute int64, _ *failed) bool { return minute < oldest })
	t.after = max(t.after, ends.Oldest-1)
	for t.after < ends.Newest {
		found, err := log.Read(ctx, t.after, tallyPage)
		if errors.Is(err, store.ErrTruncated) || err == nil && len(found) == 0 {
			break // the next call begins with what is stored then
		}
		if err != nil {
			return err
		}
		for i := range found {
			t.after = found[i].Number
			minute := found[i].Time.Unix() / 60
			if minute < oldest {
				continue
			}
			if t.minutes[minute] == nil {
				t.minutes[minute] = newFailed()
			}
			t.minutes[minute].add(&found[i])
		}
	}
	return nil
}

// since returns the failures since a time.
func (t *tally) since(from time.Time) *failed {
	t.mu.Lock()
	defer t.mu.Unlock()
	sum := newFailed()
	for minute, n := range t.minutes {
		if minute < from.Unix()/60 {
			continue
		}
		sum.total += n.total
		for code, count := range n.outcomes {
			sum.outcomes[code] += count
		}
		for reason, count := range n.shortfalls {
			sum.shortfalls[reason] += count
		}
	}
	return sum
}

// tallyOf returns the failures of a network since a time, nil if they are not stored or cannot be read.
func (c *Console) tallyOf(network string, from time.Time) *failed {
	log := c.failuresOf(network)
	if log == nil {
		return nil
	}
	c.tallying.Lock()
	t, ok := c.tallies[network]
	if !ok {
		t = &tally{}
		c.tallies[network] = t
	}
	c.tallying.Unlock()
	if t.read(log) != nil {
		return nil
	}
	return t.since(from)
}
