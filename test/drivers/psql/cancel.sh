#!/bin/sh
# Interrupts a psql whose statement runs, and prints the SQLSTATE that it shows.
errors=$(mktemp)
psql -X -v VERBOSITY=sqlstate -c 'SELECT pg_sleep(30)' >/dev/null 2>"$errors" &
sleeper=$!
while kill -0 $sleeper 2>/dev/null; do
	running=$(psql -XAtqc "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep'")
	[ "$running" = 0 ] || kill -INT $sleeper
	sleep 0.05
done
sed -n 's/ERROR: */cancel: /p' "$errors"
rm "$errors"
