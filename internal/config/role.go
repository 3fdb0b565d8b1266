package config

import (
	"fmt"
)

// Role is which part of the work a process does, where several share a store.
type Role string

const (
	// RoleAll does everything. Of several, one at a time records each network.
	RoleAll Role = "all"
	// RoleAPI answers what is read from the record and what a node answers.
	RoleAPI Role = "api"
	// RoleIngest records.
	RoleIngest Role = "ingest"
	// RoleSign has messages signed.
	RoleSign Role = "sign"
)

// check says what is wrong with a role beside a store, which is empty if it is in files.
func (r Role) check(store string) error {
	switch r {
	case RoleAll:
		return nil
	case RoleAPI, RoleIngest, RoleSign:
		if store == "" {
			return fmt.Errorf("role: %s is a part of the work, which needs others for the rest; give them a store that they can share (store: postgres://...)", r)
		}
		return nil
	}
	return fmt.Errorf("role: %q is none of all, api, ingest and sign", string(r))
}

// Records reports whether chains are recorded.
func (r Role) Records() bool { return r == RoleAll || r == RoleIngest }

// Answers reports whether questions are answered from the record, or as a node does.
func (r Role) Answers() bool { return r == RoleAll || r == RoleAPI }

// Signs reports whether messages are signed.
func (r Role) Signs() bool { return r == RoleAll || r == RoleSign }

// Connects says whether a role needs the peer-to-peer network.
func (r Role) Connects() bool { return r != RoleIngest }
