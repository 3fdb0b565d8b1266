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

// Output is the complete history of an output.
type Output struct {
	ID, TxID ids.ID
	Index    uint32
	Kind     OutputKind
	AssetID  ids.ID
	Amount   uint64
	// Chain created the output at Height. Destination is the chain on which it is spendable.
	Chain, Destination Chain
	Height             uint64
	Time               time.Time

	Threshold uint32
	Addresses []ids.ShortID
	// Locktime and StakeableLocktime are Unix times, 0 for none.
	Locktime, StakeableLocktime uint64
	// StakeEnd is the end of the output's stake, zero for an output without a stake.
	StakeEnd time.Time
	Spent    *Spent
}

// Spent is the consumption of an output.
type Spent struct {
	Chain  Chain
	TxID   ids.ID
	Height uint64
	Time   time.Time
}

// Truth holds all outputs ever created, as known to the generator and not read from blocks.
type Truth struct {
	// EarlyTxIDs and EarlyVertices are what the X-Chain accepted before it had blocks, in order of acceptance.
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

// make adds an output. It does nothing on a nil Truth.
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
		panic("history: an output is spent that does not exist, or twice") // a bug in this package
	}
	o.Spent = &Spent{Chain: b.Chain, TxID: txID, Height: b.Height, Time: b.Time}
}

// early adds what was accepted without a block.
func (t *Truth) early(b *Block) {
	if t == nil {
		return
	}
	for _, tx := range b.Txs {
		t.EarlyTxIDs = append(t.EarlyTxIDs, tx.ID)
	}
	t.EarlyVertices = append(t.EarlyVertices, b.Vertices...)
}

// restake extends the stake of outputs.
func (t *Truth) restake(coins []coin, end int64) {
	if t == nil {
		return
	}
	for i := range coins {
		t.byCoin[coinID{coins[i].tx, coins[i].index}].StakeEnd = time.Unix(end, 0).UTC()
	}
}

// Outputs returns all outputs in order of creation.
func (t *Truth) Outputs() iter.Seq[*Output] {
	return func(yield func(*Output) bool) {
		for _, o := range t.outputs {
			if !yield(o) {
				return
			}
		}
	}
}

// Unspent returns the unconsumed outputs on a chain, or exported to it, with the address among the owners, in order of
// creation.
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

// Balance returns the amount of an asset that an address owned alone on a chain at the end of a second, including
// stakes and locked outputs. It excludes exported outputs.
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
