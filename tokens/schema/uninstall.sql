DO $fence$
DECLARE
  r text;
BEGIN
  IF EXISTS (SELECT FROM pg_catalog.pg_namespace n WHERE n.nspname = 'fence' AND n.nspowner <> ALL
      (SELECT oid FROM pg_catalog.pg_roles WHERE rolname = 'fence_owner')) THEN
    RAISE EXCEPTION 'schema "fence" belongs to another role than fence_owner: not one that fenceproxy made' USING ERRCODE = 'ZF005';
  END IF;
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
