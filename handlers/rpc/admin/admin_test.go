package admin_test

import (
	"encoding/hex"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"quorate/handlers/apitest"
	"quorate/handlers/query/page"
	"quorate/handlers/rpc"
	"quorate/handlers/rpc/admin"
	"quorate/internal/store"
)

// call returns the result, or the text of the error.
func call(t *testing.T, o admin.Options, method, params string) string {
	t.Helper()
	h, err := rpc.NewHandler(rpc.Endpoint{Services: []rpc.Service{{Names: []string{"admin"}, Methods: admin.New(o)}}})
	require.NoError(t, err)
	result, failure := apitest.Call(t, h, "admin."+method, params)
	return string(result) + failure
}

func TestDBGet(t *testing.T) {
	s := store.NewMemory()
	var b store.Batch
	// As the embedded engine has them: the family, p with what is below 2 escaped, a
	// zero byte, k.
	b.Put(store.FamilyCursor, store.PK{P: []byte("a\x00\x01")}, []byte{0xca, 0xfe})
	b.Put(store.FamilyL1Height, store.PK{P: []byte{5}, K: []byte{0, 1}}, []byte{})
	require.NoError(t, s.Commit(t.Context(), &b))
	const absent = `{"value":"","errorCode":2}`
	for _, test := range []struct{ params, want string }{
		{`{"key":"0x02610101010200"}`, `{"value":"0xcafe","errorCode":0}`},
		{`{"key":"0x0805000001"}`, `{"value":"0x","errorCode":0}`},
		{`{"key":"0x02610101010201"}`, absent},   // no end of p
		{`{"key":"0x0261010101020000"}`, absent}, // another k
		{`{"key":"0xff00"}`, absent},             // no such family
		{`{"key":"0x"}`, absent},                 // no key
		{`{"key":""}`, absent},                   // no key
		{`{}`, absent},                           // no key
		{`{"key":"0x02` + strings.Repeat("61", store.MaxKey+500) + `00"}`, "couldn't unmarshal an argument: a text has more than 5000 bytes"},
		{`{"key":"61"}`, "missing 0x prefix to hex encoding"},
		{`{"key":5}`, "couldn't unmarshal an argument. Ensure arguments are valid and properly formatted. See documentation for example calls"},
	} {
		require.Equal(t, test.want, call(t, admin.Options{Store: s}, "dbGet", test.params), test.params)
	}
	var secrets store.Batch
	secrets.Put(store.FamilyWebhookSecret, store.PK{P: []byte("owner")}, []byte("secret"))
	secrets.Put(store.FamilyMeta, store.PK{P: []byte(page.KeyRow)}, []byte("secret"))
	require.NoError(t, s.Commit(t.Context(), &secrets))
	for _, key := range []string{"53" + hex.EncodeToString([]byte("owner")), "01" + hex.EncodeToString([]byte(page.KeyRow))} {
		require.Equal(t, absent, call(t, admin.Options{Store: s}, "dbGet", `{"key":"0x`+key+`00"}`), "a secret")
	}
	require.Equal(t, absent, call(t, admin.Options{}, "dbGet", `{"key":"0x02610101010200"}`), "without a store")
	require.NoError(t, s.Close())
	require.Equal(t, `{"value":"","errorCode":1}`, call(t, admin.Options{Store: s}, "dbGet", `{"key":"0x02610101010200"}`), "when it is closed")
}

func TestGetConfig(t *testing.T) {
	require.Equal(t, `{"a.b":"c"}`, call(t, admin.Options{Settings: map[string]string{"a.b": "c"}}, "getConfig", "{}"))
}
