-- What is made to inherit from a table with a trigger of row tokens gets one like it. Partitions have theirs already:
-- PostgreSQL clones row triggers to them (trigger.c, tablecmds.c CloneRowTriggersToPartition), and to no other child.
CREATE FUNCTION fence.inherit_row_tokens(root oid) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
DECLARE
  r record;
  t record;
BEGIN
  FOR r IN
    WITH RECURSIVE below (relid, depth) AS (
      SELECT root, 0 UNION ALL SELECT i.inhrelid, b.depth + 1 FROM below b JOIN pg_inherits i ON i.inhparent = b.relid)
    SELECT b.relid FROM below b JOIN pg_class c ON c.oid = b.relid
    WHERE c.relpersistence <> 't' AND NOT c.relispartition
    GROUP BY b.relid ORDER BY max(b.depth)
  LOOP
    -- ENABLE ALWAYS below is DDL too: this function may have been here already, from within.
    CONTINUE WHEN EXISTS (SELECT FROM pg_trigger o WHERE o.tgrelid = r.relid AND o.tgname = 'fence_row_token');
    SELECT p.tgfoid::regproc AS function, p.tgenabled = 'A' AS always, (
        SELECT string_agg(quote_literal(u.arg), ', ' ORDER BY u.n) FROM unnest(fence.trigger_arguments(p.tgargs)) WITH ORDINALITY u (arg, n)) AS args
      INTO t FROM pg_inherits i JOIN pg_trigger p ON p.tgrelid = i.inhparent AND p.tgname = 'fence_row_token'
        JOIN pg_proc f ON f.oid = p.tgfoid AND f.pronamespace = 'fence'::regnamespace
      WHERE i.inhrelid = r.relid ORDER BY i.inhseqno LIMIT 1;
    CONTINUE WHEN NOT FOUND;
    EXECUTE format('CREATE TRIGGER fence_row_token BEFORE INSERT OR UPDATE OR DELETE ON %s FOR EACH ROW EXECUTE FUNCTION %s(%s)',
      r.relid::regclass, t.function, t.args);
    IF t.always THEN
      EXECUTE format('ALTER TABLE %s ENABLE ALWAYS TRIGGER fence_row_token', r.relid::regclass);
    END IF;
    RAISE NOTICE 'fence: put row tokens on %', r.relid::regclass;
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
    END IF;
  END LOOP;
END $body$;

REVOKE ALL ON FUNCTION fence.inherit_row_tokens(oid) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION fence.inherit_row_tokens(oid) TO PUBLIC;
