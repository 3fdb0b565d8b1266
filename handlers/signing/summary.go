package signing

import (
	"fmt"
	"time"

	"quorate/aggregator"
)

// SummaryHeader is the header of an answer with one signed message that says who signed it. The bodies of these answers
// are those of other services and have no room for it. The result event of a stream has it as a field.
const SummaryHeader = "Signing-Summary"

// summarize returns the value of SummaryHeader, a JSON object, for a request that arrived at start.
func summarize(r *aggregator.Result, start time.Time) string {
	return fmt.Sprintf(`{"signers":%d,"weight":"%d","totalWeight":"%d","signingSubnetId":"%s","pChainHeight":"%d","fromCache":%t}`,
		r.Signers, r.Weight, r.TotalWeight, r.SigningSubnetID, r.PChainHeight, r.MadeBefore(start))
}
