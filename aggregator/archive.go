package aggregator

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ava-labs/avalanchego/ids"
	snow "github.com/ava-labs/avalanchego/snow/validators"
	"github.com/ava-labs/avalanchego/utils/crypto/bls"
	"github.com/ava-labs/avalanchego/utils/set"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp"

	"quorate/internal/store"
	"quorate/validators"
)

// Archive stores finished messages and verified signatures, each kind bounded in bytes with the
// oldest evicted first, and the logs of signed messages and of failures. It writes in the background.
// Rows that the store does not take in time are dropped and counted. Several aggregators may share
// an Archive. It is safe for concurrent use.
type Archive struct {
	store                store.Store
	messages, signatures *store.Bounded
	streamBytes          uint64
	failureBytes         uint64
	log                  *slog.Logger
	dropped              atomic.Uint64
	droppedFailures      atomic.Uint64
	silent               atomic.Int64       // until when nothing is read, in Unix milliseconds
	closing              chan struct{}      // closed by Close
	end                  context.CancelFunc // of all writes
	done                 chan struct{}      // closed when everything but failures is written
	failuresDone         chan struct{}      // closed when all failures are written

	mu        sync.Mutex
	streams   map[uint32]*Stream        // by network ID; guarded by mu
	waiting   []archived                // guarded by mu
	streaming map[uint32]*waitingStream // by network ID; guarded by mu
	bytes     int                       // of waiting and streaming; guarded by mu
	closed    bool                      // guarded by mu
	wake      chan struct{}             // holds one token while something waits

	failures     map[uint32]*Failures      // by network ID; guarded by mu
	failing      map[uint32]*waitingStream // by network ID; guarded by mu
	failingBytes int                       // of failing; guarded by mu
	failed       chan struct{}             // holds one token while failures wait
}

// archived is a row on its way to a family.
type archived struct {
	family *store.Bounded
	entry  store.Entry
}

// ArchiveOptions bound an Archive; zero values mean 256 MiB for messages, 512 MiB for
// signatures, and for each network 64 MiB for its stream and 8 MiB for its failures on disk.
type ArchiveOptions struct {
	MessageBytes, SignatureBytes, StreamBytes, FailureBytes uint64
	// Log may be nil.
	Log *slog.Logger
}

const (
	// maxWaitingBytes bounds what waits to be written.
	maxWaitingBytes = 16 << 20
	// readTimeout bounds a read of the archive. A request must not wait for a store that does not answer: validators sign
	// in about that time.
	readTimeout = 250 * time.Millisecond
	// readPause is how long the archive is not read after a read that the store did not answer in time: it has too much to
	// do already.
	readPause = 2 * time.Second
	// closeTimeout bounds how long Close waits for the store.
	closeTimeout = 10 * time.Second
)

// OpenArchive opens the archive in a store. The caller closes the archive first, then the store.
func OpenArchive(ctx context.Context, s store.Store, o ArchiveOptions) (*Archive, error) {
	messages, err := store.NewBounded(ctx, s, store.FamilyMessage, cmp.Or(o.MessageBytes, 256<<20))
	if err != nil {
		return nil, fmt.Errorf("opening the archive of messages: %w", err)
	}
	signatures, err := store.NewBounded(ctx, s, store.FamilySignature, cmp.Or(o.SignatureBytes, 512<<20))
	if err != nil {
		return nil, fmt.Errorf("opening the archive of signatures: %w", err)
	}
	a := &Archive{
		store: s, messages: messages, signatures: signatures, streamBytes: cmp.Or(o.StreamBytes, 64<<20),
		failureBytes: cmp.Or(o.FailureBytes, 8<<20), log: o.Log,
		streams: make(map[uint32]*Stream), streaming: make(map[uint32]*waitingStream),
		failures: make(map[uint32]*Failures), failing: make(map[uint32]*waitingStream),
		closing: make(chan struct{}), done: make(chan struct{}), wake: make(chan struct{}, 1),
		failuresDone: make(chan struct{}), failed: make(chan struct{}, 1),
	}
	if a.log == nil {
		a.log = slog.New(slog.DiscardHandler)
	}
	// Writes outlast ctx; Close ends them.
	writing, end := context.WithCancel(context.WithoutCancel(ctx))
	a.end = end
	go a.write(writing)
	go a.writeFailures(writing)
	return a, nil
}

// Close writes what waits, for closeTimeout at most, and ends the archive.
func (a *Archive) Close() {
	defer a.end()
	defer time.AfterFunc(closeTimeout, a.end).Stop()
	a.mu.Lock()
	if !a.closed {
		a.closed = true
		close(a.closing)
		close(a.wake)
	}
	a.mu.Unlock()
	<-a.done
	<-a.failuresDone
}

// Collectors are the archive's metrics.
func (a *Archive) Collectors() []prometheus.Collector {
	gauge := func(name, help string, read func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, read)
	}
	size := func(b *store.Bounded) func() float64 {
		return func() float64 {
			bytes, _ := b.Size()
			return float64(bytes)
		}
	}
	return []prometheus.Collector{
		gauge("quorate_archive_message_bytes", "Bytes of finished messages on disk.", size(a.messages)),
		gauge("quorate_archive_signature_bytes", "Bytes of verified signatures on disk.", size(a.signatures)),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "quorate_archive_dropped_total", Help: "Rows that were dropped because the disk did not keep up or failed.",
		}, func() float64 { return float64(a.dropped.Load()) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "quorate_archive_failures_dropped_total", Help: "Failed requests that were not stored, because there were too many at a time or the disk did not keep up or failed.",
		}, func() float64 { return float64(a.droppedFailures.Load()) }),
	}
}

// put queues rows, or drops them if too much waits already.
func (a *Archive) put(family *store.Bounded, entries ...store.Entry) {
	size := 0
	for i := range entries {
		size += len(entries[i].P) + len(entries[i].K) + len(entries[i].V) + store.BoundedRowBytes
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed || a.bytes+size > maxWaitingBytes {
		a.dropped.Add(uint64(len(entries)))
		return
	}
	for _, e := range entries {
		a.waiting = append(a.waiting, archived{family, e})
	}
	a.bytes += size
	a.signal()
}

// signal wakes the writer. It requires mu, and that the archive is not closed.
func (a *Archive) signal() {
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// write empties the queue until the archive is closed.
func (a *Archive) write(ctx context.Context) {
	defer close(a.done)
	var batch []archived
	for open := true; open; {
		_, open = <-a.wake
		a.mu.Lock()
		batch, a.waiting = a.waiting, batch[:0]
		streaming := a.streaming
		a.streaming = make(map[uint32]*waitingStream)
		a.bytes = 0
		a.mu.Unlock()
		// A message that is in the archive gets no further event, so its event comes first.
		a.writeStreams(ctx, streaming)
		for _, family := range []*store.Bounded{a.messages, a.signatures} {
			var entries []store.Entry
			for _, w := range batch {
				if w.family == family {
					entries = append(entries, w.entry)
				}
			}
			if len(entries) == 0 {
				continue
			}
			if err := a.insist(func() error { return family.Put(ctx, entries...) }); err != nil {
				a.dropped.Add(uint64(len(entries)))
				a.log.Error("the archive could not be written; signed messages will not survive a restart", slog.Any("error", err))
			}
		}
		clear(batch)
	}
}

// archiveVersion begins every value.
const archiveVersion = 1

func messageKey(id finishedID) store.PK {
	k := make([]byte, 0, ids.IDLen+16)
	k = append(k, id.set[:]...)
	k = binary.BigEndian.AppendUint64(k, id.need)
	k = binary.BigEndian.AppendUint64(k, id.want)
	return store.PK{P: id.message[:], K: k}
}

// messageVersion begins the row of a message, which has the time in ms, the aggregate signature and the signers. Rows of
// version archiveVersion lack the time.
const messageVersion = 2

// parseMessage returns the parts of the row of a message. signedAt is the zero time if it is not known.
func parseMessage(v []byte) (signature *warp.BitSetSignature, signedAt time.Time, ok bool) {
	head := 1
	switch {
	case len(v) > 0 && v[0] == archiveVersion:
	case len(v) > 1+8 && v[0] == messageVersion:
		head += 8
		signedAt = time.UnixMilli(int64(binary.BigEndian.Uint64(v[1:]))).UTC()
	default:
		return nil, signedAt, false
	}
	if len(v) < head+bls.SignatureLen {
		return nil, signedAt, false
	}
	return &warp.BitSetSignature{Signature: [bls.SignatureLen]byte(v[head:]), Signers: v[head+bls.SignatureLen:]}, signedAt, true
}

// signedRows is the number of rows of one message that SignedAt reads: a message has one for each validator set and
// quorum.
const signedRows = 64

// SignedAt returns when messages were first signed, as far as the archive still has them, in the order of their IDs. The
// time of others is zero.
func (a *Archive) SignedAt(ctx context.Context, messageIDs []ids.ID) ([]time.Time, error) {
	times := make([]time.Time, len(messageIDs))
	for i, id := range messageIDs {
		rows, err := a.messages.Scan(ctx, id[:], nil, nil, store.Ascending, signedRows)
		if err != nil {
			return nil, fmt.Errorf("reading when message %s was signed: %w", id, err)
		}
		for _, row := range rows {
			if _, at, ok := parseMessage(row.V); ok && !at.IsZero() && (times[i].IsZero() || at.Before(times[i])) {
				times[i] = at
			}
		}
	}
	return times, nil
}

// putMessage stores the signature of a finished message. A request for it has the unsigned message.
func (a *Archive) putMessage(id finishedID, r *Result) {
	signature, ok := r.Message.Signature.(*warp.BitSetSignature)
	if !ok {
		return
	}
	v := make([]byte, 0, 1+8+bls.SignatureLen+len(signature.Signers))
	v = binary.BigEndian.AppendUint64(append(v, messageVersion), uint64(r.made.UnixMilli()))
	v = append(v, signature.Signature[:]...)
	a.put(a.messages, store.Entry{PK: messageKey(id), V: append(v, signature.Signers...)})
}

// errArchived reports a row of the archive that differs from what was written.
var errArchived = errors.New("row of the archive cannot be read")

// read calls f with a timeout, or not at all shortly after the store did not answer.
func (a *Archive) read(ctx context.Context, f func(context.Context) error) error {
	if time.Now().UnixMilli() < a.silent.Load() {
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	err := f(limited)
	// The store may answer after the timeout, too.
	if ctx.Err() == nil && (limited.Err() != nil || errors.Is(err, store.ErrUnavailable)) {
		a.silent.Store(time.Now().Add(readPause).UnixMilli())
	}
	return err
}

// message returns a finished message, nil if there is none. It verifies the message again, because
// the store may have changed it.
func (a *Archive) message(ctx context.Context, id finishedID, msg *warp.UnsignedMessage, signers *validators.Set) (*Result, error) {
	var values [][]byte
	err := a.read(ctx, func(ctx context.Context) (err error) {
		values, err = a.messages.Get(ctx, messageKey(id))
		return err
	})
	if err != nil || values == nil || values[0] == nil {
		return nil, err
	}
	signature, _, ok := parseMessage(values[0])
	if !ok {
		return nil, fmt.Errorf("%w: message %s", errArchived, id.message)
	}
	if err := verify(msg, signature, signers, id.need); err != nil {
		return nil, fmt.Errorf("%w: message %s: %w", errArchived, id.message, err)
	}
	signed, err := warp.NewMessage(msg, signature)
	if err != nil {
		return nil, fmt.Errorf("%w: message %s: %w", errArchived, id.message, err)
	}
	r := &Result{Message: signed, SigningSubnetID: signers.SubnetID, PChainHeight: signers.Height, TotalWeight: signers.TotalWeight}
	bits := set.BitsFromBytes(signature.Signers)
	for i, validator := range signers.Validators {
		if bits.Contains(i) {
			r.Signers++
			r.Weight += validator.Weight
		}
	}
	r.Account = Account{
		SigningSubnetID: signers.SubnetID,
		PChainHeight:    signers.Height,
		TargetWeight:    id.need,
		TotalWeight:     signers.TotalWeight,
		SignedWeight:    r.Weight,
		UnaskedWeight:   signers.KeyedWeight() - r.Weight,
		KeylessWeight:   signers.TotalWeight - signers.KeyedWeight(),
		Refusals:        []Refusal{},
		SilentNodes:     []ids.NodeID{},
	}
	return r, nil
}

// A row holds signatures of one message: the version, then for each signature the public key
// (uncompressed, as in the canonical set) and the signature (compressed). The key of the row is the
// hash of its value. So rows do not overwrite each other, and the hash replaces a second
// verification: the signatures were verified before they were stored.
const (
	archivedSignature = keyLen + bls.SignatureLen
	archivedHash      = 8
)

// putSignatures stores verified signatures of a message as one row.
func (a *Archive) putSignatures(message ids.ID, members []*snow.Warp, signatures [][bls.SignatureLen]byte) {
	v := make([]byte, 0, 1+len(members)*archivedSignature)
	v = append(v, archiveVersion)
	for i, m := range members {
		v = append(v, m.PublicKeyBytes...)
		v = append(v, signatures[i][:]...)
	}
	k := sha256.Sum256(v)
	a.put(a.signatures, store.Entry{PK: store.PK{P: message[:], K: k[:archivedHash]}, V: v})
}

// maxArchivedPieces bounds the rows that are read for one message. More rows only come from older
// validator sets.
const maxArchivedPieces = 128

// eachSignature calls f with the verified signatures of a message, by public key.
func (a *Archive) eachSignature(ctx context.Context, message ids.ID, f func(key publicKey, signature [bls.SignatureLen]byte)) error {
	var rows []store.Row
	if err := a.read(ctx, func(ctx context.Context) (err error) {
		rows, err = a.signatures.Scan(ctx, message[:], nil, nil, store.Ascending, maxArchivedPieces)
		return err
	}); err != nil {
		return err
	}
	for _, row := range rows {
		sum := sha256.Sum256(row.V)
		if len(row.V) == 0 || row.V[0] != archiveVersion || (len(row.V)-1)%archivedSignature != 0 || !bytes.Equal(sum[:archivedHash], row.K) {
			return fmt.Errorf("%w: signatures of message %s", errArchived, message)
		}
		for piece := row.V[1:]; len(piece) > 0; piece = piece[archivedSignature:] {
			f(publicKey(piece), [bls.SignatureLen]byte(piece[keyLen:]))
		}
	}
	return nil
}
