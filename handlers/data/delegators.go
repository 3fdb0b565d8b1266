package data

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/constants"

	"quorate/handlers/apierr"
	"quorate/handlers/cb58"
	"quorate/handlers/compat"
	"quorate/handlers/operation"
	"quorate/handlers/query"
	"quorate/handlers/reply"
	"quorate/internal/index/ledger"
	"quorate/internal/node/stakes"
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
	GrossReward      string   `json:"grossReward,omitempty"`
	NetReward        string   `json:"netReward,omitempty"`
	// The generated clients require these fields for delegations that are not completed.
	EstimatedGrossReward string `json:"estimatedGrossReward,omitempty"`
	EstimatedNetReward   string `json:"estimatedNetReward,omitempty"`
}

func (a *API) listDelegators(ctx context.Context, r operation.Request, n *network) error {
	q := r.Query
	want := ledger.DelegationQuery{
		RewardAddresses: n.addresses(q, "rewardAddresses"),
		NodeIDs:         nodeIDs(q),
		Status:          ledger.DelegationStatus(q.OneOf("delegationStatus")),
	}
	p := a.readPaging(q, "delegators", n.shown, fmt.Sprint(want.RewardAddresses), fmt.Sprint(want.NodeIDs), string(want.Status))
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
	if err := n.current(r, nil, n.platform()); err != nil {
		return err
	}
	page, err := n.Ledger.Delegations(ctx, want)
	if err != nil {
		return err
	}
	potential, err := n.potentialOfDelegations(ctx, page)
	if err != nil {
		return err
	}
	answer := struct {
		NextPageToken string      `json:"nextPageToken,omitempty"`
		Delegators    []delegator `json:"delegators"`
	}{Delegators: make([]delegator, len(page.Delegations))}
	for i, d := range page.Delegations {
		if answer.Delegators[i], err = n.delegator(d, page.Now, potential); err != nil {
			return err
		}
	}
	if page.Next != nil {
		answer.NextPageToken = p.Token(page.Next.Bytes())
	}
	return reply.JSON(r, answer)
}

// nodeIDs parses nodeIds, sorted.
func nodeIDs(q *query.Values) []ids.NodeID {
	members := q.List("nodeIds")
	if len(members) > maxMembers {
		q.Fail("nodeIds", "there are %d node IDs, at most %d fit one request; send several requests", len(members), maxMembers)
		return nil
	}
	var all []ids.NodeID
	for _, text := range members {
		id, err := cb58.NodeID(text)
		if err != nil {
			q.Fail("nodeIds", "%q is no node ID; they begin with NodeID-", apierr.Excerpt(text))
			return nil
		}
		all = append(all, id)
	}
	slices.SortFunc(all, ids.NodeID.Compare)
	return all
}

// awaits reports whether only an upstream node knows the reward of a delegation.
func awaits(d *ledger.Delegation, now time.Time) bool {
	return !d.Settled && d.PotentialReward == 0 && !d.Start.After(now)
}

// potentialOfDelegations asks for the expected rewards of current delegations. It fails if they are unavailable,
// because clients require them.
func (n *network) potentialOfDelegations(ctx context.Context, page *ledger.DelegationPage) (map[ids.ID]uint64, error) {
	of := make(map[ids.ID]stakes.Validator)
	for _, d := range page.Delegations {
		if awaits(d, page.Now) {
			of[d.TxID] = stakes.Validator{SubnetID: constants.PrimaryNetworkID, NodeID: d.NodeID}
		}
	}
	if n.Rewards == nil || len(of) == 0 {
		return nil, nil
	}
	potential, err := n.Rewards.Potential(ctx, of)
	for txID := range of {
		switch _, ok := potential[txID]; {
		case ok:
		case err == nil && compat.Enabled(ctx): // the generated clients refuse a page if a delegation lacks its rewards
			return nil, apierr.Unavailable(nil, "the index and the upstream node differ on which delegations are active, because one of them lags behind; try again in a moment")
		case err != nil:
			return nil, reply.NodeAway(err, "the node that knows what active delegations will be paid does not answer; try again later")
		}
	}
	return potential, nil // the cache has it
}

// delegator returns a delegation in the API's format. It omits the rewards of a current delegation that the upstream
// node does not list, because it has just ended there or not begun.
func (n *network) delegator(d *ledger.Delegation, now time.Time, potential map[ids.ID]uint64) (delegator, error) {
	addresses, err := n.bech32(d.RewardAddresses)
	if err != nil {
		return delegator{}, err
	}
	shown := delegator{
		TxHash:           d.TxID.String(),
		NodeID:           d.NodeID.String(),
		RewardAddresses:  addresses,
		AmountDelegated:  strconv.FormatUint(d.Weight, 10),
		DelegationFee:    percent(d.Shares),
		StartTimestamp:   d.Start.Unix(),
		EndTimestamp:     d.End.Unix(),
		DelegationStatus: string(d.StatusAt(now)),
	}
	if awaits(d, now) {
		amount, known := potential[d.TxID]
		if !known {
			return shown, nil
		}
		paid := *d
		paid.PotentialReward = amount
		d = &paid
	}
	gross, net := d.Rewards()
	shown.GrossReward, shown.NetReward = strconv.FormatUint(gross, 10), strconv.FormatUint(net, 10)
	if shown.DelegationStatus != string(ledger.DelegationCompleted) {
		shown.EstimatedGrossReward, shown.EstimatedNetReward = shown.GrossReward, shown.NetReward
	}
	return shown, nil
}
