package data_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"

	"quorate/handlers/apitest"
	"quorate/internal/index/vertices"
)

// TestVertices requires that a vertex is the same alone, in the list of its height and in that of the latest.
func TestVertices(t *testing.T) {
	f := newFake()
	f.cortina = now.Add(-time.Hour)
	h := fuji(t, f)
	path := "/blockchains/x-chain/vertices"
	latest := followed(t, h, path+"?pageSize=3", "vertices")
	require.Len(t, latest, len(f.vertices))
	for i, v := range latest {
		require.Equal(t, v, answer(t, h, path+"/"+v["vertexHash"].(string)))
		if i < 13 {
			require.Equal(t, fmt.Sprint(52-i), fmt.Sprint(v["vertexIndex"]))
		}
	}
	require.ElementsMatch(t, followed(t, h, path+":listByHeight?vertexHeight=5", "vertices"), latest[:13])

	requireError(t, apitest.Get(h, base+"/blockchains/p-chain/vertices"), 400, "blockchainId: ")
	requireError(t, apitest.Get(h, base+"/blockchains/p-chain/vertices/"+ids.ID{77}.String()), 400, "blockchainId: ")
	requireError(t, apitest.Get(h, base+path+"/nonsense"), 400, "vertexHash: ")
	requireError(t, apitest.Get(h, base+path+"/"+ids.ID{78}.String()), 404, "vertexHash: ")
	requireError(t, apitest.Get(h, base+path+"?pageSize=0"), 400, "pageSize: ")
	f.err = fmt.Errorf("%w: 3 are fetched", vertices.ErrIncomplete)
	requireError(t, apitest.Get(h, base+path), 503, "the index of this chain is still catching up")
	requireError(t, apitest.Get(h, base+path+"/"+ids.ID{77}.String()), 503, "the index of this chain is still catching up")
}
