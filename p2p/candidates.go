package p2p

import (
	"crypto/rand"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/network/peer"
	"github.com/ava-labs/avalanchego/utils/bloom"
	"github.com/ava-labs/avalanchego/utils/ips"
)

const (
	// maxCandidates bounds the nodes with candidate addresses.
	maxCandidates = 20_000
	// filterAge is how long a filter of known peers is used, even if more peers are known
	// meanwhile.
	filterAge = time.Second
	// filterSaltAge is how long a salt is used. A false positive of one filter is not one
	// of the next.
	filterSaltAge = time.Minute

	// A filter has room for at least minFiltered peers and for filterRoomPerNode times the
	// known peers, so that it stays accurate while more are found. Its false positive rate
	// is filterFalseFinds.
	minFiltered       = 128
	filterRoomPerNode = 2
	filterFalseFinds  = .001
	filterSaltSize    = maxBloomSalt
	// maxFilter bounds a filter in bytes, because each handshake carries one. With 10,000
	// nodes, 4 of 100 unknown nodes are false positives until the salt changes.
	maxFilter = 8 << 10
)

// candidate holds the candidate addresses of a node. Addresses from seeds and from the address
// book are unverified: they may be outdated, and another node may answer there. Such an
// attempt fails, and the next attempt uses the next address.
type candidate struct {
	nodeID ids.NodeID
	news   chan struct{} // holds one token if there is an address to try

	// Guarded by the candidates' mu.
	claim   peer.UnsignedIP // the node's own claim, verified by its signature
	claimID ids.ID          // identifies the claim in filters
	met     netip.AddrPort  // where it was last reached; may be invalid
	seed    netip.AddrPort  // latest address from the seeds; may be invalid
	failed  uint            // failed attempts since the last success
	kept    bool            // a goroutine keeps the node connected
	failure Failure         // of the latest attempt
	lost    time.Time       // when the latest connection was lost; zero without one
}

// candidates holds the candidate addresses of all nodes. It is safe for concurrent use.
type candidates struct {
	allowPrivate bool

	mu     sync.Mutex
	byNode map[ids.NodeID]*candidate // guarded by mu

	// The filter of known peers, guarded by mu.
	filtered   []byte
	salt       []byte
	filteredAt time.Time
	saltedAt   time.Time
	stale      bool // there are claims that filtered lacks
}

func newCandidates(allowPrivate bool) *candidates {
	return &candidates{allowPrivate: allowPrivate, byNode: make(map[ids.NodeID]*candidate), stale: true}
}

// seeded adds an address from the seeds, booked one from the address book or of a reached
// node, and claimed one that the node signed. All return nil if there are too many nodes.
func (cs *candidates) seeded(a Address) *candidate {
	return cs.note(a.NodeID, func(c *candidate) bool {
		changed := c.seed != a.Addr
		c.seed = a.Addr
		return changed
	})
}

func (cs *candidates) booked(a Address) *candidate {
	return cs.note(a.NodeID, func(c *candidate) bool {
		changed := c.met != a.Addr
		c.met = a.Addr
		return changed
	})
}

func (cs *candidates) claimed(nodeID ids.NodeID, claim *ips.ClaimedIPPort) *candidate {
	return cs.note(nodeID, func(c *candidate) bool {
		if claim.Timestamp < c.claim.Timestamp {
			return false
		}
		changed := c.claim.AddrPort != claim.AddrPort
		if changed {
			c.failed = 0 // so that it is tried next
		}
		c.claim = peer.UnsignedIP{AddrPort: claim.AddrPort, Timestamp: claim.Timestamp}
		c.claimID = claim.GossipID
		cs.stale = true
		return changed
	})
}

func (cs *candidates) note(nodeID ids.NodeID, change func(*candidate) bool) *candidate {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	c := cs.byNode[nodeID]
	if c == nil {
		if len(cs.byNode) >= maxCandidates && !cs.makeRoom() {
			return nil
		}
		c = &candidate{nodeID: nodeID, news: make(chan struct{}, 1), failure: Failure{Obstacle: ObstacleUntried}}
		cs.byNode[nodeID] = c
	}
	if change(c) {
		select {
		case c.news <- struct{}{}:
		default:
		}
	}
	return c
}

// makeRoom drops the nodes that are not wanted. The caller holds cs.mu.
func (cs *candidates) makeRoom() bool {
	for nodeID, c := range cs.byNode {
		if !c.kept {
			delete(cs.byNode, nodeID)
		}
	}
	return len(cs.byNode) < maxCandidates
}

// outdated reports whether a claim for nodeID is useful: it is newer than the known one,
// and the node is not connected at that address.
func (cs *candidates) outdated(nodeID ids.NodeID, addr netip.AddrPort, timestamp uint64, connected bool) bool {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	c := cs.byNode[nodeID]
	switch {
	case c == nil:
		return true
	case connected && c.claim.AddrPort == addr:
		return false
	}
	return c.claim.Timestamp < timestamp
}

// knows reports whether there is a candidate for nodeID.
func (cs *candidates) knows(nodeID ids.NodeID) bool {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return cs.byNode[nodeID] != nil
}

// choose returns the address for the next attempt: the node's claim, then where it was last
// reached, then the seeds' address, in rotation.
func (cs *candidates) choose(c *candidate) (netip.AddrPort, error) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	var addrs [3]netip.AddrPort
	count := uint(0)
next:
	for _, addr := range [...]netip.AddrPort{c.claim.AddrPort, c.met, c.seed} {
		if !cs.permitted(addr) {
			continue
		}
		for _, other := range addrs[:count] {
			if other == addr {
				continue next
			}
		}
		addrs[count] = addr
		count++
	}
	if count == 0 {
		if dialable(c.claim.AddrPort) || dialable(c.met) || dialable(c.seed) {
			return netip.AddrPort{}, errPrivateAddress
		}
		return netip.AddrPort{}, errNoAddress
	}
	return addrs[c.failed%count], nil
}

func (cs *candidates) permitted(addr netip.AddrPort) bool {
	return dialable(addr) && (cs.allowPrivate || ips.IsPublic(addr.Addr()))
}

// tried notes the result of an attempt at the address of choose.
func (cs *candidates) tried(c *candidate, found bool) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if found {
		c.failed, c.lost = 0, time.Now()
	} else {
		c.failed++
	}
}

// fail notes the failure of the latest attempt.
func (cs *candidates) fail(c *candidate, failure Failure) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	c.failure = failure
}

// failure returns the failure of the latest attempt to connect to nodeID; false if no
// address of it is known.
func (cs *candidates) failure(nodeID ids.NodeID) (Failure, bool) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	c := cs.byNode[nodeID]
	if c == nil {
		return Failure{}, false
	}
	return c.failure, true
}

// lost returns when the latest connection to nodeID was lost.
func (cs *candidates) lost(nodeID ids.NodeID) time.Time {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if c := cs.byNode[nodeID]; c != nil {
		return c.lost
	}
	return time.Time{}
}

// keep marks c as kept, or returns false if it is already.
func (cs *candidates) keep(c *candidate) bool {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if c.kept || cs.byNode[c.nodeID] != c {
		return false
	}
	c.kept = true
	return true
}

// release unmarks c, unless it is wanted again.
func (cs *candidates) release(c *candidate, wants func(ids.NodeID) bool) bool {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if wants(c.nodeID) {
		return false
	}
	c.kept = false
	return true
}

// unkept returns the candidates that no goroutine keeps connected.
func (cs *candidates) unkept() []*candidate {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	var list []*candidate
	for _, c := range cs.byNode {
		if !c.kept {
			list = append(list, c)
		}
	}
	return list
}

// filter returns a Bloom filter of the known claims and its salt, so that peers send other
// claims. The caller must not modify either.
func (cs *candidates) filter() (filter, salt []byte, err error) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	now := time.Now()
	resalt := now.Sub(cs.saltedAt) > filterSaltAge
	if !resalt && (!cs.stale || now.Sub(cs.filteredAt) < filterAge) {
		return cs.filtered, cs.salt, nil
	}
	if resalt {
		cs.salt = make([]byte, filterSaltSize)
		_, _ = rand.Read(cs.salt) // never fails
		cs.saltedAt = now
	}
	hashes, entries := bloom.OptimalParameters(max(filterRoomPerNode*len(cs.byNode), minFiltered), filterFalseFinds)
	if entries > maxFilter {
		hashes, entries = bloom.OptimalHashes(maxFilter, len(cs.byNode)), maxFilter
	}
	f, err := bloom.New(hashes, entries)
	if err != nil {
		return nil, nil, fmt.Errorf("creating a filter of known peers: %w", err)
	}
	for _, c := range cs.byNode {
		if c.claim.Timestamp != 0 {
			bloom.Add(f, c.claimID[:], cs.salt)
		}
	}
	cs.filtered, cs.filteredAt, cs.stale = f.Marshal(), now, false
	return cs.filtered, cs.salt, nil
}
