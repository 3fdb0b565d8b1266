package client_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"

	"quorate/client"
)

// cutStream serves events with the numbers from 1 on, and cuts each connection after some bytes. A connection with
// cursor 150 gets 410.
func cutStream(t *testing.T, parameter, path, event string, data func(number int) string, connections *int) http.HandlerFunc {
	t.Helper()
	random := rand.New(rand.NewPCG(1, 2))
	return func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != path {
			t.Errorf("got path %s, want %s", r.URL.Path, path)
		}
		*connections++
		from, err := strconv.Atoi(r.URL.Query().Get(parameter))
		if err != nil {
			t.Errorf("got query %s", r.URL.RawQuery)
		}
		if from == 150 {
			answer(http.StatusGone, `{"message":"gone","statusCode":410,"code":"EVENTS_GONE"}`)(w, r)
			return
		}
		text := fmt.Sprintf("id: %d\nevent: open\ndata: {}\n\n: a comment\n\n", from)
		for number := from + 1; number <= min(from+3, 150); number++ {
			text += fmt.Sprintf("id: %d\nevent: %s\ndata: %s\n\n", number, event, data(number))
		}
		if random.IntN(2) == 0 {
			text = text[:random.IntN(len(text))]
		} else {
			text += "event: end\ndata: {\"reason\":\"stopping\"}\n\n"
		}
		events(text)(w, r)
	}
}

// TestFollow reads streams that are cut. Each event arrives once and in order.
func TestFollow(t *testing.T) {
	signed := hexOf(signedBy(t, unsignedMessage(t, ids.ID{1}, "streamed"), 1))
	for name, test := range map[string]struct {
		parameter, path, event string
		data                   func(number int) string
		follow                 func(ctx context.Context, c *client.Client, f func(cursor string, height uint64) error) error
	}{
		"messages": {
			"from", "/v1/signatureAggregator/fuji/messages:stream", "message",
			func(n int) string {
				return fmt.Sprintf(`{"signedMessage":%q,"signingSubnetId":%q,"pChainHeight":"%d","weight":"7","totalWeight":"9"}`, signed, ids.ID{1}, n)
			},
			func(ctx context.Context, c *client.Client, f func(string, uint64) error) error {
				return c.FollowMessages(ctx, "0", func(e client.MessageEvent) error {
					require.Equal(t, signed, hexOf(e.Message))
					require.EqualValues(t, 9, e.TotalWeight)
					return f(e.Cursor, e.PChainHeight)
				})
			},
		},
		"gaps": {
			"from", "/v1/signatureAggregator/fuji/messages:stream", "gap",
			func(n int) string { return fmt.Sprintf(`{"missed":%d}`, n) },
			func(ctx context.Context, c *client.Client, f func(string, uint64) error) error {
				return c.FollowMessages(ctx, "0", func(e client.MessageEvent) error {
					require.Nil(t, e.Message)
					return f(e.Cursor, e.Missed)
				})
			},
		},
		"validators": {
			"from", "/v1/signatureAggregator/fuji/subnets/" + ids.ID{5}.String() + "/validators:stream", "validators",
			func(n int) string {
				return fmt.Sprintf(`{"subnetId":%q,"pChainHeight":"%d","totalWeight":"9","inactiveWeight":"1","validators":[{"nodeId":%q,"change":"LEFT","previousWeight":"3"}]}`, ids.ID{5}, n, ids.NodeID{1})
			},
			func(ctx context.Context, c *client.Client, f func(string, uint64) error) error {
				return c.FollowValidators(ctx, ids.ID{5}, "0", func(e client.SetEvent) error {
					require.Equal(t, []client.SetChange{{NodeID: ids.NodeID{1}, Change: "LEFT", PreviousWeight: 3}}, e.Validators)
					return f(e.Cursor, e.PChainHeight)
				})
			},
		},
		"ICM": {
			"cursor", "/v1/icm/messages:stream", "step",
			func(n int) string {
				return fmt.Sprintf(`{"step":"SENT","blockchainId":%q,"blockNumber":"%d","timestamp":5,"message":{"a":1}}`, ids.ID{5}, n)
			},
			func(ctx context.Context, c *client.Client, f func(string, uint64) error) error {
				return c.FollowICM(ctx, client.ICMFilter{From: "0x1"}, "0", func(e client.ICMEvent) error {
					require.JSONEq(t, `{"a":1}`, string(e.Message))
					return f(e.Cursor, e.BlockNumber)
				})
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			connections := 0
			c := open(t, cutStream(t, test.parameter, test.path, test.event, test.data, &connections), client.Options{Attempts: 20})
			want := uint64(0)
			err := test.follow(t.Context(), c, func(cursor string, number uint64) error {
				want++
				require.Equal(t, want, number)
				require.Equal(t, fmt.Sprint(want), cursor)
				return nil
			})
			require.ErrorIs(t, err, &client.Error{Code: client.CodeEventsGone})
			require.EqualValues(t, 150, want)
			require.GreaterOrEqual(t, connections, 50)

			stop := errors.New("enough")
			require.Equal(t, stop, test.follow(t.Context(), c, func(string, uint64) error { return stop }))
			ctx, cancel := context.WithCancel(t.Context())
			require.ErrorIs(t, test.follow(ctx, c, func(string, uint64) error {
				cancel()
				return nil
			}), context.Canceled)
		})
	}
}

// TestFollowGivesUp reads streams that never begin.
func TestFollowGivesUp(t *testing.T) {
	for name, test := range map[string]struct {
		handler  http.HandlerFunc
		want     error
		requests int
	}{
		"refused":     {answer(http.StatusBadRequest, `{"message":"from: no","statusCode":400}`), nil, 1},
		"busy":        {answer(http.StatusServiceUnavailable, `{"message":"no","statusCode":503,"code":"BUSY"}`), &client.Error{Code: client.CodeBusy}, 2},
		"no stream":   {answer(http.StatusOK, `{}`), client.ErrBadAnswer, 1},
		"error event": {events("event: error\ndata: {\"message\":\"no\",\"statusCode\":410,\"code\":\"EVENTS_GONE\"}\n\n"), &client.Error{Code: client.CodeEventsGone}, 1},
		"no JSON":     {events("id: 1\nevent: message\ndata: {\n\n"), client.ErrBadAnswer, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			requests := 0
			c := open(t, func(w http.ResponseWriter, r *http.Request) {
				requests++
				test.handler(w, r)
			}, client.Options{Attempts: 2})
			err := c.FollowMessages(t.Context(), "", func(client.MessageEvent) error { return nil })
			if failed, ok := errors.AsType[*client.Error](err); test.want == nil {
				require.True(t, ok && failed.Status == http.StatusBadRequest, "%v", err)
			} else {
				require.ErrorIs(t, err, test.want)
			}
			require.Equal(t, test.requests, requests)
		})
	}
}

// TestFollowOutlastsOutage opens a stream and then fails many times. The stream continues after the last event.
func TestFollowOutlastsOutage(t *testing.T) {
	const fails = 100
	down := `{"message":"the events cannot be read now","statusCode":500,"code":"INTERNAL"}`
	for name, test := range map[string]struct {
		fail func() (*http.Response, error)
		last error // nil if the stream resumes
	}{
		"no connection":       {fail: func() (*http.Response, error) { return nil, errors.New("connection refused") }},
		"a proxy":             {fail: func() (*http.Response, error) { return respond(http.StatusBadGateway, "<html>") }},
		"a slow proxy":        {fail: func() (*http.Response, error) { return respond(http.StatusGatewayTimeout, "") }},
		"a starting service":  {fail: func() (*http.Response, error) { return respond(http.StatusServiceUnavailable, busy) }},
		"a limit":             {fail: func() (*http.Response, error) { return respond(http.StatusTooManyRequests, busy, "Retry-After", "5") }},
		"a stopping service":  {fail: func() (*http.Response, error) { return stream("event: end\ndata: {}\n\n") }},
		"an open that breaks": {fail: func() (*http.Response, error) { return stream("id: 1\nevent: open\ndata: {}\n\n") }},
		"a store that fails": {fail: func() (*http.Response, error) {
			return stream("id: 1\nevent: open\ndata: {}\n\nevent: error\ndata: " + down + "\n\n")
		}},
		"a revoked API key": {func() (*http.Response, error) { return respond(http.StatusUnauthorized, busy) }, &client.Error{Code: client.CodeBusy}},
		"no stream":         {func() (*http.Response, error) { return respond(http.StatusOK, "<html>") }, client.ErrBadAnswer},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, requests := scripted(t, 2, func(n int, r *http.Request) (*http.Response, error) {
					switch n {
					case 0:
						return stream("id: 1\nevent: gap\ndata: {\"missed\":1}\n\n")
					case fails + 1:
						require.Equal(t, "1", r.URL.Query().Get("from"))
						return stream("id: 2\nevent: gap\ndata: {\"missed\":2}\n\n")
					}
					return test.fail()
				})
				stop, got := errors.New("enough"), 0
				err := c.FollowMessages(t.Context(), "0", func(e client.MessageEvent) error {
					if got++; e.Missed == 2 {
						return stop
					}
					return nil
				})
				if test.last != nil {
					require.ErrorIs(t, err, test.last)
					require.Equal(t, 2, *requests)
					return
				}
				require.Equal(t, stop, err)
				require.Equal(t, 2, got)
				require.Equal(t, fails+2, *requests)
			})
		})
	}
}

func stream(events string) (*http.Response, error) {
	return respond(http.StatusOK, events, "Content-Type", "text/event-stream")
}

// TestFollowLeavesSilentServer connects to a server that accepts requests and does not answer the first one.
func TestFollowLeavesSilentServer(t *testing.T) {
	for name, follow := range map[string]func(ctx context.Context, c *client.Client, stop error) error{
		"messages": func(ctx context.Context, c *client.Client, stop error) error {
			return c.FollowMessages(ctx, "", func(client.MessageEvent) error { return stop })
		},
		"validators": func(ctx context.Context, c *client.Client, stop error) error {
			return c.FollowValidators(ctx, ids.ID{5}, "", func(client.SetEvent) error { return stop })
		},
		"ICM": func(ctx context.Context, c *client.Client, stop error) error {
			return c.FollowICM(ctx, client.ICMFilter{}, "", func(client.ICMEvent) error { return stop })
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, requests := scripted(t, 0, func(n int, r *http.Request) (*http.Response, error) {
					if n == 0 {
						<-r.Context().Done()
						return nil, context.Cause(r.Context())
					}
					return stream(allEvents)
				})
				stop := errors.New("enough")
				require.Equal(t, stop, follow(t.Context(), c, stop))
				require.Equal(t, 2, *requests)

				silent, _ := scripted(t, 1, func(_ int, r *http.Request) (*http.Response, error) {
					<-r.Context().Done()
					return nil, context.Cause(r.Context())
				})
				require.ErrorContains(t, follow(t.Context(), silent, stop), "the server sent nothing for 1m")
			})
		})
	}
}

// allEvents has an event of each stream.
const allEvents = "id: 1\nevent: gap\ndata: {\"missed\":1}\n\nid: 2\nevent: height\ndata: {\"pChainHeight\":\"2\"}\n\nid: 3\nevent: step\ndata: {}\n\n"

// TestDelivery reads the delivery of a signed message, alone and in a batch.
func TestDelivery(t *testing.T) {
	m := unsignedMessage(t, ids.ID{1}, "delivered")
	signed := hexOf(signedBy(t, m, 1))
	result := `{"signedMessage":"` + signed + `","delivery":{"deliverable":true,"code":"DELIVERABLE","destinationBlockchainId":"` + ids.ID{9}.String() + `"}}`
	c := open(t, func(w http.ResponseWriter, r *http.Request) {
		body := result
		if r.URL.Path == "/v1/signatureAggregator/fuji/aggregateSignatures:batch" {
			body = `{"results":[` + result + `,{"signedMessage":"` + signed + `"}]}`
		}
		answer(http.StatusOK, body)(w, r)
	}, client.Options{})
	request := client.Request{Message: m.Bytes(), SignOptions: client.SignOptions{VerifyingBlockchainID: &ids.ID{9}}}
	yes := true
	want := &client.Delivery{Deliverable: &yes, Code: client.DeliveryDeliverable, DestinationBlockchainID: ids.ID{9}}
	got, delivery, err := c.SignForDelivery(t.Context(), request)
	require.NoError(t, err)
	require.Equal(t, signed, hexOf(got))
	require.Equal(t, want, delivery)
	results, err := c.SignBatch(t.Context(), []client.Request{request, {Message: m.Bytes()}})
	require.NoError(t, err)
	require.Equal(t, want, results[0].Delivery)
	require.Nil(t, results[1].Delivery)
}
