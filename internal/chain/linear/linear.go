// Package linear decodes blocks in avalanchego's linear codec (codec/linearcodec, codec/reflectcodec). It accepts what the
// library accepts. It looks up types and fields once, not for each value, and does not encode a transaction again to get
// its bytes; bench/README.md says what that gains.
package linear

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"reflect"

	"github.com/ava-labs/avalanchego/codec"
	"github.com/ava-labs/avalanchego/codec/linearcodec"
	"github.com/ava-labs/avalanchego/codec/reflectcodec"
	"github.com/ava-labs/avalanchego/utils/wrappers"
)

// errNested means that an interface has a type within a value of the same type, at any depth, which the library refuses, too.
var errNested = errors.New("a type is nested within itself")

// version is the only version of the codec on the P- and the X-Chain.
const version = 0

// Decoder decodes values of type T. It is safe for concurrent use.
type Decoder[T any] struct {
	maxBytes int
	decode   decode
}

// New returns a decoder of values of at most maxBytes. Each register function registers types that interfaces can have,
// all pointers; a type's ID is its position. New panics if T has a type that cannot be decoded: types are known when a
// program is written.
func New[T any](maxBytes int, register ...func(linearcodec.Codec) error) *Decoder[T] {
	all := &types{Codec: linearcodec.NewDefault()}
	for _, r := range register {
		if err := r(all); err != nil {
			panic(fmt.Sprintf("registering the types within %s: %v", reflect.TypeFor[T](), err))
		}
	}
	b := builder{types: all.list, decoders: make(map[reflect.Type]*decode)}
	return &Decoder[T]{maxBytes, *b.decoder(reflect.TypeFor[T]())}
}

// Decode decodes a value and its transactions, whose SetBytes it calls with nil for the unsigned bytes. The value refers to
// encoded. It fails where the library's codec does, and then returns a part of the value.
func (d *Decoder[T]) Decode(encoded []byte) (value T, err error) {
	if len(encoded) > d.maxBytes {
		return value, fmt.Errorf("%w: %d bytes of at most %d", codec.ErrUnmarshalTooBig, len(encoded), d.maxBytes)
	}
	p := &wrappers.Packer{Bytes: encoded}
	switch v := p.UnpackShort(); {
	case p.Errored():
		return value, codec.ErrCantUnpackVersion
	case v != version:
		return value, fmt.Errorf("%w %d", codec.ErrUnknownVersion, v)
	}
	if err := d.decode(p, reflect.ValueOf(&value).Elem(), 0); err != nil {
		return value, err
	}
	if p.Offset != len(encoded) {
		return value, fmt.Errorf("%w: %d bytes of %d", codec.ErrExtraSpace, len(encoded)-p.Offset, len(encoded))
	}
	return value, nil
}

// types collects registered types.
type types struct {
	linearcodec.Codec
	list []reflect.Type // by ID; nil for an ID without a type
}

func (t *types) RegisterType(value any) error {
	one := reflect.TypeOf(value)
	if one.Kind() != reflect.Pointer {
		return fmt.Errorf("%s is not a pointer", one)
	}
	t.list = append(t.list, one)
	return t.Codec.RegisterType(value) // refuses what is registered twice
}

func (t *types) SkipRegistrations(n int) { t.list = append(t.list, make([]reflect.Type, n)...) }

// decode decodes a value into v, which can be set. Within has a bit for the ID of each type that contains the value by way
// of an interface.
type decode func(p *wrappers.Packer, v reflect.Value, within uint64) error

// builder builds one decode for each type.
type builder struct {
	types    []reflect.Type
	decoders map[reflect.Type]*decode
}

// decoder returns a pointer to the decode of a type. The decode is nil while it is being built: types may contain themselves.
func (b *builder) decoder(t reflect.Type) *decode {
	d := b.decoders[t]
	if d == nil {
		d = new(decode)
		b.decoders[t] = d
		*d = b.build(t)
	}
	return d
}

func (b *builder) build(t reflect.Type) decode {
	switch t.Kind() {
	case reflect.Bool:
		return func(p *wrappers.Packer, v reflect.Value, _ uint64) error { v.SetBool(p.UnpackBool()); return p.Err }
	case reflect.Uint8:
		return func(p *wrappers.Packer, v reflect.Value, _ uint64) error {
			v.SetUint(uint64(p.UnpackByte()))
			return p.Err
		}
	case reflect.Uint16:
		return func(p *wrappers.Packer, v reflect.Value, _ uint64) error {
			v.SetUint(uint64(p.UnpackShort()))
			return p.Err
		}
	case reflect.Uint32:
		return func(p *wrappers.Packer, v reflect.Value, _ uint64) error {
			v.SetUint(uint64(p.UnpackInt()))
			return p.Err
		}
	case reflect.Uint64:
		return func(p *wrappers.Packer, v reflect.Value, _ uint64) error { v.SetUint(p.UnpackLong()); return p.Err }
	case reflect.String:
		return func(p *wrappers.Packer, v reflect.Value, _ uint64) error { v.SetString(p.UnpackStr()); return p.Err }
	case reflect.Array:
		return b.array(t)
	case reflect.Slice:
		return b.slice(t)
	case reflect.Struct:
		return b.structure(t)
	case reflect.Pointer:
		return b.pointer(t)
	case reflect.Interface:
		return b.implementations(t)
	}
	panic(fmt.Sprintf("a value of type %s cannot be decoded", t))
}

func (b *builder) array(t reflect.Type) decode {
	n := t.Len()
	if t.Elem().Kind() == reflect.Uint8 {
		return func(p *wrappers.Packer, v reflect.Value, _ uint64) error {
			copy(v.Bytes(), p.UnpackFixedBytes(n))
			return p.Err
		}
	}
	element := b.decoder(t.Elem())
	return func(p *wrappers.Packer, v reflect.Value, within uint64) error {
		for i := range n {
			if err := (*element)(p, v.Index(i), within); err != nil {
				return err
			}
		}
		return nil
	}
}

// firstElements is the capacity that a slice has at most before its elements were read: the encoded length is not trusted.
const firstElements = 16

func (b *builder) slice(t reflect.Type) decode {
	if t.Elem().Kind() == reflect.Uint8 {
		return func(p *wrappers.Packer, v reflect.Value, _ uint64) error {
			n, err := length(p)
			if err == nil {
				v.SetBytes(p.UnpackFixedBytes(n))
				err = p.Err
			}
			return err
		}
	}
	element := b.decoder(t.Elem())
	return func(p *wrappers.Packer, v reflect.Value, within uint64) error {
		n, err := length(p)
		if err != nil {
			return err
		}
		v.Set(reflect.MakeSlice(t, 0, min(n, firstElements)))
		for i := range n {
			if i == v.Cap() {
				v.Grow(1)
			}
			v.SetLen(i + 1)
			before := p.Offset
			if err := (*element)(p, v.Index(i), within); err != nil {
				return err
			}
			if p.Offset == before {
				return codec.ErrUnmarshalZeroLength
			}
		}
		return nil
	}
}

// length decodes the length of a slice.
func length(p *wrappers.Packer) (int, error) {
	n := p.UnpackInt()
	if n > math.MaxInt32 {
		return 0, fmt.Errorf("%w: %d", codec.ErrMaxSliceLenExceeded, n)
	}
	return int(n), p.Err
}

// transaction is implemented by the transactions of the P- and the X-Chain (avalanchego vms/platformvm/txs, vms/avm/txs), and
// by no struct that contains one.
type transaction interface {
	SetBytes(unsigned, signed []byte)
}

func (b *builder) structure(t reflect.Type) decode {
	type field struct {
		name   string
		index  int
		decode *decode
	}
	var fields []field
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Tag.Get(reflectcodec.DefaultTagName) != reflectcodec.TagValue {
			continue
		}
		if !f.IsExported() {
			panic(fmt.Sprintf("the field %s of %s cannot be set", f.Name, t))
		}
		fields = append(fields, field{f.Name, i, b.decoder(f.Type)})
	}
	isTransaction := reflect.PointerTo(t).Implements(reflect.TypeFor[transaction]())
	return func(p *wrappers.Packer, v reflect.Value, within uint64) error {
		from := p.Offset
		for i := range fields {
			f := &fields[i]
			if err := (*f.decode)(p, v.Field(f.index), within); err != nil {
				return fmt.Errorf("%s: %w", f.name, err)
			}
		}
		if isTransaction {
			bytes := make([]byte, codec.VersionSize, codec.VersionSize+p.Offset-from)
			binary.BigEndian.PutUint16(bytes, version)
			v.Addr().Interface().(transaction).SetBytes(nil, append(bytes, p.Bytes[from:p.Offset]...))
		}
		return nil
	}
}

func (b *builder) pointer(t reflect.Type) decode {
	element := b.decoder(t.Elem())
	return func(p *wrappers.Packer, v reflect.Value, within uint64) error {
		target := reflect.New(t.Elem())
		v.Set(target)
		return (*element)(p, target.Elem(), within)
	}
}

// implementations returns the decode of an interface.
func (b *builder) implementations(t reflect.Type) decode {
	if len(b.types) > 64 {
		panic(fmt.Sprintf("%d types are more than a uint64 has bits", len(b.types)))
	}
	decoders := make([]*decode, len(b.types)) // by ID
	for id, one := range b.types {
		if one != nil && one.Implements(t) {
			decoders[id] = b.decoder(one.Elem())
		}
	}
	return func(p *wrappers.Packer, v reflect.Value, within uint64) error {
		id := p.UnpackInt()
		switch {
		case p.Err != nil:
			return p.Err
		case uint64(id) >= uint64(len(decoders)) || decoders[id] == nil:
			return fmt.Errorf("%w: type %d, %s", codec.ErrDoesNotImplementInterface, id, t)
		case within&(1<<id) != 0:
			return fmt.Errorf("%w: %s", errNested, b.types[id])
		}
		value := reflect.New(b.types[id].Elem())
		if err := (*decoders[id])(p, value.Elem(), within|1<<id); err != nil {
			return err
		}
		v.Set(value)
		return nil
	}
}
