package simnet

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/message"
	"github.com/ava-labs/avalanchego/network/p2p"
	"github.com/ava-labs/avalanchego/network/peer"
	p2ppb "github.com/ava-labs/avalanchego/proto/pb/p2p"
	platformpb "github.com/ava-labs/avalanchego/proto/pb/platformvm"
	"github.com/ava-labs/avalanchego/proto/pb/sdk"
	"github.com/ava-labs/avalanchego/snow/networking/router"
	"github.com/ava-labs/avalanchego/utils/constants"
	"github.com/ava-labs/avalanchego/utils/crypto/bls"
	"github.com/ava-labs/avalanchego/vms/platformvm"
	"github.com/ava-labs/avalanchego/vms/platformvm/block"
	platformnetwork "github.com/ava-labs/avalanchego/vms/platformvm/network"
	"github.com/ava-labs/avalanchego/vms/platformvm/txs"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp"
	platformmessage "github.com/ava-labs/avalanchego/vms/platformvm/warp/message"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp/payload"
	"github.com/ava-labs/libevm/common"

	"quorate/internal/node"
	"quorate/internal/simnet/evmchain"
	"quorate/internal/simnet/history"
)

// nodePeer is avalanchego's own peer, connected to a validator.
type nodePeer struct {
	*peer.Peer
	messages message.Creator
	received chan *message.InboundMessage
	requests uint32
}

func connect(t *testing.T, v *Validator) *nodePeer {
	t.Helper()
	p := &nodePeer{messages: v.network.messages, received: make(chan *message.InboundMessage, 10), requests: 1}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var err error
	p.Peer, err = peer.StartTestPeer(ctx, v.Addr(), v.network.NetworkID(), router.InboundHandlerFunc(func(_ context.Context, m *message.InboundMessage) {
		p.received <- m
	}))
	require.NoError(t, err)
	t.Cleanup(func() {
		p.StartClose()
		require.NoError(t, p.AwaitClosed(context.Background()))
	})
	return p
}

// ask sends an application request and returns the answer; with silent it returns nil if there is none.
func (p *nodePeer) ask(t *testing.T, chainID ids.ID, request []byte, silent bool) any {
	t.Helper()
	p.requests += 2
	return p.askAs(t, chainID, p.requests, request, silent)
}

func (p *nodePeer) askAs(t *testing.T, chainID ids.ID, id uint32, request []byte, silent bool) any {
	t.Helper()
	m, err := p.messages.AppRequest(chainID, id, time.Minute, request)
	require.NoError(t, err)
	require.True(t, p.Send(t.Context(), m))
	timeout := time.Minute
	if silent {
		timeout = 300 * time.Millisecond
	}
	select {
	case m := <-p.received:
		return m.Message
	case <-time.After(timeout):
		require.True(t, silent, "no answer")
		return nil
	}
}

// signatureOf returns an ACP-118 request.
func signatureOf(t *testing.T, m []byte, justification []byte) []byte {
	t.Helper()
	b, err := proto.Marshal(&sdk.SignatureRequest{Message: m, Justification: justification})
	require.NoError(t, err)
	return p2p.PrefixMessage(p2p.ProtocolPrefix(p2p.SignatureRequestHandlerID), b)
}

func unsigned(t *testing.T, networkID uint32, chainID ids.ID, content []byte) []byte {
	t.Helper()
	m, err := warp.NewUnsignedMessage(networkID, chainID, content)
	require.NoError(t, err)
	return m.Bytes()
}

// statement returns a message of the P-Chain.
func statement(t *testing.T, n *Network, content interface{ Bytes() []byte }) []byte {
	t.Helper()
	call, err := payload.NewAddressedCall(nil, content.Bytes())
	require.NoError(t, err)
	return unsigned(t, n.NetworkID(), constants.PlatformChainID, call.Bytes())
}

func requireSigned(t *testing.T, v *Validator, m []byte, answer any) {
	t.Helper()
	require.IsType(t, &p2ppb.AppResponse{}, answer, "%+v", answer)
	var response sdk.SignatureResponse
	require.NoError(t, proto.Unmarshal(answer.(*p2ppb.AppResponse).AppBytes, &response))
	signature, err := bls.SignatureFromBytes(response.Signature)
	require.NoError(t, err)
	require.True(t, bls.Verify(v.signer.PublicKey(), signature, m))
}

func requireRefused(t *testing.T, answer any, code int32, text string) {
	t.Helper()
	require.IsType(t, &p2ppb.AppError{}, answer, "%+v", answer)
	refusal := answer.(*p2ppb.AppError)
	require.Equal(t, code, refusal.ErrorCode, refusal.ErrorMessage)
	require.Contains(t, refusal.ErrorMessage, text)
}

func TestApplicationRequests(t *testing.T) {
	n := start(t, Options{
		Seed: 5, Validators: 3, L1Validators: 2,
		History: &History{Options: history.Options{Txs: 50}, Dir: t.TempDir()},
		EVM:     []EVM{{Options: evmchain.Options{Txs: 20}, Dir: t.TempDir()}, {Options: evmchain.Options{Txs: 20}, Dir: t.TempDir()}},
	})
	v := n.Validators()[0]
	p := connect(t, v)
	c := n.Blockchain()
	_, l1 := n.L1()
	m := n.Message([]byte("m")).Bytes()

	requireSigned(t, v, m, p.ask(t, c, signatureOf(t, m, nil), false))
	requireRefused(t, p.ask(t, c, nil, false), -2, "unregistered handler")
	requireRefused(t, p.ask(t, c, p2p.ProtocolPrefix(99), false), -2, "unregistered handler")
	requireRefused(t, p.ask(t, c, append(p2p.ProtocolPrefix(p2p.SignatureRequestHandlerID), 0xff), false), -1, "failed to unmarshal request: ")
	requireRefused(t, p.ask(t, c, signatureOf(t, []byte("m"), nil), false), -1, "failed to parse warp unsigned message: ")
	requireRefused(t, p.ask(t, c, signatureOf(t, n.MessageFrom(l1, nil).Bytes(), nil), false), -1, "failed to sign message: wrong SourceChainID")
	call, err := payload.NewAddressedCall(nil, nil)
	require.NoError(t, err)
	requireRefused(t, p.ask(t, c, signatureOf(t, unsigned(t, 7, c, call.Bytes()), nil), false), -1, "failed to sign message: wrong networkID")
	requireRefused(t, p.ask(t, c, signatureOf(t, unsigned(t, n.NetworkID(), c, []byte("?")), nil), false), 1, "failed to parse payload: ")
	requireRefused(t, p.ask(t, n.xChain, signatureOf(t, n.MessageFrom(n.xChain, nil).Bytes(), nil), false), -2, "unregistered handler")

	// Even request IDs belong to another protocol of EVM chains, but not to that of the P-Chain.
	require.Nil(t, p.askAs(t, c, 2, signatureOf(t, m, nil), true))
	requireRefused(t, p.askAs(t, constants.PlatformChainID, 2, nil, false), -2, "unregistered handler")

	// Only nodes that track the L1 have its chain.
	onL1 := n.MessageFrom(l1, []byte("m")).Bytes()
	requireSigned(t, v, onL1, p.ask(t, l1, signatureOf(t, onL1, nil), false))
	require.Nil(t, connect(t, n.Validators()[2]).ask(t, l1, signatureOf(t, onL1, nil), true))
	require.Nil(t, p.ask(t, ids.ID{9}, signatureOf(t, onL1, nil), true), "no node has the chain")

	// Hashes of accepted blocks are signed.
	var block0 struct{ Hash string }
	require.NoError(t, json.Unmarshal(ethereum(t, n, "C", "eth_getBlockByNumber", []any{"0x0", false}), &block0))
	genesis := common.HexToHash(block0.Hash)
	hash, err := payload.NewHash(ids.ID(genesis))
	require.NoError(t, err)
	block := unsigned(t, n.NetworkID(), c, hash.Bytes())
	requireSigned(t, v, block, p.ask(t, c, signatureOf(t, block, nil), false))
	hash, err = payload.NewHash(ids.ID{1})
	require.NoError(t, err)
	requireRefused(t, p.ask(t, c, signatureOf(t, unsigned(t, n.NetworkID(), c, hash.Bytes()), nil), false), 2, "failed to get block ")
}

// Nodes that have not accepted a message refuse with what the VM of its chain says.
func TestUnseenMessages(t *testing.T) {
	n := start(t, Options{Seed: 5, Validators: 1, L1Validators: 1})
	v := n.Validators()[0]
	p := connect(t, v)
	_, l1 := n.L1()
	require.NoError(t, v.SetBehaviour(Refusing))
	requireRefused(t, p.ask(t, n.Blockchain(), signatureOf(t, n.Message([]byte("m")).Bytes(), nil), false), 1, "unknown payload type: *payload.AddressedCall")
	requireRefused(t, p.ask(t, l1, signatureOf(t, n.MessageFrom(l1, []byte("m")).Bytes(), nil), false), 1, "failed to parse addressed call message: ")
	v.SetRefusal(7, "not today")
	requireRefused(t, p.ask(t, n.Blockchain(), signatureOf(t, n.Message([]byte("m")).Bytes(), nil), false), 7, "not today")
	requireRefused(t, p.ask(t, n.Blockchain(), signatureOf(t, nil, nil), false), -1, "failed to parse warp unsigned message: ")

	sae := start(t, Options{Seed: 5, Validators: 1, NetworkID: constants.FujiID})
	v = sae.Validators()[0]
	require.NoError(t, v.SetBehaviour(Refusing))
	call, err := payload.NewAddressedCall(nil, nil)
	hash, err2 := payload.NewHash(ids.ID{1})
	require.NoError(t, errors.Join(err, err2))
	// SAE has no other protocol that takes even request IDs.
	p = connect(t, v)
	for _, test := range []struct {
		content []byte
		code    int32
		text    string
	}{
		{nil, 2, "parsing payload: "},
		{call.Bytes(), 3, "unknown *payload.AddressedCall message"},
		{hash.Bytes(), 4, "block not marked as accepted: not found"},
	} {
		request := signatureOf(t, unsigned(t, sae.NetworkID(), sae.Blockchain(), test.content), nil)
		requireRefused(t, p.askAs(t, sae.Blockchain(), 2, request, false), test.code, test.text)
	}

	// A C-Chain with blocks since Helicon runs SAE on each network.
	n = start(t, Options{Seed: 5, Validators: 1, EVM: []EVM{{Options: evmchain.Options{Txs: 20, SAE: true}, Dir: t.TempDir()}}})
	require.NoError(t, n.Validators()[0].SetBehaviour(Refusing))
	request := signatureOf(t, n.Message([]byte("m")).Bytes(), nil)
	requireRefused(t, connect(t, n.Validators()[0]).ask(t, n.Blockchain(), request, false), 3, "unknown *payload.AddressedCall message")
}

// The P-Chain signs what its state attests.
func TestPChainMessages(t *testing.T) {
	n := start(t, Options{Seed: 6, Validators: 4, L1Validators: 3})
	v := n.Validators()[0]
	p := connect(t, v)
	subnetID, _ := n.L1()
	api := platformvm.NewClient(n.NodeURL())
	subnet, err := api.GetSubnet(t.Context(), subnetID)
	require.NoError(t, err)
	statement := func(content interface{ Bytes() []byte }, err error) []byte {
		require.NoError(t, err)
		return statement(t, n, content)
	}
	signed := func(m, justification []byte) {
		t.Helper()
		requireSigned(t, v, m, p.ask(t, constants.PlatformChainID, signatureOf(t, m, justification), false))
	}
	refused := func(m, justification []byte, code int32) {
		t.Helper()
		requireRefused(t, p.ask(t, constants.PlatformChainID, signatureOf(t, m, justification), false), code, "")
	}
	refused(n.MessageFrom(constants.PlatformChainID, []byte("m")).Bytes(), nil, platformnetwork.ErrWarpAddressedCallHasSourceAddress)

	conversion := statement(platformmessage.NewSubnetToL1Conversion(subnet.ConversionID))
	signed(conversion, subnetID[:])
	refused(conversion, nil, platformnetwork.ErrFailedToParseJustification)
	refused(conversion, make([]byte, 32), platformnetwork.ErrConversionDoesNotExist)
	refused(statement(platformmessage.NewSubnetToL1Conversion(ids.ID{1})), subnetID[:], platformnetwork.ErrMismatchedConversionID)

	one, gone := subnetID.Append(1), subnetID.Append(7)
	former, err := proto.Marshal(&platformpb.L1ValidatorRegistrationJustification{Preimage: &platformpb.L1ValidatorRegistrationJustification_ConvertSubnetToL1TxData{
		ConvertSubnetToL1TxData: &platformpb.SubnetIDIndex{SubnetId: subnetID[:], Index: 7},
	}})
	require.NoError(t, err)
	signed(statement(platformmessage.NewL1ValidatorRegistration(one, true)), nil)
	refused(statement(platformmessage.NewL1ValidatorRegistration(gone, true)), nil, platformnetwork.ErrValidationDoesNotExist)
	signed(statement(platformmessage.NewL1ValidatorRegistration(gone, false)), former)
	refused(statement(platformmessage.NewL1ValidatorRegistration(gone, false)), nil, platformnetwork.ErrInvalidJustificationType)

	n.Advance(subnetID, func(members map[ids.NodeID]Member) {
		m := members[n.Validators()[1].NodeID]
		m.Weight = 250
		members[n.Validators()[1].NodeID] = m
	})
	now, _, err := api.GetL1Validator(t.Context(), one)
	require.NoError(t, err)
	require.Equal(t, uint64(250), now.Weight)
	require.Equal(t, uint64(1), now.MinNonce)
	signed(statement(platformmessage.NewL1ValidatorWeight(one, 0, 250)), nil)
	refused(statement(platformmessage.NewL1ValidatorWeight(one, 0, 100)), nil, platformnetwork.ErrWrongWeight)
	refused(statement(platformmessage.NewL1ValidatorWeight(one, 1, 250)), nil, platformnetwork.ErrWrongNonce)
	_, _, err = api.GetL1Validator(t.Context(), gone)
	require.ErrorContains(t, err, "not found")

	require.NoError(t, v.SetBehaviour(Refusing))
	refused(conversion, subnetID[:], platformnetwork.ErrConversionDoesNotExist)

	// The gossip of transactions throttles peers that are no validators.
	requireRefused(t, p.ask(t, constants.PlatformChainID, binary.AppendUvarint(nil, p2p.TxGossipHandlerID), false), p2p.ErrNotValidator.Code, "")
}

// With a history, the P-Chain attests to its L1s.
func TestPChainMessagesOfHistory(t *testing.T) {
	n := start(t, Options{Seed: 8, Validators: 1, History: &History{Options: history.Options{Txs: 2000}, Dir: t.TempDir()}})
	v := n.Validators()[0]
	p := connect(t, v)
	api, err := node.New(node.Options{Endpoints: []string{n.NodeURL()}})
	require.NoError(t, err)
	defer api.Close()
	kinds := make(map[string]int)
	attested := func(kind string, content interface{ Bytes() []byte }, err error, justification []byte) {
		t.Helper()
		require.NoError(t, err)
		m := statement(t, n, content)
		requireSigned(t, v, m, p.ask(t, constants.PlatformChainID, signatureOf(t, m, justification), false))
		kinds[kind]++
	}
	sent := func(signed []byte) []byte { // by a contract
		m, err := warp.ParseMessage(signed)
		require.NoError(t, err)
		call, err := payload.ParseAddressedCall(m.Payload)
		require.NoError(t, err)
		return call.Payload
	}
	changed := make(map[ids.ID]*platformmessage.L1ValidatorWeight)
	for height := range n.Height() {
		b, err := api.BlockByHeight(t.Context(), height+1)
		require.NoError(t, err)
		parsed, err := block.Parse(block.Codec, b)
		require.NoError(t, err)
		for _, tx := range parsed.Txs() {
			switch tx := tx.Unsigned.(type) {
			case *txs.ConvertSubnetToL1Tx:
				c, ok := n.past.Conversion(tx.Subnet)
				require.True(t, ok)
				m, err := platformmessage.NewSubnetToL1Conversion(c.ConversionID)
				attested("conversion", m, err, tx.Subnet[:])
			case *txs.RegisterL1ValidatorTx:
				order := sent(tx.Message)
				registration, err := platformmessage.ParseRegisterL1Validator(order)
				require.NoError(t, err)
				id := registration.ValidationID()
				// The node's API answers from the same state.
				answer, err := api.L1Validator(t.Context(), id)
				require.NoError(t, err)
				v, ok := n.past.L1Validator(id)
				require.Equal(t, ok, answer != nil)
				if ok {
					require.Equal(t, node.L1Validator{Weight: v.Weight, MinNonce: v.MinNonce}, *answer)
					m, err := platformmessage.NewL1ValidatorRegistration(id, true)
					attested("registration", m, err, nil)
					continue
				}
				former, err := proto.Marshal(&platformpb.L1ValidatorRegistrationJustification{Preimage: &platformpb.L1ValidatorRegistrationJustification_RegisterL1ValidatorMessage{
					RegisterL1ValidatorMessage: order,
				}})
				require.NoError(t, err)
				m, err := platformmessage.NewL1ValidatorRegistration(id, false)
				attested("removal", m, err, former)
			case *txs.SetL1ValidatorWeightTx:
				weight, err := platformmessage.ParseL1ValidatorWeight(sent(tx.Message))
				require.NoError(t, err)
				changed[weight.ValidationID] = weight
			}
		}
	}
	for id, weight := range changed {
		if weight.Weight > 0 {
			m, err := platformmessage.NewL1ValidatorWeight(id, weight.Nonce, weight.Weight)
			attested("weight", m, err, nil)
		}
	}
	require.Len(t, kinds, 4, "%v", kinds)
}
