package handlers

import (
	"net/http"
	"sync"
	"time"
)

// streamPiece is what a client of HTTP/2 has to take of one answer within the stall time,
// in bytes. It is less than socket's for a connection, since many answers share one.
const streamPiece = 16 << 10

// unread bounds how long h's answers over HTTP/2 wait for their client; 0 is no bound. Its
// clients hold back single answers by the flow control of their streams (RFC 9113, 5.2),
// which a bound on the connection's writes does not see.
func unread(h http.Handler, stall time.Duration) http.Handler {
	if stall <= 0 {
		return h
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor != 2 {
			h.ServeHTTP(w, r)
			return
		}
		s := &stream{ResponseWriter: w, control: http.NewResponseController(w), stall: stall}
		defer s.end()
		h.ServeHTTP(s, r)
	})
}

// stream is an answer over HTTP/2 that does not wait for ever for its reader.
type stream struct {
	http.ResponseWriter
	control *http.ResponseController
	stall   time.Duration
	timer   *time.Timer // the handler's; nil before the first write

	mu    sync.Mutex
	ended bool // guarded by mu; net/http's writer must not be touched any more
}

func (s *stream) Write(p []byte) (int, error) {
	written := 0
	for {
		s.wait()
		n, err := s.ResponseWriter.Write(p[written:min(len(p), written+streamPiece)])
		s.timer.Stop()
		written += n
		if err != nil || written == len(p) {
			return written, err
		}
	}
}

// FlushError is Flush as http.ResponseController has it.
func (s *stream) FlushError() error {
	s.wait()
	defer s.timer.Stop()
	return s.control.Flush()
}

// Flush implements http.Flusher.
func (s *stream) Flush() { _ = s.FlushError() }

// Unwrap lets http.ResponseController reach net/http's writer.
func (s *stream) Unwrap() http.ResponseWriter { return s.ResponseWriter }

// wait begins the time for the next write.
func (s *stream) wait() {
	if s.timer == nil {
		s.timer = time.AfterFunc(s.stall, s.cut)
		return
	}
	s.timer.Reset(s.stall)
}

// cut resets the stream, which fails the write that waits.
func (s *stream) cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ended {
		_ = s.control.SetWriteDeadline(time.Unix(1, 0))
	}
}

// end leaves what is still to be sent its time.
func (s *stream) end() {
	if s.timer != nil {
		s.timer.Stop()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	_ = s.control.SetWriteDeadline(time.Now().Add(s.stall))
}
