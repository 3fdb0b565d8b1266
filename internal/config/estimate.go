package config

import (
	"fmt"

	"github.com/ava-labs/avalanchego/utils/constants"
)

// Estimate is the disk and time that an index takes which is more than signing needs. docs/deployment.md has the
// figures behind it.
type Estimate struct {
	// Bytes of disk; 0 if the size of the network's chains is not known.
	Bytes uint64
	// Text is empty if only what signing needs is indexed.
	Text string
}

// Estimate returns what the configured index of the network with an ID takes.
func (n Network) Estimate(networkID uint32) Estimate {
	const ledger, evm = "1.7 GB for each million transactions of the P- and X-Chain", "0.5 GB for each million EVM transactions"
	mainnet := networkID == constants.MainnetID
	switch {
	case !n.RecordsLedger():
		return Estimate{}
	case n.RecordsEVM() && mainnet:
		return Estimate{550e9, "about 550 GB of disk, and 6 days if the nodes deliver 2,000 transactions a second"}
	case n.RecordsEVM():
		return Estimate{0, fmt.Sprintf("about %s and %s of disk; of a public network expect days", ledger, evm)}
	case mainnet:
		return Estimate{90e9, "about 90 GB of disk, and 2 hours besides the time in which the nodes deliver all C-Chain blocks"}
	}
	return Estimate{0, fmt.Sprintf("about %s of disk; of a public network expect hours to days", ledger)}
}
