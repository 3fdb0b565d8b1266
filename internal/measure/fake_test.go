package measure

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/ava-labs/avalanchego/ids"
	avap2p "github.com/ava-labs/avalanchego/network/p2p"
	"github.com/ava-labs/avalanchego/network/p2p/acp118"
	"github.com/ava-labs/avalanchego/proto/pb/sdk"
	"github.com/ava-labs/avalanchego/snow/engine/common"
	snow "github.com/ava-labs/avalanchego/snow/validators"
	"github.com/ava-labs/avalanchego/utils/crypto/bls"
	"github.com/ava-labs/avalanchego/utils/crypto/bls/signer/localsigner"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp/payload"

	"quorate/p2p"
	"quorate/validators"
)

const testNetworkID = 54321

var testChain = ids.ID{'c', 'h', 'a', 'i', 'n'}

// fakeNode is a node with a real key.
type fakeNode struct {
	nodeID  ids.NodeID
	signer  *localsigner.LocalSigner
	weight  uint64
	offline bool
	// answer returns the node's answer in round n, from 0 on, and after what time. It
	// returns false if there is none.
	answer func(n int, m *warp.UnsignedMessage) (p2p.Answer, time.Duration, bool)
}

// fakeNetwork is a Transport, Sets and a Chain. A block's hash begins with its height.
type fakeNetwork struct {
	t       *testing.T
	nodes   []*fakeNode
	keyless uint64
	rounds  int
	tip     func() (uint64, error)
}

// newFakeNetwork returns a network of nodes that sign after 10 ms, 20 ms and so on, and a
// chain that has a new block each second.
func newFakeNetwork(t *testing.T, weights ...uint64) *fakeNetwork {
	n := &fakeNetwork{t: t}
	for i, weight := range weights {
		signer, err := localsigner.New()
		require.NoError(t, err)
		node := &fakeNode{nodeID: ids.NodeID{1, byte(i)}, signer: signer, weight: weight}
		node.answer = signing(node, time.Duration(i+1)*10*time.Millisecond)
		n.nodes = append(n.nodes, node)
	}
	start := time.Now()
	n.tip = func() (uint64, error) { return 1000 + uint64(time.Since(start)/time.Second), nil }
	return n
}

func response(signature []byte) p2p.Answer {
	b, err := proto.Marshal(&sdk.SignatureResponse{Signature: signature})
	if err != nil {
		panic(err)
	}
	return p2p.Answer{Bytes: b}
}

func sign(signer *localsigner.LocalSigner, message []byte) []byte {
	signature, err := signer.Sign(message)
	if err != nil {
		panic(err)
	}
	return bls.SignatureToBytes(signature)
}

// signing is an answer function: a valid signature after times, which repeat.
func signing(node *fakeNode, times ...time.Duration) func(int, *warp.UnsignedMessage) (p2p.Answer, time.Duration, bool) {
	return func(n int, m *warp.UnsignedMessage) (p2p.Answer, time.Duration, bool) {
		return response(sign(node.signer, m.Bytes())), times[n%len(times)], true
	}
}

// always is an answer function: the same answer, after 5 ms.
func always(a p2p.Answer) func(int, *warp.UnsignedMessage) (p2p.Answer, time.Duration, bool) {
	return func(int, *warp.UnsignedMessage) (p2p.Answer, time.Duration, bool) {
		return a, 5 * time.Millisecond, true
	}
}

func refusal(code int32, text string) p2p.Answer {
	return p2p.Answer{Err: &common.AppError{Code: code, Message: text}}
}

func (n *fakeNetwork) node(nodeID ids.NodeID) *fakeNode {
	return n.nodes[slices.IndexFunc(n.nodes, func(f *fakeNode) bool { return f.nodeID == nodeID })]
}

func (n *fakeNetwork) Connected(nodeID ids.NodeID) bool { return !n.node(nodeID).offline }

func (n *fakeNetwork) Failure(ids.NodeID) p2p.Failure {
	return p2p.Failure{Obstacle: p2p.ObstacleUnreachable}
}

// Tracks says that no node tracks subnet 'x'.
func (n *fakeNetwork) Tracks(_ ids.NodeID, subnetID ids.ID) (tracks, known bool) {
	return subnetID[0] != 'x', true
}

func (n *fakeNetwork) Peers() (peers []p2p.Peer) {
	for _, f := range n.nodes {
		if !f.offline {
			peers = append(peers, p2p.Peer{NodeID: f.nodeID, Version: "v1.15.0", RoundTrip: time.Millisecond})
		}
	}
	return peers
}

func (n *fakeNetwork) Request(ctx context.Context, chainID ids.ID, nodes []ids.NodeID, request []byte, onAnswer func(p2p.Answer)) (sent []ids.NodeID) {
	require.Equal(n.t, testChain, chainID)
	handler, content, ok := avap2p.ParseMessage(request)
	require.True(n.t, ok)
	require.EqualValues(n.t, acp118.HandlerID, handler)
	var r sdk.SignatureRequest
	require.NoError(n.t, proto.Unmarshal(content, &r))
	m, err := warp.ParseUnsignedMessage(r.Message)
	require.NoError(n.t, err)
	parsed, err := payload.Parse(m.Payload)
	require.NoError(n.t, err)
	require.IsType(n.t, new(payload.Hash), parsed)
	for _, nodeID := range nodes {
		node := n.node(nodeID)
		if node.offline {
			continue
		}
		sent = append(sent, nodeID)
		if a, after, ok := node.answer(n.rounds, m); ok {
			a.NodeID, a.Elapsed = nodeID, after
			time.AfterFunc(after, func() {
				if ctx.Err() == nil {
					onAnswer(a)
				}
			})
		}
	}
	n.rounds++
	return sent
}

func (n *fakeNetwork) Set(_ context.Context, subnetID ids.ID, _ uint64) (*validators.Set, error) {
	output := make(map[ids.NodeID]*snow.GetValidatorOutput)
	for _, f := range n.nodes {
		output[f.nodeID] = &snow.GetValidatorOutput{NodeID: f.nodeID, PublicKey: f.signer.PublicKey(), Weight: f.weight}
	}
	if n.keyless > 0 {
		output[ids.NodeID{255}] = &snow.GetValidatorOutput{NodeID: ids.NodeID{255}, Weight: n.keyless}
	}
	flat, err := snow.FlattenValidatorSet(output)
	require.NoError(n.t, err)
	return validators.NewSet(subnetID, 77, flat), nil
}

func (n *fakeNetwork) Tip(context.Context) (uint64, error) { return n.tip() }

func (n *fakeNetwork) BlockHash(_ context.Context, height uint64) (ids.ID, error) {
	return ids.ID{byte(height >> 8), byte(height), 'b'}, nil
}

// options returns options of a run with n.
func (n *fakeNetwork) options(rounds int) Options {
	return Options{
		Settings: Settings{
			Rounds: rounds, Interval: time.Second, Timeout: 3 * time.Second, Settle: time.Second, Connect: 2 * time.Second,
		},
		Transport: n, Sets: n, Chain: n, NetworkID: testNetworkID, BlockchainID: testChain, SubnetID: ids.ID{'s', 'u', 'b'},
	}
}
