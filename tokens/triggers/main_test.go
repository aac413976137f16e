package triggers

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fenceproxy/fenceproxy/test/pgtest"
	"github.com/fenceproxy/fenceproxy/tokens"
	"github.com/fenceproxy/fenceproxy/tokens/catalog"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

var ctx = context.Background()

const deadline = 60 * time.Second

// world is a database with the fence schema, the tables of a test, and the fence f whose mark is 34. The tables belong to
// the role app, which is no superuser, as applications' tables do.
type world struct {
	t  testing.TB
	c  *pgtest.Cluster
	db string
	su *session
}

// f is the fence of most tests.
const f = "f"

func newWorld(t testing.TB, c *pgtest.Cluster, tables string) *world {
	w := &world{t: t, c: c, db: c.NewDatabase(t)}
	w.su = w.dial("postgres")
	w.su.must(`DO $$ BEGIN
		IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'app') THEN CREATE ROLE app LOGIN; CREATE ROLE deploy LOGIN; CREATE ROLE ops LOGIN; END IF; END $$`)
	if _, err := tokens.Install(ctx, w.su.Conn); err != nil {
		t.Fatal(err)
	}
	w.su.must("GRANT fence_operator TO ops")
	w.su.must("GRANT CREATE ON SCHEMA public TO app, deploy")
	w.su.must("SELECT fence.raise('f', 0, 34, 'seed', NULL)")
	if tables != "" {
		app := w.dial("app")
		app.must(tables)
	}
	w.su.must("GRANT ALL ON ALL TABLES IN SCHEMA public TO deploy")
	return w
}

// shared gives a database on the cluster that the tests of the package share.
func shared(t testing.TB, tables string) *world { return newWorld(t, pgtest.Shared(t), tables) }

// config fences tables of schema public under f.
func config(names ...string) Config {
	c := Config{Bare: f, Fences: []catalog.Fence{{Name: f}}}
	for _, n := range names {
		c.Fences[0].Tables = append(c.Fences[0].Tables, catalog.Pattern{Schema: "public", Table: n, Text: "public." + n})
	}
	return c
}

func (w *world) install(c Config) *Plan {
	w.t.Helper()
	p, err := Install(ctx, w.su.Conn, c, 0)
	if err != nil {
		w.t.Fatal(err)
	}
	return p
}

func (w *world) compare(c Config) *Plan {
	w.t.Helper()
	p, err := Compare(ctx, w.su.Conn, c)
	if err != nil {
		w.t.Fatal(err)
	}
	return p
}

// states lists the triggers that are not present: "relation trigger state".
func states(p *Plan) string {
	var list []string
	for _, t := range p.Tables {
		if t.State != Present {
			list = append(list, fmt.Sprintf("%s %s %s", t.Relation.Name, t.Form, t.State))
		}
	}
	return strings.Join(list, ", ")
}

// session is a connection whose answers are short texts: "ok", "ok:value", or the SQLSTATE.
type session struct {
	*pgx.Conn
	w    *world
	busy sync.WaitGroup
}

// dial opens a connection; settings are those of its startup packet, name and value by turns.
func (w *world) dial(user string, settings ...string) *session {
	w.t.Helper()
	cfg, err := pgx.ParseConfig(w.c.DSN(w.db, user))
	if err != nil {
		w.t.Fatal(err)
	}
	for i := 0; i < len(settings); i += 2 {
		cfg.RuntimeParams[settings[i]] = settings[i+1]
	}
	cfg.DefaultQueryExecMode = pgx.QueryExecModeExec
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	s := &session{Conn: conn, w: w}
	w.t.Cleanup(func() {
		idle := make(chan struct{})
		go func() { s.busy.Wait(); close(idle) }()
		select {
		case <-idle:
		case <-time.After(5 * time.Second): // its statement hangs, in a test that has failed
			return
		}
		c, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		conn.Close(c)
	})
	return s
}

// do runs a text of one or more statements by the simple protocol and tells the values of the last.
func (s *session) do(sql string) string {
	ctx, cancel := context.WithTimeout(ctx, deadline+10*time.Second)
	defer cancel()
	results, err := s.PgConn().Exec(ctx, sql).ReadAll()
	if err != nil {
		return code(err)
	}
	var out []string
	for _, row := range results[len(results)-1].Rows {
		for _, v := range row {
			if len(v) > 0 {
				out = append(out, string(v))
			}
		}
	}
	if len(out) == 0 {
		return "ok"
	}
	return "ok:" + strings.Join(out, "|")
}

func code(err error) string {
	var pe *pgconn.PgError
	if errors.As(err, &pe) {
		return pe.Code
	}
	return "lost: " + err.Error()
}

func (s *session) must(sql string) {
	s.w.t.Helper()
	if got := s.do(sql); !strings.HasPrefix(got, "ok") {
		s.w.t.Fatalf("%s: %s", sql, got)
	}
}

func (s *session) token(raw string) *session {
	s.w.t.Helper()
	s.must("SET fence.token = '" + raw + "'")
	return s
}

// pending is a statement on its way.
type pending struct {
	s    *session
	done chan string
}

func (s *session) start(sql string) *pending {
	p := &pending{s, make(chan string, 1)}
	s.busy.Go(func() { p.done <- s.do(sql) })
	return p
}

// state waits until the statement has ended, or its backend waits for a lock: then "waits".
func (p *pending) state() string {
	for end := time.Now().Add(deadline); time.Now().Before(end); {
		select {
		case got := <-p.done:
			p.done <- got
			return got
		default:
		}
		if p.s.w.su.do(fmt.Sprintf("SELECT 1 FROM pg_locks WHERE pid = %d AND NOT granted", p.s.PgConn().PID())) != "ok" {
			return "waits"
		}
		time.Sleep(2 * time.Millisecond)
	}
	return "neither ended nor waiting"
}

func (p *pending) get() string {
	select {
	case got := <-p.done:
		return got
	case <-time.After(deadline):
		return "still waits"
	}
}

func expect(t testing.TB, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %s, want %s", what, got, want)
	}
}

func eventually(t testing.TB, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(deadline); !f(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("never: " + what)
		}
	}
}
