package storm

import (
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/test/pgtest"
	"github.com/fenceproxy/fenceproxy/test/proxytest"
)

func TestMain(m *testing.M) { pgtest.Main(m, proxytest.Cleanup) }

// waitLimit ends a poll for something that never comes.
const waitLimit = 30 * time.Second

const schema = `
DO $$ BEGIN
	IF to_regrole('teller') IS NULL THEN CREATE ROLE teller LOGIN; END IF;
	IF to_regrole('locked') IS NULL THEN CREATE ROLE locked LOGIN PASSWORD 'secret'; END IF;
END $$;
CREATE TABLE acct (id int PRIMARY KEY, bal int NOT NULL);
INSERT INTO acct SELECT g, 0 FROM generate_series(1, 1000) g;
CREATE TABLE plain (id int, note text);
GRANT ALL ON acct, plain TO teller;`

// database makes a fenced database; user locked has to log in by SCRAM.
func database(t *testing.T) (c *pgtest.Cluster, db string) {
	t.Helper()
	c = pgtest.Start(t, pgtest.WithHBA("local all all trust", "host all locked 127.0.0.1/32 scram-sha-256", "host all all 127.0.0.1/32 trust"))
	db = c.NewDatabase(t)
	c.Exec(t, db, schema)
	proxytest.Install(t, c.DSN(db, "postgres"))
	return c, db
}

// eventually polls a condition; the last thing it said is the failure's text.
func eventually(t *testing.T, what string, condition func() (ok bool, now any)) {
	t.Helper()
	for deadline := time.Now().Add(waitLimit); ; time.Sleep(20 * time.Millisecond) {
		ok, now := condition()
		if ok {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("never: %s; now %v", what, now)
		}
	}
}
