package triggers

import (
	"fmt"
	"testing"

	"github.com/fenceproxy/fenceproxy/test/pgtest"
)

// Logical replication into a fenced table. By default its workers, which write what was fenced where it came from, are
// not refused: their session_replication_role is replica. With Always they are, the first copy and all that follows,
// until the subscription's owner may bypass.
func TestLogicalReplication(t *testing.T) {
	const table = "CREATE TABLE t (id int PRIMARY KEY, v int)"
	from := newWorld(t, pgtest.Start(t, pgtest.WithSetting("wal_level", "logical")), table)
	to := newWorld(t, pgtest.Start(t), table)
	from.su.must("INSERT INTO t VALUES (1, 1); CREATE PUBLICATION p FOR TABLE t")
	to.su.must("CREATE ROLE replicator SUPERUSER LOGIN")
	subscribe := func(name string) {
		from.su.must("TRUNCATE t; INSERT INTO t VALUES (1, 1)")
		to.su.must("ALTER TABLE t DISABLE TRIGGER USER; TRUNCATE t")
		to.su.must("ALTER TABLE t ENABLE TRIGGER USER")
		s := to.dial("replicator")
		s.must(fmt.Sprintf("CREATE SUBSCRIPTION %s CONNECTION '%s' PUBLICATION p", name, from.c.SocketDSN(from.db, "postgres")))
	}
	rows := func(want string) func() bool {
		return func() bool { return to.su.do("SELECT count(*) FROM t") == "ok:"+want }
	}
	refusals := func() string {
		if to.c.Major < 15 {
			return ""
		}
		return to.su.do("SELECT sum(apply_error_count + sync_error_count) > 0 FROM pg_stat_subscription_stats")
	}

	c := config("t")
	to.install(c)
	subscribe("by_default")
	eventually(t, "the copy arrives", rows("1"))
	from.su.must("INSERT INTO t VALUES (2, 2); UPDATE t SET v = 3 WHERE id = 1")
	eventually(t, "changes arrive", func() bool { return to.su.do("SELECT string_agg(v::text, ',' ORDER BY id) FROM t") == "ok:3,2" })
	expect(t, "an application of the subscriber", to.dial("app").do("INSERT INTO t VALUES (3, 3)"), "ZF002")
	from.su.must("TRUNCATE t")
	eventually(t, "TRUNCATE arrives", rows("0"))
	to.su.must("DROP SUBSCRIPTION by_default")

	subscribe("always")
	c.Always = true
	eventually(t, "the copy arrives", rows("1"))
	to.install(c)
	from.su.must("TRUNCATE t")
	if refusals() != "" {
		eventually(t, "a worker is refused", func() bool { return refusals() == "ok:t" })
	}
	expect(t, "rows", to.su.do("SELECT count(*) FROM t"), "ok:1")
	to.su.must("SELECT fence.allow_bypass('replicator', 'replication')")
	to.su.must("ALTER ROLE replicator SET fence.bypass = 'replication'")
	eventually(t, "with a bypass of the subscription's owner TRUNCATE arrives", rows("0"))
	expect(t, "written down", to.su.do("SELECT DISTINCT fence, role, reason FROM fence.bypassed"), "ok:f|replicator|replication")
}
