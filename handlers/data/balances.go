package data

import (
	"context"
	"slices"
	"time"

	"github.com/ava-labs/avalanchego/ids"

	"quorate/handlers/apierr"
	"quorate/handlers/compat"
	"quorate/handlers/operation"
	"quorate/handlers/reply"
	"quorate/internal/index/ledger"
)

type balance struct {
	assetAmount
	UTXOCount int64 `json:"utxoCount"`
}

type atomicBalance struct {
	balance
	SharedWithChainID string `json:"sharedWithChainId"`
	Status            string `json:"status"`
}

// atomicBalances holds all balances of the C-Chain. Fields are nil if the atomic memory is unknown.
type atomicBalances struct {
	AtomicMemoryUnlocked []atomicBalance `json:"atomicMemoryUnlocked,omitzero"`
	AtomicMemoryLocked   []atomicBalance `json:"atomicMemoryLocked,omitzero"`
}

type platformBalances struct {
	UnlockedUnstaked []balance `json:"unlockedUnstaked"`
	UnlockedStaked   []balance `json:"unlockedStaked"`
	LockedPlatform   []balance `json:"lockedPlatform"`
	LockedStakeable  []balance `json:"lockedStakeable"`
	LockedStaked     []balance `json:"lockedStaked"`
	PendingStaked    []balance `json:"pendingStaked"`
	atomicBalances
}

// exchangeBalances holds the balances of the X-Chain, in the documented form and in the generated clients' form.
type exchangeBalances struct {
	platformBalances
	Locked   []balance `json:"locked"`
	Unlocked []balance `json:"unlocked"`
}

func (a *API) listBalances(ctx context.Context, r operation.Request, n *network) error {
	b, err := n.blockchain(r, pChain, xChain, cChain)
	if err != nil {
		return err
	}
	q := r.Query
	at := q.Optional("blockTimestamp")
	addresses := n.addresses(q, "addresses")
	if err := q.Err(); err != nil {
		return err
	}
	if n.Ledger == nil {
		return absent("balances")
	}
	if err := n.current(r, at, b); err != nil {
		return err
	}
	left, err := n.unknown(ctx, b, at)
	if err != nil {
		return err
	}
	if len(left) > 0 && (compat.Enabled(ctx) || b.name == cChain && len(left) == len(n.chains)-1) {
		// The generated clients' form cannot state what is missing, and a missing field reads as zero.
		return left.refuse()
	}
	left.show(r)
	var t time.Time
	if at != nil {
		t = moment(*at)
	}
	held, _, err := n.Ledger.Balances(ctx, b.id, addresses, t)
	if err != nil {
		return err
	}
	held = slices.DeleteFunc(held, func(one ledger.Balance) bool { return left.has(one.SharedWith) && atomicBucket(one.Bucket) })
	named := make(map[ids.ID]bool)
	for _, one := range held {
		named[one.AssetID] = true
	}
	known, err := n.assets(ctx, named)
	if err != nil {
		return err
	}
	answer := struct {
		Balances    any       `json:"balances"`
		ChainInfo   chainInfo `json:"chainInfo"`
		Unavailable gaps      `json:"unavailable,omitempty"`
	}{ChainInfo: n.info(b), Unavailable: left}
	var atomic atomicBalances
	if len(left) < len(n.chains)-1 {
		atomic.AtomicMemoryUnlocked = betweenChains(held, ledger.AtomicMemoryUnlocked, known)
		atomic.AtomicMemoryLocked = betweenChains(held, ledger.AtomicMemoryLocked, known)
	}
	bucket := func(of ledger.Bucket) []balance { return onChain(held, of, known) }
	platform := platformBalances{
		UnlockedUnstaked: bucket(ledger.UnlockedUnstaked),
		UnlockedStaked:   bucket(ledger.UnlockedStaked),
		LockedPlatform:   bucket(ledger.LockedPlatform),
		LockedStakeable:  bucket(ledger.LockedStakeable),
		LockedStaked:     bucket(ledger.LockedStaked),
		PendingStaked:    bucket(ledger.PendingStaked),
		atomicBalances:   atomic,
	}
	switch b.name {
	case pChain:
		answer.Balances = platform
	case xChain:
		answer.Balances = exchangeBalances{platformBalances: platform, Locked: platform.LockedPlatform, Unlocked: platform.UnlockedUnstaked}
	default:
		answer.Balances = atomic
	}
	return reply.JSON(r, answer)
}

// atomicBucket reports whether the outputs of a bucket are in atomic memory between two chains.
func atomicBucket(of ledger.Bucket) bool {
	return of == ledger.AtomicMemoryUnlocked || of == ledger.AtomicMemoryLocked
}

// unknown returns the gaps of a balance at a time: those of between and, before Cortina, the memory shared with the
// X-Chain, because the time of X-Chain transactions before Cortina is unknown. It refuses balances of the X-Chain then.
func (n *network) unknown(ctx context.Context, b blockchain, at *uint64) (gaps, error) {
	left := n.between(ctx, b, at)
	when, err := n.preCortina(ctx)
	if err != nil || !when.covers(at) {
		return left, err
	}
	if b.name == xChain {
		return nil, apierr.BadRequest("blockTimestamp: balances of the x-chain are not known at %d or before, as nothing tells when it accepted a transaction until then; give a later time", when.until.Unix())
	}
	if !left.has(n.XChainID) {
		left = append(left, newGap(n.chains[1], b, apierr.Unavailable(nil, "nothing tells when the x-chain accepted a transaction at %d or before; give a later blockTimestamp", when.until.Unix())))
	}
	return left, nil
}

// onChain returns the balances of a bucket, by asset as read.
func onChain(held []ledger.Balance, of ledger.Bucket, known assets) []balance {
	all := []balance{}
	for i := range held {
		if held[i].Bucket == of {
			all = append(all, shownBalance(&held[i], known))
		}
	}
	return all
}

// betweenChains returns the balances of a bucket in atomic memory.
func betweenChains(held []ledger.Balance, of ledger.Bucket, known assets) []atomicBalance {
	all := []atomicBalance{}
	for i := range held {
		if held[i].Bucket != of {
			continue
		}
		one := atomicBalance{balance: shownBalance(&held[i], known), SharedWithChainID: held[i].SharedWith.String(), Status: "pendingImport"}
		if held[i].Export {
			one.Status = "pendingExport"
		}
		all = append(all, one)
	}
	return all
}

func shownBalance(b *ledger.Balance, known assets) balance {
	return balance{assetAmount: known.amount(b.AssetID, b.NFT, b.Amount.String()), UTXOCount: b.Outputs}
}
