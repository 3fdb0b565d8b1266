package history

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestX(t *testing.T) {
	g, err := New(Options{Seed: 1, Txs: 100000})
	require.NoError(t, err)
	s, err := NewSealer(g)
	require.NoError(t, err)
	a := time.Now()
	n := [3]int{}
	size := 0
	var gen, seal time.Duration
	for g.Txs() < 100000 {
		x := time.Now()
		b, err := g.Next()
		require.NoError(t, err)
		y := time.Now()
		require.NoError(t, s.Seal(b))
		gen += y.Sub(x)
		seal += time.Since(y)
		n[b.Chain]++
		size += len(b.Container)
	}
	fmt.Println(time.Since(a), gen, seal, n, size, g.Txs(), g.tips, g.purse.sums, len(g.stakes.all), len(g.l1s.validators), g.l1s.state, len(g.assets))
}
