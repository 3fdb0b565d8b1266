package data

import (
	"context"

	"github.com/ava-labs/avalanchego/ids"

	chain "quorate/internal/chain/ledger"
)

// What an asset is made of: amounts, or tokens.
const (
	typeAmounts = "secp256k1"
	typeTokens  = "nft"
)

type assetAmount struct {
	AssetID      string `json:"assetId"`
	Name         string `json:"name"`
	Symbol       string `json:"symbol"`
	Denomination uint8  `json:"denomination"`
	Type         string `json:"type"`
	Amount       string `json:"amount"`
}

// assets are what is known of the assets of an answer, and how what it names is spelt.
type assets struct {
	known map[ids.ID]chain.Asset
	*spelling
}

// assets looks up the assets that an answer names. Nothing is known of those that
// were not made on the X-Chain, except for AVAX.
func (n *network) assets(ctx context.Context, named map[ids.ID]bool) (assets, error) {
	found := assets{
		known:    map[ids.ID]chain.Asset{n.AVAXAssetID: {ID: n.AVAXAssetID, Name: "Avalanche", Symbol: "AVAX", Denomination: 9}},
		spelling: n.spelling(),
	}
	var others []ids.ID
	for id := range named {
		if id != n.AVAXAssetID {
			others = append(others, id)
		}
	}
	if len(others) == 0 {
		return found, nil
	}
	known, err := n.Ledger.Assets(ctx, others)
	if err != nil {
		return assets{}, err
	}
	for _, asset := range known {
		if asset != nil {
			found.known[asset.ID] = *asset
		}
	}
	return found, nil
}

func (a assets) amount(id ids.ID, nft bool, amount string) assetAmount {
	of := a.known[id]
	kind := typeAmounts
	if nft {
		kind = typeTokens
	}
	return assetAmount{AssetID: a.id(id), Name: of.Name, Symbol: of.Symbol, Denomination: of.Denomination, Type: kind, Amount: amount}
}
