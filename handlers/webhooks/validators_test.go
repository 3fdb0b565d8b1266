package webhooks_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"

	"quorate/handlers/apitest"
	"quorate/handlers/chainkit"
	"quorate/internal/webhook"
)

var nodeID = ids.NodeID{7}.String()

func validators(url string) map[string]any {
	return map[string]any{
		"eventType": "validator_activity", "url": url, "network": "fuji", "name": "mine",
		"metadata": map[string]any{
			"keyType": "nodeId", "keys": []string{nodeID}, "subnetIds": []string{ids.Empty.String()}, "l1ValidatorFeeBalanceThreshold": "5000000000",
			"subEvents": map[string]any{"validatorActivitySubEvents": []string{"validator_stake", "l1_validator_balance_threshold"}},
		},
	}
}

// TestOfficialClientWatchesValidators calls the operations for a webhook for validators.
func TestOfficialClientWatchesValidators(t *testing.T) {
	a := newAPI(t, nil)
	server := httptest.NewServer(a)
	defer server.Close()
	client := chainkit.Install(t)
	request := validators("https://example.org/hook")
	created := client.Run(t, server.URL, []chainkit.Call{{Name: "create", Path: "webhooks.create", Request: request}})[0]
	require.Nil(t, created.Error, "%+v", created.Error)
	hook := created.Pages[0]
	require.Equal(t, []any{"p-chain", "active", "validator_activity"}, []any{hook["chainId"], hook["status"], hook["eventType"]})
	metadata := hook["metadata"].(map[string]any)
	require.Equal(t, "nodeId", metadata["keyType"])
	require.Equal(t, []any{nodeID}, metadata["keys"])
	require.Equal(t, []any{ids.Empty.String()}, metadata["subnetIds"])
	require.Equal(t, "5000000000", metadata["l1ValidatorFeeBalanceThreshold"])
	require.Equal(t, map[string]any{"validatorActivitySubEvents": []any{"validator_stake", "l1_validator_balance_threshold"}}, metadata["subEvents"])
	id := hook["id"].(string)
	stored, err := a.book.Get(t.Context(), "", id)
	require.NoError(t, err)
	require.EqualValues(t, 8, stored.From)
	require.Equal(t, webhook.PChain(5), stored.Chain)

	results := client.Run(t, server.URL, []chainkit.Call{
		{Name: "get", Path: "webhooks.get", Request: map[string]any{"id": id}},
		{Name: "list", Path: "webhooks.list", List: "webhooks", Request: map[string]any{}},
		{Name: "update", Path: "webhooks.update", Request: map[string]any{"id": id, "updateWebhookRequest": map[string]any{"name": "another"}}},
		{Name: "addresses", Path: "webhooks.addresses.list", List: "addresses", Request: map[string]any{"id": id}},
		{Name: "deactivate", Path: "webhooks.deactivate", Request: map[string]any{"id": id}},
	})
	for _, r := range results {
		require.Nil(t, r.Error, "%s: %+v", r.Name, r.Error)
	}
	require.Equal(t, hook, results[0].Pages[0])
	require.Len(t, results[1].Pages[0]["webhooks"], 1)
	require.Equal(t, "another", results[2].Pages[0]["name"])
	require.Empty(t, results[3].Pages[0]["addresses"])
	require.Equal(t, "inactive", results[4].Pages[0]["status"])

	a.registry.Height = 20
	apitest.RequireError(t, a.do(http.MethodPatch, "/v1/webhooks/"+id, `{"includeLogs":true}`), 400, 400, "includeLogs: is only for")
	require.Equal(t, 200, a.do(http.MethodPatch, "/v1/webhooks/"+id, `{"status":"active"}`).Code)
	stored, err = a.book.Get(t.Context(), "", id)
	require.NoError(t, err)
	require.EqualValues(t, 21, stored.From, "an activated webhook reports what happens from now on")
	apitest.RequireError(t, a.do(http.MethodPatch, "/v1/webhooks/"+id+"/addresses", `{"addresses":["`+one+`"]}`), 400, 400, "id: this webhook is for validator_activity")
	apitest.RequireError(t, a.do(http.MethodDelete, "/v1/webhooks/"+id+"/addresses", `{"addresses":["`+one+`"]}`), 400, 400, "id: this webhook is for validator_activity")
}

func TestInvalidValidatorRequests(t *testing.T) {
	a := newAPI(t, nil)
	valid := `{"eventType":"validator_activity","url":"https://example.org","network":"fuji","metadata":{"keyType":"nodeId","keys":["` + nodeID +
		`"],"subEvents":{"validatorActivitySubEvents":["validator_stake"]}}}`
	for _, c := range []struct {
		old, replacement, message string
		status                    int
	}{
		{`"network"`, `"chainId":"43113","network"`, "chainId: webhooks for validator_activity have none", 400},
		{`"network"`, `"includeInternalTxs":true,"network"`, "includeInternalTxs: is only for", 400},
		{`"network":"fuji",`, ``, "network is missing", 400},
		{`"fuji"`, `"mainnet"`, "network: the validators of mainnet is not served here", 404},
		{`"fuji"`, `"x"`, `network: "x" is no network`, 400},
		{`"nodeId"`, `"addresses"`, "metadata.keyType: must be nodeId or subnetId", 400},
		{`"nodeId"`, `"subnetId"`, "metadata.keys[0]: ", 400},
		{nodeID, nodeID + "x", "metadata.keys[0]: ", 400},
		{nodeID, "", "metadata.keys[0]: ", 400},
		{`["` + nodeID + `"]`, `[]`, "metadata.keys is missing", 400},
		{`["` + nodeID + `"]`, `["` + nodeID + `","` + nodeID + `"]`, "keys has 2 elements", 400},
		{`"keys"`, `"addresses":["` + one + `"],"keys"`, `unknown field "addresses" in metadata`, 400},
		{`"keys"`, `"eventSignatures":[],"keys"`, "metadata.eventSignatures: only webhooks", 400},
		{`"keys"`, `"nodeIds":["x"],"keys"`, "metadata.nodeIds[0]: ", 400},
		{`"keys"`, `"subnetIds":["x"],"keys"`, "metadata.subnetIds[0]: ", 400},
		{`["validator_stake"]`, `[]`, "metadata.subEvents.validatorActivitySubEvents is missing", 400},
		{`["validator_stake"]`, `["stake"]`, "metadata.subEvents.validatorActivitySubEvents[0]: must be one of", 400},
		{`["validator_stake"]`, `["l1_validator_balance_threshold"]`, "metadata.l1ValidatorFeeBalanceThreshold is missing", 400},
		{`"keys"`, `"l1ValidatorFeeBalanceThreshold":"7","keys"`, "metadata.l1ValidatorFeeBalanceThreshold: is only for", 400},
		{`"metadata":{`, `"metadata":{"l1ValidatorFeeBalanceThreshold":7,`, "l1ValidatorFeeBalanceThreshold must be a string", 400},
	} {
		body := strings.Replace(valid, c.old, c.replacement, 1)
		apitest.RequireError(t, a.do(http.MethodPost, "/v1/webhooks", body), 400, c.status, c.message)
	}
	zero := strings.Replace(strings.Replace(valid, "validator_stake", "l1_validator_balance_threshold", 1), `"keys"`, `"l1ValidatorFeeBalanceThreshold":"0","keys"`, 1)
	apitest.RequireError(t, a.do(http.MethodPost, "/v1/webhooks", zero), 400, 400, "metadata.l1ValidatorFeeBalanceThreshold: must be a number")
	a.registry.CaughtUp = false
	apitest.RequireError(t, a.do(http.MethodPost, "/v1/webhooks", valid), 400, 503, "the index of the P-Chain is still catching up")
	a.registry.CaughtUp, a.registry.Rebuilding = true, true
	apitest.RequireError(t, a.do(http.MethodPost, "/v1/webhooks", valid), 400, 503, "the index of the P-Chain is being rebuilt")
	a.registry.Rebuilding = false
	require.Equal(t, 201, a.do(http.MethodPost, "/v1/webhooks", valid).Code)
}
