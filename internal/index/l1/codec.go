package l1

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp/message"

	"quorate/internal/chain/pchain"
	"quorate/internal/index/internal/row"
	"quorate/internal/store"
)

// version begins every value. Numbers are uvarints, IDs have 32 bytes, and byte strings have a length prefix.
const version = row.Version

// Kinds of events in a value.
const (
	kindConversion = iota + 1
	kindRegistration
	kindWeightChange
)

func encodeTransaction(tx *pchain.L1Transaction) []byte {
	b := []byte{version}
	b = binary.AppendUvarint(b, tx.Height)
	b = binary.AppendUvarint(b, uint64(tx.Time.Unix()))
	switch event := tx.Event.(type) {
	case *pchain.Conversion:
		b = append(b, kindConversion)
		b = append(b, event.SubnetID[:]...)
		b = append(b, event.ManagerChainID[:]...)
		b = appendBytes(b, event.ManagerAddress)
		b = binary.AppendUvarint(b, uint64(len(event.Validators)))
		for i := range event.Validators {
			v := &event.Validators[i]
			b = appendBytes(b, v.NodeID)
			b = append(b, v.PublicKey[:]...)
			b = binary.AppendUvarint(b, v.Weight)
		}
	case *pchain.Registration:
		b = append(b, kindRegistration)
		b = appendBytes(b, event.Message)
	case *pchain.WeightChange:
		b = append(b, kindWeightChange)
		b = append(b, event.ValidationID[:]...)
		b = binary.AppendUvarint(b, event.Nonce)
		b = binary.AppendUvarint(b, event.Weight)
	}
	return b
}

func decodeTransaction(txID ids.ID, b []byte) (*pchain.L1Transaction, error) {
	d := decode(b)
	tx := &pchain.L1Transaction{TxID: txID, Height: d.Number(), Time: d.time()}
	switch kind := d.Byte(); kind {
	case kindConversion:
		tx.Event = d.conversion()
	case kindRegistration:
		tx.Event = d.registration(d.Bytes())
	case kindWeightChange:
		tx.Event = &pchain.WeightChange{ValidationID: d.ID(), Nonce: d.Number(), Weight: d.Number()}
	default:
		d.Fail(fmt.Errorf("unknown event kind %d", kind))
	}
	if err := d.End(); err != nil {
		return nil, err
	}
	return tx, nil
}

// beginning is the first row of a validation: validator Index of a conversion, or a registration if Message is set.
type beginning struct {
	SubnetID ids.ID
	TxID     ids.ID
	Index    uint32
	Message  []byte
}

func (v *beginning) bytes() []byte {
	b := append([]byte{version}, v.SubnetID[:]...)
	b = append(b, v.TxID[:]...)
	b = binary.AppendUvarint(b, uint64(v.Index))
	return appendBytes(b, v.Message)
}

// change is the row of a weight change. Its key contains the nonce.
type change struct {
	TxID           ids.ID
	Height, Weight uint64
}

func (c *change) bytes() []byte {
	b := append([]byte{version}, c.TxID[:]...)
	b = binary.AppendUvarint(b, c.Height)
	return binary.AppendUvarint(b, c.Weight)
}

// decodeValidation combines the first row of a validation with the row of its latest weight change, whose value is nil
// without a change.
func decodeValidation(validationID ids.ID, begin, latest store.Row) (*pchain.Validation, error) {
	d := decode(begin.V)
	v := &pchain.Validation{SubnetID: d.ID(), RegistrationTxID: d.ID()}
	v.ConversionIndex = d.Uint32()
	if m := d.Bytes(); len(m) > 0 {
		v.Registration = d.registration(m)
	}
	if err := d.End(); err != nil {
		return nil, err
	}
	if latest.V == nil {
		return v, nil
	}
	d = decode(latest.V)
	c := &pchain.L1WeightChange{TxID: d.ID()}
	d.Number() // the height
	c.ValidationID, c.Weight = validationID, d.Number()
	if len(latest.K) != 9 {
		d.Fail(fmt.Errorf("key of %d bytes", len(latest.K)))
	} else {
		c.Nonce = binary.BigEndian.Uint64(latest.K[1:])
	}
	v.LatestWeightChange = c
	if err := d.End(); err != nil {
		return nil, err
	}
	return v, nil
}

func appendBytes(b, part []byte) []byte {
	return append(binary.AppendUvarint(b, uint64(len(part))), part...)
}

// decoder reads a value like row.Reader. Results refer to the value, which the caller of the store owns.
type decoder struct{ row.Reader }

func decode(v []byte) *decoder {
	d := new(decoder)
	d.Begin(v)
	return d
}

// time differs from row.Reader's: these rows have no zero time.
func (d *decoder) time() time.Time { return time.Unix(int64(d.Number()), 0).UTC() }

func (d *decoder) conversion() *pchain.Conversion {
	c := &pchain.Conversion{SubnetID: d.ID(), ManagerChainID: d.ID(), ManagerAddress: d.Bytes()}
	// Not preallocated: a damaged value may have any count.
	for n := d.Number(); n > 0 && d.Err() == nil; n-- {
		v := pchain.ConvertedValidator{NodeID: d.Bytes()}
		copy(v.PublicKey[:], d.Take(len(v.PublicKey)))
		v.Weight = d.Number()
		c.Validators = append(c.Validators, v)
	}
	return c
}

func (d *decoder) registration(b []byte) *pchain.Registration {
	if d.Err() != nil {
		return nil
	}
	m, err := message.ParseRegisterL1Validator(b)
	if err != nil {
		d.Fail(err)
		return nil
	}
	return &pchain.Registration{SubnetID: m.SubnetID, ValidationID: m.ValidationID(), Message: b}
}
