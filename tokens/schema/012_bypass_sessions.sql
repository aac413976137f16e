-- A use of a bypass is told apart from those of an earlier session with the same pid. When a session began is hidden from
-- fence_owner (pgstatfuncs.c HAS_PGSTAT_PERMISSIONS), so a session remembers when it first went past a fence. A setting
-- that is set in a transaction goes with it when that is rolled back, as the row does. A session that changes or resets
-- it (DISCARD ALL) is written down once more.
CREATE OR REPLACE FUNCTION fence.pass_by(fences text[], reason text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $body$
#variable_conflict use_variable
DECLARE
  since text := current_setting('fence.bypassing_since', true);
  began timestamptz;
  f text;
BEGIN
  IF NOT EXISTS (SELECT FROM fence.bypass b WHERE b.role = session_user) THEN
    RAISE EXCEPTION 'role "%" may not bypass fences (%)', session_user, array_to_string(fences, ', ') USING ERRCODE = 'ZF004',
      HINT = format('An operator allows it: SELECT fence.allow_bypass(%L, ''why'').', session_user);
  END IF;
  reason := left(reason, 1000);
  SELECT b.started INTO began FROM fence.bypassed b
    WHERE b.pid = pg_backend_pid() AND extract(epoch FROM b.started)::text = since AND b.role = session_user LIMIT 1;
  IF NOT FOUND THEN
    began := clock_timestamp();
    PERFORM set_config('fence.bypassing_since', extract(epoch FROM began)::text, false);
  END IF;
  FOREACH f IN ARRAY fences LOOP
    CONTINUE WHEN EXISTS (SELECT FROM fence.bypassed b
      WHERE b.pid = pg_backend_pid() AND b.started = began AND b.role = session_user AND b.fence = f AND b.reason = reason);
    INSERT INTO fence.bypassed (fence, started, application, reason)
      VALUES (f, began, left(current_setting('application_name'), 100), reason);
    RAISE LOG 'fence "%" bypassed by role "%": %', f, session_user, reason;
    -- What another session is about to delete is left to it: nobody waits.
    DELETE FROM fence.bypassed b WHERE b.id IN
      (SELECT o.id FROM fence.bypassed o WHERE o.id <= (SELECT i.id FROM fence.bypassed i ORDER BY i.id DESC OFFSET 1000 LIMIT 1)
       FOR UPDATE SKIP LOCKED);
  END LOOP;
END $body$;

COMMENT ON COLUMN fence.bypassed.started IS 'when the session first went past a fence';
