package signing

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, leave := context.WithCancelCause(context.WithValue(t.Context(), t, "value"))
		p := newPatience(client, time.Second)
		require.NoError(t, p.Err())
		require.Equal(t, "value", p.Value(t))
		until, ok := p.Deadline()
		require.True(t, ok)
		require.Equal(t, time.Now().Add(time.Second), until)

		time.Sleep(999 * time.Millisecond)
		require.NoError(t, p.Err(), "not yet")
		select {
		case <-p.Done():
			t.Fatal("got the end of it, want 1 ms more")
		default:
		}
		within, stop := context.WithCancel(p) // also without a goroutine to watch it
		defer stop()
		time.Sleep(time.Millisecond)
		synctest.Wait()
		<-p.Done()
		require.ErrorIs(t, p.Err(), context.DeadlineExceeded)
		require.ErrorIs(t, within.Err(), context.DeadlineExceeded)
		require.ErrorIs(t, context.Cause(p), context.DeadlineExceeded)
		p.end()
		require.ErrorIs(t, p.Err(), context.DeadlineExceeded)

		unwatched := newPatience(client, time.Second)
		time.Sleep(time.Second)
		require.ErrorIs(t, unwatched.Err(), context.DeadlineExceeded, "nobody waited for it")

		ended := newPatience(client, time.Second)
		ended.end()
		<-ended.Done()
		require.ErrorIs(t, ended.Err(), context.Canceled)

		left := newPatience(client, time.Second)
		leave(context.DeadlineExceeded)
		require.ErrorIs(t, left.Err(), context.Canceled)
		<-left.Done()
		require.ErrorIs(t, context.Cause(left), context.DeadlineExceeded)
		left.end()

		short, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		earlier, _ := newPatience(short, time.Second).Deadline()
		require.Equal(t, time.Now().Add(time.Millisecond), earlier)
	})
}
