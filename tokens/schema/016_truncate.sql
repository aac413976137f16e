-- TRUNCATE of tables whose rows are all that is checked (on_stale: rewrite): rows that a newer token has written would go, and
-- no trigger for rows sees it. So it is guarded, as it is by the proxy.
CREATE FUNCTION fence.guard_truncate() RETURNS trigger
LANGUAGE plpgsql AS $body$
BEGIN
  PERFORM fence.guard_or_pass_by(TG_ARGV[1:], TG_ARGV[0]);
  RETURN NULL;
END $body$;

-- What is created below a table with this trigger gets one like it.
CREATE FUNCTION fence.inherit_truncate_guards(root oid) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
DECLARE
  r record;
  t record;
BEGIN
  FOR r IN
    WITH RECURSIVE below (relid, depth) AS (
      SELECT root, 0 UNION ALL SELECT i.inhrelid, b.depth + 1 FROM below b JOIN pg_inherits i ON i.inhparent = b.relid)
    SELECT b.relid FROM below b JOIN pg_class c ON c.oid = b.relid
    WHERE c.relpersistence <> 't' AND (c.relkind IN ('r', 'p') OR c.relkind = 'f' AND current_setting('server_version_num')::int4 >= 160000)
    GROUP BY b.relid ORDER BY max(b.depth)
  LOOP
    -- ENABLE ALWAYS below is DDL too: this function may have been here already, from within.
    CONTINUE WHEN EXISTS (SELECT FROM pg_trigger o WHERE o.tgrelid = r.relid AND o.tgname = 'fence_guard_truncate');
    SELECT p.tgenabled = 'A' AS always, (
        SELECT string_agg(quote_literal(u.arg), ', ' ORDER BY u.n) FROM unnest(fence.trigger_arguments(p.tgargs)) WITH ORDINALITY u (arg, n)) AS args
      INTO t FROM pg_inherits i JOIN pg_trigger p ON p.tgrelid = i.inhparent AND p.tgfoid = 'fence.guard_truncate'::regproc
      WHERE i.inhrelid = r.relid ORDER BY i.inhseqno LIMIT 1;
    CONTINUE WHEN NOT FOUND;
    EXECUTE format('CREATE TRIGGER fence_guard_truncate BEFORE TRUNCATE ON %s FOR EACH STATEMENT EXECUTE FUNCTION fence.guard_truncate(%s)',
      r.relid::regclass, t.args);
    IF t.always THEN
      EXECUTE format('ALTER TABLE %s ENABLE ALWAYS TRIGGER fence_guard_truncate', r.relid::regclass);
    END IF;
    RAISE NOTICE 'fence: guarded TRUNCATE of %', r.relid::regclass;
  END LOOP;
END $body$;

CREATE OR REPLACE FUNCTION fence.ddl_end() RETURNS event_trigger
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
      PERFORM fence.inherit_row_tokens(c.objid);
      PERFORM fence.inherit_truncate_guards(c.objid);
    END IF;
  END LOOP;
END $body$;

REVOKE ALL ON FUNCTION fence.guard_truncate(), fence.inherit_truncate_guards(oid) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION fence.guard_truncate(), fence.inherit_truncate_guards(oid) TO PUBLIC;
