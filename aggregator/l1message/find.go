package l1message

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/proto/pb/platformvm"
	"github.com/ava-labs/avalanchego/utils/constants"
	"github.com/ava-labs/avalanchego/vms/platformvm/status"
	"github.com/ava-labs/avalanchego/vms/platformvm/txs"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp"

	"quorate/aggregator"
	"quorate/internal/chain/pchain"
	"quorate/internal/node"
	"quorate/validators"
)

// transaction is an accepted transaction that leads to a message.
type transaction struct {
	id    ids.ID
	event pchain.L1Event
	// height is the P-Chain height; 0 if the index does not have the transaction.
	height uint64
	// time is that of its block; zero if the index does not have the transaction.
	time time.Time
	// manager is the blockchain that sent a registration or weight change; nil if the index does not have it.
	manager *ids.ID
}

// find looks a transaction up, in the index first.
func (d *Deriver) find(ctx context.Context, txID ids.ID) (*transaction, error) {
	if d.index != nil {
		indexed, err := d.index.Transaction(ctx, txID)
		if err != nil {
			return nil, fmt.Errorf("reading the index of transaction %s: %w", txID, err)
		}
		if indexed != nil {
			return &transaction{id: txID, event: indexed.Event, height: indexed.Height, time: indexed.Time}, nil
		}
	}
	if until, ok := d.unknown.Get(txID); ok && time.Now().Before(until) {
		return nil, unknown(txID)
	}
	answer, err := d.node.TxStatus(ctx, txID)
	if err != nil {
		return nil, aggregator.NodeFailure(ctx, err)
	}
	switch answer.Status {
	case status.Committed, status.Aborted:
		found, err := d.fetch(ctx, txID)
		if refused, ok := errors.AsType[*node.RPCError](err); ok && refused.NotFound() {
			return nil, behind(txID) // another node answers
		}
		return found, err
	case status.Processing:
		return nil, processing(txID)
	case status.Dropped:
		return nil, dropped(txID, answer)
	}
	exists, err := d.node.HasXChainTx(ctx, txID)
	if err != nil {
		return nil, aggregator.NodeFailure(ctx, err)
	}
	if exists {
		return nil, onXChain(txID)
	}
	d.unknown.Set(txID, time.Now().Add(unknownLife))
	return nil, unknown(txID)
}

// fetch fetches an accepted transaction from the node.
func (d *Deriver) fetch(ctx context.Context, txID ids.ID) (*transaction, error) {
	raw, err := d.node.Tx(ctx, txID)
	if err != nil {
		return nil, aggregator.NodeFailure(ctx, err)
	}
	// The genesis contains transactions that exceed the limits of the ordinary codec.
	tx, err := txs.Parse(txs.GenesisCodec, raw)
	if err == nil && tx.ID() != txID {
		err = fmt.Errorf("its ID is %s", tx.ID())
	}
	if err != nil {
		return nil, aggregator.NodeFailure(ctx, fmt.Errorf("%w: transaction %s: %w", node.ErrMalformed, txID, err))
	}
	found := &transaction{id: txID}
	if found.event, err = pchain.L1EventOf(tx.Unsigned); err != nil {
		return nil, aggregator.NodeFailure(ctx, fmt.Errorf("%w: transaction %s: %w", node.ErrMalformed, txID, err))
	}
	var signed []byte
	switch unsigned := tx.Unsigned.(type) {
	case *txs.ConvertSubnetToL1Tx:
		found.manager = &unsigned.ChainID
		return found, nil
	case *txs.RegisterL1ValidatorTx:
		signed = unsigned.Message
	case *txs.SetL1ValidatorWeightTx:
		signed = unsigned.Message
	default:
		return nil, otherKind(txID, tx.Unsigned)
	}
	// The P-Chain accepts only messages from the manager's chain named in the conversion.
	m, err := warp.ParseMessage(signed)
	if err != nil {
		return nil, aggregator.NodeFailure(ctx, fmt.Errorf("%w: transaction %s: %w", node.ErrMalformed, txID, err))
	}
	found.manager = &m.SourceChainID
	return found, nil
}

// maxInitial is the maximum number of initial validators that proof tries if it knows only the subnet.
const maxInitial = 4096

// proof returns the justification for a message that a validator was removed: the message that registered it, or its
// index in the conversion. The validation ID is the hash of either, so a wrong one is detected.
func (d *Deriver) proof(ctx context.Context, tx *transaction, validationID ids.ID) (*platformvm.L1ValidatorRegistrationJustification, error) {
	if d.index != nil {
		v, err := d.index.Validation(ctx, validationID)
		switch {
		case err != nil:
			return nil, fmt.Errorf("reading the index of validator %s: %w", validationID, err)
		case v != nil && v.Registration != nil:
			return registrationProof(v.Registration.Message), nil
		case v != nil:
			return conversionProof(v.SubnetID, v.ConversionIndex), nil
		}
	}
	if tx.manager == nil {
		full, err := d.fetch(ctx, tx.id)
		if err != nil {
			return nil, err
		}
		tx.manager = full.manager
	}
	// The subnet of a manager that runs on its own L1 is that of its blockchain.
	subnetID, err := d.chains.SubnetOf(ctx, *tx.manager)
	if err != nil && !errors.Is(err, validators.ErrUnknownBlockchain) {
		return nil, aggregator.NodeFailure(ctx, err)
	}
	if err == nil && subnetID != constants.PrimaryNetworkID {
		for i := range uint32(maxInitial) {
			if subnetID.Append(i) == validationID {
				return conversionProof(subnetID, i), nil
			}
		}
	}
	return d.search(ctx, validationID)
}

func registrationProof(message []byte) *platformvm.L1ValidatorRegistrationJustification {
	return &platformvm.L1ValidatorRegistrationJustification{
		Preimage: &platformvm.L1ValidatorRegistrationJustification_RegisterL1ValidatorMessage{RegisterL1ValidatorMessage: message},
	}
}

func conversionProof(subnetID ids.ID, index uint32) *platformvm.L1ValidatorRegistrationJustification {
	return &platformvm.L1ValidatorRegistrationJustification{
		Preimage: &platformvm.L1ValidatorRegistrationJustification_ConvertSubnetToL1TxData{
			ConvertSubnetToL1TxData: &platformvm.SubnetIDIndex{SubnetId: subnetID[:], Index: index},
		},
	}
}

const (
	// searchers request blocks concurrently, stride blocks at a time.
	searchers = 8
	stride    = 64
	// IndexPause is when to repeat a request that failed with CodeNotIndexed.
	IndexPause = 5 * time.Second
)

// search searches the node's newest blocks, backwards, for the registration or conversion of a validator. Only one
// search runs at a time.
func (d *Deriver) search(ctx context.Context, validationID ids.ID) (*platformvm.L1ValidatorRegistrationJustification, error) {
	select {
	case d.searching <- struct{}{}:
		defer func() { <-d.searching }()
	case <-ctx.Done():
		return nil, fmt.Errorf("waiting to search for the registration of validator %s: %w", validationID, ctx.Err())
	}
	tip, err := d.node.Height(ctx)
	if err != nil {
		return nil, aggregator.NodeFailure(ctx, err)
	}
	end := tip + 1 // heights below it are to be searched
	var first uint64
	if end > d.searchBlocks {
		first = end - d.searchBlocks // down to this one
	}
	if d.index != nil {
		next, err := d.index.Height(ctx)
		if err != nil {
			return nil, fmt.Errorf("reading the height of the index: %w", err)
		}
		if next < first {
			return nil, &aggregator.Error{Code: CodeNotIndexed, RetryAfter: IndexPause, Message: fmt.Sprintf("the index of P-Chain blocks, which would have the registration of validator %s, is catching up (at height %d of %d); ask again later", validationID, next, tip)}
		}
		first = max(first, next)
	}
	d.log.Debug("searching blocks for a registration", slog.String("validationID", validationID.String()), slog.Uint64("from", first), slog.Uint64("to", tip))
	for end > first {
		start := first
		if end-first > stride {
			start = end - stride
		}
		found, err := d.searchRange(ctx, start, end, validationID)
		if ctx.Err() != nil {
			return nil, fmt.Errorf("searching for the registration of validator %s, at height %d: %w", validationID, start, ctx.Err())
		}
		if err != nil {
			return nil, aggregator.NodeFailure(ctx, err)
		}
		if found != nil {
			return found, nil
		}
		end = start
	}
	where := fmt.Sprintf("in the node's newest %d blocks, down to height %d", tip+1-first, first)
	if d.index != nil {
		where = "in the index of P-Chain blocks, which begins later"
	}
	return nil, &aggregator.Error{Code: CodeRegistrationNotFound, Message: fmt.Sprintf(
		"txHash: the transaction removed validator %s, but its registration, which justifies the removal message, is not %s; POST the message with a justification made of the RegisterL1Validator message, or of the subnet ID and the index in the conversion", validationID, where)}
}

// searchRange searches the blocks from start until, not including, end.
func (d *Deriver) searchRange(ctx context.Context, start, end uint64, validationID ids.ID) (*platformvm.L1ValidatorRegistrationJustification, error) {
	var mu sync.Mutex
	var found *platformvm.L1ValidatorRegistrationJustification
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(searchers)
	for height := start; height < end; height++ {
		g.Go(func() error {
			raw, err := d.node.BlockByHeight(ctx, height)
			if err != nil {
				return err
			}
			proof, err := proofIn(raw, validationID)
			if err != nil {
				return fmt.Errorf("%w: block %d: %w", node.ErrMalformed, height, err)
			}
			if proof != nil {
				mu.Lock()
				found = proof
				mu.Unlock()
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	return found, nil
}

// proofIn searches one block for a validator's registration or conversion.
func proofIn(raw []byte, validationID ids.ID) (*platformvm.L1ValidatorRegistrationJustification, error) {
	b, err := pchain.ParseBlock(raw)
	if err != nil {
		return nil, err
	}
	for _, tx := range b.Txs {
		event, err := pchain.L1EventOf(tx.Unsigned)
		if err != nil {
			return nil, fmt.Errorf("transaction %s: %w", tx.ID(), err)
		}
		switch event := event.(type) {
		case *pchain.Registration:
			if event.ValidationID == validationID {
				return registrationProof(event.Message), nil
			}
		case *pchain.Conversion:
			for i := range event.Validators {
				if event.SubnetID.Append(uint32(i)) == validationID {
					return conversionProof(event.SubnetID, uint32(i)), nil
				}
			}
		}
	}
	return nil, nil
}
