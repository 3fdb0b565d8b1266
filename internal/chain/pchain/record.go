package pchain

import (
	"time"

	"github.com/ava-labs/avalanchego/ids"
)

// L1Transaction is an accepted transaction that did something to an L1.
type L1Transaction struct {
	TxID ids.ID
	// Height is the P-Chain block's, Time is the one that the block names.
	Height uint64
	Time   time.Time
	Event  L1Event
}

// Validation is what the blocks say about an L1 validator, from its conversion
// or registration on; a removal does not take it away.
type Validation struct {
	SubnetID ids.ID
	// ConversionIndex is meaningful if Registration is nil: the validator is
	// number ConversionIndex of the conversion.
	ConversionIndex uint32
	Registration    *Registration
	// RegistrationTxID is the transaction that began the validation: the
	// registration, or the conversion.
	RegistrationTxID ids.ID
	// LatestWeightChange is the one with the highest nonce, nil if the weight was
	// never changed.
	LatestWeightChange *L1WeightChange
}

// L1WeightChange is an accepted change of a validator's weight.
type L1WeightChange struct {
	TxID   ids.ID
	Height uint64
	WeightChange
}
