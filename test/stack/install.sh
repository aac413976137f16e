#!/bin/sh
# Installs what tests, demo and benchmarks need and this machine lacks: a PostgreSQL server, pgbouncer, etcd, spin, a C
# compiler. Says exactly what to run when it may not or cannot. No service of these packages is started, now or at the next boot.
#
#   test/stack/install.sh
#   test/stack/install.sh drivers    also what test/drivers needs: drivers of six languages. What cannot be had is named, and
#                                    its tests are skipped
set -u

missing=""
need() { missing="$missing $1"; }

ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1 || [ -n "${FENCEPROXY_TEST_PG:-}" ] || need postgresql
command -v psql >/dev/null 2>&1 || need postgresql-client
command -v gcc >/dev/null 2>&1 || command -v cc >/dev/null 2>&1 || need gcc
command -v pgbouncer >/dev/null 2>&1 || [ -x /usr/sbin/pgbouncer ] || need pgbouncer
command -v etcd >/dev/null 2>&1 || need etcd-server
command -v spin >/dev/null 2>&1 || need spin
if ! command -v go >/dev/null 2>&1; then
	echo "Go 1.26 or newer is needed: https://go.dev/doc/install" >&2
	exit 1
fi

drivers=""
if [ "${1:-}" = drivers ]; then
	want() { drivers="$drivers $1"; }
	pg_config --includedir >/dev/null 2>&1 && [ -e "$(pg_config --includedir)/libpq-fe.h" ] || want libpq-dev
	/usr/bin/python3 -c 'import psycopg2' 2>/dev/null || want python3-psycopg2
	/usr/bin/perl -MDBD::Pg -e 1 2>/dev/null || want libdbd-pg-perl
	/usr/bin/ruby -rpg -e 1 2>/dev/null || want ruby-pg
	[ -e /usr/share/java/postgresql.jar ] || want libpostgresql-jdbc-java
	command -v javac >/dev/null 2>&1 || want default-jdk-headless
	command -v sqlsmith >/dev/null 2>&1 || want sqlsmith
	command -v node >/dev/null 2>&1 || want nodejs
	command -v npm >/dev/null 2>&1 || want npm
fi

# node_modules: the lock file has the versions and their sums.
node_modules() {
	[ "${1:-}" = drivers ] || return 0
	node=$(dirname "$0")/../drivers/node
	[ "$node/node_modules/.package-lock.json" -nt "$node/package-lock.json" ] && return 0
	command -v npm >/dev/null 2>&1 && (cd "$node" && npm ci --silent --no-audit --no-fund --ignore-scripts && touch node_modules/.package-lock.json) ||
		echo "npm ci in test/drivers/node failed: the tests of its drivers are skipped" >&2
}

if [ -z "$missing$drivers" ]; then
	node_modules "$@"
	exit 0
fi

sudo=""
if [ "$(id -u)" != 0 ]; then
	sudo="sudo -n"
	if ! command -v sudo >/dev/null 2>&1 || ! sudo -n true 2>/dev/null; then
		echo "These packages are missing, and this user may not install them. Run as root:" >&2
		echo "  apt-get update && apt-get install -y$missing$drivers" >&2
		[ -n "$missing" ] && exit 1
		node_modules "$@"
		exit 0
	fi
fi
if ! command -v apt-get >/dev/null 2>&1; then
	echo "This machine has no apt-get. Install what these Debian packages hold:$missing$drivers" >&2
	[ -n "$missing" ] && exit 1
	node_modules "$@"
	exit 0
fi
echo "Installing:$missing$drivers" >&2
export DEBIAN_FRONTEND=noninteractive
# PostgreSQL's own cluster is of no use here.
if [ ! -e /etc/postgresql-common/createcluster.conf ] && [ ! -d /etc/postgresql ]; then
	$sudo mkdir -p /etc/postgresql-common
	echo 'create_main_cluster = false' | $sudo tee /etc/postgresql-common/createcluster.conf >/dev/null
fi
# Nor are the services: a policy keeps dpkg from starting them (invoke-rc.d(8)), unless there is one already.
policy=/usr/sbin/policy-rc.d
if [ ! -e $policy ]; then
	trap '$sudo rm -f $policy' EXIT
	trap 'exit 1' HUP INT TERM
	printf '#!/bin/sh\nexit 101\n' | $sudo tee $policy >/dev/null
	$sudo chmod 755 $policy
fi
# shellcheck disable=SC2086 # a list of words
install() { $sudo apt-get install -y --no-install-recommends -o Dpkg::Options::=--force-confold "$@" >/dev/null; }
if ! { install $missing $drivers 2>/dev/null || { $sudo apt-get update >/dev/null && install $missing $drivers; }; }; then
	if [ -n "$missing" ] && ! install $missing; then
		echo "That failed. Try by hand: apt-get update && apt-get install -y$missing" >&2
		exit 1
	fi
	for package in $drivers; do # one that cannot be had must not keep the others out
		install "$package" || echo "$package cannot be installed: the tests that need it are skipped" >&2
	done
fi
node_modules "$@"
case $missing in *etcd-server*) $sudo update-rc.d etcd disable >/dev/null 2>&1 ;; esac
case $missing in *pgbouncer*) $sudo update-rc.d pgbouncer disable >/dev/null 2>&1 ;; esac
exit 0
