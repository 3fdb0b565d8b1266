package validators

import "time"

// refresh forgets what is cached if it is from another source; see Options.Source. It returns the generation of what is
// cached, which changes when answers from before may be wrong.
func (r *Resolver) refresh() (generation uint64) {
	source := uint64(0)
	if r.origin != nil {
		source = r.origin()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.source != source {
		r.source = source
		r.forget()
	}
	return r.generation
}

// forget drops everything that is cached. It requires mu.
func (r *Resolver) forget() {
	r.generation++
	r.latest = nil
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
}

// keep caches a set of a generation.
func (r *Resolver) keep(generation uint64, s *Set) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.generation == generation {
		r.sets.Set(setID{s.SubnetID, s.Height}, s)
	}
}
