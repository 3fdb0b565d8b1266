package aggregator

import (
	"bytes"
	"cmp"
	"slices"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/constants"

	"quorate/validators"
)

// maxCoveredSubnets bounds the label of Coverage's metric: anybody can make a
// subnet.
const maxCoveredSubnets = 64

// Coverage is the metric of how much of each subnet's weight is connected: of the
// primary network, and of those with the most validators. Safe for concurrent use.
type Coverage struct {
	connected func(ids.NodeID) bool
	sets      atomic.Pointer[[]*validators.Set]
	ratio     *prometheus.Desc
	subnets   *prometheus.Desc
}

var _ prometheus.Collector = (*Coverage)(nil)

// NewCoverage makes a Coverage that knows no subnets yet.
func NewCoverage(connected func(ids.NodeID) bool) *Coverage {
	c := &Coverage{
		connected: connected,
		ratio:     prometheus.NewDesc("quorate_subnet_connected_weight_ratio", "Share of a subnet's weight, keyless weight included, whose validators are connected; of the subnets with the most validators.", []string{"subnet"}, nil),
		subnets:   prometheus.NewDesc("quorate_subnets", "Subnets with validators.", nil, nil),
	}
	c.sets.Store(&[]*validators.Set{})
	return c
}

// Follow takes the validator sets of the newest height.
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

// Subnet is how much of a subnet is connected.
type Subnet struct {
	ID         ids.ID
	Validators int // with a BLS key
	Weight     uint64
	// Connected is the share of Weight that is, 0 to 1.
	Connected float64
}

// Subnets are the primary network and those with the most validators, at most 64,
// of all subnets that have any.
func (c *Coverage) Subnets() (largest []Subnet, all int) {
	sets := *c.sets.Load()
	largest = make([]Subnet, min(len(sets), maxCoveredSubnets))
	for i := range largest {
		s := sets[i]
		largest[i] = Subnet{ID: s.SubnetID, Validators: len(s.Validators), Weight: s.TotalWeight, Connected: c.Of(s)}
	}
	return largest, len(sets)
}

// Of is the share, 0 to 1, of a set's weight that is connected.
func (c *Coverage) Of(s *validators.Set) float64 {
	var weight uint64
	for _, v := range s.Validators {
		if slices.ContainsFunc(v.NodeIDs, c.connected) {
			weight += v.Weight
		}
	}
	return float64(weight) / float64(max(s.TotalWeight, 1))
}

// Share is Of for the newest set of a subnet; false if that has no validators.
func (c *Coverage) Share(subnet ids.ID) (float64, bool) {
	for _, s := range *c.sets.Load() {
		if s.SubnetID == subnet {
			return c.Of(s), true
		}
	}
	return 0, false
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
