package index

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/indexer"
	"github.com/ava-labs/avalanchego/utils/formatting"
	"github.com/ava-labs/avalanchego/utils/hashing"
	avajson "github.com/ava-labs/avalanchego/utils/json"

	"quorate/handlers/apitest"
	"quorate/handlers/rpc"
	"quorate/internal/index/container"
	"quorate/internal/node"
	"quorate/internal/store"
)

var noted = time.Date(2026, 1, 2, 3, 4, 5, 678900000, time.UTC)

// record holds n containers from height 1 on; those in bare have no ID.
func record(t testing.TB, n int, bare ...int) (*store.Memory, container.Chain, []container.Container) {
	t.Helper()
	s, chain := store.NewMemory(), container.Chain{NetworkID: 5, Name: "P"}
	var batch store.Batch
	all := make([]container.Container, n)
	for i := range all {
		b := []byte(strings.Repeat(fmt.Sprintf("block %d <>&", i), 1+i%7))
		all[i] = container.Container{Height: uint64(i + 1), Form: container.Accepted, ID: hashing.ComputeHash256Array(b), Time: noted.Add(-time.Hour), Bytes: b}
		if i%3 == 1 {
			all[i].ID = ids.ID{byte(i), byte(i >> 8), 1}
		}
		if i%5 != 2 {
			all[i].Kept = noted.Add(time.Duration(i) * time.Millisecond)
		}
	}
	for _, i := range bare {
		all[i].Form, all[i].ID, all[i].Time = container.Bare, ids.Empty, time.Time{}
	}
	writer := container.NewWriter(chain)
	for i := range all {
		writer.Put(&batch, &all[i])
	}
	require.NoError(t, s.Commit(t.Context(), &batch))
	return s, chain, all
}

type upstream struct{}

func (upstream) Forward(context.Context, string, []byte, bool) (*node.Forwarded, error) {
	return &node.Forwarded{Status: http.StatusOK, Body: []byte(`{"result":"forwarded"}`)}, nil
}

// call returns the result, or the text of the error.
func call(t testing.TB, o Options, method, params string) (result json.RawMessage, failure string) {
	t.Helper()
	h, err := rpc.NewHandler(rpc.Endpoint{Services: []rpc.Service{{Names: []string{"index"}, Methods: New(o)}}, Upstream: upstream{}})
	require.NoError(t, err)
	return apitest.Call(t, h, "index."+method, params)
}

func between(first, end uint64) func(context.Context) (uint64, uint64, error) {
	return func(context.Context) (uint64, uint64, error) { return first, end, nil }
}

// formatted is a container as avalanchego writes it.
func formatted(t testing.TB, c *container.Container, first uint64, e formatting.Encoding) string {
	t.Helper()
	b, err := formatting.Encode(e, c.Bytes)
	require.NoError(t, err)
	at := c.Kept
	if at.IsZero() {
		at = c.Time
	}
	text, err := json.Marshal(indexer.FormattedContainer{ID: c.ID, Bytes: b, Timestamp: at, Encoding: e, Index: avajson.Uint64(c.Height - first)})
	require.NoError(t, err)
	return string(text)
}

func TestContainers(t *testing.T) {
	s, chain, all := record(t, 2100)
	for _, first := range []uint64{1, 100} {
		o := Options{Reader: s, Chain: chain, Heights: between(first, 2101)}
		of := all[first-1:]
		for name, e := range map[string]formatting.Encoding{"hex": formatting.Hex, "HEXC": formatting.HexC, "hexnc": formatting.HexNC} {
			got, failure := call(t, o, "getLastAccepted", `{"encoding":"`+name+`"}`)
			require.Empty(t, failure)
			require.Equal(t, formatted(t, &of[len(of)-1], first, e), string(got))
			for i := 0; i < len(of); i += 97 {
				want := formatted(t, &of[i], first, e)
				got, failure := call(t, o, "getContainerByIndex", fmt.Sprintf(`{"index":%d,"encoding":"%s"}`, i, name))
				require.Empty(t, failure)
				require.Equal(t, want, string(got))
				got, failure = call(t, o, "getContainerByID", fmt.Sprintf(`{"id":"%s","encoding":"%s"}`, of[i].ID, name))
				require.Empty(t, failure)
				require.Equal(t, want, string(got))
				got, _ = call(t, o, "getIndex", fmt.Sprintf(`{"id":"%s"}`, of[i].ID))
				require.Equal(t, fmt.Sprintf(`{"index":"%d"}`, i), string(got))
				got, _ = call(t, o, "isAccepted", fmt.Sprintf(`{"id":"%s"}`, of[i].ID))
				require.Equal(t, `{"isAccepted":true}`, string(got))
			}
			for _, window := range [][2]int{{0, 1}, {0, 1024}, {1000, 1024}, {len(of) - 3, 1024}} { // over partitions, too
				var want []string
				for i := window[0]; i < min(window[0]+window[1], len(of)); i++ {
					want = append(want, formatted(t, &of[i], first, e))
				}
				got, failure := call(t, o, "getContainerRange", fmt.Sprintf(`{"startIndex":"%d","numToFetch":"%d","encoding":"%s"}`, window[0], window[1], name))
				require.Empty(t, failure)
				require.Equal(t, `{"containers":[`+strings.Join(want, ",")+`]}`, string(got))
			}
		}
	}
}

// Ranges count against the memory for answers: a range that does not fit is refused, and
// its memory is given back.
func TestRangeWithinBudget(t *testing.T) {
	s, chain, all := record(t, 1024)
	service := New(Options{Reader: s, Chain: chain, Heights: between(1, 1025)})
	ask := func(budget *node.Budget, n int) (int, error) {
		ctx, done := budget.Begin(t.Context())
		defer done()
		var reply indexer.GetContainerRangeResponse
		err := service.GetContainerRange(httptest.NewRequestWithContext(ctx, http.MethodPost, "/", nil), &indexer.GetContainerRangeArgs{NumToFetch: avajson.Uint64(n)}, &reply)
		return len(reply.Containers), err
	}
	n, err := ask(nil, 1024)
	require.NoError(t, err)
	require.Equal(t, 1024, n)
	whole := 0
	for _, one := range all {
		whole += copies*len(one.Bytes) + around
	}
	budget := node.NewBudget(int64(whole)*5/4, 0) // one client may have three quarters of it
	for range 3 {
		_, err = ask(budget, 1024)
		require.ErrorIs(t, err, rpc.ErrBusy)
		_, err = ask(budget, 512)
		require.NoError(t, err)
	}
}

func TestErrors(t *testing.T) {
	s, chain, all := record(t, 3)
	full, empty := Options{Reader: s, Chain: chain, Heights: between(1, 4)}, Options{Reader: s, Chain: chain, Heights: between(1, 1)}
	const argument = "couldn't unmarshal an argument. Ensure arguments are valid and properly formatted. See documentation for example calls"
	for _, test := range []struct {
		o                    Options
		method, params, want string
	}{
		{empty, "getLastAccepted", "{}", "no containers have been accepted"},
		{empty, "getContainerByIndex", "{}", "no container at index 0"},
		{full, "getContainerByIndex", `{"index":"3"}`, "no container at index 3"},
		{full, "getContainerByIndex", `{"index":18446744073709551615}`, "no container at index 18446744073709551615"},
		{full, "getContainerByIndex", `{"index":-1}`, argument},
		{full, "getContainerByID", "{}", "not found"},
		{empty, "getContainerByID", `{"id":"` + all[0].ID.String() + `"}`, "not found"},
		{full, "getIndex", `{"containerID":"` + all[0].ID.String() + `"}`, "not found"},
		{full, "getContainerRange", `{"numToFetch":1025}`, "numToFetch must be in [1,1024] but is 1025"},
		{empty, "getContainerRange", `{"numToFetch":1025}`, "numToFetch must be in [1,1024] but is 1025"},
		{empty, "getContainerRange", `{"numToFetch":1}`, "no containers have been accepted"},
		{full, "getContainerRange", `{"startIndex":3,"numToFetch":1}`, "start index (3) > last accepted index (2)"},
		{full, "getContainerRange", `{"numToFetch":1,"encoding":"json"}`, "unsupported encoding in method"},
		{full, "getLastAccepted", `{"encoding":"json"}`, "unsupported encoding in method"},
		{full, "getLastAccepted", `{"encoding":"cb58"}`, argument},
	} {
		_, failure := call(t, test.o, test.method, test.params)
		require.Equal(t, test.want, failure, "%s %s", test.method, test.params)
	}
	for _, o := range []Options{full, empty} {
		got, failure := call(t, o, "isAccepted", "{}")
		require.Empty(t, failure)
		require.Equal(t, `{"isAccepted":false}`, string(got))
		got, failure = call(t, o, "getContainerRange", `{"startIndex":7}`)
		require.Empty(t, failure)
		require.Equal(t, `{"containers":[]}`, string(got))
	}
}

// The index lacks some containers: the service asks the nodes for them.
func TestForwarding(t *testing.T) {
	forwarded := json.RawMessage(`"forwarded"`)
	s, chain, all := record(t, 5, 0, 2)
	o := Options{Reader: s, Chain: chain, Heights: between(1, 6)}
	for _, c := range [][2]string{
		{"getContainerByIndex", `{"index":0}`}, {"getContainerByIndex", `{"index":2}`},
		{"getContainerRange", `{"startIndex":1,"numToFetch":4}`}, {"getIndex", `{"id":"` + ids.GenerateTestID().String() + `"}`}, {"isAccepted", "{}"},
	} {
		got, _ := call(t, o, c[0], c[1])
		require.Equal(t, forwarded, got, "%s %s", c[0], c[1])
	}
	got, _ := call(t, o, "getIndex", `{"id":"`+all[3].ID.String()+`"}`)
	require.Equal(t, `{"index":"3"}`, string(got))
	got, _ = call(t, o, "getContainerRange", `{"startIndex":3,"numToFetch":4}`)
	require.NotEqual(t, forwarded, got)

	// The node's index failed for a moment.
	hole, _, blocks := record(t, 5, 2)
	within := Options{Reader: hole, Chain: chain, Heights: between(1, 6)}
	for _, method := range []string{"isAccepted", "getIndex", "getContainerByID"} {
		got, _ := call(t, within, method, `{"id":"`+ids.ID(hashing.ComputeHash256Array(blocks[2].Bytes)).String()+`"}`)
		require.Equal(t, forwarded, got, method)
	}
	within.Heights = between(4, 6)
	got, _ = call(t, within, "isAccepted", "{}")
	require.Equal(t, `{"isAccepted":false}`, string(got), "no block of this index lacks its ID")

	// The last container lacks its ID, so nodes answer about those that follow.
	o.Heights = between(1, 4)
	for _, c := range [][2]string{{"getContainerByIndex", `{"index":3}`}, {"getContainerRange", `{"startIndex":3,"numToFetch":1}`}} {
		got, _ := call(t, o, c[0], c[1])
		require.Equal(t, forwarded, got, "%s %s", c[0], c[1])
	}

	// There are more than are kept.
	o.Heights = between(1, 8)
	got, _ = call(t, o, "getLastAccepted", "{}")
	require.Equal(t, forwarded, got)
	got, _ = call(t, o, "getContainerRange", `{"startIndex":3,"numToFetch":4}`)
	require.Equal(t, forwarded, got)

	o.Heights = func(context.Context) (uint64, uint64, error) { return 0, 0, rpc.ErrForward }
	for _, method := range []string{"getLastAccepted", "getContainerByIndex", "getContainerByID", "getIndex", "isAccepted"} {
		got, _ := call(t, o, method, "{}")
		require.Equal(t, forwarded, got, method)
	}
	o.Heights = func(context.Context) (uint64, uint64, error) { return 0, 0, errors.New("broken") }
	_, failure := call(t, o, "isAccepted", "{}")
	require.Equal(t, "the service cannot read its index of containers", failure)
}

func BenchmarkRange(b *testing.B) {
	s, chain, _ := record(b, 2048)
	o := Options{Reader: s, Chain: chain, Heights: between(1, 2049)}
	h, err := rpc.NewHandler(rpc.Endpoint{Services: []rpc.Service{{Names: []string{"index"}, Methods: New(o)}}})
	require.NoError(b, err)
	b.ReportAllocs()
	for b.Loop() {
		r := httptest.NewRequestWithContext(b.Context(), http.MethodPost, "/", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"index.getContainerRange","params":{"startIndex":500,"numToFetch":1024}}`))
		r.Header.Set("Content-Type", "application/json")
		h.ServeHTTP(httptest.NewRecorder(), r)
	}
}
