package evm

import (
	"encoding/hex"
	"encoding/json"
	"strconv"

	"github.com/holiman/uint256"

	"quorate/internal/index/evm"
)

// number encodes as a decimal number in quotes.
type number uint64

func (n number) MarshalText() ([]byte, error) { return strconv.AppendUint(nil, uint64(n), 10), nil }

// amount encodes as a decimal number in quotes.
type amount uint256.Int

func (a amount) MarshalText() ([]byte, error) {
	n := (*uint256.Int)(&a)
	if n.IsUint64() {
		return strconv.AppendUint(nil, n.Uint64(), 10), nil
	}
	return []byte(n.Dec()), nil
}

// hexBytes encodes as hexadecimal digits in quotes, with the prefix 0x if there are any.
type hexBytes []byte

func (h hexBytes) MarshalText() ([]byte, error) {
	if len(h) == 0 {
		return nil, nil
	}
	return hex.AppendEncode([]byte("0x"), h), nil
}

// page is an answer with one page of a list, which is in the field that is not nil, or with a native balance alone.
type page struct {
	// Next is the token of the next page, empty on the last one.
	Next string `json:"nextPageToken,omitempty"`
	// Missing spans the blocks without call traces, whose items the list lacks.
	Missing *blockSpan `json:"tracesMissing,omitempty"`
	// Native is the native balance, in lists of token balances.
	Native *nativeBalance `json:"nativeTokenBalance,omitempty"`

	Transactions any `json:"transactions,omitempty"`
	Transfers    any `json:"transfers,omitempty"`
	Blocks       any `json:"blocks,omitempty"`
	Contracts    any `json:"contracts,omitempty"`
	Tokens       any `json:"tokens,omitempty"`
	ERC20        any `json:"erc20TokenBalances,omitempty"`
	ERC721       any `json:"erc721TokenBalances,omitempty"`
	ERC1155      any `json:"erc1155TokenBalances,omitempty"`
	Collectibles any `json:"collectibleBalances,omitempty"`
}

// blockSpan encodes as a list of the first and the last block.
type blockSpan evm.Span

func (s *blockSpan) MarshalJSON() ([]byte, error) { return json.Marshal([]uint64{s.From, s.To}) }

// listOf returns n items. item sets x to item i.
func listOf[T any](n int, item func(i int, x *T)) []T {
	items := make([]T, n)
	for i := range items {
		item(i, &items[i])
	}
	return items
}
