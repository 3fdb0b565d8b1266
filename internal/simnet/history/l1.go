package history

import (
	"bytes"
	"fmt"
	"math"
	"slices"

	avagenesis "github.com/ava-labs/avalanchego/genesis"
	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/set"
	"github.com/ava-labs/avalanchego/vms/platformvm/txs"
	validatorfee "github.com/ava-labs/avalanchego/vms/platformvm/validators/fee"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp/message"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp/payload"
)

// l1 is a converted subnet that a C-Chain account manages.
type l1 struct {
	id      ids.ID
	manager []byte
}

// l1Validator is a validator of an L1 (ACP-77).
type l1Validator struct {
	id    ids.ID
	l1    l1
	owner int32 // owner of the remaining balance, who may disable the validator
	nonce uint64
	// paidUntil is the value of fees at which the balance is used up; 0 while inactive.
	paidUntil uint64
}

// l1s holds subnets, L1s, and the fees of L1 validators.
type l1s struct {
	subnets    []subnet
	converted  []l1
	validators []*l1Validator

	config validatorfee.Config
	state  validatorfee.State // Current is the number of active validators
	fees   uint64             // total fees since the beginning
	time   int64
	// soonest is a lower bound of paidUntil among active validators.
	soonest uint64
}

// someL1Validators bounds the validators to draw from, someL1s the L1s.
const (
	someL1Validators = 2000
	someL1s          = 500
)

// advance accrues fees up to a time.
func (l *l1s) advance(to int64) {
	seconds := uint64(to - l.time)
	l.fees += l.state.CostOf(l.config, seconds)
	l.state = l.state.AdvanceTime(l.config.Target, seconds)
	l.time = to
	l.end(l.fees)
}

// closeBlock deactivates validators that cannot pay for another second.
func (l *l1s) closeBlock() {
	if cost := l.fees + l.state.CostOf(l.config, 1); cost > 0 {
		l.end(cost - 1)
	}
}

func (l *l1s) end(upTo uint64) {
	if l.soonest > upTo {
		return
	}
	l.soonest = math.MaxUint64
	for _, v := range l.validators {
		switch {
		case v.paidUntil == 0:
		case v.paidUntil <= upTo:
			v.paidUntil = 0
			l.state.Current--
		default:
			l.soonest = min(l.soonest, v.paidUntil)
		}
	}
}

func (l *l1s) pay(v *l1Validator, balance uint64) {
	if v.paidUntil == 0 {
		v.paidUntil = l.fees
		l.state.Current++
	}
	v.paidUntil += balance
	l.soonest = min(l.soonest, v.paidUntil)
}

// refund returns and removes the remaining balance.
func (l *l1s) refund(v *l1Validator) (left uint64) {
	if v.paidUntil == 0 {
		return 0
	}
	left = v.paidUntil - l.fees
	v.paidUntil = 0
	l.state.Current--
	return left
}

// begin starts counting fees with the network's configuration.
func (l *l1s) begin(networkID uint32, at int64) {
	l.config = avagenesis.GetTxFeeConfig(networkID).ValidatorFeeConfig
	l.state = validatorfee.State{}
	l.time = at
}

// prepaid draws a balance: mostly enough for a while, sometimes less.
func (g *Generator) prepaid() uint64 {
	return max(uint64(g.o.Span.Seconds()*g.rng.Float64()*g.rng.Float64()), 2)
}

func (g *Generator) ownerOf(who int32) message.PChainOwner {
	p := &g.purse.parties[who]
	return message.PChainOwner{Threshold: p.threshold, Addresses: p.addresses}
}

// fromManager returns an unsigned Warp message from an L1's manager.
func (g *Generator) fromManager(manager, content []byte) ([]byte, error) {
	call, err := payload.NewAddressedCall(manager, content)
	if err != nil {
		return nil, err
	}
	unsigned, err := warp.NewUnsignedMessage(g.network.id, g.network.chainIDs[C], call.Bytes())
	if err != nil {
		return nil, err
	}
	signature := &warp.BitSetSignature{Signers: set.NewBits(0, 1, 2).Bytes()}
	g.fill(signature.Signature[:])
	signed, err := warp.NewMessage(unsigned, signature)
	if err != nil {
		return nil, err
	}
	return signed.Bytes(), nil
}

func (g *Generator) convertTx(d *draft) (*txs.Tx, error) {
	all := g.l1s.subnets
	if len(all) == 0 || len(g.l1s.validators) >= someL1Validators {
		return nil, nil
	}
	i := g.rng.IntN(len(all))
	s := all[i]
	one := l1{id: s.id, manager: g.bytes(20)}
	tx := &txs.ConvertSubnetToL1Tx{Subnet: s.id, ChainID: g.network.chainIDs[C], Address: one.manager}
	var owners []int32
	for range g.between(1, 3) {
		owner := g.anyParty()
		nodeID := g.nodeID()
		v := &txs.ConvertSubnetToL1Validator{
			NodeID: nodeID[:], Weight: uint64(g.between(1, 100)), Balance: g.prepaid(), Signer: g.key(),
			RemainingBalanceOwner: g.ownerOf(owner), DeactivationOwner: g.ownerOf(owner),
		}
		d.lost += v.Balance
		at, _ := slices.BinarySearchFunc(tx.Validators, v, func(a, b *txs.ConvertSubnetToL1Validator) int { return bytes.Compare(a.NodeID, b.NodeID) })
		tx.Validators = slices.Insert(tx.Validators, at, v)
		owners = slices.Insert(owners, at, owner)
	}
	var err error
	if tx.BaseTx, _, err = d.paid(fee + d.lost); err != nil {
		return nil, err
	}
	all[i] = all[len(all)-1]
	g.l1s.subnets = all[:len(all)-1]
	tx.SubnetAuth = d.auth(s.owner)
	for i, v := range tx.Validators {
		g.enterL1(&l1Validator{id: s.id.Append(uint32(i)), l1: one, owner: owners[i]}, v.Balance)
	}
	if len(g.l1s.converted) < someL1s {
		g.l1s.converted = append(g.l1s.converted, one)
	} else {
		g.l1s.converted[g.rng.IntN(someL1s)] = one
	}
	return d.simply(tx, s.owner)
}

func (g *Generator) enterL1(v *l1Validator, balance uint64) {
	g.l1s.pay(v, balance)
	g.l1s.validators = append(g.l1s.validators, v)
}

func (g *Generator) registerTx(d *draft) (*txs.Tx, error) {
	if len(g.l1s.converted) == 0 || len(g.l1s.validators) >= someL1Validators {
		return nil, nil
	}
	one := g.l1s.converted[g.rng.IntN(len(g.l1s.converted))]
	v := &l1Validator{l1: one, owner: g.anyParty()}
	key := g.key()
	owner := g.ownerOf(v.owner)
	m, err := message.NewRegisterL1Validator(one.id, g.nodeID(), key.PublicKey, uint64(d.now())+3600, owner, owner, uint64(g.between(1, 100)))
	if err != nil {
		return nil, fmt.Errorf("a registration: %w", err)
	}
	v.id = m.ValidationID()
	signed, err := g.fromManager(one.manager, m.Bytes())
	if err != nil {
		return nil, fmt.Errorf("a registration: %w", err)
	}
	d.lost = g.prepaid()
	base, _, err := d.paid(fee + d.lost)
	if err != nil {
		return nil, err
	}
	g.enterL1(v, d.lost)
	return d.simply(&txs.RegisterL1ValidatorTx{BaseTx: base, Balance: d.lost, ProofOfPossession: key.ProofOfPossession, Message: signed})
}

// anL1Validator draws an L1 validator, or returns nil if there is none.
func (g *Generator) anL1Validator() (v *l1Validator, at int) {
	all := g.l1s.validators
	if len(all) == 0 {
		return nil, 0
	}
	at = g.rng.IntN(len(all))
	return all[at], at
}

func (g *Generator) weightTx(d *draft) (*txs.Tx, error) {
	v, at := g.anL1Validator()
	if v == nil {
		return nil, nil
	}
	weight := uint64(g.between(1, 200))
	remove := g.chance(0.5)
	if remove {
		weight = 0
	}
	m, err := message.NewL1ValidatorWeight(v.id, v.nonce, weight)
	if err != nil {
		return nil, fmt.Errorf("a change of weight: %w", err)
	}
	signed, err := g.fromManager(v.l1.manager, m.Bytes())
	if err != nil {
		return nil, fmt.Errorf("a change of weight: %w", err)
	}
	base, _, err := d.paid(fee)
	if err != nil {
		return nil, err
	}
	v.nonce += uint64(g.between(1, 2))
	if remove {
		all := g.l1s.validators
		all[at] = all[len(all)-1]
		g.l1s.validators = all[:len(all)-1]
		d.giveBack(v)
	}
	return d.simply(&txs.SetL1ValidatorWeightTx{BaseTx: base, Message: signed})
}

// giveBack adds the output of a returned balance, which the transaction does not list.
func (d *draft) giveBack(v *l1Validator) {
	left := d.g.l1s.refund(v)
	if left == 0 {
		return
	}
	d.others = append(d.others, coin{party: v.owner, amount: left, kind: Transfer})
	d.back = left
}

func (g *Generator) balanceTx(d *draft) (*txs.Tx, error) {
	v, _ := g.anL1Validator()
	if v == nil {
		return nil, nil
	}
	d.lost = g.prepaid()
	base, _, err := d.paid(fee + d.lost)
	if err != nil {
		return nil, err
	}
	g.l1s.pay(v, d.lost)
	return d.simply(&txs.IncreaseL1ValidatorBalanceTx{BaseTx: base, ValidationID: v.id, Balance: d.lost})
}

func (g *Generator) disableTx(d *draft) (*txs.Tx, error) {
	v, _ := g.anL1Validator()
	if v == nil {
		return nil, nil
	}
	base, _, err := d.paid(fee)
	if err != nil {
		return nil, err
	}
	d.giveBack(v)
	return d.simply(&txs.DisableL1ValidatorTx{BaseTx: base, ValidationID: v.id, DisableAuth: d.auth(v.owner)}, v.owner)
}
