package validators

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/bits"
	"slices"
	"sync"
	"time"

	"github.com/maypok86/otter/v2"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/snow/validators"
	"github.com/ava-labs/avalanchego/utils/constants"
	"github.com/ava-labs/avalanchego/utils/crypto/bls"
	"github.com/ava-labs/avalanchego/vms/platformvm"

	"quorate/node"
)

var (
	// ErrUnknownSubnet: the network has no such subnet.
	ErrUnknownSubnet = errors.New("unknown subnet")
	// ErrUnknownBlockchain: the network has no such blockchain, or the node
	// does not run it.
	ErrUnknownBlockchain = errors.New("unknown blockchain")
	// ErrHeightUnavailable: the P-Chain height is above the tip, or the node no
	// longer has it.
	ErrHeightUnavailable = errors.New("P-Chain height is not available")
)

// PChain is what the resolver asks of a node; see package node.
type PChain interface {
	Height(ctx context.Context) (uint64, error)
	ProposedHeight(ctx context.Context) (uint64, error)
	ValidatorsAt(ctx context.Context, subnetID ids.ID, height uint64) (node.ValidatorSet, error)
	AllValidatorsAt(ctx context.Context, height uint64) (map[ids.ID]node.ValidatorSet, error)
	CurrentValidators(ctx context.Context, subnetID ids.ID) ([]node.CurrentValidator, error)
	ValidatedBy(ctx context.Context, blockchainID ids.ID) (ids.ID, error)
	Subnet(ctx context.Context, subnetID ids.ID) (platformvm.GetSubnetResponse, error)
	CurrentEpoch(ctx context.Context, blockchain string) (node.Epoch, error)
}

// Options of a Resolver.
type Options struct {
	// PollInterval is how often the proposed height is asked for; 0 means 500 ms.
	PollInterval time.Duration
	// OnSets, if not nil, is called by Run with all sets of each new proposed
	// height, one call at a time.
	OnSets func(height uint64, sets map[ids.ID]*Set)
	// Log may be nil.
	Log *slog.Logger
}

const (
	defaultPoll  = 500 * time.Millisecond
	fetchTimeout = 15 * time.Second
	// cachedValidators bounds the set cache by the validators in it, of about
	// 100 bytes each, since unchanged sets and keys are shared between heights.
	cachedValidators = 1 << 20
	// minBalance is what an L1 validator needs to stay active for a while, in
	// nAVAX (ACP-77 charges at least 512 nAVAX/s on the public networks).
	minBalance = 2048
	brief      = 2 * time.Second
	forever    = 10 * 365 * 24 * time.Hour
)

// Resolver resolves validator sets through a node. Safe for concurrent use.
type Resolver struct {
	chain PChain
	poll  time.Duration
	log   *slog.Logger
	onSet func(uint64, map[ids.ID]*Set)
	keys  keyring
	sets  *otter.Cache[setID, *Set]

	fetches  *memo[setID, *Set]
	whole    *memo[uint64, map[ids.ID]*Set]
	proposed *memo[struct{}, uint64]
	subnetOf *memo[ids.ID, ids.ID]
	isL1     *memo[ids.ID, bool]
	current  *memo[ids.ID, []node.CurrentValidator]
	epochs   *memo[ids.ID, uint64]

	mu     sync.Mutex
	height uint64          // guarded by mu; newest proposed height whose sets are at hand
	seenAt time.Time       // guarded by mu; when the node last named it; zero before
	latest map[ids.ID]*Set // guarded by mu; of height
}

type setID struct {
	subnet ids.ID
	height uint64
}

// NewResolver makes a Resolver; Run keeps it warm.
func NewResolver(chain PChain, o Options) *Resolver {
	r := &Resolver{chain: chain, poll: o.PollInterval, log: o.Log, onSet: o.OnSets}
	if r.poll == 0 {
		r.poll = defaultPoll
	}
	if r.log == nil {
		r.log = slog.New(slog.DiscardHandler)
	}
	r.sets = otter.Must(&otter.Options[setID, *Set]{
		MaximumWeight: cachedValidators,
		Weigher:       func(_ setID, s *Set) uint32 { return uint32(len(s.Validators)) + 8 },
	})
	once := func(*Set, error) time.Duration { return 0 } // r.sets remembers
	r.fetches = newMemo(fetchTimeout, once, r.fetch)
	r.whole = newMemo(fetchTimeout, func(map[ids.ID]*Set, error) time.Duration { return 0 }, r.fetchAll)
	r.proposed = newMemo(fetchTimeout, func(_ uint64, err error) time.Duration {
		if err != nil {
			return 0
		}
		return r.poll
	}, func(ctx context.Context, _ struct{}) (uint64, error) { return chain.ProposedHeight(ctx) })
	r.subnetOf = newMemo(fetchTimeout, func(_ ids.ID, err error) time.Duration {
		if err == nil {
			return forever
		}
		return refusalLife(err)
	}, r.askSubnetOf)
	r.isL1 = newMemo(fetchTimeout, func(l1 bool, err error) time.Duration {
		if l1 && err == nil {
			return forever
		}
		return refusalLife(err) // a subnet may be converted at any time
	}, r.askL1)
	r.current = newMemo(fetchTimeout, func(_ []node.CurrentValidator, err error) time.Duration { return refusalLife(err) }, chain.CurrentValidators)
	r.epochs = newMemo(fetchTimeout, func(_ uint64, err error) time.Duration {
		if err != nil {
			return refusalLife(err)
		}
		return r.poll
	}, r.askEpoch)
	return r
}

// refusalLife is how long the answer to a question that may change is kept; a
// node that could not be reached is asked again at once.
func refusalLife(err error) time.Duration {
	var refused *node.RPCError
	if err == nil || errors.As(err, &refused) || errors.Is(err, ErrUnknownBlockchain) {
		return brief
	}
	return 0
}

// Set is the canonical validator set of a subnet at a P-Chain height; 0 means
// the height that is currently proposed. Errors: ErrUnknownSubnet,
// ErrHeightUnavailable, or the node's.
func (r *Resolver) Set(ctx context.Context, subnetID ids.ID, height uint64) (*Set, error) {
	if height == 0 {
		warm, ok := r.ProposedHeight()
		if !ok {
			var err error
			if warm, err = r.proposed.get(ctx, struct{}{}); err != nil {
				return nil, fmt.Errorf("asking for the proposed height: %w", err)
			}
		}
		height = warm
	}
	id := setID{subnetID, height}
	if s, ok := r.sets.GetIfPresent(id); ok {
		return s, nil
	}
	return r.fetches.get(ctx, id)
}

// ProposedHeight is the newest proposed height whose sets are at hand; false if
// the follower is not running or the node has not answered lately.
func (r *Resolver) ProposedHeight() (uint64, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.height, time.Since(r.seenAt) < 4*r.poll+time.Second
}

// fetch asks the node for one set.
func (r *Resolver) fetch(ctx context.Context, id setID) (*Set, error) {
	raw, err := r.chain.ValidatorsAt(ctx, id.subnet, id.height)
	if err != nil {
		var refused *node.RPCError
		if !errors.As(err, &refused) {
			return nil, fmt.Errorf("asking for the set of subnet %s at height %d: %w", id.subnet, id.height, err)
		}
		tip, tipErr := r.chain.Height(ctx)
		if tipErr == nil && id.height > tip {
			return nil, fmt.Errorf("%w: %d is above the tip, %d", ErrHeightUnavailable, id.height, tip)
		}
		if known, knownErr := r.known(ctx, id.subnet); knownErr == nil && !known {
			return nil, fmt.Errorf("%w %s", ErrUnknownSubnet, id.subnet)
		}
		return nil, fmt.Errorf("%w: %d: %w", ErrHeightUnavailable, id.height, err)
	}
	if len(raw.Validators) == 0 {
		known, err := r.known(ctx, id.subnet)
		if err != nil {
			return nil, fmt.Errorf("asking for subnet %s: %w", id.subnet, err)
		}
		if !known {
			return nil, fmt.Errorf("%w %s", ErrUnknownSubnet, id.subnet)
		}
	}
	s, err := r.canonical(id.subnet, id.height, raw)
	if err != nil {
		return nil, err
	}
	r.sets.Set(id, s)
	return s, nil
}

func (r *Resolver) known(ctx context.Context, subnetID ids.ID) (bool, error) {
	if subnetID == constants.PrimaryNetworkID {
		return true, nil
	}
	_, err := r.chain.Subnet(ctx, subnetID)
	var refused *node.RPCError
	if errors.As(err, &refused) {
		return false, nil
	}
	return err == nil, err
}

// fetchAll asks the node for the sets of all subnets at a height. A node that
// does not know the call is asked for the primary network's alone.
func (r *Resolver) fetchAll(ctx context.Context, height uint64) (map[ids.ID]*Set, error) {
	all, err := r.chain.AllValidatorsAt(ctx, height)
	var refused *node.RPCError
	if errors.As(err, &refused) {
		primary, err := r.chain.ValidatorsAt(ctx, constants.PrimaryNetworkID, height)
		if err != nil {
			return nil, fmt.Errorf("asking for the primary network's set at height %d: %w", height, err)
		}
		all = map[ids.ID]node.ValidatorSet{constants.PrimaryNetworkID: primary}
	} else if err != nil {
		return nil, fmt.Errorf("asking for all sets at height %d: %w", height, err)
	}
	sets := make(map[ids.ID]*Set, len(all))
	for subnetID, raw := range all {
		s, err := r.canonical(subnetID, height, raw)
		if err != nil {
			// One subnet whose weights overflow must not hide the others.
			r.log.Warn("unusable validator set", slog.String("subnetID", subnetID.String()), slog.Uint64("height", height), slog.Any("error", err))
			continue
		}
		sets[subnetID] = s
		r.sets.Set(setID{subnetID, height}, s)
	}
	return sets, nil
}

// canonical merges validators by key, as snow/validators.FlattenValidatorSet
// does, and shares keys and unchanged sets with those already known.
func (r *Resolver) canonical(subnetID ids.ID, height uint64, raw node.ValidatorSet) (*Set, error) {
	merged := make(map[[bls.PublicKeyLen]byte]*validators.Warp, len(raw.Validators))
	var keyed uint64
	for _, v := range raw.Validators {
		if v.Key == nil {
			continue
		}
		key, err := r.keys.parse(v.Key)
		if err != nil {
			return nil, fmt.Errorf("reading the set of subnet %s at height %d: %w: %w", subnetID, height, node.ErrMalformed, err)
		}
		sum, overflow := bits.Add64(keyed, v.Weight, 0)
		if overflow != 0 || sum > raw.TotalWeight {
			return nil, fmt.Errorf("reading the set of subnet %s at height %d: %w: its weights exceed their total", subnetID, height, node.ErrMalformed)
		}
		keyed = sum
		w, ok := merged[[bls.PublicKeyLen]byte(v.Key)]
		if !ok {
			w = &validators.Warp{PublicKey: key.point, PublicKeyBytes: key.uncompressed}
			merged[[bls.PublicKeyLen]byte(v.Key)] = w
		}
		w.Weight += v.Weight
		w.NodeIDs = append(w.NodeIDs, v.NodeIDs...)
	}
	warp := validators.WarpSet{TotalWeight: raw.TotalWeight, Validators: make([]*validators.Warp, 0, len(merged))}
	for _, w := range merged {
		slices.SortFunc(w.NodeIDs, func(a, b ids.NodeID) int { return a.Compare(b) })
		warp.Validators = append(warp.Validators, w)
	}
	slices.SortFunc(warp.Validators, func(a, b *validators.Warp) int { return bytes.Compare(a.PublicKeyBytes, b.PublicKeyBytes) })
	s := NewSet(subnetID, height, warp)
	r.mu.Lock()
	defer r.mu.Unlock()
	if before, ok := r.latest[subnetID]; ok && before.fingerprint == s.fingerprint && sameNodes(before, s) {
		return before.at(height), nil
	}
	return s, nil
}

func sameNodes(a, b *Set) bool {
	for i, v := range a.Validators {
		if !slices.Equal(v.NodeIDs, b.Validators[i].NodeIDs) {
			return false
		}
	}
	return true
}

// SubnetOf is the subnet that validates a blockchain. The P-Chain's is the
// primary network. Errors: ErrUnknownBlockchain, or the node's.
func (r *Resolver) SubnetOf(ctx context.Context, blockchainID ids.ID) (ids.ID, error) {
	if blockchainID == constants.PlatformChainID {
		return constants.PrimaryNetworkID, nil
	}
	return r.subnetOf.get(ctx, blockchainID)
}

func (r *Resolver) askSubnetOf(ctx context.Context, blockchainID ids.ID) (ids.ID, error) {
	subnetID, err := r.chain.ValidatedBy(ctx, blockchainID)
	var refused *node.RPCError
	if errors.As(err, &refused) {
		return ids.Empty, fmt.Errorf("%w %s: %w", ErrUnknownBlockchain, blockchainID, err)
	}
	return subnetID, err
}

// EpochHeight is the P-Chain height of a blockchain's current epoch, against
// which it verifies Warp messages (ACP-181). Errors: ErrUnknownBlockchain if the
// node does not run it, or the node's.
func (r *Resolver) EpochHeight(ctx context.Context, blockchainID ids.ID) (uint64, error) {
	return r.epochs.get(ctx, blockchainID)
}

func (r *Resolver) askEpoch(ctx context.Context, blockchainID ids.ID) (uint64, error) {
	name := blockchainID.String()
	if blockchainID == constants.PlatformChainID {
		name = "P"
	}
	epoch, err := r.chain.CurrentEpoch(ctx, name)
	var refused *node.RPCError
	if errors.As(err, &refused) {
		return 0, fmt.Errorf("%w %s: %w", ErrUnknownBlockchain, blockchainID, err)
	}
	if err == nil && epoch.PChainHeight == 0 {
		// Before its first epoch a chain verifies against the proposed height.
		return r.chain.ProposedHeight(ctx)
	}
	return epoch.PChainHeight, err
}

// Underfunded lists the canonical indexes of L1 validators all of whose nodes
// have no balance left to speak of, and may be inactive when the message is
// verified. It is empty for other subnets.
func (r *Resolver) Underfunded(ctx context.Context, set *Set) (map[int]struct{}, error) {
	if set.SubnetID == constants.PrimaryNetworkID {
		return nil, nil
	}
	if l1, err := r.isL1.get(ctx, set.SubnetID); err != nil || !l1 {
		return nil, err
	}
	current, err := r.current.get(ctx, set.SubnetID)
	if err != nil {
		return nil, fmt.Errorf("asking for the current validators of subnet %s: %w", set.SubnetID, err)
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

func (r *Resolver) askL1(ctx context.Context, subnetID ids.ID) (bool, error) {
	subnet, err := r.chain.Subnet(ctx, subnetID)
	if err != nil {
		return false, fmt.Errorf("asking for subnet %s: %w", subnetID, err)
	}
	return subnet.ConversionID != ids.Empty, nil
}

// Run follows the proposed height until ctx ends and fetches the sets of each
// new one before anyone asks. Failures are logged when they begin and end.
func (r *Resolver) Run(ctx context.Context) error {
	const slowest = 5 * time.Second
	pause, failing := r.poll, false
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
		err := r.follow(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			if !failing {
				r.log.Warn("cannot follow the P-Chain's validator sets", slog.Any("error", err))
			}
			failing, pause = true, min(2*pause, slowest)
		default:
			if failing {
				r.log.Info("following the P-Chain's validator sets again")
			}
			failing, pause = false, r.poll
		}
		timer.Reset(pause)
	}
}

func (r *Resolver) follow(ctx context.Context) error {
	height, err := r.chain.ProposedHeight(ctx)
	if err != nil {
		return fmt.Errorf("asking for the proposed height: %w", err)
	}
	r.mu.Lock()
	// A node that lags behind another one must not turn time back.
	if !r.seenAt.IsZero() && height <= r.height {
		r.seenAt = time.Now()
		r.mu.Unlock()
		return nil
	}
	r.mu.Unlock()
	sets, err := r.whole.get(ctx, height)
	if err != nil {
		return err
	}
	r.mu.Lock()
	r.height, r.seenAt, r.latest = height, time.Now(), sets
	r.mu.Unlock()
	if r.onSet != nil {
		r.onSet(height, sets)
	}
	return nil
}

// publicKey is a key in the forms that are used, made once.
type publicKey struct {
	point        *bls.PublicKey
	uncompressed []byte
}

// keyring parses each key once: checking one takes 0.1 ms. Bounded; the zero
// value is ready.
type keyring struct {
	mu   sync.Mutex
	keys map[[bls.PublicKeyLen]byte]*publicKey // guarded by mu
}

const maxKeys = 1 << 16

func (k *keyring) parse(compressed []byte) (*publicKey, error) {
	id := [bls.PublicKeyLen]byte(compressed)
	k.mu.Lock()
	key, ok := k.keys[id]
	k.mu.Unlock()
	if ok {
		return key, nil
	}
	point, err := bls.PublicKeyFromCompressedBytes(compressed)
	if err != nil {
		return nil, err
	}
	key = &publicKey{point: point, uncompressed: bls.PublicKeyToUncompressedBytes(point)}
	k.mu.Lock()
	defer k.mu.Unlock()
	if known, ok := k.keys[id]; ok { // another caller was faster: share its
		return known, nil
	}
	if k.keys == nil || len(k.keys) >= maxKeys {
		k.keys = make(map[[bls.PublicKeyLen]byte]*publicKey)
	}
	k.keys[id] = key
	return key, nil
}
