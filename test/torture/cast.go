package torture

import "fmt"

// Whence an actor has its tokens.
type service string

const (
	direct service = "direct" // a counter: whoever wants the lock has it, so that everybody before is a zombie
	leases service = "leases" // the lease table, by package lockclient
	etcd   service = "etcd"   // etcd, by package lockclient
	psql   service = "psql"   // psql under fenceproxy run, with a lock of the lease table
)

// stage is a fence and the service that gives its tokens. Its tables are in a schema of the same name.
type stage struct {
	Fence   string
	Service service
}

var stages = []stage{
	{"d0", direct}, {"d1", direct}, {"d2", direct}, {"d3", direct}, {"d4", direct}, {"d5", direct}, {"d6", direct}, {"d7", direct},
	{"lease", leases}, {"etcd", etcd}, {"run", psql},
}

// companion is a fence whose mark is always 1: some sessions have its token too.
const companion = "side"

// part is what one actor of a worker plays.
type part struct {
	Actor int
	stage
}

// cast gives a worker its parts: one at each fence, psql to the first two workers only, for a psql costs three processes.
func cast(worker int) (parts []part) {
	for i, s := range stages {
		if s.Service != psql || worker < 2 {
			parts = append(parts, part{i, s})
		}
	}
	return parts
}

const accounts, opening = 8, 1000

// tables of a fence. tok and tx are the writer's own: what it believes its token to be, and an id of its transaction.
func (s stage) tables() string {
	return fmt.Sprintf(`
CREATE SCHEMA %[1]s;
CREATE TABLE %[1]s.head (id int PRIMARY KEY, el bigint, prev bigint, tok text, tx bigint);
CREATE TABLE %[1]s.acct (id int PRIMARY KEY, bal bigint, tok text, tx bigint);
CREATE TABLE %[1]s.els (gen int PRIMARY KEY, list bigint[], tok text, tx bigint);
CREATE TABLE %[1]s.log (n bigint, tok text, tx bigint);
CREATE FUNCTION %[1]s.put(n bigint, tok text, tx bigint) RETURNS bigint LANGUAGE plpgsql AS 'BEGIN INSERT INTO %[1]s.log VALUES (n, tok, tx); RETURN n; END';
CREATE PROCEDURE %[1]s.file(n bigint, tok text, tx bigint) LANGUAGE plpgsql AS 'BEGIN INSERT INTO %[1]s.log VALUES (n, tok, tx); END';
INSERT INTO %[1]s.head VALUES (1, 0, 0, '', 0);
INSERT INTO %[1]s.acct SELECT g, %[3]d, '', 0 FROM generate_series(1, %[2]d) g;
INSERT INTO %[1]s.els VALUES (1, '{}', '', 0);
INSERT INTO public.issuer VALUES ('%[1]s', 0);
GRANT USAGE ON SCHEMA %[1]s TO %[4]s;
GRANT ALL ON ALL TABLES IN SCHEMA %[1]s TO %[4]s;
`, s.Fence, accounts, opening, appRole)
}

// Roles of the applications, and of the proxies and lock clients.
const appRole, controlRole = "torture_app", "torture_control"

const common = `CREATE SCHEMA ` + companion + `; CREATE TABLE ` + companion + `.log (n bigint);
GRANT USAGE ON SCHEMA ` + companion + ` TO ` + appRole + `; GRANT ALL ON ` + companion + `.log TO ` + appRole + `;
CREATE TABLE public.issuer (fence text PRIMARY KEY, n bigint); GRANT ALL ON public.issuer TO ` + appRole + `;`
