-- Row tokens: what a statement that fenceproxy has spliced calls. A row's token is one int8, epoch * 2^48 + counter, so
-- that it orders as tokens do and that of epoch 0 reads as the counter.
--
-- Tokens are read from the session's setting when the statement runs, never when it is planned: nothing here is IMMUTABLE.
-- A pattern is the name of a fence, or one with a * that stands for any text but none: jobs/* is the fence of jobs/42.
-- Those that run for each row have no SET clause and are not SECURITY DEFINER, for speed: every name in them is qualified.

-- The token of a row as text.
CREATE FUNCTION fence.row_text(value int8) RETURNS text
LANGUAGE sql IMMUTABLE AS $body$
  SELECT CASE WHEN $1 OPERATOR(pg_catalog.>>) 48 OPERATOR(pg_catalog.=) 0 THEN ''
    ELSE ($1 OPERATOR(pg_catalog.>>) 48)::pg_catalog.text OPERATOR(pg_catalog.||) '.' END
    OPERATOR(pg_catalog.||) ($1 OPERATOR(pg_catalog.&) 281474976710655)::pg_catalog.text
$body$;

CREATE FUNCTION fence.row_value(e int8, c int8, f text) RETURNS int8
LANGUAGE plpgsql IMMUTABLE AS $body$
BEGIN
  IF e OPERATOR(pg_catalog.>=) 32768 OR c OPERATOR(pg_catalog.>=) 281474976710656 THEN
    RAISE EXCEPTION 'token %.% of fence "%" is too large for a row token', e, c, f USING ERRCODE = 'ZF003',
      HINT = 'Row tokens hold epochs below 2^15 and counters below 2^48.';
  END IF;
  RETURN (e OPERATOR(pg_catalog.<<) 48) OPERATOR(pg_catalog.|) c;
END $body$;

CREATE FUNCTION fence.row_matches(pattern text, name text) RETURNS bool
LANGUAGE plpgsql IMMUTABLE AS $body$
DECLARE
  star pg_catalog.int4 := pg_catalog.strpos(pattern, '*');
BEGIN
  IF star OPERATOR(pg_catalog.=) 0 THEN
    RETURN pattern OPERATOR(pg_catalog.=) name;
  END IF;
  RETURN pg_catalog.length(name) OPERATOR(pg_catalog.>=) pg_catalog.length(pattern)
    AND pg_catalog.left(name, star OPERATOR(pg_catalog.-) 1) OPERATOR(pg_catalog.=) pg_catalog.left(pattern, star OPERATOR(pg_catalog.-) 1)
    AND pg_catalog.right(name, pg_catalog.length(pattern) OPERATOR(pg_catalog.-) star)
      OPERATOR(pg_catalog.=) pg_catalog.substr(pattern, star OPERATOR(pg_catalog.+) 1);
END $body$;

-- The value of the session's one token for the pattern; bare: a token without a name is for it too. NULL without one.
CREATE FUNCTION fence.row_token_of(pattern text, bare bool) RETURNS int8
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $body$
DECLARE
  p record;
  found_at int4;
  i int4;
BEGIN
  p := fence.parse(current_setting('fence.token', true));
  FOR i IN 1 .. cardinality(p.names) LOOP
    IF (CASE WHEN p.names[i] = '' THEN bare ELSE fence.row_matches(pattern, p.names[i]) END) THEN
      IF found_at IS NOT NULL THEN
        RAISE EXCEPTION 'fence.token has more than one token for fence "%"', pattern USING ERRCODE = 'ZF003',
          DETAIL = format('Both "%s" and "%s" are for it, and a row has one token.', p.names[found_at], p.names[i]),
          HINT = 'Present one of them, or give the fence a scope that tells which row is whose.';
      END IF;
      found_at := i;
    END IF;
  END LOOP;
  IF found_at IS NULL THEN
    RETURN NULL;
  END IF;
  RETURN fence.row_value(p.epochs[found_at], p.counters[found_at], pattern);
END $body$;

-- As row_token_of; without a parser when the setting is a single token in its plain form.
CREATE FUNCTION fence.row_find(pattern text, bare bool) RETURNS int8
LANGUAGE plpgsql STABLE AS $body$
DECLARE
  raw pg_catalog.text := pg_catalog.current_setting('fence.token', true);
  digits pg_catalog.text := raw;
  i pg_catalog.int4 := pg_catalog.strpos(raw, '=');
BEGIN
  IF i OPERATOR(pg_catalog.>) 0 THEN
    digits := pg_catalog.substr(raw, i OPERATOR(pg_catalog.+) 1);
  END IF;
  IF pg_catalog.length(digits) OPERATOR(pg_catalog.<=) 14 AND digits OPERATOR(pg_catalog.<>) ''
    AND pg_catalog.translate(digits, '0123456789', '') OPERATOR(pg_catalog.=) ''
    AND (CASE WHEN i OPERATOR(pg_catalog.=) 0 THEN bare
      ELSE fence.row_matches(pattern, pg_catalog.left(raw, i OPERATOR(pg_catalog.-) 1))
        AND pg_catalog.translate(pg_catalog.left(raw, i OPERATOR(pg_catalog.-) 1), ' ,''"' OPERATOR(pg_catalog.||) pg_catalog.chr(9), '')
          OPERATOR(pg_catalog.=) pg_catalog.left(raw, i OPERATOR(pg_catalog.-) 1) END) THEN
    RETURN digits::pg_catalog.int8;
  END IF;
  RETURN fence.row_token_of(pattern, bare);
END $body$;

CREATE FUNCTION fence.row_missing(f text) RETURNS void
LANGUAGE plpgsql AS $body$
BEGIN
  RAISE EXCEPTION 'fence "%" requires a fencing token, and the session has none for it', f USING ERRCODE = 'ZF002',
    DETAIL = pg_catalog.format('Fence "%s": no token in fence.token.', f),
    HINT = 'Acquire the lock and present its token before the transaction, for example: SET fence.token = ''jobs/42=34''.';
END $body$;

-- What a spliced statement stamps rows with: the value of the session's token, ZF002 without one. A lone bare token is
-- read here, for a bulk INSERT calls this once for each row.
CREATE FUNCTION fence.row_token(pattern text, bare bool) RETURNS int8
LANGUAGE plpgsql STABLE AS $body$
DECLARE
  raw pg_catalog.text := pg_catalog.current_setting('fence.token', true);
  v pg_catalog.int8;
BEGIN
  IF bare AND pg_catalog.length(raw) OPERATOR(pg_catalog.<=) 14 AND raw OPERATOR(pg_catalog.<>) ''
    AND pg_catalog.translate(raw, '0123456789', '') OPERATOR(pg_catalog.=) '' THEN
    RETURN raw::pg_catalog.int8;
  END IF;
  v := fence.row_find(pattern, bare);
  IF v IS NULL THEN
    PERFORM fence.row_missing(pattern);
  END IF;
  RETURN v;
END $body$;

-- The same as the default of a column: 0 without a token. COPY takes it, and whatever writes past the proxy.
CREATE FUNCTION fence.row_default(pattern text, bare bool) RETURNS int8
LANGUAGE plpgsql STABLE AS $body$
BEGIN
  RETURN COALESCE(fence.row_find(pattern, bare), 0);
END $body$;

CREATE FUNCTION fence.row_stale(row_value int8, token int8, f text) RETURNS void
LANGUAGE plpgsql AS $body$
BEGIN
  RAISE EXCEPTION 'stale fencing token for fence "%": a row was written with token %, and the session has %',
    f, fence.row_text(row_value), fence.row_text(token) USING ERRCODE = 'ZF001',
    DETAIL = pg_catalog.format('Fence "%s": token of the session %s, token of the row %s.', f, fence.row_text(token), fence.row_text(row_value)),
    HINT = 'Another holder has taken over. Stop this work and acquire the lock again; do not retry with this token.';
END $body$;

-- on_stale: reject. row_stamp stands in SET, where it is evaluated for the rows that are to be written and, after a wait
-- for another writer, again for their newest version (execMain.c EvalPlanQual); row_check where DELETE and MERGE decide.
CREATE FUNCTION fence.row_stamp(row_value int8, token int8, f text) RETURNS int8
LANGUAGE plpgsql STABLE AS $body$
BEGIN
  IF row_value OPERATOR(pg_catalog.>) token THEN
    PERFORM fence.row_stale(row_value, token, f);
  ELSIF token IS NULL THEN
    PERFORM fence.row_missing(f);
  END IF;
  RETURN token;
END $body$;

CREATE FUNCTION fence.row_check(row_value int8, token int8, f text) RETURNS bool
LANGUAGE plpgsql STABLE AS $body$
BEGIN
  RETURN fence.row_stamp(row_value, token, f) IS NOT NULL;
END $body$;

-- Scopes. The template jobs/{id} and the row's id give the name of the fence whose token the row wants.
CREATE FUNCTION fence.row_scope(template text, id text) RETURNS text
LANGUAGE sql IMMUTABLE AS $body$
  SELECT pg_catalog.left($1, pg_catalog.strpos($1, '{') OPERATOR(pg_catalog.-) 1) OPERATOR(pg_catalog.||) $2
    OPERATOR(pg_catalog.||) pg_catalog.substr($1, pg_catalog.strpos($1, '}') OPERATOR(pg_catalog.+) 1)
$body$;

-- The value of the session's token of exactly this name; NULL without one: the row is another holder's.
CREATE FUNCTION fence.row_scoped(f text) RETURNS int8
LANGUAGE plpgsql STABLE AS $body$
BEGIN
  IF pg_catalog.strpos(f, '*') OPERATOR(pg_catalog.>) 0 THEN
    RETURN NULL;
  END IF;
  RETURN fence.row_find(f, false);
END $body$;

-- What a new row of the scope is stamped with.
CREATE FUNCTION fence.row_new(f text) RETURNS int8
LANGUAGE plpgsql STABLE AS $body$
DECLARE
  v pg_catalog.int8 := fence.row_scoped(f);
BEGIN
  IF v IS NULL THEN
    PERFORM fence.row_missing(COALESCE(f, 'NULL'));
  END IF;
  RETURN v;
END $body$;

-- The guard of a fence that is a pattern: guards every token of the session whose name matches, in the order of all guards.
-- A token without a name is for it if bare is the pattern. named: only tokens with a name count, and a session without one
-- passes: what is about to create rows under on_stale: rewrite. Returns the raw token text that was checked.
CREATE FUNCTION fence.guard_pattern(pattern text, bare text, named bool) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $body$
DECLARE
  raw text := current_setting('fence.token', true);
  p record;
  i int4;
  guarded bool := false;
BEGIN
  IF coalesce(pattern, '') = '' THEN
    RAISE EXCEPTION 'guard without a fence' USING ERRCODE = 'ZF005';
  END IF;
  p := fence.parse(raw);
  FOR i IN SELECT n FROM generate_subscripts(p.names, 1) n ORDER BY p.names[n] COLLATE "C" LOOP
    IF p.names[i] <> '' AND fence.row_matches(pattern, p.names[i]) THEN
      PERFORM fence.guard_one(p.names[i], p.epochs[i], p.counters[i]);
      guarded := true;
    END IF;
  END LOOP;
  IF guarded OR named THEN
    RETURN raw;
  END IF;
  IF strpos(pattern, '*') = 0 THEN
    RETURN fence.guard(ARRAY[pattern], bare);
  END IF;
  IF '' = ANY (p.names) AND bare = pattern THEN
    RAISE EXCEPTION 'the fencing token does not name its fence' USING ERRCODE = 'ZF003',
      DETAIL = format('Fence "%s" is one for each name that matches it.', pattern),
      HINT = 'Name the fence that the lock is for: SET fence.token = ''jobs/42=34''.';
  END IF;
  PERFORM fence.missing(pattern, '');
END $body$;

REVOKE ALL ON FUNCTION fence.row_text(int8), fence.row_value(int8, int8, text), fence.row_matches(text, text), fence.row_token_of(text, bool),
  fence.row_find(text, bool), fence.row_missing(text), fence.row_token(text, bool), fence.row_default(text, bool),
  fence.row_stale(int8, int8, text), fence.row_stamp(int8, int8, text), fence.row_check(int8, int8, text), fence.row_scope(text, text),
  fence.row_scoped(text), fence.row_new(text), fence.guard_pattern(text, text, bool) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION fence.row_text(int8), fence.row_matches(text, text), fence.row_token_of(text, bool),
  fence.row_find(text, bool), fence.row_missing(text), fence.row_token(text, bool), fence.row_default(text, bool),
  fence.row_stale(int8, int8, text), fence.row_stamp(int8, int8, text), fence.row_check(int8, int8, text), fence.row_scope(text, text),
  fence.row_scoped(text), fence.row_new(text), fence.guard_pattern(text, text, bool) TO PUBLIC;
