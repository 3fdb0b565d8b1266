package signing

import (
	"testing"

	"github.com/stretchr/testify/require"

	"quorate/aggregator"
)

func TestCost(t *testing.T) {
	const small = 300
	for _, test := range []struct {
		name  string
		usage aggregator.Usage
		want  int
	}{
		{"no validator was asked", aggregator.Usage{Size: small, Validators: 1000}, 0},
		{"signed", aggregator.Usage{Requests: 750, Size: small, Validators: 1000, Signed: true}, 0},
		{"every validator once, signed", aggregator.Usage{Requests: 1000, Size: requestSize, Validators: 1000, Signed: true}, 0},
		{"99 more, signed", aggregator.Usage{Requests: 1099, Size: small, Validators: 1000, Signed: true}, 0},
		{"100 more, signed", aggregator.Usage{Requests: 1100, Size: small, Validators: 1000, Signed: true}, 1},
		{"not signed", aggregator.Usage{Requests: 944, Size: small, Validators: 1000}, 9},
		{"not signed, for two callers", aggregator.Usage{Requests: 472, Size: small, Validators: 1000}, 4},
		{"not signed by a set of 5", aggregator.Usage{Requests: 50, Size: small, Validators: 5}, 0},
		{"99.5", aggregator.Usage{Requests: 99.5, Size: small, Validators: 1000}, 0},
		{"100.5", aggregator.Usage{Requests: 100.5, Size: small, Validators: 1000}, 1},
		{"a byte more than 8 KiB, signed", aggregator.Usage{Requests: 750, Size: requestSize + 1, Validators: 1000, Signed: true}, 5},
		{"64 KiB of justification, not signed", aggregator.Usage{Requests: 944, Size: 64<<10 + small, Validators: 1000}, 84},
	} {
		require.Equal(t, test.want, Cost(test.usage), test.name)
	}
}
