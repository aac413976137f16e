package e2e

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/fenceproxy/fenceproxy/test/pgtest"
	"github.com/fenceproxy/fenceproxy/test/proxytest"
)

// story is a recorded run: sessions by name with their token, and what they send in turn. Each refusal under enforce
// stands alone, so that the same statements run under both modes.
var story = []struct{ session, token, sql string }{
	{"a", "10", "UPDATE acct SET bal = 1 WHERE id = 1"},
	{"a", "", "BEGIN; UPDATE acct SET bal = 2 WHERE id = 1; COMMIT"},
	{"none", "", "UPDATE acct SET bal = 0"},     // ZF002
	{"none", "", "INSERT INTO acct VALUES (9)"}, // ZF002, though it could not run either
	{"b", "11", "UPDATE acct SET bal = 3 WHERE id = 1"},
	{"a", "", "UPDATE acct SET bal = 4 WHERE id = 1"}, // ZF001
	{"a", "", "DELETE FROM acct WHERE id = 3"},        // ZF001
	{"a", "", "SELECT count(*) FROM acct"},
	{"a", "", "INSERT INTO log VALUES (1)"},
	{"none", "", "SET fence.token = '10'"},            // ZF001
	{"none", "", "SET fence.token = 'nonsense'"},      // ZF003
	{"none", "", "SET fence.token = 'nosuch=12'"},     // ZF003
	{"none", "", "SET fence.token = '12'"},            // takes over from b
	{"b", "", "UPDATE acct SET bal = 5 WHERE id = 1"}, // ZF001
	{"none", "", "UPDATE acct SET bal = 6 WHERE id = 1"},
	{"b", "", "BEGIN"},
	{"b", "", "TRUNCATE acct"}, // ZF001
	{"b", "", "ROLLBACK"},
}

// observe raises, evicts and refuses nothing, and counts exactly what enforce refuses on the same run.
func TestObserveCountsWhatEnforceRefuses(t *testing.T) {
	c := pgtest.Shared(t)
	codes := []string{"ZF001", "ZF002", "ZF003", "ZF004", "ZF005", "ZF006"}
	tell := func(mode string) (refused map[string]float64, p *proxytest.Proxy, db string) {
		db = fenced(t, c)
		p = proxytest.Start(t, c.DSN(db, "postgres"), "--fence", "acct=acct", "--mode", mode)
		sessions := map[string]*pgx.Conn{}
		for _, step := range story {
			if sessions[step.session] == nil {
				sessions[step.session] = p.Connect(t, db, user, step.token)
			}
			run(sessions[step.session], step.sql)
		}
		if conn, err := p.TryConnect(db, user, "9"); err == nil { // ZF001 at startup
			conn.Close(context.Background())
		}
		refused = map[string]float64{}
		for _, sqlstate := range codes {
			refused[sqlstate] = p.Metric(t, "fenceproxy_rejections_total", `code="`+sqlstate+`"`)
		}
		return refused, p, db
	}
	enforced, _, _ := tell("enforce")
	observed, p, db := tell("observe")
	t.Logf("enforce refused %v", enforced)
	if enforced["ZF001"] != 6 || enforced["ZF002"] != 2 || enforced["ZF003"] != 2 {
		t.Errorf("enforce counted %v", enforced)
	}
	for _, sqlstate := range codes {
		if enforced[sqlstate] != observed[sqlstate] {
			t.Errorf("%s: enforce refused %v, observe counted %v", sqlstate, enforced[sqlstate], observed[sqlstate])
		}
	}
	if n := p.Metric(t, "fenceproxy_rejections_total", `by="database"`) + p.Metric(t, "fenceproxy_rejections_total", `by="proxy"`); n != 0 {
		t.Errorf("observe counted %v refusals as real", n)
	}
	for _, metric := range []string{"fenceproxy_raises_total", "fenceproxy_evictions_total"} {
		if n := p.Metric(t, metric); n != 0 {
			t.Errorf("%s = %v in mode observe", metric, n)
		}
	}
	if n := number(t, c.Connect(t, db, "postgres"), "SELECT count(*) FROM fence.mark"); n != 0 {
		t.Errorf("observe left %d marks", n)
	}
}

// observe needs nothing of the database: no schema, no rights.
func TestObserveWithoutTheFenceSchema(t *testing.T) {
	c := pgtest.Shared(t)
	db := unfenced(t, c)
	p := proxytest.Start(t, c.DSN(db, user), "--fence", "acct=acct", "--mode", "observe")
	conn := p.Connect(t, db, user, "10")
	want(t, conn, "UPDATE acct SET bal = 1; TRUNCATE acct", "")
}
