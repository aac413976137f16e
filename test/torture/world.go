package torture

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fenceproxy/fenceproxy/lockclient/etcd/etcdtest"
	"github.com/fenceproxy/fenceproxy/test/pgtest"
	"github.com/fenceproxy/fenceproxy/test/proxytest"
)

// grace is what a stopped holder has before it is ended: short, so that takeovers are many.
const grace = 300 * time.Millisecond

// world is everything that is attacked, and its judges.
type world struct {
	t       testing.TB
	server  server
	cluster *pgtest.Cluster // the server, when it is ours: it may be stopped and crashed
	db      string
	proxies []*proxytest.Proxy
	gate    *gate             // between them and the server
	members *etcdtest.Cluster // nil: the etcd fence has no actors
	crew    *crew
	ledger  *ledger

	timeline string // file for the page of the last schedule; "" for none

	mu         sync.Mutex
	violations []Violation
	faults     []faultDone
	reader     *pgx.Conn // of the commit log
	upTo       string    // commit record judged last
	evictions  float64
}

// newWorld starts everything; the database is made on the server behind a superuser's DSN, or in a cluster of its own for "".
func newWorld(t testing.TB, workers int, dsn string) *world {
	t.Helper()
	w := &world{t: t, crew: &crew{}}
	w.ledger = newLedger(w.violation)
	if dsn == "" {
		w.cluster = pgtest.Start(t, pgtest.WithSetting("wal_level", "logical"), pgtest.WithSetting("max_prepared_transactions", "100"),
			pgtest.WithSetting("max_connections", "300"), pgtest.WithSetting("restart_after_crash", "on"), pgtest.WithSetting("log_min_messages", "fatal"))
		w.server, w.db = w.cluster, w.cluster.NewDatabase(t)
		w.exec("CREATE ROLE " + appRole + " LOGIN; CREATE ROLE " + controlRole + " SUPERUSER LOGIN")
	} else {
		w.borrow(dsn)
	}
	w.exec("ALTER ROLE " + controlRole + " SET synchronous_commit = off; " + common)
	var fences []string
	for _, s := range stages {
		w.exec(s.tables())
		fences = append(fences, "--fence", s.Fence+"="+s.Fence+".*")
	}
	fences = append(fences, "--fence", companion+"="+companion+".*")
	proxytest.Install(t, w.server.DSN(w.db, controlRole))
	w.exec(fmt.Sprintf("SELECT pg_create_logical_replication_slot('%s', 'test_decoding')", slot))
	t.Cleanup(w.leave)
	w.members = etcdtest.Start(t, 3)
	w.gate = openGate(t, w.server.Addr())
	control := w.server.DSN(w.db, controlRole)
	through := strings.Replace(control, w.server.Addr(), w.gate.addr(), 1)
	for range 2 {
		w.proxies = append(w.proxies, proxytest.Start(t, through, append(fences, "--control", control, "--takeover-grace", grace.String())...))
	}
	if err := w.crew.hire(workers); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.crew.dismiss)
	return w
}

func (w *world) orderOf(s Schedule, length time.Duration) order {
	o := order{Schedule: s, Length: length, Server: w.server.DSN(w.db, appRole), Leases: w.server.DSN(w.db, controlRole),
		Binary: proxytest.Binary(w.t), Psql: "psql"}
	for _, p := range w.proxies {
		o.Proxies = append(o.Proxies, p.DSN(w.db, appRole))
	}
	var hosts []string
	for _, e := range w.members.Endpoints() {
		u, err := url.Parse(e)
		if err != nil {
			w.t.Fatal(err)
		}
		hosts = append(hosts, u.Host)
	}
	o.Etcd = "etcd://" + strings.Join(hosts, ",") + "/torture"
	return o
}

func (w *world) violation(v Violation) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.violations = append(w.violations, v)
}

func (w *world) violated() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.violations) > 0
}

// judge reads the commit log up to now. An error is the server's, which may be down: the next call goes on.
func (w *world) judge(ctx context.Context) error {
	if w.reader == nil || w.reader.IsClosed() {
		c, err := pgx.Connect(ctx, w.server.SocketDSN(w.db, "postgres"))
		if err != nil {
			return err
		}
		w.reader = c
	}
	for {
		commits, err := readCommits(ctx, w.reader)
		if err != nil {
			w.reader.Close(context.Background())
			return err
		}
		for _, c := range commits {
			if w.upTo != "" && !before(w.upTo, c.LSN) {
				continue // a slot forgets in a crash how far it has been read
			}
			w.upTo = c.LSN
			w.ledger.enter(c)
		}
		if len(commits) < 1000 { // else there may be more
			return nil
		}
	}
}

// before compares two positions in the WAL.
func before(a, b string) bool {
	var ah, al, bh, bl uint64
	fmt.Sscanf(a, "%X/%X", &ah, &al)
	fmt.Sscanf(b, "%X/%X", &bh, &bl)
	return ah < bh || ah == bh && al < bl
}

// onServer runs f on a direct connection of a superuser, again until it works: the server may be starting.
func (w *world) onServer(f func(context.Context, *pgx.Conn) error) error {
	var err error
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		var c *pgx.Conn
		if c, err = pgx.Connect(ctx, w.server.SocketDSN(w.db, "postgres")); err == nil {
			err = f(ctx, c)
			c.Close(ctx)
		}
		cancel()
		if err == nil {
			return nil
		}
	}
	return err
}

// calm ends whatever the workers have left behind, so that nothing can be committed any more.
func (w *world) calm() error {
	return w.onServer(func(ctx context.Context, c *pgx.Conn) error {
		for end := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
			var left int
			err := c.QueryRow(ctx, `SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE usename = '`+appRole+`' AND pid <> pg_backend_pid()`).Scan(&left)
			if err != nil {
				return err
			}
			prepared, err := w.rollbackPrepared(ctx, c, 0)
			if err != nil {
				return err
			}
			if left+prepared == 0 {
				return nil
			}
			if time.Now().After(end) {
				return fmt.Errorf("%d sessions and %d prepared transactions do not end", left, prepared)
			}
		}
	})
}

// rollbackPrepared ends prepared transactions that nobody has ended for so long: takeovers wait for them.
func (w *world) rollbackPrepared(ctx context.Context, c *pgx.Conn, age time.Duration) (int, error) {
	rows, err := c.Query(ctx, "SELECT gid FROM pg_prepared_xacts WHERE database = current_database() AND prepared <= now() - $1::interval", age)
	if err != nil {
		return 0, err
	}
	gids, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return 0, err
	}
	for _, g := range gids {
		if _, err := c.Exec(ctx, "ROLLBACK PREPARED '"+g+"'"); err != nil {
			continue // its owner was faster
		}
	}
	return len(gids), nil
}

// judgeTables compares the tables as they are with what the commit log says.
func (w *world) judgeTables() error {
	return w.onServer(func(ctx context.Context, c *pgx.Conn) error {
		for fence, p := range w.ledger.fences {
			var el int64
			var balances []int64
			err := c.QueryRow(ctx, fill("SELECT h.el, (SELECT array_agg(bal ORDER BY id) FROM $s.acct) FROM $s.head h", fence)).Scan(&el, &balances)
			if err != nil {
				return err
			}
			if el != p.tail || fmt.Sprint(balances) != fmt.Sprint(p.balances[:]) {
				w.violation(Violation{At: now(), Fence: fence, What: fmt.Sprintf("the tables hold %d %v, the commit log says %d %v", el, balances, p.tail, p.balances)})
			}
		}
		return nil
	})
}
