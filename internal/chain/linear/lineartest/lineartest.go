// Package lineartest holds the types of a decoder of package linear against those of the library's codec.
package lineartest

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/codec"
	"github.com/ava-labs/avalanchego/codec/linearcodec"
	"github.com/ava-labs/avalanchego/utils/wrappers"

	"quorate/internal/chain/linear"
)

// RequireTypes requires that register registers the library's types, with their IDs. It fails if an update of the library
// has new ones.
func RequireTypes(t testing.TB, library codec.Manager, register func(linearcodec.Codec) error) {
	t.Helper()
	ours := linear.New[any](1<<10, register)
	for id := range uint32(64) {
		encoded := binary.BigEndian.AppendUint32([]byte{0, 0}, id)
		var want any
		_, refused := library.Unmarshal(encoded, &want)
		got, err := ours.Decode(encoded)
		require.Equal(t, want, got)
		if refused != nil && strings.Contains(refused.Error(), "unknown type ID") {
			require.ErrorContains(t, err, fmt.Sprintf("type %d", id))
		} else if refused != nil {
			require.ErrorIs(t, err, wrappers.ErrInsufficientLength, "the library has a type %d", id)
		}
	}
}
