package handlers

import (
	"context"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/utils/crypto/bls"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp"

	"quorate/aggregator"
	"quorate/handlers/networks"
)

// A cached request never decides anything: the signer gets each request as it was sent, and the reply
// is its current answer.
func TestRepeatsAskTheSigner(t *testing.T) {
	m := message(t, 5)
	body := `{"message":"` + hexOf(m.Bytes()) + `","quorumPercentage":80}`
	var answer *aggregator.Result
	var failure error
	s := fakeSigner{sign: func(_ context.Context, req aggregator.Request) (*aggregator.Result, error) {
		return answer, failure
	}}
	h := newPublic(t, &s, nil)
	signedBy := func(signers byte) *aggregator.Result {
		signed, err := warp.NewMessage(m, &warp.BitSetSignature{Signers: []byte{signers}, Signature: [bls.SignatureLen]byte{1}})
		require.NoError(t, err)
		return &aggregator.Result{Message: signed}
	}
	one, other := signedBy(7), signedBy(3)
	moved := *one
	for i, turn := range []struct {
		answer *aggregator.Result
		err    error
		status int
	}{
		{one, nil, 200},
		{one, nil, 200},
		{&moved, nil, 200},
		{other, nil, 200},
		{nil, &aggregator.Error{Code: aggregator.CodeQuorumNotReached, Message: "too few"}, 500},
		{other, nil, 200},
		{one, nil, 200},
	} {
		answer, failure = turn.answer, turn.err
		for path, member := range map[string]string{fujiPath: "signedMessage", peerPath: "signed-message"} {
			w := post(h, path, body)
			require.Equal(t, turn.status, w.Code, w.Body)
			if turn.err == nil {
				require.JSONEq(t, `{"`+member+`":"`+hexOf(turn.answer.Message.Bytes())+`"}`, w.Body.String(), "turn %d, %s", i, path)
			}
		}
	}
	requests := s.requests()
	require.Len(t, requests, 14)
	for i, req := range requests {
		require.Equal(t, m.ID(), req.Message.ID())
		// The peer's program knows the member by another name, which is understood.
		require.EqualValues(t, 80, req.QuorumPercentage, "request %d", i)
		require.Nil(t, req.Progress)
	}
	// The same bytes are another request where the network is another.
	requireAPIError(t, post(newPublic(t, &s, func(o *Options) {
		o.Networks = networks.Fixed(map[string]Network{"fuji": {NetworkID: 5, Signer: &s}, "mainnet": {NetworkID: 1, Signer: &s}})
	}), "/v1/signatureAggregator/mainnet/aggregateSignatures", body), http.StatusBadRequest, "message", "network")
	w := post(h, fujiPath, body, "User-Agent", "speakeasy-sdk/typescript 1.0")
	require.Equal(t, http.StatusCreated, w.Code)
	require.JSONEq(t, `{"signedMessage":"`+hexOf(one.Message.Bytes())+`"}`, w.Body.String())
}
