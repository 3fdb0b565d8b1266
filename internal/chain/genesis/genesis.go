// Package genesis is what a network began with, in the ledger's terms: outputs,
// stakers and chains of the P-Chain, assets and outputs of the X-Chain. The C-Chain
// began with accounts only, which are not a matter of this package.
package genesis

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ava-labs/avalanchego/genesis"
	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/constants"
	"github.com/ava-labs/avalanchego/utils/hashing"
	"github.com/ava-labs/avalanchego/vms/avm"
	avmtxs "github.com/ava-labs/avalanchego/vms/avm/txs"
	"github.com/ava-labs/avalanchego/vms/platformvm/block"
	platformgenesis "github.com/ava-labs/avalanchego/vms/platformvm/genesis"
	"github.com/ava-labs/avalanchego/vms/platformvm/txs"

	"quorate/internal/chain/ledger"
	"quorate/internal/chain/pchain"
	"quorate/internal/chain/xchain"
)

// ErrUnknownNetwork says that the library does not have a network's genesis: it must
// be given, as it was to the network's nodes.
var ErrUnknownNetwork = errors.New("the genesis of the network is not known")

// Genesis is what a network began with.
type Genesis struct {
	NetworkID uint32
	Time      time.Time
	// AVAXAssetID is the asset of stakes and fees; XChainID and CChainID are the
	// blockchains'.
	AVAXAssetID, XChainID, CChainID ids.ID
	// P is the P-Chain's block at height 0, with its ID. Outputs that no
	// transaction made are in one of Kind Unknown and without an ID.
	P *ledger.Block
	// X is what the X-Chain had at the beginning. Its first block came later, and
	// says nothing about it, so that there is no ID.
	X *ledger.Block
	// Supply is all there was at the beginning, of which rewards are made more, in
	// nAVAX: on the P- and the X-Chain together.
	Supply uint64
	// Validators are the P-Chain's first ones, in the order in which it has them.
	Validators []*txs.Tx
	// PTxs and XTxs are the transactions by their IDs, as nodes keep them: no block has
	// them.
	PTxs, XTxs map[ids.ID][]byte
	// Aliases are what the X-Chain's assets may be called besides their IDs.
	Aliases map[string]ids.ID
}

// Of is the genesis of the network whose P-Chain begins with a block
// (platform.getBlockByHeight 0): of mainnet, Fuji, the local network, or a private one
// whose nodes were not given a genesis of their own. Errors are ErrUnknownNetwork.
func Of(networkID uint32, firstBlockID ids.ID) (*Genesis, error) {
	config := *genesis.GetConfig(networkID)
	periods := 1
	if networkID != constants.MainnetID && networkID != constants.FujiID {
		periods = maxRenewals
	}
	for range periods {
		g, err := FromConfig(&config)
		if err != nil {
			return nil, err
		}
		if g.P.ID == firstBlockID {
			return g, nil
		}
		if config.StartTime < renewalPeriod {
			break
		}
		config.StartTime -= renewalPeriod
	}
	return nil, fmt.Errorf("%w: network %d does not begin with the block %s there", ErrUnknownNetwork, networkID, firstBlockID)
}

// The library moves the beginning of networks other than mainnet and Fuji forward
// from time to time: a network that is older than the last move began before.
const (
	renewalPeriod = 9 * 30 * 24 * 60 * 60 // seconds; avalanchego genesis
	// maxRenewals is how many of them are looked back.
	maxRenewals = 4
)

// FromFile is the genesis of a private network, from the file that its nodes are
// started with (--genesis-file). No API of a node has it.
func FromFile(path string) (*Genesis, error) {
	config, err := genesis.GetConfigFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the genesis: %w", err)
	}
	return FromConfig(config)
}

// FromConfig is the genesis that avalanchego makes of a configuration.
func FromConfig(config *genesis.Config) (*Genesis, error) {
	if len(config.InitialStakers) == 0 { // by which it divides
		return nil, fmt.Errorf("making the genesis of network %d: it has no initialStakers", config.NetworkID)
	}
	b, _, err := genesis.FromConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making the genesis of network %d: %w", config.NetworkID, err)
	}
	return Parse(b)
}

// Parse is the genesis that the P-Chain's genesis bytes describe.
func Parse(b []byte) (*Genesis, error) {
	parsed, err := platformgenesis.Parse(b)
	if err != nil {
		return nil, fmt.Errorf("reading the P-Chain's genesis: %w", err)
	}
	g := &Genesis{Time: time.Unix(int64(parsed.Timestamp), 0).UTC(), Supply: parsed.InitialSupply, Validators: parsed.Validators}
	if g.P, err = pChain(parsed, hashing.ComputeHash256Array(b), g.Time); err != nil {
		return nil, fmt.Errorf("reading the P-Chain's genesis: %w", err)
	}
	g.PTxs = make(map[ids.ID][]byte)
	for _, tx := range slices.Concat(parsed.Validators, parsed.Chains) {
		g.PTxs[tx.ID()] = tx.Bytes()
	}
	for _, chain := range parsed.Chains {
		created, ok := chain.Unsigned.(*txs.CreateChainTx)
		if !ok {
			return nil, fmt.Errorf("reading the P-Chain's genesis: a chain made by %T", chain.Unsigned)
		}
		g.NetworkID = created.NetworkID
		switch created.VMID {
		case constants.AVMID:
			g.XChainID = chain.ID()
			if err = g.xChain(created.GenesisData); err != nil {
				return nil, fmt.Errorf("reading the X-Chain's genesis: %w", err)
			}
			g.AVAXAssetID = g.X.Txs[0].ID
		case constants.EVMID:
			g.CChainID = chain.ID()
		}
	}
	if g.X == nil || g.CChainID == ids.Empty {
		return nil, errors.New("reading the P-Chain's genesis: it lacks the X- or the C-Chain")
	}
	return g, nil
}

func pChain(g *platformgenesis.Genesis, id ids.ID, at time.Time) (*ledger.Block, error) {
	// The hash of what it began with is the parent of the chain's first block
	// (avalanchego vms/platformvm/state).
	first, err := block.NewApricotCommitBlock(id, 0)
	if err != nil {
		return nil, err
	}
	out := &ledger.Block{ChainID: constants.PlatformChainID, ID: first.ID(), Time: at}
	if len(g.UTXOs) > 0 {
		held := ledger.Tx{Kind: ledger.Unknown}
		for _, utxo := range g.UTXOs {
			made, err := ledger.OutputOf(txs.GenesisCodec, &utxo.UTXO, ledger.Ordinary, constants.PlatformChainID)
			if err != nil {
				return nil, err
			}
			held.Made = append(held.Made, made)
		}
		out.Txs = append(out.Txs, held)
	}
	for _, tx := range slices.Concat(g.Validators, g.Chains) {
		read, err := pchain.ReadGenesis(tx, at)
		if err != nil {
			return nil, fmt.Errorf("transaction %s: %w", tx.ID(), err)
		}
		out.Txs = append(out.Txs, *read)
	}
	return out, nil
}

// xChain reads the X-Chain's genesis; its first asset is that of fees.
func (g *Genesis) xChain(b []byte) error {
	parser, err := xchain.NewParser()
	if err != nil {
		return err
	}
	c := parser.GenesisCodec()
	var x avm.Genesis
	if _, err := c.Unmarshal(b, &x); err != nil {
		return err
	}
	if len(x.Txs) == 0 {
		return errors.New("it has no asset")
	}
	g.X = &ledger.Block{ChainID: g.XChainID, Time: g.Time}
	g.XTxs, g.Aliases = make(map[ids.ID][]byte), make(map[string]ids.ID)
	for _, asset := range x.Txs {
		tx := &avmtxs.Tx{Unsigned: &asset.CreateAssetTx}
		if err := tx.Initialize(c); err != nil {
			return fmt.Errorf("asset %q: %w", asset.Alias, err)
		}
		read, err := xchain.Read(tx, g.XChainID, c)
		if err != nil {
			return fmt.Errorf("asset %q: %w", asset.Alias, err)
		}
		g.X.Txs = append(g.X.Txs, *read)
		g.XTxs[tx.ID()] = tx.Bytes()
		g.Aliases[asset.Alias] = tx.ID()
	}
	return nil
}
