package data

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/constants"

	"quorate/handlers/apierr"
	"quorate/handlers/operation"
	"quorate/handlers/query"
	"quorate/handlers/reply"
	chain "quorate/internal/chain/ledger"
	"quorate/internal/index"
	"quorate/internal/index/ledger"
	"quorate/internal/index/registry"
)

// optionalAddresses is addresses for an operation that has another filter.
var optionalAddresses = query.Parameter{
	Name: addresses.Name, Kind: addresses.Kind, Item: addresses.Item, Description: addresses.Description, Example: addresses.Example,
}

// pendingReward is the expected reward of a stake in an answer.
type pendingReward struct {
	Addresses       []string    `json:"addresses"`
	TxHash          string      `json:"txHash"`
	AmountStaked    string      `json:"amountStaked"`
	NodeID          string      `json:"nodeId"`
	StartTimestamp  int64       `json:"startTimestamp"`
	EndTimestamp    int64       `json:"endTimestamp"`
	RewardType      string      `json:"rewardType"`
	Progress        float64     `json:"progress"`
	EstimatedReward assetAmount `json:"estimatedReward"`
}

// currentStake is a validation or delegation of the primary network that has begun and has not been rewarded.
type currentStake struct {
	txID       ids.ID
	nodeID     ids.NodeID
	owners     []ids.ShortID
	weight     uint64
	start, end time.Time
	// reward is the expected reward of a validation, delegation the delegation, nil for a validation.
	reward     uint64
	delegation *ledger.Delegation
}

// stakesPosition is the end of a page of current stakes.
type stakesPosition struct {
	ledger.Position
	// begun is the time of the chain at the first page, in Unix seconds. Later pages omit stakes that began after it, and
	// so auto-renewed validations whose next period began.
	begun uint64
}

// Bytes encodes the position for page tokens.
func (p *stakesPosition) Bytes() []byte {
	return append(binary.BigEndian.AppendUint64(nil, p.begun), p.Position.Bytes()...)
}

func parseStakesPosition(b []byte) (*stakesPosition, error) {
	if len(b) < 8 {
		return nil, index.ErrPosition
	}
	p, err := ledger.ParsePosition(b[8:])
	if err != nil {
		return nil, err
	}
	return &stakesPosition{Position: *p, begun: binary.BigEndian.Uint64(b)}, nil
}

// listPendingRewards is GET /v1/networks/{network}/rewards:listPending.
func (a *API) listPendingRewards(ctx context.Context, r operation.Request, n *network) error {
	q := r.Query
	want := ledger.DelegationQuery{RewardAddresses: n.addresses(q, optionalAddresses.Name), NodeIDs: nodeIDs(q), Current: true}
	if len(want.RewardAddresses)+len(want.NodeIDs) == 0 {
		q.Fail(optionalAddresses.Name, "is missing; give addresses or nodeIds")
	}
	p := a.readPaging(q, "pendingRewards", n.shown, fmt.Sprint(want.RewardAddresses), fmt.Sprint(want.NodeIDs))
	if err := q.Err(); err != nil {
		return err
	}
	after, err := position(p.After, parseStakesPosition)
	if err != nil {
		return err
	}
	if n.Ledger == nil {
		return absent("delegations")
	}
	if err := n.registered(r); err != nil {
		return err
	}
	if err := n.current(r, nil, n.platform()); err != nil {
		return err
	}
	next := stakesPosition{Position: ledger.Position{Pins: []ledger.Pin{{ChainID: constants.PlatformChainID, Height: n.Progress(ctx, n.platform().id).Height}}}}
	want.Ascending, want.Limit = p.ascending, p.Size
	if after != nil {
		want.After, next = &after.Position, *after
	}
	delegations, err := n.Ledger.Delegations(ctx, want)
	if err != nil {
		return err
	}
	if after == nil {
		next.begun = uint64(max(0, delegations.Now.Unix()))
	}
	all, err := n.validationsPaying(ctx, &want, moment(next.begun))
	if err != nil {
		return err
	}
	for _, d := range delegations.Delegations {
		all = append(all, currentStake{txID: d.TxID, nodeID: d.NodeID, owners: d.RewardAddresses, weight: d.Weight, start: d.Start, end: d.End, delegation: d})
	}
	slices.SortFunc(all, func(a, b currentStake) int { return inDirection(p.ascending, a.compare(b.start.Unix(), b.txID)) })
	more := len(all) > p.Size || delegations.Next != nil
	all = all[:min(p.Size, len(all))]
	answer := struct {
		NextPageToken string          `json:"nextPageToken,omitempty"`
		Rewards       []pendingReward `json:"pendingRewards"`
	}{}
	if answer.Rewards, err = n.pendingRewards(ctx, all, delegations.Now); err != nil {
		return err
	}
	if more {
		last := &all[len(all)-1]
		next.Key, next.ID = uint64(last.start.Unix()), last.txID
		answer.NextPageToken = p.Token(next.Bytes())
	}
	return reply.JSON(r, answer)
}

// validationsPaying returns the current validations after the position of a query that match its filters, in any order.
// It omits those that began after a time.
func (n *network) validationsPaying(ctx context.Context, q *ledger.DelegationQuery, begun time.Time) (all []currentStake, err error) {
	page, err := n.Registry.Validations(ctx, registry.Query{
		NodeIDs: q.NodeIDs, Status: registry.Active, Limit: math.MaxInt, // there are a few thousand at most
		Wants: func(v *registry.Validation, _ time.Time) bool {
			paid := func(address ids.ShortID) bool { return slices.Contains(q.RewardAddresses, address) }
			return v.SubnetID == constants.PrimaryNetworkID && !v.Start.After(begun) && (len(q.RewardAddresses) == 0 || slices.ContainsFunc(v.RewardAddresses, paid))
		},
	})
	if err != nil {
		return nil, err
	}
	for _, v := range page.Validations {
		one := currentStake{txID: v.TxID, nodeID: v.NodeID, owners: v.RewardAddresses, weight: v.Weight, start: v.Start, end: v.End, reward: v.PotentialReward}
		if q.After == nil || inDirection(q.Ascending, one.compare(int64(q.After.Key), q.After.ID)) > 0 {
			all = append(all, one)
		}
	}
	return all, nil
}

// compare compares the stake with the one at a position of the list, which is ordered by start and then by the text of
// the ID.
func (s *currentStake) compare(start int64, txID ids.ID) int {
	return cmp.Or(cmp.Compare(s.start.Unix(), start), strings.Compare(s.txID.String(), txID.String()))
}

func inDirection(ascending bool, order int) int {
	if ascending {
		return order
	}
	return -order
}

// pendingRewards returns the expected rewards of stakes in the API's format. It omits delegations that the upstream node
// does not list, because they have just ended there or not begun.
func (n *network) pendingRewards(ctx context.Context, all []currentStake, now time.Time) ([]pendingReward, error) {
	asked := &ledger.DelegationPage{Now: now}
	for i := range all {
		if d := all[i].delegation; d != nil && awaits(d, now) {
			asked.Delegations = append(asked.Delegations, d)
		}
	}
	if n.Rewards == nil && len(asked.Delegations) > 0 {
		return nil, apierr.Unavailable(nil, "this instance has no node that reports what delegations will be paid")
	}
	potential, err := n.potentialOfDelegations(ctx, asked)
	if err != nil {
		return nil, err
	}
	known, err := n.assets(ctx, nil)
	if err != nil {
		return nil, err
	}
	shown := make([]pendingReward, 0, len(all))
	for i := range all {
		s, role := &all[i], chain.ValidationReward
		amount, ok := s.reward, true
		if d := s.delegation; d != nil {
			role, amount = chain.DelegationReward, d.PotentialReward
			if awaits(d, now) {
				amount, ok = potential[d.TxID]
			}
		}
		if !ok {
			continue
		}
		owners, err := known.bech32(s.owners)
		if err != nil {
			return nil, err
		}
		shown = append(shown, pendingReward{
			Addresses: owners, TxHash: s.txID.String(), AmountStaked: strconv.FormatUint(s.weight, 10), NodeID: s.nodeID.String(),
			StartTimestamp: s.start.Unix(), EndTimestamp: s.end.Unix(), RewardType: role.Reward(), Progress: progress(s.start, s.end, now),
			EstimatedReward: known.amount(n.AVAXAssetID, false, strconv.FormatUint(amount, 10)),
		})
	}
	return shown, nil
}

// progress returns the part of a period that is over, in percent.
func progress(start, end, now time.Time) float64 {
	whole, over := end.Unix()-start.Unix(), now.Unix()-start.Unix()
	if whole <= 0 {
		return 100
	}
	return 100 * float64(min(max(0, over), whole)) / float64(whole)
}
