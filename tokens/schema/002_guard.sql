-- The guard: is the session's token the mark, now and until the transaction ends?
--
-- It takes a shared advisory lock, which a raise waits for, and reads the mark in the next statement. In READ COMMITTED
-- that statement's snapshot is newer than the lock, so what it reads is the mark. Above, the snapshot may be old; the
-- version it shows is the newest one if nobody has updated it (xmax = 0), since raisers are kept out by the lock. Else
-- FOR SHARE lets PostgreSQL decide: 40001 if the mark really changed.
-- A mark that knows the timeline it was raised on holds on that timeline only: a standby that is promoted without its
-- primary's last commits has lost the newest marks with them, and a token that was stale already would be the mark again.
-- A guard never raises, writes nothing (but that FOR SHARE), and works in READ ONLY and on a standby.
--
-- No backslash in any body: it would mean something else to a session with standard_conforming_strings off.

CREATE FUNCTION fence.malformed(problem text, part text) RETURNS void
LANGUAGE plpgsql AS $body$
BEGIN
  RAISE EXCEPTION '%: "%"', problem, regexp_replace(left(part, 100), '[^ -~]', '?', 'g') || CASE WHEN length(part) > 100 THEN '...' ELSE '' END
    USING ERRCODE = 'ZF003',
    HINT = 'fence.token is a list of [name=][epoch.]counter, separated by commas, for example 34 or billing=34,jobs/42=1.7.';
END $body$;

-- The grammar of fence.token, as package tokens has it. A bare token has the name ''. No regular expression: one match
-- costs more than the whole guard.
CREATE FUNCTION fence.parse(raw text, OUT names text[], OUT epochs int8[], OUT counters int8[])
LANGUAGE plpgsql IMMUTABLE AS $body$
DECLARE
  blanks CONSTANT text := ' ' || chr(9);
  item text;
  name text;
  e text;
  c text;
  i int4;
BEGIN
  names := '{}'; epochs := '{}'; counters := '{}';
  IF raw IS NULL OR btrim(raw, blanks) = '' THEN
    RETURN;
  END IF;
  IF octet_length(raw) > 8192 THEN
    PERFORM fence.malformed('fence.token is too long', raw);
  END IF;
  FOREACH item IN ARRAY string_to_array(raw, ',') LOOP
    item := btrim(item, blanks);
    name := '';
    c := item;
    i := strpos(item, '=');
    IF i > 0 THEN
      name := rtrim(left(item, i - 1), blanks);
      c := ltrim(substr(item, i + 1), blanks);
      IF name = '' OR length(name) > 200
        OR translate(name, 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789!#%&()+-./:<>?@[]^_`{|}~', '') <> '' THEN
        PERFORM fence.malformed('malformed fencing token', item);
      END IF;
    END IF;
    e := '0';
    i := strpos(c, '.');
    IF i > 0 THEN
      e := left(c, i - 1);
      c := substr(c, i + 1);
    END IF;
    IF e = '' OR c = '' OR translate(e || c, '0123456789', '') <> '' THEN
      PERFORM fence.malformed('malformed fencing token', item);
    END IF;
    IF length(e) > 19 OR length(c) > 19
      OR length(e) = 19 AND e > '9223372036854775807' COLLATE "C" OR length(c) = 19 AND c > '9223372036854775807' COLLATE "C" THEN
      PERFORM fence.malformed('fencing token out of range', item);
    END IF;
    IF name = ANY (names) THEN
      IF name = '' THEN
        RAISE EXCEPTION 'fence.token has more than one token without a name' USING ERRCODE = 'ZF003';
      END IF;
      RAISE EXCEPTION 'fence.token has more than one token for fence "%"', left(name, 100) || CASE WHEN length(name) > 100 THEN '...' ELSE '' END
        USING ERRCODE = 'ZF003';
    END IF;
    names := names || name;
    epochs := epochs || e::int8;
    counters := counters || c::int8;
  END LOOP;
END $body$;

CREATE FUNCTION fence.stale(fence_name text, e int8, c int8, mark_epoch int8, mark_token int8, holder text, since timestamptz)
RETURNS void LANGUAGE plpgsql AS $body$
BEGIN
  RAISE EXCEPTION 'stale fencing token for fence "%": % is lower than the mark %',
    fence_name, fence.token_text(e, c), fence.token_text(mark_epoch, mark_token)
    USING ERRCODE = 'ZF001',
    DETAIL = format('Fence "%s": token of the session %s, mark %s since %s, holder %s.', fence_name,
      fence.token_text(e, c), fence.token_text(mark_epoch, mark_token),
      to_char(since AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.MS "UTC"'), coalesce('"' || holder || '"', 'unknown')),
    HINT = 'Another holder has taken over. Stop this work and acquire the lock again; do not retry with this token.';
END $body$;

-- xlogfuncs.c pg_walfile_name: the timeline that new WAL is inserted on. pg_control_checkpoint() would lag behind until the
-- first checkpoint after a promotion.
CREATE FUNCTION fence.timeline() RETURNS text
LANGUAGE sql VOLATILE AS $body$
  SELECT left(pg_walfile_name(pg_current_wal_insert_lsn()), 8)
$body$;

-- The errors that may be the fault of a name in the list carry the list in their datatype field: the caller knows which
-- names there are.

-- One fence. Locks it for the rest of the transaction; returns only when e.c is the mark.
CREATE FUNCTION fence.guard_one(f text, e int8, c int8) RETURNS void
LANGUAGE plpgsql AS $body$
DECLARE
  m record;
  mark_id int4;
BEGIN
  SELECT k.id INTO mark_id FROM fence.mark k WHERE k.name = f;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'token % of fence "%" was never announced', fence.token_text(e, c), f USING ERRCODE = 'ZF006', DATATYPE = coalesce(current_setting('fence.token', true), ''),
      DETAIL = format('Fence "%s": token of the session %s, and the fence has no mark yet.', f, fence.token_text(e, c)),
      HINT = 'Present the token before the transaction begins (at connect or by SET), through fenceproxy, which announces it.';
  END IF;
  PERFORM pg_advisory_xact_lock_shared(1178947139, mark_id);
  SELECT k.epoch, k.token, k.holder, k.raised_at, k.timeline, k.xmax <> '0'::xid AS touched INTO m FROM fence.mark k WHERE k.id = mark_id;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'the mark of fence "%" is gone', f USING ERRCODE = 'ZF005';
  END IF;
  IF (e, c) < (m.epoch, m.token) THEN
    PERFORM fence.stale(f, e, c, m.epoch, m.token, m.holder, m.raised_at);
  END IF;
  IF m.touched AND current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
    IF current_setting('transaction_read_only') = 'on' THEN   -- FOR SHARE would be refused here
      RAISE EXCEPTION 'could not tell whether fence "%" was taken over after this transaction began', f
        USING ERRCODE = '40001', HINT = 'Retry the transaction.';
    END IF;
    PERFORM 1 FROM fence.mark k WHERE k.id = mark_id FOR SHARE;
  END IF;
  IF (e, c) > (m.epoch, m.token) THEN
    RAISE EXCEPTION 'token % of fence "%" was never announced', fence.token_text(e, c), f USING ERRCODE = 'ZF006', DATATYPE = coalesce(current_setting('fence.token', true), ''),
      DETAIL = format('Fence "%s": token of the session %s, mark %s since %s.', f, fence.token_text(e, c),
        fence.token_text(m.epoch, m.token), to_char(m.raised_at AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.MS "UTC"')),
      HINT = 'Present the token before the transaction begins (at connect or by SET), through fenceproxy, which announces it.';
  END IF;
  IF m.timeline IS NOT NULL AND NOT pg_is_in_recovery() THEN
    IF m.timeline <> fence.timeline() THEN
      RAISE EXCEPTION 'stale fencing token for fence "%": % was issued before this server was promoted', f, fence.token_text(e, c)
        USING ERRCODE = 'ZF001',
        DETAIL = format('Fence "%s": token of the session %s, of timeline %s; the server is on timeline %s.', f,
          fence.token_text(e, c), m.timeline, fence.timeline()),
        HINT = 'Newer tokens may have been lost with the old server. Stop this work and acquire the lock again; do not retry with this token.';
    END IF;
  END IF;
END $body$;

CREATE FUNCTION fence.missing(f text, bare text) RETURNS void
LANGUAGE plpgsql AS $body$
BEGIN
  RAISE EXCEPTION 'fence "%" requires a fencing token, and the session has none for it', f USING ERRCODE = 'ZF002',
    DETAIL = format('Fence "%s": no token in fence.token.', f), DATATYPE = coalesce(current_setting('fence.token', true), ''),
    HINT = format('Acquire the lock and present its token before the transaction: SET fence.token = ''%s34''.',
      CASE WHEN f = bare THEN '' ELSE f || '=' END);
END $body$;

-- Guards all the fences; bare is the fence that a token without a name is for, '' for none. Returns the raw token
-- text that was checked.
CREATE FUNCTION fence.guard(fences text[], bare text) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $body$
DECLARE
  raw text := current_setting('fence.token', true);
  p record;
  f text;
  i int4;
  j int4;
BEGIN
  IF coalesce(cardinality(fences), 0) = 0 OR array_position(fences, NULL) IS NOT NULL THEN
    RAISE EXCEPTION 'guard without a fence' USING ERRCODE = 'ZF005';
  END IF;
  p := fence.parse(raw);
  IF cardinality(fences) > 1 THEN   -- one order for all sessions
    SELECT array_agg(DISTINCT x COLLATE "C" ORDER BY x COLLATE "C") INTO fences FROM unnest(fences) x;
  END IF;
  FOREACH f IN ARRAY fences LOOP
    i := CASE WHEN f <> '' THEN array_position(p.names, f) END;
    j := CASE WHEN f <> '' AND f = bare THEN array_position(p.names, '') END;
    IF i IS NOT NULL AND j IS NOT NULL THEN
      RAISE EXCEPTION 'fence.token has more than one token for fence "%"', f USING ERRCODE = 'ZF003';
    END IF;
    i := coalesce(i, j);
    IF i IS NULL THEN
      PERFORM fence.missing(f, bare);
    END IF;
    PERFORM fence.guard_one(f, p.epochs[i], p.counters[i]);
  END LOOP;
  RETURN raw;
END $body$;

-- Guards every fence that the session has a token for: before code that may write anything. Without a token it refuses
-- unless tokenless.
CREATE FUNCTION fence.guard_session(bare text, tokenless bool) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $body$
DECLARE
  raw text := current_setting('fence.token', true);
  p record;
BEGIN
  p := fence.parse(raw);
  IF cardinality(p.names) = 0 THEN
    IF tokenless THEN
      RETURN raw;
    END IF;
    RAISE EXCEPTION 'a fencing token is required, and the session has none' USING ERRCODE = 'ZF002',
      HINT = 'Acquire the lock and present its token before the transaction: SET fence.token = ''34''.';
  END IF;
  IF '' = ANY (p.names) AND coalesce(bare, '') = '' THEN
    RAISE EXCEPTION 'the fencing token does not name its fence' USING ERRCODE = 'ZF003',
      DETAIL = 'Several fences are configured, and none of them is the one that bare tokens are for.',
      HINT = 'Name the fence: SET fence.token = ''billing=34''.';
  END IF;
  IF cardinality(p.names) = 1 THEN
    PERFORM fence.guard_one(CASE WHEN p.names[1] = '' THEN bare ELSE p.names[1] END, p.epochs[1], p.counters[1]);
    RETURN raw;
  END IF;
  RETURN fence.guard(array_replace(p.names, '', bare), bare);
END $body$;

-- The fast form for one fence, for callers who have parsed raw and know the mark's id. Whatever they got wrong sends
-- them to fence.guard: nothing of theirs is taken on trust, the parse neither (the last condition: the list has an item
-- that reads fence=epoch.counter, or the bare token when bare is this fence). No SET clause and no SECURITY DEFINER,
-- which cost more than the check; hence every name is qualified, operators too. The lock is taken in an IF because
-- PL/pgSQL evaluates that without a query of its own.
CREATE FUNCTION fence.guard1(name text, id int4, raw text, epoch int8, counter int8, bare text) RETURNS text
LANGUAGE plpgsql AS $body$
DECLARE
  item pg_catalog.text := counter;
BEGIN
  IF epoch OPERATOR(pg_catalog.<>) 0 THEN
    item := epoch::pg_catalog.text OPERATOR(pg_catalog.||) '.' OPERATOR(pg_catalog.||) item;
  END IF;
  IF pg_catalog.pg_advisory_xact_lock_shared(1178947139, id) IS NOT NULL THEN
    PERFORM 1 FROM fence.mark m
      WHERE m.id OPERATOR(pg_catalog.=) guard1.id AND m.name OPERATOR(pg_catalog.=) guard1.name
        AND m.token OPERATOR(pg_catalog.=) guard1.counter AND m.epoch OPERATOR(pg_catalog.=) guard1.epoch
        AND pg_catalog.current_setting('fence.token', true) OPERATOR(pg_catalog.=) guard1.raw
        AND (m.xmax OPERATOR(pg_catalog.=) '0'::pg_catalog.xid
          OR pg_catalog.current_setting('transaction_isolation') OPERATOR(pg_catalog.=) 'read committed')
        AND (m.timeline IS NULL OR CASE WHEN pg_catalog.pg_is_in_recovery() THEN true
          ELSE m.timeline OPERATOR(pg_catalog.=) pg_catalog.left(pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_insert_lsn()), 8) END)
        AND CASE
          WHEN guard1.raw OPERATOR(pg_catalog.=) item THEN guard1.bare OPERATOR(pg_catalog.=) guard1.name
          ELSE pg_catalog.strpos(',' OPERATOR(pg_catalog.||) guard1.raw OPERATOR(pg_catalog.||) ',',
              ',' OPERATOR(pg_catalog.||) guard1.name OPERATOR(pg_catalog.||) '=' OPERATOR(pg_catalog.||) item OPERATOR(pg_catalog.||) ',') OPERATOR(pg_catalog.>) 0
            OR guard1.bare OPERATOR(pg_catalog.=) guard1.name
              AND pg_catalog.strpos(',' OPERATOR(pg_catalog.||) guard1.raw OPERATOR(pg_catalog.||) ',',
                ',' OPERATOR(pg_catalog.||) item OPERATOR(pg_catalog.||) ',') OPERATOR(pg_catalog.>) 0
        END;
    IF FOUND THEN
      RETURN raw;
    END IF;
  END IF;
  RETURN fence.guard(ARRAY[name], bare);
END $body$;

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA fence FROM PUBLIC;
GRANT EXECUTE ON FUNCTION fence.guard(text[], text), fence.guard_session(text, bool),
  fence.guard1(text, int4, text, int8, int8, text) TO PUBLIC;
