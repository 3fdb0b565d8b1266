package simnet

import (
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"time"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp"
)

// Options of a Network. The zero value is five honest validators of equal weight that
// answer at once.
type Options struct {
	// Seed determines all random choices: keys, weights, faults, response times.
	Seed uint64
	// Validators is the number of validators of the primary network; 0 means 5.
	Validators int
	// NetworkID is the network's ID; 0 means DefaultNetworkID.
	NetworkID uint32
	Weights   Weights
	// ExplicitWeights, if not empty, replaces Weights: one for each validator, none of them
	// 0.
	ExplicitWeights []uint64
	// SharedKeys maps a validator to the one whose BLS key it uses, both by index.
	SharedKeys map[int]int
	Latency    Latency
	Faults     Faults
	// Lies is when and how validators with the behaviour WrongSignature lie.
	Lies Lies
	// Keyless is the weight of one more validator without a BLS key.
	Keyless uint64
	// L1Validators, if not 0, adds an L1 with that many of the first validators.
	L1Validators int
	// History adds a history and growing P-, X- and C-Chains; nil means that P-Chain blocks
	// are empty and there are no other chains.
	History *History
	// EVM lists EVM chains with transactions of all kinds: first the C-Chain, unless the
	// first one is an L1, then L1s. The C-Chain replaces the Ethereum API of History's
	// C-Chain (History's containers do not reflect it). The first L1 is that of
	// L1Validators.
	EVM []EVM
	// ProposedAfter is the time from the acceptance of a P-Chain block until the proposed
	// height is its height, unless 64 newer blocks are accepted before. 0 means 30 s, like a
	// node; a negative time means none, like a node with proposervm-use-current-height.
	ProposedAfter time.Duration
	// EpochDuration is the shortest duration of epochs (ACP-181); 0 means that of the
	// network's upgrades. The first block of a chain after that time seals its epoch. Chains
	// without simulated blocks count as making one for each request of their epoch.
	EpochDuration time.Duration
	// Log receives log lines; nil means no log.
	Log *slog.Logger `json:"-"`
}

// check returns the first option that cannot be used.
func (o Options) check() error {
	if n := len(o.ExplicitWeights); n != 0 && n != o.Validators {
		return fmt.Errorf("simnet: %d weights for %d validators", n, o.Validators)
	}
	if slices.Contains(o.ExplicitWeights, 0) {
		return errors.New("simnet: a validator of weight 0")
	}
	for i, j := range o.SharedKeys {
		if i < 0 || i >= o.Validators || j < 0 || j >= o.Validators {
			return fmt.Errorf("simnet: validator %d with the key of %d: there is no such validator", i, j)
		}
	}
	return nil
}

// key returns the index of validator i's BLS key.
func (o Options) key(i int) int {
	if j, shared := o.SharedKeys[i]; shared {
		return j
	}
	return i
}

// DefaultNetworkID is the network ID of a simulated network.
const DefaultNetworkID = 54321

// Weights is a distribution of weight over validators.
type Weights uint8

const (
	// Uniform gives all validators the same weight.
	Uniform Weights = iota
	// HeavyTailed gives the validator of rank i a weight proportional to (i+10)^-1.1: as on
	// mainnet, a few dozen of a thousand hold about half. Ranks are random.
	HeavyTailed
)

const weightUnit = 2_000_000_000_000 // nAVAX, of the order of a mainnet validator's stake

func (w Weights) of(rank int) uint64 {
	if w == HeavyTailed {
		return uint64(100 * weightUnit * math.Pow(float64(rank+10), -1.1))
	}
	return weightUnit
}

// Latency is the response time of validators: log-normal with the given median and 99th
// percentile, or none if Median is 0.
type Latency struct {
	Median, P99 time.Duration
	// Persistent is the fraction, 0 to 1, of the variance that belongs to the validator
	// (its distance) and is the same for each of its responses. The rest is random for
	// every message.
	Persistent float64
}

// Faults are fractions of the validators, 0 to 1. Their sum is at most 1.
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
	// WrongSignature answers with signatures that are not valid; see Lies.
	WrongSignature
	// Malformed answers with bytes that are not a signature, of a different kind each time.
	Malformed
)

func (b Behaviour) String() string {
	return [...]string{"honest", "offline", "refusing", "silent", "wrong signature", "malformed"}[b]
}

// Lies is a pattern of validators whose signatures are not valid.
type Lies uint8

const (
	// OtherMessage signs another message, always.
	OtherMessage Lies = iota
	// Negated answers with the negative of the signature, always.
	Negated
	// SwappedKeys signs with the key of another such validator, always: two make a pair.
	SwappedKeys
	// SecondAnswer signs another message in every second answer.
	SecondAnswer
	// SecondMessage signs another message instead of every second message, as all such
	// validators do.
	SecondMessage
	// OneAtATime has one such validator at a time sign another message.
	OneAtATime
)

func (l Lies) String() string {
	return [...]string{"sign another message", "always", "keys swapped", "every second answer", "every second message", "one at a time"}[l]
}

// lie returns whether liar number rank of all lies in its answer-th answer.
func (l Lies) lie(rank, all int, answer uint64, message ids.ID) bool {
	chance := binary.BigEndian.Uint64(message[:])
	switch l {
	case SecondAnswer:
		return answer%2 == 0
	case SecondMessage:
		return chance%2 == 0
	case OneAtATime:
		return chance%uint64(all) == uint64(rank)
	}
	return true
}

// Answer is a response that a Hook chooses.
type Answer struct {
	// Bytes is the application response; used if Err is nil.
	Bytes []byte
	// Code and Text are those of a refusal if Refuse is set.
	Refuse bool
	Code   int32
	Text   string
	// Times is how often the answer is sent; 0 means never.
	Times int
	// Delay is added to the random response time.
	Delay time.Duration
	// Drip is the pause before each byte of the answer on the wire. Meanwhile the
	// connection sends nothing else.
	Drip time.Duration
}

// Hook decides about one request instead of the validator's Behaviour. Honest is the answer
// of an honest validator.
type Hook func(message *warp.UnsignedMessage, justification []byte, honest Answer) Answer
