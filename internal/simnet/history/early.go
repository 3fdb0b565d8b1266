package history

import (
	"fmt"
	"slices"
	"time"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/snow/engine/avalanche/vertex"
	avmblock "github.com/ava-labs/avalanchego/vms/avm/block"
)

// Vertex is a vertex that the X-Chain accepted before it had blocks.
type Vertex struct {
	ID        ids.ID
	ParentIDs []ids.ID
	// Height is one more than the greatest parent height. Several vertices may share a height.
	Height uint64
	// TxIDs are in vertex order. A transaction may be in several vertices.
	TxIDs []ids.ID
	Bytes []byte
}

// early is the state of the X-Chain before its linearization (Cortina).
type early struct {
	left int // number of transactions left
	over bool
	// recent are the vertices that can become parents. height is the greatest height. edge are the recent vertices without
	// children; they become parents of the stop vertex, so that it follows all vertices.
	recent []Vertex
	edge   map[ids.ID]bool
	height uint64
}

// recentVertices is the number of vertices that can become parents.
const recentVertices = 8

// earlyRound makes a few parallel vertices with new transactions, or linearizes the chain.
func (g *Generator) earlyRound(now int64) error {
	e := &g.early
	if e.left <= 0 || g.txs > g.o.Txs/2 {
		return g.linearise(now)
	}
	b := &Block{Chain: X, Early: true, Time: time.Unix(max(now, g.tips[X].time), 0).UTC()}
	var raw [][]byte
	for range g.between(1, 5) {
		tx, err := g.xTx(b)
		if err != nil {
			return err
		}
		raw = append(raw, tx.Bytes())
	}
	side := min(g.between(1, 3), len(raw))
	for i := range side {
		var txs [][]byte
		for j := i; j < len(raw); j += side {
			txs = append(txs, raw[j])
		}
		if again := raw[g.rng.IntN(len(raw))]; g.chance(0.15) && !slices.ContainsFunc(txs, func(tx []byte) bool { return &tx[0] == &again[0] }) {
			txs = append(txs, again)
		}
		v, err := g.vertex(txs)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(b.Vertices, func(o Vertex) bool { return o.ID == v.ID }) {
			continue // equal transactions on equal parents form one vertex
		}
		b.Vertices = append(b.Vertices, v)
	}
	e.left -= len(raw)
	for _, v := range b.Vertices {
		e.recent = append(e.recent, v)
		e.height = max(e.height, v.Height)
		e.edge[v.ID] = true
	}
	for _, v := range b.Vertices {
		for _, parent := range v.ParentIDs {
			delete(e.edge, parent)
		}
	}
	old := e.recent[:max(0, len(e.recent)-recentVertices)]
	kept := slices.DeleteFunc(slices.Clone(old), func(v Vertex) bool { return !e.edge[v.ID] })
	e.recent = append(kept, e.recent[len(old):]...)
	g.tips[X].time = b.Time.Unix()
	g.txs += len(b.Txs)
	g.truth.early(b)
	g.queue = append(g.queue, b)
	return nil
}

// vertex makes a vertex on some of the recent vertices.
func (g *Generator) vertex(txs [][]byte) (Vertex, error) {
	recent := g.early.recent
	var v Vertex
	for _, i := range g.rng.Perm(len(recent))[:min(g.between(1, 4), len(recent))] {
		v.ParentIDs = append(v.ParentIDs, recent[i].ID)
		v.Height = max(v.Height, recent[i].Height+1)
	}
	built, err := vertex.Build(g.network.chainIDs[X], v.Height, v.ParentIDs, txs)
	if err != nil {
		return v, fmt.Errorf("a vertex: %w", err)
	}
	v.ID, v.Bytes = built.ID(), built.Bytes()
	for _, tx := range built.Txs() { // now sorted
		parsed, err := g.xParser.ParseTx(tx)
		if err != nil {
			return v, fmt.Errorf("a vertex: %w", err)
		}
		v.TxIDs = append(v.TxIDs, parsed.ID())
	}
	return v, nil
}

// linearise makes the stop vertex and the first block on top of it.
func (g *Generator) linearise(now int64) error {
	e := &g.early
	stop := Vertex{Height: e.height + 1}
	for _, v := range e.recent {
		if e.edge[v.ID] {
			stop.ParentIDs = append(stop.ParentIDs, v.ID)
		}
	}
	built, err := vertex.BuildStopVertex(g.network.chainIDs[X], stop.Height, stop.ParentIDs)
	if err != nil {
		return fmt.Errorf("the last vertex: %w", err)
	}
	stop.ID, stop.Bytes = built.ID(), built.Bytes()
	at := time.Unix(max(now, g.tips[X].time), 0).UTC()
	last := &Block{Chain: X, Early: true, Time: at, Vertices: []Vertex{stop}}
	g.truth.early(last)
	g.queue = append(g.queue, last)
	first, err := avmblock.NewStandardBlock(stop.ID, 0, at, nil, g.xParser.Codec())
	if err != nil {
		return fmt.Errorf("the first X-Chain block: %w", err)
	}
	g.accept(&Block{Chain: X, ParentID: stop.ID, Time: at}, first.ID(), first.Bytes())
	*e = early{over: true}
	return nil
}
