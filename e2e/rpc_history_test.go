package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"math/big"
	"testing"
	"time"

	"github.com/ava-labs/libevm/common"
	"github.com/ava-labs/libevm/core/types"
	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/api/info"
	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/constants"
	"github.com/ava-labs/avalanchego/utils/units"
	"github.com/ava-labs/avalanchego/vms/avm"
	xtxs "github.com/ava-labs/avalanchego/vms/avm/txs"
	"github.com/ava-labs/avalanchego/vms/components/avax"
	"github.com/ava-labs/avalanchego/vms/components/verify"
	"github.com/ava-labs/avalanchego/vms/nftfx"
	"github.com/ava-labs/avalanchego/vms/platformvm"
	"github.com/ava-labs/avalanchego/vms/platformvm/reward"
	"github.com/ava-labs/avalanchego/vms/platformvm/stakeable"
	"github.com/ava-labs/avalanchego/vms/platformvm/txs"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp/message"
	"github.com/ava-labs/avalanchego/vms/propertyfx"
	"github.com/ava-labs/avalanchego/vms/secp256k1fx"
	xbuilder "github.com/ava-labs/avalanchego/wallet/chain/x/builder"
	"github.com/ava-labs/avalanchego/wallet/subnet/primary"
	walletcommon "github.com/ava-labs/avalanchego/wallet/subnet/primary/common"

	"quorate/e2e/localnet"
)

// shortStakes end while the history is made, but for one validator's own.
type shortStakes struct {
	// rewarded are transactions whose stakes end with a reward, unrewarded those that end
	// without one, because no node runs the validator.
	rewarded, unrewarded []ids.ID
	// leaving and absent are validators whose stakes end, staying one that remains and has
	// had a delegation by then. Nodes of the network run leaving and staying.
	leaving, absent identity
	staying         identity
	// commission are the shares of leaving and staying in their delegators' rewards.
	commission map[ids.NodeID]uint64
	// potential are the rewards of delegations before commission, by transaction.
	potential map[string]uint64
}

// stake makes stakes that end soon: with a reward and without, with a commission, of
// stake that is locked or belongs to several owners, and for such owners.
func (n *nodeAPI) stake(ctx context.Context, t *testing.T) *shortStakes {
	t.Helper()
	const (
		least = 15 * time.Second // of the network
		slack = 12 * time.Second // until the transaction is accepted
	)
	p := newPChain(t, ctx, n.node, n.keys...)
	s := &shortStakes{
		leaving: n.runningIdentity(ctx, t), staying: n.runningIdentity(ctx, t), absent: newIdentity(t),
		commission: make(map[ids.NodeID]uint64), potential: make(map[string]uint64),
	}
	avaxID := p.wallet.Builder().Context().AVAXAssetID
	other, last := n.keys[1].Address(), n.keys[2].Address()
	third := ownedBy(last)
	both := &secp256k1fx.OutputOwners{Threshold: 2, Addrs: sortedAddresses(other, last)}
	later := &secp256k1fx.OutputOwners{Threshold: 1, Locktime: uint64(time.Now().Add(time.Hour).Unix()), Addrs: []ids.ShortID{other}}
	until := func(d time.Duration) uint64 { return uint64(time.Now().Add(d).Unix()) }
	var locked []*avax.TransferableOutput
	for _, owner := range []*secp256k1fx.OutputOwners{both, third} {
		locked = append(locked, &avax.TransferableOutput{Asset: avax.Asset{ID: avaxID}, Out: &stakeable.LockOut{
			Locktime: until(time.Hour), TransferableOut: &secp256k1fx.TransferOutput{Amt: 40 * units.Avax, OutputOwners: *owner},
		}})
	}
	p.accepted(p.wallet.IssueBaseTx(locked))

	end := make(map[ids.NodeID]uint64)
	for _, v := range []struct {
		identity
		end      uint64
		rewards  *secp256k1fx.OutputOwners
		share    uint32 // of the delegators' rewards
		existing *[]ids.ID
	}{
		{s.leaving, until(least + 3*slack), both, reward.PercentDenominator / 4, &s.rewarded},
		{s.absent, until(least + 2*slack), third, reward.PercentDenominator / 10, &s.unrewarded},
		{s.staying, until(time.Hour), p.owner, reward.PercentDenominator / 10, nil},
	} {
		end[v.nodeID], s.commission[v.nodeID] = v.end, uint64(v.share)
		tx := p.accepted(p.wallet.IssueAddPermissionlessValidatorTx(
			&txs.SubnetValidator{Validator: txs.Validator{NodeID: v.nodeID, End: v.end, Wght: 2 * units.KiloAvax}},
			v.proof, avaxID, v.rewards, third, v.share))
		if v.existing != nil {
			*v.existing = append(*v.existing, tx)
		}
	}
	for _, d := range []struct {
		to      ids.NodeID
		end     uint64
		rewards *secp256k1fx.OutputOwners
		group   *[]ids.ID
	}{
		{s.leaving.nodeID, until(least + slack), third, &s.rewarded},  // before the validator's
		{s.leaving.nodeID, end[s.leaving.nodeID], both, &s.rewarded},  // with it
		{s.staying.nodeID, until(least + slack), later, &s.rewarded},  // long before it
		{s.absent.nodeID, end[s.absent.nodeID], third, &s.unrewarded}, // with it
		{s.absent.nodeID, until(least + slack), both, &s.unrewarded},  // before it
	} {
		*d.group = append(*d.group, p.accepted(p.wallet.IssueAddPermissionlessDelegatorTx(
			&txs.SubnetValidator{Validator: txs.Validator{NodeID: d.to, End: min(d.end, end[d.to]), Wght: 25 * units.Avax}}, avaxID, d.rewards)))
	}
	for nodeID := range s.commission {
		one, err := platformvm.NewClient(n.node).GetCurrentValidators(ctx, constants.PrimaryNetworkID, []ids.NodeID{nodeID})
		require.NoError(t, err)
		require.Len(t, one, 1)
		for _, d := range one[0].Delegators {
			s.potential[d.TxID.String()] = *d.PotentialReward
		}
	}
	require.Len(t, s.potential, 5)
	// A subnet's validators whose time ends, and that is removed before.
	for _, removed := range []bool{false, true} {
		subnet := p.accepted(p.wallet.IssueCreateSubnetTx(both))
		p.accepted(p.wallet.IssueAddSubnetValidatorTx(&txs.SubnetValidator{
			Validator: txs.Validator{NodeID: s.leaving.nodeID, End: min(until(least+slack), end[s.leaving.nodeID]), Wght: 5}, Subnet: subnet,
		}))
		if removed {
			p.accepted(p.wallet.IssueRemoveSubnetValidatorTx(s.leaving.nodeID, subnet))
		}
	}
	return s
}

// runningIdentity is that of one more node of the network.
func (n *nodeAPI) runningIdentity(ctx context.Context, t *testing.T) identity {
	t.Helper()
	url := n.network.Observe().URL
	nodeID, proof, err := info.NewClient(url).GetNodeID(ctx)
	require.NoError(t, err)
	return identity{nodeID: nodeID, proof: proof, url: url}
}

// awaitRewards waits until the stakes have ended.
func (n *nodeAPI) awaitRewards(ctx context.Context, t *testing.T, s *shortStakes) {
	t.Helper()
	params := `{"nodeIDs":["` + s.leaving.nodeID.String() + `","` + s.absent.nodeID.String() + `"]}`
	require.Eventually(t, func() bool {
		var current struct{ Validators []struct{} }
		n.result(ctx, t, "/ext/bc/P", "platform.getCurrentValidators", params, &current)
		return len(current.Validators) == 0
	}, 4*time.Minute, 200*time.Millisecond, "the stakes of %s and %s do not end", s.leaving.nodeID, s.absent.nodeID)
}

// collectibles adds what is there besides amounts, and what waits between chains.
// Neither NFTs nor properties can leave the X-Chain: an export takes outputs with an
// amount (avalanchego, vms/components/avax.TransferableOut).
func (n *nodeAPI) collectibles(ctx context.Context, t *testing.T) {
	t.Helper()
	keychain := secp256k1fx.NewKeychain(n.keys...)
	w, err := primary.MakeWallet(ctx, n.node, keychain, keychain, primary.WalletConfig{})
	require.NoError(t, err)
	options := []walletcommon.Option{walletcommon.WithContext(ctx), walletcommon.WithPollFrequency(20 * time.Millisecond), walletcommon.WithChangeOwner(ownedBy(n.keys[0].Address()))}
	x, p, c := w.X(), w.P(), w.C()
	xID, cID := x.Builder().Context().BlockchainID, c.Builder().Context().BlockchainID
	me, other, third := n.keys[0].Address(), n.keys[1].Address(), n.keys[2].Address()
	issue := func(tx *xtxs.Tx, err error) ids.ID {
		t.Helper()
		require.NoError(t, err)
		return tx.ID()
	}
	token := issue(x.IssueCreateAssetTx("Many things", "MANY", 0, map[uint32][]verify.State{
		0: {&secp256k1fx.TransferOutput{Amt: 100, OutputOwners: *ownedBy(me)}},
		1: {&nftfx.MintOutput{GroupID: 1, OutputOwners: *ownedBy(me)}, &nftfx.MintOutput{GroupID: 2, OutputOwners: *ownedBy(other)}},
		2: {&propertyfx.MintOutput{OutputOwners: *ownedBy(me)}},
	}, options...))
	issue(x.IssueOperationTxMintNFT(token, []byte("a <payload> & more"), []*secp256k1fx.OutputOwners{ownedBy(me)}, options...))
	issue(x.IssueOperationTxMintProperty(token, ownedBy(me), options...))
	issue(x.IssueOperationTxBurnProperty(token, options...))
	raw, _, _, err := avm.NewClient(n.node, "X").GetUTXOs(ctx, []ids.ShortID{me}, 1024, ids.ShortEmpty, ids.Empty)
	require.NoError(t, err)
	moved := false
	for _, b := range raw {
		var utxo avax.UTXO
		_, err := xbuilder.Parser.Codec().Unmarshal(b, &utxo)
		require.NoError(t, err)
		nft, ok := utxo.Out.(*nftfx.TransferOutput)
		if !ok || utxo.AssetID() != token {
			continue
		}
		issue(x.IssueOperationTx([]*xtxs.Operation{{
			Asset: utxo.Asset, UTXOIDs: []*avax.UTXOID{&utxo.UTXOID},
			Op: &nftfx.TransferOperation{
				Input:  secp256k1fx.Input{SigIndices: []uint32{0}},
				Output: nftfx.TransferOutput{GroupID: nft.GroupID, Payload: nft.Payload, OutputOwners: *ownedBy(third)},
			},
		}}, options...))
		moved = true
	}
	require.True(t, moved, "there is no NFT to hand on")
	pay := func(asset ids.ID, amount uint64, owner *secp256k1fx.OutputOwners) *avax.TransferableOutput {
		return &avax.TransferableOutput{Asset: avax.Asset{ID: asset}, Out: &secp256k1fx.TransferOutput{Amt: amount, OutputOwners: *owner}}
	}
	both := &secp256k1fx.OutputOwners{Threshold: 2, Addrs: sortedAddresses(other, third)}
	for _, to := range []ids.ID{constants.PlatformChainID, cID} {
		issue(x.IssueExportTx(to, []*avax.TransferableOutput{pay(token, 5, ownedBy(me)), pay(token, 6, both)}, options...))
	}
	avaxID := p.Builder().Context().AVAXAssetID
	for _, to := range []ids.ID{xID, cID} {
		_, err = p.IssueExportTx(to, []*avax.TransferableOutput{pay(avaxID, units.Avax, ownedBy(third)), pay(avaxID, units.Avax, both)}, options...)
		require.NoError(t, err)
	}
	for _, to := range []ids.ID{constants.PlatformChainID, xID} {
		_, err = c.IssueExportTx(to, []*secp256k1fx.TransferOutput{{Amt: units.Avax, OutputOwners: *ownedBy(third)}, {Amt: units.Avax, OutputOwners: *both}}, options...)
		require.NoError(t, err)
	}
}

// convertToL1 makes an L1, and everything happen to its validators that can. The
// manager's orders are signed through the service.
func (n *nodeAPI) convertToL1(ctx context.Context, t *testing.T, stakes *shortStakes) {
	t.Helper()
	cChainID, err := info.NewClient(n.node).GetBlockchainID(ctx, "C")
	require.NoError(t, err)
	s := &l1Story{t: t, node: n.node, service: n.service, c: newCChain(t, ctx, n.node), p: newPChain(t, ctx, n.node)}
	p := s.p.wallet
	validator := func(subnet ids.ID, nodeID ids.NodeID) {
		t.Helper()
		s.p.accepted(p.IssueAddSubnetValidatorTx(&txs.SubnetValidator{
			Validator: txs.Validator{NodeID: nodeID, End: uint64(time.Now().Add(30 * time.Minute).Unix()), Wght: 7}, Subnet: subnet,
		}))
	}
	// A subnet that stays one of its owners.
	permissioned := s.p.accepted(p.IssueCreateSubnetTx(s.p.owner))
	validator(permissioned, stakes.staying.nodeID)

	l := &l1{manager: cChainID, address: s.c.account.Bytes()}
	l.id = s.p.accepted(p.IssueCreateSubnetTx(s.p.owner))
	l.creationTx = s.p.accepted(p.IssueCreateChainTx(l.id, []byte("{}"), constants.SubnetEVMID, nil, "no node runs it"))
	validator(l.id, stakes.staying.nodeID)
	mine := message.PChainOwner{Threshold: 1, Addresses: s.p.owner.Addrs}
	both := message.PChainOwner{Threshold: 2, Addresses: sortedAddresses(n.keys[1].Address(), n.keys[2].Address())}
	kinds := make(map[ids.NodeID]string)
	for _, v := range []struct {
		kind                    string
		balance                 uint64
		remaining, deactivation message.PChainOwner
	}{
		{"active", units.Avax, mine, both},
		{"disabled", units.Avax, both, mine},
		{"removed", units.Avax, message.PChainOwner{}, message.PChainOwner{}},
		{"exhausted", 1, message.PChainOwner{}, mine},
	} {
		i := newIdentity(t)
		kinds[i.nodeID] = v.kind
		l.validators = append(l.validators, &txs.ConvertSubnetToL1Validator{
			NodeID: i.nodeID.Bytes(), Weight: 100, Balance: v.balance, Signer: *i.proof, RemainingBalanceOwner: v.remaining, DeactivationOwner: v.deactivation,
		})
	}
	l.conversionTx = s.p.accepted(p.IssueConvertSubnetToL1Tx(l.id, l.manager, l.address, l.validators))
	n.l1, n.validations = l, make(map[string]ids.ID)
	for i, v := range l.validators { // which the wallet has sorted
		nodeID, err := ids.ToNodeID(v.NodeID)
		require.NoError(t, err)
		n.validations[kinds[nodeID]] = l.id.Append(uint32(i))
	}

	// All orders in one block, for the C-Chain takes its time.
	joining := newIdentity(t)
	registration, err := message.NewRegisterL1Validator(l.id, joining.nodeID, joining.proof.PublicKey, uint64(time.Now().Add(time.Hour).Unix()), mine, both, 50)
	require.NoError(t, err)
	n.validations["registered"] = registration.ValidationID()
	change, err := message.NewL1ValidatorWeight(registration.ValidationID(), 3, 60)
	require.NoError(t, err)
	removal, err := message.NewL1ValidatorWeight(n.validations["removed"], 0, 0)
	require.NoError(t, err)
	s.p.awaitEpoch(ctx, 1) // a height of 0 would stand for the proposed one
	var orders [][]byte
	for _, order := range []message.Payload{registration, change, removal} {
		sent := s.c.sendByAccount(ctx, order.Bytes())
		m, _ := s.c.message(ctx, sent)
		orders = append(orders, s.signOrder(ctx, m, map[string]any{"verifyingBlockchainId": constants.PlatformChainID.String()}).Bytes())
	}
	s.p.accepted(p.IssueRegisterL1ValidatorTx(units.Avax, joining.proof.ProofOfPossession, orders[0]))
	s.p.accepted(p.IssueSetL1ValidatorWeightTx(orders[1]))
	s.p.accepted(p.IssueSetL1ValidatorWeightTx(orders[2]))
	s.p.accepted(p.IssueIncreaseL1ValidatorBalanceTx(registration.ValidationID(), units.MilliAvax))
	// The wallet asks the node who may disable a validator.
	knowing, err := primary.MakePWallet(ctx, n.node, secp256k1fx.NewKeychain(n.keys[0]), primary.WalletConfig{ValidationIDs: []ids.ID{n.validations["disabled"]}})
	require.NoError(t, err)
	s.p.accepted(knowing.IssueDisableL1ValidatorTx(n.validations["disabled"], walletcommon.WithContext(ctx), walletcommon.WithPollFrequency(20*time.Millisecond)))
}

// failingCalls are transactions of the C-Chain that fail in every way, beside one that
// succeeds although a call inside fails.
func (n *nodeAPI) failingCalls(ctx context.Context, t *testing.T) {
	t.Helper()
	w := newEVMWorld(t, ctx, n.node)
	w.tillAt, w.itemsAt = w.deploy(ctx, w.till), w.deploy(ctx, w.items)
	n.chain = w
	failed := []common.Hash{
		w.call(ctx, w.tillAt, w.till, 9, "payAndFail", w.wallets[1]),
		w.call(ctx, w.tillAt, w.till, 0, "fail"),
		w.issue(ctx, &types.DynamicFeeTx{ChainID: w.chainID, Nonce: w.nonce, GasTipCap: big.NewInt(1), GasFeeCap: w.price(ctx), Gas: 100_000, Data: []byte{0xfe}}),
	}
	w.issue(ctx, &types.LegacyTx{Nonce: w.nonce, GasPrice: w.price(ctx), Gas: 21_000, To: &w.wallets[1], Value: big.NewInt(1_000)})
	w.call(ctx, w.tillAt, w.till, 100, "pay", w.wallets[1])
	w.call(ctx, w.itemsAt, w.items, 0, "move", common.Address{}, w.wallets[1], big.NewInt(7), big.NewInt(100))
	w.call(ctx, w.itemsAt, w.items, 0, "moveBatch", common.Address{}, w.wallets[2], bigs(1, 2), bigs(10, 20))
	w.await(ctx, w.call(ctx, w.tillAt, w.till, 50, "attempt", w.wallets[2]))
	for _, hash := range failed {
		require.Equal(t, types.ReceiptStatusFailed, w.accepted(ctx, hash).Status)
	}
}

// evm compares the transactions and the calls inside them.
func (n *nodeAPI) evm(ctx context.Context, t *testing.T) {
	defer func(before testing.TB) { n.service.t = before }(n.service.t)
	n.service.t = t
	w := n.chain
	truth := readChain(t, ctx, w.cChain)
	n.service.awaitEVM(ctx, uint64(len(truth.blocks)-1))
	w.requireLatest(t, ctx, n.service, truth)
	w.requireInternals(t, ctx, n.service, truth, nil)
	w.requireTransfers(t, ctx, n.service, truth)
	n.compared["Data API"] += len(truth.receipts) + len(truth.internals) + len(w.movements(truth))
}

// l1s compares answers about the L1 and about the other subnets.
func (n *nodeAPI) l1s(ctx context.Context, t *testing.T) {
	const path = "/ext/bc/P"
	compare := func(how alike, method, params string) {
		t.Helper()
		n.same(ctx, t, how, path, "platform."+method, params)
	}
	validators := alike{sets: []string{"validators"}}
	var current struct {
		Validators []struct{ ValidationID, NodeID, TxID, Balance string }
	}
	n.result(ctx, t, path, "platform.getCurrentValidators", `{"subnetID":"`+n.l1.id.String()+`"}`, &current)
	require.Len(t, current.Validators, 5, "one of the time before, three of four of the conversion, and the one that was registered")
	inactive, before := 0, 0
	for _, v := range current.Validators {
		if v.TxID != "" {
			before++
		} else if v.Balance == "0" {
			inactive++
		}
		compare(validators, "getCurrentValidators", `{"subnetID":"`+n.l1.id.String()+`","nodeIDs":["`+v.NodeID+`"]}`)
	}
	require.Equal(t, []int{1, 2}, []int{before, inactive}, "validators of the time before, and without a balance")
	subnets := []string{n.l1.id.String(), constants.PrimaryNetworkID.String()}
	for kind, id := range n.validations {
		var v struct{ SubnetID string }
		err := localnet.Call(ctx, n.node, path, "platform.getL1Validator", map[string]any{"validationID": id}, &v)
		if kind == "removed" {
			require.Error(t, err)
		} else {
			require.NoError(t, err)
			require.Equal(t, n.l1.id.String(), v.SubnetID)
		}
		compare(alike{}, "getL1Validator", `{"validationID":"`+id.String()+`"}`)
	}
	var listed struct{ Subnets []struct{ ID string } }
	n.result(ctx, t, path, "platform.getSubnets", "{}", &listed)
	for _, subnet := range listed.Subnets {
		if subnet.ID != constants.PrimaryNetworkID.String() && subnet.ID != n.l1.id.String() {
			subnets = append(subnets, subnet.ID)
		}
	}
	require.Len(t, subnets, 6)
	var tip struct{ Height json.Number }
	n.result(ctx, t, path, "platform.getHeight", "{}", &tip)
	last, err := tip.Height.Int64()
	require.NoError(t, err)
	for _, subnet := range subnets {
		compare(alike{}, "getSubnet", `{"subnetID":"`+subnet+`"}`)
		compare(alike{}, "getSubnets", `{"ids":["`+subnet+`"]}`)
		compare(alike{}, "validates", `{"subnetID":"`+subnet+`"}`)
		compare(alike{}, "getTotalStake", `{"subnetID":"`+subnet+`"}`)
		compare(alike{sets: []string{"validators"}, loose: []string{"uptime", "connected"}}, "getCurrentValidators", `{"subnetID":"`+subnet+`"}`)
		for h := int64(0); h <= last; h += 3 {
			compare(alike{}, "getValidatorsAt", `{"subnetID":"`+subnet+`","height":`+fmt.Sprint(h)+`}`)
		}
		compare(alike{}, "getValidatorsAt", `{"subnetID":"`+subnet+`","height":"proposed"}`)
		compare(alike{shape: true}, "sampleValidators", `{"subnetID":"`+subnet+`","size":1}`)
	}
	for h := int64(0); h <= last; h++ {
		compare(alike{sets: []string{"validators"}}, "getAllValidatorsAt", `{"height":"`+fmt.Sprint(h)+`"}`)
	}
	compare(alike{}, "getBlockchainStatus", `{"blockchainID":"`+n.l1.creationTx.String()+`"}`)
	compare(alike{}, "validatedBy", `{"blockchainID":"`+n.l1.creationTx.String()+`"}`)
}

// rewards compares what came of stakes that have ended.
func (n *nodeAPI) rewards(ctx context.Context, t *testing.T, s *shortStakes) {
	const path = "/ext/bc/P"
	// A node lists what it has read from its disk newest first, what it has in memory in
	// the order of the outputs.
	how := alike{sets: []string{"utxos"}}
	for i, group := range [][]ids.ID{s.rewarded, s.unrewarded} {
		for _, tx := range group {
			var paid struct{ NumFetched string }
			n.result(ctx, t, path, "platform.getRewardUTXOs", `{"txID":"`+tx.String()+`"}`, &paid)
			require.Equal(t, i == 1, paid.NumFetched == "0", "%s was paid %s rewards", tx, paid.NumFetched)
			for _, encoding := range encodings {
				n.same(ctx, t, how, path, "platform.getRewardUTXOs", `{"txID":"`+tx.String()+`"`+encoding+`}`)
			}
		}
	}
	var current struct {
		Validators []struct{ AccruedDelegateeReward string }
	}
	params := `{"nodeIDs":["` + s.staying.nodeID.String() + `"]}`
	n.result(ctx, t, path, "platform.getCurrentValidators", params, &current)
	require.Len(t, current.Validators, 1)
	require.NotContains(t, []string{"", "0"}, current.Validators[0].AccruedDelegateeReward, "of the delegation that has ended")
	n.same(ctx, t, alike{loose: []string{"uptime", "connected"}}, path, "platform.getCurrentValidators", params)
	n.same(ctx, t, alike{}, path, "platform.getCurrentSupply", "{}")
}
