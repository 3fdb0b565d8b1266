package config

import (
	"maps"
	"slices"
	"strings"
	"time"

	"quorate/internal/suggest"
)

// NodeAPI configures the APIs of a node, below /ext.
type NodeAPI struct {
	// Network is the network that /ext serves; the others are at /NAME/ext. Empty means
	// the only network, else mainnet, else the first by name.
	Network string `yaml:"network"`
	// AllowedHosts are the host names by which clients may address the service.
	AllowedHosts []string `yaml:"allowed_hosts"`
	// Admin serves /ext/admin at the private address: aliases, log levels and profiles.
	Admin bool `yaml:"admin"`
	// ProfileDir is the folder for profiles. Empty means profiles in the data folder.
	ProfileDir string `yaml:"profile_dir"`
	// HealthInterval is the time between two runs of the checks behind health.
	HealthInterval time.Duration `yaml:"health_interval"`
	// CallsInFlight is the maximum number of calls that are forwarded to one node at a time.
	CallsInFlight int `yaml:"calls_in_flight"`
	// CChainNamespaces are the namespaces of the C-Chain's Ethereum API at the public address; "*" means all.
	CChainNamespaces []string `yaml:"c_chain_namespaces"`
	// SocketsPerClient limits the WebSockets of one client, SocketIdle the time without a message, and SocketLife the
	// life of a WebSocket; 0 means no limit.
	SocketsPerClient int           `yaml:"sockets_per_client"`
	SocketIdle       time.Duration `yaml:"socket_idle"`
	SocketLife       time.Duration `yaml:"socket_life"`
}

func defaultNodeAPI() NodeAPI {
	return NodeAPI{
		AllowedHosts: []string{"localhost"}, HealthInterval: 30 * time.Second, CallsInFlight: 256,
		CChainNamespaces: []string{"eth", "net", "web3", "warp"},
		SocketsPerClient: 64, SocketIdle: 10 * time.Minute, SocketLife: 24 * time.Hour,
	}
}

// PublicNamespaces returns CChainNamespaces, or nil for all namespaces.
func (c NodeAPI) PublicNamespaces() []string {
	if slices.Contains(c.CChainNamespaces, "*") {
		return nil
	}
	return slices.Concat([]string{}, c.CChainNamespaces)
}

// Main returns the name of the network that /ext serves.
func (c NodeAPI) Main(networks map[string]Network) string {
	if c.Network != "" {
		return c.Network
	}
	if _, ok := networks["mainnet"]; ok {
		return "mainnet"
	}
	names := slices.Sorted(maps.Keys(networks))
	if len(names) == 0 {
		return ""
	}
	return names[0]
}

// check reports each mistake to wrong.
func (c NodeAPI) check(networks map[string]Network, wrong func(format string, args ...any)) {
	if _, ok := networks[c.Network]; c.Network != "" && !ok {
		wrong("node_api.network: %q is none of the networks%s", c.Network, suggest.Name(c.Network, slices.Collect(maps.Keys(networks))))
	}
	if c.HealthInterval < 100*time.Millisecond || c.HealthInterval > time.Hour {
		wrong("node_api.health_interval: %s is not between 100ms and 1h", c.HealthInterval)
	}
	if c.CallsInFlight < 1 || c.CallsInFlight > 65536 {
		wrong("node_api.calls_in_flight: %d is not between 1 and 65536", c.CallsInFlight)
	}
	for _, name := range c.CChainNamespaces {
		if strings.ContainsAny(name, "_. ") || name == "" {
			wrong("node_api.c_chain_namespaces: %q is no namespace such as eth", name)
		}
	}
	if c.SocketsPerClient < 0 {
		wrong("node_api.sockets_per_client: %d is negative", c.SocketsPerClient)
	}
	for key, d := range map[string]time.Duration{"socket_idle": c.SocketIdle, "socket_life": c.SocketLife} {
		if d < 0 || d > 0 && d < 100*time.Millisecond {
			wrong("node_api.%s: %s is neither 0 nor at least 100ms", key, d)
		}
	}
}
