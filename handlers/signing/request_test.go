package signing

import (
	"bytes"
	"encoding/hex"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/constants"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp/message"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp/payload"
	"github.com/ava-labs/libevm/accounts/abi"
	"github.com/stretchr/testify/require"

	"quorate/aggregator"
	"quorate/handlers/apierr"
)

func unsigned(t testing.TB, payload []byte) *warp.UnsignedMessage {
	m, err := warp.NewUnsignedMessage(5, ids.ID{1, 2, 3}, payload)
	require.NoError(t, err)
	return m
}

// logDataOf encodes as Solidity does for event SendWarpMessage(address indexed,
// bytes32 indexed, bytes).
func logDataOf(t testing.TB, message []byte) []byte {
	kind, err := abi.NewType("bytes", "", nil)
	require.NoError(t, err)
	b, err := abi.Arguments{{Type: kind}}.Pack(message)
	require.NoError(t, err)
	return b
}

func TestDecodeMessageForms(t *testing.T) {
	for _, size := range []int{0, 1, 21, 22, 23, 100, 24 << 10} { // 22: a whole number of words
		m := unsigned(t, bytes.Repeat([]byte{0xab}, size))
		raw, logged := hex.EncodeToString(m.Bytes()), hex.EncodeToString(logDataOf(t, m.Bytes()))
		for _, text := range []string{
			raw, "0x" + raw, "0X" + raw, strings.ToUpper(raw), "0x" + strings.ToUpper(raw), logged, "0x" + logged,
		} {
			for _, f := range []form{dataForm, peerForm} {
				req, err := decode([]byte(`{"message":"`+text+`"}`), f)
				require.NoError(t, err, text)
				require.Equal(t, m.ID(), req.Message.ID())
				require.Equal(t, m.Bytes(), req.Message.Bytes())
				require.Equal(t, aggregator.Request{Message: req.Message, Justification: []byte{}, QuorumPercentage: 67}, req)
			}
		}
	}
}

func TestDecodeMembers(t *testing.T) {
	m := unsigned(t, []byte("payload"))
	subnet := ids.GenerateTestID()
	message := `"message":"` + hex.EncodeToString(m.Bytes()) + `"`
	tests := []struct {
		name string
		form form
		body string
		want aggregator.Request
	}{
		{"all members", dataForm,
			`{` + message + `,"justification":"0x0102","signingSubnetId":"` + subnet.String() + `","quorumPercentage":60,"quorumPercentageBuffer":40,"pChainHeight":123}`,
			aggregator.Request{Justification: []byte{1, 2}, SigningSubnetID: &subnet, QuorumPercentage: 60, QuorumPercentageBuffer: 40, PChainHeight: 123}},
		{"null is absent", dataForm,
			`{` + message + `,"justification":null,"signingSubnetId":null,"quorumPercentage":null,"quorumPercentageBuffer":null,"pChainHeight":null}`,
			aggregator.Request{Justification: []byte{}, QuorumPercentage: 67}},
		{"empty is absent", dataForm,
			`{` + message + `,"justification":"","signingSubnetId":""}`,
			aggregator.Request{Justification: []byte{}, QuorumPercentage: 67}},
		{"zero quorum is the default", dataForm,
			`{` + message + `,"quorumPercentage":0,"quorumPercentageBuffer":33}`,
			aggregator.Request{Justification: []byte{}, QuorumPercentage: 67, QuorumPercentageBuffer: 33}},
		{"other notations of integers", dataForm,
			`{` + message + `,"quorumPercentage":6.7e1,"quorumPercentageBuffer":3.0,"pChainHeight":1E3}`,
			aggregator.Request{Justification: []byte{}, QuorumPercentage: 67, QuorumPercentageBuffer: 3, PChainHeight: 1000}},
		{"bounds", dataForm,
			`{` + message + `,"quorumPercentage":100,"pChainHeight":18446744073709551614}`,
			aggregator.Request{Justification: []byte{}, QuorumPercentage: 100, PChainHeight: math.MaxUint64 - 1}},
		{"subnet in hex", dataForm, `{` + message + `,"signingSubnetId":"` + subnet.Hex() + `"}`,
			aggregator.Request{Justification: []byte{}, SigningSubnetID: &subnet, QuorumPercentage: 67}},
		{"subnet in prefixed hex", dataForm, `{` + message + `,"signingSubnetId":"0X` + strings.ToUpper(subnet.Hex()) + `"}`,
			aggregator.Request{Justification: []byte{}, SigningSubnetID: &subnet, QuorumPercentage: 67}},
		{"primary network", dataForm, `{` + message + `,"signingSubnetId":"11111111111111111111111111111111LpoYY"}`,
			aggregator.Request{Justification: []byte{}, SigningSubnetID: &ids.ID{}, QuorumPercentage: 67}},
		{"whitespace around", dataForm, " \n{\t" + message + "\r\n}\n ",
			aggregator.Request{Justification: []byte{}, QuorumPercentage: 67}},
		{"escapes in names and text", dataForm, strings.Replace(`{`+message+`}`, "message", `mess\u0061ge`, 1),
			aggregator.Request{Justification: []byte{}, QuorumPercentage: 67}},

		{"peer", peerForm,
			`{` + message + `,"justification":"0102","signing-subnet-id":"0x` + subnet.Hex() + `","quorum-percentage":80,"quorum-percentage-buffer":5,"pchain-height":123}`,
			aggregator.Request{Justification: []byte{1, 2}, SigningSubnetID: &subnet, QuorumPercentage: 80, QuorumPercentageBuffer: 5, PChainHeight: 123}},
		{"peer, without effect", peerForm, `{` + message + `,"skip-cache":true}`,
			aggregator.Request{Justification: []byte{}, QuorumPercentage: 67}},
		{"wait", dataForm, `{` + message + `,"waitSeconds":60}`,
			aggregator.Request{Justification: []byte{}, QuorumPercentage: 67, Wait: time.Minute}},
		{"peer, wait", peerForm, `{` + message + `,"wait-seconds":7}`,
			aggregator.Request{Justification: []byte{}, QuorumPercentage: 67, Wait: 7 * time.Second}},
		{"peer, zero subnet", peerForm, `{` + message + `,"signing-subnet-id":"11111111111111111111111111111111LpoYY"}`,
			aggregator.Request{Justification: []byte{}, QuorumPercentage: 67}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := decode([]byte(tt.body), tt.form)
			require.NoError(t, err)
			require.Equal(t, m.Bytes(), got.Message.Bytes())
			tt.want.Message = got.Message
			require.Equal(t, tt.want, got)
		})
	}
}

// A field without effect may stand for another validator set than the one that signs, so neither form
// ignores any.
func TestUnknownFieldsAreRefusedByName(t *testing.T) {
	message := `"message":"` + hex.EncodeToString(unsigned(t, nil).Bytes()) + `"`
	for _, test := range []struct {
		form        form
		field, want string
	}{
		{peerForm, `"x":[{}]`, `unknown field "x"`},
		{peerForm, `"p-chain-heigth":5`, `unknown field "p-chain-heigth" in the request body (known fields: message, `},
		{peerForm, `"pchain-height":5,"verifying-blockchain-id":"` + ids.Empty.String() + `"`, "verifying-blockchain-id and pchain-height both pick the validator set"},
		{peerForm, `"wait-seconds":61`, "wait-seconds must be an integer from 0 to 60"},
		{dataForm, `"subnet":""`, `unknown field "subnet"`},
		{dataForm, `"signingSubnet":"","signingSubnetId":""`, "signingSubnet and signingSubnetId in the request body are the same field; leave one out"},
		{dataForm, `"signing-subnet-id":null,"signing-subnet":null`, "signing-subnet-id and signing-subnet in the request body are the same field"},
		{peerForm, `"p-chain-height":5,"pchain-height":5`, "p-chain-height and pchain-height in the request body are the same field"},
		{peerForm, `"pChainHeight":5,"pChainHeight":5`, "pChainHeight is given twice"},
		{dataForm, `"skip-cache":true`, `unknown field "skip-cache"`},
	} {
		_, err := decode([]byte(`{`+message+`,`+test.field+`}`), test.form)
		require.ErrorContains(t, err, test.want, test.field)
	}
}

// TestSpellings checks the spellings that clients use, each in both forms.
func TestSpellings(t *testing.T) {
	m := unsigned(t, []byte("payload"))
	id := ids.GenerateTestID()
	digits := hex.EncodeToString(m.Bytes())
	defaults := aggregator.Request{Justification: []byte{}, QuorumPercentage: 67}
	with := func(change func(*aggregator.Request)) aggregator.Request {
		want := defaults
		change(&want)
		return want
	}
	subnet := with(func(r *aggregator.Request) { r.SigningSubnetID = &id })
	quorum := with(func(r *aggregator.Request) { r.QuorumPercentage = 80 })
	buffer := with(func(r *aggregator.Request) { r.QuorumPercentageBuffer = 5 })
	height := with(func(r *aggregator.Request) { r.PChainHeight = 7 })
	verifying := with(func(r *aggregator.Request) { r.VerifyingBlockchainID = &id })
	justified := with(func(r *aggregator.Request) { r.Justification = []byte{0xab} })
	wait := with(func(r *aggregator.Request) { r.Wait = 7 * time.Second })
	for _, tt := range []struct {
		client, fields string
		want           aggregator.Request
	}{
		{"icm-services", `"signing-subnet-id":"` + id.String() + `"`, subnet},
		{"icm-services", `"quorum-percentage":80`, quorum},
		{"icm-services", `"quorum-percentage-buffer":5`, buffer},
		{"icm-services", `"pchain-height":7`, height},
		{"icm-services README", `"p-chain-height":7`, height},
		{"icm-services README", `"verifying-blockchain-id":"` + id.String() + `"`, verifying},
		{"icm-services, ProposedHeight", `"pchain-height":18446744073709551615`, defaults},
		{"icm-services, ProposedHeight", `"p-chain-height":18446744073709551615`, defaults},
		{"icm-services, ProposedHeight and blockchain", `"pchain-height":18446744073709551615,"verifying-blockchain-id":"` + id.String() + `"`, verifying},
		{"icm-services", `"justification":"ab"`, justified},
		{"icm-services", `"justification":"0xab"`, justified},
		{"chainkit", `"signingSubnetId":"` + id.String() + `"`, subnet},
		{"chainkit", `"quorumPercentage":80`, quorum},
		{"chainkit", `"quorumPercentageBuffer":5`, buffer},
		{"chainkit", `"pChainHeight":7`, height},
		{"chainkit, proposed height", `"pChainHeight":18446744073709551615`, defaults},
		{"consoles", `"signingSubnet":"` + id.String() + `"`, subnet},
		{"consoles", `"signing-subnet":"` + id.String() + `"`, subnet},
		{"subnet in hex", `"signingSubnet":"0x` + id.Hex() + `"`, subnet},
		{"subnet in hex", `"signingSubnetId":"` + id.Hex() + `"`, subnet},
		{"subnet in hex", `"signing-subnet-id":"0X` + strings.ToUpper(id.Hex()) + `"`, subnet},
		{"quorate", `"verifyingBlockchainId":"` + id.String() + `"`, verifying},
		{"quorate", `"waitSeconds":7`, wait},
		{"quorate", `"wait-seconds":7`, wait},
		{"null", `"justification":null,"signingSubnetId":null,"quorumPercentage":null,"quorumPercentageBuffer":null,"pChainHeight":null,"verifyingBlockchainId":null`, defaults},
		{"null", `"justification":null,"signing-subnet-id":null,"quorum-percentage":null,"quorum-percentage-buffer":null,"pchain-height":null`, defaults},
		{"null", `"signingSubnet":null,"p-chain-height":null,"verifying-blockchain-id":null`, defaults},
		{"empty", `"justification":"","signingSubnetId":"","quorumPercentage":"","quorumPercentageBuffer":"","pChainHeight":"","verifyingBlockchainId":""`, defaults},
		{"empty", `"justification":"0x","signing-subnet-id":"","quorum-percentage":"","quorum-percentage-buffer":"","pchain-height":""`, defaults},
		{"empty", `"signingSubnet":"","p-chain-height":"","verifying-blockchain-id":""`, defaults},
	} {
		for name, f := range map[string]form{"v1": dataForm, "stand-alone": peerForm} {
			for _, text := range []string{digits, "0x" + digits} {
				t.Run(tt.client+"/"+name+"/"+tt.fields, func(t *testing.T) {
					got, err := decode([]byte(`{"message":"`+text+`",`+tt.fields+`}`), f)
					require.NoError(t, err)
					require.Equal(t, m.Bytes(), got.Message.Bytes())
					got.Message = nil
					require.Equal(t, tt.want, got)
				})
			}
		}
	}
}

func TestLogDataIsExact(t *testing.T) {
	m := unsigned(t, []byte("payload"))
	good := logDataOf(t, m.Bytes())
	change := func(f func(b []byte) []byte) []byte { return f(bytes.Clone(good)) }
	tests := map[string][]byte{
		"another word":        change(func(b []byte) []byte { return append(b, make([]byte, 32)...) }),
		"a byte more":         change(func(b []byte) []byte { return append(b, 0) }),
		"a byte less":         good[:len(good)-1],
		"offset 64":           change(func(b []byte) []byte { b[31] = 64; return b }),
		"high offset":         change(func(b []byte) []byte { b[0] = 1; return b }),
		"high length":         change(func(b []byte) []byte { b[32] = 1; return b }),
		"longer":              change(func(b []byte) []byte { b[63] += 64; return b }),
		"shorter by a word":   change(func(b []byte) []byte { b[63] -= 32; return b }),
		"dirty padding":       change(func(b []byte) []byte { b[len(b)-1] = 1; return b }),
		"greatest length":     change(func(b []byte) []byte { copy(b[56:64], bytes.Repeat([]byte{0xff}, 8)); return b }),
		"no room for message": good[:64],
	}
	for name, b := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := parseMessage("message", b)
			require.ErrorContains(t, err, "message ")
		})
	}
}

// FuzzDecode: decoding of any body gives a request within the documented bounds, or a complete 400.
func FuzzDecode(f *testing.F) {
	m := unsigned(f, []byte("payload"))
	raw := hex.EncodeToString(m.Bytes())
	for _, seed := range []string{
		"", " ", "null", "[]", "{", "{}", `{"message":1}`, `{"message":"0x"}`, `{"message":"` + raw + `"}`,
		`{"message":"0x` + hex.EncodeToString(logDataOf(f, m.Bytes())) + `"}`,
		`{"message":"` + raw + `00"}`, `{"message":"` + raw + `","message":"` + raw + `"}`,
		`{"message":"` + raw + `","quorumPercentage":6.7e1,"quorumPercentageBuffer":1e-400,"pChainHeight":1e400}`,
		`{"message":"` + raw + `","signingSubnetId":"11111111111111111111111111111111LpoYY","justification":"ff"}`,
		`{"message":"` + raw + `","signing-subnet-id":"0x00","p-chain-height":-1}`,
		`{"message":"` + raw + `"} {}`, "{\"message\":\"\xff\xfe\"}", strings.Repeat("[", 20_000), `{"a":` + strings.Repeat(`{"a":`, 20_000),
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, form := range []form{dataForm, peerForm} {
			req, err := decode(body, form)
			if err != nil {
				var e *apierr.Error
				if !errors.As(err, &e) || e.Status != 400 || e.Message == "" || len(e.Message) > 1000 {
					t.Fatalf("got %v; want a 400 with a short message", err)
				}
				continue
			}
			if req.Message == nil || req.QuorumPercentage < 1 || req.QuorumPercentage+req.QuorumPercentageBuffer > 100 ||
				req.PChainHeight == math.MaxUint64 || len(req.Justification) > maxJustification {
				t.Fatalf("got %+v; want a request within bounds", req)
			}
			again, err := warp.ParseUnsignedMessage(req.Message.Bytes())
			require.NoError(t, err)
			require.Equal(t, req.Message.ID(), again.ID())
		}
	})
}

// A conversion is justified by the ID of its subnet, other messages by up to 64 KiB.
func TestJustificationIsBounded(t *testing.T) {
	conversion, err := message.NewSubnetToL1Conversion(ids.ID{1})
	require.NoError(t, err)
	call, err := payload.NewAddressedCall(nil, conversion.Bytes())
	require.NoError(t, err)
	converted, err := warp.NewUnsignedMessage(5, constants.PlatformChainID, call.Bytes())
	require.NoError(t, err)
	for _, test := range []struct {
		message *warp.UnsignedMessage
		length  int
		want    string
	}{
		{converted, 32, ""},
		{converted, 33, "justification has 33 bytes; for this message, validators accept at most 32"},
		{unsigned(t, []byte("payload")), maxJustification, ""},
		{unsigned(t, []byte("payload")), maxJustification + 1, "justification has 65537 bytes, at most 65536"},
	} {
		body := `{"message":"` + hex.EncodeToString(test.message.Bytes()) + `","justification":"` + strings.Repeat("00", test.length) + `"}`
		_, err := decode([]byte(body), dataForm)
		if test.want == "" {
			require.NoError(t, err)
		} else {
			require.ErrorContains(t, err, test.want)
		}
	}
}
