package dbcheck

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/config"
	"github.com/fenceproxy/fenceproxy/tokens/catalog"
	"github.com/fenceproxy/fenceproxy/tokens/triggers"
)

// Fences are the configuration's fences as the catalog's packages take them.
func Fences(fences []config.Fence) []catalog.Fence {
	list := make([]catalog.Fence, len(fences))
	for i, f := range fences {
		list[i].Name, list[i].RowToken, list[i].Rewrite = f.Name, f.Column(), f.OnStale == config.OnStaleRewrite
		if before, rest, has := strings.Cut(f.Scope, "{"); has {
			_, after, _ := strings.Cut(rest, "}")
			list[i].Scope, list[i].ScopeColumn = before+"{}"+after, f.ScopeColumn()
		}
		for _, p := range f.Patterns() {
			list[i].Tables = append(list[i].Tables, catalog.Pattern{Schema: p.Schema, Table: p.Table, Text: p.Text})
		}
	}
	return list
}

// Description is what the database has of the fences: lines for people, and what is wrong with the triggers.
type Description struct {
	Lines    []string
	Findings []Finding
}

// Describe tells for each fence its relations with their triggers, what leads to it, and what no text shows. It reads
// the catalog once; bare is the fence of bare tokens.
func Describe(ctx context.Context, conn *pgx.Conn, fences []config.Fence, bare string) (*Description, error) {
	snapshot, err := catalog.Read(ctx, conn, Fences(fences))
	if err != nil {
		return nil, err
	}
	plan, err := triggers.Compare(ctx, conn, triggers.Config{Fences: Fences(fences), Bare: bare})
	if errors.Is(err, triggers.ErrTwoRowTokens) {
		return &Description{Findings: []Finding{{Problem, err.Error() + "; every write to it is refused"}}}, nil
	}
	if err != nil {
		return nil, err
	}
	d := &Description{}
	states := map[uint32][]triggers.TableState{}
	used := plan.Watched
	for _, t := range plan.Tables {
		states[t.Relation.OID] = append(states[t.Relation.OID], t)
		used = used || t.State == triggers.Present || t.State == triggers.Disabled || t.State == triggers.Altered
	}
	for _, f := range snapshot.Fences {
		d.fence(f, states)
		for _, i := range snapshot.Invisible {
			if i.Fence == f.Fence {
				d.line("  no text shows: %s", i.Text)
			}
		}
	}
	for _, i := range snapshot.Invisible {
		if i.Fence == "" {
			d.line("any fence: %s", i.Text)
		}
	}
	d.triggers(plan, used)
	d.Findings = append(d.Findings, columnFindings(rowColumns(snapshot, fences))...)
	return d, nil
}

func (d *Description) line(format string, args ...any) {
	d.Lines = append(d.Lines, fmt.Sprintf(format, args...))
}

func (d *Description) fence(f catalog.FenceView, states map[uint32][]triggers.TableState) {
	d.line("fence %s:", f.Fence)
	for _, m := range f.All {
		what := m.Kind.String()
		if m.Named == nil {
			what += " below " + m.Parent.String()
		}
		for _, t := range states[m.OID] {
			if slices.Contains(t.Fences, f.Fence) {
				what += ", " + trigger(t)
			}
		}
		d.line("  %s: %s", m.Relation, what)
	}
	for _, r := range f.Routes {
		d.line("  written through %s: %s (%s)", r.Relation, r.Events, strings.Join(r.Via, ", "))
	}
	for _, fn := range f.Functions {
		d.line("  written by function %s", fn)
	}
}

func trigger(t triggers.TableState) string {
	text := "trigger "
	if t.Form != "fence_guard" {
		text = "trigger for each row "
	}
	switch t.State {
	case triggers.Impossible:
		return "no trigger possible"
	case triggers.Missing:
		return "no " + strings.TrimSuffix(text, " ")
	}
	text += t.State.String()
	if t.State == triggers.Present && t.Always {
		text += ", fires always"
	}
	return text
}

// triggers turns what is not right into findings. A database without any triggers may be meant to have none.
func (d *Description) triggers(p *triggers.Plan, used bool) {
	if !used {
		d.Findings = append(d.Findings, Finding{Notice, "no triggers: writes that no statement's text shows, and those past the proxy, are not fenced (fenceproxy init --triggers)"})
		return
	}
	for _, t := range p.Tables {
		if t.State == triggers.Missing || t.State == triggers.Disabled || t.State == triggers.Altered {
			d.Findings = append(d.Findings, Finding{Problem, fmt.Sprintf("fence %s: %s: %s; run fenceproxy init --triggers", strings.Join(t.Fences, ", "), t.Relation, trigger(t))})
		}
	}
	for _, note := range p.Notes {
		if strings.Contains(note, "has a trigger") {
			d.Findings = append(d.Findings, Finding{Notice, note})
		}
	}
	if !p.Watched {
		d.Findings = append(d.Findings, Finding{Notice, "no event triggers: partitions and children that are created later have no guard until fenceproxy init --triggers runs again"})
	}
}
