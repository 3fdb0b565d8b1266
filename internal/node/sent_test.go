package node

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"
)

func TestMessageSent(t *testing.T) {
	id, other := ids.ID{1, 2, 3}, ids.ID{9}
	for _, test := range []struct {
		name      string
		sentAt    uint64
		most      uint64 // blocks that eth_getLogs allows
		ignorant  bool   // the node ignores the third topic
		want      bool
		wantError bool
	}{
		{name: "recently", sentAt: 2000, most: 10_000, want: true},
		{name: "long ago", sentAt: 100, most: 10_000},
		{name: "in one of the last 10 blocks, with a small range", sentAt: 1995, most: 10, want: true},
		{name: "before, with a small range", sentAt: 1980, most: 10},
		{name: "the node returns other logs", sentAt: 0, most: 10_000, ignorant: true},
		{name: "no range is allowed", most: 0, wantError: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			url := ethereum(t, func(method string, params []json.RawMessage) string {
				if method == heightMethod {
					return `"result":"0x7d0"` // 2000
				}
				require.Equal(t, "eth_getLogs", method)
				var filter struct {
					FromBlock, ToBlock, Address string
					Topics                      []*string
				}
				require.NoError(t, json.Unmarshal(params[0], &filter))
				var from, to uint64
				_, err := fmt.Sscanf(filter.FromBlock+" "+filter.ToBlock, "0x%x 0x%x", &from, &to)
				require.NoError(t, err)
				require.Equal(t, warpPrecompile, filter.Address)
				if to-from+1 > test.most {
					return `"error":{"code":-32005,"message":"range is too large"}`
				}
				topic := "0x" + other.Hex()
				switch {
				case test.ignorant:
				case from <= test.sentAt && test.sentAt <= to && *filter.Topics[2] == "0x"+id.Hex():
					topic = "0x" + id.Hex()
				default:
					return `"result":[]`
				}
				return fmt.Sprintf(`"result":[{"topics":[%q,"0x0",%q]}]`, sendWarpMessage, topic)
			})
			sent, err := newClient(t, url).MessageSent(t.Context(), CChainRPC, id)
			if test.wantError {
				require.Error(t, err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, test.want, sent)
		})
	}
}

func TestBlockAccepted(t *testing.T) {
	known := ids.ID{1}
	url := ethereum(t, func(method string, params []json.RawMessage) string {
		require.Equal(t, "eth_getBlockByHash", method)
		if string(params[0]) == `"0x`+known.Hex()+`"` {
			return `"result":{"number":"0x1"}`
		}
		return `"result":null`
	})
	client := newClient(t, url)
	for hash, want := range map[ids.ID]bool{known: true, {2}: false} {
		accepted, err := client.BlockAccepted(t.Context(), CChainRPC, hash)
		require.NoError(t, err)
		require.Equal(t, want, accepted)
	}
}
