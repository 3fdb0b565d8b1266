// Package reply has what all answers from records have in common: how far the
// record is that they are from, what is said when there is none, and their form.
package reply

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/labstack/echo/v4"

	"quorate/handlers/apierr"
	"quorate/internal/index"
	"quorate/internal/store"
)

// Progress is how far the index of a blockchain is.
type Progress struct {
	// From is the first block that is indexed: more than 0 if the node lacks the blocks
	// before.
	From uint64
	// Height and Time are those of the last block that is indexed.
	Height uint64
	Time   time.Time
	// Lag is how many accepted blocks are known and not indexed.
	Lag uint64
	// CaughtUp says that the index is, or was until something failed, at the tip or a few
	// blocks away. Lag says how far behind it is since then, as far as is known.
	CaughtUp bool
	// Rebuilding says that the index is being rebuilt from stored blocks. Rebuilt percent
	// is done.
	Rebuilding bool
	Rebuilt    int
	// Stopped says that indexing ended with an error and does not go on by itself.
	Stopped bool
	// Err is why indexing does not go on at the moment.
	Err error
	// Needs says what the operator must do before indexing goes on, empty if nothing.
	// Clients see it.
	Needs string
}

// ProgressOf returns the progress of an index with status, without Height and Time.
func ProgressOf(status index.Status) Progress {
	p := Progress{From: status.From, Lag: status.Lag(), CaughtUp: status.CaughtUp, Stopped: status.State == index.Stopped, Err: status.Err, Needs: status.Needs()}
	if status.Next < status.Kept {
		p.Rebuilding, p.Rebuilt = true, status.Rebuilt()
	}
	return p
}

// The reasons of a 503 for an index: it is catching up; it needs its operator; it has stopped.
const (
	codeCatchingUp = "INDEX_CATCHING_UP"
	codeLacks      = "INDEX_LACKS_SOURCE"
	codeStopped    = "INDEX_STOPPED"
)

// CatchingUp refuses an answer that needs more than is indexed yet.
func CatchingUp(cause error, format string, args ...any) error {
	return unavailable(codeCatchingUp, cause, format, args...)
}

// Lacking refuses an answer for as long as the operator has not done something.
func Lacking(cause error, format string, args ...any) error {
	return unavailable(codeLacks, cause, format, args...)
}

func unavailable(code string, cause error, format string, args ...any) error {
	e := apierr.Unavailable(cause, format, args...)
	e.Code = code
	return e
}

// Halted refuses an answer if the index of chain does not go on by itself; nil if it does.
func (p Progress) Halted(chain string) error {
	switch {
	case p.Stopped:
		return unavailable(codeStopped, p.Err, "the index of %s has stopped at height %d and does not go on by itself; its operator finds the reason with quorate index status", chain, p.Height)
	case p.Needs != "":
		return Lacking(p.Err, "%s is not indexed: %s", chain, p.Needs)
	}
	return nil
}

// Behind refuses an answer because the index of chain has not caught up.
func (p Progress) Behind(chain string) error {
	if err := p.Halted(chain); err != nil {
		return err
	}
	if p.Rebuilding {
		return CatchingUp(p.Err, "the index of %s is being rebuilt, %d%% is done; try again later", chain, p.Rebuilt)
	}
	return CatchingUp(p.Err, "the index of %s is still catching up: it has got to height %d, and %d further blocks are known; try again later", chain, p.Height, p.Lag)
}

// NotYet refuses an answer about a block that the chain has, or may have, and the index has not.
func (p Progress) NotYet(cause error, block string) error {
	if err := p.Halted("this chain"); err != nil {
		return err
	}
	return CatchingUp(cause, "%s is not indexed yet: the index of this chain has got to height %d, and %d further blocks are known; try again in a moment", block, p.Height, p.Lag)
}

// Show says in an answer's headers how far the index is that it is from.
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
	case p.Lag > index.NearTip: // after an outage
		state = index.CatchingUp
	}
	h.Set("Indexed-State", string(state))
}

// Explain turns what went wrong into what the client is told. Request is the
// context of the client's request; particular explains the errors that are the
// records' own.
func Explain(request context.Context, err error, particular func(error) error) error {
	if err == nil {
		return nil
	}
	var known *apierr.Error
	switch {
	case errors.As(err, &known):
		return err
	case request.Err() != nil && !errors.Is(context.Cause(request), apierr.ErrStopping):
		return apierr.ErrClientGone
	case request.Err() != nil, errors.Is(err, store.ErrClosed):
		return apierr.Unavailable(err, "the service is stopping; send the request again")
	case errors.Is(err, store.ErrUnavailable):
		return apierr.Unavailable(err, "the record cannot be read at the moment; try again in a few seconds")
	case errors.Is(err, context.DeadlineExceeded):
		return apierr.Unavailable(err, "the answer was not complete in the time allowed for a request; ask for fewer addresses or a smaller page")
	default:
		return particular(err)
	}
}

// BadToken answers for a page token that is sound and leads nowhere.
func BadToken(cause error) error {
	return &apierr.Error{
		Status:  http.StatusBadRequest,
		Message: "pageToken: it leads nowhere in this list; send one as it was received, or none for the first page",
		Err:     cause,
	}
}

// Appender is an answer that writes itself, as encoding/json would.
type Appender interface {
	// AppendJSON appends the answer to b.
	AppendJSON(b []byte) []byte
}

// Writer sends answers that write themselves, in memory that it uses again. The zero
// value is ready. Safe for concurrent use.
type Writer struct{ buffers sync.Pool } // of *[]byte

// maxKept is the size beyond which memory is not kept for another answer, in bytes:
// about four times a page of a hundred items.
const maxKept = 256 << 10

// JSON sends an answer that is complete.
func (w *Writer) JSON(c echo.Context, body Appender) error {
	kept, _ := w.buffers.Get().(*[]byte)
	if kept == nil {
		kept = new([]byte)
	}
	content := body.AppendJSON((*kept)[:0])
	err := send(c, content)
	if err == nil && cap(content) <= maxKept { // after a failure it may still be read
		*kept = content
		w.buffers.Put(kept)
	}
	return err
}

// send says how long the answer is: else net/http has to send it in chunks.
func send(c echo.Context, content []byte) error {
	c.Response().Header().Set(echo.HeaderContentLength, strconv.Itoa(len(content)))
	return c.Blob(http.StatusOK, echo.MIMEApplicationJSON, content)
}

// JSON sends an answer that is complete.
func JSON(c echo.Context, body any) error {
	content, err := json.Marshal(body)
	if err != nil {
		return apierr.Internal(err)
	}
	return send(c, content)
}
