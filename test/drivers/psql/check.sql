-- The program of package drivers for psql: psql -X -q -f check.sql. Errors go to stderr as psql writes them.
\set QUIET on
\pset tuples_only on
\pset format unaligned

INSERT INTO ledger (note) VALUES ('no token');
\echo 'no token:' :SQLSTATE
SET fence.token = '10';
INSERT INTO ledger (note) VALUES ('token by SET');
\echo 'token by SET:' :SQLSTATE

\connect "options='-c fence.token=10'"
SELECT current_setting('fence.token') AS token \gset
\echo 'token at connect:' :token
INSERT INTO ledger (note) VALUES ('write');
\echo 'write:' :SQLSTATE
PREPARE write (text) AS INSERT INTO ledger (note) VALUES ($1);
EXECUTE write ('prepared write');
EXECUTE write ('prepared write');
EXECUTE write ('prepared write');
\echo 'prepared write:' :SQLSTATE
BEGIN;
INSERT INTO ledger (note) VALUES ('commit');
COMMIT;
\echo 'commit:' :SQLSTATE
BEGIN;
INSERT INTO ledger (note) VALUES ('rollback');
ROLLBACK;
\echo 'rollback:' :SQLSTATE
COPY ledger (note) FROM STDIN;
copy in
copy in
\.
\echo 'copy in:' :SQLSTATE
\echo -n 'copy out: '
\copy (SELECT note FROM ledger WHERE note = 'write') TO STDOUT
-- SIGINT, as Ctrl-C sends it, once the statement runs.
\! sh cancel.sh

\setenv PGOPTIONS '-c fence.token=20'
\! psql -XAtqc "SELECT 'takeover: ' || current_setting('fence.token')"

INSERT INTO ledger (note) VALUES ('stale write');
\echo 'stale write:' :SQLSTATE
EXECUTE write ('stale prepared write');
\echo 'stale prepared write:' :SQLSTATE
BEGIN;
INSERT INTO ledger (note) VALUES ('stale transaction');
\echo 'stale transaction:' :SQLSTATE
SELECT 1;
\echo 'behind the refusal:' :SQLSTATE
ROLLBACK;
\copy ledger (note) FROM PROGRAM 'yes "stale copy in" | head -2'
\echo 'stale copy in:' :SQLSTATE
\setenv PGOPTIONS '-c fence.token=15'
\! psql -X -c 'SELECT 1' 2>&1 | sed -n 's/.*FATAL: */stale connect: /p'
SELECT 42 AS answer \gset
\echo 'usable after refusal:' :answer
\setenv PGOPTIONS ''
\connect "options=''"
SET fence.token = '15';
\echo 'stale SET:' :SQLSTATE
\connect "options='-c fence.token=20'"
INSERT INTO ledger (note) VALUES ('new holder''s write');
\echo 'new holder''s write:' :SQLSTATE
