package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/constants"

	"quorate/handlers/data"
	"quorate/index"
	"quorate/index/ledger"
	"quorate/index/vertices"
)

// records are a network's records as the Data API reads them; false if none are
// kept.
func records(n *network) (data.Network, bool) {
	g := n.genesis
	if g == nil || n.chains == nil || n.chains.Ledger == nil {
		return data.Network{}, false
	}
	d := data.Network{NetworkID: n.id, XChainID: g.XChainID, CChainID: g.CChainID, AVAXAssetID: g.AVAXAssetID}
	d.Ledger = n.chains.Ledger
	d.Subnets = n.chains.Subnets
	d.Vertices = vertexReader{n.chains.Vertices}
	names := map[ids.ID]string{constants.PlatformChainID: index.PChain, g.XChainID: index.XChain, g.CChainID: index.CChain}
	d.Progress = func(chainID ids.ID) data.Progress {
		status := n.chains.Status()[names[chainID]]
		p := data.Progress{Lag: status.Lag(), CaughtUp: status.State == index.Following, Err: status.Err}
		if status.Next < status.Kept {
			p.Rebuilding, p.Rebuilt = true, status.Rebuilt()
		}
		// The last block's time is a row; without it the record has just begun.
		height, now, err := n.chains.Ledger.Tip(context.Background(), chainID)
		if err != nil {
			return data.Progress{Lag: p.Lag, Err: p.Err, Rebuilding: p.Rebuilding, Rebuilt: p.Rebuilt}
		}
		p.Height, p.Time = height, now
		return p
	}
	return d, true
}

// vertexReader puts the record of vertices into the Data API's terms.
type vertexReader struct{ record *vertices.Record }

func (r vertexReader) Vertices(ctx context.Context, q data.VertexQuery) (*data.VertexPage, error) {
	found, next, err := r.record.At(ctx, q.Height, q.Ascending, q.Limit, q.After)
	switch {
	case errors.Is(err, vertices.ErrIncomplete):
		return nil, fmt.Errorf("%w: %w", data.ErrCatchingUp, err)
	case errors.Is(err, vertices.ErrPosition):
		return nil, fmt.Errorf("%w: %w", ledger.ErrPosition, err)
	case err != nil:
		return nil, err
	}
	page := &data.VertexPage{Next: next}
	for _, v := range found {
		page.Vertices = append(page.Vertices, data.Vertex{
			ID: v.ID, ParentIDs: v.ParentIDs, Height: v.Height, Index: v.Index, Time: v.Accepted, TxIDs: v.TxIDs, Size: v.Size,
		})
	}
	return page, nil
}
