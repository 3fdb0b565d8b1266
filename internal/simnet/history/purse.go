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

// fee is what ordinary transactions burn, in nAVAX.
const fee = 1_000_000

// avax0 is the place of AVAX among the assets.
const avax0 = 0

// coin is an output that can be spent.
type coin struct {
	tx    ids.ID
	index uint32
	// asset and party are places in lists.
	asset, party int32
	// amount is 0 for what is no amount.
	amount uint64
	// locktime and stakeable are Unix times, 0 for none.
	locktime, stakeable uint64
	kind                OutputKind
	group               uint32 // of NFTs
	payload             []byte // of NFTs
	source              Chain  // that it was made on
}

func (c *coin) utxoID() avax.UTXOID { return avax.UTXOID{TxID: c.tx, OutputIndex: c.index} }

// party owns coins: an address, or several of which it takes some.
type party struct {
	threshold uint32
	addresses []ids.ShortID // sorted
	// room bounds each of the wallets.
	room    int
	wallets [2][]coin // on P and on X
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

// purse is everybody, and what is on its way between chains.
type purse struct {
	// parties are those of the genesis, then, from first on, single addresses by how
	// popular they are, then groups, and the busy one.
	parties []party
	known   map[ids.ShortID]int32 // of the genesis
	first   int
	busy    int32
	groups  int // how many groups there are, before the busy one
	// funded is how many parties, in their order, the genesis' owners gave something.
	funded int
	// between are coins on their way to a chain.
	between [chains][]coin
	sums    Sums
}

// Sums are what became of all AVAX since the beginning, in nAVAX. What is unspent is
// Genesis + Minted + FromAccounts + Returned - Burned - ToAccounts - Prepaid.
type Sums struct {
	// Genesis is what there was on the P- and the X-Chain, stakes included.
	Genesis uint64
	// Minted are rewards, Burned fees.
	Minted, Burned uint64
	// FromAccounts and ToAccounts crossed the border of the C-Chain's accounts.
	FromAccounts, ToAccounts uint64
	// Prepaid is for L1 validators, Returned what they did not use.
	Prepaid, Returned uint64
}

// Unspent is the sum of all outputs that are not consumed, staked or on their way
// included.
func (s Sums) Unspent() uint64 {
	return s.Genesis + s.Minted + s.FromAccounts + s.Returned - s.Burned - s.ToAccounts - s.Prepaid
}

const (
	// roomy and small are how many coins a wallet has room for.
	roomy, small = 64, 12
	// onTheWay bounds the coins between chains, for each destination.
	onTheWay = 2048
)

// populate makes everybody but those of the genesis.
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

// genesisParty is the party of owners in the genesis.
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

// somebody draws a party.
func (g *Generator) somebody() int32 {
	if g.chance(0.04) {
		return int32(g.purse.first + g.o.Addresses + g.rng.IntN(g.purse.groups))
	}
	return g.anAddress()
}

// anAddress draws a party that is one address.
func (g *Generator) anAddress() int32 { return int32(g.purse.first) + int32(g.zipf.Uint64()) }

// keep puts a coin into its owner's wallet. If there is no room the smallest one is
// forgotten: it stays unspent for ever.
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

// take draws AVAX of a party that is worth at least need and free at a time, out of
// its wallet: nil if there is not so much.
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
		most = 4 // put small change together
	}
	var taken []coin
	sum = 0
	for i := g.rng.IntN(len(w)); len(w) > 0 && (sum < need || len(taken) < most); {
		// From a random place on, and around.
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

// payer draws somebody who can pay, and takes that from the wallet. rich says that it
// is one of the genesis' owners, who have most at the beginning.
func (g *Generator) payer(c Chain, need uint64, now int64) (who int32, taken []coin, rich bool, err error) {
	for range 8 {
		who = g.somebody()
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

// spec is an output that will be made.
type spec struct {
	party, asset        int32
	amount              uint64
	locktime, stakeable uint64
}

// draft is a transaction in the making. Its lists are in the order in which the
// transaction will have them.
type draft struct {
	g     *Generator
	block *Block
	// ins are spent on the chain itself, arriving on another.
	ins, arriving []coin
	// outs, stake and leaving are the outputs; to is where those that leave go.
	outs, stake, leaving []spec
	to                   Chain
	// others are outputs after outs that are no ordinary transfers.
	others []coin
	// lost is AVAX that is neither made nor burned, because it goes into a balance or
	// an account; gained is what comes out of accounts, and back out of a balance, as
	// one of others.
	lost, gained, back uint64
	// memo is for those from before Durango; aborted says that the chain will refuse
	// what is proposed.
	memo    []byte
	aborted bool
}

func (g *Generator) draft(b *Block) *draft { return &draft{g: g, block: b} }

func (d *draft) now() int64 { return d.block.Time.Unix() }

// sorted brings outputs into the order that chains demand: by asset, then by bytes.
func (d *draft) sorted(specs []spec) []spec {
	slices.SortFunc(specs, func(a, b spec) int {
		assets := d.g.assets
		p, q := &d.g.purse.parties[a.party], &d.g.purse.parties[b.party]
		return cmp.Or(
			assets[a.asset].id.Compare(assets[b.asset].id),
			cmp.Compare(a.stakeable, b.stakeable), // those without have the smaller type
			cmp.Compare(a.amount, b.amount), cmp.Compare(a.locktime, b.locktime),
			cmp.Compare(p.threshold, q.threshold), cmp.Compare(len(p.addresses), len(q.addresses)),
			slices.CompareFunc(p.addresses, q.addresses, ids.ShortID.Compare),
		)
	})
	return specs
}

// outputs puts specs into the library's terms, sorted.
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

// inputs puts coins into the library's terms, sorted.
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

// credential has so many signatures of nobody.
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

// change gives what is left of the AVAX that goes in, after a fee, to a party.
// Nothing if it is next to nothing.
func (d *draft) change(to int32, burn uint64) {
	in, out := d.flow()
	if in > out+burn+1000 {
		d.outs = append(d.outs, spec{party: to, amount: in - out - burn})
	}
}

// flow is the AVAX that goes in and out.
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

// done records what the transaction did, once its ID is known. The coins that were
// staked are returned.
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

// sum counts where the AVAX went.
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

// store puts a new coin to where it can be found again.
func (g *Generator) store(c Chain, one coin) {
	if one.asset == avax0 && one.kind == Transfer {
		g.keep(c, one)
		return
	}
	g.onX.store(g, c, one)
}

// countBusy counts a change of the busy address' balance.
func (g *Generator) countBusy(b *Block, who int32, last *uint64) {
	if who == g.purse.busy && b.Chain == P && *last != b.Height {
		*last = b.Height
		g.busyEvents++
	}
}

// arrival draws coins on their way to a chain that one party owns and that come from
// one chain; nil if there are none.
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
