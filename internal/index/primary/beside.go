package primary

import (
	"context"
	"fmt"
	"slices"

	"quorate/internal/index"
)

var _ index.Part = (*Network)(nil)

// Cursors implements index.Part.
func (n *Network) Cursors() []string { return n.cursors }

// Stopped implements index.Part.
func (n *Network) Stopped() error {
	for _, chain := range n.chains {
		if status := n.ChainStatus(chain); status.State == index.Stopped {
			return fmt.Errorf("chain %s of network %d has stopped: %w", chain, n.networkID, status.Err)
		}
	}
	return nil
}

// Lacks implements index.Part. Cursors that are as far have the same blocks behind them, but the Matcher may have most
// transfers between chains left, and balances wait for it.
func (n *Network) Lacks(ctx context.Context) (string, error) {
	if n.matcher == nil {
		return "", nil
	}
	behind, err := n.matcher.Behind(ctx)
	if err != nil || !behind {
		return "", err
	}
	return "transfers between chains are still matched; the rebuilt index serves after that", nil
}

// cursorsOf returns the cursors that must catch up before a rebuilt index replaces the active one.
func (n *Network) cursorsOf(chain string, projections []string) []string {
	names := make([]string, 0, len(projections))
	for _, projection := range projections {
		names = append(names, index.Cursor(n.networkID, chain, projection))
	}
	return slices.Clip(names)
}

func vertexCursor(networkID uint32) string { return fmt.Sprintf("vertices/%d", networkID) }
