-- Locks as rows: who holds a lock holds its fence, for a lease is granted and its token made the mark in one transaction.
-- All times are the database's, taken when they are needed (clock_timestamp()).
--
-- Locks are taken in this order everywhere: the key of the mark, the row of the lease, the row of the issuer. Only the
-- first may take long to get: what waits for guarded transactions keeps nobody else waiting.

-- One row: whence tokens come. One counter for all names makes the tokens of different locks comparable. A row, not a
-- sequence: after a crash a sequence may go back to numbers that uncommitted transactions have shown (sequence.c
-- nextval_internal logs one call in 32 and does not force it to disk).
-- The epoch is base + timeline: after a promotion that has lost tokens, new ones are higher all the same. When the system
-- identifier is another one (pg_upgrade, a dump restored elsewhere), timelines start over, above the highest epoch so far.
CREATE TABLE fence.issuer (
  one               bool        NOT NULL DEFAULT true PRIMARY KEY CHECK (one),
  system_identifier int8        NOT NULL,
  timeline          text        COLLATE "C" NOT NULL CHECK (timeline ~ '^[0-9A-F]{8}$'),
  since             timestamptz NOT NULL DEFAULT clock_timestamp(),  -- when the timeline was first noticed
  base              int8        NOT NULL DEFAULT 0 CHECK (base >= 0),
  counter           int8        NOT NULL DEFAULT 0 CHECK (counter >= 0)
) WITH (fillfactor = 10, autovacuum_vacuum_threshold = 50, autovacuum_vacuum_scale_factor = 0);
INSERT INTO fence.issuer (system_identifier, timeline) SELECT system_identifier, fence.timeline() FROM pg_control_system();

-- claim is what a tenure is known by: chosen by the client, never used twice. NULL: vacant. Rows are never deleted.
CREATE TABLE fence.lease (
  name          text        COLLATE "C" NOT NULL PRIMARY KEY,
  claim         text        COLLATE "C",
  holder        text,
  epoch         int8        NOT NULL DEFAULT 0,   -- token of the newest tenure
  token         int8        NOT NULL DEFAULT 0,
  timeline      text        COLLATE "C" NOT NULL DEFAULT '',
  ttl           interval    NOT NULL DEFAULT '0',
  acquired_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
  expires_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
  blocked_since timestamptz   -- since when guarded transactions have kept a vacant lock from being granted
) WITH (fillfactor = 50, autovacuum_vacuum_threshold = 50, autovacuum_vacuum_scale_factor = 0);

-- The queue, first come first served, and those that only want to hear of changes. Not worth a disk write: after a crash
-- everybody queues again.
CREATE UNLOGGED TABLE fence.ticket (
  id         int8        NOT NULL GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  claim      text        COLLATE "C" NOT NULL UNIQUE,
  name       text        COLLATE "C" NOT NULL,
  waits      bool        NOT NULL,
  holder     text,
  ttl        interval    NOT NULL,
  expires_at timestamptz NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_threshold = 50, autovacuum_vacuum_scale_factor = 0);
CREATE INDEX ticket_name_id ON fence.ticket (name, id);

-- state: held    epoch, token
--        queued  somebody has the lock (holder, epoch, token, since) or is before us; wait_ms until that may end by itself
--        busy    it is our turn, and transactions that were guarded under an older token have not ended; blocked_ms
--        gone    neither held nor queued
--        again   the server was promoted meanwhile: ask again
--        vacant  (lease_watch)
CREATE TYPE fence.lease_answer AS (
  state text, epoch int8, token int8, holder text, since timestamptz, wait_ms int8, ahead int4, ticket int8, blocked_ms int8
);

CREATE FUNCTION fence.timeline_number(timeline text) RETURNS int8
LANGUAGE sql IMMUTABLE AS $body$
  SELECT ('x' || lpad(timeline, 16, '0'))::bit(64)::int8
$body$;

-- Notices a promotion or another system identifier; true when it did: then end the transaction and begin again, for the
-- issuer's row is locked.
CREATE FUNCTION fence.issuer_moved() RETURNS bool
LANGUAGE plpgsql AS $body$
DECLARE
  i record;
  system int8;
BEGIN
  IF current_setting('transaction_isolation') <> 'read committed' THEN
    RAISE EXCEPTION 'a lock can be taken in READ COMMITTED only' USING ERRCODE = 'ZF005',
      HINT = 'Set default_transaction_isolation of the lock client''s role to read committed.';
  END IF;
  IF pg_is_in_recovery() THEN
    RAISE EXCEPTION 'a standby has no locks to give' USING ERRCODE = '25006';
  END IF;
  SELECT s.system_identifier INTO system FROM pg_control_system() s;
  SELECT * INTO i FROM fence.issuer;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'fence.issuer is empty' USING ERRCODE = 'ZF005';
  END IF;
  IF i.timeline = fence.timeline() AND i.system_identifier = system THEN
    RETURN false;
  END IF;
  SELECT * INTO i FROM fence.issuer FOR UPDATE;
  IF i.timeline <> fence.timeline() OR i.system_identifier <> system THEN
    UPDATE fence.issuer SET system_identifier = system, timeline = fence.timeline(), since = clock_timestamp(),
      base = CASE WHEN i.system_identifier = system THEN i.base ELSE
        greatest(i.base + fence.timeline_number(i.timeline), (SELECT max(m.epoch) FROM fence.mark m WHERE m.timeline IS NOT NULL)) END;
  END IF;
  RETURN true;
END $body$;

-- What is said of a lease must survive a crash.
CREATE FUNCTION fence.durably() RETURNS void
LANGUAGE plpgsql AS $body$
BEGIN
  IF current_setting('synchronous_commit') IN ('off', 'local', 'remote_write') THEN
    PERFORM set_config('synchronous_commit', 'on', true);
  END IF;
END $body$;

-- Keeps guards of the fence out until the transaction ends. Patient, it waits for those that have passed; else false says
-- that there are some.
CREATE FUNCTION fence.enter(fence_name text, patient bool) RETURNS bool
LANGUAGE plpgsql AS $body$
DECLARE
  mark_id int4;
BEGIN
  SELECT m.id INTO mark_id FROM fence.mark m WHERE m.name = fence_name;
  IF NOT FOUND THEN
    RETURN true;
  END IF;
  IF patient THEN
    PERFORM set_config('lock_timeout', '0', true);
    PERFORM pg_advisory_xact_lock(1178947139, mark_id);
    RETURN true;
  END IF;
  RETURN pg_try_advisory_xact_lock(1178947139, mark_id);
END $body$;

-- Makes the next token the mark of the fence. The caller has entered it, and does not wait for anything afterwards.
CREATE FUNCTION fence.issue(fence_name text, new_holder text, OUT new_epoch int8, OUT new_token int8)
LANGUAGE plpgsql AS $body$
DECLARE
  m record;
  i record;
BEGIN
  PERFORM fence.durably();
  SELECT k.id, k.epoch, k.token INTO m FROM fence.mark k WHERE k.name = fence_name;
  IF FOUND THEN
    IF NOT pg_try_advisory_xact_lock(1178947139, m.id) THEN   -- the mark is younger than enter(): begin again
      RAISE EXCEPTION 'fence "%" has just got its first mark', fence_name USING ERRCODE = '40001';
    END IF;
    SELECT k.id, k.epoch, k.token INTO m FROM fence.mark k WHERE k.id = m.id;
  END IF;
  SELECT * INTO i FROM fence.issuer FOR UPDATE;
  new_epoch := greatest(i.base + fence.timeline_number(i.timeline), coalesce(m.epoch, 0));   -- an operator may have bumped it
  new_token := greatest(i.counter, CASE WHEN m.epoch = new_epoch THEN m.token ELSE 0 END) + 1;
  IF new_token > 1::int8 << 62 OR new_epoch > 1::int8 << 62 THEN
    RAISE EXCEPTION 'fence "%" has no token left above its mark %', fence_name, fence.token_text(m.epoch, m.token) USING ERRCODE = 'ZF003',
      HINT = 'fenceproxy fence bump-epoch makes room.';
  END IF;
  UPDATE fence.issuer SET counter = new_token, base = new_epoch - fence.timeline_number(i.timeline);
  IF m.id IS NULL THEN
    INSERT INTO fence.mark AS k (name, epoch, token, holder, timeline) VALUES (fence_name, new_epoch, new_token, new_holder, i.timeline)
      ON CONFLICT (name) DO NOTHING;
    IF NOT FOUND THEN
      RAISE EXCEPTION 'fence "%" has just got its first mark', fence_name USING ERRCODE = '40001';
    END IF;
  ELSE
    UPDATE fence.mark k SET epoch = new_epoch, token = new_token, timeline = i.timeline, holder = new_holder,
      raised_at = clock_timestamp(), raised_by = session_user WHERE k.id = m.id;
  END IF;
END $body$;

-- When the lease may be given to another. A promoted server may have lost a renewal that the holder was told of; so a
-- holder from before counts for a whole TTL from when the promotion was noticed. Its renewal tells it that it has lost.
CREATE FUNCTION fence.lease_until(l fence.lease, i fence.issuer) RETURNS timestamptz
LANGUAGE sql IMMUTABLE AS $body$
  SELECT CASE WHEN l.claim IS NULL THEN '-infinity'
    WHEN l.timeline = i.timeline THEN l.expires_at ELSE greatest(l.expires_at, i.since + l.ttl) END
$body$;

-- Tells who is next, if anybody, and those that watch.
CREATE FUNCTION fence.lease_notify(lock_name text) RETURNS void
LANGUAGE plpgsql AS $body$
DECLARE
  next text;
BEGIN
  IF EXISTS (SELECT FROM fence.ticket t WHERE t.name = lock_name) THEN
    SELECT t.claim INTO next FROM fence.ticket t WHERE t.name = lock_name AND t.waits AND t.expires_at > clock_timestamp() ORDER BY t.id LIMIT 1;
    PERFORM pg_notify('fence_lease', lock_name || ' ' || coalesce(next, ''));
  END IF;
END $body$;

-- Tells those that watch of every mark that is raised: of a grant, and of anybody else's raise, which is the end of a lease,
-- for its holder presents an older token now.
CREATE FUNCTION fence.mark_told() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $body$
BEGIN
  IF EXISTS (SELECT FROM fence.ticket t WHERE t.name = NEW.name AND NOT t.waits) THEN
    PERFORM pg_notify('fence_lease', NEW.name || ' ');
  END IF;
  RETURN NULL;
END $body$;
CREATE TRIGGER told AFTER INSERT OR UPDATE ON fence.mark FOR EACH ROW EXECUTE FUNCTION fence.mark_told();

-- Grants the lock to a claim whose turn it is: held, busy, gone (the ticket has left the queue meanwhile), or NULL when
-- somebody else has got it. ticketed: the claim has a ticket, which it gives up.
CREATE FUNCTION fence.lease_grant(lock_name text, new_claim text, new_holder text, new_ttl interval, ticketed bool, patient bool)
RETURNS fence.lease_answer
LANGUAGE plpgsql AS $body$
DECLARE
  a fence.lease_answer;
  l fence.lease;
  i fence.issuer;
  issued record;
BEGIN
  IF NOT fence.enter(lock_name, patient) THEN
    -- An old time is of another blockage, after which nobody has asked again.
    UPDATE fence.lease k SET blocked_since = clock_timestamp()
      WHERE k.name = lock_name AND coalesce(k.blocked_since, '-infinity') < clock_timestamp() - interval '10 min';
    SELECT 'busy', extract(epoch FROM clock_timestamp() - k.blocked_since) * 1000 INTO a.state, a.blocked_ms
      FROM fence.lease k WHERE k.name = lock_name;
    RETURN a;
  END IF;
  SELECT * INTO l FROM fence.lease k WHERE k.name = lock_name FOR UPDATE;
  SELECT * INTO i FROM fence.issuer;
  IF fence.lease_until(l, i) > clock_timestamp() THEN
    RETURN a;
  END IF;
  IF ticketed THEN
    DELETE FROM fence.ticket t WHERE t.claim = new_claim;
    IF NOT FOUND THEN
      a.state := 'gone';
      RETURN a;
    END IF;
  END IF;
  issued := fence.issue(lock_name, new_holder);
  UPDATE fence.lease k SET claim = new_claim, holder = new_holder, epoch = issued.new_epoch, token = issued.new_token, timeline = i.timeline,
    ttl = new_ttl, acquired_at = clock_timestamp(), expires_at = clock_timestamp() + new_ttl, blocked_since = NULL WHERE k.name = lock_name;
  a.state := 'held'; a.epoch := issued.new_epoch; a.token := issued.new_token;
  RETURN a;
END $body$;

-- Who is in the way of a claim that is not held.
CREATE FUNCTION fence.lease_queue(lock_name text, ticket_id int8) RETURNS fence.lease_answer
LANGUAGE plpgsql AS $body$
DECLARE
  a fence.lease_answer;
  l fence.lease;
  i fence.issuer;
  first timestamptz;
BEGIN
  SELECT * INTO l FROM fence.lease k WHERE k.name = lock_name;
  SELECT * INTO i FROM fence.issuer;
  SELECT count(*), min(t.expires_at) INTO a.ahead, first FROM (
    SELECT t.expires_at FROM fence.ticket t WHERE t.name = lock_name AND t.waits AND t.expires_at > clock_timestamp()
      AND (ticket_id IS NULL OR t.id < ticket_id) ORDER BY t.id LIMIT 100) t;
  a.state := 'queued'; a.ticket := ticket_id;
  IF fence.lease_until(l, i) > clock_timestamp() THEN
    a.holder := l.holder; a.epoch := l.epoch; a.token := l.token; a.since := l.acquired_at;
    first := greatest(fence.lease_until(l, i), first);
  END IF;
  a.wait_ms := greatest(ceil(extract(epoch FROM first - clock_timestamp()) * 1000), 0);
  RETURN a;
END $body$;

-- Asks for a lock: held, or, with queue, queued or busy with a ticket; without, queued says that it is held, and busy
-- comes with a ticket all the same, for the caller to wait a little.
CREATE FUNCTION fence.lease_request(lock_name text, new_claim text, new_holder text, ttl_ms int8, queue bool)
RETURNS fence.lease_answer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $body$
DECLARE
  a fence.lease_answer;
  l fence.lease;
  i fence.issuer;
  new_ttl interval := ttl_ms * interval '1 ms';
  id int8;
BEGIN
  IF lock_name IS NULL OR lock_name !~ '^[][!#%&()+./0-9:<>?@A-Z^_`a-z{|}~-]+$' OR octet_length(lock_name) > 200 THEN
    RAISE EXCEPTION 'malformed name of a lock' USING ERRCODE = 'ZF003';
  END IF;
  IF coalesce(new_claim, '') = '' OR ttl_ms IS NULL OR ttl_ms < 1 OR ttl_ms > 86400000 THEN
    RAISE EXCEPTION 'a claim and a TTL of at most a day are needed' USING ERRCODE = 'ZF003';
  END IF;
  IF fence.issuer_moved() THEN
    a.state := 'again';
    RETURN a;
  END IF;
  DELETE FROM fence.ticket t WHERE t.id IN (
    SELECT d.id FROM fence.ticket d WHERE d.name = lock_name AND d.expires_at <= clock_timestamp() FOR UPDATE SKIP LOCKED);
  SELECT * INTO l FROM fence.lease k WHERE k.name = lock_name;
  IF NOT FOUND THEN
    INSERT INTO fence.lease (name) VALUES (lock_name) ON CONFLICT (name) DO NOTHING;
  END IF;
  SELECT * INTO i FROM fence.issuer;
  IF (l.name IS NULL OR fence.lease_until(l, i) <= clock_timestamp())
    AND NOT EXISTS (SELECT FROM fence.ticket t WHERE t.name = lock_name AND t.waits AND t.expires_at > clock_timestamp()) THEN
    a := fence.lease_grant(lock_name, new_claim, new_holder, new_ttl, false, false);
    IF a.state = 'held' THEN
      RETURN a;
    END IF;
  END IF;
  IF queue OR a.state = 'busy' THEN
    INSERT INTO fence.ticket AS t (claim, name, waits, holder, ttl, expires_at)
      VALUES (new_claim, lock_name, true, new_holder, new_ttl, clock_timestamp() + new_ttl) RETURNING t.id INTO id;
  END IF;
  IF a.state = 'busy' THEN
    a.ticket := id; a.ahead := 0;
    RETURN a;
  END IF;
  RETURN fence.lease_queue(lock_name, id);
END $body$;

-- Takes the lock when it is the turn of a ticket. Patient, it waits in place for guarded transactions, holding the key
-- (1178947140, ticket), by which its backend is found. Asking again does no harm: what is held already is told again.
CREATE FUNCTION fence.lease_take(lock_name text, my_claim text, patient bool) RETURNS fence.lease_answer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $body$
DECLARE
  a fence.lease_answer;
  t fence.ticket;
BEGIN
  IF fence.issuer_moved() THEN
    a.state := 'again';
    RETURN a;
  END IF;
  SELECT * INTO t FROM fence.ticket k WHERE k.claim = my_claim AND k.waits AND k.expires_at > clock_timestamp();
  IF t.id IS NOT NULL AND patient THEN
    PERFORM set_config('lock_timeout', '0', true);
    PERFORM pg_advisory_xact_lock(1178947140, (t.id % 2147483648)::int4);
    SELECT * INTO t FROM fence.ticket k WHERE k.claim = my_claim AND k.expires_at > clock_timestamp();
  END IF;
  IF t.id IS NULL THEN
    -- Held already, by an answer that was lost: renewed, for the client counts from this question, and committed anew, for
    -- visible here is not yet safe elsewhere (syncrep.c SyncRepWaitForLSN can be cancelled).
    UPDATE fence.lease k SET expires_at = clock_timestamp() + k.ttl
      WHERE k.name = lock_name AND k.claim = my_claim AND k.expires_at > clock_timestamp() AND k.timeline = fence.timeline()
      RETURNING k.epoch, k.token INTO a.epoch, a.token;
    IF FOUND THEN
      PERFORM fence.durably();
      a.state := 'held';
    ELSE
      a.state := 'gone';
    END IF;
    RETURN a;
  END IF;
  a := fence.lease_queue(lock_name, t.id);
  IF a.ahead > 0 OR a.token IS NOT NULL THEN
    RETURN a;
  END IF;
  a := fence.lease_grant(lock_name, my_claim, t.holder, t.ttl, true, patient);
  IF a.state IS NULL THEN
    RETURN fence.lease_queue(lock_name, t.id);
  END IF;
  a.ticket := t.id;
  RETURN a;
END $body$;

-- Extends a claim, held or queued; false when it is gone.
CREATE FUNCTION fence.lease_renew(lock_name text, my_claim text) RETURNS bool
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $body$
BEGIN
  UPDATE fence.lease l SET expires_at = clock_timestamp() + l.ttl
    WHERE l.name = lock_name AND l.claim = my_claim AND l.expires_at > clock_timestamp() AND l.timeline = fence.timeline();
  IF FOUND THEN
    PERFORM fence.durably();
    RETURN true;
  END IF;
  UPDATE fence.ticket t SET expires_at = clock_timestamp() + t.ttl WHERE t.claim = my_claim AND t.expires_at > clock_timestamp();
  IF FOUND THEN
    RETURN true;
  END IF;
  -- The grant may have turned the ticket into the lease between the two.
  UPDATE fence.lease l SET expires_at = clock_timestamp() + l.ttl
    WHERE l.name = lock_name AND l.claim = my_claim AND l.expires_at > clock_timestamp() AND l.timeline = fence.timeline();
  IF FOUND THEN
    PERFORM fence.durably();
    RETURN true;
  END IF;
  -- The holder hears of it now: the next one need not wait for a lease that was lost by a promotion.
  UPDATE fence.lease l SET claim = NULL, holder = NULL, expires_at = clock_timestamp() WHERE l.name = lock_name AND l.claim = my_claim;
  IF FOUND THEN
    PERFORM fence.durably();
    PERFORM fence.lease_notify(lock_name);
  END IF;
  RETURN false;
END $body$;

-- Gives up a claim, held or queued; false when it was gone.
CREATE FUNCTION fence.lease_release(lock_name text, my_claim text) RETURNS bool
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $body$
DECLARE
  l fence.lease;
  was bool := false;
BEGIN
  DELETE FROM fence.ticket t WHERE t.claim = my_claim;   -- first: a take on its way does not find it any more
  was := FOUND;
  SELECT * INTO l FROM fence.lease k WHERE k.name = lock_name AND k.claim = my_claim FOR UPDATE;
  IF FOUND THEN
    was := l.expires_at > clock_timestamp() AND l.timeline = fence.timeline();
    UPDATE fence.lease k SET claim = NULL, holder = NULL, expires_at = clock_timestamp() WHERE k.name = lock_name;
    PERFORM fence.durably();
  END IF;
  IF was THEN
    PERFORM fence.lease_notify(lock_name);
  END IF;
  RETURN was;
END $body$;

-- Who holds the lock now. my_claim gets word of changes for the next ttl_ms.
CREATE FUNCTION fence.lease_watch(lock_name text, my_claim text, ttl_ms int8) RETURNS fence.lease_answer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $body$
DECLARE
  a fence.lease_answer;
BEGIN
  IF fence.issuer_moved() THEN
    a.state := 'again';
    RETURN a;
  END IF;
  INSERT INTO fence.ticket AS t (claim, name, waits, ttl, expires_at)
    VALUES (my_claim, lock_name, false, ttl_ms * interval '1 ms', clock_timestamp() + ttl_ms * interval '1 ms')
    ON CONFLICT (claim) DO UPDATE SET expires_at = EXCLUDED.expires_at;
  a := fence.lease_queue(lock_name, 0);
  a.state := CASE WHEN a.token IS NULL THEN 'vacant' ELSE 'held' END;
  RETURN a;
END $body$;

REVOKE ALL ON FUNCTION fence.timeline_number(text), fence.issuer_moved(), fence.durably(), fence.enter(text, bool), fence.issue(text, text),
  fence.lease_until(fence.lease, fence.issuer), fence.lease_notify(text), fence.mark_told(), fence.lease_grant(text, text, text, interval, bool, bool),
  fence.lease_queue(text, int8), fence.lease_request(text, text, text, int8, bool), fence.lease_take(text, text, bool),
  fence.lease_renew(text, text), fence.lease_release(text, text), fence.lease_watch(text, text, int8) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION fence.lease_request(text, text, text, int8, bool), fence.lease_take(text, text, bool),
  fence.lease_renew(text, text), fence.lease_release(text, text), fence.lease_watch(text, text, int8) TO fence_control;
GRANT SELECT ON fence.issuer, fence.lease, fence.ticket TO fence_control;
