package main

import (
	"strings"
	"testing"

	"github.com/fenceproxy/fenceproxy/test/pgtest"
)

func TestInit(t *testing.T) {
	c := pgtest.Start(t) // roles are the cluster's: a cluster of its own
	c.Exec(t, "postgres", "CREATE DATABASE app; ")
	c.Exec(t, "postgres", "CREATE ROLE fence_proxy LOGIN")
	dsn := c.DSN("app", "postgres")
	fenceproxy(t, "init", "--dsn", dsn).want(t, exitOK, `
database app:
  created role fence_control
  created role fence_operator
  created role fence_owner
  created schema fence, version N
control role postgres has all the rights it needs
`, "")
	file := write(t, "f.yaml", "upstream: "+strings.Replace(c.DSN("app", "fence_proxy"), "postgres://", "postgres://", 1)+"\nmode: off\n")
	fenceproxy(t, "init", "--dsn", dsn, "--config", file).want(t, exitOK, `
database app: nothing to do, schema fence has version N
control role fence_proxy needs more rights; a DBA runs:
  GRANT fence_control TO fence_proxy;
  GRANT pg_read_all_stats TO fence_proxy;
  GRANT pg_signal_backend TO fence_proxy;
`, "")
	fenceproxyWith(t, "no\n", "init", "--dsn", dsn, "--uninstall").want(t, exitRefused, "",
		`This removes all marks of database app: old tokens could write again, and fenced writes through a proxy fail.
Type the name of the database to go on: fenceproxy: not confirmed, nothing was removed
`)
	if o := fenceproxy(t, "fence", "list", "--dsn", dsn); o.code != exitOK {
		t.Errorf("the schema is gone although nobody confirmed: %+v", o)
	}
	fenceproxyWith(t, "app\n", "init", "--dsn", dsn, "--uninstall").want(t, exitOK, `
database app:
  dropped schema fence and its marks
  dropped role fence_control
  dropped role fence_operator
  dropped role fence_owner
`, `This removes all marks of database app: old tokens could write again, and fenced writes through a proxy fail.
Type the name of the database to go on: `)
	fenceproxy(t, "init", "--dsn", dsn, "--uninstall", "--yes").want(t, exitOK, "database app: nothing to do, there is no fence schema\n", "")
}

// What --print prints is what init runs: psql accepts it, and init finds nothing to do afterwards.
func TestInitPrint(t *testing.T) {
	c := pgtest.Shared(t)
	db := c.NewDatabase(t)
	o := fenceproxy(t, "init", "--print")
	if o.code != exitOK {
		t.Fatal(o.err)
	}
	c.Exec(t, db, o.out)
	if o := fenceproxy(t, "init", "--dsn", c.DSN(db, "postgres")); !strings.HasPrefix(o.out, "database DB: nothing to do") {
		t.Errorf("%+v", o)
	}
	o = fenceproxy(t, "init", "--print", "--uninstall")
	if o.code != exitOK || !strings.Contains(o.out, "DROP SCHEMA") {
		t.Errorf("%+v", o)
	}
}

func TestSchemaOfAnotherVersion(t *testing.T) {
	c, db, dsn := installed(t)
	c.Exec(t, db, "INSERT INTO fence.version (version) VALUES (999)")
	o := fenceproxy(t, "init", "--dsn", dsn)
	if o.code != exitFailure || !strings.Contains(o.err, "newer") || !strings.Contains(o.err, "999") {
		t.Errorf("%+v", o)
	}
}

// Triggers: shown, made, listed, printed, removed.
func TestInitTriggers(t *testing.T) {
	c, db, dsn := installed(t)
	c.Exec(t, db, `CREATE TABLE invoices (id int); CREATE TABLE lines (id int) PARTITION BY RANGE (id);
		CREATE TABLE lines_1 PARTITION OF lines FOR VALUES FROM (0) TO (10); CREATE TABLE jobs (id int)`)
	args := func(more ...string) []string {
		return append([]string{"init", "--dsn", dsn, "--triggers", "--fence", "billing=invoices,lines", "--fence", "jobs=jobs,nowhere"}, more...)
	}
	const steps = `  "public"."invoices": create the guard (billing)
  "public"."lines": create the guard (billing)
  "public"."lines_1": create the guard (billing)
  "public"."jobs": create the guard (jobs)
  the database: create the event trigger that watches DDL (1 of 2)
  the database: create the event trigger that watches DDL (2 of 2)
note: fence jobs: nowhere matches no table
`
	fenceproxy(t, args("--dry-run")...).want(t, exitOK, "triggers, not done:\n"+steps, "")
	printed := fenceproxy(t, args("--print", "--lock-timeout", "1s")...)
	if printed.code != exitOK || !strings.Contains(printed.out, "CREATE OR REPLACE TRIGGER fence_guard BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON \"public\".\"lines_1\" FOR EACH STATEMENT EXECUTE FUNCTION fence.guard_write('', 'billing');") ||
		!strings.Contains(printed.out, "BEGIN;\nSET LOCAL search_path = pg_catalog, pg_temp;\nSET LOCAL lock_timeout = 1000;\n") {
		t.Errorf("%+v", printed)
	}
	const schema = "database DB: nothing to do, schema fence has version N\ncontrol role postgres has all the rights it needs\n"
	fenceproxy(t, args()...).want(t, exitOK, schema+"triggers:\n"+steps+"done: 6 changes\n", "")
	fenceproxy(t, args()...).want(t, exitOK, schema+"triggers: nothing to do, 4 in place\nnote: fence jobs: nowhere matches no table\n", "")
	fenceproxy(t, "init", "--dsn", dsn, "--remove-triggers", "--dry-run").want(t, exitOK, `triggers, not done:
  the database: drop the event trigger fence_ddl_end
  the database: drop the event trigger fence_ddl_drop
  "public"."invoices": drop the trigger fence_guard
  "public"."lines": drop the trigger fence_guard
  "public"."lines_1": drop the trigger fence_guard
  "public"."jobs": drop the trigger fence_guard
`, "")
	if o := fenceproxy(t, "init", "--dsn", dsn, "--remove-triggers"); o.code != exitOK || !strings.HasSuffix(o.out, "done: 6 changes\n") {
		t.Errorf("%+v", o)
	}
	fenceproxy(t, "init", "--dsn", dsn, "--remove-triggers").want(t, exitOK, "triggers: nothing to do, 0 in place\n", "")
	c.Exec(t, db, printed.out)
	fenceproxy(t, args("--dry-run")...).want(t, exitOK, "triggers: nothing to do, 4 in place\nnote: fence jobs: nowhere matches no table\n", "")
	for args, want := range map[string]string{
		"init --triggers":                          "no fences: --triggers needs --fence NAME=TABLE[,TABLE...] or --config FILE",
		"init --dry-run":                           "--dry-run goes with --triggers, --row-tokens or --remove-triggers",
		"init --triggers --uninstall":              "--triggers, --remove-triggers and --uninstall do not go together",
		"init --always":                            "--always and --no-event-triggers go with --triggers",
		"init --fence a=b":                         "--fence and --bare-token go with --triggers",
		"init --lock-timeout 1s":                   "--lock-timeout goes with --triggers, --row-tokens or --remove-triggers",
		"init --triggers --lock-timeout 0s --yes":  "--lock-timeout must be at least 1ms",
		"init --triggers --fence a=b --always=yes": "invalid argument",
	} {
		if o := fenceproxy(t, strings.Fields(args)...); o.code != exitUsage || !strings.Contains(o.err, want) {
			t.Errorf("%s: %+v", args, o)
		}
	}
}
