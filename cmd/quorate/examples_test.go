package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"quorate/internal/store/storetest/pgserver"
	"quorate/internal/testenv"
)

// block is a code block of a page or of a help text.
type block struct {
	name           string // file or command, and line
	language, text string
	marker         string // the comment in front of it
}

// reasons lists the beginnings of markers of blocks that are not run.
var reasons = []string{"not run: public network", "not run: needs "}

// markdownBlocks returns the fenced and the indented blocks of a page. Indented ones are shell commands.
func markdownBlocks(t *testing.T, file string) (blocks []block) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, file))
	require.NoError(t, err)
	var current *block
	fenced, blank, marker := false, true, ""
	end := func() {
		if current != nil {
			blocks, current = append(blocks, *current), nil
		}
	}
	for i, line := range strings.Split(string(text), "\n") {
		name := fmt.Sprintf("%s:%d", file, i+1)
		fence, isFence := strings.CutPrefix(line, "```")
		comment := regexp.MustCompile(`^<!-- (.*) -->$`).FindStringSubmatch(line)
		switch {
		case isFence && fenced:
			fenced = false
			end()
		case isFence:
			end()
			fenced, current, marker = true, &block{name: name, language: fence, marker: marker}, ""
		case fenced:
			current.text += line + "\n"
		case strings.HasPrefix(line, "    ") && (current != nil || blank):
			if current == nil {
				current, marker = &block{name: name, language: "sh", marker: marker}, ""
			}
			current.text += line[4:] + "\n"
		case strings.TrimSpace(line) == "":
			end()
			blank = true
			continue
		case comment != nil:
			end()
			marker = comment[1]
		default:
			end()
			marker = ""
		}
		blank = false
	}
	end()
	require.False(t, fenced, "%s: a fence is not closed", file)
	return blocks
}

// helpBlocks returns the indented lines of the help of cmd and of all commands below it.
func helpBlocks(cmd *cobra.Command) (blocks []block) {
	var current *block
	for i, line := range strings.Split(cmd.Long+"\n"+cmd.Example, "\n") {
		switch {
		case !strings.HasPrefix(line, "  "):
			current = nil
		case current == nil:
			blocks = append(blocks, block{name: fmt.Sprintf("%s --help:%d", cmd.CommandPath(), i+1), language: "sh"})
			current = &blocks[len(blocks)-1]
			fallthrough
		default:
			current.text += line[2:] + "\n"
		}
	}
	for _, sub := range cmd.Commands() {
		blocks = append(blocks, helpBlocks(sub)...)
	}
	return blocks
}

// TestExamples runs each code block of the documentation and each example of a help text against quorate dev.
func TestExamples(t *testing.T) {
	if testing.Short() {
		t.Skip("takes about a minute")
	}
	testenv.Program(t, "jq", "jq")
	testenv.Program(t, "curl", "curl")
	pages := []string{"README.md", "CONTRIBUTING.md"}
	more, err := filepath.Glob(root + "/docs/*.md")
	require.NoError(t, err)
	for _, file := range more {
		pages = append(pages, "docs/"+filepath.Base(file))
	}
	e := newExamples(t)
	run := 0
	t.Run("help", func(t *testing.T) { run += e.page(t, helpBlocks(newRoot(io.Discard))) })
	for _, file := range pages {
		t.Run(file, func(t *testing.T) { run += e.page(t, markdownBlocks(t, file)) })
	}
	require.Greater(t, run, 60, "blocks are missed")
}

// page runs the blocks of a page in one folder, in their order.
func (e *examples) page(t *testing.T, blocks []block) (ran int) {
	dir := t.TempDir()
	if slices.ContainsFunc(blocks, func(b block) bool { return strings.Contains(b.text, "quorate ") }) {
		e.serveOnce(t, dir)
	}
	var goCode []string
	var printed string // by the block before
	for _, b := range blocks {
		output := ""
		t.Run(b.name, func(t *testing.T) {
			if b.marker != "" {
				for _, reason := range reasons {
					if rest, ok := strings.CutPrefix(b.marker, reason); ok && (rest != "") == strings.HasSuffix(reason, " ") {
						return
					}
				}
			}
			switch b.language {
			case "text": // output
			case "sh":
				output = e.shell(t, dir, b.text)
			case "json":
				requireShape(t, b.text, printed)
			case "yaml":
				requireConfiguration(t, b.text)
			case "go":
				goCode = append(goCode, b.text)
			default:
				t.Errorf("nothing runs blocks in %q; the languages are sh, json, yaml, go, and text for output", b.language)
			}
			ran++
		})
		printed = output
	}
	if len(goCode) > 0 {
		t.Run("go", func(t *testing.T) { requireCompiles(t, goCode) })
	}
	return ran
}

// requireShape fails unless a document is JSON, and has only keys that the command before it printed, if it printed JSON.
func requireShape(t *testing.T, document, printed string) {
	t.Helper()
	var want, got any
	require.NoError(t, json.Unmarshal([]byte(document), &want))
	if json.Unmarshal([]byte(printed), &got) == nil {
		requireKeys(t, "", want, got)
	}
}

func requireKeys(t *testing.T, path string, want, got any) {
	t.Helper()
	switch want := want.(type) {
	case map[string]any:
		object, ok := got.(map[string]any)
		require.True(t, ok, "%s is %v", path, got)
		for key, value := range want {
			if key == "error" && path != "" { // instead of a result
				continue
			}
			require.Contains(t, object, key, "%s", path)
			requireKeys(t, path+"."+key, value, object[key])
		}
	case []any:
		list, ok := got.([]any)
		require.True(t, ok && len(list) > 0, "%s is %v", path, got)
		requireKeys(t, path+"[0]", want[0], list[0])
	default:
		require.IsType(t, want, got, "%s", path)
	}
}

// requireConfiguration fails unless a part of a configuration is valid in one with a network.
func requireConfiguration(t *testing.T, text string) {
	t.Helper()
	whole := map[string]any{"networks": map[string]any{"fuji": map[string]any{"nodes": []string{"http://127.0.0.1:9650"}}}}
	require.NoError(t, yaml.Unmarshal([]byte(text), &whole))
	content, err := yaml.Marshal(whole)
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "quorate.yaml")
	require.NoError(t, os.WriteFile(file, content, 0o600))
	code, out, errOut := quorate(t, "", "config", "check", "--config", file)
	require.Zero(t, code, "%s%s", out, errOut)
}

// given declares what the Go blocks of pages use without declaring it.
const given = `package example

import (
	"context"
	"errors"
	"fmt"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/logging"
	"github.com/ava-labs/avalanchego/snow/validators"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp"

	"quorate/client"
)

func example(ctx context.Context, key, cursor string, unsigned *warp.UnsignedMessage, destination, subnetID ids.ID,
	store func(string) error, networkID uint32, set validators.WarpSet) error {
`

// requireCompiles compiles the Go blocks of a page as one function. Each block sees what those before it declare.
func requireCompiles(t *testing.T, code []string) {
	t.Helper()
	source := given
	for _, c := range code {
		source += "{\n" + c
	}
	source += strings.Repeat("}\n", len(code)) + "return nil\n}\n"
	dir := t.TempDir()
	file, overlay := filepath.Join(dir, "example.go"), filepath.Join(dir, "overlay.json")
	require.NoError(t, os.WriteFile(file, []byte(source), 0o600))
	whole, err := filepath.Abs(filepath.Join(root, "client", "example", "page", "example.go"))
	require.NoError(t, err)
	content, err := json.Marshal(map[string]any{"Replace": map[string]string{whole: file}})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(overlay, content, 0o600))
	build := exec.Command("go", "build", "-gcflags=-e", "-overlay", overlay, "./client/example/page")
	build.Dir = root
	out, _ := build.CombinedOutput()
	for line := range strings.Lines(string(out)) {
		if !strings.HasPrefix(line, "#") && !strings.Contains(line, "declared and not used") && !strings.Contains(line, "imported and not used") {
			t.Errorf("%s\nin\n%s", out, source)
			return
		}
	}
}

// examples runs shell commands of the documentation.
type examples struct {
	bin                 string // folder of the programs that commands call
	base, private, node string // of quorate dev
	message             string
	runs                int
	values              []string // pairs of what a page says and what it stands for here
	postgres            func(t *testing.T) (primary, standby string)
}

func newExamples(t *testing.T) *examples {
	// With the race detector the commands would take several times as long.
	program := filepath.Join(t.TempDir(), "quorate")
	built, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput()
	require.NoError(t, err, "%s", built)
	base, printed := startDevBy(t, func(ctx context.Context, args []string, out, errOut io.Writer) int {
		dev := exec.CommandContext(ctx, program, args...)
		dev.Stdout, dev.Stderr = out, errOut
		dev.Cancel = func() error { return dev.Process.Signal(os.Interrupt) }
		_ = dev.Run() // the exit code is asserted
		return dev.ProcessState.ExitCode()
	})
	find := func(pattern string) string {
		found := regexp.MustCompile(pattern).FindStringSubmatch(printed)
		require.NotNil(t, found, "%s in %s", pattern, printed)
		return found[1]
	}
	e := &examples{
		bin: t.TempDir(), base: base, private: find(`Health and metrics: (\S+)/readyz`), node: find(`Upstream node: (\S+)`), message: find(`"message":"0x(\w+)"`),
	}
	awaitOK(t, find(`curl -s '(.*/v1/chains/.*)'`))
	awaitOK(t, find(`curl -s '(.*/p-chain/balances.*)'`))
	var list struct {
		Transactions []struct{ TxHash string }
		Messages     []struct {
			SourceEvmChainID, SourceBlockchainID string
			SourceTransaction                    struct{ TxHash string }
		}
	}
	status := getJSON(t, base+"/v1/networks/local/blockchains/p-chain/transactions?pageSize=1&txTypes=ConvertSubnetToL1Tx", &list)
	require.Equal(t, http.StatusOK, status)
	require.NotEmpty(t, list.Transactions)
	status = getJSON(t, base+"/v1/icm/messages?pageSize=100&network=local", &list)
	require.Equal(t, http.StatusOK, status)
	var hash, chain string
	for _, m := range list.Messages {
		if m.SourceEvmChainID == devEVM {
			hash, chain = m.SourceTransaction.TxHash, m.SourceBlockchainID
		}
	}
	require.NotEmpty(t, hash, "no message was sent on chain %s", devEVM)
	e.values = []string{
		"http://127.0.0.1:8080", base, "http://127.0.0.1:8081", e.private, "http://127.0.0.1:9650", e.node,
		// The EVM chain of dev is an L1; its C-Chain has no EVM transactions.
		"blockchains/c-chain/transactions/", "blockchains/" + devEVM + "/transactions/", "--network fuji --tx TX_HASH", "--network fuji --chain " + devEVM + " --tx " + hash,
		`"chainId": "43114"`, `"chainId": "` + devEVM + `"`, `"network": "mainnet"`, `"network": "fuji"`,
		"https://example.org/ext", e.node + "/ext", "https://host/ext", e.node + "/ext", ",postgres://quorate@standby2/quorate", "",
		"index verify --network fuji", "index verify --network local", "--validators 1000", "--validators 100", "--history 100000", "--history 4000",
		"SIGNED_MESSAGE", "$(cat signed.hex)", "LOG_DATA", "0x" + e.message, "MESSAGE", "0x" + e.message,
		"P_CHAIN_TX", list.Transactions[0].TxHash, "TX_HASH", hash, "P_CHAIN_ADDRESS", find(`addresses=(\S+)'`),
		"BLOCKCHAIN_ID", chain, "SUBNET_ID", "11111111111111111111111111111111LpoYY",
		"keys add NAME", "keys add explorer", "keys revoke NAME", "keys revoke explorer", "CLASS", "partner",
		"--to /var/lib/quorate", "--to $HOME/empty", "/var/lib/quorate", "$HOME/var", "/usr/local/share/man/man1", "$HOME/man1",
		// The program is built already.
		"go build -o quorate ./cmd/quorate", `ln -s "$(command -v quorate)" quorate`, "go run ./cmd/quorate", "quorate",
	}
	e.postgres = startServers(t)
	repository, err := filepath.Abs(root)
	require.NoError(t, err)
	for name, script := range programs {
		script = "#!/bin/bash\n" + strings.NewReplacer("@program@", program, "@repository@", repository, "@listen@", freeAddress(t), "@private@", freeAddress(t),
			"@server@", e.private).Replace(script)
		require.NoError(t, os.WriteFile(filepath.Join(e.bin, name), []byte(script), 0o700)) //nolint:gosec // a program
	}
	return e
}

// startServers returns a function that starts a PostgreSQL server and a standby when it is first called, and returns the
// URLs of an empty database.
func startServers(t *testing.T) func(*testing.T) (primary, standby string) {
	var server, standby *pgserver.Server
	closed := func(s *pgserver.Server) { t.Cleanup(func() { require.NoError(t, s.Close()) }) }
	return func(sub *testing.T) (string, string) {
		var err error
		if server == nil {
			if server, err = pgserver.Start(); err != nil {
				testenv.Missing(sub, err.Error())
			}
			closed(server)
			standby, err = server.Standby()
			require.NoError(sub, err)
			closed(standby)
		}
		place, err := server.Place(sub.Context())
		require.NoError(sub, err)
		u, err := url.Parse(place)
		require.NoError(sub, err)
		return place, pgserver.In(standby.URL(), u.Query().Get("search_path"))
	}
}

// devEVM is the ID of the EVM chain of quorate dev.
const devEVM = "99001"

// programs are called by the commands in place of those in PATH.
var programs = map[string]string{
	// serve and dev end as soon as they can sign. Other commands get the addresses of quorate dev in place of the default ones.
	"quorate": `case "$*" in
serve*|dev*)
  set -m
  if [ "$1" = serve ]; then set -- "$@" --allow-private-ips; fi
  set -- "$@" --listen @listen@ --private-listen @private@
  @program@ "$@" &
  trap "kill -INT $!" EXIT
  for _ in $(seq 300); do
    if PATH=${PATH#*:} curl -fs http://@listen@/health >&2; then kill -INT $!; wait $!; code=$?; trap - EXIT; exit $code; fi
    kill -0 $! || break
    sleep 0.1
  done
  exit 9 ;;
health) exec @program@ health --server @server@ ;;
measure*--compare*) exec @program@ "$@" ;;
measure*) exec @program@ "$@" --allow-private-ips --rounds 4 --rate 10/s ;; # more take minutes
sign*--node*|doctor*) exec @program@ "$@" --allow-private-ips ;;
"index verify"*)
  # The simulated node does not offer platform.getUTXOs, so the command reports with code 3 that it cannot compare balances.
  case "$*" in *--config*) ;; *) set -- "$@" --server @server@ ;; esac
  @program@ "$@" || [ $? = 3 ] ;;
verify*--destination-rpc*) @program@ "$@" || [ $? = 3 ] ;; # the chain of dev has no Warp precompile to verify with
"index rebuild"*)
  # One at a time, and it can be cancelled before it has finished only.
  until out=$(@program@ "$@" --server @server@ 2>&1); do
    case "$out" in *--cancel*|*"no rebuild"*) break ;; *"under way"*) sleep 0.2 ;; *) echo "$out" >&2; exit 1 ;; esac
  done
  echo "$out" ;;
index*) exec @program@ "$@" --server @server@ ;;
checkpoint*) @program@ "$@" --help >/dev/null ;; # dev has a node; e2e exports from a service without one
"keys revoke"*) @program@ keys add "$3" >/dev/null 2>&1; exec @program@ "$@" ;;
*) exec @program@ "$@" ;;
esac
`,
	"curl": `PATH=${PATH#*:}
case " $* " in
*" -N "*) # a stream: a message is signed meanwhile, and one event read
  (sleep 1; curl -s -H 'Content-Type: application/json' -d '{"message": "'$NEW_MESSAGE'"}' "$BASE/v1/signatureAggregator/fuji/aggregateSignatures" >/dev/null) &
  curl -sS --max-time 20 "$@" | sed -n '/^data:/{p;q}' | grep data ;;
*) exec curl -sS --fail-with-body --max-time 30 "$@" ;;
esac
`,
	// The targets exist. What they run is tested by running the tests.
	"make": `PATH=${PATH#*:} exec make -C @repository@ --dry-run "$@" >/dev/null
`,
	// The tests and benchmarks exist, and the latter have the flags. They take minutes, and write what they print to the pages.
	"go": `cd @repository@
case "$1 $2" in
"test ./"*) grep -q "^func $4(" "$2"/*_test.go ;;
"-C bench")
  dir=$4; shift 4
  for flag; do
    case "$flag" in -*) flag=${flag#-}; grep -qE "\"${flag%%=*}\"" -r bench --include=*.go || { echo "bench/$dir has no flag $flag" >&2; exit 1; } ;; esac
  done ;;
*) echo "go $* is not known here" >&2; exit 1 ;;
esac
`,
}

// serveOnce makes the data folder of a service below home, and a copy of it.
func (e *examples) serveOnce(t *testing.T, dir string) {
	t.Helper()
	e.shell(t, dir, "quorate sign --server http://127.0.0.1:8080 --network fuji MESSAGE > signed.hex\nquorate serve --config quorate.yaml\ncp -r ~/.quorate ~/var")
}

// files writes the files that commands name, and removes the API keys of earlier blocks.
func (e *examples) files(t *testing.T, dir string) {
	t.Helper()
	if err := os.Remove(filepath.Join(dir, "home", ".quorate", "keys.json")); err != nil {
		require.ErrorIs(t, err, os.ErrNotExist)
	}
	for name, content := range map[string]string{
		"message.hex":  e.message,
		"quorate.yaml": "networks:\n  fuji:\n    nodes: [" + e.node + "]\n    allow_private_ips: true\n    record: primary\nrate_classes:\n  partner: {per_second: 200, burst: 1000}\n",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
}

// shell runs commands and returns what they print.
func (e *examples) shell(t *testing.T, dir, commands string) string {
	t.Helper()
	commands = strings.NewReplacer(e.values...).Replace(commands)
	if strings.Contains(commands, "postgres://") {
		primary, standby := e.postgres(t)
		commands = regexp.MustCompile(`postgres://quorate(:password)?@(db|standby\d)(:5432)?/quorate`).ReplaceAllStringFunc(commands, func(url string) string {
			if strings.Contains(url, "standby") {
				return "'" + standby + "'"
			}
			return "'" + primary + "'"
		})
		commands = strings.ReplaceAll(commands, "''", "'")
	}
	e.files(t, dir) // another block may have written its own
	e.runs++
	home := filepath.Join(dir, "home")
	require.NoError(t, os.MkdirAll(home, 0o700))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", commands)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "HOME="+home, "PATH="+e.bin+":"+os.Getenv("PATH"), "BASE="+e.base,
		"NEW_MESSAGE="+e.message[:len(e.message)-4]+fmt.Sprintf("%04x", e.runs))
	var out, errOut strings.Builder
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &out, &errOut, 5*time.Second
	start := time.Now()
	require.NoError(t, cmd.Run(), "%s\n%s%s", commands, &out, &errOut)
	t.Logf("%s\n%s", time.Since(start).Round(time.Millisecond), commands)
	return out.String()
}
