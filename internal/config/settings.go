package config

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// setting is one value that flags and environment can give.
type setting struct {
	flag, env, value, usage string
	set                     func(c *Config, text string) error
}

func settings() []setting {
	number := func(field func(*Config) *int) func(*Config, string) error {
		return func(c *Config, v string) error {
			n, err := strconv.Atoi(v)
			if err != nil {
				return fmt.Errorf("%q is no number", v)
			}
			*field(c) = n
			return nil
		}
	}
	sized := func(field func(*Config) *Size) func(*Config, string) error {
		return func(c *Config, v string) error { return field(c).parse(v) }
	}
	duration := func(field func(*Config) *time.Duration) func(*Config, string) error {
		return func(c *Config, v string) (err error) {
			*field(c), err = time.ParseDuration(v)
			return err
		}
	}
	text := func(field func(*Config) *string) func(*Config, string) error {
		return func(c *Config, v string) error {
			*field(c) = v
			return nil
		}
	}
	return []setting{
		{"listen", "QUORATE_LISTEN", "address", "public address to listen on", text(func(c *Config) *string { return &c.Listen })},
		{"private-listen", "QUORATE_PRIVATE_LISTEN", "address", "address for metrics and health", text(func(c *Config) *string { return &c.PrivateListen })},
		{"data-dir", "QUORATE_DATA_DIR", "folder", "folder for identities, address books and signed messages", text(func(c *Config) *string { return &c.DataDir })},
		{"store", "QUORATE_STORE", "url", "PostgreSQL server to keep rows on, postgres://user:password@host/database, instead of files in the data folder", text(func(c *Config) *string { return &c.Store })},
		{"role", "QUORATE_ROLE", "role", "what this process does where several share a store: all, api, ingest or sign", func(c *Config, v string) error {
			c.Role = Role(v)
			return nil
		}},
		{"store-read", "QUORATE_STORE_READ", "url[,url]", "servers that follow the one of --store, for the Data API to read from", func(c *Config, v string) error {
			c.StoreRead = strings.Split(v, ",")
			return nil
		}},
		{"memory-limit", "QUORATE_MEMORY_LIMIT", "size", "memory to make do with, such as 512MiB", func(c *Config, v string) error { return c.MemoryLimit.parse(v) }},
		{"archive-limit", "QUORATE_ARCHIVE_LIMIT", "size", "disk space for signed messages, such as 512MiB", func(c *Config, v string) error { return c.ArchiveLimit.parse(v) }},
		{"client-compat", "QUORATE_CLIENT_COMPAT", "mode", "answers in the generated clients' form: auto, on or off", text(func(c *Config) *string { return &c.ClientCompat })},
		{"request-timeout", "QUORATE_REQUEST_TIMEOUT", "duration", "time for one request", duration(func(c *Config) *time.Duration { return &c.RequestTimeout })},
		{"tls-cert", "QUORATE_TLS_CERT", "file", "certificate (PEM) to serve HTTPS with", text(func(c *Config) *string { return &c.TLS.Cert })},
		{"tls-key", "QUORATE_TLS_KEY", "file", "the certificate's key (PEM)", text(func(c *Config) *string { return &c.TLS.Key })},
		{"limits-body", "QUORATE_LIMITS_BODY", "size", "the most that a request's body may have", sized(func(c *Config) *Size { return &c.Limits.Body })},
		{"limits-header", "QUORATE_LIMITS_HEADER", "size", "the most that a request's headers may have", sized(func(c *Config) *Size { return &c.Limits.Header })},
		{"limits-header-time", "QUORATE_LIMITS_HEADER_TIME", "duration", "time for a request's headers to arrive", duration(func(c *Config) *time.Duration { return &c.Limits.HeaderTime })},
		{"limits-body-time", "QUORATE_LIMITS_BODY_TIME", "duration", "time for a request's body to arrive", duration(func(c *Config) *time.Duration { return &c.Limits.BodyTime })},
		{"limits-stall", "QUORATE_LIMITS_STALL", "duration", "how long a client may take nothing of an answer", duration(func(c *Config) *time.Duration { return &c.Limits.Stall })},
		{"limits-connections", "QUORATE_LIMITS_CONNECTIONS", "number", "open connections in all; 0 for no bound", number(func(c *Config) *int { return &c.Limits.Connections })},
		{"limits-connections-per-address", "QUORATE_LIMITS_CONNECTIONS_PER_ADDRESS", "number", "open connections of one client address; 0 for no bound", number(func(c *Config) *int { return &c.Limits.ConnectionsPerAddress })},
		{"limits-rounds", "QUORATE_LIMITS_ROUNDS", "number", "messages of a network that are signed at a time; 0 for no bound", number(func(c *Config) *int { return &c.Limits.Rounds })},
		{"limits-rounds-per-client", "QUORATE_LIMITS_ROUNDS_PER_CLIENT", "number", "messages that are signed at a time for one API key or client address; 0 for no bound", number(func(c *Config) *int { return &c.Limits.RoundsPerClient })},
		{"log-level", "QUORATE_LOG_LEVEL", "level", "debug, info, warn or error", text(func(c *Config) *string { return &c.LogLevel })},
		{"admin", "QUORATE_ADMIN", "", "let operators change names and levels, and write profiles, at /ext/admin of the private address", func(c *Config, v string) (err error) {
			if c.NodeAPI.Admin, err = strconv.ParseBool(v); err != nil {
				return fmt.Errorf("%q is neither true nor false", v)
			}
			return nil
		}},
		{"network", "QUORATE_NETWORKS", "name=url[,url]", "network to serve and the nodes to ask, repeatable (in the environment, separated by semicolons)", (*Config).addNetworks},
		{"node-header", "QUORATE_NODE_HEADERS", "host=name: value", "header for calls to the upstream nodes at a host, repeatable (in the environment, separated by semicolons)", (*Config).addHeaders},
		{"requests-per-second", "QUORATE_REQUESTS_PER_SECOND", "number", "most calls to a network's upstream nodes in a second, for all networks; 0 for no bound", func(c *Config, v string) error {
			n, err := strconv.Atoi(v)
			if err != nil {
				return fmt.Errorf("%q is no number", v)
			}
			c.forAll(func(network *Network) { network.RequestsPerSecond = n })
			return nil
		}},
		{"allow-private-ips", "QUORATE_ALLOW_PRIVATE_IPS", "", "connect to validators at private addresses, for all networks", func(c *Config, v string) error {
			allow, err := strconv.ParseBool(v)
			if err != nil {
				return fmt.Errorf("%q is neither true nor false", v)
			}
			c.forAll(func(n *Network) { n.AllowPrivateIPs = allow })
			return nil
		}},
		{"record", "QUORATE_RECORD", "what", "what to index of the chains, for all networks: l1 for what signing needs (the default), primary for all but EVM chains, or all", func(c *Config, v string) error {
			c.forAll(func(n *Network) { n.Record = v })
			return nil
		}},
		{"ahead-rounds", "QUORATE_AHEAD_ROUNDS", "number", "messages to sign at a time before anyone asks, for all networks; 0 for none", func(c *Config, v string) error {
			rounds, err := strconv.Atoi(v)
			if err != nil {
				return fmt.Errorf("%q is no number", v)
			}
			c.forAll(func(n *Network) { n.AheadRounds = &rounds })
			return nil
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

// addNetworks reads name=url[,url], several separated by semicolons. It replaces
// the nodes that were known of a network.
func (c *Config) addNetworks(text string) error {
	for part := range strings.SplitSeq(text, ";") {
		name, urls, ok := strings.Cut(strings.TrimSpace(part), "=")
		if !ok || name == "" || urls == "" {
			return fmt.Errorf("%q is not of the form name=url[,url], such as fuji=http://127.0.0.1:9650", part)
		}
		n := c.Networks[name]
		n.Nodes = endpointsOf(strings.Split(urls, ","))
		c.Networks[name] = n
	}
	return nil
}

// AddFlags declares the flags of all settings.
func AddFlags(flags *pflag.FlagSet) {
	flags.String("config", "", "configuration `file` (YAML; config.example.yaml explains it)")
	for _, s := range settings() {
		usage := s.usage
		if s.value != "" {
			usage = fmt.Sprintf("%s (`%s`)", usage, s.value)
		}
		switch s.flag {
		case "network", "node-header":
			flags.StringArray(s.flag, nil, usage)
		case "allow-private-ips", "admin":
			flags.Bool(s.flag, false, usage)
		default:
			flags.String(s.flag, "", usage)
		}
	}
}
