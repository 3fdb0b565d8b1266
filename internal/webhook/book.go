package webhook

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"slices"
	"time"

	"quorate/internal/store"
)

// revision is the cursor that each change of a webhook moves. It makes changes of several processes follow each other.
const revision = "webhooks"

// Book holds the webhooks of all owners. It is safe for concurrent use, also by several processes on one store.
type Book struct {
	store    store.Store
	perOwner int
}

// NewBook returns the webhooks in a store. perOwner is the maximum number of active webhooks of an owner.
func NewBook(s store.Store, perOwner int) *Book { return &Book{s, perOwner} }

// digestSize is the size of an owner's digest in keys.
const digestSize = 16

func ownerKey(owner string) []byte {
	sum := sha256.Sum256([]byte(owner))
	return sum[:digestSize]
}

// idKey returns the ID as it is in keys; false if the text is no ID.
func idKey(id string) ([]byte, bool) {
	b, err := hex.DecodeString(string(bytes.ReplaceAll([]byte(id), []byte("-"), nil)))
	return b, err == nil && len(b) == 16 && uuid([16]byte(b)) == id
}

func rowOf(owner, id string) (store.PK, bool) {
	k, ok := idKey(id)
	return store.PK{K: append(ownerKey(owner), k...)}, ok
}

// Create adds an active webhook. It sets the ID and the times. The owner gets a secret if there is none. If the owner
// has many inactive webhooks, the one that has been inactive the longest is deleted. Errors are ErrLimit if the owner
// has too many active ones, ErrFull, and those of the store.
func (b *Book) Create(ctx context.Context, w Webhook) (Webhook, error) {
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails, as documented
	w.ID, w.Active = uuid(id), true
	w.Created = time.Now().Unix()
	w.Changed = w.Created
	return w, b.change(ctx, func(batch *store.Batch) error {
		all, err := b.all(ctx)
		if err != nil {
			return err
		}
		own := slices.DeleteFunc(slices.Clone(all), func(other Webhook) bool { return other.Owner != w.Owner })
		if err := b.room(ctx, batch, all, own); err != nil {
			return err
		}
		values, err := b.store.Get(ctx, store.FamilyWebhookSecret, []store.PK{{P: ownerKey(w.Owner)}})
		if err != nil {
			return fmt.Errorf("reading a shared secret: %w", err)
		}
		if values[0] == nil {
			batch.Put(store.FamilyWebhookSecret, store.PK{P: ownerKey(w.Owner)}, []byte(newSecret()))
		}
		return put(batch, &w)
	})
}

// room makes room for another webhook of an owner, who has own of all.
func (b *Book) room(ctx context.Context, batch *store.Batch, all, own []Webhook) error {
	active := 0
	for i := range own {
		if own[i].Active {
			active++
		}
	}
	if active >= b.perOwner {
		return fmt.Errorf("%w: %d are active", ErrLimit, active)
	}
	if len(own) < 2*b.perOwner && len(all) < MaxWebhooks {
		return nil
	}
	inactive := slices.DeleteFunc(own, func(w Webhook) bool { return w.Active })
	if len(inactive) == 0 {
		return fmt.Errorf("%w: there are %d", ErrFull, len(all))
	}
	oldest := slices.MinFunc(inactive, func(x, y Webhook) int { return cmp.Compare(x.Changed, y.Changed) })
	if err := purge(ctx, b.store, &oldest); err != nil {
		return err
	}
	pk, _ := rowOf(oldest.Owner, oldest.ID)
	batch.Delete(store.FamilyWebhook, pk)
	batch.Delete(store.FamilyCursor, store.PK{P: []byte(cursorOf(&oldest))})
	batch.Delete(store.FamilyWebhookState, store.PK{P: pk.K[digestSize:]})
	return nil
}

// Get returns a webhook of an owner. The error is ErrNotFound without one.
func (b *Book) Get(ctx context.Context, owner, id string) (w Webhook, err error) {
	pk, ok := rowOf(owner, id)
	if !ok {
		return w, ErrNotFound
	}
	values, err := b.store.Get(ctx, store.FamilyWebhook, []store.PK{pk})
	if err != nil {
		return w, fmt.Errorf("reading a webhook: %w", err)
	}
	if values[0] == nil {
		return w, ErrNotFound
	}
	return parse(values[0])
}

// List returns the webhooks of an owner, the newest first.
func (b *Book) List(ctx context.Context, owner string) ([]Webhook, error) {
	prefix := ownerKey(owner)
	all, err := b.scan(ctx, prefix, append(slices.Clone(prefix), bytes.Repeat([]byte{0xff}, 17)...))
	slices.SortFunc(all, func(x, y Webhook) int {
		return cmp.Or(cmp.Compare(y.Created, x.Created), cmp.Compare(x.ID, y.ID))
	})
	return all, err
}

func (b *Book) all(ctx context.Context) ([]Webhook, error) { return b.scan(ctx, nil, nil) }

func (b *Book) scan(ctx context.Context, lo, hi []byte) ([]Webhook, error) {
	rows, err := b.store.Scan(ctx, store.FamilyWebhook, nil, lo, hi, store.Ascending, MaxWebhooks+1)
	if err != nil {
		return nil, fmt.Errorf("reading webhooks: %w", err)
	}
	all := make([]Webhook, len(rows))
	for i, row := range rows {
		if all[i], err = parse(row.V); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// Change applies f to a webhook of an owner and returns the result. It does not write the webhook if f fails. Errors
// are ErrNotFound, ErrLimit, those of f and of the store.
func (b *Book) Change(ctx context.Context, owner, id string, f func(*Webhook) error) (w Webhook, err error) {
	err = b.change(ctx, func(batch *store.Batch) error {
		if w, err = b.Get(ctx, owner, id); err != nil {
			return err
		}
		before := w.Active
		if err := f(&w); err != nil {
			return err
		}
		if w.Active != before {
			w.Changed = time.Now().Unix()
		}
		if w.Active && !before {
			own, err := b.List(ctx, owner)
			if err != nil {
				return err
			}
			own = slices.DeleteFunc(own, func(other Webhook) bool { return !other.Active })
			if len(own) >= b.perOwner {
				return fmt.Errorf("%w: %d are active", ErrLimit, len(own))
			}
		}
		return put(batch, &w)
	})
	return w, err
}

// Secret returns the secret that signs messages to an owner. The error is ErrNoSecret without one.
func (b *Book) Secret(ctx context.Context, owner string) (string, error) {
	values, err := b.store.Get(ctx, store.FamilyWebhookSecret, []store.PK{{P: ownerKey(owner)}})
	if err != nil {
		return "", fmt.Errorf("reading a shared secret: %w", err)
	}
	if values[0] == nil {
		return "", ErrNoSecret
	}
	return string(values[0]), nil
}

// Rotate replaces the secret of an owner and returns the new one.
func (b *Book) Rotate(ctx context.Context, owner string) (string, error) {
	secret := newSecret()
	// As a change, so that Create does not write another one over it.
	if err := b.change(ctx, func(batch *store.Batch) error {
		batch.Put(store.FamilyWebhookSecret, store.PK{P: ownerKey(owner)}, []byte(secret))
		return nil
	}); err != nil {
		return "", fmt.Errorf("writing a shared secret: %w", err)
	}
	return secret, nil
}

// newSecret returns 32 random bytes as hexadecimal text.
func newSecret() string {
	var b [32]byte
	_, _ = rand.Read(b[:]) // never fails, as documented
	return hex.EncodeToString(b[:])
}

// maxTries bounds the repetitions of a change that others come between.
const maxTries = 20

// change commits what f puts into a batch. It calls f again if another change came between.
func (b *Book) change(ctx context.Context, f func(*store.Batch) error) error {
	for try := 1; ; try++ {
		at, err := store.ReadCursor(ctx, b.store, revision)
		if err != nil {
			return err
		}
		var batch store.Batch
		if err := f(&batch); err != nil {
			return err
		}
		batch.Move(revision, at, store.Cursor{Next: at.Next + 1})
		err = b.store.Commit(ctx, &batch)
		switch {
		case err == nil || !errors.Is(err, store.ErrFenced):
			return err
		case try == maxTries:
			return fmt.Errorf("%w: other changes of webhooks came first: %w", store.ErrUnavailable, err)
		}
		pause(ctx, nil, mathrand.N(time.Duration(try)*time.Millisecond))
	}
}

func put(batch *store.Batch, w *Webhook) error {
	pk, _ := rowOf(w.Owner, w.ID) // uuid made the ID
	v, err := json.Marshal(w)
	if err != nil {
		return fmt.Errorf("encoding webhook %s: %w", w.ID, err)
	}
	batch.Put(store.FamilyWebhook, pk, v)
	return nil
}

func parse(v []byte) (w Webhook, err error) {
	if err := json.Unmarshal(v, &w); err != nil {
		return w, fmt.Errorf("%w: a webhook: %w", store.ErrCorrupt, err)
	}
	return w, nil
}
