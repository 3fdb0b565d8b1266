package data_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/constants"
	"github.com/ava-labs/avalanchego/utils/formatting/address"

	"quorate/handlers"
	"quorate/handlers/apitest"
	"quorate/handlers/compat"
	"quorate/handlers/data"
	"quorate/handlers/docs/conform"
	lookup "quorate/handlers/networks"
	"quorate/internal/index"
	"quorate/internal/index/ledger"
	"quorate/internal/index/ledger/subnets"
	"quorate/internal/index/vertices"
	"quorate/internal/node"
	"quorate/internal/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func addressText(id ids.ShortID) (string, error) {
	return address.FormatBech32(constants.FujiHRP, id[:])
}

func surface(t testing.TB, networks map[string]data.Network, mode compat.Mode) *echo.Echo {
	t.Helper()
	e, err := handlers.New(handlers.Options{Data: lookup.Fixed(networks), ClientCompat: mode})
	require.NoError(t, err)
	conform.Watch(t, e)
	return e
}

func requireError(t testing.TB, w *httptest.ResponseRecorder, status int, parts ...string) {
	t.Helper()
	apitest.RequireError(t, w, 900, status, parts...) // a list of transaction types is long
}

// requireCode checks the code and the Retry-After of an error; either may be empty.
func requireCode(t testing.TB, w *httptest.ResponseRecorder, code, retry string) {
	t.Helper()
	var body struct{ Code string }
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &body))
	require.Equal(t, code, body.Code, w.Body)
	require.Equal(t, retry, w.Header().Get("Retry-After"), w.Body)
}

func fuji(t testing.TB, f *fake) *echo.Echo {
	t.Helper()
	return surface(t, map[string]data.Network{"fuji": f.network()}, compat.Auto)
}

// The operations, with what they need to succeed.
var (
	base       = "/v1/networks/fuji"
	utxosPath  = base + "/blockchains/p-chain/utxos?addresses=" + text(alice)
	xUTXOs     = base + "/blockchains/x-chain/utxos?addresses=" + text(alice)
	cUTXOs     = base + "/blockchains/c-chain/utxos?addresses=" + text(alice)
	balances   = base + "/blockchains/p-chain/balances?addresses=" + text(alice)
	xBalances  = base + "/blockchains/x-chain/balances?addresses=" + text(alice)
	cBalances  = base + "/blockchains/c-chain/balances?addresses=" + text(alice)
	stakings   = base + "/blockchains/p-chain/transactions:listStaking?addresses=" + text(alice)
	verticesAt = base + "/blockchains/x-chain/vertices:listByHeight?vertexHeight=5"
	subnetsURL = base + "/subnets?"
	delegators = base + "/delegators?"
	operations = []string{utxosPath, balances, stakings, verticesAt, subnetsURL, delegators}
)

func TestMistakes(t *testing.T) {
	f := newFake()
	h := fuji(t, f)
	many := make([]string, 65)
	for i := range many {
		many[i] = text(ids.ShortID{9, byte(i)})
	}
	mainnet := must(address.FormatBech32(constants.MainnetHRP, alice[:]))
	local := must(address.FormatBech32(constants.LocalHRP, alice[:]))
	long := must(address.FormatBech32(constants.FujiHRP, make([]byte, 21)))
	good := text(alice)
	type mistake struct {
		path, parameter, part string
	}
	var tests []mistake
	for _, op := range operations {
		sizes, paged := "1 to 100", op != balances
		if op == subnetsURL {
			sizes = "1 to 10000"
		}
		if !paged {
			continue
		}
		for _, bad := range []string{"0", "-1", "1.5", "ten", "", "100001", "18446744073709551616", "1e1", "%20"} {
			tests = append(tests, mistake{op + "&pageSize=" + bad, "pageSize: must be an integer from " + sizes, ""})
		}
		tests = append(tests,
			mistake{op + "&pageSize=1&pageSize=2", "pageSize: ", "2 times"},
			mistake{op + "&sortOrder=up", "sortOrder: must be desc or asc", "up"},
			mistake{op + "&sortOrder=ASC", "sortOrder: ", ""},
			mistake{op + "&sortOrder=", "sortOrder: ", ""},
			mistake{op + "&pageToken=x", "pageToken: ", "no token of this service"},
			mistake{op + "&pageToken=" + strings.Repeat("A", 5000), "pageToken: ", "no token"},
			mistake{op + "&pageToken=%zz", "pageToken: ", "percent escape"},
		)
	}
	addressed := map[string]string{
		base + "/blockchains/p-chain/utxos?":                    "addresses",
		base + "/blockchains/x-chain/utxos?":                    "addresses",
		base + "/blockchains/c-chain/balances?":                 "addresses",
		base + "/blockchains/p-chain/transactions:listStaking?": "addresses",
		base + "/delegators?":                                   "rewardAddresses",
	}
	for op, key := range addressed {
		for bad, part := range map[string]string{
			"fuji1":                         "is no address in bech32",
			good[:len(good)-1] + "q":        "is no address in bech32",
			good + "q":                      "is no address in bech32",
			"P-":                            "is no address",
			"A-" + good:                     "is no address in bech32",
			"P-X-" + good:                   "is no address in bech32",
			"p-" + good:                     "is no address in bech32",
			strings.ToUpper(good[:8]):       "is no address in bech32",
			"F" + good[1:]:                  "is no address in bech32",
			long:                            "is no address in bech32",
			"0x" + strings.Repeat("0", 40):  "is no address in bech32",
			mainnet:                         "is an address of another network: on this one addresses begin with fuji1",
			"P-" + local:                    "is an address of another network",
			good + "," + mainnet:            "another network",
			strings.Repeat("z", 10_000):     "is no address",
			good + "%00":                    "is no address",
			good + ";" + good:               "is no address",
			strings.Join(many, ","):         "there are 65 addresses, at most 64",
			strings.Join(many, "%2C"):       "there are 65 addresses, at most 64",
			strings.Join(many, "&"+key+"="): "there are 65 addresses, at most 64",
			"%g0":                           "percent escape",
		} {
			tests = append(tests, mistake{op + key + "=" + bad, key + ": ", part})
		}
		if key == "addresses" {
			for _, missing := range []string{"", "addresses", "addresses=", "addresses=,%20,"} {
				tests = append(tests, mistake{op + missing, "addresses: is missing", ""})
			}
			tests = append(tests, mistake{op + "Addresses=" + good, "Addresses: the operation has no such parameter", "did you mean addresses?"})
		}
	}
	for _, op := range []string{"utxos?addresses=" + good, "balances?addresses=" + good, "transactions:listStaking?addresses=" + good, "vertices:listByHeight?vertexHeight=1"} {
		path := "/blockchains/%s/" + op
		for _, id := range []string{"q-chain", "P-Chain", "P", "43113", "11111111111111111111111111111111LpoYz", avx.String(), "%2F", strings.Repeat("1", 3000)} {
			tests = append(tests, mistake{base + fmt.Sprintf(path, id), "blockchainId: ", "is no blockchain of the primary network"})
		}
		tests = append(tests,
			mistake{base + fmt.Sprintf(path, "2oYMBNV4eNHyqk2fjjV5nVQLDbtmNJzq5s3qs3Lo6ftnC6FByM"), "blockchainId: ", "is the X-Chain of mainnet, and not one of the path's network fuji"},
			mistake{base + fmt.Sprintf(path, "2q9e4r6Mu3U68nU1fYjgbR6JvwrRx36CohpAX5UQxse55x1Q5"), "blockchainId: ", "is the C-Chain of mainnet"},
		)
	}
	for _, id := range []string{"x-chain", "c-chain", xID.String(), cID.String()} {
		tests = append(tests, mistake{base + "/blockchains/" + id + "/transactions:listStaking?addresses=" + good, "blockchainId: this operation is not about the", "use p-chain"})
	}
	for _, id := range []string{"p-chain", "c-chain", pID.String(), cID.String()} {
		tests = append(tests, mistake{base + "/blockchains/" + id + "/vertices:listByHeight?vertexHeight=1", "blockchainId: this operation is not about the", "use x-chain"})
	}
	for _, bad := range []string{"-1", "1.5", "x", "", "18446744073709551616"} {
		tests = append(tests,
			mistake{balances + "&blockTimestamp=" + bad, "blockTimestamp: must be an integer", ""},
			mistake{stakings + "&startTimestamp=" + bad, "startTimestamp: must be an integer", ""},
			mistake{stakings + "&endTimestamp=" + bad, "endTimestamp: must be an integer", ""},
			mistake{base + "/blockchains/x-chain/vertices:listByHeight?vertexHeight=" + bad, "vertexHeight: must be an integer", ""},
		)
	}
	tests = append(tests,
		mistake{base + "/blockchains/x-chain/vertices:listByHeight", "vertexHeight: is missing", ""},
		mistake{base + "/blockchains/x-chain/vertices:listByHeight?vertexHeight=1&vertexHeight=1", "vertexHeight: ", "2 times"},
		mistake{stakings + "&startTimestamp=2&endTimestamp=1", "startTimestamp: it is after endTimestamp", ""},
		mistake{stakings + "&txTypes=Transfer", "txTypes: ", `"Transfer" is no type of transaction`},
		mistake{stakings + "&txTypes=AddValidatorTx,addvalidatortx", "txTypes: ", "addvalidatortx"},
		mistake{stakings + "&txTypes[]=UNKNOWN&txTypes[]=x", "txTypes: ", `"x"`},
		mistake{utxosPath + "&sortBy=blockIndex", "sortBy: must be timestamp or amount", ""},
		mistake{utxosPath + "&includeSpent=yes", "includeSpent: must be false or true", ""},
		mistake{utxosPath + "&includeSpent=", "includeSpent: ", ""},
		mistake{utxosPath + "&minUtxoAmount=-1", "minUtxoAmount: must be a decimal number", ""},
		mistake{utxosPath + "&minUtxoAmount=all", "minUtxoAmount: ", ""},
		mistake{xUTXOs + "&assetId=AVAX", "assetId: must be the ID of an asset", ""},
		mistake{xUTXOs + "&assetId=", "assetId: ", ""},
		mistake{xUTXOs + "&assetId=" + ids.Empty.String(), "assetId: ", ""},
		mistake{delegators + "&delegationStatus=done", "delegationStatus: must be completed, active or pending", ""},
		mistake{delegators + "&delegationStatus=", "delegationStatus: ", ""},
		mistake{delegators + "&nodeIds=" + good, "nodeIds: ", "is no node ID"},
		mistake{delegators + "&nodeIds=" + nodeA.String() + ",NodeID-x", "nodeIds: ", "NodeID-x"},
		mistake{delegators + "&nodeIds=" + strings.Join(manyNodes(65), ","), "nodeIds: ", "there are 65 node IDs, at most 64"},
	)
	t.Logf("%d rows", len(tests))
	for _, tt := range tests {
		w := apitest.Get(h, tt.path)
		if w.Code != http.StatusBadRequest {
			t.Errorf("%.200s: got %d, want 400: %.200s", tt.path, w.Code, w.Body)
			continue
		}
		requireError(t, w, 400, tt.parameter, tt.part)
	}
}

func manyNodes(n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = ids.NodeID{byte(i)}.String()
	}
	return all
}

func TestAccepted(t *testing.T) {
	f := newFake()
	h := fuji(t, f)
	good := text(alice)
	for _, path := range []string{
		utxosPath + "&pageToken=", utxosPath + "&minUtxoAmount=1.5e0&includeSpent=true&sortBy=amount&sortOrder=asc",
		utxosPath + "&minUtxoAmount=1e30", utxosPath + "&assetId=nonsense", cUTXOs + "&assetId=nonsense", xUTXOs + "&assetId=" + art.String(),
		utxosPath + "&pageSize=1", utxosPath + "&pageSize=100", subnetsURL + "&pageSize=10000", delegators + "&pageToken=&rewardAddresses=&nodeIds=,",
		balances + "&blockTimestamp=0", balances + "&blockTimestamp=18446744073709551615", stakings + "&startTimestamp=5&endTimestamp=5",
		stakings + "&txTypes=AddValidatorTx&txTypes=CreateAssetTx,OperationTx,UNKNOWN&txTypes[]=BaseTx", stakings + "&txTypes=",
		strings.Replace(stakings, "transactions:list", "transactions%3Alist", 1), strings.Replace(verticesAt, "vertices:list", "vertices%3alist", 1),
		strings.Replace(utxosPath, "fuji/", "testnet/", 1), strings.Replace(utxosPath, "p-chain", pID.String(), 1),
		strings.Replace(xUTXOs, "x-chain", xID.String(), 1), strings.Replace(cUTXOs, "c-chain", cID.String(), 1), strings.Replace(utxosPath, "p-chain", "p%2Dchain", 1),
	} {
		w := apitest.Get(h, path, "x-data-api-key", "unknown", "X-Glacier-Api-Key", "other", "X-App-Component", "avacloud-sdk", "Cookie", "")
		require.Equal(t, http.StatusOK, w.Code, "%s: %s", path, w.Body)
		require.Equal(t, "application/json", w.Header().Get("Content-Type"))
	}
	for _, spelling := range []string{
		"addresses=" + good, "addresses=P-" + good, "addresses=X-" + good, "addresses=C-" + good, "addresses=" + strings.ToUpper(good),
		"addresses=%20" + good + "%20,,P-" + good + "%2CX-" + good, "addresses=" + good + "&addresses=" + good, "addresses[]=" + good,
	} {
		w := apitest.Get(h, base+"/blockchains/p-chain/balances?"+spelling)
		require.Equal(t, http.StatusOK, w.Code, "%s: %s", spelling, w.Body)
		require.Equal(t, []ids.ShortID{alice}, f.askedOf, spelling)
	}
	require.Equal(t, http.StatusOK, apitest.Get(h, balances+"&addresses="+text(bob)+","+text(carol)).Code)
	require.Equal(t, []ids.ShortID{alice, bob, carol}, f.askedOf)
	require.True(t, f.askedAt.IsZero())
	require.Equal(t, http.StatusOK, apitest.Get(h, balances+"&blockTimestamp=0").Code)
	require.True(t, f.askedAt.Equal(time.Unix(0, 0)))

	require.Equal(t, http.StatusOK, apitest.Get(h, xUTXOs+"&assetId="+art.String()+"&minUtxoAmount=0.1&includeSpent=true&pageSize=3").Code)
	f.askedOutputs.After = nil
	require.Equal(t, ledger.OutputQuery{ChainID: xID, Addresses: []ids.ShortID{alice}, AssetID: art, MinAmount: 1, IncludeSpent: true, Limit: 3}, f.askedOutputs)
	require.Equal(t, http.StatusOK, apitest.Get(h, utxosPath+"&sortBy=amount&sortOrder=asc").Code)
	require.Equal(t, ledger.OutputQuery{ChainID: pID, Addresses: []ids.ShortID{alice}, ByAmount: true, Ascending: true, Limit: 10}, f.askedOutputs)
	require.Equal(t, http.StatusOK, apitest.Get(h, stakings+"&startTimestamp=0&endTimestamp=9223372036854775808&txTypes=BaseTx,AddValidatorTx").Code)
	require.Zero(t, f.askedStaking.After.Unix())
	require.True(t, f.askedStaking.Before.After(now))
	require.Len(t, f.askedStaking.Kinds, 2)
}

func TestNetworks(t *testing.T) {
	f := newFake()
	own := f.network()
	own.NetworkID, own.XChainID, own.CChainID = constants.LocalID, ids.ID{0x58}, ids.ID{0x43}
	h := surface(t, map[string]data.Network{"fuji": f.network(), "devnet": own}, compat.Auto)
	tail := "/blockchains/%s/balances?addresses=%s"
	path := func(network, chain, address string) string {
		return "/v1/networks/" + network + fmt.Sprintf(tail, chain, address)
	}
	f.progress[own.XChainID], f.progress[own.CChainID] = f.progress[xID], f.progress[xID]
	local := must(address.FormatBech32(constants.LocalHRP, alice[:]))
	for network, shown := range map[string]string{"fuji": "fuji", "testnet": "fuji", "devnet": "devnet"} {
		a := text(alice)
		if network == "devnet" {
			a = local
		}
		w := apitest.Get(h, path(network, "x-chain", a))
		require.Equal(t, http.StatusOK, w.Code, w.Body)
		require.Contains(t, w.Body.String(), `"chainInfo":{"chainName":"x-chain","network":"`+shown+`"}`)
	}
	require.Equal(t, http.StatusOK, apitest.Get(h, path("devnet", own.XChainID.String(), local)).Code)
	requireError(t, apitest.Get(h, path("devnet", xID.String(), local)), 400, "blockchainId: ", "is the X-Chain of fuji, and not one of the path's network devnet")
	requireError(t, apitest.Get(h, path("devnet", "p-chain", text(alice))), 400, "addresses: ", "local1")
	for _, op := range operations {
		requireError(t, apitest.Get(h, strings.Replace(op, "/fuji/", "/mainnet/", 1)), 404, "network: chain data of mainnet is not served here; this instance serves devnet, fuji")
		for _, bad := range []string{"Fuji", "local", "5", "%20", "a%2Fb", strings.Repeat("x", 3000)} {
			requireError(t, apitest.Get(h, strings.Replace(op, "/fuji/", "/"+bad+"/", 1)), 400, "network: ", "is no network")
		}
	}
	requireError(t, apitest.Get(surface(t, nil, compat.Auto), utxosPath), 404, "network: ", "serves none")
	for _, path := range []string{"/v1/networks", "/v1/networks/fuji/", "/v1/networks/fuji/blockchain", "/v1/networks/fuji/blockchains/p-chain/transactions:listStakingX"} {
		requireError(t, apitest.Get(h, path), 404, "there is no GET")
	}
	for _, op := range operations {
		if op == utxosPath {
			continue // with the addresses in the body
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, op, http.NoBody))
		requireError(t, w, 404, "there is no POST")
	}
	for _, incomplete := range []data.Network{{}, {XChainID: xID, CChainID: cID, AVAXAssetID: avx}} {
		_, err := data.New(data.Options{Networks: lookup.Fixed(map[string]data.Network{"fuji": incomplete})})
		require.ErrorContains(t, err, `network "fuji"`)
	}
}

// TestCatchingUp checks which answers wait for which indexes, and that none is out of date without
// saying so.
func TestCatchingUp(t *testing.T) {
	f := newFake()
	h := fuji(t, f)
	needs := map[string]ids.ID{
		utxosPath: pID, xUTXOs: xID, cUTXOs: cID, balances: pID, xBalances: xID, cBalances: cID,
		stakings: pID, subnetsURL: pID, delegators: pID, verticesAt: ids.Empty,
	}
	delete(needs, verticesAt)
	names := map[ids.ID]string{pID: "p-chain", xID: "x-chain", cID: "c-chain"}
	for path, own := range needs {
		for id, name := range names {
			up := f.progress[id]
			for _, down := range []struct {
				progress data.Progress
				code     string
				part     string
			}{
				{data.Progress{Height: 70, Time: now, Rebuilding: true, Rebuilt: 42}, "INDEX_CATCHING_UP", "the index of the " + name + " is being rebuilt, 42% is done; try again later"},
				{data.Progress{Height: 70, Time: ago(time.Hour), Lag: 930}, "INDEX_CATCHING_UP", "the index of the " + name + " is still catching up: it has reached height 70, and 930 further blocks are known"},
				{data.Progress{Height: 70, Time: ago(time.Hour)}, "INDEX_CATCHING_UP", "the index of the " + name + " is still catching up: it has reached height 70; try again later"},
				{data.Progress{Height: 70, Time: ago(time.Hour), Lag: 930, Needs: "switch it on"}, "INDEX_LACKS_SOURCE", "the " + name + " is not indexed: switch it on"},
				{data.Progress{Height: 70, Time: ago(time.Hour), Rebuilding: true, Stopped: true}, "INDEX_STOPPED", "the index of the " + name + " has stopped at height 70 and does not go on by itself"},
			} {
				f.progress[id] = down.progress
				w := apitest.Get(h, path)
				if id == own {
					requireError(t, w, 503, down.part)
					require.Contains(t, w.Body.String(), `"code":"`+down.code+`"`)
					require.Empty(t, w.Header().Get("Indexed-Height"))
				} else {
					require.Equal(t, http.StatusOK, w.Code, "%s without the %s: %s", path, name, w.Body)
				}
			}
			f.progress[id] = up
		}
	}
	for _, id := range []ids.ID{pID, xID, cID} {
		up := f.progress[id]
		f.progress[id] = data.Progress{}
		require.Equal(t, http.StatusOK, apitest.Get(h, verticesAt).Code)
		f.progress[id] = up
	}

	// A balance in the past needs no more than the past.
	f.progress[cID] = data.Progress{Height: 70, Time: ago(time.Hour), Lag: 930}
	covered := ago(time.Hour).Unix() - 1
	at := func(second int64) string { return fmt.Sprintf("%s&blockTimestamp=%d", cBalances, second) }
	require.Equal(t, http.StatusOK, apitest.Get(h, at(covered)).Code)
	requireError(t, apitest.Get(h, at(covered+1)), 503, "the index of the c-chain")
	requireError(t, apitest.Get(h, cUTXOs), 503, "the index of the c-chain")
	f.progress[cID] = data.Progress{Height: 70, Time: ago(time.Hour), Rebuilding: true, Rebuilt: 42}
	require.Equal(t, http.StatusOK, apitest.Get(h, at(covered)).Code, "what is rebuilt already is there")
	requireError(t, apitest.Get(h, at(covered+1)), 503, "the index of the c-chain is being rebuilt")
	f.progress[cID] = data.Progress{Height: 70, Time: ago(time.Hour), Stopped: true, Err: errors.New("secret")}
	w := apitest.Get(h, at(covered))
	require.Equal(t, http.StatusOK, w.Code, "what was before it stopped is right")
	require.Equal(t, "stopped", w.Header().Get("Indexed-State"))
	f.progress[cID] = data.Progress{}
	requireError(t, apitest.Get(h, at(0)), 503, "the index of the c-chain")

	f.progress[cID] = data.Progress{CaughtUp: true}
	f.progress[pID] = data.Progress{Height: 1234, Time: now, Lag: 3, CaughtUp: true}
	header := apitest.Get(h, utxosPath).Header()
	require.Equal(t, []string{"1234", "1700000000", "3", "following"}, []string{
		header.Get("Indexed-Height"), header.Get("Indexed-Timestamp"), header.Get("Indexed-Lag"), header.Get("Indexed-State"),
	})
	f.progress[pID] = data.Progress{CaughtUp: true, Err: errors.New("secret address")}
	w = apitest.Get(h, subnetsURL)
	require.Equal(t, "stalled", w.Header().Get("Indexed-State"))
	require.NotContains(t, w.Body.String(), "secret")
	f.progress[pID] = data.Progress{Err: errors.New("secret address")}
	w = apitest.Get(h, subnetsURL)
	require.Equal(t, 503, w.Code)
	require.NotContains(t, w.Body.String(), "secret")
}

func TestFailures(t *testing.T) {
	for _, tt := range []struct {
		err    error
		status int
		part   string
		code   string
		retry  string // Retry-After
	}{
		{errors.New("secret"), 500, "something went wrong inside the service", "", ""},
		{fmt.Errorf("reading: %w", store.ErrCorrupt), 500, "something went wrong inside the service", "", ""},
		{fmt.Errorf("reading: %w", store.ErrClosed), 503, "the service is stopping", "SHUTTING_DOWN", ""},
		{fmt.Errorf("reading: %w: secret", store.ErrUnavailable), 503, "the index cannot be read at the moment", "NOT_INDEXED", "5"},
		{fmt.Errorf("reading: %w", node.ErrBusy), 503, "as many calls to the upstream node as clients may cause", "NODE_BUSY", "1"},
		{fmt.Errorf("reading: %w", node.ErrNoRoom), 503, "the answer needs more memory than is free", "BUSY", "5"},
		{fmt.Errorf("reading: %w", context.DeadlineExceeded), 503, "the answer was not complete in the time allowed", "", ""},
		{fmt.Errorf("secret: %w", ledger.ErrBehind), 503, "the index of this chain is still catching up", "INDEX_CATCHING_UP", ""},
		{fmt.Errorf("secret: %w", index.ErrViewBehind), 503, "pageToken: the standby that was read lacks blocks of the earlier pages", "INDEX_CATCHING_UP", ""},
		{fmt.Errorf("secret: %w", ledger.ErrUnknownChain), 503, "the index of this chain is still catching up", "INDEX_CATCHING_UP", ""},
		{fmt.Errorf("secret: %w", data.ErrCatchingUp), 503, "the index of this chain is still catching up", "INDEX_CATCHING_UP", ""},
		{fmt.Errorf("secret: %w", vertices.ErrIncomplete), 503, "the index of this chain is still catching up", "INDEX_CATCHING_UP", ""},
		{fmt.Errorf("secret: %w", ledger.ErrTooMany), 400, "addresses: together they own more", "", ""},
		{fmt.Errorf("secret: %w", index.ErrPosition), 400, "pageToken: it leads nowhere", "", ""},
	} {
		f := newFake()
		f.err = tt.err
		h := fuji(t, f)
		for _, op := range operations {
			w := apitest.Get(h, op)
			requireError(t, w, tt.status, tt.part)
			require.NotContains(t, w.Body.String(), "secret")
			requireCode(t, w, tt.code, tt.retry)
		}
	}

	f := newFake()
	n := f.network()
	n.Ledger, n.Subnets, n.Vertices = nil, nil, nil
	h := surface(t, map[string]data.Network{"fuji": n}, compat.Auto)
	for _, op := range operations {
		w := apitest.Get(h, op)
		requireError(t, w, 503, "this instance has no index of")
		requireCode(t, w, "INDEX_LACKS_SOURCE", "")
	}

	f.stakings[0].Made = append(f.stakings[0].Made, nil)
	requireError(t, apitest.Get(fuji(t, f), stakings+"&pageSize=100"), 500)
}

// TestClientGone checks that nothing is sent to a client that left, and that this does not count as a
// failure of the service.
func TestClientGone(t *testing.T) {
	f := newFake()
	h := fuji(t, f)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, balances, http.NoBody).WithContext(ctx))
	require.Empty(t, w.Body.String())
}

// walk follows a list to its end and returns its items in order.
func walk(t *testing.T, h http.Handler, path, member string, size int) []map[string]any {
	t.Helper()
	var all []map[string]any
	token := ""
	for range 1000 {
		w := apitest.Get(h, fmt.Sprintf("%s&pageSize=%d&pageToken=%s", path, size, url.QueryEscape(token)))
		require.Equal(t, http.StatusOK, w.Code, w.Body)
		var body map[string]any
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &body))
		for _, item := range body[member].([]any) {
			all = append(all, item.(map[string]any))
		}
		next, more := body["nextPageToken"]
		if !more {
			require.LessOrEqual(t, len(body[member].([]any)), size)
			return all
		}
		require.Len(t, body[member], size, "only the last page may be shorter")
		token = next.(string)
		require.NotEmpty(t, token)
	}
	t.Fatal("the list does not end")
	return nil
}

func TestPages(t *testing.T) {
	h := fuji(t, newFake())
	for _, tt := range []struct {
		path, member, id string
		count            int
	}{
		{utxosPath, "utxos", "utxoId", 38},
		{utxosPath + "&includeSpent=true", "utxos", "utxoId", 41},
		{utxosPath + "&sortBy=amount", "utxos", "utxoId", 38},
		{utxosPath + "&minUtxoAmount=8", "utxos", "utxoId", 14},
		{utxosPath + "&minUtxoAmount=1e40", "utxos", "utxoId", 0},
		{xUTXOs, "utxos", "utxoId", 9},
		{cUTXOs + "&includeSpent=true", "utxos", "utxoId", 3},
		{stakings, "transactions", "txHash", 23},
		{stakings + "&txTypes=UNKNOWN", "transactions", "txHash", 1},
		{stakings + "&txTypes=BaseTx", "transactions", "txHash", 0},
		{subnetsURL, "subnets", "subnetId", 150},
		{delegators, "delegators", "txHash", 26},
		{delegators + "&delegationStatus=active", "delegators", "txHash", 22},
		{delegators + "&nodeIds=" + nodeB.String() + "&rewardAddresses=P-" + text(carol), "delegators", "txHash", 1},
		{verticesAt, "vertices", "vertexHash", 13},
		{strings.Replace(verticesAt, "=5", "=18446744073709551615", 1), "vertices", "vertexHash", 0},
	} {
		var orders [2][]string
		for i, order := range []string{"desc", "asc"} {
			for _, size := range []int{1, 7, 13, 100} {
				var got []string
				seen := make(map[string]bool)
				for _, item := range walk(t, h, tt.path+"&sortOrder="+order, tt.member, size) {
					id := item[tt.id].(string)
					require.False(t, seen[id], "%s is on two pages of %s", id, tt.path)
					seen[id] = true
					got = append(got, id)
				}
				require.Len(t, got, tt.count, tt.path)
				if size == 1 {
					orders[i] = got
				}
				require.Equal(t, orders[i], got, "%s in pages of %d", tt.path, size)
			}
		}
		for i, id := range orders[0] {
			require.Equal(t, id, orders[1][len(orders[1])-1-i], "the orders of %s are the reverse of each other", tt.path)
		}
		byDefault := walk(t, h, tt.path, tt.member, 100)
		for i, item := range byDefault {
			require.Equal(t, orders[0][i], item[tt.id], "desc is what %s has without sortOrder", tt.path)
		}
	}
}

// TestTokensOfOtherLists sends the token of each list to all others.
func TestTokensOfOtherLists(t *testing.T) {
	h := fuji(t, newFake())
	lists := []string{
		utxosPath, utxosPath + "&sortOrder=asc", utxosPath + "&sortBy=amount", utxosPath + "&includeSpent=true", utxosPath + "&minUtxoAmount=0.5",
		utxosPath + "&addresses=" + text(bob), xUTXOs, xUTXOs + "&assetId=" + art.String(), cUTXOs + "&includeSpent=true",
		stakings, stakings + "&txTypes=AddPermissionlessDelegatorTx", stakings + "&startTimestamp=0", stakings + "&endTimestamp=1900000000",
		subnetsURL, subnetsURL + "&sortOrder=asc", delegators, delegators + "&delegationStatus=active", delegators + "&nodeIds=" + nodeA.String(),
		delegators + "&rewardAddresses=" + text(alice), verticesAt, verticesAt + "&sortOrder=asc",
	}
	tokens := make([]string, len(lists))
	for i, list := range lists {
		var body struct{ NextPageToken string }
		require.NoError(t, json.Unmarshal(apitest.Get(h, list+"&pageSize=1").Body.Bytes(), &body))
		require.NotEmpty(t, body.NextPageToken, list)
		tokens[i] = body.NextPageToken
	}
	for i, token := range tokens {
		for j, list := range lists {
			w := apitest.Get(h, list+"&pageSize=2&pageToken="+token)
			if i == j {
				require.Equal(t, http.StatusOK, w.Code, w.Body)
				continue
			}
			requireError(t, w, 400, "pageToken: it belongs to another request")
		}
	}
	same := strings.Replace(utxosPath, "addresses=", "addresses=%20,X-", 1)
	require.Equal(t, http.StatusOK, apitest.Get(h, strings.Replace(same, "/fuji/", "/testnet/", 1)+"&pageToken="+tokens[0]).Code, "another spelling is no other list")
	requireError(t, apitest.Get(h, strings.Replace(verticesAt, "=5", "=6", 1)+"&pageToken="+tokens[len(tokens)-2]), 400, "pageToken: ")
}

// TestLargeAnswers sends a page that is larger than the buffer.
func TestLargeAnswers(t *testing.T) {
	f := newFake()
	big := fmt.Sprintf(`{"config":{"chainId":1},"extraData":"0x%s"}`, strings.Repeat("00", 40_000))
	for i := 2; i < len(f.subnets); i++ {
		f.subnets[i].Chains = []subnets.Blockchain{{ID: ids.ID{7}}}
	}
	f.genesis[ids.ID{7}] = big
	server := httptest.NewServer(fuji(t, f))
	defer server.Close()
	read := func() (map[string]any, error) {
		response, err := server.Client().Get(server.URL + subnetsURL + "&pageSize=149")
		if err != nil {
			return nil, err
		}
		defer response.Body.Close()
		require.Equal(t, http.StatusOK, response.StatusCode)
		content, err := io.ReadAll(response.Body)
		if err != nil {
			return nil, err // it did not end as a response does
		}
		var body map[string]any
		require.NoError(t, json.Unmarshal(content, &body))
		return body, nil
	}
	body, err := read()
	require.NoError(t, err)
	require.Len(t, body["subnets"], 149)
	require.NotEmpty(t, body["nextPageToken"])

	f.subnetsErr, f.failFrom = errors.New("broken"), 140
	_, err = read()
	require.ErrorIs(t, err, io.ErrUnexpectedEOF, "an answer that is cut short must not look complete")
	f.failFrom = 0
	requireError(t, apitest.Get(fuji(t, f), subnetsURL), 500)
}

// TestWhatIsMissingIsSaid requests what cannot be indexed before the operator acts.
func TestWhatIsMissingIsSaid(t *testing.T) {
	f := newFake()
	f.progress[xID] = data.Progress{Height: 0, Needs: "switch it on", Err: errors.New("secret")}
	h := fuji(t, f)
	for _, path := range []string{xUTXOs, xBalances} {
		w := apitest.Get(h, path)
		requireError(t, w, 503, "the x-chain is not indexed: switch it on")
		require.Contains(t, w.Body.String(), `"code":"INDEX_LACKS_SOURCE"`)
		require.NotContains(t, w.Body.String(), "secret")
	}
	require.Equal(t, http.StatusOK, apitest.Get(h, subnetsURL).Code)
	require.Equal(t, http.StatusOK, apitest.Get(h, verticesAt).Code, "they may be complete all the same")
	f.err = fmt.Errorf("secret: %w", vertices.ErrIncomplete)
	requireError(t, apitest.Get(h, verticesAt), 503, "the x-chain is not indexed: switch it on")

	h = surface(t, map[string]data.Network{"fuji": {Needs: "give networks.fuji.genesis_file"}}, compat.Auto)
	for _, op := range operations {
		requireError(t, apitest.Get(h, op), 503, "chain data of fuji is not indexed: give networks.fuji.genesis_file")
		requireError(t, apitest.Get(h, strings.Replace(op, "/fuji/", "/testnet/", 1)), 503, "chain data of testnet is not indexed")
		requireError(t, apitest.Get(h, strings.Replace(op, "/fuji/", "/mainnet/", 1)), 404, "network: ")
	}
}
