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
