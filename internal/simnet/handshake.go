package simnet

import (
	"crypto"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"time"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/network/peer"
	p2ppb "github.com/ava-labs/avalanchego/proto/pb/p2p"
	"github.com/ava-labs/avalanchego/staking"
	"github.com/ava-labs/avalanchego/utils"
	"github.com/ava-labs/avalanchego/utils/bloom"
	"github.com/ava-labs/avalanchego/utils/constants"
	"github.com/ava-labs/avalanchego/utils/crypto/bls"
	"github.com/ava-labs/avalanchego/utils/ips"
	"github.com/ava-labs/avalanchego/utils/set"
	"github.com/ava-labs/avalanchego/version"
)

// Limits of messages (avalanchego, network/peer/peer.go).
const (
	maxTrackedSubnets = 16
	maxBloomSalt      = 32
	maxUptime         = 100
)

// errPeer ends a connection whose peer does what a node rejects.
var errPeer = errors.New("rejected message")

// ipSigner signs v's address once, like a node.
func ipSigner(identity *identity, addr netip.AddrPort, signer bls.Signer) *peer.IPSigner {
	return peer.NewIPSigner(utils.NewAtomic(addr), identity.tls.PrivateKey.(crypto.Signer), signer)
}

func (v *Validator) signedIP() (*peer.SignedIP, error) {
	v.mu.Lock()
	signer := v.ips
	v.mu.Unlock()
	return signer.GetSignedIP()
}

// trackedSubnets returns the subnets that v tracks besides the primary network.
func (v *Validator) trackedSubnets() []ids.ID {
	if v.inL1() {
		return []ids.ID{v.network.l1}
	}
	return nil
}

// upgradeTime returns the time of the newest upgrade.
func (n *Network) upgradeTime() time.Time {
	return n.options.upgrades().HeliconTime
}

// sendHandshake sends the handshake, which is every peer's first message.
func (s *session) sendHandshake() error {
	v := s.v
	signed, err := v.signedIP()
	if err != nil {
		return err
	}
	return s.send(v.network.messages.Handshake(
		v.network.options.NetworkID,
		uint64(time.Now().Unix()),
		signed.AddrPort,
		version.Current.Name,
		uint32(version.Current.Major),
		uint32(version.Current.Minor),
		uint32(version.Current.Patch),
		uint64(v.network.upgradeTime().Unix()),
		signed.Timestamp,
		signed.TLSSignature,
		signed.BLSSignatureBytes,
		v.trackedSubnets(),
		nil,
		nil,
		bloom.EmptyFilter.Marshal(),
		nil,
		false,
	))
}

// onHandshake verifies the peer's handshake by the rules of avalanchego
// (network/peer/peer.go, handleHandshake) and sends the peer list that finishes it. It does
// not verify the BLS signature of a validator's address.
func (s *session) onHandshake(m *p2ppb.Handshake) error {
	if s.gotHandshake {
		return fmt.Errorf("%w: second handshake", errPeer)
	}
	n, now := s.v.network, time.Now()
	if m.NetworkId != n.options.NetworkID {
		return fmt.Errorf("%w: network %d", errPeer, m.NetworkId)
	}
	if math.Abs(float64(m.MyTime)-float64(now.Unix())) > constants.DefaultNetworkMaxClockDifference.Seconds() {
		return fmt.Errorf("%w: time %d", errPeer, m.MyTime)
	}
	if err := checkInterests(m); err != nil {
		return err
	}
	if _, err := knownPeers(m.KnownPeers); m.KnownPeers != nil && err != nil {
		return err
	}
	addr, ok := ips.AddrFromSlice(m.IpAddr)
	if port := uint16(m.IpPort); !ok || port == 0 {
		return fmt.Errorf("%w: IP address of %d bytes, port %d", errPeer, len(m.IpAddr), port)
	}
	claim := peer.SignedIP{
		UnsignedIP:   peer.UnsignedIP{AddrPort: netip.AddrPortFrom(addr, uint16(m.IpPort)), Timestamp: m.IpSigningTime},
		TLSSignature: m.IpNodeIdSig,
	}
	if err := claim.Verify(s.cert, now.Add(constants.DefaultNetworkMaxClockDifference)); err != nil {
		return fmt.Errorf("%w: %w", errPeer, err)
	}
	if _, err := bls.SignatureFromBytes(m.IpBlsSig); err != nil {
		return fmt.Errorf("%w: BLS signature: %w", errPeer, err)
	}
	theirs := &version.Application{Name: m.Client.GetName(), Major: int(m.Client.GetMajor()), Minor: int(m.Client.GetMinor()), Patch: int(m.Client.GetPatch())}
	if !version.GetCompatibility(n.upgradeTime()).Compatible(theirs) {
		return fmt.Errorf("%w: version %s", errPeer, theirs)
	}
	s.gotHandshake = true
	// The first list is empty, like between peers that know each other: to parse a list on
	// each of a thousand connections takes longer than all rounds of a test.
	return s.send(n.messages.PeerList(nil, true))
}

// checkInterests verifies a handshake's lists of subnets and ACPs.
func checkInterests(m *p2ppb.Handshake) error {
	if tracked := len(m.TrackedSubnets); tracked > maxTrackedSubnets {
		return fmt.Errorf("%w: %d subnets", errPeer, tracked)
	}
	for _, id := range m.TrackedSubnets {
		if _, err := ids.ToID(id); err != nil {
			return fmt.Errorf("%w: %w", errPeer, err)
		}
	}
	supported := set.Of(m.SupportedAcps...)
	for _, acp := range m.ObjectedAcps {
		if constants.CurrentACPs.Contains(acp) && supported.Contains(acp) {
			return fmt.Errorf("%w: supports and objects to ACP %d", errPeer, acp)
		}
	}
	return nil
}

func knownPeers(m *p2ppb.BloomFilter) (*bloom.ReadFilter, error) {
	filter, err := bloom.Parse(m.GetFilter())
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errPeer, err)
	}
	if salt := len(m.GetSalt()); salt > maxBloomSalt {
		return nil, fmt.Errorf("%w: salt of %d bytes", errPeer, salt)
	}
	return filter, nil
}

// onPeerList finishes the handshake. The addresses have no use: validators do not dial.
func (s *session) onPeerList(m *p2ppb.PeerList) error {
	s.finished = s.gotHandshake
	if !s.finished {
		return nil
	}
	for _, claimed := range m.ClaimedIpPorts {
		_, err := staking.ParseCertificate(claimed.X509Certificate)
		if _, ok := ips.AddrFromSlice(claimed.IpAddr); err != nil || !ok || uint16(claimed.IpPort) == 0 {
			return fmt.Errorf("%w: peer list", errPeer)
		}
	}
	return nil
}

// onGetPeerList sends addresses of running validators that the peer does not know.
func (s *session) onGetPeerList(m *p2ppb.GetPeerList) error {
	if !s.finished {
		return nil
	}
	filter, err := knownPeers(m.GetKnownPeers())
	if err != nil {
		return err
	}
	n := s.v.network
	list := n.peerList(s.nodeID, filter, m.GetKnownPeers().GetSalt(), int(time.Now().UnixNano()%int64(len(n.validators))))
	if len(list) == 0 {
		return nil
	}
	return s.send(n.messages.PeerList(list, false))
}

// peerList returns addresses of running validators, beginning with the turn-th one, except
// those that the peer has or knows.
func (n *Network) peerList(nodeID ids.NodeID, known *bloom.ReadFilter, salt []byte, turn int) []*ips.ClaimedIPPort {
	var list []*ips.ClaimedIPPort
	for i := range n.validators {
		v := n.validators[(turn+i)%len(n.validators)]
		if v.NodeID == nodeID || !v.listening() {
			continue
		}
		signed, err := v.signedIP()
		if err != nil {
			continue
		}
		claim := ips.NewClaimedIPPort(v.identity.cert, signed.AddrPort, signed.Timestamp, signed.TLSSignature)
		if bloom.Contains(known, claim.GossipID[:], salt) {
			continue
		}
		if list = append(list, claim); len(list) == constants.DefaultNetworkPeerListNumValidatorIPs {
			break
		}
	}
	return list
}

// ping sends pings until the connection ends.
func (s *session) ping() {
	ticker := time.NewTicker(constants.DefaultPingFrequency)
	defer ticker.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-ticker.C:
			s.pinged.Store(true)
			if s.send(s.v.network.messages.Ping(maxUptime)) != nil {
				return
			}
		}
	}
}
