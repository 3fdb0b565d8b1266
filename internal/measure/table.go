package measure

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"quorate/aggregator"
)

// WriteTable writes the report for a terminal, with at most limit validators, the heaviest
// ones; 0 means all.
func (r *Report) WriteTable(w io.Writer, limit int) error {
	for _, line := range r.summary() {
		if _, err := fmt.Fprintln(w, line); err != nil {
			return err
		}
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(t, "\nWEIGHT\tREACHED\tMEDIAN\tP90\tP99\t\n")
	for _, q := range r.Subnet.Quorums {
		fmt.Fprintf(t, "%d%%\t%d of %d\t%s\t%s\t%s\t\n", q.Percent, q.Reached, q.Rounds, inMS(q.Times.Median), inMS(q.Times.P90), inMS(q.Times.P99))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	t = tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprint(t, "\nNODE\tWEIGHT\tSIGNED\tMEDIAN\tP90\tP99\tVERSION\tREMARKS\n")
	shown := r.Validators
	if limit > 0 {
		shown = shown[:min(limit, len(shown))]
	}
	for i := range shown {
		v := &shown[i]
		fmt.Fprintf(t, "%s\t%6.2f%%\t%d of %d\t%8s\t%8s\t%8s\t%s\t%s\n", v.NodeID, r.share(v.Weight), v.Signed, v.Rounds,
			inMS(v.Times.Median), inMS(v.Times.P90), inMS(v.Times.P99), cmp.Or(v.Version, "-"), strings.Join(v.Remarks(), "; "))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if more := len(r.Validators) - len(shown); more > 0 {
		fmt.Fprintf(w, "and %d more: --limit 0, --json, --csv and --html show all\n", more)
	}
	if reasons := r.Reasons(); len(reasons) > 0 {
		fmt.Fprintf(w, "\nNo signature in the last round:\n")
		for _, missing := range reasons {
			fmt.Fprintln(w, missing)
		}
	}
	return nil
}

// Missing is the nodes that did not sign in the last round, for one reason.
type Missing struct {
	Reason aggregator.Reason
	Nodes  int
	// Detail is that of the heaviest node; it may be empty.
	Detail string
}

func (m Missing) String() string {
	text := fmt.Sprintf("%s (%d): validators %s", m.Reason, m.Nodes, m.Reason.Meaning())
	if m.Detail != "" {
		text += " (" + m.Detail + ")"
	}
	return text + ". " + m.Reason.Remedy()
}

// Reasons groups the nodes that did not sign in the last round by the reason, those of the
// heaviest nodes first.
func (r *Report) Reasons() (list []Missing) {
	for i := range r.Validators {
		v := &r.Validators[i]
		if v.Reason == "" || !v.Member {
			continue
		}
		at := slices.IndexFunc(list, func(m Missing) bool { return m.Reason == v.Reason })
		if at < 0 {
			list = append(list, Missing{v.Reason, 1, v.Detail})
		} else {
			list[at].Nodes++
		}
	}
	return list
}

// share returns a weight in percent of the subnet's.
func (r *Report) share(weight uint64) float64 {
	return 100 * float64(weight) / float64(max(r.Subnet.TotalWeight, 1))
}

// summary returns lines that say what was measured.
func (r *Report) summary() []string {
	s := &r.Subnet
	lines := []string{
		fmt.Sprintf("Subnet %s at P-Chain height %d: %d validators, %d nodes", s.ID, r.Rounds[len(r.Rounds)-1].PChainHeight, s.Validators, s.Nodes),
		fmt.Sprintf("Connected: %.2f%% of the weight; without a BLS key: %.2f%%", r.share(s.ConnectedWeight), r.share(s.KeylessWeight)),
	}
	first, last := r.Rounds[0].Height, r.Rounds[0].Height
	for _, round := range r.Rounds {
		first, last = min(first, round.Height), max(last, round.Height)
	}
	lines = append(lines, fmt.Sprintf("%d rounds in %s, at most one each %s, over blocks %d to %d of blockchain %s", len(r.Rounds),
		r.Ended.Sub(r.Rounds[0].At).Round(time.Second), time.Duration(r.Settings.IntervalMS*float64(time.Millisecond)), first, last, r.BlockchainID))
	if s.RepeatedBlocks > 0 {
		lines = append(lines, fmt.Sprintf("%d rounds had a block of an earlier round, because the chain has few blocks: validators answered them from a cache", s.RepeatedBlocks))
	}
	if r.Interrupted {
		lines = append(lines, fmt.Sprintf("Ended early, after %d of %d rounds", len(r.Rounds), r.Settings.Rounds))
	}
	return lines
}

// inMS returns a time as text, or "-" if there is none.
func inMS(ms *float64) string {
	if ms == nil {
		return "-"
	}
	return fmt.Sprintf("%.1f ms", *ms)
}

// Remarks says what the node did besides signing.
func (v *Validator) Remarks() (remarks []string) {
	note := func(count int, what string) {
		if count > 0 {
			remarks = append(remarks, fmt.Sprintf("%d %s", count, what))
		}
	}
	note(v.TimedOut, "timed out")
	note(v.Invalid, "invalid")
	note(v.NotYet, "not accepted yet")
	note(v.Lost, "connection lost")
	note(v.NotConnected, "not connected")
	listed := 0
	for _, refusal := range v.Refusals {
		note(refusal.Count, fmt.Sprintf("refused (%d: %s)", refusal.Code, refusal.Text))
		listed += refusal.Count
	}
	note(v.Refused-listed, "refused for further reasons")
	switch {
	case !v.Member:
		remarks = append(remarks, "left the set")
	case v.Reason != "":
		remarks = append(remarks, string(v.Reason))
	}
	if v.SharedBy > 1 {
		remarks = append(remarks, fmt.Sprintf("its key is that of %d nodes", v.SharedBy))
	}
	return remarks
}
