// Package pchaintest makes P-Chains for tests and benchmarks: real blocks in
// real envelopes, whose transactions nobody verified.
package pchaintest

import (
	"crypto"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/staking"
	"github.com/ava-labs/avalanchego/utils/constants"
	"github.com/ava-labs/avalanchego/vms/components/avax"
	"github.com/ava-labs/avalanchego/vms/platformvm/block"
	"github.com/ava-labs/avalanchego/vms/platformvm/txs"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp/message"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp/payload"
	proposer "github.com/ava-labs/avalanchego/vms/proposervm/block"
	"github.com/ava-labs/avalanchego/vms/secp256k1fx"
)

// Block is an accepted block of a Chain.
type Block struct {
	ID ids.ID
	// Bare is what platform.getBlockByHeight gives, Enveloped what the index API
	// gives; the genesis block has no envelope.
	Bare, Enveloped []byte
}

// Chain is a P-Chain that grows at its end. Its methods panic on what the library
// refuses, because only a mistake in a test leads there.
type Chain struct {
	NetworkID uint32
	// Blocks in the order of their heights, the genesis block first.
	Blocks []Block

	cert      *staking.Certificate
	key       crypto.Signer
	envelope  ids.ID // the last one's
	timestamp time.Time
}

// New makes a chain that consists of its genesis block. Blocks are signed by a
// proposer whose identity differs from run to run.
func New(networkID uint32) *Chain {
	identity := must(staking.NewTLSCert())
	c := &Chain{
		NetworkID: networkID,
		cert:      must(staking.ParseCertificate(identity.Leaf.Raw)),
		key:       identity.PrivateKey.(crypto.Signer),
		timestamp: time.Unix(1_750_000_000, 0),
	}
	genesis := must(block.NewApricotCommitBlock(ids.ID{'g', byte(networkID)}, 0))
	c.Blocks = []Block{{ID: genesis.ID(), Bare: genesis.Bytes()}}
	c.envelope = genesis.ID()
	return c
}

// Next is the height of the block that comes next.
func (c *Chain) Next() uint64 { return uint64(len(c.Blocks)) }

// Time is that of the last block that has one.
func (c *Chain) Time() time.Time { return c.timestamp }

func (c *Chain) parent() ids.ID { return c.Blocks[len(c.Blocks)-1].ID }

// Standard adds a block with transactions, one second after the last one.
func (c *Chain) Standard(transactions ...*txs.Tx) Block {
	c.timestamp = c.timestamp.Add(time.Second)
	return c.add(must(block.NewBanffStandardBlock(c.timestamp, c.parent(), c.Next(), transactions)))
}

// Proposal adds a block that asks for proposal, and the option that answers.
func (c *Chain) Proposal(proposal *txs.Tx, commit bool, transactions ...*txs.Tx) {
	c.timestamp = c.timestamp.Add(time.Second)
	c.add(must(block.NewBanffProposalBlock(c.timestamp, c.parent(), c.Next(), proposal, transactions)))
	if commit {
		c.add(must(block.NewBanffCommitBlock(c.timestamp, c.parent(), c.Next())))
	} else {
		c.add(must(block.NewBanffAbortBlock(c.timestamp, c.parent(), c.Next())))
	}
}

func (c *Chain) add(inner block.Block) Block {
	b := Block{ID: inner.ID(), Bare: inner.Bytes()}
	var wrapped proposer.Block
	switch inner.(type) {
	case *block.BanffCommitBlock, *block.BanffAbortBlock:
		wrapped = must(proposer.BuildOption(c.envelope, inner.Bytes()))
	default:
		height := inner.Height() - 1
		epoch := proposer.Epoch{PChainHeight: height, Number: 1 + height/100, StartTime: c.timestamp.Unix()}
		wrapped = must(proposer.Build(c.envelope, c.timestamp, height, epoch, c.cert, inner.Bytes(), constants.PlatformChainID, c.key))
	}
	c.envelope, b.Enveloped = wrapped.ID(), wrapped.Bytes()
	c.Blocks = append(c.Blocks, b)
	return b
}

// Transfer is a transaction of no interest to anybody: seed makes it differ from
// others. It has an input, two outputs and a signature, as most have.
func (c *Chain) Transfer(seed uint64) *txs.Tx {
	return sign(&txs.BaseTx{BaseTx: c.base(seed)}, 1)
}

// Reward asks to reward the staker of a transaction, as a Proposal does.
func (c *Chain) Reward(txID ids.ID) *txs.Tx { return sign(&txs.RewardValidatorTx{TxID: txID}, 0) }

// Convert makes a subnet an L1 that the manager at address on a chain manages,
// with so many validators.
func (c *Chain) Convert(subnetID, managerChainID ids.ID, address []byte, validators int) *txs.Tx {
	tx := &txs.ConvertSubnetToL1Tx{
		BaseTx: txs.BaseTx{BaseTx: c.base(0)}, Subnet: subnetID, ChainID: managerChainID, Address: address,
		SubnetAuth: &secp256k1fx.Input{},
	}
	for i := range validators {
		nodeID := ids.NodeID{byte(i >> 8), byte(i), subnetID[0]}
		v := &txs.ConvertSubnetToL1Validator{NodeID: nodeID[:], Weight: uint64(i) + 1, Balance: 5}
		v.Signer.PublicKey[0], v.Signer.PublicKey[1] = byte(i), subnetID[1]
		v.RemainingBalanceOwner.Threshold, v.DeactivationOwner.Threshold = 1, 1
		v.RemainingBalanceOwner.Addresses = []ids.ShortID{{1}}
		v.DeactivationOwner.Addresses = []ids.ShortID{{2}}
		tx.Validators = append(tx.Validators, v)
	}
	return sign(tx, 2)
}

// Registration is the message by which a manager registers a validator.
func Registration(subnetID ids.ID, nodeID ids.NodeID, expiry uint64) *message.RegisterL1Validator {
	owner := message.PChainOwner{Threshold: 1, Addresses: []ids.ShortID{{3}}}
	return must(message.NewRegisterL1Validator(subnetID, nodeID, [48]byte{4}, expiry, owner, owner, 20))
}

// Register carries a registration.
func (c *Chain) Register(m *message.RegisterL1Validator) *txs.Tx {
	return sign(&txs.RegisterL1ValidatorTx{BaseTx: txs.BaseTx{BaseTx: c.base(0)}, Balance: 7, Message: c.signed(m.Bytes())}, 1)
}

// SetWeight changes a validator's weight.
func (c *Chain) SetWeight(validationID ids.ID, nonce, weight uint64) *txs.Tx {
	m := must(message.NewL1ValidatorWeight(validationID, nonce, weight))
	return sign(&txs.SetL1ValidatorWeightTx{BaseTx: txs.BaseTx{BaseTx: c.base(nonce)}, Message: c.signed(m.Bytes())}, 1)
}

// signed is what a manager says in an addressed call, as a Warp message.
func (c *Chain) signed(inner []byte) []byte {
	call := must(payload.NewAddressedCall(make([]byte, 20), inner))
	unsigned := must(warp.NewUnsignedMessage(c.NetworkID, ids.ID{'c'}, call.Bytes()))
	return must(warp.NewMessage(unsigned, &warp.BitSetSignature{Signers: []byte{7}})).Bytes()
}

func (c *Chain) base(seed uint64) avax.BaseTx {
	var spent ids.ID
	binary.BigEndian.PutUint64(spent[:], seed)
	asset := avax.Asset{ID: ids.ID{'a'}}
	out := func(amount uint64) *avax.TransferableOutput {
		owner := secp256k1fx.OutputOwners{Threshold: 1, Addrs: []ids.ShortID{ids.ShortID(spent[:20])}}
		return &avax.TransferableOutput{Asset: asset, Out: &secp256k1fx.TransferOutput{Amt: amount, OutputOwners: owner}}
	}
	return avax.BaseTx{
		NetworkID: c.NetworkID,
		Outs:      []*avax.TransferableOutput{out(1), out(2)},
		Ins: []*avax.TransferableInput{{
			UTXOID: avax.UTXOID{TxID: spent, OutputIndex: 1}, Asset: asset,
			In: &secp256k1fx.TransferInput{Amt: 4, Input: secp256k1fx.Input{SigIndices: []uint32{0}}},
		}},
	}
}

// sign adds credentials with signatures of nobody.
func sign(unsigned txs.UnsignedTx, credentials int) *txs.Tx {
	tx := &txs.Tx{Unsigned: unsigned}
	for range credentials {
		tx.Creds = append(tx.Creds, &secp256k1fx.Credential{Sigs: [][65]byte{{9}}})
	}
	if err := tx.Initialize(txs.Codec); err != nil {
		panic(fmt.Sprintf("making a transaction: %v", err))
	}
	return tx
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(fmt.Sprintf("making a P-Chain: %v", err))
	}
	return v
}
