package tokens

import (
	"slices"
	"testing"
)

func TestMatches(t *testing.T) {
	for _, c := range []struct {
		fence, name string
		want        bool
	}{
		{"jobs", "jobs", true},
		{"jobs", "jobs/42", false},
		{"jobs/*", "jobs/42", true},
		{"jobs/*", "jobs/42/a", true},
		{"jobs/*", "jobs/", false}, // * stands for something
		{"jobs/*", "jobs", false},
		{"*/eu", "jobs/eu", true},
		{"a*a", "aa", false},
		{"a*a", "aba", true},
		{"a*b", "ab", false},
		{"a*bb", "abb", false},
	} {
		if got := Matches(c.fence, c.name); got != c.want {
			t.Errorf("Matches(%q, %q) = %t", c.fence, c.name, got)
		}
	}
}

func TestValidFence(t *testing.T) {
	for name, valid := range map[string]bool{"jobs": true, "jobs/*": true, "*/eu": true, "*": false, "a**": false, "a*b*": false, "": false, "a b*": false, "a'*": false} {
		if err := ValidFence(name); (err == nil) != valid {
			t.Errorf("ValidFence(%q): %v", name, err)
		}
	}
}

func TestCheckOfPatterns(t *testing.T) {
	fences := []string{"billing", "jobs/*"}
	for raw, code := range map[string]string{
		"jobs/42=1": "", "jobs/42=1,jobs/43=2,billing=3": "", "jobs=1": CodeMalformed, "jobs/=1": CodeMalformed, "1": CodeMalformed,
	} {
		l, err := Parse(raw)
		if err != nil {
			t.Fatal(raw, err)
		}
		got := ""
		if e := l.Check(fences, ""); e != nil {
			got = e.Code
		}
		if got != code {
			t.Errorf("%s: %q, want %q", raw, got, code)
		}
	}
	l, _ := Parse("jobs/42=1,billing=2,jobs/43=3,7")
	if got := slices.Collect(l.Named("jobs/*")); !slices.Equal(got, []int{0, 2}) {
		t.Errorf("named: %v", got)
	}
}
