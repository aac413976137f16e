package postgres

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fenceproxy/fenceproxy/lockclient"
	"github.com/fenceproxy/fenceproxy/test/pgtest"
	"github.com/fenceproxy/fenceproxy/tokens"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

var ctx = context.Background()

const patience = 20 * time.Second

// world is a database with the fence schema, the lock client's role control and the application's role app.
type world struct {
	t  testing.TB
	c  *pgtest.Cluster
	db string
	su *pgx.Conn
}

func newWorld(t testing.TB, c *pgtest.Cluster) *world {
	t.Helper()
	w := &world{t: t, c: c, db: c.NewDatabase(t)}
	w.su = c.Connect(t, w.db, "postgres")
	if _, err := tokens.Install(ctx, w.su); err != nil {
		t.Fatal(err)
	}
	w.exec(`DO $$ BEGIN
  IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'control') THEN
    CREATE ROLE control LOGIN; CREATE ROLE app LOGIN;
    GRANT pg_signal_backend, pg_read_all_stats TO control;
  END IF;
END $$; GRANT fence_control TO control`)
	return w
}

func (w *world) exec(sql string) {
	w.t.Helper()
	if _, err := w.su.PgConn().Exec(ctx, sql).ReadAll(); err != nil {
		w.t.Fatalf("%s: %v", sql, err)
	}
}

// text is one value of the database as text.
func (w *world) text(sql string, args ...any) string {
	w.t.Helper()
	var s *string
	if err := w.su.QueryRow(ctx, "SELECT ("+sql+")::text", args...).Scan(&s); err != nil {
		w.t.Fatalf("%s: %v", sql, err)
	}
	if s == nil {
		return "NULL"
	}
	return *s
}

func (w *world) mark(name string) string {
	return w.text("SELECT fence.token_text(epoch, token) FROM fence.mark WHERE name = $1", name)
}

func (w *world) open(cfg Config) lockclient.Backend {
	w.t.Helper()
	if cfg.DSN == "" {
		cfg.DSN = w.c.DSN(w.db, "control")
	}
	b, err := Open(ctx, cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { b.Close() })
	return b
}

func (w *world) client(cfg Config, opts ...lockclient.Option) *lockclient.Client {
	return lockclient.New(w.open(cfg), opts...)
}

// guarded is an application's session in a transaction that has passed the guard with the token.
type guarded struct {
	*pgx.Conn
	tx pgx.Tx
}

func (w *world) guard(name string, t tokens.Token) (*guarded, error) {
	conn := w.c.Connect(w.t, w.db, "app")
	tx, err := conn.Begin(ctx)
	if err == nil {
		_, err = tx.Exec(ctx, "SELECT set_config('fence.token', $1, true)", name+"="+t.String())
	}
	if err == nil {
		_, err = tx.Exec(ctx, string(tokens.AppendGuard(nil, []string{name}, "")))
	}
	return &guarded{conn, tx}, err
}

func (w *world) mustGuard(name string, t tokens.Token) *guarded {
	w.t.Helper()
	g, err := w.guard(name, t)
	if err != nil {
		w.t.Fatal(err)
	}
	return g
}

var names atomic.Int64

// lockName is one that no other test uses.
func lockName() string { return fmt.Sprintf("lock/%d", names.Add(1)) }

func eventually(t testing.TB, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !f(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("never: " + what)
		}
	}
}

func must[T any](t testing.TB) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func isCode(err error, code string) bool { return err != nil && strings.Contains(state(err), code) }

func contains(s, part string) bool { return strings.Contains(s, part) }
