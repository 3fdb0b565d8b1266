package networks

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFind(t *testing.T) {
	for _, test := range []struct {
		configured  []string
		asked, want string
		failure     string
	}{
		{[]string{"mainnet", "fuji"}, "fuji", "fuji", ""},
		{[]string{"mainnet", "fuji"}, "testnet", "fuji", ""},
		{[]string{"testnet"}, "fuji", "testnet", ""},
		{[]string{"testnet", "fuji"}, "testnet", "testnet", ""},
		{[]string{"testnet", "fuji"}, "fuji", "fuji", ""},
		{[]string{"fuji", "devnet"}, "mainnet", "", "404: network: data of mainnet is not served here; this instance serves devnet, fuji"},
		{[]string{"fuji"}, "Fuji", "", `400: network: "Fuji" is no network; use mainnet, fuji or testnet (this instance serves fuji)`},
		{nil, "fuji", "", "404: network: data of fuji is not served here; this instance serves none"},
	} {
		all := make(map[string]string)
		for _, name := range test.configured {
			all[name] = "the network " + name
		}
		name, n, err := Fixed(all).Find(test.asked, "data of ")
		if test.failure != "" {
			require.EqualError(t, err, test.failure)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, test.want, name)
		require.Equal(t, "the network "+test.want, n)
	}
}

func TestAliases(t *testing.T) {
	d := Fixed(map[string]int{"local": 1}).Also(map[string]string{"fuji": "local"})
	for _, name := range []string{"local", "fuji", "testnet"} {
		configured, n, err := d.Find(name, "")
		require.NoError(t, err, name)
		require.Equal(t, "local", configured)
		require.Equal(t, 1, n)
	}
	_, _, err := d.Find("mainnet", "")
	require.ErrorContains(t, err, "mainnet is not served here; this instance serves local")
	_, _, err = d.Find("", "")
	require.Error(t, err)
}

// A directory looks a network up each time.
func TestNetworkThatOpens(t *testing.T) {
	shut := errors.New("it is starting")
	d := New([]string{"fuji"}, func(string) (int, error) { return 1, shut })
	_, _, err := d.Find("testnet", "")
	require.ErrorIs(t, err, shut)
	shut = nil
	_, n, err := d.Find("testnet", "")
	require.NoError(t, err)
	require.Equal(t, 1, n)
}
