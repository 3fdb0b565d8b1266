package network

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"quorate/internal/node"
	"quorate/internal/retry"
	"quorate/internal/store"
)

// ErrNoHeight reports that no upstream node has reported the P-Chain height.
var ErrNoHeight = errors.New("the node does not report the current P-Chain height")

// firstLook bounds the time for which signing waits for what it does not need.
const firstLook = 2 * time.Second

// Open returns a network that can sign. It waits until the network ID is known, from the node or from an earlier start,
// or ctx ends. It retries while the node or the store does not answer. Whatever else fails is tried again by Run. claim
// may refuse the ID. waiting is called with each reason why the ID is not known.
func Open(ctx context.Context, o Options, claim func(name string, id uint32) error, waiting func(error)) (*Network, error) {
	if n := o.Config.RequestsPerSecond; n > 0 {
		o.rate = node.NewRate(n)
	}
	client, err := NewClient(&o)
	if err != nil {
		return nil, err
	}
	id, err := findID(ctx, client, o, waiting)
	if err == nil {
		err = claim(o.Name, id)
	}
	if err == nil && o.Store != nil {
		look, cancel := context.WithTimeout(ctx, firstLook)
		defer cancel()
		err = newIdentity(o.Name, id, o.Store, client, o.StorePlace).check(look)
		if errors.Is(err, store.ErrUnavailable) {
			err = nil // identity.watch checks again
		}
		if err == nil && o.Config.RecordsLedger() {
			o.origin = findOrigin(look, client, id, o.Name, o.Config.GenesisFile, o.Log)
		}
	}
	if err != nil {
		client.Close()
		return nil, err
	}
	return New(client, id, o)
}

// findID returns the network ID that the node reports. If the node does not answer, it returns the ID that the network
// had before, so that what is stored is served. If there is none, or the store does not answer either, it asks until ctx
// ends.
func findID(ctx context.Context, client *node.Client, o Options, waiting func(error)) (id uint32, err error) {
	err = retry.Pauses{First: 250 * time.Millisecond, Longest: 5 * time.Second}.Do(ctx, func() error {
		if id, err = client.NetworkID(ctx); ctx.Err() != nil || o.Store == nil {
			return err
		}
		if err == nil {
			return final(storeID(ctx, o.Store, o.Name, id))
		}
		stored, found, storeErr := storedID(ctx, o.Store, o.Name)
		if storeErr != nil {
			return final(storeErr)
		}
		if id = stored; found {
			o.Log.Warn("the node has not reported its network ID; serving what is stored of the network until it does", slog.Uint64("networkID", uint64(id)), slog.Any("error", err))
			return nil
		}
		return err
	}, func(err error, pause time.Duration) {
		waiting(err)
		o.Log.Warn("the network ID is not known, because the node or the store does not answer; asking again", slog.Duration("in", pause), slog.Any("error", err))
	})
	if err != nil {
		return 0, fmt.Errorf("finding the ID of the network: %w", err)
	}
	return id, nil
}

// final marks an error of the store as final, unless the store does not answer.
func final(err error) error {
	if err == nil || errors.Is(err, store.ErrUnavailable) {
		return err
	}
	return retry.Final(err)
}
