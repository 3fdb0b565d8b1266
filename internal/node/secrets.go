package node

import (
	"bytes"
	"cmp"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/ava-labs/avalanchego/ids"
)

// secrets are the parts of an endpoint's URL and headers that must not appear in output.
type secrets []string

// shortestSecret is the length below which a text is not searched for, in bytes. Shorter ones occur by chance.
const shortestSecret = 4

// secretsOf returns the secrets of an endpoint: user information, masked parts of the path, values of the query and of
// the headers.
func secretsOf(base *url.URL, headers http.Header) secrets {
	var all secrets
	add := func(text string) {
		for _, form := range []string{text, url.QueryEscape(text), url.PathEscape(text)} {
			if len(form) >= shortestSecret && !slices.Contains(all, form) {
				all = append(all, form)
			}
		}
	}
	if base.User != nil {
		password, _ := base.User.Password()
		add(base.User.Username())
		add(password)
	}
	for part := range strings.SplitSeq(base.Path, "/") {
		if !plainPart(part) {
			add(part)
		}
	}
	for _, values := range base.Query() {
		for _, value := range values {
			add(value)
		}
	}
	for _, values := range headers {
		for _, value := range values {
			add(value)
			if _, token, ok := strings.Cut(value, " "); ok { // Bearer TOKEN
				add(token)
			}
		}
	}
	// A secret may be part of another one.
	slices.SortFunc(all, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	return all
}

// hide returns text without secrets. A secret may be cut short by the end of an excerpt.
func (s secrets) hide(text string) string {
	for _, secret := range s {
		text = strings.ReplaceAll(text, secret, "***")
		for n := len(secret) - 1; n >= shortestSecret; n-- {
			text = strings.ReplaceAll(text, secret[:n]+cutMark, "***"+cutMark)
		}
	}
	return text
}

// longestEcho bounds the responses that are searched for secrets, in bytes. Providers repeat keys in errors, which are
// short.
const longestEcho = 16 << 10

// hideInBody returns a response without the secrets that its errors repeat. Results are left as they are: a short user
// name may well occur in an address.
func (s secrets) hideInBody(status int, body []byte) []byte {
	if len(body) > longestEcho || !slices.ContainsFunc(s, func(secret string) bool { return bytes.Contains(body, []byte(secret)) }) {
		return body
	}
	var call map[string]json.RawMessage
	var calls []map[string]json.RawMessage
	switch {
	case status != http.StatusOK:
	case json.Unmarshal(body, &call) == nil:
		return s.hideInErrors(body, call, call)
	case json.Unmarshal(body, &calls) == nil:
		return s.hideInErrors(body, calls, calls...)
	}
	return []byte(s.hide(string(body)))
}

// hideInErrors returns body without the secrets in the errors of its calls. whole is the parsed body.
func (s secrets) hideInErrors(body []byte, whole any, calls ...map[string]json.RawMessage) []byte {
	changed := false
	for _, call := range calls {
		shown := string(call["error"])
		hidden := s.hide(shown)
		if hidden == shown {
			continue
		}
		if !json.Valid([]byte(hidden)) {
			hidden = `{"code":-32000,"message":"the upstream node's error is omitted because it contains a secret of the service"}`
		}
		call["error"] = json.RawMessage(hidden)
		changed = true
	}
	if changed {
		body, _ = json.Marshal(whole) // never fails: all fields are valid
	}
	return body
}

// hiddenError is an error whose text has no secrets.
type hiddenError struct {
	error
	text string
}

func (e hiddenError) Error() string { return e.text }

func (e hiddenError) Unwrap() error { return e.error }

// hideIn returns err with a text without secrets.
func (s secrets) hideIn(err error) error {
	text := err.Error()
	if hidden := s.hide(text); hidden != text {
		return hiddenError{err, hidden}
	}
	return err
}

// MaskPath returns the path of a URL for output. It masks every part that is neither a blockchain ID nor a part of the
// paths of avalanchego, since any other part may be a key.
func MaskPath(path string) string {
	parts := strings.Split(path, "/")
	for i, part := range parts {
		if !plainPart(part) {
			parts[i] = "***"
		}
	}
	return strings.Join(parts, "/")
}

// plainPart reports whether a part of a path is certainly no secret.
func plainPart(part string) bool {
	switch part {
	case "", "ext", "bc", "index", "info", "health", "rpc", "ws", "avax", "proposervm", "C", "P", "X", "block", "tx", "vtx", "v1", "api", "ipfs":
		return true
	}
	_, err := ids.FromString(part)
	return err == nil
}
