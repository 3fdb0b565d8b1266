package main

import (
	"bytes"
	"encoding/hex"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/logging"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp"

	"quorate/client"
	"quorate/internal/simnet"
)

// TestClientAgainstService calls a running service through package client: every kind of success and of failure.
func TestClientAgainstService(t *testing.T) {
	n, err := simnet.Start(simnet.Options{Seed: 21, Validators: 5})
	require.NoError(t, err)
	defer n.Close()
	s := startService(t, t.TempDir(), map[string]*simnet.Network{"fuji": n}, "--request-timeout", "4s")
	defer s.stop(t)
	c, err := client.New(client.Options{URL: s.base, Network: "fuji"})
	require.NoError(t, err)
	defer c.Close()
	ctx := t.Context()
	verify := func(m *warp.Message, quorum uint64) *client.Verdict {
		t.Helper()
		v, err := c.Verify(ctx, client.VerifyRequest{Message: m, QuorumPercentage: quorum})
		require.NoError(t, err)
		return v
	}

	one := n.Message([]byte("one"))
	signed, err := c.Sign(ctx, client.Request{Message: one.Bytes(), SignOptions: client.SignOptions{QuorumPercentage: 80, Wait: time.Second}})
	require.NoError(t, err)
	verdict := verify(signed, 80)
	require.True(t, verdict.Valid, verdict.Reason)
	signers, err := signed.Signature.NumSigners()
	require.NoError(t, err)
	require.Len(t, verdict.Signers, signers)
	require.GreaterOrEqual(t, verdict.Weight, verdict.TargetWeight)
	forged := *signed.Signature.(*warp.BitSetSignature)
	forged.Signature[95] ^= 1
	bad, err := warp.NewMessage(one, &forged)
	require.NoError(t, err)
	verdict = verify(bad, 80)
	require.False(t, verdict.Valid)
	require.NotEmpty(t, verdict.Reason)

	// The service takes the data of the log, and the client knows the message in it.
	log := append(bytes.Repeat([]byte{0}, 64), one.Bytes()...)
	log[31], log[63] = 32, byte(len(one.Bytes()))
	log = append(log, make([]byte, (32-len(log)%32)%32)...)
	fromLog, err := c.Sign(ctx, client.Request{Message: log})
	require.NoError(t, err)
	require.Equal(t, one.Bytes(), fromLog.UnsignedMessage.Bytes())

	two := n.Message([]byte("two"))
	results, err := c.SignBatch(ctx, []client.Request{{Message: two.Bytes()}, {Message: []byte{1}}})
	require.NoError(t, err)
	require.NoError(t, results[0].Err)
	require.True(t, verify(results[0].Message, 67).Valid)
	var failed *client.Error
	require.ErrorAs(t, results[1].Err, &failed)
	require.Equal(t, 400, failed.Status)
	require.Nil(t, results[1].Message)

	relayed, err := client.Aggregator{Client: c}.CreateSignedMessage(ctx, logging.NoLog{}, n.Message([]byte("relayed")), nil, ids.Empty, 67, 0)
	require.NoError(t, err)
	require.True(t, verify(relayed, 67).Valid)

	judged, err := c.Verify(ctx, client.VerifyRequest{Message: relayed, DestinationBlockchainID: &relayed.SourceChainID})
	require.NoError(t, err)
	require.Equal(t, client.DeliveryDeliverable, judged.Delivery.Code)
	require.Equal(t, relayed.SourceChainID, judged.Delivery.DestinationBlockchainID)
	require.Equal(t, judged.Weight, judged.Delivery.Validators.Weight)

	_, err = c.SignTransaction(ctx, ids.ID{1})
	require.ErrorIs(t, err, &client.Error{Code: client.CodeUnknownTransaction})
	_, err = c.SignEVMTransaction(ctx, ids.ID{9}.String(), ids.ID{1}, client.SignOptions{QuorumPercentage: 70})
	require.ErrorIs(t, err, &client.Error{Code: client.CodeUnknownChain})
	_, err = c.Sign(ctx, client.Request{Message: one.Bytes(), SignOptions: client.SignOptions{SigningSubnetID: &ids.ID{9}}})
	require.ErrorIs(t, err, &client.Error{Code: client.CodeUnknownSubnet})

	// Most validators stop answering: the progress shows it, and the failure accounts for all of the weight.
	for _, v := range n.Validators()[:3] {
		require.NoError(t, v.SetBehaviour(simnet.Silent))
	}
	three := n.Message([]byte("three"))
	var last client.Progress
	_, err = c.SignWithProgress(ctx, client.Request{Message: three.Bytes()}, func(p client.Progress) { last = p })
	require.ErrorIs(t, err, &client.Error{Code: client.CodeQuorumNotReached})
	require.ErrorAs(t, err, &failed)
	require.Positive(t, last.SignedWeight+last.UnprovenWeight)
	a := failed.Outcomes
	require.Equal(t, a.TotalWeight, last.TotalWeight)
	require.Positive(t, a.SilentWeight+a.UnansweredWeight)
	require.Equal(t, a.TotalWeight, a.SignedWeight+a.UnprovenWeight+a.InvalidWeight+a.SilentWeight+a.UnansweredWeight+
		a.DisconnectedWeight+a.UnaskedWeight+a.KeylessWeight+a.RefusedWeight)
	require.NotEmpty(t, a.Reasons)
	missing := a.SignedWeight + a.UnprovenWeight
	for _, r := range a.Reasons {
		missing += r.Weight
		require.NotEmpty(t, r.Remedy)
	}
	require.Equal(t, a.TotalWeight, missing)
	// The command prints the reasons that the service sends. Whether the round or the requests end first is a matter of time.
	code, _, errOut := quorate(t, "", "sign", "--server", s.base, hex.EncodeToString(three.Bytes()))
	require.Equal(t, exitNegative, code, errOut)
	require.Regexp(t, `%  (NO_ANSWER|UNANSWERED): .+\n +(Check that the validators|Look at the other)`, errOut)
	for _, v := range n.Validators()[:3] {
		require.NoError(t, v.SetBehaviour(simnet.Honest))
	}
	signed, err = c.SignWithProgress(ctx, client.Request{Message: three.Bytes()}, func(client.Progress) {})
	require.NoError(t, err)
	require.True(t, verify(signed, 67).Valid)
}
