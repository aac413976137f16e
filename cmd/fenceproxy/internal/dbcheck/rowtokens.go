package dbcheck

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/config"
	"github.com/fenceproxy/fenceproxy/tokens/catalog"
)

// rowColumn is the column of row tokens that a fenced table has, or should have.
type rowColumn struct {
	fence  string
	member catalog.Member
	name   string
	column *catalog.Column // nil when the table lacks it
	scope  string          // the scope's column, "" without
	scoped *catalog.Column // nil when the table lacks it
}

// rowColumns finds the columns of every table that a fence with row tokens names. fences are those of the snapshot.
func rowColumns(s *catalog.Snapshot, fences []config.Fence) []rowColumn {
	var list []rowColumn
	for i, f := range fences {
		if f.RowToken == "" {
			continue
		}
		for _, m := range s.Fences[i].All {
			if m.Named == nil {
				continue // it has its parent's columns
			}
			r := rowColumn{fence: f.Name, member: m, name: f.Column(), scope: f.ScopeColumn()}
			for _, c := range s.Columns(m.Schema, m.Name) {
				if c.Name == r.name {
					r.column = &c
				}
				if c.Name == r.scope {
					r.scoped = &c
				}
			}
			list = append(list, r)
		}
	}
	return list
}

// problem is what is wrong with a column that is there, "" for nothing.
func (r *rowColumn) problem() string {
	switch c := r.column; {
	case c == nil:
		return ""
	case c.Base != "bigint":
		return "is " + c.Type + ", row tokens need bigint"
	case c.Generated:
		return "is generated and cannot be written"
	case c.Identity:
		return "is an identity column"
	}
	return ""
}

// scopeProblem: a generated column changes with others, unseen by a check of what is assigned; and triggers run before it
// is computed (trigger.c ExecBRInsertTriggers).
func (r *rowColumn) scopeProblem() string {
	column := pgx.Identifier{r.scope}.Sanitize()
	switch {
	case r.scope == "":
		return ""
	case r.scoped == nil:
		return "no column " + column + ", which its scope names"
	case r.scoped.Generated:
		return "column " + column + ", which its scope names, is generated: a row could pass from one fence to another"
	}
	return ""
}

func (r *rowColumn) where() string {
	return fmt.Sprintf("fence %s: %s: column %s", r.fence, r.member.Relation, pgx.Identifier{r.name}.Sanitize())
}

func columnFindings(columns []rowColumn) []Finding {
	var findings []Finding
	for i := range columns {
		r := &columns[i]
		if p := r.scopeProblem(); p != "" {
			findings = append(findings, Finding{Problem, fmt.Sprintf("fence %s: %s: %s", r.fence, r.member.Relation, p)})
		}
		problem := r.problem()
		switch {
		case r.column == nil:
			findings = append(findings, Finding{Problem, r.where() + " does not exist; run fenceproxy init --row-tokens"})
		case problem != "":
			findings = append(findings, Finding{Problem, r.where() + " " + problem})
		case !r.column.NotNull:
			findings = append(findings, Finding{Notice, r.where() + " may be NULL, which counts as 0"})
		}
	}
	return findings
}

// ColumnProblems are those columns of tables on account of which a trigger of row tokens would fail each write. It changes
// nothing. conn is not in a transaction.
func ColumnProblems(ctx context.Context, conn *pgx.Conn, fences []config.Fence) ([]string, error) {
	snapshot, err := catalog.Read(ctx, conn, Fences(fences))
	if err != nil {
		return nil, err
	}
	var problems []string
	columns := rowColumns(snapshot, fences)
	for _, f := range columnFindings(slices.DeleteFunc(columns, func(r rowColumn) bool { // views have no such trigger
		return r.member.Kind == catalog.View || r.member.Kind == catalog.Materialized
	})) {
		if f.Severity == Problem {
			problems = append(problems, f.Text)
		}
	}
	return problems, nil
}

// ColumnPlan is what separates the tables of a database from a configuration with row tokens.
type ColumnPlan struct {
	Adds     []string // statements, without semicolons
	Problems []string // what is there and cannot be used, or added here
	Notes    []string // what of the configuration is not there
}

// PlanColumns reads what is there; it changes nothing. conn is not in a transaction.
func PlanColumns(ctx context.Context, conn *pgx.Conn, fences []config.Fence) (*ColumnPlan, error) {
	snapshot, err := catalog.Read(ctx, conn, Fences(fences))
	if err != nil {
		return nil, err
	}
	p := &ColumnPlan{}
	seen := map[string]bool{}
	adding := map[string]bool{} // fence and OID
	var partitions []rowColumn
	for _, r := range rowColumns(snapshot, fences) {
		problem := r.problem()
		switch {
		case problem != "":
			p.Problems = append(p.Problems, r.where()+" "+problem)
		case r.column != nil:
		case r.member.Kind == catalog.View || r.member.Kind == catalog.Materialized:
			p.Problems = append(p.Problems, r.where()+" does not exist, and this is a view: define it anew, or name the table below it")
		case r.member.Partition:
			partitions = append(partitions, r)
		default:
			// IF NOT EXISTS: an inheritance child gets the column from its parent.
			add := "ALTER TABLE " + r.member.Relation.String() + " ADD COLUMN IF NOT EXISTS " + pgx.Identifier{r.name}.Sanitize() + " bigint NOT NULL DEFAULT 0"
			adding[fmt.Sprint(r.fence, " ", r.member.OID)] = true
			if !seen[add] {
				seen[add] = true
				p.Adds = append(p.Adds, add)
			}
		}
	}
	for i, f := range fences {
		if f.RowToken == "" {
			continue
		}
		for _, u := range snapshot.Fences[i].Unmatched {
			p.Notes = append(p.Notes, fmt.Sprintf("fence %s: %s matches no table", f.Name, u.Text))
		}
	}
	for i := range partitions {
		if err := p.partitionWithout(ctx, conn, &partitions[i], adding); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// partitionWithout: a partition has the columns of the partitioned table at the top, which gets this one if the fence names
// it.
func (p *ColumnPlan) partitionWithout(ctx context.Context, conn *pgx.Conn, r *rowColumn, adding map[string]bool) error {
	var root uint32
	if err := conn.QueryRow(ctx, "SELECT COALESCE(pg_catalog.pg_partition_root($1), 0)::oid", r.member.OID).Scan(&root); err != nil {
		return err
	}
	if adding[fmt.Sprint(r.fence, " ", root)] {
		return nil
	}
	p.Problems = append(p.Problems, r.where()+" does not exist, and this is a partition: the fence must name the partitioned table too")
	return nil
}

// SQL is the text of all steps, one transaction for psql. Empty without steps.
func (p *ColumnPlan) SQL(wait time.Duration) string {
	if len(p.Adds) == 0 {
		return ""
	}
	return fmt.Sprintf("BEGIN;\n%s;\n%s;\nCOMMIT;\n", lockTimeout(wait), strings.Join(p.Adds, ";\n"))
}

// Add does it, in one transaction. It waits for the writers of each table up to wait, and gives up with 55P03 then; nothing
// has changed.
func (p *ColumnPlan) Add(ctx context.Context, conn *pgx.Conn, wait time.Duration) error {
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, lockTimeout(wait)); err != nil {
			return err
		}
		for _, add := range p.Adds {
			if _, err := tx.Exec(ctx, add); err != nil {
				return addError(add, err)
			}
		}
		return nil
	})
}

func addError(add string, err error) error {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return fmt.Errorf("%s: %w", add, err)
	}
	hint := ""
	switch pg.Code {
	case "42501":
		hint = "; the table's owner or a superuser can"
	case "55P03":
		hint = "; somebody is using the table: try again at a quieter time, or wait longer"
	}
	return fmt.Errorf("%s: %w%s; no column was added", add, err, hint)
}

func lockTimeout(wait time.Duration) string {
	return fmt.Sprintf("SET LOCAL lock_timeout = %d", max(wait.Milliseconds(), 1))
}
