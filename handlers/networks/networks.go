// Package networks finds the network that a request is for. It is the only place that
// knows the aliases of networks.
package networks

import (
	"maps"
	"slices"
	"strings"

	"github.com/ava-labs/avalanchego/utils/constants"

	"quorate/handlers/apierr"
)

// publicIDs are the network IDs that names in paths imply.
var publicIDs = map[string]uint32{"mainnet": constants.MainnetID, "fuji": constants.FujiID, "testnet": constants.FujiID}

// PublicID returns the ID of the public network of that name. It returns false if there
// is none.
func PublicID(name string) (uint32, bool) {
	id, ok := publicIDs[name]
	return id, ok
}

// alias returns the other name of a network.
func alias(name string) string {
	switch name {
	case "fuji":
		return "testnet"
	case "testnet":
		return "fuji"
	}
	return name
}

// DisplayName returns the name of a network in responses: fuji for testnet.
func DisplayName(name string) string {
	if name == "testnet" {
		return "fuji"
	}
	return name
}

// Directory finds networks by name or alias. The names are configured and never change. A lookup may return another
// network once the network has opened or failed. The zero Directory has no networks. It is safe for concurrent use if
// its function is.
type Directory[N any] struct {
	names   []string // sorted
	get     func(name string) (N, error)
	aliases map[string]string
}

// New returns a directory of the named networks. get returns a network by its configured name, or the error for
// clients. It must not block.
func New[N any](names []string, get func(name string) (N, error)) Directory[N] {
	return Directory[N]{names: slices.Sorted(slices.Values(names)), get: get}
}

// Also returns d with further names of networks, each with the configured name.
func (d Directory[N]) Also(aliases map[string]string) Directory[N] {
	d.aliases = aliases
	return d
}

// Fixed returns a directory of networks that do not change.
func Fixed[N any](all map[string]N) Directory[N] {
	return New(slices.Collect(maps.Keys(all)), func(name string) (N, error) { return all[name], nil })
}

// Names returns the configured names in order.
func (d Directory[N]) Names() []string { return d.names }

// Get returns the network with a configured name.
func (d Directory[N]) Get(name string) (N, error) { return d.get(name) }

// Resolve returns the configured name of the network that a path names, which may be its
// alias. It returns false if no such network is configured.
func (d Directory[N]) Resolve(name string) (configured string, ok bool) {
	for _, candidate := range []string{name, alias(name)} {
		if slices.Contains(d.names, candidate) {
			return candidate, true
		}
	}
	for _, candidate := range []string{name, alias(name)} {
		if configured, ok = d.aliases[candidate]; ok {
			return configured, true
		}
	}
	return "", false
}

// Find returns the network that a path names, and its configured name. subject describes in errors what was requested,
// for example "chain data of "; it may be empty. The error is meant for the client.
func (d Directory[N]) Find(name, subject string) (configured string, network N, err error) {
	configured, ok := d.Resolve(name)
	if ok {
		network, err = d.get(configured)
		return configured, network, err
	}
	served := "none"
	if len(d.names) > 0 {
		served = strings.Join(d.names, ", ")
	}
	if _, public := PublicID(name); public {
		return "", network, apierr.NotFound("network: %s%s is not served here; this instance serves %s", subject, name, served)
	}
	return "", network, apierr.BadRequest("network: %q is no network; use mainnet, fuji or testnet (this instance serves %s)", apierr.Excerpt(name), served)
}
