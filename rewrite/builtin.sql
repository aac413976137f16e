-- Makes builtin.txt: psql -XAtq -f builtin.sql > builtin.txt, on the oldest and the newest server supported, merged by hand. The
-- operators and types that every database has; what an application adds to them may run its functions.
select 'operator ' || oprname from pg_operator where oprnamespace = 'pg_catalog'::regnamespace
union
select 'type ' || typname from pg_type
where typnamespace = 'pg_catalog'::regnamespace and typrelid = 0
  and (typtype in ('b', 'r', 'm') and typname !~ '^_' or typname in ('record', 'unknown', 'void'))
order by 1;
