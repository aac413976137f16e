package tokens

import (
	"errors"
	"os/exec"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/fenceproxy/fenceproxy/test/pgtest"
)

func mustInstall(t *testing.T, conn *pgx.Conn) Report {
	t.Helper()
	r, err := Install(ctx, conn)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// A cluster of its own, for the roles are the cluster's.
func TestInstallUpgradeUninstall(t *testing.T) {
	pgtest.EachVersion(t, func(t *testing.T, i pgtest.Installation) {
		c := pgtest.Start(t, pgtest.WithInstallation(i))
		one, two := c.Connect(t, c.NewDatabase(t), "postgres"), c.Connect(t, c.NewDatabase(t), "postgres")

		if err := CheckVersion(ctx, one); !errors.Is(err, ErrNoSchema) {
			t.Error("before:", err)
		}
		r := mustInstall(t, one)
		if r.From != 0 || r.To != SchemaVersion() || len(r.Changes) != 4 {
			t.Errorf("install: %+v", r)
		}
		if r = mustInstall(t, one); len(r.Changes) != 0 || r.From != SchemaVersion() {
			t.Errorf("again: %+v", r)
		}
		if err := CheckVersion(ctx, one); err != nil {
			t.Error("after:", err)
		}

		// Upgrade from every older version, with a mark in it.
		for from := 1; from < SchemaVersion(); from++ {
			up := c.Connect(t, c.NewDatabase(t), "postgres")
			if err := runScript(ctx, up, installSQL(versions[:from])); err != nil {
				t.Fatal(err)
			}
			if err := CheckVersion(ctx, up); !errors.Is(err, ErrOlderSchema) {
				t.Errorf("version %d: %v", from, err)
			}
			if _, err := up.Exec(ctx, "INSERT INTO fence.mark (name, epoch, token) VALUES ('kept', 0, 34)"); err != nil {
				t.Fatal(err)
			}
			if r := mustInstall(t, up); r.From != from || r.To != SchemaVersion() || len(r.Changes) != 1 {
				t.Errorf("upgrade from %d: %+v", from, r)
			}
			if s, err := Status(ctx, up, "kept"); err != nil || len(s) != 1 || s[0].Token != (Token{0, 34}) {
				t.Errorf("upgrade from %d: %v, %v", from, s, err)
			}
			if _, err := Uninstall(ctx, up); err != nil {
				t.Fatal(err)
			}
		}

		// A newer schema is an error, in the binary and in the script.
		if _, err := one.Exec(ctx, "INSERT INTO fence.version (version) VALUES (99)"); err != nil {
			t.Fatal(err)
		}
		for what, err := range map[string]error{"CheckVersion": CheckVersion(ctx, one), "Install": func() error { _, err := Install(ctx, one); return err }()} {
			if !errors.Is(err, ErrNewerSchema) || !strings.Contains(err.Error(), "99") {
				t.Errorf("%s: %v", what, err)
			}
		}
		if err := runScript(ctx, one, InstallSQL()); err == nil || !strings.Contains(err.Error(), "version 99, newer than this fenceproxy") {
			t.Error("script:", err)
		}
		if one.PgConn().TxStatus() != 'I' {
			t.Error("a failed script left its transaction open")
		}
		one.Exec(ctx, "DELETE FROM fence.version WHERE version = 99")

		// Roles stay while another database uses them.
		mustInstall(t, two)
		r, err := Uninstall(ctx, one)
		if err != nil || len(r.Left) == 0 || r.To != 0 || !strings.Contains(strings.Join(r.Left, " "), "fence_owner") {
			t.Errorf("uninstall one: %+v, %v", r, err)
		}
		if v, err := InstalledVersion(ctx, two); v != SchemaVersion() || err != nil {
			t.Error("two:", v, err)
		}
		r, err = Uninstall(ctx, two)
		if err != nil || len(r.Left) != 0 || len(r.Changes) < 2 {
			t.Errorf("uninstall two: %+v, %v", r, err)
		}
		if r, err = Uninstall(ctx, two); err != nil || len(r.Changes)+len(r.Left) != 0 {
			t.Errorf("uninstall again: %+v, %v", r, err)
		}
	})
}

// A role with CREATEROLE that owns the database is enough; without CREATEROLE the error says what a DBA runs, and that
// is enough. Mutant "CREATE SCHEMA before GRANT fence_owner": red.
func TestInstallWithoutSuperuser(t *testing.T) {
	pgtest.EachVersion(t, func(t *testing.T, i pgtest.Installation) {
		c := pgtest.Start(t, pgtest.WithInstallation(i))
		db, second := c.NewDatabase(t), c.NewDatabase(t)
		c.Exec(t, db, "CREATE ROLE maker LOGIN CREATEROLE; CREATE ROLE plain LOGIN; CREATE ROLE ctl LOGIN; ALTER DATABASE "+db+" OWNER TO maker; ALTER DATABASE "+second+" OWNER TO plain")
		plain := c.Connect(t, second, "plain")
		_, err := Install(ctx, plain)
		if err == nil || !strings.Contains(err.Error(), "CREATE ROLE fence_owner NOLOGIN") {
			t.Fatal("without CREATEROLE:", err)
		}
		maker := c.Connect(t, db, "maker")
		if _, err := Install(ctx, c.Connect(t, second, "maker")); err == nil || !strings.HasSuffix(err.Error(), "\nUse a superuser, or a role that owns the database and has CREATEROLE.") {
			t.Error("in another's database:", err)
		}
		mustInstall(t, maker)
		if r := mustInstall(t, maker); len(r.Changes) != 0 {
			t.Errorf("again: %+v", r)
		}
		missing, err := MissingGrants(ctx, maker, "ctl")
		if err != nil || strings.Join(missing, " ") != "GRANT fence_control TO ctl; GRANT pg_read_all_stats TO ctl; GRANT pg_signal_backend TO ctl;" {
			t.Error(missing, err)
		}
		c.Exec(t, db, strings.Join(missing, "\n"))
		if missing, err = MissingGrants(ctx, maker, "ctl"); err != nil || len(missing) != 0 {
			t.Error("after the grants:", missing, err)
		}
		if missing, err = MissingGrants(ctx, maker, "postgres"); err != nil || len(missing) != 0 {
			t.Error("superuser:", missing, err)
		}
		ctl := c.Connect(t, db, "ctl")
		if v, err := InstalledVersion(ctx, ctl); v != SchemaVersion() || err != nil {
			t.Error("version as the control role:", v, err)
		}
		if _, err := Status(ctx, ctl, ""); err != nil {
			t.Error(err)
		}
		for _, role := range []string{"ctl", "plain"} { // one reads the version, the other does not
			other := c.Connect(t, db, role)
			_, install := Install(ctx, other)
			_, uninstall := Uninstall(ctx, other)
			for _, err := range []error{install, uninstall} {
				if err == nil || !strings.Contains(err.Error(), "42501") || !strings.Contains(err.Error(), "\nUse a superuser, or the role that installed the schema") {
					t.Errorf("%s, who may not: %v", role, err)
				}
			}
		}
		// What the error told the DBA: the roles are there by now, the membership is missing.
		c.Exec(t, second, "GRANT fence_owner TO plain")
		mustInstall(t, plain)
		if _, err := Uninstall(ctx, plain); err != nil {
			t.Error(err)
		}
		r, err := Uninstall(ctx, maker)
		if err != nil || r.To != 0 || len(r.Left) != 0 {
			t.Errorf("uninstall: %+v, %v", r, err)
		}
	})
}

// Who removes fenceproxy can go on to INSERT without naming the columns of row tokens.
func TestUninstallKeepsDefaults(t *testing.T) {
	c := pgtest.Start(t)
	db := c.NewDatabase(t)
	conn := c.Connect(t, db, "postgres")
	mustInstall(t, conn)
	const stamped = `"To k" int8 NOT NULL DEFAULT fence.row_default('jobs/*', true)`
	c.Exec(t, db, `CREATE TABLE "J obs" (id int, `+stamped+`); CREATE TABLE parts (id int, `+stamped+`) PARTITION BY LIST (id);
		CREATE TABLE part_1 PARTITION OF parts FOR VALUES IN (1); CREATE TABLE part_2 PARTITION OF parts FOR VALUES IN (2);
		ALTER TABLE part_2 ALTER "To k" SET DEFAULT 7`)
	if _, err := Uninstall(ctx, conn); err != nil {
		t.Fatal(err)
	}
	c.Exec(t, db, `INSERT INTO "J obs" VALUES (1); INSERT INTO parts VALUES (1); INSERT INTO part_1 VALUES (1); INSERT INTO part_2 VALUES (2)`)
	var got string
	if err := conn.QueryRow(ctx, `SELECT (SELECT "To k" FROM "J obs") || ' ' || (SELECT string_agg("To k"::text, ' ' ORDER BY "To k") FROM parts)`).Scan(&got); err != nil || got != "0 0 0 7" {
		t.Error(got, err)
	}
}

// A schema of that name that is not ours stays as it is.
func TestInstallRefusesAForeignSchema(t *testing.T) {
	c := newWorld(t).c
	db := c.NewDatabase(t)
	c.Exec(t, db, "CREATE SCHEMA fence; CREATE TABLE fence.garden (posts int)")
	conn := c.Connect(t, db, "postgres")
	if _, err := Install(ctx, conn); err == nil || !strings.Contains(err.Error(), "belongs to another role") {
		t.Error(err)
	}
	if _, err := Uninstall(ctx, conn); err == nil {
		t.Error("uninstalled a stranger's schema")
	}
	if _, err := conn.Exec(ctx, "TABLE fence.garden"); err != nil {
		t.Error(err)
	}
}

// What --print shows is what a DBA can feed to psql, twice.
func TestInstallSQLRunsInPsql(t *testing.T) {
	c := newWorld(t).c
	db := c.NewDatabase(t)
	for range 2 {
		cmd := exec.Command(c.Program("psql"), "-X", "-v", "ON_ERROR_STOP=1", "-d", c.DSN(db, "postgres"))
		cmd.Stdin = strings.NewReader(InstallSQL())
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	if err := CheckVersion(ctx, c.Connect(t, db, "postgres")); err != nil {
		t.Error(err)
	}
}

// Bodies are read under the session's standard_conforming_strings: a backslash would mean two things.
func TestSchemaHasNoBackslash(t *testing.T) {
	for _, text := range []string{InstallSQL(), GuardLockSQL, GuardReadSQL, GuardSQL, GuardSessionSQL, SessionQuestionSQL} {
		if strings.ContainsRune(text, '\\') {
			t.Error("backslash in", text[:40])
		}
		for i := range len(text) {
			if text[i] > '~' {
				t.Fatalf("not ASCII: %q", text[max(0, i-20):i+1])
			}
		}
	}
}
