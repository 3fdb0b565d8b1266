package simnet

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"

	"quorate/internal/chain/genesis"
	"quorate/internal/chain/xchain"
	"quorate/internal/index"
	"quorate/internal/index/container"
	"quorate/internal/index/ledger"
	"quorate/internal/index/primary"
	"quorate/internal/node"
	"quorate/internal/simnet/history"
	"quorate/internal/store"
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

// pastNode has what a node gives of the time before blocks overruled.
type pastNode struct {
	*node.Client
	none bool // no index
	// other is another node, which accepted in another order.
	other bool
	asked atomic.Int32 // for containers
	// since is how much later this node accepted than the other.
	since time.Duration
	// swapped is a place whose transaction it accepted after the one that follows; 0
	// is none.
	swapped uint64
}

func (n *pastNode) XChainPast(ctx context.Context, stop ids.ID) (vertex, tx node.Container, err error) {
	if n.none {
		return vertex, tx, node.ErrNoPast
	}
	vertex, tx, err = n.Client.XChainPast(ctx, stop)
	vertex.Accepted, tx.Accepted = vertex.Accepted.Add(n.since), tx.Accepted.Add(n.since)
	return vertex, tx, err
}

func (n *pastNode) ContainersUpTo(ctx context.Context, i node.Index, last node.Container, start uint64, count int) ([]node.Container, error) {
	n.asked.Add(1)
	if n.none || n.other {
		return nil, node.ErrNoPast
	}
	last.Accepted = last.Accepted.Add(-n.since)
	found, err := n.Client.ContainersUpTo(ctx, i, last, start, count)
	for j := range found {
		found[j].Accepted = found[j].Accepted.Add(n.since)
		if n.swapped > 0 && found[j].Index+1 == n.swapped && j+1 < len(found) {
			found[j].ID, found[j+1].ID = found[j+1].ID, found[j].ID
			found[j].Bytes, found[j+1].Bytes = found[j+1].Bytes, found[j].Bytes
		}
	}
	return found, err
}

func pastPipeline(t *testing.T, n index.XChainNode, rows store.Store, g *genesis.Genesis) *index.Pipeline[*xchain.Block] {
	return pastPipelineThat(t, n, rows, g, false)
}

func pastPipelineThat(t *testing.T, n index.XChainNode, rows store.Store, g *genesis.Genesis, keeps bool) *index.Pipeline[*xchain.Block] {
	t.Helper()
	decoder, err := xchain.NewDecoder(g.XChainID, g.X)
	require.NoError(t, err)
	p, err := index.New(index.Options[*xchain.Block]{
		NetworkID: g.NetworkID, Chain: index.XChain, Store: rows,
		Source:  index.NewXChainSource(n, decoder, index.NewXChainPast(n, decoder, rows, g.NetworkID), nil),
		Tenants: []index.Tenant[*xchain.Block]{primary.XChain(decoder, ledger.NewTenant(g.NetworkID, g.XChainID))},
		Keep:    keeps,
		// So that each block is a commit.
		WindowBytes: 1,
	})
	require.NoError(t, err)
	return p
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

// TestPastSurvivesDeath ends the recording of an X-Chain with vertices in its past
// after every few commits, and compares what there is in the end with a record that
// was made in one go.
func TestPastSurvivesDeath(t *testing.T) {
	n := start(t, Options{Seed: 8, Validators: 1, History: &History{Options: history.Options{Txs: 300, Addresses: 20, EarlyTxs: 50, Record: true}, Dir: t.TempDir()}})
	client := dial(t, n)
	g := begun(t, n, client)
	early := uint64(len(n.past.Generator().Truth().EarlyTxIDs))
	require.NotZero(t, early)
	want := early + 1 + n.past.Height(history.X) + 1

	whole := store.NewMemory()
	require.NoError(t, runUntil(t, pastPipeline(t, client, whole, g), want))
	full := content(t, whole)

	rows := store.NewMemory()
	deaths := 0
	for {
		d := &dying{Store: rows, left: 2 + deaths%9, written: deaths%2 == 0}
		err := runUntil(t, pastPipeline(t, client, d, g), want)
		if err == nil {
			break
		}
		require.ErrorIs(t, err, store.ErrClosed)
		deaths++
		require.Less(t, deaths, 1000)
	}
	require.Greater(t, deaths, int(want)/12, "places %d", want)
	t.Logf("%d places, of which %d before the first block, in %d lives", want, early+1, deaths+1)
	require.Equal(t, full, content(t, rows), "the record of many lives is another than that of one")
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

// TestPastGoesOnWithAnotherNode has the node that a record was begun with gone for good:
// after a start the record goes on with one that has the same in the same order, and
// with no other.
func TestPastGoesOnWithAnotherNode(t *testing.T) {
	n := start(t, Options{Seed: 8, Validators: 1, History: &History{Options: history.Options{Txs: 300, Addresses: 20, EarlyTxs: 50, Record: true}, Dir: t.TempDir()}})
	client := dial(t, n)
	g := begun(t, n, client)
	early := uint64(len(n.past.Generator().Truth().EarlyTxIDs))
	want := early + 1 + n.past.Height(history.X) + 1
	whole := store.NewMemory()
	require.NoError(t, runUntil(t, pastPipelineThat(t, client, whole, g, true), want))

	rows := store.NewMemory()
	require.ErrorIs(t, runUntil(t, pastPipelineThat(t, client, &dying{Store: rows, left: 20}, g, true), 1<<40), store.ErrClosed)
	_, next, err := index.KeptUntil(t.Context(), rows, g.NetworkID, index.XChain)
	require.NoError(t, err)
	require.True(t, next > 5 && next < early, "%d of %d places", next, early)
	waits := func(other *pastNode) {
		t.Helper()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		p := pastPipelineThat(t, other, rows, g, true)
		done := make(chan error, 1)
		go func() { done <- p.Run(ctx) }()
		require.Eventually(t, func() bool { return p.Status().State == index.Retrying }, 2*time.Minute, 5*time.Millisecond)
		require.ErrorIs(t, p.Status().Err, index.ErrNoPast)
		cancel()
		require.NoError(t, <-done)
		_, now, err := index.KeptUntil(t.Context(), rows, g.NetworkID, index.XChain)
		require.NoError(t, err)
		require.Equal(t, next, now)
	}
	waits(&pastNode{Client: client, since: time.Hour, swapped: 3})        // what is recorded was in another order
	waits(&pastNode{Client: client, since: time.Hour, swapped: next - 2}) // to the last
	waits(&pastNode{Client: client, since: time.Hour, none: true})

	// Twice, with some in between.
	require.ErrorIs(t, runUntil(t, pastPipelineThat(t, &pastNode{Client: client, since: -time.Hour}, &dying{Store: rows, left: 12}, g, true), 1<<40), store.ErrClosed)
	require.NoError(t, runUntil(t, pastPipelineThat(t, &pastNode{Client: client, since: 2 * time.Hour}, rows, g, true), want))
	kept := container.Chain{NetworkID: g.NetworkID, Name: index.XChain}
	last := time.Time{}
	for place := range want {
		a, err := kept.Range(t.Context(), whole, place, 1)
		require.NoError(t, err)
		b, err := kept.Range(t.Context(), rows, place, 1)
		require.NoError(t, err)
		require.Len(t, b, 1)
		require.Equal(t, a[0].ID, b[0].ID, "at place %d", place)
		if place > 0 && place <= early {
			require.False(t, b[0].Time.Before(last), "place %d is of %s, the one before of %s", place, b[0].Time, last)
			last = b[0].Time
		}
	}
}

// hangingNode does not answer about the past, until who asks has enough of it.
type hangingNode struct{ *node.Client }

func (hangingNode) XChainPast(ctx context.Context, _ ids.ID) (vertex, tx node.Container, err error) {
	<-ctx.Done()
	return vertex, tx, ctx.Err()
}

// TestPastIsNotWaitedFor has one ask for the past for long: others wait no longer than
// they want to.
func TestPastIsNotWaitedFor(t *testing.T) {
	n := start(t, Options{Seed: 8, Validators: 1, History: &History{Options: history.Options{Txs: 50, Addresses: 20, EarlyTxs: 10}, Dir: t.TempDir()}})
	client := dial(t, n)
	g := begun(t, n, client)
	decoder, err := xchain.NewDecoder(g.XChainID, g.X)
	require.NoError(t, err)
	past := index.NewXChainPast(hangingNode{client}, decoder, store.NewMemory(), g.NetworkID)
	patient, leave := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := past.Before(patient)
		done <- err
	}()
	for range 3 {
		impatient, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		other := make(chan error, 1)
		go func() {
			_, err := past.Before(impatient)
			other <- err
		}()
		select {
		case err := <-other:
			require.ErrorIs(t, err, context.DeadlineExceeded)
		case <-time.After(2 * time.Minute):
			t.Error("waits for another one's answer")
		}
		cancel()
	}
	leave()
	require.ErrorIs(t, <-done, context.Canceled)
}

func TestPastThatNoNodeHas(t *testing.T) {
	n := start(t, Options{Seed: 8, Validators: 1, History: &History{Options: history.Options{Txs: 300, Addresses: 20, EarlyTxs: 50}, Dir: t.TempDir()}})
	client := dial(t, n)
	g := begun(t, n, client)
	fails := func(p *index.Pipeline[*xchain.Block], next uint64) {
		t.Helper()
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- p.Run(ctx) }()
		require.Eventually(t, func() bool { return p.Status().State == index.Retrying }, 2*time.Minute, 5*time.Millisecond)
		require.ErrorIs(t, p.Status().Err, index.ErrNoPast)
		cancel()
		require.NoError(t, <-done)
		require.Equal(t, next, p.Status().Next)
	}
	rows := store.NewMemory()
	fails(pastPipeline(t, &pastNode{Client: client, none: true}, rows, g), 0)

	// What is found out by reading alone is not gone by.
	decoder, err := xchain.NewDecoder(g.XChainID, g.X)
	require.NoError(t, err)
	before := content(t, rows)
	_, err = index.NewXChainSource(client, decoder, index.NewXChainPast(client, decoder, rows, g.NetworkID).Reading(), nil).Fetch(t.Context(), 1, 5)
	require.NoError(t, err)
	require.Equal(t, before, content(t, rows))

	// What is not to be had in a range is not asked for place by place.
	lost := &pastNode{Client: client, other: true}
	_, err = index.NewXChainSource(lost, decoder, index.NewXChainPast(lost, decoder, store.NewMemory(), g.NetworkID), nil).Fetch(t.Context(), 5, 10)
	require.ErrorIs(t, err, index.ErrNoPast)
	require.EqualValues(t, 1, lost.asked.Load())

	// A node whose index was chosen and is gone before anything was recorded gives way
	// to another.
	gone := store.NewMemory()
	first := &pastNode{Client: client, other: true}
	fails(pastPipeline(t, first, gone, g), 1) // with the genesis
	require.NotEmpty(t, content(t, gone))
	fails(pastPipeline(t, &pastNode{Client: client, none: true}, gone, g), 1)
	second := &pastNode{Client: client, since: time.Hour}
	require.NoError(t, runUntil(t, pastPipeline(t, second, gone, g), 10))

	// Begun with one node, it does not go on with another.
	require.ErrorIs(t, runUntil(t, pastPipeline(t, client, &dying{Store: rows, left: 10}, g), 1<<40), store.ErrClosed)
	at, err := store.ReadCursor(t.Context(), rows, index.Cursor(g.NetworkID, index.XChain, "ledger"))
	require.NoError(t, err)
	require.Greater(t, at.Next, uint64(2))
	fails(pastPipeline(t, &pastNode{Client: client, other: true}, rows, g), at.Next)
	require.NoError(t, runUntil(t, pastPipeline(t, client, rows, g), at.Next+5), "the one it was begun with is back")
}
