package config

import (
	"cmp"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"quorate/handlers/compat"
	"quorate/internal/node"
)

// setting is a value that a flag and an environment variable set.
type setting struct {
	flag, env, usage string
	set              func(c *Config, text string) error
}

// group is a part of the settings. Its title heads them in help texts.
type group struct {
	title    string
	settings []setting
}

// settings returns all settings in the order in which they apply: those that name networks before those that change all.
func settings() (all []setting) {
	for _, g := range groups() {
		all = append(all, g.settings...)
	}
	return all
}

func groups() []group {
	integer := func(set func(*Config, int)) func(*Config, string) error {
		return func(c *Config, v string) error {
			n, err := strconv.Atoi(v)
			if err != nil {
				return fmt.Errorf("%q is no number", v)
			}
			set(c, n)
			return nil
		}
	}
	number := func(field func(*Config) *int) func(*Config, string) error {
		return integer(func(c *Config, n int) { *field(c) = n })
	}
	boolean := func(set func(*Config, bool)) func(*Config, string) error {
		return func(c *Config, v string) error {
			on, err := strconv.ParseBool(v)
			if err != nil {
				return fmt.Errorf("%q is neither true nor false", v)
			}
			set(c, on)
			return nil
		}
	}
	sized := func(field func(*Config) *Size) func(*Config, string) error {
		return func(c *Config, v string) error { return field(c).parse(v) }
	}
	duration := func(field func(*Config) *time.Duration) func(*Config, string) error {
		return func(c *Config, v string) error {
			d, err := time.ParseDuration(v)
			if err != nil {
				return fmt.Errorf("%q is not a duration such as 15s", v)
			}
			*field(c) = d
			return nil
		}
	}
	text := func(field func(*Config) *string) func(*Config, string) error {
		return func(c *Config, v string) error {
			*field(c) = v
			return nil
		}
	}
	return []group{
		{"Networks", []setting{
			{"network", "QUORATE_NETWORKS", "network to serve and its upstream nodes, as `name[=url,url]`; without nodes the P-Chain is followed over the P2P network; repeatable (in the variable, separated by semicolons)", (*Config).addNetworks},
			{"node-header", "QUORATE_NODE_HEADERS", "header of calls to the upstream nodes at a host, as `host[:port]=name:value`; without a port for all ports; repeatable (in the variable, separated by semicolons)", (*Config).addHeaders},
			{"requests-per-second", "QUORATE_REQUESTS_PER_SECOND", "highest `number` of calls to a network's upstream nodes in a second; 0 for no limit", integer(func(c *Config, most int) {
				c.forAll(func(n *Network) { n.RequestsPerSecond = most })
			})},
			{"allow-private-ips", "QUORATE_ALLOW_PRIVATE_IPS", "connect to validators at private addresses", boolean(func(c *Config, allow bool) {
				c.forAll(func(n *Network) { n.AllowPrivateIPs = allow })
			})},
			{"record", "QUORATE_RECORD", "`what` to index of the chains: l1 for what signing needs, primary for all but EVM chains, or all (default l1)", func(c *Config, v string) error {
				c.forAll(func(n *Network) { n.Record = v })
				return nil
			}},
			{"ahead-rounds", "QUORATE_AHEAD_ROUNDS", "`number` of messages to sign at a time before a client asks; 0 for none", integer(func(c *Config, rounds int) {
				c.forAll(func(n *Network) { n.AheadRounds = &rounds })
			})},
		}},
		{"Listeners", []setting{
			{"listen", "QUORATE_LISTEN", "public `address` to listen on", text(func(c *Config) *string { return &c.Listen })},
			{"private-listen", "QUORATE_PRIVATE_LISTEN", "private `address` for metrics and health", text(func(c *Config) *string { return &c.PrivateListen })},
			{"tls-cert", "QUORATE_TLS_CERT", "certificate `file` (PEM) to serve HTTPS with", text(func(c *Config) *string { return &c.TLS.Cert })},
			{"tls-key", "QUORATE_TLS_KEY", "`file` (PEM) with the certificate's key", text(func(c *Config) *string { return &c.TLS.Key })},
			{"request-timeout", "QUORATE_REQUEST_TIMEOUT", "longest `time` for one request", duration(func(c *Config) *time.Duration { return &c.RequestTimeout })},
			{"client-compat", "QUORATE_CLIENT_COMPAT", "`which` clients get answers in the form of generated clients: auto for those, on for all, or off", text(func(c *Config) *string { return &c.ClientCompat })},
			{"admin", "QUORATE_ADMIN", "let operators change names and log levels, and write profiles, at /ext/admin of the private address", boolean(func(c *Config, on bool) { c.NodeAPI.Admin = on })},
		}},
		{"Storage", []setting{
			{"data-dir", "QUORATE_DATA_DIR", "`folder` for identities, address books and the embedded store", text(func(c *Config) *string { return &c.DataDir })},
			{"store", "QUORATE_STORE", "`url` of a PostgreSQL server to use instead of the embedded store, postgres://user:password@host/database", text(func(c *Config) *string { return &c.Store })},
			{"store-read", "QUORATE_STORE_READ", "`url[,url]` of servers that follow the one of --store, for the Data API to read from", func(c *Config, v string) error {
				c.StoreRead = strings.Split(v, ",")
				return nil
			}},
			{"role", "QUORATE_ROLE", "`part` of the work that this process does if several share a store: all, api, ingest or sign", func(c *Config, v string) error {
				c.Role = Role(v)
				return nil
			}},
			{"archive-limit", "QUORATE_ARCHIVE_LIMIT", "disk `space` for signed messages, such as 512MiB", sized(func(c *Config) *Size { return &c.ArchiveLimit })},
			{"memory-limit", "QUORATE_MEMORY_LIMIT", "`memory` to use, such as 512MiB", sized(func(c *Config) *Size { return &c.MemoryLimit })},
		}},
		{"Limits", []setting{
			{"limits-body", "QUORATE_LIMITS_BODY", "largest `size` of a request's body, except for /ext (5 MiB)", sized(func(c *Config) *Size { return &c.Limits.Body })},
			{"limits-header", "QUORATE_LIMITS_HEADER", "largest `size` of a request's headers", sized(func(c *Config) *Size { return &c.Limits.Header })},
			{"limits-header-time", "QUORATE_LIMITS_HEADER_TIME", "longest `time` for a request's headers to arrive", duration(func(c *Config) *time.Duration { return &c.Limits.HeaderTime })},
			{"limits-body-time", "QUORATE_LIMITS_BODY_TIME", "longest `time` for a request's body to arrive", duration(func(c *Config) *time.Duration { return &c.Limits.BodyTime })},
			{"limits-stall", "QUORATE_LIMITS_STALL", "longest `time` that a client may read nothing of an answer", duration(func(c *Config) *time.Duration { return &c.Limits.Stall })},
			{"limits-connections", "QUORATE_LIMITS_CONNECTIONS", "highest `number` of open connections; 0 for no limit", number(func(c *Config) *int { return &c.Limits.Connections })},
			{"limits-connections-per-address", "QUORATE_LIMITS_CONNECTIONS_PER_ADDRESS", "highest `number` of open connections of one client IP address; 0 for no limit", number(func(c *Config) *int { return &c.Limits.ConnectionsPerAddress })},
			{"limits-rounds", "QUORATE_LIMITS_ROUNDS", "highest `number` of messages of a network that are signed at a time; 0 for no limit", number(func(c *Config) *int { return &c.Limits.Rounds })},
			{"limits-rounds-per-client", "QUORATE_LIMITS_ROUNDS_PER_CLIENT", "highest `number` of messages that are signed at a time for one API key or client IP address; 0 for no limit", number(func(c *Config) *int { return &c.Limits.RoundsPerClient })},
		}},
		{"Logs", []setting{
			{"log-level", "QUORATE_LOG_LEVEL", "lowest `level` to log: debug, info, warn or error", text(func(c *Config) *string { return &c.LogLevel })},
			{"log-format", "QUORATE_LOG_FORMAT", "`format` of log lines: text, json, or auto for text on a terminal and json otherwise", text(func(c *Config) *string { return &c.LogFormat })},
		}},
	}
}

// forAll changes all networks.
func (c *Config) forAll(change func(*Network)) {
	for name, n := range c.Networks {
		change(&n)
		c.Networks[name] = n
	}
}

// addNetworks reads name[=url,url], several separated by semicolons. It replaces the nodes of a network that is configured
// already. A name alone means node.PeersEndpoint.
func (c *Config) addNetworks(text string) error {
	given := make(map[string]bool)
	for part := range strings.SplitSeq(text, ";") {
		name, urls, ok := strings.Cut(strings.TrimSpace(part), "=")
		if !ok && !strings.ContainsAny(name, "/:.@ ") { // only URLs have these
			urls = node.PeersEndpoint
		}
		if name == "" || urls == "" {
			return fmt.Errorf("%q is not of the form name[=url,url], such as fuji=http://127.0.0.1:9650", part)
		}
		if given[name] {
			return fmt.Errorf("network %s is given twice; list its nodes as %s=url,url", name, name)
		}
		given[name] = true
		n := c.Networks[name]
		n.Nodes = endpointsOf(strings.Split(urls, ","))
		c.Networks[name] = n
	}
	return nil
}

// GroupAnnotation and ValuesAnnotation are annotations of flags: the title of the group that a flag belongs to, and the
// values that it takes, if they are few.
const (
	GroupAnnotation  = "group"
	ValuesAnnotation = "values"
)

// fewValues are the values of settings that take few.
var fewValues = map[string][]string{
	"record": {RecordL1, RecordPrimary, RecordAll}, "role": {string(RoleAll), string(RoleAPI), string(RoleIngest), string(RoleSign)},
	"client-compat": {string(compat.Auto), string(compat.On), string(compat.Off)}, "log-level": {"debug", "info", "warn", "error"}, "log-format": {"auto", "text", "json"},
}

// AddFlags declares the flags of all settings. Their usage has the variable and the default value.
func AddFlags(flags *pflag.FlagSet) {
	flags.SortFlags = false
	flags.String("config", "", "configuration `file` in YAML (quorate config example prints one)")
	defaults := flatten(Default())
	for _, g := range groups() {
		for _, s := range g.settings {
			usage := fmt.Sprintf("%s [%s]", s.usage, s.env)
			switch s.flag {
			case "network", "node-header":
				flags.StringArray(s.flag, nil, usage)
			case "allow-private-ips", "admin":
				flags.Bool(s.flag, false, usage)
			default:
				flags.String(s.flag, "", usage)
			}
			f := flags.Lookup(s.flag)
			f.DefValue = cmp.Or(defaultOf(defaults, s.flag), f.DefValue)
			f.Annotations = map[string][]string{GroupAnnotation: {g.title}}
			if values := fewValues[s.flag]; values != nil {
				f.Annotations[ValuesAnnotation] = values
			}
		}
	}
}

// defaultOf returns the default value of the key that a flag stands for, empty if the key is one of each network. Help and
// manual pages say ~ for the home folder of the user.
func defaultOf(defaults map[string]string, flag string) string {
	key := strings.ReplaceAll(flag, "-", "_")
	value, ok := defaults[key]
	if !ok {
		value = defaults[strings.Replace(key, "_", ".", 1)] // as limits.body
	}
	if value == "[]" {
		return ""
	}
	if home, err := os.UserHomeDir(); err == nil {
		value = strings.Replace(value, home, "~", 1)
	}
	return value
}
