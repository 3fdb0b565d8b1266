package validators

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/snow/validators"
	"github.com/ava-labs/avalanchego/utils/constants"
	"github.com/ava-labs/avalanchego/utils/crypto/bls"
	"github.com/ava-labs/avalanchego/utils/crypto/bls/signer/localsigner"
	"github.com/ava-labs/avalanchego/vms/platformvm"

	"quorate/internal/node"
	"quorate/internal/testenv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// chain is a P-Chain whose replies a test sets.
type chain struct {
	mu          sync.Mutex
	height      uint64
	sets        map[ids.ID]node.ValidatorSet
	l1          map[ids.ID]bool
	current     []node.CurrentValidator
	owner       map[ids.ID]ids.ID
	epoch       uint64
	epochNumber uint64
	err         error
	noAll       bool
	delay       time.Duration
	setCalls    atomic.Int64
	allCalls    atomic.Int64
	calls       atomic.Int64
}

func (c *chain) wait(ctx context.Context) error {
	c.calls.Add(1)
	c.mu.Lock()
	delay, err := c.delay, c.err
	c.mu.Unlock()
	if err != nil {
		return err
	}
	return testenv.Delay(ctx, delay)
}

func (c *chain) Height(ctx context.Context) (uint64, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.height, nil
}

func (c *chain) ProposedHeight(ctx context.Context) (uint64, error) {
	if err := c.wait(ctx); err != nil {
		return 0, err
	}
	return c.Height(ctx)
}

func (c *chain) ValidatorsAt(ctx context.Context, subnetID ids.ID, height uint64) (node.ValidatorSet, error) {
	c.setCalls.Add(1)
	if err := c.wait(ctx); err != nil {
		return node.ValidatorSet{}, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if height > c.height || height == 1 { // 1 was pruned
		return node.ValidatorSet{}, &node.RPCError{Method: "platform.getValidatorsAt", Code: -32000, Message: "no"}
	}
	return c.sets[subnetID], nil
}

func (c *chain) AllValidatorsAt(ctx context.Context, _ uint64) (map[ids.ID]node.ValidatorSet, error) {
	c.allCalls.Add(1)
	if err := c.wait(ctx); err != nil {
		return nil, err
	}
	if c.noAll {
		return nil, &node.RPCError{Method: "platform.getAllValidatorsAt", Code: -32000, Message: `rpc: can't find method "platform.GetAllValidatorsAt"`}
	}
	return c.sets, nil
}

func (c *chain) CurrentValidators(context.Context, ids.ID) ([]node.CurrentValidator, error) {
	return c.current, c.err
}

func (c *chain) ValidatedBy(ctx context.Context, id ids.ID) (ids.ID, error) {
	if err := c.wait(ctx); err != nil {
		return ids.Empty, err
	}
	owner, ok := c.owner[id]
	if !ok {
		return ids.Empty, &node.RPCError{Method: "platform.validatedBy", Message: "not found"}
	}
	return owner, nil
}

func (c *chain) Subnet(_ context.Context, id ids.ID) (platformvm.GetSubnetResponse, error) {
	l1, known := c.l1[id]
	if !known {
		return platformvm.GetSubnetResponse{}, &node.RPCError{Method: "platform.getSubnet", Message: "not found"}
	}
	if l1 {
		return platformvm.GetSubnetResponse{ConversionID: ids.ID{1}}, nil
	}
	return platformvm.GetSubnetResponse{}, nil
}

func (c *chain) CurrentEpoch(_ context.Context, id ids.ID) (node.Epoch, error) {
	if c.err != nil {
		return node.Epoch{}, c.err
	}
	if _, made := c.owner[id]; id != constants.PlatformChainID && !made {
		return node.Epoch{}, &node.RPCError{Code: 404}
	}
	return node.Epoch{PChainHeight: c.epoch, Number: c.epochNumber}, nil
}

// randomSet returns a set in which some validators share keys and some have none, and the
// library's canonical form of it.
func randomSet(t *testing.T, rng *rand.Rand, n int) (node.ValidatorSet, validators.WarpSet) {
	var raw node.ValidatorSet
	outputs := make(map[ids.NodeID]*validators.GetValidatorOutput)
	var keys []*bls.PublicKey
	for i := range n {
		nodeID := ids.NodeID{byte(i), byte(i >> 8), 1}
		o := &validators.GetValidatorOutput{NodeID: nodeID, Weight: 1 + rng.Uint64N(1000)}
		v := node.Validator{Weight: o.Weight, NodeIDs: []ids.NodeID{nodeID}}
		switch {
		case rng.IntN(10) == 0:
		case len(keys) > 0 && rng.IntN(4) == 0:
			o.PublicKey = keys[rng.IntN(len(keys))]
		default:
			signer, err := localsigner.New()
			require.NoError(t, err)
			o.PublicKey = signer.PublicKey()
			keys = append(keys, o.PublicKey)
		}
		if o.PublicKey != nil {
			v.Key = bls.PublicKeyToCompressedBytes(o.PublicKey)
		}
		outputs[nodeID] = o
		raw.Validators = append(raw.Validators, v)
		raw.TotalWeight += v.Weight
	}
	rng.Shuffle(n, func(i, j int) { raw.Validators[i], raw.Validators[j] = raw.Validators[j], raw.Validators[i] })
	flat, err := validators.FlattenValidatorSet(outputs)
	require.NoError(t, err)
	return raw, flat
}

func newChain(t *testing.T) *chain {
	raw, _ := randomSet(t, rand.New(rand.NewPCG(1, 2)), 5)
	return &chain{height: 10, sets: map[ids.ID]node.ValidatorSet{constants.PrimaryNetworkID: raw}}
}

func TestCanonicalSetIsTheLibrarys(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for n := range 40 {
		raw, want := randomSet(t, rng, n)
		r := NewResolver(&chain{height: 10, sets: map[ids.ID]node.ValidatorSet{constants.PrimaryNetworkID: raw}}, Options{})
		got, err := r.Set(t.Context(), constants.PrimaryNetworkID, 9)
		require.NoError(t, err)
		require.Equal(t, want.TotalWeight, got.TotalWeight)
		require.Len(t, got.Validators, len(want.Validators))
		var keyed uint64
		for i, v := range want.Validators {
			require.Equal(t, v.PublicKeyBytes, got.Validators[i].PublicKeyBytes)
			require.Equal(t, v.Weight, got.Validators[i].Weight)
			require.ElementsMatch(t, v.NodeIDs, got.Validators[i].NodeIDs)
			for _, nodeID := range v.NodeIDs {
				index, ok := got.Index(nodeID)
				require.True(t, ok)
				require.Equal(t, i, index)
			}
			keyed += v.Weight
		}
		require.Equal(t, keyed, got.KeyedWeight())
	}
}

func TestKeysAndUnchangedSetsAreShared(t *testing.T) {
	c := newChain(t)
	r := NewResolver(c, Options{})
	f := newFollower(r)
	require.NoError(t, f.follow(t.Context()))
	c.height = 11
	require.NoError(t, f.follow(t.Context()))
	a, err := r.Set(t.Context(), constants.PrimaryNetworkID, 10)
	require.NoError(t, err)
	b, err := r.Set(t.Context(), constants.PrimaryNetworkID, 11)
	require.NoError(t, err)
	require.Equal(t, a.Fingerprint(), b.Fingerprint())
	require.Equal(t, uint64(10), a.Height)
	require.Equal(t, uint64(11), b.Height)
	require.Same(t, a.Validators[0], b.Validators[0])

	// Another weight makes another set with the same keys.
	raw := c.sets[constants.PrimaryNetworkID]
	raw.Validators = slices.Clone(raw.Validators)
	raw.Validators[0].Weight++
	raw.TotalWeight++
	c.sets[constants.PrimaryNetworkID], c.height = raw, 12
	require.NoError(t, f.follow(t.Context()))
	d, err := r.Set(t.Context(), constants.PrimaryNetworkID, 12)
	require.NoError(t, err)
	require.NotEqual(t, a.Fingerprint(), d.Fingerprint())
	for i, v := range d.Validators {
		require.Same(t, a.Validators[i].PublicKey, v.PublicKey)
		require.Same(t, &a.Validators[i].PublicKeyBytes[0], &v.PublicKeyBytes[0])
	}
}

func TestManyCallersOneQuestion(t *testing.T) {
	c := newChain(t)
	c.delay = time.Second
	synctest.Test(t, func(t *testing.T) {
		r := NewResolver(c, Options{})
		var callers sync.WaitGroup
		impatient, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		callers.Go(func() {
			if _, err := r.Set(impatient, constants.PrimaryNetworkID, 9); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("impatient caller: got %v", err)
			}
		})
		for range 100 {
			callers.Go(func() {
				if _, err := r.Set(t.Context(), constants.PrimaryNetworkID, 9); err != nil {
					t.Errorf("patient caller: %v", err)
				}
			})
		}
		callers.Wait()
		require.Equal(t, int64(1), c.setCalls.Load())
		_, err := r.Set(t.Context(), constants.PrimaryNetworkID, 9)
		require.NoError(t, err)
		require.Equal(t, int64(1), c.setCalls.Load(), "an immutable set is asked for once")
	})
}

func TestSubnetOf(t *testing.T) {
	blockchain, subnet := ids.ID{1}, ids.ID{2}
	c := newChain(t)
	c.owner = map[ids.ID]ids.ID{blockchain: subnet}
	synctest.Test(t, func(t *testing.T) {
		r := NewResolver(c, Options{})
		got, err := r.SubnetOf(t.Context(), constants.PlatformChainID)
		require.NoError(t, err)
		require.Equal(t, constants.PrimaryNetworkID, got)
		require.Zero(t, c.calls.Load())
		for range 3 {
			got, err = r.SubnetOf(t.Context(), blockchain)
			require.NoError(t, err)
			require.Equal(t, subnet, got)
		}
		require.Equal(t, int64(1), c.calls.Load())
		for range 3 {
			_, err = r.SubnetOf(t.Context(), ids.ID{9})
			require.ErrorIs(t, err, ErrUnknownBlockchain)
		}
		require.Equal(t, int64(2), c.calls.Load(), "what does not exist is remembered for a moment")
		time.Sleep(3 * time.Second)
		c.owner[ids.ID{9}] = subnet
		_, err = r.SubnetOf(t.Context(), ids.ID{9})
		require.NoError(t, err, "and only for a moment")
	})
}

func TestEpochHeight(t *testing.T) {
	c := newChain(t)
	c.epoch = 4
	r := NewResolver(c, Options{})
	height, err := r.EpochHeight(t.Context(), constants.PlatformChainID)
	require.NoError(t, err)
	require.Equal(t, uint64(4), height)
	_, err = r.EpochHeight(t.Context(), ids.ID{1})
	require.ErrorIs(t, err, ErrUnknownBlockchain)
	c.epoch = 0
	height, err = NewResolver(c, Options{}).EpochHeight(t.Context(), constants.PlatformChainID)
	require.NoError(t, err)
	require.Equal(t, uint64(10), height, "before the first epoch")

	// An epoch may begin with the genesis set, which is not the proposed one.
	c.epochNumber = 1
	r = NewResolver(c, Options{})
	height, err = r.EpochHeight(t.Context(), constants.PlatformChainID)
	require.NoError(t, err)
	require.Zero(t, height)
	set, err := r.EpochSet(t.Context(), constants.PrimaryNetworkID, constants.PlatformChainID)
	require.NoError(t, err)
	require.Zero(t, set.Height)
}

// A new L1 has no validators at the height of its chain's first epoch, 0.
func TestEpochSetOfChainWithoutBlocks(t *testing.T) {
	c := newChain(t)
	c.epochNumber = 1
	l1, chainID := ids.ID{2}, ids.ID{3}
	c.owner = map[ids.ID]ids.ID{chainID: l1}
	c.l1 = map[ids.ID]bool{l1: true}
	c.sets[l1] = c.sets[constants.PrimaryNetworkID]
	set, err := NewResolver(c, Options{}).EpochSet(t.Context(), l1, chainID)
	require.NoError(t, err)
	require.Equal(t, uint64(10), set.Height, "the proposed height")

	c.epochNumber, c.epoch = 2, 4
	set, err = NewResolver(c, Options{}).EpochSet(t.Context(), l1, chainID)
	require.NoError(t, err)
	require.Equal(t, uint64(4), set.Height)
}

// A node that fails to find its last block does not make the blockchain unknown.
func TestEpochIsRefused(t *testing.T) {
	c := newChain(t)
	c.err = &node.RPCError{Code: -32000, Message: "couldn't get current epoch: couldn't get preferred block: not found"}
	_, err := NewResolver(c, Options{}).EpochHeight(t.Context(), constants.PlatformChainID)
	require.ErrorIs(t, err, c.err)
	require.NotErrorIs(t, err, ErrUnknownBlockchain)
}

func TestRunPrefetchesEachHeightOnce(t *testing.T) {
	c := newChain(t)
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var heights []uint64
		r := NewResolver(c, Options{OnSets: func(height uint64, sets map[ids.ID]*Set) {
			mu.Lock()
			defer mu.Unlock()
			heights = append(heights, height)
			if len(sets) != 1 {
				t.Errorf("got %d sets", len(sets))
			}
		}})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- r.Run(ctx) }()
		time.Sleep(2 * time.Second)
		before := c.setCalls.Load()
		s, err := r.Set(ctx, constants.PrimaryNetworkID, 0)
		require.NoError(t, err)
		require.Equal(t, uint64(10), s.Height)
		require.Equal(t, before, c.setCalls.Load(), "a warm set costs no question")

		set := func(change func()) {
			c.mu.Lock()
			defer c.mu.Unlock()
			change()
		}
		set(func() { c.height = 12 })
		time.Sleep(time.Second)
		set(func() { c.height = 11 }) // a node that lags
		time.Sleep(time.Second)
		set(func() { c.err = node.ErrUnavailable })
		time.Sleep(time.Minute)
		_, ok := r.ProposedHeight()
		require.False(t, ok, "old knowledge is not passed off as new")
		set(func() { c.err, c.height, c.noAll = nil, 13, true })
		time.Sleep(6 * time.Second)
		warm, ok := r.ProposedHeight()
		require.True(t, ok)
		require.Equal(t, uint64(13), warm)
		cancel()
		require.NoError(t, <-done)
		require.Equal(t, []uint64{10, 12, 13}, heights)
	})
}
