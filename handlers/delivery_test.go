package handlers

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"

	"quorate/aggregator"
	"quorate/aggregator/delivery"
	"quorate/aggregator/evmmessage"
	"quorate/handlers/networks"
)

// fakeDeliveries records its calls. It has every field in its outcomes.
type fakeDeliveries struct {
	check func(context.Context, delivery.Request) *delivery.Delivery

	mu    sync.Mutex
	calls []delivery.Request // guarded by mu
}

func (f *fakeDeliveries) Check(ctx context.Context, req delivery.Request) *delivery.Delivery {
	f.mu.Lock()
	f.calls = append(f.calls, req)
	f.mu.Unlock()
	if f.check != nil {
		return f.check(ctx, req)
	}
	no, end := false, time.Unix(1_700_000_030, 0).UTC()
	return &delivery.Delivery{
		Deliverable: &no, Code: delivery.EpochBehind, Detail: "the epoch is behind", Remedy: "Wait.", DestinationID: req.DestinationID,
		Epoch:     &delivery.Epoch{Number: 3, PChainHeight: 8, StartTime: end.Add(-30 * time.Second), EndTime: end},
		Rules:     &delivery.Rules{QuorumPercentage: 67, Source: delivery.FromProtocol},
		Set:       &delivery.Signers{PChainHeight: 8, Signers: 1, Weight: 7, TargetWeight: 67, TotalWeight: 100},
		NextEpoch: &delivery.NextEpoch{PChainHeight: 9, NotBefore: end, Blocks: 1},
		ExpiresAt: &end,
	}
}

// deliveryIn returns the field delivery of a body.
func deliveryIn(t *testing.T, body []byte) map[string]any {
	t.Helper()
	var answer struct{ Delivery map[string]any }
	require.NoError(t, json.Unmarshal(body, &answer))
	return answer.Delivery
}

// TestDelivery checks that every answer with a signed message has the delivery to the blockchain that the request names,
// and none otherwise.
func TestDelivery(t *testing.T) {
	sent := func(context.Context, string, ids.ID) ([]evmmessage.Sent, error) {
		return []evmmessage.Sent{{LogIndex: 1, Message: message(t, 5)}}, nil
	}
	s := &fakeSigner{sent: sent, sign: func(_ context.Context, req aggregator.Request) (*aggregator.Result, error) {
		result := signed(req)
		result.SigningSubnetID, result.PChainHeight = ids.ID{4}, 12
		return result, nil
	}}
	deliveries := new(fakeDeliveries)
	h := newPublic(t, s, func(o *Options) {
		o.Networks = networks.Fixed(map[string]Network{"fuji": {NetworkID: 5, Signer: s, Deliveries: deliveries}})
	})
	destination, m := ids.ID{9}, hexOf(message(t, 5).Bytes())
	named := `{"message":"` + m + `","verifyingBlockchainId":"` + destination.String() + `"}`

	for range 2 { // the answer is not cached
		w := post(h, fujiPath, named)
		require.Equal(t, http.StatusOK, w.Code, w.Body)
		require.Equal(t, "EPOCH_BEHIND", deliveryIn(t, w.Body.Bytes())["code"])
	}
	require.Len(t, deliveries.calls, 2)
	require.Equal(t, destination, deliveries.calls[0].DestinationID)
	require.Equal(t, ids.ID{4}, *deliveries.calls[0].SigningSubnetID)
	require.Equal(t, uint64(12), deliveries.calls[0].PChainHeight)

	w := post(h, peerPath, `{"message":"`+m+`","verifying-blockchain-id":"`+destination.String()+`"}`)
	require.Equal(t, "EPOCH_BEHIND", deliveryIn(t, w.Body.Bytes())["code"])
	names, data := events(t, post(h, fujiPath, named, "Accept", "text/event-stream").Body.String())
	require.Equal(t, "result", names[len(names)-1])
	require.Equal(t, "EPOCH_BEHIND", data[len(data)-1]["delivery"].(map[string]any)["code"])

	var batch struct{ Results, Messages []json.RawMessage }
	w = post(h, fujiPath+":batch", `{"requests":[`+named+`,{"message":"`+m+`"}]}`)
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &batch), w.Body)
	require.Equal(t, "EPOCH_BEHIND", deliveryIn(t, batch.Results[0])["code"])
	require.Nil(t, deliveryIn(t, batch.Results[1]))
	w = get(h, sentPath("c-chain", ids.ID{1}.Hex())+"?verifyingBlockchainId="+destination.String())
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &batch), w.Body)
	require.Equal(t, "EPOCH_BEHIND", deliveryIn(t, batch.Messages[0])["code"])

	// Requests that name no blockchain cost nothing.
	before := len(deliveries.calls)
	require.Nil(t, deliveryIn(t, post(h, fujiPath, `{"message":"`+m+`"}`).Body.Bytes()))
	require.Len(t, deliveries.calls, before)
}

// TestVerifyDelivery checks the delivery to a destination, with the height that is known to have signed.
func TestVerifyDelivery(t *testing.T) {
	deliveries := new(fakeDeliveries)
	h := newPublic(t, new(fakeSigner), func(o *Options) {
		o.Networks = networks.Fixed(map[string]Network{"fuji": {NetworkID: 5, Signer: new(fakeSigner), Deliveries: deliveries}})
	})
	m := hexOf(signed(aggregator.Request{Message: message(t, 5)}).Message.Bytes())
	destination := ids.ID{9}
	w := post(h, verifyPath, `{"signedMessage":"`+m+`","pChainHeight":8,"destinationBlockchainId":"`+destination.String()+`"}`)
	require.Equal(t, http.StatusOK, w.Code, w.Body)
	require.Equal(t, "EPOCH_BEHIND", deliveryIn(t, w.Body.Bytes())["code"])
	require.Equal(t, uint64(8), deliveries.calls[0].PChainHeight)
	require.Equal(t, destination, deliveries.calls[0].DestinationID)
	require.Nil(t, deliveryIn(t, post(h, verifyPath, `{"signedMessage":"`+m+`"}`).Body.Bytes()))
	requireAPIError(t, post(h, verifyPath, `{"signedMessage":"`+m+`","destinationBlockchainId":"x"}`), 400, "destinationBlockchainId", "blockchain ID")
	require.Len(t, deliveries.calls, 1)
}

// TestDeliveryDoesNotHoldUpSigning returns a signed message although the upstream node does not answer
// about its delivery.
func TestDeliveryDoesNotHoldUpSigning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		deliveries := &fakeDeliveries{check: func(ctx context.Context, req delivery.Request) *delivery.Delivery {
			<-ctx.Done()
			return &delivery.Delivery{Code: delivery.Unknown, Detail: "no answer", DestinationID: req.DestinationID}
		}}
		h := newPublic(t, new(fakeSigner), func(o *Options) {
			o.Networks = networks.Fixed(map[string]Network{"fuji": {NetworkID: 5, Signer: new(fakeSigner), Deliveries: deliveries}})
		})
		began := time.Now()
		w := post(h, fujiPath, `{"message":"`+hexOf(message(t, 5).Bytes())+`","verifyingBlockchainId":"`+ids.ID{9}.String()+`"}`)
		require.Equal(t, http.StatusOK, w.Code, w.Body)
		require.Equal(t, 2*time.Second, time.Since(began))
		d := deliveryIn(t, w.Body.Bytes())
		require.Contains(t, d, "deliverable")
		require.Nil(t, d["deliverable"])
		require.Equal(t, "UNKNOWN", d["code"])
	})
}
