package handlers

import (
	"encoding/hex"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"quorate/handlers/apierr"
	"quorate/handlers/cb58"
	"quorate/handlers/middleware"
	"quorate/handlers/networks"
	"quorate/handlers/signing"
	"quorate/internal/index"
	"quorate/internal/node"
	"quorate/internal/store"
)

// PrivateOptions configures the private router.
type PrivateOptions struct {
	// Networks are as in Options; only Ready is used.
	Networks map[string]Network
	// Index returns how far the chains of each network are indexed, by network and chain; nil returns none.
	Index func() map[string]map[string]index.Status
	// Unopened returns the configured networks that are not open, and why; nil returns none.
	Unopened func() map[string]error
	// Standbys returns the state of the standbys; nil if there are none.
	Standbys func() []store.StandbyStats
	// Verify verifies the index; nil disables the endpoint.
	Verify Verify
	// Export exports checkpoints of the P-Chain; nil disables the endpoint.
	Export Export
	// Slots are where the indexes are rebuilt; none disables the endpoint.
	Slots []*index.Slots
	// Node serves the operator's node API below /ext and /{network}/ext; nil disables it.
	Node http.Handler
	// Answers is as in Options.
	Answers *node.Budget
	// Gatherer gathers the metrics; nil means none.
	Gatherer prometheus.Gatherer
	// AllowedHosts are the names of the private address; see middleware.Pages.
	AllowedHosts []string
	// Log receives one line per request; nil discards them.
	Log *slog.Logger
}

// NewPrivate returns the private router. No web page of another site may use it. It serves:
//
//   - /metrics
//   - /healthz: the process is alive
//   - /health: a network is ready, as at the public address
//   - /readyz: all networks are ready
//   - /readyz/{network}: the network is ready
//   - /readyz/{network}/{subnetID}: enough validators of the subnet are connected
//   - /index: how far chains are indexed
//   - POST /index/verify: see Verify
//   - POST /index/rebuild
//   - /checkpoint: see Export
//   - /ext: node APIs
func NewPrivate(o PrivateOptions) (*echo.Echo, error) {
	pages, err := middleware.Pages(nil, o.AllowedHosts, forNode)
	if err != nil {
		return nil, err
	}
	e := newEcho(o.Log, nil, pages)
	gatherer := o.Gatherer
	if gatherer == nil {
		gatherer = prometheus.NewRegistry()
	}
	e.GET("/metrics", echo.WrapHandler(promhttp.HandlerFor(gatherer, promhttp.HandlerOpts{
		// A failed collector must not hide the others.
		ErrorHandling: promhttp.ContinueOnError,
	})))
	e.GET("/healthz", func(c echo.Context) error {
		return c.JSON(http.StatusOK, map[string]string{"status": "alive"})
	})
	// A balancer's probe here does not compete with clients for connections.
	e.GET("/health", peerHealth(networks.Fixed(o.Networks)))
	e.GET("/readyz", func(c echo.Context) error {
		return o.sendReadiness(c, o.Networks)
	})
	e.GET("/readyz/:network", func(c echo.Context) error {
		name := c.Param("network")
		n, ok := o.Networks[name]
		if !ok {
			return o.notServed(name)
		}
		return o.sendReadiness(c, map[string]Network{name: n})
	})
	e.GET("/readyz/:network/:subnet", func(c echo.Context) error {
		name, text := c.Param("network"), c.Param("subnet")
		n, ok := o.Networks[name]
		switch {
		case !ok:
			return o.notServed(name)
		case n.SubnetReady == nil:
			return apierr.NotFound("subnet: the readiness of single subnets of %s is not known here; use /readyz/%s", name, name)
		}
		subnet, err := cb58.ID(text)
		if err != nil {
			return apierr.BadRequest("subnet: %q is no subnet ID; give it as base58 with its checksum, as explorers show it", apierr.Excerpt(text))
		}
		err = n.SubnetReady(subnet)
		if errors.Is(err, signing.ErrNoSubnet) {
			return apierr.NotFound("subnet: %s has no validators on %s", subnet, name)
		}
		n.Ready = func() error { return err }
		return PrivateOptions{}.sendReadiness(c, map[string]Network{name: n})
	})
	e.GET("/index", func(c echo.Context) error {
		networks := make(map[string]map[string]ChainStatus)
		if o.Index != nil {
			for name, chains := range o.Index() {
				networks[name] = make(map[string]ChainStatus, len(chains))
				for chain, status := range chains {
					networks[name][chain] = newChainStatus(status)
				}
			}
		}
		status := IndexStatus{Networks: networks}
		if o.Unopened != nil {
			status.NotOpen = make(map[string]string)
			for name, why := range o.Unopened() {
				status.NotOpen[name] = why.Error()
			}
		}
		var err error
		if status.Rebuilds, err = rebuildsOf(c.Request().Context(), o.Slots); err != nil {
			status.RebuildsError = err.Error()
		}
		return c.JSON(http.StatusOK, status)
	})
	if len(o.Slots) > 0 {
		e.POST("/index/rebuild", askRebuild(o.Slots))
	}
	if o.Verify != nil {
		e.POST("/index/verify", verifyIndex(o.Verify))
	}
	if o.Export != nil {
		e.GET("/checkpoint", exportCheckpoint(o.Export, func(err error) {
			if o.Log != nil {
				o.Log.Warn("a checkpoint was not exported to its end", slog.Any("error", err))
			}
		}))
	}
	routeNode(e, o.Node, nil, o.Answers, func() middleware.BodyLimits { return middleware.BodyLimits{Time: 10 * time.Second} })
	return e, nil
}

// notServed returns the error for an unknown network.
func (o PrivateOptions) notServed(name string) error {
	served := strings.Join(slices.Sorted(maps.Keys(o.Networks)), ", ")
	return apierr.NotFound("network: %q is not served here; this instance serves %s", apierr.Excerpt(name), served)
}

// IndexStatus is the answer of /index.
type IndexStatus struct {
	// Networks holds the state of chains by network and chain.
	Networks map[string]map[string]ChainStatus `json:"networks"`
	// NotOpen holds the configured networks that are not open, and why. How far they are indexed is unknown.
	NotOpen map[string]string `json:"notOpen,omitempty"`
	// Rebuilds are the rebuilds in progress.
	Rebuilds []*Rebuild `json:"rebuilds,omitempty"`
	// RebuildsError is why Rebuilds are unknown.
	RebuildsError string `json:"rebuildsError,omitempty"`
}

// ChainStatus is the progress of a chain's index.
type ChainStatus struct {
	State index.State `json:"state"`
	// From is the first indexed height, Next the first one that is not indexed yet, and Tip the last accepted one, if
	// the upstream node has reported it. On the X-Chain they count the genesis and the pre-Cortina transactions before
	// block 0, which are indexed like blocks.
	From uint64  `json:"from"`
	Next uint64  `json:"next"`
	Tip  *uint64 `json:"tip,omitempty"`
	Lag  uint64  `json:"lag"`
	// Rebuilt is the progress of a rebuild, in percent.
	Rebuilt int `json:"rebuilt,omitempty"`

	BlocksPerSecond float64 `json:"blocksPerSecond"`
	// Error is the error that blocks the index. Failing names the failing task, and FailingSince is when it began to
	// fail; both are absent if the index has stopped.
	Error        string     `json:"error,omitempty"`
	Failing      string     `json:"failing,omitempty"`
	FailingSince *time.Time `json:"failingSince,omitempty"`
	// Needs states what upstream nodes lack and what to do about it, if the index waits for that.
	Needs string `json:"needs,omitempty"`
	// Note is a remark about the whole index.
	Note string `json:"note,omitempty"`
	// Proof states which blocks are proven by stake, if any are.
	Proof *ChainProof `json:"proof,omitempty"`
}

// ChainProof states which blocks of an index are proven by stake: transactions, receipts and logs of the blocks From to To
// follow from the hash of the block at Height, which is the payload of the signed message.
type ChainProof struct {
	From          uint64 `json:"from"`
	To            uint64 `json:"to"`
	Height        uint64 `json:"height"`
	Hash          string `json:"hash"`
	SignedMessage string `json:"signedMessage"`
	// SigningSubnetID and PChainHeight name the validator set.
	SigningSubnetID ids.ID `json:"signingSubnetId"`
	PChainHeight    uint64 `json:"pChainHeight"`
}

func newChainStatus(s index.Status) ChainStatus {
	c := ChainStatus{State: s.State, From: s.From, Next: s.Next, Lag: s.Lag(), BlocksPerSecond: s.BlocksPerSecond, Failing: s.Failing, Needs: s.Needs(), Note: s.Note}
	if !s.FailingSince.IsZero() {
		since := s.FailingSince.UTC().Truncate(time.Second)
		c.FailingSince = &since
	}
	if p := s.Proof; p != nil {
		c.Proof = &ChainProof{
			From: p.From, To: p.To, Height: p.Height, Hash: "0x" + hex.EncodeToString(p.Hash[:]), SignedMessage: "0x" + hex.EncodeToString(p.Message),
			SigningSubnetID: p.SigningSubnetID, PChainHeight: p.PChainHeight,
		}
	}
	if s.State == index.Rebuilding {
		c.Rebuilt = s.Rebuilt()
	}
	if s.TipKnown {
		c.Tip = &s.Tip
	}
	if s.Err != nil {
		c.Error = s.Err.Error()
	}
	return c
}

type readiness struct {
	Ready bool `json:"ready"`
	// Reason states what is missing.
	Reason string `json:"reason,omitempty"`
	// Degraded states what fails although requests succeed.
	Degraded string `json:"degraded,omitempty"`
	// Stopped, Stalled, Waiting and Retrying hold the chains whose index is in that state, with the reason. Signing
	// does not depend on the index, so they do not affect readiness.
	Stopped  map[string]string `json:"stopped,omitempty"`
	Stalled  map[string]string `json:"stalled,omitempty"`
	Waiting  map[string]string `json:"waiting,omitempty"`
	Retrying map[string]string `json:"retrying,omitempty"`
	// Notes are remarks about chains, for example that their Warp messages are not followed.
	Notes map[string]string `json:"notes,omitempty"`
	// Lag is the number of accepted blocks that are not indexed yet, by chain, if the last block is known.
	Lag map[string]uint64 `json:"lag,omitempty"`
}

// standby is the state of a standby. Reads avoid a standby that lags or fails and use another one, or the primary
// server. It therefore does not affect readiness.
type standby struct {
	Name string `json:"name"` // host, port and database
	Used bool   `json:"used"`
	// LagSeconds is the replication lag, null if it is unknown.
	LagSeconds *float64 `json:"lagSeconds"`
	Error      string   `json:"error,omitempty"`
}

// longestReason is the maximum length of the reason for which a standby is not read, in bytes.
const longestReason = 300

func newStandby(s store.StandbyStats) standby {
	shown := standby{Name: s.Name, Used: s.Used}
	if s.Known {
		seconds := s.Lag.Seconds()
		shown.LagSeconds = &seconds
	}
	if s.Err != nil {
		text := s.Err.Error()
		shown.Error = text[:min(len(text), longestReason)]
	}
	return shown
}

// reasons returns, by chain, why the indexes in a state are blocked; nil if there are none.
func reasons(chains map[string]index.Status, in index.State) map[string]string {
	var all map[string]string
	for chain, status := range chains {
		if status.Err != nil && status.State == in {
			if all == nil {
				all = make(map[string]string)
			}
			all[chain] = status.Err.Error()
		}
	}
	return all
}

// notes returns the notes of a network's chains.
func notes(chains map[string]index.Status) map[string]string {
	all := make(map[string]string)
	for chain, status := range chains {
		if status.Note != "" {
			all[chain] = status.Note
		}
	}
	return all
}

// lags returns the index lag of a network's chains.
func lags(chains map[string]index.Status) map[string]uint64 {
	var all map[string]uint64
	for chain, status := range chains {
		if status.TipKnown {
			if all == nil {
				all = make(map[string]uint64, len(chains))
			}
			all[chain] = status.Lag()
		}
	}
	return all
}

func (o PrivateOptions) sendReadiness(c echo.Context, networks map[string]Network) error {
	status, all := http.StatusOK, true
	var chains map[string]map[string]index.Status
	if o.Index != nil {
		chains = o.Index()
	}
	var standbys []standby
	if o.Standbys != nil {
		for _, s := range o.Standbys() {
			standbys = append(standbys, newStandby(s))
		}
	}
	rebuilding := make(map[string]string)
	rebuilds, err := rebuildsOf(c.Request().Context(), o.Slots)
	if err != nil {
		rebuilding["all"] = "unknown: the store does not answer"
	}
	for _, r := range rebuilds {
		rebuilding[r.Index] = r.String()
	}
	states := make(map[string]readiness, len(networks))
	for name, n := range networks {
		state := readiness{Ready: true}
		if err := check(n); err != nil {
			state = readiness{Reason: err.Error()}
			status, all = http.StatusServiceUnavailable, false
		} else if n.Degraded != nil {
			if err := n.Degraded(); err != nil {
				state.Degraded = err.Error()
			}
		}
		state.Stopped, state.Stalled = reasons(chains[name], index.Stopped), reasons(chains[name], index.Stalled)
		state.Waiting, state.Retrying = reasons(chains[name], index.Waiting), reasons(chains[name], index.Retrying)
		state.Notes, state.Lag = notes(chains[name]), lags(chains[name])
		states[name] = state
	}
	return c.JSON(status, struct {
		Ready    bool                 `json:"ready"`
		Networks map[string]readiness `json:"networks"`
		Standbys []standby            `json:"standbys,omitempty"`
		// Rebuilding is the progress of rebuilds, by index. The old index serves meanwhile.
		Rebuilding map[string]string `json:"rebuilding,omitempty"`
	}{all, states, standbys, rebuilding})
}

func check(n Network) error {
	if n.Ready == nil {
		return nil
	}
	return n.Ready()
}

// peerHealth is GET /health of the stand-alone aggregator, for tools that wait for it: 200 with status up, or 503 with
// status down. It is up if a network is ready, since a balancer must not take the others out of service, too. It hides
// the reasons, which are for operators.
func peerHealth(all networks.Directory[Network]) echo.HandlerFunc {
	type state struct {
		Status  string           `json:"status"`
		Details map[string]state `json:"details,omitempty"`
	}
	return func(c echo.Context) error {
		status, whole := http.StatusServiceUnavailable, state{Status: "down", Details: make(map[string]state, len(all.Names()))}
		for _, name := range all.Names() {
			one := state{Status: "down"}
			if n, err := all.Get(name); err == nil && check(n) == nil {
				one.Status = "up"
				status, whole.Status = http.StatusOK, "up"
			}
			whole.Details[name] = one
		}
		return c.JSON(status, whole)
	}
}
