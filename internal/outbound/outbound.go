// Package outbound keeps requests to URLs that untrusted parties name away from non-public addresses.
package outbound

import (
	"errors"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"syscall"
	"time"
)

// ErrPrivate reports that a connection to a non-public address was refused.
var ErrPrivate = errors.New("the address is not public")

// RefusePrivate is the Control function of a net.Dialer that connects only to public addresses. It checks the resolved
// address right before the connection is made, so neither a host name nor a redirect can evade it.
func RefusePrivate(_, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil || !Public(at.Addr()) {
		return ErrPrivate
	}
	return nil
}

// NewClient returns an HTTP client that follows no redirects and uses no proxy, which would connect to any address on our
// behalf. control is asked before each connection, for example RefusePrivate; nil allows all. The rest is as t says.
func NewClient(t *http.Transport, dialTimeout time.Duration, control func(network, address string, c syscall.RawConn) error) *http.Client {
	t.Proxy, t.DialContext = nil, (&net.Dialer{Timeout: dialTimeout, Control: control}).DialContext
	return &http.Client{
		Transport:     t,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// Public reports whether a is an address of the public Internet.
func Public(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	return a.IsGlobalUnicast() && !a.IsPrivate() && !slices.ContainsFunc(notPublic, func(p netip.Prefix) bool { return p.Contains(a) })
}

// notPublic lists the special-purpose address blocks (IANA's registries) that package netip does not recognise, and the
// blocks that embed IPv4 addresses.
var notPublic = prefixes(
	"0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "240.0.0.0/4",
	"::/96", "64:ff9b::/96", "64:ff9b:1::/48", "100::/64", "2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20", "5f00::/16", "fec0::/10",
)

func prefixes(texts ...string) []netip.Prefix {
	all := make([]netip.Prefix, len(texts))
	for i, text := range texts {
		all[i] = netip.MustParsePrefix(text)
	}
	return all
}
