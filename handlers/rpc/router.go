package rpc

import (
	"fmt"
	"net/http"
	"net/url"
	"path"
	"slices"
	"sync"
)

// router finds the handler of a path as a node does (avalanchego, package api/server): it compares paths literally, a
// base has endpoints, and an alias of a base leads to all of them, including those added later. It is safe for
// concurrent use.
type router struct {
	mu       sync.RWMutex
	handlers map[string]http.Handler            // by path; guarded by mu
	bases    map[string]map[string]http.Handler // by base and endpoint; guarded by mu
	aliases  map[string][]string                // by base; guarded by mu
	reserved map[string]bool                    // aliases; guarded by mu
}

func newRouter() *router {
	return &router{
		handlers: make(map[string]http.Handler),
		bases:    make(map[string]map[string]http.Handler),
		aliases:  make(map[string][]string),
		reserved: make(map[string]bool),
	}
}

// unrouted answers 404 to requests with the header that on a node selects a virtual machine. The service has no such
// routes.
func unrouted(h http.Handler) http.Handler {
	const header = "Avalanche-Api-Route"
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, ok := r.Header[header]; ok {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// ServeHTTP implements http.Handler.
func (r *router) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	asked := request.URL.Path
	rooted := asked
	if asked == "" || asked[0] != '/' {
		rooted = "/" + asked
	}
	clean := path.Clean(rooted)
	if asked != "" && asked[len(asked)-1] == '/' && clean != "/" {
		clean += "/"
	}
	if clean != asked {
		u := *request.URL
		u.Path = clean
		redirect(w, &u)
		return
	}
	r.mu.RLock()
	h, ok := r.handlers[asked]
	r.mu.RUnlock()
	if !ok {
		http.NotFound(w, request)
		return
	}
	h.ServeHTTP(w, request)
}

// redirect redirects a client as a node does: without a body.
func redirect(w http.ResponseWriter, to *url.URL) {
	w.Header().Set("Location", to.String())
	w.WriteHeader(http.StatusMovedPermanently)
}

// add adds an endpoint (/rpc, for example, or the empty path) to a base.
func (r *router) add(base, endpoint string, h http.Handler) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.reserved[base] {
		return taken(base)
	}
	return r.force(base, endpoint, h)
}

// force adds an endpoint to base and to its aliases. base may itself be an alias.
func (r *router) force(base, endpoint string, h http.Handler) error {
	if _, exists := r.bases[base][endpoint]; exists {
		return fmt.Errorf("failed to create endpoint as %s already exists", base+endpoint)
	}
	if r.bases[base] == nil {
		r.bases[base] = make(map[string]http.Handler)
	}
	r.bases[base][endpoint] = h
	r.handlers[base+endpoint] = h
	var failed error
	for _, alias := range r.aliases[base] {
		if err := r.force(alias, endpoint, h); failed == nil {
			failed = err
		}
	}
	return failed
}

// alias adds aliases of base, which need not exist yet.
func (r *router) alias(base string, aliases ...string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if i := slices.IndexFunc(aliases, func(a string) bool { return r.reserved[a] }); i >= 0 {
		return taken(aliases[i])
	}
	for _, a := range aliases {
		r.reserved[a] = true
	}
	r.aliases[base] = append(r.aliases[base], aliases...)
	var failed error
	for endpoint, h := range r.bases[base] {
		for _, a := range aliases {
			if err := r.force(a, endpoint, h); failed == nil {
				failed = err
			}
		}
	}
	return failed
}

func taken(route string) error {
	return fmt.Errorf("route is either already aliased or already maps to a handle: %s", route)
}
