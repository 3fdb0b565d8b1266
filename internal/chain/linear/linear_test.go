package linear_test

import (
	"encoding/binary"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/codec"
	"github.com/ava-labs/avalanchego/codec/linearcodec"
	"github.com/ava-labs/avalanchego/ids"

	"quorate/internal/chain/linear"
)

type (
	shape interface{ isShape() }

	all struct {
		Bool    bool                  `serialize:"true"`
		Byte    uint8                 `serialize:"true"`
		Short   uint16                `serialize:"true"`
		Int     uint32                `serialize:"true"`
		Long    uint64                `serialize:"true"`
		Text    string                `serialize:"true"`
		ID      ids.ID                `serialize:"true"`
		IDs     [2]ids.ShortID        `serialize:"true"`
		Bytes   []byte                `serialize:"true"`
		Longs   []uint64              `serialize:"true"`
		Pointer *inner                `serialize:"true"`
		Shape   shape                 `serialize:"true"`
		Shapes  []shape               `serialize:"true"`
		Nothing []struct{ unset int } `serialize:"true"`
		Skipped int
	}
	inner struct {
		Names []string `serialize:"true"`
	}
	point struct {
		X uint64 `serialize:"true"`
	}
	frame struct {
		Around shape `serialize:"true"`
	}
	other struct {
		Frame *frame `serialize:"true"`
	}
	notShape struct{}
)

func (*point) isShape() {}
func (*frame) isShape() {}
func (*other) isShape() {}

func register(types linearcodec.Codec) error {
	types.SkipRegistrations(2)
	for _, one := range []any{&point{}, &frame{}, &notShape{}, &other{}} {
		if err := types.RegisterType(one); err != nil {
			return err
		}
	}
	return nil
}

const maxBytes = 1 << 10

// library returns the library's codec of the same types.
func library(t testing.TB) codec.Manager {
	types, manager := linearcodec.NewDefault(), codec.NewManager(maxBytes)
	require.NoError(t, register(types))
	require.NoError(t, manager.RegisterCodec(0, types))
	return manager
}

func example() all {
	return all{
		Bool: true, Byte: 1, Short: 2, Int: 3, Long: 4, Text: "five", ID: ids.ID{6}, IDs: [2]ids.ShortID{{7}, {8}}, Bytes: []byte{9},
		Longs: make([]uint64, 17), Pointer: &inner{Names: []string{"ten", ""}}, Shape: &frame{Around: &point{X: 11}},
		Shapes: []shape{&point{X: 12}, &other{Frame: &frame{Around: &point{X: 13}}}, &point{X: 14}},
	}
}

// FuzzDecode requires that a decoder accepts what the library accepts, with the same value, and refuses what it refuses.
func FuzzDecode(f *testing.F) {
	theirs, ours := library(f), linear.New[all](maxBytes, register)
	full, err := theirs.Marshal(0, new(example()))
	require.NoError(f, err)
	f.Add(full)
	for i := range full { // each length and value can be a wrong one
		f.Add(full[:i])
		for _, b := range []byte{2, 3, 0xff} {
			changed := append([]byte(nil), full...)
			changed[i] = b
			f.Add(changed)
		}
	}
	f.Add(append(full, 0))
	f.Fuzz(func(t *testing.T, encoded []byte) {
		var want all
		_, refused := theirs.Unmarshal(encoded, &want)
		got, err := ours.Decode(encoded)
		if refused != nil {
			require.Error(t, err)
			return
		}
		require.NoError(t, err)
		require.Equal(t, want, got)
	})
}

func TestRefused(t *testing.T) {
	decoder := linear.New[shape](maxBytes, register)
	const aPoint, aFrame = "\x00\x00\x00\x02", "\x00\x00\x00\x03"
	for _, test := range []struct {
		name, encoded string
		err           error
		text          string
	}{
		{"no version", "\x00", codec.ErrCantUnpackVersion, ""},
		{"another version", "\x00\x01" + aPoint + "12345678", codec.ErrUnknownVersion, "1"},
		{"too long", "\x00\x00" + aPoint + string(make([]byte, maxBytes)), codec.ErrUnmarshalTooBig, "1030 bytes of at most 1024"},
		{"more than the value", "\x00\x00" + aPoint + "123456789", codec.ErrExtraSpace, "1 bytes of 15"},
		{"an ID without a type", "\x00\x00\x00\x00\x00\x01", codec.ErrDoesNotImplementInterface, "type 1"},
		{"an ID that is too great", "\x00\x00\x00\x00\x00\x40", codec.ErrDoesNotImplementInterface, "type 64"},
		{"a type that is no shape", "\x00\x00\x00\x00\x00\x04", codec.ErrDoesNotImplementInterface, "type 4"},
		{"a frame within a frame", "\x00\x00" + aFrame + aFrame + aPoint + "12345678", nil, "Around: a type is nested within itself"},
		{"a value that ends early", "\x00\x00" + aFrame + aPoint + "1234567", nil, "Around: X: "},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := decoder.Decode([]byte(test.encoded))
			require.ErrorContains(t, err, test.text)
			if test.err != nil {
				require.ErrorIs(t, err, test.err)
			}
			var value shape
			_, err = library(t).Unmarshal([]byte(test.encoded), &value)
			require.Error(t, err, "the library accepts it")
		})
	}
}

// TestLimit decodes a value of maxBytes, and one with a byte more.
func TestLimit(t *testing.T) {
	for _, more := range []int{0, 1} {
		n := maxBytes - 2 - 4 + more
		encoded := append(binary.BigEndian.AppendUint32([]byte{0, 0}, uint32(n)), make([]byte, n)...)
		var theirs []byte
		_, refused := library(t).Unmarshal(encoded, &theirs)
		ours, err := linear.New[[]byte](maxBytes).Decode(encoded)
		if more == 0 {
			require.NoError(t, refused)
			require.NoError(t, err)
			require.Equal(t, theirs, ours)
		} else {
			require.Error(t, refused)
			require.ErrorIs(t, err, codec.ErrUnmarshalTooBig)
		}
	}
}

// TestLengthThatIsNotThere: a length without its elements takes no memory.
func TestLengthThatIsNotThere(t *testing.T) {
	decoder := linear.New[[]uint64](maxBytes)
	encoded := []byte{0, 0, 0x7f, 0xff, 0xff, 0xff}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := decoder.Decode(encoded)
	runtime.ReadMemStats(&after)
	require.Error(t, err)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(1<<20))
}

type signed struct {
	N        uint32 `serialize:"true"`
	unsigned []byte
	bytes    []byte
}

func (s *signed) SetBytes(unsigned, bytes []byte) { s.unsigned, s.bytes = unsigned, bytes }

// TestTransactions: transactions have the bytes that they were decoded from, after the codec's version.
func TestTransactions(t *testing.T) {
	encoded := binary.BigEndian.AppendUint32([]byte{0, 0}, 2)
	encoded = append(encoded, "1234abcd"...)
	got, err := linear.New[[]*signed](maxBytes).Decode(encoded)
	require.NoError(t, err)
	require.Equal(t, []*signed{{N: 0x31323334, bytes: []byte("\x00\x001234")}, {N: 0x61626364, bytes: []byte("\x00\x00abcd")}}, got)
}

func TestNewPanics(t *testing.T) {
	ids := func(n int) func(linearcodec.Codec) error {
		return func(types linearcodec.Codec) error { types.SkipRegistrations(n); return nil }
	}
	registered := func(one any) func(linearcodec.Codec) error {
		return func(types linearcodec.Codec) error { return types.RegisterType(one) }
	}
	require.Panics(t, func() { linear.New[map[int]int](maxBytes) }, "a map")
	require.Panics(t, func() {
		linear.New[struct {
			hidden int `serialize:"true"`
		}](maxBytes)
	}, "a field that is not exported")
	require.NotPanics(t, func() { linear.New[shape](maxBytes, ids(64)) })
	require.Panics(t, func() { linear.New[shape](maxBytes, ids(65)) }, "an ID beyond the bits of a uint64")
	require.Panics(t, func() { linear.New[shape](maxBytes, register, registered(&point{})) }, "a type with two IDs")
	require.Panics(t, func() { linear.New[shape](maxBytes, registered(point{})) }, "a type that is not a pointer")
}
