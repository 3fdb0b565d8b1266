package evm

import (
	"bytes"
	"slices"

	"github.com/ava-labs/libevm/common"
	"github.com/ava-labs/libevm/crypto"
	"github.com/ava-labs/libevm/rlp"
)

// fieldKind is the encoding of a header field.
type fieldKind uint8

const (
	fieldQuantity fieldKind = iota
	fieldData
)

// headerFields lists the fields of headers by their Ethereum API names, in hash order (avalanchego graft/coreth and
// graft/subnet-evm, plugin/evm/customtypes). Fields after extDataHash are optional: they are omitted at the end and
// empty before a present field. Headers of subnet-evm lack the fields that begin with extData.
var headerFields = [...]struct {
	name string
	kind fieldKind
}{
	{"parentHash", fieldData}, {"sha3Uncles", fieldData}, {"miner", fieldData}, {"stateRoot", fieldData},
	{"transactionsRoot", fieldData}, {"receiptsRoot", fieldData}, {"logsBloom", fieldData}, {"difficulty", fieldQuantity},
	{"number", fieldQuantity}, {"gasLimit", fieldQuantity}, {"gasUsed", fieldQuantity}, {"timestamp", fieldQuantity},
	{"extraData", fieldData}, {"mixHash", fieldData}, {"nonce", fieldData},
	{"extDataHash", fieldData},
	{"baseFeePerGas", fieldQuantity}, {"extDataGasUsed", fieldQuantity}, {"blockGasCost", fieldQuantity}, {"blobGasUsed", fieldQuantity},
	{"excessBlobGas", fieldQuantity}, {"parentBeaconBlockRoot", fieldData}, {"timestampMilliseconds", fieldQuantity}, {"minDelayExcess", fieldQuantity},
	{"targetExponent", fieldQuantity}, {"minPriceExponent", fieldQuantity},
	{"settledHeight", fieldQuantity}, {"settledGasUnix", fieldQuantity}, {"settledGasNumerator", fieldQuantity}, {"settledExcess", fieldQuantity},
}

// Indexes in headerFields.
const (
	parentField         = 0
	transactionsField   = 4
	receiptsField       = 5
	numberField         = 8
	gasLimitField       = 9
	timeField           = 11
	extDataHashField    = 15
	baseFeeField        = 16
	extDataGasUsedField = 17
	gasCostField        = 18
	millisecondsField   = 22
	delayField          = 23
	settledField        = 26
)

// header collects the fields of a block header.
type header struct {
	fields [len(headerFields)][]byte // bytes; quantities without leading zeros
	has    [len(headerFields)]bool   // and not null
	named  [len(headerFields)]bool
}

// field reads a field of a block and reports whether it is a header field.
func (h *header) field(s *jsonScanner, name []byte) {
	i := slices.IndexFunc(headerFields[:], func(f struct {
		name string
		kind fieldKind
	}) bool {
		return f.name == string(name)
	})
	if i < 0 {
		// The field is not part of the header, or belongs to a newer header version; then the hash check fails.
		s.skip()
		return
	}
	if h.named[i] {
		s.fail("%s is there twice", name)
		return
	}
	h.named[i] = true
	h.has[i] = s.optional(func() {
		if headerFields[i].kind == fieldQuantity {
			n := s.big()
			h.fields[i] = n.Bytes()
			return
		}
		h.fields[i] = s.data()
	})
}

// imply makes fields present that must be: in the hash, an absent optional field before a present one is 0, so a node can
// leave it out and the hash stays right.
func (h *header) imply() {
	for _, i := range []int{baseFeeField, settledField} {
		h.has[i] = h.has[i] || slices.Contains(h.has[i+1:], true)
	}
}

// hash returns the block hash. It returns false if a required field is missing.
func (h *header) hash() (common.Hash, bool) {
	last := 0
	for i := range headerFields {
		if i < extDataHashField && !h.has[i] {
			return common.Hash{}, false
		}
		if h.has[i] {
			last = i
		}
	}
	var out bytes.Buffer
	w := rlp.NewEncoderBuffer(&out)
	list := w.List()
	for i := range last + 1 {
		if (i == extDataHashField || i == extDataGasUsedField) && !h.has[extDataHashField] {
			continue
		}
		w.WriteBytes(h.fields[i])
	}
	w.ListEnd(list)
	if err := w.Flush(); err != nil {
		return common.Hash{}, false
	}
	return crypto.Keccak256Hash(out.Bytes()), true
}
