package validators

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/bits"
	"testing"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/snow/validators"
	"github.com/ava-labs/avalanchego/utils/constants"
	"github.com/ava-labs/avalanchego/utils/crypto/bls"
	"github.com/ava-labs/avalanchego/utils/crypto/bls/signer/localsigner"

	"quorate/internal/node"
)

// FuzzCanonical builds a set as a node may report it. An entry takes one byte that selects
// its key (0 none, up to 7 one of keys, above that 48 bytes of the input), and 8 bytes of
// weight. The total is the rest of the input, or the sum.
func FuzzCanonical(f *testing.F) {
	var keys [8][]byte
	for i := range keys {
		secret := make([]byte, 32)
		secret[31] = byte(i + 1)
		signer, err := localsigner.FromBytes(secret)
		if err != nil {
			f.Fatal(err)
		}
		keys[i] = bls.PublicKeyToCompressedBytes(signer.PublicKey())
	}
	entry := func(key byte, weight uint64) []byte { return binary.BigEndian.AppendUint64([]byte{key}, weight) }
	f.Add(bytes.Join([][]byte{entry(1, 5), entry(2, 6), entry(1, 7), entry(0, 8)}, nil))
	f.Add(bytes.Join([][]byte{entry(3, 1<<63), entry(4, 1<<63)}, nil))
	f.Add(bytes.Join([][]byte{entry(3, 1), {0, 0, 0, 0, 0, 0, 0, 9}}, nil))
	f.Add(append([]byte{8}, append(bytes.Clone(keys[0]), 0, 0, 0, 0, 0, 0, 0, 1)...))
	f.Add(append([]byte{9}, append(append([]byte{0xc0}, make([]byte, 47)...), 0, 0, 0, 0, 0, 0, 0, 1)...))
	f.Fuzz(func(t *testing.T, b []byte) {
		var raw node.ValidatorSet
		outputs := make(map[ids.NodeID]*validators.GetValidatorOutput)
		known, overflows := true, false
		for len(b) >= 9 && len(raw.Validators) < 64 {
			pick := b[0]
			b = b[1:]
			v := node.Validator{NodeIDs: []ids.NodeID{{byte(len(raw.Validators)), 1}}}
			switch {
			case pick == 0:
			case pick < 8:
				v.Key = keys[pick]
			default:
				v.Key = b[:min(len(b), bls.PublicKeyLen)]
				b = b[len(v.Key):]
			}
			if len(b) < 8 {
				break
			}
			v.Weight = binary.BigEndian.Uint64(b)
			b = b[8:]
			raw.Validators = append(raw.Validators, v)
			sum, carry := bits.Add64(raw.TotalWeight, v.Weight, 0)
			raw.TotalWeight, overflows = sum, overflows || carry != 0
			o := &validators.GetValidatorOutput{NodeID: v.NodeIDs[0], Weight: v.Weight}
			if v.Key != nil {
				key, err := bls.PublicKeyFromCompressedBytes(v.Key)
				known = known && err == nil
				o.PublicKey = key
			}
			outputs[o.NodeID] = o
		}
		explicit := len(b) == 8 // a total of its own
		if explicit {
			raw.TotalWeight = binary.BigEndian.Uint64(b)
		}
		got, err := NewResolver(&chain{}, Options{}).canonical(constants.PrimaryNetworkID, 1, raw)
		if err != nil {
			if !errors.Is(err, node.ErrMalformed) {
				t.Fatalf("got %v", err)
			}
			if known && !overflows && !explicit {
				t.Fatalf("refused: %v", err)
			}
			return
		}
		if !known {
			t.Fatal("a key that the library refuses was taken")
		}
		if got.TotalWeight != raw.TotalWeight || got.KeyedWeight() > got.TotalWeight {
			t.Fatalf("got total %d, keyed %d, want total %d", got.TotalWeight, got.KeyedWeight(), raw.TotalWeight)
		}
		var keyed uint64
		for i, v := range got.Validators {
			keyed += v.Weight
			if i > 0 && bytes.Compare(got.Validators[i-1].PublicKeyBytes, v.PublicKeyBytes) >= 0 {
				t.Fatal("not in canonical order")
			}
		}
		if keyed != got.KeyedWeight() {
			t.Fatalf("keyed weight %d, want %d", got.KeyedWeight(), keyed)
		}
		if explicit || overflows {
			return
		}
		want, err := validators.FlattenValidatorSet(outputs)
		if err != nil {
			t.Fatalf("the library refuses: %v", err)
		}
		if len(want.Validators) != len(got.Validators) || want.TotalWeight != got.TotalWeight {
			t.Fatalf("got %d keys of %d, the library %d of %d", len(got.Validators), got.TotalWeight, len(want.Validators), want.TotalWeight)
		}
		for i, v := range want.Validators {
			if !bytes.Equal(v.PublicKeyBytes, got.Validators[i].PublicKeyBytes) || v.Weight != got.Validators[i].Weight || len(v.NodeIDs) != len(got.Validators[i].NodeIDs) {
				t.Fatalf("validator %d: got %+v, the library %+v", i, got.Validators[i], v)
			}
		}
	})
}
