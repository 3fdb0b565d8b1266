package primary

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"quorate/internal/index"
	"quorate/internal/store"
)

// attemptEvery is the interval at which a rebuild checks whether it has caught up.
const attemptEvery = 200 * time.Millisecond

// Rebuilder returns the rebuilder of networks' indexes beside the active index. Open returns the networks, created with
// Options.Beside for the given store. It blocks until all networks are known.
func Rebuilder(open func(ctx context.Context, beside store.Store) ([]*Network, error), log *slog.Logger) index.Rebuilder {
	return index.Rebuilder{Log: log, Build: func(ctx context.Context, beside store.Store, attempt index.Attempt) error {
		networks, err := open(ctx, beside)
		if err != nil {
			return err
		}
		var names []string
		for _, n := range networks {
			names = append(names, n.cursors...)
		}
		group, ctx := errgroup.WithContext(ctx)
		ctx, end := context.WithCancel(ctx)
		defer end()
		switched := false
		for _, n := range networks {
			group.Go(func() error { return n.Run(ctx) })
		}
		group.Go(func() error {
			defer end()
			ticker := time.NewTicker(attemptEvery)
			defer ticker.Stop()
			for {
				select {
				case <-ctx.Done():
					return nil
				case <-ticker.C:
				}
				var err error
				if switched, err = attempt(ctx, names); err == nil && !switched {
					err = stopped(networks)
				}
				if switched || err != nil && ctx.Err() == nil {
					return err
				}
			}
		})
		err = group.Wait()
		if switched {
			return nil // whoever serves has taken over, and fences what is still on its way
		}
		return err
	}}
}

// stopped returns why a chain is not rebuilt any further, nil if none has stopped. The
// slots are then never switched.
func stopped(networks []*Network) error {
	for _, n := range networks {
		for _, chain := range n.chains {
			if status := n.ChainStatus(chain); status.State == index.Stopped {
				return fmt.Errorf("chain %s of network %d has stopped: %w", chain, n.networkID, status.Err)
			}
		}
	}
	return nil
}

// Rebuilt returns the progress of the rebuilt index relative to the active index in percent.
func Rebuilt(ctx context.Context, s *index.Slots) (int, error) {
	active, beside, err := s.Heights(ctx, func(name string) bool {
		return strings.HasPrefix(name, "index/") && !strings.Contains(name, "/passages")
	})
	if err != nil || active == 0 {
		return 0, err
	}
	return int(100 * min(beside, active) / active), nil
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
