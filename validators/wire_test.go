package validators_test

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/api"
	"github.com/ava-labs/avalanchego/ids"
	snow "github.com/ava-labs/avalanchego/snow/validators"
	"github.com/ava-labs/avalanchego/utils/constants"
	"github.com/ava-labs/avalanchego/utils/crypto/bls"
	"github.com/ava-labs/avalanchego/utils/crypto/bls/signer/localsigner"
	"github.com/ava-labs/avalanchego/vms/platformvm"

	"quorate/internal/node"
	"quorate/validators"
)

// TestBothCallsGiveTheLibrarysSet sends the library's own replies over HTTP.
func TestBothCallsGiveTheLibrarysSet(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	outputs := make(map[ids.NodeID]*snow.GetValidatorOutput)
	var keys []*bls.PublicKey
	for i := range 60 {
		o := &snow.GetValidatorOutput{NodeID: ids.NodeID{byte(i), 1}, Weight: 1 + rng.Uint64N(1<<50)}
		switch {
		case i%10 == 0: // no key, as inactive L1 validators
		case i%4 == 1 && len(keys) > 0:
			o.PublicKey = keys[rng.IntN(len(keys))]
		default:
			signer, err := localsigner.New()
			require.NoError(t, err)
			o.PublicKey = signer.PublicKey()
			keys = append(keys, o.PublicKey)
		}
		outputs[o.NodeID] = o
	}
	want, err := snow.FlattenValidatorSet(outputs)
	require.NoError(t, err)

	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var call struct {
			Method string `json:"method"`
		}
		if err := json.NewDecoder(r.Body).Decode(&call); err != nil {
			t.Errorf("request: %v", err)
		}
		var result any
		switch call.Method {
		case "platform.getHeight", "platform.getProposedHeight":
			result = api.GetHeightResponse{Height: 7}
		case "platform.getValidatorsAt":
			result = &platformvm.GetValidatorsAtReply{Validators: outputs}
		case "platform.getAllValidatorsAt":
			result = &platformvm.GetAllValidatorsAtReply{ValidatorSets: map[ids.ID]snow.WarpSet{constants.PrimaryNetworkID: want}}
		}
		if err := json.NewEncoder(w).Encode(map[string]any{"jsonrpc": "2.0", "id": 1, "result": result}); err != nil {
			t.Errorf("response: %v", err)
		}
	}))
	defer server.Close()
	client, err := node.New(node.Options{Endpoints: []string{server.URL}})
	require.NoError(t, err)
	defer client.Close()

	single, err := validators.NewResolver(client, validators.Options{}).Set(t.Context(), constants.PrimaryNetworkID, 7)
	require.NoError(t, err)
	prefetched := firstSet(t, client)

	require.Equal(t, single.Fingerprint(), prefetched.Fingerprint())
	for _, got := range []*validators.Set{single, prefetched} {
		require.Equal(t, want.TotalWeight, got.TotalWeight)
		require.Len(t, got.Validators, len(want.Validators))
		for i, v := range want.Validators {
			require.Equal(t, v.PublicKeyBytes, got.Validators[i].PublicKeyBytes)
			require.Equal(t, v.PublicKeyBytes, bls.PublicKeyToUncompressedBytes(got.Validators[i].PublicKey))
			require.Equal(t, v.Weight, got.Validators[i].Weight)
			nodeIDs := slices.Clone(v.NodeIDs)
			slices.SortFunc(nodeIDs, ids.NodeID.Compare)
			require.Equal(t, nodeIDs, got.Validators[i].NodeIDs)
		}
	}
}

// firstSet returns the primary network's set as a follower receives it first.
func firstSet(t *testing.T, client *node.Client) *validators.Set {
	found := make(chan *validators.Set, 1)
	r := validators.NewResolver(client, validators.Options{OnSets: func(_ uint64, sets map[ids.ID]*validators.Set) {
		found <- sets[constants.PrimaryNetworkID]
	}})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- r.Run(ctx) }()
	s := <-found
	cancel()
	require.NoError(t, <-done)
	return s
}
