-- The hints of ZF002 name a token that the session could present: that of the fence which misses it, and of a pattern one
-- that it matches. A name with a * in it is refused.
CREATE OR REPLACE FUNCTION fence.missing(f text, bare text) RETURNS void
LANGUAGE plpgsql AS $body$
BEGIN
  RAISE EXCEPTION 'fence "%" requires a fencing token, and the session has none for it', f USING ERRCODE = 'ZF002',
    DETAIL = format('Fence "%s": no token in fence.token.', f), DATATYPE = coalesce(current_setting('fence.token', true), ''),
    HINT = CASE WHEN strpos(f, '*') > 0
      THEN format('Acquire the lock and present its token before the transaction, for example: SET fence.token = %L.', replace(f, '*', '42') || '=34')
      ELSE format('Acquire the lock and present its token before the transaction: SET fence.token = %L.', CASE WHEN f = bare THEN '' ELSE f || '=' END || '34') END;
END $body$;

CREATE OR REPLACE FUNCTION fence.row_missing(f text) RETURNS void
LANGUAGE plpgsql AS $body$
DECLARE
  name pg_catalog.text := CASE WHEN f OPERATOR(pg_catalog.=) 'NULL' THEN 'jobs/42' ELSE pg_catalog.replace(f, '*', '42') END;
BEGIN
  RAISE EXCEPTION 'fence "%" requires a fencing token, and the session has none for it', f USING ERRCODE = 'ZF002',
    DETAIL = pg_catalog.format('Fence "%s": no token in fence.token.', f),
    HINT = pg_catalog.format('Acquire the lock and present its token before the transaction, for example: SET fence.token = %L.', name OPERATOR(pg_catalog.||) '=34');
END $body$;
