package webhook

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/holiman/uint256"

	"github.com/ava-labs/libevm/common"

	"quorate/internal/chain/evm"
)

// EVMChain returns the name of the source of an EVM chain.
func EVMChain(blockchainID string) string { return "evm/" + blockchainID }

// Token describes a contract or the native token of a chain. Standard is that of a contract. Decimals is nil if the
// contract does not report them.
type Token struct {
	Standard     evm.Standard
	Name, Symbol string
	Decimals     *uint8
}

// EVMOptions configures an EVM source. All fields are required.
type EVMOptions struct {
	// ChainID is the EIP-155 chain ID.
	ChainID uint64
	Native  Token
	// Tip returns the height of the last indexed block; false if it is unknown.
	Tip func() (uint64, bool)
	// Fetch returns 1 to n blocks from a height on, with call traces where a node has them.
	Fetch func(ctx context.Context, from uint64, n int) ([]*evm.Block, error)
	// Internals returns the internal transactions of an indexed block that involve the addresses, by the hashes of their
	// transactions. It is called for blocks that came without call traces. If the index lacks them, too, but may get them,
	// the error is ErrNoTraces.
	Internals func(ctx context.Context, height uint64, addresses []common.Address) (map[common.Hash][]evm.Frame, error)
	// Tokens describes the contracts at the addresses, nil where there is none. One that follows no standard is nil, too,
	// until a call after the given time has the same result. After an error, the messages about the block wait and Tokens
	// is called again. The same holds if there is nil where a contract emitted a log in a young block: the answer may be
	// older than the contract, or the node may lag.
	Tokens func(ctx context.Context, addresses []common.Address, after time.Time) ([]*Token, error)
}

// ErrNoTraces means that a block has no call traces.
var ErrNoTraces = errors.New("neither a node nor the index has the call traces of the block")

// EVM is the Source of an EVM chain.
type EVM struct {
	o EVMOptions

	mu     sync.Mutex
	blocks []*evmBlock // the last fetched, in order; guarded by mu
	// awaited is the block whose call traces were last waited for. untraced is set after a wait in vain, until another
	// block has call traces. Both are guarded by mu.
	awaited  uint64
	untraced bool
}

// NewEVM returns a source.
func NewEVM(o EVMOptions) *EVM { return &EVM{o: o} }

// Tip implements Source.
func (s *EVM) Tip() (uint64, bool) { return s.o.Tip() }

// fetchAhead is the maximum number of blocks that are fetched at once.
const fetchAhead = 16

// Block implements Source.
func (s *EVM) Block(ctx context.Context, height uint64) (Block, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range s.blocks {
		if b.Number == height {
			return b, nil
		}
	}
	n := 1
	if tip, ok := s.o.Tip(); ok && tip > height {
		n = int(min(tip-height+1, fetchAhead))
	}
	fetched, err := s.o.Fetch(ctx, height, n)
	if err != nil {
		return nil, err
	}
	s.blocks = nil
	for _, b := range fetched {
		s.blocks = append(s.blocks, newEVMBlock(b, s))
	}
	return s.blocks[0], nil
}

// evmBlock is a block with the addresses that its transactions involve.
type evmBlock struct {
	*evm.Block
	source         *EVM
	transferCounts []int                    // token transfers of each transaction
	involved       map[common.Address][]int // transactions in ascending order
}

func newEVMBlock(b *evm.Block, source *EVM) *evmBlock {
	x := &evmBlock{
		Block: b, source: source, transferCounts: make([]int, len(b.Transactions)), involved: make(map[common.Address][]int),
	}
	for i := range b.Transactions {
		x.involve(i, &b.Transactions[i])
	}
	return x
}

// involve notes the addresses that a transaction involves: its sender, its recipient or the contract that it creates,
// the contracts that emit its logs, the parties of its token transfers and those of its internal transactions.
func (x *evmBlock) involve(i int, tx *evm.Transaction) {
	note := func(addresses ...common.Address) {
		for _, a := range addresses {
			if known := x.involved[a]; len(known) == 0 || known[len(known)-1] != i {
				x.involved[a] = append(known, i)
			}
		}
	}
	note(tx.From)
	if tx.To != nil {
		note(*tx.To)
	} else {
		note(tx.Created)
	}
	for j := range tx.Logs {
		note(tx.Logs[j].Address)
		for _, t := range evm.Transfers(&tx.Logs[j]) {
			note(t.From, t.To)
			x.transferCounts[i]++
		}
	}
	for j := range tx.Frames {
		if f := &tx.Frames[j]; internal(f) {
			note(f.From, f.To)
		}
	}
}

// indexed returns the transactions whose internal transactions, according to the index, involve an address of a webhook.
// The block came without call traces.
func (x *evmBlock) indexed(ctx context.Context, w *Webhook) (found []int, err error) {
	addresses := make([]common.Address, len(w.Addresses))
	for i, text := range w.Addresses {
		addresses[i] = common.HexToAddress(text)
	}
	frames, err := x.source.o.Internals(ctx, x.Number, addresses)
	if errors.Is(err, ErrNoTraces) && !x.source.awaits(x) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("internal transactions of block %d: %w", x.Number, err)
	}
	x.source.traced()
	for i := range x.Transactions {
		if slices.ContainsFunc(frames[x.Transactions[i].Hash], func(f evm.Frame) bool { return internal(&f) }) {
			found = append(found, i)
		}
	}
	return found, nil
}

// traceGrace is the age of a block from which on its messages do not wait for its call traces.
const traceGrace = time.Minute

// awaits reports whether the messages about a block wait for its call traces. Only one block waits in vain: the node may
// not trace any more.
func (s *EVM) awaits(x *evmBlock) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	waits := x.younger(traceGrace) && !s.untraced
	switch {
	case waits:
		s.awaited = x.Number
	case s.awaited == x.Number:
		s.untraced = true
	}
	return waits
}

// traced notes that a node or the index has the call traces of a block.
func (s *EVM) traced() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.untraced = false
}

// internal reports whether a frame is an internal transaction: one that moved value or created a contract.
func internal(f *evm.Frame) bool { return !f.Reverted && (!f.Value.IsZero() || f.Creates()) }

const (
	// itemBytes is the maximum size in a message of a token transfer, of an internal transaction, and of a log without its
	// data. A contract can emit a transfer for each 32 bytes of a log, because the arrays of a batch may overlap.
	itemBytes = 2 << 10
	// maxDetails is the maximum size of the details in one message; see details.
	maxDetails = 8 << 20
	// maxBlockDetails is the maximum size of the details in all messages to a webhook about one block.
	maxBlockDetails = maxPendingBytes
)

// details returns the maximum size in a message of the parts of a transaction that its sender can make large: input,
// token transfers, internal transactions and logs.
func (x *evmBlock) details(i int, w *Webhook) int {
	tx := &x.Transactions[i]
	n := itemBytes*x.transferCounts[i] + 2*len(tx.Input)
	if w.IncludeInternals {
		for j := range tx.Frames {
			if internal(&tx.Frames[j]) {
				n += itemBytes
			}
		}
	}
	if w.IncludeLogs {
		for j := range tx.Logs {
			n += itemBytes + 2*len(tx.Logs[j].Data)
		}
	}
	return n
}

// Events implements Block. It omits the details of transactions whose details exceed the limits.
func (x *evmBlock) Events(ctx context.Context, w *Webhook) ([]Event, error) {
	var found []int
	switch {
	case len(x.Transactions) == 0:
	case x.Traced:
		x.source.traced()
	default:
		var err error
		if found, err = x.indexed(ctx, w); err != nil {
			return nil, err
		}
	}
	for _, text := range w.Addresses {
		found = append(found, x.involved[common.HexToAddress(text)]...)
	}
	found = slices.DeleteFunc(found, func(i int) bool { return !x.signed(i, w.EventSignatures) })
	slices.Sort(found)
	found = slices.Compact(found)
	var events []Event
	remaining := maxBlockDetails
	for _, i := range found {
		tx := x.transaction(i)
		body := map[string]any{"transaction": tx}
		if n := x.details(i, w); n > min(remaining, maxDetails) {
			body["truncated"] = true
		} else {
			remaining -= n
			if err := x.addDetails(ctx, i, w, tx); err != nil {
				return nil, err
			}
			if w.IncludeLogs {
				body["logs"] = x.logs(i)
			}
		}
		events = append(events, Event{Name: x.Transactions[i].Hash.Hex(), Body: body})
	}
	return events, nil
}

// signed reports whether a transaction has a log with one of the first topics. Without any, each transaction has.
func (x *evmBlock) signed(i int, signatures []string) bool {
	return len(signatures) == 0 || slices.ContainsFunc(x.Transactions[i].Logs, func(l evm.Log) bool {
		return len(l.Topics) > 0 && slices.Contains(signatures, l.Topics[0].Hex())
	})
}

// evmTransaction is a transaction in a message.
type evmTransaction struct {
	BlockHash         common.Hash   `json:"blockHash"`
	BlockNumber       string        `json:"blockNumber"`
	From              string        `json:"from"`
	Gas               string        `json:"gas"`
	GasPrice          string        `json:"gasPrice"`
	MaxFee            string        `json:"maxFeePerGas"`
	MaxPriorityFee    string        `json:"maxPriorityFeePerGas"`
	Hash              common.Hash   `json:"txHash"`
	Status            string        `json:"txStatus"`
	Input             string        `json:"input"`
	Nonce             string        `json:"nonce"`
	To                string        `json:"to"`
	Index             int           `json:"transactionIndex"`
	Value             string        `json:"value"`
	Type              uint8         `json:"type"`
	ChainID           string        `json:"chainId"`
	CumulativeGasUsed string        `json:"receiptCumulativeGasUsed"`
	GasUsed           string        `json:"receiptGasUsed"`
	EffectiveGasPrice string        `json:"receiptEffectiveGasPrice"`
	ReceiptRoot       common.Hash   `json:"receiptRoot"`
	Timestamp         uint64        `json:"blockTimestamp"`
	Contract          string        `json:"contractAddress,omitempty"`
	ERC20             []evmTransfer `json:"erc20Transfers"`
	ERC721            []evmTransfer `json:"erc721Transfers"`
	ERC1155           []evmTransfer `json:"erc1155Transfers"`
	// Internals is nil if the webhook does not want them or the block has no call traces.
	Internals *[]evmInternal `json:"internalTransactions,omitempty"`
	Native    evmNative      `json:"networkToken"`
}

type evmNative struct {
	Name     string `json:"tokenName"`
	Symbol   string `json:"tokenSymbol"`
	Decimals uint8  `json:"tokenDecimals"`
	Value    string `json:"valueWithDecimals"`
}

type evmTransfer struct {
	Hash      common.Hash `json:"transactionHash"`
	Type      string      `json:"type"`
	From      string      `json:"from"`
	To        string      `json:"to"`
	Value     string      `json:"value"`
	TokenID   string      `json:"tokenId,omitempty"`
	Timestamp uint64      `json:"blockTimestamp"`
	LogIndex  uint32      `json:"logIndex"`
	ERC20     *evmToken   `json:"erc20Token,omitempty"`
	ERC721    *evmToken   `json:"erc721Token,omitempty"`
	ERC1155   *evmToken   `json:"erc1155Token,omitempty"`
}

type evmToken struct {
	Address  string `json:"address"`
	Name     string `json:"name"`
	Symbol   string `json:"symbol"`
	Decimals uint8  `json:"decimals"`
	Value    string `json:"valueWithDecimals"`
}

type evmInternal struct {
	From     string      `json:"from"`
	To       string      `json:"to"`
	Type     string      `json:"internalTxType"`
	Value    string      `json:"value"`
	GasUsed  string      `json:"gasUsed"`
	GasLimit string      `json:"gasLimit"`
	Hash     common.Hash `json:"transactionHash"`
}

type evmLog struct {
	Address string       `json:"address"`
	Topic0  string       `json:"topic0"`
	Topic1  *common.Hash `json:"topic1,omitempty"`
	Topic2  *common.Hash `json:"topic2,omitempty"`
	Topic3  *common.Hash `json:"topic3,omitempty"`
	Data    string       `json:"data"`
	TxIndex int          `json:"transactionIndex"`
	Index   uint32       `json:"logIndex"`
	// Removed is always false: accepted blocks are final.
	Removed bool `json:"removed"`
}

// transaction returns a transaction without its details. A transaction without maximum fees has its gas price as both
// (EIP-1559). A contract creation has no recipient.
func (x *evmBlock) transaction(i int) *evmTransaction {
	tx := &x.Transactions[i]
	shown := &evmTransaction{
		BlockHash: x.Hash, BlockNumber: number(x.Number), From: tx.From.Hex(), Gas: number(tx.GasLimit), GasPrice: tx.GasPrice.Dec(),
		MaxFee: tx.GasPrice.Dec(), MaxPriorityFee: tx.GasPrice.Dec(), Hash: tx.Hash, Status: "0", Input: "0x",
		Nonce: number(tx.Nonce), Index: i, Value: tx.Value.Dec(), Type: tx.Type, ChainID: number(x.source.o.ChainID),
		GasUsed: number(tx.GasUsed), EffectiveGasPrice: tx.GasPrice.Dec(), ReceiptRoot: x.ReceiptsRoot, Timestamp: x.Time,
		ERC20: []evmTransfer{}, ERC721: []evmTransfer{}, ERC1155: []evmTransfer{},
	}
	if tx.Success {
		shown.Status = "1"
	}
	if tx.MaxFee != nil {
		shown.MaxFee = tx.MaxFee.Dec()
	}
	if tx.MaxPriorityFee != nil {
		shown.MaxPriorityFee = tx.MaxPriorityFee.Dec()
	}
	if tx.To != nil {
		shown.To = tx.To.Hex()
	} else {
		shown.Contract = tx.Created.Hex()
	}
	var gas uint64
	for j := range i + 1 {
		gas += x.Transactions[j].GasUsed
	}
	shown.CumulativeGasUsed = number(gas)
	native := x.source.o.Native
	shown.Native = evmNative{native.Name, native.Symbol, *native.Decimals, withDecimals(&tx.Value, *native.Decimals)}
	return shown
}

// addDetails adds the details of a transaction that a webhook wants, except its logs.
func (x *evmBlock) addDetails(ctx context.Context, i int, w *Webhook, shown *evmTransaction) error {
	tx := &x.Transactions[i]
	shown.Input = hexText(tx.Input)
	if w.IncludeInternals && x.Traced {
		shown.Internals = internals(tx)
	}
	return x.addTransfers(ctx, i, shown)
}

// absentGrace is the age of a block from which on an absent contract with a log in the block counts as destroyed, and one
// that follows no standard as no token.
const absentGrace = 30 * time.Second

// younger reports whether the age of the block is below d. Waits end at an age of the block, not after a time, so that
// a contract that destroys itself in each block delays messages by d at most. The clock may differ from the chain's.
func (x *evmBlock) younger(d time.Duration) bool {
	return time.Since(x.time()).Abs() < d
}

func (x *evmBlock) time() time.Time { return time.Unix(int64(x.Time), 0) }

// addTransfers adds the token transfers of a transaction. It omits those whose contract does not follow their standard:
// any contract may emit a log that looks like a transfer.
func (x *evmBlock) addTransfers(ctx context.Context, i int, shown *evmTransaction) error {
	if x.transferCounts[i] == 0 {
		return nil
	}
	transfers := make([]evm.Transfer, 0, x.transferCounts[i])
	for j := range x.Transactions[i].Logs {
		transfers = append(transfers, evm.Transfers(&x.Transactions[i].Logs[j])...)
	}
	contracts := make([]common.Address, len(transfers))
	for j := range transfers {
		contracts[j] = transfers[j].Contract
	}
	tokens, err := x.source.o.Tokens(ctx, contracts, x.time().Add(absentGrace))
	if err != nil {
		return err
	}
	for j := range transfers {
		t := &transfers[j]
		if tokens[j] == nil && x.younger(absentGrace) {
			return fmt.Errorf("contract %s emitted a transfer in block %d, but according to the node it is no token yet", t.Contract, x.Number)
		}
		if tokens[j] == nil || tokens[j].Standard != t.Standard {
			continue
		}
		one := evmTransfer{
			Hash: x.Transactions[i].Hash, From: t.From.Hex(), To: t.To.Hex(), Value: t.Amount.Dec(), Timestamp: x.Time, LogIndex: t.LogIndex,
		}
		token := tokenOf(t, tokens[j])
		switch t.Standard {
		case evm.ERC20:
			one.Type, one.ERC20 = "ERC20", token
			shown.ERC20 = append(shown.ERC20, one)
		case evm.ERC721:
			one.Type, one.ERC721, one.TokenID = "ERC721", token, t.TokenID.Dec()
			shown.ERC721 = append(shown.ERC721, one)
		case evm.ERC1155:
			one.Type, one.ERC1155, one.TokenID = "ERC1155", token, t.TokenID.Dec()
			shown.ERC1155 = append(shown.ERC1155, one)
		}
	}
	return nil
}

// tokenOf returns the token of a transfer. NFTs have no decimals.
func tokenOf(t *evm.Transfer, known *Token) *evmToken {
	token := &evmToken{Address: t.Contract.Hex(), Name: known.Name, Symbol: known.Symbol}
	if known.Decimals != nil && t.Standard == evm.ERC20 {
		token.Decimals = *known.Decimals
	}
	token.Value = withDecimals(&t.Amount, token.Decimals)
	return token
}

func internals(tx *evm.Transaction) *[]evmInternal {
	all := []evmInternal{}
	for j := range tx.Frames {
		if f := &tx.Frames[j]; internal(f) {
			all = append(all, evmInternal{
				From: f.From.Hex(), To: f.To.Hex(), Type: f.Type.String(), Value: f.Value.Dec(),
				GasUsed: number(f.GasUsed), GasLimit: number(f.Gas), Hash: tx.Hash,
			})
		}
	}
	return &all
}

func (x *evmBlock) logs(i int) []evmLog {
	all := []evmLog{}
	for _, l := range x.Transactions[i].Logs {
		one := evmLog{Address: l.Address.Hex(), Data: hexText(l.Data), TxIndex: i, Index: l.Index}
		for n, to := range []**common.Hash{nil, &one.Topic1, &one.Topic2, &one.Topic3} {
			if n == 0 && len(l.Topics) > 0 {
				one.Topic0 = l.Topics[0].Hex()
			} else if n > 0 && n < len(l.Topics) {
				*to = &l.Topics[n]
			}
		}
		all = append(all, one)
	}
	return all
}

func number(n uint64) string { return strconv.FormatUint(n, 10) }

func hexText(b []byte) string { return "0x" + hex.EncodeToString(b) }

// withDecimals returns an amount in whole tokens, exactly.
func withDecimals(amount *uint256.Int, decimals uint8) string {
	digits := amount.Dec()
	if missing := int(decimals) + 1 - len(digits); missing > 0 {
		digits = strings.Repeat("0", missing) + digits
	}
	whole, part := digits[:len(digits)-int(decimals)], strings.TrimRight(digits[len(digits)-int(decimals):], "0")
	if part == "" {
		return whole
	}
	return whole + "." + part
}
