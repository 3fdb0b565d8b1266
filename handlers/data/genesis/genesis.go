// Package genesis converts the genesis of an EVM blockchain to the format of the Data API. Anyone may create a
// blockchain with any genesis, and clients refuse a page with one field of an undocumented type. The package therefore
// converts or omits fields of other types.
package genesis

import (
	"bytes"
	"encoding/json"
	"maps"
	"math/big"
	"slices"
	"strings"
)

// EVM is the genesis of an EVM blockchain.
type EVM struct {
	members map[string]json.RawMessage
	config  map[string]json.RawMessage
	chainID *big.Int
}

// Parse parses a genesis; ok is false if it does not belong to an EVM blockchain: a JSON object whose field config has
// a number chainId.
func Parse(b []byte) (g *EVM, ok bool) {
	if trimmed := bytes.TrimLeft(b, " \t\r\n"); len(trimmed) == 0 || trimmed[0] != '{' {
		return nil, false // most other geneses end here
	}
	g = new(EVM)
	if json.Unmarshal(b, &g.members) != nil || !object(g.members["config"], &g.config) {
		return nil, false
	}
	id := g.config["chainId"]
	if kindOf(id) != 'n' {
		return nil, false
	}
	if g.chainID, ok = integer(string(id)); !ok {
		return nil, false
	}
	return g, true
}

// ChainID returns the EVM chain ID, of up to 256 bits.
func (g *EVM) ChainID() json.Number { return json.Number(g.chainID.String()) }

// Types of the fields in answers.
var (
	hexMembers = []string{
		"airdropHash", "coinbase", "difficulty", "extraData", "gasLimit", "gasUsed",
		"mixHash", "nonce", "number", "parentHash", "timestamp",
	}
	// quantityMembers are numbers in the generated clients' form.
	quantityMembers = []string{"airdropAmount", "baseFeePerGas"}
	blobMembers     = []string{"blobGasUsed", "excessBlobGas"}
	forkMembers     = []string{
		"berlinBlock", "byzantiumBlock", "chainId", "constantinopleBlock", "eip150Block", "eip155Block", "eip158Block",
		"homesteadBlock", "istanbulBlock", "londonBlock", "muirGlacierBlock", "petersburgBlock", "subnetEVMTimestamp",
	}
	feeMembers = []string{
		"baseFeeChangeDenominator", "blockGasCostStep", "gasLimit", "maxBlockGasCost",
		"minBaseFee", "minBlockGasCost", "targetBlockRate", "targetGas",
	}
	permissionMembers = []string{
		"contractDeployerAllowListConfig", "contractNativeMinterConfig", "feeManagerConfig", "rewardManagerConfig", "txAllowListConfig",
	}
	permissionLists = []string{"adminAddresses", "managerAddresses", "enabledAddresses"}
)

// Data returns the genesis in the API's format, for encoding as JSON. In the generated clients' form airdropAmount and
// baseFeePerGas are numbers; in the documented form they are hex strings.
func (g *EVM) Data(clientsForm bool) map[string]any {
	out := make(map[string]any)
	for _, name := range hexMembers {
		if s, ok := text(g.members[name]); ok {
			out[name] = s
		}
	}
	for _, name := range quantityMembers {
		raw := g.members[name]
		if kindOf(raw) == '0' {
			out[name] = nil
			continue
		}
		n, ok := quantity(raw)
		switch {
		case !ok:
		case clientsForm:
			out[name] = json.Number(n.String())
		default:
			out[name] = hexOf(n)
		}
	}
	for _, name := range blobMembers {
		if s, ok := text(g.members[name]); ok {
			out[name] = s
		} else if kindOf(g.members[name]) == '0' {
			out[name] = nil
		}
	}
	var accounts map[string]json.RawMessage
	if object(g.members["alloc"], &accounts) {
		out["alloc"] = alloc(accounts)
	}
	out["config"] = g.configData()
	return out
}

func (g *EVM) configData() map[string]any {
	out := numbers(g.config, forkMembers)
	if at, ok := out["subnetEVMTimestamp"]; ok {
		out["subnetVmTimestamp"] = at // the documented name
	}
	if s, ok := text(g.config["eip150Hash"]); ok {
		out["eip150Hash"] = s
	}
	if b, ok := boolean(g.config["allowFeeRecipients"]); ok {
		out["allowFeeRecipients"] = b
	}
	var members map[string]json.RawMessage
	if object(g.config["feeConfig"], &members) {
		out["feeConfig"] = numbers(members, feeMembers)
	}
	if object(g.config["warpConfig"], &members) {
		warp := numbers(members, []string{"blockTimestamp", "quorumNumerator"})
		if b, ok := boolean(members["requirePrimaryNetworkSigners"]); ok {
			warp["requirePrimaryNetworkSigners"] = b
		}
		out["warpConfig"] = warp
	}
	for _, name := range permissionMembers {
		if !object(g.config[name], &members) {
			continue
		}
		permission := numbers(members, []string{"blockTimestamp"})
		for _, list := range permissionLists {
			if addresses, ok := texts(members[list]); ok {
				permission[list] = addresses
			}
		}
		out[name] = permission
	}
	return out
}

func alloc(accounts map[string]json.RawMessage) map[string]any {
	out := make(map[string]any, len(accounts))
	// Sort, so that the result for two spellings of an address is deterministic.
	for _, address := range slices.Sorted(maps.Keys(accounts)) {
		var members, slots map[string]json.RawMessage
		if !object(accounts[address], &members) {
			continue
		}
		account := make(map[string]any)
		for _, name := range []string{"balance", "code"} {
			if s, ok := text(members[name]); ok {
				account[name] = s
			}
		}
		if object(members["storage"], &slots) {
			storage := make(map[string]string, len(slots))
			for slot, value := range slots {
				if s, ok := text(value); ok {
					storage[slot] = s
				}
			}
			account["storage"] = storage
		}
		address = strings.ToLower(address)
		if !strings.HasPrefix(address, "0x") {
			address = "0x" + address
		}
		out[address] = account
	}
	return out
}

// numbers returns those of the named fields that are integers which a double represents exactly.
func numbers(members map[string]json.RawMessage, names []string) map[string]any {
	out := make(map[string]any)
	for _, name := range names {
		n, ok := quantity(members[name])
		if !ok {
			continue
		}
		if _, accuracy := new(big.Float).SetInt(n).Float64(); accuracy == big.Exact {
			out[name] = json.Number(n.String())
		}
	}
	return out
}

// kindOf returns a letter for the type of a JSON value: o for an object, l for a list, s for a string, n for a number, b
// for a boolean, 0 for null; 0 as a number without a value.
func kindOf(raw json.RawMessage) byte {
	if len(raw) == 0 {
		return 0
	}
	switch raw[0] {
	case '{':
		return 'o'
	case '[':
		return 'l'
	case '"':
		return 's'
	case 't', 'f':
		return 'b'
	case 'n':
		return '0'
	default:
		return 'n'
	}
}

// object parses the fields of an object; into is empty if it is none.
func object(raw json.RawMessage, into *map[string]json.RawMessage) bool {
	*into = nil
	return kindOf(raw) == 'o' && json.Unmarshal(raw, into) == nil
}

// text returns a string unchanged, and a number in hex.
func text(raw json.RawMessage) (string, bool) {
	switch kindOf(raw) {
	case 's':
		var s string
		return s, json.Unmarshal(raw, &s) == nil
	case 'n':
		n, ok := integer(string(raw))
		if !ok || n.Sign() < 0 {
			return "", false
		}
		return hexOf(n), true
	}
	return "", false
}

// texts returns the strings of a list.
func texts(raw json.RawMessage) ([]string, bool) {
	var members []json.RawMessage
	if kindOf(raw) != 'l' || json.Unmarshal(raw, &members) != nil {
		return nil, false
	}
	out := []string{}
	for _, m := range members {
		if s, ok := text(m); ok && kindOf(m) == 's' {
			out = append(out, s)
		}
	}
	return out, true
}

func boolean(raw json.RawMessage) (value, ok bool) {
	return len(raw) > 0 && raw[0] == 't', kindOf(raw) == 'b'
}

// quantity returns a number, or the number in a decimal or hex string.
func quantity(raw json.RawMessage) (*big.Int, bool) {
	switch kindOf(raw) {
	case 'n':
		return integer(string(raw))
	case 's':
		s, ok := text(raw)
		if !ok {
			return nil, false
		}
		if hex, ok := cutHexPrefix(s); ok {
			return digits(hex, 16)
		}
		return digits(s, 10)
	}
	return nil, false
}

func cutHexPrefix(s string) (string, bool) {
	if len(s) > 2 && s[0] == '0' && (s[1] == 'x' || s[1] == 'X') {
		return s[2:], true
	}
	return s, false
}

func hexOf(n *big.Int) string { return "0x" + n.Text(16) }

// mostDigits is more than the number of decimal digits of 256 bits.
const mostDigits = 80

func digits(s string, base int) (*big.Int, bool) {
	if s == "" || len(s) > mostDigits || strings.Trim(s, "0123456789abcdefABCDEF") != "" {
		return nil, false
	}
	return bounded(new(big.Int).SetString(s, base))
}

// integer returns the value of a JSON number without a fraction, in any notation.
func integer(literal string) (*big.Int, bool) {
	if len(literal) > mostDigits {
		return nil, false
	}
	if _, power, ok := strings.Cut(strings.ToLower(literal), "e"); ok && len(strings.TrimLeft(power, "+-0")) > 2 {
		return nil, false // more than 10^99
	}
	r, ok := new(big.Rat).SetString(literal)
	if !ok || !r.IsInt() {
		return nil, false
	}
	return bounded(r.Num(), true)
}

// bounded drops values of more than 256 bits.
func bounded(n *big.Int, ok bool) (*big.Int, bool) {
	if !ok || n.Sign() < 0 || n.BitLen() > 256 {
		return nil, false
	}
	return n, true
}
