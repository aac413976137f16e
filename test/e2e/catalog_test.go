package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/fenceproxy/fenceproxy/test/pgtest"
	"github.com/fenceproxy/fenceproxy/test/proxytest"
)

// catalogSchema: what a statement's text does not tell to be the fence's.
const catalogSchema = `
CREATE TABLE parts (id int, bal int) PARTITION BY LIST (id);
CREATE TABLE parts_1 PARTITION OF parts FOR VALUES IN (1);
INSERT INTO parts VALUES (1, 0);
CREATE TABLE acct_child () INHERITS (acct);
INSERT INTO acct_child VALUES (1, 0);
CREATE VIEW seen AS SELECT id, bal FROM acct;
CREATE VIEW seen_again AS SELECT * FROM seen;
CREATE FUNCTION reads() RETURNS bigint LANGUAGE sql AS 'SELECT count(*) FROM log';
ALTER TABLE parts OWNER TO teller; ALTER TABLE parts_1 OWNER TO teller; ALTER TABLE acct_child OWNER TO teller;
ALTER VIEW seen OWNER TO teller; ALTER VIEW seen_again OWNER TO teller;`

// unnamedWrites write the fence acct of acct and parts without naming either.
var unnamedWrites = []string{
	"UPDATE parts_1 SET bal = bal + 1",
	"UPDATE acct_child SET bal = bal + 1",
	"UPDATE seen SET bal = bal + 1 WHERE id = 1",
	"UPDATE public.seen_again SET bal = bal + 1 WHERE id = 1",
	"SELECT bump()",
	"CALL pay()",
}

const sumOfAll = "SELECT (SELECT sum(bal) FROM acct) + (SELECT sum(bal) FROM parts)"

func startCatalog(t testing.TB, flags ...string) (c *pgtest.Cluster, db string, p *proxytest.Proxy) {
	t.Helper()
	c = pgtest.Shared(t)
	db = fenced(t, c)
	c.Exec(t, db, catalogSchema)
	return c, db, proxytest.Start(t, c.DSN(db, "postgres"), append([]string{"--fence", "acct=acct,parts"}, flags...)...)
}

// lookAfter returns a function that waits until the catalog of the database was read after now: its last query commits.
func lookAfter(t testing.TB, direct *pgx.Conn) (wait func()) {
	t.Helper()
	now := number(t, direct, "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::int8")
	return func() {
		t.Helper()
		eventually(t, "a look", func() bool {
			return number(t, direct, `SELECT count(*) FROM pg_stat_activity WHERE application_name = 'fenceproxy catalog' AND datname = current_database()
				AND state = 'idle' AND query = 'commit' AND (extract(epoch FROM state_change) * 1000000)::int8 > $1`, now) > 0
		})
	}
}

// either sends a statement by one of the two protocols.
func either(conn *pgx.Conn, sql, protocol string) string {
	_, sqlstate := tag(conn, sql, protocol)
	return sqlstate
}

// I1: what leads to the fence is guarded from the first statement of the first session on.
func TestI1CatalogIsKnownAtTheStart(t *testing.T) {
	c, db, p := startCatalog(t)
	direct := c.Connect(t, db, "postgres")
	for _, protocol := range []string{"simple", "extended"} {
		old := nextToken()
		stale, nobody := p.Connect(t, db, user, text(old)), p.Connect(t, db, user, "")
		must(t, stale, "SELECT 1")
		fresh := p.Connect(t, db, user, text(nextToken()))
		must(t, fresh, "SELECT 1")
		before := number(t, direct, sumOfAll)
		for _, sql := range unnamedWrites {
			if got := either(stale, sql, protocol); got != "ZF001" {
				t.Errorf("%s, %s, stale: %q", sql, protocol, got)
			}
			if got := either(nobody, sql, protocol); got != "ZF002" {
				t.Errorf("%s, %s, without a token: %q", sql, protocol, got)
			}
		}
		if after := number(t, direct, sumOfAll); after != before {
			t.Errorf("%s: %d became %d", protocol, before, after)
		}
		for _, sql := range unnamedWrites {
			if got := either(fresh, sql, protocol); got != "" {
				t.Errorf("%s, %s, fresh: %q", sql, protocol, got)
			}
			after := number(t, direct, sumOfAll)
			if after <= before {
				t.Errorf("%s, %s, fresh: nothing was written", sql, protocol)
			}
			before = after
		}
		want(t, nobody, "SELECT reads()", "")
	}
	_, page, err := p.Get("/catalog")
	if err != nil || !strings.Contains(page, `"children":["public.parts_1","public.acct_child"]`) && !strings.Contains(page, `"children":["public.acct_child","public.parts_1"]`) ||
		!strings.Contains(page, `"views":["public.seen","public.seen_again"]`) || !strings.Contains(page, "bump") {
		t.Errorf("%v %s", err, page)
	}
	if got := p.Metric(t, "fenceproxy_catalog_generation", "database", db); got < 1 {
		t.Errorf("generation %v", got)
	}
}

// I1: what is created while sessions run, also for statements that they have prepared before.
// Without event triggers the proxy's own looks find it.
func TestI1CatalogFollowsByLooking(t *testing.T) {
	c := pgtest.Shared(t)
	db := fenced(t, c)
	c.Exec(t, db, "CREATE TABLE later (id int, bal int); CREATE FUNCTION touch() RETURNS int LANGUAGE sql AS 'SELECT 1'; ALTER TABLE later OWNER TO teller; ALTER FUNCTION touch() OWNER TO teller")
	p := proxytest.Start(t, c.DSN(db, "postgres"), "--fence", "acct=acct", "--catalog-interval", "200ms")
	direct := c.Connect(t, db, "postgres")
	old := nextToken()
	stale, nobody := p.Connect(t, db, user, text(old)), p.Connect(t, db, user, "")
	must(t, stale, "SELECT 1")
	fresh := p.Connect(t, db, user, text(nextToken()))
	must(t, fresh, "SELECT 1")
	for _, sql := range []string{"UPDATE later SET bal = 1", "SELECT touch()"} {
		must(t, nobody, sql)
	}
	must(t, nobody, "PREPARE a AS UPDATE later SET bal = bal + 1; PREPARE b AS SELECT touch()")
	for name, sql := range map[string]string{"c": "UPDATE later SET bal = bal + 1", "d": "SELECT touch()"} {
		if _, err := nobody.PgConn().Prepare(context.Background(), name, sql, nil); err != nil {
			t.Fatal(err)
		}
	}
	must(t, direct, "ALTER TABLE later RENAME TO gone; CREATE VIEW later AS SELECT id, bal FROM acct; ALTER VIEW later OWNER TO teller")
	must(t, direct, "CREATE OR REPLACE FUNCTION touch() RETURNS int LANGUAGE sql AS 'UPDATE acct SET bal = bal + 1; SELECT 1'")
	bound := func(name, sql, sqlstate string, conn *pgx.Conn) {
		t.Helper()
		eventually(t, name+": "+sql, func() bool { return run(conn, sql) == sqlstate })
	}
	for _, sql := range []string{"UPDATE later SET bal = bal + 1", "SELECT touch()", "EXECUTE a", "EXECUTE b"} {
		bound("without a token", sql, "ZF002", nobody)
	}
	for _, sql := range []string{"UPDATE later SET bal = bal + 1", "SELECT touch()"} {
		bound("stale", sql, "ZF001", stale)
		must(t, fresh, sql)
	}
	for _, name := range []string{"c", "d"} {
		if got := code(nobody.PgConn().ExecPrepared(context.Background(), name, nil, nil, nil).Read().Err); got != "ZF002" {
			t.Errorf("prepared %s: %q", name, got)
		}
	}
}

// DDL that goes through the proxy is seen. An hour's interval shows that nothing else did it.
func TestI1CatalogFollowsDDLOfItsOwn(t *testing.T) {
	c, db, p := startCatalog(t, "--catalog-interval", "1h")
	direct := c.Connect(t, db, "postgres")
	holder, nobody := p.Connect(t, db, user, text(nextToken())), p.Connect(t, db, user, "")
	for _, protocol := range []string{"simple", "extended"} {
		must(t, nobody, "BEGIN")
		looked := lookAfter(t, direct)
		if got := either(nobody, "CREATE VIEW fresh_"+protocol+" AS SELECT * FROM acct", protocol); got != "" {
			t.Fatal(got)
		}
		looked() // and saw nothing yet
		must(t, nobody, "COMMIT")
		eventually(t, protocol+": the view is fenced", func() bool { return run(nobody, "UPDATE fresh_"+protocol+" SET bal = bal WHERE id = 1") == "ZF002" })
		must(t, holder, "DROP VIEW fresh_"+protocol)
	}
}

// With the event triggers, told at once.
func TestI1CatalogFollowsByEventTrigger(t *testing.T) {
	c := pgtest.Shared(t)
	db := fenced(t, c)
	c.Exec(t, db, `CREATE EVENT TRIGGER fence_ddl_end ON ddl_command_end EXECUTE FUNCTION fence.ddl_end();
		CREATE EVENT TRIGGER fence_ddl_drop ON sql_drop EXECUTE FUNCTION fence.ddl_drop()`)
	p := proxytest.Start(t, c.DSN(db, "postgres"), "--fence", "acct=acct", "--catalog-interval", "1h")
	nobody := p.Connect(t, db, user, "")
	must(t, nobody, "SELECT 1")
	c.Exec(t, db, "CREATE VIEW fresh AS SELECT * FROM acct; ALTER VIEW fresh OWNER TO teller")
	eventually(t, "the view is fenced", func() bool { return run(nobody, "UPDATE fresh SET bal = bal WHERE id = 1") == "ZF002" })
}

// SIGHUP has the catalog read again; a new database is found with its first session.
func TestCatalogOfAReloadAndOfANewDatabase(t *testing.T) {
	c, db, p := startCatalog(t, "--catalog-interval", "1h")
	nobody := p.Connect(t, db, user, "")
	must(t, nobody, "SELECT 1")
	c.Exec(t, db, "CREATE VIEW fresh AS SELECT * FROM acct; ALTER VIEW fresh OWNER TO teller")
	must(t, nobody, "UPDATE fresh SET bal = bal WHERE id = 1") // nobody has told
	p.Signal(syscall.SIGHUP)
	eventually(t, "the view is fenced", func() bool { return run(nobody, "UPDATE fresh SET bal = bal WHERE id = 1") == "ZF002" })

	other := fenced(t, c)
	c.Exec(t, other, catalogSchema)
	want(t, p.Connect(t, other, user, ""), "UPDATE seen SET bal = 1", "ZF002")
	want(t, nobody, "UPDATE seen SET bal = 1", "ZF002")
	for _, name := range []string{db, other} {
		if got := p.Metric(t, "fenceproxy_catalog_generation", "database", name); got < 1 {
			t.Errorf("%s: generation %v", name, got)
		}
	}
}

// A database that nobody uses any more is not held open.
func TestCatalogLetsADatabaseBeDropped(t *testing.T) {
	c, _, p := startCatalog(t)
	other := fenced(t, c)
	conn := p.Connect(t, other, user, text(nextToken()))
	must(t, conn, "SELECT 1")
	conn.Close(context.Background())
	direct := c.Connect(t, "postgres", "postgres")
	const watchers = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'fenceproxy catalog' AND datname = '%s'"
	eventually(t, "nobody watches", func() bool { return number(t, direct, fmt.Sprintf(watchers, other)) == 0 })
}

// Off, or out of reach: the configuration alone, and every session begins.
func TestCatalogThatIsNotThere(t *testing.T) {
	c, db, p := startCatalog(t, "--catalog", "off")
	must(t, p.Connect(t, db, user, ""), "UPDATE seen SET bal = bal WHERE id = 1")
	want(t, p.Connect(t, db, user, ""), "UPDATE acct SET bal = bal WHERE id = 1", "ZF002")

	c.Exec(t, "postgres", `DO $$ BEGIN IF to_regrole('shutout') IS NULL THEN CREATE ROLE shutout LOGIN CONNECTION LIMIT 0; END IF; END $$`)
	p = proxytest.Start(t, c.DSN(db, "postgres"), "--fence", "acct=acct,parts", "--mode", "observe", "--control", c.DSN(db, "shutout"))
	must(t, p.Connect(t, db, user, ""), "UPDATE seen SET bal = bal WHERE id = 1")
	eventually(t, "counted", func() bool { return p.Metric(t, "fenceproxy_catalog_errors_total") > 0 })
	eventually(t, "said", func() bool { return strings.Contains(p.Log(), "cannot read the catalog") })
}

// An INSERT that names no columns is stamped, once the catalog has told them; in a transaction that may have changed them
// it is refused.
func TestCatalogStampsRows(t *testing.T) {
	for _, mode := range []string{"reject", "rewrite"} {
		c := pgtest.Shared(t)
		db := fenced(t, c)
		c.Exec(t, db, rowSchema+`
			CREATE TABLE work_child () INHERITS (work); ALTER TABLE work_child OWNER TO teller;
			CREATE VIEW open_work AS SELECT * FROM work; ALTER VIEW open_work OWNER TO teller;
			CREATE TABLE lines (id int, tok bigint NOT NULL DEFAULT fence.row_default('work', true)); ALTER TABLE lines OWNER TO teller;`)
		file := filepath.Join(t.TempDir(), "fenceproxy.yaml")
		yaml := "fences:\n  - name: work\n    tables: [work, lines]\n    row_token: tok\n    on_stale: " + mode + "\n"
		if err := os.WriteFile(file, []byte(yaml), 0o600); err != nil {
			t.Fatal(err)
		}
		p := proxytest.Start(t, c.DSN(db, "postgres"), "--config", file)
		direct := c.Connect(t, db, "postgres")
		token := nextToken()
		holder, nobody := p.Connect(t, db, user, text(token)), p.Connect(t, db, user, "")
		stamped := fmt.Sprintf("SELECT count(*) FROM work WHERE tok = %d", token)
		n := int64(0)
		for i, protocol := range []string{"simple", "extended", "block"} {
			for k, form := range []string{"INSERT INTO work VALUES (%d, 'x')", "INSERT INTO public.work SELECT %d, 'y'", "INSERT INTO work_child VALUES (%d, 'z')", "UPDATE work_child SET state = 'u' WHERE id = %d"} {
				id := 100 + 10*i + min(k, 2)
				if got := either(holder, fmt.Sprintf(form, id), protocol); got != "" {
					t.Errorf("%s: %s, %s: %q", mode, form, protocol, got)
				}
				if k < 3 {
					n++
				}
				if got := number(t, direct, stamped); got != n {
					t.Errorf("%s: %s, %s: %d rows are stamped, want %d", mode, form, protocol, got, n)
				}
				if got := either(nobody, fmt.Sprintf(form, 500+k), protocol); got != "ZF002" && (mode == "reject" || k < 3) {
					t.Errorf("%s: %s, %s, without a token: %q", mode, form, protocol, got)
				}
			}
			// A view tells nothing of the rows below.
			for _, sql := range []string{"UPDATE open_work SET state = 'v'", "INSERT INTO open_work (id) VALUES (900)", "DELETE FROM open_work"} {
				if got := either(holder, sql, protocol); got != "ZF004" {
					t.Errorf("%s: %s, %s: %q", mode, sql, protocol, got)
				}
			}
		}
		if _, err := holder.PgConn().CopyFrom(context.Background(), strings.NewReader("1\n2\n"), "COPY lines (id) FROM STDIN"); err != nil {
			t.Errorf("%s: COPY: %v", mode, err)
		}
		if got := number(t, direct, fmt.Sprintf("SELECT count(*) FROM lines WHERE tok = %d", token)); got != 2 {
			t.Errorf("%s: COPY: %d rows are stamped", mode, got)
		}
		if _, err := nobody.PgConn().CopyFrom(context.Background(), strings.NewReader("3\n"), "COPY lines (id) FROM STDIN"); code(err) != "ZF002" {
			t.Errorf("%s: COPY without a token: %v", mode, err)
		}
		must(t, direct, "UPDATE work_child SET tok = tok + 100 WHERE id = 102")
		if got, sqlstate := tag(holder, "UPDATE work_child SET state = 'late' WHERE id = 102", "simple"); mode == "reject" && sqlstate != "ZF001" || mode == "rewrite" && got != "UPDATE 0" {
			t.Errorf("%s: a stale row of a child: %q %s", mode, got, sqlstate)
		}
		looked := lookAfter(t, direct)
		must(t, holder, "BEGIN; ALTER TABLE log ADD more int")
		looked() // so that others may rely on the columns
		want(t, holder, "INSERT INTO work VALUES (800, 'x')", "ZF004")
		must(t, holder, "ROLLBACK; BEGIN; ALTER TABLE work ADD more int; COMMIT")
		eventually(t, "the new column is known", func() bool { return run(holder, "INSERT INTO work (id) VALUES (801)") == "" })
		eventually(t, "columns are known again", func() bool {
			return run(holder, fmt.Sprintf("INSERT INTO work VALUES (%d, 'x')", 1000+nextToken())) == ""
		})
	}
}

// A procedure that commits inside breaks behind a guard, also when the catalog knows it: opaque_call says what is wanted.
func TestCatalogOfProceduresThatCommit(t *testing.T) {
	c, db, p := startCatalog(t, "--opaque-call", "allow")
	c.Exec(t, db, "CREATE PROCEDURE batch() LANGUAGE plpgsql AS $$ BEGIN UPDATE acct SET bal = bal + 1; COMMIT; END $$")
	for _, protocol := range []string{"simple", "extended"} {
		if got := either(p.Connect(t, db, user, text(nextToken())), "CALL batch()", protocol); got != "" {
			t.Errorf("%s: %q", protocol, got)
		}
	}
}
