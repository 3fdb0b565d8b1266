package console

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	dto "github.com/prometheus/client_model/go"

	"quorate/aggregator"
)

// Names of the metrics that the overview shows.
const (
	// signSeconds is the aggregators' histogram of requests.
	signSeconds     = "quorate_sign_seconds"
	shortfallsTotal = "quorate_shortfalls_total"
	aheadJobs       = "quorate_ahead_jobs_total"
	aheadWaiting    = "quorate_ahead_waiting"
	upstreamUp      = "quorate_upstream_up"
	storeDisk       = "quorate_store_disk_bytes"
	storeCommits    = "quorate_store_commits_total"
	archiveDropped  = "quorate_archive_dropped_total"
)

const (
	// sampleInterval is the time between two samples of the last hour, and between two looks for problems while no
	// client is connected. longInterval is the time between two samples of the last day.
	sampleInterval, longInterval = 15 * time.Second, 5 * time.Minute
	hour, day                    = time.Hour, 24 * time.Hour
)

// signedOutcome and cancelledOutcome are outcomes of requests that are not failures.
const (
	signedOutcome    = "signed"
	cancelledOutcome = "cancelled"
)

// sample holds the values of metrics at one time. It is immutable.
type sample struct {
	at       time.Time
	networks map[string]*counters
	store    storeView
}

// counters holds the metrics of one network.
type counters struct {
	// signed is the histogram of signed requests: their number and the cumulative number in each bucket.
	signed  uint64
	limits  []float64
	buckets []uint64
	// outcomes counts the requests that were not signed, shortfalls the reasons of missing weight, ahead the messages
	// that were signed, or not, before a request.
	outcomes, shortfalls, ahead map[string]uint64
	waiting                     uint64
	nodes, nodesUp              int
	// incomplete reports that an earlier sample had more: a collector failed, and its values are the earlier ones.
	incomplete bool
}

// storeView is the state of the store.
type storeView struct {
	// DiskBytes is 0 if the store is a server.
	DiskBytes uint64 `json:"diskBytes"`
	Commits   uint64 `json:"commits"`
	// Dropped counts the rows of the archive that could not be written since the service started.
	Dropped uint64 `json:"dropped"`
}

// ring holds samples that are at least step apart and no older than span.
type ring struct {
	step, span time.Duration
	samples    []*sample
}

// add adds a sample if it is due.
func (r *ring) add(s *sample) {
	const early = time.Second // timers are not exact
	if n := len(r.samples); n > 0 && s.at.Sub(r.samples[n-1].at) < r.step-early {
		return
	}
	r.samples = append(r.samples, s)
	// Keep one that is older than span: counts of the whole span begin with it.
	for len(r.samples) > 1 && s.at.Sub(r.samples[1].at) >= r.span {
		r.samples = slices.Delete(r.samples, 0, 1)
	}
}

// Run takes samples for the overview until ctx ends, and notices when problems begin and end.
func (c *Console) Run(ctx context.Context) {
	ticker := time.NewTicker(sampleInterval)
	defer ticker.Stop()
	for {
		c.sample()
		_, _ = c.status.get()
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// sample adds the present values to the history.
func (c *Console) sample() {
	value, err := c.counters.get()
	if err != nil {
		return // the next one may succeed
	}
	s := value.(*sample)
	c.history.Lock()
	defer c.history.Unlock()
	c.hour.add(s)
	c.day.add(s)
}

// readCounters returns the present values as a *sample.
func (c *Console) readCounters() (any, error) {
	s := &sample{at: time.Now(), networks: make(map[string]*counters)}
	if c.options.Gatherer == nil {
		return s, nil
	}
	defer func() {
		s.complete(c.counted)
		c.counted = s
	}()
	families, err := c.options.Gatherer.Gather()
	if len(families) == 0 && err != nil { // one failed family does not hide the others
		return nil, fmt.Errorf("gathering metrics: %w", err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			s.add(f.GetName(), m)
		}
	}
	return s, nil
}

// complete adds what an earlier sample of the process has and s lacks. Counters never decrease, so what is lower is
// missing. before may be nil.
func (s *sample) complete(before *sample) {
	if before == nil {
		return
	}
	for name, b := range before.networks {
		n, ok := s.networks[name]
		if !ok {
			gone := *b
			gone.incomplete = true
			s.networks[name] = &gone
			continue
		}
		if n.signed < b.signed {
			n.signed, n.limits, n.buckets, n.incomplete = b.signed, b.limits, b.buckets, true
		}
		for _, counts := range []struct{ now, before map[string]uint64 }{{n.outcomes, b.outcomes}, {n.shortfalls, b.shortfalls}, {n.ahead, b.ahead}} {
			for key, count := range counts.before {
				if counts.now[key] < count {
					counts.now[key], n.incomplete = count, true
				}
			}
		}
	}
	s.store.Commits, s.store.Dropped = max(s.store.Commits, before.store.Commits), max(s.store.Dropped, before.store.Dropped)
}

func (s *sample) network(name string) *counters {
	n, ok := s.networks[name]
	if !ok {
		n = &counters{outcomes: make(map[string]uint64), shortfalls: make(map[string]uint64), ahead: make(map[string]uint64)}
		s.networks[name] = n
	}
	return n
}

// add adds a metric of a family.
func (s *sample) add(family string, m *dto.Metric) {
	label := func(name string) string {
		for _, l := range m.GetLabel() {
			if l.GetName() == name {
				return l.GetValue()
			}
		}
		return ""
	}
	count := func() uint64 { return uint64(m.GetCounter().GetValue()) }
	switch family {
	case signSeconds:
		if label("origin") == aggregator.OriginAhead.String() {
			return // no client waited
		}
		n, h := s.network(label("network")), m.GetHistogram()
		if outcome := label("outcome"); outcome != signedOutcome {
			n.outcomes[outcome] += h.GetSampleCount()
			return
		}
		n.signed += h.GetSampleCount()
		if n.buckets == nil {
			n.limits, n.buckets = make([]float64, len(h.GetBucket())), make([]uint64, len(h.GetBucket()))
		}
		for i, b := range h.GetBucket()[:min(len(h.GetBucket()), len(n.buckets))] {
			n.limits[i] = b.GetUpperBound()
			n.buckets[i] += b.GetCumulativeCount()
		}
	case shortfallsTotal:
		s.network(label("network")).shortfalls[label("reason")] += count()
	case aheadJobs:
		s.network(label("network")).ahead[label("outcome")] += count()
	case aheadWaiting:
		s.network(label("network")).waiting += uint64(m.GetGauge().GetValue())
	case upstreamUp:
		n := s.network(label("network"))
		n.nodes++
		if m.GetGauge().GetValue() > 0 {
			n.nodesUp++
		}
	case storeDisk:
		s.store.DiskBytes = uint64(m.GetGauge().GetValue())
	case storeCommits:
		s.store.Commits = count()
	case archiveDropped:
		s.store.Dropped = count()
	}
}

// historyView is the answer of /console/api/history.
type historyView struct {
	// From is when the range begins, in milliseconds since 1970: when the service started, if that is later.
	From     int64       `json:"from"`
	To       int64       `json:"to"`
	Networks []historyOf `json:"networks"`
	Store    storeView   `json:"store"`
	Dropped  uint64      `json:"dropped"` // rows of the archive, in the range
	Step     float64     `json:"step"`    // seconds between two points
}

// historyOf is the history of a network. Counts are those of the range.
type historyOf struct {
	Network string `json:"network"`
	Signed  uint64 `json:"signed"`
	Failed  uint64 `json:"failed"`
	// NotSigned counts the failures of all processes in the whole range, also before the start of this one. It is Failed
	// if they are not stored. Outcomes and Shortfalls are its parts, besides requests that clients cancelled.
	NotSigned uint64 `json:"notSigned"`
	// SignedTotal counts since the service started.
	SignedTotal uint64 `json:"signedTotal"`
	// Median and P99 are the durations of signed requests in milliseconds, null without any.
	Median *float64 `json:"median"`
	P99    *float64 `json:"p99"`
	// Outcomes counts the requests that were not signed, Shortfalls the reasons of missing weight.
	Outcomes   []outcomeView   `json:"outcomes"`
	Shortfalls []shortfallView `json:"shortfalls"`
	// Ahead counts messages that were to be signed before a request, by outcome; Waiting is the present number.
	Ahead   map[string]uint64 `json:"ahead"`
	Waiting uint64            `json:"waiting"`
	Nodes   int               `json:"nodes"`
	NodesUp int               `json:"nodesUp"`
	Points  []point           `json:"points"`
}

type outcomeView struct {
	Code  string `json:"code"`
	Count uint64 `json:"count"`
}

type shortfallView struct {
	outcomeView

	Meaning string `json:"meaning"`
	Remedy  string `json:"remedy"`
}

// point is what happened between two samples.
type point struct {
	At     int64    `json:"at"`
	Signed uint64   `json:"signed"`
	Failed uint64   `json:"failed"`
	Median *float64 `json:"median"`
	P99    *float64 `json:"p99"`
}

// readHistory returns what happened in the last hour, or the last day.
func (c *Console) readHistory(whole bool) (*historyView, error) {
	value, err := c.counters.get()
	if err != nil {
		return nil, err
	}
	current := value.(*sample)
	c.history.Lock()
	r := &c.hour
	if whole {
		r = &c.day
	}
	samples := slices.Clone(r.samples)
	c.history.Unlock()
	if n := len(samples); n == 0 || samples[n-1].at.Before(current.at) {
		samples = append(samples, current)
	}
	// A sample may have been taken meanwhile. The last one has the networks of all samples before it.
	first, now := samples[0], samples[len(samples)-1]
	v := &historyView{From: first.at.UnixMilli(), To: now.at.UnixMilli(), Networks: []historyOf{}, Store: now.store, Step: r.step.Seconds()}
	v.Dropped = now.store.Dropped - min(first.store.Dropped, now.store.Dropped)
	for _, name := range slices.Sorted(maps.Keys(now.networks)) {
		if name != "" {
			of := newHistoryOf(name, samples)
			of.recall(c.tallyOf(name, now.at.Add(-r.span)))
			v.Networks = append(v.Networks, of)
		}
	}
	return v, nil
}

func newHistoryOf(name string, samples []*sample) historyOf {
	first, last := samples[0].networks[name], samples[len(samples)-1].networks[name]
	whole := between(first, last)
	v := historyOf{
		Network: name, Signed: whole.signed, Failed: whole.failed(), NotSigned: whole.failed(), SignedTotal: last.signed, Median: whole.quantile(0.5), P99: whole.quantile(0.99),
		Outcomes: counted(whole.outcomes), Shortfalls: newShortfalls(whole.shortfalls), Ahead: whole.ahead, Waiting: last.waiting,
		Nodes: last.nodes, NodesUp: last.nodesUp, Points: make([]point, 0, len(samples)-1),
	}
	for i, s := range samples[1:] {
		from, to := samples[i].networks[name], s.networks[name]
		if to == nil || to.incomplete || from != nil && from.incomplete {
			continue // what happened in this step is not known
		}
		d := between(from, to)
		v.Points = append(v.Points, point{s.at.UnixMilli(), d.signed, d.failed(), d.quantile(0.5), d.quantile(0.99)})
	}
	return v
}

func newShortfalls(counts map[string]uint64) []shortfallView {
	all := []shortfallView{}
	for _, o := range counted(counts) {
		reason := aggregator.Reason(o.Code)
		all = append(all, shortfallView{o, reason.Meaning(), reason.Remedy()})
	}
	return all
}

// recall replaces failures that metrics counted by those that are stored; nil changes nothing.
func (v *historyOf) recall(stored *failed) {
	if stored == nil {
		return
	}
	for _, o := range v.Outcomes {
		if o.Code == cancelledOutcome { // which is not stored
			stored.outcomes[o.Code] = o.Count
		}
	}
	v.NotSigned, v.Outcomes, v.Shortfalls = stored.total, counted(stored.outcomes), newShortfalls(stored.shortfalls)
}

// between returns what was counted between two samples. a is nil if nothing had been counted yet.
func between(a, b *counters) *counters {
	if a == nil {
		return b
	}
	d := &counters{
		signed: b.signed - min(a.signed, b.signed), limits: b.limits, buckets: slices.Clone(b.buckets),
		outcomes: difference(a.outcomes, b.outcomes), shortfalls: difference(a.shortfalls, b.shortfalls), ahead: difference(a.ahead, b.ahead),
	}
	for i := range min(len(a.buckets), len(d.buckets)) {
		d.buckets[i] -= min(a.buckets[i], d.buckets[i])
	}
	return d
}

func difference(a, b map[string]uint64) map[string]uint64 {
	d := make(map[string]uint64, len(b))
	for k, v := range b {
		if v > a[k] {
			d[k] = v - a[k]
		}
	}
	return d
}

// failed returns the number of requests that failed. Clients cancelled the others.
func (n *counters) failed() (sum uint64) {
	for outcome, count := range n.outcomes {
		if outcome != cancelledOutcome {
			sum += count
		}
	}
	return sum
}

// quantile estimates a quantile of the durations of signed requests, in milliseconds, as Prometheus does: linearly
// within a bucket, and by the last limit above it. It returns nil without requests.
func (n *counters) quantile(q float64) *float64 {
	if n.signed == 0 || len(n.buckets) == 0 {
		return nil
	}
	rank := q * float64(n.signed)
	lower, below := 0.0, uint64(0)
	for i, count := range n.buckets {
		if float64(count) >= rank && count > below {
			at := 1000 * (lower + (n.limits[i]-lower)*(rank-float64(below))/float64(count-below))
			return &at
		}
		lower, below = n.limits[i], count
	}
	last := 1000 * lower
	return &last
}

// counted lists counts, the largest first.
func counted(counts map[string]uint64) []outcomeView {
	list := []outcomeView{}
	for code, count := range counts {
		if count > 0 {
			list = append(list, outcomeView{code, count})
		}
	}
	slices.SortFunc(list, func(a, b outcomeView) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Code, b.Code))
	})
	return list
}
