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

// Progress is how far the record of a blockchain is.
type Progress struct {
	// From is the first block that is indexed: more than 0 if the node lacks the blocks
	// before.
	From uint64
	// Height and Time are those of the last block that is recorded.
	Height uint64
	Time   time.Time
	// Lag is how many accepted blocks are known and not recorded.
	Lag uint64
	// CaughtUp says that the record is, or was until something went wrong, at the
	// chain's end or a few blocks away. How far behind it is then, as far as is known,
	// Lag tells.
	CaughtUp bool
	// Rebuilding says that the record is being made again from what is kept of its
	// blocks, of which Rebuilt percent is done.
	Rebuilding bool
	Rebuilt    int
	// Err is why recording does not go on at the moment.
	Err error
	// Needs says what has to be done before it goes on, where it does not go on by
	// itself; clients are told.
	Needs string
}

// codeCatchingUp tells a record that is catching up from other reasons for a 503.
const codeCatchingUp = "INDEX_CATCHING_UP"

// CatchingUp answers for a record that does not reach yet to where the answer needs
// it.
func CatchingUp(cause error, format string, args ...any) error {
	e := apierr.Unavailable(cause, format, args...)
	e.Code = codeCatchingUp
	return e
}

// Behind answers for the record of a chain that is not caught up.
func (p Progress) Behind(chain string) error {
	return CatchingUp(p.Err, "the index of %s is still catching up: it has got to height %d, and %d further blocks are known; try again later", chain, p.Height, p.Lag)
}

// NotYet answers for a block that the chain has, or may have, and the record has not.
func (p Progress) NotYet(cause error, block string) error {
	return CatchingUp(cause, "%s is not recorded yet: the index of this chain has got to height %d, and %d further blocks are known; try again in a moment", block, p.Height, p.Lag)
}

// Show says in an answer's headers how far the record is that it is from.
func (p Progress) Show(h http.Header) {
	if p.From > 0 {
		h.Set("Indexed-From", strconv.FormatUint(p.From, 10))
	}
	h.Set("Indexed-Height", strconv.FormatUint(p.Height, 10))
	h.Set("Indexed-Timestamp", strconv.FormatInt(p.Time.Unix(), 10))
	h.Set("Indexed-Lag", strconv.FormatUint(p.Lag, 10))
	state := index.Following
	switch {
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
