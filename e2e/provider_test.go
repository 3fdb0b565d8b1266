package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/api/info"
	platformapi "github.com/ava-labs/avalanchego/vms/platformvm/api"

	"quorate/e2e/localnet"
	"quorate/e2e/proxy"
)

// aheadSigned awaits that a number of messages have been signed ahead in all.
func (s *service) aheadSigned(n float64) {
	s.t.Helper()
	require.Eventually(s.t, func() bool { return s.metric("quorate_ahead_jobs_total", `outcome="signed"`) >= n }, time.Minute, 50*time.Millisecond,
		"%v of %v messages are signed ahead", s.metric("quorate_ahead_jobs_total", `outcome="signed"`), n)
}

// output is all that the service printed.
func (s *service) output() string {
	s.t.Helper()
	content, err := os.ReadFile(filepath.Join(s.dataDir, "output.log"))
	require.NoError(s.t, err)
	return string(content)
}

// A relayer's service with nothing but a public provider: no index, admin and debug APIs, no
// platform.getAllValidatorsAt, no WebSockets, logs of 10 blocks, 20 calls a second.
func TestProvider(t *testing.T) {
	t.Parallel()
	ctx, cancel := testContext(t, 5*time.Minute)
	defer cancel()
	start := time.Now()
	program := buildService(t)
	network := localnet.Start(t)
	node := network.Node(0).URL
	c, p := newCChain(t, ctx, node), newPChain(t, ctx, node)
	for i := range 12 { // more than logs may be asked for at once
		c.await(ctx, c.sendByAccount(ctx, fmt.Append(nil, "before ", i)))
	}
	provider := proxy.Start(t, node, proxy.Public()...)
	s := startService(t, program, provider.URL, "--record", "l1")
	t.Logf("ready after %s", time.Since(start))

	proposed := platformapi.Height(platformapi.ProposedHeight)
	s.aheadSigned(12)
	for i := range 3 {
		m, _ := c.message(ctx, c.sendByContract(ctx, fmt.Append(nil, "message ", i)))
		requireVerified(t, ctx, node, s.sign(ctx, m, 67), proposed, 67)
	}
	s.aheadSigned(15)
	cChainID, err := info.NewClient(node).GetBlockchainID(ctx, "C")
	require.NoError(t, err)
	story := &l1Story{t: t, node: node, service: s, c: c, p: p}
	l := p.convert(2, cChainID, c.account.Bytes())
	s.aheadSigned(16)
	story.requireMessage(ctx, l.conversionTx, story.converted(l))
	t.Logf("signed after %s", time.Since(start))

	// Its requests when nothing happens, once its chains are quiet.
	const span = 6 * time.Second
	var idle float64
	for windows := 0; ; windows++ {
		total := provider.Total()
		select {
		case <-time.After(span):
		case <-ctx.Done():
		}
		if idle = float64(provider.Total()-total) / span.Seconds(); idle <= 2 || windows == 6 {
			break
		}
	}
	t.Logf("idle: %.1f calls a second", idle)
	require.LessOrEqual(t, idle, 2.0)

	// Each method that the provider refuses has a line, and the provider never fails.
	output := s.output()
	require.NotContains(t, output, "upstream node fails")
	require.Equal(t, 1, strings.Count(output, `"method":"platform.getAllValidatorsAt"`), output)
	require.Equal(t, 1, strings.Count(output, `"method":"info.getNodeID"`), output)
	status, _ := s.askPrivate(t, "/readyz")
	require.Equal(t, http.StatusOK, status)
	t.Logf("all after %s", time.Since(start))
}
