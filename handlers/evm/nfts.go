package evm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/holiman/uint256"

	"github.com/ava-labs/libevm/common"

	"quorate/handlers/compat"
	chain "quorate/internal/chain/evm"
	"quorate/internal/index/evm"
	"quorate/internal/index/evm/contracts"
	"quorate/internal/index/evm/metadata"
	"quorate/internal/node"
)

// nft identifies a token that has an ID.
type nft struct {
	standard chain.Standard
	contract common.Address
	id       uint256.Int
}

// nftMetadata is the metadata of a token in an answer.
type nftMetadata struct {
	IndexStatus  string `json:"indexStatus"`
	Updated      int64  `json:"metadataLastUpdatedTimestamp,omitempty"`
	Name         string `json:"name,omitempty"`
	Symbol       string `json:"symbol,omitempty"`
	ImageURI     string `json:"imageUri,omitempty"`
	Description  string `json:"description,omitempty"`
	AnimationURI string `json:"animationUri,omitempty"`
	ExternalURL  string `json:"externalUrl,omitempty"`
	Background   string `json:"background,omitempty"`
	// Attributes belongs to ERC-721, Decimals and Properties to ERC-1155.
	Attributes string  `json:"attributes,omitempty"`
	Decimals   *uint64 `json:"decimals,omitempty"`
	Properties string  `json:"properties,omitempty"`
}

type erc20Token struct {
	Address  string `json:"address"`
	Name     string `json:"name"`
	Symbol   string `json:"symbol"`
	Decimals uint8  `json:"decimals"`
	LogoURI  string `json:"logoUri,omitempty"`
	ERCType  string `json:"ercType"`
}

type erc721Token struct {
	Address      string       `json:"address"`
	Name         string       `json:"name"`
	Symbol       string       `json:"symbol"`
	ERCType      string       `json:"ercType"`
	TokenID      amount       `json:"tokenId"`
	TokenURI     string       `json:"tokenUri"`
	Metadata     *nftMetadata `json:"metadata"`
	OwnerAddress string       `json:"ownerAddress,omitempty"`
}

type erc1155Token struct {
	Address  string       `json:"address"`
	ERCType  string       `json:"ercType"`
	TokenID  amount       `json:"tokenId"`
	TokenURI string       `json:"tokenUri"`
	Metadata *nftMetadata `json:"metadata"`
}

// nftDetails holds the URI and the metadata of a token.
type nftDetails struct {
	uri      string
	metadata nftMetadata
}

const (
	// maxNFTs is the maximum number of tokens in an answer that get details, which is the largest page. Only a
	// transaction may move more tokens; the others have no details.
	maxNFTs = 500
	// maxAsking is the number of tokens in one request to the chain's node.
	maxAsking = 32
	// maxDetails is the maximum size of the URIs and metadata of an answer, in bytes; some contain images. Those of a token
	// that appears more than once count each time. A token whose details do not fit has none; a smaller page has them.
	maxDetails = 16 << 20
)

// details returns the details of tokens, in their order. Repeated tokens share one result.
func (a *API) details(ctx context.Context, of *Chain, tokens []nft) ([]*nftDetails, error) {
	unknown := &nftDetails{metadata: nftMetadata{IndexStatus: string(metadata.Unindexed)}}
	asked, places := distinct(tokens)
	asked = asked[:min(len(asked), maxNFTs)]
	placeOf := func(i int) int {
		if places == nil {
			return i
		}
		return places[tokens[i]]
	}
	times := make([]int, len(asked))
	for i := range tokens {
		if place := placeOf(i); place < len(times) {
			times[place]++
		}
	}
	all := make([]nftDetails, len(asked))
	room := maxDetails
	known := 0 // URIs
	var failure error
	for from := 0; from < len(asked); from += maxAsking {
		to := min(from+maxAsking, len(asked))
		some, failed, err := a.someDetails(ctx, of, asked[from:to], all[from:to])
		if err != nil {
			return nil, err
		}
		known, failure = known+some, cmp.Or(failure, failed)
		for i := range all[from:to] {
			d := &all[from+i]
			if size := d.size() * times[from+i]; size <= room {
				room -= size
			} else {
				*d = nftDetails{metadata: nftMetadata{IndexStatus: string(metadata.TooLarge)}}
			}
		}
	}
	found := make([]*nftDetails, len(tokens))
	for i := range tokens {
		if found[i] = unknown; placeOf(i) < len(all) {
			found[i] = &all[placeOf(i)]
		}
	}
	if known == 0 && failure != nil {
		// If no URI could be read, the node is at fault.
		return nil, fmt.Errorf("asking for the URIs of %d tokens: %w", len(asked), failure)
	}
	return found, nil
}

// distinct returns the tokens without repetitions, and their places in the result; nil if there are no repetitions.
func distinct(tokens []nft) (once []nft, places map[nft]int) {
	ascending := true // as in collections and wallets
	for i := 1; i < len(tokens) && ascending; i++ {
		a, b := &tokens[i-1], &tokens[i]
		ascending = cmp.Or(a.contract.Cmp(b.contract), a.id.Cmp(&b.id)) < 0
	}
	if ascending {
		return tokens, nil
	}
	once, places = make([]nft, 0, len(tokens)), make(map[nft]int, len(tokens))
	for _, t := range tokens {
		if _, known := places[t]; !known {
			places[t] = len(once)
			once = append(once, t)
		}
	}
	return once, places
}

// someDetails sets the details of at most maxAsking tokens. It returns the number of known URIs, and the error if none of
// the requested URIs could be read.
func (a *API) someDetails(ctx context.Context, of *Chain, tokens []nft, into []nftDetails) (known int, failure, err error) {
	unknown, failure, err := a.uris(ctx, of, tokens, into)
	if err != nil {
		return 0, nil, fmt.Errorf("asking for the URIs of %d tokens: %w", len(tokens), err)
	}
	var all []metadata.Metadata
	if of.Metadata != nil {
		named := make([]evm.Token, len(tokens))
		for i, t := range tokens {
			named[i] = evm.Token{Contract: t.contract, TokenID: t.id}
		}
		if all, err = of.Metadata.Metadata(ctx, named); err != nil {
			return 0, nil, fmt.Errorf("reading the metadata of %d tokens: %w", len(tokens), err)
		}
	}
	for i := range tokens {
		m := &metadata.Metadata{Status: metadata.Unindexed}
		if all != nil {
			m = &all[i]
		}
		switch {
		case unknown == nil || !unknown[i]:
			known++
		case m.Status == metadata.Unindexed:
			m.Status = metadata.Unknown
		}
		into[i].metadata = shownMetadata(ctx, tokens[i].standard, m)
	}
	return known, failure, nil
}

// uris sets the URIs of tokens, and calls the contracts for those that are not cached. unknown marks the tokens whose URI
// could not be read; it is nil if all were cached. failure is the error if none of the requested URIs could be read.
func (a *API) uris(ctx context.Context, of *Chain, tokens []nft, into []nftDetails) (unknown []bool, failure, err error) {
	var ask []contracts.Token
	var places []int
	for i := range tokens {
		t := &tokens[i]
		if uri, ok := of.URIs.RememberedURI(t.standard, t.contract, &t.id); ok {
			into[i].uri = uri
			continue
		}
		ask, places = append(ask, contracts.Token{Standard: t.standard, Contract: t.contract, ID: t.id}), append(places, i)
	}
	if len(ask) == 0 {
		return nil, nil, nil
	}
	unknown = make([]bool, len(tokens))
	found, err := of.URIs.TokenURIs(ctx, ask)
	switch {
	case err == nil:
	case ctx.Err() != nil || !ofToken(err):
		return nil, nil, err
	default:
		failure, found = err, make([]*string, len(ask))
	}
	for i, uri := range found {
		if uri != nil {
			into[places[i]].uri = *uri
			continue
		}
		unknown[places[i]] = true
		// Anyone can deploy a contract with many such tokens.
		a.log.Debug("the contract of a token does not report its URI", slog.Uint64("evmChainID", of.ChainID),
			slog.String("contract", ask[i].Contract.Hex()), slog.String("tokenID", ask[i].ID.Dec()), slog.Any("error", err))
	}
	return unknown, failure, nil
}

// ofToken reports whether an error may concern a single token, while the node answers for others.
func ofToken(err error) bool {
	var refused *node.RPCError
	return errors.As(err, &refused) || errors.Is(err, node.ErrMalformed) || errors.Is(err, context.DeadlineExceeded)
}

// size returns the approximate size of the details in an answer, in bytes.
func (d *nftDetails) size() int {
	m := &d.metadata
	return len(d.uri) + len(m.Name) + len(m.Symbol) + len(m.ImageURI) + len(m.Description) + len(m.AnimationURI) + len(m.ExternalURL) +
		len(m.Background) + len(m.Attributes) + len(m.Properties)
}

func shownMetadata(ctx context.Context, standard chain.Standard, m *metadata.Metadata) nftMetadata {
	shown := nftMetadata{
		IndexStatus: string(m.Status), Name: m.Name, Symbol: m.Symbol, ImageURI: m.Image, Description: m.Description,
		AnimationURI: m.AnimationURL, ExternalURL: m.ExternalURL, Background: m.BackgroundColor,
	}
	if m.Status == metadata.Indexed && !compat.Enabled(ctx) {
		// The documented form has this value in lower case.
		shown.IndexStatus = strings.ToLower(shown.IndexStatus)
	}
	if !m.Updated.IsZero() {
		shown.Updated = m.Updated.Unix()
	}
	if standard == chain.ERC721 {
		shown.Attributes = m.Attributes
	} else {
		shown.Decimals, shown.Properties = m.Decimals, m.Properties
	}
	return shown
}

func (d *directory) erc20(at common.Address) erc20Token {
	c := d.contracts[at]
	return erc20Token{Address: d.spelt(at), Name: c.Name, Symbol: c.Symbol, Decimals: *c.Decimals, LogoURI: d.listed(at).LogoURI, ERCType: typeERC20}
}

// erc721 returns a token in the API's format; owner may be nil.
func (d *directory) erc721(t nft, owner *common.Address, details *nftDetails) erc721Token {
	c := d.contracts[t.contract]
	shown := erc721Token{
		Address: d.spelt(t.contract), Name: c.Name, Symbol: c.Symbol, ERCType: typeERC721,
		TokenID: amount(t.id), TokenURI: details.uri, Metadata: &details.metadata,
	}
	if owner != nil {
		shown.OwnerAddress = d.spelt(*owner)
	}
	return shown
}

func (d *directory) erc1155(t nft, details *nftDetails) erc1155Token {
	return erc1155Token{Address: d.spelt(t.contract), ERCType: typeERC1155, TokenID: amount(t.id), TokenURI: details.uri, Metadata: &details.metadata}
}
