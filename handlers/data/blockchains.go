package data

import (
	"context"
	"errors"
	"strconv"

	"github.com/ava-labs/avalanchego/ids"

	"quorate/handlers/apierr"
	"quorate/handlers/cb58"
	"quorate/handlers/compat"
	"quorate/handlers/data/genesis"
	"quorate/handlers/operation"
	"quorate/handlers/reply"
	"quorate/internal/index/ledger/subnets"
	"quorate/internal/index/registry"
)

// errGenesis means that a blockchain is registered and its genesis is not indexed yet.
var errGenesis = errors.New("the genesis of a new blockchain is not indexed yet")

// registered returns an error if the registry has not caught up, and sets the progress headers.
func (n *network) registered(r operation.Request) error {
	if n.Registry == nil || n.RegistryProgress == nil {
		return absent("blockchains and validators")
	}
	p := n.RegistryProgress(r.Request().Context())
	if !p.CaughtUp || p.Rebuilding {
		return p.Behind("the " + pChain)
	}
	p.Show(r.Response().Header())
	return nil
}

// described returns an error unless both the registry and the index of subnets have caught up, and sets the progress
// headers.
func (n *network) described(r operation.Request) error {
	if n.Subnets == nil {
		return absent("subnets")
	}
	if err := n.behind(r.Request().Context(), n.platform(), nil); err != nil {
		return err
	}
	return n.registered(r)
}

// pathID parses an ID in the path.
func pathID(r operation.Request, name string) (ids.ID, error) {
	text := r.Param(name)
	id, err := cb58.ID(text)
	if err != nil {
		return ids.Empty, apierr.BadRequest("%s: %q is no ID; check it for typing errors", name, apierr.Excerpt(text))
	}
	return id, nil
}

// getSubnet is GET /v1/networks/{network}/subnets/{subnetId}.
func (a *API) getSubnet(ctx context.Context, r operation.Request, n *network) error {
	id, err := pathID(r, subnetID.Name)
	if err != nil {
		return err
	}
	if err := n.described(r); err != nil {
		return err
	}
	at, err := n.Registry.Registered(ctx, id)
	if err != nil {
		return err
	}
	if at == nil || at.SubnetID != id {
		return apierr.NotFound("subnetId: no transaction has created subnet %s on %s", id, n.shown)
	}
	s := &subnets.Subnet{ID: id, Created: at.Created, Height: at.Height}
	height, err := n.Subnets.Describe(ctx, s)
	if err != nil {
		return err
	}
	if height < at.Height {
		return ErrCatchingUp
	}
	shown, err := n.subnet(ctx, s, genesesOf(n.Subnets, []*subnets.Subnet{s}), compat.Enabled(ctx))
	if err != nil {
		return err
	}
	return reply.JSON(r, shown)
}

// listBlockchains is GET /v1/networks/{network}/blockchains.
func (a *API) listBlockchains(ctx context.Context, r operation.Request, n *network) error {
	p := a.readPaging(r.Query, "blockchains", n.shown)
	if err := r.Query.Err(); err != nil {
		return err
	}
	at, err := position(p.After, registry.ParsePlace)
	if err != nil {
		return err
	}
	if err := n.described(r); err != nil {
		return err
	}
	clientsForm := compat.Enabled(ctx)
	return newStream(r.Response(), a.log).list(ctx, "blockchains", p.Size, p.Token, func(left int, element func(any) error) ([]byte, error) {
		page, next, err := n.Registry.Blockchains(ctx, p.ascending, min(left, genesesAtATime), at)
		if err != nil {
			return nil, err
		}
		all, err := n.blockchains(ctx, page, clientsForm)
		if err != nil {
			return nil, err
		}
		for _, shown := range all {
			if err := element(shown); err != nil {
				return nil, err
			}
		}
		if at = next; at == nil {
			return nil, nil
		}
		return at.Bytes(), nil
	})
}

// blockchains reads the geneses of a few blockchains.
func (n *network) blockchains(ctx context.Context, page []*registry.Blockchain, clientsForm bool) ([]chainOfASubnet, error) {
	of := make([]subnets.Founded, len(page))
	for i, b := range page {
		of[i] = subnets.Founded{SubnetID: b.SubnetID, ChainID: b.ID}
	}
	contents, err := n.Subnets.Geneses(ctx, of...)
	if err != nil {
		return nil, err
	}
	all := make([]chainOfASubnet, len(page))
	for i, b := range page {
		if contents[i] == nil {
			return nil, errors.Join(ErrCatchingUp, errGenesis)
		}
		all[i] = chainOfASubnet{
			CreateBlockTimestamp: b.Created.Unix(),
			CreateBlockNumber:    strconv.FormatUint(b.Height, 10),
			BlockchainID:         b.ID.String(),
			VMID:                 b.VMID.String(),
			SubnetID:             b.SubnetID.String(),
			BlockchainName:       b.Name,
			EVMChainID:           "0",
		}
		if g, ok := genesis.Parse(contents[i]); ok {
			all[i].EVMChainID, all[i].GenesisData = g.ChainID(), g.Data(clientsForm)
		}
	}
	return all, nil
}

// getBlockchain is GET /v1/networks/{network}/blockchains/{blockchainId}.
func (a *API) getBlockchain(ctx context.Context, r operation.Request, n *network) error {
	id, err := n.anyBlockchain(r)
	if err != nil {
		return err
	}
	if err := n.described(r); err != nil {
		return err
	}
	found, err := n.Registry.Blockchain(ctx, id)
	if err != nil {
		return err
	}
	if found == nil {
		return apierr.NotFound("blockchainId: no transaction has created blockchain %s on %s", r.Param(blockchainID.Name), n.shown)
	}
	all, err := n.blockchains(ctx, []*registry.Blockchain{found}, compat.Enabled(ctx))
	if err != nil {
		return err
	}
	return reply.JSON(r, all[0])
}

// anyBlockchain returns the ID of the blockchain that the path names.
func (n *network) anyBlockchain(r operation.Request) (ids.ID, error) {
	for _, b := range n.chains {
		if b.name == r.Param(blockchainID.Name) {
			return b.id, nil
		}
	}
	return pathID(r, blockchainID.Name)
}
