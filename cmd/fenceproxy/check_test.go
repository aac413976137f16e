package main

import "testing"

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
note: fence billing: invoices means 2 tables: "old"."invoices", "public"."invoices"
problem: fence billing: table payments does not exist
problem: fence billing: nowhere.* matches no table
note: fence billing: "public"."recent" is a view; writes to the tables below it are fenced only if these are named
problem: fence jobs: 1 partition or child table is not named, writes by their own name are not fenced: "public"."jobs_1"
problem: fence parts: 2 partitions or child tables are not named, writes by their own name are not fenced: "public"."parts_1", "public"."parts_2"
`, "fenceproxy: the database does not fit the configuration\n")

	fits := write(t, "g.yaml", "upstream: "+c.DSN("x", "postgres")+"\nfences:\n- name: billing\n  tables: [public.invoices]\n")
	fenceproxy(t, "check", fits, "--dsn", dsn).want(t, exitOK, fits+": valid; mode enforce, 1 fence, 1 table name\ndatabase DB: fits\n", "")

	c.Exec(t, "postgres", "DO $$ BEGIN CREATE ROLE plain_proxy LOGIN; EXCEPTION WHEN duplicate_object THEN END $$")
	plain := write(t, "h.yaml", "upstream: "+c.DSN("x", "plain_proxy")+"\nfences:\n- name: billing\n  tables: [public.invoices]\n")
	fenceproxy(t, "check", plain, "--dsn", dsn).want(t, exitRefused, plain+`: valid; mode enforce, 1 fence, 1 table name
problem: control role plain_proxy cannot do all that a takeover needs; a DBA runs: GRANT fence_control TO plain_proxy; GRANT pg_read_all_stats TO plain_proxy; GRANT pg_signal_backend TO plain_proxy;
`, "fenceproxy: the database does not fit the configuration\n")

	empty := c.NewDatabase(t)
	c.Exec(t, empty, "CREATE TABLE invoices (id int)")
	fenceproxy(t, "check", fits, "--dsn", c.DSN(empty, "postgres")).want(t, exitRefused, fits+`: valid; mode enforce, 1 fence, 1 table name
problem: the database has no fence schema: run fenceproxy init
`, "fenceproxy: the database does not fit the configuration\n")
}
