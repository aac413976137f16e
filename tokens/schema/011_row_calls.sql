-- Row tokens of statements that write a row or two, where the calls are what costs: the setting is read in its plain forms
-- by an expression that PL/pgSQL inlines and keeps (clauses.c inline_function), without a call of another function.

CREATE OR REPLACE FUNCTION fence.row_matches(pattern text, name text) RETURNS bool
LANGUAGE sql IMMUTABLE AS $body$
  SELECT CASE WHEN pg_catalog.strpos($1, '*') OPERATOR(pg_catalog.=) 0 THEN $1 OPERATOR(pg_catalog.=) $2
    ELSE pg_catalog.length($2) OPERATOR(pg_catalog.>=) pg_catalog.length($1)
      AND pg_catalog.left($2, pg_catalog.strpos($1, '*') OPERATOR(pg_catalog.-) 1)
        OPERATOR(pg_catalog.=) pg_catalog.left($1, pg_catalog.strpos($1, '*') OPERATOR(pg_catalog.-) 1)
      AND pg_catalog.right($2, pg_catalog.length($1) OPERATOR(pg_catalog.-) pg_catalog.strpos($1, '*'))
        OPERATOR(pg_catalog.=) pg_catalog.substr($1, pg_catalog.strpos($1, '*') OPERATOR(pg_catalog.+) 1) END
$body$;

-- The value of a setting that is a single counter without an epoch, in its plain form: 34, or NAME=34 with a name that is
-- the pattern or, in the last case, matches it. NULL for any other setting, which is for the parser.
CREATE FUNCTION fence.row_plain(raw text, pattern text, bare bool) RETURNS int8
LANGUAGE sql IMMUTABLE AS $body$
  SELECT CASE
    WHEN $3 AND pg_catalog.length($1) OPERATOR(pg_catalog.<=) 14 AND $1 OPERATOR(pg_catalog.<>) ''
      AND pg_catalog.rtrim($1, '0123456789') OPERATOR(pg_catalog.=) ''
      THEN $1::pg_catalog.int8
    WHEN pg_catalog.rtrim($1, '0123456789') OPERATOR(pg_catalog.=) ($2 OPERATOR(pg_catalog.||) '=')
      AND pg_catalog.length($1) OPERATOR(pg_catalog.>=) (pg_catalog.length($2) OPERATOR(pg_catalog.+) 2)
      AND pg_catalog.length($1) OPERATOR(pg_catalog.<=) (pg_catalog.length($2) OPERATOR(pg_catalog.+) 15)
      AND pg_catalog.translate($2, ' ,="$*;''' OPERATOR(pg_catalog.||) pg_catalog.chr(9) OPERATOR(pg_catalog.||) pg_catalog.chr(92), '')
        OPERATOR(pg_catalog.=) $2
      THEN pg_catalog.substr($1, pg_catalog.length($2) OPERATOR(pg_catalog.+) 2)::pg_catalog.int8
    WHEN pg_catalog.strpos($2, '*') OPERATOR(pg_catalog.>) 0 AND pg_catalog.strpos($1, '=') OPERATOR(pg_catalog.>) 1
      AND pg_catalog.length(pg_catalog.rtrim($1, '0123456789')) OPERATOR(pg_catalog.=) pg_catalog.strpos($1, '=')
      AND pg_catalog.length($1) OPERATOR(pg_catalog.>) pg_catalog.strpos($1, '=')
      AND pg_catalog.length($1) OPERATOR(pg_catalog.<=) (pg_catalog.strpos($1, '=') OPERATOR(pg_catalog.+) 14)
      AND fence.row_matches($2, pg_catalog.left($1, pg_catalog.strpos($1, '=') OPERATOR(pg_catalog.-) 1))
      AND pg_catalog.translate($1, ' ,"$*;''' OPERATOR(pg_catalog.||) pg_catalog.chr(9) OPERATOR(pg_catalog.||) pg_catalog.chr(92), '')
        OPERATOR(pg_catalog.=) $1
      THEN pg_catalog.substr($1, pg_catalog.strpos($1, '=') OPERATOR(pg_catalog.+) 1)::pg_catalog.int8
    END
$body$;

CREATE OR REPLACE FUNCTION fence.row_find(pattern text, bare bool) RETURNS int8
LANGUAGE plpgsql STABLE AS $body$
DECLARE
  raw pg_catalog.text := pg_catalog.current_setting('fence.token', true);
BEGIN
  RETURN COALESCE(fence.row_plain(raw, pattern, bare), fence.row_token_of(pattern, bare));
END $body$;

-- By the parser; ZF002 without a token.
CREATE FUNCTION fence.row_required(pattern text, bare bool) RETURNS int8
LANGUAGE plpgsql STABLE AS $body$
DECLARE
  v pg_catalog.int8 := fence.row_token_of(pattern, bare);
BEGIN
  IF v IS NULL THEN
    PERFORM fence.row_missing(pattern);
  END IF;
  RETURN v;
END $body$;

-- What a spliced statement stamps rows with: the value of the session's token, ZF002 without one.
-- A lone bare token is read by a small expression of its own: PL/pgSQL prepares each expression that it comes to once in
-- every transaction, and the one of row_plain is long.
CREATE OR REPLACE FUNCTION fence.row_token(pattern text, bare bool) RETURNS int8
LANGUAGE plpgsql STABLE AS $body$
DECLARE
  raw pg_catalog.text := pg_catalog.current_setting('fence.token', true);
BEGIN
  IF bare AND pg_catalog.length(raw) OPERATOR(pg_catalog.<=) 14 AND raw OPERATOR(pg_catalog.<>) ''
    AND pg_catalog.rtrim(raw, '0123456789') OPERATOR(pg_catalog.=) '' THEN
    RETURN raw::pg_catalog.int8;
  END IF;
  RETURN COALESCE(fence.row_plain(raw, pattern, bare), fence.row_required(pattern, bare));
END $body$;

-- on_stale: rewrite. Whether the session's token may write a row; NULL stands for one that was never stamped. ZF002 without
-- a token, when there is a row to look at: the planner does not evaluate what depends on a column.
CREATE FUNCTION fence.row_fits(row_value int8, pattern text, bare bool) RETURNS bool
LANGUAGE plpgsql STABLE AS $body$
DECLARE
  raw pg_catalog.text := pg_catalog.current_setting('fence.token', true);
BEGIN
  IF bare AND pg_catalog.length(raw) OPERATOR(pg_catalog.<=) 14 AND raw OPERATOR(pg_catalog.<>) ''
    AND pg_catalog.rtrim(raw, '0123456789') OPERATOR(pg_catalog.=) '' THEN
    RETURN COALESCE(row_value, 0) OPERATOR(pg_catalog.<=) raw::pg_catalog.int8;
  END IF;
  RETURN COALESCE(row_value, 0) OPERATOR(pg_catalog.<=) COALESCE(fence.row_plain(raw, pattern, bare), fence.row_required(pattern, bare));
END $body$;

REVOKE ALL ON FUNCTION fence.row_plain(text, text, bool), fence.row_required(text, bool), fence.row_fits(int8, text, bool) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION fence.row_plain(text, text, bool), fence.row_required(text, bool), fence.row_fits(int8, text, bool) TO PUBLIC;
