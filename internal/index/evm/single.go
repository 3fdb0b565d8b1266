package evm

import (
	"context"
	"fmt"

	"github.com/holiman/uint256"

	"github.com/ava-labs/libevm/common"

	"quorate/internal/chain/evm"
	"quorate/internal/store"
)

// Token returns a token of an ERC-721 or ERC-1155 contract, or nil without an error if there is none. Burnt tokens do
// not exist.
func (r *Index) Token(ctx context.Context, standard evm.Standard, contract common.Address, tokenID *uint256.Int) (*Token, error) {
	family, ok := tokenFamilies[standard]
	if !ok {
		return nil, nil
	}
	s, err := r.view(ctx)
	if err != nil {
		return nil, err
	}
	defer s.close()
	id := tokenID.Bytes32()
	values, err := s.Get(ctx, family, []store.PK{{P: s.chain.partition(contract[:]), K: id[:]}})
	if err != nil {
		return nil, fmt.Errorf("reading a token: %w", err)
	}
	if values[0] == nil {
		return nil, nil
	}
	t := &Token{Contract: contract, TokenID: *tokenID}
	if standard == evm.ERC721 {
		v := read(values[0])
		owner := v.address()
		if err := v.End(); err != nil {
			return nil, err
		}
		t.Owner = &owner
	}
	return t, nil
}

// tokenFamilies are the families that list the tokens of a contract, by its standard.
var tokenFamilies = map[evm.Standard]store.Family{evm.ERC721: store.FamilyEVMOwner, evm.ERC1155: store.FamilyEVMSupply}

// Deployed returns the last deployment of a contract, or nil without an error if none is indexed.
func (r *Index) Deployed(ctx context.Context, contract common.Address) (*Deployment, error) {
	s, err := r.view(ctx)
	if err != nil {
		return nil, err
	}
	defer s.close()
	rows, err := s.Scan(ctx, store.FamilyEVMContract, s.chain.partition(contract[:]), []byte{0}, nil, store.Ascending, 1)
	if err != nil {
		return nil, fmt.Errorf("reading a deployment: %w", err)
	}
	found, err := inPlaces(rows, "deployment", (*reader).deployment)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return &found[0], nil
}
