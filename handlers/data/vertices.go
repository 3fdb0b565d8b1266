package data

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/ava-labs/avalanchego/ids"

	"quorate/handlers/apierr"
	"quorate/handlers/operation"
	"quorate/handlers/reply"
	"quorate/internal/index/vertices"
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
	page, next, err := n.Vertices.At(ctx, height, p.ascending, p.Size, p.After)
	if err != nil {
		return n.vertexError(ctx, err, b)
	}
	answer := vertexPage{ChainInfo: n.info(b)}
	if answer.Vertices, err = n.shownVertices(ctx, page); err != nil {
		return err
	}
	answer.NextPageToken = p.Token(next)
	return reply.JSON(r, answer)
}

// vertexPage is an answer with vertices.
type vertexPage struct {
	NextPageToken string    `json:"nextPageToken,omitempty"`
	Vertices      []vertex  `json:"vertices"`
	ChainInfo     chainInfo `json:"chainInfo"`
}

func (n *network) vertexError(ctx context.Context, err error, b blockchain) error {
	if errors.Is(err, vertices.ErrIncomplete) {
		return cmp.Or(n.Progress(ctx, b.id).Halted("the "+b.name), err)
	}
	return err
}

func (n *network) shownVertices(ctx context.Context, all []vertices.Vertex) ([]vertex, error) {
	when, err := n.preCortina(ctx)
	if err != nil {
		return nil, err
	}
	shown := make([]vertex, len(all))
	for i, v := range all {
		at, bound := when.of(v.ID)
		shown[i] = vertex{
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
	return shown, nil
}

// latestVertices is GET /v1/networks/{network}/blockchains/{blockchainId}/vertices.
func (a *API) latestVertices(ctx context.Context, r operation.Request, n *network) error {
	b, err := n.blockchain(r, xChain)
	if err != nil {
		return err
	}
	p := a.readPages(r.Query, "vertices latest", n.shown)
	if err := r.Query.Err(); err != nil {
		return err
	}
	below, err := position(p.After, parseNumber)
	if err != nil {
		return err
	}
	if n.Vertices == nil {
		return absent("vertices")
	}
	page, more, err := n.Vertices.Latest(ctx, p.Size, below)
	if err != nil {
		return n.vertexError(ctx, err, b)
	}
	answer := vertexPage{ChainInfo: n.info(b)}
	if answer.Vertices, err = n.shownVertices(ctx, page); err != nil {
		return err
	}
	if more {
		answer.NextPageToken = p.Token(binary.BigEndian.AppendUint64(nil, page[len(page)-1].Index))
	}
	return reply.JSON(r, answer)
}

// getVertex is GET /v1/networks/{network}/blockchains/{blockchainId}/vertices/{vertexHash}.
func (a *API) getVertex(ctx context.Context, r operation.Request, n *network) error {
	b, err := n.blockchain(r, xChain)
	if err != nil {
		return err
	}
	id, err := pathID(r, "vertexHash")
	if err != nil {
		return err
	}
	if n.Vertices == nil {
		return absent("vertices")
	}
	found, err := n.Vertices.Vertex(ctx, id)
	if err != nil {
		return n.vertexError(ctx, err, b)
	}
	if found == nil {
		return apierr.NotFound("vertexHash: the X-Chain has no vertex %s", id)
	}
	shown, err := n.shownVertices(ctx, []vertices.Vertex{*found})
	if err != nil {
		return err
	}
	return reply.JSON(r, shown[0])
}

// texts returns the IDs in CB58, [] if there are none.
func texts(all []ids.ID) []string {
	shown := make([]string, len(all))
	for i, id := range all {
		shown[i] = id.String()
	}
	return shown
}
