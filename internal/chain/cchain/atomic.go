package cchain

import (
	"errors"
	"fmt"
	"math"

	"github.com/ava-labs/avalanchego/codec"
	"github.com/ava-labs/avalanchego/codec/linearcodec"
	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/hashing"
	"github.com/ava-labs/avalanchego/vms/components/avax"
	"github.com/ava-labs/avalanchego/vms/components/verify"
	"github.com/ava-labs/avalanchego/vms/secp256k1fx"

	"quorate/internal/chain/ledger"
)

// The types below mirror avalanchego's encoding of atomic transactions (vms/saevm/cchain/tx, before that coreth's
// plugin/evm/atomic).

const codecVersion = 0

type signedTx struct {
	Unsigned    unsignedTx          `serialize:"true"`
	Credentials []verify.Verifiable `serialize:"true"`
}

type unsignedTx interface {
	// put converts the transaction to the ledger's types; c encodes outputs.
	put(tx *ledger.Tx, c codec.Manager) error
	network() (networkID uint32, chainID ids.ID)
}

type importTx struct {
	NetworkID    uint32                    `serialize:"true"`
	BlockchainID ids.ID                    `serialize:"true"`
	SourceChain  ids.ID                    `serialize:"true"`
	Inputs       []*avax.TransferableInput `serialize:"true"`
	Outputs      []evmOutput               `serialize:"true"`
}

type exportTx struct {
	NetworkID        uint32                     `serialize:"true"`
	BlockchainID     ids.ID                     `serialize:"true"`
	DestinationChain ids.ID                     `serialize:"true"`
	Inputs           []evmInput                 `serialize:"true"`
	Outputs          []*avax.TransferableOutput `serialize:"true"`
}

type evmOutput struct {
	Address [20]byte `serialize:"true"`
	Amount  uint64   `serialize:"true"`
	AssetID ids.ID   `serialize:"true"`
}

type evmInput struct {
	Address [20]byte `serialize:"true"`
	Amount  uint64   `serialize:"true"`
	AssetID ids.ID   `serialize:"true"`
	Nonce   uint64   `serialize:"true"`
}

// newCodec skips type IDs so that outputs are encoded as on the other chains.
func newCodec() (codec.Manager, error) {
	types, manager := linearcodec.NewDefault(), codec.NewManager(math.MaxInt32)
	err := errors.Join(types.RegisterType(&importTx{}), types.RegisterType(&exportTx{}))
	types.SkipRegistrations(3)
	err = errors.Join(err, types.RegisterType(&secp256k1fx.TransferInput{}))
	types.SkipRegistrations(1)
	err = errors.Join(err, types.RegisterType(&secp256k1fx.TransferOutput{}))
	types.SkipRegistrations(1)
	return manager, errors.Join(
		err,
		types.RegisterType(&secp256k1fx.Credential{}),
		types.RegisterType(&secp256k1fx.Input{}),
		types.RegisterType(&secp256k1fx.OutputOwners{}),
		manager.RegisterCodec(codecVersion, types),
	)
}

// read parses extra data: a list of transactions, or a single transaction.
func (d *Decoder) read(extra []byte, isList bool) ([]ledger.Tx, error) {
	if len(extra) == 0 {
		return nil, nil
	}
	var signed []*signedTx
	var err error
	if isList {
		_, err = d.codec.Unmarshal(extra, &signed)
	} else {
		one := new(signedTx)
		_, err = d.codec.Unmarshal(extra, one)
		signed = append(signed, one)
	}
	if err != nil {
		return nil, err
	}
	if len(signed) == 0 {
		return nil, errors.New("an empty list")
	}
	transactions := make([]ledger.Tx, len(signed))
	for i, s := range signed {
		b, err := d.codec.Marshal(codecVersion, s)
		if err != nil {
			return nil, fmt.Errorf("re-encoding transaction %d: %w", i, err)
		}
		tx := &transactions[i]
		tx.ID = hashing.ComputeHash256Array(b)
		if networkID, chainID := s.Unsigned.network(); networkID != d.networkID || chainID != d.chainID {
			return nil, fmt.Errorf("transaction %s is for chain %s of network %d; check network and blockchain ID", tx.ID, chainID, networkID)
		}
		if err := s.Unsigned.put(tx, d.codec); err != nil {
			return nil, fmt.Errorf("transaction %s: %w", tx.ID, err)
		}
	}
	return transactions, nil
}

func (t *importTx) network() (uint32, ids.ID) { return t.NetworkID, t.BlockchainID }
func (t *exportTx) network() (uint32, ids.ID) { return t.NetworkID, t.BlockchainID }

func (t *importTx) put(tx *ledger.Tx, _ codec.Manager) error {
	tx.Kind = "ImportTx"
	var err error
	tx.Consumed, err = ledger.InputsOf(t.Inputs, t.SourceChain)
	return err
}

func (t *exportTx) put(tx *ledger.Tx, c codec.Manager) error {
	tx.Kind = "ExportTx"
	for i, out := range t.Outputs {
		made, err := ledger.OutputOf(c, &avax.UTXO{
			UTXOID: avax.UTXOID{TxID: tx.ID, OutputIndex: uint32(i)},
			Asset:  out.Asset,
			Out:    out.Out,
		}, ledger.Exported, t.DestinationChain)
		if err != nil {
			return err
		}
		tx.Made = append(tx.Made, made)
	}
	return nil
}
