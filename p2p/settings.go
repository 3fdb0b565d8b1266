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

// upgradeTime returns when peers of an older version become incompatible (avalanchego,
// version, GetCompatibility). Change it to the newest upgrade when updating avalanchego.
func upgradeTime(config Config) time.Time {
	if !config.UpgradeTime.IsZero() {
		return config.UpgradeTime
	}
	return upgrade.GetConfig(config.NetworkID).HeliconTime
}

// newSigner returns the signer of the address in the handshake.
func newSigner(cert *tls.Certificate, blsKey bls.Signer) (*peer.IPSigner, error) {
	key, ok := cert.PrivateKey.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("identity's key of type %T cannot sign", cert.PrivateKey)
	}
	return peer.NewIPSigner(utils.NewAtomic(nowhere), key, blsKey), nil
}

// nowhere is the address that clients without a listener claim by convention. The port must
// not be zero, and nodes neither gossip nor dial it.
var nowhere = netip.AddrPortFrom(netip.IPv4Unspecified(), 1)

// frames are the constant messages, framed.
type frames struct {
	// ping reports an unknown uptime of the node: the service does not measure it.
	ping, pong []byte
	// noPeers is an empty peer list.
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
