package network

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"quorate/internal/node"
	"quorate/internal/retry"
)

// ErrNoHeight reports that no upstream node has reported the P-Chain height.
var ErrNoHeight = errors.New("the node does not report the current P-Chain height")

// firstLook bounds the time for which signing waits for what it does not need.
const firstLook = 2 * time.Second

// Open returns a network that can sign. It waits until the network ID is known, from the node or from an earlier start,
// or ctx ends. Whatever else fails is tried again by Run. claim may refuse the ID. waiting is called with each reason
// why the node has not reported the ID.
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
		if err = newIdentity(o.Name, id, o.Store, client, o.StorePlace).check(look); err == nil && o.Config.RecordsLedger() {
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
// had before, so that what is stored is served. If there is none, it asks until ctx ends.
func findID(ctx context.Context, client *node.Client, o Options, waiting func(error)) (id uint32, err error) {
	known := false
	err = retry.Pauses{First: 250 * time.Millisecond, Longest: 5 * time.Second}.Do(ctx, func() error {
		if id, err = client.NetworkID(ctx); err == nil || ctx.Err() != nil || o.Store == nil {
			return err
		}
		stored, found, storeErr := storedID(ctx, o.Store, o.Name)
		if storeErr != nil {
			return retry.Final(storeErr)
		}
		if id, known = stored, found; known {
			o.Log.Warn("the node has not reported its network ID; serving what is stored of the network until it does", slog.Uint64("networkID", uint64(id)), slog.Any("error", err))
			return nil
		}
		return err
	}, func(err error, pause time.Duration) {
		waiting(err)
		o.Log.Warn("the node has not reported its network ID; asking again", slog.Duration("in", pause), slog.Any("error", err))
	})
	if err != nil {
		return 0, fmt.Errorf("asking the node for its network: %w", err)
	}
	if known || o.Store == nil {
		return id, nil
	}
	return id, storeID(ctx, o.Store, o.Name, id)
}
