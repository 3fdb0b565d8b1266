package middleware

import (
	"fmt"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"quorate/handlers/apierr"
)

// Pages refuses requests that web pages of other sites make a browser send. origins are the web origins whose pages may
// call the service; * means all, and none means only its own pages. Programs that are not browsers send no origin and
// pass.
//
// Unless all origins are allowed, the Host of each request must be an IP address, a name that no web site can own, or
// one of hosts (* means all). Otherwise a web site could let its name resolve to the service (DNS rebinding) and would
// then have the service's own origin. Requests for which exempt returns true pass without that check.
func Pages(origins, hosts []string, exempt func(echo.Context) bool) (echo.MiddlewareFunc, error) {
	restricted := !slices.Contains(origins, "*")
	protection := http.NewCrossOriginProtection()
	if restricted {
		for _, origin := range origins {
			if err := protection.AddTrustedOrigin(origin); err != nil {
				return nil, fmt.Errorf("web origin %q: %w", origin, err)
			}
		}
	}
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			r := c.Request()
			switch {
			case !restricted:
			case !exempt(c) && !hostAllowed(r.Host, hosts):
				return forbidden("Host: %q is not a name of this service; list it in node_api.allowed_hosts", apierr.Excerpt(r.Host))
			case protection.Check(r) != nil, !originAllowed(r, origins):
				return forbidden("pages of other sites may not ask for this; cors_origins lists those that may use the public address")
			}
			if !exempt(c) && simpleBody(r) {
				return apierr.BadRequest("Content-Type: pages must send application/json")
			}
			return next(c)
		}
	}, nil
}

func forbidden(format string, args ...any) error {
	return &apierr.Error{Status: http.StatusForbidden, Message: fmt.Sprintf(format, args...)}
}

// originAllowed reports whether a request comes from an allowed page, from a page of the service, or from no page. It
// includes requests that http.CrossOriginProtection takes for safe, among them the opening of a WebSocket.
func originAllowed(r *http.Request, origins []string) bool {
	origin := r.Header.Get(echo.HeaderOrigin)
	if origin == "" || slices.Contains(origins, origin) {
		return true
	}
	u, err := url.Parse(origin)
	return err == nil && u.Host != "" && strings.EqualFold(u.Host, r.Host)
}

// simpleBody reports whether a page sent a body of a type for which browsers do not ask the service first whether the
// page's origin is allowed (a CORS preflight).
func simpleBody(r *http.Request) bool {
	if r.Method != http.MethodPost || r.Header.Get(echo.HeaderOrigin) == "" || r.ContentLength == 0 {
		return false
	}
	kind, _, err := mime.ParseMediaType(r.Header.Get(echo.HeaderContentType))
	return err != nil || kind != echo.MIMEApplicationJSON
}

// hostAllowed reports whether the host that a request addresses is allowed. It cannot be pointed here by the owner of a
// web page if it is an IP address, a name without dots as containers have, or a name in a domain outside the public DNS
// (RFC 6761, RFC 6762, RFC 8375, and internal, reserved by ICANN).
func hostAllowed(host string, allowed []string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.Trim(host, "[]")
	if _, err := netip.ParseAddr(host); err == nil {
		return true
	}
	name := strings.ToLower(strings.TrimSuffix(host, "."))
	if !strings.Contains(name, ".") {
		return true
	}
	for _, domain := range []string{".localhost", ".local", ".internal", ".home.arpa", ".svc"} {
		if strings.HasSuffix(name, domain) {
			return true
		}
	}
	return slices.ContainsFunc(allowed, func(one string) bool { return one == "*" || strings.EqualFold(one, name) })
}
