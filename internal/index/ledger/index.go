// Package ledger indexes outputs of the P-Chain and the X-Chain, atomic transfers between them and the C-Chain, and
// stakers: all outputs, the balances of addresses now and at any time, staking transactions and delegations. A Projection
// writes the rows of one chain, a Matcher the rows that follow from two chains, and an Index reads both. Subnets and
// L1s have indexes of their own.
package ledger

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ava-labs/avalanchego/ids"

	chain "quorate/internal/chain/ledger"
	"quorate/internal/index/internal/row"
	"quorate/internal/store"
)

var (
	// ErrTooMany means that the addresses of a query have too many groups of owners or accounts for one query.
	ErrTooMany = errors.New("the addresses have too many accounts; query fewer addresses")
	// ErrBehind means that the Matcher is too far behind to compute a balance in time.
	ErrBehind = errors.New("matching of atomic transfers is behind")
	// ErrNegative means that a balance is below zero: rows are damaged, or come from blocks of different networks.
	ErrNegative = errors.New("balance is below zero")
	// ErrUnknownChain means that a chain is not indexed.
	ErrUnknownChain = errors.New("chain is not indexed")
)

const (
	// maxGroups limits the groups of owners of a query's addresses, maxAccounts their accounts.
	maxGroups   = 100_000
	maxAccounts = 20_000
	// maxUnmatched limits how many notes the Matcher may be behind.
	maxUnmatched = 100_000
)

// Index reads the ledger of one network; a store may contain several networks. Each call reads one consistent view. It
// is safe for concurrent use. Errors are those of the store and of this package, and index.ErrViewBehind for later pages
// of lists.
type Index struct {
	viewer    store.Viewer
	networkID uint32
	cache     accountCache
}

// New returns a reader of a network's ledger, which may be empty.
func New(v store.Viewer, networkID uint32) *Index {
	return &Index{viewer: v, networkID: networkID, cache: newAccountCache()}
}

// snapshot is a consistent view of a ledger.
type snapshot struct {
	store.View
	networkID uint32
	clocks    []chainClock
}

func (r *Index) view(ctx context.Context) (*snapshot, error) {
	s, _, err := r.viewScans(ctx)
	return s, err
}

// viewScans opens a view together with some scans.
func (r *Index) viewScans(ctx context.Context, queries ...store.Query) (*snapshot, [][]store.Row, error) {
	v, found, err := store.ViewScans(ctx, r.viewer, append(queries, clockQuery(r.networkID))...)
	if err != nil {
		return nil, nil, fmt.Errorf("reading the ledger: %w", err)
	}
	s := &snapshot{View: v, networkID: r.networkID}
	if s.clocks, err = parseClocks(found[len(queries)]); err != nil {
		_ = v.Close()
		return nil, nil, err
	}
	return s, found[:len(queries)], nil
}

// viewOf opens a view together with the accounts of addresses on a chain and with some scans. See accounts.
func (r *Index) viewOf(ctx context.Context, chainID ids.ID, addresses []ids.ShortID, queries ...store.Query) (s *snapshot, c clock, all []owned, found [][]store.Row, err error) {
	read := newOwnedRead(r.networkID, chainID, addresses)
	read.expect(r.networkID, r.cache.of(chainID, addresses))
	n := len(read.queries)
	s, found, err = r.viewScans(ctx, append(read.queries[:n:n], queries...)...)
	if err != nil {
		return nil, clock{}, nil, nil, err
	}
	if c, err = s.clock(chainID); err == nil {
		all, err = s.accounts(ctx, read, found)
	}
	if err != nil {
		_ = s.Close()
		return nil, clock{}, nil, nil, err
	}
	if store.IsRemote(s.View) {
		r.cache.note(chainID, addresses, all)
	}
	return s, c, all, found[n:], nil
}

// clock returns the clock of a chain.
func (s *snapshot) clock(chainID ids.ID) (clock, error) {
	for _, c := range s.clocks {
		if c.chainID == chainID {
			return c.clock, nil
		}
	}
	return clock{}, fmt.Errorf("%w: %s", ErrUnknownChain, chainID)
}

// Tip returns the last indexed block of a chain and its time, which "now" refers to. The height is 0 while only outputs
// from before the chain's blocks are indexed.
func (r *Index) Tip(ctx context.Context, chainID ids.ID) (height uint64, now time.Time, err error) {
	s, err := r.view(ctx)
	if err != nil {
		return 0, time.Time{}, err
	}
	defer func() { _ = s.Close() }()
	c, err := s.clock(chainID)
	return c.number(c.height), row.Unix(c.time), err
}

// number replaces the heights of outputs by block numbers, which the API shows.
func (s *snapshot) number(outputs []*Output) {
	for _, o := range outputs {
		if o == nil {
			continue
		}
		for _, c := range s.clocks {
			if c.before > 0 && c.chainID == o.ChainID {
				o.Height = c.number(o.Height)
			}
			if c.before > 0 && o.Spent != nil && c.chainID == o.Spent.ChainID {
				o.Spent.Height = c.number(o.Spent.Height)
			}
		}
	}
}

// Outputs returns indexed outputs by ID, with nil for outputs that are not indexed.
func (r *Index) Outputs(ctx context.Context, outputIDs []ids.ID) ([]*Output, error) {
	s, err := r.view(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = s.Close() }()
	outputs, err := s.outputs(ctx, outputIDs)
	s.number(outputs)
	return outputs, err
}

func (s *snapshot) outputs(ctx context.Context, outputIDs []ids.ID) ([]*Output, error) {
	keys := make([]store.PK, 0, 2*len(outputIDs))
	for _, id := range outputIDs {
		keys = append(keys, outputRow(s.networkID, id, madeKey), outputRow(s.networkID, id, spentKey))
	}
	values, err := s.Get(ctx, store.FamilyOutput, keys)
	if err != nil {
		return nil, fmt.Errorf("reading outputs: %w", err)
	}
	outputs := make([]*Output, len(outputIDs))
	for i, id := range outputIDs {
		if values[2*i] == nil {
			continue
		}
		if outputs[i], err = parseOutput(id, values[2*i]); err != nil {
			return nil, err
		}
		if v := values[2*i+1]; v != nil {
			spent, err := parseSpend(v)
			if err != nil {
				return nil, fmt.Errorf("output %s: %w", id, err)
			}
			outputs[i].Spent = &spent.Spend
		}
	}
	return outputs, nil
}

// Assets returns indexed assets by ID, with nil for unknown assets.
func (r *Index) Assets(ctx context.Context, assetIDs []ids.ID) ([]*chain.Asset, error) {
	s, err := r.view(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = s.Close() }()
	keys := make([]store.PK, len(assetIDs))
	for i, id := range assetIDs {
		keys[i].P = row.Network(s.networkID, id[:])
	}
	values, err := s.Get(ctx, store.FamilyAsset, keys)
	if err != nil {
		return nil, fmt.Errorf("reading assets: %w", err)
	}
	assets := make([]*chain.Asset, len(assetIDs))
	for i, v := range values {
		if v == nil {
			continue
		}
		if assets[i], err = parseAsset(assetIDs[i], v); err != nil {
			return nil, fmt.Errorf("asset %s: %w", assetIDs[i], err)
		}
	}
	return assets, nil
}

// owned is an account that the addresses of a query own together.
type owned struct {
	account
	group *group
	id    accountID
}

// ownedRead reads the accounts of addresses on a chain. queries request the first accounts and the first groups of
// owners of each address.
type ownedRead struct {
	chainID   ids.ID
	set       map[ids.ShortID]struct{}
	addresses []ids.ShortID // the addresses in set
	queries   []store.Query
	// expected are the cached groups of the addresses with several owners. Their first accounts are read with the query
	// of the given index.
	expected map[groupID]int
}

func newOwnedRead(networkID uint32, chainID ids.ID, addresses []ids.ShortID) *ownedRead {
	r := &ownedRead{chainID: chainID, set: make(map[ids.ShortID]struct{}, len(addresses))}
	most := min(firstRows, max(4, scanRows/max(1, len(addresses))))
	for _, a := range addresses {
		if _, known := r.set[a]; known {
			continue
		}
		r.set[a] = struct{}{}
		r.addresses = append(r.addresses, a)
		r.queries = append(r.queries, accountQuery(networkID, chainID, singleGroup(a), most), store.Query{
			Family: store.FamilyOwners, P: ownersRow(networkID, chainID, a, nil).P, Limit: most,
		})
	}
	return r
}

// expect adds queries for the accounts of the groups with several owners.
func (r *ownedRead) expect(networkID uint32, accounts []owned) {
	r.expected = make(map[groupID]int)
	for i := range accounts {
		id := accounts[i].group.id
		if _, known := r.expected[id]; known || id[0] == groupSingle {
			continue
		}
		r.expected[id] = len(r.queries)
		r.queries = append(r.queries, accountQuery(networkID, r.chainID, id, firstRows))
	}
}

// firstRows is the number of rows that are read first from a list, and the number of lists that are read at once.
const firstRows = 128

func accountQuery(networkID uint32, chainID ids.ID, id groupID, limit int) store.Query {
	return store.Query{Family: store.FamilyAccount, P: accountList(networkID, chainID, id), Limit: limit}
}

// rest yields the rows that a query found and then the remaining rows of its list.
func (s *snapshot) rest(ctx context.Context, q store.Query, rows []store.Row, yield func([]store.Row) error) error {
	for {
		if err := yield(rows); err != nil {
			return err
		}
		if len(rows) < q.Limit {
			return nil
		}
		q.Lo, q.Limit = store.After(rows[len(rows)-1].K), scanRows
		var err error
		if rows, err = s.Scan(ctx, q.Family, q.P, q.Lo, q.Hi, q.Dir, q.Limit); err != nil {
			return fmt.Errorf("reading %s: %w", q.Family, err)
		}
	}
}

// accounts returns the accounts of addresses on a chain and in atomic transfers from or to it. It includes an account
// once if the addresses reach its threshold. found are the results of read.queries.
func (s *snapshot) accounts(ctx context.Context, read *ownedRead, found [][]store.Row) ([]owned, error) {
	var all []owned
	for i, address := range read.addresses {
		g := &group{id: singleGroup(address), threshold: 1, addresses: []ids.ShortID{address}}
		if err := s.accountsOf(ctx, read.chainID, g, read.queries[2*i], found[2*i], &all); err != nil {
			return nil, err
		}
	}
	known := make(map[groupID]struct{})
	for i := range read.addresses {
		if err := s.rest(ctx, read.queries[2*i+1], found[2*i+1], func(rows []store.Row) error {
			fresh, err := s.groups(ctx, read.chainID, rows, known)
			if err != nil {
				return err
			}
			var shared []*group
			var queries []store.Query
			for i := range fresh {
				if g := &fresh[i]; g.owns(read.set) {
					shared, queries = append(shared, g), append(queries, accountQuery(s.networkID, read.chainID, g.id, firstRows))
				}
			}
			for at := 0; at < len(shared); at += firstRows {
				end := min(at+firstRows, len(shared))
				found, err := s.accountRows(ctx, read, found, shared[at:end], queries[at:end])
				if err != nil {
					return fmt.Errorf("reading accounts: %w", err)
				}
				for j, rows := range found {
					if err := s.accountsOf(ctx, read.chainID, shared[at+j], queries[at+j], rows, &all); err != nil {
						return err
					}
				}
			}
			return nil
		}); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// groups returns the groups of owners in rows that are not known yet, and adds them to known. It reads those with many owners
// where they are stored once.
func (s *snapshot) groups(ctx context.Context, chainID ids.ID, rows []store.Row, known map[groupID]struct{}) (fresh []group, err error) {
	var keys []store.PK
	var at []int
	for _, one := range rows {
		if len(one.K) != len(groupID{}) {
			return nil, fmt.Errorf("reading groups of owners: %w: key of %d bytes", store.ErrCorrupt, len(one.K))
		}
		g := group{id: groupID(one.K)}
		if _, ok := known[g.id]; ok {
			continue
		}
		known[g.id] = struct{}{}
		if len(known) > maxGroups {
			return nil, fmt.Errorf("%w: more than %d groups of owners", ErrTooMany, maxGroups)
		}
		if len(one.V) == 0 {
			keys, at = append(keys, groupRow(s.networkID, chainID, g.id)), append(at, len(fresh))
		} else if g, err = parseGroup(g.id, one.V); err != nil {
			return nil, fmt.Errorf("reading groups of owners: %w", err)
		}
		fresh = append(fresh, g)
	}
	if len(keys) == 0 {
		return fresh, nil
	}
	values, err := s.Get(ctx, store.FamilyOwners, keys)
	if err != nil {
		return nil, fmt.Errorf("reading groups of many owners: %w", err)
	}
	for i, v := range values {
		if fresh[at[i]], err = parseGroup(fresh[at[i]].id, v); err != nil {
			return nil, fmt.Errorf("reading groups of many owners: %w", err)
		}
	}
	return fresh, nil
}

// accountRows returns the first accounts of groups. It reads those that found does not contain.
func (s *snapshot) accountRows(ctx context.Context, read *ownedRead, found [][]store.Row, groups []*group, queries []store.Query) ([][]store.Row, error) {
	all := make([][]store.Row, len(groups))
	var missing []store.Query
	var at []int
	for i, g := range groups {
		if n, ok := read.expected[g.id]; ok {
			all[i] = found[n]
			continue
		}
		missing, at = append(missing, queries[i]), append(at, i)
	}
	if len(missing) == 0 {
		return all, nil
	}
	more, err := store.Scans(ctx, s.View, missing...)
	for i, rows := range more {
		all[at[i]] = rows
	}
	return all, err
}

// accountsOf appends the accounts of a group.
func (s *snapshot) accountsOf(ctx context.Context, chainID ids.ID, g *group, q store.Query, rows []store.Row, to *[]owned) error {
	return s.rest(ctx, q, rows, func(rows []store.Row) error {
		if len(*to)+len(rows) > maxAccounts {
			return fmt.Errorf("%w: more than %d accounts", ErrTooMany, maxAccounts)
		}
		for _, one := range rows {
			a, err := parseListKey(chainID, g.id, one.K)
			if err != nil {
				return err
			}
			*to = append(*to, owned{account: a, group: g, id: a.id(s.networkID)})
		}
		return nil
	})
}
