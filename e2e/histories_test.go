package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/api/info"
	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/constants"
	"github.com/ava-labs/avalanchego/utils/units"
	"github.com/ava-labs/avalanchego/vms/components/avax"
	"github.com/ava-labs/avalanchego/vms/platformvm/block"
	"github.com/ava-labs/avalanchego/vms/platformvm/reward"
	"github.com/ava-labs/avalanchego/vms/platformvm/txs"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp/message"
	"github.com/ava-labs/avalanchego/vms/secp256k1fx"
	"github.com/ava-labs/avalanchego/wallet/subnet/primary"

	"quorate/e2e/localnet"
)

// historySteps is the number of random steps of a history.
const historySteps = 70

// stakeHistory makes the P-Chain of a network grow by random steps of all kinds.
type stakeHistory struct {
	*l1Story
	ctx     context.Context //nolint:containedctx // of the test that the history ends with
	cChain  ids.ID
	random  *rand.Rand
	stakers []ids.NodeID // of the genesis
	nodes   []string     // their URLs

	staking []ids.ID // transactions of stakes that end meanwhile
	joined  []leavingValidator
	subnets []*legacySubnet
	l1s     []*l1Members
	ever    []ids.ID // validation IDs
	done    map[string]int

	managed bool      // whether managers of L1s can give orders
	began   time.Time // when the steps began
}

// leavingValidator is a validator of the primary network that leaves.
type leavingValidator struct {
	nodeID ids.NodeID
	end    time.Time
}

// legacySubnet is a subnet whose owner names its validators.
type legacySubnet struct {
	id    ids.ID
	chain ids.ID // empty until there is one
	// validators were added and not removed; their time may have ended.
	validators map[ids.NodeID]time.Time
}

// l1Members are the validators of an L1 that were not removed, at least two. The balance of the first runs out.
type l1Members struct {
	id      ids.ID
	members []*l1Member
}

type l1Member struct {
	id       ids.ID
	nonce    uint64
	disabled bool
}

// stakes reports whether stakes may begin: late ones only make the test wait for their end.
func (h *stakeHistory) stakes() bool {
	return time.Since(h.began) < 40*time.Second || len(h.done) < len(h.steps())
}

// steps are the kinds of steps. Each returns false if it is not possible now.
func (h *stakeHistory) steps() map[string]func() bool {
	return map[string]func() bool{
		"a validator joins": h.join, "stake is delegated": h.delegate, "stake is delegated for as long as the validator": h.delegateAll,
		"a subnet is created": h.createSubnet, "a subnet changes its owner": h.transfer, "a subnet gets a chain": h.createChain,
		"a subnet gets a validator": h.addSubnetValidator, "a subnet loses a validator": h.removeSubnetValidator, "a subnet becomes an L1": h.convert,
		"an L1 validator is registered": h.register, "an L1 validator gets another weight": h.reweigh, "an L1 validator is removed": h.remove,
		"a balance is increased": h.increase, "an L1 validator is disabled": h.disable,
		"a transfer": func() bool { h.p.nudge(); return true }, "an export": h.export,
	}
}

// The network asks stakes to last at least 15 seconds. A busy machine takes seconds to accept them.
func (h *stakeHistory) soon() time.Time {
	return time.Now().Add(30*time.Second + time.Duration(h.random.IntN(15))*time.Second).Truncate(time.Second)
}

// one returns a random element, false if there is none.
func one[T any](h *stakeHistory, of []T) (v T, ok bool) {
	if len(of) == 0 {
		return v, false
	}
	return of[h.random.IntN(len(of))], true
}

func (h *stakeHistory) join() bool {
	if !h.stakes() {
		return false
	}
	v, end, b := newIdentity(h.t), h.soon(), h.p.wallet.Builder().Context()
	h.staking = append(h.staking, h.p.accepted(h.p.wallet.IssueAddPermissionlessValidatorTx(
		&txs.SubnetValidator{Validator: txs.Validator{NodeID: v.nodeID, End: uint64(end.Unix()), Wght: (2 + h.random.Uint64N(5)) * units.KiloAvax}},
		v.proof, b.AVAXAssetID, h.p.owner, h.p.owner, reward.PercentDenominator/10)))
	h.joined = append(h.joined, leavingValidator{v.nodeID, end})
	return true
}

// delegate delegates to a validator that goes on.
func (h *stakeHistory) delegate() bool {
	if !h.stakes() {
		return false
	}
	to, _ := one(h, h.stakers)
	h.delegateTo(to, h.soon())
	return true
}

// delegateAll delegates to a validator that leaves at the same time.
func (h *stakeHistory) delegateAll() bool {
	for _, to := range h.joined {
		if time.Until(to.end) > 28*time.Second {
			h.delegateTo(to.nodeID, to.end)
			return true
		}
	}
	return false
}

func (h *stakeHistory) delegateTo(to ids.NodeID, end time.Time) {
	h.staking = append(h.staking, h.p.accepted(h.p.wallet.IssueAddPermissionlessDelegatorTx(
		&txs.SubnetValidator{Validator: txs.Validator{NodeID: to, End: uint64(end.Unix()), Wght: (25 + h.random.Uint64N(50)) * units.Avax}},
		h.p.wallet.Builder().Context().AVAXAssetID, h.p.owner)))
}

func (h *stakeHistory) createSubnet() bool {
	if len(h.subnets) == 4 {
		return false
	}
	h.subnets = append(h.subnets, &legacySubnet{id: h.p.accepted(h.p.wallet.IssueCreateSubnetTx(h.p.owner)), validators: make(map[ids.NodeID]time.Time)})
	return true
}

func (h *stakeHistory) transfer() bool {
	s, ok := one(h, h.subnets)
	if ok { // to the same keys, of which one must sign as before
		h.p.accepted(h.p.wallet.IssueTransferSubnetOwnershipTx(s.id, h.p.owner))
	}
	return ok
}

func (h *stakeHistory) createChain() bool {
	s, ok := one(h, h.subnets)
	if !ok || s.chain != ids.Empty {
		return false
	}
	s.chain = h.p.accepted(h.p.wallet.IssueCreateChainTx(s.id, []byte("{}"), constants.SubnetEVMID, nil, "a chain"))
	return true
}

func (h *stakeHistory) addSubnetValidator() bool {
	s, ok := one(h, h.subnets)
	nodeID, _ := one(h, h.stakers)
	if !ok || !s.validators[nodeID].IsZero() || !h.stakes() {
		return false
	}
	end := h.soon()
	h.p.accepted(h.p.wallet.IssueAddSubnetValidatorTx(&txs.SubnetValidator{
		Validator: txs.Validator{NodeID: nodeID, End: uint64(end.Unix()), Wght: 1 + h.random.Uint64N(100)}, Subnet: s.id,
	}))
	s.validators[nodeID] = end
	return true
}

func (h *stakeHistory) removeSubnetValidator() bool {
	for _, s := range h.subnets {
		for nodeID, end := range s.validators {
			if time.Until(end) > 12*time.Second {
				h.p.accepted(h.p.wallet.IssueRemoveSubnetValidatorTx(nodeID, s.id))
				delete(s.validators, nodeID)
				return true
			}
		}
	}
	return false
}

// convert makes an L1 of a subnet, which may have validators of its owner's.
func (h *stakeHistory) convert() bool {
	if len(h.subnets) == 0 || len(h.l1s) == 3 {
		return false
	}
	s := h.subnets[0]
	mine := message.PChainOwner{Threshold: 1, Addresses: h.p.owner.Addrs}
	var validators []*txs.ConvertSubnetToL1Validator
	for range 2 + h.random.IntN(4) {
		balance := uint64(5) // a second costs 1, so that the first one's runs out
		if len(validators) > 0 {
			balance += h.random.Uint64N(30)
			if h.random.IntN(2) == 0 {
				balance = units.Avax
			}
		}
		v := newIdentity(h.t)
		validators = append(validators, &txs.ConvertSubnetToL1Validator{
			NodeID: v.nodeID.Bytes(), Weight: 10 + h.random.Uint64N(100), Balance: balance, Signer: *v.proof, RemainingBalanceOwner: mine, DeactivationOwner: mine,
		})
	}
	h.p.accepted(h.p.wallet.IssueConvertSubnetToL1Tx(s.id, h.cChain, h.c.account.Bytes(), validators))
	l := &l1Members{id: s.id}
	for i := range validators {
		l.members = append(l.members, h.member(s.id.Append(uint32(i))))
	}
	h.subnets, h.l1s = h.subnets[1:], append(h.l1s, l)
	return true
}

func (h *stakeHistory) member(id ids.ID) *l1Member {
	h.ever = append(h.ever, id)
	return &l1Member{id: id}
}

func (h *stakeHistory) register() bool {
	l, ok := one(h, h.l1s)
	if !ok || !h.managed {
		return false
	}
	v, mine := newIdentity(h.t), message.PChainOwner{Threshold: 1, Addresses: h.p.owner.Addrs}
	order, err := message.NewRegisterL1Validator(l.id, v.nodeID, v.proof.PublicKey, uint64(time.Now().Add(time.Hour).Unix()), mine, mine, 1+h.random.Uint64N(50))
	require.NoError(h.t, err)
	h.p.accepted(h.p.wallet.IssueRegisterL1ValidatorTx(10+h.random.Uint64N(50), v.proof.ProofOfPossession, h.order(h.ctx, order, nil)))
	l.members = append(l.members, h.member(order.ValidationID()))
	return true
}

func (h *stakeHistory) reweigh() bool {
	l, ok := one(h, h.l1s)
	if !ok || !h.managed {
		return false
	}
	m, _ := one(h, l.members)
	h.setWeight(h.ctx, m.id, m.nonce, 1+h.random.Uint64N(200))
	m.nonce += 1 + h.random.Uint64N(3)
	return true
}

func (h *stakeHistory) remove() bool {
	for _, l := range h.l1s {
		if i := len(l.members) - 1; i > 1 && h.managed {
			h.setWeight(h.ctx, l.members[i].id, l.members[i].nonce, 0)
			l.members = l.members[:i]
			return true
		}
	}
	return false
}

func (h *stakeHistory) increase() bool {
	l, ok := one(h, h.l1s)
	if ok {
		m, _ := one(h, l.members[1:])
		h.p.accepted(h.p.wallet.IssueIncreaseL1ValidatorBalanceTx(m.id, 5+h.random.Uint64N(30)))
		m.disabled = false
	}
	return ok
}

func (h *stakeHistory) disable() bool {
	l, ok := one(h, h.l1s)
	if !ok {
		return false
	}
	m, _ := one(h, l.members)
	if m.disabled {
		return false
	}
	// The node tells a wallet who may do so, and to whom the subnets belong.
	config := primary.WalletConfig{ValidationIDs: []ids.ID{m.id}}
	for _, s := range h.subnets {
		config.SubnetIDs = append(config.SubnetIDs, s.id)
	}
	h.p = newPChainWith(h.t, h.ctx, h.node, config)
	if v, _, err := h.p.client.GetL1Validator(h.ctx, m.id); err != nil || v.Balance < 10 {
		return false // it may run out before
	}
	h.p.accepted(h.p.wallet.IssueDisableL1ValidatorTx(m.id))
	m.disabled = true
	return true
}

func (h *stakeHistory) export() bool {
	h.p.accepted(h.p.wallet.IssueExportTx(h.cChain, []*avax.TransferableOutput{{
		Asset: avax.Asset{ID: h.p.wallet.Builder().Context().AVAXAssetID}, Out: &secp256k1fx.TransferOutput{Amt: units.MilliAvax, OutputOwners: *h.p.owner},
	}}))
	return true
}

// grow takes random steps, and more until each possible kind was taken. Kinds that were not are more likely.
func (h *stakeHistory) grow(steps int) {
	h.t.Helper()
	all := h.steps()
	names := make([]string, 0, len(all))
	for name := range all {
		names = append(names, name)
	}
	for taken := 0; taken < steps || h.managed && len(h.done) < len(all); {
		require.NoError(h.t, h.ctx.Err())
		name, _ := one(h, names)
		if h.done[name] > 0 && h.random.IntN(3) > 0 {
			continue
		}
		if all[name]() {
			h.done[name]++
			taken++
		}
	}
}

// compare compares what the service says of the P-Chain with what a node says: validators of all subnets at all heights,
// and all that is known of them now.
func (h *stakeHistory) compare(node string) {
	h.t.Helper()
	h.service.compareSets(h.ctx, node)
	var found map[string]int
	var different []string
	// A balance that runs out makes a block.
	height := h.service.atOneHeight(h.ctx, node, func() { found, different = h.differences(node) })
	require.Empty(h.t, different)
	h.t.Logf("equal at height %d: %v", height, found)
}

// differences returns how many answers of each method were equal, and the answers that differ.
func (h *stakeHistory) differences(node string) (found map[string]int, different []string) {
	h.t.Helper()
	found = make(map[string]int)
	ask := func(method string, params any) {
		h.t.Helper()
		var answers [2]string
		refused := false
		for i, base := range []string{node, h.service.url + "/local"} {
			var answer json.RawMessage
			if err := localnet.Call(h.ctx, base, "/ext/bc/P", method, params, &answer); err != nil {
				answers[i], refused = err.Error()[strings.LastIndex(err.Error(), ": ")+1:], true
			} else {
				answers[i] = sortedAnswer(h.t, answer)
			}
		}
		if answers[0] != answers[1] {
			different = append(different, fmt.Sprintf("%s %v: the node says %s, the service %s", method, params, answers[0], answers[1]))
		} else if !refused {
			found[method]++
		}
	}
	current := validatorsNow(h.t, h.ctx, node, constants.PrimaryNetworkID)
	for _, v := range current { // with the delegations to it
		ask("platform.getCurrentValidators", map[string]any{"nodeIDs": []any{v["nodeID"]}})
	}
	for _, id := range h.ever {
		ask("platform.getL1Validator", map[string]any{"validationID": id})
	}
	for _, l := range h.l1s {
		ask("platform.getSubnet", map[string]any{"subnetID": l.id})
	}
	for _, s := range h.subnets {
		ask("platform.getSubnet", map[string]any{"subnetID": s.id})
	}
	for _, id := range h.staking {
		ask("platform.getRewardUTXOs", map[string]any{"txID": id, "encoding": "hex"})
	}
	for _, method := range []string{"getCurrentSupply", "getTotalStake", "getTimestamp", "getSubnets", "getBlockchains", "getValidatorFeeState"} {
		ask("platform."+method, map[string]any{"subnetID": constants.PrimaryNetworkID})
	}
	return found, different
}

// sortedAnswer returns an answer without what a node observes. Its lists are sorted, because some have the order of a map.
func sortedAnswer(t testing.TB, answer json.RawMessage) string {
	t.Helper()
	var fields map[string]any
	require.NoError(t, json.Unmarshal(answer, &fields))
	for _, field := range fields {
		list, _ := field.([]any)
		for _, v := range list {
			if v, ok := v.(map[string]any); ok {
				delete(v, "uptime")
				delete(v, "connected")
			}
		}
		slices.SortFunc(list, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	}
	b, err := json.Marshal(fields)
	require.NoError(t, err)
	return string(b)
}

// settle waits until all stakes of the history have ended.
func (h *stakeHistory) settle() {
	h.t.Helper()
	require.Eventually(h.t, func() bool {
		stakes := 0
		for _, v := range validatorsNow(h.t, h.ctx, h.node, constants.PrimaryNetworkID) {
			count, _ := strconv.Atoi(fmt.Sprint(v["delegatorCount"]))
			stakes += 1 + count
		}
		return stakes == len(h.stakers)
	}, 2*time.Minute, 200*time.Millisecond, "the stakes do not end")
}

// kinds counts the transactions and decisions in the blocks of the chain.
func (h *stakeHistory) kinds() map[string]int {
	h.t.Helper()
	found := make(map[string]int)
	for height := h.p.height(h.ctx); height > 0; height-- {
		b, err := h.p.client.GetBlockByHeight(h.ctx, height)
		require.NoError(h.t, err)
		parsed, err := block.Parse(block.Codec, b)
		require.NoError(h.t, err)
		found[strings.TrimPrefix(fmt.Sprintf("%T", parsed), "*block.")]++
		for _, tx := range parsed.Txs() {
			found[strings.TrimPrefix(fmt.Sprintf("%T", tx.Unsigned), "*txs.")]++
		}
	}
	return found
}

// TestHistories makes a random history of staking and of L1s, and compares what a service that executes the P-Chain says of
// it with what nodes say, at all heights: while it grows, after a restart, and when all stakes have ended. E2E_SEED repeats
// the steps of a history, though not the times between them.
func TestHistories(t *testing.T) {
	if testing.Short() {
		t.Skip("one of the real networks of make test-all")
	}
	t.Parallel()
	ctx, cancel := testContext(t, 9*time.Minute)
	defer cancel()
	seed := rand.Uint64()
	if text := os.Getenv("E2E_SEED"); text != "" {
		var err error
		seed, err = strconv.ParseUint(text, 10, 64)
		require.NoError(t, err)
	}
	t.Logf("E2E_SEED=%d", seed)
	program := buildService(t)
	network := localnet.Start(t)
	node := network.Node(0).URL
	h := &stakeHistory{
		l1Story: &l1Story{t: t, node: node, c: newCChain(t, ctx, node), p: newPChain(t, ctx, node)},
		ctx:     ctx, random: rand.New(rand.NewPCG(seed, 0)), done: make(map[string]int),
	}
	var err error
	h.cChain, err = info.NewClient(node).GetBlockchainID(ctx, "C")
	require.NoError(t, err)
	for i := range network.Stakers() {
		url := network.Node(i).URL
		nodeID, _, err := info.NewClient(url).GetNodeID(ctx)
		require.NoError(t, err)
		h.stakers, h.nodes = append(h.stakers, nodeID), append(h.nodes, url)
	}
	h.service = startWithoutNodes(t, ctx, program, network)
	h.began = time.Now()
	logStep := func(what string) { t.Logf("%s after %s", what, time.Since(h.began).Round(time.Second)) }
	h.grow(historySteps / 2)
	logStep("half of the steps")
	h.service.compareSets(ctx, h.nodes[1])
	h.service.stop()
	h.join() // what the service misses; most other steps need it
	h.delegate()
	h.service.start()
	h.p.awaitEpoch(ctx, 1) // in one of height 0, orders would be signed for the proposed height
	h.managed = true
	h.grow(historySteps / 2)
	logStep("all steps")
	h.service.compareSets(ctx, h.nodes[2])
	h.settle()
	logStep("all stakes ended")
	for _, url := range h.nodes {
		h.compare(url)
	}

	logStep("all comparisons")

	kinds := h.kinds()
	t.Logf("the blocks have %v", kinds)
	for _, kind := range []string{
		"AddPermissionlessValidatorTx", "AddPermissionlessDelegatorTx", "RewardValidatorTx", "CreateSubnetTx", "CreateChainTx", "TransferSubnetOwnershipTx",
		"AddSubnetValidatorTx", "RemoveSubnetValidatorTx", "ConvertSubnetToL1Tx", "RegisterL1ValidatorTx", "SetL1ValidatorWeightTx",
		"IncreaseL1ValidatorBalanceTx", "DisableL1ValidatorTx", "BaseTx", "ExportTx",
	} {
		require.Positive(t, kinds[kind], kind)
	}
	require.Positive(t, h.ranOut(), "no balance ran out")
}

// ranOut returns how many validators have used up their balance.
func (h *stakeHistory) ranOut() (n int) {
	h.t.Helper()
	for _, l := range h.l1s {
		for _, m := range l.members {
			v, _, err := h.p.client.GetL1Validator(h.ctx, m.id)
			require.NoError(h.t, err)
			if v.Balance == 0 && !m.disabled {
				n++
			}
		}
	}
	return n
}
