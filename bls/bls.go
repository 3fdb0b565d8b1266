// Package bls checks many BLS signatures of one message at once. It is a thin
// layer over blst with the scheme that Avalanche uses (public keys in G1,
// signatures in G2, proof-of-possession cipher suite); keys and signatures are
// blst's own affine points, so they pass to avalanchego's verification as they
// are. Whose keys they are and how much weight they carry is not its business.
package bls

import (
	blst "github.com/supranational/blst/bindings/go"
)

// SignatureLen is the length in bytes of a compressed signature.
const SignatureLen = blst.BLST_P2_COMPRESS_BYTES

type (
	// PublicKey is a point of G1 that has passed its subgroup check.
	PublicKey = blst.P1Affine
	// Signature is a point of G2 that has passed its subgroup check.
	Signature = blst.P2Affine
)
