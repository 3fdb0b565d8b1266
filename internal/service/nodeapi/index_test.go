package nodeapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/hashing"

	"quorate/handlers/rpc"
	"quorate/internal/index"
	"quorate/internal/index/container"
	"quorate/internal/node"
	"quorate/internal/store"
)

// answering is an upstream with one answer.
type answering node.Forwarded

func (a *answering) Forward(context.Context, string, []byte, bool) (*node.Forwarded, error) {
	return (*node.Forwarded)(a), nil
}

// Without an index there is no such path.
func TestNoIndexNoPath(t *testing.T) {
	there := &answering{Status: http.StatusOK, Body: []byte("{}")}
	got, err := indexUpstream{there}.Forward(t.Context(), "/ext/index/P/block", nil, true)
	require.NoError(t, err)
	require.Equal(t, (*node.Forwarded)(there), got)

	_, err = indexUpstream{&answering{Status: http.StatusNotFound}}.Forward(t.Context(), "/ext/index/P/block", nil, true)
	var refusal rpc.RefusalError
	require.ErrorAs(t, err, &refusal)
	require.Contains(t, refusal.Error(), "index-enabled")
}

// indexing is an index whose pipelines do not run.
type indexing struct {
	keepsCBlocks bool
	before       uint64
	vertices     uint64
	missing      error // of the vertices
}

func (i *indexing) KeepsCBlocks() bool                             { return i.keepsCBlocks }
func (i *indexing) XChainBefore(context.Context) (uint64, error)   { return i.before, i.missing }
func (i *indexing) XChainVertices(context.Context) (uint64, error) { return i.vertices, i.missing }

const networkID = 12345

// stored adds the containers of the heights 0 to n-1. They have their consensus ID, except those from height bare on and the
// genesis block.
func stored(t *testing.T, s store.Store, chain, name string, n, bare uint64) []container.Container {
	t.Helper()
	var batch store.Batch
	writer := container.NewWriter(container.Chain{NetworkID: networkID, Name: name})
	all := make([]container.Container, n)
	for i := range all {
		b := fmt.Appendf(nil, "%s %d", name, i)
		all[i] = container.Container{Height: uint64(i), Form: container.Accepted, ID: hashing.ComputeHash256Array(b), Time: time.Unix(int64(i), 0), Bytes: b}
		if (i == 0 && name == chain) || uint64(i) >= bare {
			all[i].Form, all[i].ID, all[i].Time = container.Bare, ids.Empty, time.Time{}
		}
		writer.Put(&batch, &all[i])
	}
	if name == chain {
		cursor := index.Cursor(networkID, chain, index.Containers)
		batch.Put(store.FamilyIndexed, store.PK{P: []byte(cursor)}, []byte{1, 0}) // a mark: from height 0
		batch.Move(cursor, store.Cursor{}, store.Cursor{Next: n})
	}
	require.NoError(t, s.Commit(t.Context(), &batch))
	return all
}

// broken is a store that cannot be read.
type broken struct{ store.Reader }

func (broken) Get(context.Context, store.Family, []store.PK) ([][]byte, error) {
	return nil, store.ErrUnavailable
}

// ask returns the body of an answer, or for errors their text.
type ask func(path, method, params string) string

func askIndexes(t *testing.T, r store.Reader, chains *indexing, status index.Status) ask {
	t.Helper()
	all := make(map[string]http.Handler)
	for _, one := range containerIndexes(chains) {
		e := one.endpoint(r, networkID, func(string) index.Status { return status }, slog.New(slog.DiscardHandler))
		e.Upstream = &answering{Status: http.StatusOK, Body: []byte(`{"result":"forwarded"}`)}
		h, err := rpc.NewHandler(e)
		require.NoError(t, err)
		all[one.path] = h
	}
	return func(path, method, params string) string {
		t.Helper()
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"index.`+method+`","params":`+params+`}`))
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		all[path].ServeHTTP(w, r)
		var answer struct {
			Result json.RawMessage
			Error  *struct{ Message string }
		}
		switch err := json.Unmarshal(w.Body.Bytes(), &answer); {
		case w.Code != http.StatusOK:
			return fmt.Sprintf("%d %s", w.Code, strings.TrimSpace(w.Body.String()))
		case err != nil:
			return err.Error()
		case answer.Error != nil:
			return answer.Error.Message
		}
		return string(answer.Result)
	}
}

var catchingUp = index.Status{State: index.CatchingUp, TipKnown: true, Tip: 1000}

const (
	notReady  = "503 API call rejected because chain is not done bootstrapping"
	forwarded = `"forwarded"`
)

// An index that catches up answers from what it has, as a node's does.
func TestIndexAnswersWhileItCatchesUp(t *testing.T) {
	s := store.NewMemory()
	p := stored(t, s, index.PChain, index.PChain, 11, 11)
	x := stored(t, s, index.XChain, index.XChain, 8, 8) // three transactions, and blocks from height 0 to 3
	v := stored(t, s, index.XChain, container.Vertices, 2, 2)
	get := askIndexes(t, s, &indexing{before: 4, vertices: 2}, catchingUp)
	for _, test := range []struct {
		path string
		all  []container.Container
	}{{"P/block", p[1:]}, {"X/tx", x[1:4]}, {"X/block", x[5:]}, {"X/vtx", v}} {
		n := len(test.all)
		for i := range test.all {
			id, at := test.all[i].ID.String(), fmt.Sprintf(`"index":"%d"`, i)
			for _, got := range []string{
				get(test.path, "getContainerByIndex", fmt.Sprintf(`{"index":%d}`, i)), get(test.path, "getContainerByID", `{"id":"`+id+`"}`),
			} {
				require.Contains(t, got, id, test.path)
				require.Contains(t, got, at, test.path)
			}
			require.Equal(t, "{"+at+"}", get(test.path, "getIndex", `{"id":"`+id+`"}`), test.path)
			require.Equal(t, `{"isAccepted":true}`, get(test.path, "isAccepted", `{"id":"`+id+`"}`), test.path)
		}
		last := get(test.path, "getLastAccepted", "{}")
		require.Contains(t, last, test.all[n-1].ID.String(), test.path)
		require.Contains(t, last, fmt.Sprintf(`"index":"%d"`, n-1), test.path)
		require.Equal(t, n, strings.Count(get(test.path, "getContainerRange", `{"numToFetch":1024}`), `"id"`), test.path)
		// The rest is unknown, as to a node that has not accepted it.
		later := `{"id":"` + ids.GenerateTestID().String() + `"}`
		require.Equal(t, fmt.Sprintf("no container at index %d", n), get(test.path, "getContainerByIndex", fmt.Sprintf(`{"index":%d}`, n)), test.path)
		require.Equal(t, fmt.Sprintf("start index (%d) > last accepted index (%d)", n, n-1), get(test.path, "getContainerRange", fmt.Sprintf(`{"startIndex":%d,"numToFetch":1}`, n)), test.path)
		require.Equal(t, "not found", get(test.path, "getContainerByID", later), test.path)
		require.Equal(t, "not found", get(test.path, "getIndex", later), test.path)
		require.Equal(t, `{"isAccepted":false}`, get(test.path, "isAccepted", later), test.path)
	}
	// The blocks begin after the transactions.
	early := askIndexes(t, s, &indexing{before: 100, vertices: 2}, catchingUp)
	require.Contains(t, early("X/tx", "getLastAccepted", "{}"), x[7].ID.String())
	require.Equal(t, "no containers have been accepted", early("X/block", "getLastAccepted", "{}"))
	require.Equal(t, `{"isAccepted":false}`, early("X/block", "isAccepted", `{"id":"`+x[7].ID.String()+`"}`))
	// Vertices are stored even if blocks are stored only from a later height on.
	var batch store.Batch
	batch.Put(store.FamilyIndexed, store.PK{P: []byte(index.Cursor(networkID, index.XChain, index.Containers))}, []byte{1, 2})
	require.NoError(t, s.Commit(t.Context(), &batch))
	require.Contains(t, get("X/vtx", "getLastAccepted", "{}"), v[1].ID.String())
	require.Equal(t, forwarded, get("X/tx", "getLastAccepted", "{}"))
}

// An index without containers answers as a node's does, also before the number of vertices is known.
func TestEmptyIndexAnswersLikeANode(t *testing.T) {
	for name, chains := range map[string]*indexing{
		"fetching vertices": {keepsCBlocks: true, missing: fmt.Errorf("%w: 812 are fetched", index.ErrVerticesMissing)},
		"no vertices":       {keepsCBlocks: true},
	} {
		for _, begun := range []bool{false, true} { // the genesis belongs to no index
			s := store.NewMemory()
			if begun {
				stored(t, s, index.PChain, index.PChain, 1, 1)
				stored(t, s, index.CChain, index.CChain, 1, 1)
			}
			get := askIndexes(t, s, chains, catchingUp)
			for _, path := range []string{"C/block", "P/block", "X/block", "X/tx", "X/vtx"} {
				id := `{"id":"` + ids.GenerateTestID().String() + `"}`
				for _, test := range [][3]string{
					{"getLastAccepted", "{}", "no containers have been accepted"},
					{"getContainerRange", `{"numToFetch":1}`, "no containers have been accepted"},
					{"getContainerByIndex", "{}", "no container at index 0"},
					{"getContainerByID", id, "not found"},
					{"getIndex", id, "not found"},
					{"isAccepted", id, `{"isAccepted":false}`},
				} {
					require.Equal(t, test[2], get(path, test[0], test[1]), "%s: %s %s", name, path, test[0])
				}
			}
		}
	}
}

// Where nodes answer about a block, they also answer about those that follow.
func TestIndexForwardsWhileItCatchesUp(t *testing.T) {
	unknown := `{"id":"` + ids.GenerateTestID().String() + `"}`
	calls := [][2]string{
		{"getLastAccepted", "{}"}, {"getContainerByIndex", `{"index":900}`}, {"getContainerRange", `{"startIndex":900,"numToFetch":1}`},
		{"getContainerByID", unknown}, {"getIndex", unknown}, {"isAccepted", unknown},
	}
	for _, n := range []uint64{0, 1, 9} { // C-Chain blocks are not stored
		s := store.NewMemory()
		if n > 0 {
			stored(t, s, index.CChain, index.CChain, n, 0)
		}
		get := askIndexes(t, s, &indexing{}, catchingUp)
		for _, call := range calls {
			require.Equal(t, forwarded, get("C/block", call[0], call[1]), "%d %s", n, call[0])
		}
	}
	s := store.NewMemory()
	p := stored(t, s, index.PChain, index.PChain, 9, 6) // the node that it catches up from has no index
	get := askIndexes(t, s, &indexing{}, catchingUp)
	for _, call := range calls {
		require.Equal(t, forwarded, get("P/block", call[0], call[1]), call[0])
	}
	require.Equal(t, `{"isAccepted":true}`, get("P/block", "isAccepted", `{"id":"`+p[5].ID.String()+`"}`))
	require.Equal(t, forwarded, get("P/block", "getContainerRange", `{"startIndex":3,"numToFetch":9}`))
}

// An index that would answer wrongly says that it is not ready.
func TestIndexIsNotReady(t *testing.T) {
	s := store.NewMemory()
	stored(t, s, index.PChain, index.PChain, 9, 9)
	stored(t, s, index.XChain, index.XChain, 9, 9)
	stopped := askIndexes(t, s, &indexing{keepsCBlocks: true}, index.Status{State: index.Stopped, CaughtUp: true, Err: errors.New("broken")})
	again := askIndexes(t, s, &indexing{missing: index.ErrVerticesMissing}, index.Status{State: index.Rebuilding})
	for _, path := range []string{"P/block", "X/block", "X/tx", "X/vtx"} {
		for _, method := range []string{"getLastAccepted", "isAccepted"} {
			require.Equal(t, notReady, stopped(path, method, "{}"), path)
			if path != "P/block" { // the vertices are fetched again
				require.Equal(t, notReady, again(path, method, "{}"), path)
			}
		}
	}
	require.Contains(t, again("P/block", "getLastAccepted", "{}"), `"index":"7"`)
	unavailable := askIndexes(t, broken{s}, &indexing{}, catchingUp)
	require.Equal(t, "the service cannot read its index of containers", unavailable("P/block", "isAccepted", "{}"))
}
