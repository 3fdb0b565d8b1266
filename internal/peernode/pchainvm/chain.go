// Package pchainvm executes the P-Chain in this process with avalanchego's platformvm, and serves the VM's own API. It
// is given accepted blocks; it does not decide which blocks are accepted.
//
// The VM stays in its bootstrapping state. It then executes blocks without checking the signatures of transactions
// and without the outputs that other chains exported, which is right for blocks that the network has accepted.
package pchainvm

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"sync"
	"time"

	"github.com/ava-labs/avalanchego/api/metrics"
	"github.com/ava-labs/avalanchego/chains"
	"github.com/ava-labs/avalanchego/chains/atomic"
	"github.com/ava-labs/avalanchego/database"
	"github.com/ava-labs/avalanchego/genesis"
	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/snow"
	"github.com/ava-labs/avalanchego/snow/consensus/snowman"
	"github.com/ava-labs/avalanchego/snow/engine/common"
	"github.com/ava-labs/avalanchego/snow/uptime"
	"github.com/ava-labs/avalanchego/snow/validators"
	"github.com/ava-labs/avalanchego/upgrade"
	"github.com/ava-labs/avalanchego/utils/constants"
	"github.com/ava-labs/avalanchego/utils/crypto/bls/signer/localsigner"
	"github.com/ava-labs/avalanchego/utils/logging"
	"github.com/ava-labs/avalanchego/utils/set"
	"github.com/ava-labs/avalanchego/vms/platformvm"
	"github.com/ava-labs/avalanchego/vms/platformvm/block"
	"github.com/ava-labs/avalanchego/vms/platformvm/block/executor"
	"github.com/ava-labs/avalanchego/vms/platformvm/config"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp"
)

// Options of a Chain. Genesis is required.
type Options struct {
	// Genesis is the P-Chain's genesis in bytes, with the assets and chains that it names.
	Genesis                         []byte
	NetworkID                       uint32
	AVAXAssetID, XChainID, CChainID ids.ID
	Upgrades                        upgrade.Config
	// Database holds the chain's state. Chain closes it.
	Database database.Database
}

// caches sizes the VM's caches of blocks and transactions, in bytes (avalanchego, vms/platformvm/config).
var caches = []byte(`{"block-cache-size": 4194304, "tx-cache-size": 8388608}`)

// ErrNotNext means that a block does not follow the last executed one.
var ErrNotNext = errors.New("block does not follow the last executed block")

// Chain is the P-Chain. It is safe for concurrent use.
type Chain struct {
	ctx     *snow.Context
	lock    sync.Locker // that of ctx, which the VM's API takes too
	vm      *platformvm.VM
	db      database.Database
	handler http.Handler
}

// Open opens the chain in a database, at the genesis block if the database is empty.
func Open(ctx context.Context, o Options) (*Chain, error) {
	secret, err := localsigner.New()
	if err != nil {
		return nil, fmt.Errorf("making a key for the VM: %w", err)
	}
	staking, fees := limits(o.NetworkID), genesis.GetTxFeeConfig(o.NetworkID)
	aliases := ids.NewAliaser()
	for alias, id := range map[string]ids.ID{"P": constants.PlatformChainID, "X": o.XChainID, "C": o.CChainID} {
		if err := aliases.Alias(id, alias); err != nil {
			return nil, fmt.Errorf("naming the chains: %w", err)
		}
	}
	c := &Chain{
		db: o.Database,
		ctx: &snow.Context{
			NetworkID: o.NetworkID, SubnetID: constants.PrimaryNetworkID, ChainID: constants.PlatformChainID,
			NodeID: ids.EmptyNodeID, PublicKey: secret.PublicKey(), NetworkUpgrades: o.Upgrades,
			XChainID: o.XChainID, CChainID: o.CChainID, AVAXAssetID: o.AVAXAssetID,
			Log: logging.NoLog{}, SharedMemory: noMemory{}, BCLookup: aliases, Metrics: metrics.NewPrefixGatherer(),
			WarpSigner: warp.NewSigner(secret, o.NetworkID, constants.PlatformChainID),
		},
		vm: &platformvm.VM{Internal: config.Internal{
			Chains: chains.TestManager, Validators: validators.NewManager(), UptimeLockedCalculator: uptime.NewLockedCalculator(),
			SybilProtectionEnabled: true, PartialSyncPrimaryNetwork: true, TrackedSubnets: set.Set[ids.ID]{},
			DynamicFeeConfig: fees.DynamicFeeConfig, ValidatorFeeConfig: fees.ValidatorFeeConfig,
			UptimePercentage:  staking.UptimeRequirement,
			MinValidatorStake: staking.MinValidatorStake, MaxValidatorStake: staking.MaxValidatorStake,
			MinDelegatorStake: staking.MinDelegatorStake, MinDelegationFee: staking.MinDelegationFee,
			MinStakeDuration: staking.MinStakeDuration, MaxStakeDuration: staking.MaxStakeDuration,
			HeliconMinStakeDuration: staking.HeliconMinStakeDuration,
			RewardConfig:            staking.RewardConfig, UpgradeConfig: o.Upgrades,
		}},
	}
	c.ctx.ValidatorState = c.vm
	c.lock = &c.ctx.Lock //nolint:staticcheck // the VM has no other
	c.lock.Lock()
	defer c.lock.Unlock()
	if err := c.vm.Initialize(ctx, c.ctx, o.Database, o.Genesis, nil, caches, nil, noPeers{}); err != nil {
		return nil, fmt.Errorf("opening the state of the P-Chain: %w", err)
	}
	if err := c.vm.SetState(ctx, snow.Bootstrapping); err != nil {
		return nil, errors.Join(fmt.Errorf("opening the state of the P-Chain: %w", err), c.vm.Shutdown(ctx))
	}
	handlers, err := c.vm.CreateHandlers(ctx)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("making the API of the P-Chain: %w", err), c.vm.Shutdown(ctx))
	}
	c.handler = handlers[""]
	return c, nil
}

// limits returns the staking rules of a network. Nodes of private networks may be started with other durations
// (avalanchego, --min-stake-duration and --max-stake-duration), so any is accepted there. The VM checks no other limit
// after Durango while it bootstraps. MaxValidatorStake bounds what an auto-renewed validator restakes (Helicon).
func limits(networkID uint32) genesis.StakingConfig {
	l := genesis.GetStakingConfig(networkID)
	if networkID != constants.MainnetID && networkID != constants.FujiID {
		l.MinStakeDuration, l.HeliconMinStakeDuration = 0, 0
		l.MaxStakeDuration = math.MaxInt64
	}
	return l
}

// Close closes the chain and its database.
func (c *Chain) Close() error {
	c.lock.Lock()
	defer c.lock.Unlock()
	return c.vm.Shutdown(context.Background())
}

// LastAccepted returns the last executed block.
func (c *Chain) LastAccepted(ctx context.Context) (id ids.ID, height uint64, err error) {
	c.lock.Lock()
	defer c.lock.Unlock()
	return c.lastAccepted(ctx)
}

// lastAccepted is LastAccepted. It requires the lock.
func (c *Chain) lastAccepted(ctx context.Context) (id ids.ID, height uint64, err error) {
	if id, err = c.vm.LastAccepted(ctx); err != nil {
		return id, 0, fmt.Errorf("reading the last block of the P-Chain: %w", err)
	}
	b, err := c.vm.GetBlock(ctx, id)
	if err != nil {
		return id, 0, fmt.Errorf("reading the last block of the P-Chain: %w", err)
	}
	return id, b.Height(), nil
}

// CurrentValidators returns the validators of a subnet after the last block whose changes are made. While the last
// executed block is a proposal, that is its parent: the block that decides about a proposal makes the changes of both.
func (c *Chain) CurrentValidators(ctx context.Context, subnetID ids.ID) (map[ids.NodeID]*validators.GetValidatorOutput, error) {
	c.lock.Lock()
	defer c.lock.Unlock()
	height, err := c.vm.GetCurrentHeight(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the height of the P-Chain: %w", err)
	}
	set, err := c.vm.GetValidatorSet(ctx, height, subnetID)
	if err != nil {
		return nil, fmt.Errorf("finding the validators of %s at P-Chain height %d: %w", subnetID, height, err)
	}
	return set, nil
}

// SubnetOf returns the subnet that validates a blockchain.
func (c *Chain) SubnetOf(ctx context.Context, blockchainID ids.ID) (ids.ID, error) {
	c.lock.Lock()
	defer c.lock.Unlock()
	subnetID, err := c.vm.GetSubnetID(ctx, blockchainID)
	if err != nil {
		return ids.Empty, fmt.Errorf("finding the subnet of blockchain %s: %w", blockchainID, err)
	}
	return subnetID, nil
}

// Execute executes the next block, without its proposer envelope. The caller knows that the network accepted it. The
// error is ErrNotNext if the block has another parent than the last executed block.
func (c *Chain) Execute(ctx context.Context, bytes []byte) error {
	c.lock.Lock()
	defer c.lock.Unlock()
	b, err := c.vm.ParseBlock(ctx, bytes)
	if err != nil {
		return fmt.Errorf("reading a block of the P-Chain: %w", err)
	}
	last, height, err := c.lastAccepted(ctx)
	if err != nil {
		return err
	}
	if b.Parent() != last || b.Height() != height+1 {
		return fmt.Errorf("%w: block %s at height %d has the parent %s, and block %s at height %d was executed last", ErrNotNext, b.ID(), b.Height(), b.Parent(), last, height)
	}
	defer c.vm.Clock().Sync()
	at := timeOf(b)
	if at.After(time.Now()) {
		// The VM refuses blocks from the future, but the network compared this one with its own clocks.
		c.vm.Clock().Set(at)
	}
	if err := b.Verify(ctx); err != nil {
		return fmt.Errorf("executing block %s of the P-Chain at height %d: %w", b.ID(), b.Height(), err)
	}
	if !at.IsZero() {
		// The proposed height is that of the last block which is 30 s old. Without this, all blocks that are executed at
		// a start count as new.
		c.vm.Clock().Set(at)
	}
	if err := b.Accept(ctx); err != nil {
		return fmt.Errorf("executing block %s of the P-Chain at height %d: %w", b.ID(), b.Height(), err)
	}
	// The API answers about what follows the preferred block.
	if err := c.vm.SetPreference(ctx, b.ID()); err != nil {
		return fmt.Errorf("preferring block %s of the P-Chain: %w", b.ID(), err)
	}
	return nil
}

// timeOf returns the time of a block, zero for one from before Banff.
func timeOf(b snowman.Block) time.Time {
	if executed, ok := b.(*executor.Block); ok {
		if timed, ok := executed.Block.(block.BanffBlock); ok {
			return timed.Timestamp()
		}
	}
	return time.Time{}
}

// ServeHTTP serves the VM's API (avalanchego, vms/platformvm, service platform).
func (c *Chain) ServeHTTP(w http.ResponseWriter, r *http.Request) { c.handler.ServeHTTP(w, r) }

// noMemory is the memory that the chain shares with others. What it exports and imports is in its blocks, and other
// chains are not executed here.
type noMemory struct{}

var errNoMemory = errors.New("what other chains exported to the P-Chain is not known here")

// Get implements atomic.SharedMemory.
func (noMemory) Get(ids.ID, [][]byte) ([][]byte, error) { return nil, errNoMemory }

// Indexed implements atomic.SharedMemory.
func (noMemory) Indexed(ids.ID, [][]byte, []byte, []byte, int) (values [][]byte, lastTrait, lastKey []byte, err error) {
	return nil, nil, nil, errNoMemory
}

// Apply implements atomic.SharedMemory.
func (noMemory) Apply(_ map[ids.ID]*atomic.Requests, batches ...database.Batch) error {
	return atomic.WriteAll(batches[0], batches[1:]...)
}

// noPeers drops what the VM sends.
type noPeers struct{ common.AppSender }

func (noPeers) SendAppRequest(context.Context, set.Set[ids.NodeID], uint32, []byte) error { return nil }
func (noPeers) SendAppGossip(context.Context, common.SendConfig, []byte) error            { return nil }
