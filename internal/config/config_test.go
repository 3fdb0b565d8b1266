package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
)

// readWith reads a file of that content, if it is not empty, the environment and flags.
func readWith(t *testing.T, file string, environ []string, args ...string) (Config, error) {
	t.Helper()
	flags := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	AddFlags(flags)
	if file != "" {
		path := filepath.Join(t.TempDir(), "quorate.yaml")
		require.NoError(t, os.WriteFile(path, []byte(file), 0o600))
		args = append(args, "--config", path)
	}
	require.NoError(t, flags.Parse(args))
	s := Read(flags, environ)
	return s.Config, errors.Join(s.Problems...)
}

func TestLaterSourcesOverruleEarlierOnes(t *testing.T) {
	file := "listen: 127.0.0.1:1\nprivate_listen: 127.0.0.1:2\ndata_dir: file\nnetworks:\n  fuji:\n    nodes: [http://file]\n    allow_private_ips: true\n"
	c, err := readWith(t, file, nil)
	require.NoError(t, err)
	require.Equal(t, "127.0.0.1:1", c.Listen)
	require.Equal(t, Network{Nodes: []Endpoint{{URL: "http://file"}}, AllowPrivateIPs: true}, c.Networks["fuji"])
	require.Equal(t, Default().ClientCompat, c.ClientCompat)

	environ := []string{"QUORATE_PRIVATE_LISTEN=127.0.0.1:3", "QUORATE_DATA_DIR=env", "QUORATE_NETWORKS=fuji=http://env;mainnet=http://a,http://b", "HOME=/"}
	c, err = readWith(t, file, environ, "--data-dir", "flag", "--network", "mainnet=http://flag", "--network", "local=http://l")
	require.NoError(t, err)
	require.Equal(t, "127.0.0.1:1", c.Listen)
	require.Equal(t, "127.0.0.1:3", c.PrivateListen)
	require.Equal(t, "flag", c.DataDir)
	require.Equal(t, endpointsOf([]string{"http://env"}), Endpoints(c.Networks["fuji"].Nodes))
	require.Equal(t, endpointsOf([]string{"http://flag"}), Endpoints(c.Networks["mainnet"].Nodes))
	require.False(t, c.Networks["local"].AllowPrivateIPs)

	c, err = readWith(t, "", nil, "--allow-private-ips", "--network", "local=http://l")
	require.NoError(t, err)
	require.True(t, c.Networks["local"].AllowPrivateIPs, "whatever the order of flags")

	c, err = readWith(t, "", []string{"QUORATE_ALLOW_PRIVATE_IPS=true", "QUORATE_RECORD=all"}, "--network", "local=http://l", "--record", "primary")
	require.NoError(t, err)
	require.True(t, c.Networks["local"].AllowPrivateIPs, "a variable applies to the networks of flags")
	require.Equal(t, "primary", c.Networks["local"].Record)
}

// Each flag says in help texts which variable sets it, its default, and the group it belongs to.
func TestFlagsExplainThemselves(t *testing.T) {
	flags := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	AddFlags(flags)
	for _, s := range settings() {
		f := flags.Lookup(s.flag)
		require.Contains(t, f.Usage, "["+s.env+"]")
		require.NotEmpty(t, f.Annotations[GroupAnnotation], s.flag)
		for _, value := range f.Annotations[ValuesAnnotation] {
			_, err := readWith(t, "", nil, "--network", "local=http://l", "--store", "postgres://db/quorate", "--"+s.flag, value)
			require.NoError(t, err, "--%s %s", s.flag, value)
		}
	}
	for name, want := range map[string]string{
		"listen": "127.0.0.1:8080", "data-dir": "~/.quorate", "limits-body": "256 KiB", "request-timeout": "15s", "role": "all", "store": "", "store-read": "",
	} {
		require.Equal(t, want, flags.Lookup(name).DefValue, name)
	}
	c, err := readWith(t, "", nil, "--network", "local=http://l")
	require.NoError(t, err)
	require.Equal(t, Default().Listen, c.Listen, "defaults that are shown are not set")
}

func TestMistakesAreNamed(t *testing.T) {
	for name, test := range map[string]struct {
		file    string
		environ []string
		args    []string
		want    string
	}{
		"unknown key":              {file: "lisen: x\n", want: "lisen: unknown key; did you mean listen?"},
		"unknown key of a network": {file: "networks:\n  fuji:\n    node: x\n", want: "networks.fuji.node: unknown key; did you mean nodes?"},
		"not YAML":                 {file: "\t{", want: "configuration"},
		"wrong type":               {file: "listen: [1]\n", want: "listen: it is not a single value"},
		"unknown variable":         {environ: []string{"QUORATE_LISTN=x"}, want: "did you mean QUORATE_LISTEN?"},
		"bad address":              {args: []string{"--listen", "8080"}, want: "listen"},
		"port out of range":        {args: []string{"--listen", "127.0.0.1:99999"}, want: `listen: "127.0.0.1:99999" has no port`},
		"unknown port":             {file: "private_listen: 127.0.0.1:abc\n", want: `private_listen: "127.0.0.1:abc" has no port`},
		"bad variable":             {environ: []string{"QUORATE_ALLOW_PRIVATE_IPS=perhaps"}, want: "QUORATE_ALLOW_PRIVATE_IPS"},
		"bad mode":                 {args: []string{"--client-compat", "maybe"}, want: "client_compat"},
		"bad duration":             {args: []string{"--request-timeout", "soon"}, want: "--request-timeout"},
		"short timeout":            {args: []string{"--request-timeout", "1ms"}, want: "request_timeout"},
		"bad level":                {args: []string{"--log-level", "loud"}, want: "log_level"},
		"bad format of logs":       {args: []string{"--log-format", "xml"}, want: "log_format: \"xml\" is none of auto, text, json"},
		"network with no URL":      {args: []string{"--network", "fuji="}, want: "name[=url,url]"},
		"network given twice":      {args: []string{"--network", "fuji=http://a", "--network", "fuji=http://b"}, want: "network fuji is given twice; list its nodes as fuji=url,url"},
		"URL without a name":       {args: []string{"--network", "http://127.0.0.1:9650"}, want: "name[=url,url]"},
		"p2p without genesis":      {args: []string{"--network", "mine"}, want: "networks.mine.genesis_file"},
		"checkpoint without p2p":   {file: "networks:\n  fuji: {nodes: [http://127.0.0.1:9650], checkpoint: c}\n", want: "networks.fuji.checkpoint: only with p2p"},
		"checkpoint without hash":  {file: "networks:\n  fuji: {nodes: [p2p], checkpoint: c}\n", want: "networks.fuji.checkpoint_hash: it is missing"},
		"hash without checkpoint":  {file: "networks:\n  fuji: {nodes: [p2p], checkpoint_hash: ab}\n", want: "networks.fuji.checkpoint: it is missing"},
		"checkpoint with ledger":   {file: "networks:\n  fuji: {nodes: [p2p], record: primary, checkpoint: c, checkpoint_hash: ab}\n", want: "leave the checkpoint out and, if the service ran with it, remove DATA_DIR/fuji/pchain, or record l1"},
		"bad checkpoint hash":      {file: "networks:\n  fuji: {nodes: [p2p], checkpoint: c, checkpoint_hash: ab}\n", want: "networks.fuji.checkpoint_hash: \"ab\" is not the hex of 32 bytes"},
		"indexes without EVM":      {file: "networks:\n  fuji: {nodes: [http://x], record: primary, evm_indexes: [token_balances]}\n", want: "networks.fuji.evm_indexes: only with record: all"},
		"senders without EVM":      {file: "networks:\n  fuji: {nodes: [http://x], verify_evm_senders: true}\n", want: "networks.fuji.verify_evm_senders: only with record: all"},
		"times without X-Chain":    {file: "networks:\n  fuji: {nodes: [http://x], record: l1, x_chain_times: t}\n", want: "networks.fuji.x_chain_times: only with record: primary or all"},
		"upgrades without p2p":     {file: "networks:\n  fuji: {nodes: [http://x], upgrade_file: u}\n", want: "networks.fuji.upgrade_file: only with p2p"},
		"p2p without peers":        {file: "networks:\n  mine: {nodes: [p2p], genesis_file: g.json}\n", want: "networks.mine.manual_peers"},
		"p2p with EVM chains":      {args: []string{"--network", "fuji", "--record", "all"}, want: "networks.fuji.record: all needs a node"},
		"network with a bad URL":   {args: []string{"--network", "fuji=127.0.0.1:9650"}, want: "networks.fuji.nodes"},
		"network without nodes":    {file: "networks:\n  fuji: {}\n", want: "networks.fuji.nodes"},
		"network with a bad name":  {args: []string{"--network", "a/b=http://x"}, want: "a/b"},
		"network in the store":     {args: []string{"--network", "store=http://x"}, want: "networks: \"store\""},
		"more memory than numbers": {args: []string{"--memory-limit", "9EiB"}, want: "memory_limit"},
		"token without a symbol":   {file: "networks:\n  fuji:\n    nodes: [http://x]\n    evm: [{rpc: 'http://x/ext/bc/y/rpc', native_token: {name: X}}]\n", want: "networks.fuji.evm.native_token"},
		"unknown key of a token":   {file: "networks:\n  fuji:\n    evm: [{native_token: {decimal: 1}}]\n", want: "networks.fuji.evm[0].native_token.decimal: unknown key; did you mean decimals?"},
		"unknown network at /ext":  {file: "node_api: {network: fui}\nnetworks:\n  fuji:\n    nodes: [http://x]\n", want: "did you mean fuji?"},
		"unknown key of the API":   {file: "node_api: {netwrk: fuji}\n", want: "node_api.netwrk: unknown key; did you mean network?"},
		"text for a duration":      {file: "request_timeout: soon\n", want: `request_timeout: "soon" is not a duration such as 15s`},
		"text for a size":          {file: "limits:\n  body: -1\n", want: `limits.body: "-1" is no size such as 512MiB`},
		"text for a number":        {file: "networks:\n  fuji:\n    nodes: [http://x]\n    requests_per_second: many\n", want: `networks.fuji.requests_per_second: "many" is not a whole number in range`},
		"text for a truth value":   {file: "webhooks: {enabled: 7}\n", want: `webhooks.enabled: "7" is not a truth value`},
		"value for a list":         {file: "cors_origins: x\n", want: "cors_origins: it is not a list"},
		"list for keys":            {file: "networks: [a]\n", want: "networks: it has no names and values"},
		"value for keys":           {file: "tls: x\n", want: "tls: it has no keys and values"},
		"key of a merged mapping":  {file: "networks:\n  fuji: &f {nodes: [http://x], recrd: all}\n  other: {<<: *f, nodes: [http://y]}\n", want: "networks.other.recrd: unknown key; did you mean record?"},
		"twice the same key":       {file: "listen: :1\nlisten: :2\n", want: "listen: line 2 gives it again; remove one of both"},
		"gateway without scheme":   {file: "metadata: {ipfs_gateways: [ipfs.example/SECRET]}\n", want: "metadata.ipfs_gateways: IPFS gateway 1 is no URL"},
		"origin with a fragment":   {file: "cors_origins: ['https://example.org#x']\n", want: "cors_origins: \"https://example.org#"},
		"origin in capitals":       {file: "cors_origins: ['https://Example.org']\n", want: "browsers send \"https://example.org\""},
		"origin with its port":     {file: "cors_origins: ['https://example.org:443']\n", want: "browsers send \"https://example.org\""},
		"mapped addresses":         {file: "trusted_proxies: ['::ffff:10.0.0.0/104']\n", want: "trusted_proxies: \"::ffff:10.0.0.0/104\" never matches"},
		"twice the same address":   {file: "listen: 127.0.0.1:1\nprivate_listen: 127.0.0.1:1\n", want: "private_listen: it is the address of listen"},
		"no data folder":           {file: "data_dir: ''\n", want: "data_dir"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := readWith(t, test.file, test.environ, test.args...)
			require.ErrorContains(t, err, test.want)
		})
	}
}

func TestExampleConfigurationIsValid(t *testing.T) {
	content, err := os.ReadFile("../../config.example.yaml")
	require.NoError(t, err)
	c, err := readWith(t, string(content), nil)
	require.NoError(t, err)
	d := Default()
	d.Networks = c.Networks
	require.Equal(t, d, c, "the example shows the defaults")
}

func TestExampleHasEveryKey(t *testing.T) {
	var lines []string // every key is explained
	for key := range flatten(Default()) {
		if !strings.Contains(string(Example), key[strings.LastIndex(key, ".")+1:]+":") {
			lines = append(lines, key)
		}
	}
	require.Empty(t, lines)
}
