-- What an operator, and a raise that waits, can see.

-- Who keeps a raise of the fence waiting: granted locks of its key, shared or exclusive, of a transaction or a session.
-- Not pg_blocking_pids: that names the raises queued ahead too, and nothing for a prepared transaction, which has a gid
-- here and no pid. SECURITY INVOKER: others' role and state need pg_read_all_stats.
CREATE FUNCTION fence.blockers(fence_name text)
RETURNS TABLE (pid int4, gid text, role text, application text, state text, wait_event text, since timestamptz, mode text)
LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $body$
  SELECT l.pid, x.gid, coalesce(a.usename, x.owner)::text, a.application_name, a.state, a.wait_event,
    coalesce(a.xact_start, x.prepared), CASE l.mode WHEN 'ShareLock' THEN 'shared' ELSE 'exclusive' END
  FROM fence.mark m
  JOIN pg_locks l ON l.locktype = 'advisory' AND l.granted AND l.classid = 1178947139 AND l.objid = m.id::oid AND l.objsubid = 2
    AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
  LEFT JOIN pg_stat_activity a ON a.pid = l.pid
  LEFT JOIN pg_locks t ON l.pid IS NULL AND t.pid IS NULL AND t.locktype = 'transactionid' AND t.virtualtransaction = l.virtualtransaction
  LEFT JOIN pg_prepared_xacts x ON x.transaction = t.transactionid
  WHERE m.name = fence_name AND l.pid IS DISTINCT FROM pg_backend_pid()
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

REVOKE ALL ON FUNCTION fence.blockers(text), fence.status(text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION fence.blockers(text), fence.status(text) TO fence_control;
