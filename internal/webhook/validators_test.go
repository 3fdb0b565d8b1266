package webhook_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	avagenesis "github.com/ava-labs/avalanchego/genesis"
	"github.com/ava-labs/avalanchego/ids"

	"quorate/internal/chain/genesis"
	"quorate/internal/chain/pchain"
	"quorate/internal/index/registry"
	"quorate/internal/simnet/history"
	"quorate/internal/store"
	"quorate/internal/webhook"
)

// validatorNetwork is the network of the histories.
const validatorNetwork = 12345

// validatorsIn returns the index of validators in a store.
func validatorsIn(v store.Viewer) *registry.Index {
	return registry.New(v, validatorNetwork, avagenesis.GetTxFeeConfig(validatorNetwork).ValidatorFeeConfig)
}

// validatorRows returns the rows of an index of a random history, by the height of the block.
func validatorRows(t *testing.T) (rows []*store.Batch) {
	t.Helper()
	const network, transactions = validatorNetwork, 2000
	g, err := history.New(history.Options{Seed: 3, NetworkID: network, Txs: transactions, Span: 10 * 24 * time.Hour})
	require.NoError(t, err)
	fees := avagenesis.GetTxFeeConfig(network).ValidatorFeeConfig
	s := store.NewMemory()
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	var projection *registry.Projection
	for g.Txs() < transactions || g.Pending() > 0 {
		made, err := g.Next()
		require.NoError(t, err)
		if made.Chain != history.P {
			continue
		}
		b, err := pchain.ParseBlock(made.Bytes)
		require.NoError(t, err)
		if projection == nil {
			of, err := genesis.Of(network, b.ID)
			require.NoError(t, err)
			decoder, err := pchain.NewDecoder(pchain.DecoderOptions{
				NetworkID: network, Genesis: of.P, AVAXAssetID: of.AVAXAssetID, Validators: of.Validators, Supply: of.Supply, ValidatorFees: &fees, WithoutOutputs: true,
			})
			require.NoError(t, err)
			projection = registry.NewProjection(network, decoder)
		}
		require.EqualValues(t, len(rows), b.Height)
		rows = append(rows, new(store.Batch))
		require.NoError(t, projection.Apply(t.Context(), s, b, rows[b.Height]))
	}
	return rows
}

// indexValidators indexes a random history. It returns the index and the height of the last block.
func indexValidators(t *testing.T) (*registry.Index, uint64) {
	t.Helper()
	s := store.NewMemory()
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	rows := validatorRows(t)
	for _, batch := range rows {
		require.NoError(t, s.Commit(t.Context(), batch))
	}
	return validatorsIn(s), uint64(len(rows) - 1)
}

// laggingViews opens a view of one of two stores at random.
type laggingViews struct {
	mu     sync.Mutex
	random *rand.Rand // guarded by mu
	stores [2]*store.Memory
}

func (u *laggingViews) View(ctx context.Context) (store.View, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.stores[min(u.random.IntN(4), 1)].View(ctx)
}

// collector is a receiver that collects the events of validators, by height.
type collector struct {
	mu     sync.Mutex
	events map[uint64][]string // guarded by mu
}

func (c *collector) RoundTrip(r *http.Request) (*http.Response, error) {
	var m struct{ Event any }
	if err := json.NewDecoder(r.Body).Decode(&m); err != nil {
		return nil, err
	}
	height, text, err := eventText(m.Event)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.events[height] = append(c.events[height], text)
	return &http.Response{StatusCode: http.StatusOK, Header: make(http.Header), Body: http.NoBody, Request: r}, nil
}

func (c *collector) at(height uint64) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.events[height])
}

// eventText returns an event as JSON, and its height.
func eventText(body any) (height uint64, text string, err error) {
	b, err := json.Marshal(body)
	if err != nil {
		return 0, "", err
	}
	var one map[string]any
	if err := json.Unmarshal(b, &one); err != nil {
		return 0, "", err
	}
	if b, err = json.Marshal(one); err != nil { // in the order of the names
		return 0, "", err
	}
	height, err = strconv.ParseUint(one["blockNumber"].(string), 10, 64)
	return height, string(b), err
}

// oldPages is an index whose pages of L1 validators are from before the first block.
type oldPages struct{ *registry.Index }

func (x oldPages) L1Validators(ctx context.Context, q registry.L1Query) (*registry.L1Page, error) {
	page, err := x.Index.L1Validators(ctx, q)
	if err == nil {
		page.Head.Height, page.Validators = 0, nil
	}
	return page, err
}

// TestValidatorEventsWithLaggingViews has an index whose views are at the last block or at the one before, as those of
// standbys. Each event arrives as a store with all blocks has it.
func TestValidatorEventsWithLaggingViews(t *testing.T) {
	rows := validatorRows(t)
	whole := store.NewMemory()
	defer func() { require.NoError(t, whole.Close()) }()
	for _, batch := range rows {
		require.NoError(t, whole.Commit(t.Context(), batch))
	}
	tip := uint64(len(rows) - 1)
	page, err := validatorsIn(whole).L1Validators(t.Context(), registry.L1Query{Inactive: true, Limit: 1000})
	require.NoError(t, err)
	filters := []*webhook.ValidatorFilter{{SubnetID: &ids.Empty, SubEvents: webhook.SubEvents}}
	subnets := make(map[ids.ID]bool)
	for _, v := range page.Validators {
		if id := v.SubnetID; !subnets[id] {
			subnets[id] = true
			filters = append(filters, &webhook.ValidatorFilter{SubnetID: &id, SubEvents: webhook.SubEvents, Threshold: 1})
		}
	}
	want := make(map[uint64][]string)
	source := webhook.NewValidators(validatorNetwork, validatorsIn(whole), func() (uint64, bool) { return tip, true })
	kinds := make(map[any]bool)
	for height := uint64(1); height <= tip; height++ {
		b, err := source.Block(t.Context(), height)
		require.NoError(t, err)
		for _, f := range filters {
			events, err := b.Events(t.Context(), &webhook.Webhook{Validators: f})
			require.NoError(t, err)
			for _, e := range events {
				at, text, err := eventText(e.Body)
				require.NoError(t, err)
				require.Equal(t, height, at)
				want[height] = append(want[height], text)
				for _, kind := range webhook.SubEvents {
					kinds[kind] = kinds[kind] || strings.Contains(text, string(kind))
				}
			}
		}
	}
	for _, kind := range webhook.SubEvents {
		require.True(t, kinds[kind], "no event %s", kind)
	}
	synctest.Test(t, func(t *testing.T) {
		views := &laggingViews{random: rand.New(rand.NewPCG(1, 1)), stores: [2]*store.Memory{store.NewMemory(), store.NewMemory()}}
		index := validatorsIn(views)
		source := webhook.NewValidators(validatorNetwork, index, func() (uint64, bool) {
			head, err := index.Head(t.Context())
			return head.Height, err == nil
		})
		book, got := webhook.NewBook(store.NewMemory(), len(filters)), &collector{events: make(map[uint64][]string)}
		for _, f := range filters {
			_, err := book.Create(t.Context(), webhook.Webhook{
				Owner: "ann", URL: "https://example.org/hook", EventType: webhook.ValidatorActivity, Chain: "test", From: 1,
				Validators: f,
			})
			require.NoError(t, err)
		}
		defer runWorker(t, webhook.Options{
			Book: book, Transport: got, Source: func(string) (webhook.Source, bool) { return source, true },
		})()
		require.NoError(t, views.stores[1].Commit(t.Context(), rows[0]))
		for height := uint64(1); height <= tip; height++ {
			require.NoError(t, views.stores[0].Commit(t.Context(), rows[height-1]))
			require.NoError(t, views.stores[1].Commit(t.Context(), rows[height]))
			for begin := time.Now(); len(got.at(height)) < len(want[height]) && time.Since(begin) < 10*time.Hour; {
				time.Sleep(time.Second)
			}
			require.ElementsMatch(t, want[height], got.at(height), "height %d", height)
		}
	})
}

// TestValidatorEvents compares the events of all blocks that webhooks with different filters report with what the index
// says about each validator.
//
//test:plain
func TestValidatorEvents(t *testing.T) {
	index, tip := indexValidators(t)
	source := webhook.NewValidators(12345, index, func() (uint64, bool) { return tip, true })
	page, err := index.L1Validators(t.Context(), registry.L1Query{Inactive: true, Limit: 1000})
	require.NoError(t, err)
	require.Greater(t, len(page.Validators), 10)
	subnets, nodes := make(map[ids.ID]bool), make(map[ids.NodeID]bool)
	for _, v := range page.Validators {
		subnets[v.SubnetID], nodes[v.NodeID] = true, true
	}
	subnets[ids.Empty] = true
	var filters []*webhook.ValidatorFilter
	for id := range subnets {
		filters = append(filters, &webhook.ValidatorFilter{SubnetID: &id, SubEvents: webhook.SubEvents, Threshold: 1_000_000})
	}
	for id := range nodes {
		filters = append(filters, &webhook.ValidatorFilter{NodeID: &id, SubEvents: webhook.SubEvents[3:], Threshold: 1})
	}
	one := page.Validators[len(page.Validators)/2]
	filters = append(filters, &webhook.ValidatorFilter{SubnetID: &one.SubnetID, NodeIDs: []ids.NodeID{one.NodeID}, SubEvents: webhook.SubEvents, Threshold: 1 << 40})

	reported := make(map[webhook.SubEvent]int)
	for height := uint64(1); height <= tip; height++ {
		a, err := index.Activity(t.Context(), height)
		require.NoError(t, err)
		b, err := source.Block(t.Context(), height)
		require.NoError(t, err)
		for _, f := range filters {
			events, err := b.Events(t.Context(), &webhook.Webhook{Validators: f})
			require.NoError(t, err)
			var got []string
			names := make(map[string]bool)
			for _, e := range events {
				names[e.Name] = true
				text, err := json.Marshal(e.Body)
				require.NoError(t, err)
				var body struct {
					EventType              webhook.SubEvent
					BlockNumber            uint64 `json:",string"`
					NodeID                 string
					SubnetID               ids.ID
					Rewards                []any
					StakingTxHash, Weight  string
					L1ValidatorDetails     *struct{ ValidationID ids.ID }
					BlockTimestamp         int64
					L1ValidatorFeeBalance  string
					StartTimestamp, TxHash any
				}
				require.NoError(t, json.Unmarshal(text, &body))
				require.Equal(t, height, body.BlockNumber)
				require.Equal(t, a.Time.Unix(), body.BlockTimestamp)
				if body.EventType == webhook.RewardDistribution {
					require.NotEmpty(t, body.Rewards, "%s", text)
				}
				validation := ids.Empty
				if body.L1ValidatorDetails != nil {
					validation = body.L1ValidatorDetails.ValidationID
				} else {
					require.NotEmpty(t, body.StakingTxHash, "%s", text)
				}
				got = append(got, fmt.Sprintln(body.EventType, body.NodeID, body.SubnetID, validation))
				reported[body.EventType]++
			}
			require.Len(t, names, len(events), "events of a block have different names")
			require.ElementsMatch(t, eventsOf(t, index, a, page.Validators, f), got, "height %d", height)
		}
	}
	for _, e := range webhook.SubEvents {
		require.Positive(t, reported[e], "no event %s", e)
	}
}

// TestLaggingL1ValidatorsFail reads L1 validators from a view that is older than the block.
func TestLaggingL1ValidatorsFail(t *testing.T) {
	index, tip := indexValidators(t)
	source := webhook.NewValidators(validatorNetwork, oldPages{index}, func() (uint64, bool) { return tip, true })
	hook := webhook.Webhook{Validators: &webhook.ValidatorFilter{
		SubnetID: &ids.Empty, SubEvents: []webhook.SubEvent{webhook.L1BalanceThreshold}, Threshold: 1,
	}}
	failed := 0
	for height := uint64(1); height <= tip; height++ {
		a, err := index.Activity(t.Context(), height)
		require.NoError(t, err)
		b, err := source.Block(t.Context(), height)
		require.NoError(t, err)
		_, err = b.Events(t.Context(), &hook)
		if a.Time.IsZero() {
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, "the last block is 0")
		failed++
	}
	require.Positive(t, failed)
}

// eventsOf returns the events of a block that a filter selects, in the plainest way.
func eventsOf(t *testing.T, index *registry.Index, a *registry.Activity, all []*registry.L1Validator, f *webhook.ValidatorFilter) (want []string) {
	t.Helper()
	kinds := map[registry.EventKind]webhook.SubEvent{
		registry.Staked: webhook.ValidatorStake, registry.Delegated: webhook.DelegatorStake, registry.Paid: webhook.RewardDistribution,
		registry.BalanceIncreased: webhook.L1BalanceIncreased, registry.Disabled: webhook.L1Disabled, registry.Retired: webhook.L1Removed,
	}
	selects := func(nodeID ids.NodeID, subnetID ids.ID) bool {
		switch {
		case f.NodeID != nil:
			return nodeID == *f.NodeID
		case f.NodeIDs != nil:
			return subnetID == *f.SubnetID && nodeID == f.NodeIDs[0]
		}
		return subnetID == *f.SubnetID
	}
	removed := make(map[ids.ID]bool)
	for _, e := range a.Events {
		if e.Kind == registry.Retired {
			removed[e.ValidationID] = true
		}
		if selects(e.NodeID, e.SubnetID) && slices.Contains(f.SubEvents, kinds[e.Kind]) {
			want = append(want, fmt.Sprintln(kinds[e.Kind], e.NodeID, e.SubnetID, e.ValidationID))
		}
	}
	if a.Time.IsZero() {
		return want
	}
	for _, v := range all {
		before, after, err := index.Balances(t.Context(), a, []ids.ID{v.ValidationID})
		require.NoError(t, err)
		if selects(v.NodeID, v.SubnetID) && !removed[v.ValidationID] && before[0] >= f.Threshold && after[0] < f.Threshold {
			want = append(want, fmt.Sprintln(webhook.L1BalanceThreshold, v.NodeID, v.SubnetID, v.ValidationID))
		}
	}
	return want
}
