package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/constants"
	"github.com/ava-labs/avalanchego/version"

	"quorate/internal/config"
	"quorate/internal/node"
)

const (
	// callTimeout bounds one question to a node.
	callTimeout = 10 * time.Second
	// Peers refuse a handshake if the clocks differ by more than maxSkew (avalanchego, network/peer).
	maxSkew = time.Minute
	// skewWorthSaying is more than a Date header's resolution and a slow answer account for.
	skewWorthSaying = 5 * time.Second
)

// subject is a node under examination.
type subject struct {
	client  *node.Client
	network config.Network
	witness *witness
	// Results of earlier probes.
	networkID uint32
	pHeight   uint64
}

// witness looks at the answers of a node.
type witness struct {
	next http.RoundTripper

	mu      sync.Mutex
	limited int           // guarded by mu: answers with status 429
	skew    time.Duration // guarded by mu: of the node's clock, from the latest answer
	dated   bool          // guarded by mu
}

// RoundTrip implements http.RoundTripper.
func (w *witness) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := w.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if response.StatusCode == http.StatusTooManyRequests {
		w.limited++
	}
	if date, err := http.ParseTime(response.Header.Get("Date")); err == nil {
		// The header has whole seconds: take the middle.
		w.skew, w.dated = time.Until(date.Add(time.Second/2)), true
	}
	return response, nil
}

// probe asks a node for something.
type probe struct {
	check string
	// without is the gravity of not having it with a configuration; empty if it is not needed.
	without func(config.Network) Status
	remedy  string
	ask     func(context.Context, *subject) (detail string, err error)
}

func always(config.Network) Status { return Failure }

func better(config.Network) Status { return Warning }

func forLedger(worse Status) func(config.Network) Status {
	return func(n config.Network) Status {
		if n.RecordsLedger() {
			return worse
		}
		return ""
	}
}

func forEVM(worse Status) func(config.Network) Status {
	return func(n config.Network) Status {
		if n.RecordsEVM() {
			return worse
		}
		return ""
	}
}

// warning wraps what a probe found if it is less than it should be.
type warning struct{ text string }

func (w warning) Error() string { return w.text }

// broken wraps what a probe found if the node cannot be used as it is.
type broken struct{ text string }

func (b broken) Error() string { return b.text }

// nodeProbes are the questions to each node, in order.
var nodeProbes = []probe{
	{"answers", always, "Check the URL and that the node is running.", askIdentity},
	{"bootstrapped", better, "Wait until the node has bootstrapped, or name another one.", askBootstrapped},
	{"version", better, "Update the node, or this service, to the version that the network runs.", askVersion},
	{"upgrades", better, "Update the node: info.upgrades exists since avalanchego 1.13.", askUpgrades},
	{"validator sets", always, "Name a node whose P-Chain API is open (/ext/bc/P).", askSets},
	{"old validator sets", better, "Lower max_height_age, or name a node with full history.", askOldSets},
	{"epoch of the C-Chain", better, "Name a node whose proposervm API is open (/ext/bc/C/proposervm): requests with verifyingBlockchainId need it.", askEpoch},
	{"P-Chain blocks", always, "Name a node with all blocks, or set index_from with record: l1.", askPChainBlocks},
	{"index API", forLedger(Warning), "Start the node with --index-enabled: blocks are then read in ranges.", askIndex},
	{"rewards", forLedger(Warning), "Without platform.getRewardUTXOs, rewards are computed. Name a node that offers it, to compare.", askRewards},
	{"X-Chain blocks", forLedger(Failure), "Name a node whose X-Chain API is open (/ext/bc/X).", askXChainBlocks},
	{"C-Chain logs", better, "Name a node whose Ethereum API is open (/ext/bc/C/rpc): signing by transaction and ahead of requests need it.", askLogs},
	{"C-Chain blocks", forLedger(Failure), "Name a node that was not state-synced for all blocks.", askCChainBlocks},
	{"C-Chain traces", forEVM(Warning), "Internal transactions need debug_traceBlockByNumber: apis: trace in the C-Chain's configuration since Helicon, debug-tracer in eth-apis before, and pruning-enabled: false for old blocks.", askTraces},
}

// examineNode asks one node for everything that the network's configuration needs.
func examineNode(ctx context.Context, area string, e config.Endpoint, s *subject, o Options) []Finding {
	f := &findings{area: area}
	client, err := node.New(node.Options{
		Endpoints: []string{e.URL}, Headers: config.Endpoints{e}.Headers(), Timeout: callTimeout, Log: o.Log,
		Wrap: func(next http.RoundTripper) http.RoundTripper {
			s.witness.next = next
			return s.witness
		},
	})
	if err != nil {
		f.fail("answers", config.Redacted(err).Error(), "Check the URL.")
		return f.list
	}
	defer client.Close()
	s.client = client
	if !s.probe(ctx, f, nodeProbes) {
		return f.list
	}
	s.clock(f)
	s.witness.mu.Lock()
	defer s.witness.mu.Unlock()
	if n := s.witness.limited; n > 0 {
		f.warn("rate", fmt.Sprintf("the node refused %d calls with status 429", n), "Lower requests_per_second to what the node allows, or raise its limit.")
	} else {
		f.ok("rate", "no call was refused")
	}
	return f.list
}

// probe makes the probes that the configuration needs. It stops and reports false if the first one fails.
func (s *subject) probe(ctx context.Context, f *findings, probes []probe) bool {
	for i, p := range probes {
		gravity := p.without(s.network)
		if gravity == "" {
			continue
		}
		detail, err := s.put(ctx, p)
		var less warning
		switch {
		case err == nil:
			f.ok(p.check, detail)
		case errors.As(err, &less):
			f.warn(p.check, less.text, p.remedy)
		case gravity == Warning && !errors.As(err, new(broken)):
			f.warn(p.check, reason(err), p.remedy)
		default:
			f.fail(p.check, reason(err), p.remedy)
			if i == 0 {
				return false
			}
		}
	}
	return true
}

func (s *subject) put(ctx context.Context, p probe) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return p.ask(ctx, s)
}

// reason returns what an error of a call says, without secrets.
func reason(err error) string {
	var refused *node.RPCError
	if errors.As(err, &refused) && refused.NotOffered() {
		text := refused.Method + " is not offered"
		if refused.Code == http.StatusUnauthorized || refused.Code == http.StatusForbidden {
			text += fmt.Sprintf(": status %d; a provider may want a key, which headers or --node-header send", refused.Code)
		}
		return text
	}
	return config.Redacted(err).Error()
}

// clock compares the node's clock with this machine's.
func (s *subject) clock(f *findings) {
	s.witness.mu.Lock()
	skew, dated := s.witness.skew.Abs().Round(time.Second), s.witness.dated
	s.witness.mu.Unlock()
	detail := fmt.Sprintf("differs from the node's by %s", skew)
	const remedy = "Set this machine's clock, or the node's. Validators refuse connections if clocks differ by more than 60 s."
	switch {
	case !dated:
		f.skip("clock", "the node's answers have no date")
	case skew > maxSkew:
		f.fail("clock", detail, remedy)
	case skew > skewWorthSaying:
		f.warn("clock", detail, remedy)
	default:
		f.ok("clock", detail)
	}
}

func askIdentity(ctx context.Context, s *subject) (string, error) {
	var err error
	if s.networkID, err = s.client.NetworkID(ctx); err != nil {
		return "", err
	}
	nodeID, err := s.client.NodeID(ctx)
	if err != nil {
		return fmt.Sprintf("network %d (%s)", s.networkID, constants.NetworkName(s.networkID)), nil //nolint:nilerr // public servers refuse to say
	}
	return fmt.Sprintf("%s, network %d (%s)", nodeID, s.networkID, constants.NetworkName(s.networkID)), nil
}

func askBootstrapped(ctx context.Context, s *subject) (string, error) {
	for _, chain := range []string{"P", "X", "C"} {
		var reply struct {
			IsBootstrapped bool `json:"isBootstrapped"`
		}
		if err := s.client.Call(ctx, "/ext/info", "info.isBootstrapped", map[string]string{"chain": chain}, &reply); err != nil {
			return "", err
		}
		if !reply.IsBootstrapped {
			return "", broken{fmt.Sprintf("the node's %s-Chain is not bootstrapped", chain)}
		}
	}
	return "P, X and C", nil
}

func askVersion(ctx context.Context, s *subject) (string, error) {
	var reply struct {
		Version string `json:"version"`
	}
	if err := s.client.Call(ctx, "/ext/info", "info.getNodeVersion", struct{}{}, &reply); err != nil {
		return "", err
	}
	return fmt.Sprintf("%s; this service speaks as %s", reply.Version, version.Current), nil
}

func askUpgrades(ctx context.Context, s *subject) (string, error) {
	upgrades, err := s.client.Upgrades(ctx, s.networkID)
	if err != nil {
		return "", err
	}
	last := upgrades.HeliconTime
	switch now := time.Now(); {
	case last.Year() >= 9999:
		return "Helicon is not scheduled", nil
	case last.After(now):
		return "Helicon on " + last.UTC().Format(time.RFC3339), nil
	}
	return "Helicon active since " + last.UTC().Format(time.RFC3339), nil
}

func askSets(ctx context.Context, s *subject) (string, error) {
	var err error
	if s.pHeight, err = s.client.Height(ctx); err != nil {
		return "", err
	}
	proposed, err := s.client.ProposedHeight(ctx)
	if err != nil {
		return "", err
	}
	sets, err := s.client.AllValidatorsAt(ctx, proposed)
	var refused *node.RPCError
	if errors.As(err, &refused) && refused.NotOffered() {
		set, err := s.client.ValidatorsAt(ctx, constants.PrimaryNetworkID, proposed)
		if err != nil {
			return "", err
		}
		return "", warning{fmt.Sprintf("%d validators at height %d; platform.getAllValidatorsAt is not offered, so each subnet is asked for", len(set.Validators), proposed)}
	}
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("of all subnets with validators (%d) at height %d; the tip is %d", len(sets), proposed, s.pHeight), nil
}

func askOldSets(ctx context.Context, s *subject) (string, error) {
	if s.pHeight == 0 {
		return "the chain has no block yet", nil
	}
	age := s.network.HeightAge()
	if age == 0 {
		age = s.pHeight
	}
	height := s.pHeight - min(age, s.pHeight)
	if _, err := s.client.ValidatorsAt(ctx, constants.PrimaryNetworkID, max(height, 1)); err != nil {
		return "", fmt.Errorf("at height %d, which max_height_age allows: %w", max(height, 1), err)
	}
	return fmt.Sprintf("back to height %d (max_height_age)", max(height, 1)), nil
}

func askEpoch(ctx context.Context, s *subject) (string, error) {
	blockchainID, err := s.client.BlockchainID(ctx, "C")
	if err != nil {
		return "", err
	}
	epoch, err := s.client.CurrentEpoch(ctx, blockchainID)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("number %d, P-Chain height %d", epoch.Number, epoch.PChainHeight), nil
}

func askPChainBlocks(ctx context.Context, s *subject) (string, error) {
	return blocksFrom(s.pHeight, max(s.network.IndexFrom, 1), func(height uint64) error {
		_, err := s.client.BlockByHeight(ctx, height)
		return err
	})
}

func askIndex(ctx context.Context, s *subject) (string, error) {
	if s.pHeight == 0 {
		return "the chain has no block yet", nil
	}
	last, err := s.client.LastContainer(ctx, node.PChainBlocks)
	if err != nil {
		return "", err
	}
	if last.Index+1 < s.pHeight {
		return "", warning{fmt.Sprintf("it has %d of %d P-Chain blocks: it was switched on later, or is catching up", last.Index+1, s.pHeight)}
	}
	return fmt.Sprintf("%d P-Chain blocks", last.Index+1), nil
}

func askRewards(ctx context.Context, s *subject) (string, error) {
	// A transaction that does not exist has no rewards, or is refused as unknown.
	_, err := s.client.RewardUTXOs(ctx, ids.Empty, 0)
	var refused *node.RPCError
	if err != nil && (!errors.As(err, &refused) || errors.Is(err, node.ErrNotOffered)) {
		return "", err
	}
	return "platform.getRewardUTXOs is offered", nil
}

func askXChainBlocks(ctx context.Context, s *subject) (string, error) {
	height, err := s.client.XChainHeight(ctx)
	if err != nil {
		return "", err
	}
	return blocksFrom(height, 1, func(height uint64) error {
		_, err := s.client.XChainBlock(ctx, height)
		return err
	})
}

func askLogs(ctx context.Context, s *subject) (string, error) {
	return logsOf(ctx, s.client, node.CChainRPC)
}

// logsOf asks for the logs of the newest block of an EVM chain.
func logsOf(ctx context.Context, client *node.Client, path string) (string, error) {
	tip, err := client.EVMHeight(ctx, path)
	if err != nil {
		return "", err
	}
	if _, _, err := client.SentMessages(ctx, path, tip, tip); err != nil {
		return "", err
	}
	return fmt.Sprintf("up to block %d", tip), nil
}

func askCChainBlocks(ctx context.Context, s *subject) (string, error) {
	tip, err := s.client.EVMHeight(ctx, node.CChainRPC)
	if err != nil {
		return "", err
	}
	return blocksFrom(tip, 1, func(height uint64) error {
		_, err := s.client.CChainBlock(ctx, height)
		return err
	})
}

func askTraces(ctx context.Context, s *subject) (string, error) {
	return tracesOf(ctx, s.client, node.CChainRPC)
}

// tracesOf asks for the call traces of the newest and the first block of an EVM chain.
func tracesOf(ctx context.Context, client *node.Client, path string) (string, error) {
	tip, err := client.EVMHeight(ctx, path)
	if err != nil {
		return "", err
	}
	if tip == 0 {
		return "the chain has no block yet", nil
	}
	trace := func(height uint64) error {
		var reply json.RawMessage
		return client.Call(ctx, path, "debug_traceBlockByNumber", []any{fmt.Sprintf("0x%x", height), map[string]string{"tracer": "callTracer"}}, &reply)
	}
	if err := trace(tip); err != nil {
		return "", err
	}
	if err := trace(1); err != nil {
		return "", warning{fmt.Sprintf("block %d can be traced, block 1 cannot: %s", tip, reason(err))}
	}
	return fmt.Sprintf("of blocks 1 and %d", tip), nil
}

// blocksFrom returns from which block on a node has the blocks of a chain. It is a warning if it begins after first.
func blocksFrom(tip, first uint64, fetch func(height uint64) error) (string, error) {
	if tip < first {
		return "the chain has no block yet", nil
	}
	has := func(height uint64) (bool, error) {
		err := fetch(height)
		if errors.As(err, new(*node.RPCError)) || errors.Is(err, node.ErrPruned) || errors.Is(err, node.ErrBeyondTip) {
			return false, nil
		}
		return err == nil, err
	}
	if err := fetch(tip); err != nil {
		return "", err
	}
	if ok, err := has(first); ok || err != nil {
		return fmt.Sprintf("from %d to %d", first, tip), err
	}
	lacking, having := first, tip
	for having-lacking > 1 {
		middle := lacking + (having-lacking)/2
		ok, err := has(middle)
		switch {
		case err != nil:
			return "", err
		case ok:
			having = middle
		default:
			lacking = middle
		}
	}
	return "", warning{fmt.Sprintf("only from %d to %d", having, tip)}
}
