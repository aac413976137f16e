package dbcheck

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/config"
	"github.com/fenceproxy/fenceproxy/tokens"
)

// Run looks at the database of conn. controlRole is the role that raises marks. The error is one of the connection;
// what is wrong with the database is in the findings, the schema and rights first.
func Run(ctx context.Context, conn *pgx.Conn, fences []config.Fence, controlRole string) ([]Finding, error) {
	findings, err := checkSchema(ctx, conn, controlRole)
	if err != nil {
		return nil, err
	}
	tables, err := checkTables(ctx, conn, fences)
	if err != nil {
		return nil, err
	}
	return append(findings, tables...), nil
}

func checkSchema(ctx context.Context, conn *pgx.Conn, controlRole string) ([]Finding, error) {
	var findings []Finding
	err := tokens.CheckVersion(ctx, conn)
	var pg *pgconn.PgError
	switch {
	case err == nil:
	case errors.Is(err, tokens.ErrNoSchema), errors.Is(err, tokens.ErrOlderSchema), errors.Is(err, tokens.ErrNewerSchema):
		findings = append(findings, Finding{Problem, err.Error()})
	case errors.As(err, &pg) && pg.Code == "42501":
		findings = append(findings, Finding{Notice, fmt.Sprintf("role %s may not read the version of the fence schema", conn.Config().User)})
	default:
		return nil, err
	}
	var exists bool
	if err := conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = $1)", controlRole).Scan(&exists); err != nil {
		return nil, err
	}
	if !exists {
		return append(findings, Finding{Problem, fmt.Sprintf("control role %s does not exist", controlRole)}), nil
	}
	grants, err := tokens.MissingGrants(ctx, conn, controlRole)
	if err != nil {
		return nil, err
	}
	if len(grants) > 0 {
		findings = append(findings, Finding{Problem, fmt.Sprintf("control role %s cannot do all that a takeover needs; a DBA runs: %s",
			controlRole, strings.Join(grants, " "))})
	}
	return findings, nil
}
