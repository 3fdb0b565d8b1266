package subnets_test

import (
	"cmp"
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/constants"

	chain "quorate/internal/chain/ledger"
	"quorate/internal/index"
	"quorate/internal/index/ledger/subnets"
	"quorate/internal/store"
)

const network = 5

// history generates random blocks with the expected state after each of them.
type history struct {
	rng    *rand.Rand
	blocks []*chain.Block
	states [][]*subnets.Subnet // in the order of creation
}

func (h *history) id() (id ids.ID) {
	for i := 0; i < len(id); i += 8 {
		binary.BigEndian.PutUint64(id[i:], h.rng.Uint64())
	}
	return id
}

func (h *history) owners() *chain.Owners {
	return &chain.Owners{Addresses: []ids.ShortID{{byte(h.rng.Uint32())}, {9}}, Threshold: 1 + h.rng.Uint32N(2), Locktime: h.rng.Uint64N(2) * 77}
}

func newHistory(seed uint64, n int) *history {
	h := &history{rng: rand.New(rand.NewPCG(seed, 0))}
	at := time.Unix(1_600_000_000, 0).UTC()
	known := []*subnets.Subnet{{ID: constants.PrimaryNetworkID, Created: at}}
	for height := range uint64(n) {
		b := &chain.Block{ChainID: constants.PlatformChainID, Height: height, Time: at, ID: h.id()}
		for range h.rng.IntN(4) {
			tx := chain.Tx{ID: h.id(), Subnet: &chain.SubnetChange{}}
			i := h.rng.IntN(len(known))
			changed := *known[i]
			tx.Subnet.SubnetID = changed.ID
			switch h.rng.IntN(5) {
			case 0, 1:
				o := h.owners()
				known = append(known, &subnets.Subnet{ID: tx.ID, Created: at, Height: height, Owners: *o})
				*tx.Subnet = chain.SubnetChange{SubnetID: tx.ID, Created: true, Owners: o}
				b.Txs = append(b.Txs, tx)
				continue
			case 2:
				tx.Subnet.Owners = h.owners()
				if tx.Aborted = h.rng.IntN(4) == 0; !tx.Aborted {
					changed.Owners = *tx.Subnet.Owners
				}
			case 3:
				c := chain.Conversion{ManagerChainID: h.id(), ManagerAddress: []byte("manager")}
				tx.Subnet.Conversion = &c
				changed.Conversion = &subnets.Conversion{TxID: tx.ID, Conversion: c, Height: height, Time: at}
			case 4:
				c := chain.Chain{VMID: h.id(), Name: "a chain", Genesis: tx.ID[:5]}
				tx.Subnet.Chain = &c
				changed.Chains = append(slices.Clone(changed.Chains), subnets.Blockchain{ID: tx.ID, VMID: c.VMID, Name: c.Name, Created: at, Height: height})
			}
			known = slices.Clone(known)
			known[i] = &changed
			b.Txs = append(b.Txs, tx, chain.Tx{ID: h.id()})
		}
		h.blocks = append(h.blocks, b)
		h.states = append(h.states, slices.Clone(known))
		at = at.Add(time.Duration(h.rng.IntN(2)) * time.Second)
	}
	return h
}

// TestList reads pages while blocks arrive.
func TestList(t *testing.T) {
	for seed := range uint64(20) {
		h := newHistory(seed, 60)
		s := store.NewMemory()
		projection, record := subnets.NewProjection(network), subnets.New(s, network)
		next := 0
		advance := func(n int) {
			var batch store.Batch
			for ; n > 0 && next < len(h.blocks); n-- {
				require.NoError(t, projection.Apply(t.Context(), s, h.blocks[next], &batch))
				next++
			}
			require.NoError(t, s.Commit(t.Context(), &batch))
		}
		for advance(1); next < len(h.blocks); advance(1 + h.rng.IntN(10)) {
			ascending, limit := h.rng.IntN(2) == 0, 1+h.rng.IntN(6)
			pinned := next - 1
			want := slices.Clone(h.states[pinned])
			slices.SortFunc(want, func(a, b *subnets.Subnet) int {
				c := cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.Height, b.Height), cmp.Compare(a.ID.String(), b.ID.String()))
				if !ascending {
					c = -c
				}
				return c
			})
			var after *subnets.Position
			for {
				page, err := record.List(t.Context(), ascending, limit, after)
				require.NoError(t, err)
				require.Equal(t, len(want) > limit, page.Next != nil, "whether there is another page")
				require.Len(t, page.Subnets, min(limit, len(want)))
				for i, got := range page.Subnets {
					now := slices.IndexFunc(h.states[next-1], func(s *subnets.Subnet) bool { return s.ID == want[i].ID })
					require.Equal(t, h.states[next-1][now], got)
					for _, c := range got.Chains {
						geneses, err := record.Geneses(t.Context(), subnets.Founded{SubnetID: got.ID, ChainID: c.ID}, subnets.Founded{SubnetID: got.ID})
						require.NoError(t, err)
						require.Equal(t, [][]byte{c.ID[:5], nil}, geneses)
					}
				}
				if page.Next == nil {
					break
				}
				want = want[limit:]
				after, err = subnets.ParsePosition(page.Next.Bytes())
				require.NoError(t, err)
				require.Equal(t, page.Next, after)
				advance(h.rng.IntN(4))
			}
		}
	}
}

// TestListOfStandbys reads later pages from a store with fewer and with more blocks.
func TestListOfStandbys(t *testing.T) {
	h := newHistory(1, 40)
	of := func(blocks []*chain.Block) *subnets.Index {
		s := store.NewMemory()
		projection := subnets.NewProjection(network)
		var batch store.Batch
		for _, b := range blocks {
			require.NoError(t, projection.Apply(t.Context(), s, b, &batch))
		}
		require.NoError(t, s.Commit(t.Context(), &batch))
		return subnets.New(s, network)
	}
	ahead, behind := of(h.blocks), of(h.blocks[:len(h.blocks)-2])
	for _, ascending := range []bool{true, false} {
		page, err := ahead.List(t.Context(), ascending, 1, nil)
		require.NoError(t, err)
		_, err = behind.List(t.Context(), ascending, 1, page.Next)
		require.ErrorIs(t, err, index.ErrViewBehind)

		all, err := behind.List(t.Context(), ascending, 1000, nil)
		require.NoError(t, err)
		page, err = behind.List(t.Context(), ascending, 1, nil)
		require.NoError(t, err)
		rest, err := ahead.List(t.Context(), ascending, 1000, page.Next)
		require.NoError(t, err)
		require.Len(t, rest.Subnets, len(all.Subnets)-1)
	}
}

func TestListEdges(t *testing.T) {
	s := store.NewMemory()
	record := subnets.New(s, network)
	page, err := record.List(t.Context(), false, 10, nil)
	require.NoError(t, err)
	require.Empty(t, page.Subnets)
	require.Nil(t, page.Next)
	geneses, err := record.Geneses(t.Context(), subnets.Founded{SubnetID: ids.ID{1}, ChainID: ids.ID{2}})
	require.NoError(t, err)
	require.Equal(t, [][]byte{nil}, geneses)
	var batch store.Batch
	err = subnets.NewProjection(network).Apply(t.Context(), s, &chain.Block{ChainID: ids.ID{1}}, &batch)
	require.ErrorIs(t, err, subnets.ErrChain)
	for _, b := range [][]byte{nil, {1}, {2, 0}, append((&subnets.Position{}).Bytes(), 0)} {
		_, err := subnets.ParsePosition(b)
		require.ErrorIs(t, err, index.ErrPosition)
	}
}
