package signing

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/ava-labs/avalanchego/vms/platformvm/warp"

	"quorate/handlers/apierr"
)

// ParseMessage parses the message of a request.
func ParseMessage(b []byte) (*warp.UnsignedMessage, error) {
	m, err := parseMessage("the message", b)
	var known *apierr.Error
	if errors.As(err, &known) {
		return nil, errors.New(known.Message)
	}
	return m, err
}

// parseMessage parses an unsigned Warp message, or the data of the Warp precompile's log for it. It tries the log data
// first.
func parseMessage(name string, b []byte) (*warp.UnsignedMessage, error) {
	inner, wrapped := logData(b)
	if wrapped {
		if m, err := warp.ParseUnsignedMessage(inner); err == nil {
			return m, nil
		}
	}
	m, err := warp.ParseUnsignedMessage(b)
	if err == nil {
		return m, nil
	}
	if wrapped {
		return nil, apierr.BadRequest("%s is the data of a log, but what it wraps could not be decoded as an unsigned Warp message: %s", name, flaw(inner))
	}
	return nil, apierr.BadRequest("%s could not be decoded as an unsigned Warp message: %s", name, flaw(b))
}

// logData returns the message in the data of a SendWarpMessage log: the Solidity ABI encoding of exactly one dynamic
// bytes value. A raw message is never taken for it, since its network ID would be 0.
func logData(b []byte) ([]byte, bool) {
	const word = 32
	if len(b) < 2*word || len(b)%word != 0 {
		return nil, false
	}
	offset, ok := wordValue(b[:word])
	if !ok || offset != word {
		return nil, false
	}
	rest := b[2*word:]
	length, ok := wordValue(b[word : 2*word])
	if !ok || length > uint64(len(rest)) || uint64(len(rest))-length >= word {
		return nil, false
	}
	for _, padding := range rest[length:] {
		if padding != 0 {
			return nil, false
		}
	}
	return rest[:length], true
}

// wordValue returns the value of a 32-byte big-endian number, and false if it exceeds 64 bits.
func wordValue(w []byte) (uint64, bool) {
	for _, high := range w[:24] {
		if high != 0 {
			return 0, false
		}
	}
	return binary.BigEndian.Uint64(w[24:]), true
}

// flaw returns why b is not an unsigned message: codec version (2 bytes, 0), network ID (4), source blockchain ID
// (32), payload length (4), payload.
func flaw(b []byte) string {
	const header = 2 + 4 + 32 + 4
	if len(b) < header {
		return fmt.Sprintf("it has %d bytes, the shortest message has %d; send all of it", len(b), header)
	}
	if version := binary.BigEndian.Uint16(b); version != warp.CodecVersion {
		return fmt.Sprintf("it begins with codec version %d, only %d exists; send the unsigned message or the data of the SendWarpMessage log", version, warp.CodecVersion)
	}
	declared := uint64(binary.BigEndian.Uint32(b[header-4:]))
	present := uint64(len(b) - header)
	if declared > present {
		return fmt.Sprintf("its payload should have %d bytes and has %d; send all of it", declared, present)
	}
	if _, err := warp.ParseMessage(b); err == nil {
		return "it already carries a signature; send the unsigned message"
	}
	return fmt.Sprintf("%d bytes follow the end of its payload; remove them", present-declared)
}
