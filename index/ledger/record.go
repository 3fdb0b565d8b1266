// Package ledger records outputs of the P-Chain and the X-Chain, of the atomic
// memory between them and the C-Chain, and who stakes: which outputs there are and
// were, what addresses hold now and at any time, staking transactions and
// delegations. A Tenant writes what a chain says, a Matcher what two of them say
// together, and a Record reads it. It is not about subnets, nor about L1s.
package ledger

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ava-labs/avalanchego/ids"

	chain "quorate/chain/ledger"
	"quorate/index/internal/row"
	"quorate/store"
)

var (
	// ErrTooMany says that the addresses of a query have to do with more groups of
	// owners or assets than can be gone through at a time.
	ErrTooMany = errors.New("the addresses own too many things together")
	// ErrBehind says that exports and imports are recorded much faster than they are
	// matched, or not matched at all, so that a balance would take too long.
	ErrBehind = errors.New("matching of exports and imports is behind")
	// ErrUnknownChain says that nothing of a chain is recorded.
	ErrUnknownChain = errors.New("chain is not recorded")
)

const (
	// maxGroups is how many groups of owners the addresses of a query may be in,
	// maxAccounts how many accounts they may have.
	maxGroups   = 100_000
	maxAccounts = 20_000
	// maxUnmatched is how many notes the Matcher may be behind.
	maxUnmatched = 100_000
)

// Viewer is a store, as far as records are concerned.
type Viewer interface {
	View(ctx context.Context) (store.View, error)
}

// Record reads the record of one network, of which a store may hold several. Each
// call sees one state of it. It is safe for concurrent use. Errors are those of the
// store, and those of this package.
type Record struct {
	viewer    Viewer
	networkID uint32
}

// New makes a reader of a network's record, which may be empty.
func New(v Viewer, networkID uint32) *Record { return &Record{viewer: v, networkID: networkID} }

// state is one state of a record.
type state struct {
	store.View
	networkID uint32
	clocks    []chainClock
}

func (r *Record) view(ctx context.Context) (*state, error) {
	v, err := r.viewer.View(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the ledger: %w", err)
	}
	s := &state{View: v, networkID: r.networkID}
	if s.clocks, err = readClocks(ctx, v, r.networkID); err != nil {
		_ = v.Close()
		return nil, err
	}
	return s, nil
}

// clock is how far a chain is.
func (s *state) clock(chainID ids.ID) (clock, error) {
	for _, c := range s.clocks {
		if c.chainID == chainID {
			return c.clock, nil
		}
	}
	return clock{}, fmt.Errorf("%w: %s", ErrUnknownChain, chainID)
}

// Tip is the last block of a chain that is recorded: what "now" means. The height is 0
// as long as only what was before there were blocks is.
func (r *Record) Tip(ctx context.Context, chainID ids.ID) (height uint64, now time.Time, err error) {
	s, err := r.view(ctx)
	if err != nil {
		return 0, time.Time{}, err
	}
	defer func() { _ = s.Close() }()
	c, err := s.clock(chainID)
	return c.number(c.height), row.Unix(c.time), err
}

// number replaces heights of outputs by the numbers of blocks, which is what is shown
// of them.
func (s *state) number(outputs []*Output) {
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

// Outputs returns recorded outputs by their IDs, nil for those that are not.
func (r *Record) Outputs(ctx context.Context, outputIDs []ids.ID) ([]*Output, error) {
	s, err := r.view(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = s.Close() }()
	outputs, err := s.outputs(ctx, outputIDs)
	s.number(outputs)
	return outputs, err
}

func (s *state) outputs(ctx context.Context, outputIDs []ids.ID) ([]*Output, error) {
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

// Assets returns what is known of assets, nil for those of which nothing is.
func (r *Record) Assets(ctx context.Context, assetIDs []ids.ID) ([]*chain.Asset, error) {
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

// accounts finds what addresses own on a chain, and on the way from or to it: of
// each output that counts by its threshold, the account, once.
func (s *state) accounts(ctx context.Context, chainID ids.ID, addresses []ids.ShortID) ([]owned, error) {
	set := make(map[ids.ShortID]struct{}, len(addresses))
	for _, a := range addresses {
		set[a] = struct{}{}
	}
	var all []owned
	for address := range set {
		g := &group{id: singleGroup(address), threshold: 1, addresses: []ids.ShortID{address}}
		if err := s.accountsOf(ctx, chainID, g, &all); err != nil {
			return nil, err
		}
	}
	groups := make(map[groupID]struct{})
	for address := range set {
		for lo := []byte(nil); ; {
			pk := ownersRow(s.networkID, chainID, address, nil)
			rows, err := s.Scan(ctx, store.FamilyOwners, pk.P, lo, nil, store.Ascending, scanRows)
			if err != nil {
				return nil, fmt.Errorf("reading groups of owners: %w", err)
			}
			for _, one := range rows {
				if len(one.K) != len(groupID{}) {
					return nil, fmt.Errorf("reading groups of owners: %w: key of %d bytes", store.ErrCorrupt, len(one.K))
				}
				id := groupID(one.K)
				if _, known := groups[id]; known {
					continue
				}
				groups[id] = struct{}{}
				if len(groups) > maxGroups {
					return nil, fmt.Errorf("%w: more than %d groups of owners", ErrTooMany, maxGroups)
				}
				g, err := parseGroup(id, one.V)
				if err != nil {
					return nil, fmt.Errorf("reading groups of owners: %w", err)
				}
				if !g.owns(set) {
					continue
				}
				if err := s.accountsOf(ctx, chainID, &g, &all); err != nil {
					return nil, err
				}
			}
			if len(rows) < scanRows {
				break
			}
			lo = store.After(rows[len(rows)-1].K)
		}
	}
	return all, nil
}

// accountsOf appends the accounts of a group.
func (s *state) accountsOf(ctx context.Context, chainID ids.ID, g *group, to *[]owned) error {
	room := maxAccounts - len(*to) + 1
	rows, err := s.Scan(ctx, store.FamilyAccount, accountList(s.networkID, chainID, g.id), nil, nil, store.Ascending, room)
	if err != nil {
		return fmt.Errorf("reading accounts: %w", err)
	}
	if len(rows) == room {
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
}
