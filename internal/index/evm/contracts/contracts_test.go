package contracts

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holiman/uint256"
	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/libevm/common"
	"github.com/ava-labs/libevm/crypto"

	chain "quorate/internal/chain/evm"
	"quorate/internal/index/evm"
	"quorate/internal/index/internal/row"
	"quorate/internal/node"
	"quorate/internal/store"
)

// fakeNode has contracts that answer by the first four bytes of what they are asked.
type fakeNode struct {
	contracts map[common.Address]map[string][]byte

	mu       sync.Mutex
	away     error
	asked    int // calls; guarded by mu
	requests int // guarded by mu
	// bad is a contract whose calls make the node refuse the whole request.
	bad     common.Address
	refusal error
	gas     []uint64      // of the calls; guarded by mu
	gate    chan struct{} // if not nil, answers wait for it
}

func (n *fakeNode) Calls(ctx context.Context, _ *uint64, calls []node.EVMCall) ([]node.EVMReturn, error) {
	if n.gate != nil {
		select {
		case <-n.gate:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.asked += len(calls)
	n.requests++
	for _, call := range calls {
		n.gas = append(n.gas, call.Gas)
	}
	if n.away != nil {
		return nil, n.away
	}
	returned := make([]node.EVMReturn, len(calls))
	for i, call := range calls {
		if n.refusal != nil && call.To == n.bad {
			return nil, n.refusal
		}
		data, ok := n.contracts[call.To][string(call.Data)]
		if !ok {
			data, ok = n.contracts[call.To][string(call.Data[:4])]
		}
		_, exists := n.contracts[call.To]
		returned[i] = node.EVMReturn{Data: data, Failed: !ok, NoCode: call.Code && !exists}
	}
	return returned, nil
}

func method(signature string) string { return string(crypto.Keccak256([]byte(signature))[:4]) }

func supports(id string) string {
	return method("supportsInterface(bytes4)") + string(common.FromHex(id)) + strings.Repeat("\x00", 28)
}

func wordOf(n uint64) []byte { return binary.BigEndian.AppendUint64(make([]byte, 24), n) }

// textOf is a string as Solidity returns it.
func textOf(s string) []byte {
	b := append(wordOf(32), wordOf(uint64(len(s)))...)
	b = append(b, s...)
	return append(b, make([]byte, (32-len(s)%32)%32)...)
}

func address(b byte) common.Address { return common.Address{19: b} }

func newFake() *fakeNode {
	erc20 := map[string][]byte{method("totalSupply()"): wordOf(1000), method("decimals()"): wordOf(6), method("balanceOf(address)"): wordOf(0), method("name()"): textOf("US Dollar"), method("symbol()"): textOf("USD")}
	bytes32 := map[string][]byte{method("totalSupply()"): wordOf(1), method("decimals()"): wordOf(18), method("balanceOf(address)"): wordOf(0), method("name()"): append([]byte("Maker"), make([]byte, 27)...), method("symbol()"): append([]byte("MKR"), make([]byte, 29)...)}
	everything := make(map[string][]byte)
	for _, signature := range []string{"supportsInterface(bytes4)", "totalSupply()", "decimals()", "balanceOf(address)", "name()", "symbol()"} {
		everything[method(signature)] = wordOf(1)
	}
	return &fakeNode{contracts: map[common.Address]map[string][]byte{
		address(1): erc20,
		address(2): {supports("0x80ac58cd"): wordOf(1), supports("0xffffffff"): wordOf(0), method("name()"): textOf("Cats\x00\n"), method("symbol()"): textOf("CAT"), method("tokenURI(uint256)"): textOf("ipfs://cats/7"), method("totalSupply()"): wordOf(5), method("balanceOf(address)"): wordOf(5)},
		address(3): {supports("0xd9b67a26"): wordOf(1), method("uri(uint256)"): textOf("https://x/{id}.json")},
		address(4): {},
		address(5): everything,
		address(6): bytes32,
		address(7): {method("totalSupply()"): wordOf(1), method("decimals()"): wordOf(300), method("balanceOf(address)"): wordOf(1), method("name()"): bytes.Repeat([]byte{0xff}, 96), method("symbol()"): textOf("\xff\xfeok")},
		address(8): {method("name()"): textOf(strings.Repeat("€", 200))},
	}}
}

func newBook(t *testing.T, n Node, s store.Store) *Book {
	b := New(Options{Node: n, Store: s, NetworkID: 5, BlockchainID: ids.ID{1}})
	t.Cleanup(b.Close)
	return b
}

func decimalsOf(n uint8) *uint8 { return &n }

func TestContracts(t *testing.T) {
	n, s := newFake(), store.NewMemory()
	var all []common.Address
	for i := range byte(10) {
		all = append(all, address(i))
	}
	want := []*evm.Contract{
		nil,
		{Address: address(1), Standard: chain.ERC20, Name: "US Dollar", Symbol: "USD", Decimals: decimalsOf(6)},
		{Address: address(2), Standard: chain.ERC721, Name: "Cats", Symbol: "CAT"},
		{Address: address(3), Standard: chain.ERC1155},
		{Address: address(4)},
		{Address: address(5), Standard: chain.ERC20, Name: "", Symbol: "", Decimals: decimalsOf(1)},
		{Address: address(6), Standard: chain.ERC20, Name: "Maker", Symbol: "MKR", Decimals: decimalsOf(18)},
		{Address: address(7), Symbol: "ok"},
		{Address: address(8), Name: strings.Repeat("€", 85)},
		nil,
	}
	got, err := newBook(t, n, s).Contracts(t.Context(), all)
	require.NoError(t, err)
	require.Equal(t, want, got)

	n.away = node.ErrUnavailable // the store has them, too
	asked := n.asked
	got, err = newBook(t, n, s).Contracts(t.Context(), all[1:9])
	require.NoError(t, err)
	require.Equal(t, want[1:9], got)
	require.Equal(t, asked, n.asked)
}

// TestMethods compares selectors with their signatures.
func TestMethods(t *testing.T) {
	for i, signature := range map[int]string{isERC721: "supportsInterface(bytes4)", totalSupply: "totalSupply()", decimals: "decimals()", balanceOf: "balanceOf(address)", name: "name()", symbol: "symbol()"} {
		require.Equal(t, method(signature), string(probes[i][:4]), signature)
	}
	require.Equal(t, method("tokenURI(uint256)"), string(tokenURIMethod))
	require.Equal(t, method("uri(uint256)"), string(uriMethod))
}

func TestNodeAway(t *testing.T) {
	n, s := newFake(), store.NewMemory()
	n.away = node.ErrUnavailable
	book := newBook(t, n, s)
	_, err := book.Contracts(t.Context(), []common.Address{address(1)})
	require.ErrorIs(t, err, node.ErrUnavailable)
	_, _, err = book.LookUp(t.Context(), chain.ERC721, address(2), uint256.NewInt(7))
	require.ErrorIs(t, err, node.ErrUnavailable)

	n.away = nil
	got, err := book.Contracts(t.Context(), []common.Address{address(1)})
	require.NoError(t, err)
	require.Equal(t, chain.ERC20, got[0].Standard)
}

// failingNode fails after a number of requests, for calls of contracts.
type failingNode struct {
	*fakeNode
	left int
}

func (n *failingNode) Calls(ctx context.Context, block *uint64, calls []node.EVMCall) ([]node.EVMReturn, error) {
	if n.left--; n.left < 0 {
		return nil, node.ErrUnavailable
	}
	return n.fakeNode.Calls(ctx, block, calls)
}

// TestContractsAreSavedBeforeAFailure has more contracts than one call of the node covers. Anyone can
// send a wallet tokens of so many.
func TestContractsAreSavedBeforeAFailure(t *testing.T) {
	n := &failingNode{fakeNode: newFake()}
	var all []common.Address
	for i := range byte(100) {
		all = append(all, common.Address{1, i})
		n.contracts[all[i]] = n.contracts[address(1)]
	}
	book := newBook(t, n, store.NewMemory())
	attempts := 1
	for ; ; attempts++ {
		n.left = 3
		got, err := book.Contracts(t.Context(), all)
		if err == nil {
			require.Equal(t, chain.ERC20, got[99].Standard)
			break
		}
		require.ErrorIs(t, err, node.ErrUnavailable)
		require.Less(t, attempts, 10)
	}
	require.Equal(t, 4, attempts, "10 requests, 3 at a time")
	require.Equal(t, len(all)*questions, n.asked, "each contract is asked once")
}

// TestAnswersAge asks again after a day, and uses the old answer if that fails.
func TestAnswersAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, s := newFake(), store.NewMemory()
		one := []common.Address{address(1)}
		_, err := newBook(t, n, s).Contracts(t.Context(), one)
		require.NoError(t, err)
		n.contracts[address(1)] = n.contracts[address(2)]

		time.Sleep(23 * time.Hour)
		got, err := newBook(t, n, s).Contracts(t.Context(), one)
		require.NoError(t, err)
		require.Equal(t, chain.ERC20, got[0].Standard)

		time.Sleep(2 * time.Hour)
		n.away = node.ErrUnavailable
		got, err = newBook(t, n, s).Contracts(t.Context(), one)
		require.NoError(t, err)
		require.Equal(t, chain.ERC20, got[0].Standard)

		n.away = nil
		got, err = newBook(t, n, s).Contracts(t.Context(), one)
		require.NoError(t, err)
		require.Equal(t, chain.ERC721, got[0].Standard)
	})
}

// TestUninitialised calls a contract that follows no standard yet before the contract is initialised. The result lasts
// 10 minutes at first, in memory and in the store, and longer while it stays the same.
func TestUninitialised(t *testing.T) {
	for name, again := range map[string]bool{"in memory": false, "in the store": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n, s := newFake(), store.NewMemory()
				book := newBook(t, n, s)
				look := func() chain.Standard {
					if again {
						book.Close()
						book = newBook(t, n, s)
					}
					got, err := book.Contracts(t.Context(), []common.Address{address(4)})
					require.NoError(t, err)
					return got[0].Standard
				}
				require.Equal(t, chain.Unknown, look())
				time.Sleep(9 * time.Minute)
				require.Equal(t, chain.Unknown, look())
				require.Equal(t, questions, n.asked)
				n.contracts[address(4)] = n.contracts[address(1)]
				time.Sleep(2 * time.Minute)
				require.Equal(t, chain.ERC20, look())

				time.Sleep(24 * time.Hour)
				n.contracts[address(4)], n.asked = nil, 0
				for range 3 * 24 * 6 {
					time.Sleep(10 * time.Minute)
					require.Equal(t, chain.Unknown, look())
				}
				require.True(t, n.asked > 8*questions && n.asked < 14*questions, "called %d times in three days", n.asked/questions)
				book.Close()
			})
		})
	}
}

// TestSettled calls a contract that follows no standard until that is settled, and not more often afterwards than Contracts.
func TestSettled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, s := newFake(), store.NewMemory()
		book := newBook(t, n, s)
		defer book.Close()
		all := []common.Address{address(1), address(4), address(9)} // a token, no token, no contract
		look := func(after time.Time) (bool, error) {
			found, err := book.Settled(t.Context(), all, after)
			if err != nil {
				return false, err
			}
			require.Equal(t, chain.ERC20, found[0].Standard)
			require.Nil(t, found[2])
			return found[1] != nil, nil
		}
		_, err := book.Contracts(t.Context(), all)
		require.NoError(t, err)
		after := time.Now().Add(30 * time.Second)
		n.requests, n.asked = 0, 0
		for range 300 {
			time.Sleep(100 * time.Millisecond)
			settled, err := look(after)
			require.NoError(t, err)
			require.Equal(t, !time.Now().Before(after), settled)
		}
		require.LessOrEqual(t, n.requests, 6, "each 10 s, as for the address without a contract")

		n.away = node.ErrUnavailable
		all = all[:2]
		found, err := book.Settled(t.Context(), all, after.Add(time.Hour))
		require.NoError(t, err)
		require.NotNil(t, found[1], "this is settled")
		n.away, n.requests = nil, 0
		for range 60 {
			time.Sleep(10 * time.Second)
			_, err := book.Settled(t.Context(), all, time.Now())
			require.NoError(t, err)
		}
		require.LessOrEqual(t, n.requests, 1, "as without Settled")

		// Without an answer of the node, nothing is settled.
		all = []common.Address{address(7)}
		_, err = book.Contracts(t.Context(), all)
		require.NoError(t, err)
		time.Sleep(time.Minute)
		n.away = node.ErrUnavailable
		_, err = book.Settled(t.Context(), all, time.Now())
		require.Error(t, err)
	})
}

// TestRowsOfEarlierVersions has a contract without a standard of an earlier version, which called it once a day.
func TestRowsOfEarlierVersions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, s := newFake(), store.NewMemory()
		var batch store.Batch
		old := newBook(t, n, s)
		batch.Put(store.FamilyEVMAsked, old.contractKey(address(4)), encodeContract(&contract{asked: time.Now().Add(-12 * time.Hour)}))
		require.NoError(t, s.Commit(t.Context(), &batch))
		for range 3 {
			_, err := newBook(t, n, s).Contracts(t.Context(), []common.Address{address(4)})
			require.NoError(t, err)
			require.Equal(t, questions, n.asked)
			time.Sleep(5 * time.Hour)
		}
	})
}

func TestAskedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFake()
		n.gate = make(chan struct{})
		book := newBook(t, n, store.NewMemory())
		impatient, leave := context.WithCancel(t.Context())
		var asking sync.WaitGroup
		asking.Go(func() {
			_, err := book.Contracts(impatient, []common.Address{address(1)})
			if !errors.Is(err, context.Canceled) {
				t.Errorf("got %v, want its own end", err)
			}
		})
		synctest.Wait()
		for range 20 {
			asking.Go(func() {
				got, err := book.Contracts(t.Context(), []common.Address{address(1)})
				if err != nil || got[0].Standard != chain.ERC20 {
					t.Errorf("got %v, %v", got, err)
				}
			})
		}
		synctest.Wait()
		leave() // whom the others wait for
		synctest.Wait()
		close(n.gate)
		asking.Wait()
		require.Equal(t, questions, n.asked)
	})
}

func TestTokenURI(t *testing.T) {
	n, s := newFake(), store.NewMemory()
	n.contracts[address(9)] = map[string][]byte{method("tokenURI(uint256)"): textOf("data:," + strings.Repeat("x", maxKeptURI))}
	n.contracts[address(10)] = map[string][]byte{method("tokenURI(uint256)"): wordOf(1 << 40)}
	n.contracts[address(11)] = map[string][]byte{method("tokenURI(uint256)"): textOf(strings.Repeat("x", maxURI+1))}
	for range 2 { // the second time as the store has it
		book := newBook(t, n, s)
		for name, c := range map[string]struct {
			standard chain.Standard
			contract common.Address
			want     string
			exists   bool
		}{
			"ERC-721":   {chain.ERC721, address(2), "ipfs://cats/7", true},
			"ERC-1155":  {chain.ERC1155, address(3), "https://x/{id}.json", true},
			"ERC-20":    {chain.ERC20, address(1), "", false},
			"no token":  {chain.ERC721, address(4), "", false},
			"long":      {chain.ERC721, address(9), "data:," + strings.Repeat("x", maxKeptURI), true},
			"malformed": {chain.ERC721, address(10), "", true},
			"too long":  {chain.ERC721, address(11), "", true},
		} {
			text, exists, err := book.LookUp(t.Context(), c.standard, c.contract, uint256.NewInt(7))
			require.NoError(t, err, name)
			require.Equal(t, c.want, text, name)
			require.Equal(t, c.exists, exists, name)
		}
	}
}

// TestMissingTokenIsAskedForAgain has a node that lags behind the index.
func TestMissingTokenIsAskedForAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, s := newFake(), store.NewMemory()
		book := newBook(t, n, s)
		look := func(b *Book) string {
			text, exists, err := b.LookUp(t.Context(), chain.ERC721, address(4), uint256.NewInt(7))
			require.NoError(t, err)
			require.Equal(t, text != "", exists)
			return text
		}
		require.Empty(t, look(book))
		n.contracts[address(4)] = n.contracts[address(2)]
		require.Empty(t, look(book))
		require.Empty(t, look(newBook(t, n, s)), "the store has the answer for a while")
		time.Sleep(2 * time.Minute)
		require.Equal(t, "ipfs://cats/7", look(book))
		require.Equal(t, "ipfs://cats/7", look(newBook(t, n, s)))
		book.Close()
	})
}

// TestTokenURIsInOneRequest requests many tokens at a time, each once, and continues without those
// that the node does not execute.
func TestTokenURIsInOneRequest(t *testing.T) {
	refused := &node.RPCError{Method: "eth_call", Code: -32000, Message: "execution aborted (timeout = 5s)"}
	tokens := func(n int, others ...common.Address) (all []Token) {
		for i := range n {
			all = append(all, Token{chain.ERC1155, address(3), *uint256.NewInt(uint64(i))})
		}
		for _, a := range others {
			all = append(all, Token{chain.ERC1155, a, uint256.Int{}})
		}
		return append(all, Token{Standard: chain.ERC20, Contract: address(1)})
	}
	count := func(uris []*string) (n int) {
		for _, uri := range uris {
			if uri != nil && *uri == "https://x/{id}.json" {
				n++
			}
		}
		return n
	}
	n, s := newFake(), store.NewMemory()
	uris, err := newBook(t, n, s).TokenURIs(t.Context(), tokens(100))
	require.NoError(t, err)
	require.Equal(t, 100, count(uris))
	require.Empty(t, *uris[100], "tokens of ERC-20 have none")
	require.Equal(t, []int{100, 4}, []int{n.asked, n.requests})
	n.away = node.ErrUnavailable
	uris, err = newBook(t, n, s).TokenURIs(t.Context(), tokens(100))
	require.NoError(t, err, "the store has them")
	require.Equal(t, 100, count(uris))
	_, err = newBook(t, n, s).TokenURIs(t.Context(), tokens(101))
	require.ErrorIs(t, err, node.ErrUnavailable)
	n.away = nil

	// One that cannot be had keeps no other back, wherever it is.
	for place := range 32 {
		n := newFake()
		n.bad, n.refusal = address(9), refused
		all := tokens(31)
		all[31], all[place] = all[place], Token{chain.ERC1155, address(9), uint256.Int{}}
		if place == 31 {
			all[31] = Token{chain.ERC1155, address(9), uint256.Int{}}
		}
		uris, err := newBook(t, n, store.NewMemory()).TokenURIs(t.Context(), all)
		require.NoError(t, err)
		require.Nil(t, uris[place])
		for i, uri := range uris {
			require.Equal(t, i == place, uri == nil, "token %d of %d", i, place)
		}
		require.LessOrEqual(t, n.requests, urisRequests)
	}
	// That none can be had is no answer, and does not take a request for each.
	for _, failure := range []error{refused, node.ErrMalformed} {
		n = newFake()
		n.away = failure
		_, err = newBook(t, n, store.NewMemory()).TokenURIs(t.Context(), tokens(32))
		require.ErrorIs(t, err, failure)
		require.LessOrEqual(t, n.requests, urisRequests)
	}
}

// TestTokenURIsThatTakeLong has a node that never answers for one token.
func TestTokenURIsThatTakeLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		book := newBook(t, hangingNode{newFake()}, store.NewMemory())
		uris, err := book.TokenURIs(t.Context(), []Token{
			{chain.ERC1155, address(3), *uint256.NewInt(1)}, {chain.ERC1155, address(3), *uint256.NewInt(2)}, {chain.ERC1155, address(9), uint256.Int{}},
		})
		require.NoError(t, err)
		require.Equal(t, "https://x/{id}.json", *uris[0])
		require.Nil(t, uris[2])
		book.Close()
	})
}

// hangingNode does not answer for a contract.
type hangingNode struct{ *fakeNode }

func (n hangingNode) Calls(ctx context.Context, block *uint64, calls []node.EVMCall) ([]node.EVMReturn, error) {
	for _, call := range calls {
		if call.To == address(9) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
	}
	return n.fakeNode.Calls(ctx, block, calls)
}

// TestGasIsBounded makes every kind of call: foreign contracts never run as long as the node would
// allow.
func TestGasIsBounded(t *testing.T) {
	n := newFake()
	book := newBook(t, n, store.NewMemory())
	_, err := book.Contracts(t.Context(), []common.Address{address(1), address(2)})
	require.NoError(t, err)
	for i, gas := range n.gas {
		require.True(t, gas >= 100_000 && gas <= 200_000, "question %d has %d gas", i, gas)
	}
	n.gas = nil
	for _, standard := range []chain.Standard{chain.ERC721, chain.ERC1155} {
		_, _, err = book.LookUp(t.Context(), standard, address(2), uint256.NewInt(7))
		require.NoError(t, err)
	}
	require.Equal(t, []uint64{uriGas, uriGas}, n.gas)
}

func FuzzRows(f *testing.F) {
	f.Add([]byte{row.Version, 1, 2, 3, 1, 'a', 1, 'b'})
	f.Fuzz(func(t *testing.T, b []byte) {
		if c, err := decodeContract(address(1), b, nil); err != nil {
			require.ErrorIs(t, err, store.ErrCorrupt)
		} else if again, err := decodeContract(address(1), encodeContract(&c), encodeSince(&c)); err != nil || again.Contract.Name != c.Contract.Name {
			t.Errorf("got %v, %v, want %v", again, err, c)
		}
		if _, err := decodeContract(address(1), encodeContract(&contract{}), b); err != nil {
			require.ErrorIs(t, err, store.ErrCorrupt)
		}
		_, _ = decodeURI(b)
		dynamic(node.EVMReturn{Data: b})
		text(node.EVMReturn{Data: b})
	})
}
