package history

import (
	"fmt"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/crypto/bls"
	"github.com/ava-labs/avalanchego/utils/set"
	"github.com/ava-labs/avalanchego/vms/platformvm/state"
	"github.com/ava-labs/avalanchego/vms/platformvm/txs"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp/message"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp/payload"
)

// l1State is what the P-Chain knows of L1s after its last block, by the rules of avalanchego
// (vms/platformvm/txs/executor, the five transactions of ACP-77).
type l1State struct {
	conversions map[ids.ID]state.SubnetToL1Conversion // by subnet
	validators  map[ids.ID]state.L1Validator          // by validation ID
	registered  set.Set[ids.ID]                       // validation IDs that a message registered, also former ones
}

func newL1State() l1State {
	return l1State{conversions: make(map[ids.ID]state.SubnetToL1Conversion), validators: make(map[ids.ID]state.L1Validator)}
}

// apply executes a transaction of Block.L1.
func (s *l1State) apply(unsigned txs.UnsignedTx) (err error) {
	switch tx := unsigned.(type) {
	case *txs.ConvertSubnetToL1Tx:
		err = s.convert(tx)
	case *txs.RegisterL1ValidatorTx:
		err = s.register(tx)
	case *txs.SetL1ValidatorWeightTx:
		err = s.setWeight(tx)
	case *txs.IncreaseL1ValidatorBalanceTx:
		s.change(tx.ValidationID, func(v *state.L1Validator) { v.EndAccumulatedFee += tx.Balance })
	case *txs.DisableL1ValidatorTx:
		s.change(tx.ValidationID, func(v *state.L1Validator) { v.EndAccumulatedFee = 0 })
	}
	if err != nil {
		return fmt.Errorf("executing a %T: %w", unsigned, err)
	}
	return nil
}

func (s *l1State) convert(tx *txs.ConvertSubnetToL1Tx) error {
	data := message.SubnetToL1ConversionData{SubnetID: tx.Subnet, ManagerChainID: tx.ChainID, ManagerAddress: tx.Address}
	for i, v := range tx.Validators {
		if err := s.enter(tx.Subnet.Append(uint32(i)), tx.Subnet, v.NodeID, v.Signer.PublicKey, v.Weight, v.Balance); err != nil {
			return err
		}
		data.Validators = append(data.Validators, message.SubnetToL1ConversionValidatorData{NodeID: v.NodeID, BLSPublicKey: v.Signer.PublicKey, Weight: v.Weight})
	}
	id, err := message.SubnetToL1ConversionID(data)
	if err != nil {
		return err
	}
	s.conversions[tx.Subnet] = state.SubnetToL1Conversion{ConversionID: id, ChainID: tx.ChainID, Addr: tx.Address}
	return nil
}

func (s *l1State) register(tx *txs.RegisterL1ValidatorTx) error {
	content, err := addressedCall(tx.Message)
	if err != nil {
		return err
	}
	m, err := message.ParseRegisterL1Validator(content)
	if err != nil {
		return err
	}
	validationID := m.ValidationID()
	s.registered.Add(validationID)
	return s.enter(validationID, m.SubnetID, m.NodeID, m.BLSPublicKey, m.Weight, tx.Balance)
}

// enter adds a validator. simnet takes no fees, so the accumulated fee at which it becomes inactive is its balance.
func (s *l1State) enter(validationID, subnetID ids.ID, node []byte, publicKey [bls.PublicKeyLen]byte, weight, balance uint64) error {
	nodeID, err := ids.ToNodeID(node)
	if err != nil {
		return err
	}
	key, err := bls.PublicKeyFromCompressedBytes(publicKey[:])
	if err != nil {
		return err
	}
	s.validators[validationID] = state.L1Validator{
		ValidationID: validationID, SubnetID: subnetID, NodeID: nodeID, PublicKey: bls.PublicKeyToUncompressedBytes(key), Weight: weight,
		EndAccumulatedFee: balance,
	}
	return nil
}

func (s *l1State) setWeight(tx *txs.SetL1ValidatorWeightTx) error {
	content, err := addressedCall(tx.Message)
	if err != nil {
		return err
	}
	m, err := message.ParseL1ValidatorWeight(content)
	if err != nil {
		return err
	}
	if m.Weight == 0 {
		delete(s.validators, m.ValidationID)
		return nil
	}
	s.change(m.ValidationID, func(v *state.L1Validator) { v.MinNonce, v.Weight = m.Nonce+1, m.Weight })
	return nil
}

func (s *l1State) change(validationID ids.ID, f func(*state.L1Validator)) {
	v := s.validators[validationID]
	f(&v)
	s.validators[validationID] = v
}

// addressedCall returns what a contract sent in a signed message.
func addressedCall(signed []byte) ([]byte, error) {
	m, err := warp.ParseMessage(signed)
	if err != nil {
		return nil, err
	}
	call, err := payload.ParseAddressedCall(m.Payload)
	if err != nil {
		return nil, err
	}
	return call.Payload, nil
}

// Conversion returns the conversion of a subnet to an L1.
func (n *Node) Conversion(subnetID ids.ID) (state.SubnetToL1Conversion, bool) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	c, ok := n.l1s.conversions[subnetID]
	return c, ok
}

// L1Validator returns a current validator of an L1.
func (n *Node) L1Validator(validationID ids.ID) (state.L1Validator, bool) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	v, ok := n.l1s.validators[validationID]
	return v, ok
}

// Registered reports whether a message registered a validator of an L1, also a former one.
func (n *Node) Registered(validationID ids.ID) bool {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.l1s.registered.Contains(validationID)
}
