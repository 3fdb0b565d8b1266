package primary

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/ava-labs/avalanchego/ids"

	"quorate/internal/chain/pchain"
	"quorate/internal/index"
	"quorate/internal/node"
	"quorate/internal/store"
)

// rewards requests the outputs of rewards from a node before the pipeline commits the blocks. It stores the answers
// beside the containers, so that blocks can be decoded again without the node. It serves one pipeline.
type rewards struct {
	node      pchain.Node
	reader    store.Reader
	networkID uint32
	// keep reports whether answers are stored.
	keep bool
	log  *slog.Logger

	// fresh are answers that are not in a batch yet. asked is the committer's last request. Only the committer uses
	// both.
	fresh []store.Entry
	asked ids.ID

	mu sync.Mutex
	// ahead are prefetched answers that the committer has not requested yet; guarded by mu.
	ahead map[ids.ID][][]byte
	// differences counts the rewards for which the node's outputs differ from the computed ones, last is the last
	// difference, and computed counts the rewards that no node lists. All are guarded by mu.
	differences, computed int
	last                  error
}

const (
	// rewardsAtOnce is the number of parallel requests of each fetch.
	rewardsAtOnce = 8
	// rewardsAhead bounds the prefetched answers; each takes about 400 bytes.
	rewardsAhead = 50_000
)

// rewardSource is the P-Chain's source. It prefetches the rewards of the blocks it fetches.
type rewardSource struct {
	*index.PChainSource
	rewards *rewards
}

// Fetch implements index.Source.
func (s rewardSource) Fetch(ctx context.Context, from uint64, n int) ([]index.Block[*pchain.Block], error) {
	blocks, err := s.PChainSource.Fetch(ctx, from, n)
	if err == nil {
		s.rewards.askAhead(ctx, blocks)
	}
	return blocks, err
}

// Note implements index.Noter.
func (s rewardSource) Note() string { return s.rewards.note() }

// askAhead requests the reward of each proposal that the blocks decide. The committer repeats failed requests.
func (r *rewards) askAhead(ctx context.Context, blocks []index.Block[*pchain.Block]) {
	var group errgroup.Group
	group.SetLimit(rewardsAtOnce)
	for i := range blocks {
		// The node has executed the decision once the block after the proposal exists.
		if i == 0 || blocks[i-1].Content.Proposal == nil {
			continue
		}
		id, ok := pchain.RewardedID(blocks[i-1].Content.Proposal)
		if !ok {
			continue
		}
		group.Go(func() error {
			utxos, err := r.ask(ctx, id, blocks[i].Height)
			if err != nil {
				return nil // the committer retries and reports the error
			}
			r.mu.Lock()
			defer r.mu.Unlock()
			if r.ahead == nil {
				r.ahead = make(map[ids.ID][][]byte)
			}
			if len(r.ahead) < rewardsAhead {
				r.ahead[id] = utxos
			}
			return nil
		})
	}
	_ = group.Wait() // none returns an error
}

// ask requests outputs from the node and sorts them by index, so that the order does not depend on the node.
func (r *rewards) ask(ctx context.Context, txID ids.ID, height uint64) ([][]byte, error) {
	utxos, err := r.node.RewardUTXOs(ctx, txID, height)
	if errors.Is(err, node.ErrNotOffered) {
		err = fmt.Errorf("%w: %w", pchain.ErrNotOffered, err)
	}
	slices.SortFunc(utxos, bytes.Compare) // version and transaction are equal, so this sorts by index
	return utxos, err
}

func (r *rewards) takeAhead(txID ids.ID) ([][]byte, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	utxos, ok := r.ahead[txID]
	delete(r.ahead, txID)
	return utxos, ok
}

// RewardUTXOs implements pchain.Node. It returns the prefetched answer, the stored answer, or the node's answer. A
// repeated request bypasses the stored answer.
func (r *rewards) RewardUTXOs(ctx context.Context, txID ids.ID, height uint64) ([][]byte, error) {
	again := r.asked == txID
	r.asked, r.fresh = txID, nil
	pk := r.key(txID)
	utxos, ok := r.takeAhead(txID)
	if !ok && r.keep && !again {
		values, err := r.reader.Get(ctx, store.FamilyAnswer, []store.PK{pk})
		if err != nil {
			r.asked = ids.Empty // the answer, if there is one, was not returned
			return nil, fmt.Errorf("reading a stored node answer: %w", err)
		}
		if values[0] != nil {
			return parseList(values[0])
		}
	}
	if !ok {
		var err error
		if utxos, err = r.ask(ctx, txID, height); err != nil {
			if errors.Is(err, pchain.ErrNotOffered) {
				r.countComputed()
			}
			return nil, err
		}
	}
	if r.keep {
		r.fresh = append(r.fresh, store.Entry{PK: pk, V: appendList(utxos)})
	}
	return utxos, nil
}

// take moves new answers into a batch.
func (r *rewards) take(batch *store.Batch) {
	for _, one := range r.fresh {
		batch.Put(store.FamilyAnswer, one.PK, one.V)
	}
	r.fresh = nil
}

// askedReward is the byte after the network in the key of a stored answer.
const askedReward = 'r'

func (r *rewards) key(txID ids.ID) store.PK {
	p := append(binary.BigEndian.AppendUint32(nil, r.networkID), askedReward)
	return store.PK{P: append(p, txID[:]...)}
}

// differ notes a reward for which the node's outputs differ from the computed ones.
func (r *rewards) differ(d *pchain.DifferenceError) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.differences == 0 {
		r.log.Warn("the node's reward outputs differ from the computed ones; further differences are only counted", slog.Any("error", d))
	}
	r.differences++
	r.last = d
}

func (r *rewards) countComputed() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.computed == 0 {
		r.log.Warn("no node offers platform.getRewardUTXOs; rewards are computed from the supply")
	}
	r.computed++
}

// note returns the message about rewards in the status.
func (r *rewards) note() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.differences > 0:
		return fmt.Sprintf("%d rewards differ from the computed ones; the last one: %v", r.differences, r.last)
	case r.computed > 0:
		return fmt.Sprintf("%d rewards were computed from the supply because no node offers platform.getRewardUTXOs", r.computed)
	}
	return ""
}

// register registers metrics.
func (r *rewards) register(to prometheus.Registerer) error {
	read := func(of *int) func() float64 {
		return func() float64 {
			r.mu.Lock()
			defer r.mu.Unlock()
			return float64(*of)
		}
	}
	return errors.Join(
		to.Register(prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "quorate_index_reward_differences_total", Help: "Rewards for which the node's outputs differ from the computed ones.",
		}, read(&r.differences))),
		to.Register(prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "quorate_index_rewards_computed_total", Help: "Rewards computed from the supply because no node lists them.",
		}, read(&r.computed))),
	)
}

// appendList encodes a count, then each element with its length prefix.
func appendList(all [][]byte) []byte {
	b := binary.AppendUvarint(nil, uint64(len(all)))
	for _, one := range all {
		b = append(binary.AppendUvarint(b, uint64(len(one))), one...)
	}
	return b
}

func parseList(b []byte) (all [][]byte, err error) {
	bad := fmt.Errorf("%w: an answer of a node is cut short", store.ErrCorrupt)
	count, n := binary.Uvarint(b)
	if n <= 0 || count > uint64(len(b)) {
		return nil, bad
	}
	b = b[n:]
	for range count {
		size, n := binary.Uvarint(b)
		if n <= 0 || size > uint64(len(b)-n) {
			return nil, bad
		}
		all = append(all, b[n:][:size])
		b = b[n:][size:]
	}
	if len(b) > 0 {
		return nil, bad
	}
	return all, nil
}
