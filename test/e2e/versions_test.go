package e2e

import (
	"testing"

	"github.com/fenceproxy/fenceproxy/test/pgtest"
	"github.com/fenceproxy/fenceproxy/test/proxytest"
)

// The other tests run on the newest server of this machine. On each other version: every write form, fresh and stale,
// in every protocol.
func TestEveryWriteFormOnOlderVersions(t *testing.T) {
	newest := pgtest.Shared(t).Major
	pgtest.EachVersion(t, func(t *testing.T, i pgtest.Installation) {
		if i.Major == newest {
			t.Skip("covered by the other tests")
		}
		c := pgtest.Start(t, pgtest.WithInstallation(i), pgtest.WithSetting("max_prepared_transactions", "5"))
		db := fenced(t, c)
		c.Exec(t, db, formSetup)
		p := proxytest.Start(t, c.DSN(db, "postgres"), formFences...)
		direct := c.Connect(t, db, "postgres")
		for _, s := range scenarios {
			if s.name == "fresh" || s.name == "stale" || s.name == "absent" {
				m := &matrix{t: t, cluster: c, direct: direct, db: db, addr: p.Addr(), raiser: p, scenario: s, isolation: "read committed"}
				m.run()
			}
		}
	})
}
