package xchain

import "github.com/ava-labs/avalanchego/vms/avm/txs"

// QuickBlock and SlowBlock read a block without an envelope in the two ways there are.
func QuickBlock(b []byte) *Block { return quickBlock(b) }

func (d *Decoder) SlowBlock(b []byte) (*Block, error) { return d.slowBlock(b) }

// QuickTx and SlowTx read a transaction by itself.
func QuickTx(b []byte) *txs.Tx { return quickTx(b) }

func (d *Decoder) SlowTx(b []byte) (*txs.Tx, error) {
	tx, err := d.parser.ParseTx(b)
	if err == nil {
		tx.Creds = nil
	}
	return tx, err
}
