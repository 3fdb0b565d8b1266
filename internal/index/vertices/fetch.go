package vertices

import (
	"container/heap"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/proto/pb/p2p"
	"github.com/ava-labs/avalanchego/utils/hashing"

	"quorate/internal/chain/xchain"
	"quorate/internal/index/container"
	"quorate/internal/index/internal/row"
	"quorate/internal/store"
)

const (
	// requests is the number of concurrent requests. Responses overlap, so more requests would mostly fetch known vertices.
	requests = 4
	// requestTimeout is the timeout of a request.
	requestTimeout = 10 * time.Second
	// maxAnswer is the maximum number of vertices that are read from a response. Nodes send at most as many by default
	// (avalanchego config, bootstrap-ancestors-max-containers-sent).
	maxAnswer = 2000
	// A node that failed gets no request for a while, which grows with each failure.
	firstRest, lastRest = 2 * time.Second, 5 * time.Minute
	// lookAgain is the interval between checks for new connections while no node accepts requests.
	lookAgain = 250 * time.Millisecond
	// logEvery is the number of vertices between two log lines.
	logEvery = 100_000
)

var (
	errGarbage = errors.New("node sent something else than the vertex that it was asked for and its ancestors")
	errNoPeers = errors.New("no validator that is connected answers with vertices; check the peer-to-peer connections, or wait")
)

// wanted is a vertex that others refer to and that is not fetched.
type wanted struct {
	id ids.ID
	// below is the height of a child.
	below uint64
}

// frontier is a heap of wanted vertices. Those with the highest children come first, because responses contain their
// ancestors, which are likely wanted too.
type frontier []wanted

func (f frontier) Len() int           { return len(f) }
func (f frontier) Less(i, j int) bool { return f[i].below > f[j].below }
func (f frontier) Swap(i, j int)      { f[i], f[j] = f[j], f[i] }
func (f *frontier) Push(x any)        { *f = append(*f, x.(wanted)) }
func (f *frontier) Pop() any {
	last := len(*f) - 1
	one := (*f)[last]
	*f = (*f)[:last]
	return one
}

// fetcher fetches vertices. One goroutine owns it; the goroutines of requests only send to answers.
type fetcher struct {
	*Index
	at store.Cursor
	// queue holds the wanted vertices without a request, asked the node of each request. open holds all of them, with the
	// height of a child.
	queue frontier
	asked map[ids.ID]ids.NodeID
	open  map[ids.ID]uint64
	nodes map[ids.NodeID]*nodeRecord
	// answers has capacity for one response of each request.
	answers  chan nodeAnswer
	loggedAt uint64
}

// nodeRecord is what is known of a node: whether it has a request, its consecutive failures, and until when it gets no
// request.
type nodeRecord struct {
	busy     bool
	failures int
	rest     time.Time
}

type nodeAnswer struct {
	nodeID ids.NodeID
	id     ids.ID
	found  [][]byte
	err    error
}

// fetch fetches the stop vertex and all its ancestors that are missing. It returns the new position of the cursor.
func (r *Index) fetch(ctx context.Context, stopVertexID ids.ID, at store.Cursor) (store.Cursor, error) {
	f := &fetcher{
		Index: r, at: at, asked: make(map[ids.ID]ids.NodeID), open: make(map[ids.ID]uint64),
		nodes: make(map[ids.NodeID]*nodeRecord), answers: make(chan nodeAnswer, requests), loggedAt: at.Next,
	}
	if err := f.resume(ctx, stopVertexID); err != nil {
		return at, err
	}
	err := f.run(ctx)
	return f.at, err
}

// resume reads the wanted vertices from the store.
func (f *fetcher) resume(ctx context.Context, stopVertexID ids.ID) error {
	if f.at.Next == 0 {
		f.want(stopVertexID, 1<<63)
		return nil
	}
	var lo []byte
	for {
		rows, err := f.o.Store.Scan(ctx, store.FamilyVertexFetched, f.fetchedKey(rowWanted), lo, nil, store.Ascending, 1024)
		if err != nil {
			return fmt.Errorf("reading which vertices are missing: %w", err)
		}
		for _, one := range rows {
			if len(one.K) != ids.IDLen || len(one.V) != 8 {
				return fmt.Errorf("%w: which vertices are missing", store.ErrCorrupt)
			}
			f.want(ids.ID(one.K), binary.BigEndian.Uint64(one.V))
		}
		if len(rows) == 0 {
			return nil
		}
		lo = store.After(rows[len(rows)-1].K)
	}
}

func (f *fetcher) want(id ids.ID, below uint64) {
	f.open[id] = below
	heap.Push(&f.queue, wanted{id, below})
}

// run sends requests until no vertex is wanted.
func (f *fetcher) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var asking sync.WaitGroup
	defer asking.Wait()
	defer cancel()
	for len(f.open) > 0 {
		if err := f.ask(ctx, &asking); err != nil {
			return err
		}
		if len(f.open) == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case a := <-f.answers:
			if err := f.answered(ctx, a); err != nil {
				return err
			}
		case <-time.After(lookAgain):
			if len(f.asked) == 0 {
				f.troubled("%d are fetched; %v", f.at.Next, errNoPeers)
			}
		}
	}
	return nil
}

// ask sends requests for wanted vertices to free nodes. It takes vertices that an earlier index stored from there.
func (f *fetcher) ask(ctx context.Context, asking *sync.WaitGroup) error {
	for len(f.queue) > 0 && len(f.asked) < requests {
		one := f.queue[0]
		if f.open[one.id] == 0 {
			heap.Pop(&f.queue) // it came with another
			continue
		}
		stored, err := f.stored(ctx, one.id)
		if err != nil {
			return err
		}
		if len(stored) > 0 {
			heap.Pop(&f.queue)
			if _, err := f.take(ctx, one.id, stored); err != nil {
				return err
			}
			continue
		}
		nodeID, ok := f.free()
		if !ok {
			return nil
		}
		heap.Pop(&f.queue)
		f.asked[one.id] = nodeID
		f.nodes[nodeID].busy = true
		asking.Go(func() { // ends with ctx or requestTimeout
			limited, cancel := context.WithTimeout(ctx, requestTimeout)
			defer cancel()
			found, err := f.o.Peers.Ancestors(limited, nodeID, f.o.ChainID, one.id, p2p.EngineType_ENGINE_TYPE_DAG)
			f.answers <- nodeAnswer{nodeID, one.id, found, err}
		})
	}
	return nil
}

// free returns the connected node with the fewest failures among those without a request.
func (f *fetcher) free() (ids.NodeID, bool) {
	var best ids.NodeID
	var bestRecord *nodeRecord
	now := time.Now()
	for _, nodeID := range f.o.Peers.ConnectedNodes() {
		n := f.nodes[nodeID]
		if n == nil {
			n = new(nodeRecord)
			f.nodes[nodeID] = n
		}
		if n.busy || now.Before(n.rest) || bestRecord != nil && bestRecord.failures <= n.failures {
			continue
		}
		best, bestRecord = nodeID, n
	}
	return best, bestRecord != nil
}

// answered handles a response. A vertex that did not come is requested again.
func (f *fetcher) answered(ctx context.Context, a nodeAnswer) error {
	n := f.nodes[a.nodeID]
	n.busy = false
	delete(f.asked, a.id)
	whole := false
	if a.err == nil && f.open[a.id] != 0 {
		var err error
		if whole, err = f.take(ctx, a.id, a.found); err != nil {
			return err
		}
	} else if a.err == nil {
		whole = true // another response contained it
	}
	if whole {
		n.failures = 0
	} else {
		n.failures++
		n.rest = time.Now().Add(min(firstRest<<min(n.failures-1, 10), lastRest))
		if a.err == nil {
			a.err = errGarbage
		}
		f.log.Debug("a node did not send vertices", slog.Any("nodeID", a.nodeID), slog.Any("vertexID", a.id), slog.Any("error", a.err))
	}
	if below := f.open[a.id]; below != 0 {
		heap.Push(&f.queue, wanted{a.id, below})
	}
	return nil
}

// take stores a response: the requested vertex, followed by ancestors. Each ancestor must be a parent of a preceding vertex. At
// the first vertex that is not, take drops the rest and returns false.
func (f *fetcher) take(ctx context.Context, id ids.ID, answer [][]byte) (whole bool, err error) {
	whole = len(answer) > 0
	due := map[ids.ID]bool{id: true}
	var all []*xchain.Vertex
	bytesOf := make(map[ids.ID][]byte)
	for i, b := range answer[:min(len(answer), maxAnswer)] {
		hash := ids.ID(hashing.ComputeHash256Array(b))
		if !due[hash] || i == 0 && hash != id {
			whole = false
			break
		}
		delete(due, hash)
		v, err := xchain.ParseVertex(b)
		if err == nil && v.ChainID != f.o.ChainID {
			err = fmt.Errorf("%w: it is of chain %s", xchain.ErrVertex, v.ChainID)
		}
		if err != nil {
			// Its ID proves that the network accepted it, so another node would send the same.
			return false, fmt.Errorf("vertex %s: %w", hash, err)
		}
		for _, parent := range v.ParentIDs {
			if bytesOf[parent] == nil {
				due[parent] = true
			}
		}
		bytesOf[hash] = b
		all = append(all, v)
	}
	if len(all) == 0 {
		return false, nil
	}
	return whole, f.store(ctx, all, bytesOf)
}

// store writes vertices that are not stored yet, and which vertices are wanted now.
func (f *fetcher) store(ctx context.Context, all []*xchain.Vertex, bytesOf map[ids.ID][]byte) error {
	var about []ids.ID
	place := make(map[ids.ID]int)
	mention := func(id ids.ID) {
		if _, ok := place[id]; !ok {
			place[id] = len(about)
			about = append(about, id)
		}
	}
	for _, v := range all {
		mention(v.ID)
		for _, parent := range v.ParentIDs {
			mention(parent)
		}
	}
	keys := make([]store.PK, len(about))
	for i, id := range about {
		keys[i] = f.knownKey(id)
	}
	known, err := f.numbers(ctx, keys)
	if err != nil {
		return err
	}
	var batch store.Batch
	next := f.at.Next
	more := make(map[ids.ID]uint64)
	var done []ids.ID
	for _, v := range all {
		if _, ok := known[place[v.ID]]; ok {
			continue
		}
		next++
		done = append(done, v.ID)
		batch.Put(store.FamilyVertexFetched, f.bytesKey(v.Height, v.ID), bytesOf[v.ID])
		batch.Put(store.FamilyVertexFetched, f.knownKey(v.ID), row.Uint64(v.Height))
		batch.Delete(store.FamilyVertexFetched, f.wantedKey(v.ID))
		for _, parent := range v.ParentIDs {
			_, ok := known[place[parent]]
			if ok || bytesOf[parent] != nil || f.open[parent] != 0 {
				continue
			}
			more[parent] = max(more[parent], v.Height, 1)
		}
	}
	if len(done) == 0 {
		return nil
	}
	for id, below := range more {
		batch.Put(store.FamilyVertexFetched, f.wantedKey(id), row.Uint64(below))
	}
	to := store.Cursor{Next: next, Epoch: f.at.Epoch}
	batch.Move(f.cursor, f.at, to)
	if err := f.o.Store.Commit(ctx, &batch); err != nil {
		return fmt.Errorf("storing vertices: %w", err)
	}
	f.at = to
	for _, id := range done {
		delete(f.open, id)
	}
	for id, below := range more {
		f.want(id, below)
	}
	f.troubled("%d are fetched, more are to come", f.at.Next)
	if f.at.Next >= f.loggedAt+logEvery {
		f.loggedAt = f.at.Next
		f.log.Info("fetched pre-Cortina vertices", slog.Uint64("vertices", f.at.Next), slog.Int("wanted", len(f.open)))
	}
	return nil
}

// storedAtOnce is the maximum number of stored vertices that are read at once.
const storedAtOnce = 256

// stored returns a vertex and ancestors of it from the containers of an earlier index, in the order of a node's response. It
// returns none if the vertex is missing or damaged.
func (f *fetcher) stored(ctx context.Context, id ids.ID) (all [][]byte, err error) {
	chain := f.chain()
	queue, seen := []ids.ID{id}, map[ids.ID]bool{id: true}
	for len(queue) > 0 && len(all) < storedAtOnce {
		one := queue[0]
		queue = queue[1:]
		c, err := chain.ByID(ctx, f.o.Store, one)
		if errors.Is(err, container.ErrMissing) || errors.Is(err, store.ErrCorrupt) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("reading stored vertices: %w", err)
		}
		v, err := xchain.ParseVertex(c.Bytes)
		if err != nil || v.ID != one {
			continue // nodes have it
		}
		all = append(all, c.Bytes)
		for _, parent := range v.ParentIDs {
			if !seen[parent] {
				seen[parent] = true
				queue = append(queue, parent)
			}
		}
	}
	return all, nil
}
