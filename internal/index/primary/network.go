package primary

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	genesisconfig "github.com/ava-labs/avalanchego/genesis"
	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/upgrade"
	"github.com/ava-labs/avalanchego/utils/constants"
	"github.com/ava-labs/avalanchego/vms/platformvm/validators/fee"

	"quorate/internal/chain/cchain"
	"quorate/internal/chain/genesis"
	"quorate/internal/chain/pchain"
	"quorate/internal/chain/xchain"
	"quorate/internal/index"
	"quorate/internal/index/container"
	"quorate/internal/index/l1"
	"quorate/internal/index/ledger"
	"quorate/internal/index/ledger/subnets"
	"quorate/internal/index/lookup"
	"quorate/internal/index/registry"
	"quorate/internal/index/vertices"
	"quorate/internal/store"
)

// Node is the upstream node API that a Network needs. *node.Client implements it.
type Node interface {
	index.PChainNode
	index.XChainNode
	index.CChainNode
	pchain.Node
	UTXOs(ctx context.Context, chain, source, hrp string, owner ids.ShortID) ([][]byte, error)
}

// Options configures a Network. NetworkID, Node and Store are required.
type Options struct {
	NetworkID uint32
	Node      Node
	Store     store.Store
	// Peers supply the X-Chain's pre-Cortina vertices. It may be nil for networks without vertices, and for a Network that
	// does not Run.
	Peers vertices.Peers
	// Genesis is the genesis of the network. Without it the Network indexes only the P-Chain, for Projections, and no ledger.
	Genesis *genesis.Genesis
	// ValidatorFees is the fee configuration for L1 validators. Nil selects the configuration of the public network
	// with that ID.
	ValidatorFees *fee.Config
	// Upgrades are the times of the network's upgrades. Nil selects those of the public network with that ID.
	Upgrades *upgrade.Config
	// Projections are projections of the P-Chain besides the ledger.
	Projections []index.Projection[*pchain.Block]
	// Start is the first indexed P-Chain height without a ledger. A ledger always starts at 0.
	Start uint64
	// Keep selects the containers to store; empty means KeepNeeded.
	Keep Keep
	// Shared reports that other processes Watch the index. Run then publishes failures for them.
	Shared bool
	// Beside reports that Store is the store of an index rebuilt beside the active one. This Network then reads the
	// containers that the active index's Network stores, and stores none.
	Beside bool
	// WindowBytes bounds the memory of each chain for blocks that are not yet written; 0 selects the default of
	// index.Options.
	WindowBytes int64
	// Committed is called after each commit of P-Chain blocks. It must not block.
	Committed func()
	// Now returns the storage time of containers; nil means time.Now.
	Now func() time.Time
	// Metrics may be nil.
	Metrics prometheus.Registerer
	// Log may be nil.
	Log *slog.Logger
}

// Keep selects the containers that are stored to rebuild indexes.
type Keep string

// The selections of containers.
const (
	// KeepNone stores nothing. Rebuilding an index fetches all blocks again.
	KeepNone Keep = "none"
	// KeepNeeded stores what rebuilding all indexes needs. Of C-Chain blocks it stores only the part that concerns
	// other chains.
	KeepNeeded Keep = "needed"
	// KeepAll stores everything that consensus accepted, including whole C-Chain blocks, if the node has an index.
	KeepAll Keep = "all"
)

// Forms returns the formats of all indexes of a Network, for index.Upgrade.
func Forms() []index.Form {
	platform := ledger.Form()
	// The ledger and the subnets share the decoding of P-Chain blocks.
	platform.Families = append(platform.Families, subnets.Families()...)
	platform.Families = append(platform.Families, store.FamilyPState)
	return []index.Form{l1.Form(), platform, vertices.Form(), lookup.Form(), registry.Form()}
}

// pipeline is the pipeline of a chain, independent of its block type.
type pipeline interface {
	Run(ctx context.Context) error
	Status() index.Status
	StatusOf(projection string) index.Status
	watch(ctx context.Context) error
	recordedBy(other pipeline)
	Fail(err error)
	tip(ctx context.Context) (uint64, error)
	verify(v *verifier) error
}

// Network indexes the chains of one network's primary network. It runs a pipeline for each chain, and a Matcher for
// atomic transfers.
type Network struct {
	chains []string
	lines  map[string]pipeline
	// ledgers maps chains to the names of their ledger projections.
	ledgers map[string]string
	// matcher, Ledger, Subnets, Registry and Vertices are nil without a ledger.
	matcher  *ledger.Matcher
	Subnets  *subnets.Index
	Registry *registry.Index
	Ledger   *ledger.Index
	Vertices *vertices.Index
	origin   *index.XChainOrigin
	xChain   *index.XChainSource
	kept     bool
	cBlocks  bool                    // whether whole C-Chain blocks are stored, if the node has an index
	cursors  []string                // cursors of all projections and of the vertices
	indexer  atomic.Pointer[Network] // whose status is reported; nil for this one's

	networkID uint32
	genesis   *genesis.Genesis // nil without a ledger
	node      Node
	shared    store.Store // nil unless other processes watch
	log       *slog.Logger
}

// New builds the pipelines of a network. It fetches nothing.
func New(o Options) (*Network, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	o.Keep = cmp.Or(o.Keep, KeepNeeded)
	n := &Network{lines: make(map[string]pipeline), ledgers: make(map[string]string), networkID: o.NetworkID, genesis: o.Genesis, node: o.Node, log: o.Log}
	if o.Shared {
		n.shared = o.Store
	}
	if err := n.addPChain(o); err != nil || o.Genesis == nil {
		return n, err
	}
	if err := n.addXChain(o); err != nil {
		return nil, err
	}
	return n, n.addCChain(o)
}

// addPChain adds the P-Chain: L1 transactions, and with a genesis the ledger.
func (n *Network) addPChain(o Options) error {
	committed := func(uint64) {
		if o.Committed != nil {
			o.Committed()
		}
	}
	from := index.NewPChainSource(o.Node, o.Log)
	p := chainOf[*pchain.Block]{name: index.PChain, source: from, verified: from, height: from.Tip, start: o.Start, committed: committed}
	if o.Genesis == nil {
		return add(n, o, p, o.Projections...)
	}
	n.matcher = ledger.NewMatcher(o.Store, o.NetworkID, o.Log)
	n.Ledger = ledger.New(o.Store, o.NetworkID)
	n.Subnets = subnets.New(o.Store, o.NetworkID)
	n.cursors = append(n.cursors, vertexCursor(o.NetworkID))
	n.kept, n.cBlocks = o.Keep != KeepNone, o.Keep == KeepAll
	asked := &rewards{node: o.Node, reader: o.Store, networkID: o.NetworkID, keep: n.kept, log: o.Log}
	decoder, err := pchain.NewDecoder(pchain.DecoderOptions{
		NetworkID: o.NetworkID, Genesis: o.Genesis.P, AVAXAssetID: o.Genesis.AVAXAssetID, Node: asked, ValidatorFees: o.ValidatorFees, Upgrades: o.Upgrades,
		Validators: o.Genesis.Validators, Supply: o.Genesis.Supply, Disagree: asked.differ,
	})
	if err == nil && o.Metrics != nil {
		err = asked.register(o.Metrics)
	}
	if err != nil {
		return err
	}
	p.source, p.start = rewardSource{from, asked}, 0
	p.committed = func(next uint64) {
		n.matcher.Wake()
		committed(next)
	}
	registering, err := n.addRegistry(o)
	if err != nil {
		return err
	}
	indexer := pChain(o.NetworkID, decoder, asked, ledger.NewProjection(o.NetworkID, constants.PlatformChainID), subnets.NewProjection(o.NetworkID))
	n.ledgers[index.PChain] = indexer.Name()
	projections := append(slices.Clone(o.Projections), indexer, registering)
	if n.kept {
		projections = append(projections, lookup.PChain(o.NetworkID))
	}
	return add(n, o, p, projections...)
}

// addRegistry adds the reader of the registry and returns its projection.
func (n *Network) addRegistry(o Options) (*registry.Projection, error) {
	fees := genesisconfig.GetTxFeeConfig(o.NetworkID).ValidatorFeeConfig
	if o.ValidatorFees != nil {
		fees = *o.ValidatorFees
	}
	decoder, err := pchain.NewDecoder(pchain.DecoderOptions{
		NetworkID: o.NetworkID, Genesis: o.Genesis.P, AVAXAssetID: o.Genesis.AVAXAssetID, ValidatorFees: &fees, Upgrades: o.Upgrades,
		Validators: o.Genesis.Validators, Supply: o.Genesis.Supply, WithoutOutputs: true,
	})
	if err != nil {
		return nil, err
	}
	n.Registry = registry.New(o.Store, o.NetworkID, fees)
	return registry.NewProjection(o.NetworkID, decoder), nil
}

// addXChain adds the X-Chain and its vertices from before Cortina.
func (n *Network) addXChain(o Options) error {
	x, err := xchain.NewDecoder(o.Genesis.XChainID, o.Genesis.X)
	if err != nil {
		return err
	}
	n.origin = index.NewXChainOrigin(o.Node, x, o.Store, o.NetworkID)
	n.Vertices = vertices.New(vertices.Options{
		Store: o.Store, NetworkID: o.NetworkID, ChainID: o.Genesis.XChainID, Begin: n.origin.Begin, Dependencies: x.Dependencies,
		Peers: o.Peers, Now: o.Now, Log: o.Log,
	})
	n.xChain = index.NewXChainSource(o.Node, x, n.origin, n.Vertices, o.Log)
	verified := index.NewXChainSource(o.Node, x, n.origin.Reading(), n.Vertices, o.Log)
	indexer := XChain(x, ledger.NewProjection(o.NetworkID, o.Genesis.XChainID))
	n.ledgers[index.XChain] = indexer.Name()
	projections := []index.Projection[*xchain.Block]{indexer}
	if n.kept {
		projections = append(projections, lookup.XChain(o.NetworkID, o.Genesis.AVAXAssetID))
	}
	return add(n, o, chainOf[*xchain.Block]{
		name: index.XChain, source: xSource{n.xChain, n.Vertices}, verified: verified,
		height:    verified.Height, // the tip also counts what precedes the blocks
		committed: n.wakeMatcher,
	}, projections...)
}

// addCChain adds the atomic transactions of the C-Chain.
func (n *Network) addCChain(o Options) error {
	c, err := cchain.NewDecoder(o.NetworkID, o.Genesis.CChainID, o.Upgrades)
	if err != nil {
		return err
	}
	source := index.NewCChainSource(o.Node, o.Keep == KeepAll, o.Log)
	indexer := CChain(c, ledger.NewProjection(o.NetworkID, o.Genesis.CChainID))
	n.ledgers[index.CChain] = indexer.Name()
	return add(n, o, chainOf[*cchain.Block]{name: index.CChain, source: source, verified: source, height: source.Tip, committed: n.wakeMatcher}, indexer)
}

// wakeMatcher matches exports and imports after a commit.
func (n *Network) wakeMatcher(uint64) { n.matcher.Wake() }

// xSource is the X-Chain's source with a note about its vertices.
type xSource struct {
	*index.XChainSource
	vertices *vertices.Index
}

// Note implements index.Noter.
func (s xSource) Note() string { return s.vertices.Trouble() }

// chainOf holds the chain-specific parameters of a pipeline.
type chainOf[B any] struct {
	name string
	// source supplies the blocks to index. verified supplies the same blocks and writes nothing.
	source, verified index.ContainerSource[B]
	// height returns the height of the node's last block.
	height    func(ctx context.Context) (uint64, error)
	start     uint64
	committed func(uint64)
}

// quietPoll is the maximum time between two polls of an idle chain.
const quietPoll = 2 * time.Second

func add[B any](n *Network, o Options, of chainOf[B], projections ...index.Projection[B]) error {
	chain := of.name
	poll := time.Duration(0) // the default
	if o.Genesis == nil {
		poll = quietPoll // nothing but signing ahead waits for these blocks
	}
	p, err := index.New(index.Options[B]{
		Poll: poll, QuietPoll: quietPoll,
		NetworkID: o.NetworkID, Chain: chain, Source: of.source, Store: o.Store, Projections: projections, Start: of.start, Keep: o.Keep != KeepNone && !o.Beside, StoreCaughtUp: !o.Beside, WindowBytes: o.WindowBytes, Committed: of.committed, Now: o.Now, Log: o.Log,
	})
	if err != nil {
		return fmt.Errorf("indexing the %s-Chain: %w", chain, err)
	}
	n.chains = append(n.chains, chain)
	l := &line[B]{Pipeline: p, chain: container.Chain{NetworkID: o.NetworkID, Name: chain}, store: o.Store, source: of.verified, height: of.height}
	for _, t := range projections {
		l.projections = append(l.projections, t.Name())
		if found, ok := t.(*lookup.Projection[B]); ok {
			l.lookup = found
		}
	}
	if chain == index.PChain && o.Genesis != nil {
		l.genesisID = o.Genesis.P.ID
	}
	n.lines[chain] = l
	n.cursors = append(n.cursors, n.cursorsOf(chain, l.projections)...)
	if o.Metrics == nil {
		return nil
	}
	return o.Metrics.Register(index.NewCollector(chain, func() index.Status { return n.ChainStatus(chain) }))
}

// Run indexes until ctx ends, and then returns nil. If a chain fails, Run logs the error, shows it in Status, and
// continues with the other chains. It waits for an unavailable store without limit. Run returns store.ErrFenced once
// another process indexes into the same store. It then stops indexing; another Network may continue.
func (n *Network) Run(ctx context.Context) error {
	work, ctx := errgroup.WithContext(ctx)
	begin := func(run func(ctx context.Context) error, lost string, attributes ...any) {
		work.Go(func() error {
			err := run(ctx)
			switch {
			case err == nil, errors.Is(err, context.Canceled):
				return nil
			case index.Continued(err):
				return err
			}
			n.log.Error(lost, append(attributes, slog.Any("error", err))...)
			return nil
		})
	}
	for _, chain := range n.chains {
		if n.shared != nil {
			work.Go(func() error {
				index.Publish(ctx, n.shared, n.networkID, chain, func() index.Status { return n.ChainStatus(chain) }, n.log)
				return nil
			})
		}
		begin(n.lines[chain].Run, "indexing of a chain stopped", slog.String("chain", chain))
	}
	if n.matcher != nil {
		begin(n.matcher.Run, "matching of atomic transfers stopped")
	}
	if n.Vertices != nil {
		begin(n.Vertices.Run, "indexing of pre-Cortina vertices stopped")
	}
	return work.Wait()
}

// Watch updates Status with the progress of another process that indexes into the same store, until ctx ends. It writes
// nothing.
func (n *Network) Watch(ctx context.Context) error {
	work, ctx := errgroup.WithContext(ctx)
	for _, chain := range n.chains {
		work.Go(func() error { return n.lines[chain].watch(ctx) })
	}
	return work.Wait()
}

// IndexedBy makes Status report the status of another Network of this process on the same store. Nil ends that.
func (n *Network) IndexedBy(other *Network) {
	n.indexer.Store(other)
	for chain, line := range n.lines {
		if other == nil {
			line.recordedBy(nil)
		} else {
			line.recordedBy(other.lines[chain])
		}
	}
}

// Fail makes Status report that the index of all chains has stopped. Call it if no Network goes on after Run has failed.
func (n *Network) Fail(err error) {
	n.indexer.Store(nil)
	for _, line := range n.lines {
		line.Fail(err)
	}
}

// Kept reports whether blocks are stored as containers and can be found by ID; see package lookup.
func (n *Network) Kept() bool { return n.kept }

// KeepsCBlocks reports whether whole C-Chain blocks are stored if the node has an index. Otherwise only the part that
// concerns other chains is.
func (n *Network) KeepsCBlocks() bool { return n.cBlocks }

// ChainStatus returns the index status of one chain.
func (n *Network) ChainStatus(chain string) index.Status {
	if p, ok := n.lines[chain]; ok {
		return n.withMatcher(chain, p.Status())
	}
	return index.Status{State: index.Idle}
}

// matchingTransfers names, in a status, the work that fails while atomic transfers are not matched.
const matchingTransfers = "matching atomic transfers"

// withMatcher returns the status of a chain with the failure of the matcher, unless the chain itself fails. Without the
// matcher the outputs between chains are not up to date.
func (n *Network) withMatcher(chain string, status index.Status) index.Status {
	if indexer := n.indexer.Load(); indexer != nil {
		n = indexer
	}
	if n.matcher == nil || n.ledgers[chain] == "" || status.Err != nil {
		return status
	}
	failure := n.matcher.Failure()
	if failure == nil {
		return status
	}
	status.State, status.Err = index.Retrying, fmt.Errorf("%s: %w", matchingTransfers, failure.Err)
	if failure.Final {
		status.State = index.Stopped
		return status
	}
	status.Failing, status.FailingSince = matchingTransfers, failure.Since
	return status
}

// XChainBefore returns the number of indexed heights before the X-Chain's block 0. It is 0 if the chain always had
// blocks. The error is index.ErrVerticesMissing until the vertices are complete.
func (n *Network) XChainBefore(ctx context.Context) (uint64, error) {
	if n.xChain == nil {
		return 0, index.ErrVerticesMissing
	}
	return n.xChain.Before(ctx)
}

// XChainBegin returns how the X-Chain's blocks begin. Errors come from the store or the node.
func (n *Network) XChainBegin(ctx context.Context) (index.XChainBegin, error) {
	if n.origin == nil {
		return index.XChainBegin{}, index.ErrVerticesMissing
	}
	return n.origin.Begin(ctx)
}

// XChainVertices returns the number of pre-Cortina vertices of the X-Chain. Errors are those of XChainBefore.
func (n *Network) XChainVertices(ctx context.Context) (uint64, error) {
	if n.Vertices == nil {
		return 0, index.ErrVerticesMissing
	}
	return n.Vertices.Count(ctx)
}

// Status returns the index status of all chains by name.
func (n *Network) Status() map[string]index.Status {
	all := make(map[string]index.Status, len(n.lines))
	for chain, p := range n.lines {
		all[chain] = n.withMatcher(chain, p.Status())
	}
	return all
}

// RegistryStatus returns the status of the registry, regardless of other indexes of the P-Chain. It returns the zero Status
// without a ledger.
func (n *Network) RegistryStatus() index.Status {
	p, ok := n.lines[index.PChain]
	if !ok || n.Registry == nil {
		return index.Status{}
	}
	return p.StatusOf(registry.Name)
}

// LookupStatus returns the status of the positions of a chain's blocks and transactions. It returns the zero Status if they
// are not indexed.
func (n *Network) LookupStatus(chain string) index.Status {
	p, ok := n.lines[chain]
	if !ok || !n.kept {
		return index.Status{}
	}
	return p.StatusOf(lookup.Name)
}

// LedgerStatus returns the status of a chain's ledger, regardless of other indexes of the chain that are being rebuilt.
// It returns the zero Status without a ledger.
func (n *Network) LedgerStatus(chain string) index.Status {
	p, ok := n.lines[chain]
	if !ok || n.Ledger == nil {
		return index.Status{}
	}
	return p.StatusOf(n.ledgers[chain])
}
