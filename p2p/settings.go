package p2p

import (
	"crypto"
	"crypto/tls"
	"fmt"
	"net/netip"
	"time"

	"github.com/ava-labs/avalanchego/network/peer"
	"github.com/ava-labs/avalanchego/proto/pb/p2p"
	"github.com/ava-labs/avalanchego/upgrade"
	"github.com/ava-labs/avalanchego/utils"
	"github.com/ava-labs/avalanchego/utils/crypto/bls"
)

// upgradeTime is when peers of an older version stop being compatible with us
// (avalanchego, version, GetCompatibility). It has to be moved to the newest
// upgrade whenever the library is replaced by one that brings another.
func upgradeTime(config Config) time.Time {
	if !config.UpgradeTime.IsZero() {
		return config.UpgradeTime
	}
	return upgrade.GetConfig(config.NetworkID).HeliconTime
}

// newSigner signs our address for the handshake.
func newSigner(cert *tls.Certificate, blsKey bls.Signer) (*peer.IPSigner, error) {
	key, ok := cert.PrivateKey.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("identity's key of type %T cannot sign", cert.PrivateKey)
	}
	return peer.NewIPSigner(utils.NewAtomic(nowhere), key, blsKey), nil
}

// nowhere is what clients without a listener claim by convention: the port must not
// be zero, and nobody gossips or dials it.
var nowhere = netip.AddrPortFrom(netip.IPv4Unspecified(), 1)

// frames are the messages that are always the same, framed.
type frames struct {
	// ping says that we have seen nothing of the node's uptime, as we do not
	// watch.
	ping, pong []byte
	// noPeers is a list of no addresses.
	noPeers []byte
}

func newFrames() (f frames, err error) {
	for _, m := range []struct {
		framed  *[]byte
		message *p2p.Message
	}{
		{&f.ping, &p2p.Message{Message: &p2p.Message_Ping{Ping: &p2p.Ping{}}}},
		{&f.pong, &p2p.Message{Message: &p2p.Message_Pong{Pong: &p2p.Pong{}}}},
		{&f.noPeers, &p2p.Message{Message: &p2p.Message_PeerList_{PeerList_: &p2p.PeerList{}}}},
	} {
		if *m.framed, err = frame(m.message); err != nil {
			return frames{}, err
		}
	}
	return f, nil
}
