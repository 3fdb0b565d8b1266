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

// rewards asks a node for the outputs of rewards, ahead of the pipeline that commits
// them. It stores what the node answered beside the containers, so that blocks are
// understood again without the node. It serves one pipeline.
type rewards struct {
	node      pchain.Node
	reader    store.Reader
	networkID uint32
	// keep says whether answers are stored.
	keep bool
	log  *slog.Logger

	// fresh are answers that are not in a batch yet, and asked is what the committer asked
	// for last. Both are the committer's alone.
	fresh []store.Record
	asked ids.ID

	mu sync.Mutex
	// ahead are answers for which the committer has not asked yet; guarded by mu.
	ahead map[ids.ID][][]byte
	// differences counts the rewards of which the node says something else than the
	// supply, last is the last one, and computed counts those that no node lists. All
	// are guarded by mu.
	differences, computed int
	last                  error
}

const (
	// rewardsAtOnce is how many rewards each fetch asks for at a time.
	rewardsAtOnce = 8
	// rewardsAhead bounds the answers that wait for the committer, at about 400 bytes each.
	rewardsAhead = 50_000
)

// rewardSource is the P-Chain's, and asks for the rewards of the blocks that it fetches.
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

// askAhead asks for the reward of each proposal whose decision is among the blocks. What
// cannot be had now is asked for again by the committer.
func (r *rewards) askAhead(ctx context.Context, blocks []index.Block[*pchain.Block]) {
	var group errgroup.Group
	group.SetLimit(rewardsAtOnce)
	for i := range blocks {
		// The node has executed the decision once the block after the proposal is there.
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
				return nil // the committer asks again, and says so
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

// ask asks the node. Outputs are in the order of their indexes, which does not depend on
// the node.
func (r *rewards) ask(ctx context.Context, txID ids.ID, height uint64) ([][]byte, error) {
	utxos, err := r.node.RewardUTXOs(ctx, txID, height)
	if errors.Is(err, node.ErrNotOffered) {
		err = fmt.Errorf("%w: %w", pchain.ErrNotOffered, err)
	}
	slices.SortFunc(utxos, bytes.Compare) // version and transaction are the same, then comes the index
	return utxos, err
}

func (r *rewards) takeAhead(txID ids.ID) ([][]byte, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	utxos, ok := r.ahead[txID]
	delete(r.ahead, txID)
	return utxos, ok
}

// RewardUTXOs implements pchain.Node. The answer is one that was asked for ahead, one
// that is stored, or else the node's. Whoever asks again wants another answer than the
// one that is stored.
func (r *rewards) RewardUTXOs(ctx context.Context, txID ids.ID, height uint64) ([][]byte, error) {
	again := r.asked == txID
	r.asked, r.fresh = txID, nil
	pk := r.key(txID)
	utxos, ok := r.takeAhead(txID)
	if !ok && r.keep && !again {
		values, err := r.reader.Get(ctx, store.FamilyAnswer, []store.PK{pk})
		if err != nil {
			return nil, fmt.Errorf("reading what a node answered: %w", err)
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
		r.fresh = append(r.fresh, store.Record{PK: pk, V: appendList(utxos)})
	}
	return utxos, nil
}

// take moves what is new into a batch.
func (r *rewards) take(batch *store.Batch) {
	for _, one := range r.fresh {
		batch.Put(store.FamilyAnswer, one.PK, one.V)
	}
	r.fresh = nil
}

// askedReward is the first byte of a stored answer's key after the network.
const askedReward = 'r'

func (r *rewards) key(txID ids.ID) store.PK {
	p := append(binary.BigEndian.AppendUint32(nil, r.networkID), askedReward)
	return store.PK{P: append(p, txID[:]...)}
}

// differ notes a reward of which the node says something else than the supply.
func (r *rewards) differ(d *pchain.Difference) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.differences == 0 {
		r.log.Warn("a reward is not what follows from the supply; others are counted", slog.Any("error", d))
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

// note is what people who look at the status must know of rewards.
func (r *rewards) note() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.differences > 0:
		return fmt.Sprintf("%d rewards differ from what the supply gives; the last one: %v", r.differences, r.last)
	case r.computed > 0:
		return fmt.Sprintf("%d rewards are computed from the supply, because no node offers platform.getRewardUTXOs", r.computed)
	}
	return ""
}

// register adds metrics.
func (r *rewards) register(to prometheus.Registerer) error {
	counter := func(name, help string, of *int) error {
		return to.Register(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "quorate_index_" + name, Help: help}, func() float64 {
			r.mu.Lock()
			defer r.mu.Unlock()
			return float64(*of)
		}))
	}
	return errors.Join(
		counter("reward_differences_total", "Rewards of which the node says something else than what follows from the supply.", &r.differences),
		counter("rewards_computed_total", "Rewards computed from the supply, because no node lists them.", &r.computed),
	)
}

// appendList writes how many there are, and each after its length.
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
