package ledger

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"math/big"
	"slices"

	"github.com/ava-labs/avalanchego/ids"

	chain "quorate/internal/chain/ledger"
	"quorate/internal/index/internal/row"
	"quorate/internal/store"
)

// Supply is the amount of an asset on a chain, or on the way to another chain, by bucket.
type Supply struct {
	ChainID, DestinationID, AssetID ids.ID
	Buckets                         [buckets]*big.Int
}

// Audit is the result of an audit.
type Audit struct {
	// Outputs and Accounts are the numbers of checked outputs and accounts.
	Outputs, Accounts int
	// Supply is the supply of one asset by chain.
	Supply []*Supply
	// Arrived are consumed outputs without an indexed origin. They are expected until all chains are indexed up to
	// their tips. The list has at most some thousands.
	Arrived []ids.ID
	// Addresses is a sample of addresses that own or owned something. Seed determines the sample.
	Addresses []ids.ShortID
}

// AuditOptions configures an audit. Wrong is required.
type AuditOptions struct {
	// AssetID is the asset of the reported Supply.
	AssetID ids.ID
	// Addresses is the size of the sample of addresses. Seed selects the sample.
	Addresses int
	Seed      ids.ShortID
	// Progress is called from time to time with the number of checked outputs, and then of checked accounts. It may be
	// nil.
	Progress func(what string, checked int)
	// Wrong is called with each contradiction.
	Wrong func(what string)
}

// auditPage is the number of outputs that are checked together.
const auditPage = 512

// mostArrived limits Audit.Arrived.
const mostArrived = 4096

// Audit checks all rows of outputs and balances in one view of the store and reports contradictions: outputs missing
// from the lists of their accounts, lists of outputs that differ, rows of lists that no output has, owners who do not lead
// to their accounts, and accounts whose balance differs from the sum of their outputs, now or at a checkpoint. It checks
// the lists and balances of all networks in the store, because account IDs do not contain the network. The view stays open
// for minutes with some ten million outputs. Errors come from the store.
func (r *Index) Audit(ctx context.Context, o AuditOptions) (*Audit, error) {
	s, err := r.view(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = s.Close() }()
	a := &audit{snapshot: s, options: o, supply: make(map[[2]ids.ID]*Supply)}
	if a.networks, err = networksOf(ctx, s); err != nil {
		return nil, err
	}
	if err := a.outputs(ctx); err != nil {
		return nil, err
	}
	if err := a.accounts(ctx); err != nil {
		return nil, err
	}
	a.result.Addresses = a.sample.take()
	return &a.result, nil
}

type audit struct {
	*snapshot
	options AuditOptions
	result  Audit
	sample  sample
	supply  map[[2]ids.ID]*Supply
	// networks are the networks in the store.
	networks []uint32
	// spent are rows of lists of spent outputs that are not compared with their outputs yet.
	spent []listedRow
}

func (a *audit) wrong(format string, args ...any) { a.options.Wrong(fmt.Sprintf(format, args...)) }

func (a *audit) progress(what string, checked int) {
	if a.options.Progress != nil {
		a.options.Progress(what, checked)
	}
}

func (a *audit) missing(id ids.ID, list store.Family) {
	a.wrong("output %s is missing from list %s", id, list)
}

func (a *audit) different(id ids.ID, list store.Family) {
	a.wrong("output %s: list %s has different data", id, list)
}

func (a *audit) invalid(family store.Family, partition []byte) {
	a.wrong("a row of %s has the invalid partition %x", family, partition)
}

// networksOf returns the networks with a ledger in the store.
func networksOf(ctx context.Context, r store.Reader) (all []uint32, err error) {
	for one, err := range store.Rows(ctx, r, store.FamilyClock) {
		if err != nil {
			return nil, fmt.Errorf("reading chain tips: %w", err)
		}
		if len(one.P) == 4 {
			if id := binary.BigEndian.Uint32(one.P); !slices.Contains(all, id) {
				all = append(all, id)
			}
		}
	}
	return all, nil
}

// outputs checks every output of the network.
func (a *audit) outputs(ctx context.Context) error {
	prefix := row.Network(a.networkID)
	a.sample = sample{most: a.options.Addresses, seed: a.options.Seed}
	after := &store.PK{P: prefix}
	var page []*audited
	for {
		rows, err := a.Walk(ctx, store.FamilyOutput, after, auditPage)
		if err != nil {
			return fmt.Errorf("reading outputs: %w", err)
		}
		for _, one := range rows {
			if !bytes.HasPrefix(one.P, prefix) {
				return a.page(ctx, page)
			}
			id, err := ids.ToID(one.P[len(prefix):])
			if err != nil {
				a.invalid(store.FamilyOutput, one.P)
				continue
			}
			if n := len(page); n == 0 || page[n-1].id != id {
				if n >= auditPage {
					if err := a.page(ctx, page); err != nil {
						return err
					}
					page = page[:0]
				}
				page = append(page, &audited{id: id})
			}
			page[len(page)-1].take(a, one)
		}
		if len(rows) < auditPage {
			return a.page(ctx, page)
		}
		after = &rows[len(rows)-1].PK
	}
}

// audited is an output under audit.
type audited struct {
	id      ids.ID
	made    *Output
	spent   *spend
	account accountID
	between bool // two chains
}

func (o *audited) take(a *audit, one store.Entry) {
	var err error
	switch {
	case bytes.Equal(one.K, madeKey):
		o.made, err = parseOutput(o.id, one.V)
	case bytes.Equal(one.K, spentKey):
		var s spend
		if s, err = parseSpend(one.V); err == nil {
			o.spent = &s
		}
	default:
		err = fmt.Errorf("key %x", one.K)
	}
	if err != nil {
		a.wrong("output %s: cannot read its row: %v", o.id, err)
	}
}

// lists are the families that list outputs. The families of spent outputs come last.
var lists = [...]store.Family{store.FamilyUnspentByTime, store.FamilyUnspentByAmount, store.FamilySpentByTime, store.FamilySpentByAmount}

// page compares outputs with the lists of their accounts.
func (a *audit) page(ctx context.Context, page []*audited) error {
	var moving []ids.ID
	var listed []*audited
	keys := [len(lists)][]store.PK{}
	for _, o := range page {
		a.result.Outputs++
		if o.made == nil {
			if o.spent != nil && len(a.result.Arrived) < mostArrived {
				a.result.Arrived = append(a.result.Arrived, o.id)
			}
			continue
		}
		account, g, ok := accountOf(o.made.ChainID, &o.made.Output)
		if !ok {
			continue // no owners
		}
		for _, address := range g.addresses {
			a.sample.add(address)
		}
		o.account, o.between = account.id(a.networkID), account.atomic()
		if o.between && o.spent != nil {
			moving = append(moving, o.id)
		}
		listed = append(listed, o)
		for i, family := range lists {
			pk := store.PK{P: o.account[:], K: o.made.timeKey()}
			if family == store.FamilyUnspentByAmount || family == store.FamilySpentByAmount {
				pk.K = o.made.amountKey()
			}
			keys[i] = append(keys[i], pk)
		}
	}
	a.progress("outputs", a.result.Outputs)
	unmatched := make(map[ids.ID]bool)
	transfers, indexed, err := readTransfers(ctx, a, a.networkID, moving)
	if err != nil {
		return err
	}
	for i, p := range transfers {
		unmatched[p.output.ID] = !indexed[i] && p.account.holding != rights
	}
	var rows [len(lists)][][]byte
	for i, family := range lists {
		if rows[i], err = a.Get(ctx, family, keys[i]); err != nil {
			return fmt.Errorf("reading lists of outputs: %w", err)
		}
	}
	for n, o := range listed {
		spent := o.spent
		if unmatched[o.id] {
			spent = nil // the Matcher has not processed it yet
		}
		if spent == nil {
			a.count(o.made)
		}
		for i, family := range lists {
			var want []byte
			if isSpent := i >= len(lists)/2; isSpent == (spent != nil) {
				want = o.made.listed(i%2 == 1, spent)
			}
			got := rows[i][n]
			switch {
			case want == nil && got != nil:
				a.wrong("output %s must not be in list %s", o.id, family)
			case want != nil && got == nil:
				a.missing(o.id, family)
			case !bytes.Equal(want, got):
				a.different(o.id, family)
			}
		}
		if unmatched[o.id] {
			o.spent = nil
		}
	}
	if err := a.owned(ctx, listed); err != nil {
		return err
	}
	return a.paths(ctx, listed)
}

// owned compares outputs with the lists of their owners.
func (a *audit) owned(ctx context.Context, listed []*audited) error {
	var keys []store.PK
	for _, o := range listed {
		keys = append(keys, o.made.placed(a.networkID).owned...)
	}
	rows, err := a.Get(ctx, store.FamilyOwned, keys)
	if err != nil {
		return fmt.Errorf("reading lists of owners: %w", err)
	}
	for _, o := range listed {
		at := o.made.placed(a.networkID)
		for range at.owned {
			got := rows[0]
			rows = rows[1:]
			switch {
			case o.spent != nil && got != nil:
				a.wrong("output %s is in list %s but was consumed", o.id, store.FamilyOwned)
			case o.spent == nil && got == nil && o.made.Role != chain.Stake: // its period may not have ended
				a.missing(o.id, store.FamilyOwned)
			case got != nil && !bytes.Equal(got, o.made.owned(at)) && !bytes.Equal(got, o.made.Bytes): // earlier builds stored all
				a.different(o.id, store.FamilyOwned)
			}
		}
	}
	return nil
}

// pathRow is a row that leads from owners to the account of an output.
type pathRow struct {
	outputID ids.ID
	owners   *group
	pk       store.PK
	value    []byte
}

// mostPathRows limits the rows that are checked together. Those of the last account may exceed it.
const mostPathRows = 4096

// paths checks that the owners of outputs lead to their accounts.
func (a *audit) paths(ctx context.Context, listed []*audited) error {
	checked := make(map[accountID]struct{})
	rows := make(map[store.Family][]pathRow)
	for i, o := range listed {
		if _, ok := checked[o.account]; !ok {
			checked[o.account] = struct{}{}
			account, g, _ := accountOf(o.made.ChainID, &o.made.Output)
			account.paths(a.networkID, &g, func(family store.Family, pk store.PK, value []byte) {
				rows[family] = append(rows[family], pathRow{o.id, &g, pk, value})
			})
		}
		if i < len(listed)-1 && len(rows[store.FamilyOwners]) < mostPathRows {
			continue
		}
		for _, family := range []store.Family{store.FamilyAccount, store.FamilyOwners} {
			if err := a.pathRows(ctx, family, rows[family]); err != nil {
				return err
			}
		}
		clear(rows)
	}
	return nil
}

// pathRows reports rows of a list that are missing or different.
func (a *audit) pathRows(ctx context.Context, family store.Family, rows []pathRow) error {
	keys := make([]store.PK, len(rows))
	for i := range rows {
		keys[i] = rows[i].pk
	}
	found, err := a.Get(ctx, family, keys)
	if err != nil {
		return fmt.Errorf("reading lists of accounts: %w", err)
	}
	var copied *group // earlier builds stored many owners for each of them
	for i := range rows {
		switch one, got := &rows[i], found[i]; {
		case got != nil && bytes.Equal(got, one.value):
		case got != nil && len(one.value) == 0 && bytes.Equal(got, one.owners.bytes()):
			copied = one.owners
		case got == nil && len(one.value) > 0 && copied == one.owners:
		case got == nil:
			a.wrong("output %s: list %s lacks its account", one.outputID, family)
		default:
			a.different(one.outputID, family)
		}
	}
	return nil
}

// count adds an output to the supply.
func (a *audit) count(o *Output) {
	if o.Kind != chain.Transfer || o.AssetID != a.options.AssetID {
		return
	}
	at := [2]ids.ID{o.ChainID, o.DestinationID}
	s := a.supply[at]
	if s == nil {
		s = &Supply{ChainID: o.ChainID, DestinationID: o.DestinationID, AssetID: o.AssetID}
		for i := range s.Buckets {
			s.Buckets[i] = new(big.Int)
		}
		a.supply[at] = s
		a.result.Supply = append(a.result.Supply, s)
	}
	c, _ := a.clock(o.ChainID)
	sum := s.Buckets[o.bucketAt(c.time)]
	sum.Add(sum, new(big.Int).SetUint64(o.Amount))
}

// accounts compares each account's balance with its listed outputs, and its lists with one another.
func (a *audit) accounts(ctx context.Context) error {
	var listed [len(lists)]*puller
	for i, family := range lists {
		listed[i] = a.pull(ctx, family, len(accountID{}))
	}
	unspent, spent := listed[1], listed[3] // by amount
	events := a.pull(ctx, store.FamilyBalanceEvent, len(accountID{})+1)
	checkpoints := a.pull(ctx, store.FamilyBalanceCheckpoint, len(accountID{})+1)
	all := slices.Concat(listed[:], []*puller{events, checkpoints})
	defer func() {
		for _, p := range all {
			p.stop()
		}
	}()
	for {
		id, ok := least(all...)
		if err := failed(all...); err != nil {
			return err
		}
		if !ok {
			return a.compareSpent(ctx)
		}
		if a.result.Accounts%auditPage == 0 {
			a.progress("accounts", a.result.Accounts)
		}
		a.result.Accounts++
		owns, sole, err := a.unspent(ctx, unspent, id)
		if err != nil {
			return err
		}
		counts := [len(lists)]int64{1: owns.count}
		if counts[3], err = a.listedSpent(ctx, spent, id); err != nil {
			return err
		}
		for i, p := range listed {
			for ; p.ok && bytes.Equal(p.row.P, id[:]); p.next() {
				counts[i]++
			}
		}
		total, found, broken := a.series(events, checkpoints, id)
		if err := failed(all...); err != nil {
			return err
		}
		for _, rest := range []*puller{events, checkpoints} { // remaining rows belong to no series
			if broken == nil && rest.ok && bytes.HasPrefix(rest.row.P, id[:]) {
				a.wrong("account %x: a row of %s is out of place", id, rest.family)
			}
			for rest.ok && bytes.HasPrefix(rest.row.P, id[:]) {
				rest.next()
			}
		}
		for i := 0; i < len(lists); i += 2 {
			if counts[i] != counts[i+1] {
				a.wrong("account %x: list %s has %d outputs, list %s has %d", id, lists[i], counts[i], lists[i+1], counts[i+1])
			}
		}
		switch {
		case broken != nil:
			a.wrong("account %x: cannot read its balance: %v", id, broken)
		case found && total != owns:
			a.wrong("account %x has a balance of %s in %d outputs but lists %s in %d", id, total.amount.big(), total.count, owns.amount.big(), owns.count)
		case !found && owns != (tally{}) && !sole:
			a.wrong("account %x lists %s in %d outputs but has no balance", id, owns.amount.big(), owns.count)
		}
	}
}

// unspent sums the listed outputs of an account. It reports whether they are rights, which have no balance.
func (a *audit) unspent(ctx context.Context, rows *puller, id accountID) (sum tally, right bool, err error) {
	var page []listedRow
	look := func() error {
		last, err := a.compare(ctx, rows.family, page)
		right, page = right || last, page[:0]
		return err
	}
	for ; rows.ok && bytes.Equal(rows.row.P, id[:]); rows.next() {
		n, one, ok := a.listedRow(rows, id)
		if !ok {
			continue
		}
		if page = append(page, one); len(page) == auditPage {
			if err := look(); err != nil {
				return sum, false, err
			}
		}
		sum = sum.plus(tally{amount: quantity{lo: n}, count: 1})
	}
	return sum, right, errors.Join(look(), rows.err)
}

// listedSpent counts the listed spent outputs of an account. compareSpent compares them with those of other accounts.
func (a *audit) listedSpent(ctx context.Context, rows *puller, id accountID) (count int64, err error) {
	for ; rows.ok && bytes.Equal(rows.row.P, id[:]); rows.next() {
		_, one, ok := a.listedRow(rows, id)
		if !ok {
			continue
		}
		count++
		if a.spent = append(a.spent, one); len(a.spent) == auditPage {
			if err := a.compareSpent(ctx); err != nil {
				return count, err
			}
		}
	}
	return count, rows.err
}

func (a *audit) compareSpent(ctx context.Context) error {
	_, err := a.compare(ctx, store.FamilySpentByAmount, a.spent)
	a.spent = a.spent[:0]
	return err
}

// listedRow is a row of an account's list that is ordered by amount.
type listedRow struct {
	account  accountID
	outputID ids.ID
	key      []byte
}

// listedRow parses the next row of a list. It reports and refuses an invalid key.
func (a *audit) listedRow(rows *puller, id accountID) (amount uint64, one listedRow, ok bool) {
	amount, outputID, err := parseKey(rows.row.K)
	if err != nil {
		a.wrong("account %x: %v", id, err)
		return 0, one, false
	}
	return amount, listedRow{id, outputID, rows.row.K}, true
}

// compare reports rows of a list that no output of any network has. It returns whether the last of the other rows lists a
// right.
func (a *audit) compare(ctx context.Context, family store.Family, rows []listedRow) (right bool, err error) {
	indexed := make(map[ids.ID]bool)
	for _, networkID := range a.networks {
		outputIDs := make([]ids.ID, len(rows))
		for i, one := range rows {
			outputIDs[i] = one.outputID
		}
		s := snapshot{View: a.View, networkID: networkID}
		found, err := s.outputs(ctx, outputIDs)
		if errors.Is(err, store.ErrCorrupt) {
			a.wrong("outputs in list %s: %v", family, err)
			return right, nil
		}
		if err != nil {
			return right, err
		}
		var others []listedRow // that may belong to another network
		for i, one := range rows {
			o := found[i]
			if o == nil {
				others = append(others, one)
				continue
			}
			indexed[one.outputID] = true
			account, _, ok := accountOf(o.ChainID, &o.Output)
			if !ok || account.id(networkID) != one.account || !bytes.Equal(o.amountKey(), one.key) {
				others = append(others, one)
				continue
			}
			right = account.holding == rights
		}
		rows = others
	}
	for _, one := range rows {
		if indexed[one.outputID] {
			a.wrong("output %s must not be in list %s of account %x", one.outputID, family, one.account)
		} else {
			a.wrong("output %s is in list %s of account %x but not indexed", one.outputID, family, one.account)
		}
	}
	return right, nil
}

// series sums the events of an account and compares its checkpoints with the sums. At the end of time every output is
// unlocked, so a rest in another bucket is an error.
func (a *audit) series(events, checkpoints *puller, id accountID) (total tally, found bool, err error) {
	var final sums
	for s := seriesMade; s <= seriesUnphase; s++ {
		p := id.partition(s)
		var sum sums
		// A checkpoint covers the events before its key.
		check := func(before []byte) error {
			for ; checkpoints.ok && bytes.Equal(checkpoints.row.P, p) && (before == nil || bytes.Compare(checkpoints.row.K, before) <= 0); checkpoints.next() {
				var said sums
				if err := said.addRow(checkpoints.row.V); err != nil {
					return err
				}
				if said != sum {
					at, _ := eventTime(checkpoints.row.K)
					a.wrong("account %x: the checkpoint at %d differs from the sum of earlier events", id, at)
				}
			}
			return nil
		}
		for ; events.ok && bytes.Equal(events.row.P, p); events.next() {
			found = true
			if len(events.row.K) < 8 {
				return total, found, fmt.Errorf("%w: event at a key of %d bytes", store.ErrCorrupt, len(events.row.K))
			}
			if err := errors.Join(check(events.row.K), sum.addRow(events.row.V)); err != nil {
				return total, found, err
			}
		}
		if err := check(nil); err != nil {
			return total, found, err
		}
		final.add(&sum)
	}
	for b, one := range final {
		total = total.plus(one)
		if last := Bucket(b); last != UnlockedUnstaked && last != AtomicMemoryUnlocked && one != (tally{}) {
			a.wrong("account %x: %s in %d outputs never leaves bucket %d, which is locked or staked", id, one.amount.big(), one.count, b)
		}
	}
	return total, found, failed(events, checkpoints)
}

// puller iterates over a family. It reports and skips rows whose partition has an invalid length.
type puller struct {
	audit  *audit
	family store.Family
	length int // of a partition
	pull   func() (store.Entry, error, bool)
	stop   func()
	row    store.Entry
	ok     bool // there is a row
	err    error
}

func (a *audit) pull(ctx context.Context, family store.Family, length int) *puller {
	p := &puller{audit: a, family: family, length: length}
	p.pull, p.stop = iter.Pull2(store.Rows(ctx, a, family))
	p.next()
	return p
}

func (p *puller) next() {
	for {
		p.row, p.err, p.ok = p.pull()
		if p.ok = p.ok && p.err == nil; !p.ok || len(p.row.P) == p.length {
			return
		}
		p.audit.invalid(p.family, p.row.P)
	}
}

// failed returns the errors of reads. A puller that failed has no row.
func failed(all ...*puller) (err error) {
	for _, p := range all {
		err = errors.Join(err, p.err)
	}
	return err
}

// least returns the smallest account among the next rows.
func least(all ...*puller) (id accountID, ok bool) {
	for _, p := range all {
		if !p.ok {
			continue
		}
		var its accountID
		copy(its[:], p.row.P)
		if !ok || bytes.Compare(its[:], id[:]) < 0 {
			id, ok = its, true
		}
	}
	return id, ok
}

// sample selects the addresses that are nearest to a seed by XOR distance.
type sample struct {
	most int
	seed ids.ShortID
	// found are the selected addresses by distance; it may temporarily exceed most.
	found map[ids.ShortID]struct{}
	bound *ids.ShortID // the greatest distance of interest
}

func (s *sample) add(address ids.ShortID) {
	if s.most <= 0 {
		return
	}
	for i := range address {
		address[i] ^= s.seed[i]
	}
	if s.bound != nil && address.Compare(*s.bound) > 0 {
		return
	}
	if s.found == nil {
		s.found = make(map[ids.ShortID]struct{})
	}
	s.found[address] = struct{}{}
	if len(s.found) >= 2*s.most+16 {
		s.shrink()
	}
}

// shrink drops excess addresses and returns the others.
func (s *sample) shrink() []ids.ShortID {
	all := make([]ids.ShortID, 0, len(s.found))
	for address := range s.found {
		all = append(all, address)
	}
	slices.SortFunc(all, ids.ShortID.Compare)
	if len(all) > s.most {
		all = all[:s.most]
		s.bound = &all[s.most-1]
	}
	clear(s.found)
	for _, address := range all {
		s.found[address] = struct{}{}
	}
	return all
}

func (s *sample) take() []ids.ShortID {
	all := s.shrink()
	for i := range all {
		for j := range all[i] {
			all[i][j] ^= s.seed[j]
		}
	}
	return all
}
