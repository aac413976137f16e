package torture

import (
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

var levels = []string{"READ COMMITTED", "READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"}

// transact runs one transaction under the tenure's token and tells what came of it.
func (a *actor) transact(t *tenure, p presentation) Outcome {
	tx := a.random.Int64N(1 << 62)
	level := levels[a.random.IntN(len(levels))]
	e := Event{From: now(), Who: a.name, Fence: a.Fence, Token: t.token, Op: Write, Tx: tx}
	var c change
	var err error
	var sent bool // the COMMIT
	if p == presentLocally {
		c, sent, err = a.stepwise(t, p, tx, level)
	} else {
		switch a.random.IntN(12) {
		case 3:
			c, sent, err = a.crafty(t, tx)
		case 0, 4:
			c, sent, err = a.alone(t, tx)
		case 1, 5:
			c, sent, err = a.inOneString(t, tx, level)
		case 2, 6:
			c, sent, err = a.pipelined(t, tx, level)
		default:
			c, sent, err = a.stepwise(t, p, tx, level)
		}
	}
	e.To = now()
	e.Shape, e.El, e.Prev = level+" "+c.name, c.el, c.prev
	e.Outcome, e.Code = outcome(err)
	if errors.Is(err, errRolledBack) || e.Outcome == Unknown && !sent {
		e.Outcome = Failed
	}
	if e.Outcome == Done && c.learn != nil {
		c.learn(t)
	}
	a.tell(e)
	if err != nil && (a.conn.IsClosed() || !a.quiet()) {
		a.disconnect()
	}
	return e.Outcome
}

var errRolledBack = errors.New("COMMIT of a failed transaction")

// quiet leaves no transaction behind.
func (a *actor) quiet() bool {
	if a.conn.PgConn().TxStatus() == 'I' {
		return true
	}
	_, err := a.conn.Exec(a.patience(), "ROLLBACK", pgx.QueryExecModeSimpleProtocol)
	return err == nil
}

// stepwise sends one statement after the other, as most applications do, with pauses, savepoints and two-phase commit.
func (a *actor) stepwise(t *tenure, p presentation, tx int64, level string) (c change, sent bool, err error) {
	c.name = "?"
	mode := modes[a.random.IntN(len(modes))]
	if err = a.do(statement{sql: "BEGIN ISOLATION LEVEL " + level}, pgx.QueryExecModeSimpleProtocol); err != nil {
		return c, false, err
	}
	if p == presentLocally {
		if err = a.presentInside(t); err != nil {
			return c, false, err
		}
		if err = a.readWith(a.conn, t); err != nil {
			return c, false, err
		}
	} else if a.random.IntN(2) == 0 { // a snapshot that gets old
		var n int64
		if err = a.conn.QueryRow(a.patience(), fill("SELECT count(*) FROM $s.head", a.Fence)).Scan(&n); err != nil {
			return c, false, err
		}
		a.maybeHold("after the first read", t)
	}
	c = a.change(t, tx)
	shape := mode.String()
	save := a.random.IntN(4) == 0
	if save {
		if err = a.do(statement{sql: "SAVEPOINT s"}, mode); err != nil {
			return c, false, err
		}
		if a.random.IntN(3) > 0 { // a first attempt that is taken back, its guard too
			shape += " ROLLBACK TO"
			if err = a.doAll(c.statements, mode); err != nil {
				return c, false, err
			}
			a.maybeHold("before ROLLBACK TO", t)
			if err = a.do(statement{sql: "ROLLBACK TO SAVEPOINT s"}, mode); err != nil {
				return c, false, err
			}
			a.maybeHold("after ROLLBACK TO", t)
		}
	}
	for i, s := range c.statements {
		if i > 0 {
			a.maybeHold("between statements", t)
		}
		if err = a.do(s, mode); err != nil {
			c.name += " " + shape
			return c, false, err
		}
	}
	if save && a.random.IntN(2) == 0 {
		if err = a.do(statement{sql: "RELEASE s"}, mode); err != nil {
			return c, false, err
		}
	}
	a.maybeHold("before COMMIT", t)
	if a.random.IntN(10) == 0 {
		c.name += " " + shape + " 2PC"
		sent, err = a.twoPhases(t, tx)
		return c, sent, err
	}
	c.name += " " + shape
	return c, true, a.commit("COMMIT")
}

// presentInside announces within the transaction, which has not done anything yet.
func (a *actor) presentInside(t *tenure) error {
	e := Event{From: now(), Who: a.name, Fence: a.Fence, Token: t.token, Op: Raise, Shape: string(presentLocally)}
	sql := "SET LOCAL fence.token = '" + a.item(t) + "'"
	if a.random.IntN(2) == 0 {
		sql = "SELECT set_config('fence.token', '" + a.item(t) + "', true)"
	}
	err := a.do(statement{sql: sql}, pgx.QueryExecModeSimpleProtocol)
	e.To = now()
	e.Outcome, e.Code = outcome(err)
	e.unsure()
	a.tell(e)
	return err
}

// commit reports a COMMIT that was none.
func (a *actor) commit(sql string) error {
	tag, err := a.conn.Exec(a.patience(), sql, pgx.QueryExecModeSimpleProtocol)
	if err == nil && strings.HasPrefix(tag.String(), "ROLLBACK") {
		return errRolledBack
	}
	return err
}

func (a *actor) twoPhases(t *tenure, tx int64) (sent bool, err error) {
	gid := fmt.Sprintf("'%s.%d'", a.Fence, tx)
	if err := a.commit("PREPARE TRANSACTION " + gid); err != nil {
		_, certain := err.(*pgconn.PgError)
		return !certain, err // what was prepared may still be committed by somebody, but nobody will
	}
	a.maybeHold("after PREPARE TRANSACTION", t)
	if a.random.IntN(4) == 0 {
		if err := a.commit("ROLLBACK PREPARED " + gid); err != nil {
			return false, err
		}
		return false, errRolledBack
	}
	return true, a.commit("COMMIT PREPARED " + gid)
}

// alone is one statement without a transaction block around it.
func (a *actor) alone(t *tenure, tx int64) (c change, sent bool, err error) {
	for c = a.change(t, tx); len(c.statements) != 1; {
		c = a.change(t, tx)
	}
	mode := modes[a.random.IntN(len(modes))]
	c.name += " alone " + mode.String()
	return c, true, a.do(c.statements[0], mode)
}

// inOneString sends everything in one Query message.
func (a *actor) inOneString(t *tenure, tx int64, level string) (c change, sent bool, err error) {
	c = a.batchable(t, tx)
	var text strings.Builder
	text.WriteString("BEGIN ISOLATION LEVEL " + level + ";")
	for _, s := range c.statements {
		text.WriteString(s.text() + ";")
	}
	c.name += " one string"
	text.WriteString("COMMIT")
	results, err := a.conn.PgConn().Exec(a.patience(), text.String()).ReadAll()
	if err == nil && results[len(results)-1].CommandTag.String() != "COMMIT" {
		err = errRolledBack
	}
	return c, true, err
}

// pipelined sends everything in the extended protocol with one Sync.
func (a *actor) pipelined(t *tenure, tx int64, level string) (c change, sent bool, err error) {
	c = a.batchable(t, tx)
	c.name += " pipelined"
	b := &pgx.Batch{}
	b.Queue("BEGIN ISOLATION LEVEL " + level)
	for _, s := range c.statements {
		b.Queue(s.sql, s.args...)
	}
	b.Queue("COMMIT")
	return c, true, a.conn.SendBatch(a.patience(), b).Close()
}

// batchable draws until it is a change that can be sent at one go.
func (a *actor) batchable(t *tenure, tx int64) change {
	for {
		c := a.change(t, tx)
		if c.name != "COPY" && c.name != "EXECUTE" && c.name != "cursor" {
			return c
		}
	}
}

func (a *actor) doAll(all []statement, mode pgx.QueryExecMode) error {
	for _, s := range all {
		if err := a.do(s, mode); err != nil {
			return err
		}
	}
	return nil
}

func (a *actor) do(s statement, mode pgx.QueryExecMode) error {
	if s.copy {
		_, err := a.conn.PgConn().CopyFrom(a.patience(), strings.NewReader(s.sql), fill("COPY $s.log FROM STDIN", a.Fence))
		return err
	}
	if strings.HasPrefix(s.sql, "FETCH") || strings.HasPrefix(s.sql, "DECLARE") {
		mode = pgx.QueryExecModeSimpleProtocol
	}
	_, err := a.conn.Exec(a.patience(), s.sql, append([]any{mode}, s.args...)...)
	if err == nil && strings.HasPrefix(s.sql, "DEALLOCATE") {
		a.conn.DeallocateAll(a.patience()) // pgx must not count on what is gone
	}
	return err
}
