// Package l1message derives the Warp message that follows from a P-Chain transaction: the message that P-Chain
// validators sign after the conversion of a subnet to an L1, the registration of a validator or a change of its weight
// (ACP-77). It also returns the message's justification and signing subnet. The aggregator signs the message.
package l1message

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/proto/pb/platformvm"
	"github.com/ava-labs/avalanchego/utils/constants"
	"github.com/ava-labs/avalanchego/vms/platformvm/status"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp/message"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp/payload"

	"quorate/aggregator"
	"quorate/internal/bounded"
	"quorate/internal/chain/pchain"
	"quorate/internal/node"
	"quorate/validators"
)

// Node lists the methods that are called on an upstream node; see package node.
type Node interface {
	TxStatus(ctx context.Context, txID ids.ID) (node.TxStatus, error)
	Tx(ctx context.Context, txID ids.ID) ([]byte, error)
	HasXChainTx(ctx context.Context, txID ids.ID) (bool, error)
	// L1Validator returns nil for a validator that does not exist now.
	L1Validator(ctx context.Context, validationID ids.ID) (*node.L1Validator, error)
	Height(ctx context.Context) (uint64, error)
	BlockByHeight(ctx context.Context, height uint64) ([]byte, error)
}

// Index reads the index of P-Chain blocks. The index may lag behind the node and may begin later than the chain: nil
// means that it lacks the data.
type Index interface {
	Transaction(ctx context.Context, txID ids.ID) (*pchain.L1Transaction, error)
	Validation(ctx context.Context, validationID ids.ID) (*pchain.Validation, error)
	Conversion(ctx context.Context, subnetID ids.ID) (*pchain.L1Transaction, error)
	// Height returns the height of the first block that is not indexed.
	Height(ctx context.Context) (next uint64, err error)
}

// Chains looks up blockchains; see validators.Resolver.
type Chains interface {
	// SubnetOf returns the subnet that validates a blockchain.
	SubnetOf(ctx context.Context, blockchainID ids.ID) (ids.ID, error)
	// EpochHeight returns the P-Chain height of a blockchain's current epoch.
	EpochHeight(ctx context.Context, blockchainID ids.ID) (uint64, error)
}

// Signer signs messages; see aggregator.Aggregator.
type Signer interface {
	Sign(ctx context.Context, req aggregator.Request) (*aggregator.Result, error)
}

// Options configures a Deriver. Node and Chains are required, Signer for Sign alone.
type Options struct {
	NetworkID uint32
	Node      Node
	Chains    Chains
	Signer    Signer
	// Index may be nil. Then the Deriver searches the node's newest blocks for the registration of a removed
	// validator, and errors do not name newer weight changes.
	Index Index
	// Log may be nil.
	Log *slog.Logger
}

// searchBlocks limits the search of a Deriver. With an Index, it is the maximum lag of the index behind the node. It takes
// a few seconds with a nearby node.
const searchBlocks = 2048

// Deriver derives messages from the transactions of one network. It is safe for concurrent use and starts no goroutines
// that outlive a call.
type Deriver struct {
	networkID uint32
	node      Node
	chains    Chains
	signer    Signer
	index     Index
	log       *slog.Logger

	searchBlocks uint64
	searching    chan struct{} // holds an element during a search

	unknown *bounded.Cache[ids.ID, time.Time] // transactions that the node did not know, and until when that holds
}

const (
	// unknownLife is how long the node is not asked again for a transaction that it did not know. The next block may
	// contain it.
	unknownLife = time.Second
	maxUnknown  = 4096
)

// New returns a Deriver. It sends no requests.
func New(o Options) *Deriver {
	d := &Deriver{
		networkID:    o.NetworkID,
		node:         o.Node,
		chains:       o.Chains,
		signer:       o.Signer,
		index:        o.Index,
		log:          o.Log,
		searchBlocks: searchBlocks,
		searching:    make(chan struct{}, 1),
		unknown:      bounded.New(bounded.Options[ids.ID, time.Time]{Entries: maxUnknown}),
	}
	if d.log == nil {
		d.log = slog.New(slog.DiscardHandler)
	}
	return d
}

// maxDerivations is the maximum number of times that Sign derives the message because the P-Chain's state changed.
const maxDerivations = 3

// Sign returns the signed message that follows from a P-Chain transaction; see Request for the message and its signers.
// If adjust is not nil, it changes the request before signing, for example the quorum. Sign returns the errors of
// Request and of the aggregator.
func (d *Deriver) Sign(ctx context.Context, txID ids.ID, adjust func(*aggregator.Request)) (*aggregator.Result, error) {
	if adjust == nil {
		adjust = func(*aggregator.Request) {}
	}
	req, err := d.Request(ctx, txID)
	if err != nil {
		return nil, err
	}
	for derivations := 1; ; derivations++ {
		adjusted := req
		adjust(&adjusted)
		result, err := d.signer.Sign(ctx, adjusted)
		if err == nil || !stale(err) {
			return result, err
		}
		unseen := codeOf(err) == aggregator.CodeNotSeen
		if unseen {
			err = disputed(txID, err)
		}
		if derivations == maxDerivations || ctx.Err() != nil {
			return nil, err
		}
		// Validators may refuse because of a change that the node or the index learned of only during signing.
		latest, again := d.Request(ctx, txID)
		switch codeOf(again) {
		case CodeSuperseded, CodeProcessing:
			return nil, again
		}
		if again != nil || latest.Message.ID() == req.Message.ID() && !unseen {
			return nil, err
		}
		req = latest
	}
}

// stale reports whether a failure may come from an outdated message.
func stale(err error) bool {
	switch codeOf(err) {
	case aggregator.CodeRefused, aggregator.CodeQuorumNotReached, aggregator.CodeNotSeen:
		return true
	}
	return false
}

// codeOf returns the code of an *aggregator.Error; empty for other errors.
func codeOf(err error) aggregator.Code {
	var failed *aggregator.Error
	if !errors.As(err, &failed) {
		return ""
	}
	return failed.Code
}

// Request returns the aggregator request for a transaction: the message that the P-Chain now signs because of it, with
// the default quorum.
//
//   - ConvertSubnetToL1Tx: the conversion.
//   - RegisterL1ValidatorTx: that the validator is registered or, once it has been
//     removed, that it is not and never will be again. If only the node reports the
//     removal, validators may contradict: Sent is false.
//   - SetL1ValidatorWeightTx: the weight, unless a newer change was accepted;
//     for weight 0, which removes the validator, that it is not registered.
//
// These messages are for the L1's manager: the subnet of the manager's blockchain signs, as of that blockchain's
// current epoch (ACP-181). If the node does not run that blockchain, its epoch is unknown and the currently proposed
// height is used.
//
// The current P-Chain state comes from the node, unless the index shows a later change. Historical data comes from the
// index. Request returns an *aggregator.Error with a code of this package or of the aggregator, unless ctx was
// cancelled or the index failed.
func (d *Deriver) Request(ctx context.Context, txID ids.ID) (aggregator.Request, error) {
	tx, err := d.find(ctx, txID)
	if err != nil {
		return aggregator.Request{}, err
	}
	statement, err := d.state(ctx, tx)
	if err != nil {
		return aggregator.Request{}, err
	}
	manager, err := d.manager(ctx, tx)
	if err != nil {
		return aggregator.Request{}, err
	}
	return d.newRequest(ctx, statement, manager)
}

// statement is the message that the P-Chain signs, and its justification if it needs one.
type statement struct {
	payload       message.Payload
	justification []byte
	// unsure says that only the lack of a validator on the upstream node shows that it was removed. The node may lag behind
	// the registration.
	unsure bool
}

// state returns the statement for tx in the current state.
func (d *Deriver) state(ctx context.Context, tx *transaction) (statement, error) {
	switch event := tx.event.(type) {
	case *pchain.Conversion:
		return conversion(event)
	case *pchain.Registration:
		latest, err := d.latestChange(ctx, event.ValidationID)
		if err != nil {
			return statement{}, err
		}
		// The index comes first because the node may lag behind.
		if latest != nil && latest.Weight == 0 {
			return removed(event.ValidationID, registrationProof(event.Message))
		}
		current, err := d.current(ctx, tx, event.ValidationID)
		if err != nil {
			return statement{}, err
		}
		switch {
		case current != nil:
			return registered(event.ValidationID)
		case time.Since(tx.time).Abs() < nodeLag:
			return statement{}, behind(tx.id)
		}
		s, err := removed(event.ValidationID, registrationProof(event.Message))
		s.unsure = true
		return s, err
	case *pchain.WeightChange:
		if event.Weight == 0 {
			proof, err := d.proof(ctx, tx, event.ValidationID)
			if err != nil {
				return statement{}, err
			}
			return removed(event.ValidationID, proof)
		}
		if err := d.checkLatest(ctx, tx, event); err != nil {
			return statement{}, err
		}
		return weight(event)
	default:
		return statement{}, fmt.Errorf("transaction %s: no message is known for %T", tx.id, event)
	}
}

// nodeLag is how far nodes behind one URL may lag behind each other.
const nodeLag = 10 * time.Second

// current returns a validator as the node has it after tx, nil if it has been removed. A node that lags behind
// another one does not have the validator yet.
func (d *Deriver) current(ctx context.Context, tx *transaction, validationID ids.ID) (*node.L1Validator, error) {
	for checked := false; ; checked = true {
		current, err := d.node.L1Validator(ctx, validationID)
		if err != nil {
			return nil, aggregator.NodeFailure(ctx, err)
		}
		if current != nil || checked {
			return current, nil
		}
		applied, err := d.applied(ctx, tx)
		if err != nil {
			return nil, aggregator.NodeFailure(ctx, err)
		}
		if !applied {
			return nil, behind(tx.id)
		}
		// The node is asked again, because it may have applied tx since.
	}
}

// applied reports whether the node has applied tx.
func (d *Deriver) applied(ctx context.Context, tx *transaction) (bool, error) {
	if tx.height > 0 {
		height, err := d.node.Height(ctx)
		return height >= tx.height, err
	}
	answer, err := d.node.TxStatus(ctx, tx.id)
	return answer.Status == status.Committed, err
}

// checkLatest returns an error if a newer change of the validator's weight was accepted, because validators sign only
// the latest one. The index may know of it before the node does; otherwise an outdated cached signature would be
// returned.
func (d *Deriver) checkLatest(ctx context.Context, tx *transaction, change *pchain.WeightChange) error {
	newer, err := d.newerChange(ctx, change)
	if err != nil {
		return err
	}
	if newer != nil {
		return superseded(change, nil, newer)
	}
	current, err := d.current(ctx, tx, change.ValidationID)
	if err != nil {
		return err
	}
	next := change.Nonce + 1
	switch {
	case current == nil, current.MinNonce > next:
		// The index may have the newer change by now.
		if newer, err = d.newerChange(ctx, change); err != nil {
			return err
		}
		return superseded(change, current, newer)
	case current.MinNonce < next:
		// Requests go to several nodes in turn, and one may lag behind another.
		return behind(tx.id)
	case current.Weight != change.Weight:
		return &aggregator.Error{Code: aggregator.CodeNodeFaulty, Message: "the upstream node contradicts itself about the validator's weight; try again, or check the node",
			Err: fmt.Errorf("validator %s: nonce %d set weight %d, the node says %d", change.ValidationID, change.Nonce, change.Weight, current.Weight)}
	}
	return nil
}

// newerChange returns the validator's latest indexed weight change, or nil if it is not newer than change.
func (d *Deriver) newerChange(ctx context.Context, change *pchain.WeightChange) (*pchain.L1WeightChange, error) {
	latest, err := d.latestChange(ctx, change.ValidationID)
	if err != nil || latest == nil || latest.Nonce <= change.Nonce {
		return nil, err
	}
	return latest, nil
}

// latestChange returns the latest indexed weight change of a validator, or nil.
func (d *Deriver) latestChange(ctx context.Context, validationID ids.ID) (*pchain.L1WeightChange, error) {
	if d.index == nil {
		return nil, nil
	}
	v, err := d.index.Validation(ctx, validationID)
	if err != nil {
		return nil, fmt.Errorf("reading the index of validator %s: %w", validationID, err)
	}
	if v == nil {
		return nil, nil
	}
	return v.LatestWeightChange, nil
}

// manager returns the blockchain of the contract that manages the L1 of tx.
func (d *Deriver) manager(ctx context.Context, tx *transaction) (ids.ID, error) {
	if c, ok := tx.event.(*pchain.Conversion); ok {
		return c.ManagerChainID, nil
	}
	if tx.manager != nil {
		return *tx.manager, nil
	}
	subnetID, known, err := d.subnet(ctx, tx.event)
	if err != nil {
		return ids.Empty, err
	}
	if known {
		c, err := d.index.Conversion(ctx, subnetID)
		if err != nil {
			return ids.Empty, fmt.Errorf("reading the index of L1 %s: %w", subnetID, err)
		}
		if c != nil {
			if event, ok := c.Event.(*pchain.Conversion); ok {
				return event.ManagerChainID, nil
			}
		}
	}
	// The index begins after the conversion.
	full, err := d.fetch(ctx, tx.id)
	if err != nil {
		return ids.Empty, err
	}
	return *full.manager, nil
}

// subnet returns the L1 of an indexed event.
func (d *Deriver) subnet(ctx context.Context, event pchain.L1Event) (subnetID ids.ID, known bool, err error) {
	switch event := event.(type) {
	case *pchain.Registration:
		return event.SubnetID, true, nil
	case *pchain.WeightChange:
		v, err := d.index.Validation(ctx, event.ValidationID)
		if err != nil {
			return ids.Empty, false, fmt.Errorf("reading the index of validator %s: %w", event.ValidationID, err)
		}
		if v != nil {
			return v.SubnetID, true, nil
		}
	}
	return ids.Empty, false, nil
}

// epochTimeout bounds the lookup of the epoch of the manager's chain.
const epochTimeout = 5 * time.Second

// unsureWait is how long Sign waits for validators that still have a validator which the upstream node does not have: they
// or the node may be behind.
const unsureWait = 3 * time.Second

// newRequest returns the request to sign a statement for the manager's chain: at the height of that chain's epoch or, if
// the epoch is unknown, at the proposed height.
func (d *Deriver) newRequest(ctx context.Context, s statement, manager ids.ID) (aggregator.Request, error) {
	subnetID, err := d.chains.SubnetOf(ctx, manager)
	if errors.Is(err, validators.ErrUnknownBlockchain) {
		return aggregator.Request{}, &aggregator.Error{Code: aggregator.CodeUnknownBlockchain, Err: err,
			Message: fmt.Sprintf("txHash: the L1's manager is on blockchain %s, which no subnet of this network validates, so no validator can sign for it", manager)}
	}
	if err != nil {
		return aggregator.Request{}, aggregator.NodeFailure(ctx, err)
	}
	// The source address is empty in all messages of the P-Chain itself.
	call, err := payload.NewAddressedCall(nil, s.payload.Bytes())
	if err != nil {
		return aggregator.Request{}, fmt.Errorf("building the addressed call: %w", err)
	}
	unsigned, err := warp.NewUnsignedMessage(d.networkID, constants.PlatformChainID, call.Bytes())
	if err != nil {
		return aggregator.Request{}, fmt.Errorf("building the message: %w", err)
	}
	req := aggregator.Request{Message: unsigned, Justification: s.justification, SigningSubnetID: &subnetID}
	if s.unsure {
		req.Wait = unsureWait
	} else {
		req.Sent = true // the P-Chain accepted the transaction
	}
	limited, cancel := context.WithTimeout(ctx, epochTimeout)
	defer cancel()
	_, err = d.chains.EpochHeight(limited, manager)
	var refused *node.RPCError
	if !errors.Is(err, validators.ErrUnknownBlockchain) && !errors.As(err, &refused) && !errors.Is(err, context.DeadlineExceeded) {
		req.VerifyingBlockchainID = &manager // the aggregator explains any other problem
	}
	return req, nil
}

func conversion(c *pchain.Conversion) (statement, error) {
	data := message.SubnetToL1ConversionData{
		SubnetID:       c.SubnetID,
		ManagerChainID: c.ManagerChainID,
		ManagerAddress: c.ManagerAddress,
		Validators:     make([]message.SubnetToL1ConversionValidatorData, len(c.Validators)),
	}
	for i, v := range c.Validators {
		data.Validators[i] = message.SubnetToL1ConversionValidatorData{NodeID: v.NodeID, BLSPublicKey: v.PublicKey, Weight: v.Weight}
	}
	id, err := message.SubnetToL1ConversionID(data)
	if err != nil {
		return statement{}, fmt.Errorf("computing the conversion ID of subnet %s: %w", c.SubnetID, err)
	}
	m, err := message.NewSubnetToL1Conversion(id)
	if err != nil {
		return statement{}, fmt.Errorf("building the conversion message: %w", err)
	}
	return statement{payload: m, justification: c.SubnetID[:]}, nil // the bare ID, without protobuf
}

func registered(validationID ids.ID) (statement, error) {
	m, err := message.NewL1ValidatorRegistration(validationID, true)
	if err != nil {
		return statement{}, fmt.Errorf("building the registration message: %w", err)
	}
	return statement{payload: m}, nil
}

// removed returns the statement that a validator can never be registered again, with its justification.
func removed(validationID ids.ID, proof *platformvm.L1ValidatorRegistrationJustification) (statement, error) {
	m, err := message.NewL1ValidatorRegistration(validationID, false)
	if err != nil {
		return statement{}, fmt.Errorf("building the removal message: %w", err)
	}
	justification, err := proto.Marshal(proof)
	if err != nil {
		return statement{}, fmt.Errorf("encoding the justification: %w", err)
	}
	return statement{payload: m, justification: justification}, nil
}

func weight(c *pchain.WeightChange) (statement, error) {
	m, err := message.NewL1ValidatorWeight(c.ValidationID, c.Nonce, c.Weight)
	if err != nil {
		return statement{}, fmt.Errorf("building the weight message: %w", err)
	}
	return statement{payload: m}, nil
}
