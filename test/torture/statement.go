package torture

import (
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

// statement with its arguments: int64, string or []int64.
type statement struct {
	sql  string
	args []any
	copy bool // COPY of one row of log: sql is its text form
}

// text is the statement with its arguments in it.
func (s statement) text() string {
	sql := s.sql
	for i := len(s.args); i > 0; i-- {
		sql = strings.ReplaceAll(sql, fmt.Sprintf("$%d", i), literal(s.args[i-1]))
	}
	return sql
}

func literal(v any) string {
	switch v := v.(type) {
	case int64:
		return fmt.Sprint(v)
	case []int64:
		return "'{" + strings.Trim(strings.ReplaceAll(fmt.Sprint(v), " ", ","), "[]") + "}'::bigint[]"
	}
	return fmt.Sprintf("'%v'", v)
}

// change is the writing part of a transaction, and what the actor knows when it has committed.
type change struct {
	name       string
	statements []statement
	el, prev   int64
	learn      func(*tenure)
}

// change draws what to write under tx, from what the tenure believes.
func (a *actor) change(t *tenure, tx int64) change {
	tok := t.token
	if a.LogOnly {
		return a.logged(t, tx)
	}
	switch a.random.IntN(4) {
	case 0: // the chain of elements
		el := a.random.Int64N(1 << 60)
		return change{"chain", []statement{a.form(
			"UPDATE $s.head SET el = $1, prev = $2, tok = $3, tx = $4 WHERE id = 1", el, t.el, tok, tx)},
			el, t.el, func(t *tenure) { t.el = el }}
	case 1: // a transfer between two accounts
		from, to, n := a.random.IntN(accounts), a.random.IntN(accounts-1), 1+a.random.Int64N(50)
		if to >= from {
			to++
		}
		set := "UPDATE $s.acct SET bal = $1, tok = $2, tx = $3 WHERE id = $4"
		return change{name: "transfer", statements: []statement{
			a.form(set, t.balances[from]-n, tok, tx, int64(from+1)),
			a.form(set, t.balances[to]+n, tok, tx, int64(to+1)),
		}, learn: func(t *tenure) { t.balances[from] -= n; t.balances[to] += n }}
	case 2: // an element of the set
		if len(t.list) < 50 {
			list := append(t.list[:len(t.list):len(t.list)], tx)
			return change{name: "set", statements: []statement{a.form(
				"UPDATE $s.els SET list = $1, tok = $2, tx = $3 WHERE gen = $4", list, tok, tx, t.gen)},
				learn: func(t *tenure) { t.list = list }}
		}
		gen := t.gen + 1
		return change{name: "set", statements: []statement{a.form("INSERT INTO $s.els VALUES ($1, $2, $3, $4)", gen, []int64{tx}, tok, tx)},
			learn: func(t *tenure) { t.gen, t.list = gen, []int64{tx} }}
	}
	return a.logged(t, tx)
}

// form writes a statement as it is or, the same, in another form.
func (a *actor) form(sql string, args ...any) statement {
	if strings.HasPrefix(sql, "UPDATE") && a.random.IntN(5) == 0 {
		sql = "WITH w AS (" + sql + " RETURNING 1) SELECT count(*) FROM w"
	}
	return statement{sql: fill(sql, a.Fence), args: args}
}

// logged adds a row to the log: rows that no other transaction touches, in every form that a write may have.
func (a *actor) logged(t *tenure, tx int64) change {
	n := a.random.Int64N(1000)
	row := []any{n, t.token, tx}
	s := func(sql string) []statement { return []statement{{sql: fill(sql, a.Fence), args: row}} }
	const values = "($1::bigint, $2::text, $3::bigint)"
	if a.paired && a.random.IntN(3) == 0 {
		return change{name: "two fences", statements: s("WITH w AS (INSERT INTO " + companion + ".log VALUES (1)) INSERT INTO $s.log VALUES " + values)}
	}
	switch a.random.IntN(11) {
	case 6:
		return change{name: "function", statements: s("SELECT $s.put($1::bigint, $2::text, $3::bigint)")}
	case 7:
		return change{name: "procedure", statements: s("CALL $s.file($1::bigint, $2::text, $3::bigint)")}
	case 8:
		return change{name: "DO block", statements: []statement{{sql: fill(fmt.Sprintf("DO 'BEGIN INSERT INTO $s.log VALUES (%d, ''%s'', %d); END'", n, t.token, tx), a.Fence)}}}
	case 0:
		return change{name: "merge", statements: s("MERGE INTO $s.log l USING (VALUES " + values + ") v (n, tok, tx) ON l.tx = v.tx AND false WHEN NOT MATCHED THEN INSERT VALUES (v.n, v.tok, v.tx)")}
	case 1:
		return change{name: "CTE", statements: s("WITH w AS (INSERT INTO $s.log VALUES " + values + " RETURNING n) SELECT n FROM w")}
	case 2:
		return change{name: "INSERT SELECT", statements: s("INSERT INTO $s.log SELECT v.n, v.tok, v.tx FROM (VALUES " + values + ") v (n, tok, tx)")}
	case 3:
		return change{name: "COPY", statements: []statement{{copy: true, sql: fmt.Sprintf("%d\t%s\t%d\n", n, t.token, tx)}}}
	case 4:
		return change{name: "cursor", statements: []statement{
			{sql: fill("INSERT INTO $s.log VALUES "+values, a.Fence), args: row},
			{sql: fill("DECLARE c CURSOR FOR SELECT n FROM $s.log WHERE tx = "+decimal(tx)+" FOR UPDATE", a.Fence)},
			{sql: "FETCH c"},
			{sql: fill("UPDATE $s.log SET n = n + 1 WHERE CURRENT OF c", a.Fence)},
			{sql: "CLOSE c"},
		}}
	case 5: // server-side, and prepared under whatever token was there then
		return change{name: "EXECUTE", statements: []statement{
			{sql: fill("DEALLOCATE ALL", a.Fence)},
			{sql: fill("PREPARE p (bigint, text, bigint) AS INSERT INTO $s.log VALUES ($1, $2, $3)", a.Fence)},
			{sql: fmt.Sprintf("EXECUTE p (%d, '%s', %d)", n, t.token, tx)},
		}}
	}
	return change{name: "INSERT", statements: s("INSERT INTO $s.log VALUES " + values)}
}

// modes are pgx's ways to send a statement.
var modes = []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec,
	pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol}
