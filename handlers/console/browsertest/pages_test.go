package browsertest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"

	"quorate/handlers"
	"quorate/internal/index/primary"
	"quorate/internal/testenv"
)

// attempts is the script of a page that tries to reach the service in the ways that browsers offer to any page.
const attempts = `<script>
const bases = %s, found = {};
const socket = (url) => new Promise((done) => {
  const s = new WebSocket(url);
  s.onopen = () => { s.send('{"jsonrpc":"2.0","id":1,"method":"debug_traceBlockByNumber"}'); done("open"); };
  s.onerror = () => done("refused");
});
const post = (url, mode) => fetch(url, { method: "POST", mode, headers: { "Content-Type": "text/plain" }, body: "{}" }).then((r) => r.type, () => "refused");
const form = (url) => new Promise((done) => {
  const f = document.createElement("form"), i = document.createElement("iframe");
  i.name = "target" + Math.random(); i.onload = () => done("sent"); document.body.append(i, f);
  f.method = "POST"; f.action = url; f.target = i.name; f.submit();
});
(async () => {
  await new Promise((done) => addEventListener("load", done));
  for (const [name, base] of Object.entries(bases)) {
    found[name] = {
      socket: await socket(base.replace("http", "ws") + "/ext/bc/C/ws"),
      read: await fetch(base + "/index").then(() => "read", () => "refused"),
      simple: await post(base + "/index/verify?network=fuji", "no-cors"),
      call: await post(base + "/ext/bc/C/rpc", "cors"),
      form: await form(base + "/index/verify?network=fuji"),
    };
  }
  window.results = found;
})();
</script><body>`

// TestPagesOfOtherSites opens a page of another origin in a browser. It must not reach the private address, nor a public
// address whose origins are restricted, and must reach one that is open to all.
func TestPagesOfOtherSites(t *testing.T) {
	chromium := testenv.Program(t, "chromium", "chromium", "chromium-browser", "google-chrome")
	directory := testenv.Node(t, files)
	var verified atomic.Int64
	private, err := handlers.NewPrivate(handlers.PrivateOptions{
		Verify: func(context.Context, string, primary.VerifyOptions, func(primary.Verification)) error {
			verified.Add(1)
			return handlers.ErrNotIndexed
		},
		Node: new(upstream),
	})
	require.NoError(t, err)
	forwarded := map[string]*upstream{"restricted": {}, "open": {}}
	bases := map[string]string{"private": serve(t, private)}
	for name, origins := range map[string][]string{"restricted": {"https://app.example"}, "open": nil} {
		public, err := handlers.New(handlers.Options{Origins: origins, Node: forwarded[name]})
		require.NoError(t, err)
		bases[name] = serve(t, public)
	}
	script, err := json.Marshal(bases)
	require.NoError(t, err)
	page := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = fmt.Fprintf(w, attempts, script)
	}))

	input, err := json.Marshal(map[string]string{"page": page, "chromium": chromium})
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	node := exec.CommandContext(ctx, "node", "pages.mjs")
	node.Dir, node.Stdin = directory, bytes.NewReader(input)
	var out, errOut bytes.Buffer
	node.Stdout, node.Stderr = &out, &errOut
	require.NoError(t, node.Run(), "%s", &errOut)
	var results map[string]struct{ Socket, Read, Call string }
	require.NoError(t, json.Unmarshal(out.Bytes(), &results), "%s", &out)
	for _, name := range []string{"private", "restricted"} {
		require.Equal(t, "refused", results[name].Socket, name)
		require.Equal(t, "refused", results[name].Read, name)
		require.Equal(t, "refused", results[name].Call, name)
	}
	require.Zero(t, verified.Load())
	require.Zero(t, forwarded["restricted"].requests.Load())
	require.Equal(t, "open", results["open"].Socket)
	require.Positive(t, forwarded["open"].requests.Load())
}

func serve(t *testing.T, h http.Handler) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

// upstream counts requests for the node API and accepts WebSockets.
type upstream struct{ requests atomic.Int64 }

func (u *upstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	u.requests.Add(1)
	if c, err := websocket.Accept(w, r, &websocket.AcceptOptions{InsecureSkipVerify: true}); err == nil {
		_ = c.CloseNow()
	}
}
