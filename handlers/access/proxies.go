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
		hops := strings.Split(strings.Join(r.Header.Values(string(header)), ","), ",")
		for i := range min(len(hops), maxHops) {
			hop, ok := parseHop(hops[len(hops)-1-i], header)
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

// parseHop reads one element of a header.
func parseHop(text string, header ProxyHeader) (netip.Addr, bool) {
	text = strings.TrimSpace(text)
	if header == Forwarded {
		if strings.Count(text, `"`)%2 != 0 {
			return netip.Addr{}, false // a comma stood within quotes, which clients can arrange
		}
		found := false
		for pair := range strings.SplitSeq(text, ";") {
			name, value, _ := strings.Cut(strings.TrimSpace(pair), "=")
			if strings.EqualFold(name, "for") {
				text, found = strings.Trim(value, `"`), true
				break
			}
		}
		if !found {
			return netip.Addr{}, false
		}
	}
	if host, _, err := net.SplitHostPort(text); err == nil {
		text = host
	}
	a, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(text, "["), "]"))
	return a.Unmap().WithZone(""), err == nil
}
