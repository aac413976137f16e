package triggers

import (
	"crypto/sha256"
	"fmt"

	"github.com/jackc/pgx/v5"
)

const rowTokenName = "fence_row_token"

// rowToken is the trigger that keeps a column of row tokens. Its function names the column, and that of a scope, for PL/pgSQL
// reads a column by a name that it knows many times faster than by one in a variable: one function for each pair of names.
func rowToken(column, scope string) form {
	body := rowTokenBody(column)
	if scope != "" {
		body = scopedRowTokenBody(column, scope)
	}
	f := form{name: rowTokenName, function: rowTokenFunction(body), row: true}
	f.own = function(f.function, body)
	return f
}

// rowTokenFunction names a function by what it does: a trigger that calls another version's is not the one it should be.
func rowTokenFunction(body string) string {
	return fmt.Sprintf("row_token_%x", sha256.Sum256([]byte(body)))[:10+16]
}

// rowTokenBody are the declarations and statements of the function. Its arguments: the fence of bare tokens, the fence, reject
// or rewrite.
//
// A row that a newer token has written is refused or, under rewrite, left alone. What is written is stamped with the
// session's token, unless the statement has assigned the column itself, as fenceproxy's and hand-written SQL do; then the
// value may not fall.
//
// What another trigger writes is refused under rewrite too: foreign keys are triggers that do not look whether the rows of
// a cascade were really written (ri_triggers.c RI_FKey_cascade_del), and would be left with rows that refer to nothing.
func rowTokenBody(column string) string {
	c := pgx.Identifier{column}.Sanitize()
	return fmt.Sprintf(`  token pg_catalog.int8;
`+beginOrBypass+`  token := fence.row_token(TG_ARGV[1], TG_ARGV[0] OPERATOR(pg_catalog.=) TG_ARGV[1]);
  IF TG_OP OPERATOR(pg_catalog.<>) 'INSERT' AND OLD.%[1]s OPERATOR(pg_catalog.>) token THEN
    IF `+leftAlone+` THEN
      RETURN NULL;
    END IF;
    PERFORM fence.row_stale(OLD.%[1]s, token, TG_ARGV[1]);
  END IF;
  IF TG_OP OPERATOR(pg_catalog.=) 'DELETE' THEN
    RETURN OLD;
  ELSIF TG_OP OPERATOR(pg_catalog.=) 'INSERT' THEN
    IF COALESCE(NEW.%[1]s, 0) OPERATOR(pg_catalog.=) 0 THEN
      NEW.%[1]s := token;
    END IF;
  ELSIF NEW.%[1]s IS NULL OR NEW.%[1]s OPERATOR(pg_catalog.=) OLD.%[1]s THEN
    NEW.%[1]s := token;
  ELSIF NEW.%[1]s OPERATOR(pg_catalog.<) OLD.%[1]s THEN
    PERFORM fence.row_stale(OLD.%[1]s, NEW.%[1]s, TG_ARGV[1]);
  END IF;
  RETURN NEW;
`, c)
}

// leftAlone: newer rows are no error.
const leftAlone = `TG_ARGV[2] OPERATOR(pg_catalog.=) 'rewrite' AND pg_catalog.pg_trigger_depth() OPERATOR(pg_catalog.=) 1`

// beginOrBypass follows the declarations.
const beginOrBypass = `  reason pg_catalog.text := pg_catalog.btrim(pg_catalog.current_setting('fence.bypass', true));
BEGIN
  IF reason OPERATOR(pg_catalog.<>) '' THEN
    PERFORM fence.pass_by(ARRAY[TG_ARGV[1]], reason);
    IF TG_OP OPERATOR(pg_catalog.=) 'DELETE' THEN
      RETURN OLD;
    END IF;
    RETURN NEW;
  END IF;
`

// function makes a trigger's function, as fence_owner.
func function(name, body string) string {
	return fmt.Sprintf(`SET LOCAL ROLE fence_owner;
CREATE OR REPLACE FUNCTION fence.%[1]s() RETURNS trigger LANGUAGE plpgsql AS $body$
DECLARE
%[2]sEND $body$;
REVOKE ALL ON FUNCTION fence.%[1]s() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION fence.%[1]s() TO PUBLIC;
RESET ROLE;
`, name, body)
}
