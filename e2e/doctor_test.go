package e2e

import (
	"encoding/json"
	"errors"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"quorate/e2e/localnet"
)

// A configuration is examined against real nodes: one that works, also while a service runs, and one with a node
// that is down and another that lacks APIs.
func TestDoctor(t *testing.T) {
	t.Parallel()
	ctx, cancel := testContext(t, 5*time.Minute)
	defer cancel()
	program := buildService(t)
	network := localnet.Start(t)
	node := network.Node(0).URL
	p := newPChain(t, ctx, node)
	p.nudge()
	chain := newCChain(t, ctx, node)
	chain.await(ctx, chain.sendByAccount(ctx, []byte("a block")))

	type finding struct{ Area, Check, Status, Detail, Remedy string }
	examine := func(flags ...string) (code int, status string, findings []finding) {
		command := exec.CommandContext(ctx, program, append([]string{"doctor", "--json", "--data-dir", filepath.Join(t.TempDir(), "data")}, flags...)...)
		out, err := command.Output()
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			code = exit.ExitCode()
		} else {
			require.NoError(t, err)
		}
		var report struct {
			Status   string
			Findings []finding
		}
		require.NoError(t, json.Unmarshal(out, &report), "%s", out)
		for _, f := range report.Findings {
			t.Logf("%-8s %s: %s: %s", f.Status, f.Area, f.Check, f.Detail)
		}
		return code, report.Status, report.Findings
	}
	find := func(findings []finding, area, check string) finding {
		for _, f := range findings {
			if f.Area == area && f.Check == check {
				return f
			}
		}
		t.Fatalf("no finding %s of %s", check, area)
		return finding{}
	}
	area := "local, node " + node

	code, status, findings := examine("--network", "local="+node, "--allow-private-ips", "--record", "all")
	require.Zero(t, code)
	require.NotEqual(t, "failure", status)
	require.Contains(t, find(findings, "local", "validators").Detail, "100.0%")
	for _, check := range []string{"answers", "bootstrapped", "version", "upgrades", "validator sets", "old validator sets", "epoch of the C-Chain", "P-Chain blocks", "index API", "rewards", "X-Chain blocks", "C-Chain logs", "C-Chain blocks", "C-Chain traces", "clock", "rate"} {
		f := find(findings, area, check)
		require.Equal(t, "ok", f.Status, "%+v", f)
		require.Empty(t, f.Remedy)
	}

	// Without --allow-private-ips no validator can be connected. A running service keeps its connections.
	s := startService(t, program, node)
	code, status, findings = examine("--network", "local="+node, "--connect", "5s")
	require.Equal(t, 1, code)
	require.Equal(t, "failure", status)
	require.Contains(t, find(findings, "local", "validators").Detail, "private addresses")
	m, _ := chain.message(ctx, chain.sendByContract(ctx, []byte("still signed")))
	s.sign(ctx, m, 99)

	bare := network.ObserveBare()
	network.Stop(4)
	code, _, findings = examine("--network", "local="+bare.URL+","+network.Node(4).URL, "--allow-private-ips", "--record", "all")
	require.Equal(t, 1, code, "one node is down")
	require.Equal(t, "failure", find(findings, "local, node "+network.Node(4).URL, "answers").Status)
	for _, check := range []string{"index API", "C-Chain traces"} {
		f := find(findings, "local, node "+bare.URL, check)
		require.Equal(t, "warning", f.Status, "%+v", f)
		require.Contains(t, f.Detail, "not offered")
	}
	require.Contains(t, find(findings, "local", "validators").Detail, "80.0%")
}
