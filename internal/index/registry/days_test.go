package registry_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"

	"quorate/internal/index/registry"
	"quorate/internal/store"
)

// stakeOf returns the stake of each subnet, and that of all under nil, by the plain replay.
func (o *oracle) stakeOf(of *ids.ID) (s registry.Stake) {
	wanted := func(subnetID ids.ID) bool { return of == nil || *of == subnetID }
	for _, p := range o.periods {
		if wanted(p.subnetID) && !p.ended && !p.removed {
			s.Validators, s.Delegators = s.Validators+1, s.Delegators+p.delegators
			s.Weight.AddUint64(&s.Weight, p.weight)
			s.Delegated.AddUint64(&s.Delegated, p.delegated)
		}
	}
	for _, v := range o.l1 {
		if wanted(v.subnetID) && v.active && !v.removed {
			s.Validators++
			s.Weight.AddUint64(&s.Weight, v.weight)
		}
	}
	return s
}

// TestStakeByDay requires that each day has the stake that a plain replay has after the day's last block, for each subnet
// and for all, with pages of any size, with restarts in between.
//
//test:plain
func TestStakeByDay(t *testing.T) {
	const day = 24 * 60 * 60
	for seed := range uint64(3) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 2))
			c, config := newChain(t, seed, 3000), libraryConfig()
			if seed == 1 {
				config = feeConfig // balances run out
			}
			s := store.NewMemory()
			defer s.Close()
			projection, x, o := c.projection(t, config), registry.New(s, network, config), newOracle(config)
			want := make(map[ids.ID]map[uint64]registry.Stake) // by subnet, ids.Empty for all
			note := func(at uint64) {
				subnets := map[ids.ID]bool{}
				for _, p := range o.periods {
					subnets[p.subnetID] = true
				}
				for _, v := range o.l1 {
					subnets[v.subnetID] = true
				}
				for id := range subnets {
					if want[id] == nil {
						want[id] = make(map[uint64]registry.Stake)
					}
					want[id][at] = o.stakeOf(&id)
				}
				if want[everySubnet] == nil {
					want[everySubnet] = make(map[uint64]registry.Stake)
				}
				want[everySubnet][at] = o.stakeOf(nil)
			}
			var last uint64
			for i, b := range c.blocks {
				now := uint64(c.made[i].Time.Unix())
				now -= now % day
				for last != 0 && last < now { // a day without blocks is as the one before
					note(last)
					last += day
				}
				last = now
				var batch store.Batch
				require.NoError(t, projection.Apply(t.Context(), s, b, &batch))
				require.NoError(t, s.Commit(t.Context(), &batch))
				o.apply(t, b, c.made[i])
				if rng.IntN(200) == 0 {
					projection = c.projection(t, config)
				}
			}
			note(last)
			require.Greater(t, len(want), 3, "subnets")
			for id, days := range want {
				subnet := &id
				if id == everySubnet {
					subnet = nil
				}
				first, total := last, 0
				got := make(map[uint64]registry.Stake)
				q := registry.DaysQuery{SubnetID: subnet}
				for more := true; more; {
					var page []registry.Day
					var err error
					q.Limit = 1 + rng.IntN(4)
					page, more, err = x.Days(t.Context(), q)
					require.NoError(t, err)
					require.NotEmpty(t, page)
					for _, d := range page {
						require.Equal(t, last-uint64(total)*day, d.Start, "newest first and no gaps")
						total++
						got[d.Start], first = d.Stake, d.Start
					}
					q.Before = &first
				}
				require.Equal(t, days, got, "subnet %s", id)
				from, before := first+day, last
				some, _, err := x.Days(t.Context(), registry.DaysQuery{SubnetID: subnet, From: &from, Before: &before, Limit: 100})
				require.NoError(t, err)
				require.Len(t, some, max(total-2, 0))
			}
			none, more, err := x.Days(t.Context(), registry.DaysQuery{SubnetID: &ids.ID{1}, Limit: 10})
			require.NoError(t, err)
			require.False(t, more)
			require.Empty(t, none, "a subnet that does not exist")
		})
	}
}

// everySubnet stands for all subnets.
var everySubnet = ids.ID{0xff}
