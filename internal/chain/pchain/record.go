package pchain

import (
	"time"

	"github.com/ava-labs/avalanchego/ids"
)

// L1Transaction is an accepted transaction that changed an L1.
type L1Transaction struct {
	TxID ids.ID
	// Height is the P-Chain height, Time the time in the block.
	Height uint64
	Time   time.Time
	Event  L1Event
}

// Validation is the indexed state of an L1 validator since its conversion or registration. It remains after a removal.
type Validation struct {
	SubnetID ids.ID
	// ConversionIndex is the validator's index in the conversion. It is meaningful only if Registration is nil.
	ConversionIndex uint32
	Registration    *Registration
	// RegistrationTxID is the transaction that started the validation: the registration or the conversion.
	RegistrationTxID ids.ID
	// LatestWeightChange has the highest nonce. It is nil if the weight never changed.
	LatestWeightChange *L1WeightChange
}

// L1WeightChange is an accepted change of a validator's weight.
type L1WeightChange struct {
	TxID ids.ID
	WeightChange
}
