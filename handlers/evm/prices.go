package evm

import (
	"context"
	"encoding/json"
	"log/slog"
	"math/big"
	"strings"
	"time"

	"github.com/holiman/uint256"

	"github.com/ava-labs/libevm/common"

	"quorate/handlers/compat"
)

// Prices is a source of prices. It must be safe for concurrent use and return soon after ctx has ended.
type Prices interface {
	// Price returns the price of one token in a currency at a time, nil if it is unknown. A nil token means the native
	// token. The currency is one of the API's codes, for example usd.
	Price(ctx context.Context, chainID uint64, token *common.Address, currency string, at time.Time) (*big.Rat, error)
}

// currencies lists the API's currencies; the first is the default.
var currencies = []string{"usd", "eur", "aud", "cad", "chf", "clp", "cny", "czk", "dkk", "gbp", "hkd", "huf", "jpy", "nzd"}

type price struct {
	CurrencyCode string `json:"currencyCode"`
	// Value is a string in the documented form and a number in the generated clients' form.
	Value any `json:"value"`
}

// rate returns the price of a token, nil if it is unknown. An error is logged, and the answer has no price.
func (a *API) rate(ctx context.Context, of *Chain, token *common.Address, currency string, at time.Time) *big.Rat {
	if a.prices == nil {
		return nil
	}
	rate, err := a.prices.Price(ctx, of.ChainID, token, currency, at)
	if err != nil {
		a.log.LogAttrs(ctx, slog.LevelWarn, "no price", slog.Uint64("chainID", of.ChainID), slog.Any("token", token), slog.Any("error", err))
		return nil
	}
	return rate
}

func shownPrice(ctx context.Context, currency string, value *big.Rat) *price {
	if value == nil {
		return nil
	}
	text := value.FloatString(18)
	text = strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
	if compat.Enabled(ctx) {
		return &price{currency, json.Number(text)}
	}
	return &price{currency, text}
}

// worth returns the value of a balance, nil if the rate is nil.
func worth(balance *uint256.Int, decimals uint8, rate *big.Rat) *big.Rat {
	if rate == nil {
		return nil
	}
	unit := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(decimals)), nil)
	value := new(big.Rat).SetFrac(balance.ToBig(), unit)
	return value.Mul(value, rate)
}
