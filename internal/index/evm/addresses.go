package evm

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/ava-labs/libevm/common"

	"quorate/internal/chain/evm"
	"quorate/internal/store"
)

// Kinds of lists of an address. 0 and 1 would be escaped in a partition. Earlier versions had other lists with 3.
const (
	// partyTxs lists the transactions that the address sent or received.
	partyTxs        byte = 2
	erc20Transfers  byte = 4
	erc721Transfers byte = 5
)

// addresses lists a transaction for its sender and its recipient, and its transfers for their sides. Other lists have the
// ERC-1155 transfers and the internal transactions of addresses.
func (a *application) addresses(tx *evm.Transaction, at place, transfers []evm.Transfer) {
	recipient := tx.Created
	if tx.To != nil {
		recipient = *tx.To
	}
	k, v := at.appendTx(a.reserve(txPlaceSize)), a.kept(appendOutcome(a.value(), tx.Success))
	a.batch.Add(store.FamilyEVMAddressTx, store.PK{P: a.in(tx.From[:], []byte{partyTxs}), K: k}, v)
	if recipient != tx.From {
		a.batch.Add(store.FamilyEVMAddressTx, store.PK{P: a.in(recipient[:], []byte{partyTxs}), K: k}, v)
	}
	for i := range transfers {
		a.tokenTransfer(&transfers[i], at)
		a.contractTransfer(&transfers[i], at)
	}
}

// appendOutcome appends whether a transaction succeeded.
func appendOutcome(b []byte, success bool) []byte {
	if success {
		return append(b, 1)
	}
	return append(b, 0)
}

// tokenTransfer lists an ERC-20 or ERC-721 transfer for both sides.
func (a *application) tokenTransfer(t *evm.Transfer, at place) {
	kind := transfersKind(t.Standard)
	if kind == 0 {
		return
	}
	at.minor = t.LogIndex
	k, v := at.appendTo(a.reserve(placeSize)), a.kept(appendTransfer(a.value(), t))
	a.batch.Add(store.FamilyEVMTokenTransfer, store.PK{P: a.in(t.From[:], []byte{kind}), K: k}, v)
	if t.To != t.From {
		a.batch.Add(store.FamilyEVMTokenTransfer, store.PK{P: a.in(t.To[:], []byte{kind}), K: k}, v)
	}
}

// transfersKind returns the kind of the lists of transfers, 0 for ERC-1155, which has lists of its own.
func transfersKind(standard evm.Standard) byte {
	switch standard {
	case evm.ERC20:
		return erc20Transfers
	case evm.ERC721:
		return erc721Transfers
	default:
		return 0
	}
}

// InteractionQuery selects the transactions of an address.
type InteractionQuery struct {
	WalletQuery
	// Oldest lists the oldest first.
	Oldest bool
}

// InteractionPage is a page of the transactions of an address.
type InteractionPage struct {
	// Transactions have only the transfers and internal transactions from or to the address. Their Traced and Message are not
	// set.
	Transactions []TransactionDetails
	// TracesMissing spans the selected blocks without call traces; transactions that only moved value to or from the
	// address in a call are missing.
	TracesMissing *Span
	// First is the first block that the list covers.
	First uint64
	// Next is the position of the next page, nil on the last page.
	Next []byte
}

// keyRange is the rest of a list.
type keyRange struct {
	lo, hi []byte
	dir    store.Direction
}

// rangeOf returns the range of a list in the blocks from first on. ok is false if it is empty.
func (s *state) rangeOf(q *WalletQuery, first uint64, size int, oldest bool) (k keyRange, ok bool, err error) {
	start := q.Start
	if start == nil || *start < first {
		start = &first
	}
	if !oldest {
		k.lo, k.hi, ok, err = s.listKeys(start, q.End, q.After, size)
		return k, ok, err
	}
	if err := s.checkPosition(q.After, size); err != nil {
		return k, false, err
	}
	k.dir = store.Descending
	if k.lo, k.hi, ok, err = s.listKeys(start, q.End, nil, size); ok && q.After != nil {
		ok = k.skip(q.After)
	}
	return k, ok, err
}

// skip removes the rows up to a key and reports whether any may be left.
func (k *keyRange) skip(key []byte) bool {
	if k.dir == store.Ascending {
		k.lo = store.After(key)
	} else if k.hi == nil || bytes.Compare(key, k.hi) < 0 {
		k.hi = key
	}
	return k.hi == nil || bytes.Compare(k.lo, k.hi) < 0
}

// NativeTransactions lists the transactions that an address sent or received, newest first. It returns an OffError if
// AddressTransactions is off.
func (r *Index) NativeTransactions(ctx context.Context, q WalletQuery) (*TransactionPage, error) {
	q.Limit = limitOf(q.Limit)
	s, first, err := r.viewOf(ctx, AddressTransactions)
	if err != nil {
		return nil, err
	}
	defer s.close()
	p := &TransactionPage{First: first}
	k, ok, err := s.rangeOf(&q, p.First, txPlaceSize, false)
	if err != nil || !ok {
		return p, err
	}
	rows, err := s.partyRows(ctx, q.Wallet, &k, q.Limit+1)
	if err != nil {
		return nil, err
	}
	rows, p.Next = page(rows, q.Limit)
	p.Transactions, err = s.transactionsOf(ctx, rows)
	return p, err
}

// partyRows returns the places of transactions that an address sent or received, and how they ended.
func (s *state) partyRows(ctx context.Context, who common.Address, k *keyRange, limit int) ([]store.Row, error) {
	rows, err := s.Scan(ctx, store.FamilyEVMAddressTx, s.chain.partition(who[:], []byte{partyTxs}), k.lo, k.hi, k.dir, limit)
	if err != nil {
		return nil, fmt.Errorf("reading the transactions of %s: %w", who, err)
	}
	return rows, nil
}

// transactionsOf returns the transactions at the places of rows of an address.
func (s *state) transactionsOf(ctx context.Context, rows []store.Row) ([]Transaction, error) {
	places, success := make([]place, len(rows)), make([]bool, len(rows))
	for i, row := range rows {
		var ok bool
		if places[i], ok = placeOf(row.K); !ok {
			return nil, fmt.Errorf("%w: transaction at %x", store.ErrCorrupt, row.K)
		}
		v := read(row.V)
		success[i] = v.Byte() != 0
		if err := v.End(); err != nil {
			return nil, err
		}
	}
	return s.transactionsAt(ctx, places, func(i int) bool { return success[i] })
}

// transactionsAt returns the transactions at places. success reports how they ended.
func (s *state) transactionsAt(ctx context.Context, places []place, success func(i int) bool) ([]Transaction, error) {
	if len(places) == 0 {
		return nil, nil
	}
	keys := make([]store.PK, len(places))
	for i, at := range places {
		keys[i] = store.PK{P: s.chain.txPartition(success(i), at.number>>rangeBits), K: at.appendTx(nil)}
	}
	values, err := s.Get(ctx, store.FamilyEVMTx, keys)
	if err != nil {
		return nil, fmt.Errorf("reading %d transactions: %w", len(keys), err)
	}
	txs, v := make([]Transaction, len(places)), new(reader)
	for i, at := range places {
		if values[i] == nil {
			return nil, fmt.Errorf("%w: no transaction %d in block %d", store.ErrCorrupt, at.major, at.number)
		}
		v.Begin(values[i])
		v.tx(at, &txs[i])
		if err := v.End(); err != nil {
			return nil, err
		}
	}
	return txs, nil
}

// TokenTransfers lists the ERC-20 or ERC-721 transfers from or to a wallet, newest first. It returns an OffError if
// AddressTransactions is off.
func (r *Index) TokenTransfers(ctx context.Context, standard evm.Standard, q WalletQuery) (*TransferPage, error) {
	q.Limit = limitOf(q.Limit)
	return classified(ctx, r, func(s *state, c *classifier) (*TransferPage, error) { return s.tokenTransfersPage(ctx, c, standard, q) })
}

func (s *state) tokenTransfersPage(ctx context.Context, c *classifier, standard evm.Standard, q WalletQuery) (*TransferPage, error) {
	first, err := s.firstOf(ctx, AddressTransactions)
	if err != nil {
		return nil, err
	}
	p := &TransferPage{First: first}
	k, ok, err := s.rangeOf(&q, p.First, placeSize, false)
	if err != nil || !ok {
		return p, err
	}
	var kept []store.Row
	var scanned []byte // the last key of a page that ends short
	for chunk, full := range chunks(q.Limit) {
		rows, transfers, err := s.tokenTransfers(ctx, q.Wallet, standard, &k, chunk)
		if err != nil {
			return nil, err
		}
		if err := c.learn(len(transfers), func(i int) common.Address { return transfers[i].Contract }); err != nil {
			return nil, err
		}
		for i := range transfers {
			if c.follows(transfers[i].Contract, standard) && len(p.Transfers) <= q.Limit {
				p.Transfers, kept = append(p.Transfers, TokenTransfer{Transfer: transfers[i]}), append(kept, rows[i])
			}
		}
		if len(rows) < chunk || len(p.Transfers) > q.Limit {
			break
		}
		last := rows[len(rows)-1].K
		if full {
			scanned = last
			break
		}
		if !k.skip(last) {
			break
		}
	}
	if kept, p.Next = page(kept, q.Limit); p.Next == nil {
		p.Next = scanned
	}
	p.Transfers = p.Transfers[:len(kept)]
	return p, s.locate(ctx, kept, p.Transfers)
}

// tokenTransfers returns transfers of a wallet and their rows.
func (s *state) tokenTransfers(ctx context.Context, wallet common.Address, standard evm.Standard, k *keyRange, limit int) ([]store.Row, []evm.Transfer, error) {
	rows, err := s.Scan(ctx, store.FamilyEVMTokenTransfer, s.chain.partition(wallet[:], []byte{transfersKind(standard)}), k.lo, k.hi, k.dir, limit)
	if err != nil {
		return nil, nil, fmt.Errorf("reading transfers: %w", err)
	}
	transfers := make([]evm.Transfer, len(rows))
	for i, row := range rows {
		at, ok := placeOf(row.K)
		if !ok || len(row.K) != placeSize {
			return nil, nil, fmt.Errorf("%w: transfer at %x", store.ErrCorrupt, row.K)
		}
		v := read(row.V)
		transfers[i] = v.transfer(at.minor, 0)
		if err := v.End(); err != nil {
			return nil, nil, err
		}
	}
	return rows, transfers, nil
}

// locate sets the blocks and transactions of transfers. Transactions with logs succeeded.
func (s *state) locate(ctx context.Context, rows []store.Row, transfers []TokenTransfer) error {
	var places []place
	of := make([]int, len(rows))
	for i, row := range rows {
		at, _ := placeOf(row.K[:txPlaceSize])
		if len(places) == 0 || at != places[len(places)-1] {
			places = append(places, at)
		}
		of[i] = len(places) - 1
	}
	txs, err := s.transactionsAt(ctx, places, func(int) bool { return true })
	if err != nil {
		return err
	}
	for i := range transfers {
		transfers[i].Block, transfers[i].TxHash = txs[of[i]].Block, txs[of[i]].Hash
	}
	return nil
}

// maxEffects is the number of rows of each kind above which a page of transactions with their effects gets shorter.
const maxEffects = 10_000

// Interactions lists the transactions that concern an address: that it sent or received, or that have transfers or internal
// transactions from or to it. A page may be shorter than the limit if its transactions have many of these. It returns an
// OffError if AddressTransactions is off.
func (r *Index) Interactions(ctx context.Context, q InteractionQuery) (*InteractionPage, error) {
	q.Limit = limitOf(q.Limit)
	return classified(ctx, r, func(s *state, c *classifier) (*InteractionPage, error) { return s.interactions(ctx, c, q) })
}

func (s *state) interactions(ctx context.Context, c *classifier, q InteractionQuery) (*InteractionPage, error) {
	first, err := s.firstOf(ctx, AddressTransactions)
	if err != nil {
		return nil, err
	}
	p := &InteractionPage{First: first}
	k, ok, err := s.rangeOf(&q.WalletQuery, p.First, txPlaceSize, q.Oldest)
	if err != nil || !ok {
		return p, err
	}
	if p.TracesMissing, err = s.tracesMissing(ctx, q.Start, q.End); err != nil {
		return nil, err
	}
	var last []byte
	for chunk, full := range chunks(q.Limit) {
		rows, more, err := s.concerning(ctx, q.Wallet, k, chunk)
		if err != nil {
			return nil, err
		}
		found, err := s.effectsOf(ctx, c, q.Wallet, rows)
		if err != nil {
			return nil, err
		}
		for i := range found {
			tx := &found[i]
			if tx.Transaction.From != q.Wallet && tx.Transaction.Recipient != q.Wallet && len(tx.Transfers)+len(tx.Internals) == 0 {
				continue // only contracts that follow no standard named the address
			}
			if len(p.Transactions) == q.Limit {
				p.Next = last
				return p, nil
			}
			p.Transactions, last = append(p.Transactions, *tx), rows[i].K
		}
		if !more && len(found) == len(rows) {
			break
		}
		last = rows[len(found)-1].K
		if full || len(found) < chunk && len(p.Transactions) > 0 { // the transactions have many effects
			p.Next = last
			break
		}
		if !k.skip(last) {
			break
		}
	}
	return p, nil
}

// effectsOf returns the transactions of rows with their effects on an address: at least one, and fewer than there are
// rows if these have too many effects.
func (s *state) effectsOf(ctx context.Context, c *classifier, who common.Address, rows []store.Row) ([]TransactionDetails, error) {
	for {
		txs, err := s.transactionsOf(ctx, rows)
		if err != nil || len(txs) == 0 {
			return nil, err
		}
		e := &effects{state: s, who: who, most: maxEffects}
		if len(txs) == 1 {
			e.most = math.MaxInt - 1
		}
		switch complete, err := e.read(ctx, txs); {
		case err != nil:
			return nil, err
		case complete:
			return e.details, e.believe(c)
		}
		rows = rows[:len(rows)/2]
	}
}

// effects reads the transfers and internal transactions of an address in transactions.
type effects struct {
	*state
	who  common.Address
	most int // rows of each kind

	details []TransactionDetails
	byPlace map[place]*TransactionDetails // minor is 0
	byHash  map[common.Hash]*TransactionDetails
}

// read sets details. complete is false if there are more than most rows of a kind.
func (e *effects) read(ctx context.Context, txs []Transaction) (complete bool, err error) {
	e.details = make([]TransactionDetails, len(txs))
	e.byPlace, e.byHash = make(map[place]*TransactionDetails), make(map[common.Hash]*TransactionDetails)
	newest, oldest := placeOfTx(&txs[0]), placeOfTx(&txs[len(txs)-1])
	if newest.number < oldest.number || newest.number == oldest.number && newest.major < oldest.major {
		newest, oldest = oldest, newest
	}
	for i := range txs {
		d := &e.details[i]
		d.Transaction = txs[i]
		e.byPlace[placeOfTx(&txs[i])], e.byHash[txs[i].Hash] = d, d
	}
	newest.minor = math.MaxUint32
	k := keyRange{lo: newest.appendTo(nil), hi: store.After(oldest.appendTo(nil))}
	blocks := keyRange{lo: newestKey(newest.number)}
	if oldest.number > 0 {
		blocks.hi = newestKey(oldest.number - 1)
	}
	for _, read := range []func() (bool, error){
		func() (bool, error) { return e.tokens(ctx, evm.ERC20, k) },
		func() (bool, error) { return e.tokens(ctx, evm.ERC721, k) },
		func() (bool, error) { return e.erc1155(ctx, blocks) },
		func() (bool, error) { return e.internals(ctx, k) },
	} {
		if complete, err := read(); err != nil || !complete {
			return false, err
		}
	}
	for i := range e.details {
		slices.Reverse(e.details[i].Internals)
		slices.SortFunc(e.details[i].Transfers, func(a, b TokenTransfer) int {
			return cmp.Or(cmp.Compare(a.LogIndex, b.LogIndex), cmp.Compare(a.Position, b.Position))
		})
	}
	return true, nil
}

func placeOfTx(tx *Transaction) place { return place{number: tx.Block.Number, major: tx.Index} }

// each passes the rows of a range to use, in order. complete is false if there are more than most.
func (e *effects) each(k keyRange, scan func(k *keyRange, limit int) ([]store.Row, error), use func(row store.Row) error) (complete bool, err error) {
	for n := 0; n <= e.most; {
		rows, err := scan(&k, scanRows)
		if err != nil {
			return false, err
		}
		for _, row := range rows {
			if err := use(row); err != nil {
				return false, err
			}
		}
		n += len(rows)
		if len(rows) < scanRows || !k.skip(rows[len(rows)-1].K) {
			return n <= e.most, nil
		}
	}
	return false, nil
}

func (e *effects) tokens(ctx context.Context, standard evm.Standard, k keyRange) (bool, error) {
	var transfers []evm.Transfer
	scan := func(k *keyRange, limit int) (rows []store.Row, err error) {
		rows, transfers, err = e.tokenTransfers(ctx, e.who, standard, k, limit)
		return rows, err
	}
	return e.each(k, scan, func(row store.Row) error {
		at, _ := placeOf(row.K[:txPlaceSize])
		if d := e.byPlace[at]; d != nil {
			d.Transfers = append(d.Transfers, TokenTransfer{Block: d.Transaction.Block, TxHash: d.Transaction.Hash, Transfer: transfers[0]})
		}
		transfers = transfers[1:]
		return nil
	})
}

// list returns a function that scans a list of the address.
func (e *effects) list(ctx context.Context, family store.Family) func(k *keyRange, limit int) ([]store.Row, error) {
	return func(k *keyRange, limit int) ([]store.Row, error) {
		rows, err := e.Scan(ctx, family, e.chain.partition(e.who[:]), k.lo, k.hi, k.dir, limit)
		if err != nil {
			return nil, fmt.Errorf("reading transfers and internal transactions of %s: %w", e.who, err)
		}
		return rows, nil
	}
}

// erc1155 reads the ERC-1155 transfers, whose keys do not say which transaction they belong to.
func (e *effects) erc1155(ctx context.Context, k keyRange) (bool, error) {
	return e.each(k, e.list(ctx, store.FamilyEVMTransfer), func(row store.Row) error {
		moved, err := inPlaces([]store.Row{row}, "transfer", (*reader).tokenTransfer)
		if err != nil {
			return err
		}
		if d := e.byHash[moved[0].TxHash]; d != nil {
			d.Transfers = append(d.Transfers, moved[0])
		}
		return nil
	})
}

func (e *effects) internals(ctx context.Context, k keyRange) (bool, error) {
	return e.each(k, e.list(ctx, store.FamilyEVMInternal), func(row store.Row) error {
		internals, err := inPlaces([]store.Row{row}, "internal transaction", (*reader).internal)
		if err != nil {
			return err
		}
		at, _ := placeOf(row.K[:txPlaceSize])
		if d := e.byPlace[at]; d != nil {
			d.Internals = append(d.Internals, internals[0])
		}
		return nil
	})
}

// believe removes the transfers of contracts that do not follow the standard.
func (e *effects) believe(c *classifier) error {
	var contracts []common.Address
	for i := range e.details {
		for j := range e.details[i].Transfers {
			contracts = append(contracts, e.details[i].Transfers[j].Contract)
		}
	}
	if err := c.learn(len(contracts), func(i int) common.Address { return contracts[i] }); err != nil {
		return err
	}
	for i := range e.details {
		d := &e.details[i]
		d.Transfers = slices.DeleteFunc(d.Transfers, func(t TokenTransfer) bool { return !c.follows(t.Contract, t.Standard) })
	}
	return nil
}

// within returns the part of a span from start on and before end, nil if there is none.
func within(start, end *uint64, from, to uint64) *Span {
	if start != nil {
		from = max(from, *start)
	}
	if end != nil {
		if *end == 0 {
			return nil
		}
		to = min(to, *end-1)
	}
	if from > to {
		return nil
	}
	return &Span{from, to}
}
