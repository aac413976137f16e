package rewrite

import (
	"fmt"
	"testing"
	"unicode/utf8"

	pg "github.com/pganalyze/pg_query_go/v6"
)

func lexAll(sql []byte) (tokens []token, fail lexFailure) {
	for i := 0; ; {
		if i, fail = skipBlank(sql, i); fail != "" || i >= len(sql) {
			return tokens, fail
		}
		t, fail := lexToken(sql, i)
		if fail != "" {
			return tokens, fail
		}
		tokens = append(tokens, t)
		i = int(t.end)
	}
}

// compareWithScan is the oracle of the lexer: libpg_query's own scanner.
func compareWithScan(sql string) error {
	tokens, fail := lexAll([]byte(sql))
	r, err := pg.Scan(sql)
	if err != nil {
		for _, t := range tokens { // a value may be refused whose end is clear
			if t.kind == riskyEscape || t.kind == uString || t.kind == uQuoted || t.kind == otherInt || t.kind == param {
				return nil
			}
		}
		if fail == "" {
			return fmt.Errorf("scan.l says %v, we say nothing", err)
		}
		return nil
	}
	if fail != "" {
		if onPurpose([]byte(sql)) || depthBound([]byte(sql), tokens) > maxDepth {
			return nil
		}
		if _, err := pg.Parse(sql); err == nil {
			return fmt.Errorf("we fail (%s), the grammar does not", fail)
		}
		return nil
	}
	i := 0
	for _, want := range r.Tokens {
		if want.Token == pg.Token_SQL_COMMENT || want.Token == pg.Token_C_COMMENT {
			continue
		}
		if i >= len(tokens) {
			return fmt.Errorf("token %d is missing: %q", i, sql[want.Start:want.End])
		}
		if t := tokens[i]; t.start != want.Start || t.end != want.End {
			return fmt.Errorf("token %d is %q, for scan.l %q (%v)", i, sql[t.start:t.end], sql[want.Start:want.End], want.Token)
		}
		if k, ok := scanKinds[want.Token]; ok && (tokens[i].kind == litInt) != k {
			return fmt.Errorf("token %d %q is %v for scan.l", i, sql[want.Start:want.End], want.Token)
		}
		i++
	}
	if i != len(tokens) {
		return fmt.Errorf("token %d is too much: %q", i, sql[tokens[i].start:tokens[i].end])
	}
	return nil
}

// onPurpose: what libpg_query reads and we refuse. It takes $1a for two tokens as servers before 15 do; newer ones do not.
func onPurpose(sql []byte) bool {
	tokens, fail := lexAll(sql)
	at := 0
	if len(tokens) > 0 {
		at = int(tokens[len(tokens)-1].end)
	}
	at, _ = skipBlank(sql, at)
	return fail == lexStringComment || fail == lexNumber && sql[at] == '$'
}

// scanKinds says which tokens of numbers are ICONST: whether a number is one decides what the grammar accepts.
var scanKinds = map[pg.Token]bool{pg.Token_FCONST: false}

func TestLexerAgreesWithScan(t *testing.T) {
	for _, sql := range corpus() {
		if err := compareWithScan(sql); err != nil {
			t.Errorf("%q: %v", sql, err)
		}
	}
}

func FuzzLexerAgreesWithScan(f *testing.F) {
	for _, sql := range corpus() {
		f.Add(sql)
	}
	f.Fuzz(func(t *testing.T, sql string) {
		if !scannable(sql) {
			return
		}
		if err := compareWithScan(sql); err != nil {
			t.Errorf("%q: %v", sql, err)
		}
	})
}

// scannable: longer or undecodable texts never reach the scanner; NUL ends its string.
func scannable(sql string) bool {
	if len(sql) > 10000 || !utf8.ValidString(sql) {
		return false
	}
	for i := range len(sql) {
		if sql[i] == 0 {
			return false
		}
	}
	return true
}

func TestLexerKinds(t *testing.T) {
	for _, tt := range []struct {
		sql  string
		want []tokenKind
	}{
		{`'a' E'a' E'\n' E'\x41' E'\1' E'\u0041'`, []tokenKind{litString, litEscape, litEscape, riskyEscape, riskyEscape, riskyEscape}},
		{`B'1' X'f' N'a' U&'a' U&"a" "a" a`, []tokenKind{litBit, litHex, nchar, litString, uString, uQuoted, quoted, word}},
		{`1 2147483647 2147483648 1.5 1e5 0x1 1_0 $1 $$a$$`, []tokenKind{litInt, litInt, litFloat, litFloat, litFloat, otherInt, otherInt, param, litDollar}},
		{`a.b::c:=d..e`, []tokenKind{word, punct, word, punct, word, punct, word, punct, word}},
		{`a||b`, []tokenKind{word, operator, word}},
	} {
		tokens, fail := lexAll([]byte(tt.sql))
		if fail != "" || len(tokens) != len(tt.want) {
			t.Errorf("%s: %d tokens %s", tt.sql, len(tokens), fail)
			continue
		}
		for i := range tokens {
			if tokens[i].kind != tt.want[i] {
				t.Errorf("%s: token %d is of kind %d, want %d", tt.sql, i, tokens[i].kind, tt.want[i])
			}
		}
	}
}

// A quarter of a megabyte of escapes, quotes, comments or blanks must cost linear time.
func TestLexerIsLinear(t *testing.T) {
	for _, unit := range []string{`\\`, `''`, ` `, "\n", `/*`, `*`, `--`, `"`, `$a`, `$`, `'`, "'\n", `E'\`, "a", "1", "+", "("} {
		for _, prefix := range []string{"", "E'", "'", `"`, "/*", "$a$", "'a'"} {
			sql := make([]byte, 0, 1<<18)
			sql = append(sql, prefix...)
			for len(sql) < 1<<18-2 {
				sql = append(sql, unit...)
			}
			lexAll(sql) // the test's own timeout is the check: quadratic would take hours
		}
	}
}
