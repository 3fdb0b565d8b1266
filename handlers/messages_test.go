package handlers

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"

	"quorate/aggregator"
	"quorate/handlers/apitest"
	"quorate/handlers/networks"
	"quorate/handlers/signing"
	live "quorate/handlers/stream"
	"quorate/internal/store"
)

// fakeStream has the events from oldest to newest, each a signed message, or a gap at number 5.
type fakeStream struct {
	t *testing.T

	mu             sync.Mutex
	oldest, newest uint64 // guarded by mu
	changes        uint64 // of the ID; guarded by mu
	unsettled      uint64 // how many of the newest events Ends does not count yet
	read           func() // called before each read; may be nil
}

func (s *fakeStream) Ends(context.Context) (store.LogEnds, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return store.LogEnds{ID: 0xabc + s.changes, Oldest: s.oldest, Newest: s.newest - s.unsettled}, nil
}

func (s *fakeStream) Has(_ context.Context, id, number uint64) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return id == 0xabc+s.changes && number <= s.newest, nil
}

func (s *fakeStream) Changed() <-chan struct{} { return nil }

func (s *fakeStream) Read(_ context.Context, after uint64, limit int) ([]aggregator.StreamEvent, error) {
	if s.read != nil {
		s.read()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if after+1 < s.oldest {
		return nil, store.ErrTruncated
	}
	var events []aggregator.StreamEvent
	for number := after + 1; number <= s.newest && len(events) < limit; number++ {
		e := aggregator.StreamEvent{Number: number, Time: time.UnixMilli(1234).UTC()}
		if number == 5 {
			e.Missed = 7
		} else {
			e.Message = signed(aggregator.Request{Message: message(s.t, 5)}).Message
			e.SigningSubnetID, e.PChainHeight, e.Weight, e.TotalWeight, e.Signers = ids.ID{byte(number)}, number, 70, 100, 3
		}
		events = append(events, e)
	}
	return events, nil
}

const messagesPath = "/v1/signatureAggregator/fuji/messages:stream"

func TestMessageStreamCursors(t *testing.T) {
	s := &fakeStream{t: t, oldest: 3, newest: 6}
	streams := live.New(live.Options{Life: 50 * time.Millisecond})
	e := newPublic(t, &fakeSigner{}, func(o *Options) {
		o.Networks = networks.Fixed(map[string]Network{"fuji": {NetworkID: 5, Signer: &fakeSigner{}, Stream: s}, "mainnet": {NetworkID: 1, Signer: &fakeSigner{}}})
		o.Streams = streams
	})
	for from, want := range map[string][]int{"": {}, "abc-6": {}, "abc-4": {5, 6}, "oldest": {3, 4, 5, 6}, "abc-2": {3, 4, 5, 6}} {
		w := apitest.Get(e, messagesPath+"?from="+from)
		require.Equal(t, http.StatusOK, w.Code, w.Body)
		events := strings.Split(w.Body.String(), "\n\n")
		require.Contains(t, events[0], "event: open\ndata: {\"oldest\":\"abc-2\"}")
		require.Contains(t, events[len(events)-2], "event: end\n")
		events = events[1 : len(events)-2]
		require.Len(t, events, len(want), "from=%s: %s", from, w.Body)
		for i, number := range want {
			require.True(t, strings.HasPrefix(events[i], fmt.Sprintf("id: abc-%d\n", number)), events[i])
			if number == 5 {
				require.Contains(t, events[i], "event: gap\ndata: {\"missed\":7}")
				continue
			}
			require.Contains(t, events[i], "event: message\n")
			require.Contains(t, events[i], fmt.Sprintf(`"pChainHeight":"%d","weight":"70","totalWeight":"100","signers":3,"signedAt":"1970-01-01T00:00:01.234Z"`, number))
		}
	}
	for _, cursor := range []string{"abc-1", "abc-7", "abd-4"} { // removed, never there, of another stream
		apitest.RequireError(t, apitest.Get(e, messagesPath, "Last-Event-ID", cursor), 400, http.StatusGone, "from: events after "+cursor, "abc-2")
	}
	for _, cursor := range []string{"x", "abc", "abc-", "abc-x", "abc-18446744073709551615", "-1"} {
		apitest.RequireError(t, apitest.Get(e, messagesPath+"?from="+cursor), 400, http.StatusBadRequest, "from: ")
	}
	apitest.RequireError(t, apitest.Get(e, strings.Replace(messagesPath, "fuji", "mainnet", 1)), 400, http.StatusNotFound, "network: ")
}

// TestCursorOfAnotherProcess continues after an event that another process has sent and this one is still writing.
func TestCursorOfAnotherProcess(t *testing.T) {
	s := &fakeStream{t: t, oldest: 1, newest: 4, unsettled: 2}
	reads := 0
	s.read = func() {
		if reads++; reads == 2 {
			s.mu.Lock()
			s.oldest = 9 // ends the stream
			s.mu.Unlock()
		}
	}
	e := newPublic(t, &fakeSigner{}, func(o *Options) {
		o.Networks = networks.Fixed(map[string]Network{"fuji": {NetworkID: 5, Signer: &fakeSigner{}, Stream: s}})
	})
	w := apitest.Get(e, messagesPath+"?from=abc-3")
	require.Equal(t, http.StatusOK, w.Code, w.Body)
	require.Contains(t, w.Body.String(), "id: abc-4\n")
}

// TestMessageStreamFallsBehind has events removed that a connected client has not got yet.
func TestMessageStreamFallsBehind(t *testing.T) {
	s := &fakeStream{t: t, oldest: 1, newest: 40}
	reads := 0
	s.read = func() {
		if reads++; reads == 2 {
			s.mu.Lock()
			s.oldest, s.newest = 30, 60
			s.mu.Unlock()
		}
	}
	e := newPublic(t, &fakeSigner{}, func(o *Options) {
		o.Networks = networks.Fixed(map[string]Network{"fuji": {NetworkID: 5, Signer: &fakeSigner{}, Stream: s}})
	})
	w := apitest.Get(e, messagesPath+"?from=oldest")
	require.Equal(t, 4, strings.Count(w.Body.String(), "\nevent: message\n"))
	events := strings.Split(w.Body.String(), "\n\n")
	require.Contains(t, events[len(events)-3], "event: error\n")
	require.Contains(t, events[len(events)-3], `"statusCode":410,"error":"Gone","code":"EVENTS_GONE"`)
	require.Contains(t, events[len(events)-3], "abc-4")
	require.Contains(t, events[len(events)-3], "abc-29")
}

// TestMessageStreamLosesEvents has a database take over that lacks events which a connected client has got.
func TestMessageStreamLosesEvents(t *testing.T) {
	for name, test := range map[string]struct {
		newest, changes uint64
		oldest          string
	}{
		"nothing signed since": {newest: 8, oldest: "abc-0"},
		"signed since":         {newest: 13, changes: 1, oldest: "abd-0"},
	} {
		t.Run(name, func(t *testing.T) {
			s := &fakeStream{t: t, oldest: 1, newest: 10}
			reads := 0
			s.read = func() {
				if reads++; reads == 2 {
					s.mu.Lock()
					s.newest, s.changes = test.newest, test.changes
					s.mu.Unlock()
				}
			}
			e := newPublic(t, &fakeSigner{}, func(o *Options) {
				o.Networks = networks.Fixed(map[string]Network{"fuji": {NetworkID: 5, Signer: &fakeSigner{}, Stream: s}})
				o.Streams = live.New(live.Options{Life: time.Minute})
			})
			w := apitest.Get(e, messagesPath+"?from=abc-6")
			require.Equal(t, 4, strings.Count(w.Body.String(), "\nevent: message\n"))
			events := strings.Split(w.Body.String(), "\n\n")
			require.Contains(t, events[len(events)-3], `"code":"EVENTS_GONE"`)
			require.Contains(t, events[len(events)-3], "abc-10")
			require.Contains(t, events[len(events)-3], test.oldest)
		})
	}
}

var _ signing.MessageStream = (*fakeStream)(nil)
