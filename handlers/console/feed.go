package console

import (
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
	// maxOfOne is how many of them may be of one client address.
	maxOfOne   = 8
	maxRunning = 64
	maxRecent  = 16
	// maxQueued is what may wait for a client, in bytes.
	maxQueued = 1 << 20
	// maxEvents is how many events may wait for a client.
	maxEvents = 1024
)

// feed knows the rounds that run, and those that were last, while somebody watches.
// Safe for concurrent use.
type feed struct {
	watchers atomic.Int64 // len(subscribers)

	mu          sync.Mutex
	subscribers map[*subscriber]struct{} // guarded by mu
	by          map[netip.Prefix]int     // subscribers of one address; guarded by mu; never has zeros
	running     map[string]*round        // by ID; guarded by mu
	recent      []*round                 // newest first; guarded by mu
}

func newFeed() *feed {
	return &feed{subscribers: make(map[*subscriber]struct{}), by: make(map[netip.Prefix]int), running: make(map[string]*round)}
}

// round is one that is shown. Its members are those of the event round.
type round struct {
	// ID is the network and the round's number there.
	ID        string `json:"id"`
	Network   string `json:"network"`
	MessageID string `json:"messageId"`
	// MessageHash is MessageID as the SHA-256 of the message in hex.
	MessageHash        string `json:"messageHash"`
	SourceBlockchainID string `json:"sourceBlockchainId"`
	SubnetID           string `json:"signingSubnetId"`
	PChainHeight       uint64 `json:"pChainHeight"`
	// Set names the validators, for /console/api/sets.
	Set          string `json:"set"`
	TotalWeight  uint64 `json:"totalWeight,string"`
	TargetWeight uint64 `json:"targetWeight,string"`
	// Started is in milliseconds since 1970, Elapsed in milliseconds.
	Started int64   `json:"startedAt"`
	Elapsed float64 `json:"elapsed"`
	// Replies has a letter for each validator, an aggregator.Reply.
	Replies string `json:"replies"`
	// Outcome is empty while it runs.
	Outcome string `json:"outcome"`

	set *validators.Set
}

// step is what has changed in a round. Changes are an index and a letter each.
type step struct {
	ID           string  `json:"id"`
	Elapsed      float64 `json:"elapsed"`
	TargetWeight uint64  `json:"targetWeight,string"`
	Changes      string  `json:"changes"`
	Outcome      string  `json:"outcome,omitempty"`
}

// subscriber is a client. Its members but from and signal are guarded by the feed's mu.
type subscriber struct {
	from   netip.Prefix
	queue  [][]byte
	bytes  int
	behind bool          // too much was waiting: it gets all that is known instead
	signal chan struct{} // holds one token while something waits
}

// subscribe adds a client, who finds all that is known first; nil if there are too
// many, in all or from there.
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
		clear(f.running) // nobody will tell how they end
	}
}

// take returns what waits for a client.
func (f *feed) take(s *subscriber) [][]byte {
	events, known := f.fetch(s)
	if known == nil {
		return events
	}
	return [][]byte{event("rounds", known)} // which takes its time, while rounds go on
}

// known is what somebody who comes later has to be told.
type known struct {
	Running []round `json:"running"`
	Recent  []round `json:"recent"`
}

// fetch empties a client's queue; it is all that is known if too much was waiting.
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

// tell queues an event for every client. It needs mu.
func (f *feed) tell(content []byte) {
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

// set finds the validators of a round that is known.
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

func (f *feed) observe(network string, l aggregator.Look) {
	id := network + "/" + strconv.FormatUint(l.Round, 10)
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
		f.tell(event("round", r))
	case l.Outcome != "":
		f.tell(event("end", change))
	default:
		f.tell(event("step", change))
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

// changes lists what differs, as in "3s 17r". Both are of one length, or before is
// empty.
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

// event is a server-sent event; content has no error to make of it.
func event(name string, content any) []byte {
	b, err := sse.Event(name, content)
	if err != nil {
		b, _ = sse.Event(name, nil)
	}
	return b
}

// observer is one network's.
type observer struct {
	feed    *feed
	network string
}

// Watching implements aggregator.Observer.
func (o observer) Watching() bool { return o.feed.watchers.Load() > 0 }

// Observe implements aggregator.Observer.
func (o observer) Observe(l aggregator.Look) { o.feed.observe(o.network, l) }

// setView is the answer of /console/api/sets.
type setView struct {
	SubnetID    string          `json:"subnetId"`
	TotalWeight uint64          `json:"totalWeight,string"`
	Validators  []validatorView `json:"validators"`
}

type validatorView struct {
	// NodeID is the first of Nodes that share the key.
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
