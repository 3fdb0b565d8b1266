package delivery

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/upgrade"
	"github.com/ava-labs/avalanchego/utils/constants"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp/message"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp/payload"

	"quorate/aggregator"
	"quorate/internal/node"
	"quorate/validators"
)

// Chains resolves epochs and validator sets; *validators.Resolver implements it. Its errors are those of that type.
type Chains interface {
	// Set returns a set at a P-Chain height; 0 means the proposed height.
	Set(ctx context.Context, subnetID ids.ID, height uint64) (*validators.Set, error)
	// NewestSet returns a set at the height that a node proposes now. Set may return one of shortly before.
	NewestSet(ctx context.Context, subnetID ids.ID) (*validators.Set, error)
	// SetOfEpoch returns a set at the height of an epoch.
	SetOfEpoch(ctx context.Context, subnetID ids.ID, epoch node.Epoch) (*validators.Set, error)
	// SubnetOf returns the subnet that validates a blockchain.
	SubnetOf(ctx context.Context, blockchainID ids.ID) (ids.ID, error)
	// Epoch returns the epoch of a blockchain's next block.
	Epoch(ctx context.Context, blockchainID ids.ID) (node.Epoch, error)
}

// Node reports the rules of blockchains; *node.Client implements it. Its errors are those of that type.
type Node interface {
	// BlockchainID returns the blockchain with an alias.
	BlockchainID(ctx context.Context, alias string) (ids.ID, error)
	// WarpConfigs returns the configurations of a blockchain's Warp precompile.
	WarpConfigs(ctx context.Context, blockchainID ids.ID) (node.WarpConfigs, error)
	// Upgrades returns the upgrades of the network.
	Upgrades(ctx context.Context, networkID uint32) (upgrade.Config, error)
}

var (
	_ Chains = (*validators.Resolver)(nil)
	_ Node   = (*node.Client)(nil)
)

// configLife is how long a chain's configuration is cached. It changes only when the operators of its nodes restart them.
const configLife = time.Minute

// Checker tells whether blockchains of one network would accept messages. It is safe for concurrent use.
type Checker struct {
	networkID uint32
	chains    Chains
	node      Node

	mu       sync.Mutex
	cChain   ids.ID                  // guarded by mu; zero before it is known
	duration time.Duration           // guarded by mu; of an epoch; 0 before it is known
	configs  map[ids.ID]cachedConfig // guarded by mu; of the chains that the node runs
}

type cachedConfig struct {
	configs  node.WarpConfigs
	reported bool // by the node
	until    time.Time
}

// New returns a Checker of a network.
func New(networkID uint32, chains Chains, n Node) *Checker {
	return &Checker{networkID: networkID, chains: chains, node: n, configs: make(map[ids.ID]cachedConfig)}
}

// Check tells whether a blockchain would accept a message. If that cannot be determined, the outcome is Unknown and has
// the reason.
func (c *Checker) Check(ctx context.Context, req Request) *Delivery {
	k := &check{Checker: c, req: req, now: time.Now(), Delivery: &Delivery{DestinationID: req.DestinationID}}
	if err := k.run(ctx); err != nil {
		f, ok := errors.AsType[*failure](err)
		if !ok {
			f = &failure{"checking the delivery", err}
		}
		k.unknown(ctx, f)
	}
	return k.Delivery
}

// check is one check under way.
type check struct {
	*Checker
	*Delivery

	req   Request
	now   time.Time
	epoch node.Epoch
	// fresh means that the destination has made no block. Its first block has no epoch and verifies no messages. The next
	// one begins an epoch at the P-Chain height of the first, whatever the time.
	fresh bool
	// subnet is whose validators the destination verifies against, source and destination the subnets of the two chains.
	subnet, source, destination ids.ID
}

func (k *check) run(ctx context.Context) error {
	if k.req.Message.NetworkID != k.networkID {
		k.refuse(WrongNetwork, "the message belongs to the network with ID %d, the destination to that with ID %d", k.req.Message.NetworkID, k.networkID)
		k.Remedy = "Send the message on the network that it is for, and sign it there."
		return nil
	}
	var err error
	if k.destination, err = k.chains.SubnetOf(ctx, k.req.DestinationID); err != nil {
		return &failure{"finding the destination", err}
	}
	// The epoch comes first, because the node does not know that of a blockchain that it does not run.
	if err := k.findEpoch(ctx); err != nil {
		return err
	}
	active, err := k.findRules(ctx)
	if err != nil {
		return err
	}
	if !active {
		k.refuse(WarpDisabled, "the destination has no Warp precompile that is enabled now, so it verifies no messages")
		k.Remedy = "Deliver to a chain that has it. The operators of an L1 can enable it in the chain's upgrade.json."
		return nil
	}
	if flaw := k.payloadFlaw(); flaw != "" {
		k.refuse(PayloadNotSupported, "%s", flaw)
		k.Remedy = "Send another message: no signature makes this one acceptable."
		return nil
	}
	k.source, err = k.chains.SubnetOf(ctx, k.req.Message.SourceChainID)
	if errors.Is(err, validators.ErrUnknownBlockchain) {
		k.refuse(UnknownSource, "no subnet of this network validates the message's source blockchain %s", k.req.Message.SourceChainID)
		k.Remedy = "Check that the message is one of this network."
		return nil
	}
	if err != nil {
		return &failure{"finding the message's source", err}
	}
	k.subnet = k.verifyingSubnet()
	return k.verify(ctx)
}

// verify compares the signature with the sets, once all else is known.
func (k *check) verify(ctx context.Context) error {
	set, err := k.chains.SetOfEpoch(ctx, k.subnet, k.epoch)
	if k.fresh && err == nil {
		set, err = k.chains.NewestSet(ctx, k.subnet)
	}
	if err != nil {
		return &failure{"reading the set of the destination's epoch", err}
	}
	verdict := k.judge(set)
	k.Set = &Signers{SubnetID: set.SubnetID, PChainHeight: set.Height, Signers: len(verdict.Signers),
		Weight: verdict.Weight, TargetWeight: verdict.TargetWeight, TotalWeight: verdict.TotalWeight}
	switch {
	case !verdict.Valid:
		return k.diagnose(ctx, set, verdict)
	case k.fresh:
		k.firstBlock(set)
	default:
		k.accept(ctx, set)
	}
	return nil
}

// judge verifies the message as the destination would, against a set.
func (k *check) judge(set *validators.Set) *aggregator.Verdict {
	return aggregator.Judge(k.req.Message, set, k.Rules.QuorumPercentage)
}

// verifyingSubnet returns whose validators the destination verifies the message against.
func (k *check) verifyingSubnet() ids.ID {
	if k.source != constants.PrimaryNetworkID {
		return k.source
	}
	// A chain accepts messages of the primary network's chains with the signatures of its own validators.
	// Rules.RequirePrimaryNetworkSigners changes that, except for the P-Chain, which all validators follow.
	if k.Rules.RequirePrimaryNetworkSigners && k.req.Message.SourceChainID != constants.PlatformChainID {
		return k.source
	}
	return k.destination
}

// payloadFlaw returns why the destination accepts no such payload; empty if it does.
func (k *check) payloadFlaw() string {
	parsed, err := payload.Parse(k.req.Message.Payload)
	if err != nil {
		return "the payload is neither an addressed call nor a block hash, and the destination accepts no others"
	}
	if k.req.DestinationID != constants.PlatformChainID {
		return ""
	}
	const accepts = "the P-Chain accepts only RegisterL1Validator and L1ValidatorWeight messages"
	call, ok := parsed.(*payload.AddressedCall)
	if !ok {
		return "the payload is a block hash; " + accepts
	}
	inner, err := message.Parse(call.Payload)
	if err != nil {
		return accepts
	}
	switch inner.(type) {
	case *message.RegisterL1Validator, *message.L1ValidatorWeight:
		return ""
	}
	return fmt.Sprintf("the payload is a %T; %s", inner, accepts)
}

// findRules sets Rules. It returns false if the destination has no Warp precompile.
func (k *check) findRules(ctx context.Context) (active bool, err error) {
	k.Rules = &Rules{QuorumPercentage: aggregator.DefaultQuorumPercentage, Source: FromProtocol}
	if k.req.DestinationID == constants.PlatformChainID {
		return true, nil
	}
	if k.destination == constants.PrimaryNetworkID {
		cChain, err := k.cChainID(ctx)
		return cChain == k.req.DestinationID, err
	}
	cached, err := k.configsOf(ctx, k.req.DestinationID, k.now)
	if err != nil {
		return false, &failure{"reading the destination's Warp configuration", err}
	}
	if !cached.reported {
		k.Rules.Source = Assumed
		return true, nil
	}
	k.Rules.Source = FromChainConfig
	config, active := cached.configs.At(k.now)
	if config.QuorumNumerator != 0 {
		k.Rules.QuorumPercentage = config.QuorumNumerator
	}
	k.Rules.RequirePrimaryNetworkSigners = config.RequirePrimaryNetworkSigners
	return active, nil
}

func (c *Checker) cChainID(ctx context.Context) (ids.ID, error) {
	c.mu.Lock()
	id := c.cChain
	c.mu.Unlock()
	if id != ids.Empty {
		return id, nil
	}
	id, err := c.node.BlockchainID(ctx, "C")
	if err != nil {
		return ids.Empty, &failure{"finding the C-Chain", err}
	}
	c.mu.Lock()
	c.cChain = id
	c.mu.Unlock()
	return id, nil
}

// configsOf returns the configurations of a chain that the node runs.
func (c *Checker) configsOf(ctx context.Context, id ids.ID, now time.Time) (cachedConfig, error) {
	c.mu.Lock()
	cached, ok := c.configs[id]
	c.mu.Unlock()
	if ok && now.Before(cached.until) {
		return cached, nil
	}
	configs, err := c.node.WarpConfigs(ctx, id)
	refused, isRefusal := errors.AsType[*node.RPCError](err)
	if err != nil && !(isRefusal && refused.NotOffered()) {
		return cachedConfig{}, err
	}
	cached = cachedConfig{configs, err == nil, now.Add(configLife)}
	c.mu.Lock()
	c.configs[id] = cached
	c.mu.Unlock()
	return cached, nil
}

// findEpoch sets Epoch and epoch.
func (k *check) findEpoch(ctx context.Context) error {
	var err error
	if k.epoch, err = k.chains.Epoch(ctx, k.req.DestinationID); err != nil {
		return &failure{"reading the destination's epoch", err}
	}
	duration, err := k.epochDuration(ctx)
	if err != nil {
		return err
	}
	k.Epoch = &Epoch{Number: k.epoch.Number, PChainHeight: k.epoch.PChainHeight}
	if k.epoch.Number > 0 {
		k.Epoch.StartTime, k.Epoch.EndTime = k.epoch.StartTime.UTC(), k.epoch.StartTime.Add(duration).UTC()
	}
	// At height 0 there are no L1s that could have made a block with it.
	k.fresh = k.epoch.OfGenesis() && k.destination != constants.PrimaryNetworkID
	return nil
}

// epochDuration returns how long epochs last at least.
func (c *Checker) epochDuration(ctx context.Context) (time.Duration, error) {
	c.mu.Lock()
	known := c.duration
	c.mu.Unlock()
	if known != 0 {
		return known, nil
	}
	upgrades, err := c.node.Upgrades(ctx, c.networkID)
	if errors.Is(err, node.ErrNotOffered) {
		upgrades, err = upgrade.GetConfig(c.networkID), nil
	}
	if err != nil {
		return 0, &failure{"reading how long epochs last", err}
	}
	c.mu.Lock()
	c.duration = upgrades.GraniteEpochDuration
	c.mu.Unlock()
	return upgrades.GraniteEpochDuration, nil
}

// holds reports whether a signature is valid for the validators that it names, whatever their weight.
func holds(m *warp.Message, set *validators.Set) bool { return aggregator.Judge(m, set, 0).Valid }
