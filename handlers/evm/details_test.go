package evm_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/libevm/common"
	"github.com/ava-labs/libevm/common/hexutil"

	"quorate/handlers/apitest"
	"quorate/handlers/compat"
	api "quorate/handlers/evm"
	"quorate/handlers/reply"
	chain "quorate/internal/chain/evm"
	"quorate/internal/index"
	"quorate/internal/node"
	"quorate/internal/simnet/evmchain"
)

// wholeTransaction is what the tests look at of a transaction's answer.
type wholeTransaction struct {
	NativeTransaction struct {
		shown
		Input, BaseFeePerGas, Nonce, GasPrice, MaxFeePerGas, MaxPriorityFeePerGas string
		TxType                                                                    uint8
	}
	InternalTransactions []shown
	ERC20                []wholeTransfer `json:"erc20Transfers"`
	ERC721               []wholeTransfer `json:"erc721Transfers"`
	ERC1155              []wholeTransfer `json:"erc1155Transfers"`
	TracesMissing        []uint64
	Message              *struct{ InterchainMessageID, Direction string } `json:"interchainMessageInfo"`
}

type wholeTransfer struct {
	From, To struct{ Address string }
	LogIndex int
	Value    string
	ERC20    struct{ Address string }          `json:"erc20Token"`
	ERC721   struct{ Address, TokenID string } `json:"erc721Token"`
	ERC1155  struct{ Address, TokenID string } `json:"erc1155Token"`
}

func (t *wholeTransfer) text() string {
	return line(t.LogIndex, t.From.Address, t.To.Address, t.ERC20.Address+t.ERC721.Address+t.ERC1155.Address, t.ERC721.TokenID+t.ERC1155.TokenID, t.Value)
}

func getTransaction(t *testing.T, h http.Handler, base string, hash common.Hash) (tx wholeTransaction) {
	t.Helper()
	w := apitest.Get(h, base+"/transactions/"+hash.Hex())
	require.Equal(t, http.StatusOK, w.Code, w.Body)
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &tx))
	return tx
}

// testTransactions compares each transaction and its effects with those that the generator made.
func (r *indexed) testTransactions(t *testing.T, h http.Handler, base string) {
	moved := make(map[common.Hash][]string)
	for _, x := range r.truth.Transfers() {
		id, amount := "", x.Amount.Dec()
		if x.Standard != chain.ERC20 {
			id = x.TokenID.Dec()
		}
		if x.Standard == chain.ERC721 {
			amount = ""
		}
		moved[x.TxHash] = append(moved[x.TxHash], line(x.LogIndex, x.From, x.To, x.Contract, id, amount))
	}
	counts := make(map[string]int)
	for _, b := range r.truth.Blocks() {
		for i := range b.Transactions {
			want, got := &b.Transactions[i], getTransaction(t, h, base, b.Transactions[i].Hash)
			r.requireNative(t, b, i, &got)
			require.Empty(t, got.TracesMissing)
			var transfers []string
			for _, list := range [][]wholeTransfer{got.ERC20, got.ERC721, got.ERC1155} {
				require.NotNil(t, list)
				for i := range list {
					transfers = append(transfers, list[i].text())
				}
			}
			require.ElementsMatch(t, moved[want.Hash], transfers, want.Hash)
			var internals []string
			for i := range want.Frames {
				f := &want.Frames[i]
				if f.Creates() || (f.Type == chain.FrameCall || f.Type == chain.FrameCallCode) && !f.Value.IsZero() {
					internals = append(internals, line(f.From, f.To, frameNames[f.Type], f.Value.Dec(), f.Reverted, f.GasUsed, f.Gas))
				}
			}
			requireSame(t, internals, texts(got.InternalTransactions, func(s *shown) string {
				return line(s.From.Address, s.To.Address, s.InternalTxType, s.Value, s.IsReverted, s.GasUsed, s.GasLimit)
			}), want.Hash.Hex())
			if messages := chain.Messages(want.Logs); len(messages) > 0 {
				require.Equal(t, messages[0].ID.Hex(), got.Message.InterchainMessageID)
				require.Equal(t, messages[0].Delivered, got.Message.Direction == "DESTINATION_TRANSACTION")
				counts["messages"]++
			}
			counts["transfers"] += len(transfers)
			counts["internals"] += len(internals)
		}
	}
	for _, kind := range []string{"transfers", "internals", "messages"} {
		require.Positive(t, counts[kind], kind)
	}
}

// requireNative compares the fields of the transaction itself.
func (r *indexed) requireNative(t *testing.T, b *chain.Block, i int, got *wholeTransaction) {
	t.Helper()
	want, native := &b.Transactions[i], &got.NativeTransaction
	to := want.Created
	if want.To != nil {
		to = *want.To
	}
	status, maxFee, maxTip := "0", "", ""
	if want.Success {
		status = "1"
	}
	if want.MaxFee != nil {
		maxFee, maxTip = want.MaxFee.Dec(), want.MaxPriorityFee.Dec()
	}
	require.Equal(t,
		line(b.Number, b.Hash, i, want.Hash, want.Type, status, want.From, to, want.Value.Dec(), hexutil.Encode(want.Input), want.Nonce, want.GasLimit, want.GasUsed, want.GasPrice.Dec(), b.BaseFee.Dec(), maxFee, maxTip),
		line(native.BlockNumber, native.BlockHash, native.BlockIndex, native.TxHash, native.TxType, native.TxStatus, native.From.Address, native.To.Address, native.Value, native.Input, native.Nonce, native.GasLimit, native.GasUsed, native.GasPrice, native.BaseFeePerGas, native.MaxFeePerGas, native.MaxPriorityFeePerGas),
	)
}

// oneNode returns the blocks of another node, changed by change.
type oneNode struct {
	api.Node
	change func(from uint64, traces bool) (uint64, error)
}

func (n oneNode) Blocks(ctx context.Context, from uint64, count int, traces bool) ([]node.EVMBlock, error) {
	from, err := n.change(from, traces)
	if err != nil {
		return nil, err
	}
	return n.Node.Blocks(ctx, from, count, traces)
}

// retyping is a node that leaves out a header field.
type retyping struct{ api.Node }

func (n retyping) Blocks(ctx context.Context, from uint64, count int, traces bool) ([]node.EVMBlock, error) {
	blocks, err := n.Node.Blocks(ctx, from, count, traces)
	for i := range blocks {
		blocks[i].Block = []byte(strings.Replace(string(blocks[i].Block), `"mixHash"`, `"mixedHash"`, 1))
	}
	return blocks, err
}

// TestTransactionsOfNodes requests the effects of a transaction that only the node has: from nodes
// that do not trace, that lack the block, and that return another one.
func TestTransactionsOfNodes(t *testing.T) {
	r := newIndexed(t, 300)
	deployed := make(map[common.Hash]bool)
	for _, d := range r.truth.Deployments() {
		deployed[d.TxHash] = true
	}
	var called evmchain.Internal
	for _, a := range r.truth.Accounts() {
		for _, f := range r.truth.Internals(a) {
			if !deployed[f.TxHash] && f.Block < r.node.Tip() {
				called = f
			}
		}
	}
	require.NotZero(t, called)
	base := "/v1/chains/" + strconv.FormatUint(r.chain.ChainID, 10)
	of := func(change func(from uint64, traces bool) (uint64, error)) http.Handler {
		c := r.chain
		c.Node = oneNode{r.chain.Node, change}
		return surface(t, compat.Auto, api.Options{}, c)
	}
	for _, cause := range []error{node.ErrNoTraces, node.ErrNoState, node.ErrTraceRefused} {
		untraced := of(func(from uint64, traces bool) (uint64, error) {
			if traces {
				return 0, fmt.Errorf("tracing: %w", cause)
			}
			return from, nil
		})
		got := getTransaction(t, untraced, base, called.TxHash)
		require.Equal(t, []uint64{called.Block, called.Block}, got.TracesMissing)
		require.Empty(t, got.InternalTransactions)
		r.requireNative(t, r.truth.Blocks()[called.Block], int(called.TxIndex), &got)
	}
	path := base + "/transactions/" + called.TxHash.Hex()

	// The proof of the index covers what a node returns now only as far as the header does.
	progress := r.chain.Progress
	r.chain.Progress = func(context.Context) reply.Progress {
		p := progress(t.Context())
		p.Proof = &index.Proof{To: p.Height}
		return p
	}
	w := apitest.Get(surface(t, compat.Auto, api.Options{}, r.chain), path)
	require.Equal(t, strconv.FormatUint(r.node.Tip(), 10), w.Header().Get("Proven-Height"))
	c := r.chain
	c.Node = retyping{r.chain.Node}
	w = apitest.Get(surface(t, compat.Auto, api.Options{}, c), path)
	require.Equal(t, http.StatusOK, w.Code, w.Body)
	require.Empty(t, w.Header().Values("Proven-Height"), "it leaves out header fields")
	r.chain.Progress = progress
	for _, tt := range []struct {
		change func(from uint64, traces bool) (uint64, error)
		status int
		part   string
	}{
		{func(from uint64, _ bool) (uint64, error) { return from + 1, nil }, http.StatusBadGateway, "the node of this chain"},
		{func(uint64, bool) (uint64, error) { return 0, node.ErrPruned }, http.StatusServiceUnavailable, "the answer needs a block"},
		{func(uint64, bool) (uint64, error) { return 0, node.ErrBeyondTip }, http.StatusServiceUnavailable, "the node of this chain, which the answer needs, is behind the index"},
		{func(uint64, bool) (uint64, error) { return 0, node.ErrUnavailable }, http.StatusServiceUnavailable, "the node of this chain, which the answer needs, cannot be reached"},
	} {
		requireError(t, apitest.Get(of(tt.change), path), tt.status, tt.part)
	}
	for hash := range deployed { // needs no blocks of the node
		getTransaction(t, of(func(uint64, bool) (uint64, error) { return 0, node.ErrUnavailable }), base, hash)
	}
}
