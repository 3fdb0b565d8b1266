package evm_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holiman/uint256"
	"github.com/labstack/echo/v4"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/constants"
	"github.com/ava-labs/libevm/common"

	"quorate/handlers"
	"quorate/handlers/compat"
	"quorate/handlers/docs/conform"
	api "quorate/handlers/evm"
	"quorate/handlers/evm/tokenlist"
	"quorate/handlers/reply"
	chain "quorate/internal/chain/evm"
	"quorate/internal/index"
	"quorate/internal/index/evm"
	"quorate/internal/index/evm/contracts"
	"quorate/internal/index/evm/metadata"
	"quorate/internal/node"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The chain of the tests, the C-Chain of fuji.
var (
	cChainID = must(ids.FromString("yH8D7ThNJkxmtkuv2jgBa4P1Rn3Qpr4pPr7QYNfcdoS6k6HWp"))
	l1ID     = ids.ID{0x11}
	otherID  = ids.ID{0x22}

	alice = common.HexToAddress("0x00000000000000000000000000000000000A11cE")
	bob   = common.HexToAddress("0xB0B0000000000000000000000000000000000000")
	coin  = common.HexToAddress("0x1000000000000000000000000000000000000020") // ERC-20
	cards = common.HexToAddress("0x1000000000000000000000000000000000000721") // ERC-721
	bare  = common.HexToAddress("0x1000000000000000000000000000000000000722") // ERC-721 that tells nothing
	items = common.HexToAddress("0x1000000000000000000000000000000000001155") // ERC-1155
	till  = common.HexToAddress("0x2000000000000000000000000000000000000000") // follows no standard
	odd   = common.HexToAddress("0x3000000000000000000000000000000000000000") // says to be ERC-20, without decimals
	gone  = common.HexToAddress("0x4000000000000000000000000000000000000000") // destroyed itself

	most = new(uint256.Int).SetAllOne()
)

const (
	height = 1_000
	now    = 1_700_000_000 // of the last block
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func ptr[T any](v T) *T { return &v }

func hash(n int) (h common.Hash) {
	h[0] = 0xab
	binary.BigEndian.PutUint64(h[24:], uint64(n))
	return h
}

// blockOf is block number n; those from 990 on have what newer headers have.
func blockOf(n int) evm.BlockRef {
	b := evm.BlockRef{Number: uint64(n), Hash: hash(n), Time: uint64(now - 3600*(height-n)), BaseFee: uint256.NewInt(25_000_000_000)}
	if n >= 990 {
		b.Milliseconds, b.MinDelayExcess = b.Time*1000+7, ptr(uint64(7_970_124))
	}
	return b
}

// fake is a chain in memory. Calls of the record fail with err if it is set, those of
// what asks the node with nodeErr.
type fake struct {
	log          evm.ICMLog
	missing      *evm.Span      // what lacks call traces
	unknown      common.Address // of a contract that only the node knows
	first        uint64         // with which optional indexes begin
	sums         []evm.TokenSum
	reported     map[common.Address][]byte // what contracts return as the balance of alice
	callErr      error                     // comes of calls of contracts
	askedSums    evm.TokenSumQuery         // guarded by mu, as the next
	askedCalls   []uint64
	mu           sync.Mutex
	transactions []evm.Transaction // newest first, as all lists
	internals    []evm.Internal
	transfers    []evm.TokenTransfer
	balances     []evm.TokenBalance
	deployments  []evm.Deployment
	details      map[common.Address]*evm.TransactionDetails
	contracts    map[common.Address]*evm.Contract
	tokens       map[common.Address][]evm.Token
	days         []evm.Day
	progress     reply.Progress

	err, nodeErr error
	// balancesErr comes of reading balances, nativeErr of asking for one's own.
	balancesErr, nativeErr error
	largeURI               int           // the token that has the longest URI
	tokenErr               map[int]error // what comes of asking for the URIs of some tokens

	// The last query; guarded by mu.
	askedWallet   evm.WalletQuery
	askedBalance  evm.BalanceQuery
	askedLatest   evm.LatestQuery
	askedContract []common.Address
	askedTokens   int
	askedNative   uint64
	askedPeriods  evm.PeriodQuery
	begins        uint64 // the first block of the periods
	scanned       int    // how many tokens a page has at most, 0 for as many as asked for
}

func newFake() *fake {
	f := &fake{
		progress:  reply.Progress{Height: height, Time: time.Unix(now, 0), CaughtUp: true},
		details:   make(map[common.Address]*evm.TransactionDetails),
		contracts: make(map[common.Address]*evm.Contract),
		tokens:    make(map[common.Address][]evm.Token),
	}
	for _, c := range []evm.Contract{
		{Address: coin, Standard: chain.ERC20, Name: "Test Coin", Symbol: "COIN", Decimals: ptr(uint8(6))},
		{Address: cards, Standard: chain.ERC721, Name: "Test Cards", Symbol: "CARD"},
		{Address: bare, Standard: chain.ERC721},
		{Address: items, Standard: chain.ERC1155, Name: "Items <&>"},
		{Address: till},
		{Address: odd, Standard: chain.ERC20, Name: "Odd"},
	} {
		f.contracts[c.Address] = &c
	}
	for n := range 25 {
		tx := evm.Transaction{Block: blockOf(height - n/2), Index: uint32(1 - n%2), Recipient: bob, Transaction: chain.Transaction{
			Hash: hash(10_000 - n), Type: uint8(n % 3), Nonce: uint64(25 - n), From: alice, To: &bob, Value: *uint256.NewInt(uint64(n)),
			GasLimit: 21_000, GasUsed: 20_999, GasPrice: *uint256.NewInt(25_000_000_001), Success: true,
		}}
		if n%3 == 2 {
			tx.MaxFee, tx.MaxPriorityFee = uint256.NewInt(50_000_000_000), new(uint256.Int)
		}
		switch n {
		case 1:
			tx.To, tx.Recipient, tx.Input = &coin, coin, []byte{0xa9, 0x05, 0x9c, 0xbb, 1}
		case 2:
			tx.To, tx.Recipient, tx.Input = &till, till, []byte{0xde, 0xad, 0xbe, 0xef}
		case 3:
			tx.Input, tx.Success, tx.Value = []byte{1, 2}, false, *most
		case 4:
			tx.To, tx.Recipient, tx.Input = nil, cards, []byte{0x60, 0x80, 0x60, 0x40}
		case 5:
			tx.To, tx.Recipient, tx.Success = nil, gone, false
		}
		f.transactions = append(f.transactions, tx)
	}
	frames := []chain.FrameType{
		chain.FrameCall, chain.FrameCallCode, chain.FrameCreate, chain.FrameCreate2, chain.FrameDelegateCall, chain.FrameStaticCall, chain.FrameSelfDestruct, chain.FrameUnknown,
	}
	for n := range 23 {
		f.internals = append(f.internals, evm.Internal{Block: blockOf(height - n), TxHash: hash(10_000 - n), Frame: chain.Frame{
			Type: frames[n%len(frames)], From: alice, To: till, Value: *uint256.NewInt(uint64(n)), Gas: 100_000, GasUsed: 99_999, Reverted: n%5 == 4, Depth: 1,
		}})
	}
	for n := range 23 {
		// Two of each three are a batch.
		t := chain.Transfer{Standard: chain.ERC1155, Contract: items, LogIndex: uint32(n / 3), Position: uint32(n % 3), From: alice, To: bob, TokenID: *uint256.NewInt(uint64(n % 4)), Amount: *uint256.NewInt(uint64(n + 1))}
		if n == 1 {
			t.From, t.TokenID, t.Amount = common.Address{}, *most, *most
		}
		f.transfers = append(f.transfers, evm.TokenTransfer{Block: blockOf(height - n/6), TxHash: hash(10_000 - n/3), Transfer: t})
	}
	for n := range 23 {
		f.balances = append(f.balances, evm.TokenBalance{Contract: items, TokenID: *uint256.NewInt(uint64(n * n)), Amount: *uint256.NewInt(uint64(n + 1))})
	}
	others := common.HexToAddress("0x1100000000000000000000000000000000000000")
	f.balances = append(f.balances, evm.TokenBalance{Contract: others, TokenID: *most, Amount: *most})
	f.contracts[others] = &evm.Contract{Address: others, Standard: chain.ERC1155}
	f.holdFungible(23)
	for n, c := range []common.Address{coin, cards, bare, items, till, odd, gone} {
		d := evm.Deployment{Contract: c, TxHash: hash(20_000 - n), Deployer: alice}
		if n%2 == 1 {
			d.Creator = &till
		}
		f.deployments = append(f.deployments, d)
	}
	for n := range 13 {
		f.deployments = append(f.deployments, evm.Deployment{Contract: common.Address{0x50, byte(n)}, TxHash: hash(19_000 - n), Deployer: alice})
	}
	full := f.transactions[4]
	full.Type, full.MaxFee, full.MaxPriorityFee = 2, uint256.NewInt(50_000_000_000), new(uint256.Int)
	f.details[cards] = f.deployed(full)
	plain := f.transactions[4]
	plain.Hash, plain.Block, plain.Type = hash(1), blockOf(900), 0
	plain.Block.BaseFee, plain.MaxFee, plain.MaxPriorityFee, plain.Input = nil, nil, nil, []byte{0x60}
	f.details[till] = &evm.TransactionDetails{Transaction: plain, Traced: true, Message: &chain.Message{ID: hash(78), Delivered: true, BlockchainID: l1ID}}
	f.details[coin] = &evm.TransactionDetails{Transaction: plain}
	for n := range 23 {
		f.tokens[cards] = append(f.tokens[cards], evm.Token{Contract: cards, TokenID: *uint256.NewInt(uint64(n * n)), Owner: &alice})
	}
	f.tokens[bare] = []evm.Token{{Contract: bare, TokenID: *most, Owner: &bob}}
	f.tokens[items] = []evm.Token{{Contract: items}, {Contract: items, TokenID: *uint256.NewInt(7)}}
	today := int64(now - now%86400)
	for n := range 250 {
		f.days = append(f.days, evm.Day{Start: today - int64(n)*86400, Transactions: uint64(n) * 1234})
	}
	return f
}

// deployed is a deployment that does everything.
func (f *fake) deployed(tx evm.Transaction) *evm.TransactionDetails {
	d := &evm.TransactionDetails{Transaction: tx, Traced: true, Message: &chain.Message{ID: hash(77), BlockchainID: l1ID}}
	for n, t := range []chain.Transfer{
		{Standard: chain.ERC20, Contract: coin, Amount: *uint256.NewInt(5)},
		{Standard: chain.ERC20, Contract: till, Amount: *uint256.NewInt(6)},  // no token
		{Standard: chain.ERC20, Contract: cards, Amount: *uint256.NewInt(6)}, // of another standard
		{Standard: chain.ERC20, Contract: odd, Amount: *uint256.NewInt(6)},
		{Standard: chain.ERC20, Contract: gone, Amount: *uint256.NewInt(6)},
		{Standard: chain.ERC20, Contract: coin, Amount: *most},
		{Standard: chain.ERC721, Contract: cards, TokenID: *uint256.NewInt(9), Amount: *uint256.NewInt(1)},
		{Standard: chain.ERC721, Contract: bare, TokenID: *most, Amount: *uint256.NewInt(1)},
		{Standard: chain.ERC1155, Contract: items, TokenID: *uint256.NewInt(1), Amount: *uint256.NewInt(2)},
	} {
		t.LogIndex, t.To = uint32(n), alice
		d.Transfers = append(d.Transfers, evm.TokenTransfer{Block: tx.Block, TxHash: tx.Hash, Transfer: t})
	}
	d.Internals = []evm.Internal{f.internals[0], f.internals[2]}
	return d
}

// page cuts a page out of a list. A position is how many items are before it.
func page[T any](ctx context.Context, f *fake, all []T, limit int, after []byte) ([]T, []byte, error) {
	if err := cmp.Or(f.err, ctx.Err()); err != nil {
		return nil, nil, err
	}
	begin := 0
	if after != nil {
		if len(after) != 2 {
			return nil, nil, index.ErrPosition
		}
		begin = min(int(binary.BigEndian.Uint16(after)), len(all))
	}
	all = all[begin:]
	if len(all) <= limit {
		return all, nil, nil
	}
	return all[:limit], binary.BigEndian.AppendUint16(nil, uint16(begin+limit)), nil
}

func (f *fake) Known(_ context.Context, addresses []common.Address) ([]bool, error) {
	known := make([]bool, len(addresses))
	for i, a := range addresses {
		known[i] = f.contracts[a] != nil && a != f.unknown || a == gone
	}
	return known, f.err
}

func (f *fake) Latest(ctx context.Context, q evm.LatestQuery) (*evm.TransactionPage, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.askedLatest = q
	all := slices.DeleteFunc(slices.Clone(f.transactions), func(tx evm.Transaction) bool {
		return q.Success != nil && tx.Success != *q.Success || q.Block != nil && tx.Block.Number != *q.Block
	})
	some, next, err := page(ctx, f, all, q.Limit, q.After)
	return &evm.TransactionPage{Transactions: some, Next: next}, err
}

func inside(b evm.BlockRef, q *evm.WalletQuery) bool {
	return (q.Start == nil || b.Number >= *q.Start) && (q.End == nil || b.Number < *q.End)
}

func (f *fake) Internals(ctx context.Context, q evm.WalletQuery) (*evm.InternalPage, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.askedWallet = q
	all := slices.DeleteFunc(slices.Clone(f.internals), func(i evm.Internal) bool {
		return i.From != q.Wallet && i.To != q.Wallet || !inside(i.Block, &q)
	})
	some, next, err := page(ctx, f, all, q.Limit, q.After)
	return &evm.InternalPage{Internals: some, TracesMissing: f.missing, Next: next}, err
}

func (f *fake) BlockInternals(context.Context, uint64, []common.Address) ([]evm.Internal, bool, error) {
	return nil, false, f.err
}

func (f *fake) Transfers(ctx context.Context, q evm.WalletQuery) (*evm.TransferPage, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.askedWallet = q
	all := slices.DeleteFunc(slices.Clone(f.transfers), func(t evm.TokenTransfer) bool {
		return t.From != q.Wallet && t.To != q.Wallet || !inside(t.Block, &q)
	})
	some, next, err := page(ctx, f, all, q.Limit, q.After)
	return &evm.TransferPage{Transfers: some, Next: next}, err
}

func (f *fake) Balances(ctx context.Context, q evm.BalanceQuery) (*evm.BalancePage, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.askedBalance = q
	if f.balancesErr != nil {
		return nil, f.balancesErr
	}
	at := uint64(height)
	if q.At != nil {
		at = *q.At
	}
	if at > height {
		return nil, evm.ErrBeyondTip
	}
	all := slices.DeleteFunc(slices.Clone(f.balances), func(b evm.TokenBalance) bool {
		return q.Contract != nil && b.Contract != *q.Contract || q.Wallet != alice
	})
	if err := cmp.Or(f.err, ctx.Err()); err != nil {
		return nil, err
	}
	key := func(b *evm.TokenBalance) []byte {
		id := b.TokenID.Bytes32()
		return append(b.Contract.Bytes(), id[:]...)
	}
	if q.After != nil {
		if len(q.After) != 8+20+32 {
			return nil, index.ErrPosition
		}
		all = slices.DeleteFunc(all, func(b evm.TokenBalance) bool { return bytes.Compare(key(&b), q.After[8:]) <= 0 })
	}
	p := &evm.BalancePage{Balances: all, First: f.progress.From, At: blockOf(int(at))}
	if n := f.most(q.Limit); len(all) > n {
		p.Balances, p.Next = all[:n], append(binary.BigEndian.AppendUint64(nil, at), key(&all[n-1])...)
	}
	return p, nil
}

// most returns how many items a page has that may have up to limit.
func (f *fake) most(limit int) int {
	if f.scanned > 0 {
		return min(f.scanned, limit)
	}
	return limit
}

func (f *fake) Deployment(_ context.Context, contract common.Address) (*evm.TransactionDetails, error) {
	if f.err != nil {
		return nil, f.err
	}
	if d := f.details[contract]; d != nil {
		return d, nil
	}
	return nil, &evm.NotDeployedError{Contract: contract, First: f.progress.From, TracesMissing: f.missing}
}

func (f *fake) Details(_ context.Context, hash common.Hash) (d *evm.TransactionDetails, whole bool, err error) {
	for _, d := range f.details {
		if d.Transaction.Hash == hash {
			return d, true, f.err
		}
	}
	for _, tx := range f.transactions {
		if tx.Hash == hash {
			return &evm.TransactionDetails{Transaction: tx}, false, f.err
		}
	}
	return nil, false, f.err
}

// wholeBlock returns block n. Its numbers differ from each other and from those of other blocks.
func wholeBlock(n uint64) evm.Block {
	return evm.Block{
		BlockRef: blockOf(int(n)), ParentHash: hash(int(n) - 1), GasLimit: 15_000_000 + n, GasCost: *uint256.NewInt(n % 3), GasUsed: 21_000 * n,
		Fees: *new(uint256.Int).Mul(uint256.NewInt(1e18), uint256.NewInt(n)), Transactions: n % 7, Cumulative: 3 * n,
	}
}

func (f *fake) Block(_ context.Context, number uint64) (*evm.Block, error) {
	switch {
	case f.err != nil:
		return nil, f.err
	case number > height:
		return nil, evm.ErrBeyondTip
	case number < f.progress.From:
		return nil, evm.ErrBeforeFirst
	}
	b := wholeBlock(number)
	return &b, nil
}

func (f *fake) Blocks(ctx context.Context, q evm.BlockQuery) (*evm.BlockPage, error) {
	var all []evm.Block
	for n := height; n > height-25; n-- {
		all = append(all, wholeBlock(uint64(n)))
	}
	some, next, err := page(ctx, f, all, q.Limit, q.After)
	return &evm.BlockPage{Blocks: some, Next: next}, err
}

// fakeNode is the node of the fake chain.
type fakeNode struct{ *fake }

func (f fakeNode) BlockNumber(_ context.Context, h common.Hash) (uint64, bool, error) {
	n := binary.BigEndian.Uint64(h[24:])
	return n, h == hash(int(n)), f.nodeErr // as a node that knows blocks beyond the index, too
}

// Blocks returns nothing: TestRecordedChain has a node with blocks.
func (f fakeNode) Blocks(context.Context, uint64, int, bool) ([]node.EVMBlock, error) {
	return nil, cmp.Or(f.nodeErr, node.ErrUnavailable)
}

func (f *fake) Deployments(ctx context.Context, q evm.DeploymentQuery) (*evm.DeploymentPage, error) {
	all := slices.DeleteFunc(slices.Clone(f.deployments), func(d evm.Deployment) bool {
		return d.Deployer != q.Address && (d.Creator == nil || *d.Creator != q.Address)
	})
	some, next, err := page(ctx, f, all, q.Limit, q.After)
	return &evm.DeploymentPage{Deployments: some, TracesMissing: f.missing, Next: next}, err
}

func (f *fake) Tokens(ctx context.Context, q evm.TokenQuery) (*evm.TokenPage, error) {
	if f.contracts[q.Contract].Standard != q.Standard {
		return nil, errors.New("the standard is another")
	}
	some, next, err := page(ctx, f, f.tokens[q.Contract], q.Limit, q.After)
	return &evm.TokenPage{Tokens: some, Next: next}, err
}

func (f *fake) Token(_ context.Context, standard chain.Standard, contract common.Address, tokenID *uint256.Int) (*evm.Token, error) {
	for _, t := range f.tokens[contract] {
		if f.contracts[contract].Standard == standard && t.TokenID.Eq(tokenID) {
			return &t, f.err
		}
	}
	return nil, f.err
}

func (f *fake) Deployed(_ context.Context, contract common.Address) (*evm.Deployment, error) {
	for _, d := range f.deployments {
		if d.Contract == contract {
			return &d, f.err
		}
	}
	return nil, f.err
}

func (f *fake) ICMList(context.Context, evm.ICMQuery) ([]evm.ICMEntry, error) { return nil, f.err }

func (f *fake) ICMMessages(_ context.Context, messageIDs []common.Hash) ([]evm.ICMEvents, error) {
	return make([]evm.ICMEvents, len(messageIDs)), f.err
}

func (f *fake) ICMLog(context.Context, evm.ICMPosition, int) (evm.ICMLog, error) {
	return f.log, f.err
}

func (f *fake) Days(_ context.Context, before int64, limit int) ([]evm.Day, error) {
	all := slices.DeleteFunc(slices.Clone(f.days), func(d evm.Day) bool { return before != 0 && d.Start >= before })
	return all[:min(limit, len(all))], f.err
}

// Periods lists days, the newest first. Value i of each has what is easy to tell.
func (f *fake) Periods(_ context.Context, q evm.PeriodQuery) (*evm.PeriodPage, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.askedPeriods = q
	p := &evm.PeriodPage{First: f.begins}
	for start := uint64(30 * 86400); start > 0; start -= 86400 {
		if q.Before != nil && start >= *q.Before || q.From != nil && start < *q.From {
			continue
		}
		if len(p.Periods) == q.Limit {
			p.More = true
			break
		}
		p.Periods = append(p.Periods, evm.Period{
			Start: start, Transactions: 4, GasUsed: 6, Fees: big.NewInt(7), GasPrices: big.NewInt(10), MaxGasPrice: *uint256.NewInt(9), Elapsed: 2000,
			MaxGas: evm.Rate{Amount: 8, Milliseconds: 500}, MaxTransactions: evm.Rate{Amount: 1, Milliseconds: 250}, Addresses: 11, Senders: 12,
			AllTransactions: 13, AllAddresses: 14,
		})
	}
	return p, f.err
}

// Windows has a transaction in each hour. A chain whose periods begin later than the genesis block lacks windows of more
// than a week.
func (f *fake) Windows(_ context.Context, hours []uint64) (*evm.Windows, error) {
	w := &evm.Windows{First: f.begins}
	for _, n := range hours {
		if f.begins > 0 && (n == 0 || n > 7*24 || f.begins > 100) {
			w.Windows = append(w.Windows, nil)
			continue
		}
		if n == 0 {
			n = 1_000_000
		}
		w.Windows = append(w.Windows, &evm.Period{
			Transactions: n, GasUsed: 21_000 * n, Fees: big.NewInt(int64(3 * n)), GasPrices: big.NewInt(int64(2 * n)), MaxGasPrice: *uint256.NewInt(n + 9), Elapsed: 3_600_000 * n,
			MaxGas: evm.Rate{Amount: n, Milliseconds: 500}, MaxTransactions: evm.Rate{Amount: n, Milliseconds: 250}, Addresses: n + 2, Senders: n + 1,
		})
	}
	return w, f.err
}

func (f *fake) Contracts(_ context.Context, addresses []common.Address) ([]*evm.Contract, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.askedContract = addresses
	found := make([]*evm.Contract, len(addresses))
	for i, a := range addresses {
		found[i] = f.contracts[a]
	}
	return found, f.nodeErr
}

func (f *fake) Settled(ctx context.Context, addresses []common.Address, _ time.Time) ([]*evm.Contract, error) {
	return f.Contracts(ctx, addresses)
}

func (f *fake) Cached(addresses []common.Address) ([]*evm.Contract, bool) {
	found, err := f.Contracts(context.Background(), addresses)
	return found, err == nil
}

func (*fake) RememberedURI(chain.Standard, common.Address, *uint256.Int) (string, bool) {
	return "", false
}

func (f *fake) TokenURIs(_ context.Context, tokens []contracts.Token) ([]*string, error) {
	f.mu.Lock()
	f.askedTokens += len(tokens)
	f.mu.Unlock()
	if f.nodeErr != nil {
		return nil, f.nodeErr
	}
	uris := make([]*string, len(tokens))
	var failure error
	told := false
	for i, token := range tokens {
		uri, err := f.tokenURI(token.Standard, token.Contract, &token.ID)
		if err != nil {
			failure = err
			continue
		}
		uris[i], told = &uri, true
	}
	if !told {
		return nil, failure
	}
	return uris, nil
}

func (f *fake) tokenURI(standard chain.Standard, contract common.Address, id *uint256.Int) (string, error) {
	switch {
	case f.tokenErr[int(id.Uint64())] != nil:
		return "", fmt.Errorf("asking: %w", f.tokenErr[int(id.Uint64())])
	case contract == bare:
		return "", nil
	case id.Eq(uint256.NewInt(uint64(f.largeURI))) && f.largeURI > 0:
		return strings.Repeat("x", 1<<20-64), nil
	case standard == chain.ERC1155:
		return "ipfs://items/{id}", nil
	}
	return "https://example.org/" + id.Dec(), nil
}

func (f *fake) NativeBalance(_ context.Context, _ common.Address, block uint64) (*uint256.Int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.askedNative = block
	if err := cmp.Or(f.nodeErr, f.nativeErr); err != nil {
		return nil, err
	}
	return uint256.MustFromDecimal("1234567890123456789"), nil
}

func (f *fake) Metadata(_ context.Context, tokens []evm.Token) ([]metadata.Metadata, error) {
	words := []metadata.Status{metadata.Indexed, metadata.Unreachable, metadata.Unknown, metadata.Unindexed}
	all := make([]metadata.Metadata, len(tokens))
	for i, t := range tokens {
		all[i].Status = words[t.TokenID.Uint64()%4]
		if all[i].Status == metadata.Indexed {
			all[i].Updated = time.Unix(now-60, 0)
			all[i].Document = metadata.Document{
				Name: "Name", Symbol: "SYM", Description: "Description", Image: "https://example.org/image",
				AnimationURL: "https://example.org/animation", ExternalURL: "https://example.org", BackgroundColor: "ffffff",
				Attributes: `[{"trait_type":"a","value":1}]`, Properties: `{"a":1}`, Decimals: ptr(uint64(0)),
			}
		}
	}
	return all, f.err
}

func (f *fake) chain() api.Chain {
	return api.Chain{
		ChainID: 43113, BlockchainID: cChainID, Primary: true, NetworkID: constants.FujiID,
		Describe: func(context.Context) (*api.Description, error) {
			return &api.Description{Name: "C-Chain", SubnetID: constants.PrimaryNetworkID, VMID: constants.EVMID}, f.err
		},
		Progress: func(context.Context) reply.Progress { return f.progress },
		Index:    f, Contracts: f, URIs: f, Node: fakeNode{f}, Metadata: f,
	}
}

func surface(t testing.TB, mode compat.Mode, o api.Options, chains ...api.Chain) *echo.Echo {
	t.Helper()
	if o.Chains == nil {
		o.Chains = must(api.NewChains(chains, false))
	}
	e, err := handlers.New(handlers.Options{EVM: o, ClientCompat: mode, PageKey: []byte("of these tests")})
	require.NoError(t, err)
	conform.Watch(t, e)
	return e
}

// fuji serves the chain, with token lists.
func fuji(t testing.TB, f *fake) *echo.Echo {
	t.Helper()
	return surface(t, compat.Auto, api.Options{Lists: lists(t)}, f.chain())
}

func lists(t testing.TB) *tokenlist.Lists {
	t.Helper()
	return must(tokenlist.Open("testdata/tokens.json"))
}

func lower(a common.Address) string { return "0x" + strings.ToLower(a.Hex()[2:]) }

func upper(a common.Address) string { return "0X" + strings.ToUpper(a.Hex()[2:]) }
