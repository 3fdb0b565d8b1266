package registry

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/holiman/uint256"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/vms/components/gas"
	"github.com/ava-labs/avalanchego/vms/platformvm/validators/fee"

	"quorate/internal/index"
	"quorate/internal/index/internal/row"
	"quorate/internal/store"
)

// Index reads the registry of one network. It is safe for concurrent use. Each call sees one state of the index. Errors
// come from the store.
type Index struct {
	viewer    store.Viewer
	networkID uint32
	fees      fee.Config
}

// New returns a reader of a network's registry. The fee configuration is that of the L1 validators.
func New(v store.Viewer, networkID uint32, fees fee.Config) *Index {
	return &Index{viewer: v, networkID: networkID, fees: fees}
}

// On returns a reader of the same network in another store.
func (x *Index) On(v store.Viewer) *Index { return New(v, x.networkID, x.fees) }

// Head is the last indexed block with the fees of L1 validators.
type Head struct {
	Height uint64
	Time   time.Time
	// Accrued is the sum of the fees that one validator would have paid since the first block, in nAVAX.
	Accrued uint64
	// Supply is the current supply in nAVAX, with the rewards that current stakes may earn; 0 if it is unknown.
	Supply uint64
	state  fee.State
	config fee.Config
}

func readHead(ctx context.Context, r store.Reader, networkID uint32) (Head, error) {
	values, err := r.Get(ctx, store.FamilyRegistryState, []store.PK{{P: headPartition(networkID)}})
	if err != nil {
		return Head{}, fmt.Errorf("reading the last block of the registry: %w", err)
	}
	if values[0] == nil {
		return Head{}, nil
	}
	read := row.Read(values[0])
	h := Head{Height: read.Number(), Time: read.Time(), Accrued: read.Number()}
	h.state = fee.State{Current: gas.Gas(read.Number()), Excess: gas.Gas(read.Number())}
	h.Supply = read.Number()
	return h, read.End()
}

// Head returns the last indexed block; the zero Head if there is none.
func (x *Index) Head(ctx context.Context) (Head, error) {
	v, head, err := x.view(ctx)
	if err != nil {
		return Head{}, err
	}
	return head, v.Close()
}

// view opens a view and reads the last block in it.
func (x *Index) view(ctx context.Context) (store.View, Head, error) {
	v, err := x.viewer.View(ctx)
	if err != nil {
		return nil, Head{}, fmt.Errorf("reading the registry: %w", err)
	}
	head, err := readHead(ctx, v, x.networkID)
	if err != nil {
		_ = v.Close()
		return nil, Head{}, err
	}
	head.config = x.fees
	return v, head, nil
}

// Balance returns the remaining balance of an L1 validator in nAVAX, as a node reports it after the block.
func (h *Head) Balance(v *L1Validator) uint64 { return max(v.Ends, h.Accrued) - h.Accrued }

// maxForecast bounds the seconds of a forecast while the price changes each second.
const maxForecast = 24 * 60 * 60

// RunsOut returns the second in which the balance of an active L1 validator is used up if the number of active validators
// stays the same: the time of the block that deactivates it. It returns false for other validators, and if the price
// changes and the balance lasts longer than a day.
func (h *Head) RunsOut(v *L1Validator) (time.Time, bool) {
	balance := h.Balance(v)
	if balance == 0 {
		return time.Time{}, false
	}
	most := uint64(maxForecast)
	if constant := h.state.Current == h.config.Target || h.state.Current < h.config.Target && h.state.Excess == 0; constant {
		most = 1 << 62 // more than any balance buys: all AVAX are less nAVAX
	}
	seconds := h.state.SecondsRemaining(h.config, most, balance)
	return time.Unix(h.Time.Unix()+int64(seconds), 0), seconds < most
}

// Registered says when a subnet or blockchain was created.
type Registered struct {
	// SubnetID is the subnet itself, or the one that a blockchain belongs to.
	SubnetID ids.ID
	Created  time.Time
	Place
}

// Registered returns the creation of a subnet or blockchain, or nil without an error if none has the ID.
func (x *Index) Registered(ctx context.Context, id ids.ID) (*Registered, error) {
	v, err := x.viewer.View(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the registry: %w", err)
	}
	defer func() { _ = v.Close() }()
	return x.registered(ctx, v, id)
}

func (x *Index) registered(ctx context.Context, r store.Reader, id ids.ID) (*Registered, error) {
	values, err := r.Get(ctx, store.FamilyRegistered, []store.PK{{P: row.Network(x.networkID, id[:])}})
	if err != nil {
		return nil, fmt.Errorf("reading the creation of %s: %w", id, err)
	}
	if values[0] == nil {
		return nil, nil
	}
	read := row.Read(values[0])
	found := &Registered{SubnetID: read.ID(), Created: read.Time(), Place: Place{read.Number(), read.Uint32()}}
	return found, read.End()
}

// Blockchain is a blockchain of the primary network or of a subnet.
type Blockchain struct {
	Place
	ID, SubnetID, VMID ids.ID
	Name               string
	Created            time.Time
}

func parseBlockchain(one store.Row) (*Blockchain, error) {
	at, err := parsePlace(one.K)
	if err != nil {
		return nil, err
	}
	r := row.Read(one.V)
	b := &Blockchain{Place: at, ID: r.ID(), SubnetID: r.ID(), VMID: r.ID(), Name: string(r.Bytes()), Created: r.Time()}
	return b, r.End()
}

// Blockchain returns a blockchain, or nil without an error if none has the ID.
func (x *Index) Blockchain(ctx context.Context, id ids.ID) (*Blockchain, error) {
	v, err := x.viewer.View(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the registry: %w", err)
	}
	defer func() { _ = v.Close() }()
	at, err := x.registered(ctx, v, id)
	if err != nil || at == nil || at.SubnetID == id {
		return nil, err
	}
	k := at.key()
	values, err := v.Get(ctx, store.FamilyBlockchain, []store.PK{{P: row.Network(x.networkID), K: k}})
	if err != nil {
		return nil, fmt.Errorf("reading blockchain %s: %w", id, err)
	}
	if values[0] == nil {
		return nil, fmt.Errorf("reading blockchain %s: %w: it has no row", id, store.ErrCorrupt)
	}
	return parseBlockchain(store.Row{K: k, V: values[0]})
}

// Blockchains returns at most limit blockchains, at least 1, in the order of their creation, newest first unless ascending
// is set. next is where the next page begins, nil if there is none.
func (x *Index) Blockchains(ctx context.Context, ascending bool, limit int, after *Place) (page []*Blockchain, next *Place, err error) {
	v, err := x.viewer.View(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("reading blockchains: %w", err)
	}
	defer func() { _ = v.Close() }()
	dir, lo, hi := span(ascending, placeKey(after))
	rows, err := v.Scan(ctx, store.FamilyBlockchain, row.Network(x.networkID), lo, hi, dir, limit+1)
	if err != nil {
		return nil, nil, fmt.Errorf("reading blockchains: %w", err)
	}
	for _, one := range rows {
		if len(page) == limit {
			return page, &page[limit-1].Place, nil
		}
		b, err := parseBlockchain(one)
		if err != nil {
			return nil, nil, fmt.Errorf("reading blockchains: %w", err)
		}
		page = append(page, b)
	}
	return page, nil, nil
}

func placeKey(p *Place) []byte {
	if p == nil {
		return nil
	}
	return p.key()
}

// span returns the bounds of a scan that goes on after a key, nil for the beginning.
func span(ascending bool, after []byte) (dir store.Direction, lo, hi []byte) {
	switch {
	case after == nil && ascending:
		return store.Ascending, nil, nil
	case ascending:
		return store.Ascending, store.After(after), nil
	default:
		return store.Descending, nil, after
	}
}

// Bytes encodes the place for page tokens.
func (p *Place) Bytes() []byte { return p.key() }

// ParsePlace decodes the result of Bytes. Errors wrap index.ErrPosition.
func ParsePlace(b []byte) (*Place, error) {
	p, err := parsePlace(b)
	if err != nil {
		return nil, index.ErrPosition
	}
	return &p, nil
}

// merged is a row of one of several lists.
type merged struct {
	store.Row
	list int
}

// merge calls use with the rows of lists in the order of their keys, beginning after a key, until use returns false. It
// reads about step rows at a time.
func merge(ctx context.Context, r store.Reader, family store.Family, lists [][]byte, ascending bool, after []byte, step int, use func([]merged) (bool, error)) error {
	for {
		dir, lo, hi := span(ascending, after)
		queries := make([]store.Query, len(lists))
		for i, p := range lists {
			queries[i] = store.Query{Family: family, P: p, Lo: lo, Hi: hi, Dir: dir, Limit: step}
		}
		found, err := store.Scans(ctx, r, queries...)
		if err != nil {
			return err
		}
		var all []merged
		for i, list := range found {
			for _, one := range list {
				all = append(all, merged{one, i})
			}
		}
		slices.SortFunc(all, func(a, b merged) int {
			c := bytes.Compare(a.K, b.K)
			if !ascending {
				return -c
			}
			return c
		})
		// Each list has given its first rows, so the first rows of all are among these.
		last := len(all) < step || len(all) == 0
		all = all[:min(len(all), step)]
		if len(all) == 0 {
			return nil
		}
		if more, err := use(all); err != nil || !more || last {
			return err
		}
		after = all[len(all)-1].K
	}
}

// Sort is what validations are ordered by.
type Sort uint8

// The orders of validations. Ties are in the order of creation. All but ByCreation leave out validations that have ended
// or have no such property.
const (
	ByCreation Sort = iota
	ByCapacity
	ByTimeRemaining
	ByFee
	// ByUptime is the order of Query.Uptime.
	ByUptime
)

// Query selects validations.
type Query struct {
	// SubnetID and NodeIDs select subnets and nodes; nil and none select all. Names selects nodes whose IDs contain one of
	// these texts, besides those of NodeIDs.
	SubnetID *ids.ID
	NodeIDs  []ids.NodeID
	Names    []string
	// Status selects a state; empty selects all.
	Status Status
	// Wants further restricts validations; nil selects all. It is called with the chain's time. If CurrentOnly is set, it
	// refuses all validations that have ended.
	Wants       func(v *Validation, now time.Time) bool
	CurrentOnly bool
	// Uptime returns the uptime of a validator for ByUptime, and false if it is unknown.
	Uptime    func(v *Validation) (float64, bool)
	Sort      Sort
	Ascending bool
	// Limit is the page size, at least 1.
	Limit int
	// After is the end of the previous page, nil for the first page.
	After *Position
}

// Position is the end of a page of validations: its place, and the value by which they are ordered.
type Position struct {
	Place
	Value float64
}

// Bytes encodes the position for page tokens.
func (p *Position) Bytes() []byte {
	return binary.BigEndian.AppendUint64(p.key(), math.Float64bits(p.Value))
}

// ParsePosition decodes the result of Bytes. Errors wrap index.ErrPosition.
func ParsePosition(b []byte) (*Position, error) {
	if len(b) != placeSize+8 {
		return nil, index.ErrPosition
	}
	at, err := ParsePlace(b[:placeSize])
	if err != nil {
		return nil, err
	}
	return &Position{Place: *at, Value: math.Float64frombits(binary.BigEndian.Uint64(b[placeSize:]))}, nil
}

// Page is a page of validations.
type Page struct {
	Validations []*Validation
	// Next is where the next page begins, nil if there is none.
	Next *Position
	Head Head
	// Staked is the sum of the weights of active validators and their delegations, by subnet, for those on the page.
	Staked map[ids.ID]uint256.Int
}

// step is the number of rows that are read at a time.
const step = 128

// Validations returns a page of validations.
func (x *Index) Validations(ctx context.Context, q Query) (*Page, error) {
	v, head, err := x.view(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = v.Close() }()
	page := &Page{Head: head}
	if q.Sort == ByCreation {
		err = x.inOrder(ctx, v, &q, page)
	} else {
		err = x.sorted(ctx, v, &q, page)
	}
	if err == nil {
		err = x.staked(ctx, v, page)
	}
	if err != nil {
		return nil, fmt.Errorf("reading validations: %w", err)
	}
	return page, nil
}

// lists returns the partitions of a query and the lists they belong to.
func (x *Index) lists(q *Query) (partitions [][]byte, lists []byte, whole bool) {
	lists = []byte{listOpen, listCompleted, listRemoved}
	switch {
	case q.Status == Completed:
		lists = lists[1:2]
	case q.Status == Removed:
		lists = lists[2:]
	case q.Status != "" || q.CurrentOnly || q.Sort != ByCreation:
		lists = lists[:1]
	}
	var of []byte
	for _, list := range lists {
		switch {
		case len(q.NodeIDs) > 0 && len(q.Names) == 0:
			for _, id := range q.NodeIDs {
				partitions, of = append(partitions, ofNode(x.networkID, list, id)), append(of, list)
			}
		case q.SubnetID != nil:
			partitions, of = append(partitions, ofSubnet(x.networkID, list, *q.SubnetID)), append(of, list)
		default:
			partitions, of, whole = append(partitions, allOf(x.networkID, list)), append(of, list), true
		}
	}
	return partitions, of, whole
}

// matching calls use with the matching validations of a query in the order of their creation until it returns false.
func (x *Index) matching(ctx context.Context, r store.Reader, q *Query, now time.Time, after *Place, use func(*Validation) bool) error {
	partitions, of, whole := x.lists(q)
	return merge(ctx, r, store.FamilyValidator, partitions, q.Ascending, placeKey(after), step, func(found []merged) (bool, error) {
		if !whole {
			keys := make([]store.PK, len(found))
			for i, one := range found {
				keys[i] = store.PK{P: allOf(x.networkID, of[one.list]), K: one.K}
			}
			values, err := r.Get(ctx, store.FamilyValidator, keys)
			if err != nil {
				return false, err
			}
			for i := range found {
				found[i].V = values[i]
			}
		}
		for _, one := range found {
			v, err := parseValidation(one.Row)
			if err != nil {
				return false, err
			}
			if q.matches(v, now) && !use(v) {
				return false, nil
			}
		}
		return true, nil
	})
}

func (q *Query) matches(v *Validation, now time.Time) bool {
	switch {
	case q.SubnetID != nil && v.SubnetID != *q.SubnetID:
		return false
	case q.Status != "" && v.StatusAt(now) != q.Status:
		return false
	case q.Wants != nil && !q.Wants(v, now):
		return false
	case len(q.NodeIDs)+len(q.Names) == 0 || slices.Contains(q.NodeIDs, v.NodeID):
		return true
	}
	text := v.NodeID.String()
	return slices.ContainsFunc(q.Names, func(part string) bool { return strings.Contains(text, part) })
}

func (x *Index) inOrder(ctx context.Context, r store.Reader, q *Query, page *Page) error {
	var after *Place
	if q.After != nil {
		after = &q.After.Place
	}
	return x.matching(ctx, r, q, page.Head.Time, after, func(v *Validation) bool {
		if len(page.Validations) == q.Limit {
			page.Next = &Position{Place: page.Validations[q.Limit-1].Place}
			return false
		}
		page.Validations = append(page.Validations, v)
		return true
	})
}

// sorted reads all current validations that match and sorts them. There are a few thousand at most.
func (x *Index) sorted(ctx context.Context, r store.Reader, q *Query, page *Page) error {
	type valued struct {
		*Validation
		value float64
	}
	var all []valued
	err := x.matching(ctx, r, q, page.Head.Time, nil, func(v *Validation) bool {
		if value, ok := q.value(v); ok && v.Ended.Time.IsZero() {
			all = append(all, valued{v, value})
		}
		return true
	})
	if err != nil {
		return err
	}
	compare := func(value float64, at Place, other float64, otherAt Place) int {
		c := cmp.Or(cmp.Compare(value, other), cmp.Compare(at.Height, otherAt.Height), cmp.Compare(at.Number, otherAt.Number))
		if !q.Ascending {
			return -c
		}
		return c
	}
	slices.SortFunc(all, func(a, b valued) int { return compare(a.value, a.Place, b.value, b.Place) })
	for i, v := range all {
		if q.After != nil && compare(v.value, v.Place, q.After.Value, q.After.Place) <= 0 {
			continue
		}
		if len(page.Validations) == q.Limit {
			page.Next = &Position{all[i-1].Place, all[i-1].value}
			return nil
		}
		page.Validations = append(page.Validations, v.Validation)
	}
	return nil
}

// value returns what a validation is ordered by, and false if it has no such property.
func (q *Query) value(v *Validation) (float64, bool) {
	switch q.Sort {
	case ByCapacity:
		return float64(v.Capacity()), v.MaxWeight > 0
	case ByTimeRemaining:
		return float64(v.End.Unix()), true
	case ByFee:
		return float64(v.Shares), !v.Permissioned
	case ByUptime:
		if q.Uptime != nil {
			return q.Uptime(v)
		}
	}
	return 0, false
}

// staked sums up the active stake of the subnets on a page.
func (x *Index) staked(ctx context.Context, r store.Reader, page *Page) error {
	page.Staked = make(map[ids.ID]uint256.Int)
	for _, one := range page.Validations {
		if one.StatusAt(page.Head.Time) != Active {
			continue
		}
		if _, ok := page.Staked[one.SubnetID]; ok {
			continue
		}
		var sum uint256.Int
		q := Query{SubnetID: &one.SubnetID, Status: Active}
		err := x.matching(ctx, r, &q, page.Head.Time, nil, func(v *Validation) bool {
			sum.AddUint64(&sum, v.Weight)
			sum.AddUint64(&sum, v.Delegated)
			return true
		})
		if err != nil {
			return err
		}
		page.Staked[one.SubnetID] = sum
	}
	return nil
}

// L1Query selects L1 validators.
type L1Query struct {
	// ValidationID, SubnetID and NodeID select one validator, subnet or node; nil selects all.
	ValidationID, SubnetID *ids.ID
	NodeID                 *ids.NodeID
	// Inactive also selects validators without a balance, and removed ones. ValidationID selects them anyway.
	Inactive bool
	// Limit is the page size, at least 1.
	Limit int
	// After is the end of the previous page, nil for the first page.
	After []byte
}

// L1Page is a page of L1 validators, newest first.
type L1Page struct {
	Validators []*L1Validator
	// Next is where the next page begins, nil if there is none.
	Next []byte
	Head Head
}

// l1KeySize is the size of the keys of lists of L1 validators, and of positions.
const l1KeySize = placeSize + 4

// L1Validators returns a page of L1 validators. Its error is index.ErrPosition, or comes from the store.
func (x *Index) L1Validators(ctx context.Context, q L1Query) (*L1Page, error) {
	if q.After != nil && len(q.After) != l1KeySize {
		return nil, index.ErrPosition
	}
	v, head, err := x.view(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = v.Close() }()
	page := &L1Page{Head: head}
	wants := func(v *L1Validator) bool {
		return (q.SubnetID == nil || v.SubnetID == *q.SubnetID) && (q.NodeID == nil || v.NodeID == *q.NodeID) &&
			(q.Inactive || q.ValidationID != nil || v.Status() == L1Active)
	}
	if q.ValidationID != nil {
		return page, x.oneL1Validator(ctx, v, *q.ValidationID, wants, page)
	}
	var lists [][]byte
	for status, list := range l1Lists {
		switch {
		case status != L1Active && !q.Inactive:
		case q.NodeID != nil:
			lists = append(lists, ofNode(x.networkID, list, *q.NodeID))
		case q.SubnetID != nil:
			lists = append(lists, ofSubnet(x.networkID, list, *q.SubnetID))
		default:
			lists = append(lists, allOf(x.networkID, list))
		}
	}
	err = merge(ctx, v, store.FamilyL1ValidatorList, lists, false, q.After, q.Limit+1, func(found []merged) (bool, error) {
		of := make([]ids.ID, len(found))
		for i, one := range found {
			if of[i], err = ids.ToID(one.V); err != nil {
				return false, fmt.Errorf("%w: list of L1 validators: %w", store.ErrCorrupt, err)
			}
		}
		all, err := readL1Validators(ctx, v, x.networkID, of)
		if err != nil {
			return false, err
		}
		for _, one := range all {
			if !wants(one) {
				continue
			}
			if len(page.Validators) == q.Limit {
				page.Next = page.Validators[q.Limit-1].key()
				return false, nil
			}
			page.Validators = append(page.Validators, one)
		}
		return true, nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading L1 validators: %w", err)
	}
	return page, nil
}

func (x *Index) oneL1Validator(ctx context.Context, r store.Reader, id ids.ID, wants func(*L1Validator) bool, page *L1Page) error {
	values, err := r.Get(ctx, store.FamilyL1Validator, []store.PK{{P: row.Network(x.networkID, id[:])}})
	if err != nil {
		return fmt.Errorf("reading L1 validator %s: %w", id, err)
	}
	if values[0] == nil {
		return nil
	}
	v, err := parseL1Validator(id, values[0])
	if err == nil && wants(v) {
		page.Validators = append(page.Validators, v)
	}
	return err
}
