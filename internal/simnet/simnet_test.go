package simnet_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"
	snow "github.com/ava-labs/avalanchego/snow/validators"
	"github.com/ava-labs/avalanchego/utils/constants"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp"

	"quorate/aggregator"
	"quorate/internal/node"
	"quorate/internal/simnet"
	"quorate/p2p"
	"quorate/validators"
)

// patient returns the service's limits with a longer answer timeout for busy machines.
func patient() aggregator.Limits {
	l := aggregator.DefaultLimits()
	l.AnswerTimeout = time.Minute
	return l
}

// service is everything that signs for one network, wired as in cmd.
type service struct {
	*aggregator.Aggregator
	network  *p2p.Network
	resolver *validators.Resolver
	metrics  *prometheus.Registry // of network
}

func startService(t testing.TB, n *simnet.Network, limits aggregator.Limits) *service {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	client, err := node.New(node.Options{Endpoints: []string{n.NodeURL()}, Log: log})
	require.NoError(t, err)
	metrics := prometheus.NewRegistry()
	peers, err := p2p.New(p2p.Config{
		NetworkID:       n.NetworkID(),
		Metrics:         metrics,
		Dir:             t.TempDir(),
		AllowPrivateIPs: true,
		Log:             log,
		Seeds: func(ctx context.Context) ([]p2p.Address, error) {
			peers, err := client.Peers(ctx)
			var addresses []p2p.Address
			for _, p := range peers {
				addresses = append(addresses, p2p.Address(p))
			}
			return addresses, err
		},
	})
	require.NoError(t, err)
	resolver := validators.NewResolver(client, validators.Options{Log: log, OnSets: func(_ uint64, sets map[ids.ID]*validators.Set) {
		all := make(map[ids.ID]snow.WarpSet, len(sets))
		for id, s := range sets {
			all[id] = s.WarpSet
		}
		peers.SetValidators(all)
	}})
	signer, err := aggregator.New(aggregator.Options{Transport: peers, Sets: resolver, Limits: limits, Log: log})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 2)
	go func() { done <- peers.Run(ctx) }()
	go func() { done <- resolver.Run(ctx) }()
	t.Cleanup(func() {
		signer.Close()
		cancel()
		for range 2 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		client.Close()
	})
	return &service{Aggregator: signer, network: peers, resolver: resolver, metrics: metrics}
}

// sent returns the number of requests that the service has sent to validators.
func (s *service) sent(t testing.TB) uint64 {
	t.Helper()
	families, err := s.metrics.Gather()
	require.NoError(t, err)
	for _, family := range families {
		if family.GetName() == "quorate_p2p_requests_total" {
			return uint64(family.GetMetric()[0].GetCounter().GetValue())
		}
	}
	t.Fatal("no metric of requests")
	return 0
}

func (s *service) awaitConnections(t testing.TB, n int) {
	t.Helper()
	require.Eventually(t, func() bool { return s.network.ConnectedCount() >= n }, 5*time.Minute, 20*time.Millisecond, "connections: %d of %d", s.network.ConnectedCount(), n)
}

func TestSignsOverTheWire(t *testing.T) {
	n, err := simnet.Start(simnet.Options{Seed: 1, Validators: 20})
	require.NoError(t, err)
	defer n.Close()
	s := startService(t, n, patient())
	s.awaitConnections(t, 20)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for i := range 3 {
		r, err := s.Sign(ctx, aggregator.Request{Message: n.Message([]byte(fmt.Sprint(i)))})
		require.NoError(t, err)
		signature := r.Message.Signature.(*warp.BitSetSignature)
		require.NoError(t, signature.Verify(&r.Message.UnsignedMessage, n.NetworkID(), n.Set(constants.PrimaryNetworkID, n.Height()), 67, 100))
	}
	require.Zero(t, n.Repeated())
}

// A thousand validators, a fifth of them faulty in every way at once: every result
// verifies, and every failure is accounted for.
func TestThousandValidatorsWithAFifthFaulty(t *testing.T) {
	n, err := simnet.Start(simnet.Options{
		Seed:       2,
		Validators: 1000,
		Weights:    simnet.HeavyTailed,
		Latency:    simnet.Latency{Median: 40 * time.Millisecond, P99: 400 * time.Millisecond},
		Faults:     simnet.Faults{Offline: 0.04, Refusing: 0.04, Silent: 0.04, WrongSignature: 0.04, Malformed: 0.04},
	})
	require.NoError(t, err)
	defer n.Close()
	s := startService(t, n, patient())
	s.awaitConnections(t, 960)
	set := n.Set(constants.PrimaryNetworkID, n.Height())
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	for i := range 12 {
		quorum := []uint64{67, 50, 33, 75}[i%4]
		start := time.Now()
		r, err := s.Sign(ctx, aggregator.Request{Message: n.Message([]byte(fmt.Sprint(i))), QuorumPercentage: quorum, QuorumPercentageBuffer: uint64(i % 3)})
		require.NoError(t, err)
		signature := r.Message.Signature.(*warp.BitSetSignature)
		require.NoError(t, signature.Verify(&r.Message.UnsignedMessage, n.NetworkID(), set, quorum, 100))
		requireAddsUp(t, r.Account)
		floor, _ := n.Floor(r.Message.ID(), quorum)
		t.Logf("quorum %d: %d signers, %s, floor %s", quorum, r.Signers, time.Since(start), floor)
	}
	// The faulty validators' weight makes this quorum unreachable.
	short, end := context.WithTimeout(ctx, 3*time.Second)
	defer end()
	_, err = s.Sign(short, aggregator.Request{Message: n.Message([]byte("too much")), QuorumPercentage: 95})
	var failed *aggregator.Error
	require.ErrorAs(t, err, &failed)
	require.NotNil(t, failed.Account)
	requireAddsUp(t, *failed.Account)
	require.Less(t, failed.Account.SignedWeight, failed.Account.TargetWeight)
}

func requireAddsUp(t testing.TB, a aggregator.Account) {
	t.Helper()
	require.Equal(t, a.TotalWeight, a.SignedWeight+a.UnprovenWeight+a.RefusedWeight+a.InvalidWeight+a.SilentWeight+a.UnansweredWeight+a.UnaskedWeight+a.DisconnectedWeight+a.KeylessWeight, "%+v", a)
}
