// Package asset answers calls about the X-Chain as a node does, from its index.
package asset

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/ava-labs/avalanchego/api"
	"github.com/ava-labs/avalanchego/database"
	"github.com/ava-labs/avalanchego/genesis"
	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/snow/choices"
	avajson "github.com/ava-labs/avalanchego/utils/json"
	safemath "github.com/ava-labs/avalanchego/utils/math"
	"github.com/ava-labs/avalanchego/utils/set"
	"github.com/ava-labs/avalanchego/vms/avm"
	"github.com/ava-labs/avalanchego/vms/components/avax"
	"github.com/ava-labs/avalanchego/vms/secp256k1fx"

	"quorate/handlers/rpc"
	"quorate/handlers/rpc/chain"
	own "quorate/internal/chain/ledger"
	"quorate/internal/index/ledger"
)

// Names lists the names of the service: the node's own, and the one in the node's documentation.
var Names = []string{"avm", "xvm"}

// Assets returns the assets of the chain; *ledger.Index implements it.
type Assets interface {
	Assets(ctx context.Context, assetIDs []ids.ID) ([]*own.Asset, error)
}

// Options configures a Service. New sets Chain.Content.
type Options struct {
	Chain  chain.Options
	Assets Assets
	// Aliases maps aliases of the chain's assets to IDs.
	Aliases map[string]ids.ID
	// Upstream is asked about transactions while the index is behind; nil if there are no upstream nodes. Path is the chain's.
	Upstream rpc.Upstream
	Path     string
}

// Service implements the methods. It is safe for concurrent use.
type Service struct {
	options Options
	chain   *chain.Chain
	content *content
	names   map[ids.ID]string
}

// New returns the service of a chain.
func New(o Options) (*Service, error) {
	content, err := newContent()
	if err != nil {
		return nil, err
	}
	o.Chain.Content = content
	s := &Service{options: o, content: content, names: make(map[ids.ID]string, len(o.Aliases))}
	for alias, id := range o.Aliases {
		s.names[id] = alias
	}
	s.chain = chain.New(o.Chain)
	content.context = s.chain.Context
	return s, nil
}

var (
	errNoTxID   = errors.New("nil transaction ID")
	errNotAsset = errors.New("transaction doesn't create an asset")
)

// GetHeight is avm.getHeight.
func (s *Service) GetHeight(r *http.Request, _ *struct{}, reply *api.GetHeightResponse) error {
	height, err := s.chain.Height(r.Context())
	reply.Height = avajson.Uint64(height)
	return err
}

// GetTxFee is avm.getTxFee.
func (s *Service) GetTxFee(_ *http.Request, _ *struct{}, reply *avm.GetTxFeeReply) error {
	fees := genesis.GetTxFeeConfig(s.chain.NetworkID)
	reply.TxFee, reply.CreateAssetTxFee = avajson.Uint64(fees.TxFee), avajson.Uint64(fees.CreateAssetTxFee)
	return nil
}

// GetBlock is avm.getBlock.
func (s *Service) GetBlock(r *http.Request, args *api.GetBlockArgs, reply *rpc.Raw) error {
	return s.chain.Block(r.Context(), args, reply)
}

// GetBlockByHeight is avm.getBlockByHeight.
func (s *Service) GetBlockByHeight(r *http.Request, args *api.GetBlockByHeightArgs, reply *rpc.Raw) error {
	return s.chain.BlockByHeight(r.Context(), args, reply)
}

// GetTx is avm.getTx.
func (s *Service) GetTx(r *http.Request, args *api.GetTxArgs, reply *rpc.Raw) error {
	if args.TxID == ids.Empty {
		return errNoTxID
	}
	return s.chain.Tx(r.Context(), args, reply)
}

// GetTxStatus is avm.getTxStatus. While the index is behind, upstream nodes are asked about transactions that it lacks. One
// that they report as accepted is still processing until it is indexed, so that its outputs are there once it is accepted.
func (s *Service) GetTxStatus(r *http.Request, args *api.JSONTxID, reply *avm.GetTxStatusReply) error {
	if args.TxID == ids.Empty {
		return errNoTxID
	}
	ctx := r.Context()
	behind := s.chain.Behind()
	known, err := s.chain.Known(ctx, args.TxID)
	switch {
	case err != nil:
		return err
	case known:
		reply.Status = choices.Accepted
		return nil
	case !behind || s.options.Upstream == nil:
		reply.Status = choices.Unknown
		return nil
	}
	const method = "avm.getTxStatus"
	params := fmt.Appendf(nil, `{"txID":%q}`, args.TxID)
	if err := rpc.Ask(ctx, s.options.Upstream, s.options.Path, method, params, reply); err != nil {
		return rpc.Unanswered(s.chain.Log, method, err)
	}
	if reply.Status == choices.Accepted {
		if known, err = s.chain.Known(ctx, args.TxID); !known {
			reply.Status = choices.Processing
		}
	}
	return err
}

// asset returns the ID of an asset, by its ID or an alias.
func (s *Service) asset(name string) (ids.ID, error) {
	if id, ok := s.options.Aliases[name]; ok {
		return id, nil
	}
	id, err := ids.FromString(name)
	if err != nil {
		return ids.Empty, fmt.Errorf("asset '%s' not found", name)
	}
	return id, nil
}

// GetAssetDescription is avm.getAssetDescription.
func (s *Service) GetAssetDescription(r *http.Request, args *avm.GetAssetDescriptionArgs, reply *avm.GetAssetDescriptionReply) error {
	ctx := r.Context()
	id, err := s.asset(args.AssetID)
	if err != nil {
		return err
	}
	behind := s.chain.Behind()
	found, err := s.options.Assets.Assets(ctx, []ids.ID{id})
	switch {
	case err != nil:
		return s.chain.Failed(ctx, err)
	case found[0] == nil && behind:
		return rpc.ErrForward
	case found[0] == nil:
		known, err := s.chain.Known(ctx, id)
		if err == nil {
			err = database.ErrNotFound
		}
		if known {
			err = errNotAsset
		}
		return err
	}
	reply.AssetID, reply.Name, reply.Symbol, reply.Denomination = id, found[0].Name, found[0].Symbol, avajson.Uint8(found[0].Denomination)
	return nil
}

// GetUTXOs is avm.getUTXOs.
func (s *Service) GetUTXOs(r *http.Request, args *api.GetUTXOsArgs, reply *api.GetUTXOsReply) error {
	return s.chain.UTXOs(r.Context(), args, reply)
}

// address parses the single address of a call.
func (s *Service) address(text string) (set.Set[ids.ShortID], error) {
	address, err := avax.ParseServiceAddress(s.chain.Addresses, text)
	return set.Of(address), err
}

// amounts calls f for each amount that the address owns alone and unlocked. If partial is set, it includes amounts
// that are locked or shared.
func (s *Service) amounts(ctx context.Context, addresses set.Set[ids.ShortID], partial bool, f func(utxo *avax.UTXO, amount uint64) error) error {
	now := uint64(time.Now().Unix())
	return s.chain.Owned(ctx, addresses, func(one *ledger.Owned) error {
		var utxo avax.UTXO
		if _, err := s.content.parser.Codec().Unmarshal(one.Bytes, &utxo); err != nil {
			return s.chain.Failed(ctx, fmt.Errorf("reading UTXO %s: %w", one.ID, err))
		}
		out, ok := utxo.Out.(*secp256k1fx.TransferOutput)
		if !ok || !partial && (len(out.Addrs) != 1 || out.Locktime > now) {
			return nil
		}
		return f(&utxo, out.Amt)
	})
}

// GetBalance is avm.getBalance.
func (s *Service) GetBalance(r *http.Request, args *avm.GetBalanceArgs, reply *avm.GetBalanceReply) error {
	addresses, err := s.address(args.Address)
	if err != nil {
		return fmt.Errorf("problem parsing address '%s': %w", args.Address, err)
	}
	asset, err := s.asset(args.AssetID)
	if err != nil {
		return err
	}
	reply.UTXOIDs = []avax.UTXOID{}
	return s.amounts(r.Context(), addresses, args.IncludePartial, func(utxo *avax.UTXO, amount uint64) error {
		if utxo.AssetID() != asset {
			return nil
		}
		sum, err := safemath.Add(amount, uint64(reply.Balance))
		if err != nil {
			return err
		}
		reply.Balance = avajson.Uint64(sum)
		reply.UTXOIDs = append(reply.UTXOIDs, utxo.UTXOID)
		return nil
	})
}

// GetAllBalances is avm.getAllBalances. It sorts balances by asset; a node returns them in random order.
func (s *Service) GetAllBalances(r *http.Request, args *avm.GetAllBalancesArgs, reply *avm.GetAllBalancesReply) error {
	addresses, err := s.address(args.Address)
	if err != nil {
		return fmt.Errorf("problem parsing address '%s': %w", args.Address, err)
	}
	sums := make(map[ids.ID]uint64)
	if err := s.amounts(r.Context(), addresses, args.IncludePartial, func(utxo *avax.UTXO, amount uint64) error {
		sum, err := safemath.Add(amount, sums[utxo.AssetID()])
		if err != nil {
			sum = math.MaxUint64
		}
		sums[utxo.AssetID()] = sum
		return nil
	}); err != nil {
		return err
	}
	reply.Balances = make([]avm.Balance, 0, len(sums))
	for id, sum := range sums {
		name, ok := s.names[id]
		if !ok {
			name = id.String()
		}
		reply.Balances = append(reply.Balances, avm.Balance{AssetID: name, Balance: avajson.Uint64(sum)})
	}
	slices.SortFunc(reply.Balances, func(a, b avm.Balance) int { return strings.Compare(a.AssetID, b.AssetID) })
	return nil
}
