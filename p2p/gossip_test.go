package p2p

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/message"
	"github.com/ava-labs/avalanchego/proto/pb/p2p"
	snowvalidators "github.com/ava-labs/avalanchego/snow/validators"
	"github.com/ava-labs/avalanchego/utils/bloom"
	"github.com/ava-labs/avalanchego/utils/constants"
)

func claimMessage(t testing.TB, r *remote, at time.Time) *p2p.ClaimedIpPort {
	c := r.claimAt(t, at)
	return &p2p.ClaimedIpPort{
		X509Certificate: c.Cert.Raw,
		IpAddr:          c.AddrPort.Addr().AsSlice(),
		IpPort:          uint32(c.AddrPort.Port()),
		Timestamp:       c.Timestamp,
		Signature:       c.Signature,
	}
}

func TestClaimsAreProven(t *testing.T) {
	r, other := newRemote(t), newRemote(t)
	now := time.Now()
	for _, tc := range []struct {
		name    string
		change  func(*p2p.ClaimedIpPort)
		refused bool
		learned bool
	}{
		{"proper", func(*p2p.ClaimedIpPort) {}, false, true},
		{"other address", func(c *p2p.ClaimedIpPort) { c.IpAddr = []byte{1, 2, 3, 4} }, true, false},
		{"other port", func(c *p2p.ClaimedIpPort) { c.IpPort++ }, true, false},
		{"other time", func(c *p2p.ClaimedIpPort) { c.Timestamp++ }, true, false},
		{"no signature", func(c *p2p.ClaimedIpPort) { c.Signature = nil }, true, false},
		{"no port", func(c *p2p.ClaimedIpPort) { c.IpPort = 0 }, true, false},
		{"no address", func(c *p2p.ClaimedIpPort) { c.IpAddr = nil }, true, false},
		{"signed in the future", func(c *p2p.ClaimedIpPort) {
			future := claimMessage(t, r, now.Add(2*time.Minute))
			c.Timestamp, c.Signature = future.Timestamp, future.Signature
		}, true, false},
		{"signed by another node", func(c *p2p.ClaimedIpPort) { c.X509Certificate = other.cert.Leaf.Raw }, true, false},
		{"of a node that validates nothing", func(c *p2p.ClaimedIpPort) { c.X509Certificate = append(c.X509Certificate, 0) }, false, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			n, err := New(Config{NetworkID: testNetworkID})
			require.NoError(t, err)
			n.SetValidators(map[ids.ID]snowvalidators.WarpSet{constants.PrimaryNetworkID: warpSet(1, r.id, other.id)})
			c := claimMessage(t, r, now)
			tc.change(c)
			err = n.learn([]*p2p.ClaimedIpPort{c})
			require.Equal(t, tc.refused, err != nil, "refused: %v", err)
			if tc.refused {
				require.ErrorIs(t, err, errMalformed)
			}
			require.Equal(t, tc.learned, n.candidates.knows(r.id), "learned")
			require.False(t, n.candidates.knows(other.id))
			require.Equal(t, tc.learned, n.learned.Load())
		})
	}
}

// Before the validators are known, claims of unknown nodes are ignored.
func TestClaimsOfStrangersAreIgnoredAtTheBeginning(t *testing.T) {
	r, seeded := newRemote(t), newRemote(t)
	n, err := New(Config{NetworkID: testNetworkID})
	require.NoError(t, err)
	n.candidates.seeded(Address{NodeID: seeded.id, Addr: seeded.addr()})
	now := time.Now()
	require.NoError(t, n.learn([]*p2p.ClaimedIpPort{claimMessage(t, r, now), claimMessage(t, seeded, now)}))
	require.False(t, n.candidates.knows(r.id))
	require.EqualValues(t, now.Unix(), n.candidates.byNode[seeded.id].claim.Timestamp, "time of the claim of a node that the seeds know")
}

func TestOwnClaimIsIgnored(t *testing.T) {
	dir := t.TempDir()
	cert, nodeID, err := loadIdentity(dir)
	require.NoError(t, err)
	n, err := New(Config{NetworkID: testNetworkID, Dir: dir})
	require.NoError(t, err)
	r := startRemote(t, cert, "127.0.0.1:0")
	n.SetValidators(map[ids.ID]snowvalidators.WarpSet{constants.PrimaryNetworkID: warpSet(1, nodeID)})
	require.NoError(t, n.learn([]*p2p.ClaimedIpPort{claimMessage(t, r, time.Now())}))
	require.False(t, n.candidates.knows(nodeID))
}

func TestLongPeerListsAreCut(t *testing.T) {
	r := newRemote(t)
	n, err := New(Config{NetworkID: testNetworkID})
	require.NoError(t, err)
	n.SetValidators(map[ids.ID]snowvalidators.WarpSet{constants.PrimaryNetworkID: warpSet(1, r.id)})
	filler := claimMessage(t, newRemote(t), time.Now())
	var list []*p2p.ClaimedIpPort
	for range maxClaims {
		list = append(list, filler)
	}
	require.NoError(t, n.learn(append(list, claimMessage(t, r, time.Now()))))
	require.False(t, n.candidates.knows(r.id))
	require.NoError(t, n.learn(append(list[1:], claimMessage(t, r, time.Now()))))
	require.True(t, n.candidates.knows(r.id))
}

// The service disconnects a peer that sends invalid claims, and keeps the others.
func TestForgedPeerListCostsItsConnection(t *testing.T) {
	victim, honest := newRemote(t), newRemote(t)
	forger := newRemote(t, func(r *remote) {
		claim := victim.claim(t)
		claim.Timestamp++
		r.peers = append(r.peers, claim)
	})
	n, err := New(Config{NetworkID: testNetworkID, AllowPrivateIPs: true, MaxReconnectDelay: 10 * time.Millisecond})
	require.NoError(t, err)
	n.SetValidators(map[ids.ID]snowvalidators.WarpSet{constants.PrimaryNetworkID: warpSet(1, victim.id, honest.id, forger.id)})
	run(t, n)
	track(t, n, honest.address())
	track(t, n, forger.address())
	awaitConnected(t, n, honest)
	forger.awaitConnections(t, 3)
	require.Equal(t, 1, honest.connections())
	require.Zero(t, victim.connections())
}

// The service asks peers for addresses, less often when no validator is missing.
func TestPullSlowsDown(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, p *partner) {
		p.n.SetValidators(map[ids.ID]snowvalidators.WarpSet{constants.PrimaryNetworkID: warpSet(1, p.id, ids.NodeID{1})})
		p.greet(nil)
		go p.n.pull(t.Context())
		var pauses []time.Duration
		for range 10 {
			began := time.Now()
			m := next[*p2p.Message_GetPeerList](p)
			require.True(t, m.GetPeerList.AllSubnets)
			_, err := bloom.Parse(m.GetPeerList.KnownPeers.Filter)
			require.NoError(t, err)
			pauses = append(pauses, time.Since(began))
			p.send(messagePing) // stay alive
		}
		require.Equal(t, []time.Duration{0, pullInterval, 2 * pullInterval}, pauses[:3])
		require.Equal(t, idlePullInterval, pauses[9])
		synctest.Wait()

		// A new validator is to be found.
		p.n.SetValidators(map[ids.ID]snowvalidators.WarpSet{constants.PrimaryNetworkID: warpSet(1, p.id, ids.NodeID{1}, ids.NodeID{2})})
		next[*p2p.Message_GetPeerList](p)
		began := time.Now()
		next[*p2p.Message_GetPeerList](p)
		require.Equal(t, pullInterval, time.Since(began))
	})
}

// The service asks a peer for the address of a new validator at once, and then as often as at the start. Sets without
// a new validator change nothing.
func TestNewValidatorIsLookedForAtOnce(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, p *partner) {
		sets := map[ids.ID]snowvalidators.WarpSet{constants.PrimaryNetworkID: warpSet(1, p.id, ids.NodeID{1})}
		p.n.SetValidators(sets)
		p.greet(nil)
		go p.n.pull(t.Context())
		asked := func() time.Duration {
			began := time.Now()
			next[*p2p.Message_GetPeerList](p)
			p.send(messagePing) // stay alive
			return time.Since(began)
		}
		for asked() < idlePullInterval {
		}
		p.n.SetValidators(sets)
		require.Equal(t, idlePullInterval, asked())
		// As many validators as before.
		sets = map[ids.ID]snowvalidators.WarpSet{constants.PrimaryNetworkID: warpSet(1, p.id), {1}: warpSet(1, ids.NodeID{2})}
		p.n.SetValidators(sets)
		require.Zero(t, asked())
		require.Equal(t, pullInterval, asked())
		p.n.SetValidators(sets)
		require.Equal(t, 2*pullInterval, asked())
	})
}

// Validators of the primary network know most addresses, so they are asked.
func TestPrimaryValidatorsAreAsked(t *testing.T) {
	n, err := New(Config{NetworkID: testNetworkID})
	require.NoError(t, err)
	require.Nil(t, n.peerToAsk())
	nodes := testNodes(20)
	for _, nodeID := range nodes {
		n.connected[nodeID] = connectedSession(n, nodeID)
	}
	asked := func() map[ids.NodeID]bool {
		asked := make(map[ids.NodeID]bool)
		for range 1000 {
			asked[n.peerToAsk().nodeID] = true
		}
		return asked
	}
	require.Len(t, asked(), len(nodes), "nodes that are asked before anything is known")
	n.SetValidators(map[ids.ID]snowvalidators.WarpSet{constants.PrimaryNetworkID: warpSet(1, nodes[:3]...), {1}: warpSet(1, nodes[3:]...)})
	require.Equal(t, map[ids.NodeID]bool{nodes[0]: true, nodes[1]: true, nodes[2]: true}, asked())
}

// The library parses the service's requests for peers and its handshake.
func TestOurMessagesAreUnderstood(t *testing.T) {
	n, err := New(Config{NetworkID: testNetworkID})
	require.NoError(t, err)
	codec, err := testCodec()
	require.NoError(t, err)
	greeting, err := n.ownHandshake()
	require.NoError(t, err)
	question, err := n.question()
	require.NoError(t, err)
	for op, framed := range map[message.Op][]byte{
		message.HandshakeOp:   greeting,
		message.GetPeerListOp: question,
		message.PingOp:        n.frames.ping,
		message.PongOp:        n.frames.pong,
		message.PeerListOp:    n.frames.noPeers,
	} {
		msg, err := codec.Parse(framed[frameHeader:], ids.EmptyNodeID, nil)
		require.NoError(t, err, op)
		require.Equal(t, op, msg.Op)
	}
}
