package console

import (
	"context"
	"encoding/hex"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp"

	"quorate/aggregator"
	"quorate/handlers/apierr"
	"quorate/handlers/cb58"
	"quorate/handlers/signing"
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
	q := messageQuery{limit: defaultPage}
	if q.before, err = uintParam(ctx, "before", 0); err != nil {
		return err
	}
	limit, err := uintParam(ctx, "limit", defaultPage)
	if err != nil {
		return err
	}
	q.limit = int(min(max(limit, 1), maxPage))
	if q.id, err = idParam(ctx, "id"); err != nil {
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

// messageQuery selects messages with a number below before, or all if it is 0. id is that of a message, a source
// blockchain or a signing subnet; nil for all.
type messageQuery struct {
	before uint64
	limit  int
	id     *ids.ID
}

func (q messageQuery) matches(e *aggregator.StreamEvent) bool {
	if q.id == nil {
		return true
	}
	return e.Message != nil && (e.Message.SourceChainID == *q.id || e.SigningSubnetID == *q.id || e.Message.ID() == *q.id)
}

// read returns the newest messages that match.
func (q messageQuery) read(ctx context.Context, archive Archive) (*messagesView, error) {
	ends, err := archive.Ends(ctx)
	if err != nil {
		return nil, err
	}
	v := &messagesView{Oldest: ends.Oldest, Newest: ends.Newest, Messages: []messageView{}}
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
		events, err := archive.Read(ctx, first-1, int(next-first))
		if errors.Is(err, store.ErrTruncated) { // removed meanwhile
			next = ends.Oldest
			break
		}
		if err != nil {
			return nil, err
		}
		for i := len(events) - 1; i >= 0; i-- {
			if next = events[i].Number; !q.matches(&events[i]) {
				continue
			}
			if v.Messages = append(v.Messages, newMessageView(&events[i], false)); len(v.Messages) == q.limit {
				break
			}
		}
		if len(v.Messages) == q.limit {
			break
		}
		next = first
	}
	if next > ends.Oldest {
		v.Before = &next
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

const (
	// maxFailures is the number of failed requests that are remembered.
	maxFailures = 200
	// maxRetried is the maximum length of a message that is remembered with its failure, in bytes.
	maxRetried = 2048
)

// failureView is a request that was not signed.
type failureView struct {
	At                 int64               `json:"at"` // in milliseconds since 1970
	Elapsed            float64             `json:"elapsed"`
	MessageID          string              `json:"messageId"`
	SourceBlockchainID string              `json:"sourceBlockchainId"`
	Payload            payloadView         `json:"payload"`
	Code               string              `json:"code"`
	Message            string              `json:"message"`
	Outcomes           *aggregator.Account `json:"outcomes,omitempty"`
	// UnsignedMessage is in hex; empty if it is long.
	UnsignedMessage string `json:"unsignedMessage,omitempty"`
}

// failures holds the latest failures of clients' requests, by network. It is safe for concurrent use.
type failures struct {
	mu sync.Mutex
	// all is oldest first; guarded by mu.
	all []failureOf
}

type failureOf struct {
	network string
	failureView
}

func (f *failures) add(network string, v failureView) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.all) >= maxFailures {
		f.all = append(f.all[:0], f.all[len(f.all)-maxFailures+1:]...)
	}
	f.all = append(f.all, failureOf{network, v})
}

// of returns the failures of a network, newest first.
func (f *failures) of(network string) []failureView {
	f.mu.Lock()
	defer f.mu.Unlock()
	list := []failureView{}
	for i := len(f.all) - 1; i >= 0; i-- {
		if f.all[i].network == network {
			list = append(list, f.all[i].failureView)
		}
	}
	return list
}

// Signer returns a signer of a network's messages that remembers the failures of next.
func (c *Console) Signer(network string, next signing.Signer) signing.Signer {
	return signer{next, network, &c.failures}
}

type signer struct {
	signing.Signer

	network  string
	failures *failures
}

// Sign implements signing.Signer.
func (s signer) Sign(ctx context.Context, req aggregator.Request) (*aggregator.Result, error) {
	started := time.Now()
	result, err := s.Signer.Sign(ctx, req)
	var failed *aggregator.Error
	if errors.As(err, &failed) && !errors.Is(ctx.Err(), context.Canceled) {
		s.failures.add(s.network, newFailureView(started, req.Message, failed))
	}
	return result, err
}

func newFailureView(started time.Time, m *warp.UnsignedMessage, failed *aggregator.Error) failureView {
	v := failureView{
		At: started.UnixMilli(), Elapsed: milliseconds(time.Since(started)), MessageID: m.ID().String(), SourceBlockchainID: m.SourceChainID.String(),
		Payload: newPayloadView(m), Code: string(failed.Code), Message: failed.Message,
	}
	if len(m.Bytes()) <= maxRetried {
		v.UnsignedMessage = hexOf(m.Bytes())
	}
	if failed.Account != nil {
		account := *failed.Account
		account.SilentNodes, account.Refusals = []ids.NodeID{}, []aggregator.Refusal{}
		v.Outcomes = &account
	}
	return v
}
