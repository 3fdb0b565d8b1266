package network

import (
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"quorate/internal/index"
	"quorate/internal/index/warplog"
)

// followed holds how the Warp messages of EVM chains are followed, by the chains' configured names, in the process that
// signs ahead. It is a collector of metrics and safe for concurrent use.
type followed struct {
	mu     sync.Mutex
	chains map[string]warplog.Status // guarded by mu

	failing, lost *prometheus.Desc
}

func newFollowed() *followed {
	return &followed{
		chains:  make(map[string]warplog.Status),
		failing: prometheus.NewDesc("quorate_warp_logs_failing", "1 while the Warp messages of an EVM chain cannot be followed; the index status says why.", []string{"chain"}, nil),
		lost:    prometheus.NewDesc("quorate_warp_logs_lost_blocks_total", "Blocks of an EVM chain whose Warp messages were not read because no node has the blocks any more.", []string{"chain"}, nil),
	}
}

// Describe implements prometheus.Collector.
func (f *followed) Describe(descs chan<- *prometheus.Desc) {
	descs <- f.failing
	descs <- f.lost
}

// Collect implements prometheus.Collector.
func (f *followed) Collect(metrics chan<- prometheus.Metric) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for name, s := range f.chains {
		failing := 0.0
		if s.Err != nil {
			failing = 1
		}
		metrics <- prometheus.MustNewConstMetric(f.failing, prometheus.GaugeValue, failing, name)
		metrics <- prometheus.MustNewConstMetric(f.lost, prometheus.CounterValue, float64(s.Lost), name)
	}
}

// clear forgets the chains: another process may sign ahead.
func (f *followed) clear() {
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.chains)
}

func (f *followed) set(chain string, s warplog.Status) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.chains[chain] = s
}

// followingMessages names, in a status, the work that fails while Warp messages are not followed.
const followingMessages = "following Warp messages"

// addTo adds notes to the status of indexed chains. The state of the index stays: signing ahead does not belong to it.
// indexed returns the name under which a chain is indexed. A chain that is not indexed gets a status of its own while
// its messages are not followed.
func (f *followed) addTo(all map[string]index.Status, indexed func(name string) string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for name, s := range f.chains {
		note := s.Note()
		if note == "" {
			continue
		}
		key := indexed(name)
		status, ok := all[key]
		if !ok {
			status.State = index.NotIndexed
		}
		status.Note = strings.TrimPrefix(status.Note+"; "+note, "; ")
		if s.Err != nil && status.Failing == "" {
			status.Failing, status.FailingSince = followingMessages, s.Since
		}
		all[key] = status
	}
}
