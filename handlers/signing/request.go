package signing

import (
	"encoding/hex"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/labstack/echo/v4"

	"quorate/aggregator"
	"quorate/handlers/apierr"
	"quorate/handlers/cb58"
	"quorate/handlers/jsonbody"
)

const (
	// maxJustification is the maximum length of a justification, in bytes. That of a message may be lower; see
	// aggregator.MaxJustification.
	maxJustification = 64 << 10
	// MaxWaitSeconds limits how long a request waits for a message that validators have not seen.
	MaxWaitSeconds = 60
)

// form holds the field names of one request format.
type form struct {
	message, justification, signingSubnetID                string
	quorumPercentage, quorumPercentageBuffer, pChainHeight string
	verifyingBlockchainID, waitSeconds                     string
	ignored                                                []string // accepted without effect
	// peer selects the lenient rules of the stand-alone aggregator; see decode.
	peer bool
}

var (
	dataForm = form{
		message:                "message",
		justification:          "justification",
		signingSubnetID:        "signingSubnetId",
		quorumPercentage:       "quorumPercentage",
		quorumPercentageBuffer: "quorumPercentageBuffer",
		pChainHeight:           "pChainHeight",
		verifyingBlockchainID:  "verifyingBlockchainId",
		waitSeconds:            "waitSeconds",
	}
	peerForm = form{
		message:                "message",
		justification:          "justification",
		signingSubnetID:        "signing-subnet-id",
		quorumPercentage:       "quorum-percentage",
		quorumPercentageBuffer: "quorum-percentage-buffer",
		pChainHeight:           "pchain-height",
		verifyingBlockchainID:  "verifying-blockchain-id",
		waitSeconds:            "wait-seconds",
		ignored:                []string{"skip-cache"}, // every message is verified before it leaves a cache
		peer:                   true,
	}
)

func (f form) names() []string {
	return append([]string{f.message, f.justification, f.signingSubnetID, f.quorumPercentage, f.quorumPercentageBuffer, f.pChainHeight,
		f.verifyingBlockchainID, f.waitSeconds}, f.ignored...)
}

// aliases maps names that clients use to those of the form.
func (f form) aliases() map[string]string {
	return map[string]string{"signingSubnet": f.signingSubnetID}
}

// read reads and decodes the body of the request.
func (a *API) read(c echo.Context, f form) (requestKey, *cachedRequest, error) {
	body, err := jsonbody.Read(c)
	if err != nil {
		return requestKey{}, nil, err
	}
	return a.cache.decode(body, f)
}

// decode parses a body. Its errors are *apierr.Error with status 400. The message names the invalid field.
//
// Both forms accept other spellings of known fields, for example p-chain-height and signingSubnet, because clients
// differ. Both refuse unknown fields, because a field that is ignored may mean another validator set than the client
// wants. In the peer form the all-zero subnet ID also means that the field is absent.
func decode(body []byte, f form) (aggregator.Request, error) {
	object, err := jsonbody.Parse(body, f.aliases(), f.names()...)
	if err != nil {
		return aggregator.Request{}, err
	}
	messageText, err := object.String(f.message)
	if err != nil {
		return aggregator.Request{}, err
	}
	justificationText, err := object.String(f.justification)
	if err != nil {
		return aggregator.Request{}, err
	}
	var req aggregator.Request
	messageBytes, err := parseHex(f.message, messageText)
	if err != nil {
		return aggregator.Request{}, err
	}
	if req.Justification, err = parseHex(f.justification, justificationText); err != nil {
		return aggregator.Request{}, err
	}
	if len(messageBytes) == 0 && len(req.Justification) == 0 {
		return aggregator.Request{}, apierr.BadRequest("%s and %s are both empty; send the unsigned Warp message in hex as %s", f.message, f.justification, f.message)
	}
	if len(messageBytes) == 0 {
		return aggregator.Request{}, apierr.BadRequest("%s: the Warp message could not be decoded: it is empty; a %s alone names nothing to sign, send the unsigned message with it", f.message, f.justification)
	}
	if len(req.Justification) > maxJustification {
		return aggregator.Request{}, apierr.BadRequest("%s has %d bytes, at most %d are allowed", f.justification, len(req.Justification), maxJustification)
	}
	if err := readOptions(object, f, &req); err != nil {
		return aggregator.Request{}, err
	}
	// Parse the message last, because only this check is expensive.
	if req.Message, err = parseMessage(f.message, messageBytes); err != nil {
		return aggregator.Request{}, err
	}
	if most := aggregator.MaxJustification(req.Message); most > 0 && len(req.Justification) > most {
		return aggregator.Request{}, apierr.BadRequest("%s has %d bytes; for this message, validators accept at most %d", f.justification, len(req.Justification), most)
	}
	return req, nil
}

// readOptions sets the signing subnet, the quorum, the height and the time to wait of a request.
func readOptions(object jsonbody.Object, f form, req *aggregator.Request) error {
	var err error
	if req.SigningSubnetID, err = readID(object, f.signingSubnetID, "subnet ID"); err != nil {
		return err
	}
	if f.peer && req.SigningSubnetID != nil && *req.SigningSubnetID == ids.Empty {
		req.SigningSubnetID = nil
	}
	if req.QuorumPercentage, err = object.Uint(f.quorumPercentage, 100); err != nil {
		return err
	}
	if req.QuorumPercentageBuffer, err = object.Uint(f.quorumPercentageBuffer, 100); err != nil {
		return err
	}
	source := ""
	if req.QuorumPercentage == 0 {
		req.QuorumPercentage = aggregator.DefaultQuorumPercentage
		source = ", the default"
	}
	if sum := req.QuorumPercentage + req.QuorumPercentageBuffer; sum > 100 {
		return apierr.BadRequest("%s (%d%s) and %s (%d) add up to %d; the sum must not exceed 100",
			f.quorumPercentage, req.QuorumPercentage, source, f.quorumPercentageBuffer, req.QuorumPercentageBuffer, sum)
	}
	if req.PChainHeight, err = readHeight(object, f); err != nil {
		return err
	}
	if req.VerifyingBlockchainID, err = verifyingBlockchain(object, f, req.PChainHeight); err != nil {
		return err
	}
	wait, err := object.Uint(f.waitSeconds, MaxWaitSeconds)
	if err != nil {
		return err
	}
	req.Wait = time.Duration(wait) * time.Second
	return nil
}

// readHeight parses a P-Chain height. Like 0, the maximum 64-bit number means the proposed height, as in avalanchego
// (vms/platformvm/api).
func readHeight(object jsonbody.Object, f form) (uint64, error) {
	height, err := object.Uint(f.pChainHeight, math.MaxUint64)
	if height == math.MaxUint64 {
		height = 0
	}
	return height, err
}

// parseHex decodes hex with or without 0x; empty text is no bytes.
func parseHex(name, text string) ([]byte, error) {
	digits := trimPrefix(text)
	notHex := func(r rune) bool {
		return (r < '0' || '9' < r) && (r < 'a' || 'f' < r) && (r < 'A' || 'F' < r)
	}
	if i := strings.IndexFunc(digits, notHex); i >= 0 {
		r, _ := utf8.DecodeRuneInString(digits[i:])
		return nil, apierr.BadRequest("%s is not hex: byte %d of the text is %q; only 0-9 and a-f are allowed, after an optional 0x",
			name, len(text)-len(digits)+i+1, r)
	}
	if len(digits)%2 != 0 {
		return nil, apierr.BadRequest("%s has an odd number of hex digits (%d); two make a byte, so one is missing or too many", name, len(digits))
	}
	b, err := hex.DecodeString(digits)
	if err != nil {
		return nil, apierr.BadRequest("%s is not hex", name)
	}
	return b, nil
}

func trimPrefix(text string) string {
	if len(text) >= 2 && text[0] == '0' && (text[1] == 'x' || text[1] == 'X') {
		return text[2:]
	}
	return text
}

// verifyingBlockchain parses the blockchain whose epoch selects the validator set; nil if it is absent. It excludes a
// height.
func verifyingBlockchain(object jsonbody.Object, f form, height uint64) (*ids.ID, error) {
	id, err := readID(object, f.verifyingBlockchainID, "blockchain ID")
	if err != nil {
		return nil, err
	}
	if id != nil && height != 0 {
		return nil, apierr.BadRequest("%s and %s both pick the validator set; give one of them", f.verifyingBlockchainID, f.pChainHeight)
	}
	return id, nil
}

// readID parses an ID in CB58 or as 32 bytes of hex; nil if it is absent. what describes the ID in errors.
func readID(object jsonbody.Object, name, what string) (*ids.ID, error) {
	text, err := object.String(name)
	if err != nil || text == "" {
		return nil, err
	}
	id, err := parseID(name, text, what)
	if err != nil {
		return nil, err
	}
	return &id, nil
}

// parseID parses an ID in CB58 or as 32 bytes of hex.
func parseID(name, text, what string) (ids.ID, error) {
	const hexLen = 2 * ids.IDLen
	digits := trimPrefix(text)
	if len(digits) == hexLen || len(digits) != len(text) {
		b, err := parseHex(name, text)
		if err != nil {
			return ids.Empty, err
		}
		id, err := ids.ToID(b)
		if err != nil {
			return ids.Empty, apierr.BadRequest("%s has %d bytes of hex; a %s has %d", name, len(b), what, ids.IDLen)
		}
		return id, nil
	}
	id, err := cb58.ID(text)
	if err != nil {
		return ids.Empty, apierr.BadRequest("%s: %q is no %s; give it as base58 with its checksum, as explorers show it, or as %d hex digits",
			name, apierr.Excerpt(text), what, hexLen)
	}
	return id, nil
}
