package primary

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"time"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/constants"

	"quorate/internal/index"
	"quorate/internal/index/container"
	"quorate/internal/index/ledger"
	"quorate/internal/index/lookup"
	"quorate/internal/store"
)

// Verification says what Verify came across: exactly one member is set.
type Verification struct {
	// Progress of what is being done, of which so much is done.
	Progress *VerifyProgress `json:"progress,omitempty"`
	// Wrong is something that differs.
	Wrong string `json:"wrong,omitempty"`
	// Unchecked is something that could not be looked at, and why.
	Unchecked string `json:"unchecked,omitempty"`
	// Summary is what was looked at and found as it should be, or not.
	Summary string `json:"summary,omitempty"`
	// Done ends what is told: how much was Wrong, and how much Unchecked.
	Done *Verdict `json:"done,omitempty"`
}

// VerifyProgress is how far a part of a verification is; a Total of 0 is not known.
type VerifyProgress struct {
	What  string `json:"what"`
	Done  uint64 `json:"done"`
	Total uint64 `json:"total,omitempty"`
}

// Verdict is what a verification came to.
type Verdict struct {
	Wrong     int `json:"wrong"`
	Unchecked int `json:"unchecked"`
}

// VerifyOptions of a verification.
type VerifyOptions struct {
	// Addresses is how many addresses are compared with the node, and Seed which.
	Addresses int
	Seed      ids.ShortID
}

// mostTold is how many differences are told; more are counted.
const mostTold = 1000

// verifier is one verification.
type verifier struct {
	*Network
	ctx     context.Context //nolint:containedctx // it lives as long as the call
	tell    func(Verification)
	verdict Verdict
}

func (v *verifier) wrong(format string, args ...any) {
	if v.verdict.Wrong++; v.verdict.Wrong <= mostTold {
		v.tell(Verification{Wrong: fmt.Sprintf(format, args...)})
	}
}

func (v *verifier) unchecked(format string, args ...any) {
	v.verdict.Unchecked++
	v.tell(Verification{Unchecked: fmt.Sprintf(format, args...)})
}

func (v *verifier) summary(format string, args ...any) {
	v.tell(Verification{Summary: fmt.Sprintf(format, args...)})
}

func (v *verifier) progress(what string, done, total uint64) {
	v.tell(Verification{Progress: &VerifyProgress{What: what, Done: done, Total: total}})
}

// Verify checks what is recorded again: that blocks follow one another up to the one
// that the node has (those that are kept, or else those of the node), that outputs and
// balances agree with one another, and that those of some addresses are what the node
// says at the same tip. It only reads, and may run beside Run. It tells what it finds,
// one call at a time, at last the verdict. Errors are the store's and the context's.
func (n *Network) Verify(ctx context.Context, o VerifyOptions, tell func(Verification)) (Verdict, error) {
	v := &verifier{Network: n, ctx: ctx, tell: tell}
	for _, chain := range n.chains {
		if err := n.lines[chain].verify(v); err != nil {
			return v.verdict, fmt.Errorf("verifying the %s-Chain: %w", chain, err)
		}
	}
	if n.Ledger == nil {
		v.unchecked("outputs and balances: no ledger is recorded")
	} else if err := v.ledger(o); err != nil {
		return v.verdict, fmt.Errorf("verifying outputs and balances: %w", err)
	}
	tell(Verification{Done: &v.verdict})
	return v.verdict, nil
}

// line is the pipeline of a chain, and what Verify needs besides.
type line[B any] struct {
	*index.Pipeline[B]
	chain  container.Chain
	store  store.Store
	source index.Keeper[B] // writes nothing
	// height is that of the node's last block, which is not always the source's tip.
	height    func(ctx context.Context) (uint64, error)
	tenants   []string
	genesisID ids.ID            // of the block at height 0; empty if it is not known
	lookup    *lookup.Tenant[B] // nil if nothing is found by ID
}

// watch tells how far others record the chain.
func (l *line[B]) watch(ctx context.Context) error { return l.Watch(ctx, l.source) }

// recordedBy has the status tell what another network's pipeline of the chain says, nil
// for none.
func (l *line[B]) recordedBy(other pipeline) {
	recorder, _ := other.(*line[B])
	if recorder == nil {
		l.RecordedBy(nil)
		return
	}
	l.RecordedBy(recorder.Pipeline)
}

// verify checks the blocks of a chain.
func (l *line[B]) verify(v *verifier) error {
	name := l.chain.Name
	// Tenants end with a block that the chain must have; the record may grow meanwhile.
	ends := make(map[uint64]map[ids.ID]string)
	first, next := uint64(0), uint64(0)
	known := false
	for _, tenant := range append(slices.Clone(l.tenants), index.Containers) {
		from, until, last, err := index.Recorded(v.ctx, l.store, l.chain.NetworkID, name, tenant)
		if err != nil {
			return err
		}
		if until <= from {
			continue
		}
		if ends[until-1] == nil {
			ends[until-1] = make(map[ids.ID]string)
		}
		ends[until-1][last] = tenant
		if !known || from < first {
			first = from
		}
		known, next = true, max(next, until)
	}
	if !known {
		v.unchecked("%s-Chain: nothing is recorded yet", name)
		return nil
	}
	keptFrom, kept, err := index.KeptUntil(v.ctx, l.store, l.chain.NetworkID, name)
	if err != nil {
		return err
	}
	found := uint64(0) // below which blocks are found by their IDs
	if l.lookup != nil {
		if _, found, _, err = index.Recorded(v.ctx, l.store, l.chain.NetworkID, name, l.lookup.Name()); err != nil {
			return err
		}
	}
	var parent ids.ID
	fetched, bad := uint64(0), v.verdict.Wrong
	what := name + "-Chain blocks"
	for at := first; at < next; {
		var blocks []index.Block[B]
		fromNode := at < keptFrom || at >= kept
		if fromNode {
			blocks, err = l.source.Fetch(v.ctx, at, int(min(next-at, 1024)))
			fetched += uint64(len(blocks))
		} else {
			blocks, err = l.kept(v, at, kept)
		}
		if err != nil && v.ctx.Err() == nil && !errors.Is(err, store.ErrClosed) {
			if !fromNode {
				v.wrong("%s-Chain block %d: what is kept of it cannot be read: %v", name, at, err)
				at, parent = at+1, ids.Empty // the next one has nothing to be compared with
				continue
			}
			v.unchecked("%s-Chain blocks from %d to %d: none are kept, and the node does not give them: %v", name, at, next-1, err)
			break
		}
		if err != nil {
			return err
		}
		for i := range blocks {
			b := &blocks[i]
			if b.Height != at {
				v.wrong("%s-Chain block %d: got block %d in its place", name, at, b.Height)
			}
			if parent != ids.Empty && b.ParentID != parent {
				v.wrong("%s-Chain block %d: its parent is %s, but block %d is %s", name, at, b.ParentID, at-1, parent)
			}
			if at == 0 && l.genesisID != ids.Empty && b.ID != l.genesisID {
				v.wrong("%s-Chain block 0 is %s, but the genesis is %s", name, b.ID, l.genesisID)
			}
			if !fromNode && at < found {
				if err := l.lookup.Check(v.ctx, l.store, b.Content, func(what string) { v.wrong("%s-Chain: %s", name, what) }); err != nil {
					if v.ctx.Err() != nil || !errors.Is(err, store.ErrCorrupt) {
						return err
					}
					v.wrong("%s-Chain block %d: where it is cannot be read: %v", name, at, err)
				}
			}
			for id, tenant := range ends[at] {
				if id != b.ID {
					v.wrong("%s-Chain block %d is %s, but record %q ends with %s", name, at, b.ID, tenant, id)
				}
			}
			parent = b.ID
			at++
		}
		v.progress(what, at-first, next-first)
	}
	if kept > keptFrom {
		if err := l.likeNode(v, kept-1); err != nil {
			return err
		}
	}
	v.summary("%s-Chain: blocks %d to %d follow one another, %d of them as the node has them now, the others as they are kept: %s",
		name, first, next-1, fetched, outcome(v.verdict.Wrong-bad))
	return nil
}

func outcome(wrong int) string {
	if wrong == 0 {
		return "nothing differs"
	}
	return fmt.Sprintf("%d differences", wrong)
}

// kept reads blocks that are kept, and checks that they are found by their IDs.
func (l *line[B]) kept(v *verifier, from, until uint64) ([]index.Block[B], error) {
	found, err := l.chain.Range(v.ctx, l.store, from, int(min(until-from, 1024)))
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, container.ErrMissing
	}
	blocks := make([]index.Block[B], 0, len(found))
	for i := range found {
		c := &found[i]
		if c.Form == container.Accepted {
			same, err := l.chain.ByID(v.ctx, l.store, c.ID)
			if errors.Is(err, container.ErrMissing) || err == nil && same.Height != c.Height {
				v.wrong("%s-Chain container %d: it is not found by its ID %s", l.chain.Name, c.Height, c.ID)
			} else if err != nil {
				return nil, err
			}
		}
		b, err := l.source.Again(v.ctx, *c)
		if err != nil {
			if len(blocks) > 0 {
				return blocks, nil
			}
			return nil, err
		}
		blocks = append(blocks, b)
	}
	return blocks, nil
}

// likeNode compares the last block that is kept with the node's: all others follow
// from it, but for what is kept in parts.
func (l *line[B]) likeNode(v *verifier, height uint64) error {
	blocks, err := l.source.Fetch(v.ctx, height, 1)
	if v.ctx.Err() != nil {
		return v.ctx.Err()
	}
	if err != nil {
		v.unchecked("%s-Chain block %d: the node does not give it: %v", l.chain.Name, height, err)
		return nil
	}
	own, err := l.kept(v, height, height+1)
	if err != nil {
		v.wrong("%s-Chain block %d: what is kept of it cannot be read: %v", l.chain.Name, height, err)
		return nil
	}
	if own[0].ID != blocks[0].ID {
		v.wrong("%s-Chain block %d: kept is %s, the node has %s", l.chain.Name, height, own[0].ID, blocks[0].ID)
	}
	return nil
}

// ledger checks outputs and balances.
func (v *verifier) ledger(o VerifyOptions) error {
	bad := v.verdict.Wrong
	audited, err := v.Ledger.Audit(v.ctx, ledger.AuditOptions{
		AssetID: v.genesis.AVAXAssetID, Addresses: o.Addresses, Seed: o.Seed,
		Progress: func(n int) { v.progress("outputs", uint64(n), 0) },
		Wrong:    func(what string) { v.wrong("%s", what) },
	})
	if err != nil {
		return err
	}
	v.summary("%d outputs are in the lists of their owners, %d accounts have the sum of their outputs as balance: %s",
		audited.Outputs, audited.Accounts, outcome(v.verdict.Wrong-bad))
	if err := v.arrived(audited.Arrived); err != nil {
		return err
	}
	for _, s := range audited.Supply {
		total := new(big.Int)
		text := ""
		for b, amount := range s.Buckets {
			total.Add(total, amount)
			if amount.Sign() > 0 {
				text += fmt.Sprintf(", %s %s", ledger.Bucket(b), amount)
			}
		}
		v.summary("supply %s: %s nAVAX%s", v.way(s.ChainID, s.DestinationID), total, text)
	}
	return v.addresses(audited.Addresses)
}

// arrived looks again at outputs that had arrived on a chain before their departure from
// another was recorded, once both are recorded up to their ends.
func (v *verifier) arrived(outputs []ids.ID) error {
	var last error
	for attempt := 0; len(outputs) > 0 && attempt < attempts; attempt++ {
		if _, last = v.heights(); last == nil {
			found, err := v.Ledger.Outputs(v.ctx, outputs)
			if err != nil {
				return err
			}
			for i, o := range found {
				if o == nil {
					v.wrong("output %s was consumed and is not recorded", outputs[i])
				}
			}
			return nil
		}
		if err := v.pause(); err != nil {
			return err
		}
	}
	if len(outputs) > 0 {
		v.unchecked("%d outputs that were consumed and are not recorded: %v", len(outputs), last)
	}
	return nil
}

// pause waits before another attempt.
func (v *verifier) pause() error {
	select {
	case <-v.ctx.Done():
		return v.ctx.Err()
	case <-time.After(betweenAttempts):
		return nil
	}
}

// way names a chain, or the way from one to another.
func (v *verifier) way(from, to ids.ID) string {
	names := make(map[ids.ID]string)
	for name, id := range v.chainIDs() {
		names[id] = name
	}
	if from == to {
		return "on the " + names[from] + "-Chain"
	}
	return "from the " + names[from] + "- to the " + names[to] + "-Chain"
}

func (v *verifier) chainIDs() map[string]ids.ID {
	return map[string]ids.ID{index.PChain: constants.PlatformChainID, index.XChain: v.genesis.XChainID, index.CChain: v.genesis.CChainID}
}

const (
	// attempts is how often an address is compared before it counts as unchecked,
	// since the node and the record must be at the same block meanwhile.
	attempts = 20
	// betweenAttempts is the pause between two.
	betweenAttempts = 100 * time.Millisecond
)

// addresses compares what addresses own with what the node says.
func (v *verifier) addresses(all []ids.ShortID) error {
	checked, outputs, bad := 0, 0, v.verdict.Wrong
	for i, address := range all {
		var last error
		same := false
		for attempt := 0; attempt < attempts && !same; attempt++ {
			if attempt > 0 {
				if err := v.pause(); err != nil {
					return err
				}
			}
			before, err := v.heights()
			if err != nil {
				last = err
				continue
			}
			var differences []string
			n, err := v.compare(address, func(format string, args ...any) { differences = append(differences, fmt.Sprintf(format, args...)) })
			if err != nil {
				last = err
				continue
			}
			if after, err := v.heights(); err != nil || after != before {
				last = errors.Join(err, errors.New("blocks were accepted meanwhile"))
				continue
			}
			same = true
			checked++
			outputs += n
			for _, d := range differences {
				v.wrong("%s", d)
			}
		}
		if v.ctx.Err() != nil {
			return v.ctx.Err()
		}
		if !same {
			v.unchecked("balances of %d of %d addresses: %v", len(all)-i, len(all), last)
			break
		}
		v.progress("addresses", uint64(i+1), uint64(len(all)))
	}
	if checked == 0 {
		return nil
	}
	v.summary("%d addresses own %d outputs, and have the balances, that the node says: %s", checked, outputs, outcome(v.verdict.Wrong-bad))
	return nil
}

// heights are those of the three chains, on which node and record agree.
func (v *verifier) heights() (at [3]uint64, err error) {
	for i, name := range []string{index.PChain, index.XChain, index.CChain} {
		there, err := v.lines[name].tip(v.ctx)
		if err != nil {
			return at, fmt.Errorf("the node does not tell the height of the %s-Chain: %w", name, err)
		}
		here, _, err := v.Ledger.Tip(v.ctx, v.chainIDs()[name])
		if err != nil {
			return at, err
		}
		if here != there {
			return at, fmt.Errorf("the record of the %s-Chain ends with block %d, the node's with %d: let the service catch up", name, here, there)
		}
		at[i] = here
	}
	return at, nil
}

// tip is the height of the node's last block.
func (l *line[B]) tip(ctx context.Context) (uint64, error) { return l.height(ctx) }

// compare compares the outputs and balances of one address on all chains, and on the
// way between them, and returns how many outputs there are.
func (v *verifier) compare(address ids.ShortID, wrong func(format string, args ...any)) (n int, err error) {
	hrp := constants.GetHRP(v.networkID)
	for on, chainID := range v.chainIDs() {
		own, now, err := v.unspent(chainID, address)
		if err != nil {
			return n, err
		}
		balances, _, err := v.Ledger.Balances(v.ctx, chainID, []ids.ShortID{address}, time.Time{})
		if err != nil {
			return n, err
		}
		for from, sourceID := range v.chainIDs() {
			if on == index.CChain && from == index.CChain {
				continue // which has accounts, not outputs
			}
			there, err := v.node.UTXOs(v.ctx, on, from, hrp, address)
			if err != nil {
				return n, err
			}
			sums := make(map[ids.ID]*big.Int)
			seen := make(map[ids.ID]bool)
			for _, utxo := range there {
				id, err := utxoID(utxo)
				if err != nil {
					return n, err
				}
				if seen[id] {
					continue // the pages of a node may overlap
				}
				seen[id] = true
				o, listed := own[id]
				if !listed {
					found, err := v.Ledger.Outputs(v.ctx, []ids.ID{id})
					if err != nil {
						return n, err
					}
					if o = found[0]; o != nil && o.Spent == nil && o.Threshold > 1 && bytes.Equal(o.Bytes, utxo) {
						continue // it takes more than this address
					}
					wrong("address %s: the node has output %s (%s), which is not recorded as its own", address, id, v.way(sourceID, chainID))
					continue
				}
				if !bytes.Equal(o.Bytes, utxo) {
					wrong("address %s: output %s is recorded as %x, the node has %x", address, id, o.Bytes, utxo)
				}
				n++
				addTo(sums, o)
			}
			for id, o := range own {
				if o.ChainID == sourceID && !o.StakedAt(now) && !seen[id] {
					wrong("address %s: output %s (%s) is recorded, and the node does not have it", address, id, v.way(sourceID, chainID))
				}
			}
			// What is staked is not among the node's outputs, and not compared.
			for _, b := range balances {
				switch {
				case b.Bucket == ledger.UnlockedStaked, b.Bucket == ledger.LockedStaked, b.Bucket == ledger.PendingStaked, b.Export:
					continue
				case b.Bucket >= ledger.AtomicMemoryUnlocked && (sourceID == chainID || b.SharedWith != sourceID):
					continue
				case b.Bucket < ledger.AtomicMemoryUnlocked && sourceID != chainID:
					continue
				}
				sum := sums[b.AssetID]
				if sum == nil {
					sum = new(big.Int)
					sums[b.AssetID] = sum
				}
				sum.Sub(sum, b.Amount)
			}
			for assetID, sum := range sums {
				if sum.Sign() != 0 {
					wrong("address %s: its balance of asset %s %s differs from the sum of the node's outputs by %s", address, assetID, v.way(sourceID, chainID), sum.Neg(sum))
				}
			}
		}
	}
	return n, nil
}

// addTo adds what counts of an output to a balance.
func addTo(sums map[ids.ID]*big.Int, o *ledger.Output) {
	if o.ListAmount() == 0 || !o.IsBalance() {
		return
	}
	sum := sums[o.AssetID]
	if sum == nil {
		sum = new(big.Int)
		sums[o.AssetID] = sum
	}
	sum.Add(sum, new(big.Int).SetUint64(o.ListAmount()))
}

// unspent are the outputs that an address can consume alone on a chain, those that
// wait to be imported among them.
func (v *verifier) unspent(chainID ids.ID, address ids.ShortID) (own map[ids.ID]*ledger.Output, now time.Time, err error) {
	own = make(map[ids.ID]*ledger.Output)
	q := ledger.OutputQuery{ChainID: chainID, Addresses: []ids.ShortID{address}, Limit: 1000}
	for {
		page, err := v.Ledger.UTXOs(v.ctx, q)
		if err != nil {
			return nil, now, err
		}
		now = page.Now
		for _, o := range page.Outputs {
			if o.DestinationID == chainID {
				own[o.ID] = o
			}
		}
		if page.Next == nil {
			return own, now, nil
		}
		q.After = page.Next
	}
}

// utxoID is the ID of an output in the codec's form (avalanchego vms/components/avax).
func utxoID(utxo []byte) (ids.ID, error) {
	const begin = 2 // the codec's version
	if len(utxo) < begin+ids.IDLen+4 {
		return ids.Empty, fmt.Errorf("the node has an output of %d bytes", len(utxo))
	}
	txID := ids.ID(utxo[begin:])
	return txID.Prefix(uint64(binary.BigEndian.Uint32(utxo[begin+ids.IDLen:]))), nil
}
