package peernode

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/vms/proposervm/acp181"
	proposer "github.com/ava-labs/avalanchego/vms/proposervm/block"
)

// maxTips bounds the chains whose last blocks are cached.
const maxTips = 64

// tips finds the last accepted blocks of chains, for one call at a time: a session has few exchanges, and following the
// chains of the primary network needs one for each.
type tips struct {
	// asking holds a token while no call asks. Its holder owns the field below.
	asking chan struct{}
	cached map[ids.ID]cachedTip
}

type cachedTip struct {
	block proposer.SignedBlock
	until time.Time
}

func newTips() *tips {
	t := &tips{asking: make(chan struct{}, 1), cached: make(map[ids.ID]cachedTip)}
	t.asking <- struct{}{}
	return t
}

// epoch returns a chain's current epoch (ACP-181), which its last accepted block determines. The validators of the chain
// vote on that block, as those of the primary network vote on the P-Chain's.
func (n *Node) epoch(ctx context.Context, chainID ids.ID) (proposer.Epoch, error) {
	select {
	case <-ctx.Done():
		return proposer.Epoch{}, ctx.Err()
	case <-n.tips.asking:
	}
	defer func() { n.tips.asking <- struct{}{} }()
	if err := n.Ready(); err != nil {
		return proposer.Epoch{}, err
	}
	tip, ok := n.tips.cached[chainID]
	if !ok || !time.Now().Before(tip.until) {
		last, err := n.lastBlock(ctx, chainID)
		if err != nil {
			return proposer.Epoch{}, err
		}
		if len(n.tips.cached) >= maxTips {
			clear(n.tips.cached)
		}
		tip = cachedTip{last, time.Now().Add(pollInterval)}
		n.tips.cached[chainID] = tip
	}
	last := tip.block
	return acp181.NewEpoch(n.o.Upgrades, last.PChainHeight(), last.PChainEpoch(), last.Timestamp(), time.Now()), nil
}

// lastBlock asks for a chain's last accepted block.
func (n *Node) lastBlock(ctx context.Context, chainID ids.ID) (proposer.SignedBlock, error) {
	peers, weights, err := n.votersOf(ctx, chainID)
	if err != nil {
		return nil, err
	}
	var p *poll
	for range 3 { // a chain that grows every second is often between two blocks
		if p, err = ask(ctx, peers, chainID, weights, "chain's validators", n.disputed); err == nil && p.behind {
			err = errNewer
		}
		if !errors.Is(err, errNewer) {
			break
		}
	}
	if err != nil {
		return nil, fmt.Errorf("finding the last block of chain %s: %w", chainID, err)
	}
	var last proposer.SignedBlock
	for _, tip := range p.accepted {
		b, err := signedBlock(ctx, peers, chainID, tip, p.holders[tip])
		if err != nil {
			return nil, fmt.Errorf("reading the last block of chain %s: %w", chainID, err)
		}
		if last == nil || b.Timestamp().After(last.Timestamp()) {
			last = b
		}
	}
	return last, nil
}

// votersOf returns the validators of a chain, with their weights.
func (n *Node) votersOf(ctx context.Context, chainID ids.ID) (Peers, map[ids.NodeID]uint64, error) {
	n.mu.RLock() // Run closes the chain afterwards
	defer n.mu.RUnlock()
	if err := n.readyLocked(); err != nil {
		return nil, nil, err
	}
	subnetID, err := n.chain.SubnetOf(ctx, chainID)
	if err != nil {
		return nil, nil, err
	}
	weights, err := weightsOf(ctx, n.chain, subnetID)
	return n.peers, weights, err
}

// signedBlock returns a believed block or, for a block that only decides about its parent, that parent: it has the same
// time, height and epoch.
func signedBlock(ctx context.Context, peers Peers, chainID, id ids.ID, holders []ids.NodeID) (proposer.SignedBlock, error) {
	var failure error
	for _, nodeID := range holders[:min(len(holders), 3)] {
		b, err := peers.Container(ctx, nodeID, chainID, id)
		if err != nil {
			failure = err
			continue
		}
		parsed, err := proposer.ParseWithoutVerification(b)
		if err != nil || parsed.ID() != id {
			failure = fmt.Errorf("%s did not send block %s", nodeID, id)
			continue
		}
		if signed, ok := parsed.(proposer.SignedBlock); ok {
			return signed, nil
		}
		return signedBlock(ctx, peers, chainID, parsed.ParentID(), holders)
	}
	return nil, failure
}
