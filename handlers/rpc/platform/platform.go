// Package platform answers calls about the P-Chain as a node does, from its index. It asks upstream nodes for the
// state of validators and caches their answers.
package platform

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/ava-labs/avalanchego/api"
	"github.com/ava-labs/avalanchego/database"
	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/constants"
	avajson "github.com/ava-labs/avalanchego/utils/json"
	safemath "github.com/ava-labs/avalanchego/utils/math"
	"github.com/ava-labs/avalanchego/vms/components/avax"
	"github.com/ava-labs/avalanchego/vms/platformvm"
	"github.com/ava-labs/avalanchego/vms/platformvm/stakeable"
	"github.com/ava-labs/avalanchego/vms/platformvm/status"
	"github.com/ava-labs/avalanchego/vms/platformvm/txs"
	"github.com/ava-labs/avalanchego/vms/secp256k1fx"

	"quorate/handlers/rpc"
	"quorate/handlers/rpc/chain"
	"quorate/internal/chain/pchain"
	"quorate/internal/index/ledger"
	"quorate/internal/index/ledger/subnets"
)

// Names lists the names of the service.
var Names = []string{"platform"}

// Subnets is the index of subnets of one network; *subnets.Index implements it.
type Subnets interface {
	List(ctx context.Context, ascending bool, limit int, after *subnets.Position) (*subnets.Page, error)
}

// Options configures a Service. All fields but Upstream and Follows are required.
type Options struct {
	// Chain configures the P-Chain. New sets its Content.
	Chain       chain.Options
	AVAXAssetID ids.ID
	Subnets     Subnets
	// Upstream answers at Path what is not indexed.
	Upstream rpc.Upstream
	Path     string
	// Follows reports which blockchains are indexed besides those of the primary network; nil means none.
	Follows func(chainID ids.ID) bool
}

// Service implements the methods. It is safe for concurrent use.
type Service struct {
	options Options
	chain   *chain.Chain
	current *current

	mu     sync.Mutex
	chains *blockchains // nil before the first request for it; guarded by mu
}

// New returns a Service.
func New(o Options) *Service {
	content := new(content)
	o.Chain.Content = content
	s := &Service{options: o, chain: chain.New(o.Chain)}
	content.context = s.chain.Context
	s.current = newCurrent(o.Upstream, o.Path, func() uint64 { return s.chain.Status().Next }, s.chain.Log)
	return s
}

// GetHeight is platform.getHeight.
func (s *Service) GetHeight(r *http.Request, _ *struct{}, reply *api.GetHeightResponse) error {
	height, err := s.chain.Height(r.Context())
	reply.Height = avajson.Uint64(height)
	return err
}

// GetBlock is platform.getBlock.
func (s *Service) GetBlock(r *http.Request, args *api.GetBlockArgs, reply *rpc.Raw) error {
	return s.chain.Block(r.Context(), args, reply)
}

// GetBlockByHeight is platform.getBlockByHeight.
func (s *Service) GetBlockByHeight(r *http.Request, args *api.GetBlockByHeightArgs, reply *rpc.Raw) error {
	return s.chain.BlockByHeight(r.Context(), args, reply)
}

// GetTx is platform.getTx.
func (s *Service) GetTx(r *http.Request, args *api.GetTxArgs, reply *rpc.Raw) error {
	err := s.chain.Tx(r.Context(), args, reply)
	if errors.Is(err, database.ErrNotFound) {
		return fmt.Errorf("couldn't get tx: %w", err)
	}
	return err
}

// GetTxStatus is platform.getTxStatus. Upstream nodes know whether a transaction that is not indexed is processing.
// One that they report as accepted is still reported as processing until it is indexed. Without upstream nodes, it is
// unknown.
func (s *Service) GetTxStatus(r *http.Request, args *platformvm.GetTxStatusArgs, reply *platformvm.GetTxStatusResponse) error {
	ctx := r.Context()
	accepted, err := s.status(ctx, args.TxID)
	if err != nil {
		return err
	}
	if accepted != 0 {
		reply.Status = accepted
		return nil
	}
	if s.options.Upstream == nil {
		reply.Status = status.Unknown
		return nil
	}
	params, err := json.Marshal(args)
	if err != nil {
		return err
	}
	const method = "platform.getTxStatus"
	if err := rpc.Ask(ctx, s.options.Upstream, s.options.Path, method, params, reply); err != nil {
		return rpc.Unanswered(s.chain.Log, method, err)
	}
	if reply.Status == status.Committed || reply.Status == status.Aborted {
		if accepted, err = s.status(ctx, args.TxID); err != nil || accepted != 0 {
			reply.Status = accepted
			return err
		}
		reply.Status = status.Processing
	}
	return nil
}

// status returns 0 if the transaction is not indexed.
func (s *Service) status(ctx context.Context, id ids.ID) (status.Status, error) {
	if _, ok := s.chain.Genesis[id]; ok {
		return status.Committed, nil
	}
	tx, err := s.chain.Find(ctx, id)
	switch {
	case errors.Is(err, database.ErrNotFound):
		return 0, nil
	case err != nil:
		return 0, err
	case !tx.Proposed:
		return status.Committed, nil
	}
	// The next block decides.
	b, err := s.chain.At(ctx, tx.Height+1)
	if err != nil || b == nil {
		return 0, err
	}
	parsed, err := pchain.ParseBlock(b)
	if err != nil {
		return 0, s.chain.Failed(ctx, err)
	}
	if parsed.Kind == pchain.Abort {
		return status.Aborted, nil
	}
	return status.Committed, nil
}

// blockchains is the list of all blockchains up to a height.
type blockchains struct {
	next  uint64 // the first height that is not included
	reply []byte // of platform.getBlockchains
	known map[ids.ID]struct{}
}

const subnetPage = 1024

// list updates the list of blockchains if there may be new ones.
func (s *Service) list(ctx context.Context) (*blockchains, error) {
	next := s.chain.Status().Next
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.chains != nil && s.chains.next >= next {
		return s.chains, nil
	}
	all := &blockchains{next: next, known: make(map[ids.ID]struct{})}
	var of, primary []platformvm.APIBlockchain
	for after := (*subnets.Position)(nil); ; {
		page, err := s.options.Subnets.List(ctx, true, subnetPage, after)
		if err != nil {
			return nil, s.chain.Failed(ctx, err)
		}
		for _, subnet := range page.Subnets {
			to := &of
			if subnet.ID == constants.PrimaryNetworkID {
				to = &primary
			}
			// As in a node, the newest first.
			for _, one := range slices.Backward(subnet.Chains) {
				all.known[one.ID] = struct{}{}
				*to = append(*to, platformvm.APIBlockchain{ID: one.ID, Name: one.Name, SubnetID: subnet.ID, VMID: one.VMID})
			}
		}
		if after = page.Next; after == nil {
			break
		}
	}
	var err error
	all.reply, err = json.Marshal(platformvm.GetBlockchainsResponse{Blockchains: slices.Concat([]platformvm.APIBlockchain{}, of, primary)})
	if err != nil {
		return nil, err
	}
	s.chains = all
	return all, nil
}

// GetBlockchains is platform.getBlockchains.
func (s *Service) GetBlockchains(r *http.Request, _ *struct{}, reply *rpc.Raw) error {
	all, err := s.list(r.Context())
	if err == nil {
		reply.JSON = all.reply
	}
	return err
}

// GetBlockchainStatus is platform.getBlockchainStatus. The service does not validate: chains that it follows are
// Syncing. While the index is behind, upstream nodes are asked about a blockchain that it lacks.
func (s *Service) GetBlockchainStatus(r *http.Request, args *platformvm.GetBlockchainStatusArgs, reply *platformvm.GetBlockchainStatusReply) error {
	if args.BlockchainID == "" {
		return errors.New("argument 'blockchainID' not given")
	}
	id, err := s.chain.Aliases.Lookup(args.BlockchainID)
	if err != nil {
		if id, err = ids.FromString(args.BlockchainID); err != nil {
			return fmt.Errorf("problem parsing blockchainID %q: %w", args.BlockchainID, err)
		}
	}
	if id == constants.PlatformChainID || s.options.Follows != nil && s.options.Follows(id) {
		reply.Status = status.Syncing
		return nil
	}
	behind := s.chain.Behind() // before the list is read
	all, err := s.list(r.Context())
	if err != nil {
		return err
	}
	reply.Status = status.UnknownChain
	if _, ok := all.known[id]; ok {
		reply.Status = status.Created
	} else if behind {
		s.askBlockchainStatus(r.Context(), id, reply)
	}
	return nil
}

// askBlockchainStatus sets reply to what upstream nodes report, if they do.
func (s *Service) askBlockchainStatus(ctx context.Context, id ids.ID, reply *platformvm.GetBlockchainStatusReply) {
	var reported platformvm.GetBlockchainStatusReply
	params := fmt.Appendf(nil, `{"blockchainID":%q}`, id)
	if rpc.Ask(ctx, s.options.Upstream, s.options.Path, "platform.getBlockchainStatus", params, &reported) == nil {
		*reply = reported
	}
}

// GetUTXOs is platform.getUTXOs.
func (s *Service) GetUTXOs(r *http.Request, args *api.GetUTXOsArgs, reply *api.GetUTXOsReply) error {
	err := s.chain.UTXOs(r.Context(), args, reply)
	if one := (*chain.UTXOError)(nil); errors.As(err, &one) {
		return fmt.Errorf("couldn't encode UTXO %s as %s: unsupported encoding in method", one.ID, args.Encoding)
	}
	return err
}

// sums holds amounts by asset.
type sums map[ids.ID]uint64

func (s sums) add(asset ids.ID, amount uint64) {
	sum, err := safemath.Add(s[asset], amount)
	if err != nil {
		sum = math.MaxUint64
	}
	s[asset] = sum
}

func (s sums) json() map[ids.ID]avajson.Uint64 {
	all := make(map[ids.ID]avajson.Uint64, len(s))
	for asset, sum := range s {
		all[asset] = avajson.Uint64(sum)
	}
	return all
}

// GetBalance is platform.getBalance.
func (s *Service) GetBalance(r *http.Request, args *platformvm.GetBalanceRequest, reply *platformvm.GetBalanceResponse) error {
	if len(args.Addresses) > chain.MaxAddresses {
		return rpc.ErrForward // nodes have no limit
	}
	ctx := r.Context()
	addresses, err := avax.ParseServiceAddresses(s.chain.Addresses, args.Addresses)
	if err != nil {
		return err
	}
	now := uint64(time.Now().Unix())
	unlocked, stakeables, locked := sums{}, sums{}, sums{}
	if err := s.chain.Owned(ctx, addresses, func(one *ledger.Owned) error {
		var utxo avax.UTXO
		if _, err := txs.GenesisCodec.Unmarshal(one.Bytes, &utxo); err != nil {
			return s.chain.Failed(ctx, fmt.Errorf("reading UTXO %s: %w", one.ID, err))
		}
		to := unlocked
		var amount uint64
		switch out := utxo.Out.(type) {
		case *secp256k1fx.TransferOutput:
			if amount = out.Amt; out.Locktime > now {
				to = locked
			}
		case *stakeable.LockOut:
			inner, ok := out.TransferableOut.(*secp256k1fx.TransferOutput)
			if !ok {
				return nil
			}
			amount = inner.Amt
			switch {
			case inner.Locktime > now:
				to = locked
			case out.Locktime > now:
				to = stakeables
			}
		default:
			return nil
		}
		to.add(utxo.AssetID(), amount)
		id := utxo.UTXOID
		reply.UTXOIDs = append(reply.UTXOIDs, &id)
		return nil
	}); err != nil {
		return err
	}
	total := maps.Clone(stakeables)
	for _, some := range []sums{locked, unlocked} {
		for asset, amount := range some {
			total.add(asset, amount)
		}
	}
	reply.Balances, reply.Unlockeds = total.json(), unlocked.json()
	reply.LockedStakeables, reply.LockedNotStakeables = stakeables.json(), locked.json()
	avaxID := s.options.AVAXAssetID
	reply.Balance, reply.Unlocked = reply.Balances[avaxID], reply.Unlockeds[avaxID]
	reply.LockedStakeable, reply.LockedNotStakeable = reply.LockedStakeables[avaxID], reply.LockedNotStakeables[avaxID]
	return nil
}

// GetCurrentValidators is platform.getCurrentValidators.
func (s *Service) GetCurrentValidators(r *http.Request, args *platformvm.GetCurrentValidatorsArgs, reply *rpc.Raw) error {
	// Order and repetition have no meaning.
	slices.SortFunc(args.NodeIDs, ids.NodeID.Compare)
	args.NodeIDs = slices.Compact(args.NodeIDs)
	return s.current.ask(r.Context(), "platform.getCurrentValidators", args.SubnetID, args.NodeIDs, args, reply)
}

// GetCurrentSupply is platform.getCurrentSupply.
func (s *Service) GetCurrentSupply(r *http.Request, args *platformvm.GetCurrentSupplyArgs, reply *rpc.Raw) error {
	return s.current.ask(r.Context(), "platform.getCurrentSupply", args.SubnetID, nil, args, reply)
}
