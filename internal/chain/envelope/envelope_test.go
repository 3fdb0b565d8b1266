package envelope_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/staking"
	proposer "github.com/ava-labs/avalanchego/vms/proposervm/block"

	"quorate/internal/chain/envelope"
	"quorate/internal/simnet/history"
)

// sealed returns containers of all chains of a generated history.
func sealed(t testing.TB, transactions int) (all [][]byte) {
	t.Helper()
	g, err := history.New(history.Options{Seed: 4, Txs: transactions})
	require.NoError(t, err)
	s, err := history.NewSealer(g)
	require.NoError(t, err)
	for g.Txs() < transactions {
		b, err := g.Next()
		require.NoError(t, err)
		require.NoError(t, s.Seal(b))
		if b.Container != nil {
			all = append(all, b.Container)
		}
	}
	return all
}

// requireSame requires that Open reads b like the library.
func requireSame(t testing.TB, b []byte) (opened bool) {
	t.Helper()
	got, opened := envelope.Open(b)
	want, err := proposer.ParseWithoutVerification(b)
	require.Equal(t, err == nil, opened, "the library says: %v", err)
	if !opened {
		require.Zero(t, got)
		return false
	}
	require.Equal(t, want.ID(), got.ID)
	require.Equal(t, want.ParentID(), got.ParentID)
	require.Equal(t, want.Block(), got.Block)
	if signed, ok := want.(proposer.SignedBlock); ok {
		require.Equal(t, signed.Timestamp().UTC(), got.Time)
		require.Equal(t, signed.PChainHeight(), got.PChainHeight)
		require.Equal(t, signed.Proposer(), got.Proposer)
	} else {
		require.Zero(t, got.Time)
		require.Zero(t, got.PChainHeight)
		require.Zero(t, got.Proposer)
	}
	return true
}

func TestOpen(t *testing.T) {
	bare, signed := 0, 0
	for i, b := range sealed(t, 2000) {
		if !requireSame(t, b) {
			bare++
		} else if e, _ := envelope.Open(b); e.Proposer != ids.EmptyNodeID && !e.Time.IsZero() {
			signed++
		}
		if i%50 > 0 {
			continue
		}
		for at := range min(len(b), 700) { // includes the certificate
			spoilt := append([]byte(nil), b...)
			spoilt[at] ^= byte(1 << (at % 8))
			requireSame(t, spoilt)
		}
		for _, cut := range []int{1, 4, 70, len(b) - 1} {
			requireSame(t, b[:max(len(b)-cut, 0)])
		}
		requireSame(t, append(append([]byte(nil), b...), 0))
	}
	require.Positive(t, bare)
	require.Positive(t, signed)
}

func FuzzOpen(f *testing.F) {
	for _, b := range sealed(f, 100) {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) { requireSame(t, b) })
}

// TestCertificate finds the certificates of signed envelopes only.
func TestCertificate(t *testing.T) {
	found := 0
	for _, b := range sealed(t, 300) {
		one, _ := envelope.Open(b)
		from, to, ok := envelope.Certificate(b)
		require.Equal(t, one.Proposer != ids.EmptyNodeID, ok)
		if ok {
			found++
			require.Equal(t, envelope.BeforeCertificate, from)
			require.Equal(t, one.Proposer, ids.NodeIDFromCert(&staking.Certificate{Raw: b[from:to]}))
		}
	}
	require.Positive(t, found)
}
