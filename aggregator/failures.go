package aggregator

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp"

	"quorate/internal/store"
)

// Failures is the log of the requests of one network that any process on the store could not sign. It is stored as the
// stream of signed messages is, with its own limit in bytes. A message that is to be signed ahead of requests and fails
// repeatedly for the same reason is in it once. It is safe for concurrent use.
type Failures struct {
	rows *store.Log
	log  *slog.Logger
}

// Failures returns the log of a network's failures.
func (a *Archive) Failures(networkID uint32) *Failures {
	a.mu.Lock()
	defer a.mu.Unlock()
	f, ok := a.failures[networkID]
	if !ok {
		p := append(networkPartition(networkID), failuresPartition)
		f = &Failures{store.NewLog(a.store, store.FamilySigned, store.FamilySignedKey, p, a.failureBytes), a.log}
		a.failures[networkID] = f
	}
	return f
}

// failuresPartition follows the network ID in the partition of failures.
const failuresPartition = 'f'

// Failure is a request that was not signed, or a gap.
type Failure struct {
	// Number is the place in the log, from 1.
	Number uint64 `json:"-"`
	// Time is when the request began, Elapsed how long it took.
	Time    time.Time     `json:"-"`
	Elapsed time.Duration `json:"-"`
	// Missed failures were not written, or cannot be read. It is 0 unless this is a gap, which has no other field but
	// Time.
	Missed uint64 `json:"-"`
	Origin Origin `json:"-"`
	// Message is the unsigned message; empty if it has more than maxFailedMessage bytes. Size is its length.
	MessageID     ids.ID `json:"messageId"`
	SourceChainID ids.ID `json:"sourceChainId"`
	Message       []byte `json:"message,omitempty"`
	Size          int    `json:"size"`
	// Code and Text describe the failure.
	Code Code   `json:"code"`
	Text string `json:"text"`
	// Account is nil if no round was run. It lacks refusals and silent nodes, and names few nodes for each reason.
	Account *Account `json:"account,omitempty"`
}

const (
	// maxFailedMessage is the maximum size of a message that is stored with its failure, maxFailedText that of a text.
	maxFailedMessage, maxFailedText = 2048, 1024
	// maxFailedNodes is the number of nodes that are stored with a reason.
	maxFailedNodes = 5
)

// newFailure returns the failure of a request that began at a time.
func newFailure(started time.Time, req Request, failed *Error) *Failure {
	m := req.Message
	f := &Failure{
		Time: started, Elapsed: time.Since(started), Origin: req.origin(), MessageID: m.ID(), SourceChainID: m.SourceChainID,
		Size: len(m.Bytes()), Code: failed.Code, Text: failed.Message[:min(len(failed.Message), maxFailedText)],
	}
	if f.Size <= maxFailedMessage {
		f.Message = m.Bytes()
	}
	if failed.Account != nil {
		account := *failed.Account
		account.SilentNodes, account.Refusals, account.Reasons = []ids.NodeID{}, []Refusal{}, slices.Clone(account.Reasons)
		for i := range account.Reasons {
			nodes := account.Reasons[i].NodeIDs
			account.Reasons[i].NodeIDs = nodes[:min(len(nodes), maxFailedNodes)]
		}
		f.Account = &account
	}
	return f
}

// Unsigned returns the message, or nil if it is not stored.
func (f *Failure) Unsigned() *warp.UnsignedMessage {
	if len(f.Message) == 0 {
		return nil
	}
	m, err := warp.ParseUnsignedMessage(f.Message)
	if err != nil {
		return nil
	}
	return m
}

// Ends returns the ends of the log.
func (f *Failures) Ends(ctx context.Context) (store.LogEnds, error) { return f.rows.Ends(ctx) }

// Read returns at most limit failures after a number; see store.Log. A row that is damaged is a gap.
func (f *Failures) Read(ctx context.Context, after uint64, limit int) ([]Failure, error) {
	rows, err := f.rows.Read(ctx, after, limit)
	if err != nil {
		return nil, err
	}
	all := make([]Failure, len(rows))
	for i, row := range rows {
		if all[i], err = parseFailure(row); err != nil {
			f.log.Error("a failure is missing in the log of failures", slog.Any("error", err))
			all[i] = Failure{Number: row.Number, Missed: 1}
		}
	}
	return all, nil
}

// A row of the log has the head of a row of the stream, with the time in ms, the duration in µs and the origin, and the
// failure in JSON.
func (f *Failure) row() ([]byte, error) {
	content, err := json.Marshal(f)
	if err != nil {
		return nil, err
	}
	return streamRow([5]uint64{uint64(f.Time.UnixMilli()), uint64(f.Elapsed.Microseconds()), uint64(f.Origin)}, content), nil
}

func parseFailure(row store.LogRow) (Failure, error) {
	fields, content, ok := splitRow(row.V)
	if !ok {
		return Failure{}, fmt.Errorf("%w: row %d of the log of failures", errArchived, row.Number)
	}
	f := Failure{Missed: fields[4]}
	if f.Missed == 0 {
		if err := json.Unmarshal(content, &f); err != nil {
			return Failure{}, fmt.Errorf("%w: row %d of the log of failures: %w", errArchived, row.Number, err)
		}
		f.Elapsed, f.Origin = time.Duration(fields[1])*time.Microsecond, Origin(fields[2])
	}
	f.Number, f.Time = row.Number, time.UnixMilli(int64(fields[0])).UTC()
	return f, nil
}

const (
	// maxWaitingFailures bounds the bytes of failures that wait to be written.
	maxWaitingFailures = 256 << 10
	// failuresPause is the least time between two writes of failures. With maxWaitingFailures, it bounds what clients whose
	// requests fail write to the disk.
	failuresPause = time.Second
)

// putFailure queues the failure of a request that began at a time. If too much waits already, it counts the failure as
// missed.
func (a *Archive) putFailure(started time.Time, req Request, failed *Error) {
	networkID := req.Message.NetworkID
	a.mu.Lock()
	full := a.closed || a.failingBytes >= maxWaitingFailures
	if full {
		a.missFailures(networkID, 1)
	}
	a.mu.Unlock()
	if full {
		return // before the work of encoding it
	}
	f := newFailure(started, req, failed)
	v, err := f.row()
	if err != nil {
		a.log.Error("a failure could not be encoded", slog.Any("error", err))
		return
	}
	e := store.LogEntry{V: v}
	if f.Origin == OriginAhead {
		e.Key = append(slices.Clone(f.MessageID[:]), f.Code...)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		a.missFailures(networkID, 1)
		return
	}
	w := waitingOf(a.failing, networkID)
	w.entries = append(w.entries, e)
	a.failingBytes += len(e.Key) + len(e.V) + store.BoundedRowBytes
	select {
	case a.failed <- struct{}{}:
	default:
	}
}

// missFailures counts failures that are not written. It requires mu.
func (a *Archive) missFailures(networkID uint32, n uint64) {
	waitingOf(a.failing, networkID).missed += n
	a.droppedFailures.Add(n)
}

// waitingOf returns what waits for a network's log of messages or failures. It requires Archive.mu.
func waitingOf(waiting map[uint32]*waitingStream, networkID uint32) *waitingStream {
	w, ok := waiting[networkID]
	if !ok {
		w = &waitingStream{}
		waiting[networkID] = w
	}
	return w
}

// writeFailures writes failures until the archive is closed. It is not part of write, so that failures do not delay
// signed messages.
func (a *Archive) writeFailures(ctx context.Context) {
	defer close(a.failuresDone)
	for open := true; open; {
		select {
		case <-a.failed:
		case <-a.closing:
			open = false
		}
		a.mu.Lock()
		waiting := a.failing
		a.failing, a.failingBytes = make(map[uint32]*waitingStream), 0
		a.mu.Unlock()
		for networkID, w := range waiting {
			entries := w.entries
			if w.missed > 0 {
				entries = append([]store.LogEntry{gapEntry(w.missed)}, entries...)
			}
			err := a.append(ctx, a.Failures(networkID).rows, entries)
			if err == nil {
				continue
			}
			a.log.Error("failed requests could not be stored", slog.Uint64("networkID", uint64(networkID)), slog.Any("error", err))
			a.mu.Lock()
			waitingOf(a.failing, networkID).missed += w.missed
			a.missFailures(networkID, uint64(len(w.entries)))
			a.mu.Unlock()
		}
		if open {
			select {
			case <-a.closing:
			case <-time.After(failuresPause):
			}
		}
	}
}
