package sidecar

import (
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// stubborn is a service that connects when it starts, and ends at the first error.
const stubborn = `
import sys, time, psycopg2
print("begins", flush=True)
conn = psycopg2.connect(sys.argv[1])
conn.autocommit = True
print("connected", flush=True)
try:
    while True:
        conn.cursor().execute("UPDATE acct SET bal = bal + 1 WHERE id = 1")
        print("wrote", flush=True)
        time.sleep(0.05)
except psycopg2.Error as e:
    print("ended:", str(e).strip().replace("\n", " | "), flush=True)
    sys.exit(3)
`

// libpq, by a program in Python that knows no second try: it waits, writes, and ends with the reason on its lips.
func TestPsycopg2(t *testing.T) {
	const python = "/usr/bin/python3"
	if err := exec.Command(python, "-c", "import psycopg2").Run(); err != nil {
		t.Skip("no psycopg2: test/stack/install.sh drivers")
	}
	p := newPlace(t)
	p.backend = p.c.DSN(p.db, "postgres") + "&ttl=" + ttl.String()
	first := p.sidecar()
	waitHolding(t, first)
	second := p.sidecar()
	var out tail
	cmd := exec.Command(python, "-c", stubborn, second.DSN(p.db, "postgres"))
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Process.Kill()
	poll(t, "the program connects", func() bool { return out.String() != "" })
	if strings.Contains(out.String(), "connected") {
		t.Fatalf("without the lock: %s", out.String())
	}
	first.Kill()
	poll(t, "the program writes", func() bool { return strings.Count(out.String(), "wrote") > 3 })
	if err := first.Run(); err != nil {
		t.Fatal(err)
	}
	second.Signal(syscall.SIGSTOP)
	waitHolding(t, first)
	second.Signal(syscall.SIGCONT)
	err := cmd.Wait()
	// Between two statements it is told why; in the middle of one the guard refuses it, or, with an answer on its way, the
	// connection just ends.
	told := strings.Contains(out.String(), `fenceproxy has lost the lock "acct"`) || strings.Contains(out.String(), `stale fencing token for fence "acct"`) ||
		strings.Contains(out.String(), "closed the connection")
	if cmd.ProcessState.ExitCode() != 3 || !strings.Contains(out.String(), `ended: `) || !told {
		t.Errorf("%v: %s", err, out.String())
	}
}
