package nodeapi

import (
	"context"
	"net/http"
	"strings"

	"quorate/handlers/rpc"
	rpcindex "quorate/handlers/rpc/index"
	"quorate/internal/index"
	"quorate/internal/index/container"
	"quorate/internal/node"
)

// addIndexes answers for the index of accepted containers.
func addIndexes(a *API) error {
	chains := a.network.Chains()
	for _, one := range []struct {
		path, chain, kept string
		// heights returns the first height of the index and the one after the last. The latter is at least until,
		// below which the index is complete.
		heights func(ctx context.Context, until uint64) (first, end uint64, err error)
	}{
		{"C/block", index.CChain, index.CChain, afterGenesis},
		{"P/block", index.PChain, index.PChain, afterGenesis},
		{"X/block", index.XChain, index.XChain, func(ctx context.Context, until uint64) (uint64, uint64, error) {
			before, err := chains.XChainBefore(ctx)
			return before + 1, until, err
		}},
		{"X/tx", index.XChain, index.XChain, func(ctx context.Context, until uint64) (uint64, uint64, error) {
			before, err := chains.XChainBefore(ctx)
			return 1, min(before, until), err
		}},
		{"X/vtx", index.XChain, container.Vertices, func(ctx context.Context, _ uint64) (uint64, uint64, error) {
			n, err := chains.XChainVertices(ctx)
			return 0, n, err
		}},
	} {
		path := "/ext/index/" + one.path
		e := rpc.Endpoint{}
		if chains != nil && chains.Kept() {
			// Vertices belong to the X-Chain.
			e.Ready = func() bool { return chains.ChainStatus(one.chain).Ready() }
			s := rpcindex.New(rpcindex.Options{
				Reader: a.store, Log: a.log, Chain: container.Chain{NetworkID: a.network.ID, Name: one.kept},
				Heights: func(ctx context.Context) (uint64, uint64, error) {
					var from, until uint64
					if one.kept != container.Vertices {
						var err error
						if from, until, err = index.ContainersUntil(ctx, a.store, a.network.ID, one.kept); err != nil {
							return 0, 0, err
						}
					}
					first, end, err := one.heights(ctx, until)
					if err == nil && from > first {
						err = rpc.ErrForward
					}
					return first, end, err
				},
			})
			e.Services = []rpc.Service{{Names: []string{"index"}, Methods: s}}
		}
		base, endpoint, _ := strings.Cut(one.path, "/")
		if err := a.addIndex("index/"+base, "/"+endpoint, path, e); err != nil {
			return err
		}
	}
	return nil
}

func afterGenesis(_ context.Context, until uint64) (uint64, uint64, error) { return 1, until, nil }

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
