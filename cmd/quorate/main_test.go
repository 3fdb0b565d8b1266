package main

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"

	"quorate/aggregator"
	"quorate/handlers/chainkit"
	"quorate/internal/config"
	"quorate/internal/simnet"
	"quorate/internal/testenv"
)

// quorate runs a command line as main does.
func quorate(t *testing.T, stdin string, args ...string) (code int, out, errOut string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	var o, e bytes.Buffer
	code = run(ctx, args, strings.NewReader(stdin), &o, &e)
	return code, o.String(), e.String()
}

func TestHelpTeaches(t *testing.T) {
	for _, args := range [][]string{{"--help"}, {"serve", "--help"}, {"dev", "--help"}, {"sign", "--help"}, {"verify", "--help"}, {"measure", "--help"}} {
		code, out, _ := quorate(t, "", args...)
		require.Zero(t, code)
		require.Contains(t, out, "quorate "+strings.TrimPrefix(args[0], "--help"), "%v has no example", args)
	}
}

// TestUnknownCommands misspells a command at every level.
func TestUnknownCommands(t *testing.T) {
	groups := 0
	var visit func(cmd *cobra.Command, path []string)
	visit = func(cmd *cobra.Command, path []string) {
		if !cmd.HasSubCommands() {
			return
		}
		groups++
		for _, sub := range cmd.Commands() {
			wrong := sub.Name() + "x"
			for _, args := range [][]string{append(slices.Clone(path), wrong), append(append([]string{"help"}, path...), wrong)} {
				code, out, errOut := quorate(t, "", args...)
				require.Equal(t, exitUsage, code, "%v: %s", args, errOut)
				require.Contains(t, errOut, "Did you mean "+sub.Name()+"?", "%v", args)
				require.Empty(t, out, "%v", args)
			}
			visit(sub, append(slices.Clone(path), sub.Name()))
		}
		code, out, _ := quorate(t, "", append([]string{"help"}, path...)...)
		require.Zero(t, code)
		require.Contains(t, out, "Available Commands:")
	}
	visit(newRoot(io.Discard), nil)
	require.GreaterOrEqual(t, groups, 6)
}

// The help of commands that read a configuration shows its flags in groups, and shells complete their values.
func TestSettingsInHelp(t *testing.T) {
	for _, command := range [][]string{{"serve"}, {"doctor"}, {"config", "check"}} {
		code, out, _ := quorate(t, "", append(command, "--help")...)
		require.Zero(t, code)
		for _, text := range []string{"\nNetworks:\n", "\nListeners:\n", "\nStorage:\n", "\nLimits:\n", "\nFlags:\n", "[QUORATE_LISTEN]", `"127.0.0.1:8080"`, "--help"} {
			require.Contains(t, out, text, "%v", command)
		}
		code, out, _ = quorate(t, "", append(append([]string{"__complete"}, command...), "--role", "")...)
		require.Zero(t, code)
		require.Equal(t, "all\napi\ningest\nsign\n:4\n", out)
	}
}

func TestExitCodes(t *testing.T) {
	for _, test := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"version"}, exitOK, ""},
		{[]string{"nonsense"}, exitUsage, "--help"},
		{[]string{"serve", "--nonsense"}, exitUsage, "--help"},
		{[]string{"serve"}, exitUsage, "quorate serve --network"},
		{[]string{"serve", "--listen", "8080"}, exitUsage, "listen"},
		{[]string{"sign", "00"}, exitUsage, "--server"},
		{[]string{"sign", "--node", "http://127.0.0.1:1", "zz"}, exitUsage, "hex"},
		{[]string{"sign", "--node", "http://127.0.0.1:1", "--signing-subnet", "x", "00"}, exitUsage, "Warp"},
		{[]string{"sign", "--server", "http://127.0.0.1:1", "00"}, exitFailed, "server"},
		{[]string{"sign", "--server", "http://127.0.0.1:1", "--quorum", "0", "00"}, exitUsage, "at least 1"},
		{[]string{"index", "status", "--server", "localhost:8081"}, exitUsage, "http://"},
		{[]string{"measure", "--node", "http://127.0.0.1:1", "--chain", "c-chain"}, exitFailed, "127.0.0.1:1"},
		{[]string{"serve", "--network", "fuji=http://127.0.0.1:1", "--request-timeout", "5"}, exitUsage, `"5" is not a duration such as 15s`},
		{[]string{"verify", "00"}, exitUsage, "--node"},
		{[]string{"sign"}, exitUsage, "--tx"},
		{[]string{"sign", "--server", "http://127.0.0.1:1", "--tx", "0x00", "00"}, exitUsage, "exactly one"},
		{[]string{"sign", "--server", "http://127.0.0.1:1", "--tx", "nonsense"}, exitUsage, "64 hex digits"},
		{[]string{"sign", "--server", "http://127.0.0.1:1", "--tx", "0xabcd"}, exitUsage, "--tx"},
		{[]string{"sign", "--server", "http://127.0.0.1:1", "--quorum", "80", "--tx", ids.ID{1}.String()}, exitUsage, "--node"},
		{[]string{"sign", "--node", "http://127.0.0.1:1", "--justification", "00", "--tx", ids.ID{1}.String()}, exitUsage, "--justification"},
		{[]string{"sign", "--node", "http://127.0.0.1:1", "--quorum", "101", "--tx", ids.ID{1}.String()}, exitUsage, "--quorum"},
		{[]string{"sign", "--node", "http://127.0.0.1:1", "--buffer", "18446744073709551614", "--tx", ids.ID{1}.String()}, exitUsage, "--buffer"},
		{[]string{"sign", "--tx", ids.ID{1}.String()}, exitUsage, "--server"},
		{[]string{"sign", "--server", "http://127.0.0.1:1", "--tx", ids.ID{1}.String()}, exitFailed, "server"},
		{[]string{"verify", "--node", "http://127.0.0.1:1", "00"}, exitUsage, "signed Warp message"},
		{[]string{"verify", "--node", "http://127.0.0.1:1", "@/does/not/exist"}, exitUsage, "reading"},
		{[]string{"keys", "revok"}, exitUsage, "Did you mean revoke?"},
		{[]string{"config", "chekc"}, exitUsage, "Did you mean check?"},
		{[]string{"serve", "--netwrk", "x"}, exitUsage, "Did you mean --network?"},
		{[]string{"version", "x"}, exitUsage, "takes none"},
		{[]string{"keys", "add"}, exitUsage, "NAME is missing: quorate keys add NAME"},
		{[]string{"verify", "a", "b"}, exitUsage, "takes one, SIGNED_MESSAGE"},
		{[]string{"nonsense"}, exitUsage, "unknown command"},
		{[]string{"measure"}, exitUsage, "--node"},
		{[]string{"measure", "--node", "http://127.0.0.1:1", "extra"}, exitUsage, `"extra"`},
		{[]string{"measure", "--node", "http://127.0.0.1:1", "--rate", "2"}, exitUsage, "30/m"},
		{[]string{"measure", "--node", "http://127.0.0.1:1", "--rate", "NaN/s"}, exitUsage, "--rate"},
		{[]string{"measure", "--node", "http://127.0.0.1:1", "--rate", "21/s"}, exitUsage, "50ms"},
		{[]string{"measure", "--node", "http://127.0.0.1:1", "--rounds", "0"}, exitUsage, "rounds"},
		{[]string{"measure", "--node", "http://127.0.0.1:1", "--timeout", "11s"}, exitUsage, "timeout"},
		{[]string{"measure", "--node", "http://127.0.0.1:1", "--chain", "D"}, exitUsage, "--chain"},
		{[]string{"measure", "--node", "http://127.0.0.1:1", "--subnet", "D"}, exitUsage, "--subnet"},
		{[]string{"measure", "--node", "http://127.0.0.1:1", "--limit", "-1"}, exitUsage, "--limit"},
		{[]string{"measure", "--node", "http://127.0.0.1:1", "--csv", "/does/not/exist.csv"}, exitUsage, "no folder"},
		{[]string{"measure", "--compare", "a"}, exitUsage, "two files"},
		{[]string{"measure", "--compare", "/does/not/exist", "b"}, exitUsage, "--save"},
		{[]string{"dev", "--validators", "0"}, exitUsage, "--validators"},
		{[]string{"dev", "--faults", "2"}, exitUsage, "--faults"},
	} {
		code, _, errOut := quorate(t, "", test.args...)
		require.Equal(t, test.code, code, "%v: %s", test.args, errOut)
		require.Contains(t, errOut, test.want, "%v", test.args)
	}
}

func loadWith(t *testing.T, file string, environ []string, args ...string) (config.Config, error) {
	t.Helper()
	var c config.Config
	var err error
	cmd := &cobra.Command{Use: "serve", RunE: func(cmd *cobra.Command, _ []string) error {
		c, err = load(cmd, environ)
		return nil
	}}
	config.AddFlags(cmd.Flags())
	if file != "" {
		path := filepath.Join(t.TempDir(), "quorate.yaml")
		require.NoError(t, os.WriteFile(path, []byte(file), 0o600))
		args = append(args, "--config", path)
	}
	cmd.SetArgs(args)
	require.NoError(t, cmd.Execute())
	return c, err
}

// lines lets a test read what a running command prints.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// freeAddress returns an address for listeners of this test alone.
func freeAddress(t *testing.T) string {
	t.Helper()
	port, err := testenv.FreePort()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, port.Close()) })
	return port.Address()
}

// startDev runs quorate dev until the test ends and returns its URL and what it has printed.
func startDev(t *testing.T) (base, printed string) {
	t.Helper()
	return startDevBy(t, func(ctx context.Context, args []string, out, errOut io.Writer) int {
		return run(ctx, args, strings.NewReader(""), out, errOut)
	})
}

// startDevBy starts quorate dev by a function that runs commands.
func startDevBy(t *testing.T, run func(ctx context.Context, args []string, out, errOut io.Writer) int) (base, printed string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var out, errOut lines
	done := make(chan int, 1)
	listen := freeAddress(t)
	go func() {
		done <- run(ctx, []string{"dev", "--listen", listen, "--private-listen", freeAddress(t), "--validators", "10"}, &out, &errOut)
	}()
	t.Cleanup(func() {
		cancel()
		select {
		case code := <-done:
			assert.Zero(t, code, "%s", &errOut)
		case <-time.After(5 * time.Minute):
			t.Error("dev does not stop")
		}
	})
	require.Eventually(t, func() bool { return strings.Contains(out.String(), "Ctrl-C") }, 5*time.Minute, 20*time.Millisecond, "%s%s", &out, &errOut)
	return "http://" + listen, out.String()
}

// TestDevSignsAndStops checks that dev signs the message that it shows, and that the lines that it prints work.
func TestDevSignsAndStops(t *testing.T) {
	base, printed := startDev(t)
	require.Contains(t, printed, "signed and verified")
	require.Contains(t, printed, "served as local on "+base)
	body := regexp.MustCompile(`-d '(.*)'`).FindStringSubmatch(printed)[1]
	for _, name := range []string{"local", "fuji", "testnet"} {
		response, err := http.Post(base+"/v1/signatureAggregator/"+name+"/aggregateSignatures", "application/json", strings.NewReader(body))
		require.NoError(t, err)
		answer, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		require.Equal(t, http.StatusOK, response.StatusCode, "%s: %s", name, answer)
	}
	examples := regexp.MustCompile(`(?m)^  curl -s '(.*)'$`).FindAllStringSubmatch(printed, -1)
	require.Len(t, examples, 3)
	for _, example := range examples {
		awaitOK(t, example[1])
	}

	// A second one finds the address taken and says so.
	code, _, second := quorate(t, "", "dev", "--listen", strings.TrimPrefix(base, "http://"))
	require.Equal(t, exitFailed, code)
	require.Contains(t, second, "--listen")
}

// A dev that is interrupted while it starts removes its folder once the store has ended. Before, the store was still being
// opened in it.
func TestDevInterruptedLeavesNoFolder(t *testing.T) {
	folder := t.TempDir()
	t.Setenv("TMPDIR", folder)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var errOut lines
	code := run(ctx, []string{"dev", "--listen", "127.0.0.1:0", "--private-listen", "127.0.0.1:0", "--validators", "1", "--history", "0"}, strings.NewReader(""), &lines{}, &errOut)
	require.Contains(t, []int{exitOK, exitFailed}, code, errOut.String()) // failed if the store was not open yet
	stacks := make([]byte, 4<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	require.False(t, strings.Contains(string(stacks), "quorate/internal/store.PebbleOptions.open("), "the store is still being opened")
	left, err := os.ReadDir(folder)
	require.NoError(t, err)
	require.Empty(t, left)
}

// TestDevWithOfficialClient points the official client at dev, as dev says.
func TestDevWithOfficialClient(t *testing.T) {
	official := chainkit.Install(t)
	base, printed := startDev(t)
	said := regexp.MustCompile(`server URL (\S+), network (\S+)\n`).FindStringSubmatch(printed)
	require.Equal(t, base, said[1])
	owner := regexp.MustCompile(`p-chain/balances\?addresses=(\S+)'`).FindStringSubmatch(printed)[1]
	awaitOK(t, base+"/v1/networks/local/blockchains/p-chain/balances?addresses="+owner)
	message := regexp.MustCompile(`"message":"(\w+)"`).FindStringSubmatch(printed)[1]
	results := official.Run(t, said[1], []chainkit.Call{
		{Name: "signatures", Path: "data.signatureAggregator.aggregate", Request: map[string]any{"network": said[2], "signatureAggregatorRequest": map[string]any{"message": message}}},
		{Name: "balances", Path: "data.primaryNetwork.balances.listByAddresses", Request: map[string]any{"network": said[2], "blockchainId": "p-chain", "addresses": owner}},
	})
	for _, r := range results {
		require.Nil(t, r.Error, "%s: %+v", r.Name, r.Error)
	}
	require.Contains(t, fmt.Sprint(results[1].Pages), "network:fuji", "the client accepts no other name")
}

// awaitOK waits until a URL answers with status 200: the index may still catch up.
func awaitOK(t *testing.T, url string) {
	t.Helper()
	var last string
	require.Eventually(t, func() bool {
		response, err := http.Get(url)
		if err != nil {
			return false
		}
		defer func() { _ = response.Body.Close() }()
		content, err := io.ReadAll(response.Body)
		last = string(content)
		return err == nil && response.StatusCode == http.StatusOK
	}, 2*time.Minute, 50*time.Millisecond, "%s: %s", url, &last)
}

func TestSignAndVerify(t *testing.T) {
	n, err := simnet.Start(simnet.Options{Seed: 3, Validators: 6})
	require.NoError(t, err)
	defer n.Close()
	message := hex.EncodeToString(n.Message([]byte("by hand")).Bytes())
	node := []string{"--node", n.NodeURL()}

	code, signed, errOut := quorate(t, message, append([]string{"sign", "--allow-private-ips", "-"}, node...)...)
	require.Zero(t, code, errOut)
	require.Contains(t, errOut, "signed by 5 validators")

	// The data of the log that the Warp precompile writes: offset, length, padding.
	log := fmt.Sprintf("0x%064x%064x%s%s", 32, len(message)/2, message, strings.Repeat("0", (64-len(message)%64)%64))
	code, fromLog, errOut := quorate(t, "", append([]string{"sign", "--allow-private-ips", log}, node...)...)
	require.Zero(t, code, errOut)
	require.True(t, strings.HasPrefix(fromLog, message), "got %s, want a signed %s", fromLog, message)

	code, out, errOut := quorate(t, signed, append([]string{"verify", "-v", "-"}, node...)...)
	require.Zero(t, code, errOut)
	require.True(t, strings.HasPrefix(out, "valid\n"), out)
	require.Equal(t, 5, strings.Count(out, "NodeID-"))

	code, out, _ = quorate(t, signed, append([]string{"verify", "--json", "--quorum", "90", "-"}, node...)...)
	require.Equal(t, exitNegative, code)
	var verdict struct {
		Valid  bool
		Reason string
	}
	require.NoError(t, json.Unmarshal([]byte(out), &verdict))
	require.False(t, verdict.Valid)
	require.Contains(t, verdict.Reason, "insufficient")

	tampered := []byte(strings.TrimSpace(signed))
	tampered[100] ^= 1 // a digit of the payload
	code, _, errOut = quorate(t, string(tampered), append([]string{"verify", "-"}, node...)...)
	require.Equal(t, exitNegative, code)
	require.Contains(t, errOut, "not valid")

	code, _, errOut = quorate(t, message, append([]string{"verify", "-"}, node...)...)
	require.Equal(t, exitUsage, code)
	require.Contains(t, errOut, "quorate sign")

	for _, test := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"--destination", "c-chain"}, exitOK, "deliverable\n"},
		{[]string{"--destination", "c-chain", "--json"}, exitOK, `"code":"DELIVERABLE"`},
		{[]string{"--destination-rpc", n.NodeURL() + "/ext/bc/C/rpc", "--destination", "c-chain"}, exitOK, "deliverable\n"},
		{[]string{"--destination", "p-chain"}, exitNegative, "PAYLOAD_NOT_SUPPORTED"},
		{[]string{"--destination", ids.ID{7}.String()}, exitUsage, "--destination-rpc"},
		{[]string{"--destination", "nonsense"}, exitUsage, "blockchain ID"},
		{[]string{"--destination", "c-chain", "--quorum", "80"}, exitUsage, "--quorum"},
		{[]string{"--destination-rpc", n.NodeURL()}, exitUsage, "/ext/bc/BLOCKCHAIN_ID/rpc"},
		{[]string{"--destination-rpc", "nonsense"}, exitUsage, "--destination-rpc"},
	} {
		code, out, errOut := quorate(t, signed, slices.Concat([]string{"verify", "-"}, node, test.args)...)
		require.Equal(t, test.code, code, "%v: %s", test.args, errOut)
		require.Contains(t, out+errOut, test.want, "%v", test.args)
	}

	for _, v := range n.Validators()[:3] {
		require.NoError(t, v.SetBehaviour(simnet.Refusing))
		v.SetRefusal(-2, "unregistered handler")
	}
	other := hex.EncodeToString(n.Message([]byte("refused")).Bytes())
	code, _, errOut = quorate(t, other, append([]string{"sign", "--allow-private-ips", "-"}, node...)...)
	require.Equal(t, exitNegative, code, errOut)
	require.Contains(t, errOut, "unregistered handler")
	require.Regexp(t, `(?m)^ +\d+\.\d\d%  PAYLOAD_REFUSED: do not sign this kind of message \(unregistered handler \(code -2\)\), NodeID-\w+( and \d more)?$`, errOut)
	require.Contains(t, errOut, aggregator.ReasonPayloadRefused.Remedy())
}

// TestSignWaitsForValidators has validators appear after the network was joined.
func TestSignWaitsForValidators(t *testing.T) {
	n, err := simnet.Start(simnet.Options{Seed: 3, Validators: 6})
	require.NoError(t, err)
	defer n.Close()
	for _, v := range n.Validators() {
		v.Stop()
	}
	appear := time.AfterFunc(3*time.Second, func() {
		for _, v := range n.Validators() {
			assert.NoError(t, v.Start())
		}
	})
	defer appear.Stop()
	message := hex.EncodeToString(n.Message([]byte("early")).Bytes())
	code, _, errOut := quorate(t, message, "sign", "--allow-private-ips", "--node", n.NodeURL(), "-")
	require.Zero(t, code, errOut)
}

func TestServeTwoNetworks(t *testing.T) {
	a, err := simnet.Start(simnet.Options{Seed: 4, NetworkID: 50001})
	require.NoError(t, err)
	defer a.Close()
	b, err := simnet.Start(simnet.Options{Seed: 5, NetworkID: 50002})
	require.NoError(t, err)
	defer b.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	listen := freeAddress(t)
	var out, errOut lines
	done := make(chan int)
	go func() {
		done <- run(ctx, []string{
			"serve", "--listen", listen, "--private-listen", freeAddress(t), "--data-dir", t.TempDir(), "--allow-private-ips",
			"--network", "one=" + a.NodeURL(), "--network", "two=" + b.NodeURL(),
		}, strings.NewReader(""), &out, &errOut)
	}()
	require.Eventually(t, func() bool {
		response, err := http.Get("http://" + listen + "/health")
		if err != nil {
			return false
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		return err == nil && response.StatusCode == http.StatusOK && !strings.Contains(string(body), "down")
	}, 5*time.Minute, 20*time.Millisecond, "%s", &errOut)
	for name, n := range map[string]*simnet.Network{"one": a, "two": b} {
		code, _, errOut := quorate(t, "", "sign", "--server", "http://"+listen, "--network", name, fmt.Sprintf("%x", n.Message([]byte(name)).Bytes()))
		require.Zero(t, code, errOut)
	}
	requireMistakesAreTheClients(t, "http://"+listen+"/v1/signatureAggregator/one/aggregateSignatures", a)
	code, _, wrong := quorate(t, "", "sign", "--server", "http://"+listen, "--network", "one", fmt.Sprintf("%x", b.Message(nil).Bytes()))
	require.Equal(t, exitUsage, code)
	require.Contains(t, wrong, "50002")
	cancel()
	require.Zero(t, <-done, "%s", &errOut)
}

// Mistakes that only the network can detect are the client's, too, and name the argument.
func requireMistakesAreTheClients(t *testing.T, url string, n *simnet.Network) {
	t.Helper()
	good := hex.EncodeToString(n.Message([]byte("good")).Bytes())
	foreign := hex.EncodeToString(n.MessageFrom(ids.ID{77}, []byte("good")).Bytes())
	unknown := ids.ID{78}.String()
	for name, test := range map[string]struct {
		body string
		code string
		want string
	}{
		"height in the future":         {`{"message":"` + good + `","pChainHeight":1000}`, "P_CHAIN_HEIGHT_UNAVAILABLE", "pChainHeight"},
		"greatest height":              {`{"message":"` + good + `","pChainHeight":18446744073709551614}`, "P_CHAIN_HEIGHT_UNAVAILABLE", "pChainHeight"},
		"unknown subnet":               {`{"message":"` + good + `","signingSubnetId":"` + unknown + `"}`, "UNKNOWN_SUBNET", "signingSubnetId"},
		"unknown source chain":         {`{"message":"` + foreign + `"}`, "UNKNOWN_SOURCE_BLOCKCHAIN", "message"},
		"unknown verifying blockchain": {`{"message":"` + good + `","verifyingBlockchainId":"` + unknown + `"}`, "UNKNOWN_SOURCE_BLOCKCHAIN", "verifyingBlockchainId"},
		"another network's message":    {`{"message":"` + hex.EncodeToString(append([]byte{0, 0, 0, 0, 0, 5}, n.Message(nil).Bytes()[6:]...)) + `"}`, "", "message"},
		"1 MiB":                        {`{"message":"` + strings.Repeat("0", 1<<20) + `"}`, "", "body"},
	} {
		response, err := http.Post(url, "application/json", strings.NewReader(test.body))
		require.NoError(t, err)
		var body struct {
			Message    string
			StatusCode int
			Error      string
			Code       string
		}
		require.NoError(t, json.NewDecoder(response.Body).Decode(&body), name)
		require.NoError(t, response.Body.Close())
		require.Equal(t, http.StatusBadRequest, response.StatusCode, "%s: %+v", name, body)
		require.Equal(t, http.StatusBadRequest, body.StatusCode, name)
		require.Equal(t, "Bad Request", body.Error, name)
		require.Equal(t, test.code, body.Code, name)
		require.Contains(t, body.Message, test.want, name)
	}
}
