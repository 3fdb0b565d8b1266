package signing

import "quorate/aggregator"

const (
	// requestsAtOnce is the number of requests to validators that count as one further request of a client.
	requestsAtOnce = 100
	// requestSize is the size, in bytes, of a request to a validator that counts as one; larger ones count more.
	requestSize = 8 << 10
)

// Cost returns the number of requests that a signing request counts for besides itself: one for each 100 requests to
// validators. A request to a validator counts once for each 8 KiB that it begins. If the message is signed, one request
// to each validator is included.
func Cost(u aggregator.Usage) int {
	units := u.Requests * float64((u.Size+requestSize-1)/requestSize)
	if u.Signed {
		units -= float64(u.Validators)
	}
	return max(0, int(units/requestsAtOnce))
}
