package data_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"quorate/handlers/apitest"
)

// TestAddressesInBody requires the same answers, page by page, as with the addresses in the query.
func TestAddressesInBody(t *testing.T) {
	h := fuji(t, newFake())
	path, _, _ := strings.Cut(utxosPath, "?")
	post := func(query, body string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, path+query, strings.NewReader(body)))
		return w
	}
	body := `{"addresses":"P-` + text(alice) + `, ` + text(bob) + `"}`
	both := path + "?addresses=" + text(alice) + "," + text(bob)
	for _, query := range []string{"includeSpent=true&pageSize=100", "sortBy=amount&sortOrder=asc&minUtxoAmount=2", "pageSize=1"} {
		want := apitest.Get(h, both+"&"+query)
		require.Equal(t, http.StatusOK, want.Code)
		require.Equal(t, want.Body.String(), post("?"+query, body).Body.String())
	}
	requireError(t, post("?addresses="+text(carol), body), 400, "addresses: the operation has no such parameter")

	requireError(t, post("", ""), 400, "")
	requireError(t, post("", "{}"), 400, "addresses: is missing")
	requireError(t, post("", `{"addresses":["`+text(alice)+`"]}`), 400, "addresses must be")
	requireError(t, post("", `{"addresses":"nobody"}`), 400, "addresses: ")
	requireError(t, post("?pageSize=0", body), 400, "pageSize: ")
	requireError(t, post("?sortBy=name", body), 400, "sortBy: ")
	requireError(t, post("?includeSpent=tru%zz", body), 400, "includeSpent: ", "percent escape")
	requireError(t, post("?pageToken=abc%", body), 400, "pageToken: ", "percent escape")
	requireError(t, post("?pageSize=5;includeSpent=true", body), 400, "pageSize: ")
	many := make([]string, 300)
	for i := range many {
		many[i] = text([20]byte{9, byte(i), byte(i >> 8)})
	}
	requireError(t, post("", `{"addresses":"`+strings.Join(many, ",")+`"}`), 400, "addresses: ", "at most 64")
}
