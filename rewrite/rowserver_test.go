package rewrite

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fenceproxy/fenceproxy/test/pgtest"
	"github.com/fenceproxy/fenceproxy/tokens"
)

// rowConn connects to a database with the fence schema and the tables of the hand cases.
func rowConn(t *testing.T) (*pgx.Conn, func() *pgx.Conn) {
	t.Helper()
	c := pgtest.Shared(t)
	db := c.NewDatabase(t)
	conn := c.Connect(t, db, "postgres")
	if _, err := conn.Exec(context.Background(), tokens.InstallSQL(), pgx.QueryExecModeSimpleProtocol); err != nil {
		t.Fatal(err)
	}
	c.Exec(t, db, rowSchema)
	connect := func() *pgx.Conn { return c.Connect(t, db, "postgres") }
	return connect(), connect
}

// hasForm reports whether the server's version has what a statement is made of.
func hasForm(conn *pgx.Conn, sql string) bool {
	major, _ := strconv.Atoi(strings.SplitN(conn.PgConn().ParameterStatus("server_version"), ".", 2)[0])
	return major >= 15 || !strings.Contains(sql, "MERGE")
}

// outcome is what a text did in a transaction that was rolled back.
type outcome struct {
	code, tag     string
	before, after []string // rows of all tables, the row token at their end
}

// tries runs a text with a token of the session; prepare runs in front of it.
func tries(t *testing.T, conn *pgx.Conn, prepare, sql string, args []any) (o outcome) {
	t.Helper()
	if code := run(t, conn, "BEGIN; SET LOCAL fence.token = 'jobs/7=5000'; SELECT setval('ident_id_seq', 100);"+prepare); code != "" {
		t.Fatalf("%s: %s", prepare, code)
	}
	defer run(t, conn, "ROLLBACK; DEALLOCATE ALL")
	o.before = rowsOf(t, conn)
	var err error
	var tag pgconn.CommandTag
	switch {
	case strings.HasPrefix(sql, "PREPARE"):
		o.code = run(t, conn, sql+"; EXECUTE pp(3)")
	case strings.HasSuffix(sql, "TO STDOUT"), strings.Contains(strings.TrimRight(sql, "; "), ";") && !strings.Contains(sql, "$$") && !strings.Contains(sql, "$x$"):
		o.code = run(t, conn, sql)
	default:
		var rows pgx.Rows
		if rows, err = conn.Query(context.Background(), sql, append([]any{pgx.QueryExecModeDescribeExec}, args...)...); err == nil {
			for rows.Next() {
			}
			rows.Close()
			tag, err = rows.CommandTag(), rows.Err()
		}
		o.tag = tag.String()
	}
	var e *pgconn.PgError
	if errors.As(err, &e) {
		o.code = e.Code
	} else if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	if o.code == "" {
		o.after = rowsOf(t, conn)
	}
	return o
}

func rowsOf(t *testing.T, conn *pgx.Conn) []string {
	t.Helper()
	var parts []string
	for _, table := range append([]string{"src", "plain"}, fencedTables...) {
		if table == "v" {
			continue
		}
		parts = append(parts, fmt.Sprintf(`SELECT '%s ' || (to_jsonb(x) - 'tok')::text || ' tok ' || coalesce(to_jsonb(x) ->> 'tok', '-') FROM %s x`, strings.Trim(table, `"`), table))
	}
	rows, err := conn.Query(context.Background(), strings.Join(parts, " UNION ALL ")+" ORDER BY 1", pgx.QueryExecModeSimpleProtocol)
	if err != nil {
		t.Fatal(err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return lines
}

// lost returns the rows that are not there any more, as they were.
func (o outcome) lost() (l []string) {
	for _, r := range o.before {
		if !slices.Contains(o.after, r) {
			l = append(l, r)
		}
	}
	return l
}

func withoutTokens(lines []string) (l []string) {
	for _, s := range lines {
		l = append(l, s[:strings.LastIndex(s, " tok ")])
	}
	slices.Sort(l)
	return l
}

func isFenced(line string) bool {
	return !strings.HasPrefix(line, "src ") && !strings.HasPrefix(line, "plain ")
}

const staleRows = `UPDATE t SET tok = 9000; UPDATE s2.t SET tok = 9000; UPDATE "Odd Table" SET tok = 9000; UPDATE "set" SET tok = 9000;
	UPDATE ident SET tok = 9000; UPDATE part SET tok = 9000; UPDATE arr SET tok = 9000`

// TestRowCasesOnServer: types stay what they are; a fresh session does what the original does and stamps; a stale one
// changes no newer row, and is told so under reject.
func TestRowCasesOnServer(t *testing.T) {
	conn, _ := rowConn(t)
	run(t, conn, "SET fence.token = 'jobs/7=5000'")
	typed, ran, stale := 0, 0, 0
	for mode, name := range map[OnStale]string{StaleReject: "reject", StaleRewrite: "rewrite"} {
		a := newAnalyzer(t, rowConfig(mode))
		var sc Scratch
		for _, c := range rowCases {
			an := a.Analyze(&sc, []byte(c.sql), Settings{})
			if !an.Spliced() || !hasForm(conn, c.sql) {
				continue
			}
			out := spliced(an, c.sql)
			fail := func(format string, args ...any) {
				t.Errorf("%s: %s\n %s\n %s", name, c.sql, out, fmt.Sprintf(format, args...))
			}
			if len(an.Statements) == 1 && !strings.HasPrefix(c.sql, "PREPARE") && !strings.HasPrefix(c.sql, "COPY") {
				if d := describeBoth(conn, c.sql, out); d != "" {
					fail("%s", d)
				}
				typed++
			}
			if strings.HasPrefix(c.sql, "EXPLAIN DELETE") {
				continue
			}
			orig, fresh := tries(t, conn, "", c.sql, c.args), tries(t, conn, "", out, c.args)
			if orig.code != fresh.code || orig.tag != fresh.tag {
				fail("original %q %q, spliced %q %q", orig.code, orig.tag, fresh.code, fresh.tag)
				continue
			}
			if orig.code != "" {
				continue
			}
			ran++
			if o, f := withoutTokens(orig.after), withoutTokens(fresh.after); !slices.Equal(o, f) {
				fail("other effect: %q, original %q", f, o)
			}
			for _, row := range fresh.after {
				if isFenced(row) && !slices.Contains(fresh.before, row) && !strings.HasSuffix(row, " tok 5000") && c.sql[:6] != "INSERT" {
					fail("not stamped: %s", row)
				}
			}
			touched := slices.ContainsFunc(fresh.lost(), isFenced)
			old := tries(t, conn, staleRows, out, c.args)
			switch {
			case mode == StaleReject && touched && !strings.Contains(c.sql, "tok "):
				stale++
				if old.code != "ZF001" {
					fail("stale: %q", old.code)
				}
			case old.code != "" && !(mode == StaleReject && strings.Contains(c.sql, "tok ")):
				fail("stale: %q", old.code)
			case old.code == "":
				for _, row := range old.lost() {
					if isFenced(row) {
						fail("a stale session has changed %s", row)
					}
				}
				if touched {
					stale++
				}
			}
		}
	}
	t.Logf("%d compared by type, %d ran, %d of them stale", typed, ran, stale)
	if typed < 150 || ran < 140 || stale < 100 {
		t.Error("the test has lost its power")
	}
}

// describeBoth prepares both texts and returns how their types differ.
func describeBoth(conn *pgx.Conn, a, b string) string {
	ctx := context.Background()
	da, err := conn.PgConn().Prepare(ctx, "a", a, nil)
	if err != nil {
		return err.Error()
	}
	db, err := conn.PgConn().Prepare(ctx, "b", b, nil)
	if err != nil {
		conn.PgConn().Exec(ctx, "DEALLOCATE a").Close()
		return err.Error()
	}
	defer conn.PgConn().Exec(ctx, "DEALLOCATE a; DEALLOCATE b").Close()
	if !slices.Equal(da.ParamOIDs, db.ParamOIDs) {
		return fmt.Sprintf("parameters %v, original %v", db.ParamOIDs, da.ParamOIDs)
	}
	if fmt.Sprint(da.Fields) != fmt.Sprint(db.Fields) {
		return fmt.Sprintf("columns %v, original %v", db.Fields, da.Fields)
	}
	return ""
}
