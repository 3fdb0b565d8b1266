// Package stream serves live streams of events that clients resume by cursor, as server-sent events or over a WebSocket.
//
// A stream holds no queue: it reads the next page of its feed when the client has taken the last one. A slow client
// therefore takes no memory and may fall behind; one that takes nothing is disconnected. Each event has a cursor. A
// client that connects again with the cursor of the last event that it has processed gets the events after it, neither
// losing nor repeating any, or the error that they are gone.
package stream

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"quorate/handlers/access"
	"quorate/handlers/apierr"
)

// Codes of errors.
const (
	// CodeGone is the code of a cursor after which events are gone.
	CodeGone = "EVENTS_GONE"
	// CodeTooMany and CodeBusy are the codes of a refused stream: the client has too many, or the service has.
	CodeTooMany = "TOO_MANY_STREAMS"
	CodeBusy    = "BUSY"
)

// Options configures Streams. 0 means the default.
type Options struct {
	// Most is the maximum number of open streams, default 256. If there are API keys, clients without one may open a stream
	// while less than three quarters of them are open. PerClient is the maximum of one client (see access.Client), default 16.
	Most, PerClient int
	// Keys reports whether there are API keys; nil means that there are.
	Keys func() bool
	// Life is the maximum duration of a stream, default 1 h: then the client connects again and its API key is checked
	// again. Beat is the time after which an idle stream sends a comment, default 15 s. Stall is how long a client
	// may take nothing, default 20 s.
	Life, Beat, Stall time.Duration
	// Metrics may be nil.
	Metrics prometheus.Registerer
}

// Streams holds the open streams of a service. It is safe for concurrent use.
type Streams struct {
	options Options
	ended   *prometheus.CounterVec
	life    context.Context //nolint:containedctx // ends the streams, which would delay shutdown
	end     context.CancelFunc

	mu  sync.Mutex
	all int            // guarded by mu
	by  map[string]int // by client; guarded by mu; has no zero values
}

// New returns Streams; Close ends them.
func New(o Options) *Streams {
	o.Most, o.PerClient = cmp.Or(o.Most, 256), cmp.Or(o.PerClient, 16)
	o.Life, o.Beat, o.Stall = cmp.Or(o.Life, time.Hour), cmp.Or(o.Beat, 15*time.Second), cmp.Or(o.Stall, 20*time.Second)
	metrics := promauto.With(o.Metrics) // which may be nil
	s := &Streams{options: o, by: make(map[string]int), ended: metrics.NewCounterVec(prometheus.CounterOpts{
		Name: "quorate_streams_ended_total", Help: "Streams of events that ended, by reason: client (it disconnected or took nothing), lifetime, stopping, error; or refused.",
	}, []string{"reason"})}
	metrics.NewGaugeFunc(prometheus.GaugeOpts{Name: "quorate_streams_open", Help: "Open streams of events."}, func() float64 {
		s.mu.Lock()
		defer s.mu.Unlock()
		return float64(s.all)
	})
	s.life, s.end = context.WithCancel(context.Background())
	return s
}

// Close ends all streams and refuses further ones.
func (s *Streams) Close() { s.end() }

// enter counts a stream of a client, or returns why it is refused. keyed reports whether the client has an API key.
func (s *Streams) enter(client string, keyed bool) *apierr.Error {
	s.mu.Lock()
	defer s.mu.Unlock()
	most, limit := s.options.Most, "the limit"
	if !keyed && (s.options.Keys == nil || s.options.Keys()) {
		most, limit = most-most/4, "the limit for clients without an API key"
	}
	switch {
	case s.life.Err() != nil:
		return apierr.Stopping(nil)
	case s.all >= most:
		busy := apierr.Unavailable(nil, "%d streams are open; %s is %d; connect again later", s.all, limit, most)
		busy.Code = CodeBusy
		return busy
	case s.by[client] >= s.options.PerClient:
		return &apierr.Error{Status: http.StatusTooManyRequests, Code: CodeTooMany, Message: "your API key or client IP address has as many streams open as one may have; close one, or use one for all"}
	}
	s.all++
	s.by[client]++
	return nil
}

func (s *Streams) leave(client string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all--
	if s.by[client]--; s.by[client] == 0 {
		delete(s.by, client)
	}
}

// retryAfter is when a refused client should try again.
const retryAfter = 5 * time.Second

// Serve serves a stream until it ends. open returns the feed of the events after a cursor; without one, after now.
// parameter is the query parameter with the cursor.
func (s *Streams) Serve(c echo.Context, parameter string, open func(ctx context.Context, from string) (Feed, error)) error {
	r := c.Request()
	// A browser that connects again repeats the URL, and adds the cursor of the last event that it got.
	from := cmp.Or(r.Header.Get("Last-Event-ID"), c.QueryParam(parameter))
	client, id := access.ClientOf(r.Context()), access.OriginOf(c.RealIP()).String()
	if client != nil {
		id = client.ID()
	}
	if refused := s.enter(id, access.KeyName(c) != ""); refused != nil {
		s.ended.WithLabelValues("refused").Inc()
		refused.RetryAfter = retryAfter
		return refused
	}
	defer s.leave(id)
	feed, err := open(r.Context(), from)
	if err != nil && apierr.HasGone(r.Context()) {
		s.ended.WithLabelValues("client").Inc()
		return apierr.ErrClientGone
	}
	if err != nil {
		s.ended.WithLabelValues("refused").Inc()
		return err
	}
	var out sender
	if strings.EqualFold(r.Header.Get(echo.HeaderUpgrade), "websocket") {
		out, err = acceptSocket(c)
	} else {
		out = newEventStream(c)
	}
	if err != nil {
		return nil // Accept has answered
	}
	sent, why, failed := s.run(r.Context(), out, feed, client)
	s.ended.WithLabelValues(why).Inc()
	if failed != nil {
		apierr.Note(c, "stream", failed)
	}
	apierr.Describe(c, slog.Int("events", sent), slog.String("ended", why))
	return nil
}

// sender sends events to a client. One goroutine uses it.
type sender interface {
	// send sends an event, which may be buffered until flush. beat sends a comment. They fail when ctx ends or the
	// client has disconnected.
	send(ctx context.Context, e Event) error
	flush() error
	beat(ctx context.Context) error
	// gone is closed when the client has disconnected.
	gone() <-chan struct{}
	// close ends the stream; reason is for the client.
	close(reason string)
}

// EventsPerRequest is how many events count as a further request of the client.
const EventsPerRequest = 100

// run sends the events of feed until the stream ends. It returns how many it sent, why the stream ended, and the error
// of the feed if that is why.
func (s *Streams) run(request context.Context, out sender, feed Feed, client *access.Client) (sent int, why string, failed *apierr.Error) {
	connected, disconnect := context.WithCancel(request)
	defer disconnect()
	ctx, cancel := context.WithTimeout(connected, s.options.Life)
	defer cancel()
	defer context.AfterFunc(s.life, cancel)()
	// Cutting off a write to a WebSocket disconnects it, so that the client would not get the reason.
	defer context.AfterFunc(ctx, func() { time.AfterFunc(farewellTime, disconnect) })()
	watched := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() {
		select {
		case <-out.gone():
			disconnect()
		case <-watched:
		}
	})
	defer watching.Wait()
	defer close(watched)
	reason := ""
	defer func() { out.close(reason) }()
	for {
		waiting, enough := context.WithTimeout(ctx, s.options.Beat)
		events, err := feed.Next(waiting)
		idle := waiting.Err() != nil
		enough()
		var known *apierr.Error
		switch {
		case s.life.Err() != nil:
			reason = "the service is stopping; connect again with the cursor of the last event"
			return sent, "stopping", nil
		case errors.Is(ctx.Err(), context.DeadlineExceeded):
			reason = "streams do not last longer; connect again with the cursor of the last event"
			return sent, "lifetime", nil
		case ctx.Err() != nil:
			return sent, "client", nil
		case err != nil && idle:
			err = s.within(connected, out.beat)
		case errors.As(err, &known):
			reason = known.Message
			_ = s.send(connected, out, Event{Name: "error", Data: apierr.Body(known)})
			return sent, "error", known
		case err != nil:
			reason = "the events cannot be read now; connect again with the cursor of the last event"
			return sent, "error", apierr.Internal(err)
		default:
			err = s.send(connected, out, events...)
			before := sent
			sent += len(events)
			if client != nil {
				client.Owe(ctx, sent/EventsPerRequest-before/EventsPerRequest)
			}
		}
		if err != nil {
			return sent, "client", nil
		}
	}
}

// send sends events, each within the stall time.
func (s *Streams) send(ctx context.Context, out sender, events ...Event) error {
	for _, e := range events {
		if err := s.within(ctx, func(ctx context.Context) error { return out.send(ctx, e) }); err != nil {
			return err
		}
	}
	return out.flush()
}

// within calls f, which must end within the stall time.
func (s *Streams) within(ctx context.Context, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, s.options.Stall)
	defer cancel()
	return f(ctx)
}
