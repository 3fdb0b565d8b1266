package aggregator

import (
	"context"
	"fmt"
	"time"
)

// busyPause is when a request that was refused because of too many rounds may be repeated.
const busyPause = time.Second

// admission bounds the rounds at a time. It is not safe for concurrent use.
type admission struct {
	bounds  func() (all, perClient int) // nil is no bound
	rounds  int
	clients map[string]int // rounds by the client that started them
}

// enter counts a round that a client starts. The empty client has no bound of its own.
func (a *admission) enter(client string) *Error {
	var all, perClient int
	if a.bounds != nil {
		all, perClient = a.bounds()
	}
	switch {
	case client != "" && perClient > 0 && a.clients[client] >= perClient:
		return &Error{Code: CodeTooManyRounds, RetryAfter: busyPause, Message: fmt.Sprintf(
			"this client has %d messages signed at the same time, which is the limit; send the request again when some are done", a.clients[client])}
	case all > 0 && a.rounds >= all:
		return &Error{Code: CodeBusy, RetryAfter: busyPause, Message: fmt.Sprintf(
			"%d messages are signed at the same time, which is the limit; send the request again in a moment", a.rounds)}
	}
	a.rounds++
	if client != "" {
		a.clients[client]++
	}
	return nil
}

// leave counts the end of a client's round.
func (a *admission) leave(client string) {
	a.rounds--
	if a.clients[client]--; a.clients[client] <= 0 {
		delete(a.clients, client)
	}
}

type clientKey struct{}

// WithClient returns a context in which rounds that Sign starts count for a client; see
// Options.Rounds.
func WithClient(ctx context.Context, client string) context.Context {
	return context.WithValue(ctx, clientKey{}, client)
}

func clientOf(ctx context.Context) string {
	client, _ := ctx.Value(clientKey{}).(string)
	return client
}

// Usage is what one call of Sign had validators do. Calls that wait for the same message at the
// same time share its requests equally. A call that a cache serves has no Usage.
type Usage struct {
	// Requests is the call's share of the requests that were sent to validators while it waited.
	Requests float64
	// Size is the length of each request, in bytes.
	Size int
	// Validators is the number of validators in the set, with distinct keys.
	Validators int
	// Signed says that the wait ended with a signed message.
	Signed bool
}

type usageKey struct{}

// WithUsage returns a context in which Sign calls charge with the usage of each round that it waited
// for, before it returns, however it ends. charge may be called from several goroutines.
func WithUsage(ctx context.Context, charge func(Usage)) context.Context {
	return context.WithValue(ctx, usageKey{}, charge)
}

func chargeOf(ctx context.Context) func(Usage) {
	if charge, ok := ctx.Value(usageKey{}).(func(Usage)); ok {
		return charge
	}
	return func(Usage) {}
}
