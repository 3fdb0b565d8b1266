package history

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"time"

	"github.com/ava-labs/avalanchego/codec"
	"github.com/ava-labs/avalanchego/codec/linearcodec"
	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/hashing"
	"github.com/ava-labs/avalanchego/vms/components/avax"
	"github.com/ava-labs/avalanchego/vms/components/verify"
	"github.com/ava-labs/avalanchego/vms/secp256k1fx"
	"github.com/ava-labs/libevm/crypto"
	"github.com/ava-labs/libevm/rlp"
)

// evmState is the state of the C-Chain's accounts that exports need.
type evmState struct {
	codec codec.Manager
	nonce uint64
	// purse is the AVAX of all accounts, in nAVAX.
	purse uint64
}

// The encodings of atomic transactions (avalanchego vms/saevm/cchain/tx, which does not build everywhere).

type atomicTx struct {
	Unsigned    unsignedAtomicTx    `serialize:"true"`
	Credentials []verify.Verifiable `serialize:"true"`
}

type unsignedAtomicTx interface{ isAtomic() }

type atomicImport struct {
	NetworkID    uint32                    `serialize:"true"`
	BlockchainID ids.ID                    `serialize:"true"`
	SourceChain  ids.ID                    `serialize:"true"`
	Inputs       []*avax.TransferableInput `serialize:"true"`
	Outputs      []accountOutput           `serialize:"true"`
}

type atomicExport struct {
	NetworkID        uint32                     `serialize:"true"`
	BlockchainID     ids.ID                     `serialize:"true"`
	DestinationChain ids.ID                     `serialize:"true"`
	Inputs           []accountInput             `serialize:"true"`
	Outputs          []*avax.TransferableOutput `serialize:"true"`
}

type accountOutput struct {
	Address [20]byte `serialize:"true"`
	Amount  uint64   `serialize:"true"`
	AssetID ids.ID   `serialize:"true"`
}

type accountInput struct {
	Address [20]byte `serialize:"true"`
	Amount  uint64   `serialize:"true"`
	AssetID ids.ID   `serialize:"true"`
	Nonce   uint64   `serialize:"true"`
}

func (*atomicImport) isAtomic() {}
func (*atomicExport) isAtomic() {}

const atomicCodecVersion = 0

func newEVMState() (evmState, error) {
	types, manager := linearcodec.NewDefault(), codec.NewManager(math.MaxInt32)
	err := errors.Join(types.RegisterType(&atomicImport{}), types.RegisterType(&atomicExport{}))
	types.SkipRegistrations(3)
	err = errors.Join(err, types.RegisterType(&secp256k1fx.TransferInput{}))
	types.SkipRegistrations(1)
	err = errors.Join(err, types.RegisterType(&secp256k1fx.TransferOutput{}))
	types.SkipRegistrations(1)
	err = errors.Join(
		err, types.RegisterType(&secp256k1fx.Credential{}), types.RegisterType(&secp256k1fx.Input{}),
		types.RegisterType(&secp256k1fx.OutputOwners{}), manager.RegisterCodec(atomicCodecVersion, types),
	)
	// The local network's C-Chain started with 50 million AVAX.
	return evmState{codec: manager, purse: 50_000_000_000_000_000}, err
}

// header is a C-Chain block header with Avalanche's additions to Ethereum's.
type header struct {
	ParentHash, UncleHash                   [32]byte
	Coinbase                                [20]byte
	Root, TxHash, ReceiptHash               [32]byte
	Bloom                                   [256]byte
	Difficulty, Number                      *big.Int
	GasLimit, GasUsed, Time                 uint64
	Extra                                   []byte
	MixDigest                               [32]byte
	Nonce                                   [8]byte
	ExtDataHash                             [32]byte
	BaseFee, ExtDataGasUsed, BlockGasCost   *big.Int
	BlobGasUsed, ExcessBlobGas              uint64
	ParentBeaconRoot                        [32]byte
	TimestampMilliseconds, MinDelayExponent uint64
}

// evmBlock is the encoding of a C-Chain block.
type evmBlock struct {
	Header    *header
	Txs       []rlp.RawValue
	Uncles    []rlp.RawValue
	Version   uint32
	ExtraData []byte
}

func (g *Generator) beginC(at time.Time) error {
	return g.acceptC(&Block{Chain: C, Time: at}, nil)
}

// acceptC completes a block with atomic transactions.
func (g *Generator) acceptC(b *Block, extra []byte) error {
	h := &header{
		ParentHash: b.ParentID, Difficulty: big.NewInt(1), Number: new(big.Int).SetUint64(b.Height),
		GasLimit: 15_000_000, Time: uint64(b.Time.Unix()), BaseFee: big.NewInt(1), ExtDataGasUsed: big.NewInt(int64(len(extra))),
		BlockGasCost: big.NewInt(0), TimestampMilliseconds: uint64(b.Time.UnixMilli()),
	}
	g.fill(h.Root[:])
	encoded, err := rlp.EncodeToBytes(extra)
	if err != nil {
		return fmt.Errorf("a C-Chain block: %w", err)
	}
	h.ExtDataHash = crypto.Keccak256Hash(encoded)
	head, err := rlp.EncodeToBytes(h)
	if err != nil {
		return fmt.Errorf("a C-Chain header: %w", err)
	}
	whole, err := rlp.EncodeToBytes(&evmBlock{Header: h, ExtraData: extra})
	if err != nil {
		return fmt.Errorf("a C-Chain block: %w", err)
	}
	g.accept(b, ids.ID(crypto.Keccak256Hash(head)), whole)
	return nil
}

func (g *Generator) cBlock(now int64) error {
	b := g.open(C, now)
	var all []*atomicTx
	n := min(g.between(0, 3), 2) // some blocks have none
	for range n {
		d := g.draft(b)
		tx, err := g.cImportTx(d)
		if tx == nil && err == nil {
			tx, err = g.cExportTx(d)
		}
		if err != nil {
			return err
		}
		all = append(all, tx)
		signed, err := g.evm.codec.Marshal(atomicCodecVersion, tx)
		if err != nil {
			return fmt.Errorf("an atomic transaction: %w", err)
		}
		d.done(Tx{hashing.ComputeHash256Array(signed), signed})
	}
	var extra []byte
	if n > 0 {
		var err error
		if extra, err = g.evm.codec.Marshal(atomicCodecVersion, &all); err != nil {
			return fmt.Errorf("atomic transactions: %w", err)
		}
	}
	return g.acceptC(b, extra)
}

func (g *Generator) cImportTx(d *draft) (*atomicTx, error) {
	if g.chance(0.4) {
		return nil, nil
	}
	d.arriving = g.arrival(C)
	if d.arriving == nil {
		return nil, nil
	}
	in, _ := d.flow()
	tx := &atomicImport{
		NetworkID: g.network.id, BlockchainID: g.network.chainIDs[C],
		SourceChain: g.network.chainIDs[d.arriving[0].source], Inputs: d.inputs(d.arriving),
	}
	account := [20]byte(g.bytes(20))
	if in > fee {
		d.lost = in - fee
		g.evm.purse += d.lost
		tx.Outputs = append(tx.Outputs, accountOutput{Address: account, Amount: d.lost, AssetID: g.assets[avax0].id})
	}
	signed := &atomicTx{Unsigned: tx}
	for i := range d.arriving {
		one := &d.arriving[i]
		if one.asset != avax0 {
			tx.Outputs = append(tx.Outputs, accountOutput{Address: account, Amount: one.amount, AssetID: g.assets[one.asset].id})
		}
		c := g.credential(g.purse.parties[one.party].threshold)
		signed.Credentials = append(signed.Credentials, &c)
	}
	return signed, nil
}

func (g *Generator) cExportTx(d *draft) (*atomicTx, error) {
	if g.evm.purse < 1000*fee {
		return nil, errPoor
	}
	d.to = Chain(g.rng.IntN(2))
	amount := min(g.share(g.evm.purse, 0.00001, 0.001), 500_000_000_000_000)
	g.evm.purse -= amount + fee
	d.gained = amount + fee
	d.leaving = []spec{{party: g.anyParty(), amount: amount}}
	c := g.credential(1)
	g.evm.nonce++
	return &atomicTx{
		Unsigned: &atomicExport{
			NetworkID: g.network.id, BlockchainID: g.network.chainIDs[C], DestinationChain: g.network.chainIDs[d.to],
			Inputs:  []accountInput{{Address: [20]byte(g.bytes(20)), Amount: d.gained, AssetID: g.assets[avax0].id, Nonce: g.evm.nonce}},
			Outputs: d.outputs(d.leaving),
		},
		Credentials: []verify.Verifiable{&c},
	}, nil
}
