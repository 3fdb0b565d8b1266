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
		v := Parse(raw, []Parameter{{Name: "a", Kind: Commas}})
		require.Equal(t, want, v.List("a"), raw)
		require.NoError(t, v.Err(), raw)
	}
	v := Parse("a=x&a=%4", []Parameter{{Name: "a", Kind: Commas}})
	require.Empty(t, v.List("a"))
	requireMistake(t, v, "a: it has an invalid percent escape")
}

func TestScalars(t *testing.T) {
	v := Parse("n=007&max=18446744073709551615&yes=true&no=false&word=b&text=%2C+x&empty=", []Parameter{
		{Name: "n", Kind: Integer, Min: 1, Max: 10}, {Name: "absent", Kind: Integer}, {Name: "usual", Kind: Integer, Min: 1, Max: 10, Default: "5"},
		{Name: "max", Kind: Integer}, {Name: "yes", Kind: Boolean}, {Name: "no", Kind: Boolean}, {Name: "off", Kind: Boolean, Default: "false"},
		{Name: "word", OneOf: []string{"a", "b"}}, {Name: "first", OneOf: []string{"a", "b"}, Default: "a"}, {Name: "any", OneOf: []string{"a", "b"}},
		{Name: "text"}, {Name: "empty"},
	})
	require.EqualValues(t, 7, v.Integer("n"))
	require.EqualValues(t, 5, v.Integer("usual"))
	require.Zero(t, v.Integer("absent"))
	require.EqualValues(t, uint64(1<<64-1), *v.Optional("max"))
	require.Nil(t, v.Optional("absent"))
	require.True(t, v.Bool("yes"))
	require.False(t, v.Bool("no"))
	require.False(t, v.Bool("off"))
	require.Equal(t, "b", v.OneOf("word"))
	require.Equal(t, "a", v.OneOf("first"))
	require.Empty(t, v.OneOf("any"))
	text, ok := v.Text("text")
	require.True(t, ok)
	require.Equal(t, ", x", text)
	text, ok = v.Text("empty")
	require.True(t, ok)
	require.Empty(t, text)
	require.NoError(t, v.Err())
}

func TestMistakes(t *testing.T) {
	type form struct {
		Parameter
		read func(*Values)
	}
	integer := form{Parameter{Kind: Integer, Min: 1, Max: 100, Default: "10"}, func(v *Values) { v.Integer("p") }}
	required := form{Parameter{Kind: Integer, Required: true}, integer.read}
	optional := form{Parameter{Kind: Integer}, func(v *Values) { v.Optional("p") }}
	boolean := form{Parameter{Kind: Boolean}, func(v *Values) { v.Bool("p") }}
	word := form{Parameter{OneOf: []string{"a", "b", "c"}}, func(v *Values) { v.OneOf("p") }}
	least := form{Parameter{Kind: Number}, func(v *Values) { v.AtLeast("p") }}
	list := form{Parameter{Kind: Array, Item: "letter", OneOf: []string{"a", "b"}}, func(v *Values) { v.List("p") }}
	needed := form{Parameter{Kind: Commas, Item: "letter", Required: true}, list.read}
	for _, tt := range []struct {
		raw string
		form
		want string
	}{
		{"q=1", required, "p: is missing; give an integer from 0 to 18446744073709551615"},
		{"", form{required.Parameter, optional.read}, "p: is missing; give an integer from 0 to 18446744073709551615"},
		{"p=1&p=2", optional, "p: it is given 2 times; give it once"},
		{"p=%zz", optional, "p: it has an invalid percent escape"},
		{"p=,", needed, "p: is missing; give at least one letter, several separated by commas"},
		{"p=a,c", list, `p: "c" is no letter; use a, b`},
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
		tt.Name = "p"
		v := Parse(tt.raw, []Parameter{tt.Parameter})
		tt.read(v)
		requireMistake(t, v, tt.want)
	}
	v := Parse("a=x&b=y", []Parameter{{Name: "a", Kind: Boolean}, {Name: "b", Kind: Boolean}})
	v.Bool("a")
	v.Bool("b")
	requireMistake(t, v, `a: must be false or true, got "x"`)
}

// A handler can only read what its operation declares.
func TestUndeclared(t *testing.T) {
	require.PanicsWithValue(t, `parameter "p" is read but not declared`, func() { Parse("", nil).Optional("p") })
}

func TestAtLeast(t *testing.T) {
	number := []Parameter{{Name: "p", Kind: Number}}
	for text, want := range map[string]uint64{
		"0": 0, "-0": 0, "0.0": 0, "0e999": 0, "-0e-999": 0,
		"1": 1, "1.0": 1, "1.5": 2, "0.1": 1, "1e-300": 1, "1e-99999999999999999999": 1,
		"1e3": 1000, "1E%2B3": 1000, "1.5e1": 15, "1.51e1": 16, "150e-1": 15, "0.00015e5": 15,
		"18446744073709551615":                          1<<64 - 1,
		"18446744073709551614.1":                        1<<64 - 1,
		"000000000000000000000000000000000000000000001": 1,
	} {
		v := Parse("p="+text, number)
		got, beyond := v.AtLeast("p")
		require.NoError(t, v.Err(), text)
		require.False(t, beyond, text)
		require.Equal(t, want, got, text)
	}
	for _, text := range []string{"18446744073709551616", "18446744073709551615.5", "1e20", "1e99999999999999999999", "99999999999999999999"} {
		v := Parse("p="+text, number)
		_, beyond := v.AtLeast("p")
		require.NoError(t, v.Err(), text)
		require.True(t, beyond, text)
	}
	got, beyond := Parse("", number).AtLeast("p")
	require.Zero(t, got)
	require.False(t, beyond)
}
