package data_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/constants"

	"quorate/handlers/apitest"
	"quorate/handlers/compat"
	"quorate/handlers/data"
	chain "quorate/internal/chain/ledger"
	"quorate/internal/index/ledger"
)

// times are known times.
type times map[ids.ID]time.Time

func (t times) Time(id ids.ID) (time.Time, bool) {
	at, ok := t[id]
	return at, ok
}

// TestTimesBeforeCortina says of pre-Cortina transactions and vertices that their time is
// an upper bound, unless it is known.
func TestTimesBeforeCortina(t *testing.T) {
	cortina := ago(time.Hour)
	f := newFake()
	f.cortina = cortina
	early := output(90, 0, all(func(o *ledger.Output) {
		o.ChainID, o.DestinationID, o.Height, o.Time, o.Amount = xID, xID, 0, cortina, 9_000_000_000_000
	}))
	f.outputs = []*ledger.Output{early}
	known := times{early.TxID: cortina.Add(-time.Minute), f.vertices[0].ID: cortina.Add(-time.Second), f.vertices[1].ID: cortina.Add(time.Second)}
	for name, test := range map[string]struct {
		times data.Times
		want  time.Time
		bound bool
	}{
		"unknown": {nil, cortina, true},
		"known":   {known, cortina.Add(-time.Minute), false},
	} {
		t.Run(name, func(t *testing.T) {
			n := f.network()
			n.Times = test.times
			h := surface(t, map[string]data.Network{"fuji": n}, compat.Auto)
			var outputs struct {
				UTXOs []struct {
					BlockTimestamp             int64
					BlockTimestampIsUpperBound *bool
				}
			}
			w := apitest.Get(h, xUTXOs+"&includeSpent=true")
			require.Equal(t, http.StatusOK, w.Code, w.Body)
			require.NoError(t, json.Unmarshal(w.Body.Bytes(), &outputs))
			require.Len(t, outputs.UTXOs, 1)
			require.Equal(t, test.want.Unix(), outputs.UTXOs[0].BlockTimestamp)
			require.Equal(t, test.bound, outputs.UTXOs[0].BlockTimestampIsUpperBound != nil)
			var found struct {
				Vertices []struct {
					VertexTimestamp             int64
					VertexTimestampIsUpperBound bool
				}
			}
			w = apitest.Get(h, verticesAt+"&pageSize=2&sortOrder=asc")
			require.NoError(t, json.Unmarshal(w.Body.Bytes(), &found))
			require.Len(t, found.Vertices, 2)
			require.Equal(t, test.bound, found.Vertices[0].VertexTimestampIsUpperBound)
			require.True(t, found.Vertices[1].VertexTimestampIsUpperBound, "a time after Cortina is not believed")
			require.Equal(t, cortina.Unix(), found.Vertices[1].VertexTimestamp)
		})
	}
}

// TestTimesBeforeCortinaAreInOrder has an export of the X-Chain that the P-Chain imported before Cortina. Its upper bound is
// the time by which the list has it, though the import shows that it was made earlier.
func TestTimesBeforeCortinaAreInOrder(t *testing.T) {
	cortina := ago(time.Hour)
	imported, later := cortina.Add(-24*time.Hour), cortina.Add(-12*time.Hour)
	f := newFake()
	f.cortina = cortina
	f.outputs = []*ledger.Output{
		output(90, 0, func(o *ledger.Output) {
			o.ChainID, o.DestinationID, o.Height, o.Time = xID, constants.PlatformChainID, 0, cortina
			o.Spent = &chain.Spend{TxID: ids.ID{7}, Height: 5, Time: imported}
		}),
		output(91, 0, func(o *ledger.Output) { o.ChainID, o.DestinationID, o.Time = constants.PlatformChainID, xID, later }),
	}
	for order, want := range map[string][]time.Time{"desc": {cortina, later}, "asc": {later, cortina}} {
		var outputs struct {
			UTXOs []struct {
				TxHash                                                          string
				BlockTimestamp, ConsumingBlockTimestamp                         int64
				BlockTimestampIsUpperBound, ConsumingBlockTimestampIsUpperBound bool
			}
		}
		w := apitest.Get(fuji(t, f), xUTXOs+"&includeSpent=true&sortOrder="+order)
		require.Equal(t, http.StatusOK, w.Code, w.Body)
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &outputs))
		require.Len(t, outputs.UTXOs, len(want))
		for i, got := range outputs.UTXOs {
			require.Equal(t, want[i].Unix(), got.BlockTimestamp, order)
			require.Equal(t, got.TxHash == ids.ID{90}.String(), got.BlockTimestampIsUpperBound)
			if got.BlockTimestampIsUpperBound {
				require.Equal(t, imported.Unix(), got.ConsumingBlockTimestamp)
				require.False(t, got.ConsumingBlockTimestampIsUpperBound)
			}
		}
	}
}

// TestBalancesBeforeCortinaAreRefused: no node reports what the X-Chain had accepted then.
func TestBalancesBeforeCortinaAreRefused(t *testing.T) {
	f := newFake()
	f.cortina = ago(time.Hour)
	h := fuji(t, f)
	x := strings.Replace(balances, "p-chain", "x-chain", 1)
	for _, at := range []int64{0, f.cortina.Unix() - 1, f.cortina.Unix()} {
		requireError(t, apitest.Get(h, x+fmt.Sprintf("&blockTimestamp=%d", at)), 400, "blockTimestamp: balances of the x-chain are not known")
	}
	require.Equal(t, http.StatusOK, apitest.Get(h, x+fmt.Sprintf("&blockTimestamp=%d", f.cortina.Unix()+1)).Code)
	require.Equal(t, http.StatusOK, apitest.Get(h, x).Code)

	// Answers about other chains leave out only transfers with the X-Chain.
	w := apitest.Get(h, balances+fmt.Sprintf("&blockTimestamp=%d", f.cortina.Unix()))
	require.Equal(t, http.StatusOK, w.Code, w.Body)
	require.Contains(t, w.Body.String(), `"unavailable":[{"chainName":"x-chain"`)
	require.NotContains(t, w.Body.String(), `"sharedWithChainId":"`+xID.String()+`"`)
	w = apitest.Get(h, balances)
	require.NotContains(t, w.Body.String(), "unavailable")
	require.Contains(t, w.Body.String(), `"sharedWithChainId":"`+xID.String()+`"`)
}
