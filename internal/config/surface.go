package config

import (
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"quorate/handlers/access"
)

// Surface configures the access to the public address.
type Surface struct {
	// TLS makes the public address HTTPS.
	TLS TLS `yaml:"tls"`
	// RateClasses are the classes of allowances by name. Clients without an API key have the class default.
	RateClasses map[string]RateClass `yaml:"rate_classes"`
	// TrustedProxies are the address ranges of proxies whose ProxyHeader names the client.
	TrustedProxies []string `yaml:"trusted_proxies"`
	// ProxyHeader is X-Forwarded-For or Forwarded.
	ProxyHeader string `yaml:"proxy_header"`
	// CORSOrigins are the web origins whose pages may call the service.
	CORSOrigins []string `yaml:"cors_origins"`
	Limits      Limits   `yaml:"limits"`
	Tracing     Tracing  `yaml:"tracing"`
}

// TLS are PEM files; both or none.
type TLS struct {
	Cert string `yaml:"cert"`
	Key  string `yaml:"key"`
}

// RateClass is an access.Class.
type RateClass struct {
	PerSecond float64 `yaml:"per_second"`
	Burst     int     `yaml:"burst"`
	PerDay    int     `yaml:"per_day"`
}

// Limits limits the clients of the public address.
type Limits struct {
	// Body and Header are the maximum sizes of a request's body and of its headers.
	Body   Size `yaml:"body"`
	Header Size `yaml:"header"`
	// HeaderTime and BodyTime are the times in which they must arrive, Stall the time in which a client must read
	// something of an answer.
	HeaderTime time.Duration `yaml:"header_time"`
	BodyTime   time.Duration `yaml:"body_time"`
	Stall      time.Duration `yaml:"stall"`
	// Connections limits all connections, ConnectionsPerAddress those of one client IP address;
	// 0 means no limit.
	Connections           int `yaml:"connections"`
	ConnectionsPerAddress int `yaml:"connections_per_address"`
	// Rounds limits the messages of a network that are signed at a time, RoundsPerClient those
	// of one API key or client IP address; 0 means no limit.
	Rounds          int `yaml:"rounds"`
	RoundsPerClient int `yaml:"rounds_per_client"`
}

// Tracing configures traces. Without OTLP there are none.
type Tracing struct {
	// OTLP is the URL of a collector, such as http://127.0.0.1:4318.
	OTLP string `yaml:"otlp"`
	// Share is the fraction of requests to trace, 0 to 1.
	Share float64 `yaml:"share"`
	// FollowClients lets the traceparent header of a client decide whether its request is traced.
	FollowClients bool `yaml:"follow_clients"`
}

func surfaceDefaults() Surface {
	return Surface{
		RateClasses:    make(map[string]RateClass),
		TrustedProxies: []string{},
		ProxyHeader:    string(access.XForwardedFor),
		CORSOrigins:    []string{"*"},
		Limits: Limits{
			Body: 256 << 10, Header: 32 << 10,
			HeaderTime: 10 * time.Second, BodyTime: 10 * time.Second, Stall: 30 * time.Second,
			Connections: 8192, ConnectionsPerAddress: 2048,
			Rounds: 512, RoundsPerClient: 128, // a batch has up to 100 requests
		},
		Tracing: Tracing{Share: 1},
	}
}

// check reports each mistake to wrong.
func (c *Surface) check(wrong func(format string, args ...any)) {
	if (c.TLS.Cert == "") != (c.TLS.Key == "") {
		wrong("tls: cert and key belong together; name both files or none")
	}
	for _, name := range slices.Sorted(maps.Keys(c.RateClasses)) {
		if err := c.RateClasses[name].Class().Validate(); err != nil {
			for line := range strings.SplitSeq(err.Error(), "\n") {
				wrong("rate_classes.%s.%s", name, line)
			}
		}
	}
	if _, err := ParsePrefixes(c.TrustedProxies); err != nil {
		wrong("trusted_proxies: %w", err)
	}
	if _, err := access.ParseProxyHeader(c.ProxyHeader); err != nil {
		wrong("proxy_header: %w", err)
	}
	for _, origin := range c.CORSOrigins {
		if origin == "*" {
			continue
		}
		if err := http.NewCrossOriginProtection().AddTrustedOrigin(origin); err != nil { // as middleware.Pages does
			wrong("cors_origins: %q is neither * nor an origin such as https://example.org: %w", origin, err)
		} else if sent := sentOrigin(origin); sent != origin {
			wrong("cors_origins: %q never matches; browsers send %q", origin, sent)
		}
	}
	if l := c.Limits; l.Body < 1<<10 || l.Body > 64<<20 {
		wrong("limits.body: %s is not between 1KiB and 64MiB", l.Body)
	}
	if l := c.Limits; l.Header < 4<<10 || l.Header > 1<<20 {
		wrong("limits.header: %s is not between 4KiB and 1MiB", l.Header)
	}
	for key, d := range map[string]time.Duration{"header_time": c.Limits.HeaderTime, "body_time": c.Limits.BodyTime, "stall": c.Limits.Stall} {
		if d < 100*time.Millisecond || d > 5*time.Minute {
			wrong("limits.%s: %s is not between 100ms and 5m", key, d)
		}
	}
	for key, n := range map[string]int{
		"connections": c.Limits.Connections, "connections_per_address": c.Limits.ConnectionsPerAddress,
		"rounds": c.Limits.Rounds, "rounds_per_client": c.Limits.RoundsPerClient,
	} {
		if n < 0 {
			wrong("limits.%s: %d is negative", key, n)
		}
	}
	if u, err := url.Parse(c.Tracing.OTLP); c.Tracing.OTLP != "" && (err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https") {
		wrong("tracing.otlp: it is no URL such as http://127.0.0.1:4318")
	}
	if s := c.Tracing.Share; !(s >= 0 && s <= 1) {
		wrong("tracing.share: %v is not between 0 and 1", s)
	}
}

// sentOrigin returns an origin as browsers send it: in lower case, without the default port.
func sentOrigin(origin string) string {
	origin = strings.ToLower(origin)
	for scheme, port := range map[string]string{"http://": ":80", "https://": ":443"} {
		if strings.HasPrefix(origin, scheme) {
			origin = strings.TrimSuffix(origin, port)
		}
	}
	return origin
}

// Class returns the class for package access.
func (c RateClass) Class() access.Class {
	return access.Class{PerSecond: c.PerSecond, Burst: c.Burst, PerDay: c.PerDay}
}

// ParsePrefixes parses address ranges and single addresses.
func ParsePrefixes(texts []string) ([]netip.Prefix, error) {
	prefixes := make([]netip.Prefix, len(texts))
	for i, text := range texts {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			a, errAddr := netip.ParseAddr(text)
			if errAddr != nil {
				return nil, fmt.Errorf("%q is no range such as 10.0.0.0/8", text)
			}
			p = netip.PrefixFrom(a, a.BitLen())
		}
		if p.Addr().Is4In6() { // ClientIP compares IPv4 addresses as such
			return nil, fmt.Errorf("%q never matches; write a range of IPv4 addresses as 10.0.0.0/8", text)
		}
		prefixes[i] = p
	}
	return prefixes, nil
}

// Scheme returns the scheme of the public address's URLs.
func (c *Surface) Scheme() string {
	if c.TLS.Cert != "" {
		return "https"
	}
	return "http"
}
