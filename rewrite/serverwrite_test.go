package rewrite

import (
	"context"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fenceproxy/fenceproxy/test/pgtest"
)

// writeCorpus are statements that succeed on serverSchema and change accounts or app.jobs, most of them by a way around
// the plain form.
var writeCorpus = []string{
	`INSERT INTO accounts VALUES (77)`, `INSERT INTO accounts SELECT id + 50 FROM t`, `INSERT INTO accounts VALUES (1, 9) ON CONFLICT (id) DO UPDATE SET a = excluded.a`,
	`UPDATE public.accounts SET a = a + 1`, `UPDATE ONLY "accounts" x SET a = 0`, `UPDATE U&"\0061ccounts" SET a = 0`, `UPDATE u&"!0061ccounts" uescape '!' SET a = 0`,
	`DELETE FROM accounts USING t WHERE t.id = accounts.id`, `DELETE FROM ONLY accounts * `, `TRUNCATE t, accounts`, `TRUNCATE accounts CASCADE`,
	`WITH x AS (UPDATE accounts SET a = 9 RETURNING *) SELECT * FROM x`, `WITH x AS (SELECT 1), y AS (DELETE FROM accounts) SELECT * FROM x`,
	`WITH accounts AS (SELECT 1 AS id) UPDATE accounts SET a = 9`, `INSERT INTO u WITH x AS (DELETE FROM accounts RETURNING a) SELECT a FROM x`,
	`EXPLAIN ANALYZE DELETE FROM accounts`, `EXPLAIN (ANALYZE true, COSTS off) UPDATE accounts SET a = 9`, `EXPLAIN (VERBOSE, ANALYZE 1) WITH x AS (DELETE FROM accounts RETURNING 1) SELECT 1`,
	`CREATE TABLE n AS WITH x AS (DELETE FROM accounts RETURNING *) SELECT * FROM x`, `COPY (UPDATE accounts SET a = 9 RETURNING a) TO STDOUT`,
	`PREPARE w AS DELETE FROM accounts; EXECUTE w`, `SELECT 1; UPDATE accounts SET a = 9; SELECT 2`, `DO $$ BEGIN DELETE FROM accounts; END $$`,
	`ALTER TABLE accounts ALTER a TYPE int USING 7`, `ALTER TABLE accounts DROP COLUMN b`, `ALTER TABLE accounts ADD x int DEFAULT 7`, `ALTER TABLE accounts RENAME TO gone`,
	`DROP TABLE accounts`, `DROP TABLE IF EXISTS u, accounts CASCADE`, `ALTER TABLE accounts SET SCHEMA app`, `ALTER SCHEMA app RENAME TO app2`, `DROP SCHEMA app CASCADE`,
	`ALTER TABLE accounts RENAME TO gone; CREATE TABLE accounts (id int, a int, b int, c text)`, `DROP OWNED BY CURRENT_USER`,
	`UPDATE jobs SET a = 9`, `SET search_path = app, public; UPDATE jobs SET a = 9`, `DELETE FROM app.jobs`, `UPDATE "app"."jobs" SET a = 9`, `CREATE TABLE c () INHERITS (accounts); INSERT INTO c VALUES (99)`,
	`CREATE RULE r AS ON UPDATE TO accounts DO INSTEAD NOTHING; UPDATE accounts SET a = 9`, `CREATE FUNCTION pg_temp.w() RETURNS int LANGUAGE sql AS 'DELETE FROM accounts RETURNING 1'; SELECT pg_temp.w()`,
	`UPDATE accounts SET a = 9 /* x */ WHERE true -- y`, "UPDATE\naccounts\nSET\na='9'", `MERGE INTO accounts x USING t ON x.id = t.id WHEN MATCHED THEN DELETE`,
	`DECLARE k CURSOR FOR SELECT * FROM accounts FOR UPDATE; FETCH k; UPDATE accounts SET a = 9 WHERE CURRENT OF k`, `SELECT * FROM accounts WHERE id = 1 FOR UPDATE; DELETE FROM accounts`,
	`CREATE VIEW v AS SELECT * FROM u; DELETE FROM accounts`, `COMMENT ON TABLE accounts IS 'x'; UPDATE accounts SET c = $x$ ' -- $x$`, `UPDATE accounts SET c = E'\'; --'`, `UPDATE accounts SET c = '\'; --'`,
}

const fencedData = `SELECT coalesce((SELECT string_agg(x::text, ';' ORDER BY id) FROM public.accounts x), '') || '|' ||
	coalesce((SELECT string_agg(x::text, ';' ORDER BY id) FROM app.jobs x), '')`

// TestI1ServerWritesOnlyWhatWeSee runs the corpus and mutants of it as an ordinary role, each in a transaction that is
// rolled back. Whenever the content of a fenced table has changed, the plan must say so: fenced, opaque or unknown.
func TestI1ServerWritesOnlyWhatWeSee(t *testing.T) {
	c := pgtest.Shared(t)
	db := c.NewDatabase(t)
	c.Exec(t, db, `CREATE ROLE owner_of_tables LOGIN; CREATE ROLE stranger; GRANT CREATE ON DATABASE `+pgx.Identifier{db}.Sanitize()+` TO owner_of_tables; GRANT ALL ON SCHEMA public TO owner_of_tables`)
	t.Cleanup(func() {
		c.Exec(t, db, `DROP OWNED BY owner_of_tables, stranger CASCADE; DROP ROLE owner_of_tables, stranger`)
	})
	conn := c.Connect(t, db, "owner_of_tables")
	run(t, conn, serverSchema+`; INSERT INTO app.jobs VALUES (1, 1), (2, 2)`)
	data := func() string {
		rows, err := conn.PgConn().Exec(context.Background(), fencedData).ReadAll()
		if err != nil {
			return err.Error()
		}
		return string(rows[0].Rows[0][0])
	}
	baseline := data()
	a := newAnalyzer(t, fencesByName)
	var sc Scratch
	ran, changed := 0, 0
	try := func(sql string) {
		if !scannable(sql) || strings.Contains(strings.ToUpper(sql), "STDIN") { // the server would wait for the data
			return
		}
		run(t, conn, "BEGIN; SET LOCAL statement_timeout = '2s'")
		code := run(t, conn, sql)
		if conn.PgConn().TxStatus() == 'E' {
			run(t, conn, "ROLLBACK")
			return
		}
		if code == "" {
			ran++
		}
		if data() != baseline {
			changed++
			if an := a.Analyze(&sc, []byte(sql), Settings{}); an.Fences.Empty() && an.Effect < EffectOpaque {
				t.Errorf("%q changed fenced data: %s", sql, describe(an, fencesByName))
			}
		}
		run(t, conn, "ROLLBACK; RESET ALL; DEALLOCATE ALL; CLOSE ALL")
		if data() != baseline { // a COMMIT was in it
			run(t, conn, `DROP SCHEMA IF EXISTS app, app2, fence CASCADE; DROP OWNED BY owner_of_tables CASCADE`)
			c.Exec(t, db, `GRANT ALL ON SCHEMA public TO owner_of_tables; GRANT CREATE ON DATABASE `+pgx.Identifier{db}.Sanitize()+` TO owner_of_tables`)
			run(t, conn, serverSchema+`; INSERT INTO app.jobs VALUES (1, 1), (2, 2)`)
			baseline = data()
		}
	}
	texts := append(append(corpus(), writeCorpus...), readCorpus...)
	for _, sql := range texts {
		try(sql)
	}
	if changed < 45 {
		t.Errorf("only %d texts of the corpus changed fenced data: the test has lost its power", changed)
	}
	r := rand.New(rand.NewPCG(2, uint64(time.Now().UnixNano())))
	limit := time.Now().Add(max(mutateFor(), 3*time.Second))
	for n := 0; time.Now().Before(limit); n++ {
		try(mutate(r, append(writeCorpus, texts...)))
	}
	t.Logf("%d ran, %d changed fenced data", ran, changed)
}
