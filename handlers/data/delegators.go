package data

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/ava-labs/avalanchego/ids"

	"quorate/handlers/apierr"
	"quorate/handlers/query"
	"quorate/handlers/reply"
	"quorate/index/ledger"
)

type delegator struct {
	TxHash           string   `json:"txHash"`
	NodeID           string   `json:"nodeId"`
	RewardAddresses  []string `json:"rewardAddresses"`
	AmountDelegated  string   `json:"amountDelegated"`
	DelegationFee    string   `json:"delegationFee"`
	StartTimestamp   int64    `json:"startTimestamp"`
	EndTimestamp     int64    `json:"endTimestamp"`
	DelegationStatus string   `json:"delegationStatus"`
	GrossReward      string   `json:"grossReward"`
	NetReward        string   `json:"netReward"`
	// The generated clients want these of delegations that are not completed.
	EstimatedGrossReward string `json:"estimatedGrossReward,omitempty"`
	EstimatedNetReward   string `json:"estimatedNetReward,omitempty"`
}

// listDelegators is GET /v1/networks/{network}/delegators.
func (a *API) listDelegators(ctx context.Context, c echo.Context, n *network) error {
	q := query.Parse(c.Request().URL.RawQuery)
	want := ledger.DelegationQuery{
		RewardAddresses: n.addresses(q, "rewardAddresses"),
		NodeIDs:         nodeIDs(q),
	}
	if _, ok := q.Text("delegationStatus"); ok {
		want.Status = ledger.DelegationStatus(q.OneOf("delegationStatus",
			string(ledger.DelegationCompleted), string(ledger.DelegationActive), string(ledger.DelegationPending)))
	}
	p := readPaging(q, 100, 10, "delegators", n.shown, fmt.Sprint(want.RewardAddresses), fmt.Sprint(want.NodeIDs), string(want.Status))
	err := q.Err()
	if err != nil {
		return err
	}
	if want.After, err = position(p.After, ledger.ParsePosition); err != nil {
		return err
	}
	want.Ascending, want.Limit = p.ascending, p.Size
	if n.Ledger == nil {
		return absent("delegations")
	}
	if err := n.current(c, nil, n.platform()); err != nil {
		return err
	}
	page, err := n.Ledger.Delegations(ctx, want)
	if err != nil {
		return err
	}
	answer := struct {
		NextPageToken string      `json:"nextPageToken,omitempty"`
		Delegators    []delegator `json:"delegators"`
	}{Delegators: make([]delegator, len(page.Delegations))}
	for i, d := range page.Delegations {
		if answer.Delegators[i], err = n.delegator(d, page.Now); err != nil {
			return err
		}
	}
	if page.Next != nil {
		answer.NextPageToken = p.Token(page.Next.Bytes())
	}
	return reply.JSON(c, answer)
}

// nodeIDs reads nodeIds, sorted.
func nodeIDs(q *query.Values) []ids.NodeID {
	members := q.List("nodeIds")
	if len(members) > maxMembers {
		q.Fail("nodeIds", "there are %d node IDs, at most %d fit one request; send several requests", len(members), maxMembers)
		return nil
	}
	var all []ids.NodeID
	for _, text := range members {
		id, err := ids.NodeIDFromString(text)
		if err != nil {
			q.Fail("nodeIds", "%q is no node ID; they begin with NodeID-", apierr.Excerpt(text))
			return nil
		}
		all = append(all, id)
	}
	slices.SortFunc(all, ids.NodeID.Compare)
	return all
}

func (n *network) delegator(d *ledger.Delegation, now time.Time) (delegator, error) {
	addresses, err := n.bech32(d.RewardAddresses)
	if err != nil {
		return delegator{}, err
	}
	gross, net := d.Rewards()
	shown := delegator{
		TxHash:           d.TxID.String(),
		NodeID:           d.NodeID.String(),
		RewardAddresses:  addresses,
		AmountDelegated:  strconv.FormatUint(d.Weight, 10),
		DelegationFee:    percent(d.Shares),
		StartTimestamp:   d.Start.Unix(),
		EndTimestamp:     d.End.Unix(),
		DelegationStatus: string(d.StatusAt(now)),
		GrossReward:      strconv.FormatUint(gross, 10),
		NetReward:        strconv.FormatUint(net, 10),
	}
	if shown.DelegationStatus != string(ledger.DelegationCompleted) {
		shown.EstimatedGrossReward, shown.EstimatedNetReward = shown.GrossReward, shown.NetReward
	}
	return shown, nil
}
