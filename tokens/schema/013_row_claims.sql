-- What a statement that writes a row or two calls for each of them. There the preparation of expressions is what costs:
-- PL/pgSQL does it once in every transaction for each expression that it comes to (pl_exec.c exec_eval_simple_expr), and
-- SQL does it for each call in a text. So a session's token is read where it is needed, by conditions that fit its plain
-- forms and are written out in each function (a call costs as much as what it would save), and the parser is for the rest:
--   34          a single counter without a name
--   jobs/42=34  a single counter with a name that is the pattern, or begins as a pattern that ends in *
-- Counters of up to 14 digits are below 2^48.

CREATE OR REPLACE FUNCTION fence.row_token(pattern text, bare bool) RETURNS int8
LANGUAGE plpgsql STABLE AS $body$
DECLARE
  raw pg_catalog.text := pg_catalog.current_setting('fence.token', true);
BEGIN
  IF bare AND pg_catalog.rtrim(raw, '0123456789') OPERATOR(pg_catalog.=) '' AND raw OPERATOR(pg_catalog.<>) ''
    AND pg_catalog.length(raw) OPERATOR(pg_catalog.<=) 14 THEN
    RETURN raw::pg_catalog.int8;
  END IF;
  IF pg_catalog.strpos(pattern, '*') OPERATOR(pg_catalog.=) 0 THEN
    IF pg_catalog.rtrim(raw, '0123456789') OPERATOR(pg_catalog.=) (pattern OPERATOR(pg_catalog.||) '=')
      AND pg_catalog.right(raw, 1) OPERATOR(pg_catalog.<>) '='
      AND pg_catalog.length(raw) OPERATOR(pg_catalog.-) pg_catalog.length(pattern) OPERATOR(pg_catalog.<=) 15 THEN
      RETURN pg_catalog.split_part(raw, '=', 2)::pg_catalog.int8;
    END IF;
  ELSIF raw OPERATOR(pg_catalog.^@) pg_catalog.rtrim(pattern, '*')
    AND pg_catalog.strpos(raw, '=') OPERATOR(pg_catalog.=) pg_catalog.length(pg_catalog.rtrim(raw, '0123456789'))
    AND pg_catalog.strpos(raw, '=') OPERATOR(pg_catalog.>) pg_catalog.length(pattern)
    AND pg_catalog.right(raw, 1) OPERATOR(pg_catalog.<>) '='
    AND pg_catalog.length(pg_catalog.split_part(raw, '=', 2)) OPERATOR(pg_catalog.<=) 14
    AND pg_catalog.translate(raw, ' ,"$*;''' OPERATOR(pg_catalog.||) pg_catalog.chr(9) OPERATOR(pg_catalog.||) pg_catalog.chr(92), '') OPERATOR(pg_catalog.=) raw
    AND pg_catalog.right(pattern, 1) OPERATOR(pg_catalog.=) '*' THEN
    RETURN pg_catalog.split_part(raw, '=', 2)::pg_catalog.int8;
  END IF;
  RETURN COALESCE(fence.row_plain(raw, pattern, bare), fence.row_required(pattern, bare));
END $body$;

-- on_stale: rewrite. Whether the session's token may write a row; NULL stands for one that was never stamped. ZF002 without
-- a token, when there is a row to look at: the planner does not evaluate what depends on a column.
CREATE OR REPLACE FUNCTION fence.row_fits(row_value int8, pattern text, bare bool) RETURNS bool
LANGUAGE plpgsql STABLE AS $body$
DECLARE
  raw pg_catalog.text := pg_catalog.current_setting('fence.token', true);
BEGIN
  IF bare AND pg_catalog.rtrim(raw, '0123456789') OPERATOR(pg_catalog.=) '' AND raw OPERATOR(pg_catalog.<>) ''
    AND pg_catalog.length(raw) OPERATOR(pg_catalog.<=) 14 THEN
    RETURN COALESCE(row_value, 0) OPERATOR(pg_catalog.<=) raw::pg_catalog.int8;
  END IF;
  IF pg_catalog.strpos(pattern, '*') OPERATOR(pg_catalog.=) 0 THEN
    IF pg_catalog.rtrim(raw, '0123456789') OPERATOR(pg_catalog.=) (pattern OPERATOR(pg_catalog.||) '=')
      AND pg_catalog.right(raw, 1) OPERATOR(pg_catalog.<>) '='
      AND pg_catalog.length(raw) OPERATOR(pg_catalog.-) pg_catalog.length(pattern) OPERATOR(pg_catalog.<=) 15 THEN
      RETURN COALESCE(row_value, 0) OPERATOR(pg_catalog.<=) pg_catalog.split_part(raw, '=', 2)::pg_catalog.int8;
    END IF;
  ELSIF raw OPERATOR(pg_catalog.^@) pg_catalog.rtrim(pattern, '*')
    AND pg_catalog.strpos(raw, '=') OPERATOR(pg_catalog.=) pg_catalog.length(pg_catalog.rtrim(raw, '0123456789'))
    AND pg_catalog.strpos(raw, '=') OPERATOR(pg_catalog.>) pg_catalog.length(pattern)
    AND pg_catalog.right(raw, 1) OPERATOR(pg_catalog.<>) '='
    AND pg_catalog.length(pg_catalog.split_part(raw, '=', 2)) OPERATOR(pg_catalog.<=) 14
    AND pg_catalog.translate(raw, ' ,"$*;''' OPERATOR(pg_catalog.||) pg_catalog.chr(9) OPERATOR(pg_catalog.||) pg_catalog.chr(92), '') OPERATOR(pg_catalog.=) raw
    AND pg_catalog.right(pattern, 1) OPERATOR(pg_catalog.=) '*' THEN
    RETURN COALESCE(row_value, 0) OPERATOR(pg_catalog.<=) pg_catalog.split_part(raw, '=', 2)::pg_catalog.int8;
  END IF;
  RETURN COALESCE(row_value, 0) OPERATOR(pg_catalog.<=) fence.row_token(pattern, bare);
END $body$;

-- What a row is stamped with that row_fits, in the same statement, has let through: the form of the setting is all that is
-- left to tell, for it is known to hold one token for the fence. A value without a comma that ends in = and digits is the
-- token of a name.
CREATE FUNCTION fence.row_fitting(pattern text, bare bool) RETURNS int8
LANGUAGE plpgsql STABLE AS $body$
DECLARE
  raw pg_catalog.text;
BEGIN
  IF pg_catalog.rtrim(pg_catalog.current_setting('fence.token', true), '0123456789') OPERATOR(pg_catalog.=) '' THEN
    RETURN pg_catalog.current_setting('fence.token', true)::pg_catalog.int8;
  END IF;
  raw := pg_catalog.current_setting('fence.token', true);
  IF pg_catalog.strpos(raw, ',') OPERATOR(pg_catalog.=) 0
    AND pg_catalog.right(pg_catalog.rtrim(raw, '0123456789'), 1) OPERATOR(pg_catalog.=) '=' THEN
    RETURN pg_catalog.split_part(raw, '=', 2)::pg_catalog.int8;
  END IF;
  RETURN fence.row_token(pattern, bare);
END $body$;

-- on_stale: reject. What a row is stamped with, ZF001 if a newer token has written it. What row_stamp is where the
-- session's token is known.
CREATE FUNCTION fence.row_claim(row_value int8, pattern text, bare bool) RETURNS int8
LANGUAGE plpgsql STABLE AS $body$
DECLARE
  raw pg_catalog.text := pg_catalog.current_setting('fence.token', true);
  v pg_catalog.int8;
BEGIN
  IF bare AND pg_catalog.rtrim(raw, '0123456789') OPERATOR(pg_catalog.=) '' AND raw OPERATOR(pg_catalog.<>) ''
    AND pg_catalog.length(raw) OPERATOR(pg_catalog.<=) 14 THEN
    v := raw::pg_catalog.int8;
  ELSIF pg_catalog.strpos(pattern, '*') OPERATOR(pg_catalog.=) 0 THEN
    IF pg_catalog.rtrim(raw, '0123456789') OPERATOR(pg_catalog.=) (pattern OPERATOR(pg_catalog.||) '=')
      AND pg_catalog.right(raw, 1) OPERATOR(pg_catalog.<>) '='
      AND pg_catalog.length(raw) OPERATOR(pg_catalog.-) pg_catalog.length(pattern) OPERATOR(pg_catalog.<=) 15 THEN
      v := pg_catalog.split_part(raw, '=', 2)::pg_catalog.int8;
    END IF;
  ELSIF raw OPERATOR(pg_catalog.^@) pg_catalog.rtrim(pattern, '*')
    AND pg_catalog.strpos(raw, '=') OPERATOR(pg_catalog.=) pg_catalog.length(pg_catalog.rtrim(raw, '0123456789'))
    AND pg_catalog.strpos(raw, '=') OPERATOR(pg_catalog.>) pg_catalog.length(pattern)
    AND pg_catalog.right(raw, 1) OPERATOR(pg_catalog.<>) '='
    AND pg_catalog.length(pg_catalog.split_part(raw, '=', 2)) OPERATOR(pg_catalog.<=) 14
    AND pg_catalog.translate(raw, ' ,"$*;''' OPERATOR(pg_catalog.||) pg_catalog.chr(9) OPERATOR(pg_catalog.||) pg_catalog.chr(92), '') OPERATOR(pg_catalog.=) raw
    AND pg_catalog.right(pattern, 1) OPERATOR(pg_catalog.=) '*' THEN
    v := pg_catalog.split_part(raw, '=', 2)::pg_catalog.int8;
  END IF;
  IF row_value OPERATOR(pg_catalog.<=) v THEN
    RETURN v;
  END IF;
  RETURN fence.row_stamp(row_value, COALESCE(v, fence.row_token(pattern, bare)), pattern);
END $body$;

-- The same for fences with a scope: template is jobs/{} and id the row's, so that the name of the token is known whole.
CREATE FUNCTION fence.row_scope_fits(row_value int8, template text, id text) RETURNS bool
LANGUAGE plpgsql STABLE AS $body$
DECLARE
  raw pg_catalog.text := pg_catalog.current_setting('fence.token', true);
BEGIN
  IF pg_catalog.rtrim(raw, '0123456789') OPERATOR(pg_catalog.=) (pg_catalog.replace(template, '{}', id) OPERATOR(pg_catalog.||) '=')
    AND pg_catalog.strpos(raw, '=') OPERATOR(pg_catalog.=) pg_catalog.length(pg_catalog.rtrim(raw, '0123456789'))
    AND pg_catalog.right(raw, 1) OPERATOR(pg_catalog.<>) '='
    AND pg_catalog.length(pg_catalog.split_part(raw, '=', 2)) OPERATOR(pg_catalog.<=) 14
    AND pg_catalog.translate(raw, ' ,"$*;''' OPERATOR(pg_catalog.||) pg_catalog.chr(9) OPERATOR(pg_catalog.||) pg_catalog.chr(92), '') OPERATOR(pg_catalog.=) raw THEN
    RETURN COALESCE(row_value, 0) OPERATOR(pg_catalog.<=) pg_catalog.split_part(raw, '=', 2)::pg_catalog.int8;
  END IF;
  RETURN COALESCE(row_value, 0) OPERATOR(pg_catalog.<=) fence.row_scoped(pg_catalog.replace(template, '{}', id));
END $body$;

CREATE FUNCTION fence.row_scope_fitting(template text, id text) RETURNS int8
LANGUAGE plpgsql STABLE AS $body$
DECLARE
  raw pg_catalog.text := pg_catalog.current_setting('fence.token', true);
BEGIN
  IF pg_catalog.strpos(raw, ',') OPERATOR(pg_catalog.=) 0
    AND pg_catalog.right(pg_catalog.rtrim(raw, '0123456789'), 1) OPERATOR(pg_catalog.=) '=' THEN
    RETURN pg_catalog.split_part(raw, '=', 2)::pg_catalog.int8;
  END IF;
  RETURN fence.row_scoped(pg_catalog.replace(template, '{}', id));
END $body$;

-- For a new row row_value is NULL.
CREATE FUNCTION fence.row_scope_claim(row_value int8, template text, id text) RETURNS int8
LANGUAGE plpgsql STABLE AS $body$
DECLARE
  raw pg_catalog.text := pg_catalog.current_setting('fence.token', true);
  v pg_catalog.int8;
BEGIN
  IF pg_catalog.rtrim(raw, '0123456789') OPERATOR(pg_catalog.=) (pg_catalog.replace(template, '{}', id) OPERATOR(pg_catalog.||) '=')
    AND pg_catalog.strpos(raw, '=') OPERATOR(pg_catalog.=) pg_catalog.length(pg_catalog.rtrim(raw, '0123456789'))
    AND pg_catalog.right(raw, 1) OPERATOR(pg_catalog.<>) '='
    AND pg_catalog.length(pg_catalog.split_part(raw, '=', 2)) OPERATOR(pg_catalog.<=) 14
    AND pg_catalog.translate(raw, ' ,"$*;''' OPERATOR(pg_catalog.||) pg_catalog.chr(9) OPERATOR(pg_catalog.||) pg_catalog.chr(92), '') OPERATOR(pg_catalog.=) raw THEN
    v := pg_catalog.split_part(raw, '=', 2)::pg_catalog.int8;
    IF (row_value OPERATOR(pg_catalog.>) v) IS NOT TRUE THEN
      RETURN v;
    END IF;
  END IF;
  RETURN fence.row_stamp(row_value, fence.row_scoped(pg_catalog.replace(template, '{}', id)),
    COALESCE(pg_catalog.replace(template, '{}', id), 'NULL'));
END $body$;

REVOKE ALL ON FUNCTION fence.row_fitting(text, bool), fence.row_claim(int8, text, bool), fence.row_scope_fits(int8, text, text),
  fence.row_scope_fitting(text, text), fence.row_scope_claim(int8, text, text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION fence.row_fitting(text, bool), fence.row_claim(int8, text, bool), fence.row_scope_fits(int8, text, text),
  fence.row_scope_fitting(text, text), fence.row_scope_claim(int8, text, text) TO PUBLIC;
