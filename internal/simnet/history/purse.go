package history

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/vms/components/avax"
	"github.com/ava-labs/avalanchego/vms/components/verify"
	"github.com/ava-labs/avalanchego/vms/platformvm/stakeable"
	"github.com/ava-labs/avalanchego/vms/secp256k1fx"
)

// fee is the amount that ordinary transactions burn, in nAVAX.
const fee = 1_000_000

// avax0 is the index of AVAX in the assets.
const avax0 = 0

// coin is a spendable output.
type coin struct {
	tx    ids.ID
	index uint32
	// asset and party are indexes.
	asset, party int32
	// amount is 0 for kinds without an amount.
	amount uint64
	// locktime and stakeable are Unix times, 0 for none.
	locktime, stakeable uint64
	kind                OutputKind
	group               uint32 // NFTs only
	payload             []byte // NFTs only
	source              Chain  // the chain that created it
}

func (c *coin) utxoID() avax.UTXOID { return avax.UTXOID{TxID: c.tx, OutputIndex: c.index} }

// party owns coins. It is one address, or several with a threshold.
type party struct {
	threshold uint32
	addresses []ids.ShortID // sorted
	// room bounds the size of each wallet.
	room    int
	wallets [2][]coin // P and X
}

func (p *party) owners(locktime uint64) secp256k1fx.OutputOwners {
	return secp256k1fx.OutputOwners{Locktime: locktime, Threshold: p.threshold, Addrs: p.addresses}
}

func (p *party) sigIndices() []uint32 {
	indices := make([]uint32, p.threshold)
	for i := range indices {
		indices[i] = uint32(i)
	}
	return indices
}

// purse holds all parties, and the coins between chains.
type purse struct {
	// parties are the genesis owners, then from first on the single addresses by popularity, then the groups, and last
	// the busy address.
	parties []party
	known   map[ids.ShortID]int32 // genesis owners
	first   int
	busy    int32
	groups  int // number of groups before the busy address
	// funded is the number of parties that genesis owners have funded so far.
	funded int
	// between are the coins on their way to a chain.
	between [chains][]coin
	sums    Sums
}

// Sums are the AVAX totals since genesis, in nAVAX. The unspent amount is Genesis + Minted + FromAccounts + Returned -
// Burned - ToAccounts - Prepaid.
type Sums struct {
	// Genesis is the initial amount on the P- and X-Chain, including stakes.
	Genesis uint64
	// Minted are rewards. Burned are fees.
	Minted, Burned uint64
	// FromAccounts and ToAccounts are transfers out of and into C-Chain accounts.
	FromAccounts, ToAccounts uint64
	// Prepaid are balances of L1 validators. Returned is their unused part.
	Prepaid, Returned uint64
}

// Unspent returns the sum of all unconsumed outputs, including stakes and exported outputs.
func (s Sums) Unspent() uint64 {
	return s.Genesis + s.Minted + s.FromAccounts + s.Returned - s.Burned - s.ToAccounts - s.Prepaid
}

const (
	// roomy and small are the capacities of wallets.
	roomy, small = 64, 12
	// onTheWay bounds the coins between chains for each destination.
	onTheWay = 2048
)

// populate creates all parties except the genesis owners.
func (g *Generator) populate() {
	p := &g.purse
	p.first = len(p.parties)
	for i := range g.o.Addresses {
		d := draw(g.o.Seed, "address", uint64(i))
		p.parties = append(p.parties, party{threshold: 1, addresses: []ids.ShortID{ids.ShortID(d[:ids.ShortIDLen])}, room: small})
	}
	p.groups = max(g.o.Addresses/40, 4)
	for range p.groups {
		set := make(map[ids.ShortID]bool)
		n := g.between(2, 4)
		one := party{room: small}
		for len(one.addresses) < n {
			a := p.parties[p.first+g.rng.IntN(g.o.Addresses)].addresses[0]
			if !set[a] {
				set[a] = true
				one.addresses = append(one.addresses, a)
			}
		}
		slices.SortFunc(one.addresses, ids.ShortID.Compare)
		one.threshold = uint32(g.between(1, n))
		p.parties = append(p.parties, one)
	}
	d := draw(g.o.Seed, "busy", 0)
	p.busy = int32(len(p.parties))
	p.parties = append(p.parties, party{threshold: 1, addresses: []ids.ShortID{ids.ShortID(d[:ids.ShortIDLen])}, room: roomy})
}

// genesisParty returns the party of genesis owners.
func (g *Generator) genesisParty(o *secp256k1fx.OutputOwners) int32 {
	p := &g.purse
	if p.known == nil {
		p.known = make(map[ids.ShortID]int32)
	}
	if len(o.Addrs) == 1 && o.Threshold == 1 {
		if i, ok := p.known[o.Addrs[0]]; ok {
			return i
		}
		p.known[o.Addrs[0]] = int32(len(p.parties))
	}
	p.parties = append(p.parties, party{threshold: o.Threshold, addresses: o.Addrs, room: roomy})
	return int32(len(p.parties) - 1)
}

// anyParty draws a party.
func (g *Generator) anyParty() int32 {
	if g.chance(0.04) {
		return int32(g.purse.first + g.o.Addresses + g.rng.IntN(g.purse.groups))
	}
	return g.anAddress()
}

// anAddress draws a party with one address.
func (g *Generator) anAddress() int32 { return int32(g.purse.first) + int32(g.zipf.Uint64()) }

// keep puts a coin into its owner's wallet. If the wallet is full, it drops the smallest coin, which then remains
// unspent.
func (g *Generator) keep(c Chain, one coin) {
	p := &g.purse.parties[one.party]
	w := p.wallets[c]
	if len(w) < p.room {
		p.wallets[c] = append(w, one)
		return
	}
	least := 0
	for i := range w {
		if w[i].amount < w[least].amount {
			least = i
		}
	}
	if w[least].amount < one.amount {
		w[least] = one
	}
}

// take removes spendable AVAX coins worth at least need from a party's wallet. It returns nil if the wallet has less.
func (g *Generator) take(c Chain, who int32, need uint64, now int64) []coin {
	p := &g.purse.parties[who]
	w := p.wallets[c]
	var sum uint64
	for i := range w {
		if free(&w[i], now) {
			sum += w[i].amount
		}
	}
	if sum < need || len(w) == 0 {
		return nil
	}
	most := 1
	if len(w) > p.room/2 {
		most = 4 // combine small coins
	}
	var taken []coin
	sum = 0
	for i := g.rng.IntN(len(w)); len(w) > 0 && (sum < need || len(taken) < most); {
		// Search from a random position, wrapping around.
		found := false
		for range w {
			i %= len(w)
			if free(&w[i], now) {
				found = true
				break
			}
			i++
		}
		if !found {
			break
		}
		sum += w[i].amount
		taken = append(taken, w[i])
		w = slices.Delete(w, i, i+1)
	}
	p.wallets[c] = w
	return taken
}

func free(one *coin, now int64) bool {
	return one.asset == avax0 && one.kind == Transfer && one.locktime <= uint64(now) && one.stakeable <= uint64(now)
}

// payer draws a party that can pay and takes its coins. rich reports that the party is a genesis owner.
func (g *Generator) payer(c Chain, need uint64, now int64) (who int32, taken []coin, rich bool, err error) {
	for range 8 {
		who = g.anyParty()
		if taken = g.take(c, who, need, now); taken != nil {
			return who, taken, false, nil
		}
	}
	for i := range g.purse.first {
		if taken = g.take(c, int32(i), need, now); taken != nil {
			return int32(i), taken, true, nil
		}
	}
	for i := g.purse.first; i < len(g.purse.parties); i++ {
		if taken = g.take(c, int32(i), need, now); taken != nil {
			return int32(i), taken, false, nil
		}
	}
	return 0, nil, false, errPoor
}

func total(coins []coin) (sum uint64) {
	for i := range coins {
		sum += coins[i].amount
	}
	return sum
}

// spec is an output to create.
type spec struct {
	party, asset        int32
	amount              uint64
	locktime, stakeable uint64
}

// draft is a transaction under construction. Its lists are in the transaction's final order.
type draft struct {
	g     *Generator
	block *Block
	// ins are coins of the same chain, arriving coins from another chain.
	ins, arriving []coin
	// outs, stake and leaving are the outputs. to is the destination of leaving.
	outs, stake, leaving []spec
	to                   Chain
	// others are outputs after outs that are not transfers.
	others []coin
	// lost is AVAX that goes into a balance or an account. gained is AVAX from accounts. back is the returned balance
	// of an L1 validator, one of others.
	lost, gained, back uint64
	// memo is for transactions before Durango. aborted reports that the chain will reject the proposal.
	memo    []byte
	aborted bool
}

func (g *Generator) draft(b *Block) *draft { return &draft{g: g, block: b} }

func (d *draft) now() int64 { return d.block.Time.Unix() }

// sorted sorts outputs by asset and bytes, as chains require.
func (d *draft) sorted(specs []spec) []spec {
	slices.SortFunc(specs, func(a, b spec) int {
		assets := d.g.assets
		p, q := &d.g.purse.parties[a.party], &d.g.purse.parties[b.party]
		return cmp.Or(
			assets[a.asset].id.Compare(assets[b.asset].id),
			cmp.Compare(a.stakeable, b.stakeable), // outputs without a lock have the smaller type ID
			cmp.Compare(a.amount, b.amount), cmp.Compare(a.locktime, b.locktime),
			cmp.Compare(p.threshold, q.threshold), cmp.Compare(len(p.addresses), len(q.addresses)),
			slices.CompareFunc(p.addresses, q.addresses, ids.ShortID.Compare),
		)
	})
	return specs
}

// outputs converts specs to sorted library types.
func (d *draft) outputs(specs []spec) []*avax.TransferableOutput {
	outs := make([]*avax.TransferableOutput, len(specs))
	for i, s := range d.sorted(specs) {
		var out verify.State = &secp256k1fx.TransferOutput{Amt: s.amount, OutputOwners: d.g.purse.parties[s.party].owners(s.locktime)}
		if s.stakeable > 0 {
			out = &stakeable.LockOut{Locktime: s.stakeable, TransferableOut: out.(avax.TransferableOut)}
		}
		outs[i] = &avax.TransferableOutput{Asset: avax.Asset{ID: d.g.assets[s.asset].id}, Out: out.(avax.TransferableOut)}
	}
	return outs
}

// inputs converts coins to sorted library types.
func (d *draft) inputs(coins []coin) []*avax.TransferableInput {
	slices.SortFunc(coins, func(a, b coin) int {
		return cmp.Or(bytes.Compare(a.tx[:], b.tx[:]), cmp.Compare(a.index, b.index))
	})
	ins := make([]*avax.TransferableInput, len(coins))
	for i := range coins {
		c := &coins[i]
		var in avax.TransferableIn = &secp256k1fx.TransferInput{
			Amt: c.amount, Input: secp256k1fx.Input{SigIndices: d.g.purse.parties[c.party].sigIndices()},
		}
		if c.stakeable > uint64(d.now()) {
			in = &stakeable.LockIn{Locktime: c.stakeable, TransferableIn: in}
		}
		ins[i] = &avax.TransferableInput{UTXOID: c.utxoID(), Asset: avax.Asset{ID: d.g.assets[c.asset].id}, In: in}
	}
	return ins
}

// credential returns random signatures.
func (g *Generator) credential(signatures uint32) secp256k1fx.Credential {
	c := secp256k1fx.Credential{Sigs: make([][65]byte, signatures)}
	for i := range c.Sigs {
		g.fill(c.Sigs[i][:])
	}
	return c
}

func (d *draft) base() avax.BaseTx {
	return avax.BaseTx{
		NetworkID: d.g.network.id, BlockchainID: d.g.network.chainIDs[d.block.Chain],
		Outs: d.outputs(d.outs), Ins: d.inputs(d.ins), Memo: d.memo,
	}
}

// change adds an output for the rest of the AVAX after a fee, unless the rest is tiny.
func (d *draft) change(to int32, burn uint64) {
	in, out := d.flow()
	if in > out+burn+1000 {
		d.outs = append(d.outs, spec{party: to, amount: in - out - burn})
	}
}

// flow returns the sums of AVAX inputs and outputs.
func (d *draft) flow() (in, out uint64) {
	for _, list := range [][]coin{d.ins, d.arriving} {
		for i := range list {
			if list[i].asset == avax0 {
				in += list[i].amount
			}
		}
	}
	for _, list := range [][]spec{d.outs, d.stake, d.leaving} {
		for i := range list {
			if list[i].asset == avax0 {
				out += list[i].amount
			}
		}
	}
	return in + d.gained, out + d.lost
}

// done applies a completed transaction and returns the staked coins.
func (d *draft) done(tx Tx) (staked []coin) {
	g, b := d.g, d.block
	b.Txs = append(b.Txs, tx)
	for _, list := range [][]coin{d.ins, d.arriving} {
		for i := range list {
			g.countBusy(b, list[i].party, &g.busySpent)
			g.truth.spend(&list[i], g, b, tx.ID)
		}
	}
	d.sum()
	index := uint32(0)
	coinOf := func(s spec) coin {
		c := coin{
			tx: tx.ID, index: index, asset: s.asset, party: s.party, amount: s.amount,
			locktime: s.locktime, stakeable: s.stakeable, kind: Transfer, source: b.Chain,
		}
		index++
		return c
	}
	for _, s := range d.outs {
		c := coinOf(s)
		g.countBusy(b, c.party, &g.busyMade)
		g.truth.make(&c, g, b, b.Chain, 0)
		g.store(b.Chain, c)
	}
	for _, c := range d.others {
		c.tx, c.index, c.source = tx.ID, index, b.Chain
		index++
		g.truth.make(&c, g, b, b.Chain, 0)
		g.store(b.Chain, c)
	}
	for _, s := range d.stake {
		staked = append(staked, coinOf(s))
	}
	for _, s := range d.leaving {
		c := coinOf(s)
		g.truth.make(&c, g, b, d.to, 0)
		if w := g.purse.between[d.to]; len(w) < onTheWay {
			g.purse.between[d.to] = append(w, c)
		}
	}
	return staked
}

// sum updates the AVAX totals.
func (d *draft) sum() {
	in, out := d.flow()
	s := &d.g.purse.sums
	s.Burned += in - out
	s.Returned += d.back
	s.FromAccounts += d.gained
	if d.block.Chain == C {
		s.ToAccounts += d.lost
	} else {
		s.Prepaid += d.lost
	}
}

// store puts a new coin where it can be drawn from.
func (g *Generator) store(c Chain, one coin) {
	if one.asset == avax0 && one.kind == Transfer {
		g.keep(c, one)
		return
	}
	g.onX.store(g, c, one)
}

// countBusy counts a change of the busy address's balance.
func (g *Generator) countBusy(b *Block, who int32, last *uint64) {
	if who == g.purse.busy && b.Chain == P && *last != b.Height {
		*last = b.Height
		g.busyEvents++
	}
}

// arrival draws coins on their way to a chain with one owner and one source chain, or returns nil if there are none.
func (g *Generator) arrival(to Chain) []coin {
	w := g.purse.between[to]
	if len(w) == 0 {
		return nil
	}
	first := w[g.rng.IntN(len(w))]
	var taken []coin
	kept := w[:0]
	for _, c := range w {
		if len(taken) < 4 && c.party == first.party && c.source == first.source {
			taken = append(taken, c)
		} else {
			kept = append(kept, c)
		}
	}
	g.purse.between[to] = kept
	return taken
}
