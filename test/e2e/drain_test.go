package e2e

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/test/pgtest"
	"github.com/fenceproxy/fenceproxy/test/proxytest"
)

// SIGTERM under load: every client is told 57P01, none in the middle of a transaction, and what was committed is what the
// clients know to be committed.
func TestDrainUnderLoad(t *testing.T) {
	pgbench, err := exec.LookPath("pgbench")
	if err != nil {
		t.Skip("no pgbench")
	}
	for _, mode := range []string{"simple", "prepared"} {
		t.Run(mode, func(t *testing.T) {
			c := pgtest.Shared(t)
			db := c.NewDatabase(t)
			proxytest.Install(t, c.DSN(db, "postgres"))
			p := proxytest.Start(t, c.DSN(db, "postgres"), "--fence", "bank=pgbench_accounts,pgbench_tellers", "--drain-delay", "200ms")
			if out, err := exec.Command(pgbench, "-i", "-q", "-s", "1", c.DSN(db, "postgres")).CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			cmd := exec.Command(pgbench, "-n", "-M", mode, "-c", "8", "-j", "2", "-T", "60", p.DSN(db, "postgres"))
			cmd.Env = append(os.Environ(), "PGOPTIONS=-c fence.token=7")
			cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
			var out, errs bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &errs
			if err := pgtest.StartWithParent(cmd); err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() { ended <- cmd.Wait() }()
			defer cmd.Process.Kill()
			su := c.Connect(t, db, "postgres")
			eventually(t, "clients are at work", func() bool { return number(t, su, "SELECT count(*) FROM pgbench_history") > 200 })

			p.Signal(syscall.SIGTERM)
			eventually(t, "/readyz says no while clients are served", func() bool {
				status, _, err := p.Get("/readyz")
				return err == nil && status == 503
			})
			select {
			case <-ended:
			case <-time.After(20 * time.Second):
				t.Fatal("clients are left")
			}
			select {
			case <-p.Done():
			case <-time.After(20 * time.Second):
				t.Fatal("the proxy does not end")
			}
			for line := range strings.Lines(errs.String()) {
				known := strings.Contains(line, "terminating connection due to administrator command") || strings.Contains(line, "Run was aborted") ||
					strings.Contains(line, "SSL SYSCALL") || strings.TrimSpace(line) == "" ||
					strings.Contains(line, "server closed the connection unexpectedly") || strings.Contains(line, "This probably means the server terminated") ||
					strings.Contains(line, "before or while processing the request") || strings.Contains(line, "command 4 (SQL) of script 0; perhaps the backend died")
				if !known {
					t.Errorf("a client was told: %s", line)
				}
			}
			if n := strings.Count(errs.String(), "terminating connection due to administrator command"); n != 8 {
				t.Errorf("%d of 8 clients were told 57P01:\n%s", n, errs.String())
			}
			m := regexp.MustCompile(`number of transactions actually processed: (\d+)`).FindStringSubmatch(out.String())
			if m == nil {
				t.Fatalf("pgbench says\n%s%s", out.String(), errs.String())
			}
			processed, _ := strconv.ParseInt(m[1], 10, 64)
			if rows := number(t, su, "SELECT count(*) FROM pgbench_history"); rows != processed {
				t.Errorf("%d transactions were committed, clients know of %d", rows, processed)
			}
		})
	}
}

// A new process takes over from the old one while clients come and go: none is refused or cut off without a word.
func TestRollOfTwoProcesses(t *testing.T) {
	_, db, p := start(t, "--listen-reuseport")
	stop := make(chan struct{})
	var clients sync.WaitGroup
	var whole, told atomic.Int64
	var failed atomic.Bool
	for range 4 {
		clients.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				conn, err := p.TryConnect(db, user, "")
				if err == nil {
					_, err = conn.Exec(context.Background(), "SELECT 1")
					conn.Close(context.Background())
				}
				switch {
				case err == nil:
					whole.Add(1)
				case code(err) == "57P01":
					told.Add(1)
				default:
					failed.Store(true)
					t.Errorf("a client was told: %v", err)
					return
				}
			}
		})
	}
	work := func() {
		t.Helper()
		whole.Store(0)
		eventually(t, "clients are served", func() bool { return whole.Load() > 20 || failed.Load() })
	}
	old := p
	for i := range 3 {
		work()
		next := *old
		if err := next.Run(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(next.Kill)
		eventually(t, "the new process listens", func() bool { return strings.Count(p.Log(), `"message":"listening"`) == i+2 })
		old.Stop(t)
		old = &next
	}
	work()
	close(stop)
	clients.Wait()
	if status, _, err := old.Get("/readyz"); err != nil || status != 200 {
		t.Errorf("the new process's page: %d %v", status, err)
	}
	t.Logf("%d told of the end", told.Load())
}
