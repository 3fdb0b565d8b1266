package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// sample is what a life of the service occupies at a time.
type sample struct {
	at              time.Duration
	pid             int
	residentMB      int
	files, routines int
	height, tip     uint64 // of the P-Chain: recorded, and there
}

// watch takes samples until ctx ends, some hundred in all.
func (s *soak) watch(ctx context.Context, long time.Duration) (all []sample) {
	for i := 1; ; i++ {
		if !pause(ctx, time.Until(s.began.Add(time.Duration(i)*long/120))) {
			return all
		}
		if one, err := s.sample(ctx); err == nil { // else it is not there, which others see
			all = append(all, one)
		}
	}
}

func (s *soak) sample(ctx context.Context) (one sample, err error) {
	one.at, one.pid, one.tip = time.Since(s.began), s.service.pid(), s.past.height()
	if one.pid == 0 {
		return one, errors.New("not running")
	}
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", one.pid))
	if err != nil {
		return one, err
	}
	pages, err := strconv.Atoi(strings.Fields(string(content))[1])
	if err != nil {
		return one, err
	}
	one.residentMB = pages * os.Getpagesize() >> 20
	files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", one.pid))
	if err != nil {
		return one, err
	}
	one.files = len(files)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.service.private+"/metrics", nil)
	if err != nil {
		return one, err
	}
	response, err := s.service.client.Do(request)
	if err != nil {
		return one, err
	}
	defer func() { _ = response.Body.Close() }()
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		if value, ok := strings.CutPrefix(lines.Text(), "go_goroutines "); ok {
			if one.routines, err = strconv.Atoi(value); err != nil {
				return one, err
			}
		}
	}
	if one.routines == 0 {
		return one, errors.New("no count of goroutines")
	}
	one.height = s.past.seen()
	return one, nil
}

// printSamples shows some of them, and returns what grew without bound in the last life:
// memory above its limit, or files and goroutines that are more in its last third than
// in the one before.
func printSamples(out io.Writer, all []sample) (bad []error) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "\nafter\tprocess\tresident MB\tfiles\tgoroutines\tP-Chain recorded\tthere\t")
	for i, one := range all {
		if i%max(len(all)/20, 1) == 0 || i == len(all)-1 {
			fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t\n", one.at.Round(time.Second), one.pid, one.residentMB, one.files, one.routines, one.height, one.tip)
		}
	}
	_ = w.Flush()
	if len(all) == 0 {
		return []error{errors.New("not a single look at the service succeeded")}
	}
	pid := all[len(all)-1].pid
	last := slices.DeleteFunc(slices.Clone(all), func(one sample) bool { return one.pid != pid })
	const allowed = memoryLimit * 5 / 4 // what is not Go's comes on top
	if most := slices.MaxFunc(all, func(a, b sample) int { return cmp.Compare(a.residentMB, b.residentMB) }); most.residentMB > allowed {
		bad = append(bad, fmt.Errorf("%d MB resident after %s, of a limit of %d", most.residentMB, most.at.Round(time.Second), memoryLimit))
	}
	if len(last) < 9 {
		return append(bad, fmt.Errorf("%d looks at the last process are too few to tell whether anything grows", len(last)))
	}
	third := len(last) / 3
	for _, what := range []struct {
		name string
		of   func(sample) int
	}{
		{"open files", func(one sample) int { return one.files }},
		{"goroutines", func(one sample) int { return one.routines }},
	} {
		before, after := middle(last[third:2*third], what.of), middle(last[2*third:], what.of)
		if after > before*5/4+25 {
			bad = append(bad, fmt.Errorf("%s grew from %d to %d", what.name, before, after))
		}
	}
	return bad
}

// middle is the median.
func middle(all []sample, of func(sample) int) int {
	values := make([]int, len(all))
	for i, one := range all {
		values[i] = of(one)
	}
	slices.Sort(values)
	return values[len(values)/2]
}
