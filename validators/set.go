// Package validators resolves the canonical validator set of a subnet at a P-Chain height
// (ACP-118; avalanchego, snow/validators) and the subnet that validates a blockchain. It
// reads both from an upstream node and caches them. It does not connect to validators and
// does not verify signatures.
package validators

import (
	"crypto/sha256"
	"encoding/binary"
	"math"
	"math/bits"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/snow/validators"
)

// Set is the canonical validator set of one subnet at one P-Chain height. It is immutable
// and shared between requests.
type Set struct {
	// SubnetID is the signing subnet; the zero ID is the primary network.
	SubnetID ids.ID
	// Height is the concrete P-Chain height the set belongs to.
	Height uint64
	// WarpSet lists the validators that have a BLS key in canonical order
	// (merged by key, ascending by uncompressed key) and counts keyless and
	// inactive weight in TotalWeight only.
	validators.WarpSet

	index       map[ids.NodeID]int
	keyed       uint64
	fingerprint ids.ID
	nodes       ids.ID
}

// NewSet returns a Set of a canonical list.
func NewSet(subnetID ids.ID, height uint64, warp validators.WarpSet) *Set {
	s := &Set{SubnetID: subnetID, Height: height, WarpSet: warp, index: make(map[ids.NodeID]int, len(warp.Validators))}
	digest, nodes := sha256.New(), sha256.New()
	_, _ = digest.Write(subnetID[:])
	_, _ = digest.Write(binary.BigEndian.AppendUint64(nil, warp.TotalWeight))
	for i, v := range warp.Validators {
		for _, nodeID := range v.NodeIDs {
			s.index[nodeID] = i
			_, _ = nodes.Write(binary.BigEndian.AppendUint64(nodeID.Bytes(), uint64(i)))
		}
		s.keyed += v.Weight
		_, _ = digest.Write(v.PublicKeyBytes)
		_, _ = digest.Write(binary.BigEndian.AppendUint64(nil, v.Weight))
	}
	s.fingerprint, s.nodes = ids.ID(digest.Sum(nil)), ids.ID(nodes.Sum(nil))
	return s
}

// at returns the same set at another height.
func (s *Set) at(height uint64) *Set {
	moved := *s
	moved.Height = height
	return &moved
}

// Index returns the canonical position of the validator that nodeID belongs to.
func (s *Set) Index(nodeID ids.NodeID) (int, bool) {
	i, ok := s.index[nodeID]
	return i, ok
}

// KeyedWeight returns the weight of the validators that have a key and thus can sign.
func (s *Set) KeyedWeight() uint64 { return s.keyed }

// MinWeight is the least weight that meets a quorum of percent (0 to 100) of the
// total, keyless weight included: the ceiling, as the verifier compares exactly
// (avalanchego, vms/platformvm/warp.VerifyWeight). Above 100 it is out of reach.
func (s *Set) MinWeight(percent uint64) uint64 {
	hi, lo := bits.Mul64(s.TotalWeight, percent)
	if hi >= 100 {
		return math.MaxUint64
	}
	weight, rest := bits.Div64(hi, lo, 100)
	if rest != 0 && weight != math.MaxUint64 {
		weight++
	}
	return weight
}

// Fingerprint is equal for sets against which the same signatures are valid:
// same subnet, keys, weights and total weight, at whichever height.
func (s *Set) Fingerprint() ids.ID { return s.fingerprint }

// Nodes is equal for sets with the same nodes in the same order. The nodes of a set may change
// while its fingerprint does not: a validator may move its key to another node.
func (s *Set) Nodes() ids.ID { return s.nodes }

// same reports whether two sets of a subnet differ in nothing but their height.
func (s *Set) same(o *Set) bool { return s.fingerprint == o.fingerprint && s.nodes == o.nodes }
