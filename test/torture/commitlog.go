package torture

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
)

// slot is the replication slot that the commit log is read from.
const slot = "torture"

// Commit is a committed transaction as logical decoding shows it. Commits come in the order of their commit records.
type Commit struct {
	At      int64 // when it was read, now()
	LSN     string
	Changes []Row
}

// Row is one changed row: the new version.
type Row struct {
	Fence, Table, Kind string
	Columns            map[string]string // NULL is ""
}

func (r Row) number(column string) int64 {
	n, _ := strconv.ParseInt(r.Columns[column], 10, 64)
	return n
}

// readCommits takes what has been committed since the last call.
func readCommits(ctx context.Context, c *pgx.Conn) ([]Commit, error) {
	rows, err := c.Query(ctx, "SELECT lsn::text, data FROM pg_logical_slot_get_changes($1, NULL, 20000, 'skip-empty-xacts', '1', 'include-xids', '0')", slot)
	if err != nil {
		return nil, err
	}
	var all []Commit
	var open *Commit
	at := now()
	var lsn, data string
	_, err = pgx.ForEachRow(rows, []any{&lsn, &data}, func() error {
		switch {
		case strings.HasPrefix(data, "BEGIN"):
			open = &Commit{At: at}
		case strings.HasPrefix(data, "COMMIT"):
			open.LSN = lsn
			all = append(all, *open)
			open = nil
		default:
			r, ok, err := parseRow(data)
			if err != nil {
				return err
			}
			if ok {
				open.Changes = append(open.Changes, r)
			}
		}
		return nil
	})
	return all, err
}

var (
	rowHead = regexp.MustCompile(`^table (\w+)\.(\w+): (INSERT|UPDATE|DELETE|TRUNCATE): ?`)
	rowCell = regexp.MustCompile(`(\w+)\[([^\]]*(?:\[\])?)\]:('(?:[^']|'')*'|\S+)`)
)

// parseRow reads a line of test_decoding. Tables that no judge looks at are left out.
func parseRow(line string) (r Row, ok bool, err error) {
	m := rowHead.FindStringSubmatch(line)
	if m == nil {
		return r, false, fmt.Errorf("the commit log has a line that was not understood: %s", line)
	}
	r = Row{Fence: m[1], Table: m[2], Kind: m[3], Columns: map[string]string{}}
	if r.Fence == "public" || r.Fence == "fence" && r.Table != "mark" {
		return r, false, nil
	}
	for _, cell := range rowCell.FindAllStringSubmatch(line[len(m[0]):], -1) {
		v := cell[3]
		if v == "null" {
			v = ""
		}
		if strings.HasPrefix(v, "'") {
			v = strings.ReplaceAll(v[1:len(v)-1], "''", "'")
		}
		r.Columns[cell[1]] = v
	}
	return r, true, nil
}

// position is a token's place in the order: epoch, then counter.
type position struct{ epoch, counter int64 }

func (p position) below(q position) bool {
	return p.epoch < q.epoch || p.epoch == q.epoch && p.counter < q.counter
}

func (p position) String() string {
	if p.epoch == 0 {
		return decimal(p.counter)
	}
	return fmt.Sprintf("%d.%d", p.epoch, p.counter)
}

// parsePosition reads [epoch.]counter. It is not package tokens' parser: the judges share no code with the product.
func parsePosition(s string) (p position, err error) {
	e, c, two := strings.Cut(s, ".")
	if !two {
		e, c = "0", s
	}
	if p.epoch, err = strconv.ParseInt(e, 10, 64); err != nil {
		return p, err
	}
	p.counter, err = strconv.ParseInt(c, 10, 64)
	return p, err
}
