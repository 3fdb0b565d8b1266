package data

import (
	"fmt"
	"time"

	"quorate/handlers/query"
	"quorate/handlers/query/page"
	"quorate/handlers/reply"
)

// paging holds the parameters that all lists share.
type paging struct {
	query.Page
	ascending bool
}

// sortOrder declares the direction of a list.
var sortOrder = query.Parameter{Name: "sortOrder", OneOf: []string{"desc", "asc"}, Default: "desc"}

// readPaging parses pageSize, pageToken and sortOrder. The list is identified by the operation, scope and the order; a
// token of another list is refused.
func (a *API) readPaging(q *query.Values, operation string, scope ...string) paging {
	ascending := q.OneOf(sortOrder.Name) == "asc"
	return paging{Page: a.readPages(q, operation, append(scope, fmt.Sprint(ascending))...), ascending: ascending}
}

// readPages is readPaging for a list with one order.
func (a *API) readPages(q *query.Values, operation string, scope ...string) query.Page {
	return q.Page(page.List{Key: a.key, Operation: operation, Filters: scope})
}

// position parses an optional position. An error means that the token is invalid.
func position[T any](after []byte, parse func([]byte) (*T, error)) (*T, error) {
	if after == nil {
		return nil, nil
	}
	p, err := parse(after)
	if err != nil {
		return nil, reply.BadToken(err)
	}
	return p, nil
}

// moment converts Unix seconds of a request to a time; it limits them to times that can be represented.
func moment(seconds uint64) time.Time {
	const farFuture = 1 << 40
	return time.Unix(int64(min(seconds, farFuture)), 0)
}
