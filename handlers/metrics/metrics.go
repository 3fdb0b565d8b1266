// Package metrics has the Metrics API's operation: how many transactions a second an
// EVM chain had on average, day by day. Errors have the form of that API, whose
// message is a list.
package metrics

import (
	"cmp"
	"context"
	"math"
	"net/http"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"quorate/handlers/apierr"
	"quorate/handlers/evm"
	"quorate/handlers/query"
	"quorate/handlers/reply"
	record "quorate/internal/index/evm"
)

// prefix begins the paths of the operations.
const prefix = "/v1/avg_tps/"

// Serves reports whether a path is of this API, be it a known one or not.
func Serves(path string) bool { return strings.HasPrefix(path, prefix) }

// Options of the operation.
type Options struct {
	// Chains are required, be there any or none.
	Chains *evm.Chains
	// Key seals page tokens: instances with the same one continue each other's lists.
	// If it is empty tokens are good for this API alone.
	Key []byte
	// Timeout bounds the work on one request; 0 means 30 s.
	Timeout time.Duration
}

// API serves the operation. Safe for concurrent use.
type API struct {
	chains  *evm.Chains
	tokens  tokens
	timeout time.Duration
}

// New makes an API.
func New(o Options) *API {
	return &API{chains: o.Chains, tokens: newTokens(o.Key), timeout: cmp.Or(o.Timeout, 30*time.Second)}
}

// Route adds the operation to e.
func (a *API) Route(e *echo.Echo) {
	e.GET(prefix+":chainId", func(c echo.Context) error {
		ctx, cancel := context.WithTimeout(c.Request().Context(), a.timeout)
		defer cancel()
		return evm.Explain(c.Request().Context(), a.averageTPS(ctx, c))
	})
}

const (
	// pageSize is how many days a page has.
	pageSize = 100
	// secondsPerDay are those of UTC, which has no leap seconds in Unix time.
	secondsPerDay = 24 * 60 * 60
)

// point is a day's average.
type point struct {
	// Timestamp is the day's first second.
	Timestamp int64 `json:"timestamp"`
	// Value is in transactions a second, rounded to two decimals.
	Value float64 `json:"value"`
}

// averageTPS is GET /v1/avg_tps/{chainId}.
func (a *API) averageTPS(ctx context.Context, c echo.Context) error {
	chain, err := a.chains.Find(c.Param("chainId"))
	if err != nil {
		return err
	}
	q := query.Parse(c.Request().URL.RawQuery)
	now := time.Now()
	var before int64
	if token, _ := q.Text("pageToken"); token != "" {
		if before, err = a.tokens.open(token, chain.BlockchainID, now); err != nil {
			q.Fail("pageToken", "%q %s", apierr.Excerpt(token), err)
		}
	}
	if err := q.Err(); err != nil {
		return err
	}
	progress := chain.Progress()
	if !progress.CaughtUp {
		return progress.Behind("this chain")
	}
	days, err := chain.Record.Days(ctx, before, pageSize+1)
	if err != nil {
		return err
	}
	// The last block's time is that of the days, or later.
	progress = chain.Progress()
	progress.Show(c.Response().Header())
	// Nothing is kept: the series is computed for each request, from all that is known
	// until this moment. If more is to be recorded that is until the last block.
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
		// The running day has gone as far as its last block says: then the answer does
		// not depend on when it is asked for.
		elapsed := int64(secondsPerDay)
		if until.Unix()-day.Start < secondsPerDay {
			elapsed = min(max(progress.Time.Unix()-day.Start, 1), secondsPerDay)
		}
		answer.Results = append(answer.Results, point{
			Timestamp: day.Start,
			Value:     math.Round(float64(day.Transactions)/float64(elapsed)*100) / 100,
		})
	}
	return reply.JSON(c, answer)
}

// withIdle puts before days, newest first, those that had no block: from the newest of
// them to the one of until, in Unix seconds, and before another one if that is not 0.
// The result has one day more than a page at most.
func withIdle(days []record.Day, before, until int64) []record.Day {
	if len(days) == 0 {
		return days
	}
	last := until - until%secondsPerDay
	if before != 0 {
		last = min(last, before-secondsPerDay)
	}
	var all []record.Day
	for start := last; start > days[0].Start && len(all) <= pageSize; start -= secondsPerDay {
		all = append(all, record.Day{Start: start})
	}
	all = append(all, days...)
	return all[:min(len(all), pageSize+1)]
}
