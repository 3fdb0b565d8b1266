package validators

import (
	"bytes"
	"fmt"
	"math/bits"
	"slices"
	"sync"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/snow/validators"
	"github.com/ava-labs/avalanchego/utils/crypto/bls"

	"quorate/internal/node"
)

// canonical merges validators by key, as snow/validators.FlattenValidatorSet does. It
// shares keys and unchanged sets with earlier results.
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
		if len(v.NodeIDs) == 0 { // no node could be asked for its signature
			return nil, fmt.Errorf("reading the set of subnet %s at height %d: %w: a key without a node", subnetID, height, node.ErrMalformed)
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
	before := r.latest[subnetID]
	r.mu.Unlock()
	if before != nil && before.same(s) {
		return before.at(height), nil
	}
	return s, nil
}

// publicKey is a parsed key in the forms that callers need.
type publicKey struct {
	point        *bls.PublicKey
	uncompressed []byte
}

// keyring parses each key once, because a check takes 0.1 ms. Its size is bounded. The zero
// value is ready to use.
type keyring struct {
	mu   sync.Mutex
	keys map[[bls.PublicKeyLen]byte]*publicKey // guarded by mu
}

const maxKeys = 1 << 16

func (k *keyring) parse(compressed []byte) (*publicKey, error) {
	if len(compressed) != bls.PublicKeyLen {
		return nil, fmt.Errorf("a BLS public key has %d bytes, not %d", len(compressed), bls.PublicKeyLen)
	}
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
	if known, ok := k.keys[id]; ok { // another caller was faster: share its key
		return known, nil
	}
	if k.keys == nil || len(k.keys) >= maxKeys {
		k.keys = make(map[[bls.PublicKeyLen]byte]*publicKey)
	}
	k.keys[id] = key
	return key, nil
}
