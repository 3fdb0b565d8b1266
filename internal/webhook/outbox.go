package webhook

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"quorate/internal/store"
)

// outbox holds the messages of one webhook that are to be delivered, and how far its chain was searched for events. All
// writes move the webhook's cursor, so that of two processes that write only one succeeds. It is safe for concurrent
// use.
type outbox struct {
	store store.Store
	id    []byte
	name  string // of the cursor
	// wake gets a value when there is another message.
	wake chan struct{}
	// pending is the last known number of messages.
	pending atomic.Uint32

	mu     sync.Mutex
	known  bool         // whether the fields below are the store's; guarded by mu
	cursor store.Cursor // guarded by mu
	load   load         // guarded by mu
	// next is the next height to search, at least cursor.Next; guarded by mu.
	next uint64
}

// load counts the messages in an outbox.
type load struct {
	messages uint32
	bytes    uint64
}

const loadSize = 12

// message is a message in an outbox.
type message struct {
	k        []byte
	due      time.Time
	height   uint64 // of the block
	attempts byte
	body     []byte
}

// placeSize is the size of an event's place: the block's height and the event's number in it.
const placeSize = 12

// idleHeights is the number of heights without events after which the cursor is written.
const idleHeights = 256

func cursorOf(w *Webhook) string { return "webhook/" + w.ID }

func newOutbox(s store.Store, w *Webhook) *outbox {
	id, _ := idKey(w.ID) // uuid made the ID
	return &outbox{store: s, id: id, name: cursorOf(w), wake: make(chan struct{}, 1)}
}

// read reads the store if the state is unknown. It requires mu.
func (o *outbox) read(ctx context.Context) error {
	if o.known {
		return nil
	}
	var err error
	if o.cursor, err = store.ReadCursor(ctx, o.store, o.name); err != nil {
		return err
	}
	values, err := o.store.Get(ctx, store.FamilyWebhookState, []store.PK{{P: o.id}})
	if err != nil {
		return fmt.Errorf("reading %s: %w", o.name, err)
	}
	o.load = load{}
	if v := values[0]; len(v) == loadSize {
		o.load = load{binary.BigEndian.Uint32(v), binary.BigEndian.Uint64(v[4:])}
	}
	o.next, o.known = o.cursor.Next, true
	o.pending.Store(o.load.messages)
	return nil
}

// commit writes a batch with the state that it leads to. It requires mu. After an error it is unknown whether the batch
// was written, so the state is read again.
func (o *outbox) commit(ctx context.Context, batch *store.Batch, next uint64, l load) error {
	to := store.Cursor{Next: next, Epoch: o.cursor.Epoch + 1}
	batch.Move(o.name, o.cursor, to)
	v := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint32(nil, l.messages), l.bytes)
	batch.Put(store.FamilyWebhookState, store.PK{P: o.id}, v)
	o.known = false
	if err := o.store.Commit(ctx, batch); err != nil {
		return fmt.Errorf("writing %s: %w", o.name, err)
	}
	o.known, o.cursor, o.load = true, to, l
	o.next = max(o.next, next)
	o.pending.Store(l.messages)
	return nil
}

// position returns the next height to search, at least from, and whether the outbox has room for its messages.
func (o *outbox) position(ctx context.Context, from uint64) (next uint64, room bool, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if err := o.read(ctx); err != nil {
		return 0, false, err
	}
	o.next = max(o.next, from)
	return o.next, o.load.messages < MaxPending && o.load.bytes < maxPendingBytes, nil
}

// add writes the messages about the events at height. It does nothing if the height was searched before.
func (o *outbox) add(ctx context.Context, height uint64, bodies [][]byte) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if err := o.read(ctx); err != nil || height < o.next {
		return err
	}
	if len(bodies) == 0 && height+1-o.cursor.Next < idleHeights {
		o.next = height + 1
		return nil
	}
	var batch store.Batch
	l := o.load
	now := time.Now()
	for i, body := range bodies {
		k := binary.BigEndian.AppendUint64(nil, uint64(now.UnixMilli()))
		k = binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint64(k, height), uint32(i))
		batch.Put(store.FamilyWebhookOutbox, store.PK{P: o.id, K: k}, append([]byte{0}, body...))
		l.messages++
		l.bytes += uint64(len(body))
	}
	err := o.commit(ctx, &batch, height+1, l)
	if len(bodies) > 0 { // which may be written even after an error
		select {
		case o.wake <- struct{}{}:
		default:
		}
	}
	return err
}

// first returns the message that is due first, nil without any.
func (o *outbox) first(ctx context.Context) (*message, error) {
	rows, err := o.store.Scan(ctx, store.FamilyWebhookOutbox, o.id, nil, nil, store.Ascending, 1)
	if err != nil {
		return nil, fmt.Errorf("reading the messages of %s: %w", o.name, err)
	}
	if len(rows) == 0 {
		return nil, o.empty(ctx)
	}
	row := rows[0]
	if len(row.K) != 8+placeSize || len(row.V) == 0 {
		return nil, fmt.Errorf("%w: message %x of %s", store.ErrCorrupt, row.K, o.name)
	}
	return &message{
		k: row.K, due: time.UnixMilli(int64(binary.BigEndian.Uint64(row.K))), height: binary.BigEndian.Uint64(row.K[8:]),
		attempts: row.V[0], body: row.V[1:],
	}, nil
}

// empty reads the state again if it has messages although none was found: another process removed them.
func (o *outbox) empty(ctx context.Context) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.load.messages == 0 {
		return nil
	}
	o.known = false
	return o.read(ctx)
}

// remove deletes a message that was delivered or given up.
func (o *outbox) remove(ctx context.Context, m *message) error {
	return o.replace(ctx, m, func(_ *store.Batch, l *load) {
		l.messages = max(l.messages, 1) - 1
		l.bytes -= min(l.bytes, uint64(len(m.body)))
	})
}

// postpone makes a message due at a time, after another failed attempt.
func (o *outbox) postpone(ctx context.Context, m *message, due time.Time) error {
	return o.replace(ctx, m, func(batch *store.Batch, _ *load) {
		k := append(binary.BigEndian.AppendUint64(nil, uint64(due.UnixMilli())), m.k[8:]...)
		batch.Put(store.FamilyWebhookOutbox, store.PK{P: o.id, K: k}, append([]byte{m.attempts + 1}, m.body...))
	})
}

func (o *outbox) replace(ctx context.Context, m *message, f func(*store.Batch, *load)) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if err := o.read(ctx); err != nil {
		return err
	}
	values, err := o.store.Get(ctx, store.FamilyWebhookOutbox, []store.PK{{P: o.id, K: m.k}})
	if err != nil {
		return fmt.Errorf("reading the messages of %s: %w", o.name, err)
	}
	if values[0] == nil { // another process has replaced the message since it was read
		return nil
	}
	var batch store.Batch
	l := o.load
	batch.Delete(store.FamilyWebhookOutbox, store.PK{P: o.id, K: m.k})
	f(&batch, &l)
	return o.commit(ctx, &batch, max(o.cursor.Next, o.next), l)
}

// purgePage is the number of messages that one batch deletes.
const purgePage = 64

// purge deletes the messages of a webhook that is inactive or about to be deleted.
func purge(ctx context.Context, s store.Store, w *Webhook) error {
	o := newOutbox(s, w)
	o.mu.Lock()
	defer o.mu.Unlock()
	for {
		if err := o.read(ctx); err != nil {
			return err
		}
		rows, err := s.Scan(ctx, store.FamilyWebhookOutbox, o.id, nil, nil, store.Ascending, purgePage)
		if err != nil {
			return fmt.Errorf("reading the messages of %s: %w", o.name, err)
		}
		if len(rows) == 0 && o.load == (load{}) {
			return nil
		}
		var batch store.Batch
		for _, row := range rows {
			batch.Delete(store.FamilyWebhookOutbox, store.PK{P: o.id, K: row.K})
		}
		l := o.load
		if len(rows) < purgePage {
			l = load{}
		}
		if err := o.commit(ctx, &batch, o.cursor.Next, l); err != nil && !errors.Is(err, store.ErrFenced) {
			return err
		}
	}
}
