package webhook

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/constants"
	"github.com/ava-labs/avalanchego/utils/formatting/address"

	"quorate/internal/index/registry"
)

// PChain returns the name of the source of a network's P-Chain.
func PChain(networkID uint32) string { return "p/" + strconv.FormatUint(uint64(networkID), 10) }

// SubEvent is a kind of events of validators.
type SubEvent string

// Kinds of events of validators.
const (
	ValidatorStake     SubEvent = "validator_stake"
	DelegatorStake     SubEvent = "delegator_stake"
	RewardDistribution SubEvent = "reward_distribution"
	L1BalanceIncreased SubEvent = "l1_validator_balance_increased"
	L1Disabled         SubEvent = "l1_validator_disabled"
	L1Removed          SubEvent = "l1_validator_removed"
	L1BalanceThreshold SubEvent = "l1_validator_balance_threshold"
)

// SubEvents are all kinds of events of validators.
var SubEvents = []SubEvent{
	ValidatorStake, DelegatorStake, RewardDistribution, L1BalanceIncreased, L1Disabled, L1Removed, L1BalanceThreshold,
}

var subEvents = map[registry.EventKind]SubEvent{
	registry.Staked: ValidatorStake, registry.Delegated: DelegatorStake, registry.Paid: RewardDistribution,
	registry.BalanceIncreased: L1BalanceIncreased, registry.Disabled: L1Disabled, registry.Retired: L1Removed,
}

// ValidatorFilter selects events of validators.
type ValidatorFilter struct {
	// NodeID or SubnetID is what the webhook watches; the other one is nil.
	NodeID   *ids.NodeID `json:"nodeId,omitempty"`
	SubnetID *ids.ID     `json:"subnetId,omitempty"`
	// NodeIDs and SubnetIDs restrict the events to some nodes and subnets, unless they are empty.
	NodeIDs   []ids.NodeID `json:"nodeIds,omitempty"`
	SubnetIDs []ids.ID     `json:"subnetIds,omitempty"`
	SubEvents []SubEvent   `json:"subEvents"`
	// Threshold is the balance in nAVAX for L1BalanceThreshold.
	Threshold uint64 `json:"threshold,omitempty"`
}

func (f *ValidatorFilter) selects(nodeID ids.NodeID, subnetID ids.ID) bool {
	return (f.NodeID == nil || *f.NodeID == nodeID) && (f.SubnetID == nil || *f.SubnetID == subnetID) &&
		(len(f.NodeIDs) == 0 || slices.Contains(f.NodeIDs, nodeID)) && (len(f.SubnetIDs) == 0 || slices.Contains(f.SubnetIDs, subnetID))
}

// Registry is an index of validators; see package index/registry.
type Registry interface {
	Activity(ctx context.Context, height uint64) (*registry.Activity, error)
	L1Validators(ctx context.Context, q registry.L1Query) (*registry.L1Page, error)
	Balances(ctx context.Context, a *registry.Activity, validationIDs []ids.ID) (before, after []uint64, err error)
}

// Validators is the Source of the events of a network's validators.
type Validators struct {
	networkID uint32
	index     Registry
	tip       func() (uint64, bool)
}

// NewValidators returns a source. tip returns the height of the last indexed block; false if it is unknown.
func NewValidators(networkID uint32, index Registry, tip func() (uint64, bool)) *Validators {
	return &Validators{networkID: networkID, index: index, tip: tip}
}

// Tip implements Source.
func (s *Validators) Tip() (uint64, bool) { return s.tip() }

// Block implements Source.
func (s *Validators) Block(ctx context.Context, height uint64) (Block, error) {
	a, err := s.index.Activity(ctx, height)
	if err != nil {
		return nil, err
	}
	return &validatorBlock{Activity: a, source: s}, nil
}

type validatorBlock struct {
	*registry.Activity
	source *Validators
}

// validatorEvent is an event in a message. Amounts are in nAVAX, or in the smallest unit of a subnet's asset.
type validatorEvent struct {
	EventType      SubEvent          `json:"eventType"`
	BlockNumber    string            `json:"blockNumber"`
	BlockTimestamp int64             `json:"blockTimestamp"`
	TxHash         string            `json:"txHash,omitempty"`
	NodeID         string            `json:"nodeId"`
	SubnetID       string            `json:"subnetId"`
	StakingTxHash  string            `json:"stakingTxHash,omitempty"`
	Weight         string            `json:"weight,omitempty"`
	StartTimestamp int64             `json:"startTimestamp,omitempty"`
	EndTimestamp   int64             `json:"endTimestamp,omitempty"`
	Rewards        []validatorReward `json:"rewards,omitempty"`
	L1             *l1Event          `json:"l1ValidatorDetails,omitempty"`
	Threshold      string            `json:"l1ValidatorFeeBalanceThreshold,omitempty"`
}

type validatorReward struct {
	Type      string   `json:"rewardType"`
	AssetID   string   `json:"assetId"`
	Amount    string   `json:"amount"`
	Addresses []string `json:"addresses"`
}

type l1Event struct {
	ValidationID     string `json:"validationId"`
	NodeID           string `json:"nodeId"`
	SubnetID         string `json:"subnetId"`
	Weight           string `json:"weight,omitempty"`
	RemainingBalance string `json:"remainingBalance"`
	BalanceChange    string `json:"balanceChange,omitempty"`
}

// Events implements Block.
func (b *validatorBlock) Events(ctx context.Context, w *Webhook) ([]Event, error) {
	f := w.Validators
	var events []Event
	for i := range b.Activity.Events {
		e := &b.Activity.Events[i]
		name := subEvents[e.Kind]
		if !slices.Contains(f.SubEvents, name) || !f.selects(e.NodeID, e.SubnetID) {
			continue
		}
		body, err := b.event(ctx, name, e)
		if err != nil {
			return nil, err
		}
		events = append(events, Event{Name: fmt.Sprint(name, e.TxID, e.ValidationID), Body: body})
	}
	if !slices.Contains(f.SubEvents, L1BalanceThreshold) || b.Time.IsZero() {
		return events, nil
	}
	below, err := b.below(ctx, f)
	return append(events, below...), err
}

func (b *validatorBlock) event(ctx context.Context, name SubEvent, e *registry.Event) (*validatorEvent, error) {
	body := b.about(name, e.NodeID, e.SubnetID)
	if e.TxID != ids.Empty {
		body.TxHash = e.TxID.String()
	}
	if e.ValidationID == ids.Empty {
		body.StakingTxHash, body.Weight = e.StakingTxID.String(), number(e.Weight)
		body.StartTimestamp, body.EndTimestamp = unix(e.Start), unix(e.End)
		return body, b.pay(body, e.Payments)
	}
	_, after, err := b.source.index.Balances(ctx, b.Activity, []ids.ID{e.ValidationID})
	if err != nil {
		return nil, err
	}
	body.L1 = l1EventOf(e.ValidationID, e.NodeID, e.SubnetID, after[0])
	body.L1.Weight = number(e.Weight)
	switch {
	case e.Amount == 0:
	case e.Kind == registry.Disabled, e.Kind == registry.Retired:
		body.L1.BalanceChange = "-" + number(e.Amount)
	default:
		body.L1.BalanceChange = number(e.Amount)
	}
	return body, nil
}

func (b *validatorBlock) about(name SubEvent, nodeID ids.NodeID, subnetID ids.ID) *validatorEvent {
	return &validatorEvent{
		EventType: name, BlockNumber: number(b.Height), BlockTimestamp: b.Time.Unix(), NodeID: nodeID.String(), SubnetID: subnetID.String(),
	}
}

// pay adds rewards.
func (b *validatorBlock) pay(body *validatorEvent, payments []registry.Payment) error {
	for i := range payments {
		p := &payments[i]
		reward := validatorReward{Type: p.Role.Reward(), AssetID: p.AssetID.String(), Amount: number(p.Amount), Addresses: []string{}}
		for _, a := range p.Addresses {
			text, err := address.FormatBech32(constants.GetHRP(b.source.networkID), a[:])
			if err != nil {
				return err
			}
			reward.Addresses = append(reward.Addresses, text)
		}
		body.Rewards = append(body.Rewards, reward)
	}
	return nil
}

func l1EventOf(validationID ids.ID, nodeID ids.NodeID, subnetID ids.ID, balance uint64) *l1Event {
	return &l1Event{
		ValidationID: validationID.String(), NodeID: nodeID.String(), SubnetID: subnetID.String(), RemainingBalance: number(balance),
	}
}

// validatorsAtOnce is the number of L1 validators that are read at once.
const validatorsAtOnce = 500

// below returns the events of L1 validators whose balance fell below the threshold in the block. Removed validators have no
// balance that could be too small.
func (b *validatorBlock) below(ctx context.Context, f *ValidatorFilter) ([]Event, error) {
	removed := make(map[ids.ID]bool)
	for i := range b.Activity.Events {
		if e := &b.Activity.Events[i]; e.Kind == registry.Retired {
			removed[e.ValidationID] = true
		}
	}
	var events []Event
	q := registry.L1Query{NodeID: f.NodeID, SubnetID: f.SubnetID, Inactive: true, Limit: validatorsAtOnce}
	for {
		page, err := b.source.index.L1Validators(ctx, q)
		if err != nil {
			return nil, err
		}
		if page.Head.Height < b.Height {
			return nil, fmt.Errorf("reading L1 validators at height %d: the last block is %d", b.Height, page.Head.Height)
		}
		all := slices.DeleteFunc(page.Validators, func(v *registry.L1Validator) bool {
			before := !v.Removed.IsZero() && v.Removed.Before(b.Time)
			return before || removed[v.ValidationID] || !f.selects(v.NodeID, v.SubnetID)
		})
		of := make([]ids.ID, len(all))
		for i, v := range all {
			of[i] = v.ValidationID
		}
		before, after, err := b.source.index.Balances(ctx, b.Activity, of)
		if err != nil {
			return nil, err
		}
		for i, v := range all {
			if before[i] < f.Threshold || after[i] >= f.Threshold {
				continue
			}
			body := b.about(L1BalanceThreshold, v.NodeID, v.SubnetID)
			body.Threshold = number(f.Threshold)
			body.L1 = l1EventOf(v.ValidationID, v.NodeID, v.SubnetID, after[i])
			events = append(events, Event{Name: fmt.Sprint(L1BalanceThreshold, v.ValidationID), Body: body})
		}
		if q.After = page.Next; page.Next == nil {
			return events, nil
		}
	}
}

func unix(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.Unix()
}
