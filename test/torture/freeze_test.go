package torture

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fenceproxy/fenceproxy/test/pgtest"
	"github.com/fenceproxy/fenceproxy/test/proxytest"
)

// A holder is frozen at one step of its work, another takes over and writes, and the first goes on. Whatever the step is,
// the takeover comes through, and in the commit log the first holder's write is before it or not at all.
func TestFrozenAtEachStep(t *testing.T) {
	c := pgtest.Start(t, pgtest.WithSetting("wal_level", "logical"), pgtest.WithSetting("log_min_messages", "fatal"))
	c.Exec(t, "postgres", "CREATE ROLE "+appRole+" LOGIN")
	last := func(kind string) func(string) int { // in front of the last message of a kind
		return func(kinds string) int { return strings.LastIndex(kinds, kind) }
	}
	behind := func(kind string) func(string) int { // behind the first one
		return func(kinds string) int {
			if i := strings.Index(kinds, kind); i >= 0 {
				return i + 1
			}
			return -1
		}
	}
	commit := func(kinds string) int { // the only simple query of the conversation, once armed
		if strings.HasPrefix(kinds, "Q") {
			return 0
		}
		return -1
	}
	const early, late = "its write is committed, before", "refused"
	for _, tt := range []struct {
		step    string
		side    string // where: client, or server for behind the proxy
		replies bool
		at      func(string) int
		before  string // arm it before: connect, write, commit; "" for no message at all
		pause   string // where the holder itself stops, when no message is held
		want    string
	}{
		{step: "after acquire", pause: "connect", want: late},
		{step: "after announce", pause: "write", want: late},
		{step: "after Parse", side: "client", at: behind("P"), before: "write", want: late},
		{step: "after Bind", side: "client", at: behind("B"), before: "write", want: late},
		{step: "after the guard, before the statement", side: "server", at: last("E"), before: "write", want: late},
		{step: "the statement's reply", side: "server", replies: true, at: last("E"), before: "write", want: late},
		{step: "between the last statement and COMMIT", pause: "commit", want: late},
		{step: "COMMIT on its way to the proxy", side: "client", at: commit, before: "commit", want: late},
		{step: "COMMIT on its way to the server", side: "server", at: commit, before: "commit", want: late},
		{step: "the reply to COMMIT", side: "server", replies: true, at: commit, before: "commit", want: early},
	} {
		for _, level := range []string{"READ COMMITTED", "REPEATABLE READ"} {
			t.Run(tt.step+"/"+level, func(t *testing.T) {
				w := &world{t: t, server: c, db: c.NewDatabase(t)}
				w.ledger = newLedger(w.violation)
				c.Exec(t, w.db, common+stages[0].tables())
				proxytest.Install(t, c.DSN(w.db, "postgres"))
				c.Exec(t, w.db, fmt.Sprintf("SELECT pg_create_logical_replication_slot('%s', 'test_decoding')", slot))
				defer func() {
					w.reader.Close(context.Background())
					c.Exec(t, w.db, "SELECT pg_drop_replication_slot('"+slot+"')")
				}()
				server := openGate(t, c.Addr())
				p := proxytest.Start(t, strings.Replace(c.DSN(w.db, "postgres"), c.Addr(), server.addr(), 1), "--control", c.DSN(w.db, "postgres"),
					"--fence", "d0=d0.*", "--takeover-grace", grace.String())
				client := openGate(t, p.Addr())

				// The first holder, who runs into the freeze somewhere.
				armed := make(chan *freeze, 1)
				arm := func(before string) {
					if tt.before == before {
						g := client
						if tt.side == "server" {
							g = server
						}
						armed <- g.stopAt(tt.replies, tt.at)
					}
				}
				stopped, goOn := make(chan struct{}), make(chan struct{})
				pause := func(at string) {
					if tt.pause == at {
						close(stopped)
						<-goOn
					}
				}
				result := make(chan error, 1)
				go func() {
					result <- func() error {
						pause("connect")
						config, err := pgx.ParseConfig(strings.Replace(p.DSN(w.db, appRole), p.Addr(), client.addr(), 1))
						if err != nil {
							return err
						}
						config.RuntimeParams["fence.token"] = "d0=1"
						conn, err := pgx.ConnectConfig(context.Background(), config)
						if err != nil {
							return err
						}
						defer conn.Close(context.Background())
						if _, err := conn.Exec(context.Background(), "BEGIN ISOLATION LEVEL "+level); err != nil {
							return err
						}
						if _, err := conn.Exec(context.Background(), "SELECT count(*) FROM d0.log"); err != nil {
							return err
						}
						pause("write")
						arm("write")
						if _, err := conn.Exec(context.Background(), "INSERT INTO d0.log VALUES (1, $1, 1)", pgx.QueryExecModeExec, "1"); err != nil {
							return err
						}
						pause("commit")
						arm("commit")
						tag, err := conn.Exec(context.Background(), "COMMIT")
						if err == nil && tag.String() != "COMMIT" {
							return errRolledBack
						}
						return err
					}()
				}()
				reached := stopped
				if tt.pause == "" {
					f := <-armed
					reached, goOn = f.reached, f.release
				}
				select {
				case <-reached:
				case err := <-result:
					t.Fatalf("the first holder was not frozen: %v", err)
				case <-time.After(20 * time.Second):
					t.Fatal("the first holder does not come to the step")
				}

				began := time.Now()
				conn, err := p.TryConnect(w.db, appRole, "d0=2")
				if err != nil {
					t.Fatalf("takeover: %v", err)
				}
				defer conn.Close(context.Background())
				if _, err := conn.Exec(context.Background(), "INSERT INTO d0.log VALUES (2, '2', 2)"); err != nil {
					t.Errorf("the second holder's write: %v", err)
				}
				t.Logf("taken over in %v", time.Since(began).Round(time.Millisecond))
				close(goOn)
				err = <-result
				if jerr := w.judge(context.Background()); jerr != nil {
					t.Fatal(jerr)
				}
				_, committed := w.ledger.fences["d0"].seen[1]
				if committed != (tt.want == early) {
					t.Errorf("the first holder's write is committed: %v; it was told: %v", committed, err)
				}
				if (err == nil) != (tt.want == early) {
					t.Errorf("the first holder was told: %v", err)
				}
				for _, v := range w.violations {
					t.Error(v.What)
				}
			})
		}
	}
}
