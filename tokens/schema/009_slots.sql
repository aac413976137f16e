-- Slots: a job that several nodes are told to run at the same time runs once. A lock alone does not do that: node 3 would
-- run it again as soon as node 1 has finished. The run is recorded under the token of the lock, so that a node which has
-- lost the lock meanwhile can neither begin nor end a slot.

CREATE TABLE fence.slot (
  lock       text NOT NULL,
  slot       text NOT NULL,
  state      text NOT NULL CHECK (state IN ('running', 'done', 'failed')),
  epoch      int8 NOT NULL,
  token      int8 NOT NULL,
  holder     text,
  attempts   int4 NOT NULL DEFAULT 1,
  started_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  ended_at   timestamptz,
  exit_code  int4,
  PRIMARY KEY (lock, slot)
);

-- Begins the slot under token e.c. verdict: run, done, failed, running (under a lower token: that run is lost, for we have
-- the lock now), stale (there is a higher token). With again, a slot that failed or was lost is run once more.
-- The other columns are of the run that was found, or of the new one.
CREATE FUNCTION fence.slot_begin(lock_name text, slot_name text, e int8, c int8, new_holder text, again bool, OUT verdict text, OUT known fence.slot)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $body$
BEGIN
  IF EXISTS (SELECT FROM fence.mark m WHERE m.name = lock_name AND (m.epoch, m.token) > (e, c)) THEN
    SELECT k.* INTO known FROM fence.slot k WHERE k.lock = lock_name AND k.slot = slot_name;
    verdict := 'stale';
    RETURN;
  END IF;
  DELETE FROM fence.slot k WHERE k.lock = lock_name AND k.ended_at < clock_timestamp() - interval '400 days';
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

-- Ends the slot with the exit code of the job. False: the slot is another token's by now.
CREATE FUNCTION fence.slot_end(lock_name text, slot_name text, e int8, c int8, code int4) RETURNS bool
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $body$
BEGIN
  -- What the job itself has recorded as done stays done.
  UPDATE fence.slot k SET state = CASE WHEN k.state = 'done' OR code = 0 THEN 'done' ELSE 'failed' END,
      exit_code = code, ended_at = coalesce(k.ended_at, clock_timestamp())
    WHERE k.lock = lock_name AND k.slot = slot_name AND (k.epoch, k.token) = (e, c);
  RETURN FOUND;
END $body$;

-- For the job: records the slot as done in the job's own transaction, which is guarded by the token of the lock. So the
-- work and the record are committed together or not at all.
CREATE FUNCTION fence.slot_done(lock_name text, slot_name text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $body$
BEGIN
  PERFORM fence.guard(ARRAY[lock_name], lock_name);
  UPDATE fence.slot k SET state = 'done', ended_at = clock_timestamp()
    FROM fence.mark m
    WHERE k.lock = lock_name AND k.slot = slot_name AND m.name = lock_name AND (m.epoch, m.token) = (k.epoch, k.token) AND k.state = 'running';
  IF NOT FOUND THEN
    RAISE EXCEPTION 'slot "%" of lock "%" is not run under this token', left(slot_name, 100), left(lock_name, 100) USING ERRCODE = 'ZF001',
      DETAIL = 'It is done, or was never begun, or another holder runs it.',
      HINT = 'fenceproxy run --once-per begins slots; it gives the job their name in FENCE_SLOT.';
  END IF;
END $body$;

REVOKE ALL ON TABLE fence.slot FROM PUBLIC;
GRANT SELECT ON fence.slot TO fence_control;
REVOKE ALL ON FUNCTION fence.slot_begin(text, text, int8, int8, text, bool), fence.slot_end(text, text, int8, int8, int4),
  fence.slot_done(text, text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION fence.slot_begin(text, text, int8, int8, text, bool), fence.slot_end(text, text, int8, int8, int4) TO fence_control;
GRANT EXECUTE ON FUNCTION fence.slot_done(text, text) TO PUBLIC;
