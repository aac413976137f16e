-- fence_owner owns the schema and nobody logs in as it; fence_control raises marks and watches; fence_operator is a
-- fence_control that may raise epochs too. Applications need no role: PUBLIC may guard and read marks.
DO $fence$
DECLARE
  r text;
BEGIN
  FOREACH r IN ARRAY ARRAY['fence_owner', 'fence_control', 'fence_operator'] LOOP
    IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = r) THEN
      BEGIN
        EXECUTE pg_catalog.format('CREATE ROLE %I NOLOGIN', r);
        RAISE NOTICE 'fence: created role %', r;
      EXCEPTION WHEN insufficient_privilege THEN
        RAISE EXCEPTION 'role % is missing and % may not create it', r, current_user USING ERRCODE = '42501',
          HINT = 'A role with CREATEROLE can. Or let a DBA run: CREATE ROLE fence_owner NOLOGIN; CREATE ROLE fence_control NOLOGIN; CREATE ROLE fence_operator NOLOGIN; GRANT fence_control TO fence_operator; GRANT fence_owner TO ' || pg_catalog.quote_ident(current_user) || ';';
      -- The roles are the cluster's: an installer in another database has just made it (user.c CreateRole looks, and then
      -- the index refuses the second one, after waiting for the first).
      WHEN duplicate_object OR unique_violation THEN
        NULL;
      END;
    END IF;
  END LOOP;
  IF NOT pg_catalog.pg_has_role('fence_operator', 'fence_control', 'MEMBER') THEN
    BEGIN
      GRANT fence_control TO fence_operator;
    EXCEPTION WHEN unique_violation THEN  -- just so (user.c AddRoleMems)
      NULL;
    END;
  END IF;
  -- From 16 on, who creates a role may administer it but not act as it (createrole_self_grant), which CREATE SCHEMA
  -- AUTHORIZATION and SET ROLE below need.
  IF NOT pg_catalog.pg_has_role(current_user, 'fence_owner',
      CASE WHEN pg_catalog.current_setting('server_version_num')::int4 >= 160000 THEN 'SET' ELSE 'MEMBER' END) THEN
    BEGIN
      EXECUTE pg_catalog.format('GRANT fence_owner TO %I', current_user);
    EXCEPTION WHEN unique_violation THEN
      NULL;
    END;
  END IF;
  IF EXISTS (SELECT FROM pg_catalog.pg_namespace n WHERE n.nspname = 'fence' AND n.nspowner <> 'fence_owner'::pg_catalog.regrole) THEN
    RAISE EXCEPTION 'schema "fence" exists and belongs to another role than fence_owner' USING ERRCODE = 'ZF005',
      HINT = 'It is not one that fenceproxy made. Rename it, or use another database.';
  END IF;
  IF NOT EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = 'fence') THEN
    CREATE SCHEMA fence AUTHORIZATION fence_owner;
  END IF;
END $fence$;
