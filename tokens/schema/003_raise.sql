-- Raising a mark: on a control connection, in a transaction of its own.

-- Makes new_epoch.new_token the mark of the fence. raised is false when it was the mark already: told without waiting
-- for anybody. A lower token is ZF001; another epoch, a jump of more than max_jump (NULL: no limit) over the present
-- mark, and a token in the upper half of its range, which would leave no room above it, are ZF003. The first token of a
-- fence has nothing to be measured by and may be any: an etcd revision starts high.
--
-- Otherwise it waits for the transactions that have passed a guard, behind a lock that queues fairly: a later guard
-- cannot overtake it. Only READ COMMITTED sees the mark as it is after that wait.
CREATE FUNCTION fence.raise(fence_name text, new_epoch int8, new_token int8, new_holder text, max_jump int8,
  OUT id int4, OUT raised bool, OUT old_epoch int8, OUT old_token int8)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $body$
#variable_conflict use_variable
DECLARE
  m record;
  locked bool := false;
BEGIN
  IF current_setting('transaction_isolation') <> 'read committed' THEN
    RAISE EXCEPTION 'a mark can be raised in READ COMMITTED only' USING ERRCODE = 'ZF005';
  END IF;
  IF fence_name IS NULL OR fence_name !~ '^[][!#%&()+./0-9:<>?@A-Z^_`a-z{|}~-]+$' OR octet_length(fence_name) > 200 THEN
    RAISE EXCEPTION 'malformed name of a fence' USING ERRCODE = 'ZF003';
  END IF;
  IF coalesce(new_epoch, -1) < 0 OR coalesce(new_token, -1) < 0 OR new_epoch > 1::int8 << 62 OR new_token > 1::int8 << 62 THEN
    RAISE EXCEPTION 'token % of fence "%" is out of range', fence.token_text(new_epoch, new_token), fence_name USING ERRCODE = 'ZF003',
      HINT = 'Nothing could ever be raised above it. Is it a typo, or a number from elsewhere?';
  END IF;
  PERFORM set_config('synchronous_commit', 'on', true)
    WHERE current_setting('synchronous_commit') IN ('off', 'local', 'remote_write');
  LOOP
    SELECT k.id, k.epoch, k.token, k.holder, k.raised_at INTO m FROM fence.mark k WHERE k.name = fence_name;
    IF NOT FOUND THEN
      IF new_epoch >= 1::int8 << 31 THEN
        RAISE EXCEPTION 'epoch % for the first token of fence "%" is out of range', new_epoch, fence_name USING ERRCODE = 'ZF003',
          HINT = 'Is it a typo? Epochs count from 0.';
      END IF;
      INSERT INTO fence.mark AS k (name, epoch, token, holder) VALUES (fence_name, new_epoch, new_token, new_holder)
        ON CONFLICT (name) DO NOTHING RETURNING k.id INTO id;
      IF FOUND THEN
        raised := true;
        RETURN;
      END IF;
      CONTINUE;   -- another session has just made it
    END IF;
    id := m.id; old_epoch := m.epoch; old_token := m.token;
    IF (new_epoch, new_token) = (m.epoch, m.token) THEN
      raised := false;
      -- Visible here is not yet safe elsewhere: the raise may have been cancelled while it waited for its standbys
      -- (syncrep.c SyncRepWaitForLSN). A commit of our own waits for the same ones, past that point of the WAL.
      IF current_setting('synchronous_standby_names') <> '' THEN
        PERFORM pg_logical_emit_message(true, 'fence', '');
      END IF;
      RETURN;
    END IF;
    IF (new_epoch, new_token) < (m.epoch, m.token) THEN
      PERFORM fence.stale(fence_name, new_epoch, new_token, m.epoch, m.token, m.holder, m.raised_at);
    END IF;
    IF new_epoch <> m.epoch THEN
      RAISE EXCEPTION 'token % of fence "%" is of another epoch than the mark %', fence.token_text(new_epoch, new_token), fence_name,
        fence.token_text(m.epoch, m.token) USING ERRCODE = 'ZF003',
        HINT = 'Only an operator changes the epoch of a fence: fenceproxy fence bump-epoch.';
    END IF;
    IF new_token - m.token > max_jump THEN
      RAISE EXCEPTION 'token % of fence "%" is more than % above the mark %', fence.token_text(new_epoch, new_token), fence_name,
        max_jump, fence.token_text(m.epoch, m.token) USING ERRCODE = 'ZF003',
        HINT = 'Is it a typo or a timestamp? If it is right: fenceproxy fence raise, or a higher announce.max_jump.';
    END IF;
    EXIT WHEN locked;
    PERFORM pg_advisory_xact_lock(1178947139, m.id);
    locked := true;   -- and read again: what is true now stays true
  END LOOP;
  UPDATE fence.mark k SET epoch = new_epoch, token = new_token, holder = new_holder, raised_at = clock_timestamp(), raised_by = session_user
    WHERE k.id = m.id;
  raised := true;
END $body$;

-- Raises the epoch by one, to counter 0: every token of an older epoch is stale then, whatever its counter. For after a
-- restore of the database or of the lock service.
CREATE FUNCTION fence.bump_epoch(fence_name text, reason text, OUT id int4, OUT epoch int8)
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

REVOKE ALL ON FUNCTION fence.raise(text, int8, int8, text, int8), fence.bump_epoch(text, text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION fence.raise(text, int8, int8, text, int8) TO fence_control;
GRANT EXECUTE ON FUNCTION fence.bump_epoch(text, text) TO fence_operator;
