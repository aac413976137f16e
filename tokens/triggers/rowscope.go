package triggers

import (
	"fmt"

	"github.com/jackc/pgx/v5"
)

// scopedRowTokenBody is rowTokenBody for a fence with a scope. Its arguments: those of the other, and the scope with {} in
// place of the row's value.
//
// The row's own column tells which of the session's tokens counts. Without that one the row is another holder's: refused, or
// left alone under rewrite; its name is compared as bytes, whatever the column's collation. A row that moves to another fence needs the tokens of both.
func scopedRowTokenBody(column, scope string) string {
	return fmt.Sprintf(`  f pg_catalog.text;
  moved_to pg_catalog.text;
  token pg_catalog.int8;
`+beginOrBypass+`  IF TG_OP OPERATOR(pg_catalog.<>) 'INSERT' THEN
    f := fence.row_scope(TG_ARGV[3], OLD.%[2]s::pg_catalog.text COLLATE pg_catalog."C");
    token := fence.row_scoped(f);
    IF token IS NULL OR OLD.%[1]s OPERATOR(pg_catalog.>) token THEN
      IF `+leftAlone+` THEN
        RETURN NULL;
      ELSIF token IS NULL THEN
        PERFORM fence.row_missing(COALESCE(f, 'NULL'));
      END IF;
      PERFORM fence.row_stale(OLD.%[1]s, token, f);
    END IF;
    IF TG_OP OPERATOR(pg_catalog.=) 'DELETE' THEN
      RETURN OLD;
    END IF;
  END IF;
  moved_to := fence.row_scope(TG_ARGV[3], NEW.%[2]s::pg_catalog.text COLLATE pg_catalog."C");
  IF moved_to OPERATOR(pg_catalog.=) f THEN
    IF NEW.%[1]s IS NULL OR NEW.%[1]s OPERATOR(pg_catalog.=) OLD.%[1]s THEN
      NEW.%[1]s := token;
    ELSIF NEW.%[1]s OPERATOR(pg_catalog.<) OLD.%[1]s THEN
      PERFORM fence.row_stale(OLD.%[1]s, NEW.%[1]s, f);
    END IF;
    RETURN NEW;
  END IF;
  token := fence.row_new(moved_to);
  IF TG_OP OPERATOR(pg_catalog.<>) 'INSERT' OR COALESCE(NEW.%[1]s, 0) OPERATOR(pg_catalog.=) 0 THEN
    NEW.%[1]s := token;
  END IF;
  RETURN NEW;
`, pgx.Identifier{column}.Sanitize(), pgx.Identifier{scope}.Sanitize())
}
