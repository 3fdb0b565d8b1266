package simnet

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/snow/validators"
	"github.com/ava-labs/avalanchego/utils/constants"

	"quorate/internal/chain/genesis"
	"quorate/internal/chain/xchain"
	"quorate/internal/index"
	"quorate/internal/index/ledger"
	"quorate/internal/index/primary"
	"quorate/internal/index/vertices"
	"quorate/internal/node"
	"quorate/internal/simnet/history"
	"quorate/internal/store"
	"quorate/p2p"
)

// dying is a store whose process ends with a commit, before it is written or after.
type dying struct {
	store.Store
	left    int // commits before that
	written bool
}

func (d *dying) Commit(ctx context.Context, b *store.Batch) error {
	if d.left--; d.left < 0 {
		if d.written && d.left == -1 {
			if err := d.Store.Commit(ctx, b); err != nil {
				return err
			}
		}
		return fmt.Errorf("killed: %w", store.ErrClosed)
	}
	return d.Store.Commit(ctx, b)
}

// xChain indexes the vertices and then the X-Chain, until it is at a place or fails.
func xChain(t *testing.T, n index.XChainNode, peers vertices.Peers, rows store.Store, g *genesis.Genesis, want uint64) error {
	t.Helper()
	decoder, err := xchain.NewDecoder(g.XChainID, g.X)
	require.NoError(t, err)
	origin := index.NewXChainOrigin(n, decoder, rows, g.NetworkID)
	fixed := func() time.Time { return time.Unix(1_600_000_000, 0) }
	record := vertices.New(vertices.Options{
		Store: rows, NetworkID: g.NetworkID, ChainID: g.XChainID, Begin: origin.Begin, Dependencies: decoder.Dependencies, Peers: peers, Now: fixed,
	})
	if err := record.Run(t.Context()); err != nil {
		return err
	}
	p, err := index.New(index.Options[*xchain.Block]{
		NetworkID: g.NetworkID, Chain: index.XChain, Store: rows,
		Source:      index.NewXChainSource(n, decoder, origin, record, nil),
		Projections: []index.Projection[*xchain.Block]{primary.XChain(decoder, ledger.NewProjection(g.NetworkID, g.XChainID))},
		Keep:        true, Now: fixed,
		// So that each block is a commit.
		WindowBytes: 1,
	})
	require.NoError(t, err)
	return runUntil(t, p, want)
}

// runUntil runs a pipeline until it is at a place, or ends.
func runUntil(t *testing.T, p *index.Pipeline[*xchain.Block], want uint64) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	for {
		select {
		case err := <-done:
			return err
		case <-time.After(5 * time.Millisecond):
			if p.Status().Next >= want {
				cancel()
			}
		}
	}
}

// content is all rows but the cursors, which count who took over.
func content(t *testing.T, s store.Store) map[string]string {
	t.Helper()
	rows := make(map[string]string)
	for _, family := range store.Families() {
		if family == store.FamilyCursor {
			continue
		}
		for row, err := range store.Rows(t.Context(), s, family) {
			require.NoError(t, err)
			rows[fmt.Sprintf("%s %x/%x", family, row.P, row.K)] = fmt.Sprintf("%x", row.V)
		}
	}
	return rows
}

// TestXChainSurvivesDeath stops the indexing of an X-Chain with pre-Cortina vertices after every few
// commits, and compares the final index with one of an undisturbed run.
func TestXChainSurvivesDeath(t *testing.T) {
	n := start(t, Options{Seed: 8, Validators: 1, History: &History{Options: history.Options{Txs: 300, Addresses: 20, EarlyTxs: 50, Record: true}, Dir: t.TempDir()}})
	client := dial(t, n)
	g := begun(t, n, client)
	early := uint64(len(n.past.Generator().Truth().EarlyTxIDs))
	require.NotZero(t, early)
	want := early + 1 + n.past.Height(history.X) + 1
	peer := history.Peer{Node: n.past}

	whole := store.NewMemory()
	require.NoError(t, xChain(t, client, peer, whole, g, want))

	rows := store.NewMemory()
	deaths := 0
	for {
		err := xChain(t, client, peer, &dying{Store: rows, left: 2 + deaths%9, written: deaths%2 == 0}, g, want)
		if err == nil {
			break
		}
		require.ErrorIs(t, err, store.ErrClosed)
		deaths++
		require.Less(t, deaths, 1000)
	}
	require.Greater(t, deaths, int(want)/12, "places %d", want)
	t.Logf("%d places, of which %d before the first block, in %d lives", want, early+1, deaths+1)
	require.Equal(t, content(t, whole), content(t, rows), "the index of many lives is another than that of one")
}

// TestVerticesComeFromValidators fetches the vertices over the peer-to-peer network from
// validators that serve them as nodes do, while others are silent or send garbage. The
// node has no index of containers at all.
func TestVerticesComeFromValidators(t *testing.T) {
	n := start(t, Options{Seed: 6, Validators: 7, History: &History{Options: history.Options{Txs: 2000, Addresses: 40, EarlyTxs: 400, Record: true}, Dir: t.TempDir()}})
	for i, behaviour := range []Behaviour{Silent, Malformed, WrongSignature, Silent} {
		require.NoError(t, n.Validators()[i].SetBehaviour(behaviour))
	}
	client := dial(t, n)
	g := begun(t, n, client)
	peers, err := p2p.New(p2p.Config{
		NetworkID: n.NetworkID(), Dir: t.TempDir(), AllowPrivateIPs: true,
		Seeds: func(ctx context.Context) ([]p2p.Address, error) {
			found, err := client.Peers(ctx)
			addresses := make([]p2p.Address, len(found))
			for i, one := range found {
				addresses[i] = p2p.Address(one)
			}
			return addresses, err
		},
	})
	require.NoError(t, err)
	peers.SetValidators(map[ids.ID]validators.WarpSet{constants.PrimaryNetworkID: n.Set(constants.PrimaryNetworkID, n.Height())})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- peers.Run(ctx) }()
	early := uint64(len(n.past.Generator().Truth().EarlyTxIDs))
	want := early + 1 + n.past.Height(history.X) + 1
	rows := store.NewMemory()
	require.NoError(t, xChain(t, withoutIndex{client}, peers, rows, g, want))
	cancel()
	require.NoError(t, <-ended)

	whole := store.NewMemory()
	require.NoError(t, xChain(t, withoutIndex{client}, history.Peer{Node: n.past}, whole, g, want))
	require.Equal(t, content(t, whole), content(t, rows))
}

// withoutIndex is a node that runs without an index of containers, which is the default.
type withoutIndex struct{ *node.Client }

func (withoutIndex) Containers(context.Context, node.Index, uint64, int) ([]node.Container, error) {
	return nil, errors.New("404 page not found")
}
