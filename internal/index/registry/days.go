package registry

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/holiman/uint256"

	"github.com/ava-labs/avalanchego/ids"

	"quorate/internal/index/internal/row"
	"quorate/internal/store"
)

// Stake counts who validates. Weights of subnets other than the primary network are in units of their own; those of the
// primary network are nAVAX.
type Stake struct {
	// Validators are current validators, and active ones of L1s. Weight is the sum of theirs, without delegations.
	Validators uint64
	Weight     uint256.Int
	// Delegators are current delegations and Delegated the sum of their weights.
	Delegators uint64
	Delegated  uint256.Int
}

func (s *Stake) add(o *Stake) {
	s.Validators, s.Delegators = s.Validators+o.Validators, s.Delegators+o.Delegators
	s.Weight.Add(&s.Weight, &o.Weight)
	s.Delegated.Add(&s.Delegated, &o.Delegated)
}

func (s *Stake) remove(o *Stake) {
	s.Validators, s.Delegators = s.Validators-o.Validators, s.Delegators-o.Delegators
	s.Weight.Sub(&s.Weight, &o.Weight)
	s.Delegated.Sub(&s.Delegated, &o.Delegated)
}

// Day is a day of UTC.
type Day struct {
	// Start is its first second, in Unix time.
	Start uint64
	// Stake is that after the day's last block.
	Stake
}

const secondsOfDay = 24 * 60 * 60

func dayOf(at uint64) uint64 { return at - at%secondsOfDay }

// daysPartition lists the days of a subnet, or of all subnets together if subnetID is nil, on which its stake changed.
func daysPartition(networkID uint32, subnetID *ids.ID) []byte {
	if subnetID == nil {
		return row.Network(networkID, []byte("a"))
	}
	return row.Network(networkID, []byte("s"), subnetID[:])
}

// counted is what a validation adds to the stake of its subnet.
type counted struct {
	subnetID ids.ID
	Stake
}

// stakes counts the stake of each subnet. It follows from the validations and L1 validators that have not ended.
type stakes struct {
	// one has what each validation adds, by the transaction that began it or, on an L1, by validation ID.
	one      map[ids.ID]counted
	bySubnet map[ids.ID]*Stake
	all      Stake
	moved    map[ids.ID]bool // subnets whose stake changed
	coming   map[ids.ID]*Validation
}

// count loads what is open at the time of the last block.
func (t *Projection) count(head Head) {
	t.stakes = stakes{one: make(map[ids.ID]counted), bySubnet: make(map[ids.ID]*Stake), moved: make(map[ids.ID]bool), coming: make(map[ids.ID]*Validation)}
	now := row.Seconds(head.Time)
	for _, v := range t.open {
		t.countValidation(v, now)
	}
	for _, v := range t.known {
		t.countL1(v)
	}
	clear(t.moved)
}

func (s *stakes) countValidation(v *Validation, now uint64) {
	c := counted{subnetID: v.SubnetID}
	delete(s.coming, v.TxID)
	switch {
	case !v.Ended.Time.IsZero():
	case row.Seconds(v.Start) > now:
		s.coming[v.TxID] = v
	default:
		c.Validators, c.Delegators = 1, v.Delegators
		c.Weight.SetUint64(v.Weight)
		c.Delegated.SetUint64(v.Delegated)
	}
	s.set(v.TxID, c)
}

func (s *stakes) countL1(v *L1Validator) {
	c := counted{subnetID: v.SubnetID}
	if v.Status() == L1Active {
		c.Validators = 1
		c.Weight.SetUint64(v.Weight)
	}
	s.set(v.ValidationID, c)
}

// set replaces what a validation adds.
func (s *stakes) set(id ids.ID, now counted) {
	was := s.one[id]
	if was.Stake == now.Stake {
		return
	}
	total := s.bySubnet[now.subnetID]
	if total == nil {
		total = new(Stake)
		s.bySubnet[now.subnetID] = total
	}
	for _, to := range []*Stake{total, &s.all} {
		to.remove(&was.Stake)
		to.add(&now.Stake)
	}
	s.moved[now.subnetID] = true
	if now.Stake == (Stake{}) {
		delete(s.one, id)
	} else {
		s.one[id] = now
	}
	if *total == (Stake{}) {
		delete(s.bySubnet, now.subnetID)
	}
}

// writeDays writes the days of the subnets whose stake the block changed.
func (b *application) writeDays() {
	now := row.Seconds(b.block.Time)
	for _, v := range b.coming {
		if row.Seconds(v.Start) <= now {
			b.countValidation(v, now)
		}
	}
	for _, v := range b.changed {
		b.countValidation(v, now)
	}
	for _, v := range b.dirty {
		b.countL1(v)
	}
	if len(b.moved) == 0 {
		return
	}
	key := row.Uint64(dayOf(now))
	for subnetID := range b.moved {
		total := b.bySubnet[subnetID]
		if total == nil {
			total = new(Stake)
		}
		b.batch.Put(store.FamilyStakeDay, store.PK{P: daysPartition(b.networkID, &subnetID), K: key}, total.bytes())
	}
	b.batch.Put(store.FamilyStakeDay, store.PK{P: daysPartition(b.networkID, nil), K: key}, b.all.bytes())
	clear(b.moved)
}

func (s *Stake) bytes() []byte {
	w := row.New(32)
	w.Number(s.Validators)
	w.Bytes(s.Weight.Bytes())
	w.Number(s.Delegators)
	w.Bytes(s.Delegated.Bytes())
	return w.B
}

func parseDay(one store.Row) (d Day, err error) {
	if len(one.K) != 8 {
		return d, fmt.Errorf("%w: key of a day has %d bytes", store.ErrCorrupt, len(one.K))
	}
	r := row.Read(one.V)
	d.Start, d.Validators = binary.BigEndian.Uint64(one.K), r.Number()
	d.Weight.SetBytes(r.Bytes())
	d.Delegators = r.Number()
	d.Delegated.SetBytes(r.Bytes())
	if err := r.End(); err != nil {
		return d, fmt.Errorf("stake of a day: %w", err)
	}
	return d, nil
}

// DaysQuery selects days.
type DaysQuery struct {
	// SubnetID is nil for all subnets together.
	SubnetID *ids.ID
	// From and Before bound the first second of the days, in Unix time; nil means no bound.
	From, Before *uint64
	Limit        int
}

// Days returns days without a gap, the newest first: from the day on which the subnet first had a validator to that of
// the last indexed block. more reports that older ones match.
func (x *Index) Days(ctx context.Context, q DaysQuery) (days []Day, more bool, err error) {
	v, head, err := x.view(ctx)
	if err != nil {
		return nil, false, err
	}
	defer func() { _ = v.Close() }()
	newest, least := dayOf(row.Seconds(head.Time)), uint64(0)
	if q.Before != nil {
		if *q.Before == 0 {
			return nil, false, nil
		}
		newest = min(newest, dayOf(*q.Before-1))
	}
	if q.From != nil {
		least = *q.From
	}
	// Each row is one day at least, so that these are enough to tell whether there are more.
	page, err := v.Scan(ctx, store.FamilyStakeDay, daysPartition(x.networkID, q.SubnetID), nil, row.Uint64(newest+1), store.Descending, q.Limit+1)
	if err != nil {
		return nil, false, fmt.Errorf("reading the stake by day: %w", err)
	}
	for _, one := range page {
		d, err := parseDay(one)
		if err != nil {
			return nil, false, err
		}
		for start := newest; start >= d.Start && start >= least; start -= secondsOfDay {
			if len(days) == q.Limit {
				return days, true, nil
			}
			days = append(days, Day{start, d.Stake})
			if start < secondsOfDay {
				return days, false, nil
			}
		}
		newest = d.Start - secondsOfDay
	}
	return days, false, nil
}
