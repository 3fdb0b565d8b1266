package e2e

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/genesis"
	"github.com/ava-labs/avalanchego/utils/units"
	"github.com/ava-labs/avalanchego/vms/secp256k1fx"
	"github.com/ava-labs/avalanchego/wallet/subnet/primary"
	walletcommon "github.com/ava-labs/avalanchego/wallet/subnet/primary/common"
	ethereum "github.com/ava-labs/libevm"
	"github.com/ava-labs/libevm/common"
	"github.com/ava-labs/libevm/common/hexutil"
	"github.com/ava-labs/libevm/core/types"

	"github.com/ava-labs/avalanchego/utils/constants"

	"quorate/e2e/localnet"
)

var (
	//go:embed contracts/Till.json
	tillArtefact []byte
	//go:embed contracts/Coin.json
	coinArtefact []byte
	//go:embed contracts/Items.json
	itemsArtefact []byte
	//go:embed contracts/Cards.json
	cardsArtefact []byte
)

// evmPath is where the Data API has the C-Chain of the local network.
const evmPath = "/v1/chains/43112/"

// ask asks the Data API and returns the status and the body.
func (s *service) ask(ctx context.Context, path string, query url.Values) (int, []byte) {
	s.t.Helper()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+path+"?"+query.Encode(), nil)
	require.NoError(s.t, err)
	response, err := http.DefaultClient.Do(request)
	require.NoError(s.t, err)
	defer func() { _ = response.Body.Close() }()
	content, err := io.ReadAll(response.Body)
	require.NoError(s.t, err)
	return response.StatusCode, content
}

// list walks all pages of a list, whose items are in a member of each.
func list[T any](ctx context.Context, s *service, path, member string, query url.Values, pageSize int) (all []T) {
	s.t.Helper()
	if query == nil {
		query = url.Values{}
	}
	query.Set("pageSize", strconv.Itoa(pageSize))
	for {
		status, content := s.ask(ctx, path, query)
		require.Equal(s.t, http.StatusOK, status, "%s: %s", path, content)
		var page map[string]json.RawMessage
		require.NoError(s.t, json.Unmarshal(content, &page))
		var items []T
		require.NoError(s.t, json.Unmarshal(page[member], &items), "%s", content)
		all = append(all, items...)
		var next string
		if page["nextPageToken"] == nil {
			return all
		}
		require.NoError(s.t, json.Unmarshal(page["nextPageToken"], &next))
		require.Len(s.t, items, pageSize, "only the last page is short")
		query.Set("pageToken", next)
	}
}

type party struct {
	Address, Name, Symbol string
	Decimals              *int
}

type nativeTransaction struct {
	BlockNumber, BlockHash, ChainID, TxHash, TxStatus string
	BlockTimestamp, BlockIndex, TxType                int64
	GasLimit, GasUsed, GasPrice, Nonce, Value         string
	From, To                                          party
	Input, BaseFeePerGas, MaxFeePerGas                string
	Method                                            *struct{ CallType, MethodHash, MethodName string }
}

type internalTransaction struct {
	BlockNumber, BlockHash, TxHash string
	From, To                       party
	InternalTxType, Value          string
	IsReverted                     bool
	GasUsed, GasLimit              string
}

type tokenTransfer struct {
	BlockNumber, TxHash, Value string
	LogIndex                   int
	From, To                   party
	Erc1155Token, Erc721Token  *struct{ Address, ErcType, TokenID, TokenURI string }
	Erc20Token                 *struct {
		Address, Name, Symbol string
		Decimals              int
	}
}

// frame is a call as the node's tracer tells it.
type frame struct {
	Type         string
	From, To     common.Address
	Value        *hexutil.Big
	Gas, GasUsed hexutil.Uint64
	Error        string
	Calls        []frame

	// Where it stands, and whether it or a frame around it failed.
	number            uint64
	blockHash, txHash common.Hash
	reverted          bool
}

// flat are the calls inside f, in the order in which they began.
func (f *frame) flat() (all []frame) {
	for i := range f.Calls {
		c := &f.Calls[i]
		c.reverted = f.reverted || c.Error != ""
		c.number, c.blockHash, c.txHash = f.number, f.blockHash, f.txHash
		all = append(all, *c)
		all = append(all, c.flat()...)
	}
	return all
}

// chainTruth is what the node reports of its C-Chain.
type chainTruth struct {
	blocks    []*nodeBlock
	internals []frame // those that count, oldest first
	receipts  map[common.Hash]*types.Receipt
}

// nodeBlock is a block as the node encodes it.
type nodeBlock struct {
	Number       hexutil.Uint64
	Hash         common.Hash
	Timestamp    hexutil.Uint64
	BaseFee      *hexutil.Big `json:"baseFeePerGas"`
	Transactions []struct {
		Hash             common.Hash
		From             common.Address
		To               *common.Address
		Type, Nonce, Gas hexutil.Uint64
		GasPrice, Value  *hexutil.Big
		Input            hexutil.Bytes
	}
}

// tell asks a node for everything.
func readChain(t testing.TB, ctx context.Context, c *cChain) *chainTruth {
	t.Helper()
	rpc := c.client.Client()
	tip, err := c.client.BlockNumber(ctx)
	require.NoError(t, err)
	all := &chainTruth{receipts: make(map[common.Hash]*types.Receipt)}
	for number := range tip + 1 {
		var block nodeBlock
		require.NoError(t, rpc.CallContext(ctx, &block, "eth_getBlockByNumber", hexutil.Uint64(number), true))
		all.blocks = append(all.blocks, &block)
		for _, tx := range block.Transactions {
			receipt, err := c.client.TransactionReceipt(ctx, tx.Hash)
			require.NoError(t, err)
			all.receipts[tx.Hash] = receipt
			var top frame
			require.NoError(t, rpc.CallContext(ctx, &top, "debug_traceTransaction", tx.Hash, map[string]string{"tracer": "callTracer"}))
			top.number, top.blockHash, top.txHash, top.reverted = number, block.Hash, tx.Hash, top.Error != ""
			for _, f := range top.flat() {
				moves := (f.Type == "CALL" || f.Type == "CALLCODE") && f.Value != nil && f.Value.ToInt().Sign() > 0
				if moves || strings.HasPrefix(f.Type, "CREATE") {
					all.internals = append(all.internals, f)
				}
			}
		}
	}
	return all
}

func (f *frame) text() string {
	value := "0"
	if f.Value != nil {
		value = f.Value.ToInt().String()
	}
	return fmt.Sprintln(f.number, f.blockHash, f.txHash, f.From, f.To, f.Type, value, f.reverted, uint64(f.GasUsed), uint64(f.Gas))
}

func (i *internalTransaction) text() string {
	return fmt.Sprintln(i.BlockNumber, i.BlockHash, i.TxHash, i.From.Address, i.To.Address, i.InternalTxType, i.Value, i.IsReverted, i.GasUsed, i.GasLimit)
}

// evmWorld is what was made on the chain.
type evmWorld struct {
	*cChain
	till, coin, items, cards         artefact
	tillAt, coinAt, itemsAt, cardsAt common.Address
	wallets                          []common.Address
	deployed                         map[common.Address]common.Hash // by transactions
}

func newEVMWorld(t testing.TB, ctx context.Context, node string) *evmWorld {
	t.Helper()
	w := &evmWorld{
		cChain: newCChain(t, ctx, node), deployed: make(map[common.Address]common.Hash),
		till: readArtefact(t, tillArtefact), coin: readArtefact(t, coinArtefact), items: readArtefact(t, itemsArtefact), cards: readArtefact(t, cardsArtefact),
	}
	w.wallets = []common.Address{w.account, common.HexToAddress("0xA1"), common.HexToAddress("0xA2"), common.HexToAddress("0xA3")}
	return w
}

// deploy sends a creation and returns the address that it will have.
func (w *evmWorld) deploy(ctx context.Context, a artefact) common.Address {
	w.t.Helper()
	hash := w.issue(ctx, &types.DynamicFeeTx{ChainID: w.chainID, Nonce: w.nonce, GasTipCap: big.NewInt(1), GasFeeCap: w.price(ctx), Gas: 3_000_000, Data: a.code})
	at := w.await(ctx, hash).ContractAddress
	w.deployed[at] = hash
	return at
}

// call sends a call of a contract.
func (w *evmWorld) call(ctx context.Context, at common.Address, a artefact, value int64, method string, arguments ...any) common.Hash {
	w.t.Helper()
	data, err := a.abi.Pack(method, arguments...)
	require.NoError(w.t, err)
	return w.issue(ctx, &types.DynamicFeeTx{
		ChainID: w.chainID, Nonce: w.nonce, GasTipCap: big.NewInt(1), GasFeeCap: w.price(ctx), Gas: 1_500_000, To: &at, Value: big.NewInt(value), Data: data,
	})
}

// ask calls a contract at a height without a transaction; nil if it fails.
func (w *evmWorld) ask(ctx context.Context, at common.Address, a artefact, height uint64, method string, arguments ...any) any {
	w.t.Helper()
	data, err := a.abi.Pack(method, arguments...)
	require.NoError(w.t, err)
	answer, err := w.client.CallContract(ctx, ethereum.CallMsg{To: &at, Data: data}, new(big.Int).SetUint64(height))
	if err != nil || len(answer) == 0 {
		return nil
	}
	values, err := a.abi.Unpack(method, answer)
	require.NoError(w.t, err)
	return values[0]
}

func bigs(numbers ...int64) (all []*big.Int) {
	for _, n := range numbers {
		all = append(all, big.NewInt(n))
	}
	return all
}

// The service returns the C-Chain as the node has it.
func TestEVM(t *testing.T) {
	t.Parallel()
	ctx, cancel := testContext(t, 8*time.Minute)
	defer cancel()
	program := buildService(t)
	network := localnet.Start(t)
	node := network.Node(0).URL
	// The service follows the chain while it grows.
	s := startService(t, program, node, append(optionalIndexes(t, node), "--ahead-rounds", "0")...)
	w := newEVMWorld(t, ctx, node)
	_, one, two, three := w.wallets[0], w.wallets[1], w.wallets[2], w.wallets[3]
	zeroAddress := common.Address{}

	w.tillAt, w.coinAt = w.deploy(ctx, w.till), w.deploy(ctx, w.coin)
	w.itemsAt, w.cardsAt = w.deploy(ctx, w.items), w.deploy(ctx, w.cards)

	// Value, in one block after the other.
	legacy := w.issue(ctx, &types.LegacyTx{Nonce: w.nonce, GasPrice: w.price(ctx), Gas: 21_000, To: &one, Value: big.NewInt(1_000)})
	listed := w.issue(ctx, &types.AccessListTx{ChainID: w.chainID, Nonce: w.nonce, GasPrice: w.price(ctx), Gas: 60_000, To: &w.tillAt, Value: big.NewInt(5_000)})
	w.call(ctx, w.tillAt, w.till, 100, "pay", one)
	w.await(ctx, w.call(ctx, w.tillAt, w.till, 1_000, "nest", big.NewInt(4), two))
	w.call(ctx, w.tillAt, w.till, 50, "attempt", one)
	salt := [32]byte{1}
	made := w.call(ctx, w.tillAt, w.till, 100, "make", salt)
	w.call(ctx, w.tillAt, w.till, 100, "makeAndFail", [32]byte{2})
	data, err := w.till.abi.Pack("pay", two)
	require.NoError(t, err)
	w.await(ctx, w.call(ctx, w.tillAt, w.till, 3, "borrow", w.tillAt, data))
	require.Equal(t, types.ReceiptStatusSuccessful, w.accepted(ctx, listed).Status)
	failed := []common.Hash{
		w.call(ctx, w.tillAt, w.till, 9, "payAndFail", one),
		w.call(ctx, w.tillAt, w.till, 0, "fail"),
		w.issue(ctx, &types.DynamicFeeTx{ChainID: w.chainID, Nonce: w.nonce, GasTipCap: big.NewInt(1), GasFeeCap: w.price(ctx), Gas: 100_000, Data: []byte{0xfe}}),
	}
	var drawers []common.Address
	for _, l := range w.await(ctx, made).Logs {
		drawers = append(drawers, common.BytesToAddress(l.Data))
	}
	require.Len(t, drawers, 2)
	w.call(ctx, w.tillAt, w.till, 0, "endDrawer", drawers[0], three)

	// Tokens.
	w.call(ctx, w.coinAt, w.coin, 0, "transfer", one, big.NewInt(250))
	w.call(ctx, w.itemsAt, w.items, 0, "move", zeroAddress, one, big.NewInt(7), big.NewInt(100))
	w.await(ctx, w.call(ctx, w.itemsAt, w.items, 0, "moveBatch", zeroAddress, two, bigs(1, 2, 300, 2), bigs(10, 20, 30, 5)))
	w.call(ctx, w.itemsAt, w.items, 0, "move", one, two, big.NewInt(7), big.NewInt(40))
	w.await(ctx, w.call(ctx, w.itemsAt, w.items, 0, "moveBatch", two, three, bigs(2, 300), bigs(25, 1)))
	w.call(ctx, w.itemsAt, w.items, 0, "move", two, zeroAddress, big.NewInt(1), big.NewInt(10))
	w.call(ctx, w.itemsAt, w.items, 0, "moveBatch", three, zeroAddress, bigs(2, 300), bigs(5, 1))
	w.await(ctx, w.call(ctx, w.itemsAt, w.items, 0, "move", three, three, big.NewInt(2), big.NewInt(3)))
	for id := range int64(12) {
		w.call(ctx, w.cardsAt, w.cards, 0, "move", w.wallets[id%4], big.NewInt(id*id*id))
	}
	w.call(ctx, w.cardsAt, w.cards, 0, "move", zeroAddress, big.NewInt(8))
	last := w.call(ctx, w.cardsAt, w.cards, 0, "move", three, big.NewInt(27))
	require.Equal(t, types.ReceiptStatusSuccessful, w.accepted(ctx, legacy).Status)
	for _, hash := range failed {
		require.Equal(t, types.ReceiptStatusFailed, w.accepted(ctx, hash).Status)
	}
	w.await(ctx, last)
	// A block may have atomic transactions beside those of the EVM.
	keychain := secp256k1fx.NewKeychain(genesis.EWOQKey)
	wallet, err := primary.MakeWallet(ctx, node, keychain, keychain, primary.WalletConfig{})
	require.NoError(t, err)
	_, err = wallet.C().IssueExportTx(constants.PlatformChainID, []*secp256k1fx.TransferOutput{{Amt: units.Avax, OutputOwners: *ownedBy(genesis.EWOQKey.Address())}}, walletcommon.WithContext(ctx))
	require.NoError(t, err)

	truth := readChain(t, ctx, w.cChain)
	tip := uint64(truth.blocks[len(truth.blocks)-1].Number)
	s.awaitEVM(ctx, tip)
	t.Run("latest transactions", func(t *testing.T) { w.requireLatest(t, ctx, s, truth) })
	t.Run("internal transactions", func(t *testing.T) { w.requireInternals(t, ctx, s, truth, drawers) })
	require.Len(t, w.movements(truth), 12)
	t.Run("ERC-1155 transfers", func(t *testing.T) { w.requireTransfers(t, ctx, s, truth) })
	t.Run("ERC-1155 balances", func(t *testing.T) { w.requireBalances(t, ctx, s, tip) })
	t.Run("transactions of addresses", func(t *testing.T) { w.requireAddresses(t, ctx, s, truth) })
	t.Run("native, ERC-20 and ERC-721 balances", func(t *testing.T) { w.requireTokenBalances(t, ctx, s, tip) })
	t.Run("metrics", func(t *testing.T) { w.requireMetrics(t, ctx, s, truth) })
	t.Run("deployments", func(t *testing.T) { w.requireDeployments(t, ctx, s, truth, made, drawers) })
	t.Run("tokens of a collection", func(t *testing.T) { w.requireTokens(t, ctx, s, tip) })
	t.Run("average transactions per second", func(t *testing.T) { w.requireTPS(t, ctx, s, truth) })
	t.Run("official clients", func(t *testing.T) { w.requireClients(t, ctx, s, truth) })
}

// requireClients calls each operation through the official clients. The parts above compare what it answers with the node.
func (w *evmWorld) requireClients(t *testing.T, ctx context.Context, s *service, truth *chainTruth) {
	const chain = "43112"
	of := func(address common.Address) map[string]any {
		return map[string]any{"chainId": chain, "address": address.Hex()}
	}
	block := truth.blocks[len(truth.blocks)/2]
	calls := []clientCall{
		{"listChains", map[string]any{}},
		{"getChain", map[string]any{"chainId": chain}},
		{"listMetricChains", map[string]any{}},
		{"getMetricChain", map[string]any{"chainId": chain}},
		{"listAddressChains", map[string]any{"address": w.account.Hex()}},
		{"listLatestTransactions", map[string]any{"chainId": chain}},
		{"listLatestTransactions", map[string]any{"chainId": chain, "status": "failed"}},
		{"listLatestBlocks", map[string]any{"chainId": chain}},
		{"getBlock", map[string]any{"chainId": chain, "blockId": block.Hash.Hex()}},
		{"listBlockTransactions", map[string]any{"chainId": chain, "blockId": fmt.Sprint(uint64(block.Number))}},
		{"listTokens", of(w.cardsAt)},
		{"listTokens", of(w.itemsAt)},
		{"getToken", map[string]any{"chainId": chain, "address": w.cardsAt.Hex(), "tokenId": "1"}},
		{"getToken", map[string]any{"chainId": chain, "address": w.itemsAt.Hex(), "tokenId": "7"}},
		{"getChainMetrics", map[string]any{"chainId": chain, "metric": "txCount"}},
		{"getChainMetrics", map[string]any{"chainId": chain, "metric": "activeAddresses", "timeInterval": "hour"}},
		{"getRollingWindowMetrics", map[string]any{"chainId": chain, "metric": "txCount"}},
		{"getRollingWindowMetrics", map[string]any{"chainId": chain, "metric": "maxTps"}},
		{"listContractDeployments", of(w.account)},
		{"listContractDeployments", of(w.tillAt)},
	}
	for _, tx := range block.Transactions {
		calls = append(calls, clientCall{"getTransaction", map[string]any{"chainId": chain, "txHash": tx.Hash.Hex()}})
	}
	for _, contract := range []common.Address{w.tillAt, w.coinAt, w.itemsAt, w.cardsAt} {
		calls = append(calls, clientCall{"getContractMetadata", of(contract)}, clientCall{"getDeploymentTransaction", of(contract)}, clientCall{"listTransfers", of(contract)})
	}
	for _, wallet := range append([]common.Address{w.tillAt}, w.wallets...) {
		for _, operation := range []string{
			"listInternalTransactions", "listErc1155Transfers", "listErc1155Balances", "listTransactions", "listNativeTransactions", "listErc20Transactions",
			"listErc721Transactions", "getNativeBalance", "listErc20Balances", "listErc721Balances", "listCollectibleBalances",
		} {
			calls = append(calls, clientCall{operation, of(wallet)})
		}
	}
	newClients(t, ctx, s).require(ctx, calls)
}

// awaitEVM waits until the service has indexed the C-Chain up to a height.
func (s *service) awaitEVM(ctx context.Context, height uint64) {
	s.t.Helper()
	s.awaitChain(ctx, evmPath, height)
}

// awaitChain waits until the service has indexed an EVM chain up to a height.
func (s *service) awaitChain(ctx context.Context, path string, height uint64) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	for {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+path+"transactions?pageSize=1", nil)
		require.NoError(s.t, err)
		response, err := http.DefaultClient.Do(request)
		require.NoError(s.t, err)
		content, err := io.ReadAll(response.Body)
		require.NoError(s.t, err)
		_ = response.Body.Close()
		if at, err := strconv.ParseUint(response.Header.Get("Indexed-Height"), 10, 64); err == nil && at >= height {
			return
		}
		select {
		case <-ctx.Done():
			s.t.Fatalf("block %d of %s is not indexed: %d %s", height, path, response.StatusCode, content)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func (w *evmWorld) requireLatest(t *testing.T, ctx context.Context, s *service, truth *chainTruth) {
	var want, wantFailed, wantGood []string
	kinds := make(map[string]int)
	for _, block := range slices.Backward(truth.blocks) {
		for index, tx := range slices.Backward(block.Transactions) {
			receipt := truth.receipts[tx.Hash]
			to := receipt.ContractAddress
			kind, selector := "CONTRACT_CREATION", ""
			if tx.To != nil {
				to = *tx.To
				kind = "NATIVE_TRANSFER"
				if len(tx.Input) > 0 {
					kind, selector = "CONTRACT_CALL", hexutil.Encode(tx.Input[:4])
				}
			}
			kinds[kind]++
			text := fmt.Sprintln(uint64(block.Number), block.Hash, uint64(block.Timestamp), index, tx.Hash, receipt.Status, uint64(tx.Type), uint64(tx.Gas), receipt.GasUsed, receipt.EffectiveGasPrice, uint64(tx.Nonce), tx.Value.ToInt(), tx.From, to, kind, selector)
			want = append(want, text)
			if receipt.Status == types.ReceiptStatusSuccessful {
				wantGood = append(wantGood, text)
			} else {
				wantFailed = append(wantFailed, text)
			}
		}
	}
	require.Len(t, wantFailed, 3)
	require.Len(t, kinds, 3, "%v", kinds)
	for status, want := range map[string][]string{"": want, "failed": wantFailed, "success": wantGood} {
		query := url.Values{}
		if status != "" {
			query.Set("status", status)
		}
		var got []string
		for _, tx := range list[nativeTransaction](ctx, s, evmPath+"transactions", "transactions", query, 7) {
			require.Equal(t, "43112", tx.ChainID)
			got = append(got, fmt.Sprintln(tx.BlockNumber, tx.BlockHash, tx.BlockTimestamp, tx.BlockIndex, tx.TxHash, tx.TxStatus, tx.TxType, tx.GasLimit, tx.GasUsed, tx.GasPrice, tx.Nonce, tx.Value, tx.From.Address, tx.To.Address, tx.Method.CallType, tx.Method.MethodHash))
		}
		require.Equal(t, want, got, "status %q", status)
	}
}

func (w *evmWorld) requireInternals(t *testing.T, ctx context.Context, s *service, truth *chainTruth, drawers []common.Address) {
	reverted := 0
	for _, wallet := range slices.Concat(w.wallets, []common.Address{w.tillAt, w.coinAt}, drawers) {
		var want []string
		for _, f := range slices.Backward(truth.internals) {
			if f.From == wallet || f.To == wallet {
				want = append(want, f.text())
				if f.reverted {
					reverted++
				}
			}
		}
		var got []string
		for _, i := range list[internalTransaction](ctx, s, evmPath+"addresses/"+wallet.Hex()+"/transactions:listInternals", "transactions", nil, 3) {
			got = append(got, i.text())
		}
		require.Equal(t, want, got, "%s", wallet)
		// Bounds: the first is inside, the second is not.
		if len(want) > 1 {
			first, end := truth.internals[0].number, truth.internals[len(truth.internals)-1].number
			var some []string
			for _, f := range slices.Backward(truth.internals) {
				if n := f.number; (f.From == wallet || f.To == wallet) && n >= first && n < end {
					some = append(some, f.text())
				}
			}
			got = nil
			query := url.Values{"startBlock": {fmt.Sprint(first)}, "endBlock": {fmt.Sprint(end)}}
			for _, i := range list[internalTransaction](ctx, s, evmPath+"addresses/"+wallet.Hex()+"/transactions:listInternals", "transactions", query, 100) {
				got = append(got, i.text())
			}
			require.Equal(t, some, got, "%s from %d to %d", wallet, first, end)
		}
	}
	require.Positive(t, reverted)
}

// movement is an ERC-1155 transfer as the receipts tell it.
type movement struct {
	block    uint64
	tx       common.Hash
	log      uint
	from, to common.Address
	id       *big.Int
	value    *big.Int
}

func (w *evmWorld) movements(truth *chainTruth) (all []movement) {
	single, batch := w.items.abi.Events["TransferSingle"], w.items.abi.Events["TransferBatch"]
	for _, block := range truth.blocks {
		for _, tx := range block.Transactions {
			for _, l := range truth.receipts[tx.Hash].Logs {
				if l.Address != w.itemsAt {
					continue
				}
				m := movement{block: l.BlockNumber, tx: tx.Hash, log: l.Index, from: common.BytesToAddress(l.Topics[2][:]), to: common.BytesToAddress(l.Topics[3][:])}
				switch l.Topics[0] {
				case single.ID:
					values, err := single.Inputs.NonIndexed().Unpack(l.Data)
					require.NoError(w.t, err)
					m.id, m.value = values[0].(*big.Int), values[1].(*big.Int)
					all = append(all, m)
				case batch.ID:
					values, err := batch.Inputs.NonIndexed().Unpack(l.Data)
					require.NoError(w.t, err)
					for i, id := range values[0].([]*big.Int) {
						m.id, m.value = id, values[1].([]*big.Int)[i]
						all = append(all, m)
					}
				}
			}
		}
	}
	return all
}

func (w *evmWorld) requireTransfers(t *testing.T, ctx context.Context, s *service, truth *chainTruth) {
	all := w.movements(truth)
	require.NotEmpty(t, all)
	for _, wallet := range append(w.wallets, common.Address{}) {
		var want []string
		for _, m := range slices.Backward(all) {
			if m.from == wallet || m.to == wallet {
				want = append(want, fmt.Sprintln(m.block, m.tx, m.log, m.from, m.to, m.id, m.value))
			}
		}
		var got []string
		for _, x := range list[tokenTransfer](ctx, s, evmPath+"addresses/"+wallet.Hex()+"/transactions:listErc1155", "transactions", nil, 2) {
			require.Equal(t, w.itemsAt.Hex(), x.Erc1155Token.Address)
			require.Equal(t, "ERC-1155", x.Erc1155Token.ErcType)
			got = append(got, fmt.Sprintln(x.BlockNumber, x.TxHash, x.LogIndex, x.From.Address, x.To.Address, x.Erc1155Token.TokenID, x.Value))
		}
		require.Equal(t, want, got, "%s", wallet)
	}
}

func (w *evmWorld) requireBalances(t *testing.T, ctx context.Context, s *service, tip uint64) {
	type balances struct {
		NextPageToken      string
		NativeTokenBalance struct{ ChainID, Balance, Symbol string }
		Tokens             []struct{ Address, TokenID, Balance, TokenURI string } `json:"erc1155TokenBalances"`
	}
	held := 0
	for height := range tip + 1 {
		for _, wallet := range w.wallets {
			var want []string
			for _, id := range []int64{1, 2, 7, 300} {
				if n, ok := w.ask(ctx, w.itemsAt, w.items, height, "balanceOf", wallet, big.NewInt(id)).(*big.Int); ok && n.Sign() > 0 {
					want = append(want, fmt.Sprintln(w.itemsAt.Hex(), id, n))
				}
			}
			native, err := w.client.BalanceAt(ctx, wallet, new(big.Int).SetUint64(height))
			require.NoError(t, err)
			var got []string
			query := url.Values{"blockNumber": {fmt.Sprint(height)}, "pageSize": {"2"}}
			for more := true; more; {
				status, content := s.ask(ctx, evmPath+"addresses/"+wallet.Hex()+"/balances:listErc1155", query)
				require.Equal(t, http.StatusOK, status, "%s", content)
				var page balances
				require.NoError(t, json.Unmarshal(content, &page))
				require.Equal(t, native.String(), page.NativeTokenBalance.Balance, "%s at %d", wallet, height)
				require.Equal(t, "AVAX", page.NativeTokenBalance.Symbol)
				for _, b := range page.Tokens {
					got = append(got, fmt.Sprintln(b.Address, b.TokenID, b.Balance))
				}
				query.Set("pageToken", page.NextPageToken)
				more = page.NextPageToken != ""
			}
			require.Equal(t, want, got, "%s at %d", wallet, height)
			held += len(got)
		}
	}
	require.Positive(t, held)
	status, content := s.ask(ctx, evmPath+"addresses/"+w.account.Hex()+"/balances:listErc1155", url.Values{"blockNumber": {fmt.Sprint(tip + 1000)}})
	require.Equal(t, http.StatusBadRequest, status, "%s", content)
	require.Contains(t, string(content), "blockNumber")
}

func (w *evmWorld) requireDeployments(t *testing.T, ctx context.Context, s *service, truth *chainTruth, made common.Hash, drawers []common.Address) {
	type contract struct {
		Address, ErcType, Name, Symbol string
		Decimals                       *int
		DeploymentDetails              struct{ TxHash, DeployerAddress, DeployerContractAddress string }
	}
	// Everything the account deployed, newest first; what the till made is among it.
	type deployment struct{ address, tx, creator string }
	var want []deployment
	for _, block := range slices.Backward(truth.blocks) {
		for _, tx := range slices.Backward(block.Transactions) {
			if tx.Hash == made {
				want = append(want, deployment{drawers[1].Hex(), made.Hex(), w.tillAt.Hex()}, deployment{drawers[0].Hex(), made.Hex(), w.tillAt.Hex()})
			}
			if r := truth.receipts[tx.Hash]; tx.To == nil && r.Status == types.ReceiptStatusSuccessful {
				want = append(want, deployment{r.ContractAddress.Hex(), tx.Hash.Hex(), ""})
			}
		}
	}
	require.Len(t, want, 7)
	kinds := map[string]contract{
		w.coinAt.Hex(): {ErcType: "ERC-20", Name: "Test Coin", Symbol: "COIN"}, w.itemsAt.Hex(): {ErcType: "ERC-1155"},
		w.cardsAt.Hex(): {ErcType: "ERC-721", Name: "Test Cards", Symbol: "CARD"},
	}
	for address, want := range map[string][]deployment{
		w.account.Hex(): want,
		w.tillAt.Hex():  slices.DeleteFunc(slices.Clone(want), func(d deployment) bool { return d.creator == "" }),
		w.coinAt.Hex():  nil,
	} {
		var got []deployment
		for _, c := range list[contract](ctx, s, evmPath+"contracts/"+address+"/deployments", "contracts", nil, 2) {
			got = append(got, deployment{c.Address, c.DeploymentDetails.TxHash, c.DeploymentDetails.DeployerContractAddress})
			require.Equal(t, w.account.Hex(), c.DeploymentDetails.DeployerAddress)
			kind := kinds[c.Address]
			require.Equal(t, cmp.Or(kind.ErcType, "UNKNOWN"), c.ErcType, "%s", c.Address)
			require.Equal(t, kind.Name, c.Name)
			require.Equal(t, kind.Symbol, c.Symbol)
			if c.ErcType == "ERC-20" {
				require.Equal(t, 6, *c.Decimals)
			}
		}
		require.Equal(t, want, got, "%s", address)
	}

	type details struct {
		NetworkTokenDetails  struct{ NetworkToken struct{ Symbol string } }
		NativeTransaction    nativeTransaction
		Erc20Transfers       []tokenTransfer
		Erc721Transfers      []tokenTransfer
		Erc1155Transfers     []tokenTransfer
		InternalTransactions []internalTransaction
	}
	for _, d := range want {
		status, content := s.ask(ctx, evmPath+"contracts/"+d.address+"/transactions:getDeployment", nil)
		require.Equal(t, http.StatusOK, status, "%s", content)
		var got details
		require.NoError(t, json.Unmarshal(content, &got))
		tx, _, err := w.client.TransactionByHash(ctx, common.HexToHash(d.tx))
		require.NoError(t, err)
		receipt := truth.receipts[tx.Hash()]
		require.Equal(t, d.tx, got.NativeTransaction.TxHash)
		require.Equal(t, hexutil.Encode(tx.Data()), got.NativeTransaction.Input)
		require.Equal(t, tx.GasFeeCap().String(), got.NativeTransaction.MaxFeePerGas)
		require.Equal(t, fmt.Sprint(receipt.GasUsed), got.NativeTransaction.GasUsed)
		require.Equal(t, "AVAX", got.NetworkTokenDetails.NetworkToken.Symbol)
		var internals []string
		for _, i := range got.InternalTransactions {
			internals = append(internals, fmt.Sprintln(i.From.Address, i.To.Address, i.InternalTxType, i.Value, i.IsReverted, i.GasUsed, i.GasLimit))
		}
		var frames []string
		for _, f := range truth.internals {
			if f.txHash == tx.Hash() {
				frames = append(frames, fmt.Sprintln(f.From, f.To, f.Type, f.Value.ToInt(), f.reverted, uint64(f.GasUsed), uint64(f.Gas)))
			}
		}
		require.Equal(t, frames, internals)
		if d.address == w.coinAt.Hex() {
			require.Len(t, got.Erc20Transfers, 1)
			x := got.Erc20Transfers[0]
			require.Equal(t, []string{common.Address{}.Hex(), w.account.Hex(), "1000000", "COIN"}, []string{x.From.Address, x.To.Address, x.Value, x.Erc20Token.Symbol})
		} else {
			require.Empty(t, got.Erc20Transfers)
		}
		require.Empty(t, got.Erc721Transfers)
		require.Empty(t, got.Erc1155Transfers)
	}
	for _, address := range []common.Address{w.account, warpPrecompile, common.HexToAddress("0x1234")} {
		status, content := s.ask(ctx, evmPath+"contracts/"+address.Hex()+"/transactions:getDeployment", nil)
		require.Equal(t, http.StatusNotFound, status, "%s", content)
	}
}

func (w *evmWorld) requireTokens(t *testing.T, ctx context.Context, s *service, tip uint64) {
	type token struct {
		Address, ErcType, TokenID, TokenURI, OwnerAddress, Name, Symbol string
		Metadata                                                        struct{ IndexStatus, Name, Description, ImageURI, Attributes string }
	}
	var want []string
	for id := range int64(12) {
		n := big.NewInt(id * id * id)
		owner, ok := w.ask(ctx, w.cardsAt, w.cards, tip, "ownerOf", n).(common.Address)
		if !ok {
			require.EqualValues(t, 2, id, "burnt")
			continue
		}
		want = append(want, fmt.Sprintln(n, owner, w.ask(ctx, w.cardsAt, w.cards, tip, "tokenURI", n)))
	}
	require.Len(t, want, 11)
	path := evmPath + "nfts/collections/" + w.cardsAt.Hex() + "/tokens"
	// Metadata is fetched in the background.
	var tokens []token
	require.Eventually(t, func() bool {
		tokens = list[token](ctx, s, path, "tokens", nil, 3)
		return !slices.ContainsFunc(tokens, func(x token) bool { return !strings.EqualFold(x.Metadata.IndexStatus, "indexed") })
	}, 2*time.Minute, 100*time.Millisecond, "metadata")
	var got []string
	for _, x := range tokens {
		got = append(got, fmt.Sprintln(x.TokenID, x.OwnerAddress, x.TokenURI))
		require.Equal(t, "Test Cards", x.Name)
		require.Equal(t, "CARD", x.Symbol)
		require.Equal(t, "Card "+x.TokenID, x.Metadata.Name)
		require.Equal(t, "one of many", x.Metadata.Description)
		require.Equal(t, "data:image/svg+xml,<svg/>", x.Metadata.ImageURI)
		require.JSONEq(t, `[{"trait_type":"number","value":`+x.TokenID+`}]`, x.Metadata.Attributes)
	}
	require.Equal(t, want, got)

	var ids []string
	for _, x := range list[token](ctx, s, evmPath+"nfts/collections/"+w.itemsAt.Hex()+"/tokens", "tokens", nil, 2) {
		require.Equal(t, "ERC-1155", x.ErcType)
		require.Empty(t, x.OwnerAddress)
		ids = append(ids, x.TokenID)
	}
	require.Equal(t, []string{"2", "7", "300"}, ids, "all of 1 is burnt")
	status, content := s.ask(ctx, evmPath+"nfts/collections/"+w.coinAt.Hex()+"/tokens", nil)
	require.Equal(t, http.StatusNotFound, status, "%s", content)
}

func (w *evmWorld) requireTPS(t *testing.T, ctx context.Context, s *service, truth *chainTruth) {
	status, content := s.ask(ctx, "/v1/avg_tps/43112", nil)
	require.Equal(t, http.StatusOK, status, "%s", content)
	var series struct {
		Results []struct {
			Timestamp int64
			Value     float64
		}
		Status, LastRun int64
	}
	require.NoError(t, json.Unmarshal(content, &series))
	require.EqualValues(t, 200, series.Status)
	const day = 24 * 60 * 60
	last := int64(truth.blocks[len(truth.blocks)-1].Timestamp)
	require.NotEmpty(t, series.Results)
	newest := series.Results[0]
	require.Equal(t, last-last%day, newest.Timestamp)
	count := 0
	for _, block := range truth.blocks {
		if int64(block.Timestamp) >= newest.Timestamp {
			count += len(block.Transactions)
		}
	}
	// The current day counts up to its last block.
	elapsed := max(last-newest.Timestamp, 1)
	require.InDelta(t, float64(count)/float64(elapsed), newest.Value, 0.01)
	status, content = s.ask(ctx, "/v1/avg_tps/1", nil)
	require.Equal(t, http.StatusNotFound, status, "%s", content)
	var refusal struct{ Message []string }
	require.NoError(t, json.Unmarshal(content, &refusal))
	require.NotEmpty(t, refusal.Message)
}
