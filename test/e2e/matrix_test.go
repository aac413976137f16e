package e2e

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/fenceproxy/fenceproxy/test/conversation"
	"github.com/fenceproxy/fenceproxy/test/pgtest"
	"github.com/fenceproxy/fenceproxy/test/proxytest"
)

// scenario is the state of a session's token before a write.
type scenario struct {
	name  string
	token func(current int64) string // at startup; "" for none
	set   func(current int64) string // set behind the proxy's back afterwards
	raise bool                       // somebody presents a higher token afterwards
	want  string                     // SQLSTATE of a visible fenced write; "" passes
	// SQLSTATE of an opaque statement, where it differs: without a token the policy decides.
	wantOpaque string
}

func billing(n int64) string { return fmt.Sprintf("billing=%d", n) }

var scenarios = []scenario{
	{name: "fresh", token: billing},
	{name: "fresh among others", token: func(n int64) string { return fmt.Sprintf("jobs=7, billing=%d", n) }},
	{name: "stale", token: billing, raise: true, want: "ZF001"},
	{name: "absent", want: "ZF002", wantOpaque: "pass"},
	{name: "token of another fence", token: func(int64) string { return "jobs=7" }, want: "ZF002", wantOpaque: "pass"},
	{name: "emptied", token: billing, set: func(int64) string { return "" }, want: "ZF002", wantOpaque: "pass"},
	{name: "garbage", token: billing, set: func(int64) string { return "billing=12x" }, want: "ZF003"},
	{name: "unknown fence", token: billing, set: func(int64) string { return "nosuch=5" }, want: "ZF003"},
	{name: "bare with several fences", token: billing, set: func(n int64) string { return strconv.FormatInt(n, 10) }, want: "ZF003"},
	{name: "older, behind the proxy's back", token: billing, set: func(n int64) string { return billing(n - 1) }, want: "ZF001"},
	{name: "same, set behind the proxy's back", token: billing, set: billing},
}

// protocol sends one form and returns the SQLSTATE of the first error.
type protocol struct {
	name string
	send func(f form, inTx bool) []string
}

var protocols = []protocol{
	{"simple", func(f form, _ bool) []string {
		return append([]string{"Query " + f.sql}, copyLines(f)...)
	}},
	{"extended", func(f form, _ bool) []string {
		return append(append([]string{"Show " + f.sql}, copyLines(f)...), "Sync")
	}},
	{"pipelined", func(f form, inTx bool) []string {
		lines := []string{"Run SELECT 1", "Show " + f.sql}
		lines = append(lines, copyLines(f)...)
		return append(lines, "Run SELECT 2", "Sync")
	}},
}

func copyLines(f form) []string {
	if f.copy == "" {
		return nil
	}
	quoted := strconv.Quote(f.copy)
	return []string{"CopyData " + quoted[1:len(quoted)-1], "CopyDone"}
}

// I1, I2, I5: every form of write × every state of the token × protocol × transaction × isolation level gets the one
// right answer, and a refused one has changed nothing.
func TestEveryWriteFormInEveryTokenState(t *testing.T) {
	c := pgtest.Shared(t)
	db := fenced(t, c)
	c.Exec(t, db, formSetup)
	mine := proxytest.Start(t, c.DSN(db, "postgres"), formFences...)
	other := proxytest.Start(t, c.DSN(db, "postgres"), formFences...)
	direct := c.Connect(t, db, "postgres")

	for _, s := range scenarios {
		routes := map[string]*proxytest.Proxy{"": mine}
		if s.raise {
			routes = map[string]*proxytest.Proxy{", raised through the same proxy": mine, ", raised through another proxy": other}
		}
		for suffix, raiser := range routes {
			t.Run(s.name+suffix, func(t *testing.T) {
				for _, isolation := range []string{"read committed", "repeatable read", "serializable"} {
					m := &matrix{t: t, cluster: c, direct: direct, db: db, addr: mine.Addr(), raiser: raiser, scenario: s, isolation: isolation}
					m.run()
				}
			})
		}
	}
}

type matrix struct {
	t         *testing.T
	cluster   *pgtest.Cluster
	direct    *pgx.Conn
	db        string
	addr      string
	raiser    *proxytest.Proxy
	scenario  scenario
	isolation string
	client    *conversation.Client
	commit    bool // explicit transactions that pass are committed, not rolled back
	dirty     bool // the data are not as formSetup left them
}

func (m *matrix) run() {
	m.open()
	defer func() { m.client.Close() }()
	for _, p := range protocols {
		for _, explicit := range []bool{false, true} {
			for _, f := range formsOf(m.cluster.Major) {
				if f.inTx && !explicit {
					continue
				}
				m.one(f, p, explicit)
			}
		}
	}
}

// open makes a session in the scenario's state.
func (m *matrix) open() {
	m.t.Helper()
	current := nextToken()
	params := []string{"user", user, "database", m.db, "default_transaction_isolation", m.isolation}
	if m.scenario.token != nil {
		params = append(params, "fence.token", m.scenario.token(current))
	} else {
		m.present(billing(current)) // a mark is there all the same
	}
	client, err := conversation.Dial(m.addr, params...)
	if err != nil {
		m.t.Fatal(err)
	}
	m.client = client
	if sqlstate := m.ready(); sqlstate != "" {
		m.t.Fatalf("startup: %s", sqlstate)
	}
	if m.scenario.set != nil {
		m.query(fmt.Sprintf("SELECT set_config('fence.' || 'token', '%s', false)", m.scenario.set(current)))
	}
	if m.scenario.raise {
		m.present(billing(nextToken()))
	}
}

func (m *matrix) present(token string) {
	m.t.Helper()
	conn, err := m.raiser.TryConnect(m.db, user, token)
	if err != nil {
		m.t.Fatal(err)
	}
	conn.Close(context.Background())
}

func (m *matrix) one(f form, p protocol, explicit bool) {
	m.t.Helper()
	want := m.scenario.want
	if f.opaque && m.scenario.wantOpaque != "" {
		want = strings.TrimPrefix(m.scenario.wantOpaque, "pass")
	}
	if m.dirty {
		must(m.t, m.direct, formSetup)
		m.dirty = false
	}
	before := m.fingerprint()
	if explicit {
		m.query("BEGIN")
	}
	var got string
	for _, sql := range f.before { // refused as well when the session has done something opaque: its cursors are unknown
		if got == "" {
			got = m.send([]string{"Query " + sql})
		}
	}
	if got == "" {
		got = m.send(p.send(f, explicit))
	}
	switch {
	case explicit && want == "" && !m.commit:
		m.query("ROLLBACK")
	case explicit:
		m.query("COMMIT")
	}
	if f.after != "" {
		m.query(f.after)
	}
	where := fmt.Sprintf("%s, %s, %s, explicit transaction %v", f.name, p.name, m.isolation, explicit)
	if got != want {
		m.t.Errorf("%s: SQLSTATE %q, want %q", where, got, want)
	}
	m.dirty = m.fingerprint() != before
	if want != "" && m.dirty {
		m.t.Errorf("%s: refused, and yet the data changed", where)
	}
}

func (m *matrix) fingerprint() (s string) {
	m.t.Helper()
	if err := m.direct.QueryRow(context.Background(), formFingerprint, pgx.QueryExecModeSimpleProtocol).Scan(&s); err != nil {
		return "broken: " + err.Error() // a refused DROP that was not refused
	}
	return s
}

// query runs a statement that belongs to the scaffolding.
func (m *matrix) query(sql string) {
	m.t.Helper()
	if sqlstate := m.send([]string{"Query " + sql}); sqlstate != "" {
		m.t.Fatalf("%s: SQLSTATE %s", sql, sqlstate)
	}
}

func (m *matrix) send(lines []string) (sqlstate string) {
	m.t.Helper()
	var out []byte
	for _, line := range lines {
		var err error
		if out, err = conversation.Encode(out, line); err != nil {
			m.t.Fatal(err)
		}
	}
	if err := m.client.Write(out); err != nil {
		m.t.Fatal(err)
	}
	return m.ready()
}

// ready reads to ReadyForQuery and returns the first error's SQLSTATE.
func (m *matrix) ready() (sqlstate string) {
	m.t.Helper()
	raw, err := m.client.UntilReady()
	if err != nil {
		m.t.Fatal(err)
	}
	for _, message := range raw {
		if message[0] == 'E' && sqlstate == "" {
			sqlstate = conversation.Fields(message[5:])['C']
		}
	}
	if len(raw) == 0 || raw[len(raw)-1][0] != 'Z' {
		m.t.Fatalf("the session ended (%s)", sqlstate)
	}
	return sqlstate
}

// The table of forms is about writes: directly, each of them does what its name says. Without this, "refused and nothing
// changed" could be a statement that never works.
func TestEveryWriteFormWritesOnPostgreSQLItself(t *testing.T) {
	c := pgtest.Shared(t)
	db := unfenced(t, c)
	c.Exec(t, db, formSetup)
	m := &matrix{t: t, cluster: c, direct: c.Connect(t, db, "postgres"), db: db, addr: c.Addr(), isolation: "read committed", commit: true}
	client, err := conversation.Dial(m.addr, "user", user, "database", db)
	if err != nil {
		t.Fatal(err)
	}
	m.client = client
	defer client.Close()
	m.ready()
	for _, protocol := range protocols {
		for _, explicit := range []bool{false, true} {
			for _, f := range formsOf(m.cluster.Major) {
				if f.inTx && !explicit {
					continue
				}
				m.one(f, protocol, explicit)
				if m.dirty == f.idle {
					t.Errorf("%s, %s, explicit transaction %v: changed %v", f.name, protocol.name, explicit, m.dirty)
				}
			}
		}
	}
}

// schema missing → ZF005, for every form, and nothing changes.
func TestEveryWriteFormWithoutTheFenceSchema(t *testing.T) {
	c := pgtest.Shared(t)
	with := fenced(t, c)
	db := unfenced(t, c)
	c.Exec(t, db, formSetup)
	p := proxytest.Start(t, c.DSN(with, "postgres"), formFences...)
	m := &matrix{t: t, cluster: c, direct: c.Connect(t, db, "postgres"), db: db, addr: p.Addr(), isolation: "read committed"}
	m.scenario = scenario{name: "schema missing", want: "ZF005"}
	client, err := conversation.Dial(p.Addr(), "user", user, "database", db)
	if err != nil {
		t.Fatal(err)
	}
	m.client = client
	defer client.Close()
	if sqlstate := m.ready(); sqlstate != "" {
		t.Fatalf("a session without a token: %s", sqlstate)
	}
	m.query("SELECT set_config('fence.' || 'token', 'billing=5', false)")
	for _, protocol := range protocols {
		for _, explicit := range []bool{false, true} {
			for _, f := range formsOf(m.cluster.Major) {
				if !f.inTx || explicit {
					m.one(f, protocol, explicit)
				}
			}
		}
	}
}
