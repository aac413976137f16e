-- Advisory locks with tokens: the lock is the session's, the token comes from the issuer and is raised in that session. If
-- the session has died meanwhile, so has the transaction, and no token was given out.

-- Takes the advisory lock (key, or the pair k1, k2 when key is NULL) for the session, unless it is locked already, and
-- makes the next token the mark of the fence lock_name. Readers (shared) get no token.
-- state: held, queued (somebody else has it), busy (guarded transactions of an earlier holder have not ended; the
-- session keeps the lock), gone (locked, but not by this session: a pooler has changed it), again.
-- The server ends the session when it hears nothing from it for ttl_ms, and with it the lock.
CREATE FUNCTION fence.advisory_take(lock_name text, new_holder text, ttl_ms int8, key int8, k1 int4, k2 int4, shared bool, locked bool, patient bool)
RETURNS fence.lease_answer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $body$
DECLARE
  a fence.lease_answer;
  issued record;
BEGIN
  IF lock_name IS NULL OR lock_name !~ '^[][!#%&()+./0-9:<>?@A-Z^_`a-z{|}~-]+$' OR octet_length(lock_name) > 200 THEN
    RAISE EXCEPTION 'malformed name of a lock' USING ERRCODE = 'ZF003';
  END IF;
  IF fence.issuer_moved() THEN
    a.state := 'again';
    RETURN a;
  END IF;
  IF current_setting('idle_session_timeout', true) IS NOT NULL THEN   -- PostgreSQL 14
    PERFORM set_config('idle_session_timeout', ttl_ms::text, false);
  END IF;
  IF locked THEN
    PERFORM FROM pg_locks l WHERE l.locktype = 'advisory' AND l.pid = pg_backend_pid() AND l.granted
      AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
      AND l.mode = CASE WHEN shared THEN 'ShareLock' ELSE 'ExclusiveLock' END
      AND l.classid::int8 = CASE WHEN key IS NULL THEN k1::int8 & 4294967295 ELSE key >> 32 & 4294967295 END
      AND l.objid::int8 = CASE WHEN key IS NULL THEN k2::int8 & 4294967295 ELSE key & 4294967295 END
      AND l.objsubid = CASE WHEN key IS NULL THEN 2 ELSE 1 END;
    IF NOT FOUND THEN
      a.state := 'gone';
      RETURN a;
    END IF;
  ELSIF NOT (CASE WHEN key IS NULL AND shared THEN pg_try_advisory_lock_shared(k1, k2) WHEN key IS NULL THEN pg_try_advisory_lock(k1, k2)
      WHEN shared THEN pg_try_advisory_lock_shared(key) ELSE pg_try_advisory_lock(key) END) THEN
    SELECT 'queued', m.epoch, m.token, m.holder, m.raised_at INTO a.state, a.epoch, a.token, a.holder, a.since
      FROM fence.mark m WHERE m.name = lock_name;
    a.state := 'queued';
    RETURN a;
  END IF;
  a.state := 'held';
  IF shared THEN
    RETURN a;
  END IF;
  IF NOT fence.enter(lock_name, patient) THEN
    INSERT INTO fence.lease AS k (name, blocked_since) VALUES (lock_name, clock_timestamp())
      ON CONFLICT (name) DO UPDATE SET blocked_since = CASE WHEN k.blocked_since > clock_timestamp() - interval '10 min' THEN k.blocked_since ELSE clock_timestamp() END;
    SELECT 'busy', extract(epoch FROM clock_timestamp() - k.blocked_since) * 1000 INTO a.state, a.blocked_ms
      FROM fence.lease k WHERE k.name = lock_name;
    RETURN a;
  END IF;
  UPDATE fence.lease k SET blocked_since = NULL WHERE k.name = lock_name AND k.blocked_since IS NOT NULL;
  issued := fence.issue(lock_name, new_holder);
  a.epoch := issued.new_epoch; a.token := issued.new_token;
  RETURN a;
END $body$;

-- Who holds the advisory lock exclusively: the mark's holder, if anybody has it.
CREATE FUNCTION fence.advisory_watch(lock_name text, key int8, k1 int4, k2 int4) RETURNS fence.lease_answer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $body$
DECLARE
  a fence.lease_answer;
BEGIN
  a.state := 'vacant';
  PERFORM FROM pg_locks l WHERE l.locktype = 'advisory' AND l.granted AND l.mode = 'ExclusiveLock'
    AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
    AND l.classid::int8 = CASE WHEN key IS NULL THEN k1::int8 & 4294967295 ELSE key >> 32 & 4294967295 END
    AND l.objid::int8 = CASE WHEN key IS NULL THEN k2::int8 & 4294967295 ELSE key & 4294967295 END
    AND l.objsubid = CASE WHEN key IS NULL THEN 2 ELSE 1 END;
  IF FOUND THEN
    SELECT 'held', m.epoch, m.token, m.holder, m.raised_at INTO a.state, a.epoch, a.token, a.holder, a.since
      FROM fence.mark m WHERE m.name = lock_name;
  END IF;
  RETURN a;
END $body$;

REVOKE ALL ON FUNCTION fence.advisory_take(text, text, int8, int8, int4, int4, bool, bool, bool), fence.advisory_watch(text, int8, int4, int4) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION fence.advisory_take(text, text, int8, int8, int4, int4, bool, bool, bool), fence.advisory_watch(text, int8, int4, int4) TO fence_control;
