package primary

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/constants"
	"github.com/ava-labs/avalanchego/vms/platformvm/validators/fee"

	"quorate/internal/chain/cchain"
	"quorate/internal/chain/genesis"
	"quorate/internal/chain/pchain"
	"quorate/internal/chain/xchain"
	"quorate/internal/index"
	"quorate/internal/index/container"
	"quorate/internal/index/l1record"
	"quorate/internal/index/ledger"
	"quorate/internal/index/ledger/subnets"
	"quorate/internal/index/lookup"
	"quorate/internal/index/vertices"
	"quorate/internal/store"
)

// Node is what is asked of upstream nodes; *node.Client has it.
type Node interface {
	index.PChainNode
	index.XChainNode
	index.CChainNode
	pchain.Node
	UTXOs(ctx context.Context, chain, source, hrp string, owner ids.ShortID) ([][]byte, error)
}

// Options of a Network. NetworkID, Node and Store are required.
type Options struct {
	NetworkID uint32
	Node      Node
	Store     store.Store
	// Peers are asked for the X-Chain's pre-Cortina vertices. It may be nil for networks
	// that have none, and for a Network that does not Run.
	Peers vertices.Peers
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
	// Keep says which containers are kept; empty means KeepNeeded.
	Keep Keep
	// Beside says that Store is where an index is rebuilt beside the one that serves,
	// whose Network keeps containers meanwhile: this one reads those and writes none.
	Beside bool
	// WindowBytes bounds the memory of blocks on their way into the store, for each
	// chain; 0 means the default of index.Options.
	WindowBytes int64
	// Recorded is called after each commit of P-Chain blocks; it does not block.
	Recorded func()
	// Now tells when a container came to be kept; nil means time.Now.
	Now func() time.Time
	// Metrics may be nil.
	Metrics prometheus.Registerer
	// Log may be nil.
	Log *slog.Logger
}

// Keep says what is kept of what records are made from.
type Keep string

// What can be kept.
const (
	// KeepNone keeps nothing: a record that has to be made again is fetched again.
	KeepNone Keep = "none"
	// KeepNeeded keeps what it takes to make all records again without a node: of
	// C-Chain blocks only what concerns other chains.
	KeepNeeded Keep = "needed"
	// KeepAll keeps all that consensus accepted, as far as a node with an index gives
	// it: whole C-Chain blocks, too.
	KeepAll Keep = "all"
)

// Forms are those of the records that a Network keeps, for index.Upgrade.
func Forms() []index.Form {
	platform := ledger.Form()
	// What blocks of the P-Chain mean is read for the ledger and for subnets together.
	platform.Families = append(platform.Families, subnets.Families()...)
	platform.Families = append(platform.Families, store.FamilyPState)
	return []index.Form{l1record.Form(), platform, vertices.Form(), lookup.Form()}
}

// pipeline is a chain's, whatever its blocks are.
type pipeline interface {
	Run(ctx context.Context) error
	Status() index.Status
	StatusOf(tenant string) index.Status
	watch(ctx context.Context) error
	recordedBy(other pipeline)
	tip(ctx context.Context) (uint64, error)
	verify(v *verifier) error
}

// Network records the chains of the primary network of one network: for each a
// pipeline, and what follows from two of them.
type Network struct {
	chains []string
	lines  map[string]pipeline
	// ledgers are the names of the tenants that have the ledger, by chain.
	ledgers map[string]string
	// matcher, Ledger, Subnets and Vertices are nil without a ledger.
	matcher  *ledger.Matcher
	Subnets  *subnets.Record
	Ledger   *ledger.Record
	Vertices *vertices.Record
	origin   *index.XChainOrigin
	xChain   *index.XChainSource
	kept     bool
	cursors  []string // of all tenants, and of the vertices

	networkID uint32
	genesis   *genesis.Genesis // nil without a ledger
	node      Node
	log       *slog.Logger
}

// New puts the pipelines of a network together. It fetches nothing yet.
func New(o Options) (*Network, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	o.Keep = cmp.Or(o.Keep, KeepNeeded)
	n := &Network{lines: make(map[string]pipeline), ledgers: make(map[string]string), networkID: o.NetworkID, genesis: o.Genesis, node: o.Node, log: o.Log}
	tenants := o.Tenants
	committed := func(uint64) {
		if o.Recorded != nil {
			o.Recorded()
		}
	}
	start := o.Start
	var asked *rewards
	if o.Genesis != nil {
		start = 0
		n.matcher = ledger.NewMatcher(o.Store, o.NetworkID, o.Log)
		n.Ledger = ledger.New(o.Store, o.NetworkID)
		n.Subnets = subnets.New(o.Store, o.NetworkID)
		n.cursors = append(n.cursors, vertexCursor(o.NetworkID))
		recorded := committed
		committed = func(next uint64) {
			n.matcher.Wake()
			recorded(next)
		}
		asked = &rewards{node: o.Node, reader: o.Store, networkID: o.NetworkID, keep: o.Keep != KeepNone, log: o.Log}
		decoder, err := pchain.NewDecoder(pchain.DecoderOptions{
			NetworkID: o.NetworkID, Genesis: o.Genesis.P, AVAXAssetID: o.Genesis.AVAXAssetID, Node: asked, ValidatorFees: o.ValidatorFees,
			Validators: o.Genesis.Validators, Supply: o.Genesis.Supply, Disagree: asked.differ,
		})
		if err == nil && o.Metrics != nil {
			err = asked.register(o.Metrics)
		}
		if err != nil {
			return nil, err
		}
		n.kept = o.Keep != KeepNone
		recorder := pChain(o.NetworkID, decoder, asked, ledger.NewTenant(o.NetworkID, constants.PlatformChainID), subnets.NewTenant(o.NetworkID))
		n.ledgers[index.PChain] = recorder.Name()
		tenants = append(tenants[:len(tenants):len(tenants)], recorder)
		if n.kept {
			tenants = append(tenants, lookup.PChain(o.NetworkID))
		}
	}
	p := index.NewPChainSource(o.Node, o.Log)
	var source index.Keeper[*pchain.Block] = p
	if asked != nil {
		source = rewardSource{p, asked}
	}
	err := add(n, o, chainOf[*pchain.Block]{name: index.PChain, source: source, verified: p, height: p.Tip, start: start, committed: committed}, tenants...)
	if err != nil || o.Genesis == nil {
		return n, err
	}
	woken := func(uint64) { n.matcher.Wake() }
	x, err := xchain.NewDecoder(o.Genesis.XChainID, o.Genesis.X)
	if err != nil {
		return nil, err
	}
	n.origin = index.NewXChainOrigin(o.Node, x, o.Store, o.NetworkID)
	n.Vertices = vertices.New(vertices.Options{
		Store: o.Store, NetworkID: o.NetworkID, ChainID: o.Genesis.XChainID, Begin: n.origin.Begin, Dependencies: x.Dependencies,
		Peers: o.Peers, Now: o.Now, Log: o.Log,
	})
	n.xChain = index.NewXChainSource(o.Node, x, n.origin, n.Vertices, o.Log)
	verified := index.NewXChainSource(o.Node, x, n.origin.Reading(), n.Vertices, o.Log)
	xLedger := XChain(x, ledger.NewTenant(o.NetworkID, o.Genesis.XChainID))
	n.ledgers[index.XChain] = xLedger.Name()
	xTenants := []index.Tenant[*xchain.Block]{xLedger}
	if n.kept {
		xTenants = append(xTenants, lookup.XChain(o.NetworkID))
	}
	if err := add(n, o, chainOf[*xchain.Block]{
		name: index.XChain, source: xSource{n.xChain, n.Vertices}, verified: verified,
		height:    verified.Height, // its tip counts what was before there were blocks, too
		committed: woken,
	}, xTenants...); err != nil {
		return nil, err
	}
	c, err := cchain.NewDecoder(o.NetworkID, o.Genesis.CChainID)
	if err != nil {
		return nil, err
	}
	onC := index.NewCChainSource(o.Node, o.Keep == KeepAll, o.Log)
	cLedger := CChain(c, ledger.NewTenant(o.NetworkID, o.Genesis.CChainID))
	n.ledgers[index.CChain] = cLedger.Name()
	return n, add(n, o, chainOf[*cchain.Block]{name: index.CChain, source: onC, verified: onC, height: onC.Tip, committed: woken}, cLedger)
}

// xSource is the X-Chain's, with what is wrong with its vertices.
type xSource struct {
	*index.XChainSource
	vertices *vertices.Record
}

// Note implements index.Noter.
func (s xSource) Note() string { return s.vertices.Trouble() }

// chainOf is what is particular about recording a chain.
type chainOf[B any] struct {
	name string
	// source is where blocks are recorded from; verified has the same and writes nothing.
	source, verified index.Keeper[B]
	// height is that of the node's last block.
	height    func(ctx context.Context) (uint64, error)
	start     uint64
	committed func(uint64)
}

func add[B any](n *Network, o Options, of chainOf[B], tenants ...index.Tenant[B]) error {
	chain := of.name
	p, err := index.New(index.Options[B]{
		NetworkID: o.NetworkID, Chain: chain, Source: of.source, Store: o.Store, Tenants: tenants, Start: of.start, Keep: o.Keep != KeepNone && !o.Beside, WindowBytes: o.WindowBytes, Committed: of.committed, Now: o.Now, Log: o.Log,
	})
	if err != nil {
		return fmt.Errorf("recording the %s-Chain: %w", chain, err)
	}
	n.chains = append(n.chains, chain)
	l := &line[B]{Pipeline: p, chain: container.Chain{NetworkID: o.NetworkID, Name: chain}, store: o.Store, source: of.verified, height: of.height}
	for _, t := range tenants {
		l.tenants = append(l.tenants, t.Name())
		if found, ok := t.(*lookup.Tenant[B]); ok {
			l.lookup = found
		}
	}
	if chain == index.PChain && o.Genesis != nil {
		l.genesisID = o.Genesis.P.ID
	}
	n.lines[chain] = l
	n.cursors = append(n.cursors, n.cursorsOf(chain, l.tenants)...)
	if o.Metrics == nil {
		return nil
	}
	return o.Metrics.Register(index.NewCollector(chain, func() index.Status { return n.ChainStatus(chain) }))
}

// Run records until ctx ends, and then returns nil. A chain that fails is logged and
// shown in Status; the others go on. The error is store.ErrFenced once another process
// records in the same store, or store.ErrUnavailable once that did not answer in the
// middle of a block; then nothing is recorded any more, and another Network can go on.
func (n *Network) Run(ctx context.Context) error {
	work, ctx := errgroup.WithContext(ctx)
	begin := func(run func(ctx context.Context) error, lost string, attributes ...any) {
		work.Go(func() error {
			err := run(ctx)
			switch {
			case err == nil, errors.Is(err, context.Canceled):
				return nil
			case errors.Is(err, store.ErrFenced), errors.Is(err, store.ErrUnavailable):
				return err
			}
			n.log.Error(lost, append(attributes, slog.Any("error", err))...)
			return nil
		})
	}
	for _, chain := range n.chains {
		begin(n.lines[chain].Run, "a chain is not recorded any more", slog.String("chain", chain))
	}
	if n.matcher != nil {
		begin(n.matcher.Run, "exports and imports are not matched any more")
	}
	if n.Vertices != nil {
		begin(n.Vertices.Run, "pre-Cortina vertices are not indexed any more")
	}
	return work.Wait()
}

// Watch has Status tell how far another process records the network in the same store,
// until ctx ends. It writes nothing.
func (n *Network) Watch(ctx context.Context) error {
	work, ctx := errgroup.WithContext(ctx)
	for _, chain := range n.chains {
		work.Go(func() error { return n.lines[chain].watch(ctx) })
	}
	return work.Wait()
}

// RecordedBy has Status tell what another Network on the same store, which runs in this
// process, says of itself; nil ends that.
func (n *Network) RecordedBy(other *Network) {
	for chain, line := range n.lines {
		if other == nil {
			line.recordedBy(nil)
		} else {
			line.recordedBy(other.lines[chain])
		}
	}
}

// Kept says whether the containers of blocks are kept, and found by what is in them:
// see package lookup.
func (n *Network) Kept() bool { return n.kept }

// ChainStatus tells how far one chain is recorded.
func (n *Network) ChainStatus(chain string) index.Status {
	if p, ok := n.lines[chain]; ok {
		return p.Status()
	}
	return index.Status{State: index.Idle}
}

// XChainBefore is what comes before the X-Chain's block at height 0 in the order of all
// that is recorded of it: 0 if the chain always had blocks. The error is
// index.ErrVerticesMissing until its vertices are complete.
func (n *Network) XChainBefore(ctx context.Context) (uint64, error) {
	if n.xChain == nil {
		return 0, index.ErrVerticesMissing
	}
	return n.xChain.Before(ctx)
}

// XChainBegin returns how the X-Chain's blocks begin. Errors are those of the store and
// the node.
func (n *Network) XChainBegin(ctx context.Context) (index.XChainBegin, error) {
	if n.origin == nil {
		return index.XChainBegin{}, index.ErrVerticesMissing
	}
	return n.origin.Begin(ctx)
}

// XChainVertices is how many vertices the X-Chain accepted before it had blocks. Errors
// are those of XChainBefore.
func (n *Network) XChainVertices(ctx context.Context) (uint64, error) {
	if n.Vertices == nil {
		return 0, index.ErrVerticesMissing
	}
	return n.Vertices.Count(ctx)
}

// Status tells how far the chains are recorded, by name.
func (n *Network) Status() map[string]index.Status {
	all := make(map[string]index.Status, len(n.lines))
	for chain, p := range n.lines {
		all[chain] = p.Status()
	}
	return all
}

// LedgerStatus tells how far the ledger of a chain is, whatever other records of the
// chain are made again; the zero Status if there is none.
func (n *Network) LedgerStatus(chain string) index.Status {
	p, ok := n.lines[chain]
	if !ok || n.Ledger == nil {
		return index.Status{}
	}
	return p.StatusOf(n.ledgers[chain])
}
