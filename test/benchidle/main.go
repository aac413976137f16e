// Benchidle prints the memory that an idle session costs in fenceproxy and in pgbouncer, by the resident memory of the
// process with and without sessions.
//
//	go run ./test/benchidle                   2,000 sessions; PostgreSQL needs some 5 GB for them
//	go run ./test/benchidle -sessions 200
package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/fenceproxy/fenceproxy/test/bouncer"
	"github.com/fenceproxy/fenceproxy/test/conversation"
	"github.com/fenceproxy/fenceproxy/test/pgtest"
	"github.com/fenceproxy/fenceproxy/test/proxytest"
)

func main() {
	sessions := flag.Int("sessions", 2000, "idle sessions at a time")
	flag.Parse()
	if err := run(*sessions); err != nil {
		fmt.Fprintln(os.Stderr, "benchidle:", err)
		os.Exit(1)
	}
}

// A life is what a session does before it is idle.
type life struct {
	name   string
	params []string // of the startup packet
	script []string // messages; each line ends in a ReadyForQuery
}

var (
	connected = life{name: "connected only"}
	queried   = life{name: "after a query", script: []string{"Query SELECT 1"}}
	wrote     = life{name: "after a fenced write", params: []string{"fence.token", "34"}, script: []string{"Run UPDATE idle SET v = v WHERE false", "Query SELECT 1"}}
	fetched   = life{name: "after a result of 1 MB", script: []string{"Query SELECT repeat('x', 1000) FROM generate_series(1, 1000)"}}
)

const database = "postgres"

func run(sessions int) error {
	binary, err := proxytest.Build()
	if err != nil {
		return err
	}
	defer proxytest.Cleanup()
	c, err := pgtest.New(pgtest.WithSetting("max_connections", strconv.Itoa(sessions+50)))
	if err != nil {
		return err
	}
	defer c.Close()
	dsn := c.DSN(database, "postgres")
	if out, err := exec.Command(binary, "init", "--dsn", dsn).CombinedOutput(); err != nil {
		return fmt.Errorf("init: %w\n%s", err, out)
	}
	if out, err := exec.Command(c.Program("psql"), "-qc", "CREATE TABLE idle (v int)", dsn).CombinedOutput(); err != nil {
		return fmt.Errorf("psql: %w\n%s", err, out)
	}
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(table, "%d idle sessions\tempty process, MB\twith them, MB\tKB per session\t\n", sessions)
	for _, l := range []life{connected, queried, wrote, fetched} {
		// A process of its own for each line: memory once taken is not always given back.
		p, err := proxytest.New(binary, dsn, "--fence", "idle=idle", "--max-connections", strconv.Itoa(sessions+10), "--log-level", "error")
		if err != nil {
			return err
		}
		err = measure(table, "fenceproxy, "+l.name, p.Pid(), p.Addr(), l, sessions)
		p.Kill()
		if err != nil {
			return err
		}
		if l.params != nil {
			continue // pgbouncer knows no tokens
		}
		b, err := bouncer.Start(c, database, sessions+10)
		if err != nil {
			return err
		}
		err = measure(table, "pgbouncer, "+l.name, b.Pid(), b.Addr(), l, sessions)
		b.Close()
		if err != nil {
			return err
		}
	}
	return table.Flush()
}

func measure(table *tabwriter.Writer, name string, pid int, addr string, l life, sessions int) error {
	one, err := live(addr, l) // what is made once is no session's
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	one.Close()
	before, err := resident(pid)
	if err != nil {
		return err
	}
	for range sessions {
		conn, err := live(addr, l)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		defer conn.Close()
	}
	time.Sleep(2 * time.Second) // for the garbage collector; nothing is waited for
	after, err := resident(pid)
	if err != nil {
		return err
	}
	fmt.Fprintf(table, "%s\t%.1f\t%.1f\t%.1f\t\n", name, float64(before)/1e6, float64(after)/1e6, float64(after-before)/1e3/float64(sessions))
	return nil
}

// live opens a session and leads its life up to where it is idle.
func live(addr string, l life) (*conversation.Client, error) {
	conn, err := conversation.Dial(addr, append([]string{"user", "postgres", "database", database}, l.params...)...)
	if err != nil {
		return nil, err
	}
	if err := ready(conn); err != nil {
		return nil, err
	}
	for _, line := range l.script {
		raw, err := conversation.Encode(nil, line)
		if strings.HasPrefix(line, "Run ") && err == nil {
			raw, err = conversation.Encode(raw, "Sync")
		}
		if err != nil {
			return nil, err
		}
		if err := conn.Write(raw); err != nil {
			return nil, err
		}
		if err := ready(conn); err != nil {
			return nil, err
		}
	}
	return conn, nil
}

func ready(conn *conversation.Client) error {
	raw, err := conn.UntilReady()
	if err != nil {
		return err
	}
	if len(raw) == 0 || raw[len(raw)-1][0] != 'Z' || raw[0][0] == 'E' {
		return fmt.Errorf("no ReadyForQuery but %q", raw)
	}
	return nil
}

// resident is a process' resident memory in bytes.
func resident(pid int) (int64, error) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0, err
	}
	pages, err := strconv.ParseInt(strings.Fields(string(raw))[1], 10, 64)
	return pages * int64(os.Getpagesize()), err
}
