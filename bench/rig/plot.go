package rig

import (
	"bytes"
	"fmt"
	"image/color"
	"math"
	"slices"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
)

// Plot is a plot of lines.
type Plot struct {
	Title, X, Y string
	// Logarithmic gives the x axis a logarithmic scale.
	Logarithmic bool
	Lines       []Line
	// Shaded are intervals of x with a grey background.
	Shaded [][2]float64
}

// Line is a line of a plot. Lines of the same name have one entry in the legend.
type Line struct {
	Name   string
	Points plotter.XYs
	// Color is the number of a color.
	Color  int
	Dashed bool
}

// PNG draws the plot.
func (p Plot) PNG() ([]byte, error) {
	drawn := plot.New()
	drawn.Title.Text, drawn.X.Label.Text, drawn.Y.Label.Text = p.Title, p.X, p.Y
	drawn.Title.Padding = vg.Points(4)
	drawn.Legend.Top, drawn.Legend.Left, drawn.Legend.Padding = true, true, vg.Points(3)
	names := make(map[string]bool)
	highest, ticks := 0.0, make(map[float64]string)
	for _, line := range p.Lines {
		names[line.Name] = true
		for _, point := range line.Points {
			highest = max(highest, point.Y)
			ticks[point.X] = strconv.FormatFloat(point.X, 'f', -1, 64)
		}
	}
	// Each line of the legend takes a part of the height.
	drawn.Y.Min, drawn.Y.Max = 0, max(highest/max(0.97-0.075*float64(len(names)), 0.3), 1e-9)
	drawn.X.Tick.Marker, drawn.Y.Tick.Marker = plot.TickerFunc(roundTicks), plot.TickerFunc(roundTicks)
	if p.Logarithmic {
		drawn.X.Scale = plot.LogScale{}
		drawn.X.Label.Text += " (logarithmic)"
	}
	if len(ticks) <= 10 {
		var marks plot.ConstantTicks
		for x, label := range ticks {
			marks = append(marks, plot.Tick{Value: x, Label: label})
		}
		drawn.X.Tick.Marker = marks
	}
	for _, interval := range p.Shaded {
		from, to := interval[0], interval[1]
		area, err := plotter.NewPolygon(plotter.XYs{{X: from}, {X: to}, {X: to, Y: drawn.Y.Max}, {X: from, Y: drawn.Y.Max}})
		if err != nil {
			return nil, fmt.Errorf("plot %q: %w", p.Title, err)
		}
		area.Color, area.LineStyle.Width = color.Gray{Y: 225}, 0
		drawn.Add(area)
	}
	drawn.Add(plotter.NewGrid())
	for _, one := range p.Lines {
		line, err := plotter.NewLine(one.Points)
		if err != nil {
			return nil, fmt.Errorf("plot %q: %w", p.Title, err)
		}
		line.Color, line.Width = plotutil.Color(one.Color), vg.Points(1.5)
		if one.Dashed {
			line.Dashes = []vg.Length{vg.Points(4), vg.Points(3)}
		}
		drawn.Add(line)
		if names[one.Name] {
			names[one.Name] = false
			drawn.Legend.Add(one.Name, line)
		}
	}
	canvas := vgimg.NewWith(vgimg.UseWH(16*vg.Centimeter, 9*vg.Centimeter), vgimg.UseDPI(120))
	margin := vg.Points(8)
	drawn.Draw(draw.Crop(draw.New(canvas), margin, -margin, margin, -margin))
	var b bytes.Buffer
	if _, err := (vgimg.PngCanvas{Canvas: canvas}).WriteTo(&b); err != nil {
		return nil, fmt.Errorf("plot %q: %w", p.Title, err)
	}
	return b.Bytes(), nil
}

// roundTicks returns about six ticks at round numbers.
func roundTicks(from, to float64) (ticks []plot.Tick) {
	step := math.Pow(10, math.Floor(math.Log10(to-from)))
	parts := []float64{0.1, 0.2, 0.5, 1}
	step *= parts[slices.IndexFunc(parts, func(part float64) bool { return (to-from)/(part*step) <= 10 || part == 1 })]
	for i := math.Ceil(from / step); i*step <= to; i++ {
		ticks = append(ticks, plot.Tick{Value: i * step, Label: strconv.FormatFloat(i*step, 'g', 6, 64)})
	}
	return ticks
}
