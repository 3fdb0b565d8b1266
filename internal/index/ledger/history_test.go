package ledger_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/constants"
	"github.com/ava-labs/avalanchego/vms/components/avax"

	chain "quorate/internal/chain/ledger"
)

const network = 1337

var (
	pChain = constants.PlatformChainID
	xChain = ids.ID{'x', 1}
	cChain = ids.ID{'c', 2}
	chains = []ids.ID{pChain, xChain, cChain}
	avaxID = ids.ID{'a', 'v', 'a', 'x'}
	goldID = ids.ID{'g', 'o', 'l', 'd'}
	nodeID = ids.NodeID{7}
)

// utxo is an output in the oracle, with its whole life.
type utxo struct {
	chain.Output
	chainID ids.ID
	height  uint64
	time    uint64
	spent   *chain.Spend
	start   uint64
	ends    []end // ends of the stake, in the order in which they became known
}

type end struct{ known, at uint64 }

type historyOptions struct {
	steps int
	// skew is the maximum difference of the chains' clocks in seconds.
	skew      int
	addresses int
	// exports makes most transactions exports or imports.
	exports bool
}

// history is a random history of three chains.
type history struct {
	options   historyOptions
	rng       *rand.Rand
	addresses []ids.ShortID
	blocks    map[ids.ID][]*chain.Block
	all       []*utxo
	byID      map[ids.ID]*utxo
	// free are the spendable outputs by chain.
	free   map[ids.ID][]*utxo
	stakes []*stakeTx
	now    uint64
	ids    uint64
}

type stakeTx struct {
	txID    ids.ID
	staker  chain.Staker
	outputs []*utxo
	end     uint64
	next    uint32
	height  uint64
	time    uint64
	kind    chain.Kind
	// involved are the owners of its outputs.
	involved map[ids.ShortID]bool
	settled  bool
	// settledHeight is the height of the settlement, reward the delegator's reward.
	settledHeight      uint64
	rewarded           bool
	reward, commission uint64
	potential          uint64
}

func newHistory(seed uint64, o historyOptions) *history {
	h := &history{
		options: o, rng: rand.New(rand.NewPCG(seed, 1)), now: 1_600_000_000,
		blocks: make(map[ids.ID][]*chain.Block), byID: make(map[ids.ID]*utxo), free: make(map[ids.ID][]*utxo),
	}
	for i := range o.addresses {
		h.addresses = append(h.addresses, ids.ShortID{byte(i), byte(i >> 8), 1})
	}
	h.genesis()
	for range o.steps {
		h.step()
	}
	return h
}

func (h *history) id() (id ids.ID) {
	h.ids++
	for i := 0; i < len(id); i += 8 {
		binary.BigEndian.PutUint64(id[i:], h.rng.Uint64())
	}
	return id
}

func (h *history) genesis() {
	for _, c := range chains {
		b := h.block(c)
		if c != cChain {
			tx := chain.Tx{ID: h.id(), Kind: chain.Unknown}
			if c == xChain {
				tx.Asset = &chain.Asset{ID: avaxID, Name: "Avalanche", Symbol: "AVAX", Denomination: 9}
			}
			for range 20 {
				h.make(b, &tx, h.output(c, chain.Ordinary, 1_000_000_000+h.rng.Uint64N(1<<50)))
			}
			b.Txs = append(b.Txs, tx)
		}
	}
	// The validator of the delegations.
	b := h.block(pChain)
	tx := chain.Tx{ID: h.id(), Kind: "AddValidatorTx", Staker: &chain.Staker{
		NodeID: nodeID, Start: b.Time, End: b.Time.Add(1e6 * time.Hour), Shares: 20_000, Weight: 1,
	}}
	b.Txs = append(b.Txs, tx)
}

func (h *history) block(c ids.ID) *chain.Block {
	h.now += h.rng.Uint64N(3)
	t := h.now
	if h.options.skew > 0 {
		t += h.rng.Uint64N(uint64(h.options.skew))
	}
	if n := len(h.blocks[c]); n > 0 {
		t = max(t, uint64(h.blocks[c][n-1].Time.Unix()))
	}
	b := &chain.Block{ChainID: c, Height: uint64(len(h.blocks[c])), ID: h.id(), Time: time.Unix(int64(t), 0).UTC()}
	h.blocks[c] = append(h.blocks[c], b)
	return b
}

// crowd returns so many addresses that what they own together is stored once.
func crowd() []ids.ShortID {
	all := make([]ids.ShortID, 20)
	for i := range all {
		all[i] = ids.ShortID{byte(i), 0, 2}
	}
	return all
}

func (h *history) output(c ids.ID, role chain.Role, amount uint64) chain.Output {
	o := chain.Output{Kind: chain.Transfer, Role: role, AssetID: avaxID, Amount: amount, DestinationID: c, Threshold: 1}
	n := 1
	if h.rng.IntN(4) == 0 {
		n = 1 + h.rng.IntN(min(3, len(h.addresses)))
		o.Threshold = uint32(1 + h.rng.IntN(n))
	}
	// A few owners have most outputs.
	for _, i := range h.rng.Perm(len(h.addresses))[:n] {
		if h.rng.IntN(3) > 0 {
			i %= min(3, len(h.addresses))
		}
		if !slices.Contains(o.Addresses, h.addresses[i]) {
			o.Addresses = append(o.Addresses, h.addresses[i])
		}
	}
	o.Threshold = min(o.Threshold, uint32(len(o.Addresses)))
	many := h.rng.IntN(12) == 0
	if many {
		o.Addresses = append(o.Addresses, crowd()...)
	}
	if many || h.rng.IntN(5) > 0 {
		slices.SortFunc(o.Addresses, ids.ShortID.Compare)
	}
	if h.rng.IntN(4) == 0 {
		o.Locktime = h.now + h.rng.Uint64N(60)
	}
	if c == pChain && role != chain.Exported && h.rng.IntN(4) == 0 {
		o.StakeableLocktime = h.now + h.rng.Uint64N(60)
	}
	if c == xChain && role == chain.Ordinary {
		switch h.rng.IntN(6) {
		case 0:
			o.AssetID = goldID
		case 1:
			o.Kind, o.Amount, o.AssetID, o.GroupID, o.Payload = chain.NFTTransfer, 0, goldID, 3, []byte("picture")
		case 2:
			o.Kind, o.Amount, o.AssetID = chain.Mint, 0, goldID
		}
	}
	return o
}

func (h *history) make(b *chain.Block, tx *chain.Tx, o chain.Output) *utxo {
	if o.TxID == ids.Empty {
		o.TxID, o.Index = tx.ID, uint32(len(tx.Made))
	}
	o.ID = (&avax.UTXOID{TxID: o.TxID, OutputIndex: o.Index}).InputID()
	tx.Made = append(tx.Made, o)
	u := &utxo{Output: o, chainID: b.ChainID, height: b.Height, time: uint64(b.Time.Unix())}
	h.all = append(h.all, u)
	h.byID[o.ID] = u
	if o.Role != chain.Stake {
		h.free[o.DestinationID] = append(h.free[o.DestinationID], u)
	}
	return u
}

// spend consumes some outputs of the chain, or outputs exported to it.
func (h *history) spend(b *chain.Block, tx *chain.Tx, imports bool, most int) (amount uint64) {
	pool := h.free[b.ChainID]
	for range most {
		var could []int
		for i, u := range pool {
			if (u.chainID != b.ChainID) == imports {
				could = append(could, i)
			}
		}
		if len(could) == 0 {
			break
		}
		i := could[h.rng.IntN(len(could))]
		u := pool[i]
		pool = slices.Delete(pool, i, i+1)
		h.free[b.ChainID] = pool
		u.spent = &chain.Spend{ChainID: b.ChainID, TxID: tx.ID, Height: b.Height, Time: b.Time}
		tx.Consumed = append(tx.Consumed, chain.Input{OutputID: u.ID, SourceChainID: u.chainID, AssetID: u.AssetID, Amount: u.Amount})
		if u.Kind == chain.Transfer {
			amount += u.Amount
		}
	}
	return amount
}

func (h *history) step() {
	c := chains[h.rng.IntN(len(chains))]
	b := h.block(c)
	for range h.rng.IntN(4) {
		tx := chain.Tx{ID: h.id(), Kind: "BaseTx"}
		kind := h.rng.IntN(6)
		if h.options.exports && h.rng.IntN(4) > 0 {
			kind = 2 + h.rng.IntN(2)
		}
		switch {
		case c == pChain && kind == 0:
			h.stake(b, &tx)
		case c == pChain && kind == 1:
			if !h.settle(b, &tx) {
				continue
			}
		case kind == 2:
			// An export. Exports of the C-Chain come from accounts.
			amount := h.spend(b, &tx, false, 2)
			if c == cChain {
				amount = 1 + h.rng.Uint64N(1<<40)
			}
			tx.Kind = "ExportTx"
			h.change(b, &tx, amount/2)
			o := h.output(c, chain.Exported, amount/3)
			o.DestinationID = chains[(slices.Index(chains, c)+1+h.rng.IntN(2))%3]
			h.make(b, &tx, o)
		case kind == 3:
			tx.Kind = "ImportTx"
			amount := h.spend(b, &tx, true, 3)
			if len(tx.Consumed) == 0 {
				continue
			}
			h.change(b, &tx, amount)
		default:
			if c == cChain {
				continue
			}
			amount := h.spend(b, &tx, false, 1+h.rng.IntN(3))
			for range 1 + h.rng.IntN(3) {
				h.change(b, &tx, amount/4)
			}
		}
		b.Txs = append(b.Txs, tx)
	}
}

// change creates an ordinary output on chains that have outputs.
func (h *history) change(b *chain.Block, tx *chain.Tx, amount uint64) {
	if b.ChainID != cChain && amount > 0 {
		h.make(b, tx, h.output(b.ChainID, chain.Ordinary, amount))
	}
}

func (h *history) stake(b *chain.Block, tx *chain.Tx) {
	amount := h.spend(b, tx, false, 2)
	now := uint64(b.Time.Unix())
	s := &stakeTx{txID: tx.ID, height: b.Height, time: now, involved: make(map[ids.ShortID]bool)}
	for _, in := range tx.Consumed {
		for _, a := range h.byID[in.OutputID].Addresses {
			s.involved[a] = true
		}
	}
	start := now + h.rng.Uint64N(2)*h.rng.Uint64N(20) // sometimes later, as before Durango
	s.end = start + 1 + h.rng.Uint64N(50)
	s.staker = chain.Staker{
		SubnetID: constants.PrimaryNetworkID, NodeID: nodeID, Delegator: h.rng.IntN(2) == 0, Weight: amount / 2,
		Start: time.Unix(int64(start), 0).UTC(), End: time.Unix(int64(s.end), 0).UTC(), Shares: 20_000,
		RewardAddresses: h.addresses[:1+h.rng.IntN(2)],
	}
	if h.rng.IntN(6) == 0 {
		s.staker.RewardAddresses = append(crowd(), h.addresses[0])
	}
	s.kind = "AddDelegatorTx"
	if !s.staker.Delegator {
		s.kind = "AddValidatorTx"
		s.staker.NodeID = ids.NodeID{byte(h.rng.Uint32()), byte(h.rng.Uint32()), 9}
		s.staker.Renewing = h.rng.IntN(2) == 0
	}
	tx.Kind = s.kind
	h.change(b, tx, amount/4)
	for range 1 + h.rng.IntN(2) {
		u := h.make(b, tx, h.output(pChain, chain.Stake, amount/4+1))
		u.start, u.ends = start, []end{{now, s.end}}
		s.outputs = append(s.outputs, u)
	}
	for _, o := range tx.Made {
		for _, a := range o.Addresses {
			s.involved[a] = true
		}
	}
	s.next = uint32(len(tx.Made))
	tx.Staker = &s.staker
	h.stakes = append(h.stakes, s)
}

func (h *history) settle(b *chain.Block, tx *chain.Tx) bool {
	now := uint64(b.Time.Unix())
	i := slices.IndexFunc(h.stakes, func(s *stakeTx) bool { return !s.settled && s.end <= now && s.height < b.Height })
	if i < 0 {
		return false
	}
	s := h.stakes[i]
	tx.Kind = "RewardValidatorTx"
	tx.Settled = &chain.Settlement{StakingTxID: s.txID, Rewarded: h.rng.IntN(4) > 0}
	reward := func(role chain.Role, amount uint64) {
		o := h.output(pChain, role, amount)
		o.TxID, o.Index = s.txID, s.next
		s.next++
		h.make(b, tx, o)
	}
	if s.staker.Renewing && h.rng.IntN(2) == 0 {
		s.end = now + 1 + h.rng.Uint64N(30)
		tx.Settled.Rewarded, tx.Settled.RenewedUntil = true, time.Unix(int64(s.end), 0).UTC()
		for _, u := range s.outputs {
			u.ends = append(u.ends, end{now, s.end})
		}
		reward(chain.ValidationReward, 50)
		return true
	}
	s.settled, s.settledHeight, s.rewarded = true, b.Height, tx.Settled.Rewarded
	s.potential = 1001 * uint64(s.txID[0]%2) // unknown for half of them
	tx.Settled.PotentialReward = s.potential
	for _, u := range s.outputs {
		h.free[pChain] = append(h.free[pChain], u)
		if h.rng.IntN(2) == 0 {
			// Naming the outputs again makes no difference.
			tx.Made = append(tx.Made, u.Output)
		}
	}
	if !tx.Settled.Rewarded {
		return true
	}
	if s.staker.Delegator {
		s.reward, s.commission = 980, 20*h.rng.Uint64N(2)
		reward(chain.DelegationReward, s.reward)
		if s.commission > 0 {
			reward(chain.Commission, s.commission)
		}
	} else {
		reward(chain.ValidationReward, 70)
		reward(chain.Commission, 30)
	}
	return true
}

// progress is the number of indexed blocks by chain.
type progress map[ids.ID]uint64

func (p progress) has(c ids.ID, height uint64) bool { return height < p[c] }

func (p progress) String() string {
	return fmt.Sprintf("P %d, X %d, C %d", p[pChain], p[xChain], p[cChain])
}
