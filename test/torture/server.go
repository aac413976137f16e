package torture

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/url"
	"os"

	"github.com/jackc/pgx/v5"
)

// server is where the database is.
type server interface {
	DSN(db, user string) string       // a URL
	SocketDSN(db, user string) string // of a superuser, past the gate
	Addr() string                     // host:port
}

// borrowed is a server that is not ours.
type borrowed struct{ url.URL }

func (b borrowed) Addr() string { return b.Host }

func (b borrowed) DSN(db, user string) string {
	b.User, b.Path = url.User(user), "/"+db
	return b.String()
}

func (b borrowed) SocketDSN(db, _ string) string {
	b.Path = "/" + db
	return b.String()
}

// borrow makes database and roles on the server behind a DSN. The roles' password goes to all programs by PGPASSWORD.
func (w *world) borrow(dsn string) {
	w.t.Helper()
	u, err := url.Parse(dsn)
	if err == nil && u.Port() == "" {
		u.Host += ":5432"
	}
	if err != nil || u.Hostname() == "" {
		w.t.Fatal("-torture.server is not a URL with a host: postgres://user:password@host:5432/?sslmode=disable")
	}
	w.server, w.db = borrowed{*u}, "fenceproxy_torture"
	password := rand.Text()
	ctx := context.Background()
	c, err := pgx.Connect(ctx, w.server.SocketDSN("postgres", ""))
	if err != nil {
		w.t.Fatal(err)
	}
	defer c.Close(ctx)
	for _, sql := range []string{
		"CREATE DATABASE " + w.db + " TEMPLATE template0", // fails where a former run was left behind: have a look at it
		fmt.Sprintf("CREATE ROLE %s LOGIN PASSWORD '%s'", appRole, password),
		fmt.Sprintf("CREATE ROLE %s SUPERUSER LOGIN PASSWORD '%s'", controlRole, password),
	} {
		if _, err := c.Exec(ctx, sql); err != nil {
			w.t.Fatalf("%s: %v", sql, err)
		}
	}
	os.Setenv("PGPASSWORD", password)
}

// leave removes from a borrowed server what the run has made there.
func (w *world) leave() {
	if w.cluster != nil {
		return
	}
	if w.reader != nil {
		w.reader.Close(context.Background())
	}
	ctx := context.Background()
	if c, err := pgx.Connect(ctx, w.server.SocketDSN(w.db, "")); err == nil {
		c.Exec(ctx, "SELECT pg_drop_replication_slot('"+slot+"')")
		c.Close(ctx)
	}
	c, err := pgx.Connect(ctx, w.server.SocketDSN("postgres", ""))
	if err != nil {
		w.t.Error(err)
		return
	}
	defer c.Close(ctx)
	for _, sql := range []string{
		"DROP DATABASE " + w.db + " WITH (FORCE)",
		"DROP ROLE " + appRole, "DROP ROLE " + controlRole,
	} {
		if _, err := c.Exec(ctx, sql); err != nil {
			w.t.Errorf("%s: %v", sql, err)
		}
	}
}

// exec runs SQL as the superuser.
func (w *world) exec(sql string) {
	w.t.Helper()
	err := w.onServer(func(ctx context.Context, c *pgx.Conn) error {
		_, err := c.PgConn().Exec(ctx, sql).ReadAll()
		return err
	})
	if err != nil {
		w.t.Fatalf("%s: %v", sql, err)
	}
}
