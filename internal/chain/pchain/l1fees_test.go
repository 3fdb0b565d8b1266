package pchain_test

import (
	"errors"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/vms/components/gas"
	"github.com/ava-labs/avalanchego/vms/platformvm/validators/fee"

	"quorate/internal/chain/pchain"
)

// purse is an L1 validator as ACP-77 describes it, without an accumulated fee.
type purse struct {
	active  bool
	balance *big.Int
}

// plainFees implements ACP-77 second by second and validator by validator.
type plainFees struct {
	config fee.Config
	excess uint64
	purses map[ids.ID]*purse
}

func (f *plainFees) active() (n uint64) {
	for _, p := range f.purses {
		if p.active {
			n++
		}
	}
	return n
}

// price returns the price of the next second and the excess after it.
func (f *plainFees) price(active, excess uint64) (price, next uint64) {
	if target := uint64(f.config.Target); active < target {
		excess -= min(excess, target-active)
	} else {
		excess += active - target
	}
	return uint64(gas.CalculatePrice(f.config.MinPrice, gas.Gas(excess), f.config.ExcessConversionConstant)), excess
}

// advance charges all active validators for a number of seconds. As on the chain, a validator whose balance ends counts
// until the end of the block.
func (f *plainFees) advance(seconds int) {
	active := f.active()
	for range seconds {
		price, excess := f.price(active, f.excess)
		f.excess = excess
		for _, p := range f.purses {
			if p.active {
				p.balance.Sub(p.balance, new(big.Int).SetUint64(price))
			}
		}
	}
	for _, p := range f.purses {
		if p.active && p.balance.Sign() <= 0 {
			p.active = false
		}
	}
}

func (f *plainFees) closeBlock() {
	price, _ := f.price(f.active(), f.excess)
	for _, p := range f.purses {
		if p.active && p.balance.Cmp(new(big.Int).SetUint64(price)) < 0 {
			p.active = false
		}
	}
}

func (f *plainFees) stop(id ids.ID) *big.Int {
	p := f.purses[id]
	back := new(big.Int)
	if p.active {
		back.Set(p.balance)
	}
	p.active = false
	return back
}

// TestL1FeesAgainstPlainAccount adds, pays, exhausts and removes validators at random while prices rise and fall, and
// compares every returned balance.
func TestL1FeesAgainstPlainAccount(t *testing.T) {
	refunds := 0
	for seed := range uint64(60) {
		random := rand.New(rand.NewPCG(seed, 1))
		config := fee.Config{
			Capacity: 20, Target: gas.Gas(1 + random.IntN(6)), MinPrice: gas.Price(1 + random.IntN(600)),
			ExcessConversionConstant: gas.Gas(5 + random.IntN(200)),
		}
		fees := pchain.NewL1Fees()
		plain := &plainFees{config: config, purses: make(map[ids.ID]*purse)}
		var known []ids.ID
		for block := range 400 {
			seconds := random.IntN(4)
			require.NoError(t, fees.Advance(config, uint64(seconds)))
			plain.advance(seconds)
			for range random.IntN(3) {
				amount := uint64(random.IntN(1 << (4 + random.IntN(16))))
				switch action := random.IntN(4); {
				case action == 0 || len(known) == 0:
					id := ids.ID{byte(block), byte(block >> 8), byte(len(known))}
					known = append(known, id)
					require.NoError(t, fees.Open(id, amount))
					plain.purses[id] = &purse{active: amount > 0, balance: new(big.Int).SetUint64(amount)}
				case action == 1:
					id := known[random.IntN(len(known))]
					require.NoError(t, fees.Increase(id, amount))
					p := plain.purses[id]
					if !p.active {
						p.balance.SetUint64(0)
						p.active = amount > 0
					}
					p.balance.Add(p.balance, new(big.Int).SetUint64(amount))
				default:
					i := random.IntN(len(known))
					id, remove := known[i], action == 2
					got, err := fees.Stop(id, remove)
					require.NoError(t, err)
					want := plain.stop(id)
					require.Equal(t, want.Uint64(), got, "seed %d, block %d: balance of %s", seed, block, id)
					if got > 0 {
						refunds++
					}
					if remove {
						delete(plain.purses, id)
						known = append(known[:i], known[i+1:]...)
						_, err := fees.Stop(id, true)
						require.Error(t, err, "a validator is removed twice")
					}
				}
			}
			require.NoError(t, fees.CloseBlock(config))
			plain.closeBlock()
			require.Equal(t, plain.active(), fees.Active(), "seed %d, block %d: active validators", seed, block)
		}
	}
	require.Greater(t, refunds, 1000, "too few balances were compared")
	t.Logf("%d balances given back", refunds)
}

func TestL1FeesOfUnknownValidators(t *testing.T) {
	fees := pchain.NewL1Fees()
	_, err := fees.Stop(ids.ID{1}, true)
	require.Error(t, err)
	require.Error(t, errors.Join(fees.Increase(ids.ID{1}, 1)))
	require.NoError(t, fees.Open(ids.ID{1}, 5))
	require.Error(t, fees.Increase(ids.ID{1}, ^uint64(0)), "a balance beyond 64 bits")
}
