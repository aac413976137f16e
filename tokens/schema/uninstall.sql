DO $fence$
DECLARE
  r text;
  d record;
BEGIN
  IF EXISTS (SELECT FROM pg_catalog.pg_namespace n WHERE n.nspname = 'fence' AND n.nspowner <> ALL
      (SELECT oid FROM pg_catalog.pg_roles WHERE rolname = 'fence_owner')) THEN
    RAISE EXCEPTION 'schema "fence" belongs to another role than fence_owner: not one that fenceproxy made' USING ERRCODE = 'ZF005';
  END IF;
  -- CASCADE would leave columns of row tokens NOT NULL and without a default: every INSERT of the application would fail.
  FOR d IN
    SELECT a.attrelid::pg_catalog.regclass AS relation, a.attname FROM pg_catalog.pg_attrdef v
      JOIN pg_catalog.pg_attribute a ON a.attrelid = v.adrelid AND a.attnum = v.adnum
      JOIN pg_catalog.pg_depend u ON u.classid = 'pg_catalog.pg_attrdef'::pg_catalog.regclass AND u.objid = v.oid AND u.refclassid = 'pg_catalog.pg_proc'::pg_catalog.regclass
      JOIN pg_catalog.pg_proc p ON p.oid = u.refobjid JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace
    WHERE n.nspname = 'fence' AND p.proname = 'row_default'
  LOOP
    EXECUTE pg_catalog.format('ALTER TABLE ONLY %s ALTER COLUMN %I SET DEFAULT 0', d.relation, d.attname);
  END LOOP;
  DROP SCHEMA IF EXISTS fence CASCADE;
  -- The roles belong to the whole cluster: they stay while another database has a fence schema.
  FOREACH r IN ARRAY ARRAY['fence_operator', 'fence_control', 'fence_owner'] LOOP
    IF EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = r) THEN
      BEGIN
        EXECUTE pg_catalog.format('DROP ROLE %I', r);
      EXCEPTION WHEN dependent_objects_still_exist OR insufficient_privilege THEN
        RAISE NOTICE 'fence: left role %: %', r, SQLERRM;
      END;
    END IF;
  END LOOP;
END $fence$;
