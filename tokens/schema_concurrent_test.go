package tokens

import (
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/test/pgtest"
)

// The roles are the cluster's: while an installer is at work another in a second database waits for what the first has made
// of them and not committed yet, and goes on with it, or without it.
func TestInstallInTwoDatabasesAtOnce(t *testing.T) {
	pgtest.EachVersion(t, func(t *testing.T, i pgtest.Installation) {
		c := pgtest.Start(t, pgtest.WithInstallation(i))
		c.Exec(t, "postgres", "CREATE ROLE maker LOGIN CREATEROLE")
		for _, tc := range []struct{ what, before, first string }{
			{"create owner", "", "CREATE ROLE fence_owner NOLOGIN"},
			{"create operator", "CREATE ROLE fence_owner; CREATE ROLE fence_control", "CREATE ROLE fence_operator NOLOGIN"},
			{"control to operator", "CREATE ROLE fence_owner; CREATE ROLE fence_control; CREATE ROLE fence_operator", "GRANT fence_control TO fence_operator"},
			{"owner to the installer", "CREATE ROLE fence_owner; CREATE ROLE fence_control; CREATE ROLE fence_operator; GRANT fence_control TO fence_operator",
				"GRANT fence_owner TO maker"},
			{"all", "", InstallSQL()[:len(InstallSQL())-len("COMMIT;\n")]},
		} {
			for _, end := range []string{"COMMIT", "ROLLBACK"} {
				t.Run(tc.what+", then "+end, func(t *testing.T) {
					one, two := c.NewDatabase(t), c.NewDatabase(t)
					c.Exec(t, one, "ALTER DATABASE "+one+" OWNER TO maker; ALTER DATABASE "+two+" OWNER TO maker")
					first, second := c.Connect(t, one, "maker"), c.Connect(t, two, "maker")
					for _, sql := range []string{tc.before, "BEGIN", tc.first} {
						if _, err := first.PgConn().Exec(ctx, sql).ReadAll(); err != nil {
							t.Fatal(err)
						}
					}
					done := make(chan error, 1)
					go func() {
						_, err := Install(ctx, second)
						done <- err
					}()
					waits := c.Connect(t, "postgres", "postgres")
					for begin, n := time.Now(), 0; n == 0; time.Sleep(5 * time.Millisecond) {
						if err := waits.QueryRow(ctx, "SELECT count(*) FROM pg_stat_activity WHERE datname = $1 AND wait_event_type = 'Lock'", two).Scan(&n); err != nil {
							t.Fatal(err)
						}
						if time.Since(begin) > 20*time.Second {
							t.Fatal("the second one does not wait")
						}
					}
					if _, err := first.Exec(ctx, end); err != nil {
						t.Fatal(err)
					}
					if err := <-done; err != nil {
						t.Error(err)
					}
					for _, conn := range []string{one, two} {
						r, err := Uninstall(ctx, c.Connect(t, conn, "postgres"))
						if err != nil || conn == two && len(r.Left) > 0 {
							t.Error(r, err)
						}
					}
				})
			}
		}
	})
}
