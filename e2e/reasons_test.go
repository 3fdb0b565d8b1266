package e2e

import (
	"bytes"
	"context"
	"net/http"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/api/info"
	"github.com/ava-labs/avalanchego/genesis"
	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/constants"
	"github.com/ava-labs/avalanchego/utils/units"
	"github.com/ava-labs/avalanchego/vms/platformvm/signer"
	"github.com/ava-labs/avalanchego/vms/platformvm/txs"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp/message"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp/payload"
	"github.com/ava-labs/avalanchego/wallet/subnet/primary"

	"quorate/e2e/localnet"
)

// requireReasons asks for a signature that fails. The reasons and their weights must be the ones
// given, and add up. A sole reason may end the round before all validators have answered.
func (s *service) requireReasons(ctx context.Context, code string, body map[string]any, want map[string]uint64) outcomes {
	s.t.Helper()
	_, r := s.post(ctx, signPath, body)
	require.Equal(s.t, code, r.Code, r.Message)
	got := make(map[string]uint64)
	sum := r.Outcomes.SignedWeight
	for _, reason := range r.Outcomes.Reasons {
		got[reason.Code] = reason.Weight
		sum += reason.Weight
		require.NotEmpty(s.t, reason.Remedy)
	}
	if len(want) == 1 && len(got) > 1 {
		first := r.Outcomes.Reasons[0].Code
		got = map[string]uint64{first: sum - r.Outcomes.SignedWeight}
		for _, reason := range r.Outcomes.Reasons[1:] {
			require.Regexp(s.t, "^(UNANSWERED|NOT_ASKED)$", reason.Code)
		}
	}
	require.Equal(s.t, want, got, r.Message)
	require.Equal(s.t, r.Outcomes.TotalWeight, sum)
	s.t.Log(r.Message)
	return *r.Outcomes
}

// Real nodes fail to sign in every possible way, and the answer says why.
func TestReasonsOfRealNodes(t *testing.T) {
	t.Parallel()
	ctx, cancel := testContext(t, 8*time.Minute)
	defer cancel()
	program := buildService(t)
	network := localnet.Start(t)
	node := network.Node(0).URL
	chain, p := newCChain(t, ctx, node), newPChain(t, ctx, node)
	s := startService(t, program, node, "--ahead-rounds", "0")
	blockchainID, err := info.NewClient(node).GetBlockchainID(ctx, "C")
	require.NoError(t, err)
	ask := func(m *warp.UnsignedMessage, more ...any) map[string]any {
		body := map[string]any{"message": hexOf(m.Bytes())}
		for i := 0; i < len(more); i += 2 {
			body[more[i].(string)] = more[i+1]
		}
		return body
	}
	call := func(source ids.ID) *warp.UnsignedMessage {
		content, err := payload.NewAddressedCall([]byte{1}, []byte("never sent"))
		require.NoError(t, err)
		m, err := warp.NewUnsignedMessage(localnet.NetworkID, source, content.Bytes())
		require.NoError(t, err)
		return m
	}
	status, r := s.post(ctx, signPath, ask(call(blockchainID)))
	require.Equal(t, http.StatusNotFound, status, r.Message)
	all := r.Outcomes.TotalWeight

	t.Run("the message was never accepted", func(t *testing.T) {
		s.requireReasons(ctx, "MESSAGE_NOT_SEEN", ask(call(blockchainID)), map[string]uint64{"NOT_ACCEPTED": all})
		hash, err := payload.NewHash(ids.GenerateTestID())
		require.NoError(t, err)
		m, err := warp.NewUnsignedMessage(localnet.NetworkID, blockchainID, hash.Bytes())
		require.NoError(t, err)
		s.requireReasons(ctx, "MESSAGE_NOT_SEEN", ask(m), map[string]uint64{"NOT_ACCEPTED": all})
	})

	t.Run("the P-Chain does not attest it", func(t *testing.T) {
		conversion, err := message.NewSubnetToL1Conversion(ids.GenerateTestID())
		subnet := ids.GenerateTestID()
		s.requireReasons(ctx, "MESSAGE_NOT_SEEN", ask(says(t, conversion, err), "justification", hexOf(subnet[:])), map[string]uint64{"P_CHAIN_BEHIND": all})
		removed, err := message.NewL1ValidatorRegistration(ids.GenerateTestID(), false)
		got := s.requireReasons(ctx, "REFUSED", ask(says(t, removed, err), "justification", "0102"), map[string]uint64{"JUSTIFICATION_REFUSED": all})
		require.Contains(t, got.Reasons[0].Detail, "code")
		v := newIdentity(t)
		order, err := message.NewRegisterL1Validator(ids.GenerateTestID(), v.nodeID, v.proof.PublicKey, 1, message.PChainOwner{}, message.PChainOwner{}, 1)
		s.requireReasons(ctx, "REFUSED", ask(says(t, order, err)), map[string]uint64{"PAYLOAD_REFUSED": all})
	})

	// An L1 of one node that does not track it, one that no node runs, one without balance, and
	// one that was a validator of the subnet before.
	subnetID := p.accepted(p.wallet.IssueCreateSubnetTx(p.owner))
	chainID := p.accepted(p.wallet.IssueCreateChainTx(subnetID, []byte("{}"), constants.SubnetEVMID, nil, "no node runs it"))
	legacy, _, err := info.NewClient(network.Node(3).URL).GetNodeID(ctx)
	require.NoError(t, err)
	p.accepted(p.wallet.IssueAddSubnetValidatorTx(&txs.SubnetValidator{
		Validator: txs.Validator{NodeID: legacy, End: uint64(time.Now().Add(time.Hour).Unix()), Wght: 100}, Subnet: subnetID,
	}))
	deaf, proof, err := info.NewClient(network.Node(1).URL).GetNodeID(ctx)
	require.NoError(t, err)
	owner := message.PChainOwner{Threshold: 1, Addresses: []ids.ShortID{genesis.EWOQKey.Address()}}
	l1Validator := func(nodeID ids.NodeID, proof *signer.ProofOfPossession) *txs.ConvertSubnetToL1Validator {
		return &txs.ConvertSubnetToL1Validator{NodeID: nodeID.Bytes(), Weight: 100, Balance: units.Avax, Signer: *proof, RemainingBalanceOwner: owner, DeactivationOwner: owner}
	}
	unknown, broke := newIdentity(t), newIdentity(t)
	converted := []*txs.ConvertSubnetToL1Validator{l1Validator(deaf, proof), l1Validator(unknown.nodeID, unknown.proof), l1Validator(broke.nodeID, broke.proof)}
	p.accepted(p.wallet.IssueConvertSubnetToL1Tx(subnetID, blockchainID, chain.account.Bytes(), converted))
	for i, v := range converted { // which the wallet has sorted
		if bytes.Equal(v.NodeID, broke.nodeID.Bytes()) {
			validationID := subnetID.Append(uint32(i))
			p = newPChainWith(t, ctx, node, primary.WalletConfig{ValidationIDs: []ids.ID{validationID}})
			p.accepted(p.wallet.IssueDisableL1ValidatorTx(validationID))
		}
	}
	height := p.height(ctx)

	t.Run("an L1 without nodes", func(t *testing.T) {
		got := s.requireReasons(ctx, "QUORUM_NOT_REACHED", ask(call(chainID), "pChainHeight", height),
			map[string]uint64{"NOT_TRACKED": 100, "NO_ADDRESS": 100, "INACTIVE_L1_VALIDATOR": 100, "LEGACY_VALIDATOR": 100})
		for _, reason := range got.Reasons {
			want := map[string]ids.NodeID{"NOT_TRACKED": deaf, "NO_ADDRESS": unknown.nodeID, "INACTIVE_L1_VALIDATOR": broke.nodeID, "LEGACY_VALIDATOR": legacy}[reason.Code]
			require.Equal(t, []ids.NodeID{want}, reason.NodeIDs, reason.Code)
		}
	})

	t.Run("the wrong signing subnet", func(t *testing.T) {
		got := s.requireReasons(ctx, "QUORUM_NOT_REACHED", ask(call(chainID), "signingSubnetId", constants.PrimaryNetworkID), map[string]uint64{"WRONG_SIGNING_SUBNET": all})
		require.Contains(t, got.Reasons[0].Detail, subnetID.String())
	})

	t.Run("private addresses", func(t *testing.T) {
		m, _ := chain.message(ctx, chain.sendByContract(ctx, []byte("hello")))
		var errOut bytes.Buffer
		command := exec.CommandContext(ctx, program, "sign", "--node", node, "--timeout", "6s", hexOf(m.Bytes()))
		command.Stderr = &errOut
		var exit *exec.ExitError
		require.ErrorAs(t, command.Run(), &exit)
		require.Equal(t, 3, exit.ExitCode(), errOut.String())
		require.Regexp(t, `(?m)^100\.00%  PRIVATE_ADDRESS: are not connected`, errOut.String())
		require.Contains(t, errOut.String(), "--allow-private-ips")
		t.Log(errOut.String())
	})

	t.Run("a node that is down", func(t *testing.T) {
		m, _ := chain.message(ctx, chain.sendByContract(ctx, []byte("all must sign this")))
		network.Stop(4)
		require.Eventually(t, func() bool {
			_, r := s.post(ctx, signPath, ask(m, "quorumPercentage", 99))
			return r.Outcomes != nil && len(r.Outcomes.Reasons) == 1 && r.Outcomes.Reasons[0].Code == "UNREACHABLE" && r.Outcomes.Reasons[0].Weight == all/5
		}, time.Minute, 100*time.Millisecond)
	})
}
