package triggers

import (
	"crypto/sha256"
	"fmt"

	"github.com/jackc/pgx/v5"
)

const rowTokenName = "fence_row_token"

// rowToken is the trigger that keeps a column of row tokens. Its function names the column, for PL/pgSQL reads a column
// by a name that it knows many times faster than by one in a variable: one function for each name of a column.
func rowToken(column string) form {
	return form{name: rowTokenName, function: rowTokenFunction(column), row: true, own: rowTokenSQL(column)}
}

func rowTokenFunction(column string) string {
	return fmt.Sprintf("row_token_%x", sha256.Sum256([]byte(column)))[:10+16]
}

// rowTokenSQL makes the function, as fence_owner. Its arguments: the fence of bare tokens, the fence, reject or rewrite.
//
// A row that a newer token has written is refused or, under rewrite, left alone. What is written is stamped with the
// session's token, unless the statement has assigned the column itself, as fenceproxy's and hand-written SQL do; then the
// value may not fall.
func rowTokenSQL(column string) string {
	c := pgx.Identifier{column}.Sanitize()
	return fmt.Sprintf(`SET LOCAL ROLE fence_owner;
CREATE OR REPLACE FUNCTION fence.%[1]s() RETURNS trigger LANGUAGE plpgsql AS $body$
DECLARE
  reason pg_catalog.text := pg_catalog.btrim(pg_catalog.current_setting('fence.bypass', true));
  token pg_catalog.int8;
BEGIN
  IF reason OPERATOR(pg_catalog.<>) '' THEN
    PERFORM fence.pass_by(ARRAY[TG_ARGV[1]], reason);
    IF TG_OP OPERATOR(pg_catalog.=) 'DELETE' THEN
      RETURN OLD;
    END IF;
    RETURN NEW;
  END IF;
  token := fence.row_token(TG_ARGV[1], TG_ARGV[0] OPERATOR(pg_catalog.=) TG_ARGV[1]);
  IF TG_OP OPERATOR(pg_catalog.<>) 'INSERT' AND OLD.%[2]s OPERATOR(pg_catalog.>) token THEN
    IF TG_ARGV[2] OPERATOR(pg_catalog.=) 'rewrite' THEN
      RETURN NULL;
    END IF;
    PERFORM fence.row_stale(OLD.%[2]s, token, TG_ARGV[1]);
  END IF;
  IF TG_OP OPERATOR(pg_catalog.=) 'DELETE' THEN
    RETURN OLD;
  ELSIF TG_OP OPERATOR(pg_catalog.=) 'INSERT' THEN
    IF COALESCE(NEW.%[2]s, 0) OPERATOR(pg_catalog.=) 0 THEN
      NEW.%[2]s := token;
    END IF;
  ELSIF NEW.%[2]s IS NULL OR NEW.%[2]s OPERATOR(pg_catalog.=) OLD.%[2]s THEN
    NEW.%[2]s := token;
  ELSIF NEW.%[2]s OPERATOR(pg_catalog.<) OLD.%[2]s THEN
    PERFORM fence.row_stale(OLD.%[2]s, NEW.%[2]s, TG_ARGV[1]);
  END IF;
  RETURN NEW;
END $body$;
REVOKE ALL ON FUNCTION fence.%[1]s() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION fence.%[1]s() TO PUBLIC;
RESET ROLE;
`, rowTokenFunction(column), c)
}
