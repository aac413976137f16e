-- What an operator, and a raise that waits, can see.

-- Who keeps a raise of the fence waiting: granted locks of its key, shared or exclusive, of a transaction or a session.
-- Not pg_blocking_pids: that names the raises queued ahead too, and nothing for a prepared transaction, which has a gid
-- here and no pid. With a waiter (a backend's pid) only while that backend waits for the key, in the same look at the
-- lock table: what is granted then is in its way, and not the new holder's. SECURITY INVOKER: state and wait_event of
-- others need pg_read_all_stats.
CREATE FUNCTION fence.blockers(fence_name text, waiter int4)
RETURNS TABLE (pid int4, gid text, role text, application text, state text, wait_event text, since timestamptz, exclusive bool)
LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $body$
  WITH l AS MATERIALIZED (SELECT * FROM pg_locks),
  k AS (
    SELECT l.* FROM fence.mark m JOIN l ON l.locktype = 'advisory' AND l.classid = 1178947139 AND l.objid = m.id::oid AND l.objsubid = 2
    WHERE m.name = fence_name AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database()))
  SELECT k.pid, x.gid, coalesce(a.usename, x.owner)::text, a.application_name, a.state, a.wait_event,
    coalesce(a.xact_start, x.prepared), k.mode = 'ExclusiveLock'
  FROM k
  LEFT JOIN pg_stat_activity a ON a.pid = k.pid
  LEFT JOIN l t ON k.pid IS NULL AND t.pid IS NULL AND t.locktype = 'transactionid' AND t.virtualtransaction = k.virtualtransaction
  LEFT JOIN pg_prepared_xacts x ON x.transaction = t.transactionid
  WHERE k.granted AND k.pid IS DISTINCT FROM pg_backend_pid()
    AND (waiter IS NULL OR EXISTS (SELECT FROM k w WHERE w.pid = waiter AND NOT w.granted))
$body$;

-- The marks (of one fence, or of all for NULL), with the number of transactions guarded and of raises waiting now.
CREATE FUNCTION fence.status(fence_name text)
RETURNS TABLE (id int4, name text, epoch int8, token int8, holder text, raised_at timestamptz, raised_by text, guarded int8, waiting int8)
LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $body$
  SELECT m.id, m.name, m.epoch, m.token, m.holder, m.raised_at, m.raised_by::text,
    count(l.objid) FILTER (WHERE l.granted AND l.mode = 'ShareLock'), count(l.objid) FILTER (WHERE NOT l.granted AND l.mode = 'ExclusiveLock')
  FROM fence.mark m
  LEFT JOIN pg_locks l ON l.locktype = 'advisory' AND l.classid = 1178947139 AND l.objid = m.id::oid AND l.objsubid = 2
    AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
  WHERE fence_name IS NULL OR m.name = fence_name
  GROUP BY m.id ORDER BY m.name
$body$;

REVOKE ALL ON FUNCTION fence.blockers(text, int4), fence.status(text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION fence.blockers(text, int4), fence.status(text) TO fence_control;
