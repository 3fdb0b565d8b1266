package simnet

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/constants"

	"quorate/internal/simnet/evmchain"
)

// EVM is an EVM chain of a network, under the node API's /ext/bc/<ID>/rpc and /ws.
type EVM struct {
	// Options describe the transactions before the network starts. The first chain may be
	// an L1; then the C-Chain is that of History, if any. NetworkID and BlockchainID are
	// always those of the network; a Seed of 0 means the network's. Without Start, the
	// history of a chain with Pace ends now.
	evmchain.Options
	// Dir is the folder for blocks until Close, about 3 kB a transaction; empty means the
	// default folder for temporary files.
	Dir string
	// Pace is the time between two new blocks; 0 means no new blocks.
	Pace time.Duration
}

// EVM returns the network's EVM chains in the order of Options.EVM.
func (n *Network) EVM() []*evmchain.Node { return n.evm }

// firstL1ChainID is the EVM chain ID of the first L1.
const firstL1ChainID = 99_001

// addEVM creates the next EVM chain.
func (n *Network) addEVM(ctx context.Context, c EVM) error {
	i := len(n.evm)
	o := c.Options
	isC := i == 0 && !o.L1
	o.NetworkID, o.BlockchainID, o.L1 = n.options.NetworkID, n.chain, !isC
	if o.Seed == 0 {
		o.Seed = n.options.Seed
	}
	if !isC {
		first := i == 0 || i == 1 && n.cChain != nil
		if first && n.l1Main != ids.Empty {
			o.BlockchainID = n.l1Main
		} else {
			o.BlockchainID = draw(n.options.Seed, "EVM", uint64(i))
			n.chains[o.BlockchainID] = n.l1
			if n.l1 == ids.Empty {
				n.chains[o.BlockchainID] = constants.PrimaryNetworkID
			}
		}
		if o.ChainID == 0 {
			o.ChainID = firstL1ChainID + uint64(i)
			if n.cChain != nil {
				o.ChainID--
			}
		}
	}
	if o.Start.IsZero() && c.Pace > 0 {
		if o.Span == 0 {
			o.Span = shortestPast
		}
		o.Start = time.Now().Add(-o.Span)
	}
	if o.Txs == 0 {
		o.Txs = 2000
	}
	g, err := evmchain.New(o)
	if err != nil {
		return err
	}
	node, err := evmchain.NewNode(g, c.Dir)
	if err != nil {
		return err
	}
	n.evm = append(n.evm, node)
	if isC {
		n.cChain = node
	}
	if err := node.Grow(ctx, o.Txs); err != nil {
		return fmt.Errorf("making EVM chain %d: %w", o.ChainID, err)
	}
	node.OnGrown(func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.madeBlock(o.BlockchainID, time.Now())
	})
	if c.Pace > 0 {
		n.running.Go(func() {
			if err := node.Follow(ctx, c.Pace); err != nil {
				n.log.Error("there are no more blocks", slog.Uint64("chain", o.ChainID), slog.Any("error", err))
			}
		})
	}
	return nil
}

// evmAt returns the EVM chain of a path of the node API, or nil.
func (n *Network) evmAt(path string) *evmchain.Node {
	name, ok := strings.CutPrefix(path, "/ext/bc/")
	if !ok || len(n.evm) == 0 {
		return nil
	}
	name, what, _ := strings.Cut(name, "/")
	if what != "rpc" && what != "ws" {
		return nil
	}
	if name == "C" {
		return n.cChain
	}
	id, err := ids.FromString(name)
	if err != nil {
		return nil
	}
	for _, node := range n.evm {
		if node.Generator().BlockchainID() == id {
			return node
		}
	}
	return nil
}
