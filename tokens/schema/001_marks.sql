-- The mark of each fence, and what keeps it from going down.

CREATE TABLE fence.version (
  version    int4        NOT NULL PRIMARY KEY,
  applied_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  applied_by name        NOT NULL DEFAULT session_user
);

-- id is the second half of the fence's lock key: unique and never reused, since no mark is ever deleted. A hash of the
-- name would let two fences share a key, and eviction end a session that has nothing to do with the takeover.
-- USING heap: the guard reads xmax, and knows what it means in a heap.
CREATE TABLE fence.mark (
  id        int4        NOT NULL GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  name      text        COLLATE "C" NOT NULL UNIQUE
            CHECK (name ~ '^[][!#%&()+./0-9:<>?@A-Z^_`a-z{|}~-]+$' AND octet_length(name) <= 200),
  epoch     int8        NOT NULL CHECK (epoch >= 0),
  token     int8        NOT NULL CHECK (token >= 0),
  holder    text,
  raised_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  raised_by name        NOT NULL DEFAULT session_user,
  timeline  text        COLLATE "C" CHECK (timeline ~ '^[0-9A-F]{8}$') -- of a token that this database itself has issued
) USING heap WITH (fillfactor = 50, autovacuum_vacuum_threshold = 50, autovacuum_vacuum_scale_factor = 0);

-- The newest 100 changes of each fence.
CREATE TABLE fence.history (
  id        int8        NOT NULL GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  name      text        COLLATE "C" NOT NULL,
  at        timestamptz NOT NULL DEFAULT clock_timestamp(),
  by_role   name        NOT NULL DEFAULT session_user,
  holder    text,
  old_epoch int8,
  old_token int8,
  epoch     int8        NOT NULL,
  token     int8        NOT NULL,
  reason    text
);
CREATE INDEX history_name_id ON fence.history (name, id);

-- Functions without a SET search_path, like this one, are called by those with one only, and run under theirs.
CREATE FUNCTION fence.token_text(epoch int8, token int8) RETURNS text
LANGUAGE sql IMMUTABLE AS $body$
  SELECT CASE WHEN epoch = 0 THEN token::text ELSE epoch::text || '.' || token::text END
$body$;

-- Every change of a mark passes here, a DBA's own UPDATE too. AFTER, not BEFORE: a BEFORE ROW trigger makes UPDATE lock
-- the row first (trigger.c GetTupleForTrigger), and the new version would inherit that locker as its xmax, which the
-- guard takes for a raise.
CREATE FUNCTION fence.mark_changed() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
BEGIN
  IF TG_OP IN ('DELETE', 'TRUNCATE') THEN
    RAISE EXCEPTION 'a mark is never deleted (% of fence.mark)', TG_OP USING ERRCODE = 'ZF004',
      HINT = 'A deleted mark would let every old token in again. To remove the fences: fenceproxy init --uninstall.';
  END IF;
  -- In-flight guarded transactions end before the change commits; raise() has this lock already.
  PERFORM pg_advisory_xact_lock(1178947139, NEW.id);
  IF TG_OP = 'UPDATE' THEN
    IF NEW.id <> OLD.id OR NEW.name <> OLD.name THEN
      RAISE EXCEPTION 'a mark is never renamed (fence "%")', OLD.name USING ERRCODE = 'ZF004';
    END IF;
    IF (NEW.epoch, NEW.token) < (OLD.epoch, OLD.token) THEN
      RAISE EXCEPTION 'a mark never goes down (fence "%": % to %)', OLD.name,
        fence.token_text(OLD.epoch, OLD.token), fence.token_text(NEW.epoch, NEW.token) USING ERRCODE = 'ZF004',
        HINT = 'To start over with lower tokens, raise the epoch: fenceproxy fence bump-epoch.';
    END IF;
    INSERT INTO fence.history (name, holder, old_epoch, old_token, epoch, token, reason)
    VALUES (NEW.name, NEW.holder, OLD.epoch, OLD.token, NEW.epoch, NEW.token, nullif(current_setting('fence.reason', true), ''));
  ELSE
    INSERT INTO fence.history (name, holder, epoch, token, reason)
    VALUES (NEW.name, NEW.holder, NEW.epoch, NEW.token, nullif(current_setting('fence.reason', true), ''));
  END IF;
  DELETE FROM fence.history h WHERE h.name = NEW.name AND h.id <=
    (SELECT i.id FROM fence.history i WHERE i.name = NEW.name ORDER BY i.id DESC OFFSET 100 LIMIT 1);
  RETURN NULL;
END $body$;

-- A mark that was relied on must survive a crash. The setting counts when the transaction commits, so it is forced at
-- commit: an earlier one could be undone by SET LOCAL in between.
CREATE FUNCTION fence.commit_durably() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
BEGIN
  IF current_setting('synchronous_commit') IN ('off', 'local', 'remote_write') THEN
    PERFORM set_config('synchronous_commit', 'on', true);
  END IF;
  RETURN NULL;
END $body$;

CREATE TRIGGER changed AFTER INSERT OR UPDATE OR DELETE ON fence.mark
  FOR EACH ROW EXECUTE FUNCTION fence.mark_changed();
CREATE TRIGGER emptied BEFORE TRUNCATE ON fence.mark
  FOR EACH STATEMENT EXECUTE FUNCTION fence.mark_changed();
CREATE CONSTRAINT TRIGGER durable AFTER INSERT OR UPDATE ON fence.mark DEFERRABLE INITIALLY DEFERRED
  FOR EACH ROW EXECUTE FUNCTION fence.commit_durably();
-- ALWAYS: also under session_replication_role = replica.
ALTER TABLE fence.mark ENABLE ALWAYS TRIGGER changed, ENABLE ALWAYS TRIGGER emptied, ENABLE ALWAYS TRIGGER durable;

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA fence FROM PUBLIC;
GRANT USAGE ON SCHEMA fence TO PUBLIC;
GRANT SELECT ON fence.mark TO PUBLIC;
GRANT SELECT ON fence.version, fence.history TO fence_control;
