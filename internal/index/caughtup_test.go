package index

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// An index that had caught up before a restart counts as caught up while the node does not report a height, but not at
// once, not if nothing or only a part of it is there, and only until the node reports a height.
func TestCaughtUpBeforeARestart(t *testing.T) {
	for name, test := range map[string]struct {
		before           bool
		from, next, kept uint64
		want             bool
	}{
		"had caught up":        {true, 0, 100, 0, true},
		"had not":              {false, 0, 100, 0, false},
		"rows were deleted":    {true, 0, 0, 0, false},
		"begins later, empty":  {true, 50, 50, 0, false},
		"rebuilt in part":      {true, 0, 60, 100, false},
		"rebuilt from storage": {true, 0, 100, 100, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var s status
				s.begin()
				s.before = test.before
				s.position(test.from, test.next, test.kept, nil)
				s.failing(task{doing: askingHeight}, errors.New("away"))
				time.Sleep(unreachableAfter - time.Second)
				require.False(t, s.read().Ready(), "the node may answer soon")
				time.Sleep(time.Second)
				require.Equal(t, test.want, s.read().CaughtUp)
				require.Equal(t, test.want, s.read().Ready())
				s.failing(task{doing: askingHeight}, nil)
				s.tip(100_000)
				require.False(t, s.read().Ready())
			})
		})
	}
}

// The index answers for its chain once it is near the tip, also when it lags later, until it stops.
func TestReady(t *testing.T) {
	var s status
	s.begin()
	require.False(t, s.read().Ready())
	s.position(0, 5, 0, nil)
	s.tip(100)
	require.False(t, s.read().Ready())
	s.committed(100, nil)
	require.True(t, s.read().Ready())
	s.tip(5000)
	require.True(t, s.read().Ready())
	now := s.read()
	now.State = Stopped // by the matcher of atomic transfers, see package primary
	require.False(t, now.Ready())
	s.end(errors.New("damaged"), false)
	require.False(t, s.read().Ready())
}
