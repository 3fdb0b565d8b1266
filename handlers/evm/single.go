package evm

import (
	"context"
	"regexp"

	"github.com/holiman/uint256"
	"github.com/labstack/echo/v4"

	"github.com/ava-labs/libevm/common"

	"quorate/handlers/apierr"
	"quorate/handlers/operation"
	"quorate/handlers/reply"
	chain "quorate/internal/chain/evm"
)

// getContract sends what a contract says of itself, what the token lists say, and how it was deployed.
func (a *API) getContract(ctx context.Context, r operation.Request, of *Chain) error {
	at, err := address(r)
	if err != nil {
		return err
	}
	if _, err := current(r, of, nil); err != nil {
		return err
	}
	d, err := a.directoryOf(ctx, of, at)
	if err != nil {
		return err
	}
	deployed, err := of.Index.Deployed(ctx, at)
	if err != nil {
		return err
	}
	if d.contracts[at] == nil && deployed == nil {
		return apierr.NotFound("address: there is no contract at %s", at)
	}
	return reply.JSON(r, d.contract(at, deployed))
}

func (a *API) getToken(ctx context.Context, r operation.Request, of *Chain) error {
	at, err := address(r)
	if err != nil {
		return err
	}
	id, err := tokenID(r)
	if err != nil {
		return err
	}
	if _, err := current(r, of, nil); err != nil {
		return err
	}
	d, err := a.directory(ctx, of, []common.Address{at})
	if err != nil {
		return err
	}
	found, err := of.Index.Token(ctx, d.standard(at), at, id)
	if err != nil {
		return err
	}
	if found == nil {
		return apierr.NotFound("tokenId: no transfer of an ERC-721 or ERC-1155 contract at %s has made token %s, or it was burnt", at, id.Dec())
	}
	one := []nft{{standard: d.standard(at), contract: at, id: *id}}
	details, err := a.details(ctx, of, one)
	if err != nil {
		return err
	}
	if one[0].standard == chain.ERC1155 {
		return reply.JSON(r, d.erc1155(one[0], details[0]))
	}
	return reply.JSON(r, d.erc721(one[0], found.Owner, details[0]))
}

var digits = regexp.MustCompile("^[0-9]{1,78}$")

// tokenID parses the token ID in the path.
func tokenID(c echo.Context) (*uint256.Int, error) {
	text := c.Param(tokenIDParameter.Name)
	if digits.MatchString(text) {
		if id, err := uint256.FromDecimal(text); err == nil {
			return id, nil
		}
	}
	return nil, apierr.BadRequest("%s: %q is no token ID; give a decimal number of up to 256 bits", tokenIDParameter.Name, apierr.Excerpt(text))
}
