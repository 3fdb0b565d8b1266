// Package subnets records the subnets of a network: who made and owns them, their
// blockchains, and which became L1s (ACP-77). It is a tenant of the P-Chain's
// pipeline, and what reads its rows.
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

// name is the tenant's.
const name = "subnets"

// Families are those of the record's rows, whose form is that of the record with which
// they share a cursor.
func Families() []store.Family {
	return []store.Family{store.FamilySubnet, store.FamilySubnetFact}
}

// ErrChain says that a block is not the P-Chain's.
var ErrChain = errors.New("subnets are recorded from blocks of the P-Chain")

// Tenant records subnets. All rows follow from the P-Chain's blocks alone.
type Tenant struct{ networkID uint32 }

var _ index.Tenant[*chain.Block] = Tenant{}

// NewTenant makes the tenant that records a network's subnets.
func NewTenant(networkID uint32) Tenant { return Tenant{networkID: networkID} }

// Name implements index.Tenant.
func (Tenant) Name() string { return name }

// What is known of a subnet, by the first byte of the clustering key. After that of
// a chain come height and number of its creation; its genesis has rows of its own,
// because it may be large.
const (
	factOwners = iota
	factConversion
	factChain
	factGenesis
)

// Apply implements index.Tenant. The genesis block makes the primary network. The
// error is ErrChain.
func (t Tenant) Apply(_ context.Context, _ store.Reader, block *chain.Block, batch *store.Batch) error {
	if block.ChainID != constants.PlatformChainID {
		return fmt.Errorf("%w, not of %s", ErrChain, block.ChainID)
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

func (t Tenant) create(batch *store.Batch, block *chain.Block, subnetID ids.ID) {
	k := row.Uint64(row.Seconds(block.Time), row.Uint64(block.Height), []byte(subnetID.String()))
	batch.Put(store.FamilySubnet, store.PK{P: row.Network(t.networkID), K: k}, subnetID[:])
}

func (t Tenant) put(batch *store.Batch, subnetID ids.ID, k, v []byte) {
	batch.Put(store.FamilySubnetFact, store.PK{P: row.Network(t.networkID, subnetID[:]), K: k}, v)
}

// Subnet is what is known of a subnet.
type Subnet struct {
	ID ids.ID
	// Created and Height are those of the block that made it: for the primary network
	// the genesis block.
	Created time.Time
	Height  uint64
	// Owners are the latest; nobody owns the primary network.
	Owners chain.Owners
	// Conversion is nil for what is not an L1.
	Conversion *Conversion
	// Chains are its blockchains, the oldest first.
	Chains []Blockchain
}

// Conversion is the transaction that made a subnet an L1.
type Conversion struct {
	TxID ids.ID
	chain.Conversion
	Height uint64
	Time   time.Time
}

// Blockchain is a chain of a subnet, without its genesis: see Record.Genesis.
type Blockchain struct {
	ID, VMID ids.ID
	Name     string
	Created  time.Time
	Height   uint64
}

// Record reads the subnets of one network. It is safe for concurrent use. Errors are
// the store's.
type Record struct {
	viewer    store.Viewer
	networkID uint32
}

// New makes a reader of a network's subnets.
func New(v store.Viewer, networkID uint32) *Record { return &Record{viewer: v, networkID: networkID} }

// Position is where a page ended, and the P-Chain's height at the first one: subnets
// that were made later are not on later pages.
type Position struct {
	Time, Height uint64
	SubnetID     ids.ID
	Pin          uint64
}

// ErrPosition says that a position cannot be read.
var ErrPosition = errors.New("not a position in a list of subnets")

// Bytes is the position in a form for tokens.
func (p *Position) Bytes() []byte {
	w := row.New(64)
	w.Number(p.Time)
	w.Number(p.Height)
	w.ID(p.SubnetID)
	w.Number(p.Pin)
	return w.B
}

// ParsePosition reads what Bytes wrote. The error is ErrPosition.
func ParsePosition(b []byte) (*Position, error) {
	r := row.Read(b)
	p := &Position{Time: r.Number(), Height: r.Number(), SubnetID: r.ID(), Pin: r.Number()}
	if r.End() != nil {
		return nil, ErrPosition
	}
	return p, nil
}

// Page is a part of the list of subnets.
type Page struct {
	Subnets []*Subnet
	// Next is where the following page begins, nil if there is none.
	Next *Position
}

// List returns a page of at most limit subnets, at least 1, ordered by time and
// height of creation, and then by ID as text: the newest first, unless ascending.
func (r *Record) List(ctx context.Context, ascending bool, limit int, after *Position) (*Page, error) {
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
		pin = after.Pin
		k := row.Uint64(after.Time, row.Uint64(after.Height), []byte(after.SubnetID.String()))
		if ascending {
			lo = store.After(k)
		} else {
			hi = k
		}
	}
	// Times do not go back, so that what is later than the pin is at one end.
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

// height is that of the last block that is recorded.
func (r *Record) height(ctx context.Context, reader store.Reader) (uint64, error) {
	values, err := reader.Get(ctx, store.FamilySubnetFact, []store.PK{{P: row.Network(r.networkID)}})
	if err != nil {
		return 0, fmt.Errorf("reading how far subnets are recorded: %w", err)
	}
	if values[0] == nil {
		return 0, nil
	}
	read := row.Read(values[0])
	height := read.Number()
	read.Time()
	return height, read.End()
}

// facts adds what is known of subnets but their creation.
func (r *Record) facts(ctx context.Context, reader store.Reader, all []*Subnet) error {
	queries := make([]store.Query, len(all))
	for i, s := range all {
		queries[i] = store.Query{
			Family: store.FamilySubnetFact, P: row.Network(r.networkID, s.ID[:]),
			Hi: []byte{factGenesis}, Dir: store.Ascending, Limit: math.MaxInt,
		}
	}
	found, err := store.Scans(ctx, reader, queries...)
	if err != nil {
		return fmt.Errorf("reading what is known of subnets: %w", err)
	}
	for i, s := range all {
		if err := s.add(found[i]); err != nil {
			return fmt.Errorf("reading subnet %s: %w", s.ID, err)
		}
	}
	return nil
}

// add understands facts.
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

// Founded names a blockchain of a subnet.
type Founded struct{ SubnetID, ChainID ids.ID }

// Geneses returns what blockchains began with, in their order; nil is what one has that
// is not recorded. Each may have a MiB: ask for a few.
func (r *Record) Geneses(ctx context.Context, of ...Founded) ([][]byte, error) {
	v, err := r.viewer.View(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading how blockchains began: %w", err)
	}
	defer func() { _ = v.Close() }()
	keys := make([]store.PK, len(of))
	for i, one := range of {
		keys[i] = store.PK{P: row.Network(r.networkID, one.SubnetID[:]), K: append([]byte{factGenesis}, one.ChainID[:]...)}
	}
	values, err := v.Get(ctx, store.FamilySubnetFact, keys)
	if err != nil {
		return nil, fmt.Errorf("reading how blockchains began: %w", err)
	}
	return values, nil
}
