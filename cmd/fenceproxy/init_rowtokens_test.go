package main

import (
	"context"
	"strings"
	"testing"
)

const rowConfig = `upstream: host=db sslmode=disable
fences:
  - name: jobs/*
    tables: [jobs, jobs_1, child]
    row_token: tok
    on_stale: rewrite
    scope: jobs/{id}
  - name: billing
    tables: [public.invoices]
    row_token: '"Tok"'
`

// Columns of row tokens: shown, printed, added, checked.
func TestInitRowTokens(t *testing.T) {
	c, db, dsn := installed(t)
	c.Exec(t, db, `CREATE TABLE jobs (id int) PARTITION BY RANGE (id); CREATE TABLE jobs_1 PARTITION OF jobs FOR VALUES FROM (0) TO (10);
		CREATE TABLE parent (id int); CREATE TABLE child () INHERITS (parent); CREATE TABLE invoices (id int)`)
	file := write(t, "f.yaml", rowConfig)
	adds := `  ALTER TABLE "public"."jobs" ADD COLUMN IF NOT EXISTS "tok" bigint NOT NULL DEFAULT 0
  ALTER TABLE "public"."child" ADD COLUMN IF NOT EXISTS "tok" bigint NOT NULL DEFAULT 0
  ALTER TABLE "public"."invoices" ADD COLUMN IF NOT EXISTS "Tok" bigint NOT NULL DEFAULT 0
`
	fenceproxy(t, "init", "--dsn", dsn, "--row-tokens", "--config", file, "--dry-run").want(t, exitOK, "row tokens, not done:\n"+adds, "")
	o := fenceproxy(t, "init", "--dsn", dsn, "--row-tokens", "--config", file, "--print", "--lock-timeout", "1s")
	if o.code != exitOK || !strings.HasPrefix(o.out, "BEGIN;\nSET LOCAL lock_timeout = 1000;\n") {
		t.Errorf("%+v", o)
	}
	o = fenceproxy(t, "check", file, "--dsn", dsn)
	if !strings.Contains(o.out, `fence jobs/*: "public"."jobs": column "tok" does not exist; run fenceproxy init --row-tokens`) {
		t.Errorf("%+v", o)
	}
	o = fenceproxy(t, "init", "--dsn", dsn, "--row-tokens", "--config", file)
	if o.code != exitOK || !strings.Contains(o.out, "row tokens:\n"+adds+"done: 3 columns\n") {
		t.Errorf("%+v", o)
	}
	o = fenceproxy(t, "init", "--dsn", dsn, "--row-tokens", "--config", file)
	if o.code != exitOK || !strings.Contains(o.out, "row tokens: nothing to add\n") {
		t.Errorf("%+v", o)
	}
	if o = fenceproxy(t, "check", file, "--dsn", dsn); strings.Contains(o.out, "column") {
		t.Errorf("%+v", o)
	}
}

// What a configuration of row tokens has wrong is told before anything is done, and what a database refuses with a way on.
func TestInitRowTokensRefused(t *testing.T) {
	c, db, dsn := installed(t)
	c.Exec(t, db, "CREATE TABLE jobs (id int)")
	file := write(t, "f.yaml", "fences: [{name: jobs/*, tables: [jobs, nowhere], row_token: tok}]\n")
	fenceproxy(t, "init", "--dsn", dsn, "--row-tokens").want(t, exitUsage, "", "fenceproxy: --row-tokens needs --config FILE: only a file can give a fence its row_token\n")
	plain := write(t, "plain.yaml", "fences: [{name: jobs/*, tables: [jobs]}]\n")
	fenceproxy(t, "init", "--dsn", dsn, "--row-tokens", "--config", plain).want(t, exitUsage, "", "fenceproxy: "+plain+": no fence has a row_token\n")

	const add = `ALTER TABLE "public"."jobs" ADD COLUMN IF NOT EXISTS "tok" bigint NOT NULL DEFAULT 0`
	fenceproxy(t, "init", "--dsn", dsn, "--row-tokens", "--config", file, "--dry-run").want(t, exitOK, "row tokens, not done:\n  "+add+"\nnote: fence jobs/*: nowhere matches no table\n", "")
	if o := fenceproxy(t, "init", "--dsn", dsn, "--row-tokens", "--config", file, "--print"); !strings.HasPrefix(o.out, "-- note: fence jobs/*: nowhere matches no table\nBEGIN;\n") {
		t.Errorf("%+v", o)
	}
	tx, err := c.Connect(t, db, "postgres").Begin(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.Background())
	if _, err := tx.Exec(context.Background(), "INSERT INTO jobs VALUES (1)"); err != nil {
		t.Fatal(err)
	}
	o := fenceproxy(t, "init", "--dsn", dsn, "--row-tokens", "--config", file, "--lock-timeout", "50ms")
	if o.code != exitFailure || !strings.HasSuffix(o.err, "(SQLSTATE 55P03); somebody is using the table: try again at a quieter time, or wait longer; no column was added\n") {
		t.Errorf("%+v", o)
	}
	if err := tx.Rollback(context.Background()); err != nil {
		t.Fatal(err)
	}

	const problem = `fence jobs/*: "public"."jobs": column "tok" does not exist; run fenceproxy init --row-tokens`
	const triggers = `  "public"."jobs": create the guard (jobs/*)
  "public"."jobs": create the trigger of row tokens (jobs/*)
note: fence jobs/*: nowhere matches no table
problem: ` + problem + "\n"
	for _, dry := range []string{"--dry-run", "--dry-run=false"} { // a trigger without its column would fail each write
		o = fenceproxy(t, "init", "--dsn", dsn, "--triggers", "--no-event-triggers", "--config", file, dry)
		if o.code != exitRefused || !strings.HasSuffix(o.out, "triggers, not done:\n"+triggers) || !strings.Contains(o.err, "no trigger was changed") {
			t.Errorf("%+v", o)
		}
	}
	if o = fenceproxy(t, "init", "--dsn", dsn, "--triggers", "--config", file, "--print"); !strings.HasPrefix(o.out, "-- problem: "+problem+"\n") {
		t.Errorf("%+v", o)
	}
	c.Exec(t, db, "INSERT INTO jobs VALUES (2)") // no trigger
	if o = fenceproxy(t, "init", "--dsn", dsn, "--triggers", "--row-tokens", "--config", file); o.code != exitOK || !strings.Contains(o.out, "done: 1 column\ntriggers:\n") {
		t.Errorf("%+v", o)
	}

	two := write(t, "two.yaml", "fences: [{name: jobs/*, tables: [jobs], row_token: tok}, {name: all, tables: [public.jobs], row_token: tok}]\n")
	o = fenceproxy(t, "check", two, "--dsn", dsn)
	if o.code != exitRefused || !strings.Contains(o.out, "problem: \"public\".\"jobs\": several fences with row tokens claim it: jobs/*, all; every write to it is refused\n") {
		t.Errorf("%+v", o)
	}
}

func TestCheckOfRowTokens(t *testing.T) {
	c, db, dsn := installed(t)
	c.Exec(t, db, `CREATE TABLE invoices (id int, "Tok" int); CREATE TABLE jobs (tok bigint); CREATE TABLE jobs_1 (id int, tok bigint NOT NULL); CREATE VIEW child AS SELECT 1 AS id`)
	file := write(t, "f.yaml", rowConfig)
	o := fenceproxy(t, "check", file, "--dsn", dsn)
	for _, line := range []string{
		`problem: fence jobs/*: "public"."jobs": no column "id", which its scope names`,
		`note: fence jobs/*: "public"."jobs": column "tok" may be NULL, which counts as 0`,
		`problem: fence billing: "public"."invoices": column "Tok" is integer, row tokens need bigint`,
	} {
		if !strings.Contains(o.out, line+"\n") {
			t.Errorf("%q is not in\n%s", line, o.out)
		}
	}
	o = fenceproxy(t, "init", "--dsn", dsn, "--row-tokens", "--config", file)
	if o.code != exitRefused || !strings.Contains(o.out, "problem: fence billing") || !strings.Contains(o.out, `"child": column "tok" does not exist, and this is a view`) {
		t.Errorf("%+v", o)
	}
}

// A scope by a generated column: a row would pass to another fence when what it is generated from is assigned.
func TestCheckOfGeneratedScope(t *testing.T) {
	c, db, dsn := installed(t)
	c.Exec(t, db, `CREATE TABLE jobs (base int, id int GENERATED ALWAYS AS (base * 10) STORED, tok bigint NOT NULL DEFAULT 0)`)
	file := write(t, "f.yaml", "fences: [{name: jobs/*, tables: [jobs], row_token: tok, scope: 'jobs/{id}'}]\n")
	const problem = `fence jobs/*: "public"."jobs": column "id", which its scope names, is generated: a row could pass from one fence to another`
	for _, args := range [][]string{{"check", file, "--dsn", dsn}, {"init", "--triggers", "--config", file, "--dsn", dsn}} {
		if o := fenceproxy(t, args...); o.code != exitRefused || !strings.Contains(o.out, "problem: "+problem+"\n") {
			t.Errorf("%v: %+v", args, o)
		}
	}
}

// A mistake elsewhere hides none of a fence's: all are told at once.
func TestWrongRowTokensAtOnce(t *testing.T) {
	file := write(t, "f.yaml", "catalog_interval: 2h\nfences:\n  - {name: a, tables: [t], row_token: 'x y', scope: 'a/{'}\n  - {name: jobs/*, tables: [t], row_token: c, scope: 'work/{id}'}\n")
	o := fenceproxy(t, "check", file)
	var lines []string
	for _, line := range strings.Split(o.err, "\n") {
		if strings.Contains(line, "f.yaml:") {
			lines = append(lines, line[strings.Index(line, "f.yaml:"):])
		}
	}
	want := `f.yaml:1:19: 2h is out of range: want 100ms to 1h
f.yaml:3:39: row_token: "x y" is not a column: want its name, quoted as in SQL
f.yaml:4:12: fence "jobs/*": scope "work/{id}": with * for the column it must be the fence's name`
	if got := strings.Join(lines, "\n"); o.code != exitUsage || got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}

func TestWrongRowTokens(t *testing.T) {
	for name, c := range map[string]struct{ fence, want string }{
		"two stars":       {"name: 'a*b*'\n    tables: [t]", "more than one *"},
		"scope alone":     {"name: jobs/*\n    tables: [t]\n    scope: jobs/{id}", "a scope needs a row_token"},
		"rewrite alone":   {"name: jobs\n    tables: [t]\n    on_stale: rewrite", "on_stale: rewrite needs a row_token"},
		"another scope":   {"name: jobs/*\n    tables: [t]\n    row_token: c\n    scope: work/{id}", "it must be the fence's name"},
		"no column":       {"name: jobs\n    tables: [t]\n    row_token: a.b", `"a.b" is not a column`},
		"an unknown way":  {"name: jobs\n    tables: [t]\n    row_token: c\n    on_stale: drop", `want reject or rewrite`},
		"an unknown key":  {"name: jobs\n    tables: [t]\n    rowtoken: c", "did you mean row_token?"},
		"text for column": {"name: jobs\n    tables: [t]\n    row_token: [c]", "want text"},
	} {
		o := fenceproxy(t, "check", write(t, "f.yaml", "upstream: host=db sslmode=disable\nfences:\n  - "+c.fence+"\n"))
		if o.code == exitOK || !strings.Contains(o.err, c.want) {
			t.Errorf("%s: %+v", name, o)
		}
	}
}

func TestExplainRowTokens(t *testing.T) {
	file := write(t, "f.yaml", rowConfig)
	if o := fenceproxy(t, "explain", "--config", file, "INSERT INTO invoices VALUES (1)"); !strings.HasSuffix(o.out, "\nhint for 1:1:\n  Name the columns: INSERT INTO table (a, b) VALUES ...\n") {
		t.Errorf("%+v", o)
	}
	if o := fenceproxy(t, "explain", "--config", file, "--tokenless", "readonly", "UPDATE jobs SET a = 1 WHERE id = 1; UPDATE invoices SET a = 1"); !strings.Contains(o.out, "| check rows, then forward; without a token: read-only (tokenless: readonly)\n") || !strings.Contains(o.out, "| guard billing, then forward\n") {
		t.Errorf("%+v", o)
	}
	o := fenceproxy(t, "explain", "--config", file, "UPDATE public.invoices SET a = 1; INSERT INTO jobs (id) VALUES (1)")
	for _, text := range []string{
		`SET "Tok" = fence.row_stamp(`, "guard billing, then forward", "guard the session's named tokens, check rows, then forward",
		"SELECT fence.guard_pattern('jobs/*','',true)", "1:1 is sent as:", "1:35 is sent as:",
	} {
		if !strings.Contains(o.out, text) {
			t.Errorf("%q is not in\n%s%s", text, o.out, o.err)
		}
	}
}
