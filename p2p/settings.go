package p2p

import (
	"crypto"
	"crypto/tls"
	"fmt"
	"math"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/message"
	"github.com/ava-labs/avalanchego/network"
	avadialer "github.com/ava-labs/avalanchego/network/dialer"
	"github.com/ava-labs/avalanchego/network/peer"
	"github.com/ava-labs/avalanchego/network/throttling"
	"github.com/ava-labs/avalanchego/snow/networking/tracker"
	"github.com/ava-labs/avalanchego/snow/uptime"
	snowvalidators "github.com/ava-labs/avalanchego/snow/validators"
	"github.com/ava-labs/avalanchego/upgrade"
	"github.com/ava-labs/avalanchego/utils"
	"github.com/ava-labs/avalanchego/utils/compression"
	"github.com/ava-labs/avalanchego/utils/constants"
	"github.com/ava-labs/avalanchego/utils/crypto/bls/signer/localsigner"
	"github.com/ava-labs/avalanchego/utils/set"
	"github.com/ava-labs/avalanchego/utils/units"
)

const (
	dialTimeout      = 10 * time.Second
	reconnectDelay   = time.Second
	peerListPullFreq = 500 * time.Millisecond
)

// upgradeTime is when peers of an older version stop being compatible with us
// (avalanchego, version, GetCompatibility). It has to be moved to the newest
// upgrade whenever the library is replaced by one that brings another.
func upgradeTime(config Config) time.Time {
	if !config.UpgradeTime.IsZero() {
		return config.UpgradeTime
	}
	return upgrade.GetConfig(config.NetworkID).HeliconTime
}

// newCreator makes the codec of messages. Every peer takes uncompressed ones,
// and ours are a few hundred bytes of hashes and keys, on which compression costs
// time at both ends and saves nothing.
func newCreator(registerer prometheus.Registerer) (message.Creator, error) {
	return message.NewCreator(registerer, compression.TypeNone, maxDeadline)
}

// settings says how the library shall behave for a client that dials a thousand
// validators, accepts nobody, tracks no subnet and wants every answer at once.
func (n *Network) settings(cert *tls.Certificate) (*network.Config, error) {
	key, ok := cert.PrivateKey.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("identity's key of type %T cannot sign", cert.PrivateKey)
	}
	// It signs our address in the handshake. Peers check that signature against
	// the key of a registered validator only, and we are none, so it need not
	// outlive the process.
	blsKey, err := localsigner.New()
	if err != nil {
		return nil, fmt.Errorf("making a BLS key: %w", err)
	}
	tlsConfig := peer.TLSConfig(*cert, nil)
	tlsConfig.VerifyConnection = n.dialer.verifyConnection

	return &network.Config{
		// The library's own health check is not used.
		HealthConfig: network.HealthConfig{
			SendFailRateHalflife: constants.DefaultHealthCheckAveragerHalflife,
		},
		PeerListGossipConfig: network.PeerListGossipConfig{
			// How many addresses we tell others in one message.
			PeerListNumValidatorIPs: constants.DefaultNetworkPeerListNumValidatorIPs,
			// Each pull brings about 15 addresses from one random validator.
			PeerListPullGossipFreq: peerListPullFreq,
			PeerListBloomResetFreq: constants.DefaultNetworkPeerListBloomResetFreq,
		},
		TimeoutConfig: network.TimeoutConfig{
			PingPongTimeout:      constants.DefaultPingPongTimeout,
			ReadHandshakeTimeout: constants.DefaultNetworkReadHandshakeTimeout,
		},
		DelayConfig: network.DelayConfig{
			InitialReconnectDelay: reconnectDelay,
			MaxReconnectDelay:     n.config.MaxReconnectDelay,
		},
		ThrottlerConfig: network.ThrottlerConfig{
			// Nobody connects to us.
			InboundConnUpgradeThrottlerConfig: throttling.InboundConnUpgradeThrottlerConfig{},
			InboundMsgThrottlerConfig: throttling.InboundMsgThrottlerConfig{
				// Bounds the memory that peers can fill with messages which they
				// announced and are still sending. A node's own share must hold
				// the largest message, or its connection would stand still for
				// ever; the common share is what a hundred such nodes need,
				// and what the primary network's validators have besides it
				// lets them answer even then.
				MsgByteThrottlerConfig: throttling.MsgByteThrottlerConfig{
					VdrAllocSize:        64 * units.MiB,
					AtLargeAllocSize:    256 * units.MiB,
					NodeMaxAtLargeBytes: constants.DefaultMaxMessageSize,
				},
				// For each node by itself; answers need a few KiB/s.
				BandwidthThrottlerConfig: throttling.BandwidthThrottlerConfig{
					RefillRate:   constants.DefaultInboundThrottlerBandwidthRefillRate,
					MaxBurstSize: constants.DefaultInboundThrottlerBandwidthMaxBurstSize,
				},
				// Not reached, since unlimited never waits; must not be zero.
				CPUThrottlerConfig:       throttling.SystemThrottlerConfig{MaxRecheckDelay: time.Second},
				DiskThrottlerConfig:      throttling.SystemThrottlerConfig{MaxRecheckDelay: time.Second},
				MaxProcessingMsgsPerNode: constants.DefaultInboundThrottlerMaxProcessingMsgsPerNode,
			},
			// Counts a message once for each node that it waits for, although
			// the bytes are shared. One request of 64 KiB to 4,000 nodes fits four
			// times over; a node that reads nothing costs itself 2 MiB.
			OutboundMsgThrottlerConfig: throttling.MsgByteThrottlerConfig{
				VdrAllocSize:        constants.DefaultOutboundThrottlerVdrAllocSize,
				AtLargeAllocSize:    units.GiB,
				NodeMaxAtLargeBytes: constants.DefaultOutboundThrottlerNodeMaxAtLargeBytes,
			},
		},
		DialerConfig: avadialer.Config{ThrottleRps: n.config.DialsPerSecond, ConnectionTimeout: dialTimeout},
		TLSConfig:    tlsConfig,
		TLSKey:       key,
		BLSKey:       blsKey,
		MyNodeID:     n.nodeID,
		// What clients without a listener claim by convention: the port must not
		// be zero, and nobody gossips or dials it.
		MyIPPort:           utils.NewAtomic(netip.AddrPortFrom(netip.IPv4Unspecified(), 1)),
		NetworkID:          n.config.NetworkID,
		UpgradeConfig:      upgrade.GetConfig(n.config.NetworkID),
		MaxClockDifference: constants.DefaultNetworkMaxClockDifference,
		PingFrequency:      constants.DefaultPingFrequency,
		AllowPrivateIPs:    n.config.AllowPrivateIPs,
		CompressionType:    compression.TypeNone,
		TrackedSubnets:     set.Of[ids.ID](),
		Beacons:            snowvalidators.NewManager(),
		Validators:         n.sets.manager,
		UptimeCalculator:   uptime.TestCalculator{}, // 0 % for everybody, as we do not watch
		UptimeMetricFreq:   constants.DefaultUptimeMetricFreq,
		// Lets go of nodes that no longer validate anything.
		RequireValidatorToConnect:    true,
		MaximumInboundMessageTimeout: maxDeadline,
		// An answer is about 150 bytes, and larger messages bypass the buffers:
		// 4 MiB for a thousand peers.
		PeerReadBufferSize:     2 * units.KiB,
		PeerWriteBufferSize:    2 * units.KiB,
		ResourceTracker:        unlimited{},
		CPUTargeter:            unlimited{},
		DiskTargeter:           unlimited{},
		ConnectToAllValidators: true,
	}, nil
}

// deafListener is the listener of a network that accepts nobody.
type deafListener struct {
	once   sync.Once
	closed chan struct{}
}

func newDeafListener() *deafListener { return &deafListener{closed: make(chan struct{})} }

// Accept blocks until Close, because the library calls it again at once after
// an error.
func (l *deafListener) Accept() (net.Conn, error) {
	<-l.closed
	return nil, net.ErrClosed
}

func (l *deafListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (*deafListener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4zero, Port: 1} }

var (
	_ tracker.ResourceTracker = unlimited{}
	_ tracker.DiskTracker     = unlimited{}
	_ tracker.Targeter        = unlimited{}
)

// unlimited stands for the accounting of CPU and disk time by node. Messages to
// us cost next to nothing, and the accounting takes a lock common to all peers
// several times for each.
type unlimited struct{}

func (unlimited) CPUTracker() tracker.Tracker                                 { return unlimited{} }
func (unlimited) DiskTracker() tracker.DiskTracker                            { return unlimited{} }
func (unlimited) StartProcessing(ids.NodeID, time.Time)                       {}
func (unlimited) StopProcessing(ids.NodeID, time.Time)                        {}
func (unlimited) Usage(ids.NodeID, time.Time) float64                         { return 0 }
func (unlimited) TotalUsage() float64                                         { return 0 }
func (unlimited) TimeUntilUsage(ids.NodeID, time.Time, float64) time.Duration { return 0 }
func (unlimited) AvailableDiskBytes() uint64                                  { return math.MaxUint64 }
func (unlimited) AvailableDiskPercentage() uint64                             { return 100 }
func (unlimited) TargetUsage(ids.NodeID) float64                              { return math.MaxFloat64 }
