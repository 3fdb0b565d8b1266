package query

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"quorate/handlers/apierr"
)

// requireMistake checks that the query was refused in the name of a parameter.
func requireMistake(t *testing.T, v *Values, message string) {
	t.Helper()
	var mistake *apierr.Error
	require.ErrorAs(t, v.Err(), &mistake)
	require.Equal(t, http.StatusBadRequest, mistake.Status)
	require.Equal(t, message, mistake.Message)
}

func TestList(t *testing.T) {
	for raw, want := range map[string][]string{
		"":                        nil,
		"other=a,b":               nil,
		"a":                       nil,
		"a=":                      nil,
		"a=,%20,":                 nil,
		"a=x":                     {"x"},
		"a=x,y":                   {"x", "y"},
		"a=x%2Cy":                 {"x", "y"},
		"a=x%2cy&a=z":             {"x", "y", "z"},
		"a=x&a=x&a=x":             {"x"},
		"a=+x+,+y%20%2C%09z":      {"x", "y", "z"},
		"a[]=x&a%5B%5D=y":         {"x", "y"},
		"a=x&a[]=y,x":             {"x", "y"},
		"%61=x":                   {"x"},
		"a=x&b=%zz&%zz=1&=5&&a=y": {"x", "y"},
		"a=x;y":                   {"x;y"},
	} {
		v := Parse(raw)
		require.Equal(t, want, v.List("a"), raw)
		require.NoError(t, v.Err(), raw)
	}
	v := Parse("a=x&a=%4")
	require.Empty(t, v.List("a"))
	requireMistake(t, v, "a: it has an invalid percent escape")
}

func TestScalars(t *testing.T) {
	v := Parse("n=007&max=18446744073709551615&yes=true&no=false&word=b&text=%2C+x&empty=")
	require.EqualValues(t, 7, v.Integer("n", 1, 10, 5))
	require.EqualValues(t, 5, v.Integer("absent", 1, 10, 5))
	require.EqualValues(t, uint64(1<<64-1), *v.Optional("max"))
	require.Nil(t, v.Optional("absent"))
	require.True(t, v.Bool("yes"))
	require.False(t, v.Bool("no"))
	require.False(t, v.Bool("absent"))
	require.Equal(t, "b", v.OneOf("word", "a", "b"))
	require.Equal(t, "a", v.OneOf("absent", "a", "b"))
	text, ok := v.Text("text")
	require.True(t, ok)
	require.Equal(t, ", x", text)
	text, ok = v.Text("empty")
	require.True(t, ok)
	require.Empty(t, text)
	require.NoError(t, v.Err())
}

func TestMistakes(t *testing.T) {
	integer := func(v *Values) { v.Integer("p", 1, 100, 10) }
	optional := func(v *Values) { v.Optional("p") }
	boolean := func(v *Values) { v.Bool("p") }
	word := func(v *Values) { v.OneOf("p", "a", "b", "c") }
	least := func(v *Values) { v.AtLeast("p") }
	for _, tt := range []struct {
		raw  string
		read func(*Values)
		want string
	}{
		{"p=", integer, `p: must be an integer from 1 to 100, got ""`},
		{"p", integer, `p: must be an integer from 1 to 100, got ""`},
		{"p=0", integer, `p: must be an integer from 1 to 100, got "0"`},
		{"p=101", integer, `p: must be an integer from 1 to 100, got "101"`},
		{"p=-1", integer, `p: must be an integer from 1 to 100, got "-1"`},
		{"p=%2B1", integer, `p: must be an integer from 1 to 100, got "+1"`},
		{"p=+1", integer, `p: must be an integer from 1 to 100, got " 1"`},
		{"p=1.0", integer, `p: must be an integer from 1 to 100, got "1.0"`},
		{"p=1e1", integer, `p: must be an integer from 1 to 100, got "1e1"`},
		{"p=0x10", integer, `p: must be an integer from 1 to 100, got "0x10"`},
		{"p=1_0", integer, `p: must be an integer from 1 to 100, got "1_0"`},
		{"p=ten", integer, `p: must be an integer from 1 to 100, got "ten"`},
		{"p=%D9%A1", integer, `p: must be an integer from 1 to 100, got "١"`},
		{"p=1&p=2", integer, "p: it is given 2 times; give it once"},
		{"p=1&p=1&p=1", integer, "p: it is given 3 times; give it once"},
		{"p=%zz", integer, "p: it has an invalid percent escape"},
		{"p=18446744073709551616", optional, `p: must be an integer from 0 to 18446744073709551615, got "18446744073709551616"`},
		{"p=", optional, `p: must be an integer from 0 to 18446744073709551615, got ""`},
		{"p=NaN", optional, `p: must be an integer from 0 to 18446744073709551615, got "NaN"`},
		{"p=1", boolean, `p: must be false or true, got "1"`},
		{"p=True", boolean, `p: must be false or true, got "True"`},
		{"p=", boolean, `p: must be false or true, got ""`},
		{"p=A", word, `p: must be a, b or c, got "A"`},
		{"p=-0.001", least, `p: must be a decimal number of at least 0, got "-0.001"`},
		{"p=", least, `p: must be a decimal number of at least 0, got ""`},
		{"p=.5", least, `p: must be a decimal number of at least 0, got ".5"`},
		{"p=5.", least, `p: must be a decimal number of at least 0, got "5."`},
		{"p=1e", least, `p: must be a decimal number of at least 0, got "1e"`},
		{"p=1e%2B-1", least, `p: must be a decimal number of at least 0, got "1e+-1"`},
		{"p=Infinity", least, `p: must be a decimal number of at least 0, got "Infinity"`},
		{"p=--1", least, `p: must be a decimal number of at least 0, got "--1"`},
		{"p=0x1p3", least, `p: must be a decimal number of at least 0, got "0x1p3"`},
	} {
		v := Parse(tt.raw)
		tt.read(v)
		requireMistake(t, v, tt.want)
	}
	v := Parse("a=x&b=y")
	v.Bool("a")
	v.Bool("b")
	requireMistake(t, v, `a: must be false or true, got "x"`)
}

func TestAtLeast(t *testing.T) {
	for text, want := range map[string]uint64{
		"0": 0, "-0": 0, "0.0": 0, "0e999": 0, "-0e-999": 0,
		"1": 1, "1.0": 1, "1.5": 2, "0.1": 1, "1e-300": 1, "1e-99999999999999999999": 1,
		"1e3": 1000, "1E%2B3": 1000, "1.5e1": 15, "1.51e1": 16, "150e-1": 15, "0.00015e5": 15,
		"18446744073709551615":                          1<<64 - 1,
		"18446744073709551614.1":                        1<<64 - 1,
		"000000000000000000000000000000000000000000001": 1,
	} {
		v := Parse("p=" + text)
		got, beyond := v.AtLeast("p")
		require.NoError(t, v.Err(), text)
		require.False(t, beyond, text)
		require.Equal(t, want, got, text)
	}
	for _, text := range []string{"18446744073709551616", "18446744073709551615.5", "1e20", "1e99999999999999999999", "99999999999999999999"} {
		v := Parse("p=" + text)
		_, beyond := v.AtLeast("p")
		require.NoError(t, v.Err(), text)
		require.True(t, beyond, text)
	}
	got, beyond := Parse("").AtLeast("p")
	require.Zero(t, got)
	require.False(t, beyond)
}
