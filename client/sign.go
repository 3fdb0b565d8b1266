package client

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"strconv"
	"time"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp"
)

// SignOptions choose the signers of a message and the quorum. The zero value is 67% of the subnet
// of the source blockchain at the proposed P-Chain height.
type SignOptions struct {
	// SigningSubnetID is the subnet whose validators sign; nil means that of the source
	// blockchain. The primary network is ids.Empty.
	SigningSubnetID *ids.ID
	// QuorumPercentage is the weight that must sign, in percent; 0 means 67.
	QuorumPercentage uint64
	// QuorumPercentageBuffer is the weight to collect beyond the quorum if possible, in percent.
	QuorumPercentageBuffer uint64
	// PChainHeight selects the validator set; 0 means the proposed height. A destination verifies
	// against the set of its own epoch: see VerifyingBlockchainID.
	PChainHeight uint64
	// VerifyingBlockchainID selects, instead of PChainHeight, the P-Chain height of the current
	// epoch of the blockchain that will verify the message (ACP-181). The service's node must run
	// that blockchain.
	VerifyingBlockchainID *ids.ID
	// Wait is how long the service waits for a message that validators have not seen, in whole
	// seconds, rounded up, and at most 60 s.
	Wait time.Duration
}

// Request is a message to sign.
type Request struct {
	// Message is the unsigned Warp message, or the data of the Warp precompile's log that holds it.
	Message []byte
	// Justification is needed for some messages of the P-Chain.
	Justification []byte
	SignOptions
}

// requestBody is the JSON of a Request.
type requestBody struct {
	Message                string  `json:"message"`
	Justification          string  `json:"justification,omitempty"`
	SigningSubnetID        *ids.ID `json:"signingSubnetId,omitempty"`
	QuorumPercentage       uint64  `json:"quorumPercentage,omitempty"`
	QuorumPercentageBuffer uint64  `json:"quorumPercentageBuffer,omitempty"`
	PChainHeight           uint64  `json:"pChainHeight,omitempty"`
	VerifyingBlockchainID  *ids.ID `json:"verifyingBlockchainId,omitempty"`
	WaitSeconds            uint64  `json:"waitSeconds,omitempty"`
}

func (r Request) body() requestBody {
	return requestBody{
		Message: hex.EncodeToString(r.Message), Justification: hex.EncodeToString(r.Justification),
		SigningSubnetID: r.SigningSubnetID, QuorumPercentage: r.QuorumPercentage, QuorumPercentageBuffer: r.QuorumPercentageBuffer,
		PChainHeight: r.PChainHeight, VerifyingBlockchainID: r.VerifyingBlockchainID, WaitSeconds: r.waitSeconds(),
	}
}

func (o SignOptions) waitSeconds() uint64 {
	return uint64((max(0, o.Wait) + time.Second - 1) / time.Second)
}

// query returns the options as parameters of a URL, with the question mark.
func (o SignOptions) query() string {
	v := make(url.Values)
	for name, value := range map[string]uint64{
		"quorumPercentage": o.QuorumPercentage, "quorumPercentageBuffer": o.QuorumPercentageBuffer,
		"pChainHeight": o.PChainHeight, "waitSeconds": o.waitSeconds(),
	} {
		if value != 0 {
			v.Set(name, strconv.FormatUint(value, 10))
		}
	}
	for name, id := range map[string]*ids.ID{"signingSubnetId": o.SigningSubnetID, "verifyingBlockchainId": o.VerifyingBlockchainID} {
		if id != nil {
			v.Set(name, id.String())
		}
	}
	if len(v) == 0 {
		return ""
	}
	return "?" + v.Encode()
}

const signPath = "/aggregateSignatures"

// signedBody is the answer with one signed message.
type signedBody struct {
	SignedMessage string    `json:"signedMessage"`
	Delivery      *Delivery `json:"delivery"`
}

// Signed is a signed message and how the service got it.
type Signed struct {
	Message *warp.Message
	// Delivery is that of SignForDelivery.
	Delivery *Delivery
	// Summary is nil if the service sends none that this version can read.
	Summary *Summary
}

// Summary says who signed a message.
type Summary struct {
	// Signers counts the distinct BLS keys in the signature.
	Signers int `json:"signers"`
	// Weight is the weight of the signers, of TotalWeight.
	Weight      uint64 `json:"weight,string"`
	TotalWeight uint64 `json:"totalWeight,string"`
	// SigningSubnetID and PChainHeight name the validator set.
	SigningSubnetID ids.ID `json:"signingSubnetId"`
	PChainHeight    uint64 `json:"pChainHeight,string"`
	// FromCache reports that the message was signed before the request arrived.
	FromCache bool `json:"fromCache"`
}

// summaryHeader is the header of an answer with a Summary.
const summaryHeader = "Signing-Summary"

// Sign returns the signed message of r.
func (c *Client) Sign(ctx context.Context, r Request) (*warp.Message, error) {
	signed, err := c.SignInDetail(ctx, r)
	if err != nil {
		return nil, err
	}
	return signed.Message, nil
}

// SignForDelivery is Sign that also returns whether the blockchain that r names as VerifyingBlockchainID would accept the
// signed message. The Delivery is nil if r names none or the service does not check deliveries.
func (c *Client) SignForDelivery(ctx context.Context, r Request) (*warp.Message, *Delivery, error) {
	signed, err := c.SignInDetail(ctx, r)
	if err != nil {
		return nil, nil, err
	}
	return signed.Message, signed.Delivery, nil
}

// SignInDetail is Sign that also returns who signed.
func (c *Client) SignInDetail(ctx context.Context, r Request) (*Signed, error) {
	return c.sign(ctx, signPath, r.body(), r.signed)
}

// sign sends a request for one signed message, which parse parses and checks.
func (c *Client) sign(ctx context.Context, path string, body any, parse func(string) (*warp.Message, error)) (*Signed, error) {
	var reply signedBody
	header, err := c.call(ctx, path, body, &reply)
	if err != nil {
		return nil, err
	}
	signed := &Signed{Delivery: reply.Delivery}
	if signed.Message, err = parse(reply.SignedMessage); err != nil {
		return nil, err
	}
	if text := header.Get(summaryHeader); text != "" {
		var summary Summary
		if json.Unmarshal([]byte(text), &summary) == nil { // the message is good without it
			signed.Summary = &summary
		}
	}
	return signed, nil
}

// Result is the outcome of one request of a batch: Message, or Err, which is an *Error. Delivery is that of
// SignForDelivery.
type Result struct {
	Message  *warp.Message
	Delivery *Delivery
	Err      error
}

// SignBatch signs up to 100 messages in parallel and returns their results in the order of the
// requests. It fails as a whole only if the service refuses the batch. It does not repeat single
// requests that failed.
func (c *Client) SignBatch(ctx context.Context, requests []Request) ([]Result, error) {
	bodies := make([]requestBody, len(requests))
	for i, r := range requests {
		bodies[i] = r.body()
	}
	var reply struct {
		Results []struct {
			signedBody
			failure
		} `json:"results"`
	}
	if _, err := c.call(ctx, signPath+":batch", map[string]any{"requests": bodies}, &reply); err != nil {
		return nil, err
	}
	if len(reply.Results) != len(requests) {
		return nil, badAnswer("it has %d results for %d requests", len(reply.Results), len(requests))
	}
	results := make([]Result, len(requests))
	for i, one := range reply.Results {
		if one.SignedMessage == "" {
			results[i].Err = one.error()
			continue
		}
		var err error
		if results[i].Message, err = requests[i].signed(one.SignedMessage); err != nil {
			return nil, err
		}
		results[i].Delivery = one.Delivery
	}
	return results, nil
}

// SignTransaction returns the signed message that follows from a P-Chain transaction: the
// conversion of a subnet to an L1, the registration of an L1 validator, or a change of its weight.
//
// The client checks that the message is one of the P-Chain. It cannot check that it follows from
// the transaction; compare its payload with what you expect.
func (c *Client) SignTransaction(ctx context.Context, txID ids.ID) (*warp.Message, error) {
	signed, err := c.SignTransactionInDetail(ctx, txID)
	if err != nil {
		return nil, err
	}
	return signed.Message, nil
}

// SignTransactionInDetail is SignTransaction that also returns who signed. Delivery is nil.
func (c *Client) SignTransactionInDetail(ctx context.Context, txID ids.ID) (*Signed, error) {
	return c.sign(ctx, signPath+"/"+txID.String(), nil, func(text string) (*warp.Message, error) {
		signed, err := parseSigned(text)
		if err != nil {
			return nil, err
		}
		if source := signed.SourceChainID; source != ids.Empty { // the P-Chain's ID
			return nil, badAnswer("its message is one of blockchain %s, not of the P-Chain", source)
		}
		return signed, nil
	})
}

// CChain names the C-Chain in SignEVMTransaction.
const CChain = "c-chain"

// Sent is a message that an EVM transaction sent, with the outcome of signing it: Signed, or Err,
// which is an *Error. Delivery is that of SignForDelivery.
type Sent struct {
	// LogIndex is the index of the message's log in its block.
	LogIndex uint64
	Unsigned *warp.UnsignedMessage
	Signed   *warp.Message
	Delivery *Delivery
	Err      error
}

// SignEVMTransaction signs the messages that an accepted transaction sent on the C-Chain or an
// EVM chain that the service is configured with, and returns them in the order of their logs.
// chain is CChain, or the chain's blockchain ID or EVM chain ID.
//
// The client cannot check that the transaction sent these messages; that needs its receipt.
func (c *Client) SignEVMTransaction(ctx context.Context, chain string, txHash [32]byte, o SignOptions) ([]Sent, error) {
	var reply struct {
		Messages []struct {
			signedBody
			MessageID       ids.ID   `json:"messageId"`
			LogIndex        uint64   `json:"logIndex"`
			UnsignedMessage string   `json:"unsignedMessage"`
			Error           *failure `json:"error"`
		} `json:"messages"`
	}
	path := "/blockchains/" + url.PathEscape(chain) + "/transactions/0x" + hex.EncodeToString(txHash[:]) + "/messages" + o.query()
	if _, err := c.call(ctx, path, nil, &reply); err != nil {
		return nil, err
	}
	sent := make([]Sent, len(reply.Messages))
	for i, m := range reply.Messages {
		raw, err := hex.DecodeString(m.UnsignedMessage)
		if err != nil {
			return nil, badAnswer("unsigned message %d is not hex: %v", i, err)
		}
		s := Sent{LogIndex: m.LogIndex, Delivery: m.Delivery}
		if s.Unsigned, err = warp.ParseUnsignedMessage(raw); err != nil {
			return nil, badAnswer("unsigned message %d cannot be parsed: %v", i, err)
		}
		if id := s.Unsigned.ID(); id != m.MessageID {
			return nil, badAnswer("unsigned message %d has ID %s, not %s", i, id, m.MessageID)
		}
		if m.Error != nil {
			s.Err = m.Error.error()
		} else if s.Signed, err = (Request{Message: raw}).signed(m.SignedMessage); err != nil {
			return nil, err
		}
		sent[i] = s
	}
	return sent, nil
}

// signed parses a signed message and checks that it is the one that r asks for.
func (r Request) signed(text string) (*warp.Message, error) {
	signed, err := parseSigned(text)
	if err != nil {
		return nil, err
	}
	if unsigned := signed.UnsignedMessage.Bytes(); !bytes.Equal(r.Message, unsigned) && !bytes.Equal(r.Message, logData(unsigned)) {
		return nil, badAnswer("its signed message %s is not the one of the request", signed.UnsignedMessage.ID())
	}
	return signed, nil
}

// parseSigned parses a signed message, which must have signers.
func parseSigned(text string) (*warp.Message, error) {
	raw, err := hex.DecodeString(text)
	if err != nil {
		return nil, badAnswer("its signed message is not hex: %v", err)
	}
	signed, err := warp.ParseMessage(raw)
	if err != nil {
		return nil, badAnswer("its signed message cannot be parsed: %v", err)
	}
	signers, err := signed.Signature.NumSigners()
	if err != nil {
		return nil, badAnswer("its signed message cannot be parsed: %v", err)
	}
	if signers == 0 {
		return nil, badAnswer("its signed message has no signers")
	}
	return signed, nil
}

// logData returns the data of the Warp precompile's log with a message: the Solidity ABI encoding
// of one value of type bytes.
func logData(message []byte) []byte {
	const word = 32
	data := make([]byte, 2*word, 3*word+len(message))
	data[word-1] = word
	binary.BigEndian.PutUint64(data[2*word-8:], uint64(len(message)))
	data = append(data, message...)
	return append(data, make([]byte, -len(message)&(word-1))...)
}
