package primary

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ava-labs/avalanchego/utils/constants"
	"github.com/ava-labs/avalanchego/vms/platformvm/validators/fee"

	"quorate/chain/cchain"
	"quorate/chain/genesis"
	"quorate/chain/pchain"
	"quorate/chain/xchain"
	"quorate/index"
	"quorate/index/ledger"
	"quorate/index/ledger/subnets"
	"quorate/index/vertices"
	"quorate/store"
)

// Node is what is asked of upstream nodes; *node.Client has it.
type Node interface {
	index.PChainNode
	index.XChainNode
	index.CChainNode
	pchain.Node
}

// Options of a Network. NetworkID, Node and Store are required.
type Options struct {
	NetworkID uint32
	Node      Node
	Store     store.Store
	// Genesis is what the network began with. Nil leaves the ledger out: then only
	// the P-Chain is recorded, for Tenants.
	Genesis *genesis.Genesis
	// ValidatorFees is how L1 validators pay; nil means as on the public network of
	// that ID.
	ValidatorFees *fee.Config
	// Tenants of the P-Chain besides the ledger.
	Tenants []index.Tenant[*pchain.Block]
	// Start is the height from which the P-Chain is recorded without a ledger, which
	// needs all of it.
	Start uint64
	// Recorded is called after each commit of P-Chain blocks; it does not block.
	Recorded func()
	// Metrics may be nil.
	Metrics prometheus.Registerer
	// Log may be nil.
	Log *slog.Logger
}

// pipeline is a chain's, whatever its blocks are.
type pipeline interface {
	Run(ctx context.Context) error
	Status() index.Status
}

// Network records the chains of the primary network of one network: for each a
// pipeline, and what follows from two of them.
type Network struct {
	chains []string
	lines  map[string]pipeline
	// matcher, Ledger, Subnets and Vertices are nil without a ledger.
	matcher  *ledger.Matcher
	Subnets  *subnets.Record
	Ledger   *ledger.Record
	Vertices *vertices.Record
	past     *index.XChainPast
	log      *slog.Logger
}

// New puts the pipelines of a network together. It fetches nothing yet.
func New(o Options) (*Network, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	n := &Network{lines: make(map[string]pipeline), log: o.Log}
	tenants := o.Tenants
	committed := func(uint64) {
		if o.Recorded != nil {
			o.Recorded()
		}
	}
	start := o.Start
	if o.Genesis != nil {
		start = 0
		n.matcher = ledger.NewMatcher(o.Store, o.NetworkID, o.Log)
		n.Ledger = ledger.New(o.Store, o.NetworkID)
		n.Subnets = subnets.New(o.Store, o.NetworkID)
		n.Vertices = vertices.New(o.Store, o.NetworkID)
		recorded := committed
		committed = func(next uint64) {
			n.matcher.Wake()
			recorded(next)
		}
		decoder, err := pchain.NewDecoder(pchain.DecoderOptions{
			NetworkID: o.NetworkID, Genesis: o.Genesis.P, AVAXAssetID: o.Genesis.AVAXAssetID, Node: o.Node, ValidatorFees: o.ValidatorFees,
		})
		if err != nil {
			return nil, err
		}
		tenants = append(tenants[:len(tenants):len(tenants)], PChain(o.NetworkID, decoder, o.Log, ledger.NewTenant(o.NetworkID, constants.PlatformChainID), subnets.NewTenant(o.NetworkID)))
	}
	err := add(n, o, index.PChain, index.NewPChainSource(o.Node, o.Log), start, committed, tenants...)
	if err != nil || o.Genesis == nil {
		return n, err
	}
	woken := func(uint64) { n.matcher.Wake() }
	x, err := xchain.NewDecoder(o.Genesis.XChainID, o.Genesis.X)
	if err != nil {
		return nil, err
	}
	n.past = index.NewXChainPast(o.Node, x, o.Store, o.NetworkID)
	if err := add(n, o, index.XChain, index.NewXChainSource(o.Node, x, n.past, o.Log), 0, woken, XChain(x, ledger.NewTenant(o.NetworkID, o.Genesis.XChainID))); err != nil {
		return nil, err
	}
	c, err := cchain.NewDecoder(o.NetworkID, o.Genesis.CChainID)
	if err != nil {
		return nil, err
	}
	return n, add(n, o, index.CChain, index.NewCChainSource(o.Node, o.Log), 0, woken, CChain(c, ledger.NewTenant(o.NetworkID, o.Genesis.CChainID)))
}

func add[B any](n *Network, o Options, chain string, source index.Source[B], start uint64, committed func(uint64), tenants ...index.Tenant[B]) error {
	p, err := index.New(index.Options[B]{
		NetworkID: o.NetworkID, Chain: chain, Source: source, Store: o.Store, Tenants: tenants, Start: start, Committed: committed, Log: o.Log,
	})
	if err != nil {
		return fmt.Errorf("recording the %s-Chain: %w", chain, err)
	}
	n.chains = append(n.chains, chain)
	n.lines[chain] = p
	if o.Metrics == nil {
		return nil
	}
	return o.Metrics.Register(index.NewCollector(chain, p.Status))
}

// Run records until ctx ends. A chain that fails is logged and shown in Status; the
// others go on.
func (n *Network) Run(ctx context.Context) {
	var running sync.WaitGroup
	for _, chain := range n.chains {
		running.Go(func() {
			if err := n.lines[chain].Run(ctx); err != nil {
				n.log.Error("a chain is not recorded any more", slog.String("chain", chain), slog.Any("error", err))
			}
		})
	}
	if n.matcher != nil {
		running.Go(func() {
			if err := n.matcher.Run(ctx); err != nil && !errors.Is(err, context.Canceled) {
				n.log.Error("exports and imports are not matched any more", slog.Any("error", err))
			}
		})
	}
	if n.Vertices != nil {
		running.Go(func() {
			if err := n.Vertices.Run(ctx, n.past, n.log); err != nil {
				n.log.Error("vertices are not recorded any more", slog.Any("error", err))
			}
		})
	}
	running.Wait()
}

// Status tells how far the chains are recorded, by name.
func (n *Network) Status() map[string]index.Status {
	all := make(map[string]index.Status, len(n.lines))
	for chain, p := range n.lines {
		all[chain] = p.Status()
	}
	return all
}
