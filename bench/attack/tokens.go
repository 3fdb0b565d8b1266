package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"math/rand/v2"
	"net/url"

	"quorate/bench/rig"
)

const listPath = "/v1/networks/" + rig.NetworkName + "/blockchains/p-chain/utxos?pageSize=10&includeSpent=true&addresses="

// tokens sends page tokens that are changed, cut, extended or made up.
func tokens(ctx context.Context, t *target) error {
	_, content, err := t.do(ctx, listOutputs(t, 0))
	if err != nil {
		return err
	}
	var page struct{ NextPageToken string }
	if err := json.Unmarshal(content, &page); err != nil {
		return err
	}
	good, err := base64.RawURLEncoding.DecodeString(page.NextPageToken)
	if err != nil || len(good) == 0 {
		good = []byte(page.NextPageToken)
	}
	return repeat(ctx, 16, func(ctx context.Context, worker, turn int) {
		rng := rand.New(rand.NewPCG(uint64(worker), uint64(turn)))
		forged := append([]byte(nil), good...)
		switch turn % 4 {
		case 0:
			forged[rng.IntN(len(forged))] ^= byte(1 + rng.IntN(255))
		case 1:
			forged = forged[:1+rng.IntN(len(forged)-1)]
		case 2:
			forged = append(forged, byte(rng.Uint32()))
		default:
			forged = make([]byte, 1+rng.IntN(200))
			for i := range forged {
				forged[i] = byte(rng.Uint32())
			}
		}
		t.attack(ctx, request{path: listPath + t.owner + "&pageToken=" + url.QueryEscape(base64.RawURLEncoding.EncodeToString(forged))})
	})
}

// listOutputs is an honest request for the first page of a list.
func listOutputs(t *target, _ int) request {
	return request{from: honestFrom, path: listPath + t.owner}
}
