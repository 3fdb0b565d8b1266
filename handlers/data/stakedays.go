package data

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"quorate/handlers/apierr"
	"quorate/handlers/operation"
	"quorate/handlers/query"
	"quorate/handlers/reply"
	"quorate/internal/index"
	"quorate/internal/index/registry"
)

// stakeMetrics are the metrics of a network, as whole numbers in decimal digits.
var stakeMetrics = map[string]func(*registry.Day) string{
	"delegatorCount":  func(d *registry.Day) string { return fmt.Sprint(d.Delegators) },
	"delegatorWeight": func(d *registry.Day) string { return d.Delegated.Dec() },
	"validatorCount":  func(d *registry.Day) string { return fmt.Sprint(d.Validators) },
	"validatorWeight": func(d *registry.Day) string { return d.Weight.Dec() },
}

var stakeMetricNames = slices.Sorted(maps.Keys(stakeMetrics))

func (a *API) stakeOperations() []operation.Operation {
	return []operation.Operation{{
		ID: "getNetworkMetrics", Path: "/v2/networks/{network}/metrics/{metric}", Tag: "Network metrics",
		Summary: "Validators, delegations and their weight, by day",
		Description: "A point for each day of UTC since the network or subnet first had a validator, with what counted after the day's last block; today's point changes. " +
			"Validators are current ones and, of L1s, active ones; those whose balance is used up do not count. `validatorWeight` is without delegations. " +
			"Weights of the primary network are in nAVAX; each other subnet has a unit of its own, so that sums over all subnets mix units.",
		Order: "newest first",
		Index: "registry",
		Parameters: []query.Parameter{
			networkName, {Name: "metric", OneOf: stakeMetricNames, Example: "validatorCount"},
			{Name: subnetFilter.Name, Description: "Only this subnet; all subnets together without it."},
			{Name: "startTimestamp", Kind: query.Integer, Description: "Only days that begin at this second or later."},
			{Name: "endTimestamp", Kind: query.Integer, Description: "Only days that begin before this second."},
			query.PageToken, query.PageSize(2160, 100),
		},
		Returns: "A page of points.", Schema: "MetricPoints",
		Handle: a.serve(a.getStakeByDay),
	}}
}

type stakePoint struct {
	Value     json.Number `json:"value"`
	Timestamp uint64      `json:"timestamp"`
}

// getStakeByDay is GET /v2/networks/{network}/metrics/{metric}.
func (a *API) getStakeByDay(ctx context.Context, r operation.Request, n *network) error {
	q := r.Query
	metric := r.Param("metric")
	value := stakeMetrics[metric]
	if value == nil {
		return apierr.BadRequest("metric: %q is none of %s", apierr.Excerpt(metric), strings.Join(stakeMetricNames, ", "))
	}
	want := registry.DaysQuery{SubnetID: optionalID(q, subnetFilter.Name)}
	want.From, want.Before = q.Range("startTimestamp", "endTimestamp")
	scope := []string{n.shown, metric}
	for _, name := range []string{subnetFilter.Name, "startTimestamp", "endTimestamp"} {
		text, _ := q.Text(name)
		scope = append(scope, text)
	}
	p := a.readPages(q, "stakeByDay", scope...)
	if err := q.Err(); err != nil {
		return err
	}
	if err := n.registered(r); err != nil {
		return err
	}
	if want.Limit = p.Size; p.After != nil {
		if len(p.After) != 8 {
			return reply.BadToken(index.ErrPosition)
		}
		before := binary.BigEndian.Uint64(p.After)
		want.Before = &before
	}
	days, more, err := n.Registry.Days(ctx, want)
	if err != nil {
		return err
	}
	answer := struct {
		Results []stakePoint `json:"results"`
		Next    string       `json:"nextPageToken,omitempty"`
	}{Results: make([]stakePoint, len(days))}
	for i := range days {
		answer.Results[i] = stakePoint{json.Number(value(&days[i])), days[i].Start}
	}
	if more {
		answer.Next = p.Token(binary.BigEndian.AppendUint64(nil, days[len(days)-1].Start))
	}
	return reply.JSON(r, answer)
}
