package rig

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"
)

// Floor is a bare net/http handler in a process of its own that answers every request with
// the same bytes: the least that a response takes.
type Floor struct {
	*child

	Address string
}

// floorTask is the task of the child process.
type floorTask struct{ Response []byte }

// StartFloor starts a floor, on one processor if its number is given.
func StartFloor(ctx context.Context, processor string, response []byte) (*Floor, error) {
	f := new(Floor)
	var err error
	if f.child, err = startChild(ctx, processor, childTask{Floor: &floorTask{response}}, &f.Address); err != nil {
		return nil, fmt.Errorf("starting the bare handler: %w", err)
	}
	return f, nil
}

// serve serves until the standard input ends.
func (t *floorTask) serve() error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.ReadAll(r.Body); err != nil {
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(t.Response)
	})}
	go func() { _ = server.Serve(listener) }() // until Close
	if err := json.NewEncoder(os.Stdout).Encode(listener.Addr().String()); err != nil {
		return err
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	return server.Close()
}
