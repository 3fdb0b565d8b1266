package aggregator

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/set"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp"

	"quorate/internal/store"
)

// Stream is the stream of the messages of one network that any process on the store signed, also ahead of requests. It
// is a log in the store, because the archive's rows have no order that several processes share. A message is in it once
// for each validator set and quorum. It is safe for concurrent use.
type Stream struct {
	rows *store.Log
	log  *slog.Logger
}

// Stream returns the stream of a network.
func (a *Archive) Stream(networkID uint32) *Stream {
	a.mu.Lock()
	defer a.mu.Unlock()
	s, ok := a.streams[networkID]
	if !ok {
		s = &Stream{store.NewLog(a.store, store.FamilySigned, store.FamilySignedKey, networkPartition(networkID), a.streamBytes), a.log}
		a.streams[networkID] = s
	}
	return s
}

func networkPartition(networkID uint32) []byte { return binary.BigEndian.AppendUint32(nil, networkID) }

// StreamEvent is a signed message in a stream, or a gap.
type StreamEvent struct {
	// Number is the place in the stream, from 1.
	Number uint64
	// Time is when the message was signed.
	Time time.Time
	// Message is nil in a gap: Missed messages were signed but could not be written, or read. The other fields describe
	// the validator set and the signers; see Result.
	Message                           *warp.Message
	Missed                            uint64
	SigningSubnetID                   ids.ID
	PChainHeight, Weight, TotalWeight uint64
	Signers                           int
	// Origin tells who started the round.
	Origin Origin
}

// Origin tells whether a client or the service itself started the round that signed a message.
type Origin uint64

// The origins. They are stored.
const (
	OriginUnknown Origin = iota // of messages that earlier versions stored
	OriginClient
	OriginAhead // signed before a request
)

// String returns the origin as metrics name it.
func (o Origin) String() string {
	switch o {
	case OriginClient:
		return "client"
	case OriginAhead:
		return "ahead"
	default:
		return "unknown"
	}
}

// Ends returns the ends of the stream.
func (s *Stream) Ends(ctx context.Context) (store.LogEnds, error) { return s.rows.Ends(ctx) }

// Has reports whether the stream still has an ID and the event with a number; see store.Log.
func (s *Stream) Has(ctx context.Context, id, number uint64) (bool, error) {
	return s.rows.Has(ctx, id, number)
}

// Changed returns a channel that is closed at the next event of this process.
func (s *Stream) Changed() <-chan struct{} { return s.rows.Changed() }

// Read returns at most limit events after a number; see store.Log. A row that is damaged is a gap.
func (s *Stream) Read(ctx context.Context, after uint64, limit int) ([]StreamEvent, error) {
	rows, err := s.rows.Read(ctx, after, limit)
	if err != nil {
		return nil, err
	}
	events := make([]StreamEvent, len(rows))
	for i, row := range rows {
		if events[i], err = parseStreamEvent(row); err != nil {
			s.log.Error("a signed message is missing in its stream", slog.Any("error", err))
			events[i] = StreamEvent{Number: row.Number, Missed: 1}
		}
	}
	return events, nil
}

// A row of a stream begins with a hash of the rest, which replaces a second verification: the message was verified
// before it was written. The rest has a version, the time in ms, and four numbers of 8 bytes. A gap has the missed
// messages and zeros. A message has height, weight, total weight and origin, the subnet's ID, and the signed message.
const (
	streamHash = 8
	streamGap  = streamHash + 1 + 5*8
	streamHead = streamGap + ids.IDLen
)

func streamRow(fields [5]uint64, rest ...[]byte) []byte {
	v := append(make([]byte, streamHash, streamHead), archiveVersion)
	for _, field := range fields {
		v = binary.BigEndian.AppendUint64(v, field)
	}
	for _, part := range rest {
		v = append(v, part...)
	}
	sum := sha256.Sum256(v[streamHash:])
	copy(v, sum[:streamHash])
	return v
}

// splitRow returns the parts of a row. ok is false if it is damaged.
func splitRow(v []byte) (fields [5]uint64, rest []byte, ok bool) {
	if len(v) < streamGap || v[streamHash] != archiveVersion {
		return fields, nil, false
	}
	if sum := sha256.Sum256(v[streamHash:]); [streamHash]byte(sum[:]) != [streamHash]byte(v) {
		return fields, nil, false
	}
	for i := range fields {
		fields[i] = binary.BigEndian.Uint64(v[streamHash+1+8*i:])
	}
	return fields, v[streamGap:], true
}

func parseStreamEvent(row store.LogRow) (StreamEvent, error) {
	damaged := fmt.Errorf("%w: event %d of the stream of signed messages", errArchived, row.Number)
	fields, rest, ok := splitRow(row.V)
	if !ok || len(rest) > 0 && len(rest) < ids.IDLen {
		return StreamEvent{}, damaged
	}
	e := StreamEvent{Number: row.Number, Time: time.UnixMilli(int64(fields[0])).UTC()}
	if len(rest) == 0 {
		e.Missed = fields[4]
		return e, nil
	}
	message, err := warp.ParseMessage(rest[ids.IDLen:])
	if err != nil {
		return e, fmt.Errorf("%w: %w", damaged, err)
	}
	e.Message, e.SigningSubnetID = message, ids.ID(rest[:ids.IDLen])
	e.PChainHeight, e.Weight, e.TotalWeight, e.Origin = fields[1], fields[2], fields[3], Origin(fields[4])
	if signature, ok := message.Signature.(*warp.BitSetSignature); ok {
		e.Signers = set.BitsFromBytes(signature.Signers).Len()
	}
	return e, nil
}

// waitingStream is what waits to be written to a stream. missed counts messages that could not be written.
type waitingStream struct {
	missed  uint64
	entries []store.LogEntry
}

// putStream queues a signed message for its network's stream. If too much waits already, it counts the message as
// missed.
func (a *Archive) putStream(id finishedID, r *Result, from Origin) {
	k := make([]byte, 0, 2*ids.IDLen+8)
	k = append(append(k, id.message[:]...), id.set[:]...)
	k = binary.BigEndian.AppendUint64(k, id.need)
	fields := [5]uint64{uint64(r.made.UnixMilli()), r.PChainHeight, r.Weight, r.TotalWeight, uint64(from)}
	e := store.LogEntry{Key: k, V: streamRow(fields, r.SigningSubnetID[:], r.Message.Bytes())}
	size := len(e.Key) + len(e.V) + store.BoundedRowBytes
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		a.dropped.Add(1)
		return
	}
	w := waitingOf(a.streaming, r.Message.NetworkID)
	if a.bytes+size > maxWaitingBytes {
		w.missed++
		a.dropped.Add(1)
	} else {
		w.entries = append(w.entries, e)
		a.bytes += size
	}
	a.signal()
}

// writeStreams writes what waits for streams. Where messages were missed, it first writes a gap.
func (a *Archive) writeStreams(ctx context.Context, waiting map[uint32]*waitingStream) {
	for networkID, w := range waiting {
		entries := w.entries
		if w.missed > 0 {
			entries = append([]store.LogEntry{gapEntry(w.missed)}, entries...)
		}
		if err := a.append(ctx, a.Stream(networkID).rows, entries); err != nil {
			a.dropped.Add(uint64(len(w.entries)))
			a.log.Error("the stream of signed messages could not be written; it will have a gap", slog.Uint64("networkID", uint64(networkID)), slog.Any("error", err))
			a.mu.Lock()
			waitingOf(a.streaming, networkID).missed += w.missed + uint64(len(w.entries))
			a.mu.Unlock()
		}
	}
}

// gapEntry returns the entry that says how many are missing.
func gapEntry(missed uint64) store.LogEntry {
	return store.LogEntry{V: streamRow([5]uint64{0: uint64(time.Now().UnixMilli()), 4: missed})}
}

// writePause is the time between two attempts to write.
const writePause = time.Second

// append appends to a log; see insist.
func (a *Archive) append(ctx context.Context, rows *store.Log, entries []store.LogEntry) error {
	return a.insist(func() error { return rows.Append(ctx, entries...) })
}

// insist calls write. It tries again while the store is unavailable, until the archive is closed.
func (a *Archive) insist(write func() error) error {
	for {
		err := write()
		if !errors.Is(err, store.ErrUnavailable) {
			return err
		}
		select {
		case <-a.closing:
			return err
		case <-time.After(writePause):
		}
	}
}
