package p2p

import (
	"encoding/binary"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/bloom"
	"github.com/ava-labs/avalanchego/utils/ips"
)

func claimOf(nodeID ids.NodeID, addr netip.AddrPort, timestamp uint64) *ips.ClaimedIPPort {
	return &ips.ClaimedIPPort{NodeID: nodeID, AddrPort: addr, Timestamp: timestamp, GossipID: ids.ID{byte(timestamp)}}
}

func TestAddressesAreTriedInTurn(t *testing.T) {
	a, b, c := netip.MustParseAddrPort("1.1.1.1:1"), netip.MustParseAddrPort("2.2.2.2:2"), netip.MustParseAddrPort("3.3.3.3:3")
	private, nowhere := netip.MustParseAddrPort("10.0.0.1:1"), netip.MustParseAddrPort("0.0.0.0:1")
	var none netip.AddrPort
	for _, tc := range []struct {
		name             string
		claim, met, seed netip.AddrPort
		want             []netip.AddrPort
	}{
		{"all different", a, b, c, []netip.AddrPort{a, b, c, a}},
		{"claimed where it was met", a, a, c, []netip.AddrPort{a, c, a}},
		{"all the same", a, a, a, []netip.AddrPort{a, a}},
		{"seed only", none, none, c, []netip.AddrPort{c, c}},
		{"private claim", private, b, c, []netip.AddrPort{b, c, b}},
		{"claim of nowhere", nowhere, none, c, []netip.AddrPort{c, c}},
		{"none that may be dialled", private, nowhere, none, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cs := newCandidates(false)
			nodeID := ids.NodeID{1}
			p := cs.seeded(Address{NodeID: nodeID, Addr: tc.seed})
			cs.booked(Address{NodeID: nodeID, Addr: tc.met})
			cs.claimed(nodeID, claimOf(nodeID, tc.claim, 1))
			for i, want := range tc.want {
				got, err := cs.choose(p)
				require.NoError(t, err)
				require.Equal(t, want, got, "attempt %d", i)
				cs.tried(p, false)
			}
			if tc.want == nil {
				_, err := cs.choose(p)
				require.ErrorIs(t, err, errNoAddress)
			}
		})
	}
}

func TestNewerClaimWins(t *testing.T) {
	a, b := netip.MustParseAddrPort("1.1.1.1:1"), netip.MustParseAddrPort("2.2.2.2:2")
	nodeID := ids.NodeID{1}
	cs := newCandidates(false)
	require.True(t, cs.outdated(nodeID, a, 1, false), "a claim of a node without a candidate is news")
	p := cs.claimed(nodeID, claimOf(nodeID, a, 10))
	for _, tc := range []struct {
		name      string
		addr      netip.AddrPort
		timestamp uint64
		connected bool
		want      bool
	}{
		{"older", b, 9, false, false},
		{"as old", b, 10, false, false},
		{"newer", b, 11, false, true},
		{"newer, same address", a, 11, false, true},
		{"newer, connected elsewhere", b, 11, true, true},
		{"newer, connected there", a, 11, true, false},
	} {
		require.Equal(t, tc.want, cs.outdated(nodeID, tc.addr, tc.timestamp, tc.connected), tc.name)
	}
	cs.tried(p, false)
	cs.claimed(nodeID, claimOf(nodeID, b, 9))
	got, err := cs.choose(p)
	require.NoError(t, err)
	require.Equal(t, a, got, "after an older claim")
	cs.claimed(nodeID, claimOf(nodeID, b, 11))
	got, err = cs.choose(p)
	require.NoError(t, err)
	require.Equal(t, b, got, "after a newer claim, attempts start over")
}

func TestCandidatesAreBounded(t *testing.T) {
	cs := newCandidates(true)
	node := func(i int) ids.NodeID {
		var nodeID ids.NodeID
		binary.BigEndian.PutUint32(nodeID[:], uint32(i))
		return nodeID
	}
	addr := netip.MustParseAddrPort("1.2.3.4:1")
	for i := range maxCandidates {
		require.True(t, cs.keep(cs.seeded(Address{NodeID: node(i), Addr: addr})))
	}
	require.Nil(t, cs.seeded(Address{NodeID: node(maxCandidates), Addr: addr}), "candidate beyond the bound")
	p := cs.seeded(Address{NodeID: node(5), Addr: addr})
	require.NotNil(t, p, "known candidate")
	require.False(t, cs.keep(p), "kept twice")
	require.False(t, cs.release(p, func(ids.NodeID) bool { return true }), "released though it is wanted")
	require.True(t, cs.release(p, func(ids.NodeID) bool { return false }))
	require.NotNil(t, cs.seeded(Address{NodeID: node(maxCandidates), Addr: addr}), "an unwanted node makes room")
	require.False(t, cs.keep(p), "kept though it was given away")
	require.Len(t, cs.byNode, maxCandidates)
}

func TestFilterHoldsTheClaims(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cs := newCandidates(true)
		addr := netip.MustParseAddrPort("1.2.3.4:1")
		holds := func(timestamp uint64) bool {
			b, salt, err := cs.filter()
			require.NoError(t, err)
			require.LessOrEqual(t, len(salt), maxBloomSalt)
			filter, err := bloom.Parse(b)
			require.NoError(t, err)
			id := ids.ID{byte(timestamp)}
			return bloom.Contains(filter, id[:], salt)
		}
		require.False(t, holds(1))
		cs.claimed(ids.NodeID{1}, claimOf(ids.NodeID{1}, addr, 1))
		cs.seeded(Address{NodeID: ids.NodeID{2}, Addr: addr})
		require.False(t, holds(1), "right after the last filter, this one is still good")
		time.Sleep(filterAge)
		require.True(t, holds(1))
		require.False(t, holds(2))
		_, salt, err := cs.filter()
		require.NoError(t, err)
		time.Sleep(filterSaltAge + 1)
		_, again, err := cs.filter()
		require.NoError(t, err)
		require.NotEqual(t, salt, again, "salt after a while")
		require.True(t, holds(1))
		// A newer claim replaces the older one.
		cs.claimed(ids.NodeID{1}, claimOf(ids.NodeID{1}, addr, 3))
		time.Sleep(filterAge)
		require.True(t, holds(3))
		require.False(t, holds(1))
	})
}

// TestFilterOfMany checks the filter that handshakes carry, with ten thousand nodes.
func TestFilterOfMany(t *testing.T) {
	cs := newCandidates(true)
	const nodes = 10_000
	id := func(i int) ids.NodeID { return ids.NodeID{byte(i >> 8), byte(i), 1} }
	for i := range nodes {
		claim := claimOf(id(i), netip.MustParseAddrPort("1.2.3.4:1"), uint64(i+1))
		claim.GossipID = ids.Empty.Prefix(uint64(i))
		require.NotNil(t, cs.claimed(id(i), claim))
	}
	b, salt, err := cs.filter()
	require.NoError(t, err)
	require.LessOrEqual(t, len(b), maxFilter+bytesOfHashes)
	filter, err := bloom.Parse(b)
	require.NoError(t, err)
	for i := range nodes {
		known := cs.byNode[id(i)].claimID
		require.True(t, bloom.Contains(filter, known[:], salt), "node %d is not in it", i)
	}
	found := 0
	for i := range nodes {
		other := ids.Empty.Prefix(uint64(nodes + i))
		if bloom.Contains(filter, other[:], salt) {
			found++
		}
	}
	require.Less(t, found, nodes/10, "of %d that are not in it", nodes)
}

// bytesOfHashes is more than what a filter of 16 hashes has besides its entries.
const bytesOfHashes = 1 + 16*8
