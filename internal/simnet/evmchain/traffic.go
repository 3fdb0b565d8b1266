package evmchain

import (
	"fmt"
	"slices"

	"github.com/holiman/uint256"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp/payload"
	"github.com/ava-labs/libevm/common"

	"quorate/internal/chain/evm"
)

// anyAccount draws an account with a key, busy ones more often.
func (g *Generator) anyAccount() *account {
	i := int(g.zipf.Uint64())
	if g.people[i] == nil {
		g.people[i] = g.keyed(i)
	}
	return g.people[i]
}

func (g *Generator) treasurer() *account { return g.treasury[g.rng.IntN(len(g.treasury))] }

// sender draws an account that can pay for a transaction with a value.
func (g *Generator) sender(value *uint256.Int) *account {
	need := new(uint256.Int).Add(value, uint256.NewInt(2e17))
	for range 3 {
		a := g.anyAccount()
		if has := g.now(&a.balance); !has.Lt(need) {
			return a
		}
	}
	return g.treasurer()
}

// one draws a contract of a kind, or returns nil if there is none yet.
func (g *Generator) one(k kind) *contract {
	if len(g.pool[k]) == 0 {
		return nil
	}
	// Early ones are busier.
	u := g.rng.Float64()
	return g.pool[k][int(u*u*float64(len(g.pool[k])))]
}

// traffic is the kinds of transactions with their shares.
var traffic = []struct {
	share float64
	needs kind
	do    func(*Generator, *contract) error
}{
	{30, kinds, (*Generator).pay},
	{16, erc20, (*Generator).moveFungible},
	{4, proxied, (*Generator).moveFungible},
	{2, erc20, (*Generator).approve},
	{11, erc721, (*Generator).moveUnique},
	{15, erc1155, (*Generator).moveMulti},
	{6, wallet, (*Generator).forward},
	{3, kinds, (*Generator).deploy},
	{1, kinds, (*Generator).deployInVain},
	{2.5, factory, (*Generator).produce},
	{4, kinds, (*Generator).revert},
	{2, lookalike, (*Generator).pretend},
	{1.5, kinds, (*Generator).sendWarp},
	{2, kinds, (*Generator).teleportOut},
	{1.5, kinds, (*Generator).teleportIn},
	{0.5, mortal, (*Generator).die},
}

// transaction generates a transaction.
func (g *Generator) transaction() error {
	total := 0.
	for i := range traffic {
		total += traffic[i].share
	}
	n := g.rng.Float64() * total
	for i := range traffic {
		t := &traffic[i]
		if n -= t.share; n >= 0 && i < len(traffic)-1 {
			continue
		}
		var c *contract
		if t.needs != kinds {
			if c = g.one(t.needs); c == nil {
				return g.deployOf(t.needs, nil)
			}
		}
		return t.do(g, c)
	}
	return nil
}

// plan is a transaction before its execution.
type plan struct {
	from  *account
	to    *account // nil: creates c
	c     *contract
	value uint256.Int
	input []byte
	// limit is the gas limit; 0 means more than enough.
	limit uint64
	// do executes the first frame and ends it; nil means that nothing happens in it.
	do func(x *execution)
}

// send executes a transaction and adds it to the block.
func (g *Generator) send(p plan) {
	x := &g.x
	x.reset()
	t := g.out.transaction(g, &p)
	price := t.price
	nonce := p.from.nonce
	// Set the greatest possible fee aside, so that the execution cannot spend it.
	aside := new(uint256.Int).Mul(&price, uint256.NewInt(maxGas))
	if has := g.now(&p.from.balance); has.Lt(new(uint256.Int).Add(&p.value, aside)) {
		g.poor = true
		return
	}
	g.sub(&p.from.balance, aside)
	x.journal = x.journal[:0]
	if p.to == nil {
		if x.create(p.from, p.c, &p.value, nil) {
			x.burn(gasTransaction + gasDataByte*uint64(len(p.c.initCode()))*3/4)
			p.do(x)
		}
		p.input = p.c.initCode()
	} else if x.enter(evm.FrameCall, p.from, p.to, &p.value, p.input) {
		x.burn(gasTransaction + gasDataByte*uint64(len(p.input))*3/4)
		if p.do == nil {
			x.exit(nil)
		} else {
			p.do(x)
		}
	}
	p.from.nonce = nonce + 1
	if p.limit == 0 {
		p.limit = x.frames[0].used + x.frames[0].used/4 + 30_000 + uint64(g.rng.IntN(100_000))
		if x.frames[0].used == gasTransaction && p.do == nil && g.chance(0.8) {
			p.limit = gasTransaction
		}
	}
	if x.frames[0].failure == outOfGas || x.frames[0].failure == codeTooBig {
		x.frames[0].used = p.limit
	}
	x.settle(p.limit)
	fee := new(uint256.Int).Mul(&price, uint256.NewInt(x.frames[0].used))
	g.add(&p.from.balance, aside.Sub(aside, fee))
	t.finish(g, &p, nonce)
	x.journal = x.journal[:0]
}

// maxGas is more than any transaction uses.
const maxGas = 5_000_000

// pay transfers AVAX between accounts.
func (g *Generator) pay(*contract) error {
	value := g.ether(0, 3)
	from := g.sender(&value)
	if from.address == g.treasury[0].address || g.chance(0.1) {
		value = g.ether(5, 400)
		from = g.treasurer()
	}
	to := g.anyAccount()
	switch n := g.rng.Float64(); {
	case n < 0.03:
		to = g.account(common.Address(g.bytes(20))) // no key is known for it
	case n < 0.05:
		to = from
	case n < 0.06:
		value = uint256.Int{}
	case n < 0.10 && len(g.pool[wallet]) > 0:
		to = g.one(wallet).at
	case n < 0.11:
		g.send(plan{from: from, to: to, value: value, input: []byte("hello, reader")})
		return nil
	}
	g.send(plan{from: from, to: to, value: value})
	return nil
}

// The events of tokens.
var (
	transferTopic   = topic("Transfer(address,address,uint256)")
	approvalTopic   = topic("Approval(address,address,uint256)")
	singleTopic     = topic("TransferSingle(address,address,address,uint256,uint256)")
	batchTopic      = topic("TransferBatch(address,address,address,uint256[],uint256[])")
	uriTopic        = topic("URI(string,uint256)")
	sendWarpTopic   = topic("SendWarpMessage(address,bytes32,bytes)")
	sendTopic       = topic("SendCrossChainMessage(bytes32,bytes32," + teleporterMessage + ",(address,uint256))")
	receiveTopic    = topic("ReceiveCrossChainMessage(bytes32,bytes32,address,address," + teleporterMessage + ")")
	executedTopic   = topic("MessageExecuted(bytes32,bytes32)")
	ownershipTopic  = topic("OwnershipTransferred(address,address)")
	zeroAddress     common.Address
	zeroNumber      uint256.Int
	maxNumber       = *new(uint256.Int).SetAllOne()
	deadBeneficiary = common.HexToAddress("0x000000000000000000000000000000000000dEaD")
)

const teleporterMessage = "(uint256,address,bytes32,address,uint256,address[],(uint256,address)[],bytes)"

// hold notes a holder of a token.
func (g *Generator) hold(c *contract, holder *account, id *uint256.Int) {
	h := held{holder, *id}
	if len(c.held) < maxHeld {
		c.held = append(c.held, h)
		return
	}
	c.held[g.rng.IntN(maxHeld)] = h
}

// holder draws a holder with a balance of a token; false if it finds none.
func (g *Generator) holder(c *contract) (held, bool) {
	for range 4 {
		if len(c.held) == 0 {
			break
		}
		i := g.rng.IntN(len(c.held))
		h := c.held[i]
		has := g.now(g.holding(c, h.holder, &h.id))
		if c.kind == erc721 {
			owner := g.ownerAt(c, &h.id, g.block)
			has.Clear()
			if owner == h.holder {
				has.SetOne()
			}
		}
		if !has.IsZero() {
			return h, true
		}
		c.held[i] = c.held[len(c.held)-1]
		c.held = c.held[:len(c.held)-1]
	}
	return held{}, false
}

// transferFungible transfers ERC-20 tokens; a nil account mints or burns. It returns false if the
// balance is too low.
func (g *Generator) transferFungible(x *execution, c *contract, from, to *account, amount *uint256.Int) bool {
	if from != nil && !g.sub(g.holding(c, from, &zeroNumber), amount) ||
		from == nil && !g.add(g.holding(c, &g.supply, &zeroNumber), amount) {
		return false
	}
	if to != nil && !g.add(g.holding(c, to, &zeroNumber), amount) ||
		to == nil && !g.sub(g.holding(c, &g.supply, &zeroNumber), amount) {
		return false
	}
	x.burn(2 * gasStore)
	x.transferred(c, from, to, 0, &zeroNumber, amount)
	x.emit(c.at.address, packed(nil).uint(amount), transferTopic, addressTopic(addressOf(from)), addressTopic(addressOf(to)))
	if to != nil {
		g.hold(c, to, &zeroNumber)
	}
	return true
}

func addressOf(a *account) common.Address {
	if a == nil {
		return zeroAddress
	}
	return a.address
}

// part draws a part of an amount, sometimes all or nothing.
func (g *Generator) part(of uint256.Int) uint256.Int {
	switch n := g.rng.Float64(); {
	case n < 0.15:
		return of
	case n < 0.18:
		return uint256.Int{}
	}
	part := new(uint256.Int).Rsh(&of, uint(g.between(1, 12)))
	if part.IsZero() {
		return of
	}
	return *part
}

func (g *Generator) moveFungible(c *contract) error {
	h, ok := g.holder(c)
	from := g.sender(&zeroNumber)
	to := g.anyAccount()
	amount := g.part(g.now(g.holding(c, h.holder, &zeroNumber)))
	var input packed
	var mover *account
	switch {
	case !ok || g.chance(0.05):
		amount = g.ether(1, 1e6)
		input = calling("mint(address,uint256)").address(to.address).uint(&amount)
	case h.holder.key != nil && g.chance(0.8):
		from, mover = h.holder, h.holder
		if has := g.now(&from.balance); has.Lt(uint256.NewInt(2e17)) {
			g.refill(from) // instead of the transfer
			return nil
		}
		if g.chance(0.04) {
			to = nil
			input = calling("burn(uint256)").uint(&amount)
		} else {
			input = calling("transfer(address,uint256)").address(to.address).uint(&amount)
		}
	default:
		mover = h.holder
		input = calling("transferFrom(address,address,uint256)").address(mover.address).address(to.address).uint(&amount)
	}
	g.send(plan{from: from, to: c.at, input: input, do: func(x *execution) {
		if c.kind == proxied { // the code is in another contract
			x.enter(evm.FrameDelegateCall, c.at, g.library(c), &x.frames[0].value, input)
		}
		done := g.transferFungible(x, c, mover, to, &amount)
		for depth := len(x.open); depth > 0; depth-- {
			if !done {
				x.fail(reverted, reason("ERC20: transfer amount exceeds balance"))
				continue
			}
			x.exit(packed(nil).number(1))
		}
	}})
	return nil
}

// library returns the address with a proxy's code.
func (g *Generator) library(c *contract) *account {
	return g.account(common.Address(packed(nil).number(uint64(c.number) + 0xc0de)[12:]))
}

// refill sends AVAX to an account that cannot pay for transactions.
func (g *Generator) refill(a *account) {
	g.send(plan{from: g.treasurer(), to: a, value: g.ether(20, 300)})
}

func (g *Generator) approve(c *contract) error {
	from, spender := g.sender(&zeroNumber), g.anyAccount()
	g.send(plan{from: from, to: c.at, input: calling("approve(address,uint256)").address(spender.address).uint(&maxNumber), do: func(x *execution) {
		x.burn(gasStore)
		x.emit(c.at.address, packed(nil).uint(&maxNumber), approvalTopic, addressTopic(from.address), addressTopic(spender.address))
		x.exit(packed(nil).number(1))
	}})
	return nil
}

// transferUnique transfers an ERC-721 token; a nil account mints or burns.
func (g *Generator) transferUnique(x *execution, c *contract, from, to *account, id *uint256.Int) {
	one := uint256.NewInt(1)
	if from != nil {
		g.sub(g.holding(c, from, &zeroNumber), one)
	} else {
		g.add(g.holding(c, &g.supply, &zeroNumber), one)
	}
	if to != nil {
		g.add(g.holding(c, to, &zeroNumber), one)
		g.hold(c, to, id)
	} else {
		g.sub(g.holding(c, &g.supply, &zeroNumber), one)
	}
	g.setOwner(c, id, to)
	x.burn(3 * gasStore)
	x.transferred(c, from, to, 0, id, one)
	x.emit(c.at.address, nil, transferTopic, addressTopic(addressOf(from)), addressTopic(addressOf(to)), numberTopic(id))
}

// newToken returns an ID for an ERC-721 token to mint.
func (g *Generator) newToken(c *contract) uint256.Int {
	if c.odd == 7 { // IDs like hashes
		return g.wide()
	}
	c.next++
	return *uint256.NewInt(c.next - 1)
}

func (g *Generator) moveUnique(c *contract) error {
	h, ok := g.holder(c)
	from, to := g.sender(&zeroNumber), g.anyAccount()
	if !ok || g.chance(0.35) {
		n := 1
		if g.chance(0.1) {
			n = g.between(2, 6)
		}
		all := make([]uint256.Int, n)
		for i := range all {
			all[i] = g.newToken(c)
		}
		g.send(plan{from: from, to: c.at, input: calling("mint(address,uint256)").address(to.address).number(uint64(n)), do: func(x *execution) {
			for i := range all {
				g.transferUnique(x, c, nil, to, &all[i])
			}
			x.exit(nil)
		}})
		return nil
	}
	if g.chance(0.12) {
		g.send(plan{from: from, to: c.at, input: calling("burn(uint256)").uint(&h.id), do: func(x *execution) {
			g.transferUnique(x, c, h.holder, nil, &h.id)
			x.exit(nil)
		}})
		return nil
	}
	input := calling("safeTransferFrom(address,address,uint256)").address(h.holder.address).address(to.address).uint(&h.id)
	g.send(plan{from: from, to: c.at, input: input, do: func(x *execution) {
		x.emit(c.at.address, nil, approvalTopic, addressTopic(h.holder.address), addressTopic(zeroAddress), numberTopic(&h.id))
		g.transferUnique(x, c, h.holder, to, &h.id)
		x.exit(nil)
	}})
	return nil
}

// multi is ERC-1155 tokens with amounts.
type multi struct {
	ids, amounts []uint256.Int
}

// transferMulti transfers ERC-1155 tokens with one log; a nil account mints or burns. It returns
// false if a balance is too low or overflows.
func (g *Generator) transferMulti(x *execution, c *contract, operator, from, to *account, m multi, batch bool) bool {
	for i := range m.ids {
		if from != nil && !g.sub(g.holding(c, from, &m.ids[i]), &m.amounts[i]) {
			return false
		}
		if to != nil {
			if !g.add(g.holding(c, to, &m.ids[i]), &m.amounts[i]) {
				return false
			}
			g.hold(c, to, &m.ids[i])
		}
		x.burn(2 * gasStore)
		x.transferred(c, from, to, i, &m.ids[i], &m.amounts[i])
	}
	who := []common.Hash{addressTopic(operator.address), addressTopic(addressOf(from)), addressTopic(addressOf(to))}
	if !batch {
		x.emit(c.at.address, packed(nil).uint(&m.ids[0]).uint(&m.amounts[0]), append([]common.Hash{singleTopic}, who...)...)
		return true
	}
	data := packed(nil).number(64).number(uint64(96 + 32*len(m.ids))).list(m.ids).list(m.amounts)
	x.emit(c.at.address, data, append([]common.Hash{batchTopic}, who...)...)
	return true
}

// mintage draws ERC-1155 tokens to mint: few different IDs, some huge IDs and some huge amounts.
func (g *Generator) mintage(c *contract, n int) multi {
	var m multi
	for range n {
		id := *uint256.NewInt(uint64(g.rng.IntN(40)))
		amount := *uint256.NewInt(uint64(g.between(0, 1000)))
		switch {
		case g.chance(0.05):
			id.Lsh(uint256.NewInt(uint64(g.rng.IntN(9)+1)), 250)
		case g.chance(0.05) && c.odd == 2:
			id = g.wide()
		}
		switch {
		case g.chance(0.03):
			amount = g.wide()
		case g.chance(0.01):
			amount = maxNumber
		}
		m.ids, m.amounts = append(m.ids, id), append(m.amounts, amount)
	}
	return m
}

// size draws the number of tokens of a batch, sometimes 0.
func (g *Generator) size() int {
	if g.chance(0.03) {
		return 0
	}
	return g.between(1, 6)
}

func (g *Generator) moveMulti(c *contract) error {
	h, ok := g.holder(c)
	from, to := g.sender(&zeroNumber), g.anyAccount()
	batch := g.chance(0.35)
	var m multi
	var mover *account
	var input packed
	switch n := g.rng.Float64(); {
	case !ok || n < 0.35:
		if batch {
			m = g.mintage(c, g.size())
			input = calling("mintBatch(address,uint256[],uint256[],bytes)").address(to.address)
		} else {
			m = g.mintage(c, 1)
			input = calling("mint(address,uint256,uint256,bytes)").address(to.address).uint(&m.ids[0]).uint(&m.amounts[0]).number(128).number(0)
		}
	default:
		mover = h.holder
		m = g.mine(c, h, batch)
		if n > 0.9 {
			to = nil
		} else if n < 0.38 {
			to = mover
		}
		switch {
		case to == nil && !batch:
			input = calling("burn(address,uint256,uint256)").address(mover.address).uint(&m.ids[0]).uint(&m.amounts[0])
		case to == nil:
			input = calling("burnBatch(address,uint256[],uint256[])").address(mover.address)
		case !batch:
			input = calling("safeTransferFrom(address,address,uint256,uint256,bytes)").address(mover.address).address(to.address).
				uint(&m.ids[0]).uint(&m.amounts[0]).number(160).number(0)
		default:
			input = calling("safeBatchTransferFrom(address,address,uint256[],uint256[],bytes)").address(mover.address).address(to.address)
		}
	}
	through := g.chance(0.15) && len(g.pool[wallet]) > 0
	act := func(x *execution, operator *account) {
		if !g.transferMulti(x, c, operator, mover, to, m, batch) {
			x.fail(reverted, reason("ERC1155: insufficient balance for transfer"))
			return
		}
		x.exit(nil)
	}
	if !through {
		g.send(plan{from: from, to: c.at, input: input, do: func(x *execution) { act(x, from) }})
		return nil
	}
	w := g.one(wallet)
	g.send(plan{from: from, to: w.at, input: calling("execute(address,bytes)").address(c.at.address), do: func(x *execution) {
		x.enter(evm.FrameCall, w.at, c.at, &zeroNumber, input)
		act(x, w.at)
		x.exit(nil)
	}})
	return nil
}

// mine draws tokens of a holder.
func (g *Generator) mine(c *contract, h held, batch bool) multi {
	has := g.now(g.holding(c, h.holder, &h.id))
	amount := g.part(has)
	m := multi{ids: []uint256.Int{h.id}, amounts: []uint256.Int{amount}}
	if !batch {
		return m
	}
	rest := new(uint256.Int).Sub(&has, &amount)
	if !rest.IsZero() && g.chance(0.3) { // the same ID twice
		m.ids, m.amounts = append(m.ids, h.id), append(m.amounts, *rest)
	}
	for _, other := range c.held {
		if len(m.ids) == 5 {
			break
		}
		if other.holder == h.holder && other.id != h.id && !slices.Contains(m.ids, other.id) {
			has := g.now(g.holding(c, h.holder, &other.id))
			m.ids, m.amounts = append(m.ids, other.id), append(m.amounts, g.part(has))
		}
	}
	return m
}

// forward has a wallet contract transfer AVAX inside a transaction, in one of many ways.
func (g *Generator) forward(w *contract) error {
	value := g.ether(0.001, 2)
	if g.chance(0.2) {
		value.Clear()
	}
	from := g.sender(&value)
	to := g.anyAccount()
	other := g.one(wallet)
	some := func() *uint256.Int {
		has := g.now(&w.at.balance)
		return has.Rsh(&has, uint(g.between(2, 6)))
	}
	p := plan{from: from, to: w.at, value: value, input: calling("forward(uint256)").number(uint64(g.rng.IntN(8)))}
	switch g.rng.IntN(9) {
	case 0: // to several accounts
		p.do = func(x *execution) {
			for range g.between(1, 5) {
				x.call(w.at, g.anyAccount(), some())
			}
			x.exit(nil)
		}
	case 1: // through other wallets
		p.do = func(x *execution) {
			v := some()
			depth := 0
			for at, n := w.at, g.between(1, 6); depth < n; depth++ {
				next := g.one(wallet).at
				if !x.enter(evm.FrameCall, at, next, v, calling("relay()")) {
					break
				}
				at = next
			}
			x.call(x.top().to, to, v)
			for ; depth >= 0; depth-- {
				x.exit(nil)
			}
		}
	case 2: // once in a call that reverts, then again
		p.do = func(x *execution) {
			if x.enter(evm.FrameCall, w.at, other.at, some(), calling("attempt()")) {
				x.call(other.at, to, some())
				x.emit(other.at.address, packed(nil).number(1), ownershipTopic)
				x.fail(reverted, reason("no luck"))
			}
			x.call(w.at, to, some())
			x.exit(nil)
		}
	case 3: // in a DELEGATECALL
		p.do = func(x *execution) {
			x.enter(evm.FrameDelegateCall, w.at, other.at, &p.value, calling("pay()"))
			x.call(w.at, to, some())
			x.exit(nil)
			x.exit(nil)
		}
	case 4: // after reading a balance
		p.do = func(x *execution) {
			token := g.one(erc20)
			input := calling("balanceOf(address)").address(w.at.address)
			x.enter(evm.FrameStaticCall, w.at, token.at, &zeroNumber, input)
			x.exit(g.balanceWord(token, w.at.address, &zeroNumber, g.block))
			x.call(w.at, to, some())
			x.exit(nil)
		}
	case 5: // to itself, with CALLCODE
		p.do = func(x *execution) {
			x.enter(evm.FrameCallCode, w.at, other.at, some(), calling("pay()"))
			x.exit(nil)
			x.exit(nil)
		}
	case 6: // with too little gas for the inner call
		p.do = func(x *execution) {
			if x.enter(evm.FrameCall, w.at, other.at, some(), calling("spin()")) {
				f := x.top()
				f.gas, f.fixed, f.used = 30_000, true, 30_000
				x.fail(outOfGas, nil)
			}
			x.exit(nil)
		}
	case 7: // more than it has
		p.do = func(x *execution) {
			x.call(w.at, to, &Treasury)
			x.exit(nil)
		}
	default: // and then the transaction reverts
		p.do = func(x *execution) {
			x.call(w.at, to, some())
			x.emit(w.at.address, nil, ownershipTopic)
			x.call(w.at, g.anyAccount(), some())
			x.fail(reverted, reason("wallet: not today"))
		}
	}
	g.send(p)
	return nil
}

// deploy creates a contract.
func (g *Generator) deploy(*contract) error {
	return g.deployOf([]kind{erc20, proxied, erc721, erc1155, wallet, factory, lookalike, mortal}[g.rng.IntN(8)], nil)
}

func (g *Generator) deployOf(k kind, also func(*execution, *contract)) error {
	c := g.newContract(k)
	var value uint256.Int
	if k == wallet || k == mortal {
		value = g.ether(0.01, 20)
	}
	from := g.sender(&value)
	g.send(plan{from: from, c: c, value: value, do: func(x *execution) {
		g.construct(x, c, from)
		if also != nil {
			also(x, c)
		}
		x.created(c)
	}})
	return nil
}

// construct executes the constructor of a contract.
func (g *Generator) construct(x *execution, c *contract, owner *account) {
	x.emit(c.at.address, nil, ownershipTopic, addressTopic(zeroAddress), addressTopic(owner.address))
	switch c.kind {
	case erc20, proxied:
		amount := g.ether(1000, 1e9)
		g.transferFungible(x, c, nil, owner, &amount)
	case erc721:
		for range g.rng.IntN(3) {
			id := g.newToken(c)
			g.transferUnique(x, c, nil, owner, &id)
		}
	case erc1155:
		if g.chance(0.5) {
			g.transferMulti(x, c, owner, nil, owner, g.mintage(c, 3), true)
		}
		x.emit(c.at.address, text(c.uri()), uriTopic, common.Hash{})
	}
}

// deployInVain is a creation that fails.
func (g *Generator) deployInVain(*contract) error {
	c := g.newContract(wallet)
	value := g.ether(0, 1)
	p := plan{from: g.sender(&value), c: c, value: value}
	switch g.rng.IntN(3) {
	case 0:
		p.do = func(x *execution) { x.fail(reverted, reason("no")) }
	case 1:
		p.limit = 400_000
		p.do = func(x *execution) {
			x.call(c.at, g.anyAccount(), uint256.NewInt(0))
			x.fail(outOfGas, nil)
		}
	default:
		p.limit = 3_000_000
		p.do = func(x *execution) { x.fail(codeTooBig, nil) }
	}
	g.send(p)
	return nil
}

// produce has a factory create contracts.
func (g *Generator) produce(f *contract) error {
	value := g.ether(0, 1)
	p := plan{from: g.sender(&value), to: f.at, value: value, input: calling("produce(uint256)").number(uint64(g.rng.IntN(100)))}
	p.do = func(x *execution) {
		for range g.between(1, 3) {
			g.make(x, f, p.from)
		}
		if g.chance(0.1) {
			x.fail(reverted, reason("factory: closed"))
			return
		}
		x.exit(nil)
	}
	g.send(p)
	return nil
}

// make has a factory create a contract, with success or not.
func (g *Generator) make(x *execution, f *contract, owner *account) {
	c := g.newContract([]kind{erc20, erc721, erc1155, wallet, mortal, factory}[g.rng.IntN(6)])
	var salt *common.Hash
	if g.chance(0.5) {
		h := g.hash()
		salt = &h
	}
	value := g.now(&f.at.balance)
	value.Rsh(&value, uint(g.between(1, 8)))
	if c.kind != wallet && c.kind != mortal {
		value.Clear()
	}
	if !x.create(f.at, c, &value, salt) {
		return
	}
	switch n := g.rng.Float64(); {
	case n < 0.1:
		x.fail(reverted, nil)
		return
	case n < 0.15:
		x.top().gas, x.top().fixed, x.top().used = 60_000, true, 60_000
		x.fail(outOfGas, nil)
		return
	case n < 0.2 && c.kind == mortal: // destroyed during its creation (EIP-6780)
		g.destroy(x, c, owner)
		c.gone = true
		x.exit(nil)
		return
	case n < 0.35 && c.kind == factory: // creates another contract during its creation
		g.construct(x, c, owner)
		g.make(x, c, owner)
		x.created(c)
		return
	}
	g.construct(x, c, owner)
	x.created(c)
}

// destroy executes SELFDESTRUCT, which transfers the balance of a contract.
func (g *Generator) destroy(x *execution, c *contract, to *account) {
	value := g.now(&c.at.balance)
	x.burn(gasStore)
	x.enter(evm.FrameSelfDestruct, c.at, to, &value, nil)
	x.exit(nil)
}

// die calls a contract that destroys itself. Since EIP-6780 its code remains.
func (g *Generator) die(c *contract) error {
	value := g.ether(0, 0.1)
	to := g.anyAccount()
	if g.chance(0.2) {
		to = g.account(deadBeneficiary)
	}
	g.send(plan{from: g.sender(&value), to: c.at, value: value, input: calling("kill(address)").address(to.address), do: func(x *execution) {
		g.destroy(x, c, to)
		x.exit(nil)
	}})
	return nil
}

// revert is a transaction that fails as a whole.
func (g *Generator) revert(*contract) error {
	k := []kind{erc20, erc721, erc1155, wallet, factory}[g.rng.IntN(5)]
	c := g.one(k)
	if c == nil {
		return g.deployOf(k, nil)
	}
	var value uint256.Int
	if k == wallet || g.chance(0.3) {
		value = g.ether(0, 1)
	}
	p := plan{from: g.sender(&value), to: c.at, value: value, input: calling("transfer(address,uint256)").address(g.anyAccount().address).uint(&maxNumber)}
	switch g.rng.IntN(4) {
	case 0:
		p.do = func(x *execution) { x.fail(reverted, reason("ERC20: transfer amount exceeds balance")) }
	case 1:
		p.do = func(x *execution) { x.fail(reverted, calling("Unlucky(uint256)").number(7)) }
	case 2:
		p.do = func(x *execution) { x.fail(reverted, nil) }
	default:
		p.limit = uint64(g.between(60_000, 200_000))
		p.do = func(x *execution) {
			x.emit(c.at.address, nil, transferTopic)
			x.fail(outOfGas, nil)
		}
	}
	g.send(p)
	return nil
}

// pretend has a contract that is no token emit the events of tokens, well-formed and malformed.
func (g *Generator) pretend(c *contract) error {
	a, b := addressTopic(g.anyAccount().address), addressTopic(g.anyAccount().address)
	from := g.sender(&zeroNumber)
	kind := g.rng.IntN(7)
	g.send(plan{from: from, to: c.at, input: calling("note(uint256)").number(uint64(kind)), do: func(x *execution) {
		n := packed(nil).number(uint64(g.rng.IntN(1000)))
		at := c.at.address
		switch kind {
		case 0:
			x.emit(at, n, transferTopic, a, b)
		case 1:
			x.emit(at, nil, transferTopic, a, b, common.Hash{31: 9})
		case 2:
			x.emit(at, n.number(5), singleTopic, a, a, b)
		case 3: // nothing indexed
			x.emit(at, append(append(a[:], b[:]...), n...), transferTopic)
		case 4: // too short
			x.emit(at, n[:20], singleTopic, a, a, b)
		case 5: // lengths beyond the data
			x.emit(at, packed(nil).number(64).uint(&maxNumber).number(1<<40), batchTopic, a, a, b)
		case 6: // arrays of different lengths
			x.emit(at, packed(nil).number(64).number(128).number(1).number(7).number(2).number(7).number(7), batchTopic, a, a, b)
		}
		x.emit(at, g.bytes(g.rng.IntN(40)))
		x.exit(nil)
	}})
	return nil
}

// message has the Warp precompile send a message of an account, and ends the open frame.
func (g *Generator) message(x *execution, from *account, content []byte) error {
	call, err := payload.NewAddressedCall(from.address[:], content)
	if err != nil {
		return fmt.Errorf("a Warp message: %w", err)
	}
	m, err := warp.NewUnsignedMessage(g.o.NetworkID, g.o.BlockchainID, call.Bytes())
	if err != nil {
		return fmt.Errorf("a Warp message: %w", err)
	}
	id := common.Hash(m.ID())
	x.burn(41_500 + 8*uint64(len(m.Bytes())))
	x.emit(Warp, packed(nil).number(32).bytes(m.Bytes()), sendWarpTopic, addressTopic(from.address), id)
	x.exit(id[:])
	return nil
}

func sendWarpInput(content []byte) packed {
	return calling("sendWarpMessage(bytes)").number(32).bytes(content)
}

// sendWarp sends a Warp message from an account or from a contract.
func (g *Generator) sendWarp(*contract) (err error) {
	from := g.sender(&zeroNumber)
	content := g.bytes(g.between(1, 90))
	if w := g.one(wallet); w != nil && g.chance(0.5) {
		g.send(plan{from: from, to: w.at, input: calling("report(bytes)").number(32).bytes(content), do: func(x *execution) {
			x.enter(evm.FrameCall, w.at, g.warp, &zeroNumber, sendWarpInput(content))
			err = g.message(x, w.at, content)
			x.exit(nil)
		}})
		return err
	}
	g.send(plan{from: from, to: g.warp, input: sendWarpInput(content), do: func(x *execution) {
		err = g.message(x, from, content)
	}})
	return err
}

// teleporterMessage returns a new TeleporterMessage and its ID. Each source counts its messages.
func (g *Generator) teleporterMessage(source, destination ids.ID, from, to common.Address, content []byte) (packed, common.Hash) {
	g.messages[source]++
	nonce := g.messages[source]
	m := packed(nil).number(nonce).address(from).hash(common.Hash(destination)).address(to).number(200_000).
		number(256).number(288).number(320).number(0).number(0).bytes(content)
	return m, evm.ICMMessageID(source, destination, uint256.NewInt(nonce))
}

// teleportOut sends a Teleporter message, one of four from a constructor.
func (g *Generator) teleportOut(*contract) (err error) {
	destination := g.foreign[g.rng.IntN(len(g.foreign))]
	content := g.bytes(g.between(0, 70))
	to := common.Address(g.bytes(20))
	out := func(x *execution, from *account) {
		m, id := g.teleporterMessage(g.o.BlockchainID, destination, from.address, to, content)
		body := packed(nil).number(96).address(zeroAddress).number(0)
		body = append(body, m...)
		x.emit(Teleporter, body, sendTopic, id, common.Hash(destination))
		whole := append(packed(nil).number(32), m...)
		x.enter(evm.FrameCall, g.teleport.at, g.warp, &zeroNumber, sendWarpInput(whole))
		if err = g.message(x, g.teleport.at, whole); err != nil {
			return
		}
		x.exit(id[:])
	}
	input := calling("sendCrossChainMessage((bytes32,address,(address,uint256),uint256,address[],bytes))").number(32).hash(common.Hash(destination)).address(to).bytes(content)
	if g.chance(0.25) {
		failed := g.deployOf(wallet, func(x *execution, c *contract) {
			x.enter(evm.FrameCall, c.at, g.teleport.at, &zeroNumber, input)
			out(x, c.at)
		})
		if failed != nil {
			return failed
		}
		return err
	}
	from := g.sender(&zeroNumber)
	g.send(plan{from: from, to: g.teleport.at, input: input, do: func(x *execution) { out(x, from) }})
	return err
}

// teleportIn delivers a Teleporter message, sometimes to a factory, which then creates a contract.
func (g *Generator) teleportIn(*contract) error {
	source := g.foreign[g.rng.IntN(len(g.foreign))]
	from := g.sender(&zeroNumber)
	target := g.one(factory)
	if target == nil || g.chance(0.6) {
		target = g.one(wallet)
	}
	if target == nil {
		return g.deployOf(wallet, nil)
	}
	content := g.bytes(g.between(0, 70))
	g.send(plan{from: from, to: g.teleport.at, input: calling("receiveCrossChainMessage(uint32,address)").number(0).address(from.address), do: func(x *execution) {
		m, id := g.teleporterMessage(source, g.o.BlockchainID, common.Address(g.bytes(20)), target.at.address, content)
		x.enter(evm.FrameStaticCall, g.teleport.at, g.warp, &zeroNumber, calling("getVerifiedWarpMessage(uint32)").number(0))
		x.exit(append(packed(nil).number(32).number(1), m...))
		body := append(packed(nil).address(from.address).number(64), m...)
		x.emit(Teleporter, body, receiveTopic, id, common.Hash(source), addressTopic(from.address))
		x.enter(evm.FrameCall, g.teleport.at, target.at, &zeroNumber, calling("receiveTeleporterMessage(bytes32,address,bytes)").hash(common.Hash(source)))
		if target.kind == factory {
			g.make(x, target, from)
		}
		x.exit(nil)
		x.emit(Teleporter, nil, executedTopic, id, common.Hash(source))
		x.exit(nil)
	}})
	return nil
}
