package l1message

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/proto/pb/platformvm"
	"github.com/ava-labs/avalanchego/utils/constants"
	"github.com/ava-labs/avalanchego/vms/platformvm/status"
	"github.com/ava-labs/avalanchego/vms/platformvm/txs"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp/message"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp/payload"

	"quorate/aggregator"
	"quorate/internal/chain/pchain"
	"quorate/internal/chain/pchain/pchaintest"
	"quorate/internal/node"
	"quorate/internal/testenv"
	"quorate/validators"
)

const networkID = 12345

var (
	managerChain  = ids.ID{'c'} // of the manager's messages in pchaintest
	managerSubnet = ids.ID{'m'}
	subnetID      = ids.ID{'s', 7}
	address       = []byte("twenty bytes address")
)

// world is a P-Chain, a node that knows all of it, a record of it, and validators
// that vouch for its state by the rules of ACP-77.
type world struct {
	t     testing.TB
	chain *pchaintest.Chain

	mu           sync.Mutex
	txs          map[ids.ID]*txs.Tx           // guarded by mu, as is the rest
	validators   map[ids.ID]*node.L1Validator // that exist now
	ever         map[ids.ID]bool              // that ever did
	conversions  map[ids.ID]ids.ID            // conversion ID by subnet
	statuses     map[ids.ID]node.TxStatus     // of transactions that are not accepted
	xChain       map[ids.ID]bool
	indexed      map[ids.ID]*pchain.L1Transaction
	validations  map[ids.ID]*pchain.Validation
	next         uint64            // height that the record has reached
	recording    bool              // whether blocks are indexed as they are accepted
	subnets      map[ids.ID]ids.ID // of blockchains
	epochs       map[ids.ID]uint64
	fail         map[string]error // by method
	calls        map[string]int
	heights      []uint64      // of the blocks that were asked for
	lag          uint64        // of the node's height
	asking, most int           // for blocks at the same time
	slow         time.Duration // an answer to BlockByHeight takes so long
	noEpoch      bool          // EpochHeight does not answer
	onSign       func(aggregator.Request) error
	// lagging reports whether a node without the newest 3 blocks answers a call; nil means never.
	lagging func(method string) bool
}

func newWorld(t testing.TB) *world {
	return &world{
		t: t, chain: pchaintest.New(networkID), recording: true,
		txs: make(map[ids.ID]*txs.Tx), validators: make(map[ids.ID]*node.L1Validator), ever: make(map[ids.ID]bool),
		conversions: make(map[ids.ID]ids.ID), statuses: make(map[ids.ID]node.TxStatus), xChain: make(map[ids.ID]bool),
		indexed: make(map[ids.ID]*pchain.L1Transaction), validations: make(map[ids.ID]*pchain.Validation), next: 1,
		subnets: map[ids.ID]ids.ID{managerChain: managerSubnet, {'x'}: constants.PrimaryNetworkID},
		epochs:  map[ids.ID]uint64{managerChain: 5, {'x'}: 6},
		fail:    make(map[string]error), calls: make(map[string]int),
	}
}

// deriver knows the record only if it is asked to.
func (w *world) deriver(withRecord bool) *Deriver {
	o := Options{NetworkID: networkID, Node: w, Chains: w, Signer: (*quorum)(w)}
	if withRecord {
		o.Index = (*record)(w)
	}
	return New(o)
}

// accept puts a transaction into a block and applies it.
func (w *world) accept(tx *txs.Tx) ids.ID {
	w.t.Helper()
	height := w.chain.Next()
	w.chain.Standard(tx)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.txs[tx.ID()] = tx
	event, err := pchain.L1EventOf(tx.Unsigned)
	require.NoError(w.t, err)
	if w.recording {
		w.next = height + 1
		if event != nil {
			w.indexed[tx.ID()] = &pchain.L1Transaction{TxID: tx.ID(), Height: height, Event: event}
		}
	}
	switch event := event.(type) {
	case *pchain.Conversion:
		statement, err := conversion(event)
		require.NoError(w.t, err)
		w.conversions[event.SubnetID] = statement.payload.(*message.SubnetToL1Conversion).ID
		for i, v := range event.Validators {
			id := event.SubnetID.Append(uint32(i))
			w.ever[id], w.validators[id] = true, &node.L1Validator{Weight: v.Weight}
			if w.recording {
				w.validations[id] = &pchain.Validation{SubnetID: event.SubnetID, ConversionIndex: uint32(i), RegistrationTxID: tx.ID()}
			}
		}
	case *pchain.Registration:
		w.ever[event.ValidationID], w.validators[event.ValidationID] = true, &node.L1Validator{Weight: 20}
		if w.recording {
			w.validations[event.ValidationID] = &pchain.Validation{SubnetID: event.SubnetID, Registration: event, RegistrationTxID: tx.ID()}
		}
	case *pchain.WeightChange:
		v := w.validators[event.ValidationID]
		require.NotNil(w.t, v, "the validator does not exist")
		require.GreaterOrEqual(w.t, event.Nonce, v.MinNonce)
		v.Weight, v.MinNonce = event.Weight, event.Nonce+1
		if event.Weight == 0 {
			delete(w.validators, event.ValidationID)
		}
		if indexed := w.validations[event.ValidationID]; w.recording && indexed != nil {
			indexed.LatestWeightChange = &pchain.L1WeightChange{TxID: tx.ID(), WeightChange: *event}
		}
	}
	return tx.ID()
}

func (w *world) convert(n int) ids.ID {
	return w.accept(w.chain.Convert(subnetID, managerChain, address, n))
}

func (w *world) register(seed byte) (txID ids.ID, m *message.RegisterL1Validator) {
	m = pchaintest.Registration(subnetID, ids.NodeID{9}, 1_800_000_000+uint64(seed))
	return w.accept(w.chain.Register(m)), m
}

func (w *world) setWeight(validationID ids.ID, nonce, weight uint64) ids.ID {
	return w.accept(w.chain.SetWeight(validationID, nonce, weight))
}

// pass lets blocks go by that have nothing for us.
func (w *world) pass(n int) {
	for range n {
		w.accept(w.chain.Transfer(w.chain.Next()))
	}
}

func (w *world) called(method string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls[method]++
	return w.fail[method]
}

func (w *world) lags(method string) bool { return w.lagging != nil && w.lagging(method) }

var errNotFound = &node.RPCError{Method: "platform.getTx", Code: -32000, Message: "couldn't get tx: not found"}

func (w *world) TxStatus(_ context.Context, txID ids.ID) (node.TxStatus, error) {
	if err := w.called("TxStatus"); err != nil {
		return node.TxStatus{}, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.lags("TxStatus") {
		return node.TxStatus{Status: status.Unknown}, nil
	}
	if _, ok := w.txs[txID]; ok {
		return node.TxStatus{Status: status.Committed}, nil
	}
	return w.statuses[txID], nil
}

func (w *world) Tx(_ context.Context, txID ids.ID) ([]byte, error) {
	if err := w.called("Tx"); err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if tx, ok := w.txs[txID]; ok && !w.lags("Tx") {
		return tx.Bytes(), nil
	}
	return nil, errNotFound
}

func (w *world) HasXChainTx(_ context.Context, txID ids.ID) (bool, error) {
	err := w.called("HasXChainTx")
	return w.xChain[txID], err
}

func (w *world) L1Validator(_ context.Context, validationID ids.ID) (*node.L1Validator, error) {
	if err := w.called("L1Validator"); err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if v, ok := w.validators[validationID]; ok && !w.lags("L1Validator") {
		current := *v
		return &current, nil
	}
	return nil, nil
}

func (w *world) Height(context.Context) (uint64, error) {
	height := w.chain.Next() - 1 - w.lag
	if w.lags("Height") {
		height -= 3
	}
	return height, w.called("Height")
}

func (w *world) BlockByHeight(ctx context.Context, height uint64) ([]byte, error) {
	if err := w.called("BlockByHeight"); err != nil {
		return nil, err
	}
	w.mu.Lock()
	w.heights = append(w.heights, height)
	w.asking++
	w.most = max(w.most, w.asking)
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		w.asking--
		w.mu.Unlock()
	}()
	if err := testenv.Delay(ctx, w.slow); err != nil {
		return nil, err
	}
	if height >= w.chain.Next() {
		return nil, node.ErrBeyondTip
	}
	return w.chain.Blocks[height].Bare, nil
}

func (w *world) SubnetOf(_ context.Context, blockchainID ids.ID) (ids.ID, error) {
	if err := w.called("SubnetOf"); err != nil {
		return ids.Empty, err
	}
	if id, ok := w.subnets[blockchainID]; ok {
		return id, nil
	}
	return ids.Empty, fmt.Errorf("%w %s", validators.ErrUnknownBlockchain, blockchainID)
}

func (w *world) EpochHeight(ctx context.Context, blockchainID ids.ID) (uint64, error) {
	if err := w.called("EpochHeight"); err != nil {
		return 0, err
	}
	if w.noEpoch {
		<-ctx.Done()
		return 0, ctx.Err()
	}
	if height, ok := w.epochs[blockchainID]; ok {
		return height, nil
	}
	return 0, fmt.Errorf("%w %s", validators.ErrUnknownBlockchain, blockchainID)
}

// record is the world's Index.
type record world

func (r *record) Transaction(_ context.Context, txID ids.ID) (*pchain.L1Transaction, error) {
	err := (*world)(r).called("Transaction")
	return r.indexed[txID], err
}

func (r *record) Validation(_ context.Context, validationID ids.ID) (*pchain.Validation, error) {
	err := (*world)(r).called("Validation")
	return r.validations[validationID], err
}

func (r *record) Conversion(_ context.Context, subnetID ids.ID) (*pchain.L1Transaction, error) {
	if err := (*world)(r).called("Conversion"); err != nil {
		return nil, err
	}
	for _, tx := range r.indexed {
		if c, ok := tx.Event.(*pchain.Conversion); ok && c.SubnetID == subnetID {
			return tx, nil
		}
	}
	return nil, nil
}

func (r *record) Height(context.Context) (uint64, error) {
	return r.next, (*world)(r).called("RecordHeight")
}

// quorum are validators who all see the world's state.
type quorum world

func (q *quorum) Sign(ctx context.Context, req aggregator.Request) (*aggregator.Result, error) {
	if err := (*world)(q).called("Sign"); err != nil {
		return nil, err
	}
	if q.onSign != nil {
		if err := q.onSign(req); err != nil {
			return nil, err
		}
	}
	if err := (*world)(q).vouch(req); err != nil {
		return nil, &aggregator.Error{Code: aggregator.CodeRefused, Message: err.Error()}
	}
	return &aggregator.Result{SigningSubnetID: *req.SigningSubnetID}, ctx.Err()
}

// vouch judges a request as the P-Chain of a validator does.
func (w *world) vouch(req aggregator.Request) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if req.Message.NetworkID != networkID || req.Message.SourceChainID != constants.PlatformChainID {
		return errors.New("not of this P-Chain")
	}
	call, err := payload.ParseAddressedCall(req.Message.Payload)
	if err != nil {
		return err
	}
	if len(call.SourceAddress) != 0 {
		return errors.New("source address")
	}
	parsed, err := message.Parse(call.Payload)
	if err != nil {
		return err
	}
	switch m := parsed.(type) {
	case *message.SubnetToL1Conversion:
		id, err := ids.ToID(req.Justification)
		if err != nil || w.conversions[id] != m.ID {
			return errors.New("no such conversion")
		}
	case *message.L1ValidatorRegistration:
		if _, exists := w.validators[m.ValidationID]; exists != m.Registered {
			return fmt.Errorf("exists: %t", exists)
		}
		if m.Registered {
			return nil
		}
		var proof platformvm.L1ValidatorRegistrationJustification
		if err := proto.Unmarshal(req.Justification, &proof); err != nil {
			return err
		}
		switch p := proof.GetPreimage().(type) {
		case *platformvm.L1ValidatorRegistrationJustification_ConvertSubnetToL1TxData:
			id, err := ids.ToID(p.ConvertSubnetToL1TxData.GetSubnetId())
			if err != nil || w.conversions[id] == ids.Empty || id.Append(p.ConvertSubnetToL1TxData.GetIndex()) != m.ValidationID {
				return errors.New("not in the conversion")
			}
		case *platformvm.L1ValidatorRegistrationJustification_RegisterL1ValidatorMessage:
			r, err := message.ParseRegisterL1Validator(p.RegisterL1ValidatorMessage)
			if err != nil || r.ValidationID() != m.ValidationID {
				return errors.New("not the registration")
			}
			if !w.ever[m.ValidationID] {
				return errors.New("could still be registered")
			}
		default:
			return errors.New("no preimage")
		}
	case *message.L1ValidatorWeight:
		v, exists := w.validators[m.ValidationID]
		if !exists || v.MinNonce != m.Nonce+1 || v.Weight != m.Weight {
			return errors.New("not the latest weight")
		}
	default:
		return fmt.Errorf("a %T", m)
	}
	return nil
}

// asked are the heights of the blocks that the node was asked for, ascending.
func (w *world) asked() []uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Sorted(slices.Values(w.heights))
}
