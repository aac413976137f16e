package jobs

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/lockclient"
	_ "github.com/fenceproxy/fenceproxy/lockclient/postgres"
	"github.com/fenceproxy/fenceproxy/test/pgtest"
	"github.com/fenceproxy/fenceproxy/test/proxytest"
)

var (
	number = flag.Int("jobs.number", 2000, "jobs to be worked")
	ctx    = context.Background()
)

const (
	slots    = 4
	patience = 60 * time.Second
	poison   = "freeze" // payload of the job at which a worker is frozen
)

func TestMain(m *testing.M) {
	workerMain()
	flag.Parse()
	pgtest.Main(m, proxytest.Cleanup)
}

// workerMain is a worker in a process of its own.
func workerMain() {
	backend := os.Getenv("JOBS_BACKEND")
	if backend == "" {
		return
	}
	locks, err := lockclient.Open(ctx, backend)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	w := &Worker{Locks: locks, DSN: os.Getenv("JOBS_DSN"), Slots: slots, Told: func(format string, args ...any) { fmt.Printf(format+"\n", args...) },
		Work: func(ctx context.Context, id int64, payload string) string {
			if payload == poison && os.Getenv("JOBS_FREEZES") != "" {
				fmt.Println("frozen at", id)
				syscall.Kill(os.Getpid(), syscall.SIGSTOP) // and goes on, when it is woken, as if nothing had been
			}
			return strings.ToUpper(payload)
		}}
	w.Run(ctx)
	os.Exit(0)
}

type process struct {
	cmd *exec.Cmd
	mu  sync.Mutex
	out bytes.Buffer
}

func (p *process) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.Write(b)
}

func (p *process) text() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.String()
}

func worker(t *testing.T, backend, dsn string, env ...string) *process {
	p := &process{cmd: exec.Command(os.Args[0])}
	p.cmd.Env = append(append(os.Environ(), "JOBS_BACKEND="+backend, "JOBS_DSN="+dsn), env...)
	p.cmd.Stdout, p.cmd.Stderr = p, p
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := pgtest.StartWithParent(p.cmd); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.cmd.Process.Kill()
		p.cmd.Wait()
	})
	return p
}

func poll(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for began := time.Now(); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Since(began) > patience {
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}

// Workers die and freeze. Each job is completed once, and what a frozen worker writes late is refused. Mutant: the proxy
// does not guard (the job of the frozen worker is completed twice).
func TestJobs(t *testing.T) {
	c := pgtest.Shared(t)
	db := c.NewDatabase(t)
	proxytest.Install(t, c.DSN(db, "postgres"))
	c.Exec(t, db, Schema(slots))
	proxy := proxytest.Start(t, c.DSN(db, "postgres"), Fences(slots)...)
	conn := c.Connect(t, db, "postgres")
	count := func(sql string) (n int) {
		t.Helper()
		if err := conn.QueryRow(ctx, sql).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	backend, dsn := c.DSN(db, "postgres")+"&ttl=2s", proxy.DSN(db, "postgres")

	// A worker that freezes in the middle of a job: another takes its slot over, and its job.
	producer := proxy.Connect(t, db, "postgres", "")
	if _, err := producer.Exec(ctx, "INSERT INTO inbox (payload) VALUES ($1)", poison); err != nil {
		t.Fatal(err)
	}
	frozen := worker(t, backend, dsn, "JOBS_FREEZES=1")
	poll(t, "a worker is frozen", func() bool { return strings.Contains(frozen.text(), "frozen at") })
	var crew []*process
	for range slots {
		crew = append(crew, worker(t, backend, dsn))
	}
	poll(t, "its job is completed by another", func() bool { return count("SELECT count(*) FROM jobs WHERE done_at IS NOT NULL") == 1 })
	frozen.cmd.Process.Signal(syscall.SIGCONT)
	poll(t, "the late write is refused", func() bool { return strings.Contains(frozen.text(), "left") })
	if said := frozen.text(); !strings.Contains(said, "not completed") || !strings.Contains(said, "ZF001") {
		t.Errorf("the frozen worker: %s", said)
	}
	if n := count("SELECT attempts FROM jobs"); n != 2 {
		t.Errorf("%d attempts", n)
	}

	// Throughput, with a worker killed on the way.
	began := time.Now()
	if _, err := producer.Exec(ctx, "INSERT INTO inbox (payload) SELECT 'job ' || g FROM generate_series(1, $1::int) g", *number); err != nil {
		t.Fatal(err)
	}
	poll(t, "half of the work is done", func() bool { return count("SELECT count(*) FROM jobs WHERE done_at IS NOT NULL") > *number/2 })
	crew[0].cmd.Process.Kill()
	poll(t, "all work is done", func() bool { return count("SELECT count(*) FROM jobs WHERE done_at IS NOT NULL") == *number+1 })
	took := time.Since(began)
	t.Logf("%d jobs by %d workers in %v: %.0f jobs/s, a worker killed on the way", *number, slots, took.Round(time.Millisecond), float64(*number)/took.Seconds())

	// Lag: one job after the other, as they come.
	for range 200 {
		if _, err := producer.Exec(ctx, "INSERT INTO inbox (payload) VALUES ('single')"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Millisecond)
	}
	poll(t, "single jobs are done", func() bool { return count("SELECT count(*) FROM jobs WHERE answer = 'SINGLE'") == 200 })
	if n := count("SELECT count(*) FROM jobs WHERE completions <> 1"); n > 0 {
		t.Errorf("%d jobs were not completed once", n)
	}
	if n, m := count("SELECT count(DISTINCT id) FROM jobs"), count("SELECT count(*) FROM jobs"); n != *number+201 || m != n {
		t.Errorf("%d jobs in %d rows, want %d", n, m, *number+201)
	}
	var half, most float64
	err := conn.QueryRow(ctx, `SELECT 1000 * percentile_disc(0.5) WITHIN GROUP (ORDER BY extract(epoch FROM claimed_at - queued_at)), 1000 * max(extract(epoch FROM claimed_at - queued_at))
		FROM jobs WHERE payload = 'single'`).Scan(&half, &most)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("lag from the inbox to a worker: median %.1f ms, maximum %.1f ms (200 jobs, 5 ms apart)", half, most)
}
