package measure

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp"

	"quorate/p2p"
)

// run measures a network for some rounds.
func run(t *testing.T, n *fakeNetwork, rounds int) *Report {
	t.Helper()
	r, err := Run(t.Context(), n.options(rounds))
	require.NoError(t, err)
	return r
}

// various returns a report with nodes of different kinds, with hostile text.
func various(t *testing.T) (r *Report, n *fakeNetwork) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		n = newFakeNetwork(t, 40, 30, 10, 10, 10)
		n.nodes[2].answer = always(refusal(9, `=cmd|"<script src="http://example.org/x.js">`))
		n.nodes[3].offline = true
		n.nodes[4].answer = func(int, *warp.UnsignedMessage) (p2p.Answer, time.Duration, bool) { return p2p.Answer{}, 0, false }
		r = run(t, n, 6)
	})
	return r, n
}

func save(t *testing.T, r *Report) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "report.json")
	f, err := os.Create(file)
	require.NoError(t, err)
	require.NoError(t, r.WriteJSON(f))
	require.NoError(t, f.Close())
	return file
}

func TestLoadReturnsWhatWasSaved(t *testing.T) {
	r, _ := various(t)
	loaded, err := Load(save(t, r))
	require.NoError(t, err)
	require.Equal(t, r, loaded)
}

func TestLoadRefusesOtherFiles(t *testing.T) {
	_, err := Load(filepath.Join(t.TempDir(), "missing"))
	require.ErrorIs(t, err, os.ErrNotExist)
	r, _ := various(t)
	r.Format = "quorate-measure-2"
	_, err = Load(save(t, r))
	require.ErrorIs(t, err, ErrFormat)
	require.ErrorContains(t, err, `"quorate-measure-2"`)
	for _, content := range []string{"", "{}", "[1]", "nodeId,weight\n"} {
		file := filepath.Join(t.TempDir(), "other")
		require.NoError(t, os.WriteFile(file, []byte(content), 0o600))
		_, err = Load(file)
		require.ErrorIs(t, err, ErrFormat, "%q", content)
	}
}

// TestCompareFindsWhatChanged compares reports of which one is saved and loaded.
func TestCompareFindsWhatChanged(t *testing.T) {
	var a, b *Report
	var n *fakeNetwork
	synctest.Test(t, func(t *testing.T) {
		n = newFakeNetwork(t, 20, 20, 20, 20, 20)
		last := n.nodes[4]
		n.nodes = n.nodes[:4]
		a = run(t, n, 4)
		n.nodes = append(n.nodes[1:], last)
		n.nodes[0].answer = signing(n.nodes[0], 25*time.Millisecond)  // 20 ms before
		n.nodes[1].answer = signing(n.nodes[1], 130*time.Millisecond) // 30 ms before
		n.nodes[2].offline = true
		b = run(t, n, 2)
	})
	before, err := Load(save(t, a))
	require.NoError(t, err)
	c, err := Compare(before, b)
	require.NoError(t, err)
	var order []ids.NodeID
	for _, change := range c.Changes {
		order = append(order, change.NodeID)
	}
	require.Equal(t, []ids.NodeID{n.nodes[2].nodeID, n.nodes[1].nodeID, n.nodes[0].nodeID}, order)
	require.Equal(t, []ids.NodeID{n.nodes[3].nodeID}, c.Joined)
	require.Equal(t, []ids.NodeID{{1, 0}}, c.Left)
	require.InDelta(t, 100, c.Changes[0].SignedPercentA, 0)
	require.Zero(t, c.Changes[0].SignedPercentB)
	requireTimes(t, c.Changes[1].A, 30, 30, 30)
	requireTimes(t, c.Changes[1].B, 130, 130, 130)
	require.Len(t, c.Quorums, len(percentages))
	half := c.Quorums[1]
	require.EqualValues(t, 50, half.Percent)
	requireTimes(t, half.A.Times, 20, 20, 20)
	requireTimes(t, half.B.Times, 50, 50, 50)

	var table bytes.Buffer
	require.NoError(t, c.WriteTable(&table, 2))
	for _, part := range []string{"+30.0 ms", "+100.0 ms", "and 1 more that changed less", "joined: " + n.nodes[3].nodeID.String(), "left: " + ids.NodeID{1, 0}.String(), "4 rounds", "2 rounds"} {
		require.Contains(t, table.String(), part)
	}
	require.NotContains(t, table.String(), n.nodes[0].nodeID.String())
	var text bytes.Buffer
	require.NoError(t, c.WriteJSON(&text))
	var again Comparison
	require.NoError(t, json.Unmarshal(text.Bytes(), &again))
	require.Equal(t, *c, again)

	same, err := Compare(b, b)
	require.NoError(t, err)
	for _, change := range same.Changes {
		require.Zero(t, change.steps())
		require.Zero(t, change.slower())
	}
	for _, change := range []func(*Report){
		func(r *Report) { r.NetworkID++ },
		func(r *Report) { r.Subnet.ID[0]++ },
		func(r *Report) { r.BlockchainID[0]++ },
	} {
		other := *b
		change(&other)
		_, err := Compare(b, &other)
		require.ErrorIs(t, err, ErrDifferent)
	}
}

func TestTableNamesEachNode(t *testing.T) {
	r, n := various(t)
	var table bytes.Buffer
	require.NoError(t, r.WriteTable(&table, 0))
	lines := strings.Split(table.String(), "\n")
	for i, parts := range [][]string{
		{" 40.00%", "6 of 6", "10.0 ms", "v1.15.0"},
		{" 30.00%", "6 of 6", "20.0 ms"},
		{" 10.00%", "0 of 6", "6 refused (9: =cmd"},
		{" 10.00%", "6 not connected; UNREACHABLE"},
		{" 10.00%", "6 timed out"},
	} {
		at := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, n.nodes[i].nodeID.String()) })
		require.GreaterOrEqual(t, at, 0)
		for _, part := range parts {
			require.Contains(t, lines[at], part)
		}
	}
	require.Contains(t, table.String(), "Connected: 90.00% of the weight")
	require.Regexp(t, `(?m)^ +67% +6 of 6 +20\.0 ms +20\.0 ms +20\.0 ms *$`, table.String())
	require.Regexp(t, `(?m)^ +80% +0 of 6 +- +- +- *$`, table.String())
	table.Reset()
	require.NoError(t, r.WriteTable(&table, 2))
	require.Contains(t, table.String(), "and 3 more")
	require.NotContains(t, table.String(), "timed out")
}

func TestCSVHasARowForEachNode(t *testing.T) {
	r, n := various(t)
	var content bytes.Buffer
	require.NoError(t, r.WriteCSV(&content))
	rows, err := csv.NewReader(&content).ReadAll()
	require.NoError(t, err)
	require.Len(t, rows, 1+len(n.nodes))
	column := func(name string) int { return slices.Index(rows[0], name) }
	first := rows[1]
	require.Equal(t, n.nodes[0].nodeID.String(), first[column("nodeId")])
	require.Equal(t, "40", first[column("weight")])
	require.Equal(t, "10.000", first[column("medianMs")])
	require.Equal(t, "6", first[column("signed")])
	require.Equal(t, []string{"", "", "REFUSED", "UNREACHABLE", "NO_ANSWER"}, []string{rows[1][column("reason")], rows[2][column("reason")], rows[3][column("reason")], rows[4][column("reason")], rows[5][column("reason")]})
	for _, row := range rows[1:] {
		for _, cell := range row {
			require.False(t, strings.HasPrefix(cell, "="), "%q is a formula", cell)
		}
	}
}

// TestPageStandsAlone parses the page, and looks for its rows and for references.
func TestPageStandsAlone(t *testing.T) {
	r, n := various(t)
	var content bytes.Buffer
	require.NoError(t, r.WriteHTML(&content))
	require.True(t, strings.HasPrefix(content.String(), "<!doctype html>"))
	require.Contains(t, content.String(), "UNREACHABLE (1): validators are not connected")
	decoder := xml.NewDecoder(&content)
	decoder.Strict, decoder.AutoClose, decoder.Entity = false, xml.HTMLAutoClose, xml.HTMLEntity
	elements := make(map[string]int)
	var nodes []string
	table, points := "", 0
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		start, ok := token.(xml.StartElement)
		if !ok {
			if text, isText := token.(xml.CharData); isText && strings.HasPrefix(string(text), "NodeID-") {
				nodes = append(nodes, string(text))
			}
			continue
		}
		elements[start.Name.Local]++
		for _, a := range start.Attr {
			require.NotContains(t, []string{"src", "href", "srcset", "action", "data"}, a.Name.Local, "<%s>", start.Name.Local)
			require.NotContains(t, a.Value, "url(")
			switch {
			case start.Name.Local == "table":
				table = a.Value
			case a.Name.Local == "points" && a.Value != "0,4 20,4": // not the legend
				points += len(strings.Fields(a.Value))
			}
		}
		if start.Name.Local == "tr" {
			elements[table+" tr"]++
		}
	}
	require.Zero(t, elements["script"]+elements["link"]+elements["img"]+elements["iframe"])
	require.Equal(t, 1+len(n.nodes), elements["validators tr"])
	require.Equal(t, 1+len(percentages), elements["quorums tr"])
	for _, node := range n.nodes {
		require.Contains(t, nodes, node.nodeID.String())
	}
	require.Len(t, nodes, len(n.nodes))
	// The curves have the 14 shares up to 70%, the rounds three shares.
	require.Equal(t, 2*14+3*6, points)
}

func TestTicks(t *testing.T) {
	for last, want := range map[float64][]string{
		1:   {"0", "0.2", "0.4", "0.6", "0.8", "1"},
		8:   {"0", "1", "2", "3", "4", "5", "6", "7", "8"},
		100: {"0", "20", "40", "60", "80", "100"},
		230: {"0", "50", "100", "150", "200"},
	} {
		var got []string
		marks := ticks(last, 300, true)
		for _, m := range marks {
			got = append(got, m.Label)
		}
		require.Equal(t, want, got, "%g", last)
		require.InDelta(t, 300, marks[0].At, 1e-9)
	}
}
