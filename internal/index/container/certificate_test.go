package container

import (
	"bytes"
	"crypto"
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/staking"
	"github.com/ava-labs/avalanchego/utils/hashing"
	proposer "github.com/ava-labs/avalanchego/vms/proposervm/block"

	"quorate/internal/chain/envelope"
	"quorate/internal/store"
)

type proposerKey = crypto.Signer

var chain = Chain{NetworkID: 5, Name: "P"}

// signed returns a container built by the library, unsigned without an identity.
func signed(t testing.TB, identity *staking.Certificate, signer proposerKey, inner string) []byte {
	t.Helper()
	var made interface{ Bytes() []byte }
	var err error
	if identity == nil {
		made, err = proposer.BuildUnsigned(ids.ID{1}, time.Unix(1_700_000_000, 0), 7, proposer.Epoch{}, []byte(inner))
	} else {
		made, err = proposer.Build(ids.ID{1}, time.Unix(1_700_000_000, 0), 7, proposer.Epoch{Number: 1}, identity, []byte(inner), ids.ID{2}, signer)
	}
	require.NoError(t, err)
	return made.Bytes()
}

// certified returns bytes in the form of an envelope with any certificate.
func certified(kind uint32, certificate []byte, rest string) []byte {
	b := make([]byte, 2, 256)
	b = binary.BigEndian.AppendUint32(b, kind)
	b = append(b, make([]byte, 32+8+8)...)
	b = binary.BigEndian.AppendUint32(b, uint32(len(certificate)))
	return append(append(b, certificate...), rest...)
}

// written returns a store with containers of these bytes, from height 0 on.
func written(t testing.TB, w *Writer, all [][]byte) store.Store {
	t.Helper()
	s := store.NewMemory()
	var batch store.Batch
	for i, b := range all {
		one := Container{Height: uint64(i), Form: Accepted, ID: ids.ID{byte(i), 1}, Time: time.Unix(int64(i), 0).UTC(), Bytes: bytes.Clone(b)}
		if i%3 == 0 {
			one.ID = hashing.ComputeHash256Array(b)
		}
		w.Put(&batch, &one)
		clear(one.Bytes) // the batch does not retain them
	}
	require.NoError(t, s.Commit(t.Context(), &batch))
	return s
}

func requireBack(t testing.TB, s store.Store, all [][]byte) {
	t.Helper()
	found, err := chain.Range(t.Context(), s, 0, len(all))
	require.NoError(t, err)
	require.Len(t, found, len(all))
	for i, b := range all {
		id := ids.ID{byte(i), 1}
		if i%3 == 0 {
			id = hashing.ComputeHash256Array(b)
		}
		require.Equal(t, b, found[i].Bytes, "bytes of container %d of a range", i)
		require.Equal(t, id, found[i].ID, "ID of container %d of a range", i)
		require.Equal(t, ids.ID(hashing.ComputeHash256Array(b)), found[i].Hash(), "hash of container %d", i)
		one, err := chain.Get(t.Context(), s, uint64(i))
		require.NoError(t, err)
		require.Equal(t, found[i], one, "container %d by itself", i)
	}
}

// sizes returns the rows and bytes of families.
func sizes(t testing.TB, s store.Store, families ...store.Family) (rows, size int) {
	t.Helper()
	for _, family := range families {
		for row, err := range store.Rows(t.Context(), s, family) {
			require.NoError(t, err)
			rows++
			size += len(row.P) + len(row.K) + len(row.V)
		}
	}
	return rows, size
}

func TestCertificatesComeBack(t *testing.T) {
	var identities []*staking.Certificate
	var keys []proposerKey
	for range 3 {
		one, err := staking.NewTLSCert()
		require.NoError(t, err)
		identity, err := staking.ParseCertificate(one.Leaf.Raw)
		require.NoError(t, err)
		identities, keys = append(identities, identity), append(keys, one.PrivateKey.(proposerKey))
	}
	der := identities[0].Raw
	var shared [][]byte
	for i := range 12 {
		shared = append(shared, signed(t, identities[i%3], keys[i%3], fmt.Sprintf("block %d", i)))
	}
	for _, test := range []struct {
		name string
		all  [][]byte
		// rows is the number of certificates with their own row.
		rows int
	}{
		{"shared", shared, 3},
		{"each its own", shared[:3], 3},
		{"absent", [][]byte{signed(t, nil, nil, "nobody in time"), []byte("no envelope"), {}, der}, 0},
		{"none of the types that have one", [][]byte{certified(1, der, "option"), certified(3, der, "unknown")}, 0},
		{"of an older envelope", [][]byte{certified(0, der, "and so on")}, 1},
		{"nothing that is a certificate", [][]byte{certified(2, bytes.Repeat([]byte{7}, 100), ""), certified(2, bytes.Repeat([]byte{7}, 100), "rest")}, 1},
		{"as long as there are any", [][]byte{certified(2, make([]byte, 2048), "rest"), certified(2, make([]byte, 64), "")}, 2},
		{"longer, and not worth it", [][]byte{certified(2, make([]byte, 2049), "rest"), certified(2, make([]byte, 63), "")}, 0},
		{"that ends early", [][]byte{certified(2, der, "")[:len(der)], certified(2, der, "")[:50], certified(2, der, "")[:58]}, 0},
		{"of length 0, and without end", [][]byte{certified(2, nil, "rest"), append(certified(2, nil, "")[:54], 0xff, 0xff, 0xff, 0xff, 1)}, 0},
		{"all at once", append([][]byte{[]byte("no envelope"), certified(0, der, "")}, shared...), 3},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := written(t, NewWriter(chain), test.all)
			requireBack(t, s, test.all)
			rows, _ := sizes(t, s, store.FamilyContainerCertificate)
			require.Equal(t, test.rows, rows, "rows of certificates")
		})
	}
}

// TestWritersAgree requires that a writer with a small cache and its successor write the same rows as a writer with a
// full cache.
func TestWritersAgree(t *testing.T) {
	var all [][]byte
	for i := range 40 {
		all = append(all, certified(2, bytes.Repeat([]byte{byte(i % 9)}, 300), fmt.Sprint(i)))
	}
	want, err := store.DumpHash(t.Context(), written(t, NewWriter(chain), all))
	require.NoError(t, err)
	forgetful := NewWriter(chain)
	forgetful.bytes = cachedBytes - 1000
	got, err := store.DumpHash(t.Context(), written(t, forgetful, all))
	require.NoError(t, err)
	require.Equal(t, want, got, "dump of a writer with a small cache")
	require.Less(t, forgetful.bytes, 40*400, "size of the cache")

	s := written(t, NewWriter(chain), all[:17])
	var batch store.Batch
	second := NewWriter(chain)
	for i := 15; i < len(all); i++ { // repeats two of them
		id := ids.ID{byte(i), 1}
		if i%3 == 0 {
			id = hashing.ComputeHash256Array(all[i])
		}
		second.Put(&batch, &Container{Height: uint64(i), Form: Accepted, ID: id, Time: time.Unix(int64(i), 0).UTC(), Bytes: all[i]})
	}
	require.NoError(t, s.Commit(t.Context(), &batch))
	got, err = store.DumpHash(t.Context(), s)
	require.NoError(t, err)
	require.Equal(t, want, got, "dump of two writers in succession")
}

// TestStrangersCostLittle signs every container with another certificate. The overhead over whole
// containers must be small in the store and in memory.
func TestStrangersCostLittle(t *testing.T) {
	const n = 3000
	w, whole := NewWriter(chain), store.NewMemory()
	var plain store.Batch
	var all [][]byte
	for i := range n {
		der := bytes.Repeat(binary.BigEndian.AppendUint32(nil, uint32(i)), 512)
		all = append(all, certified(2, der, "block"))
		id := ids.ID{byte(i), 1}
		if i%3 == 0 {
			id = hashing.ComputeHash256Array(all[i])
		}
		chain.Put(&plain, &Container{Height: uint64(i), Form: Accepted, ID: id, Time: time.Unix(int64(i), 0), Bytes: all[i]})
	}
	s := written(t, w, all)
	require.NoError(t, whole.Commit(t.Context(), &plain))
	rows, _ := sizes(t, s, store.FamilyContainerCertificate)
	require.Equal(t, n, rows)
	_, got := sizes(t, s, store.FamilyContainer, store.FamilyContainerCertificate)
	_, want := sizes(t, whole, store.FamilyContainer)
	require.LessOrEqual(t, got, want+n*(2*knownLen+5), "bytes of rows")
	require.LessOrEqual(t, w.bytes, cachedBytes)
	require.LessOrEqual(t, len(w.known), cachedBytes/2048)
}

func TestDamagedCertificates(t *testing.T) {
	der := bytes.Repeat([]byte{5}, 300)
	all := [][]byte{[]byte("no envelope"), certified(2, der, "block"), certified(2, der, "another")}
	for name, damage := range map[string]func(b *store.Batch, pk store.PK){
		"gone":          func(b *store.Batch, pk store.PK) { b.Delete(store.FamilyContainerCertificate, pk) },
		"empty":         func(b *store.Batch, pk store.PK) { b.Put(store.FamilyContainerCertificate, pk, nil) },
		"of its length": func(b *store.Batch, pk store.PK) { b.Put(store.FamilyContainerCertificate, pk, make([]byte, len(der))) },
	} {
		t.Run(name, func(t *testing.T) {
			s := written(t, NewWriter(chain), all)
			var b store.Batch
			damage(&b, chain.certificateKey(knownBy(der)))
			require.NoError(t, s.Commit(t.Context(), &b))
			_, err := chain.Get(t.Context(), s, 1)
			require.ErrorIs(t, err, store.ErrCorrupt)
			_, err = chain.Range(t.Context(), s, 0, 3)
			require.ErrorIs(t, err, store.ErrCorrupt)
			one, err := chain.Get(t.Context(), s, 0)
			require.NoError(t, err)
			require.Equal(t, all[0], one.Bytes)
		})
	}
}

func FuzzCertificates(f *testing.F) {
	der := bytes.Repeat([]byte{5}, 70)
	f.Add(certified(0, der, "block"), certified(2, der, "another"))
	f.Add(certified(2, der[:64], ""), []byte{})
	f.Add(certified(2, der, "")[:100], certified(1, der, "option"))
	f.Fuzz(func(t *testing.T, x, y []byte) {
		all := [][]byte{x, y, x}
		requireBack(t, written(t, NewWriter(chain), all), all)
		if from, to, ok := envelope.Certificate(x); ok {
			b, ok := join(append(bytes.Clone(x[:from]), x[to:]...), x[from:to])
			require.True(t, ok)
			require.Equal(t, x, b)
		}
	})
}
