package history

import (
	"errors"
	"fmt"
	"time"

	avagenesis "github.com/ava-labs/avalanchego/genesis"
	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/constants"
	"github.com/ava-labs/avalanchego/utils/hashing"
	"github.com/ava-labs/avalanchego/vms/avm"
	avmblock "github.com/ava-labs/avalanchego/vms/avm/block"
	avmtxs "github.com/ava-labs/avalanchego/vms/avm/txs"
	"github.com/ava-labs/avalanchego/vms/components/avax"
	"github.com/ava-labs/avalanchego/vms/platformvm/block"
	pgenesis "github.com/ava-labs/avalanchego/vms/platformvm/genesis"
	"github.com/ava-labs/avalanchego/vms/platformvm/stakeable"
	"github.com/ava-labs/avalanchego/vms/platformvm/txs"
	"github.com/ava-labs/avalanchego/vms/secp256k1fx"
)

// begin makes the blocks at height 0 and distributes the genesis outputs.
func (g *Generator) begin() error {
	raw, avaxID, err := avagenesis.FromConfig(g.o.Genesis)
	if err != nil {
		return err
	}
	parsed, err := pgenesis.Parse(raw)
	if err != nil {
		return err
	}
	g.assets = []asset{{id: avaxID}}
	g.network.chainIDs[P] = constants.PlatformChainID
	var xGenesis []byte
	for _, chain := range parsed.Chains {
		created, ok := chain.Unsigned.(*txs.CreateChainTx)
		if !ok {
			return fmt.Errorf("unexpected chain transaction %T", chain.Unsigned)
		}
		switch created.VMID {
		case constants.AVMID:
			g.network.chainIDs[X], xGenesis = chain.ID(), created.GenesisData
		case constants.EVMID:
			g.network.chainIDs[C] = chain.ID()
		}
		g.genesis = append(g.genesis, Tx{chain.ID(), chain.Bytes()})
	}
	at := time.Unix(int64(parsed.Timestamp), 0).UTC()
	g.l1s.begin(g.network.id, at.Unix())
	if err := g.beginP(parsed, hashing.ComputeHash256Array(raw), at); err != nil {
		return fmt.Errorf("P-Chain: %w", err)
	}
	if err := g.beginX(xGenesis, at); err != nil {
		return fmt.Errorf("X-Chain: %w", err)
	}
	if err := g.beginC(at); err != nil {
		return fmt.Errorf("C-Chain: %w", err)
	}
	g.populate()
	return nil
}

func (g *Generator) beginP(parsed *pgenesis.Genesis, id ids.ID, at time.Time) error {
	first, err := block.NewApricotCommitBlock(id, 0)
	if err != nil {
		return err
	}
	b := &Block{Chain: P, ParentID: id, Time: at}
	for _, utxo := range parsed.UTXOs {
		c, err := g.genesisCoin(P, &utxo.UTXO)
		if err != nil {
			return err
		}
		g.purse.sums.Genesis += c.amount
		g.truth.make(&c, g, b, P, 0)
		g.keep(P, c)
	}
	g.stakes.supply = parsed.InitialSupply
	for _, tx := range parsed.Validators {
		if err := g.genesisStaker(tx, b); err != nil {
			return fmt.Errorf("validator %s: %w", tx.ID(), err)
		}
		g.genesis = append(g.genesis, Tx{tx.ID(), tx.Bytes()})
	}
	g.accept(b, first.ID(), first.Bytes())
	return nil
}

func (g *Generator) genesisStaker(tx *txs.Tx, b *Block) error {
	staker, ok := tx.Unsigned.(txs.PermissionlessStaker)
	if !ok {
		return fmt.Errorf("%T is no staker", tx.Unsigned)
	}
	validator, ok := staker.(txs.ValidatorTx)
	if !ok {
		return fmt.Errorf("%T is no validator", tx.Unsigned)
	}
	bounded, ok := staker.(txs.BoundedStaker)
	if !ok {
		return fmt.Errorf("%T has no end", tx.Unsigned)
	}
	owners, ok := validator.ValidationRewardsOwner().(*secp256k1fx.OutputOwners)
	if !ok {
		return errors.New("the reward has no owner")
	}
	s := &stint{
		txID: tx.ID(), nodeID: staker.NodeID(), start: b.Time.Unix(), end: bounded.EndTime().Unix(),
		weight: staker.Weight(), shares: validator.Shares(),
		owner: g.genesisParty(owners), next: uint32(len(staker.Outputs()) + len(staker.Stake())),
	}
	for i, out := range staker.Stake() {
		c, err := g.genesisCoin(P, &avax.UTXO{
			UTXOID: avax.UTXOID{TxID: tx.ID(), OutputIndex: uint32(len(staker.Outputs()) + i)}, Asset: out.Asset, Out: out.Out,
		})
		if err != nil {
			return err
		}
		s.coins = append(s.coins, c)
		g.purse.sums.Genesis += c.amount
		g.truth.make(&c, g, b, P, s.end)
	}
	g.enter(b, s)
	return nil
}

// genesisCoin returns a genesis output with its owners as a party.
func (g *Generator) genesisCoin(on Chain, utxo *avax.UTXO) (coin, error) {
	if utxo.AssetID() != g.assets[avax0].id {
		return coin{}, errors.New("genesis output is not AVAX")
	}
	c := coin{tx: utxo.TxID, index: utxo.OutputIndex, kind: Transfer, source: on}
	out := any(utxo.Out)
	if locked, ok := out.(*stakeable.LockOut); ok {
		c.stakeable, out = locked.Locktime, locked.TransferableOut
	}
	transfer, ok := out.(*secp256k1fx.TransferOutput)
	if !ok {
		return coin{}, fmt.Errorf("unexpected genesis output %T", out)
	}
	c.amount, c.locktime, c.party = transfer.Amt, transfer.Locktime, g.genesisParty(&transfer.OutputOwners)
	return c, nil
}

func (g *Generator) beginX(raw []byte, at time.Time) error {
	c := g.xParser.GenesisCodec()
	var parsed avm.Genesis
	if _, err := c.Unmarshal(raw, &parsed); err != nil {
		return err
	}
	b := &Block{Chain: X, Time: at}
	for _, made := range parsed.Txs {
		tx := &avmtxs.Tx{Unsigned: &made.CreateAssetTx}
		if err := tx.Initialize(c); err != nil {
			return err
		}
		if tx.ID() != g.assets[avax0].id {
			return fmt.Errorf("asset %q is not AVAX", made.Alias)
		}
		for _, utxo := range tx.UTXOs() {
			one, err := g.genesisCoin(X, utxo)
			if err != nil {
				return err
			}
			g.purse.sums.Genesis += one.amount
			g.truth.make(&one, g, b, X, 0)
			g.keep(X, one)
		}
	}
	if !g.early.over {
		g.tips[X].time = at.Unix()
		return nil // its first block follows the last vertex
	}
	// Like a network that never had vertices: nothing precedes the first block.
	first, err := avmblock.NewStandardBlock(ids.Empty, 0, at, nil, g.xParser.Codec())
	if err != nil {
		return err
	}
	g.accept(b, first.ID(), first.Bytes())
	return nil
}
