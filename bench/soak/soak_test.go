package main

import (
	"errors"
	"io"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"
)

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
		more   bool
		err    string
	}{
		{"all", []utxo{shown(3, 1003), shown(2, 1002), shown(1, 1001)}, 3, false, ""},
		{"all but what is spent", []utxo{shown(4, 1004), shown(3, 1003), shown(1, 1001)}, 4, false, ""},
		{"the newest", []utxo{shown(4, 1004), shown(3, 1003)}, 4, true, ""},
		{"not all", []utxo{shown(4, 1004), shown(3, 1003)}, 4, false, "is missing"},
		{"not the newest", []utxo{shown(4, 1004), shown(1, 1001)}, 4, true, "is missing"},
		{"what is spent", []utxo{shown(4, 1004), shown(3, 1003), shown(2, 1002), shown(1, 1001)}, 4, false, "is not there"},
		{"what is not made yet", []utxo{shown(4, 1004), shown(3, 1003), shown(2, 1002), shown(1, 1001)}, 3, false, "is not there"},
		{"one twice", []utxo{shown(3, 1003), shown(3, 1003), shown(2, 1002), shown(1, 1001)}, 3, false, "is not there, or twice"},
		{"another amount", []utxo{other, shown(2, 1002), shown(1, 1001)}, 3, false, "want "},
	} {
		err := compare(test.got, truth, test.height, test.more)
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
	counted.add("sign", "the node is away", &refused{503, "NODE_UNAVAILABLE"})
	counted.add("sign", "", io.ErrUnexpectedEOF)
	counted.add("utxos", "", nil)
	counted.add("utxos", "", wrong("one is missing"))
	counted.add("balances", "", &refused{500, ""})
	var out strings.Builder
	bad := counted.print(&out)
	require.Len(t, bad, 2)
	require.ErrorContains(t, bad[0], "utxos: one is missing")
	require.ErrorContains(t, bad[1], "balances: none of 1 requests was answered")
	require.Regexp(t, `sign +3 +2 +0`, out.String())
	require.Regexp(t, `the node is away +sign: 503 NODE_UNAVAILABLE +1`, out.String())
	require.Regexp(t, `nothing is done to it +sign: no connection, or it broke off +1`, out.String())
}

// TestGrowth judges the last life, and nothing before.
func TestGrowth(t *testing.T) {
	steady := func(pid, n int) (all []sample) {
		for i := range n {
			all = append(all, sample{at: time.Duration(i) * time.Second, pid: pid, residentMB: 200, files: 100, routines: 200 + i%7})
		}
		return all
	}
	require.Empty(t, printSamples(io.Discard, append(steady(1, 5), steady(2, 30)...)))
	require.ErrorContains(t, errors.Join(printSamples(io.Discard, append(steady(1, 30), steady(2, 5)...))...), "too few")
	require.ErrorContains(t, errors.Join(printSamples(io.Discard, nil)...), "not a single look")
	grows := steady(1, 30)
	for i := range grows {
		grows[i].files, grows[i].routines = 100+20*i, 200+40*i
	}
	err := errors.Join(printSamples(io.Discard, grows)...)
	require.ErrorContains(t, err, "open files grew from")
	require.ErrorContains(t, err, "goroutines grew from")
	large := steady(1, 30)
	large[3].residentMB = 1000
	require.ErrorContains(t, errors.Join(printSamples(io.Discard, large)...), "1000 MB resident after 3s, of a limit of 384")
}
