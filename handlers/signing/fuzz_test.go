package signing

import (
	"bytes"
	"encoding/hex"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/ava-labs/avalanchego/utils/crypto/bls"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp"
	"github.com/stretchr/testify/require"

	"quorate/handlers/apierr"
)

// requireMistake fails unless err is a complete 400 of bounded length.
func requireMistake(t *testing.T, err error) {
	t.Helper()
	var e *apierr.Error
	if !errors.As(err, &e) || e.Status != 400 || e.Message == "" || len(e.Message) > 1000 {
		t.Fatalf("got %v; want a 400 with a short message", err)
	}
}

// FuzzMessage: any bytes are an unsigned message, or exactly the log data of one, or lead to a 400.
func FuzzMessage(f *testing.F) {
	m := unsigned(f, []byte("payload"))
	logged := logDataOf(f, m.Bytes())
	f.Add(m.Bytes())
	f.Add(logged)
	f.Add(logged[:64])
	f.Add(append(bytes.Clone(logged), make([]byte, 32)...))
	f.Add(append(bytes.Clone(m.Bytes()), 0))
	f.Add(logDataOf(f, logged))
	f.Add(logDataOf(f, nil))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		inner, wrapped := logData(b)
		if wrapped && !bytes.Equal(logDataOf(t, inner), b) {
			t.Fatalf("%x was taken for log data, which it is not", b)
		}
		got, err := parseMessage("message", b)
		if err != nil {
			requireMistake(t, err)
			if _, err := warp.ParseUnsignedMessage(b); err == nil {
				t.Fatal("the library takes it")
			}
			return
		}
		want := b
		if wrapped && !bytes.Equal(got.Bytes(), b) {
			want = inner
		}
		if !bytes.Equal(got.Bytes(), want) {
			t.Fatalf("got the message %x, want %x", got.Bytes(), want)
		}
	})
}

// FuzzHex: the result equals that of encoding/hex.
func FuzzHex(f *testing.F) {
	for _, text := range []string{"", "0x", "0X00", "00", "0", "0xzz", "é", "0x0x00", "\xff", "0x0\x00"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := parseHex("message", text)
		digits := strings.TrimPrefix(strings.TrimPrefix(text, "0x"), "0X")
		if strings.HasPrefix(text, "0x0X") { // one prefix only
			digits = text[2:]
		}
		want, wantErr := hex.DecodeString(digits)
		if (err == nil) != (wantErr == nil) {
			t.Fatalf("%q: got %v, want %v", text, err, wantErr)
		}
		if err != nil {
			requireMistake(t, err)
			return
		}
		if !bytes.Equal(got, want) {
			t.Fatalf("%q: got %x, want %x", text, got, want)
		}
	})
}

// FuzzDecodeVerify is FuzzDecode for the request to verify.
func FuzzDecodeVerify(f *testing.F) {
	m := unsigned(f, []byte("payload"))
	signed, err := warp.NewMessage(m, &warp.BitSetSignature{Signers: []byte{7}, Signature: [bls.SignatureLen]byte{1}})
	require.NoError(f, err)
	raw := hex.EncodeToString(signed.Bytes())
	for _, body := range []string{
		"", "{}", `{"signedMessage":1}`, `{"signedMessage":"` + raw + `"}`, `{"signedMessage":"0x` + raw + `00"}`,
		`{"signedMessage":"` + hex.EncodeToString(m.Bytes()) + `"}`,
		`{"signedMessage":"` + raw + `","quorumPercentage":100,"pChainHeight":5}`,
		`{"signedMessage":"` + raw + `","pChainHeight":5,"verifyingBlockchainId":"11111111111111111111111111111111LpoYY"}`,
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		req, _, err := decodeVerify(body)
		if err != nil {
			requireMistake(t, err)
			return
		}
		if req.Message == nil || req.QuorumPercentage > 100 || req.PChainHeight == math.MaxUint64 || req.PChainHeight != 0 && req.VerifyingBlockchainID != nil {
			t.Fatalf("got %+v; want a request within bounds", req)
		}
		again, err := warp.ParseMessage(req.Message.Bytes())
		require.NoError(t, err)
		require.Equal(t, req.Message.ID(), again.ID())
	})
}
