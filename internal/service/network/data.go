package network

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/constants"

	"quorate/handlers/data"
	"quorate/handlers/reply"
	"quorate/internal/config"
	"quorate/internal/index"
	"quorate/internal/index/ledger"
	"quorate/internal/index/ledger/subnets"
	"quorate/internal/index/vertices"
)

// Data returns the network's indexed data for the Data API, or what is missing for it. It returns false if the service
// has no store.
func (n *Network) Data() (data.Network, bool) {
	i := n.indexed.Load()
	if i == nil {
		return data.Network{}, false
	}
	chains, g := i.chains, i.origin.genesis
	switch {
	case !n.ledger:
		return data.Network{Needs: fmt.Sprintf("only what signing needs is indexed; set networks.%s.record to %s or %s", n.Name, config.RecordPrimary, config.RecordAll)}, true
	case g == nil:
		return data.Network{Needs: fmt.Sprintf("the network's genesis is not known yet; if this lasts, set networks.%s.genesis_file to the file that its nodes were started with", n.Name)}, true
	}
	d := data.Network{NetworkID: n.ID, XChainID: g.XChainID, CChainID: g.CChainID, AVAXAssetID: g.AVAXAssetID}
	record := chains.Ledger
	d.Subnets = chains.Subnets
	validators := chains.Registry
	if n.views != nil {
		record, d.Subnets, validators = ledger.New(n.views, n.ID), subnets.New(n.views, n.ID), validators.On(n.views)
	}
	d.Registry = validators
	d.Uptimes = n.uptimes
	d.RegistryProgress = func() data.Progress {
		p := reply.ProgressOf(chains.RegistryStatus())
		head, err := validators.Head(context.Background())
		if err != nil {
			p.CaughtUp = false
			return p
		}
		p.Height, p.Time = head.Height, head.Time
		return p
	}
	d.Ledger = record
	d.Cortina = func(ctx context.Context) (time.Time, error) {
		begin, err := chains.XChainBegin(ctx)
		return begin.Time, err
	}
	d.Vertices = vertexReader{chains.Vertices}
	d.Rewards = n.stakes
	if n.times != nil {
		d.Times = n.times
	}
	names := map[ids.ID]string{constants.PlatformChainID: index.PChain, g.XChainID: index.XChain, g.CChainID: index.CChain}
	d.Progress = func(chainID ids.ID) data.Progress {
		status := chains.LedgerStatus(names[chainID])
		p := reply.ProgressOf(status)
		// The time of the last block is a row. Without the row nothing is indexed yet.
		height, now, err := record.Tip(context.Background(), chainID)
		if err != nil {
			p.CaughtUp = false
			return p
		}
		p.Height, p.Time = height, now
		return p
	}
	return d, true
}

// vertexReader adapts the index of vertices to the Data API.
type vertexReader struct{ record *vertices.Index }

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
			ID: v.ID, ParentIDs: v.ParentIDs, Height: v.Height, Index: v.Index, TxIDs: v.TxIDs, Size: v.Size,
		})
	}
	return page, nil
}
