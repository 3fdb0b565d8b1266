// Package pchaintest builds P-Chains for tests and benchmarks: real blocks in real envelopes with unverified
// transactions.
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
	// Bare is the result of platform.getBlockByHeight, Enveloped that of the index API. The genesis block has no
	// envelope.
	Bare, Enveloped []byte
}

// Chain is a P-Chain to which tests append blocks. Its methods panic if the library rejects a block.
type Chain struct {
	NetworkID uint32
	// Blocks are in height order, from the genesis block on.
	Blocks []Block

	cert      *staking.Certificate
	key       crypto.Signer
	envelope  ids.ID // of the last block
	timestamp time.Time
}

// New returns a chain with only its genesis block. Blocks are signed by a proposer with a random identity.
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

// Next returns the height of the next block.
func (c *Chain) Next() uint64 { return uint64(len(c.Blocks)) }

// Time returns the time of the last block that has one.
func (c *Chain) Time() time.Time { return c.timestamp }

func (c *Chain) parent() ids.ID { return c.Blocks[len(c.Blocks)-1].ID }

// Standard appends a block with transactions, one second after the last block.
func (c *Chain) Standard(transactions ...*txs.Tx) Block {
	c.timestamp = c.timestamp.Add(time.Second)
	return c.add(must(block.NewBanffStandardBlock(c.timestamp, c.parent(), c.Next(), transactions)))
}

// Proposal appends a block that proposes a transaction, and the Commit or Abort that decides it.
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

// Transfer returns a plain transfer. Different seeds give different transactions. It has one input, two outputs and one
// signature.
func (c *Chain) Transfer(seed uint64) *txs.Tx {
	return sign(&txs.BaseTx{BaseTx: c.base(seed)}, 1)
}

// Reward returns the transaction that proposes to reward the staker of txID.
func (c *Chain) Reward(txID ids.ID) *txs.Tx { return sign(&txs.RewardValidatorTx{TxID: txID}, 0) }

// Convert returns a transaction that converts a subnet to an L1 with the given manager contract and number of
// validators.
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

// Registration returns the message with which a manager registers a validator.
func Registration(subnetID ids.ID, nodeID ids.NodeID, expiry uint64) *message.RegisterL1Validator {
	owner := message.PChainOwner{Threshold: 1, Addresses: []ids.ShortID{{3}}}
	return must(message.NewRegisterL1Validator(subnetID, nodeID, [48]byte{4}, expiry, owner, owner, 20))
}

// Register returns a transaction that carries a registration.
func (c *Chain) Register(m *message.RegisterL1Validator) *txs.Tx {
	return sign(&txs.RegisterL1ValidatorTx{BaseTx: txs.BaseTx{BaseTx: c.base(0)}, Balance: 7, Message: c.signed(m.Bytes())}, 1)
}

// SetWeight returns a transaction that changes a validator's weight.
func (c *Chain) SetWeight(validationID ids.ID, nonce, weight uint64) *txs.Tx {
	m := must(message.NewL1ValidatorWeight(validationID, nonce, weight))
	return sign(&txs.SetL1ValidatorWeightTx{BaseTx: txs.BaseTx{BaseTx: c.base(nonce)}, Message: c.signed(m.Bytes())}, 1)
}

// signed returns a Warp message with an addressed call from the manager.
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

// sign adds credentials with invalid signatures.
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
