package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"quorate/handlers/compat"
	"quorate/index/primary"
	"quorate/node"
	"quorate/store"
)

// config is what serve runs with. It is read from a YAML file, the environment
// and flags, each of which overrules the one before.
type config struct {
	// Listen is the address of the public surface.
	Listen string `yaml:"listen"`
	// PrivateListen is the address of the operators' surface: metrics, health.
	PrivateListen string `yaml:"private_listen"`
	// DataDir keeps identities, address books and the store.
	DataDir string `yaml:"data_dir"`
	// Store is the URL of the PostgreSQL server that keeps what outlives the process;
	// empty: files in DataDir do.
	Store string `yaml:"store"`
	// StoreRead are URLs of servers that follow the one of Store; the Data API reads
	// from them while they are at most StoreLag behind.
	StoreRead []string      `yaml:"store_read"`
	StoreLag  time.Duration `yaml:"store_lag"`
	// Role is what this process does where several share a Store.
	Role role `yaml:"role"`
	// MemoryLimit is shared out among the caches and given to the garbage
	// collector, which then works harder rather than exceed it.
	MemoryLimit size `yaml:"memory_limit"`
	// ArchiveLimit bounds what is kept of signed messages on disk.
	ArchiveLimit size `yaml:"archive_limit"`
	// ClientCompat is auto, on or off: who gets the generated clients' form.
	ClientCompat string `yaml:"client_compat"`
	// RequestTimeout bounds the work on one request.
	RequestTimeout time.Duration `yaml:"request_timeout"`
	// LogLevel is debug, info, warn or error.
	LogLevel string `yaml:"log_level"`
	// Metadata says how documents about tokens are fetched.
	Metadata metadataConfig `yaml:"metadata"`
	// TokenLists are files that say more of tokens (tokenlists.org).
	TokenLists []string `yaml:"token_lists"`
	// MethodSignatures is a file with signatures of methods, to name them.
	MethodSignatures string `yaml:"method_signatures"`
	// NodeAPI is about what is answered as a node does.
	NodeAPI       nodeAPIConfig            `yaml:"node_api"`
	Networks      map[string]networkConfig `yaml:"networks"`
	surfaceConfig `yaml:",inline"`
	// example makes messages to try on the console, of a synthetic network; may be nil.
	example func(network string) ([]byte, bool)
}

// networkConfig is a network that is served under the name of its key.
type networkConfig struct {
	// Nodes are base URLs of upstream nodes, best first.
	Nodes []string `yaml:"nodes"`
	// AllowPrivateIPs connects to validators at addresses that are not public.
	AllowPrivateIPs bool `yaml:"allow_private_ips"`
	// AheadRounds is how many messages are signed at a time before anyone asks;
	// 0 turns that off.
	AheadRounds *int `yaml:"ahead_rounds"`
	// Record is all, primary for all but EVM chains, or l1 for what signing needs alone.
	Record string `yaml:"record"`
	// IndexFrom is the height from which the P-Chain is recorded with Record l1, if
	// nothing of it is yet.
	IndexFrom uint64 `yaml:"index_from"`
	// KeepContainers is what is kept of blocks as nodes gave them: all, needed or none;
	// empty stands for needed where there is a ledger, else none. See primary.Keep.
	KeepContainers primary.Keep `yaml:"keep_containers"`
	// GenesisFile is what the nodes of a private network were started with.
	GenesisFile string `yaml:"genesis_file"`
	// synthetic is a network that nobody takes for the public one of its name.
	synthetic bool
	// EVM are chains that are recorded, and whose messages are signed before anyone
	// asks, besides the C-Chain.
	EVM []evmConfig `yaml:"evm"`
	// HealthSubnets are IDs of subnets without whose validators the service is not
	// healthy, besides the primary network.
	HealthSubnets []string `yaml:"health_subnets"`
}

// ledger reports whether outputs, balances and stakes are recorded.
func (n networkConfig) ledger() bool { return n.Record != recordL1 }

// keep is KeepContainers or its default. What signing needs alone is small, and soon
// fetched again.
func (n networkConfig) keep() primary.Keep {
	if n.KeepContainers == "" && !n.ledger() {
		return primary.KeepNone
	}
	return cmp.Or(n.KeepContainers, primary.KeepNeeded)
}

// evm reports whether EVM chains are recorded.
func (n networkConfig) evm() bool { return n.Record == recordAll || n.Record == "" }

// What of a network is recorded.
const (
	recordAll     = "all"
	recordPrimary = "primary"
	recordL1      = "l1"
)

// evmConfig is an EVM chain.
type evmConfig struct {
	// RPC is the URL of its Ethereum API.
	RPC string `yaml:"rpc"`
	// NativeToken is what pays for gas there; without it answers call it so.
	NativeToken *tokenConfig `yaml:"native_token"`
}

// tokenConfig is a token that no contract tells of.
type tokenConfig struct {
	Name        string `yaml:"name"`
	Symbol      string `yaml:"symbol"`
	Decimals    *uint8 `yaml:"decimals"` // 18 without it
	LogoURI     string `yaml:"logo_uri"`
	Description string `yaml:"description"`
}

// metadataConfig is about documents that token URIs lead to.
type metadataConfig struct {
	// IPFSGateways are base URLs; without any, documents of IPFS cannot be reached.
	IPFSGateways []string `yaml:"ipfs_gateways"`
	// AllowPrivate lets token URIs lead to addresses that are not public.
	AllowPrivate bool `yaml:"allow_private"`
}

// aheadRounds is AheadRounds or its default.
func (n networkConfig) aheadRounds() int {
	if n.AheadRounds == nil {
		return 2
	}
	return *n.AheadRounds
}

const (
	leastMemory  = 256 << 20
	leastArchive = 1 << 20
)

func defaults() config {
	dir := ".quorate"
	if home, err := os.UserHomeDir(); err == nil {
		dir = filepath.Join(home, dir)
	}
	return config{
		Listen:         "127.0.0.1:8080",
		PrivateListen:  "127.0.0.1:8081",
		DataDir:        dir,
		Role:           roleAll,
		MemoryLimit:    1 << 30,
		ArchiveLimit:   1 << 30,
		ClientCompat:   string(compat.Auto),
		RequestTimeout: 15 * time.Second,
		LogLevel:       "info",
		StoreLag:       5 * time.Second,
		NodeAPI:        defaultNodeAPI(),
		Networks:       make(map[string]networkConfig),
		surfaceConfig:  surfaceDefaults(),
	}
}

// setting is one value that flags and environment can give.
type setting struct {
	flag, env, value, usage string
	set                     func(c *config, text string) error
}

func settings() []setting {
	number := func(field func(*config) *int) func(*config, string) error {
		return func(c *config, v string) error {
			n, err := strconv.Atoi(v)
			if err != nil {
				return fmt.Errorf("%q is no number", v)
			}
			*field(c) = n
			return nil
		}
	}
	sized := func(field func(*config) *size) func(*config, string) error {
		return func(c *config, v string) error { return field(c).parse(v) }
	}
	duration := func(field func(*config) *time.Duration) func(*config, string) error {
		return func(c *config, v string) (err error) {
			*field(c), err = time.ParseDuration(v)
			return err
		}
	}
	text := func(field func(*config) *string) func(*config, string) error {
		return func(c *config, v string) error {
			*field(c) = v
			return nil
		}
	}
	return []setting{
		{"listen", "QUORATE_LISTEN", "address", "public address to listen on", text(func(c *config) *string { return &c.Listen })},
		{"private-listen", "QUORATE_PRIVATE_LISTEN", "address", "address for metrics and health", text(func(c *config) *string { return &c.PrivateListen })},
		{"data-dir", "QUORATE_DATA_DIR", "folder", "folder for identities, address books and signed messages", text(func(c *config) *string { return &c.DataDir })},
		{"store", "QUORATE_STORE", "url", "PostgreSQL server to keep rows on, postgres://user:password@host/database, instead of files in the data folder", text(func(c *config) *string { return &c.Store })},
		{"role", "QUORATE_ROLE", "role", "what this process does where several share a store: all, api, ingest or sign", func(c *config, v string) error {
			c.Role = role(v)
			return nil
		}},
		{"store-read", "QUORATE_STORE_READ", "url[,url]", "servers that follow the one of --store, for the Data API to read from", func(c *config, v string) error {
			c.StoreRead = strings.Split(v, ",")
			return nil
		}},
		{"memory-limit", "QUORATE_MEMORY_LIMIT", "size", "memory to make do with, such as 512MiB", func(c *config, v string) error { return c.MemoryLimit.parse(v) }},
		{"archive-limit", "QUORATE_ARCHIVE_LIMIT", "size", "disk space for signed messages, such as 512MiB", func(c *config, v string) error { return c.ArchiveLimit.parse(v) }},
		{"client-compat", "QUORATE_CLIENT_COMPAT", "mode", "answers in the generated clients' form: auto, on or off", text(func(c *config) *string { return &c.ClientCompat })},
		{"request-timeout", "QUORATE_REQUEST_TIMEOUT", "duration", "time for one request", duration(func(c *config) *time.Duration { return &c.RequestTimeout })},
		{"tls-cert", "QUORATE_TLS_CERT", "file", "certificate (PEM) to serve HTTPS with", text(func(c *config) *string { return &c.TLS.Cert })},
		{"tls-key", "QUORATE_TLS_KEY", "file", "the certificate's key (PEM)", text(func(c *config) *string { return &c.TLS.Key })},
		{"limits-body", "QUORATE_LIMITS_BODY", "size", "the most that a request's body may have", sized(func(c *config) *size { return &c.Limits.Body })},
		{"limits-header", "QUORATE_LIMITS_HEADER", "size", "the most that a request's headers may have", sized(func(c *config) *size { return &c.Limits.Header })},
		{"limits-header-time", "QUORATE_LIMITS_HEADER_TIME", "duration", "time for a request's headers to arrive", duration(func(c *config) *time.Duration { return &c.Limits.HeaderTime })},
		{"limits-body-time", "QUORATE_LIMITS_BODY_TIME", "duration", "time for a request's body to arrive", duration(func(c *config) *time.Duration { return &c.Limits.BodyTime })},
		{"limits-stall", "QUORATE_LIMITS_STALL", "duration", "how long a client may take nothing of an answer", duration(func(c *config) *time.Duration { return &c.Limits.Stall })},
		{"limits-connections", "QUORATE_LIMITS_CONNECTIONS", "number", "open connections in all; 0 for no bound", number(func(c *config) *int { return &c.Limits.Connections })},
		{"limits-connections-per-address", "QUORATE_LIMITS_CONNECTIONS_PER_ADDRESS", "number", "open connections of one client address; 0 for no bound", number(func(c *config) *int { return &c.Limits.ConnectionsPerAddress })},
		{"log-level", "QUORATE_LOG_LEVEL", "level", "debug, info, warn or error", text(func(c *config) *string { return &c.LogLevel })},
		{"admin", "QUORATE_ADMIN", "", "let operators change names and levels, and write profiles, at /ext/admin of the private address", func(c *config, v string) (err error) {
			if c.NodeAPI.Admin, err = strconv.ParseBool(v); err != nil {
				return fmt.Errorf("%q is neither true nor false", v)
			}
			return nil
		}},
		{"network", "QUORATE_NETWORKS", "name=url[,url]", "network to serve and the nodes to ask, repeatable (in the environment, separated by semicolons)", (*config).addNetworks},
		{"allow-private-ips", "QUORATE_ALLOW_PRIVATE_IPS", "", "connect to validators at private addresses, for all networks", func(c *config, v string) error {
			allow, err := strconv.ParseBool(v)
			if err != nil {
				return fmt.Errorf("%q is neither true nor false", v)
			}
			c.forAll(func(n *networkConfig) { n.AllowPrivateIPs = allow })
			return nil
		}},
		{"record", "QUORATE_RECORD", "what", "what to record of the chains, for all networks: all, primary for all but EVM chains, or l1 for what signing needs", func(c *config, v string) error {
			c.forAll(func(n *networkConfig) { n.Record = v })
			return nil
		}},
		{"ahead-rounds", "QUORATE_AHEAD_ROUNDS", "number", "messages to sign at a time before anyone asks, for all networks; 0 for none", func(c *config, v string) error {
			rounds, err := strconv.Atoi(v)
			if err != nil {
				return fmt.Errorf("%q is no number", v)
			}
			c.forAll(func(n *networkConfig) { n.AheadRounds = &rounds })
			return nil
		}},
	}
}

// forAll changes all networks.
func (c *config) forAll(change func(*networkConfig)) {
	for name, n := range c.Networks {
		change(&n)
		c.Networks[name] = n
	}
}

// addNetworks reads name=url[,url], several separated by semicolons. It replaces
// the nodes that were known of a network.
func (c *config) addNetworks(text string) error {
	for part := range strings.SplitSeq(text, ";") {
		name, urls, ok := strings.Cut(strings.TrimSpace(part), "=")
		if !ok || name == "" || urls == "" {
			return fmt.Errorf("%q is not of the form name=url[,url], such as fuji=http://127.0.0.1:9650", part)
		}
		n := c.Networks[name]
		n.Nodes = strings.Split(urls, ",")
		c.Networks[name] = n
	}
	return nil
}

// addFlags declares the flags of all settings.
func addFlags(flags *pflag.FlagSet) {
	flags.String("config", "", "configuration `file` (YAML; config.example.yaml explains it)")
	for _, s := range settings() {
		usage := s.usage
		if s.value != "" {
			usage = fmt.Sprintf("%s (`%s`)", usage, s.value)
		}
		switch s.flag {
		case "network":
			flags.StringArray(s.flag, nil, usage)
		case "allow-private-ips", "admin":
			flags.Bool(s.flag, false, usage)
		default:
			flags.String(s.flag, "", usage)
		}
	}
}

// load puts the configuration together and checks it. The error has all problems.
func load(cmd *cobra.Command, environ []string) (config, error) {
	s := look(cmd, environ)
	if len(s.problems) > 0 {
		return s.config, usage(errors.Join(s.problems...), s.hint)
	}
	return s.config, nil
}

// look puts the configuration together, with all that is wrong with it.
func look(cmd *cobra.Command, environ []string) *survey {
	s := &survey{config: defaults(), origins: make(map[string]string)}
	if path, _ := cmd.Flags().GetString("config"); path != "" {
		s.readFile(path)
	}
	known := settings()
	for _, variable := range environ {
		name, _, _ := strings.Cut(variable, "=")
		if strings.HasPrefix(name, "QUORATE_") && !slices.ContainsFunc(known, func(s setting) bool { return s.env == name }) {
			s.wrong("", fmt.Errorf("unknown environment variable %s%s", name, suggest(name, envNames(known))))
		}
	}
	for _, k := range known { // in order, since the last ones apply to all networks
		for _, variable := range environ {
			if name, value, _ := strings.Cut(variable, "="); name == k.env && value != "" {
				if err := s.apply(k.env, func(c *config) error { return k.set(c, value) }); err != nil {
					s.wrong("", fmt.Errorf("environment variable %s: %w", k.env, err))
				}
			}
		}
	}
	for _, k := range known {
		f := cmd.Flags().Lookup(k.flag)
		if f == nil || !f.Changed {
			continue
		}
		values := []string{f.Value.String()}
		if list, ok := f.Value.(pflag.SliceValue); ok {
			values = list.GetSlice()
		}
		for _, v := range values {
			if err := s.apply("--"+k.flag, func(c *config) error { return k.set(c, v) }); err != nil {
				s.wrong("", fmt.Errorf("flag --%s: %w", k.flag, err))
			}
		}
	}
	for _, err := range s.config.problems() {
		s.wrong("", err)
	}
	return s
}

func envNames(known []setting) []string {
	names := make([]string, len(known))
	for i, s := range known {
		names[i] = s.env
	}
	return names
}

// readConfig reads a file that may be something else, or have no end.
func readConfig(path string) (content []byte, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // only read
	if content, err = io.ReadAll(io.LimitReader(file, maxConfig+1)); err == nil && len(content) > maxConfig {
		err = fmt.Errorf("%s is larger than %s", path, size(maxConfig))
	}
	return content, err
}

func (s *survey) readFile(path string) {
	const hint = "Compare it with config.example.yaml."
	content, err := readConfig(path)
	if err != nil {
		s.wrong(hint, fmt.Errorf("reading the configuration: %w", err))
		return
	}
	if err := checkShape(content); err != nil {
		s.wrong(hint, fmt.Errorf("configuration %s: %w", path, err))
		return
	}
	s.file, s.lines = path, linesOf(content)
	c := &s.config
	before := flatten(*c)
	decoder := yaml.NewDecoder(bytes.NewReader(content))
	decoder.KnownFields(true)
	err = decoder.Decode(c)
	if errors.Is(err, io.EOF) { // an empty file
		err = nil
	}
	if err != nil {
		names := strings.NewReplacer(" in type main.config", "", " in type main.networkConfig", " of a network", " in type main.nodeAPIConfig", " of node_api", " in type main.evmConfig", " of an EVM chain", " in type main.metadataConfig", " of metadata", " in type main.surfaceConfig", "", " in type main.limitsConfig", " of limits", " in type main.tlsConfig", " of tls", " in type main.tracingConfig", " of tracing", " in type main.rateClass", " of a rate class", " in type main.tokenConfig", " of a native token", "field ", "unknown key ", "not found", "is not known")
		texts := []string{err.Error()}
		if mistakes, ok := errors.AsType[*yaml.TypeError](err); ok {
			texts = mistakes.Errors // the rest has been decoded
		}
		for i, text := range texts {
			if i == maxMistakes {
				s.wrong(hint, fmt.Errorf("configuration %s: %d mistakes more", path, len(texts)-i))
				break
			}
			s.wrong(hint, fmt.Errorf("configuration %s: %s", path, names.Replace(text)))
		}
	}
	if c.Networks == nil {
		c.Networks = make(map[string]networkConfig)
	}
	for key, value := range flatten(*c) {
		line, given := s.lines[key]
		if given {
			s.origins[key] = path + ":" + strconv.Itoa(line)
		} else if before[key] != value { // within something that is written otherwise
			s.origins[key] = path
		}
	}
}

// check says all that is wrong, by the names of the keys.
func (c *config) check() error { return errors.Join(c.problems()...) }

// problems are all that is wrong; each begins with the name of a key.
func (c *config) problems() (all []error) {
	wrong := func(format string, args ...any) { all = append(all, fmt.Errorf(format, args...)) }
	c.surfaceConfig.check(wrong)
	for key, address := range map[string]string{"listen": c.Listen, "private_listen": c.PrivateListen} {
		if _, port, err := net.SplitHostPort(address); err != nil || port == "" {
			wrong("%s: %q is no address such as 127.0.0.1:8080", key, address)
		}
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
	if c.MemoryLimit < leastMemory {
		wrong("memory_limit: %s is less than %s, which is what it takes", c.MemoryLimit, size(leastMemory))
	}
	if c.MemoryLimit > math.MaxInt64 {
		wrong("memory_limit: %s is more than any machine has", c.MemoryLimit)
	}
	if c.ArchiveLimit < leastArchive {
		wrong("archive_limit: %s is less than %s, the least that is of use", c.ArchiveLimit, size(leastArchive))
	}
	c.NodeAPI.check(c.Networks, wrong)
	if c.DataDir == "" {
		wrong("data_dir is empty; name a folder")
	}
	if err := c.Role.check(c.Store); err != nil {
		wrong("%w", err)
	}
	if c.Store != "" {
		if err := store.CheckPostgresURL(c.Store); err != nil {
			wrong("store: %w", err)
		}
	} else if len(c.StoreRead) > 0 {
		wrong("store_read: there is nothing to follow without store, the server that is written to")
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
	for _, name := range slices.Sorted(maps.Keys(c.Networks)) {
		if strings.ContainsAny(name, "/\\:. \t") || name == "" {
			wrong("networks: %q cannot be a name; use letters, digits and hyphens", name)
		}
		if name == storeFolder {
			wrong("networks: %q cannot be a name, as the data folder keeps the store under it; choose another", name)
		}
		n := c.Networks[name]
		if len(n.Nodes) == 0 {
			wrong("networks.%s.nodes is empty; name at least one node, such as http://127.0.0.1:9650", name)
		}
		if rounds := n.aheadRounds(); rounds < 0 || rounds > 256 {
			wrong("networks.%s.ahead_rounds: %d is not between 0 and 256", name, rounds)
		}
		switch {
		case n.Record != "" && n.Record != recordAll && n.Record != recordPrimary && n.Record != recordL1:
			wrong("networks.%s.record: %q is none of %s, %s and %s", name, n.Record, recordAll, recordPrimary, recordL1)
		case n.ledger() && n.IndexFrom > 0:
			wrong("networks.%s.index_from: only with record: %s; balances need the chain from its beginning", name, recordL1)
		}
		if _, err := n.healthSubnets(); err != nil {
			wrong("networks.%s.health_subnets: %w", name, err)
		}
		switch n.keep() {
		case primary.KeepAll, primary.KeepNeeded, primary.KeepNone:
		default:
			wrong("networks.%s.keep_containers: %q is none of %s, %s, %s", name, n.KeepContainers, primary.KeepAll, primary.KeepNeeded, primary.KeepNone)
		}
		for _, chain := range n.EVM {
			if _, err := node.ParseEndpoint(chain.RPC); err != nil {
				wrong("networks.%s.evm.rpc: %w", name, err)
			}
			if t := chain.NativeToken; t != nil && (t.Name == "" || t.Symbol == "") {
				wrong("networks.%s.evm.native_token: it needs a name and a symbol", name)
			}
		}
		for _, url := range n.Nodes {
			if _, err := node.ParseEndpoint(url); err != nil {
				wrong("networks.%s.nodes: %w", name, err)
			}
		}
	}
	return all
}

// suggest finds the name that was probably meant.
func suggest(name string, known []string) string {
	best, distance := "", 4
	for _, k := range known {
		if d := editDistance(name, k); d < distance {
			best, distance = k, d
		}
	}
	if best == "" {
		return ""
	}
	return "; did you mean " + best + "?"
}

func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := before
			if a[i] != b[j] {
				cost = 1 + min(before, row[j], row[j+1])
			}
			before, row[j+1] = row[j+1], cost
		}
	}
	return row[len(b)]
}
