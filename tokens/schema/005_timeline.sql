-- The floor under tokens that this database itself has issued (the lease table).
--
-- A standby that is promoted without its primary's last commits has lost the newest marks with them: a token that was
-- stale already would be the mark again. So such a mark remembers the WAL's timeline, which every promotion changes, and
-- the guard accepts it on that timeline only. Marks of tokens from elsewhere have none, and pay one test for NULL.
-- A standby accepts any: nothing can be written there, and its present timeline cannot be asked for.

ALTER TABLE fence.mark ADD COLUMN timeline text COLLATE "C" CHECK (timeline ~ '^[0-9A-F]{8}$');

-- xlogfuncs.c pg_walfile_name: the timeline that new WAL is inserted on. pg_control_checkpoint() would lag behind until the
-- first checkpoint after a promotion.
CREATE FUNCTION fence.timeline() RETURNS text
LANGUAGE sql VOLATILE AS $body$
  SELECT left(pg_walfile_name(pg_current_wal_insert_lsn()), 8)
$body$;

CREATE OR REPLACE FUNCTION fence.guard_one(f text, e int8, c int8) RETURNS void
LANGUAGE plpgsql AS $body$
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
    RAISE EXCEPTION 'token % of fence "%" was never announced', fence.token_text(e, c), f USING ERRCODE = 'ZF006',
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

CREATE OR REPLACE FUNCTION fence.guard1(name text, id int4, raw text, epoch int8, counter int8, bare text) RETURNS text
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

-- As before, and the fence has no floor any more: whoever issues tokens of the new epoch decides.
CREATE OR REPLACE FUNCTION fence.bump_epoch(fence_name text, reason text, OUT id int4, OUT epoch int8)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $body$
#variable_conflict use_variable
DECLARE
  m record;
BEGIN
  IF current_setting('transaction_isolation') <> 'read committed' THEN
    RAISE EXCEPTION 'an epoch can be raised in READ COMMITTED only' USING ERRCODE = 'ZF005';
  END IF;
  IF coalesce(btrim(reason), '') = '' THEN
    RAISE EXCEPTION 'an epoch is raised for a reason: give one' USING ERRCODE = 'ZF003';
  END IF;
  SELECT k.id INTO id FROM fence.mark k WHERE k.name = fence_name;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'fence "%" has no mark', left(fence_name, 100) USING ERRCODE = 'ZF003', HINT = 'fenceproxy fence list shows the fences that have one.';
  END IF;
  PERFORM set_config('synchronous_commit', 'on', true)
    WHERE current_setting('synchronous_commit') IN ('off', 'local', 'remote_write');
  PERFORM pg_advisory_xact_lock(1178947139, id);
  SELECT k.epoch INTO m FROM fence.mark k WHERE k.id = bump_epoch.id;
  IF m.epoch >= 1::int8 << 62 THEN
    RAISE EXCEPTION 'fence "%" has no higher epoch', fence_name USING ERRCODE = 'ZF003';
  END IF;
  epoch := m.epoch + 1;
  PERFORM set_config('fence.reason', reason, true);
  UPDATE fence.mark k SET epoch = bump_epoch.epoch, token = 0, timeline = NULL, holder = NULL, raised_at = clock_timestamp(), raised_by = session_user
    WHERE k.id = bump_epoch.id;
  PERFORM set_config('fence.reason', '', true);
END $body$;

REVOKE ALL ON FUNCTION fence.timeline() FROM PUBLIC;
