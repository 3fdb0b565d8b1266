package webhook

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holiman/uint256"
	"github.com/stretchr/testify/require"

	"github.com/ava-labs/libevm/common"

	"quorate/internal/chain/evm"
)

// overlapping returns the log of an ERC-1155 batch of n transfers whose IDs and amounts are in the same bytes.
func overlapping(n int) evm.Log {
	var data []byte
	for _, word := range []int{64, 64, n} {
		b := uint256.NewInt(uint64(word)).Bytes32()
		data = append(data, b[:]...)
	}
	topic := common.HexToHash("0x4a39dc06d4c0dbc64b70af90fd698a233a518aa5d07e595d983b8c0526c8f7fb")
	party := common.BytesToHash(bytes.Repeat([]byte{0xff}, common.AddressLength))
	data = append(data, bytes.Repeat([]byte{0xff}, 32*n)...)
	return evm.Log{Topics: []common.Hash{topic, party, party, party}, Data: data}
}

// evmMessage is a message about a transaction.
type evmMessage struct {
	size      int
	Truncated bool
	Logs      []any
	// The lists of a transaction are nil if they are absent.
	Transaction struct {
		Input                                             string
		ERC20Transfers, ERC721Transfers, ERC1155Transfers []any
		InternalTransactions                              []any
	}
}

// evmMessages returns the messages to a webhook about a block with transactions from its address. The names of the tokens
// are the longest ones.
func evmMessages(t *testing.T, w Webhook, transactions ...evm.Transaction) (all []evmMessage) {
	t.Helper()
	from := common.Address{7}
	for i := range transactions {
		transactions[i].From, transactions[i].To = from, &from
	}
	decimals, text := uint8(255), strings.Repeat(`"`, 256)
	source := NewEVM(EVMOptions{
		Native: Token{Decimals: &decimals},
		Tip:    func() (uint64, bool) { return 1, true },
		Fetch: func(context.Context, uint64, int) ([]*evm.Block, error) {
			return []*evm.Block{{Number: 1, Traced: true, Transactions: transactions}}, nil
		},
		Tokens: func(_ context.Context, addresses []common.Address, _ time.Time) ([]*Token, error) {
			tokens := make([]*Token, len(addresses))
			for i := range tokens {
				tokens[i] = &Token{Standard: evm.ERC1155, Name: text, Symbol: text, Decimals: &decimals}
			}
			return tokens, nil
		},
	})
	block, err := source.Block(t.Context(), 1)
	require.NoError(t, err)
	w.Addresses = []string{from.Hex()}
	events, err := block.Events(t.Context(), &w)
	require.NoError(t, err)
	require.Len(t, events, len(transactions))
	for _, e := range events {
		body, err := canonical(e.Body)
		require.NoError(t, err)
		one := evmMessage{size: len(body)}
		require.NoError(t, json.Unmarshal(body, &one))
		require.NotNil(t, one.Transaction.ERC20Transfers)
		require.NotNil(t, one.Transaction.ERC721Transfers)
		require.NotNil(t, one.Transaction.ERC1155Transfers)
		all = append(all, one)
	}
	return all
}

// small is the maximum size of a message without details.
const small = 4 << 10

// TestLargeTransactions has transactions whose messages would be larger than a store accepts.
func TestLargeTransactions(t *testing.T) {
	const fits = 4000
	one := evmMessages(t, Webhook{}, evm.Transaction{Input: []byte{1}, Logs: []evm.Log{overlapping(fits)}})[0]
	require.False(t, one.Truncated)
	require.Len(t, one.Transaction.ERC1155Transfers, fits)
	require.Equal(t, "0x01", one.Transaction.Input)
	require.Greater(t, one.size, maxDetails/2)
	require.LessOrEqual(t, one.size, maxDetails+small)

	data := make([]byte, maxDetails/2)
	frames := make([]evm.Frame, fits+100)
	for i := range frames {
		frames[i].Value.SetAllOne()
	}
	for name, c := range map[string]struct {
		w    Webhook
		full bool // for a webhook without the large parts
		tx   evm.Transaction
	}{
		"transfers":             {Webhook{}, false, evm.Transaction{Logs: []evm.Log{overlapping(50_000)}}},
		"transfers of two logs": {Webhook{}, false, evm.Transaction{Logs: []evm.Log{overlapping(3000), overlapping(3000)}}},
		"input":                 {Webhook{}, false, evm.Transaction{Input: make([]byte, maxDetails/2+1)}},
		"internal transactions": {Webhook{IncludeInternals: true}, true, evm.Transaction{Frames: frames}},
		"logs":                  {Webhook{IncludeLogs: true}, true, evm.Transaction{Logs: make([]evm.Log, fits+100)}},
		"data of logs":          {Webhook{IncludeLogs: true}, true, evm.Transaction{Logs: []evm.Log{{Data: data}}}},
	} {
		t.Run(name, func(t *testing.T) {
			got := evmMessages(t, c.w, c.tx)[0]
			require.True(t, got.Truncated)
			require.LessOrEqual(t, got.size, small)
			require.Equal(t, "0x", got.Transaction.Input)
			require.Nil(t, got.Transaction.InternalTransactions)
			require.Nil(t, got.Logs)
			require.Equal(t, !c.full, evmMessages(t, Webhook{}, c.tx)[0].Truncated)
		})
	}
}

// TestLargeBlock has a block with many transactions, each with as many transfers as fit in a message.
//
//test:plain
func TestLargeBlock(t *testing.T) {
	transactions := make([]evm.Transaction, 40)
	for i := range transactions {
		transactions[i] = evm.Transaction{Hash: common.Hash{byte(i)}, Logs: []evm.Log{overlapping(4000)}}
	}
	transactions[39].Logs = nil
	full, size := 0, 0
	for _, one := range evmMessages(t, Webhook{}, transactions...) {
		size += one.size
		if !one.Truncated {
			full++
		}
	}
	require.Equal(t, maxBlockDetails/(4000*itemBytes)+1, full, "the last transaction has no details")
	require.LessOrEqual(t, size, maxBlockDetails+len(transactions)*small)
}

// erc20 returns the log of a transfer of 15 units of a token, which a contract emits.
func erc20(contract common.Address) evm.Log {
	topic, party := common.HexToHash("0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef"), common.Hash{31: 7}
	return evm.Log{Address: contract, Topics: []common.Hash{topic, party, party}, Data: common.Hash{31: 15}.Bytes()}
}

// TestTransfersOfOtherContracts has logs that look like ERC-20 transfers. Only one of their contracts is an ERC-20 token.
func TestTransfersOfOtherContracts(t *testing.T) {
	decimals := uint8(1)
	none, unknown, nft, token := common.Address{1}, common.Address{2}, common.Address{3}, common.Address{4}
	known := map[common.Address]*Token{
		unknown: {Decimals: &decimals}, nft: {Standard: evm.ERC721, Decimals: &decimals}, token: {Standard: evm.ERC20, Decimals: &decimals},
	}
	source := NewEVM(EVMOptions{
		Native: Token{Decimals: &decimals},
		Tip:    func() (uint64, bool) { return 1, true },
		Fetch: func(context.Context, uint64, int) ([]*evm.Block, error) {
			tx := evm.Transaction{Logs: []evm.Log{erc20(none), erc20(unknown), erc20(nft), erc20(token)}}
			return []*evm.Block{{Number: 1, Traced: true, Transactions: []evm.Transaction{tx}}}, nil
		},
		Tokens: func(_ context.Context, addresses []common.Address, _ time.Time) ([]*Token, error) {
			tokens := make([]*Token, len(addresses))
			for i, a := range addresses {
				tokens[i] = known[a]
			}
			return tokens, nil
		},
	})
	block, err := source.Block(t.Context(), 1)
	require.NoError(t, err)
	for _, involved := range []common.Address{none, unknown, nft, token} {
		events, err := block.Events(t.Context(), &Webhook{Addresses: []string{involved.Hex()}})
		require.NoError(t, err)
		require.Len(t, events, 1, "the log involves its contract")
		tx := events[0].Body.(map[string]any)["transaction"].(*evmTransaction)
		require.Len(t, tx.ERC20, 1)
		require.Equal(t, token.Hex(), tx.ERC20[0].ERC20.Address)
		require.Equal(t, "1.5", tx.ERC20[0].ERC20.Value)
	}
}

// untracedSource has blocks without call traces, each with two transactions. In the index, the first of them has an internal
// transaction to address 9, which the second reverts. Block 2 has call traces, and block 3 is an
// hour old; the others are new.
type untracedSource struct {
	*EVM
	err error // of the index
}

func newUntraced() *untracedSource {
	decimals, hash := uint8(18), common.Hash{1}
	s := &untracedSource{}
	s.EVM = NewEVM(EVMOptions{
		Native: Token{Decimals: &decimals},
		Tip:    func() (uint64, bool) { return 0, true },
		Fetch: func(_ context.Context, from uint64, _ int) ([]*evm.Block, error) {
			b := &evm.Block{Number: from, Time: uint64(time.Now().Unix()), Traced: from == 2}
			if from == 3 {
				b.Time -= 3600
			}
			b.Transactions = []evm.Transaction{{Hash: hash}, {Hash: common.Hash{2}}}
			return []*evm.Block{b}, nil
		},
		Internals: func(_ context.Context, height uint64, addresses []common.Address) (map[common.Hash][]evm.Frame, error) {
			if s.err != nil || !slices.Contains(addresses, common.Address{9}) {
				return nil, s.err
			}
			frame := evm.Frame{Type: evm.FrameCall, To: common.Address{9}, Value: *uint256.NewInt(height)}
			reverted := frame
			reverted.Reverted = true
			return map[common.Hash][]evm.Frame{hash: {frame}, {2}: {reverted}}, nil
		},
	})
	return s
}

// events returns the names of the events of a block for address 9.
func (s *untracedSource) events(t *testing.T, height uint64, w Webhook) (names []string, err error) {
	t.Helper()
	block, err := s.Block(t.Context(), height)
	require.NoError(t, err)
	w.Addresses = []string{common.Address{8}.Hex(), common.Address{9}.Hex()}
	events, err := block.Events(t.Context(), &w)
	for _, e := range events {
		names = append(names, e.Name)
		require.Nil(t, e.Body.(map[string]any)["transaction"].(*evmTransaction).Internals)
	}
	return names, err
}

// TestInternalsOfIndex has a node without call traces that the index has.
func TestInternalsOfIndex(t *testing.T) {
	s := newUntraced()
	for _, height := range []uint64{1, 3} {
		names, err := s.events(t, height, Webhook{IncludeInternals: true})
		require.NoError(t, err)
		require.Equal(t, []string{common.Hash{1}.Hex()}, names)
	}
	names, err := s.events(t, 1, Webhook{EventSignatures: []string{common.Hash{5}.Hex()}})
	require.NoError(t, err)
	require.Empty(t, names)
	s.err = io.ErrUnexpectedEOF
	for _, height := range []uint64{1, 3} {
		_, err = s.events(t, height, Webhook{})
		require.ErrorIs(t, err, s.err)
	}
}

// TestNoTraces has neither a node nor the index with the call traces of blocks. The events of a new block wait for them up to
// a minute, in case they follow. Later blocks do not wait until a block has call traces again.
func TestNoTraces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newUntraced()
		s.err = ErrNoTraces
		names, err := s.events(t, 3, Webhook{})
		require.NoError(t, err, "an old block")
		require.Empty(t, names)
		_, err = s.events(t, 1, Webhook{})
		require.ErrorIs(t, err, ErrNoTraces)
		s.err = nil
		names, err = s.events(t, 1, Webhook{})
		require.NoError(t, err)
		require.Len(t, names, 1, "the traces came in time")

		s.err = ErrNoTraces
		_, err = s.events(t, 4, Webhook{})
		require.ErrorIs(t, err, ErrNoTraces)
		time.Sleep(traceGrace - time.Second)
		_, err = s.events(t, 4, Webhook{})
		require.ErrorIs(t, err, ErrNoTraces)
		time.Sleep(time.Second)
		names, err = s.events(t, 4, Webhook{})
		require.NoError(t, err)
		require.Empty(t, names)

		_, err = s.events(t, 5, Webhook{})
		require.NoError(t, err, "the node may not trace any more")
		_, err = s.events(t, 2, Webhook{})
		require.NoError(t, err)
		_, err = s.events(t, 6, Webhook{})
		require.ErrorIs(t, err, ErrNoTraces)
	})
}
