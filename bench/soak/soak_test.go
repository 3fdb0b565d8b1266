package main

import (
	"bytes"
	"context"
	"errors"
	"image/png"
	"io"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"

	"quorate/bench/rig"
	"quorate/internal/simnet"
	"quorate/internal/simnet/history"
)

// TestLoad loads the service without faults: each operation is answered, and no request fails.
func TestLoad(t *testing.T) {
	s, err := start(t.Context(), &rig.Run{Output: new(rig.Output), Dir: t.TempDir(), Seed: 1})
	require.NoError(t, err)
	defer func() { require.NoError(t, s.close()) }()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	var running sync.WaitGroup
	running.Go(func() {
		if err := s.primary.grow(ctx); err != nil {
			t.Errorf("making the chains grow: %v", err)
		}
	})
	s.load(ctx, &running)
	running.Wait()
	operations, failures, bad := s.tally.counted(time.Now().Add(-5 * time.Second))
	require.Empty(t, bad)
	require.Empty(t, failures)
	for _, o := range operations {
		require.Positive(t, o.Requests, o.Operation)
	}
	exported := 0
	for _, a := range s.primary.node.Addresses() {
		exported += len(s.primary.outputs(history.C, a))
	}
	require.Positive(t, exported, "no page of the C-Chain was compared with an output")
	require.NoError(t, s.recovered(t.Context()))
	require.NoError(t, s.service.Ended())

	// A service that does not reach its node stays behind, which the end of a run finds.
	s.net.SetAPIFault(&simnet.APIFault{Status: http.StatusServiceUnavailable})
	require.NoError(t, s.primary.node.Step(t.Context(), time.Now()))
	ctx, cancel = context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	require.ErrorContains(t, s.recovered(ctx), "the chains are not indexed within 1m0s of the end: ")

	require.NoError(t, s.service.Stop(syscall.SIGKILL))
	require.ErrorContains(t, s.recovered(t.Context()), "the service does not run")
}

// TestCompare finds each way in which a page of outputs can be wrong.
func TestCompare(t *testing.T) {
	made := func(id byte, height, spent uint64) output {
		return output{id: ids.ID{id}, txID: ids.ID{'t', id}, assetID: ids.ID{'a'}, index: 3, amount: 100, transfer: true, time: time.Unix(int64(1000+height), 0), height: height, spent: spent}
	}
	shown := func(id byte, timestamp int64) utxo {
		return utxo{
			UTXOID: ids.ID{id}.String(), TxHash: ids.ID{'t', id}.String(), AssetID: ids.ID{'a'}.String(), Amount: "100", OutputIndex: 3,
			BlockNumber: map[int64]string{1001: "1", 1002: "2", 1003: "3", 1004: "4"}[timestamp], BlockTimestamp: timestamp,
		}
	}
	truth := []output{made(1, 1, math.MaxUint64), made(2, 2, 4), made(3, 3, math.MaxUint64), made(4, 4, math.MaxUint64)}
	other := shown(3, 1003)
	other.Amount = "101"
	for _, test := range []struct {
		name   string
		got    []utxo
		height uint64
		oldest int64
		err    string
	}{
		{"all", []utxo{shown(3, 1003), shown(2, 1002), shown(1, 1001)}, 3, 0, ""},
		{"all but what is spent", []utxo{shown(4, 1004), shown(3, 1003), shown(1, 1001)}, 4, 0, ""},
		{"the newest", []utxo{shown(4, 1004), shown(3, 1003)}, 4, 1003, ""},
		{"not all", []utxo{shown(4, 1004), shown(3, 1003)}, 4, 0, "is missing"},
		{"not the newest", []utxo{shown(4, 1004), shown(1, 1001)}, 4, 1001, "is missing"},
		{"what is spent", []utxo{shown(4, 1004), shown(3, 1003), shown(2, 1002), shown(1, 1001)}, 4, 0, "is not there"},
		{"what is not made yet", []utxo{shown(4, 1004), shown(3, 1003), shown(2, 1002), shown(1, 1001)}, 3, 0, "is not there"},
		{"one twice", []utxo{shown(3, 1003), shown(3, 1003), shown(2, 1002), shown(1, 1001)}, 3, 0, "is not there, or twice"},
		{"another amount", []utxo{other, shown(2, 1002), shown(1, 1001)}, 3, 0, "want "},
	} {
		err := compare(test.got, truth, test.height, test.oldest)
		if test.err == "" {
			require.NoError(t, err, test.name)
		} else {
			require.ErrorContains(t, err, test.err, test.name)
		}
	}
}

// TestTally tells failures from wrong answers, and both from none at all.
func TestTally(t *testing.T) {
	var counted tally
	counted.add("sign", "", nil)
	counted.add("sign", "the node is away", &responseError{503, "NODE_UNAVAILABLE"})
	counted.add("sign", "", io.ErrUnexpectedEOF)
	counted.add("utxos", "", nil)
	counted.add("utxos", "", wrong("one is missing"))
	counted.add("balances", "", &responseError{500, ""})
	counted.expect("blocks")
	all, failures, bad := counted.counted(time.Time{})
	require.EqualError(t, errors.Join(bad...), "wrong: utxos: one is missing\n"+
		"balances: none of 1 requests had a right response\nblocks: none of 0 requests had a right response")
	require.Equal(t, []counts{{"balances", 1, 1, 0, 0}, {"blocks", 0, 0, 0, 0}, {"sign", 3, 2, 0, 0}, {"utxos", 2, 0, 1, 0}}, all)
	require.Equal(t, []failure{
		{"no fault", "balances: 500 ", 1},
		{"no fault", "sign: no connection or connection lost", 1},
		{"the node is away", "sign: 503 NODE_UNAVAILABLE", 1},
	}, failures)
}

// TestCalmFailures bounds what may fail without a fault, for each operation alone.
func TestCalmFailures(t *testing.T) {
	const calmRequests = 50_000
	var counted tally
	for i := range calmRequests {
		var err error
		if i < calmRequests/500 {
			err = &responseError{503, "INDEX_CATCHING_UP"}
		}
		counted.add("utxos", "", err)
		counted.add("utxos", "the node answers 503", &responseError{503, ""})
		counted.add("balances", "", errNotAsked)
		counted.add("blocks", "", nil)
	}
	counted.add("balances", "", nil)
	all, _, bad := counted.counted(time.Time{})
	require.Empty(t, bad)
	require.Equal(t, counts{"balances", 1, 0, 0, calmRequests}, all[0])
	counted.add("utxos", "", io.ErrUnexpectedEOF)
	counted.add("utxos", "", errNotAsked)
	_, _, bad = counted.counted(time.Time{})
	require.EqualError(t, errors.Join(bad...), "utxos: 101 of 50001 requests failed without a fault, at most 100 may")

	var few tally
	few.add("sign", "", nil)
	for range 50 {
		few.add("sign", "", io.ErrUnexpectedEOF)
	}
	_, _, bad = few.counted(time.Time{})
	require.Empty(t, bad)
	few.add("sign", "", io.ErrUnexpectedEOF)
	few.add("utxos", "", errNotAsked)
	_, _, bad = few.counted(time.Time{})
	require.EqualError(t, errors.Join(bad...), "sign: 51 of 52 requests failed without a fault, at most 50 may\nutxos: none of 0 requests had a right response")
}

// TestTallyOfHung fails operations that hang: few of their requests end, and all of those too late.
func TestTallyOfHung(t *testing.T) {
	var hung tally
	for range calmLate {
		hung.add("sign", "", context.DeadlineExceeded)
		hung.add("sign", "the node is away", context.DeadlineExceeded)
	}
	hung.add("sign", "", nil)
	begun := time.Now()
	_, _, bad := hung.counted(begun.Add(-time.Hour))
	require.Empty(t, bad)
	_, _, bad = hung.counted(begun.Add(time.Second))
	require.ErrorContains(t, errors.Join(bad...), "sign: no right response in the last ")
	hung.add("utxos", "", nil)
	hung.add("utxos", "", context.DeadlineExceeded)
	_, _, bad = hung.counted(begun.Add(-time.Hour))
	require.EqualError(t, errors.Join(bad...), "4 requests had no answer in time without a fault, at most 3 may")
}

// TestCalmFailuresOfDocument finds the run of docs/soak.json within the limits, although its names are for two chains.
func TestCalmFailuresOfDocument(t *testing.T) {
	o, err := read("../../docs/soak.json")
	require.NoError(t, err)
	calm := make(map[string]int)
	for _, f := range o.Failures {
		if name, kind, _ := strings.Cut(f.Kind, ": "); f.While == "no fault" {
			require.NotEqual(t, tooLate, kind)
			calm[name] += f.Times
		}
	}
	require.NotEmpty(t, calm)
	for name, failed := range calm {
		require.LessOrEqual(t, failed, calmFailures(0), name)
	}
}

// TestDisturb ends with the first mishap, even after the time of the run, and then not all faults were done.
func TestDisturb(t *testing.T) {
	var s soak
	s.calm()
	s.began = time.Now()
	var ended []string
	cause := func(what string, err error) fault {
		return fault{0, what, func(_ context.Context, begin bool) error {
			if begin {
				return err
			}
			ended = append(ended, what)
			return nil
		}}
	}
	hung := errors.New("not ready")
	faults := []fault{cause("one", nil), cause("two", hung), cause("three", nil)}
	s.disturb(t.Context(), time.Microsecond, faults)
	require.Equal(t, []string{"one", "two"}, ended)
	require.Empty(t, *s.trouble.Load(), "failures after a mishap must not count as during it")
	require.ErrorIs(t, errors.Join(s.mishaps...), hung)
	require.EqualError(t, allDone(faults, s.done), "1 of 3 faults were caused and ended; the next is: two")
	require.NoError(t, allDone(faults[:1], s.done))
}

// TestForwarded takes garbage for the node's only while the node answers with it.
func TestForwarded(t *testing.T) {
	untrue, lost := wrong("not a number"), io.ErrUnexpectedEOF
	require.NoError(t, forwarded(nil, true))
	require.Equal(t, untrue, forwarded(untrue, false))
	require.Equal(t, &responseError{http.StatusOK, "garbage"}, forwarded(untrue, true))
	require.Equal(t, lost, forwarded(lost, true))
}

func steady(store string, pid, n int) (all []sample) {
	for i := range n {
		all = append(all, sample{Seconds: float64(i), PID: pid, Store: store, ResidentMB: 200, Files: 100, Goroutines: 200 + i%7})
	}
	return all
}

// TestGrowth judges the last life on each store, and nothing before.
func TestGrowth(t *testing.T) {
	growing := steady("files", 1, 30)
	for i := range growing {
		growing[i].Files, growing[i].Goroutines = 100+20*i, 200+40*i
	}
	require.Empty(t, grown(slices.Concat(growing, steady("files", 2, 30), steady("PostgreSQL", 3, 30))))
	require.ErrorContains(t, errors.Join(grown(slices.Concat(steady("files", 1, 30), steady("files", 2, 5)))...), "too few")
	require.ErrorContains(t, errors.Join(grown(nil)...), "no sample of the service")
	err := errors.Join(grown(slices.Concat(growing, steady("PostgreSQL", 2, 30)))...)
	require.ErrorContains(t, err, "open files grew from")
	require.ErrorContains(t, err, "goroutines grew from")
	large := steady("files", 1, 30)
	large[3].ResidentMB = 1000
	require.ErrorContains(t, errors.Join(grown(large)...), "up to 1000 MB resident until 3s, of a limit of 384")
	peak := steady("files", 1, 30)
	peak[4].PeakMB = 481
	require.ErrorContains(t, errors.Join(grown(peak)...), "up to 481 MB resident until 4s, of a limit of 384")
	peak[4].PeakMB = 480
	require.Empty(t, grown(peak))
	for after, want := range map[int]string{120: "", 121: "open files grew from 100 to 121, with the store files"} {
		little := steady("files", 1, 30)
		for i := range little[20:] {
			little[20+i].Files = after
		}
		if bad := errors.Join(grown(little)...); want == "" {
			require.NoError(t, bad)
		} else {
			require.EqualError(t, bad, want)
		}
	}
}

// TestDocument writes an outcome, and finds it again.
func TestDocument(t *testing.T) {
	file := filepath.Join(t.TempDir(), "soak.md")
	o := outcome{
		Machine: rig.Machine{Commit: "c0ffee"}, Seed: 77, Long: "30m0s", LimitMB: 384,
		Done:       []trouble{{"the node answers 503", 61, 75}},
		Operations: []counts{{"sign", 30, 2, 0, 0}, {"utxos", 12, 0, 1, 5}},
		Failures:   []failure{{"the node answers 503", "sign: 503 a|b", 2}},
		Samples:    slices.Concat(steady("files", 1, 30), steady("PostgreSQL", 2, 30)),
		Bad:        []string{"wrong: utxos:\none is missing"},
	}
	o.Samples[3].PeakMB = 333
	require.NoError(t, o.write(file))
	content, err := os.ReadFile(file)
	require.NoError(t, err)
	for _, want := range []string{
		"| commit | c0ffee |", "**42 requests, 2 of them failed, 1 responses were wrong.**", "- wrong: utxos:\n  one is missing\n",
		"| utxos | 12 | 0 | 1 |\n\nA client had nothing to request 5 times: the address that it drew had no outputs, or the second was that of a block.\n\n## Faults\n",
		"| 1m1s | 1m15s | the node answers 503 |", `| sign: 503 a\|b | 2 |`, "![](soak-memory.png)", "| 29s | 2 | PostgreSQL | 200 |",
		"times of faults. The most resident memory of a process was 333 MB.\n\n![]",
	} {
		require.Contains(t, string(content), want)
	}
	again, err := read(filepath.Join(filepath.Dir(file), "soak.json"))
	require.NoError(t, err)
	require.Equal(t, &o, again)
	drawn, err := os.ReadFile(filepath.Join(filepath.Dir(file), "soak-memory.png"))
	require.NoError(t, err)
	_, err = png.Decode(bytes.NewReader(drawn))
	require.NoError(t, err)
}

// TestDocumentIsOfItsRun holds the document in docs to the run that it is of.
func TestDocumentIsOfItsRun(t *testing.T) {
	const file = "../../docs/soak.md"
	content, err := os.ReadFile(file)
	require.NoError(t, err)
	o, err := read(beside(file, ".json"))
	require.NoError(t, err)
	var plots []string
	for _, c := range curves {
		require.FileExists(t, beside(file, c.end))
		plots = append(plots, filepath.Base(beside(file, c.end)))
	}
	want, err := o.document(plots)
	require.NoError(t, err)
	require.Equal(t, string(want), string(content), "it is not what the run wrote: go -C bench run ./soak -again -out docs/soak.md")
	require.Empty(t, o.Bad)
	require.Empty(t, grown(o.Samples))
	require.Zero(t, o.All().Wrong)
}
