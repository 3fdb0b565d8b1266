package measure

import (
	"encoding/csv"
	"io"
	"strconv"
	"strings"
)

// WriteCSV writes a row for each node.
func (r *Report) WriteCSV(w io.Writer) error {
	out := csv.NewWriter(w)
	_ = out.Write([]string{ // Error returns what failed
		"nodeId", "weight", "weightPercent", "connected", "version", "pingMs", "rounds", "signed", "medianMs", "p90Ms", "p99Ms",
		"timedOut", "refused", "notYet", "invalid", "lost", "notConnected", "reason", "remarks",
	})
	number := func(ms *float64) string {
		if ms == nil {
			return ""
		}
		return strconv.FormatFloat(*ms, 'f', 3, 64)
	}
	for i := range r.Validators {
		v := &r.Validators[i]
		var ping *float64
		if v.PingMS > 0 {
			ping = &v.PingMS
		}
		row := []string{
			v.NodeID.String(), strconv.FormatUint(v.Weight, 10), strconv.FormatFloat(r.share(v.Weight), 'f', 4, 64),
			strconv.FormatBool(v.Connected), v.Version, number(ping), strconv.Itoa(v.Rounds), strconv.Itoa(v.Signed),
			number(v.Times.Median), number(v.Times.P90), number(v.Times.P99),
		}
		for _, count := range []int{v.TimedOut, v.Refused, v.NotYet, v.Invalid, v.Lost, v.NotConnected} {
			row = append(row, strconv.Itoa(count))
		}
		_ = out.Write(append(row, string(v.Reason), strings.Join(v.Remarks(), "; ")))
	}
	out.Flush()
	return out.Error()
}
