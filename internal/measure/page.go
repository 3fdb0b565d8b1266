package measure

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"strings"
)

//go:embed page.html
var pageText string

// Sizes of plots, in SVG units.
const (
	plotWidth, plotHeight = 640, 280
	barWidth              = 180
)

// page is what page.html shows.
type page struct {
	*Report
	Summary []string
	Plots   []plot
	Rows    []row
	// Scale is the time at the right end of the bars, in ms.
	Scale float64
}

// plot is lines in a coordinate system.
type plot struct {
	Title, XLabel, YLabel string
	Width, Height         float64
	XTicks, YTicks        []tick
	Lines                 []line
}

// tick is a mark on an axis.
type tick struct {
	At    float64
	Label string
}

// line is a line of a plot; Points is the attribute of an SVG polyline.
type line struct {
	Name   string
	Points string
	Class  int
}

// row is a node in the table. Median and P99 are the ends of its bar, in SVG units.
type row struct {
	*Validator
	Share               float64
	MedianText, P90Text string
	P99Text             string
	Median, P99         float64
	HasTimes            bool
	Note                string
}

// WriteHTML writes a page that refers to no other file.
func (r *Report) WriteHTML(w io.Writer) error {
	t, err := template.New("page").Parse(pageText)
	if err != nil {
		return fmt.Errorf("reading the template of the page: %w", err)
	}
	p := page{Report: r, Summary: r.summary(), Plots: []plot{r.curvePlot(), r.roundsPlot()}, Scale: r.slowest()}
	for i := range r.Validators {
		p.Rows = append(p.Rows, newRow(r, &r.Validators[i], p.Scale))
	}
	return t.Execute(w, p)
}

// slowest returns the greatest 99th percentile of a node, in ms, at least 1.
func (r *Report) slowest() float64 {
	slowest := 1.0
	for i := range r.Validators {
		if p99 := r.Validators[i].Times.P99; p99 != nil {
			slowest = max(slowest, *p99)
		}
	}
	return slowest
}

// Texts returns the times as text: median, p90 and p99.
func (q Quorum) Texts() []string {
	return []string{inMS(q.Times.Median), inMS(q.Times.P90), inMS(q.Times.P99)}
}

func newRow(r *Report, v *Validator, scale float64) row {
	one := row{
		Validator: v, Share: r.share(v.Weight), Note: strings.Join(v.Remarks(), "; "),
		MedianText: inMS(v.Times.Median), P90Text: inMS(v.Times.P90), P99Text: inMS(v.Times.P99),
	}
	if v.Times.Median != nil && v.Times.P99 != nil {
		one.HasTimes = true
		one.Median, one.P99 = barWidth**v.Times.Median/scale, barWidth**v.Times.P99/scale
	}
	return one
}

// curvePlot shows the share of the weight that had signed after a time. A point is missing if
// no round reached its share.
func (r *Report) curvePlot() plot {
	p := plot{Title: "Weight that has signed, over time", XLabel: "ms", YLabel: "% of the weight", Width: plotWidth, Height: plotHeight}
	longest := 1.0
	for _, q := range r.Subnet.Curve {
		if q.Times.P90 != nil {
			longest = max(longest, *q.Times.P90)
		}
	}
	p.XTicks, p.YTicks = ticks(longest, plotWidth, false), ticks(100, plotHeight, true)
	for i, name := range []string{"median", "p90"} {
		var points strings.Builder
		for _, q := range r.Subnet.Curve {
			if at := []*float64{q.Times.Median, q.Times.P90}[i]; at != nil {
				fmt.Fprintf(&points, "%.1f,%.1f ", plotWidth**at/longest, plotHeight*(1-float64(q.Percent)/100))
			}
		}
		p.Lines = append(p.Lines, line{name, strings.TrimSpace(points.String()), i})
	}
	return p
}

// roundsPlot shows the times to shares of the weight, by round.
func (r *Report) roundsPlot() plot {
	p := plot{Title: "Time to a share of the weight, by round", XLabel: "round", YLabel: "ms", Width: plotWidth, Height: plotHeight}
	longest := 1.0
	for i := range r.Rounds {
		for _, percent := range percentages {
			if ms, ok := r.Rounds[i].Time(percent); ok {
				longest = max(longest, ms)
			}
		}
	}
	last := float64(len(r.Rounds))
	p.XTicks, p.YTicks = ticks(last, plotWidth, false), ticks(longest, plotHeight, true)
	for n, percent := range percentages {
		var points strings.Builder
		for i := range r.Rounds {
			if ms, ok := r.Rounds[i].Time(percent); ok {
				fmt.Fprintf(&points, "%.1f,%.1f ", plotWidth*float64(i+1)/last, plotHeight*(1-ms/longest))
			}
		}
		p.Lines = append(p.Lines, line{fmt.Sprintf("%d%%", percent), strings.TrimSpace(points.String()), n})
	}
	return p
}

// ticks returns marks at round numbers from 0 to last on an axis of a length. Down says that
// the axis begins at its length.
func ticks(last, length float64, down bool) (marks []tick) {
	power := math.Pow(10, math.Floor(math.Log10(last)))
	step := power
	for _, factor := range []float64{0.5, 0.2} {
		if last/step < 4 {
			step = power * factor
		}
	}
	for i := 0; float64(i)*step <= last*1.0001; i++ {
		at := length * float64(i) * step / last
		if down {
			at = length - at
		}
		marks = append(marks, tick{at, fmt.Sprintf("%g", math.Round(float64(i)*step*1000)/1000)})
	}
	return marks
}
