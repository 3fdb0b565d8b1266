package aggregator

import (
	"sync/atomic"
	"time"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/snow/validators"
	"github.com/ava-labs/avalanchego/utils/crypto/bls"

	"quorate/internal/bounded"
)

// signatureID names one validator's signature of one message. The key is the
// full uncompressed public key: its first half alone is shared by a key and its
// negation, which one owner can hold both of.
type signatureID struct {
	message ids.ID
	key     publicKey
}

// publicKey is an uncompressed public key.
type publicKey [keyLen]byte

const keyLen = 2 * bls.PublicKeyLen

// signatureCost is what one entry of the signature cache takes in bytes at most,
// the cache's own bookkeeping included; a test measures it.
const signatureCost = 512

// messageCost is what a finished message takes besides its own bytes: the account
// with its lists of nodes and refusals.
const messageCost = 4160

// signatures caches signatures that were verified one by one. It is bounded in bytes and
// safe for concurrent use.
type signatures struct {
	cache        *bounded.Cache[signatureID, [bls.SignatureLen]byte]
	hits, misses atomic.Uint64
}

func newSignatures(maxBytes uint64) *signatures {
	return &signatures{cache: bounded.New(bounded.Options[signatureID, [bls.SignatureLen]byte]{
		Entries: int(max(maxBytes/signatureCost, 1)),
	})}
}

func keyOf(v *validators.Warp) (key publicKey) {
	copy(key[:], v.PublicKeyBytes)
	return key
}

func (s *signatures) get(message ids.ID, v *validators.Warp) ([bls.SignatureLen]byte, bool) {
	signature, ok := s.cache.Get(signatureID{message, keyOf(v)})
	count(ok, &s.hits, &s.misses)
	return signature, ok
}

func (s *signatures) put(message ids.ID, key publicKey, signature [bls.SignatureLen]byte) {
	s.cache.Set(signatureID{message, key}, signature)
}

// bytes is what the cache is counted to hold.
func (s *signatures) bytes() float64 { return signatureCost * float64(s.cache.Len()) }

// finishedID names a finished message: what was signed, by which set, and the
// weights that were asked for.
type finishedID struct {
	message, set ids.ID
	need, want   uint64
}

// finished caches verified signed messages. It is bounded in bytes and safe for concurrent
// use.
type finished struct {
	cache        *bounded.Cache[finishedID, *Result]
	hits, misses atomic.Uint64
}

func newFinished(maxBytes uint64) *finished {
	return &finished{cache: bounded.New(bounded.Options[finishedID, *Result]{
		Weight: max(maxBytes, messageCost),
		Weigh: func(_ finishedID, r *Result) uint32 {
			return uint32(messageCost + 2*len(r.Message.Bytes()))
		},
	})}
}

// shortLife is how long a message without its buffer is cached: after that, more
// validators may sign.
const shortLife = 10 * time.Second

func (f *finished) get(id finishedID) (*Result, bool) {
	r, ok := f.look(id)
	count(ok, &f.hits, &f.misses)
	return r, ok
}

// look is get without counting the lookup.
func (f *finished) look(id finishedID) (*Result, bool) {
	r, ok := f.cache.Get(id)
	return r, ok && (r.Weight >= id.want || time.Since(r.made) < shortLife)
}

func (f *finished) put(id finishedID, r *Result) { f.cache.Set(id, r) }

func count(hit bool, hits, misses *atomic.Uint64) {
	if hit {
		hits.Add(1)
		return
	}
	misses.Add(1)
}

// bytes is what the cache is counted to hold.
func (f *finished) bytes() float64 { return float64(f.cache.Weight()) }
