package triggers

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/fenceproxy/fenceproxy/tokens/catalog"
)

// server is what matters of the server and the role.
type server struct {
	version   int // server_version_num
	superuser bool
	installed bool     // the functions of the triggers are there
	watches   []string // event triggers that are there and enabled
}

func ask(ctx context.Context, q catalog.Querier) (s server, err error) {
	rows, err := q.Query(ctx, `
		SELECT pg_catalog.current_setting('server_version_num')::int4,
		  (SELECT r.rolsuper FROM pg_catalog.pg_roles r WHERE r.rolname = current_user),
		  EXISTS (SELECT FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace WHERE n.nspname = 'fence' AND p.proname = 'guard_write'),
		  ARRAY(SELECT e.evtname::text FROM pg_catalog.pg_event_trigger e JOIN pg_catalog.pg_proc p ON p.oid = e.evtfoid
		    JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace
		    WHERE n.nspname = 'fence' AND (e.evtname, p.proname) IN (('fence_ddl_end', 'ddl_end'), ('fence_ddl_drop', 'ddl_drop')) AND e.evtenabled IN ('O', 'A'))`)
	if err != nil {
		return s, err
	}
	return pgx.CollectExactlyOneRow(rows, func(row pgx.CollectableRow) (s server, err error) {
		return s, row.Scan(&s.version, &s.superuser, &s.installed, &s.watches)
	})
}

// ErrNoFunctions is the error of Install when the fence schema has no trigger functions: it is missing or older.
var ErrNoFunctions = errors.New("the fence schema has no triggers' functions: run fenceproxy init")
