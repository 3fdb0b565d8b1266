package main

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"

	"quorate/bench/rig"
)

// chart is a plot of figures.
type chart struct {
	file, title string // the file's name, without its end
	x, y        string // what is at the axes
	over        string // what figures are of, at the x axis
	straight    bool   // else the x axis has a logarithmic scale
	lines       []curve
}

// curve is a line of a chart: the value of figures that match.
type curve struct {
	name   string
	match  map[string]string
	value  string
	color  int
	dashed bool
}

// matches says whether figures are of what is wanted; an empty value wants those that are
// not of such a thing.
func matches(f rig.Figures, want map[string]string) bool {
	for key, value := range want {
		if f.Of[key] != value {
			return false
		}
	}
	return true
}

// points of a curve, by x.
func (c curve) points(all []rig.Figures, over string) (xys plotter.XYs, err error) {
	for _, f := range all {
		y, ok := f.Values[c.value]
		if !ok || !matches(f, c.match) {
			continue
		}
		x, err := strconv.ParseFloat(f.Of[over], 64)
		if err != nil {
			return nil, fmt.Errorf("figures of %v: %w", f.Of, err)
		}
		xys = append(xys, plotter.XY{X: x, Y: y})
	}
	slices.SortFunc(xys, func(a, b plotter.XY) int { return cmp.Compare(a.X, b.X) })
	return xys, nil
}

// png draws the chart; nil if there is nothing to draw.
func (c chart) png(all []rig.Figures) ([]byte, error) {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = c.title, c.x, c.y
	if !c.straight {
		p.X.Scale = plot.LogScale{}
		p.X.Label.Text += " (logarithmic)"
	}
	p.Legend.Top, p.Legend.Left, p.Legend.Padding = true, true, vg.Points(3)
	p.Add(plotter.NewGrid())
	seen := make(map[float64]bool)
	var ticks plot.ConstantTicks
	var highest float64
	curves := 0
	for _, one := range c.lines {
		xys, err := one.points(all, c.over)
		if err != nil {
			return nil, err
		}
		if len(xys) == 0 {
			continue
		}
		line, points, err := plotter.NewLinePoints(xys)
		if err != nil {
			return nil, fmt.Errorf("plot %s: %w", c.file, err)
		}
		line.Color, points.Color, points.Shape = plotutil.Color(one.color), plotutil.Color(one.color), draw.CircleGlyph{}
		line.Width = vg.Points(1.5)
		if one.dashed {
			line.Dashes = []vg.Length{vg.Points(4), vg.Points(3)}
		}
		p.Add(line, points)
		p.Legend.Add(one.name, line, points)
		curves++
		for _, xy := range xys {
			highest = max(highest, xy.Y)
			if !seen[xy.X] {
				seen[xy.X] = true
				ticks = append(ticks, plot.Tick{Value: xy.X, Label: strconv.FormatFloat(xy.X, 'f', -1, 64)})
			}
		}
	}
	if len(ticks) == 0 {
		return nil, nil
	}
	p.X.Tick.Marker = ticks
	// Room for the legend, a line of which takes so much of the height.
	p.Y.Min, p.Y.Max = 0, max(highest/(0.97-0.075*float64(curves)), 1e-9)
	p.Y.Tick.Marker = plot.TickerFunc(scale)
	p.Title.Padding = vg.Points(4)
	canvas := vgimg.NewWith(vgimg.UseWH(16*vg.Centimeter, 10*vg.Centimeter), vgimg.UseDPI(144))
	margin := vg.Points(8)
	p.Draw(draw.Crop(draw.New(canvas), margin, -margin, margin, -margin))
	var b bytes.Buffer
	if _, err := (vgimg.PngCanvas{Canvas: canvas}).WriteTo(&b); err != nil {
		return nil, fmt.Errorf("plot %s: %w", c.file, err)
	}
	return b.Bytes(), nil
}

// scale has about six ticks at round numbers.
func scale(from, to float64) (ticks []plot.Tick) {
	step := math.Pow(10, math.Floor(math.Log10(to-from)))
	for _, part := range []float64{0.1, 0.2, 0.5} {
		if (to-from)/(part*step) <= 8 {
			step *= part
			break
		}
	}
	for i := math.Ceil(from / step); i*step <= to; i++ {
		ticks = append(ticks, plot.Tick{Value: i * step, Label: strconv.FormatFloat(i*step, 'g', 6, 64)})
	}
	return ticks
}
