package node

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ava-labs/avalanchego/api"
	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/upgrade"
	"github.com/ava-labs/avalanchego/utils/formatting"
	avajson "github.com/ava-labs/avalanchego/utils/json"
	"github.com/ava-labs/avalanchego/vms/platformvm"
	"github.com/ava-labs/avalanchego/vms/platformvm/validators/fee"
)

// ErrNotOffered reports that every node that answered lacks a method.
var ErrNotOffered = errors.New("no node offers the method")

// RewardUTXOs returns the outputs (avax.UTXO in the P-Chain's encoding) that a transaction
// received when a staking period ended, in no particular order; none if there was no
// reward. The transaction is the one that began the stake or, for an auto-renewed
// validator, the one that ended the period.
//
// A node that has not executed the block at height reports no outputs, so RewardUTXOs
// ignores nodes below height. Errors are those of Call, ErrBeyondTip if all nodes are below
// height, and ErrNotOffered if no node offers the method and none is below height.
func (c *Client) RewardUTXOs(ctx context.Context, txID ids.ID, height uint64) ([][]byte, error) {
	const method = "platform.getRewardUTXOs"
	var failures []error
	var behind error
	for _, i := range c.order(platformPath, method) {
		utxos, err := c.rewardUTXOs(ctx, c.endpoints[i], method, txID, height)
		var refused *RPCError
		switch {
		case err == nil, errors.As(err, &refused) && !refused.NotOffered():
			c.last.Store(int64(i))
			return utxos, err
		case ctx.Err() != nil:
			return nil, fmt.Errorf("%s: %w", method, ctx.Err())
		case errors.Is(err, ErrBeyondTip):
			behind = err
		default:
			failures = append(failures, err)
		}
	}
	if behind != nil {
		return nil, behind
	}
	err := conclude(method, failures)
	if errors.As(err, new(*RPCError)) { // all nodes answered
		for _, failure := range failures {
			var refused *RPCError
			if errors.As(failure, &refused) && refused.Method == method {
				return nil, fmt.Errorf("%w: %w", ErrNotOffered, failure)
			}
		}
	}
	return nil, err
}

func (c *Client) rewardUTXOs(ctx context.Context, e *endpoint, method string, txID ids.ID, height uint64) ([][]byte, error) {
	if !e.far.beyond(height) {
		var at api.GetHeightResponse
		if err := c.ask(ctx, e, platformPath, "platform.getHeight", none{}, &at); err != nil {
			return nil, err
		}
		if uint64(at.Height) < height {
			return nil, fmt.Errorf("%s: %w: it is at height %d, not %d", method, ErrBeyondTip, at.Height, height)
		}
		e.far.note(uint64(at.Height))
	}
	var reply platformvm.GetRewardUTXOsReply
	if err := c.ask(ctx, e, platformPath, method, api.GetTxArgs{TxID: txID, Encoding: formatting.Hex}, &reply); err != nil {
		return nil, err
	}
	utxos := make([][]byte, len(reply.UTXOs))
	for i, text := range reply.UTXOs {
		b, err := decodeBytes(method, reply.Encoding, text)
		if err != nil {
			return nil, malformedError{err}
		}
		utxos[i] = b
	}
	return utxos, nil
}

// progress is the P-Chain height that a node reported last.
type progress struct {
	mu     sync.Mutex
	height uint64    // guarded by mu
	at     time.Time // guarded by mu
}

const (
	// progressLasts is how long a reported height counts.
	progressLasts = 5 * time.Second
	// farBeyond is how many blocks above the wanted height a reported height must be to
	// count. Near the tip the node is asked again.
	farBeyond = 1024
)

func (p *progress) note(height uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.height, p.at = height, time.Now()
}

// beyond reports whether the node recently was far above a height.
func (p *progress) beyond(height uint64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.height > farBeyond && height <= p.height-farBeyond && time.Since(p.at) < progressLasts
}

// CurrentStake is a current validation or delegation with its potential reward.
type CurrentStake struct {
	// TxID is the transaction that began the stake.
	TxID      ids.ID
	Delegator bool
	Start     time.Time
	// PotentialReward is the reward for the period if the validator's uptime suffices, in
	// nAVAX; for a delegator before the commission.
	PotentialReward uint64
}

// stakeReply has the fields of a staker that Client needs. Other fields may have any form.
type stakeReply struct {
	TxID            ids.ID          `json:"txID"`
	StartTime       avajson.Uint64  `json:"startTime"`
	PotentialReward *avajson.Uint64 `json:"potentialReward"`
}

func (r *stakeReply) stake(delegator bool) CurrentStake {
	s := CurrentStake{TxID: r.TxID, Delegator: delegator, Start: time.Unix(int64(r.StartTime), 0).UTC()}
	if r.PotentialReward != nil {
		s.PotentialReward = uint64(*r.PotentialReward)
	}
	return s
}

// CurrentStakes returns the validation of a subnet by a node and the delegations to it, or
// nothing if the node is not a validator now. A node lists delegations only in a reply
// about a single validator.
func (c *Client) CurrentStakes(ctx context.Context, subnetID ids.ID, nodeID ids.NodeID) ([]CurrentStake, error) {
	var reply struct {
		Validators []struct {
			stakeReply
			NodeID     ids.NodeID   `json:"nodeID"`
			Delegators []stakeReply `json:"delegators"`
		} `json:"validators"`
	}
	const method = "platform.getCurrentValidators"
	if err := c.Call(ctx, platformPath, method, platformvm.GetCurrentValidatorsArgs{
		SubnetID: subnetID, NodeIDs: []ids.NodeID{nodeID},
	}, &reply); err != nil {
		return nil, err
	}
	var stakes []CurrentStake
	for _, v := range reply.Validators {
		if v.NodeID != nodeID {
			return nil, fmt.Errorf("%s: %w: validator %s, asked for %s", method, ErrMalformed, v.NodeID, nodeID)
		}
		stakes = append(stakes, v.stake(false))
		for _, d := range v.Delegators {
			stakes = append(stakes, d.stake(true))
		}
	}
	return stakes, nil
}

// ValidatorFees returns the fee configuration of L1 validators (ACP-77).
func (c *Client) ValidatorFees(ctx context.Context) (fee.Config, error) {
	const method = "platform.getValidatorFeeConfig"
	var reply fee.Config
	if err := c.Call(ctx, platformPath, method, none{}, &reply); err != nil {
		return fee.Config{}, err
	}
	if reply.MinPrice == 0 || reply.ExcessConversionConstant == 0 {
		return fee.Config{}, fmt.Errorf("%s: %w: no price", method, ErrMalformed)
	}
	return reply, nil
}

// Upgrades returns the upgrade times of the node's network. Upgrades that are newer than the node's version have the
// library's times. The error is ErrNotOffered if no node offers the method.
func (c *Client) Upgrades(ctx context.Context, networkID uint32) (upgrade.Config, error) {
	const method = "info.upgrades"
	reply := upgrade.GetConfig(networkID) // for the members that the response lacks
	err := c.Call(ctx, infoPath, method, none{}, &reply)
	if refused := (*RPCError)(nil); errors.As(err, &refused) && refused.NotOffered() {
		err = fmt.Errorf("%w: %w", ErrNotOffered, err)
	}
	if err != nil {
		return upgrade.Config{}, err
	}
	if err := reply.Validate(); err != nil {
		return upgrade.Config{}, fmt.Errorf("%s: %w: %w", method, ErrMalformed, err)
	}
	return reply, nil
}
