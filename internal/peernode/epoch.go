package peernode

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/hashing"
	"github.com/ava-labs/avalanchego/utils/wrappers"
	"github.com/ava-labs/avalanchego/vms/proposervm/acp181"
	proposer "github.com/ava-labs/avalanchego/vms/proposervm/block"
	"github.com/ava-labs/libevm/crypto"
	"github.com/ava-labs/libevm/rlp"
)

const (
	// maxTips bounds the chains whose last blocks are cached.
	maxTips = 64
	// maxLookups bounds the chains whose last blocks are looked up at a time. A node may validate all of them; its
	// session has an exchange for each (p2p, maxExchanges).
	maxLookups = 8
	// lookupTimeout bounds a lookup. It is shorter than the timeout of a call (package node), so that the caller gets
	// the reason for a failure.
	lookupTimeout = 4 * time.Second
	// holderTimeout bounds one request for a last block.
	holderTimeout = time.Second
	// maxHolders is how many nodes are asked for a last block.
	maxHolders = 3
)

// errUnknownBlockchain means that the executed P-Chain has no such blockchain.
var errUnknownBlockchain = errors.New("unknown blockchain")

// tips caches the last accepted blocks of chains.
type tips struct {
	lookups chan struct{} // holds a token for each lookup

	mu      sync.Mutex
	byChain map[ids.ID]*lookup // guarded by mu
}

// lookup is the cached result of the last lookup of a chain, which may be an error.
type lookup struct {
	// asking holds a token while a call looks the chain up. The call owns the fields below.
	asking chan struct{}
	last   *lastBlock
	err    error
	until  time.Time
}

func newTips() *tips {
	return &tips{lookups: make(chan struct{}, maxLookups), byChain: make(map[ids.ID]*lookup)}
}

// of returns the lookup of a chain.
func (t *tips) of(chainID ids.ID) *lookup {
	t.mu.Lock()
	defer t.mu.Unlock()
	if l, ok := t.byChain[chainID]; ok {
		return l
	}
	if len(t.byChain) >= maxTips {
		clear(t.byChain)
	}
	l := &lookup{asking: make(chan struct{}, 1)}
	t.byChain[chainID] = l
	return l
}

// get returns the last block of a chain, which find looks up at most once each pollInterval.
func (t *tips) get(
	ctx context.Context, chainID ids.ID, find func(context.Context) (*lastBlock, error),
) (*lastBlock, error) {
	l := t.of(chainID)
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case l.asking <- struct{}{}:
	}
	defer func() { <-l.asking }()
	if time.Now().Before(l.until) {
		return l.last, l.err
	}
	last, err := t.lookUp(ctx, find)
	if err != nil {
		err = fmt.Errorf("finding the last block of chain %s: %w", chainID, err)
		if ctx.Err() != nil {
			return nil, err // not cached, the caller gave up
		}
	}
	l.last, l.err, l.until = last, err, time.Now().Add(pollInterval)
	return last, err
}

func (t *tips) lookUp(ctx context.Context, find func(context.Context) (*lastBlock, error)) (*lastBlock, error) {
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	select {
	case <-ctx.Done():
		return nil, fmt.Errorf("%d lookups for other chains are still running; try again in a few seconds", maxLookups)
	case t.lookups <- struct{}{}:
	}
	defer func() { <-t.lookups }()
	return find(ctx)
}

// epoch returns a chain's current epoch (ACP-181), which its last accepted block determines. The validators of the
// chain vote on that block, as those of the primary network vote on the P-Chain's. The error is errUnknownBlockchain if
// there is no such chain.
func (n *Node) epoch(ctx context.Context, chainID ids.ID) (proposer.Epoch, error) {
	subnetID, err := n.subnetOf(ctx, chainID)
	if err != nil {
		return proposer.Epoch{}, err
	}
	last, err := n.tips.get(ctx, chainID, func(ctx context.Context) (*lastBlock, error) {
		peers, weights, err := n.votersOf(ctx, subnetID)
		if err != nil {
			return nil, err
		}
		return findLast(ctx, peers, chainID, weights, n.o.Genesis.Time, n.disputed)
	})
	if err != nil {
		return proposer.Epoch{}, err
	}
	return acp181.NewEpoch(n.o.Upgrades, last.pChainHeight, last.epoch, last.timestamp, time.Now()), nil
}

// subnetOf returns the subnet that validates a chain. The error is errUnknownBlockchain if there is no such chain.
func (n *Node) subnetOf(ctx context.Context, chainID ids.ID) (ids.ID, error) {
	n.mu.RLock() // Run closes the chain afterwards
	defer n.mu.RUnlock()
	if err := n.readyLocked(); err != nil {
		return ids.Empty, err
	}
	subnetID, err := n.chain.SubnetOf(ctx, chainID)
	if err != nil {
		return ids.Empty, fmt.Errorf("%w: %w", errUnknownBlockchain, err)
	}
	return subnetID, nil
}

// votersOf returns the validators of a subnet, with their weights.
func (n *Node) votersOf(ctx context.Context, subnetID ids.ID) (Peers, map[ids.NodeID]uint64, error) {
	n.mu.RLock() // Run closes the chain afterwards
	defer n.mu.RUnlock()
	if err := n.readyLocked(); err != nil {
		return nil, nil, err
	}
	weights, err := weightsOf(ctx, n.chain, subnetID)
	return n.peers, weights, err
}

// lastBlock has the fields of a chain's last accepted block that determine the epoch of the next one.
type lastBlock struct {
	enveloped    bool // in a proposer envelope
	pChainHeight uint64
	epoch        proposer.Epoch
	timestamp    time.Time
}

// after reports whether a block comes after another one of its chain. Blocks without envelopes come before all others.
func (b *lastBlock) after(other *lastBlock) bool {
	if b.enveloped != other.enveloped {
		return b.enveloped
	}
	return b.timestamp.After(other.timestamp)
}

// findLast asks voters for a chain's last accepted block. genesis is the time of the network's genesis.
func findLast(
	ctx context.Context, peers Peers, chainID ids.ID, weights map[ids.NodeID]uint64, genesis time.Time,
	disputed prometheus.Counter,
) (*lastBlock, error) {
	var p *poll
	var err error
	for range 3 { // a chain that grows every second is often between two blocks
		if p, err = ask(ctx, peers, chainID, weights, "chain's validators", disputed); err == nil && p.behind {
			err = errNewer
		}
		if !errors.Is(err, errNewer) || ctx.Err() != nil {
			break
		}
	}
	if err != nil {
		return nil, err
	}
	var last *lastBlock
	var read []ids.ID
	var failure error
	for _, id := range p.accepted {
		b, err := blockOf(ctx, peers, chainID, id, p.holders[id], genesis)
		if err != nil {
			failure = err
			continue
		}
		read = append(read, id)
		if last == nil || b.after(last) {
			last = b
		}
	}
	if !p.majorityNames(read) { // the blocks that were read may be older than the tip
		return nil, failure
	}
	return last, nil
}

// blockOf returns a believed block or, for a block that only decides about its parent, that parent: it has the same
// time, height and epoch.
func blockOf(
	ctx context.Context, peers Peers, chainID, id ids.ID, holders []ids.NodeID, genesis time.Time,
) (*lastBlock, error) {
	var failure error
	for _, nodeID := range holders[:min(len(holders), maxHolders)] {
		b, err := containerOf(ctx, peers, nodeID, chainID, id)
		if err != nil {
			failure = err
			continue
		}
		if parsed, ok := parseEnvelope(b); ok && parsed.ID() == id {
			if signed, ok := parsed.(proposer.SignedBlock); ok {
				return &lastBlock{true, signed.PChainHeight(), signed.PChainEpoch(), signed.Timestamp()}, nil
			}
			return blockOf(ctx, peers, chainID, parsed.ParentID(), holders, genesis)
		}
		if timestamp, ok := preForkTime(b, id, genesis); ok {
			// avalanchego, too, has height 0 and no epoch for such a block (vms/proposervm, preForkBlock).
			return &lastBlock{timestamp: timestamp}, nil
		}
		failure = fmt.Errorf("%s did not send block %s, or the block has no proposer envelope and is of an unknown kind",
			nodeID, id)
	}
	return nil, failure
}

// parseEnvelope parses a proposer envelope, even without its signature, which the ID does not cover. blockOf would
// otherwise take such an envelope for a block without one.
func parseEnvelope(b []byte) (proposer.Block, bool) {
	parsed, err := proposer.ParseWithoutVerification(b)
	if err != nil {
		parsed, err = proposer.ParseWithoutVerification(append(slices.Clone(b), make([]byte, wrappers.IntLen)...))
	}
	return parsed, err == nil
}

func containerOf(ctx context.Context, peers Peers, nodeID ids.NodeID, chainID, id ids.ID) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, holderTimeout)
	defer cancel()
	return peers.Container(ctx, nodeID, chainID, id)
}

// preForkTime returns the time of a block without a proposer envelope, such as a chain's genesis block. It returns false
// unless it finds that the block has the ID. VMs define their IDs: most use the hash of an EVM header or of the whole
// block. Only the VM can read the time of a block of the second kind, so preForkTime returns that of the network's
// genesis.
func preForkTime(b []byte, id ids.ID, genesis time.Time) (time.Time, bool) {
	if ids.ID(hashing.ComputeHash256Array(b)) == id {
		return genesis, true
	}
	const timeField = 11
	content, _, err := rlp.SplitList(b)
	if err != nil {
		return time.Time{}, false
	}
	_, _, rest, err := rlp.Split(content)
	header := content[:len(content)-len(rest)]
	if err != nil || ids.ID(crypto.Keccak256(header)) != id {
		return time.Time{}, false
	}
	var fields []rlp.RawValue
	if rlp.DecodeBytes(header, &fields) != nil || len(fields) <= timeField {
		return time.Time{}, false
	}
	var seconds uint64
	err = rlp.DecodeBytes(fields[timeField], &seconds)
	return time.Unix(int64(seconds), 0), err == nil
}
