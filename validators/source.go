package validators

import "time"

// refresh forgets what is cached if it is from another source, and returns the present source; see Options.Source.
func (r *Resolver) refresh() (source uint64) {
	if r.origin == nil {
		return 0
	}
	source = r.origin()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.source == source {
		return source
	}
	r.source, r.latest = source, nil
	r.height, r.reported = 0, 0
	r.seenAt, r.reportedAt = time.Time{}, time.Time{}
	r.sets.Clear()
	r.fetches.forget()
	r.proposed.forget()
	r.tip.forget()
	r.subnetOf.forget()
	r.subnets.forget()
	r.current.forget()
	r.epochs.forget()
	return source
}

// keep caches a set that a source reported.
func (r *Resolver) keep(source uint64, s *Set) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.source == source {
		r.sets.Set(setID{s.SubnetID, s.Height}, s)
	}
}
