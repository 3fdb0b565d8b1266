package evm_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/libevm/common"

	chain "quorate/internal/chain/evm"
	"quorate/internal/index"
	"quorate/internal/index/evm"
	"quorate/internal/index/evm/contracts"
	"quorate/internal/node"
	"quorate/internal/simnet/evmchain"
	"quorate/internal/store"
)

// serveChain has a node with a made-up chain, and asks it over HTTP until the test ends.
func serveChain(t *testing.T, seed uint64, transactions int) (*evmchain.Generator, *evmchain.Node, *node.EVM) {
	t.Helper()
	return serveChainOf(t, evmchain.Options{Seed: seed, Txs: transactions})
}

func serveChainOf(t *testing.T, o evmchain.Options) (*evmchain.Generator, *evmchain.Node, *node.EVM) {
	t.Helper()
	o.NetworkID, o.Record = network, true
	g, err := evmchain.New(o)
	require.NoError(t, err)
	n, err := evmchain.NewNode(g, t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { _ = n.Close() })
	require.NoError(t, n.Grow(t.Context(), o.Txs))
	server := httptest.NewServer(n)
	t.Cleanup(server.Close)
	client, err := node.New(node.Options{Endpoints: []string{server.URL}, Timeout: time.Minute})
	require.NoError(t, err)
	t.Cleanup(client.Close)
	return g, n, client.EVM("")
}

// TestAgainstNode indexes a generated chain from the Ethereum API of a node, asks the node what
// contracts are, and compares everything with the generator.
func TestAgainstNode(t *testing.T) {
	for name, o := range map[string]evmchain.Options{"before Helicon": {Seed: 5, Txs: 3000}, "since Helicon": {Seed: 9, Txs: 2000, SAE: true, Span: 5 * time.Minute}} {
		t.Run(name, func(t *testing.T) { testAgainstNode(t, o) })
	}
}

func testAgainstNode(t *testing.T, o evmchain.Options) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	g, n, from := serveChainOf(t, o)
	s := store.NewMemory()
	done := make(chan struct{})
	pipeline, err := index.New(index.Options[*chain.Block]{
		NetworkID: network, Chain: "evm", Store: s, Source: index.NewEVMSource(index.EVMOptions{Node: from, Chain: "evm"}),
		Projections: []index.Projection[*chain.Block]{evm.NewProjection(network, g.BlockchainID())},
		Committed: func(next uint64) {
			if next == n.Tip()+1 {
				close(done)
			}
		},
	})
	require.NoError(t, err)
	ended := make(chan error, 1)
	go func() { ended <- pipeline.Run(ctx) }()
	select {
	case <-done:
	case err := <-ended:
		t.Fatalf("recording ended with %v", err)
	}
	book := contracts.New(contracts.Options{Node: from, Store: s, NetworkID: network, BlockchainID: g.BlockchainID()})
	defer book.Close()
	r := evm.New(s, network, g.BlockchainID(), book)
	truth := g.Truth()
	blocks := truth.Blocks()

	tip, err := r.Tip(ctx)
	require.NoError(t, err)
	require.Equal(t, ref(blocks[len(blocks)-1]), tip)

	var latest []evm.Transaction
	for _, b := range blocks {
		for i := range b.Transactions {
			latest = append(latest, indexed(b, i, false))
		}
	}
	slices.Reverse(latest)
	require.Equal(t, latest, all(t, func() {}, func(after []byte) ([]evm.Transaction, []byte, int) {
		page, err := r.Latest(ctx, evm.LatestQuery{Limit: 1000, After: after})
		require.NoError(t, err)
		return page.Transactions, page.Next, 1000
	}))

	standards := make(map[common.Address]chain.Standard)
	for _, c := range truth.Contracts() {
		standards[c.Address] = c.Standard
	}
	transfers := truth.Transfers()
	byTx := make(map[common.Hash][]evm.TokenTransfer)
	for _, one := range transfers {
		byTx[one.TxHash] = append(byTx[one.TxHash], evm.TokenTransfer{Block: ref(blocks[one.Block]), TxHash: one.TxHash, Transfer: one.Transfer})
	}
	counts := make(map[string]int)
	for _, wallet := range truth.Accounts() {
		var internals []evm.Internal
		for _, one := range truth.Internals(wallet) {
			internals = append(internals, evm.Internal{Block: ref(blocks[one.Block]), TxHash: one.TxHash, Frame: one.Frame})
		}
		slices.Reverse(internals)
		got, err := r.Internals(ctx, evm.WalletQuery{Wallet: wallet, Limit: 10_000})
		require.NoError(t, err)
		require.Equal(t, internals, got.Internals, "internals of %s", wallet)
		counts["internals"] += len(internals)

		var moved []evm.TokenTransfer
		for _, one := range transfers {
			if one.Standard == chain.ERC1155 && (one.From == wallet || one.To == wallet) {
				moved = append(moved, evm.TokenTransfer{Block: ref(blocks[one.Block]), TxHash: one.TxHash, Transfer: one.Transfer})
			}
		}
		slices.Reverse(moved)
		gotMoved, err := r.Transfers(ctx, evm.WalletQuery{Wallet: wallet, Limit: 10_000})
		require.NoError(t, err)
		require.Equal(t, moved, gotMoved.Transfers, "transfers of %s", wallet)
		counts["transfers"] += len(moved)

		for _, at := range []uint64{0, tip.Number / 3, tip.Number / 2, tip.Number} {
			var held []evm.TokenBalance
			for _, one := range truth.Balances(wallet, at) {
				held = append(held, evm.TokenBalance(one))
			}
			gotHeld, err := r.Balances(ctx, evm.BalanceQuery{Wallet: wallet, At: &at, Limit: 10_000})
			require.NoError(t, err)
			require.Equal(t, held, gotHeld.Balances, "balances of %s at %d", wallet, at)
			counts["balances"] += len(held)
		}

		if standard := standards[wallet]; standard == chain.ERC721 || standard == chain.ERC1155 {
			var tokens []evm.Token
			for _, one := range truth.Tokens(wallet, tip.Number) {
				tokens = append(tokens, evm.Token{Contract: wallet, TokenID: one.TokenID, Owner: one.Owner})
			}
			got, err := r.Tokens(ctx, evm.TokenQuery{Contract: wallet, Standard: standard, Limit: 10_000})
			require.NoError(t, err)
			require.Equal(t, tokens, got.Tokens, "tokens of %s", wallet)
			counts["tokens"] += len(tokens)
		}

		var deployed []evm.Deployment
		for _, d := range truth.Deployments() {
			if d.Deployer == wallet || d.Creator != nil && *d.Creator == wallet {
				deployed = append(deployed, evm.Deployment{Contract: d.Contract, TxHash: d.TxHash, Deployer: d.Deployer, Creator: d.Creator})
			}
		}
		slices.Reverse(deployed)
		gotDeployed, err := r.Deployments(ctx, evm.DeploymentQuery{Address: wallet, Limit: 10_000})
		require.NoError(t, err)
		require.Equal(t, deployed, gotDeployed.Deployments, "deployments by %s", wallet)
	}
	last := make(map[common.Address]evmchain.Deployment)
	for _, d := range truth.Deployments() {
		last[d.Contract] = d
	}
	for _, d := range last {
		got, err := r.Deployment(ctx, d.Contract)
		require.NoError(t, err)
		require.Equal(t, indexed(blocks[d.Block], int(d.TxIndex), true), got.Transaction)
		require.True(t, got.Traced)
		require.Len(t, got.Transfers, len(byTx[d.TxHash]))
		for i, want := range byTx[d.TxHash] {
			require.Equal(t, want, got.Transfers[i])
		}
		known, err := r.Known(ctx, []common.Address{d.Contract})
		require.NoError(t, err)
		require.Equal(t, []bool{true}, known)
		counts["deployments"]++
	}
	var days []evm.Day
	for _, d := range truth.Days() {
		days = append(days, evm.Day(d))
	}
	slices.Reverse(days)
	gotDays, err := r.Days(ctx, 0, 10_000)
	require.NoError(t, err)
	require.Equal(t, days, gotDays)
	t.Logf("compared: %d transactions, %v, %d days", len(latest), counts, len(days))
	for _, what := range []string{"internals", "transfers", "balances", "tokens", "deployments"} {
		require.Positive(t, counts[what], what)
	}

	// Receipts were compared with the roots of headers, those of the last blocks excepted.
	settled := tip.Number
	if last := blocks[len(blocks)-1].Settled; last != nil {
		settled = *last
		require.Less(t, settled, tip.Number)
	}
	checked, ok, err := r.Checked(ctx, tip.Number)
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, evm.Checked{Tip: tip, Hash: tip.Hash, Settled: settled, SettledKnown: true}, checked)

	cancel()
	require.NoError(t, <-ended)
}

// TestTracesComeLater indexes a chain from a node that does not trace at first.
func TestTracesComeLater(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	g, n, from := serveChain(t, 6, 400)
	n.SetFaults(evmchain.Faults{Tracing: evmchain.NoTracer})
	s := store.NewMemory()
	r := evm.New(s, network, g.BlockchainID(), classes{})
	source := index.NewEVMSource(index.EVMOptions{Node: from, Chain: "evm"})
	pipeline, err := index.New(index.Options[*chain.Block]{
		NetworkID: network, Chain: "evm", Store: s, Source: source, Projections: []index.Projection[*chain.Block]{evm.NewProjection(network, g.BlockchainID())},
	})
	require.NoError(t, err)
	filler := evm.NewFiller(evm.FillerOptions{Store: s, NetworkID: network, BlockchainID: g.BlockchainID(), Tracer: source})
	ended := make(chan error, 2)
	go func() { ended <- pipeline.Run(ctx) }()
	go func() { ended <- filler.Run(ctx) }()
	require.Eventually(t, func() bool { return pipeline.Status().Next == n.Tip()+1 && filler.Note() != "" }, 2*time.Minute, 5*time.Millisecond)
	deployed := g.Truth().Deployments()
	require.NotEmpty(t, deployed)
	made := deployed[len(deployed)/2]
	_, err = r.Internals(ctx, evm.WalletQuery{Wallet: made.Deployer, Limit: 10})
	require.ErrorIs(t, err, evm.ErrUntraced)
	direct := 0 // made by no call
	for _, d := range deployed {
		if d.Deployer == made.Deployer && d.Creator == nil {
			direct++
		}
	}
	untraced, err := r.Deployments(ctx, evm.DeploymentQuery{Address: made.Deployer, Limit: 10_000})
	require.NoError(t, err)
	require.Len(t, untraced.Deployments, direct)
	require.NotNil(t, untraced.TracesMissing)

	n.SetFaults(evmchain.Faults{})
	require.Eventually(t, func() bool { return filler.Note() == "" }, 2*time.Minute, 5*time.Millisecond, "%s", filler.Note())
	byDeployer := 0
	for _, d := range deployed {
		got, err := r.Deployment(ctx, d.Contract)
		require.NoError(t, err)
		require.True(t, got.Traced)
		if d.Deployer == made.Deployer || d.Creator != nil && *d.Creator == made.Deployer {
			byDeployer++
		}
	}
	got, err := r.Deployments(ctx, evm.DeploymentQuery{Address: made.Deployer, Limit: 10_000})
	require.NoError(t, err)
	require.Len(t, got.Deployments, byDeployer)
	for _, wallet := range g.Truth().Accounts() {
		page, err := r.Internals(ctx, evm.WalletQuery{Wallet: wallet, Limit: 10_000})
		require.NoError(t, err)
		require.Len(t, page.Internals, len(g.Truth().Internals(wallet)))
	}
	cancel()
	require.NoError(t, <-ended)
	require.NoError(t, <-ended)
}

// TestRandomHistories indexes random chains from a node that answers as real nodes may: it
// state-synced, jumps back, breaks answers off, and fails to trace for every reason. The index then
// equals that of a good node, except for the marked gaps, which are filled in once the node traces.
func TestRandomHistories(t *testing.T) {
	for seed := range uint64(3) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 3))
			g, n, from := serveChain(t, 10+seed, 150)
			first := rng.Uint64N(n.Tip() / 2)
			draw := func() evmchain.Faults {
				return evmchain.Faults{
					First: first, Behind: rng.Uint64N(4), Every: 1 + rng.Uint64N(4), Truncated: rng.IntN(4) == 0, HalfBatch: rng.IntN(4) == 0,
					Tracing: evmchain.TracingFault(rng.IntN(int(evmchain.TraceCrash) + 1)),
				}
			}
			n.SetFaults(evmchain.Faults{First: first})
			s := store.NewMemory()
			source := index.NewEVMSource(index.EVMOptions{Node: from, Chain: "evm"})
			pipeline, err := index.New(index.Options[*chain.Block]{
				NetworkID: network, Chain: "evm", Store: s, Source: source, Projections: []index.Projection[*chain.Block]{evm.NewProjection(network, g.BlockchainID())},
			})
			require.NoError(t, err)
			filler := evm.NewFiller(evm.FillerOptions{Store: s, NetworkID: network, BlockchainID: g.BlockchainID(), Tracer: source})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			ended := make(chan error, 2)
			go func() { ended <- pipeline.Run(ctx) }()
			go func() { ended <- filler.Run(ctx) }()
			require.Eventually(t, func() bool {
				status := pipeline.Status()
				if status.TipKnown { // before, each fault makes the search for the first block begin again, up to 5 s later
					n.SetFaults(draw())
				}
				return status.Next > n.Tip()-4
			}, time.Minute, 20*time.Millisecond)
			n.SetFaults(evmchain.Faults{First: first})
			r := evm.New(s, network, g.BlockchainID(), classes{})
			require.Eventually(t, func() bool {
				page, err := r.Internals(ctx, evm.WalletQuery{Limit: 1})
				return pipeline.Status().Next > n.Tip() && err == nil && page.TracesMissing == nil
			}, time.Minute, 20*time.Millisecond, "%+v", pipeline.Status())
			if first > 1 {
				require.Equal(t, first, pipeline.Status().From)
			}
			for _, wallet := range g.Truth().Accounts() {
				want := 0
				for _, f := range g.Truth().Internals(wallet) {
					if f.Block >= pipeline.Status().From {
						want++
					}
				}
				page, err := r.Internals(ctx, evm.WalletQuery{Wallet: wallet, Limit: 10_000})
				require.NoError(t, err)
				require.Len(t, page.Internals, want)
			}
			cancel()
			require.NoError(t, <-ended)
			require.NoError(t, <-ended)
		})
	}
}
