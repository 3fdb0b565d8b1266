package history

import (
	"fmt"
	"slices"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/constants"
	"github.com/ava-labs/avalanchego/vms/components/verify"
	"github.com/ava-labs/avalanchego/vms/platformvm/block"
	"github.com/ava-labs/avalanchego/vms/platformvm/txs"
	"github.com/ava-labs/avalanchego/vms/secp256k1fx"
)

// standard generates a P-Chain block of transactions.
func (g *Generator) standard(now int64) error {
	b := g.open(P, now)
	g.l1s.advance(b.Time.Unix())
	var all []*txs.Tx
	for range g.batch() {
		tx, err := g.pTx(b)
		if err != nil {
			return err
		}
		all = append(all, tx)
	}
	g.l1s.closeBlock()
	made, err := block.NewBanffStandardBlock(b.Time, b.ParentID, b.Height, all)
	if err != nil {
		return fmt.Errorf("a P-Chain block: %w", err)
	}
	g.accept(b, made.ID(), made.Bytes())
	return nil
}

// pTx generates a transaction of a random kind. It falls back to a simple transfer if the kind is not possible now.
func (g *Generator) pTx(b *Block) (*txs.Tx, error) {
	d := g.draft(b)
	if busy := g.busyShare(); busy > 0 && g.chance(busy/max(0.5, min(1.4*busy, 0.9))) {
		return g.busyTx(d)
	}
	for _, choice := range pKinds {
		if !g.chance(choice.share) {
			continue
		}
		tx, err := choice.make(g, d)
		if tx != nil || err != nil {
			return tx, err
		}
		break
	}
	return g.baseTx(g.draft(b))
}

// pKinds are the kinds of P-Chain transactions. The share is the probability of a kind if no earlier kind was chosen.
var pKinds = []struct {
	share float64
	make  func(*Generator, *draft) (*txs.Tx, error)
}{
	{0.09, (*Generator).exportTx},
	{0.10, (*Generator).importTx},
	{0.15, (*Generator).delegatorTx},
	{0.05, (*Generator).validatorTx},
	{0.01, (*Generator).renewingTx},
	{0.006, (*Generator).renewingConfigTx},
	{0.03, (*Generator).createSubnetTx},
	{0.03, (*Generator).createChainTx},
	{0.012, (*Generator).transferOwnershipTx},
	{0.02, (*Generator).addSubnetValidatorTx},
	{0.008, (*Generator).removeSubnetValidatorTx},
	{0.01, (*Generator).transformTx},
	{0.012, (*Generator).convertTx},
	{0.03, (*Generator).registerTx},
	{0.04, (*Generator).weightTx},
	{0.03, (*Generator).balanceTx},
	{0.012, (*Generator).disableTx},
}

// sign completes a transaction with a credential for each input and for each additional authorization.
func (d *draft) sign(unsigned txs.UnsignedTx, authorized ...int32) (*txs.Tx, []coin, error) {
	tx := &txs.Tx{Unsigned: unsigned}
	who := make([]int32, 0, len(d.ins)+len(d.arriving)+len(authorized))
	for _, list := range [][]coin{d.ins, d.arriving} {
		for i := range list {
			who = append(who, list[i].party)
		}
	}
	for _, one := range append(who, authorized...) {
		c := d.g.credential(d.g.purse.parties[one].threshold)
		tx.Creds = append(tx.Creds, &c)
	}
	if err := tx.Initialize(txs.Codec); err != nil {
		return nil, nil, fmt.Errorf("a %T: %w", unsigned, err)
	}
	switch unsigned.(type) {
	case *txs.ConvertSubnetToL1Tx, *txs.RegisterL1ValidatorTx, *txs.SetL1ValidatorWeightTx, *txs.IncreaseL1ValidatorBalanceTx, *txs.DisableL1ValidatorTx:
		d.block.L1 = append(d.block.L1, unsigned)
	}
	return tx, d.done(Tx{tx.ID(), tx.Bytes()}), nil
}

// simply is sign for transactions without a stake.
func (d *draft) simply(unsigned txs.UnsignedTx, authorized ...int32) (*txs.Tx, error) {
	tx, _, err := d.sign(unsigned, authorized...)
	return tx, err
}

func (d *draft) pBase() txs.BaseTx { return txs.BaseTx{BaseTx: d.base()} }

// paid returns the base of a transaction that burns the given amount.
func (d *draft) paid(burn uint64) (txs.BaseTx, int32, error) {
	who, coins, _, err := d.g.payer(P, 2*burn+10*fee, d.now())
	if err != nil {
		return txs.BaseTx{}, 0, err
	}
	d.ins = coins
	d.change(who, burn)
	return d.pBase(), who, nil
}

func (d *draft) auth(who int32) verify.Verifiable {
	return &secp256k1fx.Input{SigIndices: d.g.purse.parties[who].sigIndices()}
}

// spread distributes the inputs to several parties: a part of them, or, if the payer is rich, small amounts to many
// parties without funds.
func (d *draft) spread(who int32, rich bool) {
	g := d.g
	in, _ := d.flow()
	if rich && in > 1000*fee {
		n := g.between(8, 24)
		each := in / uint64(4*(g.o.Addresses+n))
		for range n {
			i := g.purse.first + g.purse.funded%(len(g.purse.parties)-g.purse.first)
			g.purse.funded++
			d.outs = append(d.outs, spec{party: int32(i), amount: max(g.share(each, 0.3, 1.7), 20*fee)})
		}
		return
	}
	left := in - fee
	for range min(g.between(1, 3), g.between(1, 3)) {
		amount := g.share(left/2, 0.05, 0.9)
		if amount < fee {
			break
		}
		left -= amount
		s := spec{party: g.anyParty(), amount: amount}
		ahead := uint64(d.now()) + g.share(uint64(g.o.Span.Seconds()), 0.001, 0.1)
		switch n := g.rng.IntN(100); {
		case n < 2:
			s.locktime = ahead
		case n < 4 && d.block.Chain == P:
			s.stakeable = ahead
		}
		d.outs = append(d.outs, s)
	}
}

func (g *Generator) baseTx(d *draft) (*txs.Tx, error) {
	who, coins, rich, err := g.payer(P, 30*fee, d.now())
	if err != nil {
		return nil, err
	}
	d.ins = coins
	d.spread(who, rich)
	d.change(who, fee)
	return d.simply(&txs.BaseTx{BaseTx: d.pBase().BaseTx})
}

// busyTx generates a transfer that involves the busy address.
func (g *Generator) busyTx(d *draft) (*txs.Tx, error) {
	who := g.purse.busy
	coins := []coin(nil)
	if g.chance(0.9) {
		coins = g.take(P, who, 30*fee, d.now())
	}
	if coins == nil {
		var err error
		var rich bool
		if who, coins, rich, err = g.payer(P, 30*fee, d.now()); err != nil {
			return nil, err
		}
		part := 0.5
		if rich {
			part = 0.01
		}
		d.outs = append(d.outs, spec{party: g.purse.busy, amount: g.share(total(coins), part/2, part)})
	} else {
		amount := g.share(total(coins), 0.01, 0.2)
		to := g.anyParty()
		if g.chance(0.3) { // like an exchange that keeps a reserve
			to = g.purse.busy
		}
		d.outs = append(d.outs, spec{party: to, amount: amount})
	}
	d.ins = coins
	d.change(who, fee)
	return d.simply(&txs.BaseTx{BaseTx: d.pBase().BaseTx})
}

// other draws one of the other two chains.
func (g *Generator) other(c Chain) Chain { return (c + 1 + Chain(g.rng.IntN(2))) % chains }

func (g *Generator) exportTx(d *draft) (*txs.Tx, error) {
	who, coins, _, err := g.payer(P, 60*fee, d.now())
	if err != nil {
		return nil, err
	}
	d.ins, d.to = coins, g.other(P)
	d.leave(who)
	d.change(who, fee)
	base := d.pBase()
	return d.simply(&txs.ExportTx{BaseTx: base, DestinationChain: g.network.chainIDs[d.to], ExportedOutputs: d.outputs(d.leaving)})
}

// leave exports a part of the inputs.
func (d *draft) leave(who int32) {
	in, _ := d.flow()
	in = min(in, 20_000_000_000_000) // at most 20,000 AVAX
	to := who
	if d.g.chance(0.2) {
		to = d.g.anyParty()
	}
	d.leaving = append(d.leaving, spec{party: to, amount: max(d.g.share(in/2, 0.1, 0.9), 20*fee)})
	if d.g.chance(0.15) {
		d.leaving = append(d.leaving, spec{party: to, amount: max(d.g.share(in/4, 0.1, 0.9), 20*fee)})
	}
}

func (g *Generator) importTx(d *draft) (*txs.Tx, error) {
	arriving, ok, err := g.receive(d)
	if !ok || err != nil {
		return nil, err
	}
	base := d.pBase()
	return d.simply(&txs.ImportTx{BaseTx: base, SourceChain: g.network.chainIDs[arriving], ImportedInputs: d.inputs(d.arriving)})
}

// receive imports coins. The fee is paid from them, or else by their owner.
func (g *Generator) receive(d *draft) (from Chain, ok bool, err error) {
	on := d.block.Chain
	d.arriving = g.arrival(on)
	if d.arriving == nil {
		return 0, false, nil
	}
	who := d.arriving[0].party
	if in, _ := d.flow(); in < 2*fee {
		if d.ins = g.take(on, who, 2*fee, d.now()); d.ins == nil {
			var payer int32
			if payer, d.ins, _, err = g.payer(on, 2*fee, d.now()); err != nil {
				return 0, false, err
			}
			d.change(payer, fee)
		}
	}
	for i := range d.arriving {
		if a := d.arriving[i].asset; a != avax0 {
			d.outs = append(d.outs, spec{party: who, asset: a, amount: d.arriving[i].amount})
		}
	}
	if in, out := d.flow(); in > out+fee {
		d.change(who, fee)
	}
	return d.arriving[0].source, true, nil
}

// stakeOf adds a stake with change to the transaction and returns the stake's owner.
func (d *draft) stakeOf(least uint64) (who int32, weight uint64, err error) {
	g := d.g
	who, coins, rich, err := g.payer(P, least+10*fee, d.now())
	if err != nil {
		return 0, 0, err
	}
	if locked := g.takeLocked(who, d.now()); locked != nil {
		// A locked coin stays locked and is staked as a whole.
		d.ins = append(d.ins, *locked)
		d.stake = append(d.stake, spec{party: who, amount: locked.amount, stakeable: locked.stakeable})
		weight += locked.amount
	}
	part := 0.8
	if rich {
		part = 0.0005
	}
	amount := max(g.share(total(coins), part/4, part), least)
	d.ins = append(d.ins, coins...)
	d.stake = append(d.stake, spec{party: who, amount: amount})
	d.change(who, fee)
	return who, weight + amount, nil
}

// takeLocked takes a coin of a party that may be staked but not spent.
func (g *Generator) takeLocked(who int32, now int64) *coin {
	p := &g.purse.parties[who]
	for i := range p.wallets[P] {
		if c := p.wallets[P][i]; c.asset == avax0 && c.locktime <= uint64(now) && c.stakeable > uint64(now) {
			p.wallets[P] = append(p.wallets[P][:i], p.wallets[P][i+1:]...)
			return &c
		}
	}
	return nil
}

func (g *Generator) validatorTx(d *draft) (*txs.Tx, error) {
	who, weight, err := d.stakeOf(40 * fee)
	if err != nil {
		return nil, err
	}
	s := &stint{
		nodeID: g.nodeID(), start: d.now(), end: d.now() + 2*g.period(), weight: weight, owner: who,
		shares: uint32(g.between(2, 20)) * 10_000,
	}
	key := g.key()
	base := d.pBase()
	owners := g.purse.parties[who].owners(0)
	return d.staking(s, &txs.AddPermissionlessValidatorTx{
		BaseTx: base, Validator: s.validatorOf(), Subnet: constants.PrimaryNetworkID, Signer: &key,
		StakeOuts: d.outputs(d.stake), ValidatorRewardsOwner: &owners, DelegatorRewardsOwner: &owners, DelegationShares: s.shares,
	})
}

func (s *stint) validatorOf() txs.Validator {
	return txs.Validator{NodeID: s.nodeID, Start: uint64(s.start), End: uint64(s.end), Wght: s.weight}
}

// staking completes a transaction that begins a stake.
func (d *draft) staking(s *stint, unsigned txs.UnsignedTx) (*txs.Tx, error) {
	tx, coins, err := d.sign(unsigned)
	if err != nil {
		return nil, err
	}
	if d.aborted { // the stake is unlocked at once
		for _, c := range coins {
			d.g.countBusy(d.block, c.party, &d.g.busyMade)
			d.g.truth.make(&c, d.g, d.block, P, 0)
			d.g.keep(P, c)
		}
		return tx, nil
	}
	s.txID, s.next = tx.ID(), uint32(len(d.outs)+len(d.stake))
	d.g.staked(d.block, s, coins)
	d.g.enter(d.block, s)
	return tx, nil
}

// validatorFor draws a validator with enough time left, or returns nil.
func (g *Generator) validatorFor(now int64) *stint {
	open := g.stakes.open
	for range 4 {
		if len(open) == 0 {
			return nil
		}
		if v := open[g.rng.IntN(len(open))]; v.end > now+2 {
			return v
		}
	}
	return nil
}

func (g *Generator) delegatorTx(d *draft) (*txs.Tx, error) {
	validator := g.validatorFor(d.now())
	if validator == nil {
		return nil, nil
	}
	who, weight, err := d.stakeOf(25 * fee)
	if err != nil {
		return nil, err
	}
	s := &stint{
		nodeID: validator.nodeID, start: d.now(), end: min(d.now()+g.period(), validator.end-1), weight: weight, owner: who,
		validator: validator,
	}
	base := d.pBase()
	owners := g.purse.parties[who].owners(0)
	return d.staking(s, &txs.AddPermissionlessDelegatorTx{
		BaseTx: base, Validator: s.validatorOf(), Subnet: constants.PrimaryNetworkID,
		StakeOuts: d.outputs(d.stake), DelegationRewardsOwner: &owners,
	})
}

func (g *Generator) renewingTx(d *draft) (*txs.Tx, error) {
	who, weight, err := d.stakeOf(40 * fee)
	if err != nil {
		return nil, err
	}
	period := g.period()
	s := &stint{
		nodeID: g.nodeID(), start: d.now(), end: d.now() + period, weight: weight, owner: who, shares: 20_000,
		renewing: true, period: uint64(period), compound: uint32(g.between(0, 2)) * 500_000,
	}
	key := g.key()
	base := d.pBase()
	owners := g.purse.parties[who].owners(0)
	return d.staking(s, &txs.AddAutoRenewedValidatorTx{
		BaseTx: base, ValidatorNodeID: s.nodeID[:], Signer: &key, StakeOuts: d.outputs(d.stake),
		ValidatorRewardsOwner: &owners, DelegatorRewardsOwner: &owners, ValidatorAuthority: &owners,
		DelegationShares: s.shares, AutoCompoundRewardShares: s.compound, Period: uint64(period),
	})
}

func (g *Generator) renewingConfigTx(d *draft) (*txs.Tx, error) {
	if len(g.stakes.renewing) == 0 {
		return nil, nil
	}
	s := g.stakes.renewing[g.rng.IntN(len(g.stakes.renewing))]
	base, _, err := d.paid(fee)
	if err != nil {
		return nil, err
	}
	s.period, s.compound = 0, uint32(g.between(0, 2))*500_000
	if g.chance(0.5) {
		s.period = uint64(g.period())
	}
	return d.simply(&txs.SetAutoRenewedValidatorConfigTx{
		BaseTx: base, TxID: s.txID, Auth: d.auth(s.owner), AutoCompoundRewardShares: s.compound, Period: s.period,
	}, s.owner)
}

// subnet is a subnet that is not converted.
type subnet struct {
	id    ids.ID
	owner int32
	nodes []member // its permissioned validators
}

// member is a permissioned validator of a subnet until end, a Unix time.
type member struct {
	nodeID ids.NodeID
	end    int64
}

// members returns the current validators.
func (s *subnet) members(now int64) []member {
	s.nodes = slices.DeleteFunc(s.nodes, func(m member) bool { return m.end <= now })
	return s.nodes
}

// someSubnets bounds the subnets to draw from.
const someSubnets = 1000

func (g *Generator) createSubnetTx(d *draft) (*txs.Tx, error) {
	base, who, err := d.paid(10 * fee)
	if err != nil {
		return nil, err
	}
	owners := g.purse.parties[who].owners(0)
	tx, err := d.simply(&txs.CreateSubnetTx{BaseTx: base, Owner: &owners})
	if err != nil {
		return nil, err
	}
	one := subnet{id: tx.ID(), owner: who}
	if all := g.l1s.subnets; len(all) < someSubnets {
		g.l1s.subnets = append(g.l1s.subnets, one)
	} else {
		all[g.rng.IntN(len(all))] = one
	}
	return tx, nil
}

// aSubnet draws an unconverted subnet, or returns nil if there is none.
func (g *Generator) aSubnet() *subnet {
	all := g.l1s.subnets
	if len(all) == 0 {
		return nil
	}
	return &all[g.rng.IntN(len(all))]
}

func (g *Generator) createChainTx(d *draft) (*txs.Tx, error) {
	s := g.aSubnet()
	if s == nil {
		return nil, nil
	}
	base, _, err := d.paid(10 * fee)
	if err != nil {
		return nil, err
	}
	id := g.id()
	return d.simply(&txs.CreateChainTx{
		BaseTx: base, SubnetID: s.id, ChainName: fmt.Sprintf("chain %x", id[:4]), VMID: g.id(), FxIDs: []ids.ID{},
		GenesisData: g.bytes(g.between(20, 400)), SubnetAuth: d.auth(s.owner),
	}, s.owner)
}

func (g *Generator) transferOwnershipTx(d *draft) (*txs.Tx, error) {
	s := g.aSubnet()
	if s == nil {
		return nil, nil
	}
	base, _, err := d.paid(fee)
	if err != nil {
		return nil, err
	}
	was := s.owner
	s.owner = g.anyParty()
	owners := g.purse.parties[s.owner].owners(0)
	return d.simply(&txs.TransferSubnetOwnershipTx{BaseTx: base, Subnet: s.id, SubnetAuth: d.auth(was), Owner: &owners}, was)
}

func (g *Generator) addSubnetValidatorTx(d *draft) (*txs.Tx, error) {
	s, v := g.aSubnet(), g.validatorFor(d.now())
	if s == nil || v == nil || slices.ContainsFunc(s.members(d.now()), func(m member) bool { return m.nodeID == v.nodeID }) {
		return nil, nil
	}
	base, _, err := d.paid(fee)
	if err != nil {
		return nil, err
	}
	end := min(d.now()+g.period(), v.end)
	if !d.aborted {
		s.nodes = append(s.nodes, member{v.nodeID, end})
	}
	return d.simply(&txs.AddSubnetValidatorTx{
		BaseTx: base, SubnetAuth: d.auth(s.owner),
		SubnetValidator: txs.SubnetValidator{
			Validator: txs.Validator{NodeID: v.nodeID, Start: uint64(d.now()), End: uint64(end), Wght: uint64(g.between(1, 1000))},
			Subnet:    s.id,
		},
	}, s.owner)
}

func (g *Generator) removeSubnetValidatorTx(d *draft) (*txs.Tx, error) {
	s := g.aSubnet()
	if s == nil || len(s.members(d.now())) == 0 {
		return nil, nil
	}
	base, _, err := d.paid(fee)
	if err != nil {
		return nil, err
	}
	last := s.nodes[len(s.nodes)-1]
	s.nodes = s.nodes[:len(s.nodes)-1]
	return d.simply(&txs.RemoveSubnetValidatorTx{BaseTx: base, NodeID: last.nodeID, Subnet: s.id, SubnetAuth: d.auth(s.owner)}, s.owner)
}

// transformTx converts a subnet to an elastic subnet, which any node may validate by staking an asset. The transaction
// locks the asset's reserve for rewards.
func (g *Generator) transformTx(d *draft) (*txs.Tx, error) {
	s, pool := g.aSubnet(), g.onX.abroad
	if s == nil || len(pool) == 0 {
		return nil, nil
	}
	one := pool[len(pool)-1]
	who, coins, _, err := g.payer(P, 10*fee, d.now())
	if err != nil {
		return nil, err
	}
	g.onX.abroad = pool[:len(pool)-1]
	coins = append(coins, one)
	d.ins = coins
	d.change(who, fee)
	base := d.pBase()
	return d.simply(&txs.TransformSubnetTx{
		BaseTx: base, Subnet: s.id, AssetID: g.assets[one.asset].id,
		InitialSupply: one.amount, MaximumSupply: 2 * one.amount, MinConsumptionRate: 1000, MaxConsumptionRate: 1000,
		MinValidatorStake: 1, MaxValidatorStake: one.amount, MinStakeDuration: 1, MaxStakeDuration: 365 * 24 * 60 * 60,
		MinDelegationFee: 10_000, MinDelegatorStake: 1, MaxValidatorWeightFactor: 5, UptimeRequirement: 800_000,
		SubnetAuth: d.auth(s.owner),
	}, s.owner)
}
