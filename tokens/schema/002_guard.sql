-- The guard: is the session's token the mark, now and until the transaction ends?
--
-- It takes a shared advisory lock, which a raise waits for, and reads the mark in the next statement. In READ COMMITTED
-- that statement's snapshot is newer than the lock, so what it reads is the mark. Above, the snapshot may be old; the
-- version it shows is the newest one if nobody has updated it (xmax = 0), since raisers are kept out by the lock. Else
-- FOR SHARE lets PostgreSQL decide: 40001 if the mark really changed.
-- A guard never raises, writes nothing (but that FOR SHARE), and works in READ ONLY and on a standby.
--
-- No backslash in any body: it would mean something else to a session with standard_conforming_strings off.

-- The grammar of fence.token, as package tokens has it. A bare token has the name ''.
CREATE FUNCTION fence.parse(raw text, OUT names text[], OUT epochs int8[], OUT counters int8[])
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $body$
DECLARE
  blanks CONSTANT text := ' ' || chr(9);
  hint CONSTANT text := 'fence.token is a list of [name=][epoch.]counter, separated by commas, for example 34 or billing=34,jobs/42=1.7.';
  item text;
  m text[];
  shown text;
BEGIN
  names := '{}'; epochs := '{}'; counters := '{}';
  IF raw IS NULL OR btrim(raw, blanks) = '' THEN
    RETURN;
  END IF;
  IF raw ~ '^[0-9]+$' AND length(raw) <= 18 THEN   -- the common case, without the costly expression below
    names := ARRAY['']; epochs := ARRAY[0]; counters := ARRAY[raw::int8];
    RETURN;
  END IF;
  IF octet_length(raw) > 8192 THEN
    RAISE EXCEPTION 'fence.token is too long: "%..."', regexp_replace(left(raw, 100), '[^ -~]', '?', 'g') USING ERRCODE = 'ZF003', HINT = hint;
  END IF;
  FOREACH item IN ARRAY string_to_array(raw, ',') LOOP
    item := btrim(item, blanks);
    -- no bounded repeats: {1,200} costs 100 us a match
    m := regexp_match(item, '^(?:([][!#%&()+./0-9:<>?@A-Z^_`a-z{|}~-]+)[ ' || chr(9) || ']*=[ ' || chr(9) || ']*)?(?:([0-9]+)[.])?([0-9]+)$');
    shown := regexp_replace(left(item, 100), '[^ -~]', '?', 'g') || CASE WHEN length(item) > 100 THEN '...' ELSE '' END;
    IF m IS NULL OR length(m[1]) > 200 THEN
      RAISE EXCEPTION 'malformed fencing token: "%"', shown USING ERRCODE = 'ZF003', HINT = hint;
    END IF;
    IF length(m[2]) > 19 OR length(m[3]) > 19 OR m[2]::numeric > 9223372036854775807 OR m[3]::numeric > 9223372036854775807 THEN
      RAISE EXCEPTION 'fencing token out of range: "%"', shown USING ERRCODE = 'ZF003', HINT = hint;
    END IF;
    IF coalesce(m[1], '') = ANY (names) THEN
      IF m[1] IS NULL THEN
        RAISE EXCEPTION 'fence.token has more than one token without a name' USING ERRCODE = 'ZF003';
      END IF;
      RAISE EXCEPTION 'fence.token has more than one token for fence "%"', left(m[1], 100) USING ERRCODE = 'ZF003';
    END IF;
    names := names || coalesce(m[1], '');
    epochs := epochs || coalesce(m[2], '0')::int8;
    counters := counters || m[3]::int8;
  END LOOP;
END $body$;

CREATE FUNCTION fence.stale(fence_name text, e int8, c int8, mark_epoch int8, mark_token int8, holder text, since timestamptz)
RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
BEGIN
  RAISE EXCEPTION 'stale fencing token for fence "%": % is lower than the mark %',
    fence_name, fence.token_text(e, c), fence.token_text(mark_epoch, mark_token)
    USING ERRCODE = 'ZF001',
    DETAIL = format('Fence "%s": token of the session %s, mark %s since %s, holder %s.', fence_name,
      fence.token_text(e, c), fence.token_text(mark_epoch, mark_token),
      to_char(since AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.MS "UTC"'), coalesce('"' || holder || '"', 'unknown')),
    HINT = 'Another holder has taken over. Stop this work and acquire the lock again; do not retry with this token.';
END $body$;

-- One fence. Locks it for the rest of the transaction; returns only when e.c is the mark.
CREATE FUNCTION fence.guard_one(f text, e int8, c int8) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
DECLARE
  m record;
  mark_id int4;
BEGIN
  SELECT k.id INTO mark_id FROM fence.mark k WHERE k.name = f;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'token % of fence "%" was never announced', fence.token_text(e, c), f USING ERRCODE = 'ZF006',
      DETAIL = format('Fence "%s": token of the session %s, and the fence has no mark yet.', f, fence.token_text(e, c)),
      HINT = 'Present the token before the transaction begins (at connect or by SET), through fenceproxy, which announces it.';
  END IF;
  PERFORM pg_advisory_xact_lock_shared(1178947139, mark_id);
  SELECT k.epoch, k.token, k.holder, k.raised_at, k.xmax <> '0'::xid AS touched INTO m FROM fence.mark k WHERE k.id = mark_id;
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
    RAISE EXCEPTION 'token % of fence "%" was never announced', fence.token_text(e, c), f USING ERRCODE = 'ZF006',
      DETAIL = format('Fence "%s": token of the session %s, mark %s since %s.', f, fence.token_text(e, c),
        fence.token_text(m.epoch, m.token), to_char(m.raised_at AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.MS "UTC"')),
      HINT = 'Present the token before the transaction begins (at connect or by SET), through fenceproxy, which announces it.';
  END IF;
END $body$;

CREATE FUNCTION fence.missing(f text, bare text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
BEGIN
  RAISE EXCEPTION 'fence "%" requires a fencing token, and the session has none for it', f USING ERRCODE = 'ZF002',
    DETAIL = format('Fence "%s": no token in fence.token.', f),
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
  SELECT * INTO p FROM fence.parse(raw);
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
  fences text[];
BEGIN
  SELECT p.names INTO fences FROM fence.parse(raw) p;
  IF cardinality(fences) = 0 THEN
    IF tokenless THEN
      RETURN raw;
    END IF;
    RAISE EXCEPTION 'a fencing token is required, and the session has none' USING ERRCODE = 'ZF002',
      HINT = 'Acquire the lock and present its token before the transaction: SET fence.token = ''34''.';
  END IF;
  IF '' = ANY (fences) AND coalesce(bare, '') = '' THEN
    RAISE EXCEPTION 'the fencing token does not name its fence' USING ERRCODE = 'ZF003',
      DETAIL = 'Several fences are configured, and none of them is the one that bare tokens are for.',
      HINT = 'Name the fence: SET fence.token = ''billing=34''.';
  END IF;
  RETURN fence.guard(array_replace(fences, '', bare), bare);
END $body$;

-- The fast form for one fence, for callers who have parsed raw and know the mark's id. Whatever they got wrong sends
-- them to fence.guard: nothing of theirs is taken on trust, the parse neither (the last condition: the list has an item
-- that reads fence=epoch.counter, or the bare token when bare is this fence). No SET clause and no SECURITY DEFINER,
-- which cost more than the check; hence every name is qualified, operators too.
CREATE FUNCTION fence.guard1(name text, id int4, raw text, epoch int8, counter int8, bare text) RETURNS text
LANGUAGE plpgsql AS $body$
DECLARE
  item pg_catalog.text := guard1.counter;
  list pg_catalog.text := ',' OPERATOR(pg_catalog.||) guard1.raw OPERATOR(pg_catalog.||) ',';
BEGIN
  IF guard1.epoch OPERATOR(pg_catalog.<>) 0 THEN
    item := guard1.epoch::pg_catalog.text OPERATOR(pg_catalog.||) '.' OPERATOR(pg_catalog.||) item;
  END IF;
  PERFORM pg_catalog.pg_advisory_xact_lock_shared(1178947139, guard1.id);
  PERFORM 1 FROM fence.mark m
    WHERE m.id OPERATOR(pg_catalog.=) guard1.id AND m.name OPERATOR(pg_catalog.=) guard1.name
      AND m.token OPERATOR(pg_catalog.=) guard1.counter AND m.epoch OPERATOR(pg_catalog.=) guard1.epoch
      AND pg_catalog.current_setting('fence.token', true) OPERATOR(pg_catalog.=) guard1.raw
      AND (m.xmax OPERATOR(pg_catalog.=) '0'::pg_catalog.xid
        OR pg_catalog.current_setting('transaction_isolation') OPERATOR(pg_catalog.=) 'read committed')
      AND (guard1.bare OPERATOR(pg_catalog.=) guard1.name AND guard1.raw OPERATOR(pg_catalog.=) item
        OR pg_catalog.strpos(list, ',' OPERATOR(pg_catalog.||) guard1.name OPERATOR(pg_catalog.||) '=' OPERATOR(pg_catalog.||) item OPERATOR(pg_catalog.||) ',') OPERATOR(pg_catalog.>) 0
        OR guard1.bare OPERATOR(pg_catalog.=) guard1.name
          AND pg_catalog.strpos(list, ',' OPERATOR(pg_catalog.||) item OPERATOR(pg_catalog.||) ',') OPERATOR(pg_catalog.>) 0);
  IF FOUND THEN
    RETURN guard1.raw;
  END IF;
  RETURN fence.guard(ARRAY[guard1.name], guard1.bare);
END $body$;

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA fence FROM PUBLIC;
GRANT EXECUTE ON FUNCTION fence.guard(text[], text), fence.guard_session(text, bool),
  fence.guard1(text, int4, text, int8, int8, text) TO PUBLIC;
