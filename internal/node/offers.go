package node

import (
	"errors"
	"log/slog"
	"net/http"
	"time"
)

// absence is a method that an endpoint does not offer.
type absence struct {
	refusal *RPCError
	until   time.Time // when the endpoint is asked again
	life    time.Duration
}

const (
	// firstAbsence is how long an endpoint is not asked again for a method that it does not offer. The time doubles with
	// each refusal, up to longestAbsence.
	firstAbsence   = 5 * time.Second
	longestAbsence = 10 * time.Minute
	// maxAbsences bounds the cached refusals of an endpoint, one for each method.
	maxAbsences = 1024
)

// lacks returns the refusal of a method that the endpoint recently did not offer, or nil.
func (e *endpoint) lacks(call string) *RPCError {
	e.mu.Lock()
	defer e.mu.Unlock()
	if a, ok := e.absent[call]; ok && time.Now().Before(a.until) {
		return a.refusal
	}
	return nil
}

// noteOffer remembers from the result of a call whether the endpoint offers it. It logs one line when the endpoint is
// found not to offer a method, and one when it does offer the call again. The line has no path, so the same method at
// another path gets none: clients choose some of the paths.
func (e *endpoint) noteOffer(log *slog.Logger, call string, err error) {
	var refusal *RPCError
	missing := errors.As(err, &refusal) && refusal.missing()
	if err != nil && !missing {
		return
	}
	e.mu.Lock()
	a, known := e.absent[call]
	logged := known
	if missing {
		for other, o := range e.absent {
			logged = logged || o.refusal.Method == refusal.Method
			if !known && len(e.absent) >= maxAbsences {
				delete(e.absent, other)
			}
		}
		a.refusal, a.life = refusal, min(max(2*a.life, firstAbsence), longestAbsence)
		a.until = time.Now().Add(a.life)
		if e.absent == nil {
			e.absent = make(map[string]absence)
		}
		e.absent[call] = a
	} else {
		delete(e.absent, call)
	}
	e.mu.Unlock()
	switch {
	case missing && !logged:
		log.Warn("upstream node does not offer a method", slog.String("node", e.name), slog.String("method", refusal.Method), slog.Any("error", err))
	case !missing && known:
		log.Info("upstream node offers a method again", slog.String("node", e.name), slog.String("method", call))
	}
}

// missing reports whether the endpoint lacks the method, not only for a moment. A node that starts also answers that it
// has no API at a path.
func (e *RPCError) missing() bool {
	return e.cause == nil && e.Code != http.StatusNotFound && e.NotOffered()
}
