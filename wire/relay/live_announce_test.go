package relay

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/test/pgtest"
	"github.com/fenceproxy/fenceproxy/tokens"
)

// A successor that gives up while its raise waits for the holder leaves no session behind, and the raise goes on: the
// holder is cut off when its transaction ends.
func TestLiveClientGoneDuringAnnounce(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*wait)
	defer cancel()
	pg := pgtest.Shared(t)
	db := pg.NewDatabase(t)
	admin := pg.Connect(t, db, "postgres")
	if _, err := tokens.Install(ctx, admin); err != nil {
		t.Fatal(err)
	}
	pg.Exec(t, db, "create table acct(id int primary key, bal int); insert into acct values (1, 0)")
	control, err := tokens.NewControl(tokens.ControlConfig{DSN: pg.DSN(db, "postgres"), Fences: []string{"billing"}, Bare: "billing", Grace: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	defer control.Close()
	s := live(t, pg, ModeEnforce, func(sc *ServerConfig) { sc.Announcer = control })

	holder := pgxConnect(t, s.dsn(db, "options=-cfence.token%3D33"))
	tx, err := holder.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(ctx, "update acct set bal = 33"); err != nil {
		t.Fatal(err)
	}

	successor, err := net.Dial("tcp", s.addr)
	if err != nil {
		t.Fatal(err)
	}
	send(t, successor, startupPacket("user", "postgres", "database", db, "fence.token", "34"))
	poll(t, "the raise waits", func() bool {
		var n int
		err := admin.QueryRow(ctx, "select count(*) from pg_locks where locktype = 'advisory' and not granted").Scan(&n)
		return err == nil && n > 0
	})
	successor.Close()
	poll(t, "only the holder is left", func() bool { return s.Sessions() == 1 })

	if err := tx.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	poll(t, "the mark is 34", func() bool {
		list, err := tokens.Status(ctx, admin, "billing")
		return err == nil && len(list) == 1 && list[0].Mark.Token.Counter == 34
	})
	if _, err := holder.Exec(ctx, "update acct set bal = 34"); code(err) != tokens.CodeStale {
		t.Fatalf("the old holder writes: %v", err)
	}
}
