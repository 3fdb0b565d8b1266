// Package uptime returns the uptimes of the primary network's current validators. Only nodes know them, each by its own
// observation, so it asks the upstream node and caches the reply.
package uptime

import (
	"context"
	"time"

	"github.com/ava-labs/avalanchego/ids"
)

// Uptime is what a node observed of a validator.
type Uptime struct {
	// TxID is the transaction that began the validation.
	TxID ids.ID
	// Percent is the share of the validation in which the node was connected to the validator, from 0 to 100.
	Percent float64
	// Connected reports that it is connected now.
	Connected bool
}

// Node is the client of an upstream node. *node.Client implements it.
type Node interface {
	Uptimes(ctx context.Context) (map[ids.NodeID]Uptime, error)
}

const (
	// freshFor is how long a reply is valid. Uptimes change slowly.
	freshFor = time.Minute
	// failedFor is the pause after a failed request.
	failedFor = 10 * time.Second
	// timeout bounds a request.
	timeout = 5 * time.Second
)

// Cache asks a node and caches its reply. It is safe for concurrent use.
type Cache struct {
	node Node
	// asking holds a token while no request is under way. Its holder owns the fields below.
	asking chan struct{}
	known  map[ids.NodeID]Uptime // nil if the node failed; not changed after it is set
	until  time.Time             // of validity
}

// New returns a cache of n's replies.
func New(n Node) *Cache {
	c := &Cache{node: n, asking: make(chan struct{}, 1)}
	c.asking <- struct{}{}
	return c
}

// Uptimes returns the uptimes by node ID. The caller must not change them. It returns nil if the node does not report them
// within 5 s or if ctx ends.
func (c *Cache) Uptimes(ctx context.Context) map[ids.NodeID]Uptime {
	select {
	case <-ctx.Done():
		return nil
	case <-c.asking:
	}
	defer func() { c.asking <- struct{}{} }()
	if time.Now().Before(c.until) {
		return c.known
	}
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	known, err := c.node.Uptimes(limited)
	switch {
	case ctx.Err() != nil: // no failure of the node
		return nil
	case err != nil:
		c.known, c.until = nil, time.Now().Add(failedFor)
		return nil
	}
	c.known, c.until = known, time.Now().Add(freshFor)
	return known
}
