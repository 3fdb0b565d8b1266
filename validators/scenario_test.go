package validators

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/constants"
	"github.com/ava-labs/avalanchego/utils/crypto/bls"
	"github.com/ava-labs/avalanchego/utils/crypto/bls/signer/localsigner"

	"quorate/internal/node"
)

// setOf returns a set with nodes[i] nodes for key i, each of weight 10.
func setOf(t *testing.T, nodes ...int) node.ValidatorSet {
	var raw node.ValidatorSet
	for i, count := range nodes {
		signer, err := localsigner.New()
		require.NoError(t, err)
		for n := range count {
			raw.Validators = append(raw.Validators, node.Validator{
				Key:     bls.PublicKeyToCompressedBytes(signer.PublicKey()),
				Weight:  10,
				NodeIDs: []ids.NodeID{{byte(i + 1), byte(n + 1)}},
			})
			raw.TotalWeight += 10
		}
	}
	return raw
}

// A validator is underfunded only if all nodes of its key are.
func TestScenario_7_1_11_Underfunded(t *testing.T) {
	rich, edge, poor, broke := uint64(1<<40), uint64(minBalance), uint64(minBalance-1), uint64(0)
	l1 := func(key, n int, balance *uint64) node.CurrentValidator {
		return node.CurrentValidator{NodeID: ids.NodeID{byte(key), byte(n)}, ValidationID: ids.ID{byte(key), byte(n)}, Balance: balance}
	}
	legacy := func(key int) node.CurrentValidator { return node.CurrentValidator{NodeID: ids.NodeID{byte(key), 1}} }
	for _, test := range []struct {
		name    string
		nodes   []int // of each key
		notL1   bool
		current []node.CurrentValidator
		want    []int // keys
	}{
		{name: "all underfunded", nodes: []int{1, 1}, current: []node.CurrentValidator{l1(1, 1, &poor), l1(2, 1, &broke)}, want: []int{1, 2}},
		{name: "all funded", nodes: []int{1, 1}, current: []node.CurrentValidator{l1(1, 1, &rich), l1(2, 1, &edge)}},
		{name: "one of each", nodes: []int{1, 1}, current: []node.CurrentValidator{l1(1, 1, &rich), l1(2, 1, &poor)}, want: []int{2}},
		{name: "validators from before the conversion pay nothing", nodes: []int{1, 1}, current: []node.CurrentValidator{legacy(1), l1(2, 1, &poor)}, want: []int{2}},
		{name: "no balance is none", nodes: []int{1, 1}, current: []node.CurrentValidator{l1(1, 1, nil), l1(2, 1, &rich)}, want: []int{1}},
		{name: "gone is as good as broke", nodes: []int{1, 1}, current: []node.CurrentValidator{l1(2, 1, &rich)}, want: []int{1}},
		{name: "several nodes, one funded", nodes: []int{3, 1}, current: []node.CurrentValidator{l1(1, 1, &poor), l1(1, 2, &poor), l1(1, 3, &edge), l1(2, 1, &rich)}},
		{name: "several nodes, none funded", nodes: []int{3, 1}, current: []node.CurrentValidator{l1(1, 1, &poor), l1(1, 2, nil), l1(2, 1, &rich)}, want: []int{1}},
		{name: "no L1", nodes: []int{1, 1}, notL1: true, current: []node.CurrentValidator{l1(1, 1, &poor), l1(2, 1, &poor)}},
		{name: "empty set", current: []node.CurrentValidator{l1(1, 1, &poor)}},
	} {
		t.Run(test.name, func(t *testing.T) {
			subnet := ids.ID{3}
			c := newChain(t)
			c.sets[subnet] = setOf(t, test.nodes...)
			c.l1 = map[ids.ID]bool{subnet: !test.notL1}
			c.current = test.current
			r := NewResolver(c, Options{})
			set, err := r.Set(t.Context(), subnet, 9)
			require.NoError(t, err)
			under, err := r.Underfunded(t.Context(), set)
			require.NoError(t, err)
			var got []int
			for i := range under {
				got = append(got, int(set.Validators[i].NodeIDs[0][0]))
			}
			slices.Sort(got)
			require.Equal(t, test.want, got)
		})
	}
	c := newChain(t)
	r := NewResolver(c, Options{})
	set, err := r.Set(t.Context(), constants.PrimaryNetworkID, 9)
	require.NoError(t, err)
	asked := c.calls.Load()
	under, err := r.Underfunded(t.Context(), set)
	require.NoError(t, err)
	require.Empty(t, under, "the primary network pays no fees")
	require.Equal(t, asked, c.calls.Load())
}

// The resolver keeps the subnets of recent requests for a node that does not report all
// sets.
func TestScenario_7_1_19_LeastRecentlyWantedSubnetIsDroppedFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w wanted
		w.note(constants.PrimaryNetworkID)
		require.Empty(t, w.list(), "which is always fetched")
		for i := range maxWanted {
			w.note(ids.ID{byte(i + 1)})
			time.Sleep(time.Second)
		}
		w.note(ids.ID{1}) // again
		time.Sleep(time.Second)
		w.note(ids.ID{200})
		require.Len(t, w.list(), maxWanted)
		require.Contains(t, w.list(), ids.ID{1})
		require.NotContains(t, w.list(), ids.ID{2}, "the one wanted longest ago")
		require.Contains(t, w.list(), ids.ID{200})
		time.Sleep(wantedLife + time.Millisecond)
		w.note(ids.ID{201})
		require.Equal(t, []ids.ID{{201}}, w.list())
	})
}

// A new epoch is noticed within one poll interval. Until then requests do not reach the
// node.
func TestScenario_7_2_20_EpochRolls(t *testing.T) {
	c := newChain(t)
	c.epoch = 4
	synctest.Test(t, func(t *testing.T) {
		r := NewResolver(c, Options{PollInterval: time.Second})
		height := func() uint64 {
			h, err := r.EpochHeight(t.Context(), constants.PlatformChainID)
			require.NoError(t, err)
			return h
		}
		require.Equal(t, uint64(4), height())
		c.epoch = 6
		require.Equal(t, uint64(4), height())
		time.Sleep(time.Second)
		require.Equal(t, uint64(6), height())
	})
}

func TestScenario_7_2_21_UnavailableHeights(t *testing.T) {
	c := newChain(t)
	known := ids.ID{7}
	c.l1 = map[ids.ID]bool{known: false}
	r := NewResolver(c, Options{})
	_, err := r.Set(t.Context(), constants.PrimaryNetworkID, 11)
	require.ErrorIs(t, err, ErrHeightUnavailable)
	require.ErrorContains(t, err, "above the tip, 10")
	_, err = r.Set(t.Context(), constants.PrimaryNetworkID, 1)
	require.ErrorIs(t, err, ErrHeightUnavailable)
	require.ErrorContains(t, err, "no longer has 1, the tip is 10")
	asked := c.setCalls.Load()
	_, err = r.Set(t.Context(), constants.PrimaryNetworkID, math.MaxUint64)
	require.ErrorIs(t, err, ErrHeightUnavailable)
	require.Equal(t, asked, c.setCalls.Load(), "for the node that height means the proposed one")
	_, err = r.Set(t.Context(), ids.ID{9}, 11)
	require.ErrorIs(t, err, ErrHeightUnavailable)
	_, err = r.Set(t.Context(), ids.ID{9}, 1)
	require.ErrorIs(t, err, ErrUnknownSubnet)
	_, err = r.Set(t.Context(), ids.ID{9}, 0)
	require.ErrorIs(t, err, ErrUnknownSubnet)
	empty, err := r.Set(t.Context(), known, 0)
	require.NoError(t, err)
	require.Empty(t, empty.Validators)

	// A height above the tip is requested again once it exists.
	c.height = 11
	s, err := r.Set(t.Context(), constants.PrimaryNetworkID, 11)
	require.NoError(t, err)
	require.Equal(t, uint64(11), s.Height)

	c.err = node.ErrUnavailable
	_, err = NewResolver(c, Options{}).Set(t.Context(), constants.PrimaryNetworkID, 5)
	require.ErrorIs(t, err, node.ErrUnavailable)
	require.NotErrorIs(t, err, ErrHeightUnavailable, "that the node is down says nothing of the height")
}

func TestScenario_7_2_22_NodeIsSlow(t *testing.T) {
	c := newChain(t)
	synctest.Test(t, func(t *testing.T) {
		r := NewResolver(c, Options{})
		c.delay = fetchTimeout - time.Second
		start := time.Now()
		_, err := r.Set(t.Context(), constants.PrimaryNetworkID, 5)
		require.NoError(t, err)
		require.Equal(t, c.delay, time.Since(start))

		c.delay = time.Hour
		start = time.Now()
		_, err = r.Set(t.Context(), constants.PrimaryNetworkID, 6)
		require.ErrorIs(t, err, node.ErrUnavailable)
		require.Equal(t, fetchTimeout, time.Since(start), "a node that hangs is given up")
		start = time.Now()
		_, err = r.Set(t.Context(), constants.PrimaryNetworkID, 5)
		require.NoError(t, err, "what is known needs no node")
		require.Zero(t, time.Since(start))

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = r.Set(ctx, constants.PrimaryNetworkID, 7)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NotErrorIs(t, err, node.ErrUnavailable)
	})
}

// A node that fails every other moment: heights never decrease, and cached sets stay in
// use.
func TestScenario_7_2_22_NodeFlaps(t *testing.T) {
	c := newChain(t)
	synctest.Test(t, func(t *testing.T) {
		r := NewResolver(c, Options{})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- r.Run(ctx) }()
		time.Sleep(time.Second)
		var before uint64
		failures := 0
		for i := range 100 {
			c.mu.Lock()
			c.err = nil
			if i%2 == 0 {
				c.err = node.ErrUnavailable
			}
			c.height = uint64(10 + i - i%3) // and it jumps back a little at times
			c.mu.Unlock()
			time.Sleep(700 * time.Millisecond)
			s, err := r.Set(ctx, constants.PrimaryNetworkID, 0)
			if err != nil {
				failures++
				require.ErrorIs(t, err, node.ErrUnavailable)
				continue
			}
			require.GreaterOrEqual(t, s.Height, before)
			before = s.Height
		}
		require.Greater(t, before, uint64(90), "it is followed when it is there")
		require.Less(t, failures, 50)
		cancel()
		require.NoError(t, <-done)
	})
}

// Two nodes behind one client disagree. The set of a height is the first one reported, for
// all callers and for good. The resolver cannot know which node is right; it rejects a set
// that contradicts itself.
func TestScenario_7_2_22_NodesThatDisagree(t *testing.T) {
	c := newChain(t)
	honest := c.sets[constants.PrimaryNetworkID]
	lie := setOf(t, 1, 1)
	r := NewResolver(c, Options{})
	s, err := r.Set(t.Context(), constants.PrimaryNetworkID, 5)
	require.NoError(t, err)
	c.sets[constants.PrimaryNetworkID] = lie
	again, err := r.Set(t.Context(), constants.PrimaryNetworkID, 5)
	require.NoError(t, err)
	require.Same(t, s, again)
	other, err := r.Set(t.Context(), constants.PrimaryNetworkID, 6)
	require.NoError(t, err)
	require.NotEqual(t, s.Fingerprint(), other.Fingerprint())

	for name, spoil := range map[string]func(raw *node.ValidatorSet){
		"weights beyond their total": func(raw *node.ValidatorSet) { raw.TotalWeight = 1 },
		"weights beyond 64 bits": func(raw *node.ValidatorSet) {
			raw.Validators[0].Weight, raw.TotalWeight = math.MaxUint64, math.MaxUint64
		},
		"a key that is none":      func(raw *node.ValidatorSet) { raw.Validators[0].Key = make([]byte, 48) },
		"a key that is too short": func(raw *node.ValidatorSet) { raw.Validators[0].Key = raw.Validators[0].Key[:47] },
		"the key at infinity":     func(raw *node.ValidatorSet) { raw.Validators[0].Key = append([]byte{0xc0}, make([]byte, 47)...) },
	} {
		raw := node.ValidatorSet{Validators: slices.Clone(lie.Validators), TotalWeight: lie.TotalWeight}
		spoil(&raw)
		c.sets[constants.PrimaryNetworkID] = raw
		_, err = r.Set(t.Context(), constants.PrimaryNetworkID, 7)
		require.ErrorIs(t, err, node.ErrMalformed, name)
	}
	c.sets[constants.PrimaryNetworkID] = honest
	_, err = r.Set(t.Context(), constants.PrimaryNetworkID, 7)
	require.NoError(t, err, "nonsense is not remembered")
}

func TestScenario_7_2_28_LegacySubnetConvertedAtRunTime(t *testing.T) {
	subnet := ids.ID{3}
	c := newChain(t)
	c.sets[subnet], _ = randomSet(t, rand.New(rand.NewPCG(5, 6)), 3)
	c.l1 = map[ids.ID]bool{subnet: false}
	synctest.Test(t, func(t *testing.T) {
		r := NewResolver(c, Options{})
		set, err := r.Set(t.Context(), subnet, 9)
		require.NoError(t, err)
		under, err := r.Underfunded(t.Context(), set)
		require.NoError(t, err)
		require.Empty(t, under)
		c.l1[subnet] = true
		time.Sleep(3 * time.Second)
		under, err = r.Underfunded(t.Context(), set)
		require.NoError(t, err)
		require.Len(t, under, len(set.Validators), "the node lists none of them any more")

		// Its set follows with the height of the conversion.
		c.mu.Lock()
		c.height++
		c.sets[subnet] = setOf(t, 1, 1)
		c.mu.Unlock()
		time.Sleep(time.Second)
		after, err := r.Set(t.Context(), subnet, 0)
		require.NoError(t, err)
		require.Equal(t, uint64(11), after.Height)
		require.NotEqual(t, set.Fingerprint(), after.Fingerprint(), fmt.Sprint(after.Validators))
	})
}
