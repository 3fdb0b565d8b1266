package data_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	avagenesis "github.com/ava-labs/avalanchego/genesis"
	"github.com/ava-labs/avalanchego/ids"

	"quorate/handlers/apitest"
	"quorate/handlers/chainkit"
	"quorate/handlers/compat"
	"quorate/handlers/data"
	"quorate/internal/chain/genesis"
	"quorate/internal/chain/pchain"
	"quorate/internal/index/registry"
	"quorate/internal/node/uptime"
	"quorate/internal/simnet/history"
	"quorate/internal/store"
)

// registered is the registry of a simulated network with all that it holds.
type registered struct {
	index       *registry.Index
	validations []*registry.Validation // newest first
	l1          []*registry.L1Validator
	blockchains []*registry.Blockchain
	head        registry.Head
}

// simulated indexes a simulated P-Chain once.
var simulated = sync.OnceValue(func() *registered {
	const network = 12345
	ctx := context.Background()
	generator := must(history.New(history.Options{Seed: 1, NetworkID: network, Txs: 1200}))
	var blocks []*pchain.Block
	for generator.Txs() < 1200 || generator.Pending() > 0 {
		if b := must(generator.Next()); b.Chain == history.P {
			blocks = append(blocks, must(pchain.ParseBlock(b.Bytes)))
		}
	}
	g := must(genesis.Of(network, blocks[0].ID))
	decoder := must(pchain.NewDecoder(pchain.DecoderOptions{
		NetworkID: network, Genesis: g.P, AVAXAssetID: g.AVAXAssetID, Validators: g.Validators, Supply: g.Supply, WithoutOutputs: true,
	}))
	s := store.NewMemory()
	projection := registry.NewProjection(network, decoder)
	var batch store.Batch
	for _, b := range blocks {
		if err := projection.Apply(ctx, s, b, &batch); err != nil {
			panic(err)
		}
	}
	if err := s.Commit(ctx, &batch); err != nil {
		panic(err)
	}
	r := &registered{index: registry.New(s, network, avagenesis.GetTxFeeConfig(network).ValidatorFeeConfig)}
	page := must(r.index.Validations(ctx, registry.Query{Limit: 1e6}))
	r.validations, r.head = page.Validations, page.Head
	r.l1 = must(r.index.L1Validators(ctx, registry.L1Query{Limit: 1e6, Inactive: true})).Validators
	blockchains, _, err := r.index.Blockchains(ctx, false, 1e6, nil)
	r.blockchains = must(blockchains, err)
	return r
})

// count counts the validations that match.
func (r *registered) count(match func(*registry.Validation) bool) (n int) {
	for _, v := range r.validations {
		if match(v) {
			n++
		}
	}
	return n
}

func (r *registered) hasActive(match func(*registry.Validation) bool) bool {
	return r.count(func(v *registry.Validation) bool { return match(v) && r.status(registry.Active)(v) }) > 0
}

func (r *registered) status(status registry.Status) func(*registry.Validation) bool {
	return func(v *registry.Validation) bool { return v.StatusAt(r.head.Time) == status }
}

func pages(items, size int) int { return max(1, (items+size-1)/size) }

// registryCalls are calls of the official client for the registry.
func registryCalls() []call {
	const network = "data.primaryNetwork."
	r := simulated()
	list := func(name, method, list, id string, count, size int, request map[string]any) call {
		request["pageSize"] = size
		return call{Call: chainkit.Call{Name: name, Path: network + method, List: list, Request: request}, id: id, count: count, pages: pages(count, size)}
	}
	validators := func(name string, size int, match func(*registry.Validation) bool, request map[string]any) call {
		c := list(name, "listValidators", "validators", "txHash", r.count(match), size, request)
		c.active = r.hasActive(match)
		return c
	}
	node := r.validations[len(r.validations)/2].NodeID
	ofNode := func(v *registry.Validation) bool { return v.NodeID == node }
	active := 0
	for _, v := range r.l1 {
		if v.Status() == registry.L1Active {
			active++
		}
	}
	subnet := r.l1[0].SubnetID
	inSubnet := 0
	for _, v := range r.l1 {
		if v.SubnetID == subnet {
			inSubnet++
		}
	}
	one := list("a validator", "getValidatorDetails", "validators", "txHash", r.count(ofNode), 1, map[string]any{"nodeId": node.String(), "sortOrder": "asc"})
	one.active = r.hasActive(ofNode)
	return []call{
		one,
		{Call: chainkit.Call{Name: "a subnet", Path: network + "getSubnetById", Request: map[string]any{"subnetId": r.blockchains[0].SubnetID.String()}}, pages: 1, field: "subnetId"},
		{Call: chainkit.Call{Name: "a blockchain", Path: network + "getBlockchainById", Request: map[string]any{"blockchainId": r.blockchains[0].ID.String()}}, pages: 1, field: "blockchainId"},
		list("blockchains", "listBlockchains", "blockchains", "blockchainId", len(r.blockchains), 3, map[string]any{}),
		list("oldest blockchains", "listBlockchains", "blockchains", "blockchainId", len(r.blockchains), 2, map[string]any{"sortOrder": "asc"}),
		validators("validators", 100, func(*registry.Validation) bool { return true }, map[string]any{}),
		validators("active validators", 3, r.status(registry.Active), map[string]any{"validationStatus": "active"}),
		validators("removed validators", 1, r.status(registry.Removed), map[string]any{"validationStatus": "removed", "sortOrder": "asc"}),
		validators("completed validators", 2, r.status(registry.Completed), map[string]any{"validationStatus": "completed"}),
		validators("validators by capacity", 3, func(v *registry.Validation) bool { return v.Ended.Time.IsZero() && v.MaxWeight > 0 && v.Capacity() > 0 },
			map[string]any{"sortBy": "delegationCapacity", "minDelegationCapacity": "1", "subnetId": ids.Empty.String()}),
		validators("validators of a node", 1, ofNode, map[string]any{"nodeIds": node.String()}),
		validators("validators of a part of a node ID", 2, func(v *registry.Validation) bool { return strings.Contains(v.NodeID.String(), node.String()[8:12]) },
			map[string]any{"nodeIds": node.String()[8:12]}),
		list("active L1 validators", "listL1Validators", "validators", "validationId", active, 1, map[string]any{}),
		list("L1 validators", "listL1Validators", "validators", "validationId", len(r.l1), 3, map[string]any{"includeInactiveL1Validators": true}),
		list("L1 validators of a subnet", "listL1Validators", "validators", "validationId", inSubnet, 2, map[string]any{"includeInactiveL1Validators": true, "subnetId": subnet.String()}),
		list("an L1 validator", "listL1Validators", "validators", "validationId", 1, 2, map[string]any{
			"includeInactiveL1Validators": true, "l1ValidationId": r.l1[0].ValidationID.String(), "nodeId": r.l1[0].NodeID.String(),
		}),
	}
}

// uptimes is what a node observed.
type uptimes map[ids.NodeID]uptime.Uptime

func (u uptimes) Uptimes(context.Context) map[ids.NodeID]uptime.Uptime { return u }

// TestUptimes requires that an uptime is what a node reports, and absent if none does.
func TestUptimes(t *testing.T) {
	r := simulated()
	known := make(uptimes)
	var active []*registry.Validation
	for _, v := range r.validations {
		if v.StatusAt(r.head.Time) == registry.Active && !v.Permissioned {
			active = append(active, v)
			if len(active)%2 == 0 {
				known[v.NodeID] = uptime.Uptime{TxID: v.TxID, Percent: float64(len(active)), Connected: true}
			}
		}
	}
	require.Greater(t, len(active), 3)
	n := newFake().network()
	n.Uptimes = known
	h := surface(t, map[string]data.Network{"fuji": n}, compat.Auto)
	all := validatorsAt(t, h, base+"/validators?pageSize=100&validationStatus=active&subnetId="+ids.Empty.String())
	for _, v := range all {
		i := slices.IndexFunc(active, func(one *registry.Validation) bool { return one.TxID.String() == v["txHash"] })
		if u, ok := known[active[i].NodeID]; ok && u.TxID == active[i].TxID {
			require.Equal(t, []any{u.Percent, true}, []any{v["uptimePerformance"], v["connected"]})
		} else {
			require.NotContains(t, v, "uptimePerformance")
			require.NotContains(t, v, "connected")
		}
		require.NotContains(t, v, "validatorHealth")
	}
	sorted := validatorsAt(t, h, base+"/validators?pageSize=100&sortBy=uptimePerformance&minUptimePerformance=3&maxUptimePerformance=1000")
	require.Len(t, sorted, len(known)-1)
	require.True(t, slices.IsSortedFunc(sorted, func(a, b map[string]any) int {
		return -cmp.Compare(a["uptimePerformance"].(float64), b["uptimePerformance"].(float64))
	}))
	require.Empty(t, validatorsAt(t, h, base+"/validators?minUptimePerformance=1000"))
}

// TestUnknownUptimes requires that lists that need uptimes are refused while no node reports them, and that others
// are not.
func TestUnknownUptimes(t *testing.T) {
	n := newFake().network()
	for _, none := range []uptimes{nil, {}} { // no node answers, and one answers without uptimes
		n.Uptimes = none
		h := surface(t, map[string]data.Network{"fuji": n}, compat.Auto)
		for _, query := range []string{"sortBy=uptimePerformance", "minUptimePerformance=0", "maxUptimePerformance=100", "sortBy=delegationFee&minUptimePerformance=80"} {
			requireError(t, apitest.Get(h, base+"/validators?"+query), 503, "no upstream node reports uptimes")
		}
		require.NotEmpty(t, validatorsAt(t, h, base+"/validators?sortBy=delegationFee"))
	}
}

func validatorsAt(t *testing.T, h http.Handler, path string) (all []map[string]any) {
	t.Helper()
	w := apitest.Get(h, path)
	require.Equal(t, http.StatusOK, w.Code, "%s", w.Body)
	var body struct{ Validators []map[string]any }
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &body))
	return body.Validators
}

// TestRegistryRefusals requests subnets and validators that do not exist.
func TestRegistryRefusals(t *testing.T) {
	f := newFake()
	h := fuji(t, f)
	unknown := ids.ID{77}.String()
	for path, want := range map[string]struct {
		status int
		part   string
	}{
		"/subnets/nonsense":   {400, "subnetId: "},
		"/subnets/" + unknown: {404, "subnetId: "},
		"/subnets/" + simulated().blockchains[0].ID.String():        {404, "subnetId: "},
		"/blockchains/nonsense":                                     {400, "blockchainId: "},
		"/blockchains/" + unknown:                                   {404, "blockchainId: "},
		"/blockchains/p-chain":                                      {404, "blockchainId: "},
		"/validators/nonsense":                                      {400, "nodeId: "},
		"/validators/" + ids.NodeID{7}.String():                     {404, "nodeId: "},
		"/validators?minFeePercentage=-1":                           {400, "minFeePercentage: "},
		"/validators?subnetId=x":                                    {400, "subnetId: "},
		"/validators?validationStatus=removed&sortBy=timeRemaining": {400, "validationStatus: "},
		"/l1Validators?nodeId=x":                                    {400, "nodeId: "},
		"/l1Validators?l1ValidationId=0x12":                         {400, "l1ValidationId: "},
	} {
		t.Run(path, func(t *testing.T) { requireError(t, apitest.Get(h, base+path), want.status, want.part) })
	}
	for _, name := range []string{"minFeePercentage", "maxFeePercentage", "minUptimePerformance", "maxUptimePerformance"} {
		for _, bad := range []string{"0x1p1", "0x_1p1", "1_0", "inf", "Infinity", "NaN", "-1", "-0.1", "%2B1", ".5", "1.", "1e", "1e19", "1e999", "x", ""} {
			requireError(t, apitest.Get(h, base+"/validators?"+name+"="+bad), 400, name+": must be a decimal number of at least 0, got ")
		}
		for _, good := range []string{"0", "-0", "1", "01", "2.50", "2.5e1", "25E-1", "1e18"} {
			require.Equal(t, http.StatusOK, apitest.Get(h, base+"/validators?"+name+"="+good).Code, good)
		}
	}
	p := f.progress[pID]
	p.CaughtUp = false
	f.progress[pID] = p
	for _, path := range []string{"/subnets/" + ids.Empty.String(), "/blockchains", "/blockchains/c-chain", "/validators", "/validators/" + ids.NodeID{7}.String(), "/l1Validators"} {
		requireError(t, apitest.Get(h, base+path), 503, "the index of the p-chain is still catching up")
	}
}

// TestL1ValidatorIsFoundByHex requires equal answers for both forms of a validation ID.
func TestL1ValidatorIsFoundByHex(t *testing.T) {
	h, v := fuji(t, newFake()), simulated().l1[0]
	ask := func(id string) map[string]any {
		all := validatorsAt(t, h, base+"/l1Validators?includeInactiveL1Validators=true&l1ValidationId="+id)
		require.Len(t, all, 1)
		return all[0]
	}
	got := ask(v.ValidationID.String())
	require.Equal(t, got, ask(fmt.Sprintf("0x%x", v.ValidationID[:])))
	require.EqualValues(t, simulated().head.Balance(v), got["remainingBalance"])
}

// TestNamedL1Validator requires that a validation is found by its ID in every state.
func TestNamedL1Validator(t *testing.T) {
	h := fuji(t, newFake())
	found := make(map[any]int)
	for _, v := range simulated().l1 {
		all := validatorsAt(t, h, base+"/l1Validators?l1ValidationId="+v.ValidationID.String())
		require.Len(t, all, 1)
		require.Equal(t, []any{v.ValidationID.String(), string(v.Status())}, []any{all[0]["validationId"], all[0]["validationStatus"]})
		found[all[0]["validationStatus"]]++
		require.Empty(t, validatorsAt(t, h, base+"/l1Validators?l1ValidationId="+v.ValidationID.String()+"&nodeId="+ids.NodeID{7}.String()))
	}
	for _, status := range []registry.L1Status{registry.L1Active, registry.L1Inactive, registry.L1Removed} {
		require.Positive(t, found[string(status)], status)
	}
}
