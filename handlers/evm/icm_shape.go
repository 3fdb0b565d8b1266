package evm

import (
	"context"
	"encoding/hex"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/libevm/common"

	chain "quorate/internal/chain/evm"
	"quorate/internal/index/evm"
)

// Values of the field status.
const (
	icmPending          = "pending"
	icmDelivered        = "delivered"
	icmSourceNotIndexed = "delivered_source_not_indexed"
)

// shownICM is an ICM message in an answer. The generated clients require all fields but data, the transactions that
// status excludes, and lifecycle, which they do not know. What is unknown is then an empty text.
type shownICM struct {
	MessageID          string          `json:"messageId"`
	Contract           string          `json:"icmContractAddress"`
	Source             string          `json:"sourceBlockchainId"`
	Destination        string          `json:"destinationBlockchainId"`
	SourceChainID      string          `json:"sourceEvmChainId"`
	DestinationChainID string          `json:"destinationEvmChainId"`
	Nonce              string          `json:"messageNonce"`
	From               string          `json:"from"`
	To                 string          `json:"to"`
	Data               string          `json:"data"`
	Executed           bool            `json:"messageExecuted"`
	Receipts           []icmReceipt    `json:"receipts"`
	ReceiptDelivered   bool            `json:"receiptDelivered"`
	Reward             erc20Amount     `json:"rewardDetails"`
	SourceTx           *icmSource      `json:"sourceTransaction,omitempty"`
	DestinationTx      *icmDestination `json:"destinationTransaction,omitempty"`
	Status             string          `json:"status"`
	Lifecycle          []icmStep       `json:"lifecycle"`
}

type icmReceipt struct {
	Nonce          string `json:"receivedMessageNonce"`
	RewardRedeemer string `json:"relayerRewardAddress"`
}

// erc20Amount is an amount of a token.
type erc20Amount struct {
	erc20Token
	Value string `json:"value"`
}

type icmSource struct {
	TxHash    common.Hash `json:"txHash"`
	Timestamp uint64      `json:"timestamp"`
	// GasSpent is in units of gas.
	GasSpent string `json:"gasSpent"`
}

type icmDestination struct {
	icmSource
	RewardRedeemer string `json:"rewardRedeemer"`
	Deliverer      string `json:"delivererAddress"`
}

// icmStep is a step of a message's lifecycle. A step that did not happen on a chain has only a time.
type icmStep struct {
	Step         string       `json:"step"`
	BlockchainID string       `json:"blockchainId,omitempty"`
	TxHash       *common.Hash `json:"txHash,omitempty"`
	BlockNumber  string       `json:"blockNumber,omitempty"`
	Timestamp    uint64       `json:"timestamp"`
	Milliseconds uint64       `json:"timestampMilliseconds,omitempty"`
	// Since is the difference to the time of the preceding step. It is negative if the clocks of the chains differ.
	Since *float64 `json:"secondsSincePreviousStep,omitempty"`
}

// showICM returns messages in the API's format.
func (a *API) showICM(ctx context.Context, found []icmMessage) ([]shownICM, error) {
	tokens := make(map[*Chain][]common.Address)
	for i := range found {
		if fee, ok := found[i].fee(); ok {
			tokens[found[i].source] = append(tokens[found[i].source], fee.Token)
		}
	}
	directories := make(map[*Chain]*directory, len(tokens))
	for of, addresses := range tokens {
		d, err := a.directory(ctx, of, addresses)
		if err != nil {
			return nil, err
		}
		directories[of] = d
	}
	if err := a.addSigned(ctx, found); err != nil {
		return nil, err
	}
	shown := make([]shownICM, len(found))
	for i := range found {
		shown[i] = found[i].show(directories[found[i].source])
	}
	return shown, nil
}

// addSigned finds out when the service signed messages.
func (a *API) addSigned(ctx context.Context, found []icmMessage) error {
	if a.signed == nil {
		return nil
	}
	var of []int
	var asked []ids.ID
	for i := range found {
		if sent := found[i].there.Sent; sent != nil && sent.WarpID != ids.Empty {
			of, asked = append(of, i), append(asked, sent.WarpID)
		}
	}
	if len(asked) == 0 {
		return nil
	}
	times, err := a.signed(ctx, asked)
	if err != nil {
		return err
	}
	for i, at := range times {
		found[of[i]].signedAt = at
	}
	return nil
}

// fee returns the fee that is promised for the delivery; ok is false if it is unknown.
func (m *icmMessage) fee() (fee chain.ICMFee, ok bool) {
	for _, e := range []*evm.ICMEvent{m.there.ReceiptReturned, m.there.FeeAdded, m.there.Sent} {
		if e != nil && m.there.Sent != nil {
			return e.Fee, true
		}
	}
	return fee, false
}

// known returns an event with the content of the message, or nil.
func (m *icmMessage) known() *evm.ICMEvent {
	if m.there.Sent != nil {
		return m.there.Sent
	}
	return m.here.Delivered
}

// show returns the message in the API's format. d is the directory of the source, nil if that is not indexed.
func (m *icmMessage) show(d *directory) shownICM {
	content := m.known().Message
	shown := shownICM{
		MessageID: m.id.Hex(), Contract: chain.Teleporter.Hex(), Source: m.sourceID.String(), Destination: m.destinationID.String(),
		SourceChainID: m.source.evmID(), DestinationChainID: m.destination.evmID(),
		Nonce: content.Nonce.Dec(), From: content.Sender.Hex(), To: content.Recipient.Hex(), Data: "0x" + hex.EncodeToString(content.Data),
		Executed: m.here.Executed != nil, Receipts: make([]icmReceipt, len(content.Receipts)), ReceiptDelivered: m.there.ReceiptReturned != nil,
		Reward: m.reward(d), Status: icmDelivered, Lifecycle: m.lifecycle(),
	}
	for i := range content.Receipts {
		r := &content.Receipts[i]
		shown.Receipts[i] = icmReceipt{r.Nonce.Dec(), r.RewardRedeemer.Hex()}
	}
	if e := m.there.Sent; e != nil {
		tx := transactionOf(e)
		shown.SourceTx = &tx
	} else {
		shown.Status = icmSourceNotIndexed
	}
	if e := m.here.Delivered; e != nil {
		shown.DestinationTx = &icmDestination{transactionOf(e), e.RewardRedeemer.Hex(), e.Deliverer.Hex()}
	} else {
		shown.Status = icmPending
	}
	return shown
}

// evmID returns the EVM chain ID, empty if the chain is not indexed.
func (c *Chain) evmID() string {
	if c == nil {
		return ""
	}
	return decimal(c.ChainID)
}

func transactionOf(e *evm.ICMEvent) icmSource {
	return icmSource{e.TxHash, e.Block.Time, decimal(e.GasUsed)}
}

// reward returns the fee in the API's format, with empty texts if it is unknown.
func (m *icmMessage) reward(d *directory) erc20Amount {
	fee, ok := m.fee()
	if !ok {
		return erc20Amount{erc20Token: erc20Token{ERCType: typeERC20}}
	}
	if d.standard(fee.Token) == chain.ERC20 {
		return erc20Amount{d.erc20(fee.Token), fee.Amount.Dec()}
	}
	return erc20Amount{erc20Token{Address: fee.Token.Hex(), ERCType: typeERC20}, fee.Amount.Dec()}
}

// icmStepSigned is the step of a lifecycle in which the service signed the message itself.
const icmStepSigned = "SIGNED"

// icmSteps has the other steps of a lifecycle, by the kind of their events.
var icmSteps = map[chain.ICMEventKind]string{
	chain.ICMSent: "SENT", chain.ICMDelivered: "DELIVERED", chain.ICMExecutionFailed: "EXECUTION_FAILED",
	chain.ICMExecuted: "EXECUTED", chain.ICMReceiptReturned: "RECEIPT_RETURNED",
}

// stepOf returns the step of an event.
func stepOf(name, blockchainID string, e *evm.ICMEvent) icmStep {
	b := &e.Block
	return icmStep{
		Step: name, BlockchainID: blockchainID, TxHash: &e.TxHash, BlockNumber: decimal(b.Number), Timestamp: b.Time, Milliseconds: b.Milliseconds,
	}
}

// lifecycle returns the known steps in their logical order.
func (m *icmMessage) lifecycle() []icmStep {
	var steps []icmStep
	add := func(of ids.ID, events ...*evm.ICMEvent) {
		for _, e := range events {
			if e != nil {
				steps = append(steps, stepOf(icmSteps[e.Kind], of.String(), e))
			}
		}
	}
	add(m.sourceID, m.there.Sent)
	if !m.signedAt.IsZero() {
		at := uint64(m.signedAt.UnixMilli())
		steps = append(steps, icmStep{Step: icmStepSigned, Timestamp: at / 1000, Milliseconds: at})
	}
	add(m.destinationID, m.here.Delivered, m.here.ExecutionFailed, m.here.Executed)
	add(m.sourceID, m.there.ReceiptReturned)
	for i := 1; i < len(steps); i++ {
		since := float64(int64(steps[i].milliseconds()-steps[i-1].milliseconds())) / 1000
		steps[i].Since = &since
	}
	return steps
}

// milliseconds returns the time of the step in ms.
func (s *icmStep) milliseconds() uint64 {
	if s.Milliseconds != 0 {
		return s.Milliseconds
	}
	return 1000 * s.Timestamp
}
