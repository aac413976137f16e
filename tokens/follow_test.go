package tokens

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/test/pgtest"
)

// A control connection that was idle and now leads to a standby is not used again: the DSN may name another host, which
// is the primary.
func TestControlFollowsThePrimary(t *testing.T) {
	c := pgtest.Start(t)
	w := ownWorld(t, c)
	f := w.fence(34)
	ctl, _, _ := w.control([]string{f})
	d := ctl.database(w.db)
	c.Stop()
	if err := os.WriteFile(filepath.Join(c.SocketDir(), "data", "standby.signal"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	c.Restart(t)
	standby, err := d.conns.get(ctx)
	if err != nil || !standby.inRecovery {
		t.Fatal(err)
	}
	d.conns.put(standby)
	standby.idleSince = time.Now().Add(-time.Minute)
	got, err := d.conns.get(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer d.conns.put(got)
	if got == standby {
		t.Error("a connection that leads to a standby was used again")
	}
}
