package aggregator

import "math"

// normalCurve tabulates the normal distribution, because a plan needs some thousands of its
// values and math.Erfc takes ten times as long. Values between two entries are interpolated,
// within 1e-5.
type normalCurve [2*normalReach*normalSteps + 2]float64

const (
	normalReach = 5  // standard deviations to either side; nothing lies beyond
	normalSteps = 64 // entries for each
)

var normal = func() (c normalCurve) {
	for i := range c {
		x := float64(i)/normalSteps - normalReach
		c[i] = 0.5 * math.Erfc(-x/math.Sqrt2)
	}
	return c
}()

// below is the probability of a value below x standard deviations from the mean.
func (c *normalCurve) below(x float64) float64 {
	at := (x + normalReach) * normalSteps
	switch {
	case !(at > 0): // NaN, too
		return 0
	case at >= 2*normalReach*normalSteps:
		return 1
	}
	i := int(at)
	return c[i] + (c[i+1]-c[i])*(at-float64(i))
}
