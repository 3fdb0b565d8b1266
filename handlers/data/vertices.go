package data

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/ava-labs/avalanchego/ids"

	"quorate/handlers/operation"
	"quorate/handlers/reply"
)

type vertex struct {
	VertexHash      string   `json:"vertexHash"`
	ParentHashes    []string `json:"parentHashes"`
	VertexHeight    uint64   `json:"vertexHeight"`
	VertexIndex     uint64   `json:"vertexIndex"`
	VertexTimestamp int64    `json:"vertexTimestamp"`
	IsUpperBound    bool     `json:"vertexTimestampIsUpperBound,omitempty"`
	TxCount         int      `json:"txCount"`
	Transactions    []string `json:"transactions"`
	VertexSizeBytes int      `json:"vertexSizeBytes"`
}

func (a *API) listVertices(ctx context.Context, r operation.Request, n *network) error {
	b, err := n.blockchain(r, xChain)
	if err != nil {
		return err
	}
	q := r.Query
	height := q.Integer("vertexHeight")
	p := a.readPaging(q, "vertices", n.shown, fmt.Sprint(height))
	if err := q.Err(); err != nil {
		return err
	}
	if n.Vertices == nil {
		return absent("vertices")
	}
	// The progress of the X-Chain's blocks does not matter, because all vertices precede them. The reader knows
	// whether its vertices are complete.
	page, err := n.Vertices.Vertices(ctx, VertexQuery{Height: height, Ascending: p.ascending, Limit: p.Size, After: p.After})
	if errors.Is(err, ErrCatchingUp) {
		err = cmp.Or(n.Progress(b.id).Halted("the "+b.name), err)
	}
	if err != nil {
		return err
	}
	when, err := n.preCortina(ctx)
	if err != nil {
		return err
	}
	answer := struct {
		NextPageToken string    `json:"nextPageToken,omitempty"`
		Vertices      []vertex  `json:"vertices"`
		ChainInfo     chainInfo `json:"chainInfo"`
	}{Vertices: make([]vertex, len(page.Vertices)), ChainInfo: n.info(b)}
	for i, v := range page.Vertices {
		at, bound := when.of(v.ID)
		answer.Vertices[i] = vertex{
			VertexHash:      v.ID.String(),
			ParentHashes:    texts(v.ParentIDs),
			VertexHeight:    v.Height,
			VertexIndex:     v.Index,
			VertexTimestamp: at.Unix(),
			IsUpperBound:    bound,
			TxCount:         len(v.TxIDs),
			Transactions:    texts(v.TxIDs),
			VertexSizeBytes: v.Size,
		}
	}
	if page.Next != nil {
		answer.NextPageToken = p.Token(page.Next)
	}
	return reply.JSON(r, answer)
}

// texts returns the IDs in CB58, [] if there are none.
func texts(all []ids.ID) []string {
	shown := make([]string, len(all))
	for i, id := range all {
		shown[i] = id.String()
	}
	return shown
}
