package evm

import (
	"context"
	"encoding/binary"
	"math/big"
	"slices"
	"strings"

	"quorate/handlers/apierr"
	"quorate/handlers/operation"
	"quorate/handlers/query"
	paging "quorate/handlers/query/page"
	"quorate/handlers/reply"
	"quorate/internal/index"
	"quorate/internal/index/evm"
)

// metric is a metric of a chain.
type metric struct {
	name string
	// daily allows only days.
	daily bool
	// total counts from the genesis block on.
	total bool
	value func(*evm.Period) float64
}

// metrics are those of the hosted API that follow from blocks without call traces.
var metrics = []metric{
	{name: "activeAddresses", value: func(p *evm.Period) float64 { return float64(p.Addresses) }},
	{name: "activeSenders", value: func(p *evm.Period) float64 { return float64(p.Senders) }},
	{name: "cumulativeTxCount", daily: true, total: true, value: func(p *evm.Period) float64 { return float64(p.AllTransactions) }},
	{name: "cumulativeAddresses", daily: true, total: true, value: func(p *evm.Period) float64 { return float64(p.AllAddresses) }},
	{name: "gasUsed", value: func(p *evm.Period) float64 { return float64(p.GasUsed) }},
	{name: "txCount", value: func(p *evm.Period) float64 { return float64(p.Transactions) }},
	{name: "avgGps", daily: true, value: func(p *evm.Period) float64 { return evm.Rate{Amount: p.GasUsed, Milliseconds: p.Elapsed}.PerSecond() }},
	{name: "maxGps", daily: true, value: func(p *evm.Period) float64 { return p.MaxGas.PerSecond() }},
	{name: "avgTps", daily: true, value: func(p *evm.Period) float64 {
		return evm.Rate{Amount: p.Transactions, Milliseconds: p.Elapsed}.PerSecond()
	}},
	{name: "maxTps", daily: true, value: func(p *evm.Period) float64 { return p.MaxTransactions.PerSecond() }},
	{name: "avgGasPrice", daily: true, value: func(p *evm.Period) float64 { return float(p.GasPrices) / float64(max(p.Transactions, 1)) }},
	{name: "maxGasPrice", daily: true, value: func(p *evm.Period) float64 { return float(p.MaxGasPrice.ToBig()) }},
	{name: "feesPaid", daily: true, value: func(p *evm.Period) float64 { return float(p.Fees) }},
}

func float(n *big.Int) float64 {
	f, _ := new(big.Float).SetInt(n).Float64()
	return f
}

// windowMetrics are the metrics of rolling windows.
var windowMetrics = slices.DeleteFunc(slices.Clone(metrics), func(m metric) bool { return m.total })

func metricNames(of []metric) string {
	names := make([]string, len(of))
	for i := range of {
		names[i] = of[i].name
	}
	return strings.Join(names, ", ")
}

// metricNamed returns one of some metrics.
func metricNamed(name string, of []metric) (*metric, error) {
	at := slices.IndexFunc(of, func(m metric) bool { return m.name == name })
	if at < 0 {
		return nil, apierr.BadRequest("metric: %q is none of %s", apierr.Excerpt(name), metricNames(of))
	}
	return &of[at], nil
}

// intervals are the values of the parameter timeInterval.
var intervals = map[string]evm.Interval{"hour": evm.Hourly, "day": evm.Daily, "week": evm.Weekly, "month": evm.Monthly}

const metricsIndex = "evm: " + string(evm.ChainMetrics)

func (a *API) metricOperations() []operation.Operation {
	return []operation.Operation{{
		ID: "getChainMetrics", Path: "/v2/chains/{chainId}/metrics/{metric}", Tag: "Chain metrics",
		Summary: "A metric of a chain, by hour, day, week or month",
		Description: "A point for each interval of UTC; weeks begin on Monday. There are no gaps: an interval without blocks has 0, or the total so far. The newest point is that of the last indexed block, and changes. " +
			"Addresses are those in the from and to fields of transactions and of ERC-20, ERC-721 and ERC-1155 transfers; the zero address does not count. " +
			"`avgGps` and `avgTps` divide by the time from the last block of the previous interval to the last block of this one; `maxGps` and `maxTps` are the highest of a block by the time since the block before, where blocks of the same time count as one. Gas prices and fees are in wei. " +
			"Metrics that need call traces (`contracts`, `deployers` and their totals) are not offered. Needs the optional index `" + string(evm.ChainMetrics) + "`: 503 with code `INDEX_OFF` without it. If it begins after the genesis block (header `Indexed-From`), the first point is not whole, and totals answer 503 with code `INDEX_BEGINS_LATER`.",
		Order: newestFirst, Index: metricsIndex,
		Parameters: []query.Parameter{
			ChainIDParameter, {Name: "metric", Description: "One of " + metricNames(metrics) + ".", Example: "txCount"},
			{Name: "startTimestamp", Kind: query.Integer, Description: "Only intervals that begin at this second or later."},
			{Name: "endTimestamp", Kind: query.Integer, Description: "Only intervals that begin before this second."},
			{Name: "timeInterval", OneOf: []string{"hour", "day", "week", "month"}, Default: "day", Description: "Metrics that begin with `cumulative`, `avg` or `max`, and `feesPaid`, have only days."},
			query.PageToken, query.PageSize(2160, 100),
		},
		Returns: "A page of points.", Schema: "MetricPoints",
		Handle: a.serve(a.getMetric),
	}, {
		ID: "getRollingWindowMetrics", Path: "/v2/chains/{chainId}/rollingWindowMetrics/{metric}", Tag: "Chain metrics",
		Summary: "A metric of a chain in rolling windows, from the last hour to all time",
		Description: "Windows are whole hours of UTC: that of the last indexed block, which may not be over, and those before it. `lastHour` is that hour alone, `lastDay` 24 hours, `lastWeek` 7 days, `lastMonth` 30 days, `last90Days` 90 days, `lastYear` 365 days, and `allTime` begins with the genesis block. " +
			"`activeAddresses` and `activeSenders` are distinct in each window. `avgGps` and `avgTps` divide by the time from the last block before the window to the last block in it. Otherwise metrics are as in `getChainMetrics`. " +
			"Needs the optional index `" + string(evm.ChainMetrics) + "`: 503 with code `INDEX_OFF` without it. If it begins after the genesis block (header `Indexed-From`), windows that begin before it are left out; if it has none of them yet, the answer is 503 with code `INDEX_BEGINS_LATER`.",
		Index: metricsIndex,
		Parameters: []query.Parameter{
			ChainIDParameter, {Name: "metric", Description: "One of " + metricNames(windowMetrics) + ".", Example: "txCount"},
		},
		Returns: "The metric by window.", Schema: "RollingWindowMetrics",
		Handle: a.serve(a.getWindows),
	}}
}

type metricPoint struct {
	Value     float64 `json:"value"`
	Timestamp uint64  `json:"timestamp"`
}

func (a *API) getMetric(ctx context.Context, r operation.Request, of *Chain) error {
	name, q := r.Param("metric"), r.Query
	wanted, err := metricNamed(name, metrics)
	if err != nil {
		return err
	}
	interval := q.OneOf("timeInterval")
	if wanted.daily && interval != "day" {
		q.Fail("timeInterval", "%s is only offered by day", name)
	}
	want := evm.PeriodQuery{Interval: intervals[interval]}
	want.From, want.Before = q.Range("startTimestamp", "endTimestamp")
	filters := []string{of.name, name, interval}
	for _, bound := range []string{"startTimestamp", "endTimestamp"} {
		text, _ := q.Text(bound)
		filters = append(filters, text)
	}
	p := q.Page(paging.List{Key: a.key, Operation: "metrics", Filters: filters})
	if err := q.Err(); err != nil {
		return err
	}
	if _, err := current(r, of, nil); err != nil {
		return err
	}
	want.Limit = p.Size
	if p.After != nil {
		if len(p.After) != 8 {
			return index.ErrPosition
		}
		before := binary.BigEndian.Uint64(p.After)
		want.Before = &before
	}
	found, err := of.Index.Periods(ctx, want)
	if err != nil {
		return err
	}
	showFirst(r, of, found.First)
	if wanted.total && found.First > 0 {
		return metricsBeginLater(name+" counts from the genesis block on", found.First)
	}
	answer := struct {
		Results []metricPoint `json:"results"`
		Next    string        `json:"nextPageToken,omitempty"`
	}{Results: make([]metricPoint, len(found.Periods))}
	for i := range found.Periods {
		answer.Results[i] = metricPoint{wanted.value(&found.Periods[i]), found.Periods[i].Start}
	}
	if found.More {
		answer.Next = p.Token(binary.BigEndian.AppendUint64(nil, found.Periods[len(found.Periods)-1].Start))
	}
	return reply.JSON(r, answer)
}

// metricsBeginLater refuses a metric for a reason.
func metricsBeginLater(reason string, first uint64) error {
	e := apierr.Unavailable(nil, "metric: %s, and the index %s of this instance begins with block %d; its operator can run `quorate index rebuild evm` if the chain is indexed from there", reason, evm.ChainMetrics, first)
	e.Code = codeBeginsLater
	return e
}

// windowValues has nil for windows that the index does not cover.
type windowValues struct {
	LastHour   *float64 `json:"lastHour,omitempty"`
	LastDay    *float64 `json:"lastDay,omitempty"`
	LastWeek   *float64 `json:"lastWeek,omitempty"`
	LastMonth  *float64 `json:"lastMonth,omitempty"`
	Last90Days *float64 `json:"last90Days,omitempty"`
	LastYear   *float64 `json:"lastYear,omitempty"`
	AllTime    *float64 `json:"allTime,omitempty"`
}

// windowHours are the lengths of the windows, in the order of windowValues.
var windowHours = []uint64{1, 24, 7 * 24, 30 * 24, 90 * 24, 365 * 24, 0}

func (a *API) getWindows(ctx context.Context, r operation.Request, of *Chain) error {
	wanted, err := metricNamed(r.Param("metric"), windowMetrics)
	if err != nil {
		return err
	}
	if _, err := current(r, of, nil); err != nil {
		return err
	}
	found, err := of.Index.Windows(ctx, windowHours)
	if err != nil {
		return err
	}
	showFirst(r, of, found.First)
	var answer struct {
		Result windowValues `json:"result"`
	}
	covered, v := false, &answer.Result
	for i, to := range []**float64{&v.LastHour, &v.LastDay, &v.LastWeek, &v.LastMonth, &v.Last90Days, &v.LastYear, &v.AllTime} {
		if window := found.Windows[i]; window != nil {
			value := wanted.value(window)
			*to, covered = &value, true
		}
	}
	if !covered {
		return metricsBeginLater("no window is complete yet", found.First)
	}
	return reply.JSON(r, answer)
}
