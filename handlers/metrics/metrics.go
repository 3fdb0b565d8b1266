// Package metrics implements the operation of the Metrics API: the average transactions per second of an EVM chain, by
// day. Errors have that API's format, whose message is a list.
package metrics

import (
	"cmp"
	"context"
	"math"
	"net/http"
	"strings"
	"time"

	"quorate/handlers/apierr"
	"quorate/handlers/evm"
	"quorate/handlers/operation"
	"quorate/handlers/query"
	"quorate/handlers/query/page"
	"quorate/handlers/reply"
	index "quorate/internal/index/evm"
)

// prefix begins the paths of the operations.
const prefix = "/v1/avg_tps/"

// Serves reports whether a path belongs to this API, even if it has no such operation.
func Serves(path string) bool { return strings.HasPrefix(path, prefix) }

// Options configures an API.
type Options struct {
	// Chains is required. It may be empty.
	Chains *evm.Chains
	// Key seals page tokens. Instances with the same key accept each other's tokens. If it is empty, only this API
	// accepts its tokens.
	Key []byte
	// Timeout limits one request; 0 means 30 s.
	Timeout time.Duration
}

// API serves the operation. It is safe for concurrent use.
type API struct {
	chains  *evm.Chains
	tokens  tokens
	timeout time.Duration
}

// New returns an API.
func New(o Options) *API {
	return &API{chains: o.Chains, tokens: tokens{page.KeyOr(o.Key)}, timeout: cmp.Or(o.Timeout, 30*time.Second)}
}

// Operations returns the operation.
func (a *API) Operations() []operation.Operation {
	return []operation.Operation{{
		ID: "averageTps", Path: prefix + "{chainId}", Tag: "Metrics",
		Summary:     "Transactions per second, by day",
		Description: "A point for each day of UTC, 100 to a page; the running day counts as far as it has gone. Page tokens are UUIDs and are valid for 24 hours.",
		Order:       "day, newest first",
		Index:       "evm",
		Parameters:  []query.Parameter{evm.ChainIDParameter, query.PageToken},
		Returns:     "A page of points.", Schema: "AverageTps", Errors: "MetricsError", NoClient: true,
		Handle: a.averageTPS,
	}}
}

const (
	// pageSize is the number of days on a page.
	pageSize = 100
	// secondsPerDay is the length of a day; Unix time has no leap seconds.
	secondsPerDay = 24 * 60 * 60
)

// point is the average of one day.
type point struct {
	// Timestamp is the day's first second.
	Timestamp int64 `json:"timestamp"`
	// Value is in transactions a second, rounded to two decimals.
	Value float64 `json:"value"`
}

func (a *API) averageTPS(r operation.Request) error {
	chain, err := a.chains.Find(r.Param(evm.ChainIDParameter.Name))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(r.Request().Context(), a.timeout)
	defer cancel()
	return evm.Explain(r.Request().Context(), a.sendAverageTPS(ctx, r, chain))
}

func (a *API) sendAverageTPS(ctx context.Context, r operation.Request, chain *evm.Chain) error {
	q := r.Query
	now := time.Now()
	var before int64
	var err error
	if token, _ := q.Text("pageToken"); token != "" {
		if before, err = a.tokens.open(token, chain.BlockchainID, now); err != nil {
			q.Fail("pageToken", "%q %s", apierr.Excerpt(token), err)
		}
	}
	if err := q.Err(); err != nil {
		return err
	}
	progress := chain.Progress(ctx)
	if !progress.CaughtUp {
		return progress.Behind("this chain")
	}
	days, err := chain.Index.Days(ctx, before, pageSize+1)
	if err != nil {
		return err
	}
	// The last block's time is at least that of the days.
	progress = chain.Progress(ctx)
	progress.Show(r.Response().Header())
	// The series is computed for each request, from the index until now. While the index is behind, it ends at the
	// last block.
	until := progress.Time
	if progress.Err == nil && progress.Lag == 0 && now.After(until) {
		until = now
	}
	days = withIdle(days, before, until.Unix())
	answer := struct {
		Results       []point `json:"results"`
		Status        int     `json:"status"`
		LastRun       int64   `json:"lastRun"`
		NextPageToken string  `json:"nextPageToken,omitempty"`
	}{Results: []point{}, Status: http.StatusOK, LastRun: until.Unix()}
	if len(days) > pageSize {
		days = days[:pageSize]
		if answer.NextPageToken, err = a.tokens.seal(days[pageSize-1].Start, chain.BlockchainID, now); err != nil {
			return err
		}
	}
	for _, day := range days {
		// The current day ends with its last block, so that the answer does not depend on the time of the request.
		elapsed := int64(secondsPerDay)
		if until.Unix()-day.Start < secondsPerDay {
			elapsed = min(max(progress.Time.Unix()-day.Start, 1), secondsPerDay)
		}
		answer.Results = append(answer.Results, point{
			Timestamp: day.Start,
			Value:     math.Round(float64(day.Transactions)/float64(elapsed)*100) / 100,
		})
	}
	return reply.JSON(r, answer)
}

// withIdle adds the days without a block to days, newest first: from the day of until, in Unix seconds, down to days,
// and before the day before if that is not 0. It returns at most one day more than a page.
func withIdle(days []index.Day, before, until int64) []index.Day {
	if len(days) == 0 {
		return days
	}
	last := until - until%secondsPerDay
	if before != 0 {
		last = min(last, before-secondsPerDay)
	}
	var all []index.Day
	for start := last; start > days[0].Start && len(all) <= pageSize; start -= secondsPerDay {
		all = append(all, index.Day{Start: start})
	}
	all = append(all, days...)
	return all[:min(len(all), pageSize+1)]
}
