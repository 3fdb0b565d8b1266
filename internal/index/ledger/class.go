package ledger

import (
	"slices"

	"quorate/internal/index/internal/row"
)

// Bucket is the category of an output in a balance at a time.
type Bucket uint8

// The buckets of the Data API. On the X-Chain the API calls UnlockedUnstaked "unlocked" and LockedPlatform "locked".
const (
	UnlockedUnstaked Bucket = iota
	LockedPlatform
	LockedStakeable
	UnlockedStaked
	LockedStaked
	PendingStaked
	AtomicMemoryUnlocked
	AtomicMemoryLocked
	buckets // number of buckets
)

func (b Bucket) String() string {
	return [buckets]string{
		"unlocked", "locked", "locked stakeable", "staked", "locked staked", "pending staked", "on the way", "on the way and locked",
	}[b]
}

// bucketAt returns the output's bucket at a Unix time while the output exists. The bucket changes only at phases.
func (o *Output) bucketAt(t uint64) Bucket {
	start, end := row.Seconds(o.StakeStart), row.Seconds(o.StakeEnd)
	switch {
	case o.ChainID != o.DestinationID && o.Locktime <= t:
		return AtomicMemoryUnlocked
	case o.ChainID != o.DestinationID:
		return AtomicMemoryLocked
	case end > t && start > t:
		return PendingStaked
	case end > t && max(o.Locktime, o.StakeableLocktime) > end:
		return LockedStaked
	case end > t:
		return UnlockedStaked
	case o.Locktime > t:
		return LockedPlatform
	case o.StakeableLocktime > t:
		return LockedStakeable
	default:
		return UnlockedUnstaked
	}
}

// phase is a change of bucket at a fixed time.
type phase struct {
	at       uint64
	from, to Bucket
}

// phases returns the changes of bucket after a time.
func (o *Output) phases(after uint64) []phase {
	at := [...]uint64{row.Seconds(o.StakeStart), row.Seconds(o.StakeEnd), o.Locktime, o.StakeableLocktime}
	if max(at[0], at[1], at[2], at[3]) <= after {
		return nil
	}
	slices.Sort(at[:])
	var all []phase
	now := o.bucketAt(after)
	for _, t := range at {
		if t <= after {
			continue
		}
		if next := o.bucketAt(t); next != now {
			all = append(all, phase{at: t, from: now, to: next})
			now = next
		}
	}
	return all
}
