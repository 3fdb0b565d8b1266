package evm

import (
	"context"
	"fmt"

	"github.com/ava-labs/libevm/common"

	"quorate/internal/bounded"
	"quorate/internal/store"
)

// cachedKnown is a cached result of Known for one address.
type cachedKnown struct {
	contract bool
	// after is the hash of the block after which the address was unknown; a later block may have changed that. A known
	// address stays known.
	after common.Hash
}

// knownRoom is the number of cached addresses, about 100 bytes each.
const knownRoom = 1 << 15

func newKnown(room int) *bounded.Cache[common.Address, cachedKnown] {
	return bounded.New(bounded.Options[common.Address, cachedKnown]{Entries: max(room, 1)})
}

// Known reports for each address whether it is known as a contract: a transaction created it, or it emitted token
// events. Contracts of the genesis that emit no events are unknown. Addresses may repeat.
func (r *Index) Known(ctx context.Context, addresses []common.Address) ([]bool, error) {
	s, err := r.view(ctx)
	if err != nil {
		return nil, err
	}
	defer s.close()
	known := make([]bool, len(addresses))
	var asked []int
	for i := range addresses {
		k, ok := r.known.Get(addresses[i])
		known[i] = ok && k.contract
		if !ok || !k.contract && k.after != s.head.tip.Hash {
			asked = append(asked, i)
		}
	}
	if len(asked) == 0 {
		return known, nil
	}
	once := make(map[common.Address]int, len(asked)) // places in keys
	keys := make([]store.PK, 0, len(asked))
	for _, n := range asked {
		if _, there := once[addresses[n]]; !there {
			once[addresses[n]] = len(keys)
			keys = append(keys, store.PK{P: s.chain.partition(addresses[n][:])})
		}
	}
	values, err := s.Get(ctx, store.FamilyEVMContract, keys)
	if err != nil {
		return nil, fmt.Errorf("reading contracts: %w", err)
	}
	for _, n := range asked {
		known[n] = values[once[addresses[n]]] != nil
	}
	for address, i := range once {
		r.known.Set(address, cachedKnown{contract: values[i] != nil, after: s.head.tip.Hash})
	}
	return known, nil
}
