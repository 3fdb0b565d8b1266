package p2p

import (
	"bytes"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/DataDog/zstd"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/message"
	"github.com/ava-labs/avalanchego/proto/pb/p2p"
)

var testDecoder = sync.OnceValues(newDecoder)

// decoded is a message that was read, nil if it says nothing to us.
func decoded(b []byte) (*p2p.Message, error) {
	d, err := testDecoder()
	if err != nil {
		return nil, err
	}
	var got *p2p.Message
	_, err = d.decode(b, func(c content) error {
		switch {
		case c.isResponse:
			got = &p2p.Message{Message: &p2p.Message_AppResponse{AppResponse: &p2p.AppResponse{
				ChainId:   bytes.Clone(c.response.chainID),
				RequestId: c.response.requestID,
				AppBytes:  bytes.Clone(c.response.appBytes),
			}}}
		case c.other != nil:
			got = proto.Clone(c.other).(*p2p.Message)
		}
		return nil
	})
	return got, err
}

// known is the message that the library reads, nil if it says nothing to us.
func known(b []byte) (*p2p.Message, error) {
	codec, err := testCodec()
	if err != nil {
		return nil, err
	}
	msg, err := codec.Parse(b, ids.EmptyNodeID, nil)
	if err != nil {
		return nil, err
	}
	switch m := msg.Message.(type) {
	case *p2p.AppResponse:
		return &p2p.Message{Message: &p2p.Message_AppResponse{AppResponse: m}}, nil
	case *p2p.AppError:
		return &p2p.Message{Message: &p2p.Message_AppError{AppError: m}}, nil
	case *p2p.Ping:
		return &p2p.Message{Message: &p2p.Message_Ping{Ping: m}}, nil
	case *p2p.Pong:
		return &p2p.Message{Message: &p2p.Message_Pong{Pong: m}}, nil
	case *p2p.Handshake:
		return &p2p.Message{Message: &p2p.Message_Handshake{Handshake: m}}, nil
	case *p2p.PeerList:
		return &p2p.Message{Message: &p2p.Message_PeerList_{PeerList_: m}}, nil
	case *p2p.GetPeerList:
		return &p2p.Message{Message: &p2p.Message_GetPeerList{GetPeerList: m}}, nil
	}
	return nil, nil
}

// heeded drops messages that are ignored, because how far they are parsed does not matter.
func heeded(m *p2p.Message) *p2p.Message {
	switch m.GetMessage().(type) {
	case *p2p.Message_Ping, *p2p.Message_Pong, *p2p.Message_Handshake, *p2p.Message_PeerList_,
		*p2p.Message_GetPeerList, *p2p.Message_AppResponse, *p2p.Message_AppError:
		return m
	}
	return nil
}

// The parser accepts what the library accepts. It ignores unknown fields, which the library keeps.
func FuzzDecodeLikeTheLibrary(f *testing.F) {
	for _, m := range samples(f) {
		f.Add(m, false)
		f.Add(m, true)
	}
	for _, m := range odd(f, 1) {
		if len(m) < 1<<16 {
			f.Add(m, false)
		}
	}
	// Two members, of which the last one counts; parts of one, which are merged;
	// members in an unusual order; a wrong wire type; a known member with more.
	response := func(fields ...[]byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(nil, fieldAppResponse, protowire.BytesType), bytes.Join(fields, nil))
	}
	chain := protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), testChain[:])
	id := protowire.AppendVarint(protowire.AppendTag(nil, 2, protowire.VarintType), 1<<40+7)
	text := protowire.AppendBytes(protowire.AppendTag(nil, 3, protowire.BytesType), []byte("x"))
	f.Add(append(response(chain), samples(f)["ping"]...), false)
	f.Add(append(samples(f)["ping"], response(chain)...), true)
	f.Add(append(response(chain, id), response(text)...), false)
	f.Add(response(text, id, chain, text), false)
	f.Add(response(protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), 1)), false)
	f.Add(response(chain, id, text, protowire.AppendVarint(protowire.AppendTag(nil, 9, protowire.VarintType), 1)), true)
	f.Fuzz(func(t *testing.T, b []byte, compressed bool) {
		if compressed {
			z, err := zstd.Compress(nil, b)
			require.NoError(t, err)
			b = protowire.AppendBytes(protowire.AppendTag(nil, fieldZstd, protowire.BytesType), z)
		}
		got, err := decoded(b)
		want, wantErr := known(b)
		if err != nil && !errors.Is(err, errNotAMessage) {
			t.Fatalf("error %v is none that we know", err)
		}
		got, want = heeded(got), heeded(want)
		if want == nil {
			if got != nil {
				t.Fatalf("got %v, want nothing (library: %v)", got, wantErr)
			}
			return
		}
		if err != nil {
			t.Fatalf("got error %v, want %v", err, want)
		}
		if g, w := withoutUnknown(t, got), withoutUnknown(t, want); !proto.Equal(g, w) {
			t.Fatalf("got %v, want %v", g, w)
		}
	})
}

func withoutUnknown(t *testing.T, m *p2p.Message) *p2p.Message {
	t.Helper()
	b, err := proto.Marshal(m)
	require.NoError(t, err)
	known := new(p2p.Message)
	require.NoError(t, proto.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(b, known))
	return known
}

// samples are messages as the library writes them.
func samples(t testing.TB) map[string][]byte {
	t.Helper()
	codec, err := testCodec()
	require.NoError(t, err)
	all := make(map[string][]byte)
	add := func(name string, m *message.OutboundMessage, err error) {
		require.NoError(t, err)
		all[name] = m.Bytes
	}
	m, err := codec.Ping(99)
	add("ping", m, err)
	m, err = codec.Pong()
	add("pong", m, err)
	m, err = codec.AppResponse(testChain, 7, make([]byte, 98))
	add("response", m, err)
	m, err = codec.AppError(testChain, 7, -3, "text")
	add("error", m, err)
	m, err = codec.PeerList(nil, false)
	add("peer list", m, err)
	m, err = codec.GetPeerList([]byte{1}, []byte{2}, true)
	add("get peer list", m, err)
	m, err = codec.AppGossip(testChain, []byte("news"))
	add("gossip", m, err)
	m, err = codec.PushQuery(testChain, 1, time.Second, []byte("block"), 2)
	add("query", m, err)
	return all
}

func TestSamplesAreDecoded(t *testing.T) {
	for name, b := range samples(t) {
		got, err := decoded(b)
		require.NoError(t, err, name)
		want, err := known(b)
		require.NoError(t, err, name)
		require.True(t, proto.Equal(want, heeded(got)), "%s: got %v, want %v", name, got, want)
		require.Equal(t, name == "gossip" || name == "query", want == nil, "%s says nothing to us", name)
	}
}

// A message that is a list of empty elements is refused before it takes memory, however it is encoded.
func TestCrowdedMessages(t *testing.T) {
	list := func(field protowire.Number, entries int) []byte {
		return protowire.AppendBytes(protowire.AppendTag(nil, field, protowire.BytesType), bytes.Repeat([]byte{1<<3 | 2, 0}, entries))
	}
	const many = maxMessage/2 - 8
	inner := list(fieldPeerList, many)
	z, err := zstd.Compress(nil, inner)
	require.NoError(t, err)
	for name, b := range map[string][]byte{
		"peer list":    inner,
		"ancestors":    list(fieldAncestors, many),
		"compressed":   protowire.AppendBytes(protowire.AppendTag(nil, fieldZstd, protowire.BytesType), z),
		"in parts":     append(list(fieldPeerList, many/2), list(fieldPeerList, many/2)...),
		"cut off":      append(list(fieldPing, 0), inner...)[:1<<20],
		"with the end": append(inner, 1),
	} {
		t.Run(name, func(t *testing.T) {
			got, err := decoded(b)
			require.ErrorIs(t, err, errNotAMessage)
			require.Nil(t, got)
			require.Less(t, testing.AllocsPerRun(1, func() { _, _ = decoded(b) }), 1000.)
		})
	}
	got, err := decoded(list(fieldPeerList, maxClaims))
	require.NoError(t, err)
	require.Len(t, got.GetPeerList_().GetClaimedIpPorts(), maxClaims)
}

func TestFrame(t *testing.T) {
	b, err := frame(&p2p.Message{Message: &p2p.Message_Ping{Ping: &p2p.Ping{Uptime: 5}}})
	require.NoError(t, err)
	require.Equal(t, []byte{0, 0, 0, 4, 11<<3 | 2, 2, 1 << 3, 5}, b)
	_, err = frame(&p2p.Message{Message: &p2p.Message_AppGossip{AppGossip: &p2p.AppGossip{AppBytes: make([]byte, maxMessage)}}})
	require.ErrorIs(t, err, errTooLarge)
}
