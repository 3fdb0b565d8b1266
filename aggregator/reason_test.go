package aggregator

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/constants"

	"quorate/p2p"
	"quorate/validators"
)

// Each cause has its own reason. The validator with 60% of the weight is missing.
func TestReasons(t *testing.T) {
	l1, other := ids.ID{7}, ids.ID{8}
	unconnected := func(o p2p.Obstacle) func(*fakeNetwork) {
		return func(n *fakeNetwork) {
			n.validators[1].offline = true
			n.failures = map[ids.NodeID]p2p.Failure{n.validators[1].nodeIDs[0]: {Obstacle: o}}
		}
	}
	does := func(b behave) func(*fakeNetwork) {
		return func(n *fakeNetwork) { n.validators[1].do = b }
	}
	// The validator of 60 has no key: what is left of the set cannot reach the quorum.
	keyless := func(subnet ids.ID, found validators.Incapable) func(*fakeNetwork) {
		return func(n *fakeNetwork) {
			n.validators, n.keyless, n.subnetID, n.incapable = n.validators[:1], 60, subnet, found
		}
	}
	gone := []validators.Weighted{{NodeID: ids.NodeID{0, 1, 1}, Weight: 60}}
	rows := map[string]struct {
		prepare func(*fakeNetwork)
		pChain  bool // the message is of the P-Chain
		struck  bool // the validator has sent invalid signatures before
		subnet  *ids.ID
		quorum  uint64
		code    Code
		detail  string
		unnamed bool
	}{
		"NO_ADDRESS":        {prepare: unconnected(p2p.ObstacleNoAddress)},
		"PRIVATE_ADDRESS":   {prepare: unconnected(p2p.ObstaclePrivateAddress)},
		"UNREACHABLE":       {prepare: unconnected(p2p.ObstacleUnreachable)},
		"CONNECTION_CLOSED": {prepare: unconnected(p2p.ObstacleClosed)},
		"CLOCK": {prepare: func(n *fakeNetwork) {
			unconnected(p2p.ObstacleClock)(n)
			n.failures[n.validators[1].nodeIDs[0]] = p2p.Failure{Obstacle: p2p.ObstacleClock, Detail: "75 s"}
		}, detail: "75 s"},
		"VERSION":       {prepare: unconnected(p2p.ObstacleVersion)},
		"OTHER_NETWORK": {prepare: unconnected(p2p.ObstacleNetwork)},
		"NOT_CONNECTED": {prepare: unconnected(p2p.ObstacleUntried), detail: "not dialled yet"},
		"NO_ANSWER":     {prepare: does(mute)},
		"UNANSWERED": {prepare: func(n *fakeNetwork) {
			n.validators[0].do, n.validators[1].do = answer(respond(nil)), mute
		}, quorum: 99},
		"NOT_ASKED": {prepare: func(n *fakeNetwork) {
			more := newFakeNetwork(t, 500, 400).validators
			more[0].nodeIDs, more[1].nodeIDs = []ids.NodeID{{1, 0, 2}}, []ids.NodeID{{1, 0, 3}}
			n.validators = append(n.validators, more...)
			n.everyone(forge)
		}, quorum: 94, struck: true},
		"NOT_TRACKED": {prepare: func(n *fakeNetwork) {
			n.subnetID, n.owners = l1, map[ids.ID]ids.ID{testChain: l1}
			n.validators[1].do, n.tracked = mute, map[ids.NodeID][]ids.ID{}
		}, detail: l1.String()},
		"WRONG_SIGNING_SUBNET": {prepare: func(n *fakeNetwork) {
			n.subnetID, n.owners = other, map[ids.ID]ids.ID{testChain: l1}
			n.validators[1].do, n.tracked = mute, map[ids.NodeID][]ids.ID{n.validators[1].nodeIDs[0]: {other}}
		}, subnet: &other, detail: l1.String()},
		"LEGACY_VALIDATOR": {prepare: func(n *fakeNetwork) {
			n.subnetID, n.owners = l1, map[ids.ID]ids.ID{testChain: l1}
			n.validators[1].do, n.incapable.Legacy = mute, map[ids.NodeID]struct{}{n.validators[1].nodeIDs[0]: {}}
		}, detail: "did not answer in time"},
		"NOT_ACCEPTED":          {prepare: does(refuse(3, "failed to get block", 0)), code: CodeRefused, detail: "failed to get block (code 3)"},
		"P_CHAIN_BEHIND":        {prepare: does(refuse(6, "not converted", 0)), pChain: true, code: CodeRefused, detail: "not converted (code 6)"},
		"PAYLOAD_REFUSED":       {prepare: does(refuse(4, "unsupported", 0)), pChain: true, code: CodeRefused, detail: "unsupported (code 4)"},
		"JUSTIFICATION_REFUSED": {prepare: does(refuse(5, "bad justification", 0)), pChain: true, code: CodeRefused, detail: "bad justification (code 5)"},
		"NOT_ALLOWED":           {prepare: does(refuse(-3, "not a validator", 0)), code: CodeRefused, detail: "not a validator (code -3)"},
		"THROTTLED":             {prepare: does(refuse(-4, "throttled", 0)), code: CodeRefused, detail: "throttled (code -4)"},
		"REFUSED":               {prepare: does(refuse(9, "not today", 0)), code: CodeRefused, detail: "not today (code 9)"},
		"INVALID_SIGNATURE":     {prepare: does(forge)},
		"INACTIVE_L1_VALIDATOR": {prepare: keyless(l1, validators.Incapable{Inactive: gone}), code: CodeQuorumImpossible},
		"NO_BLS_KEY":            {prepare: keyless(l1, validators.Incapable{Keyless: gone}), code: CodeQuorumImpossible},
		"KEYLESS":               {prepare: keyless(l1, validators.Incapable{}), code: CodeQuorumImpossible, unnamed: true},
	}
	for _, reason := range Reasons() {
		row, ok := rows[string(reason)]
		require.True(t, ok, "no test of %s", reason)
		t.Run(string(reason), func(t *testing.T) {
			n := newFakeNetwork(t, 40, 60)
			row.prepare(n)
			source := testChain
			if row.pChain {
				source = constants.PlatformChainID
			}
			if row.code == "" {
				row.code = CodeQuorumNotReached
			}
			run(t, n, func(t *testing.T, ctx context.Context, a *Aggregator) {
				if row.struck {
					set := n.set()
					i, _ := set.Index(ids.NodeID{0, 1, 1})
					a.history.judged(signer{ids.NodeID{0, 1, 1}, keyOf(set.Validators[i])}, false, time.Now())
				}
				_, err := a.Sign(ctx, Request{Message: testMessageFrom(t, testNetworkID, source, "m"), SigningSubnetID: row.subnet, QuorumPercentage: row.quorum})
				failed := requireFailure(t, err, row.code)
				var found *Shortfall
				for i := range failed.Account.Reasons {
					if failed.Account.Reasons[i].Reason == reason {
						found = &failed.Account.Reasons[i]
					}
				}
				require.NotNil(t, found, "%+v", failed.Account.Reasons)
				require.EqualValues(t, 60, found.Weight, "%+v", failed.Account.Reasons)
				require.Contains(t, found.Detail, row.detail)
				require.Equal(t, reason.Remedy(), found.Remedy)
				if row.unnamed {
					require.Empty(t, found.NodeIDs)
					require.Zero(t, found.Count)
					return
				}
				require.Equal(t, []ids.NodeID{{0, 1, 1}}, found.NodeIDs)
				require.Equal(t, 1, found.Count)
			})
		})
	}
	require.Len(t, rows, len(Reasons()))
}

// Every obstacle to a connection has a reason.
func TestObstaclesHaveReasons(t *testing.T) {
	for _, o := range []p2p.Obstacle{
		p2p.ObstacleUntried, p2p.ObstacleNoAddress, p2p.ObstaclePrivateAddress, p2p.ObstacleUnreachable, p2p.ObstacleOtherNode,
		p2p.ObstacleClosed, p2p.ObstacleClock, p2p.ObstacleVersion, p2p.ObstacleNetwork, p2p.ObstacleHandshake,
	} {
		reason, detail := ReasonOf(p2p.Failure{Obstacle: o, Detail: "d"})
		require.Contains(t, Reasons(), reason)
		require.True(t, (&missing{reason: reason}).absent(), "%s", reason)
		require.NotEmpty(t, detail)
		require.Contains(t, reason.Meaning(), "not connected")
	}
}

// Keyless validators of the primary network need no request to the P-Chain. Groups that do not add
// up, because validators changed since the height of the set, name no validators.
func TestKeylessWeightIsSplitOnlyIfItAddsUp(t *testing.T) {
	n := newFakeNetwork(t, 40)
	n.keyless = 60
	reasons := keyless(n.set(), validators.Incapable{})
	require.Len(t, reasons, 1)
	require.Equal(t, ReasonNoBLSKey, reasons[0].Reason)
	n.subnetID = ids.ID{7}
	inactive, noKey := validators.Weighted{NodeID: ids.NodeID{1}, Weight: 20}, validators.Weighted{NodeID: ids.NodeID{2}, Weight: 40}
	both := keyless(n.set(), validators.Incapable{Inactive: []validators.Weighted{inactive}, Keyless: []validators.Weighted{noKey}})
	require.Len(t, both, 2)
	require.EqualValues(t, 20, both[0].Weight)
	require.EqualValues(t, 40, both[1].Weight)
	noKey.Weight++
	reasons = keyless(n.set(), validators.Incapable{Inactive: []validators.Weighted{inactive}, Keyless: []validators.Weighted{noKey}})
	require.Len(t, reasons, 1)
	require.Equal(t, ReasonKeyless, reasons[0].Reason)
	require.EqualValues(t, 60, reasons[0].Weight)
	require.Empty(t, reasons[0].NodeIDs)
}

// A message names the heaviest reasons and what to do about them.
func TestFailureNamesReasons(t *testing.T) {
	n := newFakeNetwork(t, 10, 20, 30, 40)
	n.validators[1].offline = true
	n.failures = map[ids.NodeID]p2p.Failure{n.validators[1].nodeIDs[0]: {Obstacle: p2p.ObstaclePrivateAddress}}
	n.validators[3].do = mute
	run(t, n, func(t *testing.T, ctx context.Context, a *Aggregator) {
		_, err := a.Sign(ctx, Request{Message: testMessage(t, "m")})
		failed := requireFailure(t, err, CodeQuorumNotReached)
		require.Equal(t, "validators with 40.00% of the weight signed, 67.00% are needed: 40.00% did not answer in time, "+
			"20.00% are not connected: only private addresses of them are known. "+ReasonNoAnswer.Remedy(), failed.Message)
	})
}

var write = flag.Bool("write", false, "write the table of reasons to docs/errors.md")

// The documentation and the OpenAPI file have the reasons of the code. With -write, the test
// writes the table.
func TestReasonsAreDocumented(t *testing.T) {
	const (
		file  = "../docs/errors.md"
		begin = "<!-- reasons: go test ./aggregator -run TestReasonsAreDocumented -write -->\n"
		end   = "<!-- end of reasons -->\n"
	)
	live, err := os.ReadFile("../e2e/reasons_test.go")
	require.NoError(t, err)
	var table, enum strings.Builder
	table.WriteString("| `code` | validators with that much weight | what to do | shown by |\n|---|---|---|---|\n")
	for i, r := range Reasons() {
		fmt.Fprintf(&table, "| `%s` | %s | %s | `aggregator.TestReasons/%s`", r, r.Meaning(), r.Remedy(), r)
		if bytes.Contains(live, fmt.Appendf(nil, "%q", r)) {
			table.WriteString(", `e2e.TestReasonsOfRealNodes`")
		}
		table.WriteString(" |\n")
		if i > 0 {
			enum.WriteString(", ")
		}
		enum.WriteString(string(r))
	}
	page, err := os.ReadFile(file)
	require.NoError(t, err)
	before, rest, ok := bytes.Cut(page, []byte(begin))
	require.True(t, ok, "%s lacks %s", file, begin)
	got, after, ok := bytes.Cut(rest, []byte(end))
	require.True(t, ok, "%s lacks %s", file, end)
	if *write {
		page = append(append(append(before, begin...), table.String()...), append([]byte(end), after...)...)
		require.NoError(t, os.WriteFile(file, page, 0o600))
		return
	}
	require.Equal(t, table.String(), string(got))
	api, err := os.ReadFile("../handlers/docs/openapi.yaml")
	require.NoError(t, err)
	require.Contains(t, string(api), "enum: ["+enum.String()+"]")
}
