package nodeapi

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"

	"quorate/handlers/rpc"
	rpcindex "quorate/handlers/rpc/index"
	"quorate/internal/index"
	"quorate/internal/index/container"
	"quorate/internal/node"
	"quorate/internal/store"
)

// addIndexes answers for the index of accepted containers.
func addIndexes(a *API) error {
	chains := a.network.Chains()
	for _, one := range containerIndexes(chains) {
		e := rpc.Endpoint{}
		if chains != nil && chains.Kept() {
			e = one.endpoint(a.store, a.network.ID, chains.ChainStatus, a.log)
		}
		base, endpoint, _ := strings.Cut(one.path, "/")
		if err := a.addIndex("index/"+base, "/"+endpoint, "/ext/index/"+one.path, e); err != nil {
			return err
		}
	}
	return nil
}

// containerIndex is one index of accepted containers.
type containerIndex struct {
	// chain is the blockchain. The containers are stored under the name kept.
	path, chain, kept string
	// heights returns the first height of the index and the one after the last. Until is the height after the chain's last
	// stored container, 0 if there is none.
	heights func(ctx context.Context, until uint64) (first, end uint64, err error)
}

// indexedChains is what containerIndexes reads of a *primary.Network.
type indexedChains interface {
	KeepsCBlocks() bool
	XChainBefore(ctx context.Context) (uint64, error)
	XChainVertices(ctx context.Context) (uint64, error)
}

// containerIndexes returns the indexes of a network.
func containerIndexes(chains indexedChains) []containerIndex {
	afterGenesis := func(_ context.Context, until uint64) (uint64, uint64, error) { return 1, until, nil }
	// beforeBlocks returns the number of heights before the X-Chain's block 0. In a new index, that is unknown until all
	// vertices are fetched.
	beforeBlocks := func(ctx context.Context, until uint64) (uint64, error) {
		if until == 0 {
			return 0, nil
		}
		return chains.XChainBefore(ctx)
	}
	return []containerIndex{
		{"C/block", index.CChain, index.CChain, func(_ context.Context, until uint64) (uint64, uint64, error) {
			if until <= 1 && !chains.KeepsCBlocks() {
				return 0, 0, rpc.ErrForward // nodes answer about the following blocks, too
			}
			return 1, until, nil
		}},
		{"P/block", index.PChain, index.PChain, afterGenesis},
		{"X/block", index.XChain, index.XChain, func(ctx context.Context, until uint64) (uint64, uint64, error) {
			before, err := beforeBlocks(ctx, until)
			return before + 1, until, err
		}},
		{"X/tx", index.XChain, index.XChain, func(ctx context.Context, until uint64) (uint64, uint64, error) {
			before, err := beforeBlocks(ctx, until)
			return 1, min(before, until), err
		}},
		{"X/vtx", index.XChain, container.Vertices, func(ctx context.Context, until uint64) (uint64, uint64, error) {
			n, err := chains.XChainVertices(ctx)
			if until == 0 && errors.Is(err, index.ErrVerticesMissing) {
				return 0, 0, nil // vertices have no order before all are fetched
			}
			return 0, n, err
		}},
	}
}

// endpoint returns the endpoint that answers from the index. Like a node, it answers from what is indexed while the index
// catches up. It answers 503 once the index has stopped, and while the vertices are fetched again after the X-Chain was
// indexed: then it lacks what it once had.
func (c containerIndex) endpoint(r store.Reader, networkID uint32, status func(chain string) index.Status, log *slog.Logger) rpc.Endpoint {
	heights := func(ctx context.Context) (uint64, uint64, error) {
		from, until, err := index.ContainersUntil(ctx, r, networkID, c.chain)
		if err != nil {
			return 0, 0, err
		}
		first, end, err := c.heights(ctx, until)
		switch {
		case errors.Is(err, index.ErrVerticesMissing):
			err = rpc.ErrNotReady
		case err == nil && from > first && c.kept != container.Vertices: // which are always stored from the first one on
			err = rpc.ErrForward
		}
		return first, end, err
	}
	return rpc.Endpoint{
		Ready: func() bool { return status(c.chain).State != index.Stopped },
		Services: []rpc.Service{{Names: []string{"index"}, Methods: rpcindex.New(rpcindex.Options{
			Reader: r, Log: log, Chain: container.Chain{NetworkID: networkID, Name: c.kept}, Heights: heights,
		})}},
	}
}

// addIndex does what addService does, and converts the error of upstream nodes without an index.
func (a *API) addIndex(base, endpoint, path string, e rpc.Endpoint) error {
	e.Upstream = indexUpstream{a.network.Node}
	return a.addService(base, endpoint, path, e)
}

// indexUpstream forwards calls to nodes that may run without an index and then lack the path. Clients get an error
// that does not reveal this.
type indexUpstream struct{ rpc.Upstream }

// Forward implements rpc.Upstream.
func (u indexUpstream) Forward(ctx context.Context, path string, body []byte, hedged bool) (*node.Forwarded, error) {
	answer, err := u.Upstream.Forward(ctx, path, body, hedged)
	if err != nil || answer.Status != http.StatusNotFound {
		return answer, err
	}
	return nil, rpc.RefusalError("this index is not kept here, and the upstream node runs without one: the service must keep_containers all of a node that runs with index-enabled")
}
