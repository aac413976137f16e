package torture

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// actor holds one fence again and again, by the rules that an application should follow:
//   - what it knows, it has read after its token was acknowledged;
//   - when it cannot tell whether a commit has happened, it takes the lock anew before it believes anything.
//
// That it has lost the lock it does not notice: it is the zombie of the story.
type actor struct {
	*worker
	part
	name   string
	random *rand.Rand

	server *pgx.Conn // direct
	conn   *pgx.Conn // through a proxy; may outlive tenures, as a pool's connections do
	via    int       // which proxy
	paired bool      // the session has the companion's token too
	hold   holder
}

func (a *actor) run(ctx context.Context) {
	defer a.disconnect()
	defer func() {
		if a.server != nil {
			a.server.Close(context.Background())
		}
	}()
	for ctx.Err() == nil {
		if a.Service == psql {
			a.psqlTenure(ctx)
			continue
		}
		from := now()
		t, err := a.acquire(ctx)
		if err != nil {
			pause(ctx, 20*time.Millisecond)
			continue
		}
		if t.lease != nil { // the lease table has raised; etcd's token is raised when it is presented
			outcome := Done
			if a.Service == etcd {
				outcome = Unknown
			}
			a.tell(Event{From: from, To: now(), Who: a.name, Fence: a.Fence, Token: t.token, Op: Raise, Outcome: outcome, Shape: "lock"})
		}
		a.maybeHold("after acquire", t)
		a.tenure(ctx, t)
		t.release()
		pause(ctx, time.Duration(a.random.Int64N(int64(a.Rest))))
	}
}

func (a *actor) tenure(ctx context.Context, t *tenure) {
	p, ok := a.present(t)
	if !ok {
		return
	}
	a.maybeHold("after announce", t)
	if p != presentLocally && !a.read(t, p) {
		return
	}
	for range 1 + a.random.IntN(a.Tenure) {
		if ctx.Err() != nil {
			return
		}
		switch a.transact(t, p) {
		case Done:
			a.pause(ctx, 5)
		case Failed:
			if a.conn == nil { // with it went what was prepared and set
				return
			}
		case Unknown:
			return
		case Refused:
			if a.random.Float64() >= a.Stubborn {
				return
			}
			if a.conn == nil {
				return
			}
		}
	}
}

// How a token reaches the session.
type presentation string

const (
	presentAtStartup presentation = "startup"
	presentBySet     presentation = "SET"
	presentLocally   presentation = "SET LOCAL" // at the beginning of each transaction
)

// item is the token as it is written: the proxy and the database have fast paths for the usual way.
func (a *actor) item(t *tenure) string {
	n := a.random.IntN(10)
	a.paired = n == 1 || n == 2
	switch {
	case n == 0:
		return a.Fence + " = " + t.token
	case a.paired:
		return a.Fence + "=" + t.token + "," + companion + "=1"
	}
	return a.Fence + "=" + t.token
}

// present gives the token to a session: a new one, or one that has had older tokens.
func (a *actor) present(t *tenure) (p presentation, ok bool) {
	from := now()
	e := Event{From: from, Who: a.name, Fence: a.Fence, Token: t.token, Op: Raise}
	var err error
	switch n := a.random.IntN(10); {
	case n < 3 || a.conn == nil && n < 6:
		p = presentAtStartup
		a.disconnect()
		err = a.connect(a.item(t))
	default:
		p = presentBySet
		if n >= 7 {
			p = presentLocally
		}
		if a.conn == nil || a.random.IntN(4) == 0 {
			a.disconnect()
			err = a.connect("")
		}
		if p == presentLocally {
			return p, err == nil
		}
		if err == nil {
			_, err = a.conn.Exec(a.patience(), "SET fence.token = '"+a.item(t)+"'", pgx.QueryExecModeSimpleProtocol)
		}
	}
	e.To, e.Shape = now(), string(p)
	e.Outcome, e.Code = outcome(err)
	e.unsure()
	a.tell(e)
	if err != nil {
		a.disconnect()
	}
	return p, err == nil
}

// read learns the state of things under the token.
func (a *actor) read(t *tenure, p presentation) bool {
	e := Event{From: now(), Who: a.name, Fence: a.Fence, Token: t.token, Op: Read}
	err := a.readWith(a.conn, t)
	e.To, e.El = now(), t.el
	e.Outcome, e.Code = outcome(err)
	a.tell(e)
	if err != nil {
		a.disconnect()
	}
	return err == nil
}

type querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// readWith reads all in one statement, so that it is one state.
func (a *actor) readWith(q querier, t *tenure) error {
	var balances []int64
	err := q.QueryRow(a.patience(), fill(`SELECT h.el, (SELECT array_agg(bal ORDER BY id) FROM $s.acct), e.gen, e.list
		FROM $s.head h, $s.els e WHERE e.gen = (SELECT max(gen) FROM $s.els)`, a.Fence)).Scan(&t.el, &balances, &t.gen, &t.list)
	copy(t.balances[:], balances)
	return err
}

// fill puts the fence's schema into a statement.
func fill(sql, fence string) string { return strings.ReplaceAll(sql, "$s", fence) }

// connect opens a session through one of the proxies.
func (a *actor) connect(token string) error {
	a.via = a.random.IntN(len(a.Proxies))
	config, err := pgx.ParseConfig(a.Proxies[a.via])
	if err != nil {
		return err
	}
	config.ConnectTimeout = 5 * time.Second
	config.DialFunc = a.hold.dial
	if token != "" {
		config.RuntimeParams["fence.token"] = token
	}
	config.RuntimeParams["application_name"] = a.name
	conn, err := pgx.ConnectConfig(context.Background(), config)
	if err == nil {
		a.conn = conn
	}
	return err
}

func (a *actor) disconnect() {
	if a.conn != nil {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		a.conn.Close(ctx)
		a.conn = nil
	}
}

// patience bounds a statement. It is long: a stopped proxy is no reason to give up.
func (a *actor) patience() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
	context.AfterFunc(ctx, cancel)
	return ctx
}

// pause thinks for some milliseconds, mostly none.
func (a *actor) pause(ctx context.Context, most int) {
	if a.random.IntN(2) == 0 {
		pause(ctx, time.Duration(a.random.IntN(most*1000))*time.Microsecond)
	}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// maybeHold holds the actor back at a step, so that others take over meanwhile.
func (a *actor) maybeHold(step string, t *tenure) {
	if a.random.Float64() >= a.Hold {
		return
	}
	d := time.Duration(a.random.Int64N(int64(a.HoldFor)))
	e := Event{From: now(), Who: a.name, Fence: a.Fence, Token: t.token, Op: Held, Shape: step}
	time.Sleep(d)
	e.To = now()
	a.tell(e)
}

// outcome of something that was sent: an error of the server is certain, unless it ended the session.
func outcome(err error) (Outcome, string) {
	if err == nil {
		return Done, ""
	}
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return Unknown, ""
	}
	switch {
	case strings.HasPrefix(pg.Code, "ZF"):
		return Refused, pg.Code
	case pg.Severity == "FATAL" || pg.Severity == "PANIC":
		return Unknown, pg.Code
	}
	return Failed, pg.Code
}

func decimal(n int64) string { return strconv.FormatInt(n, 10) }
