package console

import (
	"context"
	"encoding/hex"
	"errors"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/ava-labs/avalanchego/ids"

	"quorate/aggregator"
	"quorate/handlers/apierr"
	"quorate/handlers/cb58"
	"quorate/internal/store"
)

// Archive has the messages of one network that were signed, numbered from 1 in the order in which they were.
type Archive interface {
	Ends(ctx context.Context) (store.LogEnds, error)
	// Read returns at most limit messages after a number, and store.ErrTruncated if the next one was removed.
	Read(ctx context.Context, after uint64, limit int) ([]aggregator.StreamEvent, error)
}

const (
	defaultPage, maxPage = 25, 100
	// maxScanned is the number of messages that one request for those with an ID reads, scanPage at a time.
	maxScanned, scanPage = 2000, 100
	// archiveTimeout limits how long a page waits for the store.
	archiveTimeout = 5 * time.Second
)

// messageView is a signed message, or a gap: Missed messages that are not stored.
type messageView struct {
	Number             uint64       `json:"number"`
	Missed             uint64       `json:"missed,omitempty"`
	SignedAt           int64        `json:"signedAt,omitempty"` // in milliseconds since 1970
	MessageID          string       `json:"messageId,omitempty"`
	SourceBlockchainID string       `json:"sourceBlockchainId,omitempty"`
	SigningSubnetID    string       `json:"signingSubnetId,omitempty"`
	PChainHeight       uint64       `json:"pChainHeight,omitempty"`
	Weight             uint64       `json:"weight,string,omitempty"`
	TotalWeight        uint64       `json:"totalWeight,string,omitempty"`
	Signers            int          `json:"signers,omitempty"`
	Origin             string       `json:"origin,omitempty"`
	Payload            *payloadView `json:"payload,omitempty"`
	// UnsignedMessage and SignedMessage are in hex, and only in the answer about one message.
	UnsignedMessage string `json:"unsignedMessage,omitempty"`
	SignedMessage   string `json:"signedMessage,omitempty"`
}

// messagesView is the answer of /console/api/messages, newest first.
type messagesView struct {
	Oldest uint64 `json:"oldest"`
	Newest uint64 `json:"newest"`
	// Before continues the list; nil at its end.
	Before   *uint64       `json:"before"`
	Messages []messageView `json:"messages"`
}

func newMessageView(e *aggregator.StreamEvent, whole bool) messageView {
	if e.Message == nil {
		return messageView{Number: e.Number, Missed: e.Missed}
	}
	decoded := newPayloadView(&e.Message.UnsignedMessage)
	v := messageView{
		Number: e.Number, SignedAt: e.Time.UnixMilli(), MessageID: e.Message.ID().String(), SourceBlockchainID: e.Message.SourceChainID.String(),
		SigningSubnetID: e.SigningSubnetID.String(), PChainHeight: e.PChainHeight, Weight: e.Weight, TotalWeight: e.TotalWeight,
		Signers: e.Signers, Origin: e.Origin.String(), Payload: &decoded,
	}
	if whole {
		v.UnsignedMessage, v.SignedMessage = hexOf(e.Message.UnsignedMessage.Bytes()), hexOf(e.Message.Bytes())
	}
	return v
}

func hexOf(b []byte) string { return "0x" + hex.EncodeToString(b) }

// archive returns the archive of the network that a request names.
func (c *Console) archive(ctx echo.Context) (Archive, error) {
	name := c.network(ctx)
	if c.options.Archive != nil {
		if a := c.options.Archive(name); a != nil {
			return a, nil
		}
	}
	return nil, apierr.NotFound("network: the signed messages of %q are not stored here", apierr.Excerpt(name))
}

// listMessages is GET /console/api/messages.
func (c *Console) listMessages(ctx echo.Context) error {
	archive, err := c.archive(ctx)
	if err != nil {
		return err
	}
	q, err := newMessageQuery(ctx)
	if err != nil {
		return err
	}
	reading, cancel := context.WithTimeout(ctx.Request().Context(), archiveTimeout)
	defer cancel()
	v, err := q.read(reading, archive)
	if err != nil {
		return unreadable(err)
	}
	return send(ctx, v)
}

func unreadable(err error) error {
	return apierr.Unavailable(err, "the signed messages cannot be read now; try again in a moment")
}

func uintParam(ctx echo.Context, name string, absent uint64) (uint64, error) {
	text := ctx.QueryParam(name)
	if text == "" {
		return absent, nil
	}
	n, err := strconv.ParseUint(text, 10, 63)
	if err != nil {
		return 0, apierr.BadRequest("%s: %q is no number", name, apierr.Excerpt(text))
	}
	return n, nil
}

// idParam parses an ID in CB58. It returns nil if it is absent.
func idParam(ctx echo.Context, name string) (*ids.ID, error) {
	text := ctx.QueryParam(name)
	if text == "" {
		return nil, nil
	}
	id, err := cb58.ID(text)
	if err != nil {
		return nil, apierr.BadRequest("%s: %q is no ID; give it as base58 with its checksum", name, apierr.Excerpt(text))
	}
	return &id, nil
}

// messageQuery selects messages, or failures, with a number below before, or all if it is 0. id is that of a message, a
// source blockchain or a signing subnet; nil for all.
type messageQuery struct {
	before uint64
	limit  int
	id     *ids.ID
}

// newMessageQuery parses the parameters of a list.
func newMessageQuery(ctx echo.Context) (q messageQuery, err error) {
	if q.before, err = uintParam(ctx, "before", 0); err != nil {
		return q, err
	}
	limit, err := uintParam(ctx, "limit", defaultPage)
	if err != nil {
		return q, err
	}
	q.limit = int(min(max(limit, 1), maxPage))
	q.id, err = idParam(ctx, "id")
	return q, err
}

func (q messageQuery) matches(e *aggregator.StreamEvent) bool {
	if q.id == nil {
		return true
	}
	return e.Message != nil && (e.Message.SourceChainID == *q.id || e.SigningSubnetID == *q.id || e.Message.ID() == *q.id)
}

// entries is a log: Archive or Failures.
type entries[E any] interface {
	Ends(ctx context.Context) (store.LogEnds, error)
	Read(ctx context.Context, after uint64, limit int) ([]E, error)
}

// newest returns the newest entries that match, newest first. before continues the list; it is nil at its end.
func newest[E any](ctx context.Context, log entries[E], q messageQuery, matches func(*E) bool) (found []E, ends store.LogEnds, before *uint64, err error) {
	if ends, err = log.Ends(ctx); err != nil {
		return nil, ends, nil, err
	}
	next := ends.Newest + 1
	if q.before > 0 {
		next = min(q.before, next)
	}
	size := scanPage
	if q.id == nil {
		size = q.limit
	}
	for scanned := 0; next > ends.Oldest && scanned < maxScanned; scanned += size {
		first := max(next-min(next, uint64(size)), ends.Oldest)
		all, err := log.Read(ctx, first-1, int(next-first))
		if errors.Is(err, store.ErrTruncated) { // removed meanwhile
			next = ends.Oldest
			break
		}
		if err != nil {
			return nil, ends, nil, err
		}
		for i := len(all) - 1; i >= 0 && len(found) < q.limit; i-- {
			next = first + uint64(i) // the numbers of a log have no gaps
			if matches(&all[i]) {
				found = append(found, all[i])
			}
		}
		if len(found) == q.limit {
			break
		}
		next = first
	}
	if next > ends.Oldest {
		before = &next
	}
	return found, ends, before, nil
}

// read returns the newest messages that match.
func (q messageQuery) read(ctx context.Context, archive Archive) (*messagesView, error) {
	found, ends, before, err := newest(ctx, archive, q, q.matches)
	if err != nil {
		return nil, err
	}
	v := &messagesView{Oldest: ends.Oldest, Newest: ends.Newest, Before: before, Messages: make([]messageView, len(found))}
	for i := range found {
		v.Messages[i] = newMessageView(&found[i], false)
	}
	return v, nil
}

// oneMessage is GET /console/api/messages/{number}.
func (c *Console) oneMessage(ctx echo.Context) error {
	archive, err := c.archive(ctx)
	if err != nil {
		return err
	}
	number, err := strconv.ParseUint(ctx.Param("number"), 10, 63)
	if err != nil || number == 0 {
		return apierr.BadRequest("number: %q is no number from 1", apierr.Excerpt(ctx.Param("number")))
	}
	reading, cancel := context.WithTimeout(ctx.Request().Context(), archiveTimeout)
	defer cancel()
	events, err := archive.Read(reading, number-1, 1)
	switch {
	case errors.Is(err, store.ErrTruncated), err == nil && len(events) == 0:
		return apierr.NotFound("number: message %d is not stored; the oldest are removed first", number)
	case err != nil:
		return unreadable(err)
	}
	return send(ctx, newMessageView(&events[0], true))
}
