package main

import (
	"bytes"
	"cmp"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"text/template"
	"time"

	"gonum.org/v1/plot/plotter"

	"quorate/bench/rig"
)

// outcome is the result of a run.
type outcome struct {
	Machine      rig.Machine `json:"machine"`
	Seed         uint64      `json:"seed"`
	Long         string      `json:"for"`
	Validators   int         `json:"validators"`
	Transactions int         `json:"transactions"` // of each chain's history
	LimitMB      int         `json:"memory_limit_mb"`
	Done         []trouble   `json:"done"`
	Operations   []counts    `json:"operations"`
	Failures     []failure   `json:"failures"`
	Samples      []sample    `json:"samples"`
	// Bad lists what fails the run: wrong responses, failures without a fault, growth, a service that ended by itself.
	Bad []string `json:"bad"`
}

// All returns the sum over the operations.
func (o *outcome) All() (sum counts) {
	for _, c := range o.Operations {
		sum.Requests += c.Requests
		sum.Failed += c.Failed
		sum.Wrong += c.Wrong
		sum.NotAsked += c.NotAsked
	}
	return sum
}

// Peak returns the most resident memory of a process in MB, or 0 if the samples, of an older run, do not have it.
func (o *outcome) Peak() (most int) {
	for _, one := range o.Samples {
		most = max(most, one.PeakMB)
	}
	return most
}

// Some returns about twenty of the samples, among them the last.
func (o *outcome) Some() (some []sample) {
	for i, one := range o.Samples {
		if i%max(len(o.Samples)/20, 1) == 0 || i == len(o.Samples)-1 {
			some = append(some, one)
		}
	}
	return some
}

// print prints the tables.
func (o *outcome) print(r *rig.Run) error {
	operations := r.Table("Operations", []string{"operation"}, rig.Column{Title: "requests"}, rig.Column{Title: "failed"}, rig.Column{Title: "wrong"}, rig.Column{Title: "not asked"})
	for _, c := range append(o.Operations, o.All()) {
		if err := operations.Add([]string{cmp.Or(c.Operation, "all")}, float64(c.Requests), float64(c.Failed), float64(c.Wrong), float64(c.NotAsked)); err != nil {
			return err
		}
	}
	failures := r.Table("Failed requests", []string{"fault", "operation and kind"}, rig.Column{Title: "count"})
	for _, f := range o.Failures {
		if err := failures.Add([]string{f.While, f.Kind}, float64(f.Times)); err != nil {
			return err
		}
	}
	resources := r.Table("Resources", []string{"after", "process", "store"}, rig.Column{Title: "resident MB"}, rig.Column{Title: "at most"}, rig.Column{Title: "files"},
		rig.Column{Title: "goroutines"}, rig.Column{Title: "P-Chain indexed"}, rig.Column{Title: "tip"})
	for _, one := range o.Some() {
		if err := resources.Add([]string{one.after().String(), strconv.Itoa(one.PID), one.Store}, float64(one.ResidentMB), float64(one.PeakMB), float64(one.Files),
			float64(one.Goroutines), float64(one.Indexed), float64(one.Tip)); err != nil {
			return err
		}
	}
	return nil
}

//go:embed soak.md
var documentText string

// document returns the outcome as Markdown with the plots of the given files.
func (o *outcome) document(plots []string) ([]byte, error) {
	t, err := template.New("soak").Funcs(template.FuncMap{
		"after": func(seconds float64) string { return (time.Duration(seconds) * time.Second).String() },
		"cell":  func(text string) string { return strings.ReplaceAll(text, "|", `\|`) },
		"under": func(text string) string { return strings.ReplaceAll(text, "\n", "\n  ") },
	}).Parse(documentText)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	err = t.Execute(&b, struct {
		*outcome

		Plots []string
	}{o, plots})
	return b.Bytes(), err
}

// write writes the Markdown file and, beside it, plots and the outcome as JSON.
func (o *outcome) write(file string) error {
	text, err := json.MarshalIndent(o, "", " ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(beside(file, ".json"), append(text, '\n'), 0o644); err != nil { //nolint:gosec // world-readable
		return err
	}
	return o.render(file)
}

// renew writes the Markdown file and the plots from the JSON beside it.
func renew(file string) error {
	o, err := read(beside(file, ".json"))
	if err != nil {
		return err
	}
	return o.render(file)
}

func read(file string) (*outcome, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	o := new(outcome)
	if err := json.Unmarshal(text, o); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return o, nil
}

// beside returns the name of another file of a document.
func beside(file, end string) string { return strings.TrimSuffix(file, filepath.Ext(file)) + end }

// curves are the plots.
var curves = []struct {
	end, title, unit string
	of               func(sample) int
}{
	{"-memory.png", "Resident memory of the service", "MB", func(s sample) int { return s.ResidentMB }},
	{"-files.png", "Open files of the service", "files", func(s sample) int { return s.Files }},
	{"-goroutines.png", "Goroutines of the service", "goroutines", func(s sample) int { return s.Goroutines }},
}

func (o *outcome) render(file string) error {
	var plots []string
	for i, c := range curves {
		limit := 0
		if i == 0 {
			limit = o.LimitMB
		}
		drawn, err := o.plot(c.title, c.unit, c.of, limit)
		if err != nil {
			return err
		}
		if err := os.WriteFile(beside(file, c.end), drawn, 0o644); err != nil { //nolint:gosec // world-readable
			return err
		}
		plots = append(plots, filepath.Base(beside(file, c.end)))
	}
	text, err := o.document(plots)
	if err != nil {
		return err
	}
	return os.WriteFile(file, text, 0o644) //nolint:gosec // world-readable
}

// plot draws what samples have over time, with a line for each process of the service, and
// the times of faults in grey.
func (o *outcome) plot(title, unit string, of func(sample) int, limit int) ([]byte, error) {
	if len(o.Samples) == 0 {
		return nil, errors.New("there are no samples to draw")
	}
	p := rig.Plot{Title: title, X: "minutes", Y: unit}
	for _, one := range o.Done {
		p.Shaded = append(p.Shaded, [2]float64{one.From / 60, one.Until / 60})
	}
	colors := map[string]int{storeFiles: 0, storePostgres: 2}
	pid := 0
	for _, one := range o.Samples {
		if one.PID != pid {
			pid = one.PID
			p.Lines = append(p.Lines, rig.Line{Name: "store: " + one.Store, Color: colors[one.Store]})
		}
		line := &p.Lines[len(p.Lines)-1]
		line.Points = append(line.Points, plotter.XY{X: one.Seconds / 60, Y: float64(of(one))})
	}
	if limit > 0 {
		end := o.Samples[len(o.Samples)-1].Seconds / 60
		p.Lines = append(p.Lines, rig.Line{Name: "memory_limit", Color: 4, Dashed: true, Points: plotter.XYs{{Y: float64(limit)}, {X: end, Y: float64(limit)}}})
	}
	return p.PNG()
}
