package catalog

import (
	"fmt"
	"strings"
	"testing"

	"github.com/fenceproxy/fenceproxy/test/pgtest"
)

const ways = `
CREATE TABLE t (id int PRIMARY KEY, v int NOT NULL DEFAULT 0, g int GENERATED ALWAYS AS (id + 1) STORED, s varchar(10));
CREATE TABLE plain (id int PRIMARY KEY, note text);
CREATE TABLE part (id int, v int) PARTITION BY RANGE (id);
CREATE TABLE part_1 PARTITION OF part FOR VALUES FROM (0) TO (10) PARTITION BY RANGE (id);
CREATE TABLE part_1a PARTITION OF part_1 FOR VALUES FROM (0) TO (5);
CREATE TABLE whole (id int) PARTITION BY RANGE (id); CREATE TABLE whole_1 PARTITION OF whole FOR VALUES FROM (0) TO (10);
CREATE TABLE up (id int PRIMARY KEY, k int UNIQUE); CREATE TABLE upper (id int PRIMARY KEY);
ALTER TABLE up ADD u int CONSTRAINT up_upper REFERENCES upper ON DELETE CASCADE;
ALTER TABLE t ADD up int CONSTRAINT t_up REFERENCES up ON DELETE CASCADE, ADD k int CONSTRAINT t_k REFERENCES up (k) ON UPDATE SET NULL;
CREATE TABLE kept (id int PRIMARY KEY); ALTER TABLE t ADD kept int CONSTRAINT t_kept REFERENCES kept;
CREATE VIEW seen AS SELECT id, v FROM t WHERE id IN (SELECT id FROM plain);
CREATE VIEW seen_again AS SELECT * FROM seen;
CREATE VIEW looked_up AS SELECT * FROM plain WHERE id IN (SELECT id FROM t);
CREATE VIEW summed AS SELECT count(*) FROM t; CREATE VIEW grouped AS SELECT v FROM t GROUP BY v; CREATE VIEW filtered AS SELECT 1 FROM t HAVING true;
CREATE VIEW different AS SELECT DISTINCT v FROM t; CREATE VIEW both_of AS SELECT v FROM t UNION ALL SELECT v FROM t; CREATE VIEW first AS SELECT v FROM t LIMIT 3;
CREATE VIEW later AS SELECT v FROM t OFFSET 3; CREATE VIEW ranked AS SELECT rank() OVER () FROM t; CREATE VIEW many AS SELECT generate_series(1, v) FROM t;
CREATE VIEW named AS WITH w AS (SELECT 1) SELECT v FROM t; CREATE VIEW sets AS SELECT v FROM t GROUP BY GROUPING SETS ((v), ());
CREATE MATERIALIZED VIEW m AS SELECT * FROM t;
CREATE FUNCTION touch(i int) RETURNS int LANGUAGE sql AS 'UPDATE T SET v = v + 1 WHERE id = i RETURNING v';
CREATE FUNCTION touch_atomic(i int) RETURNS int LANGUAGE sql BEGIN ATOMIC UPDATE t SET v = v + 1 WHERE id = i RETURNING v; END;
CREATE FUNCTION reads_atomic(i int) RETURNS int LANGUAGE sql BEGIN ATOMIC SELECT v FROM t WHERE id = i; END;
CREATE FUNCTION calls_atomic(i int) RETURNS int LANGUAGE sql BEGIN ATOMIC SELECT touch(i); END;
CREATE FUNCTION reads(i int) RETURNS int LANGUAGE sql AS 'SELECT v FROM t WHERE id = i';
CREATE FUNCTION calls(i int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT touch(i)';
CREATE FUNCTION quoted(i int) RETURNS void LANGUAGE plpgsql AS 'BEGIN DELETE FROM public."t"; END';
CREATE FUNCTION by_view(i int) RETURNS void LANGUAGE plpgsql AS 'BEGIN DELETE FROM seen; END';
CREATE FUNCTION part(i bigint) RETURNS int LANGUAGE sql AS 'UPDATE part SET v = v + 1 WHERE id = i RETURNING v';
CREATE FUNCTION seen(i bigint) RETURNS void LANGUAGE plpgsql AS 'BEGIN DELETE FROM seen; END';
CREATE FUNCTION plain(i bigint) RETURNS int LANGUAGE sql AS 'SELECT 1';
CREATE FUNCTION by_default(i int DEFAULT touch(1)) RETURNS int LANGUAGE sql AS 'SELECT 1';
CREATE FUNCTION step(a int, b int) RETURNS int LANGUAGE sql AS 'SELECT touch(b)'; CREATE AGGREGATE aggregated(int) (SFUNC = step, STYPE = int);
CREATE FUNCTION elsewhere(i int) RETURNS void LANGUAGE plpgsql AS 'BEGIN DELETE FROM plain; END';
CREATE FUNCTION dynamic(x text) RETURNS void LANGUAGE plpgsql AS 'BEGIN EXECUTE ''DELETE FROM '' || x; END';
CREATE FUNCTION length(i int) RETURNS int LANGUAGE sql AS 'SELECT touch(i)';
CREATE FUNCTION abs(t text) RETURNS int LANGUAGE sql AS 'SELECT 1';
CREATE PROCEDURE proc() LANGUAGE plpgsql AS 'BEGIN INSERT INTO part VALUES (1); COMMIT; END';
CREATE FUNCTION odd_write() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM touch(1); RETURN NEW; END';
CREATE TABLE triggered (id int); CREATE TRIGGER g AFTER INSERT OR DELETE ON triggered FOR EACH ROW EXECUTE FUNCTION odd_write();
CREATE VIEW odd AS SELECT id FROM plain; CREATE TRIGGER o INSTEAD OF UPDATE ON odd FOR EACH ROW EXECUTE FUNCTION odd_write();
CREATE TABLE ruled (id int); CREATE RULE r AS ON INSERT TO ruled DO ALSO UPDATE t SET v = v + 1 WHERE t.id = NEW.id;
CREATE RULE harmless AS ON DELETE TO ruled DO ALSO INSERT INTO plain VALUES (1);
CREATE TABLE lazy (id int, v int DEFAULT touch(1)); CREATE TABLE checked (id int CONSTRAINT c CHECK (touch(id) > 0));
CREATE TABLE indexed (id int); CREATE INDEX i ON indexed (calls(id));
CREATE TABLE policed (id int); CREATE POLICY p ON policed USING (touch(id) > 0);
CREATE DOMAIN dom AS int CONSTRAINT dc CHECK (touch(VALUE) > 0); CREATE TABLE domained (d dom);
CREATE VIEW calling AS SELECT touch(id) FROM plain; CREATE VIEW calling_again AS SELECT * FROM calling;
CREATE OPERATOR ### (FUNCTION = touch, RIGHTARG = int);
CREATE TYPE ty AS (a int); CREATE FUNCTION to_ty(int) RETURNS ty LANGUAGE sql AS 'SELECT ROW(touch($1))::ty'; CREATE CAST (int AS ty) WITH FUNCTION to_ty(int) AS IMPLICIT;
`

// Everything that leads to a fence, and what does not. Each line of the schema above has its verdict here.
func TestWhatLeadsToAFence(t *testing.T) {
	pgtest.EachVersion(t, func(t *testing.T, i pgtest.Installation) {
		c := pgtest.Start(t, pgtest.WithInstallation(i))
		db := c.NewDatabase(t)
		c.Exec(t, db, ways)
		s := mustRead(t, c.Connect(t, db, "postgres"), fence("t", "part", "whole_1", "nowhere"))
		if s.Database != db {
			t.Errorf("database %s", s.Database)
		}
		wantText(t, s.Fences[0].text(), `
p part
r t
r whole_1 exposed
p part_1 below part
r part_1a below part_1
route calling: SELECT by view
route calling_again: SELECT by view
route checked: INSERT, UPDATE by check c
route domained: INSERT, UPDATE by domain dom
route indexed: INSERT, UPDATE by index i
route kept: TRUNCATE by foreign key t_kept
route lazy: INSERT, UPDATE by a default or generated column
route odd: UPDATE by trigger o
route policed: INSERT, UPDATE, DELETE, SELECT by policy p
route ruled: INSERT by rule r
route seen: INSERT, UPDATE, DELETE by view
route seen_again: INSERT, UPDATE, DELETE by view
route triggered: INSERT, DELETE by trigger g
route up: UPDATE, DELETE, TRUNCATE by foreign key t_k + foreign key t_up
route upper: DELETE, TRUNCATE by foreign key up_upper
route whole: INSERT, UPDATE, DELETE, TRUNCATE by inheritance
function aggregated
function by_default
function by_view
function calls
function calls_atomic
function length
function odd_write
function part
function proc
function quoted
function seen
function step
function to_ty
function touch
function touch_atomic`)
		wantText(t, fmt.Sprint(append(s.Fences[0].Children(), s.Fences[0].Views()...)), "[[public part_1] [public part_1a] [public odd] [public seen] [public seen_again]]")
		if u := s.Fences[0].Unmatched; len(u) != 1 || u[0].Text != "nowhere" {
			t.Errorf("unmatched: %v", u)
		}
		var lines []string
		for _, i := range s.Invisible {
			lines = append(lines, i.Fence+": "+i.Text)
		}
		wantText(t, strings.Join(lines, "\n"), `
f: cast from integer to public.ty calls function "public"."to_ty"(integer)
f: constraint dc calls function "public"."touch"(i integer)
f: operator public.###(NONE,integer) calls function "public"."touch"(i integer)
f: function "public"."length"(i integer) has the name of a built-in function
: function "public"."dynamic"(x text) runs SQL that it makes up: it may write anything`)
		wantText(t, columns(s.Columns("public", "t")), "id integer!, v integer!, g integer generated, s character varying(10), up integer, k integer, kept integer")
		wantText(t, s.Columns("public", "t")[3].Base, "character varying")
		wantText(t, columns(s.Columns("public", "part_1a")), "id integer, v integer")
		wantText(t, columns(s.Columns("", "part_1a")), "id integer, v integer")
		c.Exec(t, db, "CREATE SCHEMA other; CREATE TABLE other.part_1a (v int, id int); CREATE TABLE other.part (id int, v int)")
		s = mustRead(t, c.Connect(t, db, "postgres"), fence("part"))
		wantText(t, columns(s.Columns("", "part_1a")), "") // which one the session means, nobody knows
		wantText(t, columns(s.Columns("other", "part_1a")), "v integer, id integer")
		wantText(t, columns(s.Columns("", "part")), "id integer, v integer")
		if got := s.Columns("public", "plain"); got != nil {
			t.Errorf("columns of a table of no fence: %v", got)
		}
	})
}

func columns(list []Column) string {
	var out []string
	for _, c := range list {
		text := c.Name + " " + c.Type
		for word, has := range map[string]bool{"!": c.NotNull} {
			if has {
				text += word
			}
		}
		if c.Stamped {
			text += " stamped"
		}
		if c.Generated {
			text += " generated"
		}
		out = append(out, text)
	}
	return strings.Join(out, ", ")
}
