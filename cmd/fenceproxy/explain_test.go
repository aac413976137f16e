package main

import (
	"bytes"
	"context"
	"os"
	"testing"
)

func TestExplain(t *testing.T) {
	for _, tc := range []struct {
		name string
		args []string
		in   string
		want string
	}{
		{"writes, reads and transactions", []string{"--fence=billing=invoices", "BEGIN; UPDATE invoices SET paid = true;\n  SELECT 1; COMMIT"}, "", `
  at  | statement |  kind  | effect | fences  |           action
------+-----------+--------+--------+---------+-----------------------------
 1:1  | BEGIN     | begin  | none   |         | forward
 1:8  | UPDATE    | other  | write  | billing | guard billing, then forward
 2:3  | SELECT    | other  | none   |         | forward
 2:13 | COMMIT    | commit | none   |         | forward
(4 rows)

in front of 1:8:
  SELECT fence.guard(ARRAY['billing'],'billing');
`},
		{"opaque, from standard input", []string{"--fence=billing=invoices", "--opaque=reject"}, "SELECT f(1)", `
 at  | statement | kind  | effect | fences |                                         action
-----+-----------+-------+--------+--------+----------------------------------------------------------------------------------------
 1:1 | SELECT    | other | opaque |        | with a token: guard the session's fences, then forward; without one: refuse with ZF002
(1 row)

in front of 1:1:
  SELECT fence.guard_session('billing',false);
`},
		{"call refused", []string{"--fence=billing=invoices", "--opaque-call=reject", "CALL p()"}, "", `
 at  | statement | kind | effect | fences |                 action
-----+-----------+------+--------+--------+-----------------------------------------
 1:1 | CALL      | call | opaque |        | refuse with ZF004 (opaque_call: reject)
(1 row)
`},
		{"observe injects nothing", []string{"--fence=billing=invoices", "--mode=observe", "DELETE FROM invoices"}, "", `
 at  | statement | kind  | effect | fences  |                               action
-----+-----------+-------+--------+---------+--------------------------------------------------------------------
 1:1 | DELETE    | other | write  | billing | forward (mode observe); enforce would: guard billing, then forward
(1 row)
`},
		{"what cannot be read is parsed by PostgreSQL, then guarded", []string{"--fence=a=t", "--fence=b=u", "UPDATE t SET"}, "", `
The text cannot be read (not in the grammar of PostgreSQL 17). PostgreSQL is asked to parse it first, which
executes nothing: its error goes to the client. What it can parse is taken for a write to every fence.

 at  | statement | kind  | effect  | fences |                                  action
-----+-----------+-------+---------+--------+---------------------------------------------------------------------------
 1:1 | UNKNOWN   | other | unknown | a, b   | let PostgreSQL parse it first; if it can, guard every fence, then forward
(1 row)

in front of 1:1:
  SELECT fence.guard(ARRAY['a','b'],'');
`},
		{"sessions without a token", []string{"--fence=billing=invoices", "--tokenless=readonly", "SELECT f(1); RESET transaction_read_only; VACUUM; DELETE FROM invoices"}, "", `
  at  | statement |            kind             | effect | fences  |                                                  action
------+-----------+-----------------------------+--------+---------+----------------------------------------------------------------------------------------------------------
 1:1  | SELECT    | other                       | opaque |         | with a token: guard the session's fences, then forward; without a token: read-only (tokenless: readonly)
 1:14 | RESET     | set                         | none   |         | forward; without a token: refuse with ZF002 up to PostgreSQL 15 (tokenless: readonly)
 1:43 | VACUUM    | refuses a transaction block | write  |         | forward; no guard can run in front of it; without a token: refuse with ZF002 (tokenless: readonly)
 1:51 | DELETE    | other                       | write  | billing | guard billing, then forward
(4 rows)

in front of 1:1:
  SELECT fence.guard_session('billing',true);

in front of 1:51:
  SELECT fence.guard(ARRAY['billing'],'billing');
`},
		{"opaque: reject comes first", []string{"--fence=billing=invoices", "--tokenless=readonly", "--opaque=reject", "DO ''"}, "", `
 at  | statement | kind | effect | fences |                                         action
-----+-----------+------+--------+--------+----------------------------------------------------------------------------------------
 1:1 | DO        | do   | opaque |        | with a token: guard the session's fences, then forward; without one: refuse with ZF002
(1 row)

in front of 1:1:
  SELECT fence.guard_session('billing',false);
`},
		{"JSON", []string{"--json", "--fence=a=t", "TRUNCATE t"}, "", `
{
  "statements": [
    {
      "line": 1,
      "column": 1,
      "verb": "TRUNCATE",
      "kind": "other",
      "effect": "write",
      "fences": [
        "a"
      ],
      "action": "guard a, then forward",
      "injected": "SELECT fence.guard(ARRAY['a'],'a')"
    }
  ]
}
`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			fenceproxyWith(t, tc.in, append([]string{"explain"}, tc.args...)...).want(t, exitOK, tc.want, "")
		})
	}
}

// Without a statement there is nothing to explain, and no empty table that looks like an answer.
func TestExplainWithoutSQL(t *testing.T) {
	for _, in := range []string{"", "  ; -- nothing\n"} {
		fenceproxyWith(t, in, "explain", "--fence=a=t").want(t, exitUsage, "",
			"fenceproxy: no SQL: there is no statement in the text\nsee fenceproxy explain --help\n")
	}
	null, err := os.Open(os.DevNull) // a device, as a terminal is
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	var out, errs bytes.Buffer
	code := run(context.Background(), []string{"explain", "--fence=a=t"}, streams{null, &out, &errs})
	outcome{out.String(), masked(errs.String()), code}.want(t, exitUsage, "",
		"fenceproxy: no SQL: give it as an argument, or on standard input\nsee fenceproxy explain --help\n")
}

// What only the catalog tells: a function's writes, a partition, columns that an INSERT does not list.
func TestExplainWithCatalog(t *testing.T) {
	c, db, dsn := installed(t)
	c.Exec(t, db, `CREATE TABLE jobs (id int, tok bigint NOT NULL DEFAULT 0) PARTITION BY RANGE (id);
		CREATE TABLE jobs_1 PARTITION OF jobs FOR VALUES FROM (0) TO (5);
		CREATE FUNCTION pay(n int) RETURNS void LANGUAGE sql AS 'UPDATE jobs SET id = n'`)
	file := write(t, "f.yaml", "fences:\n- name: work\n  tables: [jobs]\n  row_token: tok\n")
	sql := "SELECT pay(7); DELETE FROM jobs_1; INSERT INTO jobs VALUES (1)"
	fenceproxy(t, "explain", "--config", file, "--dsn", dsn, sql).want(t, exitOK, `
  at  | statement | kind  | effect | fences |                         action
------+-----------+-------+--------+--------+---------------------------------------------------------
 1:1  | SELECT    | other | opaque | work   | guard work and the session's other fences, then forward
 1:16 | DELETE    | other | write  | work   | guard work, then forward
 1:36 | INSERT    | other | write  | work   | guard work, then forward
(3 rows)

in front of 1:1:
  SELECT fence.guard_session('work',true); SELECT fence.guard(ARRAY['work'],'work');

in front of 1:16:
  SELECT fence.guard(ARRAY['work'],'work');

1:16 is sent as:
  DELETE FROM jobs_1 WHERE fence.row_check("jobs_1"."tok", (SELECT fence.row_token('work', true)), 'work');

in front of 1:36:
  SELECT fence.guard(ARRAY['work'],'work');

1:36 is sent as:
  INSERT INTO jobs ("id", "tok") VALUES (1, fence.row_token('work', true));
`, "")
	fenceproxy(t, "explain", "--config", file, sql).want(t, exitOK, `
  at  | statement | kind  | effect | fences |                                                          action
------+-----------+-------+--------+--------+---------------------------------------------------------------------------------------------------------------------------
 1:1  | SELECT    | other | opaque |        | with a token: guard the session's fences, then forward; without one: forward
 1:16 | DELETE    | other | write  |        | forward
 1:36 | INSERT    | other | write  | work   | refuse with ZF004: INSERT without a list of columns into a table that fenceproxy does not know cannot be given row tokens
(3 rows)

in front of 1:1:
  SELECT fence.guard_session('work',true);

hint for 1:36:
  Name the columns: INSERT INTO table (a, b) VALUES ...
`, "")
	fenceproxy(t, "explain", "--config", file, "--dsn", "postgres://postgres@127.0.0.1:1/x", sql).want(t, exitFailure, "",
		"fenceproxy: cannot connect to 127.0.0.1:1, database \"x\", user \"postgres\": dial tcp 127.0.0.1:1: connect: connection refused\n")
}
