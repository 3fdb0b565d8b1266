package network

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/ava-labs/avalanchego/ids"

	"quorate/internal/chain/pchain"
	"quorate/internal/node"
	"quorate/internal/store"
)

// otherNetworkError reports that the node is on another network than the one that the store has data of.
type otherNetworkError struct {
	// Found says what differs, Do what the operator can do.
	Found, Do string
}

// Error implements error.
func (e *otherNetworkError) Error() string { return e.Found + "; " + e.Do }

// identityPeriod is the time between two checks of the identity.
const identityPeriod = 20 * time.Second

// identity tells a network from another one with the same network ID, for example a local network that was created
// again. It stores the IDs of some P-Chain blocks, and compares them with those of the node.
type identity struct {
	name  string
	id    uint32
	store store.Store
	node  *node.Client
	place string // of the store, for the operator
}

// newIdentity returns the identity of a network. Where the P-Chain is executed, it alone is asked: a URL that is on
// another network is none of those that are believed.
func newIdentity(name string, id uint32, s store.Store, client *node.Client, place string) *identity {
	if executed := client.Executed(); executed != nil {
		client = executed
	}
	return &identity{name, id, s, client, place}
}

// watch checks the identity until ctx ends. It returns an *otherNetworkError once the node is on another network.
func (i *identity) watch(ctx context.Context, log *slog.Logger) error {
	ticker := time.NewTicker(identityPeriod)
	defer ticker.Stop()
	for {
		err := i.check(ctx)
		var other *otherNetworkError
		switch {
		case errors.As(err, &other):
			return err
		case err != nil && ctx.Err() == nil:
			log.Warn("whether the node is still on the same network cannot be checked", slog.Any("error", err))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// check returns an *otherNetworkError if the node is on another network. A node that does not answer, or that lacks
// the blocks, is no such sign, nor is a store that does not answer before ctx ends. Other errors are the store's.
func (i *identity) check(ctx context.Context) error {
	id, err := i.node.NetworkID(ctx)
	if err != nil {
		return nil
	}
	if id != i.id {
		return i.other(fmt.Sprintf("the node is on the network with ID %d, and not on %d as before", id, i.id), "restart quorate if this is intended")
	}
	blocks, err := i.blocks(ctx)
	if err != nil && ctx.Err() != nil {
		return nil
	}
	if err != nil {
		return err
	}
	// If the node is replaced meanwhile, the comparison comes after it: blocks of the new one are not stored.
	next := i.next(ctx, blocks)
	if next == nil {
		return nil
	}
	same := len(blocks) == 0
	for _, height := range slices.Backward(slices.Sorted(maps.Keys(blocks))) {
		found, ok := i.block(ctx, height)
		if !ok {
			continue
		}
		if found != blocks[height] {
			return i.other(fmt.Sprintf("the node is on another network than the one that is stored, with the same ID %d: its P-Chain block %d is %s, stored is %s", i.id, height, found, blocks[height]),
				fmt.Sprintf("set networks.%s.nodes to nodes of the stored network, or start afresh: stop quorate and move %s away", i.name, i.place))
		}
		same = true
		break // all earlier blocks are the same
	}
	if !same || len(next) == 0 || maps.Equal(next, blocks) {
		return nil
	}
	if err := store.PutMeta(ctx, i.store, next, i.row()); err != nil && ctx.Err() == nil {
		return fmt.Errorf("storing the blocks of network %s: %w", i.name, err)
	}
	return nil
}

func (i *identity) other(found, do string) error { return &otherNetworkError{found, do} }

// next returns the first two blocks and the last one, of which some may be stored. It returns nil if the node does not
// answer.
func (i *identity) next(ctx context.Context, stored map[uint64]ids.ID) map[uint64]ids.ID {
	tip, err := i.node.Height(ctx)
	if err != nil {
		return nil
	}
	for height := range stored {
		tip = max(tip, height)
	}
	next := make(map[uint64]ids.ID)
	for _, height := range []uint64{0, 1, tip} {
		if id, ok := stored[height]; ok {
			next[height] = id
		} else if id, ok := i.block(ctx, height); ok {
			next[height] = id
		}
	}
	return next
}

// block returns the ID of a P-Chain block, and false if the node does not report it.
func (i *identity) block(ctx context.Context, height uint64) (ids.ID, bool) {
	content, err := i.node.BlockByHeight(ctx, height)
	if err != nil {
		return ids.Empty, false
	}
	b, err := pchain.ParseBlock(content)
	if err != nil {
		return ids.Empty, false
	}
	return b.ID, true
}

// blocks returns the stored IDs of blocks by height.
func (i *identity) blocks(ctx context.Context) (blocks map[uint64]ids.ID, err error) {
	if _, err = store.GetMeta(ctx, i.store, &blocks, i.row()); err != nil {
		err = fmt.Errorf("reading the blocks of network %s: %w", i.name, err)
	}
	return blocks, err
}

func (i *identity) row() store.PK { return store.PK{P: fmt.Appendf(nil, "network/%d/blocks", i.id)} }

// storedID returns the network ID that the network with a name had, and false if there was none.
func storedID(ctx context.Context, s store.Store, name string) (uint32, bool, error) {
	values, err := s.Get(ctx, store.FamilyMeta, []store.PK{idRow(name)})
	if err != nil {
		return 0, false, fmt.Errorf("reading the ID of network %s: %w", name, err)
	}
	if len(values[0]) != 4 {
		return 0, false, nil
	}
	return binary.BigEndian.Uint32(values[0]), true, nil
}

func storeID(ctx context.Context, s store.Store, name string, id uint32) error {
	if stored, ok, err := storedID(ctx, s, name); err != nil || ok && stored == id {
		return err
	}
	var b store.Batch
	b.Put(store.FamilyMeta, idRow(name), binary.BigEndian.AppendUint32(nil, id))
	if err := s.Commit(ctx, &b); err != nil {
		return fmt.Errorf("storing the ID of network %s: %w", name, err)
	}
	return nil
}

func idRow(name string) store.PK { return store.PK{P: []byte("network/" + name + "/id")} }
