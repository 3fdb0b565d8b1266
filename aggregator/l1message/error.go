package l1message

import (
	"errors"
	"fmt"
	"strings"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/vms/platformvm/txs"

	"quorate/aggregator"
	"quorate/internal/chain/pchain"
	"quorate/internal/node"
)

// Codes for transactions that lead to no message, in addition to the aggregator's codes.
const (
	// CodeUnknownTransaction means that neither the P-Chain nor the X-Chain has the transaction.
	CodeUnknownTransaction aggregator.Code = "UNKNOWN_TRANSACTION"
	// CodeProcessing means that the P-Chain has not decided on the transaction yet.
	CodeProcessing aggregator.Code = "TRANSACTION_PROCESSING"
	// CodeDropped means that the P-Chain rejected the transaction.
	CodeDropped aggregator.Code = "TRANSACTION_DROPPED"
	// CodeXChain means that it is an X-Chain transaction, which sends no messages.
	CodeXChain aggregator.Code = "X_CHAIN_TRANSACTION"
	// CodeNoMessage means that P-Chain transactions of this type have no message.
	CodeNoMessage aggregator.Code = "NO_WARP_MESSAGE"
	// CodeSuperseded means that a newer weight change was accepted.
	CodeSuperseded aggregator.Code = "SUPERSEDED"
	// CodeRegistrationNotFound means that the justification of a removal precedes the indexed or searched blocks.
	CodeRegistrationNotFound aggregator.Code = "REGISTRATION_NOT_FOUND"
	// CodeNotIndexed means that the index may have the data once it has caught up.
	CodeNotIndexed aggregator.Code = "NOT_INDEXED"
)

func unknown(txID ids.ID) error {
	return &aggregator.Error{Code: CodeUnknownTransaction, Message: fmt.Sprintf("txHash: neither the P-Chain nor the X-Chain of this network knows transaction %s; if it was issued only now, ask again in a moment", txID)}
}

func processing(txID ids.ID) error {
	return &aggregator.Error{Code: CodeProcessing, Message: fmt.Sprintf("transaction %s is still being decided by the P-Chain; ask again in a moment", txID)}
}

func behind(txID ids.ID) error {
	return &aggregator.Error{Code: CodeProcessing, Message: fmt.Sprintf("transaction %s is accepted, but the upstream node has not applied it yet; ask again in a moment", txID)}
}

// disputed returns the error for a removal that the node reports and validators refuse to sign with err.
func disputed(txID ids.ID, err error) error {
	failed := &aggregator.Error{Code: CodeProcessing, Err: err, Message: fmt.Sprintf("the upstream node does not have the validator that transaction %s registered, but the validators that must sign the removal still have it; either the node or they lag, so ask again in a moment", txID)}
	var refused *aggregator.Error
	if errors.As(err, &refused) {
		failed.Account = refused.Account
	}
	return failed
}

func dropped(txID ids.ID, s node.TxStatus) error {
	reason := "the node gives no reason"
	if s.Reason != "" {
		reason = "the node's reason: " + excerpt(s.Reason)
	}
	return &aggregator.Error{Code: CodeDropped, Message: fmt.Sprintf("txHash: the P-Chain did not accept transaction %s (%s), so no message follows from it", txID, reason)}
}

func onXChain(txID ids.ID) error {
	return &aggregator.Error{Code: CodeXChain, Message: fmt.Sprintf("txHash: %s is an X-Chain transaction, and no Warp message belongs to those; give the hash of a P-Chain transaction", txID)}
}

// otherKind returns the error for a transaction of a type without a message.
func otherKind(txID ids.ID, tx txs.UnsignedTx) error {
	kind := strings.TrimPrefix(fmt.Sprintf("%T", tx), "*txs.")
	why := "ConvertSubnetToL1Tx, RegisterL1ValidatorTx and SetL1ValidatorWeightTx have one"
	switch tx.(type) {
	case *txs.IncreaseL1ValidatorBalanceTx:
		why = "it adds to a validator's balance, which no message tells"
	case *txs.DisableL1ValidatorTx:
		why = "it deactivates a validator, which stays registered with its weight; the hash of its registration, or of the weight change that removes it, has one"
	}
	return &aggregator.Error{Code: CodeNoMessage, Message: fmt.Sprintf("txHash: no Warp message belongs to %s, which is a %s: %s", txID, kind, why)}
}

// superseded returns the error for an outdated weight. current is nil if the validator is gone; newer is nil if the
// index does not have the later change.
func superseded(old *pchain.WeightChange, current *node.L1Validator, newer *pchain.L1WeightChange) error {
	text := fmt.Sprintf("the change of validator %s to weight %d (nonce %d) was superseded", old.ValidationID, old.Weight, old.Nonce)
	switch {
	case newer != nil && newer.Weight == 0:
		text += fmt.Sprintf(" by transaction %s, which removed the validator; ask for that one", newer.TxID)
	case newer != nil:
		text += fmt.Sprintf(" by transaction %s, to weight %d (nonce %d); ask for that one", newer.TxID, newer.Weight, newer.Nonce)
	case current == nil:
		text += ": the validator has been removed since; ask for the transaction that set its weight to 0"
	default:
		text += fmt.Sprintf(" by one to weight %d (nonce %d); ask for the transaction of that one", current.Weight, current.MinNonce-1)
	}
	return &aggregator.Error{Code: CodeSuperseded, Message: text + ", as validators sign the latest state alone"}
}

// excerpt shortens a node's error text.
func excerpt(s string) string {
	const most = 256
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "..."
}
