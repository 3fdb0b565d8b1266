package aggregator

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/constants"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp/message"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp/payload"
)

// Requests that differ only in a justification that validators ignore share a round.
func TestJustificationsThatMatter(t *testing.T) {
	l1Chain := ids.ID{'l', '1'}
	statement := func(content interface{ Bytes() []byte }, err error) *warp.UnsignedMessage {
		require.NoError(t, err)
		call, err := payload.NewAddressedCall(nil, content.Bytes())
		require.NoError(t, err)
		m, err := warp.NewUnsignedMessage(testNetworkID, constants.PlatformChainID, call.Bytes())
		require.NoError(t, err)
		return m
	}
	conversion, err := message.NewSubnetToL1Conversion(ids.ID{1})
	registered, err2 := message.NewL1ValidatorRegistration(ids.ID{1}, true)
	removed, err3 := message.NewL1ValidatorRegistration(ids.ID{1}, false)
	weight, err4 := message.NewL1ValidatorWeight(ids.ID{1}, 2, 3)
	for name, test := range map[string]struct {
		message *warp.UnsignedMessage
		max     int
		rounds  int
	}{
		"C-Chain":                   {testMessage(t, "m"), maxJustification, 1},
		"chain of an L1":            {testMessageFrom(t, testNetworkID, l1Chain, "m"), maxJustification, 3},
		"conversion":                {statement(conversion, err), ids.IDLen, 3},
		"registration":              {statement(registered, err2), 0, 1},
		"removal of a registration": {statement(removed, err3), maxJustification, 3},
		"weight":                    {statement(weight, err4), 0, 1},
		"other P-Chain message":     {testMessageFrom(t, testNetworkID, constants.PlatformChainID, "m"), 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, test.max, MaxJustification(test.message))
			runBusy(t, Options{}, func(t *testing.T, ctx context.Context, b busy) {
				b.owners = map[ids.ID]ids.ID{testChain: constants.PrimaryNetworkID, l1Chain: {7}, constants.PlatformChainID: constants.PrimaryNetworkID}
				for i := range 3 {
					go func() {
						_, _ = b.Sign(ctx, Request{Message: test.message, Justification: fmt.Append(nil, i)})
					}()
					synctest.Wait()
				}
				require.Equal(t, test.rounds, b.rounds())
			})
		})
	}
}
