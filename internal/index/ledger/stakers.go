package ledger

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/constants"

	chain "quorate/internal/chain/ledger"
	"quorate/internal/index"
	"quorate/internal/index/internal/row"
	"quorate/internal/store"
)

// StakingQuery selects staking transactions with an active or pending stake: the end is after the chain's time, and the
// stake is not settled.
type StakingQuery struct {
	// Addresses selects transactions with one of these addresses among the owners of consumed or created outputs.
	Addresses []ids.ShortID
	// Kinds selects transaction types; empty selects all.
	Kinds []chain.Kind
	// After and Before are exclusive bounds of the block time; zero means none.
	After, Before time.Time
	// Ascending returns the oldest first. Equal times are ordered by height, then by ID text.
	Ascending bool
	// Limit is the page size, at least 1.
	Limit int
	// From is the end of the previous page, nil for the first page.
	From *StakingPosition
}

// StakingPosition is the end of a page, with the P-Chain's height at the first page.
type StakingPosition struct {
	Time, Height uint64
	TxID         ids.ID
	Pin          uint64
}

// Bytes encodes the position for page tokens.
func (p *StakingPosition) Bytes() []byte {
	w := row.New(64)
	w.Number(p.Time)
	w.Number(p.Height)
	w.ID(p.TxID)
	w.Number(p.Pin)
	return w.B
}

// ParseStakingPosition decodes the result of Bytes. Errors wrap index.ErrPosition.
func ParseStakingPosition(b []byte) (*StakingPosition, error) {
	r := row.Read(b)
	p := &StakingPosition{Time: r.Number(), Height: r.Number(), TxID: r.ID(), Pin: r.Number()}
	if r.End() != nil {
		return nil, index.ErrPosition
	}
	return p, nil
}

// key returns the position as a list key.
func (p *StakingPosition) key() []byte {
	return row.Uint64(p.Time, row.Uint64(p.Height), []byte(p.TxID.String()))
}

// StakingPage is a page of staking transactions.
type StakingPage struct {
	Stakings []StakingOutputs
	// Next is the beginning of the next page, nil if there is none.
	Next *StakingPosition
	// Now is the chain's time.
	Now time.Time
}

// StakingOutputs is a staking transaction with its outputs.
type StakingOutputs struct {
	*Staking
	Consumed, Made []*Output
}

// ActiveStakings returns a page of staking transactions. Pages neither repeat nor skip transactions while new blocks
// arrive, except stakes that end before their page is read.
func (r *Index) ActiveStakings(ctx context.Context, q StakingQuery) (*StakingPage, error) {
	s, err := r.view(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = s.Close() }()
	c, err := s.clock(constants.PlatformChainID)
	if err != nil {
		return nil, err
	}
	now, pin := row.Unix(c.time), c.height
	if q.From != nil {
		pin = q.From.Pin
		if err := s.checkPins([]Pin{{constants.PlatformChainID, pin}}); err != nil {
			return nil, err
		}
	}
	dir := direction(q.Ascending)
	var lo, hi []byte
	if !q.After.IsZero() {
		lo = row.Uint64(row.Seconds(q.After) + 1)
	}
	if !q.Before.IsZero() {
		hi = row.Uint64(row.Seconds(q.Before))
	}
	if q.From != nil {
		if k := q.From.key(); dir == store.Ascending {
			lo = later(lo, store.After(k))
		} else if hi == nil || bytes.Compare(k, hi) < 0 {
			hi = k
		}
	}
	var lists []*list
	for _, a := range distinct(q.Addresses) {
		lists = append(lists, &list{family: store.FamilyStakingByAddress, p: row.Network(s.networkID, a[:])})
	}
	m, err := newMerge(ctx, s.View, lists, lo, hi, dir, q.Limit+1)
	if err != nil {
		return nil, err
	}
	page := &StakingPage{Now: now}
	var before []byte
	for {
		one, _, ok, err := m.next(ctx)
		if err != nil || !ok {
			return page, err
		}
		if bytes.Equal(one.K, before) {
			continue // several addresses of the query are involved
		}
		before = one.K
		staking, err := s.staking(ctx, one.K)
		if err != nil {
			return nil, err
		}
		if staking.Height > pin || !staking.End.After(now) || len(q.Kinds) > 0 && !slices.Contains(q.Kinds, staking.Kind) {
			continue
		}
		if len(page.Stakings) == q.Limit {
			last := page.Stakings[q.Limit-1]
			page.Next = &StakingPosition{Time: row.Seconds(last.Time), Height: last.Height, TxID: last.TxID, Pin: pin}
			return page, nil
		}
		full := StakingOutputs{Staking: staking}
		if full.Consumed, err = s.outputs(ctx, staking.Consumed); err != nil {
			return nil, err
		}
		if full.Made, err = s.outputs(ctx, staking.Made); err != nil {
			return nil, err
		}
		s.number(full.Consumed)
		s.number(full.Made)
		page.Stakings = append(page.Stakings, full)
	}
}

// staking returns the transaction at a key of an address list.
func (s *snapshot) staking(ctx context.Context, k []byte) (*Staking, error) {
	if len(k) <= 16 {
		return nil, fmt.Errorf("%w: list with a key of %d bytes", store.ErrCorrupt, len(k))
	}
	txID, err := ids.FromString(string(k[16:]))
	if err != nil {
		return nil, fmt.Errorf("%w: list with key %q", store.ErrCorrupt, k)
	}
	values, err := s.Get(ctx, store.FamilyStaking, []store.PK{stakingRow(s.networkID, txID)})
	if err != nil {
		return nil, fmt.Errorf("reading a staking transaction: %w", err)
	}
	if values[0] == nil {
		return nil, fmt.Errorf("%w: staking transaction %s is in a list but has no row", store.ErrCorrupt, txID)
	}
	return parseStaking(txID, values[0])
}

// Staking returns a staking transaction, or nil without an error if it is not indexed.
func (r *Index) Staking(ctx context.Context, txID ids.ID) (*Staking, error) {
	s, err := r.view(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = s.Close() }()
	values, err := s.Get(ctx, store.FamilyStaking, []store.PK{stakingRow(s.networkID, txID)})
	if err != nil || values[0] == nil {
		return nil, err
	}
	return parseStaking(txID, values[0])
}

// DelegationQuery selects delegations on the primary network.
type DelegationQuery struct {
	// RewardAddresses selects delegations that pay a reward to one of these addresses. NodeIDs selects delegations to
	// these validators. Empty selects all.
	RewardAddresses []ids.ShortID
	NodeIDs         []ids.NodeID
	// Status selects a status; empty selects all.
	Status DelegationStatus
	// Current selects delegations that have begun and are not settled, as a node lists them: their period may have ended
	// a moment earlier. Status must be empty.
	Current bool
	// Ascending returns the earliest start first. Equal starts are ordered by ID text.
	Ascending bool
	// Limit is the page size, at least 1.
	Limit int
	// After is the end of the previous page, nil for the first page. It pins only the P-Chain.
	After *Position
}

// DelegationPage is a page of delegations.
type DelegationPage struct {
	Delegations []*Delegation
	// Next is the beginning of the next page, nil if there is none.
	Next *Position
	// Now is the chain's time.
	Now time.Time
}

// Delegations returns a page of delegations. Pages neither repeat nor skip delegations while new blocks arrive, except
// delegations that lose the selected status.
func (r *Index) Delegations(ctx context.Context, q DelegationQuery) (*DelegationPage, error) {
	s, err := r.view(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = s.Close() }()
	c, err := s.clock(constants.PlatformChainID)
	if err != nil {
		return nil, err
	}
	page := &DelegationPage{Now: row.Unix(c.time)}
	pins := []Pin{{constants.PlatformChainID, c.height}}
	if q.After != nil {
		pins = q.After.Pins
		if err := s.checkPins(pins); err != nil {
			return nil, err
		}
	}
	dir := direction(q.Ascending)
	lo, hi := bounds(q.After, dir)
	// Pending delegations are at one end of the list, started ones at the other.
	switch begun := row.Uint64(c.time + 1); {
	case q.Status == DelegationPending:
		lo = later(lo, begun)
	case q.Current || q.Status != "":
		if hi == nil || bytes.Compare(begun, hi) < 0 {
			hi = begun
		}
	}
	m, err := newMerge(ctx, s.View, s.delegationLists(&q), lo, hi, dir, q.Limit+1)
	if err != nil {
		return nil, err
	}
	var before []byte
	for {
		one, from, ok, err := m.next(ctx)
		if err != nil || !ok {
			return page, err
		}
		if bytes.Equal(one.K, before) {
			continue // several addresses share its reward
		}
		before = one.K
		_, txID, err := parseKey(one.K)
		if err != nil {
			return nil, err
		}
		if len(one.V) == 0 { // shared by many
			values, err := s.Get(ctx, store.FamilyDelegation, []store.PK{{P: allDelegations(s.networkID, byte(from.tag)), K: one.K}})
			if err != nil {
				return nil, fmt.Errorf("reading a delegation: %w", err)
			}
			one.V = values[0]
		}
		d, err := parseDelegation(txID, one.V)
		if err != nil {
			return nil, err
		}
		if !pinned(pins, constants.PlatformChainID, d.Height) || !q.wants(d, page.Now) {
			continue
		}
		if len(page.Delegations) == q.Limit {
			last := page.Delegations[q.Limit-1]
			page.Next = &Position{Key: row.Seconds(last.Start), ID: last.TxID, Pins: pins}
			return page, nil
		}
		page.Delegations = append(page.Delegations, d)
	}
}

// wants checks the conditions that the choice of lists does not imply.
func (q *DelegationQuery) wants(d *Delegation, now time.Time) bool {
	if q.Status != "" && d.StatusAt(now) != q.Status {
		return false
	}
	return len(q.NodeIDs) == 0 || len(q.RewardAddresses) == 0 || slices.Contains(q.NodeIDs, d.NodeID)
}

func (s *snapshot) delegationLists(q *DelegationQuery) (lists []*list) {
	states := []byte{delegationOpen, delegationSettled}
	if q.Current || q.Status == DelegationPending || q.Status == DelegationActive {
		states = states[:1] // settled delegations are completed
	}
	for _, state := range states {
		switch {
		case len(q.RewardAddresses) > 0:
			for _, a := range distinct(q.RewardAddresses) {
				lists = append(lists, &list{family: store.FamilyDelegationByAddress, p: row.Network(s.networkID, a[:], []byte{state}), tag: int(state)})
			}
		case len(q.NodeIDs) > 0:
			for _, n := range distinct(q.NodeIDs) {
				lists = append(lists, &list{family: store.FamilyDelegationByNode, p: row.Network(s.networkID, n[:], []byte{state})})
			}
		default:
			lists = append(lists, &list{family: store.FamilyDelegation, p: allDelegations(s.networkID, state)})
		}
	}
	return lists
}

func distinct[T comparable](all []T) []T {
	seen := make(map[T]struct{}, len(all))
	var some []T
	for _, one := range all {
		if _, ok := seen[one]; !ok {
			seen[one] = struct{}{}
			some = append(some, one)
		}
	}
	return some
}

func later(a, b []byte) []byte {
	if bytes.Compare(a, b) > 0 {
		return a
	}
	return b
}
