package console

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"quorate/aggregator"
	"quorate/internal/index"
)

// statusView is the event status.
type statusView struct {
	Networks []networkView `json:"networks"`
	Chains   []chainView   `json:"chains"`
	// Example reports whether there are example messages.
	Example bool `json:"example"`
	// Readiness is that of /readyz: ready, degraded or not ready.
	Readiness string `json:"readiness"`
	// Problems are what is wrong now, the worst first.
	Problems []problemView `json:"problems"`
}

type networkView struct {
	Name       string       `json:"name"`
	NetworkID  uint32       `json:"networkId"`
	Ready      bool         `json:"ready"`
	Reason     string       `json:"reason,omitempty"`   // if it is not ready
	Degraded   string       `json:"degraded,omitempty"` // if it is ready
	Height     *uint64      `json:"pChainHeight"`
	Peers      int          `json:"peers"`
	Subnets    []subnetView `json:"subnets"`
	AllSubnets int          `json:"allSubnets"`
	// Aliases are further names of the network.
	Aliases []string `json:"aliases,omitempty"`

	nodes []Node
}

type subnetView struct {
	ID         string  `json:"subnetId"`
	Validators int     `json:"validators"`
	Weight     uint64  `json:"weight,string"`
	Connected  float64 `json:"connected"`
	// Since is when less than the default quorum was first noticed to be connected, in milliseconds since 1970; 0 if
	// more is.
	Since int64 `json:"since,omitempty"`
	// Required reports whether it is a problem if less is connected.
	Required bool `json:"required,omitempty"`
}

// chainView is the progress of a chain's index. It omits errors of nodes and stores, which are for operators, but
// includes what the operator must configure.
type chainView struct {
	Network         string      `json:"network"`
	Chain           string      `json:"chain"`
	State           index.State `json:"state"`
	From            uint64      `json:"from"`
	Next            uint64      `json:"next"`
	Tip             *uint64     `json:"tip"`
	Lag             uint64      `json:"lag"`
	Rebuilt         int         `json:"rebuilt"`
	BlocksPerSecond float64     `json:"blocksPerSecond"`
	Failing         string      `json:"failing,omitempty"`
	Needs           string      `json:"needs,omitempty"`
	// ProvenFrom and ProvenTo are the blocks that are proven by stake; absent if none are.
	ProvenFrom *uint64 `json:"provenFrom,omitempty"`
	ProvenTo   *uint64 `json:"provenTo,omitempty"`
}

func (c *Console) readStatus() (any, error) {
	v := statusView{Networks: []networkView{}, Chains: []chainView{}, Example: c.options.Example != nil}
	for _, n := range c.options.Networks() {
		w := networkView{Name: n.Name, NetworkID: n.NetworkID, Ready: n.Ready, Reason: n.Reason, Degraded: n.Degraded, Peers: n.Peers, Subnets: []subnetView{}, AllSubnets: n.AllSubnets, Aliases: n.Aliases, nodes: n.Nodes}
		if n.HeightKnown {
			w.Height = &n.Height
		}
		for _, s := range n.Subnets {
			w.Subnets = append(w.Subnets, subnetView{ID: s.ID.String(), Validators: s.Validators, Weight: s.Weight, Connected: s.Connected, Required: s.Required})
		}
		v.Networks = append(v.Networks, w)
	}
	slices.SortFunc(v.Networks, func(a, b networkView) int { return cmp.Compare(a.Name, b.Name) })
	var networks map[string]map[string]index.Status
	if c.options.Index != nil {
		networks = c.options.Index()
	}
	for _, network := range slices.Sorted(maps.Keys(networks)) {
		for _, chain := range slices.Sorted(maps.Keys(networks[network])) {
			s := networks[network][chain]
			w := chainView{Network: network, Chain: chain, State: s.State, From: s.From, Next: s.Next, Lag: s.Lag(), BlocksPerSecond: s.BlocksPerSecond, Failing: s.Failing, Needs: s.Needs()}
			if s.State == index.Rebuilding {
				w.Rebuilt = s.Rebuilt()
			}
			if s.TipKnown {
				w.Tip = &s.Tip
			}
			if p := s.Proof; p != nil {
				w.ProvenFrom, w.ProvenTo = &p.From, &p.To
			}
			v.Chains = append(v.Chains, w)
		}
	}
	c.findProblems(&v, networks)
	return v, nil
}

// latencyView holds the durations of a network's requests with one outcome.
type latencyView struct {
	Network string `json:"network"`
	Outcome string `json:"outcome"`
	Count   uint64 `json:"count"`
	// Seconds is the sum of the durations.
	Seconds float64      `json:"seconds"`
	Buckets []bucketView `json:"buckets"`
}

// bucketView counts the requests that took at most UpTo seconds.
type bucketView struct {
	UpTo  float64 `json:"upTo"`
	Count uint64  `json:"count"`
}

func (c *Console) readLatency() (any, error) {
	answer := struct {
		Requests []latencyView `json:"requests"`
	}{[]latencyView{}}
	if c.options.Gatherer == nil {
		return answer, nil
	}
	families, err := c.options.Gatherer.Gather()
	if len(families) == 0 && err != nil { // one failed family does not hide the others
		return nil, fmt.Errorf("gathering latencies: %w", err)
	}
	for _, family := range families {
		if family.GetName() != signSeconds {
			continue
		}
		for _, m := range family.GetMetric() {
			v, ahead := latencyView{Buckets: []bucketView{}}, false
			for _, label := range m.GetLabel() {
				switch label.GetName() {
				case "network":
					v.Network = label.GetValue()
				case "outcome":
					v.Outcome = label.GetValue()
				case "origin":
					ahead = label.GetValue() == aggregator.OriginAhead.String()
				}
			}
			if ahead {
				continue // no client waited
			}
			h := m.GetHistogram()
			v.Count, v.Seconds = h.GetSampleCount(), h.GetSampleSum()
			for _, b := range h.GetBucket() {
				v.Buckets = append(v.Buckets, bucketView{b.GetUpperBound(), b.GetCumulativeCount()})
			}
			answer.Requests = append(answer.Requests, v)
		}
	}
	return answer, nil
}
