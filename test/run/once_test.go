package run

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/test/pgtest"
)

var slots = flag.Int("once.slots", 12, "slots that three nodes run under kills")

// A slot is run once; failed and lost runs are repeated when asked; the reasons are told.
func TestOncePer(t *testing.T) {
	w := newWorld(t, pgtest.Shared(t))
	for _, c := range []struct {
		what   string
		flags  []string
		script string
		code   int
		says   string
		ran    bool
	}{
		{"first", []string{"--once-per", "key=a"}, "echo ran $FENCE_SLOT", 0, "", true},
		{"second", []string{"--once-per", "key=a"}, "echo ran", 0, `slot "key=a" was run by `, false},
		{"second, retry", []string{"--once-per", "key=a", "--retry"}, "echo ran", 0, "under token 1.", false},
		{"fails", []string{"--once-per", "key=b"}, "echo ran; exit 7", 7, "", true},
		{"has failed", []string{"--once-per", "key=b"}, "echo ran", 0, "failed with exit code 7; --retry", false},
		{"has failed, retry", []string{"--once-per", "key=b", "--retry"}, "echo ran", 0, "", true},
		{"schedule", []string{"--once-per", "@every 24h"}, "echo ran", 0, "", true},
		{"schedule again", []string{"--once-per", "@every 24h"}, "echo ran", 0, "was run by", false},
		{"no schedule", []string{"--once-per", "sometimes"}, "echo ran", 2, `"sometimes" is neither a schedule nor key=TEXT`, false},
		{"retry of nothing", []string{"--retry"}, "echo ran", 2, "belong to --once-per", false},
		{"no database", []string{"--once-per", "key=c", "--backend", "etcd://127.0.0.1:1"}, "echo ran", 2, "--dsn is missing", false},
		{"database away", []string{"--once-per", "key=c", "--dsn", "postgres://x@127.0.0.1:1/x"}, "echo ran", 75, "cannot be recorded, so the command is not run", false},
	} {
		p := w.run("nightly", c.script, append(c.flags, "--ttl", "1m")...)
		code := p.exit()
		if code != c.code || !strings.Contains(p.err.String(), c.says) || strings.Contains(p.out.String(), "ran") != c.ran {
			t.Errorf("%s: exit code %d, want %d\n%s%s", c.what, code, c.code, p.out, p.err)
		}
	}
	// Lost with its node.
	p := w.run("nightly", "echo begun; sleep 60", "--once-per", "key=d")
	p.says("begun")
	p.kill(syscall.SIGKILL)
	p = w.run("nightly", "echo ran", "--once-per", "key=d")
	if p.wantExit(0); !strings.Contains(p.err.String(), "lost with its node") {
		t.Errorf("%s", p.err)
	}
	p = w.run("nightly", "echo ran", "--once-per", "key=d", "--retry")
	if p.wantExit(0); !strings.Contains(p.out.String(), "ran") {
		t.Errorf("the lost run is not repeated\n%s", p.err)
	}
}

// Three nodes have the same line in their crontab, and nodes are killed at any moment. Each slot is completed once. With
// nothing but the lock, the job runs as often as there are nodes. Mutant: slot_begin always says run.
func TestThreeNodesOneRun(t *testing.T) {
	w := newWorld(t, pgtest.Shared(t))
	w.c.Exec(t, w.db, "CREATE TABLE work (slot text NOT NULL)")
	job := "psql -XAtq -v ON_ERROR_STOP=1 -d '" + w.url() + "' -c \"BEGIN; INSERT INTO work VALUES ('$FENCE_SLOT'); SELECT pg_sleep(random() * 0.2); SELECT fence.slot_done('$FENCE_LOCK', '$FENCE_SLOT'); COMMIT\""
	const lanes = 4 // locks, so that the waits for lost ones overlap
	var lane sync.WaitGroup
	for l := range lanes {
		lane.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(l), 7))
			lock := fmt.Sprintf("cron%d", l)
			for i := l; i < *slots; i += lanes {
				slot := fmt.Sprintf("key=%d", i)
				var nodes [3]*process
				for n := range nodes {
					nodes[n] = w.run(lock, job, "--once-per", slot, "--retry")
				}
				for n := range rnd.IntN(3) { // the last one always lives
					time.Sleep(time.Duration(rnd.IntN(150)) * time.Millisecond)
					nodes[n].kill(syscall.SIGKILL)
				}
				for n := range nodes {
					<-nodes[n].done
				}
				// On a machine that is starved a lock may be lost to its TTL: then the next tick of somebody's cron runs the slot.
				last := nodes[2]
				for try := 0; last.exit() == 76 && try < 5; try++ {
					last = w.run(lock, job, "--once-per", slot, "--retry")
				}
				last.wantExit(0)
			}
		})
	}
	lane.Wait()
	conn := w.c.Connect(t, w.db, "postgres")
	var total, distinct int
	if err := conn.QueryRow(ctx, "SELECT count(*), count(DISTINCT slot) FROM work").Scan(&total, &distinct); err != nil {
		t.Fatal(err)
	}
	if total != *slots || distinct != *slots {
		t.Errorf("%d slots were completed, in %d runs; want %d", distinct, total, *slots)
	}
	// The lock alone.
	var nodes [3]*process
	for n := range nodes {
		nodes[n] = w.run("plain", "psql -XAtq -d '"+w.url()+"' -c \"INSERT INTO work VALUES ('plain')\"", "--ttl", "1m")
	}
	for n := range nodes {
		nodes[n].wantExit(0)
	}
	if err := conn.QueryRow(ctx, "SELECT count(*) FROM work WHERE slot = 'plain'").Scan(&total); err != nil || total != 3 {
		t.Errorf("%d runs under a plain lock, %v", total, err)
	}
}
