package main

import (
	"fmt"
)

// role is which part of the work a process does, where several share a store.
type role string

const (
	// roleAll does everything. Of several, one at a time records each network.
	roleAll role = "all"
	// roleAPI answers what is read from the record and what a node answers.
	roleAPI role = "api"
	// roleIngest records.
	roleIngest role = "ingest"
	// roleSign has messages signed.
	roleSign role = "sign"
)

// check says what is wrong with a role beside a store, which is empty if it is in files.
func (r role) check(store string) error {
	switch r {
	case roleAll:
		return nil
	case roleAPI, roleIngest, roleSign:
		if store == "" {
			return fmt.Errorf("role: %s is a part of the work, which needs others for the rest; give them a store that they can share (store: postgres://...)", r)
		}
		return nil
	}
	return fmt.Errorf("role: %q is none of all, api, ingest and sign", string(r))
}

// records, answers and signs say which parts of the work are a role's.
func (r role) records() bool { return r == roleAll || r == roleIngest }

func (r role) answers() bool { return r == roleAll || r == roleAPI }

func (r role) signs() bool { return r == roleAll || r == roleSign }

// connects says whether a role needs the peer-to-peer network.
func (r role) connects() bool { return r != roleIngest }
