package access

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"

	"github.com/labstack/echo/v4"
)

// ProxyHeader is the header in which proxies forward the client IP address.
type ProxyHeader string

// Supported headers. ClientIP reads only the configured one: a proxy that sets one of them may forward the others
// unchanged from a client.
const (
	XForwardedFor ProxyHeader = "X-Forwarded-For"
	Forwarded     ProxyHeader = "Forwarded" // RFC 7239
)

// ParseProxyHeader parses the name of a header; empty means XForwardedFor.
func ParseProxyHeader(text string) (ProxyHeader, error) {
	for _, h := range []ProxyHeader{XForwardedFor, Forwarded} {
		if strings.EqualFold(text, string(h)) {
			return h, nil
		}
	}
	if text == "" {
		return XForwardedFor, nil
	}
	return "", fmt.Errorf("%q is neither %s nor %s", text, XForwardedFor, Forwarded)
}

// maxHops is the number of proxies after which ClientIP stops reading the header.
const maxHops = 32

// ClientIP returns a function that finds the client IP address of a request. It is the peer of the connection. If the
// peer is a trusted proxy, it is the last address in header that is not a trusted proxy.
func ClientIP(trusted []netip.Prefix, header ProxyHeader) echo.IPExtractor {
	trusts := func(a netip.Addr) bool {
		for _, p := range trusted {
			if p.Contains(a) {
				return true
			}
		}
		return false
	}
	return func(r *http.Request) string {
		host, _, err := net.SplitHostPort(r.RemoteAddr)
		if err != nil {
			host = r.RemoteAddr
		}
		client, err := netip.ParseAddr(host)
		if err != nil {
			return host
		}
		client = client.Unmap()
		if !trusts(client) {
			return client.String()
		}
		// Read from the end: each proxy appends, so what the client itself sent comes first and is not reached.
		rest := strings.Join(r.Header.Values(string(header)), ",")
		for range maxHops {
			var element string
			var ok bool
			if rest, element, ok = cutLast(rest, header == Forwarded); !ok {
				break
			}
			hop, ok := parseHop(element, header)
			if !ok { // what precedes cannot be trusted
				break
			}
			client = hop
			if !trusts(hop) {
				break
			}
		}
		return client.String()
	}
}

// cutLast cuts the last element off a list separated by commas. If quotes is set, commas in quoted strings do not
// separate, and a backslash escapes a quote. It fails if a quoted string has no beginning.
func cutLast(list string, quotes bool) (rest, element string, ok bool) {
	quoted := false
	for i := len(list) - 1; i >= 0; i-- {
		switch list[i] {
		case '"':
			before := strings.TrimRight(list[:i], `\`)
			if quotes && (!quoted || (i-len(before))%2 == 0) {
				quoted = !quoted
			}
		case ',':
			if !quoted {
				return list[:i], list[i+1:], true
			}
		}
	}
	return "", list, !quoted
}

// parseHop parses one element of a header.
func parseHop(text string, header ProxyHeader) (netip.Addr, bool) {
	text = strings.TrimSpace(text)
	if header == Forwarded {
		var ok bool
		if text, ok = forwardedFor(text); !ok {
			return netip.Addr{}, false
		}
	}
	if host, _, err := net.SplitHostPort(text); err == nil {
		text = host
	}
	a, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(text, "["), "]"))
	return a.Unmap().WithZone(""), err == nil
}

// forwardedFor returns the value of the for parameter of a Forwarded element: name-value pairs with tokens or quoted
// strings as values (RFC 7239, section 4). It fails if the element is malformed or does not have the parameter exactly
// once.
func forwardedFor(element string) (value string, ok bool) {
	found := 0
	for {
		if element = strings.TrimLeft(element, "; \t"); element == "" { // pairs may be empty
			return value, found == 1
		}
		name, rest, assigned := strings.Cut(element, "=")
		if !assigned {
			return "", false
		}
		var text string
		if text, rest, ok = cutValue(rest); !ok {
			return "", false
		}
		if strings.EqualFold(strings.TrimSpace(name), "for") {
			value = text
			found++
		}
		if element = strings.TrimLeft(rest, " \t"); element != "" && element[0] != ';' {
			return "", false
		}
	}
}

// cutValue cuts a token or a quoted string off the beginning of text. It removes the quotes and escapes.
func cutValue(text string) (value, rest string, ok bool) {
	if !strings.HasPrefix(text, `"`) {
		end := strings.IndexAny(text, "; \t\"")
		if end < 0 {
			end = len(text)
		}
		return text[:end], text[end:], end > 0
	}
	var plain strings.Builder
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '"':
			return plain.String(), text[i+1:], true
		case '\\':
			if i++; i == len(text) {
				return "", "", false
			}
		}
		plain.WriteByte(text[i])
	}
	return "", "", false
}
