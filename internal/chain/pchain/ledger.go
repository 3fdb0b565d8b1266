package pchain

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ava-labs/avalanchego/genesis"
	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/upgrade"
	"github.com/ava-labs/avalanchego/utils/constants"
	platformreward "github.com/ava-labs/avalanchego/vms/platformvm/reward"
	"github.com/ava-labs/avalanchego/vms/platformvm/txs"
	"github.com/ava-labs/avalanchego/vms/platformvm/validators/fee"

	"quorate/internal/chain/ledger"
)

var (
	// ErrOutOfOrder says that a block is not the one that follows a State.
	ErrOutOfOrder = errors.New("not the block that follows")
	// ErrTransaction says that a block has a transaction that this version cannot
	// explain, or that does not fit the blocks before it.
	ErrTransaction = errors.New("P-Chain transaction cannot be explained")
	// ErrReward says that a node's account of a reward does not fit the
	// transactions.
	ErrReward = errors.New("reward does not fit its staking transaction")
	// ErrNotOffered is a Node's answer if no node lists the outputs of rewards. They are
	// computed then.
	ErrNotOffered = errors.New("no node lists the outputs of rewards")
)

// Node is asked for what the blocks do not say; *node.Client has it.
type Node interface {
	// RewardUTXOs returns the outputs, as the codec's avax.UTXO, that were made for a
	// transaction when a staking period ended, in any order; none if there was no reward.
	// The answer must be that of a node that has executed the block at a height.
	RewardUTXOs(ctx context.Context, txID ids.ID, height uint64) ([][]byte, error)
}

// DecoderOptions of a Decoder; Genesis, AVAXAssetID and Node are required.
type DecoderOptions struct {
	// NetworkID tells when upgrades took effect.
	NetworkID uint32
	// Genesis is the block at height 0, with what the chain began with.
	Genesis *ledger.Block
	// AVAXAssetID is what balances of L1 validators are given back in.
	AVAXAssetID ids.ID
	// Validators are those that the chain began with, in the order of its genesis, and
	// Supply is what there was of the asset before them, in nAVAX. Rewards follow from
	// these. Without a Supply only the node knows them.
	Validators []*txs.Tx
	Supply     uint64
	// Node is asked once for every staking period that ends.
	Node Node
	// Disagree is called with each reward of which the node says something else than
	// what is computed. It may be nil.
	Disagree func(*Difference)
	// ValidatorFees is how L1 validators pay (ACP-77), by which what is given back
	// to them is known. Nil means as on the network of that ID; a private network
	// may have been given others (platform.getValidatorFeeConfig).
	ValidatorFees *fee.Config
	// Upgrades are the times of upgrades. Nil means those of the network of that ID.
	Upgrades *upgrade.Config
}

// Decoder puts P-Chain blocks into the ledger's terms. It may be used from several
// goroutines, with a State each.
type Decoder struct {
	networkID   uint32
	genesis     *ledger.Block
	validators  []*txs.Tx
	supply      uint64
	node        Node
	disagree    func(*Difference)
	fees        fee.Config
	rewards     platformreward.Config
	maxStake    uint64
	avaxAssetID ids.ID
	upgrades    upgrade.Config
}

// NewDecoder makes a decoder. It asks the node nothing yet.
func NewDecoder(o DecoderOptions) (*Decoder, error) {
	switch {
	case o.Genesis == nil || o.Genesis.Height != 0:
		return nil, errors.New("reading the P-Chain needs its genesis")
	case o.AVAXAssetID == ids.Empty:
		return nil, errors.New("reading the P-Chain needs the ID of its asset")
	case o.Node == nil:
		return nil, errors.New("reading the P-Chain needs a node to ask for rewards")
	}
	d := &Decoder{
		networkID: o.NetworkID, genesis: o.Genesis, validators: o.Validators, supply: o.Supply,
		node: o.Node, disagree: o.Disagree, avaxAssetID: o.AVAXAssetID, upgrades: upgrade.GetConfig(o.NetworkID),
	}
	staking := genesis.GetStakingConfig(o.NetworkID)
	d.rewards, d.maxStake = staking.RewardConfig, staking.MaxValidatorStake
	if o.Upgrades != nil {
		d.upgrades = *o.Upgrades
	}
	if o.ValidatorFees != nil {
		d.fees = *o.ValidatorFees
	} else {
		d.fees = genesis.GetTxFeeConfig(o.NetworkID).ValidatorFeeConfig
	}
	return d, nil
}

// Ledger says what a block does to outputs, and brings the state to that block.
// Blocks come in order, the genesis block first. A transaction is reported with the
// block that has it, but proposals with the Commit or Abort that decides them.
//
// Errors: ErrOutOfOrder, ErrTransaction and ErrReward are final. Anything else is
// the node's or the context's; then the state is as it was, and the block may be
// tried again.
func (d *Decoder) Ledger(ctx context.Context, s *State, b *Block) (*ledger.Block, error) {
	if height, begun := s.Height(); !begun {
		return d.begin(s, b)
	} else if b.Height != height+1 || b.ParentID != s.blockID {
		return nil, fmt.Errorf("%w: %s at height %d after %s, not %s at %d after %s",
			ErrOutOfOrder, b.ID, b.Height, b.ParentID, b.ID, height+1, s.blockID)
	}
	isOption := b.Kind == Commit || b.Kind == Abort
	if isOption != (s.proposal != nil) {
		return nil, fmt.Errorf("%w: a %s block at height %d", ErrOutOfOrder, b.Kind, b.Height)
	}
	out := &ledger.Block{ChainID: constants.PlatformChainID, Height: b.Height, ID: b.ID, Time: s.time}
	if !b.Time.IsZero() {
		out.Time = b.Time
	}
	// The only thing that may have to be tried again comes first.
	var reward *ledger.Tx
	var end *settlement
	if isOption {
		var err error
		if reward, end, err = d.reward(ctx, s, b); err != nil {
			return nil, fmt.Errorf("at height %d: %w", b.Height, err)
		}
	}
	if err := d.apply(s, b, out, reward, end); err != nil {
		return nil, fmt.Errorf("at height %d: %w: %w", b.Height, ErrTransaction, err)
	}
	s.height, s.blockID, s.time, s.headChanged = b.Height, b.ID, out.Time, true
	s.proposal = b.Proposal
	return out, nil
}

// begin takes in the genesis block, whose bytes say nothing but what it hangs on.
func (d *Decoder) begin(s *State, b *Block) (*ledger.Block, error) {
	if b.Height != 0 || b.ID != d.genesis.ID {
		return nil, fmt.Errorf("%w: %s at height %d is not the genesis block %s of network %d",
			ErrOutOfOrder, b.ID, b.Height, d.genesis.ID, d.networkID)
	}
	s.height, s.blockID, s.time, s.headChanged = 0, b.ID, d.genesis.Time, true
	if err := d.initial(s.stakers); err != nil {
		return nil, fmt.Errorf("at height 0: %w: %w", ErrTransaction, err)
	}
	return d.genesis, nil
}

func (d *Decoder) apply(s *State, b *Block, out *ledger.Block, reward *ledger.Tx, end *settlement) error {
	if seconds := out.Time.Unix() - s.time.Unix(); seconds < 0 {
		return fmt.Errorf("its time is %s, that of the block before %s", out.Time, s.time)
	} else if seconds > 0 {
		if err := s.fees.advance(d.fees, uint64(seconds)); err != nil {
			return err
		}
		if err := d.promote(s.stakers, out.Time); err != nil {
			return err
		}
	}
	if b.Kind == Commit || b.Kind == Abort {
		if reward != nil {
			out.Txs = append(out.Txs, *reward)
			return d.finish(s.stakers, end, b.Kind == Commit, &out.Txs[0])
		}
		tx, err := d.decide(s, b.Kind == Commit, out)
		if err != nil {
			return fmt.Errorf("proposal %s: %w", s.proposal.ID(), err)
		}
		out.Txs = append(out.Txs, *tx)
		return nil
	}
	if len(b.Txs) > 0 {
		out.Txs = make([]ledger.Tx, 0, len(b.Txs))
	}
	for _, tx := range b.Txs {
		r := reader{decoder: d, state: s, id: tx.ID(), time: out.Time}
		if err := tx.Unsigned.Visit(&r); err != nil {
			return fmt.Errorf("transaction %s: %w", tx.ID(), err)
		}
		if err := d.enter(s.stakers, tx, out.Time); err != nil {
			return fmt.Errorf("transaction %s: %w", tx.ID(), err)
		}
		out.Txs = append(out.Txs, r.tx)
	}
	if !b.Time.IsZero() {
		return s.fees.closeBlock(d.fees)
	}
	return nil
}

// decide says what became of a proposal that was not a reward.
func (d *Decoder) decide(s *State, committed bool, out *ledger.Block) (*ledger.Tx, error) {
	if advance, ok := s.proposal.Unsigned.(*txs.AdvanceTimeTx); ok && committed {
		// Pre-Banff, this is what moved the time.
		to := advance.Timestamp().UTC()
		if to.Before(s.time) {
			return nil, fmt.Errorf("it moves the time from %s to %s", s.time, to)
		}
		out.Time = to
		if err := d.promote(s.stakers, to); err != nil {
			return nil, err
		}
	}
	r := reader{decoder: d, state: s, id: s.proposal.ID(), time: out.Time}
	if err := s.proposal.Unsigned.Visit(&r); err != nil {
		return nil, err
	}
	if !committed {
		abort(&r.tx)
		return &r.tx, nil
	}
	return &r.tx, d.enter(s.stakers, s.proposal, out.Time)
}

// abort turns the addition of a staker into what is left of it if the chain
// refuses: the fee is burned, and what would have been staked is free at once.
func abort(tx *ledger.Tx) {
	tx.Aborted = true
	tx.Staker = nil
	for i := range tx.Made {
		if tx.Made[i].Role == ledger.Stake {
			tx.Made[i].Role = ledger.Ordinary
		}
	}
}

func unixTime(seconds uint64) time.Time { return time.Unix(int64(seconds), 0).UTC() }
