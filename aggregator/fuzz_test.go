package aggregator

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/proto/pb/sdk"
	"github.com/ava-labs/avalanchego/snow/engine/common"
	"github.com/ava-labs/avalanchego/utils/constants"
	ava "github.com/ava-labs/avalanchego/utils/crypto/bls"
	"github.com/ava-labs/avalanchego/utils/crypto/bls/signer/localsigner"
	"github.com/ava-labs/avalanchego/utils/set"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp/payload"

	"quorate/bls"
	"quorate/p2p"
)

// repeatable makes n have the same keys each time, so that kept inputs mean the
// same thing in every run.
func repeatable(f *testing.F, n *fakeNetwork) {
	for i, v := range n.validators {
		secret := make([]byte, 32)
		secret[31] = byte(i + 1)
		signer, err := localsigner.FromBytes(secret)
		if err != nil {
			f.Fatal(err)
		}
		v.signer = signer
	}
}

// Remote bytes never cause a panic. The parser accepts the signatures that the library accepts, except
// for the subgroup check, which comes later.
func FuzzParseAnswer(f *testing.F) {
	n := newFakeNetwork(f, 1)
	repeatable(f, n)
	valid := sign(n.validators[0], []byte("m"))
	f.Add(respond(valid))
	f.Add(respond(nil))
	f.Add([]byte{})
	f.Add([]byte{0x0a, 0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Add(append(respond(valid), respond([]byte{1})...))
	f.Add(append([]byte{0x10, 0x01}, respond(valid)...))
	f.Add(respond(offSubgroup()))
	f.Add(respond(infinity(nil)))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := parseAnswer(b)
		if err != nil {
			return
		}
		var response sdk.SignatureResponse
		if err := proto.Unmarshal(b, &response); err != nil {
			t.Fatalf("got a signature out of what is no response: %v", err)
		}
		compressed := s.Compress()
		if string(compressed) != string(response.Signature) {
			t.Fatalf("got %x, want the signature that was sent, %x", compressed, response.Signature)
		}
		if len(compressed) != bls.SignatureLen || compressed[0]&0x40 != 0 {
			t.Fatalf("got %x for a signature", compressed)
		}
		_, err = ava.SignatureFromBytes(compressed)
		if valid := s.SigValidate(true); valid != (err == nil) {
			t.Fatalf("got valid %v, the library says %v", valid, err)
		}
	})
}

// Any text of a refusal is grouped, shown and judged within bounds.
func FuzzRefusal(f *testing.F) {
	f.Add(int32(16), "provided nonce 3 != expected nonce (5 - 1)")
	f.Add(int32(16), "provided nonce 5 != expected nonce (5 - 1)")
	f.Add(int32(16), "provided nonce 18446744073709551615 != expected nonce (0 - 1)")
	f.Add(int32(-1), "failed to sign message: wrong networkID")
	f.Add(int32(0), strings.Repeat("ä", 200))
	f.Add(int32(-4), "a\x00b\xff\xfe\"<script>")
	f.Fuzz(func(t *testing.T, code int32, text string) {
		refusal := &common.AppError{Code: code, Message: text}
		definite(constants.PlatformChainID, refusal)
		definite(testChain, refusal)
		var provided, expected uint64
		if n, _ := fmt.Sscanf(text, "provided nonce %d != expected nonce (%d", &provided, &expected); n == 2 && provided >= expected && superseded(text) {
			t.Fatalf("%q: a nonce yet to come cannot be superseded", text)
		}
		shown := clip(text)
		if len(shown) > maxRefusalText+len("…") || !utf8.ValidString(shown) {
			t.Fatalf("got %d bytes, valid %v", len(shown), utf8.ValidString(shown))
		}
		r := roundOf([]uint64{60, 40}, quick)
		r.join(&waiter{need: 67, want: 67}, 0)
		r.next(0)
		r.members[0].state = waiting
		r.failed(r.nodeID(0), refused, refusal, 0)
		account := r.account(67)
		if account.RefusedWeight != 60 || len(account.Refusals) != 1 || account.Refusals[0].Code != code || account.Refusals[0].Message != shown {
			t.Fatalf("got %+v", account)
		}
		for _, source := range []ids.ID{constants.PlatformChainID, testChain} {
			if reason := refusalReason(source, refusal); !slices.Contains(Reasons(), reason) {
				t.Fatalf("got reason %q", reason)
			}
		}
		message := r.failure(CodeRefused, 67, func(ids.NodeID) p2p.Failure { return p2p.Failure{} }).Message
		if len(message) > 4*maxRefusalText+500 { // quoted
			t.Fatalf("got a message of %d bytes", len(message))
		}
		if _, err := json.Marshal(account); err != nil {
			t.Fatal(err)
		}
		if label := refusalLabel(code); len(label) == 0 || len(label) > 32 {
			t.Fatalf("got label %q", label)
		}
	})
}

// A signed message is valid exactly if avalanchego's own verification accepts it. The reported signers have the
// reported weight.
func FuzzJudge(f *testing.F) {
	n := newFakeNetwork(f, 40, 30, 20, 10)
	repeatable(f, n)
	vdrs := n.set()
	call, err := payload.NewAddressedCall(nil, []byte("m"))
	if err != nil {
		f.Fatal(err)
	}
	unsigned, err := warp.NewUnsignedMessage(testNetworkID, ids.ID{1}, call.Bytes())
	if err != nil {
		f.Fatal(err)
	}
	for _, members := range [][]int{{0}, {0, 1}, {1, 3}, {0, 1, 2, 3}, {}} {
		var signatures []*bls.Signature
		for _, i := range members {
			s, err := n.by(vdrs.Validators[i].NodeIDs[0]).signer.Sign(unsigned.Bytes())
			if err != nil {
				f.Fatal(err)
			}
			signatures = append(signatures, s)
		}
		signature := &warp.BitSetSignature{Signers: set.NewBits(members...).Bytes()}
		if aggregate, ok := bls.Aggregate(signatures); ok {
			copy(signature.Signature[:], aggregate.Compress())
		}
		signed, err := warp.NewMessage(unsigned, signature)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(signed.Bytes(), uint8(67))
	}
	f.Fuzz(func(t *testing.T, b []byte, quorum uint8) {
		m, err := warp.ParseMessage(b)
		if err != nil {
			return
		}
		v := Judge(m, vdrs, uint64(quorum))
		signature, ok := m.Signature.(*warp.BitSetSignature)
		if !ok {
			if v.Valid {
				t.Fatal("valid without a bit set")
			}
			return
		}
		err = signature.Verify(&m.UnsignedMessage, m.NetworkID, vdrs.WarpSet, uint64(quorum), 100)
		if v.Valid != (err == nil) || v.Valid != (v.Reason == "") {
			t.Fatalf("got valid %v (%s), the library says %v", v.Valid, v.Reason, err)
		}
		var sum uint64
		for _, s := range v.Signers {
			sum += s.Weight
		}
		if sum != v.Weight || v.Weight > v.TotalWeight || v.Valid && v.Weight < v.TargetWeight {
			t.Fatalf("got %+v", v)
		}
		if errors.Is(err, warp.ErrInsufficientWeight) && v.Weight >= v.TargetWeight {
			t.Fatalf("the library finds too little weight: %+v", v)
		}
	})
}
