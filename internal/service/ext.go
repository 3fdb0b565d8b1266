package service

import (
	"fmt"
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"quorate/handlers/rpc/health"
	"quorate/internal/config"
	"quorate/internal/node"
)

// nodeSurface finds the surface of the network that a path is for.
type nodeSurface struct {
	reception *reception
	main      string
	operator  bool
}

// newAnswers bounds what nodes' answers take, of all networks and at both addresses: an
// eighth of the memory, or so much that one client may have the longest one.
func newAnswers(limit config.Size, r prometheus.Registerer) (*node.Budget, error) {
	const least, patience = 144 << 20, 2 * time.Second
	b := node.NewBudget(max(int64(limit)/8, least), patience)
	gauge := func(name, help string, of func(node.Usage) int64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "quorate_rpc_answers_" + name, Help: help}, func() float64 { return float64(of(b.Usage())) })
	}
	refused := func(why string, of func(node.Refused) uint64) prometheus.Collector {
		return prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "quorate_rpc_answers_refused_total", ConstLabels: prometheus.Labels{"bound": why},
			Help: "Answers of nodes and bodies of calls that got no memory, by bound: answer (larger than one may be), client (its client held most of what was taken itself), all.",
		}, func() float64 { return float64(of(b.Usage().Refused)) })
	}
	for _, c := range []prometheus.Collector{
		gauge("bytes", "Memory that answers of nodes under way take, in bytes.", func(u node.Usage) int64 { return u.Bytes }),
		gauge("limit_bytes", "How much they may take, in bytes.", func(u node.Usage) int64 { return u.Size }),
		gauge("largest_client_bytes", "What those of one client take, of the one with most, in bytes.", func(u node.Usage) int64 { return u.Largest }),
		gauge("clients", "Clients that such answers are under way to.", func(u node.Usage) int64 { return int64(u.Clients) }),
		gauge("waiting", "Answers that wait for memory.", func(u node.Usage) int64 { return int64(u.Waiting) }),
		refused("answer", func(r node.Refused) uint64 { return r.Size }),
		refused("client", func(r node.Refused) uint64 { return r.Client }),
		refused("all", func(r node.Refused) uint64 { return r.All }),
	} {
		if err := r.Register(c); err != nil {
			return nil, fmt.Errorf("registering the metrics of answers: %w", err)
		}
	}
	return b, nil
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
	slot := s.reception.named(name)
	if slot == nil {
		http.NotFound(w, r)
		return
	}
	api := slot.nodeAPI()
	if api == nil {
		if s.operator && strings.HasPrefix(strings.TrimPrefix(clean, prefix), "/ext/health") {
			health.Failing("network", slot.ready).ServeHTTP(w, r)
			return
		}
		http.Error(w, slot.unavailable().Message, http.StatusServiceUnavailable)
		return
	}
	surface := api.Public
	if s.operator {
		surface = api.Operator
	}
	if clean != r.URL.Path {
		u := *r.URL
		u.Path, u.RawPath = clean, ""
		surface.Moved(&u).ServeHTTP(w, r)
		return
	}
	http.StripPrefix(prefix, surface).ServeHTTP(w, r)
}
