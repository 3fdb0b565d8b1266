package data

import (
	"context"

	"github.com/ava-labs/avalanchego/ids"

	"quorate/handlers/compat"
	chain "quorate/internal/chain/ledger"
)

// Kinds of assets: amounts, or tokens.
const (
	typeAmounts = "secp256k1"
	typeTokens  = "nft"
)

type assetAmount struct {
	AssetID string `json:"assetId"`
	*assetNames
	Type   string `json:"type"`
	Amount string `json:"amount"`
}

// assetNames holds the name, symbol and denomination of an asset. They are nil while the index of the X-Chain, which
// creates assets, may not have reached the asset.
type assetNames struct {
	Name         string `json:"name"`
	Symbol       string `json:"symbol"`
	Denomination uint8  `json:"denomination"`
}

// assets holds the known assets of an answer and the texts of its IDs.
type assets struct {
	known map[ids.ID]chain.Asset
	// whole reports that the X-Chain's index is complete, so that other assets are unknown for good.
	whole bool
	*spelling
	preCortina preCortina
}

// assets looks up the assets of an answer. Only assets of the X-Chain, and AVAX, are known.
func (n *network) assets(ctx context.Context, named map[ids.ID]bool) (assets, error) {
	found := assets{
		known:    map[ids.ID]chain.Asset{n.AVAXAssetID: {ID: n.AVAXAssetID, Name: "Avalanche", Symbol: "AVAX", Denomination: 9}},
		spelling: n.spelling(),
	}
	var err error
	if found.preCortina, err = n.preCortina(ctx); err != nil {
		return assets{}, err
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
	behind := n.behind(ctx, n.chains[1], nil)
	found.whole = behind == nil
	known, err := n.Ledger.Assets(ctx, others)
	if err != nil {
		return assets{}, err
	}
	for _, asset := range known {
		switch {
		case asset != nil:
			found.known[asset.ID] = *asset
		case behind != nil && compat.Enabled(ctx):
			return assets{}, behind // the generated clients refuse an answer with an asset without a name
		}
	}
	return found, nil
}

func (a assets) amount(id ids.ID, nft bool, amount string) assetAmount {
	of, known := a.known[id]
	kind := typeAmounts
	if nft {
		kind = typeTokens
	}
	shown := assetAmount{AssetID: a.id(id), Type: kind, Amount: amount}
	if known || a.whole {
		shown.assetNames = &assetNames{of.Name, of.Symbol, of.Denomination}
	}
	return shown
}
