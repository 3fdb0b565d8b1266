package node

import (
	"encoding/json"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"
)

// usualRange is a node's response to a request for two containers.
func usualRange(t testing.TB) string {
	container := func(index, bytes string) string {
		return `{"id":"` + ids.ID{1}.String() + `","bytes":"` + hexOf(t, bytes) + `","timestamp":"2026-01-02T03:04:05.000000006Z","encoding":"hex","index":"` + index + `"}`
	}
	return `{"jsonrpc":"2.0","result":{"containers":[` + container("7", "seven") + `,` + container("8", "eight") + "]},\"id\":1}\n"
}

func TestUsualRange(t *testing.T) {
	usual := usualRange(t)
	var got containerRange
	require.True(t, got.readUsual([]byte(usual)))
	require.Equal(t, []string{"seven", "eight"}, []string{string(got.usual[0].Bytes), string(got.usual[1].Bytes)})
	require.Equal(t, 5, cap(got.usual[0].Bytes), "bytes of one container must not reach into the next one's")

	for name, change := range map[string][2]string{
		"an error":              {`"result"`, `"error"`},
		"another member":        {`"id":1`, `"id":1,"extra":2`},
		"a member twice":        {`"encoding":"hex"`, `"encoding":"hex","encoding":"hex"`},
		"a member missing":      {`"encoding":"hex",`, ``},
		"another encoding":      {`"encoding":"hex"`, `"encoding":"hexnc"`},
		"an escape":             {`"index":"7"`, `"index":"\u0037"`},
		"a number":              {`"index":"7"`, `"index":7`},
		"a bad checksum":        {`"bytes":"0x7365`, `"bytes":"0x7366`},
		"no prefix":             {`"bytes":"0x`, `"bytes":"`},
		"no bytes":              {hexOf(t, "seven"), hexOf(t, "")},
		"a bad time":            {`2026-01-02T`, `2026-13-02T`},
		"a bad ID":              {`"id":"`, `"id":"1`},
		"something after":       {"\n", "{}"},
		"no end":                {"]}", "]"},
		"a comma too many":      {`"}]`, `"},]`},
		"no container":          {usual[strings.Index(usual, "[")+1 : strings.Index(usual, "]")], ""},
		"a string without end":  {`"hex"`, `"hex`},
		"the containers, twice": {"]}", `],"containers":[]}`},
	} {
		t.Run(name, func(t *testing.T) {
			require.Contains(t, usual, change[0])
			got := containerRange{}
			answer := strings.Replace(usual, change[0], change[1], 1)
			require.False(t, got.readUsual([]byte(answer)), "got %v from %s", got.usual, answer)
			require.Nil(t, got.usual)
		})
	}
}

// A part of one container that is retained does not retain the others, which would grow the memory of an index by
// a whole response for each such part.
func TestContainersAreRetainedAlone(t *testing.T) {
	var got containerRange
	require.True(t, got.readUsual([]byte(usualRange(t))))
	dropped := make(chan struct{})
	runtime.AddCleanup(&got.usual[1].Bytes[0], func(dropped chan struct{}) { close(dropped) }, dropped)
	kept := got.usual[0].Bytes
	got.usual = nil
	require.Eventually(t, func() bool {
		runtime.GC()
		select {
		case <-dropped:
			return true
		default:
			return false
		}
	}, time.Minute, time.Millisecond)
	require.Equal(t, "seven", string(kept))
}

// FuzzUsualRange checks that encoding/json reads everything that the shortcut reads, with
// the same result.
func FuzzUsualRange(f *testing.F) {
	usual := usualRange(f)
	f.Add(usual)
	f.Add(strings.ReplaceAll(usual, ":", " : "))
	f.Add(strings.Replace(usual, `,"encoding":"hex"`, "", 1))
	f.Add(strings.Replace(usual, `"7"`, `"18446744073709551616"`, 1))
	f.Fuzz(func(t *testing.T, answer string) {
		var quick, long containerRange
		if !quick.readUsual([]byte(answer)) {
			return
		}
		var decoded response
		require.NoError(t, json.Unmarshal([]byte(answer), &decoded))
		require.Nil(t, decoded.Error)
		require.NoError(t, json.Unmarshal(decoded.Result, &long))
		got, err := quick.containers("")
		require.NoError(t, err)
		want, err := long.containers("")
		require.NoError(t, err)
		require.Equal(t, want, got)
	})
}
