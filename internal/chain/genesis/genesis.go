// Package genesis converts a network's genesis to the ledger's types: outputs, stakers and chains of the P-Chain,
// assets and outputs of the X-Chain. It does not read the C-Chain's genesis, which has accounts only.
package genesis

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/ava-labs/avalanchego/genesis"
	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/upgrade"
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

// ErrUnknownNetwork means that the library does not have the network's genesis. The operator must supply the genesis
// file of the network's nodes.
var ErrUnknownNetwork = errors.New("the genesis of the network is unknown")

// Genesis is the initial state of a network.
type Genesis struct {
	// Bytes is the P-Chain's genesis, from which the rest was parsed.
	Bytes     []byte
	NetworkID uint32
	Time      time.Time
	// AVAXAssetID is the asset of stakes and fees. XChainID and CChainID are the blockchain IDs.
	AVAXAssetID, XChainID, CChainID ids.ID
	// P is the P-Chain's block at height 0, with its ID. Outputs without a transaction are in a transaction of Kind
	// Unknown without an ID.
	P *ledger.Block
	// X is the X-Chain's initial state. It has no ID, because no X-Chain block refers to it.
	X *ledger.Block
	// Supply is the initial AVAX supply of the P- and X-Chain together, in nAVAX.
	Supply uint64
	// Validators are the initial validators of the P-Chain in genesis order.
	Validators []*txs.Tx
	// PTxs and XTxs are the bytes of the genesis transactions by ID. No block contains them.
	PTxs, XTxs map[ids.ID][]byte
	// Aliases maps names of X-Chain assets to their IDs.
	Aliases map[string]ids.ID
}

// Of returns the genesis of the network whose P-Chain begins with firstBlockID (platform.getBlockByHeight 0). It knows
// mainnet, Fuji, the local network, and private networks whose nodes use the default genesis. Errors wrap
// ErrUnknownNetwork.
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
	return nil, fmt.Errorf("%w: no known genesis of network %d begins with block %s; set genesis_file", ErrUnknownNetwork, networkID, firstBlockID)
}

// The library regularly moves the start time of networks other than mainnet and Fuji forward. A network created before
// the last move has an earlier start time.
const (
	renewalPeriod = 9 * 30 * 24 * 60 * 60 // seconds; avalanchego genesis
	// maxRenewals is the number of earlier start times that Of tries.
	maxRenewals = 4
)

// FromFile returns the genesis in the file that the nodes of a private network are started with (--genesis-file). No
// node API returns it.
func FromFile(path string) (*Genesis, error) {
	config, err := genesis.GetConfigFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the genesis: %w", err)
	}
	return FromConfig(config)
}

// UpgradesFromFile reads the upgrade times of a private network from the file of its nodes (--upgrade-file).
func UpgradesFromFile(path string) (upgrade.Config, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return upgrade.Config{}, err
	}
	var upgrades upgrade.Config
	if err := json.Unmarshal(content, &upgrades); err != nil {
		return upgrade.Config{}, fmt.Errorf("%s: %w", path, err)
	}
	if err := upgrades.Validate(); err != nil {
		return upgrade.Config{}, fmt.Errorf("%s: %w", path, err)
	}
	return upgrades, nil
}

// FromConfig returns the genesis that avalanchego builds from a configuration.
func FromConfig(config *genesis.Config) (*Genesis, error) {
	if len(config.InitialStakers) == 0 { // avalanchego divides by their number
		return nil, fmt.Errorf("building the genesis of network %d: it has no initialStakers", config.NetworkID)
	}
	b, _, err := genesis.FromConfig(config)
	if err != nil {
		return nil, fmt.Errorf("building the genesis of network %d: %w", config.NetworkID, err)
	}
	return Parse(b)
}

// Parse parses the P-Chain's genesis bytes.
func Parse(b []byte) (*Genesis, error) {
	parsed, err := platformgenesis.Parse(b)
	if err != nil {
		return nil, fmt.Errorf("reading the P-Chain's genesis: %w", err)
	}
	g := &Genesis{Bytes: b, Time: time.Unix(int64(parsed.Timestamp), 0).UTC(), Supply: parsed.InitialSupply, Validators: parsed.Validators}
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
			return nil, fmt.Errorf("reading the P-Chain's genesis: unexpected chain transaction %T", chain.Unsigned)
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
		return nil, errors.New("reading the P-Chain's genesis: it has no X-Chain or no C-Chain")
	}
	return g, nil
}

func pChain(g *platformgenesis.Genesis, id ids.ID, at time.Time) (*ledger.Block, error) {
	// The parent of the first block is the hash of the genesis bytes (avalanchego vms/platformvm/state).
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

// xChain parses the X-Chain's genesis. Its first asset pays fees.
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
		return errors.New("no assets")
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
