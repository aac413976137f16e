package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fenceproxy/fenceproxy/test/pgtest"
	"github.com/fenceproxy/fenceproxy/tokens"
)

// installed is the DSN of a new database with the fence schema.
func installed(t *testing.T) (c *pgtest.Cluster, db, dsn string) {
	t.Helper()
	c = pgtest.Shared(t)
	db = c.NewDatabase(t)
	dsn = c.DSN(db, "postgres")
	if o := fenceproxy(t, "init", "--dsn", dsn); o.code != exitOK {
		t.Fatalf("init: %+v", o)
	}
	return c, db, dsn
}

func TestFenceCommands(t *testing.T) {
	_, _, dsn := installed(t)
	at := func(args ...string) outcome { t.Helper(); return fenceproxy(t, append(args, "--dsn", dsn)...) }

	at("fence", "list").want(t, exitOK, `
 fence | mark | holder | raised at | by | guarded | waiting
-------+------+--------+-----------+----+---------+---------
(0 rows)
`, "")
	at("fence", "show", "billing").want(t, exitRefused, "",
		"fenceproxy: fence billing has no mark: no token was ever announced for it in this database\n")
	at("fence", "bump-epoch", "billing", "--reason", "x").want(t, exitRefused, "",
		"fenceproxy: fence billing has no mark: there is nothing to bump\n")
	at("fence", "raise", "billing", "33", "--holder", "worker-1").want(t, exitOK, "fence billing: mark raised from 0 to 33\n", "")
	at("fence", "raise", "billing", "33").want(t, exitOK, "fence billing: the mark is 33 already\n", "")
	at("fence", "raise", "billing", "5000000000").want(t, exitRefused, "", `
This raises the mark of fence billing from 33 to 5000000000.
5000000000 is 4999999967 above the mark 33. Is it a typo, or a timestamp? Holders of the tokens between are locked out.
Type the name of the fence to go on: 
fenceproxy: not confirmed, nothing was raised; --yes goes on without a question
`)
	at("fence", "raise", "billing", "5000000000", "--yes").want(t, exitOK, "fence billing: mark raised from 33 to 5000000000\n", "")

	stale := at("fence", "raise", "billing", "32")
	if stale.code != exitRefused || !strings.Contains(stale.err, "SQLSTATE ZF001") {
		t.Errorf("stale: %+v", stale)
	}
	epoch := at("fence", "raise", "billing", "1.1")
	if epoch.code != exitRefused || !strings.Contains(epoch.err, "SQLSTATE ZF003") || !strings.Contains(epoch.err, "bump-epoch") {
		t.Errorf("epoch: %+v", epoch)
	}
	bump := []string{"fence", "bump-epoch", "billing", "--reason", "restored from backup"}
	at(append(bump, "--dry-run")...).want(t, exitOK, `
fence billing: mark would be raised from 5000000000 to 1.0
Every token of epoch 0 is stale then: the holders need tokens written 1.<counter>.
`, "")
	at(bump...).want(t, exitRefused, "", `
This raises the mark of fence billing from 5000000000 to 1.0.
Every token of epoch 0 is stale then: the holders need tokens written 1.<counter>.
Type the name of the fence to go on: 
fenceproxy: not confirmed, nothing was raised; --yes goes on without a question
`)
	at(append(bump, "--yes")...).want(t, exitOK,
		"fence billing: epoch 1, mark raised from 5000000000 to 1.0; tokens are now written 1.<counter>\n", "")
	at("fence", "raise", "jobs/42", "7", "--json").want(t, exitOK, `
{
  "fence": "jobs/42",
  "mark": "7",
  "raised": true,
  "from": "0",
  "waited_seconds": N,
  "sessions_ended": 0
}
`, "")
	o := at("fence", "list", "--json")
	var list []fenceJSON
	if err := json.Unmarshal([]byte(strings.ReplaceAll(o.out, "TIME", "2026-01-01T00:00:00Z")), &list); err != nil || len(list) != 2 ||
		list[0].Fence != "billing" || list[0].Epoch != 1 || list[0].Token != "1.0" || list[1].Counter != 7 {
		t.Errorf("%v\n%s", err, o.out)
	}
}

// columns are the widths of a table, which depend on the lengths of process numbers and times.
var (
	columns = regexp.MustCompile(` {2,}`)
	rules   = regexp.MustCompile(`(-+\+)+-+`)
)

func TestFenceShowNamesBlockers(t *testing.T) {
	c, db, dsn := installed(t)
	holder := guarded(t, c, db, dsn)
	pid := holder.PgConn().PID()
	shown := fenceproxy(t, "fence", "show", "billing", "--dsn", dsn)
	shown.out = rules.ReplaceAllString(columns.ReplaceAllString(strings.ReplaceAll(shown.out, fmt.Sprint(pid), "PID"), " "), "-+-")
	shown.want(t, exitOK, `
fence: billing
mark: 33
holder: worker-1
raised at: TIME by postgres
guarded: 1 transaction now
waiting: 0 raises now

A takeover waits for:
 pid | role | application | state | wait event | since
-+-
 PID | postgres | slow job | idle in transaction | ClientRead | TIME
(1 row)

History, newest first:
 at | from | to | holder | by | reason
-+-
 TIME | | 33 | worker-1 | postgres |
(1 row)
`, "")

	// Who would be cut off is told before.
	const live = "pid N writes under the mark now: role postgres, application \"slow job\", idle in transaction. " +
		"Its transaction is waited for, and its session ended after 1s.\n"
	raise := []string{"fence", "raise", "billing", "34", "--grace", "1s", "--dsn", dsn}
	fenceproxy(t, append(raise, "--dry-run")...).want(t, exitOK, "fence billing: mark would be raised from 33 to 34\n"+live, "")
	fenceproxyWith(t, "no\n", raise...).want(t, exitRefused, "", "This raises the mark of fence billing from 33 to 34.\n"+live+
		"Type the name of the fence to go on: fenceproxy: not confirmed, nothing was raised\n")

	// The raise waits, says for whom, ends the session after the grace, and returns.
	raised := fenceproxyWith(t, "billing\n", raise...)
	if raised.code != exitOK || raised.out != "fence billing: mark raised from 33 to 34\n" {
		t.Errorf("%+v", raised)
	}
	for _, want := range []string{"waiting N for pid N: role postgres, application \"slow job\", idle in transaction\n", "ended pid N: role postgres, idle in transaction\n"} {
		if !strings.Contains(raised.err, want) {
			t.Errorf("%q is not in\n%s", want, raised.err)
		}
	}
	if _, err := holder.Exec(context.Background(), "SELECT 1"); err == nil {
		t.Error("the session in the way lives on")
	}
}

// A lease of the lease table is a live holder too, and a dry run says what the database would say.
func TestFenceRaiseDryRun(t *testing.T) {
	c, db, dsn := installed(t)
	at := func(args ...string) outcome { t.Helper(); return fenceproxy(t, append(args, "--dsn", dsn)...) }
	at("fence", "raise", "billing", "7", "--dry-run").want(t, exitOK, "fence billing: would get its first mark, 7\n", "")
	c.Exec(t, db, "SELECT fence.lease_request('billing', 'claim', 'worker-1', 60000, false)")
	status, err := tokens.Status(context.Background(), c.Connect(t, db, "postgres"), "billing")
	if err != nil || len(status) != 1 {
		t.Fatal(status, err)
	}
	mark := status[0].Token
	next := tokens.Token{Epoch: mark.Epoch, Counter: mark.Counter + 1}
	at("fence", "raise", "billing", next.String(), "--dry-run").want(t, exitOK, fmt.Sprintf(`
fence billing: mark would be raised from %s to %s
worker-1 holds the lock billing under token %s until TIME: it is locked out.
`, mark, next, mark), "")
	at("fence", "raise", "billing", mark.String(), "--dry-run").want(t, exitOK, "fence billing: the mark is "+mark.String()+" already\n", "")
	for code, token := range map[string]tokens.Token{tokens.CodeStale: {Epoch: mark.Epoch, Counter: mark.Counter - 1}, tokens.CodeMalformed: {Epoch: mark.Epoch + 1}} {
		dry, real := at("fence", "raise", "billing", token.String(), "--dry-run"), at("fence", "raise", "billing", token.String())
		if dry.code != exitRefused || !strings.Contains(dry.err, "SQLSTATE "+code) {
			t.Errorf("dry: %+v", dry)
		}
		if first, _, _ := strings.Cut(real.err, "\n"); real.code != exitRefused || !strings.HasPrefix(dry.err, first+"\n") {
			t.Errorf("the database says %+v, the dry run %+v", real, dry)
		}
	}
	if again, err := tokens.Status(context.Background(), c.Connect(t, db, "postgres"), "billing"); err != nil || again[0].Token != mark {
		t.Errorf("a dry run raised: %v %v", again, err)
	}
}

// guarded opens a session that holds the fence billing under token 33 in a transaction.
func guarded(t *testing.T, c *pgtest.Cluster, db, dsn string) *pgx.Conn {
	t.Helper()
	fenceproxy(t, "fence", "raise", "billing", "33", "--holder", "worker-1", "--dsn", dsn)
	holder := c.Connect(t, db, "postgres")
	for _, sql := range []string{"SET application_name = 'slow job'", "SET fence.token = 33", "BEGIN", "SELECT fence.guard(ARRAY['billing'], 'billing')"} {
		if _, err := holder.Exec(context.Background(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	return holder
}

// Ctrl-C ends the wait, and the mark does not go up behind the operator's back.
func TestFenceRaiseInterrupted(t *testing.T) {
	c, db, dsn := installed(t)
	holder := guarded(t, c, db, dsn)
	for _, command := range [][]string{{"raise", "billing", "34", "--no-evict", "--yes"}, {"bump-epoch", "billing", "--reason", "x", "--yes"}} {
		ctx, cancel := context.WithCancel(context.Background())
		watch := c.Connect(t, db, "postgres")
		go func() {
			defer cancel()
			for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
				if s, err := tokens.Status(context.Background(), watch, "billing"); err != nil || s[0].Waiting > 0 {
					return
				}
			}
		}()
		var out, errs bytes.Buffer
		code := run(ctx, append(append([]string{"fence"}, command...), "--dsn", dsn), streams{strings.NewReader(""), &out, &errs})
		if code != exitFailure || !strings.HasSuffix(errs.String(), "fenceproxy: interrupted: nothing was raised\n") {
			t.Errorf("%v: exit code %d\n%s%s", command, code, out.String(), errs.String())
		}
	}
	if _, err := holder.Exec(context.Background(), "COMMIT"); err != nil {
		t.Error(err)
	}
	status, err := tokens.Status(context.Background(), c.Connect(t, db, "postgres"), "billing")
	if err != nil || status[0].Token != (tokens.Token{Counter: 33}) || status[0].Waiting != 0 {
		t.Errorf("%+v %v", status, err)
	}
}

func TestFenceWithoutSchemaOrRights(t *testing.T) {
	c := pgtest.Shared(t)
	db := c.NewDatabase(t)
	o := fenceproxy(t, "fence", "list", "--dsn", c.DSN(db, "postgres"))
	if o.code != exitFailure || !strings.Contains(o.err, "Run: fenceproxy init") {
		t.Errorf("%+v", o)
	}
	_, db, _ = installed(t)
	c.Exec(t, "postgres", "DO $$ BEGIN CREATE ROLE nobody_special LOGIN; EXCEPTION WHEN duplicate_object THEN END $$")
	o = fenceproxy(t, "fence", "list", "--dsn", c.DSN(db, "nobody_special"))
	if o.code != exitFailure || !strings.Contains(o.err, "SQLSTATE 42501") || !strings.Contains(o.err, "fence_control") {
		t.Errorf("%+v", o)
	}
	o = fenceproxy(t, "fence", "list", "--dsn", "host=127.0.0.1 port=1 user=u dbname=d")
	o.want(t, exitFailure, "", "fenceproxy: cannot connect to 127.0.0.1:1, database \"d\", user \"u\": dial tcp 127.0.0.1:1: connect: connection refused\n")
}

// The PG* environment names the database, as for psql.
func TestDSNFromEnvironment(t *testing.T) {
	c, db, _ := installed(t)
	t.Setenv("PGHOST", c.SocketDir())
	t.Setenv("PGPORT", strings.Split(c.Addr(), ":")[1])
	t.Setenv("PGDATABASE", db)
	t.Setenv("PGUSER", "postgres")
	fenceproxy(t, "fence", "raise", "billing", "1").want(t, exitOK, "fence billing: mark raised from 0 to 1\n", "")
	if o := fenceproxy(t, "fence", "list"); o.code != exitOK || !strings.Contains(o.out, " billing |    1 ") {
		t.Errorf("%+v", o)
	}
}
