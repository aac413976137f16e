-- Triggers on fenced tables: the guard for writes whose text no proxy has seen. Who installs them: package
-- tokens/triggers, and fence.ddl_end for what is created later.
--
-- Their arguments: the fence of bare tokens ('' for none), then the fences of the table in the order of bytes.

-- Roles that may write fenced tables without a token, once they say why (fence.bypass).
CREATE TABLE fence.bypass (
  role       name        NOT NULL PRIMARY KEY,
  note       text        NOT NULL,
  allowed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  allowed_by name        NOT NULL DEFAULT session_user
);

-- The newest 1000 uses: one row for each session, fence and reason. Not in fence.history, where a migration by many
-- sessions would push the marks out, and where a raise would wait for the migration's own rows.
CREATE TABLE fence.bypassed (
  id          int8        NOT NULL GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  fence       text        COLLATE "C" NOT NULL,
  at          timestamptz NOT NULL DEFAULT clock_timestamp(),
  role        name        NOT NULL DEFAULT session_user,
  pid         int4        NOT NULL DEFAULT pg_backend_pid(),
  started     timestamptz NOT NULL, -- of the session, since pids come again
  application text        NOT NULL,
  reason      text        NOT NULL
);
CREATE INDEX bypassed_session ON fence.bypassed (pid, started);

CREATE FUNCTION fence.allow_bypass(role_name text, why text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $body$
BEGIN
  IF NOT EXISTS (SELECT FROM pg_roles r WHERE r.rolname = role_name) THEN
    RAISE EXCEPTION 'role "%" does not exist', role_name USING ERRCODE = '42704';
  END IF;
  IF coalesce(btrim(why), '') = '' THEN
    RAISE EXCEPTION 'a role is let past the fences for a reason: give one' USING ERRCODE = 'ZF003';
  END IF;
  INSERT INTO fence.bypass AS b (role, note) VALUES (role_name, why)
    ON CONFLICT (role) DO UPDATE SET note = excluded.note, allowed_at = clock_timestamp(), allowed_by = session_user;
END $body$;

-- True when the role was allowed to.
CREATE FUNCTION fence.forbid_bypass(role_name text) RETURNS bool
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $body$
BEGIN
  DELETE FROM fence.bypass b WHERE b.role = role_name;
  RETURN FOUND;
END $body$;

-- Lets the session past the fences and writes it down, or refuses. The role that counts is session_user: it is the one
-- that has logged in, whatever SET ROLE and SECURITY DEFINER make of it. No lock: a migration neither waits for a
-- takeover nor is ended by one.
CREATE FUNCTION fence.pass_by(fences text[], reason text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $body$
#variable_conflict use_variable
DECLARE
  began timestamptz;
  f text;
BEGIN
  IF NOT EXISTS (SELECT FROM fence.bypass b WHERE b.role = session_user) THEN
    RAISE EXCEPTION 'role "%" may not bypass fences (%)', session_user, array_to_string(fences, ', ') USING ERRCODE = 'ZF004',
      HINT = format('An operator allows it: SELECT fence.allow_bypass(%L, ''why'').', session_user);
  END IF;
  reason := left(reason, 1000);
  SELECT a.backend_start INTO began FROM pg_stat_get_activity(pg_backend_pid()) a;
  began := coalesce(began, 'epoch');
  FOREACH f IN ARRAY fences LOOP
    CONTINUE WHEN EXISTS (SELECT FROM fence.bypassed b
      WHERE b.pid = pg_backend_pid() AND b.started = began AND b.fence = f AND b.reason = reason);
    INSERT INTO fence.bypassed (fence, started, application, reason)
      VALUES (f, began, left(current_setting('application_name'), 100), reason);
    RAISE LOG 'fence "%" bypassed by role "%": %', f, session_user, reason;
    -- What another session is about to delete is left to it: nobody waits.
    DELETE FROM fence.bypassed b WHERE b.id IN
      (SELECT o.id FROM fence.bypassed o WHERE o.id <= (SELECT i.id FROM fence.bypassed i ORDER BY i.id DESC OFFSET 1000 LIMIT 1)
       FOR UPDATE SKIP LOCKED);
  END LOOP;
END $body$;

-- A guard that may be bypassed. No SET clause and no SECURITY DEFINER, for speed: every name is qualified. A fence whose
-- name has a * is one for each name that it matches.
CREATE FUNCTION fence.guard_or_pass_by(fences text[], bare text) RETURNS void
LANGUAGE plpgsql AS $body$
DECLARE
  reason pg_catalog.text := pg_catalog.btrim(pg_catalog.current_setting('fence.bypass', true));
  f pg_catalog.text;
BEGIN
  IF reason OPERATOR(pg_catalog.<>) '' THEN
    PERFORM fence.pass_by(fences, reason);
  ELSIF pg_catalog.strpos(pg_catalog.array_to_string(fences, ','), '*') OPERATOR(pg_catalog.=) 0 THEN
    PERFORM fence.guard(fences, bare);
  ELSE
    FOREACH f IN ARRAY fences LOOP
      IF pg_catalog.strpos(f, '*') OPERATOR(pg_catalog.>) 0 THEN
        PERFORM fence.guard_pattern(f, bare, false);
      ELSE
        PERFORM fence.guard(ARRAY[f], bare);
      END IF;
    END LOOP;
  END IF;
END $body$;

-- The fast way to pass: locks, reads the mark in the next statement, and looks for exactly this mark in the session's
-- token, which needs no parser. False is no refusal: guard_or_pass_by knows.
CREATE FUNCTION fence.has_mark(f text, bare text) RETURNS bool
LANGUAGE plpgsql AS $body$
DECLARE
  raw pg_catalog.text := pg_catalog.current_setting('fence.token', true);
  mark_id pg_catalog.int4;
BEGIN
  SELECT m.id INTO mark_id FROM fence.mark m WHERE m.name OPERATOR(pg_catalog.=) f;
  IF pg_catalog.pg_advisory_xact_lock_shared(1178947139, mark_id) IS NOT NULL THEN -- strict: NULL without a mark
    PERFORM 1 FROM fence.mark m,
        LATERAL (SELECT CASE WHEN m.epoch OPERATOR(pg_catalog.=) 0 THEN m.token::pg_catalog.text
          ELSE m.epoch::pg_catalog.text OPERATOR(pg_catalog.||) '.' OPERATOR(pg_catalog.||) m.token::pg_catalog.text END AS item) t
      WHERE m.id OPERATOR(pg_catalog.=) mark_id AND m.name OPERATOR(pg_catalog.=) f
        AND CASE WHEN raw OPERATOR(pg_catalog.=) t.item THEN bare OPERATOR(pg_catalog.=) f
          ELSE pg_catalog.strpos(',' OPERATOR(pg_catalog.||) raw OPERATOR(pg_catalog.||) ',',
            ',' OPERATOR(pg_catalog.||) f OPERATOR(pg_catalog.||) '=' OPERATOR(pg_catalog.||) t.item OPERATOR(pg_catalog.||) ',') OPERATOR(pg_catalog.>) 0 END
        AND (m.xmax OPERATOR(pg_catalog.=) '0'::pg_catalog.xid
          OR pg_catalog.current_setting('transaction_isolation') OPERATOR(pg_catalog.=) 'read committed')
        AND (m.timeline IS NULL OR m.timeline OPERATOR(pg_catalog.=)
          pg_catalog.left(pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_insert_lsn()), 8));
    RETURN FOUND;
  END IF;
  RETURN false;
END $body$;

-- The statement trigger. It checks at each statement, although the transaction may hold the lock already: what could say
-- so at less cost, a setting, is one that an application could forge. A session that asks for a bypass takes no lock.
CREATE FUNCTION fence.guard_write() RETURNS trigger
LANGUAGE plpgsql AS $body$
BEGIN
  IF TG_NARGS OPERATOR(pg_catalog.=) 2 AND (pg_catalog.current_setting('fence.bypass', true) OPERATOR(pg_catalog.<>) '') IS NOT TRUE
    AND fence.has_mark(TG_ARGV[1], TG_ARGV[0])
  THEN
    RETURN NULL;
  END IF;
  PERFORM fence.guard_or_pass_by(TG_ARGV[1:], TG_ARGV[0]);
  RETURN NULL;
END $body$;

-- The row trigger, for a fenced table below one that is not: statement triggers fire only for the table that the
-- statement names.
CREATE FUNCTION fence.guard_row() RETURNS trigger
LANGUAGE plpgsql AS $body$
BEGIN
  IF NOT (TG_NARGS OPERATOR(pg_catalog.=) 2 AND (pg_catalog.current_setting('fence.bypass', true) OPERATOR(pg_catalog.<>) '') IS NOT TRUE
    AND fence.has_mark(TG_ARGV[1], TG_ARGV[0]))
  THEN
    PERFORM fence.guard_or_pass_by(TG_ARGV[1:], TG_ARGV[0]);
  END IF;
  IF TG_OP OPERATOR(pg_catalog.=) 'DELETE' THEN
    RETURN OLD;
  END IF;
  RETURN NEW;
END $body$;

-- The arguments of a trigger as a list. Fence names have nothing that the format 'escape' would change.
CREATE FUNCTION fence.trigger_arguments(args bytea) RETURNS text[]
LANGUAGE sql IMMUTABLE AS $body$
  SELECT pg_catalog.trim_array(pg_catalog.string_to_array(pg_catalog.encode(args, 'escape'), pg_catalog.chr(92) OPERATOR(pg_catalog.||) '000'), 1)
$body$;

-- Gives relations that came to stand below a guarded table the guard of their parents. SECURITY INVOKER: who may create
-- or attach a partition owns it.
CREATE FUNCTION fence.inherit_guards(root oid) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
DECLARE
  r record;
  list text;
BEGIN
  FOR r IN
    WITH RECURSIVE below (relid, depth) AS (
      SELECT root, 0 UNION ALL SELECT i.inhrelid, b.depth + 1 FROM below b JOIN pg_inherits i ON i.inhparent = b.relid)
    SELECT b.relid, c.relkind FROM below b JOIN pg_class c ON c.oid = b.relid
    WHERE c.relpersistence <> 't' AND NOT EXISTS (SELECT FROM pg_trigger t WHERE t.tgrelid = b.relid AND t.tgfoid = 'fence.guard_write'::regproc)
    GROUP BY b.relid, c.relkind ORDER BY max(b.depth)
  LOOP
    -- ENABLE ALWAYS below is DDL too: this function may have been here already, from within.
    CONTINUE WHEN EXISTS (SELECT FROM pg_trigger t WHERE t.tgrelid = r.relid AND t.tgfoid = 'fence.guard_write'::regproc);
    -- From what its parents have by now: the order above puts parents first.
    SELECT string_agg(quote_literal(a.arg), ', ' ORDER BY a.first DESC, a.arg COLLATE "C") INTO list
    FROM (SELECT DISTINCT u.arg, u.n = 1 AS first
      FROM pg_inherits i JOIN pg_trigger t ON t.tgrelid = i.inhparent AND t.tgfoid = 'fence.guard_write'::regproc,
        unnest(fence.trigger_arguments(t.tgargs)) WITH ORDINALITY u (arg, n)
      WHERE i.inhrelid = r.relid) a;
    CONTINUE WHEN list IS NULL;
    EXECUTE format('CREATE TRIGGER fence_guard BEFORE INSERT OR UPDATE OR DELETE%s ON %s FOR EACH STATEMENT EXECUTE FUNCTION fence.guard_write(%s)',
      CASE WHEN r.relkind = 'f' AND current_setting('server_version_num')::int4 < 160000 THEN '' ELSE ' OR TRUNCATE' END,
      r.relid::regclass, list);
    IF EXISTS (SELECT FROM pg_inherits i JOIN pg_trigger t ON t.tgrelid = i.inhparent AND t.tgfoid = 'fence.guard_write'::regproc
        WHERE i.inhrelid = r.relid AND t.tgenabled = 'A') THEN
      EXECUTE format('ALTER TABLE %s ENABLE ALWAYS TRIGGER fence_guard', r.relid::regclass);
    END IF;
    RAISE NOTICE 'fence: put a guard on %', r.relid::regclass;
  END LOOP;
  -- What was attached to a table that is not fenced.
  FOR r IN
    SELECT t.tgrelid AS relid, t.tgenabled, array_to_string(ARRAY(
      SELECT quote_literal(u.arg) FROM unnest(fence.trigger_arguments(t.tgargs)) WITH ORDINALITY u (arg, n) ORDER BY u.n), ', ') AS args
    FROM (SELECT root AS relid UNION SELECT i.inhrelid FROM pg_inherits i WHERE i.inhparent = root) b
    JOIN pg_trigger t ON t.tgrelid = b.relid AND t.tgfoid = 'fence.guard_write'::regproc
    WHERE EXISTS (SELECT FROM pg_inherits i WHERE i.inhrelid = b.relid
        AND NOT EXISTS (SELECT FROM pg_trigger p WHERE p.tgrelid = i.inhparent AND p.tgfoid = 'fence.guard_write'::regproc))
      AND NOT EXISTS (SELECT FROM pg_trigger o WHERE o.tgrelid = b.relid AND o.tgfoid = 'fence.guard_row'::regproc)
  LOOP
    CONTINUE WHEN EXISTS (SELECT FROM pg_trigger t WHERE t.tgrelid = r.relid AND t.tgfoid = 'fence.guard_row'::regproc);
    EXECUTE format('CREATE TRIGGER fence_guard_row BEFORE INSERT OR UPDATE OR DELETE ON %s FOR EACH ROW EXECUTE FUNCTION fence.guard_row(%s)',
      r.relid::regclass, r.args);
    IF r.tgenabled = 'A' THEN
      EXECUTE format('ALTER TABLE %s ENABLE ALWAYS TRIGGER fence_guard_row', r.relid::regclass);
    END IF;
    RAISE NOTICE 'fence: put a guard on each row of %', r.relid::regclass;
  END LOOP;
END $body$;

-- The event triggers' functions; only a superuser can make event triggers of them. What changes the catalog tells those
-- who listen; a session's temporary tables are nobody's business.
CREATE FUNCTION fence.ddl_end() RETURNS event_trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
DECLARE
  c record;
  told bool := false;
BEGIN
  FOR c IN SELECT * FROM pg_event_trigger_ddl_commands() LOOP
    CONTINUE WHEN c.schema_name = 'pg_temp';
    IF NOT told THEN
      PERFORM pg_notify('fence_ddl', '');
      told := true;
    END IF;
    IF c.classid = 'pg_class'::regclass AND c.command_tag IN ('CREATE TABLE', 'CREATE FOREIGN TABLE', 'ALTER TABLE', 'ALTER FOREIGN TABLE') THEN
      PERFORM fence.inherit_guards(c.objid);
    END IF;
  END LOOP;
END $body$;

CREATE FUNCTION fence.ddl_drop() RETURNS event_trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
BEGIN
  IF EXISTS (SELECT FROM pg_event_trigger_dropped_objects() o WHERE NOT o.is_temporary) THEN
    PERFORM pg_notify('fence_ddl', '');
  END IF;
END $body$;

-- EXECUTE on the trigger functions lets a table's owner put the guard on his own table.
REVOKE ALL ON FUNCTION fence.allow_bypass(text, text), fence.forbid_bypass(text), fence.pass_by(text[], text),
  fence.guard_or_pass_by(text[], text), fence.has_mark(text, text), fence.guard_write(), fence.guard_row(), fence.trigger_arguments(bytea),
  fence.inherit_guards(oid), fence.ddl_end(), fence.ddl_drop() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION fence.pass_by(text[], text), fence.guard_or_pass_by(text[], text), fence.has_mark(text, text), fence.guard_write(), fence.guard_row(),
  fence.trigger_arguments(bytea), fence.inherit_guards(oid), fence.ddl_end(), fence.ddl_drop() TO PUBLIC;
GRANT EXECUTE ON FUNCTION fence.allow_bypass(text, text), fence.forbid_bypass(text) TO fence_operator;
GRANT SELECT ON fence.bypass, fence.bypassed TO fence_control;
