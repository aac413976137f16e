package tokens

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fenceproxy/fenceproxy/test/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

var ctx = context.Background()

// deadline bounds every wait that should end.
const deadline = 20 * time.Second

// world is a database with the fence schema and a table t(id, v), and the roles that tests play: application app,
// control of the proxy, postgres.
type world struct {
	t  testing.TB
	c  *pgtest.Cluster
	db string
	su *session

	systemID string
}

var sharedWorld struct {
	sync.Mutex
	db string
}

// newWorld gives the test the database that all tests of the package share; each uses fences of its own.
func newWorld(t testing.TB) *world {
	c := pgtest.Shared(t)
	sharedWorld.Lock()
	defer sharedWorld.Unlock()
	if sharedWorld.db == "" {
		sharedWorld.db = prepare(t, c)
	}
	return open(t, c, sharedWorld.db)
}

// ownWorld gives it a database of its own on a cluster.
func ownWorld(t testing.TB, c *pgtest.Cluster) *world {
	return open(t, c, prepare(t, c))
}

func open(t testing.TB, c *pgtest.Cluster, db string) *world {
	w := &world{t: t, c: c, db: db}
	w.su = w.dial("postgres")
	w.systemID = strings.TrimPrefix(w.su.do("SELECT system_identifier::text FROM pg_control_system()"), "ok:")
	return w
}

func prepare(t testing.TB, c *pgtest.Cluster) string {
	db := c.NewDatabase(t)
	conn := c.Connect(t, db, "postgres")
	if _, err := Install(ctx, conn); err != nil {
		t.Fatal(err)
	}
	c.Exec(t, db, `DO $$ BEGIN
  IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'app') THEN
    CREATE ROLE app LOGIN; CREATE ROLE control LOGIN;
    GRANT fence_control, pg_signal_backend, pg_read_all_stats TO control;
  END IF;
END $$;
GRANT fence_control TO control;
CREATE TABLE t (id int PRIMARY KEY, v int NOT NULL);
INSERT INTO t SELECT i, 0 FROM generate_series(1, 200) i;
GRANT ALL ON t TO app`)
	return db
}

var fences atomic.Int64

// fence is a name never used before, with the mark 0.token unless token is negative.
func (w *world) fence(token int64) string {
	w.t.Helper()
	f := fmt.Sprintf("f%d", fences.Add(1))
	if token >= 0 {
		w.set(f, token)
	}
	return f
}

func (w *world) set(f string, token int64) {
	w.t.Helper()
	w.su.must("SELECT fence.raise($1, 0, $2, 'seed', NULL)", f, token)
}

func (w *world) mark(f string) string {
	return w.su.do("SELECT fence.token_text(epoch, token) FROM fence.mark WHERE name = $1", f)
}

func (w *world) id(f string) (id int32) {
	w.su.QueryRow(ctx, "SELECT id FROM fence.mark WHERE name = $1", f).Scan(&id)
	return id
}

// session is a connection whose answers are short texts: "ok", "ok:value", or the SQLSTATE.
type session struct {
	*pgx.Conn
	w   *world
	pid int
	raw string // fence.token as set with token()

	busy sync.WaitGroup // statements started and not ended
}

func (w *world) dial(user string) *session {
	w.t.Helper()
	cfg, err := pgx.ParseConfig(w.c.DSN(w.db, user))
	if err != nil {
		w.t.Fatal(err)
	}
	cfg.DefaultQueryExecMode = pgx.QueryExecModeExec
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	s := &session{Conn: conn, w: w, pid: int(conn.PgConn().PID())}
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

func (s *session) do(sql string, args ...any) string {
	ctx, cancel := context.WithTimeout(ctx, deadline+10*time.Second) // a statement that hangs is "lost"
	defer cancel()
	rows, err := s.Query(ctx, sql, args...)
	if err != nil {
		return code(err)
	}
	var out []string
	for rows.Next() {
		values, err := rows.Values()
		if err != nil {
			return code(err)
		}
		if len(values) > 0 && fmt.Sprint(values...) != "" {
			out = append(out, fmt.Sprint(values...))
		}
	}
	if err := rows.Err(); err != nil {
		return code(err)
	}
	if len(out) == 0 {
		return "ok"
	}
	return "ok:" + strings.Join(out, "|")
}

func code(err error) string {
	if err == nil {
		return "ok"
	}
	var pe *pgconn.PgError
	if errors.As(err, &pe) {
		return pe.Code
	}
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return "lost" // the connection
}

func (s *session) must(sql string, args ...any) {
	s.w.t.Helper()
	if got := s.do(sql, args...); !strings.HasPrefix(got, "ok") {
		s.w.t.Fatalf("%s: %s", sql, got)
	}
}

func (s *session) token(raw any) {
	s.w.t.Helper()
	s.raw = fmt.Sprint(raw)
	s.must("SELECT set_config('fence.token', $1, false)", s.raw)
}

// form is one way to guard: the results are the same.
type form string

const (
	slow   form = "fence.guard"
	fast   form = "fence.guard1"
	inline form = "lock, then read"
	alone  form = "lock, then read, constants" // for texts that Alone knows, inline for others
)

var forms = []form{slow, fast, inline, alone}

// guard runs the guard of a fence that bare tokens are for; a pass is "ok".
func (s *session) guard(g form, f string) string {
	list, _ := Parse(s.raw)
	tok, _ := list.For(f, f)
	return s.guardAs(g, Mark{ID: s.w.id(f), Name: f}, s.raw, tok, f)
}

func (s *session) guardAs(g form, m Mark, raw string, tok Token, bare string) (got string) {
	switch g {
	case slow:
		got = s.do(string(AppendGuard(nil, []string{m.Name}, bare)))
	case fast:
		got = s.do(string(AppendFastGuard(nil, m, raw, tok, bare)))
	case alone:
		m.Token = tok
		named, ok := Alone(raw, m, bare)
		if !ok || m.ID == 0 {
			return s.guardAs(inline, m, raw, tok, bare)
		}
		if got = s.do(string(AppendLockSQL(nil, m))); strings.HasPrefix(got, "ok") {
			got = s.do(string(AppendReadSQL(nil, m, named, bare)))
		}
	case inline:
		if got = s.do(GuardLockSQL, m.ID); strings.HasPrefix(got, "ok") {
			got = s.do(GuardReadSQL, m.ID, m.Name, raw, tok.Epoch, tok.Counter, bare)
		}
	}
	return strings.TrimSuffix(got, ":"+s.raw)
}

// pending is a statement on its way.
type pending struct {
	w    *world
	pid  int
	done chan string
}

func (s *session) start(f func() string) *pending {
	p := &pending{w: s.w, pid: s.pid, done: make(chan string, 1)}
	s.busy.Go(func() { p.done <- f() })
	return p
}

func (s *session) raise(f string, token int64) *pending {
	return s.start(func() string { return s.do("SELECT r.raised FROM fence.raise($1, 0, $2, 'test', NULL) AS r", f, token) })
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
		if p.w.su.do("SELECT 1 FROM pg_locks WHERE pid = $1 AND NOT granted", p.pid) != "ok" {
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

func eventually(t testing.TB, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(deadline); !f(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("never: " + what)
		}
	}
}

func expect(t testing.TB, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %s, want %s", what, got, want)
	}
}

var levels = []string{"READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"}

func eachLevelAndForm(t *testing.T, f func(t *testing.T, w *world, level string, g form)) {
	for _, level := range levels {
		for _, g := range forms {
			t.Run(level+"/"+string(g), func(t *testing.T) { f(t, newWorld(t), level, g) })
		}
	}
}
