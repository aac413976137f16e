package sidecar

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// commit is a transaction as logical decoding shows it: in the order of the commit records.
type commit struct {
	at     time.Time // the server's clock
	marks  []position
	writes []write
}

// write is a row of the ledger. Its columns are filled by defaults of the table, so the writers are what they were.
type write struct {
	token  position
	writer string
	at     time.Time // the server's clock, behind the guard
}

// position is a token's place in the order: epoch, then counter.
type position struct{ epoch, counter int64 }

func (p position) below(q position) bool {
	return p.epoch < q.epoch || p.epoch == q.epoch && p.counter < q.counter
}

func (p position) String() string { return fmt.Sprintf("%d.%d", p.epoch, p.counter) }

// parsePosition reads NAME=[epoch.]counter. It is not the product's parser: a judge has its own.
func parsePosition(s string) (p position) {
	_, s, _ = strings.Cut(s, "=")
	e, c, two := strings.Cut(s, ".")
	if !two {
		e, c = "0", s
	}
	p.epoch, _ = strconv.ParseInt(e, 10, 64)
	p.counter, _ = strconv.ParseInt(c, 10, 64)
	return p
}

// tenure is what was committed under one token.
type tenure struct {
	token       position
	writer      string
	raised      time.Time // of the mark
	first, last time.Time // commits
	commits     int
}

// record judges the commits as they come. Its methods may be called concurrently.
type record struct {
	mu       sync.Mutex
	mark     position
	raised   time.Time
	tenures  []tenure
	before   time.Time // last commit of all tenures but the present one
	commits  int
	findings []string
}

func (r *record) violated(format string, args ...any) {
	r.findings = append(r.findings, fmt.Sprintf(format, args...))
}

func (r *record) enter(c commit) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, m := range c.marks {
		if m.below(r.mark) {
			r.violated("the mark went down from %v to %v", r.mark, m)
		}
		r.mark, r.raised = m, c.at
	}
	for _, w := range c.writes {
		r.judge(c, w)
	}
}

func (r *record) judge(c commit, w write) {
	r.commits++
	switch {
	case w.token == position{}:
		r.violated("%s has written without a token", w.writer)
		return
	case w.token.below(r.mark):
		r.violated("stale write: %s committed under token %v after the mark was raised to %v", w.writer, w.token, r.mark)
	case r.mark.below(w.token):
		r.violated("%s committed under token %v while the mark was %v", w.writer, w.token, r.mark)
	}
	last := len(r.tenures) - 1
	if last >= 0 && w.token.below(r.tenures[last].token) {
		r.violated("tokens decrease: %s committed under %v after %s under %v", w.writer, w.token, r.tenures[last].writer, r.tenures[last].token)
		return
	}
	if last < 0 || r.tenures[last].token.below(w.token) {
		if last >= 0 {
			r.before = r.tenures[last].last
		}
		r.tenures = append(r.tenures, tenure{token: w.token, writer: w.writer, raised: r.raised, first: c.at})
		last++
	}
	t := &r.tenures[last]
	if t.writer != w.writer {
		r.violated("two writers under token %v: %s and %s", w.token, t.writer, w.writer)
	}
	if w.at.Before(r.before) {
		r.violated("two write at a time: %s wrote under %v at %v, an older token committed until %v", w.writer, w.token, w.at, r.before)
	}
	t.commits++
	if t.last.Before(c.at) {
		t.last = c.at
	}
}

// present is the last tenure that has committed.
func (r *record) present() (t tenure) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := len(r.tenures); n > 0 {
		t = r.tenures[n-1]
	}
	return t
}

const decoding = "sidecar"

// follow reads the database's record until the test ends. The function that is returned reads what is left.
func (r *record) follow(t *testing.T, p *place) (finish func()) {
	conn := p.c.Connect(t, p.db, "postgres")
	slot := decoding + "_" + p.db
	if _, err := conn.Exec(ctx, "SELECT pg_create_logical_replication_slot($1, 'test_decoding')", slot); err != nil {
		t.Fatal(err)
	}
	stop, done := context.WithCancel(ctx)
	over := make(chan struct{})
	go func() {
		defer close(over)
		for more := true; more; {
			more = stop.Err() == nil // once more after the end
			if err := r.read(conn, slot); err != nil {
				t.Errorf("the record cannot be read: %v", err)
				return
			}
			select {
			case <-stop.Done():
			case <-time.After(50 * time.Millisecond):
			}
		}
	}()
	finish = sync.OnceFunc(func() {
		done()
		<-over
	})
	t.Cleanup(func() {
		finish()
		if _, err := p.c.Connect(t, p.db, "postgres").Exec(ctx, "SELECT pg_drop_replication_slot($1)", slot); err != nil {
			t.Errorf("drop the slot: %v", err)
		}
	})
	return finish
}

var (
	decoded = regexp.MustCompile(`^table (\w+\.\w+): (\w+): `)
	cell    = regexp.MustCompile(`(\w+)\[[^\]]*\]:('(?:[^']|'')*'|\S+)`)
)

func (r *record) read(conn *pgx.Conn, slot string) error {
	const options = "'skip-empty-xacts', '1', 'include-xids', '0', 'include-timestamp', '1'"
	for {
		rows, err := conn.Query(ctx, "SELECT data FROM pg_logical_slot_get_changes($1, NULL, 5000, "+options+")", slot)
		if err != nil {
			return err
		}
		var c commit
		var line string
		tag, err := pgx.ForEachRow(rows, []any{&line}, func() error {
			switch {
			case strings.HasPrefix(line, "BEGIN"):
				c = commit{}
			case strings.HasPrefix(line, "COMMIT (at "):
				c.at = moment(strings.TrimSuffix(line[len("COMMIT (at "):], ")"))
				if c.at.IsZero() {
					return fmt.Errorf("no time in %q", line)
				}
				r.enter(c)
			default:
				c.take(line)
			}
			return nil
		})
		if err != nil || tag.RowsAffected() == 0 {
			return err
		}
	}
}

func (c *commit) take(line string) {
	m := decoded.FindStringSubmatch(line)
	if m == nil {
		return
	}
	columns := map[string]string{}
	for _, f := range cell.FindAllStringSubmatch(line[len(m[0]):], -1) {
		columns[f[1]] = strings.Trim(f[2], "'")
	}
	switch {
	case m[1] == "fence.mark" && columns["name"] == "acct":
		c.marks = append(c.marks, parsePosition("="+columns["epoch"]+"."+columns["token"]))
	case m[1] == "public.ledger" && m[2] == "INSERT":
		c.writes = append(c.writes, write{parsePosition(columns["tok"]), columns["writer"], moment(columns["at"])})
	}
}

func moment(s string) time.Time {
	t, _ := time.Parse("2006-01-02 15:04:05.999999-07", s)
	return t
}

// The judge sees what it is there for.
func TestRecordJudges(t *testing.T) {
	at := func(ms int64) time.Time { return time.UnixMilli(ms) }
	raise := func(c int64) commit { return commit{marks: []position{{0, c}}} }
	wrote := func(c int64, who string, ms int64) commit {
		return commit{at: at(ms + 1), writes: []write{{position{0, c}, who, at(ms)}}}
	}
	for _, c := range []struct {
		what    string
		commits []commit
		want    string
	}{
		{"in order", []commit{raise(3), wrote(3, "a", 10), raise(7), wrote(7, "b", 20)}, ""},
		{"stale", []commit{raise(3), raise(7), wrote(3, "a", 10)}, "stale write"},
		{"decrease", []commit{raise(7), wrote(7, "b", 10), wrote(3, "a", 20)}, "tokens decrease"},
		{"not raised", []commit{raise(3), wrote(7, "b", 10)}, "while the mark was"},
		{"two writers", []commit{raise(3), wrote(3, "a", 10), wrote(3, "b", 20)}, "two writers"},
		{"overlap", []commit{raise(3), wrote(3, "a", 10), raise(7), wrote(7, "b", 5)}, "two write at a time"},
		{"no token", []commit{{at: at(5), writes: []write{{position{}, "a", at(4)}}}}, "without a token"},
		{"mark down", []commit{raise(7), raise(3)}, "went down"},
	} {
		var r record
		for _, x := range c.commits {
			r.enter(x)
		}
		got := strings.Join(r.findings, "\n")
		if (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q", c.what, got)
		}
	}
}
