package console

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ava-labs/avalanchego/utils/constants"

	"quorate/aggregator"
	"quorate/internal/index"
)

// Severities of problems: requests fail, or something does not work as it should.
const (
	bad     = "bad"
	warning = "warning"
)

// Readiness of the service, as at /readyz.
const (
	ready    = "ready"
	degraded = "degraded"
	notReady = "not ready"
)

// problemView is something that is wrong now. It omits errors of nodes and stores, which are for operators; it names
// upstream nodes that lag or lie.
type problemView struct {
	Severity string `json:"severity"`
	// Kind is network, subnets, index, nodes or store. Network and Chain may be empty.
	Kind    string `json:"kind"`
	Network string `json:"network,omitempty"`
	Chain   string `json:"chain,omitempty"`
	Title   string `json:"title"`
	Text    string `json:"text,omitempty"`
	// Since is when the problem was first noticed, in milliseconds since 1970.
	Since int64 `json:"since"`
}

// since remembers when problems were first noticed, and forgets those that are over. The lock of Console.status guards
// it.
type since struct {
	at            time.Time
	before, after map[string]time.Time
}

// begin begins a look at all problems.
func (s *since) begin(now time.Time) {
	s.at, s.before, s.after = now, s.after, make(map[string]time.Time)
}

// of returns when a problem that exists now was first noticed.
func (s *since) of(key ...string) int64 {
	name := strings.Join(key, "/")
	first, ok := s.before[name]
	if !ok {
		first = s.at
	}
	s.after[name] = first
	return first.UnixMilli()
}

// findProblems sets what is wrong in a status, the worst first. It requires the lock of c.status.
func (c *Console) findProblems(v *statusView, chains map[string]map[string]index.Status) {
	c.since.begin(time.Now())
	v.Readiness, v.Problems = ready, []problemView{}
	for i := range v.Networks {
		n := &v.Networks[i]
		switch {
		case !n.Ready:
			v.Readiness = notReady
			v.Problems = append(v.Problems, problemView{bad, "network", n.Name, "", n.Name + " is not ready to sign", n.Reason, c.since.of("ready", n.Name)})
		case n.Degraded != "":
			if v.Readiness == ready {
				v.Readiness = degraded
			}
			v.Problems = append(v.Problems, problemView{warning, "network", n.Name, "", n.Name + " is degraded", n.Degraded, c.since.of("degraded", n.Name)})
		}
		v.Problems = append(v.Problems, c.thinSubnets(n)...)
		v.Problems = append(v.Problems, judgedNodes(n)...)
	}
	for _, w := range v.Chains {
		v.Problems = append(v.Problems, c.chainProblems(w, chains[w.Network][w.Chain])...)
	}
	v.Problems = append(v.Problems, c.measuredProblems()...)
	slices.SortStableFunc(v.Problems, func(a, b problemView) int { return strings.Compare(a.Severity, b.Severity) })
}

// thinSubnets notes since when subnets have too little connected weight to sign with the default quorum. It returns a
// problem for each that is required, as /ext/health does. The primary network is left out, because the network is not
// ready without it. Anyone can create other subnets, and their validators may be gone for good.
func (c *Console) thinSubnets(n *networkView) []problemView {
	var found []problemView
	for i := range n.Subnets {
		s := &n.Subnets[i]
		if 100*s.Connected >= aggregator.DefaultQuorumPercentage {
			continue
		}
		s.Since = c.since.of("subnet", n.Name, s.ID)
		if !s.Required || s.ID == constants.PrimaryNetworkID.String() {
			continue
		}
		text := "Its messages cannot be signed with the default quorum."
		if s.Validators == 0 {
			text = "It has no validators. Correct health_subnets if it is not meant."
		}
		found = append(found, problemView{
			warning, "subnets", n.Name, "", fmt.Sprintf("%.1f%% of the weight of the subnet %s of %s is connected, %d%% are needed", 100*s.Connected, s.ID, n.Name, aggregator.DefaultQuorumPercentage),
			text, s.Since,
		})
	}
	return found
}

// judgedNodes returns a problem for each upstream node that lags or lies.
func judgedNodes(n *networkView) []problemView {
	var found []problemView
	for _, one := range n.nodes {
		p := problemView{warning, "nodes", n.Name, "", fmt.Sprintf("The upstream node %s of %s lags and is asked last", one.Host, n.Name), one.Found, one.Since.UnixMilli()}
		if one.Lies {
			p.Severity, p.Title = bad, fmt.Sprintf("The upstream node %s of %s contradicts the P-Chain and is not asked", one.Host, n.Name)
		}
		found = append(found, p)
	}
	return found
}

// chainProblems returns why the index of a chain does not go on.
func (c *Console) chainProblems(w chainView, s index.Status) []problemView {
	severity := warning
	switch s.State {
	case index.Stopped, index.Stalled, index.Waiting:
		severity = bad
	case index.Retrying:
	default:
		return nil
	}
	text := "Its operator finds the reason with quorate index status."
	switch {
	case w.Needs != "":
		text = w.Needs
	case w.Failing != "":
		text = "Fails: " + w.Failing + ". " + text
	}
	began := c.since.of("index", w.Network, w.Chain)
	if !s.FailingSince.IsZero() {
		began = s.FailingSince.UnixMilli()
	}
	return []problemView{{severity, "index", w.Network, w.Chain, fmt.Sprintf("The index of the chain %s of %s is %s", w.Chain, w.Network, s.State), text, began}}
}

// measuredProblems returns the problems that the metrics show.
func (c *Console) measuredProblems() []problemView {
	v, err := c.readHistory(false)
	if err != nil {
		return nil
	}
	var found []problemView
	for _, n := range v.Networks {
		if down := n.Nodes - n.NodesUp; down > 0 {
			severity := warning
			if n.NodesUp == 0 {
				severity = bad
			}
			found = append(found, problemView{
				severity, "nodes", n.Network, "", fmt.Sprintf("%d of %d upstream nodes of %s did not answer the latest request", down, n.Nodes, n.Network),
				"Its operator finds them in the metric quorate_upstream_up.", c.since.of("nodes", n.Network),
			})
		}
	}
	if v.Dropped > 0 {
		found = append(found, problemView{
			warning, "store", "", "", fmt.Sprintf("%d rows of the archive were dropped in the last hour", v.Dropped),
			"The disk or the database failed or was too slow. The messages were signed, but are not stored.", c.since.of("store"),
		})
	}
	return found
}
