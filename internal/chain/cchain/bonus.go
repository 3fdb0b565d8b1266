package cchain

import (
	"slices"

	"github.com/ava-labs/avalanchego/utils/constants"
)

// isBonus reports whether the C-Chain block at height is a bonus block: the network accepted it without removing its
// imports from shared memory. Mainnet has 57 such blocks. Each credits accounts for outputs that another block imports
// too. The heights come from avalanchego v1.15.0, vms/saevm/cchain/state/bonus_blocks.json.
func isBonus(networkID uint32, height uint64) bool {
	const first, last = 102_972, 103_633
	if networkID != constants.MainnetID || height < first || height > last {
		return false
	}
	heights := [...]uint64{
		102_972, 103_105, 103_143, 103_183, 103_197, 103_203, 103_208, 103_209, 103_259, 103_261,
		103_266, 103_287, 103_339, 103_346, 103_350, 103_358, 103_437, 103_472, 103_478, 103_493,
		103_514, 103_536, 103_545, 103_547, 103_554, 103_555, 103_559, 103_561, 103_563, 103_564,
		103_569, 103_570, 103_575, 103_577, 103_578, 103_582, 103_587, 103_590, 103_591, 103_594,
		103_597, 103_598, 103_603, 103_604, 103_607, 103_612, 103_614, 103_617, 103_618, 103_621,
		103_623, 103_624, 103_627, 103_628, 103_629, 103_630, 103_633,
	}
	_, found := slices.BinarySearch(heights[:], height)
	return found
}
