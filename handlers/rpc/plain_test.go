package rpc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"quorate/internal/node"
)

// Probe answers what it was asked.
type Probe struct{ calls *int }

// ProbeArgs is exported as RPC wants it.
type ProbeArgs struct {
	Text string          `json:"text"`
	Many []uint32        `json:"many"`
	Any  json.RawMessage `json:"any,omitempty"`
}

func (p Probe) Say(_ *http.Request, args, reply *ProbeArgs) error {
	*p.calls++
	*reply = *args
	return nil
}

func (p Probe) Raw(_ *http.Request, args *ProbeArgs, reply *Raw) (err error) {
	*p.calls++
	reply.JSON, err = json.Marshal(args)
	return err
}

// Last says in Text for how many more calls it lasts.
func (p Probe) Last(_ *http.Request, args *ProbeArgs, reply *Raw) (err error) {
	*p.calls++
	left := len(args.Text)
	reply.Lasts = func() bool { left--; return left >= 0 }
	reply.JSON, err = json.Marshal(args)
	return err
}

func (p Probe) Fail(_ *http.Request, args *ProbeArgs, _ *Raw) error {
	*p.calls++
	return errors.New("as <asked>: " + args.Text)
}

func (p Probe) Elsewhere(*http.Request, *ProbeArgs, *Raw) error { return ErrForward }

// Large answers with a text of so many letters.
func (p Probe) Large(_ *http.Request, args *struct{ N int }, reply *Raw) error {
	reply.JSON = []byte(`"` + strings.Repeat("a", args.N) + `"`)
	return nil
}

type mirror struct{}

func (mirror) Forward(_ context.Context, path string, body []byte, _ bool) (*node.Forwarded, error) {
	return &node.Forwarded{Status: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: append([]byte(path+" "), body...)}, nil
}

// pair are an endpoint and one that leaves all to gorilla's server.
func pair(t testing.TB, calls *int) (own, reference *endpoint) {
	t.Helper()
	for _, e := range []**endpoint{&own, &reference} {
		h, err := NewHandler(Endpoint{
			Services: []Service{{Names: []string{"probe", "other"}, Methods: Probe{calls}}},
			Upstream: mirror{}, Path: "/ext/x", Rename: map[string]string{"other": "one"}, BodyLimit: 4096,
		})
		require.NoError(t, err)
		*e = h.(*endpoint)
	}
	reference.methods = nil
	return own, reference
}

func ask(h http.Handler, contentType string, body io.Reader, length int64) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "/", body)
	r.Header.Set("Content-Type", contentType)
	r.ContentLength = length
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// Whatever is sent, the answer is the one of gorilla's server with the node's codec.
func FuzzPlain(f *testing.F) {
	const j = "application/json"
	for _, body := range []string{
		`{"jsonrpc":"2.0","id":7,"method":"probe.say","params":{"text":"<a>&\u0041","many":[1,2]}}`,
		`{"jsonrpc":"2.0","id":7,"method":"probe.raw","params":[{"text":"b"}]}`,
		`{"jsonrpc":"2.0","id":-0,"method":"probe.raw","params":{}}`,
		`{"jsonrpc":"2.0","id":01,"method":"probe.raw"}`,
		`{"jsonrpc":"2.0","id":1e5,"method":"probe.raw","params":null}`,
		`{"jsonrpc":"2.0","id":"<x>","method":"probe.raw","params":[]}`,
		` { "id" : "x" , "params" : { "text" : "}]\"" , "any":[[{}]]} , "method" : "probe.last", "jsonrpc":"2.0" } `,
		`{"jsonrpc":"2.0","id":1,"method":"probe.last","params":{"text":"abc"}} more`,
		`{"jsonrpc":"2.0","id":1,"id":2,"method":"probe.fail","params":{"text":"abc"}}`,
		`{"jsonrpc":"2.0","id":1,"method":"probe.fail","params":{"text":"abc"}}`,
		`{"jsonrpc":"2.0","id":1,"method":"probe.elsewhere","params":{"text":"abc"}}`,
		`{"jsonrpc":"2.0","id":1,"method":"other.nothing","params":{"text":"abc"}}`,
		`{"jsonrpc":"2.0","id":1,"METHOD":"probe.say","params":{"text":1}}`,
		`{"jsonrpc":"2.0","id":1,"method":"probe.Say","params":{"text":1}}`,
		`{"jsonrpc":"2.0","id":1,"method":"probe.say","params":{"text":1}}`,
		`{"jsonrpc":"2.0","id":1,"method":"probe.say","params":{"text"]]}`,
		`{"jsonrpc":"2.0","id":1,"method":"probe.say","params":{"any":` + strings.Repeat("[", 40) + strings.Repeat("]", 40) + `}}`,
		`{"jsonrpc":"2.0","method":"probe.say","params":{},}`,
		`{"jsonrpc":"2.0","id":null,"method":"probe.say"}`,
		`{"jsonrpc":"1.0","id":1,"method":"probe.say"}`,
		`{,"jsonrpc":"2.0","id":1,"method":"probe.say"}`,
		`{"jsonrpc":"2.0","id":1,"method":"probe.say"`,
		`[]`, ``, `{}`,
	} {
		f.Add(body, j)
	}
	f.Add(`{"jsonrpc":"2.0","id":1,"method":"probe.say"}`, "application/json; charset=utf-8")
	f.Add(`{"jsonrpc":"2.0","id":1,"method":"probe.say"}`, "application/jsonl")
	f.Add(`{"jsonrpc":"2.0","id":1,"method":"probe.say"}`, "")
	f.Fuzz(func(t *testing.T, body, contentType string) {
		var calls, wanted int
		own, _ := pair(t, &calls)
		_, reference := pair(t, &wanted)
		want := ask(reference, contentType, strings.NewReader(body), int64(len(body)))
		for _, again := range []bool{false, true} {
			got := ask(own, contentType, strings.NewReader(body), int64(len(body)))
			require.Equal(t, want.Code, got.Code)
			require.Equal(t, want.Body.String(), got.Body.String())
			require.Equal(t, want.Header(), got.Header())
			if !again {
				require.Equal(t, wanted, calls, "calls of a method")
			}
		}
		// A body that does not arrive is answered as gorilla does.
		cut := func() io.Reader {
			return io.MultiReader(strings.NewReader(body[:len(body)/2]), iotest.ErrReader(io.ErrUnexpectedEOF))
		}
		want = ask(reference, contentType, cut(), int64(len(body)))
		got := ask(own, contentType, cut(), int64(len(body)))
		require.Equal(t, want.Body.String(), got.Body.String())
	})
}

func TestAnswersLast(t *testing.T) {
	var calls int
	h, _ := pair(t, &calls)
	for i, test := range []struct {
		id, params string
		calls      int
	}{
		{"1", `{"text":"aa"}`, 1},
		{`"x"`, `{"text":"aa"}`, 1}, // the ID is none of the answer's
		{"3", `{"text":"aa"}`, 1},
		{"4", `{"text":"aa"}`, 2}, // it does not last any longer
		{"5", `{"text":"aa"}`, 2},
		{"6", `{"text": "aa"}`, 3}, // another text
		{"7", `{"text":""}`, 4},
		{"8", `{"text":""}`, 5},
		{"9", `{"text":"` + strings.Repeat("a", mostAsked) + `"}`, 6},
		{"9", `{"text":"` + strings.Repeat("a", mostAsked) + `"}`, 7}, // too long
	} {
		body := `{"jsonrpc":"2.0","id":` + test.id + `,"method":"probe.last","params":` + test.params + `}`
		got := ask(h, "application/json", strings.NewReader(body), int64(len(body))).Body.String()
		require.Equal(t, `{"jsonrpc":"2.0","result":`+strings.Replace(strings.Replace(test.params, ": ", ":", 1), `"}`, `","many":null}`, 1)+`,"id":`+test.id+"}\n", got, "call %d", i)
		require.Equal(t, test.calls, calls, "calls after %d", i)
	}
}

func TestLargeAnswers(t *testing.T) {
	h, reference := pair(t, new(int))
	for _, n := range []int{0, 1, 4 << 10, mostPooled - 100, mostPooled, 2 * mostPooled} {
		body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"probe.large","params":{"n":%d}}`, n)
		for _, one := range []http.Handler{h, reference} {
			got := ask(one, "application/json", strings.NewReader(body), int64(len(body)))
			want := `{"jsonrpc":"2.0","result":"` + strings.Repeat("a", n) + `","id":1}` + "\n"
			require.Equal(t, len(want), got.Body.Len(), "bytes of an answer of %d", n)
			require.True(t, want == got.Body.String())
			require.Equal(t, strconv.Itoa(len(want)), got.Header().Get("Content-Length"))
		}
	}
}

func TestMemoIsBounded(t *testing.T) {
	m := newMemo(64 << 10)
	answer := make([]byte, 1000)
	for i := range 1000 {
		m.put([]byte{byte(i), byte(i >> 8)}, answer, Always)
		require.NotNil(t, m.get([]byte{0, 0}), "what is asked for again and again is kept")
		require.LessOrEqual(t, (len(m.recent)+len(m.before))*len(answer), 64<<10)
	}
	require.Nil(t, m.get([]byte{1, 0}))
	require.NotNil(t, m.get([]byte{byte(999 & 0xff), 999 >> 8}))
	m.put([]byte("large"), make([]byte, 32<<10), Always)
	require.Nil(t, m.get([]byte("large")))
}
