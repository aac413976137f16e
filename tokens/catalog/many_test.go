package catalog

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fenceproxy/fenceproxy/test/pgtest"
)

func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(deadline); !condition(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

const (
	ddlTable = "CREATE TABLE t (id int); CREATE TABLE part (id int) PARTITION BY RANGE (id)"
	ddlView  = "CREATE VIEW seen AS SELECT * FROM t"
)

// More databases than connections: all are read and followed, none of those without a connection of its own keeps one, and
// they get those that are given back.
func TestWatcherSharesConnections(t *testing.T) {
	c := pgtest.Shared(t)
	w, err := NewWatcher(WatcherConfig{DSN: c.DSN("postgres", "postgres"), Fences: fence("t", "part"), Every: 100 * time.Millisecond, Connections: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	var dbs []*Watched
	for range 4 {
		name := c.NewDatabase(t)
		c.Exec(t, name, ddlTable)
		dbs = append(dbs, w.Database(name))
		<-dbs[len(dbs)-1].Settled()
	}
	direct := c.Connect(t, "postgres", "postgres")
	connected := func(i int, longer string) bool {
		var n int
		err := direct.QueryRow(ctx, `SELECT count(*) FROM pg_stat_activity WHERE application_name = 'fenceproxy catalog' AND datname = $1
			AND backend_start < clock_timestamp() - $2::interval`, dbs[i].Name(), longer).Scan(&n)
		if err != nil {
			t.Fatal(err)
		}
		return n > 0
	}
	for i, d := range dbs {
		if d.Snapshot() == nil || d.Err() != nil {
			t.Fatalf("database %d: no snapshot, %v", i, d.Err())
		}
		changed := d.Changed()
		c.Exec(t, d.Name(), ddlView)
		next(t, fmt.Sprintf("database %d", i), changed)
		if !d.Current() {
			t.Errorf("database %d: not current", i)
		}
	}
	for i := range dbs {
		eventually(t, fmt.Sprintf("database %d has a connection of its own: %v", i, i < 2), func() bool {
			if i < 2 {
				return connected(i, "300 ms")
			}
			return !connected(i, "0")
		})
	}
	last := dbs[3]
	changed := last.Changed()
	c.Exec(t, last.Name(), "DROP VIEW seen")
	last.Outdate() // between two looks
	next(t, "asked to look", changed)
	for _, d := range dbs[:2] {
		d.Leave()
	}
	eventually(t, "others keep their connections now", func() bool { return connected(2, "300 ms") || connected(3, "300 ms") })
	if connected(0, "0") || connected(1, "0") {
		t.Error("a database that nobody uses is connected to")
	}
}

// A database that was looked at without a connection of its own, and is another one now.
func TestWatcherOfADatabaseMadeAgain(t *testing.T) {
	for name, connections := range map[string]int{"kept": 2, "visited": 1} {
		t.Run(name, func(t *testing.T) {
			c := pgtest.Shared(t)
			w, err := NewWatcher(WatcherConfig{DSN: c.DSN("postgres", "postgres"), Fences: fence("t", "part"), Every: time.Hour, Connections: connections})
			if err != nil {
				t.Fatal(err)
			}
			defer w.Close()
			first, db := c.NewDatabase(t), c.NewDatabase(t)
			c.Exec(t, db, ddlTable)
			<-w.Database(first).Settled()
			d := w.Database(db)
			<-d.Settled()
			d.Leave()
			c.Exec(t, "postgres", "DROP DATABASE "+db+" WITH (FORCE)")
			c.Exec(t, "postgres", "CREATE DATABASE "+db)
			c.Exec(t, db, ddlTable+";"+ddlView)
			d = w.Database(db)
			<-d.Settled()
			if s := d.Snapshot(); d.Err() != nil || s == nil || len(s.Fences[0].Views()) != 1 {
				t.Errorf("%v %+v", d.Err(), s)
			}
		})
	}
}

// tap is a relay that can stop to pass anything on while both ends think that they are connected.
type tap struct {
	net.Listener
	closed atomic.Bool
	mu     sync.Mutex
	conns  []net.Conn
}

func newTap(t *testing.T, to string) *tap {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &tap{Listener: l}
	t.Cleanup(func() {
		l.Close()
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, c := range p.conns {
			c.Close()
		}
	})
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", to)
			if err != nil {
				client.Close()
				continue
			}
			p.mu.Lock()
			p.conns = append(p.conns, client, server)
			p.mu.Unlock()
			go p.pass(client, server)
			go p.pass(server, client)
		}
	}()
	return p
}

func (p *tap) pass(to, from net.Conn) {
	buf := make([]byte, 1<<14)
	for {
		n, err := from.Read(buf)
		if err == nil && p.closed.Load() {
			continue // lost
		}
		if _, werr := to.Write(buf[:n]); err != nil || werr != nil {
			if err != io.EOF {
				to.Close()
			}
			return
		}
	}
}

// I5: a server that says nothing more, over a connection that nobody has closed, is noticed, and what was read of it is not
// taken for what is.
func TestI5WatcherOfASilentServer(t *testing.T) {
	for name, every := range map[string]time.Duration{"waits for notifications": time.Hour, "looks": 100 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			c := pgtest.Shared(t)
			db := c.NewDatabase(t)
			c.Exec(t, db, ddlTable)
			p := newTap(t, c.Addr())
			dsn, _ := url.Parse(c.DSN("postgres", "postgres"))
			dsn.Host = p.Addr().String()
			w, err := NewWatcher(WatcherConfig{DSN: dsn.String(), Fences: fence("t", "part"), Every: every})
			if err != nil {
				t.Fatal(err)
			}
			w.beat, w.answer = 100*time.Millisecond, 200*time.Millisecond
			defer w.Close()
			d := w.Database(db)
			<-d.Settled()
			before := d.Snapshot()
			if before == nil || !d.Current() {
				t.Fatalf("%v %v", before, d.Err())
			}
			p.closed.Store(true)
			begin := time.Now()
			eventually(t, "the silence is noticed", func() bool { return !d.Current() })
			if took := time.Since(begin); took > 2*time.Second {
				t.Errorf("noticed after %v", took)
			}
			eventually(t, "an error", func() bool { return d.Err() != nil })
			select {
			case <-d.Settled():
			case <-time.After(deadline):
				t.Error("sessions wait for it")
			}
			if d.Snapshot() != before {
				t.Error("the last snapshot is lost")
			}
			p.closed.Store(false)
			eventually(t, "current again, also where nobody looks for an hour", d.Current)
		})
	}
}

// A connection that breaks is made again at once, not after Every; sessions that begin meanwhile wait for it.
func TestWatcherConnectsAgain(t *testing.T) {
	c := pgtest.Shared(t)
	db := c.NewDatabase(t)
	c.Exec(t, db, ddlTable)
	w := watcher(t, c, time.Hour)
	d := w.Database(db)
	<-d.Settled()
	direct := c.Connect(t, "postgres", "postgres")
	terminate := func(conn *pgx.Conn) (n int) {
		if err := conn.QueryRow(context.Background(), `SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
			WHERE application_name = 'fenceproxy catalog' AND datname = $1`, db).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	for i := range 3 {
		changed := d.Changed()
		c.Exec(t, db, fmt.Sprintf("CREATE VIEW seen_%d AS SELECT * FROM t", i))
		if terminate(direct) != 1 {
			t.Fatal("no connection")
		}
		next(t, "connected again", changed)
	}
}

// A database that has lost a connection of its own, and gets none again, is looked at as if it had never been.
func TestWatcherLooksAfterALostConnection(t *testing.T) {
	c := pgtest.Shared(t)
	w, err := NewWatcher(WatcherConfig{DSN: c.DSN("postgres", "postgres"), Fences: fence("t", "part"), Every: time.Hour, Connections: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	name := c.NewDatabase(t)
	c.Exec(t, name, ddlTable)
	w.kept <- struct{}{}
	d := w.Database(name)
	<-d.Settled()
	if d.keeps.Load() {
		t.Fatal("it has a connection")
	}
	<-w.kept
	direct := c.Connect(t, "postgres", "postgres")
	end := func() (ended bool) { // the connection that is kept, when it waits
		err := direct.QueryRow(ctx, `SELECT coalesce(bool_or(pg_terminate_backend(pid)), false) FROM pg_stat_activity
			WHERE application_name = 'fenceproxy catalog' AND datname = $1 AND state = 'idle' AND query = 'commit'`, name).Scan(&ended)
		if err != nil {
			t.Fatal(err)
		}
		return ended
	}
	eventually(t, "it gets a connection", d.keeps.Load)
	taken := make(chan struct{})
	go func() {
		defer close(taken)
		w.kept <- struct{}{} // as soon as it is free
	}()
	eventually(t, "it loses that", func() bool { end(); return !d.keeps.Load() })
	<-taken
	eventually(t, "it is looked at", func() bool {
		select {
		case <-d.Settled():
			return d.Current()
		default:
			return false
		}
	})
}
