-- What a row of a fence with a scope is given by (013): template is jobs/{} and id the row's. The name of the token is
-- compared as the bytes that it is, whatever the column's collation: for a nondeterministic one jobs/A would be jobs/a, or
-- PostgreSQL would not search it at all (before 18: varlena.c text_position_setup).
CREATE OR REPLACE FUNCTION fence.row_scope_fits(row_value int8, template text, id text) RETURNS bool
LANGUAGE plpgsql STABLE AS $body$
DECLARE
  raw pg_catalog.text COLLATE pg_catalog."C" := pg_catalog.current_setting('fence.token', true);
BEGIN
  IF pg_catalog.rtrim(raw, '0123456789') OPERATOR(pg_catalog.=) (pg_catalog.replace(template, '{}', id COLLATE pg_catalog."C") OPERATOR(pg_catalog.||) '=')
    AND pg_catalog.strpos(raw, '=') OPERATOR(pg_catalog.=) pg_catalog.length(pg_catalog.rtrim(raw, '0123456789'))
    AND pg_catalog.right(raw, 1) OPERATOR(pg_catalog.<>) '='
    AND pg_catalog.length(pg_catalog.split_part(raw, '=', 2)) OPERATOR(pg_catalog.<=) 14
    AND pg_catalog.translate(raw, ' ,"$*;''' OPERATOR(pg_catalog.||) pg_catalog.chr(9) OPERATOR(pg_catalog.||) pg_catalog.chr(92), '') OPERATOR(pg_catalog.=) raw THEN
    RETURN COALESCE(row_value, 0) OPERATOR(pg_catalog.<=) pg_catalog.split_part(raw, '=', 2)::pg_catalog.int8;
  END IF;
  RETURN COALESCE(row_value, 0) OPERATOR(pg_catalog.<=) fence.row_scoped(pg_catalog.replace(template, '{}', id COLLATE pg_catalog."C"));
END $body$;

CREATE OR REPLACE FUNCTION fence.row_scope_fitting(template text, id text) RETURNS int8
LANGUAGE plpgsql STABLE AS $body$
DECLARE
  raw pg_catalog.text COLLATE pg_catalog."C" := pg_catalog.current_setting('fence.token', true);
BEGIN
  IF pg_catalog.strpos(raw, ',') OPERATOR(pg_catalog.=) 0
    AND pg_catalog.right(pg_catalog.rtrim(raw, '0123456789'), 1) OPERATOR(pg_catalog.=) '=' THEN
    RETURN pg_catalog.split_part(raw, '=', 2)::pg_catalog.int8;
  END IF;
  RETURN fence.row_scoped(pg_catalog.replace(template, '{}', id COLLATE pg_catalog."C"));
END $body$;

-- For a new row row_value is NULL.
CREATE OR REPLACE FUNCTION fence.row_scope_claim(row_value int8, template text, id text) RETURNS int8
LANGUAGE plpgsql STABLE AS $body$
DECLARE
  raw pg_catalog.text COLLATE pg_catalog."C" := pg_catalog.current_setting('fence.token', true);
  v pg_catalog.int8;
BEGIN
  IF pg_catalog.rtrim(raw, '0123456789') OPERATOR(pg_catalog.=) (pg_catalog.replace(template, '{}', id COLLATE pg_catalog."C") OPERATOR(pg_catalog.||) '=')
    AND pg_catalog.strpos(raw, '=') OPERATOR(pg_catalog.=) pg_catalog.length(pg_catalog.rtrim(raw, '0123456789'))
    AND pg_catalog.right(raw, 1) OPERATOR(pg_catalog.<>) '='
    AND pg_catalog.length(pg_catalog.split_part(raw, '=', 2)) OPERATOR(pg_catalog.<=) 14
    AND pg_catalog.translate(raw, ' ,"$*;''' OPERATOR(pg_catalog.||) pg_catalog.chr(9) OPERATOR(pg_catalog.||) pg_catalog.chr(92), '') OPERATOR(pg_catalog.=) raw THEN
    v := pg_catalog.split_part(raw, '=', 2)::pg_catalog.int8;
    IF (row_value OPERATOR(pg_catalog.>) v) IS NOT TRUE THEN
      RETURN v;
    END IF;
  END IF;
  RETURN fence.row_stamp(row_value, fence.row_scoped(pg_catalog.replace(template, '{}', id COLLATE pg_catalog."C")),
    COALESCE(pg_catalog.replace(template, '{}', id COLLATE pg_catalog."C"), 'NULL'));
END $body$;
