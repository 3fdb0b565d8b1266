package e2e

import (
	"context"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/constants"
	"github.com/ava-labs/avalanchego/utils/formatting/address"

	"quorate/e2e/localnet"
)

var anyUTXO = regexp.MustCompile(`UTXO [1-9A-Za-z]{40,}`)

// badRequests are refused by both in the same words.
func (n *nodeAPI) badRequests(ctx context.Context, t *testing.T) {
	const contentType = "application/json"
	unknown := ids.GenerateTestID().String()
	type request struct {
		verb, path, contentType, body string
		// private requests are to the operator's address, header has more than the type.
		private bool
		header  http.Header
	}
	var all []request
	add := func(path string, bodies ...string) {
		for _, b := range bodies {
			all = append(all, request{verb: http.MethodPost, path: path, contentType: contentType, body: b})
		}
	}
	paths := []string{"/ext/info", "/ext/bc/P", "/ext/bc/X", "/ext/bc/X/wallet", "/ext/bc/P/proposervm", "/ext/bc/C/avax", "/ext/index/P/block", "/ext/index/X/vtx", "/ext/health", "/ext/admin"}
	methods := map[string]string{
		"/ext/info": "info.getNetworkID", "/ext/bc/P": "platform.getHeight", "/ext/bc/X": "avm.getHeight", "/ext/index/P/block": "index.isAccepted",
		"/ext/bc/X/wallet": "wallet.issueTx", "/ext/bc/P/proposervm": "proposervm.getProposedHeight", "/ext/bc/C/avax": "avax.getUTXOs", "/ext/index/X/vtx": "index.isAccepted",
		"/ext/health": "health.liveness", "/ext/admin": "admin.loadVMs",
	}
	for _, path := range paths {
		before := len(all)
		good := callBody(methods[path], "{}")
		for _, verb := range []string{http.MethodGet, http.MethodPut, http.MethodDelete, http.MethodHead, http.MethodPatch, http.MethodOptions} {
			if path != "/ext/health" || verb != http.MethodGet { // which is a report
				all = append(all, request{verb: verb, path: path, contentType: contentType, body: good})
			}
		}
		for _, kind := range []string{"", "text/plain", "application/jsonx", "application/json, text/plain", "APPLICATION/JSON", "application/json; charset=latin1", "application/json ;x"} {
			all = append(all, request{verb: http.MethodPost, path: path, contentType: kind, body: good})
		}
		service, _, _ := strings.Cut(methods[path], ".")
		add(path, "", " ", "{", "[", "[]", "["+good+"]", "1", `"text"`, "null", "true", "{}", "nonsense", good+" and more", good[:len(good)-1],
			`{"jsonrpc":"1.0","id":1,"method":"`+methods[path]+`"}`,
			`{"id":1,"method":"`+methods[path]+`"}`,
			`{"jsonrpc":2.0,"id":1,"method":"`+methods[path]+`"}`,
			`{"jsonrpc":"2.0","id":1}`,
			`{"jsonrpc":"2.0","id":1,"method":5}`,
			`{"jsonrpc":"2.0","method":"`+methods[path]+`"}`,
			`{"jsonrpc":"2.0","id":null,"method":"`+methods[path]+`"}`,
			`{"jsonrpc":"2.0","id":"text <>&","method":"`+methods[path]+`"}`,
			`{"jsonrpc":"2.0","id":{"a":[1, 2]},"method":"`+methods[path]+`"}`,
			`{"jsonrpc":"2.0","id":123456789012345678901234567890,"method":"`+methods[path]+`"}`,
			`{"jsonrpc":"2.0","id":1.50,"method":"`+methods[path]+`","params":[]}`,
			`{"jsonrpc":"2.0","id":1,"method":"`+methods[path]+`","params":[{}]}`,
			`{"jsonrpc":"2.0","id":1,"method":"`+methods[path]+`","params":[{},{}]}`,
			`{"jsonrpc":"2.0","id":1,"method":"`+methods[path]+`","params":null}`,
			`{"jsonrpc":"2.0","id":1,"method":"`+methods[path]+`","params":"text"}`,
			`{"jsonrpc":"2.0","id":1,"method":"`+methods[path]+`","params":1}`,
			`{"jsonrpc":"2.0","id":1,"method":"`+methods[path]+`","params":[1]}`,
			`{"JSONRPC":"2.0","ID":1,"Method":"`+methods[path]+`","extra":{}}`,
			callBody(service, "{}"), callBody(service+".", "{}"), callBody("."+service, "{}"), callBody(service+".a.b", "{}"), callBody("", "{}"),
			callBody(service+".GetHeight", "{}"), callBody(service+".nothing", "{}"), callBody("nothing.getHeight", "{}"), callBody(strings.ToUpper(service)+".getHeight", "{}"),
			callBody(service+".été", "{}"), callBody(service+"._x", "{}"),
		)
		if path == "/ext/health" || path == "/ext/admin" {
			for i := range all[before:] {
				all[before+i].private = true
			}
		}
	}
	for _, path := range []string{"/", "/ext", "/ext/", "/ext/nothing", "/ext/info/", "/ext/INFO", "/ext/info/more", "/ext/bc", "/ext/bc/", "/ext/bc/nothing", "/ext/bc/x", "/ext/bc/X/", "/ext/bc/X/events", "/ext/bc/P/rpc",
		"/ext/index", "/ext/index/P", "/ext/index/P/tx", "/ext/index/platform/block", "/ext/index/X/block/", "//ext/info", "/ext//bc/X", "/ext/./info", "/ext/bc/../info", "/ext/bc/C"} {
		if path == "/" { // where the service has more than a node
			continue
		}
		add(path, callBody("info.getNetworkID", "{}"))
		all = append(all, request{verb: http.MethodGet, path: path})
	}
	// By whom, and for whom.
	for name, values := range map[string][]string{
		"Origin": {"https://a.example", "null", "", "x"}, "Host": {"a.example", "a.example:80", "LOCALHOST", "localhost:1", "127.0.0.1", "[::1]:80", "[::1]", "::1", "1.2.3", "x:y:z", "localhost."},
		"Avalanche-Api-Route": {"", "nothing", n.xChain, constants.PlatformChainID.String(), unknown},
	} {
		for _, value := range values {
			for _, path := range []string{"/ext/info", "/ext/bc/X", "/ext/nothing", "//ext/info"} {
				for _, verb := range []string{http.MethodPost, http.MethodGet, http.MethodOptions} {
					all = append(all, request{verb: verb, path: path, contentType: contentType, body: callBody("info.getNetworkName", "{}"), header: http.Header{name: {value}}})
				}
			}
		}
	}
	for _, asked := range []http.Header{
		{"Access-Control-Request-Method": {"POST"}}, {"Access-Control-Request-Method": {"PUT"}}, {"Access-Control-Request-Method": {"nothing"}}, {"Access-Control-Request-Method": {""}},
		{"Access-Control-Request-Method": {"POST"}, "Access-Control-Request-Headers": {"content-type"}}, {"Access-Control-Request-Method": {"POST"}, "Access-Control-Request-Headers": {"x-anything"}},
		{"Access-Control-Request-Method": {"POST"}, "Access-Control-Request-Private-Network": {"true"}},
	} {
		for _, origin := range []string{"", "https://a.example"} {
			h := asked.Clone()
			if origin != "" {
				h.Set("Origin", origin)
			}
			for _, path := range []string{"/ext/info", "/ext/bc/P", "/ext/nothing"} {
				all = append(all, request{verb: http.MethodOptions, path: path, header: h})
			}
		}
	}

	// Arguments, by method.
	type arguments struct {
		path, method string
		params       []string
	}
	id := func(member string) []string {
		var all []string
		for _, v := range []string{"null", `""`, `"x"`, `"0x00"`, "5", "{}", "[]", `"` + n.xChain[1:] + `"`, `"` + unknown + `"`, `"11111111111111111111111111111111LpoYY"`} {
			all = append(all, `{"`+member+`":`+v+`}`)
		}
		return append(all, "{}")
	}
	number := func(member string) []string {
		var all []string
		for _, v := range []string{"-1", `"-1"`, "1.5", "1e3", `"1e3"`, `"x"`, `""`, "true", "[]", "18446744073709551615", `"18446744073709551615"`, "18446744073709551616", `"18446744073709551616"`, `"+1"`, `"0x1"`, `" 1"`, `"99999"`} {
			all = append(all, `{"`+member+`":`+v+`}`)
		}
		return all
	}
	encoding := func(before string) []string {
		var all []string
		for _, v := range []string{`""`, `"cb58"`, `"CB58"`, "5", `"hexx"`, "{}", "null", `"JSON"`, `"hExNc"`} {
			all = append(all, `{`+before+`"encoding":`+v+`}`)
		}
		return all
	}
	x, p := n.addresses(t, "X")[0][0], n.addresses(t, "P")[0][0]
	foreign, err := address.Format("X", "fuji", n.keys[0].Address().Bytes())
	require.NoError(t, err)
	bare, err := address.FormatBech32(constants.GetHRP(localnet.NetworkID), n.keys[0].Address().Bytes())
	require.NoError(t, err)
	aliased := "avm-" + bare
	byID := n.xChain + "-" + bare
	addresses := []string{x, p, foreign, bare, aliased, byID, "", "x", "X-", "X-local1", "C-" + bare, "nothing-" + bare, "X-" + strings.ToUpper(bare), n.keys[0].Address().String(), n.keys[0].Address().String()[1:], n.xChain, "X-" + bare + "q"}
	var single, lists []string
	for _, a := range addresses {
		single = append(single, `{"address":"`+a+`","assetID":"AVAX"}`)
		lists = append(lists, `{"addresses":["`+a+`"],"limit":1024}`, `{"addresses":["`+a+`"],"limit":1024,"sourceChain":"C"}`)
	}
	lists = append(lists, "{}", `{"addresses":null}`, `{"addresses":[]}`, `{"addresses":"x"}`, `{"addresses":[5]}`, `{"addresses":{}}`,
		`{"addresses":[`+strings.Repeat(`"x",`, 1024)+`"x"]}`, `{"addresses":["x"],"limit":-1}`, `{"addresses":["x"],"limit":"x"}`, `{"addresses":["x"],"limit":4294967296}`, `{"addresses":["x"],"sourceChain":"nothing"}`)
	utxos := func(own string) []string {
		all := slices.Clone(lists)
		for _, more := range []string{`"limit":-1`, `"limit":"5000"`, `"limit":4294967296`, `"sourceChain":"nothing"`, `"sourceChain":5`, `"sourceChain":"` + unknown + `"`, `"encoding":"json"`, `"encoding":""`,
			`"startIndex":{}`, `"startIndex":null`, `"startIndex":5`, `"startIndex":{"address":"` + own + `"}`, `"startIndex":{"utxo":"` + unknown + `"}`, `"startIndex":{"address":"x","utxo":"x"}`,
			`"startIndex":{"address":"` + own + `","utxo":"x"}`, `"startIndex":{"address":"` + foreign + `","utxo":"` + unknown + `"}`} {
			all = append(all, `{"addresses":["`+own+`"],`+more+`}`)
		}
		return all
	}
	height := append(number("height"), encoding("")...)
	for _, a := range []arguments{
		{"/ext/info", "info.getBlockchainID", []string{"{}", `{"alias":5}`, `{"alias":null}`, `{"alias":"nothing <>"}`, `{"ALIAS":"X"}`}},
		{"/ext/info", "info.isBootstrapped", []string{"{}", `{"chain":5}`, `{"chain":""}`, `{"chain":"nothing"}`, `{"chain":"` + unknown + `"}`}},
		{"/ext/info", "info.peers", []string{`{"nodeIDs":["x"]}`, `{"nodeIDs":"x"}`, `{"nodeIDs":5}`, `{"nodeIDs":["` + unknown + `"]}`}},
		{"/ext/bc/X", "avm.getBlock", append(id("blockID"), encoding("")...)},
		{"/ext/bc/X", "avm.getBlockByHeight", height},
		{"/ext/bc/X", "avm.getTx", append(id("txID"), encoding(`"txID":"`+n.asset+`",`)...)},
		{"/ext/bc/X", "avm.getTxStatus", id("txID")},
		{"/ext/bc/X", "avm.getAssetDescription", id("assetID")},
		{"/ext/bc/X", "avm.getBalance", append(single, `{"address":"`+x+`"}`, `{"address":"`+x+`","assetID":"x"}`, `{"address":"`+x+`","assetID":"`+unknown+`"}`, `{"address":"y","assetID":"x"}`, `{"address":5}`, `{"includePartial":"true"}`)},
		{"/ext/bc/X", "avm.getAllBalances", append(single, "{}", `{"address":5}`)},
		{"/ext/bc/X", "avm.getUTXOs", utxos(x)},
		{"/ext/bc/X", "avm.issueTx", []string{"{}", `{"tx":"x"}`, `{"tx":"0x00"}`, `{"tx":"","encoding":"json"}`}},
		{"/ext/bc/P", "platform.getBlock", append(id("blockID"), encoding("")...)},
		{"/ext/bc/P", "platform.getBlockByHeight", height},
		{"/ext/bc/P", "platform.getTx", append(id("txID"), encoding(`"txID":"`+n.xChain+`",`)...)},
		{"/ext/bc/P", "platform.getTxStatus", id("txID")},
		{"/ext/bc/P", "platform.getBlockchainStatus", append(id("blockchainID"), `{"blockchainID":"X-"}`)},
		{"/ext/bc/P", "platform.getCurrentSupply", id("subnetID")},
		{"/ext/bc/P", "platform.getBalance", lists},
		{"/ext/bc/P", "platform.getUTXOs", utxos(p)},
		{"/ext/bc/P", "platform.getCurrentValidators", append(id("subnetID"), `{"nodeIDs":["x"]}`, `{"nodeIDs":5}`, `{"nodeIDs":null}`, `{"nodeIDs":["`+unknown+`"]}`, `{"nodeIDs":[""]}`)},
		{"/ext/bc/P", "platform.getValidatorsAt", number("height")},
		{"/ext/bc/P", "platform.getPendingValidators", []string{"{}"}},
		{"/ext/bc/P", "platform.getL1Validator", id("validationID")},
		{"/ext/bc/P", "platform.issueTx", []string{"{}", `{"tx":"x"}`, `{"tx":"0x00"}`, `{"tx":"","encoding":"json"}`, `{"tx":5}`}},
		{"/ext/bc/X/wallet", "wallet.issueTx", []string{"{}", `{"tx":"x"}`, `{"tx":"0x00"}`, `{"tx":5}`}},
		{"/ext/bc/P", "platform.getRewardUTXOs", append(id("txID"), encoding("")...)},
		{"/ext/bc/P", "platform.getStake", lists},
		{"/ext/bc/P", "platform.getSubnet", id("subnetID")},
		{"/ext/bc/P", "platform.getSubnets", []string{`{"ids":"x"}`, `{"ids":["x"]}`, `{"ids":["` + unknown + `"]}`, `{"ids":[null]}`}},
		{"/ext/bc/P", "platform.getStakingAssetID", id("subnetID")},
		{"/ext/bc/P", "platform.getTotalStake", id("subnetID")},
		{"/ext/bc/P", "platform.getMinStake", id("subnetID")},
		{"/ext/bc/P", "platform.validatedBy", id("blockchainID")},
		{"/ext/bc/P", "platform.validates", id("subnetID")},
		{"/ext/bc/P", "platform.sampleValidators", append(number("size"), `{"subnetID":"`+unknown+`","size":1}`)},
		{"/ext/bc/P", "platform.getAllValidatorsAt", number("height")},
		{"/ext/bc/P", "platform.getValidatorsAt", []string{"{}", `{"height":"proposed"}`, `{"height":"Proposed"}`, `{"height":1,"subnetID":"x"}`, `{"height":1,"subnetID":"` + unknown + `"}`}},
	} {
		for _, params := range a.params {
			add(a.path, callBody(a.method, params))
		}
	}
	for _, name := range indexes {
		for method, params := range map[string][]string{
			"getLastAccepted":     encoding(""),
			"getContainerByIndex": append(number("index"), encoding("")...),
			"getContainerByID":    append(id("id"), encoding("")...),
			"getIndex":            id("id"),
			"isAccepted":          id("id"),
			"getContainerRange":   append(append(number("numToFetch"), `{"startIndex":-1,"numToFetch":1}`, `{"startIndex":"18446744073709551615","numToFetch":1024}`), encoding(`"numToFetch":1,`)...),
		} {
			for _, p := range params {
				add("/ext/index/"+name, callBody("index."+method, p))
			}
		}
	}
	// Methods without parameters.
	for path, methods := range map[string][]string{
		"/ext/info": {"info.acps", "info.getNetworkID", "info.getNetworkName", "info.getNodeID", "info.getNodeIP", "info.getNodeVersion", "info.getTxFee", "info.getVMs", "info.upgrades"},
		"/ext/bc/X": {"avm.getHeight", "avm.getTxFee"},
		"/ext/bc/P": {"platform.getHeight", "platform.getProposedHeight", "platform.getTimestamp", "platform.getBlockchains", "platform.getFeeConfig", "platform.getFeeState", "platform.getValidatorFeeConfig", "platform.getValidatorFeeState"},
	} {
		for _, method := range methods {
			for _, params := range []string{"5", `"text"`, "[5]", `["text",{}]`, "true"} {
				all = append(all, request{verb: http.MethodPost, path: path, contentType: contentType, body: callBody(method, params), private: path == "/ext/info"})
			}
		}
	}
	require.Greater(t, len(all), 60)
	how := alike{sets: []string{"validators", "utxos", "balances", "utxoIDs"}, loose: []string{"utxo", "uptime", "connected", "timestamp"}, blank: []string{"txs", "credentials"}}
	different := 0
	for _, r := range all {
		base := n.service.url
		if r.private {
			base = n.service.private
		}
		header := http.Header{}
		maps.Copy(header, r.header)
		if r.contentType != "" {
			header.Set("Content-Type", r.contentType)
		}
		node := askWith(t, ctx, r.verb, n.node+r.path, header, r.body)
		service := askWith(t, ctx, r.verb, base+r.path, header, r.body)
		if strings.Contains(r.body, `"json"`) { // which of the outputs fails first is each one's own
			node.body, service.body = anyUTXO.ReplaceAllString(node.body, "UTXO"), anyUTXO.ReplaceAllString(service.body, "UTXO")
		}
		found := how.compare(node, service)
		for _, d := range found {
			shown := r.body
			if len(shown) > 300 {
				shown = shown[:300] + "..."
			}
			t.Errorf("%s %s %v %s: %s", r.verb, r.path, header, shown, d)
		}
		if len(found) > 0 {
			different++
		}
	}
	n.compared["bad requests"] += len(all)
	t.Logf("%d bad requests, %d answered differently", len(all), different)
}
