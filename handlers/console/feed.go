package console

import (
	"crypto/rand"
	"encoding/hex"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"quorate/aggregator"
	"quorate/handlers/sse"
	"quorate/validators"
)

const (
	maxSubscribers = 64
	// maxOfOne is the maximum number of subscribers with one client IP address.
	maxOfOne   = 8
	maxRunning = 64
	maxRecent  = 16
	// maxQueued is the maximum size of a client's queue, in bytes.
	maxQueued = 1 << 20
	// maxEvents is the maximum number of events in a client's queue.
	maxEvents = 1024
)

// feed holds the running rounds and the most recent finished ones while there are subscribers. It is safe for
// concurrent use.
type feed struct {
	process  string       // a random value that distinguishes this process
	watchers atomic.Int64 // len(subscribers)

	mu          sync.Mutex
	subscribers map[*subscriber]struct{} // guarded by mu
	by          map[netip.Prefix]int     // subscribers by client IP address; guarded by mu; has no zero values
	running     map[string]*round        // by ID; guarded by mu
	recent      []*round                 // newest first; guarded by mu
}

func newFeed() *feed {
	return &feed{process: rand.Text()[:8], subscribers: make(map[*subscriber]struct{}), by: make(map[netip.Prefix]int), running: make(map[string]*round)}
}

// round is a round in the feed. Its fields are those of the event round.
type round struct {
	// ID differs from those of all other rounds, also of other processes.
	ID        string `json:"id"`
	Network   string `json:"network"`
	MessageID string `json:"messageId"`
	// MessageHash is MessageID, the SHA-256 of the message, in hex.
	MessageHash        string `json:"messageHash"`
	SourceBlockchainID string `json:"sourceBlockchainId"`
	SubnetID           string `json:"signingSubnetId"`
	PChainHeight       uint64 `json:"pChainHeight"`
	// Set identifies the validators for /console/api/sets.
	Set          string `json:"set"`
	TotalWeight  uint64 `json:"totalWeight,string"`
	TargetWeight uint64 `json:"targetWeight,string"`
	// Started is in milliseconds since 1970, Elapsed in milliseconds.
	Started int64   `json:"startedAt"`
	Elapsed float64 `json:"elapsed"`
	// Replies has one letter per validator, an aggregator.Reply.
	Replies string `json:"replies"`
	// Outcome is empty while the round runs.
	Outcome string `json:"outcome"`

	set *validators.Set
}

// step is a change of a round. Changes are pairs of an index and a letter.
type step struct {
	ID           string  `json:"id"`
	Elapsed      float64 `json:"elapsed"`
	TargetWeight uint64  `json:"targetWeight,string"`
	Changes      string  `json:"changes"`
	Outcome      string  `json:"outcome,omitempty"`
}

// subscriber is a connected client. The feed's mu guards its fields except from and signal.
type subscriber struct {
	from   netip.Prefix
	queue  [][]byte
	bytes  int
	behind bool          // its queue overflowed, so it gets all rounds instead
	signal chan struct{} // holds one token while the queue is not empty
}

// subscribe adds a client, whose first event is all rounds. It returns nil if there are too many clients, in total or
// from one address.
func (f *feed) subscribe(from netip.Prefix) *subscriber {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.subscribers) >= maxSubscribers || f.by[from] >= maxOfOne {
		return nil
	}
	s := &subscriber{from: from, behind: true, signal: make(chan struct{}, 1)}
	s.signal <- struct{}{}
	f.subscribers[s] = struct{}{}
	f.by[from]++
	f.watchers.Store(int64(len(f.subscribers)))
	return s
}

func (f *feed) unsubscribe(s *subscriber) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.subscribers, s)
	if f.by[s.from]--; f.by[s.from] == 0 {
		delete(f.by, s.from)
	}
	f.watchers.Store(int64(len(f.subscribers)))
	if len(f.subscribers) == 0 {
		clear(f.running) // their ends will not be observed
	}
}

// take returns a client's queued events.
func (f *feed) take(s *subscriber) [][]byte {
	events, known := f.fetch(s)
	if known == nil {
		return events
	}
	return [][]byte{event("rounds", known)} // encoded without the lock
}

// known holds all rounds.
type known struct {
	Running []round `json:"running"`
	Recent  []round `json:"recent"`
}

// fetch empties a client's queue. It returns all rounds if the queue overflowed.
func (f *feed) fetch(s *subscriber) ([][]byte, *known) {
	f.mu.Lock()
	defer f.mu.Unlock()
	events := s.queue
	s.queue, s.bytes = nil, 0
	if !s.behind {
		return events, nil
	}
	s.behind = false
	all := &known{make([]round, 0, len(f.running)), make([]round, 0, len(f.recent))}
	for _, r := range f.running {
		all.Running = append(all.Running, *r)
	}
	for _, r := range f.recent {
		all.Recent = append(all.Recent, *r)
	}
	slices.SortFunc(all.Running, func(a, b round) int { return int(b.Started - a.Started) })
	return nil, all
}

// publish queues an event for every client. It requires mu.
func (f *feed) publish(content []byte) {
	for s := range f.subscribers {
		if s.behind {
			continue
		}
		s.queue, s.bytes = append(s.queue, content), s.bytes+len(content)
		if s.bytes > maxQueued || len(s.queue) > maxEvents {
			s.queue, s.bytes, s.behind = nil, 0, true
		}
		select {
		case s.signal <- struct{}{}:
		default:
		}
	}
}

// set returns the validators of a stored round.
func (f *feed) set(name string) (*validators.Set, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range f.running {
		if r.Set == name {
			return r.set, true
		}
	}
	for _, r := range f.recent {
		if r.Set == name {
			return r.set, true
		}
	}
	return nil, false
}

// id returns the ID of a network's round with a number, which begins at 1 in each process.
func (f *feed) id(network string, number uint64) string {
	return network + "/" + f.process + "/" + strconv.FormatUint(number, 10)
}

func (f *feed) observe(network string, l aggregator.Snapshot) {
	id := f.id(network, l.Round)
	replies := text(l.Replies)
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.subscribers) == 0 {
		return
	}
	r, known := f.running[id]
	if !known {
		if len(f.running) >= maxRunning {
			return
		}
		r = &round{
			ID: id, Network: network, MessageID: l.MessageID.String(), MessageHash: hex.EncodeToString(l.MessageID[:]), SourceBlockchainID: l.SourceChainID.String(),
			SubnetID: l.Set.SubnetID.String(), PChainHeight: l.Set.Height, Set: l.Set.Fingerprint().String(),
			TotalWeight: l.Set.TotalWeight, Started: l.Started.UnixMilli(), set: l.Set,
		}
		f.running[id] = r
	}
	change := step{ID: id, Elapsed: milliseconds(l.Elapsed), TargetWeight: l.TargetWeight, Changes: changes(r.Replies, replies), Outcome: string(l.Outcome)}
	r.Elapsed, r.TargetWeight, r.Replies, r.Outcome = change.Elapsed, l.TargetWeight, replies, string(l.Outcome)
	if l.Outcome != "" {
		delete(f.running, id)
		f.recent = append([]*round{r}, f.recent[:min(len(f.recent), maxRecent-1)]...)
	}
	switch {
	case !known:
		f.publish(event("round", r))
	case l.Outcome != "":
		f.publish(event("end", change))
	default:
		f.publish(event("step", change))
	}
}

func milliseconds(d time.Duration) float64 {
	return float64(d.Round(10*time.Microsecond)) / float64(time.Millisecond)
}

func text(replies []aggregator.Reply) string {
	var b strings.Builder
	b.Grow(len(replies))
	for _, r := range replies {
		b.WriteByte(byte(r))
	}
	return b.String()
}

// changes returns the differences, for example "3s 17r". Both texts have the same length, or before is empty.
func changes(before, after string) string {
	var b []byte
	for i := range len(before) {
		if before[i] == after[i] {
			continue
		}
		if len(b) > 0 {
			b = append(b, ' ')
		}
		b = append(strconv.AppendInt(b, int64(i), 10), after[i])
	}
	return string(b)
}

// event encodes a server-sent event; content must encode without error.
func event(name string, content any) []byte {
	b, err := sse.Event(name, content)
	if err != nil {
		b, _ = sse.Event(name, nil)
	}
	return b
}

// observer observes one network.
type observer struct {
	feed    *feed
	network string
}

// Watching implements aggregator.Observer.
func (o observer) Watching() bool { return o.feed.watchers.Load() > 0 }

// Observe implements aggregator.Observer.
func (o observer) Observe(l aggregator.Snapshot) { o.feed.observe(o.network, l) }

// setView is the answer of /console/api/sets.
type setView struct {
	SubnetID    string          `json:"subnetId"`
	TotalWeight uint64          `json:"totalWeight,string"`
	Validators  []validatorView `json:"validators"`
}

type validatorView struct {
	// NodeID is the first of Nodes, which share the key.
	NodeID string `json:"nodeId"`
	Nodes  int    `json:"nodes"`
	Weight uint64 `json:"weight,string"`
}

func newSetView(s *validators.Set) setView {
	v := setView{SubnetID: s.SubnetID.String(), TotalWeight: s.TotalWeight, Validators: make([]validatorView, len(s.Validators))}
	for i, w := range s.Validators {
		v.Validators[i] = validatorView{Nodes: len(w.NodeIDs), Weight: w.Weight}
		if len(w.NodeIDs) > 0 {
			v.Validators[i].NodeID = w.NodeIDs[0].String()
		}
	}
	return v
}
