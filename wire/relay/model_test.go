package relay

import (
	"bytes"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/fenceproxy/fenceproxy/tokens"
	"github.com/fenceproxy/fenceproxy/wire"
)

var modelRuns = flag.Int("model.runs", 4000, "random conversations to run against the model server")

// model is a server that follows PostgreSQL's protocol rules closely enough to tell two things: which replies a client is
// owed, and whether a fenced write ran without a guard in its transaction (I1, I2).
type model struct {
	statements, portals map[string]string
	skipping            bool
	state               byte // 'I', 'T', 'E'
	copying             bool
	rest                []string // statements of a Query behind a COPY
	restQuery           bool
	guarded             bool
	locked              bool // by the lock that a read must follow
	stale               bool // the mark is higher than the session's token
	fresh               bool // nothing was executed in the transaction
	savepoints          []savepoint
	out                 []byte
	unguarded           []string // fenced writes that ran without a guard
	enforced            bool
	ended               bool
	rows                rowRules
}

type savepoint struct {
	name    string
	guarded bool
}

func newModel(enforced bool) *model {
	return &model{statements: map[string]string{}, portals: map[string]string{}, state: 'I', enforced: enforced, fresh: true}
}

func (m *model) reply(words ...string) {
	for _, w := range words {
		m.out = append(m.out, backend(w)...)
	}
}

// feed runs whole messages.
func (m *model) feed(b []byte) {
	for len(b) > 0 && !m.ended {
		typ, size, ok := wire.Frame(b)
		if !ok || size > len(b) {
			panic("model: broken frame")
		}
		m.message(typ, b[wire.HeaderLen:size])
		b = b[size:]
	}
}

func (m *model) message(typ byte, body []byte) {
	if m.copying {
		m.copyMessage(typ, body)
		return
	}
	if typ == 'd' || typ == 'c' || typ == 'f' { // of a copy that has failed, or never began
		return
	}
	if m.skipping && typ != 'S' {
		return
	}
	word := func() string {
		i := bytes.IndexByte(body, 0)
		s := string(body[:i])
		body = body[i+1:]
		return s
	}
	switch typ {
	case 'P':
		name, sql := word(), word()
		if name == "" {
			delete(m.statements, "") // dropped even if the new one fails
		}
		switch _, taken := m.statements[name]; {
		case strings.Contains(sql, "bogus") || strings.HasPrefix(sql, "refused"):
			m.fail("42601@1", true)
		case m.state == 'E' && !exits(sql):
			m.fail("25P02", true)
		case taken:
			m.fail("42P05", true)
		default:
			m.statements[name] = sql
			m.reply("1")
		}
	case 'B':
		portal, name := word(), word()
		sql, ok := m.statements[name]
		_, taken := m.portals[portal]
		switch {
		case !ok:
			m.fail("26000", true)
		case m.state == 'E' && !exits(sql):
			m.fail("25P02", true)
		case taken && portal != "":
			m.fail("42P03", true)
		default:
			m.portals[portal] = sql
			m.reply("2")
		}
	case 'D':
		target := body[0]
		body = body[1:]
		from := m.statements
		if target == 'P' {
			from = m.portals
		}
		if _, ok := from[word()]; !ok {
			m.fail("34000", true)
			return
		}
		m.reply("n")
	case 'C':
		target := body[0]
		body = body[1:]
		if target == 'P' {
			delete(m.portals, word())
		} else {
			delete(m.statements, word())
		}
		m.reply("3")
	case 'E':
		sql, ok := m.portals[word()]
		if !ok {
			m.fail("34000", true)
			return
		}
		if code := m.run(sql, false); code != "" {
			m.fail(code, true)
		}
	case 'S':
		m.skipping = false
		m.endImplicit()
		m.reply("Z " + string(m.state))
	case 'Q':
		delete(m.statements, "")
		sql := word()
		if strings.Contains(sql, "bogus") || strings.HasPrefix(sql, "refused") {
			m.fail("42601@1", false)
			m.reply("Z " + string(m.state))
			return
		}
		delete(m.portals, "")
		if raised, ok := strings.CutPrefix(sql, "UPDATE other SET stale = "); ok && m.state == 'I' && m.fresh {
			m.stale = raised == "1"
		}
		m.restQuery = true
		m.rest = strings.Split(sql, ";")
		m.goOn()
	}
}

// goOn runs the rest of a Query.
func (m *model) goOn() {
	for len(m.rest) > 0 {
		sql := strings.TrimSpace(m.rest[0])
		m.rest = m.rest[1:]
		if sql == "" {
			continue
		}
		if code := m.run(sql, true); code != "" {
			m.fail(code, false)
			m.rest = nil
			break
		}
		if m.copying {
			return
		}
	}
	m.restQuery = false
	m.endImplicit()
	m.reply("Z " + string(m.state))
}

func (m *model) copyMessage(typ byte, body []byte) {
	switch typ {
	case 'S', 'H':
		return
	case 'd':
		if string(body) == "bad" {
			m.copyFails("22P02")
		}
	case 'c':
		m.copying = false
		m.reply("C COPY 1")
		if m.restQuery {
			m.goOn()
		}
	case 'f':
		m.copyFails("57014")
	default:
		m.ended = true
	}
}

func (m *model) copyFails(code string) {
	m.copying = false
	m.rest = nil
	m.fail(code, !m.restQuery)
	if m.restQuery {
		m.restQuery = false
		m.endImplicit()
		m.reply("Z " + string(m.state))
	}
}

func exits(sql string) bool {
	return strings.HasPrefix(sql, "ROLLBACK") || strings.HasPrefix(sql, "COMMIT")
}

func (m *model) fail(code string, extended bool) {
	m.reply("E " + code)
	if extended {
		m.skipping = true
	}
	if m.state == 'T' {
		m.state = 'E'
	} else if m.state == 'I' {
		m.endTransaction()
	}
}

func (m *model) endImplicit() {
	if m.state == 'I' {
		m.endTransaction()
	}
}

func (m *model) endTransaction() {
	m.guarded, m.locked, m.fresh = false, false, true
	m.savepoints = nil
	clear(m.portals)
}

// run executes one statement and returns an SQLSTATE if it fails.
func (m *model) run(sql string, simple bool) string {
	first, rest, _ := strings.Cut(sql, " ")
	if m.state == 'E' && !exits(sql) {
		return "25P02"
	}
	m.fresh = false
	switch first {
	case "BEGIN":
		m.state = 'T'
		m.reply("C BEGIN")
	case "COMMIT", "ROLLBACK":
		if name, ok := strings.CutPrefix(rest, "TO "); ok {
			if m.state == 'I' {
				return "25P01"
			}
			i := slices.IndexFunc(m.savepoints, func(s savepoint) bool { return s.name == name })
			if i < 0 {
				return "3B001"
			}
			for m.savepoints[len(m.savepoints)-1].name != name {
				m.savepoints = m.savepoints[:len(m.savepoints)-1]
			}
			m.guarded = m.savepoints[len(m.savepoints)-1].guarded
			m.locked = m.guarded
			m.state = 'T'
			m.reply("C ROLLBACK")
			return ""
		}
		tag := first
		if m.state == 'E' {
			tag = "ROLLBACK"
		}
		chain := rest == "AND CHAIN" && m.state != 'I'
		m.endTransaction()
		m.state = 'I'
		if chain {
			m.state = 'T'
		}
		m.reply("C " + tag)
	case "SAVEPOINT":
		if m.state == 'I' {
			return "25P01"
		}
		m.savepoints = append(m.savepoints, savepoint{rest, m.guarded})
		m.reply("C SAVEPOINT")
	case "UPDATE":
		if code := m.write(sql); code != "" {
			return code
		}
		if m.rows.leavesAlone(sql) && m.stale {
			m.reply("C UPDATE 0")
			break
		}
		m.reply("C UPDATE 1")
	case "INSERT":
		if code := m.write(sql); code != "" {
			return code
		}
		m.reply("C INSERT 0 1")
	case "COPY":
		if code := m.write(sql); code != "" {
			return code
		}
		m.out = append(m.out, 'G', 0, 0, 0, 7, 0, 0, 0)
		m.copying = true
	case "PREPARE":
		name, body, _ := strings.Cut(rest, " AS ")
		if _, taken := m.statements[name]; taken {
			return "42P05"
		}
		m.statements[name] = body
		m.reply("C PREPARE")
	case "EXECUTE":
		if quoted, ok := strings.CutPrefix(rest, `"`); ok {
			rest, _, _ = strings.Cut(quoted, `"`)
		}
		body, ok := m.statements[rest]
		if !ok {
			return "26000"
		}
		if strings.HasPrefix(body, "EXECUTE") {
			return "54001"
		}
		return m.run(body, simple)
	case "FETCH":
		body, ok := m.portals[strings.TrimPrefix(rest, "ALL FROM ")]
		switch {
		case !ok:
			return "34000"
		case !strings.HasPrefix(body, "UPDATE") && !strings.HasPrefix(body, "INSERT") && !strings.HasPrefix(body, "SELECT"):
			return "55000"
		}
		return m.run(body, simple)
	case "DEALLOCATE":
		if rest == "ALL" {
			clear(m.statements)
			m.reply("C DEALLOCATE ALL")
			return ""
		}
		if _, ok := m.statements[rest]; !ok {
			return "26000"
		}
		delete(m.statements, rest)
		m.reply("C DEALLOCATE")
	case "DISCARD":
		if m.state != 'I' {
			return "25001"
		}
		clear(m.statements)
		m.reply("C DISCARD ALL")
	case "DO":
		if code := m.guard(); code != "" {
			return code
		}
		// turns every named statement into something else, the guards too
		for _, name := range slices.Collect(maps.Keys(m.statements)) {
			if strings.HasPrefix(name, "_fence_") {
				m.statements[name] = "SELECT 34"
			} else if name != "" && strings.Contains(rest, "evil") {
				m.statements[name] = "UPDATE acct SET evil = 1"
			}
		}
		m.reply("C DO")
	case "SELECT":
		switch {
		case strings.Contains(rest, "1/0"):
			return "22012"
		case strings.Contains(rest, "pg_advisory_xact_lock_shared("):
			m.locked = true
			m.row(simple, "")
		case strings.HasPrefix(rest, "fence.guard") || strings.HasPrefix(rest, "COALESCE((SELECT "):
			if m.stale && !m.guarded {
				return "ZF001"
			}
			m.guarded = m.locked || strings.HasPrefix(rest, "fence.guard")
			m.row(simple, m.rows.token())
		case rest == "f()":
			if code := m.guard(); code != "" {
				return code
			}
			m.row(simple, "1")
		case rest == tokens.SessionQuestionSQL[len("SELECT "):]:
			m.row(simple, m.rows.token()+"|shop|7|f|app")
		default:
			m.row(simple, "1")
		}
	default:
		return "42601@1"
	}
	return ""
}

func (m *model) row(simple bool, v string) {
	if simple {
		m.reply("T")
	}
	m.reply("D "+v, "C SELECT 1")
}

// write executes a write.
func (m *model) write(sql string) string {
	if strings.Contains(sql, " other ") {
		return ""
	}
	guarded := m.rows.wantGuard(sql)
	if m.enforced && (guarded && !m.guarded || m.rows.wantCheck(sql) && !strings.Contains(sql, "fence.row_") || strings.Contains(sql, "tok = 3")) {
		m.unguarded = append(m.unguarded, sql)
	}
	if !guarded {
		return ""
	}
	return m.guard()
}

// guard is what the engine should have put in front of a statement: on the server that it does not talk to.
func (m *model) guard() string {
	switch {
	case m.enforced:
		return ""
	case m.stale && !m.guarded:
		return "ZF001"
	}
	m.guarded = true
	return ""
}

// script makes a random conversation of a client. It stays in step with the model in one thing only: copy data follow a
// COPY that will run, because any other message there ends a session.
func script(r *rand.Rand) []string {
	names := []string{"", "w", "r", "x"}
	pick := func(s ...string) string { return s[r.IntN(len(s))] }
	sql := func() string {
		return pick("UPDATE acct SET bal = 1", "UPDATE acct SET bal = 1", "SELECT 1", "SELECT 1", "SELECT 1/0", "SELECT f()", "BEGIN", "COMMIT", "ROLLBACK",
			"SAVEPOINT s", "ROLLBACK TO s", "COMMIT AND CHAIN", "PREPARE w AS UPDATE acct SET bal = 2", "PREPARE r AS SELECT 2", "EXECUTE w", "EXECUTE r", "FETCH ALL FROM p",
			"DEALLOCATE w", "DEALLOCATE ALL", "DISCARD ALL", "DO 'x'", "DO 'evil'", "SELECT bogus syntax here", "UPDATE other SET a = 1",
			"INSERT INTO acct (id) VALUES (1)", "PREPARE x AS INSERT INTO acct (id) VALUES (2)", "EXECUTE x")
	}
	var msgs []string
	data := func() {
		for range r.IntN(3) {
			msgs = append(msgs, pick("d 1", "d 1", "d bad", "S"))
		}
		msgs = append(msgs, pick("c", "c", "f no"))
	}
	for range 1 + r.IntN(25) {
		switch r.IntN(20) {
		case 14:
			msgs = append(msgs, "Q "+pick("", "UPDATE acct SET bal = 3; ")+"COPY acct FROM STDIN"+pick("", "; UPDATE acct SET bal = 4"))
			data()
		case 15, 16:
			msgs = append(msgs, "P |COPY "+pick("acct", "acct", "other")+" FROM STDIN", "B |", "E")
			if r.IntN(2) == 0 {
				msgs = append(msgs, pick("S", "H"))
			}
			data()
			msgs = append(msgs, "S")
		case 0, 1:
			name, s := pick(names...), sql()
			if exits(s) {
				name = "" // a named one in doubt is guarded, which an aborted transaction refuses: see docs/differences.md
			}
			msgs = append(msgs, "P "+name+"|"+s)
		case 2, 3:
			msgs = append(msgs, "B "+pick("", "", "p", "q")+"|"+pick(names...))
		case 4, 5:
			msgs = append(msgs, "E "+pick("", "", "p", "q"))
		case 6:
			msgs = append(msgs, pick("C S|", "C P|")+pick("w", "r", "p"))
		case 7:
			msgs = append(msgs, pick("D S|", "D P|")+pick("", "w", "p"))
		case 8, 9:
			msgs = append(msgs, "S")
		case 10, 11:
			parts := []string{sql()}
			for r.IntN(3) == 0 {
				parts = append(parts, sql())
			}
			msgs = append(msgs, "Q "+strings.Join(parts, "; "))
		case 17:
			msgs = append(msgs, "Q UPDATE other SET stale = "+pick("0", "1"))
		case 18, 19:
			msgs = append(msgs, "Q UPDATE acct SET bal = 5")
		case 12:
			s := sql()
			msgs = append(msgs, "P |"+s, "B |", "E", "S")
		case 13:
			n := pick("w", "r")
			msgs = append(msgs, "B |"+n, "E", pick("S", "S", "H"))
		}
	}
	return append(msgs, "S", "S")
}

// TestModelConversations runs random conversations through the engine and directly, against the same model, cut and
// delayed at random. What the client gets is the same byte for byte, and no fenced write runs without its guard.
//
// Mutants that it finds: no guard again after ROLLBACK TO or in doubt, effects on the read instead of the reply, the last
// definition of a name instead of the union.
func TestModelConversations(t *testing.T) {
	for _, rules := range []rowRules{{}, {column: true}, {column: true, rewrite: true}, {column: true, rewrite: true, named: true}} {
		runs := *modelRuns
		if rules.column {
			runs /= 3
		}
		cfg := rules.config(t)
		closed := map[string]int{}
		for seed := range uint64(runs) {
			r := rand.New(rand.NewPCG(seed, 1))
			msgs := script(r)
			if rules.column && seed%8 == 7 {
				msgs = withRefused(r, msgs)
			}
			if !modelRun(t, cfg, rules, r, msgs, closed) {
				t.Fatalf("%+v, seed %d: %s", rules, seed, strings.Join(msgs, "\n  "))
			}
		}
		for code, share := range map[string]int{"E(25P02)": 100, "E(ZF001)": 25} {
			if closed[code] > runs/share {
				t.Errorf("%+v: %d of %d conversations differ because something was guarded in doubt: %s", rules, closed[code], runs, code)
			}
		}
	}
}

func modelRun(t *testing.T, cfg *Config, rules rowRules, r *rand.Rand, msgs []string, closed map[string]int) bool {
	direct := newModel(false)
	direct.rows = rules
	var in []byte
	for _, m := range msgs {
		b := frontend(nil, m)
		direct.feed(b)
		in = append(in, b...)
	}
	want := direct.out
	syncsAmongData := amongData(msgs)

	c := rowTalk(t, cfg, rules.token())
	c.server("S server_version=" + []string{"15.18 (Debian 15.18-1)", "18.1"}[r.IntN(2)]) // without and with guards in front of a Query
	server := newModel(true)
	server.rows = rules
	var got, toServer, replies []byte
	paused := false
	for steps := 0; ; steps++ {
		if steps > 100000 {
			t.Errorf("stuck: %d client bytes left, paused %v, pause %d, slots %d, syncs %d", len(in), paused, c.e.pause, c.e.slots.n, c.e.syncs)
			return false
		}
		if len(in) == 0 && len(toServer) == 0 && len(replies) == 0 {
			break
		}
		switch r.IntN(3) {
		case 0:
			if paused || len(in) == 0 {
				continue
			}
			n := min(len(in), 1+r.IntN(1<<r.IntN(9)))
			c.out.Reset()
			used, err := c.e.FromClient(bytes.Clone(in[:n]), &c.out)
			if err != nil {
				return safe(t, server, syncsAmongData)
			}
			toServer = append(toServer, joined(c.out.ToServer)...)
			paused = c.out.Effect == EffectWait || c.out.Effect == EffectAnnounce
			in = in[used:]
		case 1: // the server reads whole messages
			for len(toServer) >= wire.HeaderLen {
				_, size, _ := wire.Frame(toServer)
				if size > len(toServer) {
					break
				}
				server.feed(toServer[:size])
				toServer = toServer[size:]
				if r.IntN(3) == 0 {
					break
				}
			}
			if server.ended {
				return safe(t, server, direct.ended)
			}
			replies = append(replies, server.out...)
			server.out = nil
		case 2:
			if len(replies) == 0 {
				continue
			}
			n := min(len(replies), 1+r.IntN(1<<r.IntN(9)))
			c.out.Reset()
			if err := c.e.FromServer(bytes.Clone(replies[:n]), &c.out); err != nil || c.out.Close {
				return safe(t, server, syncsAmongData)
			}
			got = append(got, joined(c.out.ToClient)...)
			toServer = append(toServer, joined(c.out.ToServer)...)
			if c.out.Effect == EffectResume {
				paused = false
			}
			replies = replies[n:]
		}
	}
	ok := true
	if len(server.unguarded) > 0 {
		t.Errorf("writes without a guard: %q", server.unguarded)
		ok = false
	}
	if slices.ContainsFunc(msgs, isRefused) {
		return ok // the engine refuses a whole string, and PostgreSQL knows no such error
	}
	if g, w := sameRefusals(got), sameRefusals(want); g != w && failedClosed(g, w) != "" {
		closed[failedClosed(g, w)]++
	} else if g != w {
		t.Errorf("replies differ:\n got %s\nwant %s", showAll(got), showAll(want))
		ok = false
	}
	if !direct.copying && (c.e.slots.front() != nil || c.e.syncs != 0 || c.e.tx.changing != 0) {
		t.Errorf("left over: %d slots, %d syncs, %d changing", c.e.slots.n, c.e.syncs, c.e.tx.changing)
		ok = false
	}
	return ok
}

// sameRefusals is the replies in short form. It takes the errors for a missing portal or statement and for an aborted
// transaction as one: in an aborted transaction that the engine has not heard of yet, a guard meets the second before the
// client's message the first. And a text that cannot be read, behind messages without a Sync, is refused unasked (probe.go).
func sameRefusals(b []byte) string {
	return strings.NewReplacer("34000", "25P02", "26000", "25P02", "ZF004", "42601").Replace(showAll(b))
}

// failedClosed tells the first difference if it is a guard that failed, or that an aborted transaction refused. What is
// executed was in doubt, by definitions that the server had not answered; it might have been a write, or the ROLLBACK.
func failedClosed(got, want string) (code string) {
	g, w := strings.Fields(got), strings.Fields(want)
	for i := range min(len(g), len(w)) {
		if g[i] != w[i] {
			if g[i] == "E(25P02)" || g[i] == "E(ZF001)" {
				return g[i]
			}
			return ""
		}
	}
	return ""
}

// amongData reports whether a Sync stands between a COPY and the end of its data: then the engine may end the session if
// the copy fails and more was sent behind it.
func amongData(msgs []string) bool {
	copying := false
	for _, m := range msgs {
		switch {
		case strings.Contains(m, "COPY"):
			copying = true
		case m[0] == 'c' || m[0] == 'f':
			copying = false
		case m[0] == 'S' && copying:
			return true
		}
	}
	return false
}

// safe judges a conversation that ended before its time: that must have been allowed, and nothing unguarded has run.
func safe(t *testing.T, server *model, allowed bool) bool {
	if !allowed {
		t.Error("the session was ended")
	}
	if len(server.unguarded) > 0 {
		t.Errorf("writes without a guard: %q", server.unguarded)
		return false
	}
	return allowed
}

func showAll(b []byte) string { return fmt.Sprint(showBackend(Segments{List: [][]byte{b}})) }
