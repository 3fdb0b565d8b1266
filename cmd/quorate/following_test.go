package main

import (
	"bytes"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"quorate/internal/peernode"
)

// TestFollowShow shows a download and an execution. Lines of the log stay whole, and the bar ends at the tip.
func TestFollowShow(t *testing.T) { synctest.Test(t, testFollowShow) }

func testFollowShow(t *testing.T) {
	var terminal bytes.Buffer
	s := newFollowShow(&terminal)
	shown := func() string {
		text := terminal.String()
		terminal.Reset()
		return text
	}
	s.show("mainnet", peernode.Status{})
	s.show("mainnet", peernode.Status{Height: 0, Target: fewBlocks - 1})
	require.Empty(t, shown())
	for lowest := uint64(10_000); lowest > 5_000; lowest -= 1000 {
		s.show("mainnet", peernode.Status{Target: 10_000, Missing: lowest - 1})
		time.Sleep(70 * time.Millisecond) // the bar is not drawn more often
	}
	s.show("fuji", peernode.Status{Target: 10_000, Height: 5})
	text := shown()
	require.Contains(t, text, "downloading the P-Chain of mainnet")
	require.Contains(t, text, "4001/10000")
	require.NotContains(t, text, "fuji", "one bar at a time")
	_, err := fmt.Fprintln(s, "a line of the log")
	require.NoError(t, err)
	require.Regexp(t, "\ra line of the log\n", shown())
	for height := uint64(0); height < 10_000; height += 2500 {
		s.show("mainnet", peernode.Status{Target: 10_000, Height: height})
		time.Sleep(70 * time.Millisecond)
	}
	text = shown()
	require.Contains(t, text, "executing the P-Chain of mainnet")
	require.Contains(t, text, "7500/10000")
	confirmed := peernode.Status{Target: 10_000, Height: 10_000, Confirmed: time.Now()}
	s.show("mainnet", confirmed)
	require.Nil(t, s.bar)
	shown()
	s.show("mainnet", peernode.Status{Target: 90_000, Height: 10_000})
	require.Empty(t, shown(), "it was at the tip")
	s.show("fuji", peernode.Status{Target: 10_000, Height: 5})
	require.Contains(t, shown(), "fuji")
	s.close()
	require.Nil(t, s.bar)
}
