package history

import (
	"cmp"
	"container/heap"
	"fmt"
	"slices"
	"time"

	avagenesis "github.com/ava-labs/avalanchego/genesis"
	"github.com/ava-labs/avalanchego/upgrade"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/crypto/bls/signer/localsigner"
	"github.com/ava-labs/avalanchego/vms/components/avax"
	"github.com/ava-labs/avalanchego/vms/platformvm/block"
	"github.com/ava-labs/avalanchego/vms/platformvm/reward"
	"github.com/ava-labs/avalanchego/vms/platformvm/signer"
	"github.com/ava-labs/avalanchego/vms/platformvm/txs"
	"github.com/ava-labs/avalanchego/vms/secp256k1fx"
)

// stint is a current validation or delegation period of the primary network.
type stint struct {
	txID       ids.ID
	nodeID     ids.NodeID
	start, end int64
	weight     uint64
	reward     uint64 // paid at the end, before commission
	shares     uint32 // commission in millionths; validators only
	owner      int32  // reward owner
	coins      []coin // unlocked at the end
	next       uint32 // index of the first output at the end

	// validator is the validator of a delegation, nil for validators. commission is what a validator has earned from
	// delegators.
	validator  *stint
	commission uint64
	delegators int // number of current delegators

	// renewing validators start a new period at the end (ACP-236).
	renewing bool
	period   uint64 // length of the next period in seconds; 0 ends the validation
	compound uint32 // restaked part of rewards in millionths
	accrued  uint64 // restaked total
}

// stakes is a heap of the current stakes, ordered by end.
type stakes struct {
	all []*stint // a heap
	// supply is the AVAX supply including potential rewards, in nAVAX.
	supply uint64
	// open are validators that accept delegations. renewing are auto-renewed validators.
	open, renewing []*stint
	// keys are BLS keys that validators share.
	keys []signer.ProofOfPossession
}

// sharedKeys is the number of BLS keys. Creating a key takes a millisecond. On a real network no two current validators
// share a key.
const sharedKeys = 32

func (s *stakes) init(seed uint64) error {
	for i := range uint64(sharedKeys) {
		secret := draw(seed, "bls", i)
		secret[0] &= 0x3f // below the order of the group
		key, err := localsigner.FromBytes(secret[:])
		if err != nil {
			return fmt.Errorf("making BLS keys: %w", err)
		}
		proof, err := signer.NewProofOfPossession(key)
		if err != nil {
			return fmt.Errorf("making BLS keys: %w", err)
		}
		s.keys = append(s.keys, *proof)
	}
	return nil
}

// key draws a shared key. It copies the encoded bytes, because verification requires keys parsed from bytes.
func (g *Generator) key() signer.ProofOfPossession {
	shared := &g.stakes.keys[g.rng.IntN(len(g.stakes.keys))]
	return signer.ProofOfPossession{PublicKey: shared.PublicKey, ProofOfPossession: shared.ProofOfPossession}
}

func (s *stakes) Len() int { return len(s.all) }

// Less orders like a node: delegators leave before validators with the same end.
func (s *stakes) Less(i, j int) bool {
	a, b := s.all[i], s.all[j]
	if a.end == b.end && (a.validator == nil) != (b.validator == nil) {
		return a.validator != nil
	}
	return cmp.Or(cmp.Compare(a.end, b.end), a.txID.Compare(b.txID)) < 0
}
func (s *stakes) Swap(i, j int) { s.all[i], s.all[j] = s.all[j], s.all[i] }
func (s *stakes) Push(x any)    { s.all = append(s.all, x.(*stint)) }
func (s *stakes) Pop() any {
	last := s.all[len(s.all)-1]
	s.all = s.all[:len(s.all)-1]
	return last
}

// openValidators bounds the validators to draw delegations from.
const openValidators = 2000

// enter begins a stake with a block.
func (g *Generator) enter(b *Block, s *stint) {
	config := avagenesis.GetStakingConfig(g.network.id).RewardConfig
	start := time.Unix(s.start, 0)
	s.reward = reward.NewPrimaryNetworkCalculator(config, upgrade.GetConfig(g.network.id)).
		Calculate(start, time.Unix(s.end, 0).Sub(start), s.weight, g.stakes.supply)
	g.stakes.supply += s.reward
	heap.Push(&g.stakes, s)
	b.Began = append(b.Began, s.stake())
	switch {
	case s.validator != nil:
		s.validator.delegators++
	case s.renewing:
		g.stakes.renewing = append(g.stakes.renewing, s)
	case len(g.stakes.open) < openValidators:
		g.stakes.open = append(g.stakes.open, s)
	}
}

func (s *stint) stake() Stake {
	return Stake{
		TxID: s.txID, NodeID: s.nodeID, Delegator: s.validator != nil, Weight: s.weight, PotentialReward: s.reward,
		Start: time.Unix(s.start, 0).UTC(), End: time.Unix(s.end, 0).UTC(),
	}
}

// period draws the length of a stake in seconds.
func (g *Generator) period() int64 {
	span := g.o.Span.Seconds()
	return max(int64(span*(0.02+0.3*g.rng.Float64())), 2)
}

// staked assigns the coins of a stake.
func (g *Generator) staked(b *Block, s *stint, coins []coin) {
	s.coins = coins
	for i := range coins {
		g.truth.make(&coins[i], g, b, P, s.end)
		g.countBusy(b, coins[i].party, &g.busyMade)
	}
}

// settleUntil ends the stakes that are due, each with a proposal and the block that decides it.
func (g *Generator) settleUntil(now int64) error {
	for g.stakes.Len() > 0 && g.stakes.all[0].end <= now {
		if err := g.settle(); err != nil {
			return err
		}
	}
	return nil
}

// settle ends the stake with the earliest end.
func (g *Generator) settle() error {
	s := heap.Pop(&g.stakes).(*stint)
	unsigned := txs.UnsignedTx(&txs.RewardValidatorTx{TxID: s.txID})
	if s.renewing {
		unsigned = &txs.RewardAutoRenewedValidatorTx{TxID: s.txID, Timestamp: uint64(s.end)}
	}
	tx := &txs.Tx{Unsigned: unsigned}
	if err := tx.Initialize(txs.Codec); err != nil {
		return fmt.Errorf("a reward: %w", err)
	}
	proposal, banff := g.open(P, s.end), g.legacy.left == 0
	commit := g.chance(0.94)
	var made block.Block
	var err error
	if banff {
		g.l1s.advance(proposal.Time.Unix())
		var beside []*txs.Tx
		if g.chance(0.1) { // other transactions take effect with the proposal
			one, err := g.baseTx(g.draft(proposal))
			if err != nil {
				return err
			}
			beside = append(beside, one)
		}
		g.l1s.closeBlock()
		made, err = block.NewBanffProposalBlock(proposal.Time, proposal.ParentID, proposal.Height, tx, beside)
	} else {
		made, err = block.NewApricotProposalBlock(proposal.ParentID, proposal.Height, tx)
	}
	if err != nil {
		return fmt.Errorf("a proposal: %w", err)
	}
	proposal.Txs = append(proposal.Txs, Tx{tx.ID(), tx.Bytes()})
	g.accept(proposal, made.ID(), made.Bytes())
	option := g.open(P, s.end)
	if err := g.pay(option, s, tx.ID(), commit); err != nil {
		return err
	}
	return g.decide(option, commit, banff)
}

// decide accepts the block that decides a proposal.
func (g *Generator) decide(b *Block, commit, banff bool) error {
	b.envelope = optionEnvelope
	var made block.Block
	var err error
	switch {
	case banff && commit:
		made, err = block.NewBanffCommitBlock(b.Time, b.ParentID, b.Height)
	case banff:
		made, err = block.NewBanffAbortBlock(b.Time, b.ParentID, b.Height)
	case commit:
		made, err = block.NewApricotCommitBlock(b.ParentID, b.Height)
	default:
		made, err = block.NewApricotAbortBlock(b.ParentID, b.Height)
	}
	if err != nil {
		return fmt.Errorf("an option: %w", err)
	}
	g.accept(b, made.ID(), made.Bytes())
	return nil
}

// pay ends a period: it unlocks the stake and creates rewards.
func (g *Generator) pay(b *Block, s *stint, rewardID ids.ID, commit bool) error {
	from, at := s.txID, s.next
	var own, commission uint64
	leaves := true
	switch {
	case s.validator != nil:
		s.validator.delegators--
		if commit {
			var earned uint64
			earned, own = reward.Split(s.reward, s.validator.shares)
			s.validator.commission += earned
		}
	case s.renewing:
		from, at = rewardID, 0
		if own = s.accrued; commit {
			if leaves = s.period == 0; leaves {
				own += s.reward
			} else {
				stays, _ := reward.Split(s.reward, s.compound)
				stays = min(stays, avagenesis.GetStakingConfig(g.network.id).MaxValidatorStake-s.weight)
				own, s.accrued, s.weight = s.reward-stays, s.accrued+stays, s.weight+stays
			}
		}
	default:
		commission = s.commission
		if commit {
			own = s.reward
		}
	}
	if !commit {
		g.stakes.supply -= s.reward
	}
	b.Ended = append(b.Ended, s.txID)
	var raw [][]byte
	for _, amount := range []uint64{own, commission} {
		if amount == 0 {
			continue
		}
		c := coin{tx: from, index: at, amount: amount, party: s.owner, kind: Transfer, source: P}
		at++
		utxo, err := g.utxo(&c)
		if err != nil {
			return err
		}
		raw = append(raw, utxo)
		g.purse.sums.Minted += amount
		g.countBusy(b, c.party, &g.busyMade)
		g.truth.make(&c, g, b, P, 0)
		g.keep(P, c)
	}
	if len(raw) > 0 {
		b.Rewarded = append(b.Rewarded, Reward{TxID: from, UTXOs: raw})
	}
	if !leaves {
		s.start, s.end = s.end, s.end+int64(s.period)
		g.truth.restake(s.coins, s.end)
		g.stakes.renewing = slices.DeleteFunc(g.stakes.renewing, func(o *stint) bool { return o == s })
		g.enter(b, s)
		return nil
	}
	for _, c := range s.coins {
		g.keep(P, c)
	}
	if s.validator == nil {
		gone := func(o *stint) bool { return o == s }
		g.stakes.open = slices.DeleteFunc(g.stakes.open, gone)
		g.stakes.renewing = slices.DeleteFunc(g.stakes.renewing, gone)
	}
	return nil
}

// utxo encodes an AVAX coin like the P-Chain.
func (g *Generator) utxo(c *coin) ([]byte, error) {
	b, err := txs.GenesisCodec.Marshal(txs.CodecVersion, &avax.UTXO{
		UTXOID: c.utxoID(), Asset: avax.Asset{ID: g.assets[c.asset].id},
		Out: &secp256k1fx.TransferOutput{Amt: c.amount, OutputOwners: g.purse.parties[c.party].owners(c.locktime)},
	})
	if err != nil {
		return nil, fmt.Errorf("encoding the output of a reward: %w", err)
	}
	return b, nil
}
