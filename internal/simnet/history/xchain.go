package history

import (
	"fmt"
	"math"
	"slices"

	"github.com/ava-labs/avalanchego/ids"
	avmblock "github.com/ava-labs/avalanchego/vms/avm/block"
	"github.com/ava-labs/avalanchego/vms/avm/fxs"
	"github.com/ava-labs/avalanchego/vms/avm/txs"
	"github.com/ava-labs/avalanchego/vms/components/avax"
	"github.com/ava-labs/avalanchego/vms/components/verify"
	"github.com/ava-labs/avalanchego/vms/nftfx"
	"github.com/ava-labs/avalanchego/vms/propertyfx"
	"github.com/ava-labs/avalanchego/vms/secp256k1fx"
)

// asset is an asset of the network.
type asset struct{ id ids.ID }

// xState lists the outputs of other assets than AVAX by their use.
type xState struct {
	// money are amounts of other assets. abroad are those on the P-Chain.
	money, abroad []coin
	// Inputs of operations.
	mints, nftMints, nfts, propertyMints, properties []coin
}

// someCoins bounds each list.
const someCoins = 2000

// store adds a coin to its list. If the list is full, it replaces another coin.
func (x *xState) store(g *Generator, on Chain, one coin) {
	var list *[]coin
	switch {
	case on == P:
		list = &x.abroad
	case one.kind == Transfer:
		list = &x.money
	case one.kind == Mint:
		list = &x.mints
	case one.kind == NFTMint:
		list = &x.nftMints
	case one.kind == NFTTransfer:
		list = &x.nfts
	case one.kind == PropertyMint:
		list = &x.propertyMints
	default:
		list = &x.properties
	}
	if len(*list) < someCoins {
		*list = append(*list, one)
		return
	}
	(*list)[g.rng.IntN(someCoins)] = one
}

// pick removes a random coin from a list, or returns false if the list is empty.
func (g *Generator) pick(list *[]coin) (coin, bool) {
	if len(*list) == 0 {
		return coin{}, false
	}
	i, last := g.rng.IntN(len(*list)), len(*list)-1
	one := (*list)[i]
	(*list)[i] = (*list)[last]
	*list = (*list)[:last]
	return one, true
}

func (g *Generator) xBlock(now int64) error {
	if !g.early.over {
		return g.earlyRound(now)
	}
	b := g.open(X, now)
	var all []*txs.Tx
	for range g.batch() {
		tx, err := g.xTx(b)
		if err != nil {
			return err
		}
		all = append(all, tx)
	}
	made, err := avmblock.NewStandardBlock(b.ParentID, b.Height, b.Time, all, g.xParser.Codec())
	if err != nil {
		return fmt.Errorf("an X-Chain block: %w", err)
	}
	g.accept(b, made.ID(), made.Bytes())
	return nil
}

var xKinds = []struct {
	share float64
	make  func(*Generator, *draft) (*txs.Tx, error)
}{
	{0.10, (*Generator).xExportTx},
	{0.12, (*Generator).xImportTx},
	{0.04, (*Generator).createAssetTx},
	{0.12, (*Generator).operationTx},
	{0.15, (*Generator).moneyTx},
}

// xTx generates a transaction of a random kind. It falls back to a simple transfer if the kind is not possible now.
func (g *Generator) xTx(b *Block) (*txs.Tx, error) {
	for _, choice := range xKinds {
		if !g.chance(choice.share) {
			continue
		}
		tx, err := choice.make(g, g.draft(b))
		if tx != nil || err != nil {
			return tx, err
		}
		break
	}
	return g.xBaseTx(g.draft(b))
}

// xSign completes a transaction with a credential for each input, then the credentials of operations.
func (d *draft) xSign(unsigned txs.UnsignedTx, others ...verify.Verifiable) (*txs.Tx, error) {
	tx := &txs.Tx{Unsigned: unsigned}
	for _, list := range [][]coin{d.ins[:len(d.ins)-len(others)], d.arriving} {
		for i := range list {
			c := d.g.credential(d.g.purse.parties[list[i].party].threshold)
			tx.Creds = append(tx.Creds, &fxs.FxCredential{Credential: &c})
		}
	}
	for _, c := range others {
		tx.Creds = append(tx.Creds, &fxs.FxCredential{Credential: c})
	}
	if err := tx.Initialize(d.g.xParser.Codec()); err != nil {
		return nil, fmt.Errorf("a %T: %w", unsigned, err)
	}
	if _, ok := unsigned.(*txs.CreateAssetTx); ok {
		d.g.assets = append(d.g.assets, asset{id: tx.ID()})
	}
	d.done(Tx{tx.ID(), tx.Bytes()})
	return tx, nil
}

func (d *draft) xBase() txs.BaseTx { return txs.BaseTx{BaseTx: d.base()} }

// xPaid adds a payer of the fee, with change.
func (d *draft) xPaid() (int32, error) {
	who, coins, _, err := d.g.payer(X, 10*fee, d.now())
	d.ins = coins
	d.change(who, fee)
	return who, err
}

func (g *Generator) xBaseTx(d *draft) (*txs.Tx, error) {
	who, coins, rich, err := g.payer(X, 30*fee, d.now())
	if err != nil {
		return nil, err
	}
	d.ins = coins
	d.spread(who, rich)
	d.change(who, fee)
	base := d.xBase()
	return d.xSign(&base)
}

// moneyTx transfers an asset other than AVAX.
func (g *Generator) moneyTx(d *draft) (*txs.Tx, error) {
	one, ok := g.pick(&g.onX.money)
	if !ok || one.amount < 2 {
		return nil, nil
	}
	if _, err := d.xPaid(); err != nil {
		return nil, err
	}
	d.ins = append(d.ins, one)
	part := max(g.share(one.amount, 0.1, 0.9), 1)
	d.outs = append(d.outs, spec{party: g.anyParty(), asset: one.asset, amount: part})
	if part < one.amount {
		d.outs = append(d.outs, spec{party: one.party, asset: one.asset, amount: one.amount - part})
	}
	base := d.xBase()
	return d.xSign(&base)
}

func (g *Generator) xExportTx(d *draft) (*txs.Tx, error) {
	d.to = g.other(X)
	if one, ok := g.pick(&g.onX.money); ok && g.chance(0.2) {
		// The payer's change is the only AVAX output.
		if _, err := d.xPaid(); err != nil {
			return nil, err
		}
		d.ins = append(d.ins, one)
		d.leaving = append(d.leaving, spec{party: one.party, asset: one.asset, amount: one.amount})
	} else {
		if ok {
			g.onX.money = append(g.onX.money, one)
		}
		who, coins, _, err := g.payer(X, 60*fee, d.now())
		if err != nil {
			return nil, err
		}
		d.ins = coins
		d.leave(who)
		d.change(who, fee)
	}
	base := d.xBase()
	return d.xSign(&txs.ExportTx{BaseTx: base, DestinationChain: g.network.chainIDs[d.to], ExportedOuts: d.outputs(d.leaving)})
}

func (g *Generator) xImportTx(d *draft) (*txs.Tx, error) {
	from, ok, err := g.receive(d)
	if !ok || err != nil {
		return nil, err
	}
	base := d.xBase()
	return d.xSign(&txs.ImportTx{BaseTx: base, SourceChain: g.network.chainIDs[from], ImportedIns: d.inputs(d.arriving)})
}

// Indexes of the X-Chain's feature extensions.
const (
	fxMoney = iota
	fxNFT
	fxProperty
)

// createAssetTx creates an asset: a fixed amount, a mintable amount, NFT groups, or a property.
func (g *Generator) createAssetTx(d *draft) (*txs.Tx, error) {
	if _, err := d.xPaid(); err != nil {
		return nil, err
	}
	base := d.xBase()
	number := len(g.assets)
	tx := &txs.CreateAssetTx{BaseTx: base, Name: fmt.Sprintf("Asset %d", number), Symbol: symbol(number)}
	made := make(map[verify.State]coin)
	at := func(who int32) secp256k1fx.OutputOwners { return g.purse.parties[who].owners(0) }
	state := &txs.InitialState{FxIndex: fxMoney}
	add := func(out verify.State, c coin) {
		c.asset = int32(number)
		made[out] = c
		state.Outs = append(state.Outs, out)
	}
	switch kind := g.rng.IntN(4); kind {
	case 0, 1:
		tx.Denomination = byte(g.between(0, 18))
		for range g.between(1, 3) {
			c := coin{party: g.anyParty(), amount: 1 + g.rng.Uint64N(1<<50), kind: Transfer}
			if g.chance(0.05) {
				c.amount = math.MaxUint64/4 - g.rng.Uint64N(1000)
			}
			add(&secp256k1fx.TransferOutput{Amt: c.amount, OutputOwners: at(c.party)}, c)
		}
		if kind == 1 {
			c := coin{party: g.anyParty(), kind: Mint}
			add(&secp256k1fx.MintOutput{OutputOwners: at(c.party)}, c)
		}
	case 2:
		state.FxIndex = fxNFT
		for group := range uint32(g.between(1, 3)) {
			c := coin{party: g.anyParty(), kind: NFTMint, group: group}
			add(&nftfx.MintOutput{GroupID: group, OutputOwners: at(c.party)}, c)
		}
	case 3:
		state.FxIndex = fxProperty
		c := coin{party: g.anyParty(), kind: PropertyMint}
		add(&propertyfx.MintOutput{OutputOwners: at(c.party)}, c)
	}
	state.Sort(g.xParser.Codec())
	for _, out := range state.Outs {
		d.others = append(d.others, made[out])
	}
	tx.States = []*txs.InitialState{state}
	return d.xSign(tx)
}

// symbol returns four letters.
func symbol(n int) string {
	text := []byte{'A', 'A', 'A', 'A'}
	for i := range text {
		text[i] += byte(n % 26)
		n /= 26
	}
	return string(text)
}

// operationTx mints an asset, transfers an NFT, or burns a property.
func (g *Generator) operationTx(d *draft) (*txs.Tx, error) {
	lists := []*[]coin{&g.onX.mints, &g.onX.nftMints, &g.onX.nfts, &g.onX.propertyMints, &g.onX.properties}
	one, ok := g.pick(lists[g.rng.IntN(len(lists))])
	if !ok {
		return nil, nil
	}
	if _, err := d.xPaid(); err != nil {
		return nil, err
	}
	base := d.xBase()
	p := &g.purse.parties[one.party]
	id := one.utxoID()
	op := &txs.Operation{Asset: avax.Asset{ID: g.assets[one.asset].id}, UTXOIDs: []*avax.UTXOID{&id}}
	signatures := g.credential(p.threshold)
	var credential verify.Verifiable = &signatures
	input := secp256k1fx.Input{SigIndices: p.sigIndices()}
	to := g.anyParty()
	receiver := g.purse.parties[to].owners(0)
	switch one.kind {
	case Mint:
		amount := 1 + g.rng.Uint64N(1<<40)
		op.Op = &secp256k1fx.MintOperation{
			MintInput: input, MintOutput: secp256k1fx.MintOutput{OutputOwners: p.owners(0)},
			TransferOutput: secp256k1fx.TransferOutput{Amt: amount, OutputOwners: receiver},
		}
		d.others = []coin{{asset: one.asset, party: one.party, kind: Mint}, {asset: one.asset, party: to, kind: Transfer, amount: amount}}
	case NFTMint:
		credential = &nftfx.Credential{Credential: signatures}
		payload := g.bytes(g.between(0, 120))
		mint := &nftfx.MintOperation{MintInput: input, GroupID: one.group, Payload: payload}
		for range g.between(1, 4) {
			who := g.anyParty()
			owners := g.purse.parties[who].owners(0)
			mint.Outputs = append(mint.Outputs, &owners)
			d.others = append(d.others, coin{asset: one.asset, party: who, kind: NFTTransfer, group: one.group, payload: payload})
		}
		op.Op = mint
	case NFTTransfer:
		credential = &nftfx.Credential{Credential: signatures}
		op.Op = &nftfx.TransferOperation{
			Input:  input,
			Output: nftfx.TransferOutput{GroupID: one.group, Payload: one.payload, OutputOwners: receiver},
		}
		d.others = []coin{{asset: one.asset, party: to, kind: NFTTransfer, group: one.group, payload: one.payload}}
	case PropertyMint:
		credential = &propertyfx.Credential{Credential: signatures}
		op.Op = &propertyfx.MintOperation{
			MintInput: input, MintOutput: propertyfx.MintOutput{OutputOwners: p.owners(0)},
			OwnedOutput: propertyfx.OwnedOutput{OutputOwners: receiver},
		}
		d.others = []coin{{asset: one.asset, party: one.party, kind: PropertyMint}, {asset: one.asset, party: to, kind: PropertyOwned}}
	default:
		credential = &propertyfx.Credential{Credential: signatures}
		op.Op = &propertyfx.BurnOperation{Input: input}
	}
	d.ins = append(slices.Clip(d.ins), one)
	return d.xSign(&txs.OperationTx{BaseTx: base, Ops: []*txs.Operation{op}}, credential)
}
