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
	// ErrOutOfOrder means that a block is not the successor of a State.
	ErrOutOfOrder = errors.New("block out of order")
	// ErrTransaction means that this version cannot decode a transaction, or that it contradicts earlier blocks.
	ErrTransaction = errors.New("P-Chain transaction cannot be decoded")
	// ErrReward means that a node's reward outputs contradict the transactions.
	ErrReward = errors.New("reward does not fit its staking transaction")
	// ErrNotOffered is returned by a Node if no node lists the outputs of rewards. The Decoder then computes them.
	ErrNotOffered = errors.New("no node lists the outputs of rewards")
)

// Node supplies data that blocks do not contain. *node.Client implements it.
type Node interface {
	// RewardUTXOs returns the encoded UTXOs (codec form of avax.UTXO) that were created for a transaction when a
	// staking period ended, in any order; none if there was no reward. The answering node must have executed the block
	// at height.
	RewardUTXOs(ctx context.Context, txID ids.ID, height uint64) ([][]byte, error)
}

// DecoderOptions configures a Decoder. Genesis, AVAXAssetID and, unless WithoutOutputs is set, Node are required.
type DecoderOptions struct {
	// NetworkID determines the times of upgrades.
	NetworkID uint32
	// Genesis is the block at height 0, with the initial outputs.
	Genesis *ledger.Block
	// AVAXAssetID is the asset in which balances of L1 validators are returned.
	AVAXAssetID ids.ID
	// Validators are the initial validators in genesis order. Supply is the initial supply without them, in nAVAX. The
	// Decoder computes rewards from both. Without a Supply only the node knows rewards.
	Validators []*txs.Tx
	Supply     uint64
	// Node is asked once for every staking period that ends.
	Node Node
	// Disagree is called with each reward for which the node's outputs differ from the computed ones. It may be nil.
	Disagree func(*DifferenceError)
	// ValidatorFees is the fee configuration for L1 validators (ACP-77), which determines returned balances. Nil
	// selects the configuration of the network ID; private networks may differ (platform.getValidatorFeeConfig).
	ValidatorFees *fee.Config
	// Upgrades are the times of upgrades. Nil selects those of the network ID.
	Upgrades *upgrade.Config
	// WithoutOutputs omits the inputs and outputs of transactions. Rewards are then computed, and the Node is not asked.
	WithoutOutputs bool
}

// Decoder converts P-Chain blocks to the ledger's types. It is safe for concurrent use with one State per goroutine.
type Decoder struct {
	networkID   uint32
	genesis     *ledger.Block
	validators  []*txs.Tx
	supply      uint64
	node        Node
	disagree    func(*DifferenceError)
	fees        fee.Config
	rewards     platformreward.Config
	maxStake    uint64
	avaxAssetID ids.ID
	upgrades    upgrade.Config
	// withoutOutputs omits inputs and outputs other than rewards.
	withoutOutputs bool
}

// computed is a Node that knows no rewards, so that the Decoder computes them.
type computed struct{}

func (computed) RewardUTXOs(context.Context, ids.ID, uint64) ([][]byte, error) {
	return nil, ErrNotOffered
}

// NewDecoder returns a decoder. It sends no request.
func NewDecoder(o DecoderOptions) (*Decoder, error) {
	if o.WithoutOutputs {
		o.Node = computed{}
	}
	switch {
	case o.Genesis == nil || o.Genesis.Height != 0:
		return nil, errors.New("P-Chain decoder: no genesis block")
	case o.AVAXAssetID == ids.Empty:
		return nil, errors.New("P-Chain decoder: no AVAX asset ID")
	case o.Node == nil:
		return nil, errors.New("P-Chain decoder: no node for rewards")
	}
	d := &Decoder{
		networkID: o.NetworkID, genesis: o.Genesis, validators: o.Validators, supply: o.Supply,
		node: o.Node, disagree: o.Disagree, avaxAssetID: o.AVAXAssetID, upgrades: upgrade.GetConfig(o.NetworkID),
		withoutOutputs: o.WithoutOutputs,
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

// Ledger returns the effect of a block on outputs and advances the state to that block. Blocks must come in order, from
// the genesis block on. Transactions are reported with their block, proposals with the Commit or Abort that decides
// them.
//
// ErrOutOfOrder, ErrTransaction and ErrReward are final. Other errors come from the node or the context and leave the
// state unchanged; the caller may retry the block.
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
	// The only step that may be retried comes first.
	var reward *ledger.Tx
	var end *settlement
	if isOption {
		var err error
		if reward, end, err = d.reward(ctx, s, b); err != nil {
			return nil, fmt.Errorf("P-Chain block %d: %w", b.Height, err)
		}
	}
	if err := d.apply(s, b, out, reward, end); err != nil {
		return nil, fmt.Errorf("P-Chain block %d: %w: %w", b.Height, ErrTransaction, err)
	}
	s.height, s.blockID, s.time, s.headChanged = b.Height, b.ID, out.Time, true
	s.proposal = b.Proposal
	return out, nil
}

// begin applies the genesis block. The block's bytes contain only its parent ID.
func (d *Decoder) begin(s *State, b *Block) (*ledger.Block, error) {
	if b.Height != 0 || b.ID != d.genesis.ID {
		return nil, fmt.Errorf("%w: %s at height %d is not the genesis block %s of network %d",
			ErrOutOfOrder, b.ID, b.Height, d.genesis.ID, d.networkID)
	}
	s.height, s.blockID, s.time, s.headChanged = 0, b.ID, d.genesis.Time, true
	if err := d.initial(s.stakers); err != nil {
		return nil, fmt.Errorf("P-Chain block 0: %w: %w", ErrTransaction, err)
	}
	return d.genesis, nil
}

func (d *Decoder) apply(s *State, b *Block, out *ledger.Block, reward *ledger.Tx, end *settlement) error {
	if seconds := out.Time.Unix() - s.time.Unix(); seconds < 0 {
		return fmt.Errorf("its time %s is before the previous block's time %s", out.Time, s.time)
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
		r := txReader{decoder: d, state: s, id: tx.ID(), time: out.Time}
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

// decide returns the outcome of a proposal that is not a reward.
func (d *Decoder) decide(s *State, committed bool, out *ledger.Block) (*ledger.Tx, error) {
	if advance, ok := s.proposal.Unsigned.(*txs.AdvanceTimeTx); ok && committed {
		// Before Banff this transaction advanced the time.
		to := advance.Timestamp().UTC()
		if to.Before(s.time) {
			return nil, fmt.Errorf("it moves the time back from %s to %s", s.time, to)
		}
		out.Time = to
		if err := d.promote(s.stakers, to); err != nil {
			return nil, err
		}
	}
	r := txReader{decoder: d, state: s, id: s.proposal.ID(), time: out.Time}
	if err := s.proposal.Unsigned.Visit(&r); err != nil {
		return nil, err
	}
	if !committed {
		abort(&r.tx)
		return &r.tx, nil
	}
	return &r.tx, d.enter(s.stakers, s.proposal, out.Time)
}

// abort converts a rejected addition of a staker to its effect: the fee is burned, and the stake is unlocked at once.
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
