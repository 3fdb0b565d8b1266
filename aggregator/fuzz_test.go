package aggregator

import (
	"testing"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/snow/engine/common"
	"github.com/ava-labs/avalanchego/utils/crypto/bls"
)

// Remote bytes never panic, and what is taken for a signature is what the
// library would take for one, save the subgroup, which is checked later.
func FuzzParseAnswer(f *testing.F) {
	n := newFakeNetwork(f, 1)
	f.Add(respond(sign(n.validators[0], []byte("m"))))
	f.Add(respond(nil))
	f.Add([]byte{})
	f.Add([]byte{0x0a, 0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := parseAnswer(b)
		if err != nil {
			return
		}
		compressed := s.Compress()
		_, err = bls.SignatureFromBytes(compressed)
		if valid := s.SigValidate(true); valid != (err == nil) {
			t.Fatalf("got valid %v, the library says %v", valid, err)
		}
	})
}

func FuzzRefusal(f *testing.F) {
	f.Add(int32(16), "provided nonce 3 != expected nonce (5 - 1)")
	f.Fuzz(func(t *testing.T, code int32, text string) {
		definite(ids.Empty, &common.AppError{Code: code, Message: text})
		if len(clip(text)) > maxRefusalText+len("…") {
			t.Fatalf("text of %d bytes was not clipped", len(text))
		}
	})
}
