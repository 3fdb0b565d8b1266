package e2e

import (
	"bytes"
	"context"
	"encoding/hex"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/genesis"
	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/upgrade"
	"github.com/ava-labs/avalanchego/utils/constants"
	"github.com/ava-labs/avalanchego/utils/crypto/bls"
	"github.com/ava-labs/avalanchego/utils/crypto/bls/signer/localsigner"
	"github.com/ava-labs/avalanchego/utils/crypto/secp256k1"
	"github.com/ava-labs/avalanchego/utils/units"
	"github.com/ava-labs/avalanchego/vms/components/avax"
	"github.com/ava-labs/avalanchego/vms/platformvm"
	platformapi "github.com/ava-labs/avalanchego/vms/platformvm/api"
	"github.com/ava-labs/avalanchego/vms/platformvm/reward"
	"github.com/ava-labs/avalanchego/vms/platformvm/signer"
	"github.com/ava-labs/avalanchego/vms/platformvm/txs"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp/message"
	"github.com/ava-labs/avalanchego/vms/proposervm"
	"github.com/ava-labs/avalanchego/vms/secp256k1fx"
	walletsigner "github.com/ava-labs/avalanchego/wallet/chain/p/signer"
	"github.com/ava-labs/avalanchego/wallet/chain/p/wallet"
	"github.com/ava-labs/avalanchego/wallet/subnet/primary"
	"github.com/ava-labs/avalanchego/wallet/subnet/primary/common"

	"quorate/e2e/localnet"
)

// pChain issues transactions on the P-Chain with avalanchego's wallet.
type pChain struct {
	t      testing.TB
	node   string
	client *platformvm.Client
	wallet wallet.Wallet
	owner  *secp256k1fx.OutputOwners
}

// newPChain has the funded key, and whatever other keys are given.
func newPChain(t testing.TB, ctx context.Context, node string, keys ...*secp256k1.PrivateKey) *pChain {
	t.Helper()
	return newPChainWith(t, ctx, node, primary.WalletConfig{}, keys...)
}

// newPChainWith knows the owners that config names, too.
func newPChainWith(t testing.TB, ctx context.Context, node string, config primary.WalletConfig, keys ...*secp256k1.PrivateKey) *pChain {
	t.Helper()
	p := &pChain{t: t, node: node, client: platformvm.NewClient(node)}
	p.owner = &secp256k1fx.OutputOwners{Threshold: 1, Addrs: []ids.ShortID{genesis.EWOQKey.Address()}}
	w, err := primary.MakePWallet(ctx, node, secp256k1fx.NewKeychain(append(keys, genesis.EWOQKey)...), config)
	require.NoError(t, err)
	p.wallet = wallet.WithOptions(w, common.WithContext(ctx), common.WithPollFrequency(20*time.Millisecond), common.WithChangeOwner(p.owner))
	return p
}

// accepted is the ID of a transaction that the P-Chain has accepted.
func (p *pChain) accepted(tx *txs.Tx, err error) ids.ID {
	p.t.Helper()
	require.NoError(p.t, err)
	return tx.ID()
}

// registration makes a RegisterL1ValidatorTx and its ID without issuing it.
func (p *pChain) registration(ctx context.Context, proof [bls.SignatureLen]byte, signed []byte) *txs.Tx {
	p.t.Helper()
	unsigned, err := p.wallet.Builder().NewRegisterL1ValidatorTx(units.Avax, proof, signed)
	require.NoError(p.t, err)
	tx, err := walletsigner.SignUnsigned(ctx, p.wallet.Signer(), unsigned)
	require.NoError(p.t, err)
	return tx
}

// nudge has the P-Chain make a block.
func (p *pChain) nudge(options ...common.Option) {
	p.t.Helper()
	p.accepted(p.wallet.IssueBaseTx([]*avax.TransferableOutput{{
		Asset: avax.Asset{ID: p.wallet.Builder().Context().AVAXAssetID},
		Out:   &secp256k1fx.TransferOutput{Amt: units.MilliAvax, OutputOwners: *p.owner},
	}}, options...))
}

// epochHeight is the P-Chain height that a chain verifies Warp messages against.
func epochHeight(t testing.TB, ctx context.Context, node, chain string) uint64 {
	t.Helper()
	height, _ := epochOf(t, ctx, node, chain)
	return height
}

// epochOf returns the P-Chain height that the next block of a chain of network 12345 verifies Warp messages against, and
// the time from which a block ends that epoch.
func epochOf(t testing.TB, ctx context.Context, node, chain string) (height uint64, end time.Time) {
	t.Helper()
	epoch, err := proposervm.NewJSONRPCClient(node, chain).GetCurrentEpoch(ctx)
	require.NoError(t, err)
	return epoch.PChainHeight, time.Unix(epoch.StartTime, 0).Add(upgrade.GetConfig(localnet.NetworkID).GraniteEpochDuration)
}

// awaitEpochAfter makes blocks until a chain is in a later epoch than that which a block ends from a time on.
func awaitEpochAfter(t testing.TB, ctx context.Context, c *cChain, node, chain string, end time.Time) {
	t.Helper()
	for {
		c.await(ctx, c.send(ctx, &c.account, nil, nil))
		if _, later := epochOf(t, ctx, node, chain); later.After(end) {
			return
		}
		await(t, ctx, time.Now().Add(time.Second))
	}
}

// awaitEpoch makes blocks until the P-Chain's epoch has reached a height.
func (p *pChain) awaitEpoch(ctx context.Context, height uint64) {
	p.t.Helper()
	for epochHeight(p.t, ctx, p.node, "P") < height {
		p.nudge()
		select {
		case <-ctx.Done():
			p.t.Fatalf("the P-Chain's epoch does not reach height %d", height)
		case <-time.After(time.Second):
		}
	}
}

func (p *pChain) height(ctx context.Context) uint64 {
	p.t.Helper()
	return pHeight(p.t, ctx, p.client)
}

// pHeight is the height of a P-Chain.
func pHeight(t testing.TB, ctx context.Context, client *platformvm.Client) uint64 {
	t.Helper()
	height, err := client.GetHeight(ctx)
	require.NoError(t, err)
	return height
}

// addPrimaryValidator makes a validator of the primary network whose key comes
// before all others in the canonical order, so that signatures which were made
// for the set without it do not verify against the set with it, nor the reverse.
// No node runs it.
func (p *pChain) addPrimaryValidator(ctx context.Context) {
	p.t.Helper()
	outputs, err := p.client.GetValidatorsAt(ctx, constants.PrimaryNetworkID, platformapi.Height(p.height(ctx)))
	require.NoError(p.t, err)
	var first []byte
	for _, v := range outputs {
		if key := bls.PublicKeyToUncompressedBytes(v.PublicKey); first == nil || bytes.Compare(key, first) < 0 {
			first = key
		}
	}
	identity := newIdentity(p.t)
	for bytes.Compare(bls.PublicKeyToUncompressedBytes(identity.key), first) > 0 {
		identity = newIdentity(p.t)
	}
	p.accepted(p.wallet.IssueAddPermissionlessValidatorTx(
		&txs.SubnetValidator{Validator: txs.Validator{
			NodeID: identity.nodeID,
			End:    uint64(time.Now().Add(time.Hour).Unix()),
			Wght:   2 * units.KiloAvax,
		}},
		identity.proof, p.wallet.Builder().Context().AVAXAssetID, p.owner, p.owner, reward.PercentDenominator/10))
}

// identity is what a validator is known by.
type identity struct {
	url    string // of the node; empty if there is none
	nodeID ids.NodeID
	key    *bls.PublicKey
	proof  *signer.ProofOfPossession
}

func newIdentity(t testing.TB) identity {
	t.Helper()
	secret, err := localsigner.New()
	require.NoError(t, err)
	proof, err := signer.NewProofOfPossession(secret)
	require.NoError(t, err)
	return identity{nodeID: ids.GenerateTestNodeID(), key: secret.PublicKey(), proof: proof}
}

// l1 is an L1 whose manager is an account on the C-Chain.
type l1 struct {
	id           ids.ID
	conversionTx ids.ID
	manager      ids.ID // the manager's blockchain
	address      []byte
	validators   []*txs.ConvertSubnetToL1Validator
	creationTx   ids.ID // of its blockchain
}

// convert creates an L1 whose validators have no nodes.
func (p *pChain) convert(validators int, manager ids.ID, address []byte) *l1 {
	p.t.Helper()
	l := &l1{manager: manager, address: address}
	l.id = p.accepted(p.wallet.IssueCreateSubnetTx(p.owner))
	l.creationTx = p.accepted(p.wallet.IssueCreateChainTx(l.id, []byte("{}"), constants.SubnetEVMID, nil, "no node runs it"))
	for range validators {
		v := newIdentity(p.t)
		l.validators = append(l.validators, &txs.ConvertSubnetToL1Validator{
			NodeID: v.nodeID.Bytes(), Weight: 100, Balance: units.Avax, Signer: *v.proof,
		})
	}
	// The wallet sorts the validators in place.
	l.conversionTx = p.accepted(p.wallet.IssueConvertSubnetToL1Tx(l.id, manager, address, l.validators))
	return l
}

// conversionID is what the P-Chain vouches for.
func (l *l1) conversionID(t testing.TB) ids.ID {
	t.Helper()
	data := message.SubnetToL1ConversionData{SubnetID: l.id, ManagerChainID: l.manager, ManagerAddress: l.address}
	for _, v := range l.validators {
		data.Validators = append(data.Validators, message.SubnetToL1ConversionValidatorData{NodeID: v.NodeID, BLSPublicKey: v.Signer.PublicKey, Weight: v.Weight})
	}
	id, err := message.SubnetToL1ConversionID(data)
	require.NoError(t, err)
	return id
}

func hexOf(b []byte) string { return hex.EncodeToString(b) }
