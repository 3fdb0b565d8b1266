package data_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
)

// FuzzRequest sends any path and query below a network. Whatever it is, it is a
// client's mistake or an answer.
func FuzzRequest(f *testing.F) {
	for _, op := range operations {
		path, raw, _ := strings.Cut(strings.TrimPrefix(op, base), "?")
		f.Add(path, raw)
		f.Add(path, raw+"&pageToken=AQOuWSiWmxbDYWRUcrDE86AzCz8tag&pageSize=2&minUtxoAmount=1e9&blockTimestamp=1")
	}
	f.Add("/blockchains/x-chain/utxos", "addresses=%zz&txTypes[]=&sortBy=amount&includeSpent=true")
	h := fuji(f, newFake())
	f.Fuzz(func(t *testing.T, path, raw string) {
		r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
		r.URL = &url.URL{Path: base + path, RawQuery: raw}
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
