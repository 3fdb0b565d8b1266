package uptime

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"

	"quorate/internal/testenv"
)

// fake is a node. It replies after wait.
type fake struct {
	known map[ids.NodeID]Uptime
	err   error
	wait  time.Duration
	calls int
}

func (f *fake) Uptimes(ctx context.Context) (map[ids.NodeID]Uptime, error) {
	f.calls++
	if err := testenv.Delay(ctx, f.wait); err != nil {
		return nil, err
	}
	return f.known, f.err
}

// TestReplyIsCached requires that a reply is valid for a bounded time and that a failure makes uptimes unknown.
func TestReplyIsCached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{known: map[ids.NodeID]Uptime{{1}: {Percent: 99.5}}, wait: time.Second}
		c := New(f)
		require.Equal(t, f.known, c.Uptimes(t.Context()))
		require.Equal(t, f.known, c.Uptimes(t.Context()))
		require.Equal(t, 1, f.calls)
		time.Sleep(freshFor)
		f.err = errors.New("away")
		require.Nil(t, c.Uptimes(t.Context()), "an old reply")
		require.Nil(t, c.Uptimes(t.Context()))
		require.Equal(t, 2, f.calls, "no request during the pause")
		time.Sleep(failedFor)
		f.err = nil
		require.Equal(t, f.known, c.Uptimes(t.Context()))
	})
}

// TestCallersShareARequest requires that concurrent callers wait for one request and leave when their context ends.
func TestCallersShareARequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{known: map[ids.NodeID]Uptime{{1}: {Percent: 1}}, wait: 2 * time.Second}
		c := New(f)
		var callers sync.WaitGroup
		for range 10 {
			callers.Go(func() { require.Equal(t, f.known, c.Uptimes(t.Context())) })
		}
		synctest.Wait()
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		require.Nil(t, c.Uptimes(short))
		require.Equal(t, time.Second, time.Since(began))
		callers.Wait()
		require.Equal(t, 1, f.calls)

		time.Sleep(freshFor)
		short, cancel = context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.Nil(t, c.Uptimes(short))
		require.Equal(t, f.known, c.Uptimes(t.Context()), "a caller that leaves is no failure of the node")

		f.wait = time.Hour
		time.Sleep(freshFor)
		began = time.Now()
		require.Nil(t, c.Uptimes(t.Context()))
		require.Equal(t, timeout, time.Since(began))
	})
}
