package tokens

import (
	"errors"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	for _, tt := range []struct {
		raw  string
		want string // canonical text, or the error's quoted part after "!"
	}{
		{"", ""}, {" ", ""}, {"\t  \t", ""},
		{"34", "34"}, {" 34 ", "34"}, {"0", "0"}, {"0034", "34"}, {"0.34", "34"}, {"1.34", "1.34"}, {"1.0", "1.0"},
		{"billing=34", "billing=34"}, {" billing = 34 ", "billing=34"}, {"\tbilling\t=\t1.34", "billing=1.34"},
		{"billing=34,jobs/42=35", "billing=34,jobs/42=35"}, {"34 , jobs/42=35", "34,jobs/42=35"},
		{"jobs/42=35,34", "jobs/42=35,34"}, {"34=35", "34=35"}, {"1.2=35", "1.2=35"}, {"a-b_c:d[e]{f}^g=1", "a-b_c:d[e]{f}^g=1"},
		{"9223372036854775807.9223372036854775807", "9223372036854775807.9223372036854775807"},
		{"9223372036854775808", `!"9223372036854775808"`}, {"9223372036854775808.1", `!"9223372036854775808.1"`},
		{"99999999999999999999", `!"99999999999999999999"`}, {"00000000000000000034", `!"00000000000000000034"`},
		{"-1", `!"-1"`}, {"+1", `!"+1"`}, {"1e3", `!"1e3"`}, {"0x10", `!"0x10"`}, {"1.", `!"1."`}, {".1", `!".1"`}, {".", `!"."`},
		{"1.2.3", `!"1.2.3"`}, {"1 2", `!"1 2"`}, {"1 .2", `!"1 .2"`}, {"1. 2", `!"1. 2"`}, {"34\n", `!"34?"`}, {"\n", `!"?"`}, {"\x0034", `!"?34"`},
		{"abc", `!"abc"`}, {"=34", `!"=34"`}, {" =34", `!"=34"`}, {"billing=", `!"billing="`}, {"billing", `!"billing"`},
		{"a=b=1", `!"a=b=1"`}, {"a b=1", `!"a b=1"`}, {"a'b=1", `!"a'b=1"`}, {`a\b=1`, `!"a\b=1"`}, {"caf\u00e9=1", `!"caf??=1"`}, {"a;b=1", `!"a;b=1"`}, {"a$b=1", `!"a$b=1"`}, {"a*=1", `!"a*=1"`},
		{"34,", `!""`}, {",34", `!""`}, {",", `!""`}, {"34,,35", `!""`},
		{"34,35", `!more than one token without a name`}, {"a=1,a=1", `!"a"`}, {"a=1,b=2,a=3", `!"a"`},
		{strings.Repeat("a", 200) + "=1", strings.Repeat("a", 200) + "=1"},
		{strings.Repeat("a", 201) + "=1", `!"` + strings.Repeat("a", 100) + `..."`},
		{strings.Repeat("1", 8193), `!too long`},
	} {
		l, err := Parse(tt.raw)
		if part, wantErr := strings.CutPrefix(tt.want, "!"); wantErr {
			var e *Error
			if !errors.As(err, &e) || e.Code != CodeMalformed || !strings.Contains(e.Message, part) {
				t.Errorf("Parse(%q) = %v, %v; want ZF003 with %s", tt.raw, l, err, part)
			}
			continue
		}
		if err != nil || l.String() != tt.want {
			t.Errorf("Parse(%q) = %v, %v; want %q", tt.raw, l, err, tt.want)
		}
	}
}

func TestParseToken(t *testing.T) {
	for s, ok := range map[string]bool{"34": true, "1.34": true, "": false, " 34": false, "a=34": false, "34,35": false, "1.2.3": false} {
		if _, err := ParseToken(s); (err == nil) != ok {
			t.Errorf("ParseToken(%q): %v", s, err)
		}
	}
}

func TestCompare(t *testing.T) {
	ascending := []Token{{0, 0}, {0, 1}, {0, 1<<63 - 1}, {1, 0}, {1, 12}, {2, 3}, {1<<63 - 1, 0}}
	for i, a := range ascending {
		for j, b := range ascending {
			if got := a.Compare(b); got != sign(i-j) {
				t.Errorf("%v.Compare(%v) = %d", a, b, got)
			}
		}
	}
}

func sign(n int) int { return min(1, max(-1, n)) }

func TestFor(t *testing.T) {
	for _, tt := range []struct {
		raw, fence, bare string
		want             string
	}{
		{"34", "billing", "billing", "34"}, {"34", "billing", "", "none"}, {"34", "jobs", "billing", "none"},
		{"billing=34", "billing", "", "34"}, {"billing=34", "jobs", "jobs", "none"}, {"34,jobs=35", "jobs", "billing", "35"},
		{"34,jobs=35", "billing", "billing", "34"}, {"", "billing", "billing", "none"}, {"34", "", "", "none"},
	} {
		l, _ := Parse(tt.raw)
		got := "none"
		if tok, ok := l.For(tt.fence, tt.bare); ok {
			got = tok.String()
		}
		if got != tt.want {
			t.Errorf("%q.For(%q, %q) = %s, want %s", tt.raw, tt.fence, tt.bare, got, tt.want)
		}
	}
}

func TestCheck(t *testing.T) {
	fences := []string{"billing", "jobs/42"}
	for _, tt := range []struct{ raw, bare, want string }{
		{"", "", ""}, {"billing=1,jobs/42=2", "", ""}, {"1", "billing", ""}, {"1,jobs/42=2", "billing", ""},
		{"1", "", "does not name its fence"}, {"other=1", "", `unknown fence "other"`}, {"1,billing=2", "billing", `more than one token for fence "billing"`},
	} {
		l, err := Parse(tt.raw)
		if err != nil {
			t.Fatal(err)
		}
		got := l.Check(fences, tt.bare)
		if (got == nil) != (tt.want == "") || (got != nil && (got.Code != CodeMalformed || !strings.Contains(got.Message, tt.want))) {
			t.Errorf("%q.Check(bare %q) = %v, want %q", tt.raw, tt.bare, got, tt.want)
		}
	}
}

func TestValidName(t *testing.T) {
	for name, ok := range map[string]bool{"a": true, "jobs/42": true, "a.b-c_d:e@f#g": true, "": false, "a b": false, "a,b": false, "a=b": false, "a'b": false, `a"b`: false,
		`a\b`: false, "a;b": false, "a$b": false, "a*": false, "é": false, "a\x7f": false, "a\n": false, strings.Repeat("x", 200): true, strings.Repeat("x", 201): false} {
		if err := ValidName(name); (err == nil) != ok {
			t.Errorf("ValidName(%q) = %v", name, err)
		}
	}
}

// A list that Parse accepts means the same when written canonically, and every error is ZF003 with a bounded ASCII text.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"", " ", "34", "1.34", "billing=34,jobs/42=1.7", "a=1,a=2", "9223372036854775808", "-1", "a b=1", "\xff=1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		l, err := Parse(raw)
		if err != nil {
			var e *Error
			if !errors.As(err, &e) || e.Code != CodeMalformed || len(e.Message) > 300 {
				t.Fatalf("Parse(%q): %v", raw, err)
			}
			for i := range len(e.Message) {
				if e.Message[i] < ' ' || e.Message[i] > '~' {
					t.Fatalf("Parse(%q): message is not printable ASCII: %q", raw, e.Message)
				}
			}
			return
		}
		again, err := Parse(l.String())
		if err != nil || len(again) != len(l) {
			t.Fatalf("Parse(%q) = %v; Parse of its text = %v, %v", raw, l, again, err)
		}
		for i := range l {
			if l[i] != again[i] || (l[i].Fence != "" && ValidName(l[i].Fence) != nil) || l[i].Token.Epoch < 0 || l[i].Token.Counter < 0 {
				t.Fatalf("Parse(%q) = %v; Parse of its text = %v", raw, l, again)
			}
		}
	})
}
