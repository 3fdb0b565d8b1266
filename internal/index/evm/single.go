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
	t, err := tokenOf(standard, contract, store.Row{K: id[:], V: values[0]})
	return &t, err
}

// tokenFamilies are the families that list the tokens of a contract, by its standard.
var tokenFamilies = map[evm.Standard]store.Family{evm.ERC721: store.FamilyEVMOwner, evm.ERC1155: store.FamilyEVMSupply}

// tokenOf decodes a row of a family that lists the tokens of a contract.
func tokenOf(standard evm.Standard, contract common.Address, row store.Row) (Token, error) {
	t := Token{Contract: contract}
	if len(row.K) != 32 {
		return t, fmt.Errorf("%w: token %x", store.ErrCorrupt, row.K)
	}
	t.TokenID.SetBytes(row.K)
	if standard != evm.ERC721 {
		return t, nil
	}
	v := read(row.V)
	owner := v.address()
	t.Owner = &owner
	return t, v.End()
}

// Deployed returns the last deployment of a contract, or nil without an error if none is indexed.
func (r *Index) Deployed(ctx context.Context, contract common.Address) (*Deployment, error) {
	s, err := r.view(ctx)
	if err != nil {
		return nil, err
	}
	defer s.close()
	rows, err := s.lastDeployment(ctx, contract)
	if err != nil {
		return nil, err
	}
	found, err := inPlaces(rows, "deployment", (*reader).deployment)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return &found[0], nil
}

// lastDeployment returns the row of the last deployment of a contract, or none.
func (s *state) lastDeployment(ctx context.Context, contract common.Address) ([]store.Row, error) {
	rows, err := s.Scan(ctx, store.FamilyEVMContract, s.chain.partition(contract[:]), []byte{0}, nil, store.Ascending, 1)
	if err != nil {
		return nil, fmt.Errorf("reading the deployment of %s: %w", contract, err)
	}
	return rows, nil
}
