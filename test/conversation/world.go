package conversation

import (
	"testing"

	"github.com/fenceproxy/fenceproxy/test/pgtest"
	"github.com/fenceproxy/fenceproxy/test/proxytest"
)

// setup is the database that conversations talk about: acct is fenced by acct, log is nobody's.
const setup = `
CREATE TABLE acct (id int PRIMARY KEY, bal int NOT NULL);
CREATE TABLE log (v int);
CREATE FUNCTION notice(text) RETURNS int LANGUAGE plpgsql AS $$ BEGIN RAISE NOTICE '%', $1; RETURN 1; END $$;
CREATE FUNCTION bump() RETURNS int LANGUAGE sql AS 'UPDATE acct SET bal = bal + 1 WHERE id = 1; SELECT 1';
CREATE PROCEDURE commits() LANGUAGE plpgsql AS $$ BEGIN UPDATE acct SET bal = 1 WHERE id = 1; COMMIT; END $$;
ALTER TABLE acct OWNER TO teller;
ALTER TABLE log OWNER TO teller;
GRANT ALL ON acct, log TO clerk;
GRANT CREATE ON SCHEMA public TO teller;`

const reset = `
SET lock_timeout = '10s';
TRUNCATE acct, log;
INSERT INTO acct VALUES (1, 0), (2, 0), (3, 0);`

const user = "teller"

// World is a database with what the conversations need, and the addresses of the routes to it.
type World struct {
	Cluster *pgtest.Cluster
	DB      string
	addr    map[Route]string
	raiser  map[Route]string // whom others' tokens go through; nobody on the direct route
	runs    int
}

// NewWorld makes the database. Routes are added by Through.
func NewWorld(t testing.TB, c *pgtest.Cluster) *World {
	t.Helper()
	w := &World{Cluster: c, DB: c.NewDatabase(t), addr: map[Route]string{Direct: c.Addr()}, raiser: map[Route]string{}}
	c.Exec(t, "postgres", `DO $$ BEGIN
		IF to_regrole('teller') IS NULL THEN CREATE ROLE teller LOGIN; CREATE ROLE clerk; GRANT clerk TO teller; END IF; END $$`)
	c.Exec(t, w.DB, setup)
	return w
}

// Through adds a route: sessions go to addr, other sessions' tokens are presented at raiser.
func (w *World) Through(r Route, addr, raiser string) { w.addr[r], w.raiser[r] = addr, raiser }

// EnforcedRoutes starts two proxies in front of upstream, and adds the routes on which the one that carries the session
// has seen the raise, and has not.
func (w *World) EnforcedRoutes(t testing.TB, upstream string) (session, other *proxytest.Proxy) {
	t.Helper()
	proxytest.Install(t, w.Cluster.DSN(w.DB, "postgres"))
	session = proxytest.Start(t, upstream, "--fence", "acct=acct", "--catalog", "off")                      // what texts alone tell
	other = proxytest.Start(t, w.Cluster.DSN(w.DB, "postgres"), "--fence", "acct=acct", "--catalog", "off") // what texts alone tell
	w.Through(Early, session.Addr(), session.Addr())
	w.Through(Late, session.Addr(), other.Addr())
	return session, other
}
