// Package localnet runs a local network of real avalanchego nodes for tests, on free
// loopback ports: the five stakers of network 12345, whose keys the avalanchego module
// ships, or fewer of them in a network with a genesis and upgrade times of its own. The
// node's program is built once into a cache folder.
package localnet

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ava-labs/avalanchego/genesis"
	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/constants"
)

const (
	// NetworkID of the network that the node has built in.
	NetworkID = 12345
	// CustomID is the network ID of any other network.
	CustomID = 1337
	// Size is the number of nodes. Network 12345 needs all of them to start.
	Size = 5

	// startTime is how long nodes may take to start, on a machine that is busy.
	startTime = 3 * time.Minute

	module = "github.com/ava-labs/avalanchego"
)

// Options describe a network. The zero value is network 12345 as the node has it built in.
type Options struct {
	// Stakers is the number of validators of a network with a genesis of its own, at most
	// Size. Zero is network 12345.
	Stakers int
	// Program is the node to run instead of the pinned release.
	Program string
	// Upgrades are the activation times by the names of the node's upgrade file. Network
	// 12345 takes none.
	Upgrades map[string]any
	// ChainConfig is the configuration of the C-Chain, instead of one with every API.
	ChainConfig string
	// SubnetEVM gives the nodes the plugin for subnet-evm chains.
	SubnetEVM bool
	// Flags come after all others, so that they win.
	Flags []string
}

// Network is a running network.
type Network struct {
	// ID of the network.
	ID uint32

	t       testing.TB
	program string
	plugin  string // of subnet-evm; empty unless Options.SubnetEVM
	options Options
	keys    string // folder of the stakers' keys
	dir     string
	nodes   []*Node // the stakers, and those that Observe started
}

// Node is one node of the network.
type Node struct {
	// URL is the base URL of its API.
	URL string

	index                 int
	httpPort, stakingPort int
	bare                  bool // see ObserveBare
	nodeID                string
	process               *exec.Cmd
	exited                chan struct{}
}

// Start builds the node if need be and brings network 12345 up. Everything is
// stopped when the test ends, however it ends.
func Start(t testing.TB) *Network {
	t.Helper()
	return StartWith(t, Options{})
}

// StartWith is Start for a network as described.
func StartWith(t testing.TB, o Options) *Network {
	t.Helper()
	n := &Network{ID: NetworkID, t: t, dir: t.TempDir(), program: o.Program, options: o}
	var err error
	if n.program == "" {
		if n.program, err = buildNode(); err != nil {
			t.Fatal(err)
		}
	}
	if o.SubnetEVM {
		if n.plugin, err = buildPlugin(); err != nil {
			t.Fatal(err)
		}
	}
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	if err != nil {
		t.Fatalf("finding the module of the node: %v", err)
	}
	n.keys = filepath.Join(strings.TrimSpace(string(out)), "staking", "local")
	stakers := Size
	if o.Stakers > 0 {
		n.ID, stakers = CustomID, o.Stakers
	}
	ports := FreePorts(t, 2*stakers)
	for i := range stakers {
		n.nodes = append(n.nodes, newNode(i, ports[2*i:]))
	}
	if o.Stakers > 0 {
		if err := n.writeGenesis(); err != nil {
			t.Fatalf("making the genesis of network %d: %v", n.ID, err)
		}
	}
	t.Cleanup(func() {
		for i := range n.nodes {
			n.kill(i)
		}
	})
	// The others need the first one's ID to find it.
	n.launch(0)
	ctx, cancel := context.WithTimeout(t.Context(), startTime)
	defer cancel()
	for n.nodes[0].nodeID == "" {
		var reply struct {
			NodeID string `json:"nodeID"`
		}
		if err := Call(ctx, n.nodes[0].URL, "/ext/info", "info.getNodeID", struct{}{}, &reply); err == nil {
			n.nodes[0].nodeID = reply.NodeID
		} else if n.pause(ctx) != nil {
			t.Fatalf("node 0 does not answer: %v\n%s", err, n.log(0))
		}
	}
	for i := 1; i < stakers; i++ {
		n.launch(i)
	}
	n.AwaitHealthy(startTime)
	return n
}

// Observe starts one more node, which is no validator, and waits until it is healthy.
func (n *Network) Observe() *Node {
	n.t.Helper()
	return n.observe(false)
}

// ObserveBare starts a node as Observe does, with the APIs and the C-Chain configuration that a node has by default: no
// index, no admin API, a pruned C-Chain without tracing. Its other flags are those of the network's nodes.
func (n *Network) ObserveBare() *Node {
	n.t.Helper()
	return n.observe(true)
}

func (n *Network) observe(bare bool) *Node {
	n.t.Helper()
	node := newNode(len(n.nodes), FreePorts(n.t, 2))
	node.bare = bare
	n.nodes = append(n.nodes, node)
	n.launch(node.index)
	n.AwaitHealthy(startTime)
	return node
}

func newNode(i int, ports []int) *Node {
	return &Node{URL: fmt.Sprintf("http://127.0.0.1:%d", ports[0]), index: i, httpPort: ports[0], stakingPort: ports[1]}
}

// buildNode and buildPlugin build a program once for all tests of this checkout. Tests that start in parallel share one
// build.
var (
	buildNode   = sync.OnceValues(func() (string, error) { return buildOf("avalanchego", module+"/main") })
	buildPlugin = sync.OnceValues(func() (string, error) {
		return buildOf("subnet-evm", "quorate/e2e/subnetevm", filepath.Join("subnetevm", "*.go"))
	})
)

// buildOf builds a package that depends on files of this module and on the versions of its dependencies.
func buildOf(name, pkg string, files ...string) (string, error) {
	root, err := moduleDir()
	if err != nil {
		return "", err
	}
	for i := range files {
		files[i] = filepath.Join(root, files[i])
	}
	digest, err := contentDigest(append(files, filepath.Join(root, "go.mod"))...)
	if err != nil {
		return "", err
	}
	return build(name+"-"+digest, pkg)
}

// Build builds the programs of the nodes, with or without the plugin for subnet-evm chains, unless they are in the cache
// folder. It takes minutes if Go's build cache is empty.
func Build(withSubnetEVM bool) error {
	if _, err := buildNode(); err != nil {
		return err
	}
	if withSubnetEVM {
		if _, err := buildPlugin(); err != nil {
			return err
		}
	}
	return nil
}

// moduleDir returns the folder of this module.
func moduleDir() (string, error) {
	file, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("finding the module's folder: %w", err)
	}
	return filepath.Dir(strings.TrimSpace(string(file))), nil
}

// contentDigest returns a digest of the names and contents of the files that match the patterns.
func contentDigest(patterns ...string) (string, error) {
	digest := sha256.New()
	for _, pattern := range patterns {
		files, err := filepath.Glob(pattern)
		if err != nil {
			return "", err
		}
		for _, file := range files { // sorted
			content, err := os.ReadFile(file)
			if err != nil {
				return "", err
			}
			fmt.Fprintf(digest, "%s %d\n%s", filepath.Base(file), len(content), content)
		}
	}
	return hex.EncodeToString(digest.Sum(nil)[:6]), nil
}

// build builds a package into the cache folder, unless the program is there.
func build(name, pkg string) (string, error) {
	cache := os.Getenv("E2E_CACHE")
	if cache == "" {
		root, err := moduleDir()
		if err != nil {
			return "", err
		}
		cache = filepath.Join(filepath.Dir(root), ".cache")
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", fmt.Errorf("making the cache folder: %w", err)
	}
	program := filepath.Join(cache, name)
	if _, err := os.Stat(program); err == nil {
		return program, nil
	}
	// Built under another name, so that an interrupted build is never used.
	fresh := fmt.Sprintf("%s.%d", program, os.Getpid())
	if out, err := exec.Command("go", "build", "-o", fresh, pkg).CombinedOutput(); err != nil {
		return "", fmt.Errorf("building %s: %w\n%s", name, err, out)
	}
	return program, os.Rename(fresh, program)
}

// FreePorts returns ports of 127.0.0.1 without a listener. The system does not assign them to programs that listen on
// port 0. Until the test ends no other call returns them, in this process or another: a UDP socket on the same number, which
// nothing else here uses, marks a port as taken.
func FreePorts(t testing.TB, n int) []int {
	t.Helper()
	var ports []int
	for range 100 * n {
		port := 10_000 + rand.IntN(20_000)
		address := fmt.Sprintf("127.0.0.1:%d", port)
		claim, err := net.ListenPacket("udp", address)
		if err != nil {
			continue
		}
		t.Cleanup(func() { _ = claim.Close() })
		l, err := net.Listen("tcp", address)
		if err != nil {
			continue // in use
		}
		_ = l.Close()
		if ports = append(ports, port); len(ports) == n {
			return ports
		}
	}
	t.Fatal("finding free ports: most are in use")
	return nil
}

// chainConfig of the C-Chain: every API, and state at every height.
const chainConfig = `{
 "eth-apis": ["eth", "eth-filter", "net", "web3", "admin", "debug", "debug-tracer", "internal-eth", "internal-blockchain", "internal-transaction", "internal-tx-pool", "internal-debug", "internal-account"],
 "warp-api-enabled": true, "pruning-enabled": false, "state-sync-enabled": false,
 "trie-clean-cache": 16, "trie-dirty-cache": 16, "snapshot-cache": 16
}`

func (n *Network) launch(i int) {
	n.t.Helper()
	node := n.nodes[i]
	dir := filepath.Join(n.dir, fmt.Sprintf("node%d", i))
	configs := filepath.Join(dir, "configs", "C")
	temporary := filepath.Join(dir, "tmp")
	for _, folder := range []string{configs, filepath.Join(dir, "plugins"), temporary} {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			n.t.Fatal(err)
		}
	}
	if n.plugin != "" {
		link := filepath.Join(dir, "plugins", constants.SubnetEVMID.String())
		if err := os.Symlink(n.plugin, link); err != nil && !errors.Is(err, os.ErrExist) {
			n.t.Fatal(err)
		}
	}
	if !node.bare {
		if err := os.WriteFile(filepath.Join(configs, "config.json"), []byte(cmp.Or(n.options.ChainConfig, chainConfig)), 0o600); err != nil {
			n.t.Fatal(err)
		}
	}
	logFile, err := os.OpenFile(filepath.Join(dir, "output.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		n.t.Fatal(err)
	}
	defer func() { _ = logFile.Close() }()
	args := []string{
		fmt.Sprintf("--network-id=%d", n.ID),
		"--data-dir=" + dir,
		"--http-host=127.0.0.1", fmt.Sprintf("--http-port=%d", node.httpPort),
		"--staking-host=127.0.0.1", fmt.Sprintf("--staking-port=%d", node.stakingPort),
		"--public-ip=127.0.0.1", "--network-allow-private-ips=true",
		"--fd-limit=20000",
		"--chain-config-dir=" + filepath.Join(dir, "configs"), "--plugin-dir=" + filepath.Join(dir, "plugins"),
		"--log-display-level=warn", "--log-level=info",
		"--proposervm-use-current-height=true", "--proposervm-min-block-delay=0s",
		"--network-initial-timeout=1s", "--network-minimum-timeout=1s", "--health-check-frequency=1s",
		"--network-peer-list-pull-gossip-frequency=250ms", "--network-max-reconnect-delay=1s",
		"--min-stake-duration=15s", "--uptime-requirement=0",
		"--system-tracker-disk-required-available-space-percentage=0",
		"--system-tracker-disk-warning-available-space-percentage=0",
	}
	if !node.bare {
		args = append(args, "--index-enabled=true", "--api-admin-enabled=true")
	}
	if n.options.Stakers > 0 {
		args = append(args, "--genesis-file="+n.GenesisFile())
	}
	if i < n.Stakers() {
		args = append(args,
			fmt.Sprintf("--staking-tls-cert-file=%s/staker%d.crt", n.keys, i+1),
			fmt.Sprintf("--staking-tls-key-file=%s/staker%d.key", n.keys, i+1),
			fmt.Sprintf("--staking-signer-key-file=%s/signer%d.key", n.keys, i+1))
	}
	bootstrapIPs, bootstrapIDs := "", ""
	for _, other := range n.nodes[:i] {
		if other.nodeID != "" {
			bootstrapIPs, bootstrapIDs = fmt.Sprintf("127.0.0.1:%d", other.stakingPort), other.nodeID
			break
		}
	}
	args = append(args, "--bootstrap-ips="+bootstrapIPs, "--bootstrap-ids="+bootstrapIDs)
	cmd := exec.Command(n.program, append(args, n.options.Flags...)...)
	cmd.Dir = dir // where it writes stack traces
	// A node that is killed leaves folders there.
	cmd.Env = append(os.Environ(), "TMPDIR="+temporary)
	if n.options.Upgrades != nil {
		content, err := json.Marshal(n.options.Upgrades)
		if err != nil {
			n.t.Fatal(err)
		}
		cmd.Env = append(cmd.Env, "AVAGO_UPGRADE_FILE_CONTENT="+base64.StdEncoding.EncodeToString(content))
	}
	cmd.Stdout, cmd.Stderr = logFile, logFile
	// The node ends with the test, even if the test is killed.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	if err := cmd.Start(); err != nil {
		n.t.Fatalf("starting node %d: %v", i, err)
	}
	node.process, node.exited = cmd, make(chan struct{})
	go func() {
		_ = cmd.Wait()
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // the plugins of a killed node go on
		close(node.exited)
	}()
}

// Stakers is the number of validators from the genesis.
func (n *Network) Stakers() int { return cmp.Or(n.options.Stakers, Size) }

// Upgrades are those that the nodes were started with; nil are the ones that they have built in.
func (n *Network) Upgrades() map[string]any { return n.options.Upgrades }

// GenesisFile is where the genesis is that the nodes were started with, if it is not
// built in.
func (n *Network) GenesisFile() string { return filepath.Join(n.dir, "genesis.json") }

// writeGenesis makes a genesis with the funded keys and the C-Chain of network 12345.
func (n *Network) writeGenesis() error {
	config := *genesis.GetConfig(CustomID)
	config.NetworkID = n.ID
	config.StartTime = uint64(time.Now().Add(-time.Minute).Unix())
	config.InitialStakers = slices.Clone(config.InitialStakers[:n.options.Stakers])
	unparsed, err := config.Unparse()
	if err != nil {
		return err
	}
	content, err := json.Marshal(unparsed)
	if err != nil {
		return err
	}
	return os.WriteFile(n.GenesisFile(), content, 0o600)
}

// Node i, from 0 on.
func (n *Network) Node(i int) *Node { return n.nodes[i] }

// Keys is the folder with the keys of the stakers: staker1.key, staker1.crt, signer1.key and so on.
func (n *Network) Keys() string { return n.keys }

// StakingAddress is where node i talks to its peers.
func (n *Network) StakingAddress(i int) string {
	return fmt.Sprintf("127.0.0.1:%d", n.nodes[i].stakingPort)
}

// PID is the process ID of node i.
func (n *Network) PID(i int) int { return n.nodes[i].process.Process.Pid }

// Stop ends node i as an operator would, and kills it if that takes too long: a
// node that has lost its quorum may need 20 s.
func (n *Network) Stop(i int) {
	n.t.Helper()
	node := n.nodes[i]
	if node.process == nil {
		return
	}
	_ = node.process.Process.Signal(syscall.SIGTERM)
	select {
	case <-node.exited:
		node.process = nil
	case <-time.After(5 * time.Second):
		n.kill(i)
	}
}

// RestartAll stops all nodes as an operator would, starts them again and waits until they
// are healthy.
func (n *Network) RestartAll() {
	n.t.Helper()
	for _, node := range n.nodes {
		if node.process != nil {
			_ = node.process.Process.Signal(syscall.SIGTERM)
		}
	}
	for i := range n.nodes {
		n.Stop(i)
	}
	for i := range n.nodes {
		n.launch(i)
	}
	n.AwaitHealthy(startTime)
}

// Track restarts all nodes so that they run the chains of a subnet.
func (n *Network) Track(subnetID ids.ID) {
	n.t.Helper()
	n.options.Flags = append(slices.Clone(n.options.Flags), "--track-subnets="+subnetID.String())
	n.RestartAll()
}

func (n *Network) kill(i int) {
	node := n.nodes[i]
	if node == nil || node.process == nil {
		return
	}
	_ = node.process.Process.Kill()
	<-node.exited
	node.process = nil
}

// Restart starts node i again.
func (n *Network) Restart(i int) {
	n.t.Helper()
	n.launch(i)
}

// AwaitHealthy waits until every node reports that it is healthy.
func (n *Network) AwaitHealthy(timeout time.Duration) {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(n.t.Context(), timeout)
	defer cancel()
	for i, node := range n.nodes {
		for {
			request, err := http.NewRequestWithContext(ctx, http.MethodGet, node.URL+"/ext/health", nil)
			if err != nil {
				n.t.Fatal(err)
			}
			response, err := http.DefaultClient.Do(request)
			if err == nil {
				_ = response.Body.Close()
				if response.StatusCode == http.StatusOK {
					break
				}
			}
			if n.pause(ctx) != nil {
				n.t.Fatalf("node %d is not healthy after %s\n%s", i, timeout, n.log(i))
			}
		}
	}
}

func (n *Network) pause(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(50 * time.Millisecond):
		return nil
	}
}

// log is the end of what node i printed.
func (n *Network) log(i int) string {
	content, err := os.ReadFile(filepath.Join(n.dir, fmt.Sprintf("node%d", i), "output.log"))
	if err != nil {
		return err.Error()
	}
	return string(content[max(len(content)-4000, 0):])
}

// Call is one JSON-RPC call.
func Call(ctx context.Context, base, path, method string, params, reply any) error {
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, base+path, strings.NewReader(string(body)))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	var answer struct {
		Result json.RawMessage `json:"result"`
		Error  *struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return fmt.Errorf("%s: status %d: %w", method, response.StatusCode, err)
	}
	if answer.Error != nil {
		return errors.New(method + ": " + answer.Error.Message)
	}
	return json.Unmarshal(answer.Result, reply)
}
