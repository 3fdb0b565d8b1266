package node

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
)

// Peers answers calls from the P-Chain that this process follows over the peer-to-peer network; *peernode.Node implements
// it.
type Peers interface {
	http.RoundTripper
	// Offers reports whether it has an answer to a method at a path, and whether it alone is asked now: otherwise the chain
	// was not executed to its tip yet.
	Offers(path, method string) (offers, now bool)
}

// Standing is what a comparison of an endpoint with the P-Chain found.
type Standing int

// The standings of an endpoint.
const (
	// Unjudged endpoints were not compared.
	Unjudged Standing = iota
	// Agrees means that the endpoint lacks nothing and contradicts nothing.
	Agrees
	// Lags means that the endpoint lacks blocks. It is asked last.
	Lags
	// Lies means that the endpoint reports what the stake has not accepted. It is not asked.
	Lies
)

var errOutvoted = errors.New("it is not asked, because it contradicts the P-Chain that the validators have accepted")

// Each returns a client of each endpoint with a URL, in their order. Judge sets the standing of that endpoint, and the
// client asks the endpoint whatever its standing is.
func (c *Client) Each() []*Client {
	var all []*Client
	for i, e := range c.endpoints {
		if i != c.peersAt {
			all = append(all, c.only(e))
		}
	}
	return all
}

// Executed returns a client of PeersEndpoint alone, nil if that is not among the endpoints.
func (c *Client) Executed() *Client {
	if c.peersAt < 0 {
		return nil
	}
	return c.only(c.endpoints[c.peersAt])
}

// only returns a client of one endpoint, which it shares with c.
func (c *Client) only(e *endpoint) *Client {
	one := &Client{endpoints: []*endpoint{e}, peersAt: -1, judges: true, timeout: c.timeout, limit: c.limit, gate: c.gate, rate: c.rate, log: c.log, http: c.http}
	return one
}

// Name returns the URL of the first endpoint without parts that may be secret, and Host its host and port.
func (c *Client) Name() string { return c.endpoints[0].name }

// Host returns the host and port of the first endpoint.
func (c *Client) Host() string { return c.endpoints[0].base.Host }

// Judge sets the standing of the first endpoint. reason is for errors.
func (c *Client) Judge(s Standing, reason string) {
	e := c.endpoints[0]
	e.mu.Lock()
	defer e.mu.Unlock()
	e.standing, e.reason = s, reason
}

func (e *endpoint) standingNow() (Standing, string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.standing, e.reason
}

// mayAsk returns an error while an endpoint is not to be asked.
func (c *Client) mayAsk(e *endpoint) error {
	if s, reason := e.standingNow(); s == Lies && !c.judges {
		return fmt.Errorf("%w: %s", errOutvoted, reason)
	}
	return e.mayAsk()
}

// order returns the indexes of the endpoints that are asked for methods at a path. PeersEndpoint alone is asked for
// methods that it offers, and the others for the rest. While it cannot answer yet, all are asked. Of several, the first is
// the one that answered latest. The others follow as configured, then those in cool-down, those that lag, and those that
// lie, which exchange and forward refuse to ask.
func (c *Client) order(path string, methods ...string) []int {
	with := c.peersAt >= 0 && len(c.endpoints) == 1
	if c.peersAt >= 0 && !with && c.offered(path, methods) {
		if c.executed(path, methods) {
			return []int{c.peersAt}
		}
		with = true
	}
	var groups [4][]int
	add := func(i int) {
		if i == c.peersAt && !with {
			return
		}
		e, group := c.endpoints[i], 0
		s, _ := e.standingNow()
		switch {
		case s == Lies:
			group = 3
		case s == Lags:
			group = 2
		case e.cooling() || e.held() > 0:
			group = 1
		}
		groups[group] = append(groups[group], i)
	}
	last := int(c.last.Load())
	add(last)
	for i := range c.endpoints {
		if i != last {
			add(i)
		}
	}
	return slices.Concat(groups[:]...)
}

// offered reports whether the peers have an answer to all methods, now or later.
func (c *Client) offered(path string, methods []string) bool {
	return len(methods) > 0 && !slices.ContainsFunc(methods, func(m string) bool {
		offers, _ := c.peers.Offers(path, m)
		return !offers
	})
}

// executed reports whether the peers have an answer to all methods now. Otherwise URLs are asked, and Source will change.
func (c *Client) executed(path string, methods []string) bool {
	now := !slices.ContainsFunc(methods, func(m string) bool {
		_, now := c.peers.Offers(path, m)
		return !now
	})
	if !now {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.unverified = true
	}
	return now
}

// Source returns a number that changes when answers from before may be wrong: URLs answered for PeersEndpoint, and it has
// answers of its own now.
func (c *Client) Source() uint64 {
	if c.peersAt < 0 {
		return 0
	}
	_, now := c.peers.Offers(platformPath, "platform.getHeight")
	c.mu.Lock()
	defer c.mu.Unlock()
	if now && c.unverified {
		c.unverified = false
		c.source++
	}
	return c.source
}
