package config

import (
	"fmt"
)

// Role is the work of a process if several share a store.
type Role string

const (
	// RoleAll does everything. Of several such processes, one at a time indexes each network.
	RoleAll Role = "all"
	// RoleAPI serves the Data API, the Metrics API and the node APIs.
	RoleAPI Role = "api"
	// RoleIngest indexes chains.
	RoleIngest Role = "ingest"
	// RoleSign signs messages.
	RoleSign Role = "sign"
)

// check returns what is wrong with the role, given the URL of the shared store; the URL is empty for an embedded store.
func (r Role) check(store string) error {
	switch r {
	case RoleAll:
		return nil
	case RoleAPI, RoleIngest, RoleSign:
		if store == "" {
			return fmt.Errorf("role: %s needs a store that processes of the other roles can share; add one (store: postgres://...)", r)
		}
		return nil
	}
	return fmt.Errorf("role: %q is none of all, api, ingest and sign", string(r))
}

// Indexes reports whether the role indexes chains.
func (r Role) Indexes() bool { return r == RoleAll || r == RoleIngest }

// Answers reports whether the role serves the Data API, the Metrics API and the node APIs.
func (r Role) Answers() bool { return r == RoleAll || r == RoleAPI }

// Signs reports whether the role signs messages.
func (r Role) Signs() bool { return r == RoleAll || r == RoleSign }

// Connects reports whether the role needs the peer-to-peer network.
func (r Role) Connects() bool { return r != RoleIngest }
