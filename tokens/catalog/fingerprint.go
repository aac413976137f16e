package catalog

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

// fingerprint is another value after each committed change of the catalogs that Read reads, and in each database: each row is
// told by the transaction that made it. What PostgreSQL counts for its statistics would cost less, but a backend tells that
// only when it is idle or ends, up to ten seconds late or, while it goes on to work, not at all (pgstat.c pgstat_report_stat).
func fingerprint(ctx context.Context, conn *pgx.Conn) (f string, err error) {
	err = conn.QueryRow(ctx, fingerprintSQL).Scan(&f)
	return f, err
}

var fingerprintSQL = func() string {
	var b strings.Builder
	for i, table := range strings.Fields(`pg_class pg_inherits pg_attribute pg_rewrite pg_constraint pg_trigger pg_proc pg_depend pg_namespace
		pg_policy pg_index pg_attrdef pg_operator pg_cast pg_type`) {
		if i > 0 {
			b.WriteString(" UNION ALL ")
		}
		fmt.Fprintf(&b, "SELECT pg_catalog.count(*) AS n, pg_catalog.sum(pg_catalog.hashtext(xmin::pg_catalog.text)) AS h FROM pg_catalog.%s", table)
	}
	// A database that is made from a template has the template's rows.
	return "SELECT pg_catalog.string_agg(n || ' ' || h, ',') || ' ' || (SELECT d.oid FROM pg_catalog.pg_database d WHERE d.datname = pg_catalog.current_database())" +
		" FROM (" + b.String() + ") c"
}()
