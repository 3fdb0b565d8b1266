package main

import (
	"context"
	"fmt"
)

// pages makes the requests that a browser makes for a page of another site: posts that need no CORS preflight, and
// WebSockets, with the name of the page's host or with that of the service.
func pages(ctx context.Context, t *target) error {
	const site = "http://evil.example"
	body := func(worker, turn int) []byte {
		return fmt.Appendf(nil, `{"message":"%s"}`, t.unsigned(t.network.Blockchain(), fmt.Sprint("page", worker, turn)))
	}
	call := []byte(`{"jsonrpc":"2.0","id":1,"method":"platform.getTotalStake","params":{}}`)
	socket := []string{"Origin", site, "Connection", "Upgrade", "Upgrade", "websocket", "Sec-WebSocket-Version", "13", "Sec-WebSocket-Key", "AAAAAAAAAAAAAAAAAAAAAA=="}
	kinds := []func(worker, turn int) request{
		func(w, n int) request {
			return request{path: signPath, body: body(w, n), headers: []string{"Origin", site, "Content-Type", "text/plain"}}
		},
		func(int, int) request {
			return request{private: true, path: "/ext/bc/P", body: call, headers: []string{"Origin", site, "Content-Type", "text/plain"}}
		},
		func(int, int) request {
			return request{private: true, path: "/ext/bc/P", body: call, headers: []string{"Origin", site, "Sec-Fetch-Site", "cross-site"}}
		},
		func(int, int) request {
			return request{private: true, method: "POST", path: "/index/verify?network=fuji", headers: []string{"Origin", site}}
		},
		func(int, int) request { return request{private: true, path: "/ext/bc/C/ws", headers: socket} },
	}
	return repeat(ctx, 8, func(ctx context.Context, worker, turn int) { t.attack(ctx, kinds[turn%len(kinds)](worker, turn)) })
}
