package contracts

import (
	"testing"

	"github.com/holiman/uint256"
	"github.com/stretchr/testify/require"

	"github.com/ava-labs/libevm/common"

	chain "quorate/internal/chain/evm"
	"quorate/internal/store"
)

// TestRemembered compares what is in memory with the node's answers, and sends no call.
func TestRemembered(t *testing.T) {
	n := newFake()
	b := newBook(t, n, store.NewMemory())
	one := uint256.NewInt(7)
	_, ok := b.RememberedURI(chain.ERC721, address(2), one)
	require.False(t, ok)

	all := []common.Address{address(0), address(2)}
	first, err := b.Contracts(t.Context(), all)
	require.NoError(t, err)
	text, _, err := b.LookUp(t.Context(), chain.ERC721, address(2), one)
	require.NoError(t, err)
	require.NotEmpty(t, text)
	asked := n.asked
	again, err := b.Contracts(t.Context(), all)
	require.NoError(t, err)
	require.Equal(t, first, again)
	got, ok := b.RememberedURI(chain.ERC721, address(2), one)
	require.True(t, ok)
	require.Equal(t, text, got)
	_, ok = b.RememberedURI(chain.ERC1155, address(2), one)
	require.False(t, ok)
	require.Equal(t, asked, n.asked)
}
