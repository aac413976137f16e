package storm

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/fenceproxy/fenceproxy/test/pgtest"
	"github.com/fenceproxy/fenceproxy/test/proxytest"
)

// footprint is what a proxy holds, by its own figures and by PostgreSQL's.
type footprint struct {
	goroutines, descriptors, sessions float64
	backends, locks, control          int64
}

func (f footprint) String() string {
	return fmt.Sprintf("%v goroutines, %v descriptors, %v sessions, %d backends, %d advisory locks, %d control connections",
		f.goroutines, f.descriptors, f.sessions, f.backends, f.locks, f.control)
}

// within says that there is nothing more than before, but for a few control connections, which the proxy keeps for a while
// (a descriptor each).
func (f footprint) within(before footprint) bool {
	return f.goroutines <= before.goroutines && f.descriptors-float64(f.control) <= before.descriptors-float64(before.control) &&
		f.control <= before.control+4 && f.sessions == before.sessions && f.backends == before.backends && f.locks == before.locks
}

func look(t *testing.T, c *pgtest.Cluster, p *proxytest.Proxy) footprint {
	t.Helper()
	f := footprint{
		goroutines:  p.Metric(t, "go_goroutines"),
		descriptors: p.Metric(t, "process_open_fds"),
		sessions:    p.Metric(t, "fenceproxy_sessions"),
	}
	conn := c.Connect(t, "postgres", "postgres")
	defer conn.Close(t.Context())
	err := conn.QueryRow(t.Context(), `SELECT (SELECT count(*) FROM pg_stat_activity WHERE usename IN ('teller', 'locked')),
		(SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'),
		(SELECT count(*) FROM pg_stat_activity WHERE application_name = 'fenceproxy control')`).Scan(&f.backends, &f.locks, &f.control)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// nothingLeft waits until a proxy holds no more than before.
func nothingLeft(t *testing.T, c *pgtest.Cluster, p *proxytest.Proxy, before footprint) {
	t.Helper()
	eventually(t, fmt.Sprint("no more than before the storm: ", before), func() (bool, any) {
		now := look(t, c, p)
		return now.within(before), now
	})
	if n := p.Metric(t, "fenceproxy_panics_total"); n != 0 {
		t.Errorf("%v panics", n)
	}
}

// resident is a process' resident memory in bytes.
func resident(t *testing.T, pid int) int64 {
	t.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		t.Skip(err)
	}
	var size, pages int64
	if _, err := fmt.Fscan(strings.NewReader(string(raw)), &size, &pages); err != nil {
		t.Fatal(err)
	}
	return pages * int64(os.Getpagesize())
}
