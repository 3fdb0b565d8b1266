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
	"quorate/internal/index/internal/row"
	"quorate/internal/store"
)

// StakingQuery asks for staking transactions whose stake is active or pending:
// whose end is after the chain's time, and which are not settled.
type StakingQuery struct {
	// Addresses are such that one of them is an owner of a consumed or made output.
	Addresses []ids.ShortID
	// Kinds are the only ones, all if empty.
	Kinds []chain.Kind
	// After and Before are exclusive bounds of the block's time; zero for none.
	After, Before time.Time
	// Ascending begins with the oldest. Equal times are ordered by height, and then
	// by ID as text.
	Ascending bool
	// Limit is the size of a page, at least 1.
	Limit int
	// From is where the page before ended, nil for the first one.
	From *StakingPosition
}

// StakingPosition is where a page ended, and the P-Chain's height at the first one.
type StakingPosition struct {
	Time, Height uint64
	TxID         ids.ID
	Pin          uint64
}

// Bytes is the position in a form for tokens.
func (p *StakingPosition) Bytes() []byte {
	w := row.New(64)
	w.Number(p.Time)
	w.Number(p.Height)
	w.ID(p.TxID)
	w.Number(p.Pin)
	return w.B
}

// ParseStakingPosition reads what Bytes wrote. The error is ErrPosition.
func ParseStakingPosition(b []byte) (*StakingPosition, error) {
	r := row.Read(b)
	p := &StakingPosition{Time: r.Number(), Height: r.Number(), TxID: r.ID(), Pin: r.Number()}
	if r.End() != nil {
		return nil, ErrPosition
	}
	return p, nil
}

// key is the position as the key of a list.
func (p *StakingPosition) key() []byte {
	return row.Uint64(p.Time, row.Uint64(p.Height), []byte(p.TxID.String()))
}

// StakingPage is a part of a list of staking transactions.
type StakingPage struct {
	Stakings []StakingOutputs
	// Next is where the following page begins, nil if there is none.
	Next *StakingPosition
	// Now is the chain's time.
	Now time.Time
}

// StakingOutputs is a staking transaction with its outputs.
type StakingOutputs struct {
	*Staking
	Consumed, Made []*Output
}

// ActiveStakings returns a page of staking transactions. While blocks arrive between
// pages, none is on two of them, and none is left out but those that ended before
// their page was read.
func (r *Record) ActiveStakings(ctx context.Context, q StakingQuery) (*StakingPage, error) {
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
			continue // several of the addresses are involved
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

// staking is the transaction that stands at a key of a list of addresses.
func (s *state) staking(ctx context.Context, k []byte) (*Staking, error) {
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
		return nil, fmt.Errorf("%w: staking transaction %s is listed and missing", store.ErrCorrupt, txID)
	}
	return parseStaking(txID, values[0])
}

// Staking returns a staking transaction; nil, and no error, if it is not recorded.
func (r *Record) Staking(ctx context.Context, txID ids.ID) (*Staking, error) {
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

// DelegationQuery asks for delegations on the primary network.
type DelegationQuery struct {
	// RewardAddresses asks for delegations whose reward goes to one of them at least,
	// NodeIDs for those to one of these validators; all if empty.
	RewardAddresses []ids.ShortID
	NodeIDs         []ids.NodeID
	// Status is the only one, all if empty.
	Status DelegationStatus
	// Ascending begins with the earliest start. Equal ones are ordered by ID as text.
	Ascending bool
	// Limit is the size of a page, at least 1.
	Limit int
	// After is where the page before ended, nil for the first one. Its only pin is
	// the P-Chain's.
	After *Position
}

// DelegationPage is a part of a list of delegations.
type DelegationPage struct {
	Delegations []*Delegation
	// Next is where the following page begins, nil if there is none.
	Next *Position
	// Now is the chain's time.
	Now time.Time
}

// Delegations returns a page of delegations. While blocks arrive between pages, none
// is on two of them, and none is left out but those that no longer have the status
// that is asked for.
func (r *Record) Delegations(ctx context.Context, q DelegationQuery) (*DelegationPage, error) {
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
	}
	dir := direction(q.Ascending)
	lo, hi := bounds(q.After, dir)
	// What has not begun is at one end of the list, and what has at the other.
	switch begun := row.Uint64(c.time + 1); q.Status {
	case DelegationPending:
		lo = later(lo, begun)
	case DelegationActive, DelegationCompleted:
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
		one, _, ok, err := m.next(ctx)
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

// wants checks what the choice of lists does not.
func (q *DelegationQuery) wants(d *Delegation, now time.Time) bool {
	if q.Status != "" && d.StatusAt(now) != q.Status {
		return false
	}
	return len(q.NodeIDs) == 0 || len(q.RewardAddresses) == 0 || slices.Contains(q.NodeIDs, d.NodeID)
}

func (s *state) delegationLists(q *DelegationQuery) (lists []*list) {
	states := []byte{delegationOpen, delegationSettled}
	if q.Status == DelegationPending || q.Status == DelegationActive {
		states = states[:1] // a settled one is over
	}
	for _, state := range states {
		switch {
		case len(q.RewardAddresses) > 0:
			for _, a := range distinct(q.RewardAddresses) {
				lists = append(lists, &list{family: store.FamilyDelegationByAddress, p: row.Network(s.networkID, a[:], []byte{state})})
			}
		case len(q.NodeIDs) > 0:
			for _, n := range distinct(q.NodeIDs) {
				lists = append(lists, &list{family: store.FamilyDelegationByNode, p: row.Network(s.networkID, n[:], []byte{state})})
			}
		default:
			lists = append(lists, &list{family: store.FamilyDelegation, p: row.Network(s.networkID, []byte{state})})
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
