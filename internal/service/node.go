package service

import (
	"fmt"
	"net/http"
	"path"
	"strings"

	lookup "quorate/handlers/networks"
	"quorate/handlers/rpc/health"
)

// nodeSurface serves the node API of the network that a path names.
type nodeSurface struct {
	networks lookup.Directory[*entry]
	main     string // the network at /ext
	operator bool
}

// nodeAPIs finds the node APIs of networks.
func (n *networks) nodeAPIs() lookup.Directory[*entry] {
	return lookup.New(n.names, func(name string) (*entry, error) { return n.entries[name], nil }).Also(n.process.options.Aliases)
}

// ServeHTTP implements http.Handler.
func (s nodeSurface) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	clean := path.Clean(r.URL.Path)
	if strings.HasSuffix(r.URL.Path, "/") {
		clean += "/"
	}
	name, prefix := s.main, ""
	if first, _, _ := strings.Cut(clean[1:], "/"); first != "ext" {
		name, prefix = first, "/"+first
	}
	configured, ok := s.networks.Resolve(name)
	if !ok {
		http.NotFound(w, r)
		return
	}
	e, _ := s.networks.Get(configured) // never fails
	state := e.state.Load()
	if state.api == nil {
		if s.operator && strings.HasPrefix(strings.TrimPrefix(clean, prefix), "/ext/health") {
			health.Failing("network", func() error { return state.apiReady(e.name) }).ServeHTTP(w, r)
			return
		}
		message := fmt.Sprintf("the node of the network %s has not reported its chains yet; try again in a moment", e.name)
		if state.signing.Unavailable != nil {
			message = state.signing.Unavailable.Message
		}
		http.Error(w, message, http.StatusServiceUnavailable)
		return
	}
	surface := state.api.Public
	if s.operator {
		surface = state.api.Operator
	}
	if clean != r.URL.Path {
		u := *r.URL
		u.Path, u.RawPath = clean, ""
		surface.Moved(&u).ServeHTTP(w, r)
		return
	}
	http.StripPrefix(prefix, surface).ServeHTTP(w, r)
}
