// Package subnets indexes the subnets of a network: their creation, owners and blockchains, and their conversion to L1s
// (ACP-77). A Projection of the P-Chain's pipeline writes the rows, an Index reads them.
package subnets

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/constants"

	chain "quorate/internal/chain/ledger"
	"quorate/internal/index"
	"quorate/internal/index/internal/row"
	"quorate/internal/store"
)

// name is the name of the projection in cursors.
const name = "subnets"

// Families returns the store families of the index. Their format version is that of the ledger, with which they share a
// cursor.
func Families() []store.Family {
	return []store.Family{store.FamilySubnet, store.FamilySubnetFact}
}

// ErrChain means that a block is not a P-Chain block.
var ErrChain = errors.New("subnets are indexed from P-Chain blocks")

// Projection indexes subnets. All rows follow from P-Chain blocks alone.
type Projection struct{ networkID uint32 }

var _ index.Projection[*chain.Block] = Projection{}

// NewProjection returns the projection that indexes a network's subnets.
func NewProjection(networkID uint32) Projection { return Projection{networkID: networkID} }

// Name implements index.Projection.
func (Projection) Name() string { return name }

// Kinds of facts about a subnet, the first byte of the clustering key. For a chain, height and number of its creation
// follow. A chain's genesis has its own row because it may be large.
const (
	factOwners = iota
	factConversion
	factChain
	factGenesis
)

// Apply implements index.Projection. The genesis block creates the primary network. The error is ErrChain.
func (t Projection) Apply(_ context.Context, _ store.Reader, block *chain.Block, batch *store.Batch) error {
	if block.ChainID != constants.PlatformChainID {
		return fmt.Errorf("%w, got chain %s", ErrChain, block.ChainID)
	}
	if block.Height == 0 {
		t.create(batch, block, constants.PrimaryNetworkID)
	}
	for i := range block.Txs {
		tx := &block.Txs[i]
		change := tx.Subnet
		if change == nil || tx.Aborted {
			continue
		}
		if change.Created {
			t.create(batch, block, change.SubnetID)
		}
		if o := change.Owners; o != nil {
			w := row.New(32 + len(o.Addresses)*ids.ShortIDLen)
			w.Addresses(o.Addresses)
			w.Number(uint64(o.Threshold))
			w.Number(o.Locktime)
			t.put(batch, change.SubnetID, []byte{factOwners}, w.B)
		}
		if c := change.Conversion; c != nil {
			w := row.New(128)
			w.ID(tx.ID)
			w.ID(c.ManagerChainID)
			w.Bytes(c.ManagerAddress)
			w.Number(block.Height)
			w.Time(block.Time)
			t.put(batch, change.SubnetID, []byte{factConversion}, w.B)
		}
		if c := change.Chain; c != nil {
			w := row.New(128)
			w.ID(tx.ID)
			w.ID(c.VMID)
			w.Bytes([]byte(c.Name))
			w.Time(block.Time)
			place := row.Uint64(block.Height, binary.BigEndian.AppendUint32(nil, uint32(i)))
			t.put(batch, change.SubnetID, append([]byte{factChain}, place...), w.B)
			t.put(batch, change.SubnetID, append([]byte{factGenesis}, tx.ID[:]...), c.Genesis)
		}
	}
	w := row.New(16)
	w.Number(block.Height)
	w.Time(block.Time)
	batch.Put(store.FamilySubnetFact, store.PK{P: row.Network(t.networkID)}, w.B)
	return nil
}

func (t Projection) create(batch *store.Batch, block *chain.Block, subnetID ids.ID) {
	k := row.Uint64(row.Seconds(block.Time), row.Uint64(block.Height), []byte(subnetID.String()))
	batch.Put(store.FamilySubnet, store.PK{P: row.Network(t.networkID), K: k}, subnetID[:])
}

func (t Projection) put(batch *store.Batch, subnetID ids.ID, k, v []byte) {
	batch.Put(store.FamilySubnetFact, store.PK{P: row.Network(t.networkID, subnetID[:]), K: k}, v)
}

// Subnet is an indexed subnet.
type Subnet struct {
	ID ids.ID
	// Created and Height are the time and height of the block that created the subnet; for the primary network the
	// genesis block.
	Created time.Time
	Height  uint64
	// Owners are the current owners. The primary network has none.
	Owners chain.Owners
	// Conversion is nil if the subnet is not an L1.
	Conversion *Conversion
	// Chains are the subnet's blockchains, oldest first.
	Chains []Blockchain
}

// Conversion is the transaction that converted a subnet to an L1.
type Conversion struct {
	TxID ids.ID
	chain.Conversion
	Height uint64
	Time   time.Time
}

// Blockchain is a chain of a subnet without its genesis; see Index.Geneses.
type Blockchain struct {
	ID, VMID ids.ID
	Name     string
	Created  time.Time
	Height   uint64
}

// Index reads the subnets of one network. It is safe for concurrent use. Errors come from the store.
type Index struct {
	viewer    store.Viewer
	networkID uint32
}

// New returns a reader of a network's subnets.
func New(v store.Viewer, networkID uint32) *Index { return &Index{viewer: v, networkID: networkID} }

// Position is the end of a page, with the P-Chain's height at the first page. Later pages omit subnets created after
// that height.
type Position struct {
	Time, Height uint64
	SubnetID     ids.ID
	Pin          uint64
}

// Bytes encodes the position for page tokens.
func (p *Position) Bytes() []byte {
	w := row.New(64)
	w.Number(p.Time)
	w.Number(p.Height)
	w.ID(p.SubnetID)
	w.Number(p.Pin)
	return w.B
}

// ParsePosition decodes the result of Bytes. Errors wrap index.ErrPosition.
func ParsePosition(b []byte) (*Position, error) {
	r := row.Read(b)
	p := &Position{Time: r.Number(), Height: r.Number(), SubnetID: r.ID(), Pin: r.Number()}
	if r.End() != nil {
		return nil, index.ErrPosition
	}
	return p, nil
}

// Page is a page of the list of subnets.
type Page struct {
	Subnets []*Subnet
	// Next is the beginning of the next page, nil if there is none.
	Next *Position
}

// List returns a page of at most limit subnets, at least 1, ordered by time and height of creation and then by ID text.
// The newest come first unless ascending is set. The error may be index.ErrViewBehind if after is not nil.
func (r *Index) List(ctx context.Context, ascending bool, limit int, after *Position) (*Page, error) {
	v, err := r.viewer.View(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading subnets: %w", err)
	}
	defer func() { _ = v.Close() }()
	pin, err := r.height(ctx, v)
	if err != nil {
		return nil, err
	}
	dir := store.Descending
	if ascending {
		dir = store.Ascending
	}
	var lo, hi []byte
	if after != nil {
		if err := index.CheckPin(pin, after.Pin); err != nil {
			return nil, fmt.Errorf("reading subnets: %w", err)
		}
		pin = after.Pin
		k := row.Uint64(after.Time, row.Uint64(after.Height), []byte(after.SubnetID.String()))
		if ascending {
			lo = store.After(k)
		} else {
			hi = k
		}
	}
	// Times never decrease, so subnets after the pin are at one end of the list.
	page := &Page{}
	for {
		room := limit - len(page.Subnets) + 1
		rows, err := v.Scan(ctx, store.FamilySubnet, row.Network(r.networkID), lo, hi, dir, room)
		if err != nil {
			return nil, fmt.Errorf("reading subnets: %w", err)
		}
		for _, one := range rows {
			if len(one.K) <= 16 || len(one.V) != ids.IDLen {
				return nil, fmt.Errorf("reading subnets: %w: %d bytes at a key of %d", store.ErrCorrupt, len(one.V), len(one.K))
			}
			s := &Subnet{
				ID: ids.ID(one.V), Created: row.Unix(binary.BigEndian.Uint64(one.K)), Height: binary.BigEndian.Uint64(one.K[8:]),
			}
			if s.Height > pin {
				continue
			}
			if len(page.Subnets) == limit {
				last := page.Subnets[limit-1]
				page.Next = &Position{Time: row.Seconds(last.Created), Height: last.Height, SubnetID: last.ID, Pin: pin}
				return page, r.facts(ctx, v, page.Subnets)
			}
			page.Subnets = append(page.Subnets, s)
		}
		if len(rows) < room {
			return page, r.facts(ctx, v, page.Subnets)
		}
		if last := rows[len(rows)-1].K; ascending {
			lo = store.After(last)
		} else {
			hi = last
		}
	}
}

// Describe reads everything about a subnet except its creation, and the height of the last indexed block.
func (r *Index) Describe(ctx context.Context, s *Subnet) (height uint64, err error) {
	v, err := r.viewer.View(ctx)
	if err != nil {
		return 0, fmt.Errorf("reading subnet %s: %w", s.ID, err)
	}
	defer func() { _ = v.Close() }()
	if height, err = r.height(ctx, v); err != nil {
		return 0, err
	}
	return height, r.facts(ctx, v, []*Subnet{s})
}

// height returns the height of the last indexed block.
func (r *Index) height(ctx context.Context, reader store.Reader) (uint64, error) {
	values, err := reader.Get(ctx, store.FamilySubnetFact, []store.PK{{P: row.Network(r.networkID)}})
	if err != nil {
		return 0, fmt.Errorf("reading the height of the subnet index: %w", err)
	}
	if values[0] == nil {
		return 0, nil
	}
	read := row.Read(values[0])
	height := read.Number()
	read.Time()
	return height, read.End()
}

// facts reads everything about subnets except their creation.
func (r *Index) facts(ctx context.Context, reader store.Reader, all []*Subnet) error {
	queries := make([]store.Query, len(all))
	for i, s := range all {
		queries[i] = store.Query{
			Family: store.FamilySubnetFact, P: row.Network(r.networkID, s.ID[:]),
			Hi: []byte{factGenesis}, Dir: store.Ascending, Limit: math.MaxInt,
		}
	}
	found, err := store.Scans(ctx, reader, queries...)
	if err != nil {
		return fmt.Errorf("reading subnet details: %w", err)
	}
	for i, s := range all {
		if err := s.add(found[i]); err != nil {
			return fmt.Errorf("reading subnet %s: %w", s.ID, err)
		}
	}
	return nil
}

// add decodes facts.
func (s *Subnet) add(rows []store.Row) error {
	for _, one := range rows {
		read := row.Read(one.V)
		switch {
		case len(one.K) == 1 && one.K[0] == factOwners:
			s.Owners = chain.Owners{Addresses: read.Addresses(), Threshold: read.Uint32(), Locktime: read.Number()}
		case len(one.K) == 1 && one.K[0] == factConversion:
			c := &Conversion{TxID: read.ID()}
			c.ManagerChainID, c.ManagerAddress, c.Height, c.Time = read.ID(), read.Bytes(), read.Number(), read.Time()
			s.Conversion = c
		case len(one.K) == 13 && one.K[0] == factChain:
			s.Chains = append(s.Chains, Blockchain{
				ID: read.ID(), VMID: read.ID(), Name: string(read.Bytes()), Created: read.Time(),
				Height: binary.BigEndian.Uint64(one.K[1:]),
			})
		default:
			read.Fail(fmt.Errorf("key of %d bytes", len(one.K)))
		}
		if err := read.End(); err != nil {
			return err
		}
	}
	return nil
}

// Founded identifies a blockchain of a subnet.
type Founded struct{ SubnetID, ChainID ids.ID }

// Geneses returns the genesis bytes of blockchains in order, nil for a blockchain that is not indexed. A genesis may
// have 1 MiB, so callers should ask for few.
func (r *Index) Geneses(ctx context.Context, of ...Founded) ([][]byte, error) {
	v, err := r.viewer.View(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading blockchain geneses: %w", err)
	}
	defer func() { _ = v.Close() }()
	keys := make([]store.PK, len(of))
	for i, one := range of {
		keys[i] = store.PK{P: row.Network(r.networkID, one.SubnetID[:]), K: append([]byte{factGenesis}, one.ChainID[:]...)}
	}
	values, err := v.Get(ctx, store.FamilySubnetFact, keys)
	if err != nil {
		return nil, fmt.Errorf("reading blockchain geneses: %w", err)
	}
	return values, nil
}
