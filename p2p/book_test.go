package p2p

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"
)

func TestBookSurvives(t *testing.T) {
	dir := t.TempDir()
	b := openBook(dir, slog.New(slog.DiscardHandler))
	require.NoError(t, b.save())
	require.NoFileExists(t, b.path, "an empty book is not written")

	v4, v6 := netip.MustParseAddrPort("1.2.3.4:9651"), netip.MustParseAddrPort("[2001:db8::1]:1")
	b.met(Address{NodeID: ids.NodeID{1}, Addr: v4})
	b.met(Address{NodeID: ids.NodeID{2}, Addr: v6})
	b.met(Address{NodeID: ids.NodeID{3}}) // no address
	require.NoError(t, b.save())
	info, err := os.Stat(b.path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())

	again := openBook(dir, slog.New(slog.DiscardHandler))
	require.Equal(t, []Address{{ids.NodeID{2}, v6}, {ids.NodeID{1}, v4}}, again.addresses(), "last seen first")
}

func TestBookIsWrittenOnlyWhenChanged(t *testing.T) {
	b := openBook(t.TempDir(), slog.New(slog.DiscardHandler))
	b.met(Address{NodeID: ids.NodeID{1}, Addr: netip.MustParseAddrPort("1.2.3.4:1")})
	require.NoError(t, b.save())
	require.NoError(t, os.Remove(b.path))
	require.NoError(t, b.save())
	require.NoFileExists(t, b.path)
}

func TestBookThatCannotBeWrittenIsTriedAgain(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "missing")
	b := openBook(dir, slog.New(slog.DiscardHandler))
	b.met(Address{NodeID: ids.NodeID{1}, Addr: netip.MustParseAddrPort("1.2.3.4:1")})
	require.ErrorContains(t, b.save(), b.path)
	require.NoError(t, os.Mkdir(dir, 0o700))
	require.NoError(t, b.save())
	require.FileExists(t, b.path)
}

func TestCorruptBookIsLoggedAndBegunAnew(t *testing.T) {
	nodeID := ids.NodeID{1}
	for _, tc := range []struct {
		name, content string
		logged        bool
		entries       int
	}{
		{"empty file", "", true, 0},
		{"cut off", `{"` + nodeID.String() + `":{"addr":"1.2`, true, 0},
		{"list", `[]`, true, 0},
		{"null", `null`, true, 0},
		{"not a node ID", `{"NodeID-x":{"addr":"1.2.3.4:1"}}`, true, 0},
		{"not an address", `{"` + nodeID.String() + `":{"addr":"nowhere"}}`, true, 0},
		{"trailing text", `{} x`, true, 0},
		{"address that cannot be dialled", `{"` + nodeID.String() + `":{"addr":"0.0.0.0:1","seen":"` + time.Now().Format(time.RFC3339) + `"}}`, false, 0},
		{"too old", `{"` + nodeID.String() + `":{"addr":"1.2.3.4:1","seen":"2020-01-01T00:00:00Z"}}`, false, 0},
		{"good", `{"` + nodeID.String() + `":{"addr":"1.2.3.4:1","seen":"` + time.Now().Format(time.RFC3339) + `"}}`, false, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			require.NoError(t, os.WriteFile(filepath.Join(dir, bookFile), []byte(tc.content), 0o600))
			var log bytes.Buffer
			b := openBook(dir, slog.New(slog.NewTextHandler(&log, nil)))
			require.Len(t, b.addresses(), tc.entries)
			require.Equal(t, tc.logged, log.Len() > 0, "logged: %s", log.String())
			b.met(Address{NodeID: ids.NodeID{2}, Addr: netip.MustParseAddrPort("1.2.3.4:1")})
			require.NoError(t, b.save())
			require.Len(t, openBook(dir, slog.New(slog.DiscardHandler)).addresses(), tc.entries+1)
		})
	}
}

func TestBookIsBounded(t *testing.T) {
	dir := t.TempDir()
	now := time.Now()
	entries := make(map[ids.NodeID]bookEntry)
	for i := range maxBook + 500 {
		nodeID := ids.NodeID{byte(i), byte(i >> 8), 1}
		entries[nodeID] = bookEntry{Addr: netip.MustParseAddrPort("1.2.3.4:1"), Seen: now.Add(-time.Duration(i) * time.Second)}
	}
	data, err := json.Marshal(entries)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, bookFile), data, 0o600))
	list := openBook(dir, slog.New(slog.DiscardHandler)).addresses()
	require.Len(t, list, maxBook)
	require.Equal(t, ids.NodeID{0, 0, 1}, list[0].NodeID, "the one seen last")
	last := maxBook - 1
	require.Equal(t, ids.NodeID{byte(last), byte(last >> 8), 1}, list[last].NodeID, "the oldest that is kept")
}
