package config

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Passwords, paths and queries may contain quotes, commas and brackets, which URLs allow unescaped. Texts around a URL
// stay readable.
func TestRedact(t *testing.T) {
	for text, want := range map[string]string{
		"http://127.0.0.1:9650":                                    "http://127.0.0.1:9650",
		"https://user:SECRET@node.example/ext/bc/C/rpc":            "https://***@node.example/ext/bc/C/rpc",
		"postgres://user:it's-SECRET@db.example/quorate":           "postgres://***@db.example/***",
		`postgres://user:"SECRET@db.example`:                       "postgres://***@db.example",
		"postgres://user:SEC/RET@db.example/quorate":               "postgres://***",
		"postgres://user:SEC?RET#SECRET@db.example":                "postgres://***",
		"https://node.example/v1?user=a@b.example&key=SECRET":      "https://***",
		"[https://node.example/v2/SEC@RET, https://b.example/ext]": "[https://***, https://b.example/ext]",
		"https://node.example/v2/it's-SECRET/ext":                  "https://node.example/***/***/ext",
		"https://node.example/v2/SEC,RET]'":                        "https://node.example/***/***]'",
		"https://node.example?key=SECRET,'SECRET]SECRET":           "https://node.example?***",
		"https://node.example/v1?key=SEC?RET#SECRET":               "https://node.example/v1?***",
		"https://node.example/v1#SECRET":                           "https://node.example/v1#***",
		"[https://a.example/v1?k=a,SECRET, https://u:p@b.example]": "[https://a.example/v1?***, https://***@b.example]",
		"[https://a.example/v1/S'ECRET, https://b.example/ext]":    "[https://a.example/v1/***, https://b.example/ext]",
		`node "https://u:SEC'RET@a.example/ext" is wrong`:          `node "https://***@a.example/ext" is wrong`,
		"fuji=https://u:SECRET@a.example,https://u:SECRET@b":       "fuji=https://***",
		"no URL: it's x@y":                                         "no URL: it's x@y",
		"cannot unmarshal !!str `SECRET...` into bool":             "cannot unmarshal !!str into bool",
	} {
		require.Equal(t, want, redact(text), text)
	}
}
