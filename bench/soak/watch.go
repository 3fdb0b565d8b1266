package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"quorate/bench/rig"
)

// sample is what a process of the service occupies at some time.
type sample struct {
	Seconds    float64 `json:"seconds"` // since the start
	PID        int     `json:"pid"`
	Store      string  `json:"store"`
	ResidentMB int     `json:"resident_mb"`
	// PeakMB is the most resident memory of the process so far. It is 0 in samples of older runs.
	PeakMB     int `json:"peak_mb,omitempty"`
	Files      int `json:"files"`
	Goroutines int `json:"goroutines"`
	// Indexed and Tip are heights of the P-Chain.
	Indexed uint64 `json:"recorded"`
	Tip     uint64 `json:"tip"`
}

func (s sample) after() time.Duration { return time.Duration(s.Seconds) * time.Second }

// most returns the most resident memory that the sample shows.
func (s sample) most() int { return max(s.ResidentMB, s.PeakMB) }

// watch takes about a hundred samples until ctx ends.
func (s *soak) watch(ctx context.Context, long time.Duration) {
	for i := 1; rig.Pause(ctx, time.Until(s.began.Add(time.Duration(i)*long/120))); i++ {
		s.take(ctx)
	}
}

// take takes a sample. Without an answer the service is down, which requests show.
func (s *soak) take(ctx context.Context) {
	one, err := s.sample(ctx)
	if err != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.samples = append(s.samples, one)
}

func (s *soak) sample(ctx context.Context) (one sample, err error) {
	one = sample{Seconds: time.Since(s.began).Seconds(), PID: s.service.PID(), Store: *s.store.Load(), Indexed: s.primary.indexed.Load(), Tip: s.primary.height()}
	metrics, err := s.service.Metrics(ctx)
	if err != nil {
		return one, err
	}
	one.ResidentMB = int(metrics["process_resident_memory_bytes"]) >> 20
	_, highest := rig.Memory(one.PID)
	one.PeakMB = int(highest) >> 20
	one.Files, one.Goroutines = int(metrics["process_open_fds"]), int(metrics["go_goroutines"])
	if one.PID != s.service.PID() {
		return one, errors.New("the service was started again meanwhile")
	}
	if one.PID == 0 || one.ResidentMB == 0 || one.Files == 0 || one.Goroutines == 0 {
		return one, errors.New("the service does not report what it uses")
	}
	return one, nil
}

// grown returns an error for each resource that grew without bound: memory above its limit,
// or more files or goroutines in the last third of the last process on a store than in the
// third before.
func grown(all []sample) (bad []error) {
	if len(all) == 0 {
		return []error{errors.New("no sample of the service succeeded")}
	}
	const allowed = memoryLimit * 5 / 4 // the limit is for memory that Go manages
	if most := slices.MaxFunc(all, func(a, b sample) int { return cmp.Compare(a.most(), b.most()) }); most.most() > allowed {
		bad = append(bad, fmt.Errorf("up to %d MB resident until %s, of a limit of %d", most.most(), most.after(), memoryLimit))
	}
	last := make(map[string]int) // process by store
	for _, one := range all {
		last[one.Store] = one.PID
	}
	for _, store := range slices.Sorted(maps.Keys(last)) {
		process := slices.DeleteFunc(slices.Clone(all), func(one sample) bool { return one.PID != last[store] || one.Store != store })
		if len(process) < 9 {
			bad = append(bad, fmt.Errorf("%d samples of the last process with the store %s are too few to tell whether anything grows", len(process), store))
			continue
		}
		third := len(process) / 3
		for _, what := range []struct {
			name string
			of   func(sample) int
		}{
			{"open files", func(one sample) int { return one.Files }},
			{"goroutines", func(one sample) int { return one.Goroutines }},
		} {
			before, after := middle(process[third:2*third], what.of), middle(process[2*third:], what.of)
			if after > before+before/10+10 {
				bad = append(bad, fmt.Errorf("%s grew from %d to %d, with the store %s", what.name, before, after, store))
			}
		}
	}
	return bad
}

// middle returns the median.
func middle(all []sample, of func(sample) int) int {
	values := make([]int, len(all))
	for i, one := range all {
		values[i] = of(one)
	}
	return rig.Quantile(values, 0.5)
}
