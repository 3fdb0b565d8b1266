package evm

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/libevm/common"

	"quorate/internal/chain/evm"
	"quorate/internal/index"
	"quorate/internal/index/internal/recent"
	"quorate/internal/store"
)

// name is the name of the projection.
const name = "evm"

// Form returns the form of the index's rows. Version 2 has ICM messages, version 3 the gas, fees and number of
// transactions of blocks.
func Form() index.Form {
	ofProjection := index.CursorOf(name)
	return index.Form{
		Name: name, Version: 3, Reads: 1, // older rows lack ICM messages or parts of blocks: see ErrNoICM and ErrNoBlocks
		Cursor: func(cursor string) bool { return ofProjection(cursor) || strings.HasPrefix(cursor, fillPrefix) },
		Families: []store.Family{
			store.FamilyEVMHead, store.FamilyEVMBlock, store.FamilyEVMTx, store.FamilyEVMTxRange, store.FamilyEVMTxHash,
			store.FamilyEVMInternal, store.FamilyEVMTransfer, store.FamilyEVMBalance, store.FamilyEVMBalanceAt,
			store.FamilyEVMOwner, store.FamilyEVMSupply, store.FamilyEVMContract, store.FamilyEVMDeployer, store.FamilyEVMDeployment, store.FamilyEVMDay,
			store.FamilyEVMUntraced, store.FamilyEVMICM, store.FamilyEVMICMList, store.FamilyEVMICMLog,
			store.FamilyEVMAddressTx, store.FamilyEVMTokenTransfer, store.FamilyEVMContractTransfer, store.FamilyEVMTokenBalance, store.FamilyEVMTokenBalanceAt,
			store.FamilyEVMPeriod, store.FamilyEVMActor, store.FamilyEVMLastActive, store.FamilyEVMChecked,
		},
	}
}

var (
	// ErrChain means that the rows at this chain's keys belong to another chain.
	ErrChain = errors.New("rows of another chain")
	// ErrOrder means that a block neither follows the last one nor begins an index.
	ErrOrder = errors.New("block does not come next")
	// ErrTime means that a block's time precedes that of its parent or follows the year 9999.
	ErrTime = errors.New("time cannot be right")
)

// caches holds the sizes of a projection's caches, in entries.
type caches struct{ holdings, supplies, emitters int }

const (
	// daySeconds is the length of a UTC day.
	daySeconds = 86_400
	// maxTime is the last second of the year 9999.
	maxTime = 253_402_300_799
)

// Projection indexes one EVM chain. It is the only writer of the chain's rows.
//
// Projection derives ERC-1155 balances from the events of all contracts; Index decides which contracts to trust. If an
// event transfers more than the sender's balance, that balance becomes 0. A balance is capped at 2^256-1. The zero
// address has no balance.
//
// Indexing a chain again from its first block, over existing rows, gives the same result.
type Projection struct {
	blockchainID ids.ID
	chain        chainKey
	caches       caches

	// begun reports whether head belongs to the preceding block, and logging whether the log of ICM events has begun.
	begun   bool
	logging bool
	head    head
	// replaced is the last block of an earlier index that this one replaces. Its head is there until the first commit.
	replaced *uint64
	// ranges holds the last listed height range plus one, by outcome of the transactions; 0 means none.
	ranges                    [2]uint64
	untraced                  openRange
	emitters                  map[common.Address]struct{} // contracts already listed
	addressTxs, tokenBalances optional
	chainMetrics              optional
	periods                   [len(intervals)]*running
	checked                   run
	actors                    *recent.Map[common.Address, actor]
	tallies                   *recent.Map[tallyKey, tally]
	acting                    map[common.Address]bool // addresses of the current block, and whether they send
	shifts                    map[tallyKey]shift      // of the current block
	holdings                  *recent.Map[holdingKey, *holding]
	supplies                  *recent.Map[tokenKey, *supply]
	sums                      *recent.Map[sumKey, *supply] // of ERC-20 transfers

	// Buffers that applications reuse.
	transfers []evm.Transfer
	ends      []int
	scratch   []byte
	room      []byte
}

var _ index.Projection[*evm.Block] = (*Projection)(nil)

// NewProjection returns a projection that indexes one chain of a network. It serves one pipeline.
func NewProjection(networkID uint32, blockchainID ids.ID) *Projection {
	t := &Projection{
		blockchainID: blockchainID, chain: keyOf(networkID, blockchainID), caches: caches{20_000, 5_000, 20_000},
		addressTxs: optional{index: AddressTransactions}, tokenBalances: optional{index: TokenBalances}, chainMetrics: optional{index: ChainMetrics},
		acting: make(map[common.Address]bool), shifts: make(map[tallyKey]shift),
	}
	t.reset()
	return t
}

// Among reduces the caches of a new projection in a process with that many chains, so that their sum stays bounded.
func (t *Projection) Among(chains int) *Projection {
	t.caches = caches{share(t.caches.holdings, chains), share(t.caches.supplies, chains), share(t.caches.emitters, chains)}
	t.reset()
	return t
}

// roomy is the number of chains that may each have full caches. leastShare is the minimum cache size of each chain, in
// entries.
const (
	roomy      = 4
	leastShare = 500
)

// share returns the number of cache entries of each of several chains.
func share(entries, chains int) int {
	return max(min(entries, leastShare), min(entries, entries*roomy/max(chains, 1)))
}

// Name implements index.Projection.
func (*Projection) Name() string { return name }

func (t *Projection) reset() {
	t.begun, t.logging, t.head, t.replaced = false, false, head{}, nil
	t.checked = run{}
	t.ranges = [2]uint64{}
	t.untraced = openRange{}
	t.emitters = make(map[common.Address]struct{})
	for _, o := range t.optionals() {
		o.begun = false
	}
	t.periods = [len(intervals)]*running{}
	t.actors = recent.New[common.Address, actor](t.caches.holdings)
	t.tallies = recent.New[tallyKey, tally](t.caches.supplies)
	t.holdings = recent.New[holdingKey, *holding](t.caches.holdings)
	t.supplies = recent.New[tokenKey, *supply](t.caches.supplies)
	t.sums = recent.New[sumKey, *supply](t.caches.holdings)
}

// Apply implements index.Projection. It returns ErrChain, ErrOrder, ErrTime, or errors of the store.
func (t *Projection) Apply(ctx context.Context, r store.Reader, block *evm.Block, batch *store.Batch) error {
	if err := t.begin(ctx, r, block); err != nil {
		return err
	}
	parentTime := t.head.tip.Time
	t.head.tip = refOf(block)
	if err := t.again(ctx, r, batch); err != nil {
		return err
	}
	if block.Number == t.head.first {
		batch.Put(store.FamilyEVMICM, t.chain.headRow(), []byte{version})
	}
	if err := t.beginICMLog(ctx, r, batch); err != nil {
		return err
	}
	for _, o := range t.optionals() {
		if err := t.beginOptional(ctx, r, batch, o); err != nil {
			return err
		}
	}
	if err := t.check(ctx, r, block, batch); err != nil {
		return err
	}
	a := &application{Projection: t, block: block, batch: batch, ref: appendRef(nil, &t.head.tip), parentTime: parentTime}
	a.readLogs()
	if err := a.resolve(ctx, r); err != nil {
		return err
	}
	if err := a.resolveSums(ctx, r); err != nil {
		return err
	}
	for i := range block.Transactions {
		a.tx(i)
	}
	a.balances()
	a.sumBalances()
	if err := a.changePeriods(ctx, r); err != nil {
		return err
	}
	if n := uint64(len(block.Transactions)); n > 0 {
		t.head.txs, t.head.busy = t.head.txs+n, block.Number
		batch.Put(store.FamilyEVMDay, store.PK{P: t.chain.partition(), K: uint64Key(block.Time / daySeconds)}, countBytes(t.head.txs))
		if block.Traced {
			t.untraced.open = false
		} else if err := t.without(ctx, r, block.Number, batch); err != nil {
			return err
		}
	}
	batch.Put(store.FamilyEVMBlock, t.chain.blockRow(block.Number), appendBlock(append([]byte{version}, a.ref...), block, &t.head))
	batch.Put(store.FamilyEVMHead, t.chain.headRow(), t.head.bytes())
	return nil
}

func refOf(block *evm.Block) BlockRef {
	return BlockRef{
		Number: block.Number, Hash: block.Hash, Time: block.Time, Milliseconds: block.Milliseconds,
		MinDelayExcess: block.MinDelayExcess, BaseFee: block.BaseFee,
	}
}

func countBytes(n uint64) []byte { return binary.AppendUvarint([]byte{version}, n) }

// begin makes the caches match the preceding blocks.
func (t *Projection) begin(ctx context.Context, r store.Reader, block *evm.Block) error {
	next := t.begun && block.Number == t.head.tip.Number+1
	if len(t.emitters) >= t.caches.emitters {
		clear(t.emitters)
	}
	if !next || t.holdings.Full() || t.supplies.Full() || t.sums.Full() || t.actors.Full() || t.tallies.Full() {
		committed, err := readHead(ctx, r, &t.chain)
		switch {
		case err != nil:
			return err
		case committed == nil:
		case committed.chainID != t.blockchainID:
			return fmt.Errorf("%w: of %s, not of %s", ErrChain, committed.chainID, t.blockchainID)
		case t.replaced != nil && *t.replaced == committed.tip.Number: // of the earlier index, or of a commit up to the same block
		case next && committed.tip.Number < block.Number:
			t.holdings.Forget(committed.tip.Number)
			t.supplies.Forget(committed.tip.Number)
			t.sums.Forget(committed.tip.Number)
			t.actors.Forget(committed.tip.Number)
			t.tallies.Forget(committed.tip.Number)
		}
		if !next {
			// The batches behind the caches may not have been written.
			t.reset()
			switch {
			case committed != nil && block.Number == committed.tip.Number+1:
				t.head = *committed
			case committed != nil && block.Number > committed.first && block.Number <= committed.tip.Number:
				return fmt.Errorf("%w: blocks %d to %d are indexed, %d is neither the next nor the first", ErrOrder,
					committed.first, committed.tip.Number, block.Number)
			default:
				t.head = head{chainID: t.blockchainID, first: block.Number}
				if committed != nil {
					t.untraced.anew, t.replaced = committed.untraced, &committed.tip.Number
				}
			}
			t.begun = true
		}
	}
	if block.Time < t.head.tip.Time || block.Time > maxTime {
		return fmt.Errorf("%w: it is %d, that of the block before %d", ErrTime, block.Time, t.head.tip.Time)
	}
	return nil
}

// readHead returns nil if no block is indexed.
func readHead(ctx context.Context, r store.Reader, chain *chainKey) (*head, error) {
	values, err := r.Get(ctx, store.FamilyEVMHead, []store.PK{chain.headRow()})
	if err != nil {
		return nil, fmt.Errorf("reading how far the chain is: %w", err)
	}
	if values[0] == nil {
		return nil, nil
	}
	return parseHead(values[0])
}

// application is the state of applying one block.
type application struct {
	*Projection
	block *evm.Block
	batch *store.Batch
	ref   []byte // the block's reference, encoded
	// parentTime is the time of the block before.
	parentTime uint64
	// lists holds the partitions of the transaction lists, by outcome.
	lists [2][]byte

	// changed holds the keys of changed holdings, supplies and sums, in order.
	changed         []holdingKey
	changedSupplies []tokenKey
	changedSums     []sumKey
}

// readLogs finds the transfers. Those of transaction i end at ends[i]. A failed transaction has none: an EVM discards its
// logs.
func (a *application) readLogs() {
	a.transfers, a.ends = a.transfers[:0], a.ends[:0]
	for i := range a.block.Transactions {
		tx := &a.block.Transactions[i]
		for j := 0; tx.Success && j < len(tx.Logs); j++ {
			a.transfers = append(a.transfers, evm.Transfers(&tx.Logs[j])...)
		}
		a.ends = append(a.ends, len(a.transfers))
	}
}

// reserve returns n bytes that stay valid until the batch is written. Several share an allocation.
func (t *Projection) reserve(n int) []byte {
	const chunk = 64 << 10
	if n > chunk/4 {
		return make([]byte, 0, n)
	}
	if cap(t.room)-len(t.room) < n {
		t.room = make([]byte, 0, chunk)
	}
	at := len(t.room)
	t.room = t.room[:at+n]
	return t.room[at : at : at+n]
}

func (t *Projection) keep(b []byte) []byte { return append(t.reserve(len(b)), b...) }

// in returns a partition of the chain.
func (t *Projection) in(parts ...[]byte) []byte {
	n := len(t.chain)
	for _, part := range parts {
		n += len(part)
	}
	p := append(t.reserve(n), t.chain[:]...)
	for _, part := range parts {
		p = append(p, part...)
	}
	return p
}

// value returns an empty value. Only one is in use at a time; kept finishes it.
func (t *Projection) value() []byte { return append(t.scratch[:0], version) }

func (t *Projection) kept(b []byte) []byte {
	t.scratch = b[:0]
	return t.keep(b)
}

func (a *application) tx(i int) {
	tx := &a.block.Transactions[i]
	at := place{number: a.block.Number, major: uint32(i)}
	a.list(tx, at)
	a.icm(tx)
	partition := a.calls(tx, at)
	transfers := a.transfersOf(i)
	for j := range transfers {
		a.transfer(tx, &transfers[j], partition)
	}
	if a.addressTxs.on {
		a.addresses(tx, at, transfers)
	}
	if a.tokenBalances.on {
		a.hold(transfers)
	}
}

// indexed reports whether a call is an internal transaction: it creates a contract or moves value.
func indexed(f *evm.Frame) bool {
	switch f.Type {
	case evm.FrameCreate, evm.FrameCreate2:
		return true
	case evm.FrameCall, evm.FrameCallCode:
		return !f.Value.IsZero()
	default:
		return false
	}
}

// transfersOf returns the transfers of a transaction.
func (a *application) transfersOf(i int) []evm.Transfer {
	from := 0
	if i > 0 {
		from = a.ends[i-1]
	}
	return a.transfers[from:a.ends[i]]
}

// calls indexes the internal transactions, if known, and the deployments of a transaction. It returns the partition of
// the deployment, or nil.
func (a *application) calls(tx *evm.Transaction, at place) (partition []byte) {
	if a.deployments(tx, at) {
		partition = a.chain.deploymentPartition(at)
		var traced byte
		if a.block.Traced {
			traced = 1
		}
		v := appendTx(append(a.value(), traced), tx, tx.Input)
		v = appendMessage(append(v, a.ref...), messageOf(tx.Logs))
		a.batch.Put(store.FamilyEVMDeployment, store.PK{P: partition, K: []byte{deploymentTx}}, a.kept(v))
	}
	for j := range tx.Frames {
		a.frame(tx, at, j, partition)
	}
	return partition
}

// list adds a transaction to the lists of the chain.
func (a *application) list(tx *evm.Transaction, at place) {
	numbers := at.number >> rangeBits
	ended := 0
	if tx.Success {
		ended = 1
	}
	if a.ranges[ended] != numbers+1 {
		a.ranges[ended] = numbers + 1
		a.batch.Put(store.FamilyEVMTxRange, store.PK{P: a.chain.txRanges(tx.Success), K: newestKey(numbers)}, nil)
	}
	if a.lists[ended] == nil {
		a.lists[ended] = a.chain.txPartition(tx.Success, numbers)
	}
	k := at.appendTx(a.reserve(txPlaceSize))
	v := append(appendTx(a.value(), tx, listed(tx)), a.ref...)
	a.batch.Add(store.FamilyEVMTx, store.PK{P: a.lists[ended], K: k}, a.kept(v))

	v = binary.AppendUvarint(binary.AppendUvarint(append(a.value(), byte(ended)), at.number), uint64(at.major))
	a.batch.Add(store.FamilyEVMTxHash, store.PK{P: a.in(tx.Hash[:])}, a.kept(v))
}

// deployments indexes the contracts that a transaction created and reports whether there are any.
func (a *application) deployments(tx *evm.Transaction, at place) (made bool) {
	if !tx.Success {
		return false
	}
	if tx.To == nil && tx.Created != (common.Address{}) {
		a.deployment(&Deployment{Contract: tx.Created, TxHash: tx.Hash, Deployer: tx.From}, at)
		made = true
	}
	for j := range tx.Frames {
		f := &tx.Frames[j]
		if !f.Creates() || f.Reverted || f.To == (common.Address{}) {
			continue
		}
		at.minor = uint32(j + 1)
		a.deployment(&Deployment{Contract: f.To, TxHash: tx.Hash, Deployer: tx.From, Creator: &f.From}, at)
		made = true
	}
	return made
}

func (a *application) deployment(d *Deployment, at place) {
	a.contract(d.Contract)
	k, v := at.appendTo(a.reserve(placeSize)), a.kept(appendDeployment(a.value(), d))
	a.batch.Put(store.FamilyEVMContract, store.PK{P: a.in(d.Contract[:]), K: k}, v)
	a.batch.Put(store.FamilyEVMDeployer, store.PK{P: a.in(d.Deployer[:]), K: k}, v)
	if d.Creator != nil && *d.Creator != d.Deployer {
		a.batch.Put(store.FamilyEVMDeployer, store.PK{P: a.in(d.Creator[:]), K: k}, v)
	}
}

// contract marks an address as a contract.
func (a *application) contract(address common.Address) {
	if _, ok := a.emitters[address]; ok {
		return
	}
	a.emitters[address] = struct{}{}
	a.batch.Put(store.FamilyEVMContract, store.PK{P: a.in(address[:])}, nil)
}

// frame lists a call with value, or a creation, for both sides. It also adds it to the deployment if partition is not
// nil.
func (a *application) frame(tx *evm.Transaction, at place, j int, partition []byte) {
	f := &tx.Frames[j]
	if !indexed(f) {
		return
	}
	at.minor = uint32(j)
	k := at.appendTo(a.reserve(placeSize))
	v := appendFrame(a.value(), f)
	v = append(v, tx.Hash[:]...)
	v = a.kept(append(v, a.ref...))
	a.batch.Add(store.FamilyEVMInternal, store.PK{P: a.in(f.From[:]), K: k}, v)
	if f.To != f.From && (!f.Creates() || f.To != common.Address{}) {
		a.batch.Add(store.FamilyEVMInternal, store.PK{P: a.in(f.To[:]), K: k}, v)
	}
	if partition != nil {
		k := binary.BigEndian.AppendUint32([]byte{deploymentInternal}, uint32(j))
		a.batch.Put(store.FamilyEVMDeployment, store.PK{P: partition, K: k}, v)
	}
}

// transfer indexes a transfer. It also adds it to the deployment if partition is not nil.
func (a *application) transfer(tx *evm.Transaction, t *evm.Transfer, partition []byte) {
	a.contract(t.Contract)
	if t.Standard == evm.ERC721 {
		id := t.TokenID.Bytes32()
		pk := store.PK{P: a.in(t.Contract[:]), K: a.keep(id[:])}
		if t.To == (common.Address{}) {
			a.batch.Delete(store.FamilyEVMOwner, pk)
		} else {
			a.batch.Put(store.FamilyEVMOwner, pk, a.kept(append(a.value(), t.To[:]...)))
		}
	}
	if t.Standard != evm.ERC1155 && partition == nil {
		return
	}
	v := a.moved(tx, t)
	if partition != nil {
		a.deployedTransfer(t, partition, v)
	}
	if t.Standard != evm.ERC1155 {
		return
	}
	k := place{number: a.block.Number, major: t.LogIndex, minor: t.Position}.appendTo(a.reserve(placeSize))
	a.batch.Add(store.FamilyEVMTransfer, store.PK{P: a.in(t.From[:]), K: k}, v)
	if t.To != t.From {
		a.batch.Add(store.FamilyEVMTransfer, store.PK{P: a.in(t.To[:]), K: k}, v)
	}
	a.move(t)
}

// moved returns the value of a transfer's rows.
func (a *application) moved(tx *evm.Transaction, t *evm.Transfer) []byte {
	v := append(appendTransfer(a.value(), t), tx.Hash[:]...)
	return a.kept(append(v, a.ref...))
}

// deployedTransfer adds a transfer to a deployment.
func (a *application) deployedTransfer(t *evm.Transfer, partition, v []byte) {
	k := binary.BigEndian.AppendUint32([]byte{deploymentTransfer}, t.LogIndex)
	k = binary.BigEndian.AppendUint32(k, t.Position)
	a.batch.Put(store.FamilyEVMDeployment, store.PK{P: partition, K: k}, v)
}
