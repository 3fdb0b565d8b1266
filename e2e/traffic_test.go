package e2e

import (
	"context"
	"crypto/ecdsa"
	"math/big"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/ava-labs/avalanchego/genesis"
	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/units"
	"github.com/ava-labs/avalanchego/vms/components/avax"
	"github.com/ava-labs/avalanchego/vms/platformvm/txs"
	"github.com/ava-labs/avalanchego/vms/secp256k1fx"
	"github.com/ava-labs/avalanchego/wallet/subnet/primary"
	walletcommon "github.com/ava-labs/avalanchego/wallet/subnet/primary/common"
	"github.com/ava-labs/libevm/common"
	"github.com/ava-labs/libevm/core/types"
	"github.com/ava-labs/libevm/crypto"

	"quorate/e2e/localnet"
)

const (
	// senders is the number of accounts that send C-Chain transactions at the same time.
	senders = 120
	// sentAtOnce is how many of them an account sends before it waits. The pool of a node holds 16 of one account for sure.
	sentAtOnce = 16
)

// traffic is a network whose chains have transactions of many kinds.
type traffic struct {
	*evmWorld
	network  *localnet.Network
	accounts []*sender
}

// sender is an account of the C-Chain. One goroutine uses it.
type sender struct {
	key     *ecdsa.PrivateKey
	address common.Address
	nonce   uint64
	random  *rand.Rand
	coins   int64
}

// newTraffic starts a network and makes about as many transactions on its C-Chain, and on its P- and X-Chain each.
func newTraffic(b *testing.B, ctx context.Context, evm, primary int) *traffic {
	b.Helper()
	x := &traffic{network: localnet.Start(b)}
	node := x.network.Node(0).URL
	x.evmWorld = newEVMWorld(b, ctx, node)
	x.tillAt, x.coinAt, x.itemsAt, x.cardsAt = x.deploy(ctx, x.till), x.deploy(ctx, x.coin), x.deploy(ctx, x.items), x.deploy(ctx, x.cards)
	var last common.Hash
	for i := range senders {
		random := rand.New(rand.NewPCG(1, uint64(i)))
		key, err := ecdsa.GenerateKey(crypto.S256(), chachaOf(i))
		require.NoError(b, err)
		s := &sender{key: key, address: crypto.PubkeyToAddress(key.PublicKey), random: random}
		x.accounts = append(x.accounts, s)
		last = x.issue(ctx, &types.DynamicFeeTx{
			ChainID: x.chainID, Nonce: x.nonce, GasTipCap: big.NewInt(1), GasFeeCap: x.price(ctx), Gas: 21_000, To: &s.address, Value: nAVAX(10_000),
		})
	}
	x.await(ctx, last)

	began := time.Now()
	var done atomic.Int64
	work, ctx := errgroup.WithContext(ctx)
	for _, s := range x.accounts {
		work.Go(func() error { return x.send(ctx, s, (evm+senders-1)/senders, &done) })
	}
	work.Go(func() error { return growP(ctx, node, primary) })
	work.Go(func() error { return growX(ctx, node, primary) })
	ended := make(chan struct{})
	go func() {
		for {
			select {
			case <-ended:
				return
			case <-time.After(time.Minute):
				b.Logf("%d C-Chain transactions after %s", done.Load(), time.Since(began).Round(time.Second))
			}
		}
	}()
	err := work.Wait()
	close(ended)
	require.NoError(b, err)
	b.Logf("the chains have grown in %s", time.Since(began).Round(time.Second))
	return x
}

// chachaOf returns the random bytes of an account's key.
func chachaOf(i int) *rand.ChaCha8 { return rand.NewChaCha8([32]byte{byte(i), 1}) }

// nAVAX returns an amount of AVAX in wei.
func nAVAX(n int64) *big.Int { return new(big.Int).Mul(big.NewInt(n), big.NewInt(1e18)) }

// send sends an account's transactions, a few at a time.
func (x *traffic) send(ctx context.Context, s *sender, transactions int, done *atomic.Int64) error {
	signer := types.LatestSignerForChainID(x.chainID)
	for transactions > 0 {
		price, err := x.client.SuggestGasPrice(ctx)
		if err != nil {
			return err
		}
		price.Add(price.Mul(price, big.NewInt(8)), big.NewInt(10))
		n := min(sentAtOnce, transactions)
		sent := make([]*types.Transaction, n)
		for i := range sent {
			content, err := x.draw(s, price)
			if err != nil {
				return err
			}
			if sent[i], err = types.SignNewTx(s.key, signer, content); err != nil {
				return err
			}
			s.nonce++
		}
		if err := x.issueAll(ctx, s, sent); err != nil {
			return err
		}
		transactions -= n
		done.Add(int64(n))
	}
	return nil
}

// issueAll sends transactions, again if a node has dropped them, until the chain has them all.
func (x *traffic) issueAll(ctx context.Context, s *sender, all []*types.Transaction) error {
	for {
		for _, tx := range all {
			_ = x.client.SendTransaction(ctx, tx) // it may be known, or the pool may be full
		}
		for end := time.Now().Add(20 * time.Second); time.Now().Before(end); {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(500 * time.Millisecond):
			}
			nonce, err := x.client.NonceAt(ctx, s.address, nil)
			if err != nil {
				return err
			}
			if nonce >= s.nonce {
				return nil
			}
		}
	}
}

// draw returns a random transaction: half of them pay, the others call contracts.
func (x *traffic) draw(s *sender, price *big.Int) (types.TxData, error) {
	other := x.accounts[s.random.IntN(len(x.accounts))].address
	call := func(gas uint64, at common.Address, a artefact, value int64, method string, arguments ...any) (types.TxData, error) {
		data, err := a.abi.Pack(method, arguments...)
		return &types.DynamicFeeTx{ChainID: x.chainID, Nonce: s.nonce, GasTipCap: big.NewInt(1), GasFeeCap: price, Gas: gas, To: &at, Value: big.NewInt(value), Data: data}, err
	}
	number := func(n int64) *big.Int { return big.NewInt(s.random.Int64N(n)) }
	zeroAddress := common.Address{}
	switch kind := s.random.IntN(100); {
	case kind < 25:
		return &types.DynamicFeeTx{ChainID: x.chainID, Nonce: s.nonce, GasTipCap: big.NewInt(1), GasFeeCap: price, Gas: 21_000, To: &other, Value: number(1e15)}, nil
	case kind < 45:
		return &types.LegacyTx{Nonce: s.nonce, GasPrice: price, Gas: 21_000, To: &other, Value: number(1e15)}, nil
	case kind < 50:
		fresh := common.BigToAddress(number(1 << 60))
		return &types.AccessListTx{ChainID: x.chainID, Nonce: s.nonce, GasPrice: price, Gas: 21_000, To: &fresh, Value: number(1e15)}, nil
	case kind < 70 && s.coins == 0:
		s.coins = 1_000_000
		return call(120_000, x.coinAt, x.coin, 0, "mint", s.address, big.NewInt(s.coins))
	case kind < 70:
		amount := 1 + s.random.Int64N(10)
		s.coins -= amount
		return call(100_000, x.coinAt, x.coin, 0, "transfer", other, big.NewInt(amount))
	case kind < 78:
		return call(100_000, x.tillAt, x.till, 100, "pay", other)
	case kind < 83:
		return call(250_000, x.tillAt, x.till, 1_000, "nest", big.NewInt(3), other)
	case kind < 89:
		return call(120_000, x.itemsAt, x.items, 0, "move", zeroAddress, other, number(50), big.NewInt(100))
	case kind < 92:
		return call(250_000, x.itemsAt, x.items, 0, "moveBatch", zeroAddress, other, bigs(1, 2, 300), bigs(10, 20, 30))
	case kind < 96:
		return call(120_000, x.cardsAt, x.cards, 0, "move", other, number(1<<40))
	case kind < 97:
		var salt [32]byte
		number(1 << 62).FillBytes(salt[:])
		return call(500_000, x.tillAt, x.till, 100, "make", salt)
	case kind < 98:
		return call(200_000, x.tillAt, x.till, 50, "attempt", other)
	case kind < 99:
		return call(200_000, x.tillAt, x.till, 9, "payAndFail", other) // it fails
	default:
		return &types.DynamicFeeTx{ChainID: x.chainID, Nonce: s.nonce, GasTipCap: big.NewInt(1), GasFeeCap: price, Gas: 800_000, Data: x.cards.code}, nil
	}
}

// fast makes a wallet wait for its transactions no longer than they take.
func fast(ctx context.Context) []walletcommon.Option {
	return []walletcommon.Option{walletcommon.WithContext(ctx), walletcommon.WithPollFrequency(5 * time.Millisecond)}
}

// pays returns an output for an address.
func pays(asset ids.ID, amount uint64, to ids.ShortID) []*avax.TransferableOutput {
	return []*avax.TransferableOutput{{Asset: avax.Asset{ID: asset}, Out: &secp256k1fx.TransferOutput{Amt: amount, OutputOwners: *ownedBy(to)}}}
}

// growP issues transactions on the P-Chain: of ten, eight pay, one delegates and one creates a subnet.
func growP(ctx context.Context, node string, transactions int) error {
	keychain := secp256k1fx.NewKeychain(genesis.EWOQKey)
	w, err := primary.MakePWallet(ctx, node, keychain, primary.WalletConfig{})
	if err != nil {
		return err
	}
	own := ownedBy(genesis.EWOQKey.Address())
	asset := w.Builder().Context().AVAXAssetID
	validators := genesis.LocalConfig.InitialStakers
	for i := range transactions {
		switch {
		case i%10 == 4:
			to := validators[i%len(validators)].NodeID
			_, err = w.IssueAddPermissionlessDelegatorTx(&txs.SubnetValidator{Validator: txs.Validator{
				NodeID: to, End: uint64(time.Now().Add(30 * time.Second).Unix()), Wght: 25 * units.Avax,
			}}, asset, own, fast(ctx)...)
		case i%10 == 9:
			_, err = w.IssueCreateSubnetTx(own, fast(ctx)...)
		default:
			_, err = w.IssueBaseTx(pays(asset, units.MilliAvax, ids.ShortID{byte(i), byte(i >> 8)}), fast(ctx)...)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// growX issues payments on the X-Chain.
func growX(ctx context.Context, node string, transactions int) error {
	keychain := secp256k1fx.NewKeychain(genesis.EWOQKey)
	w, err := primary.MakeWallet(ctx, node, keychain, keychain, primary.WalletConfig{})
	if err != nil {
		return err
	}
	asset := w.P().Builder().Context().AVAXAssetID
	for i := range transactions {
		if _, err := w.X().IssueBaseTx(pays(asset, units.MilliAvax, ids.ShortID{byte(i), byte(i >> 8)}), fast(ctx)...); err != nil {
			return err
		}
	}
	return nil
}
