package query

import (
	"errors"
	"strconv"

	"quorate/handlers/apierr"
	"quorate/handlers/query/page"
)

// Page is the requested part of a list.
type Page struct {
	// Size is the maximum number of items.
	Size int
	// After is where the previous page ended, nil for the first page.
	After []byte

	list page.List
}

// Token returns the pageToken of the page after a position, or "" for nil, which no page follows.
func (p Page) Token(position []byte) string {
	if position == nil {
		return ""
	}
	return p.list.Token(position)
}

const pageSize = "pageSize"

// PageToken declares the position of a page in a list.
var PageToken = Parameter{Name: "pageToken", Description: "`nextPageToken` of the page before, with everything else unchanged."}

// PageSize declares the number of items on a page: from 1 to most, usual by default.
func PageSize(most, usual uint64) Parameter {
	return Parameter{Name: pageSize, Kind: Integer, Min: 1, Max: most, Default: strconv.FormatUint(usual, 10), Description: "Items on a page."}
}

// Page parses pageSize and pageToken. It refuses a token of another list.
func (v *Values) Page(list page.List) Page {
	p := Page{Size: int(v.Integer(pageSize)), list: list}
	token, _ := v.Text(PageToken.Name)
	if token == "" {
		return p
	}
	position, err := list.Position(token)
	switch {
	case errors.Is(err, page.ErrOtherList):
		v.Fail(PageToken.Name, "it belongs to another request; repeat the request it came from and change nothing but the token")
	case err != nil:
		v.Fail(PageToken.Name, "%q is no token of this service; send one as it was received, or none for the first page", apierr.Excerpt(token))
	default:
		p.After = position
	}
	return p
}
