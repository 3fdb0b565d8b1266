package p2p

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"time"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/network/peer"
	"github.com/ava-labs/avalanchego/proto/pb/p2p"
	"github.com/ava-labs/avalanchego/staking"
	"github.com/ava-labs/avalanchego/utils/bloom"
	"github.com/ava-labs/avalanchego/utils/constants"
	"github.com/ava-labs/avalanchego/utils/crypto/bls"
	"github.com/ava-labs/avalanchego/utils/ips"
	"github.com/ava-labs/avalanchego/utils/set"
	"github.com/ava-labs/avalanchego/version"
)

// Limits of a handshake (avalanchego, network/peer).
const (
	maxTrackedSubnets = 16
	maxBloomSalt      = 32
	maxClockSkew      = constants.DefaultNetworkMaxClockDifference
)

// errHandshake reports that a node's handshake is rejected.
var errHandshake = errors.New("handshake refused")

// handshake is the verified content of a node's handshake.
type handshake struct {
	version     *version.Application
	upgradeTime uint64 // Unix seconds; the newest upgrade that the node knows
	claim       peer.UnsignedIP
	// tracked are the subnets that the node follows, including the primary network.
	tracked []ids.ID
	// supported and objected are undecided ACPs.
	supported, objected []uint32
}

// ownHandshake returns this service's handshake.
func (n *Network) ownHandshake() ([]byte, error) {
	signed, err := n.signer.GetSignedIP()
	if err != nil {
		return nil, fmt.Errorf("signing our address: %w", err)
	}
	filter, salt, err := n.candidates.filter()
	if err != nil {
		return nil, err
	}
	ours := n.compatible.Current
	return frame(&p2p.Message{Message: &p2p.Message_Handshake{Handshake: &p2p.Handshake{
		NetworkId:     n.config.NetworkID,
		MyTime:        uint64(time.Now().Unix()),
		IpAddr:        signed.AddrPort.Addr().AsSlice(),
		IpPort:        uint32(signed.AddrPort.Port()),
		UpgradeTime:   uint64(n.compatible.UpgradeTime.Unix()),
		IpSigningTime: signed.Timestamp,
		IpNodeIdSig:   signed.TLSSignature,
		IpBlsSig:      signed.BLSSignatureBytes,
		Client: &p2p.Client{
			Name:  ours.Name,
			Major: uint32(ours.Major),
			Minor: uint32(ours.Minor),
			Patch: uint32(ours.Patch),
		},
		KnownPeers: &p2p.BloomFilter{Filter: filter, Salt: salt},
		// Request addresses of the validators of all subnets.
		AllSubnets: true,
	}}})
}

// check verifies a node's handshake by the rules of avalanchego, network/peer,
// handleHandshake. cert is the certificate of the TLS handshake.
func (n *Network) check(m *p2p.Handshake, cert *staking.Certificate) (*handshake, error) {
	if m.GetNetworkId() != n.config.NetworkID {
		return nil, &handshakeError{Failure{ObstacleNetwork, strconv.FormatUint(uint64(m.GetNetworkId()), 10)}, fmt.Sprintf("network %d, not %d", m.GetNetworkId(), n.config.NetworkID)}
	}
	now := time.Now()
	if skew := clockSkew(m.GetMyTime(), uint64(now.Unix())); skew > uint64(maxClockSkew/time.Second) {
		return nil, &handshakeError{Failure{ObstacleClock, fmt.Sprintf("%d s", skew)}, fmt.Sprintf("its clock is off by %d s", skew)}
	}
	h := &handshake{
		version: &version.Application{
			Name:  version.Client, // the name in the message is ignored; it may be of any length
			Major: int(m.GetClient().GetMajor()),
			Minor: int(m.GetClient().GetMinor()),
			Patch: int(m.GetClient().GetPatch()),
		},
		upgradeTime: m.GetUpgradeTime(),
	}
	if !n.compatible.Compatible(h.version) {
		return nil, &handshakeError{Failure{ObstacleVersion, h.version.Semantic()}, fmt.Sprintf("%v: %s", errIncompatible, h.version.Semantic())}
	}
	if err := h.interests(m); err != nil {
		return nil, err
	}
	addr, err := claimedAddr(m.GetIpAddr(), m.GetIpPort())
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errHandshake, err)
	}
	signed := peer.SignedIP{
		UnsignedIP:   peer.UnsignedIP{AddrPort: addr, Timestamp: m.GetIpSigningTime()},
		TLSSignature: m.GetIpNodeIdSig(),
	}
	if err := signed.Verify(cert, now.Add(maxClockSkew)); err != nil {
		return nil, fmt.Errorf("%w: claim of %s: %w", errHandshake, addr, err)
	}
	if _, err := bls.SignatureFromBytes(m.GetIpBlsSig()); err != nil {
		return nil, fmt.Errorf("%w: BLS signature: %w", errHandshake, err)
	}
	h.claim = signed.UnsignedIP
	return h, nil
}

func clockSkew(a, b uint64) uint64 { return max(a, b) - min(a, b) }

// interests parses the parts of a handshake about subnets, ACPs and known peers. The
// service does not serve these requests, but rejects nodes that send them malformed.
func (h *handshake) interests(m *p2p.Handshake) error {
	if got := len(m.GetTrackedSubnets()); got > maxTrackedSubnets {
		return fmt.Errorf("%w: tracks %d subnets, more than %d", errHandshake, got, maxTrackedSubnets)
	}
	tracked := set.Of(constants.PrimaryNetworkID)
	for _, b := range m.GetTrackedSubnets() {
		id, err := ids.ToID(b)
		if err != nil {
			return fmt.Errorf("%w: subnet: %w", errHandshake, err)
		}
		tracked.Add(id)
	}
	supported, objected := open(m.GetSupportedAcps()), open(m.GetObjectedAcps())
	for acp := range objected {
		if supported.Contains(acp) {
			return fmt.Errorf("%w: both supports and objects to ACP %d", errHandshake, acp)
		}
	}
	h.tracked, h.supported, h.objected = tracked.List(), supported.List(), objected.List()
	if m.GetKnownPeers() == nil {
		return nil
	}
	if _, err := bloom.Parse(m.GetKnownPeers().GetFilter()); err != nil {
		return fmt.Errorf("%w: filter of known peers: %w", errHandshake, err)
	}
	if got := len(m.GetKnownPeers().GetSalt()); got > maxBloomSalt {
		return fmt.Errorf("%w: salt of %d bytes, more than %d", errHandshake, got, maxBloomSalt)
	}
	return nil
}

// open returns the undecided ones of acps. Others are dropped, so that the size is bounded.
func open(acps []uint32) set.Set[uint32] {
	found := set.Of[uint32]()
	for _, acp := range acps {
		if constants.CurrentACPs.Contains(acp) {
			found.Add(acp)
		}
	}
	return found
}

// claimedAddr parses an address of a message.
func claimedAddr(ip []byte, port uint32) (netip.AddrPort, error) {
	addr, ok := ips.AddrFromSlice(ip)
	if !ok {
		return netip.AddrPort{}, fmt.Errorf("%w: IP address of %d bytes", errMalformed, len(ip))
	}
	if uint16(port) == 0 {
		return netip.AddrPort{}, fmt.Errorf("%w: port %d", errMalformed, port)
	}
	return netip.AddrPortFrom(addr, uint16(port)), nil
}
