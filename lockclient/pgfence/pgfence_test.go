package pgfence_test

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib"
	_ "github.com/lib/pq"

	"github.com/fenceproxy/fenceproxy/lockclient"
	"github.com/fenceproxy/fenceproxy/lockclient/memory"
	"github.com/fenceproxy/fenceproxy/lockclient/pgfence"
	"github.com/fenceproxy/fenceproxy/lockclient/postgres"
	"github.com/fenceproxy/fenceproxy/test/pgtest"
	"github.com/fenceproxy/fenceproxy/test/proxytest"
	"github.com/fenceproxy/fenceproxy/tokens"
)

func TestMain(m *testing.M) { pgtest.Main(m, proxytest.Cleanup) }

var ctx = context.Background()

// world is a database with the fenced table acct (fence acct) behind a proxy, and lock clients.
type world struct {
	c     *pgtest.Cluster
	db    string
	proxy *proxytest.Proxy
	lease *lockclient.Client // tokens raised when the lock is taken
	other *lockclient.Client // tokens from a service that knows nothing of the database: the proxy announces them
}

func newWorld(t *testing.T) *world {
	t.Helper()
	c := pgtest.Shared(t)
	w := &world{c: c, db: c.NewDatabase(t)}
	proxytest.Install(t, c.DSN(w.db, "postgres"))
	c.Exec(t, w.db, "CREATE TABLE acct (id int PRIMARY KEY, v int NOT NULL); INSERT INTO acct SELECT i, 0 FROM generate_series(1, 9) i")
	w.proxy = proxytest.Start(t, c.DSN(w.db, "postgres"), "--fence", "acct=acct", "--fence", "jobs=jobs")
	b, err := postgres.Open(ctx, postgres.Config{DSN: c.DSN(w.db, "postgres"), Grace: 300 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	// With a long TTL the holder does not watch for losses from the beginning: here the database is to tell first.
	w.lease = lockclient.New(b, lockclient.WithTTL(time.Hour))
	t.Cleanup(func() { w.lease.Close() })
	s := memory.NewServer(1)
	s.SetEpoch(1)
	s.SetNext(1000)
	w.other = lockclient.New(s.Connect())
	return w
}

func (w *world) lock(t *testing.T, c *lockclient.Client, name string) *lockclient.Lease {
	t.Helper()
	l, err := c.Lock(ctx, name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Release(ctx) })
	return l
}

func code(err error) string {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.Code
	}
	var other interface{ SQLState() string }
	if errors.As(err, &other) {
		return other.SQLState()
	}
	return ""
}

const update = "UPDATE acct SET v = v + 1 WHERE id = 1"

// transaction is one way to write under a lease.
type transaction struct {
	name string
	run  func(ctx context.Context, sqls ...string) error
}

func (w *world) transactions(t *testing.T) []transaction {
	var out []transaction
	for _, driver := range []string{"pgx", "postgres"} {
		db, err := sql.Open(driver, w.proxy.DSN(w.db, "postgres"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { db.Close() })
		out = append(out, transaction{"database/sql, " + driver, func(ctx context.Context, sqls ...string) error {
			return pgfence.InTx(ctx, db, nil, func(tx *pgfence.Tx) error {
				for _, s := range sqls {
					if _, err := tx.ExecContext(ctx, s); err != nil {
						return err
					}
				}
				return nil
			})
		}})
	}
	conn := w.proxy.Connect(t, w.db, "postgres", "")
	pool, err := pgxpool.New(ctx, w.proxy.DSN(w.db, "postgres"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	for name, db := range map[string]pgfence.PgxBeginner{"pgx": conn, "pgxpool": pool} {
		out = append(out, transaction{name, func(ctx context.Context, sqls ...string) error {
			return pgfence.InPgxTx(ctx, db, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
				for _, s := range sqls {
					if _, err := tx.Exec(ctx, s); err != nil {
						return err
					}
				}
				return nil
			})
		}})
	}
	return out
}

// The token is with the transaction, from the context, whoever issued it; without a lease there is no transaction; and the
// database's ZF001 ends the lease. Mutant "Note does nothing": red.
func TestTransactions(t *testing.T) {
	w := newWorld(t)
	for _, tx := range w.transactions(t) {
		t.Run(tx.name, func(t *testing.T) {
			if err := tx.run(ctx, update); !errors.Is(err, pgfence.ErrNoLease) {
				t.Error("without a lease:", err)
			}
			client := w.lease
			l := w.lock(t, client, "acct")
			if err := tx.run(l.Context(), update, update); err != nil {
				t.Fatal(err)
			}
			if err := tx.run(l.Context(), "SELECT 1/0"); code(err) != "22012" || l.Err() != nil {
				t.Error("an ordinary error:", err, l.Err())
			}
			// Somebody else takes over while this one is none the wiser.
			w.c.Exec(t, w.db, "UPDATE fence.mark SET token = token + 1 WHERE name = 'acct'")
			err := tx.run(l.Context(), update)
			if code(err) != "ZF001" {
				t.Fatal("the database says:", err)
			}
			var lost *lockclient.LostError
			if !errors.As(l.Err(), &lost) || lost.Reason != lockclient.Fenced || l.Context().Err() == nil {
				t.Error("the lease says:", l.Err())
			}
			if err := tx.run(l.Context(), update); !errors.Is(err, lockclient.ErrLost) && !errors.Is(err, context.Canceled) {
				t.Error("after that:", err)
			}
			l.Release(ctx)
			l = w.lock(t, client, "acct")
			if err := tx.run(l.Context(), update); err != nil {
				t.Error("the next tenure:", err)
			}
		})
	}
}

// Tokens from elsewhere: presented by the transaction, announced by the proxy.
func TestAnnounced(t *testing.T) {
	w := newWorld(t)
	for _, tx := range w.transactions(t) {
		l := w.lock(t, w.other, "acct")
		if err := tx.run(l.Context(), update); err != nil {
			t.Errorf("%s: %v", tx.name, err)
		}
		l.Release(ctx)
	}
}

// Two locks, two fences, one transaction; the innermost token of a fence counts.
func TestNested(t *testing.T) {
	w := newWorld(t)
	outer := w.lock(t, w.lease, "jobs")
	inner, err := w.lease.Lock(outer.Context(), "acct")
	if err != nil {
		t.Fatal(err)
	}
	defer inner.Release(ctx)
	l, err := pgfence.Tokens(inner.Context())
	if err != nil || len(l) != 2 || l.String() != inner.Fence().String()+","+outer.Fence().String() {
		t.Error(l, err)
	}
	if err := w.transactions(t)[2].run(inner.Context(), update); err != nil {
		t.Error(err)
	}
	outer.MarkLost(errors.New("test"))
	if _, err := pgfence.Tokens(inner.Context()); !errors.Is(err, lockclient.ErrLost) {
		t.Error("with one of them lost:", err)
	}
}

// A reader's token is presented by nothing, although etcd and the memory backend give one: readers that write are refused as
// if they had no lock, and what the database says to them ends nobody's lease. Mutant "list takes shared leases": red.
func TestReadersPresentNothing(t *testing.T) {
	w := newWorld(t)
	l, err := w.other.RLock(ctx, "acct")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Release(ctx)
	if l.Mode() != lockclient.Shared || l.Fence().Token == (tokens.Token{}) {
		t.Fatal("the test wants a reader with a token:", l.Mode(), l.Fence())
	}
	if have, err := pgfence.Tokens(l.Context()); err != nil || len(have) != 0 {
		t.Error("tokens:", have, err)
	}
	for _, tx := range w.transactions(t) {
		if err := tx.run(l.Context(), "SELECT v FROM acct"); err != nil {
			t.Errorf("%s: reading: %v", tx.name, err)
		}
		if err := tx.run(l.Context(), update); code(err) != "ZF002" {
			t.Errorf("%s: writing: %v", tx.name, err)
		}
	}
	env, err := pgfence.Environ([]string{"FENCE_TOKEN=1", "PGOPTIONS=-c geqo=off"}, l)
	if want := []string{"PGOPTIONS=-c geqo=off", "FENCE_LOCK=acct"}; err != nil || !slices.Equal(env, want) {
		t.Error("environment:", env, err)
	}
	if params, err := pgfence.RuntimeParams(l); err != nil || len(params) != 0 {
		t.Error("startup parameters:", params, err)
	}
	stale := &pgconn.PgError{Code: "ZF001", Message: `fence "acct": token 1 is stale`}
	if pgfence.Note(l.Context(), stale); l.Err() != nil {
		t.Error("a rejected token was not the reader's:", l.Err())
	}
	l.Release(ctx)
	writer := w.lock(t, w.other, "acct")
	if writer.Mode() != lockclient.Exclusive {
		t.Error(writer.Mode())
	}
	both, err := w.other.RLock(writer.Context(), "jobs")
	if err != nil {
		t.Fatal(err)
	}
	defer both.Release(ctx)
	if have, err := pgfence.Tokens(both.Context()); err != nil || have.String() != writer.Fence().String() {
		t.Error("a reader's context inside of a writer's:", have, err)
	}
}

// A pool's connections have the token of whoever uses them, and of nobody afterwards.
func TestPool(t *testing.T) {
	w := newWorld(t)
	cfg, err := pgxpool.ParseConfig(w.proxy.DSN(w.db, "postgres"))
	if err != nil {
		t.Fatal(err)
	}
	cfg.MaxConns = 1
	pgfence.Configure(cfg)
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	for range 2 {
		l := w.lock(t, w.lease, "acct")
		if _, err := pool.Exec(l.Context(), update); err != nil {
			t.Fatal(err)
		}
		if _, err := pool.Exec(ctx, update); code(err) != "ZF002" {
			t.Error("without a lease, on the same connection:", err)
		}
		if _, err := pool.Exec(l.Context(), update); err != nil {
			t.Error("again:", err)
		}
		w.c.Exec(t, w.db, "UPDATE fence.mark SET token = token + 1 WHERE name = 'acct'")
		if _, err := pool.Exec(l.Context(), update); code(err) != "ZF001" {
			t.Error(err)
		}
		if !errors.Is(l.Err(), lockclient.ErrLost) {
			t.Error("the lease says:", l.Err())
		}
		l.Release(ctx)
	}
}

// A child process of libpq, and a connection opened for the tenure.
func TestChildrenAndDedicatedConnections(t *testing.T) {
	w := newWorld(t)
	l := w.lock(t, w.lease, "acct")
	env, err := pgfence.Environ(append(os.Environ(), "PGOPTIONS=-c statement_timeout=10s -c fence.token=jobs=1.5"), l)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(w.c.Program("psql"), "-XAt", "-v", "ON_ERROR_STOP=1", "-d", w.proxy.DSN(w.db, "postgres"),
		"-c", update, "-c", "SELECT current_setting('statement_timeout'), current_setting('fence.token')")
	cmd.Env = env
	out, err := cmd.CombinedOutput()
	if want := "UPDATE 1\n10s|jobs=1.5," + l.Fence().String() + "\n"; err != nil || string(out) != want {
		t.Errorf("%v\n%s", err, out)
	}
	if !slices.Contains(env, "FENCE_LOCK=acct") || !slices.Contains(env, "FENCE_TOKEN="+l.Fence().Token.String()) {
		t.Error(env)
	}
	params, err := pgfence.RuntimeParams(l)
	if err != nil {
		t.Fatal(err)
	}
	conn := w.proxy.Connect(t, w.db, "postgres", params["fence.token"])
	if _, err := conn.Exec(ctx, update); err != nil {
		t.Error(err)
	}
	l.Release(ctx)
	if _, err := pgfence.Environ(nil, l); !errors.Is(err, lockclient.ErrReleased) {
		t.Error("environment of a lease that has ended:", err)
	}
	if !strings.HasPrefix(l.Fence().String(), "acct=") {
		t.Error(l.Fence())
	}
}
