package console

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"time"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp/message"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp/payload"

	"quorate/internal/chain/evm"
)

// maxShownBytes is the number of bytes of a payload that a list shows.
const maxShownBytes = 256

// payloadView is a decoded payload. Kind and Title describe it; Fields are its parts in order.
type payloadView struct {
	// Kind is addressedCall, hash or unknown.
	Kind   string      `json:"kind"`
	Title  string      `json:"title"`
	Fields []fieldView `json:"fields"`
}

// fieldView is a part of a payload. Kind says what the value is, so that pages can link it: address, blockchain, subnet,
// node, hex, time (in seconds since 1970) or empty.
type fieldView struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	Kind  string `json:"kind,omitempty"`
}

// newPayloadView decodes the payload of a message.
func newPayloadView(m *warp.UnsignedMessage) payloadView {
	parsed, err := payload.Parse(m.Payload)
	if err != nil {
		return payloadView{"unknown", "Unknown payload", []fieldView{hexField("Payload", m.Payload)}}
	}
	switch p := parsed.(type) {
	case *payload.Hash:
		return payloadView{"hash", "Block hash", []fieldView{hexField("Hash", p.Hash[:])}}
	case *payload.AddressedCall:
		title, fields := decodeCall(m, p)
		if len(p.SourceAddress) > 0 {
			fields = append([]fieldView{cutField("Source address", p.SourceAddress, "address")}, fields...)
		}
		return payloadView{"addressedCall", title, fields}
	}
	return payloadView{"unknown", "Unknown payload", []fieldView{hexField("Payload", m.Payload)}}
}

// decodeCall decodes an addressed call: a statement about L1 validators, a message of Teleporter, or anything else. Only
// the P-Chain and the manager of an L1 make statements, but all of them have the form of statements.
func decodeCall(m *warp.UnsignedMessage, p *payload.AddressedCall) (string, []fieldView) {
	if string(p.SourceAddress) == string(evm.Teleporter[:]) {
		if icm, destination, ok := evm.ParseICMMessage(p.Payload); ok {
			return "Teleporter message", teleporterFields(m.SourceChainID, destination, icm)
		}
	}
	if statement, err := message.Parse(p.Payload); err == nil {
		if title, fields := statementFields(statement); title != "" {
			return title, fields
		}
	}
	return "Addressed call", []fieldView{hexField("Payload", p.Payload)}
}

func teleporterFields(source, destination ids.ID, m *evm.ICMMessage) []fieldView {
	return []fieldView{
		{"Message ID", evm.ICMMessageID(source, destination, &m.Nonce).Hex(), "icm"},
		{"Destination", destination.String(), "blockchain"},
		{"Sender", m.Sender.Hex(), "address"},
		{"Recipient", m.Recipient.Hex(), "address"},
		{"Nonce", m.Nonce.Dec(), ""},
		{"Gas limit", m.GasLimit.Dec(), "number"},
		{"Receipts", strconv.Itoa(len(m.Receipts)), ""},
		hexField("Data", m.Data),
	}
}

// statementFields describes a statement about L1 validators. The title is empty if it is of another kind.
func statementFields(statement message.Payload) (string, []fieldView) {
	switch s := statement.(type) {
	case *message.SubnetToL1Conversion:
		return "Conversion of a subnet to an L1", []fieldView{{"Conversion ID", s.ID.String(), ""}}
	case *message.RegisterL1Validator:
		node := cutField("Node", s.NodeID, "hex")
		if id, err := ids.ToNodeID(s.NodeID); err == nil {
			node = fieldView{"Node", id.String(), "node"}
		}
		return "Registration of an L1 validator", []fieldView{
			{"Subnet", s.SubnetID.String(), "subnet"}, node,
			{"Weight", strconv.FormatUint(s.Weight, 10), "number"},
			{"Valid until", expiry(s.Expiry), "time"},
			{"Validation ID", s.ValidationID().String(), ""},
			{"BLS key", "0x" + hex.EncodeToString(s.BLSPublicKey[:]), "hex"},
			owner("Owner of the remaining balance", s.RemainingBalanceOwner),
			owner("May disable it", s.DisableOwner),
		}
	case *message.L1ValidatorRegistration:
		title := "An L1 validator is registered"
		if !s.Registered {
			title = "An L1 validator is not registered"
		}
		return title, []fieldView{{"Validation ID", s.ValidationID.String(), ""}, {"Registered", strconv.FormatBool(s.Registered), ""}}
	case *message.L1ValidatorWeight:
		return "Weight of an L1 validator", []fieldView{
			{"Validation ID", s.ValidationID.String(), ""},
			{"Weight", strconv.FormatUint(s.Weight, 10), "number"},
			{"Nonce", strconv.FormatUint(s.Nonce, 10), ""},
		}
	}
	return "", nil
}

// expiry returns a time in seconds since 1970, at most the year 9999, which is as far as pages can show it.
func expiry(seconds uint64) string {
	return strconv.FormatUint(min(seconds, uint64(time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC).Unix())), 10)
}

func owner(name string, o message.PChainOwner) fieldView {
	return fieldView{name, fmt.Sprintf("%d of %d addresses", o.Threshold, len(o.Addresses)), ""}
}

// hexField shows bytes and how many they are, shortened if there are many.
func hexField(name string, b []byte) fieldView {
	if len(b) <= maxShownBytes {
		name = fmt.Sprintf("%s, %d bytes", name, len(b))
	}
	return cutField(name, b, "hex")
}

// cutField shows bytes of a kind. Too many bytes are shortened and of no kind but hex: the sender chose their number.
func cutField(name string, b []byte, kind string) fieldView {
	if len(b) > maxShownBytes {
		return fieldView{fmt.Sprintf("%s, the first %d of %d bytes", name, maxShownBytes, len(b)), hexOf(b[:maxShownBytes]) + "…", "hex"}
	}
	return fieldView{name, hexOf(b), kind}
}
