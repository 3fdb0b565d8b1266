package store

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	// dialPause is the time between two attempts to open a connection to a server that opens none.
	dialPause = 100 * time.Millisecond
	// deadTime is the time after which a connection whose server does not acknowledge what it is sent is closed. By
	// default, Linux takes a quarter of an hour.
	deadTime = 20 * time.Second
)

// newDialer returns a dialer whose connections end deadTime after their server has gone.
func newDialer() *net.Dialer {
	return &net.Dialer{
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: deadTime / 2, Interval: deadTime / 4, Count: 2},
		Control:         limitSilence,
	}
}

// dials makes a pool ask a server that opens no connections for one at a time, with pauses. Calls in between fail with the
// error of the last attempt. Otherwise each read of each task of the process would ask for one, and keep a slow server busy
// with connections that no call waits for any more.
type dials struct {
	mu     sync.Mutex
	failed error     // of the last attempt, nil if it succeeded; guarded by mu
	next   time.Time // the earliest time of another attempt, if failed; guarded by mu
	one    bool      // whether an attempt is in progress, if failed; guarded by mu
}

// allow is called before a connection is opened.
func (d *dials) allow(context.Context, *pgx.ConnConfig) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.failed == nil {
		return nil
	}
	if d.one || time.Now().Before(d.next) {
		return d.failed
	}
	d.one = true
	return nil
}

// TraceConnectStart implements pgx.ConnectTracer.
func (d *dials) TraceConnectStart(ctx context.Context, _ pgx.TraceConnectStartData) context.Context {
	return ctx
}

// TraceConnectEnd implements pgx.ConnectTracer.
func (d *dials) TraceConnectEnd(_ context.Context, end pgx.TraceConnectEndData) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.failed, d.next, d.one = end.Err, time.Now().Add(dialPause), false
}

// TraceQueryStart implements pgx.QueryTracer.
func (d *dials) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	return ctx
}

// TraceQueryEnd implements pgx.QueryTracer.
func (d *dials) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}
