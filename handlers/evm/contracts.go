package evm

import (
	"cmp"
	"context"
	"fmt"

	"github.com/ava-labs/libevm/common"

	"quorate/handlers/evm/tokenlist"
	"quorate/internal/bounded"
	chain "quorate/internal/chain/evm"
	"quorate/internal/index/evm"
)

// directory holds what is known of the addresses in an answer.
type directory struct {
	chain     *Chain
	lists     *tokenlist.Lists
	contracts map[common.Address]*evm.Contract
	parties   map[common.Address]*addressParty // addresses with more fields than the address
	plain     *bounded.Cache[common.Address, *addressParty]
	unlisted  tokenlist.Token // empty
}

func (a *API) newDirectory(of *Chain) *directory {
	return &directory{chain: of, lists: a.lists, plain: a.plain}
}

// plainRoom is the number of cached plain addresses, about 220 bytes each.
const plainRoom = 1 << 15

// spelt returns an address with its checksum in upper-case letters (EIP-55).
func (d *directory) spelt(at common.Address) string { return d.alone(at).Address }

// alone returns a party with only an address. The result is shared.
func (d *directory) alone(at common.Address) *addressParty {
	p, ok := d.plain.Get(at)
	if !ok {
		p = &addressParty{Address: at.Hex()}
		d.plain.Set(at, p)
	}
	return p
}

// directory looks up addresses, in any order and number. It asks the chain's node only about those that the index
// knows as contracts, since most are wallets.
func (a *API) directory(ctx context.Context, of *Chain, addresses []common.Address) (*directory, error) {
	if len(addresses) == 0 {
		return a.newDirectory(of), nil
	}
	known, err := of.Index.Known(ctx, addresses)
	if err != nil {
		return nil, err
	}
	var asked []common.Address
	there := make(map[common.Address]bool)
	for i, is := range known {
		if is && !there[addresses[i]] {
			there[addresses[i]] = true
			asked = append(asked, addresses[i])
		}
	}
	return a.directoryOf(ctx, of, asked...)
}

// directoryOf looks up different addresses. It asks the chain's node even if the index does not know a contract there: it
// may be part of the genesis, or made by another contract in a block without traces.
func (a *API) directoryOf(ctx context.Context, of *Chain, addresses ...common.Address) (*directory, error) {
	d := a.newDirectory(of)
	if len(addresses) == 0 {
		return d, nil
	}
	found, err := of.Contracts.Contracts(ctx, addresses)
	if err != nil {
		return nil, fmt.Errorf("asking what %d contracts are: %w", len(addresses), err)
	}
	d.contracts = make(map[common.Address]*evm.Contract, len(addresses))
	for i, c := range found {
		d.contracts[addresses[i]] = c
	}
	return d, nil
}

// standard returns the standard of the contract at an address, Unknown without one. An ERC-20 contract without
// decimals is Unknown.
func (d *directory) standard(at common.Address) chain.Standard {
	c := d.contracts[at]
	if c == nil || c.Standard == chain.ERC20 && c.Decimals == nil {
		return chain.Unknown
	}
	return c.Standard
}

// listed returns what token lists contain about an address; none of it is required.
func (d *directory) listed(at common.Address) *tokenlist.Token {
	if known := d.lists.Token(d.chain.ChainID, at); known != nil {
		return known
	}
	return &d.unlisted
}

// addressParty is an address in an answer with its token and contract fields.
type addressParty struct {
	Name     string `json:"name,omitempty"`
	Symbol   string `json:"symbol,omitempty"`
	Decimals *uint8 `json:"decimals,omitempty"`
	LogoURI  string `json:"logoUri,omitempty"`
	Address  string `json:"address"`
}

// party returns the fields for an address. The result is shared.
func (d *directory) party(at common.Address) *addressParty {
	c, logo := d.contracts[at], d.listed(at).LogoURI
	if c == nil && logo == "" {
		return d.alone(at)
	}
	if p, ok := d.parties[at]; ok {
		return p
	}
	p := &addressParty{Address: d.spelt(at), LogoURI: logo}
	if c != nil {
		p.Name, p.Symbol, p.Decimals = c.Name, c.Symbol, c.Decimals
	}
	if d.parties == nil {
		d.parties = make(map[common.Address]*addressParty)
	}
	d.parties[at] = p
	return p
}

// Names of standards in the API.
const (
	typeERC20   = "ERC-20"
	typeERC721  = "ERC-721"
	typeERC1155 = "ERC-1155"
	typeUnknown = "UNKNOWN"
)

// contract is an item of the list of contracts. Its fields depend on its standard.
type contract struct {
	Name          string         `json:"name,omitempty"`
	Description   string         `json:"description,omitempty"`
	OfficialSite  string         `json:"officialSite,omitempty"`
	Email         string         `json:"email,omitempty"`
	LogoAsset     *imageAsset    `json:"logoAsset,omitempty"`
	BannerAsset   *imageAsset    `json:"bannerAsset,omitempty"`
	Color         string         `json:"color,omitempty"`
	ResourceLinks []resourceLink `json:"resourceLinks,omitempty"`
	Tags          []string       `json:"tags,omitempty"`
	Address       string         `json:"address"`
	Deployment    *deployment    `json:"deploymentDetails,omitempty"`
	ERCType       string         `json:"ercType"`
	Symbol        string         `json:"symbol,omitempty"`
	Decimals      *uint8         `json:"decimals,omitempty"`
}

type imageAsset struct {
	ImageURI string `json:"imageUri"`
}

type resourceLink struct {
	Type string `json:"type"`
	URL  string `json:"url"`
}

type deployment struct {
	TxHash                  common.Hash `json:"txHash"`
	DeployerAddress         string      `json:"deployerAddress"`
	DeployerContractAddress string      `json:"deployerContractAddress,omitempty"`
}

// contract returns the item for a contract. Without an indexed deployment, of is nil.
func (d *directory) contract(at common.Address, of *evm.Deployment) contract {
	listed := d.listed(at)
	shown := contract{
		Name: listed.Name, Description: listed.Description, Email: listed.Email, Color: listed.Color, Tags: listed.Tags,
		LogoAsset: image(listed.LogoURI), BannerAsset: image(listed.BannerURI),
		Address: d.spelt(at),
		ERCType: typeUnknown,
	}
	if of != nil {
		shown.Deployment = &deployment{TxHash: of.TxHash, DeployerAddress: d.spelt(of.Deployer)}
		if of.Creator != nil {
			shown.Deployment.DeployerContractAddress = d.spelt(*of.Creator)
		}
	}
	for _, link := range listed.Links {
		shown.ResourceLinks = append(shown.ResourceLinks, resourceLink(link))
		if link.Type == tokenlist.Website {
			shown.OfficialSite = link.URL
		}
	}
	known := d.contracts[at]
	if known == nil {
		return shown
	}
	shown.Name = cmp.Or(known.Name, listed.Name)
	switch d.standard(at) {
	case chain.ERC20:
		shown.ERCType, shown.Decimals = typeERC20, known.Decimals
	case chain.ERC721:
		shown.ERCType = typeERC721
	case chain.ERC1155:
		shown.ERCType = typeERC1155
	default:
		return shown
	}
	shown.Symbol = cmp.Or(known.Symbol, listed.Symbol)
	return shown
}

func image(uri string) *imageAsset {
	if uri == "" {
		return nil
	}
	return &imageAsset{ImageURI: uri}
}
