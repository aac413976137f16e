package wire

import (
	"slices"
	"testing"
)

// optionCases hold what a PostgreSQL backend makes of an options value; TestOptionsServer asks a real one.
var optionCases = []struct {
	in      string
	want    []Param
	refused bool
}{
	{in: ""},
	{in: "   "},
	{in: "-c a.b=34", want: []Param{{"a.b", "34"}}},
	{in: "-ca.b=34", want: []Param{{"a.b", "34"}}},
	{in: "--a.b=34", want: []Param{{"a.b", "34"}}},
	{in: "\t-c\n a.b=34\r\v\f", want: []Param{{"a.b", "34"}}},
	{in: "-c a.b=34 -c a.b=35", want: []Param{{"a.b", "34"}, {"a.b", "35"}}},
	{in: "-c a.b=", want: []Param{{"a.b", ""}}},
	{in: "-c a.b=x=y", want: []Param{{"a.b", "x=y"}}},
	{in: `-c a.b=1\ 2`, want: []Param{{"a.b", "1 2"}}},
	{in: `-c a.b=1\\2`, want: []Param{{"a.b", `1\2`}}},
	{in: `-c a.b=\12`, want: []Param{{"a.b", "12"}}},
	{in: `-c a.b=12\`, want: []Param{{"a.b", "12"}}},
	{in: `-c a.b="1"`, want: []Param{{"a.b", `"1"`}}},
	{in: `-c a.b='1 2'`, refused: true},
	{in: "-c a.x-y=1", want: []Param{{"a.x_y", "1"}}},
	{in: "--a.x-y=1-2", want: []Param{{"a.x_y", "1-2"}}},
	{in: "-c", refused: true},
	{in: "-c a.b", refused: true},
	{in: "--a.b 34", refused: true},
	{in: "--a.b", refused: true},
	{in: "-c --a.b=1", want: []Param{{"__a.b", "1"}}},
	{in: "a.b=34", refused: true},
	{in: "x -c a.b=34", want: []Param{{"a.b", "34"}}, refused: true},
	{in: "--", want: nil},
	{in: "-c a.b=1 --", want: []Param{{"a.b", "1"}}},
	{in: "-c a.b=1 -- -c a.b=2", want: []Param{{"a.b", "1"}}, refused: true},
	{in: "-", refused: true},
	{in: `\`, refused: true},
	{in: `\-c a.b=1`, want: []Param{{"a.b", "1"}}},
	{in: "-ec a.b=1", want: []Param{{"a.b", "1"}}},
	{in: "-e -ca.b=1", want: []Param{{"a.b", "1"}}},
	{in: "-S 1024 -c a.b=1", want: []Param{{"a.b", "1"}}},
	{in: "-S1024 --a.b=1", want: []Param{{"a.b", "1"}}},
	{in: "-e--a.b=1", want: []Param{{"_a.b", "1"}}},
	{in: "-z", refused: true},
	{in: "-: 1", refused: true},
	{in: "-c a.b=ä\u00a0ö", want: []Param{{"a.b", "ä\u00a0ö"}}},
}

func TestOptions(t *testing.T) {
	for _, c := range optionCases {
		got, ok := Options(c.in)
		if ok == c.refused || (ok && !slices.Equal(got, c.want)) {
			t.Errorf("%q: got %q %v, want %q, refused %v", c.in, got, ok, c.want, c.refused)
		}
	}
}

func FuzzOptions(f *testing.F) {
	for _, c := range optionCases {
		f.Add(c.in)
	}
	f.Fuzz(func(t *testing.T, in string) {
		params, _ := Options(in)
		n := 0
		for _, p := range params {
			n += len(p.Name) + 1 + len(p.Value)
		}
		if n > len(in) {
			t.Fatalf("%q: made %q", in, params)
		}
	})
}
