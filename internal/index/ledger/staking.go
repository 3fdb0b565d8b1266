package ledger

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/constants"

	chain "quorate/internal/chain/ledger"
	"quorate/internal/index/internal/row"
	"quorate/internal/store"
)

// Staking is a transaction that started a validation or delegation.
type Staking struct {
	TxID    ids.ID
	Kind    chain.Kind
	BlockID ids.ID
	Height  uint64
	Time    time.Time
	// Consumed and Made are the IDs of the outputs in transaction order.
	Consumed, Made []ids.ID
	Staker         chain.Staker
	Memo           []byte
	// End is the end of the current period. For an auto-renewed validator it differs from Staker.End.
	End time.Time
	// PotentialReward is that of the last period before commission, in units of the staked asset. It is 0 while the stake
	// is locked, and if it is unknown.
	PotentialReward uint64
	// Settled is nil while the stake is locked.
	Settled *Settlement

	// involved are the owners of consumed and created outputs, sorted.
	involved []ids.ShortID
}

// Settlement is the end of a staking period.
type Settlement struct {
	// TxID is the transaction of the reward.
	TxID     ids.ID
	Height   uint64
	Time     time.Time
	Rewarded bool
	// Rewards are the IDs of the reward outputs of all periods.
	Rewards []ids.ID
}

func newStaking(block *chain.Block, tx *chain.Tx) *Staking {
	s := &Staking{
		TxID: tx.ID, Kind: tx.Kind, BlockID: block.ID, Height: block.Height, Time: block.Time,
		Staker: *tx.Staker, Memo: bytes.Clone(tx.Memo), End: tx.Staker.End, // Memo is a part of the block's bytes
	}
	for _, in := range tx.Consumed {
		s.Consumed = append(s.Consumed, in.OutputID)
	}
	for i := range tx.Made {
		s.Made = append(s.Made, tx.Made[i].ID)
	}
	return s
}

func (s *Staking) involve(addresses []ids.ShortID) {
	for _, a := range addresses {
		if i, found := slices.BinarySearchFunc(s.involved, a, ids.ShortID.Compare); !found {
			s.involved = slices.Insert(s.involved, i, a)
		}
	}
}

func (s *Staking) bytes() []byte {
	w := row.New(512)
	w.Bytes([]byte(s.Kind))
	w.ID(s.BlockID)
	w.Number(s.Height)
	w.Time(s.Time)
	w.IDs(s.Consumed)
	w.IDs(s.Made)
	writeStaker(&w, &s.Staker)
	w.Number(s.PotentialReward)
	w.Bytes(s.Memo)
	w.Time(s.End)
	w.Addresses(s.involved)
	w.Bool(s.Settled != nil)
	if s.Settled != nil {
		w.ID(s.Settled.TxID)
		w.Number(s.Settled.Height)
		w.Time(s.Settled.Time)
		w.Bool(s.Settled.Rewarded)
		w.IDs(s.Settled.Rewards)
	}
	return w.B
}

func parseStaking(txID ids.ID, v []byte) (*Staking, error) {
	r := row.Read(v)
	s := &Staking{
		TxID: txID, Kind: chain.Kind(r.Bytes()), BlockID: r.ID(), Height: r.Number(), Time: r.Time(),
		Consumed: r.IDs(), Made: r.IDs(), Staker: readStaker(r), PotentialReward: r.Number(), Memo: r.Bytes(), End: r.Time(), involved: r.Addresses(),
	}
	if r.Bool() {
		s.Settled = &Settlement{TxID: r.ID(), Height: r.Number(), Time: r.Time(), Rewarded: r.Bool(), Rewards: r.IDs()}
	}
	if err := r.End(); err != nil {
		return nil, fmt.Errorf("staking transaction %s: %w", txID, err)
	}
	return s, nil
}

func writeStaker(w *row.Writer, s *chain.Staker) {
	w.ID(s.SubnetID)
	w.B = append(w.B, s.NodeID[:]...)
	w.Bool(s.Delegator)
	w.Bool(s.Renewing)
	w.Number(s.Weight)
	w.Time(s.Start)
	w.Time(s.End)
	w.Number(uint64(s.Shares))
	w.Addresses(s.RewardAddresses)
	w.Bytes(s.PublicKey)
	w.Bytes(s.ProofOfPossession)
}

func readStaker(r *row.Reader) (s chain.Staker) {
	s.SubnetID = r.ID()
	copy(s.NodeID[:], r.Take(len(s.NodeID)))
	s.Delegator, s.Renewing = r.Bool(), r.Bool()
	s.Weight, s.Start, s.End, s.Shares = r.Number(), r.Time(), r.Time(), r.Uint32()
	s.RewardAddresses, s.PublicKey, s.ProofOfPossession = r.Addresses(), r.Bytes(), r.Bytes()
	return s
}

func stakingRow(networkID uint32, txID ids.ID) store.PK {
	return store.PK{P: row.Network(networkID, txID[:])}
}

// addressRows returns the rows of an unsettled transaction in the lists of involved addresses.
func (s *Staking) addressRows(networkID uint32) []store.PK {
	k := row.Uint64(row.Seconds(s.Time), row.Uint64(s.Height), []byte(s.TxID.String()))
	rows := make([]store.PK, len(s.involved))
	for i, address := range s.involved {
		rows[i] = store.PK{P: row.Network(networkID, address[:]), K: k}
	}
	return rows
}

// validation is the start of a node's validation and its commission, which its delegations need.
type validation struct {
	start  uint64
	shares uint32
}

// stake indexes a new staking transaction.
func (b *application) stake(ctx context.Context, s *Staking) error {
	b.stakes.Put(s.TxID, s, s.Height)
	b.batch.Put(store.FamilyStaking, stakingRow(b.networkID, s.TxID), s.bytes())
	if slices.ContainsFunc(s.Made, func(id ids.ID) bool {
		o, ok := b.outputs.Get(id)
		return ok && o.Role == chain.Stake
	}) {
		for _, pk := range s.addressRows(b.networkID) {
			b.batch.Put(store.FamilyStakingByAddress, pk, nil)
		}
	}
	node := row.Network(b.networkID, s.Staker.SubnetID[:], s.Staker.NodeID[:])
	start := row.Seconds(s.Staker.Start)
	if !s.Staker.Delegator {
		v := validation{start: start, shares: s.Staker.Shares}
		known, _ := b.nodes.Get(string(node))
		b.nodes.Put(string(node), append(slices.Clone(known), v), s.Height)
		w := row.New(8)
		w.Number(uint64(v.shares))
		b.batch.Put(store.FamilyValidation, store.PK{P: node, K: row.Uint64(start, s.TxID[:])}, w.B)
		return nil
	}
	if s.Staker.SubnetID != constants.PrimaryNetworkID {
		return nil
	}
	shares, err := b.shares(ctx, node, start)
	if err != nil {
		return err
	}
	d := delegationOf(s, shares)
	d.put(b.networkID, b.batch)
	return nil
}

// shares returns the commission of a node's latest validation that began at or before start.
func (b *application) shares(ctx context.Context, node []byte, start uint64) (uint32, error) {
	var best validation
	found := false
	recent, _ := b.nodes.Get(string(node))
	for _, v := range recent {
		if v.start <= start && (!found || v.start >= best.start) {
			best, found = v, true
		}
	}
	var hi []byte
	if start < ^uint64(0) {
		hi = row.Uint64(start + 1)
	}
	rows, err := b.r.Scan(ctx, store.FamilyValidation, node, nil, hi, store.Descending, 1)
	if err != nil {
		return 0, fmt.Errorf("reading validations: %w", err)
	}
	if len(rows) == 1 && len(rows[0].K) >= 8 {
		r := row.Read(rows[0].V)
		v := validation{start: binary.BigEndian.Uint64(rows[0].K), shares: r.Uint32()}
		if err := r.End(); err != nil {
			return 0, err
		}
		if !found || v.start > best.start {
			best, found = v, true
		}
	}
	if !found {
		return 0, fmt.Errorf("validation of a delegation: %w", ErrMissing)
	}
	return best.shares, nil
}

// settle indexes the end of a staking period.
func (b *application) settle(ctx context.Context, tx *chain.Tx) error {
	txID := tx.Settled.StakingTxID
	before, err := b.staking(ctx, txID)
	if err != nil {
		return err
	}
	s := *before
	if s.Settled != nil && s.Settled.TxID == tx.ID {
		return nil // applied before
	}
	rewards := make([]*chain.Output, 0, len(tx.Made))
	for i := range tx.Made {
		if tx.Made[i].Role != chain.Stake {
			rewards = append(rewards, &tx.Made[i])
		}
	}
	if until := tx.Settled.RenewedUntil; !until.IsZero() {
		s.End = until
		for _, o := range rewards {
			s.Made = append(slices.Clip(s.Made), o.ID)
		}
		if err := b.renew(ctx, before, until); err != nil {
			return err
		}
	} else {
		s.Settled = &Settlement{TxID: tx.ID, Height: b.block.Height, Time: b.block.Time, Rewarded: tx.Settled.Rewarded}
		s.PotentialReward = tx.Settled.PotentialReward
		for _, o := range rewards {
			s.Settled.Rewards = append(s.Settled.Rewards, o.ID)
		}
		for _, pk := range s.addressRows(b.networkID) {
			b.batch.Delete(store.FamilyStakingByAddress, pk)
		}
		if err := b.free(ctx, s.Made); err != nil {
			return err
		}
	}
	b.stakes.Put(txID, &s, b.block.Height)
	b.batch.Put(store.FamilyStaking, stakingRow(b.networkID, txID), s.bytes())
	if !s.Staker.Delegator || s.Staker.SubnetID != constants.PrimaryNetworkID || s.Settled == nil {
		return nil
	}
	shares, err := b.shares(ctx, row.Network(b.networkID, s.Staker.SubnetID[:], s.Staker.NodeID[:]), row.Seconds(s.Staker.Start))
	if err != nil {
		return err
	}
	d := delegationOf(&s, shares)
	for _, o := range rewards {
		switch o.Role {
		case chain.DelegationReward:
			d.Reward += o.Amount
		case chain.Commission:
			d.Commission += o.Amount
		}
	}
	d.put(b.networkID, b.batch)
	return nil
}

// free adds unlocked stake outputs to the lists of their owners.
func (b *application) free(ctx context.Context, made []ids.ID) error {
	for _, id := range made {
		o, err := b.output(ctx, id)
		if err != nil {
			return err
		}
		if at := o.placed(b.networkID); at != nil && o.Role == chain.Stake {
			own(b.batch, at, o)
		}
	}
	return nil
}

// staking returns an indexed staking transaction, which must not be modified.
func (b *application) staking(ctx context.Context, txID ids.ID) (*Staking, error) {
	if s, ok := b.stakes.Get(txID); ok {
		return s, nil
	}
	values, err := b.r.Get(ctx, store.FamilyStaking, []store.PK{stakingRow(b.networkID, txID)})
	if err != nil {
		return nil, fmt.Errorf("reading a staking transaction: %w", err)
	}
	if values[0] == nil {
		return nil, fmt.Errorf("staking transaction %s: %w", txID, ErrMissing)
	}
	return parseStaking(txID, values[0])
}

// renew extends a stake. Its outputs become stake outputs again if they were unlocked.
func (b *application) renew(ctx context.Context, s *Staking, until time.Time) error {
	for _, id := range s.Made {
		was, err := b.output(ctx, id)
		if err != nil {
			return err
		}
		if was.Role != chain.Stake {
			continue
		}
		o := *was
		o.StakeEnd, o.body = until, nil
		b.outputs.Put(id, &o, b.block.Height)
		b.batch.Put(store.FamilyOutput, outputRow(b.networkID, id, madeKey), o.bytes())
		at := o.placed(b.networkID)
		if at == nil {
			continue
		}
		account, one := at.account, tallyOf(&o)
		relist(b.batch, at, &o)
		b.phase(account, was, b.time, one.minus())
		if from, to := was.bucketAt(b.time), o.bucketAt(b.time); from != to {
			b.change(account, seriesPhases, b.time, from, one.minus())
			b.change(account, seriesPhases, b.time, to, one)
		}
		b.phase(account, &o, b.time, one)
	}
	return nil
}

// output returns an indexed output, which must not be modified.
func (b *application) output(ctx context.Context, id ids.ID) (*Output, error) {
	if o, ok := b.outputs.Get(id); ok {
		return o, nil
	}
	values, err := b.r.Get(ctx, store.FamilyOutput, []store.PK{outputRow(b.networkID, id, madeKey)})
	if err != nil {
		return nil, fmt.Errorf("reading an output: %w", err)
	}
	if values[0] == nil {
		return nil, fmt.Errorf("output %s: %w", id, ErrMissing)
	}
	return parseOutput(id, values[0])
}
