package access

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"

	"github.com/labstack/echo/v4"
)

// ProxyHeader is the header in which proxies pass on whom they ask for.
type ProxyHeader string

// The headers that are known. Only the one that is configured is looked at: a proxy
// that sets one of them may well let a client's own other one pass.
const (
	XForwardedFor ProxyHeader = "X-Forwarded-For"
	Forwarded     ProxyHeader = "Forwarded" // RFC 7239
)

// ParseProxyHeader reads the name of a header; empty means XForwardedFor.
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

// maxHops bounds how much of a list of proxies is looked at.
const maxHops = 32

// ClientIP finds the address of a request's client: the peer of the connection or,
// if that is a trusted proxy, the last address of the header that is none.
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
		// From its end, since each proxy adds what it knows there: what a client sent
		// itself, whatever it looks like, is before that and not reached.
		rest := strings.Join(r.Header.Values(string(header)), ",")
		for range maxHops {
			var element string
			var ok bool
			if rest, element, ok = cutLast(rest, header == Forwarded); !ok {
				break
			}
			hop, ok := parseHop(element, header)
			if !ok { // nothing before it can be believed
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

// cutLast takes the last element off a list: commas are between elements, and within
// quotes, of which escaped ones are none, part of one. It fails if a quote has no
// beginning.
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

// parseHop reads one element of a header.
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

// forwardedFor is the value of for in an element of Forwarded, which has pairs of names
// and of values that are tokens or quoted (RFC 7239, section 4). It fails if the element
// is not of that form, or does not have the name once.
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

// cutValue takes a token, or a quoted string without its quotes and escapes, off the
// beginning of a text.
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
