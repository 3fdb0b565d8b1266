package p2p

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/network/peer"
	"github.com/ava-labs/avalanchego/proto/pb/p2p"
	"github.com/ava-labs/avalanchego/staking"
	"github.com/ava-labs/avalanchego/utils/ips"
)

const (
	// pullInterval is the time between two requests for peer lists while nodes are missing.
	// Each response has about 15 addresses. Without new addresses or validators the interval
	// grows to idlePullInterval.
	pullInterval     = 500 * time.Millisecond
	idlePullInterval = 10 * time.Second
	// maxClaims bounds how much of one peer list is read. Nodes send 15 entries
	// (avalanchego, utils/constants, DefaultNetworkPeerListNumValidatorIPs).
	maxClaims = 1000
)

// pull requests addresses of other nodes from peers until ctx ends.
func (n *Network) pull(ctx context.Context) {
	wait := pullInterval
	before := 0
	for {
		timer := time.NewTimer(wait)
		added := false
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-n.added:
			timer.Stop()
			added = true
		case <-timer.C:
		}
		lacking, learned := n.lacking(), n.learned.Swap(false)
		if added || lacking > 0 && (learned || lacking != before) {
			wait = pullInterval
		} else {
			wait = min(2*wait, idlePullInterval)
		}
		before = lacking
		if s := n.peerToAsk(); s != nil {
			if framed, err := n.question(); err != nil {
				n.log.Error("cannot request peer lists", "error", err)
			} else {
				s.send(framed)
			}
		}
	}
}

// lacking returns the number of validators that are not connected.
func (n *Network) lacking() int {
	lacking := n.sets.count()
	n.mu.RLock()
	defer n.mu.RUnlock()
	for nodeID := range n.connected {
		if n.sets.knows(nodeID) {
			lacking--
		}
	}
	return lacking
}

// question returns a request for unknown addresses.
func (n *Network) question() ([]byte, error) {
	filter, salt, err := n.candidates.filter()
	if err != nil {
		return nil, err
	}
	return frame(&p2p.Message{Message: &p2p.Message_GetPeerList{GetPeerList: &p2p.GetPeerList{
		KnownPeers: &p2p.BloomFilter{Filter: filter, Salt: salt},
		AllSubnets: true,
	}}})
}

// peerToAsk returns a peer to request addresses from, or nil. Validators of the primary
// network know the validators of all subnets, others only a few.
func (n *Network) peerToAsk() *session {
	n.mu.RLock()
	defer n.mu.RUnlock()
	var chosen *session
	seen, seenPrimary := 0, 0
	for nodeID, s := range n.connected {
		if n.sets.primary(nodeID) {
			if seenPrimary++; rand.IntN(seenPrimary) == 0 {
				chosen = s
			}
		} else if seenPrimary == 0 {
			if seen++; rand.IntN(seen) == 0 {
				chosen = s
			}
		}
	}
	return chosen
}

// learn adds addresses from a peer list, each signed by its node. It returns an error if
// the peer sent a claim that it should have rejected.
func (n *Network) learn(claims []*p2p.ClaimedIpPort) error {
	for _, c := range claims[:min(len(claims), maxClaims)] {
		addr, err := claimedAddr(c.GetIpAddr(), c.GetIpPort())
		if err != nil {
			return err
		}
		// Most claims are not needed; that is checked before the signature.
		nodeID := ids.NodeIDFromCert(&staking.Certificate{Raw: c.GetX509Certificate()})
		if nodeID == n.nodeID || !n.expects(nodeID) || !n.candidates.outdated(nodeID, addr, c.GetTimestamp(), n.Connected(nodeID)) {
			continue
		}
		cert, err := staking.ParseCertificate(c.GetX509Certificate())
		if err != nil {
			return fmt.Errorf("%w: certificate of %s: %w", errMalformed, nodeID, err)
		}
		signed := peer.SignedIP{UnsignedIP: peer.UnsignedIP{AddrPort: addr, Timestamp: c.GetTimestamp()}, TLSSignature: c.GetSignature()}
		if err := signed.Verify(cert, time.Now().Add(maxClockSkew)); err != nil {
			return fmt.Errorf("%w: claim of %s to be at %s: %w", errMalformed, nodeID, addr, err)
		}
		n.learned.Store(true)
		n.want(n.candidates.claimed(nodeID, ips.NewClaimedIPPort(cert, addr, c.GetTimestamp(), c.GetSignature())))
	}
	return nil
}

// expects reports whether an address of nodeID is accepted from any peer. Unlike wants it
// returns false before the first validator sets are known, when any claim could be false.
func (n *Network) expects(nodeID ids.NodeID) bool {
	return n.sets.knows(nodeID) || n.wants(nodeID) && n.candidates.knows(nodeID)
}
