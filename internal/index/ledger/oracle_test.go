package ledger_test

import (
	"cmp"
	"fmt"
	"math/big"
	"slices"

	"github.com/ava-labs/avalanchego/ids"

	chain "quorate/internal/chain/ledger"
	"quorate/internal/index/ledger"
)

// The oracle answers from the list of all outputs according to the API contract.

// exists reports whether an output exists at a time; nil means now.
func (u *utxo) exists(p progress, at *uint64) bool {
	if !p.has(u.chainID, u.height) {
		return false
	}
	spent := u.spent != nil && p.has(u.spent.ChainID, u.spent.Height)
	if at == nil {
		return !spent
	}
	return u.time < *at && !(spent && uint64(u.spent.Time.Unix()) <= *at)
}

// known returns the stake's end as known from the indexed blocks.
func (u *utxo) known(p progress, h *history, t uint64) uint64 {
	if len(u.ends) == 0 {
		return 0
	}
	at := u.ends[0].at
	blocks := h.blocks[pChain]
	for _, e := range u.ends[1:] {
		if e.known <= t && p[pChain] > 0 && uint64(blocks[p[pChain]-1].Time.Unix()) >= e.known && u.renewalSeen(p, h, e) {
			at = e.at
		}
	}
	return at
}

// renewalSeen reports whether the block that moved the end is indexed.
func (u *utxo) renewalSeen(p progress, h *history, e end) bool {
	for _, b := range h.blocks[pChain][:p[pChain]] {
		if uint64(b.Time.Unix()) != e.known {
			continue
		}
		for i := range b.Txs {
			if s := b.Txs[i].Settled; s != nil && s.StakingTxID == u.TxID && uint64(s.RenewedUntil.Unix()) == e.at {
				return true
			}
		}
	}
	return false
}

func (u *utxo) bucket(p progress, h *history, t uint64) ledger.Bucket {
	locked := u.Locktime > t
	if u.chainID != u.DestinationID {
		if locked {
			return ledger.AtomicMemoryLocked
		}
		return ledger.AtomicMemoryUnlocked
	}
	if u.Role == chain.Stake {
		if e := u.known(p, h, t); e > t {
			switch {
			case u.start > t:
				return ledger.PendingStaked
			case max(u.Locktime, u.StakeableLocktime) > e:
				return ledger.LockedStaked
			default:
				return ledger.UnlockedStaked
			}
		}
	}
	switch {
	case locked:
		return ledger.LockedPlatform
	case u.StakeableLocktime > t:
		return ledger.LockedStakeable
	default:
		return ledger.UnlockedUnstaked
	}
}

func (u *utxo) owned(addresses []ids.ShortID) bool {
	n := uint32(0)
	for _, a := range u.Addresses {
		if slices.Contains(addresses, a) {
			n++
		}
	}
	return n > 0 && n >= u.Threshold
}

func (u *utxo) concerns(c ids.ID) bool { return u.chainID == c || u.DestinationID == c }

func (h *history) clock(p progress, c ids.ID) uint64 {
	return uint64(h.blocks[c][p[c]-1].Time.Unix())
}

// balances returns sorted lines of text.
func (h *history) balances(p progress, c ids.ID, addresses []ids.ShortID, at *uint64) []string {
	type key struct {
		bucket ledger.Bucket
		asset  ids.ID
		nft    bool
		with   ids.ID
		export bool
	}
	now := h.clock(p, c)
	if at != nil && *at > now {
		at = nil
	}
	sums, counts := make(map[key]*big.Int), make(map[key]int64)
	for _, u := range h.all {
		if !u.concerns(c) || !u.owned(addresses) || !u.exists(p, at) || u.Kind != chain.Transfer && u.Kind != chain.NFTTransfer {
			continue
		}
		t := now
		if at != nil {
			t = *at
		} else if u.chainID != u.DestinationID {
			t = max(h.clock(p, u.chainID), h.clock(p, u.DestinationID))
		}
		k := key{bucket: u.bucket(p, h, t), asset: u.AssetID, nft: u.Kind == chain.NFTTransfer}
		if u.chainID != u.DestinationID {
			k.export, k.with = u.chainID == c, u.chainID
			if k.export {
				k.with = u.DestinationID
			}
		}
		if sums[k] == nil {
			sums[k] = new(big.Int)
		}
		amount := u.Amount
		if k.nft {
			amount = 1
		}
		sums[k].Add(sums[k], new(big.Int).SetUint64(amount))
		counts[k]++
	}
	var lines []string
	for k, sum := range sums {
		lines = append(lines, balanceLine(ledger.Balance{
			Bucket: k.bucket, AssetID: k.asset, NFT: k.nft, SharedWith: k.with, Export: k.export, Amount: sum, Outputs: counts[k],
		}))
	}
	slices.Sort(lines)
	return lines
}

func balanceLine(b ledger.Balance) string {
	return fmt.Sprintf("%d %s %t %s %t %s %d", b.Bucket, b.AssetID, b.NFT, b.SharedWith, b.Export, b.Amount, b.Outputs)
}

// list returns the outputs of all pages of a query in order, in the state of its first page.
func (h *history) list(pins progress, q *ledger.OutputQuery) []*utxo {
	var found []*utxo
	for _, u := range h.all {
		if !u.concerns(q.ChainID) || !u.owned(q.Addresses) || !pins.has(u.chainID, u.height) ||
			q.AssetID != ids.Empty && u.AssetID != q.AssetID || u.listAmount() < q.MinAmount {
			continue
		}
		found = append(found, u)
	}
	text := make(map[*utxo]string)
	for _, u := range found {
		text[u] = u.ID.String()
	}
	slices.SortFunc(found, func(a, b *utxo) int {
		c := cmp.Compare(a.time, b.time)
		if q.ByAmount {
			c = cmp.Compare(a.listAmount(), b.listAmount())
		}
		c = cmp.Or(c, cmp.Compare(text[a], text[b]))
		if q.Ascending {
			return c
		}
		return -c
	})
	return found
}

func (u *utxo) listAmount() uint64 {
	if u.Kind == chain.Transfer {
		return u.Amount
	}
	return 1
}
