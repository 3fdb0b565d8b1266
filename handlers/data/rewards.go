package data

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/constants"
	"github.com/ava-labs/avalanchego/vms/platformvm/txs"

	"quorate/handlers/operation"
	"quorate/handlers/query"
	"quorate/handlers/reply"
	"quorate/internal/index/ledger"
	"quorate/internal/store"
)

func (a *API) rewardOperations() []operation.Operation {
	return []operation.Operation{{
		ID: "listHistoricalPrimaryNetworkRewards", Path: "/v1/networks/{network}/rewards", Tag: tag,
		Summary: "Rewards that were paid to addresses",
		Description: "Outputs with which the P-Chain paid rewards of validations and delegations of the primary network, and commissions (`VALIDATOR_FEE`), spent ones included. " +
			"An output counts when as many of the addresses are among its owners as it takes to spend it. " +
			"A page may have fewer items than `pageSize`, even none, if the addresses have many other outputs; the list ends without `nextPageToken`. " +
			"`endTimestamp` is the end of the period that was rewarded. `startTimestamp` and `amountStaked` are those with which the stake began, also for later periods of auto-renewed validators.",
		Order: "time of the reward, by default newest first",
		Index: "ledger",
		Parameters: []query.Parameter{
			networkName, addresses, query.PageToken, pageSize,
			{Name: "nodeIds", Kind: query.Commas, Item: "node ID", Description: "Only rewards of validations by these nodes and of delegations to them, separated by commas.", Example: "NodeID-111111111111111111116DBWJs"},
			{Name: "currency", Description: "Accepted. Answers have no prices."},
			sortOrder,
		},
		Returns: "A page of rewards.", Schema: "HistoricalRewardPage",
		Handle: a.serve(a.listRewards),
	}, {
		ID: "listPendingPrimaryNetworkRewards", Path: "/v1/networks/{network}/rewards:listPending", Tag: tag,
		Summary: "Expected rewards of current stakes",
		Description: "Validations and delegations of the primary network that have begun and have not been rewarded, with the reward that the network will pay for them: " +
			"a node's `potentialReward`, before the commission of a delegation. It is lost if the validator's uptime is too low. " +
			"`addresses` or `nodeIds` is required; with both, a stake has to match each of them. An address matches if it is among the owners of the reward, regardless of the threshold. " +
			"Commissions that a validator has earned are not listed; its `potentialRewards` have them. " +
			"For auto-renewed validators the times and the amount are those of the current period. " +
			"A page may have fewer items than `pageSize`, even none, if a node no longer lists a delegation; the list ends without `nextPageToken`.",
		Order: "start of the stake, by default newest first",
		Index: "ledger, registry",
		Parameters: []query.Parameter{
			networkName, optionalAddresses, query.PageToken, pageSize,
			{Name: "nodeIds", Kind: query.Commas, Item: "node ID", Description: "Only validations by these nodes and delegations to them, separated by commas.", Example: "NodeID-111111111111111111116DBWJs"},
			sortOrder,
		},
		Returns: "A page of expected rewards.", Schema: "PendingRewardPage",
		Handle: a.serve(a.listPendingRewards),
	}}
}

// maxPassed is the maximum number of outputs that are read for a page of rewards.
const maxPassed = 1000

// historicalReward is a reward in an answer.
type historicalReward struct {
	Addresses      []string    `json:"addresses"`
	TxHash         string      `json:"txHash"`
	AmountStaked   string      `json:"amountStaked"`
	NodeID         string      `json:"nodeId"`
	StartTimestamp int64       `json:"startTimestamp"`
	EndTimestamp   int64       `json:"endTimestamp"`
	RewardType     string      `json:"rewardType"`
	UTXOID         string      `json:"utxoId"`
	OutputIndex    uint32      `json:"outputIndex"`
	Reward         assetAmount `json:"reward"`
	RewardTxHash   string      `json:"rewardTxHash"`
}

// paid is a reward output with the stake that earned it.
type paid struct {
	*ledger.Output
	stake *ledger.Staking
	// by is the transaction of the reward, end the end of the period.
	by  ids.ID
	end time.Time
}

// listRewards is GET /v1/networks/{network}/rewards.
func (a *API) listRewards(ctx context.Context, r operation.Request, n *network) error {
	of, nodes := n.addresses(r.Query, addresses.Name), nodeIDs(r.Query)
	p := a.readPaging(r.Query, "rewards", n.shown, fmt.Sprint(of), fmt.Sprint(nodes))
	if err := r.Query.Err(); err != nil {
		return err
	}
	after, err := position(p.After, ledger.ParsePosition)
	if err != nil {
		return err
	}
	if n.Ledger == nil {
		return absent("rewards")
	}
	if err := n.current(r, nil, n.platform()); err != nil {
		return err
	}
	want := ledger.OutputQuery{
		ChainID: constants.PlatformChainID, Addresses: of, AssetID: n.AVAXAssetID, IncludeSpent: true, Ascending: p.ascending, After: after,
		Without: []ids.ID{n.XChainID, n.CChainID}, // rewards are not exported
	}
	var found []paid
	for passed := 0; len(found) < p.Size && passed < maxPassed; {
		want.Limit = p.Size - len(found)
		page, err := n.Ledger.UTXOs(ctx, want)
		if err != nil {
			return err
		}
		some, err := n.paid(ctx, r, page.Outputs, nodes)
		if err != nil {
			return err
		}
		found, passed = append(found, some...), passed+len(page.Outputs)
		if want.After = page.Next; page.Next == nil {
			break
		}
	}
	known, err := n.assets(ctx, nil)
	if err != nil {
		return err
	}
	answer := struct {
		NextPageToken string             `json:"nextPageToken,omitempty"`
		Rewards       []historicalReward `json:"historicalRewards"`
	}{Rewards: make([]historicalReward, len(found))}
	for i := range found {
		if answer.Rewards[i], err = found[i].shown(known); err != nil {
			return err
		}
	}
	if want.After != nil {
		answer.NextPageToken = p.Token(want.After.Bytes())
	}
	return reply.JSON(r, answer)
}

// paid returns the rewards among outputs for stakes of the primary network, with nodes if there are any.
func (n *network) paid(ctx context.Context, r operation.Request, outputs []*ledger.Output, nodes []ids.NodeID) (rewards []paid, err error) {
	for _, o := range outputs {
		if o.Role.Reward() == "" {
			continue
		}
		one, err := n.earned(ctx, r, o)
		if err != nil {
			return nil, err
		}
		of := &one.stake.Staker
		if of.SubnetID == constants.PrimaryNetworkID && (len(nodes) == 0 || slices.Contains(nodes, of.NodeID)) {
			rewards = append(rewards, one)
		}
	}
	return rewards, nil
}

// earned returns a reward with its stake. The transaction of its output is the staking transaction, but the reward's for
// auto-renewed validators, whose periods each have one.
func (n *network) earned(ctx context.Context, r operation.Request, o *ledger.Output) (paid, error) {
	p := paid{Output: o}
	var err error
	if p.stake, err = n.Ledger.Staking(ctx, o.TxID); err != nil {
		return p, err
	}
	if p.stake != nil && p.stake.Settled != nil {
		p.by, p.end = p.stake.Settled.TxID, p.stake.End
		return p, nil
	}
	stored, tip, err := n.archive(r, n.platform())
	if err != nil {
		return p, err
	}
	tx, err := stored.Tx(ctx, o.TxID, tip)
	if err != nil {
		return p, archiveError(err, n.platform(), fmt.Sprintf("addresses: transaction %s of a reward", o.TxID))
	}
	if u, ok := tx.Platform.(*txs.RewardAutoRenewedValidatorTx); ok {
		p.by, p.end = o.TxID, moment(u.Timestamp)
		if p.stake, err = n.Ledger.Staking(ctx, u.TxID); err != nil {
			return p, err
		}
	}
	if p.stake == nil || p.by == ids.Empty {
		return p, fmt.Errorf("%w: reward %s has no stake that ended", store.ErrCorrupt, o.ID)
	}
	return p, nil
}

func (p *paid) shown(known assets) (historicalReward, error) {
	owners, err := known.bech32(p.Addresses)
	if err != nil {
		return historicalReward{}, err
	}
	amount := strconv.FormatUint(p.Amount, 10)
	return historicalReward{
		Addresses: owners, TxHash: p.stake.TxID.String(), AmountStaked: strconv.FormatUint(p.stake.Staker.Weight, 10), NodeID: p.stake.Staker.NodeID.String(),
		StartTimestamp: p.stake.Staker.Start.Unix(), EndTimestamp: p.end.Unix(), RewardType: p.Role.Reward(),
		UTXOID: p.ID.String(), OutputIndex: p.Index, Reward: known.amount(p.AssetID, false, amount), RewardTxHash: p.by.String(),
	}, nil
}
