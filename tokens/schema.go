package tokens

import (
	"embed"
	"fmt"
	"strconv"
	"strings"
)

// The files NNN_*.sql are the versions of the schema: version n is what the first n files make. A released file never
// changes; what comes later is a file of its own. Bodies in them are quoted with $body$.
//
//go:embed schema/*.sql
var schemaFiles embed.FS

var versions = readVersions()

func readVersions() (texts []string) {
	entries, err := schemaFiles.ReadDir("schema") // sorted by name
	if err != nil {
		panic(err)
	}
	for _, e := range entries {
		number, _, ok := strings.Cut(e.Name(), "_")
		if n, err := strconv.Atoi(number); !ok || err != nil {
			continue // roles.sql, uninstall.sql
		} else if n != len(texts)+1 {
			panic("schema files are not numbered one by one: " + e.Name())
		}
		texts = append(texts, schemaFile(e.Name()))
	}
	return texts
}

func schemaFile(name string) string {
	text, err := schemaFiles.ReadFile("schema/" + name)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// SchemaVersion is the version of the fence schema that this binary installs and works with.
func SchemaVersion() int { return len(versions) }

// InstallSQL is what Install runs: one transaction, for psql or any other client, that may be run again at any time.
func InstallSQL() string { return installSQL(versions) }

// UninstallSQL is what Uninstall runs: one transaction.
func UninstallSQL() string {
	return begin + schemaFile("uninstall.sql") + "COMMIT;\n"
}

// Two installers at a time would trip over each other. The key's second half is never a mark's id: those start at 1.
const begin = `BEGIN;
SET LOCAL search_path = pg_catalog, pg_temp;
SET LOCAL standard_conforming_strings = on;
SET LOCAL check_function_bodies = on;
SET LOCAL lock_timeout = 0;
DO $fence$ BEGIN PERFORM pg_catalog.pg_advisory_xact_lock(1178947139, 0); END $fence$;
`

func installSQL(versions []string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "-- The fence schema of fenceproxy, version %d. Installs, upgrades, or changes nothing.\n", len(versions))
	b.WriteString(begin)
	b.WriteString(schemaFile("roles.sql"))
	b.WriteString("SET LOCAL ROLE fence_owner;\n")
	b.WriteString(`DO $fence$
DECLARE
  installed int4 := 0;
BEGIN
  IF pg_catalog.to_regclass('fence.version') IS NOT NULL THEN
    EXECUTE 'SELECT coalesce(max(version), 0) FROM fence.version' INTO installed;
  END IF;
`)
	fmt.Fprintf(&b, `  IF installed > %d THEN
    RAISE EXCEPTION 'the fence schema has version %%, newer than this fenceproxy, which knows %d', installed
      USING ERRCODE = 'ZF005', HINT = 'Use a fenceproxy as new as the schema.';
  END IF;
`, len(versions), len(versions))
	for i, text := range versions {
		fmt.Fprintf(&b, `  IF installed < %[1]d THEN
    EXECUTE $version_%[1]d$
%[2]s    $version_%[1]d$;
    INSERT INTO fence.version (version) VALUES (%[1]d);
    RAISE NOTICE 'fence: applied version %[1]d';
  END IF;
`, i+1, text)
	}
	b.WriteString("END $fence$;\nCOMMIT;\n")
	return b.String()
}
