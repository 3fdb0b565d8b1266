package l1record

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp/message"

	"quorate/chain/pchain"
	"quorate/store"
)

// The values of rows begin with a version; numbers are uvarints, IDs 32 bytes, and
// byte strings come after their length.
const version = 1

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
	d := decoder{rest: b}
	d.version()
	tx := &pchain.L1Transaction{TxID: txID, Height: d.number(), Time: d.time()}
	switch kind := d.byte(); kind {
	case kindConversion:
		tx.Event = d.conversion()
	case kindRegistration:
		tx.Event = d.registration(d.bytes())
	case kindWeightChange:
		tx.Event = &pchain.WeightChange{ValidationID: d.id(), Nonce: d.number(), Weight: d.number()}
	default:
		d.fail(fmt.Errorf("event of kind %d", kind))
	}
	if err := d.end(); err != nil {
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
	d := decoder{rest: begin.V}
	d.version()
	v := &pchain.Validation{SubnetID: d.id(), RegistrationTxID: d.id()}
	number := d.number()
	if number > math.MaxUint32 {
		d.fail(fmt.Errorf("number %d in a conversion", number))
	}
	v.ConversionIndex = uint32(number)
	if m := d.bytes(); len(m) > 0 {
		v.Registration = d.registration(m)
	}
	if err := d.end(); err != nil {
		return nil, err
	}
	if latest.V == nil {
		return v, nil
	}
	d = decoder{rest: latest.V}
	d.version()
	c := &pchain.L1WeightChange{TxID: d.id(), Height: d.number()}
	c.ValidationID, c.Weight = validationID, d.number()
	if len(latest.K) != 9 {
		d.fail(fmt.Errorf("key of %d bytes", len(latest.K)))
	} else {
		c.Nonce = binary.BigEndian.Uint64(latest.K[1:])
	}
	v.LatestWeightChange = c
	if err := d.end(); err != nil {
		return nil, err
	}
	return v, nil
}

func appendBytes(b, part []byte) []byte {
	return append(binary.AppendUvarint(b, uint64(len(part))), part...)
}

// decoder reads a value from its beginning. After the first error it reads zeroes.
// What it returns refers to the value, which readers of a store own.
type decoder struct {
	rest []byte
	err  error
}

var errShort = errors.New("it ends early")

func (d *decoder) fail(err error) {
	if d.err == nil {
		d.err = fmt.Errorf("%w: row that cannot be read: %w", store.ErrCorrupt, err)
	}
	d.rest = nil
}

func (d *decoder) end() error {
	if d.err == nil && len(d.rest) > 0 {
		d.fail(fmt.Errorf("%d bytes too many", len(d.rest)))
	}
	return d.err
}

func (d *decoder) take(n int) []byte {
	if n > len(d.rest) {
		d.fail(errShort)
		return nil
	}
	part := d.rest[:n:n]
	d.rest = d.rest[n:]
	return part
}

func (d *decoder) version() {
	if v := d.byte(); v != version {
		d.fail(fmt.Errorf("version %d", v))
	}
}

func (d *decoder) byte() byte {
	if part := d.take(1); part != nil {
		return part[0]
	}
	return 0
}

func (d *decoder) number() uint64 {
	v, n := binary.Uvarint(d.rest)
	if n <= 0 {
		d.fail(errShort)
		return 0
	}
	d.rest = d.rest[n:]
	return v
}

func (d *decoder) time() time.Time { return time.Unix(int64(d.number()), 0).UTC() }

func (d *decoder) id() (id ids.ID) {
	copy(id[:], d.take(len(id)))
	return id
}

func (d *decoder) bytes() []byte {
	n := d.number()
	if n > uint64(len(d.rest)) {
		d.fail(errShort)
		return nil
	}
	return d.take(int(n))
}

func (d *decoder) conversion() *pchain.Conversion {
	c := &pchain.Conversion{SubnetID: d.id(), ManagerChainID: d.id(), ManagerAddress: d.bytes()}
	// Not made to measure: the count is only as good as the value.
	for n := d.number(); n > 0 && d.err == nil; n-- {
		v := pchain.ConvertedValidator{NodeID: d.bytes()}
		copy(v.PublicKey[:], d.take(len(v.PublicKey)))
		v.Weight = d.number()
		c.Validators = append(c.Validators, v)
	}
	return c
}

func (d *decoder) registration(b []byte) *pchain.Registration {
	if d.err != nil {
		return nil
	}
	m, err := message.ParseRegisterL1Validator(b)
	if err != nil {
		d.fail(err)
		return nil
	}
	return &pchain.Registration{SubnetID: m.SubnetID, ValidationID: m.ValidationID(), Message: b, Expiry: m.Expiry}
}
