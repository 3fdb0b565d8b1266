package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"quorate/handlers/signing"
	"quorate/index"
	"quorate/index/evm"
	"quorate/index/primary"
	"quorate/store"
	"quorate/store/lease"
)

// role is which part of the work a process does, where several share a store.
type role string

const (
	// roleAll does everything. Of several, one at a time records each network.
	roleAll role = "all"
	// roleAPI answers what is read from the record and what a node answers.
	roleAPI role = "api"
	// roleIngest records.
	roleIngest role = "ingest"
	// roleSign has messages signed.
	roleSign role = "sign"
)

// check says what is wrong with a role beside a store, which is empty if it is in files.
func (r role) check(store string) error {
	switch r {
	case roleAll:
		return nil
	case roleAPI, roleIngest, roleSign:
		if store == "" {
			return fmt.Errorf("role: %s is a part of the work, which needs others for the rest; give them a store that they can share (store: postgres://...)", r)
		}
		return nil
	}
	return fmt.Errorf("role: %q is none of all, api, ingest and sign", string(r))
}

// records, answers and signs say which parts of the work are a role's.
func (r role) records() bool { return r == roleAll || r == roleIngest }
func (r role) answers() bool { return r == roleAll || r == roleAPI }
func (r role) signs() bool   { return r == roleAll || r == roleSign }

// connects says whether a role needs the peer-to-peer network.
func (r role) connects() bool { return r != roleIngest }

// refuses says why a request is for another role, empty if it is not.
func (r role) refuses(path string) string {
	signs := path == signing.PeerPath || strings.HasPrefix(path, "/v1/signatureAggregator/")
	reads := !signs && (strings.HasPrefix(path, "/v1/") || strings.HasPrefix(path, "/ext/") || strings.Contains(path, "/ext/"))
	switch {
	case signs && !r.signs():
		return fmt.Sprintf("this replica has the role %s and signs nothing; ask one with the role sign or all", r)
	case reads && !r.answers():
		return fmt.Sprintf("this replica has the role %s and answers no such question; ask one with the role api or all", r)
	}
	return ""
}

// newLeases are those of this process on a store that others may use, too.
func newLeases(s store.Store, c config, log *slog.Logger) *lease.Leases {
	holder, err := os.Hostname()
	if err != nil {
		holder = "unknown"
	}
	return lease.New(lease.Options{Store: s, Holder: fmt.Sprintf("%s, process %d, %s", holder, os.Getpid(), c.PrivateListen), Log: log})
}

// forms are those of all records.
func forms() []index.Form { return append(primary.Forms(), evm.Form()) }

// upgradeRecords sees to it that records are of this program's forms. Where several share the
// store only those who record may make records anew, one of them, and others wait.
func upgradeRecords(ctx context.Context, s store.Store, r role, leases *lease.Leases, log *slog.Logger) error {
	if leases == nil {
		return index.Upgrade(ctx, s, log, forms()...)
	}
	if r.records() {
		return leases.Hold(ctx, "upgrade", func(ctx context.Context) error { return index.Upgrade(ctx, s, log, forms()...) })
	}
	for told := false; ; {
		err := index.Check(ctx, s, forms()...)
		if !errors.Is(err, index.ErrOlder) {
			return err
		}
		if !told {
			log.Warn("the store has no records of this version yet; waiting for a replica that records (role ingest or all)", slog.Any("error", err))
			told = true
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Second):
		}
	}
}

// formsAgain is how often a process looks whether another one, of a newer version, has
// begun to keep other records.
const formsAgain = 5 * time.Second

// guardForms returns an error once the store has records that this program does not
// know, nil when ctx ends.
func guardForms(ctx context.Context, s store.Store) error {
	ticker := time.NewTicker(formsAgain)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		if err := index.Check(ctx, s, forms()...); errors.Is(err, index.ErrNewer) {
			return fmt.Errorf("another replica is of a newer version: %w", err)
		}
	}
}

// shared has work done by one of the processes that share a store; alone it is done at
// once. What is recorded by an older program than the store's is not recorded at all.
func shared(ctx context.Context, leases *lease.Leases, s store.Store, name string, work func(ctx context.Context) error) error {
	if leases == nil {
		return work(ctx)
	}
	return leases.Hold(ctx, name, func(ctx context.Context) error {
		if err := index.Check(ctx, s, forms()...); errors.Is(err, index.ErrNewer) {
			return err
		}
		return work(ctx)
	})
}

// recordChains has the primary network's chains recorded until ctx ends, by this process or
// another one that shares the store.
func (n *network) recordChains(ctx context.Context) error {
	if n.leases == nil {
		if err := n.chains.Run(ctx); err != nil {
			n.log.Error("the chains are not recorded any more", slog.Any("error", err))
		}
		return nil // without it the network signs all the same
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return n.chains.Watch(ctx) })
	g.Go(func() error { return guardForms(ctx, n.store) })
	if n.role.records() {
		g.Go(func() error {
			return shared(ctx, n.leases, n.store, fmt.Sprintf("index/%d", n.id), func(ctx context.Context) error {
				// A new one, as what the last one had in memory may be old.
				recorder, err := n.newRecorder()
				if err != nil {
					return err
				}
				n.chains.RecordedBy(recorder)
				defer n.chains.RecordedBy(nil)
				return recorder.Run(ctx)
			})
		})
	}
	return g.Wait()
}

// keyOfPages is the name of the key that seals page tokens in a shared store.
const keyOfPages = "page_key"

// sharedPageKey is the key that seals page tokens, the same for all who share a store.
func sharedPageKey(ctx context.Context, s store.Store) ([]byte, error) {
	const size = 32
	row := store.PK{P: []byte(keyOfPages)}
	for {
		values, err := s.Get(ctx, store.FamilyMeta, []store.PK{row})
		if err != nil {
			return nil, fmt.Errorf("reading the key of page tokens: %w", err)
		}
		if len(values[0]) == size {
			return values[0], nil
		}
		if values[0] != nil {
			return nil, fmt.Errorf("reading the key of page tokens: %w: it has %d bytes", store.ErrCorrupt, len(values[0]))
		}
		key := make([]byte, size)
		_, _ = rand.Read(key) // never fails, as documented
		var batch store.Batch
		batch.Put(store.FamilyMeta, row, key)
		batch.Move(keyOfPages, store.Cursor{}, store.Cursor{Epoch: 1})
		if err := s.Commit(ctx, &batch); err != nil && !errors.Is(err, store.ErrFenced) {
			return nil, fmt.Errorf("keeping the key of page tokens: %w", err)
		}
	}
}
