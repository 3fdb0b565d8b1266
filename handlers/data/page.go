package data

import (
	"fmt"
	"time"

	"quorate/handlers/query"
	"quorate/handlers/query/page"
	"quorate/handlers/reply"
)

// paging is what all lists have in common.
type paging struct {
	query.Page
	ascending bool
}

// readPaging reads pageSize, pageToken and sortOrder. The operation and whatever
// decides about the list besides the order is scope: a token is of no use for
// another list.
func readPaging(q *query.Values, most, usual uint64, operation string, scope ...string) paging {
	ascending := q.OneOf("sortOrder", "desc", "asc") == "asc"
	list := page.List{Operation: operation, Filters: append(scope, fmt.Sprint(ascending))}
	return paging{Page: q.Page(list, most, usual), ascending: ascending}
}

// position reads an optional position; parse's errors are the token's fault.
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

// moment is a time in Unix seconds from a request. No chain gets to the end of
// what it can express.
func moment(seconds uint64) time.Time {
	const farFuture = 1 << 40
	return time.Unix(int64(min(seconds, farFuture)), 0)
}
