// Package e2e runs the service against real avalanchego nodes.
package e2e

import (
	"context"
	"encoding/hex"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/snow/validators"
	"github.com/ava-labs/avalanchego/utils/constants"
	"github.com/ava-labs/avalanchego/vms/platformvm"
	platformapi "github.com/ava-labs/avalanchego/vms/platformvm/api"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp/payload"

	"quorate/e2e/localnet"
)

// requireVerified has avalanchego verify a signed message against the set that a
// node names for a height.
func requireVerified(t testing.TB, ctx context.Context, node string, signed *warp.Message, height platformapi.Height, quorum uint64) {
	t.Helper()
	requireVerifiedOn(t, ctx, localnet.NetworkID, node, signed, height, quorum)
}

// requireVerifiedOn is requireVerified on a network with another ID.
func requireVerifiedOn(t testing.TB, ctx context.Context, networkID uint32, node string, signed *warp.Message, height platformapi.Height, quorum uint64) {
	t.Helper()
	outputs, err := platformvm.NewClient(node).GetValidatorsAt(ctx, constants.PrimaryNetworkID, height)
	require.NoError(t, err)
	set, err := validators.FlattenValidatorSet(outputs)
	require.NoError(t, err)
	require.NoError(t, signed.Signature.Verify(&signed.UnsignedMessage, networkID, set, quorum, 100))
}

// The test follows a message from a contract on the C-Chain, through changes of the validators, back
// into the chain.
func TestWarpMessages(t *testing.T) {
	t.Parallel()
	ctx, cancel := testContext(t, 9*time.Minute)
	defer cancel()
	start := time.Now()
	program := buildService(t)
	t.Logf("service built after %s", time.Since(start))
	network := localnet.Start(t)
	t.Logf("network up after %s", time.Since(start))
	node := network.Node(0).URL
	chain := newCChain(t, ctx, node)
	// What is signed ahead would answer requests that are to fail.
	s := startService(t, program, node, "--ahead-rounds", "0")
	t.Logf("service ready after %s", time.Since(start))
	proposed := platformapi.Height(platformapi.ProposedHeight)

	t.Run("a contract's message is signed and read back on the chain", func(t *testing.T) {
		content := []byte("a contract says hello")
		m, logData := chain.message(ctx, chain.sendByContract(ctx, content))
		began := time.Now()
		signed := s.sign(ctx, m, 67)
		t.Logf("signed in %s", time.Since(began))
		requireVerified(t, ctx, node, signed, proposed, 67)
		valid, read := chain.read(ctx, signed)
		require.True(t, valid, "the precompile does not accept the message")
		require.Equal(t, content, read)

		// The log's data is accepted as it is, and so is the other form of the request.
		status, r := s.post(ctx, signPath, map[string]any{"message": hex.EncodeToString(logData)})
		require.Equal(t, http.StatusOK, status, r.Message)
		require.Equal(t, signed.Bytes(), parseSigned(t, r.SignedMessage).Bytes())
		status, r = s.post(ctx, "/aggregate-signatures", map[string]any{"message": hex.EncodeToString(m.Bytes()), "quorum-percentage": 67})
		require.Equal(t, http.StatusOK, status, r.Error)
		requireVerified(t, ctx, node, parseSigned(t, r.Hyphenated), proposed, 67)

		// A signature that lacks a signer must not be accepted, or the check above is worth nothing.
		signature := *signed.Signature.(*warp.BitSetSignature)
		signature.Signers = []byte{0x1f}
		forged, err := warp.NewMessage(m, &signature)
		require.NoError(t, err)
		valid, _ = chain.read(ctx, forged)
		require.False(t, valid, "the precompile accepts anything")
	})

	t.Run("an account's message is signed", func(t *testing.T) {
		m, _ := chain.message(ctx, chain.sendByAccount(ctx, []byte("an account says hello")))
		requireVerified(t, ctx, node, s.sign(ctx, m, 80), proposed, 80)
	})

	t.Run("an explicit height names its set", func(t *testing.T) {
		height, err := platformvm.NewClient(node).GetHeight(ctx)
		require.NoError(t, err)
		m, _ := chain.message(ctx, chain.sendByAccount(ctx, []byte("at a height")))
		status, r := s.post(ctx, signPath, map[string]any{"message": hex.EncodeToString(m.Bytes()), "pChainHeight": height})
		if height == 0 { // which stands for the proposed one
			require.Equal(t, http.StatusOK, status, r.Message)
		}
		requireVerified(t, ctx, node, parseSigned(t, r.SignedMessage), platformapi.Height(height), 67)
		status, r = s.post(ctx, signPath, map[string]any{"message": hex.EncodeToString(m.Bytes()), "pChainHeight": height + 1000})
		require.Equal(t, http.StatusBadRequest, status)
		require.Contains(t, r.Message, "pChainHeight")
	})

	t.Run("the verifying chain's epoch picks the set, and the service judges like the chain", func(t *testing.T) {
		content := []byte("for the epoch")
		m, _ := chain.message(ctx, chain.sendByContract(ctx, content))
		status, r := s.post(ctx, signPath, map[string]any{"message": hex.EncodeToString(m.Bytes()), "verifyingBlockchainId": m.SourceChainID})
		require.Equal(t, http.StatusOK, status, r.Message)
		valid, read := chain.read(ctx, parseSigned(t, r.SignedMessage))
		require.True(t, valid)
		require.Equal(t, content, read)
		status, v := s.post(ctx, verifyPath, map[string]any{"signedMessage": r.SignedMessage, "verifyingBlockchainId": m.SourceChainID})
		require.Equal(t, http.StatusOK, status, v.Message)
		require.True(t, v.Valid, v.Reason)
		require.Len(t, v.Signers, 4)
		status, v = s.post(ctx, verifyPath, map[string]any{"signedMessage": r.SignedMessage, "quorumPercentage": 95})
		require.Equal(t, http.StatusOK, status, v.Message)
		require.False(t, v.Valid)
	})

	t.Run("what the chain never sent is refused with the validators' reason", func(t *testing.T) {
		call, err := payload.NewAddressedCall(make([]byte, 20), []byte("forged"))
		require.NoError(t, err)
		good, _ := chain.message(ctx, chain.sendByAccount(ctx, []byte("genuine")))
		m, err := warp.NewUnsignedMessage(localnet.NetworkID, good.SourceChainID, call.Bytes())
		require.NoError(t, err)
		start := time.Now()
		status, r := s.post(ctx, signPath, map[string]any{"message": hex.EncodeToString(m.Bytes())})
		require.Equal(t, http.StatusNotFound, status)
		require.Equal(t, "MESSAGE_NOT_SEEN", r.Code)
		require.Less(t, time.Since(start), 4*time.Second)
		require.NotEmpty(t, r.Outcomes.Refusals)
		require.Equal(t, r.Outcomes.TotalWeight, r.Outcomes.RefusedWeight)
		t.Logf("refused: %s", r.Message)
	})

	// Without a quorum the chain makes no blocks: send what is needed below now.
	var messages []*warp.UnsignedMessage
	for i := range 8 {
		hash := chain.sendByContract(ctx, fmt.Appendf(nil, "message %d", i))
		m, _ := chain.message(ctx, hash)
		messages = append(messages, m)
	}
	next := func() *warp.UnsignedMessage {
		m := messages[0]
		messages = messages[1:]
		return m
	}

	t.Run("one of five stopped: still signed", func(t *testing.T) {
		network.Stop(4)
		for range 2 {
			requireVerified(t, ctx, node, s.sign(ctx, next(), 67), proposed, 67)
		}
	})

	t.Run("two of five stopped: 67 fails with the account, 55 succeeds", func(t *testing.T) {
		network.Stop(3)
		m := next()
		began := time.Now()
		status, r := s.post(ctx, signPath, map[string]any{"message": hex.EncodeToString(m.Bytes()), "quorumPercentage": 67})
		took := time.Since(began)
		require.Equal(t, http.StatusInternalServerError, status)
		require.Equal(t, "QUORUM_NOT_REACHED", r.Code)
		require.NotNil(t, r.Outcomes)
		require.Less(t, took, 30*time.Second)
		require.InDelta(t, 0.4, float64(r.Outcomes.SilentWeight+r.Outcomes.DisconnectedWeight)/float64(r.Outcomes.TotalWeight), 0.01)
		require.Len(t, r.Outcomes.SilentNodes, 2)
		t.Logf("failed after %s: %s", took, r.Message)
		requireVerified(t, ctx, node, s.sign(ctx, m, 55), proposed, 55)
	})

	t.Run("started again: signed by all with no restart of the service", func(t *testing.T) {
		network.Restart(3)
		network.Restart(4)
		network.AwaitHealthy(3 * time.Minute)
		m := next()
		began := time.Now()
		var signed *warp.Message
		require.Eventually(t, func() bool {
			status, r := s.post(ctx, signPath, map[string]any{"message": hex.EncodeToString(m.Bytes()), "quorumPercentage": 99})
			if status != http.StatusOK {
				t.Logf("not yet: %s", r.Message)
				return false
			}
			signed = parseSigned(t, r.SignedMessage)
			return true
		}, 2*time.Minute, 100*time.Millisecond)
		t.Logf("signed by all %s after the nodes were healthy", time.Since(began))
		requireVerified(t, ctx, node, signed, proposed, 99)
	})

	t.Run("what is sent is signed before anyone asks, and kept", func(t *testing.T) {
		eager := startService(t, program, node)
		m, _ := chain.message(ctx, chain.sendByContract(ctx, []byte("not requested yet")))
		accepted := time.Now()
		require.Eventually(t, func() bool {
			return eager.metric("quorate_ahead_jobs_total", `outcome="signed"`) > 0 && eager.metric("quorate_ahead_waiting") == 0
		}, 2*time.Minute, 10*time.Millisecond)
		t.Logf("signed %s after its acceptance was known here", time.Since(accepted))
		asked := eager.metric("quorate_signature_requests_total")
		require.Positive(t, asked)
		began := time.Now()
		signed := eager.sign(ctx, m, 67)
		t.Logf("answered in %s", time.Since(began))
		requireVerified(t, ctx, node, signed, proposed, 67)
		eager.stop()
		eager.start()
		require.Equal(t, signed.Bytes(), eager.sign(ctx, m, 67).Bytes())
		require.Zero(t, eager.metric("quorate_signature_requests_total"), "validators were asked for what was kept")
	})

	t.Run("a restart keeps the identity and works at once", func(t *testing.T) {
		s.stop()
		s.start()
		requireVerified(t, ctx, node, s.sign(ctx, next(), 67), proposed, 67)
	})
	t.Logf("all after %s", time.Since(start))
}
