package aggregator

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/time/rate"

	"github.com/ava-labs/avalanchego/utils/constants"

	"quorate/internal/bounded"
)

const (
	// busyPause is when a request that was refused because of too many rounds may be repeated.
	busyPause = time.Second
	// clientRate and clientBurst bound the first request to a validator for each round of one client, in bytes a
	// second and at once. They are half of what a node reads from a peer (avalanchego, network/throttling), so that
	// requests for other clients are read, too.
	clientRate  = constants.DefaultInboundThrottlerBandwidthRefillRate / 2
	clientBurst = constants.DefaultInboundThrottlerBandwidthMaxBurstSize / 2
	// maxWaiters is the number of requests of one client that wait for rounds at a time. Each takes about 9 KB.
	maxWaiters = 4096
	// maxSenders is the number of clients whose requests are counted.
	maxSenders = 4096
)

// admission bounds the rounds and the requests that wait for them at a time, and what clients have sent. It is not safe
// for concurrent use.
type admission struct {
	bounds  func() (all, perClient int) // nil is no bound
	rounds  int
	clients map[string]int // rounds by the client that started them
	waiters map[string]int // requests that wait, by client
	sent    *bounded.Cache[string, *rate.Limiter]
}

func newAdmission(bounds func() (all, perClient int)) admission {
	return admission{
		bounds: bounds, clients: make(map[string]int), waiters: make(map[string]int),
		sent: bounded.New(bounded.Options[string, *rate.Limiter]{Entries: maxSenders}),
	}
}

// wait counts a request of a client that waits for a round. The empty client has no bound.
func (a *admission) wait(client string) *Error {
	if client == "" {
		return nil
	}
	if a.waiters[client] >= maxWaiters {
		return &Error{Code: CodeTooManyRounds, RetryAfter: busyPause, Message: fmt.Sprintf(
			"%d requests of this client wait for signatures, which is the limit; send the request again when some are done", maxWaiters)}
	}
	a.waiters[client]++
	return nil
}

// done counts the end of a client's wait.
func (a *admission) done(client string) {
	if a.waiters[client]--; a.waiters[client] <= 0 {
		delete(a.waiters, client)
	}
}

// enter counts a round that a client starts, with the size of its requests in bytes. The empty client has no bound of
// its own.
func (a *admission) enter(client string, size int) *Error {
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
	if client != "" && perClient > 0 {
		if busy := a.send(client, size); busy != nil {
			return busy
		}
	}
	a.rounds++
	if client != "" {
		a.clients[client]++
	}
	return nil
}

// send takes the size of a request from a client's allowance.
func (a *admission) send(client string, size int) *Error {
	allowance, ok := a.sent.Get(client)
	if !ok {
		allowance = rate.NewLimiter(clientRate, clientBurst)
		a.sent.Set(client, allowance)
	}
	now := time.Now()
	taken := allowance.ReserveN(now, min(size, clientBurst))
	pause := taken.DelayFrom(now)
	if pause == 0 {
		return nil
	}
	taken.CancelAt(now)
	return &Error{
		Code: CodeTooManyRounds, RetryAfter: pause,
		Message: fmt.Sprintf("this client's messages and justifications are more than the %d KiB a second that one client may have signed; send the request again in a moment", clientRate>>10),
	}
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
