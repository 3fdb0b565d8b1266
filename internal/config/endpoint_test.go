package config

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const nodesFile = `networks:
  fuji:
    nodes:
      - http://127.0.0.1:9650
      - url: https://api.example/secretpath
        headers: {Authorization: Bearer secret1, x-api-key: secret2}
    requests_per_second: 15
    manual_peers: [{node_id: NodeID-7Xhw2mDxuDS44j42TCB6U5579esbSt3Lg, address: "203.0.113.7:9651"}]
    evm:
      - rpc: https://one.example/rpc
      - rpc: [https://two.example/rpc, {url: "https://three.example/rpc", headers: {x-api-key: secret3}}]
`

func TestProviderSettings(t *testing.T) {
	environ := []string{"QUORATE_NODE_HEADERS=one.example=x-api-key: secret4;api.example=X-Extra: secret5", "QUORATE_REQUESTS_PER_SECOND=12"}
	c, err := readWith(t, nodesFile, environ, "--node-header", "127.0.0.1:9650=Authorization: Basic secret6")
	require.NoError(t, err)
	n := c.Networks["fuji"]
	require.Equal(t, []Endpoint{
		{URL: "http://127.0.0.1:9650", Headers: map[string]Secret{"Authorization": "Basic secret6"}},
		{URL: "https://api.example/secretpath", Headers: map[string]Secret{"Authorization": "Bearer secret1", "x-api-key": "secret2", "X-Extra": "secret5"}},
	}, n.Nodes)
	require.Equal(t, "Bearer secret1", Endpoints(n.Nodes).Headers()[1].Get("authorization"))
	require.Equal(t, Endpoints{{URL: "https://one.example/rpc", Headers: map[string]Secret{"x-api-key": "secret4"}}}, n.EVM[0].RPC)
	require.Equal(t, []string{"https://two.example/rpc", "https://three.example/rpc"}, n.EVM[1].RPC.URLs())
	require.Equal(t, Secret("secret3"), n.EVM[1].RPC[1].Headers["x-api-key"])
	require.Equal(t, 12, n.RequestsPerSecond)
	peers, err := n.Peers()
	require.NoError(t, err)
	require.Equal(t, "203.0.113.7:9651", peers[0].Addr.String())

	shown := fmt.Sprint(Shown(c))
	require.NotContains(t, shown, "secret")
	require.NotContains(t, fmt.Sprintf("%v %+v", c, c), "secret1")
	require.Contains(t, shown, "networks.fuji.record:l1", "the default")
	require.Contains(t, shown, "networks.fuji.nodes:[http://127.0.0.1:9650 with Authorization, https://api.example/*** with Authorization, X-Extra, x-api-key]")
}

// A header belongs to one port of a host, or to all.
func TestHeadersOfHosts(t *testing.T) {
	for host, both := range map[string]bool{
		"127.0.0.1": true, "127.0.0.1:9650": false, "[::1]": true, "[::1]:9650": false, "node.example": true, "node.example:9650": false,
	} {
		t.Run(host, func(t *testing.T) {
			name, _, _ := strings.Cut(host, ":9650")
			c, err := readWith(t, "", nil, "--network", fmt.Sprintf("fuji=http://%s:9650,http://%s:9651,http://127.0.0.2:9650", name, name), "--node-header", host+"=Authorization: Basic secret")
			require.NoError(t, err)
			header := map[string]Secret{"Authorization": "Basic secret"}
			nodes := c.Networks["fuji"].Nodes
			require.Equal(t, header, nodes[0].Headers)
			if both {
				require.Equal(t, header, nodes[1].Headers)
			} else {
				require.Empty(t, nodes[1].Headers)
			}
			require.Empty(t, nodes[2].Headers)
		})
	}
}

func TestMistakesInProviderSettings(t *testing.T) {
	for name, test := range map[string]struct {
		file string
		args []string
		want string
	}{
		"unknown key of a node":       {file: "networks: {fuji: {nodes: [{url: 'http://x', header: {a: secret}}]}}\n", want: "networks.fuji.nodes[0]: a node has no header; it has url and headers"},
		"header name":                 {file: "networks: {fuji: {nodes: [{url: 'http://x', headers: {'a b': secret}}]}}\n", want: `"a b" is not the name of a header`},
		"header value":                {file: "networks: {fuji: {nodes: [{url: 'http://x', headers: {a: \"secret\\nb\"}}]}}\n", want: "header a is empty or has more than one line"},
		"header of an unknown host":   {args: []string{"--network", "fuji=http://x", "--node-header", "y=a: secret"}, want: `no node is at host "y"`},
		"header of another port":      {args: []string{"--network", "fuji=http://x:1", "--node-header", "x:2=a: secret"}, want: `no node is at host "x:2"; give the host of a configured URL`},
		"header of a part of a host":  {args: []string{"--network", "fuji=http://xy:1", "--node-header", "x=a: secret"}, want: `no node is at host "x"`},
		"header without a host":       {args: []string{"--network", "fuji=http://x", "--node-header", "Authorization: secret"}, want: "host=name: value"},
		"negative rate":               {args: []string{"--network", "fuji=http://x", "--requests-per-second", "-1"}, want: "networks.fuji.requests_per_second"},
		"peer without an ID":          {file: "networks: {fuji: {nodes: ['http://x'], manual_peers: [{address: '203.0.113.7:9651'}]}}\n", want: "networks.fuji.manual_peers"},
		"peer without a port":         {file: "networks: {fuji: {nodes: ['http://x'], manual_peers: [{node_id: NodeID-7Xhw2mDxuDS44j42TCB6U5579esbSt3Lg, address: 203.0.113.7}]}}\n", want: "203.0.113.7:9651"},
		"peer at a private address":   {file: "networks: {fuji: {nodes: ['http://x'], manual_peers: [{node_id: NodeID-7Xhw2mDxuDS44j42TCB6U5579esbSt3Lg, address: '10.0.0.1:9651'}]}}\n", want: "allow_private_ips"},
		"unknown key of a peer":       {file: "networks: {fuji: {nodes: ['http://x'], manual_peers: [{id: x}]}}\n", want: "networks.fuji.manual_peers[0].id: unknown key"},
		"chain without a node":        {file: "networks: {fuji: {nodes: ['http://x'], evm: [{rpc: []}]}}\n", want: "networks.fuji.evm.rpc"},
		"chain over p2p":              {file: "networks: {fuji: {nodes: [p2p, 'http://x'], record: all, evm: [{rpc: p2p}]}}\n", want: "networks.fuji.evm.rpc: p2p is only for nodes"},
		"chain over p2p and a URL":    {file: "networks: {fuji: {nodes: ['http://x'], evm: [{rpc: ['http://x', {url: p2p}]}]}}\n", want: "networks.fuji.evm.rpc: p2p is only for nodes"},
		"chain with a bad second URL": {file: "networks: {fuji: {nodes: ['http://x'], evm: [{rpc: ['http://x', 'secret']}]}}\n", want: "networks.fuji.evm.rpc"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := readWith(t, test.file, nil, test.args...)
			require.ErrorContains(t, err, test.want)
			if name != "chain with a bad second URL" { // whose text may be anything
				require.NotContains(t, err.Error(), "secret")
			}
		})
	}
}

// After a reload the log names the keys that need a restart. The text of a node omits its secrets.
func TestChangedHeadersAreNoticed(t *testing.T) {
	read := func(node, chain string) Config {
		t.Helper()
		c, err := readWith(t, "networks: {fuji: {nodes: ['http://x', {url: 'http://y', headers: {a: "+node+"}}], evm: [{rpc: 'http://z'}, {rpc: {url: 'http://w', headers: {a: "+chain+"}}}]}}\n", nil)
		require.NoError(t, err)
		return c
	}
	before := read("one", "one")
	require.Empty(t, Changed(before, read("one", "one")))
	require.Equal(t, []string{"networks.fuji.nodes"}, Changed(before, read("two", "one")))
	require.Equal(t, []string{"networks.fuji.evm[1].rpc"}, Changed(before, read("one", "two")))
	without := before
	without.Networks = nil
	require.NotEmpty(t, Changed(before, without))
	require.NotEmpty(t, Changed(without, before))
}
