package data_test

import (
	"cmp"
	"context"
	"encoding/binary"
	"math"
	"math/big"
	"slices"
	"strconv"
	"time"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/constants"
	"github.com/ava-labs/avalanchego/vms/components/avax"

	"quorate/handlers/data"
	chain "quorate/internal/chain/ledger"
	"quorate/internal/index"
	"quorate/internal/index/ledger"
	"quorate/internal/index/ledger/subnets"
	"quorate/internal/index/vertices"
	"quorate/internal/simnet/history"
)

// The network of the tests is fuji, with all that can be in its records.
var (
	pID  = constants.PlatformChainID
	xID  = must(ids.FromString("2JVSBoinj9C2J33VntvzYtVJNZdN2NKiwwKjcumHUWEb5DbBrm"))
	cID  = must(ids.FromString("yH8D7ThNJkxmtkuv2jgBa4P1Rn3Qpr4pPr7QYNfcdoS6k6HWp"))
	avx  = must(ids.FromString("U8iRqJoiJm8xZHAacmvYyZVwqQx6uDNtQeP3CQ6fcgQk3JqnK"))
	coin = ids.ID{0xc0}
	art  = ids.ID{0xa7}
	lost = ids.ID{0x10} // nothing is known of it

	alice, bob, carol = ids.ShortID{1}, ids.ShortID{2}, ids.ShortID{3}
	nodeA, nodeB      = ids.NodeID{0xa}, ids.NodeID{0xb}
)

// now is the time of all chains, at height 1,000.
var now = time.Unix(1_700_000_000, 0).UTC()

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func ago(d time.Duration) time.Time { return now.Add(-d) }

func text(id ids.ShortID) string {
	return must(addressText(id))
}

// fake is a record in memory. Reads fail with err if it is set, and a read of
// subnets with subnetsErr from the given subnet on.
type fake struct {
	outputs     []*ledger.Output
	balances    map[ids.ID][]ledger.Balance
	stakings    []ledger.StakingOutputs
	delegations []*ledger.Delegation
	subnets     []*subnets.Subnet
	genesis     map[ids.ID]string
	vertices    []vertices.Vertex
	progress    map[ids.ID]data.Progress
	cortina     time.Time

	err        error
	failFrom   int // the subnet, if subnetsErr is set
	subnetsErr error

	// The last query.
	askedOutputs ledger.OutputQuery
	askedStaking ledger.StakingQuery
	askedAt      time.Time
	askedOf      []ids.ShortID
}

func (f *fake) network() data.Network {
	return data.Network{
		NetworkID: constants.FujiID, XChainID: xID, CChainID: cID, AVAXAssetID: avx,
		Progress: func(_ context.Context, id ids.ID) data.Progress { return f.progress[id] },
		Ledger:   f, Subnets: f, Vertices: f,
		Archives:        map[ids.ID]data.Archive{pID: upTo{simulatedArchive(), history.P}, xID: upTo{simulatedArchive(), history.X}},
		ArchiveProgress: func(id ids.ID) data.Progress { return f.progress[id] },
		Registry:        simulated().index, RegistryProgress: func(context.Context) data.Progress { return f.progress[pID] },
		Uptimes: uptimes{ids.NodeID{1}: {}},
		Cortina: func(context.Context) (time.Time, error) { return f.cortina, nil },
	}
}

// page cuts a page out of a list that is sorted ascending.
func page[T any](all []T, ascending bool, limit int, behind func(T) bool) (some []T, more bool) {
	if !ascending {
		slices.Reverse(all)
	}
	all = slices.DeleteFunc(all, func(one T) bool { return behind(one) })
	if len(all) > limit {
		return all[:limit], true
	}
	return all, false
}

func (f *fake) UTXOs(ctx context.Context, q ledger.OutputQuery) (*ledger.OutputPage, error) {
	f.askedOutputs = q
	if err := cmp.Or(f.err, ctx.Err()); err != nil {
		return nil, err
	}
	key := func(o *ledger.Output) uint64 {
		if q.ByAmount {
			return o.ListAmount()
		}
		return uint64(o.Time.Unix())
	}
	compare := func(a uint64, aID ids.ID, b uint64, bID ids.ID) int {
		return cmp.Or(cmp.Compare(a, b), cmp.Compare(aID.String(), bID.String()))
	}
	var all []*ledger.Output
	for _, o := range f.outputs {
		own := 0
		for _, a := range o.Addresses {
			if slices.Contains(q.Addresses, a) {
				own++
			}
		}
		if own < max(1, int(o.Threshold)) || o.ChainID != q.ChainID && o.DestinationID != q.ChainID ||
			q.AssetID != ids.Empty && q.AssetID != o.AssetID || o.ListAmount() < q.MinAmount || o.Spent != nil && !q.IncludeSpent ||
			o.ChainID != o.DestinationID && (leftOut(&q, o.ChainID) || leftOut(&q, o.DestinationID)) {
			continue
		}
		all = append(all, o)
	}
	slices.SortFunc(all, func(a, b *ledger.Output) int { return compare(key(a), a.ID, key(b), b.ID) })
	some, more := page(all, q.Ascending, q.Limit, func(o *ledger.Output) bool {
		if q.After == nil {
			return false
		}
		order := compare(key(o), o.ID, q.After.Key, q.After.ID)
		return q.Ascending && order <= 0 || !q.Ascending && order >= 0
	})
	p := &ledger.OutputPage{Outputs: some, Now: now}
	if more {
		last := some[len(some)-1]
		p.Next = &ledger.Position{Key: key(last), ID: last.ID}
		for _, id := range []ids.ID{pID, xID, cID} {
			if !leftOut(&q, id) {
				p.Next.Pins = append(p.Next.Pins, ledger.Pin{ChainID: id, Height: 1000})
			}
		}
	}
	return p, nil
}

// leftOut reports whether a query leaves a chain out, or the first page of its list did.
func leftOut(q *ledger.OutputQuery, id ids.ID) bool {
	return slices.Contains(q.Without, id) || q.After != nil && !q.After.Has(id)
}

func (f *fake) Balances(ctx context.Context, chainID ids.ID, addresses []ids.ShortID, at time.Time) ([]ledger.Balance, time.Time, error) {
	f.askedAt, f.askedOf = at, addresses
	return slices.Clone(f.balances[chainID]), now, cmp.Or(f.err, ctx.Err())
}

func (f *fake) Outputs(ctx context.Context, outputIDs []ids.ID) ([]*ledger.Output, error) {
	return simulatedArchive().ledger.Outputs(ctx, outputIDs)
}

// LastActivity walks all outputs.
func (f *fake) LastActivity(_ context.Context, chainID ids.ID, addresses []ids.ShortID) (last *ledger.Activity, err error) {
	for _, o := range f.outputs {
		if !slices.ContainsFunc(o.Addresses, func(a ids.ShortID) bool { return slices.Contains(addresses, a) }) {
			continue
		}
		if o.ChainID == chainID && (last == nil || o.Time.After(last.Time)) {
			last = &ledger.Activity{Height: o.Height, Time: o.Time, TxID: o.TxID, OutputID: o.ID}
		}
		if s := o.Spent; s != nil && s.ChainID == chainID && (last == nil || s.Time.After(last.Time)) {
			last = &ledger.Activity{Height: s.Height, Time: s.Time, TxID: s.TxID, OutputID: o.ID, Consumed: true}
		}
	}
	return last, f.err
}

func (f *fake) Presence(_ context.Context, chainIDs []ids.ID, addresses []ids.ShortID) ([][]ids.ID, error) {
	all := make([][]ids.ID, len(addresses))
	for i, address := range addresses {
		for _, chainID := range chainIDs {
			if slices.ContainsFunc(f.outputs, func(o *ledger.Output) bool {
				return slices.Contains(o.Addresses, address) && (o.ChainID == chainID || o.DestinationID == chainID)
			}) {
				all[i] = append(all[i], chainID)
			}
		}
	}
	return all, f.err
}

func (f *fake) Staking(ctx context.Context, txID ids.ID) (*ledger.Staking, error) {
	for _, o := range f.outputs {
		if o.TxID == txID && o.Role >= chain.ValidationReward {
			s := &ledger.Staking{TxID: txID, Staker: chain.Staker{SubnetID: constants.PrimaryNetworkID, NodeID: nodeA, Weight: 2_000, Start: ago(48 * time.Hour)}, End: ago(time.Hour)}
			s.Settled = &ledger.Settlement{TxID: ids.ID{99}, Rewarded: true, Rewards: []ids.ID{o.ID}}
			return s, f.err
		}
	}
	return simulatedArchive().ledger.Staking(ctx, txID)
}

func (f *fake) Assets(context.Context, []ids.ID) ([]*chain.Asset, error) {
	return []*chain.Asset{
		{ID: coin, Name: "Coin & Co", Symbol: "COIN", Denomination: 4}, nil,
		{ID: art, Name: "Art", Symbol: "ART"},
	}, nil
}

func (f *fake) ActiveStakings(_ context.Context, q ledger.StakingQuery) (*ledger.StakingPage, error) {
	f.askedStaking = q
	key := func(s *ledger.StakingOutputs) string {
		return string(binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, uint64(s.Time.Unix())), s.Height)) + s.TxID.String()
	}
	var all []ledger.StakingOutputs
	for _, s := range f.stakings {
		if (len(q.Kinds) == 0 || slices.Contains(q.Kinds, s.Kind)) && (q.After.IsZero() || s.Time.After(q.After)) && (q.Before.IsZero() || s.Time.Before(q.Before)) {
			all = append(all, s)
		}
	}
	slices.SortFunc(all, func(a, b ledger.StakingOutputs) int { return cmp.Compare(key(&a), key(&b)) })
	var from string
	if p := q.From; p != nil {
		from = string(binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, p.Time), p.Height)) + p.TxID.String()
	}
	some, more := page(all, q.Ascending, q.Limit, func(s ledger.StakingOutputs) bool {
		return q.From != nil && (q.Ascending && key(&s) <= from || !q.Ascending && key(&s) >= from)
	})
	p := &ledger.StakingPage{Stakings: some, Now: now}
	if more {
		last := some[len(some)-1]
		p.Next = &ledger.StakingPosition{Time: uint64(last.Time.Unix()), Height: last.Height, TxID: last.TxID, Pin: 1000}
	}
	return p, f.err
}

func (f *fake) Delegations(_ context.Context, q ledger.DelegationQuery) (*ledger.DelegationPage, error) {
	compare := func(a time.Time, aID ids.ID, b time.Time, bID ids.ID) int {
		return cmp.Or(a.Compare(b), cmp.Compare(aID.String(), bID.String()))
	}
	var all []*ledger.Delegation
	for _, d := range f.delegations {
		paid := slices.ContainsFunc(d.RewardAddresses, func(a ids.ShortID) bool { return slices.Contains(q.RewardAddresses, a) })
		if (len(q.RewardAddresses) == 0 || paid) && (len(q.NodeIDs) == 0 || slices.Contains(q.NodeIDs, d.NodeID)) && (q.Status == "" || d.StatusAt(now) == q.Status) &&
			(!q.Current || !d.Settled && !d.Start.After(now)) {
			all = append(all, d)
		}
	}
	slices.SortFunc(all, func(a, b *ledger.Delegation) int { return compare(a.Start, a.TxID, b.Start, b.TxID) })
	some, more := page(all, q.Ascending, q.Limit, func(d *ledger.Delegation) bool {
		if q.After == nil {
			return false
		}
		order := compare(d.Start, d.TxID, time.Unix(int64(q.After.Key), 0), q.After.ID)
		return q.Ascending && order <= 0 || !q.Ascending && order >= 0
	})
	p := &ledger.DelegationPage{Delegations: some, Now: now}
	if more {
		last := some[len(some)-1]
		p.Next = &ledger.Position{Key: uint64(last.Start.Unix()), ID: last.TxID, Pins: []ledger.Pin{{ChainID: pID, Height: 1000}}}
	}
	return p, f.err
}

// numbered is where a fake list of the given length goes on.
func numbered(after []byte, length int) (int, error) {
	if after == nil {
		return 0, nil
	}
	n, err := strconv.Atoi(string(after))
	if err != nil || n < 0 || n > length {
		return 0, index.ErrPosition
	}
	return n, nil
}

func ordered[T any](all []T, ascending bool) []T {
	all = slices.Clone(all)
	if !ascending {
		slices.Reverse(all)
	}
	return all
}

func (f *fake) List(_ context.Context, ascending bool, limit int, after *subnets.Position) (*subnets.Page, error) {
	all := ordered(f.subnets, ascending)
	from := 0
	if after != nil {
		from = 1 + slices.IndexFunc(all, func(s *subnets.Subnet) bool { return s.ID == after.SubnetID })
	}
	to := min(len(all), from+limit)
	if f.subnetsErr != nil && to > f.failFrom {
		return nil, f.subnetsErr
	}
	p := &subnets.Page{Subnets: all[from:to]}
	if to < len(all) {
		last := all[to-1]
		p.Next = &subnets.Position{Time: uint64(last.Created.Unix()), Height: last.Height, SubnetID: last.ID, Pin: 1000}
	}
	return p, f.err
}

func (f *fake) Geneses(_ context.Context, of ...subnets.Founded) (found [][]byte, _ error) {
	for _, one := range of {
		found = append(found, []byte(f.genesis[one.ChainID]))
	}
	return found, f.err
}

func (f *fake) Describe(_ context.Context, s *subnets.Subnet) (uint64, error) {
	s.Owners = chain.Owners{Addresses: []ids.ShortID{bob, alice}, Threshold: 2}
	return math.MaxUint64, f.err
}

func (f *fake) At(_ context.Context, height uint64, ascending bool, limit int, after []byte) (found []vertices.Vertex, next []byte, _ error) {
	var all []vertices.Vertex
	for _, v := range ordered(f.vertices, ascending) {
		if v.Height == height {
			all = append(all, v)
		}
	}
	from, err := numbered(after, len(all))
	if err != nil {
		return nil, nil, err
	}
	to := min(len(all), from+limit)
	if to < len(all) {
		next = []byte(strconv.Itoa(to))
	}
	return all[from:to], next, f.err
}

func (f *fake) Vertex(_ context.Context, id ids.ID) (*vertices.Vertex, error) {
	for i := range f.vertices {
		if f.vertices[i].ID == id {
			return &f.vertices[i], f.err
		}
	}
	return nil, f.err
}

func (f *fake) Latest(_ context.Context, limit int, below *uint64) (found []vertices.Vertex, more bool, _ error) {
	all := slices.SortedFunc(slices.Values(f.vertices), func(a, b vertices.Vertex) int { return -cmp.Compare(a.Index, b.Index) })
	for _, v := range all {
		if below == nil || v.Index < *below {
			found = append(found, v)
		}
	}
	return found[:min(limit, len(found))], len(found) > limit, f.err
}

// output makes an output of alice's; its transaction is numbered.
func output(tx byte, index uint32, change func(*ledger.Output)) *ledger.Output {
	o := &ledger.Output{
		Output: chain.Output{
			TxID: ids.ID{tx}, Index: index, Kind: chain.Transfer, Role: chain.Ordinary, AssetID: avx, Amount: 1_000_000_000,
			Addresses: []ids.ShortID{alice}, Threshold: 1, DestinationID: pID, Bytes: []byte{0, 0, tx},
		},
		ChainID: pID, Height: 100 + uint64(tx), Time: ago(time.Hour),
	}
	if change != nil {
		change(o)
	}
	utxo := avax.UTXOID{TxID: o.TxID, OutputIndex: o.Index}
	o.ID = utxo.InputID()
	return o
}

func stake(from, to time.Time) func(*ledger.Output) {
	return func(o *ledger.Output) { o.Role, o.StakeStart, o.StakeEnd = chain.Stake, from, to }
}

func on(made, destination ids.ID) func(*ledger.Output) {
	return func(o *ledger.Output) { o.ChainID, o.DestinationID = made, destination }
}

func kind(k chain.OutputKind, asset ids.ID) func(*ledger.Output) {
	return func(o *ledger.Output) {
		on(xID, xID)(o)
		o.Kind, o.AssetID = k, asset
		if k != chain.Transfer {
			o.Amount = 0
		}
		if k == chain.NFTTransfer || k == chain.NFTMint {
			o.GroupID = 7
		}
		if k == chain.NFTTransfer {
			o.Payload = []byte{0xca, 0xfe}
		}
	}
}

func spent(by ids.ID) func(*ledger.Output) {
	return func(o *ledger.Output) {
		o.Spent = &chain.Spend{ChainID: by, TxID: ids.ID{0xee}, Height: 555, Time: ago(time.Minute)}
	}
}

func all(changes ...func(*ledger.Output)) func(*ledger.Output) {
	return func(o *ledger.Output) {
		for _, change := range changes {
			change(o)
		}
	}
}

func role(r chain.Role) func(*ledger.Output) { return func(o *ledger.Output) { o.Role = r } }

// newFake has every variant of everything, and more than a page of it.
func newFake() *fake {
	f := &fake{balances: make(map[ids.ID][]ledger.Balance), progress: make(map[ids.ID]data.Progress)}
	for _, id := range []ids.ID{pID, xID, cID} {
		f.progress[id] = data.Progress{Height: 1000, Time: now, CaughtUp: true}
	}
	f.outputs = []*ledger.Output{
		output(1, 0, nil),
		output(1, 1, func(o *ledger.Output) { o.Locktime = 1<<64 - 1 }),
		output(1, 2, func(o *ledger.Output) { o.StakeableLocktime = uint64(now.Unix()) + 1000 }),
		output(1, 3, stake(ago(time.Minute), now.Add(time.Hour))),
		output(1, 4, stake(ago(time.Hour), ago(time.Second))),
		output(1, 5, func(o *ledger.Output) { o.Amount = 1<<64 - 1 }),
		output(1, 6, func(o *ledger.Output) { o.Addresses, o.Threshold = []ids.ShortID{bob, alice}, 2 }),
		output(1, 7, func(o *ledger.Output) { o.Bytes = nil }),
		output(2, 0, role(chain.ValidationReward)),
		output(2, 1, role(chain.DelegationReward)),
		output(2, 2, role(chain.Commission)),
		output(3, 0, spent(pID)),
		output(3, 1, all(stake(ago(time.Hour), ago(time.Second)), spent(pID))),
		output(4, 0, all(on(pID, cID), role(chain.Exported))),
		output(4, 1, all(on(pID, xID), role(chain.Exported), spent(xID))),
		output(4, 2, all(on(xID, pID), role(chain.Exported))),
		output(4, 3, all(on(cID, pID), role(chain.Exported))),
		output(4, 4, all(on(cID, xID), role(chain.Exported), spent(xID))),
		output(5, 0, kind(chain.Transfer, avx)),
		output(5, 1, kind(chain.Transfer, coin)),
		output(5, 2, kind(chain.Transfer, lost)),
		output(5, 3, kind(chain.Mint, coin)),
		output(5, 4, kind(chain.NFTMint, art)),
		output(5, 5, kind(chain.NFTTransfer, art)),
		output(5, 6, kind(chain.PropertyMint, art)),
		output(5, 7, kind(chain.PropertyOwned, art)),
		output(5, 8, all(kind(chain.NFTTransfer, art), spent(xID))),
	}
	for i := range uint32(25) {
		f.outputs = append(f.outputs, output(6, i, func(o *ledger.Output) {
			o.Amount, o.Time = uint64(i/3), ago(time.Duration(i/4)*time.Minute)
		}))
	}
	for b := ledger.UnlockedUnstaked; b <= ledger.PendingStaked; b++ {
		f.balances[pID] = append(f.balances[pID], ledger.Balance{Bucket: b, AssetID: avx, Amount: big.NewInt(int64(b) + 1), Outputs: int64(b) + 1})
	}
	whole := new(big.Int).Lsh(big.NewInt(1), 70)
	f.balances[xID] = []ledger.Balance{
		{Bucket: ledger.UnlockedUnstaked, AssetID: avx, Amount: big.NewInt(5), Outputs: 1},
		{Bucket: ledger.UnlockedUnstaked, AssetID: art, NFT: true, Amount: big.NewInt(3), Outputs: 3},
		{Bucket: ledger.UnlockedUnstaked, AssetID: lost, Amount: whole, Outputs: 64},
		{Bucket: ledger.LockedPlatform, AssetID: coin, Amount: big.NewInt(7), Outputs: 2},
	}
	for _, b := range []ledger.Bucket{ledger.AtomicMemoryUnlocked, ledger.AtomicMemoryLocked} {
		for _, id := range []ids.ID{pID, xID, cID} {
			other := xID
			if id == xID {
				other = cID
			}
			f.balances[id] = append(f.balances[id],
				ledger.Balance{Bucket: b, AssetID: avx, SharedWith: other, Export: true, Amount: big.NewInt(11), Outputs: 1},
				ledger.Balance{Bucket: b, AssetID: avx, SharedWith: other, Amount: big.NewInt(12), Outputs: 2})
		}
	}
	for i, k := range []chain.Kind{"AddValidatorTx", "AddDelegatorTx", "AddPermissionlessValidatorTx", "AddPermissionlessDelegatorTx", chain.Unknown, "AddAutoRenewedValidatorTx"} {
		f.stakings = append(f.stakings, staking(byte(i), k))
	}
	for i := range byte(15) {
		f.stakings = append(f.stakings, staking(50+i, "AddPermissionlessDelegatorTx"))
	}
	genesis, rewarded := staking(80, "AddValidatorTx"), staking(81, "AddValidatorTx")
	genesis.Consumed = nil
	rewarded.Made = append(rewarded.Made, output(81, 2, all(role(chain.ValidationReward), func(o *ledger.Output) { o.Amount = 77 })))
	f.stakings = append(f.stakings, genesis, rewarded)
	f.delegations = []*ledger.Delegation{
		delegation(1, now.Add(time.Second), now.Add(time.Hour), nil),
		delegation(2, now, now.Add(time.Hour), nil),
		delegation(3, ago(time.Hour), now, nil),
		delegation(4, ago(time.Hour), ago(time.Minute), func(d *ledger.Delegation) { d.Settled, d.Rewarded, d.Reward = true, true, 980 }),
		delegation(5, ago(time.Hour), ago(time.Minute), func(d *ledger.Delegation) { d.Settled = true }),
		delegation(6, ago(time.Hour), now.Add(time.Hour), func(d *ledger.Delegation) {
			d.NodeID, d.Shares, d.RewardAddresses = nodeB, 25_000, []ids.ShortID{bob, carol}
		}),
	}
	for i := range byte(20) {
		f.delegations = append(f.delegations, delegation(100+i, ago(time.Duration(i/3)*time.Hour), now.Add(time.Hour), nil))
	}
	f.makeSubnets()
	f.cortina = time.Unix(1, 0)
	for i := range uint64(13) {
		f.vertices = append(f.vertices, vertices.Vertex{
			ID: ids.ID{byte(i), 1}, ParentIDs: []ids.ID{{9}, {8}}, Height: 5, Index: 40 + i, TxIDs: []ids.ID{{1}, {2}}, Size: 321,
		})
	}
	f.vertices = append(f.vertices, vertices.Vertex{ID: ids.ID{77}, Height: 0, Size: 50})
	return f
}

func staking(number byte, k chain.Kind) ledger.StakingOutputs {
	txID := ids.ID{number, 0x57}
	of := func(id ids.ID, index uint32, amount uint64, change func(*ledger.Output)) *ledger.Output {
		return output(0, index, all(func(o *ledger.Output) { o.TxID, o.Amount = id, amount }, change))
	}
	s := &ledger.Staking{
		TxID: txID, Kind: k, BlockID: ids.ID{number, 0xb1}, Height: 900 + uint64(number)/2, Time: ago(time.Duration(number/4) * time.Hour),
		Staker: chain.Staker{
			NodeID: nodeA, Weight: 2000, Start: ago(time.Hour), End: now.Add(time.Hour), Shares: 20_000, RewardAddresses: []ids.ShortID{alice, carol},
		},
		End: now.Add(time.Hour), PotentialReward: 77,
	}
	if k == "AddDelegatorTx" || k == "AddPermissionlessDelegatorTx" {
		s.Staker.Delegator, s.Staker.Shares, s.Staker.RewardAddresses = true, 0, []ids.ShortID{bob}
	}
	if k == "AddPermissionlessValidatorTx" {
		s.Staker.PublicKey, s.Staker.ProofOfPossession, s.Memo = make([]byte, 48), make([]byte, 96), []byte{1, 2}
	}
	return ledger.StakingOutputs{
		Staking:  s,
		Consumed: []*ledger.Output{of(ids.ID{number, 1}, 0, 3010, spent(pID))},
		Made:     []*ledger.Output{of(txID, 0, 1000, func(*ledger.Output) {}), of(txID, 1, 2000, stake(s.Staker.Start, s.End))},
	}
}

func delegation(number byte, from, to time.Time, change func(*ledger.Delegation)) *ledger.Delegation {
	d := &ledger.Delegation{
		TxID: ids.ID{number, 0xde}, NodeID: nodeA, Start: from, End: to, Height: 800, Weight: 25_000_000_000,
		RewardAddresses: []ids.ShortID{alice}, Shares: 20_000, PotentialReward: 1000,
	}
	if change != nil {
		change(d)
	}
	return d
}

const evmGenesis = `{"config":{"chainId":43113,"subnetEVMTimestamp":0,"feeConfig":{"gasLimit":"8000000"},"warpConfig":{"blockTimestamp":1}},` +
	`"alloc":{"AB00000000000000000000000000000000000000":{"balance":7}},"baseFeePerGas":"0x5d21dba00","airdropAmount":null,"gasLimit":"0x5f5e100","nonce":null}`

// makeSubnets fills the record of subnets, oldest first.
func (f *fake) makeSubnets() {
	f.genesis = make(map[ids.ID]string)
	blockchain := func(id ids.ID, height uint64, name, genesis string) subnets.Blockchain {
		f.genesis[id] = genesis
		return subnets.Blockchain{ID: id, VMID: ids.ID{'v'}, Name: name, Height: height, Created: ago(time.Hour)}
	}
	f.subnets = []*subnets.Subnet{
		{ID: ids.Empty, Created: ago(10_000 * time.Hour), Chains: []subnets.Blockchain{
			blockchain(xID, 0, "X-Chain", "\x00\x00avm"), blockchain(cID, 0, "C-Chain", evmGenesis),
		}},
		{
			ID: ids.ID{1}, Height: 7, Created: ago(100 * time.Hour), Owners: chain.Owners{Addresses: []ids.ShortID{bob, alice}, Threshold: 2, Locktime: 1<<64 - 1},
			Conversion: &subnets.Conversion{TxID: ids.ID{0xcc}, Conversion: chain.Conversion{ManagerChainID: cID, ManagerAddress: []byte{0xfe, 0xed}}},
			Chains: []subnets.Blockchain{
				blockchain(ids.ID{1}, 5, "evm", evmGenesis), blockchain(ids.ID{2}, 5, "other", `{"config":{}}`), blockchain(ids.ID{3}, 5, "", ""),
				blockchain(ids.ID{4}, 5, "big", `{"config":{"chainId":340282366920938463463374607431768211455},"baseFeePerGas":1,"blobGasUsed":null}`),
			},
		},
	}
	for i := range byte(148) {
		f.subnets = append(f.subnets, &subnets.Subnet{
			ID: ids.ID{2, i}, Height: 8 + uint64(i), Created: ago(time.Hour), Owners: chain.Owners{Addresses: []ids.ShortID{alice}, Threshold: 1},
		})
	}
}
