package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"

	"github.com/fenceproxy/fenceproxy/test/bouncer"
	"github.com/fenceproxy/fenceproxy/test/pgtest"
	"github.com/fenceproxy/fenceproxy/test/proxytest"
)

// setting is a server with the pgbench tables and everything that can stand in front of it. All of them reach it by TCP.
type setting struct {
	durable  bool // fsync on
	cluster  *pgtest.Cluster
	unfenced *proxytest.Proxy // the fence is on another table
	fenced   *proxytest.Proxy
	rows     *proxytest.Proxy // the fence has row tokens, on_stale: rewrite
	bouncer  *bouncer.Bouncer
	dir      string // scripts
}

const database = "bench"

// token is what fenced sessions present, and what the hand-written fencing compares with.
const token = "34"

var scripts = map[string]string{
	"select": "\\set aid random(1, 100000 * :scale)\nSELECT abalance FROM pgbench_accounts WHERE aid = :aid;\n",
	"update": "\\set aid random(1, 100000 * :scale)\nUPDATE pgbench_accounts SET abalance = abalance + 1 WHERE aid = :aid;\n",
	// The shortest fencing by hand that keeps a stale writer out whatever it writes: a check that holds the fence's row
	// until the transaction ends. (A check inside of the UPDATE has the UPDATE's snapshot and lets stale writes through.)
	"by hand": "\\set aid random(1, 100000 * :scale)\nBEGIN;\nSELECT token FROM fence_by_hand WHERE name = 'bank' AND token <= " + token +
		" FOR SHARE;\nUPDATE pgbench_accounts SET abalance = abalance + 1 WHERE aid = :aid;\nCOMMIT;\n",
	// What row tokens do, in the application's SQL and without a session that tells the token.
	"rows by hand": "\\set aid random(1, 100000 * :scale)\nUPDATE pgbench_accounts SET abalance = abalance + 1, fencing_token = " + token +
		" WHERE aid = :aid AND fencing_token <= " + token + ";\n",
}

const rowsConfig = `fences:
  - name: rows
    tables: [pgbench_accounts]
    row_token: fencing_token
    on_stale: rewrite
`

func newSetting(p plan, durable bool) (*setting, error) {
	s := &setting{durable: durable}
	var opts []pgtest.Option
	opts = append(opts, pgtest.WithSetting("shared_buffers", "512MB"), pgtest.WithSetting("max_wal_size", "4GB"),
		pgtest.WithSetting("max_connections", "300"))
	if durable {
		opts = append(opts, pgtest.WithFsync())
	}
	binary, err := proxytest.Build()
	if err != nil {
		return s, err
	}
	if s.cluster, err = pgtest.New(opts...); err != nil {
		return s, err
	}
	dsn := s.cluster.DSN(database, "postgres")
	for _, args := range [][]string{
		{s.cluster.Program("psql"), "-qc", "CREATE DATABASE " + database, s.cluster.DSN("postgres", "postgres")},
		{s.cluster.Program("pgbench"), "-iq", "-s", strconv.Itoa(p.scale), dsn},
		{s.cluster.Program("psql"), "-qc", "CREATE TABLE fence_by_hand (name text PRIMARY KEY, token bigint); INSERT INTO fence_by_hand VALUES ('bank', " + token + ")", dsn},
		{s.cluster.Program("psql"), "-qc", "ALTER TABLE pgbench_accounts SET (autovacuum_enabled = off), ADD fencing_token bigint NOT NULL DEFAULT 0", dsn},
		{binary, "init", "--dsn", dsn},
	} {
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			return s, fmt.Errorf("%v: %w\n%s", args, err, out)
		}
	}
	if s.dir, err = os.MkdirTemp("", "bench"); err != nil {
		return s, err
	}
	for name, text := range scripts {
		if err := os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o644); err != nil {
			return s, err
		}
	}
	if s.unfenced, err = proxytest.New(binary, dsn, "--fence", "other=elsewhere"); err != nil {
		return s, err
	}
	if s.fenced, err = proxytest.New(binary, dsn, "--fence", "bank=pgbench_accounts"); err != nil {
		return s, err
	}
	file := filepath.Join(s.dir, "rows.yaml")
	if err := os.WriteFile(file, []byte(rowsConfig), 0o600); err != nil {
		return s, err
	}
	if s.rows, err = proxytest.New(binary, dsn, "--config", file); err != nil {
		return s, err
	}
	s.bouncer, err = bouncer.Start(s.cluster, database, 100)
	return s, err
}

func (s *setting) close() {
	for _, p := range []*proxytest.Proxy{s.unfenced, s.fenced, s.rows} {
		if p != nil {
			p.Kill()
		}
	}
	if s.bouncer != nil {
		s.bouncer.Close()
	}
	if s.cluster != nil {
		s.cluster.Close()
	}
	os.RemoveAll(s.dir)
}
