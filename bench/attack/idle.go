package main

import (
	"context"
	"net"
	"net/http"
	"sync"
)

// idle opens 2,048 connections from each of four addresses and makes one request on each, then none.
func idle(ctx context.Context, t *target) error {
	const perAddress = 2048
	var all sync.WaitGroup
	for address := range 4 {
		from := dialer("127.0.0." + string(rune('2'+address)))
		all.Go(func() {
			var open []net.Conn
			defer func() {
				for _, conn := range open {
					_ = conn.Close()
				}
			}()
			for len(open) < perAddress && ctx.Err() == nil {
				conn, err := from.DialContext(ctx, "tcp", t.service.Public)
				if err != nil {
					t.count(broken)
					continue
				}
				open = append(open, conn)
				_, err = conn.Write([]byte("GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"))
				if err != nil {
					t.count(broken)
					continue
				}
				t.count(http.StatusOK)
			}
			<-ctx.Done()
		})
	}
	all.Wait()
	return nil
}
