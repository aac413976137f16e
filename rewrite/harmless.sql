-- Makes harmless.txt: psql -XAtq -f harmless.sql > harmless.txt, on the oldest and the newest server supported, merged by hand
-- and read by a person. What is left out here is opaque, or in the list of writers in functions.go.
with candidate as (
    select proname,
           -- not callable from SQL, or runs the input and output code of any type
           prorettype = any ('{internal,cstring,trigger,event_trigger,language_handler,fdw_handler,index_am_handler,tsm_handler,table_am_handler}'::regtype[])
           or proargtypes::oid[] && '{internal,cstring}'::regtype[]::oid[] as internal
    from pg_proc
    where pronamespace = 'pg_catalog'::regnamespace
)
select proname
from candidate
group by proname
having not bool_and(internal)
   -- runs SQL that it is given, or reads a table that may be a view
   and proname !~ '^(query|cursor|table|schema|database)_to_xml'
   and proname not in ('ts_stat', 'ts_rewrite', 'set_config')
   -- loads code, or is for pg_upgrade only
   and proname !~ '(^binary_upgrade_|_validator$|^amvalidate$|^pg_input_)'
   -- writes: see writers in functions.go
   and proname not in ('nextval', 'setval', 'lo_creat', 'lo_create', 'lo_from_bytea', 'lo_put', 'lo_import', 'lo_unlink',
       'lo_truncate', 'lo_truncate64', 'lowrite', 'lo_open', 'lo_export', 'pg_extension_config_dump', 'pg_nextoid',
       'pg_stop_making_pinned_objects', 'pg_import_system_collations', 'gin_clean_pending_list', 'pg_promote', 'pg_switch_wal',
       'pg_create_restore_point', 'pg_reload_conf', 'pg_terminate_backend', 'pg_cancel_backend', 'pg_logical_emit_message',
       'pg_log_backend_memory_contexts')
   and proname !~ '^(pg_replication_origin_(advance|create|drop|session_reset|session_setup|xact_reset|xact_setup)|pg_(create|drop|copy)_.*slot|pg_replication_slot_advance|pg_logical_slot_|pg_sync_replication_slots|brin_(de)?summarize_|pg_backup_|pg_rotate_|pg_wal_replay_(pause|resume)|pg_stat_reset|pg_restore_|pg_clear_)'
order by proname;
