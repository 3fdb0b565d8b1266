package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/constants"

	chain "quorate/chain/ledger"
	"quorate/handlers/data"
	"quorate/index"
	"quorate/index/ledger"
	"quorate/index/ledger/subnets"
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
	d.Subnets = subnetReader{n.chains.Subnets}
	d.Vertices = vertexReader{n.chains.Vertices}
	names := map[ids.ID]string{constants.PlatformChainID: index.PChain, g.XChainID: index.XChain, g.CChainID: index.CChain}
	d.Progress = func(chainID ids.ID) data.Progress {
		status := n.chains.Status()[names[chainID]]
		p := data.Progress{Lag: status.Lag(), CaughtUp: status.State == index.Following, Err: status.Err}
		// The last block's time is a row; without it the record has just begun.
		height, now, err := n.chains.Ledger.Tip(context.Background(), chainID)
		if err != nil {
			return data.Progress{Lag: p.Lag, Err: p.Err}
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

// subnetReader puts the record of subnets into the Data API's terms.
type subnetReader struct{ record *subnets.Record }

func (r subnetReader) Subnets(ctx context.Context, q data.SubnetQuery) (*data.SubnetPage, error) {
	var after *subnets.Position
	if q.After != nil {
		var err error
		if after, err = subnets.ParsePosition(q.After); err != nil {
			return nil, fmt.Errorf("%w: %w", ledger.ErrPosition, err)
		}
	}
	found, err := r.record.List(ctx, q.Ascending, q.Limit, after)
	if err != nil {
		return nil, err
	}
	page := &data.SubnetPage{}
	if found.Next != nil {
		page.Next = found.Next.Bytes()
	}
	for _, s := range found.Subnets {
		subnet := data.Subnet{ID: s.ID, Height: s.Height, Time: s.Created, Owners: s.Owners}
		if s.Conversion != nil {
			subnet.Conversion, subnet.ConversionTxID = &s.Conversion.Conversion, s.Conversion.TxID
		}
		for _, c := range s.Chains {
			genesis, err := r.record.Genesis(ctx, s.ID, c.ID)
			if err != nil {
				return nil, err
			}
			subnet.Blockchains = append(subnet.Blockchains, data.Blockchain{
				ID: c.ID, Height: c.Height, Time: c.Created,
				Chain: chain.Chain{VMID: c.VMID, Name: c.Name, Genesis: genesis},
			})
		}
		page.Subnets = append(page.Subnets, subnet)
	}
	return page, nil
}
