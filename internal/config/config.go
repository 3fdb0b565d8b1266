// Package config reads the configuration: a YAML file, the environment and flags, over defaults. It reports all mistakes
// and the origin of each value, without secrets. It starts nothing.
package config

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"quorate/handlers/access"
	"quorate/handlers/compat"
	"quorate/handlers/networks"
	"quorate/internal/index/evm"
	"quorate/internal/index/evm/metadata"
	"quorate/internal/index/primary"
	"quorate/internal/store"
)

// Config is the configuration of serve. The environment overrides the YAML file, and flags override both.
type Config struct {
	// Listen is the address of the public surface.
	Listen string `yaml:"listen"`
	// PrivateListen is the address of the operators' surface: metrics, health.
	PrivateListen string `yaml:"private_listen"`
	// DataDir is the folder of identities, address books and the embedded store.
	DataDir string `yaml:"data_dir"`
	// Store is the URL of the PostgreSQL server that has the store. If it is empty, the store is in DataDir.
	Store string `yaml:"store"`
	// StoreRead are URLs of hot standbys of Store. The Data API reads from those that are at most StoreLag behind.
	StoreRead []string      `yaml:"store_read"`
	StoreLag  time.Duration `yaml:"store_lag"`
	// Role is the work of this process if several share a Store.
	Role Role `yaml:"role"`
	// MemoryLimit is the memory limit of the process. Caches share it, and the garbage collector works harder near it.
	MemoryLimit Size `yaml:"memory_limit"`
	// ArchiveLimit limits the disk space of signed messages.
	ArchiveLimit Size `yaml:"archive_limit"`
	// ClientCompat selects the clients that get answers in the form of generated clients: auto, on or off.
	ClientCompat string `yaml:"client_compat"`
	// RequestTimeout limits the work on one request.
	RequestTimeout time.Duration `yaml:"request_timeout"`
	// LogLevel is debug, info, warn or error.
	LogLevel string `yaml:"log_level"`
	// LogFormat is text, json, or auto: text on a terminal, else json.
	LogFormat string `yaml:"log_format"`
	// Metadata configures the fetching of documents about tokens.
	Metadata Metadata `yaml:"metadata"`
	// TokenLists are files with logos and names of tokens (tokenlists.org).
	TokenLists []string `yaml:"token_lists"`
	// MethodSignatures is a file with signatures of methods, from which answers name called methods.
	MethodSignatures string `yaml:"method_signatures"`
	// Webhooks configures the messages about events.
	Webhooks Webhooks `yaml:"webhooks"`
	// NodeAPI configures the APIs below /ext.
	NodeAPI NodeAPI `yaml:"node_api"`
	// Networks are the networks to serve, by name.
	Networks map[string]Network `yaml:"networks"`
	Surface  `yaml:",inline"`
}

// LeastMemory is the smallest MemoryLimit, in bytes.
const LeastMemory = 256 << 20

// leastArchive is the smallest ArchiveLimit, in bytes.
const leastArchive = 1 << 20

// Default returns the defaults. They have no network.
func Default() Config {
	dir := ".quorate"
	if home, err := os.UserHomeDir(); err == nil {
		dir = filepath.Join(home, dir)
	}
	return Config{
		Listen:         "127.0.0.1:8080",
		PrivateListen:  "127.0.0.1:8081",
		DataDir:        dir,
		Role:           RoleAll,
		MemoryLimit:    1 << 30,
		ArchiveLimit:   1 << 30,
		ClientCompat:   string(compat.Auto),
		RequestTimeout: 15 * time.Second,
		LogLevel:       "info",
		LogFormat:      "auto",
		StoreLag:       5 * time.Second,
		Webhooks:       Webhooks{PerOwner: 20},
		NodeAPI:        defaultNodeAPI(),
		Networks:       make(map[string]Network),
		Surface:        surfaceDefaults(),
	}
}

// Check returns all mistakes. Each begins with the name of a key.
func (c *Config) Check() error { return errors.Join(c.problems()...) }

// problems returns all mistakes. Each begins with the name of a key.
func (c *Config) problems() (all []error) {
	wrong := func(format string, args ...any) { all = append(all, fmt.Errorf(format, args...)) }
	c.Surface.check(wrong)
	for key, address := range map[string]string{"listen": c.Listen, "private_listen": c.PrivateListen} {
		_, port, err := net.SplitHostPort(address)
		if err != nil || port == "" {
			wrong("%s: %q is no address such as 127.0.0.1:8080", key, address)
		} else if _, err := net.LookupPort("tcp", port); err != nil {
			wrong("%s: %q has no port from 0 to 65535 and no name of one", key, address)
		}
	}
	if _, port, _ := net.SplitHostPort(c.Listen); c.Listen == c.PrivateListen && port != "0" {
		wrong("private_listen: it is the address of listen; choose another port")
	}
	if f, err := metadata.NewFetcher(metadata.FetchOptions{Gateways: c.Metadata.IPFSGateways}); err != nil {
		wrong("metadata.ipfs_gateways: %w", err)
	} else {
		f.Close()
	}
	if _, err := compat.ParseMode(c.ClientCompat); err != nil {
		wrong("client_compat: %w", err)
	}
	if c.RequestTimeout < time.Second || c.RequestTimeout > 4*time.Minute {
		wrong("request_timeout: %s is not between 1s and 4m", c.RequestTimeout)
	}
	var level slog.Level
	if err := level.UnmarshalText([]byte(c.LogLevel)); err != nil {
		wrong("log_level: %q is none of debug, info, warn, error", c.LogLevel)
	}
	if !slices.Contains(fewValues["log-format"], c.LogFormat) {
		wrong("log_format: %q is none of %s", c.LogFormat, strings.Join(fewValues["log-format"], ", "))
	}
	if c.MemoryLimit < LeastMemory {
		wrong("memory_limit: %s is less than %s, the least that the service needs", c.MemoryLimit, Size(LeastMemory))
	}
	if c.MemoryLimit > math.MaxInt64 {
		wrong("memory_limit: %s is more than any machine has", c.MemoryLimit)
	}
	if c.ArchiveLimit < leastArchive {
		wrong("archive_limit: %s is less than %s", c.ArchiveLimit, Size(leastArchive))
	}
	c.Webhooks.check(wrong)
	c.NodeAPI.check(c.Networks, wrong)
	if c.DataDir == "" {
		wrong("data_dir is empty; name a folder")
	}
	if err := c.Role.check(c.Store); err != nil {
		wrong("%w", err)
	}
	c.checkStore(wrong)
	for _, name := range slices.Sorted(maps.Keys(c.Networks)) {
		c.Networks[name].check(name, wrong)
	}
	return all
}

// checkStore reports what is wrong with the remote store.
func (c *Config) checkStore(wrong func(format string, args ...any)) {
	if c.Store != "" {
		if err := store.CheckPostgresURL(c.Store); err != nil {
			wrong("store: %w", err)
		}
	} else if len(c.StoreRead) > 0 {
		wrong("store_read: needs store, the server that the standbys follow")
	}
	for i, url := range c.StoreRead {
		if slices.Contains(c.StoreRead[:i], url) {
			wrong("store_read: a server is named twice")
		}
		if err := store.CheckPostgresURL(url); err != nil {
			wrong("store_read: %w", err)
		}
	}
	if c.StoreLag < 2*time.Second || c.StoreLag > time.Hour {
		wrong("store_lag: %s is not between 2s and 1h", c.StoreLag)
	}
}

// check reports what is wrong with the network of a name.
func (n Network) check(name string, wrong func(format string, args ...any)) {
	if strings.ContainsAny(name, "/\\:. \t") || name == "" {
		wrong("networks: %q cannot be a name; use letters, digits and hyphens", name)
	}
	if name == StoreFolder {
		wrong("networks: %q cannot be a name, as the data folder keeps the store under it; choose another", name)
	}
	if len(n.Nodes) == 0 {
		wrong("networks.%s.nodes is empty; name at least one node, such as http://127.0.0.1:9650, or p2p", name)
	}
	n.checkPeers(name, wrong)
	n.checkCheckpoint(name, wrong)
	if rounds := n.Ahead(); rounds < 0 || rounds > 256 {
		wrong("networks.%s.ahead_rounds: %d is not between 0 and 256", name, rounds)
	}
	switch {
	case n.Record != "" && n.Record != RecordAll && n.Record != RecordPrimary && n.Record != RecordL1:
		wrong("networks.%s.record: %q is none of %s, %s and %s", name, n.Record, RecordAll, RecordPrimary, RecordL1)
	case n.RecordsLedger() && n.IndexFrom > 0:
		wrong("networks.%s.index_from: only with record: %s; balances need the chain from its beginning", name, RecordL1)
	}
	n.checkUnused(name, wrong)
	for _, optional := range n.EVMIndexes {
		if !slices.Contains(evm.Optionals(), optional) {
			wrong("networks.%s.evm_indexes: %q is none of %v", name, optional, evm.Optionals())
		}
	}
	if _, err := n.HealthSubnetIDs(); err != nil {
		wrong("networks.%s.health_subnets: %w", name, err)
	}
	switch n.Keep() {
	case primary.KeepAll, primary.KeepNeeded, primary.KeepNone:
	default:
		wrong("networks.%s.keep_containers: %q is none of %s, %s, %s", name, n.KeepContainers, primary.KeepAll, primary.KeepNeeded, primary.KeepNone)
	}
	for _, chain := range n.EVM {
		if err := chain.RPC.check(); err != nil {
			wrong("networks.%s.evm.rpc: %w", name, err)
		}
		if t := chain.NativeToken; t != nil && (t.Name == "" || t.Symbol == "") {
			wrong("networks.%s.evm.native_token: it needs a name and a symbol", name)
		}
	}
	for _, e := range n.Nodes {
		if err := e.check(); err != nil {
			wrong("networks.%s.nodes: %w", name, err)
		}
	}
	if n.RequestsPerSecond < 0 {
		wrong("networks.%s.requests_per_second: %d is less than 0", name, n.RequestsPerSecond)
	}
	if _, err := n.Peers(); err != nil {
		wrong("networks.%s.manual_peers: %w", name, err)
	}
}

// checkUnused reports settings that have no effect with the others.
func (n Network) checkUnused(name string, wrong func(format string, args ...any)) {
	if len(n.EVMIndexes) > 0 && !n.RecordsEVM() {
		wrong("networks.%s.evm_indexes: only with record: %s", name, RecordAll)
	}
	if n.VerifyEVMSenders && !n.RecordsEVM() {
		wrong("networks.%s.verify_evm_senders: only with record: %s", name, RecordAll)
	}
	if n.XChainTimes != "" && !n.RecordsLedger() {
		wrong("networks.%s.x_chain_times: only with record: %s or %s", name, RecordPrimary, RecordAll)
	}
	if n.UpgradeFile != "" && !n.FollowsPeers() {
		wrong("networks.%s.upgrade_file: only with p2p", name)
	}
}

// checkPeers reports what is wrong with a network that is followed over the peer-to-peer network.
func (n Network) checkPeers(name string, wrong func(format string, args ...any)) {
	if !n.FollowsPeers() {
		return
	}
	if _, public := networks.PublicID(name); !public {
		if n.GenesisFile == "" {
			wrong("networks.%s.genesis_file: it is needed to follow a network other than mainnet and fuji over p2p", name)
		}
		if len(n.ManualPeers) == 0 {
			wrong("networks.%s.manual_peers: some nodes are needed to begin with, to follow a network other than mainnet and fuji over p2p", name)
		}
	}
	if n.OnlyPeers() && n.RecordsEVM() {
		wrong("networks.%s.record: %s needs a node, because peers do not send receipts; name one beside p2p, or index %s", name, n.Record, RecordPrimary)
	}
}

// checkCheckpoint reports what is wrong with the checkpoint of a network.
func (n Network) checkCheckpoint(name string, wrong func(format string, args ...any)) {
	switch {
	case n.Checkpoint == "" && n.CheckpointHash == "":
	case !n.FollowsPeers():
		wrong("networks.%s.checkpoint: only with p2p among nodes", name)
	case n.RecordsLedger():
		wrong("networks.%s.checkpoint: not with record: %s, because the ledger needs all blocks since genesis; leave the checkpoint out and, if the service ran with it, remove DATA_DIR/%s/%s, or record %s", name, n.Record, name, PChainFolder, RecordL1)
	case n.Checkpoint == "":
		wrong("networks.%s.checkpoint: it is missing with checkpoint_hash; name the file", name)
	case n.CheckpointHash == "":
		wrong("networks.%s.checkpoint_hash: it is missing; get the hash from a source that you trust: quorate checkpoint export printed it", name)
	default:
		if _, err := n.CheckpointID(); err != nil {
			wrong("networks.%s.checkpoint_hash: %w", name, err)
		}
	}
}

// StoreFolder is the folder of the store in the data folder, beside those of networks.
const StoreFolder = "store"

// PChainFolder is the folder of the P-Chain's state in that of a network; see internal/peernode.
const PChainFolder = "pchain"

// KeyFile returns the path of the API keys in the data folder.
func (c *Config) KeyFile() access.KeyFile {
	return access.KeyFile(filepath.Join(c.DataDir, "keys.json"))
}
