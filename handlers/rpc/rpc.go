// Package rpc serves the JSON-RPC surface of a node: the paths under /ext with their aliases, envelope, error codes
// and texts. Clients of avalanchego cannot distinguish the service from a node. Calls that the service does not answer
// itself are forwarded to upstream nodes unchanged.
package rpc

import (
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"github.com/rs/cors"

	"github.com/ava-labs/avalanchego/ids"
)

// Options configures a Surface. NodeID is required.
type Options struct {
	// NodeID is set in a header of every answer.
	NodeID ids.NodeID
	// AllowedHosts are the host names of the service. IP addresses are always allowed, and "*" allows every name. Nil
	// means localhost. The check protects against DNS rebinding.
	AllowedHosts []string
	// AllowedOrigins are the web origins that may send calls. Nil means all, and an empty list means none.
	AllowedOrigins []string
	// Log may be nil.
	Log *slog.Logger
}

// Surface serves the paths under /ext. Endpoints may be added while it serves.
type Surface struct {
	router  *router
	handler http.Handler
	// around adds to every answer the headers and checks of a node.
	around func(http.Handler) http.Handler
}

// New returns a Surface without endpoints.
func New(o Options) *Surface {
	if o.AllowedHosts == nil {
		o.AllowedHosts = []string{"localhost"}
	}
	if o.AllowedOrigins == nil {
		o.AllowedOrigins = []string{"*"}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	pages := cors.Options{
		AllowedOrigins: o.AllowedOrigins, AllowCredentials: true,
		AllowedHeaders: []string{"Accept", "Content-Type", "X-Requested-With", "X-Data-Api-Key", "X-Glacier-Api-Key"},
	}
	if len(o.AllowedOrigins) == 0 { // cors takes an empty list for all origins
		pages.AllowOriginFunc = func(string) bool { return false }
	}
	shared := cors.New(pages)
	name := []string{o.NodeID.String()} // shared by all answers and never changed
	s := &Surface{router: newRouter(), around: func(h http.Handler) http.Handler {
		h = shared.Handler(knownHosts(unrouted(h), o.AllowedHosts))
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header()["Node-Id"] = name
			h.ServeHTTP(w, r)
		})
	}}
	s.handler = s.around(recovered(s.router, o.Log))
	return s
}

// Moved redirects a client to the clean form of its path, with the headers of the surface.
func (s *Surface) Moved(to *url.URL) http.Handler {
	return s.around(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { redirect(w, to) }))
}

// ServeHTTP implements http.Handler.
func (s *Surface) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.handler.ServeHTTP(w, r) }

// base begins the path of every endpoint.
const base = "/ext/"

// Add serves an endpoint (such as /rpc, or nothing) of a base (such as bc/C).
func (s *Surface) Add(name, endpoint string, h http.Handler) error {
	return s.router.add(base+name, endpoint, h)
}

// Alias makes other names lead to a base. The base need not be there yet.
func (s *Surface) Alias(name string, aliases ...string) error {
	paths := make([]string, len(aliases))
	for i, a := range aliases {
		paths[i] = base + a
	}
	return s.router.alias(base+name, paths...)
}

// knownHosts refuses requests that address the service by a name it does not go by.
func knownHosts(h http.Handler, allowed []string) http.Handler {
	names := make(map[string]bool, len(allowed))
	for _, name := range allowed {
		if name == "*" {
			return h
		}
		names[strings.ToLower(name)] = true
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, _, err := net.SplitHostPort(r.Host)
		if err != nil {
			host = r.Host // without a port
		}
		if host != "" && !isAddress(host) && !names[strings.ToLower(host)] {
			http.Error(w, "invalid host specified", http.StatusForbidden)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// isAddress reports whether net.ParseIP would parse text, without its allocation.
func isAddress(text string) bool {
	a, err := netip.ParseAddr(text)
	return err == nil && a.Zone() == ""
}
