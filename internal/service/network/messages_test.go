package network

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"quorate/internal/index"
	"quorate/internal/index/warplog"
)

// TestFollowedMessagesInStatus adds to the status of chains how their Warp messages are followed.
func TestFollowedMessagesInStatus(t *testing.T) {
	f, since := newFollowed(), time.Unix(1000, 0)
	for name, s := range map[string]warplog.Status{
		"evm C": {Err: errors.New("connection refused"), Since: since}, "evm one": {Lost: 3, LostFrom: 5, LostThrough: 7}, "evm two": {},
		"evm three": {Err: errors.New("connection refused"), Since: since},
	} {
		f.set(name, s)
	}
	all := map[string]index.Status{
		"evm-1": {State: index.Following, Note: "traces missing"}, "evm-2": {State: index.Following}, "evm-3": {State: index.Following},
	}
	names := map[string]string{"evm C": "evm-1", "evm one": "evm-2", "evm two": "evm-3", "evm three": "evm three"}
	f.addTo(all, func(name string) string { return names[name] })
	require.Equal(t, index.Following, all["evm-1"].State, "the index does not fail")
	require.NoError(t, all["evm-1"].Err)
	require.Equal(t, "traces missing; Warp messages are not followed since 00:16:40: connection refused", all["evm-1"].Note)
	require.Equal(t, "following Warp messages", all["evm-1"].Failing)
	require.Equal(t, since, all["evm-1"].FailingSince)
	require.Contains(t, all["evm-2"].Note, "blocks 5 to 7")
	require.Empty(t, all["evm-2"].Failing)
	require.Equal(t, index.Status{State: index.Following}, all["evm-3"])
	require.Equal(t, index.NotIndexed, all["evm three"].State)
}
