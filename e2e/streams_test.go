package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/api/info"
	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/units"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp/message"

	"quorate/e2e/localnet"
)

// stream reads events of a name from a stream until done says that there are enough.
func (s *service) stream(ctx context.Context, path, name string, done func(data []byte) bool) {
	s.t.Helper()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+path, http.NoBody)
	require.NoError(s.t, err)
	response, err := http.DefaultClient.Do(request)
	require.NoError(s.t, err)
	defer func() { _ = response.Body.Close() }()
	require.Equal(s.t, http.StatusOK, response.StatusCode)
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, 4<<20)
	event := ""
	for lines.Scan() {
		switch field, value, _ := strings.Cut(lines.Text(), ": "); {
		case field == "event":
			event = value
		case field == "data" && event == name:
			if done([]byte(value)) {
				return
			}
		}
	}
	require.FailNow(s.t, "the stream ended", "%v", lines.Err())
}

// TestValidatorStream follows the validators of an L1 from its conversion on: those of the conversion, one that joins,
// changes its weight and leaves.
func TestValidatorStream(t *testing.T) {
	t.Parallel()
	ctx, cancel := testContext(t, 6*time.Minute)
	defer cancel()
	program := buildService(t)
	// As on public networks, the proposed height is about 30 s behind the tip.
	network := localnet.StartWith(t, localnet.Options{Flags: []string{"--proposervm-use-current-height=false"}})
	node := network.Node(0).URL
	s := &l1Story{t: t, node: node, c: newCChain(t, ctx, node), p: newPChain(t, ctx, node)}
	s.service = startService(t, program, node)
	cChainID, err := info.NewClient(node).GetBlockchainID(ctx, "C")
	require.NoError(t, err)
	l := s.p.convert(3, cChainID, s.c.account.Bytes())
	v := newIdentity(t)
	order, err := message.NewRegisterL1Validator(l.id, v.nodeID, v.proof.PublicKey, uint64(time.Now().Add(time.Hour).Unix()), message.PChainOwner{}, message.PChainOwner{}, 50)
	require.NoError(t, err)
	s.p.accepted(s.p.wallet.IssueRegisterL1ValidatorTx(units.Avax, v.proof.ProofOfPossession, s.order(ctx, order, nil)))
	s.setWeight(ctx, order.ValidationID(), 0, 60)
	s.setWeight(ctx, order.ValidationID(), 1, 0)
	proposed, err := s.p.client.GetProposedHeight(ctx)
	require.NoError(t, err)
	require.Less(t, proposed, s.p.height(ctx), "the proposed height")

	type change struct {
		NodeID                 ids.NodeID
		Change                 string
		Weight, PreviousWeight string
		PublicKey              string
	}
	type event struct {
		PChainHeight uint64 `json:",string"`
		TotalWeight  string
		Validators   []change
	}
	var events []event
	s.service.stream(ctx, "/v1/signatureAggregator/local/subnets/"+l.id.String()+"/validators:stream?from=oldest", "validators", func(data []byte) bool {
		var e event
		require.NoError(t, json.Unmarshal(data, &e))
		events = append(events, e)
		return len(events) == 4
	})
	require.Len(t, events[0].Validators, 3)
	for i := range events {
		require.True(t, i == 0 || events[i].PChainHeight > events[i-1].PChainHeight)
		if i > 0 {
			events[i].Validators[0].PublicKey = ""
		}
	}
	require.Equal(t, []change{{NodeID: v.nodeID, Change: "JOINED", Weight: "50"}}, events[1].Validators)
	require.Equal(t, []change{{NodeID: v.nodeID, Change: "CHANGED", Weight: "60", PreviousWeight: "50"}}, events[2].Validators)
	require.Equal(t, []change{{NodeID: v.nodeID, Change: "LEFT", PreviousWeight: "60"}}, events[3].Validators)
	require.Equal(t, events[0].TotalWeight, events[3].TotalWeight)
	for _, one := range events[0].Validators {
		require.Equal(t, "JOINED", one.Change)
		require.Len(t, one.PublicKey, 2+96)
	}
}
