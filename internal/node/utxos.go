package node

import (
	"context"
	"fmt"

	"github.com/ava-labs/avalanchego/api"
	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/formatting"
	"github.com/ava-labs/avalanchego/utils/formatting/address"
)

// utxoCalls maps a chain's alias to the method that lists its outputs.
var utxoCalls = map[string]struct{ path, method string }{
	"P": {platformPath, "platform.getUTXOs"},
	"X": {xChainPath, "avm.getUTXOs"},
	"C": {"/ext/bc/C/avax", "avax.getUTXOs"},
}

const (
	// utxoPage is the largest number of outputs in one reply of a node.
	utxoPage = 1024
	// mostUTXOs is the largest number of outputs that UTXOs returns.
	mostUTXOs = 64 * utxoPage
)

// UTXOs returns the outputs on a chain (P, X or C) with an address among their owners, in
// codec form. They may need further signatures or be locked. If source is another chain's
// alias, UTXOs returns the outputs exported from there that wait to be imported. Stakes are
// not included. hrp is the network's (constants.GetHRP). More than 65,536 outputs are
// ErrMalformed.
func (c *Client) UTXOs(ctx context.Context, chain, source, hrp string, owner ids.ShortID) ([][]byte, error) {
	call, ok := utxoCalls[chain]
	if !ok {
		return nil, fmt.Errorf("chain %q has no outputs", chain)
	}
	text, err := address.Format(chain, hrp, owner[:])
	if err != nil {
		return nil, fmt.Errorf("address %s: %w", owner, err)
	}
	args := api.GetUTXOsArgs{Addresses: []string{text}, Limit: utxoPage, Encoding: formatting.Hex}
	if source != chain {
		args.SourceChain = source
	}
	var utxos [][]byte
	for {
		var reply api.GetUTXOsReply
		if err := c.Call(ctx, call.path, call.method, args, &reply); err != nil {
			return nil, err
		}
		for _, one := range reply.UTXOs {
			b, err := decodeBytes(call.method, reply.Encoding, one)
			if err != nil {
				return nil, err
			}
			utxos = append(utxos, b)
		}
		if len(reply.UTXOs) < utxoPage {
			return utxos, nil
		}
		if len(utxos) >= mostUTXOs {
			return nil, fmt.Errorf("%s: %w: more than %d outputs", call.method, ErrMalformed, mostUTXOs)
		}
		args.StartIndex = reply.EndIndex
	}
}
