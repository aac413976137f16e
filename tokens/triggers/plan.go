package triggers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fenceproxy/fenceproxy/tokens/catalog"
)

// Config says which triggers there should be.
type Config struct {
	Fences []catalog.Fence
	Bare   string // fence that a token without a name is for; "" for none
	// Always lets the triggers fire under session_replication_role = replica and for logical replication's apply worker
	// too (ENABLE ALWAYS), which then need a token or a bypass of their own.
	Always bool
	// Watch asks for the event triggers that guard new partitions and tell the proxies of DDL. They need a superuser.
	Watch bool
}

// Step is one change.
type Step struct {
	Text string // what it does, for people
	SQL  string // statements, each with its semicolon
}

// Plan is what separates a database from a Config.
type Plan struct {
	Steps   []Step
	Tables  []TableState // what each fenced relation has now
	Notes   []string     // what Install cannot do, and why
	Watched bool         // the event triggers are there
}

// SQL is the text of all steps, one transaction for psql, which gives up as Install does. Empty without steps.
func (p *Plan) SQL(wait time.Duration) string {
	if len(p.Steps) == 0 {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "BEGIN;\nSET LOCAL search_path = pg_catalog, pg_temp;\nSET LOCAL lock_timeout = %d;\n", lockTimeout(wait))
	for _, s := range p.Steps {
		fmt.Fprintf(&b, "-- %s\n%s\n", strings.ReplaceAll(s.Text, "\n", " "), s.SQL)
	}
	b.WriteString("COMMIT;\n")
	return b.String()
}

// ErrTwoRowTokens is in the error of Compare and of Install when fences with row tokens share a table: a row has one.
var ErrTwoRowTokens = errors.New("several fences with row tokens claim it")

// wanted is a fenced relation with its fences.
type wanted struct {
	catalog.Relation
	fences  []string        // that need the statement trigger
	exposed []string        // that need the row trigger
	tokens  []catalog.Fence // that keep row tokens
}

// all are the names of its fences.
func (w *wanted) all() []string {
	list := slices.Clone(w.fences)
	for _, t := range w.tokens {
		if t.Rewrite {
			list = append(list, t.Name)
		}
	}
	return list
}

// truncates reports whether no statement trigger guards TRUNCATE for the fence that keeps its row tokens.
func (w *wanted) truncates(version int) bool {
	return len(w.tokens) > 0 && w.tokens[0].Rewrite && truncates(w.Relation, version)
}

// Compare reads what is there and lists what is to be done; it changes nothing. What is on tables of no fence is left
// alone and told in a note.
func Compare(ctx context.Context, q catalog.Querier, c Config) (*Plan, error) {
	server, err := ask(ctx, q)
	if err != nil {
		return nil, err
	}
	tree, err := catalog.ReadTree(ctx, q)
	if err != nil {
		return nil, err
	}
	present, err := read(ctx, q)
	if err != nil {
		return nil, err
	}
	p := &Plan{}
	if !server.installed {
		p.Notes = append(p.Notes, "schema fence, whose functions triggers call, is not there or too old: fenceproxy init installs it")
	}
	all, unmatched := want(tree, c.Fences)
	for _, u := range unmatched {
		p.Notes = append(p.Notes, u)
	}
	rows, tokens := map[uint32]bool{}, map[uint32]bool{}
	for _, w := range all {
		rows[w.OID], tokens[w.OID] = len(w.exposed) > 0, len(w.tokens) > 0
	}
	for _, w := range all {
		if w.Kind == catalog.View || w.Kind == catalog.Materialized {
			p.Tables = append(p.Tables, TableState{Relation: w.Relation, Fences: w.all(), Form: statement.name, State: Impossible})
			p.Notes = append(p.Notes, fmt.Sprintf("%s is a %s, which can have no guard: the tables below it need one", w.Relation, w.Kind))
			continue
		}
		if len(w.fences) > 0 {
			p.add(c, server, w, statement, w.fences, arguments(c.Bare, w.fences), present.on(w.Relation, statement), false)
		}
		parent, has := tree.PartitionParent(w.Relation)
		if len(w.exposed) > 0 {
			p.add(c, server, w, row, w.exposed, arguments(c.Bare, w.exposed), present.on(w.Relation, row), has && rows[parent.OID])
		}
		if len(w.tokens) > 1 {
			return nil, fmt.Errorf("%s: %w: %s, %s", w.Relation, ErrTwoRowTokens, w.tokens[0].Name, w.tokens[1].Name)
		}
		for _, t := range w.tokens {
			args := []string{c.Bare, t.Name, map[bool]string{true: "rewrite", false: "reject"}[t.Rewrite]}
			f := rowToken(t.RowToken, t.ScopeColumn)
			if t.Scope != "" {
				args = append(args, t.Scope)
			}
			p.add(c, server, w, f, []string{t.Name}, args, present.on(w.Relation, f), has && tokens[parent.OID])
			if w.truncates(server.version) {
				p.add(c, server, w, truncate, []string{t.Name}, arguments(c.Bare, []string{t.Name}), present.on(w.Relation, truncate), false)
			}
		}
	}
	p.strangers(present, all)
	p.watch(c, server)
	return p, nil
}

// want merges the fences' relations, parents first.
func want(tree *catalog.Tree, fences []catalog.Fence) (all []*wanted, unmatched []string) {
	at := map[uint32]*wanted{}
	for _, f := range fences {
		m := tree.Members(f)
		for _, u := range m.Unmatched {
			unmatched = append(unmatched, fmt.Sprintf("fence %s: %s matches no table", f.Name, u.Text))
		}
		for _, r := range m.All {
			w := at[r.OID]
			if w == nil {
				w = &wanted{Relation: r.Relation}
				at[r.OID] = w
				all = append(all, w)
			}
			if f.RowToken != "" {
				w.tokens = append(w.tokens, f)
			}
			if f.Rewrite {
				continue
			}
			w.fences = append(w.fences, f.Name)
			if r.Exposed {
				w.exposed = append(w.exposed, f.Name)
			}
		}
	}
	return all, unmatched
}

// add notes the state of one trigger and what makes it right. cloned: PostgreSQL makes it with the one of the parent.
func (p *Plan) add(c Config, s server, w *wanted, f form, fences, args []string, have *found, cloned bool) {
	state := judge(have, f, w.Relation, s.version, args)
	p.Tables = append(p.Tables, TableState{Relation: w.Relation, Fences: fences, Form: f.name, State: state, Always: have != nil && have.enabled == "A"})
	what := "guard"
	switch {
	case f.name == rowTokenName:
		what = "trigger of row tokens"
	case f.truncate:
		what = "guard of TRUNCATE"
	case f.row:
		what = "guard of each row"
	}
	switch {
	case cloned:
	case state == Missing:
		p.step(f.create(w.Relation, s.version, args, c.Always), "%s: create the %s (%s)", w.Relation, what, strings.Join(fences, ", "))
	case state == Altered:
		p.step(f.create(w.Relation, s.version, args, c.Always), "%s: replace the %s, which is not the one it should be (%s)", w.Relation, what, strings.Join(fences, ", "))
	case state == Disabled:
		p.step(f.enable(w.Relation, c.Always), "%s: enable the %s", w.Relation, what)
	case c.Always != (have.enabled == "A"):
		p.step(f.enable(w.Relation, c.Always), "%s: let the %s fire %s", w.Relation, what, map[bool]string{true: "always", false: "for sessions of origin only"}[c.Always])
	}
}

func (p *Plan) step(sql, format string, args ...any) {
	p.Steps = append(p.Steps, Step{Text: fmt.Sprintf(format, args...), SQL: sql})
}

// strangers are triggers of ours where no fence wants them.
func (p *Plan) strangers(present tables, all []*wanted) {
	expected := map[uint32]*wanted{}
	for _, w := range all {
		expected[w.OID] = w
	}
	var names []string
	for oid, list := range present {
		for _, t := range list {
			w := expected[oid]
			wanted := w != nil && (t.name == statementName && len(w.fences) > 0 || t.name == rowName && len(w.exposed) > 0 || t.name == rowTokenName && len(w.tokens) > 0 ||
				t.name == truncateName && len(w.tokens) > 0 && w.tokens[0].Rewrite)
			if t.clone || t.function == "" || wanted {
				continue
			}
			names = append(names, fmt.Sprintf("%s has a trigger %s that the configuration does not ask for", pgx.Identifier{t.schema, t.relation}.Sanitize(), t.name))
		}
	}
	slices.Sort(names)
	p.Notes = append(p.Notes, names...)
}
