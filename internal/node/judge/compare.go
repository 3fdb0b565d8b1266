package judge

import (
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/hashing"

	"quorate/internal/node"
)

// compare compares a node with the executed chain, which is at height. An error means that the node cannot be judged now.
func (j *Judge) compare(ctx context.Context, n *judged, height uint64, subnets []ids.ID) (finding, error) {
	reported, err := n.node.Height(ctx)
	if err != nil {
		return finding{}, err
	}
	// Both have executed this height and all below, so they can differ in nothing.
	common := min(reported, height)
	looks := []look{blockAt(common)}
	if common > 0 {
		looks = append(looks, blockAt(rand.Uint64N(common)))
	}
	for _, id := range subnets {
		looks = append(looks, setAt(id, common))
	}
	compared := 0
	for _, l := range looks {
		difference, err := j.differs(ctx, n.node, l)
		switch {
		case err != nil && ctx.Err() != nil:
			return finding{}, err
		case err != nil: // the node does not offer this, or one of both is busy
		case difference != "":
			return finding{node.Lies, difference}, nil
		default:
			compared++
		}
	}
	if text := n.unaccepted(reported, height); text != "" {
		return finding{node.Lies, text}, nil
	}
	if compared == 0 {
		return finding{}, errNothing
	}
	return j.lagging(reported, height, "the validators have accepted"), nil
}

// unaccepted returns what is wrong if the node has been at a height for long that is not executed.
func (n *judged) unaccepted(reported, height uint64) string {
	if n.ahead.height <= height {
		n.ahead = mark{}
	}
	if reported <= height {
		return ""
	}
	if n.ahead == (mark{}) {
		n.ahead = mark{reported, time.Now()}
	}
	if time.Since(n.ahead.at) < aheadFor {
		return ""
	}
	return fmt.Sprintf("it reports height %d, and the validators have accepted none above %d", reported, height)
}

// lagging returns whether a node that reported a height has lacked a block for long. source says who reported height,
// the chain's.
func (j *Judge) lagging(reported, height uint64, source string) finding {
	for _, m := range j.marks {
		if m.height <= reported {
			continue
		}
		if lag := time.Since(m.at); lag > lagFor {
			return finding{node.Lags, fmt.Sprintf("it is at height %d, %d blocks behind height %d that %s, for more than %s", reported, height-reported, height, source, lag.Truncate(time.Second))}
		}
		break
	}
	return finding{standing: node.Agrees}
}

// look is something that chains can differ in. It returns the difference between what a node and the executed chain
// report; empty if there is none.
type look func(ctx context.Context, reported, executed Chain) (string, error)

// differs looks twice before it returns a difference.
func (j *Judge) differs(ctx context.Context, n Node, l look) (string, error) {
	difference, err := l(ctx, n, j.o.Executed)
	if err != nil || difference == "" {
		return "", err
	}
	select {
	case <-ctx.Done():
		return "", ctx.Err()
	case <-time.After(again):
	}
	return l(ctx, n, j.o.Executed)
}

// blockAt compares the IDs of the blocks at a height.
func blockAt(height uint64) look {
	return func(ctx context.Context, reported, executed Chain) (string, error) {
		said, err := reported.BlockByHeight(ctx, height)
		if err != nil {
			return "", err
		}
		right, err := executed.BlockByHeight(ctx, height)
		if err != nil || bytes.Equal(said, right) {
			return "", err
		}
		return fmt.Sprintf("its block at height %d is %s, the accepted one is %s", height, blockID(said), blockID(right)), nil
	}
}

func blockID(b []byte) ids.ID { return hashing.ComputeHash256Array(b) }

// setAt compares the validators of a subnet at a height.
func setAt(subnetID ids.ID, height uint64) look {
	return func(ctx context.Context, reported, executed Chain) (string, error) {
		said, err := reported.ValidatorsAt(ctx, subnetID, height)
		if err != nil {
			return "", err
		}
		right, err := executed.ValidatorsAt(ctx, subnetID, height)
		if err != nil {
			return "", err
		}
		what := difference(said, right)
		if what == "" {
			return "", nil
		}
		return fmt.Sprintf("its validators of subnet %s at height %d are not the accepted ones: %s", subnetID, height, what), nil
	}
}

// difference returns the first difference between validator sets. Nodes that only report sets by key list no validators
// without keys, so those count in the total weight only.
func difference(said, right node.ValidatorSet) string {
	if said.TotalWeight != right.TotalWeight {
		return fmt.Sprintf("the total weight is %d, not %d", said.TotalWeight, right.TotalWeight)
	}
	a, b := byKey(said), byKey(right)
	for _, key := range sortedKeys(a, b) {
		switch one, other := a[key], b[key]; {
		case other == nil:
			return fmt.Sprintf("the key %s is no validator's", shown(key))
		case one == nil:
			return fmt.Sprintf("the key %s is missing", shown(key))
		case one.Weight != other.Weight:
			return fmt.Sprintf("the weight of the key %s is %d, not %d", shown(key), one.Weight, other.Weight)
		case !slices.Equal(one.NodeIDs, other.NodeIDs):
			return fmt.Sprintf("the nodes of the key %s are %s, not %s", shown(key), some(one.NodeIDs), some(other.NodeIDs))
		}
	}
	return ""
}

// byKey merges validators with the same key.
func byKey(set node.ValidatorSet) map[string]*node.Validator {
	all := make(map[string]*node.Validator, len(set.Validators))
	for _, v := range set.Validators {
		if v.Key == nil {
			continue
		}
		one := all[string(v.Key)]
		if one == nil {
			one = &node.Validator{Key: v.Key}
			all[string(v.Key)] = one
		}
		one.Weight += v.Weight // no more than the total weight
		one.NodeIDs = append(one.NodeIDs, v.NodeIDs...)
	}
	for _, v := range all {
		slices.SortFunc(v.NodeIDs, ids.NodeID.Compare)
	}
	return all
}

func sortedKeys(a, b map[string]*node.Validator) []string {
	var keys []string
	for key := range a {
		keys = append(keys, key)
	}
	for key := range b {
		if a[key] == nil {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, cmp.Compare[string])
	return keys
}

// shown returns the beginning of a key.
func shown(key string) string {
	return "0x" + hex.EncodeToString([]byte(key[:min(len(key), 8)])) + "…"
}

// some returns the first nodes, and how many more there are: a node may report any number.
func some(nodes []ids.NodeID) string {
	const shown = 3
	text := fmt.Sprint(nodes[:min(len(nodes), shown)])
	if len(nodes) > shown {
		text += fmt.Sprintf(" and %d more", len(nodes)-shown)
	}
	return text
}
