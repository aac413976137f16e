package tokens

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fenceproxy/fenceproxy/test/pgtest"
)

// A9, S8, redteam 18: the guard works on a hot standby and is as strict there; nothing is announced.
func TestHotStandby(t *testing.T) {
	c := pgtest.Start(t)
	w := ownWorld(t, c)
	f := w.fence(34)
	c.Stop()
	// A standby without a primary: it replays what it has and waits for more.
	if err := os.WriteFile(filepath.Join(c.SocketDir(), "data", "standby.signal"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	c.Restart(t)
	w.su = w.dial("postgres")
	expect(t, "in recovery", w.su.do("SELECT pg_is_in_recovery()"), "ok:true")
	m := Mark{ID: w.id(f), Name: f}
	a := w.dial("app")
	for _, level := range levels[:2] { // no SERIALIZABLE on a standby
		for _, g := range forms {
			for tok, want := range map[int64]string{33: "ZF001", 34: "ok", 35: "ZF006"} {
				a.token(tok)
				a.must("BEGIN ISOLATION LEVEL " + level)
				expect(t, level+" "+string(g), a.guardAs(g, m, a.raw, Token{0, tok}, f), want)
				if want == "ok" {
					expect(t, "locked", w.su.do("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted"), "ok:1")
				}
				a.must("ROLLBACK")
			}
		}
	}
	var inRecovery string
	var rest [4]*string
	if err := a.QueryRow(ctx, SessionQuestionSQL).Scan(&rest[0], &rest[1], &rest[2], &inRecovery, &rest[3]); err != nil || inRecovery != "t" {
		t.Error(inRecovery, err)
	}
	// A session that is not in recovery itself, with a control DSN that leads to a standby.
	ctl, _, _ := w.control([]string{f})
	_, e := ctl.Announce(ctx, w.session("app"), List{{"", Token{0, 35}}})
	if e == nil || e.Code != CodeUnavailable || !strings.Contains(e.Message, "standby") {
		t.Error(e)
	}
	if err := ctl.Ping(ctx); err == nil {
		t.Error("ping of a standby")
	}
}
