package tokens

import (
	"context"
	"testing"

	"github.com/fenceproxy/fenceproxy/test/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

func TestTry(t *testing.T) {
	c := pgtest.Shared(t)
	db := c.NewDatabase(t)
	conn := c.Connect(t, db, "postgres")
	for range 2 {
		r, err := Install(context.Background(), conn)
		t.Log(r, err)
	}
	for _, q := range []string{"select xmax::text from fence.mark", "select raised::text from fence.raise('a',0,33,'h',null)", "select raised::text from fence.raise('a',0,34,'h',100)", "select raised::text from fence.raise('a',0,34,'h',100)", "select xmax::text from fence.mark",
		"select fence.guard('{a}','a')", "set fence.token='34'", "select fence.guard('{a}','a')", "select fence.guard1('a',1,'34',0,34,'a')", "set fence.token='a=34'", "select fence.guard1('a',1,'a=34',0,34,'a')", "select fence.bump_epoch('a','x')::text", "select fence.guard1('a',1,'a=34',0,34,'a')", "select fence.status(null)::text", "select fence.history::text from fence.history", SessionQuestionSQL, "select fence.blockers('a')::text"} {
		res, err := conn.PgConn().Exec(context.Background(), q).ReadAll()
		for _, x := range res {
			for _, r := range x.Rows {
				for _, v := range r {
					t.Logf("%s", v)
				}
			}
		}
		t.Log(q, err)
	}
	r, err := Uninstall(context.Background(), conn)
	t.Log(r, err)
}
