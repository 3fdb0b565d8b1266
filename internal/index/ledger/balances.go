package ledger

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"math/big"
	"slices"
	"time"

	"github.com/ava-labs/avalanchego/ids"

	"quorate/internal/index/internal/row"
	"quorate/internal/store"
)

// Balance is the amount of an asset in a bucket that addresses own.
type Balance struct {
	Bucket  Bucket
	AssetID ids.ID
	// NFT reports that the asset is an NFT collection; Amount is then the number of tokens.
	NFT bool
	// SharedWith is the other chain of an atomic bucket. Export reports that the outputs left for that chain and did
	// not come from it. Both are zero in other buckets.
	SharedWith ids.ID
	Export     bool
	Amount     *big.Int
	// Outputs is the number of outputs.
	Outputs int64
}

// Balances returns what addresses jointly own on a chain and in atomic transfers from or to it, ordered by bucket,
// asset (as text) and chain. It omits zero balances. The balance at a time counts the outputs created before that time
// and not consumed at or before it. The zero time and times after the chain's last block mean now. now is the time of
// the chain's last block. For outputs between two chains the later time of the two chains decides whether they are
// locked.
func (r *Index) Balances(ctx context.Context, chainID ids.ID, addresses []ids.ShortID, at time.Time) (balances []Balance, now time.Time, err error) {
	s, c, accounts, _, err := r.viewOf(ctx, chainID, addresses)
	if err != nil {
		return nil, time.Time{}, err
	}
	defer func() { _ = s.Close() }()
	accounts = slices.DeleteFunc(accounts, func(a owned) bool { return a.holding == rights })
	q := balanceQuery{snapshot: s, at: c.time, now: true}
	if !at.IsZero() && row.Seconds(at) <= c.time {
		q.at, q.now = row.Seconds(at), false
	}
	totals, err := q.totals(ctx, accounts)
	if err != nil {
		return nil, time.Time{}, err
	}
	for i := range accounts {
		if balances, err = appendBalances(balances, chainID, &accounts[i], &totals[i]); err != nil {
			return nil, time.Time{}, err
		}
	}
	return mergeBalances(balances), row.Unix(c.time), nil
}

// balanceQuery sums events up to a time, or up to now.
type balanceQuery struct {
	*snapshot
	at  uint64
	now bool
}

// atFor returns the query's time for an account. No output of the account was created or consumed after now.
func (q *balanceQuery) atFor(a *account) uint64 {
	at := q.at
	if q.now && a.atomic() {
		for _, c := range q.clocks {
			if c.chainID == a.source || c.chainID == a.destination {
				at = max(at, c.time)
			}
		}
	}
	return at
}

// totals returns the sums of accounts.
func (q *balanceQuery) totals(ctx context.Context, accounts []owned) ([]sums, error) {
	totals := make([]sums, len(accounts))
	between := make(map[accountID]*sums)
	var parts []partSum
	for i := range accounts {
		a := &accounts[i]
		all := []series{seriesMade, seriesPhases}
		if a.atomic() {
			all = append(all, seriesSpent, seriesUnphase)
			between[a.id] = &totals[i]
		}
		for _, one := range all {
			parts = append(parts, partSum{
				p: a.id.partition(one), at: q.atFor(&a.account) + 1, all: q.now && (one == seriesMade || one == seriesSpent), into: &totals[i],
			})
		}
	}
	var queries []store.Query
	if len(between) > 0 {
		queries = q.matchedQueries()
	}
	guess := 0
	if store.IsRemote(q.View) {
		guess = guessedRows
	}
	found, err := addSums(ctx, q.View, parts, guess, queries)
	if err != nil || len(between) == 0 {
		return totals, err
	}
	matched, err := q.matched(found)
	if err != nil {
		return nil, err
	}
	return totals, q.unmatched(ctx, matched, between)
}

// matchedTo is the Matcher's position in the notes of a chain whose last note it has not processed.
type matchedTo struct {
	chainID ids.ID
	height  uint64
}

// matchedQueries returns two queries for each chain: the Matcher's position and the last note.
func (s *snapshot) matchedQueries() []store.Query {
	var queries []store.Query
	for _, c := range s.clocks {
		queries = append(queries,
			store.Query{Family: store.FamilyCursor, P: []byte(position(s.networkID, c.chainID)), Limit: 1},
			store.Query{Family: store.FamilyAtomic, P: row.Network(s.networkID, c.chainID[:]), Dir: store.Descending, Limit: 1},
		)
	}
	return queries
}

// matched evaluates the results of matchedQueries.
func (s *snapshot) matched(found [][]store.Row) (behind []matchedTo, err error) {
	for i, c := range s.clocks {
		cursor, last := found[2*i], found[2*i+1]
		var at store.Cursor
		if len(cursor) > 0 {
			if at, err = store.ParseCursor(position(s.networkID, c.chainID), cursor[0].V); err != nil {
				return nil, err
			}
		}
		if len(last) > 0 && bytes.Compare(last[0].K, row.Uint64(at.Next)) >= 0 {
			behind = append(behind, matchedTo{c.chainID, at.Next})
		}
	}
	return behind, nil
}

// unmatched adds atomic transfers that the Matcher has not processed yet.
func (q *balanceQuery) unmatched(ctx context.Context, behind []matchedTo, to map[accountID]*sums) error {
	counted := make(map[ids.ID]bool)
	return q.eachUnmatched(ctx, behind, func(p *atomicTransfer, indexed bool) error {
		sum := to[p.id]
		if sum == nil || indexed || counted[p.output.ID] {
			return nil
		}
		counted[p.output.ID] = true
		for s, events := range p.events() {
			for _, e := range events {
				if from, err := eventTime(e.k); err != nil {
					return err
				} else if from <= q.atFor(&p.account) || q.now && s == seriesSpent {
					if err := sum.addRow(e.v); err != nil {
						return err
					}
				}
			}
		}
		return nil
	})
}

// eachUnmatched calls do for the atomic transfers in notes that the Matcher has not processed yet, some of them twice.
func (s *snapshot) eachUnmatched(ctx context.Context, behind []matchedTo, do func(p *atomicTransfer, indexed bool) error) error {
	notes := 0
	for _, c := range behind {
		for from := c.height; ; {
			outputs, next, err := readMovements(ctx, s, s.networkID, c.chainID, from, matchBatch)
			if err != nil {
				return err
			}
			if len(outputs) == 0 {
				break
			}
			if notes += len(outputs); notes > maxUnmatched {
				return fmt.Errorf("%w: more than %d notes", ErrBehind, maxUnmatched)
			}
			transfers, indexed, err := readTransfers(ctx, s, s.networkID, outputs)
			if err != nil {
				return err
			}
			for i, p := range transfers {
				if err := do(p, indexed[i]); err != nil {
					return err
				}
			}
			from = next
		}
	}
	return nil
}

func appendBalances(to []Balance, chainID ids.ID, a *owned, total *sums) ([]Balance, error) {
	for b, t := range total {
		if t == (tally{}) {
			continue
		}
		if t.amount.hi < 0 || t.count < 0 {
			return nil, fmt.Errorf("%w: %s units of asset %s in %d outputs on chain %s; run `quorate index verify`", ErrNegative, t.amount.big(), a.assetID, t.count, chainID)
		}
		one := Balance{Bucket: Bucket(b), AssetID: a.assetID, NFT: a.holding == tokens, Amount: t.amount.big(), Outputs: t.count}
		if a.atomic() {
			one.Export = a.source == chainID
			one.SharedWith = a.source
			if one.Export {
				one.SharedWith = a.destination
			}
		}
		to = append(to, one)
	}
	return to, nil
}

// mergeBalances adds balances of the same kind and sorts the result.
func mergeBalances(all []Balance) []Balance {
	text := make(map[ids.ID]string)
	for i := range all {
		if id := all[i].AssetID; text[id] == "" {
			text[id] = id.String()
		}
	}
	compare := func(a, b Balance) int {
		exports := func(b *Balance) int {
			if b.Export {
				return 0
			}
			return 1
		}
		nft := func(b *Balance) int {
			if b.NFT {
				return 1
			}
			return 0
		}
		return cmp.Or(
			cmp.Compare(a.Bucket, b.Bucket), cmp.Compare(text[a.AssetID], text[b.AssetID]), cmp.Compare(nft(&a), nft(&b)),
			bytes.Compare(a.SharedWith[:], b.SharedWith[:]), cmp.Compare(exports(&a), exports(&b)),
		)
	}
	slices.SortStableFunc(all, compare)
	merged := all[:0]
	for _, b := range all {
		if n := len(merged); n > 0 && compare(merged[n-1], b) == 0 {
			merged[n-1].Amount.Add(merged[n-1].Amount, b.Amount)
			merged[n-1].Outputs += b.Outputs
			continue
		}
		merged = append(merged, b)
	}
	return merged
}
