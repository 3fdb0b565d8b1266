package data

import (
	"context"
	"encoding/hex"
	"fmt"
	"strconv"
	"time"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/constants"
	"github.com/ava-labs/avalanchego/utils/formatting"

	"quorate/handlers/cb58"
	"quorate/handlers/jsonbody"
	"quorate/handlers/operation"
	"quorate/handlers/query"
	"quorate/handlers/reply"
	chain "quorate/internal/chain/ledger"
	"quorate/internal/index/ledger"
)

type utxo struct {
	Addresses               []string    `json:"addresses"`
	Asset                   assetAmount `json:"asset"`
	Amount                  string      `json:"amount"`
	AssetID                 string      `json:"assetId"`
	UTXOID                  string      `json:"utxoId"`
	TxHash                  string      `json:"txHash"`
	OutputIndex             uint32      `json:"outputIndex"`
	BlockNumber             string      `json:"blockNumber"`
	BlockTimestamp          int64       `json:"blockTimestamp"`
	IsUpperBound            bool        `json:"blockTimestampIsUpperBound,omitempty"`
	CreatedOnChainID        string      `json:"createdOnChainId"`
	ConsumedOnChainID       string      `json:"consumedOnChainId"`
	ConsumingTxHash         string      `json:"consumingTxHash,omitempty"`
	ConsumingBlockNumber    string      `json:"consumingBlockNumber,omitempty"`
	ConsumingBlockTimestamp *int64      `json:"consumingBlockTimestamp,omitempty"`
	ConsumingIsUpperBound   bool        `json:"consumingBlockTimestampIsUpperBound,omitempty"`
	PlatformLocktime        *uint64     `json:"platformLocktime,omitempty"`
	StakeableLocktime       uint64      `json:"stakeableLocktime,omitempty"`
	Staked                  bool        `json:"staked"`
	StakeStart              *int64      `json:"utxoStartTimestamp,omitempty"`
	StakeEnd                *int64      `json:"utxoEndTimestamp,omitempty"`
	RewardType              string      `json:"rewardType,omitempty"`
	Threshold               uint32      `json:"threshold"`
	Bytes                   string      `json:"utxoBytes,omitempty"`
	Type                    string      `json:"utxoType"`

	// Only lists of the X-Chain and the C-Chain have these fields.
	CreationTxHash       string  `json:"creationTxHash,omitempty"`
	Timestamp            *int64  `json:"timestamp,omitempty"`
	Locktime             *uint64 `json:"locktime,omitempty"`
	GroupID              *uint32 `json:"groupId,omitempty"`
	Payload              *string `json:"payload,omitempty"`
	ConsumingTxTimestamp *int64  `json:"consumingTxTimestamp,omitempty"`
}

func (a *API) listUTXOs(ctx context.Context, r operation.Request, n *network) error {
	b, err := n.blockchain(r, pChain, xChain, cChain)
	if err != nil {
		return err
	}
	q := r.Query
	least, beyond := q.AtLeast("minUtxoAmount")
	want := ledger.OutputQuery{
		ChainID:      b.id,
		Addresses:    n.addresses(q, "addresses"),
		MinAmount:    least,
		IncludeSpent: q.Bool("includeSpent"),
		ByAmount:     q.OneOf("sortBy") == "amount",
	}
	if b.name == xChain { // other chains ignore it
		want.AssetID = asset(q)
	}
	p := a.readPaging(q, "utxos", n.shown, b.name, fmt.Sprint(want.Addresses), fmt.Sprint(least, beyond),
		fmt.Sprint(want.IncludeSpent), fmt.Sprint(want.ByAmount), want.AssetID.String())
	if err := q.Err(); err != nil {
		return err
	}
	if want.After, err = position(p.After, ledger.ParsePosition); err != nil {
		return err
	}
	want.Ascending, want.Limit = p.ascending, p.Size
	if n.Ledger == nil {
		return absent("outputs")
	}
	if err := n.current(r, nil, b); err != nil {
		return err
	}
	left := n.between(ctx, b, nil)
	if want.After != nil {
		left = n.sinceFirst(left, b, want.After.Has)
	}
	if b.name == cChain && len(left) == len(n.chains)-1 {
		return left.refuse()
	}
	left.show(r)
	want.Without = left.chains()
	page := new(ledger.OutputPage)
	if !beyond {
		if page, err = n.Ledger.UTXOs(ctx, want); err != nil {
			return err
		}
	}
	named := make(map[ids.ID]bool)
	for _, o := range page.Outputs {
		named[o.AssetID] = true
	}
	known, err := n.assets(ctx, named)
	if err != nil {
		return err
	}
	answer := struct {
		NextPageToken string    `json:"nextPageToken,omitempty"`
		UTXOs         []utxo    `json:"utxos"`
		ChainInfo     chainInfo `json:"chainInfo"`
		Unavailable   gaps      `json:"unavailable,omitempty"`
	}{UTXOs: make([]utxo, len(page.Outputs)), ChainInfo: n.info(b), Unavailable: left}
	for i, o := range page.Outputs {
		if answer.UTXOs[i], err = n.utxo(o, b, page.Now, known); err != nil {
			return err
		}
	}
	if page.Next != nil {
		answer.NextPageToken = p.Token(page.Next.Bytes())
	}
	return reply.JSON(r, answer)
}

// listUTXOsOfBody is listUTXOs with the addresses in the body instead of the query.
func (a *API) listUTXOsOfBody(ctx context.Context, r operation.Request, n *network) error {
	if err := readAddresses(&r, outputFilters); err != nil {
		return err
	}
	return a.listUTXOs(ctx, r, n)
}

// readAddresses sets the query of a request to the addresses of its body and some parameters.
func readAddresses(r *operation.Request, parameters []query.Parameter) error {
	body, err := jsonbody.Read(r)
	if err != nil {
		return err
	}
	o, err := jsonbody.Parse(body, nil, addresses.Name)
	if err != nil {
		return err
	}
	text, err := o.String(addresses.Name)
	if err != nil {
		return err
	}
	r.Query = query.Parse(r.Request().URL.RawQuery, append([]query.Parameter{addresses}, parameters...))
	r.Query.Set(addresses.Name, text)
	return nil
}

// asset parses assetId; it returns ids.Empty if it is absent.
func asset(q *query.Values) ids.ID {
	text, ok := q.Text("assetId")
	if !ok {
		return ids.Empty
	}
	id, err := cb58.ID(text)
	if err != nil || id == ids.Empty {
		q.Fail("assetId", "must be the ID of an asset, as cb58")
	}
	return id
}

// utxo returns an output in the format of a list of blockchain b; now is the chain's time.
func (n *network) utxo(o *ledger.Output, b blockchain, now time.Time, known assets) (utxo, error) {
	addresses, err := known.bech32(o.Addresses)
	if err != nil {
		return utxo{}, err
	}
	amount, nft := shownAmount(&o.Output)
	made, madeBound := known.preCortina.tx(o.ChainID, o.TxID, o.Height, o.Time)
	var spent time.Time
	var spentBound bool
	if o.Spent != nil {
		spent, spentBound = known.preCortina.tx(o.DestinationID, o.Spent.TxID, o.Spent.Height, o.Spent.Time)
	}
	u := utxo{
		Addresses:         addresses,
		Asset:             known.amount(o.AssetID, nft, amount),
		Amount:            amount,
		AssetID:           known.id(o.AssetID),
		UTXOID:            o.ID.String(),
		TxHash:            o.TxID.String(),
		OutputIndex:       o.Index,
		BlockNumber:       strconv.FormatUint(o.Height, 10),
		BlockTimestamp:    made.Unix(),
		IsUpperBound:      madeBound,
		CreatedOnChainID:  known.id(o.ChainID),
		ConsumedOnChainID: known.id(o.DestinationID),
		StakeableLocktime: o.StakeableLocktime,
		Staked:            o.StakedAt(now),
		RewardType:        o.Role.Reward(),
		Threshold:         o.Threshold,
		Type:              "TRANSFER",
	}
	if len(o.Bytes) > 0 {
		if u.Bytes, err = formatting.Encode(formatting.Hex, o.Bytes); err != nil {
			return utxo{}, err
		}
	}
	if o.ChainID == constants.PlatformChainID && o.DestinationID == constants.PlatformChainID {
		u.PlatformLocktime = &o.Locktime
	}
	switch {
	case u.Staked:
		u.Type = "STAKE"
		u.StakeStart, u.StakeEnd = seconds(o.Time), seconds(o.StakeEnd)
	case o.Spent != nil:
		u.ConsumingTxHash = o.Spent.TxID.String()
		u.ConsumingBlockNumber = strconv.FormatUint(o.Spent.Height, 10)
		u.ConsumingBlockTimestamp, u.ConsumingIsUpperBound = seconds(spent), spentBound
	}
	if b.name == pChain {
		return u, nil
	}
	u.CreationTxHash, u.Timestamp, u.Locktime = u.TxHash, &u.BlockTimestamp, &o.Locktime
	u.ConsumingTxTimestamp = u.ConsumingBlockTimestamp
	if o.Kind == chain.NFTMint || o.Kind == chain.NFTTransfer {
		u.GroupID = &o.GroupID
	}
	if o.Kind == chain.NFTTransfer {
		payload := "0x" + hex.EncodeToString(o.Payload)
		u.Payload = &payload
	}
	return u, nil
}

// shownAmount returns 1 for NFT outputs, and 0 for other rights, which have no amount.
func shownAmount(o *chain.Output) (amount string, nft bool) {
	switch o.Kind {
	case chain.NFTMint, chain.NFTTransfer:
		return "1", true
	default:
		return strconv.FormatUint(o.Amount, 10), false
	}
}

func seconds(t time.Time) *int64 {
	s := t.Unix()
	return &s
}
