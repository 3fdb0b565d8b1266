package node

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/constants"
)

// methods answers each method with its result, and others like avalanchego.
func methods(t *testing.T, results map[string]string) string {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var call struct {
			ID     uint64 `json:"id"`
			Method string `json:"method"`
		}
		if err := json.NewDecoder(r.Body).Decode(&call); err != nil {
			t.Errorf("request: %v", err)
		}
		result, ok := results[r.URL.Path+" "+call.Method]
		if !ok {
			_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","error":{"code":-32000,"message":"rpc: can't find method \"%s\"","data":null},"id":%d}`, call.Method, call.ID)
			return
		}
		_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","result":%s,"id":%d}`, result, call.ID)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

const (
	nodeA = "NodeID-7Xhw2mDxuDS44j42TCB6U5579esbSt3Lg"
	nodeB = "NodeID-MFrZFVCXPv5iCn6M9K6XduxGTYp891xXZ"
	nodeC = "NodeID-NFBbbJ4qCmNaCzeW7sxErhvWqvEQMnYcN"
	key48 = "abababababababababababababababababababababababababababababababababababababababababababababababab"
)

func TestAnswersOfANode(t *testing.T) {
	subnet, chain, validation := ids.ID{2}, ids.ID{3}, ids.ID{4}
	key := strings.Repeat("ab", 48)
	c := newClient(t, methods(t, map[string]string{
		"/ext/info info.getNetworkID":          `{"networkID":"5"}`,
		"/ext/info info.getNodeID":             `{"nodeID":"` + nodeA + `","nodePOP":{"publicKey":"0x85","proofOfPossession":"0x86"}}`,
		"/ext/info info.getBlockchainID":       `{"blockchainID":"` + chain.String() + `"}`,
		"/ext/bc/P platform.getHeight":         `{"height":"18446744073709551615"}`,
		"/ext/bc/P platform.getProposedHeight": `{"height":"12"}`,
		"/ext/bc/P platform.validatedBy":       `{"subnetID":"` + subnet.String() + `"}`,
		"/ext/bc/P platform.getSubnet": `{"isPermissioned":false,"controlKeys":[],"threshold":"0","locktime":"0",
			"subnetTransformationTxID":"11111111111111111111111111111111LpoYY","conversionID":"` + validation.String() + `",
			"managerChainID":"` + chain.String() + `","managerAddress":"0x8db97c7cece249c2b98bdc0226cc4c2a57bf52fc"}`,
		"/ext/bc/P platform.getCurrentValidators": `{"validators":[
			{"nodeID":"` + nodeA + `","weight":"20","startTime":"1","validationID":"` + validation.String() + `","publicKey":"0x` + key + `",
			 "remainingBalanceOwner":{"locktime":"0","threshold":"1","addresses":[]},"minNonce":"0","balance":"2047"},
			{"txID":"` + chain.String() + `","nodeID":"` + nodeB + `","weight":"2","startTime":"1","endTime":"2","uptime":"100.0000","connected":true,
			 "signer":{"publicKey":"0x` + key + `","proofOfPossession":"0x86"},"delegatorCount":"0"},
			{"txID":"` + chain.String() + `","nodeID":"` + nodeC + `","weight":"1","startTime":"1","endTime":"2"}]}`,
		"/ext/bc/P/proposervm proposervm.getCurrentEpoch":                      `{"number":"3","startTime":"1700000000","pChainHeight":"11"}`,
		"/ext/bc/" + chain.String() + "/proposervm proposervm.getCurrentEpoch": `{"number":"4","startTime":"1700000001","pChainHeight":"9"}`,
	}))
	ctx := t.Context()

	network, err := c.NetworkID(ctx)
	require.NoError(t, err)
	require.Equal(t, uint32(5), network)
	nodeID, err := c.NodeID(ctx)
	require.NoError(t, err)
	require.Equal(t, nodeA, nodeID.String())
	blockchain, err := c.BlockchainID(ctx, "C")
	require.NoError(t, err)
	require.Equal(t, chain, blockchain)
	height, err := c.Height(ctx)
	require.NoError(t, err)
	require.Equal(t, ^uint64(0), height)
	height, err = c.ProposedHeight(ctx)
	require.NoError(t, err)
	require.Equal(t, uint64(12), height)
	by, err := c.ValidatedBy(ctx, chain)
	require.NoError(t, err)
	require.Equal(t, subnet, by)
	l1, err := c.Subnet(ctx, subnet)
	require.NoError(t, err)
	require.Equal(t, validation, l1.ConversionID)
	require.Len(t, []byte(l1.ManagerAddress), 20)

	current, err := c.CurrentValidators(ctx, subnet)
	require.NoError(t, err)
	require.Len(t, current, 3)
	require.Equal(t, validation, current[0].ValidationID)
	require.Equal(t, uint64(2047), *current[0].Balance)
	require.Equal(t, ids.Empty, current[1].ValidationID)
	require.Nil(t, current[1].Balance)

	epoch, err := c.CurrentEpoch(ctx, constants.PlatformChainID)
	require.NoError(t, err)
	require.Equal(t, Epoch{PChainHeight: 11, Number: 3, StartTime: time.Unix(1700000000, 0)}, epoch)
	epoch, err = c.CurrentEpoch(ctx, chain)
	require.NoError(t, err)
	require.Equal(t, uint64(9), epoch.PChainHeight)

	_, err = c.AllValidatorsAt(ctx, 1)
	var refused *RPCError
	require.ErrorAs(t, err, &refused)
	require.True(t, refused.NotOffered(), "got %v", err)
}

func TestPeersOfAllEndpoints(t *testing.T) {
	peers := `{"numPeers":"3","peers":[
		{"ip":"127.0.0.1:60300","publicIP":"1.2.3.4:9651","nodeID":"` + nodeB + `","version":"avalanchego/1.14.2","upgradeTime":1,"trackedSubnets":[],"supportedACPs":[],"objectedACPs":[],"observedUptime":"99","lastSent":"2026-01-01T00:00:00Z","benched":[]},
		{"ip":"5.6.7.8:9651","publicIP":"","nodeID":"` + nodeC + `"},
		{"ip":"0.0.0.0:1","publicIP":"","nodeID":"` + ids.NodeID{9}.String() + `"}]}`
	own := func(nodeID, ip string) map[string]string {
		return map[string]string{
			"/ext/info info.getNodeID": `{"nodeID":"` + nodeID + `"}`,
			"/ext/info info.getNodeIP": `{"ip":"` + ip + `"}`,
		}
	}
	private := own(nodeA, "9.9.9.9:9651")
	private["/ext/info info.peers"] = peers
	public := map[string]string{"/ext/info info.peers": peers}
	at := func(nodeID, addr string) Peer {
		id, err := ids.NodeIDFromString(nodeID)
		require.NoError(t, err)
		return Peer{NodeID: id, Addr: netip.MustParseAddrPort(addr)}
	}
	a, b, c := at(nodeA, "9.9.9.9:9651"), at(nodeB, "1.2.3.4:9651"), at(nodeC, "5.6.7.8:9651")
	for name, test := range map[string]struct {
		endpoints []string
		want      []Peer
	}{
		"one's own node":               {[]string{methods(t, private)}, []Peer{a, b, c}},
		"a public server hides itself": {[]string{methods(t, public)}, []Peer{b, c}},
		"a node without peers' names":  {[]string{methods(t, own(nodeA, "9.9.9.9:9651"))}, []Peer{a}},
		"it does not know its address": {[]string{methods(t, own(nodeA, "0.0.0.0:0")), methods(t, public)}, []Peer{b, c}},
		"one of them is down":          {[]string{away, methods(t, private)}, []Peer{a, b, c}},
		"each node tells of itself":    {[]string{methods(t, own(nodeA, "9.9.9.9:9651")), methods(t, own(nodeB, "1.2.3.4:9651"))}, []Peer{a, b}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := newClient(t, test.endpoints...).Peers(t.Context())
			require.NoError(t, err)
			require.Equal(t, test.want, got)
		})
	}
	_, err := newClient(t, away).Peers(t.Context())
	require.ErrorIs(t, err, ErrUnavailable)
}

// The proposed height is sent as a word, since nodes refuse the number that stands for it
// in Go (avalanchego, vms/platformvm/api).
func TestHeightsOfValidatorSetsAsNodesTakeThem(t *testing.T) {
	var heights []any
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var call struct {
			ID     uint64         `json:"id"`
			Method string         `json:"method"`
			Params map[string]any `json:"params"`
		}
		if err := json.NewDecoder(r.Body).Decode(&call); err != nil {
			t.Errorf("request: %v", err)
		}
		heights = append(heights, call.Params["height"])
		result := `{}`
		if call.Method == "platform.getAllValidatorsAt" {
			result = `{"validatorSets":{}}`
		}
		_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","result":%s,"id":%d}`, result, call.ID)
	}))
	t.Cleanup(server.Close)
	c := newClient(t, server.URL)
	for _, height := range []uint64{0, 7, math.MaxUint64} {
		_, err := c.ValidatorsAt(t.Context(), ids.Empty, height)
		require.NoError(t, err)
	}
	_, err := c.AllValidatorsAt(t.Context(), 9)
	require.NoError(t, err)
	require.Equal(t, []any{"0", "7", "proposed", "9"}, heights)
}
