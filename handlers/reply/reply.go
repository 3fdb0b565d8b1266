// Package reply implements what all answers from an index share: the progress headers, the errors of an index that is
// not ready, and the encoding.
package reply

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"quorate/aggregator"
	"quorate/handlers/apierr"
	"quorate/internal/index"
	"quorate/internal/node"
	"quorate/internal/store"
)

// Progress is the progress of a blockchain's index.
type Progress struct {
	// From is the first indexed block. It is above 0 if the upstream node lacks the blocks before it.
	From uint64
	// Height and Time are those of the last indexed block.
	Height uint64
	Time   time.Time
	// Lag is the number of accepted blocks that are known but not indexed.
	Lag uint64
	// CaughtUp reports that the index has reached the last block, or nearly. It stays set after a failure; then Lag is
	// how far behind the index is known to be.
	CaughtUp bool
	// Rebuilding reports that the index is being rebuilt from stored blocks. Rebuilt is the percentage done.
	Rebuilding bool
	Rebuilt    int
	// Stopped reports that indexing failed and does not resume by itself.
	Stopped bool
	// Err is the error that blocks indexing at the moment.
	Err error
	// Unreadable is the error of reading the last indexed block. Without any block it is that of an empty index.
	Unreadable error
	// Needs states what the operator must do before indexing resumes, empty if nothing. Clients get it.
	Needs string
	// Proof is nil if no indexed blocks are proven by stake.
	Proof *index.Proof
}

// ProgressOf returns the progress of an index with status, without Height and Time.
func ProgressOf(status index.Status) Progress {
	p := Progress{From: status.From, Lag: status.Lag(), CaughtUp: status.CaughtUp, Stopped: status.State == index.Stopped, Err: status.Err, Needs: status.Needs(), Proof: status.Proof}
	if status.Next < status.Kept {
		p.Rebuilding, p.Rebuilt = true, status.Rebuilt()
	}
	return p
}

// Codes of a 503 for an index: it is catching up; the operator must act; it has stopped.
const (
	codeCatchingUp = "INDEX_CATCHING_UP"
	codeLacks      = "INDEX_LACKS_SOURCE"
	codeStopped    = "INDEX_STOPPED"
)

// CatchingUp returns the error for an answer that needs blocks that are not indexed yet.
func CatchingUp(cause error, format string, args ...any) error {
	return unavailable(codeCatchingUp, cause, format, args...)
}

// Lacking returns the error for an answer that is unavailable until the operator acts.
func Lacking(cause error, format string, args ...any) error {
	return unavailable(codeLacks, cause, format, args...)
}

// NodeAway returns the error for an answer that needs an upstream node which does not answer.
func NodeAway(cause error, format string, args ...any) error {
	return unavailable(string(aggregator.CodeNodeUnavailable), cause, format, args...)
}

func unavailable(code string, cause error, format string, args ...any) error {
	e := apierr.Unavailable(cause, format, args...)
	e.Code = code
	return e
}

// Halted returns an error if the index of chain does not resume by itself, else nil.
func (p Progress) Halted(chain string) error {
	switch {
	case p.Stopped:
		return unavailable(codeStopped, p.Err, "the index of %s has stopped at height %d and does not go on by itself; its operator finds the reason with quorate index status", chain, p.Height)
	case p.Needs != "":
		return Lacking(p.Err, "%s is not indexed: %s", chain, p.Needs)
	}
	return nil
}

// Behind returns the error for an answer that needs the index of chain to catch up.
func (p Progress) Behind(chain string) error {
	if err := p.Halted(chain); err != nil {
		return err
	}
	if errors.Is(p.Unreadable, store.ErrUnavailable) || errors.Is(p.Unreadable, context.DeadlineExceeded) {
		return apierr.Unreadable(p.Unreadable)
	}
	if p.Rebuilding {
		return CatchingUp(p.Err, "the index of %s is being rebuilt, %d%% is done; try again later", chain, p.Rebuilt)
	}
	return CatchingUp(p.Err, "the index of %s is still catching up: it has reached %s; try again later", chain, p.reached())
}

// reached says how far the index is.
func (p Progress) reached() string {
	if p.Lag == 0 { // no further block is known
		return fmt.Sprintf("height %d", p.Height)
	}
	return fmt.Sprintf("height %d, and %d further blocks are known", p.Height, p.Lag)
}

// NotYet returns the error for a block that is not indexed but that the chain has or may have.
func (p Progress) NotYet(cause error, block string) error {
	if err := p.Halted("this chain"); err != nil {
		return err
	}
	return CatchingUp(cause, "%s is not indexed yet: the index of this chain has reached %s; try again in a moment", block, p.reached())
}

// Show sets the headers that state the progress of the answer's index.
func (p Progress) Show(h http.Header) {
	if p.From > 0 {
		h.Set("Indexed-From", strconv.FormatUint(p.From, 10))
	}
	h.Set("Indexed-Height", strconv.FormatUint(p.Height, 10))
	h.Set("Indexed-Timestamp", strconv.FormatInt(p.Time.Unix(), 10))
	h.Set("Indexed-Lag", strconv.FormatUint(p.Lag, 10))
	state := index.Following
	switch {
	case p.Stopped:
		state = index.Stopped
	case p.Err != nil:
		state = index.Stalled
	case p.Lag > index.NearTip: // after a failure
		state = index.CatchingUp
	}
	h.Set("Indexed-State", string(state))
	if p.Proof != nil {
		if p.Proof.From > p.From {
			h.Set("Proven-From", strconv.FormatUint(p.Proof.From, 10))
		}
		h.Set("Proven-Height", strconv.FormatUint(p.Proof.To, 10))
	}
}

// Unproven removes what Show said of proven blocks, from an answer with parts that no proof covers.
func Unproven(h http.Header) {
	h.Del("Proven-From")
	h.Del("Proven-Height")
}

// Explain converts err to the error for the client. request is the context of the client's request; particular
// converts errors of the index.
func Explain(request context.Context, err error, particular func(error) error) error {
	if err == nil {
		return nil
	}
	var known *apierr.Error
	switch {
	case errors.As(err, &known):
		return err
	case apierr.HasGone(request):
		return apierr.ErrClientGone
	case request.Err() != nil, errors.Is(err, store.ErrClosed):
		return apierr.Stopping(err)
	case errors.Is(err, store.ErrUnavailable):
		return apierr.Unreadable(err)
	case errors.Is(err, node.ErrNoRoom):
		e := apierr.Unavailable(err, "the answer needs more memory than is free for large answers at the moment; try again in a few seconds")
		e.Code, e.RetryAfter = string(aggregator.CodeBusy), 5*time.Second
		return e
	case errors.Is(err, node.ErrBusy):
		e := apierr.Unavailable(err, "as many calls to the upstream node as clients may cause are in progress; try again in a moment")
		e.Code, e.RetryAfter = string(aggregator.CodeNodeBusy), time.Second
		return e
	case errors.Is(err, context.DeadlineExceeded):
		return apierr.Unavailable(err, "the answer was not complete in the time allowed for a request; ask for fewer addresses or a smaller page")
	case errors.Is(err, index.ErrViewBehind):
		return CatchingUp(err, "pageToken: the standby that was read lacks blocks of the earlier pages; send the request again in a moment")
	default:
		return particular(err)
	}
}

// BadToken returns the error for a page token that is well-formed but refers to nothing.
func BadToken(cause error) error {
	return &apierr.Error{
		Status:  http.StatusBadRequest,
		Message: "pageToken: it leads nowhere in this list; send one as it was received, or none for the first page",
		Err:     cause,
	}
}

// JSON sends an answer. It sets the content length, since net/http otherwise sends chunks.
func JSON(c echo.Context, body any) error {
	content, err := json.Marshal(body)
	if err != nil {
		return apierr.Internal(err)
	}
	c.Response().Header().Set(echo.HeaderContentLength, strconv.Itoa(len(content)))
	return c.Blob(http.StatusOK, echo.MIMEApplicationJSON, content)
}
