package handlers

import (
	"net/http"
	"sync"
	"time"
)

// streamPiece is how much of a response an HTTP/2 client must read within the stall time,
// in bytes. It is smaller than package socket's piece because streams share a connection.
const streamPiece = 16 << 10

// limitStreams limits how long h's responses over HTTP/2 wait for their client; 0 means no
// limit. A client can hold back one stream by flow control (RFC 9113, 5.2), which the
// limit of its connection does not notice.
func limitStreams(h http.Handler, stall time.Duration) http.Handler {
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

// stream is a response over HTTP/2 whose writes have a time limit.
type stream struct {
	http.ResponseWriter
	control *http.ResponseController
	stall   time.Duration
	timer   *time.Timer // used by the handler's goroutine; nil before the first write

	mu    sync.Mutex
	ended bool // guarded by mu; net/http's writer must not be used any more
}

func (s *stream) Write(p []byte) (int, error) {
	written := 0
	for {
		s.startTimer()
		n, err := s.ResponseWriter.Write(p[written:min(len(p), written+streamPiece)])
		s.timer.Stop()
		written += n
		if err != nil || written == len(p) {
			return written, err
		}
	}
}

// FlushError is Flush in the form that http.ResponseController calls.
func (s *stream) FlushError() error {
	s.startTimer()
	defer s.timer.Stop()
	return s.control.Flush()
}

// Flush implements http.Flusher.
func (s *stream) Flush() { _ = s.FlushError() }

// Unwrap gives http.ResponseController access to net/http's writer.
func (s *stream) Unwrap() http.ResponseWriter { return s.ResponseWriter }

func (s *stream) startTimer() {
	if s.timer == nil {
		s.timer = time.AfterFunc(s.stall, s.reset)
		return
	}
	s.timer.Reset(s.stall)
}

// reset resets the stream, so that the pending write fails.
func (s *stream) reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ended {
		_ = s.control.SetWriteDeadline(time.Unix(1, 0))
	}
}

// end gives what is still buffered the stall time to be sent.
func (s *stream) end() {
	if s.timer != nil {
		s.timer.Stop()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	_ = s.control.SetWriteDeadline(time.Now().Add(s.stall))
}
