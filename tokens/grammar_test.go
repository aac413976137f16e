package tokens

import (
	"errors"
	"math/rand"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/jackc/pgx/v5/pgconn"
)

// databaseParse is fence.parse as this package's types.
func databaseParse(t *testing.T, s *session, raw string) (l List, e *Error) {
	var names []string
	var epochs, counters []int64
	err := s.QueryRow(ctx, "SELECT names, epochs, counters FROM fence.parse($1)", raw).Scan(&names, &epochs, &counters)
	var pe *pgconn.PgError
	if errors.As(err, &pe) {
		return nil, &Error{Code: pe.Code, Message: pe.Message, Hint: pe.Hint}
	}
	if err != nil {
		t.Fatalf("%q: %v", raw, err)
	}
	for i := range names {
		l = append(l, Item{names[i], Token{epochs[i], counters[i]}})
	}
	return l, nil
}

// sameParse: what one accepts, so does the other, as the same list; their errors read the same.
func sameParse(t *testing.T, s *session, raw string) {
	t.Helper()
	if !utf8.ValidString(raw) || strings.ContainsRune(raw, 0) {
		return // cannot be a setting of a UTF8 database
	}
	ours, err := Parse(raw)
	theirs, theirError := databaseParse(t, s, raw)
	var ourError *Error
	if errors.As(err, &ourError) != (theirError != nil) || ours.String() != theirs.String() {
		t.Fatalf("%.100q: Go %v, %v; database %v, %v", raw, ours, err, theirs, theirError)
	}
	if ourError == nil {
		return
	}
	ascii := len(raw) == utf8.RuneCountInString(raw) // else bytes and characters are shown alike, not in like number
	if ourError.Code != theirError.Code || (ascii && (ourError.Message != theirError.Message || ourError.Hint != theirError.Hint)) {
		t.Fatalf("%.100q: Go %v; database %v", raw, ourError, theirError)
	}
}

var grammarSeeds = []string{"", " ", "\t", "34", " 34 ", "1.34", "0034", "billing=34", " billing = 1.34 ,jobs/42=7", "34,jobs/42=1", "a=1,a=2", "1,2", "34,", ",", "=1", "a=", "a b=1", "a'b=1",
	`a\b=1`, "é=1", "１", "a[]=1", "[.a.]=1", "^-]=1", "[=1", "]=1", "-1", "+1", "1e3", "1.", ".1", "1.2.3", "1 .2", "9223372036854775807", "9223372036854775808", "9999999999999999999", "99999999999999999999",
	"00000000000000000001", "9223372036854775808.1", "34\n", "\n34", "a\n=1", "a=1\n", "34\v", "34\u00a0", strings.Repeat("a", 200) + "=1", strings.Repeat("a", 201) + "=1", strings.Repeat("x", 99) + "é",
	strings.Repeat("1", 101), strings.Repeat("1,", 4000), strings.Repeat(" ", 8192), strings.Repeat(" ", 8193), strings.Repeat("9", 8193), "a=1,b=2,c=3,a=4", "a==1", "a=1=2", "*=1", "a;=1", "$1=1", "a=1;", "'34'", "~=1", "\x7f=1"}

func TestGrammarIsTheDatabases(t *testing.T) {
	w := newWorld(t)
	for _, raw := range grammarSeeds {
		sameParse(t, w.su, raw)
	}
	random := rand.New(rand.NewSource(1))
	const alphabet = "  \t,,==..0123456789aZ/'\\-[]^\n"
	for range 3000 {
		b := make([]byte, random.Intn(12))
		for i := range b {
			b[i] = alphabet[random.Intn(len(alphabet))]
		}
		sameParse(t, w.su, string(b))
	}
}

func FuzzGrammarIsTheDatabases(f *testing.F) {
	for _, s := range grammarSeeds {
		f.Add(s)
	}
	w := newWorld(f)
	f.Fuzz(func(t *testing.T, raw string) { sameParse(t, w.su, raw) })
}
