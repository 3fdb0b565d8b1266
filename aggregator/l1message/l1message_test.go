package l1message

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/proto/pb/platformvm"
	"github.com/ava-labs/avalanchego/utils/constants"
	"github.com/ava-labs/avalanchego/utils/hashing"
	"github.com/ava-labs/avalanchego/vms/components/avax"
	"github.com/ava-labs/avalanchego/vms/platformvm/status"
	"github.com/ava-labs/avalanchego/vms/platformvm/txs"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp/message"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp/payload"
	"github.com/ava-labs/avalanchego/vms/secp256k1fx"

	"quorate/aggregator"
	"quorate/internal/chain/pchain/pchaintest"
	"quorate/internal/node"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// said is a message of the P-Chain as avalanchego's constructors make it.
func said(t testing.TB, p message.Payload, err error) *warp.UnsignedMessage {
	t.Helper()
	require.NoError(t, err)
	call, err := payload.NewAddressedCall(nil, p.Bytes())
	require.NoError(t, err)
	m, err := warp.NewUnsignedMessage(networkID, constants.PlatformChainID, call.Bytes())
	require.NoError(t, err)
	return m
}

func saidRegistered(t testing.TB, validationID ids.ID, registered bool) *warp.UnsignedMessage {
	m, err := message.NewL1ValidatorRegistration(validationID, registered)
	return said(t, m, err)
}

func saidWeight(t testing.TB, validationID ids.ID, nonce, weight uint64) *warp.UnsignedMessage {
	m, err := message.NewL1ValidatorWeight(validationID, nonce, weight)
	return said(t, m, err)
}

// requireRequest derives the message of a transaction, with a record and without
// one, and checks it and that validators sign it.
func (w *world) requireRequest(t testing.TB, txID ids.ID, want *warp.UnsignedMessage) {
	t.Helper()
	for _, withRecord := range []bool{true, false} {
		w.requireFrom(t, w.deriver(withRecord), txID, want)
	}
}

func (w *world) requireFrom(t testing.TB, d *Deriver, txID ids.ID, want *warp.UnsignedMessage) aggregator.Request {
	t.Helper()
	req, err := d.Request(t.Context(), txID)
	require.NoError(t, err)
	require.Equal(t, hex.EncodeToString(want.Bytes()), hex.EncodeToString(req.Message.Bytes()))
	require.Equal(t, managerSubnet, *req.SigningSubnetID)
	require.Equal(t, managerChain, *req.VerifyingBlockchainID)
	require.Zero(t, req.PChainHeight)
	require.Zero(t, req.QuorumPercentage, "the default")
	require.NoError(t, w.vouch(req), "justification %x", req.Justification)
	return req
}

// requireRefusal checks that nothing follows from a transaction, with a record and
// without one.
func (w *world) requireRefusal(t testing.TB, txID ids.ID, code aggregator.Code, parts ...string) {
	t.Helper()
	for _, withRecord := range []bool{true, false} {
		requireRefused(t, w.deriver(withRecord), txID, code, parts...)
	}
}

func requireRefused(t testing.TB, d *Deriver, txID ids.ID, code aggregator.Code, parts ...string) {
	t.Helper()
	_, err := d.Request(t.Context(), txID)
	var known *aggregator.Error
	require.ErrorAs(t, err, &known)
	require.Equal(t, code, known.Code, known.Message)
	for _, part := range parts {
		require.Contains(t, known.Message, part)
	}
	require.Less(t, len(known.Message), 600)
}

func TestMessagesOfTransactions(t *testing.T) {
	w := newWorld(t)
	conversion := w.convert(3)
	registration, order := w.register(1)
	initial, registeredID := subnetID.Append(2), order.ValidationID()

	t.Run("a conversion", func(t *testing.T) {
		data := message.SubnetToL1ConversionData{SubnetID: subnetID, ManagerChainID: managerChain, ManagerAddress: address}
		for _, v := range w.txs[conversion].Unsigned.(*txs.ConvertSubnetToL1Tx).Validators {
			data.Validators = append(data.Validators, message.SubnetToL1ConversionValidatorData{NodeID: v.NodeID, BLSPublicKey: v.Signer.PublicKey, Weight: v.Weight})
		}
		id, err := message.SubnetToL1ConversionID(data)
		require.NoError(t, err)
		m, err := message.NewSubnetToL1Conversion(id)
		w.requireRequest(t, conversion, said(t, m, err))
		req, err := w.deriver(true).Request(t.Context(), conversion)
		require.NoError(t, err)
		require.Equal(t, subnetID[:], req.Justification, "the bare ID")
	})
	t.Run("a registration", func(t *testing.T) {
		w.requireRequest(t, registration, saidRegistered(t, registeredID, true))
		req, err := w.deriver(true).Request(t.Context(), registration)
		require.NoError(t, err)
		require.Empty(t, req.Justification)
	})
	first := w.setWeight(registeredID, 0, 30)
	t.Run("a weight", func(t *testing.T) {
		w.requireRequest(t, first, saidWeight(t, registeredID, 0, 30))
		w.requireRequest(t, registration, saidRegistered(t, registeredID, true))
	})
	second := w.setWeight(registeredID, 7, 40)
	t.Run("a superseded weight", func(t *testing.T) {
		w.requireRequest(t, second, saidWeight(t, registeredID, 7, 40))
		requireRefused(t, w.deriver(true), first, CodeSuperseded, second.String(), "weight 40", "nonce 7", "weight 30 (nonce 0)")
		requireRefused(t, w.deriver(false), first, CodeSuperseded, "weight 40", "nonce 7")
	})
	initialWeight := w.setWeight(initial, 0, 50)
	t.Run("a weight of a validator of the conversion", func(t *testing.T) {
		w.requireRequest(t, initialWeight, saidWeight(t, initial, 0, 50))
	})
	removal := w.setWeight(registeredID, 8, 0)
	t.Run("a removal", func(t *testing.T) {
		want := saidRegistered(t, registeredID, false)
		w.requireRequest(t, removal, want)
		w.requireRequest(t, registration, want)
		req, err := w.deriver(true).Request(t.Context(), removal)
		require.NoError(t, err)
		var proof platformvm.L1ValidatorRegistrationJustification
		require.NoError(t, proto.Unmarshal(req.Justification, &proof))
		require.Equal(t, order.Bytes(), proof.GetRegisterL1ValidatorMessage())
		requireRefused(t, w.deriver(true), second, CodeSuperseded, removal.String(), "removed")
		requireRefused(t, w.deriver(true), first, CodeSuperseded, removal.String(), "removed")
		requireRefused(t, w.deriver(false), first, CodeSuperseded, "removed")
	})
	initialRemoval := w.setWeight(initial, 1, 0)
	t.Run("a removal of a validator of the conversion", func(t *testing.T) {
		w.requireRequest(t, initialRemoval, saidRegistered(t, initial, false))
		requireRefused(t, w.deriver(true), initialWeight, CodeSuperseded, initialRemoval.String())
	})
}

// The layout of the messages, byte by byte: the constructors must produce the same.
func TestMessageLayout(t *testing.T) {
	u16, u32, u64 := binary.BigEndian.AppendUint16, binary.BigEndian.AppendUint32, binary.BigEndian.AppendUint64
	around := func(kind uint32, body []byte) []byte {
		inner := append(u32(u16(nil, 0), kind), body...)
		call := u32(u32(u16(nil, 0), 1), 0) // an addressed call from nowhere
		call = append(u32(call, uint32(len(inner))), inner...)
		m := append(u32(u16(nil, 0), networkID), make([]byte, 32)...)
		return append(u32(m, uint32(len(call))), call...)
	}
	w := newWorld(t)
	conversionTx := w.convert(2)
	registrationTx, order := w.register(1)
	id := order.ValidationID()
	weightTx := w.setWeight(id, 2, 1<<63+1)
	request := func(txID ids.ID) []byte {
		req, err := w.deriver(true).Request(t.Context(), txID)
		require.NoError(t, err)
		return req.Message.Bytes()
	}
	data := append(u16(nil, 0), subnetID[:]...)
	data = append(data, managerChain[:]...)
	data = append(u32(data, uint32(len(address))), address...)
	vdrs := w.txs[conversionTx].Unsigned.(*txs.ConvertSubnetToL1Tx).Validators
	data = u32(data, uint32(len(vdrs)))
	for _, v := range vdrs {
		data = append(u32(data, 20), v.NodeID...)
		data = u64(append(data, v.Signer.PublicKey[:]...), v.Weight)
	}
	require.Equal(t, around(0, hashing.ComputeHash256(data)), request(conversionTx), "conversion")
	require.Equal(t, around(3, u64(u64(slices.Clone(id[:]), 2), 1<<63+1)), request(weightTx), "weight")
	require.Equal(t, around(2, append(slices.Clone(id[:]), 1)), request(registrationTx), "registration")
	removalTx := w.setWeight(id, 3, 0)
	require.Equal(t, around(2, append(slices.Clone(id[:]), 0)), request(removalTx), "removal")
}

// other has a transaction of any kind accepted.
func (w *world) other(tx txs.UnsignedTx) ids.ID {
	signed := &txs.Tx{Unsigned: tx}
	require.NoError(w.t, signed.Initialize(txs.Codec))
	return w.accept(signed)
}

func TestTransactionsWithoutAMessage(t *testing.T) {
	w := newWorld(t)
	base := txs.BaseTx{BaseTx: avax.BaseTx{NetworkID: networkID}}
	unknownID, undecided, crossed := ids.GenerateTestID(), ids.GenerateTestID(), ids.GenerateTestID()
	w.statuses[undecided] = node.TxStatus{Status: status.Processing}
	w.xChain[crossed] = true
	w.requireRefusal(t, unknownID, CodeUnknownTransaction, "txHash", unknownID.String(), "X-Chain")
	w.requireRefusal(t, ids.Empty, CodeUnknownTransaction)
	w.requireRefusal(t, undecided, CodeProcessing, undecided.String(), "ask again")
	w.requireRefusal(t, crossed, CodeXChain, "X-Chain transaction")
	for part, tx := range map[string]txs.UnsignedTx{
		"IncreaseL1ValidatorBalanceTx: it adds": &txs.IncreaseL1ValidatorBalanceTx{BaseTx: base},
		"DisableL1ValidatorTx: it deactivates":  &txs.DisableL1ValidatorTx{BaseTx: base, DisableAuth: &secp256k1fx.Input{}},
		"a BaseTx":                              &base,
		"a RewardValidatorTx":                   &txs.RewardValidatorTx{},
	} {
		w.requireRefusal(t, w.other(tx), CodeNoMessage, part)
	}
}

func TestWhoSigns(t *testing.T) {
	for name, test := range map[string]struct {
		manager ids.ID
		change  func(*world)
		subnet  ids.ID
		epoch   bool
		code    aggregator.Code
	}{
		"the manager's own subnet":                   {manager: managerChain, subnet: managerSubnet, epoch: true},
		"the primary network for the C-Chain":        {manager: ids.ID{'x'}, subnet: constants.PrimaryNetworkID, epoch: true},
		"at the proposed height without an epoch":    {manager: managerChain, change: func(w *world) { delete(w.epochs, managerChain) }, subnet: managerSubnet},
		"at the proposed height if the node refuses": {manager: managerChain, change: func(w *world) { w.fail["EpochHeight"] = &node.RPCError{Code: -32000} }, subnet: managerSubnet},
		"an epoch out of reach is not ignored":       {manager: managerChain, change: func(w *world) { w.fail["EpochHeight"] = node.ErrUnavailable }, subnet: managerSubnet, epoch: true},
		"unknown blockchain":                         {manager: ids.ID{'?'}, code: aggregator.CodeUnknownBlockchain},
		"the node is away":                           {manager: managerChain, change: func(w *world) { w.fail["SubnetOf"] = node.ErrUnavailable }, code: aggregator.CodeNodeUnavailable},
		"the node is wrong":                          {manager: managerChain, change: func(w *world) { w.fail["SubnetOf"] = node.ErrMalformed }, code: aggregator.CodeNodeFaulty},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			txID := w.accept(w.chain.Convert(subnetID, test.manager, address, 2))
			if test.change != nil {
				test.change(w)
			}
			if test.code != "" {
				w.requireRefusal(t, txID, test.code)
				return
			}
			for _, withRecord := range []bool{true, false} {
				req, err := w.deriver(withRecord).Request(t.Context(), txID)
				require.NoError(t, err)
				require.Equal(t, test.subnet, *req.SigningSubnetID)
				if test.epoch {
					require.NotNil(t, req.VerifyingBlockchainID)
					require.Equal(t, test.manager, *req.VerifyingBlockchainID)
				} else {
					require.Nil(t, req.VerifyingBlockchainID)
				}
			}
		})
	}
}

// TestEpochLookupTimesOut: the lookup of the epoch times out. The message is signed at the proposed height.
func TestEpochLookupTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		txID := w.accept(w.chain.Convert(subnetID, managerChain, address, 2))
		w.noEpoch = true
		ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
		defer cancel()
		began := time.Now()
		req, err := w.deriver(true).Request(ctx, txID)
		require.NoError(t, err)
		require.Equal(t, epochTimeout, time.Since(began))
		require.Equal(t, managerSubnet, *req.SigningSubnetID)
		require.Nil(t, req.VerifyingBlockchainID)
	})
}

func TestRecordSavesCalls(t *testing.T) {
	w := newWorld(t)
	conversion := w.convert(2)
	registration, order := w.register(1)
	removal := w.setWeight(subnetID.Append(0), 0, 0)
	change := w.setWeight(order.ValidationID(), 0, 9)
	for txID, want := range map[ids.ID]int{conversion: 0, registration: 1, removal: 0, change: 1} {
		clear(w.calls)
		_, err := w.deriver(true).Request(t.Context(), txID)
		require.NoError(t, err)
		require.Equal(t, want, w.calls["L1Validator"], "%v", w.calls)
		for _, method := range []string{"TxStatus", "Tx", "HasXChainTx", "Height", "BlockByHeight"} {
			require.Zero(t, w.calls[method], method)
		}
	}
}

// The index began after the conversion and the registration.
func TestRecordThatBeginsLater(t *testing.T) {
	w := newWorld(t)
	w.recording = false
	w.convert(2)
	_, early := w.register(1)
	w.recording = true
	late, order := w.register(2)
	change := w.setWeight(early.ValidationID(), 0, 9)
	gone := w.setWeight(order.ValidationID(), 0, 0)
	d := w.deriver(true)
	w.requireFrom(t, d, late, saidRegistered(t, order.ValidationID(), false))
	w.requireFrom(t, d, gone, saidRegistered(t, order.ValidationID(), false))
	w.requireFrom(t, d, change, saidWeight(t, early.ValidationID(), 0, 9))
	removal := w.setWeight(early.ValidationID(), 1, 0)
	requireRefused(t, d, removal, CodeRegistrationNotFound, early.ValidationID().String(), "begins later", "POST")
	require.Empty(t, w.heights, "what the record has seen is not searched")
	requireRefused(t, d, change, CodeSuperseded, "removed")
}

// A node lags behind the index. What accepted blocks superseded or removed stays so, whatever the node
// reports: earlier signatures of it must not be returned again.
func TestNodeThatLagsBehindTheRecord(t *testing.T) {
	w := newWorld(t)
	w.convert(1)
	registration, order := w.register(1)
	id := order.ValidationID()
	change := w.setWeight(id, 0, 9)
	d := w.deriver(true)
	w.requireFrom(t, d, change, saidWeight(t, id, 0, 9))
	before := *w.validators[id]

	newer := w.setWeight(id, 1, 10)
	w.validators[id] = &before
	requireRefused(t, d, change, CodeSuperseded, newer.String(), "weight 10")

	w.validators[id] = &node.L1Validator{Weight: 10, MinNonce: 2}
	removal := w.setWeight(id, 2, 0)
	w.validators[id] = &before
	requireRefused(t, d, change, CodeSuperseded, removal.String(), "removed")
	delete(w.validators, id) // for the validators, who are at the tip
	want := saidRegistered(t, id, false)
	w.requireFrom(t, d, removal, want)
	w.validators[id] = &before
	req, err := d.Request(t.Context(), registration)
	require.NoError(t, err)
	require.Equal(t, want.Bytes(), req.Message.Bytes(), "got a message that the validator is registered")
}

// A node that has not applied a registration does not know the validator. That does not mean that it
// was removed.
func TestNodeThatHasNotAppliedTheRegistration(t *testing.T) {
	w := newWorld(t)
	w.convert(1)
	registration, order := w.register(1)
	id := order.ValidationID()
	applied := w.validators[id]
	d := w.deriver(true)
	for _, event := range []string{"registration", "change"} {
		txID := registration
		if event == "change" {
			txID = w.setWeight(id, 0, 9)
		}
		w.lag = 1
		delete(w.validators, id)
		requireRefused(t, d, txID, CodeProcessing, "not applied")
		w.lag = 0
		w.validators[id] = applied
	}
	delete(w.validators, id) // removed in a block that the record lacks
	w.requireFrom(t, d, registration, saidRegistered(t, id, false))
}

// The index lags: the blocks that it lacks are searched.
func TestRecordThatLagsBehind(t *testing.T) {
	w := newWorld(t)
	w.convert(2)
	w.pass(10)
	reached := w.next
	w.recording = false
	w.pass(3)
	registration, order := w.register(1)
	w.pass(100)
	change := w.setWeight(order.ValidationID(), 0, 9)
	d := w.deriver(true)
	w.requireFrom(t, d, registration, saidRegistered(t, order.ValidationID(), true))
	w.requireFrom(t, d, change, saidWeight(t, order.ValidationID(), 0, 9))
	removal := w.setWeight(order.ValidationID(), 1, 0)
	w.requireFrom(t, d, removal, saidRegistered(t, order.ValidationID(), false))
	require.GreaterOrEqual(t, w.asked()[0], reached)
	requireRefused(t, d, change, CodeSuperseded, "removed")
	// No indexed change is newer than the requested one.
	early := w.setWeight(subnetID.Append(0), 0, 9)
	w.recording = true
	w.setWeight(subnetID.Append(1), 0, 9)
	onRecord := w.setWeight(subnetID.Append(1), 1, 10)
	w.recording = false
	between := w.setWeight(subnetID.Append(1), 2, 11)
	w.setWeight(subnetID.Append(1), 3, 12)
	w.setWeight(subnetID.Append(0), 1, 10)
	for _, txID := range []ids.ID{early, onRecord, between} {
		requireRefused(t, d, txID, CodeSuperseded, "by one to weight")
	}
	w.next = reached
	// Too far behind for a search.
	d.searchBlocks = 50
	requireRefused(t, d, removal, CodeNotIndexed, "catching up", "ask again")
	_, err := d.Request(t.Context(), removal)
	var failed *aggregator.Error
	require.ErrorAs(t, err, &failed)
	require.Equal(t, 5*time.Second, failed.RetryAfter)
}

func TestSearch(t *testing.T) {
	const passed = 200
	story := func(t *testing.T) (w *world, removal ids.ID, order *message.RegisterL1Validator) {
		w = newWorld(t)
		w.convert(2)
		w.pass(3)
		_, order = w.register(1)
		w.pass(passed)
		return w, w.setWeight(order.ValidationID(), 0, 0), order
	}
	t.Run("finds the registration and goes no further than needed", func(t *testing.T) {
		w, removal, order := story(t)
		w.requireFrom(t, w.deriver(false), removal, saidRegistered(t, order.ValidationID(), false))
		require.LessOrEqual(t, len(w.asked()), passed+1+stride)
		require.Equal(t, slices.Compact(w.asked()), w.asked(), "no block twice")
		require.LessOrEqual(t, w.most, searchers)
	})
	t.Run("the end of its reach", func(t *testing.T) {
		for reach, found := range map[uint64]bool{passed + 2: true, passed + 1: false, 1: false} {
			w, removal, order := story(t)
			d := w.deriver(false)
			d.searchBlocks = reach
			if found {
				w.requireFrom(t, d, removal, saidRegistered(t, order.ValidationID(), false))
			} else {
				requireRefused(t, d, removal, CodeRegistrationNotFound, order.ValidationID().String(), "POST")
			}
			require.Len(t, w.asked(), int(reach))
		}
	})
	t.Run("down to the genesis block", func(t *testing.T) {
		w := newWorld(t)
		w.convert(1)
		order := pchaintest.Registration(subnetID, ids.NodeID{1}, 1)
		w.validators[order.ValidationID()] = &node.L1Validator{} // from nowhere
		removal := w.setWeight(order.ValidationID(), 0, 0)
		requireRefused(t, w.deriver(false), removal, CodeRegistrationNotFound, "newest 3 blocks, down to height 0")
		require.Equal(t, []uint64{0, 1, 2}, w.asked())
	})
	t.Run("not at all for an L1 that runs its own manager", func(t *testing.T) {
		w := newWorld(t)
		w.subnets[managerChain] = subnetID
		w.convert(200)
		removal := w.setWeight(subnetID.Append(150), 0, 0)
		for _, withRecord := range []bool{false, true} {
			req, err := w.deriver(withRecord).Request(t.Context(), removal)
			require.NoError(t, err)
			require.NoError(t, w.vouch(req))
			require.Equal(t, subnetID, *req.SigningSubnetID)
			require.Empty(t, w.heights)
			clear(w.validations) // for a record that began after the conversion
		}
	})
	t.Run("a node that fails", func(t *testing.T) {
		w, removal, _ := story(t)
		w.fail["BlockByHeight"] = node.ErrUnavailable
		requireRefused(t, w.deriver(false), removal, aggregator.CodeNodeUnavailable)
		w.fail["BlockByHeight"] = node.ErrBeyondTip
		w.chain.Blocks[100].Bare = []byte("garbage")
		w.fail["BlockByHeight"] = nil
		requireRefused(t, w.deriver(false), removal, aggregator.CodeNodeFaulty)
		w.fail["Height"] = node.ErrUnavailable
		requireRefused(t, w.deriver(false), removal, aggregator.CodeNodeUnavailable)
	})
	t.Run("one at a time, and given up with the caller", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w, removal, _ := story(t)
			w.slow = time.Second
			d := w.deriver(false)
			done := make(chan error, 3)
			for range 2 {
				go func() {
					_, err := d.Request(t.Context(), removal)
					done <- err
				}()
			}
			synctest.Wait()
			require.LessOrEqual(t, w.most, searchers)
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			_, err := d.Request(ctx, removal) // waits in the queue
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.NoError(t, <-done)
			require.NoError(t, <-done)
			ctx, cancel = context.WithTimeout(t.Context(), 1500*time.Millisecond)
			defer cancel()
			_, err = d.Request(ctx, removal) // is under way
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.LessOrEqual(t, w.most, searchers)
		})
	})
}

func TestFaultsOfNodeAndRecord(t *testing.T) {
	story := func(t *testing.T) (w *world, registration, change ids.ID) {
		w = newWorld(t)
		w.convert(2)
		registration, order := w.register(1)
		return w, registration, w.setWeight(order.ValidationID(), 1, 9)
	}
	t.Run("a node that is away or wrong", func(t *testing.T) {
		for _, method := range []string{"TxStatus", "Tx", "L1Validator"} {
			for err, code := range map[error]aggregator.Code{
				node.ErrUnavailable: aggregator.CodeNodeUnavailable,
				node.ErrMalformed:   aggregator.CodeNodeFaulty,
				errNotFound:         aggregator.CodeNodeFaulty,
			} {
				if method == "Tx" && errors.Is(err, errNotFound) {
					code = CodeProcessing // another node than the one that had accepted it
				}
				w, registration, change := story(t)
				w.fail[method] = err
				requireRefused(t, w.deriver(false), registration, code)
				requireRefused(t, w.deriver(false), change, code)
			}
		}
		w, _, _ := story(t)
		w.fail["HasXChainTx"] = node.ErrUnavailable
		w.requireRefusal(t, ids.GenerateTestID(), aggregator.CodeNodeUnavailable)
	})
	t.Run("another transaction than was asked for", func(t *testing.T) {
		w, registration, change := story(t)
		w.txs[change] = w.txs[registration]
		requireRefused(t, w.deriver(false), change, aggregator.CodeNodeFaulty)
	})
	t.Run("a node that is behind the one that accepted", func(t *testing.T) {
		w, _, change := story(t)
		for _, v := range w.validators {
			v.MinNonce = 0
		}
		w.requireRefusal(t, change, CodeProcessing, "not applied")
	})
	t.Run("a node that contradicts itself", func(t *testing.T) {
		w, _, change := story(t)
		for _, v := range w.validators {
			v.Weight = 1000
		}
		w.requireRefusal(t, change, aggregator.CodeNodeFaulty)
	})
	t.Run("a record that fails is no empty record", func(t *testing.T) {
		broken := errors.New("disk")
		w, registration, change := story(t)
		removal := w.setWeight(subnetID.Append(1), 0, 0)
		for method, txID := range map[string]ids.ID{"Transaction": registration, "Conversion": registration, "Validation": removal} {
			clear(w.fail)
			w.fail[method] = broken
			_, err := w.deriver(true).Request(t.Context(), txID)
			require.ErrorIs(t, err, broken, method)
		}
		clear(w.fail)
		w.fail["Validation"] = broken
		_, err := w.deriver(true).Request(t.Context(), change)
		require.ErrorIs(t, err, broken)
		clear(w.fail)
		w.fail["RecordHeight"] = broken
		delete(w.validations, subnetID.Append(1))
		_, err = w.deriver(true).Request(t.Context(), removal)
		require.ErrorIs(t, err, broken)
	})
	t.Run("a caller who left", func(t *testing.T) {
		w, registration, _ := story(t)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		w.fail["TxStatus"] = context.Canceled
		_, err := w.deriver(false).Request(ctx, registration)
		require.ErrorIs(t, err, context.Canceled)
	})
}

func TestSigning(t *testing.T) {
	refused := &aggregator.Error{Code: aggregator.CodeRefused, Message: "refused"}
	story := func(t *testing.T) (w *world, id, registration, change ids.ID) {
		w = newWorld(t)
		w.convert(2)
		registration, order := w.register(1)
		return w, order.ValidationID(), registration, w.setWeight(order.ValidationID(), 1, 9)
	}
	t.Run("goes to the aggregator", func(t *testing.T) {
		w, _, registration, change := story(t)
		for _, txID := range []ids.ID{registration, change} {
			result, err := w.deriver(true).Sign(t.Context(), txID, nil)
			require.NoError(t, err)
			require.Equal(t, managerSubnet, result.SigningSubnetID)
		}
		require.Equal(t, 2, w.calls["Sign"])
	})
	t.Run("with another quorum, each time", func(t *testing.T) {
		w, id, registration, _ := story(t)
		var quorums []uint64
		w.onSign = func(req aggregator.Request) error {
			if quorums = append(quorums, req.QuorumPercentage); len(quorums) == 1 {
				w.setWeight(id, 2, 0)
			}
			return nil
		}
		_, err := w.deriver(true).Sign(t.Context(), registration, func(req *aggregator.Request) { req.QuorumPercentage += 80 })
		require.NoError(t, err)
		require.Equal(t, []uint64{80, 80}, quorums)
	})
	t.Run("not without a message", func(t *testing.T) {
		w, _, _, _ := story(t)
		_, err := w.deriver(true).Sign(t.Context(), ids.GenerateTestID(), nil)
		require.Error(t, err)
		require.Zero(t, w.calls["Sign"])
	})
	t.Run("superseded while validators were asked", func(t *testing.T) {
		w, id, _, change := story(t)
		var newer ids.ID
		w.onSign = func(aggregator.Request) error {
			newer = w.setWeight(id, 2, 10)
			return nil
		}
		_, err := w.deriver(true).Sign(t.Context(), change, nil)
		var known *aggregator.Error
		require.ErrorAs(t, err, &known)
		require.Equal(t, CodeSuperseded, known.Code)
		require.Contains(t, known.Message, newer.String())
		require.Equal(t, 1, w.calls["Sign"])
	})
	t.Run("removed while validators were asked", func(t *testing.T) {
		w, id, registration, _ := story(t)
		var signed []aggregator.Request
		w.onSign = func(req aggregator.Request) error {
			if signed = append(signed, req); len(signed) == 1 {
				w.setWeight(id, 2, 0)
			}
			return nil
		}
		_, err := w.deriver(true).Sign(t.Context(), registration, nil)
		require.NoError(t, err)
		require.Len(t, signed, 2)
		require.Equal(t, saidRegistered(t, id, false).Bytes(), signed[1].Message.Bytes())
	})
	t.Run("a refusal stands if nothing has changed", func(t *testing.T) {
		w, _, registration, _ := story(t)
		w.fail["Sign"] = refused
		_, err := w.deriver(true).Sign(t.Context(), registration, nil)
		require.ErrorIs(t, err, refused)
		require.Equal(t, 1, w.calls["Sign"])
	})
	t.Run("a refusal stands if the node is gone", func(t *testing.T) {
		w, _, registration, _ := story(t)
		w.onSign = func(aggregator.Request) error {
			w.fail["L1Validator"] = node.ErrUnavailable
			return refused
		}
		_, err := w.deriver(true).Sign(t.Context(), registration, nil)
		require.ErrorIs(t, err, refused)
	})
	t.Run("other failures stand", func(t *testing.T) {
		w, _, registration, _ := story(t)
		w.fail["Sign"] = &aggregator.Error{Code: aggregator.CodeNodeUnavailable}
		clear(w.calls)
		_, err := w.deriver(true).Sign(t.Context(), registration, nil)
		require.ErrorIs(t, err, w.fail["Sign"])
		require.Equal(t, 1, w.calls["Transaction"], "derived once")
	})
	t.Run("not for ever", func(t *testing.T) {
		w, id, registration, _ := story(t)
		v := w.validators[id]
		w.onSign = func(aggregator.Request) error { // it comes and goes
			w.mu.Lock()
			defer w.mu.Unlock()
			if _, ok := w.validators[id]; ok {
				delete(w.validators, id)
			} else {
				w.validators[id] = v
			}
			return nil
		}
		_, err := w.deriver(true).Sign(t.Context(), registration, nil)
		require.Error(t, err)
		require.Equal(t, maxDerivations, w.calls["Sign"])
	})
}

// Whatever bytes a node returns for a transaction or a block, the result is a message that the bytes
// justify, or an error.
func FuzzBytesOfANode(f *testing.F) {
	seed := newWorld(f)
	seed.convert(2)
	_, order := seed.register(1)
	seed.setWeight(order.ValidationID(), 1, 9)
	seed.setWeight(order.ValidationID(), 2, 0)
	for _, tx := range seed.txs {
		f.Add(tx.Bytes())
	}
	for _, b := range seed.chain.Blocks {
		f.Add(b.Bare)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		txID := ids.ID(hashing.ComputeHash256Array(raw))
		tx, err := (&Deriver{node: (*bytesOnly)(&raw)}).fetch(t.Context(), txID)
		var failed *aggregator.Error
		if err != nil && !errors.As(err, &failed) {
			t.Errorf("got error %v, want an *aggregator.Error", err)
		}
		if err == nil && (tx.event == nil || tx.manager == nil) {
			t.Errorf("got %+v, want an event and a manager", tx)
		}
		proof, err := proofIn(raw, order.ValidationID())
		if err != nil || proof == nil {
			return
		}
		r, err := message.ParseRegisterL1Validator(proof.GetRegisterL1ValidatorMessage())
		if err != nil || r.ValidationID() != order.ValidationID() {
			t.Errorf("got proof %v, want the registration of %s", proof, order.ValidationID())
		}
	})
}

// bytesOnly is a node that answers with these.
type bytesOnly []byte

func (b *bytesOnly) Tx(context.Context, ids.ID) ([]byte, error) { return *b, nil }
func (b *bytesOnly) TxStatus(context.Context, ids.ID) (node.TxStatus, error) {
	return node.TxStatus{Status: status.Committed}, nil
}
func (b *bytesOnly) HasXChainTx(context.Context, ids.ID) (bool, error) { return false, nil }
func (b *bytesOnly) L1Validator(context.Context, ids.ID) (*node.L1Validator, error) {
	return nil, nil
}
func (b *bytesOnly) Height(context.Context) (uint64, error)                { return 0, nil }
func (b *bytesOnly) BlockByHeight(context.Context, uint64) ([]byte, error) { return *b, nil }

// An unknown transaction is requested from the node once a second, and found soon after it is
// accepted.
func TestUnknownTransactionIsCachedBriefly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		d := w.deriver(false)
		txID := ids.GenerateTestID()
		for range 100 {
			requireRefused(t, d, txID, CodeUnknownTransaction)
		}
		require.Equal(t, 1, w.calls["TxStatus"])
		require.Equal(t, 1, w.calls["HasXChainTx"])
		w.statuses[txID] = node.TxStatus{Status: status.Processing}
		time.Sleep(unknownLife)
		requireRefused(t, d, txID, CodeProcessing)
		w.statuses[txID] = node.TxStatus{Status: status.Dropped}
		requireRefused(t, d, txID, CodeDropped)
	})
}
