package measure

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/ava-labs/avalanchego/ids"
)

// Comparison is the differences between two reports about one subnet, from A to B.
type Comparison struct {
	SubnetID ids.ID         `json:"subnetId"`
	A        Compared       `json:"a"`
	B        Compared       `json:"b"`
	Quorums  []QuorumChange `json:"quorums"`
	Changes  []Change       `json:"validators"`
	Joined   []ids.NodeID   `json:"joined"`
	Left     []ids.NodeID   `json:"left"`
}

// Compared names a report of a comparison.
type Compared struct {
	Began  time.Time `json:"began"`
	Rounds int       `json:"rounds"`
	// ConnectedPercent is the connected share of the weight.
	ConnectedPercent float64 `json:"connectedPercent"`
}

// QuorumChange is the time to a share of the weight in both reports.
type QuorumChange struct {
	Percent uint64 `json:"percent"`
	A       Quorum `json:"a"`
	B       Quorum `json:"b"`
}

// Change is how the answers of a node differ.
type Change struct {
	NodeID ids.NodeID `json:"nodeId"`
	// Weight is that of B.
	Weight uint64 `json:"weight,string"`
	// SignedPercentA and SignedPercentB are the shares of rounds with a valid signature.
	SignedPercentA float64 `json:"signedPercentA"`
	SignedPercentB float64 `json:"signedPercentB"`
	A              Times   `json:"a"`
	B              Times   `json:"b"`
	VersionA       string  `json:"versionA"`
	VersionB       string  `json:"versionB"`
}

// ErrDifferent reports two reports that cannot be compared.
var ErrDifferent = errors.New("the reports cannot be compared")

// Compare returns the differences between two reports. Nodes come in order of how much they
// changed: first by the share of rounds that they signed, in steps of 10%, then by their
// median time.
func Compare(a, b *Report) (*Comparison, error) {
	switch {
	case a.NetworkID != b.NetworkID:
		return nil, fmt.Errorf("%w: they are about networks %d and %d", ErrDifferent, a.NetworkID, b.NetworkID)
	case a.Subnet.ID != b.Subnet.ID:
		return nil, fmt.Errorf("%w: they are about subnets %s and %s", ErrDifferent, a.Subnet.ID, b.Subnet.ID)
	case a.BlockchainID != b.BlockchainID:
		return nil, fmt.Errorf("%w: they are about blockchains %s and %s", ErrDifferent, a.BlockchainID, b.BlockchainID)
	}
	c := &Comparison{SubnetID: a.Subnet.ID, A: compared(a), B: compared(b), Joined: []ids.NodeID{}, Left: []ids.NodeID{}, Changes: []Change{}}
	for _, percent := range percentages {
		qa, qb := a.Subnet.Quorum(percent), b.Subnet.Quorum(percent)
		if qa != nil && qb != nil {
			c.Quorums = append(c.Quorums, QuorumChange{percent, *qa, *qb})
		}
	}
	before := make(map[ids.NodeID]*Validator)
	for i := range a.Validators {
		if v := &a.Validators[i]; v.Member {
			before[v.NodeID] = v
		}
	}
	for i := range b.Validators {
		v := &b.Validators[i]
		if !v.Member {
			continue
		}
		was := before[v.NodeID]
		if was == nil {
			c.Joined = append(c.Joined, v.NodeID)
			continue
		}
		delete(before, v.NodeID)
		c.Changes = append(c.Changes, Change{v.NodeID, v.Weight, was.signedPercent(), v.signedPercent(), was.Times, v.Times, was.Version, v.Version})
	}
	for nodeID := range before {
		c.Left = append(c.Left, nodeID)
	}
	slices.SortFunc(c.Left, func(a, b ids.NodeID) int { return bytes.Compare(a[:], b[:]) })
	slices.SortFunc(c.Changes, func(a, b Change) int {
		return cmp.Or(cmp.Compare(b.steps(), a.steps()), cmp.Compare(math.Abs(b.slower()), math.Abs(a.slower())),
			cmp.Compare(b.Weight, a.Weight), bytes.Compare(a.NodeID[:], b.NodeID[:]))
	})
	return c, nil
}

func compared(r *Report) Compared {
	return Compared{r.Began, len(r.Rounds), r.share(r.Subnet.ConnectedWeight)}
}

func (v *Validator) signedPercent() float64 {
	return 100 * float64(v.Signed) / float64(max(v.Rounds, 1))
}

// steps returns by how many steps of 10% the signed share of rounds changed.
func (c *Change) steps() int { return int(math.Abs(c.SignedPercentB-c.SignedPercentA) / 10) }

// slower returns by how many ms the median grew, or 0 if there is no median to compare.
func (c *Change) slower() float64 {
	if c.A.Median == nil || c.B.Median == nil {
		return 0
	}
	return *c.B.Median - *c.A.Median
}

// WriteJSON writes the comparison.
func (c *Comparison) WriteJSON(w io.Writer) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", " ")
	return encoder.Encode(c)
}

// WriteTable writes the comparison for a terminal, with at most limit nodes, those that
// changed most; 0 means all.
func (c *Comparison) WriteTable(w io.Writer, limit int) error {
	if _, err := fmt.Fprintf(w, "Subnet %s\nA: %s\nB: %s\n", c.SubnetID, c.A, c.B); err != nil {
		return err
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(t, "\nWEIGHT\tREACHED A\tB\tMEDIAN A\tB\tCHANGE\tP90 A\tB\tCHANGE\tP99 A\tB\tCHANGE\t\n")
	for _, q := range c.Quorums {
		fmt.Fprintf(t, "%d%%\t%s\t%s\t", q.Percent, q.A.reached(), q.B.reached())
		for _, pair := range [][2]*float64{{q.A.Times.Median, q.B.Times.Median}, {q.A.Times.P90, q.B.Times.P90}, {q.A.Times.P99, q.B.Times.P99}} {
			fmt.Fprintf(t, "%s\t%s\t%s\t", inMS(pair[0]), inMS(pair[1]), change(pair[0], pair[1]))
		}
		fmt.Fprintln(t)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	shown := c.Changes
	if limit > 0 {
		shown = shown[:min(limit, len(shown))]
	}
	t = tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprint(t, "\nNODE\tSIGNED A\tB\tMEDIAN A\tB\tCHANGE\tP99 A\tB\tVERSION\n")
	for i := range shown {
		v := &shown[i]
		version := v.VersionB
		if v.VersionA != v.VersionB {
			version = cmp.Or(v.VersionA, "-") + " to " + cmp.Or(v.VersionB, "-")
		}
		fmt.Fprintf(t, "%s\t%.0f%%\t%.0f%%\t%s\t%s\t%s\t%s\t%s\t%s\n", v.NodeID, v.SignedPercentA, v.SignedPercentB,
			inMS(v.A.Median), inMS(v.B.Median), change(v.A.Median, v.B.Median), inMS(v.A.P99), inMS(v.B.P99), version)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if more := len(c.Changes) - len(shown); more > 0 {
		fmt.Fprintf(w, "and %d more that changed less: --limit 0 and --json show all\n", more)
	}
	for _, nodeID := range c.Joined {
		fmt.Fprintf(w, "joined: %s\n", nodeID)
	}
	for _, nodeID := range c.Left {
		fmt.Fprintf(w, "left: %s\n", nodeID)
	}
	return nil
}

func (c Compared) String() string {
	return fmt.Sprintf("%s, %d rounds, %.2f%% of the weight connected", c.Began.Format(time.RFC3339), c.Rounds, c.ConnectedPercent)
}

func (q *Quorum) reached() string {
	return fmt.Sprintf("%.0f%%", 100*float64(q.Reached)/float64(max(q.Rounds, 1)))
}

// change returns the difference of two times as text, or "-" if one is missing.
func change(a, b *float64) string {
	if a == nil || b == nil {
		return "-"
	}
	return fmt.Sprintf("%+.1f ms", *b-*a)
}
