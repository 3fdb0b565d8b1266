package main

import (
	"bufio"
	"context"
	"net"
	"net/http"
	"sync"
	"time"

	"quorate/bench/rig"
)

// idle opens 2,048 connections from each of four addresses and makes one request on each, then none. It counts the
// statuses of the responses.
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
				status := broken
				if err == nil {
					open = append(open, conn)
					status, err = health(conn)
				}
				t.count(status)
				if err != nil {
					rig.Pause(ctx, 10*time.Millisecond)
				}
			}
			<-ctx.Done()
		})
	}
	all.Wait()
	return nil
}

// health makes a request on a connection and returns the status of the response.
func health(conn net.Conn) (status int, err error) {
	if err := conn.SetDeadline(time.Now().Add(timeout)); err != nil {
		return broken, err
	}
	if _, err := conn.Write([]byte("GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")); err != nil {
		return broken, err
	}
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return broken, err
	}
	return response.StatusCode, response.Body.Close()
}
