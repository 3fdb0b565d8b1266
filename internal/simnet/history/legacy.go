package history

import (
	"fmt"

	"github.com/ava-labs/avalanchego/vms/platformvm/block"
	"github.com/ava-labs/avalanchego/vms/platformvm/txs"
)

// legacy is the period before Banff: P-Chain blocks had no time, and adding a validator was a proposal.
type legacy struct {
	left int // number of rounds left
	step int
}

// bare is the number of P-Chain blocks without envelopes.
const bare = 8

// legacyRound generates the kinds of blocks of that period in turn.
func (g *Generator) legacyRound(now int64) error {
	l := &g.legacy
	l.left--
	steps := [...]func(int64) error{
		g.legacyTime,
		func(int64) error { return g.legacyStandard((*Generator).createSubnetTx) },
		func(int64) error { return g.legacyProposal(g.oldValidatorTx, true) },
		func(int64) error { return g.legacyAtomic((*Generator).exportTx) },
		func(int64) error { return g.legacyProposal(g.oldDelegatorTx, true) },
		func(int64) error { return g.legacyProposal(g.oldValidatorTx, false) },
		func(int64) error {
			return g.legacyStandard((*Generator).createChainTx, (*Generator).importTx, (*Generator).exportTx)
		},
		func(int64) error { return g.legacyProposal(g.oldDelegatorTx, false) },
		func(int64) error { return g.legacyAtomic((*Generator).importTx) },
		func(int64) error {
			return g.legacyProposal(g.addSubnetValidatorTx, g.chance(0.8))
		},
		g.legacyReward,
	}
	step := steps[l.step%len(steps)]
	l.step++
	return step(now)
}

// legacyTime advances the chain's time, but not past the end of a stake.
func (g *Generator) legacyTime(now int64) error {
	to := max(now, g.tips[P].time)
	if g.stakes.Len() > 0 {
		to = min(to, g.stakes.all[0].end)
	}
	if to == g.tips[P].time {
		return nil
	}
	tx := &txs.Tx{Unsigned: &txs.AdvanceTimeTx{Time: uint64(to)}}
	if err := tx.Initialize(txs.Codec); err != nil {
		return fmt.Errorf("a new time: %w", err)
	}
	if err := g.propose(tx); err != nil {
		return err
	}
	return g.decide(g.open(P, to), true, false)
}

// legacyReward ends the first stake if it is due.
func (g *Generator) legacyReward(now int64) error {
	if g.stakes.Len() == 0 || g.stakes.all[0].end > now {
		return nil
	}
	if err := g.legacyTime(now); err != nil {
		return err
	}
	return g.settle()
}

func (g *Generator) propose(tx *txs.Tx) error {
	b := g.open(P, 0)
	made, err := block.NewApricotProposalBlock(b.ParentID, b.Height, tx)
	if err != nil {
		return fmt.Errorf("a proposal: %w", err)
	}
	b.Txs = append(b.Txs, Tx{tx.ID(), tx.Bytes()})
	g.accept(b, made.ID(), made.Bytes())
	return nil
}

// legacyProposal generates a proposal and the block that decides it.
func (g *Generator) legacyProposal(propose func(*draft) (*txs.Tx, error), commit bool) error {
	option := g.open(P, 0)
	option.Height++
	d := g.draft(option)
	d.aborted = !commit
	tx, err := propose(d)
	if tx == nil || err != nil {
		return err
	}
	option.Txs = nil
	if err := g.propose(tx); err != nil {
		return err
	}
	option.ParentID = g.tips[P].id
	return g.decide(option, commit, false)
}

func (g *Generator) legacyStandard(kinds ...func(*Generator, *draft) (*txs.Tx, error)) error {
	b := g.open(P, 0)
	var all []*txs.Tx
	for _, kind := range kinds {
		d := g.draft(b)
		d.memo = g.bytes(g.between(0, 40))
		tx, err := kind(g, d)
		if err != nil {
			return err
		}
		if tx != nil {
			all = append(all, tx)
		}
	}
	if len(all) == 0 {
		return nil
	}
	made, err := block.NewApricotStandardBlock(b.ParentID, b.Height, all)
	if err != nil {
		return fmt.Errorf("a P-Chain block: %w", err)
	}
	g.accept(b, made.ID(), made.Bytes())
	return nil
}

func (g *Generator) legacyAtomic(kind func(*Generator, *draft) (*txs.Tx, error)) error {
	b := g.open(P, 0)
	tx, err := kind(g, g.draft(b))
	if tx == nil || err != nil {
		return err
	}
	made, err := block.NewApricotAtomicBlock(b.ParentID, b.Height, tx)
	if err != nil {
		return fmt.Errorf("a P-Chain block: %w", err)
	}
	g.accept(b, made.ID(), made.Bytes())
	return nil
}

// oldPeriod draws the length of a stake. Some stakes end before Banff.
func (g *Generator) oldPeriod() int64 {
	if g.legacy.step < 60 {
		return max(int64(g.gap*float64(g.between(5, 15))), 4)
	}
	return g.period()
}

func (g *Generator) oldValidatorTx(d *draft) (*txs.Tx, error) {
	who, weight, err := d.stakeOf(40 * fee)
	if err != nil {
		return nil, err
	}
	s := &stint{
		nodeID: g.nodeID(), start: d.now(), end: d.now() + 2*g.oldPeriod(), weight: weight, owner: who,
		shares: uint32(g.between(2, 20)) * 10_000,
	}
	base := d.pBase()
	owners := g.purse.parties[who].owners(0)
	return d.staking(s, &txs.AddValidatorTx{
		BaseTx: base, Validator: s.validatorOf(), StakeOuts: d.outputs(d.stake), RewardsOwner: &owners, DelegationShares: s.shares,
	})
}

func (g *Generator) oldDelegatorTx(d *draft) (*txs.Tx, error) {
	validator := g.validatorFor(d.now())
	if validator == nil {
		return nil, nil
	}
	who, weight, err := d.stakeOf(25 * fee)
	if err != nil {
		return nil, err
	}
	s := &stint{
		nodeID: validator.nodeID, start: d.now(), end: min(d.now()+g.oldPeriod(), validator.end-1), weight: weight, owner: who,
		validator: validator,
	}
	base := d.pBase()
	owners := g.purse.parties[who].owners(0)
	return d.staking(s, &txs.AddDelegatorTx{
		BaseTx: base, Validator: s.validatorOf(), StakeOuts: d.outputs(d.stake), DelegationRewardsOwner: &owners,
	})
}
