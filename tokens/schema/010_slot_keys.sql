-- A slot of a schedule does not come again and is forgotten after 400 days. One that is named by a key is run once ever.

-- Begins the slot under token e.c. verdict: run, done, failed, running (under a lower token: that run is lost, for we have
-- the lock now), stale (there is a higher token). With again, a slot that failed or was lost is run once more.
-- The other columns are of the run that was found, or of the new one.
CREATE OR REPLACE FUNCTION fence.slot_begin(lock_name text, slot_name text, e int8, c int8, new_holder text, again bool, OUT verdict text, OUT known fence.slot)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $body$
BEGIN
  IF EXISTS (SELECT FROM fence.mark m WHERE m.name = lock_name AND (m.epoch, m.token) > (e, c)) THEN
    SELECT k.* INTO known FROM fence.slot k WHERE k.lock = lock_name AND k.slot = slot_name;
    verdict := 'stale';
    RETURN;
  END IF;
  DELETE FROM fence.slot k WHERE k.lock = lock_name AND k.ended_at < clock_timestamp() - interval '400 days' AND k.slot NOT LIKE 'key=%';
  INSERT INTO fence.slot AS k (lock, slot, state, epoch, token, holder) VALUES (lock_name, slot_name, 'running', e, c, new_holder)
    ON CONFLICT DO NOTHING RETURNING k.* INTO known;
  IF FOUND THEN
    verdict := 'run';
    RETURN;
  END IF;
  SELECT k.* INTO STRICT known FROM fence.slot k WHERE k.lock = lock_name AND k.slot = slot_name FOR UPDATE;
  IF known.state = 'done' THEN
    verdict := 'done';
  ELSIF (known.epoch, known.token) > (e, c) THEN
    verdict := 'stale';
  ELSIF NOT again OR (known.epoch, known.token) = (e, c) THEN
    verdict := known.state;
  ELSE
    UPDATE fence.slot k SET state = 'running', epoch = e, token = c, holder = new_holder, attempts = k.attempts + 1,
        started_at = clock_timestamp(), ended_at = NULL, exit_code = NULL
      WHERE k.lock = lock_name AND k.slot = slot_name RETURNING k.* INTO known;
    verdict := 'run';
  END IF;
END $body$;
