package console

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"

	"quorate/aggregator"
	"quorate/internal/store"
)

// fakeFailures is a log whose oldest entries were removed.
type fakeFailures struct {
	id, removed uint64
	all         []aggregator.Failure
	reads, ends int
	err         error
}

func (f *fakeFailures) add(more aggregator.Failure) {
	more.Number = uint64(len(f.all) + 1)
	f.all = append(f.all, more)
}

func (f *fakeFailures) Ends(context.Context) (store.LogEnds, error) {
	f.ends++
	return store.LogEnds{ID: f.id, Oldest: f.removed + 1, Newest: uint64(len(f.all))}, f.err
}

func (f *fakeFailures) Read(_ context.Context, after uint64, limit int) ([]aggregator.Failure, error) {
	f.reads++
	if after < f.removed {
		return nil, store.ErrTruncated
	}
	return f.all[after:min(int(after)+limit, len(f.all))], f.err
}

// failureAt returns a failure of a message of a source blockchain, with a reason of missing weight.
func failureAt(at time.Time, source ids.ID, origin aggregator.Origin, code aggregator.Code, reason aggregator.Reason) aggregator.Failure {
	m := unsignedMessage(source, []byte("content"))
	return aggregator.Failure{
		Time: at, Elapsed: 1500 * time.Microsecond, Origin: origin, MessageID: m.ID(), SourceChainID: source, Message: m.Bytes(), Size: len(m.Bytes()), Code: code, Text: "40% signed",
		Account: &aggregator.Account{SigningSubnetID: ids.ID{9}, PChainHeight: 7, TotalWeight: 100, SignedWeight: 40, Reasons: []aggregator.Shortfall{{Reason: reason, Weight: 60}}},
	}
}

func TestFailuresAreListed(t *testing.T) {
	log := &fakeFailures{id: 1, removed: 2}
	at := time.UnixMilli(1_700_000_000_000)
	for i := range 40 {
		log.add(failureAt(at, ids.ID{byte(i % 2)}, aggregator.OriginClient, aggregator.CodeQuorumNotReached, aggregator.ReasonNoAnswer))
	}
	log.all[39].Message, log.all[39].Size, log.all[39].Origin = nil, 5000, aggregator.OriginAhead
	log.all[38] = aggregator.Failure{Number: 39, Time: at, Missed: 12}
	_, e := newTest(t, Options{Failures: func(network string) Failures {
		if network != "fuji" {
			return nil
		}
		return log
	}})
	list := func(query string) (v failuresView) {
		t.Helper()
		w := get(e, "/console/api/failures?network=fuji"+query)
		require.Equal(t, http.StatusOK, w.Code, w.Body)
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &v))
		return v
	}
	v := list("&limit=30")
	require.Equal(t, []uint64{3, 40, 11}, []uint64{v.Oldest, v.Newest, *v.Before})
	require.Len(t, v.Failures, 30)
	long, gap, last := v.Failures[0], v.Failures[1], v.Failures[2]
	require.Equal(t, []any{uint64(40), "ahead", 5000, "", "QUORUM_NOT_REACHED"}, []any{long.Number, long.Origin, long.Size, long.UnsignedMessage, long.Code})
	require.NotEmpty(t, long.Payload.Title)
	require.Equal(t, []any{uint64(12), at.UnixMilli(), ""}, []any{gap.Missed, gap.At, gap.Code})
	require.Equal(t, hexOf(log.all[37].Message), last.UnsignedMessage)
	require.Equal(t, []any{at.UnixMilli(), 1.5, "client", log.all[37].MessageID.String(), uint64(40), uint64(60)},
		[]any{last.At, last.Elapsed, last.Origin, last.MessageID, last.Outcomes.SignedWeight, last.Outcomes.Reasons[0].Weight})
	v = list(fmt.Sprintf("&limit=30&before=%d", *v.Before))
	require.Nil(t, v.Before)
	require.Len(t, v.Failures, 8)
	for query, want := range map[string]int{"&id=" + (ids.ID{1}).String(): 19, "&id=" + (ids.ID{9}).String(): 37, "&id=" + (ids.ID{77}).String(): 0} {
		require.Len(t, list(query+"&limit=100").Failures, want, query)
	}
	require.Equal(t, http.StatusNotFound, get(e, "/console/api/failures?network=other").Code)
	require.Equal(t, http.StatusBadRequest, get(e, "/console/api/failures?network=fuji&before=x").Code)
	log.err = errors.New("http://10.0.0.7 is gone")
	w := get(e, "/console/api/failures?network=fuji")
	require.Equal(t, http.StatusServiceUnavailable, w.Code)
	require.NotContains(t, w.Body.String(), "10.0.0.7")
}

// TestFailuresOfTheLastHour counts failures from before the start, and those of other processes.
func TestFailuresOfTheLastHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := time.Now()
		log := &fakeFailures{id: 1}
		busy := failureAt(now.Add(-30*time.Minute), ids.ID{1}, aggregator.OriginClient, aggregator.CodeBusy, "")
		busy.Account = nil
		log.add(failureAt(now.Add(-25*time.Hour), ids.ID{1}, aggregator.OriginClient, aggregator.CodeRefused, aggregator.ReasonRefused))
		log.add(failureAt(now.Add(-2*time.Hour), ids.ID{1}, aggregator.OriginClient, aggregator.CodeRefused, aggregator.ReasonRefused))
		log.add(busy)
		for range 2 * tallyPage {
			log.add(failureAt(now.Add(-10*time.Minute), ids.ID{1}, aggregator.OriginClient, aggregator.CodeQuorumNotReached, aggregator.ReasonNoAnswer))
		}
		log.add(failureAt(now.Add(-5*time.Minute), ids.ID{1}, aggregator.OriginAhead, aggregator.CodeQuorumNotReached, aggregator.ReasonNoAnswer))
		log.add(aggregator.Failure{Time: now.Add(-time.Minute), Missed: 3})

		registry := prometheus.NewRegistry()
		seconds := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: signSeconds}, []string{"network", "outcome", "origin"})
		registry.MustRegister(seconds)
		seconds.WithLabelValues("fuji", signedOutcome, "client").Observe(0.01)
		c, e := newTest(t, Options{Gatherer: registry, Failures: func(string) Failures { return log }})
		c.sample()
		seconds.WithLabelValues("fuji", cancelledOutcome, "client").Observe(1)
		history := func(span string) historyOf {
			t.Helper()
			time.Sleep(2 * time.Second)
			w := get(e, "/console/api/history?range="+span)
			require.Equal(t, http.StatusOK, w.Code, w.Body)
			var v historyView
			require.NoError(t, json.Unmarshal(w.Body.Bytes(), &v))
			require.Len(t, v.Networks, 1)
			return v.Networks[0]
		}
		const unreached = 2 * tallyPage
		v := history("hour")
		require.Equal(t, uint64(unreached+1+3), v.NotSigned)
		require.Zero(t, v.Failed, "of this process")
		require.Equal(t, []outcomeView{{"QUORUM_NOT_REACHED", unreached}, {notStored, 3}, {"BUSY", 1}, {cancelledOutcome, 1}}, v.Outcomes)
		require.Len(t, v.Shortfalls, 1)
		require.Equal(t, outcomeView{"NO_ANSWER", unreached + 1}, v.Shortfalls[0].outcomeView)
		require.NotEmpty(t, v.Shortfalls[0].Remedy)
		require.Equal(t, uint64(unreached+2+3), history("day").NotSigned)

		reads := log.reads
		history("hour")
		require.Equal(t, reads, log.reads, "nothing is read twice")
		log.add(failureAt(time.Now(), ids.ID{1}, aggregator.OriginClient, aggregator.CodeRefused, aggregator.ReasonRefused))
		require.Equal(t, uint64(unreached+1+3+1), history("hour").NotSigned, "another process failed")

		time.Sleep(58 * time.Minute)
		require.Equal(t, uint64(1+3), history("hour").NotSigned)
		log.err = errors.New("the store is gone")
		require.Zero(t, history("hour").NotSigned, "metrics remain")
	})
}

// A store that does not answer gets one query a second, however many clients wait.
func TestStoreThatFailsIsAskedSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &fakeFailures{err: errors.New("the store is gone")}
		count := &tally{}
		for range 5 {
			require.Error(t, count.read(log))
		}
		require.Equal(t, 1, log.ends)
		time.Sleep(time.Second)
		log.err = nil
		require.NoError(t, count.read(log))
		require.NoError(t, count.read(log))
		require.Equal(t, 2, log.ends)
	})
}
