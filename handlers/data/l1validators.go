package data

import (
	"context"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"github.com/ava-labs/avalanchego/ids"

	"quorate/handlers/apierr"
	"quorate/handlers/cb58"
	"quorate/handlers/operation"
	"quorate/handlers/query"
	"quorate/handlers/reply"
	chain "quorate/internal/chain/ledger"
	"quorate/internal/index/registry"
)

type l1Validator struct {
	ValidationID          string          `json:"validationId"`
	ValidationIDHex       string          `json:"validationIdHex"`
	NodeID                string          `json:"nodeId"`
	SubnetID              string          `json:"subnetId"`
	Weight                uint64          `json:"weight"`
	RemainingBalance      uint64          `json:"remainingBalance"`
	CreationTimestamp     int64           `json:"creationTimestamp"`
	BLSCredentials        *blsCredentials `json:"blsCredentials"`
	RemainingBalanceOwner balanceOwner    `json:"remainingBalanceOwner"`
	DeactivationOwner     balanceOwner    `json:"deactivationOwner"`
	// The generated clients do not have the fields below.
	ValidationStatus      string `json:"validationStatus"`
	MinNonce              string `json:"minNonce"`
	CreationTxHash        string `json:"creationTxHash"`
	DeactivationTimestamp *int64 `json:"deactivationTimestamp,omitempty"`
	RemoveTxHash          string `json:"removeTxHash,omitempty"`
	RemoveTimestamp       int64  `json:"removeTimestamp,omitempty"`
}

type balanceOwner struct {
	Addresses []string `json:"addresses"`
	Threshold uint32   `json:"threshold"`
}

// Parameters of listL1Validators.
var (
	l1ValidationID = query.Parameter{Name: "l1ValidationId", Description: "Only this validation, whatever its status; its ID as text or as hex."}
	inactiveL1     = query.Parameter{
		Name: "includeInactiveL1Validators", Kind: query.Boolean, Default: "false",
		Description: "Also list validators without a balance, and removed ones, whose weight is 0.",
	}
	nodeFilter = query.Parameter{Name: "nodeId", Description: "Only this node."}
)

// listL1Validators is GET /v1/networks/{network}/l1Validators.
func (a *API) listL1Validators(ctx context.Context, r operation.Request, n *network) error {
	q := r.Query
	want := registry.L1Query{
		ValidationID: validationID(q), SubnetID: optionalID(q, subnetFilter.Name), Inactive: q.Bool(inactiveL1.Name),
	}
	if text, ok := q.Text(nodeFilter.Name); ok {
		id, err := cb58.NodeID(text)
		if err != nil {
			q.Fail(nodeFilter.Name, "%q is no node ID; they begin with NodeID-", apierr.Excerpt(text))
		}
		want.NodeID = &id
	}
	p := a.readPages(q, "l1Validators", n.shown, fmt.Sprint(want.ValidationID, want.SubnetID, want.NodeID, want.Inactive))
	if err := q.Err(); err != nil {
		return err
	}
	if err := n.registered(r); err != nil {
		return err
	}
	want.Limit, want.After = p.Size, p.After
	page, err := n.Registry.L1Validators(ctx, want)
	if err != nil {
		return err
	}
	answer := struct {
		NextPageToken string        `json:"nextPageToken,omitempty"`
		Validators    []l1Validator `json:"validators"`
		BlockHeight   string        `json:"blockHeight"`
	}{Validators: make([]l1Validator, len(page.Validators)), BlockHeight: strconv.FormatUint(page.Head.Height, 10)}
	for i, v := range page.Validators {
		if answer.Validators[i], err = n.l1Validator(v, &page.Head); err != nil {
			return err
		}
	}
	answer.NextPageToken = p.Token(page.Next)
	return reply.JSON(r, answer)
}

// validationID parses l1ValidationId, nil if it is absent.
func validationID(q *query.Values) *ids.ID {
	text, ok := q.Text(l1ValidationID.Name)
	if hexadecimal, isHex := strings.CutPrefix(text, "0x"); ok && isHex {
		b, err := hex.DecodeString(hexadecimal)
		if err == nil && len(b) == ids.IDLen {
			id := ids.ID(b)
			return &id
		}
	}
	return optionalID(q, l1ValidationID.Name)
}

// l1Validator returns an L1 validator in the API's format.
func (n *network) l1Validator(v *registry.L1Validator, head *registry.Head) (l1Validator, error) {
	shown := l1Validator{
		ValidationID:      v.ValidationID.String(),
		ValidationIDHex:   "0x" + v.ValidationID.Hex(),
		NodeID:            v.NodeID.String(),
		SubnetID:          v.SubnetID.String(),
		Weight:            v.Weight,
		RemainingBalance:  head.Balance(v),
		CreationTimestamp: v.Created.Unix(),
		BLSCredentials:    credentials(v.PublicKey, v.ProofOfPossession),
		ValidationStatus:  string(v.Status()),
		MinNonce:          strconv.FormatUint(v.MinNonce, 10),
		CreationTxHash:    v.TxID.String(),
	}
	var err error
	if shown.RemainingBalanceOwner, err = n.balanceOwner(&v.RemainingBalanceOwner); err != nil {
		return l1Validator{}, err
	}
	if shown.DeactivationOwner, err = n.balanceOwner(&v.DeactivationOwner); err != nil {
		return l1Validator{}, err
	}
	if at, ok := head.RunsOut(v); ok {
		seconds := at.Unix()
		shown.DeactivationTimestamp = &seconds
	}
	if !v.Removed.IsZero() {
		shown.RemoveTxHash, shown.RemoveTimestamp = v.RemovedBy.String(), v.Removed.Unix()
	}
	return shown, nil
}

func (n *network) balanceOwner(o *chain.Owners) (balanceOwner, error) {
	addresses, err := n.bech32(o.Addresses)
	return balanceOwner{Addresses: addresses, Threshold: o.Threshold}, err
}
