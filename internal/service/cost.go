package service

import (
	"fmt"

	"github.com/ava-labs/avalanchego/utils/constants"

	"quorate/internal/config"
)

// cost estimates the disk and time that an index takes which is more than signing needs. docs/deployment.md has the
// figures behind it. It is empty if only what signing needs is indexed.
func cost(networkID uint32, n config.Network) string {
	const ledger, evm = "1.7 GB for each million transactions of the P- and X-Chain", "0.4 GB for each million EVM transactions"
	mainnet := networkID == constants.MainnetID
	switch {
	case !n.RecordsLedger():
		return ""
	case n.RecordsEVM() && mainnet:
		return "about 430 GB of disk, and 6 days if the nodes deliver 2,000 transactions a second"
	case n.RecordsEVM():
		return fmt.Sprintf("about %s and %s of disk; of a public network expect days", ledger, evm)
	case mainnet:
		return "about 90 GB of disk, and 2 hours besides the time in which the nodes deliver all C-Chain blocks"
	}
	return fmt.Sprintf("about %s of disk; of a public network expect hours to days", ledger)
}
