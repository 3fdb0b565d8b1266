// Package anchor proves the index of an EVM chain by stake. Validators sign the hash of any block that they accepted. The
// signed hash of one block of the index proves that block and, by parent hashes, its ancestors; the roots in their headers
// prove transactions, receipts and logs. Traces, the state, and what contracts say of themselves are not proven.
package anchor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp/payload"
	"github.com/ava-labs/libevm/common"

	"quorate/aggregator"
	"quorate/internal/index"
	"quorate/internal/index/evm"
	"quorate/internal/store"
)

// Signer has validators sign messages; *aggregator.Aggregator implements it.
type Signer interface {
	Sign(ctx context.Context, req aggregator.Request) (*aggregator.Result, error)
}

// Index describes the blocks of an index; *evm.Index implements it.
type Index interface {
	Checked(ctx context.Context, height uint64) (c evm.Checked, ok bool, err error)
}

// Options configures an Anchor. All but Every, Slot and Log are required.
type Options struct {
	NetworkID    uint32
	BlockchainID ids.ID
	// Chain names the chain in logs and metrics.
	Chain   string
	Signer  Signer
	Index   Index
	Store   store.Store
	Metrics prometheus.Registerer
	// Near reports that the index has reached the last block, or nearly.
	Near func() bool
	// Every is the interval at which a block is signed if there are new ones; 0 means a minute.
	Every time.Duration
	// Slot changes whenever Index begins to read another index; nil means never.
	Slot func() uint64
	// Log may be nil.
	Log *slog.Logger
}

const (
	every = time.Minute
	// timeout bounds a round: validators may accept the block later than the node.
	timeout = 15 * time.Second
	// firstPause is the pause after a first failure. It doubles up to Options.Every.
	firstPause = 2 * time.Second
	// compareEvery is the interval at which an Anchor compares the signed hash with the index.
	compareEvery = time.Second
	// suspicious is the number of blocks by which the chain must have grown since the first refused block before the log
	// warns.
	suspicious = 64
)

// Anchor has validators sign blocks of an index, and reports up to which block the index is proven. It is safe for
// concurrent use.
type Anchor struct {
	o         Options
	log       *slog.Logger
	failures  *prometheus.CounterVec
	proven    *prometheus.Desc
	differing *prometheus.Desc

	mu sync.Mutex
	// proof is valid while the index in slot is read; nil if nothing is proven. Guarded by mu.
	proof *index.Proof
	slot  uint64
	// differs is the signed block whose hash in the index differs, wrong the blocks whose receipts differ from their
	// root; both are zero if there are none. Guarded by mu.
	differs uint64
	wrong   evm.Span
	// refusal is nil unless the last round failed. Guarded by mu.
	refusal *refusal
}

// refusal describes rounds that failed one after the other.
type refusal struct {
	err    error
	height uint64 // of the first block that was not signed
	warned bool
}

// Signed is the last signed block of a chain, as it is stored.
type Signed struct {
	Height uint64      `json:"height"`
	Hash   common.Hash `json:"hash"`
	// Settled is the last block whose receipts the headers up to this block prove; see evm.Checked.
	Settled uint64 `json:"settled"`
	// Message is the signed Warp message. Its payload is the hash.
	Message []byte `json:"message"`
	// SigningSubnetID and PChainHeight name the validator set that signed.
	SigningSubnetID ids.ID `json:"signingSubnetID"`
	PChainHeight    uint64 `json:"pChainHeight"`
}

// New returns an Anchor and registers its metrics.
func New(o Options) (*Anchor, error) {
	if o.Every <= 0 {
		o.Every = every
	}
	if o.Slot == nil {
		o.Slot = func() uint64 { return 0 }
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	a := &Anchor{
		o: o, log: o.Log.With(slog.String("chain", o.Chain)),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name:        "quorate_evm_proof_failures_total",
			Help:        "Failures to prove the index of an EVM chain, by reason: the code of the round that did not sign a block's hash, HASH_DIFFERS for an index that has another block than the signed one, or RECEIPTS_DIFFER for receipts without the root that a later block has.",
			ConstLabels: prometheus.Labels{"chain": o.Chain},
		}, []string{"reason"}),
		proven:    prometheus.NewDesc("quorate_evm_proven_height", "Height up to which the index of an EVM chain is proven by stake; nothing if it is not.", nil, prometheus.Labels{"chain": o.Chain}),
		differing: prometheus.NewDesc("quorate_evm_index_wrong", "1 while the index of an EVM chain has another block than the signed one, or receipts that differ from their root; else 0.", nil, prometheus.Labels{"chain": o.Chain}),
	}
	for _, reason := range []string{reasonHash, reasonReceipts} {
		a.failures.WithLabelValues(reason) // from 0 on, for alerts
	}
	if err := o.Metrics.Register(a); err != nil {
		return nil, fmt.Errorf("registering metrics: %w", err)
	}
	return a, nil
}

// Reasons of quorate_evm_proof_failures_total besides the codes of rounds.
const (
	reasonHash     = "HASH_DIFFERS"
	reasonReceipts = "RECEIPTS_DIFFER"
)

// Describe implements prometheus.Collector.
func (a *Anchor) Describe(descs chan<- *prometheus.Desc) {
	a.failures.Describe(descs)
	descs <- a.proven
	descs <- a.differing
}

// Collect implements prometheus.Collector.
func (a *Anchor) Collect(metrics chan<- prometheus.Metric) {
	a.failures.Collect(metrics)
	if p := a.Proof(); p != nil {
		metrics <- prometheus.MustNewConstMetric(a.proven, prometheus.GaugeValue, float64(p.To))
	}
	wrong := 0.0
	if a.isWrong() {
		wrong = 1
	}
	metrics <- prometheus.MustNewConstMetric(a.differing, prometheus.GaugeValue, wrong)
}

// isWrong reports whether the index is known to differ from what validators signed or from its headers.
func (a *Anchor) isWrong() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.differs > 0 || a.wrong != (evm.Span{})
}

// Proof returns the proven range, nil if nothing is proven.
func (a *Anchor) Proof() *index.Proof {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.proof == nil || a.slot != a.o.Slot() {
		return nil
	}
	p := *a.proof
	return &p
}

// Note returns a remark for operators on what prevents a proof, empty if nothing does.
func (a *Anchor) Note() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.differs > 0:
		return fmt.Sprintf("block %d of the index is not the one that validators signed: a node returned a forged block; configure a correct node and rebuild the index", a.differs)
	case a.wrong != (evm.Span{}):
		return fmt.Sprintf("receipts of blocks %d to %d of the index differ from the root in a later block: a node returned wrong receipts or logs; configure a correct node and rebuild the index", a.wrong.From, a.wrong.To)
	case a.refusal != nil && a.refusal.warned:
		return fmt.Sprintf("validators have not signed a block since block %d: %v", a.refusal.height, a.refusal.err)
	}
	return ""
}

// Watch compares the signed block in the store with the index, until ctx ends. Proof reports the result.
func (a *Anchor) Watch(ctx context.Context) {
	failing := false
	for {
		err := a.compare(ctx)
		if err != nil && !failing && ctx.Err() == nil {
			a.log.Warn("the proven range of the index cannot be read", slog.Any("error", err))
		}
		failing = err != nil
		select {
		case <-ctx.Done():
			return
		case <-time.After(compareEvery):
		}
	}
}

// compare sets the proof.
func (a *Anchor) compare(ctx context.Context) error {
	slot := a.o.Slot()
	signed, found, err := a.Signed(ctx)
	if err != nil {
		a.set(slot, nil)
		return err
	}
	c, ok, err := a.o.Index.Checked(ctx, signed.Height)
	if errors.Is(err, evm.ErrEmpty) {
		err = nil
	}
	if err != nil || !ok {
		a.set(slot, nil)
		return err
	}
	a.reportReceipts(c.Wrong)
	switch {
	case found && signed.Height > c.Tip.Number:
		// A standby lacks the signed block as yet: what was proven before still is.
	case !found || c.Hash == (common.Hash{}) || c.From > signed.Settled:
		a.set(slot, nil)
		a.reportHash(nil, c.Hash)
	case c.Hash != signed.Hash:
		a.set(slot, nil)
		a.reportHash(&signed, c.Hash)
	default:
		a.set(slot, &index.Proof{
			From: c.From, To: signed.Settled, Height: signed.Height, Hash: ids.ID(signed.Hash),
			Message: signed.Message, SigningSubnetID: signed.SigningSubnetID, PChainHeight: signed.PChainHeight,
		})
		a.reportHash(nil, c.Hash)
	}
	return nil
}

func (a *Anchor) set(slot uint64, p *index.Proof) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.slot, a.proof = slot, p
}

// reportHash reports that the index has hash at the height of the signed block. It clears the report if signed is nil.
func (a *Anchor) reportHash(signed *Signed, hash common.Hash) {
	a.mu.Lock()
	before := a.differs
	a.differs = 0
	if signed != nil {
		a.differs = signed.Height
	}
	news := a.differs != before && signed != nil
	a.mu.Unlock()
	if news {
		a.failures.WithLabelValues(reasonHash).Inc()
		a.log.Error("the index has another block than the one that validators signed, so it is not proven any more: a node returned a forged block; configure a correct node and rebuild the index",
			slog.Uint64("height", signed.Height), slog.String("indexed", hash.Hex()), slog.String("signed", signed.Hash.Hex()))
	}
}

// reportReceipts reports blocks whose receipts differ from their root. It clears the report if wrong is nil.
func (a *Anchor) reportReceipts(wrong *evm.Span) {
	a.mu.Lock()
	before := a.wrong
	a.wrong = evm.Span{}
	if wrong != nil {
		a.wrong = *wrong
	}
	news := a.wrong != before && wrong != nil
	a.mu.Unlock()
	if news {
		a.failures.WithLabelValues(reasonReceipts).Inc()
		a.log.Error("receipts of the index differ from the receipts root in a later block: a node returned wrong receipts or logs; blocks up to these are not proven; configure a correct node and rebuild the index",
			slog.Uint64("from", wrong.From), slog.Uint64("to", wrong.To))
	}
}

func (a *Anchor) row() store.PK {
	return store.PK{P: fmt.Appendf(nil, "anchor/%d/%s", a.o.NetworkID, a.o.BlockchainID)}
}

// Signed returns the last signed block. found is false if there is none.
func (a *Anchor) Signed(ctx context.Context) (s Signed, found bool, err error) {
	if found, err = store.GetMeta(ctx, a.o.Store, &s, a.row()); err != nil {
		return Signed{}, false, fmt.Errorf("reading the last signed block: %w", err)
	}
	return s, found, nil
}

// Sign requests signatures of the last block of the index, repeatedly, until ctx ends. Of the processes that share a
// store, one calls it.
func (a *Anchor) Sign(ctx context.Context) {
	for again := firstPause; ; {
		wait := a.o.Every
		switch err := a.round(ctx); {
		case errors.Is(err, errNothing):
			wait = min(compareEvery, wait)
		case err != nil:
			wait, again = min(again, wait), min(2*again, wait)
		default:
			again = firstPause
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

// errNothing means that the index has no block to sign: it has not caught up, or its last block is signed.
var errNothing = errors.New("no block to sign")

// round requests signatures of the last block, unless that block is signed already.
func (a *Anchor) round(ctx context.Context) error {
	if !a.o.Near() {
		return errNothing
	}
	signed, found, err := a.Signed(ctx)
	if err != nil {
		return err
	}
	c, ok, err := a.o.Index.Checked(ctx, signed.Height)
	switch {
	case errors.Is(err, evm.ErrEmpty), err == nil && (!ok || !c.SettledKnown || c.Tip.Number == 0):
		return errNothing
	case err != nil:
		return err
	case found && signed.Height == c.Tip.Number && signed.Hash == c.Tip.Hash:
		return errNothing
	}
	hash, err := payload.NewHash(ids.ID(c.Tip.Hash))
	if err != nil {
		return fmt.Errorf("encoding the hash of block %d: %w", c.Tip.Number, err)
	}
	message, err := warp.NewUnsignedMessage(a.o.NetworkID, a.o.BlockchainID, hash.Bytes())
	if err != nil {
		return fmt.Errorf("encoding the message of block %d: %w", c.Tip.Number, err)
	}
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	r, err := a.o.Signer.Sign(limited, aggregator.Request{Message: message, Ahead: true, Wait: timeout})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		a.refused(c.Tip.Number, err)
		return err
	}
	a.mu.Lock()
	a.refusal = nil
	a.mu.Unlock()
	row := Signed{
		Height: c.Tip.Number, Hash: c.Tip.Hash, Settled: min(c.Settled, c.Tip.Number), Message: r.Message.Bytes(),
		SigningSubnetID: r.SigningSubnetID, PChainHeight: r.PChainHeight,
	}
	if err := store.PutMeta(ctx, a.o.Store, row, a.row()); err != nil {
		a.log.Warn("a signed block cannot be stored, so the index is proven up to an earlier one", slog.Uint64("height", row.Height), slog.Any("error", err))
		return err
	}
	return a.compare(ctx)
}

// refused counts a failed round. It warns once if the chain goes on and validators do not sign its blocks.
func (a *Anchor) refused(height uint64, err error) {
	code := string(aggregator.CodeInternal)
	var failed *aggregator.Error
	if errors.As(err, &failed) {
		code = string(failed.Code)
	}
	a.failures.WithLabelValues(code).Inc()
	a.mu.Lock()
	if a.refusal == nil {
		a.refusal = &refusal{height: height}
	}
	a.refusal.err = err
	warn := !a.refusal.warned && height >= a.refusal.height+suspicious
	a.refusal.warned = a.refusal.warned || warn
	first := a.refusal.height
	a.mu.Unlock()
	if !warn {
		return
	}
	why := "too few validators can be reached"
	if failed != nil && (failed.Code == aggregator.CodeRefused || failed.Code == aggregator.CodeNotSeen) {
		why = "they did not accept it: the node may return forged blocks"
	}
	a.log.Warn("validators do not sign the blocks that the node returned; the index is not proven beyond an earlier block",
		slog.String("cause", why), slog.Uint64("since", first), slog.Uint64("height", height), slog.Any("error", err))
}
