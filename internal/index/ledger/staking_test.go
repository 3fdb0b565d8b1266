package ledger

import (
	"testing"

	"github.com/stretchr/testify/require"

	chain "quorate/internal/chain/ledger"
)

// Recent stakes stay in memory, the blocks that they came with do not.
func TestStakingDoesNotRetainItsBlock(t *testing.T) {
	block := []byte("a block with a memo")
	s := newStaking(&chain.Block{}, &chain.Tx{Staker: &chain.Staker{}, Memo: block[15:]})
	require.Equal(t, "memo", string(s.Memo))
	copy(block[15:], "none")
	require.Equal(t, "memo", string(s.Memo))

	empty := newStaking(&chain.Block{}, &chain.Tx{Staker: &chain.Staker{}, Memo: block[15:15]})
	require.Zero(t, cap(empty.Memo), "an empty slice retains a block as well")
}
