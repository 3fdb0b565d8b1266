// Package evmchain simulates an EVM chain of Avalanche, the C-Chain or an L1: blocks,
// receipts and call traces of all kinds of transactions, and the balances, tokens and
// contracts at each block. A Node serves it as an avalanchego node does. It is for tests,
// demonstrations and benchmarks of readers of EVM chains, with up to millions of
// transactions.
//
// No code runs: the generator draws what each transaction does, and calls, logs and
// balances follow from that. These are consistent as on a real chain: signatures, hashes,
// addresses of contracts, parent hashes, roots of transactions and receipts, blooms and gas.
// Only gas burns value. A node would reject three things: state roots are random, the code of
// contracts means nothing, and gas costs are approximate.
package evmchain

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/holiman/uint256"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/libevm/common"
	"github.com/ava-labs/libevm/crypto"

	"quorate/internal/chain/evm"
)

// Options of a Generator; the zero value is a small C-Chain.
type Options struct {
	// Seed determines all random choices: equal options generate equal bytes.
	Seed uint64
	// ChainID is that of transactions (EIP-155); 0 means 43112, the local network's.
	ChainID uint64
	// NetworkID and BlockchainID are those of Warp messages; 0 means 54321 and a random ID.
	NetworkID    uint32
	BlockchainID ids.ID
	// L1 gives headers the format of subnet-evm instead of coreth's.
	L1 bool
	// SAE gives the chain the blocks of a C-Chain since Helicon (ACP-194): a header has the
	// state root, the receipts root and the bloom of earlier blocks, which it settles, and
	// no block is empty. It cannot be combined with L1.
	SAE bool
	// Txs is the approximate number of transactions, which Span and Accounts refer to. A
	// Generator can generate more. Default 2,000.
	Txs int
	// TxsPerBlock is the mean number of transactions of a block; one block in 16 has none,
	// unless SAE is set. Default 12.
	TxsPerBlock int
	// Start is the time of the genesis; zero means the beginning of 2025.
	Start time.Time
	// Span is the time over which Txs are spread. If it is long enough, it has a pause of
	// some days in the middle. Default 45 days.
	Span time.Duration
	// Accounts is the number of accounts that send transactions and own assets. A few of
	// them send most, by Zipf's law. Default Txs/20, at least 64, at most 50,000.
	Accounts int
	// MetadataURL is the base of token URIs over HTTP; the default does not exist.
	MetadataURL string
	// Record keeps the Truth in memory, about 500 bytes a transaction.
	Record bool
}

func (o Options) withDefaults() Options {
	if o.ChainID == 0 {
		o.ChainID = 43112
	}
	if o.NetworkID == 0 {
		o.NetworkID = 54321
	}
	if o.BlockchainID == ids.Empty {
		o.BlockchainID = ids.ID(crypto.Keccak256Hash(packed(nil).number(o.Seed).number(o.ChainID)))
	}
	if o.Txs <= 0 {
		o.Txs = 2000
	}
	if o.TxsPerBlock <= 0 {
		o.TxsPerBlock = 12
	}
	if o.Start.IsZero() {
		o.Start = time.Date(2025, time.January, 1, 0, 0, 0, 0, time.UTC)
	}
	if o.Span <= 0 {
		o.Span = 45 * 24 * time.Hour
	}
	if o.Accounts <= 0 {
		o.Accounts = min(max(o.Txs/20, 64), 50_000)
	}
	if o.MetadataURL == "" {
		o.MetadataURL = "http://metadata.invalid"
	}
	return o
}

// Block is an accepted block, as the Ethereum API of a node returns it.
type Block struct {
	Number uint64
	Hash   common.Hash
	Time   time.Time
	// Text is the JSON result of eth_getBlockByNumber with whole transactions, Receipts that
	// of eth_getBlockReceipts, and Traces that of debug_traceBlockByNumber with callTracer.
	Text, Receipts, Traces []byte
	// Txs are the hashes of the transactions.
	Txs []common.Hash
	// Decoded is the block as a decoder must return it; nil without Options.Record.
	Decoded *evm.Block

	settled uint64 // number of the last settled block, with Options.SAE
}

// Generator generates a chain block by block. Only one goroutine may call Next; all other
// methods are safe for concurrent use. It holds each balance at each block in memory, about
// 250 bytes a transaction.
type Generator struct {
	o     Options
	rng   *rand.Rand
	zipf  *rand.Zipf
	truth *Truth

	mu sync.RWMutex // held for writing while Next changes what follows
	*state
	x execution

	// clock is the time in Unix milliseconds, end the one by which Txs are generated, gap the
	// mean time between two blocks.
	clock, end, gap float64
	paused          bool
	isPresent       bool
	txs             int
	parent          common.Hash
	number          uint64

	keys     uint256.Int // the first secret key; the others follow it
	people   []*account  // by rank; nil until first used
	treasury []*account  // with a balance in the genesis, and keys
	pool     [kinds][]*contract
	all      []*contract
	teleport *contract
	warp     *account
	foreign  []ids.ID // sources and destinations of messages

	contracts int
	messages  map[ids.ID]uint64 // Teleporter messages by source
	poor      bool              // no account could pay for a transaction
	out       rendering

	// With Options.SAE, the last settled block and the later ones.
	settled   results
	unsettled []results
}

// Treasuries is the number of accounts with a balance in the genesis.
const Treasuries = 16

// Treasury is the genesis balance of each of the Treasuries in wei: 100 million AVAX.
var Treasury = *new(uint256.Int).Mul(uint256.NewInt(100_000_000), uint256.NewInt(1e18))

// Teleporter is the address of the Teleporter contract, the same on all chains
// (ava-labs/icm-contracts).
var Teleporter = common.HexToAddress("0x253b2784c75e510dD0fF1da844684a1aC0aa5fcf")

// Warp is the address of the Warp precompile (avalanchego
// graft/coreth/precompile/contracts/warp).
var Warp = common.HexToAddress("0x0200000000000000000000000000000000000005")

// New returns a generator.
func New(o Options) (*Generator, error) {
	o = o.withDefaults()
	if o.Txs > 1<<28 || o.Accounts > 1<<22 {
		return nil, fmt.Errorf("a chain of %d transactions and %d accounts is too large", o.Txs, o.Accounts)
	}
	if o.SAE && o.L1 {
		return nil, errors.New("an L1 with SAE is not supported")
	}
	if o.TxsPerBlock > 2000 {
		return nil, fmt.Errorf("blocks of %d transactions are too large", o.TxsPerBlock)
	}
	g := &Generator{
		o:        o,
		rng:      rand.New(rand.NewPCG(o.Seed, 0x65766d^o.ChainID<<24)),
		state:    newState(o.Record),
		clock:    float64(o.Start.UnixMilli()),
		messages: make(map[ids.ID]uint64),
	}
	g.x.state = g.state
	g.end = g.clock + float64(o.Span.Milliseconds())
	g.zipf = rand.NewZipf(g.rng, 1.1, 8, uint64(o.Accounts-1))
	g.people = make([]*account, o.Accounts)
	g.keys = g.wide()
	g.keys.Rsh(&g.keys, 1) // so that all keys are below the order of the curve
	if o.Record {
		g.truth = &Truth{g: g}
	}
	for range 3 {
		g.foreign = append(g.foreign, ids.ID(g.hash()))
	}
	g.begin()
	return g, nil
}

// begin creates the accounts and contracts of the genesis.
func (g *Generator) begin() {
	for i := range Treasuries {
		a := g.keyed(len(g.people) + i)
		g.set(&a.balance, &Treasury)
		g.treasury = append(g.treasury, a)
	}
	g.warp = g.account(Warp)
	g.teleport = g.newContract(messenger)
	g.place(g.teleport, Teleporter)
	// A token that no transaction created.
	wrapped := g.newContract(erc20)
	wrapped.name, wrapped.symbol, wrapped.decimals, wrapped.odd = "Wrapped AVAX", "WAVAX", 18, 0
	g.place(wrapped, common.HexToAddress("0xB31f66AA3C1e785363F0875A1B74E27b85FD66c7"))
	supply := new(uint256.Int).Mul(uint256.NewInt(1_000_000), uint256.NewInt(1e18))
	g.set(g.holding(wrapped, &g.supply, new(uint256.Int)), supply)
	g.set(g.holding(wrapped, g.treasury[0], new(uint256.Int)), supply)
	g.pool[erc20] = append(g.pool[erc20], wrapped)
	g.all = append(g.all, wrapped)
	g.hold(wrapped, g.treasury[0], new(uint256.Int))
	g.journal = g.journal[:0]
}

// place puts a contract at an address in the genesis.
func (g *Generator) place(c *contract, at common.Address) {
	c.at = g.account(at)
	c.at.code, c.at.nonce = c, 1
}

// keyed returns the account of the i-th secret key.
func (g *Generator) keyed(i int) *account {
	secret := new(uint256.Int).AddUint64(&g.keys, uint64(i))
	b := secret.Bytes32()
	key, err := crypto.ToECDSA(b[:])
	if err != nil {
		panic(fmt.Sprintf("evmchain: secret key %d: %v", i, err)) // a mistake in this package
	}
	a := g.account(crypto.PubkeyToAddress(key.PublicKey))
	a.key = new(uint256.Int).MulMod(secret, &generatorX, &curveOrder)
	return a
}

// ChainID returns the chain ID of transactions (EIP-155).
func (g *Generator) ChainID() uint64 { return g.o.ChainID }

// BlockchainID returns the ID of the blockchain.
func (g *Generator) BlockchainID() ids.ID { return g.o.BlockchainID }

// SAE returns whether blocks are those since Helicon; see Options.
func (g *Generator) SAE() bool { return g.o.SAE }

// Txs returns the number of generated transactions.
func (g *Generator) Txs() int {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return g.txs
}

// Truth returns the truth about all generated blocks; nil without Options.Record.
func (g *Generator) Truth() *Truth { return g.truth }

// errPoor reports that the chain is so long that the genesis balances are spent.
var errPoor = errors.New("no account can pay for a transaction")

// errFull reports that the chain has the greatest number of blocks.
var errFull = errors.New("the chain has the greatest number of blocks")

// Next generates the next block, first the genesis.
func (g *Generator) Next() (*Block, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.number == math.MaxUint32 {
		return nil, errFull
	}
	g.block = uint32(g.number)
	b := g.out.begin(g)
	if g.number > 0 {
		g.pass()
		for range g.batch() {
			if err := g.transaction(); err != nil {
				return nil, fmt.Errorf("generating block %d: %w", g.number, err)
			}
			if g.poor {
				return nil, fmt.Errorf("generating block %d: %w", g.number, errPoor)
			}
		}
	}
	g.out.end(g, b)
	g.txs += len(b.Txs)
	g.parent = b.Hash
	g.number++
	return b, nil
}

// pause is the length of the pause in the middle of a long Span.
const pause = 60 * time.Hour

// pass advances the clock before a block, so that Txs take Span.
func (g *Generator) pass() {
	left := g.o.Txs - g.txs
	if g.isPresent || left <= 0 {
		g.clock += max(g.rng.ExpFloat64()*g.gap, 1)
		return
	}
	if !g.paused && 2*left < g.o.Txs {
		g.paused = true
		if g.o.Span > 10*pause {
			g.clock += float64(pause.Milliseconds())
		}
	}
	g.gap = float64(g.o.TxsPerBlock) * (g.end - g.clock) / float64(left+g.o.TxsPerBlock)
	g.clock = min(g.clock+max(g.rng.ExpFloat64()*g.gap, 1), max(g.end, g.clock+1))
}

// present sets the clock: all further blocks have the present time.
func (g *Generator) present(now time.Time) {
	g.isPresent, g.clock, g.gap = true, max(g.clock, float64(now.UnixMilli())), 0
}

// batch draws the number of transactions of a block.
func (g *Generator) batch() int {
	if !g.o.SAE && g.chance(1./16) {
		return 0
	}
	return g.between(1, 2*g.o.TxsPerBlock)
}

func (g *Generator) chance(p float64) bool { return g.rng.Float64() < p }

// between draws a number from lo to hi, inclusive.
func (g *Generator) between(lo, hi int) int { return lo + g.rng.IntN(hi-lo+1) }

func (g *Generator) wide() uint256.Int {
	return uint256.Int{g.rng.Uint64(), g.rng.Uint64(), g.rng.Uint64(), g.rng.Uint64()}
}

func (g *Generator) hash() common.Hash {
	n := g.wide()
	return n.Bytes32()
}

func (g *Generator) bytes(n int) []byte {
	b := make([]byte, 0, n+32)
	for len(b) < n {
		h := g.hash()
		b = append(b, h[:]...)
	}
	return b[:n]
}

// ether draws an amount of lo to hi AVAX, in wei.
func (g *Generator) ether(lo, hi float64) uint256.Int {
	amount := lo + (hi-lo)*g.rng.Float64()*g.rng.Float64()
	n := uint256.NewInt(uint64(amount * 1e9))
	n.Mul(n, uint256.NewInt(1e9))
	return *n.AddUint64(n, g.rng.Uint64N(1e9))
}
