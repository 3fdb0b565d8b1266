package evm

import (
	"testing"

	"github.com/holiman/uint256"
	"github.com/stretchr/testify/require"

	"github.com/ava-labs/libevm/common"
)

// TestDistinct has tokens in and out of order, and some of them several times.
func TestDistinct(t *testing.T) {
	token := func(contract byte, id uint64) nft {
		return nft{contract: common.Address{contract}, id: *uint256.NewInt(id)}
	}
	for name, tokens := range map[string][]nft{
		"none":          nil,
		"one":           {token(1, 1)},
		"ascending":     {token(1, 1), token(1, 2), token(2, 1)},
		"descending":    {token(2, 1), token(1, 2), token(1, 1)},
		"twice":         {token(1, 1), token(1, 1), token(1, 2)},
		"again later":   {token(1, 1), token(1, 2), token(1, 1), token(3, 0)},
		"by collection": {token(1, 9), token(2, 1), token(1, 9)},
	} {
		once, places := distinct(tokens)
		seen := make(map[nft]bool)
		for _, one := range once {
			require.False(t, seen[one], "%s: %v is there twice", name, one)
			seen[one] = true
		}
		for i, one := range tokens {
			place := i
			if places != nil {
				place = places[one]
			}
			require.Equal(t, one, once[place], name)
		}
	}
}
