package tokens

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Report says what Install or Uninstall did.
type Report struct {
	From    int      // version of the schema before; 0: none
	To      int      // version after; 0: none
	Changes []string // one line each; empty when there was nothing to do
	Left    []string // what Uninstall could not remove, and why
}

// ErrNewerSchema is in the error of Install and of CheckVersion when the database's schema is newer than the binary.
var ErrNewerSchema = errors.New("the fence schema is newer than this fenceproxy")

// ErrOlderSchema is in the error of CheckVersion when the database's schema is older than the binary.
var ErrOlderSchema = errors.New("the fence schema is older than this fenceproxy")

// ErrNoSchema is in the error of CheckVersion when the database has no fence schema.
var ErrNoSchema = errors.New("the database has no fence schema")

// InstalledVersion returns the version of the fence schema in conn's database, 0 when there is none. The caller's role
// must own the schema, be a superuser, or be a member of fence_control.
func InstalledVersion(ctx context.Context, conn *pgx.Conn) (int, error) {
	var exists bool
	err := conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_catalog.pg_namespace n JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid WHERE n.nspname = 'fence' AND c.relname = 'version')").Scan(&exists)
	if err != nil || !exists {
		return 0, err
	}
	var version int
	err = conn.QueryRow(ctx, "SELECT coalesce(max(version), 0) FROM fence.version").Scan(&version)
	return version, err
}

// CheckVersion says whether this binary can work with the database's schema: nil, or an error that tells what to do
// and holds ErrNoSchema, ErrOlderSchema or ErrNewerSchema.
func CheckVersion(ctx context.Context, conn *pgx.Conn) error {
	installed, err := InstalledVersion(ctx, conn)
	switch {
	case err != nil:
		return err
	case installed == 0:
		return fmt.Errorf("%w: run fenceproxy init", ErrNoSchema)
	case installed < SchemaVersion():
		return fmt.Errorf("%w: it has version %d, this binary needs %d: run fenceproxy init", ErrOlderSchema, installed, SchemaVersion())
	case installed > SchemaVersion():
		return newer(installed)
	}
	return nil
}

func newer(installed int) error {
	return fmt.Errorf("%w: it has version %d, this binary knows %d: use a fenceproxy as new as the schema", ErrNewerSchema, installed, SchemaVersion())
}

// Install installs or upgrades the fence schema in conn's database, in one transaction; done twice it changes nothing.
// conn must not be in a transaction. Its role owns the database and has CREATEROLE, or a DBA has made the roles and
// granted it fence_owner; it is a member of fence_owner afterwards, so it should not be an application's role.
func Install(ctx context.Context, conn *pgx.Conn) (Report, error) {
	before, err := look(ctx, conn)
	if err != nil {
		return Report{}, HintOwner(err)
	}
	if before.version > SchemaVersion() {
		return Report{}, newer(before.version)
	}
	if err := runScript(ctx, conn, InstallSQL()); err != nil {
		if before.version == 0 {
			return Report{}, hinted(err, "Use a superuser, or a role that owns the database and has CREATEROLE.")
		}
		return Report{}, HintOwner(err)
	}
	after, err := look(ctx, conn)
	if err != nil {
		return Report{}, err
	}
	return before.report(after), nil
}

// Uninstall drops the fence schema of conn's database, with all marks, and the roles that no other database uses.
func Uninstall(ctx context.Context, conn *pgx.Conn) (Report, error) {
	before, err := look(ctx, conn)
	if err != nil {
		return Report{}, HintOwner(err)
	}
	if err := runScript(ctx, conn, UninstallSQL()); err != nil {
		return Report{}, HintOwner(err)
	}
	after, err := look(ctx, conn)
	if err != nil {
		return Report{}, err
	}
	r := before.report(after)
	for _, role := range after.roles {
		r.Left = append(r.Left, "role "+role+": another database uses it, or this role may not drop it")
	}
	return r, nil
}

// runScript runs a text that begins and commits itself.
func runScript(ctx context.Context, conn *pgx.Conn, sql string) error {
	_, err := conn.PgConn().Exec(ctx, sql).ReadAll()
	if err != nil && conn.PgConn().TxStatus() != 'I' && !conn.IsClosed() {
		conn.PgConn().Exec(ctx, "ROLLBACK").ReadAll()
	}
	return err
}

// hinted gives an error of PostgreSQL its hint, and one for missing rights that has none this one.
func hinted(err error, rights string) error {
	var pe *pgconn.PgError
	switch {
	case !errors.As(err, &pe):
	case pe.Hint != "":
		return fmt.Errorf("%w\n%s", err, pe.Hint)
	case pe.Code == "42501": // insufficient_privilege
		return fmt.Errorf("%w\n%s", err, rights)
	}
	return err
}

// HintOwner adds to an error for missing rights on a schema that is there who has them. It names no GRANT: a member of
// fence_owner can take every guard away.
func HintOwner(err error) error {
	return hinted(err, "Use a superuser, or the role that installed the schema: a member of fence_owner, which an application's role should not be.")
}

type seen struct {
	version int
	roles   []string
}

func look(ctx context.Context, conn *pgx.Conn) (s seen, err error) {
	if s.version, err = InstalledVersion(ctx, conn); err != nil {
		return s, err
	}
	rows, err := conn.Query(ctx, "SELECT rolname::text FROM pg_catalog.pg_roles WHERE rolname IN ('fence_owner', 'fence_control', 'fence_operator') ORDER BY 1")
	if err != nil {
		return s, err
	}
	s.roles, err = pgx.CollectRows(rows, pgx.RowTo[string])
	return s, err
}

func (before seen) report(after seen) Report {
	r := Report{From: before.version, To: after.version}
	for _, role := range after.roles {
		if !contains(before.roles, role) {
			r.Changes = append(r.Changes, "created role "+role)
		}
	}
	switch {
	case before.version == after.version:
	case before.version == 0:
		r.Changes = append(r.Changes, fmt.Sprintf("created schema fence, version %d", after.version))
	case after.version == 0:
		r.Changes = append(r.Changes, "dropped schema fence and its marks")
	default:
		r.Changes = append(r.Changes, fmt.Sprintf("upgraded schema fence from version %d to %d", before.version, after.version))
	}
	for _, role := range before.roles {
		if !contains(after.roles, role) {
			r.Changes = append(r.Changes, "dropped role "+role)
		}
	}
	return r
}

// MissingGrants returns the GRANT statements that controlRole, the role of the control DSN, still needs: to raise marks,
// to see who blocks a raise, and to end those sessions. A role with CREATEROLE can give the first; the last two take a
// superuser from PostgreSQL 16 on. Empty for a superuser. The role must exist.
func MissingGrants(ctx context.Context, conn *pgx.Conn, controlRole string) ([]string, error) {
	rows, err := conn.Query(ctx, `SELECT pg_catalog.format('GRANT %I TO %I;', g.role, r.rolname)
FROM pg_catalog.pg_roles r, (VALUES (1, 'fence_control'), (2, 'pg_read_all_stats'), (3, 'pg_signal_backend')) AS g (n, role)
WHERE r.rolname = $1 AND NOT r.rolsuper
  AND NOT EXISTS (SELECT FROM pg_catalog.pg_roles h WHERE h.rolname = g.role AND pg_catalog.pg_has_role(r.oid, h.oid, 'USAGE'))
ORDER BY g.n`, controlRole)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}
