package store

import (
	"bytes"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/stretchr/testify/require"
)

func TestComparer(t *testing.T) {
	var prefixes, suffixes [][]byte
	for _, part := range []string{"", "\x00", "\x00\x01", "\x00\xff", "\x01", "a", "a\x00", "ab", "\xff", "\xff\xff"} {
		for _, family := range []Family{FamilyMeta, FamilyMessage} {
			prefixes = append(prefixes, appendPrefix(nil, family, []byte(part)))
		}
		suffixes = append(suffixes, []byte(part))
	}
	require.NoError(t, pebble.CheckComparer(comparer(), prefixes, suffixes))
}

// FuzzKey checks that encoded keys order as their parts do, split where the
// partition ends, and decode to what they were.
func FuzzKey(f *testing.F) {
	f.Add([]byte("p"), []byte("k"), []byte("p\x00"), []byte(""), uint8(0))
	f.Add([]byte("\x00\x01"), []byte("\x00\x01"), []byte("\x00"), []byte("\xff"), uint8(1))
	f.Add([]byte(""), []byte("\x00\x01"), []byte(""), []byte(""), uint8(2))
	f.Fuzz(func(t *testing.T, p1, k1, p2, k2 []byte, families uint8) {
		all := Families()
		f1, f2 := all[int(families)%len(all)], all[int(families>>4)%len(all)]
		a, b := encodeKey(f1, p1, k1), encodeKey(f2, p2, k2)
		want := PK{p1, k1}.compare(PK{p2, k2})
		if f1 != f2 {
			want = bytes.Compare([]byte{byte(f1)}, []byte{byte(f2)})
		}
		if got := bytes.Compare(a, b); got != want {
			t.Fatalf("%x and %x: got order %d, want %d", a, b, got, want)
		}
		if got, want := splitKey(a), prefixLen(p1); got != want {
			t.Fatalf("split of %x: got %d, want %d", a, got, want)
		}
		pk, ok := decodeKey(a)
		if !ok || !bytes.Equal(pk.P, p1) || !bytes.Equal(pk.K, k1) {
			t.Fatalf("%x: got %x, %x, %t, want %x and %x", a, pk.P, pk.K, ok, p1, k1)
		}
		if family, pk, ok := ParseKey(a); (len(p1)+len(k1) <= MaxKey) != ok || ok && (family != f1 || !bytes.Equal(pk.P, p1) || !bytes.Equal(pk.K, k1)) {
			t.Fatalf("%x: got family %s, %x, %x, %t, want %s, %x and %x", a, family, pk.P, pk.K, ok, f1, p1, k1)
		}
		end := endOf(encodeKey(f1, p1, nil))
		if inside, want := bytes.Compare(b, end) < 0 && bytes.Compare(b, encodeKey(f1, p1, nil)) >= 0, f1 == f2 && bytes.Equal(p1, p2); inside != want {
			t.Fatalf("%x within partition %x: got %t, want %t", b, p1, inside, want)
		}
		// Hostile input must not panic, nor decode to something that encodes otherwise.
		if pk, ok := decodeKey(p1); ok && !bytes.Equal(encodeKey(Family(p1[0]), pk.P, pk.K), p1) {
			t.Fatalf("%x decodes to %x and %x, which encode to another key", p1, pk.P, pk.K)
		}
		if family, pk, ok := ParseKey(p1); ok && !bytes.Equal(encodeKey(family, pk.P, pk.K), p1) {
			t.Fatalf("%x parses to %s, %x and %x, which encode to another key", p1, family, pk.P, pk.K)
		}
	})
}
