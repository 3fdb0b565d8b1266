package evm_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
)

// FuzzRequest sends any path and query below the chains. Whatever it is, it is a
// client's mistake or an answer.
func FuzzRequest(f *testing.F) {
	for _, op := range operations {
		path, raw, _ := strings.Cut(strings.TrimPrefix(op, "/v1/chains/"), "?")
		f.Add(path, raw)
		f.Add(path, raw+"&pageToken=AQOuWSiWmxbDYWRUcrDE86AzCz8tag&pageSize=2&startBlock=1&endBlock=990&blockNumber=1&status=failed&currency=eur")
	}
	f.Add("c-chain/addresses/0X00/balances:listErc1155", "contractAddress=%zz&blockNumber=18446744073709551615")
	h := fuji(f, newFake())
	f.Fuzz(func(t *testing.T, path, raw string) {
		r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
		r.URL = &url.URL{Path: "/v1/chains/" + path, RawQuery: raw}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if !slices.Contains([]int{200, 400, 404}, w.Code) {
			t.Errorf("got %d: %s", w.Code, w.Body)
		}
		if !json.Valid(w.Body.Bytes()) {
			t.Errorf("got %q, want JSON", w.Body)
		}
	})
}
