package main

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"image/color"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"text/template"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"

	"quorate/bench/rig"
)

// outcome is what a run found.
type outcome struct {
	Machine      rig.Machine `json:"machine"`
	Seed         uint64      `json:"seed"`
	Long         string      `json:"for"`
	Validators   int         `json:"validators"`
	Transactions int         `json:"transactions"` // of each past
	LimitMB      int         `json:"memory_limit_mb"`
	Done         []trouble   `json:"done"`
	Operations   []counts    `json:"operations"`
	Failures     []failure   `json:"failures"`
	Samples      []sample    `json:"samples"`
	// Bad is what must not be: wrong answers, growth, and a service that ends by itself.
	Bad []string `json:"bad"`
}

// All adds up the operations.
func (o *outcome) All() (sum counts) {
	for _, c := range o.Operations {
		sum.Requests += c.Requests
		sum.Failed += c.Failed
		sum.Wrong += c.Wrong
	}
	return sum
}

// Some are about twenty of the samples, the last one among them.
func (o *outcome) Some() (some []sample) {
	for i, one := range o.Samples {
		if i%max(len(o.Samples)/20, 1) == 0 || i == len(o.Samples)-1 {
			some = append(some, one)
		}
	}
	return some
}

// print writes the tables as plain text.
func (o *outcome) print(out io.Writer) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\noperation\trequests\tfailed\twrong")
	for _, c := range append(o.Operations, counts{"all", o.All().Requests, o.All().Failed, o.All().Wrong}) {
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\n", c.Operation, c.Requests, c.Failed, c.Wrong)
	}
	fmt.Fprintln(w, "\nfailed while\toperation and kind\ttimes")
	for _, f := range o.Failures {
		fmt.Fprintf(w, "%s\t%s\t%d\n", f.While, f.Kind, f.Times)
	}
	_ = w.Flush()
	w = tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "\nafter\tprocess\tstore\tresident MB\tfiles\tgoroutines\tP-Chain recorded\tthere\t")
	for _, one := range o.Some() {
		fmt.Fprintf(w, "%s\t%d\t%s\t%d\t%d\t%d\t%d\t%d\t\n", one.after(), one.PID, one.Store, one.ResidentMB, one.Files, one.Goroutines, one.Recorded, one.Tip)
	}
	_ = w.Flush()
}

//go:embed soak.md
var documentText string

// document is the outcome as Markdown; plots are the names of their files.
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

// write makes the Markdown file, and beside it the outcome as JSON, and plots.
func (o *outcome) write(file string) error {
	text, err := json.MarshalIndent(o, "", " ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(beside(file, ".json"), append(text, '\n'), 0o644); err != nil { //nolint:gosec // it is to be read by everybody
		return err
	}
	return o.render(file)
}

// renew makes the Markdown file and the plots from the JSON beside it.
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

// beside is the name of another file of a document's.
func beside(file, end string) string { return strings.TrimSuffix(file, filepath.Ext(file)) + end }

// curves are what is drawn.
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
		if err := os.WriteFile(beside(file, c.end), drawn, 0o644); err != nil { //nolint:gosec // it is to be read by everybody
			return err
		}
		plots = append(plots, filepath.Base(beside(file, c.end)))
	}
	text, err := o.document(plots)
	if err != nil {
		return err
	}
	return os.WriteFile(file, text, 0o644) //nolint:gosec // it is to be read by everybody
}

// plot draws what samples have over time, a line for each life of the service, and in
// grey the times in which something was done to it.
func (o *outcome) plot(title, unit string, of func(sample) int, limit int) ([]byte, error) {
	if len(o.Samples) == 0 {
		return nil, errors.New("nothing to draw: no samples")
	}
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = title, "minutes", unit
	p.Legend.Top, p.Legend.Left, p.Title.Padding = true, true, vg.Points(4)
	highest := float64(limit)
	for _, one := range o.Samples {
		highest = max(highest, float64(of(one)))
	}
	p.Y.Min, p.Y.Max = 0, 1.4*max(highest, 1) // room for the legend
	for _, one := range o.Done {
		shade, err := plotter.NewPolygon(plotter.XYs{{X: one.From / 60}, {X: one.Until / 60}, {X: one.Until / 60, Y: p.Y.Max}, {X: one.From / 60, Y: p.Y.Max}})
		if err != nil {
			return nil, fmt.Errorf("plot %q: %w", title, err)
		}
		shade.Color, shade.LineStyle.Width = color.Gray{Y: 225}, 0
		p.Add(shade)
	}
	p.Add(plotter.NewGrid())
	var lives [][]sample
	for _, one := range o.Samples {
		if last := len(lives) - 1; last >= 0 && lives[last][0].PID == one.PID {
			lives[last] = append(lives[last], one)
		} else {
			lives = append(lives, []sample{one})
		}
	}
	colours := map[string]color.Color{"files": color.RGBA{R: 200, G: 80, B: 20, A: 255}, "PostgreSQL": color.RGBA{R: 20, G: 90, B: 190, A: 255}}
	named := make(map[string]bool)
	for _, life := range lives {
		var xys plotter.XYs
		for _, one := range life {
			xys = append(xys, plotter.XY{X: one.Seconds / 60, Y: float64(of(one))})
		}
		line, err := plotter.NewLine(xys)
		if err != nil {
			return nil, fmt.Errorf("plot %q: %w", title, err)
		}
		store := life[0].Store
		line.Color, line.Width = colours[store], vg.Points(1.5)
		p.Add(line)
		if !named[store] {
			named[store] = true
			p.Legend.Add("store: "+store, line)
		}
	}
	if limit > 0 {
		line, err := plotter.NewLine(plotter.XYs{{X: 0, Y: float64(limit)}, {X: p.X.Max, Y: float64(limit)}})
		if err != nil {
			return nil, fmt.Errorf("plot %q: %w", title, err)
		}
		line.Dashes = []vg.Length{vg.Points(4), vg.Points(3)}
		p.Add(line)
		p.Legend.Add("memory_limit", line)
	}
	p.X.Min = 0
	canvas := vgimg.NewWith(vgimg.UseWH(18*vg.Centimeter, 6*vg.Centimeter), vgimg.UseDPI(120))
	p.Draw(draw.New(canvas))
	var b bytes.Buffer
	if _, err := (vgimg.PngCanvas{Canvas: canvas}).WriteTo(&b); err != nil {
		return nil, fmt.Errorf("plot %q: %w", title, err)
	}
	return b.Bytes(), nil
}
