package network

import (
	"bytes"
	"cmp"
	"slices"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/constants"

	"quorate/handlers/console"
	"quorate/validators"
)

// maxCoveredSubnets limits the values of the metric's label, because anyone can create subnets.
const maxCoveredSubnets = 64

// Coverage is the metric of the connected weight of subnets: the primary network and the
// subnets with the most validators. It is safe for concurrent use.
type Coverage struct {
	connected func(ids.NodeID) bool
	sets      atomic.Pointer[[]*validators.Set]
	ratio     *prometheus.Desc
	subnets   *prometheus.Desc
}

var _ prometheus.Collector = (*Coverage)(nil)

// NewCoverage returns a Coverage without subnets; see Follow.
func NewCoverage(connected func(ids.NodeID) bool) *Coverage {
	c := &Coverage{
		connected: connected,
		ratio:     prometheus.NewDesc("quorate_subnet_connected_weight_ratio", "Share of a subnet's weight, keyless weight included, whose validators are connected; of the subnets with the most validators.", []string{"subnet"}, nil),
		subnets:   prometheus.NewDesc("quorate_subnets", "Subnets with validators.", nil, nil),
	}
	c.sets.Store(&[]*validators.Set{})
	return c
}

// Follow sets the validator sets of the newest height.
func (c *Coverage) Follow(sets map[ids.ID]*validators.Set) {
	all := make([]*validators.Set, 0, len(sets))
	for _, s := range sets {
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b *validators.Set) int {
		return cmp.Or(
			cmp.Compare(rank(a), rank(b)),
			cmp.Compare(len(b.Validators), len(a.Validators)),
			bytes.Compare(a.SubnetID[:], b.SubnetID[:]),
		)
	})
	c.sets.Store(&all)
}

func rank(s *validators.Set) int {
	if s.SubnetID == constants.PrimaryNetworkID {
		return 0
	}
	return 1
}

// Subnets returns the primary network and the subnets with the most validators, at most
// 64, and the number of all subnets that have validators.
func (c *Coverage) Subnets() (largest []console.Subnet, all int) {
	sets := *c.sets.Load()
	largest = make([]console.Subnet, min(len(sets), maxCoveredSubnets))
	for i := range largest {
		largest[i] = c.describe(sets[i])
	}
	return largest, len(sets)
}

// Subnet returns a subnet of any size; false if it has no validators, or they are not known yet.
func (c *Coverage) Subnet(id ids.ID) (console.Subnet, bool) {
	for _, s := range *c.sets.Load() {
		if s.SubnetID == id {
			return c.describe(s), true
		}
	}
	return console.Subnet{}, false
}

func (c *Coverage) describe(s *validators.Set) console.Subnet {
	return console.Subnet{ID: s.SubnetID, Validators: len(s.Validators), Weight: s.TotalWeight, Connected: c.Of(s)}
}

// Of returns the share, 0 to 1, of a set's weight that is connected.
func (c *Coverage) Of(s *validators.Set) float64 {
	var weight uint64
	for _, v := range s.Validators {
		if slices.ContainsFunc(v.NodeIDs, c.connected) {
			weight += v.Weight
		}
	}
	return float64(weight) / float64(max(s.TotalWeight, 1))
}

// Describe implements prometheus.Collector.
func (c *Coverage) Describe(descs chan<- *prometheus.Desc) {
	descs <- c.ratio
	descs <- c.subnets
}

// Collect implements prometheus.Collector.
func (c *Coverage) Collect(metrics chan<- prometheus.Metric) {
	sets := *c.sets.Load()
	metrics <- prometheus.MustNewConstMetric(c.subnets, prometheus.GaugeValue, float64(len(sets)))
	for _, s := range sets[:min(len(sets), maxCoveredSubnets)] {
		metrics <- prometheus.MustNewConstMetric(c.ratio, prometheus.GaugeValue, c.Of(s), s.SubnetID.String())
	}
}
