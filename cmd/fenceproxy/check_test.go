package main

import (
	"strings"
	"testing"
)

func TestCheckFile(t *testing.T) {
	good := write(t, "good.yaml", "fences:\n- name: billing\n  tables: [invoices, ledger.*]\n")
	fenceproxy(t, "check", good).want(t, exitOK, good+": valid; mode enforce, 1 fence, 2 table names\n"+
		"note: no upstream in the file; serve needs --upstream or FENCEPROXY_UPSTREAM\n", "")
	bad := write(t, "bad.yaml", "mode: enforced\n")
	fenceproxy(t, "check", bad).want(t, exitUsage, "", "fenceproxy: "+bad+`:1:7: unknown mode "enforced": want enforce, observe or off
    1 | mode: enforced
      |       ^
`)
	fenceproxy(t, "check").want(t, exitUsage, "", "fenceproxy: FILE is missing\nsee fenceproxy check --help\n")
}

func TestCheckDatabase(t *testing.T) {
	c, db, dsn := installed(t)
	c.Exec(t, db, `CREATE TABLE invoices (id int);
		CREATE SCHEMA old; CREATE TABLE old.invoices (id int);
		CREATE TABLE "Jobs" (id int) PARTITION BY RANGE (id);
		CREATE TABLE jobs_1 PARTITION OF "Jobs" FOR VALUES FROM (0) TO (10) PARTITION BY RANGE (id);
		CREATE TABLE jobs_1a PARTITION OF jobs_1 FOR VALUES FROM (0) TO (5);
		CREATE TABLE parts (id int) PARTITION BY RANGE (id);
		CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM (0) TO (10);
		CREATE TABLE parts_2 PARTITION OF parts FOR VALUES FROM (10) TO (20);
		CREATE VIEW recent AS SELECT * FROM invoices`)
	file := write(t, "f.yaml", `upstream: `+c.DSN("x", "postgres")+`
fences:
- name: billing
  tables: [invoices, payments, nowhere.*, recent]
- name: jobs
  tables: ['"Jobs"', jobs_1a]
- name: parts
  tables: [parts]
`)
	fenceproxy(t, "check", file, "--dsn", dsn).want(t, exitRefused, file+`: valid; mode enforce, 3 fences, 7 table names
fence billing:
  "old"."invoices": table, no trigger
  "public"."invoices": table, no trigger
  "public"."recent": view, no trigger possible
fence jobs:
  "public"."Jobs": partitioned table, no trigger
  "public"."jobs_1": partitioned table below "public"."Jobs", no trigger
  "public"."jobs_1a": table, no trigger
fence parts:
  "public"."parts": partitioned table, no trigger
  "public"."parts_1": table below "public"."parts", no trigger
  "public"."parts_2": table below "public"."parts", no trigger
note: fence billing: invoices means 2 tables: "old"."invoices", "public"."invoices"
problem: fence billing: table payments does not exist
problem: fence billing: nowhere.* matches no table
note: fence billing: "public"."recent" is a view; writes to the tables below it are fenced only if these are named
problem: fence jobs: 1 partition or child table is not named, writes by their own name are fenced only while serve can read the catalog: "public"."jobs_1"
problem: fence parts: 2 partitions or child tables are not named, writes by their own name are fenced only while serve can read the catalog: "public"."parts_1", "public"."parts_2"
note: no triggers: writes that no statement's text shows, and those past the proxy, are not fenced (fenceproxy init --triggers)
`, "fenceproxy: the database does not fit the configuration\n")

	fits := write(t, "g.yaml", "upstream: "+c.DSN("x", "postgres")+"\nfences:\n- name: billing\n  tables: [public.invoices]\n")
	fenceproxy(t, "check", fits, "--dsn", dsn).want(t, exitOK, fits+`: valid; mode enforce, 1 fence, 1 table name
fence billing:
  "public"."invoices": table, no trigger
  written through "public"."recent": INSERT, UPDATE, DELETE (view)
note: no triggers: writes that no statement's text shows, and those past the proxy, are not fenced (fenceproxy init --triggers)
database DB: fits
`, "")

	c.Exec(t, "postgres", "DO $$ BEGIN CREATE ROLE plain_proxy LOGIN; EXCEPTION WHEN duplicate_object THEN END $$")
	plain := write(t, "h.yaml", "upstream: "+c.DSN("x", "plain_proxy")+"\nfences:\n- name: billing\n  tables: [public.invoices]\n")
	fenceproxy(t, "check", plain, "--dsn", dsn).want(t, exitRefused, plain+`: valid; mode enforce, 1 fence, 1 table name
fence billing:
  "public"."invoices": table, no trigger
  written through "public"."recent": INSERT, UPDATE, DELETE (view)
problem: control role plain_proxy cannot do all that a takeover needs; a DBA runs: GRANT fence_control TO plain_proxy; GRANT pg_read_all_stats TO plain_proxy; GRANT pg_signal_backend TO plain_proxy;
note: no triggers: writes that no statement's text shows, and those past the proxy, are not fenced (fenceproxy init --triggers)
`, "fenceproxy: the database does not fit the configuration\n")

	empty := c.NewDatabase(t)
	c.Exec(t, empty, "CREATE TABLE invoices (id int)")
	fenceproxy(t, "check", fits, "--dsn", c.DSN(empty, "postgres")).want(t, exitRefused, fits+`: valid; mode enforce, 1 fence, 1 table name
fence billing:
  "public"."invoices": table, no trigger
problem: the database has no fence schema: run fenceproxy init
note: no triggers: writes that no statement's text shows, and those past the proxy, are not fenced (fenceproxy init --triggers)
`, "fenceproxy: the database does not fit the configuration\n")
}

// What check tells of triggers, and of what leads to a fence otherwise.
func TestCheckTriggers(t *testing.T) {
	c, db, dsn := installed(t)
	c.Exec(t, db, `CREATE TABLE invoices (id int PRIMARY KEY, up int); CREATE TABLE customers (id int PRIMARY KEY);
		ALTER TABLE invoices ADD CONSTRAINT fk FOREIGN KEY (up) REFERENCES customers ON DELETE CASCADE;
		CREATE TABLE lines (id int) PARTITION BY RANGE (id); CREATE TABLE lines_1 PARTITION OF lines FOR VALUES FROM (0) TO (10);
		CREATE FUNCTION pay(i int) RETURNS void LANGUAGE sql AS 'UPDATE invoices SET up = NULL WHERE id = i';
		CREATE FUNCTION run(s text) RETURNS void LANGUAGE plpgsql AS 'BEGIN EXECUTE s; END';
		CREATE OPERATOR ### (FUNCTION = pay, RIGHTARG = int)`)
	file := write(t, "f.yaml", "upstream: "+c.DSN("x", "postgres")+"\nfences:\n- name: billing\n  tables: [invoices, lines]\n")
	if o := fenceproxy(t, "init", "--dsn", dsn, "--triggers", "--config", file, "--no-event-triggers"); o.code != exitOK {
		t.Fatal(o)
	}
	fenceproxy(t, "check", file, "--dsn", dsn).want(t, exitOK, file+`: valid; mode enforce, 1 fence, 2 table names
fence billing:
  "public"."invoices": table, trigger present
  "public"."lines": partitioned table, trigger present
  "public"."lines_1": table below "public"."lines", trigger present
  written through "public"."customers": DELETE, TRUNCATE (foreign key fk)
  written by function "public"."pay"(i integer)
  no text shows: operator public.###(NONE,integer) calls function "public"."pay"(i integer)
any fence: function "public"."run"(s text) runs SQL that it makes up: it may write anything
note: fence billing: 1 partition or child table is not named, writes by their own name are fenced by triggers, and by serve only while it can read the catalog: "public"."lines_1"
note: no event triggers: partitions and children that are created later have no guard until fenceproxy init --triggers runs again
database DB: fits
`, "")
	c.Exec(t, db, `ALTER TABLE invoices DISABLE TRIGGER fence_guard; DROP TRIGGER fence_guard ON lines_1;
		CREATE OR REPLACE TRIGGER fence_guard BEFORE INSERT ON lines EXECUTE FUNCTION fence.guard_write('billing', 'billing')`)
	o := fenceproxy(t, "check", file, "--dsn", dsn)
	if o.code != exitRefused {
		t.Errorf("exit code %d", o.code)
	}
	for _, want := range []string{
		`problem: fence billing: "public"."invoices": trigger disabled; run fenceproxy init --triggers`,
		`problem: fence billing: "public"."lines": trigger altered; run fenceproxy init --triggers`,
		`problem: fence billing: "public"."lines_1": no trigger; run fenceproxy init --triggers`,
	} {
		if !strings.Contains(o.out, want) {
			t.Errorf("%q is not in\n%s", want, o.out)
		}
	}
}

// Under on_stale: rewrite the trigger of row tokens is all that a table has: with it a child is fenced as its parent is.
func TestCheckOfChildrenUnderRewrite(t *testing.T) {
	c, db, dsn := installed(t)
	c.Exec(t, db, `CREATE TABLE jobs (id int, tok bigint NOT NULL DEFAULT 0); CREATE TABLE child () INHERITS (jobs)`)
	file := write(t, "f.yaml", "upstream: "+c.DSN("x", "postgres")+"\nfences:\n- name: jobs/*\n  tables: [jobs]\n  row_token: tok\n  on_stale: rewrite\n")
	if o := fenceproxy(t, "check", file, "--dsn", dsn); o.code != exitRefused || !strings.Contains(o.out, "problem: fence jobs/*: 1 partition or child table is not named") {
		t.Errorf("without triggers: %+v", o)
	}
	if o := fenceproxy(t, "init", "--dsn", dsn, "--triggers", "--config", file); o.code != exitOK {
		t.Fatalf("%+v", o)
	}
	if o := fenceproxy(t, "check", file, "--dsn", dsn); o.code != exitOK || !strings.Contains(o.out, "note: fence jobs/*: 1 partition or child table is not named, writes by their own name are fenced by triggers") {
		t.Errorf("%+v", o)
	}
	c.Exec(t, db, "ALTER TABLE child DISABLE TRIGGER fence_row_token")
	if o := fenceproxy(t, "check", file, "--dsn", dsn); o.code != exitRefused || !strings.Contains(o.out, "problem: fence jobs/*: 1 partition or child table is not named") {
		t.Errorf("disabled: %+v", o)
	}
}
