package jsonbody

import (
	"encoding/json"
	"errors"
	"math/big"
	"strings"
	"testing"

	"quorate/handlers/apierr"
)

// FuzzObject: what is read is what encoding/json reads, or a complete 400.
func FuzzObject(f *testing.F) {
	for _, body := range []string{
		"", "{}", "null", `{"text":"a","number":1}`, `{"text":null,"number":1.0e1}`, `{"Text":"a","num-ber":1e-400}`,
		`{"text":"a","text":"a"}`, `{"text":"\ud800","number":18446744073709551616}`, `{"te\u0078t":"\u0000"}`, `{"number":-0}`,
		"{\"text\":\"\xff\"}", `{"number":1}x`, `{"other":[{"text":1}]}`,
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		o, err := Parse(body, nil, "text", "number")
		if err != nil {
			requireMistake(t, err)
			return
		}
		var members map[string]json.RawMessage
		if err := json.Unmarshal(body, &members); err != nil {
			t.Fatalf("read, but it is no object: %v", err)
		}
		text, err := o.String("text")
		if err != nil {
			requireMistake(t, err)
		} else if raw, ok := members["text"]; ok && string(raw) != "null" {
			var want string
			if err := json.Unmarshal(raw, &want); err != nil || text != want {
				t.Fatalf("got text %q, want %q (%v)", text, want, err)
			}
		}
		number, err := o.Uint("number", 1<<40)
		if err != nil {
			requireMistake(t, err)
			return
		}
		raw, ok := members["number"]
		if !ok || string(raw) == "null" || string(raw) == `""` || len(raw) > 100 || strings.ContainsAny(string(raw), "eE") && len(raw) > 8 {
			return // exact arithmetic with a huge exponent would take for ever
		}
		if want, ok := new(big.Rat).SetString(string(raw)); !ok || want.Cmp(new(big.Rat).SetUint64(number)) != 0 {
			t.Fatalf("got number %d, want %s", number, raw)
		}
	})
}

func requireMistake(t *testing.T, err error) {
	t.Helper()
	var e *apierr.Error
	if !errors.As(err, &e) || e.Status != 400 || e.Message == "" || len(e.Message) > 1000 {
		t.Fatalf("got %v; want a 400 with a short message", err)
	}
}
