#!/bin/sh
# Installs what tests, demo and benchmark need and this machine lacks: a PostgreSQL server, pgbouncer, a C compiler. Says exactly what to run when it may not or cannot.
#
#   test/stack/install.sh
set -u

missing=""
need() { missing="$missing $1"; }

ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1 || [ -n "${FENCEPROXY_TEST_PG:-}" ] || need postgresql
command -v psql >/dev/null 2>&1 || need postgresql-client
command -v gcc >/dev/null 2>&1 || command -v cc >/dev/null 2>&1 || need gcc
command -v pgbouncer >/dev/null 2>&1 || [ -x /usr/sbin/pgbouncer ] || need pgbouncer
if ! command -v go >/dev/null 2>&1; then
	echo "Go 1.26 or newer is needed: https://go.dev/doc/install" >&2
	exit 1
fi
[ -z "$missing" ] && exit 0

sudo=""
if [ "$(id -u)" != 0 ]; then
	sudo="sudo -n"
	if ! command -v sudo >/dev/null 2>&1 || ! sudo -n true 2>/dev/null; then
		echo "These packages are missing, and this user may not install them. Run as root:" >&2
		echo "  apt-get update && apt-get install -y$missing" >&2
		exit 1
	fi
fi
if ! command -v apt-get >/dev/null 2>&1; then
	echo "This machine has no apt-get. Install what these Debian packages hold:$missing" >&2
	exit 1
fi
echo "Installing:$missing" >&2
# The package's own cluster is of no use here, nor its service.
export DEBIAN_FRONTEND=noninteractive
if [ ! -e /etc/postgresql-common/createcluster.conf ] && [ ! -d /etc/postgresql ]; then
	$sudo mkdir -p /etc/postgresql-common
	echo 'create_main_cluster = false' | $sudo tee /etc/postgresql-common/createcluster.conf >/dev/null
fi
# shellcheck disable=SC2086 # a list of words
if ! { $sudo apt-get install -y --no-install-recommends -o Dpkg::Options::=--force-confold $missing >/dev/null 2>&1 ||
	{ $sudo apt-get update >/dev/null && $sudo apt-get install -y --no-install-recommends -o Dpkg::Options::=--force-confold $missing >/dev/null; }; }; then
	echo "That failed. Try by hand: apt-get update && apt-get install -y$missing" >&2
	exit 1
fi
