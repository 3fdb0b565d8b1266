package metrics_test

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holiman/uint256"
	"github.com/labstack/echo/v4"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/libevm/common"

	"quorate/handlers"
	"quorate/handlers/docs/conform"
	api "quorate/handlers/evm"
	"quorate/handlers/reply"
	chain "quorate/internal/chain/evm"
	"quorate/internal/index/evm"
	"quorate/internal/index/evm/contracts"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const day = 24 * 60 * 60

// days are a record that has nothing but days; what else is asked of it panics.
type days struct {
	api.Index
	all      []evm.Day // newest first
	err      error
	progress reply.Progress
}

func (d *days) Days(_ context.Context, before int64, limit int) ([]evm.Day, error) {
	all := slices.DeleteFunc(slices.Clone(d.all), func(one evm.Day) bool { return before != 0 && one.Start >= before })
	return all[:min(limit, len(all))], d.err
}

// nothing is a node that is not asked.
type nothing struct{ api.Node }

func (nothing) Contracts(context.Context, []common.Address) ([]*evm.Contract, error) {
	panic("not asked")
}

func (nothing) Settled(context.Context, []common.Address, time.Time) ([]*evm.Contract, error) {
	panic("not asked")
}

func (nothing) Cached([]common.Address) ([]*evm.Contract, bool) { panic("not asked") }

func (nothing) TokenURIs(context.Context, []contracts.Token) ([]*string, error) {
	panic("not asked")
}

func (nothing) RememberedURI(chain.Standard, common.Address, *uint256.Int) (string, bool) {
	panic("not asked")
}

func (nothing) NativeBalance(context.Context, common.Address, uint64) (*uint256.Int, error) {
	panic("not asked")
}

func (d *days) chain(id uint64) api.Chain {
	return api.Chain{
		ChainID: id, BlockchainID: ids.ID{byte(id)}, Progress: func(context.Context) reply.Progress { return d.progress },
		Index: d, Contracts: nothing{}, URIs: nothing{}, Node: nothing{},
	}
}

func surface(t testing.TB, key []byte, d *days) *echo.Echo {
	t.Helper()
	chains, err := api.NewChains([]api.Chain{d.chain(7), d.chain(8)}, false)
	require.NoError(t, err)
	e, err := handlers.New(handlers.Options{EVM: api.Options{Chains: chains}, PageKey: key})
	require.NoError(t, err)
	conform.Watch(t, e)
	return e
}

// newDays has n days, of which today has gone for an hour.
func newDays(n int) *days {
	now := time.Now()
	today := now.Unix() - now.Unix()%day
	d := &days{progress: reply.Progress{Height: 9, Time: now.Add(-time.Minute), CaughtUp: true}}
	for i := range n {
		d.all = append(d.all, evm.Day{Start: today - int64(i)*day, Transactions: uint64(i) * 12_345})
	}
	return d
}

func get(h http.Handler, path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, http.NoBody))
	return w
}

type answer struct {
	Results []struct {
		Timestamp int64
		Value     float64
	}
	Status, LastRun int64
	NextPageToken   *string
}

func read(t testing.TB, w *httptest.ResponseRecorder) answer {
	t.Helper()
	require.Equal(t, http.StatusOK, w.Code, w.Body)
	require.Equal(t, "application/json", w.Header().Get("Content-Type"))
	var a answer
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &a))
	require.EqualValues(t, 200, a.Status)
	return a
}

func requireError(t testing.TB, w *httptest.ResponseRecorder, status int, message string) {
	t.Helper()
	require.Equal(t, status, w.Code, w.Body)
	require.Equal(t, "application/json", w.Header().Get("Content-Type"))
	var body struct {
		Message    []string
		StatusCode int
		Error      string
	}
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &body), w.Body)
	require.Equal(t, status, body.StatusCode)
	require.Equal(t, http.StatusText(status), body.Error)
	require.Len(t, body.Message, 1)
	require.Contains(t, body.Message[0], message)
}

// In a bubble the time is 2000-01-01 at first; tests wait for an hour to be gone.
func TestSeries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Hour)
		d := newDays(3)
		d.all[0].Transactions = 5_000
		w := get(surface(t, nil, d), "/v1/avg_tps/7")
		require.JSONEq(t, fmt.Sprintf(`{
			"results": [
				{"timestamp": 946684800, "value": 1.41},
				{"timestamp": 946598400, "value": 0.14},
				{"timestamp": 946512000, "value": 0.29}
			], "status": 200, "lastRun": %d}`, 946684800+3600), w.Body.String())
		require.Equal(t, "9", w.Header().Get("Indexed-Height"))

		// While recording is held up the day has gone until the last block.
		d.progress.Err = errors.New("node away")
		a := read(t, get(surface(t, nil, d), "/v1/avg_tps/7"))
		require.EqualValues(t, 946684800+3540, a.LastRun)
		require.InDelta(t, 1.41, a.Results[0].Value, 1e-9)
		require.Equal(t, "stalled", get(surface(t, nil, d), "/v1/avg_tps/7").Header().Get("Indexed-State"))

		// Recording goes on again, and no block comes for an hour, nor for two days more:
		// those days had none.
		d.progress.Err = nil
		time.Sleep(time.Hour)
		a = read(t, get(surface(t, nil, d), "/v1/avg_tps/7"))
		require.InDelta(t, 1.41, a.Results[0].Value, 1e-9, "it does not depend on when it is asked for")
		require.EqualValues(t, 946684800+7200, a.LastRun)
		d.progress.Err = errors.New("node away")
		time.Sleep(48 * time.Hour)
		require.Len(t, read(t, get(surface(t, nil, d), "/v1/avg_tps/7")).Results, 3, "the blocks of those days are unknown")
		d.progress.Err = nil
		a = read(t, get(surface(t, nil, d), "/v1/avg_tps/7"))
		require.Len(t, a.Results, 5)
		for i, want := range []float64{0, 0, 0.06, 0.14, 0.29} {
			require.EqualValues(t, 946684800+day*(2-i), a.Results[i].Timestamp)
			require.InDelta(t, want, a.Results[i].Value, 1e-9)
		}

		// A chain's clock may be ahead of ours; a day that is over has all its seconds.
		d.progress = reply.Progress{CaughtUp: true, Time: time.Now().Add(48 * time.Hour)}
		a = read(t, get(surface(t, nil, d), "/v1/avg_tps/7"))
		require.InDelta(t, 0.06, a.Results[len(a.Results)-3].Value, 1e-9)

		// The first second of a day.
		d.progress.Time = time.Unix(d.all[0].Start, 0)
		d.progress.Err = errors.New("node away")
		a = read(t, get(surface(t, nil, d), "/v1/avg_tps/7"))
		require.InDelta(t, 5_000, a.Results[0].Value, 1e-9)
	})
	none := newDays(0)
	w := get(surface(t, nil, none), "/v1/avg_tps/7")
	require.Contains(t, w.Body.String(), `"results":[]`)
	require.Nil(t, read(t, w).NextPageToken)
}

var version8 = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)

func TestPages(t *testing.T) {
	for n, sizes := range map[int][]int{99: {99}, 100: {100}, 101: {100, 1}, 250: {100, 100, 50}} {
		d := newDays(n)
		key := []byte("key")
		seen, token := 0, ""
		for i, size := range sizes {
			// Each page from an instance of its own.
			a := read(t, get(surface(t, key, d), "/v1/avg_tps/7?pageToken="+token))
			require.Len(t, a.Results, size)
			for _, point := range a.Results {
				require.Equal(t, d.all[seen].Start, point.Timestamp)
				seen++
			}
			require.Equal(t, i == len(sizes)-1, a.NextPageToken == nil)
			if a.NextPageToken != nil {
				token = *a.NextPageToken
				require.Regexp(t, version8, token)
			}
		}
		require.Equal(t, n, seen)
	}
}

// TestIdlePages: the chain has been quiet for longer than a page.
func TestIdlePages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDays(2)
		time.Sleep(250 * day * time.Second)
		var starts []int64
		token := ""
		for _, size := range []int{100, 100, 52} {
			a := read(t, get(surface(t, []byte("key"), d), "/v1/avg_tps/7?pageToken="+token))
			require.Len(t, a.Results, size)
			for _, point := range a.Results {
				starts = append(starts, point.Timestamp)
				require.Equal(t, point.Timestamp == d.all[1].Start, point.Value > 0)
			}
			token = ""
			if a.NextPageToken != nil {
				token = *a.NextPageToken
			}
		}
		require.Empty(t, token)
		for i, start := range starts {
			require.Equal(t, d.all[0].Start+day*int64(250-i), start)
		}
	})
}

// A day that begins between pages moves nothing.
func TestNewDayBetweenPages(t *testing.T) {
	d := newDays(150)
	h := surface(t, nil, d)
	first := read(t, get(h, "/v1/avg_tps/7"))
	d.all = slices.Insert(d.all, 0, evm.Day{Start: d.all[0].Start + day})
	second := read(t, get(h, "/v1/avg_tps/7?pageToken="+strings.ToUpper(*first.NextPageToken)))
	require.Len(t, second.Results, 50)
	require.Equal(t, first.Results[99].Timestamp-day, second.Results[0].Timestamp)
}

func TestTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDays(250)
		h := surface(t, nil, d)
		token := *read(t, get(h, "/v1/avg_tps/7")).NextPageToken
		time.Sleep(24*time.Hour - time.Second)
		require.Equal(t, 200, get(h, "/v1/avg_tps/7?pageToken="+token).Code)
		time.Sleep(time.Second)
		requireError(t, get(h, "/v1/avg_tps/7?pageToken="+token), http.StatusBadRequest, "has expired")

		token = *read(t, get(h, "/v1/avg_tps/7")).NextPageToken
		next := *read(t, get(h, "/v1/avg_tps/7?pageToken="+token)).NextPageToken
		require.NotEqual(t, token, next)
		requireError(t, get(h, "/v1/avg_tps/8?pageToken="+token), http.StatusBadRequest, "is no token of this series")
		requireError(t, get(surface(t, nil, d), "/v1/avg_tps/7?pageToken="+token), http.StatusBadRequest, "is no token of this series")
		requireError(t, get(h, "/v1/avg_tps/7?pageToken="+token+"&pageToken="+token), http.StatusBadRequest, "pageToken: it is given 2 times")
		for _, bad := range []string{
			"x", "0", token[1:], token + "0", strings.ReplaceAll(token, "-", ""), "{" + token + "}", "urn:uuid:" + token, "00000000-0000-0000-0000-000000000000",
			"f47ac10b-58cc-4372-a567-0e02b2c3d479", strings.Repeat("a", 5_000), token[:8] + "_" + token[9:], "%zz", token[:35] + "g",
		} {
			requireError(t, get(h, "/v1/avg_tps/7?pageToken="+bad), http.StatusBadRequest, "pageToken: ")
		}
		// No bit may be changed.
		octets, err := hex.DecodeString(strings.ReplaceAll(token, "-", ""))
		require.NoError(t, err)
		for i := range 8 * len(octets) {
			changed := slices.Clone(octets)
			changed[i/8] ^= 1 << (i % 8)
			text := fmt.Sprintf("%x-%x-%x-%x-%x", changed[:4], changed[4:6], changed[6:8], changed[8:10], changed[10:])
			requireError(t, get(h, "/v1/avg_tps/7?pageToken="+text), http.StatusBadRequest, "is no token of this series")
		}
		require.InDelta(t, float64(time.Now().Add(24*time.Hour).Unix()), float64(binary.BigEndian.Uint32(octets)), 1)
	})
}

func TestErrors(t *testing.T) {
	d := newDays(3)
	h := surface(t, nil, d)
	for _, name := range []string{"9", "0x7", "seven", "07", ids.ID{9}.String(), strings.Repeat("7", 300)} {
		requireError(t, get(h, "/v1/avg_tps/"+name), http.StatusNotFound, "it indexes 7, 8")
	}
	requireError(t, get(h, "/v1/avg_tps/7/more"), http.StatusNotFound, "there is no GET /v1/avg_tps/7/more")
	requireError(t, get(h, "/v1/avg_tps/"), http.StatusNotFound, "")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/v1/avg_tps/7", http.NoBody))
	requireError(t, w, http.StatusNotFound, "there is no POST")
	d.err = evm.ErrEmpty
	requireError(t, get(h, "/v1/avg_tps/7"), http.StatusServiceUnavailable, "nothing of this chain is indexed yet")
	d.err = errors.New("secret")
	requireError(t, get(h, "/v1/avg_tps/7"), http.StatusInternalServerError, "something went wrong")
	d.err, d.progress.CaughtUp = nil, false
	requireError(t, get(h, "/v1/avg_tps/7"), http.StatusServiceUnavailable, "still catching up")
	// The other API's form is as it was.
	require.Contains(t, get(h, "/v1/avg").Body.String(), `"message":"there is no`)
}

func FuzzToken(f *testing.F) {
	d := newDays(250)
	h := surface(f, nil, d) // a key of its own: no other process makes tokens for it
	first := read(f, get(h, "/v1/avg_tps/7"))
	f.Add(*first.NextPageToken)
	f.Add("")
	f.Add("f47ac10b-58cc-4372-a567-0e02b2c3d479")
	f.Fuzz(func(t *testing.T, token string) {
		r := httptest.NewRequest(http.MethodGet, "/v1/avg_tps/7", http.NoBody)
		q := r.URL.Query()
		q.Set("pageToken", token)
		r.URL.RawQuery = q.Encode()
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if want := http.StatusBadRequest; token != "" && !strings.EqualFold(token, *first.NextPageToken) && w.Code != want {
			t.Errorf("%q: got %d, want %d", token, w.Code, want)
		}
	})
}
