package rpc

import (
	"encoding/hex"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/formatting"
)

// AppendHex appends b in one of the forms of hex (avalanchego, package
// utils/formatting): all but formatting.HexNC end with the last 4 bytes of hash, the
// SHA-256 of b, which is not asked for otherwise.
func AppendHex(to []byte, e formatting.Encoding, b []byte, hash func() ids.ID) []byte {
	to = hex.AppendEncode(append(to, "0x"...), b)
	if e == formatting.HexNC {
		return to
	}
	digest := hash()
	return hex.AppendEncode(to, digest[len(digest)-4:])
}
