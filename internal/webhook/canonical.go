package webhook

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"
)

// Sign returns the signature of a body: the base64 text of its HMAC-SHA256. secret is hexadecimal.
func Sign(secret string, body []byte) (string, error) {
	key, err := hex.DecodeString(secret)
	if err != nil {
		return "", fmt.Errorf("reading the shared secret: %w", err)
	}
	mac := hmac.New(sha256.New, key)
	mac.Write(body)
	return base64.StdEncoding.EncodeToString(mac.Sum(nil)), nil
}

// canonical encodes a value as canonical JSON (RFC 8785). Receivers parse the body and encode it in the same way before
// they verify its signature. All numbers of v must be integers, and all names ASCII.
func canonical(v any) ([]byte, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var parsed any
	if err := decoder.Decode(&parsed); err != nil {
		return nil, err
	}
	return appendCanonical(make([]byte, 0, len(text)), parsed), nil
}

func appendCanonical(b []byte, v any) []byte {
	switch v := v.(type) {
	case map[string]any:
		b = append(b, '{')
		for i, name := range slices.Sorted(maps.Keys(v)) {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendCanonical(append(appendString(b, name), ':'), v[name])
		}
		return append(b, '}')
	case []any:
		b = append(b, '[')
		for i, item := range v {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendCanonical(b, item)
		}
		return append(b, ']')
	case string:
		return appendString(b, v)
	case json.Number:
		return append(b, v...)
	case bool:
		return fmt.Appendf(b, "%t", v)
	}
	return append(b, "null"...)
}

// shortEscapes are the control characters with an escape of two characters, and their escapes.
const shortEscapes, shortLetters = "\b\t\n\f\r\"\\", `btnfr"\`

// appendString appends a string with only the escapes that RFC 8785 requires.
func appendString(b []byte, s string) []byte {
	b = append(b, '"')
	for _, r := range s {
		if i := strings.IndexRune(shortEscapes, r); i >= 0 {
			b = append(b, '\\', shortLetters[i])
		} else if r < ' ' {
			b = fmt.Appendf(b, `\u%04x`, r)
		} else {
			b = utf8.AppendRune(b, r)
		}
	}
	return append(b, '"')
}
