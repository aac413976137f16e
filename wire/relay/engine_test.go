package relay

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/fenceproxy/fenceproxy/rewrite"
	"github.com/fenceproxy/fenceproxy/tokens"
	"github.com/fenceproxy/fenceproxy/wire"
)

const (
	writeSQL = "UPDATE acct SET bal = 1 WHERE id = 1"
	readSQL  = "SELECT bal FROM acct WHERE id = 1"
)

func testConfig(t testing.TB) *Config {
	a, err := rewrite.New(rewrite.Config{Fences: []rewrite.Fence{{Name: "billing", Tables: []string{"acct"}}}})
	if err != nil {
		t.Fatal(err)
	}
	return &Config{Analyzer: a, Fences: []string{"billing"}, Bare: "billing", Shadow: &ShadowMarks{}}
}

// talk is an engine and what it has sent.
type talk struct {
	t   testing.TB
	e   *Engine
	out Output
}

func newTalk(t testing.TB, cfg *Config, token string) *talk {
	c := &talk{t: t, e: NewEngine(cfg, nil, Startup{Token: token, User: "app", Database: "shop"})}
	c.server("R0", "S client_encoding=UTF8", "S standard_conforming_strings=on", "Z I")
	if cfg.Mode != ModeEnforce {
		return c
	}
	c.server("T", "D "+token+"|shop|7|f|app", "C SELECT 1")
	c.server("Z I")
	if token != "" {
		if c.out.Effect != EffectAnnounce {
			t.Fatalf("startup with a token: effect %v, want an announce", c.out.Effect)
		}
		c.out.Reset()
		c.e.Announced([]tokens.Mark{{ID: 5, Name: "billing", Token: mustToken(token)}}, nil, &c.out)
	}
	if !c.e.Ready() {
		t.Fatal("not ready after startup")
	}
	return c
}

func mustToken(s string) tokens.Token {
	tok, err := tokens.ParseToken(s)
	if err != nil {
		panic(err)
	}
	return tok
}

// client feeds messages and returns what went to the server, in short form.
func (c *talk) client(messages ...string) string {
	c.t.Helper()
	var in []byte
	for _, m := range messages {
		in = append(in, frontend(c.e, m)...)
	}
	c.out.Reset()
	n, err := c.e.FromClient(in, &c.out)
	if err != nil {
		c.t.Fatalf("FromClient: %v", err)
	}
	if n != len(in) && c.out.Effect == EffectNone {
		c.t.Fatalf("FromClient consumed %d of %d bytes without an effect", n, len(in))
	}
	return c.show(c.out.ToServer)
}

// server feeds messages and returns what went to the client.
func (c *talk) server(messages ...string) string {
	c.t.Helper()
	var in []byte
	for _, m := range messages {
		in = append(in, backend(m)...)
	}
	c.out.Reset()
	if err := c.e.FromServer(in, &c.out); err != nil {
		c.t.Fatalf("FromServer: %v", err)
	}
	return showBackend(c.out.ToClient)
}

func joined(s Segments) []byte { return bytes.Join(s.List, nil) }

// show is the frontend messages in short form, with guards as one word.
func (c *talk) show(s Segments) string {
	b := joined(s)
	var words []string
	ahead := false   // reserved statements are prepared in a segment of their own
	unnamed := false // one was bound to the unnamed portal
	for len(b) > 0 {
		typ, size, _ := wire.Frame(b)
		body := b[wire.HeaderLen:size]
		b = b[size:]
		if ahead && typ == 'S' {
			ahead = false
			continue
		}
		own := bytes.Contains(body, []byte(c.e.reserved.prefix))
		switch {
		case typ == 'E' && (own || unnamed):
			words = append(words, "guard")
			unnamed = false
		case typ == 'P' && own && bytes.Contains(body, []byte(poisonSQL)):
			words = append(words, "poison")
		case typ == 'Q':
			sql := strings.TrimRight(string(body), "\x00")
			words = append(words, "Q("+strings.ReplaceAll(sql, c.e.reserved.prefix, "_")+")")
		case own:
			ahead = typ == 'P'
			unnamed = typ == 'B' && body[0] == 0
		default:
			words = append(words, string(typ))
		}
	}
	// A guard in its fast form executes twice.
	return strings.ReplaceAll(strings.Join(words, " "), "guard guard", "guard")
}

func showBackend(s Segments) string {
	b := joined(s)
	var words []string
	for len(b) > 0 {
		typ, size, _ := wire.Frame(b)
		body := b[wire.HeaderLen:size]
		b = b[size:]
		switch typ {
		case 'E':
			code, _ := wire.ErrorFields(body).Get('C')
			words = append(words, "E("+string(code)+")")
		case 'Z':
			words = append(words, "Z("+string(body)+")")
		default:
			words = append(words, string(typ))
		}
	}
	return strings.Join(words, " ")
}

// frontend encodes "P name|sql", "B portal|statement[|parameter]", "E portal", "C S|name", "Q sql", "S", ...
func frontend(_ *Engine, m string) []byte {
	typ, rest := m[0], strings.TrimPrefix(m[1:], " ")
	args := strings.Split(rest, "|")
	var msg pgproto3.FrontendMessage
	switch typ {
	case 'P':
		msg = &pgproto3.Parse{Name: args[0], Query: args[1]}
	case 'B':
		bind := &pgproto3.Bind{DestinationPortal: args[0], PreparedStatement: args[1]}
		for _, p := range args[2:] {
			bind.Parameters = append(bind.Parameters, []byte(p))
		}
		msg = bind
	case 'E':
		msg = &pgproto3.Execute{Portal: rest}
	case 'C':
		msg = &pgproto3.Close{ObjectType: args[0][0], Name: args[1]}
	case 'D':
		msg = &pgproto3.Describe{ObjectType: args[0][0], Name: args[1]}
	case 'Q':
		msg = &pgproto3.Query{String: rest}
	case 'S':
		msg = &pgproto3.Sync{}
	case 'H':
		msg = &pgproto3.Flush{}
	case 'X':
		msg = &pgproto3.Terminate{}
	case 'd':
		msg = &pgproto3.CopyData{Data: []byte(rest)}
	case 'c':
		msg = &pgproto3.CopyDone{}
	case 'f':
		msg = &pgproto3.CopyFail{Message: rest}
	default:
		panic("message " + m)
	}
	b, err := msg.Encode(nil)
	if err != nil {
		panic(err)
	}
	return b
}

// backend encodes "Z I", "C tag", "D a|b", "E code", "1", "2", "3", "T", "S name=value", "R0".
func backend(m string) []byte {
	typ, rest := m[0], strings.TrimPrefix(m[1:], " ")
	var msg pgproto3.BackendMessage
	switch typ {
	case 'R':
		msg = &pgproto3.AuthenticationOk{}
	case 'Z':
		msg = &pgproto3.ReadyForQuery{TxStatus: rest[0]}
	case 'C':
		msg = &pgproto3.CommandComplete{CommandTag: []byte(rest)}
	case 'D':
		row := &pgproto3.DataRow{}
		for _, v := range strings.Split(rest, "|") {
			row.Values = append(row.Values, []byte(v))
		}
		msg = row
	case 'T':
		msg = &pgproto3.RowDescription{}
	case 'n':
		msg = &pgproto3.NoData{}
	case 'E':
		code, position, _ := strings.Cut(rest, "@")
		e := &pgproto3.ErrorResponse{Severity: "ERROR", SeverityUnlocalized: "ERROR", Code: code, Message: "m"}
		fmt.Sscan(position, &e.Position)
		msg = e
	case 'S':
		name, value, _ := strings.Cut(rest, "=")
		msg = &pgproto3.ParameterStatus{Name: name, Value: value}
	case 'G':
		msg = &pgproto3.CopyInResponse{}
	case '1':
		msg = &pgproto3.ParseComplete{}
	case '2':
		msg = &pgproto3.BindComplete{}
	case '3':
		msg = &pgproto3.CloseComplete{}
	case 'I':
		msg = &pgproto3.EmptyQueryResponse{}
	default:
		panic("message " + m)
	}
	b, err := msg.Encode(nil)
	if err != nil {
		panic(err)
	}
	return b
}

// prepare has the guard of the simple protocol prepared.
func (c *talk) prepare() {
	c.t.Helper()
	c.client("Q " + writeSQL)
	c.server("3", "1", "3", "1", "Z I", "T", "D 34", "C SELECT 1", "C UPDATE 1", "Z I")
}

const simpleGuard = `EXECUTE "_6";EXECUTE "_7";`

// simpleGuardReplies are the results of simpleGuard.
var simpleGuardReplies = []string{"T", "D ", "C SELECT 1", "T", "D 34", "C SELECT 1"}

// guardReplies are the server's answers to a guard in the fast form; first also to its Close and Parse.
func guardReplies(first bool) []string {
	var r []string
	if first {
		r = append(r, "3", "1", "3", "1")
	}
	return append(r, "2", "D ", "C SELECT 1", "3", "2", "D 34", "C SELECT 1", "3")
}

func same(t testing.TB, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s:\n got %s\nwant %s", what, got, want)
	}
}

// I1. Mutant: return from executeWithCare without guardExecute.
func TestI1GuardStandsDirectlyInFrontOfExecute(t *testing.T) {
	c := newTalk(t, testConfig(t), "34")
	same(t, "write", c.client("P |"+writeSQL, "B |", "D P|", "E", "S"), "P B D guard E S")
	replies := append([]string{"1", "2", "n"}, guardReplies(true)...)
	same(t, "replies", c.server(append(replies, "C UPDATE 1", "Z I")...), "1 2 n C Z(I)")
	same(t, "read", c.client("P |"+readSQL, "B |", "E", "S"), "P B E S")
}

// The two bypass schedules. Mutant: let define replace the pending definitions, or current.
func TestI1SkippedParseDoesNotHideTheOneBefore(t *testing.T) {
	c := newTalk(t, testConfig(t), "34")
	c.client("P |"+writeSQL, "S")
	c.server("1", "Z I")
	same(t, "in one packet", c.client("E nope", "P |SELECT 1", "S", "B |", "E", "S"), "E P S B guard E S")
	same(t, "its replies", c.server("E 34000", "Z I"), "E(34000) Z(I)")
	replies := append(append([]string{"2"}, guardReplies(true)...), "C UPDATE 1", "Z I")
	same(t, "the write's replies", c.server(replies...), "2 C Z(I)")
}

func TestI1SkippedRebindDoesNotHideThePortalBefore(t *testing.T) {
	c := newTalk(t, testConfig(t), "34")
	c.client("Q BEGIN")
	c.server("C BEGIN", "Z T")
	c.client("P w|"+writeSQL, "P r|"+readSQL, "B p|w", "S")
	c.server("1", "1", "2", "Z T")
	c.client("Q SAVEPOINT s")
	c.server("C SAVEPOINT", "Z T")
	got := c.client("E nope", "C P|p", "B p|r", "S", "Q ROLLBACK TO s", "E p", "S")
	same(t, "one packet", got, "E C B S Q(ROLLBACK TO s) guard E S")
}

// I1, I2. Mutant: keep held guards over ROLLBACK TO, or do not bump the epoch.
func TestI2GuardIsSkippedOnlyWhileHeld(t *testing.T) {
	confirmed := func(t *testing.T) *talk {
		c := newTalk(t, testConfig(t), "34")
		c.client("Q BEGIN")
		c.server("C BEGIN", "Z T")
		same(t, "first write", c.client("P w|"+writeSQL, "B |w", "E", "S"), "P B guard E S")
		c.server(append(append([]string{"1", "2"}, guardReplies(true)...), "C UPDATE 1", "Z T")...)
		same(t, "second write", c.client("B |w", "E", "S"), "B E S")
		c.server("2", "C UPDATE 1", "Z T")
		return c
	}
	for _, k := range []struct {
		name  string
		query string
		reply []string
	}{
		{"rollback to savepoint", "ROLLBACK TO SAVEPOINT a", []string{"C ROLLBACK", "Z T"}},
		{"commit and chain", "COMMIT AND CHAIN", []string{"C COMMIT", "Z T"}},
		{"commit, begin", "COMMIT; BEGIN", []string{"C COMMIT", "C BEGIN", "Z T"}},
		{"another token", "SET LOCAL fence.token = ''", []string{"C SET", "Z T"}},
		{"an opaque call", "SELECT f()", []string{"T", "D 1", "C SELECT 1", "Z T"}},
	} {
		t.Run(k.name, func(t *testing.T) {
			c := confirmed(t)
			c.client("Q " + k.query)
			c.server(k.reply...)
			if got := c.client("B |w", "E", "S"); !strings.HasSuffix(got, "guard E S") {
				t.Errorf("write afterwards: %s, want a guard", got)
			}
		})
		t.Run(k.name+", not yet answered", func(t *testing.T) {
			c := confirmed(t)
			if got := c.client("Q "+k.query, "B |w", "E", "S"); !strings.HasSuffix(got, "guard E S") {
				t.Errorf("write in the same packet: %s, want a guard", got)
			}
		})
	}
}

// I1. A COMMIT inside the string releases the guards in front of it.
func TestI1SimpleQueryGuardsEachWrite(t *testing.T) {
	c := newTalk(t, testConfig(t), "34")
	first := string(tokens.AppendFastGuard(nil, tokens.Mark{ID: 5, Name: "billing", Token: mustToken("34")}, "34", mustToken("34"), "billing")) + ";"
	same(t, "first", c.client("Q "+writeSQL), "Q("+first+writeSQL+")")
	same(t, "its replies", c.server("3", "1", "3", "1", "Z I", "T", "D 34", "C SELECT 1", "C UPDATE 1", "Z I"), "C Z(I)")
	same(t, "sent", c.client("Q BEGIN; "+writeSQL+"; COMMIT; "+writeSQL), "Q(BEGIN; "+simpleGuard+writeSQL+"; COMMIT; "+simpleGuard+writeSQL+")")
	replies := append(append([]string{"C BEGIN"}, simpleGuardReplies...), "C UPDATE 1", "C COMMIT", "T", "D ", "C SELECT 1", "T", "E ZF001")
	same(t, "replies", c.server(replies...), "C C C E(ZF001)")
	same(t, "end", c.server("Z I"), "Z(I)")
}

// A failure to prepare the guard ahead is not the client's, and costs it nothing but time.
func TestGuardThatCannotBePreparedAhead(t *testing.T) {
	for _, failing := range [][]string{{"E 57014"}, {"3", "E 42P01"}, {"3", "1", "E 57014"}, {"3", "1", "3", "E 57014"}} {
		c := newTalk(t, testConfig(t), "34")
		c.client("Q " + writeSQL)
		same(t, fmt.Sprint(failing), c.server(append(failing, "Z I", "T", "D 34", "C SELECT 1", "C UPDATE 1", "Z I")...), "C Z(I)")
		if got := c.client("Q " + writeSQL); !strings.Contains(got, "Q(SELECT fence.guard1(") {
			t.Errorf("%v, next: %s", failing, got)
		}
	}
}

func TestErrorPositionIsThatOfTheClientsText(t *testing.T) {
	c := newTalk(t, testConfig(t), "34")
	c.prepare()
	sql := "SELECT 'é'; UPDATE acct SET nope = 1"
	c.client("Q " + sql)
	sent := joined(c.out.ToServer)
	shift := len([]rune(string(sent[wire.HeaderLen:len(sent)-1]))) - len([]rune(sql))
	want := strings.Index(sql, "nope") // bytes from 0, less one for é, plus one to count from 1
	c.server(append([]string{"T", "D é", "C SELECT 1"}, simpleGuardReplies...)...)
	c.out.Reset()
	if err := c.e.FromServer(backend(fmt.Sprintf("E 42703@%d", want+shift)), &c.out); err != nil {
		t.Fatal(err)
	}
	m := joined(c.out.ToClient)
	p, _ := wire.ErrorFields(m[wire.HeaderLen:]).Get('P')
	if string(p) != fmt.Sprint(want) {
		t.Errorf("position %s, want %d", p, want)
	}
}

// Effects of a message that the server has skipped do not apply. Mutant: settle(true) in pop.
func TestEffectsApplyOnTheReply(t *testing.T) {
	c := newTalk(t, testConfig(t), "34")
	c.client("P w|"+writeSQL, "S")
	c.server("1", "Z I")
	c.client("E nope", "C S|w", "P w|"+readSQL, "S")
	c.server("E 34000", "Z I")
	same(t, "w is still the write", c.client("B |w", "E", "S"), "B guard E S")
}

// Whatever the reads are cut into, the same bytes go out.
func TestOutputDoesNotDependOnCuts(t *testing.T) {
	cfg := testConfig(t)
	fromClient := []string{"P w|" + writeSQL, "B |w", "E", "S", "Q " + writeSQL, "Q SELECT 1", "P |" + readSQL, "B |", "E", "S"}
	fromServer := append(append([]string{"1", "2"}, guardReplies(true)...), "C UPDATE 1", "Z I",
		"T", "D 34", "C SELECT 1", "E 42703@200", "Z I", "T", "D 1", "C SELECT 1", "Z I", "1", "2", "D 1", "C SELECT 1", "Z I")
	run := func(size int) (toServer, toClient []byte) {
		c := newTalk(t, cfg, "34")
		c.e.reserved = makeReservedSet("_fence_test")
		var in []byte
		for _, m := range fromClient {
			in = append(in, frontend(nil, m)...)
		}
		for len(in) > 0 {
			n := min(size, len(in))
			c.out.Reset()
			if _, err := c.e.FromClient(bytes.Clone(in[:n]), &c.out); err != nil {
				t.Fatal(err)
			}
			toServer = append(toServer, joined(c.out.ToServer)...)
			in = in[n:]
		}
		for _, m := range fromServer {
			in = append(in, backend(m)...)
		}
		for len(in) > 0 {
			n := min(size, len(in))
			c.out.Reset()
			if err := c.e.FromServer(bytes.Clone(in[:n]), &c.out); err != nil {
				t.Fatal(err)
			}
			toClient = append(toClient, joined(c.out.ToClient)...)
			in = in[n:]
		}
		return toServer, toClient
	}
	wantS, wantC := run(1 << 20)
	for _, size := range []int{1, 2, 3, 5, 7, 11, 64} {
		gotS, gotC := run(size)
		if !bytes.Equal(gotS, wantS) || !bytes.Equal(gotC, wantC) {
			t.Errorf("pieces of %d bytes: output differs", size)
		}
	}
}

func TestNothingIsAllocatedForForwardedMessages(t *testing.T) {
	for _, k := range []struct {
		name           string
		client, server []string
	}{
		{"prepared read", []string{"B |r", "E", "S"}, []string{"2", "D 1", "C SELECT 1", "Z I"}},
		{"simple read", []string{"Q " + readSQL}, []string{"T", "D 1", "C SELECT 1", "Z I"}},
		{"prepared fenced write", []string{"B |w", "E", "S"}, append(append([]string{"2"}, guardReplies(false)...), "C UPDATE 1", "Z I")},
		{"simple fenced write", []string{"Q " + writeSQL}, append(slices.Clone(simpleGuardReplies), "C UPDATE 1", "Z I")},
		{"simple write behind a guard", []string{"Q " + writeSQL}, append(slices.Clone(inFrontReplies), "C UPDATE 1", "Z I")},
		{"transaction", []string{"Q BEGIN"}, []string{"C BEGIN", "Z T"}},
	} {
		t.Run(k.name, func(t *testing.T) {
			c := newTalk(t, testConfig(t), "34")
			c.client("P r|"+readSQL, "P w|"+writeSQL, "S")
			c.server("1", "1", "Z I")
			if strings.Contains(k.name, "simple fenced") {
				c.prepare()
			}
			if strings.Contains(k.name, "behind a guard") {
				c.server("S server_version=17.2")
				c.client(k.client...)
				c.server(append([]string{"3", "1", "3", "1"}, k.server...)...)
			}
			if strings.Contains(k.name, "prepared fenced") {
				c.client(k.client...)
				c.server(append(append([]string{"2"}, guardReplies(true)...), "C UPDATE 1", "Z I")...)
			}
			var in, back []byte
			for _, m := range k.client {
				in = append(in, frontend(nil, m)...)
			}
			for _, m := range k.server {
				back = append(back, backend(m)...)
			}
			once := func() {
				c.out.Reset()
				if _, err := c.e.FromClient(in, &c.out); err != nil {
					t.Fatal(err)
				}
				c.out.Reset()
				if err := c.e.FromServer(back, &c.out); err != nil {
					t.Fatal(err)
				}
			}
			for range 100 {
				once()
			}
			if n := testing.AllocsPerRun(1000, once); n != 0 {
				t.Errorf("%v allocations", n)
			}
			if c.e.slots.n != 0 {
				t.Errorf("%d slots are left", c.e.slots.n)
			}
		})
	}
}

// I5. A text that follows a change of how texts are read is read when the server has reported the change. Mutant: analyze
// by e.settings only.
func TestI5TextsWaitForTheSettingsTheyAreReadBy(t *testing.T) {
	const sql = `SELECT 'a\', 'b; UPDATE acct SET bal = 1; --'`
	c := newTalk(t, testConfig(t), "34")
	same(t, "at once", c.client("Q SET standard_conforming_strings = off", "Q "+sql), "Q(SET standard_conforming_strings = off)")
	if c.out.Effect != EffectWait {
		t.Fatalf("effect %v, want a wait", c.out.Effect)
	}
	c.server("C SET", "S standard_conforming_strings=off", "Z I")
	if got := c.show(c.out.ToServer); got != "P S" {
		t.Errorf("afterwards %s, want the server to be asked (P S)", got)
	}
}

// I4, I5. What a transaction assigned to fence.token and did not keep is not believed. Mutant: rolledBack does nothing.
func TestI5RollbackTakesTheTokenBack(t *testing.T) {
	for _, k := range []struct {
		name     string
		messages [][2]string // Query, replies
	}{
		{"rollback", [][2]string{{"BEGIN", "C BEGIN;Z T"}, {"SET fence.token = ''", "C SET;Z T"}, {"ROLLBACK", "C ROLLBACK;Z I"}}},
		{"rollback to savepoint", [][2]string{{"BEGIN", "C BEGIN;Z T"}, {"SAVEPOINT s", "C SAVEPOINT;Z T"},
			{"SET fence.token = ''", "C SET;Z T"}, {"ROLLBACK TO s", "C ROLLBACK;Z T"}}},
		{"one string", [][2]string{{"BEGIN; SET fence.token = ''; ROLLBACK", "C BEGIN;C SET;C ROLLBACK;Z I"}}},
	} {
		t.Run(k.name, func(t *testing.T) {
			c := newTalk(t, testConfig(t), "34")
			for _, m := range k.messages {
				c.client("Q " + m[0])
				c.server(strings.Split(m[1], ";")...)
			}
			if got := c.client("Q SELECT f()"); !strings.Contains(got, "guard_session") {
				t.Errorf("an opaque statement afterwards: %s, want a guard", got)
			}
		})
	}
}

// Effects apply on the reply: a Bind that the server skipped does not change the token that an older portal assigns.
// Mutant: keep the value with the portal and not with the definition.
func TestSkippedBindDoesNotChangeThePortalsToken(t *testing.T) {
	c := newTalk(t, testConfig(t), "")
	c.client("Q BEGIN")
	c.server("C BEGIN", "Z T")
	c.client("P s|SELECT set_config('fence.token', $1, false)", "B p|s|33", "S")
	c.server("1", "2", "Z T")
	c.client("Q SAVEPOINT x")
	c.server("C SAVEPOINT", "Z T")
	c.client("E nope", "B p|s|", "S")
	c.server("E 34000", "Z E")
	c.client("Q ROLLBACK TO x")
	c.server("C ROLLBACK", "Z T")
	c.client("E p", "S")
	if c.out.Effect != EffectAnnounce || c.out.Announce.String() != "33" {
		t.Errorf("effect %v, announce %v; want that of 33", c.out.Effect, c.out.Announce)
	}
}

// I5. Mutant: believe in absence without being sure of it.
func TestI5StatementsPreparedOutOfSightAreGuardedIfThereMayBeAToken(t *testing.T) {
	c := newTalk(t, testConfig(t), "")
	c.client("Q DO 'x'")
	c.server("C DO", "Z I")
	c.client("Q SELECT set_config('fence.' || 'token', '33', false)")
	c.server("T", "D ", "C SELECT 1", "T", "D 33", "C SELECT 1", "Z I")
	if got := c.client("Q EXECUTE hidden"); !strings.Contains(got, "guard_session") {
		t.Errorf("%s, want a guard", got)
	}
}

// I1. PostgreSQL compares the first 63 bytes of a name. Mutant: compare all of it.
func TestI1NamesAreCutAsPostgreSQLCutsThem(t *testing.T) {
	n := strings.Repeat("x", 63)
	c := newTalk(t, testConfig(t), "34")
	c.client("P "+n+"AAAA|"+writeSQL, "S")
	c.server("1", "Z I")
	same(t, "Bind by another tail", c.client("B |"+n+"B", "E", "S"), "B guard E S")
	same(t, "EXECUTE", strings.Split(c.client("Q EXECUTE "+n), "(")[1], "SELECT fence.guard1")
}

// I1. The server converts names; the engine compares bytes. Mutant: refuseName without the test for ASCII.
func TestI1NamesBeyondASCIIAreRefused(t *testing.T) {
	c := newTalk(t, testConfig(t), "34")
	same(t, "Parse", c.client("P é|"+writeSQL, "S"), "poison S")
	c.server("E 42601", "Z I")
	same(t, "PREPARE", c.client("Q PREPARE é AS "+writeSQL), "Q("+poisonSQL+")")
}

// I5. A changed setting is reported in front of ReadyForQuery, not with the SET's CommandComplete. Mutant: clear
// lexing.until at CommandComplete.
func TestI5SettingsAreKnownAtReadyForQuery(t *testing.T) {
	c := newTalk(t, testConfig(t), "")
	c.client("P |SET standard_conforming_strings = off", "B |", "E", "H")
	c.server("1", "2", "C SET")
	same(t, "same segment", c.client(`P |SELECT '\', '`, "B |", "E", "S"), "P B guard E S")
}

func TestTextsInOtherEncodingsAreRead(t *testing.T) {
	c := newTalk(t, testConfig(t), "34")
	c.server("S client_encoding=LATIN1")
	same(t, "read", c.client("Q SELECT 'caf\xe9'"), "Q(SELECT 'caf\xe9')")
	c.server("T", "D 1", "C SELECT 1", "Z I")
	c.prepare()
	same(t, "write", c.client("Q SELECT 'caf\xe9'; "+writeSQL), "Q(SELECT 'caf\xe9'; "+simpleGuard+writeSQL+")")
	c.server(append(append([]string{"T", "D 1", "C SELECT 1"}, simpleGuardReplies...), "C UPDATE 1", "Z I")...)
	c.server("S client_encoding=SJIS")
	same(t, "unsafe", c.client("Q SELECT 'caf\xe9'"), "P S")
}

// I5. An assignment is believed when the transaction that made it is known to go on or to be committed. Mutant: confirmed
// sets sure.
func TestI5TokenOfADoomedTransactionIsNotBelieved(t *testing.T) {
	c := newTalk(t, testConfig(t), "34")
	c.client("P |SET fence.token = ''", "B |", "E", "H")
	c.server("1", "2", "C SET")
	if got := c.client("P |SELECT 1/0", "B |", "E", "S", "Q SELECT f()"); !strings.Contains(got, "guard_session") {
		t.Errorf("behind a failure that is not known yet: %s", got)
	}
}

func TestI5TokenIsInDoubtWhileItsTransactionEnds(t *testing.T) {
	c := newTalk(t, testConfig(t), "34")
	c.client("Q BEGIN")
	c.server("C BEGIN", "Z T")
	c.client("Q SET LOCAL fence.token = ''")
	c.server("C SET", "Z T")
	c.client("Q COMMIT", "Q SELECT pg_sleep(1)")
	c.server("C COMMIT", "Z I")
	if got := c.client("Q SELECT f()"); !strings.Contains(got, "guard_session") {
		t.Errorf("behind a COMMIT, with a Query unanswered: %s", got)
	}
}

// I1. A COPY that fails right behind CopyInResponse (a view, a trigger that raises) leaves its Sync to be answered; what
// follows is looked at. Mutant: skipping stays set.
func TestI1CopyThatFailsAtOnceDoesNotSwitchTheGuardOff(t *testing.T) {
	c := newTalk(t, testConfig(t), "34")
	c.client("P |COPY v FROM STDIN", "B |", "E", "S")
	same(t, "replies", c.server("1", "2", "G", "E 42809", "Z I"), "1 2 G E(42809) Z(I)")
	if got := c.client("Q " + writeSQL); got != "S S" || c.out.Effect != EffectWait { // a Close of a reserved name between them
		t.Fatalf("the engine finds out where the server is: %s, effect %v", got, c.out.Effect)
	}
	same(t, "not for the client", c.server("Z I", "3", "Z I"), "")
	if got := c.show(c.out.ToServer); !strings.Contains(got, "guard1") {
		t.Errorf("the write: %s, want a guard", got)
	}
}

// I1. Two COPYs in one string, the second with a Sync among its data: the count of replies stays right, so that a Parse
// that fails is not taken for confirmed. Mutant: copyDone leaves the first CopyDone's slot.
func TestI1TwoCopiesInOneString(t *testing.T) {
	c := newTalk(t, testConfig(t), "34")
	c.client("P w|"+writeSQL, "S")
	c.server("1", "Z I")
	c.client("Q COPY log FROM STDIN; COPY log FROM STDIN")
	c.server("G")
	c.client("d 1", "c")
	c.server("C COPY 1", "G")
	c.client("S", "d 1", "c")
	c.server("C COPY 1", "Z I")
	c.client("P w|"+readSQL, "S")
	same(t, "Parse of a name that is taken", c.server("E 42P05", "Z I"), "E(42P05) Z(I)")
	c.client("P z|SELECT 1", "S")
	c.server("1", "Z I")
	same(t, "w", c.client("B |w", "E", "S"), "B guard E S")
}

// I5. A reply that cannot be ends the session.
func TestI5LostCountEndsTheSession(t *testing.T) {
	c := newTalk(t, testConfig(t), "34")
	c.client("Q SELECT 1")
	same(t, "a reply to nothing", c.server("1"), "E(08P01)")
	if !c.out.Close {
		t.Error("the session goes on")
	}
}

// I1. An Execute that may be a PREPARE, by definitions that were not answered, may have prepared the write. Mutant:
// maybePrepared does nothing.
func TestI1PrepareThatIsInDoubtCounts(t *testing.T) {
	c := newTalk(t, testConfig(t), "")
	c.client("P |PREPARE w AS "+writeSQL, "S", "E nope", "P |SELECT 1", "S", "B |", "E", "S")
	c.server("1", "Z I", "E 34000", "Z I", "2", "C PREPARE", "Z I")
	if got := c.client("Q EXECUTE w"); !strings.Contains(got, "fence.guard(") {
		t.Errorf("EXECUTE: %s, want the guard of the write", got)
	}
}
