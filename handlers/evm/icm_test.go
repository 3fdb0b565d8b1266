package evm_test

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holiman/uint256"
	"github.com/labstack/echo/v4"
	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp/payload"
	"github.com/ava-labs/libevm/accounts/abi"
	"github.com/ava-labs/libevm/common"
	"github.com/ava-labs/libevm/crypto"

	"quorate/handlers/apitest"
	"quorate/handlers/chainkit"
	"quorate/handlers/compat"
	"quorate/handlers/docs/conform"
	api "quorate/handlers/evm"
	"quorate/handlers/reply"
	chain "quorate/internal/chain/evm"
	"quorate/internal/chain/evm/icmtest"
	"quorate/internal/index/evm"
	"quorate/internal/store"
)

const l1ChainID = 99_999

// icmLife is a message with all that happened to it, on indexed chains and on others.
type icmLife struct {
	id                  common.Hash
	source, destination ids.ID
	content             *chain.ICMMessage
	fee                 chain.ICMFee
	steps               []icmStep // in the order of time
	warpID              ids.ID
	signedAt            time.Time // zero if the service did not sign it
}

type icmStep struct {
	kind  chain.ICMEventKind
	at    ids.ID
	block *chain.Block
	tx    common.Hash
	log   uint32
}

// step returns the first step of a kind, or nil.
func (l *icmLife) step(kind chain.ICMEventKind) *icmStep {
	for i := range l.steps {
		if l.steps[i].kind == kind {
			return &l.steps[i]
		}
	}
	return nil
}

// icmHistory is a random history of messages between two chains that are indexed in some tests, cChainID and l1ID, and
// otherID, which never is.
type icmHistory struct {
	t       testing.TB
	rng     *rand.Rand
	encoder *icmtest.Encoder
	now     uint64
	blocks  map[ids.ID][]*chain.Block
	nonces  map[ids.ID]uint64
	lives   []*icmLife
}

func newICMHistory(t testing.TB, seed uint64, events int) *icmHistory {
	t.Helper()
	h := &icmHistory{
		t: t, rng: rand.New(rand.NewPCG(seed, 21)), encoder: must(icmtest.New()), now: now - 100_000,
		blocks: make(map[ids.ID][]*chain.Block), nonces: make(map[ids.ID]uint64),
	}
	for _, id := range []ids.ID{cChainID, l1ID, otherID} {
		// The token emits an event, so that the index knows it as a contract.
		b, tx := h.transaction(id)
		tx.Logs = []chain.Log{{Address: coin, Topics: []common.Hash{crypto.Keccak256Hash([]byte("Transfer(address,address,uint256)")), {}, {}}, Data: make([]byte, 32)}}
		b.Transactions = append(b.Transactions, *tx)
	}
	for range events {
		h.now += h.rng.Uint64N(3)
		if len(h.lives) == 0 || h.rng.IntN(3) == 0 {
			h.send()
		} else {
			h.proceed(h.lives[h.rng.IntN(len(h.lives))])
		}
	}
	return h
}

// transaction returns a new transaction for the last block of a chain, or for a new one.
func (h *icmHistory) transaction(id ids.ID) (*chain.Block, *chain.Transaction) {
	all := h.blocks[id]
	if len(all) == 0 || all[len(all)-1].Time != h.now || h.rng.IntN(2) == 0 {
		b := &chain.Block{Number: uint64(len(all)), Time: h.now, Traced: true, Hash: hash(len(all))}
		if h.rng.IntN(2) == 0 {
			b.Milliseconds = 1000*h.now + h.rng.Uint64N(1000)
		}
		h.blocks[id] = append(all, b)
	}
	b := h.blocks[id][len(h.blocks[id])-1]
	to := chain.Teleporter
	seed := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(id[:], b.Number), uint64(len(b.Transactions)))
	return b, &chain.Transaction{Hash: crypto.Keccak256Hash(seed), From: alice, To: &to, GasUsed: h.rng.Uint64N(1e6), Success: true}
}

// emit adds a transaction with one event for each kind to a chain.
func (h *icmHistory) emit(l *icmLife, at ids.ID, kinds ...chain.ICMEventKind) {
	b, tx := h.transaction(at)
	logs := uint32(0)
	for i := range b.Transactions {
		logs += uint32(len(b.Transactions[i].Logs))
	}
	for _, kind := range kinds {
		e := chain.ICMEvent{Kind: kind, ID: l.id, LogIndex: logs, Other: l.destination, Message: l.content, Fee: l.fee, Deliverer: bob, RewardRedeemer: till}
		if at == l.destination {
			e.Other = l.source
		}
		log, err := h.encoder.Log(&e, l.destination)
		require.NoError(h.t, err)
		tx.Logs = append(tx.Logs, log)
		l.steps = append(l.steps, icmStep{kind, at, b, tx.Hash, logs})
		logs++
		if kind == chain.ICMSent {
			tx.Logs = append(tx.Logs, h.warpLog(l, e, logs))
			logs++
		}
	}
	b.Transactions = append(b.Transactions, *tx)
}

// warpLog returns the log of the Warp message that carries a message.
func (h *icmHistory) warpLog(l *icmLife, e chain.ICMEvent, index uint32) chain.Log {
	e.Kind = chain.ICMExecutionFailed // its data is the encoded message
	encoded, err := h.encoder.Log(&e, l.destination)
	require.NoError(h.t, err)
	call := must(payload.NewAddressedCall(chain.Teleporter[:], encoded.Data))
	m := must(warp.NewUnsignedMessage(5, l.source, call.Bytes()))
	if l.warpID == ids.Empty && len(h.lives)%2 == 0 {
		l.signedAt = time.UnixMilli(int64(1000*h.now + 1234)).UTC()
	}
	l.warpID = m.ID()
	kind := must(abi.NewType("bytes", "", nil))
	return chain.Log{
		Address: common.HexToAddress("0x0200000000000000000000000000000000000005"), Index: index, Data: must(abi.Arguments{{Type: kind}}.Pack(m.Bytes())),
		Topics: []common.Hash{crypto.Keccak256Hash([]byte("SendWarpMessage(address,bytes32,bytes)")), common.BytesToHash(chain.Teleporter[:]), common.Hash(l.warpID)},
	}
}

// signed returns when the service signed messages.
func (h *icmHistory) signed(_ context.Context, messageIDs []ids.ID) ([]time.Time, error) {
	times := make([]time.Time, len(messageIDs))
	for i, id := range messageIDs {
		for _, l := range h.lives {
			if l.warpID == id {
				times[i] = l.signedAt
			}
		}
	}
	return times, nil
}

func (h *icmHistory) send() {
	chains := []ids.ID{cChainID, l1ID, otherID}
	h.rng.Shuffle(len(chains), func(i, j int) { chains[i], chains[j] = chains[j], chains[i] })
	parties := []common.Address{alice, bob, coin, till}
	l := &icmLife{source: chains[0], destination: chains[1]}
	h.nonces[l.source]++
	l.content = &chain.ICMMessage{
		Nonce: *uint256.NewInt(h.nonces[l.source]), Sender: parties[h.rng.IntN(4)], Recipient: parties[h.rng.IntN(4)],
		GasLimit: *uint256.NewInt(100_000), Data: make([]byte, h.rng.IntN(40)),
	}
	for range h.rng.IntN(3) {
		l.content.Receipts = append(l.content.Receipts, chain.ICMReceipt{Nonce: *uint256.NewInt(h.rng.Uint64N(9)), RewardRedeemer: parties[h.rng.IntN(4)]})
	}
	if h.rng.IntN(2) == 0 {
		l.fee = chain.ICMFee{Token: coin, Amount: *uint256.NewInt(1 + h.rng.Uint64N(1e9))}
	}
	l.id = chain.ICMMessageID(l.source, l.destination, &l.content.Nonce)
	h.lives = append(h.lives, l)
	h.emit(l, l.source, chain.ICMSent)
}

// proceed adds a step that may follow those of a message.
func (h *icmHistory) proceed(l *icmLife) {
	switch {
	case l.step(chain.ICMReceiptReturned) != nil:
	case l.step(chain.ICMDelivered) == nil:
		switch h.rng.IntN(6) {
		case 0:
			h.emit(l, l.source, chain.ICMSent) // sent again
		case 1:
			if l.fee.Token == coin {
				l.fee.Amount.AddUint64(&l.fee.Amount, 5)
				h.emit(l, l.source, chain.ICMFeeAdded)
			}
		case 2, 3:
			h.emit(l, l.destination, chain.ICMDelivered, chain.ICMExecuted)
		default:
			h.emit(l, l.destination, chain.ICMDelivered, chain.ICMExecutionFailed)
		}
	case l.step(chain.ICMExecuted) == nil && h.rng.IntN(2) == 0:
		h.emit(l, l.destination, chain.ICMExecuted) // the execution is tried again
	default:
		h.emit(l, l.source, chain.ICMReceiptReturned)
	}
}

// serve indexes the blocks of some of the chains, in a random order across them, and serves the indexes.
func (h *icmHistory) serve(seed uint64, mode compat.Mode, indexed ...ids.ID) *echo.Echo {
	h.t.Helper()
	rng := rand.New(rand.NewPCG(seed, 22))
	s := store.NewMemory()
	h.t.Cleanup(func() { require.NoError(h.t, s.Close()) })
	var order []ids.ID
	writers := make(map[ids.ID]*evm.Projection)
	var chains []api.Chain
	f := newFake()
	for _, id := range indexed {
		writers[id] = evm.NewProjection(5, id)
		order = append(order, slices.Repeat([]ids.ID{id}, len(h.blocks[id]))...)
		one := f.chain()
		one.BlockchainID, one.Index = id, evm.New(s, 5, id, f)
		if id == l1ID {
			one.ChainID, one.Primary = l1ChainID, false
		}
		chains = append(chains, one)
	}
	rng.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	next := make(map[ids.ID]int)
	var batch store.Batch
	for _, id := range order {
		require.NoError(h.t, writers[id].Apply(h.t.Context(), s, h.blocks[id][next[id]], &batch))
		if next[id]++; rng.IntN(3) == 0 {
			require.NoError(h.t, s.Commit(h.t.Context(), &batch))
			batch.Reset()
		}
	}
	require.NoError(h.t, s.Commit(h.t.Context(), &batch))
	all := new(api.Chains)
	require.NoError(h.t, all.Set("fuji", chains, false))
	return surface(h.t, mode, api.Options{Chains: all, SignedAt: h.signed})
}

// want returns the expected messages of indexed chains, newest first.
func (h *icmHistory) want(indexed []ids.ID, selects func(l *icmLife) bool) []map[string]any {
	type placed struct {
		at *icmStep
		is map[string]any
	}
	var found []placed
	for _, l := range h.lives {
		sent, delivered := l.step(chain.ICMSent), l.step(chain.ICMDelivered)
		switch {
		case !selects(l):
		case slices.Contains(indexed, l.source):
			found = append(found, placed{sent, l.shown(indexed)})
		case delivered != nil && slices.Contains(indexed, l.destination):
			found = append(found, placed{delivered, l.shown(indexed)})
		}
	}
	slices.SortFunc(found, func(a, b placed) int {
		return cmp.Or(cmp.Compare(b.at.block.Time, a.at.block.Time), a.at.at.Compare(b.at.at),
			cmp.Compare(b.at.block.Number, a.at.block.Number), cmp.Compare(b.at.log, a.at.log))
	})
	all := []map[string]any{}
	for _, one := range found {
		all = append(all, one.is)
	}
	return all
}

// shown returns what an answer says about a message, except for its transactions' gas.
func (l *icmLife) shown(indexed []ids.ID) map[string]any {
	evmID := func(id ids.ID) string {
		switch {
		case !slices.Contains(indexed, id):
			return ""
		case id == cChainID:
			return "43113"
		}
		return fmt.Sprint(l1ChainID)
	}
	known := func(kind chain.ICMEventKind) *icmStep {
		if s := l.step(kind); s != nil && slices.Contains(indexed, s.at) {
			return s
		}
		return nil
	}
	receipts := []any{}
	for _, r := range l.content.Receipts {
		receipts = append(receipts, map[string]any{"receivedMessageNonce": r.Nonce.Dec(), "relayerRewardAddress": r.RewardRedeemer.Hex()})
	}
	reward := map[string]any{"address": "", "name": "", "symbol": "", "decimals": 0., "ercType": "ERC-20", "value": ""}
	if known(chain.ICMSent) != nil {
		reward["address"], reward["value"] = l.fee.Token.Hex(), l.fee.Amount.Dec()
		if l.fee.Token == coin {
			reward["name"], reward["symbol"], reward["decimals"] = "Test Coin", "COIN", 6.
		}
	}
	m := map[string]any{
		"messageId": l.id.Hex(), "icmContractAddress": chain.Teleporter.Hex(), "sourceBlockchainId": l.source.String(),
		"destinationBlockchainId": l.destination.String(), "sourceEvmChainId": evmID(l.source), "destinationEvmChainId": evmID(l.destination),
		"messageNonce": l.content.Nonce.Dec(), "from": l.content.Sender.Hex(), "to": l.content.Recipient.Hex(),
		"data": "0x" + hex.EncodeToString(l.content.Data), "messageExecuted": known(chain.ICMExecuted) != nil, "receipts": receipts,
		"receiptDelivered": known(chain.ICMReceiptReturned) != nil, "rewardDetails": reward, "status": "delivered",
	}
	if s := known(chain.ICMSent); s != nil {
		m["sourceTransaction"] = map[string]any{"txHash": s.tx.Hex(), "timestamp": float64(s.block.Time)}
	} else {
		m["status"] = "delivered_source_not_indexed"
	}
	if s := known(chain.ICMDelivered); s != nil {
		m["destinationTransaction"] = map[string]any{
			"txHash": s.tx.Hex(), "timestamp": float64(s.block.Time), "rewardRedeemer": till.Hex(), "delivererAddress": bob.Hex(),
		}
	} else {
		m["status"] = "pending"
	}
	steps := []any{}
	var before int64
	for _, kind := range []chain.ICMEventKind{chain.ICMSent, chain.ICMDelivered, chain.ICMExecutionFailed, chain.ICMExecuted, chain.ICMReceiptReturned} {
		s := known(kind)
		if s == nil {
			continue
		}
		step := map[string]any{
			"step":         map[chain.ICMEventKind]string{chain.ICMSent: "SENT", chain.ICMDelivered: "DELIVERED", chain.ICMExecutionFailed: "EXECUTION_FAILED", chain.ICMExecuted: "EXECUTED", chain.ICMReceiptReturned: "RECEIPT_RETURNED"}[kind],
			"blockchainId": s.at.String(), "txHash": s.tx.Hex(), "blockNumber": fmt.Sprint(s.block.Number), "timestamp": float64(s.block.Time),
		}
		at := int64(1000 * s.block.Time)
		if s.block.Milliseconds != 0 {
			at = int64(s.block.Milliseconds)
			step["timestampMilliseconds"] = float64(at)
		}
		if len(steps) > 0 {
			step["secondsSincePreviousStep"] = float64(at-before) / 1000
		}
		steps, before = append(steps, step), at
		if kind == chain.ICMSent && !l.signedAt.IsZero() {
			at := l.signedAt.UnixMilli()
			steps, before = append(steps, map[string]any{
				"step": "SIGNED", "timestamp": float64(at / 1000), "timestampMilliseconds": float64(at), "secondsSincePreviousStep": float64(at-before) / 1000,
			}), at
		}
	}
	m["lifecycle"] = steps
	return m
}

// withoutGas removes the gas of an answer's transactions and checks that it is a number.
func withoutGas(t testing.TB, m map[string]any) map[string]any {
	t.Helper()
	for _, name := range []string{"sourceTransaction", "destinationTransaction"} {
		if tx, ok := m[name].(map[string]any); ok {
			require.Regexp(t, "^[0-9]+$", tx["gasSpent"])
			delete(tx, "gasSpent")
		}
	}
	return m
}

// icmPages reads a list to its end.
func icmPages(t testing.TB, h http.Handler, path string, size int) []map[string]any {
	t.Helper()
	all := []map[string]any{}
	for token := ""; ; {
		w := apitest.Get(h, path+fmt.Sprintf("&pageSize=%d&pageToken=%s", size, token))
		require.Equal(t, http.StatusOK, w.Code, w.Body)
		var page struct {
			NextPageToken string
			Messages      []map[string]any
		}
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &page))
		for _, m := range page.Messages {
			all = append(all, withoutGas(t, m))
		}
		if token = page.NextPageToken; token == "" {
			return all
		}
		require.Len(t, page.Messages, size, "only the last page is short")
	}
}

// TestICMLifecycles compares all lists of random histories with what happened: with both chains indexed in any order,
// and with one of them.
//
//test:plain
func TestICMLifecycles(t *testing.T) {
	for seed := range uint64(3) {
		history := newICMHistory(t, seed, 80)
		for _, indexed := range [][]ids.ID{{cChainID, l1ID}, {l1ID, cChainID}, {cChainID}, {l1ID}} {
			h := history.serve(seed, compat.Auto, indexed...)
			const list = "/v1/icm/messages?"
			everything := history.want(indexed, func(*icmLife) bool { return true })
			require.NotEmpty(t, everything)
			for _, size := range []int{1, 3, 100} {
				require.Equal(t, everything, icmPages(t, h, list+"network=testnet", size))
			}
			for filter, selects := range map[string]func(l *icmLife) bool{
				"":                                       func(*icmLife) bool { return true },
				"sourceBlockchainId=" + l1ID.String():    func(l *icmLife) bool { return l.source == l1ID },
				"sourceBlockchainId=" + otherID.String(): func(l *icmLife) bool { return l.source == otherID },
				"blockchainId=" + cChainID.String():      func(l *icmLife) bool { return l.source == cChainID || l.destination == cChainID },
				"blockchainId=" + otherID.String():       func(l *icmLife) bool { return l.source == otherID || l.destination == otherID },
				"destinationBlockchainId=" + cChainID.String() + "&blockchainId=" + l1ID.String(): func(l *icmLife) bool {
					return l.source == l1ID && l.destination == cChainID
				},
				"sourceBlockchainId=" + l1ID.String() + "&destinationBlockchainId=" + otherID.String() + "&blockchainId=" + cChainID.String(): func(*icmLife) bool { return false },
				"from=" + lower(alice):                     func(l *icmLife) bool { return l.content.Sender == alice },
				"to=" + upper(bob) + "&from=" + till.Hex(): func(l *icmLife) bool { return l.content.Recipient == bob && l.content.Sender == till },
				"to=" + bob.Hex() + "&sourceBlockchainId=" + l1ID.String(): func(l *icmLife) bool {
					return l.content.Recipient == bob && l.source == l1ID
				},
			} {
				require.Equal(t, history.want(indexed, selects), icmPages(t, h, list+filter, 3), filter)
			}
			require.Equal(t, history.want(indexed, func(l *icmLife) bool { return l.content.Sender == coin || l.content.Recipient == coin }),
				icmPages(t, h, "/v1/icm/addresses/"+coin.Hex()+"/messages?", 2))
			for _, m := range everything {
				for _, id := range []string{m["messageId"].(string), strings.TrimPrefix(m["messageId"].(string), "0x")} {
					w := apitest.Get(h, "/v1/icm/messages/"+id)
					require.Equal(t, http.StatusOK, w.Code, w.Body)
					var one map[string]any
					require.NoError(t, json.Unmarshal(w.Body.Bytes(), &one))
					require.Equal(t, m, withoutGas(t, one))
				}
			}
		}
	}
}

// TestICMByChainID selects by EVM chain IDs.
func TestICMByChainID(t *testing.T) {
	history := newICMHistory(t, 1, 100)
	indexed := []ids.ID{cChainID, l1ID}
	h := history.serve(1, compat.Auto, indexed...)
	require.Equal(t, history.want(indexed, func(l *icmLife) bool { return l.source == cChainID && l.destination == l1ID }),
		icmPages(t, h, fmt.Sprintf("/v1/icm/messages?sourceBlockchainId=43113&destinationBlockchainId=%d", l1ChainID), 4))
}

func TestICMErrors(t *testing.T) {
	history := newICMHistory(t, 2, 50)
	h := history.serve(2, compat.Auto, cChainID)
	const list = "/v1/icm/messages"
	token := func(path string) string {
		var page struct{ NextPageToken string }
		require.NoError(t, json.Unmarshal(apitest.Get(h, path).Body.Bytes(), &page))
		require.NotEmpty(t, page.NextPageToken)
		return page.NextPageToken
	}
	for path, part := range map[string]string{
		list + "?network=mainnet":      "404 network: ICM messages of mainnet is not served here",
		list + "?network=nowhere":      `400 network: \"nowhere\" is no network`,
		list + "?network=":             "400 network: it is empty",
		list + "?sourceBlockchainId=1": `400 sourceBlockchainId: \"1\" is neither`,
		list + "?blockchainId=c-chain": `400 blockchainId: \"c-chain\" is neither`,
		list + "?from=nobody":          `400 from: \"nobody\" is no address`,
		list + "?pageSize=101":         "400 pageSize",
		list + "?pageToken=x":          "400 pageToken",
		list + "?from=" + bob.Hex() + "&pageToken=" + token(list+"?pageSize=1"): "400 pageToken",
		list + "/0x12":                        `400 messageId: \"0x12\" is no message ID`,
		list + "/" + strings.Repeat("ab", 32): "404 messageId: no chain that this instance indexes has sent or received message",
		"/v1/icm/addresses/nobody/messages":   `400 address: \"nobody\" is no address`,
	} {
		w := apitest.Get(h, path)
		status, text, _ := strings.Cut(part, " ")
		require.Equal(t, status, fmt.Sprint(w.Code), "%s: %s", path, w.Body)
		require.Contains(t, w.Body.String(), text, path)
	}
}

// TestICMWhileIndexing sends requests while indexes are catching up, while a network is starting, and
// when no chain is indexed.
func TestICMWhileIndexing(t *testing.T) {
	history := newICMHistory(t, 3, 60)
	s := store.NewMemory()
	defer s.Close()
	f := newFake()
	behind := reply.Progress{Height: 1, Lag: 9, Time: time.Unix(now, 0)}
	progress := map[ids.ID]reply.Progress{cChainID: f.progress, l1ID: f.progress}
	var served []api.Chain
	for id := range progress {
		writer := evm.NewProjection(5, id)
		blocks := history.blocks[id]
		if id == l1ID {
			blocks = blocks[:1] // nothing is known to be sent
		}
		for _, b := range blocks {
			var batch store.Batch
			require.NoError(t, writer.Apply(t.Context(), s, b, &batch))
			require.NoError(t, s.Commit(t.Context(), &batch))
		}
		one := f.chain()
		one.BlockchainID, one.Index, one.Progress = id, evm.New(s, 5, id, f), func(context.Context) reply.Progress { return progress[id] }
		if id == l1ID {
			one.ChainID, one.Primary = l1ChainID, false
		}
		served = append(served, one)
	}
	all := new(api.Chains)
	h := surface(t, compat.Auto, api.Options{Chains: all})
	require.Equal(t, http.StatusNotFound, apitest.Get(h, "/v1/icm/messages").Code)
	require.NoError(t, all.Set("fuji", nil, true))
	require.Equal(t, http.StatusServiceUnavailable, apitest.Get(h, "/v1/icm/messages").Code)
	require.NoError(t, all.Set("fuji", served, false))

	progress[l1ID] = behind
	apitest.RequireError(t, apitest.Get(h, "/v1/icm/messages"), 1000, http.StatusServiceUnavailable, "the index of chain "+l1ID.String()+" is still catching up")
	apitest.RequireError(t, apitest.Get(h, "/v1/icm/messages/"+strings.Repeat("ab", 32)), 1000, http.StatusServiceUnavailable, "the index of chain "+l1ID.String())

	// A list of messages between other chains does not need the L1, nor does one of them.
	pair := "/v1/icm/messages?sourceBlockchainId=" + cChainID.String() + "&destinationBlockchainId=" + otherID.String()
	others := icmPages(t, h, pair, 100)
	require.NotEmpty(t, others)
	require.NoError(t, all.Set("mainnet", nil, true)) // whose node does not answer
	require.Equal(t, others, icmPages(t, h, pair+"&network=fuji", 100))
	require.Equal(t, http.StatusOK, apitest.Get(h, "/v1/icm/messages/"+others[0]["messageId"].(string)).Code)
	require.Equal(t, http.StatusServiceUnavailable, apitest.Get(h, pair).Code)
	require.Equal(t, http.StatusServiceUnavailable, apitest.Get(h, "/v1/icm/messages/"+strings.Repeat("ab", 32)).Code)
	require.NoError(t, all.Set("mainnet", nil, false))

	// A message that the L1 sent before it was delivered is unknown until the L1's block is indexed.
	behind.CaughtUp = true
	progress[l1ID] = behind
	unconfirmed, listed := 0, icmPages(t, h, "/v1/icm/messages?", 100)
	require.NotEmpty(t, listed)
	w := apitest.Get(h, "/v1/icm/messages")
	require.Equal(t, "9", w.Header().Get("Indexed-Lag"), "of the chain that is furthest behind")
	for _, l := range history.lives {
		if l.source != l1ID || l.destination != cChainID || l.step(chain.ICMDelivered) == nil {
			continue
		}
		unconfirmed++
		require.False(t, slices.ContainsFunc(listed, func(m map[string]any) bool { return m["messageId"] == l.id.Hex() }))
		apitest.RequireError(t, apitest.Get(h, "/v1/icm/messages/"+l.id.Hex()), 1000, http.StatusServiceUnavailable, "the block with which chain "+l1ID.String()+" sent the message is not indexed yet")
	}
	require.Positive(t, unconfirmed)

	// If the node of the L1 lacks old blocks, the message counts as one from a chain that is not indexed.
	late := behind
	late.From = 1
	progress[l1ID] = late
	require.Len(t, icmPages(t, h, "/v1/icm/messages?", 100), len(listed)+unconfirmed)
}

// TestICMOfficialClient pages through all lists with the official client.
func TestICMOfficialClient(t *testing.T) {
	client := chainkit.Install(t)
	history := newICMHistory(t, 4, 150)
	for _, indexed := range [][]ids.ID{{cChainID, l1ID}, {l1ID}} {
		e := history.serve(4, compat.Auto, indexed...)
		made := conform.NewCalls(e)
		server := httptest.NewServer(e)
		everything := history.want(indexed, func(*icmLife) bool { return true })
		var calls []chainkit.Call
		for size := range 3 {
			calls = append(calls, chainkit.Call{Name: fmt.Sprint(size + 1), Path: "data.icm.list", List: "messages", Request: map[string]any{"pageSize": size + 1, "network": "fuji"}})
		}
		calls = append(calls,
			chainkit.Call{Name: "one", Path: "data.icm.get", Request: map[string]any{"messageId": everything[0]["messageId"]}},
			chainkit.Call{Name: "of an address", Path: "data.icm.listByAddress", Request: map[string]any{"address": bob.Hex(), "pageSize": 100}},
			chainkit.Call{Name: "filtered", Path: "data.icm.list", List: "messages", Request: map[string]any{
				"sourceBlockchainId": l1ID.String(), "destinationBlockchainId": cChainID.String(), "blockchainId": l1ID.String(),
				"from": alice.Hex(), "to": bob.Hex(), "network": "testnet",
			}},
			chainkit.Call{Name: "unknown", Path: "data.icm.get", Request: map[string]any{"messageId": strings.Repeat("ab", 32)}},
		)
		results := client.Run(t, server.URL, calls)
		made.Require(t, "ICM messages")
		for size, r := range results[:3] {
			require.Nil(t, r.Error, "%+v", r.Error)
			var seen []any
			for _, page := range r.Pages {
				for _, m := range page["messages"].([]any) {
					seen = append(seen, m.(map[string]any)["messageId"])
				}
			}
			var want []any
			for _, m := range everything {
				want = append(want, m["messageId"])
			}
			require.Equal(t, want, seen)
			require.Len(t, r.Pages, (len(want)+size)/(size+1))
		}
		for _, r := range results[3:6] {
			require.Nil(t, r.Error, "%s: %+v", r.Name, r.Error)
		}
		require.Equal(t, everything[0]["status"], results[3].Pages[0]["status"])
		require.Len(t, results[4].Pages[0]["messages"], len(history.want(indexed, func(l *icmLife) bool { return l.content.Sender == bob || l.content.Recipient == bob })))
		require.Equal(t, 404, results[6].Error.Status)
		server.Close()
	}
}

// TestICMOfOlderIndex reads an index that a version without ICM messages began.
func TestICMOfOlderIndex(t *testing.T) {
	f := newFake()
	f.err = fmt.Errorf("%w: a chain", evm.ErrNoICM)
	all := new(api.Chains)
	require.NoError(t, all.Set("fuji", []api.Chain{f.chain()}, false))
	h := surface(t, compat.Auto, api.Options{Chains: all})
	for _, path := range []string{"/v1/icm/messages", "/v1/icm/messages/" + strings.Repeat("ab", 32), "/v1/icm/addresses/" + bob.Hex() + "/messages"} {
		w := apitest.Get(h, path)
		require.Equal(t, http.StatusServiceUnavailable, w.Code)
		require.Contains(t, w.Body.String(), "INDEX_CATCHING_UP")
	}
}

// longList is the index of a chain that sent messages, one in each second. It counts the entries that are read.
type longList struct {
	*fake
	messages uint64
	data     []byte // of each message
	read     *atomic.Int64
}

func (l longList) ICMList(_ context.Context, q evm.ICMQuery) (entries []evm.ICMEntry, err error) {
	next := l.messages
	if q.After != nil {
		next = q.After.Time - 1
	}
	for ; next > 0 && len(entries) < q.Limit; next-- {
		entries = append(entries, evm.ICMEntry{ICMPlace: evm.ICMPlace{Time: next, Number: next}, ID: hash(int(next)), Other: otherID, Sender: alice, Recipient: bob})
	}
	l.read.Add(int64(len(entries)))
	return entries, nil
}

func (l longList) ICMMessages(_ context.Context, messageIDs []common.Hash) ([]evm.ICMEvents, error) {
	all := make([]evm.ICMEvents, len(messageIDs))
	for i, id := range messageIDs {
		n := binary.BigEndian.Uint64(id[24:])
		all[i].Sent = &evm.ICMEvent{Block: evm.BlockRef{Number: n, Time: n}, ICMEvent: chain.ICMEvent{
			Kind: chain.ICMSent, ID: id, Other: otherID, Message: &chain.ICMMessage{Sender: alice, Recipient: bob, Data: l.data},
		}}
	}
	return all, nil
}

// TestICMPagesEndShort lists messages that a filter excludes, and large messages.
//
//test:plain
func TestICMPagesEndShort(t *testing.T) {
	read := new(atomic.Int64)
	get := func(l longList, query string) (messages []string, next string) {
		one := l.fake.chain()
		one.Index = l
		w := apitest.Get(surface(t, compat.Auto, api.Options{}, one), "/v1/icm/messages?"+query)
		require.Equal(t, http.StatusOK, w.Code, w.Body)
		require.Less(t, w.Body.Len(), 16<<20)
		var page struct {
			NextPageToken string
			Messages      []struct{ MessageID string }
		}
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &page))
		for _, m := range page.Messages {
			messages = append(messages, m.MessageID)
		}
		return messages, page.NextPageToken
	}

	long := longList{newFake(), 20_000, nil, read}
	query := "pageSize=1&from=" + bob.Hex() + "&to=" + bob.Hex()
	messages, next := get(long, query)
	require.Empty(t, messages)
	require.NotEmpty(t, next, "the rest of the list was not read")
	require.Less(t, read.Load(), int64(20_000))
	messages, next = get(long, query+"&pageToken="+next)
	require.Empty(t, messages)
	require.Empty(t, next)
	require.Less(t, read.Load(), int64(21_100), "the second page must go on where the first one ended")

	large := longList{newFake(), 40, make([]byte, 400_000), read}
	var all []string
	for token, pages := "", 0; pages == 0 || token != ""; pages++ {
		var some []string
		some, token = get(large, "pageSize=100&pageToken="+token)
		all = append(all, some...)
	}
	want := make([]string, 0, 40)
	for n := 40; n > 0; n-- {
		want = append(want, hash(n).Hex())
	}
	require.Equal(t, want, all)
}
