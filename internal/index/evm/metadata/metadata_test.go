package metadata

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/holiman/uint256"
	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/libevm/common"

	chain "quorate/internal/chain/evm"
	"quorate/internal/index/evm"
	"quorate/internal/index/internal/row"
	"quorate/internal/node"
	"quorate/internal/store"
)

var nfts, multi = common.Address{1}, common.Address{2}

// fakeContracts has URIs by token.
type fakeContracts struct {
	mu   sync.Mutex
	uris map[uint64]string // guarded by mu
	away error             // guarded by mu
}

func (c *fakeContracts) Contracts(_ context.Context, addresses []common.Address) ([]*evm.Contract, error) {
	standards := map[common.Address]chain.Standard{nfts: chain.ERC721, multi: chain.ERC1155}
	found := make([]*evm.Contract, len(addresses))
	for i, a := range addresses {
		if s, ok := standards[a]; ok {
			found[i] = &evm.Contract{Address: a, Standard: s}
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return found, c.away
}

func (c *fakeContracts) LookUp(_ context.Context, _ chain.Standard, _ common.Address, id *uint256.Int) (string, bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	uri, ok := c.uris[id.Uint64()]
	return uri, ok, c.away
}

func (c *fakeContracts) set(change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
}

func one(contract common.Address, id uint64) evm.Token {
	return evm.Token{Contract: contract, TokenID: *uint256.NewInt(id)}
}

func newKeeper(t *testing.T, c Contracts, s store.Store, timeout time.Duration) *Keeper {
	f, err := NewFetcher(FetchOptions{AllowPrivate: true, Timeout: timeout})
	require.NoError(t, err)
	k := New(Options{Contracts: c, Fetcher: f, Store: s, NetworkID: 5, BlockchainID: ids.ID{1}, Rate: 1e6})
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { k.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
		f.Close()
	})
	return k
}

// await reads until a token has a status.
func await(t *testing.T, k *Keeper, token evm.Token, want Status) Metadata {
	t.Helper()
	var got Metadata
	require.Eventually(t, func() bool {
		all, err := k.Metadata(context.Background(), []evm.Token{token})
		if err != nil {
			t.Error(err)
			return true
		}
		got = all[0]
		return got.Status == want
	}, time.Minute, 2*time.Millisecond, "%s", want)
	return got
}

func TestKeeper(t *testing.T) {
	var served atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		served.Add(1)
		switch r.URL.Path {
		case "/invalid":
			fmt.Fprint(w, "<html>")
		case "/large":
			fmt.Fprintf(w, `{"image":%q}`, strings.Repeat("x", 10<<20))
		default:
			fmt.Fprintf(w, `{"name":%q}`, r.URL.Path)
		}
	}))
	defer server.Close()
	c := &fakeContracts{uris: map[uint64]string{1: server.URL + "/a", 2: server.URL + "/{id}", 3: "", 4: "gopher://x", 5: server.URL + "/invalid", 6: server.URL + "/large", 7: "data:,{}"}}
	s := store.NewMemory()
	k := newKeeper(t, c, s, time.Minute)

	first, err := k.Metadata(t.Context(), []evm.Token{one(nfts, 1), one(common.Address{9}, 1)})
	require.NoError(t, err)
	require.Equal(t, []Metadata{{Status: Unindexed}, {Status: Unindexed}}, first)

	got := await(t, k, one(nfts, 1), Indexed)
	require.Equal(t, "/a", got.Name)
	require.WithinDuration(t, time.Now(), got.Updated, time.Minute)
	require.Equal(t, "/"+strings.Repeat("0", 63)+"2", await(t, k, one(multi, 2), Indexed).Name)
	await(t, k, one(nfts, 3), InvalidURI)
	await(t, k, one(nfts, 4), InvalidScheme)
	await(t, k, one(nfts, 5), InvalidJSON)
	await(t, k, one(nfts, 6), TooLarge)
	await(t, k, one(nfts, 7), Indexed)
	await(t, k, one(nfts, 8), MissingToken)
	before := served.Load()
	for _, known := range []evm.Token{one(nfts, 1), one(multi, 2), one(nfts, 3), one(nfts, 4), one(nfts, 5), one(nfts, 6), one(nfts, 7), one(nfts, 8)} {
		_, err := k.Metadata(t.Context(), []evm.Token{known})
		require.NoError(t, err)
	}
	await(t, k, one(nfts, 0), MissingToken)
	require.Equal(t, before, served.Load(), "requests for what is known")
}

// TestNodeAwayKeepsNothing stores nothing about a token while its contract cannot be asked.
func TestNodeAwayKeepsNothing(t *testing.T) {
	c := &fakeContracts{uris: map[uint64]string{1: `data:,{"name":"x"}`}, away: node.ErrUnavailable}
	s := store.NewMemory()
	k := newKeeper(t, c, s, time.Minute)
	again, err := k.update(t.Context(), token{nfts, *uint256.NewInt(1)})
	require.ErrorIs(t, err, node.ErrUnavailable)
	require.False(t, again)
	rows, err := s.Walk(t.Context(), store.FamilyEVMMetadata, nil, 10)
	require.NoError(t, err)
	require.Empty(t, rows)
	c.set(func() { c.away = nil })
	await(t, k, one(nfts, 1), Indexed)
}

// TestSlowHostsDoNotBlockOthers has more silent documents than workers.
func TestSlowHostsDoNotBlockOthers(t *testing.T) {
	t.Run("a host", func(t *testing.T) {
		release := make(chan struct{})
		slow := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			select {
			case <-r.Context().Done():
			case <-release:
			}
		}))
		defer slow.Close()
		c := &fakeContracts{uris: make(map[uint64]string)}
		for id := range uint64(100) {
			c.uris[id] = fmt.Sprintf("%s/%d", slow.URL, id)
		}
		c.uris[1000] = `data:,{"name":"quick"}`
		k := newKeeper(t, c, store.NewMemory(), time.Hour)
		for id := range uint64(100) {
			_, err := k.Metadata(t.Context(), []evm.Token{one(nfts, id)})
			require.NoError(t, err)
		}
		require.Equal(t, "quick", await(t, k, one(nfts, 1000), Indexed).Name)
		close(release)
	})
	t.Run("a contract on IPFS", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			const timeout = 10 * time.Second
			c := &fakeContracts{uris: map[uint64]string{1000: "ipfs://good/1000", 1001: "ipfs://good/1001", 1002: "ipfs://good/1002"}}
			for id := range uint64(100) {
				c.uris[id] = fmt.Sprintf("ipfs://dead/%d", id)
			}
			k := newKeeper(t, c, store.NewMemory(), timeout)
			var dead, most atomic.Int64
			k.fetcher.gateways = []*url.URL{{Scheme: "https", Host: "gateway.example"}}
			k.fetcher.gateway = &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
				httptrace.ContextClientTrace(r.Context()).GotConn(httptrace.GotConnInfo{})
				if strings.HasPrefix(r.URL.Path, "/ipfs/good/") {
					return respond(http.StatusOK, fmt.Sprintf(`{"name":%q}`, r.URL.Path))
				}
				defer dead.Add(-1)
				most.Store(max(most.Load(), dead.Add(1)))
				return hang(r)
			})}
			for id := range uint64(100) {
				_, err := k.Metadata(t.Context(), []evm.Token{one(nfts, id)})
				require.NoError(t, err)
			}
			began := time.Now()
			time.Sleep(timeout / 2)
			await(t, k, one(multi, 1000), Indexed)
			require.Less(t, time.Since(began), timeout, "it waits for documents of another contract")
			time.Sleep(3 * timeout)
			began = time.Now()
			await(t, k, one(multi, 1001), Indexed)
			require.Less(t, time.Since(began), time.Second, "timeouts of another contract count")
			await(t, k, one(nfts, 1002), Indexed)
			require.Greater(t, time.Since(began), time.Second, "timeouts of the contract do not count")
			require.Equal(t, int64(maxFetched), most.Load())
		})
	})
}

func TestRetries(t *testing.T) {
	s := store.NewMemory()
	k := New(Options{Store: s, NetworkID: 5})
	tok := token{nfts, *uint256.NewInt(1)}
	read := func() kept {
		rows, err := s.Get(t.Context(), store.FamilyEVMMetadata, []store.PK{k.key(tok)})
		require.NoError(t, err)
		got, err := decode(rows[0])
		require.NoError(t, err)
		return got
	}
	last := time.Duration(0)
	for range 30 {
		require.NoError(t, k.keep(t.Context(), tok, Metadata{Status: Unreachable}))
		got := read()
		wait := got.next().Sub(got.Updated)
		require.Equal(t, Unreachable, got.Status)
		require.GreaterOrEqual(t, wait, last)
		require.LessOrEqual(t, wait, fresh)
		last = wait
	}
	require.Equal(t, fresh, last)
	require.NoError(t, k.keep(t.Context(), tok, Metadata{Status: Indexed, Document: Document{Name: "x"}}))
	require.NoError(t, k.keep(t.Context(), tok, Metadata{Status: Throttled}))
	got := read()
	require.Equal(t, Indexed, got.Status)
	require.Equal(t, "x", got.Name)
	require.Equal(t, firstRetry, got.next().Sub(got.Updated))
	require.NoError(t, k.keep(t.Context(), tok, Metadata{Status: MissingToken}))
	got = read()
	require.Equal(t, MissingToken, got.Status)
	require.Empty(t, got.Name)
	require.Equal(t, 2*firstRetry, got.next().Sub(got.Updated), "a node that lags does not have a new token yet")
}

// TestQueueIsBounded requests more than can wait, while nothing is fetched.
func TestQueueIsBounded(t *testing.T) {
	k := New(Options{Store: store.NewMemory(), NetworkID: 5})
	asked := make([]evm.Token, 2*maxWaiting)
	for i := range asked {
		asked[i] = one(nfts, uint64(i))
	}
	for range 2 {
		_, err := k.Metadata(t.Context(), asked)
		require.NoError(t, err)
	}
	require.Len(t, k.queue, maxPerContract, "one contract leaves room for others")
	for i := range asked {
		asked[i].Contract = common.Address{9, byte(i), byte(i >> 8)}
	}
	_, err := k.Metadata(t.Context(), asked)
	require.NoError(t, err)
	require.Len(t, k.queue, maxWaiting)
	for len(k.queue) > 0 {
		k.forget(<-k.queue)
	}
	require.Empty(t, k.waiting)
	require.Empty(t, k.tokens)
}

// waitFor takes a token out of the queue that it is put into, as a worker does.
func waitFor(k *Keeper, contract common.Address, id int) token {
	k.enqueue(token{contract, *uint256.NewInt(uint64(id))})
	return <-k.queue
}

func TestHostsAreBounded(t *testing.T) {
	k := New(Options{Store: store.NewMemory(), Rate: 1e9})
	for i := range 3 * maxHosts {
		name := fmt.Sprint(i)
		first, second := waitFor(k, nfts, 1), waitFor(k, multi, 2)
		require.Equal(t, now, k.turn(first, name))
		require.Equal(t, later, k.turn(second, name), "two documents of one host at a time")
		k.done(first, name, answered)
		k.forget(first)
		k.forget(second)
	}
	require.LessOrEqual(t, len(k.hosts), maxHosts)
}

// TestBlanksAroundURIs has contracts whose URIs begin and end with blanks and newlines.
func TestBlanksAroundURIs(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, `{"name":%q}`, r.URL.Path) }))
	defer server.Close()
	k := newKeeper(t, &fakeContracts{uris: map[uint64]string{1: " \t" + server.URL + "/{id}\r\n", 2: "\ndata:,{} ", 3: " \n"}}, store.NewMemory(), time.Minute)
	require.Equal(t, "/{id}", await(t, k, one(nfts, 1), Indexed).Name)
	require.Equal(t, "/"+strings.Repeat("0", 63)+"1", await(t, k, one(multi, 1), Indexed).Name)
	await(t, k, one(nfts, 2), Indexed)
	await(t, k, one(nfts, 3), InvalidURI)
	k.mu.Lock()
	defer k.mu.Unlock()
	require.Contains(t, k.hosts, strings.TrimPrefix(server.URL, "http://"), "the host's limits apply")
}

// TestLongHostsAreNotCached has URIs whose host takes a megabyte, as contracts may return.
func TestLongHostsAreNotCached(t *testing.T) {
	uri := "http://" + strings.Repeat("a", 1<<20) + ".example/1"
	k := newKeeper(t, &fakeContracts{uris: map[uint64]string{1: uri}}, store.NewMemory(), time.Minute)
	await(t, k, one(nfts, 1), InvalidURI)
	k.mu.Lock()
	defer k.mu.Unlock()
	require.Empty(t, k.hosts)

	short := "http://host.example/" + strings.Repeat("a", 1<<20)
	name := k.fetcher.hostOf(short)
	require.Equal(t, "host.example", name)
	require.NotSame(t, unsafe.StringData(short[len("http://"):]), unsafe.StringData(name), "the name of a host must not retain the URI")
}

// TestLongURLsAreNotRequested has an ERC-1155 URI that the token's ID makes longer than a megabyte.
func TestLongURLsAreNotRequested(t *testing.T) {
	var requests atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		if r.URL.Path == "/redirect" {
			http.Redirect(w, r, "/"+strings.Repeat("a", maxURL), http.StatusFound)
			return
		}
		fmt.Fprint(w, "{}")
	}))
	defer server.Close()
	c := &fakeContracts{uris: map[uint64]string{1: server.URL + "/" + strings.Repeat("{id}", 20_000), 2: server.URL + "/redirect", 3: server.URL + "/" + strings.Repeat("a", 4000)}}
	k := newKeeper(t, c, store.NewMemory(), time.Minute)
	await(t, k, one(multi, 1), InvalidURI)
	require.Zero(t, requests.Load())
	await(t, k, one(multi, 2), InvalidURI)
	await(t, k, one(multi, 3), Indexed)
	require.Equal(t, int64(2), requests.Load())
}

// TestOneHostHasAPartOfTheQueue: many contracts can name one slow host.
func TestOneHostHasAPartOfTheQueue(t *testing.T) {
	k := New(Options{Store: store.NewMemory(), Rate: 1e9})
	var dropped, kept int
	for i := range maxWaiting {
		one := waitFor(k, common.Address{9, byte(i), byte(i >> 8)}, i)
		switch k.turn(one, "slow.example") {
		case never:
			dropped++
			k.forget(one)
		case now, later:
			kept++
			require.NotEqual(t, never, k.turn(one, "slow.example"), "it is counted once")
		}
	}
	require.Equal(t, []int{maxPerHost, maxWaiting - maxPerHost}, []int{kept, dropped})
	require.Len(t, k.waiting, maxPerHost)
	require.Equal(t, now, k.turn(waitFor(k, nfts, 1), "quick.example"))
}

// TestOneContractHasAPartOfTheWorkers: one contract can name many slow hosts.
func TestOneContractHasAPartOfTheWorkers(t *testing.T) {
	k := New(Options{Store: store.NewMemory(), Rate: 1e9})
	host := func(i int) string { return fmt.Sprintf("%d.slow.example", i) }
	for i := range maxFetched {
		require.Equal(t, now, k.turn(waitFor(k, nfts, i), host(i)))
	}
	third := waitFor(k, nfts, maxFetched)
	require.Equal(t, later, k.turn(third, host(maxFetched)))
	require.Equal(t, now, k.turn(waitFor(k, multi, 1), "quick.example"))
	k.done(token{contract: nfts}, host(0), answered)
	require.Equal(t, now, k.turn(third, host(maxFetched)))
}

// TestHostsThatTimeOutAreLeftAlone skips such hosts for a while, and longer after each timeout.
func TestHostsThatTimeOutAreLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := New(Options{Store: store.NewMemory(), Rate: 1e9})
		tok := waitFor(k, nfts, 1)
		ask := func(r result) {
			t.Helper()
			time.Sleep(time.Millisecond) // for the rate
			require.Equal(t, now, k.turn(tok, "slow.example"))
			k.done(tok, "slow.example", r)
		}
		ask(late)
		ask(late)
		ask(answered)
		for range maxFailures {
			ask(late)
		}
		for pause := firstPause; pause < 2*lastPause; pause *= 2 {
			wait := min(pause, lastPause)
			require.Equal(t, never, k.turn(tok, "slow.example"))
			time.Sleep(wait - time.Second)
			require.Equal(t, never, k.turn(tok, "slow.example"), "%s", wait)
			time.Sleep(time.Second)
			ask(late)
		}
		time.Sleep(lastPause)
		ask(answered)
		ask(late)
		time.Sleep(time.Millisecond)
		require.Equal(t, now, k.turn(tok, "slow.example"), "what is over counts no more")
	})
}

// TestTimeoutsThroughGatewaysCountForTheContract pauses the contract and no other.
func TestTimeoutsThroughGatewaysCountForTheContract(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := New(Options{Store: store.NewMemory(), Rate: 1e9})
		first, second, other := waitFor(k, nfts, 1), waitFor(k, nfts, 2), waitFor(k, multi, 1)
		begin := func(tok token) {
			t.Helper()
			time.Sleep(time.Millisecond) // for the rate
			require.Equal(t, now, k.turn(tok, gatewayHost))
		}
		ask := func(tok token, r result) {
			t.Helper()
			begin(tok)
			k.done(tok, gatewayHost, r)
		}
		for range maxFailures - 1 {
			ask(first, late)
		}
		ask(second, answered)
		for range maxFailures - 2 {
			ask(first, late)
		}
		ask(first, unconnected)
		begin(first)
		begin(second)
		k.done(first, gatewayHost, late)
		ask(first, late)                  // a gateway that is away did not count
		k.done(second, gatewayHost, late) // does not extend the pause
		for _, wait := range []time.Duration{firstPause, 2 * firstPause} {
			require.Equal(t, never, k.turn(first, gatewayHost))
			require.Equal(t, never, k.turn(second, gatewayHost))
			ask(other, answered)
			require.Equal(t, now, k.turn(second, "other.example"), "only documents on IPFS pause")
			k.done(second, "other.example", answered)
			time.Sleep(wait - 2*time.Millisecond)
			require.Equal(t, never, k.turn(first, gatewayHost))
			time.Sleep(2 * time.Millisecond)
			ask(second, late)
		}
		time.Sleep(4 * firstPause)
		ask(first, answered)
		for range maxFailures - 1 {
			ask(first, late)
		}
		begin(second)
	})
}

// TestGatewaysThatAreAwayAreLeftAlone pauses gateways that cannot be connected to.
func TestGatewaysThatAreAwayAreLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := New(Options{Store: store.NewMemory(), Rate: 1e9})
		ask := func(contract byte, r result) {
			t.Helper()
			tok := waitFor(k, common.Address{contract}, 1)
			defer k.forget(tok)
			time.Sleep(time.Millisecond) // for the rate
			require.Equal(t, now, k.turn(tok, gatewayHost))
			k.done(tok, gatewayHost, r)
		}
		for contract := range byte(2 * maxFailures) {
			ask(contract, late)
		}
		for range maxFailures - 1 {
			ask(1, unconnected)
		}
		ask(2, late)
		for contract := range byte(maxFailures) {
			ask(contract, unasked) // counts for nothing
			ask(contract, unconnected)
		}
		tok := waitFor(k, nfts, 1)
		require.Equal(t, never, k.turn(tok, gatewayHost))
		require.Equal(t, now, k.turn(tok, "other.example"))
		time.Sleep(firstPause)
		require.Equal(t, now, k.turn(tok, gatewayHost))
	})
}

// TestGatewaysServeSeveralDocuments at a time, and leave workers for other hosts.
func TestGatewaysServeSeveralDocuments(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := New(Options{Store: store.NewMemory(), Rate: 1e9})
		for i := range maxThroughGateways {
			require.Equal(t, now, k.turn(waitFor(k, common.Address{9, byte(i)}, 1), gatewayHost))
			time.Sleep(time.Millisecond) // for the rate
		}
		last := waitFor(k, nfts, 1)
		require.Equal(t, later, k.turn(last, gatewayHost))
		require.Equal(t, now, k.turn(waitFor(k, multi, 1), "other.example"))
		k.done(token{contract: common.Address{9}}, gatewayHost, answered)
		require.Equal(t, now, k.turn(last, gatewayHost))
	})
}

// TestLateAnswersAreTold distinguishes a host that does not answer in time from one that does.
func TestLateAnswersAreTold(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/silent":
			<-r.Context().Done()
		case "/drip":
			_, _ = w.Write([]byte("{"))
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		default:
			http.NotFound(w, r)
		}
	}))
	defer server.Close()
	for path, want := range map[string]result{"/silent": late, "/drip": late, "/none": answered} {
		timeout := time.Minute
		if want == late {
			timeout = 200 * time.Millisecond
		}
		f, err := NewFetcher(FetchOptions{AllowPrivate: true, Timeout: timeout})
		require.NoError(t, err)
		defer f.Close()
		k := New(Options{Fetcher: f, Store: store.NewMemory()})
		m, got, err := k.fetch(t.Context(), server.URL+path)
		require.NoError(t, err)
		require.Equal(t, Unreachable, m.Status, path)
		require.Equal(t, want, got, path)
	}
}

// TestResultsOfGateways distinguishes gateways that cannot be connected to from documents that time out.
func TestResultsOfGateways(t *testing.T) {
	fetch := func(t *testing.T, f *Fetcher, uri string) result {
		_, got, err := New(Options{Fetcher: f, Store: store.NewMemory()}).fetch(t.Context(), uri)
		require.NoError(t, err)
		return got
	}
	const away, slow, without = "http://away.example", "http://slow.example", "http://without.example"
	for name, c := range map[string]struct {
		gateways []string
		want     result
	}{
		"away":            {[]string{away}, unconnected},
		"all away":        {[]string{away, away}, unconnected},
		"one away":        {[]string{without, away}, answered},
		"late":            {[]string{slow}, late},
		"away, then late": {[]string{away, slow}, late},
		"late, then away": {[]string{slow, away}, late},
		"late, then none": {[]string{slow, without}, late},
		"none, then late": {[]string{without, slow}, late},
		"none":            {[]string{without}, answered},
		"no gateway":      {nil, answered},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, err := NewFetcher(FetchOptions{Gateways: c.gateways})
				require.NoError(t, err)
				f.gateway = &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
					if r.URL.Host == "away.example" {
						return hang(r)
					}
					httptrace.ContextClientTrace(r.Context()).GotConn(httptrace.GotConnInfo{})
					if r.URL.Host == "slow.example" {
						return hang(r)
					}
					return respond(http.StatusNotFound, "")
				})}
				require.Equal(t, c.want, fetch(t, f, "ipfs://Qm1"))
			})
		})
	}

	closed := httptest.NewServer(nil)
	closed.Close()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, closed.URL, http.StatusFound) }))
	defer server.Close()
	untrusted := httptest.NewUnstartedServer(nil)
	untrusted.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, 0)
	untrusted.StartTLS()
	defer untrusted.Close()
	for gateway, want := range map[string]result{closed.URL: unconnected, untrusted.URL: unconnected, server.URL: answered} {
		f, err := NewFetcher(FetchOptions{Gateways: []string{gateway}, AllowPrivate: true, Timeout: time.Minute})
		require.NoError(t, err)
		defer f.Close()
		require.Equal(t, want, fetch(t, f, "ipfs://Qm1"), gateway)
		require.Equal(t, unasked, fetch(t, f, "ipfs://"+strings.Repeat("a", maxURL)), "a URL that is not requested")
	}
}

// TestHostsOfGateways: documents that a URI requests from a gateway directly count for its host, not for IPFS.
func TestHostsOfGateways(t *testing.T) {
	f, err := NewFetcher(FetchOptions{Gateways: []string{"https://one.example", "https://Two.example:8443"}})
	require.NoError(t, err)
	for uri, want := range map[string]string{
		"ipfs://Qm1/7": gatewayHost, "https://ONE.example/ipfs/Qm1/7": "one.example", "https://two.example:8443/": "two.example:8443",
		"https://two.example/": "two.example", "https://other.example/ipfs/Qm1/7": "other.example", "gopher://one.example": "", "data:,{}": "", "https:": "",
	} {
		require.Equal(t, want, f.hostOf(uri), uri)
	}
}

func TestDamagedRow(t *testing.T) {
	for _, b := range [][]byte{{}, {2}, {row.Version}, {row.Version, 1, 1, 1, 9}} {
		if _, err := decode(b); !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("got %v for %x, want ErrCorrupt", err, b)
		}
	}
}

// TestPausesAreKept forgets hosts that do not pause before those that do.
func TestPausesAreKept(t *testing.T) {
	k := New(Options{Store: store.NewMemory(), Rate: 1e9})
	k.host("away.example").until = time.Now().Add(time.Hour)
	for i := range 2 * maxHosts {
		k.host(fmt.Sprintf("%d.example", i))
	}
	require.Len(t, k.hosts, maxHosts)
	require.True(t, k.hosts["away.example"].paused())
}
