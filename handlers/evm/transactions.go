package evm

import (
	"context"
	"strconv"

	"github.com/holiman/uint256"

	"github.com/ava-labs/libevm/common"
	"github.com/ava-labs/libevm/common/hexutil"

	"quorate/handlers/evm/methods"
	"quorate/handlers/operation"
	"quorate/handlers/query"
	paging "quorate/handlers/query/page"
	"quorate/handlers/reply"
	"quorate/internal/index/evm"
)

// block holds the fields of an item's block.
type block struct {
	BlockNumber    number      `json:"blockNumber"`
	BlockTimestamp uint64      `json:"blockTimestamp"`
	Milliseconds   uint64      `json:"blockTimestampMilliseconds,omitempty"`
	BlockHash      common.Hash `json:"blockHash"`
}

func shownBlock(b *evm.BlockRef) block {
	return block{BlockNumber: number(b.Number), BlockTimestamp: b.Time, Milliseconds: b.Milliseconds, BlockHash: b.Hash}
}

type nativeTransaction struct {
	block
	MinDelayExcess *uint64       `json:"blockMinDelayExcess,omitempty"`
	ChainID        number        `json:"chainId"`
	BlockIndex     uint32        `json:"blockIndex"`
	TxHash         common.Hash   `json:"txHash"`
	TxStatus       string        `json:"txStatus"`
	TxType         uint8         `json:"txType"`
	GasLimit       number        `json:"gasLimit"`
	GasUsed        number        `json:"gasUsed"`
	GasPrice       amount        `json:"gasPrice"`
	Nonce          number        `json:"nonce"`
	From           *addressParty `json:"from"`
	To             *addressParty `json:"to"`
	Method         method        `json:"method"`
	Value          amount        `json:"value"`
}

// fullTransaction is a transaction with the fields that only its own answer has.
type fullTransaction struct {
	nativeTransaction
	Input                string `json:"input"`
	BaseFeePerGas        string `json:"baseFeePerGas"`
	MaxFeePerGas         string `json:"maxFeePerGas,omitempty"`
	MaxPriorityFeePerGas string `json:"maxPriorityFeePerGas,omitempty"`
}

type method struct {
	CallType   string   `json:"callType"`
	MethodHash hexBytes `json:"methodHash"`
	MethodName string   `json:"methodName,omitempty"`
}

func (a *API) listLatest(ctx context.Context, r operation.Request, of *Chain) error {
	q := r.Query
	var want evm.LatestQuery
	status := q.OneOf("status")
	if status != "" {
		success := status == "success"
		want.Success = &success
	}
	p := q.Page(paging.List{Key: a.key, Operation: "latest transactions", Filters: []string{of.name, status}})
	if err := q.Err(); err != nil {
		return err
	}
	if _, err := current(r, of, nil); err != nil {
		return err
	}
	return a.sendTransactions(ctx, r, of, p, want)
}

// sendTransactions reads a page of transactions and sends it.
func (a *API) sendTransactions(ctx context.Context, r operation.Request, of *Chain, p query.Page, want evm.LatestQuery) error {
	want.Limit, want.After = p.Size, p.After
	found, err := of.Index.Latest(ctx, want)
	if err != nil {
		return err
	}
	return a.showTransactions(ctx, r, of, p, found)
}

// showTransactions sends a page of transactions that was read.
func (a *API) showTransactions(ctx context.Context, r operation.Request, of *Chain, p query.Page, found *evm.TransactionPage) error {
	parties := make([]common.Address, 0, 2*len(found.Transactions))
	for i := range found.Transactions {
		tx := &found.Transactions[i]
		parties = append(parties, tx.From, tx.Recipient)
	}
	d, err := a.directory(ctx, of, parties)
	if err != nil {
		return err
	}
	return reply.JSON(r, page{Next: p.Token(found.Next), Transactions: listOf(len(found.Transactions), func(i int, x *nativeTransaction) {
		a.transaction(d, &found.Transactions[i], x)
	})})
}

// transaction sets all fields of x. It assigns them one by one to avoid a copy of a large struct.
func (a *API) transaction(d *directory, tx *evm.Transaction, x *nativeTransaction) {
	x.block, x.MinDelayExcess = shownBlock(&tx.Block), tx.Block.MinDelayExcess
	x.ChainID, x.BlockIndex, x.TxHash, x.TxType = number(d.chain.ChainID), tx.Index, tx.Hash, tx.Type
	x.TxStatus = "0"
	if tx.Success {
		x.TxStatus = "1"
	}
	x.GasLimit, x.GasUsed, x.GasPrice, x.Nonce = number(tx.GasLimit), number(tx.GasUsed), amount(tx.GasPrice), number(tx.Nonce)
	x.From, x.To, x.Value = d.party(tx.From), d.party(tx.Recipient), amount(tx.Value)
	x.Method = a.method(tx)
}

func (a *API) fullTransaction(d *directory, tx *evm.Transaction) fullTransaction {
	shown := fullTransaction{Input: hexutil.Encode(tx.Input), BaseFeePerGas: "0"}
	a.transaction(d, tx, &shown.nativeTransaction)
	if fee := tx.Block.BaseFee; fee != nil {
		shown.BaseFeePerGas = fee.Dec()
	}
	shown.MaxFeePerGas, shown.MaxPriorityFeePerGas = optional(tx.MaxFee), optional(tx.MaxPriorityFee)
	return shown
}

// method returns the method that a transaction calls. Call data shorter than a selector are returned unchanged.
func (a *API) method(tx *evm.Transaction) method {
	switch {
	case tx.To == nil:
		return method{CallType: "CONTRACT_CREATION", MethodName: "Contract Created"}
	case len(tx.Input) == 0:
		return method{CallType: "NATIVE_TRANSFER", MethodName: "Native Transfer"}
	}
	var selector methods.Selector
	m := method{CallType: "CONTRACT_CALL", MethodHash: tx.Input[:min(len(tx.Input), len(selector))]}
	if copy(selector[:], tx.Input) == len(selector) {
		m.MethodName = a.methods.Name(selector)
	}
	return m
}

func decimal(n uint64) string { return strconv.FormatUint(n, 10) }

func optional(n *uint256.Int) string {
	if n == nil {
		return ""
	}
	return n.Dec()
}
