package anchor_test

import (
	"bytes"
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/constants"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp/payload"
	"github.com/ava-labs/libevm/common"

	"quorate/aggregator"
	"quorate/internal/anchor"
	chain "quorate/internal/chain/evm"
	"quorate/internal/index"
	"quorate/internal/index/evm"
	"quorate/internal/store"
)

const networkID = 1337

var blockchainID = ids.ID{'e', 'v', 'm'}

// validators sign the hashes of the blocks that they accepted.
type validators struct {
	accepted map[common.Hash]bool
	requests []aggregator.Request
}

func (v *validators) Sign(ctx context.Context, req aggregator.Request) (*aggregator.Result, error) {
	v.requests = append(v.requests, req)
	hash, err := payload.ParseHash(req.Message.Payload)
	if err != nil {
		return nil, err
	}
	if !v.accepted[common.Hash(hash.Hash)] {
		<-ctx.Done()
		return nil, &aggregator.Error{Code: aggregator.CodeNotSeen, Message: "validators have not seen the message"}
	}
	signed, err := warp.NewMessage(req.Message, &warp.BitSetSignature{})
	if err != nil {
		return nil, err
	}
	return &aggregator.Result{Message: signed, SigningSubnetID: constants.PrimaryNetworkID, PChainHeight: 7}, nil
}

// indexed is an index that grows.
type indexed struct {
	t          *testing.T
	store      store.Store
	projection *evm.Projection
	index      *evm.Index
	next       uint64
	fork       byte
	validators *validators
}

func newIndexed(t *testing.T, v *validators, fork byte) *indexed {
	s := store.NewMemory()
	return &indexed{
		t: t, store: s, projection: evm.NewProjection(networkID, blockchainID), index: evm.New(s, networkID, blockchainID, nil), fork: fork, validators: v,
	}
}

func (r *indexed) hash(height uint64) common.Hash {
	return common.Hash{r.fork, byte(height >> 8), byte(height)}
}

// grow indexes blocks, which validators accepted if the argument says so.
func (r *indexed) grow(n int, accepted bool, change func(*chain.Block)) {
	r.t.Helper()
	var batch store.Batch
	for range n {
		b := &chain.Block{Number: r.next, Hash: r.hash(r.next), Time: 1_700_000_000 + r.next, Traced: true}
		if change != nil {
			change(b)
		}
		require.NoError(r.t, r.projection.Apply(r.t.Context(), r.store, b, &batch))
		r.validators.accepted[b.Hash] = accepted
		r.next++
	}
	require.NoError(r.t, r.store.Commit(r.t.Context(), &batch))
}

// process is an Anchor that runs.
type process struct {
	*anchor.Anchor
	metrics *prometheus.Registry
	log     *bytes.Buffer
	slot    atomic.Uint64
	near    atomic.Bool
	stop    context.CancelFunc
}

func start(t *testing.T, shared store.Store, read anchor.Index, v *validators, signs bool) *process {
	t.Helper()
	p := &process{metrics: prometheus.NewRegistry(), log: new(bytes.Buffer)}
	p.near.Store(true)
	var err error
	p.Anchor, err = anchor.New(anchor.Options{
		NetworkID: networkID, BlockchainID: blockchainID, Chain: "evm-1", Signer: v, Index: read, Store: shared, Metrics: p.metrics,
		Near: p.near.Load, Slot: p.slot.Load, Log: slog.New(slog.NewTextHandler(p.log, nil)),
	})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	p.stop = stop
	go p.Watch(ctx)
	if signs {
		go p.Sign(ctx)
	}
	return p
}

func (p *process) failures(t *testing.T, reason string) float64 {
	t.Helper()
	families, err := p.metrics.Gather()
	require.NoError(t, err)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if l.GetName() == "reason" && l.GetValue() == reason {
					return m.GetCounter().GetValue()
				}
			}
		}
	}
	return 0
}

// wrong returns the metric that says whether the index is wrong.
func (p *process) wrong(t *testing.T) float64 {
	t.Helper()
	families, err := p.metrics.Gather()
	require.NoError(t, err)
	for _, f := range families {
		if f.GetName() == "quorate_evm_index_wrong" {
			return f.GetMetric()[0].GetGauge().GetValue()
		}
	}
	t.Fatal("there is no metric quorate_evm_index_wrong")
	return 0
}

func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func TestSigned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := &validators{accepted: make(map[common.Hash]bool)}
		r := newIndexed(t, v, 1)
		p := start(t, r.store, r.index, v, true)
		p.near.Store(false)
		pass(3 * time.Second)
		require.Nil(t, p.Proof(), "nothing is indexed")
		r.grow(5, true, nil)
		pass(3 * time.Second)
		require.Empty(t, v.requests, "the index has not caught up")
		p.near.Store(true)
		pass(2 * time.Second)
		require.Len(t, v.requests, 1)
		require.True(t, v.requests[0].Ahead, "it is no client's request")
		require.Equal(t, blockchainID, v.requests[0].Message.SourceChainID)
		proof := p.Proof()
		require.NotNil(t, proof)
		signed, err := warp.ParseMessage(proof.Message)
		require.NoError(t, err)
		hash, err := payload.ParseHash(signed.Payload)
		require.NoError(t, err)
		require.Equal(t, r.hash(4), common.Hash(hash.Hash))
		require.Equal(t, &index.Proof{From: 0, To: 4, Height: 4, Hash: ids.ID(r.hash(4)), Message: proof.Message, PChainHeight: 7}, proof)

		pass(time.Hour)
		require.Len(t, v.requests, 1, "there are no new blocks")
		r.grow(1, true, nil)
		pass(2 * time.Second)
		require.EqualValues(t, 5, p.Proof().To)
		for range 30 {
			r.grow(1, true, nil)
			pass(2 * time.Second)
		}
		require.Len(t, v.requests, 3, "a round a minute")

		// Another process reads it, also after a restart of this one.
		require.Nil(t, start(t, store.NewMemory(), r.index, v, false).Proof())
		other := start(t, r.store, r.index, v, false)
		synctest.Wait()
		require.Equal(t, p.Proof(), other.Proof())
		require.NoError(t, testutil.GatherAndCompare(other.metrics, bytes.NewBufferString(`
			# HELP quorate_evm_proven_height Height up to which the index of an EVM chain is proven by stake; nothing if it is not.
			# TYPE quorate_evm_proven_height gauge
			quorate_evm_proven_height{chain="evm-1"} 35
		`), "quorate_evm_proven_height"))
		other.slot.Store(1)
		require.Nil(t, other.Proof(), "another index is read")
		pass(time.Second)
		require.NotNil(t, other.Proof())
		require.Empty(t, p.log.String()+other.log.String())
		require.Empty(t, p.Note())
	})
}

// TestSignedBlockIsNotReadYet has a process read a standby that lacks the signed block. What was proven before still is.
func TestSignedBlockIsNotReadYet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := &validators{accepted: make(map[common.Hash]bool)}
		r, standby := newIndexed(t, v, 1), newIndexed(t, v, 1)
		r.grow(5, true, nil)
		standby.grow(5, true, nil)
		p, other := start(t, r.store, r.index, v, true), start(t, r.store, standby.index, v, false)
		pass(3 * time.Second)
		require.EqualValues(t, 4, other.Proof().To)
		r.grow(1, true, nil)
		pass(time.Minute)
		require.EqualValues(t, 5, p.Proof().To)
		require.EqualValues(t, 4, other.Proof().To)
		standby.grow(1, true, nil)
		pass(2 * time.Second)
		require.Equal(t, p.Proof(), other.Proof())
	})
}

// TestUnchecked requires that blocks up to one that was not checked are not proven.
func TestUnchecked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := &validators{accepted: make(map[common.Hash]bool)}
		r := newIndexed(t, v, 1)
		r.grow(5, true, nil)
		r.grow(1, true, func(b *chain.Block) { b.Unchecked = true })
		p := start(t, r.store, r.index, v, true)
		pass(2 * time.Second)
		require.Nil(t, p.Proof())
		r.grow(1, true, nil)
		pass(time.Minute)
		require.Equal(t, []uint64{6, 6}, []uint64{p.Proof().From, p.Proof().To})

		// Receipts await a later header.
		settled := r.next
		r.grow(3, true, func(b *chain.Block) {
			b.Settled, b.ReceiptsRoot = &settled, chain.ReceiptsRoot(nil)
			if b.Number == settled {
				b.Settled = nil
			}
		})
		pass(time.Minute)
		require.Equal(t, []uint64{6, settled, settled + 2}, []uint64{p.Proof().From, p.Proof().To, p.Proof().Height})

		// A root that differs from the indexed receipts.
		to := r.next - 1
		r.grow(2, true, func(b *chain.Block) { b.Settled, b.ReceiptsRoot = &to, common.Hash{9} })
		pass(time.Second)
		require.Nil(t, p.Proof())
		require.EqualValues(t, 1, p.failures(t, "RECEIPTS_DIFFER"))
		require.Contains(t, p.log.String(), "receipts of the index differ")
		require.Contains(t, p.Note(), "receipts of blocks")
		require.EqualValues(t, 1, p.wrong(t))
		require.EqualValues(t, 0, start(t, store.NewMemory(), newIndexed(t, v, 1).index, v, false).wrong(t))
	})
}

// TestRefused indexes blocks that validators did not accept.
func TestRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := &validators{accepted: make(map[common.Hash]bool)}
		r := newIndexed(t, v, 1)
		r.grow(5, true, nil)
		p := start(t, r.store, r.index, v, true)
		pass(2 * time.Second)
		require.EqualValues(t, 4, p.Proof().To)
		for range 63 {
			r.grow(1, false, nil)
			pass(5 * time.Second)
		}
		refusals := p.failures(t, "MESSAGE_NOT_SEEN")
		require.Positive(t, refusals)
		require.Less(t, refusals, 63*5.0/15)
		require.Empty(t, p.log.String(), "validators may lag")
		r.grow(20, false, nil)
		pass(3 * time.Minute)
		require.EqualValues(t, 4, p.Proof().To)
		require.Equal(t, 1, bytes.Count(p.log.Bytes(), []byte("level=WARN")), p.log.String())
		require.Contains(t, p.log.String(), "the node may return forged blocks")
		require.Contains(t, p.Note(), "validators have not signed a block since block 1")
		r.grow(1, true, nil)
		pass(2 * time.Minute)
		require.EqualValues(t, r.next-1, p.Proof().To)
		require.Empty(t, p.Note())
	})
}

// TestWithdrawn has an index with another block than the signed one.
func TestWithdrawn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := &validators{accepted: make(map[common.Hash]bool)}
		r := newIndexed(t, v, 1)
		r.grow(5, true, nil)
		p := start(t, r.store, r.index, v, true)
		pass(2 * time.Second)
		require.NotNil(t, p.Proof())
		p.stop() // one process signs

		forged := newIndexed(t, v, 2)
		forged.grow(9, false, nil)
		p = start(t, r.store, forged.index, v, true)
		pass(2 * time.Second)
		require.Nil(t, p.Proof())
		require.EqualValues(t, 1, p.failures(t, "HASH_DIFFERS"))
		require.Contains(t, p.log.String(), "another block than the one that validators signed")
		require.Contains(t, p.Note(), "block 4 of the index is not the one that validators signed")
		pass(10 * time.Minute)
		require.Nil(t, p.Proof())
		require.EqualValues(t, 1, p.failures(t, "HASH_DIFFERS"), "it is reported once")
		require.EqualValues(t, 1, p.wrong(t), "as long as it is so")
		restarted := start(t, r.store, forged.index, v, false)
		synctest.Wait()
		require.EqualValues(t, 1, restarted.wrong(t))

		// The network was reset: validators sign what is indexed.
		forged.grow(1, true, nil)
		pass(2 * time.Minute)
		require.EqualValues(t, 9, p.Proof().To)
		require.Empty(t, p.Note())
		require.EqualValues(t, 0, p.wrong(t))
		require.EqualValues(t, 0, restarted.wrong(t))
	})
}
