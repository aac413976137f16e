package relay

import (
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/fenceproxy/fenceproxy/rewrite"
	"github.com/fenceproxy/fenceproxy/tokens"
	"github.com/fenceproxy/fenceproxy/wire"
)

// rowsConfig fences acct by a row token.
func rowsConfig(t testing.TB, mode rewrite.OnStale, name, column string) *Config {
	t.Helper()
	bare := !tokens.IsPattern(name)
	a, err := rewrite.New(rewrite.Config{Fences: []rewrite.Fence{{Name: name, Tables: []string{"acct"}, RowToken: column, OnStale: mode, BareToken: bare}}})
	if err != nil {
		t.Fatal(err)
	}
	c := &Config{Analyzer: a, Fences: []string{name}, Shadow: &ShadowMarks{}}
	if bare {
		c.Bare = name
	}
	return c
}

// texts are those of the Parse and Query messages that the engine has sent, its own left out.
func (c *talk) texts() (list []string) {
	b := joined(c.out.ToServer)
	for len(b) > 0 {
		typ, size, _ := wire.Frame(b)
		body := b[wire.HeaderLen:size]
		b = b[size:]
		switch typ {
		case 'Q':
			list = append(list, strings.ReplaceAll(string(body[:len(body)-1]), c.e.reserved.prefix, "_"))
		case 'P':
			if m, _ := wire.DecodeParse(body); !c.e.reserved.owns(m.Name) {
				list = append(list, string(m.SQL))
			}
		}
	}
	return list
}

// What stands for %T, %F and %S in the texts below: the session's token, the test of a row, the stamp that checks it; with
// a 1 the same where the statement looks for rows by the value of a column.
var rowWords = strings.NewReplacer(
	"%1T", "fence.row_fitting('billing', true)",
	"%1F", `fence.row_fits("tok", 'billing', true)`,
	"%1S", `fence.row_claim("tok", 'billing', true)`,
	"%T", "(SELECT fence.row_token('billing', true))",
	"%N", "fence.row_token('billing', true)",
	"%F", `COALESCE("acct"."tok", 0) OPERATOR(pg_catalog.<=) (SELECT fence.row_token('billing', true))`,
	"%S", `fence.row_stamp("acct"."tok", (SELECT fence.row_token('billing', true)), 'billing')`)

// I1. What the server gets is the statement with its check, by Query and by Parse; literals and comments are the client's.
func TestI1RowTokensAreInWhatTheServerGets(t *testing.T) {
	for _, k := range []struct{ sql, rewrite, reject string }{
		{"UPDATE acct SET bal = 1 -- é\n WHERE id = 'é'", "UPDATE acct SET \"tok\" = %1T, bal = 1 -- é\n WHERE id = 'é' AND %1F", "UPDATE acct SET \"tok\" = %1S, bal = 1 -- é\n WHERE id = 'é'"},
		{"INSERT INTO acct (id) VALUES (1), ($2)", `INSERT INTO acct (id, "tok") VALUES (1, %N), ($2, %N)`, `INSERT INTO acct (id, "tok") VALUES (1, %N), ($2, %N)`},
		{"PREPARE p AS UPDATE acct SET bal = $1", `PREPARE p AS UPDATE acct SET "tok" = %T, bal = $1 WHERE %F`, `PREPARE p AS UPDATE acct SET "tok" = %S, bal = $1`},
		{"EXPLAIN ANALYZE UPDATE acct SET bal = 1", `EXPLAIN ANALYZE UPDATE acct SET "tok" = %T, bal = 1 WHERE %F`, `EXPLAIN ANALYZE UPDATE acct SET "tok" = %S, bal = 1`},
		{"WITH u AS (UPDATE acct SET bal = 1 RETURNING id) SELECT id FROM u", `WITH u AS (UPDATE acct SET "tok" = %T, bal = 1 WHERE %F RETURNING id) SELECT id FROM u`, `WITH u AS (UPDATE acct SET "tok" = %S, bal = 1 RETURNING id) SELECT id FROM u`},
		{"SELECT bal FROM acct", "SELECT bal FROM acct", "SELECT bal FROM acct"},
		{"UPDATE other SET bal = 1", "UPDATE other SET bal = 1", "UPDATE other SET bal = 1"},
	} {
		for mode, wanted := range map[rewrite.OnStale]string{rewrite.StaleRewrite: k.rewrite, rewrite.StaleReject: k.reject} {
			c := newTalk(t, rowsConfig(t, mode, "billing", "tok"), "34")
			c.client("P s|"+k.sql, "S")
			same(t, "Parse", strings.Join(c.texts(), "|"), rowWords.Replace(wanted))
			c.server("1", "Z I")
			c.client("Q " + k.sql)
			got := strings.Join(c.texts(), "|")
			if i := strings.LastIndex(got, simpleGuard); i >= 0 {
				got = got[i+len(simpleGuard):]
			} else if strings.HasPrefix(got, "SELECT fence.guard1(") {
				_, got, _ = strings.Cut(got, ";")
			}
			same(t, "Query", got, rowWords.Replace(wanted))
		}
	}
}

// observe and off send each text as it is.
func TestRowTokensOnlyWhereFencesAreEnforced(t *testing.T) {
	for _, mode := range []Mode{ModeObserve, ModeOff} {
		for _, stale := range []rewrite.OnStale{rewrite.StaleReject, rewrite.StaleRewrite} {
			cfg := rowsConfig(t, stale, "billing", "tok")
			cfg.Mode = mode
			c := newTalk(t, cfg, "34")
			for _, sql := range []string{writeSQL, "DELETE FROM acct", "INSERT INTO acct (id) VALUES (1)", "INSERT INTO acct SELECT * FROM acct", "SELECT 1; " + writeSQL} {
				for _, messages := range [][]string{{"Q " + sql}, {"P |" + sql, "B |", "D P|", "E", "S"}} {
					var in []byte
					for _, m := range messages {
						in = append(in, frontend(nil, m)...)
					}
					c.client(messages...)
					if got := joined(c.out.ToServer); string(got) != string(in) {
						t.Errorf("mode %d: %q became %q", mode, in, got)
					}
				}
			}
		}
	}
}

// I1. Under rewrite the statement holds its check itself and needs no guard; new rows of a named token need one, and
// reject has one in any case. Each Execute, each statement of a string.
func TestI1GuardsOfRowFences(t *testing.T) {
	const insert = "INSERT INTO acct (id) VALUES (1)"
	for _, k := range []struct {
		mode         rewrite.OnStale
		name, token  string
		update, make string
	}{
		{rewrite.StaleRewrite, "billing", "34", "P B E S", "P B E S"},
		{rewrite.StaleRewrite, "billing", "billing=34", "P B E S", "P B guard E S"},
		{rewrite.StaleReject, "billing", "34", "P B guard E S", "P B guard E S"},
		{rewrite.StaleRewrite, "jobs/*", "jobs/1=34", "P B E S", "P B guard E S"},
		{rewrite.StaleReject, "jobs/*", "jobs/1=34", "P B guard E S", "P B guard E S"},
		{rewrite.StaleReject, "jobs/*", "jobs/1=34,jobs/2=35", "P B guard E S", "P B guard E S"},
	} {
		for sql, wanted := range map[string]string{writeSQL: k.update, insert: k.make, "DELETE FROM acct": k.update} {
			c := rowTalk(t, rowsConfig(t, k.mode, k.name, "tok"), k.token)
			same(t, k.name+" "+k.token+" "+sql, c.client("P |"+sql, "B |", "E", "S"), wanted)
		}
	}
}

// rowTalk is newTalk for tokens of any name.
func rowTalk(t testing.TB, cfg *Config, token string) *talk {
	t.Helper()
	c := &talk{t: t, e: NewEngine(cfg, nil, Startup{Token: token, User: "app", Database: "shop"})}
	c.server("R0", "S client_encoding=UTF8", "S standard_conforming_strings=on", "Z I")
	c.server("T", "D "+token+"|shop|7|f|app", "C SELECT 1")
	c.server("Z I")
	c.announced(token)
	return c
}

// announced answers the announcement of a token: marks are numbered from 5.
func (c *talk) announced(token string) {
	c.t.Helper()
	list, err := tokens.Parse(token)
	if err != nil {
		c.t.Fatal(err)
	}
	var marks []tokens.Mark
	for i, n := range list {
		if n.Fence == "" {
			n.Fence = c.e.cfg.Bare
		}
		marks = append(marks, tokens.Mark{ID: int32(5 + i), Name: n.Fence, Token: n.Token})
	}
	c.out.Reset()
	c.e.Announced(marks, nil, &c.out)
}

// I2. A statement that was parsed under one token is guarded by the mark of the one under which it is executed.
func TestI2PreparedUnderOneTokenExecutedUnderAnother(t *testing.T) {
	c := rowTalk(t, rowsConfig(t, rewrite.StaleReject, "jobs/*", "tok"), "jobs/1=34")
	same(t, "under jobs/1", c.client("P w|"+writeSQL, "B |w", "E", "S"), "P B guard E S")
	if sent := string(joined(c.out.ToServer)); !strings.Contains(sent, "jobs/1") {
		t.Errorf("no guard of jobs/1 in %q", sent)
	}
	c.server(append(append([]string{"1", "2"}, guardReplies(true)...), "C UPDATE 1", "Z I")...)
	c.client("Q SET fence.token = 'jobs/2=34'")
	if c.out.Effect != EffectAnnounce {
		t.Fatalf("effect %v", c.out.Effect)
	}
	c.out.Reset()
	c.e.Announced([]tokens.Mark{{ID: 9, Name: "jobs/2", Token: mustToken("34")}}, nil, &c.out)
	c.client("Q SET fence.token = 'jobs/2=34'")
	c.server("C SET", "Z I")
	same(t, "under jobs/2", c.client("B |w", "E", "S"), "B guard E S")
	sent := string(joined(c.out.ToServer))
	if strings.Contains(sent, "jobs/1") || !strings.Contains(sent, "jobs/2") && !strings.Contains(sent, "guard_pattern") {
		t.Errorf("the guard is not that of jobs/2: %q", sent)
	}
}

// I5. A text that cannot be given its row tokens is parsed, and nothing executes it: not by its name, not through a portal,
// not through another statement.
func TestI5RefusedTextIsNeverExecuted(t *testing.T) {
	const refused = "UPDATE acct SET tok = 3 RETURNING id"
	for _, k := range []struct {
		name  string
		setup []string
		run   []string
	}{
		{"Query", nil, []string{"Q " + refused}},
		{"in a string", nil, []string{"Q SELECT 1; " + refused + "; SELECT 2"}},
		{"PREPARE", nil, []string{"Q PREPARE p AS " + refused}},
		{"EXPLAIN ANALYZE", nil, []string{"Q EXPLAIN ANALYZE " + refused}},
		{"in a CTE", nil, []string{"Q WITH w AS (" + refused + ") SELECT * FROM w"}},
		{"COPY", nil, []string{"Q COPY (" + refused + ") TO STDOUT"}},
		{"Execute", []string{"P r|" + refused}, []string{"B |r", "E", "S"}},
		{"EXECUTE", []string{"P r|" + refused}, []string{"Q EXECUTE r"}},
		{"EXPLAIN ANALYZE EXECUTE", []string{"P r|" + refused}, []string{"Q EXPLAIN ANALYZE EXECUTE r"}},
		{"CREATE TABLE AS EXECUTE", []string{"P r|" + refused}, []string{"Q CREATE TABLE x AS EXECUTE r"}},
		{"EXECUTE of EXECUTE", []string{"P r|" + refused, "P e|EXECUTE r"}, []string{"Q EXECUTE e"}},
		{"EXECUTE of EXPLAIN ANALYZE EXECUTE", []string{"P r|" + refused, "P e|EXPLAIN ANALYZE EXECUTE r"}, []string{"Q EXECUTE e"}},
		{"EXECUTE of EXECUTE of EXECUTE", []string{"P r|" + refused, "P e|EXECUTE r", "P f|EXECUTE e"}, []string{"B |f", "E", "S"}},
		{"EXECUTE of PREPARE", []string{"P e|PREPARE r AS " + refused}, []string{"Q EXECUTE e"}},
		{"FETCH", []string{"P r|" + refused, "B c|r"}, []string{"Q FETCH ALL FROM c"}},
		{"FETCH from EXECUTE", []string{"P r|" + refused, "P e|EXECUTE r", "B c|e"}, []string{"Q FETCH ALL FROM c"}},
		{"MOVE from EXECUTE, executed", []string{"P r|" + refused, "P e|EXECUTE r", "B c|e"}, []string{"P |MOVE ALL FROM c", "B |", "E", "S"}},
		{"FETCH by EXECUTE", []string{"P r|" + refused, "B c|r", "P e|FETCH ALL FROM c"}, []string{"Q EXECUTE e"}},
	} {
		for _, mode := range []rewrite.OnStale{rewrite.StaleReject, rewrite.StaleRewrite} {
			c := newTalk(t, rowsConfig(t, mode, "billing", "tok"), "34")
			c.client("Q BEGIN")
			c.server("C BEGIN", "Z T")
			for _, m := range k.setup {
				c.client(m)
				c.server(map[byte]string{'P': "1", 'B': "2"}[m[0]])
			}
			c.client("S")
			c.server("Z T")
			sent := c.client(k.run...)
			if got := strings.Fields(sent); len(got) < 1 || !strings.Contains(sent, "poison") && !strings.HasPrefix(sent, "Q(refused") {
				t.Errorf("mode %d, %s: sent %s", mode, k.name, sent)
			}
		}
	}
}

// Names that lead to each other, in circles and in long chains, are looked at once each.
func TestI5StatementsThatExecuteOneAnother(t *testing.T) {
	c := newTalk(t, rowsConfig(t, rewrite.StaleRewrite, "billing", "tok"), "34")
	for i := range 200 {
		c.client(fmt.Sprintf("P s%d|EXECUTE s%d", i, i+1), "S")
		c.server("1", "Z I")
	}
	same(t, "a long chain", c.client("B |s0", "E", "S"), "B poison S")
	c = newTalk(t, rowsConfig(t, rewrite.StaleRewrite, "billing", "tok"), "34")
	for range 2 {
		for i := range 30 {
			c.client(fmt.Sprintf("P s%d|EXECUTE s%d", i, (i+1)%30), "S")
		}
	}
	same(t, "circles in doubt", c.client("B |s0", "E", "S"), "B guard E S")
}

// Positions in errors and notices are those of the client's text, in characters; one in what was put in is left out.
func TestPositionsOfSplicedTexts(t *testing.T) {
	insert := "INSERT INTO acct (id, note) VALUES (1, 'é'), (2, 'é'), (3, oops)"
	for _, k := range []struct{ name, sql, word string }{
		{"behind the stamp", "UPDATE acct SET bal = oops WHERE id = 1", "oops"},
		{"in front of it", "UPDATE acct AS oops SET bal = 1", "oops"},
		{"in the condition", "UPDATE acct SET note = 'ü' WHERE oops = 1", "oops"},
		{"behind everything", "UPDATE acct SET note = 'ü' WHERE id = 1 RETURNING oops", "oops"},
		{"rows left out", insert, "oops"},
		{"second statement", "SELECT 'ß'; " + insert + "; DELETE FROM acct WHERE oops", "oops = "},
		{"third statement", "SELECT 'ß'; UPDATE acct SET bal = 1; DELETE FROM acct WHERE oops", "oops"},
	} {
		for _, mode := range []rewrite.OnStale{rewrite.StaleReject, rewrite.StaleRewrite} {
			for _, kind := range []string{"E", "N"} {
				for _, protocol := range []string{"Query", "Parse"} {
					if protocol == "Parse" && strings.Contains(k.sql, ";") || !strings.Contains(k.sql, k.word) {
						continue
					}
					for _, encoding := range []string{"UTF8", "LATIN1"} {
						c := newTalk(t, rowsConfig(t, mode, "billing", "tok"), "34")
						sql := k.sql
						if encoding == "LATIN1" {
							c.server("S client_encoding=LATIN1")
							sql = latin1(sql)
						}
						if protocol == "Query" {
							c.client("Q " + sql)
						} else {
							c.client("P |"+sql, "S")
						}
						list := c.texts()
						sent := list[len(list)-1]
						if !strings.Contains(sent, "fence.row_") {
							t.Fatalf("not spliced: %s", sent)
						}
						at := strings.Index(sent, k.word)
						if kind == "E" && mode == rewrite.StaleReject && strings.HasPrefix(k.sql, "DELETE") {
							at = strings.LastIndex(sent, k.word)
						}
						chars := func(s string) int {
							if encoding == "LATIN1" {
								return len(s)
							}
							return len([]rune(s))
						}
						replies := replyAt(kind, chars(sent[:at])+1)
						wanted := fmt.Sprint(chars(sql[:strings.Index(sql, k.word)]) + 1)
						got := c.positionOf(kind, replies)
						if got != wanted {
							t.Errorf("%s, mode %d, %s, %s, %s: position %q, want %q\n%s", k.name, mode, kind, protocol, encoding, got, wanted, sent)
						}
						inside := strings.Index(sent, "fence.row_") + len("fence")
						c = newTalk(t, rowsConfig(t, mode, "billing", "tok"), "34")
						c.server("S client_encoding=" + encoding)
						if protocol == "Query" {
							c.client("Q " + sql)
						} else {
							c.client("P |"+sql, "S")
						}
						if got := c.positionOf(kind, replyAt(kind, chars(sent[:inside])+1)); got != "" {
							t.Errorf("%s, mode %d, %s: position %s of what the client has not sent", k.name, mode, protocol, got)
						}
					}
				}
			}
		}
	}
}

func latin1(s string) string {
	var b []byte
	for _, r := range s {
		b = append(b, byte(r))
	}
	return string(b)
}

func replyAt(kind string, position int) []byte {
	e := pgproto3.ErrorResponse{Severity: "ERROR", SeverityUnlocalized: "ERROR", Code: "42703", Message: "m", Position: int32(position)}
	if kind == "N" {
		e.Severity, e.SeverityUnlocalized = "NOTICE", "NOTICE"
		n := pgproto3.NoticeResponse(e)
		b, _ := n.Encode(nil)
		return b
	}
	b, _ := e.Encode(nil)
	return b
}

// positionOf feeds a reply behind those to the guards in front of it and returns the position that the client sees.
func (c *talk) positionOf(kind string, b []byte) string {
	c.t.Helper()
	for {
		s := c.e.slots.front()
		if s == nil {
			c.t.Fatal("nothing is waited for")
		}
		if s.origin == fromClient && (s.query == nil || !s.query.atGuard() && (s.query.current() == nil || !s.query.current().injected)) {
			break
		}
		switch {
		case s.query != nil:
			c.server("T", "D 34", "C SELECT 1")
		case s.kind == slotParse:
			c.server("1")
		case s.kind == slotClose:
			c.server("3")
		case s.kind == slotBind:
			c.server("2")
		case s.kind == slotExecute:
			c.server("D 34", "C SELECT 1")
		case s.kind == slotSync:
			c.server("Z I")
		default:
			c.t.Fatalf("slot %v", s.kind)
		}
	}
	c.out.Reset()
	if err := c.e.FromServer(b, &c.out); err != nil {
		c.t.Fatal(err)
	}
	out := joined(c.out.ToClient)
	if len(out) == 0 || string(out[:1]) != kind {
		c.t.Fatalf("the client gets %q", out)
	}
	p, _ := wire.ErrorFields(out[wire.HeaderLen:]).Get(wire.FieldPosition)
	return string(p)
}

// A later error about a prepared statement has its position in the text that the server has, too: Bind, Describe, Execute.
func TestPositionsOfPreparedSplicedTexts(t *testing.T) {
	const sql = "UPDATE acct SET bal = 1 WHERE oops = 1"
	for _, k := range []struct{ what, message, replies string }{
		{"Describe", "D S|w", ""}, {"Bind", "B |w", ""}, {"Describe of the portal", "D P|p", ""}, {"Execute", "E p", ""},
	} {
		c := newTalk(t, rowsConfig(t, rewrite.StaleRewrite, "billing", "tok"), "34")
		c.client("Q BEGIN")
		c.server("C BEGIN", "Z T")
		c.client("P w|"+sql, "B p|w", "S")
		sent := c.texts()[0]
		c.server("1", "2", "Z T")
		c.client(k.message, "S")
		got := c.positionOf("E", replyAt("E", strings.Index(sent, "oops")+1))
		same(t, k.what, got, fmt.Sprint(strings.Index(sql, "oops")+1))
	}
}

// Names beyond ASCII go into a text in UTF-8 only.
func TestI5ForeignEncodings(t *testing.T) {
	for _, k := range []struct {
		column, encoding, sql string
		wanted                string // what the text holds; "" for a refusal or a guard
	}{
		{"tok", "LATIN1", "UPDATE acct SET note = '\xe9'", `SET "tok" = `},
		{"tok", "EUC_JP", "UPDATE acct SET note = '\xa4\xa2' WHERE id = 1", `WHERE id = 1 AND fence.row_fits(`},
		{"tök", "UTF8", "UPDATE acct SET note = 'é'", `SET "tök" = `},
		{"tök", "LATIN1", "UPDATE acct SET note = 'e'", ""},
		{"tök", "LATIN1", "UPDATE acct SET note = '\xe9'", ""},
	} {
		for _, protocol := range []string{"Query", "Parse"} {
			c := newTalk(t, rowsConfig(t, rewrite.StaleRewrite, "billing", k.column), "34")
			c.server("S client_encoding=" + k.encoding)
			var sent string
			if protocol == "Query" {
				sent = c.client("Q " + k.sql)
			} else {
				sent = c.client("P |"+k.sql, "B |", "E", "S")
			}
			list := strings.Join(c.texts(), "|")
			switch {
			case k.wanted != "" && !strings.Contains(list, k.wanted):
				t.Errorf("%s, %s, %s: sent %q", k.column, k.encoding, protocol, list)
			case k.wanted == "" && strings.Contains(list, "row_token"):
				t.Errorf("%s, %s, %s: sent %q", k.column, k.encoding, protocol, list)
			case k.wanted == "" && !strings.Contains(sent, "poison") && !strings.Contains(sent, "guard") && !strings.Contains(sent, "refused") && !strings.Contains(sent, "P S"):
				t.Errorf("%s, %s, %s: sent %s", k.column, k.encoding, protocol, sent)
			}
		}
	}
}

// A row's ZF001 is passed on as it is, without a position, and says nothing about the fence's mark: the next statement is sent.
func TestRowErrorsArePassedOn(t *testing.T) {
	for _, protocol := range []string{"Query", "Execute"} {
		c := newTalk(t, rowsConfig(t, rewrite.StaleRewrite, "billing", "tok"), "34")
		if protocol == "Query" {
			c.client("Q " + writeSQL)
		} else {
			c.client("P |"+writeSQL, "B |", "E", "S")
			c.server("1", "2")
		}
		same(t, protocol, c.server("E ZF001@7", "Z I"), "E(ZF001) Z(I)")
		c.client("Q " + writeSQL)
		same(t, "the next", strings.Join(c.texts(), "|"), rowWords.Replace(`UPDATE acct SET "tok" = %1T, bal = 1 WHERE id = 1 AND %1F`))
	}
}

// I2. What was announced last need not be what the session has: a transaction that presented another name was rolled back.
func TestI2MarkOfAnotherName(t *testing.T) {
	c := rowTalk(t, rowsConfig(t, rewrite.StaleReject, "jobs/*", "tok"), "jobs/2=34")
	c.e.token.guess = present("jobs/1=34")
	c.e.token.learn([]byte("jobs/1=34"), c.e.token.serial)
	same(t, "under jobs/1", c.client("P |"+writeSQL, "B |", "E", "S"), "P B guard E S")
	if sent := string(joined(c.out.ToServer)); strings.Contains(sent, "jobs/2") || !strings.Contains(sent, "guard_pattern") {
		t.Errorf("sent %q", sent)
	}
}
