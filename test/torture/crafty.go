package torture

import (
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
)

// crafty does what no driver does. It sends messages in an order in which a definition that the server skips after an error
// stands between a write and its execution, so that who believes the definition lets the write pass without a guard. Or it
// finds the statements that a proxy has prepared in its session, and prepares something harmless under their names.
func (a *actor) crafty(t *tenure, tx int64) (c change, sent bool, err error) {
	for c = a.logged(t, tx); c.name != "INSERT"; {
		c = a.logged(t, tx)
	}
	write := c.statements[0].text()
	query := func(sql string) error { return a.raw(1, &pgproto3.Query{String: sql}) }
	if a.random.IntN(3) == 0 {
		c.name = "crafty: statements that are not its own"
		if err := query(prepareAnew); err != nil {
			return c, false, err
		}
		a.maybeHold("after Parse", t)
		if a.random.IntN(2) == 0 {
			return c, true, query(write)
		}
		return c, true, a.raw(1, &pgproto3.Parse{Query: write}, &pgproto3.Bind{}, &pgproto3.Execute{}, &pgproto3.Sync{})
	}
	fail := &pgproto3.Execute{Portal: "nope"}
	sync := &pgproto3.Sync{}
	if a.random.IntN(2) == 0 {
		c.name = "crafty: a Parse that is skipped"
		if err := a.raw(1, &pgproto3.Parse{Query: write}, sync); err != nil {
			return c, false, err
		}
		a.maybeHold("after Parse", t)
		// At one go: what is believed before the first reply is what counts.
		return c, true, a.raw(2, fail, &pgproto3.Parse{Query: "SELECT 1"}, sync, &pgproto3.Bind{}, &pgproto3.Execute{}, sync)
	}
	c.name = "crafty: a portal whose exchange is rolled back"
	st, sel := fmt.Sprint("w", tx), fmt.Sprint("s", tx)
	for _, step := range []func() error{
		func() error {
			return a.raw(1, &pgproto3.Parse{Name: st, Query: write}, &pgproto3.Parse{Name: sel, Query: "SELECT 1"}, sync)
		},
		func() error { return query("BEGIN") },
		func() error {
			return a.raw(1, &pgproto3.Bind{DestinationPortal: "p", PreparedStatement: st}, sync)
		},
		func() error { return query("SAVEPOINT s") },
		func() error {
			a.maybeHold("after Bind", t)
			a.raw(1, fail, &pgproto3.Close{ObjectType: 'P', Name: "p"}, &pgproto3.Bind{DestinationPortal: "p", PreparedStatement: sel}, sync)
			return query("ROLLBACK TO s")
		},
		func() error { return a.raw(1, &pgproto3.Execute{Portal: "p"}, sync) },
	} {
		if err := step(); err != nil {
			return c, false, err
		}
	}
	a.maybeHold("before COMMIT", t)
	return c, true, a.commit("COMMIT")
}

const prepareAnew = `DO $$ DECLARE s record; BEGIN
  FOR s IN SELECT name, array_to_string(parameter_types, ',') AS types FROM pg_prepared_statements WHERE name LIKE '\_fence\_%' LOOP
    EXECUTE format('DEALLOCATE %I', s.name);
    EXECUTE format('PREPARE %I%s AS SELECT 1', s.name, '(' || nullif(s.types, '') || ')');
  END LOOP; END $$`

// raw sends messages and reads up to the n-th ReadyForQuery; it returns the first error behind the one before.
func (a *actor) raw(n int, messages ...pgproto3.FrontendMessage) error {
	c := a.conn.PgConn()
	for _, m := range messages {
		c.Frontend().Send(m)
	}
	if err := c.Frontend().Flush(); err != nil {
		c.Conn().Close()
		return err
	}
	c.Conn().SetReadDeadline(time.Now().Add(15 * time.Second))
	defer c.Conn().SetReadDeadline(time.Time{})
	var first error
	for n > 0 {
		m, err := c.ReceiveMessage(a.patience())
		if err != nil {
			if pg, ok := err.(*pgconn.PgError); ok && first == nil { // FATAL
				return pg
			}
			c.Conn().Close()
			return err
		}
		switch m := m.(type) {
		case *pgproto3.ErrorResponse:
			if first == nil {
				first = pgconn.ErrorResponseToPgError(m)
			}
		case *pgproto3.ReadyForQuery:
			if n--; n > 0 {
				first = nil
			}
		}
	}
	return first
}
