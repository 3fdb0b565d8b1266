package l1message

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/proto/pb/platformvm"
	"github.com/ava-labs/avalanchego/vms/platformvm/status"

	"quorate/internal/chain/pchain/pchaintest"
	"quorate/internal/node"
)

func TestScenario_7_2_29_MessageOfATransaction(t *testing.T) {
	t.Run("DroppedTransaction", func(t *testing.T) {
		w := newWorld(t)
		txID := ids.GenerateTestID()
		w.statuses[txID] = node.TxStatus{Status: status.Dropped, Reason: "warp message contains stale nonce"}
		w.requireRefusal(t, txID, CodeDropped, txID.String(), "stale nonce")
		w.statuses[txID] = node.TxStatus{Status: status.Dropped}
		w.requireRefusal(t, txID, CodeDropped, "no reason")
		w.statuses[txID] = node.TxStatus{Status: status.Dropped, Reason: strings.Repeat("ü", 1000)}
		w.requireRefusal(t, txID, CodeDropped, "...")
	})
	t.Run("SupersededWeight", func(t *testing.T) {
		w := newWorld(t)
		w.convert(1)
		id := subnetID.Append(0)
		old := w.setWeight(id, 0, 5)
		w.requireRequest(t, old, saidWeight(t, id, 0, 5))
		newer := w.setWeight(id, 1, 5) // the same weight, and still another message
		w.requireRefusal(t, old, CodeSuperseded)
		requireRefused(t, w.deriver(true), old, CodeSuperseded, newer.String())
		w.requireRequest(t, newer, saidWeight(t, id, 1, 5))
	})
	t.Run("RemovalOfInitialValidator", func(t *testing.T) {
		w := newWorld(t)
		w.convert(300) // beyond an index of one byte
		id := subnetID.Append(299)
		removal := w.setWeight(id, 0, 0)
		w.requireRequest(t, removal, saidRegistered(t, id, false))
		req, err := w.deriver(true).Request(t.Context(), removal)
		require.NoError(t, err)
		var proof platformvm.L1ValidatorRegistrationJustification
		require.NoError(t, proto.Unmarshal(req.Justification, &proof))
		require.EqualValues(t, 299, proof.GetConvertSubnetToL1TxData().GetIndex())
		require.Equal(t, subnetID[:], proof.GetConvertSubnetToL1TxData().GetSubnetId())
	})
	t.Run("RemovalOfReregisteredNode", func(t *testing.T) {
		w := newWorld(t)
		w.convert(1)
		firstTx, first := w.register(1)
		removal := w.setWeight(first.ValidationID(), 0, 0)
		secondTx, second := w.register(2) // the same node, another validation
		require.Equal(t, first.NodeID, second.NodeID)
		w.requireRequest(t, removal, saidRegistered(t, first.ValidationID(), false))
		w.requireRequest(t, firstTx, saidRegistered(t, first.ValidationID(), false))
		w.requireRequest(t, secondTx, saidRegistered(t, second.ValidationID(), true))
		secondRemoval := w.setWeight(second.ValidationID(), 0, 0)
		w.requireRequest(t, secondRemoval, saidRegistered(t, second.ValidationID(), false))
		w.requireRequest(t, removal, saidRegistered(t, first.ValidationID(), false))
	})
	t.Run("ExpiredRegistration", func(t *testing.T) {
		w := newWorld(t)
		w.convert(1)
		// Too late: there is no accepted transaction to ask for.
		late := ids.GenerateTestID()
		w.statuses[late] = node.TxStatus{Status: status.Dropped, Reason: "expiry of 12 is before the current time"}
		w.requireRefusal(t, late, CodeDropped, "expiry")
		// In time: the expiry of the order says nothing about the validator, who
		// stays registered after it, and stays removed.
		order := pchaintest.Registration(subnetID, ids.NodeID{9}, 1)
		inTime := w.accept(w.chain.Register(order))
		w.requireRequest(t, inTime, saidRegistered(t, order.ValidationID(), true))
		w.setWeight(order.ValidationID(), 0, 0)
		w.requireRequest(t, inTime, saidRegistered(t, order.ValidationID(), false))
	})
}
