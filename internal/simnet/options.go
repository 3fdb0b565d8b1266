package simnet

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"time"

	"github.com/ava-labs/avalanchego/vms/platformvm/warp"
)

// Options of a Network; the zero value is five honest validators of equal weight
// that answer at once.
type Options struct {
	// Seed decides everything that is drawn: keys, weights, faults, answer times.
	Seed uint64
	// Validators of the primary network; 0 means 5.
	Validators int
	// NetworkID; 0 means DefaultNetworkID.
	NetworkID uint32
	Weights   Weights
	// ExplicitWeights, if not empty, is used in place of Weights: one for each
	// validator, none of them 0.
	ExplicitWeights []uint64
	// SharedKeys gives a validator the BLS key of another, both by index.
	SharedKeys map[int]int
	Latency    Latency
	Faults     Faults
	// Keyless is the weight of one further validator that has no BLS key.
	Keyless uint64
	// L1Validators, if not 0, adds an L1 that the first so many validate, too.
	L1Validators int
	// History gives the network a past, and a P-, an X- and a C-Chain that go on; nil
	// means that P-Chain blocks are empty and there is nothing else.
	History *History
	// EVM are EVM chains with traffic of all kinds: first the C-Chain, in place of what
	// the Ethereum API tells of a History's (whose containers know nothing of it), unless
	// it says that it is an L1; then L1s, the first of them that of L1Validators.
	EVM []EVM
	// NodeListen is the address of the node API; empty means a free port.
	NodeListen string
	// Log may be nil.
	Log *slog.Logger `json:"-"`
}

// check says what cannot be built.
func (o Options) check() error {
	if n := len(o.ExplicitWeights); n != 0 && n != o.Validators {
		return fmt.Errorf("simnet: %d weights for %d validators", n, o.Validators)
	}
	if slices.Contains(o.ExplicitWeights, 0) {
		return errors.New("simnet: a validator of weight 0")
	}
	for i, j := range o.SharedKeys {
		if i < 0 || i >= o.Validators || j < 0 || j >= o.Validators {
			return fmt.Errorf("simnet: validator %d with the key of %d: there is no such one", i, j)
		}
	}
	return nil
}

// key is the index of validator i's BLS key.
func (o Options) key(i int) int {
	if j, shared := o.SharedKeys[i]; shared {
		return j
	}
	return i
}

// DefaultNetworkID is the network ID of a simulated network.
const DefaultNetworkID = 54321

// Weights says how weight is spread over validators.
type Weights uint8

const (
	// Uniform gives everybody the same.
	Uniform Weights = iota
	// HeavyTailed gives the validator of rank i weight proportional to
	// (i+10)^-1.1: as on mainnet, a few dozen of a thousand hold about half.
	// Ranks are dealt out at random.
	HeavyTailed
)

const weightUnit = 2_000_000_000_000 // nAVAX, of the order of a mainnet validator's stake

func (w Weights) of(rank int) uint64 {
	if w == HeavyTailed {
		return uint64(100 * weightUnit * math.Pow(float64(rank+10), -1.1))
	}
	return weightUnit
}

// Latency is the time a validator takes to answer: log-normal with the given
// median and 99th percentile, none if Median is 0.
type Latency struct {
	Median, P99 time.Duration
	// Persistent is the share, 0 to 1, of the variance that belongs to the
	// validator (its distance) and is the same for each of its answers; the rest
	// is drawn anew for every message.
	Persistent float64
}

// Faults are shares of the validators, 0 to 1; their sum is at most 1.
type Faults struct {
	Offline, Refusing, Silent, WrongSignature, Malformed float64
}

// Behaviour is how a validator treats signature requests.
type Behaviour uint8

const (
	Honest Behaviour = iota
	// Offline has no open port.
	Offline
	// Refusing answers with an application error.
	Refusing
	// Silent never answers.
	Silent
	// WrongSignature signs another message.
	WrongSignature
	// Malformed answers with bytes that are no signature, of a different kind
	// each time.
	Malformed
)

func (b Behaviour) String() string {
	return [...]string{"honest", "offline", "refusing", "silent", "wrong signature", "malformed"}[b]
}

// Answer is what a Hook makes a validator do.
type Answer struct {
	// Bytes is the application response; used if Err is nil.
	Bytes []byte
	// Code and Text make it a refusal if Refuse is set.
	Refuse bool
	Code   int32
	Text   string
	// Times is how often the answer is sent; 0 means never.
	Times int
	// Delay is waited in addition to the drawn answer time.
	Delay time.Duration
	// Drip is the pause before each byte of the answer on the wire; meanwhile
	// nothing else is sent on the connection.
	Drip time.Duration
}

// Hook decides on a single request in place of the validator's Behaviour. Honest
// is what an honest one would answer.
type Hook func(message *warp.UnsignedMessage, justification []byte, honest Answer) Answer
