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
func (ps *candidates) seeded(a Address) *candidate {
	return ps.note(a.NodeID, func(p *candidate) bool {
		changed := p.seed != a.Addr
		p.seed = a.Addr
		return changed
	})
}

func (ps *candidates) booked(a Address) *candidate {
	return ps.note(a.NodeID, func(p *candidate) bool {
		changed := p.met != a.Addr
		p.met = a.Addr
		return changed
	})
}

func (ps *candidates) claimed(nodeID ids.NodeID, claim *ips.ClaimedIPPort) *candidate {
	return ps.note(nodeID, func(p *candidate) bool {
		if claim.Timestamp < p.claim.Timestamp {
			return false
		}
		changed := p.claim.AddrPort != claim.AddrPort
		if changed {
			p.failed = 0 // so that it is tried next
		}
		p.claim = peer.UnsignedIP{AddrPort: claim.AddrPort, Timestamp: claim.Timestamp}
		p.claimID = claim.GossipID
		ps.stale = true
		return changed
	})
}

func (ps *candidates) note(nodeID ids.NodeID, change func(*candidate) bool) *candidate {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	p := ps.byNode[nodeID]
	if p == nil {
		if len(ps.byNode) >= maxCandidates && !ps.makeRoom() {
			return nil
		}
		p = &candidate{nodeID: nodeID, news: make(chan struct{}, 1), failure: Failure{Obstacle: ObstacleUntried}}
		ps.byNode[nodeID] = p
	}
	if change(p) {
		select {
		case p.news <- struct{}{}:
		default:
		}
	}
	return p
}

// makeRoom drops the nodes that are not wanted. The caller holds ps.mu.
func (ps *candidates) makeRoom() bool {
	for nodeID, p := range ps.byNode {
		if !p.kept {
			delete(ps.byNode, nodeID)
		}
	}
	return len(ps.byNode) < maxCandidates
}

// outdated reports whether a claim for nodeID is useful: it is newer than the known one,
// and the node is not connected at that address.
func (ps *candidates) outdated(nodeID ids.NodeID, addr netip.AddrPort, timestamp uint64, connected bool) bool {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	p := ps.byNode[nodeID]
	switch {
	case p == nil:
		return true
	case connected && p.claim.AddrPort == addr:
		return false
	}
	return p.claim.Timestamp < timestamp
}

// knows reports whether there is a candidate for nodeID.
func (ps *candidates) knows(nodeID ids.NodeID) bool {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	return ps.byNode[nodeID] != nil
}

// choose returns the address for the next attempt: the node's claim, then where it was last
// reached, then the seeds' address, in rotation.
func (ps *candidates) choose(p *candidate) (netip.AddrPort, error) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	var addrs [3]netip.AddrPort
	count := uint(0)
next:
	for _, addr := range [...]netip.AddrPort{p.claim.AddrPort, p.met, p.seed} {
		if !ps.permitted(addr) {
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
		if dialable(p.claim.AddrPort) || dialable(p.met) || dialable(p.seed) {
			return netip.AddrPort{}, errPrivateAddress
		}
		return netip.AddrPort{}, errNoAddress
	}
	return addrs[p.failed%count], nil
}

func (ps *candidates) permitted(addr netip.AddrPort) bool {
	return dialable(addr) && (ps.allowPrivate || ips.IsPublic(addr.Addr()))
}

// tried notes the result of an attempt at the address of choose.
func (ps *candidates) tried(p *candidate, found bool) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if found {
		p.failed, p.lost = 0, time.Now()
	} else {
		p.failed++
	}
}

// fail notes the failure of the latest attempt.
func (ps *candidates) fail(p *candidate, failure Failure) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	p.failure = failure
}

// failure returns the failure of the latest attempt to connect to nodeID; false if no
// address of it is known.
func (ps *candidates) failure(nodeID ids.NodeID) (Failure, bool) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	p := ps.byNode[nodeID]
	if p == nil {
		return Failure{}, false
	}
	return p.failure, true
}

// lost returns when the latest connection to nodeID was lost.
func (ps *candidates) lost(nodeID ids.NodeID) time.Time {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if p := ps.byNode[nodeID]; p != nil {
		return p.lost
	}
	return time.Time{}
}

// keep marks p as kept, or returns false if it is already.
func (ps *candidates) keep(p *candidate) bool {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if p.kept || ps.byNode[p.nodeID] != p {
		return false
	}
	p.kept = true
	return true
}

// release unmarks p, unless it is wanted again.
func (ps *candidates) release(p *candidate, wants func(ids.NodeID) bool) bool {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if wants(p.nodeID) {
		return false
	}
	p.kept = false
	return true
}

// unkept returns the candidates that no goroutine keeps connected.
func (ps *candidates) unkept() []*candidate {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	var list []*candidate
	for _, p := range ps.byNode {
		if !p.kept {
			list = append(list, p)
		}
	}
	return list
}

// filter returns a Bloom filter of the known claims and its salt, so that peers send other
// claims. The caller must not modify either.
func (ps *candidates) filter() (filter, salt []byte, err error) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	now := time.Now()
	resalt := now.Sub(ps.saltedAt) > filterSaltAge
	if !resalt && (!ps.stale || now.Sub(ps.filteredAt) < filterAge) {
		return ps.filtered, ps.salt, nil
	}
	if resalt {
		ps.salt = make([]byte, filterSaltSize)
		_, _ = rand.Read(ps.salt) // never fails
		ps.saltedAt = now
	}
	hashes, entries := bloom.OptimalParameters(max(filterRoomPerNode*len(ps.byNode), minFiltered), filterFalseFinds)
	if entries > maxFilter {
		hashes, entries = bloom.OptimalHashes(maxFilter, len(ps.byNode)), maxFilter
	}
	f, err := bloom.New(hashes, entries)
	if err != nil {
		return nil, nil, fmt.Errorf("creating a filter of known peers: %w", err)
	}
	for _, p := range ps.byNode {
		if p.claim.Timestamp != 0 {
			bloom.Add(f, p.claimID[:], ps.salt)
		}
	}
	ps.filtered, ps.filteredAt, ps.stale = f.Marshal(), now, false
	return ps.filtered, ps.salt, nil
}
