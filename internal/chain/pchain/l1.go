package pchain

import (
	"fmt"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/crypto/bls"
	"github.com/ava-labs/avalanchego/vms/platformvm/txs"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp/message"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp/payload"
)

// L1Event is an effect of a transaction on an L1 (ACP-77) that the P-Chain attests with a Warp message. It is a
// *Conversion, *Registration or *WeightChange.
type L1Event interface{ l1Event() }

// Conversion is a ConvertSubnetToL1Tx.
type Conversion struct {
	SubnetID ids.ID
	// ManagerChainID and ManagerAddress name the contract that manages the L1.
	ManagerChainID ids.ID
	ManagerAddress []byte
	// Validators are in transaction order. The validation ID of the validator at index i is SubnetID.Append(i).
	Validators []ConvertedValidator
}

// ConvertedValidator is an initial validator of an L1.
type ConvertedValidator struct {
	NodeID    []byte
	PublicKey [bls.PublicKeyLen]byte
	Weight    uint64
}

// Registration is a RegisterL1ValidatorTx.
type Registration struct {
	SubnetID, ValidationID ids.ID
	// Message is the RegisterL1Validator payload with its type ID. Its hash is ValidationID.
	Message []byte
}

// WeightChange is a SetL1ValidatorWeightTx. Weight 0 removes the validator.
type WeightChange struct {
	ValidationID  ids.ID
	Nonce, Weight uint64
}

func (*Conversion) l1Event()   {}
func (*Registration) l1Event() {}
func (*WeightChange) l1Event() {}

// L1EventOf returns the effect of tx on an L1, or nil for other transactions.
func L1EventOf(tx txs.UnsignedTx) (L1Event, error) {
	switch tx := tx.(type) {
	case *txs.ConvertSubnetToL1Tx:
		c := &Conversion{SubnetID: tx.Subnet, ManagerChainID: tx.ChainID, ManagerAddress: tx.Address}
		for _, v := range tx.Validators {
			c.Validators = append(c.Validators, ConvertedValidator{NodeID: v.NodeID, PublicKey: v.Signer.PublicKey, Weight: v.Weight})
		}
		return c, nil
	case *txs.RegisterL1ValidatorTx:
		inner, err := managerMessage(tx.Message)
		if err != nil {
			return nil, err
		}
		m, err := message.ParseRegisterL1Validator(inner)
		if err != nil {
			return nil, fmt.Errorf("reading the registration: %w", err)
		}
		return &Registration{SubnetID: m.SubnetID, ValidationID: m.ValidationID(), Message: m.Bytes()}, nil
	case *txs.SetL1ValidatorWeightTx:
		inner, err := managerMessage(tx.Message)
		if err != nil {
			return nil, err
		}
		m, err := message.ParseL1ValidatorWeight(inner)
		if err != nil {
			return nil, fmt.Errorf("reading the weight change: %w", err)
		}
		return &WeightChange{ValidationID: m.ValidationID, Nonce: m.Nonce, Weight: m.Weight}, nil
	}
	return nil, nil
}

// managerMessage extracts the message of an L1's manager from a signed Warp message.
func managerMessage(signed []byte) ([]byte, error) {
	m, err := warp.ParseMessage(signed)
	if err != nil {
		return nil, fmt.Errorf("reading the manager's Warp message: %w", err)
	}
	call, err := payload.ParseAddressedCall(m.Payload)
	if err != nil {
		return nil, fmt.Errorf("reading the manager's addressed call: %w", err)
	}
	return call.Payload, nil
}
