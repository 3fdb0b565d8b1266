package validators

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/constants"
	"github.com/ava-labs/avalanchego/vms/platformvm"
	platformapi "github.com/ava-labs/avalanchego/vms/platformvm/api"

	"quorate/internal/bounded"
	"quorate/internal/node"
)

var (
	// ErrUnknownSubnet reports that the network has no such subnet.
	ErrUnknownSubnet = errors.New("unknown subnet")
	// ErrUnknownBlockchain reports that the network has no such blockchain, or that the
	// node does not run it.
	ErrUnknownBlockchain = errors.New("unknown blockchain")
	// ErrHeightUnavailable reports that the P-Chain height is above the tip, or that the
	// node no longer has it.
	ErrHeightUnavailable = errors.New("P-Chain height is not available")
	// ErrHeightTooOld reports that the P-Chain height lies further back than MaxHeightAge.
	ErrHeightTooOld = errors.New("P-Chain height is too old")
)

// PChain is the part of an upstream node's API that a Resolver uses; see package node.
type PChain interface {
	Height(ctx context.Context) (uint64, error)
	ProposedHeight(ctx context.Context) (uint64, error)
	ValidatorsAt(ctx context.Context, subnetID ids.ID, height uint64) (node.ValidatorSet, error)
	AllValidatorsAt(ctx context.Context, height uint64) (map[ids.ID]node.ValidatorSet, error)
	CurrentValidators(ctx context.Context, subnetID ids.ID) ([]node.CurrentValidator, error)
	ValidatedBy(ctx context.Context, blockchainID ids.ID) (ids.ID, error)
	Subnet(ctx context.Context, subnetID ids.ID) (platformvm.GetSubnetResponse, error)
	CurrentEpoch(ctx context.Context, blockchainID ids.ID) (node.Epoch, error)
}

// Options of a Resolver.
type Options struct {
	// PollInterval is the time between two requests for the proposed height; 0 means 500
	// ms. While the height does not change, it grows to 2 s.
	PollInterval time.Duration
	// OnSets, if not nil, receives all sets of each new proposed height from Run, one call
	// at a time.
	OnSets func(height uint64, sets map[ids.ID]*Set)
	// MaxValidators bounds the cache of sets by the validators in them, about 200 bytes
	// each; 0 means 2^19.
	MaxValidators uint64
	// MaxHeightAge is how many blocks a height that Set is called with may lie below the
	// newest proposed height; 0 means any number. The upstream node computes such a set from
	// all changes since then. It does not bound the heights of epochs, which a blockchain chooses.
	MaxHeightAge uint64
	// Enter waits until queries of a total cost may be made for the client of ctx; see
	// node.Client.Enter. Nil means that no query waits.
	Enter func(ctx context.Context, cost int64) (admitted context.Context, leave func(), err error)
	// Source returns a number that changes when answers from before may be wrong. The Resolver
	// then forgets them. Nil means that it never changes.
	Source func() uint64
	// Log receives log lines; nil means no log.
	Log *slog.Logger
}

const (
	defaultPoll       = 500 * time.Millisecond
	defaultValidators = 1 << 19
	// fetchTimeout bounds one request to the node. The sets of all subnets of mainnet are
	// some MB of JSON.
	fetchTimeout = 15 * time.Second
	// setCost is the cost of a set in the cache besides its validators. It bounds the
	// number of sets, including empty ones.
	setCost = 16
	// minBalance is what an L1 validator needs to stay active for a while, in nAVAX (ACP-77
	// charges at least 512 nAVAX/s on the public networks).
	minBalance = 2048
	// brief is how long a result is cached that may change at any time, refusals included;
	// forever is for results that never change.
	brief   = 2 * time.Second
	forever = 10 * 365 * 24 * time.Hour
	// nearTip is how far a height may lie above the cached tip without being refused at once:
	// more blocks than are accepted while the tip is cached.
	nearTip = 64
	// setCalls, epochCalls and otherCalls are the costs of a query for a set of another height,
	// for an epoch and of any other query; see Options.Enter. For a set the node applies all
	// changes since the height, and for an empty one the subnet is requested too. For an epoch
	// validators may be asked (package peernode), about few chains at a time.
	setCalls   = 4
	epochCalls = 4
	otherCalls = 1
)

// Resolver resolves validator sets through a node. It is safe for concurrent use.
type Resolver struct {
	chain PChain
	poll  time.Duration
	log   *slog.Logger
	onSet func(uint64, map[ids.ID]*Set)
	keys  keyring
	sets  *bounded.Cache[setID, *Set]

	maxAge uint64        // see Options.MaxHeightAge
	origin func() uint64 // see Options.Source

	fetches  *cache[setID, *Set]
	proposed *cache[struct{}, uint64]
	tip      *cache[struct{}, uint64]
	subnetOf *cache[ids.ID, ids.ID]
	subnets  *cache[ids.ID, platformvm.GetSubnetResponse]
	current  *cache[ids.ID, []node.CurrentValidator]
	epochs   *cache[ids.ID, node.Epoch]

	mu         sync.Mutex
	height     uint64          // guarded by mu; newest proposed height whose sets are cached
	seenAt     time.Time       // guarded by mu; when the node last reported it; zero before
	reported   uint64          // guarded by mu; highest proposed height that was requested for callers
	reportedAt time.Time       // guarded by mu; when a node last reported it to such a request
	latest     map[ids.ID]*Set // guarded by mu; sets of height; never modified
	wanted     wanted          // guarded by mu
	source     uint64          // guarded by mu; Options.Source of what is cached
	generation uint64          // guarded by mu; see refresh
}

type setID struct {
	subnet ids.ID
	height uint64
}

// NewResolver returns a Resolver. Run fills its caches ahead of requests.
func NewResolver(chain PChain, o Options) *Resolver {
	r := &Resolver{chain: chain, poll: o.PollInterval, log: o.Log, onSet: o.OnSets, maxAge: o.MaxHeightAge, origin: o.Source}
	if r.poll == 0 {
		r.poll = defaultPoll
	}
	if r.log == nil {
		r.log = slog.New(slog.DiscardHandler)
	}
	most := o.MaxValidators
	if most == 0 {
		most = defaultValidators
	}
	r.sets = bounded.New(bounded.Options[setID, *Set]{
		Weight: most,
		Weigh:  func(_ setID, s *Set) uint32 { return uint32(len(s.Validators)) + setCost },
	})
	r.newCaches(chain, o.Enter)
	return r
}

// newCaches sets the caches of the chain's answers. Queries that clients cause with a key of
// their choice wait for enter.
func (r *Resolver) newCaches(chain PChain, enter func(context.Context, int64) (context.Context, func(), error)) {
	entering := func(cost int64) func(context.Context) (context.Context, func(), error) {
		if enter == nil {
			return nil
		}
		return func(ctx context.Context) (context.Context, func(), error) { return enter(ctx, cost) }
	}
	height := func(_ uint64, err error) time.Duration {
		if err != nil {
			return 0
		}
		return r.poll
	}
	r.fetches = newCache(fetchTimeout, func(_ *Set, err error) time.Duration {
		if errors.Is(err, ErrUnknownSubnet) {
			return brief
		}
		return 0 // r.sets caches them
	}, r.fetch)
	r.fetches.enter = entering(setCalls)
	r.proposed = newCache(fetchTimeout, height, r.askProposed)
	r.proposed.lasting = true
	r.tip = newCache(fetchTimeout, height, func(ctx context.Context, _ struct{}) (uint64, error) { return chain.Height(ctx) })
	r.subnetOf = newCache(fetchTimeout, func(_ ids.ID, err error) time.Duration {
		if err == nil {
			return forever
		}
		return refusalLife(err)
	}, r.askSubnetOf)
	r.subnetOf.enter = entering(otherCalls)
	r.subnets = newCache(fetchTimeout, func(subnet platformvm.GetSubnetResponse, err error) time.Duration {
		if err == nil && subnet.ConversionID != ids.Empty {
			return forever
		}
		return refusalLife(err) // a subnet may be created or converted at any time
	}, chain.Subnet)
	r.subnets.enter = entering(otherCalls)
	r.current = newCache(fetchTimeout, func(_ []node.CurrentValidator, err error) time.Duration { return refusalLife(err) }, chain.CurrentValidators)
	r.current.enter = entering(otherCalls)
	r.epochs = newCache(fetchTimeout, func(_ node.Epoch, err error) time.Duration {
		if err != nil {
			return refusalLife(err)
		}
		return r.poll
	}, r.askEpoch)
	r.epochs.enter = entering(epochCalls)
}

// refusalLife returns how long a result that may change is cached. A failure to reach the
// node is not cached.
func refusalLife(err error) time.Duration {
	var rpc *node.RPCError
	if err == nil || errors.As(err, &rpc) {
		return brief
	}
	return 0
}

// refused reports whether the node answered that it has no such thing. Otherwise it did not
// answer, or does not offer the call.
func refused(err error) bool {
	var rpc *node.RPCError
	return errors.As(err, &rpc) && !rpc.NotOffered()
}

// Set returns the canonical validator set of a subnet at a P-Chain height. Height 0 means
// the proposed height. If no node reports it within half a second, it means the last
// reported one, up to a minute old. Errors are ErrUnknownSubnet, ErrHeightUnavailable, ErrHeightTooOld, those of
// Options.Enter, and the node's.
func (r *Resolver) Set(ctx context.Context, subnetID ids.ID, height uint64) (*Set, error) {
	if height == 0 {
		return r.proposedSet(ctx, subnetID)
	}
	id := setID{subnetID, height}
	if _, ok := r.cached(id); !ok {
		if err := r.checkAge(ctx, height); err != nil {
			return nil, err
		}
	}
	return r.concrete(ctx, id)
}

// proposedSet returns a subnet's set at the proposed height. If nodes do not send it within lastAfter, it returns the set
// of the height that Run followed, for the time of an outage.
func (r *Resolver) proposedSet(ctx context.Context, subnetID ids.ID) (*Set, error) {
	height, err := r.proposedHeight(ctx)
	if err != nil {
		return nil, err
	}
	return r.setOrLast(ctx, setID{subnetID, height})
}

// setOrLast returns a set, or that of the height that Run followed as proposedSet does.
func (r *Resolver) setOrLast(ctx context.Context, id setID) (*Set, error) {
	r.mu.Lock()
	last, ok := r.latest[id.subnet]
	ok = ok && time.Since(r.seenAt) < outage
	r.mu.Unlock()
	if !ok {
		return r.concrete(ctx, id)
	}
	asking, stop := context.WithTimeout(ctx, lastAfter)
	defer stop()
	s, err := r.concrete(asking, id)
	if ctx.Err() == nil && (errors.Is(err, node.ErrUnavailable) || errors.Is(err, node.ErrBusy) || errors.Is(err, context.DeadlineExceeded)) {
		return last, nil
	}
	return s, err
}

// NewestSet returns a subnet's set at the height that a node proposes now. The set that Set returns while Run follows the
// height may be two seconds old. NewestSet returns that one if no node reports a higher height and its set within half a
// second each. Errors are Set's.
func (r *Resolver) NewestSet(ctx context.Context, subnetID ids.ID) (*Set, error) {
	asking, stop := context.WithTimeout(ctx, lastAfter)
	defer stop()
	height, err := r.proposed.get(asking, struct{}{})
	if followed, ok := r.ProposedHeight(); err != nil || ok && height <= followed {
		return r.proposedSet(ctx, subnetID)
	}
	return r.setOrLast(ctx, setID{subnetID, height})
}

// checkAge returns ErrHeightTooOld if a height lies too far back.
func (r *Resolver) checkAge(ctx context.Context, height uint64) error {
	if r.maxAge == 0 {
		return nil
	}
	proposed, err := r.proposedHeight(ctx)
	if err == nil && proposed > height && proposed-height > r.maxAge {
		err = fmt.Errorf("%w: %d is %d blocks below the proposed height %d, at most %d are allowed", ErrHeightTooOld, height, proposed-height, proposed, r.maxAge)
	}
	return err
}

// proposedHeight returns the proposed height, or the last reported one if nodes do not report it within lastAfter.
func (r *Resolver) proposedHeight(ctx context.Context) (uint64, error) {
	if warm, ok := r.ProposedHeight(); ok {
		return warm, nil
	}
	asking := ctx
	if _, ok := r.LastHeight(); ok {
		var stop context.CancelFunc
		asking, stop = context.WithTimeout(ctx, lastAfter)
		defer stop()
	}
	reported, err := r.proposed.get(asking, struct{}{})
	if err == nil {
		return reported, nil
	}
	if ctx.Err() == nil {
		if last, ok := r.LastHeight(); ok {
			return last, nil
		}
		if asking.Err() != nil { // the last height became too old meanwhile
			return r.proposedHeight(ctx)
		}
	}
	return 0, fmt.Errorf("requesting the proposed height: %w", err)
}

// askProposed requests the proposed height from the node, and notes it.
func (r *Resolver) askProposed(ctx context.Context, _ struct{}) (uint64, error) {
	generation := r.refresh()
	reported, err := r.chain.ProposedHeight(ctx)
	if err == nil {
		r.noteProposed(generation, reported)
	}
	return reported, err
}

// concrete returns the set at a height; 0 is the genesis.
func (r *Resolver) concrete(ctx context.Context, id setID) (*Set, error) {
	s, err := r.at(ctx, id)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	r.wanted.note(id.subnet)
	r.mu.Unlock()
	return s, nil
}

func (r *Resolver) at(ctx context.Context, id setID) (*Set, error) {
	if s, ok := r.cached(id); ok {
		return s, nil
	}
	return r.fetches.get(ctx, id)
}

func (r *Resolver) cached(id setID) (*Set, bool) {
	r.refresh()
	r.mu.Lock()
	height, latest := r.height, r.latest
	r.mu.Unlock()
	// latest also has the newest sets because a full cache may reject them.
	if s, ok := latest[id.subnet]; ok && id.height == height {
		return s, true
	}
	return r.sets.Get(id)
}

// ProposedHeight returns the newest proposed height whose sets are cached. It returns false
// if Run is not running or the node has not answered recently.
func (r *Resolver) ProposedHeight() (uint64, bool) {
	r.refresh()
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.height, time.Since(r.seenAt) < 4*r.poll+quietPoll
}

// outage is how long the last proposed height stays in use while no node reports one. Sets
// hardly change in that time, and verifiers use a height from some time ago too.
const outage = time.Minute

// lastAfter is how long a caller waits for nodes before it gets the last height or set.
const lastAfter = 500 * time.Millisecond

// noteProposed notes a proposed height that was requested for callers. A node that lags behind another one does not decrease
// the highest one, which is forgotten after the time of an outage: it may have been an error.
func (r *Resolver) noteProposed(generation, height uint64) {
	r.mu.Lock()
	current := generation == r.generation
	newer := current && (height > r.reported || time.Since(r.reportedAt) >= outage)
	if newer || current && height == r.reported {
		r.reported, r.reportedAt = height, time.Now()
	}
	r.mu.Unlock()
	if newer {
		r.forgetRefusals()
	}
}

// forgetRefusals drops the node's refusals, because blocks were accepted since.
func (r *Resolver) forgetRefusals() {
	r.fetches.forgetRefusals()
	r.subnetOf.forgetRefusals()
	r.subnets.forgetRefusals()
	r.epochs.forgetRefusals()
}

// LastHeight returns the highest reported proposed height, and false if the last report is too old. Its sets stay in use
// for a while if no node reports a height.
func (r *Resolver) LastHeight() (height uint64, ok bool) {
	r.refresh()
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Since(r.seenAt) < outage {
		height, ok = r.height, true
	}
	if time.Since(r.reportedAt) < outage {
		height, ok = max(height, r.reported), true
	}
	return height, ok
}

// fetch requests one set from the node.
func (r *Resolver) fetch(ctx context.Context, id setID) (*Set, error) {
	generation := r.refresh()
	if id.height == platformapi.ProposedHeight {
		// The node would return the currently proposed set.
		return nil, r.unavailable(ctx, id, nil)
	}
	if proposed, ok := r.LastHeight(); ok && id.height > proposed+nearTip {
		tip, err := r.tip.get(ctx, struct{}{})
		if err != nil {
			return nil, fmt.Errorf("requesting the P-Chain's height: %w", err)
		}
		if id.height > tip+nearTip {
			return nil, aboveTip(id.height, tip)
		}
	}
	raw, err := r.chain.ValidatorsAt(ctx, id.subnet, id.height)
	if refused(err) {
		return nil, r.unavailable(ctx, id, err)
	}
	if err != nil {
		return nil, fmt.Errorf("requesting the set of subnet %s at height %d: %w", id.subnet, id.height, err)
	}
	if len(raw.Validators) == 0 {
		exists, err := r.exists(ctx, id.subnet)
		if err != nil {
			return nil, fmt.Errorf("requesting subnet %s: %w", id.subnet, err)
		}
		if !exists {
			return nil, fmt.Errorf("%w %s", ErrUnknownSubnet, id.subnet)
		}
	}
	s, err := r.canonical(id.subnet, id.height, raw)
	if err != nil {
		return nil, err
	}
	r.keep(generation, s)
	return s, nil
}

// unavailable returns why the node has no set for id. The text of its own error, err,
// differs between versions, so the node's tip and the existence of the subnet decide.
func (r *Resolver) unavailable(ctx context.Context, id setID, err error) error {
	tip, tipErr := r.chain.Height(ctx)
	if tipErr != nil {
		return fmt.Errorf("no set at height %d; requesting the P-Chain's height: %w", id.height, tipErr)
	}
	if id.height > tip {
		return aboveTip(id.height, tip)
	}
	if exists, existsErr := r.exists(ctx, id.subnet); existsErr == nil && !exists {
		return fmt.Errorf("%w %s", ErrUnknownSubnet, id.subnet)
	}
	return fmt.Errorf("%w: the node no longer has %d, the tip is %d: %w", ErrHeightUnavailable, id.height, tip, err)
}

func aboveTip(height, tip uint64) error {
	return fmt.Errorf("%w: %d is above the tip, %d", ErrHeightUnavailable, height, tip)
}

func (r *Resolver) exists(ctx context.Context, subnetID ids.ID) (bool, error) {
	if subnetID == constants.PrimaryNetworkID {
		return true, nil
	}
	_, err := r.subnets.get(ctx, subnetID)
	if refused(err) {
		return false, nil
	}
	return err == nil, err
}

// SubnetOf returns the subnet that validates a blockchain. The P-Chain's is the
// primary network. Errors: ErrUnknownBlockchain, or the node's.
func (r *Resolver) SubnetOf(ctx context.Context, blockchainID ids.ID) (ids.ID, error) {
	if blockchainID == constants.PlatformChainID {
		return constants.PrimaryNetworkID, nil
	}
	r.refresh()
	return r.subnetOf.get(ctx, blockchainID)
}

func (r *Resolver) askSubnetOf(ctx context.Context, blockchainID ids.ID) (ids.ID, error) {
	subnetID, err := r.chain.ValidatedBy(ctx, blockchainID)
	if refused(err) {
		return ids.Empty, fmt.Errorf("%w %s: %w", ErrUnknownBlockchain, blockchainID, err)
	}
	if err != nil {
		return ids.Empty, fmt.Errorf("requesting the subnet of blockchain %s: %w", blockchainID, err)
	}
	return subnetID, nil
}

// Epoch returns the epoch of the next block of a blockchain (ACP-181). The blockchain verifies Warp messages against the
// sets at its P-Chain height. A blockchain without epochs, which verifies against the proposed height, has the number 0.
// Errors: ErrUnknownBlockchain if the node does not run it, or the node's.
func (r *Resolver) Epoch(ctx context.Context, blockchainID ids.ID) (node.Epoch, error) {
	r.refresh()
	return r.epochs.get(ctx, blockchainID)
}

// EpochHeight returns the P-Chain height of a blockchain's epoch; see Epoch.
func (r *Resolver) EpochHeight(ctx context.Context, blockchainID ids.ID) (uint64, error) {
	epoch, err := r.Epoch(ctx, blockchainID)
	return epoch.PChainHeight, err
}

func (r *Resolver) askEpoch(ctx context.Context, blockchainID ids.ID) (node.Epoch, error) {
	epoch, err := r.chain.CurrentEpoch(ctx, blockchainID)
	var rpc *node.RPCError
	if errors.As(err, &rpc) && rpc.NotOffered() { // there is no API of that blockchain
		return node.Epoch{}, fmt.Errorf("%w %s: %w", ErrUnknownBlockchain, blockchainID, err)
	}
	if err != nil {
		return node.Epoch{}, fmt.Errorf("requesting the epoch of blockchain %s: %w", blockchainID, err)
	}
	if epoch.Number == 0 && epoch.PChainHeight == 0 {
		epoch.PChainHeight, err = r.chain.ProposedHeight(ctx)
	}
	return epoch, err
}

// EpochSet returns a subnet's set at the height of a blockchain's epoch. The blockchain of a subnet that has made no block
// verifies no message in its first one. For it, EpochSet returns the set at the proposed height, where the next epoch
// begins. Errors are Epoch's, SubnetOf's and Set's.
func (r *Resolver) EpochSet(ctx context.Context, subnetID, blockchainID ids.ID) (*Set, error) {
	epoch, err := r.Epoch(ctx, blockchainID)
	if err != nil {
		return nil, err
	}
	if epoch.OfGenesis() {
		of, err := r.SubnetOf(ctx, blockchainID)
		if err != nil {
			return nil, err
		}
		if of != constants.PrimaryNetworkID {
			return r.Set(ctx, subnetID, 0)
		}
	}
	return r.SetOfEpoch(ctx, subnetID, epoch)
}

// SetOfEpoch returns a subnet's set at the height of an epoch. Unlike with Set, height 0 is the genesis, and a height
// may be older than Options.MaxHeightAge. Errors are Set's.
func (r *Resolver) SetOfEpoch(ctx context.Context, subnetID ids.ID, epoch node.Epoch) (*Set, error) {
	return r.concrete(ctx, setID{subnetID, epoch.PChainHeight})
}

// Underfunded returns the canonical indexes of L1 validators that may be inactive when the
// message is verified: all nodes of the key are gone or have hardly any balance (ACP-77).
// It is empty for other subnets. Errors are the node's.
func (r *Resolver) Underfunded(ctx context.Context, set *Set) (map[int]struct{}, error) {
	if set.SubnetID == constants.PrimaryNetworkID {
		return nil, nil
	}
	r.refresh()
	subnet, err := r.subnets.get(ctx, set.SubnetID)
	if err != nil {
		return nil, fmt.Errorf("requesting subnet %s: %w", set.SubnetID, err)
	}
	if subnet.ConversionID == ids.Empty {
		return nil, nil
	}
	current, err := r.current.get(ctx, set.SubnetID)
	if err != nil {
		return nil, fmt.Errorf("requesting the current validators of subnet %s: %w", set.SubnetID, err)
	}
	funded := make(map[ids.NodeID]bool, len(current))
	for _, v := range current {
		// Validators from before the conversion pay no fee and have no balance.
		if v.ValidationID == ids.Empty || v.Balance != nil && *v.Balance >= minBalance {
			funded[v.NodeID] = true
		}
	}
	under := make(map[int]struct{})
	for i, v := range set.Validators {
		if !slices.ContainsFunc(v.NodeIDs, func(nodeID ids.NodeID) bool { return funded[nodeID] }) {
			under[i] = struct{}{}
		}
	}
	return under, nil
}
