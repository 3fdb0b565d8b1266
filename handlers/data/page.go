package data

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"quorate/handlers/apierr"
	"quorate/handlers/data/pagetoken"
	"quorate/handlers/data/query"
)

// paging is what all lists have in common.
type paging struct {
	list      pagetoken.List
	size      int
	ascending bool
	// after is where the page before ended, nil for the first page.
	after []byte
}

// readPaging reads pageSize, pageToken and sortOrder. The operation and whatever
// decides about the list besides the order is scope: a token is of no use for
// another list.
func readPaging(q *query.Values, most, usual uint64, operation string, scope ...string) paging {
	p := paging{
		size:      int(q.Integer("pageSize", 1, most, usual)),
		ascending: q.OneOf("sortOrder", "desc", "asc") == "asc",
	}
	p.list = pagetoken.NewList(operation, append(scope, fmt.Sprint(p.ascending))...)
	token, _ := q.Text("pageToken")
	if token == "" {
		return p
	}
	position, err := p.list.Decode(token)
	switch {
	case errors.Is(err, pagetoken.ErrOtherList):
		q.Fail("pageToken", "it belongs to another request; repeat the request it came from and change nothing but the token")
	case err != nil:
		q.Fail("pageToken", "%q is no token of this service; send one as it was received, or none for the first page", apierr.Excerpt(token))
	default:
		p.after = position
	}
	return p
}

// next is the token of the following page, empty if there is none.
func (p *paging) next(position []byte) (string, error) {
	if position == nil {
		return "", nil
	}
	return p.list.Encode(position)
}

// badToken answers for a token that is sound and leads nowhere.
func badToken(cause error) error {
	return &apierr.Error{
		Status:  http.StatusBadRequest,
		Message: "pageToken: it leads nowhere in this list; send one as it was received, or none for the first page",
		Err:     cause,
	}
}

// position reads an optional position; parse's errors are the token's fault.
func position[T any](after []byte, parse func([]byte) (*T, error)) (*T, error) {
	if after == nil {
		return nil, nil
	}
	p, err := parse(after)
	if err != nil {
		return nil, badToken(err)
	}
	return p, nil
}

// moment is a time in Unix seconds from a request. No chain gets to the end of
// what it can express.
func moment(seconds uint64) time.Time {
	const farFuture = 1 << 40
	return time.Unix(int64(min(seconds, farFuture)), 0)
}
