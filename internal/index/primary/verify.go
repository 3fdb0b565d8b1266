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
	"quorate/internal/node"
	"quorate/internal/store"
)

// Verification is an event of Verify. Exactly one field is set.
type Verification struct {
	// Progress is the progress of the current step.
	Progress *VerifyProgress `json:"progress,omitempty"`
	// Wrong is a contradiction.
	Wrong string `json:"wrong,omitempty"`
	// Unchecked is something that could not be verified, with the reason.
	Unchecked string `json:"unchecked,omitempty"`
	// Summary is the result of a step.
	Summary string `json:"summary,omitempty"`
	// Done is the last event. It counts the Wrong and Unchecked events.
	Done *Verdict `json:"done,omitempty"`
}

// VerifyProgress is the progress of a step. A Total of 0 is unknown.
type VerifyProgress struct {
	What  string `json:"what"`
	Done  uint64 `json:"done"`
	Total uint64 `json:"total,omitempty"`
}

// Verdict is the result of a verification.
type Verdict struct {
	Wrong     int `json:"wrong"`
	Unchecked int `json:"unchecked"`
}

// VerifyOptions configures a verification.
type VerifyOptions struct {
	// Addresses is the number of addresses to compare with the node. Seed selects them.
	Addresses int
	Seed      ids.ShortID
}

// maxReported is the maximum number of reported contradictions; further ones are only counted.
const maxReported = 1000

// verifier is a running verification.
type verifier struct {
	*Network
	ctx     context.Context //nolint:containedctx // the verifier lives as long as the call
	report  func(Verification)
	verdict Verdict
}

func (v *verifier) wrong(format string, args ...any) {
	if v.verdict.Wrong++; v.verdict.Wrong <= maxReported {
		v.report(Verification{Wrong: fmt.Sprintf(format, args...)})
	}
}

func (v *verifier) unchecked(format string, args ...any) {
	v.verdict.Unchecked++
	v.report(Verification{Unchecked: fmt.Sprintf(format, args...)})
}

func (v *verifier) summary(format string, args ...any) {
	v.report(Verification{Summary: fmt.Sprintf(format, args...)})
}

func (v *verifier) progress(what string, done, total uint64) {
	v.report(Verification{Progress: &VerifyProgress{What: what, Done: done, Total: total}})
}

// Verify verifies the index: blocks form a chain up to the node's block (stored blocks where they exist, else the
// node's), outputs and balances agree with one another, and the outputs and balances of some addresses equal the node's
// at the same tip. It only reads and may run beside Run. It calls report sequentially with each event and finally with
// the verdict. Errors come from the store, the context or, if stored blocks cannot be decoded without it, the node.
func (n *Network) Verify(ctx context.Context, o VerifyOptions, report func(Verification)) (Verdict, error) {
	v := &verifier{Network: n, ctx: ctx, report: report}
	for _, chain := range n.chains {
		if err := n.lines[chain].verify(v); err != nil {
			return v.verdict, fmt.Errorf("verifying the %s-Chain: %w", chain, err)
		}
	}
	if n.Ledger == nil {
		v.unchecked("outputs and balances: no ledger is indexed")
	} else if err := v.ledger(o); err != nil {
		return v.verdict, fmt.Errorf("verifying outputs and balances: %w", err)
	}
	report(Verification{Done: &v.verdict})
	return v.verdict, nil
}

// line is the pipeline of a chain with the data that Verify needs.
type line[B any] struct {
	*index.Pipeline[B]
	chain  container.Chain
	store  store.Store
	source index.ContainerSource[B] // writes nothing
	// height returns the height of the node's last block, which may differ from the source's tip.
	height      func(ctx context.Context) (uint64, error)
	projections []string
	genesisID   ids.ID                // ID of the block at height 0; empty if unknown
	lookup      *lookup.Projection[B] // nil if blocks are not indexed by ID
}

// watch updates the status with the progress of other processes.
func (l *line[B]) watch(ctx context.Context) error { return l.Watch(ctx, l.source) }

// recordedBy makes the status report another network's pipeline of the chain, nil for none.
func (l *line[B]) recordedBy(other pipeline) {
	indexer, _ := other.(*line[B])
	if indexer == nil {
		l.IndexedBy(nil)
		return
	}
	l.IndexedBy(indexer.Pipeline)
}

// verify verifies the blocks of a chain.
func (l *line[B]) verify(v *verifier) error {
	name := l.chain.Name
	c := &chainCheck[B]{line: l, verifier: v}
	if err := c.readEnds(); err != nil {
		return err
	}
	if len(c.ends) == 0 {
		v.unchecked("%s-Chain: nothing is indexed yet", name)
		return nil
	}
	keptFrom, kept, err := index.ContainersUntil(v.ctx, l.store, l.chain.NetworkID, name)
	if err != nil {
		return err
	}
	if l.lookup != nil {
		if _, c.found, _, err = index.Indexed(v.ctx, l.store, l.chain.NetworkID, name, l.lookup.Name()); err != nil {
			return err
		}
	}
	fetched, bad := uint64(0), v.verdict.Wrong
	for at := c.first; at < c.next; {
		var blocks []index.Block[B]
		stored := keptFrom <= at && at < kept
		if stored {
			blocks, err = l.kept(v, at, kept)
		} else {
			until := c.next
			if at < keptFrom {
				until = min(until, keptFrom)
			}
			blocks, err = l.source.Fetch(v.ctx, at, int(min(until-at, 1024)))
			fetched += uint64(len(blocks))
		}
		if stored && err != nil {
			if err = l.unread(v, at, err); err == nil {
				at, c.parent = at+1, ids.Empty // the next block has no parent to compare with
				continue
			}
			if !errors.Is(err, index.ErrVerticesMissing) && !errors.Is(err, node.ErrUnavailable) {
				return err
			}
		}
		if err != nil && (v.ctx.Err() != nil || errors.Is(err, store.ErrClosed)) {
			return err
		}
		if err != nil {
			v.unchecked("%s-Chain blocks %d to %d cannot be read: %v", name, at, c.next-1, err)
			c.next = at
			break
		}
		for i := range blocks {
			if err := c.block(&blocks[i], at, stored); err != nil {
				return err
			}
			at++
		}
		v.progress(name+"-Chain blocks", at-c.first, c.next-c.first)
	}
	if kept > keptFrom {
		if err := l.likeNode(v, kept-1); err != nil {
			return err
		}
	}
	if c.next > c.first {
		v.summary("%s-Chain: blocks %d to %d form a chain; %d of them were read from the node, the others from the store: %s",
			name, c.first, c.next-1, fetched, outcome(v.verdict.Wrong-bad))
	}
	return nil
}

// chainCheck verifies the blocks of a chain in order.
type chainCheck[B any] struct {
	*line[B]
	*verifier
	// ends holds the block with which each projection ends, by height, and the name of the projection. That block must be
	// in the chain. The index may grow meanwhile.
	ends map[uint64]map[ids.ID]string
	// first is the first height that a projection indexes, next the first that none does.
	first, next uint64
	found       uint64 // height below which blocks are indexed by ID
	parent      ids.ID // of the next block; empty if it is unknown
}

func (c *chainCheck[B]) readEnds() error {
	c.ends = make(map[uint64]map[ids.ID]string)
	for _, projection := range append(slices.Clone(c.projections), index.Containers) {
		from, until, last, err := index.Indexed(c.ctx, c.store, c.chain.NetworkID, c.chain.Name, projection)
		if err != nil {
			return err
		}
		if until <= from {
			continue
		}
		if len(c.ends) == 0 || from < c.first {
			c.first = from
		}
		c.next = max(c.next, until)
		if c.ends[until-1] == nil {
			c.ends[until-1] = make(map[ids.ID]string)
		}
		c.ends[until-1][last] = projection
	}
	return nil
}

// block verifies the block that is at a height.
func (c *chainCheck[B]) block(b *index.Block[B], at uint64, stored bool) error {
	name := c.chain.Name
	if b.Height != at {
		c.wrong("%s-Chain block %d: got block %d instead", name, at, b.Height)
	}
	if c.parent != ids.Empty && b.ParentID != c.parent {
		c.wrong("%s-Chain block %d: parent is %s, but block %d is %s", name, at, b.ParentID, at-1, c.parent)
	}
	if at == 0 && c.genesisID != ids.Empty && b.ID != c.genesisID {
		c.wrong("%s-Chain block 0 is %s, but the genesis is %s", name, b.ID, c.genesisID)
	}
	if stored && at < c.found {
		if err := c.lookup.Check(c.ctx, c.store, b.Content, func(what string) { c.wrong("%s-Chain: %s", name, what) }); err != nil {
			if c.ctx.Err() != nil || !errors.Is(err, store.ErrCorrupt) {
				return err
			}
			c.wrong("%s-Chain block %d: cannot read its position: %v", name, at, err)
		}
	}
	for id, projection := range c.ends[at] {
		if id != b.ID {
			c.wrong("%s-Chain block %d is %s, but index %q ends with %s", name, at, b.ID, projection, id)
		}
	}
	c.parent = b.ID
	return nil
}

func outcome(wrong int) string {
	if wrong == 0 {
		return "nothing differs"
	}
	return fmt.Sprintf("%d differences", wrong)
}

// kept reads stored blocks and verifies that they are found by ID.
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
				v.wrong("%s-Chain container %d: not found by its ID %s", l.chain.Name, c.Height, c.ID)
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

// unread reports a stored block that is damaged. It returns errors that have another reason, such as an outage.
func (l *line[B]) unread(v *verifier, height uint64, err error) error {
	for _, damage := range []error{store.ErrCorrupt, container.ErrMissing, index.ErrUnreadable} {
		if errors.Is(err, damage) {
			v.wrong("%s-Chain block %d: cannot read the stored block: %v", l.chain.Name, height, err)
			return nil
		}
	}
	return err
}

// likeNode compares the last stored block with the node's. All other whole blocks follow from it through parent IDs.
func (l *line[B]) likeNode(v *verifier, height uint64) error {
	blocks, err := l.source.Fetch(v.ctx, height, 1)
	if v.ctx.Err() != nil {
		return v.ctx.Err()
	}
	if err != nil {
		v.unchecked("%s-Chain block %d: the node did not return it: %v", l.chain.Name, height, err)
		return nil
	}
	own, err := l.kept(v, height, height+1)
	if err != nil {
		return l.unread(v, height, err)
	}
	if own[0].ID != blocks[0].ID {
		v.wrong("%s-Chain block %d: stored is %s, the node has %s", l.chain.Name, height, own[0].ID, blocks[0].ID)
	}
	return nil
}

// ledger verifies outputs and balances.
func (v *verifier) ledger(o VerifyOptions) error {
	bad := v.verdict.Wrong
	audited, err := v.Ledger.Audit(v.ctx, ledger.AuditOptions{
		AssetID: v.genesis.AVAXAssetID, Addresses: o.Addresses, Seed: o.Seed,
		Progress: func(what string, checked int) { v.progress(what, uint64(checked), 0) },
		Wrong:    func(what string) { v.wrong("%s", what) },
	})
	if err != nil {
		return err
	}
	v.summary("%d outputs are in the lists of their owners, the balances of %d accounts equal the sums of their outputs: %s",
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

// arrived checks again outputs whose arrival was indexed before their export, once both chains are indexed up to their
// tips.
func (v *verifier) arrived(outputs []ids.ID) error {
	if len(outputs) == 0 {
		return nil
	}
	_, err := v.sameHeights()
	if v.ctx.Err() != nil {
		return v.ctx.Err()
	}
	if err != nil {
		v.unchecked("%d outputs were consumed and are not indexed: %v", len(outputs), err)
		return nil
	}
	found, err := v.Ledger.Outputs(v.ctx, outputs)
	if err != nil {
		return err
	}
	for i, o := range found {
		if o == nil {
			v.wrong("output %s was consumed and is not indexed", outputs[i])
		}
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

// way names a chain, or the direction from one chain to another.
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
	// attempts limits the comparisons of an address before it counts as unchecked. Node and index must be at the same
	// block during a comparison.
	attempts = 20
	// betweenAttempts is the pause between two attempts.
	betweenAttempts = 200 * time.Millisecond
	// confirmations is the number of comparisons that must find a difference. The node's URL may stand for several
	// nodes, and one that is behind may answer a part of a comparison.
	confirmations = 3
	// mostFailures is the number of addresses in a row that may use up their attempts: the next ones would, too.
	mostFailures = 3
)

// errApart means that node and index were not at the same block during all attempts.
var errApart = errors.New("node and index cannot be compared")

// addresses compares the outputs and balances of addresses with the node's.
func (v *verifier) addresses(all []ids.ShortID) error {
	checked, unchecked, failures, outputs, bad := 0, 0, 0, 0, v.verdict.Wrong
	var last error
	for i, address := range all {
		n, differences, err := v.differences(address)
		if v.ctx.Err() != nil {
			return v.ctx.Err()
		}
		if err == nil || answers(err) {
			failures = 0
		} else {
			failures++
		}
		if errors.Is(err, errApart) || failures == mostFailures {
			unchecked, last = unchecked+len(all)-i, err
			break
		}
		if err != nil {
			unchecked, last = unchecked+1, fmt.Errorf("address %s: %w", address, err)
		} else {
			checked++
			outputs += n
			for _, d := range differences {
				v.wrong("%s", d)
			}
		}
		v.progress("addresses", uint64(i+1), uint64(len(all)))
	}
	if unchecked > 0 {
		v.unchecked("balances of %d of %d addresses: %v", unchecked, len(all), last)
	}
	if checked == 0 {
		return nil
	}
	v.summary("%d addresses have the same %d outputs and the same balances as on the node: %s", checked, outputs, outcome(v.verdict.Wrong-bad))
	return nil
}

// answers reports whether an error is the node's answer, which stays the same.
func answers(err error) bool {
	return errors.Is(err, node.ErrMalformed) || errors.As(err, new(*node.RPCError))
}

// differences compares an address with the node until one comparison finds no difference, or several find the same
// ones. It returns the number of outputs. The error says why the address could not be compared, and a difference that too
// few comparisons found; it is errApart if no address can.
func (v *verifier) differences(address ids.ShortID) (n int, differences []string, err error) {
	found := make(map[string]int) // number of comparisons by difference
	defer func() {
		for d, times := range found {
			if err != nil {
				err = fmt.Errorf("%w; found %d times instead of %d: %s", err, times, confirmations, d)
				return
			}
		}
	}()
	for attempt := range attempts {
		if attempt > 0 {
			if err := v.pause(); err != nil {
				return 0, nil, err
			}
		}
		before, apart := v.sameHeights()
		if apart != nil {
			return 0, nil, apart
		}
		differences = nil
		n, err = v.compare(address, func(format string, args ...any) { differences = append(differences, fmt.Sprintf(format, args...)) })
		if answers(err) {
			return 0, nil, err
		}
		if err != nil {
			continue
		}
		after, failure := v.heights()
		switch {
		case failure != nil || after != before:
			err = errors.Join(failure, errors.New("new blocks were accepted during the comparison"))
			continue
		case len(differences) == 0:
			return n, nil, nil
		}
		for _, d := range differences {
			found[d]++
		}
		differences = slices.DeleteFunc(differences, func(d string) bool { return found[d] < confirmations })
		if len(differences) > 0 {
			return n, differences, nil
		}
		err = errors.New("the comparisons differ")
	}
	return 0, nil, err
}

// sameHeights returns the heights of the three chains once node and index agree on them. It makes some attempts and then
// returns errApart.
func (v *verifier) sameHeights() (at [3]uint64, err error) {
	for attempt := range attempts {
		if attempt > 0 {
			if err := v.pause(); err != nil {
				return at, err
			}
		}
		if at, err = v.heights(); err == nil {
			return at, nil
		}
	}
	return at, fmt.Errorf("%w: %w", errApart, err)
}

// heights returns the heights of the three chains if node and index agree on them.
func (v *verifier) heights() (at [3]uint64, err error) {
	for i, name := range []string{index.PChain, index.XChain, index.CChain} {
		there, err := v.lines[name].tip(v.ctx)
		if err != nil {
			return at, fmt.Errorf("the node did not return the height of the %s-Chain: %w", name, err)
		}
		here, _, err := v.Ledger.Tip(v.ctx, v.chainIDs()[name])
		if err != nil {
			return at, err
		}
		if here != there {
			return at, fmt.Errorf("the index of the %s-Chain ends at block %d, the node is at %d; wait until the service has caught up", name, here, there)
		}
		at[i] = here
	}
	return at, nil
}

// tip returns the height of the node's last block.
func (l *line[B]) tip(ctx context.Context) (uint64, error) { return l.height(ctx) }

// compare compares the outputs and balances of one address on all chains and between them. It returns the number of
// outputs.
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
				continue // the C-Chain has accounts, not outputs
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
					continue // pages of a node may overlap
				}
				seen[id] = true
				o, listed := own[id]
				if !listed {
					found, err := v.Ledger.Outputs(v.ctx, []ids.ID{id})
					if err != nil {
						return n, err
					}
					if o = found[0]; o != nil && o.Spent == nil && o.Threshold > 1 && bytes.Equal(o.Bytes, utxo) {
						continue // other addresses must sign too
					}
					wrong("address %s: the node has output %s (%s), the index does not", address, id, v.way(sourceID, chainID))
					continue
				}
				if !bytes.Equal(o.Bytes, utxo) {
					wrong("address %s: output %s is indexed as %x, the node has %x", address, id, o.Bytes, utxo)
				}
				n++
				addTo(sums, o)
			}
			for id, o := range own {
				if o.ChainID == sourceID && !o.StakedAt(now) && !seen[id] {
					wrong("address %s: the index has output %s (%s), the node does not", address, id, v.way(sourceID, chainID))
				}
			}
			// The node's outputs do not include stakes, so stakes are not compared.
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
					wrong("address %s: balance of asset %s %s differs from the sum of the node's outputs by %s", address, assetID, v.way(sourceID, chainID), sum.Neg(sum))
				}
			}
		}
	}
	return n, nil
}

// addTo adds the amount of an output to a balance.
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

// unspent returns the outputs that an address can consume alone on a chain, including outputs that can be imported.
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

// utxoID returns the ID of an encoded UTXO (avalanchego vms/components/avax).
func utxoID(utxo []byte) (ids.ID, error) {
	const begin = 2 // the codec's version
	if len(utxo) < begin+ids.IDLen+4 {
		return ids.Empty, fmt.Errorf("the node returned an output of %d bytes", len(utxo))
	}
	txID := ids.ID(utxo[begin:])
	return txID.Prefix(uint64(binary.BigEndian.Uint32(utxo[begin+ids.IDLen:]))), nil
}
