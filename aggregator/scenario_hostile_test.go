package aggregator

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	blst "github.com/supranational/blst/bindings/go"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/snow/engine/common"
	snow "github.com/ava-labs/avalanchego/snow/validators"
	"github.com/ava-labs/avalanchego/utils/crypto/bls"
	"github.com/ava-labs/avalanchego/utils/crypto/bls/signer/localsigner"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp"

	"quorate/internal/node"
	"quorate/p2p"
	"quorate/validators"
)

// mangle changes the valid signature before it is sent.
func mangle(change func(signature []byte) []byte) behave {
	return func(v *fakeValidator, m *warp.UnsignedMessage) ([]byte, error, time.Duration, bool) {
		return respond(change(sign(v, m.Bytes()))), nil, 5 * time.Millisecond, true
	}
}

func replay(other *fakeValidator) behave {
	return func(_ *fakeValidator, m *warp.UnsignedMessage) ([]byte, error, time.Duration, bool) {
		return respond(sign(other, m.Bytes())), nil, 0, true
	}
}

// collude shifts the valid signature by a point that another's shift cancels.
func collude(shift func(signature, x *blst.P2) *blst.P2) behave {
	x := blst.HashToG2([]byte("x"), []byte("collusion"))
	return func(v *fakeValidator, m *warp.UnsignedMessage) ([]byte, error, time.Duration, bool) {
		s, err := v.signer.Sign(m.Bytes())
		if err != nil {
			panic(err)
		}
		var p blst.P2
		p.FromAffine(s)
		return respond(shift(&p, x).ToAffine().Compress()), nil, time.Millisecond, true
	}
}

func colludeUp() behave {
	return collude(func(p, x *blst.P2) *blst.P2 { return p.Add(x) })
}

func colludeDown() behave {
	return collude(func(p, x *blst.P2) *blst.P2 { return p.Sub(x) })
}

// offSubgroup finds a point on the curve of G2 outside the subgroup.
func offSubgroup() []byte {
	rng := rand.New(rand.NewPCG(1, 2))
	for {
		b := make([]byte, 96)
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		b[0] = 0x80 | b[0]&0x0f
		b[48] &= 0x0f
		if p := new(blst.P2Affine).Uncompress(b); p != nil && !p.SigValidate(true) {
			return b
		}
	}
}

// shifted is a valid signature plus a point outside the subgroup.
func shifted(signature []byte) []byte {
	var p, q blst.P2
	p.FromAffine(new(blst.P2Affine).Uncompress(signature))
	q.FromAffine(new(blst.P2Affine).Uncompress(offSubgroup()))
	return p.Add(&q).ToAffine().Compress()
}

func infinity([]byte) []byte {
	b := make([]byte, 96)
	b[0] = 0xc0
	return b
}

// oddLengths, oddPoints and oddBytes are answers that are no signature.
func oddLengths() map[string]behave {
	return map[string]behave{
		"0 bytes in a protobuf that is not empty": answer([]byte{0x0a, 0x00}),
		"1 byte":    mangle(func(s []byte) []byte { return s[:1] }),
		"48 bytes":  mangle(func(s []byte) []byte { return s[:48] }),
		"95 bytes":  mangle(func(s []byte) []byte { return s[:95] }),
		"97 bytes":  mangle(func(s []byte) []byte { return append(s, 0) }),
		"192 bytes": mangle(func(s []byte) []byte { return append(s, s...) }),
	}
}

func oddPoints() map[string]behave {
	return map[string]behave{
		"infinity": mangle(infinity),
		"infinity with a tail": mangle(func(s []byte) []byte {
			b := infinity(s)
			b[95] = 1
			return b
		}),
		"off the curve":                          mangle(func([]byte) []byte { return bytes.Repeat([]byte{0x85}, 96) }),
		"off the subgroup":                       mangle(func([]byte) []byte { return offSubgroup() }),
		"valid but for a point off the subgroup": mangle(shifted),
		"not marked as compressed":               mangle(func(s []byte) []byte { s[0] &^= 0x80; return s }),
		"uncompressed":                           mangle(func(s []byte) []byte { return new(blst.P2Affine).Uncompress(s).Serialize() }),
		"the other sign":                         mangle(func(s []byte) []byte { s[0] ^= 0x20; return s }),
		"x above the modulus":                    mangle(func([]byte) []byte { return bytes.Repeat([]byte{0x9f}, 96) }),
	}
}

func oddBytes() map[string]behave {
	nested := []byte{}
	for range 1000 { // field 9, a message in a message
		nested = append([]byte{0x4a}, append(varint(len(nested)), nested...)...)
	}
	return map[string]behave{
		"2 MiB of zeros":              answer(make([]byte, 2<<20)),
		"2 MiB of signature":          answer(respond(make([]byte, 2<<20-8))),
		"all ones":                    answer(bytes.Repeat([]byte{0xff}, 100)),
		"a length beyond the end":     answer([]byte{0x0a, 0xff, 0xff, 0xff, 0xff, 0x0f}),
		"groups that never end":       answer(bytes.Repeat([]byte{0x0b}, 20_000)),
		"a thousand messages deep":    answer(nested),
		"100000 unknown fields":       answer(bytes.Repeat([]byte{0x10, 0x01}, 100_000)),
		"the field as another type":   answer([]byte{0x08, 0x01}),
		"two signatures, the last no": mangleAll(func(s []byte) []byte { return append(respond(s), respond([]byte{1})...) }),
	}
}

// mangleAll is mangle for the whole answer.
func mangleAll(change func(signature []byte) []byte) behave {
	return func(v *fakeValidator, m *warp.UnsignedMessage) ([]byte, error, time.Duration, bool) {
		return change(sign(v, m.Bytes())), nil, 5 * time.Millisecond, true
	}
}

func varint(n int) []byte {
	var b []byte
	for ; n >= 0x80; n >>= 7 {
		b = append(b, byte(n)|0x80)
	}
	return append(b, byte(n))
}

func TestScenario_7_2_01_SignatureOfAnotherLength(t *testing.T) {
	for name, fault := range oddLengths() {
		t.Run(name, func(t *testing.T) { requireOneFaultHarmless(t, func(*fakeNetwork) behave { return fault }) })
	}
}

func TestScenario_7_2_02_PointsThatSignNothing(t *testing.T) {
	for name, fault := range oddPoints() {
		t.Run(name, func(t *testing.T) { requireOneFaultHarmless(t, func(*fakeNetwork) behave { return fault }) })
	}
}

func TestScenario_7_2_03_SignatureOfAnotherMessage(t *testing.T) {
	requireOneFaultHarmless(t, func(*fakeNetwork) behave { return forge })
}

func TestScenario_7_2_04_SignatureOfAnotherValidator(t *testing.T) {
	requireOneFaultHarmless(t, func(n *fakeNetwork) behave { return replay(n.validators[2]) })
}

// Two trusted owners whose signatures' errors cancel out make a valid aggregate of invalid parts. The
// message may be returned, but the cache must not keep either part. Afterwards neither owner is
// trusted.
func TestScenario_7_2_05_CollusionNeverEntersTheSignatureCache(t *testing.T) {
	n := newFakeNetwork(t, 40, 40, 20)
	run(t, n, func(t *testing.T, ctx context.Context, a *Aggregator) {
		_, err := a.Sign(ctx, Request{Message: testMessage(t, "earns trust")})
		require.NoError(t, err)
		settle()
		n.validators[0].do, n.validators[1].do, n.validators[2].do = colludeUp(), colludeDown(), mute
		message := testMessage(t, "m")
		r, err := a.Sign(ctx, Request{Message: message})
		require.NoError(t, err)
		requireValid(t, n, r, 67)
		settle()
		for _, v := range n.set().Validators {
			_, ok := a.verified.get(message.ID(), v)
			require.False(t, ok, "an unverified signature was kept")
		}
		// One of the two would suffice, but neither is valid.
		_, err = a.Sign(ctx, Request{Message: message, QuorumPercentage: 40})
		failed := requireFailure(t, err, CodeQuorumNotReached)
		require.Equal(t, uint64(80), failed.Account.InvalidWeight)
		n.validators[2].do = honest(time.Millisecond)
		r, err = a.Sign(ctx, Request{Message: message, QuorumPercentage: 20})
		require.NoError(t, err)
		requireValid(t, n, r, 20)
		// Asked for all three, the two cancel out again, and all is well again.
		r, err = a.Sign(ctx, Request{Message: message, QuorumPercentage: 100})
		if err == nil {
			requireValid(t, n, r, 100)
		}
		settle()
		for _, v := range n.validators[:2] {
			i, _ := n.set().Index(v.nodeIDs[0])
			_, ok := a.verified.get(message.ID(), n.set().Validators[i])
			require.False(t, ok, "an invalid signature was kept")
		}
	})
}

// A transport should deliver one answer for each requested node. If it delivers more, nothing is
// counted twice.
func TestScenario_7_2_06_AThousandAnswersCountOnce(t *testing.T) {
	for name, respondWith := range map[string]func(v *fakeValidator, m *warp.UnsignedMessage) []byte{
		"valid":   func(v *fakeValidator, m *warp.UnsignedMessage) []byte { return respond(sign(v, m.Bytes())) },
		"invalid": func(*fakeValidator, *warp.UnsignedMessage) []byte { return respond([]byte{1}) },
	} {
		t.Run(name, func(t *testing.T) {
			n := newFakeNetwork(t, 34, 33, 33)
			spammer := n.validators[0]
			spammer.takeOver = func(nodeID ids.NodeID, m *warp.UnsignedMessage, deliver func(p2p.Answer)) {
				b := respondWith(spammer, m)
				for range 1000 {
					deliver(p2p.Answer{NodeID: nodeID, Bytes: b, Elapsed: time.Millisecond})
				}
			}
			n.validators[1].do, n.validators[2].do = mute, mute
			run(t, n, func(t *testing.T, ctx context.Context, a *Aggregator) {
				_, err := a.Sign(ctx, Request{Message: testMessage(t, "m")})
				failed := requireFailure(t, err, CodeQuorumNotReached)
				require.Equal(t, uint64(34), failed.Account.SignedWeight+failed.Account.InvalidWeight)
				require.Equal(t, uint64(66), failed.Account.SilentWeight+failed.Account.UnansweredWeight)
				require.Equal(t, 1, spammer.requests)
			})
		})
	}
}

func TestScenario_7_2_07_AnswerOfANodeThatWasNotAsked(t *testing.T) {
	n := newFakeNetwork(t, 60, 40)
	n.validators[1].offline = true
	stranger := ids.NodeID{99}
	n.validators[0].takeOver = func(nodeID ids.NodeID, m *warp.UnsignedMessage, deliver func(p2p.Answer)) {
		deliver(p2p.Answer{NodeID: stranger, Bytes: respond(sign(n.validators[0], m.Bytes()))})
		deliver(p2p.Answer{NodeID: n.validators[1].nodeIDs[0], Bytes: respond(sign(n.validators[1], m.Bytes()))})
		deliver(p2p.Answer{NodeID: n.validators[1].nodeIDs[0], Err: &common.AppError{Code: -2}})
		deliver(p2p.Answer{NodeID: nodeID, Bytes: respond(sign(n.validators[0], m.Bytes()))})
	}
	run(t, n, func(t *testing.T, ctx context.Context, a *Aggregator) {
		_, err := a.Sign(ctx, Request{Message: testMessage(t, "m")})
		failed := requireFailure(t, err, CodeQuorumNotReached)
		require.Equal(t, uint64(60), failed.Account.SignedWeight)
		require.Equal(t, uint64(40), failed.Account.DisconnectedWeight)
		r, err := a.Sign(ctx, Request{Message: testMessage(t, "m"), QuorumPercentage: 60})
		require.NoError(t, err)
		requireValid(t, n, r, 60)
	})
}

func TestScenario_7_2_09_AnswerBeforeTheRequestReturns(t *testing.T) {
	n := newFakeNetwork(t, 34, 33, 33)
	for _, v := range n.validators {
		v.takeOver = func(nodeID ids.NodeID, m *warp.UnsignedMessage, deliver func(p2p.Answer)) {
			deliver(p2p.Answer{NodeID: nodeID, Bytes: respond(sign(v, m.Bytes()))})
		}
	}
	run(t, n, func(t *testing.T, ctx context.Context, a *Aggregator) {
		start := time.Now()
		r, err := a.Sign(ctx, Request{Message: testMessage(t, "m"), QuorumPercentage: 100})
		require.NoError(t, err)
		requireValid(t, n, r, 100)
		require.Zero(t, time.Since(start))
	})
}

// If a request gets an error and a response, the first one counts.
func TestScenario_7_2_10_ErrorAndResponse(t *testing.T) {
	refusal := func(code int32) error { return &common.AppError{Code: code, Message: "no"} }
	for _, test := range []struct {
		name        string
		code        int32
		errorFirst  bool
		signs       bool
		mostAsked   int
		refusedOnce uint64
	}{
		{name: "a refusal for good, then a response", code: -2, errorFirst: true, refusedOnce: 40, mostAsked: 1},
		{name: "a refusal for now, then a response", code: 0, errorFirst: true, signs: true, mostAsked: 2},
		{name: "a response, then a refusal for good", code: -2, signs: true, mostAsked: 1},
		{name: "a response, then a refusal for now", code: 0, signs: true, mostAsked: 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			n := newFakeNetwork(t, 60, 40)
			torn := n.validators[1]
			torn.takeOver = func(nodeID ids.NodeID, m *warp.UnsignedMessage, deliver func(p2p.Answer)) {
				failed := p2p.Answer{NodeID: nodeID, Err: refusal(test.code)}
				good := p2p.Answer{NodeID: nodeID, Bytes: respond(sign(torn, m.Bytes())), Elapsed: time.Millisecond}
				if torn.requests > 1 { // asked again it is of one mind
					deliver(good)
					return
				}
				if test.errorFirst {
					deliver(failed)
					deliver(good)
				} else {
					deliver(good)
					deliver(failed)
				}
			}
			run(t, n, func(t *testing.T, ctx context.Context, a *Aggregator) {
				start := time.Now()
				r, err := a.Sign(ctx, Request{Message: testMessage(t, "m")})
				require.Less(t, time.Since(start), time.Second)
				require.LessOrEqual(t, torn.requests, test.mostAsked)
				if !test.signs {
					failed := requireFailure(t, err, CodeRefused)
					require.Equal(t, test.refusedOnce, failed.Account.RefusedWeight)
					return
				}
				require.NoError(t, err)
				requireValid(t, n, r, 67)
			})
		})
	}
}

func TestScenario_7_2_11_HugeAndOddAnswers(t *testing.T) {
	for name, fault := range oddBytes() {
		t.Run(name, func(t *testing.T) { requireOneFaultHarmless(t, func(*fakeNetwork) behave { return fault }) })
	}
}

// A round waits for a slow validator that the quorum needs, for as long as an answer may take. A
// refusal of it ends the wait at once.
func TestScenario_7_2_12_LateIsNotInfeasible(t *testing.T) {
	for _, test := range []struct {
		name  string
		do    behave
		code  Code
		after time.Duration
	}{
		{"late", honest(3 * time.Second), "", 3 * time.Second},
		{"too late", honest(6 * time.Second), CodeQuorumNotReached, 5 * time.Second},
		{"infeasible", refuse(-2, "no", 20*time.Millisecond), CodeRefused, 20 * time.Millisecond},
	} {
		t.Run(test.name, func(t *testing.T) {
			n := newFakeNetwork(t, 34, 33, 33)
			n.validators[0].do = test.do
			run(t, n, func(t *testing.T, ctx context.Context, a *Aggregator) {
				start := time.Now()
				r, err := a.Sign(ctx, Request{Message: testMessage(t, "m")})
				require.Equal(t, test.after, time.Since(start))
				require.Equal(t, 1, n.validators[0].requests)
				if test.code == "" {
					require.NoError(t, err)
					requireValid(t, n, r, 67)
					return
				}
				failed := requireFailure(t, err, test.code)
				require.Equal(t, uint64(34), failed.Account.SilentWeight+failed.Account.RefusedWeight)
				require.Equal(t, uint64(66), failed.Account.SignedWeight)
			})
			// A round that does not need it does not wait for it.
			run(t, n, func(t *testing.T, ctx context.Context, a *Aggregator) {
				start := time.Now()
				r, err := a.Sign(ctx, Request{Message: testMessage(t, "m"), QuorumPercentage: 66})
				require.NoError(t, err)
				requireValid(t, n, r, 66)
				require.Less(t, time.Since(start), time.Second)
			})
		})
	}
}

func TestScenario_7_2_13_ReconnectDuringTheRequest(t *testing.T) {
	n := newFakeNetwork(t, 60, 40)
	v := n.validators[0]
	v.takeOver = func(nodeID ids.NodeID, m *warp.UnsignedMessage, deliver func(p2p.Answer)) {
		if v.requests > 1 {
			deliver(p2p.Answer{NodeID: nodeID, Bytes: respond(sign(v, m.Bytes())), Elapsed: time.Millisecond})
			return
		}
		time.AfterFunc(100*time.Millisecond, func() {
			n.mu.Lock()
			v.offline = true
			n.mu.Unlock()
			deliver(p2p.Answer{NodeID: nodeID, Err: p2p.ErrDisconnected})
		})
	}
	run(t, n, func(t *testing.T, ctx context.Context, a *Aggregator) {
		time.AfterFunc(500*time.Millisecond, func() { n.connect(0) })
		start := time.Now()
		r, err := a.Sign(ctx, Request{Message: testMessage(t, "m")})
		require.NoError(t, err)
		requireValid(t, n, r, 67)
		require.Equal(t, 500*time.Millisecond, time.Since(start))
		require.Equal(t, 2, v.requests)
	})
}

// Nodes that share a key replace each other. Only the node that answered badly gets a strike.
func TestScenario_7_2_14_NodesSharingAKeyAnswerDifferently(t *testing.T) {
	first, second := ids.NodeID{7, 1}, ids.NodeID{7, 2}
	good := honest(time.Millisecond)
	for _, test := range []struct {
		name          string
		first, second behave
		asked         int
		code          Code
		within        time.Duration
		forger        ids.NodeID // who is taken for one afterwards
	}{
		{name: "the first is good", first: good, second: forge, asked: 1, within: 20 * time.Millisecond},
		{name: "no signature, then good", first: answer(respond([]byte{1})), second: good, asked: 2, within: 50 * time.Millisecond, forger: first},
		{name: "another message, then good", first: forge, second: good, asked: 2, within: 50 * time.Millisecond, forger: first},
		{name: "refused for good, then good", first: refuse(-2, "no", 0), second: good, asked: 2, within: 50 * time.Millisecond},
		{name: "unanswered, then good", first: mute, second: good, asked: 2, within: 5*time.Second + 50*time.Millisecond},
		{name: "both bad", first: forge, second: forge, asked: 2, code: CodeQuorumNotReached, within: 100 * time.Millisecond, forger: second},
		{name: "bad, then refused for good", first: forge, second: refuse(-2, "no", 0), asked: 2, code: CodeRefused, within: 100 * time.Millisecond, forger: first},
	} {
		t.Run(test.name, func(t *testing.T) {
			n := newFakeNetwork(t, 60, 40)
			v := n.validators[0]
			v.nodeIDs = []ids.NodeID{first, second}
			v.takeOver = func(nodeID ids.NodeID, m *warp.UnsignedMessage, deliver func(p2p.Answer)) {
				do := test.first
				if nodeID == second {
					do = test.second
				}
				if b, err, after, ok := do(v, m); ok {
					time.AfterFunc(after, func() { deliver(p2p.Answer{NodeID: nodeID, Bytes: b, Err: err, Elapsed: after}) })
				}
			}
			run(t, n, func(t *testing.T, ctx context.Context, a *Aggregator) {
				start := time.Now()
				r, err := a.Sign(ctx, Request{Message: testMessage(t, "m")})
				require.LessOrEqual(t, time.Since(start), test.within)
				require.Equal(t, test.asked, v.requests)
				if test.code != "" {
					requireFailure(t, err, test.code)
				} else {
					require.NoError(t, err)
					requireValid(t, n, r, 67)
				}
				settle()
				a.history.mu.Lock()
				defer a.history.mu.Unlock()
				for _, nodeID := range v.nodeIDs {
					key := keyOf(n.set().Validators[slices.IndexFunc(n.set().Validators, func(w *snow.Warp) bool { return slices.Contains(w.NodeIDs, nodeID) })])
					_, struck := a.history.expect(signer{nodeID, key}, time.Now())
					require.Equal(t, nodeID == test.forger || test.code == CodeQuorumNotReached, struck, "%s is asked last", nodeID)
				}
			})
		})
	}
}

func TestScenario_7_2_15_KeylessWeightMakesQuorumImpossible(t *testing.T) {
	n := newFakeNetwork(t, 30, 30)
	n.keyless = 40
	run(t, n, func(t *testing.T, ctx context.Context, a *Aggregator) {
		start := time.Now()
		_, err := a.Sign(ctx, Request{Message: testMessage(t, "m")})
		failed := requireFailure(t, err, CodeQuorumImpossible)
		require.Contains(t, failed.Message, "hold 60 of a total weight of 100")
		require.Zero(t, n.requests)
		require.Zero(t, time.Since(start))
		r, err := a.Sign(ctx, Request{Message: testMessage(t, "m"), QuorumPercentage: 60})
		require.NoError(t, err)
		requireValid(t, n, r, 60)
		require.Equal(t, uint64(40), r.Account.KeylessWeight)
	})
}

func TestScenario_7_2_16_WeightsNear2To64AndTheCeiling(t *testing.T) {
	for _, test := range []struct {
		name    string
		weights []uint64
		keyless uint64
		quorum  uint64
		weight  uint64
		code    Code
	}{
		{name: "total 7 quorum 67 needs 5", weights: sameWeights(7, 1), quorum: 67, weight: 5},
		{name: "quorum 1", weights: sameWeights(3, 1), quorum: 1, weight: 1},
		{name: "two halves of 2^64", weights: sameWeights(2, math.MaxUint64/2), quorum: 67, weight: math.MaxUint64 - 1},
		{name: "one of all there is", weights: []uint64{math.MaxUint64}, quorum: 100, weight: math.MaxUint64},
		{name: "exactly half of all there is", weights: []uint64{1 << 63, 1<<63 - 1}, quorum: 50, weight: 1 << 63},
		{name: "a unit short of half", weights: []uint64{1<<63 - 1}, keyless: 1 << 63, quorum: 50, code: CodeQuorumImpossible},
		{name: "keyless but for the quorum", weights: []uint64{184467440737095517}, keyless: math.MaxUint64 - 184467440737095517, quorum: 1, weight: 184467440737095517},
		{name: "keyless but for a unit less", weights: []uint64{184467440737095516}, keyless: math.MaxUint64 - 184467440737095516, quorum: 1, code: CodeQuorumImpossible},
	} {
		t.Run(test.name, func(t *testing.T) {
			n := newFakeNetwork(t, test.weights...)
			n.keyless = test.keyless
			run(t, n, func(t *testing.T, ctx context.Context, a *Aggregator) {
				r, err := a.Sign(ctx, Request{Message: testMessage(t, "m"), QuorumPercentage: test.quorum})
				if test.code != "" {
					requireFailure(t, err, test.code)
					return
				}
				require.NoError(t, err)
				require.Equal(t, test.weight, r.Weight)
				requireValid(t, n, r, test.quorum)
			})
		})
	}
}

func TestScenario_7_2_17_QuorumBounds(t *testing.T) {
	for _, test := range []struct {
		name           string
		weights        []uint64
		quorum, buffer uint64
		weight         uint64
		verifies       uint64
	}{
		{"quorum 100", []uint64{1, 2, 3}, 100, 0, 6, 100},
		{"0 is the default, not met by 66", []uint64{66, 34}, 0, 0, 100, 67},
		{"0 is the default, met by 67", []uint64{67, 33}, 0, 0, 67, 67},
		{"quorum and buffer beyond 100 want all", []uint64{50, 40, 10}, 80, 40, 100, 80},
		{"a buffer on the default", []uint64{70, 20, 10}, 0, 20, 90, 67},
		{"a buffer that wraps around wants all", []uint64{1, 39, 60}, 67, 1<<64 - 66, 100, 67},
	} {
		t.Run(test.name, func(t *testing.T) {
			n := newFakeNetwork(t, test.weights...)
			run(t, n, func(t *testing.T, ctx context.Context, a *Aggregator) {
				r, err := a.Sign(ctx, Request{Message: testMessage(t, "m"), QuorumPercentage: test.quorum, QuorumPercentageBuffer: test.buffer})
				require.NoError(t, err)
				require.Equal(t, test.weight, r.Weight)
				requireValid(t, n, r, test.verifies)
			})
		})
	}
}

func TestScenario_7_2_18_BufferIsBestEffort(t *testing.T) {
	n := newFakeNetwork(t, 25, 25, 25, 25)
	run(t, n, func(t *testing.T, ctx context.Context, a *Aggregator) {
		r, err := a.Sign(ctx, Request{Message: testMessage(t, "all"), QuorumPercentageBuffer: 20})
		require.NoError(t, err)
		require.Equal(t, uint64(100), r.Weight, "buffer within reach")

		n.validators[3].do = refuse(-2, "unregistered", 0)
		start := time.Now()
		r, err = a.Sign(ctx, Request{Message: testMessage(t, "refused"), QuorumPercentageBuffer: 20})
		require.NoError(t, err)
		requireValid(t, n, r, 67)
		require.Equal(t, uint64(75), r.Weight)
		require.Less(t, time.Since(start), 100*time.Millisecond, "out of reach is known at once")

		n.validators[3].do = mute
		start = time.Now()
		r, err = a.Sign(ctx, Request{Message: testMessage(t, "silent"), QuorumPercentageBuffer: 20})
		require.NoError(t, err)
		requireValid(t, n, r, 67)
		require.Equal(t, uint64(75), r.Weight)
		require.Less(t, time.Since(start), time.Second, "the wait for the buffer is bounded")

		// The waiter's deadline may be before that.
		short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
		defer cancel()
		r, err = a.Sign(short, Request{Message: testMessage(t, "short"), QuorumPercentageBuffer: 20})
		require.NoError(t, err)
		requireValid(t, n, r, 67)
		require.Equal(t, uint64(75), r.Weight)

		// Nor does what is missing for a quorum pass for one then.
		n.validators[2].do = forge
		short, cancel = context.WithTimeout(ctx, 100*time.Millisecond)
		defer cancel()
		_, err = a.Sign(short, Request{Message: testMessage(t, "forged"), QuorumPercentageBuffer: 20})
		failed := requireFailure(t, err, CodeQuorumNotReached)
		require.Equal(t, uint64(50), failed.Account.SignedWeight)
	})
}

// A part of the buffer is better than none, whichever way the rest is known to be missing.
func TestMessageShortOfItsBufferHasAllSignatures(t *testing.T) {
	for _, test := range []struct {
		name   string
		do     []behave // of the last three validators
		wait   time.Duration
		weight uint64
	}{
		{"refused", []behave{honest(0), refuse(-2, "unregistered", 0), refuse(-2, "unregistered", 0)}, time.Minute, 80},
		{"silent", []behave{honest(0), mute, mute}, time.Minute, 80},
		{"the deadline is near", []behave{honest(0), mute, mute}, 100 * time.Millisecond, 80},
		{"forged", []behave{forge, mute, mute}, time.Minute, 70},
		{"forged, the deadline is near", []behave{forge, mute, mute}, 100 * time.Millisecond, 70},
	} {
		t.Run(test.name, func(t *testing.T) {
			n := newFakeNetwork(t, 60, 10, 10, 10, 10)
			for i, do := range test.do {
				n.validators[2+i].do = do
			}
			run(t, n, func(t *testing.T, ctx context.Context, a *Aggregator) {
				ctx, cancel := context.WithTimeout(ctx, test.wait)
				defer cancel()
				r, err := a.Sign(ctx, Request{Message: testMessage(t, "m"), QuorumPercentage: 67, QuorumPercentageBuffer: 20})
				require.NoError(t, err)
				require.Equal(t, test.weight, r.Weight)
				require.EqualValues(t, 67, r.Account.TargetWeight)
				requireValid(t, n, r, test.weight)
			})
		})
	}
}

func TestScenario_7_2_19_SetChangesBetweenGatherAndReturn(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(n *fakeNetwork) // with each height
		height uint64
	}{
		{"a weight grows", func(n *fakeNetwork) { n.validators[0].weight = 1000 }, 11},
		{"a validator leaves", func(n *fakeNetwork) { n.validators = n.validators[1:] }, 11},
		{"a validator joins without a key", func(n *fakeNetwork) { n.keyless = 30 }, 11},
		{"nothing changes but the height", func(*fakeNetwork) {}, 10},
	} {
		t.Run(test.name, func(t *testing.T) {
			n := newFakeNetwork(t, 25, 25, 25, 25)
			run(t, n, func(t *testing.T, ctx context.Context, a *Aggregator) {
				n.soon(func() {
					n.height = 11
					test.change(n)
				})
				r, err := a.Sign(ctx, Request{Message: testMessage(t, "m")})
				require.NoError(t, err)
				require.Equal(t, test.height, r.PChainHeight)
				requireValid(t, n, r, 67)
				if test.height == 10 {
					require.LessOrEqual(t, n.requests, 4, "a set that is the same is not asked again")
				}
			})
		})
	}
	t.Run("the new set does not sign", func(t *testing.T) {
		n := newFakeNetwork(t, 25, 25, 25, 25, 100)
		newcomer := n.validators[4]
		newcomer.do = mute
		n.validators = n.validators[:4]
		run(t, n, func(t *testing.T, ctx context.Context, a *Aggregator) {
			before := n.set()
			n.soon(func() {
				n.height = 11
				n.validators = append(n.validators, newcomer)
			})
			r, err := a.Sign(ctx, Request{Message: testMessage(t, "m")})
			require.NoError(t, err, "there is a message for the old set")
			require.Equal(t, before.Height, r.PChainHeight)
			require.True(t, Judge(r.Message, before, 67).Valid)
		})
	})
	t.Run("it never stops changing", func(t *testing.T) {
		n := newFakeNetwork(t, 25, 25, 25, 25)
		var resolved []*validators.Set
		n.sets = func(uint64) (*validators.Set, error) {
			n.height++
			n.validators[0].weight++
			s := n.set()
			resolved = append(resolved, s)
			return s, nil
		}
		run(t, n, func(t *testing.T, ctx context.Context, a *Aggregator) {
			r, err := a.Sign(ctx, Request{Message: testMessage(t, "m")})
			require.NoError(t, err)
			require.Len(t, resolved, 1+maxMoves, "it is followed a few times")
			last := resolved[len(resolved)-1]
			require.Equal(t, last.Height, r.PChainHeight)
			require.True(t, Judge(r.Message, last, 67).Valid, "the message is valid for the set it names")
		})
	})
}

// The set is the one of the verifying chain's epoch at the time of the answer.
func TestScenario_7_2_20_EpochRollsMidRequest(t *testing.T) {
	for _, changes := range []bool{true, false} {
		t.Run(fmt.Sprint("the set changes with it: ", changes), func(t *testing.T) {
			n := newFakeNetwork(t, 25, 25, 25, 25)
			n.epoch = 7
			n.sets = func(height uint64) (*validators.Set, error) {
				n.keyless = 0
				if changes && height == 8 {
					n.keyless = 10
				}
				return validators.NewSet(n.subnetID, height, n.set().WarpSet), nil
			}
			run(t, n, func(t *testing.T, ctx context.Context, a *Aggregator) {
				n.soon(func() {
					n.epoch = 8
				})
				r, err := a.Sign(ctx, Request{Message: testMessage(t, "m"), VerifyingBlockchainID: &ids.ID{1}})
				require.NoError(t, err)
				want, total := uint64(7), uint64(100)
				if changes {
					want, total = 8, 110
				}
				require.Equal(t, want, r.PChainHeight)
				require.Equal(t, total, r.TotalWeight)
				requireValid(t, n, r, 67)
			})
		})
	}
}

// A height that does not exist is the client's mistake. All other failures of the node are not, and
// the client does not see the node's words.
func TestScenario_7_2_21_and_22_NodeFailuresAreToldApart(t *testing.T) {
	for _, test := range []struct {
		err  error
		code Code
	}{
		{validators.ErrUnknownSubnet, CodeUnknownSubnet},
		{validators.ErrHeightUnavailable, CodeHeightUnavailable},
		{node.ErrUnavailable, CodeNodeUnavailable},
		{node.ErrMalformed, CodeNodeFaulty},
		{&node.RPCError{Method: "m", Code: -32000, Message: "secret"}, CodeNodeFaulty},
	} {
		n := newFakeNetwork(t, 1)
		n.sets = func(uint64) (*validators.Set, error) { return nil, test.err }
		run(t, n, func(t *testing.T, ctx context.Context, a *Aggregator) {
			_, err := a.Sign(ctx, Request{Message: testMessage(t, "m"), PChainHeight: 99})
			failed := requireFailure(t, err, test.code)
			require.NotContains(t, failed.Message, "secret")
			require.Zero(t, n.requests)
		})
	}
}

// A height that the request did not name is not the client's mistake: nodes disagree about the chain's
// height.
func TestScenario_7_2_22_NodeLacksTheHeightItNamed(t *testing.T) {
	n := newFakeNetwork(t, 1)
	n.sets = func(uint64) (*validators.Set, error) { return nil, validators.ErrHeightUnavailable }
	run(t, n, func(t *testing.T, ctx context.Context, a *Aggregator) {
		for name, req := range map[string]Request{
			"the proposed height": {Message: testMessage(t, "m")},
			"an epoch's height":   {Message: testMessage(t, "m"), VerifyingBlockchainID: &ids.ID{1}},
		} {
			_, err := a.Sign(ctx, req)
			failed := requireFailure(t, err, CodeNodeUnavailable)
			require.NotContains(t, failed.Message, "pChainHeight", name)
			require.NotContains(t, failed.Message, "height 0", name)
		}
	})
}

// A node of another network reports validators without connections: nothing is signed, and
// nothing worse happens.
func TestScenario_7_2_22_SetOfAnotherNetwork(t *testing.T) {
	n, other := newFakeNetwork(t, 25, 25, 25, 25), newFakeNetwork(t, 50, 50)
	other.validators[0].nodeIDs, other.validators[1].nodeIDs = []ids.NodeID{{99, 1}}, []ids.NodeID{{99, 2}}
	n.sets = func(uint64) (*validators.Set, error) { return other.set(), nil }
	run(t, n, func(t *testing.T, ctx context.Context, a *Aggregator) {
		_, err := a.Sign(ctx, Request{Message: testMessage(t, "m")})
		failed := requireFailure(t, err, CodeQuorumNotReached)
		require.Equal(t, uint64(100), failed.Account.DisconnectedWeight)
		require.Zero(t, n.requests)
	})
}

func TestScenario_7_2_25_DuplicatesShareOneFanOut(t *testing.T) {
	n := newFakeNetwork(t, 25, 25, 25, 25)
	run(t, n, func(t *testing.T, ctx context.Context, a *Aggregator) {
		message := testMessage(t, "m")
		var waiters sync.WaitGroup
		for range 1000 {
			waiters.Go(func() {
				r, err := a.Sign(ctx, Request{Message: message})
				if err != nil {
					t.Errorf("a shared round failed: %v", err)
					return
				}
				requireValid(t, n, r, 67)
			})
		}
		waiters.Wait()
		for _, v := range n.validators {
			require.LessOrEqual(t, v.requests, 1)
		}
	})
}

func TestScenario_7_2_26_CancelledCallerDoesNotHurtOthers(t *testing.T) {
	n := newFakeNetwork(t, 50, 50)
	for _, v := range n.validators {
		v.do = honest(time.Second)
	}
	run(t, n, func(t *testing.T, ctx context.Context, a *Aggregator) {
		message := testMessage(t, "m")
		first, cancel := context.WithCancel(ctx)
		var waiters sync.WaitGroup
		waiters.Go(func() {
			_, err := a.Sign(first, Request{Message: message})
			if !errors.Is(err, context.Canceled) {
				t.Errorf("cancelled waiter: got %v", err)
			}
		})
		waiters.Go(func() {
			r, err := a.Sign(ctx, Request{Message: message})
			if err != nil {
				t.Errorf("remaining waiter: %v", err)
				return
			}
			requireValid(t, n, r, 67)
		})
		time.Sleep(500 * time.Millisecond)
		cancel()
		waiters.Wait()
		for _, v := range n.validators {
			require.Equal(t, 1, v.requests)
		}
	})
}

func TestScenario_7_2_27_NotAcceptedYetThenAccepted(t *testing.T) {
	n := newFakeNetwork(t, 25, 25, 25, 25)
	run(t, n, func(t *testing.T, ctx context.Context, a *Aggregator) {
		accepted := time.Now().Add(time.Second)
		for _, v := range n.validators {
			v.do = func(v *fakeValidator, m *warp.UnsignedMessage) ([]byte, error, time.Duration, bool) {
				if time.Now().Before(accepted) {
					return refuse(4, "block not accepted", 5*time.Millisecond)(v, m)
				}
				return honest(5*time.Millisecond)(v, m)
			}
		}
		start := time.Now()
		r, err := a.Sign(ctx, Request{Message: testMessage(t, "m")})
		require.NoError(t, err)
		requireValid(t, n, r, 67)
		require.Less(t, time.Since(start), 2100*time.Millisecond)
		require.Less(t, n.requests, 4*8, "polls must back off")
	})
}

func TestScenario_7_2_30_ShutdownWithRoundsInFlight(t *testing.T) {
	n := newFakeNetwork(t, 50, 50)
	for _, v := range n.validators {
		v.do = mute
	}
	synctest.Test(t, func(t *testing.T) {
		a := newTestAggregator(t, n)
		var waiters sync.WaitGroup
		for i := range 10 {
			waiters.Go(func() {
				_, err := a.Sign(t.Context(), Request{Message: testMessage(t, string(rune('a'+i)))})
				requireFailure(t, err, CodeShutdown)
			})
		}
		settle()
		start := time.Now()
		a.Close()
		waiters.Wait()
		require.Zero(t, time.Since(start))
		_, err := a.Sign(t.Context(), Request{Message: testMessage(t, "late")})
		requireFailure(t, err, CodeShutdown)
	})
}

// The same payload on two blockchains makes two messages, and a signature of one does not fit the
// other.
func TestScenario_7_2_31_SamePayloadOfTwoBlockchains(t *testing.T) {
	n := newFakeNetwork(t, 25, 25, 25, 25)
	here := testMessageFrom(t, testNetworkID, ids.ID{1}, "m")
	there := testMessageFrom(t, testNetworkID, ids.ID{2}, "m")
	require.Equal(t, here.Payload, there.Payload)
	n.validators[0].do = func(v *fakeValidator, m *warp.UnsignedMessage) ([]byte, error, time.Duration, bool) {
		return respond(sign(v, here.Bytes())), nil, time.Millisecond, true // whatever it is asked for
	}
	run(t, n, func(t *testing.T, ctx context.Context, a *Aggregator) {
		var waiters sync.WaitGroup
		for _, message := range []*warp.UnsignedMessage{here, there} {
			waiters.Go(func() {
				r, err := a.Sign(ctx, Request{Message: message})
				if err != nil {
					t.Errorf("signing for %s: %v", message.SourceChainID, err)
					return
				}
				requireValid(t, n, r, 67)
				if r.Message.ID() == ids.Empty || r.Message.UnsignedMessage.ID() != message.ID() {
					t.Errorf("got another message than %s", message.ID())
				}
			})
		}
		waiters.Wait()
		asked := make(map[ids.ID]int)
		for _, q := range n.asked {
			asked[q.chainID]++
			want := here
			if q.chainID == there.SourceChainID {
				want = there
			}
			require.Equal(t, want.ID(), q.message)
		}
		require.GreaterOrEqual(t, asked[here.SourceChainID], 3)
		require.GreaterOrEqual(t, asked[there.SourceChainID], 3)
		_, err := a.Sign(ctx, Request{Message: there, QuorumPercentage: 100})
		failed := requireFailure(t, err, CodeQuorumNotReached)
		require.Equal(t, uint64(25), failed.Account.InvalidWeight)
		r, err := a.Sign(ctx, Request{Message: here, QuorumPercentage: 100})
		require.NoError(t, err)
		requireValid(t, n, r, 100)
	})
}

// One owner has two validators whose keys are each other's negation: half of the uncompressed key is
// equal, and their signatures add up to nothing.
func TestScenario_7_2_36_NegatedKeysAreTwoValidators(t *testing.T) {
	order, ok := new(big.Int).SetString("73eda753299d7d483339d80809a1d80553bda402fffe5bfeffffffff00000001", 16)
	require.True(t, ok)
	n := newFakeNetwork(t, 30, 30, 40)
	secret := new(big.Int).SetBytes(n.validators[0].signer.ToBytes())
	negated, err := localsigner.FromBytes(new(big.Int).Sub(order, secret).FillBytes(make([]byte, 32)))
	require.NoError(t, err)
	n.validators[1].signer = negated
	keyOf := func(i int) []byte { return bls.PublicKeyToUncompressedBytes(n.validators[i].signer.PublicKey()) }
	require.Equal(t, keyOf(0)[:48], keyOf(1)[:48])
	require.NotEqual(t, keyOf(0), keyOf(1))

	run(t, n, func(t *testing.T, ctx context.Context, a *Aggregator) {
		// One signs, the other does not: its signature must not be taken for both.
		n.validators[1].do = mute
		message := testMessage(t, "m")
		r, err := a.Sign(ctx, Request{Message: message, QuorumPercentage: 70})
		require.NoError(t, err)
		requireValid(t, n, r, 70)
		settle()
		set := n.set()
		for i, want := range []bool{true, false} {
			at, _ := set.Index(n.validators[i].nodeIDs[0])
			_, kept := a.verified.get(message.ID(), set.Validators[at])
			require.Equal(t, want, kept, "validator %d", i)
		}
		_, err = a.Sign(ctx, Request{Message: message, QuorumPercentage: 71})
		failed := requireFailure(t, err, CodeQuorumNotReached)
		require.Equal(t, uint64(70), failed.Account.SignedWeight)
		require.Equal(t, uint64(30), failed.Account.SilentWeight)
		synctest.Wait() // until that round is over

		// Both sign: with a third the aggregate is a signature like any other.
		n.validators[1].do = honest(time.Millisecond)
		r, err = a.Sign(ctx, Request{Message: message, QuorumPercentage: 100})
		require.NoError(t, err)
		requireValid(t, n, r, 100)
		require.Equal(t, 3, r.Signers)
	})

	// Alone they add up to infinity, which no verifier takes: no message leaves.
	n.validators[2].do = refuse(-2, "no", 20*time.Millisecond)
	run(t, n, func(t *testing.T, ctx context.Context, a *Aggregator) {
		_, err := a.Sign(ctx, Request{Message: testMessage(t, "m"), QuorumPercentage: 60})
		require.Error(t, err)
	})
}
