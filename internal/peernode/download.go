package peernode

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/ava-labs/avalanchego/database"
	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/proto/pb/p2p"
	"github.com/ava-labs/avalanchego/utils/hashing"

	"quorate/internal/chain/envelope"
)

const (
	// maxRequests bounds the requests for blocks at a time, each to another node. An answer has at most 2 MiB.
	maxRequests = 16
	// maxTries is how many nodes are asked for a trusted block that not every node has to have.
	maxTries = 3
	// containerTimeout bounds one request for blocks.
	containerTimeout = 10 * time.Second
	// holderGrace is how long a node has to send a new block until another node that has it is asked, too.
	holderGrace = time.Second
	// fewBlocks are downloaded one at a time, each like a new block.
	fewBlocks = 4
	// rest is how long a node that sent something wrong, or nothing, is not asked for blocks.
	rest = 30 * time.Second
	// manyBlocks at a time are worth a line in the log.
	manyBlocks = 100
	// maxKnown bounds the containers whose heights are cached.
	maxKnown = 1024
)

// descent is a part of the chain that is downloaded from a believed container downwards, until it reaches the last
// executed block or the top of another one. The two are then joined.
type descent struct {
	top            ids.ID
	wanted         ids.ID // is downloaded next: top, then the parent of the lowest
	height, lowest uint64 // of top, and of the lowest block that is downloaded; 0 until top is

	holders []ids.NodeID // nodes that have top; nil means that any may
	asked   int          // requests for wanted that are under way
	askedAt time.Time    // when the latest of them began
	tries   int          // how many nodes did not send top
}

func (d *descent) begun() bool { return d.wanted != d.top }

// container is a verified container.
type container struct {
	id, parentID ids.ID // of envelopes
	chainBlock
}

// request is a request that is under way.
type request struct {
	*descent
	nodeID ids.NodeID
	began  time.Time
	cancel context.CancelFunc
	// overtaken says that the request is not needed any more.
	overtaken bool
}

// reply is the result of a request.
type reply struct {
	*request
	containers []container
	err        error
}

// want begins a descent from a believed container, unless there was one.
func (f *follower) want(top ids.ID, holders []ids.NodeID) {
	if _, ok := f.known[top]; ok {
		return
	}
	for _, d := range f.descents {
		if d.top == top {
			d.holders = holders
			return
		}
	}
	f.descents = append(f.descents, &descent{top: top, wanted: top, holders: holders})
}

// advance downloads what is missing below the tops of the descents, and executes it. It executes the lowest part
// while others are downloaded.
func (f *follower) advance(ctx context.Context) error {
	if len(f.descents) == 0 {
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	replies, busy := make(chan reply, maxRequests), make(map[ids.NodeID]*request)
	defer func() {
		cancel()
		for range busy {
			<-replies
		}
		f.release()
	}()
	began, from := time.Now(), f.next
	f.change(f.count)
	var failure error
	for ctx.Err() == nil {
		for len(busy) < maxRequests {
			d, nodeID, ok := f.pick(busy)
			if !ok {
				break
			}
			r := &request{descent: d, nodeID: nodeID, began: time.Now()}
			asking, cancel := context.WithTimeout(ctx, containerTimeout)
			r.cancel, busy[nodeID] = cancel, r
			d.asked, d.askedAt = d.asked+1, r.began
			wanted, alone := d.wanted, f.alone(d)
			go func() {
				containers, err := f.request(asking, nodeID, wanted, alone)
				replies <- reply{r, containers, err}
			}()
		}
		idle := make(chan struct{})
		switch executable := f.covering(f.next) != nil; {
		case executable:
			close(idle)
		case len(busy) > 0: // wait
		default:
			err := f.missing()
			if err == nil {
				if n := f.next - from; n >= manyBlocks {
					f.log.Info("downloaded and executed blocks of the "+f.name, slog.Uint64("blocks", n), slog.Uint64("height", f.next-1), slog.Duration("took", time.Since(began)))
				}
				return f.finish(ctx)
			}
			if failure != nil {
				err = fmt.Errorf("%w (%w)", err, failure)
			}
			return err
		}
		select {
		case <-ctx.Done():
		case r := <-replies:
			delete(busy, r.nodeID)
			r.cancel()
			if r.overtaken {
				break
			}
			r.asked--
			if r.err != nil {
				failure = f.blame(ctx, r)
				break
			}
			if err := f.take(ctx, r); err != nil {
				return err
			}
			f.overtake(r, busy)
		case <-time.After(holderGrace): // another holder may be asked
		case <-idle:
			if err := f.execute(ctx); err != nil {
				return &fatalError{err}
			}
		}
	}
	return ctx.Err()
}

// release prepares the descents that are left for the next time. The next poll names its holders, and tips that no node
// sent, if they are still believed.
func (f *follower) release() {
	f.descents = slices.DeleteFunc(f.descents, func(d *descent) bool { return !d.begun() && !f.isTrusted(d.top) })
	for _, d := range f.descents {
		d.asked, d.tries, d.holders = 0, 0, nil
	}
}

func (f *follower) isTrusted(id ids.ID) bool { return slices.Contains(f.allTrusted, id) }

// missing returns an error that names what could not be downloaded, nil if nothing is missing.
func (f *follower) missing() error {
	for _, d := range f.descents {
		switch {
		case !d.begun() && f.isTrusted(d.top):
			return fmt.Errorf("no connected node has block %s, which is known to be of this network's %s; the nodes are of another network if this stays", d.top, f.name)
		case !d.begun() || d.lowest > f.next:
			return errors.New("no connected node has the blocks that are missing")
		}
	}
	return nil
}

// finish ends the downloads. The first time, it also removes blocks that an earlier process left.
func (f *follower) finish(ctx context.Context) error {
	for _, d := range f.descents {
		if !f.isTrusted(d.top) {
			f.believed = max(f.believed, d.height)
		}
	}
	executed, all := f.descents, !f.swept
	f.descents, f.swept = nil, false
	if err := f.blocks.finish(ctx, executed, all); err != nil {
		return &fatalError{err}
	}
	f.swept = true
	return nil
}

// pick picks what is downloaded next, and from whom. Tops come first, because the lowest part comes next.
func (f *follower) pick(busy map[ids.NodeID]*request) (*descent, ids.NodeID, bool) {
	slices.SortStableFunc(f.descents, func(a, b *descent) int { return cmp.Compare(a.lowest, b.lowest) })
	var connected []ids.NodeID
	for _, d := range f.descents {
		if d.asked > 0 && !f.late(d) || d.tries == maxTries || d.begun() && d.lowest <= f.next {
			continue
		}
		if d.holders == nil && connected == nil {
			if connected = f.idle(f.peers.ConnectedNodes(), busy); len(connected) == 0 {
				return nil, ids.EmptyNodeID, false
			}
		}
		nodes := connected
		if d.holders != nil {
			nodes = f.idle(d.holders, busy)
		}
		if len(nodes) > 0 {
			return d, nodes[rand.IntN(len(nodes))], true
		}
	}
	return nil, ids.EmptyNodeID, false
}

// alone reports whether the wanted block is requested without its ancestors: usually one block is new.
func (f *follower) alone(d *descent) bool { return !d.begun() || d.height < f.next+fewBlocks }

// late reports whether the nodes that are asked for the wanted block should have sent it, and others have it. Many
// blocks take longer, and are requested from one node only.
func (f *follower) late(d *descent) bool {
	return (d.begun() || d.holders != nil) && f.alone(d) && time.Since(d.askedAt) >= holderGrace
}

// overtake ends requests that are not needed after a reply. A node rests if it had more time for the block than the one
// that sent it.
func (f *follower) overtake(r reply, busy map[ids.NodeID]*request) {
	for _, other := range busy {
		same := other.descent == r.descent
		passed := !other.begun() && !slices.Contains(f.descents, other.descent)
		if other.overtaken || !same && !passed {
			continue
		}
		if same && other.began.Before(r.began) {
			f.failed[other.nodeID] = time.Now()
		}
		other.overtaken = true
		other.cancel()
	}
	r.asked = 0
}

// idle returns the nodes that have not failed lately and are not busy.
func (f *follower) idle(nodes []ids.NodeID, busy map[ids.NodeID]*request) (idle []ids.NodeID) {
	for _, nodeID := range nodes {
		if at, ok := f.failed[nodeID]; ok {
			if time.Since(at) < rest {
				continue
			}
			delete(f.failed, nodeID)
		}
		if busy[nodeID] == nil {
			idle = append(idle, nodeID)
		}
	}
	return idle
}

// request asks a node for a container, alone or with ancestors, and verifies what it sends.
func (f *follower) request(ctx context.Context, nodeID ids.NodeID, wanted ids.ID, alone bool) ([]container, error) {
	var sent [][]byte
	var err error
	if alone {
		sent = make([][]byte, 1)
		sent[0], err = f.peers.Container(ctx, nodeID, f.chainID, wanted)
	} else {
		sent, err = f.peers.Ancestors(ctx, nodeID, f.chainID, wanted, p2p.EngineType_ENGINE_TYPE_CHAIN)
	}
	if err != nil {
		return nil, err
	}
	return f.chainOf(wanted, sent)
}

// errWrong means that a node sent something else than what it was asked for.
var errWrong = errors.New("the answer is wrong")

// chainOf verifies that containers begin with the wanted one and are a chain. It stops without an error at the first that
// is something else, if there was a good one before.
func (f *follower) chainOf(wanted ids.ID, sent [][]byte) ([]container, error) {
	verified := make([]container, 0, len(sent))
	for _, b := range sent {
		e := openContainer(f.chain, b)
		if e.ID != wanted {
			break
		}
		parsed, err := f.chain.parse(e.Block)
		if err != nil {
			return nil, fmt.Errorf("block %s cannot be read: %w", e.ID, err)
		}
		verified = append(verified, container{e.ID, e.ParentID, parsed})
		wanted = e.ParentID
	}
	if len(verified) == 0 {
		return nil, fmt.Errorf("%w: it does not begin with block %s", errWrong, wanted)
	}
	return verified, nil
}

// openContainer opens a container. A block from before the proposer envelopes is its own container.
func openContainer(chain blockchain, b []byte) envelope.Envelope {
	if e, ok := envelope.Open(b); ok {
		return e
	}
	if parsed, err := chain.parse(b); err == nil {
		return envelope.Envelope{ID: parsed.id, ParentID: parsed.parentID, Block: b}
	}
	return envelope.Envelope{ID: hashing.ComputeHash256Array(b), Block: b}
}

// blame notes that a node did not send blocks. Another one is asked.
func (f *follower) blame(ctx context.Context, r reply) error {
	if ctx.Err() == nil {
		f.log.Debug("a node did not send blocks of the "+f.name, slog.Any("nodeID", r.nodeID), slog.Any("error", r.err))
	}
	if r.begun() || r.holders != nil || errors.Is(r.err, errWrong) {
		f.failed[r.nodeID] = time.Now()
	}
	if r.holders == nil && !r.begun() {
		r.tries++
	}
	r.holders = slices.DeleteFunc(slices.Clone(r.holders), func(id ids.NodeID) bool { return id == r.nodeID })
	if len(r.holders) == 0 {
		r.holders = nil // any may have it
	}
	return fmt.Errorf("downloading blocks of the %s from %s: %w", f.name, r.nodeID, r.err)
}

// covering returns the descent that has downloaded the block at a height, nil if none has.
func (f *follower) covering(height uint64) *descent {
	for _, d := range f.descents {
		if d.begun() && d.lowest <= height && height <= d.height {
			return d
		}
	}
	return nil
}

// take moves a descent down by an answer, joins descents that have met, and stores the blocks.
func (f *follower) take(ctx context.Context, r reply) error {
	d := r.descent
	if !slices.Contains(f.descents, d) {
		return nil // another one has passed it
	}
	found, more := make(map[uint64][]byte, len(r.containers)), d.begun()
	for _, c := range r.containers {
		if !d.begun() {
			if begins, err := f.begin(ctx, d, c); err != nil || !begins {
				return err
			}
		} else if c.height+1 != d.lowest {
			return &fatalError{fmt.Errorf("block %s has the height %d, and the block that names it as its parent has the height %d", c.id, c.height, d.lowest)}
		}
		found[c.height] = c.kept
		d.lowest, d.wanted = c.height, c.parentID
		f.pass(d.wanted, d.lowest-1)
		if d.lowest == f.next && f.next > 0 && c.chainBlock.parentID != f.last {
			return f.other(d.top)
		}
		if d.lowest == f.next || f.covering(d.lowest-1) != nil {
			break
		}
	}
	if err := f.join(d); err != nil {
		return err
	}
	if more && d.lowest > f.next && slices.Contains(f.descents, d) {
		// One answer was not enough.
		for _, top := range f.trusted {
			f.want(top, nil)
		}
		f.trusted = nil
	}
	if err := f.blocks.put(f.descents, found); err != nil {
		return &fatalError{err}
	}
	f.report(func(s *Status) {
		f.count(s)
		s.Err = nil
	})
	return nil
}

// begin begins a descent with its top. It returns false if there is nothing to download, because that block is there.
func (f *follower) begin(ctx context.Context, d *descent, c container) (bool, error) {
	if len(f.known) >= maxKnown {
		clear(f.known)
	}
	f.known[c.id] = c.height
	if c.height >= f.next && f.covering(c.height) == nil {
		d.height, d.lowest = c.height, c.height
		return true, nil
	}
	there, err := f.blockAt(ctx, c.height)
	switch {
	case err != nil:
		return false, &fatalError{err}
	case there != c.chainBlock.id && there != ids.Empty && c.height >= f.next:
		return false, f.forks(d.top, c.height, f.covering(c.height).top)
	case there != c.chainBlock.id && there != ids.Empty:
		return false, f.other(d.top)
	}
	f.remove(d)
	return false, nil
}

// blockAt returns the ID of the block that was executed or downloaded at a height, empty if the state began above it.
func (f *follower) blockAt(ctx context.Context, height uint64) (ids.ID, error) {
	if height+1 == f.next {
		return f.last, nil
	}
	if height >= f.next {
		kept, err := f.downloaded(height)
		if err != nil {
			return ids.Empty, err
		}
		return f.chain.idOf(kept), nil
	}
	id, err := f.chain.BlockID(ctx, height)
	if errors.Is(err, database.ErrNotFound) {
		return ids.Empty, nil
	}
	return id, err
}

// pass removes the descent that would begin with a container that another one has reached.
func (f *follower) pass(top ids.ID, height uint64) {
	for _, d := range f.descents {
		if d.top == top && !d.begun() {
			f.known[top] = height
			f.remove(d)
			return
		}
	}
}

func (f *follower) remove(d *descent) {
	f.descents = slices.DeleteFunc(f.descents, func(one *descent) bool { return one == d })
}

// join joins a descent with the one that it has reached, and with the one that has reached it. The lower one stays, so that
// its request goes on.
func (f *follower) join(d *descent) error {
	for _, other := range slices.Clone(f.descents) {
		lower, upper := d, other
		if other.height < d.height {
			lower, upper = other, d
		}
		if other == d || !other.begun() || lower.height+1 != upper.lowest {
			continue
		}
		if upper.wanted != lower.top {
			return f.forks(lower.top, lower.height, upper.top)
		}
		lower.top, lower.height = upper.top, upper.height
		f.remove(upper)
		d = lower
	}
	return nil
}

// forks returns the error for a believed block that is no ancestor of another one, which is above it.
func (f *follower) forks(lower ids.ID, height uint64, upper ids.ID) error {
	return &fatalError{fmt.Errorf("the network's %s forks: block %s at height %d is no ancestor of block %s, but both are believed", f.name, lower, height, upper)}
}

// count tells how much is to be downloaded.
func (f *follower) count(s *Status) {
	s.Target = s.Height
	end, there := f.next, uint64(0)
	for _, d := range f.descents {
		if d.begun() && d.height >= f.next {
			s.Target, end = max(s.Target, d.height), max(end, d.height+1)
			there += d.height + 1 - max(d.lowest, f.next)
		}
	}
	s.Missing = end - f.next - there
}

// downloaded returns a downloaded block in the form that parse keeps.
func (f *follower) downloaded(height uint64) ([]byte, error) {
	kept, err := f.blocks.block(height)
	if err == nil && kept == nil {
		err = fmt.Errorf("block %d of the %s is missing between downloaded ones", height, f.name)
	}
	return kept, err
}

// execute executes the next block.
func (f *follower) execute(ctx context.Context) error {
	height := f.next
	kept, err := f.downloaded(height)
	if err == nil {
		err = f.chain.execute(ctx, height, kept)
	}
	if err != nil {
		return err
	}
	f.last, f.next = f.chain.idOf(kept), height+1
	f.report(func(s *Status) { s.Height, s.Err = height, nil })
	return nil
}
