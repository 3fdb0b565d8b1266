package data

import (
	"context"
	"errors"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/ava-labs/avalanchego/ids"

	"quorate/handlers/apierr"
	"quorate/handlers/reply"
)

// gap is a part of an answer that is omitted because it depends on another chain's index, which has not caught up. An
// import on the other chain spends an export, so without that chain's index it is unknown whether the export is still
// in atomic memory.
type gap struct {
	ChainName    string `json:"chainName"`
	BlockchainID string `json:"blockchainId"`
	// Omitted describes what is omitted.
	Omitted string `json:"omitted"`
	Code    string `json:"code,omitempty"`
	Reason  string `json:"reason"`

	id  ids.ID
	err error // why it is omitted
}

// gaps are the omitted parts of an answer.
type gaps []gap

// between returns the gaps of an answer about b: the atomic memory that b shares with chains whose indexes have not
// caught up. See behind for at.
func (n *network) between(ctx context.Context, b blockchain, at *uint64) gaps {
	var left gaps
	for _, other := range n.chains {
		if other == b {
			continue
		}
		if err := n.behind(ctx, other, at); err != nil {
			left = append(left, newGap(other, b, err))
		}
	}
	return left
}

func newGap(other, b blockchain, err error) gap {
	g := gap{
		ChainName: other.name, BlockchainID: other.id.String(), id: other.id, err: err,
		Omitted: "outputs between the " + b.name + " and the " + other.name,
	}
	var known *apierr.Error
	if errors.As(err, &known) {
		g.Code, g.Reason = known.Code, known.Message
	}
	return g
}

// refuse returns the error for an answer of which every part is omitted.
func (g gaps) refuse() error { return g[0].err }

// chains returns the chains whose indexes have not caught up.
func (g gaps) chains() []ids.ID {
	var all []ids.ID
	for i := range g {
		all = append(all, g[i].id)
	}
	return all
}

// has reports whether what depends on a chain is omitted.
func (g gaps) has(chainID ids.ID) bool {
	for i := range g {
		if g[i].id == chainID {
			return true
		}
	}
	return false
}

// show names the chains in the answer's headers.
func (g gaps) show(c echo.Context) {
	var names []string
	for i := range g {
		names = append(names, g[i].ChainName)
	}
	if len(names) > 0 {
		c.Response().Header().Set("Indexed-Without", strings.Join(names, ", "))
	}
}

// sinceFirst adds the chains that the first page of a list omitted, even if their indexes have caught up since, so
// that all pages belong to one list.
func (n *network) sinceFirst(g gaps, b blockchain, took func(chainID ids.ID) bool) gaps {
	for _, other := range n.chains {
		if other == b || took(other.id) || g.has(other.id) {
			continue
		}
		g = append(g, newGap(other, b, reply.CatchingUp(nil, "the first page of this list left them out, as the index of the %s had not caught up; request the list again, without pageToken", other.name)))
	}
	return g
}
