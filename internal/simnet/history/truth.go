package history

import (
	"iter"
	"time"

	"github.com/ava-labs/avalanchego/ids"
)

// OutputKind is the kind of an output.
type OutputKind uint8

// The kinds of outputs (avalanchego secp256k1fx, nftfx, propertyfx).
const (
	Transfer OutputKind = iota
	Mint
	NFTMint
	NFTTransfer
	PropertyMint
	PropertyOwned
)

// Output is all that is true of an output.
type Output struct {
	ID, TxID ids.ID
	Index    uint32
	Kind     OutputKind
	AssetID  ids.ID
	Amount   uint64
	// Chain made it at Height, and Destination is where it can be spent.
	Chain, Destination Chain
	Height             uint64
	Time               time.Time

	Threshold uint32
	Addresses []ids.ShortID
	// Locktime and StakeableLocktime are Unix times, 0 for none.
	Locktime, StakeableLocktime uint64
	// StakeEnd is when the stake that the output is part of ends; zero if it is none.
	StakeEnd time.Time
	Spent    *Spent
}

// Spent says what consumed an output.
type Spent struct {
	Chain  Chain
	TxID   ids.ID
	Height uint64
	Time   time.Time
}

// Truth is every output that there ever was, as the generator knows it without
// reading a block.
type Truth struct {
	// EarlyTxIDs and EarlyVertices are what the X-Chain accepted before it had blocks,
	// in this order.
	EarlyTxIDs    []ids.ID
	EarlyVertices []Vertex

	outputs []*Output
	byCoin  map[coinID]*Output
}

type coinID struct {
	tx    ids.ID
	index uint32
}

func newTruth() *Truth { return &Truth{byCoin: make(map[coinID]*Output)} }

// make records an output; a nil Truth records nothing.
func (t *Truth) make(c *coin, g *Generator, b *Block, to Chain, stakeEnd int64) {
	if t == nil {
		return
	}
	p := &g.purse.parties[c.party]
	id := c.utxoID()
	o := &Output{
		ID: id.InputID(), TxID: c.tx, Index: c.index, Kind: c.kind, AssetID: g.assets[c.asset].id, Amount: c.amount,
		Chain: b.Chain, Destination: to, Height: b.Height, Time: b.Time,
		Threshold: p.threshold, Addresses: p.addresses, Locktime: c.locktime, StakeableLocktime: c.stakeable,
	}
	if stakeEnd != 0 {
		o.StakeEnd = time.Unix(stakeEnd, 0).UTC()
	}
	t.outputs = append(t.outputs, o)
	t.byCoin[coinID{c.tx, c.index}] = o
}

func (t *Truth) spend(c *coin, _ *Generator, b *Block, txID ids.ID) {
	if t == nil {
		return
	}
	id := coinID{c.tx, c.index}
	o := t.byCoin[id]
	if o == nil || o.Spent != nil {
		panic("history: an output is spent that does not exist, or twice") // which would be a mistake here
	}
	o.Spent = &Spent{Chain: b.Chain, TxID: txID, Height: b.Height, Time: b.Time}
}

// early records what was accepted without a block.
func (t *Truth) early(b *Block) {
	if t == nil {
		return
	}
	for _, tx := range b.Txs {
		t.EarlyTxIDs = append(t.EarlyTxIDs, tx.ID)
	}
	t.EarlyVertices = append(t.EarlyVertices, b.Vertices...)
}

// restake says that the stake of some outputs goes on.
func (t *Truth) restake(coins []coin, end int64) {
	if t == nil {
		return
	}
	for i := range coins {
		t.byCoin[coinID{coins[i].tx, coins[i].index}].StakeEnd = time.Unix(end, 0).UTC()
	}
}

// Outputs are all outputs in the order in which they were made.
func (t *Truth) Outputs() iter.Seq[*Output] {
	return func(yield func(*Output) bool) {
		for _, o := range t.outputs {
			if !yield(o) {
				return
			}
		}
	}
}

// Unspent are the outputs on a chain, or on their way to it, that an address is one of
// the owners of, in the order in which they were made.
func (t *Truth) Unspent(c Chain, address ids.ShortID) (unspent []*Output) {
	for _, o := range t.outputs {
		if o.Spent != nil || o.Destination != c {
			continue
		}
		for _, a := range o.Addresses {
			if a == address {
				unspent = append(unspent, o)
			}
		}
	}
	return unspent
}

// Balance is what an address owned alone, with a signature of its own, of an asset at
// the end of a time: what was made until then on a chain to stay there, and not
// consumed. Stakes and locked outputs count.
func (t *Truth) Balance(c Chain, address ids.ShortID, assetID ids.ID, at time.Time) (sum uint64) {
	for _, o := range t.outputs {
		if o.Chain != c || o.Destination != c || o.AssetID != assetID || o.Kind != Transfer ||
			o.Threshold != 1 || len(o.Addresses) != 1 || o.Addresses[0] != address || o.Time.After(at) {
			continue
		}
		if o.Spent == nil || o.Spent.Time.After(at) {
			sum += o.Amount
		}
	}
	return sum
}
