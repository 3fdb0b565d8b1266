package l1record

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

// The values of rows begin with a version; numbers are uvarints, IDs 32 bytes, and
// byte strings come after their length.
const version = row.Version

// The kinds of events in a value.
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
		d.Fail(fmt.Errorf("event of kind %d", kind))
	}
	if err := d.End(); err != nil {
		return nil, err
	}
	return tx, nil
}

// beginning is the row that a validation begins with: the validator of number
// Index of a conversion, or, if there is a Message, of a registration.
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

// change is the row of a weight change, whose nonce is in its key.
type change struct {
	TxID           ids.ID
	Height, Weight uint64
}

func (c *change) bytes() []byte {
	b := append([]byte{version}, c.TxID[:]...)
	b = binary.AppendUvarint(b, c.Height)
	return binary.AppendUvarint(b, c.Weight)
}

// decodeValidation puts together the row that a validation begins with and the one
// of its latest change, whose value is nil if there is none.
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
	c := &pchain.L1WeightChange{TxID: d.ID(), Height: d.Number()}
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

// decoder reads a value from its beginning, as row.Reader does. What it returns refers
// to the value, which readers of a store own.
type decoder struct{ row.Reader }

func decode(v []byte) *decoder {
	d := new(decoder)
	d.Begin(v)
	return d
}

// time differs from row.Reader's: these rows know no zero time.
func (d *decoder) time() time.Time { return time.Unix(int64(d.Number()), 0).UTC() }

func (d *decoder) conversion() *pchain.Conversion {
	c := &pchain.Conversion{SubnetID: d.ID(), ManagerChainID: d.ID(), ManagerAddress: d.Bytes()}
	// Not made to measure: the count is only as good as the value.
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
	return &pchain.Registration{SubnetID: m.SubnetID, ValidationID: m.ValidationID(), Message: b, Expiry: m.Expiry}
}
